"""The learning room: plain functions that give what the estimators and `learn_metric` give."""

import operator
from dataclasses import replace

import numpy as np
import pytest
from estimators_helpers import labelled
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn.base import clone

from tatml import GMML, ITML, TATML, Blocks, Euclidean, TATMLNeighbors, TATMLPairs, learn_metric
from tatml._data.pairs import Pairs
from tatml._learning.cross_fit import Judge, cross_fit, hold_out_samples
from tatml._learning.labelled import LabelledSamples, make_pair_folds
from tatml._learning.learn import learn, learn_from_labels, learn_threshold, strengths
from tatml._learning.metric import Metric, is_one_sided, means_of
from tatml._learning.path import path
from tatml._learning.prepare import prepare
from tatml._learning.priors import within_pairs
from tatml._learning.task import Settings, Task
from tatml._optim.losses import comparison_hinge
from tatml._optim.problem import squared_hinge

EXACT = {"tol": 1e-12, "threshold": "joint"}


def task_of(kind="two blocks", n_pairs=150, seed=0):
    """Return random pairs of labelled samples as a task, with weights."""
    X, y = labelled(kind)
    blocks = X if isinstance(X, Blocks) else Blocks(X)
    rng = np.random.default_rng(seed)
    index = rng.integers(len(y), size=(n_pairs, 2))
    index = np.asfortranarray(index[index[:, 0] != index[:, 1]])
    similar = y[index[:, 0]] == y[index[:, 1]]
    pairs = Pairs(index, similar, rng.uniform(0.5, 2.0, len(index)))
    return Task(blocks, pairs, within_pairs(blocks, pairs))


def priors_of(blocks, seed=1):
    rng = np.random.default_rng(seed)
    halves = (rng.normal(size=(n, 2 * n)) for n, _ in blocks.block_shapes)
    return [half @ half.T / half.shape[1] for half in halves]


@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_learn_is_learn_metric_with_the_prior_and_weights_of_the_settings(kind, reduction):
    task = task_of(kind)
    prior, pairs = priors_of(task.blocks), task.rows
    total = float(np.sum(pairs.weights))
    settings = Settings(C=3.0, c0=2.0, prior=prior, reduction=reduction, **EXACT)
    settings = replace(settings, threshold_prior=0.8)
    metric = learn(task, settings)
    expected = learn_metric(
        task.blocks,
        pairs.index,
        pairs.similar,
        C=3.0 / total if reduction == "mean" else 3.0,
        c0=2.0,
        mu0=0.8**2,  # γ_s γ_d = 1
        prior=prior,
        weights=pairs.weights,
        tol=1e-12,
    )
    assert_allclose(metric.b0, expected.b0, rtol=1e-8)
    for A, W in zip(metric.factors, expected.W, strict=True):
        assert_allclose(len(expected.W) * A.T @ A, W, rtol=1e-6, atol=1e-8)
    assert metric.result.converged


def test_a_prepared_problem_is_scaled_to_the_mean_distance_of_its_pairs():
    task = task_of()
    loss = squared_hinge(task.rows, 1.0, (0.5, 2.0))
    for prior in ("scaled", "within", "discriminant", "diagonal"):
        prepared = prepare(task, loss, Settings(prior=prior))
        assert_allclose(prepared.mean_distance, 1.0, rtol=1e-12)
        distances = prepared.problem.pairs.sums.distances()
        assert_allclose(np.average(distances, weights=task.rows.weights), 1.0, rtol=1e-10)


def test_the_recipe_serves_rows_that_compare_pairs():
    """The share of the pairs scales the prior, whatever the rows of the problem are."""
    from tatml._data.pairs import link_pairs

    task, rng = task_of("vectors"), np.random.default_rng(3)
    linked = link_pairs(None, rng.integers(len(task.blocks), size=(40, 4)))
    share = rng.dirichlet(np.ones(len(linked)))
    compared = Task(task.blocks, linked, task.within, share)
    loss = comparison_hinge(np.ones(40), 1.0, 1.0)
    prepared = prepare(compared, loss, Settings(prior="scaled"))
    distances = prepared.problem.pairs.sums.pairs.distances()
    assert_allclose(share @ distances, 1.0, rtol=1e-10)


