"""The pairs as a term of the objective, where they are not all at hand: sums over shards of them.

F, gradient, Hessian and certificate are sums over pairs (docs/theory.md, (P), (D) and (N)). Here
the pairs lie in shards, on disk, on other machines, or as tiles of all pairs. Only W and b0 go to a
shard, and only numbers whose size does not depend on K come back: Σφ, Σφ*, γᵀs, S, a Hessian or its
product. A shard is loaded, computed on by the code for pairs in memory, and dropped.

Only the squared hinge has shards: its φ*(θ s) = θ² φ*(s) makes one number enough for the dual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor, isinf, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .._array import Array, asarray, eye, placed
from .._optim.certificate import PairTotals
from .._optim.hessian import (
    PAIRS_PER_DIMENSION,
    ActivePairs,
    Direction,
    congruent,
    costs,
    dimension,
)
from .._optim.losses import SquaredHinge
from .._optim.pair_sums import PairSums
from .._optim.pair_term import PairsAtPoint, PairTerm, totals_at
from .._optim.problem import squared_hinge
from .._optim.terms import Totals, add

__all__ = [
    "Executor",
    "Layout",
    "Piece",
    "SerialExecutor",
    "Setting",
    "Shard",
    "ShardedTerm",
    "ShardsAtPoint",
    "on_device",
]

START_SAMPLE = 2_000  # pairs that say where to start
FUSED_DIMENSION = 400  # up to it, the pass for F and its gradient brings a (sampled) Hessian along
RECOMPUTED = 2.0  # times the cost: a product over shards finds the active pairs anew


@dataclass(frozen=True, eq=False)
class Piece:
    """The pairs of one shard, in memory."""

    sums: PairSums
    similar: NDArray[np.bool_]
    weights: NDArray[np.float64] | None = None

    @property
    def sign(self) -> NDArray[np.float64]:
        """y_k."""
        return np.where(self.similar, 1.0, -1.0)

    def __len__(self) -> int:
        return self.sums.n_pairs

    def __sizeof__(self) -> int:
        """Bytes, so that dask knows what it would cost to move a piece."""
        vectors = 40 * self.sums.n_pairs
        return vectors + 8 * self.sums.features[0].shape[0] * self.sums.numbers_per_pair

    def term(self, setting: Setting) -> PairTerm:
        """The term of this piece, in the user's coordinates."""
        return PairTerm(self.sums, squared_hinge(self, setting.C, setting.margin))


class Setting(NamedTuple):
    """The loss of the pairs: what a shard needs to know of the problem."""

    C: float
    margin: tuple[float, float]


class Shard(Protocol):
    """Some of the pairs, wherever they are; small, and can be pickled."""

    def load(self, common: Any) -> Piece:
        """Bring the pairs into memory, given what all shards have in common (the samples)."""


class Executor(Protocol):
    """Calls a function for each shard, `function(term of the piece, index, *args)`."""

    largest_sample: int
    """How many pairs a sample in memory may have."""
    like: Array | None
    """An array on the device where sums are made; None: NumPy's."""

    def gather(self, function: Callable, setting: Setting, *args: Any) -> list:
        """The results, in the order of the shards."""

    def total(self, function: Callable, setting: Setting, *args: Any) -> Any:
        """Their sum, always taken in the same order."""


@dataclass
class SerialExecutor:
    """One shard after the other, in this process; one is in memory at a time."""

    shards: Sequence[Shard]
    common: Any = None
    largest_sample: int = 10_000_000
    like: Array | None = None

    def _results(self, function: Callable, setting: Setting, args: tuple) -> Iterator:
        for index, shard in enumerate(self.shards):
            yield function(shard.load(self.common).term(setting), index, *args)

    def gather(self, function: Callable, setting: Setting, *args: Any) -> list:
        """The results, in the order of the shards."""
        return list(self._results(function, setting, args))

    def total(self, function: Callable, setting: Setting, *args: Any) -> Any:
        """Their sum, in the order of the shards."""
        total = None
        for result in self._results(function, setting, args):
            total = result if total is None else add(total, result)
        return total


