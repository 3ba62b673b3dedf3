"""From a declared data set to samples: load, extract features, keep them on disk, select some."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.utils import Bunch

from tatml import Blocks, datasets
from tatml.features import CovarianceDescriptor, LogEuclidean, Unfold

from .files import replaced_whole
from .settings import Dataset

FOLDER_VARIABLE = "TATML_DATA"  # where `tatml.datasets` looks if no folder is given
Folder = str | os.PathLike[str] | None


@dataclass(frozen=True)
class DatasetSamples:
    """Samples with their classes, and with the objects they show or None."""

    X: Blocks
    y: NDArray[np.intp]
    groups: NDArray[np.intp] | None

    def take(self, rows: NDArray[np.intp]) -> DatasetSamples:
        """Return the samples of some rows."""
        groups = None if self.groups is None else self.groups[rows]
        return DatasetSamples(self.X[rows], self.y[rows], groups)

    def __len__(self) -> int:
        return len(self.y)


def digest_of(value: Any) -> str:
    """Return twelve characters that identify a declaration.

    Examples
    --------
    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:12]


def data_digest(dataset: Dataset) -> str:
    """Return the digest of all that the samples depend on, so not of titles and splits."""
    declared = asdict(dataset)
    for name in ("name", "title", "split", "features"):
        declared.pop(name)
    return digest_of(declared)


def has_folder(given: Folder) -> bool:
    """Return whether a folder of data is given, or named by TATML_DATA and not empty."""
    return given is not None or bool(os.environ.get(FOLDER_VARIABLE))


def load_images(dataset: Dataset, folder: Folder) -> Bunch:
    """Load a data set, with at most `most_per_class` images per class."""
    options = dict(dataset.options)
    if not dataset.embedded:
        options["folder"] = folder
    data = getattr(datasets, dataset.loader)(**options)
    if dataset.most_per_class is None:
        return data
    rows = _first_of_each_class(data.target, dataset.most_per_class)
    return Bunch(**data | {"images": data.images[rows], "target": data.target[rows]})


def _first_of_each_class(target: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    members = [np.flatnonzero(target == label)[:count] for label in np.unique(target)]
    return np.sort(np.concatenate(members))


def extract_features(dataset: Dataset, folder: Folder, cache: Path, jobs: int = 1) -> Path:
    """Return the file with all blocks of the samples; it is made if it does not exist."""
    path = cache / f"{dataset.dataset}-{data_digest(dataset)}.npz"
    if path.exists():
        return path
    data = load_images(dataset, folder)
    arrays = {f"block{m}": array for m, array in enumerate(_blocks_of(dataset, data.images, jobs))}
    objects = data.groups if dataset.dataset == "eth80" else np.arange(0)
    cache.mkdir(parents=True, exist_ok=True)
    savez: Callable[..., None] = np.savez  # its annotation takes any name for allow_pickle
    with replaced_whole(path) as file:
        savez(file, y=data.target, groups=objects, **arrays)
    return path


def _blocks_of(dataset: Dataset, images: NDArray, jobs: int) -> list[NDArray[np.floating]]:
    if dataset.pixel_features is None:  # both unfoldings, then all entries as a vector
        return [*Unfold().fit_transform(images).arrays, images.reshape(len(images), -1)]
    descriptor = CovarianceDescriptor(
        dataset.pixel_features, scales=dataset.scales, diagonal=dataset.diagonal, n_jobs=jobs
    )
    return list(make_pipeline(descriptor, LogEuclidean()).fit_transform(images).arrays)


@lru_cache(maxsize=4)
def _read_arrays(path: str) -> dict[str, NDArray]:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return dict(archive)
    except Exception as error:  # damaged archives raise many kinds of errors
        raise ValueError(
            f"{path}: expected the features of a data set, got a file that cannot be read "
            f"({error}); remove it, and the same command makes it again"
        ) from error


def read_features(dataset: Dataset, features: str, path: str | Path) -> DatasetSamples:
    """Read a file of `extract_features` as one feature type.

    The objects are known to a split by object only: a random half ignores them, as in the paper.
    """
    stored = _read_arrays(os.fspath(path))
    blocks = Blocks(*(stored[f"block{m}"] for m in dict(dataset.features)[features]))
    groups = stored["groups"] if dataset.split == "objects" else None
    return DatasetSamples(blocks, stored["y"], groups)
