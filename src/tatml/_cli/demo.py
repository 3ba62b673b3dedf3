"""Demonstration on a data set that ships with scikit-learn, run by `make demo`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_wine
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from .. import TATML, Euclidean
from .._data.sampling import draw_random_pairs
from ..plotting import ConvergenceDisplay, MetricDisplay, PairDistanceDisplay

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


def draw_test_pairs(y: Integers, seed: int) -> tuple[Integers, Integers]:
    """Return index pairs of the samples, half of them similar, and their labels ±1."""
    random_state = np.random.RandomState(seed)
    pairs = draw_random_pairs(np.asarray(y), n_pairs_per_class=1000, random_state=random_state)
    return pairs.index, np.where(pairs.similar, 1, -1)


def print_scores(
    name: str,
    metric: TATML | Euclidean,
    train: Floats,
    y_train: Integers,
    test: Floats,
    y_test: Integers,
    pairs: Integers,
    labels: Integers,
) -> None:
    """Print the scores of neighbours, distances and threshold on the other half."""
    knn = KNeighborsClassifier(3).fit(metric.transform(train), y_train)
    accuracy = knn.score(metric.transform(test), y_test)
    auc = roc_auc_score(labels, metric.pair_score(pairs, test))
    balanced = balanced_accuracy_score(labels, metric.predict_pairs(pairs, test))
    print(f"  {name:<18} {accuracy:>8.3f} {auc:>8.3f} {balanced:>20.3f} {metric.threshold_:>12.3g}")


def save_pictures(
    metric: TATML,
    test: Floats,
    pairs: Integers,
    labels: Integers,
    names: list[list[str]],
    folder: Path,
) -> list[Path]:
    """Write the pictures and return their paths."""
    import matplotlib

    matplotlib.use("agg")
    figures = {
        "distances": PairDistanceDisplay.from_estimator(metric, pairs, labels, test).figure_,
        "metric": MetricDisplay.from_estimator(metric, names).figure_,
        "convergence": ConvergenceDisplay.from_estimator(metric).figure_,
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png" for name in figures]
    for path, figure in zip(paths, figures.values(), strict=True):
        figure.savefig(path, dpi=110)
    return paths


def main(folder: str = "build/demo") -> TATML:
    """Run the demonstration and return the fitted estimator."""
    wine = load_wine()
    train, test, y_train, y_test = train_test_split(
        wine.data, wine.target, test_size=0.5, random_state=0, stratify=wine.target
    )
    print("Wine: 178 bottles, 13 measurements in their own units, 3 cultivars. Half to learn from.")
    print()
    metric = TATML(random_state=0, verbose=True).fit(train, y_train)
    result = metric.result_
    print(f"\nThreshold learnt: {metric.threshold_:.4f}.")
    print(f"Certificate: {result.status.value} F = {result.primal:.6f}, no metric does better")
    print(
        f"than {result.dual:.6f}: the gap is {result.gap:.1e} after {result.n_iter} Newton steps.\n"
    )
    pairs, labels = draw_test_pairs(y_test, seed=1)
    print(f"  {'On the other half':<18} {'3-NN':>8} {'AUC':>8} {'balanced accuracy':>20} threshold")
    for name, model in (
        ("plain distance", Euclidean(random_state=0).fit(train, y_train)),
        ("TATML", metric),
    ):
        print_scores(name, model, train, y_train, test, y_test, pairs, labels)
    names = [wine.feature_names]
    print("\nPictures:", *save_pictures(metric, test, pairs, labels, names, Path(folder)))
    return metric


if __name__ == "__main__":
    main(*sys.argv[1:2])
