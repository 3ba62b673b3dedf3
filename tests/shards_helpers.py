"""The pairs of a case in shards, in this process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tatml._data.blocks import Blocks
from tatml._data.pairs import Pairs
from tatml._optim.problem import pair_sums
from tatml._sharding.base import Piece, SerialExecutor, Setting
from tatml._sharding.chunks import sharded_problem
from tatml._sharding.term import DifferenceShapes, ShardedTerm


@dataclass
class HeldShard:
    """Pairs that are in memory all the time."""

    blocks: Blocks
    pairs: Pairs

    def load(self, shared):
        return Piece(pair_sums(self.blocks, self.pairs), self.pairs.similar, self.pairs.weights)


def held_shards(case, cuts):
    whole = Pairs(np.asfortranarray(case.pairs), case.similar, case.weights)
    parts = np.split(np.arange(len(case.pairs)), cuts)
    return [HeldShard(case.blocks, whole.take(part)) for part in parts]


def sharded(case, cuts=(5, 6)):
    """The problem of the case, with its pairs cut at these places."""
    executor = SerialExecutor(held_shards(case, cuts))
    sizes, widths = zip(*case.blocks.block_shapes, strict=True)
    shapes = DifferenceShapes(sizes, widths, len(case.pairs))
    term = ShardedTerm(executor, shapes, Setting(case.C, case.margin))
    problem = sharded_problem(term, case.c0, case.mu0)
    return problem if case.prior is None else problem.with_prior(case.prior)
