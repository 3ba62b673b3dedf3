"""
How certain is the learnt threshold?
====================================

The threshold is learnt from samples, so other samples would have given another one. The bootstrap
shows by how much: learn again from samples drawn with replacement, many times. Whole samples are
drawn, not pairs, because pairs that share a sample are not independent.
"""

# %%
# The same data in three sizes. For each, 25 metrics and thresholds are learnt.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from tatml import TATML
from tatml.inspection import threshold_interval

X, y = load_iris(return_X_y=True)
sizes, intervals, accuracies = [30, 60, 120], [], []
for size in sizes:
    X_some, X_rest, y_some, y_rest = train_test_split(
        X, y, train_size=size, stratify=y, random_state=0
    )
    metric = TATML(threshold="joint", n_pairs_per_class=50, random_state=0).fit(X_some, y_some)
    found = threshold_interval(metric, X_some, y_some, n_resamples=25, random_state=0)
    intervals.append(found)
    pairs = np.stack(np.triu_indices(len(X_rest), 1), axis=1)
    same = y_rest[pairs[:, 0]] == y_rest[pairs[:, 1]]
    accuracies.append(np.mean((metric.predict_pairs(pairs, X_rest) > 0) == same))
    print(f"{size} flowers: threshold {found.value:.2f}, from {found.low:.2f} to {found.high:.2f}")

# %%
# Each point is the threshold of a resample. The bars are the 95 % intervals. The accuracy of
# decisions about pairs of other flowers depends much less on the size than the threshold does:
# near the best threshold a small change moves few pairs to the other side.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
rng = np.random.default_rng(0)
for place, found in enumerate(intervals):
    spread = place + rng.uniform(-0.12, 0.12, len(found.distribution))
    axes[0].plot(spread, found.distribution, ".", color="#0072b2", alpha=0.5)
    ends = [[found.value - found.low], [found.high - found.value]]
    axes[0].errorbar(place + 0.25, found.value, ends, fmt="o", color="#222222", capsize=4)
axes[0].set_xticks(range(len(sizes)), [str(size) for size in sizes])
axes[0].set(xlabel="flowers for learning", ylabel="threshold", title="95 % intervals")
axes[1].plot(sizes, accuracies, "o-", color="#0072b2")
axes[1].set(xlabel="flowers for learning", ylabel="accuracy on other pairs", ylim=(0.5, 1.0))
axes[1].set(title="Decisions about the other flowers", xticks=sizes)
