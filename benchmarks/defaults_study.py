"""Find defaults that suit k-NN and verification: vary one factor at a time.

Every configuration is fitted on random halves of every dataset of `study_data` (split by object
if there are groups) and scored on the other half: accuracy of 3-NN, area under the ROC curve of
pairs, balanced accuracy of pairs at the learnt threshold, and the loss compared with the best
threshold in hindsight. Prints the mean over the datasets per configuration, and with --sets the
scores of each dataset.

    python benchmarks/defaults_study.py [--repeats 3] [--only C,prior] [--sets] [--vectors]
        [--jobs 2]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from common import describe_machine
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from study_data import SETS, as_table, load
from threshold_quality import held_out_pairs, judge

from tatml import PAPER, TATML

LARGEST = 1500  # largest number of samples per dataset, which limits the run time

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


def halves(X, y, groups, repeats):
    if groups is None:
        splitter = StratifiedShuffleSplit(repeats, test_size=0.5, random_state=0)
    else:
        splitter = GroupShuffleSplit(repeats, test_size=0.5, random_state=0)
    return splitter.split(np.zeros(len(y)), y, groups)


def some_of(X, y, groups):
    if len(y) <= LARGEST:
        return X, y, groups
    keep = np.random.default_rng(0).permutation(len(y))[:LARGEST]
    if groups is not None or len(np.unique(y)) > 50:  # keep whole classes or objects
        keep = np.flatnonzero(np.isin(y, np.unique(y)[: LARGEST * len(np.unique(y)) // len(y)]))
        keep = np.arange(len(y))[:: len(y) // LARGEST + 1] if groups is not None else keep
    return X[keep], y[keep], None if groups is None else groups[keep]


def scores(changes, X, y, groups, repeats):
    """Return the mean over the halves of 3-NN accuracy, AUC, balanced accuracy, and its best."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for seed, (train, test) in enumerate(halves(X, y, groups, repeats)):
        metric = TATML(random_state=seed, tol=1e-4, **changes).fit(X[train], y[train])
        knn = KNeighborsClassifier(3).fit(metric.transform(X[train]), y[train])
        accuracy = knn.score(metric.transform(X[test]), y[test])
        rows.append((accuracy, *judge(metric, X[test], *held_out_pairs(y[test], seed))))
    return np.mean(rows, axis=0)


def format_options(options):
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "defaults"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=",".join(FACTORS))
    parser.add_argument("--sets", action="store_true", help="print every dataset too")
    parser.add_argument("--vectors", action="store_true", help="matrices as vectors (svec)")
    parser.add_argument("--skip", default="", help="datasets to leave out")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    print(describe_machine())
    names = [n for n in SETS if n not in options.skip.split(",") and load(n) is not None]
    data = {}
    for name in names:
        X, y, groups = some_of(*load(name))
        data[name] = (as_table(X) if options.vectors else X, y, groups)
    print(f"{len(data)} datasets: {', '.join(data)}")
    print(f"{'configuration':<64} {'3-NN':>6} {'AUC':>6} {'learnt':>7} {'best':>6} {'lost':>6}")
    for factor in ["defaults", *options.only.split(",")]:
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
