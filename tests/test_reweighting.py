"""The worst reweighting of the identities: its weights, its rate by loops, and invariances."""

from itertools import combinations

import numpy as np
import pytest
from benchmark_helpers import import_benchmark
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import stdtrit
from scipy.stats import binom

from tatml import PairThreshold
from tatml._verification import reweighting as module
from tatml._verification.calibration import (
    calibrate,
    find_allowed,
    find_vouched_share,
    units_needed,
)
from tatml._verification.dependence import Sharing, count_vouching_units
from tatml._verification.rates import RankedPairs, most_errors
from tatml._verification.reweighting import Reweighting, correct_for_two, draw_couples, tilt
from tatml._verification.targets import check_target
from tatml.verification import report

MATCH, NON_MATCH = "false_match_rate", "false_non_match_rate"


def world_with_clan(rng, n_units=80, n_pairs=3000, share=0.08):
    """Draw pairs of random identities; the distances within the clan are small."""
    units = rng.integers(n_units, size=(2 * n_pairs, 2))
    units = units[units[:, 0] != units[:, 1]][:n_pairs]
    clan = rng.random(n_units) < share
    return rng.random(n_pairs) * np.where(clan[units].all(axis=1), 0.05, 1.0), units


def reweighting_of(values, units, most=None, *, resembles=True):
    order = np.argsort(values, kind="stable")
    return Reweighting(Sharing(units[order]), most or len(values), resembles=resembles)


# The weights


@given(
    st.lists(st.floats(-20, 20), min_size=3, max_size=30),
    st.floats(0.01, 30),
)
def test_the_weights_solve_the_equations_of_the_empirical_likelihood(excess, distance):
    excess = np.array(excess)
    weights = tilt(excess, distance)
    assert weights.mean() == pytest.approx(1)
    if np.ptp(excess) < 1e-9:
        return
    assert -2 * np.log(weights).sum() == pytest.approx(distance, rel=1e-6, abs=1e-6)
    slope = np.ptp(1 / weights) / np.ptp(excess)  # w ∝ 1/(η − r): 1/w is linear in r
    assert_allclose((1 / weights).max() - 1 / weights, slope * (excess - excess.min()), atol=1e-6)


def test_no_other_weights_of_this_likelihood_have_more_excess():
    rng = np.random.default_rng(0)
    excess = rng.normal(size=12) ** 3
    best = tilt(excess, 3.0) @ excess
    for _ in range(300):
        other = np.exp(rng.normal(size=12) * rng.random())
        other /= other.mean()
        lower = other
        while -2 * np.log(lower).sum() > 3.0:  # nearer to equal weights
            lower = (lower + 1) / 2
        assert lower @ excess <= best


def test_equal_units_keep_equal_weights_and_the_rule_of_the_design_effect():
    """A ring in which each unit has as many errors: nothing is to be reweighted."""
    assert tilt(np.full(9, 3.5), 2.0).tolist() == [1.0] * 9
    first, step = np.indices((60, 6)).reshape(2, -1)
    units = np.stack([first, (first + 1 + step) % 60], axis=1)
    values = step + np.linspace(0, 0.5, 360)
    ranked = RankedPairs(-values, units)
    reweighting = reweighting_of(values, units, resembles=False)
    for k in (60, 120):
        assert reweighting.upper_rate(k, 0.95) == pytest.approx(k / 360)
    allowed, worth = find_allowed(ranked, 0.2, 0.95, resembles=False)
    assert allowed == most_errors(360, 0.2, 0.95, worth) > 0


def test_the_distance_of_the_weights_is_that_of_the_page():
    distances, units = world_with_clan(np.random.default_rng(0))
    reweighting, k, n = reweighting_of(distances, units), 60, len(units)
    errors = np.zeros(n)
    errors[np.argsort(distances, kind="stable")[:k]] = 1
    excess = np.array([(errors - k / n)[(units == g).any(axis=1)].sum() for g in range(80)])
    sharing = Sharing(units)
    rows = np.flatnonzero(errors)
    ratio = sharing.variance(rows) / (excess @ excess / n**2)
    assert 0.5 < ratio < 1
    expected = stdtrit(sharing.degrees_of_freedom(excess, 4.0), 0.95) ** 2
    expected *= ratio + (1 - ratio) * min(1, 4 * (2 - 1 / ratio))
    weights = reweighting.worst_weights(k, 0.95)
    assert -2 * np.log(weights).sum() == pytest.approx(expected, rel=1e-6)
    assert np.argmax(weights) == np.argmax(excess)


