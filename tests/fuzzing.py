"""Fuzzer of `learn_metric`, of the estimators, and of their methods after fit.

A case is a good call to which one to three labelled mutations were done. It must end in one of two
ways: a ValueError or TypeError that names a parameter of what was called, or a sane result. Either
way nothing else may change: no foreign warning, no global state, no argument, no parameter, and no
fitted attribute where the call was refused.

    python tests/fuzzing.py --cases 20000 --seed 0
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import io
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np
import oracle
import pandas as pd
import scipy.sparse
from fuzz_mutations import (
    HARMLESS,
    INDEX,
    LABELS,
    SAMPLES,
    WEIGHTS,
    mutate_array,
    mutate_blocks,
    parameter_value,
)
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

import tatml
from tatml import (
    GMML,
    ITML,
    PAPER,
    TATML,
    TATMLCV,
    Blocks,
    Compute,
    Dykstra,
    Euclidean,
    Maz,
    Newton,
    PairThreshold,
    Status,
    TATMLPairs,
)
from tatml._data.blocks import as_blocks
from tatml._data.checks import check_prior

SECONDS = 30  # that a case may take
PROBLEM = {"pairs", "similar", "weights", "C", "c0", "mu0", "margin", "prior"}
Judge = Callable[[dict[str, Any], Any], str | None]

# scikit-learn's own words where its tests of estimators ask for them; all of them name X or y.
SKLEARN_MESSAGES = (
    r"Input (X|y) contains (NaN|infinity)",
    r"X has \d+ features, but \w+ is expecting \d+ features as input",
    r"The feature names should match those that were passed during fit",
    r"\w+ requires y to be passed, but the target y is None",
    r"This \w+ instance is not fitted yet",
    r"y should be a 1d array",
    r"Sparse data was passed for X, but dense data is required",
)
OWN_WARNINGS = (
    r"X: block \d+ holds symmetric positive definite",
    r"cv: ",
    r"X (has feature names, but|does not have valid feature names, but) \w+ was fitted with",
)


# The good calls


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


def draw(rng: np.random.Generator, values: Iterable[Any]) -> Any:
    values = list(values)
    return values[rng.integers(len(values))]


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
QUICK_CV = {"Cs": [1.0, 100.0], "cv": 2, "k": 1}
QUICK_SEARCH = {"threshold": "search", "thresholds": (0.5, 1.0), "cv": 2, "k": 1}
LABEL_ESTIMATORS = {
    TATML: [*SOLVED, *DRAWN, *TUNED, dict(PAPER)],
    TATMLCV: [
        QUICK_CV,
        QUICK_CV | {"scoring": "auc", "solver": Newton(max_iter=5)},
        QUICK_CV | DRAWN[0],
    ],
    Maz: [*SOLVED, *DRAWN, {"reduction": "sum"}, QUICK_SEARCH],
    ITML: [*SOLVED, *DRAWN, {"bounds": (0.5, 2.0)}],
    GMML: [{}, *DRAWN, {"prior": "identity"}, {"n_components": 1}],
    Euclidean: [{}, *DRAWN, {"n_components": 1}],
}
PAIR_ESTIMATORS = {
    TATMLPairs: [*SOLVED, *TUNED, {"class_weight": None}],
    PairThreshold: [{}, {"metric": "cosine"}, {"class_weight": None}, {"threshold_prior": 1.0}],
}
FREQUENCY = {TATMLCV: 0.4}  # of the slow one


SOLVERS = {"newton": Newton, "dykstra": Dykstra}


def learn_with_settings(**given: Any) -> Any:
    """`learn_metric`, with the settings of its solver and of `Compute` as arguments of their own.

    Those that the solver does not have are left out, and all of them where the solver is not one of
    the words, or `compute` is given.
    """
    own = {name: given.pop(name) for name in list(given) if name in SOLVER_SETTINGS}
    place = {name: given.pop(name) for name in list(given) if name in COMPUTE_SETTINGS}
    solver = given.get("solver", "newton")
    kind = SOLVERS.get(solver) if isinstance(solver, str) else None
    if kind is not None:
        known = [part.name for part in fields(kind)]
        given["solver"] = kind(**{name: own[name] for name in own if name in known})
    return tatml.learn_metric(**{"compute": Compute(**place)} | given)


SOLVER_SETTINGS = {part.name for kind in SOLVERS.values() for part in fields(kind)}
COMPUTE_SETTINGS = {part.name for part in fields(Compute)}
learn_with_settings.__signature__ = inspect.Signature(
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
        for name in (
            *inspect.signature(tatml.learn_metric).parameters,
            *sorted(SOLVER_SETTINGS),
            *sorted(COMPUTE_SETTINGS),
        )
    ]
)


def learn_metric_case(rng: np.random.Generator) -> Case:
    X = samples(draw(rng, ["vectors", *KINDS]))
    pairs, y = index_pairs()
    arguments = {"X": X, "pairs": pairs, "similar": y > 0}
    arguments |= draw(
        rng,
        [
            {},
            {},
            {"weights": np.linspace(0, 2, len(pairs))},
            {"solver": "dykstra", "max_iter": 20},
            {"c0": np.inf, "C": 10.0},
            {"dtype": "float32"},
            {"max_memory": "50MB"},
            {"linear_solver": "cg"},
            {"linear_solver": "woodbury"},
            {"init": good_result(X)},
        ],
    )
    kinds = {"X": SAMPLES, "pairs": INDEX, "similar": LABELS, "weights": WEIGHTS}
    return Case("learn_metric", learn_with_settings, arguments, kinds=kinds)


def good_result(X: Any) -> Any:
    pairs, y = index_pairs()
    return _good_result(next(kind for kind in KINDS if samples(kind) is X), pairs, y)


_results: dict[str, Any] = {}


def _good_result(kind: str, pairs: np.ndarray, y: np.ndarray) -> Any:
    if kind not in _results:
        _results[kind] = tatml.learn_metric(samples(kind), pairs, y > 0)
    return _results[kind]


def fit_case(rng: np.random.Generator) -> Case:
    makers = [*LABEL_ESTIMATORS, *PAIR_ESTIMATORS]
    shares = np.array([FREQUENCY.get(make, 1.0) for make in makers])
    make = makers[rng.choice(len(makers), p=shares / shares.sum())]
    if make in PAIR_ESTIMATORS:
        return pair_fit_case(rng, make)
    options = FEW | draw(rng, LABEL_ESTIMATORS[make])
    kind = draw(rng, ["vectors", *KINDS])
    if make is ITML and isinstance(options.get("solver"), Dykstra):
        kind = "vectors"  # its projections are for these
    arguments = {"X": samples(kind), "y": classes()}
    if rng.random() < 0.2:
        arguments["groups"] = np.arange(N_SAMPLES) // 2
    if rng.random() < 0.1:
        options["preprocessor"], arguments["X"] = arguments["X"], np.arange(N_SAMPLES)
    estimator = new_or_fitted(rng, make, options)
    kinds = {"X": SAMPLES, "y": LABELS, "groups": LABELS}
    return Case(f"{make.__name__}.fit", estimator.fit, arguments, estimator, kinds)


def pair_fit_case(rng: np.random.Generator, make: type) -> Case:
    options = dict(draw(rng, PAIR_ESTIMATORS[make]))
    index, y = index_pairs()
    kind = draw(rng, ["vectors", *KINDS])
    arguments = {"pairs": index, "y": y}
    if kind == "blocks" or rng.random() < 0.2:
        options["preprocessor"] = samples(kind)
    else:
        arguments["pairs"] = samples(kind)[index]
    if rng.random() < 0.2:
        arguments["sample_weight"] = np.linspace(0, 2, len(y))
    if make is TATMLPairs and rng.random() < 0.1:
        arguments["calibration_params"] = {"strategy": "max_tpr", "min_rate": 0.5}
    estimator = new_or_fitted(rng, make, options)
    kinds = {
        "pairs": INDEX if "preprocessor" in options else SAMPLES,
        "y": LABELS,
        "sample_weight": WEIGHTS,
    }
    return Case(f"{make.__name__}.fit", estimator.fit, arguments, estimator, kinds)


@cache
def fitted(make: type, kind: str) -> Any:
    """An estimator fitted to good samples."""
    index, y = index_pairs()
    if make in LABEL_ESTIMATORS:
        options = QUICK_CV if make is TATMLCV else {}
        return make(**FEW | options).fit(samples(kind), classes())
    if kind == "blocks":
        return make(preprocessor=samples(kind)).fit(index, y)
    return make().fit(samples(kind)[index], y)


def new_or_fitted(rng: np.random.Generator, make: type, options: dict[str, Any]) -> Any:
    """An estimator to fit, which may have been fitted before."""
    if rng.random() < 0.3:
        return copy.copy(fitted(make, "vectors")).set_params(**make(**options).get_params())
    return make(**options)


METHODS = (
    "transform",
    "pair_distance",
    "pair_score",
    "predict_pairs",
    "predict",
    "decision_function",
    "score",
    "set_threshold",
    "calibrate_threshold",
    "get_metric",
    "get_mahalanobis_matrix",
)
ON_PAIRS = ("pair_distance", "pair_score", "predict_pairs")


def method_case(rng: np.random.Generator) -> Case:
    make = draw(rng, [*LABEL_ESTIMATORS, *PAIR_ESTIMATORS])
    kind = draw(rng, KINDS)
    model = copy.copy(fitted(make, kind))
    if rng.random() < 0.03:
        model = make()
    name = draw(rng, [name for name in METHODS if hasattr(type(model), name)])
    target, function = f"{make.__name__}.{name}", getattr(model, name)
    if name == "get_metric" and hasattr(model, "components_"):
        target, function = f"{make.__name__}.get_metric()", model.get_metric()
    arguments, kinds = method_arguments(rng, name, kind, make in PAIR_ESTIMATORS)
    if name == "get_metric" and not hasattr(model, "components_"):
        arguments = {}
    return Case(target, function, arguments, model, kinds)


def method_arguments(
    rng: np.random.Generator, name: str, kind: str, from_pairs: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    X, (index, y) = samples(kind), index_pairs()
    with_x = name in (*ON_PAIRS, "calibrate_threshold") and rng.random() < 0.5
    if kind == "blocks":
        with_x = with_x or not from_pairs
    pairs = {"pairs": index} if with_x or kind == "blocks" else {"pairs": X[index]}
    pairs |= {"X": X} if with_x else {}
    kinds = {"X": SAMPLES, "pairs": INDEX if pairs["pairs"] is index else SAMPLES, "y": LABELS}
    kinds |= {"sample_weight": WEIGHTS, "u": SAMPLES, "v": SAMPLES}
    if name == "transform":
        return {"X": X}, kinds
    if name in (*ON_PAIRS, "predict", "decision_function"):
        return pairs, kinds
    if name in ("score", "calibrate_threshold"):
        weights = {"sample_weight": np.linspace(0, 2, len(y))} if rng.random() < 0.3 else {}
        return pairs | {"y": y} | weights, kinds
    if name == "set_threshold":
        return {"threshold": 1.0}, kinds
    if name == "get_metric":
        u, v = (X.arrays, X.arrays) if kind == "blocks" else (X, X)
        if kind == "blocks":
            return {"u": [a[0] for a in u], "v": [a[1] for a in v]}, {}
        return {"u": u[0], "v": v[1]}, kinds
    return {}, kinds


# Mutations of a case


def make_case(seed: int) -> Case:
    """The case of a seed: always the same."""
    rng = np.random.default_rng([seed, 13])
    build = draw(rng, [learn_metric_case, fit_case, fit_case, method_case])
    case = build(rng)
    parameters = _parameters_of(case)
    case.names = frozenset(case.arguments) | frozenset(parameters)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of NumPy, about what the mutations do
        for _ in range(rng.choice(3, p=[0.6, 0.25, 0.15]) + 1):
            _mutate(rng, case, parameters)
    return case


def _parameters_of(case: Case) -> dict[str, str]:
    """The names that may be changed and named, each with where it belongs."""
    names = {name: "argument" for name in inspect.signature(case.function).parameters}
    if case.estimator is not None:
        names |= {name: "estimator" for name in case.estimator.get_params(deep=False)} | names
    return names


def _mutate(rng: np.random.Generator, case: Case, parameters: dict[str, str]) -> None:
    given = [name for name in case.arguments if name in case.kinds]
    if given and rng.random() < 0.6:
        name = draw(rng, given)
        label, case.arguments[name] = _mutated_array(rng, case, name)
        case.labels.append(f"{name}: {label}")
        return
    names = [name for name in parameters if name not in given]
    if case.target.endswith(".fit") is False and case.estimator is not None:
        names = [name for name in names if parameters[name] == "argument"] or ["preprocessor"]
    name = draw(rng, names or given)
    label, value = parameter_value(rng, name)
    case.labels.append(f"{name} = {label}")
    if parameters[name] == "argument":
        case.arguments[name] = value
    else:
        case.estimator.set_params(**{name: value})


def _mutated_array(rng: np.random.Generator, case: Case, name: str) -> tuple[str, Any]:
    value = case.arguments[name]
    if isinstance(value, Blocks):
        return mutate_blocks(rng, value)
    try:
        return mutate_array(rng, case.kinds[name], value)
    except Exception:
        return "unchanged", value  # an earlier mutation left nothing that this one applies to


# What must not change


def fingerprint(value: Any, depth: int = 0) -> Any:
    """What can be compared before and after a call."""
    if isinstance(value, np.ma.MaskedArray):
        data = np.ma.getdata(value)
        return "masked", fingerprint(data, depth), np.ma.getmaskarray(value).tobytes()
    if isinstance(value, np.ndarray):
        entries = [id(entry) for entry in value.flat] if value.dtype.hasobject else value.tobytes()
        return type(value), value.dtype.str, value.shape, value.strides, entries
    if isinstance(value, Blocks):
        return "Blocks", [fingerprint(array) for array in value.arrays]
    if isinstance(value, pd.DataFrame | pd.Series):
        return "pandas", value.shape, str(value.dtypes), _text_of(value)
    if scipy.sparse.issparse(value):
        return "sparse", value.format, fingerprint(value.data)
    if isinstance(value, list | tuple) and depth < 4:
        return type(value), [fingerprint(entry, depth + 1) for entry in value]
    if isinstance(value, dict) and depth < 4:
        return "dict", [(id(key), fingerprint(entry, depth + 1)) for key, entry in value.items()]
    if isinstance(value, set | frozenset):
        return "set", len(value)
    return id(value)


def _text_of(frame: Any) -> str:
    try:
        return frame.to_csv()
    except Exception:  # columns of strange objects
        return ""


def global_state(with_random: bool) -> dict[str, Any]:
    state = {
        "np.geterr()": np.geterr(),
        "warnings.filters": list(warnings.filters),
        "os.environ": dict(os.environ),
        "np.get_printoptions()": str(np.get_printoptions()),
    }
    if with_random:
        kind, keys, *rest = np.random.get_state()  # noqa: NPY002
        state["np.random"] = (kind, keys.tobytes(), rest)
    return state


def uses_global_random(case: Case) -> bool:
    """Whether NumPy's global generator was asked for: None means it, as in scikit-learn."""
    if case.estimator is not None and hasattr(case.estimator, "random_state"):
        return _is_global(case.estimator.random_state)
    return _is_global(case.arguments.get("random_state"))


