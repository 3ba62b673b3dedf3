"""Functions of many symmetric matrices at once: arrays (n_samples, n, n) in, arrays out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from .._array import symmetrised
from .._threads import SMALL, _threadpools

__all__ = ["check_symmetric", "is_symmetric", "map_eigenvalues"]

Floats = NDArray[np.floating]
CHUNK_ENTRIES = 2**18  # two megabytes of float64; smaller chunks are slower, larger ones not faster
FEW_SAMPLES = 256  # up to which one thread is enough
WORTH_THREADS = 16  # rows of a matrix; calls for smaller ones wait for each other in the BLAS


def map_eigenvalues(
    array: Floats,
    function: Callable[[Floats], Floats],
    block: int,
    *,
    takes_posdef: bool = False,
    gives_posdef: bool = False,
) -> Floats:
    """V f(λ) Vᵀ for each matrix V λ Vᵀ, in chunks, so that little memory is needed.

    `takes_posdef` refuses λ that are not positive, `gives_posdef` f(λ) that are not positive
    numbers of the data type. `block` is the number that an error names.
    """
    result = np.empty_like(array)

    def map_chunk(rows: slice) -> None:
        with np.errstate(all="ignore"):
            values, vectors = np.linalg.eigh(_symmetric_part(array[rows], block, rows.start))
            if takes_posdef and not np.all(_is_posdef(values, array.dtype)):
                raise _not_posdef(array, block)
            mapped = function(values)
            if gives_posdef:
                _check_range(mapped.astype(array.dtype), values, block, rows.start)
            half = (vectors * (0.5 * mapped)[:, None]) @ vectors.mT
            np.add(half, half.mT, out=result[rows], casting="same_kind")  # exactly symmetric

    _for_each_chunk(map_chunk, array)
    return result


def is_symmetric(array: Floats) -> NDArray[np.bool_]:
    """Which of the matrices are symmetric but for rounding; none, where they are not square."""
    n_samples, n_rows, n_columns = array.shape
    if n_rows != n_columns:
        return np.zeros(n_samples, dtype=bool)
    tolerance = np.sqrt(np.finfo(array.dtype).eps)
    with np.errstate(over="ignore"):
        parts = [
            _asymmetry(array[rows]) <= tolerance * _largest(array[rows]) for rows in _chunks(array)
        ]
    return np.concatenate(parts)


def check_symmetric(array: Floats, block: int, start: int = 0) -> None:
    """Name the first matrix that is not symmetric; `start` is the number of the first sample."""
    symmetric = is_symmetric(array)
    if not np.all(symmetric):
        sample = int(np.argmin(symmetric))
        matrix = array[sample][None]
        raise ValueError(
            f"X: expected symmetric matrices, got entries of up to {_largest(matrix)[0]:.3g} that "
            f"differ by {_asymmetry(matrix)[0]:.3g} from their mirror images in block {block}, "
            f"sample {start + sample}"
        )


def _chunks(array: Floats, n_threads: int = 1) -> list[slice]:
    """Slices of the samples: some for each thread, unless there are few samples."""
    n_samples, n, _ = array.shape
    step = min(CHUNK_ENTRIES // n**2, max(FEW_SAMPLES, -(-n_samples // n_threads)))
    return [slice(start, start + max(1, step)) for start in range(0, n_samples, max(1, step))]


def _for_each_chunk(task: Callable[[slice], None], array: Floats) -> None:
    """Run the task on all chunks, on as many threads as the BLAS may use.

    The BLAS itself gains from threads only where the matrices are large.
    """
    n_samples, n, _ = array.shape
    shared_out = WORTH_THREADS <= n <= SMALL and n_samples > FEW_SAMPLES
    n_threads = _blas_threads() if shared_out else 1
    chunks = _chunks(array, n_threads)
    with _threadpools().limit(limits=1 if n <= SMALL else None):
        if n_threads == 1:
            for rows in chunks:
                task(rows)
        else:
            with ThreadPoolExecutor(min(n_threads, len(chunks))) as executor:
                list(executor.map(task, chunks))  # a list, so that an error is raised


def _blas_threads() -> int:
    """What the user, the environment or joblib allows; the work is shared out by that."""
    libraries = _threadpools().select(user_api="blas").info()
    return max((library["num_threads"] for library in libraries), default=1)


def _symmetric_part(matrices: Floats, block: int, start: int) -> Floats:
    """The matrices in double precision, without the asymmetry that rounding may have left."""
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
    """Whether the smallest eigenvalue is above the rounding error of the largest."""
    return values[:, 0] > values.shape[1] * np.finfo(dtype).eps * values[:, -1]


def _not_posdef(array: Floats, block: int) -> ValueError:
    """The error that names the first matrix that is not positive definite, and counts them."""
    values = np.concatenate(
        [np.linalg.eigvalsh(symmetrised(array[rows].astype(float))) for rows in _chunks(array)]
    )
    bad = np.flatnonzero(~_is_posdef(values, array.dtype))
    first = bad[0] if bad.size else 0
    return ValueError(
        f"X: expected positive definite matrices, got eigenvalues from {values[first, 0]:.3g} to "
        f"{values[first, -1]:.3g} in block {block}, sample {first} ({len(bad)} such of "
        f"{len(array)}); add a small multiple of the identity to each matrix, or estimate "
        "covariances with shrinkage or from more points"
    )


def _check_range(mapped: Floats, values: Floats, block: int, start: int) -> None:
    held = np.all((mapped > 0) & np.isfinite(mapped), axis=1)
    if not np.all(held):
        row = int(np.argmin(held))
        raise ValueError(
            f"X: expected matrices whose image has eigenvalues that {mapped.dtype} holds, got "
            f"eigenvalues from {values[row, 0]:.3g} to {values[row, -1]:.3g} in block {block}, "
            f"sample {start + row}"
        )
