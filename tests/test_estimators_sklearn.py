"""The estimators in scikit-learn: its checks, pipelines, names, routing and saving."""

import io
import pickle

import joblib
import numpy as np
import pytest
import scipy.sparse
import sklearn
from estimators_helpers import labelled, labelled_pairs
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.fixes import parse_version
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from tatml import (
    PAPER,
    TATML,
    TATMLCV,
    Euclidean,
    Maz,
    PairThreshold,
    TATMLNeighbors,
    TATMLPairs,
    TATMLRegression,
)

FEW = {"n_pairs_per_class": 20, "random_state": 0}

# scikit-learn's own checks

CHECKED = [
    TATML(),
    TATML(**PAPER | {"n_pairs_per_class": 2000}),
    TATML(prior="within", pairs="neighbors", n_components=1),
    Maz(threshold="search", thresholds=(1.0,), cv=2),
    Euclidean(),
    TATMLNeighbors(max_rounds=2),
    TATMLRegression(),
    TATMLCV(TATML(midpoint=True), {"C": [10.0]}, cv=2, k=1),
]


def failed_checks(estimator, expected=(), least=40):
    """Return the messages of the checks that fail; check_array_api_input skips itself."""
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert sum(result["status"] == "passed" for result in results) > least
    return {
        result["check_name"]: f"{type(result['exception']).__name__}: {result['exception']}"
        for result in results
        if result["status"] == "failed" and result["check_name"] not in expected
    }


@pytest.mark.filterwarnings("ignore:threshold_: ")  # some of the labels are noise
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")  # Maz with few samples
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn, NaN in y
@pytest.mark.parametrize("estimator", CHECKED, ids=str)
def test_the_checks_of_scikit_learn(estimator):
    assert failed_checks(estimator) == {}


