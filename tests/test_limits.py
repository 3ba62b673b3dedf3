"""Limits of error rates: their laws, dependent pairs by brute force, and invariances."""

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import beta, binom, binomtest, kstest

from tatml._verification.dependence import (
    LEAST_FREEDOM,
    Sharing,
    are_independent,
    find_disjoint_pairs,
    find_largest_share,
    link_units,
)
from tatml._verification.rates import (
    RankedPairs,
    exact_limits,
    mid_limits,
    most_errors,
    pairs_needed,
    upper_limit,
)


def measure_rate(errors, units=None, confidence=0.95, excess=None):
    """Measure the rate of given errors; without `excess`, the other pairs are all alike."""
    ranked = RankedPairs(errors * 1.0 if excess is None else excess, units)
    return ranked.measure(int(errors.sum()), confidence)


# Independent pairs


@given(st.integers(1, 3000), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_exact_limits_are_those_of_scipy(n_pairs, share, confidence):
    n_errors = round(share * n_pairs)
    expected = binomtest(n_errors, n_pairs).proportion_ci(confidence, method="exact")
    assert_allclose(exact_limits(n_errors, n_pairs, confidence), expected, rtol=1e-9, atol=1e-12)


@given(st.integers(1, 2000), st.floats(1e-4, 0.5), st.sampled_from([0.8, 0.95, 0.999]))
def test_the_most_errors_are_those_of_the_binomial(n_pairs, rate, confidence):
    """The largest k with P(Bin(n, α) ≤ k) ≤ 1 − confidence, found by a loop over all k."""
    tail = binom.cdf(np.arange(n_pairs), n_pairs, rate)
    expected = int(np.sum(tail <= 1 - confidence)) - 1
    assert most_errors(n_pairs, rate, confidence) == expected
    if expected >= 0:
        assert upper_limit(expected, n_pairs, confidence) <= rate * (1 + 1e-9)
    assert upper_limit(expected + 1, n_pairs, confidence) > rate * (1 - 1e-9)


@given(st.floats(1e-4, 0.6), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_pairs_needed_are_the_fewest(rate, confidence):
    needed = pairs_needed(rate, confidence)
    assert most_errors(needed, rate, confidence) >= 0
    assert needed == 1 or most_errors(needed - 1, rate, confidence) < 0


def test_the_numbers_of_pairs_that_are_known():
    assert [pairs_needed(rate, 0.95) for rate in (1e-2, 1e-3, 1e-4)] == [299, 2995, 29956]


@pytest.mark.parametrize(("n_pairs", "k"), [(20, 0), (300, 4), (1000, 0)])
def test_the_rate_at_an_order_statistic_has_a_beta_law(n_pairs, k):
    """Uniform distances: the true rate at the threshold is the threshold itself."""
    rng = np.random.default_rng(0)
    rates = np.partition(rng.random((4000, n_pairs)), k, axis=1)[:, k]
    assert kstest(rates, beta(k + 1, n_pairs - k).cdf).pvalue > 0.01


def test_the_chance_of_a_broken_promise_by_enumeration():
    """Distances of 4 values with ties: summed over all samples of 5, it is at most 1 − conf."""
    chance = np.array([0.15, 0.25, 0.4, 0.2])
    cumulated = np.concatenate([[0], np.cumsum(chance)])  # P(D < value)
    for rate, confidence in product((0.2, 0.3, 0.45, 0.5), (0.5, 0.7, 0.8)):
        k = most_errors(5, rate, confidence)
        if k < 0:
            continue
        broken = 0.0
        for sample in product(range(4), repeat=5):
            edge = sorted(sample)[k]
            if cumulated[edge] > rate:  # P(D < threshold), strictly
                broken += np.prod(chance[list(sample)])
        assert broken <= 1 - confidence + 1e-12


@given(st.integers(1, 200), st.data())
def test_fractions_of_pairs_interpolate(n_pairs, data):
    n_errors = data.draw(st.integers(0, n_pairs))
    low, high = exact_limits(n_errors, n_pairs, 0.95)
    wide_low, wide_high = exact_limits(n_errors / 2, n_pairs / 2, 0.95)
    assert wide_low <= low <= n_errors / n_pairs <= high <= wide_high


@pytest.mark.parametrize(("n_pairs", "rate"), [(50, 0.01), (50, 0.2), (400, 0.01)])
def test_the_coverage_of_exact_limits_is_at_least_what_they_say(n_pairs, rate):
    """Summed over the binomial law, without simulation."""
    counts = np.arange(n_pairs + 1)
    limits = np.array([exact_limits(k, n_pairs, 0.9) for k in counts])
    covers = (limits[:, 0] <= rate) & (rate <= limits[:, 1])
    assert binom.pmf(counts, n_pairs, rate)[covers].sum() >= 0.9


@pytest.mark.parametrize("n_pairs", [1, 7, 60])
def test_mid_limits_count_half_of_the_chance_of_as_many_errors(n_pairs):
    for k in range(n_pairs + 1):
        low, high = mid_limits(k, n_pairs, 0.9)
        if k < n_pairs:
            tail = binom.cdf(k - 1, n_pairs, high) + binom.pmf(k, n_pairs, high) / 2
            assert tail == pytest.approx(0.05, abs=1e-9)
        other = mid_limits(n_pairs - k, n_pairs, 0.9)
        assert (low, high) == pytest.approx((1 - other[1], 1 - other[0]), abs=1e-12)
        least, most = exact_limits(k, n_pairs, 0.9)
        assert least <= low <= high <= most
    assert (mid_limits(0, n_pairs, 0.9)[0], mid_limits(n_pairs, n_pairs, 0.9)[1]) == (0, 1)
    assert mid_limits(0.0, 0.0, 0.9) == (0, 1)


@given(st.floats(0.01, 1e6), st.floats(0, 1), st.floats(0.5, 0.999))
def test_mid_limits_of_fractions_are_monotone(n_pairs, share, confidence):
    low, high = mid_limits(share * n_pairs, n_pairs, confidence)
    assert 0 <= low <= high <= 1
    more = mid_limits(min(1.0, share + 0.05) * n_pairs, n_pairs, confidence)
    assert low <= more[0] + 1e-9
    assert high <= more[1] + 1e-9


# Pairs that share units


@st.composite
def shared_pairs(draw, n_units=8):
    """Draw units of pairs, with couples that occur twice and pairs within a unit, and errors."""
    n = draw(st.integers(2, 25))
    unit = st.integers(0, n_units - 1)
    units = np.array(draw(st.lists(st.tuples(unit, unit), min_size=n, max_size=n)))
    return units, np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))


