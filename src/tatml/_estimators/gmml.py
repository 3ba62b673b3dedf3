"""GMML: Geometric Mean Metric Learning, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from .._data.blocks import Blocks
from .._data.sampling import Strategy
from .._learning.baselines import learn_geometric_mean
from .._learning.priors import PriorName
from .metric import LabelEstimator
from .parameters import checked


@dataclass(eq=False, repr=False)
class GMML(LabelEstimator):
    """Geometric Mean Metric Learning from labelled samples.

    The metric of each block is a point on the geodesic from the inverse of the scatter S of similar
    pairs to the scatter D of dissimilar pairs, W = S⁻¹ #_t D (Zadeh, Hosseini, Sra, 2016). For
    t = 1/2 it is their geometric mean, which minimises tr(W S) + tr(W⁻¹ D). It is computed in
    closed form, without iterations. The geodesic depends on the coordinates: GMML uses those in
    which the prior is the identity.

    Parameters
    ----------
    t : float, default=0.5
        The position on the geodesic, from 0 (only similar pairs matter) to 1 (only dissimilar pairs
        matter).
    regularization : float, default=0.01
        λ in S + λ s W0⁻¹/n and D + λ s W0⁻¹/n, where s is the mean of tr(W0 S) and tr(W0 D). It
        makes both matrices invertible.
    prior : {"auto", "diagonal", "scaled", "identity", "covariance", "within", "discriminant"}, \
            default="auto"
        W0; see `TATML`.
    pairs, n_pairs_per_class, n_neighbors, n_components, preprocessor
        See `TATML`.
    threshold_prior, threshold_strength, margin
        GMML itself has no threshold. `threshold_` is learnt afterwards; see `Euclidean`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw of pairs.

    Attributes
    ----------
    components_ : array of shape (n_components, n), or list of M such arrays
        The linear maps that `transform` applies, scaled so that the mean squared distance of the
        pairs is 1 in each block.
    threshold_, b0_, pairs_, similar_, prior_, block_shapes_, n_features_in_
        See `TATML`.

    References
    ----------
    P. H. Zadeh, R. Hosseini, S. Sra. Geometric mean metric learning. ICML 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tatml import GMML
    >>> X, y = load_wine(return_X_y=True)
    >>> GMML(random_state=0).fit(X, y).transform(X).shape
    (178, 13)
    """

    t: float = 0.5
    _: KW_ONLY
    regularization: float = 0.01
    prior: PriorName = "auto"
    pairs: Strategy = "random"
    n_pairs_per_class: int | None = None
    n_neighbors: int = 3
    n_components: int | Sequence[int] | None = None
    preprocessor: Any = None
    threshold_prior: float | None = None
    threshold_strength: float = 1.0
    margin: tuple[float, float] = (0.5, 2.0)
    random_state: Any = None

    def fit(
        self,
        X: Blocks | ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Compute the metric, and learn the threshold.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples.
        y : array-like of shape (n_samples,)
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
            parameters = checked(self)
            settings = self._settings(parameters)
            samples = self._read_labelled(X, y, groups, sample_weight)
            self._publish(learn_geometric_mean(samples, settings, parameters))
        return self
