"""Compare Newton with a general conic solver (cvxpy with Clarabel) on the same problems.

Both solve min F to about 1e-8; the table gives seconds, their ratio, and the relative difference of
the values found. Clarabel's own time is shown, and the total time of cvxpy, which compiles the
problem.
"""

from __future__ import annotations

import argparse
from time import perf_counter

import cvxpy as cp
import numpy as np
from common import describe_machine, draw_pairs, make_classes, timed

from tatml import learn_metric

CASES = [((5, 1), 1, 50), ((5, 1), 1, 500), ((9, 9), 2, 80), ((9, 9), 2, 500), ((20, 1), 1, 500)]


def conic(X, pairs, similar, C: float, c0: float) -> tuple[float, float, float]:
    """Return the value, the seconds of Clarabel, and the total seconds of cvxpy."""
    W = [cp.Variable((n, n), PSD=True) for n, _ in X.block_shapes]
    b0 = cp.Variable()
    distance = 0
    for array, matrix in zip(X.arrays, W, strict=True):
        difference = array[pairs[:, 0]] - array[pairs[:, 1]]
        A = np.einsum("kir,kjr->kij", difference, difference).reshape(len(pairs), -1)
        distance = distance + A @ cp.vec(matrix, order="C") / X.n_blocks
    sign, gamma = np.where(similar, 1.0, -1.0), np.where(similar, 0.5, 2.0)
    violation = cp.pos(cp.multiply(sign, distance - gamma * b0))
    prior = sum(cp.trace(m) - cp.log_det(m) - m.shape[0] for m in W)
    objective = prior + C / 2 * cp.sum_squares(violation) + c0 / 2 * cp.square(b0 - 1)
    problem = cp.Problem(cp.Minimize(objective))
    start = perf_counter()
    problem.solve(solver=cp.CLARABEL)
    return problem.value, problem.solver_stats.solve_time, perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first two cases")
    options = parser.parse_args()
    print(describe_machine())
    print(f"{'n×n_':>6} {'M':>2} {'K':>5} {'newton':>10} {'clarabel':>10} {'cvxpy':>10} ", end="")
    print(f"{'clarabel/newton':>16} {'difference':>11}")
    for shape, M, K in CASES[: 2 if options.quick else None]:
        X, y = make_classes(max(60, K // 4), shape, M, spread=1.0)
        pairs, similar = draw_pairs(y, K)
        settings = {"C": 10 / K, "c0": 1.0}
        newton, result = timed(learn_metric, X, pairs, similar, tol=1e-8, **settings)
        value, clarabel, total = conic(X, pairs, similar, **settings)
        difference = abs(value - result.primal) / max(1.0, abs(value))
        print(f"{shape[0]:>3}×{shape[1]:<2} {M:2d} {K:5d} ", end="")
        print("".join(f"{1e3 * spent:8.1f}ms " for spent in (newton, clarabel, total)), end="")
        print(f"{clarabel / newton:16.1f} {difference:11.1e}", flush=True)


if __name__ == "__main__":
    main()
