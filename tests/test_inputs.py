"""Samples, pairs, labels and parameters are accepted in many forms; the defaults."""

import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from estimators_helpers import labelled, labelled_pairs
from fuzz_outcomes import run_case
from good_calls import (
    ESTIMATORS,
    FEW,
    LABEL_ESTIMATORS,
    QUICK_CV,
    TUPLE_ESTIMATORS,
    changed_call,
    index_tuples,
    made,
    quick_options,
)
from helpers import SHAPES, assert_same_blocks, random_case, solver_of
from numpy.testing import assert_allclose, assert_array_equal
from refusals import BLOCKS, INDEX, MATRICES, PAIRS, SIGNS, SIMILAR, K, N, X, Y
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import StratifiedKFold

from tatml import (
    PAPER,
    TATML,
    TATMLCV,
    Blocks,
    Dykstra,
    Euclidean,
    Maz,
    Newton,
    PairThreshold,
    TATMLPairs,
    TATMLRegression,
    learn_metric,
)
from tatml._data.arrays import group_labels
from tatml._data.blocks import hint_at_raw_covariances
from tatml._data.pairs import as_index
from tatml._estimators.inputs import (
    TUPLE_SIZES,
    class_labels,
    given_distances,
    pair_labels,
    samples_of,
    tuple_samples,
)
from tatml._estimators.metric import MetricEstimator


class Shell(MetricEstimator):
    """The least that the edge asks of an estimator."""

    def __init__(self, preprocessor=None):
        self.preprocessor = preprocessor


# Defaults

