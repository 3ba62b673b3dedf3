"""Error rates and the report of an estimator on held-out pairs, as numbers, text and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score
from sklearn.utils import Bunch

from .._data.blocks import make_frame
from .._estimators.inputs import check_has, count_rows, number_subgroups, pair_labels, pair_units
from .._estimators.pair_judge import likelihood_of
from .._messages import listed, shown
from .._validation import check_between, check_positive, check_two
from .._verification.calibration import equal_error_rate
from .._verification.curves import distance_at, says_nothing
from .._verification.operating import USUAL_SAME_RATE, Costs, JudgedPairs, OperatingPoint
from .._verification.rates import FEW_ERRORS, ErrorRate
from .._verification.reliability import Reliability
from .._warnings import warn_user

Rates = tuple[ErrorRate | None, ErrorRate | None]
FEW_MARK = "*"
FEW_NOTE = f"{FEW_MARK} fewer than {FEW_ERRORS} errors: the rate is rough, use its limits"
STYLE = "text-align: right; padding: 2px 8px"
COST_WORDS = {"estimator": "actual_cost", "least detection cost": "least_cost"}
MOST_NAMED = 3  # most rates that a warning names


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
    cllr : float or None
        The cost of the log-likelihood ratios (Cllr), in bits: the log loss with as many similar as
        dissimilar pairs, divided by log 2. It is 1 if all ratios are 0.
    least_cllr : float
        The least Cllr of all calibrations that decrease with the distance, on these pairs: `cllr`
        less this number is what the calibration costs, this number what the distances cost.
    reliability : Reliability or None
        The probabilities in bins, with the share of pairs that are the same and its limits.
    same_rate, costs : float, (float, float)
        What the detection cost assumes: the share of same pairs, and the costs of a false match
        and of a false non-match.
    limits : dict of (float, float)
        The limits of `auc`, `equal_error_rate`, `least_cost` and `actual_cost`, by these names. The
        limits of a rate are in `points`.
    confidence_level : float
        Confidence level of the limits.
    vouched_share : float or None
        The pairs vouch for kinds of samples or groups of at least this share, as in `Calibration`:
        rarer ones may be missing from the dissimilar pairs. None for independent pairs.
    of_scores : bool
        Whether the estimator gives scores, of which the higher ones are the same: each threshold is
        compared with minus the score.
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
    cllr: float | None
    least_cllr: float
    reliability: Reliability | None = field(compare=False)
    same_rate: float
    costs: tuple[float, float]
    limits: Mapping[str, tuple[float, float]]
    confidence_level: float
    vouched_share: float | None
    of_scores: bool
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
        return "\n".join([_title(self), _summary(self)[0], format_details(self)])

    def _repr_html_(self) -> str:
        lines = "<br>".join(escape(line) for line in _summary(self))
        parts = [f"<p><b>{escape(_title(self))}</b><br>{lines}</p>"]
        parts += [_html_table(*table) for table in _tables(self)]
        parts += [f"<p>{escape(note)}</p>" for note in _notes(self)]
        return f"<div>{''.join(parts)}</div>"

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as dicts, lists, numbers and words, which JSON can hold."""
        left_out = ("points", "by", "judged", "reliability")
        numbers = {name: value for name, value in vars(self).items() if name not in left_out}
        numbers["limits"] = dict(self.limits)
        subgroups = {
            str(name): {
                kind: None if rate is None else dict(vars(rate))
                for kind, rate in zip(("false_match", "false_non_match"), rates, strict=True)
            }
            for name, rates in self.by.items()
        }
        numbers["actual_cost"] = self.actual_cost
        bins = self.reliability
        numbers["reliability"] = bins and {name: x.tolist() for name, x in vars(bins).items()}
        return numbers | {"points": point_rows(self.points), "by": subgroups}

    def to_frame(self) -> Any:
        """Return a data frame with one row per threshold. It needs pandas."""
        rows = point_rows(self.points)
        names = [row.pop("name") for row in rows]
        return make_frame(rows, names, "name")


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
    The limits of AUC, equal error rate and least detection cost are those of the distances, at
    whatever thresholds these are reached on other pairs; so are those of the FNMR in the rows of
    given false match rates. All other limits are those of the very threshold. Limits account for
    samples or groups that pairs share, of both kinds together.

    Parameters
    ----------
    estimator : fitted estimator with a pair score
        Rows for `threshold_` and for probabilities need those. For the scores of another model a
        `PairThreshold("precomputed", greater_is_same=True)`, which needs no fit.
    pairs, X
        Pairs, as for `pair_score`. They must not be used in fit or in a calibration.
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

    Scores of another model, without a threshold:

    >>> scores = -distances
    >>> found = report(PairThreshold("precomputed", greater_is_same=True), scores, y)
    >>> found.points[0].name
    'equal error rate'
    """
    check_has(estimator, "pair_score")
    level = check_between("confidence_level", confidence_level)
    rate = getattr(estimator, "same_rate_", USUAL_SAME_RATE) if same_rate is None else same_rate
    false_match, false_non_match = check_two("costs", costs, "two positive numbers")
    prices = Costs(
        check_between("same_rate", rate),
        check_positive("costs", false_match),
        check_positive("costs", false_non_match),
    )
    judged, by_subgroup = _judge(estimator, pairs, y, X, groups, by, level)
    judged = replace(judged, costs=prices)
    unit = "pairs" if judged.units is None else "samples" if groups is None else "groups"
    return _measure(estimator, judged, by_subgroup, unit)


def _judge(
    estimator: Any, pairs: Any, y: Any, X: Any, groups: Any, by: Any, level: float
) -> tuple[JudgedPairs, dict[Any, Rates]]:
    """Return the judged pairs, and the rates of each subgroup at the threshold."""
    units, warning = pair_units(estimator, pairs, X, groups)
    if count_rows(pairs) > 0:
        pair_labels(y, count_rows(pairs))
    subgroups = {} if by is None else number_subgroups(by, count_rows(pairs))
    if subgroups:
        check_has(estimator, "threshold_")
    distances = -estimator.pair_score(pairs, X)
    judged = JudgedPairs(distances, pair_labels(y, len(distances)), units, level)
    if warning:
        warn_user(warning)
    return judged, {
        name: judged.select(rows).measure_rates(estimator.threshold_)
        for name, rows in subgroups.items()
    }


def _measure(estimator: Any, judged: JudgedPairs, by: Mapping[Any, Rates], unit: str) -> Report:
    """Return the report of measured distances."""
    similar, costs = judged.similar, judged.costs
    points, balanced = [], None
    if hasattr(estimator, "threshold_"):
        points.append(judged.measure("estimator", estimator.threshold_))
        balanced = judged.measure_balanced_accuracy(estimator.threshold_)
    curve = likelihood_of(estimator)
    if curve is not None and not says_nothing(curve):
        threshold = distance_at(curve, costs.least_ratio, judged.distances)
        points.append(judged.measure("probability", threshold))
    chosen = judged.measure_balanced()
    limits = judged.limit_curve() | {
        word: point.cost_limits
        for point in (*points, *chosen)
        if (word := COST_WORDS.get(point.name)) and point.cost_limits
    }
    n_units = None if judged.units is None else len(np.unique(judged.units))
    return Report(
        estimator=type(estimator).__name__,
        n_similar=int(similar.sum()),
        n_dissimilar=int(np.sum(~similar)),
        n_units=n_units,
        unit=unit,
        points=(*points, *chosen, *judged.measure_targets()),
        by=by,
        auc=float(roc_auc_score(similar, -judged.distances)),
        equal_error_rate=equal_error_rate(judged.distances, similar),
        balanced_accuracy=balanced,
        least_cost=chosen[-1].cost,
        **judged.measure_probabilities(curve),
        least_cllr=judged.measure_least_cllr(),
        same_rate=costs.same_rate,
        costs=(costs.false_match, costs.false_non_match),
        limits=limits,
        confidence_level=judged.confidence,
        vouched_share=judged.vouched_share,
        of_scores=getattr(estimator, "_is_score", False),
        judged=judged,
    )


def point_rows(points: Iterable[OperatingPoint]) -> list[dict[str, Any]]:
    """Return one dict per operating point, with all numbers."""
    rows = []
    for point in points:
        row = {"name": point.name, "threshold": point.threshold}
        for word, rate in (("FMR", point.false_match), ("FNMR", point.false_non_match)):
            row |= {word: rate.value, f"{word}_low": rate.low, f"{word}_high": rate.high}
        row |= {"TAR": point.true_accept_rate, "cost": point.cost}
        if point.cost_limits is not None:
            row |= dict(zip(("cost_low", "cost_high"), point.cost_limits, strict=True))
        row["false_matches"] = point.false_match.n_errors
        row["false_non_matches"] = point.false_non_match.n_errors
        rows.append(row)
    return rows


def format_details(report: Report) -> str:
    """Return the costs, the scores of the probabilities and the tables as lines of text."""
    parts = _summary(report)[1:]
    for table in _tables(report):
        parts += ["", *_text_table(*table)]
    return "\n".join([*parts, *_notes(report)])


def _title(report: Report) -> str:
    what = f"{report.n_similar} similar and {report.n_dissimilar} dissimilar pairs"
    units = f" of {report.n_units} {report.unit}"
    if report.n_units is None:
        units = ", taken to be independent"
    return f"{report.estimator} on {what}{units}"


def _summary(report: Report) -> list[str]:
    """Return the lines of numbers that belong to no threshold."""
    false_match, false_non_match = report.costs
    between = {name: _limit_cell(limits) for name, limits in report.limits.items()}
    cost = f"detection cost: at least {report.least_cost:.4f} {between['least_cost']}"
    if report.actual_cost is not None:
        cost += f", {report.actual_cost:.4f} {between['actual_cost']}"
        cost += " at the threshold of the estimator"
    assumed = f"{report.same_rate:.3g} of the pairs are the same"
    lines = [
        f"AUC {report.auc:.4f} {between['auc']}, equal error rate "
        f"{report.equal_error_rate:.4f} {between['equal_error_rate']}, "
        f"with {report.confidence_level:.0%} limits",
        f"{cost} ({assumed}; a false match costs {false_match:g}, "
        f"a false non-match {false_non_match:g})",
    ]
    if report.brier is not None:
        lines.append(
            f"probabilities: Brier score {report.brier:.4f}, log loss {report.log_loss:.4f} "
            f"({assumed})"
        )
        lines.append(
            f"likelihood ratios: Cllr {report.cllr:.4f}, at least {report.least_cllr:.4f} by any "
            "calibration of these distances"
        )
    return lines


Table = tuple[list[str], list[list[str]]]


def _tables(report: Report) -> list[Table]:
    """Return the header and the rows of each table of a report."""
    tables = [_point_cells(report), *([_subgroup_cells(report)] if report.by else [])]
    return tables if report.reliability is None else [*tables, _reliability_cells(report)]


def _point_cells(report: Report) -> Table:
    limits = f"{report.confidence_level:.0%} limits"
    header = ["operating point", "threshold", "FMR = FAR", limits, "FNMR", limits, "TAR", "cost"]
    header.append(limits)
    rows = [
        [
            point.name,
            f"{point.threshold:.6g}",
            *_rate_cells(point.false_match),
            *_rate_cells(point.false_non_match),
            _number(point.true_accept_rate),
            f"{point.cost:.4f}",
            _limit_cell(point.cost_limits),
        ]
        for point in report.points
    ]
    return header, rows


def _subgroup_cells(report: Report) -> Table:
    limits = f"{report.confidence_level:.0%} limits"
    header = ["subgroup", "dissimilar", "FMR = FAR", limits, "similar", "FNMR", limits]
    rows = []
    for name, rates in report.by.items():
        cells = [str(name)]
        for rate in rates:
            cells += ["0", "", ""] if rate is None else [str(rate.n_pairs), *_rate_cells(rate)]
        rows.append(cells)
    return header, rows


def _reliability_cells(report: Report) -> Table:
    """Return the table of predicted and observed shares; it needs probabilities."""
    bins = report.reliability
    assert bins is not None
    header = ["predicted", "pairs", "observed", f"{report.confidence_level:.0%} limits"]
    columns = (bins.predicted, bins.counts, bins.observed, bins.low, bins.high)
    rows = [
        [_number(mean), str(count), _number(share), _limit_cell((low, high))]
        for mean, count, share, low, high in zip(*columns, strict=True)
    ]
    return header, rows


def _rate_cells(rate: ErrorRate) -> list[str]:
    mark = FEW_MARK if rate.n_errors < FEW_ERRORS else ""
    return [_number(rate.value) + mark, _limit_cell((rate.low, rate.high))]


def _limit_cell(limits: tuple[float, float] | None) -> str:
    return "" if limits is None else f"[{_number(limits[0])}, {_number(limits[1])}]"


def _number(value: float) -> str:
    """Return a rate with at least three digits.

    >>> _number(0.12345), _number(0.000012345), _number(0.0)
    ('0.1235', '1.23e-05', '0')
    """
    if value == 0:
        return "0"
    return f"{value:.4f}" if value >= 0.001 else f"{value:.2e}"


def _notes(report: Report) -> list[str]:
    rates = [rate for p in report.points for rate in (p.false_match, p.false_non_match)]
    rates += [rate for pair in report.by.values() for rate in pair if rate is not None]
    notes = [FEW_NOTE] if any(rate.n_errors < FEW_ERRORS for rate in rates) else []
    if report.of_scores:
        notes.append("a pair is accepted if its score is above minus the threshold")
    if report.vouched_share is not None:
        notes.append(
            f"limits and promises hold for kinds of at least {report.vouched_share:.1%} of the "
            f"{report.unit}: rarer ones may be missing from these pairs"
        )
    return notes


def _text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose first column is on the left, the others on the right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = []
    for first, *others in (header, *rows):
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return lines


def _html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        parts = [
            f'<{tag} style="{STYLE if number else "text-align: left"}">{escape(cell)}</{tag}>'
            for number, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(parts)}</tr>"

    return f"<table>{line(header, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


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
        It predicts which pairs are the same. For the scores of another model a `PairThreshold`.
    pairs, X
        Pairs, as for `pair_score`. They must be used neither to learn the metric nor to
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
    check_has(estimator, "pair_score", "threshold_")
    level = check_between("confidence_level", confidence_level)
    judged, by_subgroup = _judge(estimator, pairs, y, X, groups, by, level)
    rates = _name_rates(judged.measure_rates(estimator.threshold_))
    value, low, high = judged.measure_balanced_accuracy(estimator.threshold_)
    rates["balanced_accuracy"] = Bunch(value=value, low=low, high=high)
    if by is not None:
        rates["by"] = {name: _name_rates(found) for name, found in by_subgroup.items()}
    _warn_of_few_errors(rates)
    return rates


def _name_rates(rates: Rates) -> Bunch:
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
        warn_user(
            f"error_rates: fewer than {FEW_ERRORS} errors ({listed(few, MOST_NAMED)}): "
            "the rates are rough; use their limits, or more pairs"
        )
