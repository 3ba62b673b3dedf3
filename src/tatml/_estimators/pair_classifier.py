"""PairClassifierMixin, the base of estimators fitted to pairs, and the weights of the pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import compute_sample_weight
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if

from .._data.pairs import Pairs, as_sample_weight
from .._messages import shown
from .._verification.calibration import check_both_count
from .given_labels import pair_labels
from .pair_judge import PairJudge, check_calibrated

CLASSES = np.array([-1, 1])


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
        """Return `threshold_` minus the distance, shape (n_pairs,): positive for the same."""
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
