"""Learning from pairs: TATMLPairs (metric and threshold) and PairThreshold (threshold alone)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import paired_distances
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from .._data.blocks import Blocks
from .._data.pairs import Pairs, as_sample_weight
from .._learn_metric import warn_unless_converged
from .._messages import named_error, shown
from .._optim.solvers import SolverLike
from .._validation import check_metric
from .inputs import (
    forget_samples,
    given_distances,
    index_pairs,
    pair_labels,
    pair_samples,
    samples_of,
    unchanged_on_error,
)
from .label_mixins import Prior, ThresholdMixin
from .logdet_learner import LogDetLearner, within_pairs
from .metric import CHUNK_NUMBERS, PairClassifierMixin

__all__ = ["PairThreshold", "TATMLPairs"]

CALIBRATION_PARAMS = {"strategy", "min_rate", "beta", "max_rate", "sample_weight"}
CLASSES = np.array([-1, 1])


class _NotForPairs:
    """A method of transformers that what is fitted on pairs does not have."""

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise AttributeError(
            "fit_transform: TATMLPairs is fitted on pairs and transforms samples; call fit(pairs, "
            "y), then transform(X)"
        )


class TATMLPairs(PairClassifierMixin, LogDetLearner):
    """Threshold Auto-Tuning Metric Learning from pairs that are the same or different.

    Learns a metric and its threshold from pairs of samples that are known to be similar (+1) or
    dissimilar (−1), as one convex problem with a certificate. As a classifier of pairs it answers
    for new ones; as a metric it transforms samples.

    Parameters
    ----------
    C : float, default=1000.0
        Weight of the pairs against the prior: of their *mean* loss, or of its sum with
        ``reduction="sum"``; see `TATML`.
    threshold : "auto" or float, default="auto"
        "auto" learns the threshold (b0); a number fixes it, in the units of `pair_distance`.
    threshold_prior : float or None, default=None
        Where the threshold is pulled to (μ0), in the units of `pair_distance`. None: the root mean
        square of the pairs' distances under the prior.
    threshold_strength : float, default=1.0
        How strongly it is pulled there (ρ of c0 = ρ c Σ w).
    c0 : float or None, default=None
        The strength as an absolute number instead.
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d); see `TATML`.
    prior : str, or list of M arrays of shape (n_m, n_m), default="auto"
        The metric to stay close to (W0); see `TATML`. "within" and "discriminant" take
        the shrunk scatter of the differences of similar pairs for the scatter within classes.
    class_weight : dict, "balanced" or None, default="balanced"
        Weights of the classes −1 and 1. "balanced" gives both the same total weight, so that the
        threshold is where both kinds of error count the same, however many pairs of each kind were
        given; with None every pair counts the same.
    reduction : {"mean", "sum"}, default="mean"
        Whether C weighs the mean or the sum of the pairs' losses.
    n_components : int, sequence of M int, or None, default=None
        Rows of `components_` in each block; see `TATML`.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples of index pairs: an array or Blocks that is indexed, or a function
        of an array of indicators that returns one of these. This is the way to give pairs of
        samples that are several matrices.
    solver, tol, warm_start, random_state, verbose
        See `TATML`.

    Attributes
    ----------
    classes_ : array([-1, 1])
        Different, and the same.
    pairs_ : int array of shape (n_pairs, 2)
        The pairs as indices into the samples, in the order in which they were given; with a
        preprocessor into the sorted distinct indicators.
    similar_ : bool array of shape (n_pairs,)
        Which of them are similar.
    components_, threshold_, b0_, result_, prior_, block_shapes_, n_iter_, n_features_in_
        See `TATML`.

    See Also
    --------
    PairThreshold : keeps a given distance and learns the threshold alone.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import TATMLPairs
    >>> rng = np.random.default_rng(0)
    >>> same = rng.random(500) < 0.5
    >>> a = rng.normal(size=(500, 4))
    >>> b = rng.normal(size=(500, 4))  # only the first number tells the same from different
    >>> b[:, 0] = a[:, 0] + np.where(same, 0.1, 2.0) * rng.normal(size=500)
    >>> pairs, y = np.stack([a, b], axis=1), np.where(same, 1, -1)
    >>> verifier = TATMLPairs().fit(pairs[:400], y[:400])
    >>> bool(verifier.score(pairs[400:], y[400:]) > 0.9)
    True
    >>> bool(np.mean(verifier.predict(pairs[400:]) == y[400:]) > 0.85)
    True
    """

    def __init__(
        self,
        C: float = 1000.0,
        *,
        threshold: Literal["auto"] | float = "auto",
        threshold_prior: float | None = None,
        threshold_strength: float = 1.0,
        c0: float | None = None,
        margin: tuple[float, float] = (0.5, 2.0),
        prior: Prior = "auto",
        class_weight: dict[int, float] | Literal["balanced"] | None = "balanced",
        reduction: Literal["mean", "sum"] = "mean",
        n_components: int | Sequence[int] | None = None,
        preprocessor: Any = None,
        solver: SolverLike = "newton",
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.C = C
        self.threshold = threshold
        self.threshold_prior = threshold_prior
        self.threshold_strength = threshold_strength
        self.c0 = c0
        self.margin = margin
        self.prior = prior
        self.class_weight = class_weight
        self.reduction = reduction
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.solver = solver
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        calibration_params: dict[str, Any] | None = None,
    ) -> Self:
        """Learn the metric and the threshold.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n) or (n_pairs, 2, n, n')
            Pairs of vectors or matrices; or, with a preprocessor, of indicators: (n_pairs, 2).
        y : array-like of shape (n_pairs,)
            +1 for the same, −1 for different.
        sample_weight : array-like of shape (n_pairs,), optional
            How much each pair counts.
        calibration_params : dict, optional
            If given, `calibrate_threshold` is called with it on the same pairs, and its threshold
            takes the place of the learnt one. Better to call it on pairs that were held out.
        """
        if calibration_params is not None:
            calibration_params = self._checked_calibration(calibration_params)
        with unchanged_on_error(self):
            threshold = self._given_threshold()
            blocks, index = pair_samples(self, pairs, reset=True)
            chosen = labelled_pairs(index, y, self.class_weight, sample_weight)
            self.classes_ = CLASSES.copy()
            counted = samples_that_count(blocks, chosen)
            result = self._learn(blocks, chosen, within_pairs(blocks, chosen), threshold, counted)
            if calibration_params is not None:
                options = {"sample_weight": sample_weight} | calibration_params
                self.calibrate_threshold(pairs, y, **options)
        warn_unless_converged(result)
        return self

    def _checked_calibration(self, calibration_params: Any) -> dict[str, Any]:
        try:
            calibration_params = dict(calibration_params)
        except Exception as error:
            raise TypeError(
                f"calibration_params: expected a dict, got {shown(calibration_params)}"
            ) from error
        if not set(calibration_params) <= CALIBRATION_PARAMS:
            raise ValueError(
                f"calibration_params: expected some of {', '.join(sorted(CALIBRATION_PARAMS))}, "
                f"got {shown(calibration_params)}"
            )
        try:
            self._validate_calibration_params(**calibration_params)
        except (TypeError, ValueError) as error:
            raise type(error)(f"calibration_params: {error}") from error
        return calibration_params

    _samples_name = "pairs"
    fit_transform = _NotForPairs()


class PairThreshold(ThresholdMixin, PairClassifierMixin, BaseEstimator):
    """A threshold for a distance that stays as it is: same or different, on any embedding.

    Learns from pairs with labels ±1 only where to put the threshold, by the criterion by which
    TATML tunes its own: the squared hinge on both sides of a margin.

    Parameters
    ----------
    metric : str or callable, default="euclidean"
        "euclidean", "cosine" (1 − cosine of the angle), "manhattan" or another name or function
        that `sklearn.metrics.pairwise.paired_distances` knows; or "precomputed".
    threshold_prior : float or None, default=None
        Where the threshold is pulled to, in the units of the distance. None: the root mean square
        of the distances.
    threshold_strength : float, default=1.0
        How strongly (ρ).
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d), for squared distances; see `TATML`.
    class_weight : dict, "balanced" or None, default="balanced"
        Weights of the classes −1 and 1; see `TATMLPairs`.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples of index pairs; see `TATMLPairs`. Samples of several matrices
        count as one long vector: all their entries.

    Attributes
    ----------
    classes_ : array([-1, 1])
        Different, and the same.
    threshold_ : float
        The threshold, in the units of the distance.
    b0_ : float
        The same in squared units: threshold_² over √(γ_s γ_d).
    n_features_in_, block_shapes_
        See `TATML`; not for precomputed distances.

    See Also
    --------
    TATMLPairs : learns the metric as well.

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

    def __init__(
        self,
        metric: str | Callable = "euclidean",
        *,
        threshold_prior: float | None = None,
        threshold_strength: float = 1.0,
        margin: tuple[float, float] = (0.5, 2.0),
        class_weight: dict[int, float] | Literal["balanced"] | None = "balanced",
        preprocessor: Any = None,
    ):
        self.metric = metric
        self.threshold_prior = threshold_prior
        self.threshold_strength = threshold_strength
        self.margin = margin
        self.class_weight = class_weight
        self.preprocessor = preprocessor

    def fit(self, pairs: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the threshold.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n), (n_pairs, 2) or (n_pairs,)
            Pairs of samples, index pairs with a preprocessor, or precomputed distances.
        y : array-like of shape (n_pairs,)
            +1 for the same, −1 for different.
        sample_weight : array-like of shape (n_pairs,), optional
            How much each pair counts.
        """
        with unchanged_on_error(self):
            distances = self._distances(pairs, reset=True)
            index = np.zeros((len(distances), 2), dtype=np.intp)
            chosen = labelled_pairs(index, y, self.class_weight, sample_weight)
            self.classes_ = CLASSES.copy()
            self._learn_threshold(distances, chosen)
        return self

    def pair_distance(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """The distance of each pair, shape (n_pairs,), as `metric` has it."""
        check_is_fitted(self)
        if X is None:
            return self._distances(pairs, reset=False)
        check_metric(self.metric)
        if self.metric == "precomputed":
            raise ValueError("X: expected None with precomputed distances, got samples")
        blocks = samples_of(self, X, reset=False)
        return self._measure(blocks, index_pairs(pairs, len(blocks)))

    def _distances(self, pairs: Any, *, reset: bool) -> NDArray[np.float64]:
        check_metric(self.metric)
        if self.metric == "precomputed":
            if reset:
                forget_samples(self)
            return given_distances(pairs)
        return self._measure(*pair_samples(self, pairs, reset=reset))

    def _measure(self, blocks: Blocks, index: NDArray[np.intp]) -> NDArray[np.float64]:
        rows = np.concatenate([a.reshape(len(a), -1) for a in blocks.arrays], axis=1)
        rows = rows.astype(np.float64, copy=False)
        distances = [np.empty(0)]
        step = max(1, CHUNK_NUMBERS // rows.shape[1])
        for start in range(0, len(index), step):
            i, j = index[start : start + step].T
            distances.append(self._paired(rows[i], rows[j]))
        return given_distances(np.concatenate(distances), "metric")

    def _paired(self, first: NDArray, second: NDArray) -> NDArray:
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused
                return paired_distances(first, second, metric=self.metric)
        except (TypeError, ValueError, OverflowError) as error:  # of what a function returned
            raise named_error("metric", error) from error


def labelled_pairs(index: NDArray[np.intp], y: Any, class_weight: Any, sample_weight: Any) -> Pairs:
    """Index pairs with labels ±1 and the weights that both parameters give."""
    similar = pair_labels(y, len(index))
    weights = None
    if sample_weight is not None:
        weights = as_sample_weight(sample_weight, len(index))
        _check_both_count(weights, similar, "sample_weight")
    if class_weight is not None:
        try:
            by_class = compute_sample_weight(class_weight, np.where(similar, 1, -1))
        except Exception as error:  # of scikit-learn, in words of its own
            raise ValueError(
                "class_weight: expected 'balanced', None or a dict of weights for -1 and 1, got "
                f"{shown(class_weight)}"
            ) from error
        by_class = as_sample_weight(by_class, len(index), "class_weight")
        _check_both_count(by_class, similar, "class_weight")
        if weights is not None and isinstance(class_weight, str):  # balance weights, not numbers
            totals = np.where(similar, weights[similar].sum(), weights[~similar].sum())
            by_class = 0.5 * weights.sum() / totals
        weights = by_class if weights is None else by_class * weights
    return Pairs(np.asfortranarray(index), similar, weights)


def _check_both_count(weights: NDArray[np.float64], similar: NDArray[np.bool_], name: str) -> None:
    if not (weights[similar].any() and weights[~similar].any()):
        raise ValueError(
            f"{name}: expected weights that leave similar and dissimilar pairs, got zero for all "
            "of one class"
        )


def samples_that_count(blocks: Blocks, pairs: Pairs) -> Blocks:
    """Those of pairs with a positive weight: the others are as if they were not given."""
    if pairs.weights is None or pairs.weights.all():
        return blocks
    return blocks[np.unique(pairs.index[pairs.weights > 0])]
