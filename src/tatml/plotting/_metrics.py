"""Displays of a learnt metric: convergence, matrices, space, and what blocks and features add."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from .._array import Doubles, Indices
from .._data.arrays import check_length
from .._data.blocks import Blocks, check_block_names
from .._data.sparse import SparseBlock
from .._estimators.inputs import check_has, pair_labels, samples_of
from .._optim.result import Result
from .._validation import as_list, check_count, check_flag, check_random
from ..features._compose import BlockScaler
from ..inspection import (
    FeatureShares,
    PermutationImportance,
    feature_shares,
    permutation_importance,
)
from ._axes import DISSIMILAR, SIMILAR, THRESHOLD, one_axis, pyplot, set_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Names = Sequence[Sequence[str] | None] | None  # the names of the rows of each block
SMALLEST_GAP = 1e-17  # a logarithmic axis shows smaller gaps, such as zero, at this value
WINDOW = 3.0  # objectives that differ from the last one by more than this factor are cut off
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222", "#999999")
MARKERS = "os^DvPX*"
MOST_IN_LEGEND = 16  # classes; more of them have colours but no names


@dataclass(eq=False, repr=False)
class ConvergenceDisplay:
    """Primal and dual objective and duality gap, by iteration and by seconds.

    Parameters
    ----------
    history : dict of str to array
        The history of a `Result`.
    tol : float
        The tolerance that the solver used; in float32 it may be larger than the one asked for.

    Attributes
    ----------
    axes_, figure_ : array of 3 matplotlib axes, and their figure
        The axes show the objective by iteration, the gap by iteration, and the gap by seconds.

    Examples
    --------
    >>> import tatml
    >>> from tatml.plotting import ConvergenceDisplay
    >>> result = tatml.learn_metric([[0.0], [0.1], [2.0]], [[0, 1], [1, 2]], [True, False])
    >>> len(ConvergenceDisplay.from_result(result).axes_)
    3
    """

    history: dict[str, NDArray]
    tol: float

    @classmethod
    def from_estimator(cls, estimator: Any, **options: Any) -> Self:
        """Plot the convergence of a fitted estimator."""
        check_has(estimator, "result_")
        return cls.from_result(estimator.result_, **options)

    @classmethod
    def from_result(cls, result: Result, **options: Any) -> Self:
        """Plot the convergence of a result of `learn_metric`."""
        return cls(result.history, result.tol).plot(**options)

    def plot(self, axes: Sequence[Axes] | None = None, *, name: str | None = None) -> Self:
        """Plot on three axes, or on a new figure."""
        if axes is None:
            _, axes = pyplot().subplots(1, 3, figsize=(12, 3.6), layout="constrained")
        steps, primal = self.history["iteration"], self.history["primal"]
        gap = np.maximum(self.history["gap"], SMALLEST_GAP)
        axes[0].plot(steps, primal, "o-", color=SIMILAR, label="primal")
        axes[0].plot(
            steps, self.history["dual"], "s-", color=DISSIMILAR, label="dual (lower bound)"
        )
        axes[0].set(xlabel="iteration", ylabel="objective", title=name or "Objective")
        axes[0].legend(title=self._show_the_end(axes[0]), title_fontsize="small")
        goal = self.tol * np.maximum(1.0, np.abs(primal))
        for ax, label in ((axes[1], "iteration"), (axes[2], "seconds")):
            x = self.history[label]
            ax.semilogy(x, gap, "o-", color=THRESHOLD, label="gap")
            ax.semilogy(x, goal, ":", color=DISSIMILAR, label=f"tolerance {self.tol:g}")
            ax.set(xlabel=label, ylabel="duality gap", title=f"Duality gap by {label}")
            ax.legend()
        for ax in axes[:2]:
            set_ticks(ax.xaxis, integer=True)
        self.axes_, self.figure_ = np.asarray(axes), axes[0].figure
        return self

    def _show_the_end(self, ax: Axes) -> str | None:
        """Limit the y-axis to values near the last one; return a note on what is not shown."""
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


@dataclass(eq=False, repr=False)
class MetricDisplay:
    """Heat maps of the learnt matrices, and their spectra.

    Parameters
    ----------
    matrices : list of M arrays of shape (n_m, n_m)
        The matrices of the blocks.
    names : list of M lists of str, or None
        The names of the rows; None for a block whose rows have none.
    entry : str
        The label of the colour bar.
    block_names : list of M str, or None
        The names of the blocks, which are the titles of several heat maps.

    Attributes
    ----------
    axes_, figure_ : array of shape (2, M) of matplotlib axes, and their figure
        The first row of axes shows the heat maps, the second row the spectra.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.plotting import MetricDisplay
    >>> MetricDisplay([np.diag([4.0, 1.0])]).plot().axes_.shape
    (2, 1)
    """

    matrices: Sequence[NDArray]
    names: Names = None
    entry: str = "entry"
    block_names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, names: Names = None, *, relative: bool = True, **options: Any
    ) -> Self:
        """Plot the matrices of a fitted estimator; the default of `names` are those of its rows.

        With `relative`, and if there is a prior, rows and columns are scaled so that the diagonal
        of the prior is 1. Then features of different units can be compared: a number above 1 on
        the diagonal means that learning has increased the weight of the feature.
        """
        check_has(estimator, "components_", "block_shapes_")
        matrices, entry = [A.T @ A for A in estimator._component_list()], "entry"
        if relative and hasattr(estimator, "prior_"):
            prior = [estimator.prior_] if len(matrices) == 1 else estimator.prior_
            unit = [np.sqrt(np.diagonal(W0) / len(prior)) for W0 in prior]
            matrices = [A / u / u[:, None] for A, u in zip(matrices, unit, strict=True)]
            entry = "entry (the prior's diagonal is 1)"
        names = estimator._row_names() if names is None else _names_of(names, len(matrices))
        return cls(matrices, names, entry, estimator._block_names()).plot(**options)

    def plot(self, *, name: str | None = None) -> Self:
        """Plot on a new figure."""
        n_blocks = len(self.matrices)
        options = {"layout": "constrained", "squeeze": False, "height_ratios": (3, 1.6)}
        size = (max(4.6 * n_blocks, 5.0), 7.0)
        figure, axes = pyplot().subplots(2, n_blocks, figsize=size, **options)
        for m, matrix in enumerate(self.matrices):
            self._heat_map(axes[0, m], m, matrix, name or self._title(m))
            self._spectrum(axes[1, m], matrix)
        self.axes_, self.figure_ = axes, figure
        return self

    def _title(self, m: int) -> str:
        if len(self.matrices) == 1:
            return "Learnt matrix"
        title = f"block {m}" if self.block_names is None else self.block_names[m]
        return title[:1].upper() + title[1:]

    def _spectrum(self, ax: Axes, matrix: NDArray) -> None:
        values = np.linalg.eigvalsh(matrix)[::-1]
        values = values[values > 1e-15 * values[0]]  # smaller ones are zero up to rounding
        ax.semilogy(np.arange(1, len(values) + 1), values, "o-", markersize=4, color=SIMILAR)
        set_ticks(ax.xaxis, integer=True)
        ax.yaxis.set_minor_formatter("")
        if values[0] < 100 * values[-1]:  # powers of ten would give one tick or none
            set_ticks(ax.yaxis, subs=(1.0, 2.0, 5.0))
            ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(axis="y", alpha=0.3)
        ax.set(xlabel="index", ylabel="eigenvalue", title="Spectrum")

    def _heat_map(self, ax: Axes, m: int, matrix: NDArray, title: str) -> None:
        limit = float(np.max(np.abs(matrix)))
        image = ax.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.figure.colorbar(image, ax=ax, shrink=0.8, label=self.entry)
        ax.set_title(title)
        words = None if self.names is None else self.names[m]
        if words is not None and len(words) == len(matrix) <= 40:
            places = np.arange(len(matrix))
            ax.set_xticks(places, words, rotation=90, fontsize=7)
            ax.set_yticks(places, words, fontsize=7)
        else:
            for axis in (ax.xaxis, ax.yaxis):
                set_ticks(axis, integer=True)


def _names_of(names: Any, n_blocks: int) -> list[Any]:
    """Return the names of the rows of each block."""
    what = f"one list of names, or None, for each of {n_blocks} blocks"
    members = as_list("names", names, what)
    if len(members) != n_blocks:
        raise ValueError(f"names: expected {what}, got {len(members)}")
    return members


@dataclass(eq=False, repr=False)
class BlockShareDisplay:
    """The share of each block in the mean squared distance of similar and of dissimilar pairs.

    A block with a larger share for dissimilar than for similar pairs separates them better than the
    distance as a whole does.

    Parameters
    ----------
    shares : array of shape (2, M)
        The shares for similar pairs, and for dissimilar pairs; each row sums to 1.
    names : list of M str, or None
        The names of the blocks.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        The axes of the plot, and their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.plotting import BlockShareDisplay
    >>> display = BlockShareDisplay(np.array([[0.6, 0.4], [0.2, 0.8]])).plot()
    >>> display.ax_.get_xlabel()
    'share of the mean squared distance'
    """

    shares: NDArray[np.float64]
    names: Sequence[str] | None = None

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
        """Plot the shares of the blocks in the distances of pairs; `X` as for `pair_distance`."""
        check_has(estimator, "components_", "block_shapes_")
        squared = estimator._block_distances(pairs, X)
        similar = pair_labels(y, squared.shape[1])
        totals = np.stack([squared[:, kind].mean(axis=1) for kind in (similar, ~similar)])
        names = estimator._block_names() if names is None else names
        return cls(totals / totals.sum(axis=1, keepdims=True), names).plot(**options)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Plot on `ax`, or on a new figure."""
        n_blocks = self.shares.shape[1]
        ax = one_axis(ax, (6.4, 1.9 + 0.55 * n_blocks))
        _draw_shares(ax, *self.shares)
        names = [f"block {m}" for m in range(n_blocks)] if self.names is None else self.names
        ax.set_yticks(np.arange(n_blocks), names)
        ax.set_ylim(n_blocks - 0.4, -1.0)  # first block at the top; room for the legend
        ax.set_title(name or "Share of each block")
        ax.legend(loc="upper right", ncols=2, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False, repr=False)
