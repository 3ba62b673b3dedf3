"""Sums over pairs at the cost of samples: the pairs are the edges of a graph of the samples.

With Z the features of the samples, one row per sample, and Y = Z V,

    ⟨A_k, V⟩ = ⟨z_i − z_j, y_i − y_j⟩   and   Σ_k s_k A_k = Zᵀ L_s Z,

with L_s the Laplacian of the graph whose edges have the weights s (docs/theory.md, (Lap)). For the
sums z_i + z_j of a pair it is the signless Laplacian, in which the weights have the same sign. Both
need one matrix product over the samples instead of one over the pairs; the rest is reading rows.
These sums take fewer operations where there are many pairs per sample. They cancel where samples
are far from the origin compared with the distances of the pairs; there, differences are used.

The σ of a block, its entry in `Features.signs`, is 1 where a pair is the difference of its two
samples, and −1 where it is their sum: z_i − σ z_j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._array import Array, namespace, on_gpu, put_at, sum_at, zeros
from .._csr import products_at, sparse_product
from .layout import (
    Evaluation,
    Features,
    flat,
    joined,
    multiply_rows,
    row_products,
    saved_by_samples,
    slices,
)

if TYPE_CHECKING:
    from .sums import PairSums

SAMPLE_CHUNKS = 16  # a chunk of samples is so many times as large as one of differences
SMALLEST_CHUNK = 16  # least number of pairs in a chunk, even if they exceed its size in bytes
DENSE_SHARE = 0.7  # if a smaller share of the s_k is nonzero, a scatter selects these pairs first
# How many times the squared norms of the samples may exceed the squared distances, on average, for
# sums over samples: these lose as many digits.
LARGEST_NORMS = 1e3
LARGEST_NORMS_IN_SINGLE = 10.0  # for sums in float32 whose errors nothing corrects
LOOKED_AT = 4096  # number of pairs from which that ratio is estimated
# Multiplications that sums over samples have to save, on a CPU (False) and on a GPU (True); see
# benchmarks/pair_forms.py.
OVERHEAD = {False: 3e6, True: 6e9}


def form_of(sums: PairSums) -> SampleForm | None:
    """Return the sums as products over the samples; None where differences cost less."""
    if sums.graph is None or sums.features.factors is not None:
        return None
    by_samples = sums.features.limits.by_samples
    if by_samples is None:
        saved = saved_by_samples(sums.features.shapes, sums.n_pairs, sums.features.n_rows)
        by_samples = saved > OVERHEAD[on_gpu(sums.features.like)]
    return SampleForm(sums.over_differences(), sums.graph) if by_samples else None


class PairGraph:
    """Pairs as the edges of a graph, sorted by their first sample when they are first used.

    Parameters
    ----------
    first, second : integer arrays of shape (n_pairs,)
        Rows of the two samples of each pair.
    n_samples : int
        The number of samples.
    form : callable
        Returns how the sums over the pairs are computed; None: from their differences.
    """

    def __init__(
        self,
        first: Array,
        second: Array,
        n_samples: int,
        form: Callable[[PairSums], Any] = form_of,
    ):
        self.first, self.second, self.n_samples, self.form = first, second, n_samples, form

    @cached_property
    def order(self) -> Array:
        """The pairs, sorted by their first sample."""
        return namespace(self.first).argsort(self.first)

    def take(self, pairs: Array) -> PairGraph:
        """Return the graph of the pairs with these indices."""
        take = namespace(pairs).take
        rows = take(self.first, pairs, axis=0), take(self.second, pairs, axis=0)
        return PairGraph(*rows, self.n_samples)

    @cached_property
    def _sorted(self) -> tuple[Array, Array]:
        """Rows of the two samples of each sorted pair."""
        take = namespace(self.order).take
        return take(self.first, self.order, axis=0), take(self.second, self.order, axis=0)

    @cached_property
    def _starts(self) -> Array:
        """Where the pairs of each sample begin among the sorted ones, shape (n_samples + 1,)."""
        first, xp = self._sorted[0], namespace(self.order)
        samples = xp.arange(self.n_samples + 1, dtype=first.dtype, device=first.device)
        return xp.searchsorted(first, samples)

    def sort(self, values: Array) -> Array:
        """Return one value per pair in the order of the sorted pairs."""
        return namespace(values).take(values, self.order, axis=0)

    def unsort(self, values: Array) -> Array:
        """Return one value per sorted pair in the order of the pairs."""
        return put_at(self.order, values)

    def summed(self, values: Array) -> Array:
        """Return the sum of the values of the two samples of each pair."""
        take = namespace(values).take
        return take(values, self.first, axis=0) + take(values, self.second, axis=0)

    def rows(self, blocks: Sequence[Array], signs: Sequence[int], part: slice) -> list[Array]:
        """Return z_i − σ z_j of the pairs in `part`: per block, shape (n_part, n', n)."""
        return _combinations(blocks, signs, self.first[part], self.second[part])

    def inner_products(self, Z: Features, Y: Sequence[Array]) -> Array:
        """Compute (1/M) Σ_m σ ⟨z_i − σ z_j, y_i − σ y_j⟩ of the sorted pairs, in chunks."""
        first, second = self._sorted
        step = max(SMALLEST_CHUNK, Z.room // (8 * Z.numbers_per_row))
        parts = []
        for part in slices(first.shape[0], step):
            some = first[part], second[part]
            sides = (_combinations(side, Z.signs, *some) for side in (Z.blocks, Y))
            parts.append(Z.combined([*map(row_products, *sides)]))
        return joined(parts)

    def expanded_products(self, Z: Features, Y: Sequence[Array]) -> list[Array]:
        """Compute ⟨z_i − σ z_j, y_i − σ y_j⟩ of the sorted pairs for each block.

        Here y = V z with symmetric V. ⟨z_i, y_i⟩ + ⟨z_j, y_j⟩ − 2 σ ⟨z_i, y_j⟩ cancels for near
        samples, but reads half as many rows, and a GPU copies none.
        """
        xp, (first, second), products = Z.xp, self._sorted, []
        for z, y, sign in zip(Z.blocks, Y, Z.signs, strict=True):
            z, y = (xp.reshape(side, (self.n_samples, -1)) for side in (z, y))
            own = xp.linalg.vecdot(z, y)
            cross = products_at(self._starts, second, z, y)
            if cross is None:
                step = max(SMALLEST_CHUNK, Z.room // (8 * z.shape[1]))
                parts = slices(first.shape[0], step)
                products.append(joined([self._expanded(z, y, own, sign, part) for part in parts]))
            else:
                both = xp.take(own, first, axis=0) + xp.take(own, second, axis=0)
                products.append(both - 2 * sign * cross)
        return products

    def _expanded(self, z: Array, y: Array, own: Array, sign: int, part: slice) -> Array:
        """Compute own_i + own_j − 2 σ ⟨z_i, y_j⟩ of the sorted pairs in `part`."""
        take, (i, j) = namespace(z).take, (side[part] for side in self._sorted)
        cross = namespace(z).linalg.vecdot(take(z, i, axis=0), take(y, j, axis=0))
        return take(own, i, axis=0) + take(own, j, axis=0) - 2 * sign * cross

    def scatter(self, block: Array, sign: int, s: Array, room: int) -> Array:
        """Compute σ Zᵀ L_s Z for one block and the weights of the sorted pairs, shape (n, n).

        L_s = D − σ(U + Uᵀ), with s_k in row i and column j of U, is not formed: with
        T = Zᵀ(σ D/2 − U)Z the result is T + Tᵀ.
        """
        xp, (first, second) = namespace(block), self._sorted
        degrees = sum_at(first, s, self.n_samples) + sum_at(second, s, self.n_samples)
        rows = xp.reshape(block, (self.n_samples, -1))
        step = max(SMALLEST_CHUNK, SAMPLE_CHUNKS * room // (8 * rows.shape[1]))
        starts, total = self._starts, zeros((block.shape[2], block.shape[2]), like=block)
        for part in slices(self.n_samples, step):
            low, high, begin, end = part.start, part.stop, 0, second.shape[0]
            if step < self.n_samples:
                begin, end = int(starts[low]), int(starts[high])
            some = starts[low : high + 1] - begin, second[begin:end], s[begin:end]
            carried = sign * degrees[part, None] / 2 * rows[part, :] - sparse_product(*some, rows)
            samples = block[part, ...]
            total = total + flat(samples).T @ flat(xp.reshape(carried, samples.shape))
        return total + total.T


def _combinations(
    blocks: Sequence[Array], signs: Sequence[int], i: Array, j: Array
) -> list[Array]:
    """Return the differences of the samples i and j, or their sums, per block."""
    take, rows = namespace(i).take, []
    for block, sign in zip(blocks, signs, strict=True):
        one, other = take(block, i, axis=0), take(block, j, axis=0)
        rows.append(one - other if sign > 0 else one + other)
    return rows


class SampleForm:
    """Sums over pairs as products over samples, or over differences where these would cancel.

    Parameters
    ----------
    exact : PairSums
        The sums over differences.
    graph : PairGraph
        Their pairs.
    """

    whole_is_cheap = False  # whether a sum over all pairs costs less than one over most of them

    def __init__(self, exact: PairSums, graph: PairGraph):
        self.exact, self.features, self.graph = exact, exact.features, graph

    @cached_property
    def _sample_norms(self) -> Array:
        """‖z_i‖/√M of the samples, shape (n_samples,)."""
        features = self.features
        squares = sum(row_products(block, block) for block in features.blocks)
        return features.xp.sqrt(squares / features.n_blocks)

    @cached_property
    def _norms(self) -> Array:
        """‖z_i‖ + ‖z_j‖ of each pair, over √M."""
        return self.graph.summed(self._sample_norms)

    def _loses_few_digits(
        self, weights: Array | float, norms: Array, unsigned: Array, largest: float
    ) -> bool:
        """Return whether sums over samples with these weights are accurate."""
        xp = self.features.xp
        return bool(xp.sum(weights * norms * norms) <= largest * xp.sum(weights * unsigned))

    @cached_property
    def is_accurate(self) -> bool:
        """Whether sums over samples are accurate for some of the pairs."""
        n_pairs, xp = self.exact.n_pairs, self.features.xp
        step = -(-n_pairs // LOOKED_AT)
        places = xp.arange(0, n_pairs, step, device=self.features.like.device)
        norms = self.graph.take(places).summed(self._sample_norms)
        unsigned = self.exact.take(places).unsigned()
        return self._loses_few_digits(1.0, norms, unsigned, LARGEST_NORMS)

    def distances(self) -> Array:
        """Compute D_k from differences."""
        return self.exact.distances()

    def quadratic(self, V: Sequence[Array], expand: bool = False) -> Array:
        """Compute ⟨A_k, V⟩ by one product over the samples.

        With `expand`, squares are expanded: faster, and accurate enough for products of conjugate
        gradients where `is_accurate`.
        """
        features, graph = self.features, self.graph
        images = multiply_rows(features.blocks, V)
        if expand:
            return graph.unsort(features.combined(graph.expanded_products(features, images)))
        return graph.unsort(graph.inner_products(features, images))

    def scatter(self, s: Array) -> list[Array]:
        """Compute S_m by the Laplacian of the pairs."""
        return self._laplacian(self.graph, s)

    def _laplacian(self, graph: PairGraph, s: Array) -> list[Array]:
        s, features = graph.sort(s) / self.features.n_blocks, self.features
        blocks = zip(features.blocks, features.signs, strict=True)
        return [graph.scatter(block, sign, s, features.room) for block, sign in blocks]

    def evaluate(self, slope: Callable[[slice, Array], Array]) -> Evaluation:
        """Compute D, and S for s = slope(pairs, D of these pairs), as exactly as needed."""
        distances, unsigned, reach = self._distances_and_reach()
        s = slope(slice(0, self.exact.n_pairs), distances)
        scatter, reach_of_scatter = self.scatter_at(s, unsigned)
        if reach_of_scatter is not None:
            reach = reach_of_scatter
        return Evaluation(distances, scatter, None if reach is None else lambda: reach)

    def _distances_and_reach(self) -> tuple[Array, Array, Array | None]:
        """Compute D_k for a scatter, its size, and the magnitude of the numbers that it comes from.

        Where sums over samples are accurate, they come from inner products of samples, except those
        of near pairs.
        """
        features, graph, norms = self.features, self.graph, self._norms
        xp = features.xp
        if not self.is_accurate:
            distances = self.distances()
            if not features.has_sums:
                return distances, distances, None
            unsigned = self.exact.unsigned()
            return distances, unsigned, xp.sqrt(unsigned)
        products = [graph.unsort(p) for p in graph.expanded_products(features, features.blocks)]
        distances = unsigned = features.combined(products)
        if features.has_sums:
            unsigned = sum(products) / features.n_blocks
        cancels = largest_norms(features) * unsigned <= norms * norms
        near = xp.nonzero(cancels)[0]
        if near.shape[0] > 0:
            exact, n_pairs = self.exact.take(near), self.exact.n_pairs
            distances = xp.where(cancels, sum_at(near, exact.distances(), n_pairs), distances)
            exact_unsigned = sum_at(near, exact.unsigned(), n_pairs)
            unsigned = xp.where(cancels, exact_unsigned, unsigned)
            norms = xp.where(cancels, xp.sqrt(exact_unsigned), norms)
        return distances, unsigned, norms

    def scatter_at(self, s: Array, unsigned: Array) -> tuple[list[Array], Array | None]:
        """Compute S_m as exactly as from differences, and the magnitude of its numbers."""
        xp, largest = self.features.xp, largest_norms(self.features)
        if not self._loses_few_digits(xp.abs(s), self._norms, unsigned, largest):
            return self.exact.scatter(s), None
        used = xp.nonzero(s)[0]
        if used.shape[0] < DENSE_SHARE * s.shape[0]:
            some = self.graph.take(used)
            return self._laplacian(some, xp.take(s, used, axis=0)), self._norms
        return self.scatter(s), self._norms


def largest_norms(features: Features) -> float:
    """Return the largest ratio of norms and distances for sums whose errors nothing corrects."""
    precise = features.like.dtype == features.xp.float64
    return LARGEST_NORMS if precise else LARGEST_NORMS_IN_SINGLE
