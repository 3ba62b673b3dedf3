"""scikit-learn splits, shuffles and cross-validates Blocks without knowing what they are."""

import numpy as np
import pytest
from helpers import assert_same_blocks
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import shuffle

from tatml._data.blocks import Blocks


class NearestMean(ClassifierMixin, BaseEstimator):
    """Predicts the class with the nearest mean in one of the blocks."""

    def __init__(self, block=0):
        self.block = block

    def fit(self, X, y):
        assert isinstance(X, Blocks)
        features = X.arrays[self.block]
        self.classes_ = np.unique(y)
        self.means_ = np.stack([features[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X):
        differences = X.arrays[self.block][:, None] - self.means_
        return self.classes_[np.square(differences).sum(axis=(2, 3)).argmin(axis=1)]


class Doubled(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.is_fitted_ = True
        return self

    def transform(self, X):
        return Blocks(*(2 * array for array in X.arrays))


@pytest.fixture
def labelled():
    """Classes that block 1 tells apart and block 0 does not."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    noise = rng.normal(size=(40, 3, 3))
    return Blocks(noise, y[:, None] * 10 + rng.normal(size=(40, 2))), y


def test_train_test_split(labelled):
    X, y = labelled
    X_train, X_test, rows_train, rows_test = train_test_split(
        X, np.arange(len(X)), stratify=y, random_state=0
    )
    assert_same_blocks(X_train, [array[rows_train] for array in X.arrays])
    assert_same_blocks(X_test, [array[rows_test] for array in X.arrays])


def test_shuffle(labelled):
    X, _ = labelled
    shuffled, rows = shuffle(X, np.arange(len(X)), random_state=0)
    assert_same_blocks(shuffled, [array[rows] for array in X.arrays])


@pytest.mark.parametrize("splitter", [KFold(4), StratifiedKFold(4)])
def test_splitters(labelled, splitter):
    X, y = labelled
    folds = [test for _, test in splitter.split(X, y)]
    assert_array_equal(np.sort(np.concatenate(folds)), np.arange(len(X)))


@pytest.mark.parametrize("cv", [4, KFold(4)])
def test_cross_validation(labelled, cv):
    X, y = labelled
    assert_array_equal(cross_val_score(NearestMean(block=1), X, y, cv=cv), np.ones(4))
    assert_array_equal(cross_val_predict(NearestMean(block=1), X, y, cv=cv), y)


def test_grid_search_finds_the_telling_block(labelled):
    X, y = labelled
    search = GridSearchCV(NearestMean(), {"block": [0, 1]}, cv=4).fit(X, y)
    assert search.best_params_ == {"block": 1}
    assert_array_equal(search.predict(X), y)


def test_pipeline(labelled):
    X, y = labelled
    identity = FunctionTransformer()
    model = make_pipeline(Doubled(), identity, NearestMean(block=1))
    assert_array_equal(cross_val_score(model, X, y, cv=4), np.ones(4))
    assert model.fit(X, y).score(X, y) == 1.0
