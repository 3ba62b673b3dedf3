"""Array namespaces, devices, and the operations that the array API standard leaves out.

NumPy arrays, PyTorch tensors, CuPy arrays and arrays of array-api-strict are neither converted nor
moved to another device. PyTorch and CuPy are used through the package array-api-compat.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse import csr_array

from ._messages import missing_extra

Array = Any  # an array of any of the supported namespaces
Floats = NDArray[np.floating]  # a NumPy array in single or double precision
Doubles = NDArray[np.float64]
Indices = NDArray[np.intp]

# Where array-api-compat is looked for: the package itself, then scikit-learn's copy of it.
COMPAT = ("array_api_compat", "sklearn.externals.array_api_compat")
# Packages whose arrays are kept as they are; any other input is converted to NumPy.
FOREIGN = ("torch", "cupy", "array_api_strict")
SHORT = 4096  # most numbers of a BLAS dot product; NumPy's sum is more accurate for more
KEPT_EYE = 128  # most rows of an identity matrix that is kept
ROUNDING = 1e-13  # relative difference of numbers that are equal up to rounding


def namespace(array: Array) -> Any:
    """Return the module whose functions work on this kind of array."""
    kind = type(array)
    if kind is np.ndarray or issubclass(kind, np.generic):  # scalars of NumPy 2.0 name none
        return np
    return _compatible(_package(kind)) or array.__array_namespace__()


def _package(kind: type) -> str:
    """Return the name of the top-level package that defines a type."""
    return kind.__module__.partition(".")[0]


@cache
def _compatible(package: str) -> Any:
    """Return the standard namespace of PyTorch or CuPy; None for any other package."""
    if package not in ("torch", "cupy"):
        return None
    for module in COMPAT:
        try:
            return import_module(f"{module}.{package}")
        except ImportError:
            continue
    raise missing_extra(f"{package} arrays need the package array-api-compat", package)


def foreign_kind(values: Any) -> str | None:
    """Return which package of `FOREIGN` an array belongs to; None for any other value."""
    package = _package(type(values))
    return package if package in FOREIGN and hasattr(values, "dtype") else None


def place_of(array: Array) -> str:
    """Describe the kind and the device of an array, for messages."""
    kind, device = _package(type(array)), getattr(array, "device", "cpu")
    return kind if str(device) == "cpu" else f"{kind} on {device}"


def on_gpu(array: Array) -> bool:
    """Return whether an array is in the memory of a GPU."""
    kind = type(array)
    if kind is np.ndarray:
        return False
    return _package(kind) == "cupy" or getattr(array.device, "type", "cpu") == "cuda"


def free_bytes(array: Array) -> int:
    """Return the free memory of the GPU that holds an array."""
    if _package(type(array)) == "cupy":
        return int(import_module("cupy").cuda.runtime.memGetInfo()[0])
    cuda = import_module("torch").cuda
    held = cuda.memory_reserved(array.device) - cuda.memory_allocated(array.device)
    return cuda.mem_get_info(array.device)[0] + held


def asarray(values: Any, like: Array, dtype: Any = None) -> Array:
    """Convert values to the namespace and device of `like`; they keep their dtype by default."""
    xp = namespace(like)
    if xp is np:
        return np.asarray(to_numpy(values), dtype=dtype)
    if type(values) is np.ndarray and not values.flags.writeable:  # or PyTorch warns
        values = values.copy()
    return xp.asarray(values, dtype=dtype, device=like.device)


def as_double(array: Array) -> Array:
    """Convert an array to float64, without a copy where it is float64 already."""
    xp = namespace(array)
    return xp.astype(array, xp.float64, copy=False)


def as_single(array: Array) -> Array:
    """Convert an array to float32."""
    xp = namespace(array)
    return xp.astype(array, xp.float32, copy=False)


@contextmanager
def fast_single(array: Array) -> Iterator[None]:
    """Return a context in which float32 products of PyTorch may use TF32 on a GPU."""
    if _package(type(array)) != "torch" or not on_gpu(array):
        yield
        return
    torch = import_module("torch")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def eye(n: int, like: Array) -> Array:
    """Return the n × n identity matrix in the namespace, dtype and device of `like`.

    Small ones of NumPy are kept, and read-only.
    """
    if type(like) is np.ndarray and n <= KEPT_EYE:
        return _kept_eye(n, like.dtype)
    return namespace(like).eye(n, dtype=like.dtype, device=like.device)


@lru_cache(maxsize=64)
def _kept_eye(n: int, dtype: Any) -> NDArray:
    matrix = np.eye(n, dtype=dtype)
    matrix.setflags(write=False)
    return matrix


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Return zeros in the namespace, dtype and device of `like`."""
    return namespace(like).zeros(shape, dtype=like.dtype, device=like.device)


