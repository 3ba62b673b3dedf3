"""The report of verification: its numbers, its text, and what it refuses."""

import builtins
import json

import numpy as np
import pytest
from estimators_helpers import apart
from numpy.testing import assert_allclose
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score, roc_curve

from tatml import TATML, Euclidean, PairThreshold
from tatml.verification import Report, error_rates, report

N_IDENTITIES = 40


def scored(n_similar=400, n_dissimilar=4000, seed=0):
    """Distances of two kinds that overlap, and labels ±1, in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([1, -1], [n_similar, n_dissimilar]))
    return np.abs(rng.normal(np.where(y > 0, 1.0, 3.0), 0.7)), y


def judge(calibrated=False, **sizes):
    """An estimator of other pairs than those that it is judged on."""
    distances, y = scored(seed=1, **sizes)
    model = PairThreshold("precomputed").fit(distances, y)
    return model.calibrate_probability(distances, y, same_rate=0.05) if calibrated else model


def rates_at(distances, y, threshold):
    """FMR and FNMR, by counting."""
    return np.mean(distances[y < 0] < threshold), np.mean(distances[y > 0] >= threshold)


@pytest.fixture(scope="module")
def identities():
    """A metric, samples of other identities, all their pairs, labels, and the identities."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(2 * N_IDENTITIES), 4)
    means = 1.5 * rng.normal(size=(2 * N_IDENTITIES, 5))
    X = means[owner] + rng.normal(size=(len(owner), 5))
    known = owner < N_IDENTITIES
    metric = TATML(random_state=0).fit(X[known], owner[known])
    X, owner = X[~known], owner[~known]
    pairs = np.stack(np.triu_indices(len(X), 1), axis=1)
    y = np.where(owner[pairs[:, 0]] == owner[pairs[:, 1]], 1, -1)
    return metric, X, pairs, y, owner


# The numbers


@pytest.mark.filterwarnings("ignore:error_rates. fewer than 30 errors")
def test_rates_at_the_threshold_are_those_of_error_rates(identities):
    metric, X, pairs, y, owner = identities
    by = np.where(pairs[:, 0] % 2 == 0, "even", "odd")
    found = report(metric, pairs, y, X, groups=owner, by=by, confidence_level=0.9)
    rates = error_rates(metric, pairs, y, X, groups=owner, by=by, confidence_level=0.9)
    point = found["estimator"]
    assert point.threshold == metric.threshold_
    assert (point.false_match, point.false_non_match) == (rates.false_match, rates.false_non_match)
    balanced = rates.balanced_accuracy
    assert_allclose(found.balanced_accuracy, [balanced.value, balanced.low, balanced.high])
    assert list(found.by) == ["even", "odd"]
    for name, (false_match, false_non_match) in found.by.items():
        assert false_match == rates.by[name].false_match
        assert false_non_match == rates.by[name].false_non_match


def test_every_point_has_the_rates_of_its_threshold(identities):
    metric, X, pairs, y, owner = identities
    distances = metric.pair_distance(pairs, X)
    found = report(metric, pairs, y, X, groups=owner, same_rate=0.1, costs=(2.0, 3.0))
    assert len(found.points) >= 6
    for point in found.points:
        fmr, fnmr = rates_at(distances, y, point.threshold)
        assert (point.false_match.value, point.false_non_match.value) == (fmr, fnmr)
        assert point.true_accept_rate == pytest.approx(np.mean(distances[y > 0] < point.threshold))
        assert point.false_match.low <= fmr <= point.false_match.high
        cost = (3 * 0.1 * fnmr + 2 * 0.9 * fmr) / (3 * 0.1)
        assert point.cost == pytest.approx(cost)
        assert point.cost >= found.least_cost - 1e-12
    assert found.actual_cost == found["estimator"].cost
    assert found.auc == roc_auc_score(y, -distances)


def test_the_equal_error_rate_and_the_least_cost_are_those_of_the_roc_curve():
    distances, y = scored()
    found = report(judge(), distances, y, same_rate=0.02)
    fmr, tpr, _ = roc_curve(y, -distances, drop_intermediate=False)
    least = np.min(1 - tpr + 0.98 / 0.02 * fmr)
    assert found.least_cost == found["least detection cost"].cost == pytest.approx(least)
    point = found["equal error rate"]
    gap = abs(point.false_match.value - point.false_non_match.value)
    assert gap <= np.min(np.abs(fmr - (1 - tpr))) + 1e-12
    between = sorted([point.false_match.value, point.false_non_match.value])
    assert between[0] - gap - 1e-12 <= found.equal_error_rate <= between[1] + gap + 1e-12


