"""What an attack on the inputs found: each is refused by name, or means what it says."""

import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from estimators_helpers import labelled, labelled_pairs
from hostile import ENDLESS, HUGE, HostileArray, HostileIterator, HostileRepr
from numpy.testing import assert_array_equal

from tatml import (
    GMML,
    ITML,
    TATML,
    TATMLCV,
    Blocks,
    Compute,
    Dykstra,
    Euclidean,
    Maz,
    Newton,
    PairThreshold,
    TATMLPairs,
    learn_metric,
)

FEW = {"n_pairs_per_class": 20, "random_state": 0}
X, Y = labelled()
INDEX, LABELS = labelled_pairs(Y)
PAIRS = X[INDEX]
BY_LABELS = [
    TATML(**FEW),
    TATMLCV(Cs=[1.0], cv=2, **FEW),
    Maz(**FEW),
    ITML(**FEW),
    GMML(**FEW),
    Euclidean(**FEW),
]
BY_PAIRS = [TATMLPairs(), PairThreshold()]


def name_of(value):
    return type(value).__name__


def for_each(*estimators):
    return pytest.mark.parametrize("model", estimators, ids=name_of)


def refused(call, message, kinds=(TypeError, ValueError)):
    """The call raises an error that says so, and no warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(kinds, match=message):
            call()
    assert caught == []


def masked(values, share=0.2):
    values = np.asarray(values)
    return np.ma.array(values, mask=np.arange(values.size).reshape(values.shape) % 5 < 5 * share)


MASKED = "{}: expected an array without masked entries"


# Masked arrays


@for_each(*BY_LABELS)
def test_masked_samples_and_labels_are_refused(model):
    refused(lambda: model.fit(masked(X), Y), MASKED.format("X"))
    refused(lambda: model.fit([masked(row) for row in X], Y), MASKED.format("X"))
    refused(lambda: model.fit(masked(labelled("matrices")[0]), Y), MASKED.format("X"))
    refused(lambda: model.fit(X, masked(Y)), MASKED.format("y"))
    refused(lambda: model.fit(X, Y, groups=masked(np.arange(60))), MASKED.format("groups"))
    model.fit(X, Y)
    refused(lambda: model.transform(masked(X)), MASKED.format("X"))
    refused(lambda: model.pair_distance(masked(PAIRS)), MASKED.format("pairs"))
    refused(lambda: model.pair_distance(masked(INDEX), X), MASKED.format("pairs"))
    refused(lambda: model.pair_distance(INDEX, masked(X)), MASKED.format("X"))


@for_each(*BY_PAIRS)
def test_masked_pairs_and_weights_are_refused(model):
    refused(lambda: model.fit(masked(PAIRS), LABELS), MASKED.format("pairs"))
    refused(lambda: model.fit(PAIRS, masked(LABELS)), MASKED.format("y"))
    weights = masked(np.ones(len(PAIRS)))
    refused(lambda: model.fit(PAIRS, LABELS, weights), MASKED.format("sample_weight"))
    model.fit(PAIRS, LABELS)
    refused(lambda: model.predict(masked(PAIRS)), MASKED.format("pairs"))
    refused(lambda: model.score(PAIRS, LABELS, weights), MASKED.format("sample_weight"))


def test_a_mask_that_hides_nothing_changes_nothing():
    plain = TATML(**FEW).fit(X, Y)
    shown = TATML(**FEW).fit(masked(X, 0), masked(Y, 0))
    assert_array_equal(shown.components_, plain.components_)
    assert_array_equal(shown.transform(masked(X, 0)), plain.transform(X))


@pytest.mark.parametrize("kind", ["list", "objects", "frame"])
def test_the_masked_scalar_is_refused(kind):
    rows = X.tolist()
    rows[3][1] = np.ma.masked
    objects = X.astype(object)
    objects[3, 1] = np.ma.masked
    given = {"list": rows, "objects": objects, "frame": pd.DataFrame(objects)}[kind]
    refused(lambda: TATML(**FEW).fit(given, Y), MASKED.format("X"))


# Pairs given to an estimator of labelled samples


@for_each(*BY_LABELS)
@pytest.mark.parametrize("labels", [LABELS, LABELS.astype(float), LABELS.tolist()], ids=type)
def test_pairs_given_to_a_label_estimator_are_refused(model, labels):
    refused(lambda: model.fit(PAIRS, labels), r"X: .* which are pairs: fit TATMLPairs, or Pair")
    refused(lambda: model.fit(PAIRS.tolist(), labels), r"X: .* give Blocks\(X\)")


@for_each(*BY_LABELS)
def test_matrices_of_two_rows_are_learnt_from_as_blocks_or_with_other_labels(model):
    assert model.fit(Blocks(PAIRS), LABELS).block_shapes_ == ((2, 4),)
    assert model.fit(PAIRS, LABELS > 0).block_shapes_ == ((2, 4),)
    assert model.fit(PAIRS, np.arange(120) % 3).block_shapes_ == ((2, 4),)


# Numbers that no float can hold


def test_huge_integers_are_named():
    objects = X.astype(object)
    objects[2, 1] = HUGE
    refused(lambda: TATML(**FEW).fit(objects, Y), "X: .*too large", ValueError)
    refused(lambda: learn_metric(objects, INDEX, LABELS > 0), "X: .*too large", ValueError)
    for name in ("C", "threshold", "threshold_prior", "threshold_strength", "c0", "tol"):
        too_large = rf"{name}: expected .*got more than a float can hold"
        for value in (HUGE, Fraction(HUGE), ENDLESS):
            refused(lambda n=name, v=value: TATML(**FEW, **{n: v}).fit(X, Y), too_large)
    refused(lambda: Newton(max_iter=ENDLESS), "max_iter: expected at most")
    for name in ("n_neighbors", "n_components"):
        refused(lambda n=name: TATML(**FEW, **{n: ENDLESS}).fit(X, Y), f"{name}: expected at most")
    refused(lambda: TATMLCV(Cs=HUGE).fit(X, Y), "Cs: expected at most")
    refused(
        lambda: learn_metric(X, INDEX, LABELS > 0, compute=Compute(max_memory="9" * 400)),
        "max_memory: exp",
    )


@for_each(*BY_LABELS, *BY_PAIRS)
def test_huge_numbers_after_fit_are_named(model):
    model.fit(*((PAIRS, LABELS) if model in BY_PAIRS else (X, Y)))
    refused(lambda: model.set_threshold(HUGE), "threshold: .*more than a float can hold")
    for beta in (HUGE, 1e200):
        options = {"strategy": "f_beta", "beta": beta}
        refused(lambda o=options: model.calibrate_threshold(PAIRS, LABELS, **o), "beta: expected")


@for_each(*BY_LABELS, *BY_PAIRS)
def test_distances_are_finite_or_refused_by_size(model):
    model.fit(*((PAIRS, LABELS) if model in BY_PAIRS else (X, Y)))
    for scale in (1e70, 1e160, 1e300):
        refused(lambda s=scale: model.pair_distance(s * PAIRS), r"pairs: .*at most 1e\+60")
        refused(lambda s=scale: model.pair_distance(INDEX, s * X), r"X: .*at most 1e\+60")
        if hasattr(model, "transform"):
            refused(lambda s=scale: model.transform(s * X), r"X: .*at most 1e\+60")


def test_a_distance_whose_square_overflows_is_refused():
    model = Euclidean().fit(X)
    model.components_ = 1e150 * np.eye(4)
    refused(lambda: model.pair_distance(1e10 * PAIRS), "pairs: .*squared distance.*rescale pairs")
    refused(lambda: model.pair_distance(INDEX, 1e10 * X), "X: .*squared distance.*rescale X")


def test_the_learnt_function_refuses_what_is_no_sample():
    metric = TATML(**FEW).fit(X, Y).get_metric()
    for u in (
        np.nan * X[0],
        1e200 * X[0],
        X[0] + 1j,
        X[0, :2],
        "abcd",
        HostileArray(),
        masked(X[0]),
    ):
        refused(lambda u=u: metric(u, X[1]), "u, v: expected")
    blocks = labelled("two blocks")[0]
    metric = TATML(**FEW).fit(blocks, Y).get_metric()
    for u in (3.0, blocks[0][:1], None, HostileIterator()):
        refused(lambda u=u: metric(u, blocks[1]), "u, v: expected one matrix for each of 2 blocks")


@pytest.mark.parametrize("scale", [1e-155, 1e-100, 1e-320])
@for_each(*BY_LABELS, TATMLPairs())
def test_samples_whose_squared_differences_vanish_are_refused(model, scale):
    given, labels = (PAIRS, LABELS) if isinstance(model, TATMLPairs) else (X, Y)
    name = "pairs" if isinstance(model, TATMLPairs) else "X"
    refused(lambda: model.fit(scale * given, labels), rf"{name}: expected samples that differ by")


@for_each(*BY_LABELS)
def test_a_feature_that_hardly_varies_counts_as_constant(model):
    tiny = X * np.array([1.0, 1e-160, 1.0, 1.0])
    fitted = model.fit(tiny, Y)  # warnings are errors
    assert np.all(np.isfinite(fitted.transform(tiny)))
    assert fitted.threshold_ > 0


# Messages of other libraries


@pytest.mark.parametrize("make", [TATMLCV, Maz])
@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (40, r"cv: expected .*got 40: n_splits=40 cannot be greater"),
        (1, "cv: expected at least 2, got 1"),
        (HUGE, "cv: expected at most"),
        ("three", "cv: expected a number of folds, or a splitter"),
        ([], "cv: expected at least one fold"),
        ([3, 4], "cv: expected a number of folds, or a splitter"),
        (["ab", "cd"], "cv: expected folds that are index arrays"),
        ([(np.arange(30), np.arange(30, 99))], "cv: expected .* of 60 samples, got .* in fold 0"),
        ([(np.arange(30), [])], "cv: expected folds that are index arrays"),
        (np.array(3), "cv: expected a number of folds"),
    ],
)
def test_folds_that_cannot_be_are_named(make, cv, message):
    options = {"threshold": "search"} if make is Maz else {}
    refused(lambda: make(cv=cv, **options, **FEW).fit(X, Y), message)


def test_too_many_neighbours_of_the_search_are_named():
    model = Maz(threshold="search", k=50, **FEW)
    refused(lambda: model.fit(X, Y), "k: expected at most the 40 training samples")


def test_few_samples_of_a_class_are_warned_of_once_by_name():
    labels = np.where(np.arange(60) < 2, 3, Y)
    with pytest.warns(UserWarning, match="cv: The least populated class") as caught:
        TATMLCV(Cs=[1.0], cv=3, **FEW).fit(X, labels)
    assert len(caught) == 1


@for_each(*BY_LABELS)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (X[:, 0], r"y: expected classes .*float64.*Unknown label type"),
        (np.where(Y == 0, np.nan, Y), r"y: expected a label for each sample, got .*nan.* sample"),
        (np.where(Y == 0, np.inf, Y), r"y: expected a label for each sample, got .*inf.* sample"),
        (np.where(Y == 0, None, Y), r"y: expected a label for each sample, got None for sample"),
        (pd.Series(Y, dtype="Int64").mask(Y == 0), "y: expected a label for each sample"),
        (np.array([*Y[:-1].tolist(), "a"], dtype=object), "y: expected classes .*objects such as"),
        (scipy.sparse.csr_array(Y[:, None]), "y: expected a dense array"),
        (HostileArray(), "y: "),
        (3, "y: |y should be a 1d array"),
        ({1, 2}, "y: |y should be a 1d array"),
    ],
    ids=range(10),
)
def test_labels_that_are_no_classes_are_named(model, y, message):
    refused(lambda: model.fit(X, y), message)


def test_groups_that_cannot_be_are_named():
    for groups in (np.where(Y == 0, np.nan, Y), np.where(Y == 0, None, Y), [*Y[:-1], (1, 2)]):
        refused(lambda g=groups: TATML(**FEW).fit(X, Y, groups=g), "groups: expected")


@pytest.mark.parametrize("value", [np.array(2), np.array([]), iter([1]), HostileIterator()])
@for_each(TATML(**FEW), GMML(**FEW), TATMLPairs())
def test_components_that_are_no_count_are_named(model, value):
    given = (PAIRS, LABELS) if isinstance(model, TATMLPairs) else (X, Y)
    changed = type(model)(**model.get_params() | {"n_components": value})
    refused(lambda: changed.fit(*given), "n_components: expected a number or one for each of 1")


def test_what_cannot_be_shown_is_named():
    for name in ("C", "margin", "prior", "pairs", "solver", "random_state", "verbose", "tol"):
        model = TATML(**FEW | {name: HostileRepr()})
        refused(lambda m=model: m.fit(X, Y), f"{name}: expected .*a value of type HostileRepr")


def message_of(call):
    """What a call says where it is refused, and nothing where it is not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        try:
            call()
        except ValueError as error:
            return str(error)
    return ""


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1e30), ("float64", 1e200)])
def test_a_prior_whose_squares_overflow_is_named(dtype, scale):
    for prior in (scale * np.eye(4), np.eye(4) / scale):
        options = {"prior": prior, "compute": Compute(dtype=dtype)}
        call = partial(learn_metric, X, INDEX, LABELS > 0, **options)
        refused(call, "prior: block 0: expected a diagonal from")


