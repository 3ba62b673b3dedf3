"""Pictures of what was learnt, in scikit-learn's style; matplotlib is needed only to draw.

ROC and DET curves need nothing of our own. For pairs, ``RocCurveDisplay.from_estimator(verifier,
pairs, y)`` works as for any classifier; for a label estimator take
``RocCurveDisplay.from_predictions(y, metric.pair_score(pairs, X))``, and the same for
``DetCurveDisplay``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._estimators.given_labels import pair_labels
from ._estimators.inputs import check_has, given_distances
from ._optim.result import Result
from ._validation import check_margin

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = [
    "BlockShareDisplay",
    "ConvergenceDisplay",
    "MetricDisplay",
    "PairDistanceDisplay",
]

SIMILAR, DISSIMILAR, THRESHOLD = "#0072b2", "#d55e00", "#222222"  # told apart by all eyes
FLOOR = 1e-17  # where a logarithmic axis shows a gap of zero
WINDOW = 3.0  # times the last objective: what is farther away would flatten the rest


def _pyplot() -> ModuleType:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Drawing needs matplotlib: install it with pip install 'tatml[plot]'"
        ) from error
    return plt


def _one_axis(ax: Axes | None, size: tuple[float, float] = (6.4, 4.0)) -> Axes:
    return _pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def _set_ticks(axis: Axis, **parameters: Any) -> None:
    """Set parameters of the locator of the ticks; which it has depends on the scale."""
    set_parameters: Callable[..., None] = axis.get_major_locator().set_params
    set_parameters(**parameters)


class PairDistanceDisplay:
    """Histograms of the distances of similar and dissimilar pairs, the threshold and the margins.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
        Distances, not squared.
    similar : bool array of shape (n_pairs,)
        Which pairs are similar.
    threshold : float
        In the units of the distances.
    margin_distances : (float, float) or None
        √(γ_s b0) and √(γ_d b0): where the loss of either kind begins.

    Attributes
    ----------
    ax_ : matplotlib axes
        Where it was drawn.
    figure_ : matplotlib figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.plotting import PairDistanceDisplay
    >>> display = PairDistanceDisplay.from_predictions([0.2, 0.4, 1.0], [1, 1, -1], threshold=0.6)
    >>> display.error_rates
    (0.0, 0.0)
    """

    def __init__(
        self,
        distances: NDArray[np.float64],
        similar: NDArray[np.bool_],
        threshold: float,
        margin_distances: tuple[float, float] | None = None,
    ):
        self.distances = distances
        self.similar = similar
        self.threshold = threshold
        self.margin_distances = margin_distances

    @classmethod
    def from_estimator(
        cls, estimator: Any, pairs: ArrayLike, y: ArrayLike, X: Any = None, **options: Any
    ) -> Self:
        """Draw the distances that a fitted estimator gives to pairs; X as for `pair_distance`."""
        check_has(estimator, "pair_distance", "threshold_", "b0_", "margin")
        return cls.from_predictions(
            estimator.pair_distance(pairs, X),
            y,
            threshold=estimator.threshold_,
            b0=estimator.b0_,
            margin=estimator.margin,
            **options,
        )

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
        """Draw given distances with labels ±1; the margins where b0 is given."""
        values = given_distances(distances, "distances")
        ends = None
        if b0 is not None:
            low, high = (sqrt(max(0.0, gamma * b0)) for gamma in check_margin(margin))
            ends = low, high
        return cls(values, pair_labels(y, len(values)), float(threshold), ends).plot(**options)

    @property
    def error_rates(self) -> tuple[float, float]:
        """The share of similar pairs judged different, and of dissimilar ones judged the same."""
        same = self.distances < self.threshold
        return float(np.mean(~same[self.similar])), float(np.mean(same[~self.similar]))

    def plot(self, ax: Axes | None = None, *, bins: int = 40, name: str | None = None) -> Self:
        """Draw on `ax`, or on axes of its own."""
        ax = _one_axis(ax)
        edges = np.histogram_bin_edges(self.distances, bins=bins)
        missed, passed = self.error_rates
        for kind, label, colour in (
            (True, f"similar ({missed:.1%} above the threshold)", SIMILAR),
            (False, f"dissimilar ({passed:.1%} below)", DISSIMILAR),
        ):
            chosen = self.distances[self.similar == kind]
            ax.hist(chosen, edges.tolist(), density=True, alpha=0.55, color=colour, label=label)
        label = f"threshold {self.threshold:.3g}"
        ax.axvline(self.threshold, color=THRESHOLD, linewidth=2, label=label)
        if self.margin_distances is not None:
            low, high = self.margin_distances
            ax.axvline(low, color=SIMILAR, linestyle="--", label="similar pairs cost above")
            ax.axvline(high, color=DISSIMILAR, linestyle="--", label="dissimilar pairs cost below")
        ax.set(xlabel="distance", ylabel="density", title=name or "Distances of pairs")
        ax.set_ylim(0, 1.35 * ax.get_ylim()[1])  # room for the legend above the bars
        ax.legend(loc="upper center", ncols=2, fontsize="small", framealpha=1)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class ConvergenceDisplay:
    """Primal, dual and gap of a solution, against iterations and seconds.

    Parameters
    ----------
    history : dict of str to array
        That of a `Result`.
    tol : float
        The tolerance that was asked for.

    Attributes
    ----------
    axes_ : array of 3 matplotlib axes
        Objective against iterations; gap against iterations; gap against seconds.
    figure_ : matplotlib figure
        Their figure.

    Examples
    --------
    >>> import tatml
    >>> from tatml.plotting import ConvergenceDisplay
    >>> result = tatml.learn_metric([[0.0], [0.1], [2.0]], [[0, 1], [1, 2]], [True, False])
    >>> len(ConvergenceDisplay.from_result(result).axes_)
    3
    """

    def __init__(self, history: dict[str, NDArray], tol: float):
        self.history = history
        self.tol = tol

    @classmethod
    def from_estimator(cls, estimator: Any, **options: Any) -> Self:
        """Draw how a fitted estimator's solution was found."""
        check_has(estimator, "result_")
        return cls.from_result(estimator.result_, **options)

    @classmethod
    def from_result(cls, result: Result, **options: Any) -> Self:
        """Draw how a result of `learn_metric` was found."""
        return cls(result.history, result.tol).plot(**options)

    def plot(self, axes: Sequence[Axes] | None = None, *, name: str | None = None) -> Self:
        """Draw on three axes, or on a figure of its own."""
        if axes is None:
            _, axes = _pyplot().subplots(1, 3, figsize=(12, 3.6), layout="constrained")
        steps, primal = self.history["iteration"], self.history["primal"]
        gap = np.maximum(self.history["gap"], FLOOR)
        axes[0].plot(steps, primal, "o-", color=SIMILAR, label="primal")
        axes[0].plot(steps, self.history["dual"], "s-", color=DISSIMILAR, label="dual (a bound)")
        axes[0].set(xlabel="iteration", ylabel="objective", title=name or "Objective")
        axes[0].legend(title=self._show_the_end(axes[0]), title_fontsize="small")
        goal = self.tol * np.maximum(1.0, np.abs(primal))
        for ax, label in ((axes[1], "iteration"), (axes[2], "seconds")):
            x = self.history[label]
            ax.semilogy(x, gap, "o-", color=THRESHOLD, label="gap")
            ax.semilogy(x, goal, ":", color=DISSIMILAR, label=f"tolerance {self.tol:g}")
            ax.set(xlabel=label, ylabel="duality gap", title=f"Certificate by {label}")
            ax.legend()
        for ax in axes[:2]:
            _set_ticks(ax.xaxis, integer=True)
        self.axes_, self.figure_ = np.asarray(axes), axes[0].figure
        return self

    def _show_the_end(self, ax: Axes) -> str | None:
        """Cut the axis where the first values would flatten the last ones, and say so."""
        values = np.concatenate([self.history["primal"], self.history["dual"]])
        end = float(self.history["primal"][-1])
        near = np.abs(values - end) <= WINDOW * (abs(end) or 1.0)
        if near.all() or not near.any():
            return None
        low, high = np.min(values[near]), np.max(values[near])
        room = 0.05 * (high - low) or 0.1 * (abs(end) or 1.0)
        ax.set_ylim(low - room, high + room)
        outside = values[np.abs(values - (low + high) / 2) > (high - low) / 2 + room]
        if not len(outside):
            return None
        farthest = outside[np.argmax(np.abs(outside - end))]
        return f"{len(outside)} not shown, up to {farthest:.3g}"


