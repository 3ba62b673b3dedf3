"""
ITML, Maz, GMML and LDA in one picture
======================================

Several methods learn a linear map from labels. This example shows what each makes of the same
data: handwritten digits, of which the metric sees 500. The pictures show 400 *other* digits by
the first two principal components of each learnt space.

- **Standardised**: no learning.
- **LDA**: linear discriminant analysis; maps to nine dimensions, one fewer than classes.
- **ITML**: information-theoretic metric learning; pairs beyond fixed distance bounds are
  penalised.
- **GMML**: geometric mean metric learning; a closed form.
- **Maz**: the earlier version of TATML, in which the threshold is fixed.
- **TATML**: metric and threshold are learnt together.
"""

# %%
# Two scores for each space, on new digits: the AUC of pairs (how well distances tell equal from
# different digits) and the accuracy of three nearest neighbours.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from tatml import GMML, ITML, TATML, Maz

X, y = load_digits(return_X_y=True)
X = X[:, X.std(axis=0) > 0.5]  # pixels that are not almost always white
X, X_new, y, y_new = train_test_split(
    X, y, train_size=500, test_size=400, stratify=y, random_state=0
)
pairs = np.stack(np.triu_indices(len(X_new), 1), axis=1)
similar = y_new[pairs[:, 0]] == y_new[pairs[:, 1]]

methods = {
    "Standardised": StandardScaler(),
    "LDA": LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    "ITML": ITML(random_state=0),
    "GMML": GMML(random_state=0),
    "Maz": Maz(random_state=0),
    "TATML": TATML(random_state=0),
}
figure, axes = plt.subplots(2, 3, figsize=(12, 8), layout="constrained")
for ax, (name, method) in zip(axes.ravel(), methods.items(), strict=True):
    rows, new = method.fit(X, y).transform(X), method.transform(X_new)
    distances = np.linalg.norm(new[pairs[:, 0]] - new[pairs[:, 1]], axis=1)
    auc = roc_auc_score(similar, -distances)
    accuracy = KNeighborsClassifier(3).fit(rows, y).score(new, y_new)
    plane = PCA(2).fit_transform(new)
    ax.scatter(*plane.T, c=y_new, cmap="tab10", vmin=-0.5, vmax=9.5, s=5)
    for digit in range(10):
        place = np.median(plane[y_new == digit], axis=0)
        box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.7, "linewidth": 0}
        ax.annotate(str(digit), place, ha="center", va="center", weight="bold", bbox=box)
    ax.set_title(f"{name}: pair AUC {auc:.3f}, 3-NN {accuracy:.3f}")
    ax.set(xlabel="component 1", ylabel="component 2")
    ax.set_aspect("equal", adjustable="datalim")

# %%
# One split of one data set ranks no method. The page of benchmarks compares them on many.
