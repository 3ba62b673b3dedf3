"""PairThreshold: learns only a threshold, for a given distance or score of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from types import SimpleNamespace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import paired_distances
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._data.blocks import Blocks
from .._data.pairs import Pairs, as_index
from .._learning.metric import CHUNK_NUMBERS, b0_of, learn_b0, threshold_of, warn_if_one_sided
from .._learning.priors import pair_weights
from .._messages import named_error
from .._validation import check_flag, check_metric
from .._verification.probabilities import fit_log_likelihood_ratio
from .inputs import given_distances, samples_of, tuple_samples
from .pair_judge import CLASSES, NAMES, PairClassifierMixin, make_labelled_pairs
from .parameters import DEFAULT_MARGIN, check_score, checked
from .posteriors import posterior_scores


def _has_distance(estimator: Any) -> bool:
    if estimator._is_score:
        raise AttributeError(
            "pair_distance: PairThreshold has a score of pairs here, which is no distance; use "
            "pair_score or predict_pairs"
        )
    return True


@dataclass(eq=False, repr=False)
class PairThreshold(PairClassifierMixin, BaseEstimator):
    """A threshold for a given distance or score, which separates similar from dissimilar pairs.

    Learns only the threshold, from pairs with labels ±1. Use it to verify pairs with any embedding,
    or with the scores of any other model: to calibrate, to promise rates, to report.

    The threshold of a distance has TATML's criterion: a squared hinge loss on both sides of a
    margin. That of a score, or of precomputed values of which some are negative in fit, is where a
    logistic regression on them finds both kinds of pairs equally likely.

    Parameters
    ----------
    metric : str or callable, default="euclidean"
        - "precomputed": the distance or the score of each pair is given in place of the pair. No
          fit is needed to report them, to calibrate or to set a threshold.
        - A metric of `sklearn.metrics.pairwise.paired_distances`: "euclidean", "cosine" (1 − cosine
          of the angle), "manhattan", another name.
        - A function of two samples that returns one number.
        - "posteriors", which is no metric but a score: the inner product of the class posteriors of
          both samples, by `classifier`. It is the probability that they are of one class, if all
          classes are known to the classifier.
    greater_is_same : bool, default=False
        Whether precomputed values, or those of a function, are scores of which the higher ones
        are more alike. They may have any sign.
    classifier : fitted classifier or None, default=None
        For "posteriors": a classifier with `predict_proba`. It is given the samples in the form in
        which `preprocessor` or `X` hold them, such as a data frame or a sparse array. Where the
        estimator is cloned, as in cross-validation, wrap it in `sklearn.frozen.FrozenEstimator`.
    threshold_prior : float or None, default=None
        The value that the threshold is pulled to, in the units of the distance. None: the root mean
        squared distance of the pairs. Scores, and values of any sign, need no pull.
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
        The threshold, in the units of the distance. For scores it is that of minus the score: pairs
        are the same if their score is above −`threshold_`.
    b0_ : float
        The threshold in squared units: b0 = threshold_² / √(γ_s γ_d). For scores, and for values of
        any sign, the threshold itself.
    any_sign_ : bool
        Whether there are no distances: scores, or precomputed values of which some were negative in
        fit.
    likelihood_ratio_, likelihood_table_, same_rate_
        See `TATMLPairs`.
    n_features_in_, block_shapes_
        See `TATML`. Not set for precomputed values and for "posteriors".

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

    Scores of another model, of which the higher ones are more alike:

    >>> scores = np.array([0.9, 0.8, -0.1, -0.2])
    >>> judge = PairThreshold("precomputed", greater_is_same=True).fit(scores, [1, 1, -1, -1])
    >>> judge.predict([0.7, 0.1])
    array([ 1, -1])
    >>> bool(0.1 < -judge.threshold_ < 0.7)
    True
    """

    metric: str | Callable = "euclidean"
    _: KW_ONLY
    greater_is_same: bool = False
    classifier: Any = None
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
            Pairs of samples, index pairs with a preprocessor, or precomputed distances or scores.
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
            values = self._values(pairs, reset=True)
            distances = -values if self._is_score else values
            index = np.zeros((len(distances), 2), dtype=np.intp)
            chosen = make_labelled_pairs(index, y, parameters.class_weight, sample_weight)
            self.classes_, self.pair_weights_ = CLASSES.copy(), chosen.weights
            self.any_sign_ = self._is_score or bool(np.any(distances < 0))
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

    def __sklearn_is_fitted__(self) -> bool:
        """Whether pairs can be scored: precomputed values need no fit."""
        return self.metric == "precomputed" or hasattr(self, "classes_")

    @property
    def _is_score(self) -> bool:
        """Whether higher values are more alike."""
        return check_flag("greater_is_same", self.greater_is_same) or self.metric == "posteriors"

    @property
    def _signed_scores(self) -> bool:
        return self._is_score or getattr(self, "any_sign_", self.metric == "precomputed")

    def _dissimilarity(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        if self._is_score:
            check_is_fitted(self)
            return -self._values(pairs, X)
        return self.pair_distance(pairs, X)

    @available_if(_has_distance)
    def pair_distance(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Return the distance of each pair by `metric`, or its precomputed value, (n_pairs,).

        Scores are no distances: for them there is `pair_score` only.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n), (n_pairs, 2) or (n_pairs,)
            Pairs of samples, index pairs with `X` or a preprocessor, or precomputed distances.
        X : Blocks or array-like, optional
            The samples that index pairs refer to.
        """
        check_is_fitted(self)
        return self._values(pairs, X)

    def _values(self, pairs: Any, X: Any = None, *, reset: bool = False) -> NDArray[np.float64]:
        """Return the distance, the score or the precomputed value of each pair."""
        check_metric("metric", self.metric)
        check_score(self)
        if reset and self.metric in ("precomputed", "posteriors"):
            self._forget("n_features_in_", "block_shapes_", "feature_names_in_", *NAMES)
        if self.metric == "precomputed":
            if X is not None:
                raise ValueError("X: expected None with precomputed distances, got samples")
            return given_distances(pairs, any_sign=reset or self._signed_scores)
        if self.metric == "posteriors":
            return posterior_scores(self, pairs, X)
        if X is not None:
            blocks = samples_of(self, X, reset=False)
            return self._measure(blocks, as_index(pairs, len(blocks), allow_self=True))
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
        return given_distances(np.concatenate(distances), "metric", any_sign=self._is_score)

    def _paired(self, first: NDArray, second: NDArray) -> NDArray:
        try:
            with np.errstate(all="ignore"):  # given_distances refuses what is not finite
                return paired_distances(first, second, metric=self.metric)
        except Exception as error:  # a function of the user may raise anything
            named = named_error("metric", error)
            hint = "; expected a function of two samples that returns one number"
            raise type(named)(f"{named}{hint if callable(self.metric) else ''}") from error


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
