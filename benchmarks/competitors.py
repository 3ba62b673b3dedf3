"""Compare TATML with other methods: accuracy of 3-NN, verification, and the time of a fit.

Random halves of every dataset of `study_data` (split by object where there are groups). Every
method is at its best: tables are standardised for those that need it, matrices become vectors for
those that take none, and ITML's γ, GMML's t and LDA's shrinkage are chosen by cross-validation in
the training half, as TATMLCV chooses C. Printed for each dataset and as a mean: accuracy of 3-NN /
area under the ROC curve of pairs / balanced accuracy at the method's own threshold; then the
seconds of a fit relative to TATML's.

    python benchmarks/competitors.py [--repeats 3] [--skip "digits,…"] [--only "wine,…"] [--jobs 2]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from time import perf_counter

import numpy as np
from common import describe_machine, timed
from defaults_study import halves, some_of
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from study_data import SETS, as_table, load
from threshold_quality import held_out_pairs

from tatml import GMML, ITML, TATML, TATMLCV, Euclidean


class Vectors(TransformerMixin, BaseEstimator):
    """A transformer that turns samples into vectors."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return as_table(X)


def tuned(metric, grid):
    """Return the metric with the parameters that are best for 3-NN in cross-validation."""
    pipeline = Pipeline([("metric", metric), ("knn", KNeighborsClassifier(3))])
    grid = {f"metric__{name}": values for name, values in grid.items()}

    class Tuned(BaseEstimator):
        def fit(self, X, y):
            search = GridSearchCV(pipeline, grid, cv=5, error_score=0.0).fit(X, y)
            self.best_ = search.best_estimator_["metric"]
            return self

        def transform(self, X):
            return self.best_.transform(X)

    return Tuned()


def lda():
    steps = make_pipeline(Vectors(), StandardScaler(), LinearDiscriminantAnalysis(solver="eigen"))
    grid = {"lineardiscriminantanalysis__shrinkage": ["auto", 0.01, 0.1, 0.5]}
    return tuned(steps, grid)


METHODS = {
    "Euclidean": lambda seed: Euclidean(random_state=seed),
    "Euclidean, standardised": lambda seed: make_pipeline(
        Vectors(), StandardScaler(), Euclidean(random_state=seed)
    ),
    "NCA": lambda seed: make_pipeline(
        Vectors(), StandardScaler(), NeighborhoodComponentsAnalysis(random_state=seed)
    ),
    "LDA": lambda seed: lda(),
    "ITML": lambda seed: tuned(ITML(random_state=seed), {"gamma": [1e-3, 0.01, 0.1, 1.0, 10.0]}),
    "ITML vec": lambda seed: tuned(
        make_pipeline(Vectors(), ITML(random_state=seed)),
        {"itml__gamma": [1e-3, 0.01, 0.1, 1.0, 10.0]},
    ),
    "GMML": lambda seed: tuned(GMML(random_state=seed), {"t": [0.1, 0.3, 0.5, 0.7, 0.9]}),
    "GMML vec": lambda seed: tuned(
        make_pipeline(Vectors(), GMML(random_state=seed)), {"gmml__t": [0.1, 0.3, 0.5, 0.7, 0.9]}
    ),
    "TATML": lambda seed: TATML(random_state=seed),
    "TATML vec": lambda seed: make_pipeline(Vectors(), TATML(random_state=seed)),
    "TATMLCV": lambda seed: TATMLCV(random_state=seed),
    "TATMLCV vec": lambda seed: make_pipeline(
        Vectors(),
        TATMLCV(
            priors=["discriminant", "within"],
            pair_strategies=["random", "neighbors"],
            random_state=seed,
        ),
    ),
}


def balanced_at_own_threshold(metric, distances, similar):
    last = metric[-1] if hasattr(metric, "steps") else getattr(metric, "best_", metric)
    last = last[-1] if hasattr(last, "steps") else last
    if not hasattr(last, "threshold_"):
        return np.nan
    return balanced_accuracy_score(similar, distances < last.threshold_)


def evaluate(make, X, y, groups, repeats):
    rows = []
    for seed, (train, test) in enumerate(halves(X, y, groups, repeats)):
        start = perf_counter()
        metric = make(seed).fit(X[train], y[train])
        seconds = perf_counter() - start
        known, wanted = metric.transform(X[train]), metric.transform(X[test])
        accuracy = KNeighborsClassifier(3).fit(known, y[train]).score(wanted, y[test])
        index, similar = held_out_pairs(y[test], seed)
        distances = np.linalg.norm(wanted[index[:, 0]] - wanted[index[:, 1]], axis=1)
        own = balanced_at_own_threshold(metric, distances, similar)
        rows.append((accuracy, roc_auc_score(similar, -distances), own, seconds))
    return np.mean(rows, axis=0)


def row_of(method, name, repeats):
    """Return the scores of a method on a dataset."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y, groups = some_of(*load(name))
    start = perf_counter()
    row = evaluate(METHODS[method], X, y, groups, repeats)
    print(f"  {name}, {method}: {perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return row


def wanted(method, name):
    """Return False for the vector form of a table, which is the table itself."""
    is_table = name in ("wine", "breast cancer", "digits", "iris", "power demand", "gun point")
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
    parser.add_argument("--skip", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--methods", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--digits", action="store_true", help="only time the fits on digits")
    options = parser.parse_args()
    print(describe_machine())
    if options.digits:
        return print_digits()
    chosen = options.only.split(",") if options.only else list(SETS)
    names = [n for n in chosen if n not in options.skip.split(",") and load(n) is not None]
    methods = options.methods.split(",") if options.methods else list(METHODS)
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
