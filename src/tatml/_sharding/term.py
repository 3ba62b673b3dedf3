"""The pairs as a term of the objective where they are in shards: every sum is a sum over shards.

F, gradient, Hessian and certificate are sums over pairs (docs/theory.md, (P), (D) and (N)). Only W
and b0 go to a shard, and only numbers whose size does not depend on K come back: Σφ, Σφ*, γᵀs, S,
a Hessian or its product.

Only the squared hinge is computed in shards: because of φ*(θ s) = θ² φ*(s), one number per shard is
enough for the dual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isinf, sqrt
from typing import Any

import numpy as np

from .._array import Array
from .._optim.certificate import PairTotals
from .._optim.comparison_sums import ComparisonSums
from .._optim.hessian import (
    FUSED_DIMENSION,
    PAIRS_PER_DIMENSION,
    Direction,
    Turned,
    congruent,
    dimension,
)
from .._optim.losses import join_hinges
from .._optim.pair_sums import PairSums
from .._optim.pair_term import PairTerm
from .._optim.sums import Limits, Sums
from .._optim.terms import Term, Totals
from .base import Executor, LossSetting, on_device
from .per_shard import (
    SampledRows,
    ShardHessian,
    assemble_hessian,
    certify_shard,
    evaluate_shard,
    look_along,
    multiply_hessian,
    sample_pairs,
)

START_SAMPLE = 2_000  # Pairs of the sample that determines where a solver starts.


@dataclass(frozen=True)
class DifferenceShapes:
    """The number of pairs and the shapes of their differences, without the differences."""

    sizes: tuple[int, ...]
    widths: tuple[int, ...]
    n_pairs: int

    @property
    def block_shapes(self) -> tuple[tuple[int, int], ...]:
        """(n_m, n'_m) of each block."""
        return tuple(zip(self.sizes, self.widths, strict=True))


@dataclass(frozen=True)
class ShardedTerm:
    """Pairs whose sums are computed by an executor.

    Parameters
    ----------
    executor : Executor
        Calls functions for every shard.
    shapes : DifferenceShapes
        How many pairs there are, and the shapes of their differences.
    setting : LossSetting
        The parameters of their loss.
    factors : tuple of M arrays of shape (n_m, n_m), or None
        C of the prior: shards are in the user's coordinates, points in those of the prior.
    compares : bool
        Whether some of the shards have comparisons.
    """

    executor: Executor
    shapes: DifferenceShapes
    setting: LossSetting
    factors: tuple[Array, ...] | None = None
    compares: bool = False

    quadratic = True
    listed = None

    @property
    def xp(self) -> Any:
        """NumPy, which the results of all executors belong to."""
        return np

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return self.shapes.sizes

    @property
    def widths(self) -> tuple[int, ...]:
        """n'_m of each block."""
        return self.shapes.widths

    @property
    def n_pairs(self) -> int:
        """K."""
        return self.shapes.n_pairs

    @property
    def hessian_share(self) -> float:
        """The share of the pairs that is enough for a sampled Hessian."""
        return PAIRS_PER_DIMENSION * dimension(self.sizes) / self.n_pairs

    def whitened(self, factors: Sequence[Array]) -> ShardedTerm:
        """Return the term for the features CᵀΦ."""
        return replace(self, factors=tuple(factors))

    def with_setting(self, setting: LossSetting) -> ShardedTerm:
        """Return the term with other parameters of the loss."""
        return replace(self, setting=setting)

    def smoothed(self, smoothing: float) -> ShardedTerm:
        """Return the term with smoothed losses."""
        return self.with_setting(self.setting._replace(smoothing=smoothing))

    def in_given_coordinates(self, L: Sequence[Array]) -> list[Array]:
        """Return C L, which maps the user's coordinates to those that whiten W."""
        if self.factors is None:
            return list(L)
        return [C @ factor for C, factor in zip(self.factors, L, strict=True)]

    def at(self, L: Sequence[Array], b0: float) -> ShardsAtPoint:
        """Return the term at W = L Lᵀ and b0; nothing is computed before it is asked for."""
        return ShardsAtPoint(self, self.in_given_coordinates(L), b0)

    def total(self, function: Callable, *args: Any) -> Any:
        """Return the sum of the function over the shards."""
        return self.executor.total(function, self.setting, *args)

    def sample(self, size: int, rng: Any) -> Term:
        """Return about `size` random pairs, or as many as fit, the same share of each shard.

        They are in memory, or stay in shards where these are computed at the same time.
        """
        size = min(size, self.n_pairs, self.executor.largest_sample)
        share, seed = size / self.n_pairs, int(rng.choice(2**31))
        executor = self.executor.sampled(share, seed)
        if executor is None:
            return self._sample_in_memory(share, seed)
        shapes, setting = replace(self.shapes, n_pairs=size), self.setting.scaled(1 / share)
        return replace(self, executor=executor, shapes=shapes, setting=setting)

    def _sample_in_memory(self, share: float, seed: int) -> PairTerm:
        parts = self.executor.gather(sample_pairs, self.setting, share, seed)
        sample = PairTerm(_joined_rows(parts), join_hinges([part.loss for part in parts]))
        if self.factors is not None:
            sample = sample.whitened(self.factors)
        return sample if self.executor.like is None else on_device(sample, self.executor.like)

    def for_start(self) -> PairTerm:
        """Return a sample, which is enough to choose where a solver starts."""
        share = min(START_SAMPLE, self.n_pairs, self.executor.largest_sample) / self.n_pairs
        return self._sample_in_memory(share, int(np.random.default_rng(0).choice(2**31)))

    def certify(self, L: Sequence[Array], b0: float, s: Array | None = None) -> PairTotals:
        """Return the sums at factors in the user's coordinates, with their rounding errors."""
        if s is not None:
            raise ValueError("s: expected None for pairs in shards, got multipliers")
        return self.total(certify_shard, list(L), b0, self.n_pairs)


@dataclass(frozen=True)
class ShardsAtPoint:
    """A sharded term at one (W, b0): sums over the pairs, but no numbers per pair."""

    term: ShardedTerm
    factors: list[Array]
    """Map the user's coordinates to those that whiten W."""
    b0: float

    listed = None

    @cached_property
    def _first_round(self) -> tuple[Totals, ShardHessian | None]:
        small = dimension(self.term.sizes) <= FUSED_DIMENSION
        share = self.term.hessian_share if small else None
        return self.term.total(evaluate_shard, self.factors, self.b0, share)

    @property
    def totals(self) -> Totals:
        """The sums over the pairs."""
        return self._first_round[0]

    def conjugate(self, theta: float) -> float:
        """Return Σ_k φ*_k(θ s_k) + θ oᵀs; φ*(θ s) = θ² φ*(s) holds for the squared hinge."""
        return theta**2 * self.totals.conjugate + theta * self.totals.shift

    def _known_hessian(self, sampled: bool) -> Array | None:
        """Return the Hessian of the first round; None if it is sampled and must be exact."""
        known = self._first_round[1]
        if known is None or not (sampled or known.n_sampled == 0):
            return None
        return known.gram

    def hessian(self, factors: Sequence[Array], c0: float, rng: Any = None) -> Array:
        """Return Σ_k h_k z_k z_kᵀ; with an `rng`, that of a sample."""
        gram = self._known_hessian(sampled=rng is not None)
        if gram is None:
            share = None if rng is None else self.term.hessian_share
            gram = self.term.total(assemble_hessian, self.factors, self.b0, share).gram
        return congruent(_for_threshold(gram, c0), factors)

    def products(self, factors: Sequence[Array], c0: float) -> Turned:
        """Return Σ_k h_k z_k z_kᵀ as an operator."""
        return Turned(ShardedProduct(self, c0), list(factors))

    def along(self, V: Sequence[Array], change: float) -> ShardedLine:
        """Return the losses along the direction V, with b0 changing by `change`."""
        return ShardedLine(self, list(V), change)


@dataclass(frozen=True)
class ShardedProduct:
    """The Hessian of a sharded term as an operator; each product is one pass over the shards."""

    point: ShardsAtPoint
    c0: float

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Return Σ_k h_k z_k z_kᵀ (V, b), in the coordinates that whiten W."""
        point = self.point
        return point.term.total(multiply_hessian, point.factors, point.b0, list(V), b, self.c0)

    def in_single(self, factors: Sequence[Array] | None = None) -> None:
        """Return None: a shard computes its distances in float64 for every product."""


@dataclass(frozen=True)
class ShardedLine:
    """The losses along a direction as functions of t; each value is one pass over the shards."""

    point: ShardsAtPoint
    V: list[Array]
    change: float

    def _at(self, t: float) -> tuple[float, float]:
        point = self.point
        return point.term.total(look_along, point.factors, point.b0, self.V, self.change, t)

    def slope(self, t: float) -> float:
        """Return Σ_k u_k (φ'_k(ζ_k + t u_k) − φ'_k(ζ_k))."""
        return self._at(t)[0]

    def increase(self, t: float) -> float:
        """Return Σ_k φ_k(ζ_k + t u_k) − φ_k(ζ_k) − t u_k φ'_k(ζ_k)."""
        return self._at(t)[1]


def _joined_rows(parts: Sequence[SampledRows]) -> Sums:
    """Return the sums over sampled rows of all shards."""
    features = [np.concatenate(block) for block in zip(*(p.rows for p in parts), strict=True)]
    limits = Limits(svec_bytes=0)  # max_memory does not provide for svec(A_k).
    if all(part.links is None for part in parts):
        return PairSums(features, limits=limits)
    features = [np.concatenate([block, np.zeros_like(block[:1])]) for block in features]
    plus, minus, start, zero = [], [], 0, len(features[0]) - 1  # a pair at distance 0
    for part in parts:
        n_pairs = len(part.rows[0])
        own = np.arange(n_pairs), np.full(n_pairs, zero - start)
        links = own if part.links is None else part.links
        plus.append(start + links[0])
        minus.append(start + links[1])
        start += n_pairs
    pairs = PairSums(features, limits=limits)
    return ComparisonSums(pairs, np.concatenate(plus), np.concatenate(minus))


def _for_threshold(gram: Array, c0: float) -> Array:
    """Return Σ h z zᵀ for this c0, from that for c0 = 1; a fixed threshold has no row."""
    if isinf(c0):
        return gram[:-1, :-1]
    scale = np.ones(len(gram))
    scale[-1] = 1 / sqrt(c0)
    return scale[:, None] * gram * scale
