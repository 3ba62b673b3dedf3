"""What a fitted metric depends on: its threshold on the sample, its distances on the features.

`tatml.plotting` draws the results of `feature_shares` and `permutation_importance`.
"""

from ._importance import PermutationImportance, permutation_importance
from ._intervals import threshold_interval
from ._shares import FeatureShares, feature_shares

__all__ = [
    "FeatureShares",
    "PermutationImportance",
    "feature_shares",
    "permutation_importance",
    "threshold_interval",
]
