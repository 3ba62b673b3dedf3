"""The watch over a running solver: history, printing, callback, best point, when to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from time import perf_counter
from typing import Protocol

import numpy as np

from .._array import Array
from ..problem import LogDetProblem
from .result import Iterate, Result, Status, is_converged

__all__ = ["Certified", "CertifiedPoint", "Monitor"]

_HEADER = (
    f"{'iter':>5} {'primal':>15} {'dual':>15} {'gap':>9} {'b0':>11} {'active':>9} {'seconds':>8}"
)


class Certified(Protocol):
    """A point with its certificate, as `Monitor.record` takes it; a problem's `Point` is one."""

    L: Sequence[Array]
    b0: float
    primal: float
    gap: float
    slope: Array | None
    n_active: int


@dataclass(frozen=True)
class CertifiedPoint:
    """The same as plain numbers, without what they were computed from."""

    L: tuple[Array, ...]
    b0: float
    primal: float
    gap: float
    slope: Array | None
    n_active: int

    @classmethod
    def copy_of(cls, point: Certified) -> CertifiedPoint:
        """Keep the numbers of a point and let go of the rest."""
        return cls(tuple(point.L), point.b0, point.primal, point.gap, point.slope, point.n_active)


class Monitor:
    """Records each iteration and says when to stop.

    Parameters
    ----------
    problem : LogDetProblem
        What is being solved.
    tol : float
        Stop when gap ≤ tol · max(1, |primal|).
    max_iter : int
        Stop at this iteration at the latest.
    verbose : bool
        Print a line an iteration.
    callback : callable or None
        Called with an `Iterate`; a true value stops the solver.
    """

    def __init__(
        self,
        problem: LogDetProblem,
        *,
        tol: float,
        max_iter: int,
        verbose: bool = False,
        callback: Callable[[Iterate], object] | None = None,
    ):
        self.problem, self.tol, self.max_iter = problem, tol, max_iter
        self.verbose, self.callback = verbose, callback
        self.records: list[dict[str, object]] = []
        self.best: CertifiedPoint | None = None  # the recorded point with the smallest gap
        self._start = perf_counter()

    def record(self, n_iter: int, point: Certified, **extra: object) -> Status | None:
        """Take note of a point; return a status when it is time to stop."""
        if self.best is None and not isfinite(point.primal):
            raise OverflowError("the objective is not finite at the start")
        row = {
            "iteration": n_iter,
            "primal": point.primal,
            "dual": point.primal - point.gap,
            "gap": point.gap,
            "b0": point.b0,
            "n_active": point.n_active,
            "seconds": perf_counter() - self._start,
        }
        self.records.append(row | extra)
        if self.best is None or isnan(self.best.gap) or point.gap < self.best.gap:
            self.best = CertifiedPoint.copy_of(point)
        if self.verbose:
            _print_row(row, header=len(self.records) == 1)
        if self.callback is not None and self.callback(self._iterate(point, row)):
            return Status.STOPPED
        if is_converged(point.gap, point.primal, self.tol):
            return Status.CONVERGED
        return Status.MAX_ITER if n_iter >= self.max_iter else None

    def note(self, text: str) -> None:
        """Say something that is not an iteration, where iterations are printed."""
        if self.verbose:
            print(text, flush=True)

    def _iterate(self, point: Certified, row: dict) -> Iterate:
        W = self.problem.metric(point.L)
        return Iterate(
            row["iteration"], W, point.b0, point.primal, point.gap, point.n_active, row["seconds"]
        )

    def result(self, status: Status) -> Result:
        """The best recorded point, with everything known about the run."""
        best, xp, active, multipliers = self.best, self.problem.xp, None, None
        if best.slope is not None:
            active = xp.nonzero(best.slope)[0]
            multipliers = xp.abs(xp.take(best.slope, active, axis=0))
        names = self.records[-1]
        return Result(
            W=self.problem.metric(best.L),
            b0=best.b0,
            primal=best.primal,
            gap=best.gap,
            status=status,
            n_iter=self.records[-1]["iteration"],
            tol=self.tol,
            history={name: np.asarray([row[name] for row in self.records]) for name in names},
            active=active,
            multipliers=multipliers,
        )


def _print_row(row: dict, header: bool) -> None:
    if header:
        print(_HEADER)
    print(
        f"{row['iteration']:5d} {row['primal']:15.8e} {row['dual']:15.8e} {row['gap']:9.2e} "
        f"{row['b0']:11.5g} {row['n_active']:9d} {row['seconds']:8.3f}",
        flush=True,
    )
