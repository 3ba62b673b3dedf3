"""TATMLCV: its scores are those of a grid search, and its final fit is that of TATML."""

import pickle
import warnings
from copy import copy
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from estimators_helpers import JOINT, as_list, labelled, refused
from joblib import parallel_backend
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
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
from tatml._estimators import label_mixins, search_path, tatml_cv
from tatml._learning.path import PathSettings

FEW = {"n_pairs_per_class": 40, "random_state": 0}
GRID = [1000.0, 3.0, 30.0]  # not sorted
FOLDS = StratifiedKFold(3, shuffle=True, random_state=1)


class PreciseCV(TATMLCV):
    """Solves the path for all pairs, and as precisely as a single fit."""

    _path = PathSettings(tol=0.0, max_step=1)


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
    model = PreciseCV(GRID, cv=FOLDS, k=5, scoring="accuracy", **options).fit(X, y)
    pipeline = make_pipeline(TATML(**options), KNeighborsClassifier(5))
    grid = GridSearchCV(pipeline, {"tatml__C": GRID}, cv=FOLDS).fit(X, y)
    split = np.stack([grid.cv_results_[f"split{fold}_test_score"] for fold in range(3)], axis=1)
    assert len(np.unique(split)) > 2
    assert_allclose(model.cv_results_["split_test_score"], split)
    assert_allclose(model.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"])
    assert_allclose(model.cv_results_["std_test_score"], grid.cv_results_["std_test_score"])
    assert grid.best_params_["tatml__C"] == model.C_
    assert model.best_score_ == pytest.approx(grid.best_score_)
    assert_array_equal(model.transform(X), grid.best_estimator_[0].transform(X))


SEARCHES = {
    "strengths": {"threshold_strengths": [2.0, 0.1], "priors": ["within"], "reduction": "sum"},
    "priors": {"priors": ["identity", "covariance"], "threshold_strength": 0.3},
    "pairs": {"pair_strategies": ["neighbors", "all"], "priors": ["discriminant"]},
    "a fixed threshold": {"threshold": 0.8, "margin": (0.7, 1.5)},
    "a fixed strength": {"c0": 3.0, "n_components": 2},
}


@pytest.mark.parametrize("name", SEARCHES)
def test_every_setting_is_scored_as_if_it_were_alone(name):
    X, y = noisy()
    options = JOINT | FEW | {"tol": 1e-9} | SEARCHES[name]
    model = PreciseCV(GRID[:2], cv=FOLDS, scoring="accuracy", **options).fit(X, y)
    strengths = options.pop("threshold_strengths", [options.get("threshold_strength", 1.0)])
    priors = options.pop("priors", ["discriminant", "auto", "scaled"])
    kinds = options.pop("pair_strategies", [options.get("pairs", "random")])
    results = model.cv_results_
    wanted = list(product(GRID[:2], strengths, priors, kinds))
    names = ("C", "threshold_strength", "prior", "pairs")
    found = [tuple(params[name] for name in names) for params in results["params"]]
    assert sorted(found) == sorted(wanted)
    assert len(np.unique(results["split_test_score"], axis=0)) > 1
    for params, scores in zip(results["params"], results["split_test_score"], strict=True):
        alone = make_pipeline(TATML(**options | params), KNeighborsClassifier(3))
        assert_allclose(scores, cross_val_score(alone, X, y, cv=FOLDS))


@pytest.mark.parametrize(("kind", "pairs"), [("vectors", "all"), ("two blocks", "random")])
def test_the_area_is_that_of_the_held_out_pairs(kind, pairs):
    X, y = noisy(kind)
    options = JOINT | FEW | {"pairs": pairs, "tol": 1e-9, "prior": "auto"}
    model = PreciseCV(GRID, cv=FOLDS, scoring="auc", **options).fit(X, y)
    areas = np.empty((3, 3))
    for fold, (train, test) in enumerate(FOLDS.split(y, y)):
        drawn = Euclidean(pairs=pairs, **FEW).fit(X[test], y[test])
        for row, C in enumerate(GRID):
            metric = TATML(C, **options).fit(X[train], y[train])
            scores = metric.pair_score(drawn.pairs_, X[test])
            areas[row, fold] = roc_auc_score(drawn.similar_, scores)
    assert_allclose(model.cv_results_["split_test_score"], areas, atol=1e-4)
    assert np.ptp(areas.mean(axis=1)) > 1e-3
    assert GRID[np.argmax(areas.mean(axis=1))] == model.C_


def test_the_choice_of_the_loose_path_is_as_good():
    X, y = noisy()
    options = {"Cs": 9, "cv": FOLDS, "pairs": "all", "prior": "discriminant"}
    loose = TATMLCV(**options).fit(X, y).cv_results_["mean_test_score"]
    exact = PreciseCV(**options).fit(X, y).cv_results_["mean_test_score"]
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
        model = TATMLCV([10.0], cv=2, pairs="all", **options).fit(X, y)
        half = n_samples // 2
        assert counts
        for count in counts:
            assert abs(count - half * (half - 1) / 2 / share) <= 1, n_samples
            assert count >= 1000 or share == 1
        assert len(model.pairs_) == n_samples * (n_samples - 1) / 2


def test_a_path_takes_all_pairs_of_neighbours(monkeypatch):
    class ThinCV(TATMLCV):
        _path = PathSettings(min_pairs=10)

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
        ThinCV([10.0], cv=2, pairs=pairs, prior="auto", scoring="accuracy", **FEW).fit(X, y)
        for count, (listed, _) in zip(counts[:2], drawn[:2], strict=True):
            assert abs(count - len(listed) / (4 if thinned else 1)) <= 1, pairs


def test_the_neighbours_are_those_of_scikit_learn_in_chunks_too():
    rng = np.random.default_rng(0)
    known, wanted, y = rng.normal(size=(500, 3)), rng.normal(size=(23, 3)), np.arange(500) % 3
    for k in (1, 4):
        expected = KNeighborsClassifier(k).fit(known, y).predict(wanted)
        for chunk_rows in (1, 10, 1000):
            found = search_path.predict_knn(known, y, wanted, k, chunk_rows)
            assert_array_equal(found, expected, err_msg=f"{k} {chunk_rows}")


# The choice, and the final fit


def test_the_best_setting_is_fitted_to_all_samples():
    X, y = noisy("two blocks")
    options = FEW | {"tol": 1e-8}
    model = TATMLCV(GRID, priors=["scaled", "within"], cv=3, **options).fit(X, y)
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
    chosen = {"C_", "best_params_", "best_score_", "cv_results_"}
    assert {name for name in vars(model) if name.endswith("_")} == fitted | chosen
    assert (model.threshold_, model.b0_) == (plain.threshold_, plain.b0_)
    assert model.n_iter_ == plain.n_iter_
    assert model.result_.tol == 1e-8


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


def test_a_number_of_values_gives_a_logarithmic_grid():
    assert_allclose(TATMLCV(5)._grid(), [1e0, 1e1, 1e2, 1e3, 1e4])
    assert_allclose(TATMLCV(9)._grid(), 10 ** np.linspace(0, 4, 9))
    assert TATMLCV()._grid() == [10.0, 100.0, 1000.0]


def test_several_jobs_give_the_same(monkeypatch):
    """With threads, and with jobs that are pickled as for another process."""
    X, y = noisy("two blocks")
    model = TATMLCV([10.0, 100.0], threshold_strengths=[0.1, 1.0], cv=3, **FEW)
    one = clone(model).fit(X, y)
    with parallel_backend("threading"):
        two = clone(model).set_params(n_jobs=2).fit(X, y)
    score_path = search_path.score_path

    def elsewhere(*arguments):
        return score_path(*pickle.loads(pickle.dumps(arguments)))

    monkeypatch.setattr(tatml_cv, "score_path", elsewhere)
    for other in (two, clone(model).fit(X, y)):
        assert other.cv_results_["params"] == one.cv_results_["params"]
        scores = other.cv_results_["split_test_score"]
        assert_array_equal(scores, one.cv_results_["split_test_score"])
        assert_array_equal(other.transform(X), one.transform(X))


def test_the_settings_of_a_fold_are_compared_on_the_same_pairs(monkeypatch):
    """Whatever the seed: otherwise the draw could decide, and not the setting."""
    X, y = noisy()
    for seed in (0, np.random.RandomState(0), None):
        drawn = spied_pairs(monkeypatch)
        options = {"threshold_strengths": [0.1, 1.0], "priors": ["auto", "within"]}
        TATMLCV([10.0], cv=FOLDS, n_pairs_per_class=20, random_state=seed, **options).fit(X, y)
        in_folds = {pairs.index.tobytes() for pairs, _ in drawn[:-1]}
        assert len(drawn) == 4 * 3 * 2 + 1  # to learn from, and to be scored on
        assert len(in_folds) == 3 * 2


def spied_pairs(monkeypatch):
    """Return a list that collects the pairs and the samples of every draw."""
    drawn, draw_pairs = [], label_mixins.draw_pairs

    def spy(strategy, blocks, *arguments, **options):
        pairs = draw_pairs(strategy, blocks, *arguments, **options)
        drawn.append((pairs, blocks))
        return pairs

    monkeypatch.setattr(label_mixins, "draw_pairs", spy)
    return drawn


def test_the_area_is_that_of_random_pairs_for_every_strategy():
    """Otherwise neighbours, which are hard to separate, would be scored on neighbours."""
    X, y = noisy()
    options = {"scoring": "auc", "cv": FOLDS, **FEW}
    model = PreciseCV([10.0], pair_strategies=["random", "neighbors"], **options).fit(X, y)
    for fold, (train, test) in enumerate(FOLDS.split(y, y)):
        drawn = Euclidean(**FEW).fit(X[test], y[test])
        for row, pairs in enumerate(("random", "neighbors")):
            metric = TATML(10.0, pairs=pairs, **FEW).fit(X[train], y[train])
            area = roc_auc_score(drawn.similar_, metric.pair_score(drawn.pairs_, X[test]))
            assert_allclose(model.cv_results_["split_test_score"][row, fold], area, atol=1e-3)


def test_the_path_takes_fewer_steps_than_cold_starts(monkeypatch):
    X, y = noisy("two blocks")
    solve, steps = Newton.solve, {"warm": 0, "cold": 0}

    def run(name):
        def counted(solver, problem, *, init, **options):
            result = solve(solver, problem, init=init if name == "warm" else None, **options)
            steps[name] += result.n_iter
            return result

        monkeypatch.setattr(Newton, "solve", counted)
        return TATMLCV(np.logspace(1, 5, 7), cv=FOLDS, prior="auto", **FEW).fit(X, y)

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
        TATMLCV([10.0, 100.0], scoring=scoring, cv=FOLDS, **FEW).fit(Z, y) for Z in (X, X + 2.0**31)
    )
    assert_allclose(
        far.cv_results_["split_test_score"], near.cv_results_["split_test_score"], atol=1e-6
    )
    assert far.C_ == near.C_


