"""Solver "newton": primal-dual Newton with safeguards, certified at every step.

It keeps W and P = I + S(s) as two positive definite variables and aims at W P = τ I, with τ = 1 at
the solution (docs/theory.md, (NT)). It takes long steps even near the boundary of the cone, where
Newton's method on the primal alone takes short ones. Five safeguards:

- If the boundary cuts a step short, W is moved back into the cone and P onto the central ray.
- If there are comparisons and the gap has not improved for some steps (the active set cycles), the
  hinges are smoothed, and steps follow the solution while the smoothing decreases to zero
  (`smoothing.py`).
- If a factorisation fails, or the gap still does not improve, a damped Newton step on F with an
  exact line search is taken instead: it always descends.
- If that step cannot descend, or was needed too often, damped steps with predicted multipliers
  follow, and then Newton's method on the dual.
- If no step improves the certificate, the status is PRECISION.

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
from typing import Any

from .._array import (
    Array,
    linalg_errors,
    on_gpu,
    placed,
)
from .damped_newton import (
    accurate_direction,
    descend_along,
    most_accurate,
    newton_direction,
    predict_multipliers,
)
from .dual_newton import can_finish_in_dual, finish_in_dual
from .hessian import dimension
from .loss_model import is_worth_modelling, model_step
from .monitor import Monitor
from .pace import Pace, Step
from .point import Point
from .primal_dual import DualFactors, Reached, backed_off, central, primal_dual_step
from .problem import LogDetProblem
from .result import Result, Status
from .smoothing import first_smoothing, less_smoothing

START_DISTANCE = 1e4  # largest mean distance at the start, or else W0 is scaled down
TURN = 0.01  # largest share of ‖W‖ that is added to W after a rehearsal
MOST_SMOOTHED = 40  # limit on the steps with smoothed hinges
PATIENCE = 8  # steps without a smaller gap before a damped step is taken
MOST_POLISHED = 30  # limit on the damped steps with predicted multipliers
MOST_RESCUES = 8  # number of damped steps without progress before the last resort is tried
SAMPLE = 20_000  # smallest number of pairs of a rehearsal
GPU_SAMPLE = 100_000  # smallest rehearsal on a GPU, where steps on fewer pairs are latency-bound
REHEARSAL_TOL = 1e-4  # tolerance of the rehearsal
REHEARSAL_GAIN = 3.0  # a rehearsal is worth it if products over all pairs cost so many times more

Start = tuple[Sequence[Array], float]  # factors L in the coordinates of the problem, and b0


def solve_newton(
    problem: LogDetProblem,
    monitor: Monitor,
    *,
    start: Start | None = None,
    linear_solver: str = "auto",
    random_state: Any = None,
    lower_precision: bool = False,
) -> Result:
    """Minimise F from `start` until the monitor returns a status."""
    options = linear_solver, random_state, lower_precision
    return monitor.result(_minimise(problem, monitor, start, *options))


def _minimise(
    problem: LogDetProblem,
    monitor: Monitor,
    start: Start | None,
    linear_solver: str,
    random_state: Any,
    lower_precision: bool,
) -> Status:
    """Minimise F and return why it stopped; the monitor keeps the best point."""
    options = linear_solver, random_state, lower_precision
    start = start or _first_guess(problem, monitor, *options)
    point, step = problem.at(*start), Step("start")
    pace = Pace(single=lower_precision and point.L[0].dtype == problem.xp.float64)
    Q: DualFactors = central(point)
    while True:
        status = monitor.record(monitor.n_records, point, **vars(step))
        if status is not None:
            return status
        pace.update(point, step)
        reached = None
        if pace.cycles and problem.can_be_smoothed:
            pace.smoothed = True
            status, point = _follow_smoothing(problem, monitor, linear_solver)
            if status is not None:
                return status
            Q = central(point)
        if pace.stale < PATIENCE:
            rng = None if pace.slow or pace.stale > 1 else random_state
            way = pace.system_for(point, linear_solver)
            reached = _step(point, Q, way, rng, pace)
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
            pace.rescues += 1  # The last resort is tried once.
            reached = polished, central(polished), Step("polished")
        if reached is None:
            return Status.PRECISION
        point, Q, step = reached


def _step(point: Point, Q: DualFactors, way: str, rng: Any, pace: Pace) -> Reached | None:
    """Take a step on a model of the losses if that saves passes, or else a primal-dual step."""
    if pace.models and is_worth_modelling(point, way, rng is not None, pace.products):
        reached = model_step(point, rng)
        if reached is not None:
            return reached
        pace.models = False
    return primal_dual_step(point, Q, way, rng, pace)


def _follow_smoothing(
    problem: LogDetProblem, monitor: Monitor, linear_solver: str
) -> tuple[Status | None, Point]:
    """Take steps of smoothed problems from the best point, one per ν.

    Returns a status if the solver should stop, and the last point.
    """
    point, pace = problem.at(monitor.found.L, monitor.found.b0), Pace()
    smoothing = first_smoothing(problem, point.totals.loss)
    near = problem.smoothed(smoothing).at(point.L, point.b0)
    Q: DualFactors = central(near)
    for _ in range(MOST_SMOOTHED):
        way = most_accurate(near) if linear_solver == "auto" else linear_solver
        reached = primal_dual_step(near, Q, way, None, pace)
        if reached is None or reached[2].length == 0:
            break
        near, Q, step = reached
        point = problem.at(near.L, near.b0)
        status = monitor.record(monitor.n_records, point, **vars(replace(step, kind="smoothed")))
        if status is not None:
            return status, point
        smoothing = less_smoothing(smoothing, step.length)
        near = problem.smoothed(smoothing).at(point.L, point.b0)
    return None, point


def _has_last_resort(problem: LogDetProblem) -> bool:
    """Return whether the multipliers are in memory and the loss is quadratic."""
    return problem.is_listed and problem.quadratic


def _last_resort(problem: LogDetProblem, monitor: Monitor) -> tuple[Status, Point]:
    """Continue by two methods that do not compute multipliers from rounded distances.

    First damped steps on F from the best point, with the multipliers that each step predicts; then,
    for few active pairs, Newton's method on the dual. Returns the point that the first one reached.
    """
    point, step = problem.at(monitor.found.L, monitor.found.b0), Step("polished")
    for _ in range(MOST_POLISHED):
        direction = accurate_direction(point)
        if direction is None:
            break
        found = predict_multipliers(point, direction)
        status = monitor.record(monitor.n_records, found, **vars(step))
        if status is not None:
            return status, point
        reached = descend_along(point, direction)
        if reached is None:
            break
        point, step = reached[0], Step("polished", reached[1], linear="dense")
    if not can_finish_in_dual(problem, monitor.found.n_active):
        return Status.PRECISION, point
    return finish_in_dual(problem, monitor, vars(Step("dual"))), point


def _first_guess(
    problem: LogDetProblem,
    monitor: Monitor,
    linear_solver: str,
    random_state: Any,
    lower_precision: bool,
) -> Start:
    """Return the prior with its best threshold; for many pairs, the solution of a sample."""
    n_pairs = problem.n_pairs
    least = GPU_SAMPLE if on_gpu(problem.prior_factors[0]) else SAMPLE
    if random_state is None or n_pairs <= 4 * least:
        return _scaled_prior(problem)
    size = max(least, n_pairs // 8)
    if not _saves_time(problem, size):
        return _scaled_prior(problem)
    sample = problem.sample(size, random_state)
    rehearsal = Monitor(
        sample, tol=REHEARSAL_TOL, max_iter=50, verbose=monitor.verbose, proves=False
    )
    rehearsal.note(f"Rehearsal on {sample.n_pairs:,} of {n_pairs:,} pairs.")
    try:
        _minimise(sample, rehearsal, None, linear_solver, random_state, lower_precision)
    except KeyboardInterrupt:
        if rehearsal.best is not None:  # It is a point of the whole problem too.
            L = _placed_like_prior(problem, rehearsal.found.L)
            found = problem.at(L, rehearsal.found.b0)
            monitor.record(0, found, **vars(Step("start")))
        raise
    rehearsal.note(f"All {n_pairs:,} pairs.")
    # The solutions of sample and problem differ by an angle of about √(d/size): W is moved so far
    # from the boundary that it can turn by it.
    share = min(TURN, dimension(problem.sizes) / sample.n_pairs)
    return backed_off(_placed_like_prior(problem, rehearsal.found.L), share), rehearsal.found.b0


def _saves_time(problem: LogDetProblem, size: int) -> bool:
    """Return whether products over a sample of the pairs cost much less than those over all."""
    if not problem.is_listed:
        return True
    pairs = problem.pairs.sums.pairs
    share = size / problem.n_pairs
    less = pairs.product_cost(round(share * pairs.n_pairs))
    return REHEARSAL_GAIN * less <= pairs.product_cost(pairs.n_pairs)


def _placed_like_prior(problem: LogDetProblem, L: Sequence[Array]) -> list[Array]:
    """Move factors from the device where a sample was solved to that of the problem."""
    return [placed(factor, C) for factor, C in zip(L, problem.prior_factors, strict=True)]


def _scaled_prior(problem: LogDetProblem) -> Start:
    """Return W = t I with its best threshold; t < 1 only where distances are very large."""
    t, b0 = problem.scaled_start(START_DISTANCE)
    return [sqrt(t) * eye for eye in problem.identity()], b0


def _damped_step(point: Point, linear_solver: str) -> Reached | None:
    """Take a damped Newton step on F; return None where it cannot descend numerically."""
    try:
        direction, system = newton_direction(point, linear_solver)
        found = descend_along(point, direction)
        if found is None:
            return None
        reached, length = found
        Q = central(reached)
    except linalg_errors():
        return None
    return reached, Q, Step("damped", length, 1.0, system.name, system.n_products)
