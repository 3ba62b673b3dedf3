"""Choices by held-out pairs: the units of a prior, and the threshold of a learnt metric.

A metric makes the pairs that it was learnt from look better than new ones. So the threshold that
suits the training pairs is too small for new pairs, the more so the more features there are. Here
the metric is learnt again on parts of the samples, and the threshold is judged on pairs of the
other samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .._array import Doubles, Indices, to_numpy
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sampling import balanced, draw_random_pairs, thin_out
from .._optim.result import Status
from .._verification.probabilities import fit_log_likelihood_ratio
from .centers import center_of_classes
from .labelled import Fold, LabelledSamples, draw_of_copies
from .metric import Metric, is_one_sided, some_of_each_kind
from .outliers import clip_outliers, find_cell_bounds, replace_cells
from .prepare import midpoint_prior_from_samples, prior_from_samples
from .priors import (
    KnownSamples,
    Units,
    WithinClasses,
    has_units,
    is_wide,
    pair_weights,
    within_classes,
    within_known_or_pairs,
)
from .samples import KernelSettings, host_if_wide
from .task import Settings

# With so many classes, half of a correction by held-out classes is made. With midpoints, the
# log-likelihood ratio is then half as steep: on seven datasets its log loss is .60, else .90.
TRUSTED_CLASSES, TRUSTED_BY_MIDPOINTS = 20, 5
FOLD_TOL = 0.1  # relative duality gap of the fits to parts of the samples

SAMPLES_PER_COLUMN = 5  # that unshrunk scatters need
MOST_HELD_OUT = 1000  # pairs that are drawn from the samples of one fold, in total
MORE_AREA = 0.005  # by which the AUC must be higher for components, or other ways than clipping
LEAST_HELD_OUT = 20  # pairs of each kind inside all folds that can judge a threshold
PAIR_FOLDS = (5, 3, 2)  # folds of the samples of given pairs, more of them first
ENOUGH_HELD_OUT = 900  # held-out pairs that are enough: no metric is learnt for further parts
MOST_FITTED = 3  # parts for which a metric is learnt
# Factors of a threshold are tried first between 0.4 and 2.5, and beyond if the best is at an end.
N_STEPS = 60
FACTORS = np.geomspace(0.4, 2.5, 2 * N_STEPS + 1)
LOG_STEP = np.log(FACTORS[1] / FACTORS[0])
MOST_EXTREME = (1e-6, 1e6)
PAIR_STEP = 10  # fits to parts of the samples take every tenth pair, or more,
PART_PAIRS = 300  # so that this many remain
SMOOTHING = 0.2  # standard deviation of the smoothing of balanced accuracies, in log(factor)


@dataclass(frozen=True)
class HeldOutPairs:
    """One part of the samples to learn from, and pairs of other samples to judge by.

    Parameters
    ----------
    rows : int array
        The numbers of the samples to learn from.
    known : Blocks
        These samples.
    within : WithinClasses
        Their deviations from the class means.
    others : Blocks
        The other samples.
    pairs : Pairs
        Pairs of them; both kinds occur.
    """

    rows: Indices
    known: Blocks
    within: WithinClasses
    others: Blocks
    pairs: Pairs

    def select_known(self, pairs: Pairs) -> Pairs:
        """Return the pairs of known samples, as pairs of `known`."""
        number = np.full(1 + max(int(pairs.index.max()), int(self.rows.max())), -1)
        number[self.rows] = np.arange(len(self.rows))
        index = number[pairs.index]
        chosen = pairs.take(np.flatnonzero(np.all(index >= 0, axis=1)))
        return Pairs(np.asfortranarray(number[chosen.index]), chosen.similar, chosen.weights)


def hold_out_samples(
    samples: LabelledSamples, folds: Sequence[Fold], space: KernelSettings | None = None
) -> list[HeldOutPairs]:
    """Return one part per fold of labelled samples, with random pairs of its test samples.

    A `space` maps the samples of each part, fitted to those to learn from.
    """
    parts = []
    for rows, test in folds:
        known, others = samples[rows].renumbered(), samples[test].renumbered()
        known_blocks, other_blocks, n_images = _map_both(known.blocks, others.blocks, rows, space)
        draw = partial(
            draw_random_pairs,
            n_pairs_per_class=max(2, MOST_HELD_OUT // (1 + int(others.labels.max()))),
            random_state=np.random.RandomState(0),
        )
        pairs = draw_of_copies(others, draw)
        within = within_classes(
            known_blocks, known.labels, n_images=n_images, weights=known.weights
        )
        parts.append(HeldOutPairs(rows, known_blocks, within, other_blocks, balanced(pairs)))
    return parts


def _map_both(
    known: Blocks, others: Blocks, rows: Indices, space: KernelSettings | None
) -> tuple[Blocks, Blocks, int]:
    """Return both samples in the space, and the number of blocks that are kernel images."""
    n_images = 0
    if space is not None:
        fitted = space.fit(known, rows)
        n_images = len(fitted.maps_)
        known, others = fitted.map_blocks(known), fitted.map_blocks(others)
    known, others = host_if_wide(known, others)
    return known, others, n_images


def hold_out_pairs(
    blocks: Blocks,
    pairs: Pairs,
    space: KernelSettings | None = None,
    known: KnownSamples | None = None,
) -> list[HeldOutPairs]:
    """Return one part per fold of the samples of given pairs; pairs across folds are left out.

    The samples are distinct: see `merge_identical`. What is `known` of them, if anything, gives the
    deviations within classes in place of the pairs, and the groups, which are in one fold each.
    Pairs without weight are left out. There are five folds, or fewer if they hold too few pairs;
    none if two hold too few.
    """
    pairs = pairs.take(np.flatnonzero(pair_weights(pairs)))
    for n_folds in PAIR_FOLDS:
        fold = _folds_of_samples(pairs, n_folds, None if known is None else known.groups)
        first, second = fold[pairs.first], fold[pairs.second]
        parts = [
            ((first != k) & (second != k), (first == k) & (second == k)) for k in range(n_folds)
        ]
        parts = [part for part in parts if min(_count_kinds(pairs, part)) > 0]
        held_out = np.any([rows for _, rows in parts], axis=0)
        if min(_count_kinds(pairs, [held_out])) >= LEAST_HELD_OUT:
            return [_hold_out_some(blocks, pairs, *rows, space, known) for rows in parts]
    return []


def _count_kinds(pairs: Pairs, parts: Sequence[NDArray[np.bool_]]) -> list[int]:
    """Return how many pairs of both kinds are in each part."""
    kinds = (pairs.similar, ~pairs.similar)
    return [int(np.sum(rows & kind)) for rows in parts for kind in kinds]


def _folds_of_samples(pairs: Pairs, n_folds: int, groups: Indices | None) -> Indices:
    """Return the fold of each sample, which is that of its group if there are groups.

    Samples that pairs connect stay together if the pairs fall into many such components.
    """
    rng, size = np.random.RandomState(0), int(pairs.index.max()) + 1
    units = np.arange(size)
    if groups is not None:
        _, first, number = np.unique(groups[:size], return_index=True, return_inverse=True)
        size = len(first)
        units = np.argsort(np.argsort(first))[number]  # in the order in which they come
    edges = (units[pairs.first], units[pairs.second])
    component = connected_components(coo_array((np.ones(len(pairs)), edges), (size, size)))[1]
    n_pairs = np.bincount(component[edges[0]], minlength=component.max() + 1)
    if 2 * n_pairs.max() > len(pairs):
        return rng.permutation(size)[units] % n_folds
    order = rng.permutation(len(n_pairs))
    fold = np.empty(len(n_pairs), dtype=np.intp)
    before = np.cumsum(n_pairs[order]) - n_pairs[order]
    fold[order] = before * n_folds // len(pairs)
    return fold[component][units]


def merge_identical(blocks: Blocks, pairs: Pairs) -> tuple[Indices, Pairs, int]:
    """Return the rows of the distinct samples, and the pairs as pairs of these.

    The samples come in the order in which the pairs name them, first those of pairs with a positive
    weight. Their number is the last value.
    """
    counts = pair_weights(pairs) > 0
    named = np.concatenate([pairs.index[counts].ravel(), pairs.index[~counts].ravel()])
    used, first = np.unique(named, return_index=True)
    number = np.zeros(len(blocks), dtype=np.intp)
    numbers: dict[int, int] = {}
    rows: list[np.intp] = []
    for row in used[np.argsort(first)]:
        key = hash(tuple((array[row] + 0.0).tobytes() for array in blocks.arrays))
        number[row] = numbers.setdefault(key, len(numbers))
        if len(rows) < len(numbers):
            rows.append(row)
    index = np.asfortranarray(number[pairs.index])
    n_counted = 1 + int(index[counts].max())
    return np.array(rows, dtype=np.intp), Pairs(index, pairs.similar, pairs.weights), n_counted


def _hold_out_some(
    blocks: Blocks,
    pairs: Pairs,
    inside: NDArray[np.bool_],
    others: NDArray[np.bool_],
    space: KernelSettings | None,
    known: KnownSamples | None,
) -> HeldOutPairs:
    rows, known_blocks, known_pairs = _taken(blocks, pairs, inside)
    _, other_blocks, other_pairs = _taken(blocks, pairs, others)
    known_blocks, other_blocks, n_images = _map_both(known_blocks, other_blocks, rows, space)
    known = None if known is None else known[rows]
    within = within_known_or_pairs(known_blocks, known, known_pairs, n_images)
    return HeldOutPairs(rows, known_blocks, within, other_blocks, other_pairs)


def _taken(blocks: Blocks, pairs: Pairs, rows: NDArray[np.bool_]) -> tuple[Indices, Blocks, Pairs]:
    """Return some of the pairs, with the rows of their samples and these samples."""
    chosen = pairs.take(np.flatnonzero(rows))
    used, index = np.unique(chosen.index, return_inverse=True)
    index = np.asfortranarray(index.reshape(-1, 2))
    return used, blocks[used], Pairs(index, chosen.similar, chosen.weights)


def choose_cells(
    blocks: Blocks,
    counted: Indices,
    settings: Settings,
    hold_out: Callable[[Blocks], list[HeldOutPairs]],
) -> tuple[Blocks, list[Doubles] | None]:
    """Return samples to learn from, without outliers, and the bounds of replaced cells.

    By default, columns are clipped, if there is a reason to. Wild cells are replaced by the median,
    or outliers left as they are, if the prior then orders held-out pairs better; held-out samples
    are treated as new ones, in which nothing is clipped. `hold_out` makes the pairs of samples.
    """
    choice, name = settings.clip_outliers, settings.samples_name
    if choice is False or settings.has_kernel_values:
        return blocks, None
    bounds = None if choice is True else find_cell_bounds(blocks, counted)
    if bounds is None:
        return clip_outliers(blocks, counted, name), None
    replaced = replace_cells(blocks, bounds)
    if choice == "replace":
        return replaced, bounds
    clipped = clip_outliers(blocks, counted, name)
    new, areas = [], []
    for candidate in (blocks, clipped, replaced):
        parts = hold_out(candidate)
        if candidate is blocks:
            new = [part.others for part in parts]
        elif candidate is clipped:
            both = zip(parts, new, strict=True)
            parts = [replace(part, others=others) for part, others in both]
        areas.append(
            np.mean([_area_of_prior(settings, "columns", part) for part in parts] or [0.0])
        )
    kept, of_clipped, of_replaced = areas
    if of_replaced > max(kept, of_clipped + MORE_AREA):
        if settings.verbose:
            print("Wild cells are replaced by the median, in later samples, too.", flush=True)
        return replaced, bounds
    return (blocks if kept > of_clipped + MORE_AREA else clipped), None


HoldOut = Callable[[KernelSettings | None], list[HeldOutPairs]]


def choose_space(
    kernel: KernelSettings | None, settings: Settings, hold_out: HoldOut
) -> tuple[KernelSettings | None, Units, list[HeldOutPairs]]:
    """Return the kernel with its units, the units of the prior, and the held-out pairs.

    The units are those whose prior orders the held-out pairs best; without held-out pairs, those
    of the rule "auto". `hold_out` makes the pairs, in the space of a kernel if it is given one.
    """
    candidates = [None] if kernel is None else kernel.candidates()
    chosen, best = None, -1.0
    for candidate in candidates:
        parts = hold_out(candidate)
        if not parts or (len(candidates) == 1 and not has_units(settings.prior)):
            return kernel, "columns", parts
        area, units = find_units(settings, parts)
        if area > best:
            chosen, best = (candidate, units, parts), area
    assert chosen is not None
    return chosen


def find_units(settings: Settings, parts: Sequence[HeldOutPairs]) -> tuple[float, Units]:
    """Return the units in which the prior of the settings orders held-out pairs best.

    The first value is the area under the ROC curve of these pairs.
    """
    candidates: list[Units] = ["columns"]
    if has_units(settings.prior):
        candidates.append("common")
        per_column = [
            part.within.n_observations / max(array.shape[1] for array in part.known.arrays)
            for part in parts
        ]
        if min(per_column) >= SAMPLES_PER_COLUMN:
            candidates.append("affine")
        if all(any(map(is_wide, part.known.arrays)) for part in parts):
            candidates.append("components")
    areas = [
        float(np.mean([_area_of_prior(settings, units, part) for part in parts]))
        for units in candidates
    ]
    judged = [
        area - MORE_AREA * (u == "components") for area, u in zip(areas, candidates, strict=True)
    ]
    best = int(np.argmax(judged))
    return areas[best], candidates[best]


def _area_of_prior(settings: Settings, units: Units, part: HeldOutPairs) -> float:
    """Return the area under the ROC curve of held-out pairs; 0 where there is no such prior."""
    within = replace(part.within, units=units)
    try:
        metric = metric_of_prior(settings, part.known, within)
    except ValueError:  # a block is constant in this part, or a scatter has no inverse
        return 0.0
    found = metric.dissimilarities(part.others, part.pairs.index, many=True)
    return area_under_roc(to_numpy(found), part.pairs)


def metric_of_prior(settings: Settings, blocks: Blocks, within: WithinClasses) -> Metric:
    """Return the metric of the prior of samples, which needs no solver."""
    if not (settings.midpoint and isinstance(settings.prior, str)):
        return Metric(prior_from_samples(settings.prior, blocks, within).own_factors())
    factors = midpoint_prior_from_samples(blocks, within, settings.new_classes).own_factors()
    M, center = len(factors) // 2, [center_of_classes(array, within) for array in blocks.arrays]
    return Metric(factors[:M], sum_factors=factors[M:], center=[*map(to_numpy, center)])


def area_under_roc(distances: Doubles, pairs: Pairs) -> float:
    """Return the weighted share of (similar, dissimilar) pairs of pairs with distances in order.

    It equals scikit-learn's ``roc_auc_score(similar, -distances, sample_weight=weights)``, whose
    checks take longer than the prior itself.
    """
    (near, of_near), (far, of_far) = (
        (distances[kind], pair_weights(pairs)[kind]) for kind in (pairs.similar, ~pairs.similar)
    )
    order = np.argsort(near)
    # Divided by one of them, equal weights are 1: then the sums are exact, and ties are ties.
    below = np.concatenate([[0.0], np.cumsum(of_near[order] / of_near[0])])
    smaller = sum(below[np.searchsorted(near[order], far, side=s)] for s in ("left", "right"))
    return float(np.average(smaller, weights=of_far / of_far[0]) / (2 * below[-1]))


def enough_parts(parts: Sequence[HeldOutPairs]) -> Sequence[HeldOutPairs]:
    """Return as many of the parts as a threshold needs."""
    sizes = [len(part.pairs) for part in parts]
    enough = [part for k, part in enumerate(parts) if sum(sizes[:k]) < ENOUGH_HELD_OUT]
    return enough[:MOST_FITTED]


@dataclass(frozen=True, eq=False)
class FittedPart:
    """A metric that was learnt from the known samples of a part, and the pairs it came from."""

    metric: Metric
    part: HeldOutPairs
    known_pairs: Pairs

    def relative(self, blocks: Blocks, pairs: Pairs) -> Doubles:
        """Return the distances of pairs divided by the threshold, or their q minus it."""
        assert self.metric.threshold is not None
        found = to_numpy(self.metric.dissimilarities(blocks, pairs.index, many=True))
        threshold = self.metric.threshold
        return found - threshold if self.metric.has_midpoint else found / threshold


@dataclass(frozen=True, eq=False)
class HeldOutRelative:
    """The distances of held-out pairs relative to the threshold of their part, see `FittedPart`."""

    values: Doubles
    similar: NDArray[np.bool_]
    weights: Doubles

    @classmethod
    def of(cls, fitted: Sequence[FittedPart]) -> HeldOutRelative | None:
        """Join the held-out pairs of the parts; None if there are fewer than 20 of a kind."""
        similar = np.concatenate([np.zeros(0, bool), *(one.part.pairs.similar for one in fitted)])
        if min(similar.sum(), (~similar).sum()) < LEAST_HELD_OUT:
            return None
        values = np.concatenate([one.relative(one.part.others, one.part.pairs) for one in fitted])
        return cls(
            values, similar, np.concatenate([pair_weights(one.part.pairs) for one in fitted])
        )


@dataclass(frozen=True)
class Judge:
    """Held-out pairs that judge a threshold, and how.

    Parameters
    ----------
    parts : sequence of HeldOutPairs
        The pairs.
    trust : float
        The share of the correction that is made: of the logarithm of the factor. With midpoints, it
        also multiplies the log-likelihood ratio, which is too steep if few classes are held out.
    bias : float
        What is added to the logarithm of the factor.
    """

    parts: Sequence[HeldOutPairs]
    trust: float = 1.0
    bias: float = 0.0


def cross_fit(
    metric: Metric,
    judge: Judge,
    pairs: Pairs,
    fit: Callable[[HeldOutPairs, Pairs], Metric],
    thins: bool = False,
) -> tuple[Metric, list[FittedPart]]:
    """Correct a threshold by held-out pairs of the parts, if there are any.

    That of a distance is multiplied by the best factor. With midpoints, the threshold is where the
    log-likelihood ratio of held-out pairs, a linear function of q, is zero. `fit` learns the metric
    of a part from the pairs that lie in it; with `thins`, from some of these where many remain. A
    part with pairs of one kind only is left out, and one that does not allow the fit: a block may
    be constant in it. After an interrupt, the threshold stays. Returns what was learnt from the
    parts, too.
    """
    if metric.result is not None and metric.result.status is Status.INTERRUPTED:
        return metric, []
    fitted = []
    for part in enough_parts(judge.parts):
        known = part.select_known(pairs)
        known = thin_out(known, PAIR_STEP, PART_PAIRS) if thins else known
        if known.similar.all() or not known.similar.any():
            continue
        try:
            found = fit(part, known)
        except ValueError:
            continue
        if found.threshold or found.has_midpoint:
            fitted.append(FittedPart(found, part, known))
    held_out = HeldOutRelative.of(fitted)
    if held_out is None:
        return metric, fitted
    if not metric.has_midpoint:
        factor = find_threshold_factor(held_out) ** judge.trust * np.exp(judge.bias)
        return metric.with_factor(float(factor)), fitted
    ratio = fit_log_likelihood_ratio(held_out.values, held_out.similar, held_out.weights)
    intercept, slope = map(float, ratio)
    if slope > 0:
        trust = judge.trust
        metric = metric.with_likelihood_ratio(trust**2 * intercept, trust * slope)
    return metric, fitted


def trust_in_classes(n_classes: int, half_trusted: int) -> float:
    """Return how far to trust what held-out classes say of new ones: less if they are few."""
    return n_classes / (n_classes + half_trusted)


def find_threshold_factor(held_out: HeldOutRelative) -> float:
    """Return the factor of the threshold that predicts held-out pairs best.

    The distances of each model are divided by its own threshold. The weighted accuracy is smoothed
    over the factors, since few pairs make it rough. Return 1 if the best factor has nearly all
    pairs on one side: they then favour no threshold.
    """
    ratios, weights, similar = held_out.values, held_out.weights, held_out.similar
    factor = _best_factor(ratios, weights, similar, FACTORS)
    if factor in (FACTORS[0], FACTORS[-1]):
        useful = np.clip(ratios, *MOST_EXTREME)
        first, last = (round(np.log(end) / LOG_STEP) for end in (useful.min(), useful.max()))
        steps = np.arange(min(first, -N_STEPS) - 1, max(last, N_STEPS) + 2)
        factor = _best_factor(ratios, weights, similar, np.exp(LOG_STEP * steps))
    return 1.0 if is_one_sided(ratios, similar, factor) else factor


def suits_new_pairs_alone(fitted: Sequence[FittedPart]) -> bool:
    """Return whether the factor separates held-out pairs, but not those that models learn from.

    With many features, training pairs may all be closer than a threshold that suits new pairs. A
    threshold of midpoints separates held-out pairs if it comes from them.
    """
    held_out = HeldOutRelative.of(fitted)
    if held_out is None:
        return False
    if fitted[0].metric.has_midpoint:
        return True
    factor, old = find_threshold_factor(held_out), []
    for one in fitted:
        some = some_of_each_kind(one.known_pairs)
        old.append((one.relative(one.part.known, some), some.similar))
    values, similar = map(np.concatenate, zip(*old, strict=True))
    return is_one_sided(values, similar, factor) and not is_one_sided(
        held_out.values, held_out.similar, factor
    )


def _best_factor(
    ratios: Doubles, weights: Doubles, similar: NDArray[np.bool_], factors: Doubles
) -> float:
    """Return the factor with the largest smoothed weight of the pairs that it judges rightly."""
    order = np.argsort(ratios)
    signed = np.where(similar, weights, -weights)[order]
    correct = np.concatenate([[0.0], np.cumsum(signed)])  # up to a constant
    at_factors = correct[np.searchsorted(ratios[order], factors)]
    smooth = gaussian_filter1d(at_factors, SMOOTHING / LOG_STEP, mode="nearest")
    return float(factors[int(np.argmax(smooth))])
