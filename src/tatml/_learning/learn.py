"""Learn a metric: from pairs, from labels that give pairs, from comparisons, or from neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._array import Doubles, Indices, sum_at, to_numpy
from .._data.blocks import Blocks
from .._data.pairs import Pairs, link_pairs
from .._data.sampling import count_violated, nearest_rows, neighbor_triplets
from .._optim.losses import comparison_hinge, join_losses
from .._optim.problem import LogDetProblem, pair_term, squared_hinge
from .._optim.result import Result, Status, host_result, learnt_b0, place_result, with_midpoint
from .._optim.solvers import Newton
from .._sharding.all_pairs import AllPairs
from .._sharding.base import LossSetting
from .._threads import SMALL_MATRIX, _threadpools
from ..features._kernel_map import KernelMap
from .centers import center_of_classes, without_constants
from .cross_fit import (
    FOLD_TOL,
    TRUSTED_BY_MIDPOINTS,
    TRUSTED_CLASSES,
    FittedPart,
    HeldOutPairs,
    Judge,
    choose_cells,
    choose_space,
    cross_fit,
    hold_out_pairs,
    hold_out_samples,
    suits_new_pairs_alone,
    trust_in_classes,
)
from .labelled import (
    Fold,
    LabelledSamples,
    distinct,
    draw,
    draw_random,
    folds_of,
    sums_in_tiles,
    weigh_all_pairs,
)
from .metric import (
    Metric,
    b0_of,
    embed_blocks,
    factors_of,
    is_one_sided,
    learn_b0,
    means_of,
    some_of_each_kind,
    warn_if_one_sided,
)
from .prepare import (
    MetricPrior,
    Prepared,
    describe_axes,
    describe_spans,
    prepare,
    prior_from_samples,
)
from .priors import (
    IDENTICAL,
    KnownSamples,
    PriorName,
    Units,
    WithinClasses,
    has_units,
    pair_weights,
    within_classes,
    within_known_or_pairs,
    within_pairs,
)
from .samples import (
    KernelSettings,
    host_if_wide,
    map_samples,
    place_blocks,
    read_kernel,
)
from .span import SpanFactor
from .task import Settings, Task

PAIR_MARGIN = (0.5, 2.0)  # γ_s and γ_d of the pairs that the threshold is learnt from
Cells = list[Doubles] | None  # the bounds of cells, see `find_cell_bounds`
SOLVER_OF_PARTS = Newton()
ROUND_TOL = 1e-3  # tolerance of the rounds before the last
# The priors to choose from; of equally good ones, the first is taken.
CANDIDATES: tuple[PriorName, ...] = ("discriminant", "auto", "scaled")
N_FOLDS = 5


def solve(
    problem: LogDetProblem,
    prior: MetricPrior,
    settings: Settings,
    init: Result | None = None,
    least_tol: float = 0.0,
) -> Result:
    """Solve a problem, and return the result in its coordinates, with NumPy arrays.

    A `least_tol` above the tolerance of the settings replaces it.
    """
    if settings.verbose:
        for line in describe_spans(prior):
            print(line, flush=True)
    init = prior.start(settings.init) if init is None else init
    place = settings.place if problem.is_listed else None
    if place is not None:
        problem = problem.placed(place)
        init = None if init is None else place_result(init, place)
    found = settings.solver.solve(
        problem,
        tol=max(least_tol, settings.tol),
        init=init,
        verbose=settings.verbose,
        sizes=", ".join(settings.names),
        random_state=settings.random_state,
    )
    return found if place is None else host_result(found)


def metric_of(found: Result, prior: MetricPrior, task: Task, settings: Settings) -> Metric:
    """Return the metric of what a solver found for a task."""
    keeps = settings.keeps_spans
    if settings.midpoint:
        return _midpoint_metric(found, prior, task, keeps)
    n_components, weights = settings.n_components, task.within.weights
    factors = factors_of(found.L, prior, task.counted, n_components, keeps, weights)
    if keeps:
        return Metric(factors, result=found)
    if settings.verbose:
        for line in describe_axes(prior, found.L, factors):
            print(line, flush=True)
    result, center = prior.full_result(found), means_of(task.blocks, task.within.n_images)
    if not prior.is_small:
        return Metric(factors, center=center, result=result)
    for m, A in enumerate(factors):
        if isinstance(A, SpanFactor):
            factors[m] = np.ascontiguousarray(result.L[m].T) / sqrt(len(found.L))
    return Metric(factors, center=center, result=result, prior=prior.full())


def _midpoint_metric(found: Result, prior: MetricPrior, task: Task, keeps: bool) -> Metric:
    """Return the metric of differences and sums; the spans of wide blocks stay in their form."""
    center = [center_of_classes(array, task.within) for array in task.blocks.arrays]
    host = [to_numpy(middle).astype(np.float64, copy=False) for middle in center]
    if prior.has_constants:
        found, shifts = without_constants(found, [middle.shape[1] for middle in host])
        shifts = prior.whole_shifts(shifts)
        host = [c + shift[:, None] for c, shift in zip(host, shifts, strict=True)]
    factors, M = prior.factors(found.L), prior.n_blocks
    metric = Metric(factors[:M], sum_factors=factors[M:], center=host, result=found)
    if keeps:
        return metric
    result = with_midpoint(prior.full_result(found), host)
    return replace(metric, result=result, prior=prior.full() if prior.is_small else None)


def learn(task: Task, settings: Settings) -> Metric:
    """Learn the metric of pairs, and the threshold that belongs to the same minimum.

    The threshold is fixed where the settings give one.
    """
    problem, prior = pair_problem(task, settings)
    metric = metric_of(solve(problem, prior, settings), prior, task, settings)
    pairs: Any = task.rows
    assert metric.result is not None
    b0 = learnt_b0(metric.result)
    if settings.midpoint:
        return replace(metric, b0=b0, threshold=b0, threshold_shift=0.0, pairs=pairs)
    if settings.n_components is not None and problem.learns_threshold:  # then pairs are listed
        squared = to_numpy(metric.distances(task.blocks, pairs.index)) ** 2
        strength = problem.c0 / float(problem.xp.sum(problem.pairs.loss.weight))
        b0 = learn_b0(squared, pairs, settings.margin, strength, problem.mu0)
    return replace(metric.with_b0(b0, settings.margin), pairs=pairs)


def pair_problem(task: Task, settings: Settings) -> tuple[LogDetProblem, MetricPrior]:
    """Return problem (P) of pairs, and its prior W0, both in the units of the data."""
    loss: Any
    if isinstance(task.rows, AllPairs):
        c, c0 = strengths(weigh_all_pairs(task.rows), settings)
        loss = loss_setting(c, settings)
    else:
        assert isinstance(task.rows, Pairs)
        c, c0 = strengths(float(np.sum(pair_weights(task.rows))), settings)
        loss = loss_setting(c, settings).loss_of(task.rows)
    prepared = prepare(task, loss, settings)
    return replace(prepared.problem, c0=c0, mu0=_mu0(prepared, settings)), prepared.prior


def loss_setting(c: float, settings: Settings) -> LossSetting:
    """Return the loss of pairs with the weight c."""
    return LossSetting(c, settings.margin, loss=settings.loss_of_pairs)


def _mu0(prepared: Prepared, settings: Settings) -> float:
    """Return what the threshold is pulled to, or fixed at, in squared units."""
    centre = settings.given_threshold
    centre = settings.threshold_prior if centre is None else centre
    if settings.midpoint:
        ratio = prepared.prior.log_ratio if centre is None else centre
        constant = prepared.prior.mean_constant
        return prepared.mean_distance if ratio is None else ratio + constant
    if centre is None:
        if not prepared.mean_distance > 0:
            raise ValueError(f"{settings.samples_name}: {IDENTICAL}")
        centre = sqrt(prepared.mean_distance)
    return b0_of(centre, settings.margin)


def strengths(total: float, settings: Settings) -> tuple[float, float]:
    """Return c, and c0, for pairs of the given total weight; c0 = ∞ for a fixed threshold."""
    c = settings.C / total if settings.reduction == "mean" else settings.C
    if settings.given_threshold is not None:
        return c, inf
    if settings.c0 is not None:
        return c, settings.c0
    c0 = settings.threshold_strength * c * total  # theory (Rho)
    if not 0 < c0 < inf:
        raise ValueError(
            f"{settings.names[0]}, threshold_strength: expected sizes for which c0 is a positive "
            f"number, got C={settings.C:g} and threshold_strength={settings.threshold_strength:g}"
        )
    return c, c0


def learn_threshold(metric: Metric, blocks: Blocks, pairs: Pairs, settings: Settings) -> Metric:
    """Return the metric with a threshold learnt from the given pairs."""
    if settings.c0 is None:
        strength = settings.threshold_strength
    else:  # c0/(c Σw), as the pairs are not part of the problem
        total = float(np.sum(pair_weights(pairs)))
        strength = settings.c0 / (settings.C * (1 if settings.reduction == "mean" else total))
    centre, margin = settings.threshold_prior, settings.margin
    mu0 = None if centre is None else b0_of(centre, margin)
    squared = to_numpy(metric.distances(blocks, pairs.index)) ** 2
    return metric.with_b0(learn_b0(squared, pairs, margin, strength, mu0), margin)


# From labels


def learn_from_labels(samples: LabelledSamples, settings: Settings) -> Metric:
    """Draw pairs of labelled samples, and learn a metric and its threshold from them."""
    samples, given = distinct_labelled(samples, settings)
    kernel = read_kernel(settings.kernel, samples.blocks)
    in_tiles = sums_in_tiles(settings, len(samples.blocks))  # these are summed on the host
    blocks = samples.blocks if in_tiles else to_learn(samples.blocks, settings)
    folds: list[Fold] = []
    if settings.cross_fits or has_units(settings.prior) or kernel is not None:
        folds = folds_of(samples, settings)
    samples, cells = without_outliers(replace(samples, blocks=blocks), folds, settings)
    hold_out = partial(hold_out_samples, samples, folds)
    kernel, units, parts = choose_space(kernel, settings, hold_out)
    judges = _judges_of(samples, parts, kernel, settings)
    samples, within, kernel_map = map_labelled(samples, kernel, settings, units)
    blocks, rows = samples.blocks, draw(samples, settings, within)
    metric = replace(learn(Task(blocks, rows, within), settings), units=units)
    if settings.learns_threshold:
        judged = None
        if settings.pairs == "neighbors":  # whose distances are not those of other pairs
            judged = draw_random(samples, settings)
            metric = learn_threshold(metric, blocks, judged, settings)
        pairs = rows if isinstance(rows, Pairs) else draw_random(samples, settings, "random")
        metric = _judge_threshold(metric, blocks, pairs, judges, settings, judged)
    return in_given_rows(replace(metric, kernel_map=kernel_map, cells=cells), given)


def distinct_labelled(
    samples: LabelledSamples, settings: Settings
) -> tuple[LabelledSamples, Indices | None]:
    """Return the samples without copies and weights of 0, and their rows, see `distinct`.

    Rows of a kernel matrix stay as they are.
    """
    return (samples, None) if settings.has_kernel_values else distinct(samples)


def in_given_rows(metric: Metric, rows: Indices | None) -> Metric:
    """Return the metric with pairs and landmarks as numbers of the given samples."""
    if rows is None:
        return metric
    kernel_map, pairs = metric.kernel_map, metric.pairs
    if kernel_map is not None:
        kernel_map = kernel_map.among_rows(rows)
    if isinstance(pairs, Pairs):
        pairs = Pairs(np.asfortranarray(rows[pairs.index]), pairs.similar, pairs.weights)
    return replace(metric, kernel_map=kernel_map, pairs=pairs)


def learn_from_pairs(
    distinct: Blocks,
    pairs: Pairs,
    n_counted: int,
    settings: Settings,
    known: KnownSamples | None = None,
) -> Metric:
    """Learn a metric and its threshold from pairs.

    Parameters
    ----------
    distinct : Blocks
        The distinct samples; first the `n_counted` ones of pairs with a positive weight.
    pairs : Pairs
        Pairs of them, see `merge_identical`.
    n_counted : int
        Their number.
    settings : Settings
        The parameters.
    known : KnownSamples, optional
        The classes of the distinct samples, for priors with a scatter within classes, instead of
        similar pairs; and their groups, which are held out as a whole.
    """
    kernel = read_kernel(settings.kernel, distinct[:n_counted], settings.samples_name)
    needed = settings.cross_fits or has_units(settings.prior) or kernel is not None

    def hold_out(space: KernelSettings | None) -> list[HeldOutPairs]:
        return hold_out_pairs(distinct, pairs, space, known) if needed else []

    kernel, units, parts = choose_space(kernel, settings, hold_out)
    mapped, kernel_map, n_images = map_samples(kernel, distinct, settings, n_counted)
    within = within_known_or_pairs(mapped, known, pairs, n_images)
    within = replace(within, units=units)
    metric = learn(Task(mapped, pairs, within, n_counted=n_counted), settings)
    metric = replace(metric, units=units)
    if settings.learns_threshold:
        metric = _judge_threshold(metric, mapped, pairs, [Judge(parts)], settings)
    return replace(metric, kernel_map=kernel_map)


def _judges_of(
    samples: LabelledSamples,
    parts: Sequence[HeldOutPairs],
    kernel: KernelSettings | None,
    settings: Settings,
) -> list[Judge]:
    """Return who judges the threshold of labelled samples, by `parts` and by others.

    Of few classes, held-out ones say little about new classes. So the threshold of distances is a
    compromise with what folds of samples say, and is a bit smaller: theory (New).
    """
    if not (settings.new_classes and settings.cross_fits):
        return [Judge(parts)]
    n_classes = len(np.unique(samples.labels))
    if settings.midpoint:
        return [Judge(parts, trust_in_classes(n_classes, TRUSTED_BY_MIDPOINTS))]
    trust = trust_in_classes(n_classes, TRUSTED_CLASSES)
    folds = folds_of(samples, replace(settings, new_classes=False))
    known = hold_out_samples(samples, folds, kernel)
    return [Judge(known, 1 - trust, -(1 - trust) / (2 * n_classes)), Judge(parts, trust)]


def _judge_threshold(
    metric: Metric,
    blocks: Blocks,
    pairs: Pairs,
    judges: Sequence[Judge],
    settings: Settings,
    judged: Pairs | None = None,
) -> Metric:
    """Correct a learnt threshold by held-out pairs, if there are some: see `cross_fit`.

    The metric of each part is learnt from those of the pairs that lie in it, and its threshold
    from those of the `judged` pairs, if there are any. A threshold of no use causes a warning.
    """
    inner = for_parts(settings)
    fitted: list[FittedPart] = []

    def fit(part: HeldOutPairs, known: Pairs) -> Metric:
        assert metric.units is not None
        within = replace(part.within, units=metric.units)
        found = learn(Task(part.known, known, within), inner)
        if judged is None:
            return found
        return learn_threshold(found, part.known, part.select_known(judged), inner)

    found, thins = metric, settings.reduction == "mean"
    for judge in judges if settings.cross_fits else []:
        found, fitted = cross_fit(found, judge, pairs, fit, thins=thins)
    warn_unless_separating(found, blocks, pairs if judged is None else judged, fitted)
    return found


def for_parts(settings: Settings) -> Settings:
    """Return the settings of fits to parts of the samples: with a large tolerance."""
    return replace(
        settings,
        threshold="joint",
        kernel=None,
        solver=SOLVER_OF_PARTS,
        tol=max(FOLD_TOL, settings.tol),
        random_state=0,
        verbose=False,
        init=None,
        keeps_spans=True,
    )


# Samples


def map_labelled(
    samples: LabelledSamples,
    kernel: KernelSettings | None,
    settings: Settings,
    units: Units = "columns",
) -> tuple[LabelledSamples, WithinClasses, KernelMap | None]:
    """Return the samples in the space of the kernel, their deviations within classes, and the map.

    `units` are those in which the scatter of the prior is shrunk.
    """
    blocks, kernel_map, n_images = map_samples(kernel, samples.blocks, settings)
    within = within_classes(blocks, samples.labels, units, n_images, samples.weights)
    return replace(samples, blocks=blocks), within, kernel_map


def to_learn(blocks: Blocks, settings: Settings) -> Blocks:
    """Copy samples to the device where the problem is solved, unless a block is wide."""
    return host_if_wide(place_blocks(blocks, settings.place))[0]


def without_outliers(
    samples: LabelledSamples, folds: Sequence[Fold], settings: Settings
) -> tuple[LabelledSamples, Cells]:
    """Return the samples without outliers, and the bounds of cells if cells are replaced."""

    def hold_out(blocks: Blocks) -> list[HeldOutPairs]:
        return hold_out_samples(replace(samples, blocks=blocks), folds)

    rows = np.arange(len(samples.labels))
    blocks, cells = choose_cells(samples.blocks, rows, settings, hold_out)
    return replace(samples, blocks=blocks), cells


def distinct_samples(
    blocks: Blocks,
    rows: Indices,
    n_counted: int,
    settings: Settings,
    pairs: Pairs | None = None,
    known: KnownSamples | None = None,
) -> tuple[Blocks, Cells]:
    """Return the samples in `rows`, without outliers, where they are learnt from.

    Without `pairs` of them, there is no choice by held-out pairs. The second value is that of
    `choose_cells`.
    """
    blocks = to_learn(blocks, settings)

    def hold_out(samples: Blocks) -> list[HeldOutPairs]:
        return [] if pairs is None else hold_out_pairs(samples[rows], pairs, None, known)

    blocks, cells = choose_cells(blocks, rows[:n_counted], settings, hold_out)
    return host_if_wide(blocks[rows])[0], cells


def warn_unless_separating(
    metric: Metric, blocks: Blocks, pairs: Pairs, fitted: Sequence[FittedPart] = ()
) -> None:
    """Warn if nearly all training pairs of both kinds are on one side of the threshold.

    That is no fault of a threshold which is right for new pairs, as what was `fitted` to parts of
    the samples may show.
    """
    some = some_of_each_kind(pairs)
    used, index = np.unique(some.index, return_inverse=True)
    distances = to_numpy(metric.dissimilarities(blocks[used], index.reshape(-1, 2)))
    assert metric.threshold is not None
    one_sided = is_one_sided(distances, some.similar, metric.threshold)
    if one_sided and not suits_new_pairs_alone(fitted):
        warn_if_one_sided(distances, some.similar, metric.threshold)


def learn_from_comparisons(
    distinct: Blocks,
    n_counted: int,
    quadruplets: Indices,
    weights: Doubles,
    margin: float,
    settings: Settings,
) -> Metric:
    """Learn a metric without a threshold.

    Parameters
    ----------
    distinct : Blocks
        The distinct samples; first the `n_counted` ones of comparisons that count.
    n_counted : int
        Their number.
    quadruplets : int array of shape (n_tuples, 4)
        a, b, c, d of each comparison, as numbers of distinct samples: d(a, b) should be less.
    weights : array of shape (n_tuples,)
        The weight of each comparison; 0 where its two pairs are the same.
    margin : float
        By how much the squared distance of the second pair should exceed that of the first.
    settings : Settings
        The parameters.
    """
    kernel = read_kernel(settings.kernel, distinct[:n_counted], settings.samples_name)
    mapped, kernel_map, n_images = map_samples(kernel, distinct, settings, n_counted)
    total = float(np.sum(weights))
    c = settings.C / total if settings.reduction == "mean" else settings.C
    linked = link_pairs(None, quadruplets)
    # The prior is scaled to the mean of all compared distances, each as often as it occurs.
    share = sum(sum_at(side, weights, len(linked)) for side in linked.links) / (2 * total)
    near = Pairs(quadruplets[:, :2], np.ones(len(quadruplets), dtype=bool), weights)
    within = within_pairs(mapped, near, n_images)
    task = Task(mapped, linked, within, share, n_counted)
    prepared = prepare(task, comparison_hinge(weights, c, margin), settings)
    found = solve(prepared.problem.without_threshold(), prepared.prior, settings)
    return replace(metric_of(found, prepared.prior, task, settings), kernel_map=kernel_map)


# From neighbours: comparisons of them, drawn in rounds, and pairs


@dataclass(frozen=True, eq=False)
class Rounds:
    """A metric that was learnt in rounds, with the comparisons of the last one."""

    metric: Metric
    triplets: Indices
    n_rounds: int
    n_missed: int


def learn_from_neighbors(
    samples: LabelledSamples, settings: Settings, rule: SimpleNamespace
) -> Rounds:
    """Learn a metric from comparisons of neighbours, and its threshold from random pairs.

    `rule` holds the checked parameters of `TATMLNeighbors`.
    """
    samples, rows = distinct_labelled(samples, settings)
    kernel = read_kernel(settings.kernel, samples.blocks)
    blocks = to_learn(samples.blocks, settings)
    samples, folds = replace(samples, blocks=blocks), folds_of(samples, settings)
    is_open = isinstance(settings.prior, str) and settings.prior == "best"
    judged = replace(settings, prior=CANDIDATES[0]) if is_open else settings
    given, cells = without_outliers(samples, folds, judged)
    samples, within, kernel_map = map_labelled(given, kernel, settings)
    blocks, pairs = samples.blocks, draw_random(samples, settings, "random")
    small = max(n for n, _ in blocks.block_shapes) <= SMALL_MATRIX
    with _threadpools().limit(limits=1 if small else None):  # as in the solvers
        if isinstance(settings.prior, str) and settings.prior == "best":
            prior = choose_prior(samples, settings.n_neighbors, within.n_images)
            settings = replace(settings, prior=prior)
        rounds = _learn_in_rounds(blocks, samples.labels, pairs, within, settings, rule)
        metric = replace(rounds.metric, pairs=pairs)
        if settings.learns_threshold:
            inner, parts = for_parts(settings), []
            if settings.cross_fits:
                parts = hold_out_samples(given, folds, kernel)

            def fit(part: HeldOutPairs, known: Pairs) -> Metric:
                labels = samples.labels[part.rows]
                return _learn_in_rounds(part.known, labels, known, part.within, inner, rule).metric

            metric, fitted = cross_fit(metric, Judge(parts), pairs, fit)
            warn_unless_separating(metric, blocks, pairs, fitted)
    metric = in_given_rows(replace(metric, kernel_map=kernel_map, cells=cells), rows)
    triplets = rounds.triplets if rows is None else rows[rounds.triplets]
    return replace(rounds, metric=metric, triplets=triplets)


def _learn_in_rounds(
    blocks: Blocks,
    labels: Indices,
    pairs: Pairs,
    within: WithinClasses,
    settings: Settings,
    rule: SimpleNamespace,
) -> Rounds:
    """Draw comparisons and learn from them, until they stay the same.

    Metrics in which comparisons are drawn again need no accurate solution; the last one does.
    """
    task, total = Task(blocks, pairs, within), float(np.sum(pair_weights(pairs)))
    pair_loss = squared_hinge(pairs, rule.pair_C / total, PAIR_MARGIN)
    prepared = prepare(task, pair_loss, settings)
    prior, given = prepared.prior, settings.given_threshold
    mu0 = b0_of(sqrt(prepared.mean_distance) if given is None else given, PAIR_MARGIN)
    c0 = rule.pair_C if settings.learns_threshold else inf  # theory (Rho), with ρ = 1
    samples = place_blocks(prior.samples, settings.place)
    space, n_rounds = to_numpy(embed_blocks(prior.own_factors(), blocks)), 0
    triplets, found, least_tol = np.empty((0, 3), dtype=np.intp), None, ROUND_TOL
    while n_rounds < rule.max_rounds:
        drawn = neighbor_triplets(space, labels, settings.n_neighbors, rule.n_impostors)
        repeated = np.array_equal(drawn, triplets)
        if repeated and least_tol == 0.0:
            break
        if repeated or n_rounds == rule.max_rounds - 1:
            least_tol = 0.0
        weights = np.ones(len(drawn))
        if within.weights is not None:
            weights = np.prod(within.weights[drawn], axis=1)
        losses = [
            pair_loss,
            comparison_hinge(weights, settings.C / float(weights.sum()), rule.margin),
        ]
        linked = link_pairs(pairs.index, drawn[:, [0, 1, 0, 2]])
        term = pair_term(samples, linked, join_losses(losses))
        problem = LogDetProblem.of(term, c0, mu0, prepared.problem.prior)
        found = solve(problem, prior, settings, init=found, least_tol=least_tol)
        n_rounds, triplets = n_rounds + (not repeated), drawn
        space = to_numpy(embed_blocks(prior.factors(found.L), blocks))
        if found.status is Status.INTERRUPTED:
            break
    assert found is not None
    metric = metric_of(found, prior, task, settings)
    b0 = learnt_b0(found)
    if settings.n_components is not None and settings.learns_threshold:
        squared = to_numpy(metric.distances(blocks, pairs.index)) ** 2
        b0 = learn_b0(squared, pairs, PAIR_MARGIN, 1.0, mu0)
    n_missed = count_violated(space, labels, triplets, rule.margin)
    return Rounds(metric.with_b0(b0, PAIR_MARGIN), triplets, n_rounds, n_missed)


def choose_prior(samples: LabelledSamples, n_neighbors: int, n_images: int = 0) -> PriorName:
    """Return the candidate with the most neighbours of the own class; the first in a tie.

    The neighbours are the `n_neighbors` nearest samples of the other folds. They are counted: their
    votes are often equally good for two candidates. The last `n_images` blocks are images of a
    kernel.
    """
    labels, weights = samples.labels, samples.weights
    fold = np.empty(len(labels), dtype=np.intp)
    for label in np.unique(labels):  # the samples of each class in turn
        own = np.flatnonzero(labels == label)
        fold[own] = np.arange(len(own)) % N_FOLDS
    right = dict.fromkeys(CANDIDATES, 0.0)
    for held_out in range(N_FOLDS):
        known, other = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
        if len(other) == 0 or len(np.unique(labels[known])) < 2 or len(known) <= n_neighbors:
            continue
        blocks, others = host_if_wide(samples.blocks[known], samples.blocks[other])
        part = samples[known].renumbered()
        within = within_classes(blocks, part.labels, n_images=n_images, weights=part.weights)
        try:
            priors = [prior_from_samples(name, blocks, within) for name in CANDIDATES]
        except ValueError:  # a block is constant in this part
            continue
        for name, prior in zip(CANDIDATES, priors, strict=True):
            factors = prior.own_factors()
            rows, queries = (to_numpy(embed_blocks(factors, b)) for b in (blocks, others))
            nearest = nearest_rows(rows, queries, n_neighbors)
            found = np.sum(labels[known][nearest] == labels[other][:, None], axis=1)
            right[name] += float(np.sum(found if weights is None else found * weights[other]))
    return max(CANDIDATES, key=lambda name: right[name])
