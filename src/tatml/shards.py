"""The same problem where the pairs are not all at hand: sums over shards of the pairs.

F, gradient, Hessian and certificate are sums over pairs (docs/theory.md, (P), (D) and (N)). Here
the pairs lie in shards, on disk, on other machines, or as tiles of all pairs. Only W and b0 go to a
shard, and only numbers whose size does not depend on K come back: Σφ, Σφ*, γᵀs, S, a Hessian or its
product. A shard is loaded, computed on by the code for problems in memory, and dropped. The solver
is the same too: `ShardedProblem` and `ShardedPoint` answer what it asks of `LogDetProblem` and
`Point`.

Only the squared hinge has shards: its φ*(θ s) = θ² φ*(s) makes one number enough for the dual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, floor
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ._array import Array, asarray, eye, placed, to_numpy
from .certificate import PairTotals
from .hessian import PAIRS_PER_DIMENSION, ActivePairs, Direction, dimension
from .losses import SquaredHinge
from .points import Point
from .problem import LogDetProblem, squared_hinge, totals_at
from .sums import PairSums

__all__ = [
    "Executor",
    "Layout",
    "Piece",
    "SerialExecutor",
    "Setting",
    "Shard",
    "ShardedPoint",
    "ShardedProblem",
    "add",
    "on_device",
]

START_SAMPLE = 2_000  # pairs that say where to start
FUSED_DIMENSION = 400  # up to it, the pass for F and its gradient brings a (sampled) Hessian along


@dataclass(frozen=True, eq=False)
class Piece:
    """The pairs of one shard, in memory."""

    sums: PairSums
    similar: Array
    weights: Array | None = None

    @property
    def sign(self) -> Array:
        """y_k."""
        return np.where(self.similar, 1.0, -1.0)

    def __len__(self) -> int:
        return self.sums.n_pairs

    def __sizeof__(self) -> int:
        """Bytes, so that dask knows what it would cost to move a piece."""
        vectors = 40 * self.sums.n_pairs
        return vectors + 8 * self.sums.features[0].shape[0] * self.sums.numbers_per_pair

    def problem(self, setting: Setting) -> LogDetProblem:
        """The sums of this piece, in the user's coordinates."""
        loss = squared_hinge(self, setting.C, setting.margin)
        return LogDetProblem(self.sums, loss, setting.c0, setting.mu0, ())


class Setting(NamedTuple):
    """What a shard needs to know of the problem."""

    C: float
    margin: tuple[float, float]
    c0: float
    mu0: float


class Shard(Protocol):
    """Some of the pairs, wherever they are; small, and can be pickled."""

    def load(self, common: Any) -> Piece:
        """Bring the pairs into memory, given what all shards have in common (the samples)."""


class Executor(Protocol):
    """Calls a function for each shard, `function(problem of the piece, index, *args)`."""

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
            yield function(shard.load(self.common).problem(setting), index, *args)

    def gather(self, function: Callable, setting: Setting, *args: Any) -> list:
        """The results, in the order of the shards."""
        return list(self._results(function, setting, args))

    def total(self, function: Callable, setting: Setting, *args: Any) -> Any:
        """Their sum, in the order of the shards."""
        total = None
        for result in self._results(function, setting, args):
            total = result if total is None else add(total, result)
        return total


def on_device(problem: LogDetProblem, like: Array, features: Any = None) -> LogDetProblem:
    """The same problem with its arrays on the device of another array; features may be there."""
    sums = problem.sums
    if features is None:
        features = [placed(block, like) for block in sums.features]
    rows = [None if rows is None else asarray(rows, like) for rows in (sums.first, sums.second)]
    factors = tuple(placed(C, like) for C in problem.prior_factors)
    moved, loss = PairSums(features, *rows), problem.loss.placed(like)
    return LogDetProblem(moved, loss, problem.c0, problem.mu0, factors)


