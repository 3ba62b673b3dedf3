"""`Sums`, the interface of sums over pairs or comparisons; their features, limits and roundings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .._array import Array, free_bytes, namespace, on_gpu
from .layout import joined, multiply_rows, row_products, slices

if TYPE_CHECKING:
    from .comparison_sums import Links
    from .pair_sums import PairSums


@dataclass(frozen=True)
class Limits:
    """Memory limits of sums over pairs and of the matrices made from them."""

    chunk_bytes: int = 2**20
    """Size of a chunk of differences on a CPU: about the cache of a core."""
    gpu_chunk_bytes: int = 2**29
    """Size of a chunk of differences on a GPU: large enough to amortise kernel launches."""
    eager_bytes: int = 2**28
    """Larger features on a CPU are multiplied by a factor chunk by chunk instead of at once."""
    gpu_eager_share: float = 1 / 8
    """The limit like `eager_bytes` for a GPU, as a share of its free memory."""
    svec_bytes: int = 2**25
    """The svec(A_k) of all pairs are kept, which makes Hessians cheap, up to this size."""
    svec_width: int = 300
    """The svec(A_k) of all pairs are kept up to this length of one svec(A_k)."""
    gram_bytes: int = 2**26
    """The largest size of the differences, or their svec, that a Gram matrix is made from."""
    tile_numbers: int = 2**20
    """The largest number of entries in a tile of a Gram matrix."""
    by_samples: bool | None = None
    """Whether sums over pairs are products over samples; None: where that costs less."""

    def chunk_at(self, array: Array) -> int:
        """Return the size in bytes of a chunk of differences on the device of an array."""
        return self.gpu_chunk_bytes if on_gpu(array) else self.chunk_bytes

    def eager_at(self, array: Array) -> int:
        """Return the largest size of features to multiply at once on the device of an array."""
        return int(self.gpu_eager_share * free_bytes(array)) if on_gpu(array) else self.eager_bytes


DEFAULT_LIMITS = Limits()


class Features:
    """The samples that pairs are made of, or the differences of pairs, with limits of memory.

    Parameters
    ----------
    blocks : sequence of M arrays of shape (n_rows, n'_m, n_m)
        Transposed samples or differences.
    factors : sequence of M arrays of shape (n_m, n_m), or None
        Factors that the rows are multiplied by when they are read, if there are very many rows.
    limits : Limits
        Memory limits.
    """

    def __init__(
        self,
        blocks: Sequence[Array],
        factors: Sequence[Array] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ):
        self.blocks, self.factors, self.limits = tuple(blocks), factors, limits
        self.like, self.n_blocks = self.blocks[0], len(self.blocks)
        self.n_rows: int = self.like.shape[0]

    @property
    def xp(self) -> Any:
        """The array namespace."""
        return namespace(self.like)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return tuple(block.shape[2] for block in self.blocks)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """n'_m of each block: the number of columns of a sample."""
        return tuple(block.shape[1] for block in self.blocks)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(n_m, n'_m) of each block."""
        return tuple(zip(self.sizes, self.widths, strict=True))

    @property
    def numbers_per_row(self) -> int:
        """Σ n_m n'_m."""
        return sum(n * width for n, width in self.shapes)

    @property
    def room(self) -> int:
        """The size in bytes of a chunk of differences."""
        return self.limits.chunk_at(self.like)

    def transformed(self, factors: Sequence[Array]) -> Features:
        """Return the features GᵀΦ."""
        if self.factors is not None:
            factors = [a @ b for a, b in zip(self.factors, factors, strict=True)]
        if 8 * self.n_rows * self.numbers_per_row > self.limits.eager_at(self.like):
            return Features(self.blocks, factors, self.limits)
        return Features(multiply_rows(self.blocks, factors), None, self.limits)

    def converted(self, convert: Callable[[Array], Array]) -> Features:
        """Return the features in another precision or on another device."""
        factors = None if self.factors is None else [convert(factor) for factor in self.factors]
        return Features([convert(block) for block in self.blocks], factors, self.limits)

    def take(self, rows: Array) -> Features:
        """Return the rows with these indices."""
        some = [self.xp.take(block, rows, axis=0) for block in self.blocks]
        return Features(some, self.factors, self.limits)

    def block(self, m: int) -> Features:
        """Return block m alone, as the features of a problem of one block."""
        factors = None if self.factors is None else [self.factors[m]]
        return Features([self.blocks[m]], factors, self.limits)


class Evaluation(NamedTuple):
    """Distances of all rows and their scatter, with what bounds their rounding errors."""

    distances: Array
    """D_k, shape (n_pairs,)."""
    scatter: list[Array]
    """S_m of each block; empty if only the distances were asked for."""
    reach: Callable[[], Array] | None = None
    """Returns the magnitude of the numbers that D_k and S come from; None stands for √D_k."""
    more_terms: int = 0
    """The number of successive roundings in addition to those of sums over differences."""


class Sums(Protocol):
    """Sums over K rows, each of which is a linear function ⟨A_k, W⟩ of W.

    A row is a pair (`PairSums`), A_k = Δ Δᵀ; or a comparison of two pairs (`ComparisonSums`), A_k
    the difference of two such matrices.
    """

    @property
    def features(self) -> Features:
        """The samples or differences of the pairs, their shapes, and the limits of memory."""

    @property
    def pairs(self) -> PairSums:
        """The sums over the pairs that the rows are made of."""

    @property
    def links(self) -> Links | None:
        """The two pairs of each row; None where each row is one pair."""

    @property
    def n_pairs(self) -> int:
        """K, the number of rows."""

    def with_pairs(self, pairs: PairSums) -> Sums:
        """Return the sums over the same rows of other pairs: other features, or another device."""

    def transformed(self, factors: Sequence[Array]) -> Sums:
        """Return the sums over the same rows for the features GᵀΦ."""

    def take(self, rows: Array) -> Sums:
        """Return the sums over the rows with these indices."""

    def distances(self) -> Array:
        """Compute ⟨A_k, I⟩, shape (n_pairs,)."""

    def quadratic(self, V: Sequence[Array]) -> Array:
        """Compute ⟨A_k, V⟩ for symmetric V, shape (n_pairs,)."""

    def scatter(self, s: Array) -> list[Array]:
        """Compute S_m = (1/M) Σ_k s_k A_{m,k}, one array (n_m, n_m) per block."""

    def product(
        self, V: Sequence[Array], weights: Array, shift: Array
    ) -> tuple[Array, list[Array]]:
        """Compute q_k = w_k (⟨A_k, V⟩ + shift_k) and S(q)."""

    def evaluate(self, slope: Callable[[slice, Array], Array] | None = None) -> Evaluation:
        """Compute D, and S for the s that `slope(rows, D of the rows)` returns."""


@dataclass(frozen=True)
class RoundingBounds:
    """Bounds of the rounding errors of sums over the rows of pairs or comparisons."""

    sums: Sums

    def longest(self) -> float:
        """Bound the root of the largest sum of the distances in a row, from the samples alone."""
        features, total = self.sums.features, 0.0
        for m, block in enumerate(features.blocks):
            factor = None if features.factors is None else features.factors[m]
            scale = 1.0 if factor is None else float(features.xp.sum(factor**2))
            total += scale * float(features.xp.max(row_products(block, block)))
        samples = 1 if self.sums.pairs.graph is None else 2
        return samples * sqrt(total / features.n_blocks * (1 if self.sums.links is None else 2))

    def moved(self, factors: Sequence[Array]) -> Array:
        """Bound the norm of the rounding error of LᵀΔ_k/√M, L the factors; shape (n_pairs,).

        The features have to be samples as given or centred, or differences of such samples. For a
        comparison, it is the root of the sum of squares of both errors.
        """
        moved, links = self._moved_rows(factors), self.sums.links  # theory (Round)
        graph, xp = self.sums.pairs.graph, namespace(moved)
        if graph is not None:  # the difference of a sample with itself is exactly 0
            same = graph.first == graph.second
            moved = xp.where(same, xp.zeros_like(moved[:1]), graph.summed(moved))
        return moved if links is None else links.norms(moved)

    def _moved_rows(self, factors: Sequence[Array]) -> Array:
        """Bound the norm of the rounding error of each sample or difference."""
        features, total = self.sums.features, 0.0  # theory (Round)
        xp, u = features.xp, float(features.xp.finfo(factors[0].dtype).eps) / 2
        stored = float(xp.finfo(features.like.dtype).eps) / 2
        for block, factor in zip(features.blocks, factors, strict=True):
            relative = (factor.shape[0] + 8) * u + (stored if stored > u else 0.0)
            step = max(1, features.room // (8 * block.shape[1] * block.shape[2]))
            squares = []
            for part in slices(block.shape[0], step):
                size = xp.astype(xp.abs(block[part, ...]), factor.dtype, copy=False)
                (image,) = multiply_rows([size], [xp.abs(factor)])
                squares.append(row_products(image, image))
            total = total + relative**2 * joined(squares)
        return xp.sqrt(total / features.n_blocks)

    def n_terms(self, n_pairs: int) -> int:
        """Return the largest number of successive roundings in a sum over `n_pairs` rows.

        Comparisons have at most twice as many pairs; the weight of a pair is the sum of at most as
        many numbers as there are comparisons.
        """
        features, by_samples = self.sums.features, self.sums.pairs.form is not None
        n_rows = n_pairs * (1 if self.sums.links is None else 3)
        n_rows += features.n_rows if by_samples else 0
        return n_rows * max(features.widths) + features.numbers_per_row + features.n_blocks + 8
