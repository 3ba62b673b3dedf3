"""Display classes in the style of scikit-learn. Drawing needs matplotlib.

For ROC curves use the display of scikit-learn: ``RocCurveDisplay.from_estimator(verifier, pairs,
y)`` for estimators fitted to pairs, and ``RocCurveDisplay.from_predictions(y,
metric.pair_score(pairs, X))`` for estimators fitted to labels.
"""

from ._embedding import EmbeddingDisplay
from ._importance import FeatureShareDisplay, PermutationImportanceDisplay
from ._metrics import BlockShareDisplay, ConvergenceDisplay, MetricDisplay
from ._pairs import PairDistanceDisplay, ReliabilityDisplay
from ._verification import DetDisplay, ErrorRateDisplay

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
    "ReliabilityDisplay",
]
