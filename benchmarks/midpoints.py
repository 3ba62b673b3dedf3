"""The study of midpoints: how well scores of pairs tell the same from different, by dataset.

Every method is fitted on random halves of every dataset. One half of the other samples calibrates a
threshold that promises a false match rate (FMR) of 0.1 with confidence 0.95; the rest is scored on
random pairs, half of them of the same class. Printed: area under the ROC curve (AUC); balanced
accuracy at the threshold that the fit has found; equal error rate (EER); false non-match rate
(FNMR) at the promised FMR; log loss at equal prior odds, by the log-likelihood ratio of the fit
and, for the same cross-fitted scores, by isotonic regression; processor seconds of a fit. Means
over the datasets, then differences from the first method, with their standard error, wins and
losses.

    python benchmarks/midpoints.py [--half choosing] [--matrix] [--new-classes] [--only wine,iris]
        [--methods "TATML()" "TATML(midpoint=True)" PLDA …] [--repeats 3] [--jobs 2] [--sets]
        [--json FILE]
    python benchmarks/midpoints.py --read FILE

With --new-classes, half of the classes are learnt from, and the others are scored (datasets with
six classes or more). The confirming half is opened as in `study.py`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from time import process_time

import numpy as np
import scipy.linalg
from common import describe_machine
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from study import paired, save_study
from study_data import add_half_options, as_table, chosen_names, load_some, open_half
from study_scores import halves, held_out_pairs

import tatml
from tatml import Blocks, PairThreshold
from tatml._learning import cross_fit
from tatml._learning.labelled import LabelledSamples, folds_of
from tatml._learning.task import Settings
from tatml._verification.calibration import equal_error_rate
from tatml._verification.probabilities import fit_log_likelihood_ratio

SCORES = ("AUC", "at threshold", "EER", "FNMR", "log loss", "isotonic", "seconds")
LOWER_IS_BETTER = SCORES[2:]
MAX_RATE = 0.1
SHRINKAGES = (0.0, 0.01, 0.03, 0.1, 0.3, 0.6)
FEWEST_CLASSES = 6  # of a dataset whose classes are divided


# The methods: fit(X, y), score(pairs, X), and a threshold of the score


class Judge(BaseEstimator):
    """A score of pairs; its threshold is the best one for pairs of cross-validation.

    A logistic regression on the same scores gives the log-likelihood ratio. Where classes are
    divided, the folds are of classes.
    """

    new_classes = False

    def folds(self, y):
        samples = LabelledSamples(Blocks(np.zeros((len(y), 1))), y, None)
        return folds_of(samples, Settings(new_classes=self.new_classes))

    def fit(self, X, y):
        X, y = as_table(X), np.unique(y, return_inverse=True)[1]
        scores, similar = [], []
        for train, test in self.folds(y):
            self.learn(X[train], y[train])
            index, same = held_out_pairs(y[test], seed=0)
            scores.append(self.score(index, X[test]))
            similar.append(same)
        self.threshold, self.ratio = -np.inf, None
        if scores:
            scores, similar = np.concatenate(scores), np.concatenate(similar)
            self.threshold = best_threshold(scores, similar)
            self.ratio = fit_log_likelihood_ratio(-scores, similar, np.ones(len(scores)))
        self.learn(X, y)
        return self


def best_threshold(scores, similar):
    """Return the threshold with the highest balanced accuracy."""
    order = np.argsort(-scores)
    gain = np.where(similar, 1 / similar.sum(), -1 / (~similar).sum())[order]
    best = int(np.argmax(np.cumsum(gain)))
    ends = scores[order][best : best + 2]
    return float(np.mean(ends))


class Cosine(Judge):
    """The cosine of standardised samples."""

    def learn(self, X, y):
        self.map = StandardScaler().fit(X)

    def score(self, index, X):
        rows = self.map.transform(as_table(X))
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        return np.einsum("ij,ij->i", rows[index[:, 0]], rows[index[:, 1]])


def scatters(X, y, shrinkage):
    """Return the mean of the class means, and the covariances between and within classes."""
    y = np.unique(y, return_inverse=True)[1]
    counts = np.bincount(y)
    means = np.stack([np.bincount(y, column) for column in X.T], axis=1) / counts[:, None]
    rows = X - means[y]
    within = rows.T @ rows / max(1, len(X) - len(counts))
    within = (1 - shrinkage) * within + (shrinkage + 1e-6) * np.diag(np.diagonal(within))
    within[np.diag_indices_from(within)] += 1e-9 * np.trace(within) / len(within) + 1e-30
    deviations = (means - X.mean(axis=0)) * np.sqrt(counts)[:, None]
    size = (len(X) - np.sum(counts**2) / len(X)) / (len(counts) - 1)
    between = (deviations.T @ deviations / (len(counts) - 1) - within) / size
    return means.mean(axis=0), between, within


class Shrunk(Judge):
    """A method whose shrinkage is the best for pairs of cross-validation."""

    def fit(self, X, y):
        X, best = as_table(X), -1.0
        for shrinkage in SHRINKAGES:
            self.shrinkage, areas = shrinkage, []
            for train, test in self.folds(np.unique(y, return_inverse=True)[1]):
                self.learn(X[train], y[train])
                index, same = held_out_pairs(y[test], seed=0)
                areas.append(roc_auc_score(same, self.score(index, X[test])))
            if np.mean(areas or 0) > best:
                best, chosen = np.mean(areas or 0), shrinkage
        self.shrinkage = chosen
        return super().fit(X, y)


class LDA(Shrunk):
    """The cosine of discriminant coordinates."""

    def learn(self, X, y):
        self.scaler = StandardScaler().fit(X)
        rows = self.scaler.transform(X)
        self.mean, between, within = scatters(rows, y, self.shrinkage)
        n_axes = min(len(np.unique(y)) - 1, X.shape[1])
        self.axes = scipy.linalg.eigh(between, within)[1][:, ::-1][:, :n_axes]

    def score(self, index, X):
        rows = (self.scaler.transform(as_table(X)) - self.mean) @ self.axes
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        return np.einsum("ij,ij->i", rows[index[:, 0]], rows[index[:, 1]])


class PLDA(Shrunk):
    """The log-likelihood ratio of the two-covariance model, for classes never seen."""

    def learn(self, X, y):
        self.scaler = StandardScaler().fit(X)
        self.mean, between, within = scatters(self.scaler.transform(X), y, self.shrinkage)
        values, self.axes = scipy.linalg.eigh(between, within)
        self.psi = np.maximum(values, 0)

    def score(self, index, X):
        rows = (self.scaler.transform(as_table(X)) - self.mean) @ self.axes
        total, b = 1 + self.psi, self.psi
        determinant = total**2 - b**2
        constant = np.sum(np.log(total) - np.log(determinant) / 2)
        x, y = rows[index[:, 0]], rows[index[:, 1]]
        own = (x**2 + y**2) @ (total / determinant - 1 / total) / 2
        return constant + np.einsum("ij,j,ij->i", x, b / determinant, y) - own


class Posteriors(Judge):
    """The inner product of class posteriors, for known classes."""

    def __init__(self, classifier):
        self.classifier = classifier

    def learn(self, X, y):
        self.classifier.fit(X, y)

    def score(self, index, X):
        rows = self.classifier.predict_proba(as_table(X))
        return np.einsum("ij,ij->i", rows[index[:, 0]], rows[index[:, 1]])


class Learnt(BaseEstimator):
    """An estimator of tatml, with the cross-fitted scores that its ratio was fitted to.

    Distances have no such ratio.
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        seen, fit_ratio = [], cross_fit.fit_log_likelihood_ratio

        def noted(values, similar, weights):
            seen.append((values, similar, weights))
            return fit_ratio(values, similar, weights)

        cross_fit.fit_log_likelihood_ratio = noted
        try:
            self.estimator.fit(X, y)
        finally:
            cross_fit.fit_log_likelihood_ratio = fit_ratio
        self.threshold, self.isotonic = -self.estimator.threshold_, None
        self.ratio = getattr(self.estimator, "likelihood_ratio_", None)
        if seen:
            values, similar, weights = seen[-1]
            self.isotonic = isotonic_ratio(values, similar, weights)
        return self

    def score(self, index, X):
        return self.estimator.pair_score(index, X)


