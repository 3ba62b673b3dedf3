"""Euclidean: the Euclidean distance, with a threshold learnt by TATML's criterion."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from .._data.blocks import Blocks
from .._data.sampling import Strategy
from .._learning.baselines import euclidean_metric
from .metric import LabelEstimator
from .parameters import checked


@dataclass(eq=False, repr=False)
class Euclidean(LabelEstimator):
    """The Euclidean (Frobenius) distance with a learnt threshold: a baseline for TATML.

    The distance of two samples is √((1/M) Σ_m ‖Φ_m(x) − Φ_m(x')‖²), so W = I. If labels are given,
    the threshold is learnt from pairs drawn as in `TATML`; otherwise there is none.

    Parameters
    ----------
    threshold_prior : float or None, default=None
        The value that the threshold is pulled to, in the units of `pair_distance`. None: the root
        mean squared distance of the pairs.
    threshold_strength : float, default=1.0
        The strength ρ of this pull, relative to the mean loss of the pairs.
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d); see `TATML`.
    pairs, n_pairs_per_class, n_neighbors, n_components, preprocessor
        See `TATML`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw of pairs.

    Attributes
    ----------
    components_ : array of shape (n_components, n), or list of M such arrays
        The identity over √M, or `n_components` principal axes of the samples over √M.
    threshold_, b0_ : float
        The threshold in the units of `pair_distance`, and in squared units. Only after a fit with
        labels.
    pairs_, similar_ : arrays of shape (n_pairs, 2) and (n_pairs,)
        The pairs that the threshold was learnt from. Only after a fit with labels.
    block_shapes_, n_features_in_, feature_names_in_
        See `TATML`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tatml import Euclidean
    >>> X, y = load_iris(return_X_y=True)
    >>> euclidean = Euclidean(random_state=0).fit(X, y)
    >>> euclidean.pair_distance([[[0, 0, 0, 0], [3, 4, 0, 0]]])
    array([5.])
    >>> euclidean.predict_pairs([[0, 1], [0, 149]], X)
    array([ 1, -1])
    """

    _: KW_ONLY
    threshold_prior: float | None = None
    threshold_strength: float = 1.0
    margin: tuple[float, float] = (0.5, 2.0)
    pairs: Strategy = "random"
    n_pairs_per_class: int | None = None
    n_neighbors: int = 3
    n_components: Any = None
    preprocessor: Any = None
    random_state: Any = None

    def fit(
        self,
        X: Blocks | ArrayLike,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the threshold if labels are given.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples.
        y : array-like of shape (n_samples,), optional
            Their class labels; at least two classes.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair is drawn from within a group.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; a pair has the product of both. Only their ratios matter, and a
            weight of 2 is the same as a second copy of the sample: see `TATML`.

        Returns
        -------
        self
        """
        with self._fitting():
            self._forget("pairs_", "similar_", "pair_weights_")
            settings = self._settings(checked(self))
            if y is None:
                blocks = self._read_samples(X)
                weights = self._read_weights(sample_weight, len(blocks))
                self._publish(euclidean_metric(blocks, None, settings, weights))
            else:
                samples = self._read_labelled(X, y, groups, sample_weight)
                self._publish(euclidean_metric(samples.blocks, samples, settings))
        return self

    def __sklearn_tags__(self) -> Any:
        """Return tags that do not require labels."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags
