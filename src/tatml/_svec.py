"""Symmetric matrices as vectors that keep inner products."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from ._array import Array, namespace

__all__ = ["svec", "svec_congruence", "svec_outer", "svec_size", "unsvec"]

MOST_LAYOUTS = 64  # the cache of layouts is emptied when it holds this many


def svec_outer(block: Array) -> Array:
    """Compute svec of Bᵀ B for each matrix B of a block of shape (n_part, n', n)."""
    xp = namespace(block)
    n_part, width, n = block.shape
    upper, _, weight = _svec_layout(xp, n, block.dtype, block.device)
    if width == 1:
        row = block[:, 0, :]
        return xp.take(row, upper // n, axis=1) * (xp.take(row, upper % n, axis=1) * weight)
    outer = xp.matmul(xp.matrix_transpose(block), block)
    return xp.take(xp.reshape(outer, (n_part, n * n)), upper, axis=1) * weight


def svec_size(n: int) -> int:
    """Return n(n+1)/2, the length of svec of an n × n matrix."""
    return n * (n + 1) // 2


def svec(matrices: Array) -> Array:
    """Convert symmetric matrices (…, n, n) to vectors (…, n(n+1)/2) with the same inner products.

    A vector holds the upper triangle row by row, with √2 times the entries off the diagonal.
    """
    xp, (*lead, n, _) = namespace(matrices), matrices.shape
    upper, _, weight = _svec_layout(xp, n, matrices.dtype, matrices.device)
    return xp.take(xp.reshape(matrices, (*lead, n * n)), upper, axis=-1) * weight


def unsvec(vectors: Array, n: int) -> Array:
    """Convert vectors (…, n(n+1)/2) to symmetric matrices (…, n, n): the inverse of `svec`."""
    xp = namespace(vectors)
    _, position, weight = _svec_layout(xp, n, vectors.dtype, vectors.device)
    entries = xp.take(vectors / weight, position, axis=-1)
    return xp.reshape(entries, (*vectors.shape[:-1], n, n))


def svec_congruence(G: Array) -> Array:
    """Return the matrix T with svec(GᵀVG) = T svec(V) for symmetric V."""
    xp, n = namespace(G), G.shape[0]
    upper, _, weight = _svec_layout(xp, n, G.dtype, G.device)
    i, j = upper // n, upper % n
    rows_i, rows_j = xp.take(G, i, axis=0), xp.take(G, j, axis=0)
    columns = [[xp.take(rows, k, axis=1) for k in (i, j)] for rows in (rows_i, rows_j)]
    both = columns[0][0] * columns[1][1] + columns[1][0] * columns[0][1]
    # Off the diagonal, an entry of svec(V) stands for V_ij and V_ji; on it, for V_ii alone.
    return (both / xp.where(i == j, 2 * weight, weight)[:, None] * weight).T


SvecLayout = tuple[Array, Array, Array]

_LAYOUTS: dict[tuple[str, ...], SvecLayout] = {}


def _svec_layout(xp: Any, n: int, dtype: Any, device: Any) -> SvecLayout:
    """Return the cached layout of svec for n × n matrices of a dtype on a device."""
    key = (xp.__name__, str(n), str(dtype), str(device))  # CuPy's devices cannot be hashed
    if key not in _LAYOUTS:
        if len(_LAYOUTS) >= MOST_LAYOUTS:
            _LAYOUTS.clear()
        _LAYOUTS[key] = _new_svec_layout(xp, n, dtype, device)
    return _LAYOUTS[key]


def _new_svec_layout(xp: Any, n: int, dtype: Any, device: Any) -> SvecLayout:
    """Return the index of each svec entry in the matrix, of each matrix entry in svec; weights."""
    rows, columns = np.triu_indices(n)
    position = np.empty((n, n), dtype=np.int64)
    position[rows, columns] = position[columns, rows] = np.arange(len(rows))
    weight = np.where(rows == columns, 1.0, sqrt(2.0))
    return (
        xp.asarray(rows * n + columns, device=device),
        xp.asarray(position.ravel(), device=device),
        xp.asarray(weight, dtype=dtype, device=device),
    )