def add(a: Any, b: Any) -> Any:
    """The sum of two results: numbers, arrays, and tuples or lists of them."""
    return type(a)(map(add, a, b)) if type(a) in (list, tuple) else a + b


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
class ShardedProblem(LogDetProblem):
    """A `LogDetProblem` whose sums over pairs an executor makes; see there.

    Parameters
    ----------
    sums : Layout
        Sizes only.
    loss : None
        It is made where the pairs are.
    executor : Executor
        It has the shards.
    setting : Setting
        C, margin, and the same c0 and mu0.
    """

    executor: Executor = field(repr=False, kw_only=True)
    setting: Setting = field(kw_only=True)

    in_shards: ClassVar[bool] = True
    quadratic: ClassVar[bool] = True

    @classmethod
    def over(cls, executor: Executor, layout: Layout, setting: Setting) -> ShardedProblem:
        """The problem with the identity as prior."""
        factors = tuple(np.eye(n) for n in layout.sizes)
        return cls(
            layout,
            None,
            setting.c0,
            setting.mu0,
            factors,
            executor=executor,
            setting=setting,
        )

    def with_prior(self, prior: Sequence[Array]) -> ShardedProblem:
        """The same problem for another prior, given that this one's is the identity."""
        factors = tuple(np.linalg.cholesky(W0) for W0 in prior)
        return replace(self, prior_factors=factors, prior=tuple(prior))

    def with_setting(self, setting: Setting) -> ShardedProblem:
        """The same pairs with other numbers."""
        return replace(self, setting=setting, c0=setting.c0, mu0=setting.mu0)

    def at(self, L: Sequence[Array], b0: float) -> ShardedPoint:
        """Look at W_m = L_m L_mᵀ and b0; nothing is computed before it is asked for."""
        return ShardedPoint(self, tuple(map(to_numpy, L)), float(b0))

    def exact_totals(self, L: Sequence[Array], b0: float, s: Array | None) -> PairTotals:
        """Sums over the pairs at factors in the user's coordinates, with their rounding errors."""
        return PairTotals(*self.total(certify, list(L), b0, self.n_pairs))

    def total(self, function: Callable, *args: Any) -> Any:
        """Σ over the shards."""
        return self.executor.total(function, self.setting, *args)

    @property
    def largest_sample(self) -> int:
        """How many of the pairs a sample in memory may have."""
        return min(self.n_pairs, self.executor.largest_sample)

    @property
    def hessian_share(self) -> float:
        """The share of the pairs that a sampled Hessian should see."""
        return PAIRS_PER_DIMENSION * dimension(self) / self.n_pairs

    def sample(self, size: int, rng: Any) -> LogDetProblem:
        """The problem of about `size` random pairs, the same share of each shard, in memory."""
        seed = int(rng.choice(2**31))
        parts = self.executor.gather(draw, self.setting, size / self.n_pairs, seed)
        blocks, losses = zip(*parts, strict=True)
        sums = PairSums([np.concatenate(block) for block in zip(*blocks, strict=True)])
        loss = SquaredHinge(*(np.concatenate(part) for part in zip(*losses, strict=True)))
        sums = sums.transformed(self.prior_factors)
        sums.keeps_svec = False  # the memory of a sample is counted
        sample = LogDetProblem(sums, loss, self.c0, self.mu0, self.prior_factors)
        return sample if self.executor.like is None else on_device(sample, self.executor.like)

    def scaled_start(self, longest: float) -> tuple[float, float]:
        """t ≤ 1 for which the mean distance at W = t W0 is about `longest` at most, and a good b0.

        From a sample: where a solver starts needs not be exact.
        """
        size = min(START_SAMPLE, self.largest_sample)
        return self.sample(size, np.random.default_rng(0)).scaled_start(longest)


class ShardedPoint(Point):
    """A `Point` of a sharded problem: what is a vector of K numbers there does not exist here."""

    slope = None  # what a result keeps as multipliers

    def quick_certificate(self, triangular: Sequence[Array]) -> None:
        """None: a certificate is one more round."""

    @property
    def sums(self) -> Layout:
        """Sizes only."""
        return self.problem.sums

    @cached_property
    def _factors(self) -> list[Array]:
        """From the user's coordinates to those that whiten W."""
        return [C @ L for C, L in zip(self.problem.prior_factors, self.L, strict=True)]

    @cached_property
    def _totals(self) -> tuple:
        share = self.problem.hessian_share if dimension(self.problem) <= FUSED_DIMENSION else None
        return self.problem.total(evaluate, self._factors, self.b0, share)

    @property
    def loss_value(self) -> float:
        """Σ_k φ_k(ζ_k)."""
        return self._totals[0]

    @property
    def force(self) -> float:
        """γᵀs."""
        return self._totals[1]

    def conjugate(self, theta: float) -> float:
        """Σ_k φ*_k(θ s_k) = θ² Σ_k φ*_k(s_k), as the squared hinge has it."""
        return theta**2 * self._totals[2]

    @property
    def n_active(self) -> int:
        """How many pairs are active."""
        return self._totals[3]

    @property
    def scatter(self) -> list[Array]:
        """LᵀS(s)L."""
        return self._totals[4]

    @property
    def has_hessian(self) -> bool:
        """Whether a Hessian, perhaps of a sample, is already known."""
        return len(self._totals) > 5

    @property
    def has_whole_hessian(self) -> bool:
        """Whether that of all pairs is."""
        return self.has_hessian and self._totals[6] == 0

    def hessian(self, sampled: bool) -> Array:
        """Σ_k h_k z_k z_kᵀ in the coordinates that whiten W; of a sample, or of all pairs."""
        if self.has_whole_hessian or (sampled and self.has_hessian):
            return self._totals[5]
        share = self.problem.hessian_share if sampled else None
        return self.problem.total(hessian, self._factors, self.b0, share)[0]

    def hessian_product(self, V: Sequence[Array], b: float) -> Direction:
        """Σ_k h_k z_k z_kᵀ (V, b) in the same coordinates."""
        return self.problem.total(product, self._factors, self.b0, list(V), b)

    def along(self, V: Sequence[Array], b: float) -> ShardedAlong:
        """The losses along a direction."""
        return ShardedAlong(self, list(V), b)


