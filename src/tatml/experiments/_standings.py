"""Means over the repeats, and the t-test that says which of them differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan, sqrt
from typing import Any

import numpy as np
from scipy import stats

from ._settings import PROTOCOL

__all__ = ["Scores", "as_cells", "not_worse", "on_same_halves", "p_value"]

Scores = dict[int, float]
"""A number of a method in a cell, by repeat."""


def p_value(first: Mapping[int, float], second: Mapping[int, float] | float) -> float:
    """Two-sided one-sample t-test of the differences of two methods, repeat by repeat, against 0.

    Parameters
    ----------
    first, second : dict of int to float
        By repeat; only repeats that both have count. The second may be one number, such as a
        printed mean.

    Returns
    -------
    float
        NaN for fewer than two repeats; 1 or 0 where all differences are the same, zero or not.

    Examples
    --------
    >>> round(p_value({0: 3.0, 1: 5.0, 2: 4.0}, {0: 1.0, 1: 2.0, 2: 3.0}), 4)
    0.0742
    """
    if isinstance(second, float | int):
        differences = np.array(list(first.values())) - second
    else:
        both = sorted(first.keys() & second.keys())
        differences = np.array([first[repeat] - second[repeat] for repeat in both])
    n = len(differences)
    if n < 2:
        return nan
    spread = float(differences.std(ddof=1))
    if spread <= 1e-12 * float(np.max(np.abs(differences), initial=1.0)):
        return 1.0 if abs(differences[0]) <= 1e-9 else 0.0
    statistic = abs(float(differences.mean())) / (spread / sqrt(n))
    return 2 * float(stats.t.sf(statistic, n - 1))


def on_same_halves(first: Scores, second: Scores) -> tuple[Scores, Scores]:
    """Both, with the repeats that both have: means over other halves are not comparable.

    Examples
    --------
    >>> on_same_halves({0: 90.0, 1: 80.0}, {1: 81.0, 2: 95.0})
    ({1: 80.0}, {1: 81.0})
    """
    both = sorted(first.keys() & second.keys())
    return {repeat: first[repeat] for repeat in both}, {repeat: second[repeat] for repeat in both}


def mean(scores: Mapping[int, float]) -> float:
    """Their mean."""
    return float(np.mean(list(scores.values()))) if scores else nan


def deviation(scores: Mapping[int, float]) -> float:
    """Their standard deviation (n − 1), NaN for fewer than two."""
    return float(np.std(list(scores.values()), ddof=1)) if len(scores) > 1 else nan


def not_worse(column: Mapping[Any, Scores]) -> tuple[Any, set[Any]]:
    """The highest of a column, and the others that are not significantly different from it."""
    best = max(column, key=lambda name: mean(column[name]))
    level = PROTOCOL.significance
    others = {name for name in column if name != best}
    return best, {name for name in others if not p_value(column[best], column[name]) < level}


def as_cells(records: Iterable[dict], quantity: str = "accuracy") -> dict[tuple, Scores]:
    """{(dataset, split, features, method): {repeat: number}}, without those that have none."""
    cells: dict[tuple, Scores] = {}
    for record in records:
        if record.get(quantity) is not None:
            place = tuple(record[name] for name in ("dataset", "split", "features", "method"))
            cells.setdefault(place, {})[record["repeat"]] = record[quantity]
    return cells
