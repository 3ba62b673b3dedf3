"""What a threshold is calibrated to: the strategy, its numbers, and the promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .._messages import shown
from .._validation import check_between, check_choice, check_number, check_rate

CalibrationStrategy = Literal[
    "accuracy",
    "f_beta",
    "max_tpr",
    "max_tnr",
    "false_match_rate",
    "false_non_match_rate",
    "precision",
]
Guarantee = Literal["approximate", "proved"]
Confidence = float | None | Literal["auto"]
CalibrationMethod = Literal["exact", "proved", "approximate", "quantile", "empirical"]

CALIBRATION_STRATEGIES: tuple[CalibrationStrategy, ...] = get_args(CalibrationStrategy)
GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)
CALIBRATION_METHODS: tuple[CalibrationMethod, ...] = get_args(CalibrationMethod)
RATE_STRATEGIES = ("false_match_rate", "false_non_match_rate")
PROMISED_STRATEGIES = (*RATE_STRATEGIES, "precision")
DEFAULT_CONFIDENCE = 0.95
LARGEST_RATE = 1 - 1e-9  # of false matches, where a precision allows all of them
LARGEST_BETA = 1e100  # the square of a larger beta could overflow


@dataclass(frozen=True)
class Target:
    """A checked strategy with its numbers.

    The `rate` is the smallest or the largest that the strategy allows, 0 if it has none. With a
    promise, the true rate of one kind of error is at most `rate` with this `confidence`, which is 0
    if nothing is promised. The `same_rate` is for a precision: the share of similar pairs where the
    threshold is used, None for that of the given pairs.
    """

    strategy: CalibrationStrategy = "accuracy"
    rate: float = 0.0
    beta: float = 1.0
    confidence: float = 0.0
    guarantee: Guarantee = "approximate"
    same_rate: float | None = None

    @property
    def is_promised(self) -> bool:
        """Whether the rate is promised for other pairs."""
        return self.confidence > 0

    @property
    def is_about_matches(self) -> bool:
        """Whether the errors are false matches."""
        return self.strategy in ("false_match_rate", "precision")

    def as_false_matches(self, similar: NDArray[np.bool_]) -> Target:
        """Return the least strict false match rate that a precision needs: with all similar pairs.

        Other targets are returned unchanged.
        """
        if self.strategy != "precision":
            return self
        same_rate = float(np.mean(similar)) if self.same_rate is None else self.same_rate
        rate = min(self.false_per_true * same_rate / (1 - same_rate), LARGEST_RATE)
        return replace(self, strategy="false_match_rate", rate=rate)

    @property
    def false_per_true(self) -> float:
        """The accepted dissimilar pairs per accepted similar pair that a precision allows."""
        return (1 - self.rate) / self.rate if self.rate > 0 else np.inf

    @property
    def goal(self) -> str:
        """What is promised, in words."""
        known = "" if self.same_rate is None else f" with a same_rate of {self.same_rate:g}"
        return f"{self.words} of {self.rate:g}{known}"

    @property
    def words(self) -> str:
        """The name of the rate."""
        return self.strategy.replace("non_", "non-").replace("_", " ")

    @property
    def kind(self) -> str:
        """Which pairs can have the error."""
        return "dissimilar" if self.is_about_matches else "similar"

    def select(self, similar: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which pairs can have the error."""
        return ~similar if self.is_about_matches else similar


