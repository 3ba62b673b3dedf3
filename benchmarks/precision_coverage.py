"""How often a promised precision is broken, and how much of what it allows is used.

In each world, similar and dissimilar pairs of the same identities are drawn many times, and the
threshold is calibrated to a precision at a confidence of 95 %: 0.9 where 50 % of the pairs are
similar, 0.99 where 90 % are, and 0.8 and 0.9 for the share in the given pairs, of which at most 3
are dissimilar per similar one ("as drawn"): most of these worlds are too hard for a higher
precision. The true precision comes from independent pairs. Columns:

- quantile: share of runs in which the true precision is below the wanted one if the threshold is
  that of the given pairs (confidence=None);
- below: share of all runs in which the true precision of a promised threshold is below it; a
  refusal is not below;
- refused: share of runs in which the precision cannot be promised;
- mean: mean true share of wrong pairs among the accepted, relative to the allowed one;
- accepted: mean true share of the similar pairs that the promised threshold accepts;
- best: that of the threshold with the wanted precision, which only the population tells.

A "!" marks rows in which `calibrate_threshold` warns in most runs that identities are too few. The
worlds are those of limits_coverage.py. The seeds do not depend on the number of processes.

    python benchmarks/precision_coverage.py [--runs 300] [--only WORD] [--jobs 16]
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from multiprocessing import get_context
from time import perf_counter

import numpy as np
from common import describe_machine
from limits_coverage import GIVEN, OWN
from verification_worlds import genuine_population

from tatml._verification.calibration import calibrate, find_few_units
from tatml._verification.targets import check_target

WORLDS = (*OWN, *GIVEN)
N_POPULATION = 2_000_000
N_RUNS_AT_ONCE = 25
CASES = ((0.9, 0.5), (0.99, 0.9), (0.8, None), (0.9, None))  # precision, share of similar pairs
COLUMNS = ("quantile", "below", "refused", "mean", "accepted", "best")


@lru_cache(maxsize=1)
def draw_truth(number, n_population):
    """Return the sorted distances of independent pairs: dissimilar and similar ones."""
    world, rng = WORLDS[number], np.random.default_rng([number, 0])
    dissimilar = world.truth(world.people, rng, n_population)
    return dissimilar, np.sort(-genuine_population(world.people, rng, n_population))


def true_rates(truth, threshold):
    """Return the false match rate and the true accept rate."""
    return [np.searchsorted(values, threshold) / len(values) for values in truth]


def wrong_share(rates, same_rate):
    """Return the share of wrong pairs among the accepted."""
    wrong, right = (1 - same_rate) * rates[0], same_rate * rates[1]
    return wrong / np.maximum(wrong + right, 1e-300)


def find_best(truth, min_rate, same_rate):
    """Return the largest true accept rate that has the precision."""
    thresholds = np.quantile(truth[1], np.linspace(0, 1, 2001))
    rates = true_rates(truth, thresholds)
    kept = rates[1][wrong_share(rates, same_rate) <= 1 - min_rate]
    return kept.max() if len(kept) else 0.0


def thin(pairs, rng):
    """Leave out dissimilar pairs, drawn at random, until they are 3 per similar one."""
    distances, similar, units = pairs
    other = rng.permutation(np.flatnonzero(~similar))[: 3 * similar.sum()]
    rows = np.sort(np.concatenate([np.flatnonzero(similar), other]))
    return distances[rows], similar[rows], None if units is None else units[rows]


def run_case(pairs, truth, min_rate, same_rate):
    """Return one row: the quantile's and the promised share of wrong pairs, and the TAR."""
    distances, similar, units = pairs
    share = np.mean(similar) if same_rate is None else same_rate
    options = {"min_rate": min_rate, "same_rate": same_rate}
    plain = check_target("precision", **options, confidence=None)
    quantile = true_rates(truth, calibrate(distances, similar, plain)[0])
    target = check_target("precision", **options)
    is_few = units is not None and find_few_units(similar, target, units) is not None
    row = [wrong_share(quantile, share), np.nan, np.nan, is_few, find_best(truth, min_rate, share)]
    try:
        threshold = calibrate(distances, similar, target, units)[0]
    except ValueError:
        return row
    rates = true_rates(truth, threshold)
    return [row[0], wrong_share(rates, share), rates[1], *row[3:]]


