"""Functions that the studies share: random halves, pairs of held-out samples, and scores."""

from __future__ import annotations

from time import process_time

import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score, roc_curve
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import LabelEncoder

from tatml._data.sampling import draw_random_pairs

N_TEST_PAIRS = 4000
SCORES = ("3-NN", "AUC", "at threshold", "best", "lost", "seconds")


def halves(X, y, groups, repeats):
    """Return index arrays of random halves, by object if there are groups."""
    splitter = StratifiedShuffleSplit if groups is None else GroupShuffleSplit
    return splitter(repeats, test_size=0.5, random_state=0).split(np.zeros(len(y)), y, groups)


def held_out_pairs(y: np.ndarray, seed: int):
    """Draw random pairs of the held-out samples, half of them similar."""
    labels = LabelEncoder().fit_transform(y)
    n_classes = labels.max() + 1
    pairs = draw_random_pairs(
        labels,
        n_pairs_per_class=N_TEST_PAIRS // n_classes,
        random_state=np.random.RandomState(seed),
    )
    return pairs.index, pairs.similar


def judge_distances(distances, similar, threshold) -> tuple[float, float, float]:
    """Return AUC, and balanced accuracy at the threshold (NaN without) and at the best one."""
    fpr, tpr, _ = roc_curve(similar, -distances)
    learnt = np.nan
    if threshold is not None:
        learnt = balanced_accuracy_score(similar, distances < threshold)
    return roc_auc_score(similar, -distances), learnt, float(np.max(tpr + 1 - fpr) / 2)


def judge(metric, X, index, similar) -> tuple[float, float, float]:
    """Return AUC, and balanced accuracy at the learnt and at the best threshold."""
    return judge_distances(pair_distances(metric, X, index), similar, threshold_of(metric))


def pair_distances(metric, X, index):
    """Return the distances of pairs, of transformed samples if the metric has none of its own."""
    if hasattr(metric, "pair_distance"):
        return metric.pair_distance(index, X)
    Z = metric.transform(X)
    return np.linalg.norm(Z[index[:, 0]] - Z[index[:, 1]], axis=1)


def threshold_of(metric):
    """Return `threshold_` of a metric, of the last step of a pipeline, or None."""
    last = getattr(metric, "best_", metric)
    last = last[-1] if hasattr(last, "steps") else last
    return getattr(last, "threshold_", None)


def fit_and_score(model, X_train, X_test, y_train, y_test, seed) -> dict[str, float]:
    """Return the SCORES of a model; the seconds are processor time of the fit."""
    start = process_time()
    metric = model.fit(X_train, y_train)
    seconds = process_time() - start
    if isinstance(metric, GridSearchCV):  # a classifier
        accuracy = float(metric.score(X_test, y_test))
        return dict.fromkeys(SCORES, np.nan) | {"3-NN": accuracy, "seconds": seconds}
    knn = KNeighborsClassifier(min(3, len(y_train))).fit(metric.transform(X_train), y_train)
    accuracy = knn.score(metric.transform(X_test), y_test)
    auc, learnt, best = judge(metric, X_test, *held_out_pairs(y_test, seed))
    values = (accuracy, auc, learnt, best, best - learnt, seconds)
    return dict(zip(SCORES, map(float, values), strict=True))