class EmbeddingDisplay:
    """The learnt space beside the plain one, each by its first two principal components.

    Both axes of a plot have the same unit, so that distances can be compared by eye within a plot.
    The units of the two plots differ.

    Parameters
    ----------
    plain, learnt : arrays of shape (n_samples, 2)
        The first two principal components of the features, and of their image in the learnt space.
    labels : array of shape (n_samples,), or None
        The class of each sample.
    variances : array of shape (2, 2)
        The share of the variance that each component has, in the plain and in the learnt space.
    plain_title : str
        Says what the plain features are.

    Attributes
    ----------
    axes_, figure_ : array of 2 matplotlib axes, and their figure
        The left axes show the plain features, the right axes the learnt space.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tatml import TATML
    >>> from tatml.plotting import EmbeddingDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> display = EmbeddingDisplay.from_estimator(TATML(random_state=0).fit(X, y), X, y)
    >>> [ax.get_title() for ax in display.axes_]
    ['Features, standardised', 'Learnt space']
    """

    plain: Doubles
    learnt: Doubles
    labels: NDArray | None
    variances: Doubles
    plain_title: str = "Features"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        scale: bool = True,
        max_samples: int = 5000,
        random_state: Any = 0,
        **options: Any,
    ) -> Self:
        """Plot samples before and after `transform`; best samples that fit did not see.

        With `scale`, each feature is divided by its standard deviation if samples are vectors, and
        several blocks have the same weight: this is what a nearest-neighbour rule without learning
        would use. If there are more than `max_samples`, as many are drawn at random. For a
        precomputed kernel, the plain space is that of the kernel.
        """
        check_has(estimator, "transform", "pair_distance", "block_shapes_")
        scale = check_flag("scale", scale)
        most = check_count("max_samples", max_samples, least=3)
        rng = check_random(random_state)
        blocks = samples_of(estimator, X, reset=False, min_samples=3)
        labels = None if y is None else _as_labels(y, len(blocks))
        if len(blocks) > most:
            rows = np.sort(rng.permutation(len(blocks))[:most])
            blocks = blocks[rows]
            labels = None if labels is None else labels[rows]
        metric = estimator._metric
        kernel = None if estimator.kernel_map_ is None else estimator.kernel_map_.kernel
        if kernel == "precomputed":
            features, title = _side_by_side(metric.mapped(blocks)), "Kernel"
        else:
            features, title = _plain_features(blocks, scale)
        plain, learnt = _two_components(features), _two_components(metric.embed(blocks))
        variances = np.stack([plain[1], learnt[1]])
        return cls(plain[0], learnt[0], labels, variances, title).plot(**options)

    def plot(
        self,
        axes: Sequence[Axes] | None = None,
        *,
        class_names: Sequence[str] | None = None,
        name: str | None = None,
    ) -> Self:
        """Plot on two axes, or on a new figure; `class_names` are in the order of the labels."""
        if axes is None:
            _, axes = pyplot().subplots(1, 2, figsize=(10, 4.8), layout="constrained")
        titles = self.plain_title, name or "Learnt space"
        spaces = (self.plain, self.learnt)
        for ax, rows, share, title in zip(axes, spaces, self.variances, titles, strict=True):
            self._scatter(ax, rows, class_names)
            ax.set_aspect("equal", adjustable="datalim")
            labels = [f"component {k + 1} ({share[k]:.0%} of the variance)" for k in (0, 1)]
            ax.set(xlabel=labels[0], ylabel=labels[1], title=title)
        if self.labels is not None and len(np.unique(self.labels)) <= MOST_IN_LEGEND:
            axes[1].legend(fontsize="small", loc="best", markerscale=1.4)
        self.axes_, self.figure_ = np.asarray(axes), axes[0].figure
        return self

    def _scatter(self, ax: Axes, rows: Doubles, class_names: Sequence[str] | None) -> None:
        size = float(np.clip(6000 / len(rows), 5, 28))
        style: dict[str, Any] = {
            "s": size,
            "alpha": 0.75,
            "linewidths": 0,
            "rasterized": len(rows) > 2000,
        }
        if self.labels is None:
            ax.scatter(rows[:, 0], rows[:, 1], color=COLOURS[0], **style)
            return
        classes = np.unique(self.labels)
        words = check_block_names(class_names, len(classes), "class_names", "one word per class")
        for number, label in enumerate(classes):
            chosen = rows[self.labels == label]
            word = str(label) if words is None else words[number]
            colour = COLOURS[number % len(COLOURS)]
            turn = number // len(COLOURS)  # the same colours again, with other markers
            marker = MARKERS[(number + turn) % len(MARKERS)]
            ax.scatter(chosen[:, 0], chosen[:, 1], color=colour, marker=marker, label=word, **style)


