"""Sums over pairs of samples or comparisons, computed chunk by chunk.

With Δ_{m,k} the difference of the two samples of pair k in block m, a solver needs

    D_k = (1/M) Σ_m ‖Δ_{m,k}‖_F²,   ⟨A_k, V⟩ = (1/M) Σ_m ⟨Δ Δᵀ, V_m⟩,   S_m = (1/M) Σ_k s_k Δ Δᵀ

for features that were multiplied by a factor G (`transformed`): (GᵀΔ)(GᵀΔ)ᵀ = Gᵀ A G. The factor is
applied to the samples, not to the pairs, so its cost does not grow with the number of pairs.
Features are stored transposed, (n_rows, n', n), so that every product is one matrix product.

A row of `Sums` is a pair (`PairSums`), or a comparison (`ComparisonSums`): the distance of one pair
minus that of another. With R the matrix that has a +1 and a −1 in each row, the numbers of the
comparisons are R D, and a sum over comparisons with the weights s is a sum over pairs with the
weights Rᵀs (docs/theory.md, (Cmp)). Equal pairs are merged, so that a pair costs the same in
however many rows it appears. A row of a single pair compares it with the pair of a sample with
itself, whose distance is 0.

Where there are many pairs per sample, the sums are computed at the cost of samples (`SampleForm`):
the pairs are the edges of a graph of the samples (`PairGraph`). With Z the features of the samples,
one row per sample, and Y = Z V,

    ⟨A_k, V⟩ = ⟨z_i − z_j, y_i − y_j⟩   and   Σ_k s_k A_k = Zᵀ L_s Z,

with L_s the Laplacian of the graph whose edges have the weights s (docs/theory.md, (Lap)). Both
need one matrix product over the samples instead of one over the pairs; the rest is reading rows.
These sums take fewer operations where there are many pairs per sample. They cancel where samples
are far from the origin compared with the distances of the pairs; there, differences are used.

The σ of a block, its entry in `Features.signs`, is 1 where a pair is the difference of its two
samples, and −1 where it is their sum: z_i − σ z_j, and A_k has the factor σ (docs/theory.md,
(Mid)). For sums, L_s is the signless Laplacian, in which all weights have the same sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any, NamedTuple

from .._array import (
    Array,
    asarray,
    compacted,
    namespace,
    on_gpu,
    placed,
    products_at,
    put_at,
    sparse_product,
    sum_at,
    symmetrised,
    zeros,
)
from .._svec import svec_outer
from .layout import (
    DEFAULT_LIMITS,
    Evaluation,
    Features,
    Limits,
    flat,
    joined,
    multiply_rows,
    row_products,
    saved_by_samples,
    slices,
)

SAMPLE_CHUNKS = 16  # size of a chunk of samples, relative to one of differences
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


@dataclass(eq=False)
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

    first: Array
    second: Array
    n_samples: int
    form: Callable[[PairSums], Any] = form_of

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

    def summed(self, values: Array) -> Array:
        """Return the sum of the values of the two samples of each pair."""
        take = namespace(values).take
        return take(values, self.first, axis=0) + take(values, self.second, axis=0)

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


def _combinations(blocks: Sequence[Array], signs: Sequence[int], i: Array, j: Array) -> list[Array]:
    """Return z_i − σ z_j of the samples i and j: per block, shape (n_part, n', n)."""
    take, pairs = namespace(i).take, zip(blocks, signs, strict=True)
    return [  # without names for the samples, which would keep their memory
        take(block, i, axis=0) - take(block, j, axis=0)
        if sign > 0
        else take(block, i, axis=0) + take(block, j, axis=0)
        for block, sign in pairs
    ]


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
            products = features.combined(graph.expanded_products(features, images))
        else:
            products = graph.inner_products(features, images)
        return put_at(graph.order, products)

    def scatter(self, s: Array) -> list[Array]:
        """Compute S_m by the Laplacian of the pairs."""
        return self._laplacian(self.graph, s)

    def _laplacian(self, graph: PairGraph, s: Array) -> list[Array]:
        features = self.features
        s = features.xp.take(s, graph.order, axis=0) / features.n_blocks
        blocks = zip(features.blocks, features.signs, strict=True)
        return [graph.scatter(block, sign, s, features.room) for block, sign in blocks]

    def evaluate(self, slope: Callable[[slice, Array], Array]) -> Evaluation:
        """Compute D, and S for s = slope(pairs, D of these pairs), as exactly as needed."""
        distances, unsigned, reach = self._distances_and_reach()
        s = slope(slice(0, self.exact.n_pairs), distances)
        scatter, reach_of_scatter = self.scatter_at(s, unsigned)
        if reach_of_scatter is not None:
            reach = reach_of_scatter
        return Evaluation(distances, s, scatter, None if reach is None else lambda: reach)

    def _distances_and_reach(self) -> tuple[Array, Array, Array | None]:
        """Compute D_k, its unsigned sum, and the magnitude of the numbers that they come from.

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
        products = graph.expanded_products(features, features.blocks)
        products = [put_at(graph.order, p) for p in products]
        distances = unsigned = features.combined(products)
        if features.has_sums:
            unsigned = sum(products) / features.n_blocks
        cancels = largest_norms(features) * unsigned <= norms * norms
        near = xp.nonzero(cancels)[0]
        if near.shape[0] > 0:
            exact, n_pairs = self.exact.take(near), self.exact.n_pairs
            distances = xp.where(cancels, sum_at(near, exact.distances(), n_pairs), distances)
            of_near = sum_at(near, exact.unsigned(), n_pairs)
            unsigned = xp.where(cancels, of_near, unsigned)
            norms = xp.where(cancels, xp.sqrt(of_near), norms)
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


class PairSums:
    """Sums over pairs whose differences are formed when they are needed, in bounded memory.

    Parameters
    ----------
    features : Features
        The samples; or differences of pairs, when `graph` is None.
    graph : PairGraph or None
        The two samples of each pair.
    """

    links = None  # each row is one pair

    def __init__(self, features: Features, graph: PairGraph | None = None):
        self.features, self.graph = features, graph
        # K, the number of pairs
        self.n_pairs: int = features.n_rows if graph is None else graph.first.shape[0]

    @classmethod
    def of(
        cls,
        blocks: Sequence[Array],
        first: Array | None = None,
        second: Array | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
        signs: Sequence[int] | None = None,
    ) -> PairSums:
        """Return the sums over the pairs of these rows of the blocks; None: over differences."""
        features = Features(blocks, limits=limits, signs=signs)
        if first is None or second is None:
            return cls(features)
        return cls(features, PairGraph(first, second, features.n_rows))

    @property
    def pairs(self) -> PairSums:
        """These sums: each row is one pair."""
        return self

    @cached_property
    def form(self) -> Any:
        """The object that computes the sums in another way than over differences, or None."""
        return None if self.graph is None else self.graph.form(self)

    @cached_property
    def _fast_form(self) -> Any:
        """The object that computes sums without differences; None where that is not accurate."""
        return self.form if self.form is not None and self.form.is_accurate else None

    # Other pairs and other features

    def with_pairs(self, pairs: PairSums) -> PairSums:
        """Return the sums over the same rows of other pairs: these are the pairs."""
        return pairs

    def transformed(self, factors: Sequence[Array]) -> PairSums:
        """Return the sums over the same pairs for the features GᵀΦ."""
        return PairSums(self.features.transformed(factors), self.graph)

    def take(self, rows: Array) -> PairSums:
        """Return the sums over the pairs with these indices."""
        if self.graph is None:
            return PairSums(self.features.take(rows))
        return PairSums(self.features, self.graph.take(rows))

    def block(self, m: int) -> PairSums:
        """Return the sums over the same pairs of block m alone, as a problem of one block."""
        return PairSums(self.features.block(m), self.graph)

    def converted(self, convert: Callable[[Array], Array]) -> PairSums:
        """Return the sums over the same pairs with features in another precision."""
        return PairSums(self.features.converted(convert), self.graph)

    def over_differences(self) -> PairSums:
        """Return the sums over the differences of the same pairs."""
        features = self.features
        limits = replace(features.limits, by_samples=False)
        exact = Features(features.blocks, features.factors, limits, features.signs)
        return PairSums(exact, self.graph)

    def placed(self, like: Array, blocks: Sequence[Array] | None = None) -> PairSums:
        """Copy the sums to the device of `like`; `blocks` are their features if they are there."""
        if blocks is None:
            features = self.features.converted(lambda block: placed(block, like))
        else:
            features = Features(blocks, limits=self.features.limits, signs=self.features.signs)
        if self.graph is None:
            return PairSums(features)
        first, second = (asarray(rows, like) for rows in (self.graph.first, self.graph.second))
        return PairSums(features, PairGraph(first, second, features.n_rows))

    def formed(self) -> PairSums:
        """Return sums that hold all differences."""
        chunks = [rows for _, rows in self.chunks()] or [self.rows(slice(0, 0))]
        blocks = [joined(list(parts)) for parts in zip(*chunks, strict=True)]
        features = Features(blocks, limits=self.features.limits, signs=self.features.signs)
        return PairSums(features)

    def compact(self) -> PairSums:
        """Return sums that hold the differences if there are no more pairs than samples."""
        return self.formed() if self.n_pairs <= self.features.n_rows else self

    def held(self) -> PairSums:
        """Return sums that hold all differences where a GPU has room for them, else these sums.

        On a GPU, forming the differences again for each product takes as long as the product.
        """
        features = self.features
        formed = self.graph is None and features.factors is None
        if formed or not on_gpu(features.like):
            return self
        formable = features.fit_at_once(self.n_pairs) and self._fast_form is None
        return self.formed() if formable else self

    # Differences, chunk by chunk

    def rows(self, part: slice) -> list[Array]:
        """Compute the differences, or sums, of the pairs in `part`.

        Per block, their shape is (n_part, n'_m, n_m).
        """
        blocks, factors, graph = self.features.blocks, self.features.factors, self.graph
        if graph is None:
            rows = [block[part, ...] for block in blocks]
        else:
            rows = _combinations(blocks, self.features.signs, graph.first[part], graph.second[part])
        return rows if factors is None else multiply_rows(rows, factors)

    def parts(self, numbers_per_pair: int = 0, n_rows: int | None = None) -> Iterator[slice]:
        """Yield slices of pairs, or of `n_rows`, sized for `numbers_per_pair` numbers per pair."""
        numbers = max(self.features.numbers_per_row, numbers_per_pair // 4)
        step = max(SMALLEST_CHUNK, self.features.room // (8 * numbers))
        return slices(self.n_pairs if n_rows is None else n_rows, step)

    def chunks(self, numbers_per_pair: int = 0) -> Iterator[tuple[slice, list[Array]]]:
        """Yield (pairs, differences), in chunks sized for `numbers_per_pair` numbers per pair."""
        for part in self.parts(numbers_per_pair):
            yield part, self.rows(part)

    def svec_rows(self, part: slice) -> Array:
        """Compute svec(A_{m,k})/M of the pairs in `part`, shape (n_part, Σ n_m(n_m+1)/2)."""
        blocks = zip(self.rows(part), self.features.signs, strict=True)
        rows = [svec_outer(block) if sign > 0 else -svec_outer(block) for block, sign in blocks]
        return self.features.xp.concat(rows, axis=1) / self.features.n_blocks

    # The sums

    def distances(self) -> Array:
        """Compute D_k, shape (n_pairs,)."""
        if self.form is not None:
            return self.form.distances()
        return joined([self._inner(rows, rows) for _, rows in self.chunks()])  # theory (Dist)

    def unsigned(self) -> Array:
        """Compute D_k with the sums added to the differences, shape (n_pairs,)."""
        if not self.features.has_sums:
            return self.distances()
        chunks = (rows for _, rows in self.chunks())
        squares = [sum(row_products(block, block) for block in rows) for rows in chunks]
        return joined(squares) / self.features.n_blocks

    def quadratic(self, V: Sequence[Array]) -> Array:
        """Compute ⟨A_k, V⟩ for symmetric V, shape (n_pairs,)."""
        if self._fast_form is not None:
            return self._fast_form.quadratic(V)
        return joined([self._inner(rows, multiply_rows(rows, V)) for _, rows in self.chunks()])

    def scatter(self, s: Array) -> list[Array]:
        """Compute S_m = (1/M) Σ_k s_k A_{m,k}, one array (n_m, n_m) per block."""
        if self._fast_form is not None:
            return self._fast_form.scatter(s)
        total = self._zeros()
        for part, rows in self.chunks():
            total = self._add_scatter(total, rows, s[part])
        return [symmetrised(S) for S in total]

    def scatter_at(self, s: Array, unsigned: Array) -> tuple[list[Array], Array | None]:
        """Compute S_m given the unsigned distances, and the magnitude of its numbers."""
        return (self.scatter(s), None) if self.form is None else self.form.scatter_at(s, unsigned)

    def product(
        self, V: Sequence[Array], weights: Array, shift: Array
    ) -> tuple[Array, list[Array]]:
        """Compute q_k = w_k (⟨A_k, V⟩ + shift_k) and S(q) in one pass."""
        if self._fast_form is not None:
            q = weights * (self._fast_form.quadratic(V, expand=True) + shift)
            return q, self._fast_form.scatter(q)
        parts, total = [], self._zeros()
        for part, rows in self.chunks():
            inner = self._inner(rows, multiply_rows(rows, V))
            parts.append(weights[part] * (inner + shift[part]))
            total = self._add_scatter(total, rows, parts[-1], whole=True)
        return joined(parts), [symmetrised(S) for S in total]

    def evaluate(self, slope: Callable[[slice, Array], Array] | None = None) -> Evaluation:
        """Compute D, and S for s = slope(pairs, D of these pairs), in one pass."""
        xp = self.features.xp
        if slope is None:
            reach = (lambda: xp.sqrt(self.unsigned())) if self.features.has_sums else None
            return Evaluation(self.distances(), None, [], reach)
        if self.form is not None:
            return self.form.evaluate(slope)
        distances, unsigned, slopes, total = [], [], [], self._zeros()
        for part, rows in self.chunks():
            squares = [row_products(block, block) for block in rows]
            distances.append(self.features.combined(squares))  # theory (Dist), (Mid)
            if self.features.has_sums:
                unsigned.append(sum(squares) / self.features.n_blocks)
            slopes.append(slope(part, distances[-1]))
            total = self._add_scatter(total, rows, slopes[-1])
        reach = (lambda: xp.sqrt(joined(unsigned))) if unsigned else None
        scatter = [symmetrised(S) for S in total]
        return Evaluation(joined(distances), joined(slopes), scatter, reach)

    def _inner(self, rows: Sequence[Array], images: Sequence[Array]) -> Array:
        return self.features.combined([*map(row_products, rows, images)])

    def _zeros(self) -> list[Array]:
        return [zeros((n, n), like=self.features.like) for n in self.features.sizes]

    def _add_scatter(
        self, total: Sequence[Array], rows: Sequence[Array], s: Array, whole: bool = False
    ) -> list[Array]:
        """Add Σ_k s_k A_k; `whole` skips the search for s_k = 0, which a GPU would wait for."""
        xp = self.features.xp  # theory (D)
        used = None if whole else xp.nonzero(s)[0]
        if used is not None and used.shape[0] < DENSE_SHARE * s.shape[0]:
            rows, s = [xp.take(block, used, axis=0) for block in rows], xp.take(s, used, axis=0)
        scale = s[:, None, None] / self.features.n_blocks
        blocks = zip(total, rows, self.features.signs, strict=True)
        return [S + flat(block).T @ flat(sign * scale * block) for S, block, sign in blocks]


class Links(NamedTuple):
    """The matrix R: the indices of the two pairs of each row, arrays of shape (K,)."""

    plus: Array
    minus: Array

    def sides(self, values: Array, axis: int = 0) -> tuple[Array, Array]:
        """Return the values of the two pairs of each row, given one per pair."""
        take = namespace(values).take
        return take(values, self.plus, axis=axis), take(values, self.minus, axis=axis)

    def differences(self, values: Array, axis: int = 0) -> Array:
        """Compute R v, shape (K,), given one value per pair; or R G, or G Rᵀ."""
        plus, minus = self.sides(values, axis)
        return plus - minus

    def norms(self, values: Array) -> Array:
        """Return the root of the sum of squares of the two values of each row."""
        plus, minus = self.sides(values * values)  # theory (Round)
        return namespace(values).sqrt(plus + minus)

    def pair_weights(self, s: Array, n_pairs: int) -> Array:
        """Compute Rᵀs, shape (n_pairs,)."""
        return sum_at(self.plus, s, n_pairs) - sum_at(self.minus, s, n_pairs)  # theory (Cmp)

    def gram(self, gram: Array) -> Array:
        """Compute R G Rᵀ, the Gram matrix of the rows, given that of the pairs."""
        return self.differences(self.differences(gram), axis=1)


@dataclass(frozen=True)
class ComparisonSums:
    """Sums over K rows, A_t = A_{plus(t)} − A_{minus(t)}, computed by sums over P pairs."""

    pairs: PairSums
    links: Links

    @property
    def features(self) -> Features:
        """The samples or differences of the pairs."""
        return self.pairs.features

    @property
    def n_pairs(self) -> int:
        """K, the number of rows."""
        return self.links.plus.shape[0]

    def with_pairs(self, pairs: PairSums) -> ComparisonSums:
        """Return the sums over the same rows of other pairs: other features, or another device."""
        like = pairs.features.like
        return ComparisonSums(pairs, Links(*(asarray(side, like) for side in self.links)))

    def transformed(self, factors: Sequence[Array]) -> ComparisonSums:
        """Return the sums over the same rows for the features GᵀΦ."""
        return ComparisonSums(self.pairs.transformed(factors), self.links)

    def take(self, rows: Array) -> ComparisonSums:
        """Return the sums over the rows with these indices, and over their pairs alone."""
        take, k = self.features.xp.take, rows.shape[0]
        both = self.features.xp.concat([take(side, rows, axis=0) for side in self.links])
        used, places = compacted(both, self.pairs.n_pairs)
        return ComparisonSums(self.pairs.take(used), Links(places[:k], places[k:]))

    @cached_property
    def _pair_distances(self) -> Array:
        """The distances of the pairs, shape (P,)."""
        return self.pairs.distances()

    def distances(self) -> Array:
        """Compute the difference of the two distances of each row, shape (K,)."""
        return self.links.differences(self._pair_distances)

    def quadratic(self, V: Sequence[Array]) -> Array:
        """Compute ⟨A_t, V⟩ for symmetric V, shape (K,)."""
        return self.links.differences(self.pairs.quadratic(V))

    def scatter(self, s: Array) -> list[Array]:
        """Compute S_m = (1/M) Σ_t s_t A_{m,t}, one array (n_m, n_m) per block."""
        return self.pairs.scatter(self.links.pair_weights(s, self.pairs.n_pairs))

    def product(
        self, V: Sequence[Array], weights: Array, shift: Array
    ) -> tuple[Array, list[Array]]:
        """Compute q_t = w_t (⟨A_t, V⟩ + shift_t) and S(q)."""
        q = weights * (self.quadratic(V) + shift)
        return q, self.scatter(q)

    def evaluate(self, slope: Callable[[slice, Array], Array] | None = None) -> Evaluation:
        """Compute D, and S for the s that `slope(rows, D of the rows)` returns, in two passes.

        The two pairs of a row may be in different chunks.
        """
        distances, s, of_pairs = self.distances(), None, None
        scatter: list[Array] = []
        if slope is not None:
            s = slope(slice(0, self.n_pairs), distances)
            weights = self.links.pair_weights(s, self.pairs.n_pairs)
            scatter, of_pairs = self.pairs.scatter_at(weights, self._pair_distances)

        def reach() -> Array:
            root = self.features.xp.sqrt
            return self.links.norms(root(self._pair_distances) if of_pairs is None else of_pairs)

        return Evaluation(distances, s, scatter, reach)


# Sums over K rows, each of which is a linear function ⟨A_k, W⟩ of W: A_k = Δ Δᵀ for a pair, or the
# difference of two such matrices for a comparison.
Sums = PairSums | ComparisonSums


# Bounds of the rounding errors of sums over the rows of pairs or comparisons


def longest_row(sums: Sums) -> float:
    """Bound the root of the largest sum of the distances in a row, from the samples alone."""
    features, total = sums.features, 0.0
    for m, block in enumerate(features.blocks):
        factor = None if features.factors is None else features.factors[m]
        scale = 1.0 if factor is None else float(features.xp.sum(factor**2))
        total += scale * float(features.xp.max(row_products(block, block)))
    samples = 1 if sums.pairs.graph is None else 2
    return samples * sqrt(total / features.n_blocks * (1 if sums.links is None else 2))


def row_errors(sums: Sums, factors: Sequence[Array]) -> Array:
    """Bound the norm of the rounding error of LᵀΔ_k/√M, L the factors; shape (n_pairs,).

    The features have to be samples as given or centred, or differences of such samples. For a
    comparison, it is the root of the sum of squares of both errors.
    """
    moved, links = _feature_errors(sums.features, factors), sums.links  # theory (Round)
    graph, xp = sums.pairs.graph, namespace(moved)
    if graph is not None:  # a sample minus itself is exactly 0, and is added to itself nowhere
        same = graph.first == graph.second
        moved = xp.where(same, xp.zeros_like(moved[:1]), graph.summed(moved))
    return moved if links is None else links.norms(moved)


def _feature_errors(features: Features, factors: Sequence[Array]) -> Array:
    """Bound the norm of the rounding error of each sample or difference."""
    total: Any = 0.0  # theory (Round)
    xp, u = features.xp, float(features.xp.finfo(factors[0].dtype).eps) / 2
    stored = float(xp.finfo(features.like.dtype).eps) / 2
    for block, factor in zip(features.blocks, factors, strict=True):
        relative = (factor.shape[0] + 8) * u + (stored if stored > u else 0.0)
        step = max(1, features.room // (8 * block.shape[1] * block.shape[2]))
        squares = []
        for part in slices(block.shape[0], step):
            size = xp.astype(xp.abs(block[part, ...]), factor.dtype, copy=False)
            (image,) = multiply_rows([size], [xp.abs(factor)])
            squares.append(row_products(image, image))
        total = total + relative**2 * joined(squares)
    return xp.sqrt(total / features.n_blocks)


def n_roundings(sums: Sums, n_pairs: int) -> int:
    """Return the largest number of successive roundings in a sum over `n_pairs` rows.

    Comparisons have at most twice as many pairs; the weight of a pair is the sum of at most as
    many numbers as there are comparisons.
    """
    features = sums.features
    n_rows = n_pairs * (1 if sums.links is None else 3)
    n_rows += 0 if sums.pairs.form is None else features.n_rows
    return n_rows * max(features.widths) + features.numbers_per_row + features.n_blocks + 8
