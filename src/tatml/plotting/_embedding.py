"""Display of the learnt space beside the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from .._array import Doubles
from .._data.blocks import Blocks
from .._data.labels import check_length
from .._data.names import check_block_names
from .._data.sparse import SparseBlock
from .._estimators.inputs import check_has, samples_of
from .._validation import check_count, check_flag, check_random
from ..features._compose import BlockScaler
from ._axes import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222", "#999999")
MARKERS = "os^DvPX*"
MOST_IN_LEGEND = 16  # classes; more of them have colours but no names


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

    def __init__(
        self,
        plain: Doubles,
        learnt: Doubles,
        labels: NDArray | None,
        variances: Doubles,
        plain_title: str = "Features",
    ):
        self.plain = plain
        self.learnt = learnt
        self.labels = labels
        self.variances = variances
        self.plain_title = plain_title

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
        mapped = estimator._mapped(blocks)
        kernel = None if estimator.kernel_map_ is None else estimator.kernel_map_.kernel
        if kernel == "precomputed":
            features, title = _side_by_side(mapped), "Kernel"
        else:
            features, title = _plain_features(blocks, scale)
        plain, learnt = _two_components(features), _two_components(estimator._embed(mapped))
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
