"""Functions that the benchmarks share: synthetic samples, timing, versions and cores."""

from __future__ import annotations

import os
import platform
from time import perf_counter

import numpy as np
import scipy
import sklearn

import tatml
from tatml import Blocks


def describe_machine() -> str:
    """Return the versions and the number of cores in one line."""
    return (
        f"tatml {tatml.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}, {os.cpu_count()} cores"
    )


def timed(function, *args, repeats: int = 3, **kwargs) -> tuple[float, object]:
    """Return the seconds of the fastest of several runs, and the result of the last one."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = perf_counter()
        result = function(*args, **kwargs)
        best = min(best, perf_counter() - start)
    return best, result


def make_classes(
    n_samples: int, shape: tuple[int, int], n_blocks: int, spread: float, seed: int = 0
) -> tuple[Blocks, np.ndarray]:
    """Return noisy matrices around class means; the mean squared distance in a class is about 1."""
    rng = np.random.default_rng(seed)
    n_classes, size = 20, shape[0] * shape[1]
    y = rng.integers(n_classes, size=n_samples)
    blocks = []
    for _ in range(n_blocks):
        means = rng.normal(size=(n_classes, *shape)) * spread / np.sqrt(2 * size)
        blocks.append(means[y] + rng.normal(size=(n_samples, *shape)) / np.sqrt(2 * size))
    return Blocks(*blocks), y


def draw_pairs(y: np.ndarray, n_pairs: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Draw random pairs, half of them similar."""
    rng = np.random.default_rng(seed)
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], np.arange(y.max() + 2))
    first = rng.integers(len(y), size=n_pairs)
    second = rng.integers(len(y), size=n_pairs)
    half = np.arange(n_pairs) < n_pairs // 2
    label = y[first[half]]
    place = rng.random(half.sum()) * (starts[label + 1] - starts[label])
    second[half] = order[starts[label] + place.astype(int)]
    keep = first != second
    pairs = np.stack([first[keep], second[keep]], axis=1)
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]
