"""Features as sums over pairs need them: transposed, (n_rows, n', n), and products with them.

`Features` holds them with the limits of memory, and `Evaluation` what a pass over them finds. The
choices between equal computations follow from counts of multiplications, in which a read of a
number counts as `READ` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._array import Array, as_double, contiguous, free_bytes, namespace, on_gpu, reshaped

# Multiplications that take as long as to read a number of a sample or of a difference, on a CPU.
READ = 70.0


def lay_out(
    arrays: Sequence[Array],
    *,
    centre: bool,
    double: bool = True,
    midpoint: Sequence[Array] | None = None,
) -> list[Array]:
    """Return features transposed and contiguous, so that every product is one matrix product.

    Parameters
    ----------
    arrays : sequence of M arrays of shape (n_rows, n_m, n'_m)
        Samples, or differences of samples.
    centre : bool
        Whether to subtract the mean of each block. Distances depend on differences only, and those
        of centred samples are more accurate.
    double : bool, default=True
        Whether to convert to float64 first; otherwise the dtype of the arrays is kept.
    midpoint : sequence of M arrays of shape (n_m, n'_m), or None
        What is subtracted from samples before they are added. With it, the samples minus it follow,
        as features of blocks of sums.

    Returns
    -------
    list of M arrays of shape (n_rows, n'_m, n_m), or 2M
    """
    if double:
        arrays = [as_double(block) for block in arrays]
    shifted = [] if midpoint is None else [a - b for a, b in zip(arrays, midpoint, strict=True)]
    if centre:
        arrays = [centred(block) for block in arrays]
    blocks = (*arrays, *shifted)
    return [contiguous(namespace(block).matrix_transpose(block)) for block in blocks]


def signs_of(n_blocks: int, midpoint: Sequence[Array] | None) -> tuple[int, ...]:
    """Return the signs of the features that `lay_out` returns for so many blocks."""
    return (1,) * n_blocks if midpoint is None else (1,) * n_blocks + (-1,) * n_blocks


def centred(block: Array) -> Array:
    """Return the rows of a block minus their mean."""
    return block - namespace(block).mean(block, axis=0, keepdims=True)


def multiply_rows(blocks: Sequence[Array], factors: Sequence[Array]) -> list[Array]:
    """Multiply the rows of every sample by the factor of its block."""
    return [
        reshaped(flat(block) @ factor, block.shape)
        for block, factor in zip(blocks, factors, strict=True)
    ]


def flat(block: Array) -> Array:
    """Stack the rows of all samples, shape (n_rows n', n)."""
    return reshaped(block, (-1, block.shape[2]))


def row_products(a: Array, b: Array) -> Array:
    """Compute the inner product of each sample of `a` with that of `b`."""
    shape = (a.shape[0], a.shape[1] * a.shape[2])
    return namespace(a).linalg.vecdot(reshaped(a, shape), reshaped(b, shape))


def slices(n: int, step: int) -> Iterator[slice]:
    """Yield slices of `step` entries that cover 0 … n − 1; the last one may be shorter."""
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def joined(parts: Sequence[Array]) -> Array:
    """Join arrays along the first axis, without a copy of a single one."""
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)


def product_operations(shapes: Iterable[tuple[int, int]], n_pairs: int, n_rows: int) -> float:
    """Count the operations of one Hessian product: multiplications and reads.

    It has two products of n × n matrices with the n n' numbers of each row; rows are pairs or, in
    sums over samples, samples. It reads the numbers of each pair. `shapes` has (n, n') of each
    block.
    """
    return sum(width * n * (2 * n * n_rows + READ * n_pairs) for n, width in shapes)


def saved_by_samples(shapes: Iterable[tuple[int, int]], n_pairs: int, n_samples: int) -> float:
    """Count the multiplications that a product saves as a sum over samples, less its extra reads.

    The sum reads the samples besides the pairs.
    """
    rest = n_pairs - n_samples
    return sum(width * n * (2 * n * rest - READ * n_samples) for n, width in shapes)


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
    signs : sequence of M numbers 1 or −1, or None
        1 for a block of differences, A_k = ΔΔᵀ, −1 for a block of sums, A_k = −ΣΣᵀ (docs/theory.md,
        (Mid)). Default: differences only.
    """

    def __init__(
        self,
        blocks: Sequence[Array],
        factors: Sequence[Array] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        signs: Sequence[int] | None = None,
    ):
        self.blocks, self.factors, self.limits = tuple(blocks), factors, limits
        self.signs = (1,) * len(self.blocks) if signs is None else tuple(signs)
        self.has_sums = -1 in self.signs
        # M: a block of sums belongs to a block of differences.
        self.like, self.n_blocks = self.blocks[0], max(1, self.signs.count(1))
        self.n_rows: int = self.like.shape[0]
        # n_m and n'_m of each block, (n_m, n'_m), Σ n_m n'_m, and the bytes of a chunk
        self.sizes: tuple[int, ...] = tuple(block.shape[2] for block in self.blocks)
        self.widths: tuple[int, ...] = tuple(block.shape[1] for block in self.blocks)
        self.shapes = tuple(zip(self.sizes, self.widths, strict=True))
        self.numbers_per_row = sum(n * width for n, width in self.shapes)
        self.room = limits.gpu_chunk_bytes if on_gpu(self.like) else limits.chunk_bytes

    @property
    def xp(self) -> Any:
        """The array namespace."""
        return namespace(self.like)

    def fit_at_once(self, n_rows: int) -> bool:
        """Return whether there is room for a product of so many rows, held as a whole."""
        eager = self.limits.eager_bytes
        if on_gpu(self.like):
            eager = int(self.limits.gpu_eager_share * free_bytes(self.like))
        return 8 * n_rows * self.numbers_per_row <= eager

    def transformed(self, factors: Sequence[Array]) -> Features:
        """Return the features GᵀΦ."""
        if self.factors is not None:
            factors = [a @ b for a, b in zip(self.factors, factors, strict=True)]
        if not self.fit_at_once(self.n_rows):
            return self._of(self.blocks, factors)
        return self._of(multiply_rows(self.blocks, factors), None)

    def converted(self, convert: Callable[[Array], Array]) -> Features:
        """Return the features in another precision or on another device."""
        factors = None if self.factors is None else [convert(factor) for factor in self.factors]
        return self._of([convert(block) for block in self.blocks], factors)

    def take(self, rows: Array) -> Features:
        """Return the rows with these indices."""
        some = [self.xp.take(block, rows, axis=0) for block in self.blocks]
        return self._of(some, self.factors)

    def _of(self, blocks: Sequence[Array], factors: Sequence[Array] | None) -> Features:
        """Return other numbers of the same blocks."""
        return Features(blocks, factors, self.limits, self.signs)

    def block(self, m: int) -> Features:
        """Return block m alone, as the features of a problem of one block."""
        factors = None if self.factors is None else [self.factors[m]]
        return Features([self.blocks[m]], factors, self.limits, [self.signs[m]])

    def combined(self, products: Sequence[Array]) -> Array:
        """Compute (1/M) Σ_m σ_m p_m of one array of products per block."""
        signed = (p if sign > 0 else -p for p, sign in zip(products, self.signs, strict=True))
        return sum(signed) / self.n_blocks


class Evaluation(NamedTuple):
    """Distances of all rows and their scatter, with what bounds their rounding errors."""

    distances: Array
    """D_k, shape (n_pairs,)."""
    s: Array
    """The weights of the scatter, shape (n_pairs,); None if only the distances were asked for."""
    scatter: list[Array]
    """S_m of each block; empty if only the distances were asked for."""
    reach: Callable[[], Array] | None = None
    """Returns the magnitude of the numbers that D_k and S come from; None stands for √D_k."""
    more_terms: int = 0
    """The number of successive roundings in addition to those of sums over differences."""
