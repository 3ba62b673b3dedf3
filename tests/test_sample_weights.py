"""`sample_weight` of samples with labels: a weight of 2 is a second copy of the sample."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn import config_context
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.datasets import load_wine
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from tatml import (
    GMML,
    ITML,
    TATML,
    TATMLCV,
    AllPairs,
    Blocks,
    Euclidean,
    Maz,
    TATMLNeighbors,
    TATMLRegression,
    learn_metric,
)
from tatml._data.copies import first_copies, order_of_content
from tatml._data.sampling import draw_random_pairs
from tatml._data.sparse import SparseBlock
from tatml._estimators.inputs import target_ranks
from tatml._learning import learn
from tatml._learning.centers import center_of_classes
from tatml._learning.labelled import LabelledSamples, distinct, draw_of_copies
from tatml._learning.plda import between_classes, shrunk_ratios
from tatml._learning.priors import block_prior, class_means, mean_square, within_classes
from tatml._optim.losses import comparison_hinge
from tatml.features import KernelMap

RNG = np.random.default_rng(0)
N = 36
ROWS = RNG.permutation(178)[:N]
X, Y = (values[ROWS] for values in load_wine(return_X_y=True))
NUMBERS = X[:, 0] + RNG.normal(size=N)
WEIGHTS = RNG.integers(0, 4, size=N)  # some are 0
COPIES = RNG.permutation(np.repeat(np.arange(N), WEIGHTS))  # in any order
PAIRS = [[i, i + 1] for i in range(N - 1)]

ALL = {"pairs": "all"}
MANY = {"n_pairs_per_class": 5000}  # so many that all pairs are drawn
WITH_LABELS = [
    TATML(**ALL),
    TATML(**ALL, prior="within", n_components=2),
    TATML(**ALL, midpoint=True),
    TATML(**ALL, midpoint=True, new_classes=True),
    TATML(**ALL, reduction="sum", c0=1.0),
    TATML(**ALL, kernel="rbf", random_state=0),
    TATML(pairs="neighbors", **MANY),
    TATML(random_state=0, **MANY),
    TATMLCV(TATML(**ALL), {"C": [1.0, 100.0]}),
    TATMLCV(TATML(**ALL), {"kernel": [None, "rbf"]}, scoring="accuracy", random_state=0),
    TATMLNeighbors(random_state=0, **MANY),
    Maz(**ALL),
    Maz(**ALL, threshold="search", thresholds=(1.0, 2.0)),
    GMML(**ALL),
    ITML(**ALL),
    Euclidean(**ALL, n_components=3),
]
WITH_NUMBERS = [TATMLRegression(random_state=0), TATMLRegression(random_state=0, kernel="rbf")]
CASES = [(model, Y) for model in WITH_LABELS] + [(model, NUMBERS) for model in WITH_NUMBERS]


def facts(model):
    """Return the scores of pairs, both thresholds, and the prior."""
    found = [model.pair_score(PAIRS, X), np.atleast_1d(model.threshold_), np.atleast_1d(model.b0_)]
    prior, scores = vars(model).get("prior_", []), vars(model).get("search_scores_", {})
    return np.concatenate([*found, *map(np.ravel, prior), list(scores.values())])


# A weight of 2 is a second copy


@pytest.mark.filterwarnings("ignore:threshold_: ")
@pytest.mark.parametrize(("model", "y"), CASES, ids=str)
def test_weights_are_numbers_of_copies(model, y):
    """In prior, metric and threshold; whether or not the copies have one group, in any order."""
    folds = [(np.arange(k, N, 2), np.arange(1 - k, N, 2)) for k in (0, 1)]
    of_copies = [[np.flatnonzero(np.isin(COPIES, part)) for part in fold] for fold in folds]
    searches = "cv" in model.get_params()
    model = clone(model).set_params(cv=folds) if searches else clone(model)
    weighted = facts(model.fit(X, y, sample_weight=WEIGHTS))
    ones = facts(model.fit(X, y))
    model = model.set_params(cv=of_copies) if searches else model
    for groups in (None, COPIES):
        found = facts(model.fit(X[COPIES], y[COPIES], groups=groups))
        assert_allclose(found, weighted, rtol=1e-9, atol=1e-12)
    scores = slice(len(PAIRS))
    assert np.max(np.abs(weighted[scores] / ones[scores] - 1)) > 1e-3


@pytest.mark.filterwarnings("ignore:threshold_: ")
@pytest.mark.parametrize(("model", "y"), CASES, ids=str)
def test_only_the_ratios_of_weights_matter(model, y):
    if getattr(model, "reduction", "mean") == "sum" or isinstance(model, ITML):
        pytest.skip("its losses are summed")
    expected = facts(model.fit(X, y, sample_weight=WEIGHTS))
    assert_allclose(facts(model.fit(X, y, sample_weight=WEIGHTS / 64)), expected, rtol=1e-6)


def test_with_sums_of_losses_the_weights_of_pairs_matter():
    model = TATML(**ALL, reduction="sum", C=4.0, c0=1.0, threshold="joint")
    expected = facts(model.fit(X, Y, sample_weight=2.0 * np.ones(N)))
    assert_allclose(facts(model.set_params(C=16.0).fit(X, Y)), expected, rtol=1e-9)


@pytest.mark.parametrize("model", [TATML(pairs="random"), TATML(prior="scaled")], ids=str)
def test_equal_weights_are_the_same_as_none(model):
    """Also for drawn pairs, if the samples come in the order that they are brought into."""
    order = order_of_content(Blocks(X), Y)
    model.set_params(n_pairs_per_class=10, threshold="joint", random_state=0)
    expected = facts(model.fit(X[order], Y[order]))
    assert_allclose(facts(model.fit(X[order], Y[order], sample_weight=np.full(N, 3.0))), expected)


def test_pairs_and_landmarks_are_rows_of_the_given_samples():
    model = TATML(kernel=KernelMap(n_landmarks=8), random_state=0, n_pairs_per_class=10)
    model.fit(X, Y, sample_weight=WEIGHTS)
    assert np.all(WEIGHTS[model.pairs_] > 0)
    assert np.all(WEIGHTS[model.kernel_map_.landmark_rows_] > 0)
    assert_array_equal(Y[model.pairs_[:, 0]] == Y[model.pairs_[:, 1]], model.similar_)
    one = model.kernel_map_.maps_[0]
    landmarks = X[model.kernel_map_.landmark_rows_]
    assert_allclose(one.landmarks * one.scale + one.center, landmarks, rtol=1e-9)
    products = np.prod(WEIGHTS[model.pairs_], axis=1)
    for kind in (model.similar_, ~model.similar_):
        share = model.pair_weights_[kind] / products[kind]
        assert_allclose(share, share[0])
    balance = model.pair_weights_[model.similar_].sum() / model.pair_weights_.sum()
    assert balance == pytest.approx(0.5)
    of_neighbors = TATMLNeighbors(random_state=0).fit(X, Y, sample_weight=WEIGHTS)
    sample, target, impostor = of_neighbors.comparisons_.T
    assert np.all(WEIGHTS[of_neighbors.comparisons_] > 0)
    assert np.all((Y[sample] == Y[target]) & (Y[sample] != Y[impostor]))


def test_drawn_pairs_have_the_weights_of_all_pairs_in_expectation():
    """The mean, over draws, of what each pair of samples weighs is the product of their weights."""
    labels, weights = np.array([0, 0, 0, 1, 1, 1]), np.array([3.0, 1, 1, 2, 1, 0.5])
    samples = LabelledSamples(Blocks(np.arange(6.0)[:, None]), labels, None, weights)
    copies = samples[np.array([0, 0, 1, 2, 3, 3, 4, 5])]
    copies = LabelledSamples(copies.blocks, copies.labels, None, weights[[0, 0, 1, 2, 3, 3, 4, 5]])
    copies.weights[[0, 1]] = 1.5
    copies.weights[[4, 5]] = 1.0
    rng, n_draws, found = np.random.RandomState(0), 4000, {}
    for given in (samples, copies):
        merged, rows = distinct(given)
        values = given.blocks.arrays[0][rows, 0, 0].astype(int)
        total = np.zeros((6, 6))
        for _ in range(n_draws):
            pairs = draw_of_copies(
                merged, partial(draw_random_pairs, n_pairs_per_class=4, random_state=rng)
            )
            first, second = np.sort(values[pairs.index], axis=1).T
            np.add.at(total, (first, second), pairs.weights / n_draws)
        found[given is copies] = total
    inside = np.triu(labels[:, None] == labels, 1)
    for total in found.values():
        share = (total / np.outer(weights, weights))[inside]
        assert_allclose(share / share.mean(), 1.0, atol=0.1)


@pytest.mark.filterwarnings("ignore:threshold_: ")
@pytest.mark.parametrize(
    "model",
    [
        TATML(**ALL, prior="covariance", n_components=2, threshold="joint"),
        TATML(**ALL, prior="auto", threshold="joint"),
        GMML(**ALL, prior="identity", n_components=2),
        ITML(**ALL, prior="identity", bounds=(1.0, 2.0), gamma=0.1),
        Euclidean(**ALL, n_components=2),
    ],
    ids=str,
)
def test_a_tiny_weight_is_nearly_none(model):
    """Nothing is merged here: what a weight multiplies can be seen."""
    Z, some = X / X.std(axis=0), WEIGHTS > 0
    weights = np.where(some, 1.0, 1e-11)
    expected = facts(model.fit(Z[some], Y[some]))
    assert_allclose(facts(model.fit(Z, Y, sample_weight=weights)), expected, rtol=1e-5, atol=1e-8)
    assert np.max(np.abs(facts(model.fit(Z, Y))[: len(PAIRS)] / expected[: len(PAIRS)] - 1)) > 1e-3


def test_comparisons_have_the_products_of_the_weights(monkeypatch):
    found = []

    def spy(weights, *options):
        found.append(weights)
        return comparison_hinge(weights, *options)

    monkeypatch.setattr(learn, "comparison_hinge", spy)
    model = TATMLNeighbors(max_rounds=1, threshold=1.0, random_state=0)
    model.fit(X, Y, sample_weight=WEIGHTS)
    share = found[-1] / np.prod(WEIGHTS[model.comparisons_], axis=1)
    assert np.ptp(found[-1]) > 0
    assert_allclose(share, share[0])


# Tiles, sparse tables, other kinds of samples


def test_all_pairs_in_tiles_have_the_products_of_the_weights(monkeypatch):
    listed = TATML(**ALL, tol=1e-10).fit(X, Y, sample_weight=WEIGHTS)
    monkeypatch.setattr(TATML, "_most_listed_pairs", 0)
    tiled = TATML(**ALL, tol=1e-10).fit(X, Y, sample_weight=WEIGHTS)
    assert tiled.pairs_ is None
    assert_allclose(tiled.get_mahalanobis_matrix(), listed.get_mahalanobis_matrix(), rtol=1e-6)
    assert tiled.b0_ == pytest.approx(listed.b0_, rel=1e-8)


def test_learn_metric_takes_weights_of_the_samples_of_all_pairs():
    rng = np.random.default_rng(1)
    Z, weights = X / X.std(axis=0), rng.uniform(0.1, 3, size=N)
    first, second = np.triu_indices(N, 1)
    pairs, similar = np.stack([first, second], axis=1), Y[first] == Y[second]
    kinds = np.where(similar, 2.0, 0.5)
    listed = learn_metric(
        Z, pairs, similar, weights=kinds * weights[first] * weights[second], C=0.1, tol=1e-10
    )
    tiles = AllPairs(Y, weights=(2.0, 0.5), sample_weight=weights)
    found = learn_metric(Z, tiles, C=0.1, tol=1e-10)
    assert_allclose(found.W[0], listed.W[0], rtol=1e-6, atol=1e-9)
    assert found.b0 == pytest.approx(listed.b0, rel=1e-8)
    with pytest.raises(ValueError, match=r"AllPairs: sample_weight: .*one for each sample"):
        learn_metric(Z, AllPairs(Y, sample_weight=[1.0]))


def test_weights_of_wide_dense_and_sparse_samples():
    Z = scipy.sparse.random(N, 80, 0.2, format="csr", random_state=1)
    dense, sparse = Z.toarray(), Z
    model = TATML(**ALL, clip_outliers=False)
    expected = model.fit(dense, Y, sample_weight=WEIGHTS).pair_distance(PAIRS, dense)
    copies = model.fit(dense[COPIES], Y[COPIES]).pair_distance(PAIRS, dense)
    found = model.fit(sparse, Y, sample_weight=WEIGHTS).pair_distance(PAIRS, sparse)
    of_copies = model.fit(sparse[COPIES], Y[COPIES]).pair_distance(PAIRS, sparse)
    for other in (copies, found, of_copies):
        assert_allclose(other, expected, rtol=1e-6)


def test_weights_of_matrices_and_several_blocks():
    rng = np.random.default_rng(2)
    M = rng.normal(size=(N, 4, 6)) + Y[:, None, None]
    blocks = Blocks(X, M)
    model = TATML(**ALL)
    weighted = model.fit(blocks, Y, sample_weight=WEIGHTS).pair_distance(PAIRS, blocks)
    copies = model.fit(blocks[COPIES], Y[COPIES]).pair_distance(PAIRS, blocks)
    assert_allclose(copies, weighted, rtol=1e-9)


def test_rows_of_a_kernel_matrix_have_positive_weights():
    K = X @ X.T
    model = TATML(kernel="precomputed", n_pairs_per_class=20, random_state=0)
    plain = model.fit(K, Y).pair_distance(PAIRS, K)
    assert_allclose(model.fit(K, Y, sample_weight=np.ones(N)).pair_distance(PAIRS, K), plain)
    assert np.ptp(model.fit(K, Y, sample_weight=1.0 + WEIGHTS).pair_distance(PAIRS, K) / plain) > 0
    with pytest.raises(ValueError, match=r"sample_weight: expected positive weights with a precom"):
        model.fit(K, Y, sample_weight=WEIGHTS)


# The parts of a prior


@pytest.mark.parametrize("kind", ["covariance", "within", "discriminant", "diagonal"])
@pytest.mark.parametrize("units", ["columns", "affine"])
def test_scatters_of_a_prior_are_weighted_means(kind, units):
    """Without shrinkage, copies and weights agree exactly; with it, copies are one observation."""
    rng, y = np.random.default_rng(0), np.arange(600) % 3
    Z, weights = rng.normal(size=(600, 3)) + y[:, None], rng.integers(1, 5, size=600)
    copies = np.repeat(np.arange(600), weights)
    S = np.eye(3)
    one = block_prior(
        kind,
        Blocks(Z).arrays[0],
        S,
        within_classes(Blocks(Z), y, units, weights=weights.astype(float)),
        0,
    )
    other = block_prior(
        kind, Blocks(Z[copies]).arrays[0], S, within_classes(Blocks(Z[copies]), y[copies], units), 0
    )
    exact = units == "affine" or kind in ("covariance", "diagonal")
    assert_allclose(one, other, rtol=1e-9 if exact else 0.05, atol=1e-12)


def test_means_and_spreads_of_classes_are_weighted():
    rng = np.random.default_rng(3)
    Z, y, weights = rng.normal(size=(30, 4)), np.arange(30) % 3, rng.integers(1, 5, size=30)
    copies = np.repeat(np.arange(30), weights)
    array, repeated = (Blocks(of).arrays[0] for of in (Z, Z[copies]))
    relative = weights / weights.mean()
    assert_allclose(class_means(array, y, relative), class_means(repeated, y[copies]))
    within = within_classes(Blocks(Z), y, weights=weights.astype(float))
    of_copies = within_classes(Blocks(Z[copies]), y[copies])
    assert_allclose(center_of_classes(array, within), center_of_classes(repeated, of_copies))
    assert_allclose(mean_square(within.deviations[0]), mean_square(of_copies.deviations[0]))
    table = scipy.sparse.csr_array(np.where(Z > 0, Z, 0.0))
    one = SparseBlock(table).variances_within(y, relative)
    assert_allclose(one, SparseBlock(table[copies]).variances_within(y[copies]))
    assert_allclose(SparseBlock(table).variances(relative), SparseBlock(table[copies]).variances())
    # With equal weights, B is that without weights.
    plain = between_classes(array, within_classes(Blocks(Z), y))
    equal = between_classes(array, within_classes(Blocks(Z), y, weights=np.full(30, 7.0)))
    assert_allclose(equal, plain)


def test_the_covariance_of_class_means_is_that_of_weighted_classes():
    """By hand: classes of the total weights n_c, which sum to the number of samples."""
    rng, y = np.random.default_rng(7), np.arange(40) % 4
    Z, weights = rng.normal(size=(40, 3)) + y[:, None], rng.uniform(0.1, 5, size=40)
    w = weights / weights.mean()
    n = np.bincount(y, w)
    means = np.stack([np.average(Z[y == c], axis=0, weights=w[y == c]) for c in range(4)])
    inner, outer = Z - means[y], means - np.average(Z, axis=0, weights=w)
    S = (w[:, None] * inner).T @ inner / (40 - 4)
    size = (40 - np.sum(n**2) / 40) / 3
    expected = ((n[:, None] * outer).T @ outer / 3 - S) / size
    array, within = Blocks(Z).arrays[0], within_classes(Blocks(Z), y, weights=weights)
    assert_allclose(between_classes(array, within), expected)
    centred = np.sqrt(n / n.mean())[:, None] * (means - means.mean(axis=0))
    share = ledoit_wolf_shrinkage(centred, assume_centered=True)
    ratio = np.array([0.5, 1.0, 4.0])
    found = shrunk_ratios(ratio, np.eye(3), array, within)
    assert_allclose(found, (1 - share) * ratio + share * ratio.mean())


def test_weighted_ranks_are_those_of_copies():
    rng = np.random.default_rng(4)
    y, weights = rng.integers(0, 9, size=40), rng.integers(1, 5, size=40)
    copies = np.repeat(np.arange(40), weights)
    found = target_ranks(TATMLRegression(), y, 40, weights.astype(float))
    assert_array_equal(found[copies, 0], rankdata(y[copies]))


# Copies


def test_copies_are_found_by_all_blocks_and_classes():
    rng = np.random.default_rng(5)
    A, B = np.array([[1.0], [0.0], [1.0], [1.0], [-0.0]]), np.array([[2.0], [5], [2], [3], [5]])
    blocks = Blocks(A, B)
    assert_array_equal(first_copies(blocks), [0, 1, 0, 3, 1])
    assert_array_equal(first_copies(blocks, [np.array([0, 0, 1, 0, 0])]), [0, 1, 2, 3, 1])
    sparse = Blocks(SparseBlock(scipy.sparse.csr_array([[1.0, 2], [0, 3], [1, 2], [3, 0]])))
    assert_array_equal(first_copies(sparse), [0, 1, 0, 3])
    order = rng.permutation(5)
    codes = np.array([0, 1, 2, 3, 4])
    assert_array_equal(
        codes[order][order_of_content(blocks[order], codes[order])],
        codes[order_of_content(blocks, codes)],
    )


def test_samples_without_copies_and_weights_stay_as_they_are():
    samples = LabelledSamples(Blocks(X), Y, None)
    found, rows = distinct(samples)
    assert found is samples
    assert_array_equal(rows, np.arange(N))


def test_copies_that_would_leave_no_similar_pairs_stay():
    Z, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 1, 1])
    found, rows = distinct(LabelledSamples(Blocks(Z), y, None))
    assert_array_equal(rows, np.arange(4))
    assert found.weights is None


# Refusals and routing


@pytest.mark.parametrize("model", [*WITH_LABELS[::4], *WITH_NUMBERS[:1]], ids=str)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(N - 1), r"sample_weight: expected shape \(36,\), one for each sample"),
        (np.zeros(N), "sample_weight: expected at least one positive weight"),
        (-np.ones(N), "sample_weight: expected finite, non-negative numbers"),
        (np.full(N, np.nan), "sample_weight: expected finite, non-negative numbers"),
        (np.full(N, 1e300), "sample_weight: expected the largest weight"),
        (["a"] * N, "sample_weight: expected real numbers"),
    ],
)
def test_weights_that_are_none_are_refused(model, weights, message):
    y = NUMBERS if isinstance(model, TATMLRegression) else Y
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit(X, y, sample_weight=weights)


def test_negligible_weights_are_zero():
    """Products of three weights would underflow."""
    tiny = np.where(WEIGHTS > 0, WEIGHTS, 5e-324)
    model = TATML(**ALL)
    expected = facts(model.fit(X, Y, sample_weight=WEIGHTS))
    assert_allclose(facts(model.fit(X, Y, sample_weight=tiny)), expected, rtol=1e-12)
    small = np.where(WEIGHTS > 0, WEIGHTS, 1e-49)
    of_neighbors = TATMLNeighbors(random_state=0).fit(X, Y, sample_weight=small)
    assert np.isfinite(of_neighbors.components_).all()


def test_weights_in_one_class_are_refused():
    with pytest.raises(ValueError, match="sample_weight: expected positive weights in at least tw"):
        TATML().fit(X, Y, sample_weight=(Y == 0).astype(float))


def test_weights_are_routed_through_pipelines_and_folds():
    weights = 1.0 + WEIGHTS
    with config_context(enable_metadata_routing=True):
        metric = TATML(random_state=0).set_fit_request(sample_weight=True, groups=False)
        model = make_pipeline(metric, KNeighborsClassifier(3))
        model.fit(X, Y, sample_weight=weights)
        expected = TATML(random_state=0).fit(X, Y, sample_weight=weights)
        assert_array_equal(model[0].components_, expected.components_)
        found = cross_validate(
            model,
            X,
            Y,
            params={"sample_weight": weights},
            cv=2,
            scoring=get_scorer("accuracy").set_score_request(sample_weight=False),
            return_estimator=True,
        )
    fold = found["estimator"][0][0]
    train = next(StratifiedKFold(2).split(X, Y))[0]
    expected = TATML(random_state=0).fit(X[train], Y[train], sample_weight=weights[train])
    assert_array_equal(fold.components_, expected.components_)
    assert np.all(found["test_score"] > 0.3)


def test_the_search_gives_each_fold_its_weights():
    """Samples of weight 0 in a fold of the user's own are as if they were not there."""
    folds = [(np.arange(0, N, 2), np.arange(1, N, 2)), (np.arange(1, N, 2), np.arange(0, N, 2))]
    kept = np.flatnonzero(WEIGHTS)
    number = np.full(N, -1)
    number[kept] = np.arange(len(kept))
    inner = [tuple(number[part][number[part] >= 0] for part in fold) for fold in folds]
    grid, model = {"C": [1.0, 100.0]}, TATML(**ALL)
    one = TATMLCV(model, grid, cv=folds, k=1).fit(X, Y, sample_weight=WEIGHTS > 0)
    other = TATMLCV(model, grid, cv=inner, k=1)
    other.fit(X[kept], Y[kept], sample_weight=np.ones(len(kept)))
    scores = [found.cv_results_["mean_test_score"] for found in (one, other)]
    assert_allclose(scores[0], scores[1], rtol=1e-6)
