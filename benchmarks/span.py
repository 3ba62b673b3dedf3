"""Solving in the span of the samples, compared with the whole space: processor time and memory.

    OPENBLAS_NUM_THREADS=1 python benchmarks/span.py [--quick] [--whole 5000]

Random features in four classes. The first table has 100 samples and the prior "auto", solved in the
span and, by a private switch, in the whole space; the second 160 samples of 759 features with all
defaults; the third 200 samples of 100,000 features, dense and sparse, with all defaults. Memory is
the peak of what a fit allocates. The whole space is left out for more than 2,000 features unless
--whole says otherwise: 5,000 take an hour. With --quick, it is left out for more than 1,000, and
the last table has 20,000 features.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse
from common import describe_machine

from tatml import TATML
from tatml._learning import priors

SIZES = (200, 500, 1000, 2000, 5000)
MIB = 2**20


def make_samples(n_samples: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return random features, a tenth of which differ between the classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 4
    X = rng.normal(size=(n_samples, n))
    X[:, : n // 10] += rng.normal(size=(4, n // 10))[y]
    return X, y


def make_sparse(n_samples: int, n: int, density: float) -> tuple[Any, np.ndarray]:
    """Return sparse positive features that are larger in some classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n_samples) % 4
    X = scipy.sparse.random_array((n_samples, n), density=density, random_state=rng, format="csr")
    X.data += 1 + 0.1 * y[np.repeat(np.arange(n_samples), np.diff(X.indptr))]
    return X, y


def cost(fit: Callable[[], TATML]) -> tuple[float, float, TATML]:
    """Return the processor seconds of a fit, the peak memory in MiB, and the fitted estimator."""
    tracemalloc.start()
    start = process_time()
    metric = fit()
    seconds = process_time() - start
    peak = tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()
    return seconds, peak, metric


def in_whole_space(fit: Callable[[], TATML]) -> tuple[float, float, TATML]:
    """Return the cost of a fit if no block counts as wide."""
    usual, priors.ROWS_PER_SPAN = priors.ROWS_PER_SPAN, np.inf
    try:
        return cost(fit)
    finally:
        priors.ROWS_PER_SPAN = usual


def compare(n_samples: int, n: int, whole: bool, **settings: Any) -> None:
    """Print one row: the span, and its ratios to the whole space."""
    X, y = make_samples(n_samples, n)

    def fit() -> TATML:
        return TATML(random_state=0, **settings).fit(X, y)

    seconds, peak, metric = cost(fit)
    row = f"| {n_samples} × {n:,} | {seconds:.2f} s | {peak:.1f} MiB |"
    if whole:
        full_seconds, full_peak, full = in_whole_space(fit)
        difference = abs(full.threshold_ / metric.threshold_ - 1)
        row += f" × {full_seconds / seconds:.0f} | × {full_peak / peak:.0f} | {difference:.0e} |"
    print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--whole", type=int, default=2000, help="the most features")
    options = parser.parse_args()
    quick, whole = options.quick, min(options.whole, 1000 if options.quick else options.whole)
    print(describe_machine())
    TATML().fit(*make_samples(20, 5))  # loads what the first fit needs
    print("| samples | span | its memory | whole space | its memory | threshold differs by |")
    for n in SIZES:
        compare(100, n, n <= whole, prior="auto", threshold="joint")
    print("All defaults:")
    compare(160, 759, True)
    n = 20_000 if quick else 100_000
    dense, sparse = make_samples(200, n), make_sparse(200, n, 0.02)
    for name, (X, y) in (("dense", dense), ("sparse, 2 %", sparse)):
        seconds, peak, metric = cost(lambda X=X, y=y: TATML(random_state=0).fit(X, y))
        ratio = peak * MIB / (8 * 200 * n)
        index = metric.pairs_[:1000]
        distances = cost(lambda m=metric, X=X, index=index: m.pair_distance(index, X))[0]
        print(
            f"| 200 × {n:,}, {name} | {seconds:.1f} s | {peak:.0f} MiB, {ratio:.1f} times a dense "
            f"X | 1,000 distances {distances:.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
