"""Milliseconds of small fits: n = 9, M = 2 (9×9 matrices) with 50, 500 and 2,000 pairs.

Most fits are small: those of grids, folds and bootstraps. Prints the fastest of all fits of each
size.

    python benchmarks/small_fits.py
    python benchmarks/against_commit.py --figures REV benchmarks/small_fits.py
"""

from __future__ import annotations

import argparse
from time import perf_counter

from common import describe_machine, draw_pairs, make_classes

from tatml import learn_metric

SIZES = (50, 500, 1_000, 2_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=30, help="number of fits per size")
    parser.add_argument("--samples", type=int, default=200)
    options = parser.parse_args()
    print(describe_machine())
    X, y = make_classes(options.samples, (9, 9), 2, spread=1.0)
    for n_pairs in SIZES:
        pairs, similar = draw_pairs(y, n_pairs)
        seconds, result = [], None
        for _ in range(options.fits):
            start = perf_counter()
            result = learn_metric(X, pairs, similar, C=10.0)
            seconds.append(perf_counter() - start)
        print(f"{n_pairs} pairs: {1e3 * min(seconds):.3f} ms")
        print(f"  {result.n_iter} steps, gap {result.gap:.1e}, primal {result.primal:.12g}")


if __name__ == "__main__":
    main()
