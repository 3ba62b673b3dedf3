"""Sums over comparisons: each row is the distance of one pair minus that of another.

With R the matrix that has a +1 and a −1 in each row, the numbers of the rows are R D, and a sum
over rows with the weights s is a sum over pairs with the weights Rᵀs (docs/theory.md, (Cmp)).
Equal pairs are merged, so that a pair costs the same in however many rows it appears.

A row of a single pair compares it with the pair of a sample with itself, whose distance is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import sqrt
from typing import Any

from .._array import Array, asarray, compacted, sum_at
from .pair_sums import SMALLEST_CHUNK, PairSums
from .sums import KeptRows, Limits


class ComparisonSums(KeptRows):
    """Sums over K rows, A_t = A_{plus(t)} − A_{minus(t)}, computed by sums over P pairs.

    Parameters
    ----------
    pairs : PairSums
        The sums over the P pairs.
    plus, minus : integer arrays of shape (K,)
        Indices of the two pairs of each row.
    """

    whole_is_cheap = False

    def __init__(self, pairs: PairSums, plus: Array, minus: Array):
        self.pairs, self.plus, self.minus = pairs, plus, minus

    @property
    def xp(self) -> Any:
        """The array namespace of the features."""
        return self.pairs.xp

    @property
    def features(self) -> tuple[Array, ...]:
        """The features of the samples or of the differences, per block."""
        return self.pairs.features

    @property
    def limits(self) -> Limits:
        """Memory limits."""
        return self.pairs.limits

    @property
    def n_blocks(self) -> int:
        """M, the number of blocks."""
        return self.pairs.n_blocks

    @property
    def n_pairs(self) -> int:
        """K, the number of rows."""
        return self.plus.shape[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return self.pairs.sizes

    @property
    def widths(self) -> tuple[int, ...]:
        """n'_m of each block."""
        return self.pairs.widths

    @property
    def numbers_per_pair(self) -> int:
        """Σ n_m n'_m, the numbers in the differences of one pair."""
        return self.pairs.numbers_per_pair

    @property
    def links(self) -> tuple[Array, Array]:
        """The two pairs of each row."""
        return self.plus, self.minus

    def _of(self, pairs: PairSums) -> ComparisonSums:
        """Return the sums over the same rows of other pairs."""
        return ComparisonSums(pairs, self.plus, self.minus)

    def transformed(self, factors: Sequence[Array]) -> ComparisonSums:
        """Return the sums over the same rows for the features GᵀΦ."""
        return self._of(self.pairs.transformed(factors))

    def held(self) -> ComparisonSums:
        """Return sums that hold all differences where a GPU has room for them."""
        return self._of(self.pairs.held())

    def in_single(self) -> ComparisonSums:
        """Return the sums over the same rows with float32 features."""
        return self._of(self.pairs.in_single())

    def for_certificate(self) -> ComparisonSums:
        """Return the sums over the same rows in float64, over differences."""
        return self._of(self.pairs.for_certificate())

    def placed(self, like: Array, features: Sequence[Array] | None = None) -> ComparisonSums:
        """Copy the sums to the device of `like`; `features` are theirs if they are there."""
        plus, minus = asarray(self.plus, like), asarray(self.minus, like)
        return ComparisonSums(self.pairs.placed(like, features), plus, minus)

    def take(self, pairs: Array) -> ComparisonSums:
        """Return the sums over the rows with these indices, and over their pairs alone."""
        take, k = self.xp.take, pairs.shape[0]
        both = self.xp.concat([take(self.plus, pairs, axis=0), take(self.minus, pairs, axis=0)])
        used, places = compacted(both, self.pairs.n_pairs)
        return ComparisonSums(self.pairs.take(used), places[:k], places[k:])

    def _sides(self, values: Array) -> tuple[Array, Array]:
        """Return the values of the two pairs of each row, given one per pair."""
        take = self.xp.take
        return take(values, self.plus, axis=0), take(values, self.minus, axis=0)

    def _difference(self, values: Array) -> Array:
        """Compute R v, shape (K,), given one value per pair."""
        plus, minus = self._sides(values)
        return plus - minus

    def _pair_weights(self, s: Array) -> Array:
        """Compute Rᵀs, shape (P,)."""
        n = self.pairs.n_pairs  # theory (Cmp)
        return sum_at(self.plus, s, n) - sum_at(self.minus, s, n)

    @cached_property
    def _pair_distances(self) -> Array:
        """The distances of the pairs, shape (P,)."""
        return self.pairs.distances()

    def distances(self) -> Array:
        """Compute the difference of the two distances of each row, shape (K,)."""
        return self._difference(self._pair_distances)

    def quadratic(self, V: Sequence[Array]) -> Array:
        """Compute ⟨A_t, V⟩ for symmetric V, shape (K,)."""
        return self._difference(self.pairs.quadratic(V))

    def scatter(self, s: Array) -> list[Array]:
        """Compute S_m = (1/M) Σ_t s_t A_{m,t}, one array (n_m, n_m) per block."""
        return self.pairs.scatter(self._pair_weights(s))

    def product(
        self, V: Sequence[Array], weights: Array, shift: Array
    ) -> tuple[Array, list[Array]]:
        """Compute q_t = w_t (⟨A_t, V⟩ + shift_t) and S(q)."""
        q = weights * (self.quadratic(V) + shift)
        return q, self.scatter(q)

    def distances_and_scatter(
        self, slope: Callable[[slice, Array], Array]
    ) -> tuple[Array, list[Array]]:
        """Compute D, and S for the s that `slope(rows, D of the rows)` returns, in two passes.

        The two pairs of a row may be in different chunks.
        """
        distances = self.distances()
        weights = self._pair_weights(slope(slice(0, self.n_pairs), distances))
        return distances, self.pairs.scatter_at(weights, self._pair_distances)

    def svec_chunks(self, numbers_per_pair: int) -> Iterator[tuple[slice, Array]]:
        """Yield (rows, svec(A_t)/M of these rows), for work on so many numbers per row."""
        room = self.limits.chunk_at(self.features[0])
        step = max(SMALLEST_CHUNK, room // (8 * max(self.numbers_per_pair, numbers_per_pair // 2)))
        for start in range(0, self.n_pairs, step):
            part = slice(start, min(start + step, self.n_pairs))
            yield part, self._svec_of(self.plus[part]) - self._svec_of(self.minus[part])

    def _svec_of(self, pairs: Array) -> Array:
        """Compute svec(A)/M of the pairs with these indices."""
        some = self.pairs.take(pairs)
        return some.svec_rows(some.rows(slice(0, some.n_pairs)))

    def combined(self, gram: Array) -> Array:
        """Return R G Rᵀ, the Gram matrix of the rows, given that of the pairs."""
        take = self.xp.take
        half = take(gram, self.plus, axis=0) - take(gram, self.minus, axis=0)
        return take(half, self.plus, axis=1) - take(half, self.minus, axis=1)

    def longest_difference(self) -> float:
        """Bound the square root of the largest sum of the two distances of a row."""
        return sqrt(2) * self.pairs.longest_difference()

    def rounding(self, factors: Sequence[Array]) -> Array:
        """Bound the root of the sum of squares of the rounding errors of both differences."""
        plus, minus = self._sides(self.pairs.rounding(factors) ** 2)  # theory (Round)
        return self.xp.sqrt(plus + minus)

    def reach(self, distances: Array) -> Array:
        """Return the root of the sum of squares of the magnitudes of both pairs of each row."""
        reach = self.pairs.reach(self._pair_distances)
        squares = self._pair_distances if reach is None else reach * reach
        plus, minus = self._sides(squares)  # theory (Round)
        return self.xp.sqrt(plus + minus)

    def n_terms(self, n_pairs: int) -> int:
        """Return the largest number of successive roundings in a sum over `n_pairs` rows.

        Their pairs are at most twice as many; the weight of a pair is the sum of at most as many
        numbers as there are rows.
        """
        return self.pairs.n_terms(3 * n_pairs)
