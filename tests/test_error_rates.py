"""Error rates of estimators: the counts, the limits, subgroups, warnings and bad input."""

import warnings

import numpy as np
import pytest
from estimators_helpers import labelled, labelled_pairs

from tatml import TATML, Blocks, Euclidean, PairThreshold
from tatml._verification.rates import exact_limits
from tatml.verification import ErrorRate, error_rates

RATES = ("false_match", "false_non_match")


def judge_at(threshold):
    return PairThreshold("precomputed").fit([0.5, 2.0], [1, -1]).set_threshold(threshold)


def drawn(n_pairs=2000, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n_pairs) < 0.5, 1, -1)
    return np.abs(rng.normal(np.where(y > 0, 0.0, 2.0))), y


def test_the_rates_are_those_of_the_verdicts():
    X, y = labelled("two blocks")
    y[:20] = np.roll(y[:20], 1)  # some labels are wrong
    pairs, labels = labelled_pairs(y)
    metric = TATML(n_pairs_per_class=40, random_state=0).fit(X, y).set_threshold(1.2)
    with pytest.warns(UserWarning, match=r"fewer than 30 errors \(\d+ false non-matches in 30"):
        rates = error_rates(metric, pairs, labels, X)
    distances = metric.pair_distance(pairs, X)
    missed = [d >= 1.2 for d in distances[labels > 0]]
    passed = [d < 1.2 for d in distances[labels < 0]]
    for rate, wrong in ((rates.false_match, passed), (rates.false_non_match, missed)):
        assert (rate.n_errors, rate.n_pairs) == (sum(wrong), len(wrong))
        assert rate.value == pytest.approx(np.mean(wrong))
        assert rate.low < rate.value < rate.high
        assert rate.method == "dyadic"
        assert rate.n_effective < rate.n_pairs
    balanced = rates.balanced_accuracy
    assert balanced.value == pytest.approx(1 - (np.mean(missed) + np.mean(passed)) / 2)
    assert balanced.low < balanced.value < balanced.high


def test_a_distance_at_the_threshold_is_no_match():
    with pytest.warns(UserWarning, match="fewer than 30 errors"):
        rates = error_rates(judge_at(1.0), [1.0, 1.0, 0.5], [1, -1, 1])
    assert (rates.false_match.n_errors, rates.false_non_match.n_errors) == (0, 1)


def test_limits_of_independent_pairs_are_exact():
    distances, y = drawn()
    for level in (0.8, 0.95):
        rates = error_rates(judge_at(1.0), distances, y, confidence_level=level)
        for name in RATES:
            rate = rates[name]
            assert isinstance(rate, ErrorRate)
            assert (rate.low, rate.high) == exact_limits(rate.n_errors, rate.n_pairs, level)
            assert rate.method == "exact"


def test_the_limits_of_the_balanced_accuracy_are_bonferronis():
    distances, y = drawn()
    balanced = error_rates(judge_at(1.0), distances, y, confidence_level=0.9).balanced_accuracy
    wider = error_rates(judge_at(1.0), distances, y, confidence_level=0.95)
    high = 1 - (wider.false_match.low + wider.false_non_match.low) / 2
    low = 1 - (wider.false_match.high + wider.false_non_match.high) / 2
    assert (balanced.low, balanced.high) == pytest.approx((low, high))


def test_groups_widen_limits_whatever_their_form():
    rng = np.random.default_rng(0)
    identity = np.repeat(np.arange(30), 10)
    X = rng.normal(size=(30, 2))[identity] + 0.1 * rng.normal(size=(300, 2))
    index = rng.integers(300, size=(12_000, 2))
    y = np.where(identity[index[:, 0]] == identity[index[:, 1]], 1, -1)
    metric = Euclidean().fit(X, identity)
    metric.set_threshold(float(np.median(metric.pair_distance(index, X)[y > 0])))
    by_array = error_rates(metric, X[index], y, groups=np.arange(24_000).reshape(-1, 2))
    by_sample = error_rates(metric, index, y, X)
    with pytest.warns(UserWarning, match="24000 rows, of which 300 are distinct"):
        by_row = error_rates(metric, X[index], y)
    by_group = error_rates(metric, index, y, X, groups=identity)
    same = error_rates(metric, X[index], y, groups=identity[index])
    for name in RATES:
        assert by_array[name].value == by_sample[name].value == by_group[name].value
        assert by_group[name] == same[name]
        assert by_row[name].high == pytest.approx(by_sample[name].high, rel=1e-12)
        assert by_row[name].n_effective == pytest.approx(by_sample[name].n_effective, rel=1e-12)
    found = [rates.false_match.n_effective for rates in (by_array, by_sample, by_group)]
    assert found[0] == np.sum(y < 0)
    assert found[2] < found[0]
    judge = PairThreshold(preprocessor=Blocks(X)).fit(index, y).set_threshold(metric.threshold_)
    assert error_rates(judge, index, y, groups=identity).false_match == by_group.false_match


