"""A demonstration on the wine data of scikit-learn: `make demo`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_wine
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from .. import TATML, Euclidean
from .._array import Doubles
from .._data.sampling import draw_random_pairs
from ..plotting import ConvergenceDisplay, MetricDisplay, PairDistanceDisplay

Integers = NDArray[np.intp]


def draw_held_out_pairs(y: Integers, seed: int) -> tuple[Integers, Integers]:
    """Draw index pairs, half of them similar, and return them with their labels ±1."""
    random_state = np.random.RandomState(seed)
    pairs = draw_random_pairs(np.asarray(y), n_pairs_per_class=1000, random_state=random_state)
    return pairs.index, np.where(pairs.similar, 1, -1)


@dataclass(frozen=True)
class Halves:
    """The wines to learn from, and the others with labelled pairs."""

    train: Doubles
    y_train: Integers
    test: Doubles
    y_test: Integers
    pairs: Integers
    labels: Integers


def split_wine() -> Halves:
    """Split the wines into two halves, and draw pairs from the second."""
    wine = load_wine()
    train, test, y_train, y_test = train_test_split(
        wine.data, wine.target, test_size=0.5, random_state=0, stratify=wine.target
    )
    return Halves(train, y_train, test, y_test, *draw_held_out_pairs(y_test, seed=1))


def print_scores(name: str, metric: TATML | Euclidean, data: Halves) -> None:
    """Print how well neighbours, distances and the threshold do on the second half."""
    knn = KNeighborsClassifier(3).fit(metric.transform(data.train), data.y_train)
    accuracy = knn.score(metric.transform(data.test), data.y_test)
    auc = roc_auc_score(data.labels, metric.pair_score(data.pairs, data.test))
    balanced = balanced_accuracy_score(data.labels, metric.predict_pairs(data.pairs, data.test))
    print(f"  {name:<18} {accuracy:>8.3f} {auc:>8.3f} {balanced:>20.3f} {metric.threshold_:>12.3g}")


def save_pictures(metric: TATML, data: Halves, folder: Path) -> list[Path]:
    """Draw pictures of the metric and return their files."""
    import matplotlib

    matplotlib.use("agg")
    names = [load_wine().feature_names]
    distances = PairDistanceDisplay.from_estimator(metric, data.pairs, data.labels, data.test)
    figures = {
        "distances": distances.figure_,
        "metric": MetricDisplay.from_estimator(metric, names).figure_,
        "convergence": ConvergenceDisplay.from_estimator(metric).figure_,
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png" for name in figures]
    for path, figure in zip(paths, figures.values(), strict=True):
        figure.savefig(path, dpi=110)
    return paths


def main(folder: str = "build/demo") -> TATML:
    """Run the demonstration and return the fitted metric."""
    data = split_wine()
    print("Wine: 178 bottles, 13 measurements in different units, 3 cultivars. One half to learn")
    print("from, the other half to evaluate.\n")
    metric = TATML(random_state=0, verbose=True).fit(data.train, data.y_train)
    result = metric.result_
    print(f"\nLearnt threshold: {metric.threshold_:.4f}.")
    print(f"Certificate: {result.status.value} F = {result.primal:.6f}, and no metric is below")
    print(f"{result.dual:.6f}: the gap is {result.gap:.1e} after {result.n_iter} Newton steps.\n")
    print(f"  {'On the other half':<18} {'3-NN':>8} {'AUC':>8} {'balanced accuracy':>20} threshold")
    euclidean = Euclidean(random_state=0).fit(data.train, data.y_train)
    print_scores("Euclidean distance", euclidean, data)
    print_scores("TATML", metric, data)
    print("\nPictures:", *save_pictures(metric, data, Path(folder)))
    return metric


if __name__ == "__main__":
    main(*sys.argv[1:2])
