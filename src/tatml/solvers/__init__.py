"""The solvers: the same problem in, the same result out."""

from .dykstra import ORDERS, PROJECTIONS, dykstra
from .linear import SYSTEMS
from .monitor import Monitor
from .newton import newton
from .result import Iterate, Result, Status

__all__ = [
    "OPTIONS",
    "SOLVERS",
    "Iterate",
    "Monitor",
    "Result",
    "Status",
    "dykstra",
    "newton",
]

SOLVERS = {"newton": newton, "dykstra": dykstra}

# What only one solver understands: the values, the default first.
OPTIONS = {
    "newton": {"linear_solver": ("auto", *SYSTEMS)},
    "dykstra": {"projection": PROJECTIONS, "order": tuple(ORDERS)},
}
