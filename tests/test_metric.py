"""Methods of a fitted metric: its distance, its threshold, and reduced embeddings."""

import pickle
from functools import cache

import numpy as np
import pytest
from estimators_helpers import JOINT, changed_attributes
from helpers import random_spd
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as hypothesis_arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist, squareform
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier

from tatml import TATML, Blocks, Euclidean, Maz, PairThreshold, TATMLPairs
from tatml._data.pairs import Pairs
from tatml._learning.metric import learn_b0, row_distances

SHAPES = {
    "vectors": [(4, 1)],
    "matrices": [(3, 2)],
    "two blocks": [(3, 2), (2, 1)],
    "three blocks": [(2, 1), (3, 3), (2, 4)],
}
ESTIMATORS = ["TATML", "TATMLPairs", "Euclidean"]
N_SAMPLES = 36
LABELS = np.arange(N_SAMPLES) % 3
INDEX = np.array([(i, (5 * i + 7) % N_SAMPLES) for i in range(N_SAMPLES)])


# Every estimator, and every shape of samples, for tests that fit anew.
SOME = [
    ("TATML", "vectors"),
    ("TATML", "three blocks"),
    ("TATMLPairs", "matrices"),
    ("TATMLPairs", "two blocks"),
    ("Euclidean", "three blocks"),
]


@pytest.fixture(params=SHAPES)
def shape(request):
    return request.param


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return request.param


def fitted_models(shape):
    """One fitted model per estimator."""
    return [fitted(estimator, shape) for estimator in ESTIMATORS]


@cache
def sample_arrays(shape):
    """Correlated entries; the classes differ in their means."""
    rng = np.random.default_rng([len(shape), *np.ravel(SHAPES[shape])])
    arrays = []
    for n, width in SHAPES[shape]:
        noise = rng.normal(size=(N_SAMPLES, n, width))
        arrays.append(random_spd(rng, n) @ noise + rng.normal(size=(3, n, width))[LABELS])
    return tuple(arrays)


def samples(shape):
    """Return samples in the form that a user gives: a table, matrices, or Blocks."""
    arrays = sample_arrays(shape)
    if len(arrays) > 1:
        return Blocks(*arrays)
    return arrays[0][:, :, 0] if arrays[0].shape[2] == 1 else arrays[0]


def pair_y(index=INDEX):
    return np.where(LABELS[index[:, 0]] == LABELS[index[:, 1]], 1, -1)


TRAINING = np.array([(i, j) for i in range(N_SAMPLES) for j in range(i) if (i + j) % 4 < 2])


def make(estimator, **options):
    if estimator == "TATML":
        return TATML(**{"C": 30.0, "pairs": "all", "tol": 1e-10} | JOINT | options)
    if estimator == "TATMLPairs":
        return TATMLPairs(**{"C": 30.0, "tol": 1e-10} | JOINT | options)
    return Euclidean(pairs="all", **options)


def fit(estimator, shape, **options):
    X = samples(shape)
    if estimator == "TATMLPairs":
        options = {"preprocessor": X} | options
        return make(estimator, **options).fit(TRAINING, pair_y(TRAINING))
    return make(estimator, **options).fit(X, LABELS)


@cache
def fitted(estimator, shape):
    return fit(estimator, shape)


def matrices_of(model, shape):
    """Return W_1, …, W_M."""
    if isinstance(model, Euclidean):
        return [np.eye(n) for n, _ in SHAPES[shape]]
    return model.result_.W


def distance_by_definition(W, u, v):
    """Return √((1/M) Σ tr(Δᵀ W_m Δ))."""
    traces = [np.trace((a - b).T @ w @ (a - b)) for w, a, b in zip(W, u, v, strict=True)]
    return np.sqrt(np.mean(traces))


def as_list(value, n_blocks):
    return [value] if n_blocks == 1 else value


# One distance


