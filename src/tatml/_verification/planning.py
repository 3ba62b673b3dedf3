"""How many identities a promised rate takes: the rules of `calibration`, for expected numbers.

With the variance of an error rate that is expected for G identities with m samples each, the
design effect and the worst reweighting tell which observed rate allows the promise. The power is
the chance that the observed rate is not above it, at a threshold whose true rate is given.
docs/verification.md has the formulas.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, ndtri, stdtrit

from .calibration import units_needed
from .dependence import LEAST_ERRORS, LEAST_FREEDOM
from .rates import RankedPairs, most_errors, pairs_needed
from .reweighting import LEAST_FREEDOM as LEAST_WEIGHT_FREEDOM
from .reweighting import Reweighting, correct_for_two
from .targets import Target

LARGEST_COUNT = 10**7  # of identities that a search looks at
SMALLEST_RATE, LARGEST_RATE, N_RATES = 1e-9, 0.5, 8000  # a search looks at


@dataclass(frozen=True)
class Dependence:
    """How errors depend on each other.

    Parameters
    ----------
    spread : float
        The standard deviation of the rates that identities have of their own, divided by their
        mean: for false matches.
    repeat : float
        The correlation of the errors of two pairs of the same two identities; for false
        non-matches, of two pairs of the same identity.
    resemblance : float
        How often two identities match that both match a third one: for false matches.
    """

    spread: float
    repeat: float
    resemblance: float

    @classmethod
    def of_pilot(cls, ranked: RankedPairs, max_rate: float, *, matches: bool) -> Dependence:
        """Return the estimates from pairs of one kind, at an observed rate of `max_rate`.

        The rate is higher if the pairs would have less than 20 errors at it.
        """
        sharing = ranked.sharing
        assert sharing is not None
        n_pairs = ranked.n_pairs
        n_errors = min(max(LEAST_ERRORS, round(max_rate * n_pairs)), n_pairs // 2)
        rate = n_errors / n_pairs
        rows = np.arange(n_errors)
        errors, size = sharing.count_errors(rows), sharing.size
        excess = (errors - rate * size).astype(float)
        alone = n_pairs * rate * (1 - rate)  # of the sum of the errors, if they were independent
        repeated = float(size @ (size - 1.0))
        couples = float(excess @ excess)
        repeat = (couples - alone) / repeated / (rate * (1 - rate)) if repeated else 0.0
        repeat = float(np.clip(repeat, 0, 1))
        if not matches:
            return cls(0.0, repeat, 0.0)
        linked = float(sharing.degree @ (sharing.degree - 1.0)) - 2 * repeated
        shared = sharing.variance(rows) * n_pairs**2 - couples
        spread = (max(0.0, shared) / max(linked, 1.0)) ** 0.5 / rate
        twins = Reweighting(sharing, n_errors, resembles=True).twin_errors(errors).sum()
        matched = (errors > 0) & ~sharing.is_loop
        ends = np.concatenate([sharing.low[matched], sharing.high[matched]])
        known = np.bincount(ends, minlength=len(sharing.degree)) > 1
        scale = float(sharing.degree @ (sharing.degree * known)) / (4 * n_pairs)
        return cls(spread, repeat, min(1.0, rate + float(twins) / scale) if scale else 0.0)


@dataclass(frozen=True)
class Design:
    """All pairs of G identities with m samples each: between them, or within each.

    `target` has the promised rate and its confidence. With `matches`, the errors are false matches.
    """

    n_identities: int
    n_samples: int
    target: Target
    dependence: Dependence

    @property
    def n_pairs(self) -> int:
        """The number of pairs that can have the error."""
        n, m = self.n_identities, self.n_samples
        if self.target.is_about_matches:
            return n * (n - 1) // 2 * m**2
        return n * (m * (m - 1) // 2)

    def _effects(self, rate: float) -> tuple[float, float]:
        """Return by how much the variance, and the squares of units, exceed rate (1 − rate)/n."""
        n, m, known = self.n_identities, self.n_samples, self.dependence
        if not self.target.is_about_matches:
            effect = 1 + (m * (m - 1) // 2 - 1) * known.repeat
            return effect, effect
        one = min(0.5, self._spread(rate) ** 2 * rate / (1 - rate))
        both = min(1.0, max(known.repeat, 2 * one))
        couple, unit = 1 + (m**2 - 1) * both, 2 * (n - 2) * m**2 * one
        return couple + unit, 2 * couple + unit

    def _spread(self, rate: float) -> float:
        """Return the spread at a rate: that at the promised rate, times the ratio of logarithms."""
        return self.dependence.spread * log(rate) / log(self.target.rate)

    def design_effect(self, rate: float) -> float:
        """Return how many times the variance of an observed rate exceeds that of single pairs."""
        return self._effects(rate)[0]

    def _freedom(self, rate: float, least: float) -> float:
        """Return the degrees of freedom that Satterthwaite's rule is expected to give."""
        most = self.n_identities - 1.0
        errors = 2 * self.n_pairs * rate / self.n_identities  # of an identity
        uneven = (2 + 6 * self._spread(rate) ** 2 + 1 / errors) / self.n_identities
        return max(1.0, min(most, max(least, 2 / uneven)))

    def n_effective(self) -> float:
        """Return the number of independent pairs that the pairs are worth at the promised rate."""
        rate, level = self.target.rate, self.target.confidence
        wide = float(stdtrit(self._freedom(rate, LEAST_FREEDOM), level))
        share = min(1.0, (float(ndtri(level)) / wide) ** 2)
        effect = self.design_effect(rate)
        return self.n_pairs / effect * (share if effect > 1 else 1.0)

    def allowed_rate(self) -> float:
        """Return the largest observed rate that the promise allows; −1 if it is refused."""
        worth, rate, level = self.n_effective(), self.target.rate, self.target.confidence
        if worth < pairs_needed(rate, level):
            return -1.0
        most = most_errors(self.n_pairs, rate, level, worth)
        allowed = max(0, most) / self.n_pairs
        if allowed == 0 or self.upper_rate(allowed) <= rate:
            return allowed
        least = 1 / self.n_pairs
        if self.upper_rate(least) > rate:
            return 0.0
        return float(brentq(lambda x: self.upper_rate(x) - rate, least, allowed, xtol=1e-15))

    def upper_rate(self, rate: float) -> float:
        """Return what the worst reweighting makes of an observed rate."""
        effect, squares = self._effects(rate)
        if effect == 1:
            return 0.0
        square = rate * (1 - rate) / self.n_pairs * squares
        freedom = self._freedom(rate, LEAST_WEIGHT_FREEDOM)
        quantile = float(stdtrit(freedom, self.target.confidence))
        quantile *= correct_for_two(effect / squares) ** 0.5
        change = quantile * square**0.5
        if not self.target.is_about_matches:
            return rate + change
        change *= 1 + quantile * self._skewness(rate) / (3 * self.n_identities**0.5)
        matches = (self.n_identities - 1) * rate  # of an identity; two are needed to tell a kind
        share = 1 - exp(-matches) * (1 + matches)
        twins = share * max(0.0, self.dependence.resemblance - rate) / self.n_identities
        return rate * (1 + change / (2 * rate)) ** 2 + twins * (1 + change / rate) ** 2

    def _skewness(self, rate: float) -> float:
        """Return that of the errors of an identity, if they are Poisson's with a gamma mean."""
        mean = 2 * self.n_pairs * rate / self.n_identities
        extra = mean * self._spread(rate) ** 2
        return float((1 + 3 * extra + 2 * extra**2) / (mean * (1 + extra) ** 3) ** 0.5)

    def find_power(self, true_rate: float) -> float:
        """Return the chance that the promise allows a threshold with this true rate."""
        allowed = self.allowed_rate()
        if allowed < 0:
            return 0.0
        worth = self.n_pairs / self.design_effect(true_rate)
        n_errors = int(allowed * self.n_pairs * (1 + 1e-12)) / self.n_pairs * worth
        if n_errors >= worth:
            return 1.0
        return 1 - float(betainc(n_errors + 1, worth - n_errors, true_rate))


def find_identities(design: Design, share: float, power: float) -> int | None:
    """Return the least number of identities with this power at a share of the promised rate."""
    counts = range(max(3, units_needed(design.target)), LARGEST_COUNT)

    def suffices(n_identities: int) -> bool:
        one = replace(design, n_identities=n_identities)
        return one.find_power(share * design.target.rate) >= power

    found = bisect_left(counts, True, key=suffices)
    return counts[found] if found < len(counts) else None


def find_rate(make: Callable[[float], Design], share: float, power: float) -> float | None:
    """Return the least rate that can be promised with this power, by the design for each rate."""

    def suffices(log_rate: float) -> bool:
        design = make(float(np.exp(log_rate)))
        enough = units_needed(design.target) <= design.n_identities
        return enough and design.find_power(share * design.target.rate) >= power

    grid = np.linspace(log(SMALLEST_RATE), log(LARGEST_RATE), N_RATES)
    found = bisect_left(grid, True, key=suffices)
    return float(np.exp(grid[found])) if found < len(grid) else None
