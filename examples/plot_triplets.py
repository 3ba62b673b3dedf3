"""
Learning from comparisons
=========================

People can often say which of two things is *more* alike, although they could not say whether two
things are the same. ``TATMLTriplets`` learns from such answers: "a is more like b than like c".
This example simulates a person who compares colours by hue and hardly looks at brightness, and
learns from few answers how that person sees.
"""

# %%
# A colour is described by hue (as a point on a circle), saturation and brightness. The person
# weighs them very differently and errs in one answer of ten.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import hsv_to_rgb

from tatml import TATMLTriplets

rng = np.random.default_rng(0)
hsv = rng.uniform([0, 0.3, 0.3], 1, size=(150, 3))
angle = 2 * np.pi * hsv[:, 0]
X = np.column_stack([np.cos(angle), np.sin(angle), 3 * hsv[:, 1], 3 * hsv[:, 2]])
NAMES = ["hue, cosine", "hue, sine", "saturation", "brightness"]
TRUE_WEIGHTS = np.array([3.0, 3.0, 0.5, 0.05])


def ask(samples, n_questions, error_rate=0.0):
    """Return triplets (a, b, c) of samples in which a is more like b than like c."""
    triplets = rng.permuted(np.tile(samples, (n_questions, 1)), axis=1)[:, :3]
    a, b, c = X[triplets].transpose(1, 0, 2)
    near = np.sum(TRUE_WEIGHTS * ((a - b) ** 2 - (a - c) ** 2), axis=1) < 0
    near ^= rng.random(n_questions) < error_rate
    return np.where(near[:, None], triplets, triplets[:, [0, 2, 1]])


seen, new = np.arange(100), np.arange(100, 150)
test = ask(new, 4000)

# %%
# How many answers are needed? The score is the share of questions about *other* colours that the
# metric answers as the person would. The distance without learning has standardised features.
#
# The second picture has the learnt weights against those that the person used. Only ratios
# matter: multiplying all weights by a number changes no answer.


def plain_score(triplets):
    a, b, c = (X / X.std(axis=0))[triplets].transpose(1, 0, 2)
    return np.mean(np.sum((a - b) ** 2, axis=1) < np.sum((a - c) ** 2, axis=1))


counts = [10, 20, 50, 100, 200, 400, 800]
scores = np.empty((10, len(counts)))  # ten people who see alike, but answer other questions
for row in scores:
    answers = ask(seen, counts[-1], error_rate=0.1)
    models = [
        TATMLTriplets(C=1000, preprocessor=X, prior="diagonal").fit(answers[:count])
        for count in counts
    ]
    row[:] = [model.score(test) for model in models]

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
axes[0].semilogx(counts, scores.mean(axis=0), "o-", color="#0072b2", label="learnt, mean of 10")
axes[0].fill_between(
    counts, scores.min(axis=0), scores.max(axis=0), color="#0072b2", alpha=0.2, lw=0
)
axes[0].axhline(plain_score(test), color="#999999", ls="--", label="standardised features")
axes[0].set_xticks(counts, [str(count) for count in counts], minor=False)
axes[0].minorticks_off()
axes[0].set(xlabel="answers, one in ten wrong", ylabel="right answers on other colours")
axes[0].set(title="Few answers are enough")
axes[0].legend(loc="lower right")

learnt = np.diagonal(models[-1].get_mahalanobis_matrix())
places = np.arange(4)
axes[1].barh(places - 0.2, TRUE_WEIGHTS / TRUE_WEIGHTS.sum(), 0.38, color="#999999", label="used")
axes[1].barh(places + 0.2, learnt / learnt.sum(), 0.38, color="#0072b2", label="learnt")
axes[1].set_yticks(places, NAMES)
axes[1].invert_yaxis()
axes[1].set(xlabel="share of the weights", title="What the person looks at")
axes[1].legend(loc="lower right")

# %%
# Each row starts with a colour that the metric has not seen, followed by its nearest neighbours.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, rows, name in (
    (axes[0], X / X.std(axis=0), "Standardised features"),
    (axes[1], models[-1].transform(X), "Learnt metric"),
):
    distances = np.linalg.norm(rows[new[:6], None] - rows[seen], axis=2)
    nearest = np.column_stack([new[:6], seen[np.argsort(distances, axis=1)[:, :7]]])
    ax.imshow(hsv_to_rgb(hsv[nearest]))
    ax.axvline(0.5, color="white", lw=4)
    ax.set_xticks(np.arange(8), ["new", *map(str, range(1, 8))])
    ax.set(xlabel="nearest neighbours", ylabel="colours", title=name)
    ax.set_yticks([])
