"""Fits of embeddings with many pairs per sample: seconds, steps, products and peak memory.

Embeddings are synthetic but of a realistic shape (`benchmarks/gpu.py` has the same): means of
identities and noise, both with a decaying spectrum, scaled to length 1. To compare with an earlier
commit in one run:

    python benchmarks/against_commit.py REV benchmarks/embedding_fits.py --pairs 100000
"""

from __future__ import annotations

import argparse
import resource
from time import perf_counter, process_time

import numpy as np
from common import describe_machine, draw_pairs

from tatml import Newton, learn_metric


def embeddings(n_samples: int, n: int, seed: int = 0):
    """Return unit vectors of identities with 20 samples each on average, and the identities."""
    rng, place = np.random.default_rng(seed), np.arange(1.0, n + 1)
    n_identities = n_samples // 20
    between, within = place**-0.7, place**-0.4
    within *= 0.8 * np.linalg.norm(between) / np.linalg.norm(within)
    turn_means, turn_noise = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    y = rng.integers(n_identities, size=n_samples)
    X = ((rng.standard_normal((n_identities, n)) * between) @ turn_means)[y]
    X += (rng.standard_normal((n_samples, n)) * within) @ turn_noise
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def synchronise(device: str | None) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def measure(X, pairs, similar, cK: float, options: argparse.Namespace) -> None:
    K, best, used = len(pairs), float("inf"), float("inf")
    for _ in range(options.repeats):
        synchronise(options.device)
        start, cpu = perf_counter(), process_time()
        result = learn_metric(
            X, pairs, similar, C=cK / K, c0=0.1 * cK, solver=Newton(random_state=0)
        )
        synchronise(options.device)
        best, used = min(best, perf_counter() - start), min(used, process_time() - cpu)
    products = int(np.sum(result.history["products"]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{K:11,}{cK:11.0e}{best:11.3f}{used:11.3f}{result.n_iter:11d}{products:11d}"
        f"{int(result.history['n_active'][-1]):11,}{result.gap / max(1, result.primal):11.1e}"
        f"{float(result.b0):11.7f}{peak:11.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000])
    parser.add_argument("--strengths", type=float, nargs="+", default=[1e3], help="c times K")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--device", help="a device of PyTorch; by default NumPy is used")
    options = parser.parse_args()
    print(describe_machine())
    X, y = embeddings(options.samples, options.features)
    if options.device:
        import torch

        X = torch.asarray(X, device=options.device)
    print(f"{options.samples:,} samples of {options.features} features")
    columns = ("pairs", "c K", "seconds", "processor", "steps", "products", "active", "gap", "b0")
    columns += ("GiB",)
    print("".join(f"{name:>11}" for name in columns))
    for K in options.pairs:
        pairs, similar = draw_pairs(y, K)
        for cK in options.strengths:
            measure(X, pairs, similar, cK, options)


if __name__ == "__main__":
    main()
