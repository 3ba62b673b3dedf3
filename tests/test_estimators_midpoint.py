"""Estimators with midpoints: their score, threshold, predictions and files; what they lack."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_export import KERNEL, MIDPOINT, SCORER, read, run

from tatml import (
    TATML,
    TATMLCV,
    Blocks,
    Euclidean,
    Newton,
    PairThreshold,
    TATMLPairs,
    inspection,
    learn_metric,
)
from tatml import plotting as displays
from tatml._learning import cross_fit
from tatml._learning.centers import PRIOR_OF_CONSTANT
from tatml._learning.cross_fit import hold_out_samples
from tatml._learning.labelled import LabelledSamples, folds_of
from tatml._learning.span import SpanFactor
from tatml._learning.task import Settings
from tatml.inspection import feature_shares, permutation_importance, threshold_interval
from tatml.io import export, load_model, save_model
from tatml.verification import error_rates, report

SHAPES = {
    "vectors": [(4, 1)],
    "matrices": [(3, 4)],
    "blocks": [(3, 2), (4, 1)],
    "wide": [(120, 1)],
    "very wide": [(1050, 1)],
}
NARROW = ["vectors", "matrices", "blocks"]
MAKES = ["TATML", "TATMLPairs", "TATMLCV"]
CUT = ("transform", "pair_distance", "get_metric", "get_mahalanobis_matrix", "components_")
CUT += ("fit_transform", "get_feature_names_out")


@cache
def samples(kind="vectors", n_samples=90, n_classes=3, seed=0):
    """Samples of classes that overlap, far from the origin, and their classes."""
    rng = np.random.default_rng([seed, n_samples, len(kind)])
    y, arrays = np.arange(n_samples) % n_classes, []
    for n, width in SHAPES[kind]:
        means = rng.normal(size=(n_classes, n, width))
        spread = rng.uniform(0.5, 2, size=(n, 1))
        arrays.append(spread * (means[y] + rng.normal(size=(n_samples, n, width))) + 7)
    if len(arrays) > 1:
        return Blocks(*arrays), y
    return (arrays[0][:, :, 0] if SHAPES[kind][0][1] == 1 else arrays[0]), y


@cache
def pairs_of(n_samples=90, n_classes=3, seed=1, n_pairs=1500):
    """Index pairs of different samples, each once, and their labels ±1."""
    every = np.stack(np.triu_indices(n_samples, 1), axis=1)
    index = np.random.default_rng(seed).permutation(every)[:n_pairs]
    y = np.arange(n_samples) % n_classes
    return index, np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)


@cache
def fitted(make="TATML", kind="vectors", **options):
    """A fitted estimator with midpoints; the same object for all tests, so not to be changed."""
    X, y = samples(kind)
    if make == "TATMLPairs":
        return TATMLPairs(midpoint=True, preprocessor=X, **options).fit(*pairs_of())
    own = {"midpoint": True, "n_pairs_per_class": 150, "random_state": 0} | options
    if make == "TATMLCV":
        search = TATMLCV(TATML(**own), {"C": [10.0, 100.0]}, cv=2, k=1, random_state=0)
        return search.fit(X, y)
    return TATML(**own).fit(X, y)


def arrays_of(X):
    return (X if isinstance(X, Blocks) else Blocks(X)).arrays


def q_of(arrays, W, V, center, index):
    """Return q = (1/M) Σ_m [tr(Δᵀ W Δ) − tr(Σᵀ V Σ)], as the definition has it."""
    total = np.zeros(len(index))
    for array, Wm, Vm, middle in zip(arrays, W, V, center, strict=True):
        x, y = array[index[:, 0]], array[index[:, 1]]
        minus, plus = x - y, x + y - 2 * middle
        total += np.einsum("kiw,ij,kjw->k", minus, Wm, minus)
        total -= np.einsum("kiw,ij,kjw->k", plus, Vm, plus)
    return total / len(arrays)


def same(score, expected, tolerance=1e-10):
    assert_allclose(score, expected, rtol=tolerance, atol=tolerance * np.max(np.abs(expected)))


# The score


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("kind", [*NARROW, "wide"])
def test_the_score_is_that_of_the_definition(make, kind):
    model, (X, _), (index, _) = fitted(make, kind), samples(kind), pairs_of()
    result = model.result_
    for middle, known in zip(model.midpoint_, result.center, strict=True):
        assert_array_equal(middle, known)
    q = q_of(arrays_of(X), result.W, result.V, model.midpoint_, index)
    same(model.pair_score(index, X), -q)
    assert len(result.W) == len(result.V) == len(model.factors_) == len(model.sum_factors_)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("make", ["TATML", "TATMLPairs"])
@pytest.mark.parametrize("kind", NARROW)
def test_the_fit_is_that_of_learn_metric(make, kind, loss):
    """With c = C/Σw and c0 = ρ C; μ0 is that of the prior, or given."""
    options = {"loss": loss, "threshold_prior": -0.4, "threshold_strength": 2.0, "tol": 1e-11}
    options |= {"C": 100.0, "clip_outliers": False}
    model = fitted(make, kind, threshold="joint", **options)
    weights = np.ones(len(model.pairs_)) if model.pair_weights_ is None else model.pair_weights_
    result = learn_metric(
        samples(kind)[0],
        model.pairs_,
        model.similar_,
        weights=weights,
        C=100 / weights.sum(),
        c0=200.0,
        mu0=-0.4,
        prior=model.prior_,
        midpoint=model.midpoint_,
        loss=loss,
        tol=1e-11,
    )
    for found, expected in zip(model.result_.W + model.result_.V, result.W + result.V, strict=True):
        same(found, expected, 1e-6)
    assert_allclose(model.threshold_, result.b0, rtol=1e-6)


@pytest.mark.parametrize("make", ["TATML", "TATMLPairs"])
@pytest.mark.parametrize("kind", NARROW)
def test_the_centre_is_learnt_as_a_row_of_ones_learns_it(make, kind):
    """Its entries in V are a shift of the centre and a constant: b0 − q is the same."""
    (X, _), (index, _), tol = samples(kind), pairs_of(), {"tol": 1e-11, "clip_outliers": False}
    model = fitted(make, kind, threshold="joint", C=100.0, **tol)
    of_prior = fitted(make, kind, threshold="joint", C=1e-12, c0=1.0, **tol)
    widths = [width for _, width in SHAPES[kind]]
    arrays, center = [], []
    for array in arrays_of(X):  # classes have the same size: the mean is that of their means
        ones = np.ones((len(array), 1, array.shape[2]))
        arrays.append(np.concatenate([array, ones], axis=1))
        center.append(np.vstack([array.mean(axis=0), 0 * ones[0]]))
    n_blocks = len(arrays)
    entries = [1.0] * n_blocks + [PRIOR_OF_CONSTANT] * n_blocks
    weights = np.ones(len(model.pairs_)) if model.pair_weights_ is None else model.pair_weights_
    result = learn_metric(
        Blocks(*arrays),
        model.pairs_,
        model.similar_,
        weights=weights,
        C=100 / weights.sum(),
        c0=100.0,
        mu0=of_prior.threshold_ - 4 * PRIOR_OF_CONSTANT * np.mean(widths),
        prior=[block_diag(W0, entry) for W0, entry in zip(model.prior_, entries, strict=True)],
        midpoint=center,
        loss="logistic",
        tol=1e-11,
    )
    expected = result.b0 - q_of(arrays, result.W, result.V, center, index)
    same(model.threshold_ + model.pair_score(index, X), expected, 1e-5)
    moved = [
        np.max(np.abs(middle - known[:-1]))
        for middle, known in zip(model.midpoint_, center, strict=True)
    ]
    assert max(moved) > 1e-3
    for middle, known in zip(of_prior.midpoint_, center, strict=True):
        assert_allclose(middle, known[:-1], rtol=1e-12)


def test_the_logistic_loss_of_distances_is_that_of_learn_metric():
    (X, y), (index, _) = samples(), pairs_of()
    options = {"loss": "logistic", "threshold": "joint", "clip_outliers": False, "tol": 1e-11}
    model = TATML(threshold_prior=1.5, random_state=0, **options).fit(X, y)
    weights = np.ones(len(model.pairs_)) if model.pair_weights_ is None else model.pair_weights_
    strengths = {"C": 100 / weights.sum(), "c0": 100.0, "mu0": 1.5**2}
    pairs = {"pairs": model.pairs_, "similar": model.similar_, "weights": weights}
    known = {"prior": [model.prior_], "loss": "logistic", "tol": 1e-11}
    result = learn_metric(X, **pairs, **strengths, **known)
    same(model.result_.W[0], result.W[0], 1e-6)
    assert model.threshold_ == pytest.approx(np.sqrt(result.b0), rel=1e-6)
    assert model.pair_distance(index, X).min() >= 0


def test_the_default_loss_is_logistic_with_a_midpoint_and_else_the_squared_hinge():
    (X, y), (index, _) = samples(), pairs_of()
    for midpoint, words in (
        (True, ("logistic", "squared_hinge")),
        (False, ("squared_hinge", "logistic")),
    ):
        auto, one, other = (
            TATML(midpoint=midpoint, loss=loss, random_state=0).fit(X, y).pair_score(index, X)
            for loss in ("auto", *words)
        )
        assert_array_equal(auto, one)
        assert np.max(np.abs(auto - other)) > 1e-3


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("make", ["TATML", "TATMLPairs"])
def test_the_score_in_the_space_of_a_kernel(kind, make):
    model, (X, _), (index, _) = fitted(make, kind, kernel="rbf"), samples(kind), pairs_of()
    mapped = model.kernel_map_.map_blocks(X if isinstance(X, Blocks) else Blocks(X))
    result = model.result_
    assert len(result.W) == 2 * len(SHAPES[kind])
    same(model.pair_score(index, X), -q_of(mapped.arrays, result.W, result.V, result.center, index))


def test_the_maps_of_a_very_wide_table_are_factored():
    model, (X, _), (index, _) = fitted(kind="very wide"), samples("very wide"), pairs_of()
    (A,), (R,) = model.factors_, model.sum_factors_
    assert isinstance(A, SpanFactor)
    assert isinstance(R, SpanFactor)
    rows = X - model.midpoint_[0][:, 0]
    assert not hasattr(model, "prior_")
    of_differences, of_sums = (rows @ factor.matrix().T for factor in (A, R))
    i, j = index.T
    minus, plus = of_differences[i] - of_differences[j], of_sums[i] + of_sums[j]
    same(model.pair_score(index, X), np.sum(plus**2, axis=1) - np.sum(minus**2, axis=1))


@pytest.mark.parametrize("kind", ["wide", "very wide"])
@pytest.mark.parametrize("make", [TATML, TATMLPairs])
def test_sparse_samples_score_as_dense_ones(kind, make):
    (X, y), (index, labels) = samples(kind), pairs_of()
    X = np.where(np.abs(X - 7) < 1.5, 0.0, X - 7)  # most entries are zero
    scores, models = [], []
    for table in (X, csr_array(X)):
        if make is TATML:
            model = TATML(midpoint=True, random_state=0, clip_outliers=False).fit(table, y)
        else:
            model = TATMLPairs(midpoint=True, clip_outliers=False, preprocessor=table)
            model.fit(index, labels)
        models.append(model)
        scores.append([model.pair_score(index, of) for of in (X, csr_array(X))])
    for found in (scores[0][1], *scores[1]):
        same(found, scores[0][0], 1e-6)
    assert_allclose(models[1].threshold_, models[0].threshold_, rtol=1e-6)
    middles = [model.midpoint_[0] for model in models]
    assert_allclose(middles[1], middles[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("kind", NARROW)
def test_pairs_are_the_same_if_q_is_below_the_threshold(make, kind):
    model, (X, _), (index, _) = fitted(make, kind), samples(kind), pairs_of()
    score = model.pair_score(index, X)
    predicted = model.predict_pairs(index, X)
    assert_array_equal(predicted, np.where(score > -model.threshold_, 1, -1))
    assert set(predicted) == {-1, 1}


@pytest.mark.parametrize("kind", NARROW)
def test_the_classifier_of_pairs_judges_by_the_same_score(kind):
    model, (index, labels) = fitted("TATMLPairs", kind), pairs_of()
    score = model.pair_score(index)
    assert_array_equal(model.decision_function(index), model.threshold_ + score)
    assert_array_equal(model.predict(index), model.predict_pairs(index))
    assert model.score(index, labels) == roc_auc_score(labels, score)
    probability = model.predict_proba(index)
    assert_allclose(probability.sum(axis=1), 1, rtol=1e-14)
    assert_allclose(probability[:, 1], model.pair_probability(index), rtol=1e-14)


def test_a_pair_of_pairs_of_arrays_scores_as_its_indices():
    model, (X, _), (index, _) = fitted(), samples(), pairs_of()
    same(model.pair_score(X[index]), model.pair_score(index, X), 1e-14)


@pytest.mark.parametrize("make", MAKES)
def test_more_alike_is_a_higher_score(make):
    model, (X, _), (index, labels) = fitted(make), samples(), pairs_of()
    assert roc_auc_score(labels, model.pair_score(index, X)) > 0.7


def test_a_sample_and_itself_are_not_always_the_same():
    """That is what a score has and a distance lacks: samples between two classes."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 1)) + 4.0 * y[:, None]
    model = TATML(midpoint=True, random_state=0).fit(X, y)
    score = model.pair_score([[0, 0], [1, 1]], [[0.0], [2.0]])
    assert score[0] > score[1]  # 2 is half-way


