"""Transformers that turn tables, images, tensors and signals into samples for a metric."""

from ._compose import BlockScaler, BlockUnion
from ._images import CovarianceDescriptor
from ._kernel_map import KernelMap
from ._length import LengthNormalizer
from ._shapes import Unfold, Vectorize
from ._signals import FilterBankCovariance
from ._spd import LogEuclidean, SPDPower, TangentSpace
from ._table import TableEncoder

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
    "LengthNormalizer",
    "TableEncoder",
]
