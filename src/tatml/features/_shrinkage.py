"""Covariances of many sets of points at once, with or without shrinkage.

Points are arrays (…, d, n_points): one set of n_points points in d dimensions per leading index.
Covariances are arrays (…, d, d). The results agree with those of scikit-learn's estimators, which
take one set at a time. A covariance depends on the points only through their `Moments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .._array import Floats, symmetrised
from .._validation import check_choice, check_share

Estimated = Literal["ledoit_wolf", "oas"]
Shrinkage = Estimated | float | None

BLOCK_POINTS = 512  # points per matrix product, few enough to stay in the cache
CANCELLED_BELOW = 1e-3  # ratio variance / mean² below which the points are centred first


def check_shrinkage(value: Any) -> Shrinkage:
    """Return the validated shrinkage: None, "ledoit_wolf", "oas" or a number from 0 to 1."""
    if value is None:
        return None
    if isinstance(value, Real) and not isinstance(value, bool):
        return check_share("shrinkage", value)
    if not isinstance(value, str):
        raise TypeError(
            f"shrinkage: expected None, 'ledoit_wolf', 'oas' or a number from 0 to 1, got {value!r}"
        )
    return check_choice("shrinkage", value, get_args(Estimated))


def covariances(samples: Floats, shrinkage: Shrinkage = None) -> Floats:
    """Return the covariance matrix of each set of points.

    Parameters
    ----------
    samples : array of shape (..., d, n_points)
        Sets of at least two points; not changed.
    shrinkage : None, "ledoit_wolf", "oas" or float
        None divides by n_points − 1, as `numpy.cov`. The others divide by n_points, as
        scikit-learn's `ledoit_wolf`, `oas` and `ShrunkCovariance`, and return
        (1 − s) C + s (tr C / d) I, where s is the given or the estimated number.

    Returns
    -------
    array of shape (..., d, d)
        Exactly symmetric matrices.
    """
    *leading, d, n_points = samples.shape
    extended = np.ones((*leading, d + 1, n_points))
    extended[..., :-1, :] = samples
    count = np.full(leading, float(n_points))
    moments = Moments.from_sums(sum_products(extended), count)
    if shrinkage == "ledoit_wolf" or np.any(moments.cancelled):
        centre(extended, moments.mean)
        scatter = symmetrised(sum_products(extended)[..., :-1])
        moments = Moments(count, moments.mean, scatter, sum_quartics(extended))
    return estimate(moments, shrinkage)


def estimate(moments: Moments, shrinkage: Shrinkage = None) -> Floats:
    """Return the covariance matrices of sets with these moments; see `covariances`.

    "ledoit_wolf" needs the fourth moments.
    """
    if shrinkage is None:
        return moments.scatter / (moments.count - 1)[..., None, None]
    covariance = moments.scatter / moments.count[..., None, None]
    if shrinkage == "ledoit_wolf":
        amount = _ledoit_wolf(covariance, moments)
    elif shrinkage == "oas":
        amount = _oas(covariance, moments.count)
    else:
        amount = np.asarray(shrinkage)
    target = amount * _mean_variance(covariance)
    covariance *= 1 - amount[..., None, None]
    _diagonal(covariance)[...] += target[..., None]
    return covariance


def add_diagonal(covariance: Floats, diagonal: float, relative: bool = False) -> Floats:
    """Add `diagonal`, or `diagonal` times tr C / d, to the diagonals in place."""
    amount = diagonal * _mean_variance(covariance) if relative else np.asarray(diagonal)
    _diagonal(covariance)[...] += amount[..., None]
    return covariance


@dataclass(frozen=True)
class Moments:
    """Sums over the points of each set, where c is a point minus the mean of its set.

    Attributes
    ----------
    count : array of shape (...)
        The number of points.
    mean : array of shape (..., d)
    scatter : array of shape (..., d, d)
        Σ c cᵀ, exactly symmetric.
    quartic : array of shape (...), or NaN
        Σ |c|⁴, which only "ledoit_wolf" needs; NaN if it was not computed.
    """

    count: Floats
    mean: Floats
    scatter: Floats
    quartic: Floats | float = nan

    @classmethod
    def from_sums(cls, sums: Floats, count: Floats) -> Moments:
        """Return the moments from `sum_products` of points that are not centred."""
        mean = sums[..., -1] / np.maximum(count, 1)[..., None]
        outer = mean[..., :, None] * mean[..., None, :]
        scatter = symmetrised(sums[..., :-1]) - count[..., None, None] * outer
        return cls(count, mean, scatter)

    @property
    def cancelled(self) -> NDArray[np.bool_]:
        """Which sets have a mean so large that cancellation makes the scatter imprecise."""
        bound = CANCELLED_BELOW * self.count[..., None] * self.mean**2
        return ~np.all(_diagonal(self.scatter) >= bound, axis=-1)


def sum_products(samples: Floats) -> Floats:
    """Return sums over the points of the products of their coordinates, of shape (…, d, d + 1).

    The samples are extended points (…, d + 1, n_points): the last row is 1, and masked points are 0
    in all rows. The last column of the result is the sum of the points.

    The sums run over blocks of points, because the BLAS is slow for few long rows. The factors
    differ in their number of rows, which keeps NumPy from calling the symmetric product of the
    BLAS: that is even slower.
    """
    rows = samples[..., :-1, :]
    n_points = rows.shape[-1]
    n_whole = n_points - n_points % BLOCK_POINTS
    if n_points <= 4 * BLOCK_POINTS:
        return rows @ samples.swapaxes(-1, -2)

    def blocks(values: Floats) -> Floats:
        cut = values[..., :n_whole].reshape(*values.shape[:-1], -1, BLOCK_POINTS)
        return np.moveaxis(cut, -2, -3)

    products = np.sum(blocks(rows) @ blocks(samples).swapaxes(-1, -2), axis=-3)
    if n_whole < n_points:
        products += rows[..., n_whole:] @ samples[..., n_whole:].swapaxes(-1, -2)
    return products


def sum_quartics(samples: Floats) -> Floats:
    """Return Σ |x|⁴ over extended points x."""
    points = samples[..., :-1, :]
    squares = np.einsum("...ij,...ij->...j", points, points)
    return np.einsum("...j,...j->...", squares, squares)


def centre(samples: Floats, mean: Floats) -> None:
    """Subtract the mean of each set from its extended points in place."""
    points = samples[..., :-1, :]
    points -= mean[..., None]
    points *= samples[..., -1:, :]


def _ledoit_wolf(covariance: Floats, moments: Moments) -> Floats:
    """Return the shrinkage of Ledoit and Wolf (2004): the least expected squared error."""
    d, count = covariance.shape[-1], moments.count
    square = np.sum(covariance**2, axis=(-2, -1))
    spread = square / d - _mean_variance(covariance) ** 2
    noise = np.minimum((moments.quartic / count - square) / (d * count), spread)
    return _ratio(noise, spread, otherwise=0.0)


def _oas(covariance: Floats, count: Floats) -> Floats:
    """Return the shrinkage of Chen, Wiesel, Eldar and Hero (2010).

    As in scikit-learn, the terms 2/d are left out.
    """
    d = covariance.shape[-1]
    square = np.mean(covariance**2, axis=(-2, -1))
    mean_square = _mean_variance(covariance) ** 2
    return _ratio(square + mean_square, (count + 1) * (square - mean_square / d), otherwise=1.0)


def _ratio(above: Floats, below: Floats, otherwise: float) -> Floats:
    """Return the quotient clipped to [0, 1]; `otherwise` if rounding made the divisor ≤ 0."""
    safe = np.where(below > 0, below, 1.0)
    return np.where(below > 0, np.clip(above / safe, 0.0, 1.0), otherwise)


def _mean_variance(covariance: Floats) -> Floats:
    return np.trace(covariance, axis1=-2, axis2=-1) / covariance.shape[-1]


def _diagonal(matrices: Floats) -> Floats:
    """Return a writeable view of the diagonals."""
    return np.einsum("...ii->...i", matrices)