def test_a_block_in_which_all_samples_are_equal_is_refused():
    X, y = samples()
    message = (
        "X: expected pairs of samples that differ in block 1, got identical ones only; remove "
    )
    with pytest.raises(ValueError, match=f"^{message}the block$"):
        TATML(midpoint=True).fit(Blocks(X, np.ones((90, 2))), y)


# Thresholds and probabilities that fit finds


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("kind", NARROW)
def test_the_threshold_is_where_both_kinds_are_equally_likely(make, kind):
    model, (X, _), (index, _) = fitted(make, kind), samples(kind), pairs_of()
    a, b = model.likelihood_ratio_
    assert b > 0
    assert a - b * model.threshold_ == pytest.approx(0, abs=1e-12)
    ratio = model.pair_log_likelihood_ratio(index, X)
    same(ratio, a + b * model.pair_score(index, X))
    assert model.same_rate_ == 0.5
    assert_allclose(model.pair_probability(index, X), 1 / (1 + np.exp(-ratio)), rtol=1e-12)
    assert_array_equal(model.predict_pairs(index, X) > 0, ratio > 0)
    assert model.threshold_ == model.b0_ + model.threshold_shift_ != model.b0_
    assert not hasattr(model, "threshold_factor_")


@pytest.mark.parametrize("make", [TATML, TATMLPairs])
def test_the_likelihood_ratio_is_that_of_q_minus_the_threshold_of_its_part(make, monkeypatch):
    """a − b (q − b_part) of held-out pairs is a + b b0 − b q of the fit to all samples."""
    given = []

    def ratio(values, similar, weights):
        given.append((values, similar))
        return np.array([0.3, 2.0])

    monkeypatch.setattr(cross_fit, "fit_log_likelihood_ratio", ratio)
    (X, y), (index, labels) = samples(), pairs_of()
    if make is TATML:
        model = TATML(midpoint=True, random_state=0).fit(X, y)
    else:
        model = TATMLPairs(midpoint=True, preprocessor=X).fit(index, labels)
    assert_allclose(model.likelihood_ratio_, [0.3 + 2 * model.b0_, 2.0], rtol=1e-14)
    assert_allclose(model.threshold_, model.b0_ + 0.15, rtol=1e-14)
    assert model.b0_ == model.result_.b0
    (values, similar), *_ = given
    assert roc_auc_score(similar, -values) > 0.6


