"""Plans of promises: their theorems, the reverse question, pilots, and simulations."""

import pickle

import numpy as np
import pytest
from benchmark_helpers import import_benchmark
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tatml import PairThreshold
from tatml._verification.calibration import find_allowed, units_needed
from tatml._verification.planning import Dependence, Design
from tatml._verification.rates import RankedPairs, most_errors
from tatml._verification.targets import Target
from tatml.plotting import PlanDisplay
from tatml.verification import plan, report

MATCH, NON_MATCH = "false_match_rate", "false_non_match_rate"
INDEPENDENT = Dependence(0.0, 0.0, 0.0)
RATES = st.sampled_from([0.2, 0.1, 0.03, 0.01, 0.001])


def design(n_identities, n_samples=1, rate=0.1, known=INDEPENDENT, strategy=MATCH):
    return Design(n_identities, n_samples, Target(strategy, rate, confidence=0.95), known)


def pilot_of(errors, units, strategy=MATCH):
    """A report whose pairs of one kind have the errors at 0, and few pairs of the other kind."""
    matches = strategy == MATCH
    distances = np.where(errors == matches, 0.1, 1.0)
    y = np.r_[np.full(len(errors), -1 if matches else 1), np.repeat(1 if matches else -1, 2)]
    alone = units.max() + 1 + np.arange(4).reshape(2, 2)
    distances = np.r_[distances, 1.0, 0.1]
    return report(PairThreshold("precomputed"), distances, y, groups=np.r_[units, alone])


# The rules


def test_independent_pairs_have_the_exact_rule():
    one = design(40)
    assert one.design_effect(0.1) == 1
    assert one.n_effective() == one.n_pairs == 780
    assert one.allowed_rate() == most_errors(780, 0.1, 0.95) / 780
    rng = np.random.default_rng(0)
    errors = rng.binomial(780, 0.07, 40_000)
    expected = np.mean(errors <= most_errors(780, 0.1, 0.95))
    assert one.find_power(0.07) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("n_identities", "n_samples"), [(12, 1), (6, 3)])
def test_the_variance_is_that_of_effects_of_identities_and_couples(n_identities, n_samples):
    """Errors of pairs of the same identities are correlated, and the observed rate varies so."""
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(n_identities * n_samples, 1)
    first, second = i // n_samples, j // n_samples
    kept = first != second
    first, second = first[kept], second[kept]
    rates = []
    for _ in range(6000):
        own = rng.choice([0.1, 0.7], n_identities)
        couple = rng.choice([0.5, 1.5], (n_identities, n_identities))
        chance = own[first] * own[second] * couple[first, second]
        rates.append(np.mean(rng.random(len(first)) < chance))
    mean = 0.4**2
    spread = np.sqrt(0.25 / 0.16 - 1)
    couples = (0.25**2 * 1.25 - mean**2) / (mean * (1 - mean))
    known = Dependence(spread, couples, 0.0)
    found = design(n_identities, n_samples, mean, known)
    expected = mean * (1 - mean) / found.n_pairs * found.design_effect(mean)
    assert found.n_pairs == len(first)
    assert np.var(rates) == pytest.approx(expected, rel=0.08)
    assert np.mean(rates) == pytest.approx(mean, rel=0.02)


def test_samples_of_identities_that_differ_add_little():
    known = Dependence(1.5, 0.5, 0.0)
    worth = [design(100, m, 0.01, known).n_effective() for m in (1, 2, 4, 50)]
    assert np.all(np.diff(worth) > 0)
    assert worth[-1] < 2 * worth[0]
    most = 100 / (4 * 1.5**2 * 0.01 / 0.99)
    assert worth[-1] < 1.05 * most


@given(RATES, st.floats(0, 3), st.floats(0, 1), st.floats(0, 1))
def test_more_identities_allow_more(rate, spread, repeat, resemblance):
    known = Dependence(spread, repeat, resemblance)
    counts = np.geomspace(30, 30_000, 12).astype(int)
    allowed = [design(n, 2, rate, known).allowed_rate() for n in counts]
    assert np.all(np.diff(allowed) > -0.03 * rate)
    assert max(allowed) <= rate


