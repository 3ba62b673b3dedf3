"""Good calls of `learn_metric`, of every fit and of every method, for fuzzer and table."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from fuzz_mutations import HARMLESS

import tatml
from tatml import (
    GMML,
    ITML,
    PAPER,
    TATML,
    TATMLCV,
    Blocks,
    Dykstra,
    Euclidean,
    Maz,
    Newton,
    PairThreshold,
    TATMLNeighbors,
    TATMLPairs,
    TATMLQuadruplets,
    TATMLRegression,
    TATMLTriplets,
)
from tatml._estimators.inputs import TUPLE_SIZES
from tatml.losses import CustomLoss


@dataclass
class Case:
    """One call: of a function, or of a method of an estimator."""

    target: str
    function: Callable
    arguments: dict[str, Any]
    estimator: Any = None
    kinds: dict[str, Any] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    names: frozenset[str] = frozenset()

    @property
    def is_harmless(self) -> bool:
        """Whether only the form of the arguments was changed."""
        labels = [label.partition(": ")[2] for label in self.labels]
        return bool(labels) and set(labels) <= HARMLESS

    def call(self) -> Any:
        return self.function(**self.arguments)


@dataclass(frozen=True)
class QuarticLoss(CustomLoss):
    """A loss of the user's own, [a]_+⁴/4; one of its methods may be wrong."""

    wrong: str = ""

    def value(self, a: np.ndarray) -> np.ndarray:
        return np.maximum(a, 0) ** 4 / 4

    def slope(self, a: np.ndarray) -> np.ndarray:
        return (self.wrong != "slope") * np.maximum(a, 0) ** 3

    def curvature(self, a: np.ndarray) -> np.ndarray:
        return (self.wrong != "curvature") * 3 * np.maximum(a, 0) ** 2

    def conjugate(self, slope: np.ndarray) -> np.ndarray:
        return (self.wrong != "conjugate") * 0.75 * slope ** (4 / 3)


N_SAMPLES = 12
SHAPES = {
    "vectors": [(3, 1)],
    "wide": [(15, 1)],
    "matrices": [(3, 2)],
    "blocks": [(3, 2), (2, 1)],
}


KINDS = tuple(SHAPES)


@cache
def samples(kind: str) -> Any:
    """Three classes that the first row tells apart."""
    rng = np.random.default_rng(0)
    y = np.arange(N_SAMPLES) % 3
    shapes = SHAPES[kind]
    arrays = [rng.normal(size=(N_SAMPLES, *shape)) for shape in shapes]
    for array in arrays:
        array[:, 0] += 3 * y[:, None]
    if kind in ("vectors", "wide"):
        return np.ascontiguousarray(arrays[0][:, :, 0])
    return arrays[0] if kind == "matrices" else Blocks(*arrays)


@cache
def classes() -> np.ndarray:
    return np.arange(N_SAMPLES) % 3


@cache
def index_pairs() -> tuple[np.ndarray, np.ndarray]:
    """Twenty index pairs of both kinds, and their labels ±1."""
    every = np.stack(np.triu_indices(N_SAMPLES, 1), axis=1)
    pairs = np.random.default_rng(1).permutation(every)[:20]
    y = classes()
    return pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


FEW = {"n_pairs_per_class": 6, "random_state": 0}
SOLVED = [
    {},
    {"prior": "identity"},
    {"prior": "auto"},
    {"n_components": 1},
    {"solver": Newton(max_iter=2)},
    {"solver": Dykstra(max_iter=20)},
    {"warm_start": True},
]


DRAWN = [{"pairs": "neighbors"}, {"pairs": "all"}, {"n_pairs_per_class": None}]
TUNED = [{"threshold": 0.8}, {"c0": 2.0}, {"reduction": "sum"}, {"threshold_prior": 1.0}]


MIDPOINT = [
    {"midpoint": True},
    {"midpoint": True, "loss": "squared_hinge", "C": 10.0},
    {"midpoint": True, "threshold": -0.5},
    {"loss": "logistic"},
    {"loss": QuarticLoss()},
    {"loss": QuarticLoss(), "midpoint": True},
]


QUICK_GRID = {"C": [1.0, 100.0], "prior": ["discriminant", "auto"]}
QUICK_CV = {"estimator": TATML(**FEW), "param_grid": QUICK_GRID, "cv": 2, "k": 1, "random_state": 0}
QUICK_SEARCH = {"threshold": "search", "thresholds": (0.5, 1.0), "cv": 2, "k": 1}


