"""The metrics of ITML and GMML, and the Euclidean one: their thresholds are learnt afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from .._array import Doubles, lower_triangular, symmetrised, to_numpy
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sampling import balanced
from .._optim.losses import BurgLoss
from .._optim.problem import build_pair_sums
from .._optim.solvers import Dykstra, Newton
from .labelled import LabelledSamples, distinct, draw_some
from .learn import (
    distinct_labelled,
    in_given_rows,
    learn_threshold,
    map_labelled,
    metric_of,
    solve,
)
from .metric import Metric, components_of, means_of, warn_if_one_sided
from .prepare import prepare
from .priors import make_prior, pair_weights, within_classes
from .samples import read_kernel
from .task import Settings, Task


def with_threshold(metric: Metric, mapped: Blocks, pairs: Pairs, settings: Settings) -> Metric:
    """Return the metric with the threshold that its distances of the pairs give."""
    judged = balanced(pairs)
    metric = learn_threshold(metric, mapped, judged, settings)
    assert metric.threshold is not None
    distances = metric.distances(mapped, judged.index)
    warn_if_one_sided(distances, judged.similar, metric.threshold)
    return replace(metric, threshold_factor=None, pairs=judged)


def euclidean_metric(
    blocks: Blocks,
    samples: LabelledSamples | None,
    settings: Settings,
    weights: Doubles | None = None,
) -> Metric:
    """Return the Euclidean metric; its threshold is learnt if the samples have labels.

    The `weights` are those of samples without labels.
    """
    given = None
    if samples is not None:
        samples, given = distinct(samples)
        blocks, weights = samples.blocks, samples.weights
    identity = [np.eye(n) for n, _ in blocks.block_shapes]
    weights = None if weights is None else weights / np.mean(weights)
    factors = components_of(identity, blocks, settings.n_components, weights)
    metric = Metric(factors, center=means_of(blocks))
    if samples is None:
        return metric
    pairs = draw_some(samples, settings, settings.pairs)
    return in_given_rows(with_threshold(metric, blocks, pairs, settings), given)


# ITML


def learn_from_bounds(
    samples: LabelledSamples, settings: Settings, rule: SimpleNamespace
) -> tuple[Metric, tuple[float, float]]:
    """Return the metric of ITML, and the bounds on squared distances that it was learnt from.

    `rule` holds the checked parameters of `ITML`.
    """
    samples, given = distinct_labelled(samples, settings)
    kernel = read_kernel(settings.kernel, samples.blocks)
    samples, within, kernel_map = map_labelled(samples, kernel, settings)
    _check_projections(settings.solver, samples.blocks)
    pairs = draw_some(samples, settings, settings.pairs, within)
    sign, ones = np.where(pairs.similar, 1.0, -1.0), np.ones(len(pairs))
    loss = BurgLoss(sign, rule.gamma * pair_weights(pairs), ones)
    task = Task(samples.blocks, pairs, within)
    prepared = prepare(task, loss, settings)
    problem, prior = prepared.problem, prepared.prior
    squared = to_numpy(problem.pairs.sums.distances())
    _check_apart(squared, pairs)
    bounds = _find_bounds(squared, pairs, rule.bounds, rule.percentiles)
    loss = replace(loss, bound=np.where(pairs.similar, *bounds))
    problem = problem.with_loss(loss.placed(problem.prior_factors[0]), problem.c0)
    metric = metric_of(solve(problem, prior, settings), prior, task, settings)
    metric = with_threshold(metric, samples.blocks, pairs, settings)
    return in_given_rows(replace(metric, kernel_map=kernel_map), given), bounds


def _find_bounds(
    squared: Doubles,
    pairs: Pairs,
    bounds: tuple[float, float] | None,
    percentiles: tuple[float, float],
) -> tuple[float, float]:
    """Return the given bounds, or percentiles of the squared distances under the prior."""
    if bounds is not None:
        return bounds
    if pairs.weights is None:
        low, high = np.percentile(squared, percentiles)
    else:
        low, high = np.percentile(
            squared, percentiles, weights=pairs.weights, method="inverted_cdf"
        )
    if not low > 0:  # some pairs coincide, but a bound must be positive
        low = np.min(squared[squared > 0])
    return float(low), float(max(high, low))


def _check_projections(solver: Newton | Dykstra, blocks: Blocks) -> None:
    """Raise an error if the solver is Dykstra and the samples are not vectors in one block."""
    if not isinstance(solver, Newton) and [width for _, width in blocks.block_shapes] != [1]:
        shapes = ", ".join(f"{n}×{width}" for n, width in blocks.block_shapes)
        raise ValueError(
            "solver: expected 'newton', because ITML's projections need vectors in one block, got "
            f"solver={solver!r} and blocks of shapes {shapes}"
        )


def _check_apart(squared: NDArray[np.float64], pairs: Pairs) -> None:
    """Raise an error if a dissimilar pair has distance zero, where ITML's loss is infinite."""
    wrong = np.flatnonzero(~pairs.similar & (squared == 0))
    if len(wrong):
        i, j = pairs.index[wrong[0]]
        raise ValueError(
            "X: expected samples of different classes to differ, because ITML's loss is infinite "
            f"otherwise, got identical samples {i} and {j}"
        )