def test_a_ratio_that_falls_leaves_the_threshold_of_the_fit(monkeypatch):
    monkeypatch.setattr(cross_fit, "fit_log_likelihood_ratio", lambda *_: np.zeros(2))
    X, y = samples()
    model = TATML(midpoint=True, random_state=0).fit(X, y)
    assert model.threshold_ == model.b0_
    assert not hasattr(model, "likelihood_ratio_")
    assert not hasattr(model, "same_rate_")


@pytest.mark.parametrize("make", ["TATML", "TATMLPairs"])
def test_a_threshold_learnt_jointly_is_that_of_the_problem(make):
    model = fitted(make, threshold="joint")
    assert model.threshold_ == model.b0_ == model.result_.b0
    assert not hasattr(model, "likelihood_ratio_")


@pytest.mark.parametrize("threshold", [-0.5, 0.0, 0.8])
@pytest.mark.parametrize("make", ["TATML", "TATMLPairs"])
def test_a_given_threshold_of_any_sign_is_kept(make, threshold):
    model = fitted(make, threshold=threshold)
    assert model.threshold_ == model.b0_ == threshold
    assert not hasattr(model, "likelihood_ratio_")


def test_the_threshold_is_pulled_to_a_prior_of_any_sign():
    model = fitted(threshold="joint", threshold_prior=-3.0, c0=1e9)
    assert model.threshold_ == pytest.approx(-3.0, abs=1e-6)


