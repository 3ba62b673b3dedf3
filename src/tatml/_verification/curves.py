"""The log-likelihood ratio of a pair as a curve of its distance, by four methods.

A curve is an array [a, b], the straight line a − b d, or a table of shape (2, n_knots): increasing
distances, and the log-likelihood ratios there, which do not increase. Between two knots the table
is linear, and beyond its ends constant.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nextafter
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import norm
from sklearn.isotonic import IsotonicRegression

from .._array import Doubles
from .._messages import shown
from .dependence import Units
from .probabilities import fit_log_likelihood_ratio, soften_labels

CurveMethod = Literal["logistic", "isotonic", "gaussian", "auto"]
CURVE_METHODS: tuple[CurveMethod, ...] = get_args(CurveMethod)
N_KNOTS = 257  # of the table of two normal laws
N_FOLDS = 5  # for "auto"
SEED = 0


def fit_curve(
    distances: Doubles,
    similar: NDArray[np.bool_],
    weights: Doubles,
    method: CurveMethod = "logistic",
    units: Units | None = None,
) -> Doubles:
    """Return the curve of a method; "auto" takes the one with the least held-out log loss.

    Examples
    --------
    >>> similar = np.repeat([True, False], 3)
    >>> curve = fit_curve(np.arange(6.0), similar, np.ones(6), "isotonic")
    >>> curve[0].tolist(), curve[1].round(3).tolist()  # log 4: three pairs of a kind
    ([0.0, 2.0, 3.0, 5.0], [1.386, 1.386, -1.386, -1.386])
    """
    if method == "auto":
        losses = held_out_losses(distances, similar, weights, units)
        method = min(losses, key=lambda name: losses[name])
    return FITS[method](distances, similar, weights)


def held_out_losses(
    distances: Doubles, similar: NDArray[np.bool_], weights: Doubles, units: Units | None = None
) -> dict[CurveMethod, float]:
    """Return the log loss of each method in folds, with equal total weights of both kinds.

    Folds divide the units if these are given: a pair is held out with both of its units, and no
    curve is fitted to a pair with a unit that is held out. Otherwise folds divide the pairs. Folds
    that leave one kind of pairs only are left out; without any other, all losses are 0.
    """
    tested: list[NDArray[np.intp]] = []
    ratios: dict[CurveMethod, list[Doubles]] = {method: [] for method in FITS}
    for fit_on, test_on in _divide(len(distances), units):
        if not all(_has_both_kinds(similar, weights, rows) for rows in (fit_on, test_on)):
            continue
        tested.append(test_on)
        for method, fit in FITS.items():
            curve = fit(distances[fit_on], similar[fit_on], weights[fit_on])
            ratios[method].append(ratio_at(curve, distances[test_on]))
    if not tested:
        return dict.fromkeys(FITS, 0.0)
    rows = np.concatenate(tested)
    return {
        method: balanced_log_loss(np.concatenate(found), similar[rows], weights[rows])
        for method, found in ratios.items()
    }


def _divide(n_pairs: int, units: Units | None) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the pairs to fit on and those to test on, of each fold."""
    rng = np.random.RandomState(SEED)
    members = np.arange(n_pairs)[:, None] if units is None else units
    fold = (rng.permutation(int(members.max()) + 1) % N_FOLDS)[members]
    return [
        (np.flatnonzero((fold != k).all(axis=1)), np.flatnonzero((fold == k).all(axis=1)))
        for k in range(N_FOLDS)
    ]


def _has_both_kinds(similar: NDArray[np.bool_], weights: Doubles, rows: NDArray[np.intp]) -> bool:
    counted = rows[weights[rows] > 0]
    return bool(similar[counted].any() and not similar[counted].all())


def balanced_log_loss(ratio: Doubles, similar: NDArray[np.bool_], weights: Doubles) -> float:
    """Return the log loss at equal odds, if both kinds of pairs have the same total weight."""
    losses = np.logaddexp(0, np.where(similar, -ratio, ratio))
    kinds = (similar, ~similar)
    return float(np.mean([np.average(losses[kind], weights=weights[kind]) for kind in kinds]))


def find_least_log_loss(distances: Doubles, similar: NDArray[np.bool_]) -> float:
    """Return the least balanced log loss of all curves that do not increase, on these pairs.

    This is that of the isotonic regression by adjacent violators.

    Examples
    --------
    >>> find_least_log_loss(np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, True, False, False]))
    0.0
    """
    shares = np.where(similar, 0.5 / similar.sum(), 0.5 / np.sum(~similar))
    model = IsotonicRegression(increasing=False)
    ranks = np.unique(distances, return_inverse=True)[1].astype(float)
    found = model.fit(ranks, similar.astype(float), shares).predict(ranks)
    with np.errstate(divide="ignore"):
        losses = -np.log(np.where(similar, found, 1 - found))
    return max(0.0, float(losses @ shares))


# The methods


