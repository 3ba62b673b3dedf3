"""TATMLTriplets and TATMLQuadruplets: metric-learn's contract, and the problem that they solve."""

import numpy as np
import pytest
from comparisons_helpers import neighbour_triplets
from good_calls import TUPLE_ESTIMATORS, index_tuples, samples, tuples_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from tatml import (
    Blocks,
    Comparisons,
    Newton,
    TATMLQuadruplets,
    TATMLTriplets,
    learn_metric,
)
from tatml._estimators.inputs import TUPLE_SIZES
from tatml.io import load_model, save_model

ESTIMATORS = list(TUPLE_ESTIMATORS)
KINDS = ("vectors", "matrices", "blocks")
each = pytest.mark.parametrize("make", ESTIMATORS, ids=lambda make: make.__name__)


def fit(make, kind, **options):
    if kind == "blocks":
        options["preprocessor"] = samples(kind)
    return make(**options).fit(tuples_of(make, kind))


# What they learn


@each
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_metric_is_that_of_learn_metric(make, kind, reduction):
    model = fit(make, kind, reduction=reduction, C=10.0, margin=0.7, clip_outliers=False, tol=1e-10)
    index = index_tuples(TUPLE_SIZES[make._tuples_name])
    C = 10.0 / len(index) if reduction == "mean" else 10.0
    prior = model.prior_ if isinstance(model.prior_, list) else [model.prior_]
    comparisons = Comparisons(index, margin=0.7, C=C)
    result = learn_metric(samples(kind), comparisons=comparisons, prior=prior, tol=1e-10)
    assert_allclose(model.result_.primal, result.primal, rtol=1e-9)
    for found, expected in zip(model.result_.W, result.W, strict=True):
        assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert model.result_.b0 is None


@each
@pytest.mark.parametrize("kind", KINDS)
def test_the_compared_distances_have_mean_one_under_the_prior(make, kind):
    """In each block, over both sides of all comparisons, each as often as it occurs."""
    X, members = samples(kind), make._members
    index = index_tuples(TUPLE_SIZES[make._tuples_name])[:, members].reshape(-1, 2)
    arrays = X.arrays if kind == "blocks" else [X.reshape(len(X), X.shape[1], -1)]
    for prior in ("auto", "scaled", "within", "discriminant"):
        model = fit(make, kind, prior=prior, clip_outliers=False)
        priors = model.prior_ if kind == "blocks" else [model.prior_]
        for array, W0 in zip(arrays, priors, strict=True):
            difference = array[index[:, 0]] - array[index[:, 1]]
            squares = np.einsum("kia,ij,kja->k", difference, W0, difference)
            assert_allclose(squares.mean(), 1.0, err_msg=prior)


@each
def test_arrays_and_indices_give_the_same_metric(make):
    index = index_tuples(TUPLE_SIZES[make._tuples_name])
    arrays = make().fit(samples("vectors")[index])
    indices = make(preprocessor=samples("vectors")).fit(index)
    words = make(preprocessor=lambda names: samples("vectors")[names.astype(int)])
    for other in (indices, words.fit(index.astype(str))):
        assert_allclose(other.components_, arrays.components_, atol=1e-7)
    assert_array_equal(
        indices.decision_function(index[:4]),
        arrays.decision_function(samples("vectors")[index[:4]]),
    )


@each
def test_a_weight_of_two_is_a_repetition_and_zero_is_none(make):
    tuples = tuples_of(make, "vectors")
    weights = np.ones(len(tuples))
    weights[3], weights[5] = 2.0, 0.0
    repeated = np.concatenate([np.delete(tuples, 5, axis=0), tuples[3:4]])
    one, other = make(tol=1e-10).fit(tuples, sample_weight=weights), make(tol=1e-10).fit(repeated)
    assert_allclose(one.components_, other.components_, atol=1e-6)


def test_triplets_are_quadruplets_with_the_first_sample_twice():
    triplets = tuples_of(TATMLTriplets, "vectors")
    one = TATMLTriplets().fit(triplets)
    other = TATMLQuadruplets().fit(triplets[:, [0, 1, 0, 2]])
    assert_allclose(one.components_, other.components_, atol=1e-8)
    assert one.score(triplets) == other.score(triplets[:, [0, 1, 0, 2]])


@each
def test_units_do_not_matter(make):
    """Of the columns, and their origin."""
    index, X = index_tuples(TUPLE_SIZES[make._tuples_name]), samples("vectors")
    scale, shift = np.array([1e3, 1.0, 1e-4]), np.array([5.0, -1e3, 0.0])
    one = make(preprocessor=X).fit(index)
    other = make(preprocessor=scale * X + shift).fit(index)
    assert_allclose(one.decision_function(index), other.decision_function(index), atol=1e-5)


