"""
EEG: which bands and which electrodes
=====================================

Trials of an EEG are compared by the covariance of their channels in several frequency bands. The
metric has one matrix per band, so it can tell which bands and which electrodes separate the
classes. The signals are simulated, so the right answer is known: imagined movements of the left
and of the right hand change the rhythm at 8–13 Hz over the opposite side of the head. Strong
activity of the eyes and slow waves at the back of the head vary from trial to trial and mean
nothing. To classify recordings, start with one broad band (the tutorial on covariance matrices).
"""

# %%
# **The electrodes** on the head seen from above, the nose at the top.

import matplotlib.pyplot as plt
import numpy as np
from scipy.interpolate import RBFInterpolator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from tatml import TATML
from tatml.features import BlockScaler, FilterBankCovariance, LogEuclidean, Vectorize
from tatml.inspection import permutation_importance
from tatml.plotting import PermutationImportanceDisplay

POSITIONS = {
    "Fp1": (-0.25, 0.8), "Fp2": (0.25, 0.8), "F3": (-0.4, 0.42), "Fz": (0.0, 0.42),
    "F4": (0.4, 0.42), "T7": (-0.85, 0.0), "C3": (-0.45, 0.0), "Cz": (0.0, 0.0),
    "C4": (0.45, 0.0), "T8": (0.85, 0.0), "P3": (-0.4, -0.42), "Pz": (0.0, -0.42),
    "P4": (0.4, -0.42), "O1": (-0.25, -0.8), "O2": (0.25, -0.8),
}  # fmt: skip
CHANNELS, PLACES = list(POSITIONS), np.array(list(POSITIONS.values()))
BANDS, SFREQ = [(4, 8), (8, 13), (13, 30)], 100


def seen_from(centre):
    """Return how strongly each electrode sees a source near a place."""
    return np.exp(-np.sum((PLACES - centre) ** 2, axis=1) / 0.12)


def simulate(n_trials, rng, n_times=200):
    """Return trials (n_trials, n_channels, n_times) and the hand, 0 for left and 1 for right."""
    hand = rng.permutation(n_trials) % 2
    trials = rng.normal(size=(n_trials, len(CHANNELS), n_times))
    time = np.arange(n_times) / SFREQ
    for trial, side in zip(trials, hand, strict=True):
        sources = [  # place, frequency, strength
            (POSITIONS["C3"], rng.uniform(9, 12), 1.6 if side == 0 else 0.7),  # falls on the
            (POSITIONS["C4"], rng.uniform(9, 12), 0.7 if side == 0 else 1.6),  # opposite side
            ((0.0, 0.9), rng.uniform(4, 7), 4 * rng.random()),  # the eyes
            ((0.0, -0.7), rng.uniform(4, 20), 4 * rng.random()),  # the back of the head
        ]
        for place, frequency, strength in sources:
            wave = np.sin(2 * np.pi * (frequency * time + rng.random()))
            trial += strength * seen_from(place)[:, None] * wave
    return trials, hand


rng = np.random.default_rng(0)
trials, hand = simulate(160, rng)

# %%
# **Learning.** ``FilterBankCovariance`` gives one covariance matrix per band, with the names of
# the bands and of the channels (MNE's Epochs have the names of the channels already).

bank = make_pipeline(FilterBankCovariance(BANDS, SFREQ, channel_names=CHANNELS), LogEuclidean())
X = bank.fit_transform(trials)
metric = TATML(random_state=0).fit(X[:80], hand[:80])

X_new, hand_new = X[80:], hand[80:]
first, second = np.triu_indices(len(hand_new), 1)
pairs = np.stack([first, second], axis=1)[::4]
signs = np.where(hand_new[pairs[:, 0]] == hand_new[pairs[:, 1]], 1, -1)

# %%
# **Which band?** Shuffle one band among the trials and see how much the ranking of pairs suffers.

by_band = permutation_importance(
    metric, pairs, signs, X_new, by="blocks", n_repeats=10, random_state=0
)
print(by_band)
PermutationImportanceDisplay.from_result(by_band, name="Importance of the bands")

# %%
# **Which electrodes?** Shuffle one electrode of one band, and draw the loss on the head.

by_electrode = permutation_importance(metric, pairs, signs, X_new, n_repeats=5, random_state=0)
losses = by_electrode.mean.reshape(len(BANDS), len(CHANNELS))


def draw_head(ax, values, limit):
    """Draw values at the electrodes, and between them, on a head seen from above."""
    grid = np.linspace(-1, 1, 80)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    field = RBFInterpolator(PLACES, values, kernel="thin_plate_spline", smoothing=1e-3)(points)
    field[np.sum(points**2, axis=1) > 1] = np.nan
    image = ax.imshow(
        field.reshape(80, 80), origin="lower", extent=(-1, 1, -1, 1), cmap="RdBu_r",
        vmin=-limit, vmax=limit,
    )  # fmt: skip
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, lw=1.5))
    ax.plot([-0.12, 0, 0.12], [0.99, 1.14, 0.99], color="black", lw=1.5)  # the nose
    ax.plot(*PLACES.T, ".", color="black", markersize=3)
    for name, (x, y) in POSITIONS.items():
        ax.annotate(name, (x, y), (0, 4), textcoords="offset points", ha="center", fontsize=7)
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.2), aspect="equal")
    ax.axis("off")
    return image


figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
limit = np.abs(losses).max()
for ax, band, values in zip(axes, X.names, losses, strict=True):
    image = draw_head(ax, values, limit)
    ax.set_title(band)
figure.colorbar(image, ax=axes, label="loss of the pair AUC", shrink=0.8)
figure.suptitle("What is lost when one electrode is shuffled")

# %%
# The metric has found the band at 8–13 Hz and the electrodes C3 and C4. Does it also help to
# decide which hand it was? The distance without learning gives each band the same weight.

plain = make_pipeline(BlockScaler(), Vectorize(join=True), KNeighborsClassifier(3))
learnt = make_pipeline(TATML(random_state=0), KNeighborsClassifier(3))
for name, model in (("bands of equal weight", plain), ("learnt metric", learnt)):
    accuracy = model.fit(X[:80], hand[:80]).score(X_new, hand_new)
    print(f"3 nearest neighbours, {name}: {accuracy:.3f}")
