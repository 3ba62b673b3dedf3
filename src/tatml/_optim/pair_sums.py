"""Sums over pairs of samples, computed chunk by chunk. No other module reads features.

With Δ_{m,k} the difference of the two samples of pair k in block m, a solver needs

    D_k = (1/M) Σ_m ‖Δ_{m,k}‖_F²,   ⟨A_k, V⟩ = (1/M) Σ_m ⟨Δ Δᵀ, V_m⟩,   S_m = (1/M) Σ_k s_k Δ Δᵀ

for features that were multiplied by a factor G (`transformed`): (GᵀΔ)(GᵀΔ)ᵀ = Gᵀ A G. The factor is
applied to the samples, not to the pairs, so its cost does not grow with the number of pairs.
Features are stored transposed, (n_rows, n', n), so that every product is one matrix product.

Where there are many pairs per sample, the sums are computed by products over the samples instead
(`sample_form.py`), unless rounding errors would be larger than those of differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import sqrt
from typing import Any

from .._array import (
    Array,
    as_double,
    as_single,
    asarray,
    namespace,
    on_gpu,
    placed,
    symmetrised,
    zeros,
)
from .._svec import svec_outer
from .layout import flat, multiply_rows, row_products
from .pair_graph import PairGraph
from .sample_form import DENSE_SHARE, SampleForm
from .sums import DEFAULT_LIMITS, KeptRows, Limits

SMALLEST_CHUNK = 16  # least number of pairs in a chunk, even if they exceed its size in bytes


class PairSums(SampleForm, KeptRows):
    """Sums over pairs whose differences are formed when they are needed, in bounded memory.

    Parameters
    ----------
    features : sequence of M arrays of shape (n_rows, n'_m, n_m)
        Transposed samples; or differences of pairs, when `first` is None.
    first, second : integer arrays of shape (n_pairs,), or None
        Rows of the two samples of each pair.
    factors : sequence of M arrays of shape (n_m, n_m), or None
        Factors to apply to every chunk.
    limits : Limits
        Memory limits.
    """

    whole_is_cheap = False  # whether a sum over all pairs costs less than one over most of them
    limits = DEFAULT_LIMITS
    links = None  # each row is one pair

    def __init__(
        self,
        features: Sequence[Array],
        first: Array | None = None,
        second: Array | None = None,
        factors: Sequence[Array] | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ):
        self.features = tuple(features)
        self.graph: PairGraph | None = None
        if first is not None and second is not None:
            self.graph = PairGraph(first, second, self.features[0].shape[0])
        self.factors = factors
        self.limits = limits
        self._reach: Array | None = None

    def _like_this(
        self,
        features: Sequence[Array],
        graph: PairGraph | None = None,
        factors: Sequence[Array] | None = None,
    ) -> PairSums:
        """Return sums of other features with the same limits."""
        other = PairSums(features, factors=factors, limits=self.limits)
        other.graph = graph
        return other

    @property
    def first(self) -> Array | None:
        """The row of the first sample of each pair; None where `features` are differences."""
        return None if self.graph is None else self.graph.first

    @property
    def second(self) -> Array | None:
        """The row of the second sample of each pair; None where `features` are differences."""
        return None if self.graph is None else self.graph.second

    @classmethod
    def from_samples(cls, features: Sequence[Array], first: Array, second: Array) -> PairSums:
        """Store the samples, or the differences if there are no more pairs than samples."""
        sums = cls(features, first, second)
        if sums.n_pairs <= features[0].shape[0]:
            return cls(sums.rows(slice(0, sums.n_pairs)))
        return sums

    @property
    def xp(self) -> Any:
        """The array namespace of the features."""
        return namespace(self.features[0])

    @property
    def pairs(self) -> PairSums:
        """These sums: each row is one pair."""
        return self

    @property
    def n_blocks(self) -> int:
        """M, the number of blocks."""
        return len(self.features)

    @property
    def n_pairs(self) -> int:
        """K, the number of pairs."""
        return self.features[0].shape[0] if self.first is None else self.first.shape[0]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return tuple(block.shape[2] for block in self.features)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """n'_m of each block: the number of columns of a sample."""
        return tuple(block.shape[1] for block in self.features)

    @cached_property
    def numbers_per_pair(self) -> int:
        """Σ n_m n'_m, the numbers in the differences of one pair."""
        return sum(n * width for n, width in zip(self.sizes, self.widths, strict=True))

    def transformed(self, factors: Sequence[Array]) -> PairSums:
        """Return the sums over the same pairs for the features GᵀΦ."""
        if self.factors is not None:
            factors = [a @ b for a, b in zip(self.factors, factors, strict=True)]
        size = 8 * self.features[0].shape[0] * self.numbers_per_pair
        if size > self.limits.eager_at(self.features[0]):
            return self._like_this(self.features, self.graph, factors)
        return self._like_this(multiply_rows(self.features, factors), self.graph)

    def take(self, pairs: Array) -> PairSums:
        """Return the sums over the pairs with these indices."""
        if self.graph is None:
            some = [self.xp.take(block, pairs, axis=0) for block in self.features]
            return self._like_this(some, factors=self.factors)
        return self._like_this(self.features, self.graph.take(pairs), self.factors)

    def block(self, m: int) -> PairSums:
        """Return the sums over the same pairs of block m alone, as a problem of one block."""
        factors = None if self.factors is None else [self.factors[m]]
        return self._like_this([self.features[m]], self.graph, factors)

    def rows(self, part: slice) -> list[Array]:
        """Compute the differences of the pairs in `part`: per block, shape (n_part, n'_m, n_m)."""
        if self.graph is None:
            rows = [block[part, ...] for block in self.features]
        else:
            take, i, j = self.xp.take, self.graph.first[part], self.graph.second[part]
            rows = [take(block, i, axis=0) - take(block, j, axis=0) for block in self.features]
        return rows if self.factors is None else multiply_rows(rows, self.factors)

    def longest_difference(self) -> float:
        """Compute a bound of ‖Δ_k‖_F/√M over all pairs from the samples alone."""
        xp, total = self.xp, 0.0
        for m, block in enumerate(self.features):
            scale = 1.0 if self.factors is None else float(xp.sum(self.factors[m] ** 2))
            total += scale * float(xp.max(row_products(block, block)))
        return (1 if self.first is None else 2) * sqrt(total / self.n_blocks)

    def rounding(self, factors: Sequence[Array]) -> Array:
        """Bound the norm of the rounding error of LᵀΔ_k/√M, L the factors; shape (n_pairs,).

        The features have to be samples as given or centred, or differences of such samples.
        """
        xp, u = self.xp, float(self.xp.finfo(factors[0].dtype).eps) / 2  # theory (Round)
        stored = float(xp.finfo(self.features[0].dtype).eps) / 2
        total = 0.0
        for block, factor in zip(self.features, factors, strict=True):
            relative = (factor.shape[0] + 8) * u + (stored if stored > u else 0.0)
            room = self.limits.chunk_at(block)
            step = max(1, room // (8 * block.shape[1] * block.shape[2]))
            squares = []
            for start in range(0, block.shape[0], step):
                stop = min(start + step, block.shape[0])
                size = xp.abs(block[start:stop, ...])
                size = xp.astype(size, factor.dtype, copy=False)
                (image,) = multiply_rows([size], [xp.abs(factor)])
                squares.append(row_products(image, image))
            total = total + relative**2 * self._joined(squares)
        moved = xp.sqrt(total / self.n_blocks)
        if self.first is None:
            return moved
        both = xp.take(moved, self.first, axis=0) + xp.take(moved, self.second, axis=0)
        # The difference of a sample with itself is exactly 0.
        return xp.where(self.first == self.second, xp.zeros_like(both), both)

    def reach(self, distances: Array) -> Array | None:
        """Return the magnitude of the numbers that distances and scatter were computed from.

        None means √D_k, since a sum of squares does not cancel.
        """
        return self._reach

    def n_terms(self, n_pairs: int) -> int:
        """Return the largest number of successive roundings in a sum over `n_pairs` pairs."""
        n_rows = n_pairs + (self.features[0].shape[0] if self.by_samples else 0)
        return n_rows * max(self.widths) + self.numbers_per_pair + self.n_blocks + 8

    def in_single(self) -> PairSums:
        """Return the sums over the same pairs with float32 features."""
        return self._converted(as_single)

    def _converted(self, convert: Callable[[Array], Array]) -> PairSums:
        """Return the sums over the same pairs with converted features and factors."""
        factors = None if self.factors is None else [convert(factor) for factor in self.factors]
        return self._like_this([convert(block) for block in self.features], self.graph, factors)

    def for_certificate(self) -> PairSums:
        """Return the sums over the same pairs in float64, over differences."""
        exact = self._converted(as_double)
        exact.limits = replace(self.limits, by_samples=False)
        return exact

    def chunks(self, numbers_per_pair: int = 0) -> Iterator[tuple[slice, list[Array]]]:
        """Yield (pairs, differences), with chunks that suit work on so many numbers per pair."""
        room = self.limits.chunk_at(self.features[0])
        per_pair = 8 * max(self.numbers_per_pair, numbers_per_pair // 4)
        step = max(SMALLEST_CHUNK, room // per_pair)
        for start in range(0, self.n_pairs, step):
            part = slice(start, min(start + step, self.n_pairs))
            yield part, self.rows(part)

    def distances(self) -> Array:
        """Compute D_k, shape (n_pairs,)."""
        return self._joined([self._squares(rows) for _, rows in self.chunks()])

    def quadratic(self, V: Sequence[Array]) -> Array:
        """Compute ⟨A_k, V⟩ for symmetric V, shape (n_pairs,)."""
        if self._by_accurate_samples:
            return self._quadratic_by_samples(V)
        return self._joined(
            [self._inner(rows, multiply_rows(rows, V)) for _, rows in self.chunks()]
        )

    def scatter(self, s: Array) -> list[Array]:
        """Compute S_m = (1/M) Σ_k s_k A_{m,k}, one array (n_m, n_m) per block."""
        return self._scatter_by_samples(s) if self._by_accurate_samples else self._by_pairs(s)

    def _by_pairs(self, s: Array) -> list[Array]:
        """Compute S_m from the differences of all pairs with s_k ≠ 0."""
        total = self._zeros()
        for part, rows in self.chunks():
            total = self._add_scatter(total, rows, s[part])
        return [symmetrised(S) for S in total]

    def product(
        self, V: Sequence[Array], weights: Array, shift: Array
    ) -> tuple[Array, list[Array]]:
        """Compute q_k = w_k (⟨A_k, V⟩ + shift_k) and S(q) in one pass."""
        if self._by_accurate_samples:
            q = weights * (self._quadratic_by_samples(V, expand=True) + shift)
            return q, self._scatter_by_samples(q)
        parts, total = [], self._zeros()
        for part, rows in self.chunks():
            inner = self._inner(rows, multiply_rows(rows, V))
            parts.append(weights[part] * (inner + shift[part]))
            total = self._add_scatter(total, rows, parts[-1], whole=True)
        return self._joined(parts), [symmetrised(S) for S in total]

    def held(self) -> PairSums:
        """Return sums that hold all differences where a GPU has room for them, else these sums.

        On a GPU, forming the differences again for each product takes as long as the product.
        """
        array = self.features[0]
        formed = self.first is None and self.factors is None
        size = 8 * self.n_pairs * self.numbers_per_pair
        if formed or not on_gpu(array) or size > self.limits.eager_at(array):
            return self
        if self._by_accurate_samples:
            return self
        chunks = [rows for _, rows in self.chunks()]
        blocks = [self._joined(list(parts)) for parts in zip(*chunks, strict=True)]
        return self._like_this(blocks)

    def distances_and_scatter(
        self, slope: Callable[[slice, Array], Array]
    ) -> tuple[Array, list[Array]]:
        """Compute D, and S for s = slope(pairs, D of these pairs), in one pass."""
        if self.by_samples:
            every = self.distances_at()
            return every, self.scatter_at(slope(slice(0, self.n_pairs), every), every)
        distances, total = [], self._zeros()
        for part, rows in self.chunks():
            distances.append(self._squares(rows))
            total = self._add_scatter(total, rows, slope(part, distances[-1]))
        return self._joined(distances), [symmetrised(S) for S in total]

    def _squares(self, rows: Sequence[Array]) -> Array:
        return self._inner(rows, rows)  # theory (Dist)

    def _inner(self, rows: Sequence[Array], images: Sequence[Array]) -> Array:
        return sum(row_products(a, b) for a, b in zip(rows, images, strict=True)) / self.n_blocks

    def _zeros(self) -> list[Array]:
        return [zeros((n, n), like=self.features[0]) for n in self.sizes]

    def _add_scatter(
        self, total: Sequence[Array], rows: Sequence[Array], s: Array, whole: bool = False
    ) -> list[Array]:
        """Add Σ_k s_k A_k; `whole` skips the search for s_k = 0, which a GPU would wait for."""
        xp = self.xp  # theory (D)
        used = None if whole else xp.nonzero(s)[0]
        if used is not None and used.shape[0] < DENSE_SHARE * s.shape[0]:
            rows, s = [xp.take(block, used, axis=0) for block in rows], xp.take(s, used, axis=0)
        scale = s[:, None, None] / self.n_blocks
        blocks = zip(total, rows, strict=True)
        return [S + flat(block).T @ flat(scale * block) for S, block in blocks]

    def _joined(self, parts: Sequence[Array]) -> Array:
        return parts[0] if len(parts) == 1 else self.xp.concat(parts)

    def svec_chunks(self, numbers_per_pair: int) -> Iterator[tuple[slice, Array]]:
        """Yield (pairs, svec(A_k)/M of these pairs), for work on so many numbers per pair."""
        for part, rows in self.chunks(numbers_per_pair):
            yield part, self.svec_rows(rows)

    def combined(self, gram: Array) -> Array:
        """Return the Gram matrix as it is: each row is one pair."""
        return gram

    def placed(self, like: Array, features: Sequence[Array] | None = None) -> PairSums:
        """Copy the sums to the device of `like`; `features` are theirs if they are there."""
        if features is None:
            features = [placed(block, like) for block in self.features]
        first, second = (
            None if rows is None else asarray(rows, like) for rows in (self.first, self.second)
        )
        factors = self.factors
        if factors is not None:
            factors = [placed(factor, like) for factor in factors]
        return PairSums(features, first, second, factors, limits=self.limits)

    def svec_rows(self, rows: Sequence[Array]) -> Array:
        """Compute svec(A_{m,k})/M of a chunk, shape (n_part, Σ n_m(n_m+1)/2)."""
        return self.xp.concat([svec_outer(block) for block in rows], axis=1) / self.n_blocks
