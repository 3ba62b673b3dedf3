"""Learn a metric from comparisons: the first pair of each should be closer than the second."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._array import Doubles, Indices, sum_at
from .._data.blocks import Blocks
from .._data.pairs import Pairs, link_pairs
from .._optim.losses import comparison_hinge
from .kernel_space import map_samples, read_kernel
from .learn import metric_of, solve
from .metric import Metric, check_components
from .prepare import prepare
from .task import Settings, Task
from .within import within_pairs


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
    mapped, kernel_map = map_samples(kernel, distinct, settings, n_counted)
    check_components(settings.n_components, [n for n, _ in mapped.block_shapes])
    total = float(np.sum(weights))
    c = settings.C / total if settings.reduction == "mean" else settings.C
    linked = link_pairs(None, quadruplets)
    # The prior is scaled to the mean of all compared distances, each as often as it occurs.
    share = sum(sum_at(side, weights, len(linked)) for side in linked.links) / (2 * total)
    near = Pairs(quadruplets[:, :2], np.ones(len(quadruplets), dtype=bool), weights)
    within = within_pairs(mapped, near, 0 if kernel_map is None else len(kernel_map.maps_))
    task = Task(mapped, linked, within, share, n_counted)
    prepared = prepare(task, comparison_hinge(weights, c, margin), settings)
    found = solve(prepared.problem.without_threshold(), prepared.prior, settings)
    return replace(metric_of(found, prepared.prior, task.counted, settings), kernel_map=kernel_map)
