"""The cases of the fuzzer: good calls to which labelled mutations were done."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np
import refused_pairs
import refused_parameters
import refused_samples
import refused_tuples
from fuzz_mutations import INDEX, LABELS, SAMPLES, WEIGHTS, mutate_array, mutate_blocks
from good_calls import (
    KINDS,
    LABEL_ESTIMATORS,
    METHODS,
    N_SAMPLES,
    ON_PAIRS,
    PAIR_ESTIMATORS,
    TUPLE_ESTIMATORS,
    Case,
    changed_call,
    classes,
    fitted,
    good_arguments,
    index_pairs,
    index_tuples,
    made,
    parameter_names,
    quick_options,
    samples,
    set_parameter,
    tuples_of,
)
from hostile import parameter_value
from refusals import Refusal

import tatml
from tatml import ITML, TATML, TATMLCV, Blocks, Comparisons, Compute, Dykstra, Newton, TATMLPairs
from tatml._estimators.inputs import TUPLE_SIZES


def choose(rng: np.random.Generator, values: Iterable[Any]) -> Any:
    """Return one of the values, drawn with equal probability."""
    values = list(values)
    return values[rng.integers(len(values))]


FREQUENCY = {TATMLCV: 0.4}  # of the slow one


TABLES = tuple(
    module.TABLE for module in (refused_parameters, refused_samples, refused_pairs, refused_tuples)
)
REFUSALS: list[Refusal] = [row for table in TABLES for rows in table.values() for row in rows]


SOLVERS = {"newton": Newton, "dykstra": Dykstra}


def learn_with_settings(**given: Any) -> Any:
    """`learn_metric`, with the settings of its solver and of `Compute` as arguments of their own.

    Those that the solver does not have are left out, and all of them where the solver is not one of
    the words, or `compute` is given.
    """
    own = {name: given.pop(name) for name in list(given) if name in SOLVER_SETTINGS}
    place = {name: given.pop(name) for name in list(given) if name in COMPUTE_SETTINGS}
    compared = {name: given.pop(name) for name in list(given) if name in COMPARED_SETTINGS}
    if "index" in compared:
        given["comparisons"] = Comparisons(compared["index"], compared.get("compared_weights"))
    solver = given.get("solver", "newton")
    kind = SOLVERS.get(solver) if isinstance(solver, str) else None
    if kind is not None:
        known = [part.name for part in fields(kind)]
        given["solver"] = kind(**{name: own[name] for name in own if name in known})
    return tatml.learn_metric(**{"compute": Compute(**place)} | given)


SOLVER_SETTINGS = {part.name for kind in SOLVERS.values() for part in fields(kind)}


COMPUTE_SETTINGS = {part.name for part in fields(Compute)}


COMPARED_SETTINGS = {"index", "compared_weights"}


learn_with_settings.__signature__ = inspect.Signature(
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
        for name in (
            *inspect.signature(tatml.learn_metric).parameters,
            *sorted(SOLVER_SETTINGS),
            *sorted(COMPUTE_SETTINGS),
            *sorted(COMPARED_SETTINGS),
        )
    ]
)


def learn_metric_case(rng: np.random.Generator) -> Case:
    X = samples(choose(rng, ["vectors", *KINDS]))
    pairs, y = index_pairs()
    arguments = {"X": X, "pairs": pairs, "similar": y > 0}
    arguments |= choose(
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
            {"midpoint": True},
            {"midpoint": True, "loss": "logistic", "mu0": -1.0},
            {"midpoint": True, "max_memory": "50MB"},
            {"loss": "logistic"},
            {"index": index_tuples(3)},
            {"index": index_tuples(4), "compared_weights": np.linspace(0, 2, 20)},
            {"index": index_tuples(3), "max_memory": "50MB"},
            {"index": index_tuples(4), "linear_solver": "woodbury"},
        ],
    )
    if "index" in arguments and rng.random() < 0.5:
        del arguments["pairs"], arguments["similar"]
    kinds = {"X": SAMPLES, "pairs": INDEX, "similar": LABELS, "weights": WEIGHTS}
    kinds |= {"index": INDEX, "compared_weights": WEIGHTS}
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
    makers = [*LABEL_ESTIMATORS, *PAIR_ESTIMATORS, *TUPLE_ESTIMATORS]
    shares = np.array([FREQUENCY.get(make, 1.0) for make in makers])
    make = makers[rng.choice(len(makers), p=shares / shares.sum())]
    if make in PAIR_ESTIMATORS:
        return pair_fit_case(rng, make)
    if make in TUPLE_ESTIMATORS:
        return tuple_fit_case(rng, make)
    options = quick_options(make) | choose(rng, LABEL_ESTIMATORS[make])
    kind = choose(rng, ["vectors", *KINDS])
    if make is ITML and isinstance(options.get("solver"), Dykstra):
        kind = "vectors"  # its projections are for these
    arguments = {"X": samples(kind), "y": classes()}
    if rng.random() < 0.2:
        arguments["groups"] = np.arange(N_SAMPLES) // 2
    if rng.random() < 0.2:
        arguments["sample_weight"] = rng.choice([0.5, 1.0, 2.0], size=N_SAMPLES)
        arguments["sample_weight"][0] = 0.0  # few, so that the others make folds
    if rng.random() < 0.1:
        options["preprocessor"], arguments["X"] = arguments["X"], np.arange(N_SAMPLES)
    estimator = new_or_fitted(rng, make, options)
    kinds = {"X": SAMPLES, "y": LABELS, "groups": LABELS, "sample_weight": WEIGHTS}
    return Case(f"{make.__name__}.fit", estimator.fit, arguments, estimator, kinds)


def pair_fit_case(rng: np.random.Generator, make: type) -> Case:
    options = dict(choose(rng, PAIR_ESTIMATORS[make]))
    index, y = index_pairs()
    kind = choose(rng, ["vectors", *KINDS])
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


def tuple_fit_case(rng: np.random.Generator, make: type) -> Case:
    """A fit to triplets or quadruplets."""
    options, name = dict(choose(rng, TUPLE_ESTIMATORS[make])), make._tuples_name
    kind = choose(rng, ["vectors", *KINDS])
    if kind == "blocks" or rng.random() < 0.2:
        options["preprocessor"] = samples(kind)
    index = index_tuples(TUPLE_SIZES[make._tuples_name])
    arguments = {name: index if "preprocessor" in options else samples(kind)[index]}
    if rng.random() < 0.3:
        arguments["sample_weight"] = np.linspace(0, 2, len(index))
    kinds = {name: INDEX if "preprocessor" in options else SAMPLES, "sample_weight": WEIGHTS}
    estimator = new_or_fitted(rng, make, options)
    return Case(f"{make.__name__}.fit", estimator.fit, arguments, estimator, kinds)


def new_or_fitted(rng: np.random.Generator, make: type, options: dict[str, Any]) -> Any:
    """An estimator to fit, which may have been fitted before."""
    if rng.random() < 0.3:
        return copy.copy(fitted(make, "vectors")).set_params(
            **made(make, options).get_params(deep=False)
        )
    return made(make, options)


def method_case(rng: np.random.Generator) -> Case:
    make = choose(rng, [*LABEL_ESTIMATORS, *PAIR_ESTIMATORS, *TUPLE_ESTIMATORS])
    kind = choose(rng, KINDS)
    midpoint = make in (TATML, TATMLPairs) and rng.random() < 0.3
    model = copy.copy(fitted(make, kind, midpoint))
    if rng.random() < 0.03:
        model = make()
    name = choose(rng, [name for name in (*METHODS, "search_vectors") if hasattr(model, name)])
    target, function = f"{make.__name__}.{name}", getattr(model, name)
    if name == "get_metric" and hasattr(model, "components_"):
        target, function = f"{make.__name__}.get_metric()", model.get_metric()
    if make in TUPLE_ESTIMATORS and name in ("predict", "decision_function", "score"):
        given = {make._tuples_name: tuples_of(make, kind)}
        return Case(target, function, given, model, {make._tuples_name: SAMPLES})
    arguments, kinds = method_arguments(rng, name, kind, make not in LABEL_ESTIMATORS)
    if name == "get_metric" and not hasattr(model, "components_"):
        arguments = {}
    return Case(target, function, arguments, model, kinds)


def method_arguments(
    rng: np.random.Generator, name: str, kind: str, from_pairs: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    X, (index, y) = samples(kind), index_pairs()
    with_x = (
        name in (*ON_PAIRS, "calibrate_threshold", "calibrate_probability") and rng.random() < 0.5
    )
    if kind == "blocks":
        with_x = with_x or not from_pairs
    pairs = {"pairs": index} if with_x or kind == "blocks" else {"pairs": X[index]}
    pairs |= {"X": X} if with_x else {}
    kinds = {"X": SAMPLES, "pairs": INDEX if pairs["pairs"] is index else SAMPLES, "y": LABELS}
    kinds |= {"sample_weight": WEIGHTS, "u": SAMPLES, "v": SAMPLES}
    if name in ("transform", "search_vectors"):
        return {"X": X}, kinds
    if name in (*ON_PAIRS, "predict", "predict_proba", "decision_function"):
        return pairs, kinds
    if name in ("score", "calibrate_threshold", "calibrate_probability"):
        weights = {"sample_weight": np.linspace(0, 2, len(y))} if rng.random() < 0.3 else {}
        return pairs | {"y": y} | weights, kinds
    if name == "set_threshold":
        return {"threshold": 1.0}, kinds
    if name == "set_same_rate":
        return {"same_rate": 0.1}, kinds
    if name == "get_metric":
        u, v = (X.arrays, X.arrays) if kind == "blocks" else (X, X)
        if kind == "blocks":
            return {"u": [a[0] for a in u], "v": [a[1] for a in v]}, {}
        return {"u": u[0], "v": v[1]}, kinds
    return {}, kinds


def table_case(rng: np.random.Generator) -> Case:
    """A call of the table of refusals, which further mutations may make good or worse."""
    refusal = choose(rng, REFUSALS)
    target = choose(rng, refusal.targets)
    case = changed_call(target, refusal.given, refusal.kind, again=rng.random() < 0.5)
    case.labels.append(f"{', '.join(refusal.given)} = value of the table")
    case.kinds = {"X": SAMPLES, "y": LABELS, "groups": LABELS, "similar": LABELS}
    case.kinds |= {"pairs": SAMPLES, "sample_weight": WEIGHTS, "weights": WEIGHTS}
    if "pairs" in case.arguments and np.ndim(good_arguments(target, refusal.kind)["pairs"]) == 2:
        case.kinds["pairs"] = INDEX
    return case


def make_case(seed: int) -> Case:
    """Return the case of a seed: always the same."""
    rng = np.random.default_rng([seed, 13])
    build = choose(rng, [learn_metric_case, fit_case, fit_case, method_case, table_case])
    case = build(rng)
    parameters = _parameters_of(case)
    case.names |= frozenset(case.arguments) | frozenset(parameters)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of NumPy, about what the mutations do
        for _ in range(rng.choice(3, p=[0.6, 0.25, 0.15]) + 1):
            _mutate(rng, case, parameters)
    return case


def _parameters_of(case: Case) -> dict[str, str]:
    """The names that may be changed and named, each with where it belongs."""
    names = {name: "argument" for name in inspect.signature(case.function).parameters}
    if case.estimator is not None:
        own = [*case.estimator.get_params(deep=False)]
        if isinstance(case.estimator, TATMLCV):
            own += parameter_names(TATML)
        names |= {name: "estimator" for name in own} | names
    return names


def _mutate(rng: np.random.Generator, case: Case, parameters: dict[str, str]) -> None:
    given = [name for name in case.arguments if name in case.kinds]
    if given and rng.random() < 0.6:
        name = choose(rng, given)
        label, case.arguments[name] = _mutated_array(rng, case, name)
        case.labels.append(f"{name}: {label}")
        return
    names = [name for name in parameters if name not in given]
    if case.target.endswith(".fit") is False and case.estimator is not None:
        names = [name for name in names if parameters[name] == "argument"] or ["preprocessor"]
    name = choose(rng, names or given)
    label, value = parameter_value(rng, name)
    case.labels.append(f"{name} = {label}")
    if parameters[name] == "argument":
        case.arguments[name] = value
    else:
        set_parameter(case.estimator, name, value)


def _mutated_array(rng: np.random.Generator, case: Case, name: str) -> tuple[str, Any]:
    value = case.arguments[name]
    if isinstance(value, Blocks):
        return mutate_blocks(rng, value)
    try:
        return mutate_array(rng, case.kinds[name], value)
    except Exception:
        return "unchanged", value  # an earlier mutation left nothing that this one applies to
