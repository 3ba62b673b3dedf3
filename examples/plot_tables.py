"""
Tables: neighbours in a learnt space, or boosted trees?
=======================================================

Both take tables with categories and missing values. Which one is better depends on how the classes
depend on the columns. Here are two made tables, one for each.
"""

# %%
# In the first table classes change gradually with age, income and season, and many columns matter a
# little. In the second one they follow rules: limits of two columns out of twelve decide, and the
# other columns say nothing.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from tatml import make_table_pipeline
from tatml.datasets import make_customers
from tatml.features import TableEncoder


def make_rules(n_samples, seed):
    """Return a frame of numbers and words of which two decide, by rules, and the classes."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.uniform(size=(n_samples, 9))).add_prefix("number ")
    for name in ("colour", "shape", "material"):
        frame[name] = rng.choice([f"{name} {k}" for k in range(4)], n_samples)
    inside = frame["number 0"].between(0.3, 0.7) & frame["colour"].isin(["colour 0", "colour 2"])
    inside |= (frame["number 0"] > 0.9) & (frame["colour"] == "colour 1")
    wrong = rng.random(n_samples) < 0.05
    return frame, np.where(inside ^ wrong, "yes", "no")


tables = {
    "gradual": make_customers(1600, random_state=0, return_X_y=True),
    "rules": make_rules(1600, seed=0),
}

# %%
# The plain opponent of both are neighbours in the encoded columns.

models = {
    "neighbours": lambda: make_pipeline(TableEncoder(random_state=0), KNeighborsClassifier(15)),
    "learnt space": lambda: make_table_pipeline(random_state=0),
    "boosted trees": lambda: make_pipeline(
        TableEncoder(0, random_state=0), GradientBoostingClassifier(random_state=0)
    ),
}
accuracy = pd.DataFrame(index=list(models), columns=list(tables), dtype=float)
losses = accuracy.copy()
for table, (X, y) in tables.items():
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    for name, make in models.items():
        model = make().fit(X_train, y_train)
        probabilities = model.predict_proba(X_test)
        accuracy.loc[name, table] = model.score(X_test, y_test)
        losses.loc[name, table] = log_loss(y_test, probabilities, labels=model.classes_)
print("accuracy", accuracy.round(3).to_string(), sep="\n")
print("log loss", losses.round(3).to_string(), sep="\n")

figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for ax, values, label in zip(axes, (1 - accuracy, losses), ("error rate", "log loss"), strict=True):
    values.T.plot.bar(ax=ax, rot=0, legend=ax is axes[0])
    ax.set(xlabel="table", ylabel=label, title="Less is better")

# %%
# **When to take which.** On tables of others, see :doc:`/defaults`, the two are about equally
# accurate. Take boosted trees if a few columns decide by limits and rules, or if there are many
# columns that say nothing. Take the learnt space if you want probabilities from few rows, rows to
# show for a prediction, a distance for search, clusters and "same or different", or a threshold for
# classes that were not in training. The first table again:

X, y = tables["gradual"]
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = make_table_pipeline(random_state=0).fit(X_train, y_train)
row = X_test.iloc[[1]]
known, new = (model[:-1].transform(part) for part in (X_train, row))
nearest = np.argsort(np.linalg.norm(known - new, axis=1))[:4]
found = pd.concat([row, X_train.iloc[nearest]])
print(found.assign(plan=[y_test[1], *y_train[nearest]]).to_string())