def variance_by_definition(errors, units):
    """Σ over pairs of pairs that share a unit, by loops; sums of units are corrected first."""
    n = len(errors)
    excess = errors - errors.mean()
    total = 0.0
    for k, first in enumerate(units):
        for m, second in enumerate(units):
            if {*first} & {*second}:
                total += excess[k] * excess[m]
    # The correction of the squared sum of a unit with several pairs.
    share = {unit: (units == unit).any(axis=1).mean() for unit in np.unique(units)}
    for unit, own_share in share.items():
        own = (units == unit).any(axis=1)
        if own.sum() > 1:
            partners = sum(share[sum(pair) - unit] for pair in units[own] if pair[0] != pair[1])
            kept = 1 - 2 * own_share + sum(s**2 for s in share.values())
            kept = min(1, max((1 - own_share) ** 2, kept - 2 * partners / own.sum()))
            total += (1 / max(kept, n**-2) - 1) * excess[own].sum() ** 2
    return total / n**2


@given(shared_pairs())
def test_the_variance_is_that_of_all_pairs_of_pairs(pairs):
    units, errors = pairs
    found = Sharing(units).variance(np.flatnonzero(errors))
    assert_allclose(found, variance_by_definition(errors, units), rtol=1e-9, atol=1e-12)


@given(shared_pairs(), st.randoms(use_true_random=False))
def test_order_members_and_names_do_not_matter(pairs, random):
    units, errors = pairs
    rng = np.random.default_rng(random.randrange(2**32))
    excess = errors + rng.random(len(errors)) / 2
    order, names = rng.permutation(len(errors)), rng.permutation(8)
    swapped = np.where(rng.random(len(units))[:, None] < 0.5, units, units[:, ::-1])
    plain = measure_rate(errors, units, 0.9, excess)
    other = measure_rate(errors[order], names[swapped[order]], 0.9, excess[order])
    for name in ("value", "low", "high", "n_errors", "n_pairs", "n_effective", "method"):
        expected = getattr(plain, name)
        assert getattr(other, name) == (
            expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-9)
        ), name


