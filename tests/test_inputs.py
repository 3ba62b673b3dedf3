"""What estimators are given: good input in many forms, bad input named, nothing half-set."""

import numpy as np
import pytest
import scipy.sparse
from helpers import assert_same_blocks
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import DataConversionWarning

from tatml import TATML, Blocks, Euclidean, Maz, PairThreshold, TATMLPairs
from tatml._estimators.given_labels import class_labels, group_labels, pair_labels
from tatml._estimators.inputs import (
    given_distances,
    index_pairs,
    pair_samples,
    samples_of,
    unchanged_on_error,
)

RNG = np.random.default_rng(0)
LABELS = np.arange(24) % 3
VECTORS = RNG.normal(size=(24, 4)) + LABELS[:, None]
MATRICES = RNG.normal(size=(24, 3, 2)) + LABELS[:, None, None]
BLOCKS = Blocks(MATRICES, VECTORS)
INDEX = np.array([(i, (5 * i + 7) % 24) for i in range(24)])
PAIRS = VECTORS[INDEX]
Y = np.where(LABELS[INDEX[:, 0]] == LABELS[INDEX[:, 1]], 1, -1)


class Shell(BaseEstimator):
    """The least that the edge asks of an estimator."""

    def __init__(self, preprocessor=None):
        self.preprocessor = preprocessor


def with_nan(array):
    array = array.copy()
    array.ravel()[-1] = np.nan
    return array


# Samples


def test_tables_matrices_and_blocks_become_blocks():
    shell = Shell()
    assert_same_blocks(samples_of(shell, VECTORS.tolist(), reset=True), [VECTORS[:, :, None]])
    assert (shell.n_features_in_, shell.block_shapes_) == (4, ((4, 1),))
    assert_same_blocks(samples_of(shell, MATRICES.tolist(), reset=True), [MATRICES])
    assert (shell.n_features_in_, shell.block_shapes_) == (6, ((3, 2),))
    assert_same_blocks(samples_of(shell, BLOCKS, reset=True), [MATRICES, VECTORS[:, :, None]])
    assert (shell.n_features_in_, shell.block_shapes_) == (10, ((3, 2), (4, 1)))


def test_names_of_columns_are_kept_until_the_next_fit():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(VECTORS, columns=list("abcd"))
    shell = Shell()
    assert_same_blocks(samples_of(shell, frame, reset=True), [VECTORS[:, :, None]])
    assert shell.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        samples_of(shell, frame[list("dcba")], reset=False)
    samples_of(shell, BLOCKS, reset=True)
    assert not hasattr(shell, "feature_names_in_")


