"""All pairs of labelled samples, without a list of them: tiles of samples I × samples J.

With s the matrix of the multipliers of a tile, the sum of s_ij (x_i − x_j)(x_i − x_j)ᵀ is
X_Iᵀ diag(s 1) X_I + X_Jᵀ diag(sᵀ 1) X_J − X_Iᵀ s X_J − (X_Iᵀ s X_J)ᵀ, a product with the Laplacian
of the graph s, and distances are computed from inner products. Both cost |I| |J| n n' instead of
|I| |J| n² n'. All other sums over a tile are computed as for any pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._array import Array, symmetrised
from .._data.arrays import read_array
from .._data.pairs import as_weights
from .._optim.layout import centred, flat, multiply_rows
from .._optim.pair_graph import PairGraph
from .._optim.pair_sums import PairSums
from .base import Piece
from .memory import samples_per_tile

TINY = 1e-5  # Distances below this share of the squared norms are computed from differences.


class TileSums(PairSums):
    """Sums over the pairs of the samples I with the samples J, or of I with each other (i < j).

    Parameters
    ----------
    features : sequence of M arrays of shape (n_rows, n'_m, n_m)
        The transposed samples of I, then those of J; those of I alone for a tile on the diagonal.
    n_first : int
        The number of samples in I.
    """

    whole_is_cheap = True
    by_samples = False  # all sums over a whole tile are written below
    factors = None  # `transformed` applies them at once, because a tile has few samples

    def __init__(self, features: Sequence[Array], n_first: int):
        self.features, self.n_first = tuple(features), n_first

    @property
    def _on_diagonal(self) -> bool:
        return self.features[0].shape[0] == self.n_first

    @property
    def _shape(self) -> tuple[int, int]:
        n_rows = self.features[0].shape[0]
        return self.n_first, n_rows if self._on_diagonal else n_rows - self.n_first

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The row and the column of each pair in the matrix of the tile."""
        if self._on_diagonal:
            return np.triu_indices(self.n_first, 1)
        rows, columns = np.indices(self._shape)
        return rows.ravel(), columns.ravel()

    @cached_property
    def graph(self) -> PairGraph:  # type: ignore[override]
        """The pairs as edges between the rows of the features."""
        first, second = self._places
        second = second if self._on_diagonal else second + self.n_first
        return PairGraph(first, second, self.features[0].shape[0])

    @property
    def n_pairs(self) -> int:
        """K."""
        n, m = self._shape
        return n * (n - 1) // 2 if self._on_diagonal else n * m

    def transformed(self, factors: Sequence[Array]) -> TileSums:
        """Return the sums over the pairs of the features GᵀΦ."""
        return TileSums(multiply_rows(self.features, factors), self.n_first)

    def for_certificate(self) -> TileSums:
        """Return the tile itself, which is in float64 and knows its own accuracy."""
        return self

    def reach(self, distances: Array) -> Array:
        """Return the magnitude of the numbers that each distance is computed from.

        These are the norms of both samples, or their difference if the distance is tiny.
        """
        squares = sum(np.einsum("kij,kij->k", block, block) for block in self.features)
        norms = np.sqrt(squares / self.n_blocks)
        size, near = norms[self.first] + norms[self.second], self._distances_and_near[1]
        size[near] = np.sqrt(distances[near])
        return size

    def distances(self) -> Array:
        """Return D_k, shape (n_pairs,)."""
        return self._distances_and_near[0]

    @cached_property
    def _distances_and_near(self) -> tuple[Array, NDArray[np.intp]]:
        """D, and the near pairs, for which a difference of inner products would cancel."""
        squares = [np.einsum("kij,kij->k", block, block) for block in self.features]
        total, norms = self._inner_form(self.features, squares)
        near = np.flatnonzero(total <= TINY * norms)
        if len(near):
            total[near] = self.take(near).distances()
        return total, near

    def quadratic(self, V: Sequence[Array]) -> Array:
        """Return ⟨A_k, V⟩ for symmetric V, shape (n_pairs,)."""
        images = multiply_rows(self.features, V)
        squares = [
            np.einsum("kij,kij->k", a, b) for a, b in zip(self.features, images, strict=True)
        ]
        total, near = self._inner_form(images, squares)[0], self._distances_and_near[1]
        if len(near):
            total[near] = self.take(near).quadratic(V)
        return total

    def _inner_form(self, images: Sequence[Array], squares: Sequence[Array]) -> tuple:
        """Return (1/M) Σ (x_i V x_i + x_j V x_j − 2 x_i V x_j), and the first two terms alone."""
        total = norms = 0.0
        for block, image, square in zip(self.features, images, squares, strict=True):
            A, _ = self._two(block.reshape(len(block), -1))
            _, B = self._two(image.reshape(len(image), -1))
            a, b = self._two(square)
            outer = a[:, None] + b
            total = total + (outer - 2 * (A @ B.T))
            norms = norms + outer
        return self._vector(total) / self.n_blocks, self._vector(norms) / self.n_blocks

    def scatter(self, s: Array) -> list[Array]:
        """Return S_m = (1/M) Σ_k s_k A_{m,k}, one array (n_m, n_m) per block."""
        near = self._distances_and_near[1]
        near = near[s[near] != 0]
        if not len(near):
            return self._laplacian(s)
        others = s.copy()
        others[near] = 0.0
        direct = self.take(near).scatter(s[near])
        return [a + b for a, b in zip(self._laplacian(others), direct, strict=True)]

    def _laplacian(self, s: Array) -> list[Array]:
        """Return S_m by inner products, which are accurate for pairs that are not near."""
        matrix = self._matrix(s)
        rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
        total = []
        for block in self.features:
            A, B = self._two(block)
            carried = (matrix @ B.reshape(len(B), -1)).reshape(A.shape)
            cross = flat(A).T @ flat(carried)
            own = flat(A).T @ flat(rows[:, None, None] * A)
            own += flat(B).T @ flat(columns[:, None, None] * B)
            total.append(symmetrised(own - cross - cross.T) / self.n_blocks)
        return total

    def product(self, V: Sequence[Array], weights: Array, shift: Array) -> tuple:
        """Return q_k = w_k (⟨A_k, V⟩ + shift_k), and S for these q."""
        q = weights * (self.quadratic(V) + shift)
        return q, self.scatter(q)

    def distances_and_scatter(
        self, slope: Callable[[slice, Array], Array]
    ) -> tuple[Array, list[Array]]:
        """Return D, and S for the s that `slope(pairs, D of the pairs)` returns."""
        distances = self.distances()
        return distances, self.scatter(slope(slice(0, self.n_pairs), distances))

    def _two(self, rows: Array) -> tuple[Array, Array]:
        """Return the rows of I and those of J."""
        return (rows, rows) if self._on_diagonal else (rows[: self.n_first], rows[self.n_first :])

    def _vector(self, matrix: Array) -> Array:
        """Return one number per pair from a matrix of the tile."""
        return matrix[self._places] if self._on_diagonal else matrix.reshape(-1)

    def _matrix(self, values: Array) -> Array:
        """Return a matrix of the tile from one number per pair."""
        if not self._on_diagonal:
            return values.reshape(self._shape)
        matrix = np.zeros(self._shape)
        matrix[self._places] = values
        return matrix


@dataclass(frozen=True, eq=False)
class AllPairs:
    """All pairs of labelled samples: similar where the labels agree.

    Give it to `learn_metric` as `pairs`, with ``similar=None``. The ℓ(ℓ − 1)/2 pairs are never
    listed: memory does not grow with their number, and they cost less than a list of as many pairs.
    The sums are computed on the host or on a dask cluster: X has to be in the memory of the host
    or on disk.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        The classes.
    groups : array-like of shape (n_samples,), optional
        Pairs of two samples of the same group are left out.
    weights : (float, float), default=(1.0, 1.0)
        How much a similar and a dissimilar pair count.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tatml import AllPairs, learn_metric
    >>> X, y = load_iris(return_X_y=True)
    >>> result = learn_metric(X, AllPairs(y), C=1e-3)
    >>> result.converged
    True
    """

    labels: ArrayLike
    groups: ArrayLike | None = None
    weights: tuple[float, float] = (1.0, 1.0)

    def shards(self, n_samples: int, numbers: int, memory: int, extra: int) -> list[TileShard]:
        """Return tiles that cover all pairs, each of which fits into the memory without `extra`."""
        labels = _codes(self.labels, n_samples, "AllPairs: labels")
        groups = None
        if self.groups is not None:
            groups = _codes(self.groups, n_samples, "AllPairs: groups")
            if not groups.any():
                raise ValueError("AllPairs: groups: expected at least two groups, got one")
        similar, dissimilar = as_weights(self.weights, 2, "AllPairs: weights").tolist()
        side = samples_per_tile(numbers, memory, extra)
        parts = [slice(i, min(i + side, n_samples)) for i in range(0, n_samples, side)]
        return [
            TileShard(
                I,
                J,
                (labels[I], labels[J]),
                None if groups is None else (groups[I], groups[J]),
                (similar, dissimilar),
            )
            for i, I in enumerate(parts)
            for J in parts[i:]
            if I != J or I.stop - I.start > 1
        ]


def _codes(values: ArrayLike, n_samples: int, name: str) -> NDArray[np.intp]:
    """Return labels as integers from 0 on."""
    values = read_array(values, name)
    if values.shape != (n_samples,):
        raise ValueError(f"{name}: expected shape ({n_samples},), got shape {values.shape}")
    if n_samples < 2:
        raise ValueError(f"{name}: expected at least two samples, got {n_samples}")
    try:
        different = np.any(values != values)  # true for NaN of any type
        codes = np.unique(values, return_inverse=True)[1]
    except TypeError as error:
        raise TypeError(f"{name}: expected values of one kind, got a mixture") from error
    if different:
        raise ValueError(f"{name}: expected no missing values, got NaN")
    return codes


@dataclass(frozen=True, eq=False)
class TileShard:
    """The pairs of the samples I with the samples J, with the labels and groups of both."""

    I: slice
    J: slice
    labels: tuple[NDArray, NDArray]
    groups: tuple[NDArray, NDArray] | None
    weights: tuple[float, float]

    def load(self, shared: Any) -> Piece:
        """Read the samples, and compare their labels."""
        features = shared.runs(self.I) if self.I == self.J else shared.runs(self.I, self.J)
        # Inner products of samples centred around the mean of the tile cancel less.
        features = [centred(block) for block in features]
        sums = TileSums(features, self.I.stop - self.I.start)
        similar = self._compare(sums, self.labels)
        weights = None
        if self.weights != (1.0, 1.0) or self.groups is not None:
            weights = np.where(similar, *self.weights)
            if self.groups is not None:
                weights[self._compare(sums, self.groups)] = 0.0
        return Piece(sums, similar, weights)

    @staticmethod
    def _compare(sums: TileSums, values: tuple[NDArray, NDArray]) -> NDArray[np.bool_]:
        """Return whether the two values of each pair are equal."""
        return sums._vector(values[0][:, None] == values[1])
