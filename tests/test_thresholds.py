"""Thresholds of given distances: by TATML's criterion, and calibrated to a target."""

from itertools import product

import numpy as np
import pytest
from estimators_helpers import changed_attributes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from tatml import Euclidean
from tatml._data.pairs import Pairs
from tatml._learning.metric import _most_accurate as most_accurate
from tatml._learning.metric import b0_of, learn_b0, threshold_of
from tatml._verification.calibration import calibrate
from tatml._verification.targets import CALIBRATION_STRATEGIES, check_target

PAPER_MARGIN = (0.5, 2.0)
MARGINS = [PAPER_MARGIN, (0.2, 3.0), (0.9, 1.1)]


# Units


@given(
    st.floats(1e-6, 1e6),
    st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)).filter(lambda m: m[0] < m[1]),
)
def test_the_threshold_is_the_geometric_mean_of_the_margins(b0, margin):
    threshold = threshold_of(b0, margin)
    assert_allclose(b0_of(threshold, margin), b0, rtol=1e-12)
    assert_allclose(threshold**4, margin[0] * b0 * margin[1] * b0, rtol=1e-12)


def test_the_threshold_is_the_root_of_b0_for_the_margin_of_the_paper():
    assert threshold_of(9.0, PAPER_MARGIN) == 3.0
    assert b0_of(3.0, PAPER_MARGIN) == 9.0
    assert threshold_of(0.0, PAPER_MARGIN) == 0.0
    assert threshold_of(-1e-9, PAPER_MARGIN) == 0.0


# TATML's criterion


def as_pairs_of(similar, weights=None):
    return Pairs(np.zeros((len(similar), 2), dtype=np.intp), np.asarray(similar), weights)


def criterion(b0, squared, pairs, margin, strength, mu0):
    """Return the criterion at one b0."""
    weights = np.ones(len(pairs)) if pairs.weights is None else pairs.weights
    excess = np.where(pairs.similar, squared - margin[0] * b0, margin[1] * b0 - squared)
    mean = np.average(np.maximum(excess, 0.0) ** 2, weights=weights)
    return mean + strength * (b0 - mu0) ** 2


def default_centre(squared, pairs, margin):
    """Return the b0 whose threshold is the root mean squared distance."""
    return np.average(squared, weights=pairs.weights) / np.sqrt(margin[0] * margin[1])


def random_pairs(seed, weighted, n_pairs=40):
    rng = np.random.default_rng(seed)
    similar = rng.random(n_pairs) < 0.4
    squared = rng.gamma(2, size=n_pairs) * np.where(similar, 1, 3) * 10.0 ** rng.uniform(-3, 3)
    weights = rng.integers(1, 5, size=n_pairs).astype(float) if weighted else None
    return squared, as_pairs_of(similar, weights)


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_learnt_b0_minimises_its_criterion(margin, weighted):
    squared, pairs = random_pairs(0, weighted)
    unit = np.average(squared, weights=pairs.weights)
    for strength, mu0 in product((1e-3, 1.0, 30.0), (None, 0.1, 5.0)):
        centre = default_centre(squared, pairs, margin) if mu0 is None else mu0 * unit
        b0 = learn_b0(squared, pairs, margin, strength, None if mu0 is None else centre)

        def loss(relative, strength=strength, centre=centre):
            return criterion(relative * unit, squared, pairs, margin, strength, centre) / unit**2

        found = minimize_scalar(loss, bounds=(0, 20), method="bounded", options={"xatol": 1e-10})
        assert loss(b0 / unit) <= found.fun * (1 + 1e-12)
        assert_allclose(b0 / unit, found.x, rtol=1e-5)
        assert loss(b0 / unit) <= min(map(loss, np.linspace(0, 20, 201)))


@given(seed=st.integers(0, 10**6), scale=st.floats(1e-8, 1e8), mu0=st.none() | st.floats(0.1, 10))
def test_the_learnt_b0_has_the_units_of_the_squared_distances(seed, scale, mu0):
    squared, pairs = random_pairs(seed, weighted=True)
    plain = learn_b0(squared, pairs, PAPER_MARGIN, 1.0, mu0)
    scaled = learn_b0(
        scale * squared, pairs, PAPER_MARGIN, 1.0, None if mu0 is None else scale * mu0
    )
    assert plain > 0
    assert_allclose(scaled, scale * plain, rtol=1e-9)


