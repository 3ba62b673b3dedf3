"""The estimators: parameters, validation, fit, fitted attributes."""

from .euclidean import Euclidean
from .maz import Maz
from .pairs import PairThreshold, TATMLPairs
from .tatml import PAPER, TATML

__all__ = ["PAPER", "TATML", "Euclidean", "Maz", "PairThreshold", "TATMLPairs"]
