"""
Where a pair lies, not only how far apart
=========================================

A distance has d(x, x) = 0. So it calls two samples the same wherever they are close, even where
two classes overlap and nobody can know. With ``midpoint=True`` the score of a pair also depends
on where it lies: on the sum of its two samples beside their difference.
"""

# %%
# Two classes that overlap. Both estimators learn from one half of the samples, and judge pairs of
# the other half.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from tatml import TATML

rng = np.random.default_rng(0)
y = np.repeat([0, 1], 400)
X = rng.normal(size=(800, 2)) + np.where(y, 1.2, -1.2)[:, None] * [1.0, 0.3]
distance = TATML(random_state=0).fit(X[::2], y[::2])
midpoint = TATML(midpoint=True, random_state=0).fit(X[::2], y[::2])

X, y = X[1::2], y[1::2]
pairs = rng.permutation(np.column_stack(np.triu_indices(len(X), 1)))[:20_000]
same = y[pairs[:, 0]] == y[pairs[:, 1]]
accepted = {}
for name, model in {"distance": distance, "midpoint": midpoint}.items():
    accepted[name] = model.predict_pairs(pairs, X) == 1
    auc = roc_auc_score(same, model.pair_score(pairs, X))
    accuracy = balanced_accuracy_score(same, accepted[name])
    print(f"{name}: AUC {auc:.3f}, balanced accuracy at the threshold {accuracy:.3f}")

# %%
# On which pairs do they disagree? Each line is a pair: blue if its samples are of one class, and
# red if they are not. What only the distance accepts lies between the classes, and is mostly
# wrong. What only the midpoint accepts is farther apart, but on one side, and is mostly right. The
# shade is what the midpoint says of two samples *at one place*: in the white, they are surely the
# same; in the dark, it is a toss of a coin. A distance would call them the same everywhere.

across, up = np.linspace(-4.5, 4.5, 91), np.linspace(-4.5, 4, 86)
places = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
itself = np.column_stack([np.arange(len(places))] * 2)
doubt = 1 - midpoint.pair_probability(itself, places).reshape(len(up), len(across))

figure, axes = plt.subplots(1, 3, figsize=(14, 4.5), layout="constrained", sharey=True)
for ax in axes:
    shade = ax.pcolormesh(across, up, doubt, cmap="Greys", vmin=0, vmax=0.5, alpha=0.4)
    ax.set(xlabel="column 0", aspect="equal", xlim=(-4.5, 4.5), ylim=(-4.5, 4))
for label, marker in ((0, "o"), (1, "^")):
    axes[0].plot(*X[y == label].T, f"k{marker}", markersize=3.5, label=f"class {label}")
axes[0].set(title="Two classes that overlap", ylabel="column 1")
for ax, name, other in ((axes[1], "distance", "midpoint"), (axes[2], "midpoint", "distance")):
    rows = np.flatnonzero(accepted[name] & ~accepted[other])
    for kind, colour, text in ((True, "#0072b2", "one class"), (False, "#d0202a", "two classes")):
        of_kind = rows[:100][same[rows[:100]] == kind]
        lines = LineCollection(X[pairs[of_kind]], colors=colour, label=f"a pair of {text}")
        ax.add_collection(lines)
    ax.set_title(f'Only the {name} says "same": {same[rows].mean():.0%} are')
for ax in axes[:2]:
    ax.legend(loc="lower left", fontsize="small")
figure.colorbar(shade, ax=axes, label="probability that two samples\nhere are different")
