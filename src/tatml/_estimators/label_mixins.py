"""Mixins that draw pairs from labels, and learn a threshold for a given metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._array import Array, asarray, namespace, to_numpy
from .._data.blocks import Blocks
from .._data.labels import group_labels
from .._data.pairs import Pairs
from .._data.sampling import STRATEGIES, Strategy, balanced, draw_pairs
from .._data.sparse import SparseBlock
from .._validation import (
    check_choice,
    check_count,
    check_margin,
    check_positive,
    check_random,
    check_threshold,
)
from .device_inputs import fetched
from .embedding import Factor, embed_blocks
from .folds import LabelledSamples
from .given_labels import class_labels
from .metric import MetricMixin
from .priors import PRIORS, PriorName, Units, WithinClasses
from .reduction import MetricPrior, prior_of, reduce_blocks, row_variances
from .scatters import around_mean, is_constant, mean_square, minus_class_means, rows_of
from .span import is_wide
from .thresholds import b0_of, learn_b0, threshold_of, warn_if_one_sided

ROUNDING = 1e-28  # relative to the squares of a constant block, its scatter is below this

Deviations = Callable[[Array], Array]
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
    _n_images: Callable[[], int]  # of MetricMixin

    def _labelled(self, blocks: Blocks, y: Any, groups: Any) -> LabelledSamples:
        """Return the samples with their class and group numbers, after a check of the labels."""
        _, labels = class_labels(self, y, len(blocks))
        return LabelledSamples(blocks, labels, group_labels(groups, len(blocks)))

    def _draw_pairs(
        self,
        samples: LabelledSamples,
        *,
        strategy: Strategy | None = None,
        prior: Prior = "auto",
        units: Units = "columns",
    ) -> Pairs:
        """Draw pairs of the samples.

        The default of `strategy` is the parameter `pairs`. Neighbours are found in the metric of
        the `prior`, shrunk in the given `units`; for "auto", in the units of the data.
        """
        check_choice("pairs", self.pairs, STRATEGIES)
        strategy = self.pairs if strategy is None else strategy
        n_pairs = self.n_pairs_per_class
        if n_pairs is not None:
            n_pairs = check_count("n_pairs_per_class", n_pairs, least=2)
        return draw_pairs(
            strategy,
            fetched(samples.blocks) if strategy == "neighbors" else samples.blocks,
            samples.labels,
            samples.groups,
            n_pairs_per_class=n_pairs,
            n_neighbors=check_count("n_neighbors", self.n_neighbors),
            random_state=check_random(self.random_state),
            space=self._neighbor_space(prior, samples, units) if strategy == "neighbors" else None,
        )

    def _neighbor_space(
        self, prior: Prior, samples: LabelledSamples, units: Units
    ) -> NDArray[np.float64] | None:
        """Return the samples in the metric of the prior, to find neighbours; None for "auto"."""
        if isinstance(prior, str):
            check_choice("prior", prior, PRIORS)
        if isinstance(prior, str) and prior == "auto":
            return None
        within = within_classes(samples.blocks, samples.labels, units, self._n_images())
        factors = factors_by(prior_from_samples(prior, samples.blocks, within))
        return to_numpy(embed_blocks(factors, samples.blocks))

    def _draw_random_pairs(
        self, samples: LabelledSamples, strategy: Strategy | None = None
    ) -> Pairs:
        """Draw random pairs (or all), for results that must not depend on the parameter `pairs`."""
        if strategy is None:
            strategy = "all" if self.pairs == "all" else "random"
        return balanced(self._draw_pairs(samples, strategy=strategy))


class ThresholdMixin:
    """Mixin that learns the threshold of given distances by TATML's criterion."""

    margin: tuple[float, float]
    threshold_prior: float | None
    threshold_strength: float

    def _threshold_settings(self) -> tuple[tuple[float, float], float]:
        """Return the checked margin and strength; check the prior of the threshold too."""
        margin = check_margin(self.margin)
        if self.threshold_prior is not None:
            check_threshold("threshold_prior", self.threshold_prior)
        return margin, check_positive("threshold_strength", self.threshold_strength)

    def _learn_threshold(self, distances: NDArray[np.float64], pairs: Pairs) -> None:
        margin, strength = self._threshold_settings()
        self.b0_ = learn_b0_from_distances(distances, pairs, margin, self.threshold_prior, strength)
        self.threshold_ = threshold_of(self.b0_, margin)
        self.pair_weights_ = pairs.weights
        counts = pair_weights(pairs) > 0
        warn_if_one_sided(distances[counts], pairs.similar[counts], self.threshold_)


