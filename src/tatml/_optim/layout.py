"""Features as sums over pairs need them: transposed, (n_rows, n', n), and products with them.

The choices between equal computations follow from counts of multiplications, in which a read of a
number counts as `READ` of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .._array import Array, as_double, contiguous, namespace, reshaped

# Multiplications that take as long as to read a number of a sample or of a difference, on a CPU.
READ = 70.0


def lay_out(arrays: Sequence[Array], *, centre: bool, double: bool = True) -> list[Array]:
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
    """Count the multiplications of a product with the Hessian of so many pairs, and its reads.

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
