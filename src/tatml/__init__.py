"""Threshold Auto-Tuning Metric Learning: a metric and its distance threshold from pairs."""

from .blocks import Blocks
from .core import learn_metric
from .solvers import Result, Status

__all__ = ["Blocks", "Result", "Status", "__version__", "learn_metric"]

__version__ = "0.1.0.dev0"
