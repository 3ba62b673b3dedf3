"""Sums over pairs at the cost of samples: the pairs are the edges of a graph of the samples.

With Z the features of the samples, one row per sample, and Y = Z V,

    ⟨A_k, V⟩ = ⟨z_i − z_j, y_i − y_j⟩   and   Σ_k s_k A_k = Zᵀ L_s Z,

with L_s the Laplacian of the graph whose edges have the weights s (docs/theory.md, (Lap)). Both
need one matrix product over the samples instead of one over the pairs; the rest is reading rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from .._array import Array, namespace, put_at, sum_at, zeros
from .._csr import products_at, sparse_product
from .layout import flat, row_products

SAMPLE_CHUNKS = 16  # a chunk of samples is so many times as large as one of differences


class PairGraph:
    """Pairs as the edges of a graph, sorted by their first sample when they are first used.

    Parameters
    ----------
    first, second : integer arrays of shape (n_pairs,)
        Rows of the two samples of each pair.
    n_samples : int
        The number of samples.
    """

    def __init__(self, first: Array, second: Array, n_samples: int):
        self.first, self.second, self.n_samples = first, second, n_samples

    @cached_property
    def order(self) -> Array:
        """The pairs, sorted by their first sample."""
        return namespace(self.first).argsort(self.first)

    def take(self, pairs: Array) -> PairGraph:
        """Return the graph of the pairs with these indices."""
        take = namespace(pairs).take
        rows = take(self.first, pairs, axis=0), take(self.second, pairs, axis=0)
        return PairGraph(*rows, self.n_samples)

    @cached_property
    def _sorted(self) -> tuple[Array, Array]:
        """Rows of the two samples of each sorted pair."""
        take = namespace(self.order).take
        return take(self.first, self.order, axis=0), take(self.second, self.order, axis=0)

    @cached_property
    def _starts(self) -> Array:
        """Where the pairs of each sample begin among the sorted ones, shape (n_samples + 1,)."""
        first, xp = self._sorted[0], namespace(self.order)
        samples = xp.arange(self.n_samples + 1, dtype=first.dtype, device=first.device)
        return xp.searchsorted(first, samples)

    def sort(self, values: Array) -> Array:
        """Return one value per pair in the order of the sorted pairs."""
        return namespace(values).take(values, self.order, axis=0)

    def unsort(self, values: Array) -> Array:
        """Return one value per sorted pair in the order of the pairs."""
        return put_at(self.order, values)

    def inner_products(self, Z: Sequence[Array], Y: Sequence[Array], room: int) -> Array:
        """Compute Σ_m ⟨z_i − z_j, y_i − y_j⟩ of the sorted pairs, in chunks of `room` bytes."""
        xp, (first, second) = namespace(Z[0]), self._sorted
        step = max(16, room // (8 * sum(block.shape[1] * block.shape[2] for block in Z)))
        parts = []
        for start in range(0, first.shape[0], step):
            stop = min(start + step, first.shape[0])
            i, j = first[start:stop], second[start:stop]
            differences = [
                [xp.take(block, i, axis=0) - xp.take(block, j, axis=0) for block in side]
                for side in (Z, Y)
            ]
            parts.append(sum(map(row_products, *differences)))
        return parts[0] if len(parts) == 1 else xp.concat(parts)

    def expanded_products(self, Z: Sequence[Array], Y: Sequence[Array], room: int) -> Array:
        """Compute the same for y = V z with symmetric V, from inner products of samples.

        ⟨z_i, y_i⟩ + ⟨z_j, y_j⟩ − 2 ⟨z_i, y_j⟩ cancels for near samples, but reads half as many
        rows, and a GPU copies none.
        """
        xp, (first, second), total = namespace(Z[0]), self._sorted, 0.0
        for z, y in zip(Z, Y, strict=True):
            z, y = (xp.reshape(side, (self.n_samples, -1)) for side in (z, y))
            own = xp.linalg.vecdot(z, y)
            cross = products_at(self._starts, second, z, y)
            if cross is None:
                total = total + self._expanded(z, y, own, room)
            else:
                both = xp.take(own, first, axis=0) + xp.take(own, second, axis=0)
                total = total + (both - 2 * cross)
        return total

    def _expanded(self, z: Array, y: Array, own: Array, room: int) -> Array:
        """Compute own_i + own_j − 2 ⟨z_i, y_j⟩ of the sorted pairs, in chunks of `room` bytes."""
        xp, (first, second) = namespace(z), self._sorted
        step = max(16, room // (8 * z.shape[1]))
        parts = []
        for start in range(0, first.shape[0], step):
            stop = min(start + step, first.shape[0])
            i, j = first[start:stop], second[start:stop]
            cross = xp.linalg.vecdot(xp.take(z, i, axis=0), xp.take(y, j, axis=0))
            parts.append(xp.take(own, i, axis=0) + xp.take(own, j, axis=0) - 2 * cross)
        return parts[0] if len(parts) == 1 else xp.concat(parts)

    def scatter(self, block: Array, s: Array, room: int) -> Array:
        """Compute Zᵀ L_s Z for one block and the weights of the sorted pairs, shape (n, n).

        L_s = D − U − Uᵀ, with s_k in row i and column j of U, is not formed: with
        T = Zᵀ(D/2 − U)Z the result is T + Tᵀ.
        """
        xp, (first, second) = namespace(block), self._sorted
        degrees = sum_at(first, s, self.n_samples) + sum_at(second, s, self.n_samples)
        rows = xp.reshape(block, (self.n_samples, -1))
        step = max(16, SAMPLE_CHUNKS * room // (8 * rows.shape[1]))
        starts, total = self._starts, zeros((block.shape[2], block.shape[2]), like=block)
        for low in range(0, self.n_samples, step):
            high = min(low + step, self.n_samples)
            begin, end = 0, second.shape[0]
            if step < self.n_samples:
                begin, end = int(starts[low]), int(starts[high])
            some = starts[low : high + 1] - begin, second[begin:end], s[begin:end]
            carried = sparse_product(*some, rows)
            carried = degrees[low:high, None] / 2 * rows[low:high, :] - carried
            part = block[low:high, ...]
            total = total + flat(part).T @ flat(xp.reshape(carried, part.shape))
        return total + total.T
