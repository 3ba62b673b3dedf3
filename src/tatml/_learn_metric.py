"""`learn_metric`: check the arguments, build the problem, solve it, warn if it did not converge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ._array import Array, as_double, foreign_kind, place_of
from ._data.blocks import (
    Blocks,
    as_blocks,
    as_center,
    check_index_kind,
    check_init,
    check_magnitude,
    check_prior,
)
from ._data.pairs import Comparisons, as_comparisons, as_pairs, check_comparisons, link_pairs
from ._data.storage import check_files
from ._messages import shown
from ._optim.custom_loss import CustomLoss, check_loss
from ._optim.losses import comparison_hinge, join_losses
from ._optim.pair_term import PairTerm
from ._optim.problem import IndexPairs, LogDetProblem, pair_term
from ._optim.result import (
    Iterate,
    Result,
    joined_factors,
    warn_unless_converged,
    with_midpoint,
)
from ._optim.solvers import Dykstra, Newton, SolverLike, as_solver
from ._optim.terms import Term
from ._sharding.all_pairs import AllPairs
from ._sharding.base import LossSetting
from ._sharding.chunks import PairChunks, in_parts, sharded_term
from ._sharding.compute import Compute, as_compute
from ._validation import (
    check_callable,
    check_flag,
    check_margin,
    check_number,
    check_positive,
)

LOSSES = ("squared_hinge", "logistic")
DEFAULT_MARGIN = (0.5, 2.0)
# The smallest tolerance per precision. A smaller `tol` is raised to it: float32 could not certify
# it.
SMALLEST_TOL = {"float64": 0.0, "float32": 1e-5}


def learn_metric(
    X: Blocks | ArrayLike | PairChunks,
    pairs: ArrayLike | AllPairs | None = None,
    similar: ArrayLike | None = None,
    *,
    C: float = 1.0,
    c0: float = 1.0,
    mu0: float = 1.0,
    margin: tuple[float, float] = DEFAULT_MARGIN,
    loss: Literal["squared_hinge", "logistic"] | CustomLoss = "squared_hinge",
    midpoint: bool | ArrayLike | Sequence[ArrayLike] = False,
    prior: Sequence[ArrayLike] | ArrayLike | None = None,
    solver: SolverLike = "newton",
    tol: float = 1e-6,
    weights: ArrayLike | None = None,
    comparisons: Comparisons | None = None,
    init: Result | Iterate | None = None,
    callback: Callable[[Iterate], object] | None = None,
    verbose: bool = False,
    compute: Compute | None = None,
) -> Result:
    """Learn one positive definite matrix per block, and the distance threshold, from pairs.

    It learns from comparisons ("a is more like b than like c") as well, alone or with pairs.

    Minimises, over W_m ≻ 0 and b0 (docs/theory.md, (P)),

        Σ_m BD(W_m, W0_m) + (C/2) Σ_k w_k [y_k (D_k(W) − γ_k b0)]_+² + (c0/2)(b0 − μ0)²

    with D_k(W) = (1/M) Σ_m ‖Φ_m(x_i) − Φ_m(x_j)‖²_{W_m} the squared distance of pair k = (i, j).
    Similar pairs (y = +1) should be closer than γ_s b0, dissimilar ones (y = −1) farther than
    γ_d b0. C multiplies the *sum* over pairs, as in the paper; units matter with the prior W0 = I.
    Comparisons add the term (Cmp) of docs/theory.md. Without pairs there is no threshold: ``b0`` is
    None, and `C`, `c0`, `mu0` and `margin` are not used.

    With a `midpoint`, a second matrix per block weighs *where* a pair lies: the score of a pair is
    q = D(W) − (1/M) Σ_m ‖Φ_m(x_i) + Φ_m(x_j) − 2μ_m‖²_{V_m}, and the pair is "same" if q < b0
    (docs/theory.md, (Mid)). q is no distance, and b0 may have any sign.

    Parameters
    ----------
    X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
        The samples: vectors, matrices, or tuples of matrices (`Blocks`); or `PairChunks`. With
        PyTorch tensors and CuPy arrays the computation runs on their device, and ``W`` is of their
        kind (docs/scale.md).
    pairs : array-like of int of shape (n_pairs, 2), or AllPairs
        Indices into X, or `AllPairs` for all pairs of labelled samples.
    similar : array-like of bool of shape (n_pairs,)
        Whether the two samples of a pair are similar. X, pairs, similar and weights may also be
        arrays on disk (zarr, HDF5 or any other that can be sliced; `numpy.memmap` with
        ``compute=Compute(max_memory=…)``), and pairs, similar and weights dask arrays: see
        docs/scale.md.
    C : float, default=1.0
        The weight c of the pairs.
    c0 : float, default=1.0
        Strength of the threshold's pull towards `mu0`; ``numpy.inf`` fixes it there.
    mu0 : float, default=1.0
        Where the threshold is pulled to, in squared units.
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d), with 0 < γ_s < γ_d. Only for the squared hinge of distances.
    loss : {"squared_hinge", "logistic"} or CustomLoss, default="squared_hinge"
        The loss of a pair: the squared hinge above; with a midpoint [1 + y_k (q_k − b0)]_+²/2;
        log(1 + exp(y_k (D_k − b0))), the log loss of the probability 1/(1 + exp(D_k − b0)); or your
        own function of y_k (D_k − b0), an object of a class derived from
        `tatml.losses.CustomLoss`. With the last two, `mu0` and ``b0`` may have any sign.
    midpoint : bool or list of M arrays of shape (n_m, n'_m), default=False
        Whether to add the sums of pairs to their differences. They are sums of samples minus a
        centre: the mean of X, or the given arrays (one array when M = 1, of shape (n,) for
        vectors). The result then has ``V`` and ``center``.
    prior : list of M arrays of shape (n_m, n_m), one such array when M = 1, or None
        W0, symmetric positive definite. Default: the identity. With a midpoint, 2M arrays: those
        of W, then those of V.
    solver : {"newton", "dykstra"}, Newton or Dykstra, default="newton"
        The algorithm: primal-dual Newton, or the paper's stochastic Dykstra (docs/solvers.md). The
        words stand for `Newton` and `Dykstra` with their defaults; pass an object for other
        settings, such as ``Newton(max_iter=50, random_state=0)``.
    tol : float, default=1e-6
        Stop when the duality gap is at most ``tol * max(1, |primal|)``. In float32
        (``compute=Compute(dtype="float32")``) a smaller value than 1e-5 is raised to 1e-5, and
        ``Result.tol`` is the value that was used.
    weights : array-like of shape (n_pairs,), optional
        w_k ≥ 0, the weight of each pair.
    comparisons : Comparisons, optional
        Triplets or quadruplets of samples, with their own weights, margin and C. The solver has to
        be Newton.
    init : Result or Iterate, optional
        The start: an earlier result for the same block sizes, or the `Iterate` of a callback.
        Dykstra starts from multipliers: those of the result, or those computed at the point.
    callback : callable, optional
        Called with an `Iterate` after each step or certified epoch; it stops the solver by
        returning a true value. A `Checkpoint` keeps the best point on disk. With a midpoint, L of
        the `Iterate` has the factors of W, then those of V.
    verbose : bool, default=False
        Print one line per iteration, or per certified epoch.
    compute : Compute, optional
        Where to compute, and in which precision: in parts that fit a given memory, on a dask
        cluster, through a GPU, in float32. Default: in memory, on the device of X, in float64.

    Returns
    -------
    Result
        ``L``, ``W``, ``b0``, ``primal``, ``dual``, ``gap``, ``converged``, ``status``, ``n_iter``,
        ``history``, and the multipliers of the active pairs (None if pairs were read in parts);
        with a midpoint also ``R``, ``V`` and ``center``. The certificate is that of ``L`` (and
        ``R``) and ``b0``, and includes rounding errors.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above; the message names it.

    Warns
    -----
    ConvergenceWarning
        If the result has not converged; the message has gap, tolerance and iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import learn_metric
    >>> X = np.array([[0.0, 0.0], [0.1, 3.0], [2.0, 0.1], [2.1, 3.1]])
    >>> pairs = [[0, 1], [2, 3], [0, 2], [1, 3]]  # similar if their first features are
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
    chosen, where = as_solver(solver), as_compute(compute)
    setting = LossSetting(check_positive("C", C), check_margin(margin))
    c0 = check_positive("c0", c0, or_infinite=True)
    has_midpoint = not (isinstance(midpoint, bool | np.bool_) and not midpoint)
    is_hinge = check_loss("loss", loss, LOSSES) == "squared_hinge"
    check_mu0 = check_positive if is_hinge and not has_midpoint else check_number
    threshold = {"c0": c0, "mu0": check_mu0("mu0", mu0)}
    _check_for_loss(loss, has_midpoint, setting.margin, chosen, comparisons)
    if has_midpoint or not is_hinge:
        setting = setting._replace(loss="additive_hinge" if is_hinge else loss)
    tol = max(check_positive("tol", tol), SMALLEST_TOL[where.dtype])
    check_callable("callback", callback)  # before the first pass over the pairs, which may be slow
    verbose = check_flag("verbose", verbose)
    compared = _check_for_comparisons(chosen, comparisons)
    if comparisons is not None:
        setting = setting._replace(comparisons=(float(comparisons.C), float(comparisons.margin)))
    alone = comparisons is not None and pairs is None
    if alone:  # There is no threshold: b0 = μ0 = 0 is not a variable, and no loss depends on it.
        threshold = {"c0": inf, "mu0": 0.0}
    data = (X, pairs, similar, weights)
    check_files(X=X, pairs=pairs, similar=similar, weights=weights, **compared)
    term: Term
    if parts := in_parts(where, *data, *compared.values()):
        _check_for_parts(chosen, where)
        term = sharded_term(*data, setting, comparisons=comparisons, where=where, midpoint=midpoint)
        center = term.center
    else:
        term, center = _term_in_memory(data, comparisons, midpoint, setting, where.dtype)
    if prior is not None:
        sizes = [n for n, _ in term.block_shapes]
        prior = check_prior(prior, sizes, term.like, from_host=parts, dtype=where.dtype)
    problem = LogDetProblem.of(term, prior=prior, **threshold)
    problem = problem.without_threshold() if alone else problem
    _check_kind(chosen, where, problem.prior_factors[0])
    if init is not None:
        init = joined_factors(init)
        check_init(init, problem.sizes, problem.prior_factors[0])
    result = chosen.solve(problem, tol=tol, init=init, callback=callback, verbose=verbose)
    warn_unless_converged(result)
    return result if center is None else with_midpoint(result, center)


def _check_for_loss(
    loss: str | CustomLoss,
    has_midpoint: bool,
    margin: tuple[float, float],
    solver: Newton | Dykstra,
    comparisons: Any,
) -> None:
    """Raise for arguments that have no meaning with other losses, or with a midpoint."""
    if loss == "squared_hinge" and not has_midpoint:
        return
    kind = "a midpoint" if has_midpoint else f"loss={shown(loss)}"
    if margin != DEFAULT_MARGIN:
        raise ValueError(
            f"margin: expected {DEFAULT_MARGIN} with {kind}, which has no margins that multiply "
            f"the threshold, got {margin}"
        )
    if not isinstance(solver, Newton):
        raise ValueError(f"solver: expected 'newton' or Newton(…) with {kind}, got {shown(solver)}")
    if comparisons is not None:
        raise ValueError(f"comparisons: expected None with {kind}, got Comparisons")


def _check_for_comparisons(solver: Newton | Dykstra, comparisons: Any) -> dict[str, Any]:
    """Raise for a solver that cannot take comparisons; return the arrays by their names."""
    check_comparisons(comparisons)
    if comparisons is None:
        return {}
    if not isinstance(solver, Newton):
        raise ValueError(
            f"solver: expected 'newton' or Newton(…) with comparisons, got {shown(solver)}"
        )
    return _arrays_of(comparisons)


def _arrays_of(comparisons: Comparisons) -> dict[str, Any]:
    return {"comparisons: index": comparisons.index, "comparisons: weights": comparisons.weights}


def _check_for_parts(solver: Newton | Dykstra, compute: Compute) -> None:
    """Raise for a solver or precision that needs all pairs in memory."""
    where = "where pairs are read in parts"
    if compute.dtype != "float64":
        raise ValueError(f"compute: expected dtype='float64' {where}, got {shown(compute)}")
    if not isinstance(solver, Newton):
        raise ValueError(f"solver: expected 'newton' or Newton(…) {where}, got {shown(solver)}")
    if solver.linear_solver == "woodbury":
        raise ValueError(
            f"solver: expected linear_solver='auto', 'dense' or 'cg' {where}, got {shown(solver)}"
        )


def _check_kind(solver: Newton | Dykstra, compute: Compute, like: Array) -> None:
    """Raise for Dykstra unless it gets NumPy arrays and float64."""
    plain = foreign_kind(like) is None and compute.dtype == "float64"
    if not plain and not isinstance(solver, Newton):
        raise ValueError(
            f"solver: expected 'newton' or Newton(…) for {place_of(like)} arrays and "
            f"dtype={compute.dtype!r}, got {shown(solver)}, which runs on NumPy's float64"
        )


def _term_in_memory(
    data: tuple[Any, Any, Any, Any],
    comparisons: Comparisons | None,
    midpoint: Any,
    setting: LossSetting,
    dtype: str,
) -> tuple[PairTerm, Sequence[Array] | None]:
    """Check samples, pairs, labels and weights, and return the term of all pairs in memory.

    The second value is the centre of a midpoint, None without one.
    """
    X, given, similar, weights = data
    nothing = given is None and similar is None and weights is None
    if (given is None or similar is None) and (comparisons is None or not nothing):
        raise TypeError("pairs, similar: expected arrays, got None")
    blocks = as_blocks(X, any_kind=True)
    check_magnitude(blocks, "X")
    rows: IndexPairs
    pairs = None
    losses: list[Any] = []
    if given is not None:
        check_index_kind(blocks, pairs=given, similar=similar, weights=weights)
        pairs = as_pairs(given, similar, len(blocks), weights)
        losses.append(setting.loss_of(pairs))
    if comparisons is None:
        assert pairs is not None
        rows, loss = pairs, losses[0]
    else:
        check_index_kind(blocks, **_arrays_of(comparisons))
        quadruplets, weights = as_comparisons(comparisons, len(blocks))
        losses.append(comparison_hinge(weights, *setting.comparisons))
        rows = link_pairs(None if pairs is None else pairs.index, quadruplets)
        loss = join_losses(losses)
    center = as_center(
        midpoint,
        blocks.block_shapes,
        lambda: [blocks.xp.mean(as_double(array), axis=0) for array in blocks.arrays],
        like=blocks.arrays[0],
    )
    with np.errstate(over="ignore"):  # Weights may overflow in float32; `solve` then raises.
        return pair_term(blocks, rows, loss, dtype, center), center
