"""What the estimators say to input that they cannot use, and that nothing is left half-set."""

import warnings
from copy import copy
from functools import cache

import numpy as np
import pytest
import scipy.sparse
from estimators_helpers import labelled, labelled_pairs
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tatml import (
    GMML,
    ITML,
    PAPER,
    TATML,
    TATMLCV,
    Blocks,
    Euclidean,
    Maz,
    Newton,
    PairThreshold,
    TATMLPairs,
)

FEW = {"n_pairs_per_class": 20, "random_state": 0}
X, Y = labelled()
INDEX, LABELS = labelled_pairs(Y)
PAIRS = X[INDEX]
MATRICES = labelled("matrices")[0]
BLOCKS = labelled("two blocks")[0]

LABEL_ESTIMATORS = [TATML(**FEW), Maz(**FEW), Euclidean(**FEW)]
PAIR_ESTIMATORS = [TATMLPairs(), PairThreshold()]


def learns_from_pairs(estimator):
    return "Pair" in type(estimator).__name__


def name_of(estimator):
    return type(estimator).__name__


@cache
def fitted_with_defaults(make):
    return make().fit(PAIRS, LABELS) if "Pair" in make.__name__ else make(**FEW).fit(X, Y)


def refused(estimator, method, *arguments, message, kinds=(TypeError, ValueError), **options):
    """The call raises an error that says so, and changes nothing, not even what was fitted."""
    before = dict(vars(estimator))
    with pytest.raises(kinds, match=message):
        getattr(estimator, method)(*arguments, **options)
    assert vars(estimator).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(estimator).items())


def refused_in_fit(estimator, *arguments, message, **options):
    """Refused by a new estimator, and by one that was fitted before."""
    refused(clone(estimator), "fit", *arguments, message=message, **options)
    fitted = copy(fitted_with_defaults(type(estimator))).set_params(**estimator.get_params())
    refused(fitted, "fit", *arguments, message=message, **options)


# Parameters

