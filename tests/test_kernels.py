"""Metrics in the space of a kernel: exact, certified, and with a threshold for new samples."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from estimators_helpers import search_over
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from tatml import (
    ITML,
    TATML,
    TATMLCV,
    Blocks,
    Maz,
    TATMLNeighbors,
    TATMLPairs,
    TATMLQuadruplets,
    TATMLTriplets,
)
from tatml._data.pairs import Pairs
from tatml._learning.cross_fit import hold_out_pairs, hold_out_samples
from tatml._learning.labelled import LabelledSamples, make_pair_folds
from tatml._learning.samples import KernelSettings
from tatml.features import KernelMap
from tatml.io import load_model, save_model
from tatml.plotting import BlockShareDisplay

assert_allclose = partial(np.testing.assert_allclose, rtol=1e-6)
PAIRS = np.random.default_rng(5).integers(0, 75, size=(60, 2))
PAIRS = PAIRS[PAIRS[:, 0] != PAIRS[:, 1]]
EXACT = {"threshold": "joint", "prior": "scaled", "random_state": 0, "tol": 1e-10}
LABELLED = (
    TATML(n_pairs_per_class=60, random_state=0),
    search_over(
        {"C": [10.0, 100.0], "prior": ["scaled"]}, cv=3, n_pairs_per_class=60, random_state=0
    ),
    Maz(n_pairs_per_class=60, random_state=0),
    ITML(n_pairs_per_class=60, random_state=0),
)


def iris():
    X, y = load_iris(return_X_y=True)
    return X[::2], y[::2], X[1::2], y[1::2]


def monomials(Z, gamma, coef0):
    """The features whose inner product is (γ xᵀz + coef0)²."""
    n = Z.shape[1]
    squares = [
        gamma * Z[:, i] * Z[:, j] * (1 if i == j else np.sqrt(2))
        for i in range(n)
        for j in range(i, n)
    ]
    return np.hstack([np.stack(squares, axis=1), np.sqrt(2 * gamma * coef0) * Z])


@pytest.mark.parametrize("estimator", ["TATML", "ITML"])
def test_a_polynomial_kernel_is_the_metric_of_the_monomials(estimator):
    """For training pairs, for new ones, and for the threshold."""
    X, y, new, _ = iris()
    kernel = KernelMap(
        "polynomial", degree=2, gamma=0.5, coef0=2.0, units="common", keep_features=False
    )
    scale = np.sqrt(np.mean(X.var(axis=0)))
    explicit = [monomials((rows - X.mean(axis=0)) / scale, 0.5, 2.0) for rows in (X, new)]
    model = TATML(clip_outliers=False, **EXACT)
    if estimator == "ITML":
        model = ITML(prior="scaled", random_state=0, tol=1e-10)
    found = clone(model).set_params(kernel=kernel).fit(X, y)
    expected = clone(model).fit(explicit[0], y)
    assert_array_equal(found.pairs_, expected.pairs_)
    assert_allclose(found.b0_, expected.b0_)
    assert_allclose(found.result_.primal, expected.result_.primal)
    for rows, mapped in zip((X, new), explicit, strict=True):
        assert_allclose(found.pair_distance(PAIRS, rows), expected.pair_distance(PAIRS, mapped))
    assert found.result_.converged


@pytest.mark.parametrize("keep", [False, True])
def test_a_linear_kernel_is_no_kernel(keep):
    """Beside the features it is the same block twice, which is the problem with C/2 and c0/2."""
    X, y, new, _ = iris()
    kernel = KernelMap("linear", units="common", keep_features=keep)
    # ρ c K = c0 keeps the balance of the threshold and the pairs
    plain = TATML(C=100.0 / (2 if keep else 1), clip_outliers=False, **EXACT).fit(X, y)
    found = TATML(C=100.0, kernel=kernel, clip_outliers=False, **EXACT).fit(X, y)
    assert_array_equal(found.pairs_, plain.pairs_)
    for rows in (X, new):
        assert_allclose(found.pair_distance(PAIRS, rows), plain.pair_distance(PAIRS, rows))
    assert_allclose(found.threshold_, plain.threshold_)


def test_a_precomputed_kernel_is_the_kernel_that_it_was_computed_by():
    X, y, new, _ = iris()
    scale = X.std(axis=0)
    rows, new_rows = (X - X.mean(axis=0)) / scale, (new - X.mean(axis=0)) / scale
    K, new_K = (pairwise_kernels(r, rows, metric="rbf", gamma=0.2) for r in (rows, new_rows))
    kernel = KernelMap(gamma=0.2, units="columns", keep_features=False)
    options = {"clip_outliers": False, "random_state": 0}
    found = TATML(kernel="precomputed", **options).fit(K, y)
    expected = TATML(kernel=kernel, **options).fit(X, y)
    assert_allclose(found.pair_distance(PAIRS, new_K), expected.pair_distance(PAIRS, new))
    assert_allclose(found.b0_, expected.b0_)
    # The folds of the threshold standardise again: held-out samples are new to them.
    assert_allclose(found.threshold_, expected.threshold_, rtol=0.05)
    assert found.__sklearn_tags__().input_tags.pairwise
    knn = make_pipeline(TATML(kernel="precomputed", random_state=0), KNeighborsClassifier(3))
    assert cross_val_score(knn, K, y, cv=3).mean() > 0.9


def test_the_search_of_maz_takes_a_precomputed_kernel():
    X, y, *_ = iris()
    K = X @ X.T
    model = Maz(threshold="search", thresholds=(0.5, 1.0), kernel="precomputed", random_state=0)
    model.fit(K, y)
    assert min(model.search_scores_.values()) > 0.8
    assert model.transform(K).shape[0] == 75


@pytest.mark.parametrize("keep", [False, True])
def test_the_parts_know_which_blocks_are_images(keep):
    """Their priors give images one unit, as that of all samples does."""
    X, y, *_ = iris()
    space = KernelSettings(KernelMap(keep_features=keep), n_landmarks=20)
    index = np.random.default_rng(0).integers(0, 75, size=(600, 2))
    pairs = Pairs(index, y[index[:, 0]] == y[index[:, 1]], None)
    samples, blocks = LabelledSamples(Blocks(X), y, None), Blocks(X)
    parts = hold_out_samples(samples, make_pair_folds(y, None), space)
    parts += hold_out_pairs(blocks, pairs, space)
    assert len(parts) > 4
    for part in parts:
        n_blocks = part.known.n_blocks
        images = [m >= n_blocks - part.within.n_images for m in range(n_blocks)]
        assert images == [False, True][-part.known.n_blocks :]
        assert part.others.block_shapes == part.known.block_shapes


def test_without_held_out_pairs_the_units_are_those_of_the_rule():
    """Columns of their own for vectors, one unit for matrices."""
    X = np.random.default_rng(0).normal(size=(4, 2, 2)) * [1.0, 100.0]
    y = [0, 0, 1, 2]
    matrices = TATML(kernel="rbf", random_state=0).fit(X, y)
    assert np.ptp(matrices.kernel_map_.maps_[0].scale) == 0
    vectors = TATML(kernel="rbf", random_state=0).fit(X.reshape(4, 4), y)
    assert np.ptp(vectors.kernel_map_.maps_[0].scale) > 1


@pytest.mark.parametrize("estimator", LABELLED)
def test_every_estimator_learns_from_labels_in_the_space_of_a_kernel(estimator):
    X, y, new, labels = iris()
    name = "estimator__kernel" if isinstance(estimator, TATMLCV) else "kernel"
    model = clone(estimator).set_params(**{name: "rbf"}).fit(X, y)
    Z, found = model.transform(X), model.transform(new)
    assert Z.shape[1] == model._n_features_out == len(model.get_feature_names_out())
    expected = np.linalg.norm(found[PAIRS[:, 0]] - found[PAIRS[:, 1]], axis=1)
    assert_allclose(model.pair_distance(PAIRS, new), expected)
    i, j = PAIRS[0]
    assert_allclose(model.get_metric()(new[i], new[j]), expected[0])
    assert KNeighborsClassifier(3).fit(Z, y).score(found, labels) > 0.9
    shapes = [(n, n) for n, _ in model.kernel_map_.block_shapes_out_]
    assert [W.shape for W in model.get_mahalanobis_matrix()] == shapes
    assert model.block_shapes_ == ((4, 1),)
    model.set_params(**{name: None}).fit(X, y)
    assert model.kernel_map_ is None
    assert model.transform(X).shape == (75, 4)


def test_pairs_in_the_space_of_a_kernel():
    X, y, new, labels = iris()
    index = np.random.default_rng(0).integers(0, 75, size=(600, 2))
    signs = np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)
    model = TATMLPairs(kernel="rbf", random_state=0).fit(X[index], signs)
    truth = np.where(labels[index[:, 0]] == labels[index[:, 1]], 1, -1)
    assert balanced_accuracy_score(truth, model.predict(new[index])) > 0.9
    by_number = TATMLPairs(kernel="rbf", random_state=0, preprocessor=X).fit(index, signs)
    assert by_number.threshold_ == pytest.approx(model.threshold_, rel=0.1)
    with pytest.raises(ValueError, match="kernel: expected a kernel of the samples, as pairs"):
        TATMLPairs(kernel="precomputed").fit(X[index], signs)


def test_a_kernel_of_several_blocks():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    X = Blocks(rng.normal(size=(60, 3, 3)) + y[:, None, None], rng.normal(size=(60, 2)))
    model = TATML(kernel=KernelMap(n_landmarks=20), random_state=0).fit(X, y)
    assert model._inner_shapes() == ((3, 3), (2, 1), (19, 1), (19, 1))
    squared = model.pair_distance(PAIRS % 60, X) ** 2
    assert_allclose(model._block_distances(PAIRS % 60, X).sum(axis=0), squared)


def test_the_share_of_the_image_is_shown_by_name():
    pytest.importorskip("matplotlib")
    X, y = banana(120, 0)
    index = PAIRS + 20
    signs = np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)
    model = TATML(kernel=KernelMap(n_landmarks=40), random_state=0).fit(X, y)
    display = BlockShareDisplay.from_estimator(model, index, signs, X)
    assert display.names == ["features", "kernel image"]
    assert_allclose(display.shares.sum(axis=1), [1, 1])
    assert display.shares[1, 1] > 0.2
    alone = TATML(kernel=KernelMap(keep_features=False), random_state=0).fit(X, y)
    assert alone._block_names() == ["kernel image"]
    blocks = Blocks(X[:, :2], X[:, 2:])
    two = TATML(kernel=KernelMap(n_landmarks=40), random_state=0).fit(blocks, y)
    images = [f"kernel image of block {m}" for m in (0, 1)]
    assert two._block_names() == ["block 0", "block 1", *images]
    assert TATML(random_state=0).fit(blocks, y)._block_names() == ["block 0", "block 1"]


def scores(model, X, y, n_pairs=4000):
    """AUC, and balanced accuracies at the threshold and at the best one, of random pairs."""
    index = np.random.default_rng(1).integers(0, len(X), size=(n_pairs, 2))
    same = y[index[:, 0]] == y[index[:, 1]]
    distances = model.pair_distance(index, X)
    order = np.argsort(distances)
    rates = np.cumsum(same[order]) / same.sum() - np.cumsum(~same[order]) / (~same).sum()
    best = (1 + rates.max()) / 2
    at_threshold = balanced_accuracy_score(same, distances < model.threshold_)
    return roc_auc_score(same, -distances), at_threshold, best


def banana(n_samples, seed):
    """Two half moons in three of five columns; the other columns are noise."""
    X, y = make_moons(n_samples, noise=0.15, random_state=seed)
    noise = np.random.default_rng(seed).normal(size=(n_samples, 2)) * 0.3
    return np.hstack([X, noise]), y


def test_a_kernel_separates_what_no_linear_metric_does():
    (X, y), (new, labels) = banana(300, 0), banana(600, 1)
    linear = scores(TATML(random_state=0).fit(X, y), new, labels)
    curved = scores(TATML(kernel="rbf", random_state=0).fit(X, y), new, labels)
    assert curved[0] > linear[0] + 0.1
    assert curved[1] > 0.9


@pytest.mark.parametrize("n_landmarks", [30, 100])
@pytest.mark.parametrize("load", [load_digits, load_wine, load_breast_cancer])
def test_the_threshold_holds_for_samples_outside_the_span_of_the_landmarks(n_landmarks, load):
    """They lose a part of their distances, which held-out samples lose as well."""
    X, y = load(return_X_y=True)
    n_landmarks = min(n_landmarks, len(X) // 4)
    kernel = KernelMap(n_landmarks=n_landmarks)
    model = TATML(kernel=kernel, random_state=0).fit(X[::2], y[::2])
    _, found, best = scores(model, X[1::2], y[1::2])
    assert found > best - 0.03


def test_the_units_of_the_kernel_are_chosen_by_held_out_pairs():
    """Columns of noise in large units hide the others, unless each has a unit of its own."""
    X, y = banana(200, 0)
    new, labels = banana(400, 1)
    factor = np.array([1.0, 1.0, 1e4, 1e4])
    chosen = TATML(kernel="rbf", random_state=0).fit(X * factor, y)
    common = TATML(kernel=KernelMap(units="common"), random_state=0).fit(X * factor, y)
    assert np.ptp(common.kernel_map_.maps_[0].scale) == 0
    assert_allclose(chosen.kernel_map_.maps_[0].scale, (X * factor).std(axis=0))
    areas = [scores(model, new * factor, labels)[0] for model in (chosen, common)]
    assert areas[0] > areas[1] + 0.05
    matrices = (X * factor).reshape(-1, 2, 2)  # without held-out pairs, their unit is common
    joint = TATML(kernel="rbf", **EXACT).fit(matrices, y)
    assert np.ptp(joint.kernel_map_.maps_[0].scale) > 0


def test_the_search_chooses_the_kernel():
    (X, y), (new, labels) = banana(200, 0), banana(400, 1)
    options = {"cv": 3, "random_state": 0}
    grid = {"C": [10.0, 100.0], "kernel": [None, "rbf"]}
    model = TATMLCV(param_grid=grid, **options).fit(X, y)
    assert model.best_params_["kernel"] == "rbf"
    assert len(model.cv_results_["params"]) == 4
    assert model.kernel_map_.gamma_ > 0
    kernels = [KernelMap(gamma_factor=factor) for factor in (0.3, 1.0, 3.0)]
    several = TATMLCV(param_grid=[{}, {"kernel": kernels}], **options).fit(X, y)
    assert several.best_params_["kernel"] in kernels
    assert scores(several, new, labels)[0] > 0.9
    rotated = np.random.default_rng(0).normal(size=(200, 3))
    labels = (rotated[:, 0] > 0).astype(int)
    linear = TATMLCV(param_grid={"kernel": [None, KernelMap(gamma=1e3)]}, **options)
    assert linear.fit(rotated, labels).best_params_["kernel"] is None


def test_a_grid_search_reaches_the_parameters_of_the_kernel():
    X, y, *_ = iris()
    knn = make_pipeline(TATML(kernel=KernelMap(), random_state=0), KNeighborsClassifier(3))
    search = GridSearchCV(knn, {"tatml__kernel__gamma_factor": [0.1, 1.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9
    assert clone(search.best_estimator_)[0].kernel.gamma_factor in (0.1, 1.0)


@pytest.mark.parametrize(
    "kernel", ["rbf", KernelMap("laplacian", n_landmarks=20, keep_features=False)]
)
def test_saved_models_keep_their_landmarks(kernel, tmp_path):
    pytest.importorskip("skops")
    X, y, new, _ = iris()
    model = TATML(kernel=kernel, random_state=0).fit(X, y)
    loaded = load_model(save_model(model, tmp_path / "model.skops")).estimator
    assert_array_equal(loaded.transform(new), model.transform(new))
    landmarks = [block_map.landmarks for block_map in model.kernel_map_.maps_]
    assert_array_equal(loaded.kernel_map_.maps_[0].landmarks, landmarks[0])
    precomputed = TATML(kernel="precomputed", random_state=0).fit(X @ X.T, y)
    loaded = load_model(save_model(precomputed, tmp_path / "other.skops")).estimator
    assert_array_equal(loaded.transform(new @ X.T), precomputed.transform(new @ X.T))


def test_damaged_kernel_maps_are_not_saved(tmp_path):
    pytest.importorskip("skops")
    X, y, *_ = iris()
    model = TATML(kernel="rbf", random_state=0).fit(X, y)
    for name, value in vars(model.kernel_map_.maps_[0]).items():
        for wrong in [-1.0] if name == "gamma" else [value[:3], value[0], np.nan * value]:
            damaged = deepcopy(model)
            object.__setattr__(damaged.kernel_map_.maps_[0], name, wrong)
            with pytest.raises((TypeError, ValueError), match=r"^kernel_map_"):
                save_model(damaged, tmp_path / "model.skops")
    for name, wrong, named in (
        ("maps_", [None], "kernel_map_.maps_"),
        ("maps_", [], "kernel_map_.maps_"),
        ("gamma_", np.array([2.0]), "kernel_map_.maps_"),
        ("gamma_", [2.0], "kernel_map_.gamma_"),
        ("block_shapes_out_", ((4, 1), (9, 1)), "kernel_map_"),
        ("degree", 0, "degree"),
    ):
        damaged = deepcopy(model)
        setattr(damaged.kernel_map_, name, wrong)
        with pytest.raises((TypeError, ValueError), match=rf"^{named}.*: expected"):
            save_model(damaged, tmp_path / "model.skops")


# Comparisons


def triplets_of(y, n_triplets=300, seed=0):
    """Triplets (a, b, c): a and b of one class, c of another."""
    rng = np.random.default_rng(seed)
    anchors = rng.integers(0, len(y), n_triplets)
    rows = []
    for a in anchors:
        same = np.flatnonzero((y == y[a]) & (np.arange(len(y)) != a))
        rows.append([a, rng.choice(same), rng.choice(np.flatnonzero(y != y[a]))])
    return np.array(rows)


def test_triplets_of_curved_classes_need_a_kernel():
    (X, y), (new, labels) = banana(200, 0), banana(400, 1)
    known, wanted = triplets_of(y), triplets_of(labels, seed=1)
    linear, curved = (
        TATMLTriplets(kernel=kernel, preprocessor=X).fit(known) for kernel in (None, "rbf")
    )
    assert curved.score(new[wanted]) > linear.score(new[wanted]) + 0.05
    assert len(curved.result_.L) == 2
    assert curved.result_.converged


def test_a_linear_kernel_of_quadruplets_is_no_kernel():
    X, y, new, _ = iris()
    quadruplets = triplets_of(y)[:, [0, 1, 0, 2]]
    options = {"prior": "scaled", "clip_outliers": False, "tol": 1e-10, "preprocessor": X}
    kernel = KernelMap("linear", units="common", keep_features=False)
    plain, found = (
        TATMLQuadruplets(kernel=given, **options).fit(quadruplets) for given in (None, kernel)
    )
    assert_allclose(found.pair_distance(PAIRS, new), plain.pair_distance(PAIRS, new))
    with pytest.raises(ValueError, match="kernel: expected a kernel of the samples, as pairs"):
        TATMLTriplets(kernel="precomputed").fit(X[triplets_of(y)])


def test_neighbours_in_the_space_of_a_kernel():
    X, y, new, labels = iris()
    X = X + 1e-3 * np.random.default_rng(0).normal(size=X.shape)  # no neighbours at equal distances
    options = {"prior": "scaled", "clip_outliers": False, "tol": 1e-10, "random_state": 0}
    kernel = KernelMap("linear", units="common", keep_features=False)
    plain, found = (TATMLNeighbors(kernel=given, **options).fit(X, y) for given in (None, kernel))
    assert_array_equal(found.comparisons_, plain.comparisons_)
    assert_allclose(found.pair_distance(PAIRS, new), plain.pair_distance(PAIRS, new))
    assert_allclose(found.threshold_, plain.threshold_)
    curved = TATMLNeighbors(kernel="rbf", random_state=0).fit(X, y)
    knn = KNeighborsClassifier(3).fit(curved.transform(X), y)
    assert knn.score(curved.transform(new), labels) > 0.93


# Comparisons in the span


@pytest.mark.parametrize("prior", ["scaled", "auto", "discriminant", "within"])
def test_triplets_are_solved_in_the_span(prior, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 6)
    X = rng.normal(size=(18, 50)) + 0.5 * y[:, None]
    model = TATMLTriplets(prior=prior, tol=1e-10, clip_outliers=False, preprocessor=X)
    found = clone(model).fit(triplets_of(y, 60))
    monkeypatch.setattr("tatml._learning.priors.ROWS_PER_SPAN", np.inf)
    expected = clone(model).fit(triplets_of(y, 60))
    new, index = rng.normal(size=(10, 50)), PAIRS % 10
    assert_allclose(found.pair_distance(index, new), expected.pair_distance(index, new), rtol=1e-5)
    assert_allclose(found.result_.primal, expected.result_.primal, rtol=1e-8)


def test_neighbours_are_found_in_the_span(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 10)
    X = rng.normal(size=(30, 60)) + 0.5 * y[:, None]
    options = {"max_rounds": 2, "tol": 1e-10, "prior": "scaled", "random_state": 0}
    found = TATMLNeighbors(**options).fit(X, y)
    monkeypatch.setattr("tatml._learning.priors.ROWS_PER_SPAN", np.inf)
    expected = TATMLNeighbors(**options).fit(X, y)
    assert_array_equal(found.comparisons_, expected.comparisons_)
    assert_allclose(found.pair_distance(PAIRS % 30, X), expected.pair_distance(PAIRS % 30, X))
    assert_allclose(found.threshold_, expected.threshold_)
