"""Limits of the AUC, the equal error rate, the FNMR at a FMR and the costs."""

import numpy as np
import pytest
from benchmark_helpers import import_benchmark
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from tatml import PairThreshold
from tatml._verification.dependence import Sharing
from tatml._verification.operating import Costs, JudgedPairs
from tatml._verification.rates import exact_limits, mid_limits
from tatml.plotting import DetDisplay
from tatml.verification import report

NAMES = {"auc", "equal_error_rate", "least_cost", "actual_cost"}


def normal_pairs(n_similar=80, n_dissimilar=120, seed=0):
    """Independent pairs: distances and which are similar."""
    rng = np.random.default_rng(seed)
    similar = np.arange(n_similar + n_dissimilar) < n_similar
    return rng.normal(np.where(similar, 5.0, 6.5)), similar


def all_pairs(n_units=12, n_each=3, seed=0):
    """All pairs of the samples of some identities: distances, which are similar, units."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(n_units), n_each)
    x = rng.normal(size=(n_units, 3))[owner] + 0.6 * rng.normal(size=(len(owner), 3))
    first, second = np.triu_indices(len(owner), 1)
    units = np.stack([owner[first], owner[second]], axis=1)
    return np.linalg.norm(x[first] - x[second], axis=1), units[:, 0] == units[:, 1], units


def find_all(distances, similar, units=None, confidence=0.95):
    """All limits of the pairs as one array."""
    judged = JudgedPairs(distances, similar, units, confidence, Costs(0.2, 1.0, 2.0))
    points = [*judged.measure_balanced(), *judged.measure_targets()]
    curve = judged.measure_curve(10)
    rows = [*judged.limit_curve().values(), *(point.cost_limits for point in points)]
    rows += [(point.false_non_match.low, point.false_non_match.high) for point in points]
    rows += [judged.limit_fnmr(point, point.false_match.value) for point in curve]
    return np.array(rows)


# Variances


def delong_variance(distances, similar):
    """DeLong's variance of the AUC, from the matrix of all comparisons."""
    near, far = distances[similar], distances[~similar]
    wins = (near[:, None] < far) + 0.5 * (near[:, None] == far)
    return wins.mean(axis=1).var(ddof=1) / len(near) + wins.mean(axis=0).var(ddof=1) / len(far)


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_the_variance_of_the_auc_of_independent_pairs_is_that_of_delong(step):
    """The effective numbers tell it, and the limits are nearly those of a normal estimate."""
    distances, similar = normal_pairs(3000, 5000)
    distances = np.floor(distances / step) * step if step else distances
    judged = JudgedPairs(distances, similar, None, 0.95)
    near, far = distances[similar], distances[~similar]
    wins = (near[:, None] < far) + 0.5 * (near[:, None] == far)
    auc = roc_auc_score(similar, -distances)
    worth = [
        kind.worth_of_mean(wins.mean(axis=axis), 0.975) for axis, kind in enumerate(judged._ranked)
    ]
    error = delong_variance(distances, similar) ** 0.5
    assert_allclose(auc * (1 - auc) * np.sum(1 / np.array(worth)), error**2, rtol=2e-3)
    expected = auc + norm.ppf([0.025, 0.975]) * error
    assert_allclose(judged.limit_curve()["auc"], expected, atol=0.1 * error)


def brute_covariance(x, y, units, others):
    """Σ of products of deviations over pairs of pairs that share a unit, over the numbers."""
    x, y = x - x.mean(), y - y.mean()
    shared = (units[:, None, :, None] == others[None, :, None, :]).any(axis=(2, 3))
    return x @ shared @ y / (len(x) * len(y))


