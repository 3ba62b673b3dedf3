"""Mixins that predict whether pairs are the same, by a distance or a score and its threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.utils import compute_sample_weight
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._data.blocks import Blocks
from .._data.pairs import Pairs, as_sample_weight
from .._messages import shown
from .._validation import check_between, check_choice, check_finite, check_not_negative
from .._verification.calibration import (
    calibrate,
    check_both_count,
    check_within_reach,
    find_few_units,
)
from .._verification.curves import (
    CURVE_METHODS,
    CurveMethod,
    fit_curve,
    is_line,
    ratio_at,
    says_nothing,
)
from .._verification.targets import (
    Calibration,
    CalibrationStrategy,
    Confidence,
    Guarantee,
    check_target,
)
from .._warnings import warn_user
from .inputs import count_rows, pair_labels, pair_units

# What was calibrated for the metric of an earlier fit: the threshold, and the probabilities.
CALIBRATED = ("calibration_", "likelihood_ratio_", "likelihood_table_", "same_rate_")
# The names of the blocks, and of the rows of each block, if fit saw Blocks that have some.
NAMES = ("block_names_in_", "row_names_in_")
CLASSES = np.array([-1, 1])


class PairJudge(ABC):
    """Mixin that predicts whether pairs are the same, by a distance and its threshold.

    What the threshold is compared with is `_dissimilarity`: the distance, or with a midpoint minus
    the score, which may have any sign.

    `calibrate_probability` sets two attributes, and a new fit deletes them:

    likelihood_ratio_ : array([a, b])
        The log-likelihood ratio of a pair at distance d, or with minus the score d, is a − b d,
        with b ≥ 0. It does not depend on how many pairs are the same; the probability adds the
        prior odds of `same_rate_`. Not set for a calibration that is no straight line.
    likelihood_table_ : array of shape (2, n_knots)
        The same for an isotonic or Gaussian calibration: increasing distances, and log-likelihood
        ratios, which do not increase; linear between two knots, constant beyond the ends.
    same_rate_ : float
        The assumed share of pairs that are the same.
    """

    threshold_: float
    calibration_: Calibration  # set by `calibrate_threshold`

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Forget earlier calibrations for a fit; if it raises, restore the estimator as it was."""
        before = dict(vars(self))
        self._forget(*CALIBRATED)
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _forget(self, *names: str) -> None:
        """Delete attributes of an earlier fit, if there are some."""
        for name in names:
            vars(self).pop(name, None)

    def _keep_shapes(self, blocks: Blocks) -> None:
        """Store the shapes and the names of the samples of a fit."""
        self._forget(*NAMES)
        self.n_features_in_, self.block_shapes_ = blocks.shape[1], blocks.block_shapes
        for name, value in zip(NAMES, (blocks.names, blocks.row_names), strict=True):
            if value is not None:
                setattr(self, name, value)

    @abstractmethod
    def pair_distance(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Return the distance of each pair, shape (n_pairs,)."""

    @property
    def _signed_scores(self) -> bool:
        """Whether `pair_score` may have any sign: then it is not minus a distance."""
        return False

    @property
    def _is_score(self) -> bool:
        """Whether the numbers of pairs are scores, of which the higher ones are more alike."""
        return self._signed_scores

    def _dissimilarity(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Return what `threshold_` is compared with: the distance, or minus the score."""
        return self.pair_distance(pairs, X)

    def pair_score(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Return the similarity of each pair, shape (n_pairs,): a higher score is more alike.

        It is minus the distance, or with a midpoint a score of any sign.
        """
        return -self._dissimilarity(pairs, X)

    def predict_pairs(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Predict which pairs are the same: distance, or minus the score, is below `threshold_`.

        Parameters
        ----------
        pairs, X
            As for `pair_score`.

        Returns
        -------
        int array of shape (n_pairs,)
            +1 for the same, −1 for different.
        """
        return np.where(self._margin_of(pairs, X) > 0, 1, -1)

    def _margin_of(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        check_is_fitted(self)
        if not hasattr(self, "threshold_"):
            raise NotFittedError(
                f"{type(self).__name__} has no threshold_, because it was fitted without labels: "
                "call calibrate_threshold with labelled pairs, or set_threshold with a number"
            )
        return self.threshold_ - self._dissimilarity(pairs, X)

    def set_threshold(self, threshold: float) -> Self:
        """Set `threshold_`, and forget an earlier calibration.

        Parameters
        ----------
        threshold : float
            At least 0: pairs are the same if their distance is smaller. With a midpoint a number of
            any sign: pairs are the same if minus their score is smaller.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        check = check_finite if self._signed_scores else check_not_negative
        self.threshold_ = check("threshold", threshold)
        vars(self).pop("calibration_", None)
        return self

    _validate_calibration_params = staticmethod(check_target)  # metric-learn's name

    def calibrate_threshold(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        strategy: CalibrationStrategy = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
        *,
        max_rate: float | None = None,
        same_rate: float | None = None,
        confidence: Confidence = "auto",
        guarantee: Guarantee = "approximate",
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        X: Blocks | ArrayLike | None = None,
    ) -> Self:
        """Set `threshold_` to the best threshold for a target on held-out pairs.

        Parameters
        ----------
        pairs, X
            As for `pair_score`. They must not be those that the metric was learnt from.
        y : array-like of shape (n_pairs,)
            +1 for the same, −1 for different; both must occur.
        strategy : str, default="accuracy"
            How the threshold is chosen:

            - "accuracy": it has the highest accuracy;
            - "f_beta": it has the highest F-score for `beta`;
            - "max_tpr": it has the highest true positive rate, with a true negative rate of at
              least `min_rate`;
            - "max_tnr": it has the highest true negative rate, with a true positive rate of at
              least `min_rate`;
            - "false_match_rate": it is the largest threshold with a false match rate of at most
              `max_rate`;
            - "false_non_match_rate": it is the smallest threshold with a false non-match rate of at
              most `max_rate`;
            - "precision": it is the largest threshold with a precision, the share of similar pairs
              among those that are predicted to be the same, of at least `min_rate`.
        min_rate, beta, max_rate : float
            See `strategy`.
        same_rate : float, optional
            For "precision": the share of pairs that are the same where the threshold is used.
            Default: that of the given pairs, which are drawn as those to come.
        confidence : float, None or "auto", default="auto"
            For strategies with `max_rate`: the confidence with which the *true* rate, that of
            pairs never seen, is at most `max_rate`. "auto" stands for 0.95. None sets the plain
            quantile: the largest threshold (for false non-matches the smallest) with which the
            rate holds on the given pairs. It is exceeded on others in about half of all cases.
            The confidence of "precision" is that the true precision is at least `min_rate`.
            "auto" and None are the same for other strategies.
        guarantee : {"approximate", "proved"}, default="approximate"
            What is done if pairs share samples or groups. "proved" uses pairs of disjoint samples
            or groups only, drawn at random: the promise is a theorem, but takes about 600 groups
            for a rate of 0.01. "approximate" uses all pairs, estimates what they are worth, and
            gives the identities the worst weights that their number does not contradict: it is no
            theorem. In simulations (confidence 0.95, rates of 0.1 and 0.01) the rate was exceeded
            in at most 7.0 % of all cases where the groups were enough, and in up to 11.3 % where
            they were too few: it cannot promise a rate where a kind of identities is missing from
            the groups by chance, which no pairs can tell. `calibration_.vouched_share` says for
            kinds of which share the groups vouch, and a warning says if there are so few groups
            that a kind that breaks the promise alone may be missing. See docs/verification.md.
        groups : array-like of shape (n_samples,) or (n_pairs, 2), optional
            The unit of dependence, for example the identity: one label per sample for index pairs,
            or one per member of each pair. Without it the units are the samples of index pairs. In
            pairs given as arrays equal rows are one sample, with a warning; if no row is in two
            pairs, or rows may repeat by chance, the pairs are taken to be independent.
        sample_weight : array-like of shape (n_pairs,), optional
            Weights of the pairs; they exclude a confidence.

        Returns
        -------
        self
            With `threshold_` and `calibration_`, a `tatml.verification.Calibration`.

        Raises
        ------
        ValueError
            If the pairs cannot promise the rate; it says how many independent pairs it takes.
        """
        check_is_fitted(self)
        target = check_target(  # before the distances: they may take long
            strategy,
            min_rate=min_rate,
            beta=beta,
            max_rate=max_rate,
            same_rate=same_rate,
            confidence=confidence,
            guarantee=guarantee,
            sample_weight=sample_weight,
        )
        units, similar, warning = None, None, None
        if target.is_promised or groups is not None:
            units, warning = pair_units(self, pairs, X, groups)
        if count_rows(pairs) > 0 and (target.is_promised or count_rows(y) == count_rows(pairs)):
            similar = pair_labels(y, count_rows(pairs))
        if similar is not None and target.is_promised:
            check_within_reach(similar, target, units)
        distances = self._dissimilarity(pairs, X)
        similar = pair_labels(y, len(distances)) if similar is None else similar
        if sample_weight is not None:
            sample_weight = as_sample_weight(sample_weight, len(distances))
        self.threshold_, self.calibration_ = calibrate(
            distances, similar, target, units, sample_weight
        )
        if warning:
            warn_user(warning)
        if target.is_promised and units is not None:
            few_units = find_few_units(similar, target, units)
            if few_units:
                warn_user(few_units)
        return self

    # Probabilities

    def calibrate_probability(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        *,
        method: CurveMethod = "logistic",
        groups: ArrayLike | None = None,
        same_rate: float | None = None,
        sample_weight: ArrayLike | None = None,
        X: Blocks | ArrayLike | None = None,
    ) -> Self:
        """Learn how the probability that a pair is the same depends on its distance or score.

        Both kinds of pairs have the same total weight, so the log-likelihood ratio does not depend
        on how many are the same. A larger distance is never more probable.

        Parameters
        ----------
        pairs, X
            Held-out pairs, as for `pair_score`. On the training pairs the probabilities would
            be too extreme.
        y : array-like of shape (n_pairs,)
            +1 for the same, −1 for different; both must occur.
        method : {"logistic", "isotonic", "gaussian", "auto"}, default="logistic"
            How the log-likelihood ratio depends on the distance, or on minus the score:

            - "logistic": a straight line, by the sigmoid calibration of scikit-learn, a logistic
              regression with Platt's targets;
            - "isotonic": any decreasing steps, by scikit-learn's isotonic regression (pool adjacent
              violators) with Platt's targets, which keep all probabilities away from 0 and 1;
            - "gaussian": that of two normal laws of the distances. Their variances differ, so it is
              a parabola; beyond its turning point, and beyond the given distances, it is kept
              constant;
            - "auto": the one of these that has the least log loss on held-out pairs, in five folds.
        groups : array-like of shape (n_samples,) or (n_pairs, 2), optional
            For "auto": the identities, which the folds then divide. One label per sample for index
            pairs, or one per member of each pair. Without it the folds divide the pairs.
        same_rate : float, optional
            The share of pairs that are the same where the estimator is used, between 0 and 1;
            `set_same_rate` changes it afterwards. Default: the share among the given pairs.
        sample_weight : array-like of shape (n_pairs,), optional
            Weights of the pairs.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if same_rate is not None:
            same_rate = check_between("same_rate", same_rate)  # before the scores
        check_choice("method", method, CURVE_METHODS)
        units = None
        if groups is not None:
            if method != "auto":
                raise ValueError(
                    f"groups: expected None with method={method!r}, got {shown(groups)}; they "
                    "divide the pairs for method='auto'"
                )
            units = pair_units(self, pairs, X, groups)[0]
        if count_rows(pairs) == count_rows(y) > 0:
            pair_labels(y, count_rows(pairs))
        distances = self._dissimilarity(pairs, X)
        similar = pair_labels(y, len(distances))
        weights = np.ones(len(distances))
        if sample_weight is not None:
            weights = as_sample_weight(sample_weight, len(distances))
            check_both_count(similar, weights)
        curve = fit_curve(distances, similar, weights, method, units)
        if says_nothing(curve):
            warn_user(
                "pairs: expected similar pairs to have higher scores than dissimilar pairs, got "
                "the opposite: the log-likelihood ratio of all pairs is set to 0"
            )
        if same_rate is None:
            same_rate = float(weights[similar].sum() / weights.sum())
        self._forget("likelihood_ratio_", "likelihood_table_")
        setattr(self, "likelihood_ratio_" if is_line(curve) else "likelihood_table_", curve)
        self.same_rate_ = same_rate
        return self

    def set_same_rate(self, same_rate: float) -> Self:
        """Set `same_rate_`, the share of pairs that are the same: it shifts the log odds.

        Parameters
        ----------
        same_rate : float
            A number between 0 and 1, both excluded.

        Returns
        -------
        self
        """
        check_calibrated(self)
        self.same_rate_ = check_between("same_rate", same_rate)
        return self

    def pair_log_likelihood_ratio(
        self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None
    ) -> NDArray:
        """Return how much more likely the score of each pair is if the pair is the same.

        Parameters
        ----------
        pairs, X
            As for `pair_score`.

        Returns
        -------
        array of shape (n_pairs,)
            log p(score | same) − log p(score | different), natural logarithms. It does not depend
            on `same_rate_`.
        """
        check_calibrated(self)
        return ratio_at(likelihood_of(self), self._dissimilarity(pairs, X))

    def pair_probability(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Return the probability that each pair is the same.

        Parameters
        ----------
        pairs, X
            As for `pair_score`.

        Returns
        -------
        array of shape (n_pairs,)
            Its log odds are the log-likelihood ratio plus the log odds of `same_rate_`.
        """
        return expit(self._log_odds(pairs, X))

    def _log_odds(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        return self.pair_log_likelihood_ratio(pairs, X) + logit(self.same_rate_)


def likelihood_of(estimator: Any) -> Any:
    """Return the curve of the log-likelihood ratio of an estimator; None without a calibration."""
    found = getattr(estimator, "likelihood_table_", None)
    return getattr(estimator, "likelihood_ratio_", None) if found is None else found


def check_calibrated(estimator: Any) -> bool:
    """Return True if the estimator has calibrated probabilities, and raise an error otherwise."""
    check_is_fitted(estimator)
    if likelihood_of(estimator) is None:
        raise NotFittedError(
            f"{type(estimator).__name__} has no probabilities: call calibrate_probability with "
            "held-out pairs"
        )
    return True


def make_labelled_pairs(
    index: NDArray[np.intp], y: Any, class_weight: Any, sample_weight: Any
) -> Pairs:
    """Return index pairs with labels ±1, weighted by class and by pair."""
    similar = pair_labels(y, len(index))
    weights = None
    if sample_weight is not None:
        weights = as_sample_weight(sample_weight, len(index))
        check_both_count(similar, weights)
    if class_weight is not None:
        try:
            by_class = compute_sample_weight(class_weight, np.where(similar, 1, -1))
        except Exception as error:  # scikit-learn's message does not name class_weight
            raise ValueError(
                "class_weight: expected 'balanced', None or a dict of weights for -1 and 1, got "
                f"{shown(class_weight)}"
            ) from error
        by_class = as_sample_weight(by_class, len(index), "class_weight")
        check_both_count(similar, by_class, "class_weight")
        if weights is not None and isinstance(class_weight, str):
            # "balanced": balance the total weights, not the counts.
            totals = np.where(similar, weights[similar].sum(), weights[~similar].sum())
            by_class = 0.5 * weights.sum() / totals
        weights = by_class if weights is None else by_class * weights
    return Pairs(np.asfortranarray(index), similar, weights)


class PairClassifierMixin(PairJudge, ClassifierMixin):
    """Mixin of classifiers of pairs: +1 for the same, −1 for different."""

    _tuples_name: ClassVar[str] = "pairs"

    # Pairs take the place of X, so they are not metadata to be routed.
    __metadata_request__fit = {"pairs": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"pairs": UNUSED}  # noqa: RUF012
    __metadata_request__predict_proba = {"pairs": UNUSED}  # noqa: RUF012
    __metadata_request__decision_function = {"pairs": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"pairs": UNUSED}  # noqa: RUF012

    def predict(self, pairs: ArrayLike) -> NDArray:
        """Predict +1 for pairs that are the same and −1 for the others, shape (n_pairs,)."""
        return self.predict_pairs(pairs)

    def decision_function(self, pairs: ArrayLike) -> NDArray:
        """Return `threshold_` minus the distance, or plus the score: positive for the same."""
        return self._margin_of(pairs)

    @available_if(check_calibrated)
    def predict_proba(self, pairs: ArrayLike) -> NDArray:
        """Return the probabilities of −1 and +1 for each pair, shape (n_pairs, 2).

        Only after `calibrate_probability`.
        """
        log_odds = self._log_odds(pairs)
        return expit(np.stack([-log_odds, log_odds], axis=1))

    def score(
        self, pairs: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the area under the ROC curve of `pair_score`; it does not use the threshold."""
        scores = self.pair_score(pairs)
        similar = pair_labels(y, len(scores))
        if sample_weight is not None:
            sample_weight = as_sample_weight(sample_weight, len(scores))
            check_both_count(similar, sample_weight)
        return roc_auc_score(similar, scores, sample_weight=sample_weight)

    def __sklearn_tags__(self) -> Any:
        """Return tags that allow pairs as samples and two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.two_d_array = self.preprocessor is not None
        tags.input_tags.three_d_array = True
        return tags
