"""Sums over pairs of samples, chunk by chunk: the only code that reads features.

With Δ_{m,k} the difference of the two samples of pair k in block m, a solver needs

    D_k = (1/M) Σ_m ‖Δ_{m,k}‖_F²,   ⟨A_k, V⟩ = (1/M) Σ_m ⟨Δ Δᵀ, V_m⟩,   S_m = (1/M) Σ_k s_k Δ Δᵀ

of features that were multiplied by a factor G first (`transformed`): (GᵀΔ)(GᵀΔ)ᵀ = Gᵀ A G. The
factor is applied to the samples, not to the pairs, so it costs nothing more when there are many
pairs of few samples. Features are kept transposed, (n_rows, n', n): every product is one GEMM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import sqrt
from typing import Any

from .._array import (
    Array,
    as_double,
    contiguous,
    free_bytes,
    namespace,
    on_gpu,
    symmetrised,
    zeros,
)
from .._svec import svec_outer, svec_size

__all__ = ["PairSums", "centred", "lay_out"]

CHUNK_BYTES = 2**20  # one chunk of differences: about what a core's cache holds
GPU_CHUNK_BYTES = 2**29  # on a GPU: so much that starting its kernels costs nothing
DENSE_SHARE = 0.7  # of the pairs of a chunk: below it, those that count are picked out first
SVEC_BYTES = 2**25  # pairs up to this size keep their svec(A_k), which makes Hessians cheap
WIDEST_SVEC = 300
EAGER_BYTES = 2**28  # larger features are multiplied by a factor chunk by chunk, not at once
GPU_EAGER_SHARE = 1 / 8  # the same on a GPU, of its free memory


class PairSums:
    """Pair differences, formed when they are needed and in bounded memory.

    Parameters
    ----------
    features : sequence of M arrays of shape (n_rows, n'_m, n_m)
        Transposed samples; or the differences themselves when `first` is None.
    first, second : integer arrays of shape (n_pairs,), or None
        Rows of the two samples of each pair.
    factors : sequence of M arrays of shape (n_m, n_m), or None
        A factor that is still to be applied to every chunk.
    """

    keeps_svec = True  # where they are few
    whole_is_cheap = False  # whether a sum over all pairs costs less than one over many of them

    def __init__(
        self,
        features: Sequence[Array],
        first: Array | None = None,
        second: Array | None = None,
        factors: Sequence[Array] | None = None,
    ):
        self.features = tuple(features)
        self._rows = None if first is None or second is None else (first, second)
        self.factors = factors

    @property
    def first(self) -> Array | None:
        """The row of the first sample of each pair; None where differences are held."""
        return None if self._rows is None else self._rows[0]

    @property
    def second(self) -> Array | None:
        """The row of the second sample of each pair."""
        return None if self._rows is None else self._rows[1]

    @classmethod
    def from_samples(cls, features: Sequence[Array], first: Array, second: Array) -> PairSums:
        """Hold the samples, or the differences where these are fewer."""
        sums = cls(features, first, second)
        if sums.n_pairs <= features[0].shape[0]:
            return cls(sums.rows(slice(0, sums.n_pairs)))
        return sums

    @property
    def xp(self) -> Any:
        """The array namespace of the features."""
        return namespace(self.features[0])

    @property
    def n_blocks(self) -> int:
        """M."""
        return len(self.features)

    @property
    def n_pairs(self) -> int:
        """K."""
        return self.features[0].shape[0] if self.first is None else self.first.shape[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return tuple(block.shape[2] for block in self.features)

    @property
    def widths(self) -> tuple[int, ...]:
        """n'_m of each block."""
        return tuple(block.shape[1] for block in self.features)

    @cached_property
    def numbers_per_pair(self) -> int:
        """Σ n_m n'_m."""
        return sum(n * width for n, width in zip(self.sizes, self.widths, strict=True))

    def transformed(self, factors: Sequence[Array]) -> PairSums:
        """The same pairs of the features GᵀΦ."""
        if self.factors is not None:
            factors = [a @ b for a, b in zip(self.factors, factors, strict=True)]
        if 8 * self.features[0].shape[0] * self.numbers_per_pair > eager_bytes(self.features[0]):
            return PairSums(self.features, self.first, self.second, factors)
        return PairSums(_apply(self.features, factors), self.first, self.second)

    def take(self, pairs: Array) -> PairSums:
        """Some of the pairs."""
        take = self.xp.take
        if self.first is None:
            return PairSums(
                [take(block, pairs, axis=0) for block in self.features], None, None, self.factors
            )
        first, second = take(self.first, pairs, axis=0), take(self.second, pairs, axis=0)
        return PairSums(self.features, first, second, self.factors)

    def block(self, m: int) -> PairSums:
        """The differences in one block alone; 1/M is then 1."""
        factors = None if self.factors is None else [self.factors[m]]
        return PairSums([self.features[m]], self.first, self.second, factors)

    def rows(self, part: slice) -> list[Array]:
        """Differences of the pairs in `part`, one array (n_part, n'_m, n_m) a block."""
        if self.first is None or self.second is None:
            rows = [block[part, ...] for block in self.features]
        else:
            take, i, j = self.xp.take, self.first[part], self.second[part]
            rows = [take(block, i, axis=0) - take(block, j, axis=0) for block in self.features]
        return rows if self.factors is None else _apply(rows, self.factors)

    def longest_difference(self) -> float:
        """A bound of ‖Δ_k‖_F/√M over all pairs, which needs no pass over them."""
        xp, total = self.xp, 0.0
        for m, block in enumerate(self.features):
            scale = 1.0 if self.factors is None else float(xp.sum(self.factors[m] ** 2))
            total += scale * float(xp.max(_dot(block, block)))
        return (1 if self.first is None else 2) * sqrt(total / self.n_blocks)

    def rounding(self, factors: Sequence[Array]) -> Array:
        """How far rounding can move each LᵀΔ_k/√M, L the factors: a bound of the norm, (n_pairs,).

        The features are samples as they were given or centred, or their differences.
        """
        xp, u = self.xp, float(self.xp.finfo(factors[0].dtype).eps) / 2  # theory (Round)
        stored = float(xp.finfo(self.features[0].dtype).eps) / 2
        total = 0.0
        for block, factor in zip(self.features, factors, strict=True):
            relative = (factor.shape[0] + 8) * u + (stored if stored > u else 0.0)
            step = max(1, chunk_bytes(block) // (8 * block.shape[1] * block.shape[2]))
            squares = []
            for start in range(0, block.shape[0], step):
                stop = min(start + step, block.shape[0])
                size = xp.abs(block[start:stop, ...])
                size = xp.astype(size, factor.dtype, copy=False)
                (image,) = _apply([size], [xp.abs(factor)])
                squares.append(_dot(image, image))
            total = total + relative**2 * self._joined(squares)
        moved = xp.sqrt(total / self.n_blocks)
        if self.first is None:
            return moved
        return xp.take(moved, self.first, axis=0) + xp.take(moved, self.second, axis=0)

    def reach(self, distances: Array) -> Array | None:
        """The size of what each distance is computed from; None: its root, as nothing cancels."""
        return None

    def n_terms(self, n_pairs: int) -> int:
        """How many roundings in a row a sum over so many pairs may have."""
        return n_pairs * max(self.widths) + self.numbers_per_pair + self.n_blocks + 8

    def in_double(self) -> PairSums:
        """The same pairs with float64 features."""
        double = [as_double(block) for block in self.features]
        factors = None if self.factors is None else [as_double(factor) for factor in self.factors]
        return PairSums(double, self.first, self.second, factors)

    def chunks(self, numbers_per_pair: int = 0) -> Iterator[tuple[slice, list[Array]]]:
        """Yield (pairs, differences), fewer at a time for work that needs more room a pair."""
        room = chunk_bytes(self.features[0])
        step = max(16, room // (8 * max(self.numbers_per_pair, numbers_per_pair // 4)))
        for start in range(0, self.n_pairs, step):
            part = slice(start, min(start + step, self.n_pairs))
            yield part, self.rows(part)

    def distances(self) -> Array:
        """D_k, shape (n_pairs,)."""
        return self._joined([self._squares(rows) for _, rows in self.chunks()])

    def quadratic(self, V: Sequence[Array]) -> Array:
        """⟨A_k, V⟩ for symmetric V, shape (n_pairs,)."""
        return self._joined([self._inner(rows, _apply(rows, V)) for _, rows in self.chunks()])

    def scatter(self, s: Array) -> list[Array]:
        """S_m = (1/M) Σ_k s_k A_{m,k}, one array (n_m, n_m) a block."""
        total = self._zeros()
        for part, rows in self.chunks():
            total = self._add_scatter(total, rows, s[part])
        return [symmetrised(S) for S in total]

    def product(
        self, V: Sequence[Array], weights: Array, shift: Array
    ) -> tuple[Array, list[Array]]:
        """q_k = w_k (⟨A_k, V⟩ + shift_k), and S for these q, in one pass."""
        parts, total = [], self._zeros()
        for part, rows in self.chunks():
            inner = self._inner(rows, _apply(rows, V))
            parts.append(weights[part] * (inner + shift[part]))
            total = self._add_scatter(total, rows, parts[-1], whole=True)
        return self._joined(parts), [symmetrised(S) for S in total]

    def held(self) -> PairSums:
        """The same with the differences at hand, where a GPU has room: each product is read once.

        Forming them anew for each product would cost a GPU as much time as the product.
        """
        array = self.features[0]
        formed = self.first is None and self.factors is None
        room = 8 * self.n_pairs * self.numbers_per_pair
        if formed or not on_gpu(array) or room > eager_bytes(array):
            return self
        chunks = [rows for _, rows in self.chunks()]
        blocks = [self._joined(list(parts)) for parts in zip(*chunks, strict=True)]
        return PairSums(blocks)

    def distances_and_scatter(
        self, slope: Callable[[slice, Array], Array]
    ) -> tuple[Array, list[Array]]:
        """D, and S for the s that `slope(pairs, D of the pairs)` gives, in one pass."""
        distances, total = [], self._zeros()
        for part, rows in self.chunks():
            distances.append(self._squares(rows))
            total = self._add_scatter(total, rows, slope(part, distances[-1]))
        return self._joined(distances), [symmetrised(S) for S in total]

    def _squares(self, rows: Sequence[Array]) -> Array:
        return self._inner(rows, rows)  # theory (Dist)

    def _inner(self, rows: Sequence[Array], images: Sequence[Array]) -> Array:
        return sum(_dot(a, b) for a, b in zip(rows, images, strict=True)) / self.n_blocks

    def _zeros(self) -> list[Array]:
        return [zeros((n, n), like=self.features[0]) for n in self.sizes]

    def _add_scatter(
        self, total: Sequence[Array], rows: Sequence[Array], s: Array, whole: bool = False
    ) -> list[Array]:
        """Add Σ_k s_k A_k; `whole` where hardly any s_k is zero, and a GPU need not be asked."""
        xp = self.xp  # theory (D)
        used = None if whole else xp.nonzero(s)[0]
        if used is not None and used.shape[0] < DENSE_SHARE * s.shape[0]:
            rows, s = [xp.take(block, used, axis=0) for block in rows], xp.take(s, used, axis=0)
        scale = s[:, None, None] / self.n_blocks
        pairs = zip(total, rows, strict=True)
        return [S + _flat(block).T @ _flat(scale * block) for S, block in pairs]

    def _joined(self, parts: Sequence[Array]) -> Array:
        return parts[0] if len(parts) == 1 else self.xp.concat(parts)

    @cached_property
    def kept_svec_rows(self) -> Array | None:
        """svec(A_k)/M of all pairs, shape (n_pairs, Σ n_m(n_m+1)/2), or None where it is large."""
        width = sum(svec_size(n) for n in self.sizes)
        if not self.keeps_svec or width > WIDEST_SVEC or 8 * width * self.n_pairs > SVEC_BYTES:
            return None
        chunks = self.chunks(numbers_per_pair=width)
        return self.xp.concat([self.svec_rows(rows) for _, rows in chunks])

    def svec_rows(self, rows: Sequence[Array]) -> Array:
        """svec(A_{m,k})/M of a chunk, blocks side by side, shape (n_part, Σ n_m(n_m+1)/2)."""
        return self.xp.concat([svec_outer(block) for block in rows], axis=1) / self.n_blocks


def lay_out(arrays: Sequence[Array], *, centre: bool, double: bool = True) -> list[Array]:
    """Return features as `PairSums` needs them: transposed and contiguous.

    Parameters
    ----------
    arrays : sequence of M arrays of shape (n_rows, n_m, n'_m)
        Samples, or differences of samples.
    centre : bool
        Whether to subtract the mean of each block. Distances depend on differences only, and those
        of centred samples are more accurate.
    double : bool, default=True
        Whether to convert to float64 first; otherwise the dtype of the arrays is kept.

    Returns
    -------
    list of M arrays of shape (n_rows, n'_m, n_m)
    """
    if double:
        arrays = [as_double(block) for block in arrays]
    if centre:
        arrays = [centred(block) for block in arrays]
    return [contiguous(namespace(block).matrix_transpose(block)) for block in arrays]


def centred(block: Array) -> Array:
    """Return the rows of a block minus their mean."""
    return block - namespace(block).mean(block, axis=0, keepdims=True)


def chunk_bytes(array: Array) -> int:
    """How large a chunk of differences should be where the array is."""
    return GPU_CHUNK_BYTES if on_gpu(array) else CHUNK_BYTES


def eager_bytes(array: Array) -> int:
    """How large features may be to be multiplied at once where the array is."""
    return int(GPU_EAGER_SHARE * free_bytes(array)) if on_gpu(array) else EAGER_BYTES


def _apply(blocks: Sequence[Array], factors: Sequence[Array]) -> list[Array]:
    xp = namespace(blocks[0])
    pairs = zip(blocks, factors, strict=True)
    return [xp.reshape(_flat(block) @ factor, block.shape) for block, factor in pairs]


def _flat(block: Array) -> Array:
    return namespace(block).reshape(block, (-1, block.shape[2]))


def _dot(a: Array, b: Array) -> Array:
    xp, shape = namespace(a), (a.shape[0], a.shape[1] * a.shape[2])
    return xp.linalg.vecdot(xp.reshape(a, shape), xp.reshape(b, shape))
