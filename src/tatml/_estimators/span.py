"""Blocks with more rows than their samples span: the problem is solved in the span, exactly.

With D the units of the rows and U an orthonormal basis of the span of D⁻¹(x − mean), every prior is

    W0 = D⁻¹ [U V0 Uᵀ + ω (I − U Uᵀ)] D⁻¹,

and the solution differs from it inside the span only: V0 becomes V, the solution of the problem of
the coordinates Uᵀ D⁻¹ x with the prior V0 (theory (Span)). No matrix of size n × n is formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .._array import Doubles, lower_triangular
from .._data.blocks import Blocks
from .._data.checks import check_prior
from .._data.pairs import Pairs
from .._optim.result import Result
from .._validation import check_choice
from .priors import (
    PRIORS,
    WithinClasses,
    block_prior,
    check_differ,
    rows_of,
    span_prior,
    span_units,
)

__all__ = [
    "MOST_ROWS",
    "MetricPrior",
    "ReducedBlocks",
    "Span",
    "SpanFactor",
    "SpanResult",
    "describe_spans",
    "is_wide",
    "mean_squares_of",
    "prior_of",
    "reduce_blocks",
    "too_large",
]

ROWS_PER_SPAN = 1.0  # a block with more rows than this times its samples' columns is wide
MOST_ROWS = 1000  # the most rows for which square matrices of a wide block are formed after the fit
RANK_CUT = 1e-12  # least eigenvalue of a Gram matrix relative to the largest
CHUNK_NUMBERS = 2**20  # numbers in a temporary array of differences: 8 MB of float64


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
    unit : array of shape (n,) or (n, n)
        D; for a prior W0 that was given, its Cholesky factor C: D⁻¹ = Cᵀ.
    rows : array of shape (k, n)
        Uᵀ, or the samples that it is combined of.
    mix : array of shape (k, r) or None
        The coefficients of the combination, Uᵀ = mixᵀ rows; None for Uᵀ = rows.
    outside : float
        ω, the prior outside the span.
    """

    unit: Doubles
    rows: Doubles
    mix: Doubles | None
    outside: float = 1.0

    @property
    def size(self) -> int:
        """n, the number of rows of the block."""
        return self.rows.shape[1]

    def in_units(self, rows: Doubles) -> Doubles:
        """Return D⁻¹x for each row x."""
        return rows / self.unit if self.unit.ndim == 1 else rows @ self.unit

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
        return rows / self.unit if self.unit.ndim == 1 else rows @ self.unit.T

    def inside(self, matrix: Doubles) -> Doubles:
        """Return the rows of a matrix, shape (k, n), in the coordinates of the span."""
        rows = matrix * self.unit if self.unit.ndim == 1 else np.linalg.solve(self.unit, matrix.T).T
        return self.coordinates(rows)

    def restricted(self, L: Doubles) -> Doubles:
        """Return the factor inside the span of a matrix L Lᵀ of the whole block."""
        basis = self.expanded(np.eye(len(self.rows) if self.mix is None else self.mix.shape[1]))
        if self.unit.ndim == 1:
            return lower_triangular((basis * self.unit) @ L)
        return lower_triangular(basis @ scipy.linalg.solve_triangular(self.unit, L, lower=True))

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


@dataclass(frozen=True, eq=False)
class ReducedBlocks:
    """Samples whose wide blocks are replaced by their coordinates in the span.

    Parameters
    ----------
    blocks : Blocks
        The samples: wide blocks have shape (n_samples, r, n').
    given : Blocks
        The samples as they were given, those that count for the prior.
    within : WithinClasses
        The deviations from the class means, in the coordinates of `blocks`.
    spans : tuple of M Span or None
        The span of each wide block; None for other blocks.
    varies : tuple of M bool arrays of shape (n_m,)
        The rows that vary, of wide blocks.
    matrices : list of M arrays of shape (n_m, n_m), or None
        The prior if it was given.
    """

    blocks: Blocks
    given: Blocks
    within: WithinClasses
    spans: tuple[Span | None, ...]
    varies: tuple[NDArray[np.bool_], ...]
    matrices: list[Doubles] | None

    @property
    def counted(self) -> Blocks:
        """The reduced samples that count for the prior; they come first."""
        return self.blocks[: len(self.given)]

    def diagonal(self, m: int, S: Doubles) -> Doubles:
        """Return the diagonal of U S Uᵀ of a wide block, for a matrix S in its coordinates."""
        span = self.spans[m]
        if span is None:
            return np.diagonal(S)
        basis = span.expanded(np.eye(len(S)))
        return np.sum(basis * (S @ basis), axis=0)


