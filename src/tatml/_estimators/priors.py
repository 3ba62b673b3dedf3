"""Named priors W0: the metric that the solver starts from, and that the learnt one stays close to.

Every named prior except "identity" is scaled to the data: the mean squared distance of the pairs is
1 in every block. Then neither the units of the data nor those of a block matter, and C has the same
meaning for all data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from .._data.blocks import Blocks

__all__ = [
    "IDENTICAL",
    "PRIORS",
    "UNITS",
    "PriorName",
    "Units",
    "WithinClasses",
    "has_units",
    "make_prior",
]

Matrix = NDArray[np.float64]
Units = Literal["columns", "common", "affine"]
UNITS = get_args(Units)

PriorName = Literal[
    "auto", "diagonal", "scaled", "identity", "covariance", "within", "discriminant"
]
PRIORS = get_args(PriorName)
LEAST_WEIGHT = 0.05  # weight in "discriminant" of directions that separate no classes
SHRUNK = ("within", "discriminant")  # priors whose scatter within classes is shrunk in some units
IDENTICAL = "expected pairs of samples that differ, got identical ones only"
LEAST_VARIANCE = 1e-250  # features with less variance count as constant: 1/variance overflows
LEAST_WITHIN = 1e-6  # least variance within classes, relative to the total
ROUNDING = 1e-26  # features with less variance, relative to the largest, count as rounding errors
BATCH = 1000  # matrices whose squares are computed at a time


@dataclass(frozen=True)
class WithinClasses:
    """The deviations from the class means, and the units in which their scatter is shrunk.

    Parameters
    ----------
    deviations : list of M arrays of shape (n_rows, n_m)
        The columns of the deviations of all samples.
    units : {"columns", "common", "affine"}
        "columns": the spread of each column within classes, so that the units of the columns do
        not matter. "common": one unit for all columns. "affine": the scatter is not shrunk, so that
        no linear map of the columns matters.
    n_images : int
        The number of blocks, at the end, that are images of a kernel. Their columns are coordinates
        in one space: they have one common unit, whatever the `units` of the features.
    """

    deviations: Sequence[Matrix]
    units: Units = "columns"
    n_images: int = 0


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
    if kind == "identity":
        if not any(np.trace(S) > 0 for S in scatter):
            raise ValueError(f"{name}: {IDENTICAL}")
        return [np.eye(len(S)) for S in scatter]
    priors = []
    for m, (S, deviations) in enumerate(zip(scatter, within.deviations, strict=True)):
        if not np.trace(S) > 0:
            raise ValueError(
                f"{name}: expected pairs of samples that differ in block {m}, got identical ones "
                "only; remove the block, or take prior='identity'"
            )
        is_image = m >= len(scatter) - within.n_images
        if kind in SHRUNK:
            units = "common" if is_image and within.units == "columns" else within.units
            W0 = _from_within(kind, blocks.arrays[m], deviations, units, m)
        else:
            W0 = _shape("scaled" if is_image and kind == "auto" else kind, blocks.arrays[m], S, m)
        priors.append(W0 / np.sum(W0 * S))
    return priors


def has_units(prior: object) -> bool:
    """Return whether a prior is the name of one whose scatter within classes is shrunk."""
    return isinstance(prior, str) and prior in SHRUNK


def _shape(kind: str, array: NDArray[np.floating], S: Matrix, m: int) -> Matrix:
    if kind == "auto":
        kind = "diagonal" if array.shape[2] == 1 else "scaled"
    if kind == "scaled":
        return np.eye(len(S))
    if kind == "diagonal":
        return np.diag(1 / _without_zeros(np.diagonal(S)))
    around_mean = rows_of(array - array.mean(axis=0))
    covariance = np.reshape(np.cov(around_mean, rowvar=False, bias=True), S.shape)
    unit = np.sqrt(_without_zeros(np.diagonal(covariance)))
    return _inverse(
        covariance / unit / unit[:, None], unit, f"prior='covariance': the covariance of block {m}"
    )


def _from_within(
    kind: str, array: NDArray[np.floating], deviations: Matrix, units: Units, m: int
) -> Matrix:
    """Return the prior "within" or "discriminant" of one block."""
    around_mean = rows_of(array - array.mean(axis=0))
    variance = np.mean(around_mean**2, axis=0)
    variance[np.ptp(rows_of(array), axis=0) == 0] = 0.0  # it may differ from zero by rounding
    total = _without_zeros(variance)
    varies = total == variance
    inside = np.maximum(np.mean(deviations**2, axis=0), LEAST_WITHIN * total)
    unit = np.sqrt(np.where(varies, inside, total))
    if units == "common":
        unit[:] = np.sqrt(np.mean(unit[varies] ** 2))
    scaled = deviations / unit
    scatter = np.eye(len(unit))  # of constant features, so that they do not matter
    some = scaled[:, varies]
    scatter[np.ix_(varies, varies)] = (
        _mean_square(some) if units == "affine" else _shrink(some, array.shape[2])
    )
    if kind == "discriminant":
        return _discriminant(scatter, scaled, around_mean / unit) / unit / unit[:, None]
    return _inverse(scatter, unit, f"prior='within': the within-class scatter of block {m}")


def _shrink(deviations: Matrix, width: int) -> Matrix:
    """Return the scatter with Ledoit-Wolf shrinkage; `width` rows are one observation.

    The columns of one matrix are not independent. So the number of samples, not that of columns,
    determines how reliable the scatter is.
    """
    S, n_samples, size = _mean_square(deviations), len(deviations) // width, deviations.shape[1]
    mean_variance = np.trace(S) / size
    squares = np.concatenate(list(_squares(deviations.reshape(n_samples, width, size))))
    noise = (np.mean(squares) / width**2 - np.sum(S**2)) / n_samples
    distance = np.sum(S**2) - size * mean_variance**2
    share = min(max(noise / distance, 0.0), 1.0) if distance > 0 else 1.0
    return (1 - share) * S + share * mean_variance * np.eye(size)


def _squares(matrices: Matrix) -> Iterator[Matrix]:
    """Yield the squared norms of ZᵀZ for a stack of matrices Z, in batches."""
    for batch in gen_batches(len(matrices), BATCH):
        Z = matrices[batch]
        transposed = np.swapaxes(Z, 1, 2)
        gram = Z @ transposed if Z.shape[1] < Z.shape[2] else transposed @ Z
        yield np.sum(gram**2, axis=(1, 2))


def _discriminant(within: Matrix, deviations: Matrix, around_mean: Matrix) -> Matrix:
    """Return S⁻¹ − T⁻¹ + 0.05 S⁻¹, with S the scatter within classes and T = S + B the total.

    Along an axis whose ratio of the scatter between and within classes is λ, S⁻¹ − T⁻¹ has the
    weight λ/(1 + λ) in units of S⁻¹: zero where the class means are equal.
    """
    between = _mean_square(around_mean) - _mean_square(deviations)  # theory (Disc)
    ratio, axes = scipy.linalg.eigh(between, within + LEAST_WITHIN * np.eye(len(within)))
    ratio = np.maximum(ratio, 0.0)  # for TATMLPairs, `between` may be indefinite
    half = axes * np.sqrt(ratio / (1 + ratio) + LEAST_WEIGHT)
    return half @ half.T


def _mean_square(rows: Matrix) -> Matrix:
    return rows.T @ rows / len(rows)


def rows_of(array: NDArray[np.floating]) -> Matrix:
    """Return the columns of all matrices of a block as rows, shape (n_samples · n'_m, n_m)."""
    return np.swapaxes(array, 1, 2).reshape(-1, array.shape[1]).astype(np.float64)


def _without_zeros(variances: Matrix) -> Matrix:
    """Return the variances, with the mean of the positive ones in place of zeros."""
    positive = variances > max(LEAST_VARIANCE, ROUNDING * np.max(variances))
    return np.where(positive, variances, variances[positive].mean() if positive.any() else 1.0)


def _inverse(matrix: Matrix, unit: Matrix, name: str) -> Matrix:
    values, vectors = np.linalg.eigh(matrix)
    # Smaller eigenvalues are rounding errors: of deviations in units of 1e-3 of the spread, too.
    limit = len(matrix) * np.finfo(float).eps * max(values[-1], 1e-8)
    if not values[0] > limit:
        rank = int(np.sum(values > limit))
        raise ValueError(
            f"{name} has rank {rank}, expected {len(matrix)}; remove features that are constant or "
            "follow from others, or take prior='auto'"
        )
    inverse = (vectors / values) @ vectors.T
    return inverse / unit / unit[:, None]