@pytest.mark.parametrize("seed", range(3))
def test_the_dyadic_variance_is_the_sum_over_all_pairs_of_pairs(seed):
    distances, similar, units = all_pairs(7, 3, seed)
    sharing = Sharing(units[~similar])
    sharing._inflation = np.ones_like(sharing._inflation)  # this one is tested in test_limits.py
    values = distances[~similar] ** 2
    expected = brute_covariance(values, values, units[~similar], units[~similar])
    assert_allclose(sharing.spread(values)[1], expected)
    rows = np.flatnonzero(values < np.median(values))
    errors = np.isin(np.arange(len(values)), rows) * 1.0
    sharing = Sharing(units[~similar])
    assert_allclose(sharing.spread(errors)[1], sharing.variance(rows))


@pytest.mark.parametrize("seed", range(3))
def test_the_correlation_of_both_kinds_is_the_sum_over_all_pairs_of_pairs(seed):
    distances, similar, units = all_pairs(9, 3, seed)
    judged = JudgedPairs(distances, similar, units, 0.95)
    for kind in judged._ranked:
        kind.sharing._inflation = np.ones_like(kind.sharing._inflation)
    values = [distances[~similar], distances[similar]]
    parts = units[~similar], units[similar]
    found = judged._joint._correlate(values)
    variances = [
        max(brute_covariance(x, x, own, own), x.var() / len(x))
        for x, own in zip(values, parts, strict=True)
    ]
    covariance = brute_covariance(*values, *parts)
    assert found == pytest.approx(np.clip(covariance / np.prod(variances) ** 0.5, -1, 1))
    assert found != 0


# Invariances


def test_order_names_of_units_and_monotone_transforms_change_nothing():
    distances, similar, units = all_pairs()
    expected = find_all(distances, similar, units)
    rng = np.random.default_rng(0)
    order, names = rng.permutation(len(distances)), rng.permutation(units.max() + 1)
    assert_allclose(find_all(distances[order], similar[order], units[order]), expected)
    assert_allclose(find_all(distances, similar, names[units][:, ::-1]), expected)
    found = find_all(np.exp(distances), similar, units)
    assert_allclose(found[:-10], expected[:-10])  # thresholds of the curve are interpolated


def test_kinds_may_be_exchanged():
    """The pairs with the other labels and signs have the same AUC and equal error rate."""
    distances, similar, units = all_pairs()
    one = JudgedPairs(distances, similar, units, 0.95).limit_curve()
    other = JudgedPairs(-distances, ~similar, units, 0.95).limit_curve()
    assert_allclose(one["auc"], other["auc"])
    reverse = JudgedPairs(-distances, similar, units, 0.95).limit_curve()
    assert_allclose(reverse["auc"], [1 - one["auc"][1], 1 - one["auc"][0]], atol=2e-3)
    assert_allclose(one["equal_error_rate"], other["equal_error_rate"], atol=0.02)


def test_limits_contain_the_estimates_and_grow_with_the_confidence():
    distances, similar, units = all_pairs(20)
    narrow, wide = (find_all(distances, similar, units, level)[:4] for level in (0.8, 0.99))
    assert np.all(narrow[:, 0] < narrow[:, 1])
    assert np.all(wide[:, 0] < narrow[:, 0])
    assert np.all(wide[:, 1] > narrow[:, 1])
    auc = roc_auc_score(similar, -distances)
    assert narrow[0, 0] < auc < narrow[0, 1]


def test_pairs_that_share_units_have_wider_limits():
    distances, similar, units = all_pairs(15, 4)
    shared, alone = find_all(distances, similar, units), find_all(distances, similar)
    assert np.mean(np.diff(shared) > np.diff(alone)) > 0.7  # promised thresholds differ


# Known cases


def test_a_cost_of_one_kind_of_errors_has_the_limits_of_its_rate():
    distances, similar = normal_pairs()
    judged = JudgedPairs(distances, similar, None, 0.95)
    point = judged.measure("", 5.5)
    rates = point.false_match, point.false_non_match
    for number, rate in enumerate(rates):
        weights = (2.0, 0.0) if number == 0 else (0.0, 2.0)
        found = judged._joint.find_cost(5.5, rates, weights)
        assert_allclose(found, [2 * rate.low, 2 * rate.high])