def _is_global(value: Any) -> bool:
    return value is None or value is np.random or value is np.random.mtrand._rand


# Outcomes


class Hang(BaseException):
    """A case that takes too long."""


@dataclass
class Outcome:
    """How a case ended: "refused", "accepted", or "failed" with complaints."""

    kind: str
    complaints: list[str]
    trace: str = ""
    seconds: float = 0.0


@contextlib.contextmanager
def time_limit(seconds: float):
    """Stop what takes too long, where the platform can."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_):
        raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_case(case: Case, judge: Judge | None = None, seconds: float = SECONDS) -> Outcome:
    """Make the call, and say what is wrong with how it ended."""
    with_random = not uses_global_random(case)
    before_arguments = {name: fingerprint(value) for name, value in case.arguments.items()}
    before_globals = global_state(with_random)
    before = None if case.estimator is None else _state_of(case.estimator)
    start, error, value, trace = time.perf_counter(), None, None, ""
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        before_globals["warnings.filters"] = list(warnings.filters)
        try:
            with time_limit(seconds):
                value = case.call()
        except (Exception, Hang) as raised:
            error, trace = raised, traceback.format_exc()
        after_globals = global_state(with_random)
    outcome = Outcome("refused" if error is not None else "accepted", [], trace)
    outcome.seconds = time.perf_counter() - start
    complaints = outcome.complaints
    complaints += [f"warned: {w.category.__name__}: {w.message}" for w in caught if _foreign(w)]
    for name, state in before_globals.items():
        if after_globals[name] != state:
            complaints.append(f"changed {name}")
    for name, state in before_arguments.items():
        if fingerprint(case.arguments[name]) != state:
            complaints.append(f"changed the argument {name}")
    if case.estimator is not None:
        complaints += _changes(case, before, error is not None)
    if error is not None:
        complaints += wrong_error(error, case.names)
        if case.is_harmless and not isinstance(error, NotFittedError):
            complaints.append(f"refused, although only the form of the arguments changed: {error}")
    else:
        complaints += _wrong_value(case, value, judge)
    if complaints:
        outcome.kind = "failed"
    return outcome


def _foreign(warning: warnings.WarningMessage) -> bool:
    if issubclass(warning.category, ConvergenceWarning | DataConversionWarning):
        return False
    own = warning.category is UserWarning and re.match("|".join(OWN_WARNINGS), str(warning.message))
    return not own


def wrong_error(error: BaseException, names: Iterable[str]) -> list[str]:
    """What is wrong with an error: its type, or that it names none of these parameters."""
    if isinstance(error, NotFittedError):
        return []
    message = str(error)
    if isinstance(error, AttributeError) and "has no threshold_" in message:
        return []  # scikit-learn's way to say that something was not fitted
    if isinstance(error, IndexError) and message.startswith("preprocessor: "):
        return []  # as metric-learn has it
    if isinstance(error, ImportError) and message.startswith("device needs PyTorch"):
        return []  # an extra that is not installed
    if not isinstance(error, ValueError | TypeError):
        return [f"raised {type(error).__name__}: {message[:300]}"]
    if isinstance(error, np.linalg.LinAlgError | UnicodeError):  # ValueErrors by inheritance
        return [f"raised {type(error).__name__}: {message[:300]}"]
    name = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    named = rf"(chunk \d+: )?({name})(, ({name}))*(=[^:]{{1,60}})?: \S"
    if re.match(named, message) or re.match("|".join(SKLEARN_MESSAGES), message):
        return []
    return [f"raised {type(error).__name__} that names no parameter: {message[:300]}"]


def _state_of(estimator: Any) -> dict[str, Any]:
    state = dict(vars(estimator))
    return {
        "vars": state,
        "prints": {name: fingerprint(value) for name, value in state.items()},
        "params": estimator.get_params(deep=False),
    }


def _changes(case: Case, before: dict[str, Any], refused: bool) -> list[str]:
    """Parameters are never changed; fitted attributes only by what fits or sets them."""
    estimator, found = case.estimator, []
    after = estimator.get_params(deep=False)
    for name, value in before["params"].items():
        if after[name] is not value or fingerprint(value) != before["prints"][name]:
            found.append(f"changed the parameter {name}")
    if not refused and case.target.endswith(".fit"):
        return found
    may_change = set()
    if not refused and case.target.endswith(("set_threshold", "calibrate_threshold")):
        may_change = {"threshold_"}
    state = dict(vars(estimator))
    for name in sorted((state.keys() | before["vars"].keys()) - may_change):
        old, new = before["vars"].get(name, before), state.get(name, before)
        if old is not new or fingerprint(new) != before["prints"].get(name):
            found.append(f"changed the attribute {name} although the call should not")
    return found


def _wrong_value(case: Case, value: Any, judge: Judge | None) -> list[str]:
    """What is wrong with what came back."""
    method = case.target.rpartition(".")[2]
    if case.target == "learn_metric":
        complaints = wrong_result(value)
        if judge is not None and not complaints:
            complaint = judge(case.arguments, value)
            complaints += [] if complaint is None else [f"judged: {complaint}"]
        return complaints
    if method == "fit":
        return _wrong_fit(case, value)
    if method in ("set_threshold", "calibrate_threshold"):
        return _wrong_threshold(value)
    if method == "get_metric":
        return []
    parts = [np.asarray(part) for part in (value if isinstance(value, list) else [value])]
    if not all(part.dtype.kind in "if" and np.all(np.isfinite(part)) for part in parts):
        return [f"returned {value!r:.200}, not finite numbers"]
    if method in ("pair_distance", "get_metric()") and np.min(parts[0], initial=0.0) < 0:
        return ["returned a negative distance"]
    if method in ("predict", "predict_pairs") and not set(np.unique(parts[0])) <= {-1, 1}:
        return ["predicted something else than -1 and 1"]
    return []


def wrong_result(result: Any) -> list[str]:
    """What is wrong with a Result by itself."""
    complaints = []
    for m, L in enumerate(result.L):
        L = np.asarray(L, dtype=float)
        if not np.all(np.isfinite(L)):
            complaints.append(f"L[{m}] is not finite")
        elif np.any(np.triu(L, 1)) or not np.all(np.diag(L) > 0):
            complaints.append(f"L[{m}] is not lower triangular with a positive diagonal")
    if not (np.isfinite(result.b0) and np.isfinite(result.primal)):
        complaints.append(f"b0 = {result.b0}, primal = {result.primal}")
    if not result.gap >= 0:
        complaints.append(f"gap = {result.gap}")
    goal = result.tol * max(1.0, abs(result.primal))
    if result.converged != (result.gap <= goal):
        complaints.append(f"converged = {result.converged} with gap {result.gap}, goal {goal}")
    if (result.status is Status.CONVERGED) != result.converged:
        complaints.append(f"status {result.status} with converged = {result.converged}")
    return complaints


def _wrong_threshold(estimator: Any) -> list[str]:
    threshold = estimator.threshold_
    if not (isinstance(threshold, float) and np.isfinite(threshold) and threshold >= 0):
        return [f"threshold_ is {threshold!r}"]
    return []


def _wrong_fit(case: Case, estimator: Any) -> list[str]:
    """All attributes set, all numbers finite, and the samples of the fit can be embedded."""
    if estimator is not case.estimator:
        return ["fit returned something else than the estimator"]
    without_labels = isinstance(estimator, Euclidean) and case.arguments.get("y") is None
    expected = [] if without_labels else ["threshold_", "b0_"]
    if not isinstance(estimator, PairThreshold):
        expected += ["components_", "block_shapes_", "n_features_in_"]
    if hasattr(estimator, "solver"):
        expected += ["result_", "n_iter_", "pairs_", "similar_", "prior_"]
    missing = [name for name in expected if not hasattr(estimator, name)]
    if missing:
        return [f"fit did not set {', '.join(missing)}"]
    complaints = [] if without_labels else _wrong_threshold(estimator)
    if hasattr(estimator, "result_"):
        complaints += wrong_result(estimator.result_)
    if hasattr(estimator, "components_"):
        parts = estimator.components_
        parts = parts if isinstance(parts, list) else [parts]
        if not all(np.all(np.isfinite(part)) for part in parts):
            complaints.append("components_ are not finite")
    return complaints + _wrong_embedding(case)


def _wrong_embedding(case: Case) -> list[str]:
    if "X" not in case.arguments or not hasattr(case.arguments["X"], "__len__"):
        return []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rows = case.estimator.transform(case.arguments["X"])
        except Exception as error:
            return [f"transform of the samples of fit raised {type(error).__name__}: {error}"]
    if not np.all(np.isfinite(rows)):
        return ["transform of the samples of fit is not finite"]
    return [f"transform warned: {w.message}" for w in caught if _foreign(w)]


# Runs


@dataclass
class Summary:
    """What came of many cases."""

    counts: dict[str, Counter] = field(default_factory=dict)
    failures: dict[str, tuple[int, list[int], str]] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, -1)

    def add(self, seed: int, case: Case, outcome: Outcome) -> None:
        """Count a case; failures that look the same are one."""
        kind = self.counts.setdefault(case.target, Counter())
        kind[outcome.kind] += 1
        self.slowest = max(self.slowest, (outcome.seconds, seed))
        if outcome.kind != "failed":
            return
        key = f"{case.target.rpartition('.')[2]} | {_signature(outcome)}"
        text = (
            f"seed {seed}: {case.target}\n  mutations: {'; '.join(case.labels)}\n  "
            + "\n  ".join(outcome.complaints)
            + (f"\n{outcome.trace}" if outcome.trace else "")
        )
        n, seeds, first = self.failures.get(key, (0, [], text))
        self.failures[key] = (n + 1, [*seeds, seed][:5], first)

    @property
    def n_failed(self) -> int:
        """How many cases failed."""
        return sum(count["failed"] for count in self.counts.values())

    def report(self) -> str:
        """Counts of each target, then each distinct failure."""
        lines = [f"{'target':<36}{'cases':>8}{'refused':>9}{'accepted':>10}{'failed':>8}"]
        total = Counter()
        for target in sorted(self.counts):
            lines.append(_row(target, self.counts[target]))
            total += self.counts[target]
        lines.append(_row("all", total))
        rate = sum(total.values()) / max(self.seconds, 1e-9)
        lines.append(
            f"{self.seconds:.0f} s, {rate:.0f} cases/s; the slowest, seed {self.slowest[1]}, took "
            f"{self.slowest[0]:.2f} s"
        )
        for key, (n, seeds, text) in sorted(self.failures.items(), key=lambda item: -item[1][0]):
            lines.append(f"\n== {n} × {key}\n   seeds {seeds}\n{text}")
        lines.append(f"\n{self.n_failed} of {sum(total.values())} cases failed")
        return "\n".join(lines)


def _row(target: str, count: Counter) -> str:
    total = sum(count.values())
    return f"{target:<36}{total:>8}{count['refused']:>9}{count['accepted']:>10}{count['failed']:>8}"


def _signature(outcome: Outcome) -> str:
    """The first complaint without its numbers, and the line of the library that raised."""
    complaint = re.sub(r"[\d.]+(e[+-]?\d+)?|'[^']*'|\"[^\"]*\"", "#", outcome.complaints[0])
    places = re.findall(r"File \".*/(tatml/[\w/]+\.py)\", line (\d+)", outcome.trace)
    return f"{complaint[:90]} | {':'.join(places[-1]) if places else ''}"


def judge_by_oracle(arguments: dict[str, Any], result: Any) -> str | None:
    """The promises that a result breaks, in words; None where it keeps them, or cannot be judged.

    The oracle knows pairs in memory, in double precision.
    """
    given = {name: value for name, value in arguments.items() if name in PROBLEM and name != "X"}
    place = arguments.get("compute") or Compute(dtype=arguments.get("dtype", "float64"))
    if result.active is None or place.dtype != "float64":
        return None
    blocks = as_blocks(arguments["X"])
    given["arrays"] = [np.asarray(array, dtype=float) for array in blocks.arrays]
    given["pairs"], given["similar"] = np.asarray(given["pairs"]), np.asarray(given["similar"])
    if "margin" in given:
        given["margin"] = tuple(given["margin"])  # which may be a set
    if given.get("weights") is not None:
        given["weights"] = np.asarray(given["weights"], dtype=float)
    if given.get("prior") is not None:
        given["prior"] = [np.asarray(W0, dtype=float) for W0 in check_prior(given["prior"], blocks)]
    for name in ("C", "c0", "mu0"):
        given[name] = float(given.get(name, 1.0))
    problem = oracle.Problem(**given | {"tol": result.tol})
    try:
        return "; ".join(oracle.judge(problem, result)) or None
    except ArithmeticError:  # sizes beyond its digits
        return None


def run(seeds: Iterable[int], judge: Judge | None = judge_by_oracle) -> Summary:
    """Run the cases of these seeds."""
    summary, start = Summary(), time.perf_counter()
    for seed in seeds:
        case = make_case(seed)
        summary.add(seed, case, run_case(case, judge))
    summary.seconds = time.perf_counter() - start
    return summary


def main(arguments: list[str] | None = None) -> int:
    """Run many cases; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000, help="how many (default: 20000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first (default: 0)")
    given = parser.parse_args(arguments)
    summary = run(range(given.seed, given.seed + given.cases))
    print(summary.report())
    return 1 if summary.n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