def isotonic_ratio(values, similar, weights):
    """Return the function q − b0 → probability of "same", at equal odds."""
    balanced = np.where(similar, 1 / weights[similar].sum(), 1 / weights[~similar].sum()) * weights
    model = IsotonicRegression(increasing=False, out_of_bounds="clip")
    model.fit(values, similar.astype(float), sample_weight=balanced)
    least = 1 / (2 + len(values))
    return lambda q: np.clip(model.predict(q), least, 1 - least)


METHODS = {
    "cosine": lambda seed: Cosine(),
    "LDA + cosine": lambda seed: LDA(),
    "PLDA": lambda seed: PLDA(),
    "logistic posteriors": lambda seed: Posteriors(
        make_pipeline(
            StandardScaler(),
            GridSearchCV(
                LogisticRegression(max_iter=1000),
                {"C": np.logspace(-3, 2, 6)},
                cv=StratifiedKFold(3, shuffle=True, random_state=seed),
                scoring="neg_log_loss",
            ),
        )
    ),
    "forest posteriors": lambda seed: Posteriors(
        RandomForestClassifier(300, min_samples_leaf=2, random_state=seed)
    ),
    "boosting posteriors": lambda seed: Posteriors(
        HistGradientBoostingClassifier(early_stopping=True, random_state=seed)
    ),
}


