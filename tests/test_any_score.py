"""PairThreshold and the functions of `tatml.verification` on the scores of any model."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from signed_helpers import known_pairs
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

from tatml import TATML, Blocks, Euclidean, PairThreshold
from tatml._estimators.posteriors import posterior_scores
from tatml.io import export, load_model, save_model
from tatml.plotting import (
    DetDisplay,
    ErrorRateDisplay,
    PairDistanceDisplay,
    ReliabilityDisplay,
)
from tatml.verification import PairKFold, error_rates, report

TARGETS = {
    "accuracy": {},
    "f_beta": {"beta": 0.5},
    "max_tpr": {"min_rate": 0.9},
    "max_tnr": {"min_rate": 0.9},
    "false_match_rate": {"max_rate": 0.05},
    "false_non_match_rate": {"max_rate": 0.1},
    "precision": {"min_rate": 0.6, "same_rate": 0.5},
}
X, CLASS = load_iris(return_X_y=True)
INDEX = np.random.default_rng(0).integers(len(X), size=(400, 2))
Y = np.where(CLASS[INDEX[:, 0]] == CLASS[INDEX[:, 1]], 1, -1)


def lower(**options):
    return PairThreshold("precomputed", **options)


def higher(**options):
    return PairThreshold("precomputed", greater_is_same=True, **options)


def classifier():
    return LogisticRegression(max_iter=1000).fit(X[::2], CLASS[::2])


def by_posteriors(model=None, **options):
    return PairThreshold("posteriors", classifier=model or classifier(), **options)


def groups_of(n_pairs, n_groups=60, seed=0):
    """Return two groups for each pair, so that many pairs share one."""
    return np.random.default_rng(seed).integers(n_groups, size=(n_pairs, 2))


# The direction


@pytest.mark.parametrize("class_weight", ["balanced", None])
def test_a_score_is_judged_as_its_negative_is(class_weight):
    q, y = known_pairs(0)
    one, other = lower(class_weight=class_weight), higher(class_weight=class_weight)
    one.fit(q, y).calibrate_probability(q, y)
    other.fit(-q, y).calibrate_probability(-q, y)
    assert_array_equal(other.pair_score(-q), -q)
    assert (other.threshold_, other.b0_, other.any_sign_) == (one.threshold_, one.b0_, True)
    assert_array_equal(other.predict(-q), one.predict(q))
    assert_array_equal(other.predict(-q) > 0, -q > -other.threshold_)
    assert_array_equal(other.decision_function(-q), one.decision_function(q))
    assert_array_equal(other.predict_proba(-q), one.predict_proba(q))
    assert other.score(-q, y) == one.score(q, y) > 0.9


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.parametrize("strategy", TARGETS)
def test_a_calibrated_score_has_the_threshold_and_the_promise_of_its_negative(
    strategy, promised, shared
):
    q, y = known_pairs(1)
    groups = groups_of(len(q)) if shared else None
    options = dict(TARGETS[strategy])
    if "max_rate" in options:
        options["confidence"] = 0.9 if promised else None
    one = lower().calibrate_threshold(q, y, strategy, groups=groups, **options)
    other = higher().calibrate_threshold(-q, y, strategy, groups=groups, **options)
    assert other.threshold_ == one.threshold_
    assert other.calibration_ == one.calibration_
    if promised and shared and "max_rate" in options:
        assert other.calibration_.method == "approximate"


def test_a_score_has_the_rates_and_the_report_of_its_negative():
    q, y = known_pairs(2)
    groups, by = groups_of(len(q)), np.arange(len(q)) % 2
    one, other = lower().set_threshold(-0.3), higher().set_threshold(-0.3)
    rates = error_rates(one, q, y, groups=groups)
    assert error_rates(other, -q, y, groups=groups) == rates
    assert rates.false_match.value == np.mean(q[y < 0] < -0.3)
    one.calibrate_probability(q, y, same_rate=0.2)
    other.calibrate_probability(-q, y, same_rate=0.2)
    first = report(one, q, y, groups=groups, by=by)
    second = report(other, -q, y, groups=groups, by=by)
    assert replace(second, of_scores=False) == first
    assert second.of_scores
    assert "its score is above minus the threshold" in str(second)
    assert "minus the threshold" not in str(first)
    assert first.unit == "groups"


def test_distances_are_not_scores_of_the_other_sign():
    """Minus a distance is judged by a regression, and has no margin and no square."""
    q, y = known_pairs(3)
    distances = np.abs(q)
    assert lower().fit(distances, y).any_sign_ is False
    assert higher().fit(-distances, y).any_sign_ is True
    assert not hasattr(higher().fit(-distances, y), "pair_distance")
    with pytest.raises(ValueError, match=r"margin: expected .* for values of any sign"):
        higher(margin=(0.4, 2.0)).fit(-distances, y)
    positive = higher().fit(distances, -y)
    assert -positive.threshold_ > 0


@pytest.mark.parametrize("change", [np.exp, np.arctan, lambda s: s**3, lambda s: 5 * s - 100])
def test_an_increasing_map_of_scores_changes_no_rate(change):
    q, y = known_pairs(4)
    plain, changed = report(higher(), -q, y), report(higher(), change(-q), y)
    assert (plain.auc, plain.equal_error_rate) == (changed.auc, changed.equal_error_rate)
    assert plain.least_cost == changed.least_cost
    for one, other in zip(plain.points, changed.points, strict=True):
        assert (one.name, one.false_match, one.false_non_match) == (
            other.name,
            other.false_match,
            other.false_non_match,
        )


# Scores alone need no fit


def test_scores_alone_are_reported_without_a_fit_and_without_a_threshold():
    q, y = known_pairs(5)
    found = report(higher(), -q, y)
    assert [point.name for point in found.points][:2] == [
        "equal error rate",
        "least detection cost",
    ]
    assert (found.actual_cost, found.balanced_accuracy) == (None, None)
    fitted = report(higher().fit(-q, y), -q, y)
    assert fitted.points[0].name == "estimator"
    assert fitted.points[1:] == found.points


def test_scores_are_calibrated_and_saved_without_a_fit(tmp_path):
    pytest.importorskip("skops")
    q, y = known_pairs(6)
    judge = higher().calibrate_threshold(-q, y, "false_match_rate", max_rate=0.05)
    judge.calibrate_probability(-q, y, same_rate=0.1)
    fitted = higher().fit(-q, y).calibrate_threshold(-q, y, "false_match_rate", max_rate=0.05)
    assert judge.threshold_ == fitted.threshold_
    assert judge.calibration_ == fitted.calibration_
    found = load_model(save_model(judge, tmp_path / "judge.skops")).estimator
    assert_array_equal(found.predict_proba(-q), judge.predict_proba(-q))
    assert_array_equal(found.predict(-q), judge.predict(-q))


def test_without_a_threshold_decisions_are_refused():
    with pytest.raises(NotFittedError, match=r"call calibrate_threshold .* or set_threshold"):
        higher().predict([0.1, 0.2])
    with pytest.raises(TypeError, match="without threshold_; call fit with labelled pairs, calib"):
        error_rates(higher(), [0.1, 0.2], [-1, 1])
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        report(PairThreshold("cosine"), X[INDEX], Y)


def test_a_fitted_judge_of_distances_refuses_negative_ones_and_one_without_fit_takes_them():
    q, y = known_pairs(6)
    assert_array_equal(lower().pair_score(q), -q)
    with pytest.raises(ValueError, match="pairs: expected finite distances of at least 0"):
        lower().fit(np.abs(q), y).pair_score(q)


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_scores_that_are_not_finite_are_refused(wrong):
    q, y = known_pairs(7)
    q[5] = wrong
    hint = "$" if np.isnan(wrong) else "; put a finite number beyond all others in its place$"
    for call in (higher().calibrate_threshold, higher().fit, higher().calibrate_probability):
        with pytest.raises(ValueError, match=f"pairs: expected .*for pair 5{hint}"):
            call(q, y)
    with pytest.raises(ValueError, match=r"pairs: expected .*for pair 5"):
        report(higher(), q, y)


def test_a_finite_number_beyond_all_others_stands_for_infinity():
    """The advice of the message: the rates are those of the order, whatever the number is."""
    q, y = known_pairs(7)
    scores = -q
    scores[:5], scores[-5:] = 50.0, -50.0
    other = np.where(np.abs(scores) == 50, 1e6 * scores, scores)
    target = {"strategy": "false_match_rate", "max_rate": 0.05}
    one, two = (higher().calibrate_threshold(values, y, **target) for values in (scores, other))
    assert one.threshold_ == two.threshold_
    assert report(higher(), scores, y).auc == report(higher(), other, y).auc


def test_scores_of_one_value_tell_nothing():
    scores, y = np.full(40, 0.7), np.repeat([1, -1], 20)
    found = report(higher(), scores, y)
    assert (found.auc, found.equal_error_rate) == (0.5, 0.5)
    with pytest.warns(UserWarning, match="likelihood ratio of all pairs is set to 0"):
        judge = higher().calibrate_probability(scores, y)
    assert_array_equal(judge.pair_probability(scores), 0.5)
    judge.calibrate_threshold(scores, y, "false_match_rate", max_rate=0.2)
    assert not np.any(judge.predict(scores) > 0)


# Functions


def cosine(u, v):
    return u @ v / np.sqrt((u @ u) * (v @ v))


def test_a_function_is_judged_as_its_values_are():
    values = np.array([cosine(*pair) for pair in X[INDEX]])
    judge = PairThreshold(cosine, greater_is_same=True, preprocessor=X).fit(INDEX, Y)
    of_values = higher().fit(values, Y)
    assert judge.threshold_ == pytest.approx(of_values.threshold_, rel=1e-12)
    assert_allclose(judge.pair_score(INDEX), values, rtol=1e-12)
    target = {"strategy": "false_match_rate", "max_rate": 0.2, "groups": INDEX}
    judge.calibrate_threshold(INDEX, Y, **target)
    of_values.calibrate_threshold(judge.pair_score(INDEX), Y, **target)
    assert judge.threshold_ == of_values.threshold_
    assert judge.calibration_ == of_values.calibration_
    found = report(judge, INDEX, Y, groups=INDEX)
    assert found == report(of_values, judge.pair_score(INDEX), Y, groups=INDEX)


def test_a_function_may_have_negative_scores():
    judge = PairThreshold(lambda u, v: -np.sum((u - v) ** 2), greater_is_same=True)
    judge.fit(X[INDEX], Y)
    distances = PairThreshold().fit(X[INDEX], Y).pair_distance(X[INDEX])
    assert_allclose(judge.pair_score(X[INDEX]), -(distances**2), rtol=1e-12, atol=1e-12)
    assert_array_equal(judge.predict(X[INDEX]) > 0, distances**2 < judge.threshold_)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda u, v: np.ones(2), "expected a function of two samples that returns one number"),
        (lambda u: 1.0, "expected a function of two samples that returns one number"),
        (lambda u, v: np.nan, "expected finite numbers, got nan for pair 0"),
    ],
)
def test_what_is_no_score_of_two_samples_is_refused(function, words):
    with pytest.raises((TypeError, ValueError), match=f"metric: .*{words}"):
        PairThreshold(function, greater_is_same=True).fit(X[INDEX], Y)


# Class posteriors


def test_the_score_of_posteriors_is_the_sum_over_the_classes():
    model = classifier()
    judge = by_posteriors(model, preprocessor=X).fit(INDEX, Y)
    posteriors = model.predict_proba(X)
    expected = [sum(posteriors[i, k] * posteriors[j, k] for k in range(3)) for i, j in INDEX]
    scores = judge.pair_score(INDEX)
    assert_allclose(scores, expected, rtol=1e-12)
    assert_array_equal(judge.pair_score(INDEX[:, ::-1]), scores)
    assert 0 <= scores.min() < scores.max() <= 1
    assert_allclose(posterior_scores(judge, INDEX, chunk_numbers=1), expected, rtol=1e-12)


@pytest.mark.parametrize("form", ["array", "function", "X", "pairs", "Blocks"])
def test_the_form_of_the_pairs_does_not_matter(form):
    model = classifier()
    expected = by_posteriors(model, preprocessor=X).fit(INDEX, Y)
    if form == "Blocks":
        model = make_pipeline(TATML(random_state=0), LogisticRegression())
        model.fit(Blocks(X[::2]), CLASS[::2])
        expected = by_posteriors(model, preprocessor=X).fit(INDEX, Y)
    found = {"array": X.tolist(), "function": lambda rows: X[rows], "Blocks": Blocks(X)}
    judge = by_posteriors(model, preprocessor=found.get(form))
    if form in ("X", "pairs"):
        judge.fit(X[INDEX], Y)
        given = (INDEX, X) if form == "X" else (X[INDEX],)
    else:
        judge.fit(INDEX, Y)
        given = (INDEX,)
    assert_allclose(judge.pair_score(*given), expected.pair_score(INDEX), rtol=1e-9)
    assert judge.threshold_ == pytest.approx(expected.threshold_, rel=1e-6)


def test_if_classes_are_known_the_score_is_the_probability_of_one_class():
    """Classes that are drawn by their posteriors agree as often as the scores say."""
    rng = np.random.default_rng(0)
    posteriors = rng.dirichlet(np.full(4, 0.5), size=3000)
    drawn = np.array([rng.choice(4, p=row) for row in posteriors])

    class Known:
        def predict_proba(self, rows):
            return posteriors[np.ravel(rows).astype(int)]

    index = rng.permutation(3000).reshape(-1, 2)
    same = drawn[index[:, 0]] == drawn[index[:, 1]]
    judge = by_posteriors(Known(), preprocessor=np.arange(3000.0)[:, None])
    scores = judge.fit(index, np.where(same, 1, -1)).pair_score(index)
    for part in np.array_split(np.argsort(scores), 3):
        error = np.sum(same[part] - scores[part])
        assert abs(error) < 4 * np.sqrt(np.sum(scores[part] * (1 - scores[part])))


def test_certain_posteriors_separate_the_classes():
    model = RandomForestClassifier(20, bootstrap=False, random_state=0).fit(X, CLASS)
    judge = by_posteriors(model, preprocessor=X).fit(INDEX, Y)
    assert judge.score(INDEX, Y) == 1.0
    assert_array_equal(judge.predict(INDEX), Y)


def test_posteriors_are_judged_as_their_values_are():
    judge = by_posteriors(preprocessor=X).fit(INDEX, Y)
    scores = judge.pair_score(INDEX)
    target = {"strategy": "false_match_rate", "max_rate": 0.2, "groups": INDEX}
    judge.calibrate_threshold(INDEX, Y, **target).calibrate_probability(INDEX, Y)
    of_scores = higher().calibrate_threshold(scores, Y, **target).calibrate_probability(scores, Y)
    assert judge.threshold_ == of_scores.threshold_
    found = report(judge, INDEX, Y, groups=INDEX)
    assert found == report(of_scores, scores, Y, groups=INDEX)
    assert_array_equal(judge.pair_probability(INDEX), of_scores.pair_probability(scores))


class Recorder(LogisticRegression):
    """A classifier that notes the types of what it is given."""

    def predict_proba(self, rows):
        self.seen = [*getattr(self, "seen", []), type(rows).__name__]
        return super().predict_proba(rows)


def test_the_classifier_is_given_the_samples_in_their_own_form():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = Recorder(max_iter=1000).fit(frame, CLASS)
    judge = by_posteriors(model, preprocessor=frame).fit(INDEX, Y)
    assert_array_equal(judge.pair_score(INDEX, frame.copy()), judge.pair_score(INDEX))
    sparse = scipy.sparse.csr_array(X)
    model = Recorder(max_iter=1000).fit(sparse, CLASS)
    other = by_posteriors(model, preprocessor=sparse).fit(INDEX, Y)
    assert judge.classifier.seen == ["DataFrame"] * 3
    assert other.classifier.seen == ["csr_array"]
    assert_allclose(other.pair_score(INDEX), judge.pair_score(INDEX), atol=0.01)


def test_categories_and_texts_reach_the_classifier():
    rng = np.random.default_rng(0)
    words = np.array(["cat", "dog", "bird"])[rng.integers(3, size=60)]
    index = rng.integers(60, size=(80, 2))
    y = np.where(words[index[:, 0]] == words[index[:, 1]], 1, -1)
    frame = pd.DataFrame({"word": words, "number": rng.normal(size=60)})
    columns = make_column_transformer((OneHotEncoder(), ["word"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression()).fit(frame, words)
    assert by_posteriors(model, preprocessor=frame).fit(index, y).score(index, y) == 1.0
    texts = [f"a {word} here" for word in words]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, words)
    judge = by_posteriors(model, preprocessor=texts).fit(index, y)
    assert judge.score(index, y) == report(judge, index, y).auc == 1.0


def test_a_frozen_classifier_is_cloned_and_another_one_is_refused_by_name():
    judge = by_posteriors(FrozenEstimator(classifier()), preprocessor=X)
    folds = {"cv": PairKFold(2, shuffle=True, random_state=0)}
    assert cross_val_score(judge, INDEX, Y, **folds).mean() > 0.9
    with pytest.raises(ValueError, match=r"classifier: .*which is not fitted; .*FrozenEstimator"):
        clone(by_posteriors(preprocessor=X)).fit(INDEX, Y)


class Wrong:
    """A classifier whose probabilities are what it is made with."""

    def __init__(self, found):
        self.found = found

    def predict_proba(self, rows):
        return self.found(len(rows)) if callable(self.found) else self.found


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (None, TypeError, "a fitted classifier with predict_proba, got None"),
        (LogisticRegression(), ValueError, r"a fitted classifier, got LogisticRegression\(\), whi"),
        (LogisticRegression, TypeError, "a fitted classifier with predict_proba, got <class"),
        (LinearSVC(), TypeError, r"a fitted classifier with predict_proba, got LinearSVC\(\)"),
        (Wrong(np.ones((3, 2))), ValueError, r"shape \(\d+, n_classes\).*got shape \(3, 2\)"),
        (Wrong(lambda n: np.ones((n, 1))), ValueError, r"two classes or more.*got shape \(\d+, 1"),
        (Wrong(lambda n: np.full((n, 2), np.nan)), ValueError, "probabilities from 0 to 1"),
        (Wrong(lambda n: np.full((n, 2), 2.0)), ValueError, "probabilities from 0 to 1"),
    ],
)
def test_what_is_no_classifier_is_refused(model, error, words):
    with pytest.raises(error, match=f"classifier: expected .*{words}"):
        PairThreshold("posteriors", classifier=model, preprocessor=X).fit(INDEX, Y)


@pytest.mark.parametrize(
    ("pairs", "error", "words"),
    [
        (INDEX, ValueError, r"pairs: expected .* got shape \(400, 2\); index pairs need"),
        (X, ValueError, r"pairs: expected an array of shape \(n_pairs, 2, n\)"),
        (X[INDEX][:, :, :2], ValueError, "classifier: X has 2 features, but LogisticRegression"),
    ],
)
def test_wrong_pairs_of_posteriors_are_refused(pairs, error, words):
    judge = by_posteriors().fit(X[INDEX], Y)
    with pytest.raises(error, match=words):
        judge.pair_score(pairs)
    with pytest.raises(ValueError, match="pairs: expected 0 ≤ index < n_samples = 150, got index"):
        judge.pair_score(INDEX + 100, X)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"greater_is_same": True}, "greater_is_same: expected False with metric='euclidean'"),
        ({"classifier": classifier()}, "classifier: expected None unless metric='posteriors', got"),
    ],
)
def test_a_distance_has_no_direction_and_no_classifier(options, words):
    with pytest.raises(ValueError, match=words):
        PairThreshold(**options).fit(X[INDEX], Y)


# Dependence


def test_scores_with_groups_have_the_promises_and_the_limits_of_index_pairs():
    metric = Euclidean().fit(X, CLASS)
    target = {"strategy": "false_match_rate", "max_rate": 0.2}
    metric.calibrate_threshold(INDEX, Y, X=X, **target)
    scores = -metric.pair_distance(INDEX, X)
    judge = higher().calibrate_threshold(scores, Y, groups=INDEX, **target)
    assert judge.threshold_ == metric.threshold_
    assert judge.calibration_ == metric.calibration_
    expected = report(metric, INDEX, Y, X)["estimator"]
    assert report(judge, scores, Y, groups=INDEX)["estimator"] == expected
    alone = report(judge, scores, Y)["estimator"].false_match
    assert alone.value == expected.false_match.value
    assert alone.n_effective > expected.false_match.n_effective


# Files and displays


@pytest.mark.parametrize("kind", ["precomputed", "posteriors", "cosine"])
def test_an_exported_threshold_makes_the_same_decisions(kind, tmp_path):
    judge = {
        "precomputed": higher(),
        "posteriors": by_posteriors(preprocessor=X),
        "cosine": PairThreshold("cosine", preprocessor=X),
    }[kind]
    pairs = Y + np.sin(np.arange(400.0)) if kind == "precomputed" else INDEX
    judge.fit(pairs, Y).calibrate_probability(pairs, Y)
    with np.load(export(judge, tmp_path / "judge.npz"), allow_pickle=False) as file:
        arrays = dict(file)
    values = judge.pair_score(pairs) if arrays["greater_is_same"] else judge.pair_distance(pairs)
    values = -values if arrays["greater_is_same"] else values
    assert arrays["metric"] == kind
    assert_array_equal(np.where(values < arrays["threshold"], 1, -1), judge.predict(pairs))
    a, b = arrays["likelihood_ratio"]
    odds = a - b * values + np.log(arrays["same_rate"] / (1 - arrays["same_rate"]))
    assert_allclose(1 / (1 + np.exp(-odds)), judge.pair_probability(pairs), rtol=1e-12)
    assert set(arrays) == {
        *("format", "metric", "greater_is_same", "threshold", "likelihood_ratio", "same_rate")
    }


def test_a_function_is_not_exported_and_the_message_says_what_to_do(tmp_path):
    pytest.importorskip("skops")
    judge = PairThreshold(cosine, greater_is_same=True).fit(X[INDEX], Y)
    for write, name in ((export, "judge.npz"), (save_model, "judge.skops")):
        with pytest.raises(TypeError, match=r"metric: .*not saved: fit PairThreshold\('precomput"):
            write(judge, tmp_path / name)
        assert not (tmp_path / name).exists()


def test_a_saved_judge_of_posteriors_leaves_the_classifier_out(tmp_path):
    pytest.importorskip("skops")
    model = classifier()
    judge = by_posteriors(model, preprocessor=X).fit(INDEX, Y).calibrate_probability(INDEX, Y)
    path = save_model(judge, tmp_path / "judge.skops")
    loaded = load_model(path)
    assert loaded.metadata["left_out"] == ["preprocessor", "classifier", "pair_weights_"]
    found = loaded.estimator
    assert judge.classifier is model
    with pytest.raises(TypeError, match=r"classifier: expected a fitted classifier .*got None"):
        found.pair_score(INDEX, X)
    found.set_params(classifier=model)
    assert_array_equal(found.pair_probability(INDEX, X), judge.pair_probability(INDEX))


@pytest.mark.parametrize(
    "display", [DetDisplay, ErrorRateDisplay, PairDistanceDisplay, ReliabilityDisplay]
)
def test_scores_are_drawn(display):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    q, y = known_pairs(8)
    judge = higher().set_threshold(-0.2).calibrate_probability(-q, y)
    drawn = display.from_estimator(judge, -q, y)
    if display is PairDistanceDisplay:
        assert_array_equal(drawn.distances, q)
        assert drawn.error_rates == (np.mean(q[y > 0] >= -0.2), np.mean(q[y < 0] < -0.2))
    if display in (DetDisplay, ErrorRateDisplay):
        assert drawn.report.auc == judge.score(-q, y)
    pyplot.close(drawn.figure_)


def test_a_det_curve_of_scores_alone():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    q, y = known_pairs(8)
    drawn = DetDisplay.from_estimator(higher(), -q, y, groups=groups_of(len(q)))
    assert drawn.report == report(higher(), -q, y, groups=groups_of(len(q)))
    pyplot.close(drawn.figure_)
