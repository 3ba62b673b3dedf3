"""
Bananas: metrics that bend
==========================

A linear metric can stretch and turn the space, but not bend it. Two interlocked bananas need a
bend. ``TATML(kernel="rbf")`` learns in the space of a kernel, and still finds its own threshold.
"""

# %%
# Two bananas, and a third column of noise that a distance has to ignore.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tatml import TATML, Euclidean


def bananas(n_samples, seed):
    """Return samples of two classes, with a column of noise."""
    moons, y = make_moons(n_samples, noise=0.12, random_state=seed)
    noise = np.random.default_rng(seed).normal(size=(n_samples, 1))
    return np.hstack([moons, noise]), y


X, y = bananas(200, 0)
X_new, y_new = bananas(400, 1)
metrics = {
    "Standardised": make_pipeline(StandardScaler(), Euclidean(random_state=0)),
    "Linear": make_pipeline(TATML(random_state=0)),
    "Kernel": make_pipeline(TATML(kernel="rbf", random_state=0)),
}

# %%
# The pictures show, for each place of the plane, its distance from one sample, the star: dark
# places are near. The line is the learnt threshold: inside it, samples count as the same. The
# third column is zero in the pictures.

pairs = np.random.default_rng(0).integers(len(X_new), size=(20_000, 2))
signs = np.where(y_new[pairs[:, 0]] == y_new[pairs[:, 1]], 1, -1)
grid_x, grid_y = np.meshgrid(np.linspace(-1.6, 2.6, 90), np.linspace(-1.2, 1.7, 70))
plane = np.zeros((grid_x.size, 3))
plane[:, 0], plane[:, 1] = grid_x.ravel(), grid_y.ravel()
star = np.array([[0.0, 1.0, 0.0]])  # the middle of the upper banana

figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
for ax, (name, model) in zip(axes, metrics.items(), strict=True):
    rows = model.fit_transform(X, y)
    images = model.transform(np.concatenate([star, plane]))
    distance = np.linalg.norm(images[1:] - images[0], axis=1).reshape(grid_x.shape)
    ax.contourf(grid_x, grid_y, distance, levels=12, cmap="Greys_r", alpha=0.8)
    ax.contour(grid_x, grid_y, distance, levels=[model[-1].threshold_], colors="black")
    for label, colour in ((0, "#0072b2"), (1, "#d55e00")):
        ax.plot(*X[y == label, :2].T, ".", color=colour, markersize=4, label=f"class {label}")
    ax.plot(*star[0, :2], "*", color="#f0e442", markersize=16, markeredgecolor="black")
    new = model.transform(X_new)
    gaps = np.linalg.norm(new[pairs[:, 0]] - new[pairs[:, 1]], axis=1)
    auc = roc_auc_score(signs, -gaps)
    accuracy = KNeighborsClassifier(3).fit(rows, y).score(new, y_new)
    ax.set_title(f"{name}: pair AUC {auc:.2f}, 3-NN {accuracy:.2f}")
    ax.set(xlabel="column 0", ylabel="column 1", aspect="equal")
axes[0].legend(loc="upper right", fontsize="small")

# %%
# Three nearest neighbours hardly need a metric here: they look at a small region, in which a
# banana is almost straight. Whether *any* two samples belong to one banana is a question for all
# distances. The linear metric ignores the noise; only the bent one also follows the bananas.
