"""Pair losses."""

from ._optim.losses import BurgLoss, PairLoss, SquaredHinge

__all__ = ["BurgLoss", "PairLoss", "SquaredHinge"]
