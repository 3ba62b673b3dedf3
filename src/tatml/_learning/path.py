"""A path over C: the metrics of increasing weights of the pairs, and their scores on one fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sampling import balanced, thin_out
from .._optim.solvers import raising
from .cross_fit import area_under_roc, choose_space, hold_out_samples
from .labelled import Fold, LabelledSamples, draw_random, draw_some, folds_of
from .learn import (
    distinct_labelled,
    loss_setting,
    metric_of,
    pair_problem,
    solve,
    strengths,
)
from .metric import Metric, row_distances
from .priors import Units, has_units, pair_weights, within_classes
from .samples import KernelSettings, read_kernel
from .task import Settings, Task

CHUNK_ROWS = 1000  # rows of the distance matrix that k-NN computes at a time, to save memory
ACCURACY_SHARES = {"both": 1 / 3, "auc": 0.0, "accuracy": 1.0}  # of the accuracy in a score


@dataclass(frozen=True)
class PathSettings:
    """Accuracy, and number of pairs, with which the path over C is solved in each fold.

    Parameters
    ----------
    tol : float
        Relative tolerance of the duality gap, unless the estimator's `tol` is larger.
    min_pairs : int
        Pairs are left out only if at least this many remain.
    max_step : int
        A path takes every pair, every second one, and so on, up to every `max_step`-th.
    """

    tol: float = 1e-2
    min_pairs: int = 1000
    max_step: int = 4


LearningSpace = tuple[KernelSettings | None, Units]  # the kernel, and the units of the prior


def choose_spaces(candidates: Sequence[Settings], samples: LabelledSamples) -> list[LearningSpace]:
    """Return the space of each candidate, chosen once for all folds."""
    hold_outs, samples = {}, distinct_labelled(samples, candidates[0])[0]
    for new_classes in {settings.new_classes for settings in candidates}:
        folds = folds_of(samples, replace(candidates[0], new_classes=new_classes))
        hold_outs[new_classes] = cache(partial(hold_out_samples, samples, folds))
    spaces: list[LearningSpace] = []
    for settings in candidates:
        hold_out = hold_outs[settings.new_classes]
        kernel = read_kernel(settings.kernel, samples.blocks)
        if kernel is None and not has_units(settings.prior):
            spaces.append((None, "columns"))
        else:
            spaces.append(choose_space(kernel, settings, hold_out)[:2])
    return spaces


def path(task: Task, settings: Settings, Cs: Sequence[float]) -> Iterator[tuple[float, Metric]]:
    """Yield C and its metric for increasing C; each solution starts from that of the last C.

    The metrics have no thresholds.
    """
    assert isinstance(task.rows, Pairs)
    problem, prior = pair_problem(task, replace(settings, C=min(Cs)))
    like, total = problem.prior_factors[0], float(np.sum(pair_weights(task.rows)))
    found = None
    for C in sorted(Cs):
        c, c0 = strengths(total, replace(settings, C=C))
        loss = loss_setting(c, settings).loss_of(task.rows).placed(like)
        found = solve(problem.with_loss(loss, c0), prior, settings, init=found)
        yield C, metric_of(found, prior, task, settings)


def score_path(
    settings: Settings,
    space: LearningSpace,
    samples: LabelledSamples,
    fold: Fold,
    Cs: Sequence[float],
    scoring: tuple[str, int],
    accuracy: PathSettings,
) -> list[float]:
    """Return the score of every C on one fold, for `scoring`, a word and the k of k-NN."""
    known, held_out = (distinct_labelled(samples[rows], settings)[0] for rows in fold)
    (kernel, units), n_images = space, 0
    if kernel is not None:
        kernel_map = kernel.fit(known.blocks, fold[0])
        n_images = len(kernel_map.maps_)
        known, held_out = (
            replace(part, blocks=kernel_map.map_blocks(part.blocks)) for part in (known, held_out)
        )
    numbered = known.renumbered()
    within = within_classes(known.blocks, numbered.labels, units, n_images, known.weights)
    pairs = draw_some(numbered, settings, settings.pairs, within)
    if settings.reduction == "mean":
        step = 1 if settings.pairs == "neighbors" else accuracy.max_step
        pairs = balanced(thin_out(pairs, step, accuracy.min_pairs))
    score = _make_scorer(settings, known, held_out, *scoring)
    inner = replace(
        settings,
        solver=raising(settings.solver),
        tol=max(accuracy.tol, settings.tol),
        random_state=0,
        verbose=False,
        keeps_spans=True,
    )
    scores = {C: score(metric) for C, metric in path(Task(known.blocks, pairs, within), inner, Cs)}
    return [scores[C] for C in Cs]


def _make_scorer(
    settings: Settings, known: LabelledSamples, held_out: LabelledSamples, scoring: str, k: int
) -> Callable[[Metric], float]:
    """Return the function that scores a metric."""
    share = ACCURACY_SHARES[scoring]
    pairs = draw_random(held_out.renumbered(), settings) if share < 1 else None

    def score(metric: Metric) -> float:
        rows, wanted = _rows_of(metric, known.blocks, held_out.blocks, share > 0)
        total = 0.0
        if share > 0:
            found = predict_knn(rows, known.labels, wanted, k, by_products=metric.has_midpoint)
            right = found == held_out.labels
            total += share * float(np.average(right, weights=held_out.weights))
        if pairs is not None:
            if metric.has_midpoint:
                measured = metric.dissimilarities(held_out.blocks, pairs.index)
            else:
                measured = row_distances(wanted, pairs.index)
            total += (1 - share) * area_under_roc(measured, pairs)
        return total

    return score


def _rows_of(metric: Metric, known: Blocks, held_out: Blocks, both: bool) -> tuple[Any, Any]:
    """Return rows of both samples for `predict_knn`; those of the first only if they are needed."""
    if metric.has_midpoint:
        return metric.search_rows(known)[1] if both else None, metric.search_rows(held_out)[0]
    return metric.embed(known) if both else None, metric.embed(held_out)


def predict_knn(
    known: NDArray,
    labels: NDArray,
    wanted: NDArray,
    k: int,
    chunk_rows: int = CHUNK_ROWS,
    by_products: bool = False,
) -> NDArray:
    """Predict like KNeighborsClassifier, without the cost of setting one up for every C.

    Neighbours are the nearest rows, or with `by_products` those with the largest inner product.
    """
    found = np.empty(len(wanted), dtype=labels.dtype)
    if not by_products:
        centre = known.mean(axis=0)  # squares lose all digits far from the origin
        known, wanted = known - centre, wanted - centre
    for start in range(0, len(wanted), chunk_rows):
        chunk = wanted[start : start + chunk_rows]
        if by_products:
            distances = -chunk @ known.T
        else:
            distances = euclidean_distances(chunk, known, squared=True)
        nearest = labels[np.argpartition(distances, k - 1, axis=1)[:, :k]]
        votes = np.stack([np.sum(nearest == label, axis=1) for label in range(labels.max() + 1)])
        found[start : start + chunk_rows] = np.argmax(votes, axis=0)
    return found
