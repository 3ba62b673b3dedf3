"""What a fitted metric depends on: its threshold on the sample, its distances on the features.

`tatml.plotting` draws the results of `feature_shares` and `permutation_importance`, and
`compare_importance` says why they disagree.
"""

from ._comparison import ImportanceComparison, compare_importance
from ._features import FeatureShares, PermutationImportance, feature_shares, permutation_importance
from ._intervals import threshold_interval

__all__ = [
    "FeatureShares",
    "ImportanceComparison",
    "PermutationImportance",
    "compare_importance",
    "feature_shares",
    "permutation_importance",
    "threshold_interval",
]
