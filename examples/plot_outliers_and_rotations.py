"""
Outliers and rotations
======================

Two things happen to tables. A few rows have wild values, because a sensor failed or a unit was
wrong. Or the columns are not the natural ones but mixtures of them, such as principal components.
Scaling each column undoes neither. What do the defaults of ``TATML`` do?
"""

# %%
# The score is the AUC of pairs of new samples: the probability that two samples of different
# classes are farther apart than two of the same class. The samples for testing are never damaged.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import fractional_matrix_power
from scipy.stats import special_ortho_group
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tatml import TATML

STYLES = {
    "standardised columns": ("#999999", "s"),
    "TATML(clip_outliers=False)": ("#d55e00", "^"),
    "TATML": ("#0072b2", "o"),
}
METHODS = {
    "standardised columns": make_pipeline(StandardScaler()),
    "TATML(clip_outliers=False)": TATML(clip_outliers=False, random_state=0),
    "TATML": TATML(random_state=0),
}


def pair_auc(method, X, y, X_new, y_new):
    """Return the AUC of the distances of all pairs of new samples."""
    with warnings.catch_warnings():  # fit warns of rows that dominate all distances, and names them
        warnings.simplefilter("ignore", UserWarning)
        images = method.fit(X, y).transform(X_new)
    first, second = np.triu_indices(len(X_new), 1)
    distances = np.linalg.norm(images[first] - images[second], axis=1)
    return roc_auc_score(y_new[first] == y_new[second], -distances)


# %%
# **Wild rows.** Some of 89 wines for learning are multiplied by 1,000, as if their unit were
# wrong. ``TATML`` clips wild entries while it learns. Without clipping, two such rows spoil the
# metric. Clipping has a limit too: when more than one row in twenty is wild, wild values look
# normal.

X, y = load_wine(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
n_wild = [0, 1, 2, 3, 4, 6, 9]
order = np.random.default_rng(0).permutation(len(X))


def damaged(count):
    """Return a copy of the table in which some rows have the wrong unit."""
    table = X.copy()
    table[order[:count]] *= 1000
    return table


with_outliers = {
    name: [pair_auc(method, damaged(count), y, X_new, y_new) for count in n_wild]
    for name, method in METHODS.items()
}

# %%
# **Mixed columns.** The table is rotated step by step: 0 is the table as it is, 1 a random
# rotation, after which every column is a mixture of all. The columns have very different units,
# so each mixture is mostly the column with the largest numbers. ``TATML`` compares by held-out
# pairs whether the columns as they are matter; after a rotation it decides that they do not
# (``prior_units_`` is "affine") and loses nothing. It needs enough samples to tell: for the 89
# wines, seven per column, it would not decide so.

X, y = load_breast_cancer(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
fractions = np.linspace(0, 1, 6)
rotation = special_ortho_group.rvs(X.shape[1], random_state=0)
partial = [fractional_matrix_power(rotation, fraction).real for fraction in fractions]
after_rotation = {
    name: [pair_auc(METHODS[name], X @ part, y, X_new @ part, y_new) for part in partial]
    for name in ("standardised columns", "TATML")
}

# %%
# Both in one picture.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
for name, (colour, marker) in STYLES.items():
    axes[0].plot(n_wild, with_outliers[name], color=colour, marker=marker, label=name)
    if name in after_rotation:
        axes[1].plot(fractions, after_rotation[name], color=colour, marker=marker)
axes[0].set(xlabel="wild rows among 89", ylabel="pair AUC of new samples", title="Outliers: wine")
axes[1].set(xlabel="part of a random rotation", title="Rotations: breast cancer")
figure.legend(loc="outside lower center", ncols=3)
