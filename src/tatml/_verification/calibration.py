"""Thresholds calibrated on given distances: best on these pairs, or promised for others.

A pair is predicted to be the same if its distance is below the threshold. In place of distances
there may be values of any sign, such as minus the scores of a metric with midpoints.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from math import inf, nextafter

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.metrics import roc_curve

from .._array import Doubles
from .dependence import (
    Units,
    are_independent,
    count_vouching_units,
    find_disjoint_pairs,
    find_largest_share,
)
from .rates import RankedPairs, most_errors, pairs_needed, upper_limit
from .reweighting import Reweighting
from .targets import (
    LARGEST_RATE,
    PROMISED_STRATEGIES,
    RATE_STRATEGIES,
    Calibration,
    CalibrationMethod,
    Target,
)

# An identity in more than this share of the pairs decides the rate alone.
LARGEST_SHARE = 0.5
# The units should be so many that a kind that has this share is among them.
RARE_KIND = 0.1
LARGEST_COUNT = 10**12  # of units that a search looks at
# Of a promised precision: this part of the risk is for the share of accepted similar pairs, which
# is better known than that of false matches.
RIGHT_RISK = 0.2
N_RUNGS = 8  # numbers of accepted similar pairs that are tested
FEWEST_RIGHT = 0.1  # the least share of the similar pairs among these
SEVERAL = 4.0  # times the pairs without error that a rate takes
# Pairs of disjoint units are drawn with one seed: who draws again until the threshold pleases
# breaks the promise.
SEED = 0


def calibrate(
    distances: Doubles,
    similar: NDArray[np.bool_],
    target: Target,
    units: Units | None = None,
    sample_weight: Doubles | None = None,
    ranked: RankedPairs | None = None,
) -> tuple[float, Calibration]:
    """Return the threshold for a target, and how it was found.

    Parameters
    ----------
    distances : array of shape (n_pairs,)
        Distances of pairs that were not used to learn the metric.
    similar : bool array of shape (n_pairs,)
        Which pairs are similar; both kinds must occur.
    target : Target
        With a promise, the true rate is at most `max_rate` with the wanted confidence.
    units : int array of shape (n_pairs, 2), optional
        The numbers of the samples or identities of each pair; None if all pairs are independent.
    sample_weight : array of shape (n_pairs,), optional
        Weights of the pairs; only without a promise.
    ranked : RankedPairs, optional
        The pairs that can have the error, if they were ranked before.
    """
    if target.is_promised:
        check_within_reach(similar, target, units)
        if target.strategy == "precision":
            threshold, method, n_effective = _keep_precision(target, distances, similar, units)
        else:
            threshold, method, n_effective = _keep(target, distances, similar, units, ranked)
    else:
        threshold = find_best_threshold(distances, similar, target, sample_weight)
        method, n_effective = "quantile", None
    if target.strategy not in PROMISED_STRATEGIES:
        return threshold, Calibration(target.strategy, "empirical", n_pairs=len(similar))
    kind = target.select(similar)
    wrong = (distances < threshold) != similar
    known = units[kind] if units is not None and method == "approximate" else None
    share = find_vouched_share(known, target.confidence)
    is_precision = target.strategy == "precision"
    found = Calibration(
        strategy=target.strategy,
        method=method,
        max_rate=None if is_precision else target.rate,
        confidence=target.confidence or None,
        n_errors=int(wrong[kind].sum()),
        n_pairs=int(kind.sum()),
        n_effective=n_effective,
        vouched_share=share,
        min_rate=target.rate if is_precision else None,
        same_rate=target.same_rate,
    )
    return threshold, found


# Promised rates


def check_within_reach(
    similar: NDArray[np.bool_], target: Target, units: Units | None = None
) -> None:
    """Raise where the numbers of pairs and units tell that the rate cannot be promised."""
    kind = target.select(similar)
    n_effective = n_pairs = int(kind.sum())
    if units is not None and not are_independent(units[kind]):
        share = find_largest_share(units[kind])
        if target.guarantee == "proved":
            n_effective = len(_draw_disjoint(units[kind]))
        elif share > LARGEST_SHARE:
            raise ValueError(
                f"pairs: expected no sample or group in more than {LARGEST_SHARE:.0%} of the "
                f"{target.kind} pairs to promise a rate, got one in {share:.0%}"
            )
    rate = target.as_false_matches(similar).rate
    if n_effective < pairs_needed(rate, target.confidence):
        raise _out_of_reach(target, n_pairs, n_effective, units, rate)


def find_few_units(similar: NDArray[np.bool_], target: Target, units: Units) -> str | None:
    """Return a warning if the units are so few that a kind of them may be missing by chance."""
    known, goal = units[target.select(similar)], target.goal
    target = target.as_false_matches(similar)
    if target.guarantee == "proved" or are_independent(known):
        return None
    needed, count = units_needed(target), count_vouching_units(known)
    if round(count) >= needed:
        return None
    share = find_vouched_share(known, target.confidence)
    alone = f"one in {1 / RARE_KIND:.0f} that has more errors than the others"
    if target.is_about_matches and target.rate < RARE_KIND:
        alone = f"a share of {target.rate**0.5:.2g} that match each other, which makes the rate"
    return (
        f"groups: expected at least {needed} samples or groups in several {target.kind} pairs to "
        f"promise a {goal}, got about {count:.0f}. They vouch for kinds of "
        f"at least {share:.0%} of the samples or groups only. A rarer kind, such as {alone}, "
        "may be missing by chance, and the promise is broken too often; give pairs of more samples "
        "or groups"
    )


def find_vouched_share(units: Units | None, confidence: float) -> float | None:
    """Return the smallest share of a kind of units that is met three times with the confidence.

    None if no units are shared: the promise is exact.

    Examples
    --------
    >>> round(find_vouched_share(np.stack(np.triu_indices(124, 1), axis=1), 0.95), 3)
    0.05
    """
    if units is None or are_independent(units):
        return None
    return upper_limit(2, count_vouching_units(units), confidence)


def units_needed(target: Target) -> int:
    """Return how many units are wanted: fewer may lack a kind that breaks the promise alone.

    If a share √α of the units match each other, the false match rate is α. So many units are
    wanted that such a kind is met three times, and a kind of one in ten at least once.

    Examples
    --------
    >>> rates = (0.1, 0.01, 0.001, 0.0001)
    >>> [units_needed(Target("false_match_rate", rate, confidence=0.95)) for rate in rates]
    [29, 61, 197, 628]
    """
    least = pairs_needed(RARE_KIND, target.confidence)
    if not target.is_about_matches:
        return least
    counts = range(least, LARGEST_COUNT)
    return counts[
        bisect_left(
            counts, True, key=lambda n: upper_limit(2, n, target.confidence) <= target.rate**0.5
        )
    ]


def _keep(
    target: Target,
    distances: Doubles,
    similar: NDArray[np.bool_],
    units: Units | None,
    ranked: RankedPairs | None,
) -> tuple[float, CalibrationMethod, float]:
    """Return a threshold with a promised rate, the method, and what the pairs are worth."""
    kind = target.select(similar)
    # The errors are the smallest of these values.
    values = distances[kind] if target.is_about_matches else -distances[kind]
    units = None if units is None else units[kind]
    ranked = RankedPairs(-values, units) if ranked is None else ranked
    method: CalibrationMethod = "exact" if ranked.are_independent else target.guarantee
    if method == "proved" and units is not None:
        values = values[_draw_disjoint(units)]
        k = most_errors(len(values), target.rate, target.confidence)
        n_effective = float(len(values))
    else:
        k, n_effective = find_allowed(
            ranked, target.rate, target.confidence, resembles=target.is_about_matches
        )
    if k < 0:
        raise _out_of_reach(target, int(kind.sum()), n_effective, units, target.rate)
    edge = float(np.partition(values, k)[k])  # the (k + 1)-th smallest is no error any more
    if edge == -inf and not target.is_about_matches:
        raise ValueError(
            f"pairs: expected at most {k} similar pairs at an infinite distance to promise a "
            f"{target.words} of {target.rate:g}, got {np.sum(values == -inf)}"
        )
    return (edge if target.is_about_matches else nextafter(-edge, inf)), method, n_effective


def _keep_precision(
    target: Target, distances: Doubles, similar: NDArray[np.bool_], units: Units | None
) -> tuple[float, CalibrationMethod, float]:
    """Return a threshold with a promised precision, the method, and what the pairs are worth.

    A rung accepts a given number of the similar pairs. The lower limit of their share allows a
    rate of false matches. If the threshold that promises this rate accepts as many similar pairs,
    it has the precision. The rungs are tested from few similar pairs to many, with parts of the
    risk that nothing observed decides; a rung that passes hands its risk on to the next (Wiens'
    fallback procedure). With guarantee="proved" it does not: the union bound proves the promise.
    """
    wrong, right = (_rank(target, distances, kind, units) for kind in (~similar, similar))
    values, near = np.sort(wrong[0]), np.sort(right[0])
    ranked, odds = wrong[1], target.false_per_true
    if target.same_rate is not None:
        odds *= target.same_rate / (1 - target.same_rate)
    risk, found, n_effective = 0.0, -inf, 0.0
    rungs = _find_rungs(target.as_false_matches(similar), similar, int(np.isfinite(near).sum()))
    for n_right, part in rungs:
        risk += part * (1 - target.confidence)
        least = right[1].measure(n_right, 1 - 2 * RIGHT_RISK * risk).low
        rate, level = min(odds * least, LARGEST_RATE), 1 - (1 - RIGHT_RISK) * risk
        k, worth = (-1, 0.0) if rate <= 0 else find_allowed(ranked, rate, level, resembles=True)
        passes = k >= 0 and values[k] > near[n_right - 1]
        if passes:
            found, n_effective = max(found, float(values[k])), worth
        if not passes or target.guarantee == "proved":
            risk = 0.0
    if found == -inf:
        raise _no_rung(target, wrong[0], near, odds)
    method: CalibrationMethod = "approximate"  # that risk is handed on is no theorem here
    if target.guarantee == "proved":
        method = "exact" if are_independent(units) else "proved"
    threshold = min(found, nextafter(float(distances.max()), inf))
    return threshold, method, n_effective * float(np.isfinite(values).mean())


def _rank(
    target: Target, distances: Doubles, kind: NDArray[np.bool_], units: Units | None
) -> tuple[Doubles, RankedPairs]:
    """Return the distances of pairs of one kind, in the order in which they are accepted.

    Without a `same_rate`, they are rates of all pairs: those of the other kind are infinite.
    """
    rows = np.arange(len(kind)) if target.same_rate is None else np.flatnonzero(kind)
    if target.guarantee == "proved" and units is not None:
        rows = rows[_draw_disjoint(units[rows])]
    values = np.where(kind[rows], distances[rows], inf)
    return values, RankedPairs(-values, None if units is None else units[rows])


def _find_rungs(
    target: Target, similar: NDArray[np.bool_], n_right: int
) -> Iterator[tuple[int, float]]:
    """Yield numbers of accepted similar pairs, and parts of the risk; `target`: of false matches.

    They increase by a constant factor, from a number that allows several false matches, to all.
    """
    several = SEVERAL * pairs_needed(target.rate, target.confidence) / np.sum(~similar)
    shares = np.geomspace(min(max(several, FEWEST_RIGHT), 0.5), 1.0, N_RUNGS)
    counts = np.unique(np.ceil(n_right * shares).astype(int))
    for count in counts:
        yield int(count), 1 / len(counts)


def _no_rung(target: Target, wrong: Doubles, near: Doubles, odds: float) -> ValueError:
    """Return the error of a precision that no threshold promises; `near` are sorted."""
    n_right = int(np.isfinite(near).sum())
    counts = np.arange(1, n_right + 1)
    allowed = odds * counts / len(near)
    observed = np.searchsorted(np.sort(wrong), near[:n_right], side="right") / len(wrong)
    # An upper limit of the rate p, about p + z (α/n)^½, is at most α, with the risk of one rung.
    spread = allowed * ndtri(1 - (1 - target.confidence) / N_RUNGS) ** 2
    gap = allowed - observed
    times = np.min(spread[gap > 0] / gap[gap > 0] ** 2, initial=inf) / len(wrong)
    got = f"got {n_right} similar and {np.isfinite(wrong).sum()} dissimilar pairs"
    if times == inf:
        return ValueError(
            f"min_rate: expected pairs of which a threshold has a {target.goal}, {got}, of which "
            "none has it"
        )
    return ValueError(
        f"min_rate: expected more pairs to promise a {target.goal} with confidence "
        f"{target.confidence:g}, about {max(1.0, times):.1f} times as many if they are "
        f"independent, {got}; confidence=None sets the threshold of the given pairs"
    )


def find_allowed(
    ranked: RankedPairs, max_rate: float, confidence: float, *, resembles: bool
) -> tuple[int, float]:
    """Return how many errors an approximate promise allows, or −1, and what the pairs are worth.

    With `resembles`, an error tells that the units of a pair are alike, see `Reweighting`.
    """
    # Judged once, at the observed rate α: anew for each candidate would be a multiple test.
    n_effective = ranked.worth(max_rate * ranked.n_pairs, confidence)
    most = most_errors(ranked.n_pairs, max_rate, confidence, n_effective)
    if ranked.sharing is None or most <= 0:
        return most, n_effective
    reweighting = Reweighting(ranked.sharing, most, resembles=resembles)
    return reweighting.most_errors(max_rate, confidence), n_effective


def _draw_disjoint(units: Units) -> NDArray[np.intp]:
    """Return the numbers of pairs of disjoint units, drawn without a look at the distances."""
    return find_disjoint_pairs(units, np.random.RandomState(SEED))


def _out_of_reach(
    target: Target, n_pairs: int, n_effective: float, units: Units | None, rate: float
) -> ValueError:
    """Return the error that says how many pairs or units an error rate takes."""
    needed = pairs_needed(rate, target.confidence)
    name = "min_rate" if target.strategy == "precision" else "max_rate"
    got = f"got {n_pairs}"
    if n_effective < n_pairs and target.guarantee == "proved" and units is not None:
        within = not target.is_about_matches and np.any(units[:, 0] == units[:, 1])
        n_units = needed * (1 if within else 2)  # similar pairs are within a group
        got += (
            f" pairs of which {n_effective:.0f} share no sample or group: it takes at least "
            f"{n_units} samples or groups"
        )
    elif n_effective < n_pairs:
        got += f" pairs worth {n_effective:.0f}, as they share samples or groups"
    return ValueError(
        f"{name}: expected at least {needed} independent {target.kind} pairs to promise a "
        f"{target.goal} with confidence {target.confidence:g}, {got}; confidence=None sets the "
        "plain quantile"
    )


# The best threshold on the given pairs


def find_best_threshold(
    distances: Doubles,
    similar: NDArray[np.bool_],
    target: Target = Target(),  # noqa: B008  # it is frozen
    sample_weight: Doubles | None = None,
) -> float:
    """Return the threshold that is best for a target on the given pairs.

    Returns
    -------
    float
        For a false match rate the largest threshold with at most this rate, for a false non-match
        rate the smallest. Else, also for a precision, a number half-way between two neighbouring
        distances; if no pair should be the same, half the least distance, or the least value itself
        if it is negative; and the next float above the largest distance if all pairs should be.
    """
    check_both_count(similar, sample_weight)
    if target.strategy in RATE_STRATEGIES and sample_weight is None:
        return _cut_at_count(distances[target.select(similar)], distances, target)
    fpr, tpr, scores = roc_curve(
        similar, -distances, sample_weight=sample_weight, drop_intermediate=False
    )
    weights = np.ones(len(similar)) if sample_weight is None else sample_weight
    positive, negative = weights[similar].sum(), weights[~similar].sum()
    tnr = 1 - fpr
    if target.strategy in RATE_STRATEGIES:
        return _cut_at_rate(-scores, fpr, tpr, target)
    if target.strategy == "accuracy":
        quality = tpr * positive + tnr * negative
    elif target.strategy == "f_beta":  # F = (1 + β²) TP / ((1 + β²) TP + β² FN + FP)
        hits = (1 + target.beta**2) * tpr * positive
        errors = target.beta**2 * (1 - tpr) * positive + fpr * negative
        quality = np.divide(hits, hits + errors, out=np.zeros_like(hits), where=hits > 0)
    elif target.strategy == "precision":
        same = positive / (positive + negative) if target.same_rate is None else target.same_rate
        wrong = target.rate * (1 - same) * fpr
        is_kept = wrong <= (1 - target.rate) * same * tpr + _ROUNDING
        quality = np.where(is_kept, fpr + tpr, -1.0)  # the largest such threshold
    elif target.strategy == "max_tnr":
        quality = np.where(tpr >= target.rate - _ROUNDING, tnr, -1.0)
    else:
        quality = np.where(fpr <= 1 - target.rate + _ROUNDING, tpr, -1.0)
    best = np.flatnonzero(quality == quality.max())
    # Ties: a limit on missed pairs takes the largest of the best thresholds, others the smallest.
    return cut_between(-scores, int(best[-1 if target.strategy == "max_tnr" else 0]))


def _cut_at_count(own: Doubles, distances: Doubles, target: Target) -> float:
    """Return what `_cut_at_rate` does for pairs without weights, without a sort of all pairs.

    `own` are the distances of the pairs that can have the error.
    """
    counts = range(len(own) + 1)
    # The errors that are allowed: the same floating-point comparisons as with weights.
    if target.is_about_matches:
        allowed = bisect_right(counts, target.rate + _ROUNDING, key=lambda k: k / len(own)) - 1
        if allowed == len(own):
            return nextafter(float(distances.max()), inf)
        return float(np.partition(own, allowed)[allowed])
    found = bisect_left(counts, 1 - target.rate - _ROUNDING, key=lambda k: k / len(own))
    return nextafter(float(np.partition(own, found - 1)[found - 1]), inf) if found else 0.0


def _cut_at_rate(distances: Doubles, fpr: Doubles, tpr: Doubles, target: Target) -> float:
    """Return the largest threshold with a false match rate, the smallest with the other rate.

    Like a promised threshold it is the first dissimilar distance that must not match, or the next
    float above the last similar distance that must. `distances` start with −∞: no pair is below.
    """
    if target.is_about_matches:
        last = int(np.flatnonzero(fpr <= target.rate + _ROUNDING)[-1])
        if last < len(distances) - 1:
            return float(distances[last + 1])
    else:
        last = int(np.argmax(tpr >= 1 - target.rate - _ROUNDING))
    return 0.0 if last == 0 else nextafter(float(distances[last]), inf)


def equal_error_rate(distances: Doubles, similar: NDArray[np.bool_]) -> float:
    """Return the error rate at which false matches are as frequent as false non-matches.

    Between two points of the ROC curve the rates are interpolated linearly.

    Examples
    --------
    >>> import numpy as np
    >>> equal_error_rate(np.array([1.0, 3.0, 2.0, 4.0]), np.array([True, True, False, False]))
    0.5
    """
    passed, found, _ = roc_curve(similar, -distances, drop_intermediate=False)
    excess = passed - (1 - found)  # increases from −1 to 1
    after = int(np.argmax(excess >= 0))
    share = -excess[after - 1] / (excess[after] - excess[after - 1])
    return float(passed[after - 1] + share * (passed[after] - passed[after - 1]))


_ROUNDING = 1e-12  # rates that miss their limit by less are taken to reach it


def cut_between(distances: Doubles, last: int) -> float:
    """Return a threshold above the sorted distances up to number `last`, and below the next."""
    if last == len(distances) - 1:
        return nextafter(float(distances[-1]), np.inf)
    lower = float(distances[last]) if last else 0.0  # number 0 is −∞: no pair is below
    upper = float(distances[last + 1])
    middle = lower + (upper - lower) / 2
    return middle if middle > lower else upper


def check_both_count(
    similar: NDArray[np.bool_], weights: Doubles | None, name: str = "sample_weight"
) -> None:
    """Raise an error unless pairs of both kinds have a positive weight."""
    if weights is not None and not (weights[similar].any() and weights[~similar].any()):
        raise ValueError(
            f"{name}: expected weights that leave similar and dissimilar pairs, got zero for all "
            "pairs of one class"
        )
