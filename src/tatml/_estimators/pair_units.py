"""Read which samples or groups the members of given pairs belong to.

Pairs that share one of these *units* are dependent. Like `inputs`, this module is at the edge: it
inspects types and dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples

from .._data.arrays import as_real_array, read_array
from .._messages import shown
from .._verification.dependence import are_independent
from .inputs import check_not_missing, number_distinct, read_tuples

# Equal rows are one sample if fewer than this number of equal couples is expected by chance.
FEW_BY_CHANCE = 0.05


def count_rows(pairs: Any) -> int:
    """Return the number of given pairs, or of other rows, of any form; 0 if they are no array."""
    try:
        return _num_samples(pairs)
    except Exception:  # any object may be given
        return 0


def pair_units(
    estimator: BaseEstimator, pairs: Any, X: Any, groups: Any
) -> tuple[NDArray[np.intp] | None, str | None]:
    """Return the units of pairs that are given to an estimator, and a warning or None.

    The units are numbered from 0, (n_pairs, 2). They are the groups if these are given, or else the
    samples: those of index pairs, or the distinct rows of pairs given as arrays. None if the pairs
    are taken to be independent. The warning says what is assumed of rows that repeat; it is for
    callers to give, once the pairs are accepted.
    """
    array = read_tuples(pairs)
    if array.ndim == 0:
        return None, None  # no pairs: `pair_distance` has the better message
    is_index = array.ndim == 2 and (X is not None or estimator.preprocessor is not None)
    if not is_index:
        if groups is None:
            return _number_rows(array)
        return number_units(None, groups, len(array)), None
    samples = estimator.preprocessor if X is None else X
    n_samples = None if callable(samples) else count_rows(samples)
    is_known = n_samples is not None and array.dtype.kind in "iu" and array.size > 0
    if is_known and not 0 <= array.min() <= array.max() < n_samples:
        return None, None  # `pair_distance` has the better message
    return number_units(array, groups, len(array), n_samples), None


def _number_rows(array: NDArray) -> tuple[NDArray[np.intp] | None, str | None]:
    """Return the numbers of the distinct rows of pairs given as arrays, and a warning.

    There are no numbers if no row is in two pairs, or if rows may repeat by chance, as those of
    few binary columns do; and no warning if no row is in two pairs.
    """
    if array.ndim < 3 or array.shape[1] != 2 or array.size == 0:
        return None, None  # distances, or no pairs: `pair_distance` has the better message
    rows = as_real_array(array, "pairs").reshape(2 * len(array), -1)
    numbers: dict[int, int] = {}
    keys = (hash((row + 0.0).tobytes()) for row in rows)  # + 0.0: −0.0 is 0.0
    units = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.intp, len(rows))
    first = np.unique(units, return_index=True)[1]
    units = units.reshape(-1, 2)
    if are_independent(units):
        return None, None
    found = f"pairs: {len(rows)} rows, of which {len(first)} are distinct"
    advice = "give index pairs, and the samples as X or preprocessor, or give groups"
    expected = _count_by_chance(rows[first], len(rows))
    if expected >= FEW_BY_CHANCE:
        return None, (
            f"{found}; about {expected:.2g} couples of rows would be equal by chance, so that the "
            "pairs are taken to be independent. If equal rows are one sample, the limits and "
            f"promises are wrong: {advice}"
        )
    return units, (
        f"{found}; equal rows are taken as one sample, and pairs that share one as dependent. To "
        f"say which samples the pairs share, {advice}"
    )


def _count_by_chance(distinct: NDArray, n_rows: int) -> float:
    """Return how many couples of rows are expected to be equal if the columns are independent.

    The chance that two rows agree in a column is that of the distinct rows. Columns are read until
    the number is below `FEW_BY_CHANCE`.
    """
    expected = n_rows * (n_rows - 1) / 2
    n_couples = max(1, len(distinct) * (len(distinct) - 1))
    for column in distinct.T:
        if expected < FEW_BY_CHANCE:
            break
        counts = np.unique(column, return_counts=True)[1]
        expected *= float(counts @ (counts - 1)) / n_couples
    return expected


def read_split_units(pairs: Any, groups: Any) -> NDArray[np.intp]:
    """Return the units of pairs that are to be split; no sample may be in two of them."""
    array = read_tuples(pairs)
    if array.ndim < 2 or array.shape[1] != 2 or len(array) == 0:
        raise ValueError(
            "pairs: expected shape (n_pairs, 2), or (n_pairs, 2, …) with groups, got shape "
            f"{array.shape}"
        )
    index = array if array.ndim == 2 else None
    units = number_units(index, groups, len(array))
    if units is None:
        raise ValueError(
            f"groups: expected one group for each member of a pair, shape ({len(array)}, 2), as "
            "pairs of samples do not tell which samples they share, got None"
        )
    if index is not None and groups is not None:
        _check_one_group_each(index, units)
    return number_distinct(units, "groups")[1]  # without the groups that no pair has


def _check_one_group_each(index: NDArray, units: NDArray[np.intp]) -> None:
    """Raise an error if a sample is in two groups: the sides of a split would share it."""
    samples = number_distinct(index, "pairs")[1].ravel()
    group = np.empty(int(samples.max()) + 1, dtype=np.intp)
    group[samples] = units.ravel()
    wrong = np.flatnonzero(group[samples] != units.ravel())
    if len(wrong):
        raise ValueError(
            f"groups: expected one group for each sample, got two for sample "
            f"{shown(index.ravel()[wrong[0]].item())}"
        )


def check_one_per_pair(name: str, values: Any, n_pairs: int) -> Any:
    """Return values of which there is one for each pair."""
    count = count_rows(values)
    if count != n_pairs:
        raise ValueError(f"{name}: expected one value for each of {n_pairs} pairs, got {count}")
    return values


def number_units(
    index: NDArray | None, groups: Any, n_pairs: int, n_samples: int | None = None
) -> NDArray[np.intp] | None:
    """Return the numbers of the groups of the members of pairs; without groups, of the samples.

    Parameters
    ----------
    index : array of shape (n_pairs, 2) or None
        The indicators of the samples; None if they are unknown.
    groups : array-like of shape (n_pairs, 2) or (n_samples,), or None
        One group for each member of a pair, or one for each sample of integer index pairs.
    n_pairs : int
        The number of pairs.
    n_samples : int, optional
        The number of samples, if it is known.
    """
    if groups is None:
        return None if index is None else number_distinct(index, "pairs")[1]
    groups = read_array(groups, "groups")
    if groups.shape == (n_pairs, 2):
        check_not_missing(groups.ravel(), "groups", "member")
        return number_distinct(groups, "groups")[1]
    expected = f"shape ({n_pairs}, 2), one group for each member of a pair"
    if index is not None and index.dtype.kind in "iu":
        least = int(index.max(initial=-1)) + 1 if n_samples is None else n_samples
        if len(groups.shape) == 1 and len(groups) >= least and n_samples in (None, len(groups)):
            check_not_missing(groups, "groups")
            return number_distinct(groups, "groups")[1][index]
        count = "n_samples" if n_samples is None else str(n_samples)
        expected = f"shape ({count},), one group for each sample, or {expected}"
    raise ValueError(f"groups: expected {expected}, got shape {groups.shape}")


def number_subgroups(by: Any, n_pairs: int) -> dict[Any, NDArray[np.intp]]:
    """Return the rows of the pairs of each subgroup, sorted by the name of the subgroup."""
    labels = read_array(by, "by")
    if labels.shape != (n_pairs,):
        raise ValueError(
            f"by: expected shape ({n_pairs},), one subgroup for each pair, got shape {labels.shape}"
        )
    check_not_missing(labels, "by", "pair")
    numbers = number_distinct(labels, "by")[1]
    names = labels[np.unique(numbers, return_index=True)[1]].tolist()
    return {name: np.flatnonzero(numbers == k) for k, name in enumerate(names)}
