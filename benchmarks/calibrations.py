"""Held-out cost of log-likelihood ratios (Cllr, in bits) by method of `calibrate_probability`.

Samples of a dataset are divided into three parts: a metric is learnt on the first, probabilities
are calibrated on pairs of the second, and scored on pairs of the third. Means over the runs. "auto"
divides pairs into folds, "auto, samples" divides the samples of the pairs. "least" is that of the
best calibration of the test pairs in hindsight.

    python benchmarks/calibrations.py [--runs 10] [--pairs 300 3000] [--only WORD] [--jobs 16]
"""

from __future__ import annotations

import argparse
import multiprocessing

import numpy as np
from common import describe_machine
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

from tatml import TATML, PairThreshold
from tatml.verification import report

DATASETS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
SCORES = ("euclidean", "cosine", "TATML", "TATML, midpoint", "posteriors of a forest")
METHODS = ("logistic", "isotonic", "gaussian", "auto", "auto, samples")


def distances_of(score, X, y, index):
    """Return a function from pairs of rows to distances, learnt on some rows."""
    rows = X[index], y[index]
    if score in ("euclidean", "cosine"):
        return lambda pairs: (
            PairThreshold(score).fit(X[pairs], signs(y, pairs)).pair_distance(X[pairs])
        )
    if score.startswith("TATML"):
        model = TATML(midpoint="midpoint" in score, random_state=0).fit(*rows)
        return lambda pairs: -model.pair_score(pairs, X)
    forest = RandomForestClassifier(random_state=0).fit(*rows)
    table = forest.predict_proba(X)
    return lambda pairs: -np.einsum("ij,ij->i", table[pairs[:, 0]], table[pairs[:, 1]])


def signs(y, pairs):
    return np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


def draw_pairs(rng, rows, y, n_pairs):
    """Draw pairs of different rows, a third of them similar."""
    pairs = rng.choice(rows, (30 * n_pairs, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = signs(y, pairs) > 0
    chosen = [pairs[same][: n_pairs // 3], pairs[~same][: n_pairs - n_pairs // 3]]
    return np.concatenate(chosen)


def run(task):
    """Return the Cllr of each method, and the least one."""
    name, score, n_pairs, seed = task
    rng = np.random.default_rng(seed)
    X, y = DATASETS[name](return_X_y=True)
    X = StandardScaler().fit_transform(X)
    parts = np.array_split(rng.permutation(len(X)), 3)
    distance = distances_of(score, X, y, parts[0])
    tune = draw_pairs(rng, parts[1], y, n_pairs)
    test = draw_pairs(rng, parts[2], y, 6000)
    known, seen = distance(tune), distance(test)
    found = []
    for method in METHODS:
        word, _, by_sample = method.partition(", ")
        judge = PairThreshold("precomputed").fit(known, signs(y, tune))
        groups = tune if by_sample else None
        judge.calibrate_probability(known, signs(y, tune), method=word, groups=groups)
        measured = report(judge, seen, signs(y, test))
        found.append(measured.cllr)
    return [*found, measured.least_cllr]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--pairs", type=int, nargs="+", default=[300, 3000])
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    cells = [
        (name, score, n)
        for name in DATASETS
        for score in SCORES
        for n in given.pairs
        if given.only in f"{name}, {score}"
    ]
    tasks = [(*cell, seed) for cell in cells for seed in range(given.runs)]
    print(describe_machine())
    print(f"| dataset, distance | pairs | {' | '.join(METHODS)} | least |")
    print("|" + "---|" * (len(METHODS) + 3))
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        found = np.reshape(pool.map(run, tasks, chunksize=1), (len(cells), given.runs, -1))
    for (name, score, n), means in zip(cells, found.mean(axis=1), strict=True):
        print(f"| {name}, {score} | {n} | {' | '.join(f'{x:.3f}' for x in means)} |")
    for n in given.pairs:
        means = found[[cell[2] == n for cell in cells]].mean(axis=(0, 1))
        print(f"| all | {n} | {' | '.join(f'{x:.3f}' for x in means)} |")


if __name__ == "__main__":
    main()
