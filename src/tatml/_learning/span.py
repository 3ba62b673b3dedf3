"""The span of the samples of a block with more rows than that, and linear maps in factored form."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import Any, NoReturn

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from .._array import Doubles, Indices, to_numpy
from .._data.sparse import SparseBlock
from .._optim.result import Result
from .priors import around_mean, rows_of

MOST_ROWS = 1000  # the most rows for which square matrices of a wide block are formed after the fit
RANK_CUT = 1e-12  # least eigenvalue of a Gram matrix relative to the largest


def too_large(name: str, n: int) -> str:
    """Return the message of errors about a square matrix that is not formed."""
    return (
        f"{name}: expected at most {MOST_ROWS} rows in a block with fewer samples than rows, got "
        f"{n}, whose {n} × {n} matrix is not formed; use transform, pair_distance or get_metric, "
        "or fit with n_components"
    )


@dataclass(frozen=True, eq=False)
class SparseRows:
    """The sparse samples of a block around their mean, which is not subtracted.

    Parameters
    ----------
    data, indices, indptr : arrays
        The samples as a sparse array in compressed rows.
    mean : array of shape (n,)
        Their mean.
    """

    data: Doubles
    indices: Indices
    indptr: Indices
    mean: Doubles

    @property
    def shape(self) -> tuple[int, int]:
        """The number of samples, and that of columns."""
        return len(self.indptr) - 1, len(self.mean)

    @property
    def table(self) -> csr_array:
        """The samples as a sparse array."""
        return csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def inner(self, rows: Doubles | csr_array) -> Doubles:
        """Return the products of rows, dense or sparse, with all samples around their mean."""
        products = rows @ self.table.T
        dense = products.toarray() if issparse(products) else products
        return dense - (rows @ self.mean)[:, None]

    def combined(self, weights: Doubles) -> Doubles:
        """Return sums of the samples around their mean, with a row of weights each."""
        return weights @ self.table - np.outer(weights.sum(axis=1), self.mean)


@dataclass(frozen=True, eq=False)
class Span:
    """The span of the samples of one block.

    Parameters
    ----------
    unit : array of shape (n,)
        D, the units of the rows.
    rows : array of shape (k, n), or SparseRows
        Uᵀ, or the samples in units that it is combined of.
    mix : array of shape (k, r) or None
        The coefficients of the combination, Uᵀ = mixᵀ rows; None for Uᵀ = rows.
    whitening : array of shape (n, n) or None
        Cᵀ in place of D⁻¹, for a prior C Cᵀ that was given.
    outside : float
        ω, the prior outside the span.
    """

    unit: Doubles
    rows: Doubles | SparseRows
    mix: Doubles | None
    whitening: Doubles | None = None
    outside: float = 1.0

    @property
    def size(self) -> int:
        """n, the number of rows of the block."""
        return self.rows.shape[1]

    def in_units(self, rows: Any) -> Any:
        """Return D⁻¹x for each row x; a sparse table stays sparse."""
        if self.whitening is not None:
            return rows @ self.whitening.T
        return self._divided(rows)

    def _divided(self, rows: Any) -> Any:
        """Return rows, dense or sparse, divided by the units."""
        if not issparse(rows):
            return rows / self.unit
        divided = rows.copy()
        divided.data[:] /= self.unit[divided.indices]
        return divided

    def coordinates(self, scaled: Any) -> Doubles:
        """Return Uᵀz for each row z, in units, of a dense or sparse table."""
        if isinstance(self.rows, SparseRows):
            found = self.rows.inner(self._divided(scaled))
        else:
            found = scaled @ self.rows.T
        return found if self.mix is None else found @ self.mix

    def expanded(self, coordinates: Doubles) -> Doubles:
        """Return U c for each row c."""
        weights = coordinates if self.mix is None else coordinates @ self.mix.T
        if isinstance(self.rows, SparseRows):
            return self.rows.combined(weights) / self.unit
        return weights @ self.rows

    def out_of_coordinates(self, rows: Doubles) -> Doubles:
        """Return D⁻ᵀz for each row z, in units: its product with x is that of z with D⁻¹x."""
        return rows / self.unit if self.whitening is None else rows @ self.whitening

    def as_rows(self, inner: Doubles) -> Doubles:
        """Return rows of length n whose product with x is that of `inner` with Uᵀ D⁻¹ x."""
        return self.out_of_coordinates(self.expanded(inner))

    def inside(self, matrix: Doubles) -> Doubles:
        """Return the rows of a matrix A, shape (k, n), as A D U: the inverse of `as_rows`."""
        return self.coordinates(self._out_of_units(matrix.T).T)

    def whole(self, coordinates: Doubles) -> Doubles:
        """Return D U c for each row c: rows with these coordinates, and nothing outside."""
        return self._out_of_units(self.expanded(coordinates).T).T

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
        L, the factor inside the span. The symmetric root of L Lᵀ makes the map independent of the
        basis U.
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

    @property
    def T(self) -> NoReturn:  # noqa: N802
        """Raises AttributeError: there is no matrix to transpose."""
        raise AttributeError(too_large("components_", self.span.size))

    def __matmul__(self, matrix: Doubles) -> Doubles:
        return self.of_rows(matrix.T).T

    def of_rows(self, rows: Doubles) -> Doubles:
        """Return the images of rows of length n."""
        scaled = self.span.in_units(rows)
        c = self.span.coordinates(scaled)
        inside = self.span.expanded(c @ self.inner - self.outside * c)
        inside += self.outside * scaled
        return inside

    def weigh(self, array: NDArray[np.floating]) -> Doubles:
        """Return AᵀA times every matrix of a block, where A is the matrix of this map."""
        n_samples, n, width = array.shape
        scaled = self.span.in_units(rows_of(array))
        c = self.span.coordinates(scaled)
        outside = self.outside**2
        rows = self.span.expanded(c @ self.inner @ self.inner.T - outside * c) + outside * scaled
        rows = self.span.out_of_coordinates(rows)
        return np.swapaxes(rows.reshape(n_samples, width, n), 1, 2)

    def embed(self, array: NDArray[np.floating]) -> Doubles:
        """Return the images of all matrices of a block, flattened to one row per sample."""
        array = to_numpy(array)
        n_samples, n, width = array.shape
        images = self.of_rows(rows_of(array)).reshape(n_samples, width, n)
        return np.swapaxes(images, 1, 2).reshape(n_samples, n * width)

    def squared_distances(self, block: SparseBlock, index: Indices) -> Doubles:
        """Return the squared distances of pairs of sparse samples, without a dense array of them.

        The part outside the span is a difference of squares.
        """
        c = self.span.coordinates(self.span.in_units(block.table))
        squares = np.empty(len(index))
        for part, difference in block.differences(index[:, 0], index[:, 1]):
            difference.data[:] /= self.span.unit[difference.indices]
            inside = c[index[part, 0]] - c[index[part, 1]]
            rest = np.asarray((difference**2).sum(axis=1)).ravel() - np.sum(inside**2, axis=1)
            squares[part] = np.sum((inside @ self.inner) ** 2, axis=1)
            squares[part] += self.outside**2 * np.maximum(rest, 0.0)
        return squares

    def squared_sums(self, block: SparseBlock, index: Indices, mean: Doubles) -> Doubles:
        """Return the squared norms of images of x + y − 2 mean, for pairs of sparse samples.

        The norms of the sums follow from those of the samples and their inner products.
        """
        scaled = self.span.in_units(block.table)
        middle = self.span.in_units(mean.reshape(1, -1))
        c = self.span.coordinates(scaled) - self.span.coordinates(middle)
        own = np.asarray((scaled**2).sum(axis=1)).ravel() - 2 * (scaled @ middle[0])
        own += middle[0] @ middle[0]  # ‖x − mean‖² of each sample
        squares = np.empty(len(index))
        for part, difference in block.differences(index[:, 0], index[:, 1]):
            difference.data[:] /= self.span.unit[difference.indices]
            i, j = index[part].T
            inside = c[i] + c[j]
            rest = 2 * (own[i] + own[j]) - np.asarray((difference**2).sum(axis=1)).ravel()
            rest -= np.sum(inside**2, axis=1)
            squares[part] = np.sum((inside @ self.inner) ** 2, axis=1)
            squares[part] += self.outside**2 * np.maximum(rest, 0.0)
        return squares

    def matrix(self) -> Doubles:
        """Return the matrix of shape (n, n)."""
        return self.of_rows(np.eye(self.span.size)).T


Factor = NDArray[np.float64] | SpanFactor  # the linear map of one block


def join_factors(A: Factor, R: Factor) -> Factor:
    """Return a map B with BᵀB = AᵀA + RᵀR, of two maps of one block; spans must be the same."""
    if isinstance(A, SpanFactor) and isinstance(R, SpanFactor):
        inner = join_factors(A.inner.T, R.inner.T)
        return SpanFactor(A.span, inner.T, hypot(A.outside, R.outside))
    return scipy.linalg.qr(np.concatenate([A, R]), mode="r", check_finite=False)[0][: A.shape[1]]


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
    if isinstance(array, SparseBlock):
        if whitening is None:
            return _find_sparse_span(array, unit)
        array = np.asarray(array)
    n_samples, _, width = array.shape
    rows = around_mean(array)
    rows[:, ~varies] = 0.0  # they may differ from zero by rounding
    rows = rows / unit if whitening is None else rows @ whitening.T
    if accurate:
        Q, R = scipy.linalg.qr(rows.T, mode="economic", overwrite_a=True, check_finite=False)
        coordinates, span = R.T, Span(unit, np.ascontiguousarray(Q.T), None, whitening)
    else:
        coordinates, mix = _gram_basis(rows @ rows.T)
        span = Span(unit, rows, mix, whitening)
    stacked = coordinates.reshape(n_samples, width, -1)
    return span, np.ascontiguousarray(np.swapaxes(stacked, 1, 2))


def _find_sparse_span(block: SparseBlock, unit: Doubles) -> tuple[Span, Doubles]:
    """Return the span of a sparse block, from the Gram matrix of its samples."""
    table, scaled = block.table, block.table.copy()
    scaled.data[:] /= unit[scaled.indices]
    gram = (scaled @ scaled.T).toarray()
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1)[:, None]
    coordinates, mix = _gram_basis((gram + gram.T) / 2)
    rows = SparseRows(table.data.copy(), table.indices.copy(), table.indptr, block.means())
    return Span(unit, rows, mix), coordinates[:, :, None]


def _gram_basis(gram: Doubles) -> tuple[Doubles, Doubles]:
    """Return the coordinates of samples, and the combinations of them that are orthonormal."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > RANK_CUT * values[-1]
    kept[-1] = True  # of identical samples, too
    roots = np.sqrt(np.maximum(values[kept], 0.0))
    return vectors[:, kept] * roots, vectors[:, kept] / np.where(roots > 0, roots, 1.0)
