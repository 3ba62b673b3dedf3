"""How often promised error rates are exceeded, and how often intervals cover the true rate.

In each world, pairs are drawn many times with known true rates. For α = 0.1, 0.01 and 0.001, the
threshold is calibrated to a rate of α at a confidence of 95 %, *proved* and *approximate*, and its
true rate is compared with α. At the threshold whose true rate is α, the 95 % interval of the
observed rate is compared with α. Columns:

- order statistic: share of runs in which the true rate is above α if it is not considered that
  pairs share samples or identities;
- above: share of all runs in which the true rate is above α; a refusal is not above;
- refused: share of runs in which the rate cannot be promised;
- mean/α: mean true rate of the promised thresholds, relative to α;
- design effect: above and mean/α of the approximate rule without the reweighting of identities;
- oracle: mean/α of the design effect if it is told the true effective number, p(1 − p)/Var(p̂); "–"
  if even then no rate can be promised;
- cover: share of runs in which the interval contains the true rate;
- width: mean width relative to the exact interval of the true effective number.

A "!" marks rates for which `calibrate_threshold` warns in most runs that identities are too few.
Worlds whose rates depend on a rare kind of identities are listed apart. The worlds are in
verification_worlds.py. The seeds do not depend on the number of processes.

    python benchmarks/verification_coverage.py [--runs 1000] [--only WORD] [--skip WORD] [--jobs 16]
"""

from __future__ import annotations

import argparse
import multiprocessing
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from time import perf_counter

import numpy as np
from common import describe_machine
from verification_worlds import WORLDS

from tatml._verification.calibration import SEED, find_allowed, units_needed
from tatml._verification.dependence import count_vouching_units, find_disjoint_pairs
from tatml._verification.rates import RankedPairs, exact_limits, most_errors
from tatml._verification.targets import check_target

RATES = (0.1, 0.01, 0.001)
RULES = ("all", "proved", "design effect", "approximate")  # "all": order statistic of all pairs
N_POPULATION = 4_000_000
MORE_RUNS, FEWER_RUNS = 1000, 300
N_RUNS_AT_ONCE = 50
NEW = "‡§¶"
WORST = (  # of the other worlds
    "lambs, 50 probes × 400",
    "lambs, 8,000 × 2",
    "† false non-matches, 2 to 12 each",
)


def promised_values(values, units, ranked, is_about_matches=True):
    """Return the value below which each α is promised, for each rule and α; NaN if it is refused.

    This is what `calibrate` does, with the parts that all α share computed once.
    """
    alone = np.sort(values[find_disjoint_pairs(units, np.random.RandomState(SEED))])
    ordered = np.sort(values)
    found = []
    for rule in RULES:
        known = alone if rule == "proved" else ordered
        for rate in RATES:
            worth = None
            if rule == "design effect":
                worth = ranked.worth(rate * len(values), 0.95)
            if rule == "approximate":
                k = find_allowed(ranked, rate, 0.95, resembles=is_about_matches)[0]
            else:
                k = most_errors(len(known), rate, 0.95, worth)
            found.append(np.nan if k < 0 else known[k])
    return found


def true_rates(truth, values):
    """Return the true rate below each value; NaN stays NaN."""
    return np.where(np.isnan(values), np.nan, np.searchsorted(truth, values) / len(truth))


@dataclass(frozen=True)
class Outcome:
    """What the runs of a world gave; the last axis has one entry per α."""

    n_pairs: int
    promised: np.ndarray  # (n_runs, n_rules, n_rates): true rates; NaN: refused
    limits: np.ndarray  # (n_runs, n_rates, 3): observed rate, low, high
    lowest: np.ndarray  # (n_runs, n): true rates below the smallest values of a run
    warned: np.ndarray  # (n_runs, n_rates): whether there are too few identities
    truth: np.ndarray  # (n_rates,): the true rates that the limits are for


@lru_cache(maxsize=1)
def draw_truth(number, n_population):
    """Return the sorted values of independent pairs of the world of this number."""
    world = WORLDS[number]
    return world.truth(world.people, np.random.default_rng([number, 0]), n_population)


def run_part(task):
    """Return the outcome of some runs of a world: (its number, the part, runs, population)."""
    number, part, runs, n_population = task
    world, truth = WORLDS[number], draw_truth(number, n_population)
    rng = np.random.default_rng([number, 1 + part])
    edges = [truth[int(rate * len(truth))] for rate in RATES]
    strategy = "false_match_rate" if world.is_about_matches else "false_non_match_rate"
    needed = [units_needed(check_target(strategy, max_rate=rate)) for rate in RATES]
    promised, limits, lowest, warned = [], [], [], []
    for _ in range(runs):
        values, units = world.design(world.people, rng)
        ranked = RankedPairs(-values, units, resembles=world.is_about_matches)
        found = promised_values(values, units, ranked, world.is_about_matches)
        promised.append(true_rates(truth, found))
        rates = [ranked.measure(int(np.sum(values < edge)), 0.95) for edge in edges]
        limits.append([(rate.value, rate.low, rate.high) for rate in rates])
        least = np.sort(values)[: int(RATES[0] * len(values)) + 1]
        lowest.append(true_rates(truth, least).astype(np.float32))
        count = np.inf if ranked.are_independent else round(count_vouching_units(units))
        warned.append([count < least_count for least_count in needed])
    shape = runs, len(RULES), len(RATES)
    return Outcome(
        len(values),
        np.reshape(promised, shape),
        np.array(limits),
        np.array(lowest),
        np.array(warned),
        true_rates(truth, edges),
    )