def test_the_distance_is_the_root_of_the_mean_over_blocks(shape):
    blocks = list(Blocks(*sample_arrays(shape)))
    for model in fitted_models(shape):
        W = matrices_of(model, shape)
        expected = [distance_by_definition(W, blocks[i], blocks[j]) for i, j in INDEX]
        distances = model.pair_distance(INDEX, samples(shape))
        assert_allclose(distances, expected, rtol=1e-9, err_msg=str(model))
        assert_array_equal(model.pair_score(INDEX, samples(shape)), -distances)
        assert model.pair_distance([[3, 3]], samples(shape)).tolist() == [0.0]
        if not isinstance(model, Euclidean):
            assert max(np.max(np.abs(w - np.eye(len(w)))) for w in W) > 0.1


def test_the_distance_is_euclidean_after_transform(shape):
    everything = np.array([(i, j) for i in range(N_SAMPLES) for j in range(N_SAMPLES)])
    for model in fitted_models(shape):
        embedded = model.transform(samples(shape))
        assert embedded.shape == (N_SAMPLES, sum(n * width for n, width in SHAPES[shape]))
        distances = model.pair_distance(everything, samples(shape)).reshape(N_SAMPLES, N_SAMPLES)
        assert_allclose(distances, squareform(pdist(embedded)), rtol=1e-9, atol=1e-12)


def test_transform_applies_the_components_block_by_block(shape):
    for model in fitted_models(shape):
        components = as_list(model.components_, len(SHAPES[shape]))
        rows = [
            np.concatenate([(A @ part).ravel() for A, part in zip(components, sample, strict=True)])
            for sample in Blocks(*sample_arrays(shape))
        ]
        assert_allclose(model.transform(samples(shape)), rows, rtol=1e-12, atol=1e-12)


def test_get_metric_returns_the_distance(shape):
    blocks = Blocks(*sample_arrays(shape))
    chosen = list(blocks) if blocks.n_blocks > 1 else [sample[0] for sample in blocks]
    for model in fitted_models(shape):
        metric = model.get_metric()
        found = [metric(chosen[i], chosen[j]) for i, j in INDEX]
        assert_allclose(found, model.pair_distance(INDEX, samples(shape)), rtol=1e-9)
        squared = [metric(chosen[i], chosen[j], squared=True) for i, j in INDEX]
        assert_allclose(squared, np.square(found), rtol=1e-12)
        assert all(type(value) is float for value in found)


def test_the_mahalanobis_matrix_gives_the_distance(shape):
    for model in fitted_models(shape):
        matrices = as_list(model.get_mahalanobis_matrix(), len(SHAPES[shape]))
        squared = sum(
            np.einsum("kab,ac,kcb->k", delta, Q, delta)
            for Q, delta in zip(
                matrices,
                (a[INDEX[:, 0]] - a[INDEX[:, 1]] for a in sample_arrays(shape)),
                strict=True,
            )
        )
        expected = model.pair_distance(INDEX, samples(shape))
        assert_allclose(np.sqrt(squared), expected, rtol=1e-9)
        for Q, W in zip(matrices, matrices_of(model, shape), strict=True):
            assert_allclose(Q, W / len(matrices), rtol=1e-9, atol=1e-12 * np.max(W))


NUMBERS = st.integers(-800, 800).map(lambda number: number / 8)


@given(st.sampled_from(ESTIMATORS), st.sampled_from(["vectors", "matrices"]), st.data())
def test_the_distance_satisfies_the_axioms_of_a_metric(estimator, kind, data):
    model = fitted(estimator, kind)
    ((n, width),) = SHAPES[kind]
    sample_shape = (n,) if width == 1 else (n, width)
    x, y, z = (data.draw(hypothesis_arrays(float, sample_shape, elements=NUMBERS)) for _ in "xyz")
    pairs = [(x, y), (y, x), (y, z), (x, z), (x, x)]
    xy, yx, yz, xz, xx = model.pair_distance(np.array(pairs))
    assert xy == yx
    assert xx == 0
    assert min(xy, yz, xz) >= 0
    assert xz <= (xy + yz) * (1 + 1e-9) + 1e-9
    assert (xy > 0) == np.any(x != y)


