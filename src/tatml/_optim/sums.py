"""Sums over pairs of samples or comparisons, computed chunk by chunk.

With Δ_{m,k} the difference of the two samples of pair k in block m, a solver needs

    D_k = (1/M) Σ_m ‖Δ_{m,k}‖_F²,   ⟨A_k, V⟩ = (1/M) Σ_m ⟨Δ Δᵀ, V_m⟩,   S_m = (1/M) Σ_k s_k Δ Δᵀ

for features that were multiplied by a factor G (`transformed`): (GᵀΔ)(GᵀΔ)ᵀ = Gᵀ A G. The factor is
applied to the samples, not to the pairs, so its cost does not grow with the number of pairs.
Features are stored transposed, (n_rows, n', n), so that every product is one matrix product.

Where there are many pairs per sample, the sums are computed by products over the samples instead
(`sample_form.py`), unless rounding errors would be larger than those of differences.

A row of `Sums` is a pair (`PairSums`), or a comparison (`ComparisonSums`): the distance of one pair
minus that of another. With R the matrix that has a +1 and a −1 in each row, the numbers of the
comparisons are R D, and a sum over comparisons with the weights s is a sum over pairs with the
weights Rᵀs (docs/theory.md, (Cmp)). Equal pairs are merged, so that a pair costs the same in
however many rows it appears. A row of a single pair compares it with the pair of a sample with
itself, whose distance is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any, NamedTuple

from .._array import (
    Array,
    as_double,
    asarray,
    compacted,
    namespace,
    on_gpu,
    placed,
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
    slices,
)
from .sample_form import DENSE_SHARE, SMALLEST_CHUNK, PairGraph


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
        signs: Sequence[int] | None = None,
    ) -> PairSums:
        """Return the sums over the pairs of these rows of the blocks, or over differences."""
        features = Features(blocks, limits=limits, signs=signs)
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
        signs: Sequence[int] | None = None,
    ) -> PairSums:
        """Store the samples, or the differences if there are no more pairs than samples."""
        sums = cls.of(blocks, first, second, limits=limits, signs=signs)
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
        exact = Features(features.blocks, features.factors, limits, features.signs)
        return PairSums(exact, self.graph)

    def for_certificate(self) -> PairSums:
        """Return the sums over the differences of the same pairs, in float64."""
        return self.converted(as_double).over_differences()

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
        """Compute the differences, or sums, of the pairs in `part`.

        Per block, their shape is (n_part, n'_m, n_m).
        """
        blocks, factors = self.features.blocks, self.features.factors
        if self.graph is None:
            rows = [block[part, ...] for block in blocks]
        else:
            rows = self.graph.rows(blocks, self.features.signs, part)
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
        blocks = zip(self.rows(part), self.features.signs, strict=True)
        rows = self.features.xp.concat([sign * svec_outer(block) for block, sign in blocks], axis=1)
        return rows / self.features.n_blocks

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
        """Compute S_m given the distances, and the magnitude of its numbers (see `Evaluation`)."""
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
            return Evaluation(self.distances(), [], reach)
        if self.form is not None:
            return self.form.evaluate(slope)
        distances, unsigned, total = [], [], self._zeros()
        for part, rows in self.chunks():
            squares = [row_products(block, block) for block in rows]
            distances.append(self.features.combined(squares))  # theory (Dist), (Mid)
            if self.features.has_sums:
                unsigned.append(sum(squares) / self.features.n_blocks)
            total = self._add_scatter(total, rows, slope(part, distances[-1]))
        reach = (lambda: xp.sqrt(joined(unsigned))) if unsigned else None
        return Evaluation(joined(distances), [symmetrised(S) for S in total], reach)

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
        distances, of_pairs = self.distances(), None
        scatter: list[Array] = []
        if slope is not None:
            s = slope(slice(0, self.n_pairs), distances)
            weights = self.links.pair_weights(s, self.pairs.n_pairs)
            scatter, of_pairs = self.pairs.scatter_at(weights, self._pair_distances)

        def reach() -> Array:
            root = self.features.xp.sqrt
            return self.links.norms(root(self._pair_distances) if of_pairs is None else of_pairs)

        return Evaluation(distances, scatter, reach)


# Sums over K rows, each of which is a linear function ⟨A_k, W⟩ of W: A_k = Δ Δᵀ for a pair, or the
# difference of two such matrices for a comparison.
Sums = PairSums | ComparisonSums


@dataclass(frozen=True)
class RoundingBounds:
    """Bounds of the rounding errors of sums over the rows of pairs or comparisons."""

    sums: Sums

    def longest(self) -> float:
        """Bound the root of the largest sum of the distances in a row, from the samples alone."""
        features, total = self.sums.features, 0.0
        for m, block in enumerate(features.blocks):
            factor = None if features.factors is None else features.factors[m]
            scale = 1.0 if factor is None else float(features.xp.sum(factor**2))
            total += scale * float(features.xp.max(row_products(block, block)))
        samples = 1 if self.sums.pairs.graph is None else 2
        return samples * sqrt(total / features.n_blocks * (1 if self.sums.links is None else 2))

    def moved(self, factors: Sequence[Array]) -> Array:
        """Bound the norm of the rounding error of LᵀΔ_k/√M, L the factors; shape (n_pairs,).

        The features have to be samples as given or centred, or differences of such samples. For a
        comparison, it is the root of the sum of squares of both errors.
        """
        moved, links = self._moved_rows(factors), self.sums.links  # theory (Round)
        graph, xp = self.sums.pairs.graph, namespace(moved)
        if graph is not None:
            both, same = graph.summed(moved), graph.first == graph.second
            if not self.sums.features.has_sums:  # a sample minus itself is exactly 0
                both = xp.where(same, xp.zeros_like(moved[:1]), both)
            moved = both
        return moved if links is None else links.norms(moved)

    def _moved_rows(self, factors: Sequence[Array]) -> Array:
        """Bound the norm of the rounding error of each sample or difference."""
        features, total = self.sums.features, 0.0  # theory (Round)
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

    def n_terms(self, n_pairs: int) -> int:
        """Return the largest number of successive roundings in a sum over `n_pairs` rows.

        Comparisons have at most twice as many pairs; the weight of a pair is the sum of at most as
        many numbers as there are comparisons.
        """
        features, by_samples = self.sums.features, self.sums.pairs.form is not None
        n_rows = n_pairs * (1 if self.sums.links is None else 3)
        n_rows += features.n_rows if by_samples else 0
        return n_rows * max(features.widths) + features.numbers_per_row + features.n_blocks + 8
