"""Samples that are arrays of another package, such as PyTorch tensors on a GPU.

A fit checks them on the host. It computes priors and thresholds, and solves its problems, on the
device of the samples. `transform` and `pair_distance` compute there and return an array there.
This module is part of the edge of the estimators: it inspects types.
"""

from __future__ import annotations

from typing import Any

from sklearn import get_config

from .._array import Array, foreign_kind, namespace, on_gpu
from .._data.blocks import Blocks


def place_of_samples(*values: Any) -> Array | None:
    """Return an array of float64 on the device of samples, if results belong there; else None.

    The first of the values that is an array of another package counts. Without scikit-learn's
    array API dispatch, tensors on the host are read like NumPy arrays.
    """
    for value in values:
        array = value.arrays[0] if isinstance(value, Blocks) else value
        if foreign_kind(array) is not None:
            if not on_gpu(array) and not get_config()["array_api_dispatch"]:
                return None
            xp = namespace(array)
            return xp.zeros((1,), dtype=xp.float64, device=array.device)
    return None
