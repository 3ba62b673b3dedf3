"""PairThreshold: learns only a threshold, for a given distance of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from types import SimpleNamespace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import paired_distances
from sklearn.utils.validation import check_is_fitted

from .._data.blocks import Blocks
from .._data.pairs import Pairs, as_index
from .._learning.metric import CHUNK_NUMBERS, b0_of, learn_b0, threshold_of, warn_if_one_sided
from .._learning.priors import pair_weights
from .._messages import named_error
from .._validation import check_metric
from .._verification.probabilities import fit_log_likelihood_ratio
from .inputs import given_distances, samples_of, tuple_samples
from .pair_judge import CLASSES, NAMES, PairClassifierMixin, make_labelled_pairs
from .parameters import DEFAULT_MARGIN, checked


@dataclass(eq=False, repr=False)
class PairThreshold(PairClassifierMixin, BaseEstimator):
    """A threshold for a given distance, which separates similar from dissimilar pairs.

    Learns only the threshold, from pairs with labels ±1, by TATML's criterion: a squared hinge
    loss on both sides of a margin. Use it to verify pairs with any embedding, or with scores of any
    sign, such as those of another model: give minus the scores as precomputed values.

    Parameters
    ----------
    metric : str or callable, default="euclidean"
        "precomputed", or a metric of `sklearn.metrics.pairwise.paired_distances`: "euclidean",
        "cosine" (1 − cosine of the angle), "manhattan", another name, or a function. If precomputed
        values in fit are negative, they are no distances, and have no squares: the threshold is
        then where a logistic regression on the values finds both kinds of pairs equally likely.
    threshold_prior : float or None, default=None
        The value that the threshold is pulled to, in the units of the distance. None: the root mean
        squared distance of the pairs. Values of any sign need no pull.
    threshold_strength : float, default=1.0
        The strength ρ of this pull, relative to the mean loss of the pairs.
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d), for squared distances; see `TATML`.
    class_weight : dict, "balanced" or None, default="balanced"
        Weights of the classes −1 and 1; see `TATMLPairs`.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples of index pairs; see `TATMLPairs`. Samples of several matrices
        are treated as one vector of all their entries.

    Attributes
    ----------
    classes_ : array([-1, 1])
        −1 for different, 1 for the same.
    threshold_ : float
        The threshold, in the units of the distance.
    b0_ : float
        The threshold in squared units: b0 = threshold_² / √(γ_s γ_d). For values of any sign, the
        threshold itself.
    any_sign_ : bool
        Whether precomputed values in fit were negative, so that they are no distances.
    likelihood_ratio_, same_rate_
        See `TATMLPairs`.
    n_features_in_, block_shapes_
        See `TATML`. Not set for precomputed distances.

    See Also
    --------
    TATMLPairs : Learns the metric as well.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> distances = np.array([0.1, 0.2, 0.3, 0.9, 1.0, 1.4])
    >>> y = np.array([1, 1, 1, -1, -1, -1])
    >>> judge = PairThreshold(metric="precomputed").fit(distances, y)
    >>> judge.predict([0.25, 1.1])
    array([ 1, -1])
    >>> bool(0.3 < judge.threshold_ < 0.9)
    True
    """

    metric: str | Callable = "euclidean"
    _: KW_ONLY
    threshold_prior: float | None = None
    threshold_strength: float = 1.0
    margin: tuple[float, float] = (0.5, 2.0)
    class_weight: dict[int, float] | Literal["balanced"] | None = "balanced"
    preprocessor: Any = None

    def fit(self, pairs: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the threshold.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n), (n_pairs, 2) or (n_pairs,)
            Pairs of samples, index pairs with a preprocessor, or precomputed distances.
        y : array-like of shape (n_pairs,)
            +1 for the same, −1 for different.
        sample_weight : array-like of shape (n_pairs,), optional
            Weights of the pairs.

        Returns
        -------
        self
        """
        with self._fitting():
            parameters = checked(self)
            distances = self._distances(pairs, reset=True)
            index = np.zeros((len(distances), 2), dtype=np.intp)
            chosen = make_labelled_pairs(index, y, parameters.class_weight, sample_weight)
            self.classes_, self.pair_weights_ = CLASSES.copy(), chosen.weights
            self.any_sign_ = bool(np.any(distances < 0))
            if self.any_sign_:
                self.b0_ = _threshold_of_any_sign(distances, chosen, parameters)
                self.threshold_ = self.b0_
            else:
                margin, centre = parameters.margin, parameters.threshold_prior
                mu0 = None if centre is None else b0_of(centre, margin)
                strength = parameters.threshold_strength
                self.b0_ = learn_b0(distances**2, chosen, margin, strength, mu0)
                self.threshold_ = threshold_of(self.b0_, margin)
            counts = pair_weights(chosen) > 0
            warn_if_one_sided(distances[counts], chosen.similar[counts], self.threshold_)
        return self

    @property
    def _signed_scores(self) -> bool:
        return getattr(self, "any_sign_", False)

    def pair_distance(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Return the distance of each pair by `metric`, or its precomputed value, (n_pairs,).

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n), (n_pairs, 2) or (n_pairs,)
            Pairs of samples, index pairs with `X` or a preprocessor, or precomputed distances.
        X : Blocks or array-like, optional
            The samples that index pairs refer to.
        """
        check_is_fitted(self)
        check_metric("metric", self.metric)
        if X is None:
            return self._distances(pairs, reset=False)
        if self.metric == "precomputed":
            raise ValueError("X: expected None with precomputed distances, got samples")
        blocks = samples_of(self, X, reset=False)
        return self._measure(blocks, as_index(pairs, len(blocks), allow_self=True))

    def _distances(self, pairs: Any, *, reset: bool) -> NDArray[np.float64]:
        if self.metric == "precomputed":
            if reset:
                self._forget("n_features_in_", "block_shapes_", "feature_names_in_", *NAMES)
            return given_distances(pairs, any_sign=reset or self._signed_scores)
        blocks, index = tuple_samples(self, pairs, "pairs", reset=reset)
        if reset:
            self._keep_shapes(blocks)
        return self._measure(blocks, index)

    def _measure(
        self, blocks: Blocks, index: NDArray[np.intp], chunk_numbers: int = CHUNK_NUMBERS
    ) -> NDArray[np.float64]:
        rows = np.concatenate([a.reshape(len(a), -1) for a in blocks.arrays], axis=1)
        rows = rows.astype(np.float64, copy=False)
        distances = [np.empty(0)]
        step = max(1, chunk_numbers // rows.shape[1])
        for start in range(0, len(index), step):
            i, j = index[start : start + step].T
            distances.append(self._paired(rows[i], rows[j]))
        return given_distances(np.concatenate(distances), "metric")

    def _paired(self, first: NDArray, second: NDArray) -> NDArray:
        try:
            with np.errstate(all="ignore"):  # given_distances refuses what is not finite
                return paired_distances(first, second, metric=self.metric)
        except Exception as error:  # a function of the user may raise anything
            raise named_error("metric", error) from error


def _threshold_of_any_sign(values: NDArray, pairs: Pairs, parameters: SimpleNamespace) -> float:
    """Return where pairs of both kinds are equally likely, given the weights of the pairs.

    Where similar pairs have the higher values, no threshold is better than the mean.
    """
    usual = {"threshold_prior": None, "margin": DEFAULT_MARGIN}
    for name, default in usual.items():
        given = getattr(parameters, name)
        if given != default:
            raise ValueError(
                f"{name}: expected {default} for values of any sign, which are no distances, got "
                f"{given}"
            )
    weights = pair_weights(pairs)
    a, b = fit_log_likelihood_ratio(values, pairs.similar, weights)
    if b == 0:
        return float(np.average(values, weights=weights))
    odds = weights[pairs.similar].sum() / weights[~pairs.similar].sum()
    return float((a + np.log(odds)) / b)
