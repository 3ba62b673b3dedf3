"""All pairs of labelled samples, without a list of them: tiles of samples I × samples J.

With s the matrix of the multipliers of a tile, the sum of s_ij (x_i − x_j)(x_i − x_j)ᵀ is
X_Iᵀ diag(s 1) X_I + X_Jᵀ diag(sᵀ 1) X_J − X_Iᵀ s X_J − (X_Iᵀ s X_J)ᵀ, a product with the Laplacian
of the graph s; for the sums x_i + x_j, the last two terms are added. Distances are computed from
inner products. Both cost |I| |J| n n' instead of |I| |J| n² n'. All other sums over a tile are
computed as for any pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._array import Array, symmetrised
from .._data.arrays import read_array
from .._data.pairs import as_weights
from .._optim.layout import Evaluation, Features, Limits, centred, flat, multiply_rows
from .._optim.sums import PairGraph, PairSums
from .base import Piece, Shard
from .samples import SharedSamples, samples_per_tile

TINY = 1e-5  # Distances below this share of the squared norms are computed from differences.
TILE_LIMITS = Limits(eager_bytes=2**62, svec_bytes=0)  # A tile has few samples, and keeps no rows.


class TileForm:
    """Sums over a whole tile by products over its samples, except for near pairs.

    Near pairs are those for which a difference of inner products would cancel.

    Parameters
    ----------
    n_first : int
        The number of samples in I.
    sums : PairSums
        The sums of the tile (see `tile_sums`).
    """

    whole_is_cheap = is_accurate = True

    def __init__(self, n_first: int, sums: PairSums):
        self.features, self.n_first = sums.features, n_first
        self.graph = tile_graph(n_first, sums.features.n_rows)

    @cached_property
    def _squares(self) -> list[Array]:
        """‖z_i‖² of each sample, per block."""
        return [np.einsum("kij,kij->k", block, block) for block in self.features.blocks]

    @cached_property
    def _distances_and_near(self) -> tuple[Array, Array, NDArray[np.intp]]:
        """D, its unsigned sum, and the near pairs."""
        total, unsigned, norms = self._inner_form(self.features.blocks, self._squares)
        near = np.flatnonzero(unsigned <= TINY * norms)
        if len(near):
            direct = self._differences(near)
            total[near], unsigned[near] = direct.distances(), direct.unsigned()
        return total, unsigned, near

    def _differences(self, pairs: NDArray[np.intp]) -> PairSums:
        """Return the sums over some of the pairs, in the way of any pairs."""
        return PairSums(self.features, self.graph.take(pairs))

    def distances(self) -> Array:
        """Return D_k, shape (n_pairs,)."""
        return self._distances_and_near[0]

    def quadratic(self, V: Sequence[Array], expand: bool = False) -> Array:
        """Return ⟨A_k, V⟩ for symmetric V, shape (n_pairs,); squares are always expanded."""
        blocks = self.features.blocks
        images = multiply_rows(blocks, V)
        squares = [np.einsum("kij,kij->k", a, b) for a, b in zip(blocks, images, strict=True)]
        total, near = self._inner_form(images, squares)[0], self._distances_and_near[2]
        if len(near):
            total[near] = self._differences(near).quadratic(V)
        return total

    def _inner_form(self, images: Sequence[Array], squares: Sequence[Array]) -> list[Array]:
        """Return (1/M) Σ σ (x_i V x_i + x_j V x_j − 2σ x_i V x_j), and other sums of the terms.

        These are that without the factor σ, and that of the first two terms alone.
        """
        features, total, unsigned, norms = self.features, 0.0, 0.0, 0.0
        blocks = zip(features.blocks, images, squares, features.signs, strict=True)
        for block, image, square, sign in blocks:
            A, _ = self._two(block.reshape(len(block), -1))
            _, B = self._two(image.reshape(len(image), -1))
            a, b = self._two(square)
            outer = a[:, None] + b
            product = outer - 2 * sign * (A @ B.T)
            unsigned, norms = unsigned + product, norms + outer
            total = total + sign * product if features.has_sums else unsigned
        return [self.vector(part) / features.n_blocks for part in (total, unsigned, norms)]

    def scatter(self, s: Array) -> list[Array]:
        """Return S_m = (1/M) Σ_k s_k A_{m,k}, one array (n_m, n_m) per block."""
        near = self._distances_and_near[2]
        near = near[s[near] != 0]
        if not len(near):
            return self._laplacian(s)
        others = s.copy()
        others[near] = 0.0
        direct = self._differences(near).scatter(s[near])
        return [a + b for a, b in zip(self._laplacian(others), direct, strict=True)]

    def _laplacian(self, s: Array) -> list[Array]:
        """Return S_m by inner products, which are accurate for pairs that are not near."""
        matrix = self._matrix(s)
        rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
        total = []
        for block, sign in zip(self.features.blocks, self.features.signs, strict=True):
            A, B = self._two(block)
            carried = (matrix @ B.reshape(len(B), -1)).reshape(A.shape)
            cross = flat(A).T @ flat(carried)
            own = flat(A).T @ flat(rows[:, None, None] * A)
            own += flat(B).T @ flat(columns[:, None, None] * B)
            total.append(symmetrised(sign * own - cross - cross.T) / self.features.n_blocks)
        return total

    def evaluate(self, slope: Callable[[slice, Array], Array]) -> Evaluation:
        """Return D, and S for the s that `slope(pairs, D of the pairs)` returns."""
        distances = self.distances()
        s = slope(slice(0, len(distances)), distances)
        return Evaluation(distances, s, self.scatter(s), self._reach)

    def _reach(self) -> Array:
        """Return the magnitude of the numbers that each distance is computed from.

        These are the norms of both samples, or their difference if the distance is tiny.
        """
        _, unsigned, near = self._distances_and_near
        size = self.graph.summed(np.sqrt(sum(self._squares) / self.features.n_blocks))
        size[near] = np.sqrt(unsigned[near])
        return size

    @property
    def _on_diagonal(self) -> bool:
        return self.features.n_rows == self.n_first

    def _two(self, rows: Array) -> tuple[Array, Array]:
        """Return the rows of I and those of J."""
        return (rows, rows) if self._on_diagonal else (rows[: self.n_first], rows[self.n_first :])

    def vector(self, matrix: Array) -> Array:
        """Return one number per pair from a matrix of the tile."""
        return (
            matrix[self.graph.first, self.graph.second] if self._on_diagonal else matrix.reshape(-1)
        )

    def _matrix(self, values: Array) -> Array:
        """Return a matrix of the tile from one number per pair."""
        if not self._on_diagonal:
            return values.reshape(self.n_first, -1)
        matrix = np.zeros((self.n_first, self.n_first))
        matrix[self.graph.first, self.graph.second] = values
        return matrix


@lru_cache(maxsize=2)  # most tiles have one of two shapes
def tile_graph(n_first: int, n_rows: int) -> PairGraph:
    """Return the pairs of the samples I with the samples J, or of I with each other (i < j)."""
    form = partial(TileForm, n_first)
    if n_first == n_rows:
        return PairGraph(*np.triu_indices(n_first, 1), n_rows, form)
    first, second = np.indices((n_first, n_rows - n_first))
    return PairGraph(first.ravel(), second.ravel() + n_first, n_rows, form)


def tile_sums(
    blocks: Sequence[Array], n_first: int, signs: Sequence[int] | None = None
) -> PairSums:
    """Return the sums over the pairs of a tile.

    Parameters
    ----------
    blocks : sequence of M arrays of shape (n_rows, n'_m, n_m)
        The transposed samples of I, then those of J; those of I alone for a tile on the diagonal.
    n_first : int
        The number of samples in I.
    signs : sequence of M numbers 1 or −1, or None
        See `Features`.
    """
    features = Features(blocks, limits=TILE_LIMITS, signs=signs)
    return PairSums(features, tile_graph(n_first, len(blocks[0])))


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
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples: a pair counts the product of both, times that of its kind.

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
    sample_weight: ArrayLike | None = None

    def shards(self, n_samples: int, numbers: int, memory: int, extra: int) -> list[Shard]:
        """Return tiles that cover all pairs, each of which fits into the memory.

        `extra` are bytes that are needed besides, for the message where the memory is too small.
        """
        labels = _codes(self.labels, n_samples, "AllPairs: labels")
        groups = None
        if self.groups is not None:
            groups = _codes(self.groups, n_samples, "AllPairs: groups")
            if not groups.any():
                raise ValueError("AllPairs: groups: expected at least two groups, got one")
        weights = tuple(as_weights(self.weights, 2, "AllPairs: weights").tolist())
        of_samples = None
        if self.sample_weight is not None:
            name = "AllPairs: sample_weight"
            of_samples = as_weights(self.sample_weight, n_samples, name, of="sample")
        side = samples_per_tile(numbers, memory, extra)
        parts = [slice(i, min(i + side, n_samples)) for i in range(0, n_samples, side)]
        tiles = [
            (I, J) for i, I in enumerate(parts) for J in parts[i:] if I != J or I.stop - I.start > 1
        ]
        return [
            Shard(
                (tile, *(_parts(of, tile) for of in (labels, groups, of_samples)), weights),
                tile_piece,
            )
            for tile in tiles
        ]


def _parts(codes: NDArray | None, tile: tuple[slice, slice]) -> tuple | None:
    """Return the codes or weights of the samples I and of the samples J."""
    return None if codes is None else (codes[tile[0]], codes[tile[1]])


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


def tile_piece(values: tuple, shared: SharedSamples) -> Piece:
    """Read the samples of a tile, and compare their labels and groups."""
    (I, J), labels, groups, of_samples, of_kind = values
    features = shared.runs(I) if I == J else shared.runs(I, J)
    # Inner products of samples centred around the mean of the tile cancel less.
    blocks = zip(features, shared.signs, strict=True)
    features = [centred(block) if sign > 0 else block for block, sign in blocks]
    sums = tile_sums(features, I.stop - I.start, shared.signs)
    vector = sums.form.vector
    similar = vector(labels[0][:, None] == labels[1])
    weights: Any = None
    if of_kind != (1.0, 1.0) or groups is not None or of_samples is not None:
        weights = np.where(similar, *of_kind)
        if of_samples is not None:
            weights *= vector(of_samples[0][:, None] * of_samples[1])
        if groups is not None:
            weights[vector(groups[0][:, None] == groups[1])] = 0.0
    return Piece(sums, similar, weights)
