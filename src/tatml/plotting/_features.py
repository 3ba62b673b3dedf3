"""Displays of blocks and features: their shares in the distances, and permutation importance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._array import Doubles, Indices
from .._validation import check_count
from ..inspection import (
    FeatureShares,
    PermutationImportance,
    feature_shares,
    permutation_importance,
)
from ._axes import SIMILAR, THRESHOLD, draw_shares, one_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class _ResultDisplay(ABC):
    """Base class of the displays of what a function of `tatml.inspection` has measured."""

    _measure: Callable[..., Any]
    _options: tuple[str, ...]

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

    @abstractmethod
    def plot(self, *args: Any, **options: Any) -> Self:
        """Plot the result."""


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

    def plot(
        self, ax: Axes | None = None, *, max_features: int = 20, name: str | None = None
    ) -> Self:
        """Plot on `ax`, or on a new figure; `max_features` is the number of features shown."""
        order = _largest(self.result.dissimilar, max_features)
        ax = one_axis(ax, (_width(self.result.names, order), 1.6 + 0.38 * len(order)))
        draw_shares(ax, self.result.similar[order], self.result.dissimilar[order])
        _name_places(ax, self.result, order, name or f"Share of each {self.result.by[:-1]}")
        ax.legend(loc="lower right", fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


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

    def plot(
        self, ax: Axes | None = None, *, max_features: int = 20, name: str | None = None
    ) -> Self:
        """Plot on `ax`, or on a new figure; `max_features` is the number of features shown."""
        order = _largest(self.result.mean, max_features)
        ax = one_axis(ax, (_width(self.result.names, order), 1.4 + 0.32 * len(order)))
        places, repeats = np.arange(len(order)), self.result.importances[order]
        ax.barh(places, self.result.mean[order], 0.7, color=SIMILAR, alpha=0.75, label="mean")
        spread = np.broadcast_to(places[:, None], repeats.shape)
        ax.plot(repeats.ravel(), spread.ravel(), "|", color=THRESHOLD, label="each repeat")
        _name_places(ax, self.result, order, name or "Permutation importance")
        ax.set_xlabel(f"loss of the pair AUC (without permutation {self.result.baseline:.3f})")
        ax.legend(loc="lower right", fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _largest(values: Doubles, count: int) -> Indices:
    """Return the positions of the largest values, largest first."""
    return np.argsort(-values, kind="stable")[: check_count("max_features", count)]


def _width(names: Sequence[str], order: Indices) -> float:
    """Return the width of a figure in inches, with room for the longest name."""
    return max(6.4, 4.4 + 0.08 * max(len(names[place]) for place in order))


def _name_places(
    ax: Axes, result: FeatureShares | PermutationImportance, order: Indices, title: str
) -> None:
    """Label the bars, and say how many of the features are shown."""
    ax.set_yticks(np.arange(len(order)), [result.names[place] for place in order])
    ax.set_ylim(len(order) - 0.4, -0.6)  # the first at the top
    ax.axvline(0, color=THRESHOLD, lw=0.8)
    total = len(result.names)
    left_out = f" ({len(order)} of {total} {result.by})" if len(order) < total else ""
    ax.set_title(title + left_out)