DRAWN = {"pairs": "random", "n_pairs_per_class": None, "n_neighbors": 3}
SOLVED = {"solver": "newton", "tol": 1e-6, "random_state": None, "verbose": False}
PULLED = {"threshold_prior": None, "threshold_strength": 1.0, "margin": (0.5, 2.0)}
SHARED = {"n_components": None, "preprocessor": None}
TUNED = {"threshold": "auto", "c0": None, "reduction": "mean", "clip_outliers": "auto"}
TUNED |= {"kernel": None, "loss": "auto", "midpoint": False}
LEARNT = {"C": None, "prior": "discriminant"} | TUNED | PULLED | SHARED | SOLVED
WARM = {"warm_start": False}
COMPARED = {"C": 100.0, "margin": 1.0, "prior": "discriminant", "reduction": "mean"}
COMPARED |= {"clip_outliers": True, "kernel": None} | SHARED | SOLVED | WARM
DEFAULTS = {
    "TATMLTriplets": COMPARED,
    "TATMLQuadruplets": COMPARED,
    "TATMLNeighbors": {"C": 100.0, "pair_C": 10.0, "margin": 1.0, "prior": "best"}
    | {"threshold": "auto"}
    | {"n_neighbors": 3, "n_impostors": 3, "max_rounds": 3, "n_pairs_per_class": None}
    | ({"clip_outliers": "auto", "kernel": None} | SHARED | SOLVED),
    "TATML": LEARNT | DRAWN | WARM | {"new_classes": False},
    "TATMLCV": {"estimator": None, "param_grid": None, "random_state": None}
    | {"scoring": "both", "k": 3, "cv": 5, "n_jobs": None},
    "Maz": {"threshold": 1.0, "thresholds": (0.5, 0.5**0.5, 1.0, 2**0.5), "cv": 3, "k": 3}
    | {"C": 100.0, "prior": "discriminant", "margin": (0.5, 2.0), "reduction": "mean"}
    | {"kernel": None}
    | (DRAWN | SHARED | SOLVED | WARM),
    "ITML": {"gamma": 1.0, "bounds": None, "percentiles": (5, 95), "prior": "auto"}
    | {"kernel": None}
    | (DRAWN | SHARED | PULLED | SOLVED | WARM),
    "GMML": {"t": 0.5, "regularization": 0.01, "prior": "auto", "random_state": None}
    | (DRAWN | SHARED | PULLED),
    "Euclidean": DRAWN | SHARED | PULLED | {"random_state": None},
    "TATMLPairs": LEARNT | WARM | {"class_weight": "balanced"},
    "TATMLRegression": {"C": 100.0, "near": 0.12, "far": 0.4, "n_pairs": 5000}
    | {"threshold": "auto", "loss": "auto", "prior": "discriminant"}
    | {"clip_outliers": "auto", "kernel": None}
    | (SHARED | PULLED | SOLVED),
    "PairThreshold": PULLED
    | {"metric": "euclidean", "class_weight": "balanced", "preprocessor": None}
    | {"greater_is_same": False, "classifier": None},
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_defaults_are_those_documented(name):
    assert ESTIMATORS[name]().get_params() == DEFAULTS[name]
    documented = re.findall(r"^    (\w+) : .*, default=(.+)$", ESTIMATORS[name].__doc__, re.M)
    assert documented
    for parameter, default in documented:
        assert eval(default) == DEFAULTS[name][parameter], parameter


# Samples


def test_tables_matrices_and_blocks_become_blocks():
    shell = Shell()
    assert_same_blocks(shell._read_samples(X.tolist()), [X[:, :, None]])
    assert (shell.n_features_in_, shell.block_shapes_) == (3, ((3, 1),))
    assert_same_blocks(shell._read_samples(MATRICES.tolist()), [MATRICES])
    assert (shell.n_features_in_, shell.block_shapes_) == (6, ((3, 2),))
    assert_same_blocks(shell._read_samples(BLOCKS), BLOCKS.arrays)
    assert (shell.n_features_in_, shell.block_shapes_) == (8, ((3, 2), (2, 1)))


def test_names_of_columns_are_kept_until_the_next_fit():
    frame = pd.DataFrame(X, columns=list("abc"))
    shell = Shell()
    assert_same_blocks(shell._read_samples(frame), [X[:, :, None]])
    assert shell.feature_names_in_.tolist() == list("abc")
    with pytest.raises(ValueError, match="The feature names should match"):
        samples_of(shell, frame[list("cba")], reset=False)
    shell._read_samples(BLOCKS)
    assert not hasattr(shell, "feature_names_in_")


def test_pairs_need_no_names_of_columns():
    """Pairs are no table and cannot have names of columns, so nothing is warned of."""
    frame = pd.DataFrame(X, columns=list("abc"))
    model = Euclidean(random_state=0).fit(frame, Y)
    expected = np.linalg.norm(PAIRS[:, 0] - PAIRS[:, 1], axis=1)
    assert_allclose(model.pair_distance(INDEX, frame), expected)
    assert_allclose(model.pair_distance(PAIRS), expected)


def test_a_mask_that_hides_nothing_changes_nothing():
    shown = np.ma.array(X, mask=np.zeros_like(X, dtype=bool))
    plain = TATML(**FEW).fit(X, Y)
    model = TATML(**FEW).fit(shown, np.ma.array(Y, mask=False))
    assert_array_equal(model.components_, plain.components_)
    assert_array_equal(model.transform(shown), plain.transform(X))


@pytest.mark.parametrize("name", [make.__name__ for make in LABEL_ESTIMATORS])
@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({"X": Blocks(PAIRS), "y": SIGNS}, (2, 3)),
        ({"X": PAIRS, "y": SIMILAR}, (2, 3)),
        ({"X": PAIRS, "y": np.arange(K) % 3}, (2, 3)),
        ({"X": X * [1.0, 1e-160, 1.0]}, (3, 1)),
    ],
)
def test_samples_that_are_nearly_refused_are_learnt_from(name, given, shape):
    """Matrices of two rows that are no pairs; a feature that hardly varies."""
    model = changed_call(f"{name}.fit", given).call()  # warnings are errors
    assert model.block_shapes_ == (shape,)
    assert np.all(np.isfinite(model.transform(given["X"])))
    assert model.threshold_ > 0


@pytest.mark.parametrize("make", [TATML, TATMLPairs])
def test_dependent_features_are_learnt_from_with_a_shrunk_scatter(make):
    dependent = np.c_[X, X[:, 0] - 2 * X[:, 1]]
    given = (dependent, Y) if make is TATML else (dependent[INDEX], SIGNS)
    assert make(prior="within").fit(*given).result_.converged


# Preprocessors and pairs


@pytest.mark.parametrize("given", [X, MATRICES, BLOCKS], ids=["table", "matrices", "blocks"])
def test_indicators_find_their_samples(given):
    expected = given.arrays if given is BLOCKS else Blocks(given).arrays
    chosen = np.array([5, 5, 0, 11])
    for preprocessor in (given, lambda index: given[index]):
        shell = Shell(preprocessor)
        found = shell._read_samples(chosen)
        assert_same_blocks(found, [array[chosen] for array in expected])
        blocks, index = tuple_samples(shell, INDEX, "pairs", reset=False)
        for array, whole in zip(blocks.arrays, expected, strict=True):
            assert_array_equal(array[index], whole[INDEX])


