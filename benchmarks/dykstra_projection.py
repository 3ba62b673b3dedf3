"""Compare the costs of an efficient and a naive Dykstra projection and an eigendecomposition.

    python benchmarks/dykstra_projection.py [--quick]

All pairs are similar and violated, so that every projection changes W; certificates are included.
Times are medians, with one BLAS thread. `eigh` is LAPACK's dsyevd with eigenvectors of one n × n
matrix, called directly; L is the number of evaluations of the equation per projection.
"""

import argparse
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from tatml import Dykstra
from tatml._data.blocks import Blocks
from tatml._data.pairs import as_pairs
from tatml._optim.problem import LogDetProblem, squared_hinge


def make_problem(n, width, n_blocks, n_pairs):
    """Return a problem with similar pairs that stay violated."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(50, n, width)) / np.sqrt(width * n) for _ in range(n_blocks)]
    first = rng.integers(50, size=n_pairs)
    second = (first + rng.integers(1, 50, size=n_pairs)) % 50
    pairs = as_pairs(np.stack([first, second], 1), np.ones(n_pairs, dtype=bool), 50, None)
    loss = squared_hinge(pairs, 1.0, (0.01, 2.0))
    return LogDetProblem.build(Blocks(*arrays), pairs, loss, mu0=1.0)


def projection_seconds(problem, projection, epochs, repeats):
    """Return the median seconds and the number of evaluations per projection."""
    sample = []
    for _ in range(repeats):
        result = Dykstra(projection=projection, max_iter=epochs, random_state=0).solve(
            problem, tol=1e-300
        )
        seconds, moves = result.history["seconds"], result.history["moves"][-1]
        sample.append((seconds[-1] - seconds[0]) / moves)
    return median(sample), result.history["evaluations"][-1] / moves


def eigh_seconds(n, repeats):
    """Return the median seconds of one eigendecomposition."""
    root = np.random.default_rng(0).normal(size=(n, n))
    matrix, sample = np.asfortranarray(root @ root.T), []
    decompose = partial(lapack.dsyevd, matrix)
    for _ in range(100 * repeats):
        start = perf_counter()
        decompose()
        sample.append(perf_counter() - start)
    return median(sample)


def print_matrices(sizes, blocks, n_pairs, repeats):
    """Print the table for square matrices."""
    print("square matrices, n' = n")
    print("| n | M | eigh | efficient | efficient / (M eigh) | naive | L | naive / efficient |")
    print("|---|---|---|---|---|---|---|---|")
    for n in sizes:
        eigh = eigh_seconds(n, repeats)
        for n_blocks in blocks:
            count = max(10, min(n_pairs, 20_000 // n))
            problem = make_problem(n, n, n_blocks, count)
            efficient, _ = projection_seconds(problem, "efficient", 2, repeats)
            naive, evaluations = projection_seconds(problem, "naive", 2, repeats)
            print(
                f"| {n} | {n_blocks} | {eigh * 1e6:.0f} µs | {efficient * 1e6:.0f} µs "
                f"| {efficient / (n_blocks * eigh):.2f} | {naive * 1e6:.0f} µs "
                f"| {evaluations:.1f} | {naive / efficient:.1f} |",
                flush=True,
            )


def print_vectors(sizes, n_pairs, repeats):
    """Print the table for vectors."""
    print("\nvectors, M = 1")
    print("| n | eigh | efficient | efficient / eigh | naive | naive / efficient |")
    print("|---|---|---|---|---|---|")
    for n in sizes:
        problem = make_problem(n, 1, 1, n_pairs)
        efficient, _ = projection_seconds(problem, "efficient", 2, repeats)
        naive, _ = projection_seconds(problem, "naive", 2, repeats)
        eigh = eigh_seconds(n, repeats)
        print(
            f"| {n} | {eigh * 1e6:.0f} µs | {efficient * 1e6:.1f} µs | {efficient / eigh:.2f} "
            f"| {naive * 1e6:.0f} µs | {naive / efficient:.1f} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, small sizes")
    quick = parser.parse_args().quick
    with threadpool_limits(1):
        print_matrices(
            (5, 9) if quick else (5, 9, 20, 50, 100),
            (1, 2) if quick else (1, 2, 3, 4),
            100 if quick else 500,
            1 if quick else 5,
        )
        print_vectors(
            (5, 9) if quick else (5, 9, 20, 50, 100), 100 if quick else 500, 1 if quick else 5
        )


if __name__ == "__main__":
    main()
