"""Thresholds with a precision: what they promise, against independent computations."""

import numpy as np
import pytest
from benchmark_helpers import import_benchmark
from scipy import stats

from tatml import PairThreshold
from tatml._verification.calibration import RIGHT_RISK, _find_rungs, calibrate
from tatml._verification.dependence import find_disjoint_pairs
from tatml._verification.targets import check_target
from tatml.io import load_model, save_model

N_RUNS = 25


def draw(seed=0, n=6000, share=0.3, gap=2.0):
    """Draw independent pairs; a fair part of them is hard to tell apart."""
    rng = np.random.default_rng(seed)
    similar = rng.permutation(n) < share * n
    return np.exp(rng.normal(size=n) + np.where(similar, 0.0, 2 * gap)), similar


def judge(distances, similar, **options):
    y = np.where(similar, 1, -1)
    model = PairThreshold("precomputed").fit(distances, y)
    return model.calibrate_threshold(distances, y, strategy="precision", **options)


def most_by_binomial(n, rate, confidence):
    """Return the most errors with P(Bin(n, rate) ≤ k) ≤ 1 − confidence."""
    return int(np.sum(stats.binom.cdf(np.arange(n), n, rate) <= 1 - confidence)) - 1


@pytest.mark.parametrize("same_rate", [None, 0.5, 0.2])
@pytest.mark.parametrize("min_rate", [0.8, 0.95])
def test_independent_pairs_get_the_threshold_of_the_fallback_procedure(min_rate, same_rate):
    """Recomputed with the binomial law: limits of both shares, and parts of the risk."""
    distances, similar = draw()
    target = check_target("precision", min_rate=min_rate, same_rate=same_rate)
    kinds = np.sort(distances[similar]), np.sort(distances[~similar])
    totals = (len(distances),) * 2 if same_rate is None else (len(kinds[0]), len(kinds[1]))
    odds = (1 - min_rate) / min_rate * (1 if same_rate is None else same_rate / (1 - same_rate))
    risk, expected = 0.0, 0.0
    for count, part in _find_rungs(target.as_false_matches(similar), similar, len(kinds[0])):
        risk += 0.05 * part
        least = stats.beta.ppf(RIGHT_RISK * risk, count, totals[0] - count + 1)
        k = most_by_binomial(totals[1], odds * least, 1 - (1 - RIGHT_RISK) * risk)
        if k >= 0 and kinds[1][k] > kinds[0][count - 1]:
            expected = max(expected, kinds[1][k])
        else:
            risk = 0.0
    assert calibrate(distances, similar, target)[0] == expected
    found = judge(distances, similar, min_rate=min_rate, same_rate=same_rate).calibration_
    assert (found.method, found.min_rate, found.same_rate) == ("approximate", min_rate, same_rate)
    assert found.n_errors == np.sum(kinds[1] < expected)
    assert found.n_pairs == len(kinds[1])
    assert found.n_effective == pytest.approx(len(kinds[1]))


@pytest.mark.parametrize("same_rate", [0.3, None])
def test_the_parts_of_the_risk_are_all_of_it(same_rate):
    similar = draw()[1]
    for min_rate in (0.5, 0.9, 0.99):
        target = check_target("precision", min_rate=min_rate, same_rate=same_rate)
        for n_right in (1, 2, 40, 1000):
            rungs = list(_find_rungs(target.as_false_matches(similar), similar, n_right))
            counts, parts = zip(*rungs, strict=True)
            assert sum(parts) <= 1 + 1e-12
            assert list(counts) == sorted(set(counts))
            assert 1 <= counts[0] <= counts[-1] == n_right


@pytest.mark.parametrize("same_rate", [None, 0.5, 0.2])
def test_a_promise_is_stricter_than_the_given_pairs_and_monotone(same_rate):
    distances, similar = draw()
    share = similar.mean() if same_rate is None else same_rate
    plain, promised, surer = [], [], []
    for min_rate in (0.5, 0.7, 0.8, 0.9, 0.95):
        options = {"min_rate": min_rate, "same_rate": same_rate}
        found = [
            judge(distances, similar, **options, confidence=level).threshold_
            for level in (None, 0.95, 0.999)
        ]
        for each, threshold in zip((plain, promised, surer), found, strict=True):
            each.append(threshold)
            accepted = distances < threshold
            right, wrong = share * accepted[similar].mean(), (1 - share) * accepted[~similar].mean()
            assert right >= min_rate * (right + wrong)
    for each in (plain, promised, surer):
        assert np.all(np.diff(each) <= 0)
    assert np.all(np.diff([surer, promised, plain], axis=0) >= 0)


def test_fewer_true_pairs_make_a_stricter_threshold():
    distances, similar = draw()
    found = [
        judge(distances, similar, min_rate=0.95, same_rate=rate).threshold_
        for rate in (0.5, 0.3, 0.2)
    ]
    assert np.all(np.diff(found) < 0)


