"""The pairs as a term of the objective where they are in shards: every sum is a sum over shards.

F, gradient, Hessian and certificate are sums over pairs (docs/theory.md, (P), (D) and (N)). Only W
and b0 go to a shard, and only numbers whose size does not depend on K come back: Σφ, Σφ*, γᵀs, S,
a Hessian or its product.

For the dual, the squared hinge needs one number per shard, because φ*(θ s) = θ² φ*(s). For another
loss, a shard returns Σφ*(θ s) for some θ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor, isinf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from .._array import Array, Indices, asarray, eye, to_numpy
from .._optim.certificate import PairTotals
from .._optim.hessian import (
    FUSED_DIMENSION,
    PAIRS_PER_DIMENSION,
    ActivePairs,
    Direction,
    Turned,
    congruent,
    dimension,
)
from .._optim.losses import join_losses
from .._optim.pair_term import PairsAtPoint, PairTerm, totals_at
from .._optim.sums import ComparisonSums, Links, PairSums, Sums
from .._optim.terms import Line, Term, Totals
from .base import LARGEST_SAMPLE, SHARD_LIMITS, LossSetting, SerialExecutor, on_device

if TYPE_CHECKING:
    from .dask import DaskExecutor

# The θ for which shards compute Σφ*(θs) for losses that are not quadratic.
MULTIPLES = np.array([0.0, *np.geomspace(1e-3, 1, 13)])
START_SAMPLE = 2_000  # Pairs of the sample that determines where a solver starts.

ShardHessian = tuple[Array, int]  # Σ h z zᵀ for c0 = 1, and the number of shards that were sampled


@dataclass(frozen=True)
class ShardedTerm:
    """Pairs whose sums are computed by an executor.

    Parameters
    ----------
    executor : SerialExecutor or DaskExecutor
        Calls functions for every shard.
    block_shapes : tuple of M pairs
        (n_m, n'_m), the shapes of the differences.
    n_pairs : int
        K, the number of pairs.
    setting : LossSetting
        The parameters of their loss.
    factors : tuple of M arrays of shape (n_m, n_m), or None
        C of the prior: shards are in the user's coordinates, points in those of the prior.
    compares : bool
        Whether some of the shards have squared hinges with offsets: comparisons, or midpoints.
    center : list of M arrays of shape (n_m, n'_m), or None
        The centre of the midpoints; None without them.
    largest_sample : int
        The largest number of pairs that a sample in memory may have.
    """

    executor: SerialExecutor | DaskExecutor
    block_shapes: tuple[tuple[int, int], ...]
    n_pairs: int
    setting: LossSetting
    factors: tuple[Array, ...] | None = None
    compares: bool = False
    center: Sequence[Array] | None = None
    largest_sample: int = LARGEST_SAMPLE

    like = np.zeros(0)

    @property
    def quadratic(self) -> bool:
        """Whether φ*(θ s) = θ² φ*(s) for all θ."""
        return self.setting.loss in ("squared_hinge", "additive_hinge")

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return tuple(n for n, _ in self.block_shapes)

    @property
    def hessian_share(self) -> float:
        """The share of the pairs that is enough for a sampled Hessian."""
        return PAIRS_PER_DIMENSION * dimension(self.sizes) / self.n_pairs

    def whitened(self, factors: Sequence[Array]) -> ShardedTerm:
        """Return the term for the features CᵀΦ."""
        return replace(self, factors=tuple(factors))

    def smoothed(self, smoothing: float) -> ShardedTerm:
        """Return the term with smoothed losses."""
        return replace(self, setting=self.setting._replace(smoothing=smoothing))

    def at(self, L: Sequence[Array], b0: float) -> ShardsAtPoint:
        """Return the term at W = L Lᵀ and b0; nothing is computed before it is asked for."""
        factors = list(L)
        if self.factors is not None:  # C L maps the user's coordinates to those that whiten W
            factors = [C @ factor for C, factor in zip(self.factors, L, strict=True)]
        return ShardsAtPoint(self, factors, b0)

    def total(self, function: Callable, *args: Any) -> Any:
        """Return the sum of the function over the shards."""
        return self.executor.total(function, self.setting, *args)

    def sample(self, size: int, rng: Any) -> Term:
        """Return about `size` random pairs, or as many as fit, the same share of each shard.

        They are in memory, or stay in shards where these are computed at the same time.
        """
        size = min(size, self.n_pairs, self.largest_sample)
        share, seed = size / self.n_pairs, int(rng.choice(2**31))
        executor = self.executor.sampled(share, seed)
        if executor is None:
            return self._sample_in_memory(share, seed)
        return replace(
            self, executor=executor, n_pairs=size, setting=self.setting.scaled(1 / share)
        )

    def _sample_in_memory(self, share: float, seed: int) -> PairTerm:
        parts = self.executor.gather(sample_pairs, self.setting, share, seed)
        sample = PairTerm(_joined_sums(parts), join_losses([part.loss for part in parts]))
        if self.factors is not None:
            sample = sample.whitened(self.factors)
        return sample if self.executor.like is None else on_device(sample, self.executor.like)

    def for_start(self) -> PairTerm:
        """Return a sample, which is enough to choose where a solver starts."""
        share = min(START_SAMPLE, self.n_pairs, self.largest_sample) / self.n_pairs
        return self._sample_in_memory(share, int(np.random.default_rng(0).choice(2**31)))

    def mean_scatter(self, share: Array | None) -> list[Array]:
        """Return the mean of ΔΔᵀ in each block; the pairs have the weights of their losses."""
        if share is not None:
            raise ValueError("share: expected None for pairs in shards, got weights")
        weight, sums = self.total(sum_scatter)
        return [len(sums) * S / weight for S in sums]

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

    def total(self, function: Callable, *args: Any) -> Any:
        """Return the sum over the shards of a function at this point."""
        return self.term.total(function, self.factors, self.b0, *args)

    @cached_property
    def _first_round(self) -> tuple[Totals, ShardHessian | None, Array | None]:
        small = dimension(self.term.sizes) <= FUSED_DIMENSION
        return self.total(evaluate_shard, self.term.hessian_share if small else None)

    @property
    def totals(self) -> Totals:
        """The sums over the pairs."""
        return self._first_round[0]

    def conjugate(self, theta: float) -> float:
        """Return Σ_k φ*_k(θ s_k) + θ oᵀs; φ*(θ s) = θ² φ*(s) holds for the squared hinge.

        For another loss, it is an upper bound for 0 ≤ θ ≤ 1: a convex function is below its chords.
        """
        conjugates = self._first_round[2]
        if conjugates is None:
            return theta**2 * self.totals.conjugate + theta * self.totals.shift
        return float(np.interp(theta, MULTIPLES, to_numpy(conjugates)))

    def hessian(self, factors: Sequence[Array], c0: float, rng: Any = None) -> Array:
        """Return Σ_k h_k z_k z_kᵀ; with an `rng`, that of a sample."""
        gram, n_sampled = self._first_round[1] or (None, 0)
        if gram is None or (n_sampled > 0 and rng is None):  # it must be exact
            gram, _ = self.total(shard_hessian, None if rng is None else self.term.hessian_share)
        if isinf(c0):  # a fixed threshold has no row
            return congruent(gram[:-1, :-1], factors)
        scale = np.ones(len(gram))
        scale[-1] = 1 / sqrt(c0)  # the shards have computed it for c0 = 1
        return congruent(scale[:, None] * gram * scale, factors)

    def products(self, factors: Sequence[Array], c0: float) -> Turned:
        """Return Σ_k h_k z_k z_kᵀ as an operator."""
        return Turned(ShardedProduct(self, c0), list(factors))

    def along(self, V: Sequence[Array], change: float) -> Line:
        """Return the losses along the direction V, with b0 changing by `change`.

        Each value is one pass over the shards.
        """
        return Line(
            slope=lambda t: self.total(look_along, list(V), change, t)[0],
            increase=lambda t: self.total(look_along, list(V), change, t)[1],
        )


@dataclass(frozen=True)
class ShardedProduct:
    """The Hessian of a sharded term as an operator; each product is one pass over the shards."""

    point: ShardsAtPoint
    c0: float

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Return Σ_k h_k z_k z_kᵀ (V, b), in the coordinates that whiten W."""
        return self.point.total(multiply_hessian, list(V), b, self.c0)

    def in_single(self, factors: Sequence[Array] | None = None) -> None:
        """Return None: a shard computes its distances in float64 for every product."""


def _joined_sums(parts: Sequence[PairTerm]) -> Sums:
    """Return the sums over the sampled rows of all shards, which have their differences."""
    blocks = (part.sums.features.blocks for part in parts)
    features = [np.concatenate(same) for same in zip(*blocks, strict=True)]
    if all(part.sums.links is None for part in parts):
        return PairSums.of(features, limits=SHARD_LIMITS)
    features = [np.concatenate([block, np.zeros_like(block[:1])]) for block in features]
    links, start, zero = [], 0, len(features[0]) - 1  # a pair at distance 0
    for part in parts:
        n_pairs = part.sums.pairs.n_pairs
        own = np.arange(n_pairs), np.full(n_pairs, zero - start)
        links.append(np.add(own if part.sums.links is None else part.sums.links, start))
        start += n_pairs
    return ComparisonSums(
        PairSums.of(features, limits=SHARD_LIMITS), Links(*np.concatenate(links, axis=1))
    )


# The functions that an executor calls for every shard. Each takes the term of the pairs of one
# shard and the index of the shard. It runs where the shard is, and returns numbers and matrices
# whose size does not depend on the number of pairs; only `sample_pairs` returns pairs.


def evaluate_shard(
    term: PairTerm, index: int, L: list[Array], b0: float, share: float | None
) -> tuple[Totals, ShardHessian | None, Array | None]:
    """Return the totals, the Hessian of a share of the pairs unless `share` is None, and Σφ*(θs).

    The last is None for squared hinges, where Σφ*(s) says it, and has one number per θ else.
    """
    point = term.at(L, b0)
    conjugates = None
    if not term.quadratic:
        conjugates = np.array([point.conjugate(theta) for theta in MULTIPLES])
    return point.totals, None if share is None else _hessian(point, index, share), conjugates


def certify_shard(
    term: PairTerm, index: int, L: list[Array], b0: float, n_pairs: int
) -> PairTotals:
    """Return the totals with their rounding errors."""
    return totals_at(term.sums, term.loss, L, b0, n_pairs)


def sum_scatter(term: PairTerm, index: int) -> tuple[float, list[Array]]:
    """Return the total weight of the pairs, and the weighted sums of ΔΔᵀ."""
    weight = term.loss.weight
    return float(np.sum(weight)), term.sums.scatter(weight)


def shard_hessian(
    term: PairTerm, index: int, L: list[Array], b0: float, share: float | None
) -> ShardHessian:
    """Return the Hessian of a share of the pairs, or of all pairs if `share` is None."""
    return _hessian(term.at(L, b0), index, share)


def _hessian(point: PairsAtPoint, index: int, share: float | None) -> ShardHessian:
    k, some, scale = point.totals.n_active, None, 1.0
    sizes = point.term.sums.features.sizes
    d = dimension(sizes)
    if k == 0:
        return np.zeros((d, d)), 0
    enough = k if share is None else ceil(share * point.term.n_pairs)
    if 2 * enough < k:
        chosen = np.random.default_rng(index).choice(k, enough, replace=False)
        some, scale = asarray(chosen, like=point.active), k / enough
    eyes = [eye(n, like=point.L[0]) for n in sizes]
    return point.active_pairs(eyes, 1.0, some, scale).gram(), int(some is not None)


def multiply_hessian(
    term: PairTerm, index: int, L: list[Array], b0: float, V: list[Array], b: float, c0: float
) -> Direction:
    """Return Σ h z zᵀ (V, b)."""
    point = term.at(L, b0)
    if point.active.shape[0] == 0:
        return [0.0 * block for block in V], 0.0
    sums, curvature, gamma = point.sums, point.curvature, term.loss.gamma
    form = sums.pairs.form
    if form is None or not form.whole_is_cheap:
        sums = sums.take(point.active)
        curvature, gamma = curvature[point.active], gamma[point.active]
    return ActivePairs(sums, curvature, gamma, c0).product(V, b)


def look_along(
    term: PairTerm, index: int, L: list[Array], b0: float, V: list[Array], change: float, t: float
) -> tuple[float, float]:
    """Return slope and increase of the losses at t along the direction (see `Line`)."""
    losses = term.at(L, b0).along(V, change)
    return losses.slope(t), losses.increase(t)


def sample_pairs(term: PairTerm, index: int, share: float, seed: int) -> PairTerm:
    """Return a random share of the rows, with their differences, weighted to represent all."""
    # At least one pair from each of very many shards would be more than was asked for. Shard 0
    # always gives one, so that the sample is not empty.
    some = draw_rows(term.n_pairs, index, share, seed, least=int(index == 0))
    chosen = term.sums.take(some)
    return PairTerm(chosen.with_pairs(chosen.pairs.formed()), term.loss.take(some, 1 / share))


def draw_rows(n_rows: int, index: int, share: float, seed: int, least: int) -> Indices:
    """Draw a random share of the rows of a shard; their number is rounded at random."""
    rng = np.random.default_rng([seed, index])
    size = max(least, min(n_rows, floor(share * n_rows + rng.random())))
    return np.sort(rng.choice(n_rows, size, replace=False))
