"""Plans: how many identities a promised rate takes, or which rate some identities can promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import log
from typing import Any, Literal

from .._messages import shown
from .._validation import check_between, check_choice, check_count, check_not_negative, check_share
from .._verification.calibration import units_needed
from .._verification.planning import (
    LARGEST_COUNT,
    Dependence,
    Design,
    find_identities,
    find_rate,
)
from .._verification.rates import RankedPairs
from .._verification.targets import DEFAULT_CONFIDENCE, RATE_STRATEGIES, Target
from ._report import Report

RateStrategy = Literal["false_match_rate", "false_non_match_rate"]
# Assumed without a pilot: most of the simulated worlds of the benchmarks have less.
REPEAT, RESEMBLANCE = 0.5, 0.5
LEAST_PILOT = 40  # pairs: twice the errors that a design effect is judged from


@dataclass(frozen=True)
class Plan:
    """What a promised rate takes: the result of `plan`.

    Parameters
    ----------
    strategy : {"false_match_rate", "false_non_match_rate"}
        The promised rate.
    max_rate, confidence : float
        The rate, and the confidence of the promise.
    n_identities, samples_per_identity : int
        The identities, and the samples of each.
    n_pairs : int
        The pairs to compare: all pairs of samples of different identities; for false non-matches
        all pairs of samples of the same identity.
    n_effective : float
        The number of independent pairs that these are expected to be worth.
    max_errors : int or None
        The errors that the promise is expected to allow on these pairs; None if it is expected to
        be refused.
    expected_share, power : float
        The threshold has a true rate of at least `expected_share` × `max_rate` with the chance
        `power`: the promise is not only given, but useful.
    wanted_power : float
        The power that was asked for.
    units_needed : int
        With fewer identities, `calibrate_threshold` warns that a kind of them may be missing.
    spread, repeat, resemblance : float
        What was assumed, or found in the pilot.
    design : callable
        The design for a rate and a number of identities, for `rate_for`.

    Examples
    --------
    >>> from tatml.verification import plan
    >>> found = plan(0.01)
    >>> found.n_identities >= found.units_needed
    True
    >>> found.n_pairs == found.n_identities * (found.n_identities - 1) // 2
    True
    """

    strategy: RateStrategy
    max_rate: float
    confidence: float
    n_identities: int
    samples_per_identity: int
    n_pairs: int
    n_effective: float
    max_errors: int | None
    expected_share: float
    power: float
    wanted_power: float
    units_needed: int
    spread: float
    repeat: float
    resemblance: float
    design: Callable[[float, int], Design] = field(repr=False, compare=False)

    def rate_for(self, n_identities: int) -> float | None:
        """Return the least rate that other numbers of identities can promise with this power.

        None if they cannot promise any rate.
        """
        n = check_count("n_identities", n_identities, least=3)
        make = partial(_design_at, self.design, n)
        return find_rate(make, self.expected_share, self.wanted_power)

    def __str__(self) -> str:
        words = Target(self.strategy).words
        expected = self.expected_share * self.max_rate
        lines = [
            f"To promise a {words} of {self.max_rate:.3g} with confidence {self.confidence:g}:",
            f"  {self.n_identities} identities with {self.samples_per_identity} sample(s) each",
            f"  {self.n_pairs} pairs, worth about {self.n_effective:.0f} independent ones",
            f"  at most about {self.max_errors} errors on them",
            f"A threshold with a true rate of {expected:.3g} is allowed with the chance "
            f"{self.power:.2f}.",
        ]
        if self.max_errors is None:
            lines[3:] = ["Too few: the promise is expected to be refused."]
        if self.n_identities < self.units_needed:
            lines.append(
                f"At least {self.units_needed} identities are wanted: with fewer, a kind of "
                "identities that breaks the promise alone may be missing by chance."
            )
        return "\n".join(lines)


def plan(
    max_rate: float | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    *,
    n_identities: int | None = None,
    samples_per_identity: int | None = None,
    strategy: RateStrategy = "false_match_rate",
    expected_share: float = 0.5,
    power: float = 0.9,
    pilot: Report | None = None,
    spread: float | None = None,
    repeat: float | None = None,
    resemblance: float | None = None,
) -> Plan:
    """Plan how many identities, samples and pairs a promised error rate takes.

    Given `max_rate`, the least number of identities is searched for; given `n_identities`, the
    least rate that they can promise; given both, the power that they have. The plan is for
    `calibrate_threshold` with groups, and for all pairs of these identities. It includes what the
    worst reweighting of identities costs, and it never has fewer identities than
    `calibrate_threshold` asks for (unless both are given).

    Parameters
    ----------
    max_rate : float, optional
        The rate to promise, between 0 and 1.
    confidence : float, default=0.95
        The confidence of the promise.
    n_identities : int, optional
        The number of identities, at least 3.
    samples_per_identity : int, optional
        The samples of each identity. Default: 1, for false non-matches 2. More samples hardly help
        to promise a false match rate: identities do.
    strategy : {"false_match_rate", "false_non_match_rate"}, default="false_match_rate"
        The rate to promise.
    expected_share : float, default=0.5
        The promise is to allow a threshold whose true rate is this share of `max_rate`. A share
        near 1 takes many more identities.
    power : float, default=0.9
        The chance that it does.
    pilot : Report, optional
        A report on pairs of other identities, with groups: it tells how errors depend on each
        other, at the threshold at which its rate is `max_rate`.
    spread : float, optional
        The standard deviation of the false match rates that identities have of their own, divided
        by their mean. Default: that of the pilot, or else −log(`max_rate`)/3.
    repeat : float, optional
        The correlation of the errors of two pairs of the same two identities; for false
        non-matches, of two pairs of the same identity. Default: that of the pilot, or else 0.5.
    resemblance : float, optional
        How often two identities match that both match a third one. Default: that of the pilot, or
        else 0.5.

    Returns
    -------
    Plan
        Print it, or use its attributes. `tatml.plotting.PlanDisplay` draws it.

    Examples
    --------
    >>> from tatml.verification import plan
    >>> plan(0.01).n_identities < plan(0.001).n_identities
    True
    >>> plan(n_identities=400).max_rate < plan(n_identities=100).max_rate
    True
    """
    check_choice("strategy", strategy, RATE_STRATEGIES)
    if max_rate is None and n_identities is None:
        raise ValueError("max_rate: expected a rate, or n_identities, got None for both")
    matches = strategy == "false_match_rate"
    rate = None if max_rate is None else check_between("max_rate", max_rate)
    level = check_between("confidence", confidence)
    n = None if n_identities is None else check_count("n_identities", n_identities, least=3)
    least = 1 if matches else 2
    n_samples = least if samples_per_identity is None else samples_per_identity
    n_samples = check_count("samples_per_identity", n_samples, least=least)
    share = check_between("expected_share", expected_share)
    chance = check_between("power", power)
    make = partial(
        _make_design,
        target=Target(strategy, confidence=level),
        n_samples=n_samples,
        ranked=None if pilot is None else _pairs_of_pilot(pilot, matches),
        given=_check_given(spread=spread, repeat=repeat, resemblance=resemblance),
    )
    if rate is None:
        assert n is not None
        rate = find_rate(partial(_design_at, make, n), share, chance)
        if rate is None:
            raise ValueError(
                "n_identities: expected so many that they can promise a rate with this power, "
                f"got {n}"
            )
    if n is None:
        n = find_identities(make(rate, 3), share, chance)
        if n is None:
            raise ValueError(
                f"max_rate: expected one that {LARGEST_COUNT:g} identities can promise with this "
                f"power, got {shown(max_rate)}"
            )
    return _describe(make(rate, n), share, chance, make)


def _design_at(make: Callable[[float, int], Design], n_identities: int, rate: float) -> Design:
    return make(rate, n_identities)


def _check_given(**given: float | None) -> dict[str, float]:
    """Return the numbers that are given, checked."""
    checks = {"spread": check_not_negative, "repeat": check_share, "resemblance": check_share}
    return {name: checks[name](name, x) for name, x in given.items() if x is not None}


def _describe(
    design: Design, share: float, chance: float, make: Callable[[float, int], Design]
) -> Plan:
    target, allowed = design.target, design.allowed_rate()
    return Plan(
        strategy="false_match_rate" if target.is_about_matches else "false_non_match_rate",
        max_rate=target.rate,
        confidence=target.confidence,
        n_identities=design.n_identities,
        samples_per_identity=design.n_samples,
        n_pairs=design.n_pairs,
        n_effective=design.n_effective(),
        max_errors=None if allowed < 0 else int(allowed * design.n_pairs),
        expected_share=share,
        power=design.find_power(share * target.rate),
        wanted_power=chance,
        units_needed=units_needed(target),
        **vars(design.dependence),
        design=make,
    )


def _make_design(
    rate: float,
    n_identities: int,
    *,
    target: Target,
    n_samples: int,
    ranked: RankedPairs | None,
    given: dict[str, float],
) -> Design:
    known = _assume(rate, ranked, given, matches=target.is_about_matches)
    return Design(n_identities, n_samples, replace(target, rate=rate), known)


def _pairs_of_pilot(pilot: Any, matches: bool) -> RankedPairs:
    """Return the pairs of a report that can have the error, whose units must be shared."""
    if type(pilot) is not Report:
        raise TypeError(f"pilot: expected a Report of tatml.verification, got {shown(pilot)}")
    ranked = pilot.judged.rank(matches=matches)
    if ranked.are_independent:
        raise ValueError("pilot: expected pairs that share groups, got independent pairs")
    if ranked.n_pairs < LEAST_PILOT:
        raise ValueError(
            f"pilot: expected at least {LEAST_PILOT} pairs that can have the error, got "
            f"{ranked.n_pairs}"
        )
    return ranked


def _assume(
    rate: float, ranked: RankedPairs | None, given: dict[str, float], *, matches: bool
) -> Dependence:
    """Return what is given, what the pilot tells, and what is assumed without either."""
    known = Dependence(0.0, REPEAT, 0.0)
    if matches:
        known = Dependence(-log(rate) / 3, REPEAT, RESEMBLANCE)
    if ranked is not None:
        known = Dependence.of_pilot(ranked, rate, matches=matches)
    return replace(known, **given)
