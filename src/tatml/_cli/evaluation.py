"""How good a fitted metric is on a user's data: nearest neighbours, and pairs at the threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from .._data.sampling import draw_random_pairs
from .._estimators.thresholds import equal_error_rate
from .._warnings import warn_user
from ..inspection import error_rates
from .files import Data, Samples

__all__ = [
    "Labelled",
    "embedded",
    "evaluation_rows",
    "labelled",
    "neighbour_facts",
    "neighbours",
    "number",
    "pair_facts",
    "pair_labels",
    "pairs_of",
]

Row = tuple[str, str, str]


@dataclass(frozen=True)
class Labelled:
    """The samples of a file, with a class for each, and perhaps a group."""

    path: Path
    X: Samples
    y: NDArray
    groups: NDArray | None


def labelled(data: Data) -> Labelled:
    """The samples of the data, which must have classes."""
    if data.X is None or data.y is None:
        raise ValueError(
            f"{data.path}: expected labels: an array y, or a column named y, target or by --target"
        )
    return Labelled(data.path, data.X, data.y, data.groups)


def pair_labels(data: Data) -> NDArray[np.intp]:
    """+1 for the same and −1 for different, which must be known."""
    if data.similar is None:
        raise ValueError(
            f"{data.path}: expected which pairs are similar: a column or an array similar (or y)"
        )
    return np.where(data.similar, 1, -1)


def embedded(estimator: Any, X: Samples | None) -> NDArray[np.float64]:
    """The samples where plain distances are the learnt ones."""
    if not hasattr(estimator, "transform"):
        raise ValueError(
            f"{type(estimator).__name__}: learns a threshold for a given distance; it embeds no "
            "samples, expected a model that learns a metric"
        )
    return np.asarray(estimator.transform(X))  # a frame, where the model was told so


def neighbour_facts(estimator: Any, train: Labelled, test: Labelled, k: int) -> dict[str, Any]:
    """The accuracy of the nearest neighbours among the training samples, with a 95 % interval."""
    train, test = _in_one_kind(train, test)
    knn = neighbours(estimator, train, k)
    _check_comparable(train, test)
    correct = int(np.sum(knn.predict(embedded(estimator, test.X)) == test.y))
    interval = binomtest(correct, len(test.y)).proportion_ci(method="wilson")
    return {
        "k": k,
        "accuracy": correct / len(test.y),
        "low": float(interval.low),
        "high": float(interval.high),
        "n_train": len(train.y),
        "n_test": len(test.y),
    }


def _in_one_kind(train: Labelled, test: Labelled) -> tuple[Labelled, Labelled]:
    """The classes of both as words, where one file has words and the other only numbers."""
    kinds = {train.y.dtype.kind, test.y.dtype.kind}
    if len(kinds) < 2 or "U" not in kinds:
        return train, test
    return replace(train, y=train.y.astype(str)), replace(test, y=test.y.astype(str))


def _check_comparable(train: Labelled, test: Labelled) -> None:
    """The two must have classes in common, and should have no groups in common."""
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
            "that of samples whose group is known"
        )


def neighbours(estimator: Any, train: Labelled, k: int) -> KNeighborsClassifier:
    """The nearest neighbours among the training samples, by the learnt distance."""
    if k > len(train.y):
        raise ValueError(f"--k: expected at most the {len(train.y)} training samples, got {k}")
    return KNeighborsClassifier(k).fit(embedded(estimator, train.X), train.y)


def pairs_of(data: Data, seed: int) -> tuple[NDArray, NDArray[np.intp], Samples | None]:
    """The pairs of a file, or pairs drawn from its labels, with labels ±1, and their samples."""
    if data.pairs is not None:
        return data.pairs, pair_labels(data), data.X
    known = labelled(data)
    labels = np.unique(known.y, return_inverse=True)[1]
    groups = None if known.groups is None else np.unique(known.groups, return_inverse=True)[1]
    pairs = draw_random_pairs(labels, groups, random_state=np.random.RandomState(seed))
    return pairs.index, np.where(pairs.similar, 1, -1), known.X


def pair_facts(
    estimator: Any, pairs: NDArray, labels: NDArray, X: Samples | None, seed: int
) -> dict[str, Any]:
    """What the distances and the threshold are worth on pairs with labels ±1."""
    scores = estimator.pair_score(pairs, X)
    rates = error_rates(estimator, pairs, labels, X, random_state=seed)
    facts: dict[str, Any] = {
        "n_pairs": len(labels),
        "n_similar": int(np.sum(labels > 0)),
        "auc": float(roc_auc_score(labels, scores)),
        "equal_error_rate": equal_error_rate(-scores, labels > 0),
    }
    for name in ("balanced_accuracy", "false_match", "false_non_match"):
        rate = rates[name]
        facts[name] = {"value": rate.value, "low": rate.low, "high": rate.high}
    return facts


def evaluation_rows(facts: dict[str, Any]) -> list[Row]:
    """The facts as names, numbers and notes."""
    rows, pairs = [], facts["pairs"]
    if "knn" in facts:
        knn = facts["knn"]
        sizes = f"{knn['n_test']} samples, neighbours among {knn['n_train']}"
        rows.append((f"{knn['k']}-NN accuracy", _rate(knn["accuracy"]), f"{_range(knn)}  {sizes}"))
    kind = "drawn from the labels" if pairs["drawn"] else "as given"
    rows += [
        ("threshold", number(facts["threshold"]), "as a distance: below it two are the same"),
        ("pairs", str(pairs["n_pairs"]), f"{kind}, {pairs['n_similar']} of them similar"),
        ("AUC", _rate(pairs["auc"]), ""),
        ("equal error rate", _rate(pairs["equal_error_rate"]), ""),
    ]
    notes = {"false_match": "different, judged the same", "false_non_match": "the other way round"}
    for name in ("balanced_accuracy", "false_match", "false_non_match"):
        rate, words = pairs[name], name.replace("non_", "non-").replace("_", " ")
        note = f"{_range(rate)}  {notes.get(name, 'at the threshold')}"
        rows.append((words, _rate(rate["value"]), note))
    return rows


def number(value: Any) -> str:
    """A number to six digits; words stay as they are, and matrices are only named.

    >>> number(0.123456789), number("within"), number([[1.0, 0.0], [0.0, 1.0]])
    ('0.123457', 'within', 'as given')
    """
    if hasattr(value, "__len__"):
        return value if isinstance(value, str) else "as given"
    return f"{value:.6g}"


def _rate(value: float) -> str:
    return f"{value:.4f}"


def _range(rate: dict[str, float]) -> str:
    return f"[{rate['low']:.4f}, {rate['high']:.4f}]"
