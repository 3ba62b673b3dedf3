"""The solvers: the same problem in, the same result out."""

from .monitor import Monitor
from .options import Dykstra, Newton, Solver, SolverLike, as_solver
from .result import Iterate, Result, Status

__all__ = [
    "Dykstra",
    "Iterate",
    "Monitor",
    "Newton",
    "Result",
    "Solver",
    "SolverLike",
    "Status",
    "as_solver",
]
