"""
Search with FAISS
=================

After ``transform``, the learnt distance is the Euclidean distance. So a learnt metric works with
any index for nearest neighbours, and the learnt threshold becomes the radius of a search: "find
everything that is the same". This example uses FAISS (the extra ``search``), and
scikit-learn if FAISS is not installed.
"""

# %%
# Learn on some digits; search among others. FAISS computes in float32, which is most accurate
# near zero, so the rows are centred.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from tatml import TATML, Euclidean

X, y = load_digits(return_X_y=True)
X, X_stored, X_query = X[:600], X[600:1500], X[1500:]
y, y_stored, y_query = y[:600], y[600:1500], y[1500:]
metric = TATML(random_state=0).fit(X, y)
centre = metric.transform(X_stored).mean(axis=0)
stored = np.float32(metric.transform(X_stored) - centre)
query = np.float32(metric.transform(X_query) - centre)

try:
    import faiss
except ImportError:
    faiss = None
    print("FAISS is not installed; this run uses scikit-learn instead")


def search(stored, query, radius):
    """Return, for each query, the numbers of the stored rows within the radius."""
    if faiss is None:
        index = NearestNeighbors(radius=radius).fit(stored)
        return index.radius_neighbors(query, return_distance=False)
    index = faiss.IndexFlatL2(stored.shape[1])
    index.add(stored)
    ends, _, found = index.range_search(query, radius**2)  # squared distances
    return np.split(found, ends[1:-1].astype(int))


found = search(stored, query, metric.threshold_)

# %%
# What was found is what ``predict_pairs`` says, up to pairs within float32 of the threshold.

same = sum(len(rows) for rows in found)
both = np.concatenate([X_query, X_stored])
first, second = np.meshgrid(np.arange(len(query)), np.arange(len(query), len(both)))
decided = metric.predict_pairs(np.column_stack([first.ravel(), second.ravel()]), both)
print(f"pairs below the threshold: {same} by the index, {np.sum(decided > 0)} by predict_pairs")

# %%
# How good is the search, compared with the distance of the pixels and *its* learnt threshold?
# Precision is the share of found digits that are right, recall the share of right digits that are
# found, both for each query. The threshold weighs both kinds of errors alike, and nine in ten of
# the stored digits differ from the query: for a higher precision, set it with
# ``calibrate_threshold``.

plain = Euclidean(random_state=0).fit(X, y)
by_pixels = search(np.float32(X_stored), np.float32(X_query), plain.threshold_)


def precision_and_recall(found):
    hits = [np.sum(y_stored[rows] == label) for rows, label in zip(found, y_query, strict=True)]
    sizes = np.maximum([len(rows) for rows in found], 1)
    totals = np.bincount(y_stored)[y_query]
    return np.mean(hits / sizes), np.mean(hits / totals)


figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for shift, rows, name, colour in (
    (-0.2, by_pixels, "pixels", "#999999"),
    (0.2, found, "learnt metric", "#0072b2"),
):
    bars = ax.bar(np.arange(2) + shift, precision_and_recall(rows), 0.38, color=colour, label=name)
    ax.bar_label(bars, fmt="%.2f")
ax.set_xticks(np.arange(2), ["precision", "recall"])
ax.set(xlabel="mean over the queries", ylabel="share", ylim=(0, 1.15))
ax.set_title("Search within the threshold")
ax.legend(ncols=2, loc="upper center")

# %%
# Some queries, and the nearest of what was found; a frame marks a wrong digit.

figure, axes = plt.subplots(4, 9, figsize=(9, 4.4), layout="constrained")
for line, number in zip(axes, (0, 50, 100, 150), strict=True):
    rows = found[number]
    rows = rows[np.argsort(np.linalg.norm(stored[rows] - query[number], axis=1))][:8]
    pictures = [X_query[number], *X_stored[rows]]
    for ax, picture in zip(line, pictures, strict=False):
        ax.imshow(picture.reshape(8, 8), cmap="gray_r")
    for ax, wrong in zip(line[1:], y_stored[rows] != y_query[number], strict=False):
        ax.spines[:].set(color="#d55e00" if wrong else "#cccccc", lw=3 if wrong else 0.5)
    for ax in line:
        ax.set(xticks=[], yticks=[])
axes[0, 0].set_title("query")
axes[0, 1].set_title("nearest")
