"""Learn a metric for nearest neighbours: comparisons of neighbours, drawn in rounds, and pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from .._array import Indices, asarray, to_numpy
from .._data.blocks import Blocks
from .._data.pairs import Pairs, link_pairs
from .._data.sampling import balanced, count_violated, nearest_rows, neighbor_triplets
from .._optim.losses import comparison_hinge, join_hinges
from .._optim.problem import LogDetProblem, squared_hinge
from .._optim.result import Status, learnt_b0
from .._threads import SMALL_MATRIX, _threadpools
from .cross_fit import FittedPart, HeldOutPairs, cross_fit, hold_out_samples
from .labelled import LabelledSamples, draw_some, make_pair_folds
from .learn import clipped, for_parts, metric_of, solve, to_learn, warn_unless_separating
from .metric import Metric, b0_of, check_components, embed_blocks, learn_b0, means_of
from .prepare import MetricPrior, prepare, prior_from_samples, problem_of
from .priors import PriorName, WithinClasses, pair_weights, within_classes
from .samples import host_if_wide, map_samples, place_blocks, read_kernel
from .task import Settings, Task

PAIR_MARGIN = (0.5, 2.0)  # γ_s and γ_d of the pairs that the threshold is learnt from
ROUND_TOL = 1e-3  # tolerance of the rounds before the last
# The priors to choose from; of equally good ones, the first is taken.
CANDIDATES: tuple[PriorName, ...] = ("discriminant", "auto", "scaled")
N_FOLDS = 5


@dataclass(frozen=True)
class Neighborhood:
    """The parameters of `TATMLNeighbors` that `TATML` does not have."""

    pair_weight: float
    margin: float
    n_impostors: int
    max_rounds: int


@dataclass(frozen=True, eq=False)
class Rounds:
    """A metric that was learnt in rounds, with the comparisons of the last one."""

    metric: Metric
    triplets: Indices
    n_rounds: int
    n_missed: int


def learn_from_neighbors(
    samples: LabelledSamples, settings: Settings, rule: Neighborhood
) -> Rounds:
    """Learn a metric from comparisons of neighbours, and its threshold from random pairs."""
    kernel = read_kernel(settings.kernel, samples.blocks)
    blocks = to_learn(samples.blocks, settings)
    given = replace(samples, blocks=clipped(blocks, np.arange(len(blocks)), settings))
    blocks, kernel_map, n_images = map_samples(kernel, given.blocks, settings)
    samples = replace(samples, blocks=blocks)
    check_components(settings.n_components, [n for n, _ in blocks.block_shapes])
    pairs = balanced(draw_some(samples, settings, "random"))
    small = max(n for n, _ in blocks.block_shapes) <= SMALL_MATRIX
    with _threadpools().limit(limits=1 if small else None):  # as in the solvers
        if isinstance(settings.prior, str) and settings.prior == "best":
            prior = choose_prior(blocks, samples.labels, settings.n_neighbors, n_images)
            settings = replace(settings, prior=prior)
        within = within_classes(blocks, samples.labels, n_images=n_images)
        rounds = _learn_in_rounds(blocks, samples.labels, pairs, within, settings, rule)
        metric = replace(rounds.metric, kernel_map=kernel_map, pairs=pairs)
        fitted: list[FittedPart] = []
        if settings.cross_fits:
            inner = for_parts(settings)

            def fit(part: HeldOutPairs, known: Pairs) -> Metric:
                labels = samples.labels[part.rows]
                return _learn_in_rounds(part.known, labels, known, part.within, inner, rule).metric

            folds = make_pair_folds(samples.labels, samples.groups)
            parts = hold_out_samples(given, folds, kernel)
            metric, fitted = cross_fit(metric, parts, pairs, fit)
        if settings.learns_threshold:
            warn_unless_separating(metric, blocks, pairs, fitted)
    return replace(rounds, metric=metric)


def _learn_in_rounds(
    blocks: Blocks,
    labels: Indices,
    pairs: Pairs,
    within: WithinClasses,
    settings: Settings,
    rule: Neighborhood,
) -> Rounds:
    """Draw comparisons and learn from them, until they stay the same.

    Metrics in which comparisons are drawn again need no accurate solution; the last one does.
    """
    prepared = prepare(
        Task(blocks, pairs, within), squared_hinge(pairs, 1.0, PAIR_MARGIN), settings
    )
    prior, given = prepared.prior, settings.given_threshold
    mu0 = b0_of(sqrt(prepared.mean_distance) if given is None else given, PAIR_MARGIN)
    space, n_rounds = to_numpy(embed_blocks(prior.own_factors(), blocks)), 0
    triplets, found, least_tol = np.empty((0, 3), dtype=np.intp), None, ROUND_TOL
    while n_rounds < rule.max_rounds:
        drawn = neighbor_triplets(space, labels, settings.n_neighbors, rule.n_impostors)
        repeated = np.array_equal(drawn, triplets)
        if repeated and least_tol == 0.0:
            break
        if repeated or n_rounds == rule.max_rounds - 1:
            least_tol = 0.0
        problem = _problem(pairs, drawn, prior, mu0, settings, rule)
        found = solve(problem, prior, settings, init=found, least_tol=least_tol)
        n_rounds, triplets = n_rounds + (not repeated), drawn
        space = to_numpy(embed_blocks(prior.factors(found.L), blocks))
        if found.status is Status.INTERRUPTED:
            break
    assert found is not None
    metric = metric_of(found, prior, blocks, settings)
    if not settings.keeps_spans:
        metric = replace(metric, center=means_of(blocks, within.n_images))
    b0 = learnt_b0(found)
    if settings.n_components is not None and settings.learns_threshold:
        squared = to_numpy(metric.distances(blocks, pairs.index)) ** 2
        b0 = learn_b0(squared, pairs, PAIR_MARGIN, 1.0, mu0)
    n_missed = count_violated(space, labels, triplets, rule.margin)
    return Rounds(metric.with_b0(b0, PAIR_MARGIN), triplets, n_rounds, n_missed)


def _problem(
    pairs: Pairs,
    triplets: Indices,
    prior: MetricPrior,
    mu0: float,
    settings: Settings,
    rule: Neighborhood,
) -> LogDetProblem:
    """Return the problem of the pairs and of the comparisons."""
    total, n_rows = float(np.sum(pair_weights(pairs))), len(triplets)
    losses = [
        squared_hinge(pairs, rule.pair_weight / total, PAIR_MARGIN),
        comparison_hinge(np.ones(n_rows), settings.C / n_rows, rule.margin),
    ]
    linked = link_pairs(pairs.index, triplets[:, [0, 1, 0, 2]])
    c0 = rule.pair_weight if settings.learns_threshold else inf  # theory (Rho), with ρ = 1
    samples = place_blocks(prior.samples, settings.place)
    W0 = [asarray(matrix, samples.arrays[0]) for matrix in prior.matrices]
    return problem_of(samples, linked, join_hinges(losses), c0=c0, mu0=mu0, prior=W0)


def choose_prior(
    blocks: Blocks, labels: NDArray[np.intp], n_neighbors: int, n_images: int = 0
) -> PriorName:
    """Return the candidate with the most neighbours of the own class; the first in a tie.

    The neighbours are the `n_neighbors` nearest samples of the other folds. They are counted: their
    votes are often equally good for two candidates. The last `n_images` blocks are images of a
    kernel.
    """
    fold = np.empty(len(labels), dtype=np.intp)
    for label in np.unique(labels):  # the samples of each class in turn
        own = np.flatnonzero(labels == label)
        fold[own] = np.arange(len(own)) % N_FOLDS
    right = dict.fromkeys(CANDIDATES, 0)
    for held_out in range(N_FOLDS):
        known, other = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
        if len(other) == 0 or len(np.unique(labels[known])) < 2 or len(known) <= n_neighbors:
            continue
        samples, others = host_if_wide(blocks[known], blocks[other])
        classes = np.unique(labels[known], return_inverse=True)[1]
        within = within_classes(samples, classes, n_images=n_images)
        try:
            priors = [prior_from_samples(name, samples, within) for name in CANDIDATES]
        except ValueError:  # a block is constant in this part
            continue
        for name, prior in zip(CANDIDATES, priors, strict=True):
            factors = prior.own_factors()
            rows, queries = (to_numpy(embed_blocks(factors, b)) for b in (samples, others))
            nearest = nearest_rows(rows, queries, n_neighbors)
            right[name] += int(np.sum(labels[known][nearest] == labels[other][:, None]))
    return max(CANDIDATES, key=lambda name: right[name])