# What they answer


@each
@pytest.mark.parametrize("kind", KINDS)
def test_decisions_are_differences_of_distances(make, kind):
    model, index = fit(make, kind), index_tuples(TUPLE_SIZES[make._tuples_name])
    members = list(make._members)
    near, far = (
        model.pair_distance(index[:, pair], X=samples(kind)) for pair in (members[:2], members[2:])
    )
    decisions = model.decision_function(tuples_of(make, kind))
    assert_allclose(decisions, far - near)
    assert_array_equal(model.predict(tuples_of(make, kind)), np.where(decisions > 0, 1, -1))
    assert model.score(tuples_of(make, kind)) == np.mean(decisions > 0)
    weights = np.arange(20.0)
    assert_allclose(
        model.score(tuples_of(make, kind), sample_weight=weights),
        np.average(decisions > 0, weights=weights),
    )


@each
def test_there_is_no_threshold_before_a_calibration(make):
    model = fit(make, "vectors")
    X, pairs, y = samples("vectors"), [[0, 3], [0, 1], [1, 4], [2, 3]], [1, -1, 1, -1]
    assert not hasattr(model, "threshold_")
    with pytest.raises(AttributeError, match="has no threshold_"):
        model.predict_pairs(pairs, X)
    model.calibrate_threshold(pairs, y, X=X)
    assert model.predict_pairs(pairs, X).tolist() == y
    model.fit(tuples_of(make, "vectors"))
    assert not hasattr(model, "threshold_")


@each
def test_a_saved_metric_answers_the_same(make, tmp_path):
    pytest.importorskip("skops")
    model = fit(make, "vectors", preprocessor=samples("vectors"))
    path = tmp_path / "metric.skops"
    save_model(model, path)
    loaded = load_model(path).estimator
    assert_array_equal(loaded.transform(samples("vectors")), model.transform(samples("vectors")))
    assert loaded.result_.b0 is None
    tuples = samples("vectors")[index_tuples(TUPLE_SIZES[make._tuples_name])]
    assert_array_equal(loaded.predict(tuples), model.predict(tuples))


# In scikit-learn


@each
def test_clone_search_and_cross_validation(make):
    tuples = tuples_of(make, "vectors")
    assert clone(make(C=3.0)).get_params() == make(C=3.0).get_params()
    assert cross_val_score(make(), tuples, cv=2).shape == (2,)
    search = GridSearchCV(make(), {"C": [1.0, 100.0]}, cv=2).fit(tuples)
    assert search.best_params_["C"] in (1.0, 100.0)


@each
def test_fit_transform_is_hidden(make):
    assert not hasattr(make(), "fit_transform")


@each
def test_a_warm_start_needs_fewer_steps(make):
    model = make(warm_start=True, C=1e3, tol=1e-9).fit(tuples_of(make, "vectors"))
    before = model.n_iter_
    assert model.fit(tuples_of(make, "vectors")).n_iter_ < before


@each
def test_the_solver_is_seeded_and_may_be_given(make):
    model = fit(make, "vectors", solver=Newton(linear_solver="cg"), random_state=3)
    assert "cg" in model.result_.history["linear"]


@each
def test_several_blocks_need_indices(make):
    model = fit(make, "blocks")
    assert len(model.components_) == 2
    other = Blocks(*(array[:5] for array in samples("blocks").arrays))
    assert model.transform(other).shape == (5, model.transform(samples("blocks")).shape[1])


def test_triplets_of_neighbours_serve_nearest_neighbours():
    """Triplets drawn from half of wine order new triplets better than the plain distance."""
    X, y = load_wine(return_X_y=True)
    train, test = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
    scale = X[train].std(axis=0)
    drawn = neighbour_triplets(X[train] / scale, y[train])
    model = TATMLTriplets(preprocessor=X[train]).fit(drawn)
    new = neighbour_triplets(X[test] / scale, y[test], 10, 20)
    scaled = X[test] / scale
    plain = np.sum((scaled[new[:, [0, 0]]] - scaled[new[:, 1:]]) ** 2, axis=2)
    learnt = model.set_params(preprocessor=X[test]).score(new)
    assert learnt > np.mean(plain[:, 1] > plain[:, 0])
    classifier = make_pipeline(KNeighborsClassifier(3)).fit(model.transform(X[train]), y[train])
    assert classifier.score(model.transform(X[test]), y[test]) > 0.9
