"""
Which pairs should a person check?
==================================

A learnt threshold decides every pair, but it is not equally sure of all. Pairs near the threshold
are those that it gets wrong, and also those that a person should look at, or label next. This
example shows how many errors are found when the pairs are checked in that order.
"""

# %%
# A metric for digits, and pairs of digits that it has not seen: as many of one digit as of two.

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tatml import TATML, Euclidean

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
metric = TATML(random_state=0).fit(X, y)

rng = np.random.default_rng(0)
pairs = rng.integers(len(X_new), size=(40_000, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
same = y_new[pairs[:, 0]] == y_new[pairs[:, 1]]
pairs = np.concatenate([pairs[same], pairs[~same][: same.sum()]])
signs = np.repeat([1, -1], same.sum())

# %%
# The doubt about a pair is how close its distance is to the threshold. Check the most doubtful
# pairs first: which share of all errors has been found after a share of the pairs? Without a
# learnt metric there are more errors, and more pairs to check before they are found.
#
# The second picture shows where the errors of the learnt metric are.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
checked = np.arange(1, len(pairs) + 1) / len(pairs)
for model, name, colour in (
    (Euclidean(random_state=0).fit(X, y), "pixels", "#999999"),
    (metric, "learnt metric", "#0072b2"),
):
    distances = model.pair_distance(pairs, X_new)
    wrong = np.where(distances < model.threshold_, 1, -1) != signs
    order = np.argsort(np.abs(np.log(distances / model.threshold_)))
    left = wrong.mean() - np.cumsum(wrong[order]) / len(pairs)
    axes[0].plot(100 * checked, 100 * left, color=colour, label=name)
    print(f"{name}: {wrong.mean():.1%} wrong; after checking a tenth {left[len(pairs) // 10]:.1%}")
axes[0].set(xlabel="pairs that were checked, %", ylabel="wrong decisions that are left, %")
axes[0].set(title="Check the pairs near the threshold first", xlim=(0, 60), ylim=(0, None))
axes[0].legend()

edges = np.quantile(distances, np.linspace(0, 1, 26))
middle, rate = (edges[:-1] + edges[1:]) / 2, []
for low, high in pairwise(edges):
    rate.append(wrong[(distances >= low) & (distances <= high)].mean())
axes[1].bar(middle, 100 * np.array(rate), np.diff(edges), color="#0072b2", edgecolor="white")
axes[1].axvline(metric.threshold_, color="#222222", lw=2, label="threshold")
axes[1].set(xlabel="learnt distance", ylabel="wrong decisions, %", title="Errors by distance")
axes[1].legend()

# %%
# The six most doubtful pairs, with the true digits.

figure, axes = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for column, number in enumerate(order[:6]):
    for ax, sample in zip(axes[:, column], pairs[number], strict=True):
        ax.imshow(X_new[sample].reshape(8, 8), cmap="gray_r")
        ax.set(xticks=[], yticks=[], title=f"{y_new[sample]}")
figure.suptitle("Are these the same digit?")
