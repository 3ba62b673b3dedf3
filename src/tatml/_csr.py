"""Products with sparse matrices in CSR format, for the arrays of any supported package."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import scipy.sparse

from ._array import Array, foreign_kind, on_gpu, placed, to_numpy, zeros


def sparse_product(starts: Array, columns: Array, values: Array, dense: Array) -> Array:
    """Multiply a sparse matrix in CSR format by a dense one.

    Row r of the sparse matrix has the values [starts[r], starts[r + 1]), in these columns.
    """
    kind, shape = foreign_kind(values), (starts.shape[0] - 1, dense.shape[0])
    if kind == "torch":
        with _quiet_sparse():
            return _torch_csr(starts, columns, values, shape) @ dense
    if kind == "cupy":
        csr_matrix = import_module("cupyx.scipy.sparse").csr_matrix
        return csr_matrix((values, columns, starts), shape=shape) @ dense
    given = to_numpy(values), to_numpy(columns), to_numpy(starts)
    return placed(scipy.sparse.csr_array(given, shape=shape) @ to_numpy(dense), values)


def products_at(starts: Array, columns: Array, A: Array, B: Array) -> Array | None:
    """Compute the inner products of rows of A with rows of B at the entries of a CSR matrix.

    None where no library computes them without copies of all rows.
    """
    if foreign_kind(A) != "torch" or not on_gpu(A):
        return None
    values = zeros((columns.shape[0],), like=A)
    with _quiet_sparse():
        pattern = _torch_csr(starts, columns, values, (A.shape[0], B.shape[0]))
        product = import_module("torch").sparse.sampled_addmm(pattern, A, B.T, beta=0.0)
        return product.values()


def _torch_csr(starts: Array, columns: Array, values: Array, shape: tuple[int, int]) -> Array:
    """Return a sparse matrix of PyTorch."""
    create = import_module("torch").sparse_csr_tensor
    return create(starts, columns, values, shape, check_invariants=False)


@contextmanager
def _quiet_sparse() -> Iterator[None]:
    """Silence PyTorch's warnings that its sparse matrices are new and not checked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse ")
        yield
