"""Evaluate a fitted metric on data: nearest neighbours, and pairs at the threshold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.neighbors import KNeighborsClassifier

from .._data.atomic_files import written_atomically
from .._data.sampling import draw_random_pairs
from .._warnings import warn_user
from ..verification import Report, report
from .csv_tables import write_csv
from .files import InputData, InputSamples

REPORT_FORMATS = (".txt", ".csv", ".json", ".html")
TextRow = tuple[str, str, str]  # a name, a number and a note, as printed
THRESHOLD_NOTE = "distances below it mean: same"
# Messages of the estimators that are about the data, not about a parameter.
ABOUT_DATA = re.compile(r"(?:Input )?(X|y|pairs|groups|preprocessor)\b(?:: )?")


@dataclass(frozen=True)
class LabelledFile:
    """The samples of a file with their classes and, optionally, their groups."""

    path: Path
    X: InputSamples
    y: NDArray
    groups: NDArray | None


@contextmanager
def data_errors(path: Path, places: Mapping[str, str] | None = None) -> Iterator[None]:
    """Add the place in a file to errors that estimators raise about the data.

    `places` are the places of y, groups and pairs; without them, errors name the file only.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        text = " ".join(str(error).split())
        about = ABOUT_DATA.match(text)
        if about is None:
            raise
        place = (places or {}).get(about[1])
        message = f"{path}: {text}" if place is None else f"{place}: {text[about.end() :]}"
        raise ValueError(message) from error


def require_labels(data: InputData) -> LabelledFile:
    """Return the samples of a file with their classes, or raise an error if it has none."""
    if data.X is None or data.y is None:
        raise ValueError(
            f"{data.path}: expected labels: an array y, or a column named y, target or by --target"
        )
    return LabelledFile(data.path, data.X, data.y, data.groups)


def require_pair_labels(data: InputData) -> NDArray[np.intp]:
    """Return +1 for similar and −1 for dissimilar pairs, or raise an error if none are given."""
    if data.similar is None:
        raise ValueError(
            f"{data.pairs_path or data.path}: expected the labels of the pairs: a column or an "
            "array similar (or y)"
        )
    return np.where(data.similar, 1, -1)


def embed_file(estimator: Any, X: InputSamples, path: Path) -> NDArray[np.float64]:
    """Embed the samples of a file so that their Euclidean distance is the learnt distance."""
    if not hasattr(estimator, "transform"):
        raise ValueError(
            f"model: expected one that learns a metric, got {type(estimator).__name__}, which "
            "learns only a threshold and embeds no samples"
        )
    with data_errors(path):
        return np.asarray(estimator.transform(X))  # a data frame after set_output


def measure_neighbours(
    estimator: Any, train: LabelledFile, test: LabelledFile, k: int
) -> dict[str, Any]:
    """Return the accuracy of the nearest training samples, with a 95 % interval."""
    train, test = _with_common_labels(train, test)
    knn = fit_neighbours(estimator, train, k)
    _check_comparable(train, test)
    correct = int(np.sum(knn.predict(embed_file(estimator, test.X, test.path)) == test.y))
    interval = binomtest(correct, len(test.y)).proportion_ci(method="wilson")
    return {
        "k": k,
        "accuracy": correct / len(test.y),
        "low": float(interval.low),
        "high": float(interval.high),
        "n_train": len(train.y),
        "n_test": len(test.y),
    }


def _with_common_labels(
    train: LabelledFile, test: LabelledFile
) -> tuple[LabelledFile, LabelledFile]:
    """Convert the classes of both to words if one file has words and the other only numbers."""
    kinds = {train.y.dtype.kind, test.y.dtype.kind}
    if len(kinds) < 2 or "U" not in kinds:
        return train, test
    return replace(train, y=train.y.astype(str)), replace(test, y=test.y.astype(str))


def _check_comparable(train: LabelledFile, test: LabelledFile) -> None:
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


def fit_neighbours(estimator: Any, train: LabelledFile, k: int) -> KNeighborsClassifier:
    """Return a classifier by the nearest training samples in the learnt distance."""
    if k > len(train.y):
        raise ValueError(f"--k: expected at most the {len(train.y)} training samples, got {k}")
    return KNeighborsClassifier(k).fit(embed_file(estimator, train.X, train.path), train.y)