# Ways to give pairs


@pytest.mark.parametrize("kind", ["vectors", "matrices"])
def test_pairs_of_samples_and_of_indices_agree(kind):
    X = samples(kind)
    for model in fitted_models(kind):
        expected = model.pair_distance(INDEX, X)
        assert_allclose(model.pair_distance(X[INDEX]), expected, rtol=1e-12)
        assert_allclose(model.pair_distance(X[INDEX].tolist()), expected, rtol=1e-12)
        assert_array_equal(model.predict_pairs(X[INDEX]), model.predict_pairs(INDEX, X))


def looked_up(X, names):
    """Return a function from names to samples."""
    places = {name: place for place, name in enumerate(names)}

    def find(indicators):
        return X[np.array([places[name] for name in indicators])]

    return find


@pytest.mark.parametrize(("estimator", "shape"), SOME)
def test_preprocessors_find_the_same_samples(estimator, shape):
    X, expected = samples(shape), fitted(estimator, shape).pair_distance(INDEX, samples(shape))
    names = np.array([f"sample {i:02d}" for i in range(N_SAMPLES)])
    given = {"indexed": (X, np.arange(N_SAMPLES)), "named": (looked_up(X, names), names)}
    given["function"] = (lambda index: X[index], np.arange(N_SAMPLES))
    for preprocessor, indicators in given.values():
        model = make(estimator, preprocessor=preprocessor)
        if estimator == "TATMLPairs":
            model.fit(indicators[TRAINING], pair_y(TRAINING))
        else:
            model.fit(indicators, LABELS)
        assert_allclose(model.pair_distance(indicators[INDEX]), expected, rtol=1e-9)
        assert_allclose(model.pair_distance(INDEX, indicators), expected, rtol=1e-9)
        assert_allclose(model.pair_distance(INDEX, X), expected, rtol=1e-9)
        assert_allclose(model.transform(indicators), model.transform(X), rtol=1e-12)


def test_chunks_do_not_change_the_distances():
    rows = np.random.default_rng(0).normal(size=(N_SAMPLES, 4))
    expected = np.linalg.norm(rows[INDEX[:, 0]] - rows[INDEX[:, 1]], axis=1)
    alone = PairThreshold("manhattan", preprocessor=rows).fit(TRAINING, pair_y(TRAINING))
    whole = alone.pair_distance(INDEX)
    for chunk in (1, 5, 20, 100, 10**6):
        assert_allclose(row_distances(rows, INDEX, chunk_numbers=chunk), expected, rtol=1e-13)
        assert_array_equal(alone._measure(Blocks(rows), INDEX, chunk_numbers=chunk), whole)


# The function


def test_the_function_outlives_a_refit_and_a_pickle():
    X = samples("vectors")
    model = clone(fitted("TATML", "vectors")).fit(X, LABELS)
    metric = model.get_metric()
    before = metric(X[0], X[1])
    model.components_[:] = 0
    model.fit(100 * X[:, ::-1] ** 2, LABELS)
    assert before > 0
    assert metric(X[0], X[1]) == before
    assert pickle.loads(pickle.dumps(metric))(X[0], X[1]) == before


@pytest.mark.parametrize(("estimator", "kind"), [("TATML", "vectors"), ("TATMLPairs", "matrices")])
def test_neighbours_by_the_function_and_in_the_embedding_agree(estimator, kind):
    model = fitted(estimator, kind)
    rows = samples(kind).reshape(N_SAMPLES, -1)
    by_function = KNeighborsClassifier(3, metric=model.get_metric()).fit(rows, LABELS)
    embedded = model.transform(samples(kind))
    in_embedding = KNeighborsClassifier(3).fit(embedded, LABELS)
    assert_allclose(
        by_function.kneighbors(rows)[0], in_embedding.kneighbors(embedded)[0], atol=1e-6
    )
    assert_array_equal(by_function.predict(rows), in_embedding.predict(embedded))


