"""Compare the three solvers of Newton's system, and the automatic choice.

Whole fits to a relative gap of 1e-6, on a grid of (n, n', M, K, share of active pairs). "few"
means distant classes, where few pairs violate their margin, "most" means overlapping classes. A
solver is skipped if its matrix would have more than 6,000 rows. The last line is the median of
auto/best. The first lines are the fit of vectors with n = 64 and K = 20,000, most pairs active.
"""

from __future__ import annotations

import argparse
from math import inf

import numpy as np
from common import describe_machine, draw_pairs, make_classes, timed

from tatml import Newton, learn_metric
from tatml._optim.hessian import dimension
from tatml._optim.linear_systems import LARGEST_MATRIX

SOLVERS = ("dense", "woodbury", "cg", "auto")
GRID = [
    (n, width, M, K, kind, cK)
    for n, width, M in ((8, 1, 1), (16, 1, 2), (32, 1, 1), (64, 1, 1), (9, 9, 2), (20, 5, 1))
    for K in (200, 2_000, 20_000)
    for kind in ("few", "most")
    for cK in (1e2, 1e5)
]


def make_problem(n: int, width: int, M: int, K: int, kind: str, cK: float) -> dict:
    spread = {"few": 4.0, "most": 0.7}[kind]
    X, y = make_classes(min(max(K // 5, 60), 4_000), (n, width), M, spread)
    pairs, similar = draw_pairs(y, K)
    return {"X": X, "pairs": pairs, "similar": similar, "C": cK / K, "c0": 0.1 * cK}


def fit(problem: dict, linear_solver: str = "auto") -> object:
    return learn_metric(**problem, solver=Newton(linear_solver=linear_solver, random_state=0))


def measure(row: tuple, repeats: int) -> tuple[dict, object]:
    problem = make_problem(*row)
    spent = {}
    spent["auto"], result = timed(fit, problem, repeats=repeats)
    active = int(result.history["n_active"].max())
    size = dimension([shape[0] for shape in problem["X"].block_shapes])
    rows = {"dense": size, "woodbury": active, "cg": 0}
    for name in SOLVERS[:3]:
        allowed = rows[name] <= LARGEST_MATRIX / 2
        spent[name] = inf
        if allowed:
            spent[name], _ = timed(fit, problem, name, repeats=repeats)
    return spent, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a sixth of the grid")
    options = parser.parse_args()
    print(describe_machine())
    if not options.quick:
        problem = make_problem(64, 1, 1, 20_000, "most", 1e4)
        dense, result = timed(fit, problem, "dense", repeats=1)
        auto, _ = timed(fit, problem)
        share = result.history["n_active"].mean() / len(problem["pairs"])
        print(f"n = 64, K = 20,000, {share:.0%} active, d = 2,081:")
        print(f"dense {dense:.2f} s, auto {auto:.2f} s")
        print(f"auto / dense = {auto / dense:.3f}\n")
    print(f"{'n':>4} {'n_':>3} {'M':>2} {'K':>6} {'kind':>5} {'cK':>6} {'active':>7} ", end="")
    print(
        "".join(f"{name:>10}" for name in SOLVERS) + f" {'chosen':>9} {'best':>9} {'auto/best':>9}"
    )
    ratios = []
    for row in GRID[:: 6 if options.quick else 1]:
        spent, result = measure(row, repeats=3)
        best = min(SOLVERS[:3], key=spent.get)
        ratios.append(spent["auto"] / spent[best])
        n, width, M, K, kind, cK = row
        share = len(result.active) / K
        print(f"{n:4d} {width:3d} {M:2d} {K:6d} {kind:>5} {cK:6.0e} {share:7.2f} ", end="")
        print("".join(f"{1e3 * spent[name]:9.1f}m" for name in SOLVERS), end="")
        print(f" {result.history['linear'][-1]:>9} {best:>9} {ratios[-1]:9.2f}", flush=True)
    print(
        f"\nmedian auto/best = {np.median(ratios):.2f}, worst = {max(ratios):.2f} (m: milliseconds)"
    )


if __name__ == "__main__":
    main()
