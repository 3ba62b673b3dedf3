"""What estimators that learn from labels share: how pairs are drawn, and thresholds afterwards."""

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
from .inputs import class_labels, group_labels
from .metric import MetricMixin, components_of, embedded, row_distances
from .priors import PRIORS, PriorName, make_prior, rows_of
from .thresholds import b0_of, learnt_b0, threshold_of

__all__ = [
    "LabelPairsMixin",
    "LabelThresholdMixin",
    "LabelsMixin",
    "Prior",
    "ThresholdMixin",
    "best_b0",
    "within_classes",
]

Matrices = Sequence[NDArray[np.float64]]
Prior = PriorName | Sequence[ArrayLike] | ArrayLike


class LabelsMixin:
    """Tells scikit-learn what a label estimator takes."""

    def __sklearn_tags__(self) -> Any:
        """Needs labels, and takes matrices too."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of BaseEstimator
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        return tags


class LabelPairsMixin(LabelsMixin):
    """Draws pairs from labels by the parameters of a label estimator."""

    pairs: Strategy
    n_pairs_per_class: int | None
    n_neighbors: int
    random_state: Any

    def _draw(
        self,
        blocks: Blocks,
        y: Any,
        groups: Any,
        *,
        strategy: Strategy | None = None,
        prior: Prior = "auto",
    ) -> tuple[Pairs, NDArray[np.intp]]:
        """Draw pairs, and number the classes of the samples.

        Without a `strategy` it is that of the model. Neighbours are near in the metric of the
        `prior`; for "auto", in the units of the data.
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

    def _random_pairs(self, blocks: Blocks, y: Any, groups: Any) -> Pairs:
        """Draw pairs as they come, for what must not depend on how a metric was taught."""
        kind: Strategy = "all" if self.pairs == "all" else "random"
        return balanced(self._draw(blocks, y, groups, strategy=kind)[0])


class ThresholdMixin:
    """Learns the threshold alone, for distances that stay as they are, by TATML's criterion."""

    margin: tuple[float, float]
    threshold_prior: float | None
    threshold_strength: float

    def _learn_threshold(self, distances: NDArray[np.float64], pairs: Pairs) -> None:
        margin = check_margin(self.margin)
        strength = check_positive("threshold_strength", self.threshold_strength)
        self.b0_ = best_b0(distances, pairs, margin, self.threshold_prior, strength)
        self.threshold_ = threshold_of(self.b0_, margin)
        self.pair_weights_ = pairs.weights


class LabelThresholdMixin(ThresholdMixin, LabelPairsMixin, MetricMixin):
    """Learns the threshold of a metric that is there, from pairs that were drawn from labels."""

    def _learn_from(self, blocks: Blocks, pairs: Pairs) -> None:
        """Keep the pairs that were drawn, and learn the threshold of their distances."""
        self.pairs_, self.similar_ = pairs.index, pairs.similar
        distances = row_distances(self._embedded(blocks), pairs.index)
        self._learn_threshold(distances, balanced(pairs))


def best_b0(
    distances: NDArray[np.float64],
    pairs: Pairs,
    margin: tuple[float, float],
    threshold_prior: float | None,
    strength: float,
) -> float:
    """Learn the b0 of distances that stay as they are, pulled to `threshold_prior` if given."""
    mu0 = None
    if threshold_prior is not None:
        mu0 = b0_of(check_threshold("threshold_prior", threshold_prior), margin)
    return learnt_b0(distances**2, pairs, margin, strength, mu0)


def within_classes(blocks: Blocks, labels: NDArray[np.intp]) -> list[NDArray[np.float64]]:
    """Subtract the mean of their class from the samples, one array (n_rows, n_m) per block."""
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
    """Embed the samples by the prior, to seek neighbours; None for "auto"."""
    if not isinstance(prior, str):
        return _embedded_by(check_prior(prior, blocks), blocks)
    check_choice("prior", prior, PRIORS)
    if prior == "auto":
        return None
    around_mean = [rows_of(array - array.mean(axis=0)) for array in blocks.arrays]
    scatter = [rows.T @ rows / len(blocks) for rows in around_mean]
    W0 = make_prior(prior, blocks, scatter, within_classes(blocks, labels))
    return _embedded_by(W0, blocks)


def _embedded_by(W: Matrices, blocks: Blocks) -> NDArray[np.float64]:
    """The samples in the coordinates of given matrices."""
    L = [np.linalg.cholesky(matrix).astype(np.float64, copy=False) for matrix in W]
    return embedded(components_of(L, blocks, None), blocks)
