"""The datasets of the studies: vectors, SPD matrices, several blocks; read as (X, y, groups).

The datasets of scikit-learn and of `tatml.datasets` are always available. Those of the package aeon
are read from its files if it is installed, the three of the paper from the folder TATML_DATA.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.pipeline import make_pipeline

from tatml import datasets
from tatml.features import CovarianceDescriptor, FilterBankCovariance, LogEuclidean, Vectorize

COLOUR = ("red", "green", "blue", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")
GREY = ("intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")


def _sklearn(name):
    X, y = getattr(sklearn_datasets, f"load_{name}")(return_X_y=True)
    return X, y, None


def _aeon(name):
    """Return all samples of a dataset of aeon as (n_samples, n_channels, n_times)."""
    spec = find_spec("aeon")
    if spec is None:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / name.split("_")[0]
    samples, labels = [], []
    for part in ("TRAIN", "TEST"):
        text = (folder / f"{name}_{part}.ts").read_text(encoding="utf-8")
        for line in text[text.lower().index("@data") + 5 :].split():
            *channels, label = line.split(":")
            samples.append([[float(v) for v in channel.split(",")] for channel in channels])
            labels.append(label)
    return np.array(samples), np.array(labels)


def _series(name):
    loaded = _aeon(name)
    return None if loaded is None else (loaded[0][:, 0], loaded[1], None)


def _motions():
    """Return covariances of six motion channels, one for slow and one for fast movements."""
    loaded = _aeon("BasicMotions")
    if loaded is None:
        return None
    bands = FilterBankCovariance(bands=[(0.2, 1.0), (1.0, 4.0)], sfreq=10.0, shrinkage="oas")
    return make_pipeline(bands, LogEuclidean()).fit_transform(loaded[0]), loaded[1], None


def _vowels():
    """Return logarithms of covariances of twelve speech channels."""
    loaded = _aeon("JapaneseVowels_eq")
    if loaded is None:
        return None
    centred = loaded[0] - loaded[0].mean(axis=2, keepdims=True)
    covariance = centred @ np.swapaxes(centred, 1, 2) / centred.shape[2]
    covariance += 1e-3 * np.eye(12) * np.trace(covariance.mean(axis=0)) / 12
    return LogEuclidean().fit_transform(covariance), loaded[1], None


def _spd():
    X, y = datasets.make_spd_classes(random_state=0, return_X_y=True)
    return LogEuclidean().fit_transform(X), y, None


def _signals():
    X, y = datasets.make_filter_bank(random_state=0, return_X_y=True)
    bands = FilterBankCovariance(bands=[(4, 8), (8, 13), (13, 30)], sfreq=128)
    return make_pipeline(bands, LogEuclidean()).fit_transform(X), y, None


def _descriptors(images, features, scales, diagonal=1e-3):
    descriptor = CovarianceDescriptor(features=features, scales=scales, diagonal=diagonal)
    return make_pipeline(descriptor, LogEuclidean()).fit_transform(images)


def _textures():
    data = datasets.make_textures(random_state=0)
    return _descriptors(data.images, GREY, (1.0, 0.5)), data.target, None


def _images(load, features, scales, by_object=False, **options):
    if "TATML_DATA" not in os.environ:
        return None
    data = load(**options)
    X = _descriptors(data.images, features, scales)
    return X, data.target, data.groups if by_object else None


SETS = {
    "wine": lambda: _sklearn("wine"),
    "breast cancer": lambda: _sklearn("breast_cancer"),
    "digits": lambda: _sklearn("digits"),
    "iris": lambda: _sklearn("iris"),
    "power demand": lambda: _series("ItalyPowerDemand"),
    "gun point": lambda: _series("GunPoint"),
    "motions M=2": _motions,
    "vowels": _vowels,
    "SPD classes": _spd,
    "signals M=3": _signals,
    "textures M=2": _textures,
    "virus M=2": lambda: _images(datasets.load_virus, GREY, (1.0, 0.5)),
    "brodatz M=2": lambda: _images(datasets.load_brodatz, GREY, (1.0, 0.5), tile=80),
    "ETH-80 by object M=2": lambda: _images(
        datasets.load_eth80, COLOUR, (1.0, 0.5), by_object=True
    ),
}


@cache
def load(name):
    """Return (X, y, groups), or None if the dataset is not available."""
    return SETS[name]()


def as_table(X):
    """Return vectors for methods that take no matrices: svec of each block, side by side."""
    return (
        X
        if hasattr(X, "ndim") and X.ndim == 2 and hasattr(X, "__array_interface__")
        else (Vectorize(join=True).fit_transform(X))
    )
