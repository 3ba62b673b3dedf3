"""A million pairs, n = 9, M = 2, to a relative gap of 1e-6, compared with one pass over the pairs.

The pass reads both samples of every pair in cache-sized chunks and subtracts them, which every
method must do at least once. Prints seconds, their ratio,
Newton steps and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import resource

import numpy as np
from common import describe_machine, draw_pairs, make_classes, timed
from threadpoolctl import threadpool_limits

from tatml import Newton, learn_metric


def one_pass(arrays, pairs, chunk: int) -> None:
    for start in range(0, len(pairs), chunk):
        i, j = pairs[start : start + chunk].T
        for array in arrays:
            np.take(array, i, axis=0) - np.take(array, j, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="100,000 pairs")
    options = parser.parse_args()
    n_pairs = 100_000 if options.quick else options.pairs
    print(describe_machine())
    X, y = make_classes(options.samples, (9, 9), 2, spread=1.0)
    pairs, similar = draw_pairs(y, n_pairs)
    pairs = np.asfortranarray(pairs)
    with threadpool_limits(1):
        best = min(timed(one_pass, X.arrays, pairs, chunk)[0] for chunk in (200, 800, 3200))
    print(f"{len(pairs):,} pairs of {len(X):,} samples; one pass: {best:.2f} s, single-threaded")
    columns = ("c K", "c0", "seconds", "passes", "steps", "active", "rel. gap")
    print("".join(f"{name:>10}" for name in columns))
    for cK, rho in ((100, 0.1), (1e4, 0.1), (1e6, 0.1), (1e4, np.inf), (1e4, None)):
        C = cK / len(pairs)
        c0 = 1.0 if rho is None else rho * cK
        settings = {"C": C, "c0": c0, "solver": Newton(random_state=0)}
        spent, result = timed(learn_metric, X, pairs, similar, repeats=2, **settings)
        gap, active = result.gap / max(1.0, result.primal), len(result.active) / len(pairs)
        print(
            f"{cK:10.0e}{c0:10.3g}{spent:10.2f}{spent / best:10.1f}{result.n_iter:10d}"
            f"{active:10.2f}{gap:10.1e}",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of the process: {peak:.2f} GiB")


if __name__ == "__main__":
    main()
