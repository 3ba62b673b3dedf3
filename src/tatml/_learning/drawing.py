"""Pairs that are drawn from labels: some of them, or all, with or without a list of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .._array import Doubles, Indices, to_numpy
from .._data.pairs import Pairs
from .._data.sampling import Strategy, balanced, draw_pairs
from .._optim.solvers import Newton
from .._sharding.all_pairs import AllPairs
from .._validation import check_random
from .embedding import embed_blocks
from .folds import LabelledSamples
from .places import fetched
from .prepare import prior_from_samples
from .task import Settings
from .within import WithinClasses


def draw(samples: LabelledSamples, settings: Settings, within: WithinClasses) -> Pairs | AllPairs:
    """Draw the pairs that a metric is learnt from; both kinds weigh the same with "mean".

    Neighbours are found in the metric of the prior; for "auto", in the units of the data.
    """
    if sums_in_tiles(settings, len(samples.blocks)):
        return _all_pairs(samples, settings.reduction == "mean")
    pairs = draw_some(samples, settings, settings.pairs, within)
    return balanced(pairs) if settings.reduction == "mean" else pairs


def draw_random(
    samples: LabelledSamples, settings: Settings, strategy: Strategy | None = None
) -> Pairs:
    """Draw random pairs (or all), for results that must not depend on the parameter `pairs`."""
    if strategy is None:
        strategy = "all" if settings.pairs == "all" else "random"
    return balanced(draw_some(samples, settings, strategy))


def draw_some(
    samples: LabelledSamples,
    settings: Settings,
    strategy: Strategy,
    within: WithinClasses | None = None,
) -> Pairs:
    """Draw pairs by a strategy; without `within`, neighbours are found in the units of the data."""
    space, blocks = None, samples.blocks
    if strategy == "neighbors":
        space, blocks = _neighbor_space(samples, settings, within), fetched(blocks)
    return draw_pairs(
        strategy,
        blocks,
        samples.labels,
        samples.groups,
        n_pairs_per_class=settings.n_pairs_per_class,
        n_neighbors=settings.n_neighbors,
        random_state=check_random(settings.random_state),
        space=space,
    )


def _neighbor_space(
    samples: LabelledSamples, settings: Settings, within: WithinClasses | None
) -> Doubles | None:
    """Return the samples in the metric of the prior; None for "auto"."""
    prior = settings.prior
    if within is None or (isinstance(prior, str) and prior == "auto"):
        return None
    factors = prior_from_samples(prior, samples.blocks, within).own_factors()
    return to_numpy(embed_blocks(factors, samples.blocks))


# All pairs


def sums_in_tiles(settings: Settings, n_samples: int) -> bool:
    """Return whether to sum all pairs in tiles, because a list of them would be too long."""
    if settings.pairs != "all" or settings.n_components is not None:
        return False
    solver = settings.solver
    if not isinstance(solver, Newton) or solver.linear_solver == "woodbury":
        return False
    return n_samples * (n_samples - 1) // 2 > settings.most_listed_pairs


def _all_pairs(samples: LabelledSamples, balances: bool) -> AllPairs:
    """Return all pairs of the samples; both kinds have the same total weight if it `balances`."""
    pairs = AllPairs(samples.labels, samples.groups)
    if not balances:
        return pairs
    n_similar, n_dissimilar = _counts(samples.labels, samples.groups)
    total = n_similar + n_dissimilar
    return replace(pairs, weights=(0.5 * total / n_similar, 0.5 * total / n_dissimilar))


def count_all_pairs(pairs: AllPairs) -> int:
    """Return the number of pairs, which is also their total weight."""
    groups = None if pairs.groups is None else np.asarray(pairs.groups)
    n_similar, n_dissimilar = _counts(np.asarray(pairs.labels), groups)
    return n_similar + n_dissimilar


def _counts(labels: Indices, groups: Indices | None) -> tuple[int, int]:
    """Return the numbers of similar and of dissimilar pairs, without pairs inside a group."""
    n_pairs, n_similar = _count_inside(np.zeros_like(labels)), _count_inside(labels)
    if groups is not None:
        n_pairs -= _count_inside(groups)
        n_similar -= _count_inside(np.stack([labels, groups]))
    # There are two classes. If two samples of one class are in different groups, then every sample
    # of another class forms a dissimilar pair with at least one of them.
    if n_similar == 0:
        raise ValueError(
            "y: expected classes that give similar and dissimilar pairs, got no similar pairs"
        )
    return n_similar, n_pairs - n_similar


def _count_inside(keys: NDArray[np.intp]) -> int:
    counts = np.unique(keys, axis=-1, return_counts=True)[1].astype(np.int64)
    return int(np.sum(counts * (counts - 1) // 2))
