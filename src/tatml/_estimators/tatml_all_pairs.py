"""TATML fitted to all pairs of the samples without a list of them: they are summed in tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._data.blocks import Blocks
from .._optim.pair_term import PairTerm
from .._optim.result import Result, learnt_b0
from .._optim.solvers import Newton, as_solver
from .._sharding.all_pairs import AllPairs
from .._sharding.base import LossSetting
from .._sharding.chunks import sharded_problem, sharded_term
from .._sharding.term import ShardedTerm
from .._validation import check_margin, check_positive
from .folds import LabelledSamples
from .priors import WithinClasses
from .reduction import prior_of, reduce_blocks

if TYPE_CHECKING:
    from .tatml import TATML


def has_very_many_pairs(learner: TATML, n_samples: int) -> bool:
    """Return whether to sum all pairs in tiles, because a list of them would be too long."""
    if learner.pairs != "all" or learner.n_components is not None:
        return False
    solver = as_solver(learner.solver)
    if not isinstance(solver, Newton) or solver.linear_solver == "woodbury":
        return False
    return n_samples * (n_samples - 1) // 2 > learner._most_listed_pairs


def learn_from_all_pairs(
    learner: TATML, samples: LabelledSamples, within: WithinClasses, threshold: float | None
) -> Result:
    """Solve the problem of all pairs, and set the fitted attributes."""
    margin = check_margin(learner.margin)
    blocks, labels, groups = samples.blocks, samples.labels, samples.groups
    n_similar, n_dissimilar = _count_pairs(labels, groups)
    total, weights = n_similar + n_dissimilar, (1.0, 1.0)
    if learner.reduction == "mean":  # both kinds get the same total weight
        weights = (0.5 * total / n_similar, 0.5 * total / n_dissimilar)
    pairs = AllPairs(labels, groups, weights)

    def term_of(blocks: Blocks) -> tuple[ShardedTerm, list[NDArray]]:
        term = sharded_term(blocks, pairs, None, None, LossSetting(1.0, margin))
        return term, [len(blocks.arrays) * S / total for S in term.total(_weighted_scatter)]

    def mean_squares(m: int) -> NDArray:
        in_span = reduce_blocks("scaled", blocks, within, mean_squares)
        return in_span.diagonal(m, term_of(in_span.blocks)[1][m])

    reduced = reduce_blocks(learner.prior, blocks, within, mean_squares)
    plain, scatter = term_of(reduced.blocks)
    prior = prior_of(learner.prior, reduced, scatter)
    c0, mu0 = learner._threshold_term(prior.matrices, scatter, margin, threshold)
    unweighted = sharded_problem(plain, c0, mu0)
    c, c0 = learner._strengths(unweighted, total, check_positive("C", learner.C))
    problem = sharded_problem(plain.with_setting(LossSetting(c, margin)), c0, mu0)
    whitened = problem.with_prior(prior.matrices)
    learner._solve(whitened, prior, blocks, learner._scale_parameters)
    learner.pairs_ = learner.similar_ = learner.pair_weights_ = None
    learner._set_b0(learnt_b0(learner.result_))
    return learner.result_


def _weighted_scatter(term: PairTerm, index: int) -> list[NDArray]:
    return term.sums.scatter(term.loss.weight)


def _count_pairs(labels: NDArray[np.intp], groups: NDArray[np.intp] | None) -> tuple[int, int]:
    """Return the numbers of similar and of dissimilar pairs, without pairs inside a group."""
    n_pairs, n_similar = _count_pairs_inside(np.zeros_like(labels)), _count_pairs_inside(labels)
    if groups is not None:
        n_pairs -= _count_pairs_inside(groups)
        n_similar -= _count_pairs_inside(np.stack([labels, groups]))
    # There are two classes. If two samples of one class are in different groups, then every sample
    # of another class forms a dissimilar pair with at least one of them.
    if n_similar == 0:
        raise ValueError(
            "y: expected classes that give similar and dissimilar pairs, got no similar pairs"
        )
    return n_similar, n_pairs - n_similar


def _count_pairs_inside(keys: NDArray[np.intp]) -> int:
    counts = np.unique(keys, axis=-1, return_counts=True)[1].astype(np.int64)
    return int(np.sum(counts * (counts - 1) // 2))
