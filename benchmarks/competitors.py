"""Compare TATML with other methods: accuracy of 3-NN, verification, and the time of a fit.

Random halves of every dataset of a half of `study_data` (split by object where there are groups).
`study_methods` has the methods, each at its best. Printed for each dataset and as a mean: accuracy
of 3-NN / area under the ROC curve of pairs / balanced accuracy at the method's own threshold; then
the seconds of a fit relative to TATML's.

    python benchmarks/competitors.py [--half choosing] [--repeats 3] [--skip "digits,…"]
        [--only "wine,…"] [--methods "TATML,LDA,…"] [--jobs 2]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from time import perf_counter

import numpy as np
from common import describe_machine, timed
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from study_data import MATRIX_SETS, add_half_options, chosen_names, load_some
from study_methods import METHODS
from study_scores import fit_and_score, halves

from tatml import TATML


def evaluate(make, X, y, groups, repeats):
    rows = []
    for seed, (train, test) in enumerate(halves(X, y, groups, repeats)):
        scores = fit_and_score(make(seed), X[train], X[test], y[train], y[test], seed)
        rows.append([scores[name] for name in ("3-NN", "AUC", "at threshold", "seconds")])
    return np.mean(rows, axis=0)


def row_of(method, name, repeats):
    """Return the scores of a method on a dataset."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y, groups = load_some(name)
    start = perf_counter()
    row = evaluate(METHODS[method], X, y, groups, repeats)
    print(f"  {name}, {method}: {perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return row


def wanted(method, name):
    """Return False for the vector form of a table, which is the table itself."""
    is_table = name not in (*MATRIX_SETS["choosing"], *MATRIX_SETS["confirming"])
    return not (is_table and method in ("ITML vec", "GMML vec", "TATML vec"))


def print_digits():
    """Print the fit times of TATML with 2,000 pairs, NCA and LDA on all digits."""
    X, y = load_digits(return_X_y=True)
    plain = {
        "TATML, 2,000 pairs": TATML(n_pairs_per_class=200, random_state=0),
        "NCA": NeighborhoodComponentsAnalysis(random_state=0),
        "LDA": LinearDiscriminantAnalysis(),
    }
    seconds = {name: timed(model.fit, X, y)[0] for name, model in plain.items()}
    ours = seconds["TATML, 2,000 pairs"]
    for name, spent in seconds.items():
        print(f"digits, {name}: {spent:.3f} s, {spent / ours:.2f} of TATML's time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    add_half_options(parser)
    parser.add_argument("--methods", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--digits", action="store_true", help="only time the fits on digits")
    options = parser.parse_args()
    print(describe_machine())
    if options.digits:
        return print_digits()
    methods = options.methods.split(",") if options.methods else list(METHODS)
    names = chosen_names(options, parser, methods)
    keys = [(name, method) for name in names for method in methods if wanted(method, name)]
    jobs = (delayed(row_of)(method, name, options.repeats) for name, method in keys)
    table = dict(zip(keys, Parallel(n_jobs=options.jobs)(jobs), strict=True))
    for name in names:
        for method in methods:
            table.setdefault((name, method), table.get((name, method.removesuffix(" vec"))))
    print_sets(table, names, methods)
    print_means(table, names, methods)


def print_sets(table, names, methods):
    """Print 3-NN, AUC, balanced accuracy at the learnt threshold, and seconds as Markdown."""
    for name in names:
        print(f"\n| {name} | 3-NN | AUC | at its threshold | seconds |\n|---|---|---|---|---|")
        for method in methods:
            row = table[name, method]
            print(f"| {method} | {row[0]:.3f} | {row[1]:.3f} | {row[2]:.3f} | {row[3]:.3f} |")


def print_means(table, names, methods):
    base = np.array([table[name, "TATML"][3] for name in names]) if "TATML" in methods else 1.0
    print("\n| mean | 3-NN | AUC | at its threshold | seconds / TATML's (geometric) |")
    print("|---|---|---|---|---|")
    for method in methods:
        rows = np.array([table[name, method] for name in names])
        ratio = np.exp(np.mean(np.log(rows[:, 3] / base)))
        mean = rows.mean(axis=0)
        print(f"| {method} | {mean[0]:.4f} | {mean[1]:.4f} | {mean[2]:.4f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
