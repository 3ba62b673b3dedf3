"""Damped Newton steps on F, with an exact line search: they always descend.

Solver "newton" takes them where its primal-dual steps fail, and at the end of stiff problems.
"""

from __future__ import annotations

from math import inf, sqrt

from scipy.optimize import brentq

from .._array import linalg_errors
from .certificate import excess_by_cholesky
from .hessian import Direction, dimension
from .linear_systems import NewtonSystem, newton_system
from .monitor import FoundPoint
from .point import Point

BOUNDARY_SHARE = 0.98  # the largest share of the way to the boundary of the cone that a step may go
LARGEST_LENGTH = 100.0  # limit of the step length where the cone has no boundary in the direction
ACCURATE_DIMENSION = 1_000  # most rows of a matrix that is factorised for accuracy, not for speed
ACCURACY = 1e-6  # relative residual that conjugate gradients may leave
SEARCH = {"xtol": 1e-30, "rtol": 1e-3, "maxiter": 500}  # accuracy of the step length, for brentq


def newton_direction(point: Point, linear_solver: str) -> tuple[Direction, NewtonSystem]:
    """Compute the Newton direction of F, in the coordinates that whiten W, and its system."""
    system = newton_system(point, point.problem.identity(), linear_solver)
    rhs = [-G for G in point.gradient]
    return system.solve(rhs, -point.threshold_slope, ACCURACY), system


def accurate_direction(point: Point) -> Direction | None:
    """Compute the Newton direction by the most accurate system; None where that fails."""
    try:
        return newton_direction(point, most_accurate(point))[0]
    except linalg_errors():
        return None


def most_accurate(point: Point) -> str:
    """Return the linear solver with the better conditioned matrix: for large c, the smaller one."""
    few, d = point.n_active, dimension(point.problem.sizes)
    if min(few, d) > ACCURATE_DIMENSION:
        return "auto"
    return "woodbury" if few < d and point.problem.is_listed else "dense"


def descend_along(point: Point, direction: Direction) -> tuple[Point, float] | None:
    """Minimise F along a direction; return the point and the step length, None if F cannot fall."""
    problem, xp, (matrices, b) = point.problem, point.problem.xp, direction
    try:
        length = exact_length(point, direction)
        if length == 0:
            return None
        blocks = zip(point.L, problem.identity(), matrices, strict=True)
        L = [factor @ xp.linalg.cholesky(eye + length * V) for factor, eye, V in blocks]
        return problem.at(L, point.b0 + length * b / sqrt(problem.c0)), length
    except linalg_errors():
        return None


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


def predict_multipliers(point: Point, direction: Direction) -> FoundPoint:
    """Return the point with the multipliers that a Newton step from it predicts: s + φ'' u.

    Near the solution of a stiff problem they are accurate where φ' at the point is mostly rounding
    error.
    """
    problem, pairs, (V, b) = point.problem, point.pairs, direction  # theory (Polish)
    xp, loss = problem.xp, pairs.loss
    s = pairs.slope + pairs.curvature * pairs.changes_along(V, b / sqrt(problem.c0))
    s = xp.where(loss.sign * s > 0, s, xp.zeros_like(s))
    gap = sum(map(excess_by_cholesky, point.residual(pairs.sums.scatter(s))))
    residual = problem.threshold_residual(point.b0, s)
    gap += residual * residual / 2
    gap += float(xp.sum(loss.gap(pairs.zeta, s)))
    return FoundPoint(point.L, point.b0, point.primal, max(gap, 0.0), s, point.n_active)
