"""The array namespace, and the little linear algebra that the array API standard leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.linalg import LinAlgError

__all__ = ["Array", "LinAlgError", "contiguous", "factor_posdef", "namespace", "symmetrised"]

Array = Any  # an array of any namespace: NumPy now, PyTorch and CuPy by the same calls


def namespace(array: Array) -> Any:
    """The module whose functions work on this kind of array."""
    return array.__array_namespace__()


def contiguous(array: Array) -> Array:
    """The same array laid out in C order, where the namespace knows of order."""
    return np.ascontiguousarray(array) if namespace(array) is np else array


def symmetrised(matrix: Array) -> Array:
    """(V + Vᵀ)/2, which takes away what rounding has added."""
    return (matrix + matrix.T) / 2


def factor_posdef(matrix: Array):
    """Factorise a positive definite matrix once; return the function that solves with it."""
    xp = namespace(matrix)
    if xp is np:  # half the work of the inverse, and more accurate
        factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
        return lambda b: scipy.linalg.cho_solve(factor, b, check_finite=False)
    inverse = xp.linalg.inv(matrix)
    return lambda b: inverse @ b
