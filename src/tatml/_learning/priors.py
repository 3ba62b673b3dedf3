"""Named priors W0: the metric that the solver starts from, and that the learnt one stays close to.

Every named prior except "identity" is scaled to the data: the mean squared distance of the pairs is
1 in every block. Then neither the units of the data nor those of a block matter, and C has the same
meaning for all data. Scatters are computed where the samples are; priors are NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .._array import Array
from .._data.blocks import Blocks
from .scatters import (
    LEAST_WITHIN,
    PER_SAMPLE,
    Units,
    WithinClasses,
    around_mean,
    columns_of,
    eigh_relative,
    in_units,
    least_shares,
    mean_gram_square,
    mean_square,
    mean_squares,
    with_least_within,
    with_variances,
)

Matrix = NDArray[np.float64]
PriorName = Literal[
    "auto", "diagonal", "scaled", "identity", "covariance", "within", "discriminant"
]
PRIORS = get_args(PriorName)
LEAST_WEIGHT = 0.05  # weight in "discriminant" of directions that separate no classes
SHRUNK = ("within", "discriminant")  # priors whose scatter within classes is shrunk in some units
IDENTICAL = "expected pairs of samples that differ, got identical ones only"
LEAST_VARIANCE = 1e-250  # features with less variance count as constant: 1/variance overflows
RIDGE = 1e-6  # added to the scatter within classes, in its units, so that it has an inverse
ROUNDING = 1e-26  # features with less variance, relative to the largest, count as rounding errors
COVARIANCE = "prior='covariance': the covariance of block "
WITHIN_SCATTER = "prior='within': the within-class scatter of block {}"


def make_prior(
    kind: str,
    blocks: Blocks,
    scatter: Sequence[Matrix],
    within: WithinClasses,
    name: str = "X",
) -> list[Matrix]:
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


def block_prior(kind: str, array: Array, S: Matrix, within: WithinClasses, m: int) -> Matrix:
    """Return the matrix of block m, given the mean S of ΔΔᵀ over the pairs."""
    if kind == "identity":
        return np.eye(len(S))
    is_image = within.is_image(m)
    if kind in SHRUNK:
        units = "common" if is_image and within.units == "columns" else within.units
        W0 = _from_within(kind, array, within.of_block(m, array), units, m)
    else:
        W0 = _shape("scaled" if is_image and kind == "auto" else kind, array, S, m)
    return W0 / np.sum(W0 * S)


def check_differ(kind: str, scatter: Sequence[Matrix], name: str) -> None:
    """Raise an error if all pairs are identical, for "identity" in all blocks, else in any."""
    if kind == "identity":
        if not any(np.trace(S) > 0 for S in scatter):
            raise ValueError(f"{name}: {IDENTICAL}")
        return
    for m, S in enumerate(scatter):
        if not np.trace(S) > 0:
            raise ValueError(
                f"{name}: expected pairs of samples that differ in block {m}, got identical ones "
                "only; remove the block, or take prior='identity'"
            )


def has_units(prior: object) -> bool:
    """Return whether the scatter within classes is shrunk in some units for a named prior."""
    return isinstance(prior, str) and prior in SHRUNK


def _shape(kind: str, array: Array, S: Matrix, m: int) -> Matrix:
    kind = _without_auto(kind, array.shape[2])
    if kind == "scaled":
        return np.eye(len(S))
    if kind == "diagonal":
        return np.diag(1 / _without_zeros(np.diagonal(S)))
    covariance = mean_square(around_mean(array))
    unit = np.sqrt(_without_zeros(np.diagonal(covariance)))
    return _inverse(covariance / unit / unit[:, None], unit, f"{COVARIANCE}{m}")


def _without_auto(kind: str, width: int) -> str:
    """Return the prior that "auto" stands for, and other words as they are."""
    if kind != "auto":
        return kind
    return "diagonal" if width == 1 else "scaled"


def _from_within(kind: str, array: Array, deviations: Array, units: Units, m: int) -> Matrix:
    """Return the prior "within" or "discriminant" of one block."""
    centred, variance = with_variances(array)
    unit, varies = _within_units(variance, mean_squares(deviations), units)
    scaled = in_units(deviations, unit)
    centred = in_units(centred, unit)
    scatter = np.eye(len(unit))  # of constant features, so that they do not matter
    some, total = columns_of(scaled, varies), float(np.sum((variance / unit**2)[varies]))
    scatter[np.ix_(varies, varies)] = (
        mean_square(some) if units == "affine" else _shrink(some, total, array.shape[2])[0]
    )
    if kind == "discriminant":
        return _discriminant(scatter, scaled, centred, array.shape[2]) / unit / unit[:, None]
    scatter = with_least_within(scatter, scaled, centred, array.shape[2])
    return _inverse(scatter, unit, WITHIN_SCATTER.format(m))


def _within_units(
    variance: Matrix, inside: Matrix, units: Units
) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return the spread of each feature within classes, and whether the feature varies.

    `variance` and `inside` are the variances of the features, in total and within classes.
    """
    total = _without_zeros(variance)
    varies = total == variance
    inside = np.maximum(inside, LEAST_WITHIN * total)
    unit = np.sqrt(np.where(varies, inside, total))
    if units == "common" and varies.any():
        unit[:] = np.sqrt(np.mean(unit[varies] ** 2))
    return unit, varies


