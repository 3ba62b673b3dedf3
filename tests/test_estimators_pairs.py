"""TATMLPairs and PairThreshold: classifiers of pairs, fitted to pairs with labels ±1."""

import re
from math import sqrt

import numpy as np
import pytest
from estimators_helpers import (
    JOINT,
    as_list,
    balanced_weights,
    best_b0,
    labelled,
    labelled_pairs,
    squared_distances,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import balanced_accuracy_score, fbeta_score, roc_auc_score
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.preprocessing import StandardScaler

from tatml import TATML, PairThreshold, TATMLPairs, learn_metric


def vector_pairs(n_pairs=120):
    """Return pairs of vectors (n_pairs, 2, 4) with labels, and held-out pairs with labels."""
    X, y = labelled()
    index, labels = labelled_pairs(y, 2 * n_pairs)
    return X[index[:n_pairs]], labels[:n_pairs], X[index[n_pairs:]], labels[n_pairs:]


def assert_same_fit(first, second, rtol=1e-6):
    matrices = [as_list(estimator.get_mahalanobis_matrix()) for estimator in (first, second)]
    for W, expected in zip(*matrices, strict=True):
        assert_allclose(W, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected)))
    assert_allclose(first.threshold_, second.threshold_, rtol=rtol)
    assert_allclose(first.b0_, second.b0_, rtol=rtol)


ESTIMATORS = [TATMLPairs(), PairThreshold(), PairThreshold("cosine")]

# A classifier of pairs


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_a_pair_is_the_same_if_its_decision_is_positive(estimator):
    pairs, labels, held_out, truth = vector_pairs()
    model = clone(estimator).fit(pairs, labels)
    assert is_classifier(model)
    assert_array_equal(model.classes_, [-1, 1])
    decision, verdict = model.decision_function(held_out), model.predict(held_out)
    assert_array_equal(verdict, np.where(decision > 0, 1, -1))
    assert_array_equal(verdict, model.predict_pairs(held_out))
    assert_allclose(decision, model.threshold_ - model.pair_distance(held_out))
    assert set(verdict) == {-1, 1}
    assert model.score(held_out, truth) == roc_auc_score(truth, -model.pair_distance(held_out))
    weights = np.linspace(0, 1, len(truth))
    assert model.score(held_out, truth, weights) == roc_auc_score(
        truth, decision, sample_weight=weights
    )
    score = model.score(held_out, truth)
    assert model.set_threshold(0.01).score(held_out, truth) == score
    assert model.threshold_ == 0.01


def test_a_pair_at_the_threshold_is_different():
    pairs, labels, *_ = vector_pairs()
    model = PairThreshold().fit(pairs, labels).set_threshold(5.0)
    at, below = [[[0, 0, 0, 0], [3, 4, 0, 0]]], [[[0, 0, 0, 0], [3, 3.9, 0, 0]]]
    assert model.decision_function(at) == [0.0]
    assert model.predict(at) == [-1]
    assert model.predict(below) == [1]


