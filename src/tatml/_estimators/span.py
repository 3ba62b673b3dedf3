"""The span of the samples of a block with more rows than that, and linear maps in factored form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .._array import Doubles, lower_triangular
from .._optim.result import Result
from .priors import rows_of

__all__ = ["MOST_ROWS", "Span", "SpanFactor", "SpanResult", "find_span", "is_wide", "too_large"]

ROWS_PER_SPAN = 1.0  # a block with more rows than this times its samples' columns is wide
MOST_ROWS = 1000  # the most rows for which square matrices of a wide block are formed after the fit
RANK_CUT = 1e-12  # least eigenvalue of a Gram matrix relative to the largest


def is_wide(array: NDArray[np.floating]) -> bool:
    """Return whether a block has more rows than the columns of its samples can span."""
    n_samples, n, width = array.shape
    return n > ROWS_PER_SPAN * n_samples * width


def too_large(name: str, n: int) -> AttributeError:
    """Return the error for a square matrix that is not formed."""
    return AttributeError(
        f"{name}: expected at most {MOST_ROWS} rows in a block with fewer samples than rows, got "
        f"{n}, whose {n} × {n} matrix is not formed; use transform, pair_distance or get_metric, "
        "or fit with n_components"
    )


@dataclass(frozen=True, eq=False)
class Span:
    """The span of the samples of one block.

    Parameters
    ----------
    unit : array of shape (n,)
        D, the units of the rows.
    rows : array of shape (k, n)
        Uᵀ, or the samples that it is combined of.
    mix : array of shape (k, r) or None
        The coefficients of the combination, Uᵀ = mixᵀ rows; None for Uᵀ = rows.
    whitening : array of shape (n, n) or None
        Cᵀ in place of D⁻¹, for a prior C Cᵀ that was given.
    outside : float
        ω, the prior outside the span.
    """

    unit: Doubles
    rows: Doubles
    mix: Doubles | None
    whitening: Doubles | None = None
    outside: float = 1.0

    @property
    def size(self) -> int:
        """n, the number of rows of the block."""
        return self.rows.shape[1]

    def in_units(self, rows: Doubles) -> Doubles:
        """Return D⁻¹x for each row x."""
        return rows / self.unit if self.whitening is None else rows @ self.whitening.T

    def coordinates(self, scaled: Doubles) -> Doubles:
        """Return Uᵀz for each row z, in units."""
        found = scaled @ self.rows.T
        return found if self.mix is None else found @ self.mix

    def expanded(self, coordinates: Doubles) -> Doubles:
        """Return U c for each row c."""
        return (coordinates if self.mix is None else coordinates @ self.mix.T) @ self.rows

    def as_rows(self, inner: Doubles) -> Doubles:
        """Return rows of length n whose product with x is that of `inner` with Uᵀ D⁻¹ x."""
        rows = self.expanded(inner)
        return rows / self.unit if self.whitening is None else rows @ self.whitening

    def inside(self, matrix: Doubles) -> Doubles:
        """Return the rows of a matrix A, shape (k, n), as A D U: the inverse of `as_rows`."""
        return self.coordinates(self._out_of_units(matrix.T).T)

    def restricted(self, L: Doubles) -> Doubles:
        """Return the factor inside the span of a matrix L Lᵀ of the whole block."""
        return lower_triangular(self.coordinates(self._out_of_units(L).T).T)

    def _out_of_units(self, columns: Doubles) -> Doubles:
        """Return D x for each column x."""
        if self.whitening is None:
            return columns * self.unit[:, None]
        return scipy.linalg.solve_triangular(self.whitening.T, columns, lower=True)

    def matrix(self, inner: Doubles) -> Doubles:
        """Return D⁻¹ [U V Uᵀ + ω (I − U Uᵀ)] D⁻¹, of shape (n, n), for the matrix V."""
        scaled = self.in_units(np.eye(self.size))
        c = self.coordinates(scaled)
        return self.outside * (scaled @ scaled.T) + c @ (inner @ c.T) - self.outside * (c @ c.T)


@dataclass(frozen=True, eq=False)
class SpanFactor:
    """The linear map x ↦ [U Lᵀ Uᵀ + √ω (I − U Uᵀ)] D⁻¹ x of a wide block, without its matrix.

    Parameters
    ----------
    span : Span
        U and D.
    inner : array of shape (r, r)
        L, the factor inside the span.
    outside : float
        √ω, the factor outside.
    """

    span: Span
    inner: Doubles
    outside: float

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, n) of the matrix."""
        return self.span.size, self.span.size

    def __len__(self) -> int:
        return self.span.size

    def __matmul__(self, matrix: Doubles) -> Doubles:
        return self.of_rows(matrix.T).T

    def of_rows(self, rows: Doubles) -> Doubles:
        """Return the images of rows of length n."""
        scaled = self.span.in_units(rows)
        c = self.span.coordinates(scaled)
        inside = self.span.expanded(c @ self.inner - self.outside * c)
        inside += self.outside * scaled
        return inside

    def embed(self, array: NDArray[np.floating]) -> Doubles:
        """Return the images of all matrices of a block, flattened to one row per sample."""
        n_samples, n, width = array.shape
        images = self.of_rows(rows_of(array)).reshape(n_samples, width, n)
        return np.swapaxes(images, 1, 2).reshape(n_samples, n * width)

    def matrix(self) -> Doubles:
        """Return the matrix of shape (n, n)."""
        return self.of_rows(np.eye(self.span.size)).T


class SpanResult(Result):
    """A result whose factors L are those inside the spans of wide blocks."""

    @property
    def W(self) -> list[Any]:  # noqa: N802
        """Raises AttributeError: the matrices are too large."""
        raise AttributeError(
            f"W: expected at most {MOST_ROWS} rows in a block with fewer samples than rows, got "
            "more; L are the factors inside the span of the samples"
        )


def find_span(
    array: NDArray[np.floating],
    unit: Doubles,
    varies: NDArray[np.bool_],
    whitening: Doubles | None,
    accurate: bool,
) -> tuple[Span, Doubles]:
    """Return the span of a block, and the coordinates of its samples, (n_samples, r, n')."""
    n_samples, _, width = array.shape
    rows = rows_of(array - array.mean(axis=0))
    rows[:, ~varies] = 0.0  # they may differ from zero by rounding
    rows = rows / unit if whitening is None else rows @ whitening.T
    if accurate:
        Q, R = scipy.linalg.qr(rows.T, mode="economic", overwrite_a=True, check_finite=False)
        coordinates, span = R.T, Span(unit, np.ascontiguousarray(Q.T), None, whitening)
    else:
        values, vectors = np.linalg.eigh(rows @ rows.T)
        kept = values > RANK_CUT * values[-1]
        roots = np.sqrt(values[kept])
        coordinates = vectors[:, kept] * roots
        span = Span(unit, rows, vectors[:, kept] / roots, whitening)
    stacked = coordinates.reshape(n_samples, width, -1)
    return span, np.ascontiguousarray(np.swapaxes(stacked, 1, 2))