class LabelThresholdMixin(ThresholdMixin, LabelPairsMixin, MetricMixin):
    """Mixin that learns the threshold of a fitted metric, from pairs drawn from labels."""

    def _learn_from(self, blocks: Blocks, pairs: Pairs) -> None:
        """Store the drawn pairs, and learn the threshold of their distances."""
        self.pairs_, self.similar_ = pairs.index, pairs.similar
        self._learn_threshold(self._distances(blocks, pairs.index), balanced(pairs))


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


def pair_weights(pairs: Pairs) -> NDArray[np.float64]:
    """Return the weights w_k of the pairs, ones by default."""
    return np.ones(len(pairs)) if pairs.weights is None else pairs.weights


def within_classes(
    blocks: Blocks, labels: NDArray[np.intp], units: Units = "columns", n_images: int = 0
) -> WithinClasses:
    """Return the samples minus the mean of their class; the last blocks may be kernel images."""

    def deviations_of(array: Array) -> Array:
        return minus_class_means(array, labels)

    narrow = _of_narrow(blocks, deviations_of)
    variances_of = partial(SparseBlock.variances_within, labels=labels)
    return WithinClasses(narrow, units, len(labels), deviations_of, variances_of, n_images)


def within_pairs(blocks: Blocks, pairs: Pairs, n_images: int = 0) -> WithinClasses:
    """Return the differences of similar pairs over √2, whose scatter is that within classes.

    A pair that is given several times counts once.
    """
    index = np.sort(pairs.index[pairs.similar & (pair_weights(pairs) > 0)], axis=1)
    first, second = np.divmod(np.unique(index[:, 0] * len(blocks) + index[:, 1]), len(blocks))

    def deviations_of(array: Array) -> Array:
        one, other = (
            namespace(array).take(array, asarray(n, array), axis=0) for n in (first, second)
        )
        return rows_of((one - other) / sqrt(2))

    def variances_of(block: SparseBlock) -> NDArray[np.float64]:
        return block.mean_squared_differences(first, second, np.full(len(first), 0.5 / len(first)))

    narrow = _of_narrow(blocks, deviations_of)
    return WithinClasses(narrow, "columns", len(first), deviations_of, variances_of, n_images)


def _of_narrow(blocks: Blocks, deviations_of: Deviations) -> list[Array | None]:
    """Return the deviations of each block; None for wide blocks, which are reduced first."""
    return [None if is_wide(array) else deviations_of(array) for array in blocks.arrays]


def prior_from_samples(prior: Prior, blocks: Blocks, within: WithinClasses) -> MetricPrior:
    """Return the prior of samples, scaled to their distances from the mean."""

    def over_samples(m: int) -> NDArray[np.float64]:
        array = blocks.arrays[m]
        return array.shape[2] * row_variances(array)[1]

    reduced = reduce_blocks(prior, blocks, within, over_samples, accurate=False)
    return prior_of(prior, reduced, sample_scatter(reduced.blocks))


def sample_scatter(blocks: Blocks) -> list[NDArray[np.float64]]:
    """Return the scatter of the samples around their mean in each block.

    The scatter of a constant block is zero, although its mean is rounded.
    """
    scatter = [array.shape[2] * mean_square(around_mean(array)) for array in blocks.arrays]
    for array, S in zip(blocks.arrays, scatter, strict=True):
        size = float(np.sum(to_numpy(array[:1, ...]) ** 2))
        if np.trace(S) <= ROUNDING * size and np.all(is_constant(array)):
            S[:] = 0.0
    return scatter


def factors_by(prior: MetricPrior) -> list[Factor]:
    """Return the linear maps after which Euclidean distances are those of the prior."""
    L = [np.linalg.cholesky(matrix).astype(np.float64, copy=False) for matrix in prior.matrices]
    return list(prior.factors(L))
