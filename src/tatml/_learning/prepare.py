"""The one recipe from samples and pairs to a problem and its prior.

Wide blocks are reduced to the span of their samples, the pairs are summed, and the sums give the
prior in the units of the data.

Blocks with more rows than their samples span: the problem is solved in the span, exactly. With D
the units of the rows and U an orthonormal basis of the span of D⁻¹(x − mean), every prior is

    W0 = D⁻¹ [U V0 Uᵀ + ω (I − U Uᵀ)] D⁻¹,

and the solution differs from it inside the span only: V0 becomes V, the solution of the problem of
the coordinates Uᵀ D⁻¹ x with the prior V0 (theory (Span)). No matrix of size n × n is formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array import Doubles, lower_triangular, placed, to_numpy
from .._data.blocks import Blocks, check_prior
from .._data.sparse import SparseBlock
from .._messages import shown
from .._optim.problem import LogDetProblem, pair_term
from .._optim.result import Result, joined_factors, learnt_b0
from .._optim.terms import Term
from .._sharding.all_pairs import AllPairs
from .._sharding.chunks import sharded_term
from .centers import (
    PRIOR_OF_CONSTANT,
    center_of_classes,
    factors_with_constants,
    matrices_with_constants,
    with_constants,
)
from .plda import Plda, plda_in_units, plda_of_block
from .priors import (
    WithinClasses,
    around_mean,
    block_prior,
    check_differ,
    is_constant,
    is_wide,
    mean_square,
    mean_squares,
    span_prior,
    span_units,
)
from .samples import fetched, place_blocks
from .span import MOST_ROWS, Factor, Span, SpanFactor, SpanResult, find_span
from .task import Prior, Settings, Task

CHUNK_NUMBERS = 2**20  # numbers in a temporary array of differences: 8 MB of float64
ROUNDING = 1e-28  # relative to the squares of a constant block, its scatter is below this


@dataclass(frozen=True, eq=False)
class Prepared:
    """A problem at its prior, and the mean of ΔΔᵀ over its pairs.

    Parameters
    ----------
    problem : LogDetProblem
        The problem, with a fixed threshold of 0.
    prior : MetricPrior
        W0, and the way back to the coordinates of the data.
    scatter : list of M arrays
        The mean of ΔΔᵀ over the pairs, in the coordinates of the problem. With midpoints, that of
        −ΣΣᵀ follows.
    """

    problem: LogDetProblem
    prior: MetricPrior
    scatter: list[Doubles]

    @property
    def mean_distance(self) -> float:
        """The mean squared distance of the pairs under the prior; with midpoints, their mean q."""
        products = zip(self.prior.of_problem(), self.scatter, strict=True)
        return float(sum(np.sum(W0 * S) for W0, S in products)) / self.prior.n_blocks


def prepare(task: Task, loss: Any, settings: Settings) -> Prepared:
    """Return the problem of a task with the given losses, at the prior of the settings.

    `loss` is a `PairLoss`, or the `LossSetting` of `AllPairs`.
    """
    kind, blocks, within = settings.prior, task.blocks, task.within
    components_per_block(settings.n_components, blocks.block_shapes)  # before the solver
    squares = partial(_mean_squares, task, loss)
    reduced = reduce_blocks(
        kind,
        blocks,
        within,
        squares,
        task.counted,
        accurate=not settings.keeps_spans,
        midpoint=settings.midpoint,
    )
    in_tiles = isinstance(task.rows, AllPairs)  # which are summed on the host
    samples = reduced.blocks if in_tiles else place_blocks(reduced.blocks, settings.place)
    center = None
    if settings.midpoint:
        center = [center_of_classes(array, within) for array in samples.arrays]
        if settings.learns_center:
            samples, center = with_constants(samples, center)
    term: Term
    if isinstance(task.rows, AllPairs):
        midpoint = False if center is None else center
        term = sharded_term(samples, task.rows, None, None, loss, midpoint=midpoint)
    else:
        term = pair_term(samples, task.rows, loss, center=center)
    scatter = term.mean_scatter(task.share)
    if reduced.matrices is None:
        differences = scatter[: blocks.n_blocks]
        check_differ(kind, differences, settings.samples_name, settings.midpoint)
    if settings.midpoint:
        prior = midpoint_prior(reduced, settings.new_classes)
        prior = replace(prior, has_constants=settings.learns_center)
    else:
        prior = prior_of(kind, reduced, scatter)
    problem = LogDetProblem.of(term, prior=[placed(W0, term.like) for W0 in prior.of_problem()])
    return Prepared(problem, prior, scatter)


def components_per_block(
    n_components: int | Sequence[int] | None, shapes: Sequence[tuple[int, ...]]
) -> list[int | None]:
    """Return the number of components of each block; None stands for all.

    It raises an error if the blocks allow no such numbers.
    """
    if n_components is None:
        return [None] * len(shapes)
    single = isinstance(n_components, Real)
    counts: list[Any] = [n_components] * len(shapes) if single else list(n_components)  # type: ignore[arg-type]
    if len(counts) != len(shapes):
        raise ValueError(
            f"n_components: expected a number or one for each of {len(shapes)} blocks, got "
            f"{shown(n_components)}"
        )
    for m, (count, (n, _)) in enumerate(zip(counts, shapes, strict=True)):
        if count > n:
            raise ValueError(f"n_components: expected at most n = {n} in block {m}, got {count}")
    return counts


def _mean_squares(task: Task, loss: Any, m: int) -> Doubles:
    """Return the diagonal of the mean of ΔΔᵀ over the pairs, for a wide block m."""
    if isinstance(task.rows, AllPairs):
        squares = partial(_mean_squares, task, loss)
        in_span = reduce_blocks("scaled", task.blocks, task.within, squares)
        S = sharded_term(in_span.blocks, task.rows, None, None, loss).mean_scatter(None)[m]
        span = in_span.spans[m]
        assert span is not None
        basis = span.expanded(np.eye(len(S)))
        return np.sum(basis * (S @ basis), axis=0)
    array, pairs, share = task.blocks.arrays[m], task.rows, task.share
    assert share is not None
    if isinstance(array, SparseBlock):
        return array.mean_squared_differences(pairs.first, pairs.second, share)
    total = np.zeros(array.shape[1])
    step = max(1, CHUNK_NUMBERS // array[0].size)
    for start in range(0, len(pairs), step):
        part = slice(start, start + step)
        Delta = array[pairs.first[part]].astype(np.float64) - array[pairs.second[part]]
        total += np.einsum("k,kij,kij->i", share[part], Delta, Delta, optimize=False)
    return total


def prior_from_samples(prior: Prior, blocks: Blocks, within: WithinClasses) -> MetricPrior:
    """Return the prior of samples, scaled to their distances from the mean."""
    reduced = _reduce_to_samples(prior, blocks, within)
    scatter = []
    for array in reduced.blocks.arrays:
        S = array.shape[2] * mean_square(around_mean(array, within.weights))
        size = float(np.sum(to_numpy(array[:1, ...]) ** 2))
        if np.trace(S) <= ROUNDING * size and np.all(is_constant(array)):
            S[:] = 0.0  # of a constant block, whose mean is rounded
        scatter.append(S)
    if isinstance(prior, str):
        check_differ(prior, scatter, "X")
    return prior_of(prior, reduced, scatter)


def midpoint_prior_from_samples(
    blocks: Blocks, within: WithinClasses, new_classes: bool
) -> MetricPrior:
    """Return the prior of differences and sums of samples."""
    return midpoint_prior(_reduce_to_samples("discriminant", blocks, within), new_classes)


def _reduce_to_samples(prior: Prior, blocks: Blocks, within: WithinClasses) -> ReducedBlocks:
    """Replace wide blocks by the coordinates of the samples in their span, without pairs."""

    def over_samples(m: int) -> Doubles:
        array = blocks.arrays[m]
        return array.shape[2] * row_variances(array, within.weights)[1]

    return reduce_blocks(prior, blocks, within, over_samples, accurate=False)


# The span of wide blocks


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
    midpoint : bool
        Whether the matrices of the sums follow those of the differences, with the same spans.
    log_ratio : float, optional
        κ of a prior that is a log-likelihood ratio, see `Plda`.
    has_constants : bool
        Whether the blocks of the problem have a constant row, which `matrices` do not have.
    """

    matrices: list[Doubles]
    spans: tuple[Span | None, ...]
    samples: Blocks
    midpoint: bool = False
    log_ratio: float | None = None
    has_constants: bool = False

    @property
    def n_blocks(self) -> int:
        """M, the number of matrices of differences."""
        return len(self.spans) // (2 if self.midpoint else 1)

    @property
    def is_small(self) -> bool:
        """Whether square matrices of all wide blocks may be formed."""
        return all(span is None or span.size <= MOST_ROWS for span in self.spans)

    def of_problem(self) -> list[Doubles]:
        """Return the matrices with the entries of the constant rows, if there are such rows."""
        return matrices_with_constants(self.matrices) if self.has_constants else self.matrices

    @property
    def mean_constant(self) -> float:
        """The part of the constant rows in q under the prior, with its sign."""
        widths = [width for _, width in self.samples.block_shapes[: self.n_blocks]]
        return -4 * PRIOR_OF_CONSTANT * float(np.mean(widths)) if self.has_constants else 0.0

    def whole_shifts(self, shifts: Sequence[Doubles]) -> list[Doubles]:
        """Return shifts of samples, given in the coordinates of the problem."""
        parts = zip(self.spans, shifts, strict=False)  # the spans of the sums are the same
        return [c if span is None else span.whole(c[None])[0] for span, c in parts]

    def factors(self, L: Sequence[Doubles]) -> list[Doubles | SpanFactor]:
        """Return A_m = L_mᵀ/√M; of wide blocks, the map of the whole block."""
        scale = sqrt(self.n_blocks)
        factors: list[Doubles | SpanFactor] = []
        for span, lower in zip(self.spans, L, strict=True):
            if span is None:
                factors.append(np.ascontiguousarray(lower.T) / scale)
            else:
                # With the symmetric root, a map does not depend on the basis of the span.
                vectors, values, _ = np.linalg.svd(lower)
                root = (vectors * values) @ vectors.T / scale
                factors.append(SpanFactor(span, root, sqrt(span.outside) / scale))
        return factors

    def own_factors(self) -> list[Factor]:
        """Return the linear maps after which Euclidean distances are those of the prior."""
        L = [np.linalg.cholesky(W0).astype(np.float64, copy=False) for W0 in self.matrices]
        return list(self.factors(L))

    def full(self) -> list[Doubles]:
        """Return the prior of whole blocks, as square matrices."""
        parts = zip(self.matrices, self.spans, strict=True)
        return [W0 if span is None else span.matrix(W0) for W0, span in parts]

    def full_result(self, result: Result) -> Result:
        """Return the result with factors of whole blocks, unless they are too large to form."""
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
        earlier = joined_factors(earlier)
        if earlier is None or len(earlier.L) != len(self.matrices):
            return None
        factors = []
        for span, W0, lower in zip(self.spans, self.matrices, earlier.L, strict=True):
            if span is not None and len(lower) == span.size:
                lower = lower_triangular(span.inside(lower.T).T)
            if len(lower) != len(W0):
                return None
            factors.append(lower)
        if self.has_constants:
            factors = factors_with_constants(factors)
            earlier = replace(earlier, b0=learnt_b0(earlier) + self.mean_constant)
        return replace(earlier, L=factors)