@given(RATES, st.floats(0.2, 0.8), st.integers(1, 4))
def test_the_plan_is_the_smallest_number_with_the_power(rate, share, n_samples):
    found = plan(rate, expected_share=share, samples_per_identity=n_samples)
    assert found.power >= 0.9
    assert found.n_identities >= found.units_needed == units_needed(Target(MATCH, rate, 1.0, 0.95))
    if found.n_identities > found.units_needed:
        less = plan(
            rate,
            n_identities=found.n_identities - 1,
            expected_share=share,
            samples_per_identity=n_samples,
        )
        assert less.power < 0.9


@given(st.integers(60, 20_000))
def test_the_reverse_question_returns_the_rate(n_identities):
    found = plan(n_identities=n_identities)
    assert found.power >= 0.9
    # Numbers of errors are whole: the power does not increase evenly with the identities.
    assert plan(found.max_rate).n_identities <= 1.1 * n_identities
    assert plan(0.9 * found.max_rate).n_identities > 0.9 * n_identities
    assert found.rate_for(n_identities) == found.max_rate


def test_plans_tell_what_is_missing():
    few = plan(0.01, n_identities=20)
    assert few.power == 0
    assert few.max_errors is None
    assert "expected to be refused" in str(few)
    assert "At least 61 identities are wanted" in str(few)
    assert f"{plan(0.01).n_identities} identities" in str(plan(0.01))
    same = pickle.loads(pickle.dumps(few))
    assert same == few
    assert same.rate_for(500) == few.rate_for(500)


# Pilots


def test_a_pilot_of_effects_is_found():
    """Identities whose own rates are gamma's, and couples that repeat."""
    rng = np.random.default_rng(1)
    n_identities, n_samples, spread = 300, 2, 0.8
    i, j = np.triu_indices(n_identities * n_samples, 1)
    units = np.stack([i, j], axis=1) // n_samples
    units = units[units[:, 0] != units[:, 1]]
    own = rng.gamma(1 / spread**2, spread**2, n_identities)
    couple = rng.choice([0.0, 2.0], (n_identities, n_identities))
    chance = 0.03 * own[units[:, 0]] * own[units[:, 1]] * couple[units[:, 0], units[:, 1]]
    errors = rng.random(len(units)) < chance
    found = Dependence.of_pilot(RankedPairs(errors * 1.0, units), errors.mean(), matches=True)
    assert found.spread == pytest.approx(own.std() / own.mean(), rel=0.1)
    second = 0.03**2 * 2 * np.mean(own**2) ** 2
    assert found.repeat == pytest.approx((second - 0.03**2) / (0.03 * 0.97), abs=0.03)


def test_what_is_given_takes_the_place_of_the_pilot():
    rng = np.random.default_rng(0)
    units = np.stack(np.triu_indices(60, 1), axis=1)
    errors = rng.random(len(units)) < 0.1
    pilot = pilot_of(errors, units)
    found = plan(0.1, pilot=pilot)
    assert found.spread < 0.4
    assert found.n_identities < plan(0.1).n_identities
    given = plan(0.1, pilot=pilot, spread=1.0)
    assert (given.spread, given.resemblance) == (1.0, found.resemblance)
    assert given.n_identities > found.n_identities


def test_a_pilot_of_similar_pairs_tells_how_they_repeat():
    units = np.repeat(np.arange(200), 10)[:, None] + np.zeros((1, 2), dtype=int)
    errors = np.repeat(np.random.default_rng(0).random(200) < 0.2, 10)
    always = plan(
        0.1, strategy=NON_MATCH, samples_per_identity=5, pilot=pilot_of(errors, units, NON_MATCH)
    )
    assert always.repeat == pytest.approx(1, abs=0.05)
    assert always.n_effective == pytest.approx(always.n_identities, rel=0.1)


# Simulations


