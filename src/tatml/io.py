"""Save a fitted estimator, load it again without running code, or export its arrays.

A model is a skops file: an archive of arrays and plain settings. Loading creates only the types
that a model needs, and checks everything that the file holds. SECURITY.md says what this means.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
import sklearn.model_selection
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from . import __version__, _estimators
from ._data.atomic_files import write_arrays, written_atomically
from ._data.blocks import Blocks
from ._estimators.fitted_state import (
    ATTRIBUTES,
    HELD,
    IN_FILES,
    check_fitted_state,
    revealed_samples,
)
from ._estimators.inputs import check_has
from ._estimators.metric import CENTER, center_of
from ._estimators.tatml_cv import columns_of
from ._learning.span import MOST_ROWS, SpanFactor, too_large
from ._messages import missing_extra, shown
from ._optim.solvers import Dykstra, Newton
from ._validation import check_count
from ._warnings import warn_user
from .features._kernel_map import KernelMap

__all__ = ["Model", "export", "load_model", "save_model"]

# Metrics and judges of pairs; votes of neighbours are not saved here.
ESTIMATORS: dict[str, Any] = {
    name: getattr(_estimators, name)
    for name in _estimators.__all__
    if hasattr(getattr(_estimators, name), "predict_pairs")
}
EXTENSION = ".skops"
FORMAT = "tatml model 1"
# docs/deployment.md describes the formats.
EXPORT_FORMAT = "tatml metric 1"
KERNEL_FORMAT = "tatml kernel metric 1"
SCORE_FORMAT = "tatml score 1"  # of midpoints
KERNEL_SCORE_FORMAT = "tatml kernel score 1"
THRESHOLD_FORMAT = "tatml threshold 1"  # of PairThreshold
# Written if the estimator has them.
MATRICES = ("components_", "factors_", "sum_factors_", "midpoint_", "cell_bounds_", CENTER)
SCALARS = ("threshold_", "same_rate_", "likelihood_ratio_", "likelihood_table_")

# The default limit of the unpacked size of a model: three matrices of 9,000 × 9,000 numbers.
MAX_BYTES = 2 * 2**30
# The limit of the description in a skops file; that of a usual model has 50,000 bytes.
MAX_SCHEMA_BYTES = 2**24
# Attributes that are not saved: the samples, the classifier of posteriors and the pairs.
LEFT_OUT = ("preprocessor", "classifier", "pairs_", "similar_", "pair_weights_", "comparisons_")

SPLITTERS = [
    getattr(sklearn.model_selection, name)
    for name in sklearn.model_selection.__all__
    if name.endswith(("Fold", "Split", "Out"))
]
# The types of objects that a model may hold.
TRUSTED = frozenset(
    f"{kind.__module__}.{kind.__qualname__}"
    for kind in (*ESTIMATORS.values(), Blocks, *HELD, Newton, Dykstra, *SPLITTERS)
)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
ARRAY_TYPES = (np.ndarray, np.bool_, *INTEGERS, np.float16, np.float32, np.float64, np.str_)
# The types that each kind of node in a skops file may create.
NODE_TYPES: dict[str, frozenset[str]] = {
    "DictNode": frozenset({"builtins.dict"}),
    "ListNode": frozenset({"builtins.list"}),
    "TupleNode": frozenset({"builtins.tuple"}),
    "JsonNode": frozenset({"builtins.str"}),
    "TypeNode": frozenset({"builtins.str", "builtins.int", "builtins.float", "builtins.bool"}),
    "MaskedArrayNode": frozenset({"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"}),
    "NdArrayNode": frozenset(f"numpy.{kind.__name__}" for kind in ARRAY_TYPES),
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "RandomGeneratorNode": frozenset({"numpy.random._generator.Generator"}),
    "ObjectNode": TRUSTED,
}


@dataclass(frozen=True, repr=False)
class Model:
    """A fitted estimator and the metadata that were saved with it.

    Parameters
    ----------
    estimator : fitted estimator
        Any estimator of `tatml`.
    metadata : dict
        Words, numbers and lists. `save_model` adds ``version``, the version of this package;
        ``holds``, the fitted attributes in the file; ``left_out``, what was not saved; and
        ``reveals``, what the file holds of the training samples.

    Examples
    --------
    >>> from tatml import Euclidean
    >>> from tatml.io import Model
    >>> Model(Euclidean().fit([[0.0], [1.0], [3.0]], [0, 0, 1]), {"version": "1.0"})
    Model(Euclidean, n_features=1, threshold=1.7, version='1.0')
    """

    estimator: Any
    metadata: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        parts = [type(self.estimator).__name__]
        for name, text in (("n_features_in_", "n_features={}"), ("threshold_", "threshold={:.3g}")):
            if hasattr(self.estimator, name):
                parts.append(text.format(getattr(self.estimator, name)))
        for name in ("version", "holds", "left_out", "reveals"):
            if name in self.metadata:
                parts.append(f"{name}={shown(self.metadata[name])}")
        return f"Model({', '.join(parts)})"


def save_model(estimator: Any, path: str | os.PathLike, metadata: dict | None = None) -> Path:
    """Save a fitted estimator, without the training data that it does not need.

    The file holds the parameters and what was learnt: matrices, the threshold, the mean of the
    samples, the history of the solver. It does not hold labels or pairs: `preprocessor`,
    `classifier`, `pairs_`, `similar_`, `pair_weights_`, `comparisons_` and the multipliers in
    `result_` are None in the loaded model. It holds samples, or reveals them, in these cases:

    - With a kernel, the landmarks are training samples: by default all of them, up to 300.
    - A block with more rows than its samples span reveals their span, which tells training samples
      from others: above 1,000 rows the file holds a basis of it, or the samples themselves if they
      are sparse; otherwise it can be computed from the matrices.

    ``metadata["reveals"]`` says what the file of this model reveals, and SECURITY.md what that
    means. The estimator itself does not change. An existing file is replaced in one step.

    Parameters
    ----------
    estimator : fitted estimator
        Any estimator of `tatml`.
    path : str or path
        The file, usually ``*.skops``. A link to a file stands for that file.
    metadata : dict, optional
        What to save with the estimator: words, numbers and lists. ``version``, ``holds``,
        ``left_out`` and ``reveals`` are added, see `Model`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    TypeError, ValueError
        If the estimator is not fitted, or holds a value that `load_model` would refuse, such as a
        function as `metric`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from tatml import TATML
    >>> from tatml.io import load_model, save_model
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = TATML(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(metric, Path(folder, "iris.skops"), {"data": "iris"})
    ...     model = load_model(path)
    >>> model.estimator.threshold_ == metric.threshold_, model.metadata["data"]
    (True, 'iris')
    >>> model.metadata["left_out"]
    ['pairs_', 'similar_', 'pair_weights_', 'result_.active', 'result_.multipliers']
    >>> model.metadata["reveals"]
    ['the mean of the training samples']
    """
    path = Path(path)
    write_model(estimator, path, metadata)
    return path


def write_model(
    estimator: Any, path: Path, metadata: dict | None = None, overwrite: bool = True
) -> Model:
    """Save a fitted estimator like `save_model`, and return the saved model."""
    skops = _import_skops()
    if type(estimator) not in ESTIMATORS.values():
        hint = ""
        if hasattr(estimator, "enrol"):
            hint = ", which holds samples: save its estimator and enrol again, or use pickle"
        raise TypeError(
            f"estimator: expected one of {', '.join(ESTIMATORS)}, got "
            f"{type(estimator).__name__}{hint}"
        )
    check_is_fitted(estimator)
    if metadata is not None and type(metadata) is not dict:
        raise TypeError(f"metadata: expected a dict, got {shown(metadata)}")
    saved, left_out = _without_data(estimator)
    check_fitted_state(saved)
    facts = {"version": __version__, "holds": _fitted_names(saved), "left_out": left_out}
    facts["reveals"] = revealed_samples(saved)
    model = Model(saved, {**(metadata or {}), **facts})
    check_metadata(model.metadata, model.estimator)
    content = {"format": FORMAT, "metadata": model.metadata, "estimator": saved}
    packed = BytesIO()
    skops.dump(content, packed, compression=zipfile.ZIP_DEFLATED)
    problem = _content_problem(packed, max_bytes=sys.maxsize)
    if problem is not None:
        raise ValueError(
            f"estimator: expected one that can be loaded again, got one that {problem}"
        )
    with written_atomically(path, overwrite) as file:
        file.write(packed.getbuffer())
    return model


def _without_data(estimator: Any) -> tuple[Any, list[str]]:
    """Return a copy of an estimator without its training data, and the names of what is missing."""
    saved = copy.copy(estimator)
    state = vars(saved)
    state.pop("_metadata_request", None)  # of scikit-learn's routing
    left_out = [name for name in LEFT_OUT if state.get(name) is not None]
    state.update(dict.fromkeys(left_out))
    for name in (*type(saved)._get_param_names(), "best_params_", "cv_results_"):
        if name in state:
            state[name] = without_fits(state[name])
    if "cv_results_" in state:
        results = state["cv_results_"]
        results |= columns_of(results["params"])
    result = state.get("result_")
    if result is not None and result.active is not None:
        state["result_"] = replace(result, active=None, multipliers=None)
        left_out += ["result_.active", "result_.multipliers"]
    return saved, left_out


def without_fits(value: Any) -> Any:
    """Return a setting with copies of its kernels and estimators, which may hold other samples."""
    if type(value) is KernelMap:
        return clone(value)
    if type(value) in ESTIMATORS.values():
        return clone(value).set_params(preprocessor=None)
    if type(value) in (list, tuple):
        return type(value)(without_fits(part) for part in value)
    if type(value) is dict:
        return {name: without_fits(part) for name, part in value.items()}
    return value


def _fitted_names(estimator: Any) -> list[str]:
    return [
        name
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_") and value is not None
    ]


def load_model(path: str | os.PathLike, *, max_bytes: int = MAX_BYTES) -> Model:
    """Load a model saved by `save_model`, or an estimator saved by ``skops.io.dump``.

    A file that names other types than those of a model is refused before anything is created, and
    so is a file that is too large; then all parameters and fitted attributes are checked. A warning
    is given if another version of this package has saved the file.

    Parameters
    ----------
    path : str or path
        The file.
    max_bytes : int, default=2 GiB
        The limit of the size of the model in memory, after decompression.

    Returns
    -------
    Model
        The fitted estimator and what was saved with it.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If the file is not a model, is damaged, or is too large.

    Examples
    --------
    >>> from tatml.io import load_model
    >>> load_model("nowhere.skops")  # `save_model` has an example that succeeds
    Traceback (most recent call last):
        ...
    FileNotFoundError: nowhere.skops: expected a saved model, got no such file
    """
    max_bytes = check_count("max_bytes", max_bytes)
    content = _read_content(Path(path), max_bytes)
    if type(content) in ESTIMATORS.values():
        content = {"format": FORMAT, "metadata": {}, "estimator": content}
    if type(content) is not dict or content.get("format") != FORMAT:
        found = type(content).__name__
        if type(content) is dict and "format" in content:
            found = f"the format {shown(content['format'])}; a newer tatml may be needed"
        raise ValueError(f"{path}: expected a model saved by tatml ({FORMAT!r}), got {found}")
    metadata, kind = content.get("metadata"), type(content.get("estimator"))
    if type(metadata) is not dict or kind not in ESTIMATORS.values():
        raise ValueError(f"{path}: expected an estimator of tatml, got {kind.__name__}")
    model = Model(content["estimator"], metadata)
    try:
        check_fitted_state(model.estimator)
        check_metadata(model.metadata, model.estimator)
    except Exception as error:  # checks meet values of any kind
        raise ValueError(
            f"{path}: expected a model saved by tatml, got one with a wrong value: "
            f"{type(model.estimator).__name__}: {error}"
        ) from error
    if metadata.get("version", __version__) != __version__:
        warn_user(
            f"{path}: saved by tatml {metadata['version']}, and this is tatml {__version__}: "
            "its results may differ; fit the model again to be sure"
        )
    return model


# Checks of a file


def _read_content(path: Path, max_bytes: int) -> Any:
    """Read a skops file if it is not too large and creates only types that a model needs."""
    if path.is_dir():
        raise IsADirectoryError(f"{path}: expected a saved model, got a folder")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a saved model, got no such file")
    skops, expected = _import_skops(), f"{path}: expected a model saved by tatml"
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(
                f"{expected}, got another kind of file (pickles are not read: they can run code)"
            )
        try:
            problem = _content_problem(file, max_bytes)
            if problem is None:
                file.seek(0)
                return skops.load(file, trusted=sorted(TRUSTED))
        except Exception as error:  # damaged archives raise many kinds of errors
            raise ValueError(
                f"{expected}, got a file that skops cannot read ({type(error).__name__}: {error})"
            ) from error
    raise ValueError(f"{expected}, got one that {problem}")


def _content_problem(file: BinaryIO, max_bytes: int) -> str | None:
    """Return why a file must not be loaded; None if it may."""
    with zipfile.ZipFile(file) as archive:
        # zipfile never unpacks more of a file than the directory says.
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        packed = sum(entry.file_size for entry in archive.infolist())
        if sizes["schema.json"] > MAX_SCHEMA_BYTES:
            return f"has a description of {sizes['schema.json']} bytes"
        parts: list[dict[str, Any]] = []  # every object of the description
        json.loads(archive.read("schema.json"), object_hook=parts.append)
        nodes = [part for part in parts if "__loader__" in part]
    # An array can be named several times, and is then read several times.
    total = max(packed, sum(sizes.get(node["file"], 0) for node in nodes if "file" in node))
    if total > max_bytes:
        return f"unpacks to {total} bytes; the limit is max_bytes={max_bytes}"
    for node in nodes:
        name = f"{node.get('__module__')}.{node.get('__class__')}"
        if name not in NODE_TYPES.get(node["__loader__"], ()):
            return f"needs {name} ({node['__loader__']})"
    return None


def _import_skops() -> ModuleType:
    try:
        import skops.io
    except ImportError as error:
        raise missing_extra("saving and loading models needs skops", "skops") from error
    return skops.io


# The most levels of lists and dicts in the metadata.
MAX_DEPTH = 20


def check_metadata(metadata: dict[str, Any], estimator: Any) -> None:
    """Raise an error if the metadata are not plain, or do not fit the estimator."""
    for name, value in metadata.items():
        if type(name) is not str or not is_plain(value):
            raise TypeError(
                f"metadata: expected words, numbers and lists under words, got {shown(name)}: "
                f"{shown(value)}"
            )
    for name in ("version", "target", "groups"):
        value = metadata.get(name)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"metadata: {name}: expected a word, got {shown(value)}")
    names = metadata.get("feature_names")
    if names is None:
        return
    if type(names) is not list or not all(isinstance(name, str) for name in names):
        raise TypeError(f"metadata: feature_names: expected a list of words, got {shown(names)}")
    expected = getattr(estimator, "n_features_in_", len(names))
    if len(names) != expected:
        raise ValueError(
            f"metadata: feature_names: expected {expected} names, one per feature, got {len(names)}"
        )


def is_plain(value: Any, depth: int = 0) -> bool:
    if depth > MAX_DEPTH:  # a list may hold itself
        return False
    if type(value) in (list, tuple):
        return all(is_plain(member, depth + 1) for member in value)
    if type(value) is dict:
        names_are_words = all(isinstance(name, str) for name in value)
        return names_are_words and all(is_plain(part, depth + 1) for part in value.values())
    return value is None or isinstance(value, Real | str)


def export(model: Any, path: str | os.PathLike) -> Path:
    """Write the components, the threshold and the calibration of a metric to an npz file.

    The file also contains the mean of the training samples, which a scorer subtracts first, and
    nothing else: no labels, no pairs, no parameters. With ``midpoint=True`` it contains the maps of
    the sums as well, and the mean of the class means, which is subtracted first. If wild cells are
    replaced, it contains their bounds and medians (see `TATML`). With a kernel, it
    contains the kernel and its landmarks, which are training samples. The matrix of a block with
    more rows than samples reveals their span, which tells training samples from others; SECURITY.md
    says more. Of a `PairThreshold` the file contains the name of its distance or score, whether a
    greater value is the same, the threshold and the calibration. Reading the file needs only NumPy:
    ``numpy.load(path, allow_pickle=False)``. docs/deployment.md describes the formats and has short
    scorers. An existing file is replaced in one step.

    Parameters
    ----------
    model : fitted estimator or Model
        An estimator with `components_` or a midpoint, a `PairThreshold`, or what `load_model`
        returns.
    path : str or path
        The file, usually ``*.npz``. A link to a file stands for that file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    TypeError
        If the estimator has no components, or a `PairThreshold` has a function as `metric`.
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
        wide = [factor for factor in estimator.factors_ if isinstance(factor, SpanFactor)]
        n_rows = max((factor.shape[1] for factor in wide), default=0)
        if n_rows > MOST_ROWS:
            raise ValueError(too_large("model", n_rows))
    elif hasattr(estimator, "greater_is_same"):
        check_has(estimator, "threshold_")
        IN_FILES["metric"]("metric", estimator.metric)
    else:
        check_has(estimator, "components_", "block_shapes_")
    state = vars(estimator)
    for name in (*MATRICES, "block_shapes_", "kernel_map_", *SCALARS):
        if name in state:
            ATTRIBUTES[name](name, state[name])
    path = Path(path)
    is_judge = hasattr(estimator, "greater_is_same")
    arrays = _arrays_of_judge(estimator) if is_judge else _arrays_of(estimator)
    write_arrays(path, arrays | _scalars_of(estimator), overwrite=True)
    return path


def _arrays_of_judge(estimator: Any) -> dict[str, NDArray]:
    """Return what PairThreshold compares with its threshold: minus the value if it is a score."""
    return {
        "format": np.array(THRESHOLD_FORMAT),
        "metric": np.array(estimator.metric),
        "greater_is_same": np.array(estimator._is_score),
    }


def _scalars_of(estimator: Any) -> dict[str, NDArray]:
    """Return the threshold, and the calibration of probabilities."""
    return {
        name.removesuffix("_"): np.asarray(getattr(estimator, name), dtype=np.float64)
        for name in SCALARS
        if hasattr(estimator, name)
    }


def _arrays_of(estimator: Any) -> dict[str, NDArray]:
    arrays = {
        "format": np.array(EXPORT_FORMAT),
        "block_shapes": np.array(estimator.block_shapes_, dtype=np.int64),
    }
    listed: dict[str, Sequence[Any]] = {"components": estimator._component_list()}
    if estimator.kernel_map_ is not None:
        arrays |= _arrays_of_kernel(estimator.kernel_map_)
    elif not hasattr(estimator, "sum_factors_"):
        listed["center"] = center_of(estimator)
    if hasattr(estimator, "sum_factors_"):
        is_kernel = estimator.kernel_map_ is not None
        arrays["format"] = np.array(KERNEL_SCORE_FORMAT if is_kernel else SCORE_FORMAT)
        listed |= {"sum_components": estimator.sum_factors_, "midpoint": estimator.midpoint_}
    if hasattr(estimator, "cell_bounds_"):  # a scorer must know them
        arrays["format"] = np.array(str(arrays["format"]).replace("1", "2"))
        listed["cell_bounds"] = estimator.cell_bounds_
    for name, matrices in listed.items():
        for m, matrix in enumerate(matrices):
            whole = matrix.matrix() if isinstance(matrix, SpanFactor) else matrix
            arrays[f"{name}_{m}"] = np.ascontiguousarray(whole, dtype=np.float64)
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
