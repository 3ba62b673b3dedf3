"""TATMLCV: its scores are those of a grid search, and its final fit is that of TATML."""

import pickle
import warnings
from copy import copy
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from estimators_helpers import JOINT, as_list, labelled, refused, search_over, split_scores
from joblib import parallel_backend
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from tatml import TATML, TATMLCV, Euclidean, Newton
from tatml._data.sampling import draw_pairs
from tatml._estimators import tatml_cv
from tatml._estimators.fitted_state import check_fitted_state
from tatml._learning import path
from tatml._learning.path import PathSettings
from tatml.features import KernelMap
from tatml.inspection import threshold_interval
from tatml.io import load_model, save_model

FEW = {"n_pairs_per_class": 40, "random_state": 0}
GRID = [1000.0, 3.0, 30.0]  # not sorted
FOLDS = StratifiedKFold(3, shuffle=True, random_state=1)


class PreciseCV(TATMLCV):
    """Solves the path for all pairs, and as precisely as a single fit."""

    _accuracy = PathSettings(tol=0.0, max_step=1)


def noisy(kind="vectors", seed=0):
    """Return samples whose classes overlap, so that scores differ."""
    X, y = labelled(kind, n_samples=75, seed=seed)
    rng = np.random.default_rng(seed)
    return X, np.where(rng.random(75) < 0.25, rng.integers(3, size=75), y)


# The scores are those of a grid search


