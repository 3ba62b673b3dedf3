"""Sums over pairs of samples, computed chunk by chunk. No other module reads features.

With Δ_{m,k} the difference of the two samples of pair k in block m, a solver needs

    D_k = (1/M) Σ_m ‖Δ_{m,k}‖_F²,   ⟨A_k, V⟩ = (1/M) Σ_m ⟨Δ Δᵀ, V_m⟩,   S_m = (1/M) Σ_k s_k Δ Δᵀ

for features that were multiplied by a factor G (`transformed`): (GᵀΔ)(GᵀΔ)ᵀ = Gᵀ A G. The factor is
applied to the samples, not to the pairs, so its cost does not grow with the number of pairs.
Features are stored transposed, (n_rows, n', n), so that every product is one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import sqrt
from typing import Any

from .._array import (
    Array,
    as_double,
    asarray,
    contiguous,
    namespace,
    on_gpu,
    placed,
    reshaped,
    symmetrised,
    zeros,
)
from .._svec import svec_outer, svec_size
from .sums import DEFAULT_LIMITS, Limits

__all__ = ["Limits", "PairSums", "centred", "lay_out"]

DENSE_SHARE = 0.7  # if a smaller share of the s_k is nonzero, a scatter selects these pairs first
SMALLEST_CHUNK = 16  # least number of pairs in a chunk, even if they exceed its size in bytes


class PairSums:
    """Sums over pairs whose differences are formed when they are needed, in bounded memory.

    Parameters
    ----------
    features : sequence of M arrays of shape (n_rows, n'_m, n_m)
        Transposed samples; or differences of pairs, when `first` is None.
    first, second : integer arrays of shape (n_pairs,), or None
        Rows of the two samples of each pair.
    factors : sequence of M arrays of shape (n_m, n_m), or None
        Factors to apply to every chunk.
    limits : Limits
        Memory limits.
    """

    whole_is_cheap = False  # whether a sum over all pairs costs less than one over most of them
    limits = DEFAULT_LIMITS
    links = None  # each row is one pair

    def __init__(
        self,
        features: Sequence[Array],
        first: Array | None = None,
        second: Array | None = None,
        factors: Sequence[Array] | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ):
        self.features = tuple(features)
        self._rows = None if first is None or second is None else (first, second)
        self.factors = factors
        self.limits = limits

    def _like_this(
        self,
        features: Sequence[Array],
        rows: tuple[Array | None, Array | None] = (None, None),
        factors: Sequence[Array] | None = None,
    ) -> PairSums:
        """Return sums of other features with the same limits."""
        return PairSums(features, *rows, factors, limits=self.limits)

    @property
    def first(self) -> Array | None:
        """The row of the first sample of each pair; None where `features` are differences."""
        return None if self._rows is None else self._rows[0]

    @property
    def second(self) -> Array | None:
        """The row of the second sample of each pair; None where `features` are differences."""
        return None if self._rows is None else self._rows[1]

    @classmethod
    def from_samples(cls, features: Sequence[Array], first: Array, second: Array) -> PairSums:
        """Store the samples, or the differences if there are no more pairs than samples."""
        sums = cls(features, first, second)
        if sums.n_pairs <= features[0].shape[0]:
            return cls(sums.rows(slice(0, sums.n_pairs)))
        return sums

    @property
    def xp(self) -> Any:
        """The array namespace of the features."""
        return namespace(self.features[0])

    @property
    def pairs(self) -> PairSums:
        """These sums: each row is one pair."""
        return self

    @property
    def n_blocks(self) -> int:
        """M, the number of blocks."""
        return len(self.features)

    @property
    def n_pairs(self) -> int:
        """K, the number of pairs."""
        return self.features[0].shape[0] if self.first is None else self.first.shape[0]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return tuple(block.shape[2] for block in self.features)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """n'_m of each block: the number of columns of a sample."""
        return tuple(block.shape[1] for block in self.features)

    @cached_property
    def numbers_per_pair(self) -> int:
        """Σ n_m n'_m, the numbers in the differences of one pair."""
        return sum(n * width for n, width in zip(self.sizes, self.widths, strict=True))

    def transformed(self, factors: Sequence[Array]) -> PairSums:
        """Return the sums over the same pairs for the features GᵀΦ."""
        if self.factors is not None:
            factors = [a @ b for a, b in zip(self.factors, factors, strict=True)]
        size = 8 * self.features[0].shape[0] * self.numbers_per_pair
        rows = self.first, self.second
        if size > self.limits.eager_at(self.features[0]):
            return self._like_this(self.features, rows, factors)
        return self._like_this(_multiply_rows(self.features, factors), rows)

    def take(self, pairs: Array) -> PairSums:
        """Return the sums over the pairs with these indices."""
        take = self.xp.take
        if self.first is None:
            some = [take(block, pairs, axis=0) for block in self.features]
            return self._like_this(some, factors=self.factors)
        rows = take(self.first, pairs, axis=0), take(self.second, pairs, axis=0)
        return self._like_this(self.features, rows, self.factors)

    def block(self, m: int) -> PairSums:
        """Return the sums over the same pairs of block m alone, as a problem of one block."""
        factors = None if self.factors is None else [self.factors[m]]
        return self._like_this([self.features[m]], (self.first, self.second), factors)

    def rows(self, part: slice) -> list[Array]:
        """Compute the differences of the pairs in `part`: per block, shape (n_part, n'_m, n_m)."""
        if self.first is None or self.second is None:
            rows = [block[part, ...] for block in self.features]
        else:
            take, i, j = self.xp.take, self.first[part], self.second[part]
            rows = [take(block, i, axis=0) - take(block, j, axis=0) for block in self.features]
        return rows if self.factors is None else _multiply_rows(rows, self.factors)

    def longest_difference(self) -> float:
        """Compute a bound of ‖Δ_k‖_F/√M over all pairs from the samples alone."""
        xp, total = self.xp, 0.0
        for m, block in enumerate(self.features):
            scale = 1.0 if self.factors is None else float(xp.sum(self.factors[m] ** 2))
            total += scale * float(xp.max(_dot(block, block)))
        return (1 if self.first is None else 2) * sqrt(total / self.n_blocks)

    def rounding(self, factors: Sequence[Array]) -> Array:
        """Bound the norm of the rounding error of LᵀΔ_k/√M, L the factors; shape (n_pairs,).

        The features have to be samples as given or centred, or differences of such samples.
        """
        xp, u = self.xp, float(self.xp.finfo(factors[0].dtype).eps) / 2  # theory (Round)
        stored = float(xp.finfo(self.features[0].dtype).eps) / 2
        total = 0.0
        for block, factor in zip(self.features, factors, strict=True):
            relative = (factor.shape[0] + 8) * u + (stored if stored > u else 0.0)
            room = self.limits.chunk_at(block)
            step = max(1, room // (8 * block.shape[1] * block.shape[2]))
            squares = []
            for start in range(0, block.shape[0], step):
                stop = min(start + step, block.shape[0])
                size = xp.abs(block[start:stop, ...])
                size = xp.astype(size, factor.dtype, copy=False)
                (image,) = _multiply_rows([size], [xp.abs(factor)])
                squares.append(_dot(image, image))
            total = total + relative**2 * self._joined(squares)
        moved = xp.sqrt(total / self.n_blocks)
        if self.first is None:
            return moved
        both = xp.take(moved, self.first, axis=0) + xp.take(moved, self.second, axis=0)
        # The difference of a sample with itself is exactly 0.
        return xp.where(self.first == self.second, xp.zeros_like(both), both)

    def reach(self, distances: Array) -> Array | None:
        """Return the magnitude of the numbers that each distance is computed from.

        None means √D_k, since a sum of squares does not cancel.
        """
        return None

    def n_terms(self, n_pairs: int) -> int:
        """Return the largest number of successive roundings in a sum over `n_pairs` pairs."""
        return n_pairs * max(self.widths) + self.numbers_per_pair + self.n_blocks + 8

    def in_double(self) -> PairSums:
        """Return the sums over the same pairs with float64 features."""
        double = [as_double(block) for block in self.features]
        factors = None if self.factors is None else [as_double(factor) for factor in self.factors]
        return self._like_this(double, (self.first, self.second), factors)

    def chunks(self, numbers_per_pair: int = 0) -> Iterator[tuple[slice, list[Array]]]:
        """Yield (pairs, differences), with chunks that suit work on so many numbers per pair."""
        room = self.limits.chunk_at(self.features[0])
        per_pair = 8 * max(self.numbers_per_pair, numbers_per_pair // 4)
        step = max(SMALLEST_CHUNK, room // per_pair)
        for start in range(0, self.n_pairs, step):
            part = slice(start, min(start + step, self.n_pairs))
            yield part, self.rows(part)

    def distances(self) -> Array:
        """Compute D_k, shape (n_pairs,)."""
        return self._joined([self._squares(rows) for _, rows in self.chunks()])

    def quadratic(self, V: Sequence[Array]) -> Array:
        """Compute ⟨A_k, V⟩ for symmetric V, shape (n_pairs,)."""
        return self._joined(
            [self._inner(rows, _multiply_rows(rows, V)) for _, rows in self.chunks()]
        )

    def scatter(self, s: Array) -> list[Array]:
        """Compute S_m = (1/M) Σ_k s_k A_{m,k}, one array (n_m, n_m) per block."""
        total = self._zeros()
        for part, rows in self.chunks():
            total = self._add_scatter(total, rows, s[part])
        return [symmetrised(S) for S in total]

    def product(
        self, V: Sequence[Array], weights: Array, shift: Array
    ) -> tuple[Array, list[Array]]:
        """Compute q_k = w_k (⟨A_k, V⟩ + shift_k) and S(q) in one pass."""
        parts, total = [], self._zeros()
        for part, rows in self.chunks():
            inner = self._inner(rows, _multiply_rows(rows, V))
            parts.append(weights[part] * (inner + shift[part]))
            total = self._add_scatter(total, rows, parts[-1], whole=True)
        return self._joined(parts), [symmetrised(S) for S in total]

    def held(self) -> PairSums:
        """Return sums that hold all differences where a GPU has room for them, else these sums.

        On a GPU, forming the differences again for each product takes as long as the product.
        """
        array = self.features[0]
        formed = self.first is None and self.factors is None
        size = 8 * self.n_pairs * self.numbers_per_pair
        if formed or not on_gpu(array) or size > self.limits.eager_at(array):
            return self
        chunks = [rows for _, rows in self.chunks()]
        blocks = [self._joined(list(parts)) for parts in zip(*chunks, strict=True)]
        return self._like_this(blocks)

    def distances_and_scatter(
        self, slope: Callable[[slice, Array], Array]
    ) -> tuple[Array, list[Array]]:
        """Compute D, and S for s = slope(pairs, D of these pairs), in one pass."""
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
        """Add Σ_k s_k A_k; `whole` skips the search for s_k = 0, which a GPU would wait for."""
        xp = self.xp  # theory (D)
        used = None if whole else xp.nonzero(s)[0]
        if used is not None and used.shape[0] < DENSE_SHARE * s.shape[0]:
            rows, s = [xp.take(block, used, axis=0) for block in rows], xp.take(s, used, axis=0)
        scale = s[:, None, None] / self.n_blocks
        blocks = zip(total, rows, strict=True)
        return [S + _flat(block).T @ _flat(scale * block) for S, block in blocks]

    def _joined(self, parts: Sequence[Array]) -> Array:
        return parts[0] if len(parts) == 1 else self.xp.concat(parts)

    @cached_property
    def kept_svec_rows(self) -> Array | None:
        """svec(A_k)/M of all pairs, shape (n_pairs, Σ n_m(n_m+1)/2); None above the limits."""
        width = sum(svec_size(n) for n in self.sizes)
        size = 8 * width * self.n_pairs
        if width > self.limits.svec_width or size > self.limits.svec_bytes:
            return None
        return self.xp.concat([rows for _, rows in self.svec_chunks(width)])

    def svec_chunks(self, numbers_per_pair: int) -> Iterator[tuple[slice, Array]]:
        """Yield (pairs, svec(A_k)/M of these pairs), for work on so many numbers per pair."""
        for part, rows in self.chunks(numbers_per_pair):
            yield part, self.svec_rows(rows)

    def combined(self, gram: Array) -> Array:
        """Return the Gram matrix as it is: each row is one pair."""
        return gram

    def placed(self, like: Array, features: Sequence[Array] | None = None) -> PairSums:
        """Copy the sums to the device of `like`; `features` are theirs if they are there."""
        if features is None:
            features = [placed(block, like) for block in self.features]
        rows = [None if rows is None else asarray(rows, like) for rows in (self.first, self.second)]
        return PairSums(features, *rows, limits=self.limits)

    def svec_rows(self, rows: Sequence[Array]) -> Array:
        """Compute svec(A_{m,k})/M of a chunk, shape (n_part, Σ n_m(n_m+1)/2)."""
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


def _multiply_rows(blocks: Sequence[Array], factors: Sequence[Array]) -> list[Array]:
    """Multiply the rows of every sample by the factor of its block."""
    return [
        reshaped(_flat(block) @ factor, block.shape)
        for block, factor in zip(blocks, factors, strict=True)
    ]


def _flat(block: Array) -> Array:
    """Stack the rows of all samples, shape (n_rows n', n)."""
    return reshaped(block, (-1, block.shape[2]))


def _dot(a: Array, b: Array) -> Array:
    """Compute the inner product of each sample of `a` with that of `b`."""
    shape = (a.shape[0], a.shape[1] * a.shape[2])
    return namespace(a).linalg.vecdot(reshaped(a, shape), reshaped(b, shape))
