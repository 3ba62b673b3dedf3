"""
Search by a score with a midpoint
=================================

With ``midpoint=True``, what is learnt is a score of pairs that also knows *where* a pair lies. It
is no distance, but an inner product: ``search_vectors`` gives two vectors per sample, and the
product of the first of one sample and the second of another is their ``pair_score``. So an index
for the largest inner product finds the samples that are most alike. This example uses FAISS (the
extra ``search``), and NumPy if FAISS is not installed. Then it scores digits against identities
with several enrolled samples.
"""

# %%
# Learn on the digits 0 to 4; the others are new classes.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from tatml import TATML

X, y = load_digits(return_X_y=True)
metric = TATML(midpoint=True, new_classes=True, random_state=0).fit(X[y < 5], y[y < 5])
X, y = X[y >= 5], y[y >= 5]
X_stored, y_stored, X_query, y_query = X[:600], y[:600], X[600:], y[600:]

# %%
# The second vectors of the stored samples go into the index; the first ones of the queries search.

queries = np.float32(metric.search_vectors(X_query)[0])
entries = np.float32(metric.search_vectors(X_stored)[1])
try:
    import faiss
except ImportError:
    print("FAISS is not installed; this run uses NumPy instead")
    products = queries @ entries.T
    found = np.argsort(-products, axis=1)[:, :10]
    scores = np.take_along_axis(products, found, axis=1)
else:
    index = faiss.IndexFlatIP(entries.shape[1])
    index.add(entries)
    scores, found = index.search(queries, 10)

# %%
# The scores are those of ``pair_score``, up to the rounding of float32. A stored sample above
# ``-threshold_`` is predicted to be the same.

both = np.concatenate([X_query, X_stored])
rows = np.repeat(np.arange(len(X_query)), 10)
exact = metric.pair_score(np.column_stack([rows, len(X_query) + found.ravel()]), both)
assert np.allclose(scores.ravel(), exact, atol=1e-5 * np.abs(queries @ entries.T).max())
is_same = exact > -metric.threshold_
right = y_stored[found.ravel()] == y_query[rows]
print(
    f"{np.mean(is_same):.0%} of the first ten are above the threshold, {np.mean(right):.0%} right"
)

# %%
# Several samples of one identity say more than one. ``enrolled_scores`` has a column per identity;
# with one enrolled sample each it is ``pair_score``. The first samples of each digit are enrolled.

counts = [1, 2, 4, 8, 16, 32]
accuracies = []
for count in counts:
    enrolled = np.concatenate([np.flatnonzero(y_stored == digit)[:count] for digit in range(5, 10)])
    scores = metric.enrolled_scores(X_query, X_stored[enrolled], y_stored[enrolled])
    accuracies.append(np.mean(5 + scores.argmax(axis=1) == y_query))

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(counts, accuracies, "o-", color="#0072b2")
ax.set_xscale("log", base=2)
ax.set_xticks(counts, counts)
ax.set(xlabel="enrolled samples per digit", ylabel="share of queries with the right digit")
ax.set_title("Digits that fit has not seen")
