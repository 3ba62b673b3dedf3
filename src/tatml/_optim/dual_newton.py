"""Newton's method on the dual, for the end of problems on which the primal method stalls.

If c w D² exceeds the precision of a float, the slopes s = c w y [y ζ]_+ that Newton's method on
(W, b0) computes at its point are mostly rounding error: the last digit of ζ changes them entirely.
Here s is the variable, as in Dykstra's method, and is rounded in its own last digits only.
Maximises, over α ≥ 0 with s = y α (docs/theory.md, (D)),

    g(s) = Σ_m logdet(I + S_m(s)) − ‖s‖²/(2 c w) − oᵀs − μ0 γᵀs − (γᵀs)²/(2 c0)

by projected Newton steps: pairs whose own step would lead to α < 0 go to α = 0, the others solve
(I/(c w) + ZᵀZ) d = ∂g together (docs/theory.md, (Gram)), and the step is halved until g increases
enough. It needs a matrix with one row per pair with α > 0, so that it is used for few such pairs.

Certificate: that of Dykstra's points, docs/theory.md (GapD).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._array import Array, LinAlgError, factor_posdef, inverse_factor
from .layout import Evaluation
from .linear_systems import pair_gram
from .losses import zeta_at
from .monitor import FoundPoint, Monitor
from .problem import LogDetProblem
from .result import Status
from .steps import BOUNDARY_SHARE, Step
from .sums import Sums

PATIENCE = 20  # limit on the steps in a row without a smaller gap
MOST_PAIRS = 1_000  # limit on the pairs with α > 0, which are the rows of a dense matrix
ENOUGH = 1e-4  # smallest accepted share of the increase that the gradient predicts
SHORTEST = 1e-12  # step length at which the line search gives up
CENTRED = 1e-10  # ‖LᵀPL − I‖ below which L Lᵀ counts as P⁻¹
JITTER = 1e-14  # added share of the diagonal: with many pairs the matrix is nearly singular


def finish_in_dual(problem: LogDetProblem, monitor: Monitor) -> Status:
    """Maximise g from the best point of the monitor, which records each step.

    Returns PRECISION at once unless the loss is quadratic, few pairs are active, and their
    multipliers are in NumPy arrays.
    """
    in_numpy = problem.is_listed and type(problem.prior_factors[0]) is np.ndarray
    if not (in_numpy and problem.term.quadratic and monitor.found.n_active <= MOST_PAIRS):
        return Status.PRECISION
    try:
        point: _DualPoint | None = _start_of(problem, monitor.found)
        best, stale = np.inf, 0
        while point is not None and stale < PATIENCE:
            found = FoundPoint.of_dual(problem, point.L, point.b0, point.zeta, point.s)
            status = monitor.record(len(monitor.records), found, **vars(Step("dual")))
            if status is not None:
                return status
            best, stale = (found.gap, 0) if found.gap < best else (best, stale + 1)
            point = _step(point)
    except LinAlgError:
        pass
    return Status.PRECISION


@dataclass(frozen=True)
class _DualPoint:
    """α ≥ 0, and the primal point of (Map): W = L Lᵀ = (I + S)⁻¹, and b0."""

    problem: LogDetProblem
    alpha: Array
    s: Array
    L: list[Array]
    sums: Sums
    """The differences LᵀΔ."""

    @cached_property
    def b0(self) -> float:
        return self.problem.mu0 + self.problem.threshold_force(self.s) / self.problem.c0

    @cached_property
    def evaluation(self) -> Evaluation:
        return self.sums.evaluate()

    @cached_property
    def zeta(self) -> Array:
        return zeta_at(self.problem.pairs.loss, self.evaluation.distances, self.b0)

    @cached_property
    def own_curvature(self) -> Array:
        """Bounds of ‖z_k‖² + 1/(c w), the second derivatives of −g in each s_k."""
        reach, gamma = self.evaluation.reach, self.problem.pairs.loss.gamma
        trace = self.evaluation.distances if reach is None else reach() ** 2
        return trace**2 + gamma**2 / self.problem.c0 + self.softness

    @cached_property
    def softness(self) -> Array:
        """1/(c w), and 0 for pairs of weight 0, which keep α = 0."""
        weight = self.problem.pairs.loss.weight
        return np.divide(1, weight, out=np.zeros_like(weight), where=weight > 0)

    @cached_property
    def gradient(self) -> Array:
        """The gradient ∂g/∂α."""
        slope = self.problem.pairs.loss.sign * (self.zeta - self.s * self.softness)  # theory (Map)
        return np.where(self.problem.pairs.loss.weight > 0, slope, 0.0)


def _start_of(problem: LogDetProblem, best: FoundPoint) -> _DualPoint:
    """Return the best multiple of the multipliers at the best point; zero if that fails."""
    s = problem.at(best.L, best.b0).pairs.evaluation.s if best.slope is None else best.slope
    try:
        return _point(problem, problem.best_multiple(s)[0] * np.abs(s), list(best.L))
    except LinAlgError:
        return _point(problem, np.zeros(problem.term.n_pairs), problem.identity())


def _point(problem: LogDetProblem, alpha: Array, L: list[Array]) -> _DualPoint:
    """Return the point of α, from factors L near its own, in whose coordinates it is accurate."""
    s, before = problem.pairs.loss.sign * alpha, np.inf  # theory (Map)
    while True:
        sums = problem.pairs.sums.transformed(L)
        scatter = zip(L, sums.scatter(s), strict=True)
        residual = [factor.T @ factor + S - np.eye(len(S)) for factor, S in scatter]
        norm = max(float(np.linalg.norm(G)) for G in residual)
        if norm <= CENTRED or not norm < before / 2:
            return _DualPoint(problem, alpha, s, L, sums)
        L, before = _moved(L, residual), norm


def _moved(L: list[Array], change: list[Array]) -> list[Array]:
    """Return factors of (P + change)⁻¹, given those of P⁻¹; the change is in their coordinates."""
    steps = zip(L, change, strict=True)
    return [factor @ inverse_factor(np.eye(len(V)) + V) for factor, V in steps]


def _step(point: _DualPoint) -> _DualPoint | None:
    """Take a Newton step, or one along the scaled gradient; None if g cannot be increased."""
    own = point.own_curvature
    direction = _newton_direction(point, own)
    reached = None if direction is None else _line_search(point, direction)
    return reached or _line_search(point, point.gradient / own)


def _newton_direction(point: _DualPoint, own: Array) -> Array | None:
    """Return −α for pairs whose own step leads to α ≤ 0, and Newton's direction for the others."""
    loss, c0, alpha = point.problem.pairs.loss, point.problem.c0, point.alpha
    to_zero = alpha + point.gradient / own <= 0
    direction = np.where(to_zero, -alpha, 0.0)
    free, leaving = np.flatnonzero(~to_zero & (loss.weight > 0)), np.flatnonzero(direction)
    k, together = len(free), np.concatenate([free, leaving])
    if not 0 < k <= len(together) <= 2 * MOST_PAIRS:
        return direction if k == 0 else None
    gram = pair_gram(point.sums.take(together), loss.gamma[together] / np.sqrt(c0))
    gram *= loss.sign[together] * loss.sign[together][:, None]
    hessian = gram[:k, :k] + np.diag(point.softness[free])
    hessian += JITTER * np.diag(np.diagonal(hessian))
    rhs = point.gradient[free] - gram[:k, k:] @ direction[leaving]
    direction[free] = factor_posdef(hessian)(rhs)
    return direction


def _line_search(point: _DualPoint, direction: Array) -> _DualPoint | None:
    """Return the first of α + d, α + d/2, …, clipped at zero, that increases g enough."""
    problem, length = point.problem, 1.0
    while length > SHORTEST:
        alpha = np.maximum(point.alpha + length * direction, 0.0)
        step = alpha - point.alpha
        promised = float(point.gradient @ step)
        if not promised > 0:
            return None
        change = point.sums.scatter(problem.pairs.loss.sign * step)
        e = np.concatenate([np.linalg.eigvalsh(V) for V in change])
        if e.min() <= -1:
            length *= min(0.5, BOUNDARY_SHARE / -e.min())
            continue
        force = problem.threshold_force(problem.pairs.loss.sign * step)
        bend = np.sum(e - np.log1p(e)) + point.softness @ step**2 / 2 + force**2 / (2 * problem.c0)
        if promised - bend >= ENOUGH * promised:
            return _point(problem, alpha, _moved(point.L, change))
        length /= 2
    return None