def test_samples_given_beside_a_preprocessor_are_taken_as_they_are():
    shell = Shell(preprocessor=np.zeros((3, 3)))
    assert_same_blocks(shell._read_samples(X), [X[:, :, None]])
    blocks, index = tuple_samples(shell, PAIRS, "pairs", reset=False)
    assert_array_equal(blocks.arrays[0][index][..., 0], PAIRS)


def test_every_sample_is_asked_for_once():
    asked = []

    def preprocessor(indicators):
        asked.extend(indicators.tolist())
        return X[indicators]

    tuple_samples(Shell(preprocessor), [[3, 1], [1, 7], [3, 7]], "pairs", reset=True)
    assert asked == [1, 3, 7]


@pytest.mark.parametrize("pairs", [PAIRS, MATRICES[INDEX]])
def test_pairs_keep_their_order(pairs):
    blocks, index = tuple_samples(Shell(), pairs, "pairs", reset=True)
    assert_array_equal(blocks.arrays[0][index].reshape(pairs.shape), pairs)


def test_a_sample_may_be_compared_with_itself():
    assert as_index([[2, 2]], 3, allow_self=True).tolist() == [[2, 2]]


def test_distances_come_as_one_number_per_pair():
    assert given_distances([1, 2.5]).tolist() == [1.0, 2.5]
    assert given_distances([[1], [2]]).tolist() == [1.0, 2.0]
    assert given_distances(np.array([1, 2], dtype=np.float32)).dtype == np.float64


def test_a_calibration_that_accepts_all_pairs_is_just_above_the_largest_distance():
    judge = PairThreshold("precomputed").fit([0.1, 0.5, 3.0], [1, -1, 1])
    judge.calibrate_threshold([0.1, 0.5, 3.0], [1, -1, 1], "max_tnr", min_rate=1.0)
    assert judge.threshold_ == np.nextafter(3.0, np.inf)
    assert judge.predict([3.0, judge.threshold_]).tolist() == [1, -1]


def test_an_empty_list_of_calibration_params_is_an_empty_dict():
    assert TATMLPairs().fit(PAIRS, SIGNS, calibration_params=[]).threshold_ > 0


# Labels and groups

CLASS_ESTIMATORS = [make for make in LABEL_ESTIMATORS if make is not TATMLRegression]


def test_labels_and_groups_are_numbered():
    for kind in (int, float, object):
        y = np.array([1, -1, 1], dtype=kind)
        assert (
            pair_labels(y, 3).tolist() == pair_labels(y.tolist(), 3).tolist() == [True, False, True]
        )
    assert pair_labels([1, 1], 2, both=False).tolist() == [True, True]
    classes, labels = class_labels(Shell(), ["b", "a", "c", "a"], 4)
    assert (classes.tolist(), labels.tolist()) == (["a", "b", "c"], [1, 0, 2, 0])
    assert group_labels(None, 3) is None
    assert group_labels(["x", "y", "x"], 3).tolist() == [0, 1, 0]


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        _, labels = class_labels(Shell(), [[0], [1], [0]], 3)
    assert labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("label_estimator", LABEL_ESTIMATORS)
def test_two_whole_columns_are_samples_unless_they_look_like_index_pairs(label_estimator):
    """With a preprocessor: indices of samples that have two such columns; other labels; Blocks."""

    def make(**given):
        return made(label_estimator, quick_options(label_estimator) | given)

    table = np.random.default_rng(0).integers(10, size=(N, 2))
    signs = np.where(np.arange(N) % 2, 1, -1)
    expected = make().fit(table, signs).transform(table)
    assert_array_equal(make(preprocessor=table).fit(np.arange(N), signs).transform(table), expected)
    assert_array_equal(make(preprocessor=X).fit(table, signs > 0).transform(table), expected)
    assert_array_equal(make(preprocessor=X).fit(Blocks(table), signs).transform(table), expected)
    make(preprocessor=X).fit(table + 0.5, signs)
    with pytest.raises(ValueError, match="which are index pairs: fit TATMLPairs"):
        make(preprocessor=X).fit(table, signs)


