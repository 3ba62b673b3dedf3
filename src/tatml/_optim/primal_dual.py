"""Predictor-corrector steps of the primal-dual Newton method (docs/theory.md, (NT))."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite, prod, sqrt
from typing import Any

from .._array import Array, eye, inner, largest, linalg_errors, namespace, stacked, unstacked
from .damped_newton import BOUNDARY_SHARE
from .linear_systems import MOST_MISSES, NewtonSystem, newton_system
from .nt_scaling import Scaling
from .pace import Pace, Step
from .point import Point

CUT_SHORT = 0.05  # a primal-dual step shorter than this counts as cut short by the boundary
ROOM = 1e-3  # share of ‖W‖ that is added to W after a step that was cut short
CLOSE = 0.3  # share of F: with a smaller gap P = W⁻¹ is good enough, and needs no eigenvalues

# In a step, blocks of one size are one stack (M, n, n); there is one number or array per stack.
DualFactors = list[Array] | list[float]  # Q of P = Q Qᵀ, or τ of P = τ W⁻¹
PrimalDual = tuple[list[Array], list[Array], float]  # ΔW, ΔP and the scaled Δb0
Reached = tuple[Point, DualFactors, Step]


def backed_off(L: Sequence[Array], share: float) -> list[Array]:
    """Return factors of W + share · ‖W‖ I, farther from the boundary of the cone."""
    grown = []
    for factor in L:
        xp, W = namespace(factor), factor @ factor.T
        room = share * largest(xp.linalg.eigvalsh(W))
        grown.append(xp.linalg.cholesky(W + room * eye(W.shape[0], like=W)))
    return grown


def central(point: Point) -> list[float]:
    """Return τ of P = τ W⁻¹ for each stack, τ ≥ 1 so large that P ⪰ I + S(s)."""
    xp = point.problem.xp
    tau = max(1.0, *(largest(xp.abs(1 + e)) for e in point.eigenvalues))
    return [tau] * len(point.stacks)


def primal_dual_step(
    point: Point, Q: DualFactors, linear_solver: str, rng: Any, pace: Pace
) -> Reached | None:
    """Take a predictor-corrector step; return None where a factorisation fails."""
    try:
        stacks = zip(point.stacks, Q, point.gradient_stacks, strict=True)
        scaling = [Scaling.of(*stack) for stack in stacks]
        right = unstacked([block.right for block in scaling])
        system = newton_system(point, right, linear_solver, rng, pace.products, pace.single)
        mu = _mean_product(scaling)
        solve = partial(_direction, point, scaling, system, pace.forcing)
        # Any predicted direction will do: only the step itself is checked.
        predicted = solve(1.0, [0.0] * len(scaling), check=False)
        after = _mean_product(scaling, predicted, _step_length(scaling, predicted, 1.0))
        tau = max(1.0, (after / mu) ** 3 * mu)
        corrected = solve(tau, _second_order(scaling, predicted))
        pace.single = pace.single and system.misses < MOST_MISSES
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