# GMML


def learn_geometric_mean(
    samples: LabelledSamples, settings: Settings, rule: SimpleNamespace
) -> Metric:
    """Return the metric of GMML; `rule` holds its checked parameters."""
    samples, given = distinct(samples)
    blocks = samples.blocks
    within = within_classes(blocks, samples.labels, weights=samples.weights)
    pairs = draw_some(samples, settings, settings.pairs, within)
    sums = build_pair_sums(blocks, pairs)
    similar, dissimilar = (
        [len(blocks.arrays) * S for S in sums.scatter(kind / kind.sum())]
        for kind in (pairs.similar * pair_weights(pairs), ~pairs.similar * pair_weights(pairs))
    )
    both = [(S + D) / 2 for S, D in zip(similar, dissimilar, strict=True)]
    _check_spread(both)
    prior = make_prior(settings.prior, blocks, both, within)
    L = _compute_factors(similar, dissimilar, prior, rule.t, rule.regularization)
    L = [lower / np.sqrt(np.sum(lower * (S @ lower))) for lower, S in zip(L, both, strict=True)]
    factors = components_of(L, blocks, settings.n_components, within.weights)
    metric = Metric(factors, center=means_of(blocks), prior=prior)
    return in_given_rows(with_threshold(metric, blocks, pairs, settings), given)


def _check_spread(scatter: Sequence[NDArray]) -> None:
    for m, S in enumerate(scatter):
        if not np.trace(S) > 0:
            raise ValueError(
                f"X: expected pairs of samples that differ in block {m}, got identical ones only; "
                "remove the block"
            )


def _compute_factors(
    similar: Sequence[NDArray],
    dissimilar: Sequence[NDArray],
    prior: Sequence[NDArray],
    t: float,
    regularization: float,
) -> list[NDArray]:
    """Return one factor per block."""
    parts = zip(similar, dissimilar, prior, strict=True)
    try:
        with np.errstate(all="ignore"):  # a result that is not finite is refused below
            L = [_compute_factor(S, D, W0, t, regularization) for S, D, W0 in parts]
    except np.linalg.LinAlgError:
        L = [np.array(np.nan)]
    if not all(np.all(np.isfinite(factor)) for factor in L):
        raise ValueError(
            "X, regularization: expected sizes for which the metric is finite, got regularization="
            f"{regularization:g} and features whose scatters it does not make invertible"
        )
    return L


def _compute_factor(
    S: NDArray, D: NDArray, W0: NDArray, t: float, regularization: float
) -> NDArray:
    """Return a triangular factor of the regularised S⁻¹ #_t D, in coordinates with W0 = I."""
    C = np.linalg.cholesky(W0)
    S, D = C.T @ S @ C, C.T @ D @ C
    ridge = regularization * np.trace(S + D) / (2 * len(S)) * np.eye(len(S))
    root, inverse_root = _powers(S + ridge, 0.5, -0.5)
    (half,) = _powers(root @ (D + ridge) @ root, t / 2)
    return lower_triangular(C @ inverse_root @ half)


def _powers(matrix: NDArray, *exponents: float) -> list[NDArray]:
    values, vectors = np.linalg.eigh(symmetrised(matrix))
    return [(vectors * values**exponent) @ vectors.T for exponent in exponents]