# Numbers from small arrays. NumPy's functions look at their arguments for longer than they compute,
# so its ufuncs and methods are called directly.


def total(values: Array) -> float:
    """Return the sum of all entries of an array."""
    if type(values) is np.ndarray:
        return float(np.add.reduce(values, axis=None))
    return float(namespace(values).sum(values))


def inner(a: Array, b: Array) -> float:
    """Return the sum of the products of the entries of two arrays of the same shape."""
    if type(a) is np.ndarray and a.size <= SHORT and a.dtype == np.float64:
        return float(np.vdot(a, b))
    return total(a * b)


def smallest(values: Array) -> float:
    """Return the smallest entry of an array; NaN if one is NaN."""
    if type(values) is np.ndarray:
        return float(np.minimum.reduce(values, axis=None))
    return float(namespace(values).min(values))


def reshaped(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array in another shape."""
    if type(array) is np.ndarray:
        return array.reshape(shape)
    return namespace(array).reshape(array, shape)


def stacked(blocks: Sequence[Array]) -> list[Array]:
    """Return matrices of one shape as one stack (M, n, n), so that functions are called once.

    A single matrix, and matrices of several shapes, are returned as they are.
    """
    shape = blocks[0].shape
    if len(blocks) == 1 or any(block.shape != shape for block in blocks):
        return list(blocks)
    if type(blocks[0]) is np.ndarray:
        return [np.asarray(blocks)]
    return [namespace(blocks[0]).stack(blocks)]


def unstacked(stacks: Sequence[Array]) -> list[Array]:
    """Return the matrices of `stacked`, one by one."""
    if len(stacks) == 1 and len(stacks[0].shape) == 3:
        return [stacks[0][m, ...] for m in range(stacks[0].shape[0])]
    return list(stacks)


def placed(values: Array, like: Array) -> Array:
    """Convert values to the namespace, device and dtype of `like`."""
    return asarray(values, like, like.dtype)


def draw_indices(rng: Any, n: int, size: int, like: Array) -> Array:
    """Draw `size` distinct indices from 0 … n − 1, on the device of `like`."""
    if not hasattr(rng, "integers"):  # RandomState.choice permutes all n indices
        rng = np.random.default_rng(rng.randint(2**31))
    return asarray(rng.choice(n, size, replace=False, shuffle=False), like)


def compacted(indices: Array, size: int) -> tuple[Array, Array]:
    """Return the distinct indices, ascending, and the place of each index among them.

    The indices are below `size`.
    """
    if type(indices) is not np.ndarray:
        return namespace(indices).unique_inverse(indices)
    used = np.zeros(size, dtype=bool)  # faster than sorting
    used[indices] = True
    return np.flatnonzero(used), (np.cumsum(used) - 1)[indices]


def sum_at(indices: Array, values: Array, size: int) -> Array:
    """Return the sum of the values at each index from 0 to size − 1, shape (size,)."""
    kind = _package(type(values))
    if kind == "torch":
        return zeros((size,), like=values).index_add_(0, indices, values)
    if kind == "cupy":
        return import_module("cupy").bincount(indices, weights=values, minlength=size)
    total = np.bincount(to_numpy(indices), weights=to_numpy(values), minlength=size)
    return placed(total, values)


def put_at(places: Array, values: Array) -> Array:
    """Return the values in another order: value k at places[k], where all places differ."""
    if _package(type(values)) == "array_api_strict":  # the standard has no such assignment
        return namespace(values).take(values, namespace(places).argsort(places), axis=0)
    ordered = namespace(values).empty_like(values)
    ordered[places] = values
    return ordered


def to_numpy(values: Any) -> np.ndarray:
    """Convert values to a NumPy array in the memory of the host."""
    kind = foreign_kind(values)
    if kind == "torch":
        return values.detach().cpu().numpy()
    if kind == "array_api_strict":
        values = values.to_device(namespace(values).Device("CPU_DEVICE"))
    return values.get() if kind == "cupy" else np.asarray(values)


def agree(low: Doubles, high: Doubles) -> NDArray[np.bool_]:
    """Return where two NumPy arrays are equal up to the rounding errors of a computed number."""
    return high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high))


def contiguous(array: Array) -> Array:
    """Return an array in C order, where its namespace distinguishes orders."""
    if type(array) is np.ndarray:
        return np.ascontiguousarray(array)
    kind = _package(type(array))
    if kind == "torch":
        return array.detach().contiguous()
    return namespace(array).ascontiguousarray(array) if kind == "cupy" else array


def symmetrised(matrix: Array) -> Array:
    """Return (V + Vᵀ)/2, which removes asymmetry that is due to rounding."""
    half = matrix / 2  # halved first: the sum of two large numbers may overflow
    return half + (half.mT if type(half) is np.ndarray else namespace(half).matrix_transpose(half))


def lower_triangular(factor: Array) -> Array:
    """Return the lower triangular L with a positive diagonal and L Lᵀ = factor factorᵀ."""
    xp = namespace(factor)
    upper = np.linalg.qr(factor.T, mode="r") if xp is np else xp.linalg.qr(factor.T)[1]
    diagonal = xp.linalg.diagonal(upper)
    one = xp.ones_like(diagonal)
    return (xp.where(diagonal < 0, -one, one)[:, None] * upper).T


def inverse_factor(P: Array) -> Array:
    """Return the upper triangular L with L Lᵀ = P⁻¹."""
    xp = namespace(P)
    return xp.linalg.inv(xp.linalg.cholesky(P)).T


# LAPACK's functions themselves: those of SciPy around them take longer than small systems.
POTRF_POTRS = {"d": (lapack.dpotrf, lapack.dpotrs), "f": (lapack.spotrf, lapack.spotrs)}


def factor_posdef(matrix: Array) -> Callable[[Array], Array]:
    """Factorise a positive definite matrix; return a function that solves for a vector."""
    kind, xp = _package(type(matrix)), namespace(matrix)
    if xp is np:  # cheaper than the inverse, and more accurate
        factorise, solve = POTRF_POTRS[matrix.dtype.char]
        factor, failed_at = factorise(matrix, lower=True, clean=False)
        if failed_at:
            raise LinAlgError(f"the leading minor {failed_at} is not positive definite")
        return lambda b: solve(factor, b, lower=True)[0]
    if kind == "array_api_strict":  # the standard has no triangular solve
        inverse = xp.linalg.inv(matrix)
        return lambda b: inverse @ b
    L = xp.linalg.cholesky(matrix)
    if kind == "torch":
        return lambda b: xp.cholesky_solve(b[:, None], L)[:, 0]
    triangular = import_module("cupyx.scipy.linalg").solve_triangular
    return lambda b: triangular(L, triangular(L, b, lower=True), lower=True, trans="T")


def linalg_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a failed factorisation raises, for an except clause."""
    torch = sys.modules.get("torch")
    return (LinAlgError,) if torch is None else (LinAlgError, torch.linalg.LinAlgError)


def raising_linalg(array: Array) -> AbstractContextManager:
    """Return a context in which failed factorisations raise; by default CuPy returns NaN."""
    if _package(type(array)) != "cupy":
        return nullcontext()
    return import_module("cupyx").errstate(linalg="raise")


# Products with sparse matrices in CSR format


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
    return placed(csr_array(given, shape=shape) @ to_numpy(dense), values)


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
