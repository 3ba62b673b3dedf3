"""What a midpoint costs: the time of fits with one, relative to that of fits without.

Both fits alternate, on the same samples: TATML's own pairs, loss and cross-fitted threshold. Printed
per number of features: the median ratio, the smallest and largest one, the Newton steps of both
fits, how the last step was computed ("newton" is the dense system), and seconds. On the host these
are processor seconds.

    python benchmarks/midpoint_price.py [--features 8 16 32 64 512] [--C 100] [--device cuda]
        [--rounds 5]
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time

import numpy as np
from common import describe_machine
from embedding_fits import embeddings, synchronise

from tatml import TATML


def timed(X, y, device, **parameters):
    """Return the seconds of a fit, and the estimator."""
    synchronise(device)
    clock = perf_counter if device else process_time
    start = clock()
    model = TATML(random_state=0, **parameters).fit(X, y)
    synchronise(device)
    return clock() - start, model


def compare(n: int, options: argparse.Namespace) -> None:
    """Print the row of one number of features."""
    n_samples = options.samples if n >= 256 else min(options.samples, 40 * n + 1000)
    X, y = embeddings(n_samples, n)
    if options.device:
        import torch

        X = torch.asarray(X, device=options.device)
    given = {"C": options.C} | ({"loss": options.loss} if options.loss else {})
    ratios, rows = [], []
    for turn in range(options.rounds + 1):
        before, distance = timed(X, y, options.device, **given)
        after, score = timed(X, y, options.device, midpoint=True, **given)
        if turn:  # the first fits warm up
            ratios.append(after / before)
            rows.append((before, after))
    results = distance.result_, score.result_
    steps = "/".join(str(result.n_iter) for result in results)
    linear = "/".join(str(result.history["linear"][-1]) for result in results)
    before, after = np.median(rows, axis=0)
    spread = f"({min(ratios):.2f}, {max(ratios):.2f})"
    print(
        f"{n:9}{n_samples:9,}{np.median(ratios):8.2f} {spread:>14}{steps:>9}{linear:>22}"
        f"{before:9.3f}{after:9.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, nargs="+", default=[8, 16, 32, 64, 512])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--C", type=float, default=100.0)
    parser.add_argument("--loss", help="one loss for both; by default each has its own")
    parser.add_argument("--device", help="a device of PyTorch; by default NumPy is used")
    options = parser.parse_args()
    print(describe_machine())
    print(
        f"{'features':>9}{'samples':>9}{'ratio':>8} {'spread':>14}{'steps':>9}{'linear':>22}"
        f"{'without':>9}{'with':>9}"
    )
    for n in options.features:
        compare(n, options)


if __name__ == "__main__":
    main()
