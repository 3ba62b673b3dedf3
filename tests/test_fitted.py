"""What is drawn or inspected must have what it takes; the error says what is missing."""

import pytest
from estimators_helpers import labelled, labelled_pairs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from tatml import TATML, Euclidean
from tatml._estimators.inputs import check_has
from tatml.inspection import error_rates, threshold_interval


def test_what_is_there_passes_and_what_is_not_is_named():
    X, _ = labelled()
    metric = Euclidean().fit(X)
    check_has(metric, "components_", "pair_distance")
    with pytest.raises(
        AttributeError, match=r"one with components_, result_, got Euclidean without result_$"
    ):
        check_has(metric, "components_", "result_")
    with pytest.raises(NotFittedError):
        check_has(TATML(), "components_")
    with pytest.raises(TypeError, match="estimator"):
        check_has(3.0, "components_")


def test_inspection_names_the_class_and_what_is_missing():
    X, y = labelled()
    pairs, labels = labelled_pairs(y)
    classifier = LogisticRegression().fit(X, y)
    with pytest.raises(AttributeError, match="got LogisticRegression without margin"):
        threshold_interval(classifier, X, y)
    with pytest.raises(AttributeError, match="LogisticRegression without predict_pairs, threshold"):
        error_rates(classifier, pairs, labels, X)
    with pytest.raises(AttributeError, match="got Euclidean without threshold_"):
        error_rates(Euclidean().fit(X), pairs, labels, X)
