"""The search of TATMLCV: the scores of a path over C on one fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from .._data.sampling import balanced, thin_out
from .._optim.placement import host_result
from .._optim.solvers import as_solver, seeded
from .._validation import check_margin, check_positive
from .cross_fitting import area_under_roc, hold_out_samples
from .embedding import row_distances
from .folds import Fold, LabelledSamples, make_pair_folds
from .kernel_space import KernelSettings, choose_space, read_kernel
from .label_mixins import within_classes
from .priors import Units, has_units
from .tatml import TATML

CHUNK_ROWS = 1000  # rows of the distance matrix that k-NN computes at a time, to save memory
ACCURACY_SHARE = 1 / 3  # weight of the accuracy in the score "both"


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


@dataclass(frozen=True)
class LearningSpace:
    """The space in which a setting learns: its kernel, if any, and the units of its prior."""

    kernel: KernelSettings | None
    units: Units


def choose_spaces(
    settings: Sequence[dict[str, Any]], samples: LabelledSamples
) -> list[LearningSpace]:
    """Return the space of each setting, chosen once for all folds."""
    folds = make_pair_folds(samples.labels, samples.groups)
    spaces: list[LearningSpace] = []
    for _, group in groupby(settings, key=lambda setting: id(setting["kernel"])):
        same_kernel = list(group)
        kernel = read_kernel(same_kernel[0]["kernel"], samples.blocks)
        hold_out = cache(partial(hold_out_samples, samples, folds))
        for setting in same_kernel:
            if kernel is None and not has_units(setting["prior"]):
                spaces.append(LearningSpace(None, "columns"))
            else:
                spaces.append(LearningSpace(*choose_space(kernel, setting["prior"], hold_out)[:2]))
    return spaces


def score_path(
    model: TATML,
    space: LearningSpace,
    samples: LabelledSamples,
    fold: Fold,
    Cs: Sequence[float],
    scoring: str,
    k: int,
    path: PathSettings,
) -> list[float]:
    """Return the score of every C on one fold; each solution starts from that of the last C."""
    known, held_out = (samples[rows] for rows in fold)
    if space.kernel is not None:
        model.kernel_map_ = space.kernel.fit(known.blocks, fold[0])
        known, held_out = (
            replace(part, blocks=model._mapped(part.blocks)) for part in (known, held_out)
        )
    numbered = known.renumbered()
    pairs = model._draw_pairs(numbered, prior=model.prior, units=space.units)
    if model.reduction == "mean":
        step = 1 if model.pairs == "neighbors" else path.max_step
        pairs = balanced(thin_out(pairs, step, path.min_pairs))
    within = within_classes(known.blocks, numbered.labels, space.units, model._n_images())
    margin = check_margin(model.margin)
    model._keeps_spans, threshold = True, model._given_threshold()
    problem, prior = model._build_problem(known.blocks, pairs, within, margin, threshold)
    score = _make_scorer(model, known, held_out, scoring, k)
    solver = seeded(as_solver(model.solver), 0)
    solver = replace(solver, on_interrupt="raise")  # Ctrl-C ends the search
    tol = max(path.tol, check_positive("tol", model.tol))
    sizes = ", ".join(model._scale_parameters)
    result, scores = None, {}
    for C in sorted(Cs):
        weighted = model._reweight(problem, pairs, margin, float(C))
        result = solver.solve(weighted, tol=tol, init=result, sizes=sizes)
        model.block_shapes_ = known.blocks.block_shapes
        model._set_components(host_result(result).L, prior, known.blocks)
        scores[C] = score()
    return [scores[C] for C in Cs]


def _make_scorer(
    model: TATML, known: LabelledSamples, held_out: LabelledSamples, scoring: str, k: int
) -> Callable[[], float]:
    """Return a function without arguments that scores the model's current components."""
    shares = {"both": ACCURACY_SHARE, "auc": 0.0, "accuracy": 1.0}
    share = shares[scoring]
    pairs = None
    if share < 1:
        pairs = model._draw_random_pairs(held_out.renumbered())

    def score() -> float:
        wanted, total = model._embed(held_out.blocks), 0.0
        if share > 0:
            found = predict_knn(model._embed(known.blocks), known.labels, wanted, k)
            total += share * float(np.mean(found == held_out.labels))
        if pairs is not None:
            area = area_under_roc(row_distances(wanted, pairs.index), pairs.similar)
            total += (1 - share) * area
        return total

    return score


def predict_knn(
    known: NDArray, labels: NDArray, wanted: NDArray, k: int, chunk_rows: int = CHUNK_ROWS
) -> NDArray:
    """Predict like KNeighborsClassifier, without the cost of setting one up for every C."""
    found = np.empty(len(wanted), dtype=labels.dtype)
    centre = known.mean(axis=0)  # squares lose all digits far from the origin
    known, wanted = known - centre, wanted - centre
    for start in range(0, len(wanted), chunk_rows):
        chunk = wanted[start : start + chunk_rows]
        distances = euclidean_distances(chunk, known, squared=True)
        nearest = labels[np.argpartition(distances, k - 1, axis=1)[:, :k]]
        votes = np.stack([np.sum(nearest == label, axis=1) for label in range(labels.max() + 1)])
        found[start : start + chunk_rows] = np.argmax(votes, axis=0)
    return found
