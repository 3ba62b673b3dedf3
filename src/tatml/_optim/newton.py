"""Solver "newton": primal-dual Newton with safeguards, certified at every step.

It keeps W and P = I + S(s) as two positive definite variables and aims at W P = τ I, with τ = 1 at
the solution (docs/theory.md, (NT)). It takes long steps even near the boundary of the cone, where
Newton's method on the primal alone takes short ones. Five safeguards:

- If the boundary cuts a step short, W is moved back into the cone and P onto the central ray.
- If there are comparisons and the gap has not improved for some steps (the active set cycles), the
  hinges are smoothed, and steps follow the solution while the smoothing decreases to zero
  (`SmoothedHinge`).
- If a factorisation fails, the gap still does not improve, or the step increases an F whose losses
  are not quadratic, a damped Newton step on F with an exact line search is taken instead: it always
  descends.
- If that step cannot descend, or was needed too often, Newton's method on the dual follows.
- If no step improves the certificate, the status is PRECISION.

docs/solvers.md shows what each of them is needed for.

Where a pass over the pairs takes long, a step minimises a model of the losses together with the
exact LogDet term (`loss_model.py`), which saves passes. A problem of very many pairs is first
solved on a random sample of them (the rehearsal), and its Hessian is assembled from a sample too.
Gradient and certificate are always those of all pairs, so that the solution does not depend on the
sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

from .._array import Array, on_gpu, placed
from .dual_newton import finish_in_dual
from .hessian import dimension
from .layout import product_operations
from .linear_systems import most_accurate
from .loss_model import is_worth_modelling, model_step
from .monitor import Monitor
from .problem import LogDetProblem, Point
from .result import Result, Status
from .steps import (
    PATIENCE,
    DualFactors,
    Pace,
    Reached,
    Step,
    backed_off,
    central,
    damped_step,
    primal_dual_step,
)

START_DISTANCE = 1e4  # largest mean distance at the start, or else W0 is scaled down
TURN = 0.01  # largest share of ‖W‖ that is added to W after a rehearsal
MOST_SMOOTHED = 40  # limit on the steps with smoothed hinges
# The factor of the smoothing ν after a step, by the least length of the step.
LESS_SMOOTHING = ((0.9, 0.2), (0.5, 0.3), (0.2, 0.6), (0.0, 1.0))
MOST_DAMPED = 8  # number of damped steps before Newton's method on the dual is tried
SAMPLE = 20_000  # smallest number of pairs of a rehearsal
GPU_SAMPLE = 100_000  # smallest rehearsal on a GPU, where steps on fewer pairs are latency-bound
REHEARSAL_TOL = 1e-4  # tolerance of the rehearsal
REHEARSAL_GAIN = 3.0  # smallest ratio of costs for which a rehearsal pays

Start = tuple[Sequence[Array], float]  # factors L in the coordinates of the problem, and b0


def solve_newton(
    problem: LogDetProblem, monitor: Monitor, pace: Pace, start: Start | None = None
) -> Result:
    """Minimise F from `start` until the monitor returns a status; the pace has the settings."""
    start = start or _first_guess(problem, monitor, pace)
    return monitor.result(_minimise(problem, monitor, start, pace))


def _minimise(problem: LogDetProblem, monitor: Monitor, start: Start, pace: Pace) -> Status:
    """Minimise F and return why it stopped; the monitor keeps the best point."""
    point, step = problem.at(*start), Step("start")
    Q: DualFactors = central(point)
    while True:
        status = monitor.record(len(monitor.records), point, **vars(step))
        if status is not None:
            return status
        pace.update(point, step)
        if pace.at_floor:
            return Status.PRECISION
        if pace.cycles and problem.term.compares:
            pace.start_smoothing()
            status, point = _follow_smoothing(problem, monitor, pace.linear_solver)
            if status is not None:
                return status
            Q = central(point)
        reached = _step(point, Q, pace) if pace.stale < PATIENCE else None
        if reached is not None and _overshoots(point, reached):
            reached = None
        if reached is None:
            pace.count_damped()
            reached = damped_step(point, pace.linear_solver)
            if reached is None or pace.n_damped == MOST_DAMPED:
                status = finish_in_dual(problem, monitor)
                if reached is None or status is not Status.PRECISION:
                    return status
        point, Q, step = reached


def _overshoots(point: Point, reached: Reached) -> bool:
    """Return whether a step has increased F, for losses whose curvature changes along the step.

    Where a logistic loss is flat, its curvature says nothing about a long step. Steps on squared
    hinges may increase F, and still approach the solution.
    """
    return not point.problem.term.quadratic and reached[0].primal > point.primal


def _step(point: Point, Q: DualFactors, pace: Pace) -> Reached | None:
    """Take a step on a model of the losses if that saves passes, or else a primal-dual step."""
    system, rng = pace.system_at(point), pace.rng
    if pace.models and is_worth_modelling(point, system):
        reached = model_step(point, rng)
        if reached is not None:
            return reached
        pace.stop_modelling()
    return primal_dual_step(point, Q, system, rng, pace)


def _follow_smoothing(
    problem: LogDetProblem, monitor: Monitor, linear_solver: str
) -> tuple[Status | None, Point]:
    """Take steps of smoothed problems from the best point, one per ν.

    If c is large, many rows are near their kinks, and a Newton step of the hinge predicts badly
    which of them will be active. The solution for ν changes slowly with ν, so that one step per ν
    can follow it; the last of them know the active set. Returns a status if the solver should stop,
    and the last point.
    """
    point, pace = problem.at(monitor.found.L, monitor.found.b0), Pace()
    smoothing = 2 * point.term.totals.loss / problem.term.n_pairs  # the mean of w a² over all rows
    near = problem.smoothed(smoothing).at(point.L, point.b0)
    Q: DualFactors = central(near)
    for _ in range(MOST_SMOOTHED):
        way = most_accurate(near) if linear_solver == "auto" else linear_solver
        reached = primal_dual_step(near, Q, way, None, pace)
        if reached is None or reached[2].length == 0:
            break
        near, Q, step = reached
        point = problem.at(near.L, near.b0)
        status = monitor.record(len(monitor.records), point, **vars(replace(step, kind="smoothed")))
        if status is not None:
            return status, point
        smoothing *= next(factor for least, factor in LESS_SMOOTHING if step.length >= least)
        near = problem.smoothed(smoothing).at(point.L, point.b0)
    return None, point


def _first_guess(problem: LogDetProblem, monitor: Monitor, pace: Pace) -> Start:
    """Return the prior with its best threshold; for many pairs, the solution of a sample."""
    least = GPU_SAMPLE if on_gpu(problem.prior_factors[0]) else SAMPLE
    size = max(least, problem.term.n_pairs // 8)
    many = pace.random_state is not None and problem.term.n_pairs > 4 * least
    if many and _saves_time(problem, size):
        return _rehearse(problem, size, monitor, pace)
    t, b0 = problem.scaled_start(START_DISTANCE)
    return [sqrt(t) * eye for eye in problem.identity()], b0


def _rehearse(problem: LogDetProblem, size: int, monitor: Monitor, pace: Pace) -> Start:
    """Solve the problem of a random sample of the pairs, with the settings of the pace."""
    sample = problem.sample(size, pace.random_state)
    rehearsal = Monitor(
        sample, tol=REHEARSAL_TOL, max_iter=50, verbose=monitor.verbose, proves=False
    )
    rehearsal.note(f"Rehearsal on {sample.term.n_pairs:,} of {problem.term.n_pairs:,} pairs.")
    try:
        _minimise(sample, rehearsal, _first_guess(sample, rehearsal, pace), replace(pace))
    except KeyboardInterrupt:
        if rehearsal.best is not None:  # It is a point of the whole problem too.
            L = _placed_like_prior(problem, rehearsal.found.L)
            found = problem.at(L, rehearsal.found.b0)
            monitor.record(0, found, **vars(Step("start")))
        raise
    rehearsal.note(f"All {problem.term.n_pairs:,} pairs.")
    # The solutions of sample and problem differ by an angle of about √(d/size): W is moved so far
    # from the boundary that it can turn by it.
    share = min(TURN, dimension(problem.sizes) / sample.term.n_pairs)
    return backed_off(_placed_like_prior(problem, rehearsal.found.L), share), rehearsal.found.b0


def _saves_time(problem: LogDetProblem, size: int) -> bool:
    """Return whether products over a sample of the pairs cost much less than those over all."""
    if not problem.is_listed:
        return True
    pairs = problem.pairs.sums.pairs
    shapes, n_rows = pairs.features.shapes, pairs.features.n_rows
    some, every = (
        product_operations(shapes, k, min(k, n_rows))
        for k in (size * pairs.n_pairs // problem.term.n_pairs, pairs.n_pairs)
    )
    return REHEARSAL_GAIN * some <= every


def _placed_like_prior(problem: LogDetProblem, L: Sequence[Array]) -> list[Array]:
    """Move factors from the device where a sample was solved to that of the problem."""
    return [placed(factor, C) for factor, C in zip(L, problem.prior_factors, strict=True)]
