"""The commands `tatml fit`, `evaluate`, `predict`, `transform` and `reproduce`."""

from __future__ import annotations

import ast
import json
import re
import time
import warnings
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from .._data.atomic_files import write_arrays
from .._data.sampling import draw_random_pairs, draw_ranked_pairs
from .._estimators.fitted_state import MEAN
from .._estimators.inputs import target_ranks
from .._estimators.tatml_regression import TATMLRegression
from .._messages import suggestion
from .._optim.solvers import as_solver
from .._warnings import warn_user
from ..io import ESTIMATORS, EXTENSION, Model, load_model, write_model
from ..verification import Report, report
from ..verification._report import format_details
from .files import (
    TABLES,
    Columns,
    InputData,
    InputSamples,
    optional_path,
    output_path,
    print_rows,
    read_data,
    write_columns,
    write_csv,
    write_text,
)

FROM_PAIRS = ("TATMLPairs", "PairThreshold")
# Parameters that --set refuses: the data, and what has no effect in a single fit.
NOT_SETTABLE = ("estimator", "preprocessor", "warm_start", "verbose")
# What the parser raises for text that is not Python; the last two if it is nested too deeply.
NOT_PYTHON = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)
REPORT_FORMATS = (".txt", ".csv", ".json", ".html")
TextRow = tuple[str, str, str]  # a name, a number and a note, as printed
# The rates at the threshold: their names in JSON, their printed names and notes.
RATES = (
    ("balanced_accuracy", "balanced accuracy", "at the threshold"),
    ("false_match", "false match", "dissimilar pairs judged similar"),
    ("false_non_match", "false non-match", "similar pairs judged dissimilar"),
)
# Messages of the estimators that are about the data, not about a parameter.
ABOUT_DATA = re.compile(r"(?:Input )?(X|y|pairs|groups|preprocessor)\b(?:: )?")


def fit(options: Namespace) -> None:
    """Learn a metric and its threshold.

    data:
      NAME.csv   a header, then one sample per line: numbers and a column of classes, which is the
                 column that --target names, or else y or target, or else the last one
      NAME.npz   X (n_samples, n), or matrices (n_samples, n, n'), or X0, X1, ... for several
                 matrices per sample; with y and, optionally, groups; or pairs (n_pairs, 2, n), or
                 index pairs (n_pairs, 2) into X, with similar (or y: 1 for similar, -1 for
                 dissimilar pairs)
      --pairs    a CSV with the columns first, second (sample numbers from 0) and similar (1 or 0)

    examples:
      tatml fit wine.csv --target cultivar --out wine.skops
      tatml fit wine.csv --out wine.skops --C 100 --set prior=within
      tatml fit scans.npz --estimator TATMLCV --set "param_grid={'C': [10, 100]}" --out scans.skops
      tatml fit houses.csv --target price --estimator TATMLRegression --out houses.skops
      tatml fit faces.csv --pairs known.csv --out faces.skops
    """
    out = output_path(options.out, options.force, (EXTENSION,))
    data = read_data(options.data, _columns(options), options.pairs)
    estimator = _make_estimator(_estimator_name(options.estimator, data), options)
    start = time.perf_counter()
    _fit_estimator(estimator, data)
    seconds = time.perf_counter() - start
    metadata = {
        "estimator": type(estimator).__name__,
        "feature_names": None if data.feature_names is None else list(data.feature_names),
        "target": data.target,
        "groups": data.groups_name,
        "command": options.command_line,
    }
    model = write_model(estimator, out, metadata, overwrite=options.force)
    facts = _fit_facts(estimator, data) | {"seconds": round(seconds, 3), "model": str(out)}
    facts |= {name: model.metadata[name] for name in ("holds", "left_out", "reveals")}
    if options.json:
        print(json_text(facts))
        return
    print(f"{facts['estimator']} learnt from {_data_text(data, estimator)}")
    print_rows(_fit_rows(facts))
    print(f"Saved to {out}: {', '.join(model.metadata['holds'])}")
    print(f"{_kept_text(facts['reveals'])} Next: {_next_command(out, data, estimator)}")


