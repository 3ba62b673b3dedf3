"""The centre of midpoints: the mean of the class means, and what learning adds to it.

A row of ones in each block lets the problem learn the centre: the sum of two samples, minus twice
the first centre, is 2 there, and the difference is 0. After the fit, the entries of this row in V
are a shift of the centre and a constant of q: docs/theory.md, (Centre).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np
import scipy.linalg

from .._array import Array, Doubles, asarray, namespace
from .._data.blocks import Blocks
from .._data.sparse import SparseBlock
from .._optim.result import Result, learnt_b0
from .priors import WithinClasses, pair_weights

# The entry of the row of ones in V0. Chosen on the choosing half of the study, among 0.01, 0.1, 1.
PRIOR_OF_CONSTANT = 0.1


def center_of_classes(array: Array, within: WithinClasses) -> Array:
    """Return the mean of the class means, shape (n, n'); of pairs, the mean of their samples."""
    weights = np.zeros(array.shape[0])
    if within.labels is not None:
        counts = np.bincount(within.labels, within.weights)
        share = 1.0 if within.weights is None else within.weights
        weights[:] = share / (np.sum(counts > 0) * counts[within.labels])
    else:
        assert within.pairs is not None
        used = np.unique(within.pairs.index[pair_weights(within.pairs) > 0])
        weights[used] = 1 / len(used)
    if isinstance(array, SparseBlock):
        return (weights @ array.table)[:, None]
    xp = namespace(array)
    flat = xp.astype(xp.reshape(array, (array.shape[0], -1)), xp.float64, copy=False)
    return xp.reshape(asarray(weights, flat) @ flat, array.shape[1:])


def with_constants(samples: Blocks, center: Sequence[Array]) -> tuple[Blocks, list[Array]]:
    """Return the samples with a row of ones in each block, and the centre with a row of zeros."""
    arrays = [_with_row(array, 1.0) for array in samples.arrays]
    return Blocks(*arrays), [_with_row(middle[None, ...], 0.0)[0, ...] for middle in center]


def _with_row(array: Array, value: float) -> Array:
    xp = namespace(array)
    row = xp.zeros_like(array[:, :1, :]) + value
    return xp.concat([array, row], axis=1)


def matrices_with_constants(matrices: Sequence[Doubles]) -> list[Doubles]:
    """Return matrices of the differences, then of the sums, with the prior of the constant rows."""
    M = len(matrices) // 2
    entries = [1.0] * M + [PRIOR_OF_CONSTANT] * M
    return [scipy.linalg.block_diag(W0, e) for W0, e in zip(matrices, entries, strict=True)]


def factors_with_constants(factors: Sequence[Doubles]) -> list[Doubles]:
    """Return lower triangular factors with those of the prior of the constant rows."""
    M = len(factors) // 2
    entries = [1.0] * M + [sqrt(PRIOR_OF_CONSTANT)] * M
    return [scipy.linalg.block_diag(L, e) for L, e in zip(factors, entries, strict=True)]


def without_constants(found: Result, widths: Sequence[int]) -> tuple[Result, list[Doubles]]:
    """Return a result without the constant rows, and by what the centre moves in each block.

    ‖Rᵀs + 2r‖² + 4ρ² for the sum s of two samples is ‖Rᵀ(s + 2 R⁻ᵀr)‖² and a constant, which the
    threshold takes. `widths` has the number of columns of each block.
    """
    M, shifts, constant = len(widths), [], 0.0
    for lower, width in zip(found.L[M:], widths, strict=True):
        R, r, rho = lower[:-1, :-1], lower[-1, :-1], lower[-1, -1]
        shifts.append(-scipy.linalg.solve_triangular(R, r, lower=True, trans="T"))
        constant += 4 * width * float(rho) ** 2
    factors = [lower[:-1, :-1] for lower in found.L]
    return replace(found, L=factors, b0=learnt_b0(found) + constant / M), shifts
