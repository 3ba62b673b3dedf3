"""Solver "newton": guarded primal-dual Newton, certified at every step.

It keeps W and P = I + S(s) as two positive definite variables and aims at W P = τ I, with τ = 1 at
the solution (docs/theory.md, (NT)). Near the boundary of the cone, where Newton on the primal alone
crawls, it still takes long steps. Four guards make it safe:

- a step that the boundary stops short moves W back into the cone and P onto the central ray;
- where a factorisation fails, or the gap has not improved for some steps (the active set cycles),
  a damped Newton step on F with an exact line search takes over: it always descends;
- where that does not descend, or has to help again and again, damped steps with multipliers that
  Newton predicts, and then Newton's method on the dual, are the last resort;
- where no point can be proved to be better, the status is PRECISION.

Very many pairs are rehearsed on a random sample first, and their Hessian is assembled from a sample
too. Gradient and certificate are always those of all pairs, so the answer is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite, sqrt
from typing import Any

from scipy.optimize import brentq

from .._array import Array, eye, linalg_errors, namespace, on_gpu, placed
from .certificate import excess_by_cholesky
from .dual_newton import can_finish_in_dual, finish_in_dual
from .hessian import dimension
from .linear_systems import FIRST_PRODUCTS, Direction, NewtonSystem, newton_system
from .monitor import FoundPoint, Monitor
from .nt_scaling import Scaling
from .point import Point
from .problem import LogDetProblem
from .result import Result, Status, is_converged

__all__ = ["newton"]

START_DISTANCE = 1e4  # mean distance at the start: from too large a W, Newton finds back fast
LONGEST = 0.98  # of the way to the boundary of the cone
SHORTEST = 0.05  # a step below this was stopped short, and W moves back by
ROOM = 1e-3  # of ‖W‖
TURN = 0.01  # of ‖W‖: the most room that W is given after a rehearsal
CLOSE = 0.3  # of F: with a gap below it P = W⁻¹ will do, and nothing has to be decomposed
PATIENCE = 8  # steps without a better gap before a damped step
MOST_POLISHED = 30  # damped steps at the end, with predicted multipliers
MOST_RESCUES = 8  # times that patience ends before the last resort is tried
ACCURATE_DIMENSION = 1_000  # up to it, three such steps are followed by a dense system
SEARCH = {"xtol": 1e-30, "rtol": 1e-3, "maxiter": 500}  # of the step length
FLOOR = 1e-14  # a relative gap below it is rounding
FORCING = 0.03  # relative residual that conjugate gradients may leave
SAMPLE = 20_000  # pairs of the smallest rehearsal
GPU_SAMPLE = 100_000  # the same on a GPU, where a step takes its time however few pairs there are
REHEARSAL_TOL = 1e-4
NEAR = 1e-3  # of F: a gap below it should fall fast
SLOW = 0.5  # of the gap: where a step leaves more, the next Hessian is that of all pairs

Start = tuple[Sequence[Array], float]
DualFactors = list[Array] | list[float]  # Q of P = Q Qᵀ, or τ of P = τ W⁻¹, per block
PrimalDual = tuple[list[Array], list[Array], float]  # ΔW, ΔP and the scaled Δb0


@dataclass(frozen=True)
class Step:
    """How a point was reached, for the history."""

    kind: str
    length: float = 1.0
    tau: float = 1.0
    linear: str = ""
    products: int = 0


Reached = tuple[Point, DualFactors, Step]


@dataclass
class _Pace:
    """What the steps so far say about the next one."""

    best_gap: float = inf
    best_primal: float = inf
    stale: int = 0
    slow: bool = False
    at_floor: bool = False
    rescues: int = 0
    products: int = FIRST_PRODUCTS

    def note(self, point: Point, step: Step) -> None:
        """Take a new point into account."""
        self.slow = self.best_gap < NEAR * point.primal and point.gap > SLOW * self.best_gap
        self.stale = 0 if point.gap < self.best_gap or step.kind == "damped" else self.stale + 1
        if point.gap < self.best_gap:
            self.best_gap, self.best_primal = point.gap, point.primal
        self.products = max(self.products, step.products)
        self.at_floor = self.stale > 1 and is_converged(self.best_gap, self.best_primal, FLOOR)

    def wants_accuracy(self, problem: LogDetProblem) -> bool:
        """Whether to try the most accurate system, because the others lead nowhere."""
        return self.stale > 2 and dimension(problem.sizes) <= ACCURATE_DIMENSION

    @property
    def forcing(self) -> float:
        """What conjugate gradients may leave: less when the last steps led nowhere."""
        return FORCING * 0.1 ** min(self.stale, 6)


def newton(
    problem: LogDetProblem,
    monitor: Monitor,
    *,
    start: Start | None = None,
    linear_solver: str = "auto",
    random_state: Any = None,
) -> Result:
    """Minimise F from `start` (factors L and b0) until the monitor says stop."""
    return monitor.result(_minimise(problem, monitor, start, linear_solver, random_state))


def _minimise(
    problem: LogDetProblem,
    monitor: Monitor,
    start: Start | None,
    linear_solver: str,
    random_state: Any,
) -> Status:
    """The same; the best point is left to the monitor."""
    start = start or _first_guess(problem, monitor, linear_solver, random_state)
    point, step, pace = problem.at(*start), Step("start"), _Pace()
    Q: DualFactors = _central(point)
    while True:
        status = monitor.record(monitor.n_records, point, **vars(step))
        if status is not None:
            return status
        pace.note(point, step)
        reached = None
        if pace.stale < PATIENCE:
            rng = None if pace.slow or pace.stale > 1 else random_state
            accurate = linear_solver == "auto" and pace.wants_accuracy(problem)
            way = _most_accurate(point) if accurate else linear_solver
            reached = _primal_dual_step(point, Q, way, rng, pace)
        else:
            pace.rescues += 1
        if pace.at_floor:
            return Status.PRECISION
        if reached is None:
            reached = _damped_step(point, linear_solver)
        if _has_last_resort(problem) and (reached is None or pace.rescues == MOST_RESCUES):
            status, polished = _last_resort(problem, monitor)
            if reached is None or status is not Status.PRECISION:
                return status
            pace.rescues += 1  # once is enough
            reached = polished, _central(polished), Step("polished")
        if reached is None:
            return Status.PRECISION
        point, Q, step = reached


def _has_last_resort(problem: LogDetProblem) -> bool:
    """Whether multipliers are known one by one, and their loss is quadratic."""
    return problem.is_listed and problem.quadratic


def _last_resort(problem: LogDetProblem, monitor: Monitor) -> tuple[Status, Point]:
    """Two ways that do not trust multipliers read off rounded distances.

    First damped steps on F from the best point, with the multipliers that each predicts; then, for
    few active pairs, Newton's method on the dual. The point that the former reached is returned.
    """
    point, step = problem.at(monitor.found.L, monitor.found.b0), Step("polished")
    for _ in range(MOST_POLISHED):
        direction = _newton_direction(point)
        if direction is None:
            break
        status = monitor.record(monitor.n_records, _polished(point, direction), **vars(step))
        if status is not None:
            return status, point
        reached = _searched(point, direction)
        if reached is None:
            break
        point, step = reached[0], Step("polished", reached[1], linear="dense")
    if not can_finish_in_dual(problem, monitor.found.n_active):
        return Status.PRECISION, point
    return finish_in_dual(problem, monitor, vars(Step("dual"))), point


def _polished(point: Point, direction: Direction) -> FoundPoint:
    """The point with the multipliers that a Newton step from it predicts: s + φ'' u.

    Near the solution of a stiff problem they are right where φ' at the point is rounding alone.
    """
    problem, pairs, (V, b) = point.problem, point.pairs, direction  # theory (Polish)
    xp, loss = problem.xp, pairs.loss
    s = pairs.slope + pairs.curvature * pairs.along(V, b / sqrt(problem.c0)).u
    s = xp.where(loss.sign * s > 0, s, xp.zeros_like(s))
    gap = sum(map(excess_by_cholesky, point.residual(pairs.sums.scatter(s))))
    residual = problem.threshold_residual(point.b0, s)
    gap += residual * residual / 2
    gap += float(xp.sum(loss.gap(pairs.zeta, s)))
    return FoundPoint(point.L, point.b0, point.primal, max(gap, 0.0), s, point.n_active)


def _first_guess(
    problem: LogDetProblem, monitor: Monitor, linear_solver: str, random_state: Any
) -> Start:
    """The prior with its best threshold; for many pairs, the solution of a random sample."""
    n_pairs = problem.n_pairs
    least = GPU_SAMPLE if on_gpu(problem.prior_factors[0]) else SAMPLE
    if random_state is None or n_pairs <= 4 * least:
        return _scaled_prior(problem)
    size = min(max(least, n_pairs // 8), problem.largest_sample)
    sample = problem.sample(size, random_state)
    rehearsal = Monitor(
        sample, tol=REHEARSAL_TOL, max_iter=50, verbose=monitor.verbose, proves=False
    )
    rehearsal.note(f"Rehearsal on {size:,} of {n_pairs:,} pairs.")
    try:
        _minimise(sample, rehearsal, None, linear_solver, random_state)
    except KeyboardInterrupt:
        if rehearsal.best is not None:  # what it found is a point of the whole problem too
            found = problem.at(_brought(problem, rehearsal.found.L), rehearsal.found.b0)
            monitor.record(0, found, **vars(Step("start")))
        raise
    rehearsal.note(f"All {n_pairs:,} pairs.")
    # A sample leaves an angle of about √(d/size) open: room for W to turn by it.
    share = min(TURN, dimension(problem.sizes) / size)
    return _backed_off(_brought(problem, rehearsal.found.L), share), rehearsal.found.b0


def _brought(problem: LogDetProblem, L: Sequence[Array]) -> list[Array]:
    """Factors from where a sample was solved to where the problem is."""
    return [placed(factor, C) for factor, C in zip(L, problem.prior_factors, strict=True)]


def _backed_off(L: Sequence[Array], share: float) -> list[Array]:
    """Factors of W + share · ‖W‖ I: away from the boundary of the cone, where steps are short."""
    grown = []
    for factor in L:
        xp, W = namespace(factor), factor @ factor.T
        room = share * float(xp.max(xp.linalg.eigvalsh(W)))
        grown.append(xp.linalg.cholesky(W + room * eye(W.shape[0], like=W)))
    return grown


def _scaled_prior(problem: LogDetProblem) -> Start:
    """W = t I with its best threshold, t = 1 unless the data's units make distances huge."""
    t, b0 = problem.scaled_start(START_DISTANCE)
    return [sqrt(t) * eye for eye in problem.identity()], b0