def test_the_search_names_its_own_parameters():
    for options in ({"threshold_strength": 5e-324}, {"Cs": [1e308], "threshold_strength": 10.0}):
        model = TATMLCV(**{"Cs": [1.0]} | options, cv=2, **FEW)
        refused(lambda m=model: m.fit(X, Y), "Cs, threshold_strength: expected sizes")


@pytest.mark.parametrize("mu0", [1e50, 1e100, 1e150])
def test_extreme_parameters_never_show_a_message_of_scipy(mu0):
    message = message_of(lambda: learn_metric(X, INDEX, LABELS > 0, mu0=mu0))
    assert message == "" or message.startswith("C, c0, mu0, weights: ")


@for_each(
    TATML(C=1e308, reduction="sum", **FEW),
    Maz(C=1e308, reduction="sum", **FEW),
    ITML(1e308, bounds=(1e-9, 1e-8), prior="identity", **FEW),
)
def test_an_infinite_objective_names_the_estimators_own_parameters(model):
    message = message_of(lambda: model.fit(X * 1e50, Y))
    names, _, rest = message.partition(": ")
    assert set(names.split(", ")) <= set(model.get_params())
    assert rest.startswith("expected sizes for which ")


@pytest.mark.parametrize("kind", ["matrices", "two blocks"])
@pytest.mark.parametrize("solver", [Dykstra(order="cyclic"), "dykstra"], ids=str)
def test_the_projections_of_itml_name_its_own_parameters(solver, kind):
    model = ITML(solver=solver, **FEW)
    refused(
        lambda: model.fit(*labelled(kind)), "solver: ITML's projections are for .*take 'newton'"
    )


