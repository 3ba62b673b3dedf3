"""Error rates of a fitted estimator on held-out pairs."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils import Bunch

from .._estimators.given_labels import pair_labels
from .._estimators.inputs import check_has
from .._estimators.pair_units import count_rows, number_subgroups, pair_units
from .._messages import shown
from .._validation import check_between
from .._verification.operating import JudgedPairs
from .._verification.rates import FEW_ERRORS, ErrorRate
from .._warnings import warn_user

MOST_NAMED = 3  # most rates that a warning names


def error_rates(
    estimator: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    X: Any = None,
    *,
    groups: ArrayLike | None = None,
    by: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> Bunch:
    """Compute the error rates at `threshold_` on held-out pairs, with limits that cover the truth.

    For independent pairs the limits are exact (Clopper and Pearson). Pairs that share samples or
    groups are worth less than their number: their variance is that of a dyadic mean, and the
    limits are those of the effective number of pairs. Fewer than 30 errors are a weak estimate:
    one warning says so.

    Parameters
    ----------
    estimator : fitted estimator with a threshold
        It predicts which pairs are the same.
    pairs, X
        Pairs, as for `pair_distance`. They must be used neither to learn the metric nor to
        calibrate the threshold.
    y : array-like of shape (n_pairs,)
        +1 for the same, −1 for different; both must occur.
    groups : array-like of shape (n_samples,) or (n_pairs, 2), optional
        The unit of dependence, for example the identity: one label per sample for index pairs, or
        one per member of each pair. Without it the units are the samples of index pairs. In pairs
        given as arrays equal rows are one sample, with a warning; if no row is in two pairs, or
        rows may repeat by chance, the pairs are taken to be independent.
    by : array-like of shape (n_pairs,), optional
        A subgroup for each pair, for which rates are wanted.
    confidence_level : float, default=0.95
        Confidence level of the limits, each rate for itself.

    Returns
    -------
    Bunch
        ``false_match`` (share of dissimilar pairs predicted to be the same) and
        ``false_non_match`` (share of similar pairs predicted to be different), each an `ErrorRate`.
        ``balanced_accuracy``, a Bunch of ``value``, ``low`` and ``high``; its limits hold whatever
        the dependence of the two rates is. With `by`, also ``by``: a dict from each subgroup to a
        Bunch of ``false_match`` and ``false_non_match``, None for a kind of pairs that it lacks.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.verification import error_rates
    >>> distances, y = np.linspace(0, 2, 200), np.tile([1, -1], 100)
    >>> judge = PairThreshold("precomputed").fit(distances, y).set_threshold(0.8)
    >>> rate = error_rates(judge, distances, y).false_match
    >>> rate.n_errors, rate.n_pairs
    (40, 100)
    >>> round(rate.low, 3), round(rate.high, 3)
    (0.303, 0.503)
    """
    check_has(estimator, "pair_distance", "threshold_")
    level = check_between("confidence_level", confidence_level)
    units, warning = pair_units(estimator, pairs, X, groups)
    if count_rows(pairs) > 0:
        pair_labels(y, count_rows(pairs))
    subgroups = None if by is None else number_subgroups(by, count_rows(pairs))
    distances = estimator.pair_distance(pairs, X)
    judged = JudgedPairs(distances, pair_labels(y, len(distances)), units, level)
    threshold = float(estimator.threshold_)
    rates = _name_rates(judged.measure_rates(threshold))
    value, low, high = judged.measure_balanced_accuracy(threshold)
    rates["balanced_accuracy"] = Bunch(value=value, low=low, high=high)
    if subgroups is not None:
        rates["by"] = {
            name: _name_rates(judged.select(rows).measure_rates(threshold))
            for name, rows in subgroups.items()
        }
    if warning:
        warn_user(warning)
    _warn_of_few_errors(rates)
    return rates


def _name_rates(rates: tuple[ErrorRate | None, ErrorRate | None]) -> Bunch:
    return Bunch(false_match=rates[0], false_non_match=rates[1])


def _warn_of_few_errors(rates: Bunch) -> None:
    """Warn once if rates rest on few errors."""
    few = []
    for name, part in [(None, rates), *rates.get("by", {}).items()]:
        for words, rate in (
            ("false matches", part.false_match),
            ("false non-matches", part.false_non_match),
        ):
            if rate is not None and rate.n_errors < FEW_ERRORS:
                where = "" if name is None else f" of {shown(name)}"
                few.append(f"{rate.n_errors} {words} in {rate.n_pairs} pairs{where}")
    if few:
        more = f" and {len(few) - MOST_NAMED} more" if len(few) > MOST_NAMED else ""
        warn_user(
            f"error_rates: fewer than {FEW_ERRORS} errors ({', '.join(few[:MOST_NAMED])}{more}): "
            "the rates are rough; use their limits, or more pairs"
        )
