"""Compare rank-one updates of W and of its factor in Dykstra: seconds and drift.

    python benchmarks/dykstra_drift.py [--quick]

The solver keeps L with W = L Lᵀ. The Sherman-Morrison update of W needs fewer operations. Both
run over the same vectors, without recomputing W from the multipliers; the features are scaled so
that W becomes ill-conditioned. Drift is the largest entry of L*⁻¹ W L*⁻ᵀ − I, with L* computed from
the multipliers.
"""

import argparse
from math import inf
from time import perf_counter

import numpy as np
from scipy.linalg import blas
from threadpoolctl import threadpool_limits

from tatml._data.blocks import Blocks
from tatml._data.pairs import as_pairs
from tatml._optim import dykstra
from tatml._optim.dykstra import RankOneBlock
from tatml._optim.problem import LogDetProblem, squared_hinge


class ShermanMorrisonBlock:
    """The upper triangle of W, W ← W − δ/(1 + δ p) (Wv)(Wv)ᵀ."""

    def __init__(self, n):
        self.W, self.image = np.empty((n, n), order="F"), np.empty(n)

    def reset(self, L):
        self.W[...] = L @ L.T

    def metric(self):
        return np.triu(self.W) + np.triu(self.W, 1).T

    def load(self, rows):
        self.rows = rows[:, 0, :]

    def square(self, place):
        v = self.rows[place]
        self.image = blas.dsymv(1.0, self.W, v, 0.0, self.image, 0, 1, 0, 1, 0, 1)
        self.p = max(blas.ddot(v, self.image), 0.0)
        return self.p

    def shift(self, delta):
        scale = -delta / (1 + delta * self.p)
        blas.dsyr(scale, self.image, 0, 1, 0, self.image.shape[0], self.W, 1)


def make_problem(n, n_pairs, largest, smallest, C, c0):
    """Return a problem with vectors of five classes whose features have decreasing scales."""
    rng = np.random.default_rng(0)
    label = rng.integers(5, size=200)
    X = rng.normal(size=(200, n)) + 2 * rng.normal(size=(5, n))[label]
    first = rng.integers(200, size=n_pairs)
    second = (first + rng.integers(1, 200, size=n_pairs)) % 200
    chosen = as_pairs(np.stack([first, second], 1), label[first] == label[second], 200, None)
    blocks = Blocks(X * np.geomspace(largest, smallest, n))
    return LogDetProblem.build(blocks, chosen, squared_hinge(chosen, C, (0.5, 2.0)), c0=c0, mu0=1.0)


def sweep(problem, kind, epochs):
    """Return the seconds per projection, the drift, and the condition number of W."""
    n, n_pairs = problem.sizes[0], problem.pairs.sums.n_pairs
    state = dykstra._State(problem, "efficient", np.zeros(n_pairs))
    state.blocks = [kind(n)]
    state.blocks[0].reset(np.eye(n))
    order, start = np.random.RandomState(0), perf_counter()
    for _ in range(epochs):
        for visit in dykstra._visits(state, dykstra.ORDERS["permutation"], order):
            state.project(*visit)
    seconds = (perf_counter() - start) / (epochs * n_pairs)
    point = dykstra.dual_point(problem, problem.pairs.loss.sign * np.array(state.alpha))
    inverse = np.linalg.inv(point.L[0])
    drift = np.max(np.abs(inverse @ state.blocks[0].metric() @ inverse.T - np.eye(n)))
    return seconds, drift, np.linalg.cond(point.L[0]) ** 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, small sizes")
    quick = parser.parse_args().quick
    cases = [
        (9, 2_000, 1.0, 1.0, 1.0, 1.0, 20),
        (50, 2_000, 1.0, 1.0, 1.0, 1.0, 20),
        (200, 2_000, 1.0, 1.0, 1.0, 1.0, 5),
        (20, 500, 1e3, 1e-2, 1e4, inf, 400),
        (20, 100, 1e5, 1e-2, 1e6, inf, 1000),
    ]
    print("| n | c | condition of W | W: µs | W: drift | factor: µs | factor: drift | time ratio |")
    print("|---|---|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for n, n_pairs, largest, smallest, C, c0, epochs in cases[:1] if quick else cases:
            problem = make_problem(n, n_pairs, largest, smallest, C, c0)
            direct, direct_drift, _ = sweep(problem, ShermanMorrisonBlock, epochs)
            factor, factor_drift, condition = sweep(problem, RankOneBlock, epochs)
            print(
                f"| {n} | {C:g} | {condition:.0e} | {direct * 1e6:.1f} | {direct_drift:.0e} "
                f"| {factor * 1e6:.1f} | {factor_drift:.0e} | {factor / direct:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