def test_rates_reach_as_far_as_the_pairs():
    """4,000 dissimilar pairs allow one error at 2.5e-4, and promise 1e-3 but not 1e-4."""
    distances, y = scored()
    found = report(judge(), distances, y)
    names = [point.name for point in found.points if point.name.startswith("FMR")]
    assert names == [
        *("FMR 0.1", "FMR 0.1 promised", "FMR 0.01", "FMR 0.01 promised"),
        *("FMR 0.001", "FMR 0.001 promised"),
    ]
    fmr, tpr, _ = roc_curve(y, -distances, drop_intermediate=False)
    for rate in (0.1, 0.01, 0.001):
        point = found[f"FMR {rate:g}"]
        assert point.false_match.value <= rate
        assert point.true_accept_rate == pytest.approx(tpr[fmr <= rate].max())  # TAR at FAR
        promised = found[f"FMR {rate:g} promised"]
        target = {"strategy": "false_match_rate", "max_rate": rate}
        calibrated = judge().calibrate_threshold(distances, y, **target)
        assert promised.threshold == calibrated.threshold_ <= point.threshold
        assert point.threshold == np.sort(distances[y < 0])[round(4000 * rate)]
    few = report(judge(), *scored(20, 25))
    assert [p.name for p in few.points if p.name.startswith("FMR")] == ["FMR 0.1"]


def test_a_confidence_level_is_that_of_the_promise():
    distances, y = scored()
    sure = report(judge(), distances, y, confidence_level=0.999)["FMR 0.01 promised"]
    usual = report(judge(), distances, y)["FMR 0.01 promised"]
    assert sure.threshold < usual.threshold


def test_probabilities_are_scored_at_their_rate():
    distances, y = scored()
    model = judge(calibrated=True)
    found = report(model, distances, y)
    assert found.same_rate == 0.05
    probability = model.pair_probability(distances)
    weights = np.where(y > 0, 0.05 / np.sum(y > 0), 0.95 / np.sum(y < 0))
    assert found.brier == pytest.approx(brier_score_loss(y > 0, probability, sample_weight=weights))
    assert found.log_loss == pytest.approx(log_loss(y > 0, probability, sample_weight=weights))
    other = report(model, distances, y, same_rate=0.5, costs=(9.0, 1.0))
    again = model.set_same_rate(0.5).pair_probability(distances)
    weights = np.where(y > 0, 0.5 / np.sum(y > 0), 0.5 / np.sum(y < 0))
    assert other.brier == pytest.approx(brier_score_loss(y > 0, again, sample_weight=weights))
    point = other["probability"]  # accept if (1 − p) · 9 < p · 1
    assert np.array_equal(distances < point.threshold, again > 0.9)
    assert expit(
        model.likelihood_ratio_[0] - model.likelihood_ratio_[1] * point.threshold + logit(0.5)
    ) == pytest.approx(0.9)


def test_without_threshold_and_probabilities_their_rows_are_missing(identities):
    _, X, pairs, y, owner = identities
    found = report(Euclidean().fit(X), pairs, y, X, groups=owner)
    assert [point.name for point in found.points][:2] == [
        "equal error rate",
        "least detection cost",
    ]
    assert (found.actual_cost, found.balanced_accuracy, found.brier) == (None, None, None)
    assert "at the threshold of the estimator" not in str(found)
    assert (found.same_rate, found.log_loss) == (0.01, None)


def test_pairs_and_units_are_counted(identities):
    metric, X, pairs, y, owner = identities
    by_group = report(metric, pairs, y, X, groups=owner)
    by_sample = report(metric, pairs, y, X)
    alone = report(metric, apart(X[pairs]), y)
    with pytest.warns(UserWarning, match="equal rows are taken as one sample"):
        by_row = report(metric, X[pairs], y)
    assert (by_group.n_similar, by_group.n_dissimilar) == (np.sum(y > 0), np.sum(y < 0))
    assert (by_group.n_units, by_group.unit) == (N_IDENTITIES, "groups")
    assert (by_sample.n_units, by_sample.unit) == (4 * N_IDENTITIES, "samples")
    assert (by_row.n_units, by_row.unit) == (by_sample.n_units, "samples")
    assert str(by_row) == str(by_sample)
    assert (alone.n_units, alone.unit) == (None, "pairs")
    widths = [
        found["estimator"].false_match.high - found["estimator"].false_match.low
        for found in (by_group, by_sample, alone)
    ]
    assert widths[0] > widths[2]
    assert widths[1] > widths[2]


def test_a_subgroup_may_lack_a_kind():
    distances, y = scored(40, 60)
    found = report(judge(), distances, y, by=np.where(y > 0, "same", "other"))
    assert found.by["same"][0] is None
    assert found.by["same"][1].n_pairs == 40
    assert "same" in str(found)


# Text, tables and files


