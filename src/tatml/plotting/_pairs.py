"""Displays of labelled pairs: distances, reliability of probabilities, DET curve, error rates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from math import sqrt
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from .._array import Doubles, to_numpy
from .._estimators.inputs import check_has, given_distances, pair_labels
from .._estimators.pair_judge import check_calibrated
from .._messages import shown
from .._validation import check_between, check_count, check_margin
from .._verification.operating import OperatingPoint
from .._verification.rates import ErrorRate
from .._verification.reliability import measure_reliability
from ..verification import Report, report
from ._axes import DISSIMILAR, SIMILAR, THRESHOLD, one_axis, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICKS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99)  # of a DET plot
COLOURS = (THRESHOLD, "#cc79a7", "#009e73", "#56b4e9", "#e69f00", "#0072b2", "#d55e00")
MARKERS = "osD^vPX"
LARGEST_DEVIATE = 2.4  # the end of the axes of a DET plot, a rate of 0.992


@dataclass(eq=False, repr=False)
class PairDistanceDisplay:
    """Histograms of the distances of similar and dissimilar pairs, with threshold and margins.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
        Distances, not squared; with a midpoint minus the scores, which have no margins.
    similar : bool array of shape (n_pairs,)
        Which pairs are similar.
    threshold : float
        The threshold, in the units of the distances.
    margin_distances : (float, float) or None
        √(γ_s b0) and √(γ_d b0): the loss of similar pairs is positive above the first, that of
        dissimilar pairs below the second.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        The axes of the plot, and their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.plotting import PairDistanceDisplay
    >>> display = PairDistanceDisplay.from_predictions([0.2, 0.4, 1.0], [1, 1, -1], threshold=0.6)
    >>> display.error_rates
    (0.0, 0.0)
    """

    distances: NDArray[np.float64]
    similar: NDArray[np.bool_]
    threshold: float
    margin_distances: tuple[float, float] | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, pairs: ArrayLike, y: ArrayLike, X: Any = None, **options: Any
    ) -> Self:
        """Plot the distances, or scores, of pairs by an estimator; `X` as for `pair_score`."""
        if getattr(estimator, "_signed_scores", False):
            check_has(estimator, "pair_score", "threshold_")
            values = to_numpy(-estimator.pair_score(pairs, X))
            similar = pair_labels(y, len(values))
            return cls(values, similar, estimator.threshold_).plot(**options)
        check_has(estimator, "pair_distance", "threshold_", "b0_", "margin")
        distances, margin = estimator.pair_distance(pairs, X), estimator.margin
        learnt = {"threshold": estimator.threshold_, "b0": estimator.b0_, "margin": margin}
        return cls.from_predictions(distances, y, **learnt, **options)

    @classmethod
    def from_predictions(
        cls,
        distances: ArrayLike,
        y: ArrayLike,
        *,
        threshold: float,
        b0: float | None = None,
        margin: tuple[float, float] = (0.5, 2.0),
        **options: Any,
    ) -> Self:
        """Plot given distances with labels ±1, and the margins if `b0` is given."""
        values = given_distances(distances, "distances")
        low, high = check_margin(margin)
        ends = None if b0 is None else (sqrt(max(0.0, low * b0)), sqrt(max(0.0, high * b0)))
        return cls(values, pair_labels(y, len(values)), float(threshold), ends).plot(**options)

    @property
    def error_rates(self) -> tuple[float, float]:
        """The false non-match rate and the false match rate at the threshold."""
        same = self.distances < self.threshold
        return float(np.mean(~same[self.similar])), float(np.mean(same[~self.similar]))

    def plot(self, ax: Axes | None = None, *, bins: int = 40, name: str | None = None) -> Self:
        """Plot on `ax`, or on a new figure."""
        ax = one_axis(ax)
        missed, passed = self.error_rates
        above = f"similar ({missed:.1%} above the threshold)"
        below = f"dissimilar ({passed:.1%} below the threshold)"
        _draw_densities(ax, self.distances, self.similar, bins, (above, below))
        label = f"threshold {self.threshold:.3g}"
        ax.axvline(self.threshold, color=THRESHOLD, linewidth=2, label=label)
        if self.margin_distances is not None:
            low, high = self.margin_distances
            ax.axvline(low, color=SIMILAR, linestyle="--", label="margin of similar pairs")
            ax.axvline(high, color=DISSIMILAR, linestyle="--", label="margin of dissimilar pairs")
        axis, title = "distance", "Pair distances"
        if np.min(self.distances) < 0:
            axis, title = "minus the score", "Scores of pairs"
        ax.set(xlabel=axis, ylabel="density", title=name or title)
        ax.set_ylim(0, 1.35 * ax.get_ylim()[1])  # room for the legend above the bars
        ax.legend(loc="upper center", ncols=2, fontsize="small", framealpha=1)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False, repr=False)
class ReliabilityDisplay:
    """A reliability diagram: how often pairs are the same, by the predicted probability.

    The pairs are sorted by probability and divided into bins; all bins have the same sum of the
    share of similar pairs and the share of dissimilar pairs. A bin is drawn at its mean probability
    and at the share of its pairs that are the same, with an exact binomial interval, which takes
    the pairs as independent. Reliable probabilities lie on the diagonal.

    Parameters
    ----------
    probability : array of shape (n_pairs,)
        The predicted probabilities that the pairs are the same.
    similar : bool array of shape (n_pairs,)
        Which pairs are the same.
    same_rate : float
        The share of pairs that are the same for which the probabilities hold. If it is not that of
        the given pairs, similar and dissimilar pairs are weighted accordingly.
    n_bins : int, default=10
        Number of bins; fewer if many pairs have equal probabilities.
    confidence_level : float, default=0.95
        Confidence level of the intervals.

    Attributes
    ----------
    predicted, observed, low, high : arrays of shape (n_bins,)
        The mean probability of each bin, the share of pairs that are the same, and the ends of the
        interval of the share.
    counts : int array of shape (n_bins,)
        Number of pairs in each bin.
    ax_, figure_ : matplotlib axes and figure
        The axes of the plot, and their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.plotting import ReliabilityDisplay
    >>> probability, y = np.repeat([0.25, 0.75], 4), [1, -1, -1, -1, 1, 1, 1, -1]
    >>> display = ReliabilityDisplay.from_predictions(probability, y, n_bins=2)
    >>> display.predicted, display.observed
    (array([0.25, 0.75]), array([0.25, 0.75]))
    """

    probability: NDArray[np.float64]
    similar: NDArray[np.bool_]
    same_rate: float
    n_bins: int = 10
    confidence_level: float = 0.95

    def __post_init__(self) -> None:
        """Compute the bins: their pairs, mean probability, share and interval."""
        found = measure_reliability(
            self.probability, self.similar, self.same_rate, self.n_bins, self.confidence_level
        )
        self.predicted, self.observed, self.counts = found.predicted, found.observed, found.counts
        self.low, self.high = found.low, found.high

    @classmethod
    def from_estimator(
        cls, estimator: Any, pairs: ArrayLike, y: ArrayLike, X: Any = None, **options: Any
    ) -> Self:
        """Plot the probabilities of pairs by an estimator with calibrated probabilities.

        `X` as for `pair_distance`; `options` as for `from_predictions`.
        """
        check_has(estimator, "pair_probability")
        check_calibrated(estimator)
        probability = estimator.pair_probability(pairs, X)
        return cls.from_predictions(probability, y, **{"same_rate": estimator.same_rate_} | options)

    @classmethod
    def from_predictions(
        cls,
        probability: ArrayLike,
        y: ArrayLike,
        *,
        same_rate: float | None = None,
        n_bins: int = 10,
        confidence_level: float = 0.95,
        **options: Any,
    ) -> Self:
        """Plot given probabilities with labels ±1; the default rate is that of the labels."""
        values = given_distances(probability, "probability")
        if values.max() > 1:
            raise ValueError(
                f"probability: expected numbers from 0 to 1, got {shown(float(values.max()))}"
            )
        similar = pair_labels(y, len(values))
        n_bins = check_count("n_bins", n_bins, least=2)
        level = check_between("confidence_level", confidence_level)
        if same_rate is None:
            same_rate = float(np.mean(similar))
        rate = check_between("same_rate", same_rate)
        return cls(values, similar, rate, n_bins, level).plot(**options)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Plot on `ax`, or on a new figure."""
        ax = one_axis(ax, (5.2, 5.2))
        ax.plot([0, 1], [0, 1], ":", color=THRESHOLD, label="reliable")
        ends = np.abs(np.stack([self.low, self.high]) - self.observed)
        ax.errorbar(
            self.predicted,
            self.observed,
            ends,
            fmt="o-",
            color=THRESHOLD,
            capsize=3,
            label=f"{len(self.counts)} bins, with intervals",
        )
        for kind, colour, place, word in (
            (self.similar, SIMILAR, 1.02, "similar"),
            (~self.similar, DISSIMILAR, -0.02, "dissimilar"),
        ):
            rows = self.probability[kind]
            ax.plot(rows, np.full(len(rows), place), "|", color=colour, alpha=0.3, zorder=0)
            ax.plot([], [], "|", color=colour, label=f"{word} pairs")
        ax.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), aspect="equal")
        ax.set(xlabel="predicted probability", ylabel="share of pairs that are the same")
        ax.set_title(name or "Reliability of the probabilities")
        ax.legend(loc="upper left", fontsize="small", bbox_to_anchor=(0.02, 0.94))
        self.ax_, self.figure_ = ax, ax.figure
        return self