def reduce_blocks(
    prior: Any,
    blocks: Blocks,
    within: WithinClasses,
    over_pairs: Callable[[int], Doubles],
    counted: Blocks | None = None,
    accurate: bool = True,
    midpoint: bool = False,
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
    over_pairs : function
        Returns for block m the diagonal of the mean of ΔΔᵀ over the pairs.
    counted : Blocks, optional
        The samples that count for the prior, which are the first of `blocks`. Default: all.
    accurate : bool
        Whether to compute the basis by a QR decomposition, in which directions of any size keep
        their digits. By the Gram matrix of the samples, which is faster, those below 1e-6 of the
        largest count as outside the span.
    midpoint : bool
        Whether a given prior has matrices of sums, too, which wide blocks then must not have: the
        span would be another one.
    """
    counted = blocks if counted is None else counted
    sizes, given = [n for n, _ in blocks.block_shapes], None
    if not isinstance(prior, str):
        sizes *= 2 if midpoint else 1
        given = check_prior(fetched(prior), sizes, fetched(blocks[:1]).arrays[0])
        if midpoint and any(map(is_wide, blocks.arrays)):
            raise ValueError(
                "prior: expected 'discriminant' with a midpoint and more columns than samples, got "
                "matrices"
            )
    arrays, deviations = list(blocks.arrays), list(within.deviations)
    spans: list[Span | None] = [None] * len(arrays)
    varying = [np.ones(n, dtype=bool) for n in sizes]
    for m, array in enumerate(blocks.arrays):
        if not is_wide(array):
            continue
        unit, whitening = np.ones(array.shape[1]), None
        if given is not None:
            whitening = np.linalg.cholesky(given[m]).T
        else:
            variances = row_variances(counted.arrays[m], within.weights)
            inside = partial(_variances_within, within, m, array)
            unit, varying[m] = span_units(
                prior, array.shape[2], within, m, variances, inside, partial(over_pairs, m)
            )
        spans[m], arrays[m] = find_span(array, unit, varying[m], whitening, accurate)
        deviations[m] = None
    reduced = Blocks(*arrays) if any(spans) else blocks
    within = replace(within, deviations=deviations)
    return ReducedBlocks(reduced, counted, within, tuple(spans), tuple(varying), given)


def row_variances(
    array: NDArray[np.floating], weights: Doubles | None
) -> tuple[NDArray[np.bool_], Doubles]:
    """Return for each row of a block whether samples differ in it, and its variance."""
    if isinstance(array, SparseBlock):
        return array.differ(), array.variances(weights)
    return ~is_constant(array), mean_squares(around_mean(array, weights))


def _variances_within(within: WithinClasses, m: int, array: NDArray[np.floating]) -> Doubles:
    """Return the variance within classes of each row of a wide block."""
    if isinstance(array, SparseBlock) and within.variances_of is not None:
        return within.variances_of(array)
    return mean_squares(within.of_block(m, array))


def prior_of(prior: Any, reduced: ReducedBlocks, scatter: Sequence[Doubles]) -> MetricPrior:
    """Return the prior of reduced samples, given the mean of ΔΔᵀ over their pairs."""
    matrices: list[Doubles] = []
    spans: list[Span | None] = []
    within = reduced.within
    counted = reduced.blocks[: len(reduced.given)]  # they come first
    for m, (span, S) in enumerate(zip(reduced.spans, scatter, strict=True)):
        if reduced.matrices is not None:
            W0 = reduced.matrices[m] if span is None else np.eye(len(S))
        elif span is None:
            W0 = block_prior(prior, reduced.given.arrays[m], S, within, m)
        else:
            deviations = partial(within.of_block, m, reduced.blocks.arrays[m])
            array, varies = counted.arrays[m], reduced.varies[m]
            W0, outside, constant = span_prior(prior, array, deviations, within, varies, m)
            # In these units, the prior is ω for rows that do not vary, too.
            unit = np.where(varies, span.unit, span.unit * sqrt(outside / constant))
            scale = 1.0 if prior == "identity" else float(np.sum(W0 * S))
            W0, span = W0 / scale, replace(span, unit=unit, outside=outside / scale)
        matrices.append(W0)
        spans.append(span)
    return MetricPrior(matrices, tuple(spans), counted)


def midpoint_prior(reduced: ReducedBlocks, new_classes: bool) -> MetricPrior:
    """Return the prior of differences and sums of reduced samples."""
    if reduced.matrices is not None:
        return MetricPrior(reduced.matrices, reduced.spans * 2, reduced.blocks, midpoint=True)
    of_blocks: list[Plda] = []
    spans: list[Span | None] = []
    within = reduced.within
    counted = reduced.blocks[: len(reduced.given)]  # they come first
    for m, span in enumerate(reduced.spans):
        if span is None:
            of_blocks.append(plda_of_block(reduced.given.arrays[m], within, new_classes, m))
        else:
            array, varies = counted.arrays[m], reduced.varies[m]
            rows = around_mean(array, within.weights), within.of_block(m, array)
            prior, outside, constant = plda_in_units(array, *rows, within, varies, new_classes, m)
            unit = np.where(varies, span.unit, span.unit * sqrt(outside / constant))
            of_blocks.append(prior)
            span = replace(span, unit=unit, outside=outside)
        spans.append(span)
    matrices = [*(prior.W0 for prior in of_blocks), *(prior.V0 for prior in of_blocks)]
    log_ratio = float(np.mean([prior.log_ratio for prior in of_blocks]))
    return MetricPrior(matrices, tuple(spans) * 2, counted, midpoint=True, log_ratio=log_ratio)


def describe_axes(prior: MetricPrior, L: Sequence[Doubles], factors: Sequence[Any]) -> list[str]:
    """Return what `n_components` keeps of each wide block, one line each, for verbose output."""
    lines = []
    for m, (span, lower, A) in enumerate(zip(prior.spans, L, factors, strict=True)):
        if span is None or isinstance(A, SpanFactor):
            continue
        array = prior.samples.arrays[m]
        rows, axes = around_mean(array), span.inside(A)
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
