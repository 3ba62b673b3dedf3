"""The solvers and their results."""

from ._optim.result import Iterate, Result, Status
from ._optim.solvers import Dykstra, Newton, Solver

__all__ = [
    "Dykstra",
    "Iterate",
    "Newton",
    "Result",
    "Solver",
    "Status",
]
