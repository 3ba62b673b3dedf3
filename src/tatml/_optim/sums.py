"""`Sums`: the interface of sums over pairs or comparisons, and the memory limits of such sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from .._array import Array, eye, free_bytes, on_gpu
from .._svec import svec, svec_size

if TYPE_CHECKING:
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


class Sums(Protocol):
    """Sums over K rows, each of which is a linear function ⟨A_k, W⟩ of W.

    A row is a pair (`PairSums`), A_k = Δ Δᵀ; or a comparison of two pairs (`ComparisonSums`), A_k
    the difference of two such matrices.
    """

    @property
    def xp(self) -> Any:
        """The array namespace of the features."""

    @property
    def features(self) -> tuple[Array, ...]:
        """The features of the samples or of the differences, per block."""

    @property
    def limits(self) -> Limits:
        """Memory limits."""

    @property
    def whole_is_cheap(self) -> bool:
        """Whether a sum over all rows costs less than one over most of them."""

    @property
    def pairs(self) -> PairSums:
        """The sums over the pairs that the rows are made of."""

    @property
    def links(self) -> tuple[Array, Array] | None:
        """The two pairs of each row; None where each row is one pair."""

    @property
    def n_blocks(self) -> int:
        """M, the number of blocks."""

    @property
    def n_pairs(self) -> int:
        """K, the number of rows."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""

    @property
    def widths(self) -> tuple[int, ...]:
        """n'_m of each block."""

    @property
    def numbers_per_pair(self) -> int:
        """Σ n_m n'_m, the numbers in the differences of one pair."""

    @property
    def kept_svec_rows(self) -> Array | None:
        """svec(A_k)/M of all rows; None above the limits."""

    @property
    def kept_traces(self) -> Array:
        """Σ_m tr A_{m,k}/M of all rows that are kept."""

    def transformed(self, factors: Sequence[Array]) -> Sums:
        """Return the sums over the same rows for the features GᵀΦ."""

    def take(self, pairs: Array) -> Sums:
        """Return the sums over the rows with these indices."""

    def held(self) -> Sums:
        """Return sums that hold all differences where a GPU has room for them."""

    def in_single(self) -> Sums:
        """Return the sums over the same rows with float32 features."""

    def for_certificate(self) -> Sums:
        """Return the sums over the same rows in float64, over differences."""

    def placed(self, like: Array, features: Sequence[Array] | None = None) -> Sums:
        """Copy the sums to the device of `like`; `features` are theirs if they are there."""

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

    def distances_and_scatter(
        self, slope: Callable[[slice, Array], Array]
    ) -> tuple[Array, list[Array]]:
        """Compute D, and S for the s that `slope(rows, D of the rows)` returns."""

    def svec_chunks(self, numbers_per_pair: int) -> Iterator[tuple[slice, Array]]:
        """Yield (rows, svec(A_k)/M of these rows), for work on so many numbers per row."""

    def combined(self, gram: Array) -> Array:
        """Return the Gram matrix of the rows, given that of `pairs`."""

    def longest_difference(self) -> float:
        """Bound the square root of the largest sum of the distances in a row."""

    def rounding(self, factors: Sequence[Array]) -> Array:
        """Bound the norm of the rounding error of the differences of each row."""

    def reach(self, distances: Array) -> Array | None:
        """Return the magnitude of the numbers that each ⟨A_k, I⟩ is computed from."""

    def n_terms(self, n_pairs: int) -> int:
        """Return the largest number of successive roundings in a sum over `n_pairs` rows."""


class KeptRows:
    """The svec(A_k) of all rows of `Sums`, which are kept where they fit into memory."""

    @cached_property
    def kept_svec_rows(self: Any) -> Array | None:
        """svec(A_k)/M of all rows, shape (n_pairs, Σ n_m(n_m+1)/2); None above the limits."""
        width = sum(svec_size(n) for n in self.sizes)
        size = 8 * width * self.n_pairs
        if width > self.limits.svec_width or size > self.limits.svec_bytes:
            return None
        return self.xp.concat([rows for _, rows in self.svec_chunks(width)])

    @cached_property
    def kept_traces(self: Any) -> Array:
        """Σ_m tr A_{m,k}/M of all rows that are kept, shape (n_pairs,)."""
        units = [svec(eye(n, like=self.features[0])) for n in self.sizes]
        return self.kept_svec_rows @ self.xp.concat(units)