NOT_POSITIVE = [0, -1.0, np.nan, np.inf, "1", None, True]
NOT_COUNTS = [0, -2, 1.5, "3", True]
NOT_MARGINS = [(2.0, 0.5), (1.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (1.0,), 3.0, "ab", None]
SHARED = {
    "margin": NOT_MARGINS,
    "random_state": ["seed", -1, 1.5],
    "n_components": [*NOT_COUNTS, 5, [1, 2], "2"],
}
DRAWN = {
    "pairs": ["some", None, 3],
    "n_pairs_per_class": [*NOT_COUNTS, 1],
}
SOLVED = {
    "C": NOT_POSITIVE,
    "prior": ["wishful", None, 3, np.eye(3), -np.eye(4), [np.eye(4)] * 2, np.full((4, 4), np.nan)],
    "reduction": ["median", None],
    "solver": ["gradient", None, Newton, 3],
    "tol": NOT_POSITIVE,
}
PULLED = {
    "threshold_prior": [0, -1.0, np.nan, np.inf, "1", True],
    "threshold_strength": NOT_POSITIVE,
}
TUNED = {
    "threshold": [0, -1.0, np.nan, np.inf, "automatic", None, True],
    "c0": [0, -1.0, np.nan, "1", True],
}
WEIGHED = {
    "class_weight": ["unbalanced", {0: 1, 1: 1}, {-1: -1.0, 1: 1.0}, {-1: 0, 1: 0}, {-1: np.nan}],
}
PARAMETERS = {
    TATML: SHARED | DRAWN | SOLVED | PULLED | TUNED,
    Maz: SHARED | DRAWN | SOLVED | {"threshold": [0, -1.0, np.nan, "auto", None, True]},
    Euclidean: SHARED | DRAWN | PULLED,
    TATMLPairs: SHARED | SOLVED | PULLED | TUNED | WEIGHED,
    PairThreshold: PULLED | WEIGHED | {"margin": NOT_MARGINS, "metric": ["taxi", None, 3]},
}
WRONG = [
    pytest.param(make, name, value, id=f"{make.__name__}-{name}-{number}")
    for make, parameters in PARAMETERS.items()
    for name, values in parameters.items()
    for number, value in enumerate(values)
]


@pytest.mark.parametrize(("make", "name", "value"), WRONG)
def test_a_wrong_parameter_is_named(make, name, value):
    options = FEW if make in (TATML, Maz, Euclidean) else {}
    estimator = make(**options | {name: value})
    samples = (X, Y) if options else (PAIRS, LABELS)
    refused_in_fit(estimator, *samples, message=rf"\b{name}\b")


@pytest.mark.parametrize("value", NOT_COUNTS)
@pytest.mark.parametrize("make", [TATML, Maz, Euclidean])
def test_a_wrong_number_of_neighbours_is_named(make, value):
    estimator = make(pairs="neighbors", n_neighbors=value)
    refused_in_fit(estimator, X, Y, message="n_neighbors: expected")


SEARCH = [
    *(("thresholds", value, "thresholds?: ") for value in ((), 0.5, (0.5, -1.0), (0.5, None))),
    ("thresholds", (0.5, "search"), "thresholds?: "),
    ("cv", "three", r"Expected `?cv`? as an integer"),
    *(("k", value, "k: expected") for value in (0, 2.5, None)),
]


@pytest.mark.parametrize(("name", "value", "message"), SEARCH)
def test_a_wrong_parameter_of_the_search_is_named(name, value, message):
    estimator = Maz(**FEW | {"threshold": "search", name: value})
    refused_in_fit(estimator, X, Y, message=message)


# Samples and labels

BAD_SAMPLES = {
    "NaN": (np.where(np.arange(4) == 2, np.nan, X), Y, "Input X contains NaN"),
    "infinity": (np.where(np.arange(4) == 2, np.inf, X), Y, "Input X contains infinity"),
    "NaN in a matrix": (
        np.where(np.arange(60)[:, None, None] == 7, np.nan, MATRICES),
        Y,
        r"X: expected finite numbers, got nan in block 0, sample 7",
    ),
    "NaN in a block": (
        Blocks(BLOCKS.arrays[0], np.where(np.arange(60)[:, None] == 7, np.nan, X)),
        Y,
        r"X: expected finite numbers, got nan in block 1, sample 7",
    ),
    "sparse": (scipy.sparse.csr_array(X), Y, "[Ss]parse"),
    "strings": (np.full((60, 4), "a"), Y, "X: expected|could not convert string"),
    "complex": (X + 1j, Y, "[Cc]omplex"),
    "huge": (1e70 * X, Y, r"X: expected entries of at most 1e\+60"),
    "one number": (3.0, Y, "Expected 2D array"),
    "one axis": (X[:, 0], Y, "Expected 2D array"),
    "four axes": (
        MATRICES[:, None],
        Y,
        r"X: expected a 2-D .* got ndarray of shape \(60, 1, 3, 4\)",
    ),
    "no samples": (X[:0], Y[:0], "0 sample"),
    "one class": (X, np.ones(60), r"y: expected two classes or more, got 1 class only"),
    "classes of one": (X[:3], [0, 1, 2], r"y: expected labels that give similar pairs"),
    "continuous": (X, X[:, 0], "Unknown label type"),
    "NaN in y": (X, np.where(Y == 0, np.nan, Y), "NaN"),
    "short y": (X, Y[:-1], r"y: expected one value for each of the 60 samples, got 59"),
    "two columns in y": (X, np.stack([Y, Y], axis=1), "y should be a 1d array"),
}


@pytest.mark.parametrize("estimator", LABEL_ESTIMATORS, ids=name_of)
@pytest.mark.parametrize("name", BAD_SAMPLES)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn, NaN in y
def test_bad_samples_and_labels(estimator, name):
    samples, labels, message = BAD_SAMPLES[name]
    refused_in_fit(estimator, samples, labels, message=message)


@pytest.mark.parametrize("estimator", LABEL_ESTIMATORS[:2], ids=name_of)
def test_labels_are_needed(estimator):
    refused_in_fit(estimator, X, None, message="requires y to be passed")


@pytest.mark.parametrize("estimator", LABEL_ESTIMATORS, ids=name_of)
def test_bad_groups(estimator):
    short, square = np.arange(59), np.ones((60, 2))
    one_each = r"groups: expected one value for each of the 60 samples, got 59"
    refused_in_fit(estimator, X, Y, groups=short, message=one_each)
    refused_in_fit(estimator, X, Y, groups=square, message="groups")
    refused_in_fit(estimator, X, Y, groups=np.zeros(60), message="similar pairs, .* the groups")
    refused_in_fit(estimator, X, Y, groups=Y, message="y: expected labels that give similar pairs")


def test_samples_that_are_all_the_same_are_refused():
    same = np.ones((60, 4))
    refused_in_fit(TATML(**FEW), same, Y, message="X: expected pairs of samples that differ")
    message = "X: expected pairs of samples that differ, got identical ones only"
    refused_in_fit(TATML(**FEW, prior="identity"), same, Y, message=message)


@pytest.mark.parametrize("make", [TATML, TATMLPairs])
def test_a_singular_covariance_is_refused_and_a_shrunk_one_is_not(make):
    table = np.column_stack([X, X[:, 0] - 2 * X[:, 1]])
    samples = (table, Y) if make is TATML else (table[INDEX], LABELS)
    message = r"prior='covariance': the covariance of block 0 has rank 4, expected 5"
    refused_in_fit(make(prior="covariance"), *samples, message=message)
    assert make(prior="within").fit(*samples).result_.converged


# Pairs

BAD_PAIRS = {
    "labels 0 and 1": (PAIRS, (LABELS + 1) // 2, r"y: expected \+1 .* got labels \[0, 1\]"),
    "booleans": (PAIRS, LABELS > 0, r"from booleans write np.where\(similar, 1, -1\)"),
    "words": (PAIRS, np.where(LABELS > 0, "same", "other"), r"y: expected \+1"),
    "three labels": (PAIRS, np.where(np.arange(120) < 9, 0, LABELS), r"got labels \[-1, 0, 1\]"),
    "one label": (PAIRS, np.ones(120), r"y: expected .*similar \(\+1\) and dissimilar \(-1\)"),
    "no labels": (PAIRS, None, r"y\b.*None"),
    "NaN in y": (PAIRS, np.where(LABELS > 0, np.nan, -1), "y contains NaN"),
    "short y": (PAIRS, LABELS[:-1], r"y: expected one value for each of the 120 .*, got 119"),
    "NaN": (
        np.where(np.arange(240).reshape(120, 2, 1) == 15, np.nan, PAIRS),
        LABELS,
        r"pairs: expected finite numbers, got NaN or infinity in pair 7, member 1",
    ),
    "sparse": (scipy.sparse.csr_array(X), Y, r"pairs: expected a dense array"),
    "Blocks": (BLOCKS, Y, r"pairs: .* give index pairs, and the Blocks as preprocessor"),
    "triplets": (np.ones((120, 3, 4)), LABELS, r"pairs: expected two samples a pair"),
    "index pairs": (INDEX, LABELS, "index pairs need a preprocessor"),
    "one axis": (X[:, 0], Y, r"pairs: expected an array of shape"),
    "five axes": (np.ones((120, 2, 2, 2, 2)), LABELS, r"pairs: expected an array of shape"),
    "no pairs": (PAIRS[:0], LABELS[:0], r"pairs: expected at least one pair"),
    "no features": (PAIRS[:, :, :0], LABELS, r"pairs: expected"),
    "strings": (PAIRS.astype(str), LABELS, r"pairs: expected real numbers"),
    "ragged": ([[[1.0], [1.0, 2.0]], [[1.0], [2.0]]], [1, -1], r"pairs: expected"),
}


@pytest.mark.parametrize("estimator", PAIR_ESTIMATORS, ids=name_of)
@pytest.mark.parametrize("name", BAD_PAIRS)
def test_bad_pairs_and_labels(estimator, name):
    pairs, labels, message = BAD_PAIRS[name]
    refused_in_fit(estimator, pairs, labels, message=message)


@pytest.mark.parametrize("estimator", PAIR_ESTIMATORS, ids=name_of)
@pytest.mark.parametrize(
    "weights",
    [
        -np.ones(120),
        np.zeros(120),
        np.where(LABELS > 0, 1.0, 0.0),
        np.where(LABELS > 0, 0.0, 1.0),
        np.ones(119),
        np.full(120, np.nan),
        ["a"] * 120,
    ],
)
def test_bad_weights(estimator, weights):
    refused_in_fit(estimator, PAIRS, LABELS, sample_weight=weights, message="sample_weight: exp")


@pytest.mark.parametrize("estimator", PAIR_ESTIMATORS, ids=name_of)
@pytest.mark.parametrize(
    ("preprocessor", "pairs"),
    [
        (X, INDEX + 100),
        (X, -1 - INDEX),
        (X, INDEX.astype(float)),
        (X, INDEX.astype(str)),
        (5, INDEX),
        ("samples", INDEX),
        (lambda indicators: X[:3], INDEX),
        (lambda indicators: X, INDEX[:20]),
        (lambda indicators: None, INDEX),
    ],
    ids=["beyond", "negative", "float", "str", "number", "word", "too few", "too many", "none"],
)
def test_bad_preprocessors(estimator, preprocessor, pairs):
    model = clone(estimator).set_params(preprocessor=preprocessor)
    kinds = (TypeError, ValueError, IndexError)
    labels = LABELS[: len(pairs)]
    refused(model, "fit", pairs, labels, message="preprocessor: ", kinds=kinds)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_distances_are_finite_and_not_negative(value):
    distances = np.where(np.arange(120) == 3, value, 1.0)
    message = rf"pairs: expected finite distances of at least 0, got {value} for pair 3"
    refused_in_fit(PairThreshold("precomputed"), distances, LABELS, message=message)
    given = iter(distances)
    model = PairThreshold(metric=lambda u, v: next(given))
    refused(model, "fit", PAIRS, LABELS, message="metric|pairs")


def test_precomputed_distances_belong_to_no_samples():
    model = PairThreshold("precomputed").fit(np.arange(120.0), LABELS)
    refused(model, "pair_distance", INDEX, X, message="X: |metric|precomputed")
    refused(model, "predict", PAIRS, message="pairs: expected precomputed distances")


# After fit

METHODS = {
    "transform": (X,),
    "pair_distance": (PAIRS,),
    "pair_score": (PAIRS,),
    "predict_pairs": (PAIRS,),
    "predict": (PAIRS,),
    "decision_function": (PAIRS,),
    "score": (PAIRS, LABELS),
    "set_threshold": (1.0,),
    "calibrate_threshold": (PAIRS, LABELS),
    "get_metric": (),
    "get_mahalanobis_matrix": (),
    "get_feature_names_out": (),
}


@pytest.mark.parametrize("estimator", LABEL_ESTIMATORS + PAIR_ESTIMATORS, ids=name_of)
def test_nothing_works_before_fit(estimator):
    called = [name for name in METHODS if hasattr(estimator, name)]
    assert len(called) >= 8
    for name in called:
        refused(clone(estimator), name, *METHODS[name], message="not fitted", kinds=NotFittedError)


@pytest.mark.parametrize("estimator", [*LABEL_ESTIMATORS, TATMLPairs()], ids=name_of)
def test_samples_must_be_like_those_of_fit(estimator):
    fitted = clone(estimator)
    fitted.fit(*((MATRICES[INDEX], LABELS) if learns_from_pairs(estimator) else (MATRICES, Y)))
    for other in (MATRICES[:, :, :3], X, BLOCKS):
        refused(fitted, "transform", other, message="features, but")
    turned = np.swapaxes(MATRICES, 1, 2)
    refused(fitted, "transform", turned, message="X: expected blocks of shapes 3×4 as in")
    refused(fitted, "pair_distance", turned[INDEX], message="pairs: expected blocks of")
    refused(fitted, "pair_distance", INDEX, message="index pairs need a preprocessor")
    wrong = (TypeError, ValueError, IndexError)
    refused(fitted, "pair_distance", [[0, 60]], MATRICES, message="pairs: .* 60", kinds=wrong)
    refused(fitted, "pair_distance", [[0.5, 1]], MATRICES, message="pairs: ", kinds=wrong)
    nan = np.full((60, 3, 4), np.nan)
    refused(fitted, "transform", nan, message="X: expected finite numbers")


@pytest.mark.parametrize("estimator", PAIR_ESTIMATORS, ids=name_of)
def test_pairs_must_be_like_those_of_fit(estimator):
    fitted = clone(estimator).fit(PAIRS, LABELS)
    for name in ("predict", "decision_function", "pair_distance", "pair_score"):
        refused(fitted, name, PAIRS[:, :, :3], message="3 features, but")
    refused(fitted, "score", PAIRS, LABELS > 0, message="y: expected")
    refused(fitted, "score", PAIRS, LABELS[:-1], message="y: expected")


@pytest.mark.parametrize("estimator", LABEL_ESTIMATORS + PAIR_ESTIMATORS, ids=name_of)
def test_a_bad_threshold_or_target_leaves_the_old_one(estimator):
    fitted = clone(estimator)
    fitted.fit(*((PAIRS, LABELS) if learns_from_pairs(estimator) else (X, Y)))
    for threshold in (-1, np.nan, np.inf, "1", None, True):
        refused(fitted, "set_threshold", threshold, message="threshold: expected")
    for target, message in (
        ({"strategy": "luck"}, "strategy: expected one of 'accuracy', "),
        ({"strategy": "max_tpr"}, "min_rate: expected a number from 0 to 1"),
        ({"strategy": "max_tnr", "min_rate": 1.1}, "min_rate: expected"),
        ({"strategy": "false_match_rate"}, "max_rate: expected"),
        ({"strategy": "accuracy", "min_rate": 0.5}, "min_rate: expected None"),
        ({"strategy": "f_beta", "beta": np.nan}, "beta: expected"),
        ({"sample_weight": np.ones(3)}, "sample_weight: expected"),
    ):
        refused(fitted, "calibrate_threshold", PAIRS, LABELS, **target, message=message)
    refused(fitted, "calibrate_threshold", PAIRS, LABELS > 0, message="y: expected")
    one_kind = np.ones(len(PAIRS))
    refused(fitted, "calibrate_threshold", PAIRS, one_kind, message="y: expected")


def test_a_bad_target_in_fit_leaves_nothing():
    target = {"strategy": "max_tpr"}
    refused_in_fit(TATMLPairs(), PAIRS, LABELS, calibration_params=target, message="min_rate: exp")


# Covariance matrices


def covariances():
    signals = np.random.default_rng(0).normal(size=(60, 4, 30)) * [[[1], [3], [10], [40]]]
    return signals @ np.swapaxes(signals, 1, 2) / 30


ALL = [GMML, ITML, TATML, TATMLCV, Euclidean, Maz, PairThreshold, TATMLPairs]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("make", ALL)
def test_raw_covariances_get_a_hint_and_their_logarithms_do_not(make, scale):
    C = scale * covariances()
    for samples in (C, Blocks(BLOCKS.arrays[0], C)):
        estimator = make(preprocessor=samples)
        arguments = (INDEX, LABELS) if learns_from_pairs(estimator) else (samples, Y)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator.fit(*arguments)
        assert [warning.category for warning in caught] == [UserWarning]
        assert "tatml.features.LogEuclidean" in str(caught[0].message)
        assert caught[0].filename == __file__
        assert estimator.threshold_ > 0
    values, vectors = np.linalg.eigh(C)
    logarithms = (vectors * np.log(values)[:, None]) @ np.swapaxes(vectors, 1, 2)
    estimator = make(preprocessor=logarithms)
    arguments = (INDEX, LABELS) if learns_from_pairs(estimator) else (logarithms, Y)
    assert estimator.fit(*arguments).threshold_ > 0  # warnings are errors


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_hint_is_for_condition_numbers_above_five(scale):
    rng = np.random.default_rng(0)
    turns = np.linalg.qr(rng.normal(size=(60, 3, 3)))[0]
    for condition in (4.9, 5.1):
        values = np.stack([np.ones(60), rng.uniform(1, 4, size=60), np.full(60, condition)], axis=1)
        matrices = scale * (turns * values[:, None]) @ np.swapaxes(turns, 1, 2)
        if condition < 5:
            assert Euclidean(**FEW).fit(matrices, Y).threshold_ > 0  # warnings are errors
        else:
            with pytest.warns(UserWarning, match="X: block 0 holds symmetric positive definite"):
                Euclidean(**FEW).fit(matrices, Y)


def test_plain_data_get_no_hint():
    assert TATML(**PAPER).fit(X, Y).result_.converged
    correlations = np.stack([np.corrcoef(matrix) for matrix in covariances()])
    assert TATML(**FEW).fit(correlations, Y).result_.converged