@pytest.mark.parametrize("kind", ["vectors", "three blocks"])
def test_pairs_that_tatml_drew_give_its_metric(kind):
    X, y = labelled(kind)
    options = {"C": 100.0, "margin": (0.6, 1.9), "threshold_strength": 0.5, "prior": "auto"} | JOINT
    drawn = TATML(**options, pairs="all").fit(X, y)
    labels = np.where(drawn.similar_, 1, -1)
    assert np.sum(labels > 0) != np.sum(labels < 0)
    model = TATMLPairs(**options, preprocessor=X)
    assert_same_fit(model.fit(drawn.pairs_, labels), drawn)
    assert_array_equal(model.transform(X), model.transform(np.arange(60)))
    assert_allclose(model.pair_distance(drawn.pairs_), drawn.pair_distance(drawn.pairs_, X))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_parameters_are_the_symbols_of_the_paper(reduction):
    pairs, labels, *_ = vector_pairs()
    weights = np.random.default_rng(0).uniform(0.1, 3, size=len(labels))
    options = JOINT | {"threshold_strength": 0.4, "reduction": reduction, "tol": 1e-11}
    model = TATMLPairs(C=3.0, class_weight=None, **options)
    model.fit(pairs, labels, sample_weight=weights)
    X, index = pairs.reshape(-1, 4), np.arange(2 * len(pairs)).reshape(-1, 2)
    c = 3.0 / weights.sum() if reduction == "mean" else 3.0
    result = learn_metric(
        X,
        index,
        labels > 0,
        C=c,
        c0=0.4 * c * weights.sum(),
        mu0=np.average(squared_distances(X, [model.prior_], index), weights=weights),
        prior=model.prior_,
        weights=weights,
        tol=1e-11,
    )
    assert_allclose(model.result_.W[0], result.W[0], rtol=1e-6, atol=1e-8)
    assert_allclose(model.b0_, result.b0, rtol=1e-6)
    assert_array_equal(model.pairs_, index)
    assert_array_equal(model.similar_, labels > 0)


# Weights


@pytest.mark.parametrize("prior", ["auto", "identity"])
def test_the_mean_does_not_depend_on_the_number_of_pairs_and_the_sum_does(prior):
    pairs, labels, *_ = vector_pairs()
    twice, both = np.concatenate([pairs, pairs]), np.concatenate([labels, labels])
    options = JOINT | {"prior": prior, "tol": 1e-12}
    once = TATMLPairs(C=5.0, **options).fit(pairs, labels)
    assert_same_fit(TATMLPairs(C=5.0, **options).fit(twice, both), once)
    summed = TATMLPairs(C=0.01, **options, reduction="sum").fit(twice, both)
    doubled = TATMLPairs(C=0.02, **options, reduction="sum").fit(pairs, labels)
    assert_same_fit(summed, doubled)
    plain = TATMLPairs(C=0.01, **options, reduction="sum").fit(pairs, labels)
    assert not np.allclose(plain.components_, summed.components_, rtol=1e-3)


@pytest.mark.parametrize(
    ("prior", "reduction", "class_weight"),
    [
        ("auto", "mean", "balanced"),
        ("identity", "mean", None),
        ("scaled", "mean", {-1: 0.3, 1: 2.0}),
        ("auto", "sum", None),
        ("identity", "sum", "balanced"),
    ],
)
def test_a_weight_of_two_is_a_pair_given_twice(prior, reduction, class_weight):
    pairs, labels, *_ = vector_pairs()
    counts = np.random.default_rng(0).integers(1, 4, size=len(labels))
    options = JOINT | {"C": 5.0, "prior": prior, "tol": 1e-12, "reduction": reduction}
    options["class_weight"] = class_weight
    weighted = TATMLPairs(**options).fit(pairs, labels, sample_weight=counts)
    repeated = TATMLPairs(**options).fit(
        np.repeat(pairs, counts, axis=0), np.repeat(labels, counts)
    )
    assert_same_fit(weighted, repeated)
    assert abs(weighted.threshold_ / TATMLPairs(**options).fit(pairs, labels).threshold_ - 1) > 1e-4


@pytest.mark.parametrize(
    ("prior", "n_components", "class_weight"),
    [
        ("auto", None, "balanced"),
        ("identity", 2, "balanced"),
        ("within", None, None),
        ("within", 2, {-1: 0.3, 1: 2.0}),
        ("covariance", None, {-1: 0.3, 1: 2.0}),
        ("discriminant", 2, None),
    ],
)
def test_a_weight_of_zero_is_a_pair_left_out(prior, n_components, class_weight):
    pairs, labels, *_ = vector_pairs()
    keep = np.arange(len(labels)) % 4 > 0
    pairs = np.where(
        keep[:, None, None], pairs, 10 * pairs[:, :, ::-1]
    )  # wrong values in the pairs left out
    options = {"C": 5.0, "prior": prior, "n_components": n_components, "tol": 1e-12}
    options["class_weight"] = class_weight
    weighted = TATMLPairs(**options).fit(pairs, labels, sample_weight=keep.astype(float))
    assert_same_fit(weighted, TATMLPairs(**options).fit(pairs[keep], labels[keep]))