def evaluate(options: Namespace) -> None:
    """Evaluate a model on data that it has not seen.

    examples:
      tatml evaluate wine.skops test.csv --train wine.csv
      tatml evaluate faces.skops faces.csv --pairs others.csv --out report.html
    """
    out = optional_path(options, REPORT_FORMATS)
    model = load_model(options.model)
    data = read_data(options.data, _columns(options, model.metadata), options.pairs)
    if not hasattr(model.estimator, "threshold_"):
        raise ValueError(f"model: expected one with a threshold, got {model.estimator!r}")
    facts: dict[str, Any] = {
        "model": str(options.model),
        "estimator": type(model.estimator).__name__,
        "data": str(data.path),
        "threshold": float(model.estimator.threshold_),
        "compared": _compared(model.estimator),
    }
    if options.train is not None:
        facts["knn"] = measure_neighbours(model, data, options)
    pairs = evaluation_pairs(data, options.random_state, model.estimator)
    groups = None if data.X is None else data.groups  # the unit of dependence of index pairs
    with data_errors(data):
        found = report(model.estimator, *pairs, groups=groups)
    facts["pairs"] = pair_facts(found) | {"drawn": data.pairs is None}
    facts["report"] = found.to_dict()
    if out is not None:
        write_report(found, facts, out, options.force)
    if options.json:
        print(json_text(facts))
        return
    print(f"{facts['estimator']} ({options.model}) on {_data_text(data, model.estimator)}")
    print_rows(evaluation_rows(facts))
    print(format_details(found))
    if out is not None:
        print(f"Saved to {out}")
    if options.train is None and data.pairs is None and _has_distance(model.estimator):
        print(
            "To measure the accuracy of nearest neighbours, name the training data: --train TRAIN"
        )


def predict(options: Namespace) -> None:
    """Judge which pairs are similar, or classify samples, or predict their numbers.

    examples:
      tatml predict faces.skops faces.csv --pairs questions.csv --out answers.csv
      tatml predict wine.skops new.csv --train wine.csv --k 5 --out classes.csv
    """
    out = optional_path(options, TABLES)
    model = load_model(options.model)
    columns = _columns(options, model.metadata, guess_target=False)
    data = read_data(options.data, columns, options.pairs)
    if data.pairs is not None:
        with data_errors(data):
            table = _judge_pairs(model.estimator, data.pairs, data.X)
    elif options.train is not None:
        knn = fit_neighbours(model, _training_data(model, options), options.k)
        table = {"y": knn.predict(embed_file(model.estimator, data))}
    else:
        raise ValueError(
            f"{data.path}: expected pairs (--pairs PAIRS, or an array pairs), or training data for "
            "the nearest neighbours (--train TRAIN)"
        )
    write_columns(out, table, options.force)


def transform(options: Namespace) -> None:
    """Embed samples so that their Euclidean distance is the learnt distance.

    examples:
      tatml transform wine.skops wine.csv --out embedded.npz
      tatml transform wine.skops wine.csv | head
    """
    out = optional_path(options, TABLES)
    model = load_model(options.model)
    data = read_data(options.data, _columns(options, model.metadata, guess_target=False))
    Z = embed_file(model.estimator, data)
    known = {"y": data.y, "groups": data.groups}
    labels = {name: values for name, values in known.items() if values is not None}
    if out is not None and out.suffix.lower() == ".npz":
        write_arrays(out, {"X": Z, **labels}, options.force)
        print(f"Saved to {out}: X of shape {Z.shape}")
        return
    names = model.estimator.get_feature_names_out()
    write_columns(out, dict(zip(names, Z.T, strict=True)) | labels, options.force)


def reproduce(options: Namespace) -> None:
    """Run the experiments of the paper and write tables and a report.

    Every run is appended to OUT/results.jsonl. After an interrupt, the same command continues.
    Without a folder of data, the data sets that need no download are used.

    examples:
      tatml reproduce table1 --data ~/data
      tatml reproduce table1 --datasets eth80 virus --methods tatml euc --repeats 5 --jobs 2
      tatml reproduce all --quick
    """
    if find_spec("tatml_paper") is None:
        raise ImportError(
            "expected the package tatml_paper, which is installed with tatml, got none; install "
            "tatml again"
        )
    from tatml_paper.reproduce import reproduce as run  # the other commands do not need it

    run(options)


# Fitting


