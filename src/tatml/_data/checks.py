"""Checks of the values of samples, priors and starts."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from .._array import Array, foreign_kind, namespace, place_of
from .._validation import as_list
from .arrays import as_array_like
from .blocks import Blocks

LARGEST_ENTRY = 1e60  # largest entry of a sample: its fourth power is finite
LARGEST_PRIOR = {"float64": 1e150, "float32": 1e18}  # largest entry whose square is finite
LEAST_SPREAD = 1e-60  # smallest range of samples that differ: its square does not underflow
# Smallest median condition number at which positive definite samples are taken for covariances;
# logarithms of covariances that happen to be positive definite have smaller ones.
LEAST_CONDITION = 5


def check_magnitude(blocks: Blocks, name: str) -> None:
    """Raise if the fourth power of an entry might overflow."""
    xp = blocks.xp
    largest = max(float(xp.max(xp.abs(array))) for array in blocks.arrays)
    if largest > LARGEST_ENTRY:
        raise ValueError(
            f"{name}: expected entries of at most {LARGEST_ENTRY:g}, whose fourth powers are "
            f"finite, got {largest:g}; rescale {name}"
        )


def check_spread(blocks: Blocks, name: str) -> None:
    """Raise if the samples of a block differ by so little that squared differences underflow."""
    for m, array in enumerate(blocks.arrays):
        spread = float(np.max(np.ptp(array, axis=0)))
        if 0 < spread < LEAST_SPREAD:
            raise ValueError(
                f"{name}: expected samples that differ by at least {LEAST_SPREAD:g}, so that "
                f"squared differences do not underflow, got at most {spread:g} in block {m}; "
                f"rescale {name}"
            )


def hint_at_raw_covariances(blocks: Blocks) -> str | None:
    """Return a hint if a block looks like covariance matrices without their logarithm."""
    for m, (array, (n, width)) in enumerate(zip(blocks.arrays, blocks.block_shapes, strict=True)):
        if n != width or n == 1:
            continue
        some = array[:: max(1, len(array) // 100)]
        scale = np.max(np.abs(some))
        if scale == 0 or np.max(np.abs(some - np.swapaxes(some, 1, 2))) > 1e-6 * scale:
            continue
        values = np.linalg.eigvalsh(some)
        if np.min(values) > 0 and np.median(values[:, -1] / values[:, 0]) > LEAST_CONDITION:
            return (
                f"X: block {m} holds symmetric positive definite matrices, as covariances are. "
                "Their logarithm is usually what a linear metric needs: put "
                "tatml.features.LogEuclidean() before this estimator"
            )
    return None


def check_prior(
    prior: Any, blocks: Blocks, from_host: bool = False, dtype: str = "float64"
) -> list[Array]:
    """Convert to M positive definite matrices; for one block, the matrix itself is accepted.

    With `from_host`, arrays of any kind in the memory of the host are accepted. `dtype` is the
    precision of the computation, which limits the entries.
    """
    sizes = [n for n, _ in blocks.block_shapes]
    if blocks.n_blocks == 1 and _shape_of(prior) == (sizes[0], sizes[0]):
        prior = [prior]
    matrices = _as_square(prior, sizes, "prior", blocks.arrays[0], from_host)
    largest = LARGEST_PRIOR[dtype]
    for m, matrix in enumerate(matrices):
        _check_posdef(matrix, f"prior: block {m}")
        xp = namespace(matrix)
        diagonal = xp.linalg.diagonal(matrix)
        if float(xp.max(diagonal)) > largest or float(xp.min(diagonal)) < 1 / largest:
            raise ValueError(
                f"prior: block {m}: expected a diagonal from {1 / largest:g} to {largest:g} with "
                f"dtype={dtype!r}, got {float(xp.min(diagonal)):g} to {float(xp.max(diagonal)):g}"
            )
    return matrices


def check_init(init: Any, sizes: Sequence[int], like: Array) -> Any:
    """Raise unless `init` has an L and a b0 that fit the problem; return it."""
    try:
        L, b0 = init.L, 0.0 if init.b0 is None else float(init.b0)
    except Exception as error:  # Any object may be given, and its attributes may raise anything.
        raise TypeError(
            f"init: expected an earlier result, with L and b0, got {type(init).__name__}"
        ) from error
    if not isfinite(b0):
        raise ValueError(f"init: expected a finite b0, got {b0}")
    for m, factor in enumerate(_as_square(L, sizes, "init", like, from_host=True)):
        xp = namespace(factor)
        if not bool(xp.all(xp.isfinite(factor))):
            raise ValueError(f"init: block {m}: expected finite numbers, got NaN or infinity")
        if not isfinite(float(xp.linalg.slogdet(factor)[1])):
            raise ValueError(f"init: block {m}: expected an invertible L, got a singular one")
    return init


def _shape_of(values: Any) -> tuple[int, ...] | None:
    try:
        return tuple(values.shape) if hasattr(values, "shape") else np.shape(values)
    except Exception:  # ragged, on a GPU, or not an array
        return None


def _as_square(
    matrices: Any, sizes: Sequence[int], name: str, like: Array, from_host: bool
) -> list[Array]:
    """Convert to one array of shape (n_m, n_m) per block."""
    matrices = as_list(name, matrices, "a list of matrices")
    arrays = [as_array_like(matrix, name, "X", like, from_host) for matrix in matrices]
    shapes, expected = [tuple(array.shape) for array in arrays], [(n, n) for n in sizes]
    if shapes != expected:
        raise ValueError(f"{name}: expected matrices of shapes {expected}, got {shapes}")
    return arrays


def _check_posdef(matrix: Array, name: str) -> None:
    xp = namespace(matrix)
    if not xp.all(xp.isfinite(matrix)):
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    difference = float(xp.max(xp.abs(matrix - matrix.T)))
    if difference > 1e-8 * float(xp.max(xp.abs(matrix))):
        raise ValueError(
            f"{name}: expected a symmetric matrix, got entries that differ by {difference:.3g}"
        )
    diagonal = xp.linalg.diagonal(matrix)
    scale = xp.sqrt(xp.where(diagonal > 0, diagonal, 1.0))  # makes the check independent of units
    lowest = xp.min(xp.linalg.eigvalsh(matrix / scale / scale[:, None]))
    if xp.min(diagonal) <= 0 or lowest <= 1e-14:
        values = xp.linalg.eigvalsh(matrix)
        raise ValueError(
            f"{name}: expected a positive definite matrix, got eigenvalues from "
            f"{float(values[0]):.3g} to {float(values[-1]):.3g}"
        )


def check_index_kind(blocks: Blocks, **given: Any) -> None:
    """Raise unless each array is a NumPy array, a list, or of the kind of the samples."""
    like = blocks.arrays[0]
    for name, values in given.items():
        if foreign_kind(values) not in (None, foreign_kind(like)):
            raise TypeError(
                f"{name}: expected a NumPy array or one of the kind of X, {place_of(like)}, got "
                f"{place_of(values)}"
            )