@given(seed=st.integers(0, 10**6), factor=st.floats(0.01, 100))
def test_weights_count_pairs_and_have_no_unit(seed, factor):
    squared, pairs = random_pairs(seed, weighted=True)
    counts = pairs.weights.astype(int)
    repeated = as_pairs_of(np.repeat(pairs.similar, counts))
    weighted = learn_b0(squared, pairs, PAPER_MARGIN, 0.3)
    assert_allclose(
        weighted, learn_b0(np.repeat(squared, counts), repeated, PAPER_MARGIN, 0.3), rtol=1e-10
    )
    heavier = as_pairs_of(pairs.similar, factor * pairs.weights)
    assert_allclose(weighted, learn_b0(squared, heavier, PAPER_MARGIN, 0.3), rtol=1e-10)


@pytest.mark.parametrize("margin", MARGINS)
def test_b0_tends_to_its_prior_as_the_pull_gets_stronger(margin):
    squared, pairs = random_pairs(1, weighted=True)
    for mu0 in (None, 0.2, 7.0):
        centre = default_centre(squared, pairs, margin) if mu0 is None else mu0
        distances = [
            abs(learn_b0(squared, pairs, margin, strength, mu0) - centre)
            for strength in (1.0, 1e3, 1e6, 1e12)
        ]
        assert distances == sorted(distances, reverse=True)
        assert distances[0] > 1e-3 * centre
        assert distances[-1] < 1e-9 * centre


def test_pairs_without_loss_leave_b0_at_its_prior():
    pairs = as_pairs_of([True, True, False, False])
    squared = np.array([0.1, 0.45, 2.1, 5.0])
    assert_allclose(learn_b0(squared, pairs, PAPER_MARGIN, 1.0, 1.0), 1.0, rtol=1e-12)


def test_distances_that_are_all_zero():
    pairs = as_pairs_of([True, True, False])
    assert learn_b0(np.zeros(3), pairs, PAPER_MARGIN, 1.0) == 0
    b0 = learn_b0(np.zeros(3), pairs, PAPER_MARGIN, 1.0, 0.7)
    # The loss of the dissimilar third is (2 b0)²/3, that of the pull (b0 − 0.7)².
    assert_allclose(b0, 0.7 / (1 + 4 / 3), rtol=1e-12)


# Calibration to a target


def calibrated_threshold(distances, similar, strategy="accuracy", sample_weight=None, **options):
    """Return the best threshold on the given pairs: nothing is promised for others."""
    target = check_target(strategy, confidence=None, **options)
    return calibrate(distances, similar, target, sample_weight=sample_weight)[0]


def counts_at(threshold, distances, similar, weights):
    """Return the weights of hits, misses, false matches and rejected pairs."""
    same = distances < threshold
    hits, misses = weights[same & similar].sum(), weights[~same & similar].sum()
    false, rejected = weights[same & ~similar].sum(), weights[~same & ~similar].sum()
    return hits, misses, false, rejected


def quality(threshold, data, strategy, option):
    """Return what a strategy maximises, −1 if its rate is not reached."""
    hits, misses, false, rejected = counts_at(threshold, *data)
    tpr, fpr = hits / (hits + misses), false / (false + rejected)
    match strategy:
        case "accuracy":
            return (hits + rejected) / (hits + misses + false + rejected)
        case "f_beta":
            square = option["beta"] ** 2
            weighted = (1 + square) * hits
            return weighted / (weighted + square * misses + false) if hits else 0.0
        case "max_tpr":
            return tpr if 1 - fpr >= option["min_rate"] - 1e-9 else -1.0
        case "max_tnr":
            return 1 - fpr if tpr >= option["min_rate"] - 1e-9 else -1.0
        case "false_match_rate":
            return tpr if fpr <= option["max_rate"] + 1e-9 else -1.0
        case "false_non_match_rate":
            return 1 - fpr if 1 - tpr <= option["max_rate"] + 1e-9 else -1.0
        case "precision":
            same = option.get("same_rate", (hits + misses) / (hits + misses + false + rejected))
            wrong, right = (1 - same) * fpr, same * tpr
            return wrong + right if right >= option["min_rate"] * (wrong + right) - 1e-9 else -1.0


def all_thresholds(distances):
    """Return one threshold for each way to divide the pairs."""
    values = np.unique(distances)
    return [0.0, *((values[1:] + values[:-1]) / 2), values[-1] + 1]


