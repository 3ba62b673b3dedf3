"""Transformers that turn images, tensors and signals into samples for a metric."""

from .compose import BlockScaler, BlockUnion
from .images import CovarianceDescriptor
from .signals import FilterBankCovariance
from .spd import LogEuclidean, SPDPower, Vectorize
from .tensors import Unfold

__all__ = [
    "CovarianceDescriptor",
    "LogEuclidean",
    "SPDPower",
    "Vectorize",
    "Unfold",
    "FilterBankCovariance",
    "BlockUnion",
    "BlockScaler",
]
