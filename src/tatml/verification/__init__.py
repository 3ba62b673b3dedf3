"""Verification: error rates with limits, promised thresholds, splits of pairs, a report.

False match and false non-match are the words of ISO/IEC 19795. `groups` are the unit of
dependence everywhere: pairs that share a group (an identity) are not independent.
"""

from .._verification.identification import IdentificationCalibration
from .._verification.operating import OperatingPoint
from .._verification.rates import ErrorRate
from .._verification.reliability import Reliability
from .._verification.targets import Calibration
from ._extrapolation import Extrapolation, extrapolate
from ._gallery import Gallery, Identified
from ._plan import Plan, plan
from ._report import Report, error_rates, report
from ._splitting import PairKFold, PairShuffleSplit, train_test_split_pairs

__all__ = [
    "Calibration",
    "ErrorRate",
    "Extrapolation",
    "Gallery",
    "IdentificationCalibration",
    "Identified",
    "OperatingPoint",
    "PairKFold",
    "PairShuffleSplit",
    "Plan",
    "Reliability",
    "Report",
    "error_rates",
    "extrapolate",
    "plan",
    "report",
    "train_test_split_pairs",
]
