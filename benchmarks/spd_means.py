"""SPD matrices at their mean: TATML and 3-NN at the identity and at the mean, against pyRiemann.

All datasets of the study whose samples are symmetric positive definite matrices, in the halves of
the study (`study.py`): every method is fitted on random halves and scored on the other halves, and
no mean is computed from a test sample. Accuracy is that of 3-NN for a metric and that of the
classifier otherwise. AUC is that of pairs of held-out samples; for MDM it is that of the
affine-invariant distance, for 3-NN that of the plain distance, and a classifier has none.

"log" is `LogEuclidean`, "mean" is `TangentSpace()`, "vec" is followed by `Vectorize(join=True)`.
With several blocks, MDM adds the squared distances, and logistic regression (LR) has all blocks
side by side; "LR, tuned" chooses C by five folds of the training half.

    python benchmarks/spd_means.py [--half choosing] [--issue N] [--several-modes] [--repeats 3]
"""

from __future__ import annotations

import argparse
import warnings
from time import process_time

import numpy as np
from pyriemann.classification import MDM
from pyriemann.geometry.distance import distance_riemann
from pyriemann.tangentspace import TangentSpace as PyRiemannTangentSpace
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from study import mean_scores, paired
from study_data import (
    MATRIX_SETS,
    MERGED_SETS,
    add_half_options,
    chosen_names,
    current_commit,
    load_some,
)
from study_scores import SCORES, fit_and_score, halves, held_out_pairs

from tatml import TATML, Euclidean
from tatml._data.blocks import as_blocks
from tatml.features import LogEuclidean, TangentSpace, Vectorize

SIGNALS = (
    "motions M=2", "vowels", "vowels in 3", "signals M=3", "signals of 24 channels",
    "signals of 40 channels",
)  # fmt: skip
NOT_SPD = ("digit images", "mnist images")


class BlockMDM(BaseEstimator):
    """pyRiemann's minimum distance to mean; with several blocks, squared distances are added."""

    def fit(self, X, y):
        self.blocks_ = [MDM("riemann").fit(array, y) for array in as_blocks(X).arrays]
        return self

    def predict(self, X):
        parts = zip(self.blocks_, as_blocks(X).arrays, strict=True)
        squares = sum(mdm.transform(array) ** 2 for mdm, array in parts)
        return self.blocks_[0].classes_[np.argmin(squares, axis=1)]

    def pair_distance(self, index, X):
        i, j = index.T
        return sum(distance_riemann(array[i], array[j]) ** 2 for array in as_blocks(X).arrays)


class BlockTangentSpace(TransformerMixin, BaseEstimator):
    """pyRiemann's tangent space, of all blocks side by side."""

    def fit(self, X, y=None):
        self.blocks_ = [PyRiemannTangentSpace().fit(array) for array in as_blocks(X).arrays]
        return self

    def transform(self, X):
        parts = zip(self.blocks_, as_blocks(X).arrays, strict=True)
        return np.hstack([space.transform(array) for space, array in parts])


def tuned_regression():
    grid = {"C": [0.01, 0.1, 1.0, 10.0, 100.0]}
    return GridSearchCV(LogisticRegression(max_iter=2000), grid, cv=5)


def vectors(*steps):
    return make_pipeline(*steps[:-1], Vectorize(join=True), steps[-1])


METRICS = {
    "3-NN, log": lambda seed: make_pipeline(LogEuclidean(), Euclidean(random_state=seed)),
    "3-NN, mean": lambda seed: make_pipeline(TangentSpace(), Euclidean(random_state=seed)),
    "TATML, log": lambda seed: make_pipeline(LogEuclidean(), TATML(random_state=seed)),
    "TATML, mean": lambda seed: make_pipeline(TangentSpace(), TATML(random_state=seed)),
    "TATML vec, log": lambda seed: vectors(LogEuclidean(), TATML(random_state=seed)),
    "TATML vec, mean": lambda seed: vectors(TangentSpace(), TATML(random_state=seed)),
}
CLASSIFIERS = {
    "MDM (pyRiemann)": BlockMDM,
    "LR, log": lambda: vectors(LogEuclidean(), LogisticRegression(max_iter=2000)),
    "LR, mean (pyRiemann)": lambda: make_pipeline(
        BlockTangentSpace(), LogisticRegression(max_iter=2000)
    ),
    "LR, mean, tuned (pyRiemann)": lambda: make_pipeline(BlockTangentSpace(), tuned_regression()),
}
METHODS = (*METRICS, *CLASSIFIERS)
MEAN_AGAINST_LOG = [
    ("3-NN, mean", "3-NN, log"),
    ("TATML, mean", "TATML, log"),
    ("TATML vec, mean", "TATML vec, log"),
    ("LR, mean (pyRiemann)", "LR, log"),
]
AGAINST_PYRIEMANN = [
    (ours, theirs) for ours in list(METRICS)[2:] for theirs in METHODS if "pyRiemann" in theirs
]


