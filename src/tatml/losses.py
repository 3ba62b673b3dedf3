"""Pair losses: those of the library, and the base class of your own."""

from ._optim.custom_loss import CustomLoss
from ._optim.losses import BurgLoss, LogisticLoss, PairLoss, SquaredHinge

__all__ = ["BurgLoss", "CustomLoss", "LogisticLoss", "PairLoss", "SquaredHinge"]
