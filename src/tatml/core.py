"""`learn_metric`: check what the user gave, build the problem, solve it, warn where needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from ._array import Array, linalg_errors, raising_linalg
from ._checks import (
    check_callable,
    check_choice,
    check_count,
    check_flag,
    check_for_shards,
    check_index_kind,
    check_init,
    check_magnitude,
    check_margin,
    check_options,
    check_positive,
    check_prior,
    check_random,
    check_solver_kind,
)
from ._threads import SMALL, _threadpools
from ._warnings import warn_user
from .blocks import Blocks, as_blocks
from .chunks import PairChunks, in_parts, sharded_problem, sharded_term
from .pairs import as_pairs
from .problem import LogDetProblem, squared_hinge
from .shards import Setting
from .solvers import SOLVERS, Iterate, Monitor, Result, Status
from .tiles import AllPairs

__all__ = ["learn_metric", "solve", "warn_unless_converged"]

DEFAULT_MAX_ITER = {"newton": 200, "dykstra": 1000}
SMALLEST_TOL = {"float64": 0.0, "float32": 1e-5}  # that can be certified in this precision


def learn_metric(
    X: Blocks | ArrayLike | PairChunks,
    pairs: ArrayLike | AllPairs | None = None,
    similar: ArrayLike | None = None,
    *,
    C: float = 1.0,
    c0: float = 1.0,
    mu0: float = 1.0,
    margin: tuple[float, float] = (0.5, 2.0),
    prior: Sequence[ArrayLike] | ArrayLike | None = None,
    solver: str = "newton",
    tol: float = 1e-6,
    weights: ArrayLike | None = None,
    max_iter: int | None = None,
    init: Result | Iterate | None = None,
    callback: Callable[[Iterate], object] | None = None,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
    verbose: bool = False,
    on_interrupt: Literal["raise", "return"] = "raise",
    linear_solver: str = "auto",
    projection: str = "efficient",
    order: str = "permutation",
    dtype: str = "float64",
    max_memory: int | str | None = None,
    client: Any = None,
    device: str | None = None,
) -> Result:
    """Learn one positive definite matrix per block, and the distance threshold, from pairs.

    Minimises, over W_m ≻ 0 and b0 (docs/theory.md, (P)),

        Σ_m BD(W_m, W0_m) + (C/2) Σ_k w_k [y_k (D_k(W) − γ_k b0)]_+² + (c0/2)(b0 − μ0)²

    with D_k(W) = (1/M) Σ_m ‖Φ_m(x_i) − Φ_m(x_j)‖²_{W_m} the squared distance of pair k = (i, j).
    Similar pairs (y = +1) should be closer than γ_s b0, dissimilar ones (y = −1) farther than
    γ_d b0. C multiplies the *sum* over pairs, as in the paper; units matter with the prior W0 = I.

    Parameters
    ----------
    X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
        The samples: vectors, matrices, or tuples of matrices (`Blocks`); or `PairChunks`. PyTorch
        tensors and CuPy arrays are computed on where they are, and ``W`` is of their kind
        (docs/scale.md).
    pairs : array-like of int of shape (n_pairs, 2), or AllPairs
        Indices into X; `AllPairs` stands for all pairs of labelled samples.
    similar : array-like of bool of shape (n_pairs,)
        Whether the two samples of a pair are alike. X, pairs, similar and weights may also be
        arrays on disk (zarr, HDF5 or anything that is sliced; `numpy.memmap` with `max_memory`)
        and pairs, similar and weights dask arrays: see docs/scale.md.
    C : float, default=1.0
        c, the weight of the pairs.
    c0 : float, default=1.0
        Strength of the threshold's pull towards `mu0`; ``numpy.inf`` fixes it there.
    mu0 : float, default=1.0
        Where the threshold is pulled to, in squared units.
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d), with 0 < γ_s < γ_d.
    prior : list of M arrays of shape (n_m, n_m), one such array when M = 1, or None
        W0, symmetric positive definite; None is the identity.
    solver : {"newton", "dykstra"}, default="newton"
        The algorithm: primal-dual Newton, or the paper's stochastic Dykstra (docs/solvers.md).
    tol : float, default=1e-6
        Stop when the duality gap is at most ``tol * max(1, |primal|)``.
    weights : array-like of shape (n_pairs,), optional
        w_k ≥ 0, how much each pair counts.
    max_iter : int, optional
        Most Newton steps (default 200), or epochs of as many projections as there are pairs
        (default 1000).
    init : Result or Iterate, optional
        Where to start: an earlier result for the same block sizes, or what a callback was given.
        Dykstra starts from multipliers: those of the result, or those that the point implies.
    callback : callable, optional
        Called with an `Iterate` after each step or certified epoch; a true return value stops.
        `Checkpoint` is one that keeps the fit on disk.
    random_state : int, RandomState, Generator or None
        For the random sample of pairs that starts a large problem, and for Dykstra's order. The
        solution does not depend on it beyond the tolerance.
    verbose : bool, default=False
        Print one line an iteration, or a certified epoch.
    on_interrupt : {"raise", "return"}, default="raise"
        On Ctrl-C: raise KeyboardInterrupt, or return the best point so far with its gap.
    linear_solver : {"auto", "dense", "woodbury", "cg"}, default="auto"
        How Newton's linear system is solved; "auto" takes what should be the fastest.
    projection : {"efficient", "naive"}, default="efficient"
        How Dykstra projects: with eigenvalues found once, or with new inverses at each trial.
    order : {"permutation", "random", "cyclic"}, default="permutation"
        In which order Dykstra visits the pairs of an epoch: shuffled anew, drawn with replacement
        as in the paper, or always the same.
    dtype : {"float64", "float32"}, default="float64"
        The precision of the whole computation, whatever that of X is. In float32 a smaller `tol`
        than 1e-5 cannot be certified: it is raised to that, and ``result.tol`` says so.
    max_memory : int or str, optional
        Bytes, or words like "500MB". The pairs are then read in parts that fit, again in each step;
        the peak does not depend on their number. X counts only where it is on disk as well.
    client : distributed.Client, optional
        A dask cluster on which the sums over pairs are to be made.
    device : str, optional
        A device of PyTorch, such as "cuda", through which pairs of the host or of a disk are to
        pass, in parts of `max_memory`, when they do not fit there; ``W`` is NumPy's.

    Returns
    -------
    Result
        ``L``, ``W``, ``b0``, ``primal``, ``dual``, ``gap``, ``converged``, ``status``, ``n_iter``,
        ``history``, and the multipliers of the active pairs (None where pairs were read in parts).
        The certificate is that of ``L``, rounding errors included.

    Raises
    ------
    TypeError, ValueError
        Where an argument is not what is described above; the message names it.

    Warns
    -----
    ConvergenceWarning
        Where the result has not converged, with gap, tolerance and iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import learn_metric
    >>> X = np.array([[0.0, 0.0], [0.1, 3.0], [2.0, 0.1], [2.1, 3.1]])
    >>> pairs = [[0, 1], [2, 3], [0, 2], [1, 3]]  # alike when the first feature is
    >>> result = learn_metric(X, pairs, [True, True, False, False])
    >>> result.converged
    True
    >>> W = result.W[0]
    >>> bool(W[0, 0] > 5 * W[1, 1])
    True
    >>> D = [(X[i] - X[j]) @ W @ (X[i] - X[j]) for i, j in pairs]
    >>> [bool(d < result.b0) for d in D]
    [True, True, False, False]
    """
    check_choice("solver", solver, SOLVERS)
    check_choice("on_interrupt", on_interrupt, ("raise", "return"))
    options = check_options(solver, linear_solver=linear_solver, projection=projection, order=order)
    check_choice("dtype", dtype, SMALLEST_TOL)
    setting = Setting(check_positive("C", C), check_margin(margin))
    threshold = {
        "c0": check_positive("c0", c0, or_infinite=True),
        "mu0": check_positive("mu0", mu0),
    }
    checked = {  # before the first pass over the pairs, which may take long
        "tol": max(check_positive("tol", tol), SMALLEST_TOL[dtype]),
        "max_iter": None if max_iter is None else check_count("max_iter", max_iter),
        "callback": check_callable("callback", callback),
        "random_state": check_random(random_state),
        "verbose": check_flag("verbose", verbose),
    }
    where = {"max_memory": max_memory, "client": client, "device": device}
    if in_parts(X, pairs, similar, weights, **where):
        check_for_shards(solver, linear_solver, dtype)
        term = sharded_term(X, pairs, similar, weights, setting, **where)
        problem = sharded_problem(term, prior=prior, **threshold)
    else:
        problem = _problem_in_memory(X, pairs, similar, weights, setting, prior, dtype, **threshold)
    check_solver_kind(solver, problem.prior_factors[0], dtype)
    result = solve(
        problem,
        solver=solver,
        init=init if init is None else check_init(init, problem.sizes, problem.prior_factors[0]),
        on_interrupt=on_interrupt,
        **checked,
        **options,
    )
    warn_unless_converged(result)
    return result


def _problem_in_memory(
    X: Any,
    pairs: Any,
    similar: Any,
    weights: Any,
    setting: Setting,
    prior: Any,
    dtype: str,
    c0: float,
    mu0: float,
) -> LogDetProblem:
    if pairs is None or similar is None:
        raise TypeError("pairs, similar: expected arrays, got None")
    blocks = as_blocks(X, any_kind=True)
    check_magnitude(blocks, "X")
    check_index_kind(blocks, pairs=pairs, similar=similar, weights=weights)
    chosen = as_pairs(pairs, similar, len(blocks), weights)
    prior = None if prior is None else check_prior(prior, blocks, dtype=dtype)
    loss = squared_hinge(chosen, setting.C, setting.margin)
    with np.errstate(over="ignore"):  # infinite weights in float32, which `solve` then names
        return LogDetProblem.build(blocks, chosen, loss, c0=c0, mu0=mu0, prior=prior, dtype=dtype)


def solve(
    problem: LogDetProblem,
    *,
    solver: str = "newton",
    tol: float = 1e-6,
    max_iter: int | None = None,
    init: Result | Iterate | None = None,
    callback: Callable[[Iterate], object] | None = None,
    random_state: Any = None,
    verbose: bool = False,
    on_interrupt: str = "raise",
    sizes: str = "C, c0, mu0, weights",
    **options: Any,
) -> Result:
    """Solve a problem that has been checked, whatever its loss; the caller warns.

    `sizes` are the caller's names of what an objective that is too large comes from.
    """
    max_iter = DEFAULT_MAX_ITER[solver] if max_iter is None else max_iter
    monitor = Monitor(problem, tol=tol, max_iter=max_iter, verbose=verbose, callback=callback)
    threads = 1 if solver == "dykstra" or max(problem.sizes) <= SMALL else None
    if init is not None:
        options |= _start_from(init, problem, solver)
    # Overflow on the way is caught by what comes of it, and by the certificate.
    raising = raising_linalg(problem.prior_factors[0])
    with _threadpools().limit(limits=threads), np.errstate(all="ignore"), raising:
        try:
            random_state = check_random(random_state)
            return SOLVERS[solver](problem, monitor, random_state=random_state, **options)
        except KeyboardInterrupt:
            if on_interrupt == "raise":
                raise
            if monitor.best is None:  # nothing was reached: the prior, with its own gap
                monitor.callback = None
                monitor.record(0, problem.at(problem.identity(), problem.mu0))
            return monitor.result(Status.INTERRUPTED)
        except (*linalg_errors(), OverflowError) as error:
            if monitor.best is not None:
                return monitor.result(Status.PRECISION)
            raise ValueError(
                f"{sizes}: expected sizes for which the objective is a number, got one that is "
                "infinite at the start"
            ) from error


def _start_from(init: Result | Iterate, problem: LogDetProblem, solver: str) -> dict[str, Any]:
    """What a solver takes from an earlier result."""
    b0 = init.b0 if problem.learns_threshold else problem.mu0
    start = {"start": (problem.whitened(init.L), float(b0))}
    if solver == "dykstra":
        start["multipliers"] = _multipliers_from(init, problem)
    return start


def _multipliers_from(init: Result | Iterate, problem: LogDetProblem) -> Array | None:
    """One α_k a pair, where `init` has some and they can belong to these pairs."""
    active, n_pairs = getattr(init, "active", None), problem.n_pairs
    if active is None or np.max(active, initial=-1) >= n_pairs:
        return None
    multipliers = np.zeros(n_pairs)
    multipliers[active] = init.multipliers
    return multipliers


def warn_unless_converged(result: Result) -> None:
    """Say it once, with numbers, at the user's line."""
    if result.converged:
        return
    goal = result.tol * max(1.0, abs(result.primal))
    warn_user(
        f"Not converged: gap {result.gap:.3g} > {goal:.3g} (tol {result.tol:g}) after "
        f"{result.n_iter} iterations. {result.status.value}",
        ConvergenceWarning,
    )
