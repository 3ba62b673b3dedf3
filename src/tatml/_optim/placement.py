"""Moving problems to the device of some array, and results back to the host."""

from __future__ import annotations

from dataclasses import replace

from .._array import Array, placed, to_numpy
from .pair_term import PairTerm, placed_sums
from .problem import LogDetProblem
from .result import Result


def place_problem(problem: LogDetProblem, like: Array) -> LogDetProblem:
    """Copy a problem of pairs in memory to the namespace and device of `like`."""
    prior = None if problem.prior is None else tuple(placed(W0, like) for W0 in problem.prior)
    return replace(
        problem,
        term=_placed_term(problem.pairs, like),
        prior_factors=tuple(placed(C, like) for C in problem.prior_factors),
        prior=prior,
    )


def _placed_term(term: PairTerm, like: Array) -> PairTerm:
    return replace(
        term,
        sums=placed_sums(term.sums, like),
        loss=term.loss.placed(like),
        given=None if term.given is None else placed_sums(term.given, like),
        given_loss=None if term.given_loss is None else term.given_loss.placed(like),
    )


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
