"""Operating points: thresholds with both error rates, their limits and the detection cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, roc_curve

from .._array import Doubles
from .calibration import calibrate, cut_between, find_best_threshold, find_vouched_share
from .curves import find_least_log_loss, ratio_at
from .dependence import Units
from .limits import JointLimits
from .rates import ErrorRate, RankedPairs
from .reliability import measure_reliability
from .targets import Target, check_target

USUAL_SAME_RATE = 0.01  # of the detection cost, if neither caller nor estimator says another one
FMR_TARGETS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold, and both error rates at it, in the words of ISO/IEC 19795.

    Parameters
    ----------
    name : str
        How the threshold was chosen.
    threshold : float
        Pairs below this distance are the same.
    false_match : ErrorRate
        The false match rate (FMR), also called false accept rate (FAR).
    false_non_match : ErrorRate
        The false non-match rate (FNMR).
    cost : float
        The detection cost.
    cost_limits : (float, float) or None
        The limits of the detection cost; None for the points of a curve.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> from tatml.verification import report
    >>> distances, y = np.linspace(0, 2, 200), np.tile([1, -1], 100)
    >>> point = report(PairThreshold("precomputed").fit(distances, y), distances, y).points[0]
    >>> point.name, round(point.true_accept_rate, 2)
    ('estimator', 0.46)
    """

    name: str
    threshold: float
    false_match: ErrorRate
    false_non_match: ErrorRate
    cost: float
    cost_limits: tuple[float, float] | None = None

    @property
    def true_accept_rate(self) -> float:
        """The share of similar pairs that are found (TAR): 1 − FNMR."""
        return 1 - self.false_non_match.value


@dataclass(frozen=True)
class Costs:
    """The share of same pairs and the costs of the two errors, which define the detection cost."""

    same_rate: float = USUAL_SAME_RATE
    false_match: float = 1.0
    false_non_match: float = 1.0

    def weigh(self, fmr: Doubles | float, fnmr: Doubles | float) -> Doubles | float:
        """Return the expected cost of a pair, relative to the best answer without any distance."""
        missed = self.false_non_match * self.same_rate
        passed = self.false_match * (1 - self.same_rate)
        return (missed * fnmr + passed * fmr) / min(missed, passed)

    @property
    def weights(self) -> tuple[float, float]:
        """The factors of the false match rate and of the false non-match rate."""
        return float(self.weigh(1.0, 0.0)), float(self.weigh(0.0, 1.0))

    @property
    def least_ratio(self) -> float:
        """The log-likelihood ratio above which accepting a pair has the least expected cost."""
        return log(self.false_match / self.false_non_match) - float(logit(self.same_rate))


