"""Blocks with more rows than their samples span: solved in the span, as in the whole space."""

import tracemalloc
import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from estimators_helpers import split_scores
from helpers import random_spd
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from tatml import ITML, TATML, TATMLCV, Blocks, Euclidean, Maz, TATMLPairs, learn_metric
from tatml._estimators.fitted_state import check_fitted_state
from tatml._learning import priors
from tatml._learning.span import _gram_basis
from tatml.io import export, load_model, save_model

N_SAMPLES, N_ROWS = 20, 60
Y = np.arange(N_SAMPLES) % 3
NAMED = ("auto", "diagonal", "scaled", "identity", "within", "discriminant")
UNITS = ("columns", "common")
INDEX = np.array([(i, j) for i in range(N_SAMPLES) for j in range(i)])
GRID = {"C": [1.0, 10.0], "prior": ["discriminant", "auto", "scaled"]}
TIGHT = {"C": 10.0, "tol": 1e-13, "threshold": "joint", "random_state": 0}


def wide_samples(n=N_ROWS, width=1, seed=0, y=Y):
    """Return samples with columns of different units, one of them constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(y), n, width)) + 1.5 * rng.normal(size=(1 + y.max(), n, 1))[y]
    X *= 10 ** rng.uniform(-1, 1, size=(n, 1))
    X[:, 3] = 2.0
    return X[:, :, 0] if width == 1 else X


def new_samples(n=N_ROWS, width=1):
    """Return other samples; they differ in the column that is constant in the training samples."""
    X = wide_samples(n, width, seed=1)
    X[:, 3] += 0.1 * np.arange(N_SAMPLES).reshape(-1, *([1] * (X.ndim - 2)))
    return X


def in_whole_space(monkeypatch, fit):
    """Return what `fit` returns if no block counts as wide."""
    with monkeypatch.context() as patch:
        patch.setattr(priors, "ROWS_PER_SPAN", np.inf)
        return fit()


def force_units(monkeypatch, units):
    chosen = "tatml._learning.learn.choose_space"
    monkeypatch.setattr(chosen, lambda kernel, _, hold_out: (kernel, units, hold_out(kernel)))


def assert_same_metric(found, expected, X, new, rtol=1e-8):
    """Compare F, the threshold, and distances inside and outside the span.

    Two points with a duality gap ε may have distances that differ by √ε.
    """
    rtol = max(rtol, np.sqrt(2 * (found.result_.gap + expected.result_.gap)))
    assert_allclose(found.result_.primal, expected.result_.primal, rtol=rtol)
    assert_allclose([found.b0_, found.threshold_], [expected.b0_, expected.threshold_], rtol=rtol)
    for samples in (X, new):
        distances = expected.pair_distance(INDEX, samples)
        assert_allclose(found.pair_distance(INDEX, samples), distances, rtol=rtol)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("prior", NAMED)
@pytest.mark.parametrize("width", [1, 2])
def test_labels_give_the_metric_of_the_whole_space(monkeypatch, prior, units, width):
    assert_labels_give_the_metric(monkeypatch, prior, width, units)


def assert_labels_give_the_metric(monkeypatch, prior, width, units):
    X, new = wide_samples(width=width), new_samples(width=width)
    force_units(monkeypatch, units)

    def fit():
        return TATML(prior=prior, **TIGHT).fit(X, Y)

    found, expected = fit(), in_whole_space(monkeypatch, fit)
    assert found.result_.gap < 1e-12 * max(1, found.result_.primal)
    assert_same_metric(found, expected, X, new)
    scale = np.abs(expected.prior_).max()
    assert_allclose(found.prior_, expected.prior_, rtol=1e-9, atol=1e-11 * scale)
    scale = np.abs(expected.result_.W[0]).max()
    assert_allclose(found.result_.W[0], expected.result_.W[0], rtol=1e-7, atol=1e-8 * scale)
    scale = np.abs(expected.components_).max()
    assert_allclose(found.components_, expected.components_, rtol=1e-6, atol=1e-7 * scale)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("width", [1, 2])
def test_midpoints_and_their_learnt_centre_are_those_of_the_whole_space(monkeypatch, width, units):
    """For new classes the prior is another one: its ratios are shrunk in the span."""
    X, new = wide_samples(width=width), new_samples(width=width)
    force_units(monkeypatch, units)

    def fit():
        return TATML(midpoint=True, **TIGHT | {"C": 1e4}).fit(X, Y)

    found, expected = fit(), in_whole_space(monkeypatch, fit)
    assert_allclose(found.result_.primal, expected.result_.primal, rtol=1e-6)
    assert_allclose(found.threshold_, expected.threshold_, rtol=1e-5)
    for samples in (X, new):
        scores = expected.pair_score(INDEX, samples)
        tolerance = 1e-5 * np.max(np.abs(scores))
        assert_allclose(found.pair_score(INDEX, samples), scores, atol=tolerance)
    start = np.mean([X[rows].mean(axis=0) for rows in (Y == 0, Y == 1, Y == 2)], axis=0)
    shift, moved = (
        model.midpoint_[0] - start.reshape(N_ROWS, width) for model in (expected, found)
    )
    assert np.max(np.abs(shift)) > 1e-6  # the centre is learnt
    assert_allclose(moved, shift, atol=1e-3 * np.max(np.abs(shift)))


@pytest.mark.parametrize("units", [*UNITS, "affine"])
@pytest.mark.parametrize("prior", NAMED)
@pytest.mark.parametrize("width", [1, 2])
def test_pairs_give_the_metric_of_the_whole_space(monkeypatch, prior, units, width):
    assert_pairs_give_the_metric(monkeypatch, prior, width, units)


def assert_pairs_give_the_metric(monkeypatch, prior, width, units):
    X, new = wide_samples(width=width), new_samples(width=width)
    pairs, y = INDEX[::2], np.where(Y[INDEX[::2, 0]] == Y[INDEX[::2, 1]], 1, -1)
    weights = np.where(np.any(pairs == 5, axis=1), 0.0, 1.0)  # sample 5 does not count
    force_units(monkeypatch, units)

    def fit():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # "affine" has a condition of 1e8
            return TATMLPairs(prior=prior, preprocessor=X, **TIGHT).fit(pairs, y, weights)

    if (prior, units) == ("within", "affine"):
        for solve in (fit, lambda: in_whole_space(monkeypatch, fit)):
            with pytest.raises(ValueError, match="within-class scatter of block 0 has rank"):
                solve()
        return
    found, expected = fit(), in_whole_space(monkeypatch, fit)
    found.preprocessor = expected.preprocessor = None
    assert found.result_.gap < (1e-6 if units == "affine" else 1e-12)
    assert_same_metric(found, expected, X, new)


def test_given_matrices_are_a_prior_in_the_span_too(monkeypatch):
    W0 = random_spd(np.random.default_rng(2), N_ROWS)
    for width in (1, 2):
        X, new = wide_samples(width=width), new_samples(width=width)

        def fit(X=X):
            return TATML(prior=W0, **TIGHT).fit(X, Y)

        found, expected = fit(), in_whole_space(monkeypatch, fit)
        assert_same_metric(found, expected, X, new)
        assert_allclose(found.prior_, W0, rtol=1e-12, atol=1e-12)


def test_the_span_solves_the_problem_of_learn_metric():
    """W in all dimensions is that of the function for the same prior and pairs."""
    X = wide_samples()
    metric = TATML(prior="discriminant", **TIGHT).fit(X, Y)
    margin, squared = metric.margin, 1.0 / np.sqrt(np.prod(metric.margin))
    result = learn_metric(
        X,
        metric.pairs_,
        metric.similar_,
        weights=metric.pair_weights_,
        C=10.0 / np.sum(metric.pair_weights_),
        c0=10.0,
        mu0=squared,
        margin=margin,
        prior=metric.prior_,
        tol=1e-13,
    )
    assert_allclose(metric.b0_, result.b0, rtol=1e-8)
    assert_allclose(metric.result_.primal, result.primal, rtol=1e-8)
    scale = np.abs(result.W[0]).max()
    assert_allclose(metric.result_.W[0], result.W[0], rtol=1e-7, atol=1e-8 * scale)


@pytest.mark.parametrize("kind", ["small", "shifted", "rank-deficient", "two scales"])
@pytest.mark.parametrize("prior", ["scaled", "diagonal", "discriminant"])
def test_hostile_samples_lose_nothing(monkeypatch, kind, prior):
    X, new, rtol = wide_samples(), new_samples(), 1e-8
    if kind == "small":
        X, new = 1e-8 * X, 1e-8 * new
    if kind == "shifted":  # by 1e6 times their spread: 10 of 16 digits remain
        X, new, rtol = X + 1e6, new + 1e6, 1e-5
    if kind == "rank-deficient":
        X[10:] = X[:10] + np.outer(Y[10:] - Y[:10], X[0])
        X[:, 20:40] = X[:, :20]
    if kind == "two scales":  # eigenvalues of a Gram matrix of these lose the second kind
        X[:, 30:] *= 1e-7
        new[:, 30:] *= 1e-7

    def fit():
        return TATML(prior=prior, **TIGHT).fit(X, Y)

    found, expected = fit(), in_whole_space(monkeypatch, fit)
    assert_allclose(found.result_.primal, expected.result_.primal, rtol=rtol)
    assert_allclose(found.b0_, expected.b0_, rtol=rtol)
    for samples in (X, new):
        distances = expected.pair_distance(INDEX, samples)
        assert_allclose(found.pair_distance(INDEX, samples), distances, rtol=rtol)


def test_a_narrow_block_beside_a_wide_one(monkeypatch):
    X = Blocks(wide_samples()[:, :, None], wide_samples(5, 2, seed=3), wide_samples(90, 3, seed=4))
    new = Blocks(new_samples()[:, :, None], new_samples(5, 2), new_samples(90, 3))

    def fit():
        return TATML(**TIGHT).fit(X, Y)

    found, expected = fit(), in_whole_space(monkeypatch, fit)
    assert_same_metric(found, expected, X, new)
    assert [A.shape for A in found.components_] == [(60, 60), (5, 5), (90, 90)]


def test_a_wide_block_of_identical_samples(monkeypatch):
    X = Blocks(wide_samples(), np.ones((N_SAMPLES, 50)))
    new = Blocks(new_samples(), np.random.default_rng(5).normal(size=(N_SAMPLES, 50)))
    for sign, change in (("neighbors", {"pairs": "neighbors"}), ("auto", {"threshold": "auto"})):

        def fit(change=change):
            return TATML(**TIGHT | {"prior": "identity"} | change).fit(X, Y)

        found, expected = fit(), in_whole_space(monkeypatch, fit)
        distances = expected.pair_distance(INDEX, new)
        assert_allclose(found.pair_distance(INDEX, new), distances, rtol=1e-6, err_msg=sign)
        assert_allclose(found.threshold_, expected.threshold_, rtol=1e-6, err_msg=sign)
    with pytest.raises(ValueError, match="expected pairs of samples that differ in block 1"):
        TATML().fit(X, Y)


@pytest.mark.parametrize(
    "estimator",
    [
        ITML(prior="discriminant", tol=1e-13, random_state=0),
        Maz(C=10.0, tol=1e-13, random_state=0),
        TATML(pairs="neighbors", **TIGHT),
        TATML(C=10.0, tol=1e-13, random_state=0),  # the threshold is judged on held-out pairs
        TATMLCV(TATML(tol=1e-13, random_state=0), GRID, cv=3),
        TATML(n_components=4, **TIGHT),
    ],
    ids=lambda estimator: repr(estimator)[:20],
)
def test_every_estimator_finds_what_it_finds_in_the_whole_space(monkeypatch, estimator):
    X, y = make_classification(60, 100, n_informative=8, n_classes=3, class_sep=2.0, random_state=0)

    def fit():
        return clone(estimator).fit(X[:40], y[:40])

    found, expected = fit(), in_whole_space(monkeypatch, fit)
    assert_allclose(found.threshold_, expected.threshold_, rtol=1e-7)
    index = INDEX[INDEX[:, 0] != 3]
    for samples in (X[:40], X[40:]):
        distances = expected.pair_distance(index, samples)
        assert_allclose(found.pair_distance(index, samples), distances, rtol=1e-6)
    if hasattr(found, "cv_results_"):
        scores = split_scores(expected)
        assert_allclose(split_scores(found), scores, atol=1e-6)


class InTiles(TATML):
    """TATML that lists no pairs."""

    _most_listed_pairs = 10


def test_all_pairs_in_tiles_are_solved_in_the_span(monkeypatch):
    X, new = wide_samples(), new_samples()
    for prior in ("diagonal", "discriminant"):

        def fit(prior=prior):
            return InTiles(prior=prior, pairs="all", **TIGHT).fit(X, Y)

        assert_same_metric(fit(), in_whole_space(monkeypatch, fit), X, new)


def test_the_threshold_holds_for_new_samples():
    """Most of their distance is outside the span; a threshold of training distances is too small.

    The classes differ in 30 of 2,000 columns. The learnt threshold, at which new pairs are judged,
    is compared with the best threshold in hindsight.
    """
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = rng.normal(size=(240, 2000))
    X[:, :30] += 4 * rng.normal(size=(3, 30))[y]
    metric = TATML(random_state=0).fit(X[:120], y[:120])
    index = rng.integers(0, 120, size=(3000, 2))
    index = index[index[:, 0] != index[:, 1]]
    distances, same = metric.pair_distance(index, X[120:]), y[index[:, 0]] == y[index[:, 1]]

    def balanced_accuracy(threshold):
        return (np.mean(distances[same] < threshold) + np.mean(distances[~same] >= threshold)) / 2

    best = max(map(balanced_accuracy, np.quantile(distances, np.linspace(0.01, 0.99, 99))))
    assert best > 0.9
    assert balanced_accuracy(metric.threshold_) > best - 0.02
    outside = metric.factors_[0]
    scaled = outside.span.in_units(X[120:])
    rest = scaled - outside.span.expanded(outside.span.coordinates(scaled))
    assert np.sum(rest**2) > 0.5 * np.sum(scaled**2)


def test_a_basis_has_the_rank_of_the_samples_in_any_units():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(8, 3)) @ rng.normal(size=(3, 20))
    for scale in (1e-4, 1.0, 1e4):
        coordinates, mix = _gram_basis(scale * rows @ rows.T * scale)
        assert coordinates.shape == mix.shape == (8, 3)
        assert_allclose(mix.T @ (scale * rows) @ (scale * rows).T @ mix, np.eye(3), atol=1e-9)


# Large blocks, whose square matrices are not formed


def large_samples(n=1500, n_samples=40):
    rng = np.random.default_rng(0)
    y = np.arange(n_samples) % 4
    return rng.normal(size=(n_samples, n)) + rng.normal(size=(4, n))[y], y


@pytest.fixture(scope="module")
def large():
    X, y = large_samples()
    return TATML(random_state=0).fit(X, y), X


def test_the_factored_form_is_the_linear_map(large):
    metric, X = large
    A = metric.factors_[0].matrix()
    new = np.random.default_rng(1).normal(size=X.shape)
    assert_allclose(metric.transform(new), new @ A.T, rtol=1e-9, atol=1e-11)
    expected = np.linalg.norm((new[:1] - new[1:]) @ A.T, axis=1)
    pairs = [[0, j] for j in range(1, len(new))]
    assert_allclose(metric.pair_distance(pairs, new), expected, rtol=1e-10)
    distance = metric.get_metric()
    assert_allclose([distance(new[0], new[j]) for j in (1, 2)], expected[:2], rtol=1e-10)
    assert metric.get_feature_names_out().shape == metric.transform(new[:1])[0].shape


@pytest.mark.parametrize("prior", ["scaled", "discriminant"])
def test_the_factored_form_is_the_full_matrix(monkeypatch, prior):
    """The same fit with square matrices, and without them."""
    X, new = wide_samples(), new_samples()
    full = TATML(prior=prior, **TIGHT).fit(X, Y)
    for module in ("span", "prepare"):
        monkeypatch.setattr(f"tatml._learning.{module}.MOST_ROWS", 10)
    factored = TATML(prior=prior, **TIGHT).fit(X, Y)
    assert not hasattr(factored, "components_")
    distances = full.pair_distance(INDEX, new)
    assert_allclose(factored.pair_distance(INDEX, new), distances, rtol=1e-10)
    assert_allclose(factored.result_.primal, full.result_.primal, rtol=1e-15)
    assert factored.result_.gap == full.result_.gap


@pytest.mark.parametrize("most", [10, 1000])
def test_the_embedding_does_not_depend_on_the_basis(monkeypatch, most):
    """Neither the order of the samples matters, nor one without weight, which the span contains."""
    for module in ("span", "prepare"):
        monkeypatch.setattr(f"tatml._learning.{module}.MOST_ROWS", most)
    X, new = wide_samples(), new_samples()
    order = np.random.default_rng(0).permutation(N_SAMPLES)
    similar = np.where(Y[INDEX[:, 0]] == Y[INDEX[:, 1]], 1, -1)
    with_5, settings = np.any(INDEX == 5, axis=1), TIGHT | {"tol": 1e-12}
    weighted = TATMLPairs(preprocessor=X, **settings).fit(INDEX, similar, 1.0 - with_5)
    moved = TATMLPairs(preprocessor=X[order], **settings)
    moved.fit(np.argsort(order)[INDEX[~with_5]], similar[~with_5])
    assert hasattr(moved, "factors_") == (most == 10)
    assert_allclose(moved.transform(new), weighted.transform(new), rtol=1e-5, atol=1e-7)


def test_no_square_array_is_formed():
    X, y = large_samples(20_000, 60)
    tracemalloc.start()
    try:
        metric = TATML(random_state=0).fit(X, y)
        metric.pair_distance(metric.pairs_, X)
        metric.transform(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert X.nbytes < 1e7
    assert peak < 20 * X.nbytes  # one square array is 333 times X


def test_attributes_that_are_too_large_say_so(large, tmp_path):
    metric, _ = large
    message = "expected at most 1000 rows .* got 1500, whose 1500 × 1500 matrix is not formed; use"
    for name in ("components_", "prior_"):
        assert not hasattr(metric, name)
        with pytest.raises(AttributeError, match=f"{name}: {message}"):
            getattr(metric, name)
    with pytest.raises(ValueError, match=f"get_mahalanobis_matrix: {message}"):
        metric.get_mahalanobis_matrix()
    with pytest.raises(ValueError, match=f"model: {message}"):
        export(metric, tmp_path / "metric.npz")
    with pytest.raises(AttributeError, match="W: expected at most 1000 rows"):
        _ = metric.result_.W
    with pytest.raises(AttributeError, match="'TATML' object has no attribute 'components_'"):
        _ = TATML().components_


def test_a_factored_metric_is_saved(large, tmp_path):
    pytest.importorskip("skops")
    metric, X = large
    save_model(metric, tmp_path / "metric.skops")
    loaded = load_model(tmp_path / "metric.skops").estimator
    assert np.array_equal(loaded.transform(X), metric.transform(X))
    assert loaded.result_.gap == metric.result_.gap
    loaded.factors_[0].inner[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"factors_.inner: expected finite numbers"):
        save_model(loaded, tmp_path / "other.skops")


def test_every_part_of_a_factored_metric_is_checked(large):
    metric = copy(large[0])
    (factor,) = metric.factors_
    of_span, n = factor.span, factor.span.size
    X, y = sparse_samples()
    rows = TATML(random_state=0).fit(X, y).factors_[0].span.rows
    for kind, name, changes in (
        (factor, ".inner", {"inner": factor.inner[:, 0]}),
        (factor, ".inner", {"inner": factor.inner[1:, 1:]}),
        (factor, ".outside", {"outside": 0.0}),
        (factor, ".span", {"span": None}),
        (of_span, ".span.rows", {"rows": of_span.rows[0]}),
        (of_span, ".span.unit", {"unit": np.ones((n, 1))}),
        (of_span, ".span.unit", {"unit": of_span.unit[1:]}),
        (of_span, ".span.outside", {"outside": -1.0}),
        (of_span, ".span.mix", {"mix": np.full((len(of_span.rows), 2), np.nan)}),
        (of_span, ".span.mix", {"mix": np.ones((3, 2))}),
        (of_span, ".span.whitening", {"whitening": np.full((n, n), np.nan)}),
        (of_span, ".span.whitening", {"whitening": np.eye(n - 1)}),
        (rows, ".span.rows.data", {"data": rows.data.astype(int)}),
        (rows, ".span.rows.indices", {"indices": rows.indices.astype(float)}),
        (rows, ".span.rows.indptr", {"indptr": rows.indptr[:, None]}),
        (rows, ".span.rows.mean", {"mean": np.nan * rows.mean}),
        (rows, ".span.rows", {"indptr": rows.indptr[::-1].copy()}),
    ):
        part = replace(kind, **changes)
        if kind is rows:
            part = replace(of_span, rows=part)
        metric.factors_ = [part if kind is factor else replace(factor, span=part)]
        with pytest.raises((TypeError, ValueError), match=rf"^factors_{name}: expected"):
            check_fitted_state(metric)
    for right in (replace(factor, span=replace(of_span, whitening=np.eye(n))), np.ones((2, n))):
        metric.factors_ = [right]
        check_fitted_state(metric)
    for wrong in ([np.ones(n)], [np.ones((2, n - 1))], [], [factor, factor], (factor,)):
        metric.factors_ = wrong
        with pytest.raises((TypeError, ValueError), match=r"^factors_: expected"):
            check_fitted_state(metric)
    metric.factors_, metric.result_ = [factor], replace(metric.result_, L=[])
    with pytest.raises(ValueError, match=r"^result_\.L: expected"):
        check_fitted_state(metric)


def test_a_search_that_is_fitted_again_forgets_the_large_block():
    X, y = large_samples()
    search = Maz(random_state=0, tol=1e-2).fit(X, y)
    assert not hasattr(search, "components_")
    search.fit(X[:, :5], y)
    assert search.components_.shape == search.prior_.shape == (5, 5)
    assert search.transform(X[:, :5]).shape == (40, 5)
    assert not hasattr(search, "factors_")


def test_reduced_components_are_an_array_and_say_what_they_drop(capsys):
    X, y = large_samples()
    metric = TATML(n_components=3, verbose=True, random_state=0).fit(X, y)
    assert metric.components_.shape == (3, 1500)
    said = capsys.readouterr().out
    assert "Block 0 is solved in the span of its samples: 40 of 1500 dimensions." in said
    kept = float(said.split("3 components keep ")[1].split(" %")[0]) / 100
    metric.set_params(verbose=False).fit(X, y)
    full = clone(metric).set_params(n_components=None).fit(X, y)
    ratio = np.var(metric.transform(X), axis=0).sum() / np.var(full.transform(X), axis=0).sum()
    assert_allclose(kept, ratio, atol=6e-4)
    variances = np.var(full.transform(X) @ np.linalg.svd(full.transform(X))[2].T, axis=0)
    assert ratio > 0.9 * np.sort(variances)[-3:].sum() / variances.sum()
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="n_components: expected at most the 40 dimensions"):
        TATML(n_components=41).fit(X, y)


def test_a_warm_start_is_at_the_solution(monkeypatch):
    X = wide_samples()
    for most in (1000, 10):
        for module in ("span", "prepare"):
            monkeypatch.setattr(f"tatml._learning.{module}.MOST_ROWS", most)
        for prior in ("discriminant", np.eye(N_ROWS)):
            settings = TIGHT | {"tol": 1e-9, "prior": prior, "warm_start": True}
            metric = TATML(**settings).fit(X, Y)
            first = metric.n_iter_
            assert metric.fit(X, Y).n_iter_ <= 1 < first


def test_a_covariance_is_refused_with_its_rank():
    message = "prior='covariance': the covariance of block 0 has rank 19, expected 60"
    with pytest.raises(ValueError, match=message):
        TATML(prior="covariance").fit(wide_samples(), Y)


# Sparse tables


def sparse_samples(n_samples=24, n=1200, density=0.05, seed=0):
    """Return a sparse table with a column of ones, one that is nearly dense, and an outlier."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 3
    table = scipy.sparse.random_array((n_samples, n), density=density, random_state=rng)
    X = table.toarray()
    X[X > 0] += 1 + 0.5 * y[np.nonzero(X)[0]]
    X[:, 0], X[:, 1:3] = 1.0, rng.normal(size=(n_samples, 2)) + 3
    X[5, 2] = 15.0
    return scipy.sparse.csr_array(X), y


