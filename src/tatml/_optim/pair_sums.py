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
from typing import Any

from .._array import Array, as_double, asarray, on_gpu, placed, symmetrised, zeros
from .._svec import svec_outer
from .layout import flat, joined, multiply_rows, row_products, slices
from .sample_form import DENSE_SHARE, SMALLEST_CHUNK, PairGraph
from .sums import DEFAULT_LIMITS, Evaluation, Features, Limits


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

    @classmethod
    def of(
        cls,
        blocks: Sequence[Array],
        first: Array | None = None,
        second: Array | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> PairSums:
        """Return the sums over the pairs of these rows of the blocks, or over differences."""
        features = Features(blocks, limits=limits)
        if first is None or second is None:
            return cls(features)
        return cls(features, PairGraph(first, second, features.n_rows))

    @classmethod
    def from_samples(
        cls,
        blocks: Sequence[Array],
        first: Array,
        second: Array,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> PairSums:
        """Store the samples, or the differences if there are no more pairs than samples."""
        sums = cls.of(blocks, first, second, limits=limits)
        return sums.formed() if sums.n_pairs <= sums.features.n_rows else sums

    @property
    def pairs(self) -> PairSums:
        """These sums: each row is one pair."""
        return self

    @property
    def n_pairs(self) -> int:
        """K, the number of pairs."""
        return self.features.n_rows if self.graph is None else self.graph.first.shape[0]

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
        return PairSums(Features(features.blocks, features.factors, limits), self.graph)

    def for_certificate(self) -> PairSums:
        """Return the sums over the differences of the same pairs, in float64."""
        return self.converted(as_double).over_differences()

    def placed(self, like: Array, blocks: Sequence[Array] | None = None) -> PairSums:
        """Copy the sums to the device of `like`; `blocks` are their features if they are there."""
        if blocks is None:
            features = self.features.converted(lambda block: placed(block, like))
        else:
            features = Features(blocks, limits=self.features.limits)
        if self.graph is None:
            return PairSums(features)
        first, second = (asarray(rows, like) for rows in (self.graph.first, self.graph.second))
        return PairSums(features, PairGraph(first, second, features.n_rows))

    def formed(self) -> PairSums:
        """Return sums that hold all differences."""
        chunks = [rows for _, rows in self.chunks()] or [self.rows(slice(0, 0))]
        blocks = [joined(list(parts)) for parts in zip(*chunks, strict=True)]
        return PairSums(Features(blocks, limits=self.features.limits))

    def held(self) -> PairSums:
        """Return sums that hold all differences where a GPU has room for them, else these sums.

        On a GPU, forming the differences again for each product takes as long as the product.
        """
        features = self.features
        formed = self.graph is None and features.factors is None
        if formed or not on_gpu(features.like):
            return self
        size = 8 * self.n_pairs * features.numbers_per_row
        too_large = size > features.limits.eager_at(features.like)
        return self if too_large or self._fast_form is not None else self.formed()

    # Differences, chunk by chunk

    def rows(self, part: slice) -> list[Array]:
        """Compute the differences of the pairs in `part`: per block, shape (n_part, n'_m, n_m)."""
        blocks, factors = self.features.blocks, self.features.factors
        if self.graph is None:
            rows = [block[part, ...] for block in blocks]
        else:
            rows = self.graph.differences(blocks, part)
        return rows if factors is None else multiply_rows(rows, factors)

    def parts(self, numbers_per_pair: int = 0, n_rows: int | None = None) -> Iterator[slice]:
        """Yield slices of the pairs, or of `n_rows`, for work on so many numbers each."""
        numbers = max(self.features.numbers_per_row, numbers_per_pair // 4)
        step = max(SMALLEST_CHUNK, self.features.room // (8 * numbers))
        return slices(self.n_pairs if n_rows is None else n_rows, step)

    def chunks(self, numbers_per_pair: int = 0) -> Iterator[tuple[slice, list[Array]]]:
        """Yield (pairs, differences), with chunks that suit work on so many numbers per pair."""
        for part in self.parts(numbers_per_pair):
            yield part, self.rows(part)

    def svec_rows(self, part: slice) -> Array:
        """Compute svec(A_{m,k})/M of the pairs in `part`, shape (n_part, Σ n_m(n_m+1)/2)."""
        rows = self.features.xp.concat([svec_outer(block) for block in self.rows(part)], axis=1)
        return rows / self.features.n_blocks

    # The sums

    def distances(self) -> Array:
        """Compute D_k, shape (n_pairs,)."""
        if self.form is not None:
            return self.form.distances()
        return joined([self._inner(rows, rows) for _, rows in self.chunks()])  # theory (Dist)

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

    def scatter_at(self, s: Array, distances: Array) -> tuple[list[Array], Array | None]:
        """Compute S_m given the distances, and the magnitude of its numbers (see `Evaluation`)."""
        return (self.scatter(s), None) if self.form is None else self.form.scatter_at(s, distances)

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
        if slope is None:
            return Evaluation(self.distances(), [])
        if self.form is not None:
            return self.form.evaluate(slope)
        distances, total = [], self._zeros()
        for part, rows in self.chunks():
            distances.append(self._inner(rows, rows))  # theory (Dist)
            total = self._add_scatter(total, rows, slope(part, distances[-1]))
        return Evaluation(joined(distances), [symmetrised(S) for S in total])

    def _inner(self, rows: Sequence[Array], images: Sequence[Array]) -> Array:
        products = sum(row_products(a, b) for a, b in zip(rows, images, strict=True))
        return products / self.features.n_blocks

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
        blocks = zip(total, rows, strict=True)
        return [S + flat(block).T @ flat(scale * block) for S, block in blocks]
