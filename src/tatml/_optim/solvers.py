"""Solver objects `Newton` and `Dykstra`: an algorithm with its settings.

They also handle what is common to all algorithms: the number of threads, interrupts, and failures
of the linear algebra.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from .._array import Array, linalg_errors, raising_linalg
from .._messages import shown, shown_settings
from .._threads import SMALL_MATRIX, _threadpools
from .._validation import check_choice, check_count, check_flag, check_random, generator_of
from .dykstra import solve_dykstra
from .monitor import Monitor
from .newton import Start, solve_newton
from .problem import LogDetProblem
from .result import Iterate, Result, Status
from .steps import Pace

LinearSolver = Literal["auto", "dense", "woodbury", "cg"]
Projection = Literal["efficient", "naive"]
Order = Literal["permutation", "random", "cyclic"]
OnInterrupt = Literal["raise", "return"]
RandomLike = int | np.random.RandomState | np.random.Generator | None

SIZES = "C, c0, mu0, weights"  # parameters of learn_metric that can make the objective infinite


class Solver(ABC):
    """Base class of the solver objects `Newton` and `Dykstra`.

    Examples
    --------
    >>> from tatml.solvers import Dykstra, Newton, Solver
    >>> issubclass(Newton, Solver), issubclass(Dykstra, Solver)
    (True, True)
    """

    max_iter: int
    random_state: RandomLike
    on_interrupt: OnInterrupt

    WORDS: ClassVar[dict[str, tuple[str, ...]]]  # the allowed values of each str parameter
    _ONE_THREAD: ClassVar[float] = SMALL_MATRIX  # rows up to which BLAS gets one thread
    _USUAL_STEPS: ClassVar[int | None] = None  # steps of a usual fit; None where they differ widely

    def __post_init__(self) -> None:
        for name, choices in self.WORDS.items():
            check_choice(name, getattr(self, name), choices)
        check_choice("on_interrupt", self.on_interrupt, get_args(OnInterrupt))
        check_count("max_iter", self.max_iter)
        check_random(self.random_state)

    def __repr__(self) -> str:
        return shown_settings(self)

    def solve(
        self,
        problem: LogDetProblem,
        *,
        tol: float = 1e-6,
        init: Result | Iterate | None = None,
        callback: Callable[[Iterate], object] | None = None,
        verbose: bool = False,
        sizes: str = SIZES,
        random_state: RandomLike = None,
    ) -> Result:
        """Solve a problem whose arguments have been checked; it does not warn.

        Parameters
        ----------
        problem : LogDetProblem
            The problem to solve.
        tol : float, default=1e-6
            Stop when the duality gap is at most ``tol * max(1, |primal|)``.
        init : Result or Iterate, optional
            The start.
        callback : callable, optional
            Called with an `Iterate` after each step or certified epoch; it stops the solver by
            returning a true value.
        verbose : bool, default=False
            Print one line per iteration.
        sizes : str, optional
            The names, for an error message, of the parameters that can make the objective
            infinite.
        random_state : int, RandomState, Generator or None, default=None
            Seeds the draws of a solver without a `random_state` of its own.

        Returns
        -------
        Result
            The converged point, or else the visited point with the lowest objective, with its
            certificate.
        """
        seed = random_state if self.random_state is None else self.random_state
        monitor = Monitor(
            problem,
            tol=tol,
            max_iter=int(self.max_iter),
            verbose=verbose,
            callback=callback,
            usual_steps=self._USUAL_STEPS,
        )
        # Overflow raises nothing here: `Monitor.record` rejects points that are not finite.
        raising = raising_linalg(problem.prior_factors[0])
        threads = 1 if max(problem.sizes) <= self._ONE_THREAD else None
        limited = _threadpools().limit(limits=threads)
        failures: tuple[type[Exception], ...] = (*linalg_errors(), OverflowError)
        with limited, np.errstate(all="ignore"), raising:
            try:
                return self._run(problem, monitor, init, generator_of(seed))
            except KeyboardInterrupt:
                if self.on_interrupt == "raise":
                    raise
                return monitor.interrupted()
            except failures as error:
                if monitor.best is not None:
                    return monitor.result(Status.PRECISION)
                raise ValueError(
                    f"{sizes}: expected sizes for which the objective is a number, got one that "
                    "is infinite at the start"
                ) from error
            finally:
                if monitor.bar is not None:
                    monitor.bar.close()

    @abstractmethod
    def _run(
        self, problem: LogDetProblem, monitor: Monitor, init: Result | Iterate | None, rng: Any
    ) -> Result:
        """Run the algorithm."""


@dataclass(frozen=True, repr=False)
class Newton(Solver):
    """Primal-dual Newton, certified at every step: the default solver.

    Parameters
    ----------
    linear_solver : {"auto", "dense", "woodbury", "cg"}, default="auto"
        How the linear system of a step is solved: "dense" by a factorisation in the dimension of
        W and b0, "woodbury" by one in as many dimensions as there are active pairs, "cg" by
        conjugate gradients. "auto" takes the one with the fewest operations, at every step.
    max_iter : int, default=200
        The largest number of steps.
    random_state : int, RandomState, Generator or None, default=None
        Seeds two draws, both for problems of very many pairs only: the sample of pairs on which a
        problem of more than 80,000 pairs (400,000 on a GPU) is solved first, to find a start, and
        the samples of active pairs from which Hessians are assembled, if there are more than 1,000
        per dimension. The solution does not depend on it beyond the tolerance.
    on_interrupt : {"raise", "return"}, default="raise"
        Whether Ctrl-C raises KeyboardInterrupt or returns the best point so far with its gap.
    lower_precision : bool, default=True
        Whether large products of conjugate gradients are computed in float32 (TF32 on GPUs that
        have it). The residual of every solution is checked in float64, and the solver continues in
        float64 where float32 is not accurate enough. Everything else is always in float64.

    See Also
    --------
    Dykstra : the paper's algorithm.

    Examples
    --------
    >>> from tatml import Newton, learn_metric
    >>> X, pairs = [[0.0], [0.1], [2.0]], [[0, 1], [1, 2]]
    >>> result = learn_metric(X, pairs, [True, False], solver=Newton(linear_solver="dense"))
    >>> result.converged
    True
    >>> Newton(max_iter=50)
    Newton(max_iter=50)
    """

    WORDS: ClassVar[dict[str, tuple[str, ...]]] = {"linear_solver": get_args(LinearSolver)}
    _USUAL_STEPS = 4

    linear_solver: LinearSolver = "auto"
    max_iter: int = 200
    random_state: RandomLike = None
    on_interrupt: OnInterrupt = "raise"
    lower_precision: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("lower_precision", self.lower_precision)

    def _run(
        self, problem: LogDetProblem, monitor: Monitor, init: Result | Iterate | None, rng: Any
    ) -> Result:
        single = self.lower_precision and problem.prior_factors[0].dtype == problem.xp.float64
        pace = Pace(self.linear_solver, rng, single)
        return solve_newton(problem, monitor, pace, _start_from(init, problem))


@dataclass(frozen=True, repr=False)
class Dykstra(Solver):
    """The paper's stochastic Dykstra algorithm, on NumPy arrays in float64.

    Parameters
    ----------
    projection : {"efficient", "naive"}, default="efficient"
        How the projection onto the constraint of a pair is computed: "efficient" computes
        eigenvalues once, "naive" inverts matrices at every trial of the scalar search.
    order : {"permutation", "random", "cyclic"}, default="permutation"
        The order of the pairs in an epoch: "permutation" shuffles them for every epoch, "random"
        draws them with replacement, as in the paper, and "cyclic" keeps the given order.
    max_iter : int, default=1000
        The largest number of epochs; an epoch has as many projections as there are pairs.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the order of the pairs, for "permutation" and "random". The solution does not depend
        on it beyond the tolerance.
    on_interrupt : {"raise", "return"}, default="raise"
        Whether Ctrl-C raises KeyboardInterrupt or returns the best point so far with its gap.

    See Also
    --------
    Newton : the default, faster in almost every case.

    Examples
    --------
    >>> from tatml import Dykstra, learn_metric
    >>> X, pairs = [[0.0], [0.1], [2.0]], [[0, 1], [1, 2]]
    >>> result = learn_metric(X, pairs, [True, False], solver=Dykstra(order="cyclic"))
    >>> result.converged
    True
    >>> Dykstra(order="cyclic")
    Dykstra(order='cyclic')
    """

    WORDS: ClassVar[dict[str, tuple[str, ...]]] = {
        "projection": get_args(Projection),
        "order": get_args(Order),
    }
    _ONE_THREAD = inf  # projections work on vectors and small matrices

    projection: Projection = "efficient"
    order: Order = "permutation"
    max_iter: int = 1000
    random_state: RandomLike = None
    on_interrupt: OnInterrupt = "raise"

    def _run(
        self, problem: LogDetProblem, monitor: Monitor, init: Result | Iterate | None, rng: Any
    ) -> Result:
        return solve_dykstra(
            problem,
            monitor,
            start=_start_from(init, problem),
            multipliers=_multipliers_from(init, problem),
            projection=self.projection,
            order=self.order,
            random_state=rng,
        )


SolverLike = Literal["newton", "dykstra"] | Newton | Dykstra
NAMED: dict[str, type[Newton] | type[Dykstra]] = {"newton": Newton, "dykstra": Dykstra}


def as_solver(value: Any) -> Newton | Dykstra:
    """Return the solver that a word stands for, or the solver that was given.

    Examples
    --------
    >>> from tatml._optim.solvers import as_solver
    >>> as_solver("newton")
    Newton()
    """
    if isinstance(value, Newton | Dykstra):
        return value
    if not isinstance(value, str) or value not in NAMED:
        raise ValueError(
            "solver: expected 'newton', 'dykstra', Newton(…) or Dykstra(…), got " + shown(value)
        )
    return NAMED[value]()


def raising(solver: Newton | Dykstra) -> Newton | Dykstra:
    """Return the solver as one that Ctrl-C ends, for a search that should end with it."""
    other = copy(solver)
    vars(other).update(on_interrupt="raise")  # `replace` would check all settings again
    return other


def _start_from(init: Result | Iterate | None, problem: LogDetProblem) -> Start | None:
    """Return the point of an earlier result in the coordinates of the problem."""
    if init is None:
        return None
    b0 = problem.mu0 if init.b0 is None or not problem.learns_threshold else init.b0
    return problem.whitened(init.L), float(b0)


def _multipliers_from(init: Result | Iterate | None, problem: LogDetProblem) -> Array | None:
    """Return one α_k per pair; None if `init` has none, or has some of pairs that do not exist."""
    active, n_pairs = getattr(init, "active", None), problem.term.n_pairs
    if active is None or np.max(active, initial=-1) >= n_pairs:
        return None
    multipliers = np.zeros(n_pairs)
    multipliers[active] = getattr(init, "multipliers", 0.0)
    return multipliers