@dataclass(frozen=True, eq=False)
class MetricPrior:
    """A prior, in the coordinates of the reduced problem, and the way back.

    Parameters
    ----------
    matrices : list of M arrays
        W0_m, or V0_m of wide blocks.
    spans : tuple of M Span or None
        The span of each wide block, with its ω; None for other blocks.
    samples : Blocks
        The reduced samples.
    """

    matrices: list[Doubles]
    spans: tuple[Span | None, ...]
    samples: Blocks

    @property
    def is_small(self) -> bool:
        """Whether square matrices of all wide blocks may be formed."""
        return all(span is None or span.size <= MOST_ROWS for span in self.spans)

    def factors(self, L: Sequence[Doubles]) -> list[Doubles | SpanFactor]:
        """Return A_m = L_mᵀ/√M; of wide blocks, the map of the whole block."""
        scale, factors = sqrt(len(L)), []
        for span, lower in zip(self.spans, L, strict=True):
            if span is None:
                factors.append(np.ascontiguousarray(lower.T) / np.sqrt(len(L)))
            else:
                factors.append(SpanFactor(span, lower / scale, sqrt(span.outside) / scale))
        return factors

    def full(self) -> list[Doubles]:
        """Return the prior of whole blocks, as square matrices."""
        parts = zip(self.matrices, self.spans, strict=True)
        return [W0 if span is None else span.matrix(W0) for W0, span in parts]

    def full_result(self, result: Result) -> Result:
        """Return the result with the factors of whole blocks, or as it is where those are large."""
        if not any(self.spans):
            return result
        if not self.is_small:
            return SpanResult(**vars(result))
        factors = []
        for span, lower in zip(self.spans, result.L, strict=True):
            if span is not None:
                whole = SpanFactor(span, lower, sqrt(span.outside)).matrix()
                lower = lower_triangular(whole.T)
            factors.append(lower)
        return replace(result, L=factors)

    def start(self, earlier: Result | None) -> Result | None:
        """Return an earlier result as the start of this problem; None if it does not fit."""
        if earlier is None or len(earlier.L) != len(self.matrices):
            return None
        factors = []
        for span, W0, lower in zip(self.spans, self.matrices, earlier.L, strict=True):
            if span is not None and len(lower) == span.size:
                lower = span.restricted(lower)
            if len(lower) != len(W0):
                return None
            factors.append(lower)
        return replace(earlier, L=factors)


def reduce_blocks(
    prior: Any,
    blocks: Blocks,
    within: WithinClasses,
    mean_squares: Callable[[int], Doubles],
    counted: Blocks | None = None,
    accurate: bool = True,
) -> ReducedBlocks:
    """Replace the wide blocks of samples by their coordinates in the span.

    Parameters
    ----------
    prior : str or list of arrays
        The prior, which determines the units of the rows.
    blocks : Blocks
        The samples.
    within : WithinClasses
        Their deviations from the class means.
    mean_squares : function
        Returns for block m the diagonal of the mean of ΔΔᵀ over the pairs.
    counted : Blocks, optional
        The samples that count for the prior, which are the first of `blocks`. Default: all.
    accurate : bool
        Whether to compute the basis by a QR decomposition, in which directions of any size keep
        their digits. By the Gram matrix of the samples, which is faster, those below 1e-6 of the
        largest count as outside the span.
    """
    if isinstance(prior, str):
        check_choice("prior", prior, PRIORS)
    counted = blocks if counted is None else counted
    given = None if isinstance(prior, str) else check_prior(prior, blocks)
    arrays, deviations = list(blocks.arrays), list(within.deviations)
    spans: list[Span | None] = [None] * len(arrays)
    varying = [np.ones(n, dtype=bool) for n, _ in blocks.block_shapes]
    for m, array in enumerate(blocks.arrays):
        if not is_wide(array):
            continue
        if given is not None:
            unit = np.linalg.cholesky(given[m])
        else:
            squares, of_block = partial(mean_squares, m), partial(within.of_block, m, array)
            unit, varying[m] = span_units(prior, counted.arrays[m], squares, of_block, within.units)
        spans[m], arrays[m] = _find_span(array, unit, varying[m], accurate)
        deviations[m] = None
    reduced = Blocks(*arrays) if any(spans) else blocks
    inside = replace(within, deviations=deviations)
    return ReducedBlocks(reduced, counted, inside, tuple(spans), tuple(varying), given)


