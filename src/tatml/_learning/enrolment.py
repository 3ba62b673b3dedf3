"""Scores of samples and identities with several enrolled samples: docs/theory.md, (Enrol)."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

import numpy as np
import scipy.linalg
from scipy.sparse import csr_array
from sklearn.utils import gen_batches

from .._array import Array, Doubles, Indices, asarray, namespace, to_numpy
from .._data.blocks import Blocks
from .metric import CHUNK_NUMBERS, Metric, apply_factor
from .span import Factor, SpanFactor

LEAST_RATIO = 0.03  # of B and S, along axes where the model of classes is used


@dataclass(frozen=True, eq=False)
class Axes:
    """Axes of one block, along which W and V are diagonal.

    Parameters
    ----------
    block : int
        The number of the block.
    factor : Factor
        The linear map to the coordinates along the axes, in which W + V is the identity.
    v : array of shape (n_axes,)
        The weights of V; those of W are 1 − v.
    """

    block: int
    factor: Factor
    v: Doubles


def axes_of(A: Factor, R: Factor, block: int) -> list[Axes]:
    """Return axes for the factors of W and V of one block; those outside a span are apart."""
    if isinstance(A, SpanFactor) and isinstance(R, SpanFactor):
        (inside,) = axes_of(A.inner.T, R.inner.T, block)
        factor = A.span.as_rows(to_numpy(inside.factor))
        outside = SpanFactor(A.span, np.zeros_like(A.inner), hypot(A.outside, R.outside))
        share = (R.outside / outside.outside) ** 2
        return [Axes(block, factor, inside.v), Axes(block, outside, np.full(len(outside), share))]
    stacked = np.concatenate([A, R])
    basis, both = scipy.linalg.qr(stacked, mode="economic", check_finite=False)
    _, roots, axes = np.linalg.svd(basis[len(A) :])
    return [Axes(block, axes @ both, np.minimum(roots, 1.0) ** 2)]


@dataclass(frozen=True, eq=False)
class Identities:
    """The score of a sample z in coordinates along the axes: z · lines + z² · squares + constants.

    Parameters
    ----------
    lines : array of shape (n_identities, n_axes)
        For each identity.
    squares : array of shape (n_counts, n_axes)
        For each number of enrolled samples.
    constants : array of shape (n_identities,)
        For each identity.
    which : int array of shape (n_identities,)
        The row of `squares` of each identity.
    """

    lines: Doubles
    squares: Doubles
    constants: Doubles
    which: Indices

    @classmethod
    def of(cls, sums: Doubles, square_sums: Doubles, n: Indices, v: Doubles, M: int) -> Identities:
        """Return the scores by the sums of n enrolled samples and of their squares."""
        counts, which = np.unique(n, return_inverse=True)
        counts = counts[:, None]
        fits = 1 - 2 * v > LEAST_RATIO * 2 * v  # theory (Enrol)
        t, rest = np.where(fits, 2 * v, 1.0), np.where(fits, 0.0, 2 * v - 1)
        w = 1 - t / 2
        e, after = (count - (count - 1) * t for count in (counts, counts + 1))
        squares = rest - 2 * counts * w * (1 - t) / after
        lines = 4 * w / np.where(fits, after, counts)
        constants = np.sum(np.log(2 * w * e / after), axis=1) / (2 * M)
        of_means = 2 * w * (1 - t) / (e * after)
        own = square_sums @ rest / n - np.sum(of_means[which] * sums**2, axis=1)
        return cls(lines[which] * sums, squares, own + constants[which], which)

    def score(self, z: Array) -> Array:
        """Return the scores of samples, shape (n_samples, n_identities)."""
        lines, squares, constants = (
            asarray(part, z) for part in (self.lines, self.squares, self.constants)
        )
        found = namespace(z).take(z**2 @ squares.T, asarray(self.which, z), axis=1)
        found += z @ lines.T + constants
        return found


def enrolled_scores(
    metric: Metric,
    samples: Blocks,
    enrolled: Blocks,
    identity: Indices,
    place: Array | None = None,
) -> Array:
    """Return the scores of samples and identities, shape (n_samples, n_identities).

    `identity` is the number of the identity of each enrolled sample.
    """
    mapped, M = metric.mapped(samples, place), len(metric.factors)
    both = enumerate(zip(metric.factors, metric.sum_factors, strict=True))
    axes = [some for m, (A, R) in both for some in axes_of(A, R, m)]
    widths = [mapped.arrays[one.block].shape[2] for one in axes]
    v = np.concatenate([np.repeat(one.v, width) for one, width in zip(axes, widths, strict=True)])
    n = np.bincount(identity)

    def coordinates(blocks: Blocks, part: slice) -> Array:
        rows = [
            apply_factor(one.factor, blocks.arrays[one.block][part, ...], metric.center[one.block])
            for one in axes
        ]
        return namespace(rows[0]).concat(rows, axis=1)

    member = csr_array((np.ones(len(identity)), (identity, np.arange(len(identity)))))
    known = metric.mapped(enrolled, place)
    sums, square_sums = np.zeros((2, len(n), len(v)))
    for part in gen_batches(len(identity), max(1, CHUNK_NUMBERS // len(v))):
        z = to_numpy(coordinates(known, part))
        sums += member[:, part] @ z
        square_sums += member[:, part] @ z**2
    identities = Identities.of(sums, square_sums, n, v, M)
    parts = gen_batches(len(samples), max(1, CHUNK_NUMBERS // max(len(v), len(n))))
    found = [identities.score(coordinates(mapped, part)) for part in parts]
    return namespace(found[0]).concat(found, axis=0)
