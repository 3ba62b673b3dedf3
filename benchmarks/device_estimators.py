"""Estimators fitted on a GPU: seconds on the host and on the device of the samples.

The samples are those of `embedding_fits.py`. A fit includes the checks of the samples, the clipping
of outliers, the choice of units on held-out pairs, the prior and the threshold. The last column is
the largest relative difference of the learnt distances of 200 pairs; solutions to a tolerance of
1e-6 may differ by its square root, so compare with a small --tol. To compare with an earlier commit
in one run:

    python benchmarks/against_commit.py REV benchmarks/device_estimators.py --device cuda
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from common import describe_machine, draw_pairs
from embedding_fits import embeddings, synchronise

from tatml import TATML, TATMLPairs, TATMLTriplets
from tatml._array import to_numpy
from tatml.features import KernelMap


def learners(y, n_pairs: int, tol: float):
    """Yield the name of each estimator, and a function that fits it to samples."""
    pairs, similar = draw_pairs(y, n_pairs)
    signs, kernel = np.where(similar, 1, -1), KernelMap("rbf", n_landmarks=300, random_state=0)
    rng = np.random.default_rng(0)
    triplets = np.column_stack([pairs[similar], rng.integers(len(y), size=int(np.sum(similar)))])
    triplets = triplets[y[triplets[:, 0]] != y[triplets[:, 2]]]
    drawn = {"random_state": 0, "tol": tol}
    yield "TATML", lambda X: TATML(**drawn).fit(X, y)
    yield "TATML, kernel", lambda X: TATML(kernel=kernel, **drawn).fit(X, y)
    yield "TATMLPairs", lambda X: TATMLPairs(preprocessor=X, **drawn).fit(pairs, signs)
    yield "TATMLTriplets", lambda X: TATMLTriplets(preprocessor=X, **drawn).fit(triplets)


def seconds(fit, X, device: str | None, repeats: int):
    """Return the least time of a fit, and the estimator."""
    best = float("inf")
    for _ in range(repeats):
        synchronise(device)
        start = perf_counter()
        model = fit(X)
        synchronise(device)
        best = min(best, perf_counter() - start)
    return best, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--device", default="cuda", help="a device of PyTorch")
    parser.add_argument("--no-host", action="store_true", help="measure on the device only")
    options = parser.parse_args()
    import torch

    print(describe_machine())
    X, y = embeddings(options.samples, options.features)
    placed = torch.asarray(X, device=options.device)
    print(f"{options.samples:,} samples of {options.features} features")
    print(f"{'':16}{'device, s':>12}{'host, s':>12}{'host/device':>12}{'difference':>12}")
    for name, fit in learners(y, options.pairs, options.tol):
        there, model = seconds(fit, placed, options.device, options.repeats)
        if options.no_host:
            print(f"{name:16}{there:12.2f}", flush=True)
            continue
        here, same = seconds(fit, X, None, 1)
        index = np.arange(400).reshape(-1, 2)
        given = to_numpy(model.pair_distance(index, placed)), same.pair_distance(index, X)
        worst = np.max(np.abs(given[0] / given[1] - 1))
        print(f"{name:16}{there:12.2f}{here:12.2f}{here / there:12.1f}{worst:12.1e}", flush=True)


if __name__ == "__main__":
    main()