def _central(point: Point) -> list[float]:
    """τ of P = τ W⁻¹ for each block, τ ≥ 1 large enough to cover I + S(s)."""
    xp = point.problem.xp
    tau = max(1.0, *(float(xp.max(xp.abs(1 + e))) for e in point.eigenvalues))
    return [tau] * len(point.L)


def _primal_dual_step(
    point: Point, Q: DualFactors, linear_solver: str, rng: Any, pace: _Pace
) -> Reached | None:
    """Predict, then centre and correct; None where a factorisation fails."""
    try:
        scaling = [Scaling.of(*block) for block in zip(point.L, Q, point.gradient, strict=True)]
        system = newton_system(
            point, [block.right for block in scaling], linear_solver, rng, pace.products
        )
        mu = _mean_product(scaling)
        solve = partial(_direction, point, scaling, system, pace.forcing)
        predicted = solve(1.0, [0.0] * len(scaling))
        after = _mean_product(scaling, predicted, _step_length(scaling, predicted, 1.0))
        tau = max(1.0, (after / mu) ** 3 * mu)
        corrected = solve(tau, _second_order(scaling, predicted))
        length = _step_length(scaling, corrected, LONGEST)
        reached, Q = _advance(point, scaling, corrected, length)
        if length < SHORTEST:
            reached = point.problem.at(_backed_off(reached.L, ROOM), reached.b0)
            Q = _central(reached)
        elif system.name == "cg" and reached.gap < CLOSE * reached.primal:
            Q = [1.0] * len(scaling)
    except linalg_errors():
        return None
    if not isfinite(reached.primal):
        return None
    return reached, Q, Step("primal-dual", length, tau, system.name, system.n_products)


