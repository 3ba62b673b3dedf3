"""Means of symmetric positive definite matrices: arrays (n_matrices, n, n) in, one matrix out.

The geometric mean M of X_1, …, X_N minimises f(M) = ½ mean_i d(M, X_i)², where d is the
affine-invariant distance, d(M, X) = ‖log(M^-½ X M^-½)‖_F. With M = A Aᵀ and Z_i = A⁻¹ X_i A⁻ᵀ, the
negative gradient of f is the mean J of the log Z_i, in the coordinates S ↦ A S Aᵀ of tangent
vectors. f is strongly convex along geodesics with modulus 1; hence the distance of M from the
minimiser is at most ‖J‖_F, which bounds the error of the result. The curvature of f is at most the
mean of h(log c_i), with c_i the condition number of Z_i and h(t) = (t/2) coth(t/2).

A step goes along the geodesic from M in the direction J: A becomes A exp(step J/2). These
coordinates are transported in parallel, so that gradients of successive points can be subtracted,
as the step lengths of Barzilai and Borwein need. They stay between 1/curvature and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from .._array import Floats, symmetrised
from ._symmetric import for_each_chunk, map_eigenvalues

MeanKind = Literal["geometric", "log-euclidean", "arithmetic"]
MEANS: tuple[MeanKind, ...] = get_args(MeanKind)
EPS = float(np.finfo(np.float64).eps)
PATIENCE = 10  # iterations without a smaller gradient after which rounding errors prevail


@dataclass(frozen=True)
class Mean:
    """A mean and how accurate it is.

    Attributes
    ----------
    matrix : array of shape (n, n)
    n_iter : int
        The number of iterations; 0 for a closed form.
    error : float
        A bound of the distance from the exact mean, in units of the root mean squared distance of
        the matrices from it.
    converged : bool
        Whether the error is at most the tolerance or what rounding errors allow.
    """

    matrix: Floats
    n_iter: int = 0
    error: float = 0.0
    converged: bool = True


def compute_mean(
    array: Floats, kind: MeanKind, *, tol: float, max_iter: int, block: int = 0
) -> Mean:
    """Return a mean of positive definite matrices; an error names the `block`."""
    array = array.astype(np.float64, copy=False)
    if kind == "arithmetic":
        return Mean(arithmetic_mean(array))
    if kind == "log-euclidean":
        logarithm = map_eigenvalues(array, np.log, 0).mean(axis=0)
        return Mean(_exponential(1.0, logarithm))
    return geometric_mean(array, tol=tol, max_iter=max_iter, block=block)


def arithmetic_mean(array: Floats) -> Floats:
    """Return the mean of the matrices; their sum may exceed the largest float."""
    return symmetrised(np.sum(array / len(array), axis=0))


def geometric_mean(array: Floats, *, tol: float, max_iter: int, block: int = 0) -> Mean:
    """Return the geometric mean of positive definite matrices.

    The first point is the geometric mean of the arithmetic and the harmonic mean, which is the
    solution for one and for two matrices. The matrices are whitened by the arithmetic mean once:
    what is iterated on is as well conditioned as the matrices are alike.
    """
    centre = arithmetic_mean(array)
    white = congruence(power(centre, -0.5), array)
    inverse = arithmetic_mean(_inverses(white, block))
    whitener, factor = power(inverse, 0.25), power(inverse, -0.25)
    last = best = _Gradient.at(white, whitener)
    best_factor, step, n_iter, waited = factor, 2 / (1 + last.curvature), 0, 0
    while not best.is_small(tol) and n_iter < max_iter and waited < PATIENCE:
        whitener = _exponential(-step / 2, last.descent) @ whitener
        factor = factor @ _exponential(step / 2, last.descent)
        new = _Gradient.at(white, whitener)
        if not np.isfinite(new.norm):
            break
        step, last = new.next_step(last, step), new
        n_iter, waited = n_iter + 1, waited + 1
        if new.norm < best.norm:
            best, best_factor, waited = new, factor, 0
    half = power(centre, 0.5) @ best_factor
    converged = best.is_small(tol) or best.is_rounding
    return Mean(symmetrised(half @ half.T), n_iter, best.error, converged)


def _inverses(white: Floats, block: int) -> Floats:
    """Return the inverses of the whitened matrices; raise an error if one has none."""
    try:
        return map_eigenvalues(white, np.reciprocal, block, takes_posdef=True)
    except ValueError as error:
        raise ValueError(
            "X: expected matrices whose geometric mean double precision can compute, got one that "
            f"is singular compared with the arithmetic mean in block {block}; use "
            "mean='log-euclidean', or rescale the matrices"
        ) from error


@dataclass(frozen=True)
class _Gradient:
    """The negative gradient of f at a point, and what the eigenvalues there tell about f.

    Attributes
    ----------
    descent : array of shape (n, n)
        J, the mean of the logarithms.
    spread : float
        The root mean squared distance of the matrices from the point.
    curvature : float
        The upper bound of the curvature of f.
    condition : float
        The largest condition number of a whitened matrix.
    """

    descent: Floats
    spread: float
    curvature: float
    condition: float

    @classmethod
    def at(cls, white: Floats, whitener: Floats) -> _Gradient:
        """Return the gradient at the point that `whitener` maps to the identity."""
        n_matrices, n, _ = white.shape
        logarithms = np.empty((n_matrices, n))
        sums: dict[int, Floats] = {}

        def add_chunk(rows: slice) -> None:
            values, vectors = np.linalg.eigh(congruence(whitener, white[rows]))
            with np.errstate(all="ignore"):
                logarithms[rows] = np.log(values)
            columns = vectors.transpose(1, 0, 2).reshape(n, -1)
            sums[rows.start] = (columns * logarithms[rows].ravel()) @ columns.T

        for_each_chunk(add_chunk, white)
        range_ = logarithms[:, -1] - logarithms[:, 0]
        return cls(
            descent=symmetrised(sum(sums[start] for start in sorted(sums)) / n_matrices),
            spread=float(np.sqrt(np.sum(logarithms**2) / n_matrices)),
            curvature=float(np.mean(_curvature(range_))),
            condition=float(np.exp(min(np.max(range_), 700.0))),
        )

    @property
    def norm(self) -> float:
        """The norm of the gradient, a bound of the distance from the mean."""
        return float(np.linalg.norm(self.descent))

    @property
    def error(self) -> float:
        """The bound of the distance from the mean in units of the spread."""
        return self.norm / self.spread if self.spread > 0 else 0.0

    @property
    def rounding(self) -> float:
        """The rounding error of the eigenvalues of matrices that are well conditioned."""
        return 10 * len(self.descent) * EPS

    @property
    def is_rounding(self) -> bool:
        """Whether the gradient is no larger than the rounding errors of the logarithms."""
        return self.norm <= self.rounding * self.condition

    def is_small(self, tol: float) -> bool:
        """Return whether the point is the mean up to the tolerance."""
        return self.norm <= max(tol * self.spread, self.rounding)

    def next_step(self, last: _Gradient, step: float) -> float:
        """Return the step of Barzilai and Borwein, after a step from `last` to here."""
        along = np.sum(last.descent * (last.descent - self.descent))
        with np.errstate(divide="ignore", over="ignore"):
            length = step * last.norm**2 / along if along > 0 else 0.0
        return float(np.clip(length, 1 / self.curvature, 1.0))


def _curvature(t: Floats) -> Floats:
    """Return h(t) = (t/2) coth(t/2), with h(0) = 1."""
    half = np.maximum(t / 2, 1e-8)
    return half / np.tanh(half)


def congruence(matrix: Floats, array: Floats) -> Floats:
    """Return the exactly symmetric B X Bᵀ for each matrix X."""
    return symmetrised(matrix @ array @ matrix.T)


def power(matrix: Floats, exponent: float) -> Floats:
    """Return a power of one positive definite matrix."""
    return _map_one(lambda values: values**exponent, matrix)


def _exponential(scale: float, matrix: Floats) -> Floats:
    """Return exp(scale S) of one symmetric matrix S."""
    return _map_one(lambda values: np.exp(scale * values), matrix)


def _map_one(function: Callable[[Floats], Floats], matrix: Floats) -> Floats:
    return map_eigenvalues(matrix[None], function, 0)[0]