def test_probabilities_of_new_pairs_are_about_right():
    """The ratio is nearly as good as one that is fitted to the new pairs themselves."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, 6))
    y = np.arange(800) % 4
    X = means[y] + rng.normal(size=(800, 6))
    model = TATML(midpoint=True, random_state=0).fit(X[:400], y[:400])
    index = 400 + np.stack(np.triu_indices(400, 1), axis=1)
    alike = y[index[:, 0]] == y[index[:, 1]]
    model.set_same_rate(float(np.mean(alike)))
    loss = log_loss(alike, model.pair_probability(index, X))
    signs = np.where(alike, 1, -1)
    best = clone_of(model).calibrate_probability(index, signs, X=X)
    assert loss < log_loss(alike, best.pair_probability(index, X)) + 0.01
    assert loss < log_loss(alike, np.full(len(alike), alike.mean())) - 0.1


def test_calibrated_anew_the_ratio_is_that_of_the_given_pairs():
    (X, _), (index, labels) = samples(), pairs_of(seed=5)
    model = clone_of(fitted()).calibrate_probability(index, labels, X=X)
    judge = PairThreshold("precomputed").fit(-model.pair_score(index, X), labels)
    judge.calibrate_probability(-model.pair_score(index, X), labels)
    assert_allclose(model.likelihood_ratio_, judge.likelihood_ratio_, rtol=1e-12)
    assert model.same_rate_ == np.mean(labels > 0)


def clone_of(model):
    """Return a copy of a fitted estimator, which a test may change."""
    return pickle.loads(pickle.dumps(model))


# Judging by it


@pytest.mark.parametrize("strategy", ["accuracy", "f_beta"])
def test_a_calibrated_threshold_is_the_best_for_the_given_pairs(strategy):
    (X, _), (index, labels) = samples(), pairs_of(seed=5)
    model = clone_of(fitted()).calibrate_threshold(index, labels, strategy, X=X)
    q = -model.pair_score(index, X)

    def quality(threshold):
        hits = np.sum((q < threshold) & (labels > 0))
        if strategy == "accuracy":
            return np.mean((q < threshold) == (labels > 0))
        return 2 * hits / (np.sum(q < threshold) + np.sum(labels > 0))

    assert quality(model.threshold_) == max(quality(t) for t in np.append(q + 1e-12, q - 1e-12))


@pytest.mark.parametrize("shift", [-50.0, 0.0, 50.0])
def test_a_promised_rate_holds_whatever_the_sign_of_the_scores(shift):
    rng = np.random.default_rng(0)
    labels = np.repeat([1, -1], [200, 3000])
    q = rng.normal(np.where(labels > 0, -1.0, 1.0)) + shift
    judge = PairThreshold("precomputed").fit(np.append(q, -60.0), np.append(labels, 1))
    judge.calibrate_threshold(q, labels, "false_match_rate", max_rate=0.02)
    assert np.sum(q[labels < 0] < judge.threshold_) <= judge.calibration_.n_errors <= 60
    new = rng.normal(1.0, size=100_000) + shift
    assert np.mean(new < judge.threshold_) < 0.02


def test_error_rates_and_reports_are_those_of_the_score():
    (X, _), (index, labels) = samples(), pairs_of(seed=5)
    model = fitted()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*few|.*rough|.*errors")
        rates = error_rates(model, index, labels, X)
    predicted = model.predict_pairs(index, X)
    assert rates.false_match.value == np.mean(predicted[labels < 0] > 0)
    assert rates.false_non_match.value == np.mean(predicted[labels > 0] < 0)
    found = report(model, index, labels, X, same_rate=0.5)
    assert found.auc == roc_auc_score(labels, model.pair_score(index, X))
    assert found["estimator"].threshold == model.threshold_
    # With equal costs and shares, a pair is accepted where its ratio is above zero.
    assert found["probability"].threshold == pytest.approx(model.threshold_)
    assert found.brier < 0.25
    costly = report(model, index, labels, X, same_rate=0.5, costs=(np.e, 1.0))
    slope = model.likelihood_ratio_[1]
    expected = model.threshold_ - 1 / slope
    assert costly["probability"].threshold == pytest.approx(expected)


def test_the_interval_of_the_threshold():
    X, y = samples()
    model = fitted()
    found = threshold_interval(model, X, y, n_resamples=10, random_state=0)
    assert found.value == model.threshold_
    assert found.low < model.threshold_ < found.high
    joint = threshold_interval(fitted(threshold="joint"), X, y, n_resamples=4, random_state=0)
    assert joint.low < joint.high
    index, labels = pairs_of()
    calibrated = clone_of(model).calibrate_probability(index, labels, X=X)
    again = threshold_interval(calibrated, X, y, n_resamples=10, random_state=0)
    assert_array_equal(again.distribution, found.distribution)  # the threshold is still that of fit
    for other in (fitted(threshold=-0.5), calibrated.set_threshold(0.1)):
        with pytest.raises(ValueError, match="whose threshold was learnt in fit"):
            threshold_interval(other, X, y, n_resamples=4)


@pytest.mark.parametrize(
    "name", ["DetDisplay", "ErrorRateDisplay", "PairDistanceDisplay", "ReliabilityDisplay"]
)
def test_displays_of_judged_pairs_take_scores(name):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    (X, _), (index, labels) = samples(), pairs_of(seed=5)
    display = getattr(displays, name).from_estimator(fitted(), index, labels, X)
    if name == "PairDistanceDisplay":
        q = -fitted().pair_score(index, X)
        assert_array_equal(display.distances, q)
        assert display.margin_distances is None
        assert display.ax_.get_xlabel() == "minus the score"
    pyplot.close(display.figure_)


# What belongs to distances


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("name", CUT)
def test_what_a_distance_has_is_missing_and_says_why(make, name):
    model = fitted(make)
    message = (
        rf"^{name}: {make}\(midpoint=True\) learns a score of pairs, which is no distance; use"
    )
    unfitted = clone(model)
    for one in (model, unfitted):
        assert not hasattr(one, name)
        with pytest.raises(AttributeError, match=message) as error:
            getattr(one, name)
        assert "\n" not in str(error.value)


def test_what_a_score_has_is_missing_without_a_midpoint():
    X, y = samples()
    model = TATML(random_state=0).fit(X, y)
    assert not hasattr(model, "search_vectors")
    with pytest.raises(AttributeError, match=r"^search_vectors: TATML learns a distance"):
        _ = model.search_vectors
    assert not {"factors_", "sum_factors_", "midpoint_", "likelihood_ratio_"} & vars(model).keys()


@pytest.mark.parametrize("make", [TATML, TATMLPairs])
def test_a_fit_without_a_midpoint_forgets_one_with_it_and_the_reverse(make):
    (X, y), (index, labels) = samples(), pairs_of()
    data = (X, y) if make is TATML else (index, labels)
    options = {"random_state": 0} if make is TATML else {"preprocessor": X}
    model, states = make(midpoint=True, **options), []
    for midpoint in (True, False, True):
        model.set_params(midpoint=midpoint).fit(*data)
        assert hasattr(model, "pair_distance") is not midpoint
        assert ("sum_factors_" in vars(model)) is midpoint
        assert ("likelihood_ratio_" in vars(model)) is midpoint
        states.append(set(vars(model)))
    assert states[0] == states[2] != states[1]
    model.set_params(midpoint=False)  # the metric is still that of the last fit
    assert not hasattr(model, "transform")


def test_a_search_that_finds_no_midpoint_has_distances():
    X, y = samples()
    grid = {"midpoint": [False], "C": [10.0]}
    model = TATMLCV(TATML(random_state=0), grid, cv=2, k=1).fit(X, y)
    assert model.transform(X).shape == X.shape
    both = TATMLCV(TATML(random_state=0), {"midpoint": [False, True]}, cv=2, k=1).fit(X, y)
    chosen = both.best_params_["midpoint"]
    assert hasattr(both, "transform") is not chosen
    assert hasattr(both.best_estimator_, "transform") is not chosen
    assert len(both.cv_results_["mean_test_score"]) == 2


@pytest.mark.parametrize(
    "name",
    [
        "BlockShareDisplay",
        "EmbeddingDisplay",
        "FeatureShareDisplay",
        "MetricDisplay",
        "PermutationImportanceDisplay",
        "compare_importance",
        "feature_shares",
        "permutation_importance",
    ],
)
def test_what_explains_distances_is_refused(name):
    pytest.importorskip("matplotlib")
    (X, y), (index, labels) = samples(), pairs_of()
    calls = {"EmbeddingDisplay": (X, y), "MetricDisplay": ()}
    call = getattr(inspection, name, None) or getattr(displays, name).from_estimator
    assert name not in ("feature_shares", "permutation_importance") or call in (
        feature_shares,
        permutation_importance,
    )
    message = "a score of pairs, which is no distance; fit with midpoint=False$"
    with pytest.raises(TypeError, match=message):
        call(fitted(), *calls.get(name, (index, labels, X)))


# Files


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("kind", [*NARROW, "wide", "very wide"])
def test_a_saved_model_scores_as_the_estimator(make, kind, tmp_path):
    pytest.importorskip("skops")
    model, (X, _), (index, _) = fitted(make, kind), samples(kind), pairs_of()
    saved = load_model(save_model(model, tmp_path / "model.skops"))
    found = saved.estimator
    assert_array_equal(found.pair_score(index, X), model.pair_score(index, X))
    assert_array_equal(found.pair_probability(index, X), model.pair_probability(index, X))
    assert found.threshold_ == model.threshold_
    assert {"sum_factors_", "midpoint_"} <= set(saved.metadata["holds"])
    assert saved.metadata["reveals"][-1] == "the mean of the training samples"
    assert any("span" in line for line in saved.metadata["reveals"]) == ("wide" in kind)
    assert not hasattr(found, "transform")


def test_a_file_of_a_sparse_table_reveals_a_mean(tmp_path):
    pytest.importorskip("skops")
    X, y = samples("wide")
    model = TATML(midpoint=True, random_state=0).fit(csr_array(X), y)
    saved = load_model(save_model(model, tmp_path / "model.skops"))
    assert saved.metadata["reveals"][-1] == "the mean of the training samples"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: delattr(model, "midpoint_"), "midpoint_: expected"),
        (lambda model: delattr(model, "sum_factors_"), "midpoint_: expected"),
        (lambda model: model.sum_factors_.append(np.eye(4)), "sum_factors_: expected"),
        (lambda model: model.midpoint_.__setitem__(0, np.zeros((3, 1))), "midpoint_: expected"),
        (lambda model: setattr(model, "threshold_", np.nan), "threshold_: expected a finite"),
        (lambda model: setattr(model, "prior_", model.prior_[:1]), "prior_: expected"),
    ],
)
def test_damaged_models_are_not_saved(change, message, tmp_path):
    pytest.importorskip("skops")
    model = clone_of(fitted())
    change(model)
    with pytest.raises((TypeError, ValueError), match=message):
        save_model(model, tmp_path / "model.skops")


def scorer_of(path, kernel):
    names = run(SCORER + KERNEL + MIDPOINT)
    return names["KernelMidpointScorer" if kernel else "MidpointScorer"](path)


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("make", ["TATML", "TATMLPairs"])
@pytest.mark.parametrize("kind", [*NARROW, "wide"])
def test_a_service_scores_with_numpy_alone(make, kind, kernel, tmp_path):
    model, (X, _), (index, _) = fitted(make, kind, kernel=kernel), samples(kind), pairs_of()
    scorer = scorer_of(export(model, tmp_path / "metric.npz"), kernel)
    sides = [tuple(array[side] for array in arrays_of(X)) for side in index.T]
    score, expected = scorer.score(*sides), model.pair_score(index, X)
    same(score, expected, 1e-12 if kernel is None else 1e-10)
    assert_array_equal(score > -scorer.threshold, model.predict_pairs(index, X) > 0)
    probability = scorer.probability(-score)
    assert_allclose(probability, model.pair_probability(index, X), rtol=1e-9)


def test_an_exported_file_holds_what_the_score_needs_and_nothing_else(tmp_path):
    arrays = read(export(fitted(kind="blocks"), tmp_path / "metric.npz"))
    assert {name: array.shape for name, array in arrays.items()} == {
        "format": (),
        "block_shapes": (2, 2),
        "components_0": (3, 3),
        "components_1": (4, 4),
        "sum_components_0": (3, 3),
        "sum_components_1": (4, 4),
        "midpoint_0": (3, 2),
        "midpoint_1": (4, 1),
        "threshold": (),
        "likelihood_ratio": (2,),
        "same_rate": (),
    }
    assert arrays["format"] == "tatml score 1"
    kernel = read(export(fitted(kernel="rbf"), tmp_path / "metric.npz"))
    assert kernel["format"] == "tatml kernel score 1"


def test_scorers_of_distances_refuse_a_file_of_scores(tmp_path):
    path = export(fitted(), tmp_path / "metric.npz")
    with pytest.raises(ValueError, match="the format 'tatml metric 1', got tatml score 1"):
        run(SCORER)["Scorer"](path)


def test_the_matrices_of_a_very_wide_table_are_not_exported(tmp_path):
    with pytest.raises(ValueError, match="model: expected at most 1000 rows"):
        export(fitted(kind="very wide"), tmp_path / "metric.npz")


# As estimators of scikit-learn


@pytest.mark.parametrize("make", ["TATML", "TATMLPairs"])
def test_a_warm_start_begins_at_the_solution(make):
    (X, y), model = samples(), clone_of(fitted(make, tol=1e-9, C=100.0))
    first = model.pair_score(pairs_of()[0], X)
    data = (X, y) if make == "TATML" else pairs_of()
    steps = model.n_iter_
    model.set_params(warm_start=True).fit(*data)
    assert model.n_iter_ <= 3 < steps  # the start does not know the constant of the centre
    same(model.pair_score(pairs_of()[0], X), first, 1e-5)


def test_a_warm_start_after_a_fit_without_a_midpoint_starts_anew():
    X, y = samples()
    model = TATML(warm_start=True, random_state=0).fit(X, y)
    model.set_params(midpoint=True).fit(X, y)
    fresh = TATML(midpoint=True, random_state=0).fit(X, y)
    same(model.pair_score(pairs_of()[0], X), fresh.pair_score(pairs_of()[0], X), 1e-4)
    model.set_params(midpoint=False).fit(X, y)
    assert_allclose(model.transform(X), TATML(random_state=0).fit(X, y).transform(X), rtol=1e-3)


@pytest.mark.parametrize("make", MAKES)
def test_copies_score_as_the_estimator(make):
    model, (X, y), (index, labels) = fitted(make), samples(), pairs_of()
    score = model.pair_score(index, X)
    assert_array_equal(clone_of(model).pair_score(index, X), score)
    again = clone(model).fit(*((index, labels) if make == "TATMLPairs" else (X, y)))
    assert_array_equal(again.pair_score(index, X), score)


def test_the_last_step_of_a_pipeline():
    (X, y), (index, _) = samples(), pairs_of()
    model = make_pipeline(StandardScaler(), TATML(midpoint=True, random_state=0)).fit(X, y)
    scaled = model[:-1].transform(X)
    alone = TATML(midpoint=True, random_state=0).fit(scaled, y)
    assert_array_equal(model[-1].pair_score(index, scaled), alone.pair_score(index, scaled))
    assert not hasattr(model, "transform")


def test_a_grid_search_compares_scores_with_distances():
    index, labels = pairs_of()
    X, y = samples()
    search = GridSearchCV(TATMLPairs(preprocessor=X), {"midpoint": [False, True]}, cv=3)
    search.fit(index, labels)
    assert np.all(search.cv_results_["mean_test_score"] > 0.6)
    assert search.best_estimator_.predict(index).shape == labels.shape

    def area(model, samples, classes):
        every = np.stack(np.triu_indices(len(classes), 1), axis=1)
        alike = classes[every[:, 0]] == classes[every[:, 1]]
        return roc_auc_score(alike, model.pair_score(every, samples))

    grid = {"midpoint": [False, True]}
    by_labels = GridSearchCV(TATML(random_state=0), grid, scoring=area, cv=3).fit(X, y)
    assert by_labels.cv_results_["mean_test_score"][1] > by_labels.cv_results_["mean_test_score"][0]


@pytest.mark.parametrize(
    ("make", "options", "C"),
    [
        ("TATML", {}, 100.0),
        ("TATML", {"new_classes": True}, 10.0),
        ("TATML", {"new_classes": True, "midpoint": False}, 100.0),
        ("TATMLPairs", {}, 10.0),
    ],
)
def test_the_default_weight_is_smaller_for_new_classes(make, options, C):
    options = options | {"threshold": "joint"}
    default, given = fitted(make, **options), fitted(make, C=C, **options)
    assert default.C is None
    (X, _), (index, _) = samples(), pairs_of()
    assert_array_equal(default.pair_score(index, X), given.pair_score(index, X))
    assert default.threshold_ == given.threshold_


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("linear_solver", ["dense", "cg"])
def test_all_solvers_of_systems_find_the_same_score(kind, linear_solver):
    (X, y), (index, _) = samples(kind), pairs_of()
    options = {"midpoint": True, "threshold": "joint", "tol": 1e-12, "random_state": 0}
    score = TATML(solver=Newton(linear_solver=linear_solver), **options).fit(X, y)
    expected = TATML(**options).fit(X, y)
    same(score.pair_score(index, X), expected.pair_score(index, X), 1e-6)


# Folds of classes


def groups_of(n_groups, n_samples=90):
    return np.random.default_rng(0).integers(n_groups, size=n_samples)


def class_folds(y, groups=None):
    blank = Blocks(np.zeros((len(y), 1)))
    given = LabelledSamples(blank, np.asarray(y), groups)
    return folds_of(given, Settings(new_classes=True))


@pytest.mark.parametrize("n_classes", [4, 5, 6, 9, 30])
def test_folds_for_new_classes_hold_out_whole_classes(n_classes):
    y = np.arange(90) % n_classes
    folds = class_folds(y)
    assert len(folds) == min(3, n_classes // 2)
    held_out = np.concatenate([test for _, test in folds])
    assert_array_equal(np.sort(held_out), np.arange(90))  # each sample once
    for train, test in folds:
        assert not set(y[train]) & set(y[test])
        assert_array_equal(np.sort(np.append(train, test)), np.arange(90))
        assert len(set(y[test])) >= 2
        assert len(set(y[train])) >= 2


@pytest.mark.parametrize("n_classes", [2, 3])
def test_too_few_classes_are_held_out_by_samples(n_classes):
    y = np.arange(90) % n_classes
    for train, test in class_folds(y):
        assert set(y[train]) == set(y[test]) == set(range(n_classes))


def test_folds_for_new_classes_share_no_group():
    y, groups = np.arange(90) % 6, groups_of(25)
    folds = class_folds(y, groups)
    assert folds
    for train, test in folds:
        assert not set(y[train]) & set(y[test])
        assert not set(groups[train]) & set(groups[test])


@pytest.mark.parametrize("midpoint", [False, True])
def test_new_classes_judge_by_held_out_classes(midpoint, monkeypatch):
    seen = []

    def spy(samples, folds, space=None):
        seen.append(
            [set(samples.labels[train]) & set(samples.labels[test]) for train, test in folds]
        )
        return hold_out_samples(samples, folds, space)

    monkeypatch.setattr("tatml._learning.learn.hold_out_samples", spy)
    X, y = samples(n_classes=6)
    models = [
        TATML(midpoint=midpoint, new_classes=new, random_state=0).fit(X, y) for new in (False, True)
    ]
    assert all(shared for shared in seen[0])
    assert not any(seen[1])
    # Only distances are judged by folds of samples, too.
    assert [all(shared) for shared in seen[2:]] == ([] if midpoint else [True])
    assert models[0].threshold_ != models[1].threshold_
    if not midpoint:  # only thresholds and choices differ
        assert models[0].prior_units_ != models[1].prior_units_ or np.array_equal(
            models[0].components_, models[1].components_
        )


@pytest.mark.parametrize("n_classes", [4, 6, 15])
def test_few_held_out_classes_move_the_threshold_less(n_classes, monkeypatch):
    """By the share k/(k + 5) of the correction for k classes with a midpoint.

    The log-likelihood ratio is this share as steep. Of distances, the logarithm of the factor is
    the share k/(k + 20) of what held-out classes say, and the rest of what held-out samples say
    minus 1/(2 k).
    """
    monkeypatch.setattr(cross_fit, "fit_log_likelihood_ratio", lambda *_: np.array([0.3, 2.0]))
    factors = iter([1.4, 0.8])  # of held-out samples, and of held-out classes
    monkeypatch.setattr(cross_fit, "find_threshold_factor", lambda *_: next(factors))
    (X, y), share = samples(n_classes=n_classes), n_classes / (n_classes + 5)
    model = TATML(midpoint=True, new_classes=True, random_state=0).fit(X, y)
    assert model.threshold_ == pytest.approx(model.b0_ + share * 0.15, rel=1e-12)
    expected = 2 * share * np.array([model.threshold_, 1.0])
    assert_allclose(model.likelihood_ratio_, expected, rtol=1e-12)
    of_distances = TATML(new_classes=True, random_state=0).fit(X, y)
    share = n_classes / (n_classes + 20)
    logarithm = share * np.log(0.8) + (1 - share) * (np.log(1.4) - 0.5 / n_classes)
    assert of_distances.threshold_factor_ == pytest.approx(np.exp(logarithm), rel=1e-12)
    assert of_distances.threshold_ == pytest.approx(
        of_distances.threshold_factor_ * np.sqrt(of_distances.b0_), rel=1e-12
    )


def test_without_a_midpoint_new_classes_leave_the_metric_of_given_units(monkeypatch):
    monkeypatch.setattr("tatml._learning.cross_fit.find_units", lambda *_: (1.0, "common"))
    X, y = samples(n_classes=6)
    one, other = (TATML(new_classes=new, random_state=0).fit(X, y) for new in (False, True))
    assert_array_equal(one.components_, other.components_)
    assert_array_equal(one.prior_, other.prior_)
    assert one.threshold_ != other.threshold_


def test_with_a_midpoint_new_classes_change_the_prior_of_the_sums(monkeypatch):
    monkeypatch.setattr("tatml._learning.cross_fit.find_units", lambda *_: (1.0, "common"))
    monkeypatch.setattr("tatml._learning.plda.shrunk_ratios", lambda ratio, *_: ratio)
    X, y = samples(n_classes=6)
    options = {"midpoint": True, "random_state": 0, "threshold": "joint", "c0": 1e9}
    one, other = (TATML(new_classes=new, **options).fit(X, y) for new in (False, True))
    assert_allclose(one.prior_[0], other.prior_[0], rtol=1e-10)  # of the differences
    assert np.max(np.abs(one.prior_[1] - other.prior_[1])) > 1e-3 * np.max(one.prior_[1])
    assert abs(one.threshold_ - other.threshold_) > 1e-3  # κ


def test_flags_may_be_those_of_numpy():
    X, y = samples()
    given, flags = {"threshold": -0.5, "random_state": 0}, (np.True_, 1)
    models = [TATML(midpoint=flag, **given).fit(X, y) for flag in flags]
    assert [model.threshold_ for model in models] == [-0.5, -0.5]
    with pytest.raises(TypeError, match="midpoint: expected True or False, got 'yes'"):
        TATML(midpoint="yes").fit(X, y)


def test_pairs_without_labels_are_of_new_classes():
    assert "new_classes" not in TATMLPairs().get_params()
    with pytest.raises(TypeError, match="new_classes"):
        TATMLPairs(new_classes=True)


def test_euclidean_knows_no_midpoint():
    with pytest.raises(TypeError, match="midpoint"):
        Euclidean(midpoint=True)