# In the span of the samples, where a block has more rows than its samples span


@dataclass(frozen=True, eq=False)
class RowMoments:
    """Moments of the rows of a wide block, each an array of shape (n,).

    Parameters
    ----------
    differ : bool array
        Whether two samples differ in the row.
    variance : array
        The variance of the row.
    within : function
        Returns the variance within classes.
    over_pairs : function
        Returns the mean squared difference over the pairs.
    """

    differ: NDArray[np.bool_]
    variance: Matrix
    within: Callable[[], Matrix]
    over_pairs: Callable[[], Matrix]


def span_units(
    kind: str, width: int, moments: RowMoments, units: Units
) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return the units D of rows in which a named prior is ω I outside the span, and which vary.

    `width` is n', the number of columns of a sample; `units` are those in which the scatter within
    classes is shrunk. The unit of a row that does not vary is final only after `span_prior`.
    """
    kind, variance = _without_auto(kind, width), np.where(moments.differ, moments.variance, 0.0)
    if kind in SHRUNK:
        return _within_units(variance, moments.within(), units)
    unit = np.ones(len(variance))
    if kind == "diagonal":
        unit = np.sqrt(_without_zeros(moments.over_pairs()))
    if kind == "covariance":
        unit = np.sqrt(_without_zeros(variance))
    return unit, moments.differ


def span_prior(
    kind: str,
    array: NDArray[np.floating],
    deviations: Callable[[], Matrix],
    units: Units,
    varies: NDArray[np.bool_],
    m: int,
) -> tuple[Matrix, float, float]:
    """Return a named prior up to its scale, in the coordinates Uᵀ D⁻¹ of block m.

    Parameters
    ----------
    kind : one of `PRIORS`
        The prior.
    array : array of shape (n_samples, r, n')
        The coordinates of the samples.
    deviations : function
        Returns the deviations from the class means, in these coordinates.
    units : one of `UNITS`
        The units in which the scatter within classes is shrunk.
    varies : bool array of shape (n,)
        Which rows of the block vary.
    m : int
        The number of the block, for error messages.

    Returns
    -------
    W0 : array of shape (r, r)
        The prior inside the span.
    outside, constant : float
        The prior is a multiple of the identity outside: for rows that vary, and for those that do
        not.
    """
    kind, size = _without_auto(kind, array.shape[2]), array.shape[1]
    if kind in ("identity", "scaled", "diagonal"):
        return np.eye(size), 1.0, 1.0
    centred = around_mean(array)
    if kind == "covariance":
        values = np.linalg.eigvalsh(mean_square(centred))
        _check_rank(np.append(np.zeros(len(varies) - size), values), f"{COVARIANCE}{m}")
    scaled, ridge = deviations(), 0.0
    scatter = mean_square(scaled)
    if units != "affine":
        total = float(np.sum(mean_squares(centred)))
        scatter, ridge = _shrink(scaled, total, array.shape[2], int(np.sum(varies)))
    if kind == "discriminant":
        W0 = _discriminant(scatter, scaled, centred, array.shape[2])
        return W0, LEAST_WEIGHT / (ridge + RIDGE), LEAST_WEIGHT / (1 + RIDGE)
    scatter = with_least_within(scatter, scaled, centred, array.shape[2])
    values, vectors = np.linalg.eigh(scatter)
    _check_rank(_with_outside(values, ridge, varies), WITHIN_SCATTER.format(m))
    return (vectors / values) @ vectors.T, 1 / ridge, 1.0


def _with_outside(values: NDArray[np.floating], ridge: float, varies: NDArray[np.bool_]) -> Matrix:
    """Return all eigenvalues of a scatter, given those in the span: 1 for rows that do not vary."""
    outside = np.ones(max(0, len(varies) - len(values)))
    outside[: max(0, int(np.sum(varies)) - len(values))] = ridge
    return np.sort(np.concatenate([values, outside]))


def _shrink(
    deviations: Array, total: float, width: int, size: int | None = None
) -> tuple[Matrix, float]:
    """Return the scatter with Ledoit-Wolf shrinkage, and what it adds to the diagonal.

    The columns of one matrix are not independent. So the number of samples, not that of columns,
    determines how reliable the scatter is: `width` rows are one observation. `size` is the number
    of features; it is larger than that of columns for coordinates in the span of the samples. The
    target of the shrinkage is the mean variance, or 0.01 of that of all samples if that is more;
    `total` is the sum of the variances of all samples.
    """
    S, n_samples = mean_square(deviations), deviations.shape[0] // width
    size = deviations.shape[1] if size is None else size
    if size == 0:
        return S, 0.0
    mean_variance = np.trace(S) / size
    noise = (mean_gram_square(deviations, width) / width**2 - np.sum(S**2)) / n_samples
    distance = np.sum(S**2) - size * mean_variance**2
    share = min(max(noise / distance, 0.0), 1.0) if distance > 0 else 1.0
    ridge = share * max(mean_variance, LEAST_WITHIN * total / size)
    return (1 - share) * S + ridge * np.eye(len(S)), ridge


def _discriminant(within: Matrix, deviations: Array, centred: Array, width: int) -> Matrix:
    """Return S⁻¹ − T⁻¹ + 0.05 S⁻¹, with S the scatter within classes and T = S + B the total.

    Along an axis whose ratio of the scatter between and within classes is λ, S⁻¹ − T⁻¹ has the
    weight λ/(1 + λ) in units of S⁻¹: zero where the class means are equal. Where S is less than
    `least_shares` of T, it is replaced by that. `width` rows are one sample.
    """
    between = mean_square(centred) - mean_square(deviations)  # theory (Disc)
    ratio, axes = eigh_relative(between, within + RIDGE * np.eye(len(within)), deviations)
    ratio = np.maximum(ratio, 0.0)  # for TATMLPairs, `between` may be indefinite
    high = np.flatnonzero(1 / (1 + ratio) < PER_SAMPLE)
    least = least_shares(axes[:, high], centred, width) * (1 + ratio[high])  # S is 1 on each axis
    high, least = high[least > 1], least[least > 1]
    ratio[high] = (1 + ratio[high]) / least - 1  # theory (Floor)
    axes[:, high] /= np.sqrt(least)
    half = axes * np.sqrt(ratio / (1 + ratio) + LEAST_WEIGHT)
    return half @ half.T


def _without_zeros(variances: Matrix) -> Matrix:
    """Return the variances, with the mean of the positive ones in place of zeros."""
    positive = variances > max(LEAST_VARIANCE, ROUNDING * np.max(variances))
    return np.where(positive, variances, variances[positive].mean() if positive.any() else 1.0)


def _inverse(matrix: Matrix, unit: Matrix, name: str) -> Matrix:
    values, vectors = np.linalg.eigh(matrix)
    _check_rank(values, name)
    inverse = (vectors / values) @ vectors.T
    return inverse / unit / unit[:, None]


def _check_rank(values: Matrix, name: str) -> None:
    """Raise an error unless all eigenvalues, in increasing order, are positive."""
    # Smaller eigenvalues are rounding errors: of deviations in units of 1e-3 of the spread, too.
    limit = len(values) * np.finfo(float).eps * max(values[-1], 1e-8)
    if not values[0] > limit:
        rank = int(np.sum(values > limit))
        raise ValueError(
            f"{name} has rank {rank}, expected {len(values)}; remove features that are constant or "
            "follow from others, or take prior='auto'"
        )