@pytest.mark.filterwarnings("ignore:threshold_: ")  # distances in many columns are alike
@pytest.mark.parametrize("prior", [*NAMED, "given"])
def test_sparse_samples_give_the_metric_of_dense_ones(prior):
    X, y = sparse_samples(n=150 if prior == "given" else 1200)
    W0 = random_spd(np.random.default_rng(3), 150) if prior == "given" else prior
    settings = {"C": 10.0, "tol": 1e-13, "random_state": 0, "prior": W0}
    expected = TATML(**settings).fit(X.toarray(), y)
    for kind in ("csc_matrix", "coo_array", "csr_array"):
        found = TATML(**settings).fit(getattr(scipy.sparse, kind)(X), y)
        assert_allclose(found.threshold_, expected.threshold_, rtol=1e-8)
        distances = expected.pair_distance(INDEX, X.toarray())
        assert_allclose(found.pair_distance(INDEX, X), distances, rtol=1e-7)
    new = sparse_samples(n=X.shape[1], seed=1)[0]
    index = INDEX[::3]
    for samples in (X, new):
        distances = expected.pair_distance(index, samples.toarray())
        assert_allclose(found.pair_distance(index, samples), distances, rtol=1e-7)
        assert_allclose(found.pair_distance(index, samples.toarray()), distances, rtol=1e-7)
        embedded = found.transform(samples)
        assert_allclose(
            np.linalg.norm(embedded[0] - embedded[1]), found.pair_distance([[0, 1]], samples)[0]
        )
    difference = (new[[0]] - new[[1]]).toarray()[0]
    distance = found.get_metric()(difference, np.zeros(len(difference)))
    assert_allclose(distance, expected.pair_distance([[0, 1]], new.toarray())[0], rtol=1e-7)


