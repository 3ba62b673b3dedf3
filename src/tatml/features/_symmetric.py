"""Functions of batches of symmetric matrices: arrays (n_samples, n, n) in, arrays out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._array import Floats, symmetrised
from .._threads import SMALL_MATRIX, _threadpools


@dataclass(frozen=True)
class Chunking:
    """Sizes of chunks, and when chunks are distributed over threads.

    Attributes
    ----------
    entries : int
        Largest number of entries per chunk. The default is two megabytes of float64: smaller
        chunks are slower, larger ones not faster.
    few_samples : int
        Up to this number of samples, one thread is used.
    threaded_rows : int
        From this number of rows per matrix on, several threads are used. Threads with smaller
        matrices wait for each other in the BLAS.
    """

    entries: int = 2**18
    few_samples: int = 256
    threaded_rows: int = 16


DEFAULT_CHUNKING = Chunking()


def map_eigenvalues(
    array: Floats,
    function: Callable[[Floats], Floats],
    block: int,
    *,
    takes_posdef: bool = False,
    gives_posdef: bool = False,
    chunking: Chunking = DEFAULT_CHUNKING,
) -> Floats:
    """Return V f(λ) Vᵀ for each matrix V λ Vᵀ, computed in chunks to save memory.

    With `takes_posdef`, eigenvalues λ that are not positive are refused; with `gives_posdef`,
    values f(λ) that are not positive finite numbers of the data type. Errors name the `block`.
    """
    result = np.empty_like(array)

    def map_chunk(rows: slice) -> None:
        with np.errstate(all="ignore"):
            values, vectors = np.linalg.eigh(_symmetric_part(array[rows], block, rows.start))
            if takes_posdef and not np.all(_is_posdef(values, array.dtype)):
                raise _not_posdef(array, block, chunking)
            mapped = function(values)
            if gives_posdef:
                _check_representable(mapped.astype(array.dtype), values, block, rows.start)
            half = (vectors * (0.5 * mapped)[:, None]) @ vectors.mT
            np.add(half, half.mT, out=result[rows], casting="same_kind")  # exactly symmetric

    for_each_chunk(map_chunk, array, chunking)
    return result


def check_posdef(array: Floats, block: int, chunking: Chunking = DEFAULT_CHUNKING) -> None:
    """Raise an error that names the first matrix that is not symmetric or positive definite."""

    def check_chunk(rows: slice) -> None:
        values = np.linalg.eigvalsh(_symmetric_part(array[rows], block, rows.start))
        if not np.all(_is_posdef(values, array.dtype)):
            raise _not_posdef(array, block, chunking)

    for_each_chunk(check_chunk, array, chunking)


def is_symmetric(array: Floats) -> NDArray[np.bool_]:
    """Return which matrices are symmetric up to rounding; none if they are not square."""
    n_samples, n_rows, n_columns = array.shape
    if n_rows != n_columns:
        return np.zeros(n_samples, dtype=bool)
    tolerance = np.sqrt(np.finfo(array.dtype).eps)
    with np.errstate(over="ignore"):
        parts = [
            _asymmetry(array[rows]) <= tolerance * _largest(array[rows])
            for rows in _split_samples(array)
        ]
    return np.concatenate(parts)


def check_symmetric(array: Floats, block: int, start: int = 0) -> None:
    """Raise an error that names the first matrix that is not symmetric.

    `start` is the index of the first sample.
    """
    symmetric = is_symmetric(array)
    if not np.all(symmetric):
        sample = int(np.argmin(symmetric))
        matrix = array[sample][None]
        raise ValueError(
            f"X: expected symmetric matrices, got entries of up to {_largest(matrix)[0]:.3g} that "
            f"differ by {_asymmetry(matrix)[0]:.3g} from their mirror images in block {block}, "
            f"sample {start + sample}"
        )


def check_square(shape: tuple[int, int], block: int) -> None:
    """Raise an error that names the block if its matrices are not square."""
    if shape[0] != shape[1]:
        raise ValueError(
            "X: expected square matrices, an array of shape (n_samples, n, n) or Blocks of such, "
            f"got {shape[0]}×{shape[1]} in block {block}; a 2-D array is read as vectors, for a "
            "single matrix write X[None]"
        )


def _split_samples(
    array: Floats, n_threads: int = 1, chunking: Chunking = DEFAULT_CHUNKING
) -> list[slice]:
    """Return slices of the samples: several per thread, unless there are few samples."""
    n_samples, n, _ = array.shape
    step = min(chunking.entries // n**2, max(chunking.few_samples, -(-n_samples // n_threads)))
    return [slice(start, start + max(1, step)) for start in range(0, n_samples, max(1, step))]


def for_each_chunk(
    task: Callable[[slice], None], array: Floats, chunking: Chunking = DEFAULT_CHUNKING
) -> None:
    """Run the task on all chunks, with as many threads as the BLAS may use.

    The BLAS itself benefits from threads only if the matrices are large.
    """
    n_samples, n, _ = array.shape
    in_threads = chunking.threaded_rows <= n <= SMALL_MATRIX and n_samples > chunking.few_samples
    n_threads = _blas_threads() if in_threads else 1
    chunks = _split_samples(array, n_threads, chunking)
    with _threadpools().limit(limits=1 if n <= SMALL_MATRIX else None):
        if n_threads == 1:
            for rows in chunks:
                task(rows)
        else:
            with ThreadPoolExecutor(min(n_threads, len(chunks))) as executor:
                list(executor.map(task, chunks))  # the list raises the errors of the tasks


def _blas_threads() -> int:
    """Return the number of threads that the user, the environment or joblib allows the BLAS."""
    libraries = _threadpools().select(user_api="blas").info()
    return max((library["num_threads"] for library in libraries), default=1)


def _symmetric_part(matrices: Floats, block: int, start: int) -> Floats:
    """Return the matrices in double precision, with asymmetry from rounding averaged away."""
    double = matrices.astype(np.float64, copy=False)
    if np.array_equal(double, double.mT):
        return double
    check_symmetric(matrices, block, start)
    return symmetrised(double)


def _asymmetry(array: Floats) -> Floats:
    return np.max(np.abs(array - array.mT), axis=(1, 2))


def _largest(array: Floats) -> Floats:
    return np.max(np.abs(array), axis=(1, 2))


def _is_posdef(values: Floats, dtype: np.dtype) -> NDArray[np.bool_]:
    """Return whether the smallest eigenvalue exceeds the rounding error of the largest."""
    return values[:, 0] > values.shape[1] * np.finfo(dtype).eps * values[:, -1]


def _not_posdef(array: Floats, block: int, chunking: Chunking) -> ValueError:
    """Return the error that names the first matrix that is not positive definite."""
    values = np.concatenate(
        [
            np.linalg.eigvalsh(symmetrised(array[rows].astype(float)))
            for rows in _split_samples(array, chunking=chunking)
        ]
    )
    bad = np.flatnonzero(~_is_posdef(values, array.dtype))
    first = bad[0] if bad.size else 0
    return ValueError(
        f"X: expected positive definite matrices, got eigenvalues from {values[first, 0]:.3g} to "
        f"{values[first, -1]:.3g} in block {block}, sample {first} ({len(bad)} of "
        f"{len(array)} samples); add a small multiple of the identity to each matrix, or estimate "
        "covariances with shrinkage or from more points"
    )


def _check_representable(mapped: Floats, values: Floats, block: int, start: int) -> None:
    held = np.all((mapped > 0) & np.isfinite(mapped), axis=1)
    if not np.all(held):
        row = int(np.argmin(held))
        raise ValueError(
            f"X: expected a result whose eigenvalues {mapped.dtype} can represent, got "
            f"eigenvalues from {values[row, 0]:.3g} to {values[row, -1]:.3g} in block {block}, "
            f"sample {start + row}"
        )
