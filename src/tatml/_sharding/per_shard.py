"""The functions that an executor calls for every shard.

Each takes the term of the pairs of one shard and the index of the shard. It runs where the shard
is, and returns numbers and matrices whose size does not depend on the number of pairs; only
`sample_pairs` returns pairs.
"""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

import numpy as np

from .._array import Array, Indices, asarray, eye
from .._optim.certificate import PairTotals
from .._optim.hessian import ActivePairs, Direction, dimension
from .._optim.losses import PairLoss
from .._optim.pair_term import PairsAtPoint, PairTerm, totals_at
from .._optim.terms import Totals


class ShardHessian(NamedTuple):
    """Σ h z zᵀ for c0 = 1, and the number of shards whose pairs were sampled for it."""

    gram: Array
    n_sampled: int


class SampledRows(NamedTuple):
    """Some rows of a shard: the differences of their pairs, and their loss."""

    rows: list[Array]
    links: tuple[Array, Array] | None
    loss: PairLoss


def evaluate_shard(
    term: PairTerm, index: int, L: list[Array], b0: float, share: float | None
) -> tuple[Totals, ShardHessian | None]:
    """Return the totals, and the Hessian of a share of the pairs unless `share` is None."""
    point = term.at(L, b0)
    return point.totals, None if share is None else _hessian(point, index, share)


def certify_shard(
    term: PairTerm, index: int, L: list[Array], b0: float, n_pairs: int
) -> PairTotals:
    """Return the totals with their rounding errors."""
    return totals_at(term.sums, term.loss, L, b0, n_pairs)


def assemble_hessian(
    term: PairTerm, index: int, L: list[Array], b0: float, share: float | None
) -> ShardHessian:
    """Return the Hessian of a share of the pairs, or of all pairs if `share` is None."""
    return _hessian(term.at(L, b0), index, share)


def _hessian(point: PairsAtPoint, index: int, share: float | None) -> ShardHessian:
    k, some, scale = point.n_active, None, 1.0
    d = dimension(point.term.sizes)
    if k == 0:
        return ShardHessian(np.zeros((d, d)), 0)
    enough = k if share is None else ceil(share * point.term.n_pairs)
    if 2 * enough < k:
        chosen = np.random.default_rng(index).choice(k, enough, replace=False)
        some, scale = asarray(chosen, like=point.active), k / enough
    eyes = [eye(n, like=point.L[0]) for n in point.term.sizes]
    gram = point.active_pairs(eyes, 1.0, some, scale).gram()
    return ShardHessian(gram, int(some is not None))


def multiply_hessian(
    term: PairTerm, index: int, L: list[Array], b0: float, V: list[Array], b: float, c0: float
) -> Direction:
    """Return Σ h z zᵀ (V, b)."""
    point = term.at(L, b0)
    if point.n_active == 0:
        return [0.0 * block for block in V], 0.0
    sums, curvature, gamma = point.sums, point.curvature, term.loss.gamma
    if not sums.whole_is_cheap:
        sums = sums.take(point.active)
        curvature, gamma = curvature[point.active], gamma[point.active]
    return ActivePairs(sums, curvature, gamma, c0).product(V, b)


def look_along(
    term: PairTerm, index: int, L: list[Array], b0: float, V: list[Array], change: float, t: float
) -> tuple[float, float]:
    """Return slope and increase of the losses at t along the direction (see `Line`)."""
    losses = term.at(L, b0).along(V, change)
    return losses.slope(t), losses.increase(t)


def sample_pairs(term: PairTerm, index: int, share: float, seed: int) -> SampledRows:
    """Return differences and loss of a random share of the rows, weighted to represent all."""
    # At least one pair from each of very many shards would be more than was asked for. Shard 0
    # always gives one, so that the sample is not empty.
    some = draw_rows(term.n_pairs, index, share, seed, least=int(index == 0))
    chosen, loss = term.sums.take(some), term.loss.take(some, 1 / share)
    pairs = chosen.pairs
    return SampledRows(pairs.rows(slice(0, pairs.n_pairs)), chosen.links, loss)


def draw_rows(n_rows: int, index: int, share: float, seed: int, least: int) -> Indices:
    """Draw a random share of the rows of a shard; their number is rounded at random."""
    rng = np.random.default_rng([seed, index])
    size = max(least, min(n_rows, floor(share * n_rows + rng.random())))
    return np.sort(rng.choice(n_rows, size, replace=False))