def join_parts(parts):
    names = ("promised", "limits", "lowest", "warned")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Outcome(parts[0].n_pairs, **joined, truth=parts[0].truth)


def list_tasks(numbers, runs=None, n_population=N_POPULATION):
    """Return the tasks of the worlds: the same for any number of processes."""
    tasks = []
    for number in numbers:
        world = WORLDS[number]
        many = world.name[0] in NEW or world.is_rare or world.name in WORST
        left = runs or (MORE_RUNS if many else FEWER_RUNS)
        for part, start in enumerate(range(0, left, N_RUNS_AT_ONCE)):
            tasks.append((number, part, min(N_RUNS_AT_ONCE, left - start), n_population))
    return tasks


def run_world(world, runs, n_population=N_POPULATION):
    tasks = list_tasks([WORLDS.index(world)], runs, n_population)
    return join_parts([run_part(task) for task in tasks])


def summarise(outcome):
    """Return the columns of the table for each α."""
    rows = []
    for number, alpha in enumerate(RATES):
        row = {}
        for rule, found in zip(RULES, outcome.promised[:, :, number].T, strict=True):
            kept = found[~np.isnan(found)]
            mean = kept.mean() / alpha if len(kept) else np.nan
            row[rule] = np.mean(found > alpha), np.mean(np.isnan(found)), mean
        value, low, high = outcome.limits[:, number].T
        truth = outcome.truth[number]
        row["warned"] = np.mean(outcome.warned[:, number]) > 0.5
        worth = max(1.0, min(outcome.n_pairs, truth * (1 - truth) / max(value.var(), 1e-300)))
        k = most_errors(outcome.n_pairs, alpha, 0.95, worth)
        row["oracle"] = outcome.lowest[:, k].mean() / alpha if k >= 0 else np.nan
        row["cover"] = np.mean((low <= truth) & (truth <= high))
        exact = [np.subtract(*exact_limits(v * worth, worth, 0.95)[::-1]) for v in value]
        row["width"] = np.mean(high - low) / np.mean(exact)
        rows.append(row)
    return rows


def print_world(name, rows):
    for alpha, row in zip(RATES, rows, strict=True):
        mark = " !" if row["warned"] else ""
        cells = [name if alpha == RATES[0] else "", f"{alpha:g}{mark}", f"{row['all'][0]:.3f}"]
        for rule in ("proved", "approximate"):
            above, refused, mean = row[rule]
            cells += [f"{above:.3f}", f"{refused:.2f}", show(mean)]
        above, _, mean = row["design effect"]
        cells += [f"{above:.3f}", show(mean), show(row["oracle"])]
        cells += [f"{row['cover']:.3f}", f"{row['width']:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def show(mean):
    return "–" if np.isnan(mean) else f"{mean:.2f}"


def print_table(numbers, runs, run_all):
    both = [f"{kind}: above | refused | mean/α" for kind in ("proved", "approximate")]
    columns = ["world", "α", "order statistic", *both, "design effect: above | mean/α", "oracle"]
    print(f"\n| {' | '.join(columns)} | cover | width |")
    print("|" + "---|" * 14)
    outcomes = zip(tasks := list_tasks(numbers, runs), run_all(tasks), strict=True)
    for number, parts in groupby(outcomes, key=lambda pair: pair[0][0]):
        outcome = join_parts(list(map(itemgetter(1), parts)))
        print_world(WORLDS[number].name, summarise(outcome))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, help="of each world; default: 1000 or 300")
    parser.add_argument("--only", default="", help="run the worlds whose name contains this")
    parser.add_argument("--skip", default="\n", help="and not those whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    options = parser.parse_args()
    print(describe_machine())
    start = perf_counter()
    chosen = [
        number
        for number, world in enumerate(WORLDS)
        if options.only in world.name and options.skip not in world.name
    ]
    # Forked processes have this module already: nothing but numbers and outcomes is sent.
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for is_rare in (False, True):
            numbers = [number for number in chosen if WORLDS[number].is_rare == is_rare]
            if numbers:
                print("\nRare kinds of identities" if is_rare else "\nAll other worlds")
                print_table(numbers, options.runs, lambda tasks: pool.imap(run_part, tasks))
    print(f"{perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
