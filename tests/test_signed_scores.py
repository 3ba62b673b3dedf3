"""Judging pairs by scores of any sign: thresholds, probabilities, reports and displays."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from signed_helpers import SignedJudge, known_pairs, pairs_of

from tatml import Euclidean

# What all judges share


def test_scores_of_any_sign_are_compared_with_the_threshold():
    q, _ = known_pairs(0)
    judge, pairs = SignedJudge().fit(), pairs_of(q)
    assert_array_equal(judge.pair_score(pairs), -q)
    for threshold in (-1.5, 0.0, 0.7):
        assert judge.set_threshold(threshold).threshold_ == threshold
        assert_array_equal(judge.predict_pairs(pairs), np.where(q < threshold, 1, -1))


def test_a_threshold_of_distances_is_not_negative():
    metric = Euclidean().fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    with pytest.raises(ValueError, match=r"threshold: expected .* at least 0, got -1"):
        metric.set_threshold(-1.0)
    with pytest.raises(ValueError, match="threshold: expected a finite number, got inf"):
        SignedJudge().fit().set_threshold(np.inf)