def evaluation_pairs(
    data: InputData, seed: int
) -> tuple[NDArray, NDArray[np.intp], InputSamples | None]:
    """Return the pairs of a file, or draw pairs from its labels; with labels ±1 and samples."""
    if data.pairs is not None:
        return data.pairs, require_pair_labels(data), data.X
    known = require_labels(data)
    labels = np.unique(known.y, return_inverse=True)[1]
    groups = None if known.groups is None else np.unique(known.groups, return_inverse=True)[1]
    pairs = draw_random_pairs(labels, groups, random_state=np.random.RandomState(seed))
    return pairs.index, np.where(pairs.similar, 1, -1), known.X


def measure_pairs(
    estimator: Any,
    pairs: NDArray,
    labels: NDArray,
    X: InputSamples | None,
    groups: NDArray | None,
) -> Report:
    """Evaluate the distances and the threshold on pairs with labels ±1.

    The groups of samples are the unit of dependence, for index pairs into samples.
    """
    return report(estimator, pairs, labels, X, groups=None if X is None else groups)


def pair_facts(found: Report) -> dict[str, Any]:
    """Return the numbers of a report at the threshold of the model."""
    point = found["estimator"]
    rates = {"false_match": point.false_match, "false_non_match": point.false_non_match}
    balanced = dict(zip(("value", "low", "high"), found.balanced_accuracy or (), strict=True))
    return {
        "n_pairs": found.n_similar + found.n_dissimilar,
        "n_similar": found.n_similar,
        "auc": found.auc,
        "equal_error_rate": found.equal_error_rate,
        "balanced_accuracy": balanced,
    } | {
        name: {"value": rate.value, "low": rate.low, "high": rate.high}
        for name, rate in rates.items()
    }


def write_report(found: Report, facts: dict[str, Any], out: Path, overwrite: bool) -> None:
    """Write a report as text, JSON, HTML, or CSV with one row per threshold."""
    kind = out.suffix.lower()
    if kind == ".csv":
        rows = found.to_dict()["points"]
        write_csv(out, rows[0], [[*row.values()] for row in rows], overwrite)
        return
    text = str(found)
    if kind == ".json":
        text = json.dumps(facts, indent=2)
    elif kind == ".html":
        text = f'<!DOCTYPE html><meta charset="utf-8"><title>Report</title>{found._repr_html_()}'
    with written_atomically(out, overwrite) as file:
        file.write(f"{text}\n".encode())


def evaluation_rows(facts: dict[str, Any]) -> list[TextRow]:
    """Return the results as rows of a printed table."""
    rows, pairs = [], facts["pairs"]
    if "knn" in facts:
        knn = facts["knn"]
        sizes = f"{knn['n_test']} samples, neighbours among {knn['n_train']}"
        rows.append((f"{knn['k']}-NN accuracy", _rate(knn["accuracy"]), f"{_range(knn)}  {sizes}"))
    kind = "drawn from the labels" if pairs["drawn"] else "as given"
    rows += [
        ("threshold", format_value(facts["threshold"]), THRESHOLD_NOTE),
        ("pairs", str(pairs["n_pairs"]), f"{kind}, {pairs['n_similar']} of them similar"),
        ("AUC", _rate(pairs["auc"]), ""),
        ("equal error rate", _rate(pairs["equal_error_rate"]), ""),
    ]
    notes = {
        "false_match": "dissimilar pairs judged similar",
        "false_non_match": "similar pairs judged dissimilar",
    }
    for name in ("balanced_accuracy", "false_match", "false_non_match"):
        rate, words = pairs[name], name.replace("non_", "non-").replace("_", " ")
        note = f"{_range(rate)}  {notes.get(name, 'at the threshold')}"
        rows.append((words, _rate(rate["value"]), note))
    return rows


def format_value(value: Any) -> str:
    """Return a number with six digits, a word as it is, and "as given" for matrices.

    >>> format_value(0.123456789), format_value("within"), format_value([[1.0, 0.0], [0.0, 1.0]])
    ('0.123457', 'within', 'as given')
    """
    if hasattr(value, "__len__"):
        return value if isinstance(value, str) else "as given"
    return f"{value:.6g}"


def _rate(value: float) -> str:
    return f"{value:.4f}"


def _range(rate: dict[str, float]) -> str:
    return f"[{rate['low']:.4f}, {rate['high']:.4f}]"
