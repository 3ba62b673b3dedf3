"""The result of a solver: a point, its certificate, why it stopped, and the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import isfinite
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._array import Array, placed, symmetrised, to_numpy
from .._warnings import warn_user


class Status(Enum):
    """The reason why a solver stopped; its value is a sentence that explains it.

    Examples
    --------
    >>> from tatml import Status
    >>> str(Status.MAX_ITER), Status.MAX_ITER.value
    ('max_iter', 'The iteration limit was reached before the tolerance.')
    """

    CONVERGED = "The duality gap is within the tolerance."
    MAX_ITER = "The iteration limit was reached before the tolerance."
    PRECISION = "Floating-point precision allows no further progress towards the tolerance."
    STOPPED = "The callback asked to stop."
    INTERRUPTED = "The user interrupted; this is the best point so far."

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class Iterate:
    """A point of a running solver, as a callback gets it; passed as `init=`, it is the start.

    Its numbers are as computed: only those of a `Result` include bounds on rounding errors.

    Examples
    --------
    >>> from tatml import learn_metric
    >>> X, points = [[0.0], [1.0], [5.0]], []
    >>> _ = learn_metric(X, [[0, 1], [0, 2]], [True, False], callback=points.append)
    >>> points[0].n_iter, points[-1].gap < 1e-5
    (0, True)
    """

    n_iter: int
    L: list[Array] = field(repr=False)
    b0: float | None
    primal: float
    gap: float
    n_active: int
    seconds: float

    @property
    def W(self) -> list[Array]:  # noqa: N802
        """The matrices L Lᵀ, rounded."""
        return metrics_of(self.L)

    @property
    def dual(self) -> float:
        """A lower bound on the optimal value, up to rounding."""
        return self.primal - self.gap


@dataclass(frozen=True, eq=False)
class Result:
    """A learnt metric and threshold with their certificate.

    Attributes
    ----------
    L : list of M arrays of shape (n_m, n_m)
        Lower triangular factors of the learnt matrices, with a positive diagonal: W_m = L_m L_mᵀ.
        The certificate is that of L and b0, and ``Lᵀx`` is the embedding (over √M).
    W : list of M arrays of shape (n_m, n_m)
        The learnt positive definite matrices, computed from L on access. They are rounded:
        eigenvalues below 1e-16 of the largest are lost, so that W may not be positive definite if
        features are very large. Compute distances from L.
    b0 : float or None
        The threshold, in squared units; None if there were comparisons and no pairs. With a
        midpoint it is that of the score. It may be negative then, and with the logistic loss.
    primal : float
        F(L, b0), as computed.
    dual : float
        A proved lower bound on min F. It allows for the rounding errors of `primal`, and is
        therefore slightly below ``primal - gap``.
    gap : float
        A proved upper bound on F(L, b0) − min F, absolute. It includes rounding errors.
    converged : bool
        Whether `gap ≤ tol · max(1, |primal|)`, whatever the status.
    status : Status
        Why the solver stopped; ``result.status.value`` is a sentence for people.
    n_iter : int
        The number of Newton steps or of Dykstra epochs.
    tol : float
        The tolerance that was used: the ``tol`` of the call, in float32 at least 1e-5.
    history : dict of str to array of shape (n_records,)
        ``iteration``, ``primal``, ``dual``, ``gap``, ``b0``, ``n_active``, ``seconds`` and columns
        of the solver; as computed, without bounds on rounding errors.
    active : integer array of shape (n_active,), or None
        The pairs whose multiplier is not zero; the number of pairs plus t stands for comparison t.
        None if the pairs were not all in memory (out of
        core, a cluster, all pairs): ``history["n_active"]`` counts them.
    multipliers : array of shape (n_active,), or None
        The multipliers α_k = |s_k| > 0 of the active pairs.
    R, V : list of M arrays of shape (n_m, n_m), or None
        With a midpoint, lower triangular factors of the matrices of the sums, and these matrices
        V_m = R_m R_mᵀ; None without one.
    center : list of M arrays of shape (n_m, n'_m), or None
        With a midpoint, what is subtracted from the samples before they are added.

    Examples
    --------
    >>> import tatml
    >>> X, pairs = [[0.0], [0.1], [2.0]], [[0, 1], [1, 2]]
    >>> result = tatml.learn_metric(X, pairs, [True, False])
    >>> str(result.status), result.converged
    ('converged', True)
    >>> result.status.value
    'The duality gap is within the tolerance.'
    """

    L: list[Array] = field(repr=False)
    b0: float | None
    primal: float
    dual: float
    gap: float
    status: Status
    n_iter: int
    tol: float
    history: dict[str, np.ndarray] = field(repr=False)
    active: Array | None = field(repr=False)
    multipliers: Array | None = field(repr=False)
    R: list[Array] | None = field(default=None, repr=False)
    center: list[Array] | None = field(default=None, repr=False)

    @property
    def V(self) -> list[Array] | None:  # noqa: N802
        """The matrices R Rᵀ of a midpoint, rounded; None without one."""
        return None if self.R is None else metrics_of(self.R)

    @property
    def W(self) -> list[Array]:  # noqa: N802
        """The learnt matrices L Lᵀ, rounded: see `Result`."""
        return metrics_of(self.L)

    def __getstate__(self) -> dict[str, object]:
        """Return the state with the status by name: not every format can store enumerations."""
        return vars(self) | {"status": self.status.name}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state | {"status": Status[str(state["status"])]})

    @property
    def converged(self) -> bool:
        """Whether `gap ≤ tol · max(1, |primal|)`, whatever the status."""
        return is_converged(self.gap, self.primal, self.tol)


def with_midpoint(result: Result, center: Sequence[Array]) -> Result:
    """Return the result of a problem with 2M blocks as one with W, V and the centre."""
    M = len(center)
    return replace(result, L=result.L[:M], R=result.L[M:], center=[*center])


def joined_factors(init: Any) -> Any:
    """Return a start of a solver whose L has the factors of V too, if there is a midpoint."""
    R = getattr(init, "R", None)
    return init if R is None else replace(init, L=[*init.L, *R], R=None)


def learnt_b0(result: Result) -> float:
    """Return b0; raise AttributeError if there were comparisons and no pairs."""
    if result.b0 is None:
        raise AttributeError("b0: a metric that was learnt from comparisons alone has no threshold")
    return result.b0


def place_result(result: Result, like: Array) -> Result:
    """Copy the factors of a result, from which a solver may start, to the device of `like`."""
    return replace(result, L=[placed(factor, like) for factor in result.L])


def host_result(result: Result) -> Result:
    """Return a result with NumPy arrays."""
    return replace(
        result,
        L=[to_numpy(factor) for factor in result.L],
        active=None if result.active is None else to_numpy(result.active),
        multipliers=None if result.multipliers is None else to_numpy(result.multipliers),
    )


def metrics_of(L: Sequence[Array]) -> list[Array]:
    """Compute L Lᵀ of each block."""
    return [symmetrised(factor @ factor.T) for factor in L]


def is_converged(gap: float, primal: float, tol: float) -> bool:
    """Return whether the stopping rule of all solvers holds."""
    return isfinite(primal) and gap <= tol * max(1.0, abs(primal))


def warn_unless_converged(result: Result) -> None:
    """Warn that a result has not converged, with its gap, tolerance and iterations."""
    if result.converged:
        return
    goal = result.tol * max(1.0, abs(result.primal))
    warn_user(
        f"Not converged: gap {result.gap:.3g} > {goal:.3g} (tol {result.tol:g}) after "
        f"{result.n_iter} iterations. {result.status.value}",
        ConvergenceWarning,
    )