def _direction(
    point: Point,
    scaling: list[Scaling],
    system: NewtonSystem,
    forcing: float,
    tau: float,
    E: Sequence[Array],
) -> PrimalDual:
    """ΔW, ΔP and the scaled Δb0 for the centre τ and the second-order term E."""
    xp = point.problem.xp  # theory (NT)
    goals = [block.diag(tau / block.lam) - e for block, e in zip(scaling, E, strict=True)]
    rhs = [goal - block.target for goal, block in zip(goals, scaling, strict=True)]
    norm = sqrt(
        sum(float(xp.sum(R * R)) for R in rhs) + point.threshold_slope * point.threshold_slope
    )
    dW, db = system.solve(rhs, -point.threshold_slope, min(forcing, 0.1 * sqrt(norm)))
    blocks = zip(goals, scaling, dW, strict=True)
    return dW, [goal - block.diag(block.lam) - V for goal, block, V in blocks], db


def _second_order(scaling: list[Scaling], direction: PrimalDual) -> list[Array]:
    """E_ij = (ΔW ΔP + ΔP ΔW)_ij / (λ_i + λ_j)."""
    dW, dP, _ = direction
    return [
        (V @ R + R @ V) / (block.lam[:, None] + block.lam)
        for block, V, R in zip(scaling, dW, dP, strict=True)
    ]