def on_device(term: PairTerm, like: Array, features: Any = None) -> PairTerm:
    """The same term with its arrays on the device of another array; features may be there."""
    sums = term.sums
    if features is None:
        features = [placed(block, like) for block in sums.features]
    rows = [None if rows is None else asarray(rows, like) for rows in (sums.first, sums.second)]
    return PairTerm(PairSums(features, *rows), term.loss.placed(like))


@dataclass(frozen=True)
class Layout:
    """What is known of the pairs' differences without looking at them."""

    sizes: tuple[int, ...]
    widths: tuple[int, ...]
    n_pairs: int
    xp: Any = np

    @property
    def block_shapes(self) -> tuple[tuple[int, int], ...]:
        """(n_m, n'_m) of each block."""
        return tuple(zip(self.sizes, self.widths, strict=True))


@dataclass(frozen=True)
class ShardedTerm:
    """Pairs whose sums an executor makes.

    Parameters
    ----------
    executor : Executor
        It has the shards.
    layout : Layout
        What is known of the pairs.
    setting : Setting
        Their loss.
    factors : tuple of M arrays of shape (n_m, n_m), or None
        C of the prior: shards are in the user's coordinates, points in those of the prior.
    """

    executor: Executor
    layout: Layout
    setting: Setting
    factors: tuple[Array, ...] | None = None

    quadratic = True
    listed = None

    @property
    def xp(self) -> Any:
        """NumPy: what comes back from the shards is its own."""
        return self.layout.xp

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return self.layout.sizes

    @property
    def n_pairs(self) -> int:
        """K."""
        return self.layout.n_pairs

    @property
    def largest_sample(self) -> int:
        """How many of the pairs a sample in memory may have."""
        return min(self.n_pairs, self.executor.largest_sample)

    @property
    def hessian_share(self) -> float:
        """The share of the pairs that a sampled Hessian should see."""
        return PAIRS_PER_DIMENSION * dimension(self.sizes) / self.n_pairs

    def whitened(self, factors: Sequence[Array]) -> ShardedTerm:
        """The same pairs of the features CᵀΦ."""
        return replace(self, factors=tuple(factors))

    def with_setting(self, setting: Setting) -> ShardedTerm:
        """The same pairs with another loss."""
        return replace(self, setting=setting)

    def in_given_coordinates(self, L: Sequence[Array]) -> list[Array]:
        """C L: from the user's coordinates to those that whiten W."""
        if self.factors is None:
            return list(L)
        return [C @ factor for C, factor in zip(self.factors, L, strict=True)]

    def at(self, L: Sequence[Array], b0: float) -> ShardsAtPoint:
        """Look at W = L Lᵀ and b0."""
        return ShardsAtPoint(self, self.in_given_coordinates(L), b0)

    def total(self, function: Callable, *args: Any) -> Any:
        """Σ over the shards."""
        return self.executor.total(function, self.setting, *args)

    def sample(self, size: int, rng: Any) -> PairTerm:
        """About `size` random pairs, the same share of each shard, in memory."""
        seed = int(rng.choice(2**31))
        parts = self.executor.gather(draw, self.setting, size / self.n_pairs, seed)
        blocks, losses = zip(*parts, strict=True)
        sums = PairSums([np.concatenate(block) for block in zip(*blocks, strict=True)])
        loss = SquaredHinge(*(np.concatenate(part) for part in zip(*losses, strict=True)))
        sample = PairTerm(sums, loss)
        if self.factors is not None:
            sample = sample.whitened(self.factors)
        sample.sums.keeps_svec = False  # the memory of a sample is counted
        return sample if self.executor.like is None else on_device(sample, self.executor.like)

    def for_start(self) -> PairTerm:
        """A sample: where a solver starts needs not be exact."""
        return self.sample(min(START_SAMPLE, self.largest_sample), np.random.default_rng(0))

    def certify(
        self, L: Sequence[Array], b0: float, n_pairs: int, s: Array | None = None
    ) -> PairTotals:
        """The sums at factors in the user's coordinates, with their rounding errors."""
        if s is not None:
            raise ValueError("s: expected None for pairs in shards, got multipliers")
        return self.total(certify, list(L), b0, n_pairs)