def test_the_correction_for_two_units_is_continuous():
    assert [correct_for_two(ratio) for ratio in (0.3, 0.5, 1.0, 1.7)] == [0.3, 0.5, 1.0, 1.7]
    assert correct_for_two(0.5 + 1e-9) == pytest.approx(0.5, abs=1e-7)
    assert correct_for_two(0.8) == 1.0  # 4 (2 − 1/0.8) is 3
    assert correct_for_two(0.51) == pytest.approx(0.51 + 0.49 * 4 * (2 - 1 / 0.51))


# The rate


@st.composite
def ranked_pairs(draw, n_units=8):
    """Draw pairs with couples that occur twice, pairs within a unit, and ties."""
    n = draw(st.integers(4, 30))
    unit = st.integers(0, n_units - 1)
    units = np.array(draw(st.lists(st.tuples(unit, unit), min_size=n, max_size=n)))
    values = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    return units, np.array(values, dtype=float)


def twins_by_loops(errors, units):
    """Return τ of each unit: matched partners of a unit, and the compared pairs of two of them."""
    rate, found = errors.mean(), []
    for g in range(int(units.max()) + 1):
        own = [{*pair.tolist()} - {g} for pair in units[errors > 0] if g in pair]
        partners = sorted({unit for rest in own for unit in rest})
        of_two = np.zeros(len(units), dtype=bool)
        for a, b in combinations(partners, 2):
            of_two |= (units == a).any(axis=1) & (units == b).any(axis=1)
        share = errors[of_two].mean() if of_two.any() else 0.0
        degree = (units == g).any(axis=1).sum()
        found.append(degree**2 / (4 * len(units)) * max(0.0, share - rate))
    return np.array(found)


@given(ranked_pairs(), st.data())
def test_the_upper_rate_is_that_of_a_loop_over_all_pairs(pairs, data):
    units, values = pairs
    k = data.draw(st.integers(1, len(values) - 1))
    reweighting = reweighting_of(values, units)
    errors = np.zeros(len(values))
    errors[np.argsort(values, kind="stable")[:k]] = 1
    weights = reweighting.worst_weights(k, 0.9)
    several = Sharing(units).degree > 1
    assert (weights[~several] == 1).all()
    if several.any():
        assert weights[several].mean() == pytest.approx(1)
    products = np.array([np.prod([weights[unit] for unit in {*pair}]) for pair in units.tolist()])
    twins = twins_by_loops(errors, units)
    found = reweighting.twin_errors(reweighting.count_errors(k))
    assert_allclose(found, twins, rtol=1e-12, atol=1e-15)
    expected = (errors @ products + weights**2 @ twins) / products.sum()
    assert reweighting.upper_rate(k, 0.9) == pytest.approx(expected)


@given(ranked_pairs(), st.sampled_from([0.1, 0.3, 0.5]), st.booleans())
def test_reweighting_never_allows_more_errors(pairs, rate, resembles):
    units, values = pairs
    ranked = RankedPairs(-values, units)
    allowed, worth = find_allowed(ranked, rate, 0.8, resembles=resembles)
    assert -1 <= allowed <= most_errors(len(values), rate, 0.8, worth)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_order_members_and_names_do_not_matter(seed):
    """Distances with few values: which of the tied pairs come first does not matter either."""
    rng = np.random.default_rng(seed)
    distances, units = world_with_clan(rng)
    distances = np.round(distances, 2)
    order, names = rng.permutation(len(units)), rng.permutation(80)
    swapped = np.where(rng.random(len(units))[:, None] < 0.5, units, units[:, ::-1])
    ends = np.searchsorted(np.sort(distances), np.sort(distances))
    plain = reweighting_of(distances, units)
    other = reweighting_of(distances[order], names[swapped[order]])
    for k in ends[[40, 150, 600]]:
        assert other.upper_rate(k, 0.95) == pytest.approx(plain.upper_rate(k, 0.95), rel=1e-9)