LABEL_ESTIMATORS = {
    TATML: [
        *SOLVED,
        *DRAWN,
        *TUNED,
        dict(PAPER),
        *MIDPOINT,
        {"midpoint": True, "new_classes": True},
    ],
    TATMLCV: [
        QUICK_CV,
        QUICK_CV | {"scoring": "auc", "estimator": TATML(solver=Newton(max_iter=5), **FEW)},
        QUICK_CV | {"estimator": TATML(**DRAWN[0] | FEW)},
        QUICK_CV | {"param_grid": {"midpoint": [False, True]}},
        QUICK_CV | {"param_grid": [{"kernel": [None, "rbf"]}, {"threshold_strength": [0.1, 1.0]}]},
    ],
    Maz: [*SOLVED, *DRAWN, {"reduction": "sum"}, QUICK_SEARCH],
    ITML: [*SOLVED, *DRAWN, {"bounds": (0.5, 2.0)}],
    GMML: [{}, *DRAWN, {"prior": "identity"}, {"n_components": 1}],
    Euclidean: [{}, *DRAWN, {"n_components": 1}],
    TATMLNeighbors: [
        {},
        {"prior": "identity"},
        {"n_components": 1},
        {"solver": Newton(max_iter=2)},
        {"margin": 0.3, "n_impostors": 2, "max_rounds": 1},
    ],
    TATMLRegression: [
        {},
        {"prior": "identity"},
        {"n_components": 1},
        {"solver": Newton(max_iter=2)},
        {"solver": Dykstra(max_iter=20)},
        {"threshold": 0.8},
        {"loss": "logistic"},
        {"near": 0.3, "far": 0.3},
    ],
}


PAIR_ESTIMATORS = {
    TATMLPairs: [*SOLVED, *TUNED, {"class_weight": None}, *MIDPOINT],
    PairThreshold: [{}, {"metric": "cosine"}, {"class_weight": None}, {"threshold_prior": 1.0}],
}


TUPLE_ESTIMATORS = {
    make: [*(one for one in SOLVED if not isinstance(one.get("solver"), Dykstra)), {"margin": 0.3}]
    for make in (TATMLTriplets, TATMLQuadruplets)
}


@cache
def index_tuples(size: int) -> np.ndarray:
    """Twenty triplets or quadruplets of indices; mostly, the first pair has one class."""
    rng, y = np.random.default_rng(2), classes()
    rows = [rng.choice(N_SAMPLES, 4, replace=False) for _ in range(200)]
    good = [row for row in rows if y[row[0]] == y[row[1]] and y[row[2]] != y[row[0]]][:18]
    return np.array(good + rows[:2])[:, :size]


def tuples_of(make: type, kind: str) -> Any:
    """Tuples of samples; of indices for Blocks."""
    index = index_tuples(TUPLE_SIZES[make._tuples_name])
    return index if kind == "blocks" else samples(kind)[index]


def quick_options(make: type) -> dict[str, Any]:
    """Options with which an estimator of labelled samples is fast, and always the same."""
    if make is TATMLRegression:
        return {"n_pairs": 20, "random_state": 0}
    return QUICK_CV if make is TATMLCV else FEW


def made(make: type, options: dict[str, Any]) -> Any:
    """Return an estimator; parameters that a search does not have are those of its estimator."""
    model = make(**{name: options[name] for name in options if name in parameter_names(make)})
    for name in options.keys() - set(parameter_names(make)):
        set_parameter(model, name, options[name])
    return model


def set_parameter(model: Any, name: str, value: Any) -> None:
    """Set a parameter of an estimator, or of a copy of the one that it searches over."""
    if name in parameter_names(type(model)):
        model.set_params(**{name: value})
    elif isinstance(model.estimator, TATML):  # else it has been replaced by another value
        model.set_params(estimator=copy.copy(model.estimator).set_params(**{name: value}))


@cache
def fitted(make: type, kind: str, midpoint: bool = False) -> Any:
    """An estimator fitted to good samples, with probabilities calibrated on the same."""
    index, y = index_pairs()
    if midpoint:
        return _fitted_with_midpoint(make, kind).calibrate_probability(index, y, X=samples(kind))
    if make in LABEL_ESTIMATORS:
        model = made(make, quick_options(make)).fit(samples(kind), classes())
    elif make in TUPLE_ESTIMATORS:
        found = {"preprocessor": samples(kind)} if kind == "blocks" else {}
        model = make(**found).fit(tuples_of(make, kind)).set_threshold(1.0)
    elif kind == "blocks":
        model = make(preprocessor=samples(kind)).fit(index, y)
    else:
        model = make().fit(samples(kind)[index], y)
    return model.calibrate_probability(index, y, X=samples(kind))


def _fitted_with_midpoint(make: type, kind: str) -> Any:
    index, y = index_pairs()
    if make is TATML:
        return TATML(midpoint=True, **FEW).fit(samples(kind), classes())
    return TATMLPairs(midpoint=True, preprocessor=samples(kind)).fit(index, y)