def test_the_text_has_every_row_and_marks_few_errors():
    distances, y = scored()
    found = report(judge(calibrated=True), distances, y)
    lines = str(found).splitlines()
    assert lines[0] == (
        "PairThreshold on 400 similar and 4000 dissimilar pairs, taken to be independent"
    )
    for point in found.points:
        (line,) = [line for line in lines if line.startswith(f"{point.name}  ")]
        assert f"{point.threshold:.6g}" in line
        for rate in (point.false_match, point.false_non_match):
            assert f" {rate.value:.4f}" in line or rate.value < 1e-3
        assert ("*" in line) == (
            min(point.false_match.n_errors, point.false_non_match.n_errors) < 30
        )
    assert lines[-1] == "* fewer than 30 errors: the rate is rough, use its limits"
    assert f"AUC {found.auc:.4f}" in lines[1]
    assert f"Brier score {found.brier:.4f}" in lines[3]
    assert repr(found).startswith(
        "Report(PairThreshold, 400 similar and 4000 dissimilar pairs, AUC=0."
    )
    header = next(line for line in lines if line.startswith("operating point"))
    assert header.split() == [
        *("operating", "point", "threshold", "FMR", "=", "FAR", "95%", "limits"),
        *("FNMR", "95%", "limits", "TAR", "cost", "95%", "limits"),
    ]


def test_many_errors_need_no_note():
    found = report(judge(), *scored(4000, 4000))
    rates = [rate for p in found.points for rate in (p.false_match, p.false_non_match)]
    assert ("fewer than 30" in str(found)) == any(rate.n_errors < 30 for rate in rates)


def test_the_frame_and_the_dict_have_the_numbers():
    distances, y = scored()
    found = report(judge(calibrated=True), distances, y, by=np.arange(len(y)) % 2)
    frame = found.to_frame()
    assert list(frame.index) == [point.name for point in found.points]
    assert frame.loc["estimator", "FMR"] == found["estimator"].false_match.value
    assert frame.loc["FMR 0.01", "TAR"] == found["FMR 0.01"].true_accept_rate
    content = json.loads(json.dumps(found.to_dict()))
    assert content["points"][0]["FNMR_high"] == found["estimator"].false_non_match.high
    assert content["by"]["1"]["false_match"]["n_pairs"] == found.by[1][0].n_pairs
    for name in ("auc", "equal_error_rate", "least_cost", "actual_cost", "brier", "log_loss"):
        assert content[name] == getattr(found, name)


def test_the_frame_needs_pandas(monkeypatch):
    found = report(judge(), *scored(40, 60))
    real = builtins.__import__

    def without_pandas(name, *args, **options):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(ImportError, match="to_frame needs pandas"):
        found.to_frame()


def test_html_is_escaped():
    distances, y = scored(40, 60)
    found = report(judge(), distances, y, by=np.where(np.arange(100) < 50, "<b>", "&"))
    page = found._repr_html_()
    assert page.count("<table>") == page.count("</table>") == 2
    assert "&lt;b&gt;" in page
    assert "&amp;" in page
    assert page.count("<tr>") == len(found.points) + 2 + 2
    assert isinstance(found, Report)


def test_an_unknown_point_is_a_key_error():
    with pytest.raises(KeyError, match="nowhere"):
        report(judge(), *scored(40, 60))["nowhere"]


# Bad input


class NoDistances(PairThreshold):
    """An estimator whose distances must not be asked for."""

    def pair_distance(self, pairs, X=None):
        raise AssertionError("distances were computed")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"y": np.ones(100)}, ValueError, r"y: expected similar \(\+1\) and dissimilar"),
        ({"y": np.ones(99)}, ValueError, "y: expected one value for each of the 100 pairs, got 99"),
        ({"groups": np.zeros(3)}, ValueError, r"groups: expected shape \(100, 2\)"),
        ({"by": np.zeros(3)}, ValueError, r"by: expected shape \(100,\)"),
        ({"same_rate": 0}, ValueError, "same_rate: expected a number between 0 and 1, got 0"),
        ({"same_rate": "few"}, TypeError, "same_rate: expected a number, got 'few'"),
        ({"costs": 1.0}, TypeError, "costs: expected two positive numbers, got 1.0"),
        ({"costs": (1.0, 0.0)}, ValueError, "costs: expected .*got 0.0"),
        ({"costs": (1.0, 2.0, 3.0)}, TypeError, "costs: expected two positive numbers"),
        ({"confidence_level": 1.0}, ValueError, "confidence_level: expected .*between 0 and 1"),
    ],
)
def test_bad_input_is_refused_before_distances_are_computed(given, error, message):
    distances, y = scored(40, 60)
    model = NoDistances("precomputed").fit(distances, y)
    with pytest.raises(error, match=f"^{message}"):
        report(model, **{"pairs": distances, "y": y} | given)


def test_other_estimators_are_refused():
    fitted = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(TypeError, match="estimator: expected one with pair_score"):
        report(fitted, [0.1, 0.2], [1, -1])
    metric = Euclidean().fit([[0.0], [1.0]])
    with pytest.raises(TypeError, match="estimator: expected one with threshold_"):
        report(metric, [[0, 1], [1, 0]], [1, -1], [[0.0], [1.0]], by=[0, 1])
