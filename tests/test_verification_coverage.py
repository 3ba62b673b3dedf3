"""A small run of benchmarks/verification_coverage.py: promises are kept, intervals cover."""

import numpy as np
import pytest
from benchmark_helpers import import_benchmark

from tatml._verification.calibration import calibrate
from tatml._verification.rates import RankedPairs
from tatml._verification.targets import check_target

N_RUNS, N_POPULATION = 100, 250_000
MATCH, NON_MATCH = "false_match_rate", "false_non_match_rate"


@pytest.fixture(scope="module")
def study():
    return import_benchmark("verification_coverage")


def find_world(study, name):
    (world,) = (world for world in study.WORLDS if world.name == name)
    return world


def most(share):
    """Return what a share of runs exceeds by chance once in a thousand times."""
    return share + 3.1 * np.sqrt(share * (1 - share) / N_RUNS)


def test_promises_are_kept_and_intervals_cover(study):
    world = find_world(study, "60 samples, 1,000 pairs")
    outcome = study.run_world(world, N_RUNS, N_POPULATION)
    tenth, hundredth, _ = study.summarise(outcome)
    assert tenth["all"][0] > most(0.05)  # the order statistic ignores that samples are shared
    for row in (tenth, hundredth):
        assert row["proved"][0] <= most(0.05)
        assert row["approximate"][0] <= most(0.05)
        assert row["cover"] >= 1 - most(0.05)
        assert 0.8 < row["width"] < 1.3
    _, refused, mean = tenth["approximate"]
    assert refused == 0
    assert mean > 0.5
    assert mean > 0.9 * tenth["oracle"]
    assert hundredth["proved"][1] == 1  # 60 samples have 30 disjoint pairs


@pytest.mark.parametrize(
    ("name", "strategy"),
    [("60 samples, 1,000 pairs", MATCH), ("false non-matches, 150 × 10", NON_MATCH)],
)
def test_a_promise_with_confidence_80_is_broken_in_at_most_a_fifth_of_the_runs(
    study, name, strategy
):
    """And not much less often. Rate and confidence, or both sides, would not be interchanged."""
    world, rng = find_world(study, name), np.random.default_rng(1)
    truth = world.truth(world.people, rng, N_POPULATION)
    target = check_target(strategy, max_rate=0.1, confidence=0.8)
    above, rates = 0, []
    for _ in range(N_RUNS):
        values, units = world.design(world.people, rng)
        similar = np.full(len(values), strategy == NON_MATCH)
        threshold = calibrate(np.abs(values), similar, target, units)[0]
        below = threshold if strategy == MATCH else np.nextafter(-threshold, np.inf)
        rates.append(np.searchsorted(truth, below) / len(truth))
        above += rates[-1] > 0.1
    assert 0.05 < above / N_RUNS <= most(0.2)
    assert 0.05 < np.mean(rates) < 0.1


@pytest.mark.parametrize("name", ["50 × 20, 10,000 pairs", "lambs, 8,000 × 2"])
def test_the_benchmark_promises_what_calibrate_does(study, name):
    world, rng = find_world(study, name), np.random.default_rng(2)
    values, units = world.design(world.people, rng)
    found = study.promised_values(values, units, RankedPairs(-values, units))
    cases = [(rule, rate) for rule in study.RULES for rate in study.RATES]
    none_similar = np.zeros(len(values), dtype=bool)
    for (rule, rate), edge in zip(cases, found, strict=True):
        if rule == "design effect":
            continue
        guarantee = "proved" if rule == "proved" else "approximate"
        target = check_target(MATCH, max_rate=rate, guarantee=guarantee)
        known = None if rule == "all" else units
        if np.isnan(edge):
            with pytest.raises(ValueError, match="max_rate: expected at least"):
                calibrate(values, none_similar, target, known)
        else:
            assert calibrate(values, none_similar, target, known)[0] == edge
