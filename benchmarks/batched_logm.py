"""Logarithms of many matrices: compare LogEuclidean with a loop over SciPy and with pyRiemann.

Microseconds of processor time per matrix, on one thread, including checks of the input.
LogEuclidean and pyRiemann's logm process the whole stack; they run alternately, and the ratio is
the median over the runs. The loop over scipy.linalg.logm runs on some of the matrices. The last
column is the largest difference from SciPy's entries. The last line is the wall-clock time for the
largest stack with all threads that the BLAS may use.
"""

from __future__ import annotations

import argparse
import warnings
from time import perf_counter, process_time

import numpy as np
import scipy.linalg
from common import describe_machine
from threadpoolctl import threadpool_limits

from tatml.features import LogEuclidean

try:
    from pyriemann.geometry.base import logm
except ImportError:  # before pyRiemann 0.12
    from pyriemann.utils.base import logm

GRID = [(n, count) for n in (5, 9, 20) for count in (1_000, 5_000)]


def make_covariances(n_matrices: int, n: int, seed: int = 0) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(n_matrices, n, 4 * n))
    return points @ points.transpose(0, 2, 1) / (4 * n)


def scipy_loop(matrices: np.ndarray) -> np.ndarray:
    return np.stack([scipy.linalg.logm(matrix) for matrix in matrices])


def time_each(function, matrices: np.ndarray, clock=process_time) -> float:
    """Return the seconds per matrix."""
    start = clock()
    function(matrices)
    return (clock() - start) / len(matrices)


def take_turns(matrices: np.ndarray, turns: int, clock=process_time) -> np.ndarray:
    """Return the seconds per matrix of LogEuclidean and pyRiemann, one row per turn."""
    functions = (LogEuclidean().transform, logm)
    return np.array([[time_each(f, matrices, clock) for f in functions] for _ in range(turns)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    options = parser.parse_args()
    turns = 7 if options.quick else 51
    # SciPy warns if its own estimate of the error exceeds a thousand times the rounding error.
    warnings.filterwarnings("ignore", message="logm result may be inaccurate")
    print(describe_machine())
    print(f"{'n':>3} {'matrices':>8} {'tatml':>9} {'SciPy':>9} {'pyRiemann':>11} ", end="")
    print(f"{'SciPy/tatml':>12} {'pyRiemann/tatml':>16} {'difference':>11}")
    for n, count in GRID:
        matrices = make_covariances(count, n)
        part = matrices[:50]
        with threadpool_limits(1):
            seconds = take_turns(matrices, turns)
            scipys = min(time_each(scipy_loop, part) for _ in range(3))
        difference = np.max(np.abs(LogEuclidean().transform(part) - scipy_loop(part)))
        ours, pyriemanns = np.median(seconds, axis=0)
        ratio = np.median(seconds[:, 1] / seconds[:, 0])
        print(f"{n:3d} {count:8d} {1e6 * ours:9.2f} {1e6 * scipys:9.0f} ", end="")
        print(f"{1e6 * pyriemanns:11.2f} {scipys / ours:12.0f} {ratio:16.2f} ", end="")
        print(f"{difference:11.0e}", flush=True)
    seconds = np.min(take_turns(matrices, turns, perf_counter), axis=0)
    print(f"all threads, n = {n}, {count} matrices: {1e6 * seconds[0]:.2f} and ", end="")
    print(f"{1e6 * seconds[1]:.2f}, pyRiemann/tatml = {seconds[1] / seconds[0]:.2f}")


if __name__ == "__main__":
    main()