def make_judge(text, seed, new_classes=False):
    """Return a named method, or that of an expression like "TATML(midpoint=True)"."""
    if text in METHODS:
        judge = METHODS[text](seed)
        judge.new_classes = new_classes
        return judge
    names = {name: getattr(tatml, name) for name in tatml.__all__}
    names["KernelMap"] = tatml.features.KernelMap
    return Learnt(eval(text, names).set_params(random_state=seed))


# Scores


def score_split(model, parts, seed):
    """Return the SCORES of a model on training, calibration and test samples."""
    (X, y), (X_known, y_known), (X_new, y_new) = parts
    start = process_time()
    model.fit(X, y)
    seconds = process_time() - start
    index, similar = held_out_pairs(y_new, seed)
    found = model.score(index, X_new)
    known_index, known_similar = held_out_pairs(y_known, seed + 1000)
    misses = promised_misses(model.score(known_index, X_known), known_similar, known_index, found)
    values = {
        "AUC": roc_auc_score(similar, found),
        "at threshold": balanced_accuracy_score(similar, found > model.threshold),
        "EER": equal_error_rate(-found, similar),
        "FNMR": float(np.mean(misses[similar])) if misses is not None else np.nan,
        "log loss": np.nan,
        "isotonic": np.nan,
        "seconds": seconds,
    }
    if model.ratio is not None:
        ratio = model.ratio[0] + model.ratio[1] * found
        values["log loss"] = float(np.mean(np.logaddexp(0, np.where(similar, -ratio, ratio))))
    if getattr(model, "isotonic", None) is not None:
        values["isotonic"] = log_loss(similar, model.isotonic(-found - model.estimator.b0_))
    return values


def promised_misses(known, similar, index, found):
    """Return which scores are below a threshold that promises MAX_RATE; None if none does."""
    judge = PairThreshold("precomputed", greater_is_same=True)
    try:
        judge.calibrate_threshold(
            known,
            np.where(similar, 1, -1),
            strategy="false_match_rate",
            max_rate=MAX_RATE,
            groups=index,
        )
    except ValueError:
        return None
    return judge.predict(found) < 0


