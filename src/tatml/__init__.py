"""Threshold Auto-Tuning Metric Learning: a metric and its distance threshold from pairs."""

from . import datasets, features, inspection, losses, plotting, solvers, verification
from ._data.blocks import Blocks
from ._data.pairs import Comparisons, pairs_from_chunks
from ._estimators import (
    GMML,
    ITML,
    PAPER,
    TATML,
    TATMLCV,
    Euclidean,
    Maz,
    PairThreshold,
    SoftNeighborsClassifier,
    SoftNeighborsRegressor,
    TATMLNeighbors,
    TATMLPairs,
    TATMLQuadruplets,
    TATMLRegression,
    TATMLTriplets,
    make_table_pipeline,
)
from ._learn_metric import learn_metric
from ._optim.checkpoint import Checkpoint
from ._optim.result import Result, Status
from ._optim.solvers import Dykstra, Newton
from ._sharding.all_pairs import AllPairs
from ._sharding.chunks import PairChunks
from ._sharding.compute import Compute

__all__ = [
    "GMML",
    "ITML",
    "PAPER",
    "TATML",
    "TATMLCV",
    "AllPairs",
    "Blocks",
    "Checkpoint",
    "Comparisons",
    "Compute",
    "Dykstra",
    "Euclidean",
    "Maz",
    "Newton",
    "PairChunks",
    "PairThreshold",
    "Result",
    "SoftNeighborsClassifier",
    "SoftNeighborsRegressor",
    "Status",
    "TATMLNeighbors",
    "TATMLPairs",
    "TATMLQuadruplets",
    "TATMLRegression",
    "TATMLTriplets",
    "__version__",
    "datasets",
    "plotting",
    "features",
    "inspection",
    "learn_metric",
    "losses",
    "make_table_pipeline",
    "pairs_from_chunks",
    "solvers",
    "verification",
]

__version__ = "0.2.0"