@dataclass(frozen=True)
class ShardsAtPoint:
    """Shards seen from one (W, b0): what is a vector of K numbers in memory does not exist here."""

    term: ShardedTerm
    factors: list[Array]
    """From the user's coordinates to those that whiten W."""
    b0: float

    listed = None

    @cached_property
    def _first_round(self) -> tuple[Totals, ShardHessian | None]:
        small = dimension(self.term.sizes) <= FUSED_DIMENSION
        share = self.term.hessian_share if small else None
        return self.term.total(evaluate, self.factors, self.b0, share)

    @property
    def totals(self) -> Totals:
        """The sums."""
        return self._first_round[0]

    def conjugate(self, theta: float) -> float:
        """Σ_k φ*_k(θ s_k) = θ² Σ_k φ*_k(s_k), as the squared hinge has it."""
        return theta**2 * self.totals.conjugate

    def _known_hessian(self, sampled: bool) -> Array | None:
        """What the first round has brought along, unless it is of a sample and must not be."""
        known = self._first_round[1]
        if known is None or not (sampled or known.n_sampled == 0):
            return None
        return known.gram

    def hessian(self, factors: Sequence[Array], c0: float, rng: Any = None) -> Array:
        """Σ_k h_k z_k z_kᵀ; with an `rng`, of a sample."""
        gram = self._known_hessian(sampled=rng is not None)
        if gram is None:
            share = None if rng is None else self.term.hessian_share
            gram = self.term.total(hessian, self.factors, self.b0, share).gram
        return congruent(_scaled(gram, c0), factors)

    def products(self, factors: Sequence[Array], c0: float) -> ShardedProduct:
        """The same as an operator."""
        return ShardedProduct(self, list(factors), c0)

    def along(self, V: Sequence[Array], change: float) -> ShardedLine:
        """The losses along the direction V, b0 changing by `change`."""
        return ShardedLine(self, list(V), change)

    def costs(self, sampled: bool, products: int) -> dict[str, float]:
        """What each way to solve Newton's system would cost here."""
        if self._known_hessian(sampled) is not None:
            return {"dense": 0.0}
        layout, k = self.term.layout, self.totals.n_active
        cost = costs(layout.sizes, layout.widths, k, sampled, products)
        return {"dense": cost["dense"], "cg": RECOMPUTED * cost["cg"]}


@dataclass(frozen=True)
class ShardedProduct:
    """The Hessian of shards as an operator; each product is one round."""

    point: ShardsAtPoint
    factors: list[Array]
    c0: float

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Σ_k h_k z_k z_kᵀ (V, b), by way of the coordinates that whiten W."""
        point, R = self.point, self.factors
        outer = [right @ v @ right.T for right, v in zip(R, V, strict=True)]
        lifted, part = point.term.total(product, point.factors, point.b0, outer, b, self.c0)
        return [right.T @ S @ right for right, S in zip(R, lifted, strict=True)], part


@dataclass(frozen=True)
class ShardedLine:
    """The losses along a direction as functions of t; each value is one round."""

    point: ShardsAtPoint
    V: list[Array]
    change: float

    def _at(self, t: float) -> tuple[float, float]:
        point = self.point
        return point.term.total(along, point.factors, point.b0, self.V, self.change, t)

    def slope(self, t: float) -> float:
        """Σ_k u_k (φ'_k(ζ_k + t u_k) − φ'_k(ζ_k))."""
        return self._at(t)[0]

    def increase(self, t: float) -> float:
        """Σ_k φ_k(ζ_k + t u_k) − φ_k(ζ_k) − t u_k φ'_k(ζ_k)."""
        return self._at(t)[1]