def _fit_isotonic(distances: Doubles, similar: NDArray[np.bool_], weights: Doubles) -> Doubles:
    """Return the table of an isotonic regression with Platt's targets, which keep it finite."""
    if not is_ordered(distances, similar, weights):
        return np.zeros(2)
    targets, shares = soften_labels(similar, weights)
    counted = shares > 0
    values, ranks = np.unique(distances[counted], return_inverse=True)
    model = IsotonicRegression(increasing=False)
    model.fit(ranks.astype(float), targets[counted], shares[counted])
    knots = values[model.X_thresholds_.astype(np.intp)]
    return np.stack([knots, logit(model.y_thresholds_)])


def _fit_gaussian(distances: Doubles, similar: NDArray[np.bool_], weights: Doubles) -> Doubles:
    """Return the table of two normal laws, over the range of the distances.

    The log-likelihood ratio of normal laws with two variances is quadratic. It decreases between
    the means, and beyond its turning point it is kept constant. Each variance counts the total
    variance as one pair more, so that it is not 0.
    """
    if not is_ordered(distances, similar, weights):
        return np.zeros(2)
    shares = soften_labels(similar, weights)[1]
    counted = shares > 0
    unit = np.abs(distances[counted]).max()
    scaled = distances / unit
    total = float(np.average((scaled - np.average(scaled, weights=shares)) ** 2, weights=shares))
    laws = []
    for kind in (similar, ~similar):
        n_pairs = shares[kind].sum() ** 2 / np.sum(shares[kind] ** 2)
        mean = float(np.average(scaled[kind], weights=shares[kind]))
        variance = float(np.average((scaled[kind] - mean) ** 2, weights=shares[kind]))
        laws.append((mean, ((n_pairs * variance + total) / (n_pairs + 1)) ** 0.5))
    (mean, deviation), (other_mean, other_deviation) = laws
    knots = np.linspace(scaled[counted].min(), scaled[counted].max(), N_KNOTS)
    knots = np.unique(knots * unit)
    inside = knots / unit
    bend = deviation**-2 - other_deviation**-2
    if bend != 0:
        turn = (mean / deviation**2 - other_mean / other_deviation**2) / bend
        inside = np.maximum(inside, turn) if bend > 0 else np.minimum(inside, turn)
    ratio = norm.logpdf(inside, *laws[0]) - norm.logpdf(inside, *laws[1])
    return np.stack([knots, np.minimum.accumulate(ratio)])  # but for rounding


FITS: dict[CurveMethod, Callable[[Doubles, NDArray[np.bool_], Doubles], Doubles]] = {
    "logistic": fit_log_likelihood_ratio,
    "isotonic": _fit_isotonic,
    "gaussian": _fit_gaussian,
}


def is_ordered(distances: Doubles, similar: NDArray[np.bool_], weights: Doubles) -> bool:
    """Return whether similar pairs have the smaller mean distance."""
    unit = np.abs(distances).max()
    kinds = (similar, ~similar)
    means = [np.average(distances[kind] / unit, weights=weights[kind]) for kind in kinds]
    return bool(means[0] < means[1])


# The use of a curve


def is_line(curve: Doubles) -> bool:
    """Return whether the curve is [a, b], and no table."""
    return curve.shape == (2,)


def ratio_at(curve: Doubles, distances: Doubles) -> Doubles:
    """Return the log-likelihood ratios of distances.

    Examples
    --------
    >>> ratio_at(np.array([2.0, 1.0]), np.array([0.0, 3.0])).tolist()
    [2.0, -1.0]
    >>> ratio_at(np.array([[1.0, 2.0], [3.0, -3.0]]), np.array([0.0, 1.5, 9.0])).tolist()
    [3.0, 0.0, -3.0]
    """
    if is_line(curve):
        return curve[0] - curve[1] * distances
    return np.interp(distances, *curve)


def says_nothing(curve: Doubles) -> bool:
    """Return whether the ratio of all distances is the same."""
    return bool(curve[1] == 0 if is_line(curve) else np.ptp(curve[1]) == 0)


def distance_at(curve: Doubles, ratio: float, distances: Doubles) -> float:
    """Return the threshold below which the log-likelihood ratio exceeds a number.

    `distances` are those that the threshold is for: if all of them are below it, it is the next
    float above their largest, or above the last knot.
    """
    least = min(0.0, float(distances.min()))  # distances have no lower threshold
    if is_line(curve):
        return max(least, (curve[0] - ratio) / curve[1])
    knots, ratios = curve
    after = int(np.searchsorted(-ratios, -ratio))  # the first knot at or below the ratio
    if after == 0:
        return least
    if after == len(knots):
        return nextafter(max(float(knots[-1]), float(distances.max())), inf)
    share = (ratios[after - 1] - ratio) / (ratios[after - 1] - ratios[after])
    return max(least, float(knots[after - 1] + share * (knots[after] - knots[after - 1])))


def check_table(name: str, value: Doubles) -> None:
    """Raise an error unless the value is a table of finite numbers in the right order."""
    ordered = value.shape[0] == 2 and value.shape[1] > 0
    if ordered and np.isfinite(value).all():
        ordered = bool(np.all(np.diff(value[0]) > 0) and np.all(np.diff(value[1]) <= 0))
    if not ordered:
        raise ValueError(
            f"{name}: expected increasing distances and log-likelihood ratios that do not "
            f"increase, got {shown(value)}"
        )
