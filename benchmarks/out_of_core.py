"""Pairs on disk, n = 9, M = 2, in bounded memory: seconds, passes over the data, peak memory.

The samples (two 9×9 matrices each) and the pairs are memory-mapped files. A plain pass reads every
pair and its samples in chunks and subtracts them, which any method has to do that uses each pair
once. Prints the seconds of a fit to a relative gap of 1e-6, their ratio to a plain pass, the number
of passes over the data, and the peak memory, which `--memory` limits.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from common import describe_machine, make_classes, timed
from threadpoolctl import threadpool_limits

from tatml import Blocks, Compute, Newton, learn_metric
from tatml._sharding.base import SerialExecutor

CHUNK = 1_000_000


def stored(path: Path, dtype, shape) -> np.memmap:
    return np.memmap(path, dtype, "w+", shape=shape)


def write_problem(folder: Path, n_pairs: int, n_samples: int) -> tuple:
    """Write samples of 20 classes, and pairs of them, half similar, chunk by chunk."""
    X, y = make_classes(n_samples, (9, 9), 2, spread=1.0)
    arrays = []
    for m, array in enumerate(X.arrays):
        mapped = stored(folder / f"X{m}", np.float64, array.shape)
        mapped[:] = array
        arrays.append(mapped)
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], np.arange(y.max() + 2))
    pairs = stored(folder / "pairs", np.int32, (n_pairs, 2))
    similar = stored(folder / "similar", np.bool_, (n_pairs,))
    rng = np.random.default_rng(1)
    for start in range(0, n_pairs, CHUNK):
        size = min(CHUNK, n_pairs - start)
        first, second = rng.integers(n_samples, size=(2, size))
        label = y[first[::2]]
        place = rng.random(len(label)) * (starts[label + 1] - starts[label])
        second[::2] = order[starts[label] + place.astype(int)]
        second[first == second] = (first[first == second] + 1) % n_samples
        pairs[start : start + size] = np.stack([first, second], axis=1)
        similar[start : start + size] = y[first] == y[second]
    return Blocks(*arrays), pairs, similar


def plain_pass(X: Blocks, pairs: np.memmap, chunk: int) -> None:
    for start in range(0, len(pairs), chunk):
        i, j = np.asarray(pairs[start : start + chunk]).T
        for array in X.arrays:
            np.take(array, i, axis=0) - np.take(array, j, axis=0)


def count_passes(fit) -> tuple[list[str], object]:
    """Return the functions that were called for all shards during a fit, and the result."""
    passes, gather, total = [], SerialExecutor.gather, SerialExecutor.total

    def counting(method):
        def count(self, function, *args):
            passes.append(function.__name__)
            return method(self, function, *args)

        return count

    SerialExecutor.gather, SerialExecutor.total = counting(gather), counting(total)
    try:
        result = fit()
    finally:
        SerialExecutor.gather, SerialExecutor.total = gather, total
    return passes, result


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--folder", default=None, help="where the files go (default: temporary)")
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, threadpool_limits(1):
        X, pairs, similar = write_problem(Path(folder), options.pairs, options.samples)
        before = peak_gib()
        one = min(timed(plain_pass, X, pairs, chunk, repeats=1)[0] for chunk in (200, 800, 3200))
        print(
            f"{len(pairs):,} pairs of {len(X):,} samples on disk; one plain pass: {one:.2f} s; "
            f"max_memory={options.memory}"
        )
        columns = ("C K", "seconds", "/ plain", "passes", "steps", "rel. gap")
        print("".join(f"{name:>10}" for name in columns))
        for cK in (1e2, 1e4, 1e6):
            fit = partial(
                learn_metric,
                *(X, pairs, similar),
                C=cK / len(pairs),
                c0=0.1 * cK,
                solver=Newton(random_state=0),
                compute=Compute(max_memory=options.memory),
            )
            spent, (passes, result) = timed(count_passes, fit, repeats=1)
            gap = result.gap / max(1.0, result.primal)
            print(
                f"{cK:10.0e}{spent:10.2f}{spent / one:10.1f}{len(passes):10d}{result.n_iter:10d}"
                f"{gap:10.1e}",
                flush=True,
            )
        print(f"peak memory of the process: {peak_gib():.2f} GiB, before the fits {before:.2f} GiB")


if __name__ == "__main__":
    main()
