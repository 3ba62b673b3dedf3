"""Learn a metric and a threshold on a data set that ships with scikit-learn: `make demo`."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from . import Result, learn_metric


def draw_pairs(y: np.ndarray, n_pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw as many similar as dissimilar pairs at random."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(len(y), size=(20 * n_pairs, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    rows = np.concatenate(
        [np.flatnonzero(similar == kind)[: n_pairs // 2] for kind in (True, False)]
    )
    return pairs[rows], similar[rows]


def squared_distances(X: np.ndarray, W: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """D of each pair of rows of X."""
    difference = X[pairs[:, 0]] - X[pairs[:, 1]]
    return np.sum((difference @ W) * difference, axis=1)


def report(name: str, W: np.ndarray, b0: float, X: np.ndarray, pairs, similar) -> None:
    """Print how well distances, and the threshold, tell similar from dissimilar pairs."""
    distances = squared_distances(X, W, pairs)
    auc = roc_auc_score(similar, -distances)
    balanced = balanced_accuracy_score(similar, distances < b0)
    print(f"  {name:<28} {auc:>8.3f} {balanced:>22.3f}")


def main() -> Result:
    """Run the demonstration and return what was learnt."""
    X, y = load_wine(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    pairs, similar = draw_pairs(y_train, 2_000, seed=1)
    prior = np.diag(1 / train.var(axis=0)) / (2 * X.shape[1])  # mean squared distance 1
    print("Wine: 178 bottles, 13 measurements, 3 cultivars. 2,000 pairs of the training half.\n")
    result = learn_metric(
        train, pairs, similar, C=0.1, c0=0.1 * 0.1 * len(pairs), prior=prior, tol=1e-8, verbose=True
    )
    print(f"\nThreshold learnt: b0 = {result.b0:.4f} (squared distance).")
    print(f"Certificate: {result.status.value} F = {result.primal:.6f}, no metric does better")
    print(
        f"than {result.dual:.6f}: the gap is {result.gap:.1e} after {result.n_iter} Newton steps.\n"
    )
    held_out = draw_pairs(y_test, 2_000, seed=2)
    print(f"  {'On pairs of the other half':<28} {'AUC':>8} {'balanced accuracy':>22}")
    report("standardised, b0 = 1", prior, 1.0, test, *held_out)
    report("learnt metric and threshold", result.W[0], result.b0, test, *held_out)
    return result


if __name__ == "__main__":
    main()