def test_active_pairs_are_numbered_in_the_given_order():
    pairs, labels, *_ = vector_pairs()
    weights = np.where(np.arange(len(labels)) % 4 > 0, 1.0, 0.0)
    model = TATMLPairs(tol=1e-10).fit(pairs, labels, sample_weight=weights)
    gamma = np.where(labels > 0, *model.margin)
    violation = labels * (model.pair_distance(pairs) ** 2 - gamma * model.b0_)
    assert_array_equal(model.result_.active, np.flatnonzero((violation > 0) & (weights > 0)))
    assert_array_equal(model.similar_, labels > 0)


@pytest.mark.filterwarnings("ignore:threshold_")  # the weights ask for "same" always
@pytest.mark.parametrize("make", [TATMLPairs, PairThreshold])
def test_class_weights_multiply_the_weights_of_the_pairs(make):
    pairs, labels, *_ = vector_pairs()
    weights = np.linspace(0.5, 2, len(labels))
    by_class = make(class_weight={-1: 0.3, 1: 2.0}).fit(pairs, labels, sample_weight=weights)
    weights = weights * np.where(labels > 0, 2.0, 0.3)
    expected = make(class_weight=None).fit(pairs, labels, sample_weight=weights)
    assert by_class.threshold_ == pytest.approx(expected.threshold_)


@pytest.mark.parametrize("sample_weight", [None, np.linspace(0, 3, 120)], ids=["none", "given"])
@pytest.mark.parametrize("make", [TATMLPairs, PairThreshold])
def test_by_default_both_kinds_of_pairs_have_the_same_weight(make, sample_weight):
    pairs, labels, *_ = vector_pairs()
    assert make().class_weight == "balanced"
    by_default = make().fit(pairs, labels, sample_weight)
    given = np.ones(len(labels)) if sample_weight is None else sample_weight
    totals = [given[labels == label].sum() for label in (-1, 1)]
    explicit = given * given.sum() / 2 / np.where(labels > 0, totals[1], totals[0])
    assert_allclose(by_default.pair_weights_, explicit, rtol=1e-12)
    expected = make(class_weight=None).fit(pairs, labels, explicit)
    assert by_default.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)
    unweighted = make(class_weight=None).fit(pairs, labels, sample_weight)
    assert by_default.threshold_ != pytest.approx(unweighted.threshold_, rel=1e-3)