class OfRows:
    """Turns a classifier of pairs into a classifier of rows, which scikit-learn can check.

    Row x stands for the pair (x, mean row of the second class), and its label says whether x is in
    that class. Everything else is left to the classifier of pairs.
    """

    def fit(self, X, y, sample_weight=None):
        self.centre_, classes = 0.0, None
        if y is not None:
            y = column_or_1d(y, warn=True)
            check_classification_targets(y)
            classes, codes = np.unique(y, return_inverse=True)
            if len(classes) > 2:
                raise ValueError(f"Only binary classification is supported, not {len(classes)}")
            y = 2 * codes - 1
            self.centre_ = mean_row(X, codes if sample_weight is None else codes * sample_weight)
        super().fit(self._as_pairs(X), y, sample_weight)
        self.classes_ = classes
        return self

    def predict(self, X):
        decision = self.decision_function(X)
        return self.classes_[(decision > 0).astype(int)]

    def decision_function(self, X):
        check_is_fitted(self)
        return super().decision_function(self._as_pairs(X))

    def score(self, X, y, sample_weight=None):
        labels = np.where(np.asarray(y) == self.classes_[1], 1, -1)
        return super().score(self._as_pairs(X), labels, sample_weight)

    def _as_pairs(self, X):
        if scipy.sparse.issparse(X) or np.asarray(X).ndim != 2:
            return X
        X = np.asarray(X)
        centre = self.centre_ if np.shape(self.centre_) == X.shape[1:] else 0.0
        return np.stack([X, np.broadcast_to(centre, X.shape)], axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = True, False
        return tags


def mean_row(X, weights):
    """Return the weighted mean, or 0 if X is not a table of finite numbers."""
    if scipy.sparse.issparse(X):
        return 0.0
    X, weights = np.asarray(X), np.asarray(weights)
    usable = X.dtype.kind in "biuf" and X.ndim == 2 and len(X) == len(weights) and weights.sum() > 0
    usable = usable and np.isfinite(X).all()
    return np.average(X, axis=0, weights=weights) if usable else 0.0


class TATMLOfRows(OfRows, TATMLPairs):
    def fit_transform(self, X, y):
        return self.fit(X, y).transform(X)


class ScoreOfRows(OfRows, TATMLPairs):
    pass


class ThresholdOfRows(OfRows, PairThreshold):
    pass


EXPECTED_FAILURES = {
    "check_dtype_object": "our message differs from scikit-learn's",
    "check_estimators_empty_data_messages": "our message differs from scikit-learn's",
    "check_fit2d_predict1d": "our message differs from scikit-learn's",
    "check_n_features_in_after_fitting": "our message names pairs instead of X",
    "check_class_weight_classifiers": "class_weight has the keys -1 and 1, not those of the check",
}
if parse_version(sklearn.__version__) < parse_version("1.7"):
    EXPECTED_FAILURES["check_sample_weight_equivalence_on_dense_data"] = (
        "this version gives the two fits of the check different labels where there are two classes"
    )


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn, NaN in y
@pytest.mark.parametrize("estimator", [TATMLOfRows(), ThresholdOfRows()], ids=str)
def test_the_checks_of_scikit_learn_for_pairs(estimator):
    assert failed_checks(estimator, EXPECTED_FAILURES) == {}


def minus_distance(u, v):
    return -float(np.sum(np.abs(u - v)))


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn, NaN in y
def test_the_checks_of_scikit_learn_for_scores():
    weights = {"check_sample_weight_equivalence_on_dense_data": "Platt's targets are of few pairs"}
    judge = ThresholdOfRows(minus_distance, greater_is_same=True)
    assert failed_checks(judge, EXPECTED_FAILURES | weights) == {}


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn, NaN in y
@pytest.mark.filterwarnings("ignore:threshold_: ")
@pytest.mark.parametrize("make", [TATML, ScoreOfRows])
def test_the_checks_of_scikit_learn_with_midpoints(make):
    """Some checks set n_components=1, which has no meaning then."""
    refused = "n_components: expected None with midpoint=True"
    expected = EXPECTED_FAILURES if make is ScoreOfRows else ()
    failed = failed_checks(make(midpoint=True, tol=1e-12), expected, 30)
    assert {name: error for name, error in failed.items() if refused not in error} == {}
    assert len(failed) < 8


# Pipelines and cross-validation


@pytest.mark.parametrize(
    ("metric", "kind"),
    [(TATML(**FEW), "two blocks"), (Maz(**FEW), "vectors"), (Euclidean(**FEW), "matrices")],
)
def test_pipelines_of_every_kind_of_sample(metric, kind):
    X, y = labelled(kind)
    model, folds = make_pipeline(metric, KNeighborsClassifier(3)), StratifiedKFold(3)
    scores, verdicts = [], np.empty_like(y)
    for train, test in folds.split(np.zeros(len(y)), y):
        fitted = clone(metric).fit(X[train], y[train])
        classifier = KNeighborsClassifier(3).fit(fitted.transform(X[train]), y[train])
        verdicts[test] = classifier.predict(fitted.transform(X[test]))
        scores.append(np.mean(verdicts[test] == y[test]))
    assert_allclose(cross_val_score(model, X, y, cv=folds), scores)
    assert_array_equal(cross_val_predict(model, X, y, cv=folds), verdicts)
    assert np.mean(scores) > 0.6


@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
def test_grid_searches_of_every_kind_of_sample(kind):
    X, y = labelled(kind)
    model = make_pipeline(TATML(**FEW), KNeighborsClassifier(3))
    settings = {"tatml__C": [1e-6, 100.0], "tatml__prior": ["scaled", "within"]}
    search = GridSearchCV(model, settings, cv=3).fit(X, y)
    best = clone(model).set_params(**search.best_params_).fit(X, y)
    assert_array_equal(search.best_estimator_[0].transform(X), best[0].transform(X))
    assert_array_equal(search.predict(X), best.predict(X))
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])


def test_a_clone_has_the_parameters_and_nothing_that_was_learnt():
    X, y = labelled("two blocks")
    prior = [np.eye(3), 2 * np.eye(4)]
    fitted = TATML(3.0, **FEW, prior=prior, margin=(0.6, 1.5), n_components=[1, 2]).fit(X, y)
    copy = clone(fitted)
    assert not [name for name in vars(copy) if name.endswith("_")]
    assert_array_equal(copy.fit(X, y).transform(X), fitted.transform(X))
    index, labels = labelled_pairs(y)
    model = TATMLPairs(preprocessor=X).fit(index, labels)
    assert_array_equal(clone(model).fit(index, labels).predict(index), model.predict(index))