class MetricDisplay:
    """The learnt matrices as heat maps, and their spectra.

    Parameters
    ----------
    matrices : list of M arrays of shape (n_m, n_m)
        The matrices of the blocks.
    names : list of M lists of str, or None
        Names of the rows.
    entry : str
        What the colours stand for.

    Attributes
    ----------
    axes_ : array of shape (2, M) of matplotlib axes
        Heat maps above, spectra below.
    figure_ : matplotlib figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.plotting import MetricDisplay
    >>> MetricDisplay([np.diag([4.0, 1.0])]).plot().axes_.shape
    (2, 1)
    """

    def __init__(
        self,
        matrices: Sequence[NDArray],
        names: Sequence[Sequence[str]] | None = None,
        entry: str = "entry",
    ):
        self.matrices = list(matrices)
        self.names = names
        self.entry = entry

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        names: Sequence[Sequence[str]] | None = None,
        *,
        relative: bool = True,
        **options: Any,
    ) -> Self:
        """Draw what a fitted estimator has learnt; for a table the columns' names are used.

        With `relative`, and where there is a prior, rows and columns are in units in which the
        prior's diagonal is 1: then features of different units can be compared, and a number
        above 1 on the diagonal means that the feature counts for more than before.
        """
        check_has(estimator, "components_", "block_shapes_")
        matrices, entry = [A.T @ A for A in estimator._component_list()], "entry"
        if relative and hasattr(estimator, "prior_"):
            prior = [estimator.prior_] if len(matrices) == 1 else estimator.prior_
            unit = [np.sqrt(np.diagonal(W0) / len(prior)) for W0 in prior]
            matrices = [A / u / u[:, None] for A, u in zip(matrices, unit, strict=True)]
            entry = "entry (the prior's diagonal is 1)"
        if names is None and hasattr(estimator, "feature_names_in_"):
            names = [list(estimator.feature_names_in_)]
        return cls(matrices, names, entry).plot(**options)

    def plot(self, *, name: str | None = None) -> Self:
        """Draw on a figure of its own."""
        n_blocks = len(self.matrices)
        figure, axes = _pyplot().subplots(
            2,
            n_blocks,
            figsize=(max(4.6 * n_blocks, 5.0), 7.0),
            layout="constrained",
            squeeze=False,
            height_ratios=(3, 1.6),
        )
        for m, matrix in enumerate(self.matrices):
            title = name or ("The learnt matrix" if n_blocks == 1 else f"Block {m}")
            self._heat_map(axes[0, m], m, matrix, title)
            self._spectrum(axes[1, m], matrix)
        self.axes_, self.figure_ = axes, figure
        return self

    def _spectrum(self, ax: Axes, matrix: NDArray) -> None:
        values = np.linalg.eigvalsh(matrix)[::-1]
        values = values[values > 1e-15 * values[0]]  # the others are zero
        ax.semilogy(np.arange(1, len(values) + 1), values, "o-", markersize=4, color=SIMILAR)
        _set_ticks(ax.xaxis, integer=True)
        ax.yaxis.set_minor_formatter("")
        if values[0] < 100 * values[-1]:  # powers of ten alone would be one or none
            _set_ticks(ax.yaxis, subs=(1.0, 2.0, 5.0))
            ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(axis="y", alpha=0.3)
        ax.set(xlabel="number", ylabel="eigenvalue", title="Spectrum")

    def _heat_map(self, ax: Axes, m: int, matrix: NDArray, title: str) -> None:
        limit = float(np.max(np.abs(matrix)))
        image = ax.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.figure.colorbar(image, ax=ax, shrink=0.8, label=self.entry)
        ax.set_title(title)
        if self.names is not None and len(self.names[m]) == len(matrix) <= 40:
            places = np.arange(len(matrix))
            ax.set_xticks(places, self.names[m], rotation=90, fontsize=7)
            ax.set_yticks(places, self.names[m], fontsize=7)
        else:
            for axis in (ax.xaxis, ax.yaxis):
                _set_ticks(axis, integer=True)


