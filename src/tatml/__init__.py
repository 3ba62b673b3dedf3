"""Threshold Auto-Tuning Metric Learning: a metric and its distance threshold from pairs."""

from . import datasets, display, features, inspection
from .blocks import Blocks
from .checkpoint import Checkpoint
from .chunks import PairChunks
from .compute import Compute
from .core import learn_metric
from .estimators import GMML, ITML, PAPER, TATML, TATMLCV, Euclidean, Maz, PairThreshold, TATMLPairs
from .solvers import Dykstra, Newton, Result, Status
from .tiles import AllPairs

__all__ = [
    "GMML",
    "ITML",
    "PAPER",
    "TATML",
    "TATMLCV",
    "AllPairs",
    "Blocks",
    "Checkpoint",
    "Compute",
    "Dykstra",
    "Euclidean",
    "Maz",
    "Newton",
    "PairChunks",
    "PairThreshold",
    "Result",
    "Status",
    "TATMLPairs",
    "__version__",
    "datasets",
    "display",
    "features",
    "inspection",
    "learn_metric",
]

__version__ = "0.1.0.dev0"
