"""Protocol, methods and seeds: halves, no leakage, the same numbers on any number of jobs."""

import os
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from tatml import TATML, TATMLCV, Blocks, Newton
from tatml_paper import DATASETS, METHODS, run
from tatml_paper.fitting import (
    MatchedPCA,
    chosen_parameters,
    embed_samples,
    learner_of,
    matched_size,
)
from tatml_paper.methods import QUICK_METHODS
from tatml_paper.protocol import (
    choose_and_fit,
    describe_fit,
    held_out_pairs,
    run_once,
    score_test_half,
    seed_of,
    split_in_halves,
)
from tatml_paper.samples import (
    DatasetSamples,
    _first_of_each_class,
    data_digest,
    extract_features,
    load_images,
    read_features,
)
from tatml_paper.settings import (
    PROTOCOL,
    QUICK_DATASETS,
    SENSITIVITY,
    Protocol,
    features_of,
)
from tatml_paper.tasks import Task, _declared, choose_names, make_tasks
from tatml_paper.versions import _git


def make_samples(n_per_class=16, n_classes=3, n_objects=4, groups=False, seed=0):
    """Symmetric matrices in two blocks, whose classes differ in their means."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_per_class)
    arrays = []
    for size in (3, 2):
        centres = rng.normal(size=(n_classes, size, size))
        matrices = centres[y] + 0.6 * rng.normal(size=(len(y), size, size))
        arrays.append(matrices + np.swapaxes(matrices, 1, 2))
    objects = y * n_objects + np.tile(np.arange(n_per_class) % n_objects, n_classes)
    return DatasetSamples(Blocks(*arrays), y, objects if groups else None)


# Halves


def test_a_random_half_has_half_of_each_class():
    y = np.repeat(np.arange(7), [10, 11, 12, 13, 4, 8, 20])
    train, test = split_in_halves(y, None, seed=3)
    assert sorted([*train, *test]) == list(range(len(y)))
    counts = np.bincount(y[train]), np.bincount(y[test])
    assert np.max(np.abs(counts[0] - counts[1])) <= 1


def test_the_rows_of_a_half_are_in_random_order():
    """Else folds without shuffling would hold neighbouring samples: views of the same object."""
    y = np.repeat(np.arange(4), 100)
    for groups in (None, np.repeat(np.arange(40), 10)):
        train, _ = split_in_halves(y, groups, seed=0)
        assert abs(np.corrcoef(np.arange(len(train)), train)[0, 1]) < 0.3


def test_a_half_by_object_has_whole_objects_and_half_of_each_class():
    y = np.repeat(np.arange(8), 10 * 5)
    groups = np.repeat(np.arange(80), 5)
    train, test = split_in_halves(y, groups, seed=1)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert not set(groups[train]) & set(groups[test])
    for label in range(8):
        assert len(set(groups[train[y[train] == label]])) == 5


def test_halves_depend_on_data_set_split_and_repeat_only():
    seeds = {}
    for method, features in (("euc", "M=1;(1)"), ("lda", "M=2;(1,.5)")):
        for repeat in range(3):
            task = Task("table1", DATASETS["virus"], features, method, repeat)
            seeds.setdefault(repeat, set()).add(tuple(task.seeds().values()))
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == 3
    assert seed_of("split", "eth80", "halves", 0) != seed_of("split", "eth80", "objects", 0)
    assert 0 <= seed_of("x") < 2**31


# The test half is touched by nothing that chooses


@pytest.mark.parametrize(
    ("name", "by_object"),
    [("tatml", True), ("gmml", True), ("lda", False), ("tatml_paper_vec", False)],
)
def test_nothing_of_the_test_half_changes_what_is_fitted(name, by_object):
    samples = make_samples(groups=by_object)
    seeds = {"split": 5, "fit": 6, "score": 7}
    _, test = split_in_halves(samples.y, samples.groups, seeds["split"])
    arrays = [array.copy() for array in samples.X.arrays]
    for array in arrays:
        array[test] = 1e6 * np.eye(array.shape[1])
    corrupted = DatasetSamples(Blocks(*arrays), samples.y, samples.groups)
    fitted_only = ("params", "b0", "threshold", "gap", "median_squared", "threshold_calibrated")
    honest = run_once(METHODS[name], samples, seeds)
    spoilt = run_once(METHODS[name], corrupted, seeds)
    assert [honest.get(n) for n in fitted_only] == [spoilt.get(n) for n in fitted_only]
    assert spoilt["accuracy"] < honest["accuracy"]  # the corruption did arrive


def test_a_fit_that_does_not_converge_is_in_the_record_and_no_warning():
    samples = make_samples()

    def build(seed):
        return TATML(solver=Newton(max_iter=1), n_pairs_per_class=40, random_state=seed)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = choose_and_fit(replace(METHODS["tatml"], build=build), samples, 0)
    assert not fitted.result_.converged


def test_the_test_labels_change_the_scores_alone():
    samples = make_samples()
    train, test = split_in_halves(samples.y, None, 0)
    training, rest = samples.take(train), samples.take(test)
    fitted = choose_and_fit(METHODS["tatml"], training, 0)
    wrong = DatasetSamples(rest.X, (rest.y + 1) % 3, None)
    honest = score_test_half(METHODS["tatml"], fitted, training, rest, 0)
    spoilt = score_test_half(METHODS["tatml"], fitted, training, wrong, 0)
    assert honest["threshold_calibrated"] == spoilt["threshold_calibrated"]
    assert honest["accuracy"] > 80 > 20 > spoilt["accuracy"]


# Methods


@pytest.fixture(scope="module")
def tiny_textures(tmp_path_factory):
    dataset = QUICK_DATASETS["textures"]
    path = extract_features(dataset, None, tmp_path_factory.mktemp("features"))
    return read_features(dataset, "M=2;(1,.5)", path)


BY_OBJECT = ("tatml", "itml", "tatml_star", "gmml", "nca")


def check_scores(method, scores):
    if method.classifier:
        assert scores["auc"] is None, method.name
        return
    assert 0.5 < scores["auc"] <= 1, method.name
    assert 0 <= scores["eer"] < 50, method.name
    assert (scores["balanced_learnt"] is not None) == method.own_threshold, method.name
    assert 50 <= scores["balanced_calibrated"] <= 100, method.name


@pytest.mark.parametrize("name", [name for name in METHODS if name not in BY_OBJECT])
def test_a_method_runs_and_learns(name, tiny_textures):
    result = run_once(METHODS[name], tiny_textures, {"split": 0, "fit": 1, "score": 2})
    assert 35 < result["accuracy"] <= 100  # of five classes: chance is 20
    assert result["n_train"] == result["n_test"] == 50
    check_scores(METHODS[name], result)


@pytest.mark.parametrize("name", BY_OBJECT)
def test_a_method_runs_by_object_and_no_pair_joins_views_of_one_object(name):
    samples = make_samples(n_per_class=24, groups=True, n_objects=6)
    train, test = split_in_halves(samples.y, samples.groups, 0)
    training = samples.take(train)
    fitted = choose_and_fit(METHODS[name], training, 0)
    scores = score_test_half(METHODS[name], fitted, training, samples.take(test), 0)
    assert len(train) == len(test) == 36
    assert scores["accuracy"] > 50
    check_scores(METHODS[name], {"balanced_learnt": None} | scores)
    if name != "nca":  # which learns from no pairs
        first, second = learner_of(fitted).pairs_.T
        assert np.all(training.groups[first] != training.groups[second])


def test_by_object_no_test_pair_and_no_fold_joins_views_of_one_object():
    samples = make_samples(n_per_class=24, groups=True, n_objects=6)
    pairs = held_out_pairs(samples.y, samples.groups, 0)
    assert np.all(samples.groups[pairs.index[:, 0]] != samples.groups[pairs.index[:, 1]])
    search = choose_and_fit(METHODS["lda"], samples, 0)
    assert type(search.cv).__name__ == "StratifiedGroupKFold"


def test_a_run_says_how_long_it_took_and_how_far_pairs_are_apart():
    """The seconds are those of choosing and fitting, those of scoring apart from them."""
    clock = iter([10.0, 13.0, 18.0])  # at the start, when it is fitted, when it is scored
    samples = make_samples()
    seeds = {"split": 0, "fit": 1, "score": 2}
    result = run_once(METHODS["tatml_mat"], samples, seeds, lambda: next(clock))
    assert (result["seconds"], result["seconds_scoring"]) == (3.0, 5.0)
    train, _ = split_in_halves(samples.y, None, 0)
    training = samples.take(train)
    fitted = choose_and_fit(METHODS["tatml_mat"], training, 1)
    squared = fitted.pair_distance(fitted.pairs_, training.X) ** 2
    assert result["median_squared"] == pytest.approx(np.median(squared), rel=1e-12)
    without_pairs = choose_and_fit(METHODS["nca"], training, 1)
    assert "median_squared" not in describe_fit(without_pairs, training)


def test_the_papers_settings_are_the_papers():
    search = METHODS["tatml"].build(0)
    tatml = search.estimator.get_params()
    assert (tatml["c0"], tatml["threshold_prior"], tatml["prior"]) == (1.0, 1.0, "identity")
    assert (tatml["n_pairs_per_class"], tatml["reduction"]) == (10, "sum")
    assert search.param_grid == {"C": [0.01, 0.1, 1.0, 10.0]}
    maz = METHODS["maz"].build(0)
    assert np.square(maz.thresholds) == pytest.approx([0.25, 0.5, 1.0, 2.0])
    grid = METHODS["itml"].build(0).param_grid
    assert grid["metric__bounds"] == [(0.125, 0.5), (0.25, 1.0), (0.5, 2.0), (1.0, 4.0)]
    assert grid["metric__gamma"] == [0.01, 0.1, 1.0, 10.0]
    samples = make_samples()
    learner = learner_of(choose_and_fit(METHODS["tatml"], samples, 0))
    assert learner.similar_.sum() == 15  # five similar pairs a class


def test_maz_takes_the_threshold_with_the_best_cross_validation():
    samples = make_samples()
    fitted = choose_and_fit(METHODS["maz"], samples, 0)
    described = describe_fit(fitted, samples)
    assert described["params"]["threshold"] == fitted.best_params_["threshold"]
    assert described["b0"] == pytest.approx(described["params"]["threshold"] ** 2)
    tried = []
    for threshold in fitted.thresholds:
        search = METHODS["tatml"].build(0)
        search.estimator.set_params(c0=None, threshold_prior=None, threshold=threshold)
        tried.append(search.fit(samples.X, samples.y).best_score_)
    assert fitted.best_score_ == max(tried)


def test_there_is_one_fixed_configuration():
    assert [m.name for m in METHODS.values() if m.kind == "fixed"] == [
        "tatml_star",
        "tatml_kernel",
        "tatml_kernel_cv",
    ]


def test_pca_keeps_the_degrees_of_freedom():
    known = [([7, 7], 10), ([7], 7), ([5], 5), ([5, 5], 7), ([9, 9], 13), ([64], 64)]
    for sizes, expected in known:
        p = matched_size(sizes)
        wanted = sum(n * (n + 1) for n in sizes)
        nearest = min(abs(q * (q + 1) - wanted) for q in range(1, 200))
        assert (p, abs(p * (p + 1) - wanted)) == (expected, nearest), sizes


def test_matched_pca_gives_that_many_columns():
    X = make_samples().X  # 3 × 3 and 2 × 2: 12 + 6 = 18, and 4 · 5 = 20 is nearest
    assert MatchedPCA().fit_transform(X).shape == (48, 4)


def test_the_embedding_of_a_search_stops_before_the_classifier():
    samples = make_samples()
    fitted = choose_and_fit(METHODS["gmml"], samples, 0)
    learner = learner_of(fitted)
    distances = np.linalg.norm(np.diff(embed_samples(fitted, samples.X)[:2], axis=0))
    vectors = fitted.best_estimator_[:1].transform(samples.X)
    assert distances == pytest.approx(learner.pair_distance([[0, 1]], vectors)[0])


def test_the_learner_is_found_inside_pipelines_and_searches():
    """Without a step "metric" it is the last step; parameters lose the names of their steps."""
    X, y = load_wine(return_X_y=True)
    plain = make_pipeline(StandardScaler(), PCA(2), LogisticRegression()).fit(X, y)
    assert learner_of(plain) is plain[-1]
    assert chosen_parameters(plain) == {}
    search = GridSearchCV(plain, {"pca__n_components": [3], "logisticregression__C": [0.5]}, cv=2)
    search.fit(X, y)
    assert learner_of(search) is search.best_estimator_[-1]
    assert chosen_parameters(search) == {"n_components": 3, "C": 0.5}
    named = Pipeline([("metric", PCA(2)), ("classifier", LogisticRegression())])
    search = GridSearchCV(named, {"metric__n_components": [2]}, cv=2).fit(X, y)
    assert learner_of(search) is search.best_estimator_[0]
    nested = make_pipeline(StandardScaler(), PCA(5), search).fit(X, y)
    assert learner_of(nested) is nested[-1].best_estimator_[0]
    assert chosen_parameters(nested) == {"n_components": 2}
    assert learner_of(named[0]) is named[0]


def test_chosen_arrays_become_lists_and_words_stay_words():
    search = SimpleNamespace(best_params_={"a__bounds": np.array([1, 2]), "prior": "covariance"})
    assert chosen_parameters(search) == {"bounds": [1.0, 2.0], "prior": "covariance"}


def test_the_first_images_of_each_class_are_kept_in_their_order():
    few = replace(QUICK_DATASETS["textures"], most_per_class=3)
    every = replace(few, most_per_class=None)
    data, whole = load_images(few, None), load_images(every, None)
    rows = [
        row
        for label in np.unique(whole.target)
        for row in np.flatnonzero(whole.target == label)[:3]
    ]
    np.testing.assert_array_equal(data.target, whole.target[sorted(rows)])
    np.testing.assert_array_equal(data.images, whole.images[sorted(rows)])
    assert np.bincount(data.target).tolist() == [3] * len(np.unique(whole.target))
    mixed = np.array([2, 0, 2, 1, 0, 2, 0])
    assert _first_of_each_class(mixed, 2).tolist() == [0, 1, 2, 3, 4]
    assert _first_of_each_class(mixed, 1).tolist() == [0, 1, 3]


# Scores


def test_pairs_to_verify_count_both_kinds_the_same():
    y = np.repeat(np.arange(4), [3, 5, 9, 40])  # few similar pairs in the first
    pairs = held_out_pairs(y, None, 0)
    weights = pairs.weights
    assert weights[pairs.similar].sum() == pytest.approx(weights[~pairs.similar].sum())
    assert np.all((y[pairs.index[:, 0]] == y[pairs.index[:, 1]]) == pairs.similar)


# Tasks and declared data


def test_methods_say_what_they_are():
    def those(name):
        return {key for key, method in METHODS.items() if getattr(method, name)}

    tatmls = {"tatml", "tatml_star", "tatml_mat", "tatml_vec", "tatml_paper_vec"}
    tatmls |= {"tatml_kernel", "tatml_kernel_cv"}
    assert those("own_threshold") == tatmls | {"maz"}
    assert those("classifier") == {"lr", "svm"}
    assert those("slow") == {"nca", "lr", "svm", "tatml_kernel_cv"}
    assert QUICK_METHODS == ("tatml", "euc", "maz", "tatml_star", "gmml", "lda")


def test_grids_of_the_searches_are_the_declared_ones():
    grids = {
        "itml": {"gamma": [0.01, 0.1, 1, 10], "bounds": [(b / 2, 2 * b) for b in SENSITIVITY.b0]},
        "itml_full": {"gamma": [1e-4, 1e-3, 0.01, 0.1, 1, 10]},
        "gmml": {"t": [0.01, 0.05, 0.1, 0.3, 0.5, 0.7]},
        "lda": {"shrinkage": ["auto", 0.001, 0.01, 0.1, 0.5]},
        "lr": {"C": [0.01, 0.1, 1, 10, 100]},
        "svm": {"C": [1, 10, 100, 1000], "gamma": [0.003, 0.01, 0.03, 0.1]},
    }
    for name, grid in grids.items():
        search = METHODS[name].build(0)
        found = {key.rpartition("__")[2]: values for key, values in search.param_grid.items()}
        assert found == grid, name
        assert (search.cv, search.error_score) == (5, "raise"), name
    assert METHODS["lr"].build(0).estimator[-1].max_iter == 1000
    assert METHODS["itml_full"].build(0).estimator[-2].n_pairs_per_class == 100


def test_the_small_form_and_the_protocol_are_the_documented_ones():
    digits, textures = QUICK_DATASETS["digits"], QUICK_DATASETS["textures"]
    assert digits.most_per_class == 30
    assert digits.features == (("matrix", (0,)), ("unfoldings", (0, 1)), ("vector", (2,)))
    assert textures.features == (("M=2;(1,.5)", (0, 1)), ("M=1;(1)", (0,)), ("M=1;(.5)", (1,)))
    assert dict(textures.options) == {"n_classes": 5, "n_per_class": 20, "random_state": 0}
    assert Protocol(5, 2, 3, 5, 20_000, 0.05, 20160) == PROTOCOL
    assert SENSITIVITY.n_pairs == (10, 30, 100, 300, 1000)
    assert SENSITIVITY.decades == (1e-4, 1e-3, 0.01, 0.1, 1, 10, 100, 1e3, 1e4)
    assert SENSITIVITY.quick_decades == (0.01, 1, 100)
    assert SENSITIVITY.quick_n_pairs == (10, 30)
    assert SENSITIVITY.b0 == (0.25, 0.5, 1.0, 2.0)


def test_the_slow_methods_run_only_when_they_are_asked_for():
    options = {"features": None, "repeats": [0], "quick": False}
    default = make_tasks(["table1"], datasets=["virus"], methods=None, **options)
    assert {t.method for t in default} == {m for m in METHODS if not METHODS[m].slow}
    asked = make_tasks(["table1"], datasets=["virus"], methods=["svm"], **options)
    assert [t.features for t in asked] == list(features_of(DATASETS["virus"]))


def test_other_repeats_are_other_halves(tmp_path):
    options = {"datasets": ["textures"], "methods": ["euc"], "features": ["M=1;(1)"]}
    records = run(**options, out=tmp_path, repeats=2, first_repeat=5, quick=True, progress=False)
    assert [record["repeat"] for record in records] == [5, 6]
    with pytest.raises(ValueError, match="first_repeat: expected an integer of at least 0, got -1"):
        run(**options, out=tmp_path, first_repeat=-1, quick=True, progress=False)


def test_vectors_of_digits_are_not_run_three_times():
    tasks = make_tasks(
        ["table1"], datasets=["digits"], methods=None, features=None, repeats=[0], quick=False
    )
    assert {t.features for t in tasks if t.method == "lda"} == {"vector"}
    assert {t.features for t in tasks if t.method == "tatml"} == {"matrix", "unfoldings", "vector"}


def test_keys_are_distinct_and_stable():
    def keys():
        tasks = make_tasks(
            ["table1", "sensitivity"],
            datasets=list(DATASETS),
            methods=None,
            features=None,
            repeats=[0, 1],
            quick=False,
        )
        return [task.identity()["key"] for task in tasks]

    first = keys()
    assert len(set(first)) == len(first)
    assert first == keys()


def test_a_changed_setting_changes_the_key(monkeypatch):
    task = Task("table1", QUICK_DATASETS["textures"], "M=1;(1)", "lda", 0)
    before = task.identity()
    method = METHODS["lda"]
    changed = replace(method, build=lambda seed: method.build(seed).set_params(cv=4))
    monkeypatch.setitem(METHODS, "lda", changed)
    after = task.identity()
    assert before["digest"] != after["digest"]
    assert before["data_digest"] == after["data_digest"]
    other = Task("table1", DATASETS["textures"], "M=1;(1)", "lda", 0).identity()
    assert other["data_digest"] != after["data_digest"]


def test_more_repeats_or_another_level_change_no_key():
    task = Task("table1", DATASETS["virus"], "M=1;(1)", "euc", 0)
    before = task.identity()["key"]
    other = replace(PROTOCOL, repeats=10, significance=0.01)
    assert task.identity(other)["key"] == before
    assert task.identity(replace(other, neighbours=1))["key"] != before


def test_both_splits_of_eth80_share_their_samples():
    assert data_digest(DATASETS["eth80"]) == data_digest(DATASETS["eth80-objects"])


def test_unknown_names_are_refused(tmp_path):
    for name, wrong in (
        ("datasets", ["eth81"]),
        ("methods", ["knn"]),
        ("features", ["M=3"]),
        ("names", "table2"),
        ("repeats", 0),
    ):
        with pytest.raises(ValueError, match=f"{name}: expected"):
            run(**{"out": tmp_path, "quick": True, "progress": False, name: wrong})
    assert not (tmp_path / "results.jsonl").exists()


def test_one_name_may_be_chosen():
    assert choose_names("methods", "euc", METHODS) == ["euc"]
    assert choose_names("methods", None, METHODS) is None


def test_missing_data_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="virus"):
        run(datasets=["virus"], methods=["euc"], data=tmp_path, out=tmp_path, progress=False)


@pytest.mark.skipif("TATML_DATA" not in os.environ, reason="TATML_DATA is not set")
def test_the_real_data_are_halved_as_declared(tmp_path):
    records = run(datasets=["virus"], methods=["euc"], out=tmp_path, repeats=1, progress=False)
    assert [r["features"] for r in records] == list(features_of(DATASETS["virus"]))
    assert {(r["n_train"], r["n_test"], r.get("error")) for r in records} == {(750, 750, None)}
    assert len({r["seed"] for r in records}) == 1


def test_the_methods_that_learn_a_threshold_are_declared():
    """The threshold of the others is calibrated on the training half."""
    own = {name for name, method in METHODS.items() if method.own_threshold}
    assert own == {name for name in METHODS if name.startswith("tatml")} | {"maz"}


@pytest.mark.parametrize(
    ("Cs", "declared"), [(np.logspace(0, 4, 9).tolist(), "9"), ([1.0, 10.0], ["1.0", "10.0"])]
)
def test_a_search_is_declared_in_the_words_of_its_first_records(Cs, declared):
    """The nine weights from 1 to 10,000 have had a number of their own, 9."""
    search = TATMLCV(param_grid={"C": Cs, "prior": ["within"]}, random_state=0)
    assert _declared(search)[1]["Cs"] == declared
    assert _declared(search)[1]["priors"] == ["'within'"]


def test_versions_name_the_commit_of_a_checkout(tmp_path):
    words = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    assert _git(tmp_path, "init", "-q") == ""
    assert _git(tmp_path, *words, "commit", "-q", "--allow-empty", "-m", "first") == ""
    assert len(_git(tmp_path, "rev-parse", "HEAD")) == 40
    assert _git(tmp_path, "rev-parse", "nothing") is None
