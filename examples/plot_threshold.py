"""
The threshold between two histograms
====================================

Are two digits the same? A distance answers with a number, a threshold with yes or no. ``TATML``
learns both. The two pictures show the distances of pairs that were not used to learn: once with
the distance of the pixels, and once with the learnt distance. Each has the threshold that was
learnt for it.
"""

# %%
# The distance without learning is ``Euclidean``: it learns nothing but the threshold, from the
# same labels. All pixels have the same unit, so they need no scaling; on this data, scaling them
# makes the distance worse.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tatml import TATML, Euclidean
from tatml.plotting import PairDistanceDisplay

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=600, test_size=600, random_state=0)

plain = Euclidean(random_state=0).fit(X, y)
learnt = TATML(random_state=0).fit(X, y)

# %%
# As many pairs of one digit as pairs of two different digits, among the new images:

rng = np.random.default_rng(0)
pairs = rng.integers(len(y_new), size=(40_000, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
same = y_new[pairs[:, 0]] == y_new[pairs[:, 1]]
pairs = np.concatenate([pairs[same], pairs[~same][: same.sum()]])
signs = np.repeat([1, -1], same.sum())

figure, axes = plt.subplots(2, 1, figsize=(7, 7.5), layout="constrained")
for ax, metric, name in ((axes[0], plain, "Plain pixels"), (axes[1], learnt, "Learnt metric")):
    display = PairDistanceDisplay.from_estimator(metric, pairs, signs, X_new, ax=ax, name=name)
    missed, passed = display.error_rates
    print(f"{name}: {missed:.1%} of the similar pairs are above, {passed:.1%} of the others below")

# %%
# The dashed lines are the margins of the learning problem: similar pairs should lie below the
# first and dissimilar pairs above the second. The learnt threshold lies between them and weighs
# both kinds of errors alike; for a rate that must not be exceeded, see the example on DET curves.
