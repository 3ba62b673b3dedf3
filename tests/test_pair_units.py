"""Which samples pairs share: equal rows of pairs given as arrays, by chance or not."""

import warnings

import numpy as np
import pytest
from estimators_helpers import apart
from scipy.stats import chi2

from tatml import Euclidean, PairThreshold, TATMLPairs
from tatml._estimators.inputs import pair_units
from tatml._verification.calibration import calibrate
from tatml._verification.targets import check_target
from tatml.verification import error_rates, report

INDEX = np.random.default_rng(0).integers(50, size=(400, 2))
SHAPES = {"vectors": (50, 3), "matrices": (50, 3, 2), "one column": (50, 1)}


def units_of(pairs):
    return pair_units(TATMLPairs(), pairs, None, None)


def assert_same_partition(found, expected):
    """Two numberings of the members agree if each number of one has one number of the other."""
    couples = np.unique(np.stack([found.ravel(), expected.ravel()], axis=1), axis=0)
    assert len(couples) == len(np.unique(found)) == len(np.unique(expected))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("kind", SHAPES)
def test_equal_rows_are_one_sample(kind, dtype):
    X = (1e6 * np.random.default_rng(1).normal(size=SHAPES[kind])).astype(dtype)
    units, warning = units_of(X[INDEX])
    assert_same_partition(units, INDEX)
    assert warning.startswith("pairs: 800 rows, of which 50 are distinct; equal rows are taken as")
    assert "preprocessor, or give groups" in warning


def test_the_sign_of_zero_makes_no_sample():
    X = np.random.default_rng(1).normal(size=(50, 3)) * [1, 1, 0]
    pairs = X[INDEX]
    pairs[::2, 0, 2] = -0.0
    assert_same_partition(units_of(pairs)[0], INDEX)


def test_rows_in_one_pair_each_are_independent():
    """Also if both members of a pair are equal: no two pairs share a sample."""
    pairs = np.random.default_rng(0).normal(size=(60, 2, 4))
    assert units_of(pairs) == (None, None)
    pairs[:, 1] = pairs[:, 0]
    assert units_of(pairs) == (None, None)
    pairs[7, 1] = pairs[3, 0]
    units, warning = units_of(pairs)
    assert units[7, 1] == units[3, 0] != units[7, 0]
    assert "120 rows, of which 60 are distinct" in warning


def test_rows_of_few_binary_columns_repeat_by_chance():
    """800 rows have 319,600 couples. Of 8 columns, 2⁻⁸ of them agree: 1,248 by chance."""
    rng = np.random.default_rng(0)
    units, warning = units_of(rng.integers(2, size=(400, 2, 8)).astype(float))
    assert units is None
    assert "of which 2" in warning
    expected = float(warning.partition("about ")[2].split()[0])
    assert 1100 < expected < 1400
    assert "taken to be independent" in warning


def test_rows_of_many_binary_columns_are_samples():
    X = np.random.default_rng(0).integers(2, size=(50, 60)).astype(float)
    assert_same_partition(units_of(X[INDEX])[0], INDEX)


def test_one_continuous_column_tells_samples_with_binary_columns_apart():
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(2, size=(50, 4)), rng.normal(size=50)]
    assert_same_partition(units_of(X[INDEX])[0], INDEX)


def test_groups_and_index_pairs_come_first():
    X = np.random.default_rng(0).normal(size=(50, 3))
    units, warning = pair_units(TATMLPairs(), X[INDEX], None, INDEX // 2)
    assert warning is None
    assert_same_partition(units, INDEX // 2)
    for estimator, given in ((TATMLPairs(), X), (TATMLPairs(preprocessor=X), None)):
        units, warning = pair_units(estimator, INDEX, given, None)
        assert warning is None
        assert_same_partition(units, INDEX)


def test_precomputed_distances_have_no_rows():
    assert pair_units(PairThreshold("precomputed"), np.ones(30), None, None) == (None, None)


def test_one_warning_is_given_and_only_where_units_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = np.where(np.arange(400) % 2, 1, -1)
    model = Euclidean().fit(X).set_threshold(2.0)
    promise = {"strategy": "false_match_rate", "max_rate": 0.2}
    for call in (
        lambda: error_rates(model, X[INDEX], y),
        lambda: report(model, X[INDEX], y),
        lambda: model.calibrate_threshold(X[INDEX], y, **promise),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [str(one.message)[:15] for one in caught] == ["pairs: 800 rows"]
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.calibrate_threshold(X[INDEX], y)
        model.calibrate_threshold(X[INDEX], y, **promise, confidence=None)
        model.calibrate_threshold(apart(X[INDEX]), y, **promise)


def test_a_refused_promise_does_not_warn_too():
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = np.where(np.arange(400) % 2, 1, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="expected at least 299 independent"):
            Euclidean().fit(X).calibrate_threshold(
                X[INDEX], y, strategy="false_match_rate", max_rate=0.01
            )


def test_promises_for_repeated_rows_are_kept():
    """3,000 pairs of 60 samples. |x − z|²/2 has the chi-squared law, so that rates are known."""
    target = check_target("false_match_rate", max_rate=0.1)
    broken = np.zeros(2)
    none = np.zeros(3000, dtype=bool)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        index = rng.integers(60, size=(4000, 2))
        pairs = rng.normal(size=(60, 5))[index[index[:, 0] != index[:, 1]][:3000]]
        distances = np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=1)
        for k, units in enumerate((None, units_of(pairs)[0])):
            threshold = calibrate(distances, none, target, units)[0]
            broken[k] += chi2.cdf(threshold**2 / 2, 5) > 0.1
    assert broken[0] > 20
    assert broken[1] <= 10


@pytest.mark.parametrize("groups", [None, [0, 1]])
@pytest.mark.parametrize("wrong", [2, -1])
def test_indices_out_of_range_are_named_with_groups_too(groups, wrong):
    X = np.random.default_rng(0).normal(size=(12, 3))
    model = Euclidean(random_state=0).fit(X, np.arange(12) % 2)
    pairs = [[0, 1], [1, wrong], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match=rf"^pairs: .*got index {wrong} in row 1"):
        model.calibrate_threshold(pairs, [1, -1, 1, -1], X=X[:2], groups=groups)
