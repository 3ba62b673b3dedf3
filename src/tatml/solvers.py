"""The solvers and their results."""

from ._optim.predicted_cost import PredictedCost, predict_cost
from ._optim.result import Iterate, Result, Status
from ._optim.solvers import Dykstra, Newton, Solver

__all__ = [
    "Dykstra",
    "Iterate",
    "Newton",
    "PredictedCost",
    "Result",
    "Solver",
    "Status",
    "predict_cost",
]