def warnings_of(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    "model",
    [
        *(make(random_state=0) for make in CLASS_ESTIMATORS if make is not TATMLCV),
        TATMLCV(param_grid={"C": [1.0]}),
        TATMLCV(param_grid={"C": [1.0]}, scoring="accuracy"),
        Maz(threshold="search", thresholds=[1.0], cv=2),
    ],
)
def test_the_target_of_a_regression_is_warned_of_once(model):
    """The target of diabetes: 214 different numbers, of which 84 have a single sample."""
    samples, target = load_diabetes(return_X_y=True)
    (message,) = warnings_of(lambda: model.fit(samples, target))
    assert message.startswith("y: 442 samples have 214 different numbers")
    assert "84 of these classes have a single sample" in message


def test_which_labels_are_taken_for_a_target():
    """More than ten numbers; most have at most two samples, and a third of them a single one."""

    def warns(y):
        return len(warnings_of(lambda: class_labels(Shell(), y, len(y)))) > 0

    once, twice, often = np.arange(100), np.repeat(np.arange(100), 2), np.repeat(np.arange(100), 3)
    assert not warns(often)
    assert not warns(twice)
    assert not warns(np.r_[twice, often + 100, 300 + once[:90]])  # 100 of 290 have three
    assert warns(np.r_[once, 100 + often[:180]])
    assert warns(np.r_[once, 100 + np.repeat(once[:90], 1000)].astype(float))
    assert not warns(np.r_[once[:50], 100 + twice[:202], 300 + twice])  # a quarter are single
    assert not warns(once.astype(str))
    assert not warns(once.astype(str).astype(object))
    assert not warns(np.arange(10))
    assert warns(np.arange(11))


def test_few_samples_of_a_class_are_warned_of_once_by_name():
    """A number of folds adapts to them; a splitter does not."""
    labels = np.where(np.arange(N) < 2, 3, Y)
    with pytest.warns(UserWarning, match="cv: The least populated class") as caught:
        TATMLCV(**QUICK_CV | {"cv": StratifiedKFold(3), "scoring": "accuracy"}).fit(X, labels)
    assert len(caught) == 1
    TATMLCV(**QUICK_CV | {"cv": 3}).fit(X, labels)


def test_a_search_warns_once_of_what_has_not_converged():
    model = Maz(threshold="search", solver=Newton(max_iter=1), tol=1e-12, k=1, cv=2, **FEW)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y)
    assert [warning.category for warning in caught] == [ConvergenceWarning]


def test_values_at_the_edge_are_accepted():
    entry = np.where(np.arange(K) == 0, 0.0, 1.0)
    for target, *given in (
        ("learn_metric", {"c0": np.inf}, {"margin": [0.5, 0.6]}, {"weights": entry}),
        ("TATML.fit", {"n_components": 3}, {"n_components": [1]}, {"n_pairs_per_class": 2}),
        ("TATML.fit", {"c0": np.inf}, {"random_state": 2**32 - 1}, {"verbose": np.bool_(0)}),
        ("TATMLCV.fit", {"cv": 4}, {"k": 6}, {"n_jobs": 1}, {"k": 7, "scoring": "auc"}),
        ("TATMLCV.fit", {"param_grid": {}}, {"param_grid": [{}, {"C": (1,)}]}),
        ("TATMLCV.fit", {"estimator": None}, {"param_grid": {"threshold_strength": [1.0]}}),
        ("Maz.fit", {"threshold": "search", "k": 8}, {"k": 9}),
        ("ITML.fit", {"bounds": (1.0, 1.0)}, {"percentiles": (0, 100)}),
        ("GMML.fit", {"t": 0}, {"t": 1}),
        ("TATMLPairs.fit", {"class_weight": None}, {"class_weight": {-1: 1e-3, 1: 1}}),
        ("PairThreshold.fit", {"metric": "cosine"}, {"sample_weight": entry}),
        ("PairThreshold.set_threshold", {"threshold": 0}),
        *(
            ("Euclidean.calibrate_threshold", {"strategy": strategy, rate: share, **none})
            for strategy, rate, none in (
                ("max_tpr", "min_rate", {}),
                ("max_tnr", "min_rate", {"confidence": None}),
                ("false_match_rate", "max_rate", {"confidence": None}),
                ("false_non_match_rate", "max_rate", {"confidence": None}),
                ("precision", "min_rate", {"confidence": None}),
            )
            for share in (0, 1)
        ),
        ("Euclidean.calibrate_threshold", {"strategy": "f_beta", "beta": 0}),
    ):
        for options in given:
            outcome = run_case(changed_call(target, options))
            assert (outcome.kind, outcome.complaints) == ("accepted", []), (target, options)