def _estimator_name(given: str | None, data: InputData) -> str:
    if given is None:
        return "TATML" if data.pairs is None else "TATMLPairs"
    if data.pairs is None and given in FROM_PAIRS:
        raise ValueError(
            f"{data.path}: {given} learns from pairs: expected --pairs PAIRS, or an array pairs"
        )
    if data.pairs is not None and given not in FROM_PAIRS:
        raise ValueError(
            f"{data.path}: {given} learns from labels, got pairs: use --estimator TATMLPairs"
        )
    return given


def _make_estimator(name: str, options: Namespace) -> Any:
    """Return the estimator with the parameters of the options."""
    made = ESTIMATORS[name]()
    if "estimator" in made.get_params(deep=False):  # a search, of which both have parameters
        made.set_params(estimator=ESTIMATORS["TATML"]())
    known = [each for each in made.get_params() if each.split("__")[-1] not in NOT_SETTABLE]
    given = dict(_parse_setting(text) for text in options.set)
    if options.C is not None:
        given["C"] = options.C
    _check_names("--set", given, name, known)
    if "random_state" in known:
        given.setdefault("random_state", options.random_state)
    if "n_jobs" in known:
        given.setdefault("n_jobs", options.jobs)
    return made.set_params(**given)


def _check_names(where: str, names: Iterable[str], owner: str, known: Sequence[str]) -> None:
    """Raise an error unless the owner has parameters of these names."""
    for name in names:
        if name not in known:
            raise ValueError(
                f"{where}: expected a parameter of {owner} ({', '.join(known)}), got {name!r}"
                f"{suggestion(name, known)}"
            )


def _parse_setting(text: str) -> tuple[str, Any]:
    """Return the name and the value of "name=value"."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"--set: expected name=value, got {text!r}")
    return name.strip(), _parse_value(value.strip())


def _parse_value(text: str) -> Any:
    """Return a value as written in Python, or a solver such as "Newton(max_iter=50)", or a word."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about text that is not Python
            tree = ast.parse(text, mode="eval").body
        match tree:
            case ast.Call(func=ast.Name(id="Newton" | "Dykstra" as kind), args=[]):
                given = {str(word.arg): ast.literal_eval(word.value) for word in tree.keywords}
            case _:
                return ast.literal_eval(tree)
    except NOT_PYTHON:
        try:
            return float(text)  # inf, which Python has no literal for
        except ValueError:
            return text
    solver = type(as_solver(kind.lower()))
    _check_names("solver", given, kind, [field.name for field in fields(solver)])
    return solver(**given)


def _fit_estimator(estimator: Any, data: InputData) -> None:
    if data.pairs is not None:
        labels = require_pair_labels(data)
        if data.X is not None:
            estimator.set_params(preprocessor=data.X)
        with data_errors(data):
            estimator.fit(data.pairs, labels)
    else:
        require_labels(data)
        with data_errors(data):
            estimator.fit(data.X, data.y, groups=data.groups)


def _kept_text(reveals: Sequence[str]) -> str:
    """Return what a saved model contains of the data, as a sentence."""
    if any(part != MEAN for part in reveals):
        return f"The file holds {'; '.join(reveals)}; no pairs are saved."
    if reveals:
        return f"No samples and no pairs are saved, only {MEAN}."
    return "No samples and no pairs are saved."


def _fit_facts(estimator: Any, data: InputData) -> dict[str, Any]:
    """Return the numbers that a fit has learnt, and its status."""
    pairs = estimator.pairs_ if data.pairs is None else data.pairs
    facts: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "threshold": float(estimator.threshold_),
        "compared": _compared(estimator),
        "b0": float(estimator.b0_),
        "n_features": estimator.n_features_in_,
        "n_pairs": None if pairs is None else len(pairs),  # None: all pairs, too many to be listed
    }
    if hasattr(estimator, "best_params_"):
        chosen = dict(estimator.best_params_)
        kernel = chosen.pop("kernel", None)  # it may be a KernelMap, which is shown as text
        facts["chosen"] = chosen if kernel is None else chosen | {"kernel": str(kernel)}
        facts["searched"] = _searched_names(estimator.cv_results_["params"])
    if hasattr(estimator, "result_"):
        result = estimator.result_
        facts |= {"converged": result.converged, "gap": float(result.gap), "n_iter": result.n_iter}
    return facts


def _has_distance(estimator: Any) -> bool:
    """Return whether there is a distance, and no score of any sign in its place."""
    return not estimator._signed_scores


