"""Number of Newton steps to a relative gap of 1e-8 for many datasets, pairs, C and c0.

Standardised wine, breast cancer and digits; K in {50, 500, 3,000}; c from 1e-6 to 1e4 per pair; c0
in {0.01, 1, 0.1cK, cK, ∞}. Prints the distribution and every run that failed or took over 40 steps.
With --lower-precision, all runs use conjugate gradients, once with products in float32 and once in
float64, and the numbers of steps are compared; by default products of so few pairs are in float64.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from common import describe_machine, draw_pairs
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from tatml import Newton, learn_metric
from tatml._optim import hessian

SETS = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
STRENGTHS = {"0.01": lambda cK: 0.01, "1": lambda cK: 1.0, "0.1cK": lambda cK: 0.1 * cK,
             "cK": lambda cK: cK, "inf": lambda cK: np.inf}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only K = 50")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lower-precision", action="store_true", help="float32 against float64")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(describe_machine())
    solvers = {"": "newton"}
    if options.lower_precision:
        hessian.WORTH_SINGLE = 0.0
        solvers = {
            name: Newton(linear_solver="cg", lower_precision=single)
            for name, single in (("float32", True), ("float64", False))
        }
    steps, primal = {name: [] for name in solvers}, {name: [] for name in solvers}
    for name, load in SETS.items():
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X[:, X.std(axis=0) > 0])
        for K in (50,) if options.quick else (50, 500, 3_000):
            pairs, similar = draw_pairs(y, K, seed=options.seed)
            for power in range(-6, 5):
                C = 10.0**power
                for label, strength in STRENGTHS.items():
                    case = f"{name}, K = {K}, C = {C:g}, c0 = {label}"
                    settings = {"C": C, "c0": strength(C * K), "tol": 1e-8}
                    for kind, solver in solvers.items():
                        result = learn_metric(X, pairs, similar, solver=solver, **settings)
                        steps[kind].append(result.n_iter)
                        primal[kind].append(result.primal)
                        if not result.converged or result.n_iter > 40:
                            gap = result.gap / max(1.0, abs(result.primal))
                            print(f"{case} {kind}: {result.status}, {gap:.1e}")
    for kind, counts in steps.items():
        print(
            f"{kind} {len(counts)} runs: median {np.median(counts):.0f} steps, 95 % within "
            f"{np.percentile(counts, 95):.0f}, at most {max(counts)}"
        )
    if options.lower_precision:
        more = np.subtract(steps["float32"], steps["float64"])
        values = np.array([primal["float32"], primal["float64"]])
        off = np.max(np.abs(values[0] - values[1]) / np.maximum(1.0, np.abs(values[1])))
        print(
            f"steps in float32 more than in float64: {more.min()} to {more.max()}, "
            f"mean {more.mean():.2f}; objectives differ by at most {off:.0e}"
        )


if __name__ == "__main__":
    main()
