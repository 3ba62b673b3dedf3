"""The learnt threshold is nearly the best one on pairs of held-out samples, without tuning."""

import numpy as np
import pytest
from benchmark_helpers import import_benchmark


@pytest.fixture(scope="module")
def study():
    return import_benchmark("threshold_quality")


def test_the_balanced_accuracy_is_within_two_points_of_the_best(study):
    """In random units, which do not matter."""
    lost = []
    for X, y in study.load_sets().values():
        units = 10.0 ** np.random.default_rng(0).integers(-3, 4, size=X.shape[1])
        _, learnt, best = study.evaluate(X * units, y, repeats=2)
        assert learnt <= best
        lost.append(best - learnt)
    assert len(lost) >= 6
    assert np.mean(lost) < 0.02
