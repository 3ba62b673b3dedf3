"""What a midpoint costs: the time of fits with one, relative to that of fits without.

Both fits alternate, on the same samples, with the pairs, loss and threshold of `TATML`. Printed
per number of features: the median ratio, the smallest and largest one, the Newton steps of both
fits, how the last step was computed ("newton" is the dense system), and seconds. On the host these
are processor seconds.

    python benchmarks/midpoint_price.py [--features 8 16 32 64 512] [--C 100] [--pairs 100000]
        [--loss logistic] [--device cuda] [--rounds 5]
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time

import numpy as np
from common import describe_machine, draw_pairs
from embedding_fits import embeddings, synchronise

from tatml import TATML, Newton, learn_metric


def learner(X, y, options: argparse.Namespace):
    """Return the function from `midpoint` to the result of a fit."""
    given = {"loss": options.loss} if options.loss else {}
    if options.pairs is None:
        given["C"] = options.C
        return lambda midpoint: TATML(random_state=0, midpoint=midpoint, **given).fit(X, y).result_
    pairs, similar = draw_pairs(y, options.pairs)
    given |= {"C": options.C / len(pairs), "c0": 0.1 * options.C, "solver": Newton(random_state=0)}
    return lambda midpoint: learn_metric(X, pairs, similar, midpoint=midpoint, **given)


def timed(learn, midpoint: bool, device: str | None):
    """Return the seconds of a fit, and its result."""
    synchronise(device)
    clock = perf_counter if device else process_time
    start = clock()
    result = learn(midpoint)
    synchronise(device)
    return clock() - start, result


def compare(n: int, options: argparse.Namespace) -> None:
    """Print the row of one number of features."""
    n_samples = options.samples if n >= 256 else min(options.samples, 40 * n + 1000)
    X, y = embeddings(n_samples, n)
    if options.device:
        import torch

        X = torch.asarray(X, device=options.device)
    learn, ratios, rows = learner(X, y, options), [], []
    for turn in range(options.rounds + 1):
        before, distance = timed(learn, False, options.device)
        after, score = timed(learn, True, options.device)
        if turn:  # the first fits warm up
            ratios.append(after / before)
            rows.append((before, after))
    results = distance, score
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
    parser.add_argument("--C", type=float, default=100.0, help="weight of the mean loss")
    parser.add_argument("--pairs", type=int, help="learn_metric with so many pairs")
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
