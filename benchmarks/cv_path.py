"""Compare TATMLCV with GridSearchCV on the same grid of C: seconds and accuracy.

GridSearchCV fits a pipeline of TATML and 3-NN for every C in every fold. TATMLCV follows one path
per fold. Prints seconds, their ratio, the chosen C, and the accuracy on a held-out half.

    python benchmarks/cv_path.py
"""

from __future__ import annotations

import numpy as np
from common import describe_machine, timed
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from study_data import load

from tatml import TATML, TATMLCV

CS = np.logspace(0, 4, 9)


def main() -> None:
    print(describe_machine())
    ratios = []
    for name in ("wine", "breast cancer", "digits", "iris", "SPD classes", "textures M=2"):
        X, y, _ = load(name)
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=0.5, random_state=0, stratify=y
        )
        metric = TATML(threshold="joint", random_state=0)  # 3-NN needs no held-out pairs
        pipeline = Pipeline([("tatml", metric), ("knn", KNeighborsClassifier(3))])
        grid = GridSearchCV(pipeline, {"tatml__C": CS}, cv=5)
        grid_seconds, _ = timed(grid.fit, train, y_train, repeats=2)
        path = TATMLCV(CS, prior="discriminant", scoring="accuracy", threshold="joint")
        path.set_params(random_state=0)
        path_seconds, _ = timed(path.fit, train, y_train, repeats=2)
        knn = KNeighborsClassifier(3).fit(path.transform(train), y_train)
        ratios.append(path_seconds / grid_seconds)
        print(
            f"{name:<14} GridSearchCV {grid_seconds:6.2f} s  TATMLCV {path_seconds:6.2f} s  "
            f"ratio {ratios[-1]:.2f}   C {grid.best_params_['tatml__C']:.0f} and {path.C_:.0f}, "
            f"accuracy {grid.score(test, y_test):.3f} and "
            f"{knn.score(path.transform(test), y_test):.3f}",
            flush=True,
        )
    print(f"median ratio {np.median(ratios):.2f}, largest {max(ratios):.2f} (goal: at most 0.25)")


if __name__ == "__main__":
    main()
