"""Where the threshold is put: by the criterion of TATML, and by a target."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from tatml import Euclidean
from tatml._data.pairs import Pairs
from tatml._estimators.thresholds import (
    CALIBRATION_STRATEGIES,
    b0_of,
    calibrated_threshold,
    learn_b0,
    threshold_of,
)

PAPER_MARGIN = (0.5, 2.0)
MARGINS = [PAPER_MARGIN, (0.2, 3.0), (0.9, 1.1)]


# Units


@given(
    st.floats(1e-6, 1e6),
    st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)).filter(lambda m: m[0] < m[1]),
)
def test_threshold_and_b0_are_two_names_of_one_number(b0, margin):
    threshold = threshold_of(b0, margin)
    assert_allclose(b0_of(threshold, margin), b0, rtol=1e-12)
    # in the middle of the margins √(γ_s b0) and √(γ_d b0) on a logarithmic scale
    assert_allclose(threshold**4, margin[0] * b0 * margin[1] * b0, rtol=1e-12)


def test_the_threshold_is_the_root_of_b0_for_the_margin_of_the_paper():
    assert threshold_of(9.0, PAPER_MARGIN) == 3.0
    assert b0_of(3.0, PAPER_MARGIN) == 9.0


def test_no_b0_is_no_distance():
    assert threshold_of(0.0, PAPER_MARGIN) == 0.0
    assert threshold_of(-1e-9, PAPER_MARGIN) == 0.0


# TATML's criterion


def as_pairs_of(similar, weights=None):
    return Pairs(np.zeros((len(similar), 2), dtype=np.intp), np.asarray(similar), weights)


def criterion(b0, squared, pairs, margin, strength, mu0):
    """The loss of one b0, pair by pair."""
    weights = np.ones(len(pairs)) if pairs.weights is None else pairs.weights
    total = 0.0
    for D, similar, weight in zip(squared, pairs.similar, weights, strict=True):
        excess = D - margin[0] * b0 if similar else margin[1] * b0 - D
        total += weight * max(excess, 0.0) ** 2
    return total / weights.sum() + strength * (b0 - mu0) ** 2


def default_centre(squared, pairs, margin):
    """The b0 whose threshold is the root mean squared distance."""
    return np.average(squared, weights=pairs.weights) / np.sqrt(margin[0] * margin[1])


def random_pairs(seed, weighted, n_pairs=40):
    rng = np.random.default_rng(seed)
    similar = rng.random(n_pairs) < 0.4
    squared = rng.gamma(2, size=n_pairs) * np.where(similar, 1, 3) * 10.0 ** rng.uniform(-3, 3)
    weights = rng.integers(1, 5, size=n_pairs).astype(float) if weighted else None
    return squared, as_pairs_of(similar, weights)


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("strength", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("mu0", [None, 0.1, 5.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_learnt_b0_minimises_its_criterion(margin, strength, mu0, weighted):
    squared, pairs = random_pairs(0, weighted)
    unit = np.average(squared, weights=pairs.weights)
    centre = default_centre(squared, pairs, margin) if mu0 is None else mu0 * unit
    b0 = learn_b0(squared, pairs, margin, strength, None if mu0 is None else centre)

    def loss(relative):
        return criterion(relative * unit, squared, pairs, margin, strength, centre) / unit**2

    found = minimize_scalar(loss, bounds=(0, 20), method="bounded", options={"xatol": 1e-10})
    assert loss(b0 / unit) <= found.fun * (1 + 1e-12)
    assert_allclose(b0 / unit, found.x, rtol=1e-5)
    grid = np.linspace(0, 20, 2001)
    assert loss(b0 / unit) <= min(map(loss, grid))


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
@pytest.mark.parametrize("mu0", [None, 0.2, 7.0])
def test_a_strong_pull_ends_at_its_centre(mu0, margin):
    squared, pairs = random_pairs(1, weighted=True)
    centre = default_centre(squared, pairs, margin) if mu0 is None else mu0
    distances = [
        abs(learn_b0(squared, pairs, margin, strength, mu0) - centre)
        for strength in (1.0, 1e3, 1e6, 1e12)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 1e-3 * centre
    assert distances[-1] < 1e-9 * centre


def test_pairs_that_are_told_apart_leave_b0_at_its_centre():
    pairs = as_pairs_of([True, True, False, False])
    squared = np.array([0.1, 0.45, 2.1, 5.0])
    assert_allclose(learn_b0(squared, pairs, PAPER_MARGIN, 1.0, 1.0), 1.0, rtol=1e-12)


def test_without_distances_b0_is_zero():
    assert learn_b0(np.zeros(3), as_pairs_of([True, True, False]), PAPER_MARGIN, 1.0) == 0


def test_a_given_centre_holds_without_distances_too():
    pairs = as_pairs_of([True, True, False])
    b0 = learn_b0(np.zeros(3), pairs, PAPER_MARGIN, 1.0, 0.7)
    # the dissimilar third costs (2 b0)²/3, the pull (b0 − 0.7)²
    assert_allclose(b0, 0.7 / (1 + 4 / 3), rtol=1e-12)


# A target


def counts_at(threshold, distances, similar, weights):
    """The weight of hits, misses, false matches and rejected pairs."""
    same = distances < threshold
    hits, misses = weights[same & similar].sum(), weights[~same & similar].sum()
    false, rejected = weights[same & ~similar].sum(), weights[~same & ~similar].sum()
    return hits, misses, false, rejected


def quality(threshold, data, strategy, option):
    """What a strategy maximises: −1 where the rate it asks for is not reached."""
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


def all_thresholds(distances):
    """One for each way to divide the pairs."""
    values = np.unique(distances)
    return [0.0, *((values[1:] + values[:-1]) / 2), values[-1] + 1]


@st.composite
def calibration_pairs(draw, always_weighted=False):
    """Distances with many ties, both kinds of pairs, integer weights or none."""
    n = draw(st.integers(2, 12))
    distances = np.array(draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))) / 4
    similar = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    similar[:2] = [True, False]
    if not always_weighted and draw(st.booleans()):
        return distances, similar, None
    counts = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    counts[:2] = [max(1, count) for count in counts[:2]]  # else one kind would not count
    return distances, similar, np.array(counts, dtype=float)


RATES = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 0.9, 1.0])
OPTIONS = {
    "accuracy": st.just({}),
    "f_beta": st.builds(lambda beta: {"beta": beta}, st.sampled_from([0.0, 0.3, 1.0, 2.0])),
    "max_tpr": st.builds(lambda rate: {"min_rate": rate}, RATES),
    "max_tnr": st.builds(lambda rate: {"min_rate": rate}, RATES),
    "false_match_rate": st.builds(lambda rate: {"max_rate": rate}, RATES),
}


def test_every_strategy_is_tried():
    assert set(OPTIONS) == set(CALIBRATION_STRATEGIES)


@pytest.mark.parametrize("strategy", CALIBRATION_STRATEGIES)
@given(pairs=calibration_pairs(), data=st.data())
def test_no_threshold_serves_the_target_better(strategy, pairs, data):
    distances, similar, weights = pairs
    option = data.draw(OPTIONS[strategy])
    threshold = calibrated_threshold(distances, similar, strategy, sample_weight=weights, **option)
    counted = distances, similar, np.ones(len(distances)) if weights is None else weights
    best = max(quality(t, counted, strategy, option) for t in all_thresholds(distances))
    assert best >= 0
    assert threshold >= 0
    assert_allclose(quality(threshold, counted, strategy, option), best, rtol=1e-9, atol=1e-9)


@given(pairs=calibration_pairs(), max_rate=st.floats(0, 1))
def test_the_false_match_rate_is_never_exceeded(pairs, max_rate):
    distances, similar, weights = pairs
    threshold = calibrated_threshold(
        distances, similar, "false_match_rate", max_rate=max_rate, sample_weight=weights
    )
    counted = np.ones(len(distances)) if weights is None else weights
    _, _, false, rejected = counts_at(threshold, distances, similar, counted)
    assert false / (false + rejected) <= max_rate + 1e-11


@given(pairs=calibration_pairs(), min_rate=st.floats(0, 1))
def test_the_least_rate_is_reached(pairs, min_rate):
    distances, similar, weights = pairs
    counted = np.ones(len(distances)) if weights is None else weights
    for strategy in ("max_tpr", "max_tnr"):
        threshold = calibrated_threshold(
            distances, similar, strategy, min_rate=min_rate, sample_weight=weights
        )
        hits, misses, false, rejected = counts_at(threshold, distances, similar, counted)
        tpr, tnr = hits / (hits + misses), rejected / (false + rejected)
        assert (tnr if strategy == "max_tpr" else tpr) >= min_rate - 1e-11


EXTREMES = {
    "no false match": ("false_match_rate", {"max_rate": 0.0}, 0.5, 0.0),
    "any false match": ("false_match_rate", {"max_rate": 1.0}, 1.0, 0.5),
    "every difference": ("max_tpr", {"min_rate": 1.0}, 0.5, 0.0),
    "any difference": ("max_tpr", {"min_rate": 0.0}, 1.0, 0.5),
    "every match": ("max_tnr", {"min_rate": 1.0}, 1.0, 0.5),
    "any match": ("max_tnr", {"min_rate": 0.0}, None, 0.0),
}


@pytest.mark.parametrize("kind", EXTREMES)
def test_the_extreme_counts_at(kind):
    """Distances 1 to 4, of which the 2nd and the 4th are dissimilar."""
    strategy, option, tpr, fpr = EXTREMES[kind]
    distances, similar = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, False])
    threshold = calibrated_threshold(distances, similar, strategy, **option)
    hits, misses, false, rejected = counts_at(threshold, distances, similar, np.ones(4))
    assert tpr is None or hits / (hits + misses) == tpr
    assert false / (false + rejected) == fpr


def test_the_threshold_is_half_way_between_two_distances():
    distances, similar = np.array([3.0, 1.0, 2.0, 7.0]), np.array([True, True, True, False])
    assert calibrated_threshold(distances, similar) == 5.0


def test_a_pair_at_distance_zero_can_be_told_apart():
    distances, similar = np.array([0.0, 0.0, 1.0]), np.array([False, False, True])
    assert calibrated_threshold(distances, similar) == 0.0


def test_every_pair_can_be_the_same():
    distances, similar = np.array([1.0, 2.0, 2.0, 2.0]), np.array([False, True, True, True])
    assert calibrated_threshold(distances, similar) > 2.0


@given(st.floats(0, 1e300))
@example(1.0)
@example(0.0)
@example(np.nextafter(1.0, 2.0))
def test_neighbouring_numbers_are_told_apart(distance):
    """Half-way between two floats that follow each other is one of them."""
    distances = np.array([distance, np.nextafter(distance, np.inf)])
    threshold = calibrated_threshold(distances, np.array([True, False]))
    assert distances[0] < threshold <= distances[1]


@pytest.mark.parametrize("strategy", CALIBRATION_STRATEGIES)
@given(pairs=calibration_pairs(always_weighted=True), data=st.data())
def test_weights_repeat_pairs(strategy, pairs, data):
    distances, similar, weights = pairs
    option = data.draw(OPTIONS[strategy])
    counts = weights.astype(int)
    by_weight = calibrated_threshold(distances, similar, strategy, sample_weight=weights, **option)
    by_hand = calibrated_threshold(
        np.repeat(distances, counts), np.repeat(similar, counts), strategy, **option
    )
    reached = [quality(t, pairs, strategy, option) for t in (by_weight, by_hand)]
    assert_allclose(*reached, rtol=1e-9, atol=1e-9)


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


@pytest.mark.parametrize("kind", BAD_TARGETS)
def test_a_bad_target_is_named(kind):
    options, error, message = BAD_TARGETS[kind]
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


def changed(model, before):
    """The names of the attributes that are no longer what they were."""
    now = vars(model)
    return {name for name in now.keys() | before.keys() if now.get(name) is not before.get(name)}


def test_calibration_sets_the_best_threshold_and_nothing_else(model):
    before = dict(vars(model))
    assert model.calibrate_threshold(INDEX, LABELS, X=X) is model
    distances = np.abs(X[INDEX[:, 0]] - X[INDEX[:, 1]])[:, 0]
    best = max(np.mean(np.where(distances < t, 1, -1) == LABELS) for t in np.arange(0, 12, 0.25))
    assert np.mean(model.predict_pairs(INDEX, X) == LABELS) == best
    assert changed(model, before) == {"threshold_"}


def test_calibration_takes_weights(model):
    weights = np.where(LABELS == 1, 0.001, 1.0)
    model.calibrate_threshold(INDEX, LABELS, sample_weight=weights, X=X)
    assert np.all(model.predict_pairs(INDEX, X)[LABELS == -1] == -1)
    model.calibrate_threshold(INDEX, LABELS, sample_weight=1 / weights, X=X)
    assert np.all(model.predict_pairs(INDEX, X)[LABELS == 1] == 1)


@pytest.mark.parametrize("kind", [1, -1])
def test_calibration_needs_both_kinds_to_count(model, kind):
    before, weights = dict(vars(model)), (kind == LABELS).astype(float)
    with pytest.raises(ValueError, match="sample_weight: expected"):
        model.calibrate_threshold(INDEX, LABELS, sample_weight=weights, X=X)
    assert changed(model, before) == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "luck"}, "strategy: expected one of"),
        ({"y": np.ones(15)}, r"y: expected similar \(\+1\) and dissimilar"),
        ({"y": np.zeros(15)}, r"y: expected \+1 for similar"),
        ({"sample_weight": np.ones(3)}, "sample_weight: expected shape"),
        ({"sample_weight": -np.ones(15)}, "sample_weight: expected finite, non-negative"),
    ],
)
def test_a_failing_calibration_changes_nothing(model, options, message):
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.calibrate_threshold(INDEX, **{"y": LABELS} | options, X=X)
    assert changed(model, before) == set()
