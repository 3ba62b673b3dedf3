"""
From distances to probabilities
===============================

"How sure are you that these two are the same?" needs a probability, not a distance. The
probability depends on how many pairs are the same where the verifier is used: the same distance
means much more if every second pair is the same than if one in a hundred is.
``calibrate_probability`` learns it from held-out pairs and is told the rate.
"""

# %%
# Three disjoint sets of digits: to learn the metric, to calibrate, and to look at the result.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from tatml import TATMLPairs
from tatml.plotting import ReliabilityDisplay
from tatml.verification import train_test_split_pairs

X, digit = load_digits(return_X_y=True)
index = np.random.default_rng(0).integers(len(X), size=(40_000, 2))
index = index[index[:, 0] != index[:, 1]]
y = np.where(digit[index[:, 0]] == digit[index[:, 1]], 1, -1)
train, rest, y_train, y_rest = train_test_split_pairs(index, y, random_state=0)
tune, test, y_tune, y_test = train_test_split_pairs(rest, y_rest, test_size=0.5, random_state=0)
verifier = TATMLPairs(preprocessor=X).fit(train, y_train)

# %%
# The probability falls with the distance. For another rate all curves keep their shape and move:
# the log odds change by a constant. The learnt threshold does not change; it belongs to equal
# rates.
#
# Are the probabilities right? Of the pairs with a probability near 0.8, four in five should be
# the same. In these pairs about one in ten is the same, and the verifier was told so.

figure, axes = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
distance = verifier.pair_distance(test)
order = np.argsort(distance)
for rate, colour in ((0.5, "#0072b2"), (0.1, "#009e73"), (0.01, "#d55e00")):
    verifier.calibrate_probability(tune, y_tune, same_rate=rate)
    probability = verifier.pair_probability(test)
    label = f"{rate:.0%} of the pairs are the same"
    axes[0].plot(distance[order], probability[order], color=colour, label=label)
axes[0].axvline(verifier.threshold_, color="#222222", lw=1, label="learnt threshold")
axes[0].set(xlabel="learnt distance", ylabel="probability that the pair is the same")
axes[0].set(title="One distance, several probabilities", ylim=(-0.02, 1.02))
axes[0].legend(fontsize="small")

verifier.calibrate_probability(tune, y_tune, same_rate=float(np.mean(y_test > 0)))
ReliabilityDisplay.from_estimator(verifier, test, y_test, ax=axes[1])