class _CurveDisplay(ABC):
    """What both displays share: a report and its curve."""

    def __init__(self, report: Report, curve: Sequence[OperatingPoint]):
        self.report = report
        self.curve = list(curve)

    @classmethod
    def from_estimator(
        cls, estimator: Any, pairs: ArrayLike, y: ArrayLike, X: Any = None, **options: Any
    ) -> Self:
        """Measure an estimator on pairs and plot the result.

        `X` as for `pair_distance`. The options `groups`, `same_rate`, `costs` and
        `confidence_level` are those of `tatml.verification.report`, the others those of
        `from_report`.
        """
        names = ("groups", "same_rate", "costs", "confidence_level")
        given = {name: options.pop(name) for name in names if name in options}
        return cls.from_report(report(estimator, pairs, y, X, **given), **options)

    @classmethod
    def from_report(cls, report: Report, *, n_points: int = 40, **options: Any) -> Self:
        """Plot a report; `n_points` is the number of thresholds of the curve."""
        curve = report.judged.measure_curve(check_count("n_points", n_points, least=4))
        return cls(report, curve).plot(**options)

    @abstractmethod
    def plot(self, *args: Any, **options: Any) -> Self:
        """Plot the report."""

    @property
    def marked(self) -> list[OperatingPoint]:
        """The operating points that are marked: those that were not chosen on these pairs alone."""
        return [
            point
            for point in self.report.points
            if point.name in ("estimator", "probability", "equal error rate")
            or point.name.endswith("promised")
        ]


