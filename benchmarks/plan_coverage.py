"""Whether promises are given, kept and useful with the numbers of `verification.plan`.

For each world and rate, a plan says how many identities to collect: by its assumptions, or by a
pilot of other identities of the world, anew in each run. So many identities are drawn, all their
pairs are compared, and a threshold is calibrated. Columns:

- identities, pairs: of the plan; the median over the pilots;
- given: share of runs in which the rate is promised;
- kept: share of runs in which it is promised, and the true rate is at most α;
- useful: share of runs in which the true rate is at least `expected_share` × α, 0.5 by default: the
  power that was planned is 0.9;
- mean/α: mean true rate of the promised thresholds.

    python benchmarks/plan_coverage.py [--runs 300] [--only WORD] [--rates 0.1 0.01] [--jobs 16]
"""

from __future__ import annotations

import argparse
import multiprocessing
from functools import lru_cache

import numpy as np
from common import describe_machine
from verification_worlds import People, all_samples, clans, genuine, genuine_population, population

from tatml import PairThreshold
from tatml._verification.calibration import calibrate
from tatml._verification.targets import check_target
from tatml.verification import plan, report

MATCH, NON_MATCH = "false_match_rate", "false_non_match_rate"
# Name, population, samples per identity, rate that is promised.
WORLDS = (
    ("6 features", People(), 1, MATCH),
    ("6 features, 3 samples", People(), 3, MATCH),
    ("2 features", People(n_features=2), 1, MATCH),
    ("30 features", People(n_features=30), 1, MATCH),
    ("heavy tails", People(4, tail=2.0), 1, MATCH),
    ("wolves and goats", People(spread=0.3), 1, MATCH),
    ("a crowd", People(crowd=0.3), 1, MATCH),
    ("lambs", People(lambs=0.1), 1, MATCH),
    ("a clan of a twentieth", clans(0.05), 1, MATCH),
    ("false non-matches", People(), 5, NON_MATCH),
    ("false non-matches, wolves and goats", People(spread=0.3), 5, NON_MATCH),
)
N_PILOT = 100  # identities
N_POPULATION = 4_000_000
LARGEST = 2000  # identities that are simulated


@lru_cache(maxsize=1)
def draw_truth(number, n_population):
    """Return the sorted values of independent pairs; errors are the small ones."""
    _, people, _, strategy = WORLDS[number]
    draw = population if strategy == MATCH else genuine_population
    return draw(people, np.random.default_rng([number, 0]), n_population)


def draw(number, rng, n_identities):
    """Return values of all pairs of some identities, of which the small ones are errors."""
    _, people, n_samples, strategy = WORLDS[number]
    return (all_samples if strategy == MATCH else genuine)(people, rng, n_identities, n_samples)


def measure_pilot(number, rng, n_identities):
    values, units = draw(number, rng, n_identities)
    matches = WORLDS[number][3] == MATCH
    other = np.array([values.max() + 1 if not matches else values.min() - 1] * 2)
    y = np.r_[np.full(len(values), -1 if matches else 1), np.full(2, 1 if matches else -1)]
    distances = np.r_[values, other] if matches else -np.r_[values, other]
    alone = units.max() + 1 + np.arange(4).reshape(2, 2)
    return report(PairThreshold("precomputed"), distances, y, groups=np.r_[units, alone])


def run(task):
    """Return the identities of a plan, and the true rate at the threshold; NaN if refused."""
    number, rate, piloted, seed, n_population = task
    rng = np.random.default_rng([number, int(1 / rate), piloted, seed + 1])
    _, _, n_samples, strategy = WORLDS[number]
    pilot = measure_pilot(number, rng, N_PILOT) if piloted else None
    planned = plan(rate, samples_per_identity=n_samples, strategy=strategy, pilot=pilot)
    values, units = draw(number, rng, min(LARGEST, planned.n_identities))
    matches = strategy == MATCH
    values = np.r_[values, values.max() + 1]  # one pair of the other kind
    similar = np.r_[np.full(len(values) - 1, not matches), matches]
    units = np.r_[units, units.max() + 1 + np.arange(2)[None]]
    target = check_target(strategy, max_rate=rate)
    signed = values if matches else -values
    try:
        threshold = calibrate(signed, similar, target, units)[0]
    except ValueError:
        return planned.n_identities, planned.n_pairs, np.nan
    truth = draw_truth(number, n_population)
    edge = threshold if matches else -threshold
    side = "left" if matches else "right"
    return planned.n_identities, planned.n_pairs, np.searchsorted(truth, edge, side) / len(truth)


def list_tasks(given):
    cells = [
        (number, rate, piloted)
        for number, world in enumerate(WORLDS)
        for rate in given.rates
        for piloted in (0, 1)
        if given.only in world[0] and (not given.plain or not piloted)
    ]
    return cells, [(*cell, seed, given.population) for cell in cells for seed in range(given.runs)]


def summarise(found, rate):
    """Return the identities, the pairs, the shares of runs and the mean of a cell."""
    n_identities, n_pairs, true = np.transpose(found)
    is_given = ~np.isnan(true)
    shares = is_given.mean(), np.mean(true <= rate), np.mean(true >= 0.5 * rate)
    mean = true[is_given].mean() / rate if is_given.any() else np.nan
    return int(np.median(n_identities)), int(np.median(n_pairs)), *shares, mean


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--only", default="")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.1, 0.01])
    parser.add_argument("--population", type=int, default=N_POPULATION)
    parser.add_argument("--plain", action="store_true", help="without pilots")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    cells, tasks = list_tasks(given)
    print(describe_machine())
    print("| world | α | plan | identities | pairs | given | kept | useful | mean/α |")
    print("|" + "---|" * 9)
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        found = pool.map(run, tasks, chunksize=max(1, given.runs // 4))
    for k, (number, rate, piloted) in enumerate(cells):
        row = summarise(found[k * given.runs : (k + 1) * given.runs], rate)
        words = [WORLDS[number][0], f"{rate:g}", "pilot" if piloted else "assumed"]
        numbers = [str(x) for x in row[:2]] + [f"{x:.3f}" for x in row[2:]]
        print("| " + " | ".join(words + numbers) + " |", flush=True)


if __name__ == "__main__":
    main()