def test_subgroups_have_the_rates_of_their_pairs():
    distances, y = drawn()
    by = np.where(np.arange(2000) % 4 == 0, "rare", "usual")
    rates = error_rates(judge_at(1.0), distances, y, by=by)
    assert list(rates.by) == ["rare", "usual"]
    for name, part in rates.by.items():
        alone = error_rates(judge_at(1.0), distances[by == name], y[by == name])
        assert {kind: part[kind] for kind in RATES} == {kind: alone[kind] for kind in RATES}
    assert sum(part.false_match.n_pairs for part in rates.by.values()) == np.sum(y < 0)
    assert "by" not in error_rates(judge_at(1.0), distances, y)


def test_a_subgroup_without_a_kind_of_pairs_has_no_such_rate():
    distances, y = drawn()
    by = (y > 0).astype(int)
    rates = error_rates(judge_at(1.0), distances, y, by=by)
    assert rates.by[0].false_non_match is None
    assert rates.by[1].false_match is None
    assert rates.by[0].false_match == rates.false_match


def test_no_error_has_an_upper_limit_above_zero_and_a_warning():
    distances, y = np.repeat([0.5, 3.0], 500), np.repeat([1, -1], 500)
    with pytest.warns(
        UserWarning, match=r"fewer than 30 errors \(0 false matches in 500 pairs, 0 "
    ):
        rates = error_rates(judge_at(1.0), distances, y)
    for name in RATES:
        assert (rates[name].value, rates[name].low) == (0, 0)
        assert rates[name].high == pytest.approx(1 - 0.025 ** (1 / 500))


def test_there_is_one_warning_and_it_names_three_rates():
    distances, y = drawn(200)
    by = np.arange(200) % 5
    with pytest.warns(UserWarning, match=r"in \d+ pairs of 0 and \d+ more\): the") as caught:
        error_rates(judge_at(1.0), distances, y, by=by)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_thirty_errors_are_enough():
    y = np.repeat([1, -1], 200)
    distances = np.where(
        np.arange(400) % 200 < 30, np.where(y > 0, 2.0, 0.5), np.where(y > 0, 0.5, 2.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rates = error_rates(judge_at(1.0), distances, y)
    assert rates.false_match.n_errors == rates.false_non_match.n_errors == 30


BAD = {
    "labels of one kind": ({"y": np.ones(20)}, r"y: expected similar \(\+1\) and dissimilar"),
    "short labels": ({"y": [1, -1]}, "y: expected one value for each of the 20 pairs, got 2"),
    "groups of samples": ({"groups": np.zeros(20)}, r"groups: expected shape \(20, 2\)"),
    "groups of a wrong shape": ({"groups": np.zeros((3, 2))}, r"groups: .*got shape \(3, 2\)"),
    "level": ({"confidence_level": 1.0}, "confidence_level: expected a number between 0 and 1"),
    "subgroups": ({"by": np.zeros(3)}, r"by: expected shape \(20,\), one .*got shape \(3,\)"),
    "missing subgroup": ({"by": [np.nan] * 20}, "by: expected a label for each pair, got"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_distances_are_computed(case, monkeypatch):
    distances, y = drawn(20)
    judge = judge_at(1.0)
    monkeypatch.setattr(PairThreshold, "pair_distance", None)
    options, message = BAD[case]
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        error_rates(judge, distances, **{"y": y} | options)
