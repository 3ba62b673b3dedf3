"""`Monitor`: the history, output, callback, best point and stopping rule of a running solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import isfinite, isnan, nan
from time import perf_counter
from typing import Any

import numpy as np

from .._array import Array, stacked, total
from .._messages import tell_user
from .._progress import progress_bar
from .certificate import Certificate, full_certificate
from .problem import LogDetProblem, Point
from .result import Iterate, Result, Status, is_converged

LONG = 60.0  # seconds from which a fit says how long it will take
EQUAL = 1e-10  # values of F whose relative difference is at most this are equal up to rounding

_HEADER = (
    f"{'iter':>5} {'primal':>15} {'dual':>15} {'gap':>9} {'b0':>11} {'active':>9} {'seconds':>8}"
)


@dataclass(frozen=True)
class FoundPoint:
    """The numbers of a point, without the data they were computed from."""

    L: tuple[Array, ...]
    b0: float
    primal: float
    gap: float
    slope: Array | None
    n_active: int

    @classmethod
    def copy_of(cls, point: Point | FoundPoint) -> FoundPoint:
        """Copy the numbers of a point, so that its data can be freed."""
        return cls(tuple(point.L), point.b0, point.primal, point.gap, point.slope, point.n_active)

    @classmethod
    def of_dual(
        cls, problem: LogDetProblem, L: Sequence[Array], b0: float, zeta: Array, s: Array
    ) -> FoundPoint:
        """Return the point (L, b0) that the multipliers s stand for, with its gap."""
        loss = problem.pairs.loss  # theory (GapD)
        primal = problem.regulariser(stacked(L), b0) + total(loss.value(zeta))
        return cls(tuple(L), b0, primal, total(loss.gap(zeta, s)), s, int(np.count_nonzero(s)))

    def quick_certificate(self, triangular: Sequence[Array]) -> None:
        """Return None: the data that it needs was freed."""


@dataclass(eq=False, repr=False)
class Monitor:
    """Record of the iterations of a solver, which decides when to stop.

    Parameters
    ----------
    problem : LogDetProblem
        The problem that is solved.
    tol : float
        Stop when gap ≤ tol · max(1, |primal|).
    max_iter : int
        Stop at this iteration at the latest.
    verbose : bool
        Print one line per iteration.
    callback : callable or None
        Called with an `Iterate`; a true value stops the solver.
    proves : bool
        Whether convergence requires a certificate that includes rounding errors; False for
        rehearsals.
    usual_steps : int or None
        The steps of a usual fit. After the first step, a fit that will take longer than `long` says
        so; None where the number of steps says nothing.
    long : float
        The seconds from which a fit takes long.
    """

    problem: LogDetProblem
    _: KW_ONLY
    tol: float
    max_iter: int
    verbose: bool = False
    callback: Callable[[Iterate], object] | None = None
    proves: bool = True
    usual_steps: int | None = None
    long: float = LONG

    bar: Any = field(default=None, init=False)  # the progress bar of a long fit
    records: list[dict[str, Any]] = field(default_factory=list, init=False)
    # The recorded points with the smallest gap and with the lowest objective
    best: FoundPoint | None = field(default=None, init=False)
    _lowest: FoundPoint | None = field(default=None, init=False)
    # The point to return, of those with a certificate: L as it is returned, and b0, s.
    _proven: tuple[tuple[list[Array], float, Array | None], Certificate] | None = field(
        default=None, init=False
    )
    _start: float = field(default_factory=perf_counter, init=False)

    def record(self, n_iter: int, point: Point | FoundPoint, **extra: object) -> Status | None:
        """Record a point; return a status if the solver should stop."""
        if self.best is None and not isfinite(point.primal):
            raise OverflowError("the objective is not finite at the start")
        row = {
            "iteration": n_iter,
            "primal": point.primal,
            "dual": point.primal - point.gap,
            "gap": point.gap,
            "b0": point.b0 if self.problem.has_threshold else nan,
            "n_active": point.n_active,
            "seconds": perf_counter() - self._start,
        }
        self.records.append(row | extra)
        self._keep(FoundPoint.copy_of(point))
        if self.verbose:
            _print_row(row, header=len(self.records) == 1)
        if self.bar is not None:
            self.bar.update()
            self.bar.set_postfix_str(f"gap {point.gap:.1e}")
        if self.callback is not None and self.callback(self._iterate(point, row)):
            return Status.STOPPED
        status = Status.MAX_ITER if n_iter >= self.max_iter else None
        if is_converged(point.gap, point.primal, self.tol):
            status = (self._prove(point) if self.proves else Status.CONVERGED) or status
        if status is None and len(self.records) == 2:
            self._tell_time()
        return status

    def _keep(self, point: FoundPoint) -> None:
        if self.best is None or isnan(self.best.gap) or point.gap < self.best.gap:
            self.best = point
        if self._lowest is None or _is_better(point, self._lowest):
            self._lowest = point

    def _prove(self, point: Point | FoundPoint) -> Status | None:
        """Certify a point that seems to be a solution; return None if a later one may succeed."""
        L, triangular = self.problem.returned(point.L)
        certificate = point.quick_certificate(triangular)
        if certificate is None or not self._accepts(certificate):
            certificate = full_certificate(self.problem, L, triangular, point.b0, point.slope)
        accepted = self._accepts(certificate)
        if accepted or self._proven is None or _is_better(certificate, self._proven[1]):
            self._proven = (L, point.b0, point.slope), certificate
        if accepted:
            return Status.CONVERGED
        hopeless = not is_converged(certificate.floor, certificate.primal, self.tol)
        return Status.PRECISION if hopeless else None

    def _accepts(self, certificate: Certificate) -> bool:
        return is_converged(certificate.gap, certificate.primal, self.tol)

    @property
    def found(self) -> FoundPoint:
        """The best point; raises if there is none."""
        if self.best is None:
            raise RuntimeError("no point was recorded")
        return self.best

    def note(self, text: str) -> None:
        """Print a line of text if iterations are printed."""
        if self.verbose:
            print(text, flush=True)

    def _tell_time(self) -> None:
        """Say how long the fit will take if that is long, from what its first step has taken."""
        start, first = (row["seconds"] for row in self.records)
        expected = (self.usual_steps or 0) * (first - start)
        if expected <= self.long:
            return
        text = (
            f"The first step took {shown_seconds(first - start)}. A usual fit takes about "
            f"{self.usual_steps} steps, {shown_seconds(expected)}; a large C takes more. Faster: "
            "fewer pairs, smaller blocks (PCA), a GPU, a larger tol."
        )
        if self.verbose:
            self.note(text)
        else:
            tell_user(text)
            self.bar = progress_bar(self.usual_steps or 0, "Newton", "step", delay=0)
            if self.bar is not None:
                self.bar.update()

    def _iterate(self, point: Point | FoundPoint, row: dict) -> Iterate:
        L, _ = self.problem.returned(point.L)
        b0 = point.b0 if self.problem.has_threshold else None
        return Iterate(
            row["iteration"], L, b0, point.primal, point.gap, point.n_active, row["seconds"]
        )

    def interrupted(self) -> Result:
        """Return the best point so far; if there is none, the prior with its own gap."""
        if self.best is None:
            self.callback = None  # no function of the user is called after an interrupt
            self.record(0, self.problem.at(self.problem.identity(), self.problem.mu0))
        return self.result(Status.INTERRUPTED)

    def result(self, status: Status) -> Result:
        """Return the converged point, or else the one with the lowest objective, with its gap."""
        if status is not Status.CONVERGED:
            proved = self._prove(self.found)
            if proved is not Status.CONVERGED and self._lowest is not None:
                proved = self._prove(self._lowest)
            if status in (Status.MAX_ITER, Status.PRECISION) and proved is Status.CONVERGED:
                status = proved
        if self._proven is None:
            raise RuntimeError("no point was certified")
        (L, b0, slope), certificate = self._proven
        xp, active, multipliers = self.problem.xp, None, None
        if slope is not None:
            active = xp.nonzero(slope)[0]
            multipliers = xp.abs(xp.take(slope, active, axis=0))
        names = self.records[-1]
        return Result(
            L=L,
            b0=b0 if self.problem.has_threshold else None,
            primal=certificate.primal,
            dual=certificate.dual,
            gap=certificate.gap,
            status=status,
            n_iter=self.records[-1]["iteration"],
            tol=self.tol,
            history={name: np.asarray([row[name] for row in self.records]) for name in names},
            active=active,
            multipliers=multipliers,
        )


def _is_better(one: FoundPoint | Certificate, other: FoundPoint | Certificate) -> bool:
    """Return whether F is lower at one point; where F is equal up to rounding, whether the gap is.

    Values that are not numbers are never better.
    """
    rounding = EQUAL * max(1.0, abs(other.primal))
    if isnan(other.primal) or one.primal < other.primal - rounding:
        return not isnan(one.primal)
    return one.primal <= other.primal + rounding and (one.gap < other.gap or isnan(other.gap))


def _print_row(row: dict, header: bool) -> None:
    if header:
        print(_HEADER)
    print(
        f"{row['iteration']:5d} {row['primal']:15.8e} {row['dual']:15.8e} {row['gap']:9.2e} "
        f"{row['b0']:11.5g} {row['n_active']:9d} {row['seconds']:8.3f}",
        flush=True,
    )


def shown_seconds(seconds: float) -> str:
    """Return a time for people.

    >>> shown_seconds(0.042), shown_seconds(75), shown_seconds(720)
    ('0.04 s', '75 s', '12 min')
    """
    if seconds < 100:
        return f"{seconds:.1g} s" if seconds < 9.5 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
