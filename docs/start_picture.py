"""Draw the picture of the start page, and print its numbers.

python docs/start_picture.py docs/images/start.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from tatml import TATML, Euclidean
from tatml.plotting import PairDistanceDisplay


def draw():
    """Compare the pairs of the test half under the plain and under the learnt distance.

    Returns the figure, and for each distance the area under the ROC curve and the share of pairs
    that its threshold judges rightly (mean of both kinds).
    """
    X, y = load_wine(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )
    pairs = np.column_stack(np.triu_indices(len(y_test), 1))
    same = np.where(y_test[pairs[:, 0]] == y_test[pairs[:, 1]], 1, -1)
    scaler = StandardScaler().fit(X_train)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    found = []
    panels = [
        ("scaled columns, plain distance", Euclidean(random_state=0), scaler.transform),
        ("learnt distance, with its own threshold", TATML(random_state=0), np.asarray),
    ]
    for ax, (title, metric, prepared) in zip(axes, panels, strict=True):
        metric.fit(prepared(X_train), y_train)
        distances = metric.pair_distance(pairs, prepared(X_test))
        answers = np.where(distances < metric.threshold_, 1, -1)
        right = np.mean([np.mean(answers[same == kind] == kind) for kind in (1, -1)])
        auc = roc_auc_score(same, -distances)
        PairDistanceDisplay.from_predictions(distances, same, threshold=metric.threshold_).plot(
            ax=ax
        )
        ax.set_title(f"{title}\nAUC {auc:.3f}, {right:.0%} of the pairs right")
        found.append((auc, right))
    return figure, found


if __name__ == "__main__":
    picture, numbers = draw()
    picture.savefig(sys.argv[1], dpi=100)
    print(numbers)
