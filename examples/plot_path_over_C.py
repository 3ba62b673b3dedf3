"""
A path over C
=============

``C`` weighs the pairs against the prior: with a small C the metric stays at the prior, with a
large C it follows the pairs. This example solves for many values of C, each from the solution
before it, and shows what changes: the weights, the threshold, and how well new samples are told
apart.
"""

# %%
# The prior is "diagonal" here, so that all structure comes from the pairs; ``warm_start=True``
# starts each fit from the previous solution.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from tatml import TATML

wine = load_wine()
X, X_new, y, y_new = train_test_split(
    wine.data, wine.target, test_size=0.5, stratify=wine.target, random_state=1
)
pairs = np.stack(np.triu_indices(len(X_new), 1), axis=1)
similar = y_new[pairs[:, 0]] == y_new[pairs[:, 1]]

metric = TATML(prior="diagonal", warm_start=True, random_state=0)
Cs = np.logspace(-2, 4, 25)
weights, thresholds, aucs, accuracies, steps = [], [], [], [], []
for C in Cs:
    metric.set_params(C=C).fit(X, y)
    weights.append(np.diagonal(metric.get_mahalanobis_matrix()) / np.diagonal(metric.prior_))
    thresholds.append(metric.threshold_)
    aucs.append(roc_auc_score(similar, metric.pair_score(pairs, X_new)))
    neighbours = KNeighborsClassifier(3).fit(metric.transform(X), y)
    accuracies.append(neighbours.score(metric.transform(X_new), y_new))
    steps.append(metric.n_iter_)
print(f"{sum(steps)} Newton steps for {len(Cs)} solutions")

# %%
# On the left, the diagonal of the metric relative to the prior: a weight above 1 has grown. In
# the middle the threshold. On the right the scores on new samples, with those of standardised
# features as lines: they are the scores of a distance without learning.

scaler = StandardScaler().fit(X)
rows = scaler.transform(X_new)
plain_auc = roc_auc_score(similar, -np.linalg.norm(rows[pairs[:, 0]] - rows[pairs[:, 1]], axis=1))
plain_accuracy = KNeighborsClassifier(3).fit(scaler.transform(X), y).score(rows, y_new)

figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
weights = np.array(weights)
largest = np.argsort(-weights[-1])[:5]
for feature, values in enumerate(weights.T):
    named = feature in largest
    axes[0].loglog(
        Cs, values, color=None if named else "#cccccc", lw=1.8 if named else 0.8,
        label=wine.feature_names[feature] if named else None, zorder=2 if named else 1,
    )  # fmt: skip
axes[0].set(xlabel="C", ylabel="weight relative to the prior", title="Weights of the features")
axes[0].legend(fontsize="small", title="the five largest", loc="upper left")
axes[0].set_yticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
axes[0].minorticks_off()
axes[1].semilogx(Cs, thresholds, color="#222222")
axes[1].set(xlabel="C", ylabel="threshold", title="Threshold")
for values, plain, name, colour in (
    (aucs, plain_auc, "pair AUC", "#0072b2"),
    (accuracies, plain_accuracy, "3 nearest neighbours", "#d55e00"),
):
    axes[2].semilogx(Cs, values, color=colour, label=name)
    axes[2].axhline(plain, color=colour, ls=":", label=f"{name}, standardised")
axes[2].axvline(100, color="#999999", lw=0.8)
axes[2].annotate("default", (100, 0.83), (4, 0), textcoords="offset points")
axes[2].set(xlabel="C", ylabel="score on new samples", title="Scores", ylim=(0.7, 1.005))
axes[2].legend(fontsize="small", loc="lower left")

# %%
# ``TATMLCV`` searches along such a path by cross-validation.
