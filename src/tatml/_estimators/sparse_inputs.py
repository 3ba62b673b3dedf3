"""Read sparse tables, which estimators accept where they learn in the span of the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from .._data.blocks import Blocks
from .._data.sparse import SparseBlock


def accepts_sparse(estimator: BaseEstimator, X: Any, reset: bool) -> bool:
    """Return whether X is sparse, and the metric is, or will be, learnt in the span of samples."""
    if not scipy.sparse.issparse(X) or len(X.shape) != 2:
        return False
    parameters = estimator.get_params(deep=False)
    if "solver" not in parameters or parameters.get("kernel") is not None:
        return False
    if reset:
        return bool(X.shape[0] < X.shape[1])
    return hasattr(estimator, "factors_") or hasattr(estimator, "_fitted_to_sparse")


def read_sparse_table(estimator: BaseEstimator, X: Any, reset: bool, min_samples: int) -> Blocks:
    """Return a sparse table of one sample per row, read and checked by scikit-learn."""
    table = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=np.float64,
        ensure_min_samples=min_samples,
    )
    return Blocks(SparseBlock(table))


def read_sparse_samples(table: Any) -> Blocks:
    """Return a sparse preprocessor; raise an error if an entry is not a finite real number."""
    entries = scipy.sparse.coo_array(table).data
    if entries.dtype.kind not in "biuf" or not np.isfinite(entries).all():
        raise ValueError(
            "preprocessor: expected finite real numbers, got a sparse array with others"
        )
    return Blocks(SparseBlock(table))


def dense_extremes(blocks: Blocks) -> Blocks:
    """Return the smallest and the largest entry of each column of sparse blocks."""
    arrays: tuple[Any, ...] = blocks.arrays
    ends = [array.extremes() for array in arrays if isinstance(array, SparseBlock)]
    return Blocks(*ends) if ends else blocks