@dataclass(frozen=True)
class Calibration:
    """How a threshold was calibrated: the attribute `calibration_` of an estimator.

    Parameters
    ----------
    strategy : str
        The strategy, as given to `calibrate_threshold`.
    method : {"exact", "proved", "approximate", "quantile", "empirical"}
        "exact": the order statistic of independent pairs. "proved": the order statistic of pairs
        of disjoint samples or identities. "approximate": all pairs, with the design effect of
        those that share samples or identities; or a precision whose risk is handed on from one
        threshold to the next. "quantile": the rate holds on the given pairs, nothing is promised
        for others. "empirical": the best threshold on the given pairs.
    max_rate : float or None
        The largest rate that is allowed.
    confidence : float or None
        The confidence that the true rate is at most `max_rate`, or the true precision at least
        `min_rate`; None if nothing is promised.
    n_errors : int or None
        The number of errors of this kind on the given pairs at the threshold: false matches for a
        precision. None for strategies that cannot be promised.
    n_pairs : int
        The number of pairs that can have this error: the dissimilar ones for false matches, the
        similar ones for false non-matches, all for other strategies.
    n_effective : float or None
        The number of independent pairs that these are worth; None if it was not needed.
    vouched_share : float or None
        For "approximate": the promise vouches for kinds of samples or groups that are at least this
        share of all. Three of such a kind are among the given ones with the confidence; a rarer
        kind, which may be missing by chance, can break the promise. None for other methods.
    min_rate : float or None
        The least precision that is allowed; None for other strategies.
    same_rate : float or None
        The share of similar pairs that the precision is for; None for that of the given pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> distances, y = np.linspace(0, 2, 1000), np.repeat([1, -1], 500)
    >>> judge = PairThreshold("precomputed").fit(distances, y)
    >>> target = {"strategy": "false_match_rate", "max_rate": 0.02}
    >>> judge.calibrate_threshold(distances, y, **target).calibration_
    Calibration(strategy='false_match_rate', method='exact', max_rate=0.02, confidence=0.95, \
n_errors=4, n_pairs=500, n_effective=500.0, vouched_share=None, min_rate=None, same_rate=None)
    """

    strategy: CalibrationStrategy
    method: CalibrationMethod
    max_rate: float | None = None
    confidence: float | None = None
    n_errors: int | None = None
    n_pairs: int = 0
    n_effective: float | None = None
    vouched_share: float | None = None
    min_rate: float | None = None
    same_rate: float | None = None


def check_target(
    strategy: CalibrationStrategy = "accuracy",
    *,
    min_rate: float | None = None,
    beta: float = 1.0,
    max_rate: float | None = None,
    confidence: Confidence = "auto",
    guarantee: Guarantee = "approximate",
    same_rate: float | None = None,
    sample_weight: Any = None,
) -> Target:
    """Check a strategy and its numbers. `sample_weight` excludes a promise."""
    check_choice("strategy", strategy, CALIBRATION_STRATEGIES)
    needs_max = strategy in RATE_STRATEGIES
    needs_min = strategy in ("max_tpr", "max_tnr", "precision")
    check_rate("min_rate", min_rate, needs_min, strategy)
    check_rate("max_rate", max_rate, needs_max, strategy)
    most = f"a number of at most {LARGEST_BETA:g}"
    check_number("beta", beta, most, lambda x: abs(x) <= LARGEST_BETA)  # the sign does not matter
    level = _check_confidence(confidence, strategy, sample_weight is not None)
    check_choice("guarantee", guarantee, GUARANTEES)
    if level > 0:
        check_between(*(("max_rate", max_rate) if needs_max else ("min_rate", min_rate)))
    if same_rate is not None:
        check_rate("same_rate", same_rate, strategy == "precision", strategy)
        same_rate = check_between("same_rate", same_rate)
    elif strategy == "precision" and level > 0 and guarantee == "proved":
        raise ValueError(
            "same_rate: expected a number with guarantee='proved' and strategy='precision', got "
            "None; pairs of disjoint samples do not have the share of same pairs of the others"
        )
    rate = max_rate if needs_max else min_rate
    least = 0.0 if rate is None else float(rate)
    return Target(strategy, least, float(beta), level, guarantee, same_rate)


def _check_confidence(confidence: Confidence, strategy: str, weighted: bool) -> float:
    """Return the confidence of a strategy; 0 if nothing is promised."""
    given = confidence
    if isinstance(confidence, str) and confidence == "auto":
        given = DEFAULT_CONFIDENCE if strategy in PROMISED_STRATEGIES else None
    if given is None:
        return 0.0
    level = check_between("confidence", given)
    if strategy not in PROMISED_STRATEGIES:
        raise ValueError(
            f"confidence: expected 'auto' or None with strategy={strategy!r}, got {shown(given)}; "
            "only 'false_match_rate', 'false_non_match_rate' and 'precision' can be promised"
        )
    if weighted:
        raise ValueError(
            f"confidence: expected None with sample_weight, got {shown(given)}; weighted pairs "
            "cannot promise a rate, None sets the plain quantile"
        )
    return level