@pytest.mark.filterwarnings("ignore:threshold_: ")  # distances in many columns are alike
@pytest.mark.parametrize(
    "estimator",
    [
        ITML(random_state=0, tol=1e-12),
        Maz(random_state=0, tol=1e-12, threshold="search", thresholds=(0.7, 1.0)),
        TATML(random_state=0, tol=1e-12, pairs="neighbors", prior="auto"),
        TATML(random_state=0, tol=1e-12, n_components=3),
        TATMLCV(TATML(random_state=0, tol=1e-12), GRID, cv=3),
    ],
    ids=lambda estimator: repr(estimator)[:20],
)
def test_all_label_estimators_take_sparse_samples(estimator):
    X, y = sparse_samples()
    found, expected = clone(estimator).fit(X, y), clone(estimator).fit(X.toarray(), y)
    assert_allclose(found.threshold_, expected.threshold_, rtol=1e-6)
    distances = expected.pair_distance(INDEX, X.toarray())
    assert_allclose(found.pair_distance(INDEX, X), distances, rtol=1e-5)


def test_pairs_of_a_sparse_preprocessor():
    X, y = sparse_samples()
    pairs, same = INDEX[::2], np.where(y[INDEX[::2, 0]] == y[INDEX[::2, 1]], 1, -1)
    found, expected = (
        TATMLPairs(preprocessor=samples, tol=1e-12).fit(pairs, same) for samples in (X, X.toarray())
    )
    assert_allclose(found.threshold_, expected.threshold_, rtol=1e-7)
    assert_allclose(found.decision_function(INDEX), expected.decision_function(INDEX), atol=1e-6)
    by_index = TATML(preprocessor=X, random_state=0).fit(np.arange(len(y)), y)
    directly = TATML(random_state=0).fit(X, y)
    assert by_index.threshold_ == directly.threshold_