def test_few_pairs_are_enough():
    """Pairs of both kinds remain in the path."""
    X, _ = labelled(n_samples=6)
    y = np.array([0, 0, 0, 0, 1, 1])
    for seed in range(6):
        model = TATMLCV([10.0], cv=2, k=1, n_pairs_per_class=2, random_state=seed).fit(X, y)
        assert 0 <= model.best_score_ <= 1


# Groups


@pytest.mark.parametrize(("cv", "scoring"), [(3, "auc"), (GroupKFold(3), "accuracy")])
def test_a_group_is_on_one_side_of_a_split_and_in_no_pair(cv, scoring, monkeypatch):
    X, y = noisy()
    number = np.arange(75) // 5
    groups = np.array([f"object {i}" for i in number])
    drawn = spied_pairs(monkeypatch)
    options = FEW | {"prior": "auto", "clip_outliers": False}
    model = TATMLCV([10.0, 100.0], cv=cv, scoring=scoring, **options).fit(X, y, groups=groups)
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


# In scikit-learn


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")  # few samples
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn, NaN in y
def test_the_checks_of_scikit_learn():
    results = check_estimator(TATMLCV([9.0], cv=2, n_pairs_per_class=4), on_fail=None, on_skip=None)
    assert sum(result["status"] == "passed" for result in results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_it_is_cloned_pickled_and_searched_over():
    X, y = noisy()
    model = TATMLCV([10.0, 100.0], k=7, cv=3, priors=["within"], **FEW)
    assert clone(model).get_params() == model.get_params()
    fitted = model.fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.best_params_ == fitted.best_params_
    search = GridSearchCV(
        make_pipeline(model, KNeighborsClassifier(3)),
        [{"tatmlcv__k": [1]}, {"tatmlcv__scoring": ["auc"]}],
        cv=2,
    ).fit(X, y)
    assert np.all(search.cv_results_["mean_test_score"] > 0.4)
    assert search.best_estimator_[0].C_ in (10.0, 100.0)


def test_names_of_a_table_go_in_and_out():
    X, y = labelled()
    table = pd.DataFrame(X, columns=["length", "width", "weight", "age"])
    model = TATMLCV([10.0, 100.0], cv=2, **FEW).set_output(transform="pandas").fit(table, y)
    assert list(model.feature_names_in_) == ["length", "width", "weight", "age"]
    names = [f"tatmlcv{i}" for i in range(4)]
    assert list(model.get_feature_names_out()) == names
    assert list(model.transform(table).columns) == names
    plain = TATMLCV([10.0, 100.0], cv=2, **FEW).fit(X, y)
    assert_array_equal(model.transform(table), plain.transform(X))


def test_a_preprocessor_finds_the_samples():
    X, y = noisy("two blocks")
    rows = np.arange(5, 70)
    plain = TATMLCV([10.0, 100.0], cv=3, **FEW).fit(X[rows], y[rows])
    by_index = TATMLCV([10.0, 100.0], cv=3, preprocessor=X, **FEW).fit(rows, y[rows])
    assert_array_equal(by_index.transform(rows), plain.transform(X[rows]))
    assert by_index.best_params_ == plain.best_params_


def test_the_final_fit_says_that_it_has_not_converged():
    X, y = labelled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = TATMLCV([100.0], cv=2, solver=Newton(max_iter=1), **FEW).fit(X, y)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert caught[0].filename == __file__
    assert not model.result_.converged


# Errors


WRONG = {
    "Cs": [0, -1, 2.5, True, "many", None, [], [0.0], [1.0, -2.0], [np.nan], ["a"], [[1.0]]],
    "threshold_strengths": [[], 0.5, "ab", [0.0], [-1.0, 1.0], [None]],
    "priors": [[], "auto", ["wishful"], 3],
    "pair_strategies": [[], "random", ["wishful"], 3],
    "scoring": ["f1", None, 3],
    "k": [0, 2.5, None, "3", True],
    "cv": ["three"],
    "threshold": ["automatic", 0, None],
    "tol": [0, "small"],
    "solver": ["gradient", Newton],
    "prior": ["wishful", np.eye(3)],
    "n_components": [0, 5],
    "random_state": ["seed"],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_parameter_is_named(name):
    X, y = labelled()
    for value in WRONG[name]:
        model = TATMLCV(**{"Cs": [10.0], "cv": 2} | FEW | {name: value})
        refused(model, X, y, rf"\b{name}\b")
        refused(copy(once_fitted()).set_params(**{name: value}), X, y, rf"\b{name}\b")


@cache
def once_fitted():
    return TATMLCV([10.0], cv=2, **FEW).fit(*labelled())


def test_folds_that_cannot_be_scored_are_refused():
    X, y = labelled()
    order = np.argsort(y, kind="stable")  # every fold of KFold(3) is one class
    for scoring in ("auc", "accuracy"):
        model = TATMLCV([10.0], cv=KFold(3), prior="auto", scoring=scoring)
        if scoring == "auc":
            refused(model, X[order], y[order], "y: expected labels that give dissimilar pairs")
        else:
            assert model.fit(X[order], y[order]).best_score_ == 0
    small = np.where(np.arange(60) < 57, 0, 1)
    with pytest.warns(UserWarning, match="cv: The least populated class"):
        refused(TATMLCV([10.0], cv=StratifiedKFold(5)), X, small, r"\by\b: expected")
    refused(TATMLCV([10.0], cv=StratifiedKFold(31)), X, y, "n_splits=31")


def test_more_neighbours_than_training_samples_are_refused():
    X, y = labelled()  # 60 samples, 40 training samples per fold
    options = FEW | {"cv": 3, "scoring": "accuracy", "prior": "auto"}
    refused(TATMLCV([10.0], k=41, **options), X, y, "k: expected at most the 40 .*, got 41")
    assert TATMLCV([10.0], k=40, **options).fit(X, y).best_score_ < 1
    TATMLCV([10.0], k=41, **options | {"scoring": "auc"}).fit(X, y)  # needs no neighbours


def test_folds_may_be_masks():
    X, y = labelled()
    half = np.arange(len(y)) % 2 == 0
    options = {"Cs": [1.0, 10.0], "n_pairs_per_class": 10, "random_state": 0}
    masks = TATMLCV(cv=[(half, ~half)], **options).fit(X, y)
    rows = TATMLCV(cv=[(np.flatnonzero(half), np.flatnonzero(~half))], **options).fit(X, y)
    assert_array_equal(masks.components_, rows.components_)


def test_both_is_two_thirds_of_the_area_and_one_third_of_the_accuracy():
    X, y = noisy("vectors")
    options = {"cv": 3, "prior": "auto", "random_state": 0}
    scores = {
        scoring: TATMLCV([1.0, 100.0], scoring=scoring, **options).fit(X, y).cv_results_
        for scoring in ("auc", "accuracy", "both")
    }
    auc, accuracy, both = (found["split_test_score"] for found in scores.values())
    assert np.abs(auc - accuracy).min() > 1e-3
    assert_allclose(both, (2 * auc + accuracy) / 3)