METHODS = (
    "transform",
    "pair_distance",
    "pair_score",
    "predict_pairs",
    "pair_log_likelihood_ratio",
    "pair_probability",
    "predict",
    "predict_proba",
    "decision_function",
    "score",
    "set_threshold",
    "calibrate_threshold",
    "set_same_rate",
    "calibrate_probability",
    "get_metric",
    "get_mahalanobis_matrix",
)


ON_PAIRS = (
    "pair_distance",
    "pair_score",
    "predict_pairs",
    "pair_log_likelihood_ratio",
    "pair_probability",
)


# Any of these calls with some of its arguments, or parameters of the estimator, replaced

ESTIMATORS = {
    make.__name__: make for make in (*LABEL_ESTIMATORS, *PAIR_ESTIMATORS, *TUPLE_ESTIMATORS)
}
TARGETS = [
    "learn_metric",
    *(
        f"{name}.{method}"
        for name, make in ESTIMATORS.items()
        for method in ("fit", *METHODS, "get_metric()", "get_feature_names_out")
        if hasattr(make, method.removesuffix("()"))
    ),
]


def parts_of(target: str) -> tuple[type | None, str]:
    """Return the estimator and the method of a target; no estimator for `learn_metric`."""
    name, _, method = target.rpartition(".")
    return ESTIMATORS.get(name), method


@cache
def arguments_of(target: str) -> frozenset[str]:
    """Return the names of the arguments of a target."""
    make, method = parts_of(target)
    if method == "get_metric()":
        return frozenset({"u", "v", "squared"})
    function = tatml.learn_metric if make is None else getattr(make, method)
    return frozenset(inspect.signature(function).parameters) - {"self"}


@cache
def parameter_names(make: type) -> tuple[str, ...]:
    """Return the names of the parameters of an estimator."""
    return tuple(make._get_param_names())


@cache
def parameters_of(target: str) -> frozenset[str]:
    """Return the parameters of the estimator that its fit does not have as arguments."""
    make, method = parts_of(target)
    if make is None or method != "fit":
        return frozenset()
    return frozenset(parameter_names(make)) - arguments_of(target)


def good_arguments(target: str, kind: str) -> dict[str, Any]:
    """Return arguments that the target accepts."""
    make, method = parts_of(target)
    X, (index, y) = samples(kind), index_pairs()
    if make is None:
        return {"X": X, "pairs": index, "similar": y > 0}
    if method == "fit" and make in LABEL_ESTIMATORS:
        return {"X": X, "y": classes()}
    if method == "get_metric()":
        first, second = ([array[i] for array in _arrays(X)] for i in (0, 1))
        return {"u": first, "v": second} if kind == "blocks" else {"u": first[0], "v": second[0]}
    pairs = index if kind == "blocks" else X[index]
    good = {"X": X} if method == "transform" else {}
    wanted = {"pairs": pairs, "y": y, "threshold": 1.0}
    if method != "calibrate_threshold":  # where a precision alone takes a same_rate
        wanted["same_rate"] = 0.1
    given = arguments_of(target)
    if make in TUPLE_ESTIMATORS and make._tuples_name in given:
        return {make._tuples_name: tuples_of(make, kind)}
    good |= {name: value for name, value in wanted.items() if name in given}
    return good | ({"X": X} if kind == "blocks" and "X" in given else {})


def _arrays(X: Any) -> list[np.ndarray]:
    return X.arrays if isinstance(X, Blocks) else [X]


def changed_call(
    target: str, given: dict[str, Any], kind: str = "vectors", again: bool = False
) -> Case:
    """Return a good call with some arguments or parameters replaced.

    A fit is that of a new estimator or, with `again`, of one that was fitted before.
    """
    make, method = parts_of(target)
    arguments = good_arguments(target, kind)
    arguments |= {name: value for name, value in given.items() if name in arguments_of(target)}
    names = frozenset(arguments) | arguments_of(target) | parameters_of(target)
    if make is TATMLCV:
        names |= frozenset(parameter_names(TATML))
    if make is None:
        return Case(target, tatml.learn_metric, arguments, names=names)
    parameters = {name: given[name] for name in given if name not in arguments_of(target)}
    if method != "fit":
        model = copy.copy(fitted(make, kind))
        function = model.get_metric() if method == "get_metric()" else getattr(model, method)
        return Case(target, function, arguments, model, names=names)
    options = quick_options(make) if make in LABEL_ESTIMATORS else {}
    if kind == "blocks" and make not in LABEL_ESTIMATORS:
        options = {"preprocessor": samples(kind)}
    model = made(make, options | parameters)
    if again:
        vars(model).update(vars(fitted(make, "vectors")) | vars(model))
    return Case(target, model.fit, arguments, model, names=names)
