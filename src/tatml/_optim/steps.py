"""The steps of solver "newton": primal-dual steps, damped steps, and what decides between them.

A primal-dual step has a predictor and a corrector (docs/theory.md, (NT)). It is computed in the
coordinates of the Nesterov-Todd scaling, in which W and P are the same diagonal matrix. On a GPU,
eigenvalue decompositions of matrices with some hundred rows are very slow. They are avoided where a
Cholesky factorisation is enough, or no factorisation is needed.

A damped step is Newton's on F, with an exact line search: it always descends. It is taken where
primal-dual steps fail. `Pace` is the progress so far, which decides how the next step is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, isfinite, prod, sqrt
from typing import Any

from scipy.optimize import brentq

from .._array import (
    Array,
    eye,
    inner,
    linalg_errors,
    namespace,
    on_gpu,
    smallest,
    stacked,
    unstacked,
)
from .hessian import Direction, dimension
from .linear_systems import (
    ACCURATE_DIMENSION,
    FIRST_PRODUCTS,
    MOST_MISSES,
    NewtonSystem,
    fastest_system,
    most_accurate,
    newton_system,
)
from .problem import Point
from .result import is_converged

CYCLING = 5  # steps without a smaller gap before the hinges are smoothed, once
PATIENCE = 8  # steps without a smaller gap before a damped step is taken
ROUNDING_GAP = 1e-14  # a relative gap below this is mostly rounding error
FORCING = 0.03  # relative residual that conjugate gradients may leave
NEAR = 1e-3  # share of F: from a gap below this, each step should reduce it quickly
SLOW = 0.5  # if a step leaves more than this share of the gap, the next Hessian uses all pairs
BOUNDARY_SHARE = 0.98  # the largest share of the way to the boundary of the cone that a step may go
CUT_SHORT = 0.05  # a primal-dual step shorter than this counts as cut short by the boundary
ROOM = 1e-3  # share of ‖W‖ that is added to W after a step that was cut short
CLOSE = 0.3  # share of F: with a smaller gap P = W⁻¹ is good enough, and needs no eigenvalues
LARGE = 64  # number of rows from which a Cholesky factorisation is tried before eigenvalues
SPREAD = 1e-5  # smallest ratio of two λ that their squares resolve
LARGEST_LENGTH = 100.0  # limit of the step length where the cone has no boundary in the direction
ACCURACY = 1e-6  # relative residual that conjugate gradients may leave in a damped step
SEARCH = {"xtol": 1e-30, "rtol": 1e-3, "maxiter": 500}  # accuracy of the step length, for brentq


@dataclass(frozen=True)
class Step:
    """The step that led to a point, for the history."""

    kind: str
    length: float = 1.0
    tau: float = 1.0
    linear: str = ""
    products: int = 0


@dataclass
class Pace:
    """The settings of the solver and its progress so far, which decide on the next step.

    Parameters
    ----------
    linear_solver : str, default="auto"
        How linear systems are solved, or "auto".
    random_state : RandomState, Generator or None, default=None
        Draws the samples of pairs; None if none may be drawn.
    single : bool, default=False
        Whether products of conjugate gradients may be in float32.
    """

    linear_solver: str = "auto"
    random_state: Any = None
    single: bool = False
    best_gap: float = inf
    best_primal: float = inf
    stale: int = 0  # steps since the gap last improved, or since the last damped step
    slow: bool = False
    n_damped: int = 0  # damped steps that were tried
    smoothed: bool = False
    products: int = FIRST_PRODUCTS
    models: bool = True  # whether steps on a model of the losses have decreased F

    def update(self, point: Point, step: Step) -> None:
        """Update the progress with a new point."""
        self.slow = self.best_gap < NEAR * point.primal and point.gap > SLOW * self.best_gap
        self.stale = 0 if point.gap < self.best_gap or step.kind == "damped" else self.stale + 1
        if point.gap < self.best_gap:
            self.best_gap, self.best_primal = point.gap, point.primal
        self.products = max(self.products, step.products)
        self.models = self.models and self.stale < 2

    def start_smoothing(self) -> None:
        """Note that the hinges are smoothed, which is done once."""
        self.smoothed = True

    def count_damped(self) -> None:
        """Count a damped step that is tried."""
        self.n_damped += 1

    def stop_modelling(self) -> None:
        """Take no more steps on a model of the losses."""
        self.models = False

    def judge_precision(self, is_enough: bool) -> None:
        """Compute products in float32 only as long as that is accurate enough."""
        self.single = self.single and is_enough

    @property
    def at_floor(self) -> bool:
        """Whether the gap is mostly rounding error and no longer decreases."""
        return self.stale > 1 and is_converged(self.best_gap, self.best_primal, ROUNDING_GAP)

    @property
    def cycles(self) -> bool:
        """Whether the active set seems to cycle, far from the solution and for the first time."""
        far = self.best_gap > NEAR * self.best_primal
        return self.stale == CYCLING and far and not self.smoothed

    @property
    def rng(self) -> Any:
        """The source of a sample of the active pairs for the next Hessian; None to use them all."""
        return None if self.slow or self.stale > 1 else self.random_state

    @property
    def forcing(self) -> float:
        """The residual that conjugate gradients may leave, smaller after steps without progress."""
        return FORCING * 0.1 ** min(self.stale, 6)

    def system_at(self, point: Point) -> str:
        """Return how to solve the next system; for "auto", accurately after failed steps."""
        if self.linear_solver != "auto":
            return self.linear_solver
        if self.stale > 2 and dimension(point.problem.sizes) <= ACCURATE_DIMENSION:
            return most_accurate(point)
        return fastest_system(point, self.rng is not None, self.products)


# In a step, blocks of one size are one stack (M, n, n); there is one number or array per stack.
DualFactors = list[Array] | list[float]  # Q of P = Q Qᵀ, or τ of P = τ W⁻¹
PrimalDual = tuple[list[Array], list[Array], float]  # ΔW, ΔP and the scaled Δb0
Reached = tuple[Point, DualFactors, Step]


def backed_off(L: Sequence[Array], share: float) -> list[Array]:
    """Return factors of W + share · ‖W‖ I, farther from the boundary of the cone."""
    grown = []
    for factor in L:
        xp, W = namespace(factor), factor @ factor.T
        room = share * float(xp.max(xp.linalg.eigvalsh(W)))
        grown.append(xp.linalg.cholesky(W + room * eye(W.shape[0], like=W)))
    return grown


def central(point: Point) -> list[float]:
    """Return τ of P = τ W⁻¹ for each stack, τ ≥ 1 so large that P ⪰ I + S(s)."""
    xp = point.problem.xp
    tau = max(1.0, *(float(xp.max(xp.abs(1 + e))) for e in point.eigenvalues))
    return [tau] * len(point.stacks)


def primal_dual_step(
    point: Point, Q: DualFactors, linear_solver: str, rng: Any, pace: Pace
) -> Reached | None:
    """Take a predictor-corrector step; return None where a factorisation fails."""
    try:
        stacks = zip(point.stacks, Q, point.gradient_stacks, strict=True)
        scaling = [Scaling.of(*stack) for stack in stacks]
        right = unstacked([block.right for block in scaling])
        system = newton_system(point, right, linear_solver, rng, pace.single)
        mu = _mean_product(scaling)
        solve = partial(_direction, point, scaling, system, pace.forcing)
        # Any predicted direction will do: only the step itself is checked.
        predicted = solve(1.0, [0.0] * len(scaling), check=False)
        after = _mean_product(scaling, predicted, _step_length(scaling, predicted, 1.0))
        tau = max(1.0, (after / mu) ** 3 * mu)
        corrected = solve(tau, _second_order(scaling, predicted))
        pace.judge_precision(system.misses < MOST_MISSES)
        name, n_products = system.name, system.n_products
        del system, solve  # They may hold copies of the samples, and the next point needs one.
        length = _step_length(scaling, corrected, BOUNDARY_SHARE)
        reached, Q = _advance(point, scaling, corrected, length)
        if length < CUT_SHORT:
            reached = point.problem.at(backed_off(reached.L, ROOM), reached.b0)
            Q = central(reached)
        elif name == "cg" and reached.gap < CLOSE * reached.primal:
            Q = [1.0] * len(scaling)
    except linalg_errors():
        return None
    if not isfinite(reached.primal):
        return None
    return reached, Q, Step("primal-dual", length, tau, name, n_products)


def _direction(
    point: Point,
    scaling: list[Scaling],
    system: NewtonSystem,
    forcing: float,
    tau: float,
    E: Sequence[Array],
    check: bool = True,
) -> PrimalDual:
    """Compute ΔW, ΔP and the scaled Δb0 for the centre τ and the second-order term E."""
    goals = [block.diag(tau / block.lam) - e for block, e in zip(scaling, E, strict=True)]
    rhs = [goal - block.target for goal, block in zip(goals, scaling, strict=True)]
    slope = point.threshold_slope  # theory (NT)
    norm = sqrt(sum(inner(R, R) for R in rhs) + slope * slope)
    solution, db = system.solve(unstacked(rhs), -slope, min(forcing, 0.1 * sqrt(norm)), check)
    dW = stacked(solution)
    blocks = zip(goals, scaling, dW, strict=True)
    return dW, [goal - block.value - V for goal, block, V in blocks], db


def _second_order(scaling: list[Scaling], direction: PrimalDual) -> list[Array]:
    """Compute E_ij = (ΔW ΔP + ΔP ΔW)_ij / (λ_i + λ_j)."""
    dW, dP, _ = direction
    return [
        (V @ R + R @ V) / (block.lam[..., None] + block.lam[..., None, :])
        for block, V, R in zip(scaling, dW, dP, strict=True)
    ]


def _step_length(scaling: list[Scaling], direction: PrimalDual, share: float) -> float:
    """Return the length, at most 1, that takes W or P `share` of the way to the boundary."""
    dW, dP, _ = direction
    return min(block.length(both, share) for block, *both in zip(scaling, dW, dP, strict=True))


def _mean_product(
    scaling: list[Scaling], direction: PrimalDual | None = None, length: float = 0.0
) -> float:
    """Compute ⟨W, P⟩/N, now or after a step."""
    n = sum(prod(block.lam.shape) for block in scaling)
    if direction is None:
        return sum(inner(block.lam, block.lam) for block in scaling) / n
    dW, dP, _ = direction
    total = 0.0
    for block, V, R in zip(scaling, dW, dP, strict=True):
        total += inner(block.value + length * V, block.value + length * R)
    return max(total, 0.0) / n


def _advance(
    point: Point, scaling: list[Scaling], direction: PrimalDual, length: float
) -> tuple[Point, DualFactors]:
    """Return the point after a step, and the factors Q of its P."""
    xp, problem = point.problem.xp, point.problem
    dW, dP, db = direction
    L, Q = [], []
    for block, V, R in zip(scaling, dW, dP, strict=True):
        L.append(block.T @ xp.linalg.cholesky(block.value + length * V))
        Q.append(block.T_inverse_transposed @ xp.linalg.cholesky(block.value + length * R))
    return problem.at(unstacked(L), point.b0 + length * db / sqrt(problem.c0)), Q


@dataclass(frozen=True)
class Scaling:
    """Nesterov-Todd scaling of one block: T⁻¹ W T⁻ᵀ = Tᵀ P T = diag(λ), T = L · right.

    Blocks of one size are scaled together: the matrices then have the shape (M, n, n).
    """

    right: Array
    lam: Array
    T: Array
    T_inverse_transposed: Array
    target: Array
    """Tᵀ(I + S)T, the value that P should have."""

    @classmethod
    def of(cls, L: Array, Q: Array | float, gradient: Array) -> Scaling:
        """Compute the scaling of W = L Lᵀ and P = Q Qᵀ, or of P = τ W⁻¹ if Q is a number τ."""
        xp = namespace(L)  # theory (NT)
        if isinstance(Q, float):
            one = eye(L.shape[-1], like=L)
            lam, right = sqrt(Q) * xp.ones_like(L[..., 0]), xp.zeros_like(L) + one / Q**0.25
            inverse = xp.matrix_transpose(xp.linalg.inv(L)) * Q**0.25
            return cls(right, lam, L / Q**0.25, inverse, (gradient + one) / sqrt(Q))
        QU, lam, V = _decomposed(L, Q)
        root = xp.sqrt(lam)[..., None, :]
        right = V / root
        transposed = xp.matrix_transpose(right)
        target = transposed @ gradient @ right + transposed @ right
        return cls(right, lam, L @ right, QU / root, target)

    @cached_property
    def value(self) -> Array:
        """diag(λ), the value of W and P."""
        return self.diag(self.lam)

    def diag(self, values: Array) -> Array:
        """Return the diagonal matrix of the values."""
        return eye(values.shape[-1], like=values) * values[..., None, :]

    def length(self, directions: Sequence[Array], share: float, large: int = LARGE) -> float:
        """Return the largest a ≤ 1 with diag(λ) + (a/share) V ⪰ 0 for every direction V.

        From `large` rows on, a Cholesky factorisation is tried before eigenvalues.
        """
        if self.lam.shape[-1] >= large:
            directions = [V for V in directions if not self._inside(V / share)]
        if not directions:
            return 1.0
        xp = namespace(self.lam)
        root = xp.sqrt(self.lam)
        every = directions[0] if len(directions) == 1 else xp.stack(directions)
        scaled = every / (root[..., None, :] * root[..., None])
        lowest = smallest(xp.linalg.eigvalsh(scaled))
        return min(1.0, share * (-1 / lowest)) if lowest < 0 else 1.0

    def _inside(self, V: Array) -> bool:
        """Return whether diag(λ) + V ≻ 0."""
        xp = namespace(V)
        try:
            factor = xp.linalg.cholesky(self.value + V)
        except linalg_errors():
            return False
        return bool(xp.all(xp.isfinite(xp.linalg.diagonal(factor))))


def _decomposed(L: Array, Q: Array) -> tuple[Array, Array, Array]:
    """Compute Q U, λ and V of the singular value decomposition QᵀL = U diag(λ) Vᵀ."""
    xp = namespace(L)
    product = xp.matrix_transpose(Q) @ L
    if on_gpu(L):  # ten times as fast there, and accurate if the λ are of similar size
        squares, V = xp.linalg.eigh(xp.matrix_transpose(product) @ product)
        if bool(xp.all(xp.min(squares, axis=-1) > SPREAD**2 * xp.max(squares, axis=-1))):
            lam = xp.sqrt(squares)
            return Q @ (product @ V / lam[..., None, :]), lam, V
    U, lam, Vt = xp.linalg.svd(product)
    return Q @ U, lam, xp.matrix_transpose(Vt)


def damped_step(point: Point, linear_solver: str) -> Reached | None:
    """Minimise F along Newton's direction; return None where F does not measurably decrease."""
    problem, xp = point.problem, point.problem.xp
    try:
        system = newton_system(point, problem.identity(), linear_solver)
        rhs = [-G for G in point.gradient]
        V, b = system.solve(rhs, -point.threshold_slope, ACCURACY)
        length = exact_length(point, (V, b))
        if length == 0:
            return None
        blocks = zip(point.L, problem.identity(), V, strict=True)
        L = [factor @ xp.linalg.cholesky(eye + length * block) for factor, eye, block in blocks]
        reached = problem.at(L, point.b0 + length * b / sqrt(problem.c0))
        Q = central(reached)
    except linalg_errors():
        return None
    return reached, Q, Step("damped", length, 1.0, system.name, system.n_products)


def exact_length(point: Point, direction: Direction) -> float:
    """Return the t that minimises F along a direction; 0 where F does not measurably decrease."""
    xp, (V, b) = point.problem.xp, direction  # theory (LS)
    v = xp.concat([xp.linalg.eigvalsh(block) for block in V])
    losses = point.along(V, b)
    start = sum(float(xp.sum(G * block)) for G, block in zip(point.gradient, V, strict=True))
    start += point.threshold_slope * b

    def slope(t: float) -> float:
        return start + float(xp.sum(t * v**2 / (1 + t * v))) + losses.slope(t) + t * b**2

    def change(t: float) -> float:
        barrier = float(xp.sum(t * v - xp.log1p(t * v)))
        return t * start + barrier + losses.increase(t) + (t * b) ** 2 / 2

    lowest = float(xp.min(v))
    end = min(BOUNDARY_SHARE / -lowest if lowest < 0 else inf, LARGEST_LENGTH)
    if not start < 0:
        return 0.0
    try:
        t = end if slope(end) <= 0 else brentq(slope, 0.0, end, **SEARCH)
    except ValueError:  # brentq: the slope is NaN, for parameters of extreme sizes
        return 0.0
    return t if change(t) < 0 else 0.0
