"""Each class of metric-learn and what to use instead: code of both, run on the same splits.

    PYTHONPATH=build/metric-learn/published/metric-learn-0.7.0 \\
        .venv-metric-learn/bin/python benchmarks/from_metric_learn.py [--sets iris] [--only LMNN]

`make test-metric-learn` sets up the environment. Prints a table for docs/metric_learn.md: accuracy
of 3-NN, area under the ROC curve of pairs (AUC) and processor seconds of a fit, as means over two
random halves of each set. metric-learn gets standardised features; ours need none. The code in the
documentation is the code in `CODE`. A fit that takes more than --limit seconds of processor time is
stopped. The sets "cells" and "churn" are those of R's modeldata; they need the extra `study`.
"""

from __future__ import annotations

import argparse
import signal
import warnings
from time import process_time

import numpy as np
from common import describe_machine
from sklearn import datasets
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from study_data import _r_table

from tatml._data.sampling import neighbor_triplets

# name of the class: (code of metric-learn, code of tatml); X, y, pairs, signs, triplets,
# quadruplets, chunks and values are given.
CODE = {
    "Covariance": (
        "metric_learn.Covariance().fit(X)",
        "tatml.TATML(C=1e-6, prior='covariance').fit(X, y)",
    ),
    "LMNN": (
        "metric_learn.LMNN(n_neighbors=3).fit(X, y)",
        "tatml.TATMLNeighbors(n_neighbors=3).fit(X, y)",
    ),
    "NCA": ("metric_learn.NCA(max_iter=200).fit(X, y)", "tatml.TATMLNeighbors().fit(X, y)"),
    "LFDA": ("metric_learn.LFDA().fit(X, y)", "tatml.TATML().fit(X, y)"),
    "ITML": (
        "metric_learn.ITML(preprocessor=X).fit(pairs, signs)",
        "tatml.TATMLPairs(preprocessor=X).fit(pairs, signs)",
    ),
    "ITML_Supervised": ("metric_learn.ITML_Supervised().fit(X, y)", "tatml.TATML().fit(X, y)"),
    "SDML": (
        "metric_learn.SDML(preprocessor=X, prior='covariance').fit(pairs, signs)",
        "tatml.TATMLPairs(preprocessor=X).fit(pairs, signs)",
    ),
    "MMC": (
        "metric_learn.MMC(preprocessor=X).fit(pairs, signs)",
        "tatml.TATMLPairs(preprocessor=X).fit(pairs, signs)",
    ),
    "LSML": (
        "metric_learn.LSML(preprocessor=X).fit(quadruplets)",
        "tatml.TATMLQuadruplets(preprocessor=X).fit(quadruplets)",
    ),
    "SCML": (
        "metric_learn.SCML(preprocessor=X, random_state=0).fit(triplets)",
        "tatml.TATMLTriplets(preprocessor=X).fit(triplets)",
    ),
    "RCA": (
        "metric_learn.RCA().fit(X, chunks)",
        "tatml.TATMLPairs(preprocessor=X).fit(*tatml.pairs_from_chunks(chunks, random_state=0))",
    ),
}


DEPENDENT = ("perim_ch_1", "eq_sphere_area_ch_1")  # linear functions of other columns
LARGER = {
    "cells": lambda: _r_table("modeldata", "cells", "class", drop=DEPENDENT),
    "churn": lambda: _r_table("modeldata", "mlc_churn", "churn"),
}


def load(name):
    """Return samples whose columns vary, and labels that count from 0."""
    if name in LARGER:
        X, y, _ = LARGER[name]()
    else:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X[:, X.std(axis=0) > 0], np.unique(y, return_inverse=True)[1]


def stop(*_):
    raise TimeoutError


def given_for(X, y, seed):
    """Return the inputs of all codes, drawn from labelled samples."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(len(X), size=(1000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    signs = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    triplets = neighbor_triplets(X, y, 2, 3)
    triplets = triplets[rng.permutation(len(triplets))[:2000]]
    chunks = np.full(len(X), -1)
    for k in range(50):
        free = np.flatnonzero((y == y[rng.integers(len(y))]) & (chunks == -1))
        chunks[rng.permutation(free)[:3]] = k
    return {
        "X": X,
        "y": y,
        "pairs": pairs,
        "signs": signs,
        "triplets": triplets,
        "quadruplets": triplets[:, [0, 1, 0, 2]],
        "chunks": chunks,
    }


def scores(code, given, test, y_test, limit):
    """Run the code; return the accuracy of 3-NN, the AUC of pairs and the seconds of the fit.

    Raises a TimeoutError after `limit` seconds of processor time.
    """
    import metric_learn

    import tatml

    start = process_time()
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = eval(code, {"metric_learn": metric_learn, "tatml": tatml} | given)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = process_time() - start
    Z, new = model.transform(given["X"]), model.transform(test)
    knn = KNeighborsClassifier(3).fit(Z, given["y"]).score(new, y_test)
    pairs = np.random.default_rng(0).integers(len(new), size=(5000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    distances = np.linalg.norm(new[pairs[:, 0]] - new[pairs[:, 1]], axis=1)
    return knn, roc_auc_score(y_test[pairs[:, 0]] == y_test[pairs[:, 1]], -distances), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="iris,wine,breast_cancer,digits")
    parser.add_argument("--only", default=",".join(CODE))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300.0, help="processor seconds of a fit")
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, stop)
    print(describe_machine())
    for name in options.sets.split(","):
        X, y = load(name)
        for theirs in options.only.split(","):
            cells = [measure(code, X, y, options) for code in CODE[theirs]]
            print(f"| {name} | {theirs} | {' | '.join(cells)} |", flush=True)


def measure(code, X, y, options):
    """Return the text of a cell: means over the repeats, or why there are none."""
    rows = []
    for seed in range(options.repeats):
        split = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
        scaler = StandardScaler().fit(split[0])
        train, test = scaler.transform(split[0]), scaler.transform(split[1])
        given = given_for(train, split[2], seed)
        try:
            rows.append(scores(code, given, test, split[3], options.limit))
        except TimeoutError:
            return f"stopped after {options.limit:.0f} s"
        except Exception as error:  # a failure of either is a result
            return type(error).__name__
    knn, auc, seconds = np.mean(rows, axis=0)
    return f"{knn:.3f} / {auc:.3f} / {seconds:.2f} s"


if __name__ == "__main__":
    main()