# Sources of random numbers, words and flags


@pytest.mark.parametrize("source", [np.random.RandomState, np.random.Generator])
@for_each(*BY_LABELS, TATMLPairs())
def test_a_class_is_no_source_of_random_numbers(model, source):
    given = (PAIRS, LABELS) if isinstance(model, TATMLPairs) else (X, Y)
    changed = type(model)(**model.get_params() | {"random_state": source})
    refused(lambda: changed.fit(*given), "random_state: expected None, an integer")


def test_a_class_is_no_source_of_random_numbers_for_learn_metric():
    source = np.random.RandomState
    call = lambda: learn_metric(X, INDEX, LABELS > 0, solver=Newton(random_state=source))  # noqa: E731
    refused(call, "random_state: expected")


@pytest.mark.parametrize("value", ["yes", None, np.array([1, 2]), 0.5])
def test_flags_are_true_or_false(value):
    for name in ("verbose", "warm_start"):
        model = TATML(**FEW, **{name: value})
        refused(lambda m=model, n=name: m.fit(X, Y), f"{name}: expected True or False")
    call = lambda: learn_metric(X, INDEX, LABELS > 0, verbose=value)  # noqa: E731
    refused(call, "verbose: expected True or False")


@pytest.mark.parametrize("value", [0, "two", 1.5, HUGE, -HUGE])
def test_jobs_are_counted(value):
    refused(lambda: TATMLCV(n_jobs=value).fit(X, Y), "n_jobs: expected")


