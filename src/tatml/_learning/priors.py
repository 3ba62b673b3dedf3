"""Scatters of samples, and the named priors W0 that are made of them.

W0 is the metric that the solver starts from, and that the learnt one stays close to. Every named
prior except "identity" is scaled to the data: the mean squared distance of the pairs is 1 in every
block. Then neither the units of the data nor those of a block matter, and C has the same meaning
for all data.

Scatters are computed where the samples are: on the host, or on a GPU. Samples and their deviations
stay there. What has the size of a metric, n or n × n numbers, is returned as a NumPy array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any, Literal, get_args

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import gen_batches

from .._array import (
    ROUNDING,
    Array,
    Doubles,
    Indices,
    agree,
    as_double,
    asarray,
    inverse_factor,
    linalg_errors,
    namespace,
    sparse_product,
    symmetrised,
    to_numpy,
)
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sparse import SparseBlock

ROWS_PER_SPAN = 1.0  # a block with more rows than this times its samples' columns is wide
BATCH = 1000  # matrices whose squares are computed at a time
# The least scatter within classes, relative to that of all samples, along every axis. Without it,
# a column that no similar pair moves would outweigh all others.
LEAST_WITHIN = 0.01
PER_SAMPLE = 1 / 3  # this least share times the number of samples that the scatter comes from
PriorName = Literal[
    "auto", "diagonal", "scaled", "identity", "covariance", "within", "discriminant"
]
PRIORS = get_args(PriorName)
LEAST_WEIGHT = 0.05  # weight in "discriminant" of directions that separate no classes
PLAIN = ("identity", "scaled", "diagonal")  # priors that need no scatter of the samples
SHRUNK = ("within", "discriminant")  # priors whose scatter within classes is shrunk in some units
IDENTICAL = "expected pairs of samples that differ, got identical ones only"
LEAST_VARIANCE = 1e-250  # features with less variance count as constant: 1/variance overflows
RIDGE = 1e-6  # added to the scatter within classes, in its units, so that it has an inverse
COMPONENT_SHARE = 0.95  # of the variance of standardised columns, which the components have
OUTSIDE_COMPONENTS = 0.01  # the prior outside them, relative to its least weight inside
NEGLIGIBLE = 1e-26  # features with less variance, relative to the largest, count as constant
Units = Literal["columns", "common", "affine", "components"]
UNITS = get_args(Units)
IN_COLUMNS = ("columns", "components")  # units of single columns, which kernel images do not have


def is_wide(array: NDArray[np.floating]) -> bool:
    """Return whether a block has more rows than the columns of its samples can span."""
    n_samples, n, width = array.shape
    return n > ROWS_PER_SPAN * n_samples * width


def rows_of(array: Array) -> Array:
    """Return the columns of all matrices of a block as rows, shape (n_samples · n'_m, n_m)."""
    xp = namespace(array)
    return as_double(xp.reshape(xp.permute_dims(array, (0, 2, 1)), (-1, array.shape[1])))


def scaled_rows(array: Array, weights: Doubles | None) -> Array:
    """Return the rows of samples times the roots of their weights: mean squares are weighted."""
    if weights is not None:
        array = array * asarray(np.sqrt(weights)[:, None, None], array)
    return rows_of(array)


def mean_of(array: Array, weights: Doubles | None) -> Array:
    """Return the mean of the samples, whose weights have the mean 1."""
    if weights is not None:
        array = array * asarray(weights[:, None, None], array)
    return namespace(array).mean(array, axis=0)


def around_mean(array: Array, weights: Doubles | None = None) -> Array:
    """Return the rows of the samples minus their mean, see `scaled_rows`."""
    return scaled_rows(array - mean_of(array, weights), weights)


def with_variances(array: Array, weights: Doubles | None = None) -> tuple[Array, Doubles]:
    """Return the rows of the samples minus their mean, and the variance of each row of the block.

    The variance of a constant row is zero, although its mean is rounded.
    """
    xp = namespace(array)
    mean = mean_of(array, weights)
    rows = scaled_rows(array - mean, weights)
    variances, size = mean_squares(rows), to_numpy(xp.max(xp.abs(mean), axis=1))
    return rows, np.where(variances <= (ROUNDING * size) ** 2, 0.0, variances)


def class_means(array: Array, labels: Indices, weights: Doubles | None = None) -> Array:
    """Return the means of the classes, numbered without gaps, shape (n_classes, n, n')."""
    xp, size = namespace(array), (-1, *array.shape[1:])
    share = np.ones(len(labels)) if weights is None else weights
    members = csr_array((share, (labels, np.arange(len(labels)))))
    flat = as_double(xp.reshape(array, (array.shape[0], -1)))
    parts = (members.indptr, members.indices, members.data)
    starts, columns, entries = (asarray(part, array) for part in parts)
    sums = sparse_product(starts, columns, entries, flat)
    return xp.reshape(sums / asarray(np.bincount(labels, share)[:, None], array), size)


def minus_class_means(array: Array, labels: Indices, weights: Doubles | None = None) -> Array:
    """Return the rows of the samples minus the mean of their class, see `scaled_rows`."""
    means = namespace(array).take(
        class_means(array, labels, weights), asarray(labels, array), axis=0
    )
    return scaled_rows(array - means, weights)


def is_constant(array: Array) -> NDArray[np.bool_]:
    """Return for each row of a block whether all its entries are equal up to rounding."""
    xp, rows = namespace(array), rows_of(array)
    return agree(to_numpy(xp.min(rows, axis=0)), to_numpy(xp.max(rows, axis=0)))


def mean_squares(rows: Array) -> Doubles:
    """Return the mean square of each column, without an array of squares."""
    if type(rows) is np.ndarray:
        return np.einsum("ij,ij->j", rows, rows) / len(rows)
    return to_numpy(namespace(rows).linalg.vecdot(rows, rows, axis=-2)) / rows.shape[0]


def mean_square(rows: Array) -> Doubles:
    """Return the mean of x xᵀ over the rows x, which is a scatter."""
    return to_numpy(rows.T @ rows) / rows.shape[0]


def mean_gram_square(rows: Array, width: int) -> float:
    """Return the mean squared norm of ZᵀZ, where `width` rows each are a matrix Z."""
    xp, n_matrices = namespace(rows), rows.shape[0] // width
    matrices, total = xp.reshape(rows, (n_matrices, width, -1)), 0.0
    for batch in gen_batches(n_matrices, BATCH):
        Z = matrices[batch, ...]
        transposed = xp.matrix_transpose(Z)
        # ZZᵀ and ZᵀZ have the same norm.
        gram = Z @ transposed if Z.shape[1] < Z.shape[2] else transposed @ Z
        total += float(xp.sum(gram**2))
    return total / n_matrices


def eigh_relative(matrix: Doubles, metric: Doubles, like: Array) -> tuple[Doubles, Doubles]:
    """Return λ and V with `matrix` V = `metric` V λ and Vᵀ `metric` V = I, computed as `like` is.

    Both matrices are symmetric, and `metric` is positive definite.
    """
    if type(like) is np.ndarray:
        return scipy.linalg.eigh(matrix, metric)
    C = inverse_factor(asarray(metric, like))  # C Cᵀ is the inverse of the metric
    values, vectors = namespace(C).linalg.eigh(symmetrised(C.T @ asarray(matrix, C) @ C))
    return to_numpy(values), to_numpy(C @ vectors)


def with_least_within(within: Doubles, deviations: Array, centred: Array, width: int) -> Doubles:
    """Return the scatter within classes, with at least `least_shares` of the total on every axis.

    If the total has no inverse, the scatter within classes has none either, and stays as it is.
    """
    total = within + mean_square(centred) - mean_square(deviations)
    try:
        share, axes = eigh_relative(within, total, deviations)
    except linalg_errors():
        return within
    low = share < PER_SAMPLE
    missing = least_shares(axes[:, low], centred, width) - share[low]
    directions = total @ axes[:, low][:, missing > 0]
    return within + (directions * missing[missing > 0]) @ directions.T  # theory (Floor)


def least_shares(axes: Doubles, centred: Array, width: int) -> Doubles:
    """Return the least shares of the scatter within classes in the total, along given axes.

    They are 0.01, or 1/(3 n) if that is more. Here n = (Σ q)²/Σ q², with the squares q of the
    samples along the axis, is the number of samples that the scatter comes from: 1 if one sample
    differs from all others.
    """
    squares = to_numpy(centred @ asarray(axes, centred)) ** 2
    if width > 1:
        squares = squares.reshape(len(squares) // width, width, axes.shape[1]).sum(axis=1)
    total = np.maximum(squares.sum(axis=0), np.finfo(float).tiny)
    squares /= total
    return np.maximum(LEAST_WITHIN, PER_SAMPLE * np.einsum("ij,ij->j", squares, squares))


@dataclass(frozen=True)
class WithinClasses:
    """The deviations from the class means, and the units in which their scatter is shrunk.

    Parameters
    ----------
    deviations : list of M arrays of shape (n_rows, n_m)
        The columns of the deviations of all samples, where these are. None for a block that is
        solved in the span of its samples.
    units : {"columns", "common", "affine"}
        "columns": the spread of each column within classes, so that the units of the columns do
        not matter. "common": one unit for all columns. "affine": the scatter is not shrunk, so that
        no linear map of the columns matters.
    n_observations : int
        The number of samples, or of similar pairs.
    of : function, optional
        Computes the deviations of an array with the same samples, such as their coordinates in
        another basis.
    variances_of : function, optional
        Computes the variance within classes of each column of a sparse table of the samples.
    n_images : int
        The number of blocks, at the end, that are images of a kernel, with one common unit.
    labels : int array of shape (n_samples,), optional
        The classes of the samples, if they are known.
    pairs : Pairs, optional
        The pairs of samples that are known otherwise.
    weights : array of shape (n_samples,), optional
        The weights of samples with labels, with the mean 1. Default: all are 1. The deviations of a
        sample are multiplied by the root of its weight.
    """

    deviations: Sequence[Array | None]
    units: Units = "columns"
    n_observations: int = 0
    of: Callable[[Array], Array] | None = None
    variances_of: Callable[[SparseBlock], Doubles] | None = None
    n_images: int = 0
    labels: Indices | None = None
    pairs: Pairs | None = None
    weights: Doubles | None = None

    def of_block(self, m: int, array: Array) -> Array:
        """Return the deviations of block m, or compute them from its array."""
        known = self.deviations[m]
        if known is not None:
            return known
        if self.of is None:
            raise TypeError("within: expected deviations, or a function that computes them")
        return self.of(array)


def pair_weights(pairs: Pairs) -> NDArray[np.float64]:
    """Return the weights w_k of the pairs, ones by default."""
    return np.ones(len(pairs)) if pairs.weights is None else pairs.weights


def within_classes(
    blocks: Blocks,
    labels: NDArray[np.intp],
    units: Units = "columns",
    n_images: int = 0,
    weights: Doubles | None = None,
) -> WithinClasses:
    """Return the samples minus the mean of their class; the last blocks may be kernel images.

    Of the weights of the samples, only the ratios matter.
    """
    if weights is not None:
        weights = weights / np.mean(weights)
    deviations_of = partial(minus_class_means, labels=labels, weights=weights)
    narrow = [None if is_wide(array) else deviations_of(array) for array in blocks.arrays]
    variances_of = partial(SparseBlock.variances_within, labels=labels, weights=weights)
    of = (deviations_of, variances_of)
    return WithinClasses(narrow, units, len(labels), *of, n_images, labels=labels, weights=weights)


def within_pairs(blocks: Blocks, pairs: Pairs, n_images: int = 0) -> WithinClasses:
    """Return the differences of similar pairs over √2, whose scatter is that within classes.

    A pair that is given several times counts once.
    """
    first, second = distinct_pairs(pairs, similar=True)

    def variances_of(block: SparseBlock) -> NDArray[np.float64]:
        return block.mean_squared_differences(first, second, np.full(len(first), 0.5 / len(first)))

    deviations_of = partial(half_differences, first=first, second=second)
    narrow = [None if is_wide(array) else deviations_of(array) for array in blocks.arrays]
    of = (deviations_of, variances_of)
    return WithinClasses(narrow, "columns", len(first), *of, n_images, pairs=pairs)


@dataclass(frozen=True, eq=False)
class KnownSamples:
    """What is known of distinct samples besides their pairs: classes, groups and weights."""

    labels: Indices
    groups: Indices | None
    weights: Doubles | None

    def __getitem__(self, rows: Indices) -> KnownSamples:
        taken: list[Any] = [None if of is None else of[rows] for of in (self.groups, self.weights)]
        return KnownSamples(self.labels[rows], *taken)


def within_known_or_pairs(
    blocks: Blocks, known: KnownSamples | None, pairs: Pairs, n_images: int = 0
) -> WithinClasses:
    """Return the deviations from the means of classes if they are known, or else those of pairs."""
    if known is None:
        return within_pairs(blocks, pairs, n_images)
    numbers = np.unique(known.labels, return_inverse=True)[1]
    return within_classes(blocks, numbers, n_images=n_images, weights=known.weights)


def distinct_pairs(pairs: Pairs, similar: bool) -> tuple[Indices, Indices]:
    """Return both samples of the pairs of one kind with a positive weight, each pair once."""
    kind, size = pairs.similar == similar, int(pairs.index.max(initial=0)) + 1
    index = np.sort(pairs.index[kind & (pair_weights(pairs) > 0)], axis=1)
    return np.divmod(np.unique(index[:, 0] * size + index[:, 1]), size)


def half_differences(array: Array, first: Indices, second: Indices) -> Array:
    """Return the rows of the differences of pairs over √2."""
    xp = namespace(array)
    one, other = (xp.take(array, asarray(rows, array), axis=0) for rows in (first, second))
    return rows_of((one - other) / sqrt(2))


# Priors


def make_prior(
    kind: str,
    blocks: Blocks,
    scatter: Sequence[Doubles],
    within: WithinClasses,
    name: str = "X",
) -> list[Doubles]:
    """Return W0, one matrix per block.

    Parameters
    ----------
    kind : one of `PRIORS`
        "auto" is "diagonal" for a block of vectors, whose features may have different units, and
        "scaled" for a block of matrices or a kernel image, whose rows have the same unit.
    blocks : Blocks
        The samples, for their covariance.
    scatter : list of M arrays of shape (n_m, n_m)
        The mean of ΔΔᵀ over the pairs.
    within : WithinClasses
        The deviations from the class means, for "within" and "discriminant".
    name : str
        The name of the samples in error messages.
    """
    check_differ(kind, scatter, name)
    arrays = enumerate(zip(blocks.arrays, scatter, strict=True))
    return [block_prior(kind, array, S, within, m) for m, (array, S) in arrays]


def block_prior(kind: str, array: Array, S: Doubles, within: WithinClasses, m: int) -> Doubles:
    """Return the matrix of block m, given the mean S of ΔΔᵀ over the pairs."""
    kind, units = kind_and_units(kind, array.shape[2], within, m)
    if kind in PLAIN:
        W0 = np.diag(1 / _without_zeros(np.diagonal(S))) if kind == "diagonal" else np.eye(len(S))
        return W0 if kind == "identity" else W0 / np.sum(W0 * S)
    centred, variance = with_variances(array, within.weights)
    deviations = within.of_block(m, array) if kind in SHRUNK else centred
    unit, varies = units_of_rows(kind, variance, lambda: mean_squares(deviations), units)
    centred, deviations = (rows / asarray(unit, rows) for rows in (centred, deviations))
    W0 = _prior_in_units(kind, centred, deviations, units, varies, array.shape[2], m)[0]
    W0 = W0 / unit / unit[:, None]
    return W0 / np.sum(W0 * S)


def check_differ(kind: str, scatter: Sequence[Doubles], name: str, midpoint: bool = False) -> None:
    """Raise an error if all pairs are identical, for "identity" in all blocks, else in any."""
    if kind == "identity":
        if not any(np.trace(S) > 0 for S in scatter):
            raise ValueError(f"{name}: {IDENTICAL}")
        return
    for m, S in enumerate(scatter):
        if not np.trace(S) > 0:
            other = "" if midpoint else ", or take prior='identity'"
            raise ValueError(
                f"{name}: expected pairs of samples that differ in block {m}, got identical ones "
                f"only; remove the block{other}"
            )


def has_units(prior: object) -> bool:
    """Return whether the scatter within classes is shrunk in some units for a named prior."""
    return isinstance(prior, str) and prior in SHRUNK


def kind_and_units(kind: str, width: int, within: WithinClasses, m: int) -> tuple[str, Units]:
    """Return what "auto" stands for in a block, and the units in which its scatter is shrunk."""
    is_image = m >= len(within.deviations) - within.n_images  # of a kernel
    if kind == "auto":
        kind = "diagonal" if width == 1 and not is_image else "scaled"
    return kind, "common" if is_image and within.units in IN_COLUMNS else within.units


def units_of_rows(
    kind: str, variance: Doubles, inside: Callable[[], Doubles], units: Units
) -> tuple[Doubles, NDArray[np.bool_]]:
    """Return the spread of each row, in total or within classes, and whether the row varies.

    `variance` and `inside` are the variances of the rows, in total and within classes.
    """
    total = _without_zeros(variance)
    varies = total == variance
    if kind == "covariance" or units == "components":
        return np.sqrt(total), varies
    unit = np.sqrt(np.where(varies, np.maximum(inside(), LEAST_WITHIN * total), total))
    if units == "common" and varies.any():
        unit[:] = np.sqrt(np.mean(unit[varies] ** 2))
    return unit, varies


def _prior_in_units(
    kind: str,
    centred: Array,
    deviations: Array,
    units: Units,
    varies: NDArray[np.bool_],
    width: int,
    m: int,
) -> tuple[Doubles, float, float]:
    """Return a prior of samples whose rows are in units, up to its scale.

    Parameters
    ----------
    kind : {"covariance", "within", "discriminant"}
        The prior.
    centred, deviations : arrays of shape (n_samples · n', r)
        The samples minus their mean, and minus the means of their classes: all their rows, or
        their coordinates in the span of the samples.
    units : one of `UNITS`
        The units in which the scatter within classes is shrunk.
    varies : bool array of shape (n,)
        Which rows of the block vary.
    width : int
        n', the number of columns of a sample.
    m : int
        The number of the block, for error messages.

    Returns
    -------
    W0 : array of shape (r, r)
        The prior, inside the span.
    outside, constant : float
        The prior is a multiple of the identity outside: for rows that vary, and for those that do
        not.
    """
    n_outside = len(varies) - centred.shape[1]
    if kind == "covariance":
        name = f"prior='covariance': the covariance of block {m}"
        return _inverse(mean_square(centred), np.zeros(n_outside), name), 1.0, 1.0
    if units == "components":
        return _prior_of_components(kind, centred, deviations, width, m)
    scatter, ridge = scatter_within(deviations, centred, units, varies, width)
    if kind == "discriminant":
        W0 = _discriminant(scatter, deviations, centred, width)
        return W0, LEAST_WEIGHT / (ridge + RIDGE), LEAST_WEIGHT / (1 + RIDGE)
    scatter = with_least_within(scatter, deviations, centred, width)
    outside = np.ones(n_outside)
    outside[: max(0, int(np.sum(varies)) - len(scatter))] = ridge
    name = f"prior='within': the within-class scatter of block {m}"
    return _inverse(scatter, outside, name), 1 / ridge if ridge else 1.0, 1.0


def _prior_of_components(
    kind: str, centred: Array, deviations: Array, width: int, m: int
) -> tuple[Doubles, float, float]:
    """Return a prior that is learnt from the principal components, and nearly 0 outside them."""
    axes = leading_axes(centred)
    varies, turn = np.ones(axes.shape[1], dtype=bool), asarray(axes, centred)
    rows = (centred @ turn, deviations @ turn)
    inside, _, _ = _prior_in_units(kind, *rows, "columns", varies, width, m)
    outside = outside_components(inside)
    return with_outside(inside, axes, outside), outside, outside


def leading_axes(centred: Array) -> Doubles:
    """Return the principal axes of samples minus their mean, with 95 % of the variance, (r, k)."""
    variances, axes = np.linalg.eigh(mean_square(centred))
    shares = np.cumsum(variances[::-1]) / max(np.sum(variances), np.finfo(float).tiny)
    count = 1 + int(np.searchsorted(shares, COMPONENT_SHARE))
    return axes[:, ::-1][:, :count]


def outside_components(*matrices: Doubles) -> float:
    """Return the weight outside the components, for priors that have these matrices inside."""
    return OUTSIDE_COMPONENTS * min(float(np.linalg.eigvalsh(matrix)[0]) for matrix in matrices)


def with_outside(inside: Doubles, axes: Doubles, outside: float) -> Doubles:
    """Return a matrix given in the basis of some axes, and a multiple of the identity elsewhere."""
    rest = inside - outside * np.eye(len(inside))
    return axes @ rest @ axes.T + outside * np.eye(len(axes))


def scatter_within(
    deviations: Array, centred: Array, units: Units, varies: NDArray[np.bool_], width: int
) -> tuple[Doubles, float]:
    """Return the scatter within classes, shrunk, and what the shrinkage adds to its diagonal.

    The arguments are those of `_prior_in_units`.
    """
    if units == "affine":
        scatter, ridge = mean_square(deviations), 0.0
    else:
        total = float(np.sum(mean_squares(centred)))
        scatter, ridge = _shrink(deviations, total, width, int(np.sum(varies)))
    if len(varies) == len(scatter):  # constant rows do not matter; in a span, they are outside
        scatter[~varies, :] = scatter[:, ~varies] = 0.0
        scatter[~varies, ~varies] = 1.0
    return scatter, ridge


# In the span of the samples, where a block has more rows than its samples span


def span_units(
    kind: str,
    width: int,
    within: WithinClasses,
    m: int,
    variances: tuple[NDArray[np.bool_], Doubles],
    inside: Callable[[], Doubles],
    over_pairs: Callable[[], Doubles],
) -> tuple[Doubles, NDArray[np.bool_]]:
    """Return the units D of rows in which a named prior is ω I outside the span, and which vary.

    The unit of a row that does not vary is final only after `span_prior`.

    Parameters
    ----------
    kind : one of `PRIORS`
        The prior.
    width : int
        n', the number of columns of a sample.
    within : WithinClasses
        Its `units` are those in which the scatter within classes is shrunk.
    m : int
        The number of the block.
    variances : tuple of arrays of shape (n,)
        Whether two samples differ in each row, and the variance of the row.
    inside, over_pairs : functions
        Return the variance of each row within classes, and its mean squared difference over the
        pairs.
    """
    (differ, variance), (kind, units) = variances, kind_and_units(kind, width, within, m)
    if kind in PLAIN:
        unit = np.sqrt(_without_zeros(over_pairs())) if kind == "diagonal" else np.ones(len(differ))
        return unit, differ
    return units_of_rows(kind, np.where(differ, variance, 0.0), inside, units)


def span_prior(
    kind: str,
    array: NDArray[np.floating],
    deviations: Callable[[], Doubles],
    within: WithinClasses,
    varies: NDArray[np.bool_],
    m: int,
) -> tuple[Doubles, float, float]:
    """Return a named prior up to its scale, in the coordinates Uᵀ D⁻¹ of block m.

    `array`, of shape (n_samples, r, n'), holds the coordinates of the samples, and `deviations`
    returns the deviations from the class means in these coordinates. See `_prior_in_units`.
    """
    kind, units = kind_and_units(kind, array.shape[2], within, m)
    if kind in PLAIN:
        return np.eye(array.shape[1]), 1.0, 1.0
    centred = around_mean(array, within.weights)
    inside = deviations() if kind in SHRUNK else centred
    return _prior_in_units(kind, centred, inside, units, varies, array.shape[2], m)


def _shrink(deviations: Array, total: float, width: int, size: int) -> tuple[Doubles, float]:
    """Return the scatter with Ledoit-Wolf shrinkage, and what it adds to the diagonal.

    The columns of one matrix are not independent. So the number of samples, not that of columns,
    determines how reliable the scatter is: `width` rows are one observation. `size` is the number
    of features that vary; it is larger than that of columns for coordinates in the span of the
    samples. The target of the shrinkage is the mean variance, or 0.01 of that of all samples if
    that is more; `total` is the sum of the variances of all samples.
    """
    S, n_samples = mean_square(deviations), deviations.shape[0] // width
    if size == 0:
        return S, 0.0
    mean_variance = np.trace(S) / size
    noise = (mean_gram_square(deviations, width) / width**2 - np.sum(S**2)) / n_samples
    distance = np.sum(S**2) - size * mean_variance**2
    share = min(max(noise / distance, 0.0), 1.0) if distance > 0 else 1.0
    ridge = share * max(mean_variance, LEAST_WITHIN * total / size)
    return (1 - share) * S + ridge * np.eye(len(S)), ridge


def _discriminant(within: Doubles, deviations: Array, centred: Array, width: int) -> Doubles:
    """Return S⁻¹ − T⁻¹ + 0.05 S⁻¹, with S the scatter within classes and T = S + B the total.

    Along an axis whose ratio of the scatter between and within classes is λ, S⁻¹ − T⁻¹ has the
    weight λ/(1 + λ) in units of S⁻¹: zero where the class means are equal.
    """
    between = mean_square(centred) - mean_square(deviations)  # theory (Disc)
    ratio, axes = discriminant_axes(within, between, centred, width)
    half = axes * np.sqrt(ratio / (1 + ratio) + LEAST_WEIGHT)
    return half @ half.T


def discriminant_axes(
    within: Doubles, between: Doubles, centred: Array, width: int
) -> tuple[Doubles, Doubles]:
    """Return the ratios λ of the scatters B and S, and axes V with VᵀSV = I and VᵀBV = diag(λ).

    Where S is less than `least_shares` of T = S + B, it is replaced by that. `width` rows of
    `centred`, the samples minus their mean, are one sample.
    """
    ratio, axes = eigh_relative(between, within + RIDGE * np.eye(len(within)), centred)
    ratio = np.maximum(ratio, 0.0)  # estimates of `between` may be indefinite
    high = np.flatnonzero(1 / (1 + ratio) < PER_SAMPLE)
    least = least_shares(axes[:, high], centred, width) * (1 + ratio[high])  # S is 1 on each axis
    high, least = high[least > 1], least[least > 1]
    ratio[high] = (1 + ratio[high]) / least - 1  # theory (Floor)
    axes[:, high] /= np.sqrt(least)
    return ratio, axes


def _without_zeros(variances: Doubles) -> Doubles:
    """Return the variances, with the mean of the positive ones in place of zeros."""
    positive = variances > max(LEAST_VARIANCE, NEGLIGIBLE * np.max(variances))
    return np.where(positive, variances, variances[positive].mean() if positive.any() else 1.0)


def _inverse(matrix: Doubles, outside: Doubles, name: str) -> Doubles:
    """Return the inverse of a scatter; raise an error unless all its eigenvalues are positive.

    Those in `outside` are its eigenvalues outside the span of the samples.
    """
    inside, vectors = np.linalg.eigh(matrix)
    values = np.sort(np.concatenate([inside, outside]))
    # Smaller eigenvalues are rounding errors: of deviations in units of 1e-3 of the spread, too.
    limit = len(values) * np.finfo(float).eps * max(values[-1], 1e-8)
    if not values[0] > limit:
        rank = int(np.sum(values > limit))
        raise ValueError(
            f"{name} has rank {rank}, expected {len(values)}; remove features that are constant or "
            "follow from others, or take prior='auto'"
        )
    return (vectors / inside) @ vectors.T