def test_only_counted_samples_make_the_covariance():
    task = task_of("vectors")
    array = task.blocks.arrays[0]
    far = Blocks(np.concatenate([array, 1e3 * np.ones((5, *array.shape[1:]))]))
    loss = squared_hinge(task.rows, 1.0, (0.5, 2.0))
    within = within_pairs(far, task.rows)
    more = Task(far, task.rows, within, n_counted=len(task.blocks))
    settings = Settings(prior="covariance")
    expected, found = prepare(task, loss, settings), prepare(more, loss, settings)
    assert_allclose(found.prior.matrices[0], expected.prior.matrices[0], rtol=1e-10)


@pytest.mark.parametrize(("c0", "threshold"), [(None, "joint"), (5.0, "joint"), (None, 0.7)])
def test_each_point_of_a_path_is_the_fit_with_its_weight(c0, threshold):
    task = task_of("vectors")
    settings = Settings(c0=c0, tol=1e-12, threshold=threshold, keeps_spans=True)
    found = dict(path(task, settings, [100.0, 1.0, 10.0]))
    assert list(found) == [1.0, 10.0, 100.0]
    for C, metric in found.items():
        (A,), (B,) = metric.factors, learn(task, replace(settings, C=C)).factors
        assert_allclose(A.T @ A, B.T @ B, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("total", [3.0, 300.0])
def test_strengths_keep_the_balance_of_threshold_and_pairs(total):
    c, c0 = strengths(total, Settings(C=7.0, threshold_strength=0.2))
    assert_allclose((c * total, c0), (7.0, 0.2 * 7.0))  # theory (Rho)
    assert strengths(total, Settings(C=7.0, threshold=0.5))[1] == np.inf
    assert strengths(total, Settings(C=7.0, c0=3.0, reduction="sum")) == (7.0, 3.0)


def test_a_metric_measures_what_it_embeds_far_from_the_origin_too():
    rng = np.random.default_rng(0)
    A, X = rng.normal(size=(3, 3)), rng.normal(size=(20, 3))
    index = np.stack(np.triu_indices(20, 1), axis=1)
    exact = pdist(X @ A.T)
    for shift in (0.0, 1e8):
        blocks = Blocks(X + shift)
        metric = Metric([A], center=means_of(blocks))
        shifted = pdist((X + shift - shift) @ A.T)
        assert_allclose(metric.distances(blocks, index), shifted, rtol=1e-9)
    assert_allclose(Metric([A]).distances(Blocks(X), index, many=True), exact, rtol=1e-12)
    assert_allclose(pdist(Metric([A]).embed(Blocks(X))), exact, rtol=1e-12)


def test_factors_multiply_the_threshold():
    metric = Metric([np.eye(2)]).with_b0(4.0, (0.5, 2.0))
    assert (metric.threshold, metric.threshold_factor) == (2.0, 1.0)
    scaled = metric.with_factor(1.5)
    assert (scaled.threshold, scaled.threshold_factor, scaled.b0) == (3.0, 1.5, 4.0)
    twice = scaled.with_factor(2.0)
    assert (twice.threshold, twice.threshold_factor, twice.b0) == (6.0, 3.0, 4.0)


@pytest.mark.parametrize("options", [{}, {"pairs": "neighbors"}, {"kernel": "rbf"}, {"C": 3.0}])
def test_an_estimator_publishes_the_metric_of_the_function(options):
    from tatml._estimators.parameters import checked

    X, y = labelled("vectors")
    model = TATML(random_state=0, **options).fit(X, y)
    samples = LabelledSamples(Blocks(X), np.unique(y, return_inverse=True)[1], None)
    metric = learn_from_labels(samples, Settings.of(checked(TATML(random_state=0, **options))))
    assert (model.threshold_, model.b0_) == (metric.threshold, metric.b0)
    assert_array_equal(model.pairs_, metric.pairs.index)
    parts = model.components_ if isinstance(model.components_, list) else [model.components_]
    for part, factor in zip(parts, metric.factors, strict=True):
        assert_array_equal(part, factor)
    index = np.random.default_rng(0).integers(len(y), size=(50, 2))
    found = metric.distances(samples.blocks, index)
    assert_allclose(model.pair_distance(index, X), found, rtol=1e-10)


def test_cross_fitting_needs_nothing_but_a_function():
    """Metrics of parts that are too narrow by a factor of 2 are widened by it."""
    X, y = labelled("vectors")
    samples = LabelledSamples(Blocks(X), np.unique(y, return_inverse=True)[1], None)
    parts = hold_out_samples(samples, make_pair_folds(samples.labels, None))
    pairs = task_of("vectors", 600).rows
    factors = []
    for width in (1.0, 2.0):
        whole = Metric([np.eye(X.shape[1])], threshold=1.0, threshold_factor=1.0)

        def fit(part, known, width=width):
            best = learn_threshold(Metric([np.eye(X.shape[1])]), part.known, known, Settings())
            return replace(best, threshold=best.threshold / width)

        factors.append(cross_fit(whole, Judge(parts), pairs, fit)[0].threshold_factor)
    assert_allclose(factors[1] / factors[0], 2.0, rtol=0.05)


def test_pairs_and_labels_give_one_problem():
    """TATML on labels and TATMLPairs on its pairs learn the same metric from a given prior."""
    X, y = labelled("vectors")
    options = {"prior": np.eye(X.shape[1]), "random_state": 0, "clip_outliers": False, **EXACT}
    model = TATML(**options).fit(X, y)
    signs = np.where(model.similar_, 1, -1)
    given = TATMLPairs(preprocessor=X, class_weight=None, **options)
    given.fit(model.pairs_, signs, sample_weight=model.pair_weights_)
    assert_allclose(given.b0_, model.b0_, rtol=1e-6)
    W = [m.get_mahalanobis_matrix() for m in (given, model)]
    assert_allclose(W[0], W[1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("reduction", "thins"), [("mean", True), ("sum", False)])
def test_parts_take_some_pairs_where_many_remain_and_all_for_sums(reduction, thins, monkeypatch):
    X, y = labelled("vectors")
    samples = LabelledSamples(Blocks(X), np.unique(y, return_inverse=True)[1], None)
    parts = hold_out_samples(samples, make_pair_folds(samples.labels, None))
    pairs, seen = task_of("vectors", 4000).rows, []

    def fit(part, known):
        seen.append(len(known))
        return Metric([np.eye(X.shape[1])], threshold=1.0)

    metric = Metric([np.eye(X.shape[1])], threshold=1.0, threshold_factor=1.0)
    cross_fit(metric, Judge(parts), pairs, fit, thins=thins)
    inside = [len(part.select_known(pairs)) for part in parts[: len(seen)]]
    assert seen
    for count, all_of in zip(seen, inside, strict=True):
        assert (count == all_of) != thins
        assert count >= min(all_of, 300)
    asked = []
    monkeypatch.setattr(
        "tatml._learning.learn.cross_fit",
        lambda metric, *_, thins: (asked.append(thins), (metric, []))[1],
    )
    TATML(reduction=reduction, C=100.0, random_state=0).fit(X, y)
    assert asked == [thins]


def test_a_threshold_with_exactly_95_percent_of_both_kinds_on_one_side_is_one_sided():
    similar = np.arange(40) % 2 == 0
    for few in (1, 2):  # of the 20 pairs of each kind on the other side
        far = np.where(np.arange(40) < 2 * few, 2.0, 0.5)
        assert is_one_sided(far, similar, 1.0) == (few == 1)
        assert is_one_sided(2.5 - far, similar, 1.0) == (few == 1)


# The metric of an estimator


@pytest.mark.parametrize(
    "model",
    [
        TATML(random_state=0),
        TATML(kernel="rbf", prior="within", random_state=0),
        TATML(pairs="neighbors", random_state=0),
        TATML(threshold=1.5, random_state=0),
        TATMLNeighbors(random_state=0),
        ITML(random_state=0),
        GMML(random_state=0),
        Euclidean(random_state=0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
def test_the_metric_of_an_estimator_is_what_was_published(model, kind):
    X, y = labelled(kind)
    model = clone(model).fit(X, y)
    published = dict(vars(model))
    model._publish(model._metric)
    assert vars(model).keys() == published.keys()
    for name, value in published.items():
        found = vars(model)[name]
        same = found is value or (type(found) is list and all(map(operator.is_, found, value)))
        assert same or found == value, name


def test_a_metric_maps_the_samples_itself():
    X, y = labelled("vectors")
    model = TATML(kernel="rbf", random_state=0).fit(X, y)
    metric, index = model._metric, np.array([[0, 1], [2, 5]])
    assert_array_equal(metric.embed(Blocks(X)), model.transform(X))
    assert_array_equal(metric.distances(Blocks(X), index), model.pair_distance(index, X))
    parts = metric.block_distances(Blocks(X), index)
    assert parts.shape == (2, 2)  # the features, and their images
    assert_allclose(np.sqrt(parts.sum(axis=0)), model.pair_distance(index, X))
