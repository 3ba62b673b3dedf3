"""Soft votes of neighbours against scikit-learn's votes: probabilities, accuracy and time.

    OPENBLAS_NUM_THREADS=1 python benchmarks/soft_neighbors.py
    OPENBLAS_NUM_THREADS=1 python benchmarks/soft_neighbors.py --quick

Prints the log loss and the accuracy on the other halves of splits, after StandardScaler and after
TATML, where the number of neighbours that KNeighborsClassifier counts is chosen by cross-validation
on the training half, by the accuracy and by the log loss; R² of numbers against
KNeighborsRegressor; how many new targets intervals hold; then seconds for many samples.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from time import perf_counter

import numpy as np
from common import describe_machine, timed
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_classification,
    make_friedman1,
)
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    ShuffleSplit,
    StratifiedShuffleSplit,
    cross_val_score,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tatml import TATML, SoftNeighborsClassifier, SoftNeighborsRegressor, TATMLRegression

COUNTS = (1, 3, 5, 7, 10, 15, 20, 30, 50)


def datasets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield (name, X, y); the last two are made: many classes that overlap, and a rare class."""
    for name, load in (
        ("wine", load_wine),
        ("breast cancer", load_breast_cancer),
        ("digits", load_digits),
    ):
        yield name, *load(return_X_y=True)
    like_vowels = {"n_clusters_per_class": 1, "n_classes": 11, "random_state": 0}
    yield "11 classes", *make_classification(990, 10, n_informative=8, **like_vowels)
    rare = {"n_classes": 3, "weights": [0.8, 0.15, 0.05], "random_state": 0}
    yield "rare class", *make_classification(800, 10, n_informative=5, **rare)


def methods(n_samples: int) -> dict[str, object]:
    grid = {"n_neighbors": [k for k in COUNTS if k < 0.8 * n_samples]}
    votes = KNeighborsClassifier()
    return {
        "soft": SoftNeighborsClassifier(random_state=0),
        "k by accuracy": GridSearchCV(votes, grid, cv=5),
        "k by log loss": GridSearchCV(votes, grid, cv=5, scoring="neg_log_loss"),
    }


def compare_votes(n_splits: int) -> None:
    """Print the log loss and the accuracy of each method on each dataset, and their means."""
    means: dict[str, list[np.ndarray]] = {}
    print("log loss / accuracy".ljust(28), *(f"{name:>15}" for name in methods(100)))
    for name, X, y in datasets():
        splits = StratifiedShuffleSplit(n_splits, test_size=0.5, random_state=0)
        for make in (StandardScaler, lambda: TATML(random_state=0)):
            found: dict[str, list[tuple[float, float]]] = {}
            for train, test in splits.split(X, y):
                scaler = make().fit(X[train], y[train])
                Z, Z_test = scaler.transform(X[train]), scaler.transform(X[test])
                for method, model in methods(len(train)).items():
                    p = model.fit(Z, y[train]).predict_proba(Z_test)
                    loss = log_loss(y[test], p, labels=model.classes_)
                    right = np.mean(model.classes_[p.argmax(axis=1)] == y[test])
                    found.setdefault(method, []).append((loss, right))
            rows = {method: np.mean(values, axis=0) for method, values in found.items()}
            for method, row in rows.items():
                means.setdefault(method, []).append(row)
            print_row(f"{name}, {type(scaler).__name__}", rows)
    print_row("mean", {method: np.mean(rows, axis=0) for method, rows in means.items()})


def print_row(title: str, rows: dict[str, np.ndarray]) -> None:
    print(title.ljust(28), *(f"{loss:8.3f} / {right:.3f}" for loss, right in rows.values()))


def compare_numbers(n_splits: int) -> None:
    """Print R² of means of neighbours after StandardScaler, where k and the weights are chosen."""
    numbers = {
        "diabetes": load_diabetes(return_X_y=True),
        "friedman": make_friedman1(600, noise=1.0, random_state=0),
    }
    grid = {"n_neighbors": COUNTS, "weights": ["uniform", "distance"]}
    for name, (X, y) in numbers.items():
        scores = [
            cross_val_score(
                make_pipeline(StandardScaler(), model),
                X,
                y,
                cv=ShuffleSplit(n_splits, test_size=0.5, random_state=0),
            ).mean()
            for model in (
                SoftNeighborsRegressor(random_state=0),
                GridSearchCV(KNeighborsRegressor(), grid, cv=5),
            )
        ]
        print(f"{name}: R² {scores[0]:.3f} soft, {scores[1]:.3f} KNeighborsRegressor")


def compare_intervals(n_splits: int) -> None:
    """Print the share of new targets in intervals that are to hold 90 % of them.

    After TATMLRegression, which has seen the targets, also with intervals from held-out samples.
    """
    numbers = {
        "diabetes": load_diabetes(return_X_y=True),
        "friedman": make_friedman1(1500, noise=1.0, random_state=0),
    }
    for name, (X, y) in numbers.items():
        found = []
        for train, test in ShuffleSplit(n_splits, test_size=0.5, random_state=0).split(X):
            held_out, new = np.array_split(test, 2)
            plain = SoftNeighborsRegressor().fit(X[train], y[train])
            metric = TATMLRegression(random_state=0).fit(X[train], y[train])
            learnt = SoftNeighborsRegressor().fit(metric.transform(X[train]), y[train])
            row = [
                share_inside(plain, X[new], y[new]),
                share_inside(learnt, metric.transform(X[new]), y[new]),
            ]
            learnt.calibrate_interval(metric.transform(X[held_out]), y[held_out])
            found.append([*row, share_inside(learnt, metric.transform(X[new]), y[new])])
        shares = " / ".join(f"{share:.3f}" for share in np.mean(found, axis=0))
        print(f"{name}: inside intervals of 90 %, plain / after a metric / calibrated: {shares}")


def share_inside(model: SoftNeighborsRegressor, X: np.ndarray, y: np.ndarray) -> float:
    low, high = model.predict_interval(X).T
    return float(np.mean((low <= y) & (y <= high)))


def compare_times(n_samples: int, n_new: int) -> None:
    """Print seconds for n_samples × 20 numbers, and their ratio to KNeighborsClassifier."""
    rng = np.random.default_rng(0)
    X, X_new = (rng.normal(size=(n, 20)) for n in (n_samples, n_new))
    y = (X[:, 0] + 0.5 * rng.normal(size=n_samples) > 0) + 2 * (X[:, 1] > 0)
    start = perf_counter()
    soft = SoftNeighborsClassifier(random_state=0).fit(X, y)
    print(f"\n{n_samples} samples: fit {perf_counter() - start:.2f} s")
    other = KNeighborsClassifier(soft.n_neighbors_, weights="distance").fit(X, y)
    seconds = [timed(model.predict_proba, X_new)[0] for model in (soft, other)]
    ratio = seconds[0] / seconds[1]
    print(
        f"{n_new} new samples, {soft.n_neighbors_} neighbours: predict_proba {seconds[0]:.2f} s, "
        f"that of KNeighborsClassifier(weights='distance') {seconds[1]:.2f} s, ratio {ratio:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one split, fewer samples")
    quick = parser.parse_args().quick
    print(describe_machine())
    warnings.simplefilter("ignore")  # searches with few samples per class
    compare_votes(1 if quick else 5)
    compare_numbers(1 if quick else 10)
    compare_intervals(1 if quick else 20)
    compare_times(20_000 if quick else 100_000, 2_000 if quick else 10_000)
    if not quick:
        compare_times(100_000, 100_000)


if __name__ == "__main__":
    main()
