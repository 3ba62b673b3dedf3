"""Predicted against measured seconds and memory of fits, on a grid of sizes.

4,000 samples, C K = 1,000, c0 = 100, `Newton(random_state=0)`, one BLAS thread; seconds are those
of the processor, so that other programs on the machine do not count. Memory is the peak of Python's
allocations beside the arguments (NumPy reports its own), from a second fit. The goal: every ratio
of time between 1/2 and 2.

    OPENBLAS_NUM_THREADS=1 python benchmarks/predicted_cost.py
"""

from __future__ import annotations

import argparse
import os
import tracemalloc
from time import process_time

from common import describe_machine, draw_pairs, make_classes

from tatml import Newton, learn_metric
from tatml.solvers import predict_cost

N_SAMPLES = 4_000
# (n, n', M): numbers of pairs
GRID = {
    (9, 1, 1): (1_000, 10_000, 100_000, 1_000_000),
    (9, 9, 2): (1_000, 10_000, 100_000, 1_000_000),
    (32, 1, 1): (1_000, 10_000, 100_000, 1_000_000),
    (128, 1, 1): (1_000, 10_000, 100_000),
    (512, 1, 1): (1_000, 10_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most-pairs", type=int, default=1_000_000)
    parser.add_argument("--most-rows", type=int, default=512, help="largest n")
    parser.add_argument("--memory", action="store_true", help="measure the memory too")
    options = parser.parse_args()
    print(describe_machine())
    print(f"load {os.getloadavg()[0]:.1f}")
    names = ("n", "n'", "M", "pairs", "predicted s", "measured s", "ratio", "predicted MB", "MB")
    print("".join(f"{name:>13}" for name in names))
    ratios = []
    learn_metric([[0.0], [0.1], [2.0]], [[0, 1], [1, 2]], [True, False])  # loads code
    for (n, width, M), sizes in GRID.items():
        if n > options.most_rows:
            continue
        for n_pairs in (size for size in sizes if size <= options.most_pairs):
            X, y = make_classes(N_SAMPLES, (n, width), M, spread=1.0)
            pairs, similar = draw_pairs(y, n_pairs)
            settings = {"C": 1e3 / n_pairs, "c0": 100.0, "solver": Newton(random_state=0)}
            cost = predict_cost(X.block_shapes, len(X), len(pairs))
            start = process_time()
            learn_metric(X, pairs, similar, **settings)
            spent, peak = process_time() - start, 0
            if options.memory:
                tracemalloc.start()
                learn_metric(X, pairs, similar, **settings)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            ratios.append(cost.seconds / spent)
            print(
                f"{n:13}{width:13}{M:13}{len(pairs):13,}{cost.seconds:13.3f}{spent:13.3f}"
                f"{ratios[-1]:13.2f}{cost.memory / 1e6:13.1f}{peak / 1e6:13.1f}",
                flush=True,
            )
    print(f"ratios from {min(ratios):.2f} to {max(ratios):.2f} (goal: from 0.50 to 2.00)")


if __name__ == "__main__":
    main()