@for_each(*BY_LABELS, *BY_PAIRS)
def test_a_target_is_checked_before_distances_are_computed(model, monkeypatch):
    model.fit(*((PAIRS, LABELS) if model in BY_PAIRS else (X, Y)))

    def pair_distance(*_):
        raise AssertionError("distances were computed")

    monkeypatch.setattr(type(model), "pair_distance", pair_distance)
    for target, message in (
        ({"strategy": "luck"}, "strategy: expected one of"),
        ({"strategy": "max_tpr"}, "min_rate: expected"),
        ({"strategy": "false_match_rate", "max_rate": 2}, "max_rate: expected"),
        ({"beta": np.nan}, "beta: expected"),
    ):
        refused(lambda t=target: model.calibrate_threshold(PAIRS, LABELS, **t), message)


# Weights, distances and calibration of pairs


@for_each(*BY_PAIRS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weight": {1: HUGE, -1: 1}}, "class_weight: expected"),
        ({"class_weight": {1: "a", -1: 1}}, "class_weight: expected"),
        ({"class_weight": 3}, "class_weight: expected 'balanced', None or a dict"),
        ({"class_weight": {1: 1e200, -1: 1}}, "class_weight: expected the largest weight"),
        ({"threshold_prior": 1e160}, "threshold_prior: expected a distance from 1e-100 to 1e.100"),
        ({"margin": (1e-300, 1e300)}, "margin: expected numbers from 1e-50 to 1e.50"),
    ],
)
def test_weights_and_thresholds_of_any_size_are_named(model, options, message):
    refused(lambda: type(model)(**options).fit(PAIRS, LABELS), message)


