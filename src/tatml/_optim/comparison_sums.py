"""Sums over comparisons: each row is the distance of one pair minus that of another.

With R the matrix that has a +1 and a −1 in each row, the numbers of the rows are R D, and a sum
over rows with the weights s is a sum over pairs with the weights Rᵀs (docs/theory.md, (Cmp)).
Equal pairs are merged, so that a pair costs the same in however many rows it appears.

A row of a single pair compares it with the pair of a sample with itself, whose distance is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .._array import Array, asarray, compacted, namespace, sum_at
from .pair_sums import PairSums
from .sums import Evaluation, Features


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