def test_the_fnmr_at_a_fmr_of_independent_pairs_has_the_range_of_a_quantile():
    """Similar pairs at one distance: the FNMR is 0 or 1 by the threshold, which has a range."""
    dissimilar = np.arange(1.0, 101.0)
    for place, expected in ((5.5, (0.0, 1.0)), (0.5, (0.0, 0.0))):
        distances = np.concatenate([np.full(10_000, place), dissimilar])
        judged = JudgedPairs(distances, np.arange(10_100) < 10_000, None, 0.95)
        point = judged.measure("", 11.0)
        low, high = judged.limit_fnmr(point, 0.1)
        assert_allclose([low, high], expected, atol=1e-3)
    fewest, most = judged._joint._find_range(0.1, 100.0)
    assert mid_limits(fewest, 100, 0.95)[1] <= 0.1 < mid_limits(fewest + 1, 100, 0.95)[1]
    assert mid_limits(most - 1, 100, 0.95)[0] <= 0.1 < mid_limits(most, 100, 0.95)[0]


def test_separated_pairs_have_limits_that_are_no_points():
    distances = np.r_[np.linspace(0, 1, 30), np.linspace(2, 3, 100)]
    similar = np.arange(130) < 30
    found = JudgedPairs(distances, similar, None, 0.95).limit_curve()
    low, high = found["auc"]
    assert high == 1
    each = [mid_limits(0, n, 0.95)[1] for n in (30, 100)]
    assert low == pytest.approx(1 - np.hypot(*each))
    assert found["equal_error_rate"][0] == 0
    assert found["equal_error_rate"][1] >= exact_limits(0, 100, 0.95)[1]
    reverse = JudgedPairs(-distances, similar, None, 0.95).limit_curve()["auc"]
    assert_allclose(reverse, [0, 1 - low])


def test_one_inversion_narrows_the_limits_of_the_auc_not_too_much():
    """Its size tells little of the next one, even if it is small."""
    distances = np.r_[np.linspace(0, 1, 30), np.linspace(2, 3, 100)]
    similar = np.arange(130) < 30
    none = JudgedPairs(distances, similar, None, 0.95).limit_curve()["auc"]
    distances[29] = np.mean(distances[30:32])
    one = JudgedPairs(distances, similar, None, 0.95).limit_curve()["auc"]
    assert one[0] < 1 - (1 - none[0]) / 5


def test_the_least_cost_is_at_most_that_without_distances_and_counts_its_bias():
    distances, similar = normal_pairs(200, 300)
    judged = JudgedPairs(distances, similar, None, 0.95, Costs(0.5))
    least = judged.measure_balanced()[1]
    given = judged.measure("", least.threshold)
    assert least.cost_limits[0] == given.cost_limits[0]
    assert least.cost_limits[1] > given.cost_limits[1]
    hard = JudgedPairs(distances, similar, None, 0.95, Costs(0.001))
    least = hard.measure_balanced()[1]
    assert least.cost_limits[1] == 1 < hard.measure("", least.threshold).cost_limits[1]


PROBE = np.concatenate([np.zeros((5, 2), dtype=int), np.c_[np.zeros(50, int), 1 + np.arange(50)]])


@pytest.mark.parametrize(
    ("distances", "n_similar", "units"),
    [
        (np.ones(40), 20, None),
        (np.array([1.0, 2.0]), 1, None),
        (np.array([1.0, 2.0, 2.0]), 1, np.array([[0, 0], [0, 1], [0, 2]])),
        (np.r_[np.zeros(5), np.ones(50)], 5, PROBE),
    ],
    ids=["one value", "two pairs", "three pairs", "one identity in all pairs"],
)
def test_little_knowledge_gives_wide_limits(distances, n_similar, units):
    found = find_all(distances, np.arange(len(distances)) < n_similar, units)
    assert np.all(np.isfinite(found))
    assert np.all(found[:, 0] <= found[:, 1])
    auc, equal = found[:2]
    assert auc[1] - auc[0] > 0.1
    assert equal[1] - equal[0] > 0.1
    if len(distances) < 40 or units is not None:
        assert auc[1] - auc[0] > 0.5