def test_similar_pairs_of_one_identity_are_a_ratio_of_weighted_sums():
    """Pairs within identities: there are no couples of partners, and a pair has one weight."""
    rng = np.random.default_rng(0)
    units = np.repeat(rng.integers(50, size=600), 2).reshape(-1, 2)
    values = rng.random(600) * (1 + (units[:, 0] < 5))
    reweighting = reweighting_of(-values, units, resembles=False)
    weights = reweighting.worst_weights(60, 0.95)
    errors = np.zeros(600)
    errors[np.argsort(-values, kind="stable")[:60]] = 1
    expected = errors @ weights[units[:, 0]] / weights[units[:, 0]].sum()
    assert reweighting.upper_rate(60, 0.95) == pytest.approx(expected)
    assert expected > 0.1


def test_some_couples_of_partners_stand_for_all(monkeypatch):
    distances, units = world_with_clan(np.random.default_rng(1), 100, 20_000)
    exact = reweighting_of(distances, units, 4000)
    twins = exact.twin_errors(exact.count_errors(4000))
    monkeypatch.setattr(module, "N_WEDGES", 0)
    some = reweighting_of(distances, units, 4000)
    assert len(some._wedges.unit) < len(exact._wedges.unit) / 3
    found = some.twin_errors(some.count_errors(4000)).sum()
    assert twins.sum() - 0.1 < found < twins.sum() + 2  # of 4,000 errors; noise only adds to them
    assert some.upper_rate(4000, 0.95) == pytest.approx(exact.upper_rate(4000, 0.95), rel=1e-3)


def test_couples_are_all_or_drawn():
    sizes = np.array([4, 0, 1, 9, 2])
    group, first, second = draw_couples(sizes, 100)
    expected = [(g, i, j) for g, n in enumerate(sizes) for j in range(n) for i in range(j)]
    assert list(zip(group, first, second, strict=True)) == expected
    group, first, second = draw_couples(np.array([40]), 700)
    assert len(group) == 700  # of 780
    assert ((first >= 0) & (first < second) & (second < 40)).all()
    assert len({*(40 * first + second)}) > 400


# Promises


def test_a_clan_breaks_the_promise_of_the_design_effect_but_not_that_of_the_reweighting():
    study = import_benchmark("verification_coverage")
    (world,) = (world for world in study.WORLDS if world.name == "‡ clan of 8 %, 200 × 10")
    row = study.summarise(study.run_world(world, 200, 250_000))[1]
    assert row["approximate"][0] <= 0.05 + 3.1 * (0.05 * 0.95 / 200) ** 0.5
    assert row["design effect"][0] > row["approximate"][0] + 0.03
    assert row["approximate"][2] > 0.4


def test_tied_distances_promise_what_the_pairs_below_them_do():
    """The threshold is the tied value itself, so that none of the tied pairs is a match."""
    distances, units = world_with_clan(np.random.default_rng(2))
    none, target = np.zeros(3000, dtype=bool), check_target(MATCH, max_rate=0.05)
    tied = np.where(distances < 0.3, 0.3, distances)
    threshold, found = calibrate(tied, none, target, units)
    assert (threshold, found.n_errors) == (0.3, 0)
    assert calibrate(np.full(3000, 0.7), none, target, units)[0] == 0.7


def test_which_of_the_tied_pairs_comes_first_does_not_move_the_threshold():
    for seed in range(20):
        distances, units = world_with_clan(np.random.default_rng(seed))
        distances = np.maximum(np.round(distances, 2), 0.03)
        in_clan = np.isin(units, units[distances == 0.03]).sum(axis=1)
        found = set()
        for order in (np.argsort(in_clan, kind="stable"), np.argsort(-in_clan, kind="stable")):
            ranked = RankedPairs(-distances[order], units[order])
            reweighting = Reweighting(ranked.sharing, 150, resembles=True)
            found.add(np.sort(distances)[reweighting.most_errors(0.04, 0.95)])
        assert len(found) == 1


