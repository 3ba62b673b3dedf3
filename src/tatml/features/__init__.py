"""Transformers that turn images, tensors and signals into samples for a metric."""

from ._compose import BlockScaler, BlockUnion
from ._images import CovarianceDescriptor
from ._kernel_map import KernelMap
from ._signals import FilterBankCovariance
from ._spd import LogEuclidean, SPDPower, TangentSpace
from ._tensors import Unfold
from ._vectorize import Vectorize

__all__ = [
    "CovarianceDescriptor",
    "LogEuclidean",
    "SPDPower",
    "TangentSpace",
    "Vectorize",
    "Unfold",
    "FilterBankCovariance",
    "BlockUnion",
    "BlockScaler",
    "KernelMap",
]
