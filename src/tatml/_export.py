"""Write what a service needs to score pairs to one file of plain arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._data.atomic_files import write_arrays
from ._estimators.fitted_state import ATTRIBUTES
from ._estimators.inputs import check_has
from ._estimators.seen_samples import CENTER, center_of
from ._estimators.span import too_large
from .features._kernel_map import KernelMap

# docs/deployment.md describes the formats.
EXPORT_FORMAT = "tatml metric 1"
KERNEL_FORMAT = "tatml kernel metric 1"
SCALARS = (
    "threshold_",
    "same_rate_",
    "likelihood_ratio_",
)  # those that the estimator has are written


def export(model: Any, path: str | os.PathLike) -> Path:
    """Write the components, the threshold and the calibration of a metric to an npz file.

    The file also contains the mean of the training samples, which a scorer subtracts first, and
    nothing else: no labels, no pairs, no parameters. With a kernel, it contains the kernel and its
    landmarks, which are training samples. The matrix of a block with more rows than samples reveals
    their span, which tells training samples from others; SECURITY.md says more. Reading the file
    needs only NumPy: ``numpy.load(path, allow_pickle=False)``. docs/deployment.md describes the
    format and has a short scorer. An existing file is replaced in one step.

    Parameters
    ----------
    model : fitted estimator or Model
        An estimator with `components_`, or what `load_model` returns.
    path : str or path
        The file, usually ``*.npz``. A link to a file stands for that file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    TypeError
        If the estimator has no components, as `PairThreshold`.
    ValueError
        If the estimator is not fitted, or has a block with more than 1,000 rows and fewer samples,
        whose matrix is not formed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from tatml import TATML
    >>> from tatml.io import export
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = TATML(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with np.load(export(metric, Path(folder, "iris.npz"))) as file:
    ...         arrays = dict(file)
    >>> sorted(arrays)
    ['block_shapes', 'center_0', 'components_0', 'format', 'threshold']
    >>> distance = np.linalg.norm(arrays["components_0"] @ (X[0] - X[100]))
    >>> bool(np.isclose(distance, metric.pair_distance([[0, 100]], X)[0], rtol=1e-12))
    True
    """
    estimator = model.estimator if hasattr(model, "metadata") else model  # of a Model
    if hasattr(estimator, "factors_"):
        n_rows = max(factor.shape[1] for factor in estimator.factors_)
        raise ValueError(too_large("model", n_rows))
    check_has(estimator, "components_", "block_shapes_")
    state = vars(estimator)
    for name in ("components_", "block_shapes_", "kernel_map_", CENTER, *SCALARS):
        if name in state:
            ATTRIBUTES[name](name, state[name])
    path = Path(path)
    write_arrays(path, _arrays_of(estimator), overwrite=True)
    return path


def _arrays_of(estimator: Any) -> dict[str, NDArray]:
    arrays = {
        "format": np.array(EXPORT_FORMAT),
        "block_shapes": np.array(estimator.block_shapes_, dtype=np.int64),
    }
    if estimator.kernel_map_ is not None:
        arrays |= _arrays_of_kernel(estimator.kernel_map_)
    else:
        for m, mean in enumerate(center_of(estimator)):
            arrays[f"center_{m}"] = np.ascontiguousarray(mean, dtype=np.float64)
    for m, component in enumerate(estimator._component_list()):
        arrays[f"components_{m}"] = np.ascontiguousarray(component, dtype=np.float64)
    for name in SCALARS:
        if hasattr(estimator, name):
            value = np.asarray(getattr(estimator, name), dtype=np.float64)
            arrays[name.removesuffix("_")] = value
    return arrays


def _arrays_of_kernel(kernel_map: KernelMap) -> dict[str, NDArray]:
    """Return the kernel, its parameters, and the arrays of the map of each block."""
    kept = kernel_map.keep_features and kernel_map.kernel != "precomputed"
    arrays = {
        "format": np.array(KERNEL_FORMAT),
        "kernel": np.array(kernel_map.kernel),
        "gamma": np.asarray(kernel_map.gamma_, dtype=np.float64),
        "degree": np.array(kernel_map.degree, dtype=np.int64),
        "coef0": np.array(kernel_map.coef0, dtype=np.float64),
        "keep_features": np.array(bool(kept)),
    }
    for m, block_map in enumerate(kernel_map.maps_):
        for name in ("landmarks", "center", "scale", "means", "projection"):
            arrays[f"{name}_{m}"] = np.ascontiguousarray(getattr(block_map, name))
    return arrays
