"""
Which blocks matter
===================

A sample may consist of several parts: here an image is described by covariance matrices of pixel
features at two scales, and by a vector with the mean brightness of its rows. Each part is a
*block*, and the metric learns one matrix per block. This example shows how much each block, and
each row of a block, contributes.
"""

# %%
# ``BlockUnion`` joins the parts. The names of the transformers, of the scales and of the pixel
# features stay with the data, through the pipeline into the pictures.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tatml import TATML
from tatml.datasets import make_textures
from tatml.features import (
    BlockScaler,
    BlockUnion,
    CovarianceDescriptor,
    LogEuclidean,
    Vectorize,
)
from tatml.inspection import permutation_importance
from tatml.plotting import BlockShareDisplay, FeatureShareDisplay, PermutationImportanceDisplay

textures = make_textures(n_classes=6, n_per_class=30, size=32, noise=0.6, random_state=0)
images, y = textures.images, textures.target
union = BlockUnion(
    [
        ("covariance", make_pipeline(CovarianceDescriptor(), LogEuclidean(), Vectorize())),
        ("brightness", FunctionTransformer(lambda images: images.mean(axis=2))),
    ]
)
X = union.fit_transform(images)
print(X, *X.names, sep="\n  ")

# %%
# Learn from every second image; compare pairs of the others.

metric = TATML(random_state=0).fit(X[::2], y[::2])
X_new, y_new = X[1::2], y[1::2]
first, second = np.triu_indices(len(X_new), 1)
pairs = np.stack([first, second], axis=1)
signs = np.where(y_new[first] == y_new[second], 1, -1)

figure, axes = plt.subplots(1, 2, figsize=(12, 3.4), layout="constrained")
BlockShareDisplay.from_estimator(metric, pairs, signs, X_new, ax=axes[0])
importance = permutation_importance(
    metric, pairs, signs, X_new, by="blocks", n_repeats=10, random_state=0
)
PermutationImportanceDisplay.from_result(importance, ax=axes[1])

# %%
# The same for single rows: those of a covariance block are the pixel features.

FeatureShareDisplay.from_estimator(metric, pairs, signs, X_new, max_features=12)

# %%
# The brightness says nothing about the texture. It has a larger share in the distances of similar
# than of dissimilar pairs, and shuffling it does no harm: leave it out. Does learning help?
# Without learning, each block has the same weight in the distance.

plain = make_pipeline(BlockScaler(), Vectorize(join=True), KNeighborsClassifier(3))
learnt = make_pipeline(TATML(random_state=0), KNeighborsClassifier(3))
for name, model in (("blocks of equal weight", plain), ("learnt metric", learnt)):
    accuracy = model.fit(X[::2], y[::2]).score(X_new, y_new)
    print(f"3 nearest neighbours, {name}: {accuracy:.3f}")