def _find_span(
    array: NDArray[np.floating], unit: Doubles, varies: NDArray[np.bool_], accurate: bool
) -> tuple[Span, Doubles]:
    """Return the span of a block, and the coordinates of its samples, (n_samples, r, n')."""
    n_samples, _, width = array.shape
    rows = rows_of(array - array.mean(axis=0))
    rows[:, ~varies] = 0.0  # they may differ from zero by rounding
    rows = rows / unit if unit.ndim == 1 else rows @ unit
    if accurate:
        basis, upper = scipy.linalg.qr(
            rows.T, mode="economic", overwrite_a=True, check_finite=False
        )
        span, coordinates = Span(unit, np.ascontiguousarray(basis.T), None), upper.T
    else:
        values, vectors = np.linalg.eigh(rows @ rows.T)
        kept = values > RANK_CUT * values[-1]
        roots = np.sqrt(values[kept])
        span, coordinates = Span(unit, rows, vectors[:, kept] / roots), vectors[:, kept] * roots
    stacked = coordinates.reshape(n_samples, width, -1)
    return span, np.ascontiguousarray(np.swapaxes(stacked, 1, 2))


def prior_of(
    prior: Any, reduced: ReducedBlocks, scatter: Sequence[Doubles], samples_name: str = "X"
) -> MetricPrior:
    """Return the prior of reduced samples, given the mean of ΔΔᵀ over their pairs."""
    if reduced.matrices is None:
        check_differ(prior, scatter, samples_name)
    matrices, spans = [], []
    for m, (span, S) in enumerate(zip(reduced.spans, scatter, strict=True)):
        if span is not None:
            W0, span = _prior_in_span(prior, reduced, span, S, m)
        elif reduced.matrices is not None:
            W0 = reduced.matrices[m]
        else:
            W0 = block_prior(prior, reduced.given.arrays[m], S, reduced.within, m)
        matrices.append(W0)
        spans.append(span)
    return MetricPrior(matrices, tuple(spans), reduced.counted)


def _prior_in_span(
    prior: Any, reduced: ReducedBlocks, span: Span, S: Doubles, m: int
) -> tuple[Doubles, Span]:
    """Return V0 of a wide block, and its span with the prior outside."""
    if reduced.matrices is not None:
        return np.eye(len(S)), span
    within, varies = reduced.within, reduced.varies[m]
    W0, outside, constant = span_prior(
        prior,
        reduced.counted.arrays[m],
        lambda: within.of_block(m, reduced.blocks.arrays[m]),
        within.units,
        varies,
        m,
    )
    # In these units, the prior is ω for rows that do not vary, too.
    unit = np.where(varies, span.unit, span.unit * sqrt(outside / constant))
    scale = 1.0 if prior == "identity" else float(np.sum(W0 * S))
    return W0 / scale, replace(span, unit=unit, outside=outside / scale)


def mean_squares_of(blocks: Blocks, pairs: Pairs, share: Doubles) -> Callable[[int], Doubles]:
    """Return a function of m: the diagonal of the mean of ΔΔᵀ, with weights that sum to 1."""

    def mean_squares(m: int) -> Doubles:
        array = blocks.arrays[m]
        total = np.zeros(array.shape[1])
        step = max(1, CHUNK_NUMBERS // array[0].size)
        for start in range(0, len(pairs), step):
            part = slice(start, start + step)
            Delta = array[pairs.first[part]].astype(np.float64) - array[pairs.second[part]]
            total += np.einsum("k,kij,kij->i", share[part], Delta, Delta, optimize=False)
        return total

    return mean_squares


def describe_axes(prior: MetricPrior, L: Sequence[Doubles], factors: Sequence[Any]) -> list[str]:
    """Return what `n_components` keeps of each wide block, one line each, for verbose output."""
    lines = []
    for m, (span, lower, A) in enumerate(zip(prior.spans, L, factors, strict=True)):
        if span is None or isinstance(A, SpanFactor):
            continue
        array = prior.samples.arrays[m]
        rows, axes = rows_of(array - array.mean(axis=0)), span.inside(A)
        share = len(L) * np.sum((rows @ axes.T) ** 2) / np.sum((rows @ lower) ** 2)
        lines.append(
            f"Block {m}: {len(A)} components keep {100 * share:.1f} % of the squared distances of "
            "the training samples, and nothing of what lies outside their span."
        )
    return lines


def describe_spans(prior: MetricPrior) -> list[str]:
    """Return one line for each wide block, for verbose output."""
    return [
        f"Block {m} is solved in the span of its samples: {len(W0)} of {span.size} dimensions."
        for m, (span, W0) in enumerate(zip(prior.spans, prior.matrices, strict=True))
        if span is not None
    ]
