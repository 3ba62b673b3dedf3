"""Estimates of false match rates that are too small for the pairs: no promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import genpareto

from .._array import Doubles
from .._messages import shown
from .._validation import check_between, check_finite
from ._report import Report

LEAST_TAIL = 50  # pairs
N_PARTS = 10
SEED = 0


@dataclass(frozen=True)
class Extrapolation:
    """A generalised Pareto law of the nearest dissimilar pairs: the result of `extrapolate`.

    Parameters
    ----------
    tail_share : float
        The share of the dissimilar pairs that the law was fitted to: the nearest ones.
    n_pairs : int
        Their number.
    edge : float
        They are nearer than this distance (with scores: minus the score).
    shape, scale : float
        The parameters of the law of edge − distance. With a negative shape, no pair is nearer than
        edge + scale/shape.
    parts : tuple of (float, float, float)
        Edge, shape and scale if a tenth of the groups, or of the pairs, is left out, each in turn.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.verification import extrapolate, report
    >>> rng = np.random.default_rng(0)
    >>> distances = np.r_[0.0, 0.1, rng.random(5000) ** (1 / 4)]  # P(distance < t) is t⁴
    >>> y = np.r_[1, 1, np.full(5000, -1)]
    >>> found = extrapolate(report(PairThreshold("precomputed"), distances, y))
    >>> bool(0.3e-4 < found.rate_at(0.1) < 3e-4)
    True
    """

    tail_share: float
    n_pairs: int
    edge: float
    shape: float
    scale: float
    parts: tuple[tuple[float, float, float], ...]

    def rate_at(self, threshold: float) -> float:
        """Return the estimated false match rate at a threshold, which is at most `edge`."""
        return self._rate(self._check(threshold), (self.edge, self.shape, self.scale))

    def range_at(self, threshold: float) -> tuple[float, float]:
        """Return the least and the largest estimate of `parts`: no confidence limits.

        They tell how much the estimate depends on who is in the sample, not how wrong the law is.
        """
        value = self._check(threshold)
        rates = [self._rate(value, part) for part in self.parts]
        return min(rates), max(rates)

    def threshold_at(self, rate: float) -> float:
        """Return the threshold with an estimated false match rate, at most `tail_share`."""
        rate = check_between("rate", rate)
        if rate > self.tail_share:
            raise ValueError(f"rate: expected at most tail_share={self.tail_share:g}, got {rate:g}")
        return self.edge - float(genpareto.isf(rate / self.tail_share, self.shape, 0, self.scale))

    def _rate(self, threshold: float, law: tuple[float, float, float]) -> float:
        edge, shape, scale = law
        return self.tail_share * float(genpareto.sf(edge - threshold, shape, 0, scale))

    def _check(self, threshold: float) -> float:
        value = check_finite("threshold", threshold)
        if value > self.edge:
            raise ValueError(f"threshold: expected at most edge={self.edge:g}, got {value:g}")
        return value


def extrapolate(report: Report, *, tail_share: float = 0.1) -> Extrapolation:
    """Estimate false match rates below those that pairs can show, by a law of the tail.

    This is an estimate, never a promise. The nearest dissimilar pairs are taken for a sample of a
    generalised Pareto law, fitted by maximum likelihood, and this law is taken to hold for pairs
    that are nearer than any that was seen. Both are assumptions that the pairs cannot test: twins,
    relatives and duplicates, if there are none in the sample, are not in the estimate. ISO/IEC
    5152:2024 is about estimates of this kind, by extreme value models; whether this is one of its
    models was not checked.

    Parameters
    ----------
    report : Report
        A report on pairs that were not used in fit. With groups, the parts that are left out for
        `range_at` are groups.
    tail_share : float, default=0.1
        The share of the dissimilar pairs that the law is fitted to.

    Returns
    -------
    Extrapolation
        ``rate_at(threshold)``, ``range_at(threshold)`` and ``threshold_at(rate)``.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.verification import extrapolate, report
    >>> distances, y = np.linspace(0, 2, 2000), np.tile([1, -1], 1000)
    >>> found = extrapolate(report(PairThreshold("precomputed"), distances, y))
    >>> 0.04 < found.rate_at(0.1) < 0.06  # half of the nearest tenth
    True
    """
    if type(report) is not Report:
        raise TypeError(f"report: expected a Report of tatml.verification, got {shown(report)}")
    share = check_between("tail_share", tail_share)
    judged = report.judged
    values = judged.distances[~judged.similar]
    members: Any = np.arange(len(values))[:, None]
    if judged.units is not None:
        members = np.unique(judged.units[~judged.similar], return_inverse=True)[1]
        members = members.reshape(-1, 2)
    n_tail = int(share * len(values))
    if n_tail < LEAST_TAIL:
        raise ValueError(
            f"report: expected at least {LEAST_TAIL} pairs in the nearest {share:g} of the "
            f"dissimilar pairs, got {n_tail}"
        )
    rng = np.random.RandomState(SEED)
    part = (rng.permutation(int(members.max()) + 1) % N_PARTS)[members]
    kept = [values[(part != k).all(axis=1)] for k in range(N_PARTS)]
    parts = tuple(_fit(some, share) for some in kept if share * len(some) >= LEAST_TAIL / 2)
    edge, shape, scale = _fit(values, share)
    return Extrapolation(share, n_tail, edge, shape, scale, parts or ((edge, shape, scale),))


def _fit(values: Doubles, share: float) -> tuple[float, float, float]:
    """Return edge, shape and scale of the law of the smallest values."""
    n_tail = int(share * len(values))
    edge = float(np.partition(values, n_tail)[n_tail])
    excess = edge - values[values < edge]
    if len(excess) == 0 or not np.isfinite(excess).all():
        raise ValueError(
            f"report: expected finite distances that differ among the nearest {share:g} of the "
            "dissimilar pairs, got equal or infinite ones"
        )
    unit = float(excess.mean())
    shape, _, scale = genpareto.fit(excess / unit, floc=0)
    return edge, float(shape), float(scale) * unit
