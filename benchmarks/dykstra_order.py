"""Compare orders of Dykstra's projections: epochs to a relative gap of 1e-4.

    python benchmarks/dykstra_order.py [--quick]

Median over seeds, which the cyclic order ignores; "> n" means that the limit of epochs was reached.
An epoch has as many projections as there are pairs.
"""

import argparse
from math import inf
from statistics import median

from newton_vs_dykstra import make_problem
from threadpoolctl import threadpool_limits

from tatml import Dykstra

ORDERS = ("permutation", "random", "cyclic")
CASES = [
    ("vectors, n = 9", [(9, 1)], 1.0, 1.0),
    ("vectors, n = 9", [(9, 1)], 1.0, inf),
    ("9 × 3 matrices", [(9, 3)], 1.0, 1.0),
    ("two 9 × 9 blocks", [(9, 9), (9, 9)], 0.1, 1.0),
    ("two 9 × 9 blocks", [(9, 9), (9, 9)], 1.0, 1.0),
    ("two 9 × 9 blocks", [(9, 9), (9, 9)], 1.0, 0.1),
    ("two 9 × 9 blocks", [(9, 9), (9, 9)], 1.0, inf),
]


def epochs(problem, order, seed, limit):
    """Return the epochs to a certified gap of 1e-4, or infinity beyond the limit."""
    result = Dykstra(order=order, max_iter=limit, random_state=seed).solve(problem, tol=1e-4)
    return result.n_iter if result.converged else inf


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, small sizes")
    quick = parser.parse_args().quick
    n_pairs, limit, seeds = (60, 50, 1) if quick else (1_000, 300, 3)
    print(f"epochs to a relative gap of 1e-4, K = {n_pairs:,}, at most {limit} epochs")
    print("| samples | c | c0 | " + " | ".join(ORDERS) + " | random / permutation |")
    print("|---|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for name, shapes, C, c0 in CASES:
            problem = make_problem(n_pairs, shapes=shapes, C=C, c0=c0)
            found = []
            for order in ORDERS:
                repeats = 1 if order == "cyclic" else seeds
                found.append(median(epochs(problem, order, i, limit) for i in range(repeats)))
            cells = [f"{value:g}" if value < inf else f"> {limit}" for value in found]
            known = max(found[:2]) < inf
            ratio = f"{found[1] / found[0]:.2f}" if known else "-"
            print(f"| {name} | {C:g} | {c0:g} | {' | '.join(cells)} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