@st.composite
def calibration_pairs(draw):
    """Draw distances with many ties, both kinds of pairs, integer weights or none."""
    n = draw(st.integers(2, 12))
    distances = np.array(draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))) / 4
    similar = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    similar[:2] = [True, False]
    if draw(st.integers(0, 2)) == 0:
        return distances, similar, None
    counts = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    counts[:2] = [max(1, count) for count in counts[:2]]  # both kinds must count
    return distances, similar, np.array(counts, dtype=float)


RATES = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 0.9, 1.0])
SAME_RATES = st.sampled_from([{}, {"same_rate": 0.1}, {"same_rate": 0.5}])
OPTIONS = {
    "accuracy": st.just({}),
    "f_beta": st.builds(lambda beta: {"beta": beta}, st.sampled_from([0.0, 0.3, 1.0, 2.0])),
    "max_tpr": st.builds(lambda rate: {"min_rate": rate}, RATES),
    "max_tnr": st.builds(lambda rate: {"min_rate": rate}, RATES),
    "false_match_rate": st.builds(lambda rate: {"max_rate": rate}, RATES),
    "false_non_match_rate": st.builds(lambda rate: {"max_rate": rate}, RATES),
    "precision": st.builds(lambda rate, same: {"min_rate": rate} | same, RATES, SAME_RATES),
}


def test_every_strategy_is_tried():
    assert set(OPTIONS) == set(CALIBRATION_STRATEGIES)


@pytest.mark.parametrize("strategy", CALIBRATION_STRATEGIES)
@settings(max_examples=40)
@given(pairs=calibration_pairs(), data=st.data())
def test_no_threshold_is_better_for_the_target_and_weights_repeat_pairs(strategy, pairs, data):
    distances, similar, weights = pairs
    option = data.draw(OPTIONS[strategy])
    threshold = calibrated_threshold(distances, similar, strategy, sample_weight=weights, **option)
    counted = distances, similar, np.ones(len(distances)) if weights is None else weights
    best = max(quality(t, counted, strategy, option) for t in all_thresholds(distances))
    assert best >= 0
    assert threshold >= 0
    assert_allclose(quality(threshold, counted, strategy, option), best, rtol=1e-9, atol=1e-9)
    if weights is not None:
        repeated = (np.repeat(array, weights.astype(int)) for array in (distances, similar))
        other = calibrated_threshold(*repeated, strategy, **option)
        assert_allclose(quality(other, counted, strategy, option), best, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(pairs=calibration_pairs(), rate=st.floats(0, 1))
def test_the_rate_that_is_asked_for_is_reached(pairs, rate):
    distances, similar, weights = pairs
    counted = np.ones(len(distances)) if weights is None else weights
    for strategy, name in (
        ("false_match_rate", "max_rate"),
        ("false_non_match_rate", "max_rate"),
        ("max_tpr", "min_rate"),
        ("max_tnr", "min_rate"),
    ):
        threshold = calibrated_threshold(
            distances, similar, strategy, sample_weight=weights, **{name: rate}
        )
        hits, misses, false, rejected = counts_at(threshold, distances, similar, counted)
        tpr, fpr = hits / (hits + misses), false / (false + rejected)
        excess = {"false_match_rate": rate - fpr, "max_tpr": 1 - fpr - rate, "max_tnr": tpr - rate}
        excess["false_non_match_rate"] = rate - (1 - tpr)
        assert excess[strategy] >= -1e-11, strategy


EXTREMES = {
    "no false match": ("false_match_rate", {"max_rate": 0.0}, 0.5, 0.0),
    "any false match": ("false_match_rate", {"max_rate": 1.0}, 1.0, 1.0),
    "every difference": ("max_tpr", {"min_rate": 1.0}, 0.5, 0.0),
    "any difference": ("max_tpr", {"min_rate": 0.0}, 1.0, 0.5),
    "every match": ("max_tnr", {"min_rate": 1.0}, 1.0, 0.5),
    "any match": ("max_tnr", {"min_rate": 0.0}, None, 0.0),
    "no false non-match": ("false_non_match_rate", {"max_rate": 0.0}, 1.0, 0.5),
    "any false non-match": ("false_non_match_rate", {"max_rate": 1.0}, 0.0, 0.0),
}


def test_rates_of_zero_and_one():
    """Distances 1 to 4, of which the 2nd and the 4th are dissimilar."""
    distances, similar = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, False])
    for kind, (strategy, option, tpr, fpr) in EXTREMES.items():
        threshold = calibrated_threshold(distances, similar, strategy, **option)
        hits, misses, false, rejected = counts_at(threshold, distances, similar, np.ones(4))
        assert tpr is None or hits / (hits + misses) == tpr, kind
        assert false / (false + rejected) == fpr, kind