def _as_labels(y: ArrayLike, n_samples: int) -> NDArray:
    labels = np.asarray(y)
    if len(labels.shape) != 1:
        raise ValueError(f"y: expected one label per sample, got shape {labels.shape}")
    check_length(labels, n_samples, "y")
    return labels


def _plain_features(blocks: Blocks, scale: bool) -> tuple[Any, str]:
    """Return the features as one table, and what they are."""
    if any(isinstance(array, SparseBlock) for array in blocks.arrays):
        table = blocks.arrays[0].table  # type: ignore[attr-defined]
        scaled = StandardScaler(with_mean=False).fit_transform(table) if scale else table
        return scaled, "Features, standardised" if scale else "Features, as given"
    if not scale:
        return _side_by_side(blocks), "Features, as given"
    if blocks.n_blocks > 1:
        return _side_by_side(BlockScaler().fit_transform(blocks)), "Blocks of equal weight"
    rows = _side_by_side(blocks)
    if blocks.block_shapes[0][1] > 1:  # all entries of a matrix have one unit
        return rows, "Matrices, as given"
    return StandardScaler().fit_transform(rows), "Features, standardised"


def _side_by_side(blocks: Blocks) -> Doubles:
    return np.hstack([array.reshape(len(array), -1) for array in blocks.arrays]).astype(np.float64)


