"""Covariances of many sets of points at once, with or without shrinkage.

Points come as arrays (…, d, n_points), one set of n_points points in d dimensions for each leading
index; covariances leave as arrays (…, d, d). scikit-learn's estimators do the same for one set;
the results agree with them. `Moments` are all that a covariance needs to know about its points.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .._array import symmetrised
from .._validation import check_choice

__all__ = [
    "Moments",
    "Shrinkage",
    "add_diagonal",
    "check_shrinkage",
    "covariances",
    "estimate",
    "centre",
    "sum_products",
    "sum_quartics",
]

Estimated = Literal["ledoit_wolf", "oas"]
Shrinkage = Estimated | float | None
Floats = NDArray[np.floating]

ESTIMATED: tuple[Estimated, ...] = get_args(Estimated)
BLOCK = 512  # points whose products are summed at one time, to stay in the cache
CANCELLED = 1e-3  # variance / mean² below which the mean is subtracted from the points first


def check_shrinkage(value: Any, name: str = "shrinkage") -> Shrinkage:
    """None, one of the two words, or a number from 0 to 1."""
    if value is None:
        return None
    if _is_number(value):
        if not 0 <= value <= 1:
            raise ValueError(f"{name}: expected a number from 0 to 1, got {value!r}")
        return float(value)
    if not isinstance(value, str):
        raise TypeError(
            f"{name}: expected None, 'ledoit_wolf', 'oas' or a number from 0 to 1, got {value!r}"
        )
    check_choice(name, value, ESTIMATED)
    return next(word for word in ESTIMATED if word == value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def covariances(samples: Floats, shrinkage: Shrinkage = None) -> Floats:
    """The covariance matrix of each set of points.

    Parameters
    ----------
    samples : array of shape (..., d, n_points)
        Sets of at least two points; not changed.
    shrinkage : None, "ledoit_wolf", "oas" or float
        None: divide by n_points − 1, as `numpy.cov`. Otherwise by n_points, as scikit-learn's
        `ledoit_wolf`, `oas` and `ShrunkCovariance`, and move towards a multiple of the identity
        with the same trace: (1 − s) C + s (tr C / d) I, with s the number, or estimated.

    Returns
    -------
    array of shape (..., d, d)
        Exactly symmetric.
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
    """The same from the moments of each set, with the fourth for "ledoit_wolf"."""
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
    """Add a number, or the number times tr C / d of each matrix, to the diagonal, in place."""
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
        Σ |c|⁴, which only "ledoit_wolf" needs; NaN where it was not summed.
    """

    count: Floats
    mean: Floats
    scatter: Floats
    quartic: Floats | float = nan

    @classmethod
    def from_sums(cls, sums: Floats, count: Floats) -> Moments:
        """Out of `sum_products` of points that are not centred."""
        mean = sums[..., -1] / np.maximum(count, 1)[..., None]
        outer = mean[..., :, None] * mean[..., None, :]
        scatter = symmetrised(sums[..., :-1]) - count[..., None, None] * outer
        return cls(count, mean, scatter)

    @property
    def cancelled(self) -> NDArray[np.bool_]:
        """In which sets the mean is so large that its square has taken digits from the scatter."""
        bound = CANCELLED * self.count[..., None] * self.mean**2
        return ~np.all(_diagonal(self.scatter) >= bound, axis=-1)


def sum_products(samples: Floats) -> Floats:
    """Sums over the points of the products of their coordinates, of shape (…, d, d + 1).

    The samples are points (…, d + 1, n_points), extended by a last row that has 1 where there is a
    point; where there is none, all rows have 0. The last column gives the sums of the points.
    """
    return _products(samples[..., :-1, :], samples)


def sum_quartics(samples: Floats) -> Floats:
    """Σ |x|⁴ over extended points x."""
    points = samples[..., :-1, :]
    squares = np.einsum("...ij,...ij->...j", points, points)
    return np.einsum("...j,...j->...", squares, squares)


def centre(samples: Floats, mean: Floats) -> None:
    """Subtract the mean of each set from its extended points, in place."""
    points = samples[..., :-1, :]
    points -= mean[..., None]
    points *= samples[..., -1:, :]


def _products(rows: Floats, others: Floats) -> Floats:
    """Sums over the points of the products of each row with each other row.

    In blocks of points: so few rows make poor use of the BLAS when they are long. The factors
    differ in their number of rows, so that it does not choose its symmetric product, which is
    slower still.
    """
    n_points = rows.shape[-1]
    n_whole = n_points - n_points % BLOCK
    if n_points <= 4 * BLOCK:
        return rows @ others.swapaxes(-1, -2)

    def blocks(values: Floats) -> Floats:
        cut = values[..., :n_whole].reshape(*values.shape[:-1], -1, BLOCK)
        return np.moveaxis(cut, -2, -3)

    products = np.sum(blocks(rows) @ blocks(others).swapaxes(-1, -2), axis=-3)
    if n_whole < n_points:
        products += rows[..., n_whole:] @ others[..., n_whole:].swapaxes(-1, -2)
    return products


def _ledoit_wolf(covariance: Floats, moments: Moments) -> Floats:
    """The amount that minimises the expected squared error: Ledoit and Wolf (2004)."""
    d, count = covariance.shape[-1], moments.count
    square = np.sum(covariance**2, axis=(-2, -1))
    spread = square / d - _mean_variance(covariance) ** 2
    noise = np.minimum((moments.quartic / count - square) / (d * count), spread)
    return _ratio(noise, spread, otherwise=0.0)


def _oas(covariance: Floats, count: Floats) -> Floats:
    """Chen, Wiesel, Eldar and Hero (2010), without the terms 2/d, as scikit-learn has it."""
    d = covariance.shape[-1]
    square = np.mean(covariance**2, axis=(-2, -1))
    mean_square = _mean_variance(covariance) ** 2
    return _ratio(square + mean_square, (count + 1) * (square - mean_square / d), otherwise=1.0)


def _ratio(above: Floats, below: Floats, otherwise: float) -> Floats:
    """The quotient, from 0 to 1; rounding may leave a divisor that is zero or below."""
    safe = np.where(below > 0, below, 1.0)
    return np.where(below > 0, np.clip(above / safe, 0.0, 1.0), otherwise)


def _trace(matrices: Floats) -> Floats:
    return np.trace(matrices, axis1=-2, axis2=-1)


def _mean_variance(covariance: Floats) -> Floats:
    return _trace(covariance) / covariance.shape[-1]


def _diagonal(matrices: Floats) -> Floats:
    """A view of the diagonals that can be written to."""
    return np.einsum("...ii->...i", matrices)