def _learns_numbers(estimator: Any) -> bool:
    """Return whether targets are numbers, and not classes."""
    return type(estimator) is TATMLRegression


def _compared(estimator: Any) -> str:
    """Return what is compared with the threshold."""
    return "distance" if _has_distance(estimator) else "minus score"


def _threshold_note(facts: dict[str, Any]) -> str:
    return f"{facts['compared']}s below it mean: same"


def _searched_names(candidates: Sequence[dict[str, Any]]) -> list[str]:
    """Return the parameters for which a search compared several values."""
    names = dict.fromkeys(name for tried in candidates for name in tried)
    return [name for name in names if len({repr(tried.get(name)) for tried in candidates}) > 1]


def _fit_rows(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    chosen = facts.get("chosen", {})
    notes = {name: "chosen" for name in facts.get("searched", ())}
    rows = [(name, format_value(value), notes.get(name, "")) for name, value in chosen.items()]
    rows += [
        ("threshold", format_value(facts["threshold"]), _threshold_note(facts)),
        ("number of pairs", "all" if facts["n_pairs"] is None else str(facts["n_pairs"]), ""),
    ]
    if "gap" in facts:
        word = "converged" if facts["converged"] else "not converged"
        rows.append(
            ("duality gap", f"{facts['gap']:.1e}", f"{word} in {facts['n_iter']} iterations")
        )
    return [*rows, ("seconds", f"{facts['seconds']:.2f}", "")]


def _next_command(out: Path, data: InputData, estimator: Any) -> str:
    if data.pairs is None:
        train = f" --train {data.path}" if _has_distance(estimator) else ""
        return f"tatml evaluate {out} TEST{train}"
    return f"tatml evaluate {out} TEST" + ("" if data.X is None else " --pairs PAIRS")


# Predicting


def _judge_pairs(estimator: Any, pairs: NDArray, X: InputSamples | None) -> dict[str, NDArray]:
    """Return the columns of a table of distances, or of scores, and decisions."""
    scores = estimator.pair_score(pairs, X)
    same = estimator.predict_pairs(pairs, X) > 0
    table = {"distance": -scores} if _has_distance(estimator) else {"score": scores}
    table["similar"] = np.where(same, "same", "different")
    if X is None:
        return {"pair": np.arange(len(scores))} | table
    return {"first": pairs[:, 0], "second": pairs[:, 1]} | table


# Files and output


def _columns(
    options: Namespace, known: Mapping[str, Any] | None = None, guess_target: bool = True
) -> Columns:
    """Return the columns of the options, and those that a model was fitted on."""
    return Columns(options.target, options.groups, options.drop, known or {}, guess_target)


def _data_text(data: InputData, estimator: Any) -> str:
    """Describe the data in words."""
    text = str(data.path)
    if data.pairs is not None:
        return f"{len(data.pairs)} pairs of {text}"
    text = f"{len(data.X)} samples of {text}"
    column = f" (column {data.target!r})" if data.target else ""
    what = "numbers" if _learns_numbers(estimator) else "classes"
    return f"{text}, {len(np.unique(data.y))} {what}{column}"


@contextmanager
def data_errors(data: InputData) -> Iterator[None]:
    """Add the place in a file to errors that estimators raise about the data."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = " ".join(str(error).split())
        about = ABOUT_DATA.match(text)
        if "label type" in text:  # as scikit-learn says that the target is no class
            column = f"the column {data.target!r}" if data.target else "y"
            message = (
                f"{data.path}: expected classes in {column}, got {len(np.unique(data.y))} "
                "different numbers; name the column of the classes with --target"
            )
        elif about is None:
            raise
        elif about[1] in data.places:
            message = f"{data.places[about[1]]}: {text[about.end() :]}"
        else:
            message = f"{data.path}: {text}"
        raise ValueError(message) from error


def require_labels(data: InputData) -> None:
    """Raise an error if there are no samples, or if they have no classes."""
    if data.X is None or data.y is None:
        raise ValueError(
            f"{data.path}: expected labels: an array y, or a column named y, target or by --target"
        )


def require_pair_labels(data: InputData) -> NDArray[np.intp]:
    """Return +1 for similar and −1 for dissimilar pairs, or raise an error if none are given."""
    if data.similar is None:
        raise ValueError(
            f"{data.pairs_path or data.path}: expected the labels of the pairs: a column or an "
            "array similar (or y)"
        )
    return np.where(data.similar, 1, -1)


def embed_file(estimator: Any, data: InputData) -> NDArray[np.float64]:
    """Embed the samples of a file so that their Euclidean distance is the learnt distance."""
    if data.X is None:
        raise ValueError(f"{data.path}: expected samples, X, got pairs of samples only")
    if not hasattr(estimator, "transform"):
        what = "which learns only a threshold and embeds no samples"
        if hasattr(estimator, "sum_factors_"):
            what = "with a midpoint: evaluate without --train, or predict --pairs"
        name = type(estimator).__name__
        raise ValueError(f"model: expected one that learns a metric, got {name}, {what}")
    with data_errors(data):
        return np.asarray(estimator.transform(data.X))  # a data frame after set_output


def _ranks_of(data: InputData, estimator: Any) -> NDArray[np.float64]:
    """Return the ranks of the targets, or raise an error unless they are numbers."""
    with data_errors(data):
        return target_ranks(estimator, data.y, len(data.X))


def _training_data(model: Model, options: Namespace) -> InputData:
    """Return the samples with targets among which the nearest neighbours are found."""
    train = read_data(options.train, _columns(options, model.metadata))
    require_labels(train)
    if _learns_numbers(model.estimator):
        _ranks_of(train, model.estimator)
    if options.k > len(train.y):
        raise ValueError(
            f"--k: expected at most the {len(train.y)} training samples, got {options.k}"
        )
    return train


def fit_neighbours(
    model: Model, train: InputData, k: int
) -> KNeighborsClassifier | KNeighborsRegressor:
    """Return what predicts by the nearest training samples in the learnt distance."""
    make = KNeighborsRegressor if _learns_numbers(model.estimator) else KNeighborsClassifier
    return make(k).fit(embed_file(model.estimator, train), train.y)


def measure_neighbours(model: Model, test: InputData, options: Namespace) -> dict[str, Any]:
    """Return the accuracy of the nearest training samples, with a 95 % interval; R² of numbers."""
    train = _training_data(model, options)
    require_labels(test)
    counts = {"k": options.k, "n_train": len(train.y), "n_test": len(test.y)}
    if _learns_numbers(model.estimator):
        _ranks_of(test, model.estimator)
        found = fit_neighbours(model, train, options.k).predict(embed_file(model.estimator, test))
        return counts | {"r2": float(r2_score(test.y, found))}
    if {"U"} < {train.y.dtype.kind, test.y.dtype.kind}:  # words in one file, numbers in the other
        train, test = (replace(data, y=data.y.astype(str)) for data in (train, test))
    knn = fit_neighbours(model, train, options.k)
    _check_comparable(train, test)
    correct = int(np.sum(knn.predict(embed_file(model.estimator, test)) == test.y))
    interval = binomtest(correct, len(test.y)).proportion_ci(method="wilson")
    limits = {"low": float(interval.low), "high": float(interval.high)}
    return counts | {"accuracy": correct / len(test.y)} | limits


def _check_comparable(train: InputData, test: InputData) -> None:
    """Raise an error if the two have no class in common, and warn of common groups."""
    known, found = set(train.y.tolist()), set(test.y.tolist())
    unknown = sorted(found - known, key=str)
    if len(unknown) == len(found):
        raise ValueError(
            f"{test.path}: expected the classes of {train.path}, for example "
            f"{min(known, key=str)!r}, got others, for example {unknown[0]!r}"
        )
    if unknown:
        warn_user(f"{test.path}: {len(unknown)} classes are not in {train.path}: {unknown[0]!r}, …")
    if train.groups is None or test.groups is None:
        return
    shared = set(train.groups.tolist()) & set(test.groups.tolist())
    if shared:
        warn_user(
            f"{len(shared)} groups are in both {train.path} and {test.path}: the accuracy is "
            "that of samples from known groups"
        )


def evaluation_pairs(
    data: InputData, seed: int, estimator: Any
) -> tuple[NDArray, NDArray[np.intp], InputSamples | None]:
    """Return the pairs of a file, or draw pairs from its targets; with labels ±1 and samples.

    Of numbers, they are drawn as those that the estimator has learnt from.
    """
    if data.pairs is not None:
        return data.pairs, require_pair_labels(data), data.X
    require_labels(data)
    groups = None if data.groups is None else np.unique(data.groups, return_inverse=True)[1]
    rng = np.random.RandomState(seed)
    if _learns_numbers(estimator):
        rule = {name: getattr(estimator, name) for name in ("near", "far", "n_pairs")}
        ranks = _ranks_of(data, estimator)
        with data_errors(data):
            pairs = draw_ranked_pairs(ranks, groups, total=len(ranks), random_state=rng, **rule)
    else:
        labels = np.unique(data.y, return_inverse=True)[1]
        with data_errors(data):
            pairs = draw_random_pairs(labels, groups, random_state=rng)
    return pairs.index, np.where(pairs.similar, 1, -1), data.X


def pair_facts(found: Report) -> dict[str, Any]:
    """Return the numbers of a report at the threshold of the model."""
    parts = ("value", "low", "high")
    rates = {"balanced_accuracy": dict(zip(parts, found.balanced_accuracy or (), strict=True))}
    for kind in ("false_match", "false_non_match"):
        rates[kind] = {part: getattr(getattr(found["estimator"], kind), part) for part in parts}
    return {
        "n_pairs": found.n_similar + found.n_dissimilar,
        "n_similar": found.n_similar,
        "auc": found.auc,
        "equal_error_rate": found.equal_error_rate,
        "limits": {name: list(limits) for name, limits in found.limits.items()},
        **rates,
    }


def json_text(facts: dict[str, Any]) -> str:
    """Return the results as JSON."""
    return json.dumps(facts, indent=2, default=float)


def write_report(found: Report, facts: dict[str, Any], out: Path, overwrite: bool) -> None:
    """Write a report as text, JSON, HTML, or CSV with one row per threshold."""
    kind, text = out.suffix.lower(), str(found)
    if kind == ".csv":
        rows = found.to_dict()["points"]
        write_csv(out, rows[0], (row.values() for row in rows), overwrite)
        return
    if kind == ".json":
        text = json_text(facts)
    elif kind == ".html":
        text = f'<!DOCTYPE html><meta charset="utf-8"><title>Report</title>{found._repr_html_()}'
    write_text(out, f"{text}\n", overwrite)


def evaluation_rows(facts: dict[str, Any]) -> list[TextRow]:
    """Return the results as rows of a printed table."""
    rows, pairs = [], facts["pairs"]
    if "knn" in facts:
        knn = facts["knn"]
        note = f"{knn['n_test']} samples, neighbours among {knn['n_train']}"
        if "r2" in knn:
            rows.append((f"{knn['k']}-NN R²", f"{knn['r2']:.4f}", note))
        else:
            rows.append(_rate_row(f"{knn['k']}-NN accuracy", knn, knn["accuracy"], note))
    kind = "drawn from the labels" if pairs["drawn"] else "as given"
    rows += [
        ("threshold", format_value(facts["threshold"]), _threshold_note(facts)),
        ("pairs", str(pairs["n_pairs"]), f"{kind}, {pairs['n_similar']} of them similar"),
    ]
    for name, words, note in (
        ("auc", "AUC", "area under the ROC curve"),
        ("equal_error_rate", "equal error rate", "where both errors are as frequent"),
    ):
        limits = dict(zip(("low", "high"), pairs["limits"][name], strict=True))
        rows.append(_rate_row(words, limits, pairs[name], note))
    for name, words, note in RATES:
        rows.append(_rate_row(words, pairs[name], pairs[name]["value"], note))
    return rows


def _rate_row(words: str, limits: dict[str, float], value: float, note: str) -> TextRow:
    return words, f"{value:.4f}", f"[{limits['low']:.4f}, {limits['high']:.4f}]  {note}"


def format_value(value: Any) -> str:
    """Return a number with six digits, a word as it is, and "as given" for matrices.

    >>> format_value(0.123456789), format_value("within"), format_value([[1.0, 0.0], [0.0, 1.0]])
    ('0.123457', 'within', 'as given')
    >>> format_value(True), format_value(None)
    ('True', 'None')
    """
    if value is None or isinstance(value, bool):
        return str(value)
    if hasattr(value, "__len__"):
        return value if isinstance(value, str) else "as given"
    return f"{value:.6g}"