def pairs_with_a_share(n_similar, n_dissimilar, seed):
    """Return pairs of vectors; the differences of similar pairs are smaller."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([1, -1], [n_similar, n_dissimilar]))
    first = rng.normal(size=(len(labels), 3))
    step = rng.normal(size=first.shape) * np.where(labels > 0, 0.5, 1.5)[:, None]
    return np.stack([first, first + step], axis=1), labels


@pytest.mark.parametrize("make", [TATMLPairs, PairThreshold])
def test_balancing_rare_similar_pairs_is_the_same_as_repeating_them(make):
    pairs, labels = pairs_with_a_share(40, 360, seed=0)
    times = np.where(labels > 0, 9, 1)
    even, both = np.repeat(pairs, times, axis=0), np.repeat(labels, times)
    assert both.sum() == 0
    options = JOINT | {"tol": 1e-12} if make is TATMLPairs else {}
    model = make(**options).fit(pairs, labels)
    for class_weight in ("balanced", None):
        repeated = make(**options, class_weight=class_weight).fit(even, both)
        assert_allclose(model.threshold_, repeated.threshold_, rtol=1e-6)
        assert_allclose(model.decision_function(pairs), repeated.decision_function(pairs), 1e-5)


@pytest.mark.parametrize("make", [TATMLPairs, PairThreshold])
def test_the_share_of_similar_pairs_does_not_move_the_threshold(make):
    """Up to sampling errors. Without class weights it does."""
    rare, even = pairs_with_a_share(400, 3600, seed=1), pairs_with_a_share(2000, 2000, seed=2)
    model, expected = make().fit(*rare), make().fit(*even)
    unweighted = make(class_weight=None).fit(*rare)
    assert_allclose(model.threshold_, expected.threshold_, rtol=0.03)
    # Compared in the units of the vectors, because TATMLPairs scales its distances.
    held_out, _ = pairs_with_a_share(1000, 1000, seed=3)
    delta = np.linalg.norm(held_out[:, 0] - held_out[:, 1], axis=1)
    radius, wanted, moved = (
        each.threshold_ * np.mean(delta / each.pair_distance(held_out))
        for each in (model, expected, unweighted)
    )
    assert_allclose(radius, wanted, rtol=0.05)
    assert abs(moved / wanted - 1) > 0.07


# Ways to give pairs


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_index_pairs_stand_for_samples(estimator):
    X, y = labelled()
    index, labels = labelled_pairs(y)
    plain = clone(estimator).fit(X[index], labels)
    names = np.array([f"image {i:03}" for i in range(len(X))])

    def find(indicators):
        return X[[int(name.split()[1]) for name in indicators]]

    for preprocessor, pairs in ((X, index), (X.tolist(), index.tolist()), (find, names[index])):
        model = clone(estimator).set_params(preprocessor=preprocessor).fit(pairs, labels)
        assert_allclose(model.threshold_, plain.threshold_, rtol=1e-6)
        assert_allclose(
            model.decision_function(pairs), plain.decision_function(X[index]), atol=1e-6
        )
        assert_array_equal(model.predict(X[index]), plain.predict(X[index]))


@pytest.mark.parametrize("make", [TATMLPairs, PairThreshold])
def test_pairs_of_matrices_have_four_axes(make):
    X, y = labelled("matrices")
    index, labels = labelled_pairs(y)
    model = make().fit(X[index], labels)
    assert model.block_shapes_ == ((3, 4),)
    assert model.n_features_in_ == 12
    by_index = make(preprocessor=X).fit(index, labels)
    assert_allclose(model.decision_function(X[index]), by_index.decision_function(index), atol=1e-6)
    frobenius = make(**{"C": 1e-9, "prior": "identity"} if make is TATMLPairs else {})
    delta = X[index[:, 0]] - X[index[:, 1]]
    distance = frobenius.fit(X[index], labels).pair_distance(X[index])
    assert_allclose(distance, np.linalg.norm(delta, axis=(1, 2)), rtol=1e-6)


def test_transform_takes_samples_and_fit_transform_is_refused():
    pairs, labels, held_out, _ = vector_pairs()
    model = TATMLPairs(n_components=2).fit(pairs, labels)
    embedded = model.transform(held_out.reshape(-1, 4)).reshape(-1, 2, 2)
    distance = np.linalg.norm(embedded[:, 0] - embedded[:, 1], axis=1)
    assert_allclose(model.pair_distance(held_out), distance)
    with pytest.raises(
        AttributeError, match=r"fit_transform: .* call fit\(pairs, y\), then transform"
    ):
        TATMLPairs().fit_transform(pairs, labels)


# Calibrated thresholds


def rates(truth, same):
    """Return the true positive rate and the true negative rate."""
    return np.mean(same[truth > 0]), np.mean(~same[truth < 0])


def with_tnr(least):
    return lambda truth, same: rates(truth, same)[0] if rates(truth, same)[1] >= least else -1.0


def with_tpr(least):
    return lambda truth, same: rates(truth, same)[1] if rates(truth, same)[0] >= least else -1.0


STRATEGIES = {
    "accuracy": ({}, lambda truth, same: np.mean((truth > 0) == same)),
    "f_beta": ({"beta": 0.7}, lambda truth, same: fbeta_score(truth > 0, same, beta=0.7)),
    "max_tpr": ({"min_rate": 0.9}, with_tnr(0.9)),
    "max_tnr": ({"min_rate": 0.8}, with_tpr(0.8)),
    "false_match_rate": ({"max_rate": 0.1, "confidence": None}, with_tnr(0.9)),
}


@pytest.mark.parametrize("make", [TATMLPairs, PairThreshold])
def test_no_other_threshold_is_better_for_the_target(make):
    pairs, labels, held_out, truth = vector_pairs(40)
    model = make().fit(pairs, labels)
    own = ("threshold_", "calibration_")
    fitted = {key: value for key, value in vars(model).items() if key not in own}
    distances = model.pair_distance(held_out)
    for name, (options, quality) in STRATEGIES.items():
        assert model.calibrate_threshold(held_out, truth, strategy=name, **options) is model
        assert all(vars(model)[key] is value for key, value in fitted.items()), name
        found = quality(truth, model.predict(held_out) > 0)
        for threshold in np.append(1e-9, np.nextafter(distances, np.inf)):
            assert quality(truth, distances < threshold) <= found, name
        assert found > 0, name


def test_calibration_inside_fit_is_calibration_on_the_same_pairs():
    pairs, labels, *_ = vector_pairs()
    target = {"strategy": "false_match_rate", "max_rate": 0.02}
    inside = TATMLPairs().fit(pairs, labels, calibration_params=target)
    after = TATMLPairs().fit(pairs, labels)
    assert inside.b0_ == after.b0_
    assert inside.threshold_ < after.threshold_
    after.calibrate_threshold(pairs, labels, **target, confidence=None)
    assert inside.threshold_ == after.threshold_
    assert inside.calibration_ == after.calibration_
    assert inside.calibration_.method == "quantile"
    assert not hasattr(inside.fit(pairs, labels), "calibration_")


@pytest.mark.parametrize("estimator", ESTIMATORS[:2], ids=str)
def test_scikit_learn_calibrates_probabilities_and_thresholds(estimator):
    pairs, labels, held_out, truth = vector_pairs()
    fitted = clone(estimator).fit(pairs, labels)
    score = fitted.score(held_out, truth)
    for model in (estimator, FrozenEstimator(fitted)):
        calibrated = CalibratedClassifierCV(model, cv=2).fit(pairs, labels)
        chance = calibrated.predict_proba(held_out)
        assert_array_equal(calibrated.classes_, [-1, 1])
        assert_allclose(chance.sum(axis=1), 1)
        assert abs(roc_auc_score(truth, chance[:, 1]) - score) < 0.05
    assert_allclose(  # with a frozen metric, the probability is a function of the distance
        np.argsort(chance[:, 1], kind="stable"),
        np.argsort(fitted.decision_function(held_out), kind="stable"),
    )
    tuned = TunedThresholdClassifierCV(
        FrozenEstimator(fitted), cv="prefit", refit=False, thresholds=30
    ).fit(held_out, truth)
    balanced = balanced_accuracy_score(truth, tuned.predict(held_out))
    assert balanced >= balanced_accuracy_score(truth, fitted.predict(held_out)) - 0.02
    by_folds = TunedThresholdClassifierCV(estimator, cv=2, thresholds=20).fit(pairs, labels)
    shifted = fitted.decision_function(held_out) > by_folds.best_threshold_
    assert_array_equal(by_folds.predict(held_out), np.where(shifted, 1, -1))


def test_scikit_learn_validates_and_searches():
    pairs, labels, *_ = vector_pairs()
    folds = StratifiedKFold(3)
    grid = GridSearchCV(TATMLPairs(), {"C": [1e-3, 1e3]}, cv=folds).fit(pairs, labels)
    scores = {
        C: np.mean(
            [
                TATMLPairs(C=C).fit(pairs[train], labels[train]).score(pairs[test], labels[test])
                for train, test in folds.split(pairs, labels)
            ]
        )
        for C in (1e-3, 1e3)
    }
    assert_allclose(grid.cv_results_["mean_test_score"], list(scores.values()))
    assert grid.best_params_["C"] == max(scores, key=scores.get)
    assert_allclose(np.mean(cross_val_score(TATMLPairs(C=1e3), pairs, labels, cv=3)), scores[1e3])
    X, y = labelled("two blocks")
    index, labels = labelled_pairs(y)
    for estimator in (TATMLPairs(preprocessor=X), PairThreshold(preprocessor=X)):
        verdicts = cross_val_predict(estimator, index, labels, cv=folds)
        for train, test in folds.split(index, labels):
            expected = clone(estimator).fit(index[train], labels[train]).predict(index[test])
            assert_array_equal(verdicts[test], expected)


# PairThreshold

DISTANCES = {
    "euclidean": lambda a, b: np.linalg.norm(a - b, axis=1),
    "manhattan": lambda a, b: np.abs(a - b).sum(axis=1),
    "cosine": lambda a, b: 1 - np.diagonal(cosine_similarity(a, b)),
}


@pytest.mark.parametrize("metric", [*DISTANCES, "callable", "precomputed"])
def test_the_given_distance_gets_the_best_threshold(metric):
    options = {} if metric == "cosine" else {"margin": (0.7, 1.5), "threshold_strength": 0.3}
    pairs, labels, *_ = vector_pairs()
    weights = np.linspace(0.5, 2, len(labels))
    function = DISTANCES.get(metric, lambda a, b: np.max(np.abs(a - b), axis=1))
    distances, given = function(pairs[:, 0], pairs[:, 1]), pairs
    if metric == "callable":
        metric = lambda u, v: np.max(np.abs(u - v))  # noqa: E731
    elif metric == "precomputed":
        given = distances
    centre = np.sqrt(np.average(distances**2, weights=weights))
    model = PairThreshold(metric, **options, threshold_prior=0.8 * centre, class_weight=None)
    model.fit(given, labels, sample_weight=weights)
    assert_allclose(model.pair_distance(given), distances, atol=1e-7)
    low, high = model.margin
    b0 = best_b0(
        distances**2,
        labels,
        weights=weights,
        margin=model.margin,
        strength=model.threshold_strength,
        centre=(0.8 * centre) ** 2 / sqrt(low * high),
    )
    assert_allclose(model.b0_, b0, rtol=1e-6)
    assert_allclose(model.threshold_, sqrt(b0 * sqrt(low * high)), rtol=1e-6)
    assert set(model.predict(given)) == {-1, 1}


def test_the_threshold_is_pulled_to_the_root_mean_square_of_the_distances():
    pairs, labels, *_ = vector_pairs()
    for margin in ((0.5, 2.0), (1.0, 3.0)):
        model = PairThreshold(margin=margin).fit(pairs, labels)
        weights = balanced_weights(labels > 0)
        root_mean_square = sqrt(np.average(model.pair_distance(pairs) ** 2, weights=weights))
        named = PairThreshold(margin=margin, threshold_prior=root_mean_square).fit(pairs, labels)
        assert_allclose(model.threshold_, named.threshold_)


def test_the_threshold_has_the_units_of_the_distance():
    pairs, labels, *_ = vector_pairs()
    model, learnt = PairThreshold().fit(pairs, labels), TATMLPairs().fit(pairs, labels)
    for factor in (1e-3, 1e3):
        scaled = PairThreshold().fit(factor * pairs, labels)
        assert_allclose(scaled.threshold_, factor * model.threshold_)
        assert_array_equal(scaled.predict(factor * pairs), model.predict(pairs))
        other = TATMLPairs().fit(factor * pairs, labels)
        assert_array_equal(other.predict(factor * pairs), learnt.predict(pairs))


@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
def test_on_a_learnt_embedding_the_learnt_threshold_is_the_best(kind):
    X, y = labelled(kind)
    index, labels = labelled_pairs(y)
    options = JOINT | {"preprocessor": X, "threshold_strength": 0.4, "tol": 1e-12}
    learnt = TATMLPairs(**options).fit(index, labels)
    alone = PairThreshold(
        preprocessor=learnt.transform(X), threshold_strength=0.4, threshold_prior=1.0
    ).fit(index, labels)
    assert_allclose(alone.pair_distance(index), learnt.pair_distance(index))
    assert_allclose(alone.threshold_, learnt.threshold_, rtol=1e-6)


def test_distances_that_are_all_zero_have_the_threshold_zero():
    model = PairThreshold("precomputed").fit(np.zeros(4), [1, -1, 1, -1])
    assert model.threshold_ == 0
    assert_array_equal(model.predict([0.0, 1.0]), [-1, -1])


# Thresholds that separate nothing


def pairs_of_digits(seed):
    """Return standardised digits in halves, and 2,000 pairs of each: (samples, index, labels)."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    halves = np.array_split(rng.permutation(len(X)), 2)
    scaler = StandardScaler().fit(X[halves[0]])
    for rows in halves:
        index = rng.integers(len(rows), size=(40_000, 2))
        same = y[rows][index[:, 0]] == y[rows][index[:, 1]]
        index, same = index[index[:, 0] != index[:, 1]], same[index[:, 0] != index[:, 1]]
        chosen = np.concatenate([np.flatnonzero(same == kind)[:1000] for kind in (True, False)])
        yield scaler.transform(X[rows]), index[chosen], np.where(same[chosen], 1, -1)


