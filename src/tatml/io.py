"""Save a fitted estimator with what is known about it, and load it back without running code.

The format is that of skops, an archive of arrays and plain settings. Unlike a pickle it cannot name
code to run: on loading, only the types of this package and those that skops knows are made.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from sklearn.utils.validation import check_is_fitted

from . import __version__
from ._data.blocks import Blocks
from ._estimators import GMML, ITML, TATML, TATMLCV, Euclidean, Maz, PairThreshold, TATMLPairs
from ._optim.result import Result, Status
from ._optim.solvers import Dykstra, Newton
from ._warnings import warn_user

__all__ = ["Model", "load_model", "save_model"]

ESTIMATORS = {
    kind.__name__: kind
    for kind in (TATML, TATMLCV, Maz, ITML, GMML, Euclidean, TATMLPairs, PairThreshold)
}
EXTENSION = ".skops"
FORMAT = "tatml model 1"
TRUSTED = frozenset(
    f"{kind.__module__}.{kind.__qualname__}"
    for kind in (*ESTIMATORS.values(), Blocks, Result, Status, Newton, Dykstra)
)


@dataclass(frozen=True)
class Model:
    """A fitted estimator and what was saved with it.

    Parameters
    ----------
    estimator : fitted estimator
        One of `ESTIMATORS`.
    metadata : dict
        What is known about it: plain words, numbers and lists; ``version`` is that of the package
        that saved it.

    Examples
    --------
    >>> from tatml import Euclidean
    >>> from tatml.io import Model
    >>> Model(Euclidean(), {"version": "1.0"}).metadata["version"]
    '1.0'
    """

    estimator: Any
    metadata: dict[str, Any] = field(default_factory=dict)


def save_model(estimator: Any, path: str | os.PathLike, metadata: dict | None = None) -> Path:
    """Save a fitted estimator; a file that is there is replaced, in one step.

    Parameters
    ----------
    estimator : fitted estimator
        One of `ESTIMATORS`.
    path : str or path
        Where to; usually ``*.skops``.
    metadata : dict, optional
        What to keep with it: plain words, numbers and lists. The version of this package is added.

    Returns
    -------
    Path
        The file.

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
    """
    skops = _skops()
    if type(estimator) not in ESTIMATORS.values():
        raise TypeError(f"estimator: expected one of {_names()}, got {type(estimator).__name__}")
    check_is_fitted(estimator)
    content = {
        "format": FORMAT,
        "metadata": {**(metadata or {}), "version": __version__},
        "estimator": estimator,
    }
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            skops.dump(content, file, compression=zipfile.ZIP_DEFLATED)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp keeps others out; a plain file does not
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def load_model(path: str | os.PathLike) -> Model:
    """Load what `save_model` saved, or an estimator saved by ``skops.io.dump`` itself.

    It warns where another version of this package saved it.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Model
        The fitted estimator, and what was saved with it.

    Examples
    --------
    >>> from tatml.io import load_model
    >>> load_model("nowhere.skops")  # `save_model` has an example that succeeds
    Traceback (most recent call last):
        ...
    FileNotFoundError: nowhere.skops: expected a saved model, got no such file
    """
    content = _content(Path(path))
    if type(content) in ESTIMATORS.values():
        content = {"format": FORMAT, "metadata": {}, "estimator": content}
    if type(content) is not dict or content.get("format") != FORMAT:
        raise ValueError(
            f"{path}: expected a model saved by tatml ({FORMAT!r}), got {_described(content)}"
        )
    metadata, kind = content.get("metadata"), type(content.get("estimator"))
    if type(metadata) is not dict or kind not in ESTIMATORS.values():
        raise ValueError(f"{path}: expected an estimator of tatml, got {kind.__name__}")
    if metadata.get("version", __version__) != __version__:
        warn_user(
            f"{path}: saved by tatml {metadata['version']}, and this is tatml {__version__}: "
            "its answers may differ; fit it again to be sure"
        )
    return Model(content["estimator"], metadata)


def _content(path: Path) -> Any:
    """What a skops file holds, if it asks for no type that a model does not need."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        kind = IsADirectoryError if path.is_dir() else FileNotFoundError
        raise kind(f"{path}: expected a saved model, got {found}")
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path}: expected a model saved by tatml, got another kind of file "
            "(pickles are not read: they can run code)"
        )
    skops = _skops()
    try:
        strange = sorted(set(skops.get_untrusted_types(file=path)) - TRUSTED)
        if not strange:
            return skops.load(path, trusted=sorted(TRUSTED))
    except Exception as error:  # a damaged archive fails in many ways
        raise ValueError(
            f"{path}: expected a model saved by tatml, got a file that skops cannot read "
            f"({type(error).__name__}: {error})"
        ) from error
    raise ValueError(f"{path}: expected a model saved by tatml, got one that needs {strange[0]}")


def _skops() -> ModuleType:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            'saving and loading models needs skops: pip install "tatml[skops]"'
        ) from error
    return skops.io


def _described(content: Any) -> str:
    if type(content) is dict and "format" in content:
        return f"the format {content['format']!r}; a newer tatml may be needed"
    return type(content).__name__


def _names() -> str:
    return ", ".join(ESTIMATORS)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
