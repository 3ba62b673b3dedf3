"""`Comparisons`: triplets and quadruplets of samples, and the pairs that they consist of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._messages import shown
from .._validation import LARGEST_MARGIN, check_positive
from .pairs import _to_array, as_some_weights, check_in_range

NAME = "comparisons: index"


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of distances: "a is more like b than c is like d".

    Give them to `learn_metric` as `comparisons`, alone or together with pairs. Each adds the loss
    (C/2) w [margin − (D_cd − D_ab)]_+² to the objective: D_cd should exceed D_ab, both squared, by
    the margin (docs/theory.md, (Cmp)).

    Parameters
    ----------
    index : array-like of int of shape (n_comparisons, 3) or (n_comparisons, 4)
        Indices into the samples. A quadruplet (a, b, c, d) says that a and b are more alike than c
        and d; a triplet (a, b, c) stands for (a, b, a, c): a is more like b than like c. Rows
        whose two pairs are the same are ignored. It may also be an array on disk, or a dask array.
    weights : array-like of shape (n_comparisons,), optional
        w_t ≥ 0, the weight of each comparison.
    margin : float, default=1.0
        By how much the second squared distance should exceed the first. The problem with (margin,
        C, prior W0) is that with (1, C · margin², W0/margin): only for a prior that is scaled to
        the data, the margin is a parameter of its own.
    C : float, default=1.0
        The weight of the comparisons.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import Comparisons, learn_metric
    >>> X = np.array([[0.0, 0.0], [0.1, 3.0], [2.0, 0.1], [2.1, 3.1]])
    >>> triplets = [[0, 1, 2], [1, 0, 3], [2, 3, 0], [3, 2, 1]]  # by the first feature
    >>> result = learn_metric(X, comparisons=Comparisons(triplets))
    >>> result.converged, result.b0
    (True, None)
    >>> bool(result.W[0][0, 0] > 2 * result.W[0][1, 1])
    True
    """

    index: ArrayLike
    weights: ArrayLike | None = None
    margin: float = 1.0
    C: float = 1.0

    def __post_init__(self) -> None:
        check_positive("Comparisons: C", self.C)
        check_comparison_margin("Comparisons: margin", self.margin)


@dataclass(frozen=True, eq=False)
class Compared:
    """Checked comparisons.

    Parameters
    ----------
    index : ndarray of shape (K, 4), dtype intp
        a, b, c, d: the pair (a, b) should be closer than the pair (c, d).
    weights : ndarray of shape (K,), dtype float64
        The weight of each comparison; 0 where its two pairs are the same.
    margin, C : float
        The parameters of the loss.
    """

    index: NDArray[np.intp]
    weights: NDArray[np.float64]
    margin: float
    C: float

    def __len__(self) -> int:
        return self.index.shape[0]


@dataclass(frozen=True, eq=False)
class LinkedPairs:
    """Distinct pairs, and which two of them each row of a problem compares.

    Parameters
    ----------
    first, second : ndarray of shape (P,), dtype intp
        The two samples of each distinct pair.
    links : (ndarray, ndarray), each of shape (K,), dtype intp
        The two pairs of each row, whose number is the distance of the first minus the second.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    links: tuple[NDArray[np.intp], NDArray[np.intp]]

    def __len__(self) -> int:
        return len(self.first)


def check_comparison_margin(name: str, value: Any) -> float:
    """Return the margin of comparisons, a positive number whose square a float can hold."""
    margin = check_positive(name, value)
    if not 1 / LARGEST_MARGIN <= margin <= LARGEST_MARGIN:
        raise ValueError(
            f"{name}: expected a number from {1 / LARGEST_MARGIN:g} to {LARGEST_MARGIN:g}, got "
            f"{shown(value)}"
        )
    return margin


def check_comparisons(value: Any) -> None:
    """Raise unless the value is None or `Comparisons`."""
    if value is not None and not isinstance(value, Comparisons):
        raise TypeError(f"comparisons: expected Comparisons(…) or None, got {shown(value)}")


def as_comparisons(comparisons: Comparisons, n_samples: int) -> Compared:
    """Check the arrays of comparisons; raise if no comparison has two pairs and a weight."""
    index = as_quadruplets(comparisons.index, n_samples)
    weights = weights_of(comparisons.weights, index)
    if not weights.any():
        raise ValueError(
            "comparisons: expected a row of positive weight whose two pairs differ, got none"
        )
    return Compared(index, weights, float(comparisons.margin), float(comparisons.C))


def as_quadruplets(index: ArrayLike, n_samples: int, *, offset: int = 0) -> NDArray[np.intp]:
    """Convert triplets or quadruplets to shape (K, 4); messages count rows from `offset`."""
    rows = _to_array(index, NAME)
    if rows.ndim != 2 or rows.shape[1] not in (3, 4) or len(rows) == 0:
        raise ValueError(f"{NAME}: expected shape (K, 3) or (K, 4) with K ≥ 1, got {rows.shape}")
    if rows.dtype.kind not in "iu":
        raise TypeError(f"{NAME}: expected integer sample indices, got dtype {rows.dtype}")
    check_in_range(rows, n_samples, NAME, offset)
    columns = [0, 1, 0, 2] if rows.shape[1] == 3 else [0, 1, 2, 3]
    return rows[:, columns].astype(np.intp)


def weights_of(
    weights: ArrayLike | None, index: NDArray[np.intp], offset: int = 0
) -> NDArray[np.float64]:
    """Return one weight per comparison, 0 where both pairs are the same, in any order."""
    if weights is None:
        values = np.ones(len(index))
    else:
        values = as_some_weights(weights, len(index), "comparisons: weights", offset).copy()
    near, far = np.sort(index[:, :2], axis=1), np.sort(index[:, 2:], axis=1)
    loops = (near[:, 0] == near[:, 1]) & (far[:, 0] == far[:, 1])  # both distances are 0
    values[np.all(near == far, axis=1) | loops] = 0.0
    return values


def link_pairs(pairs: NDArray[np.intp] | None, compared: NDArray[np.intp] | None) -> LinkedPairs:
    """Merge equal pairs, and return the two pairs of each row.

    Parameters
    ----------
    pairs : ndarray of shape (K1, 2) or None
        Pairs, each of which makes one row: its distance minus 0.
    compared : ndarray of shape (K2, 4) or None
        Comparisons, each of which makes one row: D_cd − D_ab.

    Returns
    -------
    LinkedPairs
        The K1 rows of the pairs, then the K2 rows of the comparisons.
    """
    plus, minus = [], []
    if pairs is not None:
        plus.append(pairs)
        minus.append(np.zeros_like(pairs))
    if compared is not None:
        plus.append(compared[:, 2:])
        minus.append(compared[:, :2])
    sides = np.sort(np.concatenate(plus + minus), axis=1).astype(np.int64)
    loops = sides[:, 0] == sides[:, 1]
    sides[loops] = sides[0, 0]  # All pairs of a sample with itself have distance 0: merge them.
    keys, place = np.unique(sides[:, 0] * (sides.max() + 1) + sides[:, 1], return_inverse=True)
    first, second = np.divmod(keys, sides.max() + 1)
    n_rows = len(sides) // 2
    return LinkedPairs(
        first.astype(np.intp), second.astype(np.intp), (place[:n_rows], place[n_rows:])
    )
