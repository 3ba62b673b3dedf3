"""Display classes in the style of scikit-learn. Drawing needs matplotlib.

For ROC curves use the display of scikit-learn: ``RocCurveDisplay.from_estimator(verifier, pairs,
y)`` for estimators fitted to pairs, and ``RocCurveDisplay.from_predictions(y,
metric.pair_score(pairs, X))`` for estimators fitted to labels.
"""

from ._metrics import (
    BlockShareDisplay,
    ConvergenceDisplay,
    EmbeddingDisplay,
    FeatureShareDisplay,
    MetricDisplay,
    PermutationImportanceDisplay,
)
from ._pairs import DetDisplay, ErrorRateDisplay, PairDistanceDisplay, ReliabilityDisplay
from ._plan import PlanDisplay

__all__ = [
    "BlockShareDisplay",
    "ConvergenceDisplay",
    "DetDisplay",
    "EmbeddingDisplay",
    "ErrorRateDisplay",
    "FeatureShareDisplay",
    "MetricDisplay",
    "PairDistanceDisplay",
    "PermutationImportanceDisplay",
    "PlanDisplay",
    "ReliabilityDisplay",
]