def _step_length(scaling: list[Scaling], direction: PrimalDual, share: float) -> float:
    """How far W and P may go, as a share of the way to the boundary; at most 1."""
    dW, dP, _ = direction
    return min(
        block.length(V, share)
        for V_list in (dW, dP)
        for block, V in zip(scaling, V_list, strict=True)
    )


def _mean_product(
    scaling: list[Scaling], direction: PrimalDual | None = None, length: float = 0.0
) -> float:
    """⟨W, P⟩/N, here or after a step."""
    n = sum(block.lam.shape[0] for block in scaling)
    if direction is None:
        return sum(float(namespace(block.lam).sum(block.lam**2)) for block in scaling) / n
    dW, dP, _ = direction
    total = 0.0
    for block, V, R in zip(scaling, dW, dP, strict=True):
        lam = block.diag(block.lam)
        total += float(namespace(lam).sum((lam + length * V) * (lam + length * R)))
    return max(total, 0.0) / n


def _advance(
    point: Point, scaling: list[Scaling], direction: PrimalDual, length: float
) -> tuple[Point, DualFactors]:
    """The point after a step, and the factors Q of its P."""
    xp, problem = point.problem.xp, point.problem
    dW, dP, db = direction
    L, Q = [], []
    for block, V, R in zip(scaling, dW, dP, strict=True):
        lam = block.diag(block.lam)
        L.append(block.T @ xp.linalg.cholesky(lam + length * V))
        Q.append(block.T_inverse_transposed @ xp.linalg.cholesky(lam + length * R))
    return problem.at(L, point.b0 + length * db / sqrt(problem.c0)), Q


def _damped_step(point: Point, linear_solver: str) -> Reached | None:
    """A Newton step on F, exactly searched; None where floating point cannot descend."""
    try:
        system = newton_system(point, point.problem.identity(), linear_solver)
        direction = system.solve([-G for G in point.gradient], -point.threshold_slope, 1e-6)
        found = _searched(point, direction)
        if found is None:
            return None
        reached, length = found
        Q = _central(reached)
    except linalg_errors():
        return None
    return reached, Q, Step("damped", length, 1.0, system.name, system.n_products)


def _newton_direction(point: Point) -> Direction | None:
    """The Newton step on F, found as accurately as possible."""
    try:
        system = newton_system(point, point.problem.identity(), _most_accurate(point))
        return system.solve([-G for G in point.gradient], -point.threshold_slope, 1e-6)
    except linalg_errors():
        return None


def _most_accurate(point: Point) -> str:
    """The way whose matrix is the better conditioned: the smaller of the two, where c is large."""
    few, d = point.n_active, dimension(point.problem.sizes)
    if min(few, d) > ACCURATE_DIMENSION:
        return "auto"
    return "woodbury" if few < d and point.problem.is_listed else "dense"


def _searched(point: Point, direction: Direction) -> tuple[Point, float] | None:
    """The least F along a direction and how far it is; None where F does not descend."""
    problem, xp, (matrices, b) = point.problem, point.problem.xp, direction
    try:
        length = _exact_search(point, direction)
        if length == 0:
            return None
        blocks = zip(point.L, problem.identity(), matrices, strict=True)
        L = [factor @ xp.linalg.cholesky(eye + length * V) for factor, eye, V in blocks]
        return problem.at(L, point.b0 + length * b / sqrt(problem.c0)), length
    except linalg_errors():
        return None


def _exact_search(point: Point, direction: Direction) -> float:
    """The t that minimises F along a direction; 0 where F does not measurably descend."""
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
    end = min(LONGEST / -lowest if lowest < 0 else inf, 100.0)
    if not start < 0:
        return 0.0
    try:
        t = end if slope(end) <= 0 else brentq(slope, 0.0, end, **SEARCH)
    except ValueError:  # SciPy's, where the slope is no number: parameters of extreme sizes
        return 0.0
    return t if change(t) < 0 else 0.0
