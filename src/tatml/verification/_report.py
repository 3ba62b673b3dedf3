"""The report of an estimator on held-out pairs: thresholds, error rates, costs, probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score

from .._estimators.given_labels import pair_labels
from .._estimators.inputs import check_has
from .._estimators.pair_units import count_rows, number_subgroups, pair_units
from .._validation import check_between, check_positive, check_two
from .._verification.calibration import equal_error_rate
from .._verification.operating import USUAL_SAME_RATE, Costs, JudgedPairs, OperatingPoint
from .._verification.rates import ErrorRate
from .._warnings import warn_user
from ._report_text import format_html, format_text, point_rows

Rates = tuple[ErrorRate | None, ErrorRate | None]


@dataclass(frozen=True, repr=False)
class Report:
    """What `report` has measured. Print it, or use `to_frame` or `to_dict`.

    Parameters
    ----------
    estimator : str
        The name of the class of the estimator.
    n_similar, n_dissimilar : int
        Numbers of pairs.
    n_units : int or None
        Number of groups, or of samples without groups; None if it is unknown.
    unit : {"groups", "samples", "pairs"}
        What is taken to be independent.
    points : tuple of OperatingPoint
        The thresholds with their error rates. "estimator" is `threshold_`; "probability" accepts
        the pairs for which this has the least expected cost; "equal error rate" and "least
        detection cost" are the best thresholds on these pairs; "FMR 0.01" is the largest threshold
        that keeps the rate on these pairs, and "FMR 0.01 promised" the one that promises it for
        others.
    by : dict of tuples
        For each subgroup the false match rate and the false non-match rate at `threshold_`, each an
        `ErrorRate`, or None for a kind of pairs that the subgroup lacks.
    auc : float
        The area under the ROC curve.
    equal_error_rate : float
        The rate at which both errors are equally frequent, by linear interpolation.
    balanced_accuracy : (float, float, float) or None
        1 − (FMR + FNMR) / 2 at `threshold_`, and its limits.
    least_cost : float
        The least detection cost of all thresholds on these pairs.
    brier, log_loss : float or None
        Scores of the probabilities, if they were calibrated: 0 is the best. Similar pairs have a
        total weight of `same_rate`.
    same_rate, costs : float, (float, float)
        What the detection cost assumes: the share of same pairs, and the costs of a false match
        and of a false non-match.
    confidence_level : float
        Confidence level of the limits.
    judged : JudgedPairs
        The distances and labels of the pairs, for the displays.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.verification import report
    >>> distances, y = np.linspace(0, 2, 200), np.tile([1, -1], 100)
    >>> found = report(PairThreshold("precomputed").fit(distances, y), distances, y)
    >>> found.n_similar, found.n_dissimilar, found.unit
    (100, 100, 'pairs')
    >>> found["equal error rate"].false_match.n_errors
    50
    """

    estimator: str
    n_similar: int
    n_dissimilar: int
    n_units: int | None
    unit: str
    points: tuple[OperatingPoint, ...]
    by: Mapping[Any, Rates]
    auc: float
    equal_error_rate: float
    balanced_accuracy: tuple[float, float, float] | None
    least_cost: float
    brier: float | None
    log_loss: float | None
    same_rate: float
    costs: tuple[float, float]
    confidence_level: float
    judged: JudgedPairs = field(compare=False)

    @property
    def actual_cost(self) -> float | None:
        """The detection cost at `threshold_`; None if the estimator has no threshold."""
        return next((point.cost for point in self.points if point.name == "estimator"), None)

    def __getitem__(self, name: str) -> OperatingPoint:
        """Return the operating point of a name."""
        for point in self.points:
            if point.name == name:
                return point
        raise KeyError(name)

    def __repr__(self) -> str:
        return (
            f"Report({self.estimator}, {self.n_similar} similar and {self.n_dissimilar} dissimilar "
            f"pairs, AUC={self.auc:.4f}, EER={self.equal_error_rate:.4f})"
        )

    def __str__(self) -> str:
        return format_text(self)

    def _repr_html_(self) -> str:
        return format_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as dicts, lists, numbers and words, which JSON can hold."""
        left_out = ("points", "by", "judged")
        numbers = {name: value for name, value in vars(self).items() if name not in left_out}
        subgroups = {
            str(name): {
                kind: None if rate is None else dict(vars(rate))
                for kind, rate in zip(("false_match", "false_non_match"), rates, strict=True)
            }
            for name, rates in self.by.items()
        }
        numbers["actual_cost"] = self.actual_cost
        return numbers | {"points": point_rows(self.points), "by": subgroups}

    def to_frame(self) -> Any:
        """Return a data frame with one row per threshold. It needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        return pd.DataFrame(point_rows(self.points)).set_index("name")


def report(
    estimator: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    X: Any = None,
    *,
    groups: ArrayLike | None = None,
    by: ArrayLike | None = None,
    same_rate: float | None = None,
    costs: tuple[float, float] = (1.0, 1.0),
    confidence_level: float = 0.95,
) -> Report:
    """Measure a fitted estimator on held-out pairs, at several thresholds.

    The thresholds are that of the estimator, that of the calibrated probabilities, those of the
    equal error rate and of the least detection cost, and those of false match rates from 0.1 down
    to 1e-6, as far as the pairs reach. Each has both error rates with limits, see `error_rates`.
    The limits take the threshold as given: for a threshold that was chosen on the same pairs they
    are too narrow, except that a promised rate is kept.

    Parameters
    ----------
    estimator : fitted estimator with a pair distance
        Rows for `threshold_` and for probabilities need those.
    pairs, X
        Pairs, as for `pair_distance`. They must not be used in fit or in a calibration.
    y : array-like of shape (n_pairs,)
        +1 for the same, −1 for different; both must occur.
    groups : array-like of shape (n_samples,) or (n_pairs, 2), optional
        The unit of dependence, for example the identity: one label per sample for index pairs, or
        one per member of each pair. Without it the units are the samples of index pairs. In pairs
        given as arrays equal rows are one sample, with a warning; if no row is in two pairs, or
        rows may repeat by chance, the pairs are taken to be independent.
    by : array-like of shape (n_pairs,), optional
        A subgroup for each pair, for which the rates at `threshold_` are wanted.
    same_rate : float, optional
        The share of pairs that are the same where the estimator is used. Default: `same_rate_` of
        calibrated probabilities, or else 0.01.
    costs : (float, float), default=(1.0, 1.0)
        The costs of a false match and of a false non-match. The detection cost is the expected
        cost of a pair, divided by that of the better of accepting and refusing all pairs.
    confidence_level : float, default=0.95
        Confidence level of the limits and of the promised rates.

    Returns
    -------
    Report
        Print it, or use its attributes, `to_frame` or `to_dict`. `tatml.plotting.DetDisplay` and
        `tatml.plotting.ErrorRateDisplay` draw it.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.verification import report
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([1, -1], [500, 5000])
    >>> distances = np.abs(rng.normal(np.where(y > 0, 1, 3), 0.7))
    >>> judge = PairThreshold("precomputed").fit(distances[::2], y[::2])
    >>> print(report(judge, distances[1::2], y[1::2]))  # doctest: +ELLIPSIS
    PairThreshold on 250 similar and 2500 dissimilar pairs, taken to be independent
    ...
    """
    check_has(estimator, "pair_distance")
    level = check_between("confidence_level", confidence_level)
    prices = _checked_costs(estimator, same_rate, costs)
    units, warning = pair_units(estimator, pairs, X, groups)
    n_pairs = count_rows(pairs)
    if n_pairs > 0:
        pair_labels(y, n_pairs)
    subgroups = {} if by is None else number_subgroups(by, n_pairs)
    if subgroups:
        check_has(estimator, "threshold_")
    distances = estimator.pair_distance(pairs, X)
    judged = JudgedPairs(distances, pair_labels(y, len(distances)), units, level, prices)
    if warning:
        warn_user(warning)
    unit = "pairs" if units is None else "samples" if groups is None else "groups"
    return _measure(estimator, judged, subgroups, unit)


def _checked_costs(estimator: Any, same_rate: float | None, costs: Any) -> Costs:
    rate = getattr(estimator, "same_rate_", USUAL_SAME_RATE) if same_rate is None else same_rate
    false_match, false_non_match = check_two("costs", costs, "two positive numbers")
    return Costs(
        check_between("same_rate", rate),
        check_positive("costs", false_match),
        check_positive("costs", false_non_match),
    )


def _measure(
    estimator: Any, judged: JudgedPairs, subgroups: Mapping[Any, NDArray[np.intp]], unit: str
) -> Report:
    """Return the report of measured distances."""
    similar, costs = judged.similar, judged.costs
    points, balanced, brier, loss = [], None, None, None
    if hasattr(estimator, "threshold_"):
        points.append(judged.measure("estimator", estimator.threshold_))
        balanced = judged.measure_balanced_accuracy(estimator.threshold_)
    if hasattr(estimator, "likelihood_ratio_"):
        intercept, slope = estimator.likelihood_ratio_
        brier, loss = judged.score_probabilities(estimator.likelihood_ratio_)
        if slope > 0:
            threshold = max(0.0, (intercept - costs.least_ratio) / slope)
            points.append(judged.measure("probability", threshold))
    chosen = judged.measure_balanced()
    n_units = None if judged.units is None else len(np.unique(judged.units))
    return Report(
        estimator=type(estimator).__name__,
        n_similar=int(similar.sum()),
        n_dissimilar=int(np.sum(~similar)),
        n_units=n_units,
        unit=unit,
        points=(*points, *chosen, *judged.measure_targets()),
        by={
            name: judged.select(rows).measure_rates(estimator.threshold_)
            for name, rows in subgroups.items()
        },
        auc=float(roc_auc_score(similar, -judged.distances)),
        equal_error_rate=equal_error_rate(judged.distances, similar),
        balanced_accuracy=balanced,
        least_cost=chosen[-1].cost,
        brier=brier,
        log_loss=loss,
        same_rate=costs.same_rate,
        costs=(costs.false_match, costs.false_non_match),
        confidence_level=judged.confidence,
        judged=judged,
    )