def test_the_design_effect_of_copies_is_their_number():
    """Every pair ten times: the variance is ten times that of as many independent pairs."""
    rng = np.random.default_rng(0)
    errors = np.repeat(rng.random(500) < 0.2, 10)
    units = np.repeat(np.arange(1000).reshape(-1, 2), 10, axis=0)
    sharing = Sharing(units)
    assert sharing.design_effect(np.flatnonzero(errors)) == pytest.approx(10, rel=0.01)
    order = np.argsort(~errors, kind="stable")
    assert sharing.worth(order, errors.sum(), 0.95) == pytest.approx(500, rel=0.02)


def test_the_variance_of_equal_stars_is_that_of_the_mean_of_their_rates():
    """Probes with 30 candidates each of their own: the usual unbiased estimate, s²/n_probes."""
    errors = np.random.default_rng(0).random((12, 30)) < np.linspace(0.1, 0.6, 12)[:, None]
    units = np.stack([np.arange(360) // 30, 12 + np.arange(360)], axis=1)
    rates = errors.mean(axis=1)
    found = Sharing(units).variance(np.flatnonzero(errors))
    assert found == pytest.approx(rates.var(ddof=1) / 12, rel=0.01)


def test_units_that_carry_no_signal_cost_nothing():
    """Independent errors of random pairs of 400 samples: the design effect is about 1."""
    rng = np.random.default_rng(1)
    effects = []
    for _ in range(30):
        units = np.stack([rng.integers(0, 200, 4000), rng.integers(200, 400, 4000)], axis=1)
        rows = np.flatnonzero(rng.random(4000) < 0.05)
        effects.append(Sharing(units).variance(rows) / (0.05 * 0.95 / 4000))
    assert np.mean(effects) == pytest.approx(1, abs=0.08)


def test_the_variance_is_that_of_simulated_rates():
    """Errors that depend on both identities: the mean estimate is the variance of the rates."""
    rng = np.random.default_rng(2)
    first, second = np.triu_indices(40, 1)
    units, rates, estimates = np.stack([first, second], axis=1), [], []
    for _ in range(1500):
        effect = rng.normal(size=40)
        errors = effect[first] + effect[second] + rng.normal(size=len(first)) > 1.5
        rates.append(errors.mean())
        estimates.append(Sharing(units).variance(np.flatnonzero(errors)))
    assert np.mean(estimates) == pytest.approx(np.var(rates), rel=0.12)


@given(shared_pairs())
def test_the_largest_effect_is_that_of_errors_that_come_together(pairs):
    """The variance of a mean is largest if all pairs that share a unit are equal."""
    units, errors = pairs
    linked = [[bool({*one} & {*other}) for other in units.tolist()] for one in units.tolist()]
    sharing = Sharing(units)
    assert sharing.largest_effect == pytest.approx(np.sum(linked) / len(units))
    order = np.argsort(~errors, kind="stable")
    assert sharing.worth(order, errors.sum(), 0.95) >= len(units) ** 2 / np.sum(linked) - 1e-9


def test_pairs_of_one_couple_are_worth_one():
    errors = np.arange(1000) < 100
    rate = measure_rate(errors, np.tile([0, 1], (1000, 1)))
    assert rate.n_effective == pytest.approx(1)
    assert rate.high > 0.9


def test_few_units_with_most_errors_have_few_degrees_of_freedom():
    units = np.stack([np.arange(2000) // 40, 50 + np.arange(2000)], axis=1)  # 50 stars
    sharing, rng = Sharing(units), np.random.default_rng(0)
    even = np.flatnonzero(rng.random(2000) < 0.1)
    of_two = np.arange(80)
    assert sharing.n_shared == pytest.approx(50)
    assert sharing.degrees_of_freedom(sharing.excess(even)) > 10
    assert sharing.degrees_of_freedom(sharing.excess(of_two)) == LEAST_FREEDOM
    of_five = np.arange(200)  # r is 36 for five stars, −4 for 45: Σr⁴/(Σr²)² is 0.16222
    assert sharing.degrees_of_freedom(sharing.excess(of_five)) == pytest.approx(
        2 / (0.16222 - 1 / 50), rel=1e-3
    )
    few = Sharing(units[:200])  # five stars
    assert few.degrees_of_freedom(few.excess(of_two)) == pytest.approx(4)


def test_the_effect_that_few_errors_have_is_judged_from_more():
    """Below 20 errors it falls with their square root; at both ends of the order alike."""
    units = np.stack([np.arange(2000) // 40, 50 + np.arange(2000)], axis=1)  # 50 stars
    sharing, order = Sharing(units), np.arange(2000)  # the pairs of one star after another
    factor = sharing.worth(order, 20, 0.95) * sharing.design_effect(order[:20])
    for count in (1, 5, 20):
        effect = 1 + (sharing.design_effect(order[:20]) - 1) * (count / 20) ** 0.5
        assert sharing.worth(order, count, 0.95) == pytest.approx(factor / effect)
        mirrored = sharing.worth(order[::-1], 2000 - count, 0.95)
        assert sharing.worth(order, count, 0.95) == pytest.approx(mirrored)
    assert sharing.worth(order, 0, 0.95) == sharing.worth(order, 1, 0.95)


# Which pairs share units


@given(shared_pairs())
def test_disjoint_pairs_are_disjoint_and_no_pair_could_be_added(pairs):
    units, _ = pairs
    rows = find_disjoint_pairs(units, np.random.RandomState(0))
    taken = [unit for row in rows for unit in {*units[row].tolist()}]
    assert len(taken) == len({*taken})
    assert all({*units[row].tolist()} & {*taken} for row in range(len(units)))
    assert rows.tolist() == find_disjoint_pairs(units, np.random.RandomState(0)).tolist()


def test_disjoint_pairs_are_those_of_a_loop_in_random_order():
    rng = np.random.default_rng(3)
    units = rng.integers(0, 60, size=(200, 2))
    order, used, expected = np.random.RandomState(5).permutation(200), set(), []
    for row in order:
        if not {*units[row]} & used:
            used |= {*units[row]}
            expected.append(row)
    assert find_disjoint_pairs(units, np.random.RandomState(5)).tolist() == sorted(expected)


def test_every_couple_is_as_likely_as_another():
    """All pairs of 4 samples: each is among the two that are drawn in a third of the draws."""
    units = np.stack(np.triu_indices(4, 1), axis=1)
    counts = np.zeros(6)
    for seed in range(1500):
        counts[find_disjoint_pairs(units, np.random.RandomState(seed))] += 1
    assert counts.sum() == 3000
    assert binomtest(int(counts.max()), 1500, 1 / 3).pvalue > 0.001
    assert binomtest(int(counts.min()), 1500, 1 / 3).pvalue > 0.001


def test_independence_and_shares():
    assert are_independent(None)
    assert are_independent(np.array([[0, 1], [2, 3], [4, 4]]))
    assert not are_independent(np.array([[0, 1], [2, 0]]))
    assert find_largest_share(np.array([[0, 1], [0, 2], [3, 4], [3, 3]])) == 0.5


def test_links_are_transitive():
    units = np.array([[0, 1], [2, 3], [3, 1], [4, 5], [6, 6]])
    clusters = link_units(units)
    assert len(np.unique(clusters)) == 3
    assert (clusters[:, 0] == clusters[:, 1]).all()
    assert len({*clusters[:3].ravel().tolist()}) == 1


# Measured rates


def test_a_rate_without_units_is_exact():
    errors = np.arange(100) < 7
    rate = measure_rate(errors, confidence=0.9)
    assert (rate.low, rate.high) == exact_limits(7, 100, 0.9)
    assert (rate.value, rate.n_errors, rate.n_pairs, rate.n_effective) == (0.07, 7, 100, 100)
    apart = measure_rate(errors, np.arange(200).reshape(-1, 2), 0.9)
    assert apart == rate
    assert rate.method == "exact"


@settings(max_examples=50)
@given(shared_pairs(), st.booleans())
def test_the_limits_enclose_the_rate(pairs, with_excess):
    units, errors = pairs
    rate = measure_rate(errors, units, 0.95, errors * 1.0 if with_excess else None)
    assert 0 <= rate.low <= rate.value <= rate.high <= 1
    assert rate.high > 0
    assert rate.low < 1
    assert 0 <= rate.n_effective <= rate.n_pairs * (1 + 1e-9)


def test_no_error_among_pairs_of_few_identities_is_not_much():
    rng = np.random.default_rng(0)
    units = rng.integers(0, 20, size=(5000, 2))
    none = np.zeros(5000, dtype=bool)
    effect = rng.normal(size=20)
    excess = effect[units].sum(axis=1) + 0.3 * rng.normal(size=5000)
    alone = measure_rate(none).high
    assert alone == pytest.approx(3.7 / 5000, rel=0.01)
    assert measure_rate(none, units, 0.95, excess).high > 10 * alone


@given(shared_pairs(), st.floats(0.5, 0.99))
def test_the_limits_of_right_pairs_are_those_of_errors(pairs, confidence):
    units, errors = pairs
    excess = errors + np.linspace(0, 0.5, len(errors))
    rate = measure_rate(errors, units, confidence, excess)
    other = measure_rate(~errors, units, confidence, -excess)
    if 0.2 < errors.mean() < 0.8 and 2 * errors.sum() != len(errors):
        assert (1 - other.high, 1 - other.low) == pytest.approx((rate.low, rate.high), abs=1e-12)
        assert other.n_effective == pytest.approx(rate.n_effective)


def test_intervals_of_all_pairs_cover_the_rate():
    """A fifth of the pairs of 40 samples are errors, by effects of both samples."""
    rng = np.random.default_rng(4)
    units = np.stack(np.triu_indices(40, 1), axis=1)
    draws = rng.normal(size=(200_000, 3)).sum(axis=1)
    edge = np.quantile(draws, 0.2)
    covered, naive = 0, 0
    for _ in range(400):
        effect = rng.normal(size=40)
        values = effect[units].sum(axis=1) + rng.normal(size=len(units))
        rate = measure_rate(values < edge, units, 0.95, -values)
        exact = measure_rate(values < edge)
        covered += rate.low <= 0.2 <= rate.high
        naive += exact.low <= 0.2 <= exact.high
    assert 0.93 <= covered / 400 <= 0.99
    assert naive / 400 < 0.7


@pytest.mark.parametrize(("n", "k", "p"), list(product((5, 40), (0, 2, 4), (0.05, 0.5))))
def test_the_binomial_tail_is_a_beta_tail(n, k, p):
    """The identity that lets `most_errors` take fractions."""
    tail = sum(comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1))
    assert beta.sf(p, k + 1, n - k) == pytest.approx(tail, rel=1e-12)