class BlockShareDisplay:
    """How much each block matters: its share of the mean squared distance, by kind of pair.

    A block whose share is larger among dissimilar than among similar pairs tells them apart.

    Parameters
    ----------
    shares : array of shape (2, M)
        Of similar pairs, and of dissimilar ones; each row sums to 1.
    names : list of M str, or None
        Names of the blocks.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.plotting import BlockShareDisplay
    >>> display = BlockShareDisplay(np.array([[0.6, 0.4], [0.2, 0.8]])).plot()
    >>> display.ax_.get_xlabel()
    'share of the mean squared distance'
    """

    def __init__(self, shares: NDArray[np.float64], names: Sequence[str] | None = None):
        self.shares = shares
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        pairs: ArrayLike,
        y: ArrayLike,
        X: Any = None,
        *,
        names: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Draw the shares of the blocks in the distances of pairs; X as for `pair_distance`."""
        check_has(estimator, "components_", "block_shapes_")
        squared = estimator._block_distances(pairs, X)
        similar = pair_labels(y, squared.shape[1])
        totals = np.stack([squared[:, kind].mean(axis=1) for kind in (similar, ~similar)])
        return cls(totals / totals.sum(axis=1, keepdims=True), names).plot(**options)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Draw on `ax`, or on axes of its own."""
        n_blocks = self.shares.shape[1]
        ax = _one_axis(ax, (6.4, 1.9 + 0.55 * n_blocks))
        places = np.arange(n_blocks)
        for row, label, colour, shift in (
            (0, "similar pairs", SIMILAR, -0.2),
            (1, "dissimilar pairs", DISSIMILAR, 0.2),
        ):
            ax.barh(places + shift, self.shares[row], 0.38, color=colour, label=label)
        names = [f"block {m}" for m in range(n_blocks)] if self.names is None else self.names
        ax.set_yticks(places, names)
        ax.set_ylim(n_blocks - 0.4, -1.0)  # the first at the top, with room for the legend above
        ax.set(xlabel="share of the mean squared distance", title=name or "What each block adds")
        ax.legend(loc="upper right", ncols=2, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self
