"""Pair losses."""

from ._optim.losses import BurgLoss, LogisticLoss, PairLoss, SquaredHinge

__all__ = ["BurgLoss", "LogisticLoss", "PairLoss", "SquaredHinge"]