@dataclass(frozen=True)
class JudgedPairs:
    """The distances of labelled pairs, and what is needed to judge thresholds on them."""

    distances: Doubles
    similar: NDArray[np.bool_]
    units: Units | None
    confidence: float
    costs: Costs = Costs()

    def measure(self, name: str, threshold: float) -> OperatingPoint:
        """Return the operating point of a threshold; both kinds of pairs must occur."""
        point = self._measure_point(name, threshold)
        rates = point.false_match, point.false_non_match
        limits = self._joint.find_cost(point.threshold, rates, self.costs.weights)
        return replace(point, cost_limits=limits)

    def _measure_point(self, name: str, threshold: float) -> OperatingPoint:
        """Return the operating point of a threshold, without limits of its cost."""
        fmr, fnmr = self.measure_rates(threshold)
        assert fmr is not None
        assert fnmr is not None
        cost = float(self.costs.weigh(fmr.value, fnmr.value))
        return OperatingPoint(name, float(threshold), fmr, fnmr, cost)

    def measure_rates(
        self, threshold: float, confidence: float | None = None
    ) -> tuple[ErrorRate | None, ErrorRate | None]:
        """Return the FMR and the FNMR at a threshold; None for a kind that does not occur."""
        wrong = (self.distances < threshold) != self.similar
        level = self.confidence if confidence is None else confidence
        fmr, fnmr = (
            kind.measure(int(np.sum(wrong[self.similar == is_similar])), level)
            if kind.n_pairs
            else None
            for is_similar, kind in enumerate(self._ranked)
        )
        return fmr, fnmr

    @cached_property
    def _ranked(self) -> tuple[RankedPairs, RankedPairs]:
        """The dissimilar pairs, of which the nearest become errors first, and the similar ones."""
        ranked = []
        for kind, sign in ((~self.similar, -1), (self.similar, 1)):
            units = None if self.units is None else self.units[kind]
            ranked.append(RankedPairs(sign * self.distances[kind], units, resembles=sign < 0))
        return ranked[0], ranked[1]

    def rank(self, *, matches: bool) -> RankedPairs:
        """Return the pairs that can have false matches, or false non-matches."""
        return self._ranked[0 if matches else 1]

    @cached_property
    def _joint(self) -> JointLimits:
        return JointLimits(self.distances, self.similar, self.units, self._ranked, self.confidence)

    def limit_fnmr(self, point: OperatingPoint, fmr: float) -> tuple[float, float]:
        """Return the limits of the FNMR at a given FMR, of which the point is the observed one."""
        rates = point.false_match, point.false_non_match
        return self._joint.find_fnmr(point.threshold, rates, fmr)

    def limit_curve(self) -> dict[str, tuple[float, float]]:
        """Return the limits of the AUC and of the equal error rate."""
        joint = self._joint
        return {"auc": joint.find_auc(), "equal_error_rate": joint.find_equal_error_rate()}

    def measure_balanced_accuracy(self, threshold: float) -> tuple[float, float, float]:
        """Return the balanced accuracy, with Bonferroni's limits from those of the two rates."""
        rates = self.measure_rates(threshold, (1 + self.confidence) / 2)
        value, low, high = (
            1 - sum(getattr(rate, part) for rate in rates) / 2 for part in ("value", "high", "low")
        )
        return value, low, high

    @property
    def vouched_share(self) -> float | None:
        """The smallest share of a kind of units that the dissimilar pairs vouch for."""
        units = None if self.units is None else self.units[~self.similar]
        return find_vouched_share(units, self.confidence)

    def select(self, rows: NDArray[np.intp]) -> JudgedPairs:
        """Return some of the pairs."""
        units = None if self.units is None else self.units[rows]
        return replace(
            self, distances=self.distances[rows], similar=self.similar[rows], units=units
        )

    def measure_balanced(self) -> list[OperatingPoint]:
        """Return the points of the equal error rate and of the least detection cost."""
        fmr, found, scores = roc_curve(self.similar, -self.distances, drop_intermediate=False)
        nearest = int(np.argmin(np.abs(fmr - (1 - found))))
        cheapest = int(np.argmin(self.costs.weigh(fmr, 1 - found)))
        equal = self.measure("equal error rate", cut_between(-scores, nearest))
        least = self._measure_point("least detection cost", cut_between(-scores, cheapest))
        rates = least.false_match, least.false_non_match
        limits = self._joint.find_least_cost(least.threshold, rates, self.costs.weights)
        return [equal, replace(least, cost_limits=limits)]

    def measure_targets(self) -> list[OperatingPoint]:
        """Return the points of false match rates from 0.1 to 1e-6, as far as the pairs reach.

        Each rate has the largest threshold that keeps it on these pairs, if it allows one error,
        and the threshold that promises it for other pairs, if the pairs can promise it. The FNMR of
        the former has the limits of the FNMR at this FMR, which is not that of its threshold.
        """
        points = []
        for rate in FMR_TARGETS:
            if np.sum(~self.similar) * rate >= 1:
                quantile = Target("false_match_rate", rate)
                threshold = find_best_threshold(self.distances, self.similar, quantile)
                point = self.measure(f"FMR {rate:g}", threshold)
                low, high = self.limit_fnmr(point, rate)
                missed = replace(point.false_non_match, low=low, high=high)
                points.append(replace(point, false_non_match=missed))
            target = check_target("false_match_rate", max_rate=rate, confidence=self.confidence)
            try:
                judged = self.distances, self.similar, target, self.units
                threshold = calibrate(*judged, ranked=self._ranked[0])[0]
            except ValueError:  # out of reach
                continue
            points.append(self.measure(f"FMR {rate:g} promised", threshold))
        return points

    def measure_curve(self, n_points: int) -> list[OperatingPoint]:
        """Return the points of thresholds from few false matches to few false non-matches.

        They are spread evenly over the normal deviates of both rates, as on the axes of a DET plot.
        """
        thresholds = []
        for kind in (self.similar, ~self.similar):
            end = norm.ppf(0.5 / np.sum(kind))
            grid = norm.cdf(np.linspace(end, -end, n_points // 2))
            thresholds.append(np.quantile(self.distances[kind], grid))
        return [self._measure_point("", float(t)) for t in np.unique(np.concatenate(thresholds))]

    def score_probabilities(self, curve: Doubles) -> tuple[float, float]:
        """Return the Brier score and the log loss, with the assumed share of same pairs."""
        rate, n_similar = self.costs.same_rate, np.sum(self.similar)
        odds = ratio_at(curve, self.distances) + logit(rate)
        n_dissimilar = len(self.similar) - n_similar
        weights = np.where(self.similar, rate / n_similar, (1 - rate) / n_dissimilar)
        brier = brier_score_loss(self.similar, expit(odds), sample_weight=weights)
        # Not sklearn's log_loss of probabilities: they round to 0 and 1.
        loss = np.logaddexp(0, np.where(self.similar, -odds, odds)) @ weights
        return float(brier), float(loss)

    def measure_probabilities(self, curve: Doubles | None) -> dict[str, Any]:
        """Return the fields of a report that need log-likelihood ratios; None without them."""
        if curve is None:
            return dict.fromkeys(("brier", "log_loss", "cllr", "reliability"))
        rate = self.costs.same_rate
        brier, loss = self.score_probabilities(curve)
        even = replace(self, costs=Costs(0.5)).score_probabilities(curve)[1]
        probability = expit(ratio_at(curve, self.distances) + logit(rate))
        reliability = measure_reliability(
            probability, self.similar, rate, confidence=self.confidence, units=self.units
        )
        return {
            "brier": brier,
            "log_loss": loss,
            "cllr": even / log(2),
            "reliability": reliability,
        }

    def measure_least_cllr(self) -> float:
        """Return the least cost of log-likelihood ratios that decrease with the distance."""
        return find_least_log_loss(self.distances, self.similar) / log(2)
