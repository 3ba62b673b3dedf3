"""
Which features matter
=====================

A learnt metric weighs features and combines them. Two questions have different answers: how much
of the *distances* comes from a feature, and how much worse would *decisions* be without it?
"""

# %%
# The columns of the data frame have names, which the estimator keeps for tables and pictures.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from tatml import TATML
from tatml.inspection import compare_importance, feature_shares, permutation_importance
from tatml.plotting import FeatureShareDisplay, MetricDisplay, PermutationImportanceDisplay

X, y = load_wine(return_X_y=True, as_frame=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
metric = TATML(random_state=0).fit(X, y)

first, second = np.triu_indices(len(X_new), 1)
pairs = np.stack([first, second], axis=1)
signs = np.where(y_new.to_numpy()[first] == y_new.to_numpy()[second], 1, -1)

# %%
# **Shares.** The squared distance is a sum over features, and the share of a feature is its part
# of this sum. Shares sum to 1. A feature with a larger share for dissimilar than for similar
# pairs separates the cultivars better than the distance as a whole does. A negative share would
# mean that the feature is used to correct others.

shares = feature_shares(metric, pairs, signs, X_new)
print(shares)

# %%
# **Permutation importance.** If the values of a feature are shuffled among the wines, how much
# does the ranking of the pairs suffer? The AUC is the probability that a dissimilar pair is
# farther apart than a similar pair. Features that carry the same information share their
# importance.

importance = permutation_importance(metric, pairs, signs, X_new, n_repeats=10, random_state=0)
print(importance)

figure, axes = plt.subplots(1, 2, figsize=(12, 5.4), layout="constrained")
FeatureShareDisplay.from_result(shares, ax=axes[0])
PermutationImportanceDisplay.from_result(importance, ax=axes[1])

# %%
# **Why they disagree.** Some features have a large share and little importance. Each reason is
# checked on the same pairs: alone, the feature ranks them hardly better than chance, or the others
# do almost as well if it is permuted.

print(compare_importance(metric, pairs, signs, X_new, n_repeats=10, random_state=0))

# %%
# **The matrix.** Entries off the diagonal show which features are combined. Rows and columns are
# scaled so that the diagonal of the prior is 1: features of different units can be compared.

MetricDisplay.from_estimator(metric)
