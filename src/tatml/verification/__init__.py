"""Verification: error rates with limits, thresholds with a guarantee, splits of pairs.

False match and false non-match are the words of ISO/IEC 19795. `groups` are the unit of
dependence everywhere: pairs that share a group (an identity) are not independent.
"""

from .._verification.rates import ErrorRate
from .._verification.targets import Calibration
from ._rates import error_rates
from ._splitting import PairKFold, PairShuffleSplit, train_test_split_pairs

__all__ = [
    "Calibration",
    "ErrorRate",
    "PairKFold",
    "PairShuffleSplit",
    "error_rates",
    "train_test_split_pairs",
]
