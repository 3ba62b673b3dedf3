"""Find defaults that suit k-NN and verification: vary one factor at a time.

Every configuration is fitted on random halves of every dataset of a half of `study_data` (split by
object if there are groups) and scored on the rest: accuracy of 3-NN, area under the ROC curve of
pairs, balanced accuracy of pairs at the learnt threshold, and the loss compared with the best
threshold in hindsight. Prints the mean over the datasets per configuration, and with --sets the
scores of each dataset.

    python benchmarks/defaults_study.py [--repeats 3] [--factors C,prior] [--sets] [--vectors]
        [--jobs 2]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from common import describe_machine
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from study_data import add_half_options, as_table, chosen_names, load_some
from study_scores import fit_and_score, halves

from tatml import PAPER, TATML

BEFORE = {"prior": "auto", "C": 1000.0}  # the best setting without a prior from class scatters

FACTORS = {
    "C": [{"C": C} for C in (1, 10, 30, 100, 300, 1e3, 1e4)],
    "strength": [{"threshold_strength": rho} for rho in (0.01, 0.1, 10)]
    + [{"threshold": 1.0}, {"c0": 1.0}],
    "prior": [{"prior": name} for name in ("within", "auto", "scaled")]
    + [BEFORE, BEFORE | {"c0": 1.0}, BEFORE | {"threshold_strength": 0.1}],
    "pairs": [{"n_pairs_per_class": n} for n in (10, 50, 2000)]
    + [{"pairs": "neighbors"}, {"pairs": "neighbors", "prior": "within"}],
    "margin": [{"margin": m} for m in ((0.8, 1.25), (0.25, 4.0))],
    "paper": [dict(PAPER) | {"C": C} for C in (0.1, 10.0)],
}


def scores(changes, X, y, groups, repeats):
    """Return the mean over the halves of 3-NN accuracy, AUC, balanced accuracy, and its best."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for seed, (train, test) in enumerate(halves(X, y, groups, repeats)):
        model = TATML(random_state=seed, tol=1e-4, **changes)
        row = fit_and_score(model, X[train], X[test], y[train], y[test], seed)
        rows.append([row[name] for name in ("3-NN", "AUC", "at threshold", "best")])
    return np.mean(rows, axis=0)


def format_options(options):
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "defaults"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--factors", default=",".join(FACTORS))
    parser.add_argument("--sets", action="store_true", help="print every dataset too")
    parser.add_argument("--vectors", action="store_true", help="matrices as vectors (svec)")
    add_half_options(parser)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    print(describe_machine())
    data = {}
    for name in chosen_names(options, parser, [f"TATML: {options.factors}"]):
        X, y, groups = load_some(name)
        data[name] = (as_table(X) if options.vectors else X, y, groups)
    print(f"{len(data)} datasets: {', '.join(data)}")
    print(f"{'configuration':<64} {'3-NN':>6} {'AUC':>6} {'learnt':>7} {'best':>6} {'lost':>6}")
    for factor in ["defaults", *options.factors.split(",")]:
        for changes in FACTORS.get(factor, [{}]):
            jobs = (delayed(scores)(changes, *d, options.repeats) for d in data.values())
            rows = Parallel(n_jobs=options.jobs)(jobs)
            table = dict(zip(data, rows, strict=True))
            rows = table.items() if options.sets else []
            for name, row in [*rows, ("mean", np.mean(list(table.values()), axis=0))]:
                label = format_options(changes) if name == "mean" else f"    {name}"
                print(
                    f"{label[:64]:<64} "
                    + " ".join(f"{v:6.3f}" for v in row)
                    + f" {row[3] - row[2]:6.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
