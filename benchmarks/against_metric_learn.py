"""Compare TATML and our ITML with metric-learn's ITML on the same 2,000 pairs.

Requires metric-learn, whose last release requires an older scikit-learn. `make test-metric-learn`
sets up an environment with both; then run

    PYTHONPATH=build/metric-learn/published/metric-learn-0.7.0 \\
        .venv-metric-learn/bin/python benchmarks/against_metric_learn.py

metric-learn's ITML gets standardised features and bounds in squared units (percentiles of squared
distances), with which it works best; its default bounds, of unsquared distances, are run as well.
It stops at a tolerance on the multipliers, or after 1,000 cycles. Our methods stop at a certified
gap of 1e-6.
"""

from __future__ import annotations

import warnings

import metric_learn
import numpy as np
from common import describe_machine, timed
from sklearn import datasets
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from threshold_quality import held_out_pairs

from tatml import Newton, TATMLPairs
from tatml._data import sampling
from tatml._data.blocks import Blocks
from tatml._learning.metric import row_distances
from tatml._optim.problem import LogDetProblem
from tatml.losses import BurgLoss

N_PAIRS = 2000


def sample_pairs(y, seed):
    """Draw random pairs of the samples."""
    n_pairs, random_state = -(-N_PAIRS // (y.max() + 1)), np.random.RandomState(seed)
    return sampling.draw_random_pairs(y, n_pairs_per_class=n_pairs, random_state=random_state)


def our_itml(X, pairs, bounds):
    """Solve the problem of ITML with Newton's method to a certified gap."""
    bound = np.where(pairs.similar, *bounds)
    sign = np.where(pairs.similar, 1.0, -1.0)
    loss = BurgLoss(sign, np.ones(len(pairs)), bound)
    return Newton().solve(LogDetProblem.build(Blocks(X), pairs, loss), tol=1e-6)


def quality(A, data, threshold=None):
    """Return 3-NN accuracy, AUC and balanced accuracy at the threshold on the held-out half."""
    train, test, y_train, y_test = data
    known, wanted = train @ A.T, test @ A.T
    accuracy = KNeighborsClassifier(3).fit(known, y_train).score(wanted, y_test)
    index, similar = held_out_pairs(y_test, 0)
    distances = row_distances(wanted, index)
    balanced = balanced_accuracy_score(similar, distances < threshold) if threshold else np.nan
    return accuracy, roc_auc_score(similar, -distances), balanced


def show(name, seconds, base, note, scores):
    print(
        f"  {name:<34} {seconds:8.3f} s  × {seconds / base:7.1f}  {note:<26} "
        + " / ".join(f"{s:.3f}" for s in scores),
        flush=True,
    )


def main() -> None:
    warnings.simplefilter("ignore")
    print(describe_machine())
    print("seconds, relative to TATML; 3-NN / AUC / balanced accuracy at the threshold")
    for name in ("wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        X = X[:, X.std(axis=0) > 0]
        data = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
        scaler = StandardScaler().fit(data[0])
        data = [scaler.transform(data[0]), scaler.transform(data[1]), data[2], data[3]]
        pairs = sample_pairs(data[2], 0)
        formed, labels = data[0][pairs.index], np.where(pairs.similar, 1, -1)
        squared = np.sum((formed[:, 0] - formed[:, 1]) ** 2, axis=1)
        bounds = np.percentile(squared, [5, 95])
        print(f"{name}: {X.shape[1]} features, {len(pairs)} pairs")
        base, model = timed(lambda f=formed, t=labels: TATMLPairs().fit(f, t))
        scores = quality(model.components_, data, model.threshold_)
        show("TATML", base, base, f"gap {model.result_.gap:.0e}", scores)
        seconds, result = timed(our_itml, data[0], pairs, bounds)
        A = result.L[0].T
        show("our ITML, Newton", seconds, base, f"gap {result.gap:.0e}", quality(A, data))
        for kind, given in (("squared bounds", bounds), ("its default bounds", None)):
            theirs = metric_learn.ITML()
            seconds, _ = timed(
                lambda t=theirs, f=formed, y_=labels, b=given: t.fit(f, y_, bounds=b), repeats=1
            )
            done = "converged" if theirs.n_iter_ < 999 else "not converged"
            note = f"{theirs.n_iter_ + 1} cycles, {done}"
            scores = quality(theirs.components_, data, theirs.threshold_)
            show(f"metric-learn's ITML, {kind}", seconds, base, note, scores)


if __name__ == "__main__":
    main()