@settings(max_examples=40)
@given(pairs=calibration_pairs(), rate=st.floats(0, 1))
@example((np.array([0.5, 0.7, 2.0, 2.5]), np.array([True, True, False, False]), None), 0.5)
def test_a_rate_has_the_largest_threshold_and_the_other_rate_the_smallest(pairs, rate):
    """The next float beyond it has a larger rate, unless all pairs are on the right side."""
    distances, similar, weights = pairs
    counted = np.ones(len(distances)) if weights is None else weights
    for strategy, wrong, beyond in (
        ("false_match_rate", ~similar, np.inf),
        ("false_non_match_rate", similar, -np.inf),
    ):
        threshold = calibrated_threshold(
            distances, similar, strategy, sample_weight=weights, max_rate=rate
        )
        next_one = np.nextafter(threshold, beyond)
        if distances.min() < next_one <= distances.max():
            errors = (distances < next_one) == (beyond > 0)
            assert counted[wrong & errors].sum() > (rate - 1e-11) * counted[wrong].sum(), strategy


@pytest.mark.parametrize("weights", [None, np.full(40, 2.0)])
def test_the_plain_quantile_of_separated_kinds_is_that_of_one_kind(weights):
    """Similar pairs have distances 0.1 to 2.0, the others 3.1 to 5.0: two errors in 20 are 0.1."""
    distances = np.r_[0.1 * np.arange(1, 21), 3 + 0.1 * np.arange(1, 21)]
    similar = np.arange(40) < 20
    given = {"sample_weight": weights, "max_rate": 0.1}
    match = calibrated_threshold(distances, similar, "false_match_rate", **given)
    non_match = calibrated_threshold(distances, similar, "false_non_match_rate", **given)
    assert (match, non_match) == (distances[22], np.nextafter(distances[17], np.inf))
    counts = [counts_at(t, distances, similar, np.ones(40)) for t in (match, non_match)]
    assert counts == [(20, 0, 2, 18), (18, 2, 0, 20)]


def test_the_threshold_is_half_way_between_two_distances():
    distances, similar = np.array([3.0, 1.0, 2.0, 7.0]), np.array([True, True, True, False])
    assert calibrated_threshold(distances, similar) == 5.0
    distances, similar = np.array([0.0, 0.0, 1.0]), np.array([False, False, True])
    assert calibrated_threshold(distances, similar) == 0.0  # no pair is the same


@pytest.mark.parametrize("largest", [2.0, 0.0, 5e-324, 1e300])
def test_if_every_pair_should_be_the_same_the_threshold_is_just_above_the_largest(largest):
    """The next float: any larger one would accept distances that were never seen."""
    distances, similar = largest * np.array([0.5, 1, 1, 1]), np.array([False, True, True, True])
    threshold = calibrated_threshold(distances, similar)
    assert threshold == np.nextafter(largest, np.inf)
    assert np.all(distances < threshold)


@given(st.floats(0, 1e300))
@example(1.0)
@example(0.0)
@example(np.nextafter(1.0, 2.0))
def test_neighbouring_floats_are_separated(distance):
    """There is no float half-way between them."""
    distances = np.array([distance, np.nextafter(distance, np.inf)])
    threshold = calibrated_threshold(distances, np.array([True, False]))
    assert distances[0] < threshold <= distances[1]


