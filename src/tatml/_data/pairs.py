"""`Pairs` of samples, similar or dissimilar, and `Comparisons`, their triplets and quadruplets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._array import foreign_kind, to_numpy
from .._messages import shown
from .._validation import LARGEST_MARGIN, check_count, check_positive, check_random
from .arrays import read_array

NAME = "comparisons: index"
LARGEST_WEIGHT = 1e100  # limit on the weights of estimators, so that sums of them are finite


@dataclass(frozen=True, eq=False)
class Pairs:
    """K index pairs into the samples, each similar or dissimilar.

    It holds indices, not features. Nothing is checked here: `as_pairs` converts and checks the
    arguments of a user.

    Parameters
    ----------
    index : ndarray of shape (K, 2), dtype intp
        The two samples of each pair. Stored column by column (Fortran order), so that each
        column is contiguous.
    similar : ndarray of shape (K,), dtype bool
        Whether the two samples of a pair are similar.
    weights : ndarray of shape (K,), dtype float64, or None
        The weight of each pair; None stands for 1 each.

    Examples
    --------
    >>> from tatml._data.pairs import as_pairs
    >>> pairs = as_pairs([[0, 1], [0, 2], [1, 2]], [True, False, False], n_samples=3)
    >>> len(pairs)
    3
    >>> pairs.first, pairs.second
    (array([0, 0, 1]), array([1, 2, 2]))
    >>> pairs.take([2, 0]).similar
    array([False,  True])
    """

    index: NDArray[np.intp]
    similar: NDArray[np.bool_]
    weights: NDArray[np.float64] | None = None

    links: ClassVar[None] = None  # each row of the problem is one pair

    def __len__(self) -> int:
        return self.index.shape[0]

    @property
    def first(self) -> NDArray[np.intp]:
        """The first sample of each pair, contiguous, of shape (K,)."""
        return np.ascontiguousarray(self.index[:, 0])

    @property
    def second(self) -> NDArray[np.intp]:
        """The second sample of each pair, contiguous, of shape (K,)."""
        return np.ascontiguousarray(self.index[:, 1])

    def take(self, indices: ArrayLike | slice) -> Pairs:
        """Select some of the pairs.

        Parameters
        ----------
        indices : array-like of int, mask of shape (K,), or slice
            Which pairs, in which order.

        Returns
        -------
        Pairs
            The selected pairs, with their weights.
        """
        rows = indices if isinstance(indices, slice) else np.asarray(indices)
        return Pairs(
            index=np.asfortranarray(self.index[rows]),
            similar=np.ascontiguousarray(self.similar[rows]),
            weights=None if self.weights is None else np.ascontiguousarray(self.weights[rows]),
        )


def as_pairs(
    pairs: ArrayLike,
    similar: ArrayLike,
    n_samples: int,
    weights: ArrayLike | None = None,
) -> Pairs:
    """Convert index pairs, labels and weights to Pairs, and check them.

    Parameters
    ----------
    pairs : array-like of int, shape (K, 2)
        The two samples of each pair, as indices from 0 to n_samples − 1.
    similar : array-like of bool, shape (K,)
        Whether the two samples of a pair are similar.
    n_samples : int
        The number of samples.
    weights : array-like of shape (K,), default=None
        The weight of each pair: finite, not negative, not all zero. None stands for 1 each.

    Returns
    -------
    Pairs
        At least one pair, none of a sample with itself.

    Raises
    ------
    TypeError
        If `pairs` are not integers, `similar` is not boolean or `weights` are not real numbers.
    ValueError
        If a shape is wrong, or a value is out of range.

    Examples
    --------
    >>> from tatml._data.pairs import as_pairs
    >>> pairs = as_pairs([[0, 1], [2, 0]], [True, False], n_samples=3, weights=[1, 0.5])
    >>> pairs.weights
    array([1. , 0.5])
    """
    index = as_index(pairs, n_samples)
    n_pairs = index.shape[0]
    return Pairs(
        index=index,
        similar=as_similar(similar, n_pairs),
        weights=None if weights is None else as_weights(weights, n_pairs),
    )


def as_index(
    pairs: ArrayLike, n_samples: int, *, allow_self: bool = False, offset: int = 0
) -> NDArray[np.intp]:
    """Convert to index pairs (K, 2) in Fortran order; messages count rows from `offset`."""
    index = _to_array(pairs, "pairs")
    if index.size == 0:
        raise ValueError(
            f"pairs: expected shape (K, 2) with K ≥ 1, got no pairs (shape {index.shape})"
        )
    if index.ndim != 2 or index.shape[1] != 2:
        raise ValueError(
            f"pairs: expected shape (K, 2), two sample indices per row, got shape {index.shape}"
        )
    _check_index(index, n_samples, "pairs", offset)
    if not allow_self and (same := index[:, 0] == index[:, 1]).any():
        row = np.flatnonzero(same)[0]
        raise ValueError(
            f"pairs: expected two different samples in each row, got {index[row, 0]} twice "
            f"in row {offset + row}"
        )
    return np.asfortranarray(index, dtype=np.intp)


def _check_index(index: np.ndarray, n_samples: int, name: str, offset: int) -> None:
    """Raise unless all indices are numbers of samples; `offset` is the number of the first row."""
    if index.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integer sample indices, got dtype {index.dtype}")
    outside = (index < 0) | (index >= n_samples)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"{name}: expected 0 ≤ index < n_samples = {n_samples}, got index "
            f"{index[row, column]} in row {offset + row}"
        )


def as_similar(similar: ArrayLike, n_pairs: int) -> NDArray[np.bool_]:
    """Convert to one boolean per pair."""
    flags = _to_array(similar, "similar")
    if flags.dtype.kind != "b":
        raise TypeError(
            f"similar: expected booleans, True for a similar pair, got dtype {flags.dtype}; "
            "from labels y of 0/1 or ±1 write similar = y > 0"
        )
    _check_one_per_pair(flags, n_pairs, "similar")
    return np.ascontiguousarray(flags)


def as_weights(
    weights: ArrayLike, n_pairs: int, name: str = "weights", *, of: str = "pair"
) -> NDArray[np.float64]:
    """Convert to one finite, non-negative weight per pair; raise if all are zero.

    `of` names what has a weight in messages.
    """
    values = as_some_weights(weights, n_pairs, name, of=of)
    if not values.any():
        raise ValueError(f"{name}: expected at least one positive weight, got zeros only")
    return values


def as_sample_weight(
    weights: ArrayLike, n_pairs: int, name: str = "sample_weight", *, of: str = "pair"
) -> NDArray[np.float64]:
    """Convert the weights of an estimator, whose sums and shares must be finite."""
    values = as_weights(weights, n_pairs, name, of=of)
    largest = float(values.max())
    if not 1 / LARGEST_WEIGHT <= largest <= LARGEST_WEIGHT:
        raise ValueError(
            f"{name}: expected the largest weight to be from {1 / LARGEST_WEIGHT:g} to "
            f"{LARGEST_WEIGHT:g}, got {largest:g}"
        )
    return values


def as_some_weights(
    weights: ArrayLike, n_pairs: int, name: str = "weights", offset: int = 0, *, of: str = "pair"
) -> NDArray[np.float64]:
    """Convert the weights of a part of the pairs, which may all be zero."""
    values = _to_array(weights, name)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{name}: expected real numbers, got dtype {values.dtype}")
    _check_one_per_pair(values, n_pairs, name, of)
    with np.errstate(over="ignore"):  # Overflow gives infinity, which is refused below.
        values = np.ascontiguousarray(values, dtype=np.float64)
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        row = np.flatnonzero(wrong)[0]
        raise ValueError(
            f"{name}: expected finite, non-negative numbers, got {values[row]} "
            f"in row {offset + row}"
        )
    return values


def _to_array(values: Any, name: str) -> np.ndarray:
    return read_array(values, name) if foreign_kind(values) is None else to_numpy(values)


def _check_one_per_pair(values: np.ndarray, n_pairs: int, name: str, of: str = "pair") -> None:
    if values.shape != (n_pairs,):
        raise ValueError(
            f"{name}: expected shape ({n_pairs},), one for each {of}, got shape {values.shape}"
        )


def pairs_from_chunks(
    chunks: ArrayLike, n_dissimilar: int | None = None, random_state: Any = None
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return pairs for `TATMLPairs` from chunks: small groups of samples that are alike.

    All pairs within a chunk are similar (+1). Samples of different chunks are taken to be
    dissimilar (−1), and pairs of them are drawn at random without repetition. If two of your chunks
    may be of the same class, these labels are wrong for some pairs; C then limits their influence.

    Parameters
    ----------
    chunks : array-like of int of shape (n_samples,)
        The number of the chunk of each sample; −1 for samples in no chunk, as in metric-learn's
        RCA.
    n_dissimilar : int, optional
        How many dissimilar pairs to draw. Default: as many as there are similar pairs. If there
        are fewer, all of them.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw.

    Returns
    -------
    pairs : int array of shape (n_pairs, 2)
        Sample numbers; give the samples to `TATMLPairs` as preprocessor.
    y : int array of shape (n_pairs,)
        +1 for the pairs within a chunk, −1 for the others.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import TATMLPairs, pairs_from_chunks
    >>> pairs, y = pairs_from_chunks([0, 0, 1, 1, 1, -1], random_state=0)
    >>> pairs[y == 1].tolist()
    [[0, 1], [2, 3], [2, 4], [3, 4]]
    >>> int((y == -1).sum())
    4
    >>> X = np.array([[0.0, 1], [0.1, 5], [2, 2], [2.1, 6], [1.9, 3], [5, 5]])
    >>> TATMLPairs(preprocessor=X).fit(pairs, y).predict([[0, 1], [0, 3]])
    array([ 1, -1])
    """
    values = read_array(chunks, "chunks")
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(
            f"chunks: expected integers of shape (n_samples,), −1 for samples in no chunk, got "
            f"dtype {values.dtype} of shape {values.shape}"
        )
    if values.dtype.kind == "i" and np.any(values < -1):
        raise ValueError(f"chunks: expected numbers of at least −1, got {values.min()}")
    members = np.flatnonzero(values != -1)
    first, second = np.triu_indices(len(members), 1)
    first, second = members[first], members[second]
    alike = values[first] == values[second]
    if not alike.any() or alike.all():
        raise ValueError(
            f"chunks: expected at least two chunks, one of them of two samples or more, got "
            f"{len(np.unique(values[members]))} chunks of {len(members)} samples"
        )
    wanted = int(alike.sum()) if n_dissimilar is None else check_count("n_dissimilar", n_dissimilar)
    others = np.flatnonzero(~alike)
    rng = check_random(random_state)
    drawn = others[np.sort(rng.permutation(len(others))[:wanted])]
    chosen = np.concatenate([np.flatnonzero(alike), drawn])
    pairs = np.stack([first[chosen], second[chosen]], axis=1)
    return pairs, np.where(alike[chosen], 1, -1)


# ---- Comparisons, and the pairs that they consist of ----


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


def as_comparisons(
    comparisons: Comparisons, n_samples: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the quadruplets (a, b, c, d), of shape (K, 4), and the weight of each comparison.

    The weight is 0 where both pairs are the same. If no weight is left, an error is raised.
    """
    index = as_quadruplets(comparisons.index, n_samples)
    weights = weights_of(comparisons.weights, index)
    if not weights.any():
        raise ValueError(
            "comparisons: expected a row of positive weight whose two pairs differ, got none"
        )
    return index, weights


def as_quadruplets(index: ArrayLike, n_samples: int, *, offset: int = 0) -> NDArray[np.intp]:
    """Convert triplets or quadruplets to shape (K, 4); messages count rows from `offset`."""
    rows = _to_array(index, NAME)
    if rows.ndim != 2 or rows.shape[1] not in (3, 4) or len(rows) == 0:
        raise ValueError(f"{NAME}: expected shape (K, 3) or (K, 4) with K ≥ 1, got {rows.shape}")
    _check_index(rows, n_samples, NAME, offset)
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
