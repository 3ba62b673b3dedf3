"""What is run, as data: data sets, features, the printed table, grids, seeds. Nothing is computed.

A change here changes the identity of the runs that it concerns, so that their records are made
anew and never mixed with older ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

__all__ = [
    "COMPETITORS",
    "DATASETS",
    "PRINTED",
    "PROTOCOL",
    "QUICK_DATASETS",
    "SENSITIVITY",
    "Dataset",
    "features_of",
]

GREY = ("intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")
GABOR = (*GREY, "gabor:0.25:2")  # and two waves of four pixels, along x and along y
COLOUR = ("red", "green", "blue", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")

# A feature type is the choice of some of a data set's blocks.
SCALES = (("M=2;(1,.5)", (0, 1)), ("M=1;(1)", (0,)), ("M=1;(.5)", (1,)))
TENSORS = (("matrix", (0,)), ("unfoldings", (0, 1)), ("vector", (2,)))


@dataclass(frozen=True)
class Dataset:
    """One data set and how it is split.

    Parameters
    ----------
    name : str
        Its name on the command line.
    title : str
        Its name in tables.
    dataset, split : str
        What records call it, and how it is halved: "halves" (of the images of each class) or
        "objects" (of the objects of each class).
    loader : str
        The function of `tatml.datasets` that reads or makes it.
    options : tuple of (str, value)
        What the loader is given.
    embedded : bool
        Whether it needs no files.
    features : tuple of (str, tuple of int)
        The feature types, and which blocks each of them takes.
    pixel_features : tuple of str, or None
        What covariance descriptors measure at a pixel; None: the images themselves, as tensors.
    scales : tuple of float
        The scales of the descriptors, a block each.
    diagonal : float
        What is added to their diagonals, for pixels from 0 to 1.
    most_per_class : int or None
        How many images of a class are used; None: all.
    """

    name: str
    title: str
    dataset: str
    loader: str
    split: str = "halves"
    options: tuple[tuple[str, Any], ...] = ()
    embedded: bool = False
    features: tuple[tuple[str, tuple[int, ...]], ...] = SCALES
    pixel_features: tuple[str, ...] | None = GREY
    scales: tuple[float, ...] = (1.0, 0.5)
    diagonal: float = 1e-3
    most_per_class: int | None = None


ETH80 = {"dataset": "eth80", "loader": "load_eth80", "pixel_features": COLOUR, "diagonal": 3e-3}
DIGITS = {"loader": "load_digits_images", "features": TENSORS, "pixel_features": None}
TEXTURES = {"loader": "make_textures", "embedded": True}


def _by_name(*datasets: Dataset) -> MappingProxyType[str, Dataset]:
    return MappingProxyType({dataset.name: dataset for dataset in datasets})


DATASETS = _by_name(
    Dataset("eth80", "ETH-80", **ETH80),
    Dataset("brodatz", "Brodatz", "brodatz", "load_brodatz", options=(("tile", 80),)),
    Dataset("virus", "Virus", "virus", "load_virus"),
    Dataset("virus-gabor", "Virus, 7 features", "virus-gabor", "load_virus", pixel_features=GABOR),
    Dataset("eth80-objects", "ETH-80 by object", split="objects", **ETH80),
    Dataset("digits", "Digits", "digits", embedded=True, **DIGITS),
    Dataset("textures", "Textures", "textures", options=(("random_state", 0),), **TEXTURES),
)

# The quick form: embedded data, and few of them.
QUICK_DATASETS = _by_name(
    Dataset("digits", "Digits", "digits", embedded=True, most_per_class=30, **DIGITS),
    Dataset(
        "textures",
        "Textures",
        "textures",
        options=(("n_classes", 5), ("n_per_class", 20), ("random_state", 0)),
        **TEXTURES,
    ),
)

PROTOCOL = MappingProxyType(
    {
        "repeats": 5,
        "quick_repeats": 2,
        "neighbours": 3,
        "folds": 5,  # of the cross-validation inside the training half
        "verification_pairs": 20_000,  # half of them similar; as many to calibrate
        "significance": 0.05,
        "seed": 20160,  # all seeds are made of it, the data set, the split and the repeat
    }
)

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
PRINTED = MappingProxyType(
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

# Which of our own rows the fixed configuration is held against.
COMPETITORS = ("euc", "maz", "itml", "itml_full", "gmml", "nca", "lda")

DECADES = tuple(10.0**exponent for exponent in range(-4, 5))
SENSITIVITY = MappingProxyType(
    {
        "dataset": "eth80",
        "embedded_dataset": "textures",
        "features": "M=2;(1,.5)",
        "c0": (0.25, 0.5, 1.0),  # the paper's grid
        "mu0": (0.25, 0.5, 1.0, 2.0),
        "b0": PAPER_THRESHOLDS,
        "c0_decades": DECADES,  # around the paper's setting, one at a time
        "mu0_decades": DECADES,
        "b0_decades": DECADES,
        "C_decades": DECADES,
        "n_pairs": (10, 30, 100, 300, 1000),
        "quick_decades": (1e-2, 1.0, 1e2),
        "quick_n_pairs": (10, 30),
    }
)


def features_of(dataset: Dataset) -> tuple[str, ...]:
    """The names of its feature types.

    Examples
    --------
    >>> features_of(DATASETS["virus"])
    ('M=2;(1,.5)', 'M=1;(1)', 'M=1;(.5)')
    """
    return tuple(name for name, _ in dataset.features)
