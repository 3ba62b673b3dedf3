"""The estimators, one per module; `tatml` makes them public."""

from .euclidean import Euclidean
from .gmml import GMML
from .itml import ITML
from .maz import Maz
from .pair_threshold import PairThreshold
from .soft_neighbors import SoftNeighborsClassifier, SoftNeighborsRegressor
from .table_pipeline import make_table_pipeline
from .tatml import PAPER, TATML
from .tatml_comparisons import TATMLQuadruplets, TATMLTriplets
from .tatml_cv import TATMLCV
from .tatml_neighbors import TATMLNeighbors
from .tatml_pairs import TATMLPairs
from .tatml_regression import TATMLRegression

__all__ = [
    "GMML",
    "ITML",
    "PAPER",
    "TATML",
    "TATMLCV",
    "Euclidean",
    "Maz",
    "PairThreshold",
    "SoftNeighborsClassifier",
    "SoftNeighborsRegressor",
    "TATMLNeighbors",
    "TATMLPairs",
    "TATMLQuadruplets",
    "TATMLRegression",
    "TATMLTriplets",
    "make_table_pipeline",
]
