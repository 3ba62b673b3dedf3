"""Damped Newton steps on F, with an exact line search: they always descend.

Solver "newton" takes them where its primal-dual steps fail.
"""

from __future__ import annotations

from math import inf, sqrt

from scipy.optimize import brentq

from .._array import linalg_errors
from .hessian import Direction
from .linear_systems import newton_system
from .pace import Step
from .point import Point
from .primal_dual import BOUNDARY_SHARE, Reached, central

LARGEST_LENGTH = 100.0  # limit of the step length where the cone has no boundary in the direction
ACCURACY = 1e-6  # relative residual that conjugate gradients may leave
SEARCH = {"xtol": 1e-30, "rtol": 1e-3, "maxiter": 500}  # accuracy of the step length, for brentq


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
