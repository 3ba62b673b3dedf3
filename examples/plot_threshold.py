"""
The threshold between two histograms
====================================

A fitted metric knows how far apart two samples of the same class may be. Here it is learnt from one
half of the wines, and the picture shows all pairs of the other half.
"""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from tatml import TATML
from tatml.plotting import PairDistanceDisplay

X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
metric = TATML(random_state=0).fit(X_train, y_train)

# %%
# All pairs of the test half: +1 for the same cultivar, −1 for different ones.

pairs = np.column_stack(np.triu_indices(len(y_test), 1))
same = np.where(y_test[pairs[:, 0]] == y_test[pairs[:, 1]], 1, -1)
print(f"threshold: {metric.threshold_:.3f}")

# %%
# The dashed lines are the margins: similar pairs should lie below the first one, dissimilar pairs
# above the second one. The threshold lies between them.

display = PairDistanceDisplay.from_estimator(metric, pairs, same, X_test)