def test_the_function_refuses_samples_of_another_shape():
    metric = fitted("TATML", "vectors").get_metric()
    for u, v in [
        (np.ones(3), np.zeros(3)),
        (np.ones(8), np.zeros(8)),
        (np.ones((4, 2)), np.ones(4)),
    ]:
        with pytest.raises(ValueError, match=r"u, v: expected .*\(4, 1\)"):
            metric(u, v)


# The threshold


@pytest.mark.parametrize("margin", [(0.5, 2.0), (0.1, 0.9)])
def test_the_threshold_is_in_the_units_of_the_distance(estimator, margin):
    model = fit(estimator, "vectors", margin=margin)
    assert_allclose(model.threshold_, np.sqrt(model.b0_ * np.sqrt(margin[0] * margin[1])))
    assert model.threshold_ > 0
    if estimator != "Euclidean":
        assert model.b0_ == model.result_.b0


def test_setting_the_threshold_changes_nothing_else(estimator):
    model = fit(estimator, "vectors")
    before = dict(vars(model))
    assert model.set_threshold(0.125) is model
    assert model.threshold_ == 0.125
    assert changed_attributes(model, before) == {"threshold_"}
    for threshold, error in [(-1, ValueError), (np.nan, ValueError), ("1", TypeError)]:
        with pytest.raises(error, match=f"threshold: expected.*got {threshold!r}"):
            model.set_threshold(threshold)
        assert model.threshold_ == 0.125


@pytest.mark.parametrize(("estimator", "shape"), SOME)
def test_a_pair_is_the_same_only_below_the_threshold(estimator, shape):
    model, X = fit(estimator, shape), samples(shape)
    distances = model.pair_distance(INDEX, X)
    for threshold in (0.0, distances[3], np.nextafter(distances[3], 9), 2 * distances.max()):
        model.set_threshold(threshold)
        expected = np.where(distances < threshold, 1, -1)
        assert_array_equal(model.predict_pairs(INDEX, X), expected)
        if estimator == "TATMLPairs":
            assert_array_equal(model.predict(INDEX), expected)
            assert_array_equal(model.decision_function(INDEX) > 0, expected == 1)
            assert_allclose(model.decision_function(INDEX), threshold - distances, atol=1e-12)


def test_without_labels_there_is_no_threshold_until_it_is_set():
    X = samples("vectors")
    model = Euclidean().fit(X)
    with pytest.raises(AttributeError, match=r"Euclidean has no threshold_.*set_threshold"):
        model.predict_pairs(INDEX, X)
    model.set_threshold(1.0)
    assert_array_equal(model.predict_pairs(INDEX, X) == 1, model.pair_distance(INDEX, X) < 1)


