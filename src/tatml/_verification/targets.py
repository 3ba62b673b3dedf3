"""What a threshold is calibrated to: the strategy, its numbers, and the promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .._messages import shown
from .._validation import check_between, check_choice, check_number, check_rate

CalibrationStrategy = Literal[
    "accuracy", "f_beta", "max_tpr", "max_tnr", "false_match_rate", "false_non_match_rate"
]
Guarantee = Literal["approximate", "proved"]
Confidence = float | None | Literal["auto"]
CalibrationMethod = Literal["exact", "proved", "approximate", "quantile", "empirical"]

CALIBRATION_STRATEGIES: tuple[CalibrationStrategy, ...] = get_args(CalibrationStrategy)
GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)
CALIBRATION_METHODS: tuple[CalibrationMethod, ...] = get_args(CalibrationMethod)
RATE_STRATEGIES = ("false_match_rate", "false_non_match_rate")
DEFAULT_CONFIDENCE = 0.95
LARGEST_BETA = 1e100  # the square of a larger beta could overflow


@dataclass(frozen=True)
class Target:
    """A checked strategy with its numbers.

    The `rate` is the smallest or the largest that the strategy allows, 0 if it has none. With a
    promise, the true rate of one kind of error is at most `rate` with this `confidence`, which is 0
    if nothing is promised.
    """

    strategy: CalibrationStrategy = "accuracy"
    rate: float = 0.0
    beta: float = 1.0
    confidence: float = 0.0
    guarantee: Guarantee = "approximate"

    @property
    def is_promised(self) -> bool:
        """Whether the rate is promised for other pairs."""
        return self.confidence > 0

    @property
    def is_about_matches(self) -> bool:
        """Whether the errors are false matches."""
        return self.strategy == "false_match_rate"

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
        those that share samples or identities. "quantile": the rate holds on the given pairs,
        nothing is promised for others. "empirical": the best threshold on the given pairs.
    max_rate : float or None
        The largest rate that is allowed.
    confidence : float or None
        The confidence that the true rate is at most `max_rate`; None if nothing is promised.
    n_errors : int or None
        The number of errors of this kind on the given pairs at the threshold. None for strategies
        without `max_rate`.
    n_pairs : int
        The number of pairs that can have this error: the dissimilar ones for false matches, the
        similar ones for false non-matches, all for other strategies.
    n_effective : float or None
        The number of independent pairs that these are worth; None if it was not needed.
    vouched_share : float or None
        For "approximate": the promise vouches for kinds of samples or groups that are at least this
        share of all. Three of such a kind are among the given ones with the confidence; a rarer
        kind, which may be missing by chance, can break the promise. None for other methods.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairThreshold
    >>> distances, y = np.linspace(0, 2, 1000), np.repeat([1, -1], 500)
    >>> judge = PairThreshold("precomputed").fit(distances, y)
    >>> target = {"strategy": "false_match_rate", "max_rate": 0.02}
    >>> judge.calibrate_threshold(distances, y, **target).calibration_
    Calibration(strategy='false_match_rate', method='exact', max_rate=0.02, confidence=0.95, \
n_errors=4, n_pairs=500, n_effective=500.0, vouched_share=None)
    """

    strategy: CalibrationStrategy
    method: CalibrationMethod
    max_rate: float | None = None
    confidence: float | None = None
    n_errors: int | None = None
    n_pairs: int = 0
    n_effective: float | None = None
    vouched_share: float | None = None


def check_target(
    strategy: CalibrationStrategy = "accuracy",
    *,
    min_rate: float | None = None,
    beta: float = 1.0,
    max_rate: float | None = None,
    confidence: Confidence = "auto",
    guarantee: Guarantee = "approximate",
    sample_weight: Any = None,
) -> Target:
    """Check a strategy and its numbers. `sample_weight` excludes a promise."""
    check_choice("strategy", strategy, CALIBRATION_STRATEGIES)
    needs_max = strategy in RATE_STRATEGIES
    check_rate("min_rate", min_rate, strategy in ("max_tpr", "max_tnr"), strategy)
    check_rate("max_rate", max_rate, needs_max, strategy)
    most = f"a number of at most {LARGEST_BETA:g}"
    check_number("beta", beta, most, lambda x: abs(x) <= LARGEST_BETA)  # the sign does not matter
    level = _check_confidence(confidence, strategy, sample_weight is not None)
    check_choice("guarantee", guarantee, GUARANTEES)
    if level > 0:
        check_between("max_rate", max_rate)
    rate = max_rate if needs_max else min_rate
    return Target(strategy, 0.0 if rate is None else float(rate), float(beta), level, guarantee)


def _check_confidence(confidence: Confidence, strategy: str, weighted: bool) -> float:
    """Return the confidence of a rate strategy; 0 if nothing is promised."""
    given = confidence
    if isinstance(confidence, str) and confidence == "auto":
        given = DEFAULT_CONFIDENCE if strategy in RATE_STRATEGIES else None
    if given is None:
        return 0.0
    level = check_between("confidence", given)
    if strategy not in RATE_STRATEGIES:
        raise ValueError(
            f"confidence: expected 'auto' or None with strategy={strategy!r}, got {shown(given)}; "
            "only 'false_match_rate' and 'false_non_match_rate' can be promised"
        )
    if weighted:
        raise ValueError(
            f"confidence: expected None with sample_weight, got {shown(given)}; weighted pairs "
            "cannot promise a rate, None sets the plain quantile"
        )
    return level
