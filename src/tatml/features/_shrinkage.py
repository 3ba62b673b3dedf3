"""Covariances of many sets of points at once, with or without shrinkage.

Points come as arrays (…, d, n_points), one set of n_points points in d dimensions for each leading
index; covariances leave as arrays (…, d, d). scikit-learn's estimators do the same for one set;
the results agree with them. `Moments` are all that a covariance needs to know about its points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import check_choice

__all__ = [
    "Moments",
    "Shrinkage",
    "add_diagonal",
    "check_shrinkage",
    "covariances",
    "estimate",
    "gather_moments",
]

Shrinkage = str | float | None
Floats = NDArray[np.floating]

ESTIMATED = ("ledoit_wolf", "oas")
BLOCK = 1024  # points whose products are summed at one time, to stay in the cache
CANCELLED = 1e-3  # variance / mean² below which the mean is subtracted from the points first


def check_shrinkage(value: Any, name: str = "shrinkage") -> Shrinkage:
    """None, one of the two words, or a number from 0 to 1."""
    if value is None:
        return None
    if isinstance(value, Real) and not isinstance(value, bool):
        if not 0 <= value <= 1:
            raise ValueError(f"{name}: expected a number from 0 to 1, got {value!r}")
        return float(value)
    if not isinstance(value, str):
        raise TypeError(
            f"{name}: expected None, 'ledoit_wolf', 'oas' or a number from 0 to 1, got {value!r}"
        )
    check_choice(name, value, ESTIMATED)
    return value


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
    (moments,) = gather_moments(lambda: [(0, extended)], 1, shrinkage == "ledoit_wolf")
    return estimate(moments, shrinkage)


def estimate(moments: Moments, shrinkage: Shrinkage = None) -> Floats:
    """The same from the moments of each set, with the fourth for "ledoit_wolf"."""
    if shrinkage is None:
        return moments.scatter / (moments.count - 1)[..., None, None]
    covariance = moments.scatter / moments.count[..., None, None]
    if shrinkage == "ledoit_wolf":
        shrinkage = _ledoit_wolf(covariance, moments)
    elif shrinkage == "oas":
        shrinkage = _oas(covariance, moments.count)
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
    scatter : array of shape (..., d, d)
        Σ c cᵀ, exactly symmetric.
    quartic : array of shape (...), or None
        Σ |c|⁴, which only "ledoit_wolf" needs.
    """

    count: Floats
    scatter: Floats
    quartic: Floats | None = None

    def scaled(self, units: Floats) -> Moments:
        """The same with points in other units (d,), without the fourth moments."""
        return Moments(self.count, units[:, None] * units * self.scatter)


Parts = Callable[[], Iterable[tuple[int, Floats]]]


def gather_moments(parts: Parts, n_stacks: int, fourth: bool = False) -> list[Moments]:
    """The moments of stacks of sets of points, of which only parts exist at one time.

    One pass over the parts sums products. A second one, with the mean subtracted from the points,
    is for the fourth moments, and for means so large that their squares cancel many digits.

    Parameters
    ----------
    parts : function
        Returns an iterable of pairs (stack, samples), the same at every call. The samples
        (…, d + 1, n_points) are points of each set of that stack; they may be overwritten. Their
        last row has 1 where there is a point. Where there is none, all rows have 0.
    n_stacks : int
        How many stacks there are.
    fourth : bool
        Whether to compute the fourth moments.
    """
    products: list[Any] = [0.0] * n_stacks
    counts: list[Any] = [0.0] * n_stacks
    for stack, samples in parts():
        products[stack] = products[stack] + _products(samples[..., :-1, :], samples)
        counts[stack] = counts[stack] + samples[..., -1, :].sum(axis=-1)
    means, scatters = zip(*map(_mean_and_scatter, products, counts), strict=True)
    if not fourth and not any(map(_has_cancelled, scatters, means, counts)):
        return list(map(Moments, counts, scatters))
    return _gather_centred(parts, counts, means, fourth)


def _gather_centred(
    parts: Parts, counts: Sequence[Floats], means: Sequence[Floats], fourth: bool
) -> list[Moments]:
    products: list[Any] = [0.0] * len(counts)
    quartics: list[Any] = [0.0 if fourth else None] * len(counts)
    for stack, samples in parts():
        points = samples[..., :-1, :]
        points -= means[stack][..., None]
        points *= samples[..., -1:, :]
        products[stack] = products[stack] + _products(points, samples)
        if fourth:
            squares = np.einsum("...ij,...ij->...j", points, points)
            quartics[stack] = quartics[stack] + np.sum(squares**2, axis=-1)
    scatters = [_symmetrised(product[..., :-1]) for product in products]
    return list(map(Moments, counts, scatters, quartics))


def _mean_and_scatter(products: Floats, count: Floats) -> tuple[Floats, Floats]:
    mean = products[..., -1] / np.maximum(count, 1)[..., None]
    outer = mean[..., :, None] * mean[..., None, :]
    return mean, _symmetrised(products[..., :-1]) - count[..., None, None] * outer


def _has_cancelled(scatter: Floats, mean: Floats, count: Floats) -> bool:
    return not np.all(_diagonal(scatter) >= CANCELLED * count[..., None] * mean**2)


def _products(rows: Floats, others: Floats) -> Floats:
    """Sums over the points of the products of each row with each other row.

    In blocks of points: so few rows make poor use of the BLAS when they are long. The factors
    differ in their number of rows, so that it does not choose its symmetric product, which is
    slower still.
    """
    n_points = rows.shape[-1]
    n_whole = n_points - n_points % BLOCK
    if n_whole <= BLOCK:
        return rows @ others.swapaxes(-1, -2)

    def blocks(values: Floats) -> Floats:
        cut = values[..., :n_whole].reshape(*values.shape[:-1], -1, BLOCK)
        return np.moveaxis(cut, -2, -3)

    products = np.sum(blocks(rows) @ blocks(others).swapaxes(-1, -2), axis=-3)
    if n_whole < n_points:
        products += rows[..., n_whole:] @ others[..., n_whole:].swapaxes(-1, -2)
    return products


def _symmetrised(matrices: Floats) -> Floats:
    return (matrices + matrices.swapaxes(-1, -2)) / 2


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
