"""Symmetric matrices as vectors that keep inner products."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ._array import Array, namespace

MOST_LAYOUTS = 64  # the cache of layouts is emptied when it holds this many


def svec_outer(block: Array) -> Array:
    """Compute svec of Bᵀ B for each matrix B of a block of shape (n_part, n', n)."""
    xp = namespace(block)
    n_part, width, n = block.shape
    layout = _svec_layout(xp, n, block.dtype, block.device)
    if width == 1:
        row = block[:, 0, :]
        # one expression, so that NumPy reuses the memory of its parts
        return xp.take(row, layout.row, axis=1) * (
            xp.take(row, layout.column, axis=1) * layout.weight
        )
    outer = xp.matmul(xp.matrix_transpose(block), block)
    return xp.take(xp.reshape(outer, (n_part, n * n)), layout.upper, axis=1) * layout.weight


def svec_size(n: int) -> int:
    """Return n(n+1)/2, the length of svec of an n × n matrix."""
    return n * (n + 1) // 2


def svec(matrices: Array) -> Array:
    """Convert symmetric matrices (…, n, n) to vectors (…, n(n+1)/2) with the same inner products.

    A vector holds the upper triangle row by row, with √2 times the entries off the diagonal.
    """
    xp, (*lead, n, _) = namespace(matrices), matrices.shape
    layout = _svec_layout(xp, n, matrices.dtype, matrices.device)
    return xp.take(xp.reshape(matrices, (*lead, n * n)), layout.upper, axis=-1) * layout.weight


def unsvec(vectors: Array, n: int) -> Array:
    """Convert vectors (…, n(n+1)/2) to symmetric matrices (…, n, n): the inverse of `svec`."""
    xp = namespace(vectors)
    layout = _svec_layout(xp, n, vectors.dtype, vectors.device)
    entries = xp.take(vectors / layout.weight, layout.position, axis=-1)
    return xp.reshape(entries, (*vectors.shape[:-1], n, n))


def unsvec_all(vector: Array, sizes: Sequence[int]) -> list[Array]:
    """Return the matrices of concatenated svec vectors; further entries are ignored."""
    matrices, start = [], 0
    for n in sizes:
        matrices.append(unsvec(vector[start : start + svec_size(n)], n))
        start += svec_size(n)
    return matrices


def svec_congruence(G: Array) -> Array:
    """Return the matrix T with svec(GᵀVG) = T svec(V) for symmetric V."""
    xp, n = namespace(G), G.shape[0]
    layout = _svec_layout(xp, n, G.dtype, G.device)
    i, j = layout.row, layout.column
    rows_i, rows_j = xp.take(G, i, axis=0), xp.take(G, j, axis=0)
    columns = [[xp.take(rows, k, axis=1) for k in (i, j)] for rows in (rows_i, rows_j)]
    both = columns[0][0] * columns[1][1] + columns[1][0] * columns[0][1]
    # Off the diagonal, an entry of svec(V) stands for V_ij and V_ji; on it, for V_ii alone.
    return (both * layout.halved[:, None] * layout.weight).T


class SvecLayout(NamedTuple):
    """The indices and weights of svec for matrices of one size."""

    upper: Array  # the place of each entry of svec in the raveled matrix
    position: Array  # the place of each entry of the raveled matrix in svec
    row: Array
    column: Array
    weight: Array  # √2 off the diagonal, 1 on it
    halved: Array  # 1/weight off the diagonal, 1/2 on it


_LAYOUTS: dict[tuple, SvecLayout] = {}


def _svec_layout(xp: Any, n: int, dtype: Any, device: Any) -> SvecLayout:
    """Return the cached layout of svec for n × n matrices of a dtype on a device."""
    # CuPy's devices cannot be hashed; the names of NumPy's dtypes are slow to make.
    key = (n, dtype) if xp is np else (n, xp.__name__, str(dtype), str(device))
    layout = _LAYOUTS.get(key)
    if layout is None:
        if len(_LAYOUTS) >= MOST_LAYOUTS:
            _LAYOUTS.clear()
        layout = _LAYOUTS[key] = _new_svec_layout(xp, n, dtype, device)
    return layout


def _new_svec_layout(xp: Any, n: int, dtype: Any, device: Any) -> SvecLayout:
    rows, columns = np.triu_indices(n)
    position = np.empty((n, n), dtype=np.int64)
    position[rows, columns] = position[columns, rows] = np.arange(len(rows))
    weight = np.where(rows == columns, 1.0, sqrt(2.0))
    places = (rows * n + columns, position.ravel(), rows, columns)
    weights = (weight, np.where(rows == columns, 0.5, 1 / weight))
    return SvecLayout(
        *(xp.asarray(place, device=device) for place in places),
        *(xp.asarray(each, dtype=dtype, device=device) for each in weights),
    )