def run_part(task):
    """Return the rows of some runs of a world: (its number, the part, runs, population)."""
    number, part, runs, n_population = task
    world, truth = WORLDS[number], draw_truth(number, n_population)
    rng, found = np.random.default_rng([number, 1 + part]), []
    for _ in range(runs):
        pairs = world.design(world.people, rng)
        drawn = thin(pairs, rng)
        found.append(
            [run_case(drawn if share is None else pairs, truth, p, share) for p, share in CASES]
        )
    return number, np.array(found)


def list_tasks(numbers, runs, n_population=N_POPULATION):
    """Return the tasks of the worlds: the same for any number of processes."""
    starts = range(0, runs, N_RUNS_AT_ONCE)
    return [
        (number, part, min(N_RUNS_AT_ONCE, runs - start), n_population)
        for number in numbers
        for part, start in enumerate(starts)
    ]


def summarise(rows, min_rate):
    """Return the columns of the table for one case."""
    quantile, promised, accepted, is_few, best = rows.T
    allowed = 1 - min_rate
    is_kept = ~np.isnan(promised)
    return {
        "quantile": np.mean(quantile > allowed),
        "below": np.mean(promised > allowed),
        "refused": np.mean(~is_kept),
        "mean": promised[is_kept].mean() / allowed if is_kept.any() else np.nan,
        "accepted": accepted[is_kept].mean() if is_kept.any() else np.nan,
        "best": best.mean(),
        "few": np.mean(is_few) > 0.5,
    }


def print_world(name, found):
    """Print the rows of a world, and return them."""
    rows = []
    for number, (min_rate, same_rate) in enumerate(CASES):
        row = summarise(found[:, number], min_rate)
        rows.append(row)
        mark = " !" if row["few"] else ""
        share = "as drawn" if same_rate is None else f"{same_rate:g}"
        cells = ["–" if np.isnan(row[key]) else f"{row[key]:.3f}" for key in COLUMNS]
        print(f"| {name if number == 0 else ''} | {share} | {min_rate}{mark} |", end=" ")
        print(" | ".join(cells), "|", flush=True)
    return rows


def print_summary(rows):
    """Print the worst share of broken promises, and the mean of what is used."""
    for word, part in (
        ("enough identities", [row for row in rows if not row["few"]]),
        ("too few identities", [row for row in rows if row["few"]]),
    ):
        given = [row for row in part if row["refused"] < 0.9]
        if given:
            print(
                f"{word}: {len(part)} rows, of which {len(given)} promise in a tenth of the runs; "
                f"below in at most {max(row['below'] for row in part):.3f}, above 0.08 in "
                f"{sum(row['below'] > 0.08 for row in part)}; mean of the means "
                f"{np.mean([row['mean'] for row in given]):.2f}, least "
                f"{min(row['mean'] for row in given):.2f}, below 0.4 in "
                f"{sum(row['mean'] < 0.4 for row in given)}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--only", default="", help="run the worlds whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    options = parser.parse_args()
    print(describe_machine())
    print("| world | same_rate | min_rate |", " | ".join(COLUMNS), "|")
    print("|" + "---|" * (3 + len(COLUMNS)))
    start, rows = perf_counter(), []
    chosen = [number for number, world in enumerate(WORLDS) if options.only in world.name]
    # Forked processes have this module already: nothing but numbers and rows is sent.
    with get_context("fork").Pool(options.jobs) as pool:
        parts = pool.imap(run_part, list_tasks(chosen, options.runs))
        n_parts = len(range(0, options.runs, N_RUNS_AT_ONCE))
        for number in chosen:
            found = np.concatenate([next(parts)[1] for _ in range(n_parts)])
            rows += print_world(WORLDS[number].name, found)
    print_summary(rows)
    print(f"{options.runs} runs per world, {perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
