"""Thresholds with a promised rate: how often it holds, ties, refusals, and what is recorded."""

import warnings
from dataclasses import astuple, replace

import numpy as np
import pytest
from estimators_helpers import apart, changed_attributes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tatml import Euclidean, PairThreshold, TATMLPairs
from tatml._verification.calibration import LARGEST_SHARE, calibrate
from tatml._verification.rates import most_errors, pairs_needed
from tatml._verification.targets import check_target
from tatml.io import load_model, save_model
from tatml.verification import Calibration

MATCH, NON_MATCH = "false_match_rate", "false_non_match_rate"


def distances_of(n_pairs, seed=0):
    """Draw distances: the first half of the pairs is similar."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n_pairs) < n_pairs // 2, 1, -1)
    return np.abs(rng.normal(np.where(y > 0, 0.5, 3.0))), y


def judge():
    return PairThreshold("precomputed").fit([0.5, 2.0], [1, -1])


def promised(distances, similar, strategy, rate, units=None, **options):
    target = check_target(strategy, max_rate=rate, **options)
    return calibrate(distances, similar, target, units)


# Independent pairs


@pytest.mark.parametrize("strategy", [MATCH, NON_MATCH])
def test_the_threshold_is_the_order_statistic(strategy):
    """k errors are allowed, and the threshold is as far as they allow."""
    distances, y = distances_of(2000)
    for rate, confidence in ((0.01, 0.95), (0.1, 0.99), (0.005, 0.9)):
        k = most_errors(1000, rate, confidence)
        model = judge().calibrate_threshold(
            distances, y, strategy=strategy, max_rate=rate, confidence=confidence
        )
        own = np.sort(distances[y < 0] if strategy == MATCH else -distances[y > 0])
        expected = own[k] if strategy == MATCH else np.nextafter(-own[k], np.inf)
        assert model.threshold_ == expected
        assert astuple(model.calibration_)[:8] == (
            *(strategy, "exact", rate, confidence),
            *(k, 1000, 1000.0, None),
        )
        wrong = (model.predict(distances) != y)[y == (-1 if strategy == MATCH else 1)]
        assert wrong.sum() == k


def test_the_promise_is_kept_as_often_as_it_says():
    """Uniform distances: the true false match rate is the threshold."""
    rng = np.random.default_rng(0)
    similar = np.arange(600) < 1
    rates = [promised(rng.random(600), similar, MATCH, 0.02)[0] for _ in range(2000)]
    broken = np.mean(np.array(rates) > 0.02)
    assert 0.03 < broken < 0.064
    assert np.mean(rates) > 0.5 * 0.02


def test_the_plain_quantile_is_exceeded_in_half_of_the_cases():
    rng = np.random.default_rng(0)
    similar = np.arange(3000) < 2000  # many similar pairs, so that the threshold is well defined
    target = check_target(MATCH, max_rate=0.01, confidence=None)
    rates = [calibrate(rng.random(3000), similar, target)[0] for _ in range(300)]
    assert 0.35 < np.mean(np.array(rates) > 0.01) < 0.65


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 5), min_size=60, max_size=120),
    st.sampled_from([0.06, 0.2, 0.5]),
    st.sampled_from([MATCH, NON_MATCH]),
)
def test_ties_never_add_errors(values, rate, strategy):
    """With many equal distances, at most k pairs are errors: a match is strictly below."""
    distances = np.array([*values, 2.0])
    similar = np.full(len(distances), strategy == NON_MATCH)
    similar[-1] = not similar[-1]
    k = most_errors(len(values), rate, 0.95)
    threshold, found = promised(distances, similar, strategy, rate)
    assert found.n_errors <= k
    matched = distances[:-1] < threshold
    assert found.n_errors == np.sum(matched if strategy == MATCH else ~matched)


def test_equal_distances_cannot_tell_pairs_apart_and_the_promise_holds():
    similar = np.arange(500) < 100
    threshold, found = promised(np.ones(500), similar, MATCH, 0.02)
    assert (threshold, found.n_errors) == (1.0, 0)  # 1 < 1 is no match
    threshold, found = promised(np.ones(500), ~similar, NON_MATCH, 0.02)
    assert threshold > 1
    assert found.n_errors == 0


def test_the_threshold_keeps_its_place_when_pairs_are_permuted():
    distances, y = distances_of(2000)
    order = np.random.default_rng(0).permutation(2000)
    target = {"strategy": MATCH, "max_rate": 0.02}
    one = judge().calibrate_threshold(distances, y, **target)
    other = judge().calibrate_threshold(distances[order], y[order], **target)
    assert one.threshold_ == other.threshold_


# Pairs that share samples or groups


def shared_world(rng, n_identities=60, n_pairs=3000):
    """Distances that depend on both identities: normal with variance 1, so rates are known."""
    units = rng.integers(n_identities, size=(2 * n_pairs, 2))
    units = units[units[:, 0] != units[:, 1]][:n_pairs]
    effect = rng.normal(size=n_identities)
    return 10 + (effect[units].sum(axis=1) + rng.normal(size=n_pairs)) / np.sqrt(3), units


def test_shared_identities_break_the_order_statistic_but_not_the_approximate_promise():
    rng = np.random.default_rng(1)
    none = np.zeros(3000, dtype=bool)
    above = {"exact": 0, "approximate": 0, "proved": 0}
    rates = []
    for _ in range(250):
        distances, units = shared_world(rng)
        for method in above:
            known = None if method == "exact" else units
            guarantee = "proved" if method == "proved" else "approximate"
            threshold, found = promised(distances, none, MATCH, 0.1, known, guarantee=guarantee)
            rate = norm.cdf(threshold - 10)
            assert found.method == method
            above[method] += rate > 0.1
            rates += [rate] if method == "approximate" else []
    assert above["exact"] / 250 > 0.2
    assert above["approximate"] / 250 <= 0.08
    assert above["proved"] / 250 <= 0.08
    assert np.mean(rates) > 0.4 * 0.1


def test_what_the_pairs_are_worth_is_recorded():
    distances, units = shared_world(np.random.default_rng(0))
    none = np.zeros(3000, dtype=bool)
    _, all_pairs = promised(distances, none, MATCH, 0.1, units)
    _, disjoint = promised(distances, none, MATCH, 0.1, units, guarantee="proved")
    assert all_pairs.n_pairs == disjoint.n_pairs == 3000
    assert 29 <= disjoint.n_effective <= 30  # of 60 identities
    assert disjoint.n_effective < all_pairs.n_effective < 1000


def test_members_groups_and_order_do_not_matter_for_the_approximate_promise():
    rng = np.random.default_rng(3)
    distances, units = shared_world(rng)
    none = np.zeros(3000, dtype=bool)
    order, names = rng.permutation(3000), rng.permutation(60)
    plain = promised(distances, none, MATCH, 0.05, units)
    other = promised(distances[order], none, MATCH, 0.05, names[units[order][:, ::-1]])
    assert plain[0] == other[0]
    assert plain[1].n_effective == pytest.approx(other[1].n_effective)


def test_index_pairs_know_their_samples_and_groups_are_coarser():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    identity = np.arange(200) // 4
    index = np.stack(np.triu_indices(200, 1), axis=1)
    y = np.where(identity[index[:, 0]] == identity[index[:, 1]], 1, -1)
    model = Euclidean().fit(X, identity)
    target = {"strategy": MATCH, "max_rate": 0.05, "X": X}
    found = {
        name: model.calibrate_threshold(index, y, **target, **options).calibration_
        for name, options in {
            "samples": {},
            "groups": {"groups": identity},
            "members": {"groups": identity[index].astype(str)},
        }.items()
    }
    assert {one.method for one in found.values()} == {"approximate"}
    counts = {replace(one, n_effective=None) for one in (found["groups"], found["members"])}
    assert len(counts) == 1
    assert found["groups"].n_effective == pytest.approx(found["members"].n_effective, rel=1e-12)
    assert found["groups"].n_effective != found["samples"].n_effective
    with pytest.warns(UserWarning, match="equal rows are taken as one sample"):
        model.calibrate_threshold(X[index], y, strategy=MATCH, max_rate=0.05)
    by_row, by_sample = model.calibration_, found["samples"]
    assert by_row.n_effective == pytest.approx(by_sample.n_effective, rel=1e-12)
    assert replace(by_row, n_effective=None) == replace(by_sample, n_effective=None)
    model.calibrate_threshold(apart(X[index]), y, strategy=MATCH, max_rate=0.05)
    assert model.calibration_.method == "exact"
    assert model.calibration_.n_effective == model.calibration_.n_pairs
    with_preprocessor = TATMLPairs(preprocessor=X).fit(index[::50], y[::50])
    with_preprocessor.calibrate_threshold(index, y, strategy=MATCH, max_rate=0.05, groups=identity)
    assert with_preprocessor.calibration_.method == "approximate"


# What cannot be promised


def test_the_error_says_how_many_pairs_it_takes():
    distances, y = distances_of(400)
    for rate, needed in ((0.01, 299), (0.001, 2995)):
        with pytest.raises(ValueError, match=rf"max_rate: expected at least {needed} independent"):
            judge().calibrate_threshold(distances, y, strategy=MATCH, max_rate=rate)
    needed = pairs_needed(0.01, 0.95)
    distances, y = distances_of(2 * needed)
    judge().calibrate_threshold(distances, y, strategy=MATCH, max_rate=0.01)


def test_dependent_pairs_are_refused_by_what_they_are_worth():
    distances, units = shared_world(np.random.default_rng(0), 12)
    none = np.zeros(3000, dtype=bool)
    with pytest.raises(ValueError, match=r"got 3000 pairs worth \d+, as they share samples or"):
        promised(distances, none, MATCH, 0.01, units)
    with pytest.raises(ValueError, match=r"of which 6 share no .*at least 598 samples or groups"):
        promised(distances, none, MATCH, 0.01, units, guarantee="proved")


def test_one_probe_promises_nothing():
    rng = np.random.default_rng(0)
    units = np.stack([np.zeros(5000, dtype=int), 1 + np.arange(5000)], axis=1)
    with pytest.raises(
        ValueError, match=r"more than 50% of the dissimilar pairs .*got one in 100%"
    ):
        promised(rng.random(5000), np.zeros(5000, dtype=bool), MATCH, 0.1, units)
    assert LARGEST_SHARE == 0.5


def test_one_shared_probe_among_independent_pairs_promises_nothing():
    """One probe cannot tell how much probes differ, whatever its share of the pairs."""
    rng = np.random.default_rng(0)
    units = np.arange(2000).reshape(1000, 2)
    units[:400, 0] = 0
    with pytest.raises(ValueError, match="got 1000 pairs worth 6, as they share samples or"):
        promised(rng.random(1000), np.zeros(1000, dtype=bool), MATCH, 0.1, units)


@pytest.mark.parametrize(("n_probes", "confidence"), [(20, 0.95), (29, 0.95), (20, 0.85)])
def test_few_probes_may_lack_a_kind_of_identities_and_a_warning_says_so(n_probes, confidence):
    """A kind that is one in ten is missing from n probes with the probability 0.9ⁿ."""
    rng = np.random.default_rng(0)
    groups = np.stack([np.arange(6000) % n_probes, 100 + np.arange(6000)], axis=1)
    distances, y = 1 + rng.random(6000), np.tile([1, -1, -1], 2000)
    target = {"strategy": MATCH, "max_rate": 0.1, "confidence": confidence, "groups": groups}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        judge().calibrate_threshold(distances, y, **target)
    assert len(caught) == (0.9**n_probes > 1 - confidence)
    for warning in caught:
        assert "expected at least 29 samples or groups in several dissimilar" in str(
            warning.message
        )
        assert warning.filename == __file__


def test_one_sample_in_two_pairs_costs_nothing():
    distances = np.random.default_rng(0).random(1000)
    none, units = np.zeros(1000, dtype=bool), np.arange(2000).reshape(1000, 2)
    alone = promised(distances, none, MATCH, 0.1, units)
    units[1, 0] = 0
    shared = promised(distances, none, MATCH, 0.1, units)
    assert (alone[1].method, shared[1].method) == ("exact", "approximate")
    assert shared[1].n_effective >= 1000 / 1.002
    assert shared[0] == alone[0]


def test_a_refused_promise_changes_nothing():
    distances, y = distances_of(100)
    model = judge().set_threshold(0.3)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="max_rate"):
        model.calibrate_threshold(distances, y, strategy=MATCH, max_rate=0.001)
    assert changed_attributes(model, before) == set()


# The record


def test_the_record_belongs_to_the_threshold(tmp_path):
    pytest.importorskip("skops")
    distances, y = distances_of(1000)
    model = judge().calibrate_threshold(distances, y, strategy=NON_MATCH, max_rate=0.05)
    loaded = load_model(save_model(model, tmp_path / "model.skops")).estimator
    assert loaded.calibration_ == model.calibration_
    assert type(model.calibration_) is Calibration
    assert not hasattr(model.set_threshold(1.0), "calibration_")
    model.calibrate_threshold(distances, y)
    assert astuple(model.calibration_)[:8] == (
        "accuracy",
        "empirical",
        None,
        None,
        None,
        1000,
        None,
        None,
    )
    assert not hasattr(model.fit(distances, y), "calibration_")


def test_the_plain_quantile_is_called_that():
    distances, y = distances_of(40)
    target = {"strategy": MATCH, "max_rate": 0.1, "confidence": None}
    found = judge().calibrate_threshold(distances, y, **target).calibration_
    assert found.n_errors <= 2
    assert astuple(found)[:8] == (MATCH, "quantile", 0.1, None, found.n_errors, 20, None, None)
    weighted = judge().calibrate_threshold(distances, y, **target, sample_weight=np.ones(40))
    assert weighted.calibration_ == found