class ShardHessian(NamedTuple):
    """Σ h z zᵀ for c0 = 1, and how many of the shards were sampled."""

    gram: Array
    n_sampled: int


def _scaled(gram: Array, c0: float) -> Array:
    """Σ h z zᵀ for this c0, from that for c0 = 1; a fixed threshold has no row of its own."""
    if isinf(c0):
        return gram[:-1, :-1]
    scale = np.ones(len(gram))
    scale[-1] = 1 / sqrt(c0)
    return scale[:, None] * gram * scale


# What is computed where a shard is: functions of the term of its pairs, and its number.


def evaluate(
    term: PairTerm, index: int, L: list[Array], b0: float, share: float | None
) -> tuple[Totals, ShardHessian | None]:
    """The totals, and the Hessian of a share of the pairs unless that is None."""
    point = term.at(L, b0)
    return point.totals, None if share is None else _hessian(point, index, share)


def certify(term: PairTerm, index: int, L: list[Array], b0: float, n_pairs: int) -> PairTotals:
    """The totals with their rounding errors."""
    return totals_at(term.sums, term.loss, L, b0, n_pairs)


def hessian(
    term: PairTerm, index: int, L: list[Array], b0: float, share: float | None
) -> ShardHessian:
    """The Hessian of a share of the pairs; None: of all."""
    return _hessian(term.at(L, b0), index, share)


def _hessian(point: PairsAtPoint, index: int, share: float | None) -> ShardHessian:
    k, some, scale = point.n_active, None, 1.0
    d = dimension(point.term.sizes)
    if k == 0:
        return ShardHessian(np.zeros((d, d)), 0)
    enough = k if share is None else ceil(share * point.term.n_pairs)
    if 2 * enough < k:
        chosen = np.random.default_rng(index).choice(k, enough, replace=False)
        some, scale = asarray(chosen, like=point.active), k / enough
    eyes = [eye(n, like=point.L[0]) for n in point.term.sizes]
    gram = point.active_pairs(eyes, 1.0, some, scale).gram()
    return ShardHessian(gram, int(some is not None))


def product(
    term: PairTerm, index: int, L: list[Array], b0: float, V: list[Array], b: float, c0: float
) -> Direction:
    """Σ h z zᵀ (V, b)."""
    point = term.at(L, b0)
    if point.n_active == 0:
        return [0.0 * block for block in V], 0.0
    sums, curvature, gamma = point.sums, point.curvature, term.loss.gamma
    if not sums.whole_is_cheap:
        sums = sums.take(point.active)
        curvature, gamma = curvature[point.active], gamma[point.active]
    return ActivePairs(sums, curvature, gamma, c0).product(V, b)


def along(
    term: PairTerm, index: int, L: list[Array], b0: float, V: list[Array], change: float, t: float
) -> tuple[float, float]:
    """The two sums of a `Line`."""
    losses = term.at(L, b0).along(V, change)
    return losses.slope(t), losses.increase(t)


def draw(term: PairTerm, index: int, share: float, seed: int) -> tuple[list[Array], tuple]:
    """Differences and loss of a random share of the pairs, which stand for the others."""
    rng = np.random.default_rng([seed, index])
    # Rounded at random: one pair of each of very many shards would be more than was asked for.
    size = min(term.n_pairs, floor(share * term.n_pairs + rng.random()))
    size = max(size, int(index == 0))  # so that there is one
    some = np.sort(rng.choice(term.n_pairs, size, replace=False))
    chosen, loss = term.sums.take(some), term.loss.take(some, 1 / share)
    return chosen.rows(slice(0, size)), (loss.sign, loss.weight, loss.gamma)
