"""The prior of a metric with midpoints: probabilistic linear discriminant analysis.

In the two-covariance model, class means are normal with the covariance B, and the samples of a
class are normal around their mean with the covariance S. Then the log-likelihood ratio of "same"
and "different" is κ − q for the matrices W0 and V0 of (PLDA) in docs/theory.md. These matrices are
the prior, in the units of that ratio.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf_shrinkage

from .._array import Array, Doubles, asarray, namespace, to_numpy
from .priors import (
    RIDGE,
    WithinClasses,
    around_mean,
    class_means,
    discriminant_axes,
    distinct_pairs,
    half_differences,
    kind_and_units,
    leading_axes,
    mean_square,
    mean_squares,
    minus_class_means,
    outside_components,
    rows_of,
    scatter_within,
    units_of_rows,
    with_outside,
    with_variances,
)

# What is added to W0 and V0, in units of S⁻¹. B of pairs without labels cannot be shrunk: then it
# is more.
FLOOR, FLOOR_OF_PAIRS = 0.003, 0.0125


@dataclass(frozen=True, eq=False)
class Plda:
    """W0, V0 and κ of one block.

    Parameters
    ----------
    W0, V0 : arrays of shape (n, n)
        The matrices of the differences, and of the sums.
    log_ratio : float
        κ, the log-likelihood ratio of a pair with the score 0, without the floor.
    """

    W0: Doubles
    V0: Doubles
    log_ratio: float


def plda(ratio: Doubles, axes: Doubles, floor: float, n_classes: float = inf) -> Plda:
    """Return the prior of axes along which S is 1 and B has these ratios.

    The sums of pairs of `n_classes` classes that recur have other covariances than those of new
    classes: docs/theory.md, (PLDA).

    Examples
    --------
    >>> import numpy as np
    >>> prior = plda(np.array([2.0]), np.eye(1), floor=0.0)  # S = 1, B = 2
    >>> x, y = 1.0, 0.5
    >>> q = (x - y) ** 2 * prior.W0[0, 0] - (x + y) ** 2 * prior.V0[0, 0]
    >>> T, B = 3.0, 2.0
    >>> same = np.array([[T, B], [B, T]])
    >>> ratio = np.log(T * T / np.linalg.det(same)) / 2 + (x * x + y * y) / (2 * T)
    >>> ratio -= np.array([x, y]) @ np.linalg.solve(same, [x, y]) / 2
    >>> bool(np.isclose(prior.log_ratio - q, ratio, rtol=1e-12))
    True
    """
    of_different = 1 + ratio * (1 - 2 / n_classes)  # of the sums, in units of 2 S
    of_same = 1 + 2 * ratio * (1 - 1 / n_classes)
    W = 0.25 * ratio / (1 + ratio) + floor
    V = 0.25 * (of_same - of_different) / (of_same * of_different) + floor
    log_ratio = float(np.sum(np.log1p(ratio) + np.log(of_different) - np.log(of_same))) / 2
    return Plda((axes * W) @ axes.T, (axes * V) @ axes.T, log_ratio)


def between_classes(array: Array, within: WithinClasses) -> Doubles:
    """Return an unbiased estimate of B, the covariance of the class means; it may be indefinite."""
    if within.labels is None:
        assert within.pairs is not None
        of_kinds = [
            mean_square(half_differences(array, *distinct_pairs(within.pairs, kind)))
            for kind in (False, True)
        ]
        return of_kinds[0] - of_kinds[1]
    counts = np.bincount(within.labels, within.weights)
    n_samples, n_between = len(within.labels), int(np.sum(counts > 0)) - 1
    S = mean_square(minus_class_means(array, within.labels, within.weights)) * n_samples
    between = mean_square(around_mean(array, within.weights)) * n_samples - S
    size = (n_samples - np.sum(counts**2) / n_samples) / n_between
    n_within = max(1, n_samples - n_between - 1)
    return (between / n_between - S / n_within) / size


def shrunk_ratios(ratio: Doubles, axes: Doubles, array: Array, within: WithinClasses) -> Doubles:
    """Return the ratios of B and S for new classes, which are less extreme than those in a sample.

    The classes are a sample of all classes. The share of the mean ratio is that of Ledoit and Wolf
    for the covariance of their means, along axes in which S is the identity.
    """
    labels, weights = within.labels, within.weights
    assert labels is not None
    means, counts = class_means(array, labels, weights), np.bincount(labels, weights)
    centred = rows_of(means - namespace(means).mean(means, axis=0))
    roots = np.repeat(np.sqrt(counts / counts.mean()), array.shape[2])
    rows = roots[:, None] * (to_numpy(centred) @ axes)
    share = float(ledoit_wolf_shrinkage(rows, assume_centered=True))
    return (1 - share) * ratio + share * np.mean(ratio)


def correction(within: WithinClasses) -> float:
    """Return by what the mean square of the deviations is multiplied to be an unbiased S."""
    if within.labels is None:
        return 1.0
    n_samples, n_classes = len(within.labels), len(np.unique(within.labels))
    return n_samples / max(1, n_samples - n_classes)


def plda_of_block(array: Array, within: WithinClasses, new_classes: bool, m: int) -> Plda:
    """Return the prior of a block that is no wider than its samples."""
    centred, variance = with_variances(array, within.weights)
    deviations = within.of_block(m, array)
    _, units = kind_and_units("discriminant", array.shape[2], within, m)
    inside = partial(mean_squares, deviations)
    unit, varies = units_of_rows("discriminant", variance, inside, units)
    rows = [array / asarray(unit[:, None], array)]
    rows += [of / asarray(unit, of) for of in (centred, deviations)]
    if not varies.all():  # constant rows do not matter
        kept = np.flatnonzero(varies)
        rows = [namespace(of).take(of, asarray(kept, of), axis=1) for of in rows]
    scaled, centred, deviations = rows
    found, _, constant = plda_in_units(
        scaled, centred, deviations, within, varies[varies], new_classes, m
    )
    whole = [constant * np.eye(len(unit)) for _ in range(2)]
    for matrix, inner in zip(whole, (found.W0, found.V0), strict=True):
        matrix[np.ix_(varies, varies)] = inner
    W0, V0 = (matrix / unit / unit[:, None] for matrix in whole)
    return Plda(W0, V0, found.log_ratio)


def plda_in_units(
    array: Array,
    centred: Array,
    deviations: Array,
    within: WithinClasses,
    varies: NDArray[np.bool_],
    new_classes: bool,
    m: int,
) -> tuple[Plda, float, float]:
    """Return the prior of samples whose rows are in units, or are coordinates in their span.

    The other values are what W0 and V0 are a multiple of the identity of outside the span: for rows
    that vary, and for those that do not. `centred` and `deviations` are the rows of `array` minus
    their mean and minus the means of their classes.
    """
    width = array.shape[2]
    _, units = kind_and_units("discriminant", width, within, m)
    if units == "components":
        return _plda_of_components(array, centred, deviations, within, new_classes, m)
    S, ridge = scatter_within(deviations, centred, units, varies, width)
    factor = correction(within)
    B = between_classes(array, within)
    ratio, axes = discriminant_axes(factor * S, B, centred, width)
    floor = FLOOR if within.labels is not None else FLOOR_OF_PAIRS
    if new_classes and within.labels is not None:
        ratio = shrunk_ratios(ratio, axes, array, within)
    found = plda(ratio, axes, floor, _n_classes(within, new_classes))
    found = Plda(found.W0, found.V0, width * found.log_ratio)  # each column is one observation
    return found, floor / (factor * ridge + RIDGE), floor / (1 + RIDGE)


def _plda_of_components(
    array: Array,
    centred: Array,
    deviations: Array,
    within: WithinClasses,
    new_classes: bool,
    m: int,
) -> tuple[Plda, float, float]:
    """Return the prior of the principal components, nearly 0 outside: see `plda_in_units`."""
    axes = leading_axes(centred)
    varies, turn = np.ones(axes.shape[1], dtype=bool), asarray(axes, centred)
    turned = namespace(array).matmul(asarray(axes.T, array), array)
    rows = (turned, centred @ turn, deviations @ turn)
    within = replace(within, units="columns")
    inside, _, _ = plda_in_units(*rows, within, varies, new_classes, m)
    outside = outside_components(inside.W0, inside.V0)
    W0, V0 = (with_outside(matrix, axes, outside) for matrix in (inside.W0, inside.V0))
    return Plda(W0, V0, inside.log_ratio), outside, outside


def _n_classes(within: WithinClasses, new_classes: bool) -> float:
    if new_classes or within.labels is None:
        return inf
    return float(len(np.unique(within.labels)))
