"""The declared data sets, features, grids and seeds, and the printed table. Nothing is computed.

A change here changes the keys of the runs that it affects, so that they are run again and their
records are never mixed with older ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

Split = Literal["halves", "objects"]

GREY = ("intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")
GABOR = (*GREY, "gabor:0.25:2")  # with two Gabor waves of four pixels, along x and y
COLOUR = ("red", "green", "blue", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")

# A feature type selects some of the blocks of a data set.
SCALES = (("M=2;(1,.5)", (0, 1)), ("M=1;(1)", (0,)), ("M=1;(.5)", (1,)))
TENSORS = (("matrix", (0,)), ("unfoldings", (0, 1)), ("vector", (2,)))

# Feature types as the page names them; records and the Markdown tables use the paper's notation.
FEATURE_TITLES = MappingProxyType(
    {
        "M=2;(1,.5)": "two scales (100 %, 50 %)",
        "M=1;(1)": "one scale (100 %)",
        "M=1;(.5)": "one scale (50 %)",
        "matrix": "matrices",
        "unfoldings": "both unfoldings",
        "vector": "vectors",
    }
)


@dataclass(frozen=True)
class Dataset:
    """One data set and how it is split.

    Parameters
    ----------
    name : str
        The name on the command line.
    title : str
        The name in tables.
    dataset : str
        The name in records.
    loader : str
        The function of `tatml.datasets` that reads or makes it.
    split : {"halves", "objects"}
        Whether the images or the objects of each class are halved.
    options : tuple of (str, value)
        The arguments of the loader.
    embedded : bool
        Whether it needs no files.
    features : tuple of (str, tuple of int)
        The feature types, and the blocks that each of them selects.
    pixel_features : tuple of str, or None
        The features of a pixel in covariance descriptors; None: the images themselves, as tensors.
    scales : tuple of float
        The scales of the descriptors, one block per scale.
    diagonal : float
        The constant that is added to their diagonals, for pixels from 0 to 1.
    most_per_class : int or None
        The number of images used per class; None: all.
    """

    name: str
    title: str
    dataset: str
    loader: str
    split: Split = "halves"
    options: tuple[tuple[str, Any], ...] = ()
    embedded: bool = False
    features: tuple[tuple[str, tuple[int, ...]], ...] = SCALES
    pixel_features: tuple[str, ...] | None = GREY
    scales: tuple[float, ...] = (1.0, 0.5)
    diagonal: float = 1e-3
    most_per_class: int | None = None


_eth80 = partial(
    Dataset, dataset="eth80", loader="load_eth80", pixel_features=COLOUR, diagonal=3e-3
)
_digits = partial(
    Dataset,
    "digits",
    "Digits",
    "digits",
    "load_digits_images",
    embedded=True,
    features=TENSORS,
    pixel_features=None,
)
_textures = partial(Dataset, "textures", "Textures", "textures", "make_textures", embedded=True)


def _by_name(*datasets: Dataset) -> Mapping[str, Dataset]:
    return MappingProxyType({dataset.name: dataset for dataset in datasets})


DATASETS = _by_name(
    _eth80("eth80", "ETH-80"),
    Dataset("brodatz", "Brodatz", "brodatz", "load_brodatz", options=(("tile", 80),)),
    Dataset("virus", "Virus", "virus", "load_virus"),
    Dataset("virus-gabor", "Virus, 7 features", "virus-gabor", "load_virus", pixel_features=GABOR),
    _eth80("eth80-objects", "ETH-80 by object", split="objects"),
    _digits(),
    _textures(options=(("random_state", 0),)),
)

# The quick form uses small embedded data sets.
QUICK_DATASETS = _by_name(
    _digits(most_per_class=30),
    _textures(options=(("n_classes", 5), ("n_per_class", 20), ("random_state", 0))),
)


@dataclass(frozen=True)
class Protocol:
    """The protocol by which every method is run and scored.

    Parameters
    ----------
    repeats, quick_repeats : int
        The number of random halves, and their number in the quick form.
    neighbours : int
        The number of neighbours of the classifier.
    folds : int
        The number of folds of the cross-validation inside the training half.
    verification_pairs : int
        The number of test pairs, half of them similar; as many training pairs calibrate.
    significance : float
        The level of the t-tests.
    seed : int
        The seed from which, with data set, split and repeat, all others are made.
    """

    repeats: int = 5
    quick_repeats: int = 2
    neighbours: int = 3
    folds: int = 5
    verification_pairs: int = 20_000
    significance: float = 0.05
    seed: int = 20160


PROTOCOL = Protocol()

# Grids of the paper: c, and b0 of the bounds (b0/2, 2 b0).
PAPER_WEIGHTS = (0.01, 0.1, 1.0, 10.0)
PAPER_THRESHOLDS = (0.25, 0.5, 1.0, 2.0)

# Table 1 as printed: accuracy in per cent for M=2;(1,.5), M=1;(1), M=1;(.5).
PRINTED_VIRUS = MappingProxyType(
    {
        "tatml": (64.93, 61.73, 50.67),
        "euc": (60.53, 58.13, 43.87),
        "maz": (66.80, 61.47, 51.20),
        "itml": (47.40, 59.73, 41.20),
    }
)
PRINTED: Mapping[str, Mapping[str, tuple[float, float, float]]] = MappingProxyType(
    {
        "eth80": {
            "tatml": (95.71, 95.27, 95.36),
            "euc": (95.38, 93.49, 95.24),
            "maz": (95.83, 95.36, 95.56),
            "itml": (96.07, 93.93, 93.77),
        },
        "brodatz": {
            "tatml": (86.42, 84.90, 79.05),
            "euc": (85.88, 84.53, 78.39),
            "maz": (86.21, 84.79, 78.85),
            "itml": (81.17, 79.07, 72.38),
        },
        "virus": PRINTED_VIRUS,
        "virus-gabor": PRINTED_VIRUS,
    }
)
PRINTED_SENSITIVITY = MappingProxyType({"grid": 95.929, "threshold b0=1": 95.88})

# The methods that the fixed configuration is compared with.
COMPETITORS = ("euc", "maz", "itml", "itml_full", "gmml", "nca", "lda")


@dataclass(frozen=True)
class Study:
    """The sensitivity study.

    Parameters
    ----------
    dataset, embedded_dataset : str
        The paper's data set, and the one used if its files are missing.
    features : str
        The feature type.
    c0, mu0, b0 : tuple of float
        The paper's grid.
    decades, quick_decades : tuple of float
        The values of c0, μ0, b0 and C around the paper's setting, one of them at a time.
    n_pairs, quick_n_pairs : tuple of int
        The numbers of pairs per class.
    """

    dataset: str = "eth80"
    embedded_dataset: str = "textures"
    features: str = "M=2;(1,.5)"
    c0: tuple[float, ...] = (0.25, 0.5, 1.0)
    mu0: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    b0: tuple[float, ...] = PAPER_THRESHOLDS
    decades: tuple[float, ...] = tuple(10.0**exponent for exponent in range(-4, 5))
    quick_decades: tuple[float, ...] = (1e-2, 1.0, 1e2)
    n_pairs: tuple[int, ...] = (10, 30, 100, 300, 1000)
    quick_n_pairs: tuple[int, ...] = (10, 30)


SENSITIVITY = Study()


def features_of(dataset: Dataset) -> tuple[str, ...]:
    """Return the names of the feature types of a data set.

    Examples
    --------
    >>> features_of(DATASETS["virus"])
    ('M=2;(1,.5)', 'M=1;(1)', 'M=1;(.5)')
    """
    return tuple(name for name, _ in dataset.features)