def test_a_proved_precision_hands_no_risk_on():
    """Each rung has an eighth of the risk: the threshold of one rung alone, or a stricter one."""
    distances, similar = draw()
    options = {"min_rate": 0.9, "same_rate": 0.5}
    proved = judge(distances, similar, **options, guarantee="proved")
    plain = judge(distances, similar, **options)
    surer = judge(distances, similar, **options, confidence=1 - 0.05 / 8)
    methods = [found.calibration_.method for found in (proved, plain)]
    assert methods == ["exact", "approximate"]
    assert surer.threshold_ <= proved.threshold_ < plain.threshold_


def test_scores_of_a_model_and_minus_the_scores_get_one_threshold():
    distances, similar = draw()
    y = np.where(similar, 1, -1)
    model = PairThreshold("precomputed", greater_is_same=True).fit(-distances, y)
    model.calibrate_threshold(-distances, y, strategy="precision", min_rate=0.95)
    assert model.threshold_ == judge(distances, similar, min_rate=0.95).threshold_


def test_equal_distances_are_accepted_together_or_not_at_all():
    distances, similar = draw()
    rounded = np.floor(4 * distances) / 4
    threshold = judge(rounded, similar, min_rate=0.9, same_rate=0.5).threshold_
    accepted = rounded < threshold
    assert 0 < accepted.sum() < len(accepted)
    assert not set(rounded[accepted]) & set(rounded[~accepted])
    target = check_target("precision", min_rate=0.9, same_rate=0.5)
    with pytest.raises(ValueError, match=r"min_rate: .*of which none has it"):
        calibrate(np.ones(6000), similar, target)


def test_pairs_of_few_identities_are_worth_less():
    """Each pair counts once, though it is given with ten samples of its two identities."""
    distances, similar = draw(n=2000)
    groups = np.arange(4000).reshape(-1, 2)
    groups[similar, 1] = groups[similar, 0]
    y, each = np.where(similar, 1, -1), np.repeat(np.arange(2000), 10)
    model = PairThreshold("precomputed").fit(distances, y)
    options = {"strategy": "precision", "min_rate": 0.9}
    alone = model.calibrate_threshold(distances, y, **options).threshold_
    naive = model.calibrate_threshold(distances[each], y[each], **options).threshold_
    model.calibrate_threshold(distances[each], y[each], **options, groups=groups[each])
    assert model.calibration_.method == "approximate"
    assert model.calibration_.n_effective < 1.2 * np.sum(~similar)
    assert model.threshold_ < (alone + naive) / 2
    assert model.calibration_.vouched_share < 0.01


def test_a_proved_precision_takes_disjoint_pairs_of_either_kind():
    distances, similar = draw(n=3000)
    groups = np.random.default_rng(1).integers(1500, size=(3000, 2))
    options = {"min_rate": 0.8, "same_rate": 0.5, "groups": groups}
    proved = judge(distances, similar, **options, guarantee="proved")
    assert proved.calibration_.method == "proved"
    rows = find_disjoint_pairs(groups[~similar], np.random.RandomState(0))
    assert proved.calibration_.n_effective == len(rows) < 750
    found = distances < proved.threshold_
    assert found[similar].mean() > 4 * found[~similar].mean() > 0


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (200, {"min_rate": 0.99}, r"min_rate: expected at least \d+ independent dissimilar pairs"),
        (6000, {"min_rate": 0.997}, r"about \d.* times as many .*got 1800 similar and 4200"),
        (6000, {"min_rate": 0.9, "same_rate": 1e-4}, "expected at least 269588 .*, got 4200"),
    ],
)
def test_out_of_reach_says_how_many_pairs_it_takes(n, options, message):
    distances, similar = draw(n=n)
    with pytest.raises(ValueError, match=message):
        judge(distances, similar, **options)


def test_a_precision_is_saved_with_the_model(tmp_path):
    model = judge(*draw(), min_rate=0.9, same_rate=0.2)
    loaded = load_model(save_model(model, tmp_path / "judge.skops")).estimator
    assert loaded.calibration_ == model.calibration_


def test_a_promise_is_kept_and_what_it_allows_is_used():
    """A small run of benchmarks/precision_coverage.py; by chance once in a thousand times more."""
    study = import_benchmark("precision_coverage")
    (number,) = (i for i, world in enumerate(study.WORLDS) if "easy, 100 × 3" in world.name)
    rows = study.run_part((number, 0, N_RUNS, 250_000))[1]
    for case, (min_rate, same_rate) in enumerate(study.CASES):
        row = study.summarise(rows[:, case], min_rate)
        assert row["below"] <= 0.05 + 3.1 * np.sqrt(0.05 * 0.95 / N_RUNS), (min_rate, same_rate)
        assert row["quantile"] > row["below"]
        assert row["refused"] == 1 or row["mean"] > 0.4
    assert study.summarise(rows[:, 0], 0.9)["refused"] == 0
