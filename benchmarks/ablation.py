"""Count how many problems Newton's method solves without each of its safeguards.

The problems are those of the oracle (tests/oracle.py), without its judge, and nearest-neighbour
triplets of breast cancer (3 targets, 5 impostors per sample) for C = 10 to 1e5 with a relative gap
of 1e-8. Prints how many converge and the steps of all, and names those that the full method solves
and the reduced one does not, by their seed or C.

    python benchmarks/ablation.py [--seeds 0:1000] [--only "no damped steps"]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import PropertyMock, patch

from common import describe_machine
from comparisons import load
from sklearn.exceptions import ConvergenceWarning

from tatml import Comparisons, Status, learn_metric
from tatml._data.sampling import neighbor_triplets

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from oracle import random_problem

NEWTON = "tatml._optim.newton."
NO_DAMPED = (NEWTON + "damped_step", lambda point, linear_solver: None)
NO_DUAL = (NEWTON + "finish_in_dual", lambda *arguments: Status.PRECISION)
NO_SMOOTHING = (NEWTON + "Pace.cycles", PropertyMock(return_value=False))
VARIANTS = {
    "all": (),
    "no damped steps": (NO_DAMPED,),
    "no Newton on the dual": (NO_DUAL,),
    "no smoothing": (NO_SMOOTHING,),
    "no damped steps, no smoothing": (NO_DAMPED, NO_SMOOTHING),
    "primal-dual steps only": (NO_DAMPED, NO_DUAL, NO_SMOOTHING),
}


def oracle_fits(seeds: range) -> dict:
    """Return a function that fits, by seed, for the problems of the oracle for Newton's method."""
    problems = {seed: random_problem(seed) for seed in seeds}
    return {seed: p.learn for seed, p in problems.items() if p.solver == "newton"}


def triplet_fits() -> dict:
    """Return a function that fits, by C, for the triplets of breast cancer."""
    X, y = load("breast_cancer")
    triplets = neighbor_triplets(X, y, 3, 5)

    def fit(C: float):
        return learn_metric(X, comparisons=Comparisons(triplets, C=C), tol=1e-8)

    return {C: lambda C=C: fit(C) for C in (1e1, 1e2, 1e3, 1e4, 1e5)}


def run(fits: dict, patches: tuple) -> tuple[set, int]:
    """Return the names of the problems that converge, and the number of all steps."""
    solved, steps = set(), 0
    with ExitStack() as stack:
        for name, value in patches:
            stack.enter_context(patch(name, value))
        for name, fit in fits.items():
            try:
                result = fit()
            except ValueError:  # the objective is not finite at the start
                continue
            steps += result.n_iter
            solved |= {name} if result.converged else set()
    return solved, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:1000", help="first:last+1 (default: 0:1000)")
    parser.add_argument("--only", choices=VARIANTS, help="a variant, beside the full method")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(describe_machine())
    sets = {
        "oracle": oracle_fits(range(*map(int, options.seeds.split(":")))),
        "triplets of breast cancer": triplet_fits(),
    }
    for title, fits in sets.items():
        print(f"\n{title}: {len(fits)} problems")
        every: set = set()
        for variant, patches in VARIANTS.items():
            if variant not in ("all", options.only or variant):
                continue
            solved, steps = run(fits, patches)
            every = every or solved
            lost, won = sorted(every - solved), sorted(solved - every)
            print(f"{variant}: {len(solved)} converge, {steps:,} steps, lost {lost}, gained {won}")


if __name__ == "__main__":
    main()