def test_pairs_need_no_names_of_columns():
    """Pairs are no table: they cannot have names, so nothing is to be said about them."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(VECTORS, columns=list("abcd"))
    model = Euclidean(random_state=0).fit(frame, LABELS)
    expected = np.linalg.norm(PAIRS[:, 0] - PAIRS[:, 1], axis=1)
    assert_allclose(model.pair_distance(INDEX, frame), expected)
    assert_allclose(model.pair_distance(PAIRS), expected)


BAD_SAMPLES = {
    "NaN": (with_nan(VECTORS), ValueError, "contains NaN"),
    "NaN in matrices": (with_nan(MATRICES), ValueError, r"X: .*nan in block 0, sample 23, entry"),
    "NaN in blocks": (
        Blocks(MATRICES, with_nan(VECTORS)),
        ValueError,
        "X: .*in block 1, sample 23",
    ),
    "infinite": (np.full((3, 4), np.inf), ValueError, "infinity"),
    "sparse": (scipy.sparse.csr_array(VECTORS), TypeError, "[Ss]parse"),
    "text": ([["a", "b"]], ValueError, "could not convert"),
    "complex": (VECTORS * 1j, ValueError, "[Cc]omplex"),
    "one sample": (VECTORS[0], ValueError, "Expected 2D array, got 1D"),
    "a number": (5, ValueError, "Expected 2D array, got scalar"),
    "None": (None, ValueError, "Expected 2D array, got scalar"),
    "four dimensions": (np.ones((2, 2, 2, 2)), ValueError, "X: expected a 2-D array of vectors"),
    "no samples": (np.ones((0, 4)), ValueError, r"0 sample\(s\)"),
    "no features": (np.ones((4, 0)), ValueError, r"0 feature\(s\)"),
    "no matrices": (np.ones((0, 3, 2)), ValueError, "X: expected at least one sample"),
    "ragged": ([[1.0], [1.0, 2.0]], ValueError, "inhomogeneous"),
    "huge": (VECTORS * 1e61, ValueError, r"X: expected entries of at most 1e\+60"),
    "huge blocks": (Blocks(VECTORS, MATRICES * 1e61), ValueError, "X: expected entries of at most"),
}


@pytest.mark.parametrize("kind", BAD_SAMPLES)
def test_bad_samples_are_named(kind):
    X, error, message = BAD_SAMPLES[kind]
    with pytest.raises(error, match=message):
        samples_of(Shell(), X, reset=True)


@pytest.mark.parametrize(
    ("fitted", "given", "message"),
    [
        (VECTORS, VECTORS[:, :3], "X has 3 features, but Shell is expecting 4"),
        (
            MATRICES,
            MATRICES[:, :2],
            "X has 4 features, but Shell is expecting 6.* 3×2 as in fit, got 2×2",
        ),
        (MATRICES, np.swapaxes(MATRICES, 1, 2), "X: expected blocks of shapes 3×2 as in fit.*2×3"),
        (MATRICES, MATRICES.reshape(24, 6), "X: expected blocks of shapes 3×2 as in fit, got 6×1"),
        (BLOCKS, Blocks(VECTORS, MATRICES), "X: expected blocks of shapes 3×2, 4×1 .*4×1, 3×2"),
        (
            BLOCKS,
            Blocks(MATRICES),
            "X has 6 features, but Shell is expecting 10.* 3×2, 4×1 as in fit, got 3×2",
        ),
    ],
)
def test_samples_of_another_shape_than_in_fit_are_named(fitted, given, message):
    shell = Shell()
    samples_of(shell, fitted, reset=True)
    with pytest.raises(ValueError, match=message):
        samples_of(shell, given, reset=False)
    if message.startswith("X:"):
        with pytest.raises(ValueError, match=message.replace("X:", "pairs:")):
            pair_samples(shell.set_params(preprocessor=given), INDEX, reset=False)


# Preprocessors


@pytest.mark.parametrize("X", [VECTORS, MATRICES, BLOCKS], ids=["table", "matrices", "blocks"])
def test_indicators_find_their_samples(X):
    expected = Blocks(X).arrays if X is not BLOCKS else BLOCKS.arrays
    chosen = np.array([5, 5, 0, 23])
    for preprocessor in (X, lambda index: X[index]):
        shell = Shell(preprocessor)
        found = samples_of(shell, chosen, reset=True)
        assert_same_blocks(found, [array[chosen] for array in expected])
        blocks, index = pair_samples(shell, INDEX, reset=False)
        for array, whole in zip(blocks.arrays, expected, strict=True):
            assert_array_equal(array[index], whole[INDEX])


def test_samples_given_beside_a_preprocessor_are_taken_as_they_are():
    shell = Shell(preprocessor=np.zeros((3, 4)))
    assert_same_blocks(samples_of(shell, VECTORS, reset=True), [VECTORS[:, :, None]])
    blocks, index = pair_samples(shell, PAIRS, reset=False)
    assert_array_equal(blocks.arrays[0][index][..., 0], PAIRS)


def test_every_sample_is_asked_for_once():
    asked = []

    def preprocessor(indicators):
        asked.extend(indicators.tolist())
        return VECTORS[indicators]

    pair_samples(Shell(preprocessor), [[3, 1], [1, 7], [3, 7]], reset=True)
    assert asked == [1, 3, 7]


BAD_INDICATORS = {
    "too large": (VECTORS, [[0, 24]], IndexError, "preprocessor: .* from 0 to 23, got 24"),
    "negative": (VECTORS, [[0, -1]], IndexError, "preprocessor: .* from 0 to 23, got -1"),
    "of blocks": (BLOCKS, [[0, 24]], IndexError, "preprocessor: .* from 0 to 23, got 24"),
    "fractions": (VECTORS, [[0.0, 1.0]], TypeError, "preprocessor: .*got indicators of dtype f"),
    "text": (VECTORS, [["a", "b"]], TypeError, "preprocessor: .*give a function"),
    "triples": (VECTORS, [[0, 1, 2]], ValueError, r"pairs: expected two samples.*got shape \(1, 3"),
    "none": (VECTORS, np.empty((0, 2), int), ValueError, "pairs: expected at least one pair"),
    "NaN": (with_nan(VECTORS), [[0, 23]], ValueError, "preprocessor: expected finite numbers"),
    "sparse": (lambda _: scipy.sparse.eye_array(2), [[0, 1]], TypeError, "preprocessor: .*dense"),
    "too few": (
        lambda _: VECTORS[:1],
        [[0, 1]],
        ValueError,
        "preprocessor: expected 2 samples",
    ),
    "too many": (
        lambda _: VECTORS,
        [[0, 1]],
        ValueError,
        "preprocessor: expected 2 samples",
    ),
}


@pytest.mark.parametrize("kind", BAD_INDICATORS)
def test_bad_indicators_are_named(kind):
    preprocessor, pairs, error, message = BAD_INDICATORS[kind]
    with pytest.raises(error, match=message):
        pair_samples(Shell(preprocessor), pairs, reset=True)


# Pairs


def test_pairs_keep_their_order():
    for pairs in (PAIRS, MATRICES[INDEX]):
        blocks, index = pair_samples(Shell(), pairs, reset=True)
        array = blocks.arrays[0][index]
        assert_array_equal(array.reshape(pairs.shape), pairs)


BAD_PAIRS = {
    "Blocks": (BLOCKS, TypeError, "pairs: .*got Blocks; for pairs of Blocks give index pairs"),
    "sparse": (scipy.sparse.csr_array(VECTORS), TypeError, "pairs: expected a dense array"),
    "index pairs": (INDEX, ValueError, "pairs: .*; index pairs need a preprocessor"),
    "one dimension": (np.ones(4), ValueError, r"pairs: expected an array .* got shape \(4,\)"),
    "five dimensions": (np.ones((1, 2, 1, 1, 1)), ValueError, r"got shape \(1, 2, 1, 1, 1\)"),
    "triples": (np.ones((4, 3, 2)), ValueError, r"pairs: expected two samples.*shape \(4, 3, 2\)"),
    "none": (np.ones((0, 2, 3)), ValueError, "pairs: expected at least one pair"),
    "no features": (np.ones((3, 2, 0)), ValueError, "pairs: expected .*at least one"),
    "NaN": (with_nan(PAIRS), ValueError, f"pairs: .* in pair {len(PAIRS) - 1}, member 1"),
    "text": ([[["a"], ["b"]]], TypeError, "pairs: expected real numbers"),
    "ragged": ([[[1.0, 2.0], [3.0]]], ValueError, "pairs: expected"),
    "huge": (PAIRS * 1e61, ValueError, "pairs: expected entries of at most"),
    "None": (None, ValueError, "pairs: expected an array of shape"),
}


@pytest.mark.parametrize("kind", BAD_PAIRS)
def test_bad_pairs_are_named(kind):
    pairs, error, message = BAD_PAIRS[kind]
    with pytest.raises(error, match=message):
        pair_samples(Shell(), pairs, reset=True)


def test_the_two_shapes_are_named_where_there_is_a_preprocessor():
    message = r"expected an array of shape \(n_pairs, 2\) of indicators for the preprocessor, or"
    with pytest.raises(ValueError, match=message):
        pair_samples(Shell(VECTORS), [1, 2], reset=True)


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ([[0, 24]], ValueError, "pairs: .*n_samples = 24, got index 24 in row 0"),
        ([[0, -1]], ValueError, "pairs: .*got index -1"),
        ([[0.0, 1.0]], TypeError, "pairs: expected integer sample indices"),
        ([0, 1], ValueError, r"pairs: expected shape \(K, 2\)"),
        ([], ValueError, "pairs: .*got no pairs"),
    ],
)
def test_bad_index_pairs_are_named(pairs, error, message):
    with pytest.raises(error, match=message):
        index_pairs(pairs, 24)


def test_a_sample_may_be_compared_with_itself():
    assert index_pairs([[2, 2]], 3).tolist() == [[2, 2]]


def test_precomputed_distances_have_no_samples():
    judge = PairThreshold("precomputed").fit([0.1, 0.2, 0.9], [1, 1, -1])
    with pytest.raises(ValueError, match=r"X: expected None.*precomputed"):
        judge.pair_distance(INDEX, VECTORS)


def test_distances_come_as_one_number_a_pair():
    assert given_distances([1, 2.5]).tolist() == [1.0, 2.5]
    assert given_distances([[1], [2]]).tolist() == [1.0, 2.0]
    assert given_distances(np.array([1, 2], dtype=np.float32)).dtype == np.float64


@pytest.mark.parametrize(
    ("distances", "error", "message"),
    [
        ([1.0, -0.5], ValueError, "pairs: .*at least 0, got -0.5 for pair 1"),
        ([np.nan], ValueError, "pairs: .*got nan for pair 0"),
        ([np.inf], ValueError, "pairs: .*got inf for pair 0"),
        ([], ValueError, r"pairs: expected precomputed distances of shape \(n_pairs,\)"),
        (PAIRS, ValueError, "pairs: expected precomputed distances .*got shape"),
        (["a"], TypeError, "pairs: expected real numbers"),
    ],
)
def test_bad_distances_are_named(distances, error, message):
    with pytest.raises(error, match=message):
        given_distances(distances)


# Labels and groups


@pytest.mark.parametrize("kind", [int, float, object])
def test_pair_labels_are_plus_and_minus_one(kind):
    y = np.array([1, -1, 1], dtype=kind)
    assert pair_labels(y, 3).tolist() == [True, False, True]
    assert pair_labels(y.tolist(), 3).tolist() == [True, False, True]


def test_one_kind_of_pairs_will_do_where_both_are_not_needed():
    assert pair_labels([1, 1], 2, both=False).tolist() == [True, True]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, r"y: expected a label of \+1 or -1 for each pair.* None"),
        ([1, 0, 1], r"y: expected \+1 .* got labels \[0, 1\]; from booleans write"),
        ([True, False, True], r"y: expected \+1 .* got labels \[False, True\]"),
        (["a", "b", "a"], r"y: expected \+1 .* got labels \['a', 'b'\]"),
        ([1, -1], "y: expected one value for each of the 3 .*got 2"),
        ([1, 1, 1], r"y: expected similar \(\+1\) and dissimilar \(-1\) pairs, got .*only"),
        ([-1, -1, -1], r"y: expected similar .* pairs, got .*-1"),
        ([1, -1, np.nan], "y contains NaN"),
    ],
)
def test_bad_pair_labels_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        pair_labels(y, 3)


def test_classes_are_numbered_in_order():
    classes, labels = class_labels(Shell(), ["b", "a", "c", "a"], 4)
    assert classes.tolist() == ["a", "b", "c"]
    assert labels.tolist() == [1, 0, 2, 0]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "Shell requires y to be passed, but the target y is None"),
        ([0, 1], "y: expected one value for each of the 3 samples, got 2"),
        ([4, 4, 4], "y: expected two classes or more, got 1 class only"),
        ([0.5, 1.5, 2.25], "Unknown label type"),
        ([0.0, 1.0, np.nan], "y contains NaN"),
        ([[0, 1], [1, 0], [0, 0]], "1d array"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_bad_class_labels_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        class_labels(Shell(), y, 3)


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        _, labels = class_labels(Shell(), [[0], [1], [0]], 3)
    assert labels.tolist() == [0, 1, 0]


def test_groups_are_numbered():
    assert group_labels(None, 3) is None
    assert group_labels(["x", "y", "x"], 3).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="groups: expected one value for each of the 3 samples"):
        group_labels([1, 2], 3)


# Nothing half-set


def changed(model, before):
    """The names of the attributes that are no longer what they were."""
    now = vars(model)
    return {name for name in now.keys() | before.keys() if now.get(name) is not before.get(name)}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_whatever_happens_the_estimator_stays_as_it_was(error):
    shell = Shell()
    shell.kept_, shell.changed_, shell.removed_ = object(), object(), object()
    before = dict(vars(shell))

    def fail():
        with unchanged_on_error(shell):
            shell.changed_ = shell.new_ = 1
            del shell.removed_
            raise error

    with pytest.raises(error):
        fail()
    assert changed(shell, before) == set()


ASYMMETRIC = np.eye(4) + np.triu(np.ones((4, 4)), 1)
DEPENDENT = np.c_[VECTORS, VECTORS.sum(axis=1)]

BAD_METRIC = {  # parameters of TATML, TATMLPairs and Maz
    "C": ({"C": 0.0}, "C: expected a positive"),
    "margin": ({"margin": (2.0, 0.5)}, "margin: expected"),
    "prior": ({"prior": "best"}, "prior: expected one of"),
    "prior's shape": ({"prior": np.eye(3)}, "prior: expected matrices of shapes"),
    "prior's symmetry": ({"prior": ASYMMETRIC}, "prior: block 0: expected a symmetric"),
    "indefinite prior": ({"prior": -np.eye(4)}, "prior: block 0: expected a positive definite"),
    "reduction": ({"reduction": "max"}, "reduction: expected one of"),
    "solver": ({"solver": "sgd"}, "solver: expected 'newton', 'dykstra', Newton"),
    "tol": ({"tol": -1.0}, "tol: expected a positive"),
    "random_state": ({"random_state": "seed"}, "random_state: expected None"),
    "n_components": ({"n_components": 5}, "n_components: expected at most n = 4 in block 0, got 5"),
    "no components": ({"n_components": 0}, "n_components: expected at least 1, got 0"),
    "blocks' n_components": ({"n_components": [1, 1]}, "n_components: .*each of 1 blocks"),
    "n_components' type": ({"n_components": 2.0}, "n_components: expected an integer, got 2.0"),
    "n_components' word": ({"n_components": "a"}, "n_components: expected a number .*got 'a'"),
}
BAD_LEARNING = {  # of TATML and TATMLPairs
    "threshold": ({"threshold": -1.0}, "threshold: expected a positive"),
    "threshold's word": ({"threshold": "best"}, "threshold: expected .*got 'best'"),
    "threshold_prior": ({"threshold_prior": 0}, "threshold_prior: expected a positive"),
    "threshold_strength": ({"threshold_strength": 0}, "threshold_strength: expected a positive"),
    "c0": ({"c0": -1.0}, "c0: expected a positive"),
}
BAD_DRAWING = {  # of the label estimators
    "pairs": ({"pairs": "some"}, "pairs: expected one of"),
    "n_pairs_per_class": ({"n_pairs_per_class": 0}, "n_pairs_per_class: expected at least"),
    "n_neighbors": ({"n_neighbors": 1.5}, "n_neighbors: expected an integer"),
}
BAD_SEARCH = {  # of Maz
    "k": ({"threshold": "search", "k": 0}, "k: expected at least 1"),
    "thresholds": ({"threshold": "search", "thresholds": [1.0, -1.0]}, "thresholds: expected"),
    "cv": ({"threshold": "search", "cv": 1}, "cv|n_splits"),
}
BAD_LABELLED = {  # X, y and groups
    "one class": ((VECTORS, np.zeros(24, int)), "y: expected two classes"),
    "no labels": ((VECTORS, None), "requires y to be passed"),
    "few labels": ((VECTORS, LABELS[:5]), "y: expected one value for each of the 24 samples"),
    "NaN": ((with_nan(VECTORS), LABELS), "contains NaN"),
    "sparse": ((scipy.sparse.csr_array(VECTORS), LABELS), "[Ss]parse"),
    "huge": ((1e61 * VECTORS, LABELS), "X: expected entries of at most"),
    "few groups": ((VECTORS, LABELS, [1, 2]), "groups: expected one value for each"),
    "one group": ((VECTORS, LABELS, np.zeros(24)), "y: expected labels that give similar pairs"),
    "constant": ((np.ones((24, 4)), LABELS), "X: expected pairs of samples that differ"),
}
BAD_PAIRED = {  # pairs, y and weights
    "one kind": ((PAIRS, np.ones(len(Y))), "y: expected similar"),
    "zeros and ones": ((PAIRS, Y > 0), r"y: expected \+1"),
    "no labels": ((PAIRS, None), "y: expected a label"),
    "few labels": ((PAIRS, Y[:3]), "y: expected one value"),
    "NaN": ((with_nan(PAIRS), Y), "pairs: expected finite"),
    "index pairs": ((INDEX, Y), "index pairs need a preprocessor"),
    "weights": ((PAIRS, Y, -np.ones(len(Y))), "sample_weight: expected finite, non-negative"),
    "few weights": ((PAIRS, Y, np.ones(3)), "sample_weight: expected shape"),
}
DISTANCES = np.linalg.norm(PAIRS[:, 0] - PAIRS[:, 1], axis=1)
BAD_GIVEN = {
    "negative": ((-DISTANCES, Y), "pairs: expected finite distances"),
    "pairs": ((PAIRS, Y), "pairs: expected precomputed distances"),
}


def failures(make, data, parameters, *bad_data):
    """Bad parameters with good data, and good parameters with bad data."""
    name = type(make).__name__
    for kind, (options, message) in parameters.items():
        yield pytest.param(make, options, data, message, id=f"{name}: {kind}")
    for table in bad_data:
        for kind, (arguments, message) in table.items():
            yield pytest.param(make, {}, arguments, message, id=f"{name}: bad data, {kind}")


def some(table, *kinds):
    return {kind: table[kind] for kind in kinds}


COMMON = some(BAD_METRIC, "margin") | some(BAD_LEARNING, "threshold_prior", "threshold_strength")
SAMPLES = VECTORS, LABELS
DEPENDENT_DATA = {
    "dependent": ((DEPENDENT, LABELS), "covariance of block 0 has rank 4, expected 5")
}
FAILURES = [
    *failures(TATML(), SAMPLES, BAD_METRIC | BAD_LEARNING | BAD_DRAWING, BAD_LABELLED),
    *failures(TATML(prior="covariance"), SAMPLES, {}, DEPENDENT_DATA),
    *failures(Maz(), SAMPLES, BAD_METRIC | BAD_DRAWING | BAD_SEARCH, BAD_LABELLED),
    *failures(
        Euclidean(),
        SAMPLES,
        COMMON | BAD_DRAWING | some(BAD_METRIC, "n_components", "random_state"),
        {kind: bad for kind, bad in BAD_LABELLED.items() if kind not in ("no labels", "constant")},
    ),
    *failures(TATMLPairs(), (PAIRS, Y), BAD_METRIC | BAD_LEARNING, BAD_PAIRED),
    *failures(
        PairThreshold(),
        (PAIRS, Y),
        COMMON | {"metric": ({"metric": "best"}, "metric: expected one of")},
        BAD_PAIRED,
    ),
    *failures(PairThreshold("precomputed"), (DISTANCES, Y), {}, BAD_GIVEN),
]


@pytest.mark.parametrize(("template", "options", "arguments", "message"), FAILURES)
@pytest.mark.parametrize("earlier", [False, True], ids=["first", "again"])
def test_a_failing_fit_leaves_the_estimator_as_it_was(
    template, options, arguments, message, earlier
):
    model = clone(template)
    if earlier:
        fit_well(model)
    model.set_params(**options)
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*arguments)
    assert changed(model, before) == set()


def fit_well(model):
    if hasattr(model, "class_weight"):
        pairs = DISTANCES if getattr(model, "metric", None) == "precomputed" else PAIRS
        return model.fit(pairs, Y)
    return model.fit(RNG.normal(size=(24, 3)), LABELS)


def test_a_calibration_that_fails_after_learning_leaves_nothing():
    model = TATMLPairs()
    before = dict(vars(model))
    with pytest.raises(ValueError, match="strategy: expected one of"):
        model.fit(PAIRS, Y, calibration_params={"strategy": "luck"})
    assert changed(model, before) == set()


def test_an_interrupted_fit_leaves_nothing():
    def interrupted(_):
        raise KeyboardInterrupt

    for model, arguments in ((TATML(), (np.arange(24), LABELS)), (TATMLPairs(), (INDEX, Y))):
        model.set_params(preprocessor=interrupted)
        before = dict(vars(model))
        with pytest.raises(KeyboardInterrupt):
            model.fit(*arguments)
        assert changed(model, before) == set()


@pytest.mark.parametrize("model", [TATML(), TATMLPairs(), Euclidean(), Maz(), PairThreshold()])
def test_a_new_fit_forgets_the_earlier_one(model):
    """What was learnt from other data, of another shape, is nowhere left."""
    again, fresh = clone(model), clone(model)
    if hasattr(model, "random_state"):
        again.set_params(random_state=0)
        fresh.set_params(random_state=0)
    X, y = (MATRICES[INDEX], Y) if hasattr(model, "class_weight") else (MATRICES, LABELS)
    fit_well(again).set_threshold(123.0).fit(X, y)
    fresh.fit(X, y)
    assert vars(again).keys() == vars(fresh).keys()
    assert again.threshold_ == fresh.threshold_
    assert again.block_shapes_ == fresh.block_shapes_ == ((3, 2),)
    assert_array_equal(again.pair_distance(MATRICES[INDEX]), fresh.pair_distance(MATRICES[INDEX]))


def test_a_new_fit_forgets_what_another_parameter_brought():
    searched = Maz(threshold="search", thresholds=[0.5, 1.0], random_state=0).fit(VECTORS, LABELS)
    assert hasattr(searched, "search_scores_")
    assert not hasattr(searched.set_params(threshold=1.0).fit(VECTORS, LABELS), "search_scores_")
    measured = PairThreshold().fit(PAIRS, Y)
    assert measured.n_features_in_ == 4
    measured.set_params(metric="precomputed").fit(DISTANCES, Y)
    assert not {"n_features_in_", "block_shapes_"} & vars(measured).keys()