# A new fit


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_new_fit_forgets_the_earlier_one(name):
    """Nothing is left of other data of another shape, nor of a threshold that was set."""
    make = ESTIMATORS[name]
    given = {"X": MATRICES} if make in LABEL_ESTIMATORS else {"pairs": MATRICES[INDEX]}
    if make in TUPLE_ESTIMATORS:
        given = {make._tuples_name: MATRICES[index_tuples(TUPLE_SIZES[make._tuples_name])]}
    fresh, again = (changed_call(f"{name}.fit", given, again=flag) for flag in (False, True))
    again.estimator.set_threshold(123.0)
    one, two = fresh.call(), again.call()
    assert vars(one).keys() == vars(two).keys()
    threshold = getattr(two, "threshold_", None)
    assert (getattr(one, "threshold_", None), one.block_shapes_) == (threshold, ((3, 2),))
    assert (threshold is None) == (make in TUPLE_ESTIMATORS)
    assert_array_equal(one.pair_distance(MATRICES[INDEX]), two.pair_distance(MATRICES[INDEX]))


def test_a_new_fit_forgets_what_another_parameter_brought():
    searched = Maz(threshold="search", thresholds=[0.5], k=1, cv=2, **FEW).fit(X, Y)
    assert hasattr(searched, "search_scores_")
    assert not hasattr(searched.set_params(threshold=1.0).fit(X, Y), "search_scores_")
    measured = PairThreshold().fit(PAIRS, SIGNS)
    assert measured.n_features_in_ == 3
    measured.set_params(metric="precomputed").fit(np.arange(1.0, K + 1), SIGNS)
    assert not {"n_features_in_", "block_shapes_"} & vars(measured).keys()


# Covariance matrices

LABELLED, CLASSES = labelled()
LABELLED_INDEX, LABELLED_SIGNS = labelled_pairs(CLASSES)


def covariances():
    signals = np.random.default_rng(0).normal(size=(60, 4, 30)) * [[[1], [3], [10], [40]]]
    return signals @ np.swapaxes(signals, 1, 2) / 30


def fit_all(name, samples):
    """Fit the estimator to samples, or to pairs of them."""
    options = QUICK_CV if name == "TATMLCV" else {}
    model = made(ESTIMATORS[name], options | {"preprocessor": samples})
    if ESTIMATORS[name] in TUPLE_ESTIMATORS:
        return model.fit(index_tuples(TUPLE_SIZES[model._tuples_name]))
    by_labels = ESTIMATORS[name] in LABEL_ESTIMATORS
    return model.fit(*((samples, CLASSES) if by_labels else (LABELLED_INDEX, LABELLED_SIGNS)))


@pytest.mark.filterwarnings("ignore:threshold_: ")  # the labels of the pairs are noise
@pytest.mark.parametrize("name", ESTIMATORS)
def test_raw_covariances_get_a_hint_and_their_logarithms_do_not(name):
    C = covariances()
    for samples in (1e-6 * C, 1e6 * C, Blocks(labelled("two blocks")[0].arrays[0], C)):
        with pytest.warns(UserWarning, match="tatml.features.LogEuclidean") as caught:
            assert fit_all(name, samples).n_features_in_ > 0
        hints = [each for each in caught if not str(each.message).startswith("threshold_: ")]
        assert [hint.filename for hint in hints] == [__file__]
    values, vectors = np.linalg.eigh(C)
    logarithms = (vectors * np.log(values)[:, None]) @ np.swapaxes(vectors, 1, 2)
    assert fit_all(name, logarithms).n_features_in_ > 0  # warnings are errors


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_hint_is_for_condition_numbers_above_five(scale):
    rng = np.random.default_rng(0)
    turns = np.linalg.qr(rng.normal(size=(60, 3, 3)))[0]
    for condition in (4.9, 5.1):
        values = np.stack([np.ones(60), rng.uniform(1, 4, size=60), np.full(60, condition)], axis=1)
        matrices = scale * (turns * values[:, None]) @ np.swapaxes(turns, 1, 2)
        if condition < 5:
            assert Euclidean(**FEW).fit(matrices, CLASSES).threshold_ > 0  # warnings are errors
        else:
            with pytest.warns(UserWarning, match="X: block 0 holds symmetric positive definite"):
                Euclidean(**FEW).fit(matrices, CLASSES)


