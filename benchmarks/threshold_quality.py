"""Quality of the learnt threshold, without tuning, on pairs of held-out samples.

For random halves of each dataset, TATML with its defaults is fitted on one half, and pairs of the
other half are classified at `threshold_`. Prints the balanced accuracy, that of the best threshold
in hindsight, and their difference. Every dataset is also used in other units: each feature times a
random power of ten.

    python benchmarks/threshold_quality.py [--repeats 5]
"""

from __future__ import annotations

import argparse

import numpy as np
from common import describe_machine
from sklearn import datasets
from sklearn.model_selection import train_test_split
from study_scores import held_out_pairs, judge

from tatml import TATML


def load_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    sets = {
        name: getattr(datasets, f"load_{name}")(return_X_y=True)
        for name in ("wine", "breast_cancer", "digits", "iris")
    }
    for name, seed in (("synthetic 4 classes", 0), ("synthetic 8 classes", 1)):
        sets[name] = datasets.make_classification(
            1000,
            20,
            n_informative=8,
            n_redundant=4,
            n_classes=int(name.split()[1]),
            n_clusters_per_class=1,
            class_sep=2.0,
            random_state=seed,
        )
    return sets


def evaluate(X, y, repeats: int, make=TATML) -> np.ndarray:
    rows = []
    for seed in range(repeats):
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=0.5, random_state=seed, stratify=y
        )
        metric = make(random_state=seed).fit(train, y_train)
        rows.append(judge(metric, test, *held_out_pairs(y_test, seed)))
    return np.mean(rows, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(describe_machine())
    print(f"{'data':<22} {'units':<8} {'AUC':>7} {'learnt':>8} {'best':>8} {'lost':>8}")
    lost = {"as is": [], "changed": []}
    for name, (X, y) in load_sets().items():
        units = 10.0 ** np.random.default_rng(0).integers(-3, 4, size=X.shape[1])
        for kind, data in (("as is", X), ("changed", X * units)):
            auc, learnt, best = evaluate(data, y, repeats)
            lost[kind].append(best - learnt)
            print(f"{name:<22} {kind:<8} {auc:7.3f} {learnt:8.3f} {best:8.3f} {best - learnt:8.3f}")
    for kind, values in lost.items():
        print(f"mean lost, units {kind}: {np.mean(values):.4f} (goal: at most 0.02)")


if __name__ == "__main__":
    main()