class DetDisplay(_CurveDisplay):
    """The DET curve: false non-match rate by false match rate, on axes of normal deviates.

    The band has the limits of the false non-match rate at each false match rate, whichever
    threshold has it on other pairs. Marks show thresholds, with the limits of both rates. The curve
    ends where one kind of error was not observed.

    Parameters
    ----------
    report : Report
        The report of the pairs.
    curve : list of OperatingPoint
        The points of the curve, by increasing threshold.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        The axes of the plot, and their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.plotting import DetDisplay
    >>> distances, y = np.linspace(0, 2, 200), np.tile([1, -1], 100)
    >>> judge = PairThreshold("precomputed").fit(distances, y)
    >>> DetDisplay.from_estimator(judge, distances, y).ax_.get_xlabel()
    'false match rate'
    """

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Plot on `ax`, or on a new figure."""
        ax = one_axis(ax, (5.6, 5.4))
        smallest = 0.5 / np.array([self.report.n_dissimilar, self.report.n_similar])
        curve = [p for p in self.curve if p.false_match.value > 0 and p.false_non_match.value > 0]
        fmr = _deviates([point.false_match for point in curve], smallest[0])
        fnmr = _deviates([point.false_non_match for point in curve], smallest[1])
        level = f"{self.report.confidence_level:.0%} limits"
        judged = self.report.judged
        band = [judged.limit_fnmr(point, point.false_match.value) for point in curve]
        low, high = norm.ppf(np.clip(np.reshape(band, (-1, 2)).T, smallest[1], 1 - smallest[1]))
        ax.fill_between(fmr[0], low, high, color=SIMILAR, alpha=0.2, label=level, lw=0)
        ax.plot(fmr[0], fnmr[0], color=SIMILAR)
        marks = zip(self.marked, cycle(COLOURS), cycle(MARKERS), strict=False)
        for point, colour, marker in marks:
            x = _deviates([point.false_match], smallest[0])[:, 0]
            y = _deviates([point.false_non_match], smallest[1])[:, 0]
            ax.errorbar(
                x[0],
                y[0],
                np.abs(y[1:] - y[0])[:, None],
                np.abs(x[1:] - x[0])[:, None],
                fmt=marker,
                color=colour,
                capsize=2,
                label=f"{point.name}: {point.threshold:.4g}",
            )
        for axis, least in ((ax.xaxis, smallest[0]), (ax.yaxis, smallest[1])):
            rates = [rate for rate in TICKS if rate >= least]
            axis.set_ticks(norm.ppf(rates), [f"{rate:g}" for rate in rates], fontsize="small")
        ax.set_xlim(norm.ppf(smallest[0]), LARGEST_DEVIATE)
        ax.set_ylim(norm.ppf(smallest[1]), LARGEST_DEVIATE)
        ax.set(xlabel="false match rate", ylabel="false non-match rate")
        ax.set_title(name or "Detection error trade-off")
        ax.grid(alpha=0.3)
        ax.legend(fontsize="small", loc="upper right")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class ErrorRateDisplay(_CurveDisplay):
    """Distances of both kinds of pairs, and both error rates by threshold, with their limits.

    Parameters
    ----------
    report : Report
        The report of the pairs.
    curve : list of OperatingPoint
        The points of the curves, by increasing threshold.

    Attributes
    ----------
    axes_, figure_ : array of 2 matplotlib axes, and their figure
        The upper axes show the densities of the distances, the lower ones the error rates.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.plotting import ErrorRateDisplay
    >>> distances, y = np.linspace(0, 2, 200), np.tile([1, -1], 100)
    >>> judge = PairThreshold("precomputed").fit(distances, y)
    >>> ErrorRateDisplay.from_estimator(judge, distances, y).axes_.shape
    (2,)
    """

    def plot(
        self, axes: Sequence[Axes] | None = None, *, bins: int = 60, name: str | None = None
    ) -> Self:
        """Plot on two axes, or on a new figure."""
        if axes is None:
            size = {"figsize": (7.2, 6.0), "height_ratios": (2, 3), "layout": "constrained"}
            _, axes = pyplot().subplots(2, 1, sharex=True, **size)
        judged = self.report.judged
        _draw_densities(axes[0], judged.distances, judged.similar, bins, ("similar", "dissimilar"))
        thresholds = [point.threshold for point in self.curve]
        rates = [point.false_match for point in self.curve]
        missed = [point.false_non_match for point in self.curve]
        for kind, colour, label, found in (
            (judged.similar, SIMILAR, "false non-match rate", missed),
            (~judged.similar, DISSIMILAR, "false match rate", rates),
        ):
            values = _clipped(found, 0.5 / np.sum(kind))
            axes[1].fill_between(thresholds, values[1], values[2], color=colour, alpha=0.2, lw=0)
            seen = np.array([rate.n_errors for rate in found]) > 0
            axes[1].plot(np.array(thresholds)[seen], values[0][seen], color=colour, label=label)
        styles = cycle(("-", "--", ":", "-."))
        for point, colour, style in zip(self.marked, cycle(COLOURS), styles, strict=False):
            for ax in axes:
                text = f"{point.name}: {point.threshold:.4g}" if ax is axes[1] else None
                ax.axvline(point.threshold, color=colour, linestyle=style, lw=1.2, label=text)
        axes[0].set(ylabel="density", title=name or "Distances and error rates")
        axes[0].legend(fontsize="small")
        axes[1].set(xlabel="distance", ylabel="error rate", yscale="log", ylim=(None, 2))
        axes[1].grid(alpha=0.3)
        axes[1].legend(fontsize="small", loc="best")
        self.axes_, self.figure_ = np.asarray(axes), axes[0].figure
        return self


def _draw_densities(
    ax: Axes, distances: Doubles, similar: NDArray[np.bool_], bins: int, labels: tuple[str, str]
) -> None:
    """Draw the densities of the distances of similar and of dissimilar pairs."""
    edges = np.histogram_bin_edges(distances, bins=bins).tolist()
    kinds = ((similar, SIMILAR), (~similar, DISSIMILAR))
    for (kind, colour), label in zip(kinds, labels, strict=True):
        ax.hist(distances[kind], edges, density=True, alpha=0.55, color=colour, label=label)


def _clipped(rates: Sequence[ErrorRate], smallest: float) -> NDArray[np.float64]:
    """Return values and limits, (3, n_rates), of which none is 0 or 1."""
    rows = np.array([[rate.value, rate.low, rate.high] for rate in rates]).reshape(-1, 3)
    return np.clip(rows.T, smallest, 1 - smallest)


def _deviates(rates: Sequence[ErrorRate], smallest: float) -> NDArray[np.float64]:
    return norm.ppf(_clipped(rates, smallest))