def score(method, X_train, X_test, y_train, y_test, seed):
    """Return the SCORES of a method on one half."""
    if method in METRICS:
        model = PairsOfPipeline(METRICS[method](seed))
        return fit_and_score(model, X_train, X_test, y_train, y_test, seed)
    start = process_time()
    model = CLASSIFIERS[method]().fit(X_train, y_train)
    seconds = process_time() - start
    auc = np.nan
    if hasattr(model, "pair_distance"):
        index, similar = held_out_pairs(y_test, seed)
        auc = roc_auc_score(similar, -model.pair_distance(index, X_test))
    accuracy = np.mean(model.predict(X_test) == y_test)
    row = dict.fromkeys(SCORES, np.nan) | {"3-NN": accuracy, "AUC": auc, "seconds": seconds}
    return {name: float(value) for name, value in row.items()}


class PairsOfPipeline(BaseEstimator):
    """A pipeline that ends with a metric, with the distances of pairs and the threshold."""

    def __init__(self, pipeline):
        self.pipeline = pipeline

    def fit(self, X, y):
        self.pipeline.fit(X, y)
        self.threshold_ = self.pipeline[-1].threshold_
        return self

    def transform(self, X):
        return self.pipeline.transform(X)

    def pair_distance(self, index, X):
        return self.pipeline[-1].pair_distance(index, self.pipeline[:-1].transform(X))


def score_set(name, repeats):
    """Return the records of all methods on a dataset."""
    logs, y, groups = load_some(name)
    X = LogEuclidean().inverse_transform(logs)
    splits = list(halves(X, y, groups, repeats))
    records = []
    for method in METHODS:
        rows = []
        for seed, (train, test) in enumerate(splits):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows.append(score(method, X[train], X[test], y[train], y[test], seed))
        scores = {key: [row[key] for row in rows] for key in SCORES}
        records.append({"set": name, "form": "plain", "method": method, "scores": scores})
        cell = _cell(np.mean(scores["3-NN"]), np.mean(scores["AUC"]))
        print(f"{name}, {len(y)} samples, {method}: {cell}", flush=True)
    return records


def print_scores(table, names):
    """Print accuracy / AUC of each method on each dataset, and the means."""
    print("\n| | " + " | ".join(names) + " | mean | fit, s |\n" + "|---" * (len(names) + 3) + "|")
    for method in METHODS:
        scores = table["plain", method]
        cells = [_cell(scores[name]["3-NN"], scores[name]["AUC"]) for name in names]
        means = [np.mean([scores[name][key] for name in names]) for key in ("3-NN", "AUC")]
        seconds = np.mean([scores[name]["seconds"] for name in names])
        print(f"| {method} | {' | '.join(cells)} | {_cell(*means)} | {seconds:.2f} |")


def _cell(accuracy, auc):
    text = f"{accuracy:.3f}" + ("" if np.isnan(auc) else f" / {auc:.3f}")
    return text.replace("0.", ".")


def print_differences(table, names, pairs, title):
    """Print paired differences of accuracy and AUC over the datasets, with wins and losses."""
    print(f"\n| {title} | accuracy | wins : losses | AUC | wins : losses |\n" + "|---" * 5 + "|")
    for first, second in pairs:
        rows = [
            {name: table["plain", method][name] for name in names} for method in (first, second)
        ]
        cells = []
        for key in ("3-NN", "AUC"):
            change, error, wins, losses, count = paired(*rows, key)
            text = f"{change:+.3f} ± {error:.3f} | {wins} : {losses}".replace("0.", ".")
            cells.append(text if count else "– | –")
        print(f"| {first} − {second} | {' | '.join(cells)} |")


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_half_options(parser)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    known = MERGED_SETS if options.several_modes else MATRIX_SETS
    spd = [name for name in known[options.half] if _is_spd(name)]
    options.only = options.only or ",".join(spd)
    return options, parser


def _is_spd(name):
    matrices = {*MATRIX_SETS["choosing"], *MATRIX_SETS["confirming"]} - {*NOT_SPD}
    return name in matrices or any(name.startswith(f"{one} in ") for one in matrices)


def main() -> None:
    options, parser = parse_options()
    names = chosen_names(options, parser, METHODS, matrix=True)
    records = []
    for name in names:
        records += score_set(name, options.repeats)
    table = mean_scores(records)
    print(f"\n{options.half} half, commit {current_commit()}, {options.repeats} halves per dataset")
    print_scores(table, names)
    for label, kept in (
        ("all", names),
        ("signals", [name for name in names if name in SIGNALS]),
        ("others", [name for name in names if name not in SIGNALS]),
    ):
        title = f"{label}, {len(kept)} datasets"
        print_differences(table, kept, MEAN_AGAINST_LOG, f"mean against log, {title}")
    print_differences(table, names, AGAINST_PYRIEMANN, "TATML against pyRiemann")


if __name__ == "__main__":
    main()
