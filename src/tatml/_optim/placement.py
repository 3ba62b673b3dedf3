"""Moving problems to the device of some array, and results back to the host."""

from __future__ import annotations

from dataclasses import replace

from .._array import Array, placed, to_numpy
from .pair_term import placed_sums
from .problem import LogDetProblem
from .result import Result


def place_problem(problem: LogDetProblem, like: Array) -> LogDetProblem:
    """Copy a problem of pairs in memory to the namespace and device of `like`."""
    term = problem.pairs
    moved = replace(
        term,
        sums=placed_sums(term.sums, like),
        loss=term.loss.placed(like),
        given=None if term.given is None else placed_sums(term.given, like),
        given_loss=None if term.given_loss is None else term.given_loss.placed(like),
    )
    return problem.with_term(moved, like)


def place_result(result: Result, like: Array) -> Result:
    """Copy the factors of a result, from which a solver may start, to the device of `like`."""
    return replace(result, L=[placed(factor, like) for factor in result.L])


def host_result(result: Result) -> Result:
    """Return a result with NumPy arrays."""
    return replace(
        result,
        L=[to_numpy(factor) for factor in result.L],
        active=None if result.active is None else to_numpy(result.active),
        multipliers=None if result.multipliers is None else to_numpy(result.multipliers),
    )