@for_each(*BY_PAIRS)
@pytest.mark.parametrize("scale", [1e-320, 1e-150, 1e150])
def test_weights_of_extreme_sizes_are_named(model, scale):
    weights = np.full(len(PAIRS), scale)
    refused(lambda: model.fit(PAIRS, LABELS, weights), "sample_weight: expected the largest weight")
    model.fit(PAIRS, LABELS)
    refused(lambda: model.score(PAIRS, LABELS, weights), "sample_weight: expected the largest")


@for_each(*BY_PAIRS)
def test_weights_of_a_score_are_checked(model):
    model.fit(PAIRS, LABELS)
    for weights in (np.ones(3), -np.ones(120), ["a"] * 120, np.where(LABELS > 0, 1.0, 0.0)):
        refused(lambda w=weights: model.score(PAIRS, LABELS, w), "sample_weight: expected")


@pytest.mark.parametrize("returned", [None, "far", 1j, np.nan, -1.0, np.ones(2), HUGE])
def test_a_function_that_returns_no_distance_is_named(returned):
    model = PairThreshold(metric=lambda u, v: returned)
    refused(lambda: model.fit(PAIRS, LABELS), "metric: ")


@pytest.mark.parametrize("params", [3, "ab", [], {"luck": 1}, {1: 2}, {"beta": HUGE}])
def test_parameters_of_a_calibration_are_named(params):
    if params == []:  # an empty dict in other words
        assert TATMLPairs().fit(PAIRS, LABELS, calibration_params=params).threshold_ > 0
        return
    call = lambda: TATMLPairs().fit(PAIRS, LABELS, calibration_params=params)  # noqa: E731
    refused(call, "calibration_params: ")


@pytest.mark.parametrize("returned", [3.0, object(), None, [[1.0]], HostileIterator()])
def test_what_a_preprocessor_returns_is_named(returned):
    model = TATMLPairs(preprocessor=lambda indicators: returned)
    refused(lambda: model.fit(INDEX, LABELS), "preprocessor: expected")


def test_indicators_that_cannot_be_sorted_are_named():
    mixed = INDEX.astype(object)
    mixed[0, 0] = "a"
    refused(lambda: TATMLPairs(preprocessor=X).fit(mixed, LABELS), "pairs: expected indicators")