def _two_components(rows: Any) -> tuple[Doubles, Doubles]:
    """Return the first two principal components of rows, and the shares of variance they have."""
    solver = "arpack" if hasattr(rows, "tocsr") else "auto"
    count = min(2, *rows.shape)
    pca = PCA(count, svd_solver=solver, random_state=0)
    with np.errstate(invalid="ignore"):  # all samples may be equal
        found = pca.fit_transform(rows)
    room = ((0, 0), (0, 2 - count))
    return np.pad(found, room), np.pad(np.nan_to_num(pca.explained_variance_ratio_), room[1])


class _ResultDisplay(ABC):
    """Base class of the displays of what a function of `tatml.inspection` has measured."""

    _measure: Callable[..., Any]
    _options: tuple[str, ...]  # the parameters of `_measure`
    _sorted_by: str  # an attribute of the result
    _heights: tuple[float, float]  # of a new figure in inches: without features, and per feature

    def __init__(self, result: Any):
        self.result = result

    @classmethod
    def from_estimator(
        cls, estimator: Any, pairs: ArrayLike, y: ArrayLike, X: Any = None, **options: Any
    ) -> Self:
        """Measure the features and plot the result.

        The options of `tatml.inspection.feature_shares` (`by`, `names`), or of
        `tatml.inspection.permutation_importance` (these, `n_repeats` and `random_state`), are
        passed to it, the others to `plot`.
        """
        given = {name: options.pop(name) for name in cls._options if name in options}
        return cls.from_result(cls._measure(estimator, pairs, y, X, **given), **options)

    @classmethod
    def from_result(cls, result: Any, **options: Any) -> Self:
        """Plot a result that `tatml.inspection` has returned."""
        return cls(result).plot(**options)

    def plot(
        self, ax: Axes | None = None, *, max_features: int = 20, name: str | None = None
    ) -> Self:
        """Plot on `ax`, or on a new figure; `max_features` is the number of features shown."""
        largest = np.argsort(-getattr(self.result, self._sorted_by), kind="stable")
        order = largest[: check_count("max_features", max_features)]
        names, total = [self.result.names[place] for place in order], len(self.result.names)
        height, per_feature = self._heights
        width = max(6.4, 4.4 + 0.08 * max(map(len, names)))  # with room for the longest name
        ax = one_axis(ax, (width, height + per_feature * len(order)))
        title = self._draw(ax, order)
        ax.set_yticks(np.arange(len(order)), names)
        ax.set_ylim(len(order) - 0.4, -0.6)  # the first at the top
        ax.axvline(0, color=THRESHOLD, lw=0.8)
        left_out = f" ({len(order)} of {total} {self.result.by})" if len(order) < total else ""
        ax.set_title((name or title) + left_out)
        ax.legend(loc="lower right", fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @abstractmethod
    def _draw(self, ax: Axes, order: Indices) -> str:
        """Draw the features in this order; return the title."""


class FeatureShareDisplay(_ResultDisplay):
    """The share of each feature in the mean squared distance of similar and of dissimilar pairs.

    A feature with a larger share for dissimilar than for similar pairs separates them better than
    the distance as a whole does.

    Parameters
    ----------
    result : FeatureShares
        The result of `tatml.inspection.feature_shares`.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        The axes of the plot, and their figure. The largest share for dissimilar pairs is at the
        top.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.inspection import FeatureShares
    >>> from tatml.plotting import FeatureShareDisplay
    >>> shares = FeatureShares(("height", "age"), np.array([0.4, 0.6]), np.array([0.9, 0.1]))
    >>> display = FeatureShareDisplay.from_result(shares)
    >>> [tick.get_text() for tick in display.ax_.get_yticklabels()]
    ['height', 'age']
    """

    result: FeatureShares
    _measure = staticmethod(feature_shares)
    _options = ("by", "names")
    _sorted_by = "dissimilar"
    _heights = (1.6, 0.38)

    def _draw(self, ax: Axes, order: Indices) -> str:
        _draw_shares(ax, self.result.similar[order], self.result.dissimilar[order])
        return f"Share of each {self.result.by[:-1]}"


class PermutationImportanceDisplay(_ResultDisplay):
    """What the pair AUC loses when a feature is permuted among the samples.

    Parameters
    ----------
    result : PermutationImportance
        The result of `tatml.inspection.permutation_importance`.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        The axes of the plot, and their figure. The most important feature is at the top.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.inspection import PermutationImportance
    >>> from tatml.plotting import PermutationImportanceDisplay
    >>> result = PermutationImportance(("age", "height"), 0.9, np.array([[0.0, 0.1], [0.3, 0.2]]))
    >>> display = PermutationImportanceDisplay.from_result(result)
    >>> [tick.get_text() for tick in display.ax_.get_yticklabels()]
    ['height', 'age']
    """

    result: PermutationImportance
    _measure = staticmethod(permutation_importance)
    _options = ("by", "n_repeats", "names", "random_state")
    _sorted_by = "mean"
    _heights = (1.4, 0.32)

    def _draw(self, ax: Axes, order: Indices) -> str:
        places, repeats = np.arange(len(order)), self.result.importances[order]
        ax.barh(places, self.result.mean[order], 0.7, color=SIMILAR, alpha=0.75, label="mean")
        spread = np.broadcast_to(places[:, None], repeats.shape)
        ax.plot(repeats.ravel(), spread.ravel(), "|", color=THRESHOLD, label="each repeat")
        ax.set_xlabel(f"loss of the pair AUC (without permutation {self.result.baseline:.3f})")
        return "Permutation importance"


def _draw_shares(ax: Axes, similar: Doubles, dissimilar: Doubles) -> None:
    """Draw shares of the mean squared distance, one bar per kind of pairs at each place."""
    places = np.arange(len(similar))
    ax.barh(places - 0.2, similar, 0.38, color=SIMILAR, label="similar pairs")
    ax.barh(places + 0.2, dissimilar, 0.38, color=DISSIMILAR, label="dissimilar pairs")
    ax.set_xlabel("share of the mean squared distance")
