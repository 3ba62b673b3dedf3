"""The solvers: the same problem in, the same result out."""

from .linear import SYSTEMS
from .monitor import Monitor
from .newton import newton
from .result import Iterate, Result, Status

__all__ = ["SOLVERS", "SYSTEMS", "Iterate", "Monitor", "Result", "Status", "newton"]

SOLVERS = {"newton": newton}
