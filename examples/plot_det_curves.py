"""
DET curves with limits
======================

A verifier makes two kinds of errors: it accepts a pair that is different (false match), or
rejects a pair that is the same (false non-match). A detection error trade-off (DET) curve shows
one rate against the other for all thresholds. Rates are estimates from a limited number of pairs,
so this picture has their limits as well.
"""

# %%
# Three disjoint sets of digits: to learn the metric, to set the threshold, and to measure. No
# image is in two of them.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from tatml import PairThreshold, TATMLPairs
from tatml.plotting import DetDisplay
from tatml.verification import report, train_test_split_pairs

X, digit = load_digits(return_X_y=True)
index = np.random.default_rng(0).integers(len(X), size=(30_000, 2))
index = index[index[:, 0] != index[:, 1]]
y = np.where(digit[index[:, 0]] == digit[index[:, 1]], 1, -1)
train, rest, y_train, y_rest = train_test_split_pairs(index, y, random_state=0)
tune, test, y_tune, y_test = train_test_split_pairs(rest, y_rest, test_size=0.6, random_state=0)

# %%
# The plain distance of the pixels gets a threshold of its own from the same pairs. For both, the
# threshold is then set so that at most 5 % of the pairs of different digits are accepted, with a
# confidence of 95 %: this is a promise for pairs that nobody has seen yet.

verifiers = {
    "Plain pixels": PairThreshold("euclidean", preprocessor=X).fit(train, y_train),
    "Learnt metric": TATMLPairs(preprocessor=X).fit(train, y_train),
}
figure, axes = plt.subplots(1, 2, figsize=(12, 5.8), layout="constrained")
for ax, (name, verifier) in zip(axes, verifiers.items(), strict=True):
    verifier.calibrate_threshold(tune, y_tune, strategy="false_match_rate", max_rate=0.05)
    found = report(verifier, test, y_test)
    DetDisplay.from_report(found, ax=ax, name=name)
    point = found.points[0]
    for what, rate in (("matches", point.false_match), ("non-matches", point.false_non_match)):
        print(f"{name}: false {what} {rate.value:.3f}, limits {rate.low:.3f} to {rate.high:.3f}")
    print(f"  area under the ROC curve: {roc_auc_score(y_test, verifier.pair_score(test)):.3f}")

# %%
# The band is the limit of the false non-match rate; the crosses are the limits of both rates at a
# threshold. They are wider than textbook limits for so many pairs, because pairs share images.