def test_plain_data_get_no_hint():
    assert TATML(**PAPER).fit(LABELLED, CLASSES).result_.converged
    correlations = np.stack([np.corrcoef(matrix) for matrix in covariances()])
    assert TATML(**FEW).fit(correlations, CLASSES).result_.converged


# learn_metric


@pytest.mark.parametrize("order", ["permutation", "random", "cyclic"])
def test_dykstra_takes_a_generator(order):
    one, two = (
        learn_metric(
            X,
            INDEX,
            SIMILAR,
            solver=Dykstra(order=order, random_state=np.random.default_rng(3)),
        )
        for _ in range(2)
    )
    assert one.converged, order
    assert one.b0 == two.b0, order


def test_newton_takes_a_generator():
    """There are so many active pairs that each step assembles the Hessian of a sample of them."""
    case = random_case([(1, 1)], C=0.01, n_pairs=12_000, n_samples=100)
    runs = [
        case.learn(solver=Newton(linear_solver="dense", random_state=np.random.default_rng(seed)))
        for seed in (3, 3, 4)
    ]
    assert runs[0].converged
    assert runs[0].history["gap"].tolist() == runs[1].history["gap"].tolist()
    assert runs[0].history["gap"][1] != runs[2].history["gap"][1]


def test_any_real_number_is_accepted():
    case = random_case(SHAPES["two ragged"])
    for C in (Fraction(1, 2), np.float32(0.5), np.array(0.5)[()]):
        assert case.with_(C=C).learn().primal == case.with_(C=0.5).learn().primal


@pytest.mark.parametrize("solver", ["newton", "dykstra"])
def test_a_prior_in_any_units_is_the_rescaled_problem(solver):
    """W0 = diag(u²) is W0 = I for the features u x: W = diag(u) W' diag(u)."""
    case, units = random_case([(3, 1)], C=5.0, n_pairs=30), np.sqrt([1e-9, 1.0, 1e9])
    natural = case.with_(arrays=[case.arrays[0] / units[:, None]])
    expected = case.learn(tol=1e-8, solver=solver_of(solver, random_state=0))
    found = natural.with_(prior=np.diag(units**2)).learn(
        tol=1e-8, solver=solver_of(solver, random_state=0)
    )
    assert found.converged
    assert_allclose(found.primal, expected.primal, rtol=2e-8)
    assert_allclose(found.b0, expected.b0, rtol=1e-3)
    assert_allclose(found.W[0] / units / units[:, None], expected.W[0], atol=1e-3)


def test_the_hint_looks_at_shape_symmetry_and_sign():
    def hint(matrix, n=4):
        return hint_at_raw_covariances(Blocks(np.tile(matrix, (n, 1, 1))))

    covariance = np.diag([9.0, 4.0, 1.0])
    for scale in (1e-4, 1.0, 1e4):
        for asymmetry, found in (
            (0.5, True),
            (2.0, False),
        ):  # in units of 1e-6 of the largest entry
            matrix = covariance.copy()
            matrix[0, 1] += asymmetry * 1e-6 * 9
            assert (hint(scale * matrix) is not None) == found, (scale, asymmetry)
    assert hint(np.diag([9.0, 4.0, -1.0])) is None
    assert hint(np.diag([9.0, 4.0, 0.0])) is None
    assert hint(np.diag([5.0, 1.0])) is None  # the condition number is not above 5
    assert hint(np.diag([5.1, 1.0])).startswith("X: block 0 holds")
    assert hint(np.zeros((3, 3))) is None
    assert hint(np.array([[3.0]])) is None
    assert hint(np.ones((3, 2))) is None
    first_only = np.stack([covariance, -covariance] * 100)  # every second matrix is looked at
    assert hint_at_raw_covariances(Blocks(first_only)) is not None
    assert hint_at_raw_covariances(Blocks(first_only[:198])) is None  # here all are
    two = Blocks(np.ones((4, 2)), np.tile(covariance, (4, 1, 1)))
    assert hint_at_raw_covariances(two).startswith("X: block 1 holds")
