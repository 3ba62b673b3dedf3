"""`learn_metric`: check what the user gave, build the problem, solve it, warn where needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from math import isfinite, isinf, isnan
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from threadpoolctl import ThreadpoolController

from ._array import Array
from .blocks import Blocks, as_blocks
from .pairs import as_pairs
from .problem import LogDetProblem, squared_hinge
from .solvers import OPTIONS, SOLVERS, Iterate, Monitor, Result, Status

__all__ = ["learn_metric", "solve", "warn_unless_converged"]

DEFAULT_MAX_ITER = {"newton": 200, "dykstra": 1000}
LARGEST_ENTRY = 1e60
SMALL = 256  # matrices up to this size are faster with one BLAS thread than with several


def learn_metric(
    X: Blocks | ArrayLike,
    pairs: ArrayLike,
    similar: ArrayLike,
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
    random_state: int | np.random.RandomState | None = None,
    verbose: bool = False,
    on_interrupt: Literal["raise", "return"] = "raise",
    linear_solver: str = "auto",
    projection: str = "efficient",
    order: str = "permutation",
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
        The samples: vectors, matrices, or tuples of matrices (`Blocks`).
    pairs : array-like of int of shape (n_pairs, 2)
        Indices into X.
    similar : array-like of bool of shape (n_pairs,)
        Whether the two samples of a pair are alike.
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
    random_state : int, RandomState or None
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

    Returns
    -------
    Result
        ``W``, ``b0``, ``primal``, ``dual``, ``gap``, ``converged``, ``status``, ``n_iter``,
        ``history``, and the multipliers of the active pairs.

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
    _check_choice("solver", solver, SOLVERS)
    _check_choice("on_interrupt", on_interrupt, ("raise", "return"))
    options = _check_options(
        solver, linear_solver=linear_solver, projection=projection, order=order
    )
    _check_positive(C=C, mu0=mu0, tol=tol)
    _check_positive(c0=c0, or_infinite=True)
    margin = _check_margin(margin)
    max_iter = _check_max_iter(max_iter, solver)
    blocks = as_blocks(X)
    _check_magnitude(blocks)
    chosen = as_pairs(pairs, similar, len(blocks), weights)
    problem = LogDetProblem.build(
        blocks,
        chosen,
        squared_hinge(chosen, C, margin),
        c0=float(c0),
        mu0=float(mu0),
        prior=_check_prior(prior, blocks),
    )
    result = solve(
        problem,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        init=init,
        callback=callback,
        random_state=random_state,
        verbose=verbose,
        on_interrupt=on_interrupt,
        **options,
    )
    warn_unless_converged(result)
    return result


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
    **options: Any,
) -> Result:
    """Solve a problem that has been checked, whatever its loss; the caller warns."""
    max_iter = DEFAULT_MAX_ITER[solver] if max_iter is None else max_iter
    monitor = Monitor(problem, tol=tol, max_iter=max_iter, verbose=verbose, callback=callback)
    threads = 1 if solver == "dykstra" or max(problem.sizes) <= SMALL else None
    if init is not None and solver == "dykstra":
        options["multipliers"] = _multipliers_from(init, problem)
    try:
        # Overflow on the way is caught by what comes of it, and by the certificate.
        with _threadpools().limit(limits=threads), np.errstate(all="ignore"):
            result = SOLVERS[solver](
                problem,
                monitor,
                start=None if init is None else _start_from(init, problem),
                random_state=check_random_state(random_state),
                **options,
            )
    except KeyboardInterrupt:
        if on_interrupt == "raise":
            raise
        if monitor.best is None:  # nothing was reached: the prior, with its own gap
            monitor.record(0, problem.at(problem.identity(), problem.mu0))
        result = monitor.result(Status.INTERRUPTED)
    return result


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the loaded libraries: once is enough


def warn_unless_converged(result: Result) -> None:
    """Say it once, with numbers, at the line that called the caller of this function."""
    if result.converged:
        return
    goal = result.tol * max(1.0, abs(result.primal))
    warnings.warn(
        f"Not converged: gap {result.gap:.3g} > {goal:.3g} (tol {result.tol:g}) after "
        f"{result.n_iter} iterations. {result.status.value}",
        ConvergenceWarning,
        stacklevel=3,
    )


def _start_from(init: Result | Iterate, problem: LogDetProblem) -> tuple[list[Array], float]:
    try:
        W, b0 = [np.asarray(matrix, dtype=float) for matrix in init.W], float(init.b0)
    except (AttributeError, TypeError) as error:
        raise TypeError(
            f"init: expected an earlier result, with W and b0, got {type(init).__name__}"
        ) from error
    shapes, expected = [matrix.shape for matrix in W], [(n, n) for n in problem.sizes]
    if shapes != expected:
        raise ValueError(f"init: expected W of shapes {expected}, got {shapes}")
    return problem.factors_of(W), b0 if problem.learns_threshold else problem.mu0


def _multipliers_from(init: Result | Iterate, problem: LogDetProblem) -> Array | None:
    """One α_k a pair, where `init` has some and they can belong to these pairs."""
    active, n_pairs = getattr(init, "active", None), problem.sums.n_pairs
    if active is None or np.max(active, initial=-1) >= n_pairs:
        return None
    multipliers = np.zeros(n_pairs)
    multipliers[active] = init.multipliers
    return multipliers


def _check_options(solver: str, **given: str) -> dict[str, str]:
    """Those of the options that are the solver's own; another solver's must keep its default."""
    for owner, options in OPTIONS.items():
        for name, choices in options.items():
            _check_choice(name, given[name], choices)
            if owner != solver and given[name] != choices[0]:
                raise ValueError(
                    f"{name}: belongs to solver={owner!r}, got {given[name]!r} with "
                    f"solver={solver!r}"
                )
    return {name: given[name] for name in OPTIONS[solver]}


def _check_magnitude(blocks: Blocks) -> None:
    largest = max(float(np.max(np.abs(array))) for array in blocks.arrays)
    if largest > LARGEST_ENTRY:
        raise ValueError(
            f"X: expected entries of at most {LARGEST_ENTRY:g}, whose squares and fourth powers "
            f"are still numbers, got {largest:g}; rescale X"
        )


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}: expected one of {listed}, got {value!r}")


def _check_positive(or_infinite: bool = False, **values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"{name}: expected a number, got {value!r}")
        allowed = value > 0 and (isfinite(value) or (or_infinite and isinf(value)))
        if isnan(value) or not allowed:
            kind = "a positive number" + (" or numpy.inf" if or_infinite else "")
            raise ValueError(f"{name}: expected {kind}, got {value!r}")


def _check_max_iter(max_iter: Any, solver: str) -> int:
    if max_iter is None:
        return DEFAULT_MAX_ITER[solver]
    if not isinstance(max_iter, Integral) or isinstance(max_iter, bool):
        raise TypeError(f"max_iter: expected an integer, got {max_iter!r}")
    if max_iter < 1:
        raise ValueError(f"max_iter: expected at least 1, got {max_iter}")
    return int(max_iter)


def _check_margin(margin: Any) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in margin)
    except (TypeError, ValueError) as error:
        raise TypeError(f"margin: expected two numbers (γ_s, γ_d), got {margin!r}") from error
    if not 0 < low < high < float("inf"):
        raise ValueError(f"margin: expected 0 < γ_s < γ_d, got {margin!r}")
    return low, high


def _check_prior(prior: Any, blocks: Blocks) -> list[Array] | None:
    if prior is None:
        return None
    sizes = [n for n, _ in blocks.block_shapes]
    single = blocks.n_blocks == 1 and np.shape(prior) == (sizes[0], sizes[0])
    try:
        matrices = [np.asarray(W0, dtype=float) for W0 in ([prior] if single else prior)]
    except (TypeError, ValueError) as error:
        raise TypeError(f"prior: expected a list of matrices or None, got {prior!r}") from error
    shapes, expected = [W0.shape for W0 in matrices], [(n, n) for n in sizes]
    if shapes != expected:
        raise ValueError(f"prior: expected matrices of shapes {expected}, got {shapes}")
    for m, W0 in enumerate(matrices):
        _check_posdef(W0, f"prior: block {m}")
    return matrices


def _check_posdef(matrix: np.ndarray, name: str) -> None:
    if not np.all(np.isfinite(matrix)):
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    difference = float(np.max(np.abs(matrix - matrix.T)))
    if difference > 1e-8 * float(np.max(np.abs(matrix))):
        raise ValueError(
            f"{name}: expected a symmetric matrix, got entries that differ by {difference:.3g}"
        )
    values = np.linalg.eigvalsh(matrix)
    if values[0] <= 1e-14 * values[-1]:
        raise ValueError(
            f"{name}: expected a positive definite matrix, got eigenvalues from "
            f"{values[0]:.3g} to {values[-1]:.3g}"
        )
