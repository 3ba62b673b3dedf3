"""Displays of a report of verification: DET curve, and error rates by threshold, with limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from .._validation import check_count
from .._verification.operating import OperatingPoint
from .._verification.rates import ErrorRate
from ..verification import Report, report
from ._axes import DISSIMILAR, SIMILAR, THRESHOLD, one_axis, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

TICKS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99)  # of a DET plot
COLOURS = (THRESHOLD, "#cc79a7", "#009e73", "#56b4e9", "#e69f00", "#0072b2", "#d55e00")
MARKERS = "osD^vPX"
LARGEST_DEVIATE = 2.4  # the end of the axes of a DET plot, a rate of 0.992


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

    The band has the limits of the false non-match rate. Marks show thresholds, with the limits of
    both rates. The curve ends where one kind of error was not observed.

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
        ax.fill_between(fmr[0], fnmr[1], fnmr[2], color=SIMILAR, alpha=0.2, label=level, lw=0)
        ax.plot(fmr[0], fnmr[0], color=SIMILAR)
        for number, point in enumerate(self.marked):
            x = _deviates([point.false_match], smallest[0])[:, 0]
            y = _deviates([point.false_non_match], smallest[1])[:, 0]
            ax.errorbar(
                x[0],
                y[0],
                np.abs(y[1:] - y[0])[:, None],
                np.abs(x[1:] - x[0])[:, None],
                fmt=MARKERS[number % len(MARKERS)],
                color=COLOURS[number % len(COLOURS)],
                capsize=2,
                label=f"{point.name}: {point.threshold:.4g}",
            )
        for axis, least in ((ax.xaxis, smallest[0]), (ax.yaxis, smallest[1])):
            _set_rate_ticks(axis, least)
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
        edges = np.histogram_bin_edges(judged.distances, bins=bins).tolist()
        thresholds = [point.threshold for point in self.curve]
        rates = [point.false_match for point in self.curve]
        missed = [point.false_non_match for point in self.curve]
        for kind, word, colour, label, found in (
            (judged.similar, "similar", SIMILAR, "false non-match rate", missed),
            (~judged.similar, "dissimilar", DISSIMILAR, "false match rate", rates),
        ):
            chosen = judged.distances[kind]
            axes[0].hist(chosen, edges, density=True, alpha=0.55, color=colour, label=word)
            values = _clipped(found, 0.5 / len(chosen))
            axes[1].fill_between(thresholds, values[1], values[2], color=colour, alpha=0.2, lw=0)
            seen = np.array([rate.n_errors for rate in found]) > 0
            axes[1].plot(np.array(thresholds)[seen], values[0][seen], color=colour, label=label)
        for number, point in enumerate(self.marked):
            colour, style = COLOURS[number % len(COLOURS)], ("-", "--", ":", "-.")[number % 4]
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


def _clipped(rates: Sequence[ErrorRate], smallest: float) -> NDArray[np.float64]:
    """Return values and limits, (3, n_rates), of which none is 0 or 1."""
    rows = np.array([[rate.value, rate.low, rate.high] for rate in rates]).reshape(-1, 3)
    return np.clip(rows.T, smallest, 1 - smallest)


def _deviates(rates: Sequence[ErrorRate], smallest: float) -> NDArray[np.float64]:
    return norm.ppf(_clipped(rates, smallest))


def _set_rate_ticks(axis: Axis, smallest: float) -> None:
    """Label an axis of normal deviates with rates."""
    shown = [rate for rate in TICKS if rate >= smallest]
    axis.set_ticks(norm.ppf(shown), [f"{rate:g}" for rate in shown], fontsize="small")