def test_the_allowed_rate_is_that_of_the_calibration():
    """For gamma identities: the mean of what `calibrate_threshold` allows, within a tenth."""
    rng = np.random.default_rng(0)
    units = np.stack(np.triu_indices(120, 1), axis=1)
    allowed, known = [], []
    for _ in range(12):
        own = rng.gamma(1.5, 1 / 1.5, 120)
        excess = np.log(own[units].prod(axis=1)) + rng.logistic(size=len(units))
        ranked = RankedPairs(excess, units)
        allowed.append(find_allowed(ranked, 0.05, 0.95, resembles=True)[0] / len(units))
        known.append(Dependence.of_pilot(ranked, 0.05, matches=True))
    parts = np.mean([list(vars(one).values()) for one in known], axis=0)
    planned = design(120, 1, 0.05, Dependence(*parts)).allowed_rate()
    assert planned == pytest.approx(np.mean(allowed), rel=0.12)


def test_promises_are_given_and_kept_with_the_planned_numbers():
    """A small part of the benchmark."""
    benchmark = import_benchmark("plan_coverage")
    found = [
        benchmark.run((0, 0.1, piloted, seed, 250_000)) for piloted in (0, 1) for seed in range(12)
    ]
    n_identities, _, given, kept, useful, mean = benchmark.summarise(found, 0.1)
    assert given == 1
    assert kept >= 0.83  # 0.95 is expected
    assert useful >= 0.7  # 0.9 is expected
    assert 0.5 < mean < 0.9
    assert 60 < n_identities < 120


def test_the_display_has_the_rates_of_other_numbers():
    pytest.importorskip("matplotlib").use("agg")
    found = plan(0.01)
    display = PlanDisplay.from_plan(found, n_points=5)
    for n_identities, rate in zip(display.n_identities[1:], display.rates[1:], strict=True):
        assert plan(n_identities=int(n_identities)).max_rate == rate
    (line, mark) = display.ax_.get_lines()
    assert_allclose(line.get_ydata(), display.rates)
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (found.n_identities, 0.01)
    with pytest.raises(TypeError, match="plan: expected a Plan of tatml"):
        PlanDisplay.from_plan(0.01)


# What is refused


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, ValueError, "max_rate: expected a rate, or n_identities, got None for both"),
        ({"max_rate": 0}, ValueError, "max_rate: expected a number between 0 and 1, got 0"),
        ({"max_rate": 2.0}, ValueError, "max_rate: expected a number between 0 and 1, got 2"),
        ({"max_rate": "low"}, TypeError, "max_rate: expected a number, got 'low'"),
        ({"max_rate": 0.1, "confidence": None}, TypeError, "confidence: expected a number"),
        ({"n_identities": 2}, ValueError, "n_identities: expected"),
        ({"n_identities": 4}, ValueError, "n_identities: expected so many that they can"),
        ({"max_rate": 0.1, "power": 1.0}, ValueError, "power: expected a number between 0 and 1"),
        ({"max_rate": 0.1, "expected_share": 1}, ValueError, "expected_share: expected a number"),
        (
            {"max_rate": 1e-14},
            ValueError,
            "max_rate: expected one that 1e.07 ident",
        ),
        ({"max_rate": 0.1, "samples_per_identity": 0}, ValueError, "samples_per_identity: exp"),
        (
            {"max_rate": 0.1, "samples_per_identity": 1, "strategy": NON_MATCH},
            ValueError,
            "samples_per_identity: expected",
        ),
        ({"max_rate": 0.1, "strategy": "accuracy"}, ValueError, "strategy: expected one of"),
        ({"max_rate": 0.1, "spread": -1}, ValueError, "spread: expected"),
        ({"max_rate": 0.1, "repeat": 2}, ValueError, "repeat: expected"),
        ({"max_rate": 0.1, "resemblance": np.nan}, ValueError, "resemblance: expected"),
        ({"max_rate": 0.1, "pilot": [0.1]}, TypeError, "pilot: expected a Report of tatml"),
    ],
)
def test_bad_input_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        plan(**given)


def test_pilots_that_tell_nothing_are_refused():
    distances, y = np.linspace(0, 2, 200), np.tile([1, -1], 100)
    judge = PairThreshold("precomputed")
    with pytest.raises(ValueError, match="pilot: expected pairs that share groups, got indep"):
        plan(0.1, pilot=report(judge, distances, y))
    few = np.stack(np.triu_indices(8, 1), axis=1)
    pilot = pilot_of(np.arange(28) < 3, few)
    with pytest.raises(ValueError, match=r"pilot: expected at least 40 pairs that can .* got 28"):
        plan(0.1, pilot=pilot)