def test_one_identity_in_half_of_the_pairs_widens_the_limits():
    rng = np.random.default_rng(0)
    units = np.c_[np.r_[np.zeros(200, int), 300 + np.arange(200)], 500 + np.arange(400)]
    units = np.concatenate([np.repeat(np.arange(100), 2).reshape(-1, 2), units])
    similar = np.arange(len(units)) < 100
    distances = rng.normal(np.where(similar, 1.0, 2.5))
    distances[100:300] -= 0.4
    shared = JudgedPairs(distances, similar, units, 0.95).limit_curve()
    alone = JudgedPairs(distances, similar, None, 0.95).limit_curve()
    for name, (low, high) in shared.items():
        assert high - low > np.subtract(*alone[name][::-1])


# The report


@pytest.fixture(scope="module")
def found():
    distances, similar, units = all_pairs(30, 4)
    y = np.where(similar, 1, -1)
    judge = PairThreshold("precomputed").fit(distances[::7], y[::7])
    return report(judge, distances, y, groups=units, same_rate=0.2)


def test_the_report_has_limits_of_every_number(found):
    assert set(found.limits) == NAMES
    for name, (low, high) in found.limits.items():
        assert low < getattr(found, name) < high
        assert f"{getattr(found, name):.4f} [{low:.4f}, {high:.4f}]" in str(found)
    frame = found.to_frame()
    assert frame.loc["estimator", "cost_low"] == found.limits["actual_cost"][0]
    assert frame.loc["least detection cost", "cost_high"] == found.limits["least_cost"][1]
    assert found.to_dict()["limits"]["auc"] == found.limits["auc"]
    assert np.all(frame["cost_low"] <= frame["cost"])
    assert np.all(frame["cost"] <= frame["cost_high"])


def test_the_fnmr_at_a_chosen_fmr_accounts_for_the_threshold(found):
    point = found["FMR 0.01"]
    given = found.judged.measure("", point.threshold)
    assert point.false_match == given.false_match
    chosen, fixed = point.false_non_match, given.false_non_match
    assert chosen.value == fixed.value
    assert chosen.high - chosen.low > fixed.high - fixed.low
    assert found["FMR 0.1 promised"].false_non_match.n_effective > 0


def test_the_band_of_the_det_curve_has_the_limits_of_the_fnmr_at_a_fmr(found):
    pytest.importorskip("matplotlib")
    display = DetDisplay.from_report(found, n_points=12)
    (band,) = display.ax_.collections[:1]
    corners = norm.cdf(band.get_paths()[0].vertices)
    curve = [p for p in display.curve if p.false_match.value > 0 and p.false_non_match.value > 0]
    for point in curve:
        limits = found.judged.limit_fnmr(point, point.false_match.value)
        x = np.isclose(corners[:, 0], point.false_match.value)
        smallest = 0.5 / found.n_similar
        expected = np.clip(limits, smallest, 1 - smallest)
        assert_allclose([corners[x, 1].min(), corners[x, 1].max()], expected)


# Coverage


def test_limits_cover_in_a_small_world():
    """40 runs of 30 identities: at most 6 misses of 95 % limits, by chance once in 100 times."""
    study = import_benchmark("limits_coverage")
    world = study.World("small", study.HARD, study.partial(study.all_samples, n_units=30, n_each=3))
    truth, rows = study.run_world(world, 40, 0, n_population=250_000)
    for name in ("AUC", "EER", "FNMR at 0.1", "cost 0.5", "least cost 0.5"):
        row = study.summarise(name, truth[name], rows[name])
        assert row["cover"] >= 1 - 6 / 40
        assert 0.7 < row["width"] < 1.5
    few = study.run_world(world, 10, 0, "given", n_population=250_000)[1]["FNMR at 0.1"]
    ours = rows["FNMR at 0.1"][:10]
    assert_allclose(few[:, 0], ours[:, 0])
    assert np.mean(few[:, 2] - few[:, 1]) < np.mean(ours[:, 2] - ours[:, 1])
