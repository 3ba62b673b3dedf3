"""Mixins that draw pairs from labels, and learn a threshold for a given metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._data.blocks import Blocks
from .._data.checks import check_prior
from .._data.pairs import Pairs
from .._data.sampling import STRATEGIES, Strategy, balanced, draw_pairs
from .._validation import (
    check_choice,
    check_count,
    check_margin,
    check_positive,
    check_random,
    check_threshold,
)
from .given_labels import class_labels, group_labels
from .metric import MetricMixin, components_of, embed_blocks, row_distances
from .priors import PRIORS, PriorName, make_prior, rows_of
from .thresholds import b0_of, learn_b0, threshold_of

__all__ = [
    "LabelPairsMixin",
    "LabelThresholdMixin",
    "LabelsMixin",
    "Prior",
    "ThresholdMixin",
    "learn_b0_from_distances",
    "within_classes",
]

Matrices = Sequence[NDArray[np.float64]]
Prior = PriorName | Sequence[ArrayLike] | ArrayLike


class LabelsMixin:
    """Mixin with the scikit-learn tags of estimators that are fitted to labels."""

    def __sklearn_tags__(self) -> Any:
        """Return tags that require labels and allow matrices as samples."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of BaseEstimator
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        return tags


class LabelPairsMixin(LabelsMixin):
    """Mixin that draws pairs from labels, as the parameters of the estimator say."""

    pairs: Strategy
    n_pairs_per_class: int | None
    n_neighbors: int
    random_state: Any

    def _draw_pairs(
        self,
        blocks: Blocks,
        y: Any,
        groups: Any,
        *,
        strategy: Strategy | None = None,
        prior: Prior = "auto",
    ) -> tuple[Pairs, NDArray[np.intp]]:
        """Return the drawn pairs and the class numbers of the samples.

        The default of `strategy` is the parameter `pairs`. Neighbours are found in the metric of
        the `prior`; for "auto", in the units of the data.
        """
        _, labels = class_labels(self, y, len(blocks))
        check_choice("pairs", self.pairs, STRATEGIES)
        strategy = self.pairs if strategy is None else strategy
        n_pairs = self.n_pairs_per_class
        if n_pairs is not None:
            n_pairs = check_count("n_pairs_per_class", n_pairs, least=2)
        pairs = draw_pairs(
            strategy,
            blocks,
            labels,
            group_labels(groups, len(blocks)),
            n_pairs_per_class=n_pairs,
            n_neighbors=check_count("n_neighbors", self.n_neighbors),
            random_state=check_random(self.random_state),
            space=_neighbor_space(prior, blocks, labels) if strategy == "neighbors" else None,
        )
        return pairs, labels

    def _draw_random_pairs(self, blocks: Blocks, y: Any, groups: Any) -> Pairs:
        """Draw random pairs (or all), for results that must not depend on the parameter `pairs`."""
        kind: Strategy = "all" if self.pairs == "all" else "random"
        return balanced(self._draw_pairs(blocks, y, groups, strategy=kind)[0])


class ThresholdMixin:
    """Mixin that learns the threshold of given distances by TATML's criterion."""

    margin: tuple[float, float]
    threshold_prior: float | None
    threshold_strength: float

    def _learn_threshold(self, distances: NDArray[np.float64], pairs: Pairs) -> None:
        margin = check_margin(self.margin)
        strength = check_positive("threshold_strength", self.threshold_strength)
        self.b0_ = learn_b0_from_distances(distances, pairs, margin, self.threshold_prior, strength)
        self.threshold_ = threshold_of(self.b0_, margin)
        self.pair_weights_ = pairs.weights


class LabelThresholdMixin(ThresholdMixin, LabelPairsMixin, MetricMixin):
    """Mixin that learns the threshold of a fitted metric, from pairs drawn from labels."""

    def _learn_from(self, blocks: Blocks, pairs: Pairs) -> None:
        """Store the drawn pairs, and learn the threshold of their distances."""
        self.pairs_, self.similar_ = pairs.index, pairs.similar
        distances = row_distances(self._embed(blocks), pairs.index)
        self._learn_threshold(distances, balanced(pairs))


def learn_b0_from_distances(
    distances: NDArray[np.float64],
    pairs: Pairs,
    margin: tuple[float, float],
    threshold_prior: float | None,
    strength: float,
) -> float:
    """Return the b0 of given distances, pulled to `threshold_prior` if it is not None."""
    mu0 = None
    if threshold_prior is not None:
        mu0 = b0_of(check_threshold("threshold_prior", threshold_prior), margin)
    return learn_b0(distances**2, pairs, margin, strength, mu0)


def within_classes(blocks: Blocks, labels: NDArray[np.intp]) -> list[NDArray[np.float64]]:
    """Return the samples minus the mean of their class: one array (n_rows, n_m) per block."""
    counts = np.bincount(labels).astype(float)
    deviations = []
    for array in blocks.arrays:
        sums = np.zeros((len(counts), *array.shape[1:]))
        np.add.at(sums, labels, array)
        deviations.append(rows_of(array - (sums / counts[:, None, None])[labels]))
    return deviations


def _neighbor_space(
    prior: Prior, blocks: Blocks, labels: NDArray[np.intp]
) -> NDArray[np.float64] | None:
    """Return the samples in the metric of the prior, to find neighbours; None for "auto"."""
    if not isinstance(prior, str):
        return _embed_by(check_prior(prior, blocks), blocks)
    check_choice("prior", prior, PRIORS)
    if prior == "auto":
        return None
    around_mean = [rows_of(array - array.mean(axis=0)) for array in blocks.arrays]
    scatter = [rows.T @ rows / len(blocks) for rows in around_mean]
    W0 = make_prior(prior, blocks, scatter, within_classes(blocks, labels))
    return _embed_by(W0, blocks)


def _embed_by(W: Matrices, blocks: Blocks) -> NDArray[np.float64]:
    """Embed the samples so that Euclidean distances are those of the matrices."""
    L = [np.linalg.cholesky(matrix).astype(np.float64, copy=False) for matrix in W]
    return embed_blocks(components_of(L, blocks, None), blocks)