def splits_of(X, y, groups, repeats, new_classes):
    """Return (training, calibration, test) rows of every repeat."""
    if not new_classes:
        for seed, (train, test) in enumerate(halves(X, y, groups, repeats)):
            inner = groups[test] if groups is not None else None
            known, new = next(iter(halves(X[test], y[test], inner, 1)))
            yield seed, (train, test[known], test[new])
        return
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(int(y.max()) + 1)
        train = np.flatnonzero(np.isin(y, order[: len(order) // 2]))
        test = np.flatnonzero(~np.isin(y, order[: len(order) // 2]))
        known, new = next(iter(halves(X[test], y[test], None, 1)))
        yield seed, (train, test[known], test[new])


def score_set(name, method, repeats, matrix, new_classes):
    """Return the record of a method on a dataset: a list of scores per score."""
    X, y, groups = load_some(name)
    X, rows, error = X if matrix else as_table(X), [], None
    for seed, split in splits_of(X, y, groups, repeats, new_classes):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                parts = [(X[part], y[part]) for part in split]
                rows.append(score_split(make_judge(method, seed, new_classes), parts, seed))
        except Exception as failure:  # a method that fails on a dataset is a result
            error = repr(failure)[:300]
            rows.append(dict.fromkeys(SCORES, np.nan))
    scores = {score: [row[score] for row in rows] for score in SCORES}
    return {"set": name, "method": method, "scores": scores, "error": error}


# Tables


def mean_table(records):
    """Return {method: {set: {score: mean over the repeats}}}."""
    table = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all NaN
        for record in records:
            means = {score: float(np.nanmean(v)) for score, v in record["scores"].items()}
            table.setdefault(record["method"], {})[record["set"]] = means
    return table


def report(records, sets=False):
    """Print means over the datasets, and differences from the first method."""
    table = mean_table(records)
    first = next(iter(table))
    print(f"\n{len(table[first])} datasets\n{'':<46}" + "".join(f"{s:>14}" for s in SCORES))
    for method, rows in table.items():
        values = np.array([[row[score] for score in SCORES] for row in rows.values()])
        means = [np.mean(c[np.isfinite(c)]) if np.isfinite(c).any() else np.nan for c in values.T]
        print(f"{method[:46]:<46}" + "".join(f"{mean:14.4f}" for mean in means))
    print(f"\ndifferences from {first}: mean ± standard error, wins:losses")
    for method, rows in list(table.items())[1:]:
        cells = []
        for score in SCORES[:5]:
            mean, error, wins, losses, _ = paired(rows, table[first], score)
            better = (losses, wins) if score in LOWER_IS_BETTER else (wins, losses)
            cells.append(f"{mean:+.4f} ±{error:.4f} {better[0]}:{better[1]}")
        print(f"{method[:46]:<46}" + "".join(f"{cell:>25}" for cell in cells))
    if sets:
        print(f"\n{'':<70}" + "".join(f"{score:>14}" for score in SCORES))
        for name in table[first]:
            for method, rows in table.items():
                cells = "".join(f"{rows[name][score]:14.4f}" for score in SCORES)
                print(f"{name:<24}{method[:46]:<46}{cells}")
    for record in records:
        if record["error"]:
            print(f"failed: {record['set']}, {record['method']}: {record['error']}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_half_options(parser)
    parser.add_argument("--methods", nargs="+", default=["TATML()", "TATML(midpoint=True)"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--matrix", action="store_true", help="datasets of matrices, as matrices")
    parser.add_argument("--new-classes", action="store_true", help="learn from half of the classes")
    parser.add_argument("--sets", action="store_true", help="print every dataset too")
    parser.add_argument("--json", help="file to write the scores to")
    parser.add_argument("--read", help="file of an earlier run to print instead of a new run")
    options = parser.parse_args()
    if options.read:
        study = json.loads(Path(options.read).read_text())
        open_half(study["half"], options.issue, parser, [f"read {options.read}"])
        return report(study["records"], options.sets)
    for method in options.methods:
        make_judge(method, 0)  # a misspelt method fails before the run
    print(describe_machine())
    names = chosen_names(options, parser, options.methods, options.matrix)
    if options.new_classes:
        names = [name for name in names if load_some(name)[1].max() + 1 >= FEWEST_CLASSES]
    calls = (
        delayed(score_set)(name, method, options.repeats, options.matrix, options.new_classes)
        for name in names
        for method in options.methods
    )
    records = Parallel(n_jobs=options.jobs)(calls)
    if options.json:
        header = {"half": options.half, "matrix": options.matrix, "repeats": options.repeats}
        save_study(options.json, records, new_classes=options.new_classes, **header)
    return report(records, options.sets)


if __name__ == "__main__":
    main()