def test_infinite_distances_of_similar_pairs_are_never_matches():
    distances, units = world_with_clan(np.random.default_rng(3))
    all_similar = np.ones(3000, dtype=bool)
    target = check_target(NON_MATCH, max_rate=0.2)
    distances[:100] = np.inf
    threshold, found = calibrate(distances, all_similar, target, units)
    assert np.isfinite(threshold)
    assert found.n_errors >= 100
    distances[:1000] = np.inf
    with pytest.raises(ValueError, match=r"similar pairs at an infinite distance .*got 1000"):
        calibrate(distances, all_similar, target, units)
    matches = check_target(MATCH, max_rate=0.2)
    threshold, found = calibrate(-distances, ~all_similar, matches, units)
    assert (threshold, found.n_errors) == (-np.inf, 0)


def test_an_identity_with_nearly_half_of_the_pairs():
    """It decides the rate alone: the promise is refused by what the pairs are worth."""
    distances, units = world_with_clan(np.random.default_rng(4))
    units[::20] = np.stack([np.full(150, 90), np.arange(150) % 80], axis=1)
    none, target = np.zeros(3000, dtype=bool), check_target(MATCH, max_rate=0.1)
    assert 0 < calibrate(distances, none, target, units)[1].n_errors < 300
    units[:1300, 0], units[:1300, 1] = 90, np.arange(1300) % 80
    with pytest.raises(ValueError, match="3000 pairs worth"):
        calibrate(distances, none, target, units)


# For which kinds of identities the pairs vouch


def test_the_vouched_share_is_that_of_a_kind_met_three_times():
    for n_units in (61, 124, 208, 628):
        units = np.stack(np.triu_indices(n_units, 1), axis=1)
        share = find_vouched_share(units, 0.95)
        assert binom.cdf(2, n_units, share) == pytest.approx(0.05)
    assert share == pytest.approx(0.01, rel=0.01)
    assert find_vouched_share(np.arange(60).reshape(-1, 2), 0.95) is None
    assert find_vouched_share(None, 0.95) is None


@pytest.mark.parametrize(("rate", "needed"), [(0.1, 29), (0.01, 61), (0.001, 197), (1e-4, 628)])
def test_the_units_needed_meet_a_clan_that_makes_the_rate_alone(rate, needed):
    assert units_needed(check_target(MATCH, max_rate=rate)) == needed
    assert units_needed(check_target(NON_MATCH, max_rate=rate)) == 29
    if rate < 0.1:
        assert binom.cdf(2, needed, rate**0.5) <= 0.05 < binom.cdf(2, needed - 1, rate**0.5)


def test_probes_and_references_are_two_samples():
    probes, references = np.indices((20, 100)).reshape(2, -1)
    sides = np.stack([probes, 20 + references], axis=1)
    assert count_vouching_units(sides) == pytest.approx(20)
    own = np.stack([np.arange(600) // 30, 20 + np.arange(600)], axis=1)
    assert count_vouching_units(own) == pytest.approx(20)
    assert count_vouching_units(np.stack(np.triu_indices(30, 1), axis=1)) == pytest.approx(30)
    assert count_vouching_units(np.arange(40).reshape(-1, 2)) == 20


def test_the_record_the_warning_and_the_report_name_the_kinds():
    distances, units = world_with_clan(np.random.default_rng(5), 50, 4000, share=0)
    y = np.tile([1, -1, -1, -1], 1000)
    judge = PairThreshold("precomputed").fit([0.5, 2.0], [1, -1])
    target = {"strategy": MATCH, "groups": units}
    words = (
        r"groups: expected at least 61 samples or groups in several dissimilar pairs to promise a "
        r"false match rate of 0.01, got about 49. They vouch for kinds of at least 12%"
    )
    with pytest.warns(UserWarning, match=words) as caught:
        judge.calibrate_threshold(distances, y, max_rate=0.01, **target)
    assert len(caught) == 1
    share = judge.calibration_.vouched_share
    assert share == find_vouched_share(units[y < 0], 0.95)
    found = report(judge, distances, y, groups=units)
    assert found.vouched_share == found.to_dict()["vouched_share"] == share
    note = f"kinds of at least {share:.1%} of the groups"
    assert note in str(found)
    assert note in found._repr_html_()
    alone = report(judge, distances, y)
    assert alone.vouched_share is None
    assert "kinds of" not in str(alone)