def test_an_unfitted_metric_says_so(estimator):
    model = make(estimator)
    for method in ("transform", "pair_distance", "pair_score", "predict_pairs", "set_threshold"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(1.0)
    for method in ("get_metric", "get_mahalanobis_matrix"):
        with pytest.raises(NotFittedError):
            getattr(model, method)()


# Reduced


def full_components(model, shape):
    return [
        np.linalg.cholesky(W).T / np.sqrt(len(SHAPES[shape])) for W in matrices_of(model, shape)
    ]


@pytest.mark.parametrize(("estimator", "shape"), SOME)
def test_as_many_components_as_rows_change_nothing(estimator, shape):
    counts = [n for n, _ in SHAPES[shape]]
    full, X = fitted(estimator, shape), samples(shape)
    turned = fit(estimator, shape, n_components=counts)
    assert_allclose(turned.pair_distance(INDEX, X), full.pair_distance(INDEX, X), rtol=1e-9)
    assert_allclose(turned.b0_, full.b0_, rtol=1e-5)
    assert_allclose(turned.threshold_, full.threshold_, rtol=1e-5)


@pytest.mark.parametrize(("estimator", "shape"), SOME)
@pytest.mark.parametrize("count", [1, 2])
def test_a_reduced_embedding_keeps_most_of_the_variance(estimator, shape, count):
    """Ky Fan: an orthogonal projection keeps at most the sum of the largest eigenvalues."""
    model = fit(estimator, shape, n_components=count)
    components = as_list(model.components_, len(SHAPES[shape]))
    for A, reduced, array in zip(
        full_components(model, shape), components, sample_arrays(shape), strict=True
    ):
        rows = reduced @ np.linalg.inv(A)
        assert reduced.shape == (count, len(A))
        assert_allclose(rows @ rows.T, np.eye(count), atol=1e-9)
        centred = array - array.mean(axis=0)
        total = sum((A @ matrix) @ (A @ matrix).T for matrix in centred)
        kept = sum(np.sum((reduced @ matrix) ** 2) for matrix in centred)
        assert_allclose(kept, np.linalg.eigvalsh(total)[-count:].sum(), rtol=1e-9)


def test_reduced_vectors_are_the_principal_components_of_the_full_ones(estimator):
    X, full = samples("vectors"), fitted(estimator, "vectors")
    expected = pdist(PCA(2).fit_transform(full.transform(X)))
    reduced = fit(estimator, "vectors", n_components=2).transform(X)
    assert reduced.shape == (N_SAMPLES, 2)
    assert_allclose(pdist(reduced), expected, rtol=1e-6)


def test_each_block_has_its_own_number_of_components(estimator):
    model = fit(estimator, "three blocks", n_components=(1, 3, 2))
    X = samples("three blocks")
    assert [A.shape for A in model.components_] == [(1, 2), (3, 3), (2, 2)]
    embedded = model.transform(X)
    assert embedded.shape == (N_SAMPLES, 1 * 1 + 3 * 3 + 2 * 4)
    expected = np.linalg.norm(embedded[INDEX[:, 0]] - embedded[INDEX[:, 1]], axis=1)
    assert_allclose(model.pair_distance(INDEX, X), expected, rtol=1e-12)
    prefix = type(model).__name__.lower()
    assert model.get_feature_names_out().tolist() == [f"{prefix}{i}" for i in range(18)]


def used_pairs(model):
    """Return the pairs of a model, weighted so that both kinds have the same total."""
    n_similar = model.similar_.sum()
    weights = np.where(model.similar_, 1 / n_similar, 1 / (len(model.similar_) - n_similar))
    return Pairs(model.pairs_, model.similar_, weights)


@pytest.mark.parametrize(("estimator", "shape"), SOME)
def test_the_threshold_is_fitted_to_the_reduced_distance(estimator, shape):
    strength = 0.1 if "blocks" in shape else 1.0
    options = {"threshold_strength": strength, "margin": (0.5, 3.0)}
    model = fit(estimator, shape, n_components=1, **options)
    squared = model.pair_distance(model.pairs_, samples(shape)) ** 2
    # The root mean squared distance under a scaled prior is 1.
    mu0 = None if estimator == "Euclidean" else 1 / np.sqrt(1.5)
    expected = learn_b0(squared, used_pairs(model), (0.5, 3.0), strength, mu0)
    assert_allclose(model.b0_, expected, rtol=1e-9)
    assert_allclose(model.threshold_, np.sqrt(expected * np.sqrt(1.5)), rtol=1e-9)
    full = fit(estimator, shape, **options)
    assert abs(full.b0_ - model.b0_) > 1e-3 * full.b0_


def test_a_given_threshold_is_kept():
    X = samples("vectors")
    for make, reduced in ((TATML, None), (TATML, 1), (Maz, None), (Maz, 1)):
        model = make(threshold=0.7, n_components=reduced, random_state=0).fit(X, LABELS)
        assert_allclose(model.threshold_, 0.7, rtol=1e-12, err_msg=str(model))


def test_the_distance_follows_components_that_were_replaced():
    """metric-learn's tests set them to a vector, for samples of one feature."""
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.repeat([0, 1], 10)
    metric = Euclidean().fit(X, y)
    metric.components_ = np.array([2.0, 1.0])
    assert metric.get_metric()([1.0, 2.0], [0.0, 0.0]) == 4.0
    metric.components_ = np.array(3.0)
    assert metric.get_metric()(1.0, 3.0) == 6.0