# Names of columns


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_in_and_out(library):
    frames = pytest.importorskip(library)
    X, y = labelled()
    table = frames.DataFrame(dict(zip("abcd", X.T, strict=True)))
    if not hasattr(StandardScaler().fit(table), "feature_names_in_"):
        pytest.skip(f"this scikit-learn does not read the names of this {library}")
    metric = TATML(**FEW, n_components=3).set_output(transform=library).fit(table, y)
    assert_array_equal(metric.feature_names_in_, list("abcd"))
    names = ["tatml0", "tatml1", "tatml2"]
    assert_array_equal(metric.get_feature_names_out(), names)
    embedded = metric.transform(table)
    assert isinstance(embedded, frames.DataFrame)
    assert list(embedded.columns) == names
    assert_array_equal(embedded.to_numpy(), TATML(**FEW, n_components=3).fit_transform(X, y))
    model = make_pipeline(StandardScaler(), Euclidean()).set_output(transform=library)
    assert list(model.fit(table, y).transform(table).columns) == [f"euclidean{i}" for i in range(4)]
    with pytest.raises(ValueError, match="feature names should match"):
        metric.transform(table[["b", "a", "c", "d"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        metric.transform(X)


def test_the_index_of_a_data_frame_is_kept():
    pandas = pytest.importorskip("pandas")
    X, y = labelled()
    table = pandas.DataFrame(X, columns=list("abcd"), index=[f"bottle {i}" for i in range(60)])
    embedded = TATML(**FEW).set_output(transform="pandas").fit_transform(table, y)
    assert list(embedded.index) == list(table.index)


def test_pairs_need_no_feature_names():
    pandas = pytest.importorskip("pandas")
    X, y = labelled()
    table = pandas.DataFrame(X, columns=list("abcd"))
    metric = TATML(**FEW).fit(table, y)
    index, labels = labelled_pairs(y)
    expected = metric.pair_distance(index, table)
    assert_allclose(metric.pair_distance(X[index]), expected)  # without a warning
    assert_array_equal(
        TATMLPairs(preprocessor=table).fit(index, labels).predict(index).shape, (120,)
    )


@pytest.mark.parametrize(("kind", "n_features"), [("matrices", 12), ("two blocks", 10)])
def test_features_of_matrices_are_numbered(kind, n_features):
    X, y = labelled(kind)
    metric = TATML(**FEW).fit(X, y)
    assert metric.n_features_in_ == n_features == metric.transform(X).shape[1]
    assert list(metric.get_feature_names_out()) == [f"tatml{i}" for i in range(n_features)]
    assert not hasattr(metric, "feature_names_in_")


# Metadata routing


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def apart(estimator, groups):
    return bool(np.all(groups[estimator.pairs_[:, 0]] != groups[estimator.pairs_[:, 1]]))


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("make", [TATML, Maz, Euclidean])
def test_groups_reach_the_metric_in_pipelines_and_searches(make):
    X, y = labelled("two blocks")
    groups = np.arange(60) // 6
    metric = make(**FEW).set_fit_request(groups=True)
    model = make_pipeline(metric, KNeighborsClassifier(3))
    assert not apart(clone(model).fit(X, y)[0], groups)
    assert apart(clone(model).fit(X, y, groups=groups)[0], groups)
    folds, name = GroupKFold(3), make.__name__.lower()
    search = GridSearchCV(model, {f"{name}__margin": [(0.5, 2.0), (0.8, 1.2)]}, cv=folds)
    search.fit(X, y, groups=groups)
    assert apart(search.best_estimator_[0], groups)
    scores = [
        clone(model).fit(X[train], y[train], groups=groups[train]).score(X[test], y[test])
        for train, test in folds.split(np.zeros(60), y, groups)
    ]
    assert_allclose(search.cv_results_["mean_test_score"][0], np.mean(scores))
    with pytest.raises(ValueError, match="not explicitly set as requested"):
        make_pipeline(make(), KNeighborsClassifier(3)).fit(X, y, groups=groups)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("make", [TATMLPairs, PairThreshold])
def test_weights_reach_the_pairs_in_cross_validation(make):
    X, y = labelled()
    index, labels = labelled_pairs(y)
    pairs, weights = X[index], np.linspace(0, 3, len(index))
    model = make().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    folds = StratifiedKFold(3)
    found = cross_validate(
        model, pairs, labels, params={"sample_weight": weights}, cv=folds, return_estimator=True
    )
    for number, (train, test) in enumerate(folds.split(pairs, labels)):
        fitted = make().fit(pairs[train], labels[train], sample_weight=weights[train])
        assert found["estimator"][number].threshold_ == fitted.threshold_
        score = fitted.score(pairs[test], labels[test], sample_weight=weights[test])
        assert found["test_score"][number] == score


def test_what_is_not_metadata_is_not_routed():
    requests = TATMLPairs().get_metadata_routing()
    assert set(requests.fit.requests) == {"sample_weight", "calibration_params"}
    assert set(requests.score.requests) == {"sample_weight"}
    assert set(requests.predict.requests) == set()
    assert set(PairThreshold().get_metadata_routing().fit.requests) == {"sample_weight"}
    assert set(TATML().get_metadata_routing().fit.requests) == {"groups", "sample_weight"}


@pytest.mark.parametrize("make", [TATML, Maz, Euclidean])
def test_metrics_of_labels_say_that_samples_may_be_matrices(make):
    assert make().__sklearn_tags__().input_tags.three_d_array


# Saving and showing


def fitted_estimator(name, kind):
    X, y = labelled(kind)
    index, labels = labelled_pairs(y)
    estimator = {
        "TATML": TATML(**FEW, n_components=2),
        "Maz": Maz(threshold="search", thresholds=(0.5, 1.0), **FEW),
        "Euclidean": Euclidean(**FEW),
        "TATMLPairs": TATMLPairs(preprocessor=X, class_weight={-1: 1.0, 1: 2.0}),
        "PairThreshold": PairThreshold("manhattan", preprocessor=X),
    }[name]
    return (estimator.fit(index, labels) if "Pair" in name else estimator.fit(X, y)), X, index


def by_skops(estimator):
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(estimator)
    types = skops.get_untrusted_types(data=data)
    assert [name for name in types if not name.startswith("tatml.")] == []
    return skops.loads(data, trusted=types)


def by_joblib(estimator):
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    return joblib.load(file)


def by_pickle(estimator):
    return pickle.loads(pickle.dumps(estimator))


@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
@pytest.mark.parametrize("name", ["TATML", "Maz", "Euclidean", "TATMLPairs", "PairThreshold"])
def test_saving_keeps_everything_and_notebooks_show_it(name, kind):
    estimator, X, index = fitted_estimator(name, kind)
    estimator.set_threshold(1.25 * estimator.threshold_)
    for saved in (by_pickle, by_joblib, by_skops):
        assert_same_estimator(saved(estimator), estimator, X, index)
    for shown in (estimator, clone(estimator), make_pipeline(StandardScaler(), estimator)):
        assert name in estimator_html_repr(shown)
        assert name in shown._repr_html_()
    assert repr(estimator).startswith(name)


def assert_same_estimator(restored, estimator, X, index):
    assert vars(restored).keys() == vars(estimator).keys()
    assert type(restored) is type(estimator)
    assert_array_equal(restored.predict_pairs(index, X), estimator.predict_pairs(index, X))
    assert_array_equal(restored.pair_distance(index, X), estimator.pair_distance(index, X))
    assert (restored.threshold_, restored.b0_) == (estimator.threshold_, estimator.b0_)
    assert restored.block_shapes_ == estimator.block_shapes_
    assert getattr(restored, "search_scores_", None) == getattr(estimator, "search_scores_", None)
    if hasattr(estimator, "transform"):
        assert_array_equal(restored.transform(X), estimator.transform(X))
    if hasattr(estimator, "result_"):
        assert_same_result(restored.result_, estimator.result_)


def assert_same_result(result, expected):
    for W, V in zip(result.W, expected.W, strict=True):
        assert_array_equal(W, V)
    assert result.status is expected.status
    assert result.converged is expected.converged
    for name in ("b0", "primal", "dual", "gap", "n_iter", "tol"):
        assert getattr(result, name) == getattr(expected, name)
    assert_array_equal(result.multipliers, expected.multipliers)
    assert result.history.keys() == expected.history.keys()
    assert_array_equal(result.history["gap"], expected.history["gap"])
