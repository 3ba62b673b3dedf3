"""Draw the picture of the README: the digits by the plain and by the learnt distance.

    python docs/readme_picture.py docs/images/readme.png

The images, the split and the fits are those of `make demo`; the picture shows test images only.
"""

import sys

import matplotlib.pyplot as plt

from tatml import TATML, Euclidean
from tatml.plotting import PairDistanceDisplay
from tatml_paper.demo import score, split_digits

END = 2.2  # of the axes, in multiples of the threshold


def draw(path):
    """Fit both distances and draw the distances of test pairs."""
    train, _, test = split_digits()
    figure, axes = plt.subplots(
        1, 2, figsize=(9, 3.3), sharex=True, sharey=True, layout="constrained"
    )
    for ax, metric, name in (
        (axes[0], Euclidean(random_state=0), "Plain distance of the pixels"),
        (axes[1], TATML(random_state=0), "Learnt distance"),
    ):
        metric.fit(train.images, train.digits)
        found = score(metric, train, test)
        ratios = metric.pair_distance(test.pairs, test.images) / metric.threshold_
        title = f"{name}: area under the ROC curve {found.auc:.2f}"
        PairDistanceDisplay.from_predictions(ratios, test.labels, threshold=1.0, ax=ax, name=title)
        missed, passed = found.missed, found.passed
        words = [
            f"same digit ({missed:.1%} above the threshold)",
            f"different digits ({passed:.1%} below the threshold)",
            "threshold",
        ]
        handles, _ = ax.get_legend_handles_labels()
        ax.legend(handles, words, fontsize=8, loc="upper left", framealpha=1)
        ax.set(xlabel="distance / threshold", xlim=(0, END), ylim=(0, 3.4))
        ax.set_title(title, fontsize=10)
    axes[1].set_ylabel("")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(*sys.argv[1:])