@pytest.mark.parametrize("prior", ["discriminant", "within"])
def test_a_column_that_only_dissimilar_pairs_differ_in_does_not_hide_all_others(prior):
    """The largest column moves in dissimilar pairs only, and in few of them."""
    (X, index, labels), (Z, new, truth) = pairs_of_digits(0)
    rare = np.zeros(len(X))
    rare[np.setdiff1d(index[labels < 0], index[labels > 0])[0]] = 30.0
    X, Z = np.column_stack([X, rare]), np.column_stack([Z, np.zeros(len(Z))])
    moved = rare[index[:, 0]] != rare[index[:, 1]]
    assert 0 < np.sum(moved) < 10
    assert not np.any(moved & (labels > 0))
    model = TATMLPairs(prior=prior, preprocessor=X).fit(index, labels)
    model.preprocessor = Z
    without = TATMLPairs(prior=prior, preprocessor=X[:, :-1]).fit(index, labels)
    without.preprocessor = Z[:, :-1]
    scores = [balanced_accuracy_score(truth, each.predict(new)) for each in (model, without)]
    assert scores[0] > scores[1] - 0.02
    assert np.median(model.pair_distance(new)) > 0.5


def test_a_threshold_that_separates_nothing_is_reported():
    """Four distances are a million, and the threshold is pulled to the root mean square."""
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(400) % 2, 1, -1)
    distances = np.where(labels > 0, 1.0, 3.0) + 0.2 * rng.random(400)
    distances[:8:2] = 1e6
    with pytest.warns(UserWarning, match="^threshold_: ") as caught:
        model = PairThreshold("precomputed").fit(distances, labels)
    (warning,) = caught
    words = str(warning.message)
    assert words.startswith(f"threshold_: {model.threshold_:.3g} separates hardly any training")
    assert "100 % of the similar and 98 % of the dissimilar ones are closer" in words
    better = float(re.search(r"The threshold ([\d.]+) has a balanced accuracy of 1.00", words)[1])
    assert 1.2 < better < 3.0
    assert np.all(model.set_threshold(better).predict(distances) == labels)