@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
def test_the_scores_are_those_of_a_grid_search(kind):
    X, y = noisy(kind)
    options = JOINT | FEW | {"tol": 1e-9, "prior": "auto"}
    own = {"cv": FOLDS, "k": 5, "scoring": "accuracy"}
    model = PreciseCV(TATML(**options), {"C": GRID}, **own).fit(X, y)
    pipeline = make_pipeline(TATML(**options), KNeighborsClassifier(5))
    grid = GridSearchCV(pipeline, {"tatml__C": GRID}, cv=FOLDS).fit(X, y)
    split = np.stack([grid.cv_results_[f"split{fold}_test_score"] for fold in range(3)], axis=1)
    assert len(np.unique(split)) > 2
    assert_allclose(split_scores(model), split)
    assert_allclose(model.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"])
    assert_allclose(model.cv_results_["std_test_score"], grid.cv_results_["std_test_score"])
    assert grid.best_params_["tatml__C"] == model.C_
    assert model.best_score_ == pytest.approx(grid.best_score_)
    assert_array_equal(model.transform(X), grid.best_estimator_[0].transform(X))


SEARCHES = {
    "strengths": ({"threshold_strength": [2.0, 0.1]}, {"prior": "within", "reduction": "sum"}),
    "priors": ({"prior": ["identity", np.diag([1.0, 2, 3, 4])]}, {"threshold_strength": 0.3}),
    "pairs": ({"prior": ["auto", "within"], "pairs": ["neighbors", "all"]}, {}),
    "a fixed threshold": ({}, {"threshold": 0.8, "margin": (0.7, 1.5)}),
    "a fixed strength": ({"n_components": [2, None]}, {"c0": 3.0}),
    "margins": ({"margin": [(0.7, 1.5), (0.2, 3.0)], "reduction": ["mean", "sum"]}, {}),
    "solvers": ({"solver": [Newton(linear_solver="dense"), Newton(linear_solver="cg")]}, {}),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_every_setting_is_scored_as_if_it_were_alone(name):
    X, y = noisy()
    others, changes = SEARCHES[name]
    options = JOINT | FEW | {"tol": 1e-9} | changes
    own = {"cv": FOLDS, "scoring": "accuracy"}
    model = PreciseCV(TATML(**options), {"C": GRID[:2]} | others, **own).fit(X, y)
    results, splits = model.cv_results_, split_scores(model)
    wanted = [
        {"C": C} | dict(zip(others, values, strict=True))
        for values in product(*others.values())
        for C in GRID[:2]
    ]
    assert repr(results["params"]) == repr(wanted)  # C innermost, so that ties are decided by it
    assert len(np.unique(splits, axis=0)) > 1
    for params, scores in zip(results["params"], splits, strict=True):
        alone = make_pipeline(TATML(**options | params), KNeighborsClassifier(3))
        assert_allclose(scores, cross_val_score(alone, X, y, cv=FOLDS))


@pytest.mark.parametrize(("kind", "pairs"), [("vectors", "all"), ("two blocks", "random")])
def test_the_area_is_that_of_the_held_out_pairs(kind, pairs):
    X, y = noisy(kind)
    options = JOINT | FEW | {"pairs": pairs, "tol": 1e-9, "prior": "auto"}
    model = PreciseCV(TATML(**options), {"C": GRID}, cv=FOLDS, scoring="auc").fit(X, y)
    areas = np.empty((3, 3))
    for fold, (train, test) in enumerate(FOLDS.split(y, y)):
        drawn = Euclidean(pairs=pairs, **FEW).fit(X[test], y[test])
        for row, C in enumerate(GRID):
            metric = TATML(C, **options).fit(X[train], y[train])
            scores = metric.pair_score(drawn.pairs_, X[test])
            areas[row, fold] = roc_auc_score(drawn.similar_, scores)
    assert_allclose(split_scores(model), areas, atol=1e-4)
    assert np.ptp(areas.mean(axis=1)) > 1e-3
    assert GRID[np.argmax(areas.mean(axis=1))] == model.C_


def test_the_choice_of_the_loose_path_is_as_good():
    X, y = noisy()
    given = TATML(pairs="all"), {"C": np.logspace(0, 4, 9)}
    loose = TATMLCV(*given, cv=FOLDS).fit(X, y).cv_results_["mean_test_score"]
    exact = PreciseCV(*given, cv=FOLDS).fit(X, y).cv_results_["mean_test_score"]
    assert not np.array_equal(loose, exact)
    assert_allclose(loose, exact, atol=0.02)
    assert exact[np.argmax(loose)] > exact.max() - 0.01


def test_a_path_takes_a_part_of_many_pairs(monkeypatch):
    """At most every fourth, and at least 1,000; neighbours and sums take all."""
    solve, counts = Newton.solve, set()

    def spy(solver, problem, *, tol, **options):
        if tol == 1e-2:
            counts.add(problem.pairs.sums.n_pairs)
        return solve(solver, problem, tol=tol, **options)

    monkeypatch.setattr(Newton, "solve", spy)
    for n_samples, share, options in (
        (60, 1, {}),
        (150, 2, {}),
        (210, 4, {}),
        (150, 1, {"reduction": "sum"}),
    ):
        counts.clear()
        X, y = labelled(n_samples=n_samples)
        model = search_over({"C": [10.0]}, cv=2, pairs="all", **options).fit(X, y)
        half = n_samples // 2
        assert counts
        for count in counts:
            assert abs(count - half * (half - 1) / 2 / share) <= 1, n_samples
            assert count >= 1000 or share == 1
        assert len(model.pairs_) == n_samples * (n_samples - 1) / 2


def test_a_path_takes_all_pairs_of_neighbours(monkeypatch):
    class ThinCV(TATMLCV):
        _accuracy = PathSettings(min_pairs=10)

    solve, counts = Newton.solve, []

    def spy(solver, problem, **options):
        counts.append(problem.pairs.sums.n_pairs)
        return solve(solver, problem, **options)

    monkeypatch.setattr(Newton, "solve", spy)
    drawn = spied_pairs(monkeypatch)
    X, y = labelled()
    for pairs, thinned in (("neighbors", False), ("random", True)):
        counts.clear()
        drawn.clear()
        metric = TATML(pairs=pairs, prior="auto", **FEW)
        ThinCV(metric, {"C": [10.0]}, cv=2, scoring="accuracy").fit(X, y)
        for count, (listed, _) in zip(counts[:2], drawn[:2], strict=True):
            assert abs(count - len(listed) / (4 if thinned else 1)) <= 1, pairs


def test_the_neighbours_are_those_of_scikit_learn_in_chunks_too():
    rng = np.random.default_rng(0)
    known, wanted, y = rng.normal(size=(500, 3)), rng.normal(size=(23, 3)), np.arange(500) % 3
    for k in (1, 4):
        expected = KNeighborsClassifier(k).fit(known, y).predict(wanted)
        for chunk_rows in (1, 10, 1000):
            found = path.predict_knn(known, y, wanted, k, chunk_rows)
            assert_array_equal(found, expected, err_msg=f"{k} {chunk_rows}")


def test_the_results_have_the_form_of_scikit_learn():
    X, y = noisy()
    grids = [
        {"C": GRID, "n_components": [2, None]},
        {"C": [1], "kernel": [None, "rbf", KernelMap()], "margin": [(0.5, 2.0)]},
        {"prior": [np.eye(4), "auto"]},
    ]
    model = search_over(grids, C=7, cv=3, scoring="accuracy", **FEW).fit(X, y)
    tried = [{name: [value] for name, value in p.items()} for p in model.cv_results_["params"]]
    each = iter(split_scores(model).ravel())
    grid = GridSearchCV(Unfitted(), tried, scoring=lambda *_: next(each), cv=3, refit=False)
    grid.fit(X, y)
    expected = {name: v for name, v in grid.cv_results_.items() if "time" not in name}
    assert model.cv_results_.keys() == expected.keys()
    for name in expected:
        found = model.cv_results_[name]
        assert type(found) is type(expected[name]), name
        if name.startswith("param_"):
            assert found.dtype == expected[name].dtype, name
            assert repr([*found]) == repr([*expected[name]])
    assert model.cv_results_["rank_test_score"].dtype == np.int32
    assert_array_equal(model.cv_results_["rank_test_score"], expected["rank_test_score"])
    assert len(set(expected["rank_test_score"])) < len(tried)  # there are ties
    assert (model.best_index_, model.n_splits_) == (grid.best_index_, grid.n_splits_)
    table = pd.DataFrame(model.cv_results_)
    assert len(table) == len(tried)
    assert table["mean_test_score"].max() == model.best_score_
    assert table["params"][model.best_index_] == model.best_params_


class Unfitted(TATML):
    """For a search of scikit-learn that only calls its scorer."""

    def fit(self, X, y):
        return self


# The choice, and the final fit


def test_the_best_setting_is_fitted_to_all_samples():
    X, y = noisy("two blocks")
    options = FEW | {"tol": 1e-8}
    grid = {"C": GRID, "prior": ["scaled", "within"]}
    model = search_over(grid, cv=3, **options).fit(X, y)
    scores = model.cv_results_["mean_test_score"]
    assert model.best_score_ == max(scores)
    assert model.cv_results_["params"][int(np.argmax(scores))] == model.best_params_
    assert model.best_params_["C"] == model.C_
    plain = TATML(**options | model.best_params_).fit(X, y)
    assert_array_equal(model.transform(X), plain.transform(X))
    assert_array_equal(model.pairs_, plain.pairs_)
    for got, expected in zip(as_list(model.prior_), as_list(plain.prior_), strict=True):
        assert_array_equal(got, expected)
    fitted = {name for name in vars(plain) if name.endswith("_")}
    chosen = {"C_", "best_index_", "best_params_", "best_score_", "cv_results_", "n_splits_"}
    assert {name for name in vars(model) if name.endswith("_")} == fitted | chosen
    assert (model.threshold_, model.b0_) == (plain.threshold_, plain.b0_)
    assert model.n_iter_ == plain.n_iter_
    assert model.result_.tol == 1e-8


def test_the_best_estimator_is_a_tatml_that_shares_what_was_fitted():
    X, y = noisy("two blocks")
    model = search_over({"C": GRID, "prior": ["scaled"]}, cv=2, **FEW).set_params(random_state=3)
    assert not hasattr(model, "best_estimator_")
    best = model.fit(X, y).set_threshold(0.7).best_estimator_
    assert type(best) is TATML
    assert best.get_params() == TATML(**FEW | model.best_params_ | {"random_state": 3}).get_params()
    assert best.components_ is model.components_
    assert (best.threshold_, best.n_features_in_) == (0.7, model.n_features_in_)
    assert not hasattr(best, "cv_results_")
    assert_array_equal(best.transform(X), model.transform(X))
    check_fitted_state(best)
    again = clone(best).fit(X, y)
    assert vars(again).keys() == vars(best).keys()
    assert_array_equal(again.components_[1], model.components_[1])


def test_the_default_estimator_is_not_built_again(monkeypatch):
    X, y = labelled()
    model, built = TATMLCV(param_grid={"C": [1.0]}, cv=2), []
    monkeypatch.setattr(TATML, "__init__", lambda self: built.append(self))
    model.fit(X, y).transform(X)
    model.predict_pairs([[0, 1]], X)
    assert built == []


def test_a_search_finds_classes_of_several_modes():
    """The means of the classes are equal, so that "discriminant" weights noise."""
    rng = np.random.default_rng(0)
    y = np.arange(320) % 2
    X = rng.normal(size=(320, 6))
    side = rng.choice([-3.0, 3.0], size=320)
    X[:, 0] += np.where(y == 0, side, 0)
    X[:, 1] += np.where(y == 1, side, 0)
    known, labels = X[:120], y[:120]
    search, plain = TATMLCV(random_state=0), TATML(random_state=0)
    areas = []
    for model in (search.fit(known, labels), plain.fit(known, labels)):
        drawn = Euclidean(pairs="all").fit(X[120:], y[120:])
        scores = model.pair_score(drawn.pairs_, X[120:])
        areas.append(roc_auc_score(drawn.similar_, scores))
    assert search.best_params_["prior"] in ("auto", "scaled")
    assert areas[0] > areas[1]
    tried = {(params["prior"], params["C"]) for params in search.cv_results_["params"]}
    assert tried == set(product(("discriminant", "auto", "scaled"), (10.0, 100.0, 1000.0)))


def test_several_jobs_give_the_same(monkeypatch):
    """With threads, and with jobs that are pickled as for another process."""
    X, y = noisy("two blocks")
    model = search_over({"C": [10.0, 100.0], "threshold_strength": [0.1, 1.0]}, cv=3, **FEW)
    one = clone(model).fit(X, y)
    with parallel_backend("threading"):
        two = clone(model).set_params(n_jobs=2).fit(X, y)
    score_path = path.score_path

    def elsewhere(*arguments):
        return score_path(*pickle.loads(pickle.dumps(arguments)))

    monkeypatch.setattr(tatml_cv, "score_path", elsewhere)
    for other in (two, clone(model).fit(X, y)):
        assert other.cv_results_["params"] == one.cv_results_["params"]
        scores = split_scores(other)
        assert_array_equal(scores, split_scores(one))
        assert_array_equal(other.transform(X), one.transform(X))


def test_the_settings_of_a_fold_are_compared_on_the_same_pairs(monkeypatch):
    """Whatever the seed: otherwise the draw could decide, and not the setting."""
    X, y = noisy()
    for seed in (0, np.random.RandomState(0), None):
        drawn = spied_pairs(monkeypatch)
        grid = {"C": [10.0], "threshold_strength": [0.1, 1.0], "prior": ["auto", "within"]}
        TATMLCV(TATML(n_pairs_per_class=20), grid, cv=FOLDS, random_state=seed).fit(X, y)
        in_folds = {pairs.index.tobytes() for pairs, _ in drawn[:-1]}
        assert len(drawn) == 4 * 3 * 2 + 1  # to learn from, and to be scored on
        assert len(in_folds) == 3 * 2


def spied_pairs(monkeypatch):
    """Return a list that collects the pairs and the samples of every draw."""
    drawn = []

    def spy(strategy, blocks, *arguments, **options):
        pairs = draw_pairs(strategy, blocks, *arguments, **options)
        drawn.append((pairs, blocks))
        return pairs

    monkeypatch.setattr("tatml._learning.labelled.draw_pairs", spy)
    return drawn


def test_the_area_is_that_of_random_pairs_for_every_strategy():
    """Otherwise neighbours, which are hard to separate, would be scored on neighbours."""
    X, y = noisy()
    grid = {"C": [10.0], "pairs": ["random", "neighbors"]}
    model = PreciseCV(TATML(**FEW), grid, cv=FOLDS, scoring="auc").fit(X, y)
    for fold, (train, test) in enumerate(FOLDS.split(y, y)):
        drawn = Euclidean(**FEW).fit(X[test], y[test])
        for row, pairs in enumerate(("random", "neighbors")):
            metric = TATML(10.0, pairs=pairs, **FEW).fit(X[train], y[train])
            area = roc_auc_score(drawn.similar_, metric.pair_score(drawn.pairs_, X[test]))
            assert_allclose(split_scores(model)[row, fold], area, atol=1e-3)


def test_the_path_takes_fewer_steps_than_cold_starts(monkeypatch):
    X, y = noisy("two blocks")
    solve, steps = Newton.solve, {"warm": 0, "cold": 0}

    def run(name):
        def counted(solver, problem, *, init, **options):
            result = solve(solver, problem, init=init if name == "warm" else None, **options)
            steps[name] += result.n_iter
            return result

        monkeypatch.setattr(Newton, "solve", counted)
        grid = {"C": np.logspace(1, 5, 7)}
        return search_over(grid, cv=FOLDS, prior="auto", **FEW).fit(X, y)

    assert_allclose(
        run("warm").cv_results_["mean_test_score"],
        run("cold").cv_results_["mean_test_score"],
        atol=0.05,
    )
    assert 21 <= steps["warm"] < 0.7 * steps["cold"]


@pytest.mark.parametrize("scoring", ["accuracy", "auc"])
def test_the_scores_do_not_depend_on_the_origin(scoring):
    """The numbers are exact in binary, so that their differences are exact everywhere."""
    X, y = noisy()
    X = np.round(X * 2**15) / 2**15
    near, far = (
        TATMLCV(TATML(**FEW), scoring=scoring, cv=FOLDS).fit(Z, y) for Z in (X, X + 2.0**31)
    )
    assert_allclose(split_scores(far), split_scores(near), atol=1e-6)
    assert far.C_ == near.C_


def test_few_pairs_are_enough():
    """Pairs of both kinds remain in the path."""
    X, _ = labelled(n_samples=6)
    y = np.array([0, 0, 0, 0, 1, 1])
    for seed in range(6):
        few = {"n_pairs_per_class": 2, "random_state": seed}
        model = search_over({"C": [10.0]}, cv=2, k=1, **few).fit(X, y)
        assert 0 <= model.best_score_ <= 1


# Groups


@pytest.mark.parametrize(("cv", "scoring"), [(3, "auc"), (GroupKFold(3), "accuracy")])
def test_a_group_is_on_one_side_of_a_split_and_in_no_pair(cv, scoring, monkeypatch):
    X, y = noisy()
    number = np.arange(75) // 5
    groups = np.array([f"object {i}" for i in number])
    drawn = spied_pairs(monkeypatch)
    options = FEW | {"prior": "auto", "clip_outliers": False}
    model = search_over({"C": [10.0, 100.0]}, cv=cv, scoring=scoring, **options)
    model.fit(X, y, groups=groups)
    *in_folds, last = drawn
    assert len(in_folds) == 3 * (2 if scoring == "auc" else 1)
    rows_of = {row.tobytes(): i for i, row in enumerate(X)}
    for pairs, blocks in in_folds:
        rows = np.array([rows_of[row.tobytes()] for row in blocks.arrays[0][:, :, 0]])
        assert len(rows) < 60
        assert set(np.bincount(number[rows])) <= {0, 5}  # whole groups
        first, second = rows[pairs.index].T
        assert np.all(number[first] != number[second])
    assert np.all(groups[model.pairs_[:, 0]] != groups[model.pairs_[:, 1]])
    assert_array_equal(last[0].index, model.pairs_)


# The estimator and its grid


def tried(model, *names):
    """Return the values that were tried, without repetition, and in their order."""
    found = [tuple(params.get(name) for name in names) for params in model.cv_results_["params"]]
    assert len(set(found)) == len(found)
    return found


def test_there_are_few_parameters():
    names = ["cv", "estimator", "k", "n_jobs", "param_grid", "random_state", "scoring"]
    assert sorted(TATMLCV().get_params()) == names
    assert len(names) <= 14


def test_the_default_grid_has_priors_unless_the_estimator_has_a_kernel_or_another_prior():
    X, y = labelled()
    Cs = [10.0, 100.0, 1000.0]
    priors = ["discriminant", "auto", "scaled"]
    for estimator in (None, TATML(), TATML(C=3.0, **FEW)):
        model = TATMLCV(estimator, cv=2).fit(X, y)
        assert tried(model, "prior", "C") == list(product(priors, Cs))
    for given in ({"kernel": "rbf"}, {"prior": "within"}, {"prior": np.eye(4)}):
        model = search_over(cv=2, **FEW | given).fit(X, y)
        assert model.cv_results_["params"] == [{"C": C} for C in Cs]
        assert (model.kernel_map_ is not None) == ("kernel" in given)
        expected = TATML(C=model.C_, **FEW | given).fit(X, y)
        assert_array_equal(model.transform(X), expected.transform(X))


def test_a_list_of_grids_is_tried_one_after_another():
    X, y = noisy()
    kernels = [KernelMap(gamma_factor=factor) for factor in (0.3, 3.0)]
    grids = [
        {"C": [10.0, 1.0], "prior": ["auto", "scaled"]},
        {"kernel": kernels, "C": (5.0,)},
        {"pairs": ["all"]},
    ]
    model = search_over(grids, C=7.0, cv=2, scoring="accuracy", **FEW).fit(X, y)
    assert model.cv_results_["params"] == [
        {"C": 10.0, "prior": "auto"},
        {"C": 1.0, "prior": "auto"},
        {"C": 10.0, "prior": "scaled"},
        {"C": 1.0, "prior": "scaled"},
        {"C": 5.0, "kernel": kernels[0]},
        {"C": 5.0, "kernel": kernels[1]},
        {"C": 7.0, "pairs": "all"},
    ]
    assert split_scores(model).shape == (7, 2)
    for grid, rows in zip(grids, ([0, 1, 2, 3], [4, 5], [6]), strict=True):
        alone = clone(model).set_params(param_grid=grid).fit(X, y)
        scores = split_scores(model)[rows]
        assert_array_equal(split_scores(alone), scores)


def test_the_first_of_the_best_is_chosen():
    X, y = labelled()
    X = X + 100 * y[:, None]  # every setting is perfect
    grid = {"prior": ["within", "auto"], "C": [100.0, 10.0]}
    model = search_over(grid, cv=2, scoring="accuracy", **FEW).fit(X, y)
    assert list(model.cv_results_["mean_test_score"]) == [1.0] * 4
    assert model.best_params_ == {"C": 100.0, "prior": "within"}


def test_best_params_are_the_values_of_the_user():
    X, y = noisy()
    kernel, prior, solver = KernelMap(n_landmarks=20), np.eye(4), Newton(max_iter=500)
    for name, value in (("kernel", kernel), ("prior", prior), ("solver", solver)):
        model = search_over({"C": [10], name: [value]}, cv=2, **FEW).fit(X, y)
        assert model.best_params_[name] is value
        assert (model.best_params_["C"], model.C_) == (10, 10)
    assert not hasattr(kernel, "maps_")
    named = search_over({"kernel": ["rbf"]}, cv=2, **FEW).fit(X, y)
    assert named.best_params_["kernel"] == "rbf"


def test_the_estimator_and_the_grid_are_as_they_were():
    X, y = noisy()
    metric, kernel = TATML(solver=Newton(max_iter=300), **FEW), KernelMap()
    grid = [{"C": [10.0], "kernel": [None, kernel]}, {"prior": [np.eye(4)]}]
    before, values = dict(vars(metric)), repr(grid)
    search = TATMLCV(metric, grid, cv=2)
    search.fit(X, y)
    assert search.estimator is metric
    assert search.param_grid is grid
    assert repr(grid) == values
    assert vars(metric).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(metric).items())
    assert metric.get_params() == TATML(solver=before["solver"], **FEW).get_params()


def test_a_fitted_estimator_stays_fitted_and_does_not_count():
    X, y = noisy()
    metric = TATML(warm_start=True, **FEW).fit(X, y)
    before = dict(vars(metric))
    found = TATMLCV(metric, {"C": [10.0]}, cv=2).fit(X, y)
    assert all(value is before[name] for name, value in vars(metric).items())
    cold = search_over({"C": [10.0]}, cv=2, **FEW).fit(X, y)
    assert_array_equal(found.components_, cold.components_)
    again = found.fit(X, y)  # and neither does an earlier fit of the search
    assert_array_equal(again.components_, cold.components_)
    assert again.n_iter_ == cold.n_iter_


def test_the_parameters_of_the_estimator_hold_where_the_grid_is_silent():
    X, y = noisy("two blocks")
    given = {"prior": "within", "margin": (0.6, 1.6), "n_components": 2, "pairs": "neighbors"}
    given |= {"threshold": "joint", "clip_outliers": False, "tol": 1e-8, "n_neighbors": 2} | FEW
    model = TATMLCV(TATML(C=3.0, **given), {"threshold_strength": [0.5]}, cv=2).fit(X, y)
    assert model.best_params_ == {"C": 3.0, "threshold_strength": 0.5}
    expected = TATML(C=3.0, threshold_strength=0.5, **given).fit(X, y)
    assert_array_equal(model.transform(X), expected.transform(X))
    assert (model.threshold_, model.b0_) == (expected.threshold_, expected.b0_)
    assert model.result_.tol == 1e-8


def test_without_a_seed_that_of_the_estimator_counts():
    X, y = noisy()
    few, grid = {"n_pairs_per_class": 10}, {"C": [1.0, 10.0]}
    inner = TATMLCV(TATML(random_state=3, **few), grid, cv=2).fit(X, y)
    outer = TATMLCV(TATML(**few), grid, cv=2, random_state=3).fit(X, y)
    both = TATMLCV(TATML(random_state=5, **few), grid, cv=2, random_state=3).fit(X, y)
    other = TATMLCV(TATML(random_state=5, **few), grid, cv=2).fit(X, y)
    for model in (inner, both):
        assert_array_equal(model.pairs_, outer.pairs_)
        assert_array_equal(split_scores(model), split_scores(outer))
    assert not np.array_equal(other.pairs_, outer.pairs_)


def test_the_chosen_margin_and_threshold_are_those_of_later_calls():
    X, y = noisy()
    pairs, same = np.stack([np.arange(70), np.arange(5, 75)], 1), np.where(y[:70] == y[5:], 1, -1)
    grid = {"margin": [(0.9, 1.6)], "threshold": [0.7]}
    model = search_over(grid, cv=2, **FEW).fit(X, y)
    plain = TATML(margin=(0.9, 1.6), threshold=0.7, **FEW).fit(X, y)
    assert (model.margin, model.threshold, model.threshold_) == ((0.9, 1.6), 0.7, 0.7)
    for each in (model, plain):
        each.set_threshold(1.3).calibrate_threshold(pairs, same, X=X, strategy="accuracy")
    assert (model.b0_, model.threshold_) == (plain.b0_, plain.threshold_)
    with pytest.raises(ValueError, match="whose threshold was learnt in fit"):
        threshold_interval(search_over({"C": [1.0]}, cv=2, threshold=0.7).fit(X, y), X, y)


@pytest.mark.parametrize("grid", [None, [{"C": [1, 10]}, {"kernel": ["rbf", KernelMap()]}]])
def test_a_saved_search_is_loaded(grid, tmp_path):
    pytest.importorskip("skops")
    X, y = noisy()
    model = TATMLCV(TATML(preprocessor=X, **FEW), grid, cv=2, scoring="accuracy").fit(
        np.arange(len(X)), y
    )
    loaded = load_model(save_model(model, tmp_path / "model.skops")).estimator
    assert_array_equal(loaded.transform(X), model.transform(X))
    assert (loaded.threshold_, loaded.C_) == (model.threshold_, model.C_)
    assert repr(loaded.best_params_) == repr(model.best_params_)
    assert repr(loaded.param_grid) == repr(model.param_grid)
    assert loaded.estimator.preprocessor is None
    assert model.estimator.preprocessor is X
    assert loaded.cv_results_.keys() == model.cv_results_.keys()
    for name, values in model.cv_results_.items():
        assert repr(loaded.cv_results_[name]) == repr(values)
    again = loaded.fit(X, y)
    assert_array_equal(again.transform(X), model.transform(X))


def test_a_saved_search_has_all_results_but_no_samples(tmp_path):
    pytest.importorskip("skops")
    X, y = noisy()
    kernel = KernelMap().fit(X)
    grids = [{"prior": [np.eye(4), 2 * np.eye(4)]}, {"kernel": [kernel]}, {"prior": [np.eye(3)]}]
    with pytest.warns(FitFailedWarning):
        model = search_over(grids, cv=2, **FEW).fit(X, y)
    loaded = load_model(save_model(model, tmp_path / "model.skops")).estimator
    for name, values in model.cv_results_.items():
        assert repr([*loaded.cv_results_[name]]) == repr([*values])
    assert model.cv_results_["param_kernel"][2] is kernel
    assert not hasattr(loaded.cv_results_["param_kernel"][2], "maps_")


def test_kernel_values_are_searched_over():
    X, y = noisy()
    centred = X - X.mean(axis=0)
    K, grid = centred @ centred.T, {"C": [1.0, 100.0], "prior": ["discriminant", "scaled"]}
    model = search_over(grid, kernel="precomputed", cv=3, scoring="accuracy", **FEW).fit(K, y)
    linear = KernelMap("linear", keep_features=False, units="common")
    plain = search_over(grid, kernel=linear, cv=3, scoring="accuracy", **FEW).fit(X, y)
    assert model.best_score_ == pytest.approx(plain.best_score_, abs=0.1)
    assert model.__sklearn_tags__().input_tags.pairwise


# In scikit-learn


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")  # few samples
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn, NaN in y
def test_the_checks_of_scikit_learn():
    model = search_over({"C": [9.0]}, cv=2)
    results = check_estimator(model, on_fail=None, on_skip=None)
    assert sum(result["status"] == "passed" for result in results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_it_is_cloned_pickled_and_searched_over():
    X, y = noisy()
    model = search_over({"C": [10.0, 100.0], "prior": ["within"]}, k=7, cv=3, **FEW)
    assert repr(clone(model).get_params()) == repr(model.get_params())
    assert clone(model).estimator is not model.estimator
    fitted = model.fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.best_params_ == fitted.best_params_
    search = GridSearchCV(
        make_pipeline(model, KNeighborsClassifier(3)),
        [{"tatmlcv__k": [1]}, {"tatmlcv__estimator__pairs": ["neighbors"]}],
        cv=2,
    ).fit(X, y)
    assert np.all(search.cv_results_["mean_test_score"] > 0.4)
    assert search.best_estimator_[0].C_ in (10.0, 100.0)


def test_names_of_a_table_go_in_and_out():
    X, y = labelled()
    table = pd.DataFrame(X, columns=["length", "width", "weight", "age"])
    model = search_over({"C": [10.0, 100.0]}, cv=2, **FEW)
    model.set_output(transform="pandas").fit(table, y)
    assert list(model.feature_names_in_) == ["length", "width", "weight", "age"]
    names = [f"tatmlcv{i}" for i in range(4)]
    assert list(model.get_feature_names_out()) == names
    assert list(model.transform(table).columns) == names
    plain = clone(model).fit(X, y)
    assert_array_equal(model.transform(table), plain.transform(X))


def test_a_preprocessor_finds_the_samples():
    X, y = noisy("two blocks")
    rows = np.arange(5, 70)
    plain = search_over({"C": [10.0, 100.0]}, cv=3, **FEW).fit(X[rows], y[rows])
    by_index = clone(plain).set_params(estimator__preprocessor=X).fit(rows, y[rows])
    assert_array_equal(by_index.transform(rows), plain.transform(X[rows]))
    assert by_index.best_params_ == plain.best_params_


def test_the_final_fit_says_that_it_has_not_converged():
    X, y = labelled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = search_over({"C": [100.0]}, cv=2, solver=Newton(max_iter=1), **FEW).fit(X, y)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert caught[0].filename == __file__
    assert not model.result_.converged


def test_a_kernel_may_have_more_components_than_the_samples_have_features():
    X, y = labelled()
    options = FEW | {"kernel": KernelMap(keep_features=False), "n_components": X.shape[1] + 3}
    model = search_over({"C": [1.0, 10.0]}, cv=2, **options)
    assert model.fit(X, y).transform(X).shape == (len(X), X.shape[1] + 3)


# Errors


WRONG = {
    "C": [10.0, "many", None, [], [0.0], [1.0, -2.0], [np.nan], ["a"], [[1.0]], [True]],
    "threshold_strength": [[], 0.5, "ab", [0.0], [-1.0, 1.0], [None]],
    "prior": [[], "auto", ["wishful"], 3],
    "pairs": [[], "random", ["wishful"], 3],
    "kernel": ["rbf", ["wishful"], [KernelMap(degree=0)], [KernelMap], [None, "precomputed"]],
    "threshold": [["automatic"], [0], [None]],
    "tol": [[0], ["small"]],
    "solver": [["gradient"], [Newton]],
    "n_components": [[0]],
    "n_pairs_per_class": [[1], range(3)],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_of_the_grid_is_named(name):
    X, y = labelled()
    for values in WRONG[name]:
        for grid in ({name: values}, [{"C": [1.0]}, {"C": [1.0], name: values}]):
            words = rf"^param_grid: .*\b{name}\b"
            refused(TATMLCV(TATML(**FEW), grid, cv=2), X, y, words)
            refused(copy(once_fitted()).set_params(param_grid=grid), X, y, words)


# These are known to be wrong with the samples only.
UNSUITED = [("prior", [3]), ("prior", np.eye(3)), ("n_components", 5), ("n_components", [1, 1])]


@pytest.mark.parametrize(("name", "value"), UNSUITED)
def test_a_setting_that_cannot_be_fitted_scores_nan(name, value):
    X, y = labelled()
    good = search_over({"C": GRID}, cv=2, **FEW).fit(X, y)
    model = clone(good).set_params(param_grid=[{name: [value], "C": [1.0]}, {"C": GRID}])
    words = rf"param_grid: 1 of 4 settings score NaN, .* error is: {name}: expected"
    with pytest.warns(FitFailedWarning, match=words) as caught:
        model.fit(X, y)
    assert (len(caught), caught[0].filename) == (1, __file__)
    assert np.isnan(model.cv_results_["mean_test_score"][0])
    assert_array_equal(split_scores(model)[1:], split_scores(good))
    assert model.cv_results_["rank_test_score"][0] == 4
    assert (model.best_index_, model.best_params_) == (good.best_index_ + 1, good.best_params_)
    assert_array_equal(model.components_, good.components_)


@pytest.mark.parametrize(("name", "value"), UNSUITED)
def test_settings_that_can_none_be_fitted_are_refused(name, value):
    X, y = labelled()
    for model in (search_over(cv=2, **FEW), copy(once_fitted())):
        refused(model.set_params(param_grid={name: [value]}), X, y, rf"^{name}: expected")


def test_settings_that_each_fail_in_some_fold_are_refused(monkeypatch):
    X, y = labelled()
    score_path, failing = tatml_cv.score_path, iter([True, False, False, True])

    def fails(*given):
        if next(failing):
            raise ValueError("y: expected other labels")
        return score_path(*given)

    monkeypatch.setattr(tatml_cv, "score_path", fails)
    refused(search_over({"pairs": ["all", "random"]}, cv=2), X, y, "^y: expected other labels")


WRONG_FORMS = [
    ({"Cs": [1.0]}, "param_grid: expected names of parameters of TATML .*'Cs'; did you mean 'C'"),
    ({"estimator__C": [1.0]}, "param_grid: expected names of .*'estimator__C'"),
    ({3: [1.0]}, "param_grid: expected names of parameters of TATML .*got 3"),
    ({"verbose": [True]}, "param_grid: expected names .* that change its scores .*'verbose'"),
    ({"clip_outliers": [True, False]}, "param_grid: expected names .*'clip_outliers'"),
    ({"random_state": [0, 1]}, "param_grid: expected names .*'random_state'"),
    ({"warm_start": [True]}, "param_grid: expected names .*'warm_start'"),
    ({"preprocessor": [None]}, "param_grid: expected names .*'preprocessor'"),
    ([], "param_grid: expected None, a dict of lists of values, or a list of such dicts, got"),
    ("C", "param_grid: expected None, a dict of lists of values, or a list of such dicts, got"),
    ([{"C": [1.0]}, 3], "param_grid: expected None, a dict of lists of values, or a list of"),
    ({"threshold_strength": [1.0], "c0": [1.0]}, "param_grid: expected no threshold_strength"),
]


@pytest.mark.parametrize(("grid", "message"), WRONG_FORMS)
def test_what_is_no_grid_is_refused(grid, message):
    refused(TATMLCV(param_grid=grid, cv=2), *labelled(), message)


def test_a_grid_that_the_estimator_leaves_without_effect_is_refused():
    words = "param_grid: expected no threshold_strength with a given c0 or threshold, got"
    for given in ({"c0": 1.0}, {"threshold": 1.0}):
        refused(search_over({"threshold_strength": [1.0]}, **given), *labelled(), words)
    fixed = {"threshold_strength": [0.1, 1.0], "threshold": ["joint"]}
    assert search_over(fixed, threshold=1.0, cv=2, **FEW).fit(*labelled()).threshold == "joint"


OF_THE_SEARCH = {
    "scoring": ["f1", None, 3],
    "k": [0, 2.5, None, "3", True],
    "cv": ["three", 1, 2.5],
    "n_jobs": [0, "two"],
    "random_state": ["seed"],
    "estimator": [3, TATML, Euclidean(), TATMLCV(), TATML(C=0), TATML(prior="wishful")],
}


@pytest.mark.parametrize("name", OF_THE_SEARCH)
def test_a_wrong_parameter_is_named(name):
    X, y = labelled()
    for value in OF_THE_SEARCH[name]:
        given = {"estimator": TATML(**FEW), "param_grid": {"C": [10.0]}, "cv": 2} | {name: value}
        refused(TATMLCV(**given), X, y, rf"^{name}: ")
        refused(copy(once_fitted()).set_params(**{name: value}), X, y, rf"^{name}: ")


def test_a_class_derived_from_tatml_is_refused():
    """A search would not call its fit; neither is its name enough."""

    class Mine(TATML):
        def fit(self, X, y, groups=None):
            raise AssertionError

    class Small(TATML):
        def __init__(self, C=1.0):
            super().__init__(C)

    class Other(BaseEstimator):
        pass

    Other.__name__ = Other.__qualname__ = "TATML"
    for kind in (Mine, Small, Other):
        words = rf"^estimator: expected None or a TATML, got .*test_tatml_cv.*{kind.__name__}; "
        for grid in (None, {"threshold_strength": [1.0]}):
            with pytest.raises(TypeError, match=words):
                TATMLCV(kind(), grid).fit(*labelled())


@cache
def once_fitted():
    return search_over({"C": [10.0]}, cv=2, **FEW).fit(*labelled())


def test_folds_that_cannot_be_scored_are_refused():
    X, y = labelled()
    order = np.argsort(y, kind="stable")  # every fold of KFold(3) is one class
    for scoring in ("auc", "accuracy"):
        model = search_over({"C": [10.0]}, cv=KFold(3), prior="auto", scoring=scoring)
        if scoring == "auc":
            refused(model, X[order], y[order], "y: expected labels that give dissimilar pairs")
        else:
            assert model.fit(X[order], y[order]).best_score_ == 0
    small = np.where(np.arange(60) < 57, 0, 1)
    with pytest.warns(UserWarning, match="cv: The least populated class"):
        refused(TATMLCV(cv=StratifiedKFold(5)), X, small, r"\by\b: expected")
    refused(TATMLCV(cv=StratifiedKFold(31)), X, y, "n_splits=31")


def test_more_neighbours_than_training_samples_are_refused():
    X, y = labelled()  # 60 samples, 40 training samples per fold
    model = search_over({"C": [10.0]}, cv=3, scoring="accuracy", k=41, **FEW)
    refused(model, X, y, "k: expected at most the 40 .*, got 41")
    assert clone(model).set_params(k=40).fit(X, y).best_score_ < 1
    model.set_params(scoring="auc").fit(X, y)  # needs no neighbours


def test_folds_may_be_masks():
    X, y = labelled()
    half = np.arange(len(y)) % 2 == 0
    model = search_over({"C": [1.0, 10.0]}, cv=[(half, ~half)], **FEW)
    masks = clone(model).fit(X, y)
    rows = model.set_params(cv=[(np.flatnonzero(half), np.flatnonzero(~half))]).fit(X, y)
    assert_array_equal(masks.components_, rows.components_)


def test_both_is_two_thirds_of_the_area_and_one_third_of_the_accuracy():
    X, y = noisy("vectors")
    model = search_over({"C": [1.0, 100.0]}, cv=3, prior="auto", random_state=0)
    scores = {
        scoring: split_scores(clone(model).set_params(scoring=scoring).fit(X, y))
        for scoring in ("auc", "accuracy", "both")
    }
    auc, accuracy, both = scores.values()
    assert np.abs(auc - accuracy).min() > 1e-3
    assert_allclose(both, (2 * auc + accuracy) / 3)