BAD_TARGETS = {
    "word": ({"strategy": "best"}, ValueError, "strategy: expected one of 'accuracy'.*got 'best'"),
    "no min_rate": ({"strategy": "max_tpr"}, TypeError, "min_rate: expected a number from 0 to 1"),
    "no min_rate for tnr": ({"strategy": "max_tnr"}, TypeError, "min_rate: .*'max_tnr', got None"),
    "no max_rate": ({"strategy": "false_match_rate"}, TypeError, "max_rate: expected a number"),
    "foreign min_rate": ({"min_rate": 0.5}, ValueError, "min_rate: expected None.*'accuracy'"),
    "foreign max_rate": (
        {"strategy": "max_tpr", "min_rate": 0.5, "max_rate": 0.1},
        ValueError,
        "max_rate: expected None with strategy='max_tpr', got 0.1",
    ),
    "above 1": ({"strategy": "max_tpr", "min_rate": 1.1}, ValueError, "min_rate: .*got 1.1"),
    "below 0": (
        {"strategy": "false_match_rate", "max_rate": -0.1},
        ValueError,
        "max_rate: .*got -0.1",
    ),
    "NaN": ({"strategy": "max_tnr", "min_rate": np.nan}, ValueError, "min_rate: .*got nan"),
    "bool": ({"strategy": "max_tnr", "min_rate": True}, TypeError, "min_rate: .*got True"),
    "text": ({"strategy": "max_tnr", "min_rate": "1"}, TypeError, "min_rate: .*got '1'"),
    "infinite beta": (
        {"strategy": "f_beta", "beta": np.inf},
        ValueError,
        "beta: expected.*got inf",
    ),
    "text beta": ({"strategy": "f_beta", "beta": "1"}, TypeError, "beta: expected.*got '1'"),
}


@pytest.mark.parametrize(("options", "error", "message"), BAD_TARGETS.values())
def test_a_bad_target_is_named(options, error, message):
    with pytest.raises(error, match=message):
        calibrated_threshold(np.array([1.0, 2.0]), np.array([True, False]), **options)


# Calibration of an estimator

X = np.array([0.0, 1.0, 3.0, 3.5, 8.0, 9.5])[:, None]
Y = [0, 0, 0, 1, 1, 1]
INDEX = np.array([(i, j) for i in range(6) for j in range(i)])
LABELS = np.where((INDEX[:, 0] < 3) == (INDEX[:, 1] < 3), 1, -1)


@pytest.fixture
def model():
    return Euclidean(random_state=0).fit(X, Y)


def test_calibration_sets_the_best_threshold_and_nothing_else(model):
    before = dict(vars(model))
    assert model.calibrate_threshold(INDEX, LABELS, X=X) is model
    distances = np.abs(X[INDEX[:, 0]] - X[INDEX[:, 1]])[:, 0]
    best = max(np.mean(np.where(distances < t, 1, -1) == LABELS) for t in np.arange(0, 12, 0.25))
    assert np.mean(model.predict_pairs(INDEX, X) == LABELS) == best
    assert changed_attributes(model, before) == {"threshold_", "calibration_"}


def test_calibration_takes_weights(model):
    weights = np.where(LABELS == 1, 0.001, 1.0)
    model.calibrate_threshold(INDEX, LABELS, sample_weight=weights, X=X)
    assert np.all(model.predict_pairs(INDEX, X)[LABELS == -1] == -1)
    model.calibrate_threshold(INDEX, LABELS, sample_weight=1 / weights, X=X)
    assert np.all(model.predict_pairs(INDEX, X)[LABELS == 1] == 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "luck"}, "strategy: expected one of"),
        ({"y": np.ones(15)}, r"y: expected similar \(\+1\) and dissimilar"),
        ({"y": np.zeros(15)}, r"y: expected \+1 for similar"),
        ({"sample_weight": np.ones(3)}, "sample_weight: expected shape"),
        ({"sample_weight": -np.ones(15)}, "sample_weight: expected finite, non-negative"),
        ({"sample_weight": LABELS == 1}, "sample_weight: expected weights that leave similar"),
        ({"sample_weight": LABELS == -1}, "sample_weight: expected weights that leave similar"),
    ],
)
def test_a_failing_calibration_changes_nothing(model, options, message):
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.calibrate_threshold(INDEX, **{"y": LABELS} | options, X=X)
    assert changed_attributes(model, before) == set()


def test_the_most_accurate_threshold_is_in_the_middle_of_the_gap():
    similar = np.array([True, True, False, False])
    assert most_accurate(np.array([1.0, 2.0, 4.0, 5.0]), similar) == (3.0, 1.0)
    assert most_accurate(np.array([1.0, 4.0, 2.0, 5.0]), similar) == (1.5, 0.75)
    assert most_accurate(np.array([4.0, 5.0, 1.0, 2.0]), similar) == (1.0, 0.5)  # none is better
