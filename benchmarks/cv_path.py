"""Compare TATMLCV with GridSearchCV on the same grid of C: seconds and accuracy.

GridSearchCV fits a pipeline of TATML and 3-NN for every C in every fold. TATMLCV follows one path
per fold. Both are run in turn, so that a busy machine slows both down. Prints the seconds of the
fastest runs, their ratio, that of the processor's seconds, the chosen C, and the accuracy on a
held-out half.

    OPENBLAS_NUM_THREADS=1 python benchmarks/cv_path.py
"""

from __future__ import annotations

import argparse
import os
from time import perf_counter, process_time

import numpy as np
from common import describe_machine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from study_data import load

from tatml import TATML, TATMLCV

CS = np.logspace(0, 4, 9)


def spent(model, X, y) -> tuple[float, float]:
    """Fit the model, and return the seconds and the processor's seconds."""
    start, used = perf_counter(), process_time()
    model.fit(X, y)
    return perf_counter() - start, process_time() - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(describe_machine())
    print(f"load {os.getloadavg()[0]:.1f}")
    ratios = []
    for name in ("wine", "breast cancer", "digits", "iris", "SPD classes", "textures M=2"):
        X, y, _ = load(name)
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=0.5, random_state=0, stratify=y
        )
        metric = TATML(threshold="joint", random_state=0)  # 3-NN needs no held-out pairs
        pipeline = Pipeline([("tatml", metric), ("knn", KNeighborsClassifier(3))])
        grid = GridSearchCV(pipeline, {"tatml__C": CS}, cv=5)
        path = TATMLCV(metric, {"C": CS}, scoring="accuracy")
        runs = [
            (*spent(grid, train, y_train), *spent(path, train, y_train))
            for _ in range(options.repeats)
        ]
        grid_seconds, grid_used, path_seconds, path_used = np.min(runs, axis=0)
        knn = KNeighborsClassifier(3).fit(path.transform(train), y_train)
        ratios.append(path_seconds / grid_seconds)
        print(
            f"{name:<14} GridSearchCV {grid_seconds:6.2f} s  TATMLCV {path_seconds:6.2f} s  "
            f"ratio {ratios[-1]:.2f} (processor {path_used / grid_used:.2f})   "
            f"C {grid.best_params_['tatml__C']:.0f} and {path.C_:.0f}, "
            f"accuracy {grid.score(test, y_test):.3f} and "
            f"{knn.score(path.transform(test), y_test):.3f}",
            flush=True,
        )
    print(f"median ratio {np.median(ratios):.2f}, largest {max(ratios):.2f} (goal: at most 0.25)")


if __name__ == "__main__":
    main()
