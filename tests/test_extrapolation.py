"""Estimates of false match rates beyond the observed ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import genpareto

from tatml import PairThreshold
from tatml.verification import extrapolate, report


def measured(distances, groups=None):
    """A report on dissimilar pairs, and two similar ones."""
    y = np.r_[1, 1, np.full(len(distances), -1)]
    if groups is not None:
        groups = np.r_[groups.max() + 1 + np.arange(4).reshape(2, 2), groups]
    judge = PairThreshold("precomputed")
    return report(judge, np.r_[0.0, 0.1, distances], y, groups=groups)


def powers(exponent, n_pairs=20_000, seed=0):
    """Distances with P(distance < t) = t^exponent: their tail is a generalised Pareto law."""
    return np.random.default_rng(seed).random(n_pairs) ** (1 / exponent)


@pytest.mark.parametrize("exponent", [3, 6, 12])
def test_the_law_of_powers_is_found(exponent):
    """Far from the edge the tail of t^k is near the law of shape −1/k, with endpoint 0."""
    found = [extrapolate(measured(powers(exponent, seed=seed))) for seed in range(8)]
    for rate in (1e-2, 1e-3, 1e-4):
        estimates = [one.rate_at(rate ** (1 / exponent)) for one in found]
        assert 0.6 < np.median(estimates) / rate < 1.6
    assert np.mean([one.shape for one in found]) == pytest.approx(-1 / exponent, abs=0.05)


def test_rates_and_thresholds_are_each_others_inverse():
    found = extrapolate(measured(powers(6)), tail_share=0.05)
    rates = [0.05, 0.01, 1e-4, 1e-7]
    thresholds = [found.threshold_at(rate) for rate in rates]
    assert_allclose([found.rate_at(t) for t in thresholds], rates, rtol=1e-9)
    assert thresholds[0] == pytest.approx(found.edge)
    assert np.all(np.diff(thresholds) < 0)
    assert found.n_pairs == 1000


def test_the_law_is_that_of_scipy_in_any_unit():
    distances = powers(6)
    found, scaled = (extrapolate(measured(unit * distances)) for unit in (1.0, 1e6))
    edge = np.sort(distances)[2000]
    shape, _, scale = genpareto.fit((edge - distances[distances < edge]), floc=0)
    assert_allclose([found.edge, found.shape, found.scale], [edge, shape, scale], rtol=1e-2)
    assert scaled.rate_at(0.2e6) == pytest.approx(found.rate_at(0.2), rel=1e-3)


def test_parts_leave_out_identities():
    """If one identity has all near pairs, the part without it has much lower rates."""
    units = np.stack(np.triu_indices(100, 1), axis=1)
    distances = 1 + powers(6, len(units))
    wolf = (units == 7).any(axis=1)
    distances[wolf] = powers(2, wolf.sum())
    found = extrapolate(measured(distances, units), tail_share=0.02)
    low, high = found.range_at(0.5)
    assert len(found.parts) == 10
    assert low < 0.1 * found.rate_at(0.5) < high


def test_scores_of_any_sign_are_negative_distances():
    distances = powers(6) - 5
    y = np.r_[1, 1, np.full(len(distances), -1)]
    judge = PairThreshold("precomputed", greater_is_same=True)
    found = extrapolate(report(judge, -np.r_[-6.0, -6.1, distances], y))
    plain = extrapolate(measured(distances + 5))
    assert found.rate_at(-4.8) == pytest.approx(plain.rate_at(0.2), rel=1e-2)


def test_bad_input_is_refused():
    found = extrapolate(measured(powers(6)))
    with pytest.raises(TypeError, match=r"report: expected a Report of tatml\.verification, got"):
        extrapolate([0.1, 0.2])
    with pytest.raises(ValueError, match=r"report: expected at least 50 pairs in the nearest 0\.1"):
        extrapolate(measured(powers(6, 100)))
    with pytest.raises(ValueError, match="report: expected finite distances that differ"):
        extrapolate(measured(np.ones(1000)))
    with pytest.raises(ValueError, match="tail_share: expected a number between 0 and 1"):
        extrapolate(measured(powers(6)), tail_share=1.0)
    with pytest.raises(ValueError, match="threshold: expected at most edge="):
        found.rate_at(0.99)
    with pytest.raises(ValueError, match=r"rate: expected at most tail_share=0\.1, got 0\.2"):
        found.threshold_at(0.2)
