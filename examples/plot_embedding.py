"""
The learnt space beside the plain one
=====================================

A learnt metric is a linear map: after ``transform``, the Euclidean distance is the learnt
distance. So the learnt space can be drawn like any other data. This example draws it for wines of
three cultivars, beside the space of the standardised features, which is what a distance without
learning uses. All wines in the pictures are new to the metric.
"""

# %%
# Half of the wines are for learning, the other half for the pictures and the numbers.

from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tatml import TATML
from tatml.plotting import EmbeddingDisplay

wine = load_wine(as_frame=True)
X, X_new, y, y_new = train_test_split(
    wine.data, wine.target, test_size=0.5, stratify=wine.target, random_state=0
)
metric = TATML(random_state=0).fit(X, y)

# %%
# The pictures show the first two principal components of each space. Both axes of a picture have
# one unit, so distances can be compared by eye. In the learnt space the wines of one cultivar are
# closer to each other, relative to the distances between cultivars.

display = EmbeddingDisplay.from_estimator(
    metric, X_new, y_new, class_names=["cultivar 0", "cultivar 1", "cultivar 2"]
)
display.figure_.suptitle("89 wines that were not used to learn")

# %%
# A picture of two components is not the whole space. In the whole space, count how often the
# nearest wines for learning have the right cultivar.

for name, first in (("standardised features", StandardScaler()), ("learnt metric", metric)):
    model = make_pipeline(first, KNeighborsClassifier(3)).fit(X, y)
    print(f"3 nearest neighbours, {name}: {model.score(X_new, y_new):.3f}")
