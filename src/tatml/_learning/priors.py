"""Named priors W0: the metric that the solver starts from, and that the learnt one stays close to.

Every named prior except "identity" is scaled to the data: the mean squared distance of the pairs is
1 in every block. Then neither the units of the data nor those of a block matter, and C has the same
meaning for all data. Scatters are computed where the samples are; priors are NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .._array import Array, asarray
from .._data.blocks import Blocks
from .scatters import (
    LEAST_WITHIN,
    PER_SAMPLE,
    Units,
    WithinClasses,
    around_mean,
    eigh_relative,
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
PLAIN = ("identity", "scaled", "diagonal")  # priors that need no scatter of the samples
SHRUNK = ("within", "discriminant")  # priors whose scatter within classes is shrunk in some units
IDENTICAL = "expected pairs of samples that differ, got identical ones only"
LEAST_VARIANCE = 1e-250  # features with less variance count as constant: 1/variance overflows
RIDGE = 1e-6  # added to the scatter within classes, in its units, so that it has an inverse
ROUNDING = 1e-26  # features with less variance, relative to the largest, count as rounding errors


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
    kind, units = _kind_and_units(kind, array.shape[2], within, m)
    if kind in PLAIN:
        W0 = np.diag(1 / _without_zeros(np.diagonal(S))) if kind == "diagonal" else np.eye(len(S))
        return W0 if kind == "identity" else W0 / np.sum(W0 * S)
    centred, variance = with_variances(array)
    deviations = within.of_block(m, array) if kind in SHRUNK else centred
    unit, varies = _units_of_rows(kind, variance, lambda: mean_squares(deviations), units)
    centred, deviations = (rows / asarray(unit, rows) for rows in (centred, deviations))
    W0 = _prior_in_units(kind, centred, deviations, units, varies, array.shape[2], m)[0]
    W0 = W0 / unit / unit[:, None]
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


def _kind_and_units(kind: str, width: int, within: WithinClasses, m: int) -> tuple[str, Units]:
    """Return what "auto" stands for in a block, and the units in which its scatter is shrunk."""
    is_image = within.is_image(m)
    if kind == "auto":
        kind = "diagonal" if width == 1 and not is_image else "scaled"
    return kind, "common" if is_image and within.units == "columns" else within.units


def _units_of_rows(
    kind: str, variance: Matrix, inside: Callable[[], Matrix], units: Units
) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return the spread of each row, in total or within classes, and whether the row varies.

    `variance` and `inside` are the variances of the rows, in total and within classes.
    """
    total = _without_zeros(variance)
    varies = total == variance
    if kind == "covariance":
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
) -> tuple[Matrix, float, float]:
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
    if units == "affine":
        scatter, ridge = mean_square(deviations), 0.0
    else:
        total = float(np.sum(mean_squares(centred)))
        scatter, ridge = _shrink(deviations, total, width, int(np.sum(varies)))
    if n_outside == 0:  # constant rows do not matter; in a span, they are outside
        scatter[~varies, :] = scatter[:, ~varies] = 0.0
        scatter[~varies, ~varies] = 1.0
    if kind == "discriminant":
        W0 = _discriminant(scatter, deviations, centred, width)
        return W0, LEAST_WEIGHT / (ridge + RIDGE), LEAST_WEIGHT / (1 + RIDGE)
    scatter = with_least_within(scatter, deviations, centred, width)
    outside = np.ones(n_outside)
    outside[: max(0, int(np.sum(varies)) - len(scatter))] = ridge
    name = f"prior='within': the within-class scatter of block {m}"
    return _inverse(scatter, outside, name), 1 / ridge if ridge else 1.0, 1.0


# In the span of the samples, where a block has more rows than its samples span


def span_units(
    kind: str,
    width: int,
    within: WithinClasses,
    m: int,
    variances: tuple[NDArray[np.bool_], Matrix],
    inside: Callable[[], Matrix],
    over_pairs: Callable[[], Matrix],
) -> tuple[Matrix, NDArray[np.bool_]]:
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
    (differ, variance), (kind, units) = variances, _kind_and_units(kind, width, within, m)
    if kind in PLAIN:
        unit = np.sqrt(_without_zeros(over_pairs())) if kind == "diagonal" else np.ones(len(differ))
        return unit, differ
    return _units_of_rows(kind, np.where(differ, variance, 0.0), inside, units)


def span_prior(
    kind: str,
    array: NDArray[np.floating],
    deviations: Callable[[], Matrix],
    within: WithinClasses,
    varies: NDArray[np.bool_],
    m: int,
) -> tuple[Matrix, float, float]:
    """Return a named prior up to its scale, in the coordinates Uᵀ D⁻¹ of block m.

    `array`, of shape (n_samples, r, n'), holds the coordinates of the samples, and `deviations`
    returns the deviations from the class means in these coordinates. See `_prior_in_units`.
    """
    kind, units = _kind_and_units(kind, array.shape[2], within, m)
    if kind in PLAIN:
        return np.eye(array.shape[1]), 1.0, 1.0
    centred = around_mean(array)
    inside = deviations() if kind in SHRUNK else centred
    return _prior_in_units(kind, centred, inside, units, varies, array.shape[2], m)


def _shrink(deviations: Array, total: float, width: int, size: int) -> tuple[Matrix, float]:
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


def _inverse(matrix: Matrix, outside: Matrix, name: str) -> Matrix:
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