@dataclass(frozen=True)
class ShardedAlong:
    """The losses along a direction as functions of t; each value is one round."""

    point: ShardedPoint
    V: list[Array]
    b: float

    def _at(self, t: float) -> tuple[float, float]:
        point = self.point
        return point.problem.total(along, point._factors, point.b0, self.V, self.b, t)

    def slope(self, t: float) -> float:
        """Σ_k u_k (φ'_k(ζ_k + t u_k) − φ'_k(ζ_k))."""
        return self._at(t)[0]

    def increase(self, t: float) -> float:
        """Σ_k φ_k(ζ_k + t u_k) − φ_k(ζ_k) − t u_k φ'_k(ζ_k)."""
        return self._at(t)[1]


# What is computed where a shard is: functions of the problem of its pairs, and its number.


def evaluate(problem: LogDetProblem, index: int, L, b0: float, share: float | None) -> tuple:
    """(Σφ, γᵀs, Σφ*, n_active, S), and the Hessian of a share of the pairs unless it is None."""
    point = problem.at(L, b0)
    totals = (point.loss_value, point.force, point.conjugate(1.0), point.n_active, point.scatter)
    return totals if share is None else totals + _hessian(point, index, share)


def certify(problem: LogDetProblem, index: int, L, b0: float, n_pairs: int) -> tuple:
    """The `PairTotals` of a shard."""
    return totals_at(problem.sums, problem.loss, L, b0, n_pairs).values()


def hessian(problem: LogDetProblem, index: int, L, b0: float, share: float | None) -> tuple:
    """Σ h z zᵀ, and how many of the shards were sampled."""
    return _hessian(problem.at(L, b0), index, share)


def _hessian(point: Point, index: int, share: float | None) -> tuple[Array, int]:
    k, some, scale = point.n_active, None, 1.0
    d = dimension(point.problem) - (not point.problem.learns_threshold)
    if k == 0:
        return np.zeros((d, d)), 0
    enough = k if share is None else ceil(share * point.problem.n_pairs)
    if 2 * enough < k:
        chosen = np.random.default_rng(index).choice(k, enough, replace=False)
        some, scale = asarray(chosen, like=point.active), k / enough
    eyes = [eye(n, like=point.L[0]) for n in point.problem.sizes]
    pairs = ActivePairs(*point.active_pairs(eyes, some, scale))
    return pairs.gram(), int(some is not None)


def product(problem: LogDetProblem, index: int, L, b0: float, V, b: float) -> tuple:
    """Σ h z zᵀ (V, b)."""
    point = problem.at(L, b0)
    if point.n_active == 0:
        return [0.0 * block for block in V], 0.0
    sums, curvature, gamma = point.sums, point.curvature, problem.loss.gamma
    if not sums.whole_is_cheap:
        sums = sums.take(point.active)
        curvature, gamma = curvature[point.active], gamma[point.active]
    return ActivePairs(sums, curvature, gamma, problem.c0).product(V, b)


def along(problem: LogDetProblem, index: int, L, b0: float, V, b: float, t: float) -> tuple:
    """The two sums of `Along`."""
    losses = problem.at(L, b0).along(V, b)
    return losses.slope(t), losses.increase(t)


def draw(problem: LogDetProblem, index: int, share: float, seed: int) -> tuple:
    """Differences and loss of a random share of the pairs, which stand for the others."""
    rng = np.random.default_rng([seed, index])
    # Rounded at random: one pair of each of very many shards would be more than was asked for.
    size = min(problem.n_pairs, floor(share * problem.n_pairs + rng.random()))
    size = max(size, int(index == 0))  # so that there is one
    some = np.sort(rng.choice(problem.n_pairs, size, replace=False))
    chosen, loss = problem.sums.take(some), problem.loss.take(some, 1 / share)
    return chosen.rows(slice(0, size)), (loss.sign, loss.weight, loss.gamma)