def test_sparse_samples_are_neither_changed_nor_shared():
    X, y = sparse_samples()
    doubled = scipy.sparse.csr_array(  # each entry is the sum of two
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), X.shape
    )
    settings = {"random_state": 0, "clip_outliers": False}
    expected = TATML(**settings).fit(X, y).pair_distance(INDEX, X)
    metric = TATML(**settings).fit(doubled, y)
    assert doubled.nnz == 2 * X.nnz
    assert_allclose(metric.pair_distance(INDEX, X), expected, rtol=1e-12)
    kept, metric = X.copy(), TATML(**settings).fit(X, y)
    X.data[:] = 7.0
    assert_allclose(metric.pair_distance(INDEX, kept), expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:threshold_: ")  # distances in many columns are alike
def test_sparse_samples_stay_sparse():
    """A dense array of all samples has 400 times the numbers of the sparse one."""
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((100, 100_000), density=0.0025, random_state=rng, format="csr")
    y = np.arange(100) % 4
    dense = 8 * X.shape[0] * X.shape[1]
    tracemalloc.start()
    try:
        metric = TATML(random_state=0, clip_outliers=False).fit(X, y)
        metric.pair_distance(metric.pairs_[:1000], X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.7 * dense


def test_a_metric_of_sparse_samples_is_saved(tmp_path):
    pytest.importorskip("skops")
    X, y = sparse_samples()
    metric = TATML(random_state=0).fit(X, y)
    save_model(metric, tmp_path / "metric.skops")
    loaded = load_model(tmp_path / "metric.skops").estimator
    assert np.array_equal(loaded.pair_distance(INDEX, X), metric.pair_distance(INDEX, X))
    loaded.factors_[0].span.rows.indices[0] = 10**6
    with pytest.raises(ValueError, match=r"factors_.span.rows: expected a sparse array"):
        save_model(loaded, tmp_path / "other.skops")


def test_sparse_samples_are_refused_where_the_span_is_the_whole_space():
    X, y = sparse_samples()
    message = "Sparse data was passed for X, but dense data is required"
    narrow = X[:, 3:13]
    metric = TATML(random_state=0, clip_outliers=False).fit(narrow.toarray(), y)
    for call in (lambda: TATML().fit(narrow, y), lambda: metric.transform(narrow)):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(TypeError, match=message):
        Euclidean().fit(X, y)
    X.data[3] = np.nan
    with pytest.raises(ValueError, match="X: expected a table of finite real numbers"):
        TATML().fit(X, y)
    with pytest.raises(ValueError, match="preprocessor: expected finite real numbers"):
        TATMLPairs(preprocessor=X).fit([[0, 1], [0, 3]], [-1, 1])
    X.data[3] = 1e80
    with pytest.raises(ValueError, match=r"X: expected entries of at most 1e\+60"):
        TATML().fit(X, y)
