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
- oracle: mean/α of the same rule if it is told the true effective number, p(1 − p)/Var(p̂); "–" if
  even then no rate can be promised;
- cover: share of runs in which the interval contains the true rate;
- width: mean width relative to the exact interval of the true effective number.

The worlds are in verification_worlds.py.

    python benchmarks/verification_coverage.py [--runs 1000] [--only WORD] [--skip WORD]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from common import describe_machine
from verification_worlds import WORLDS

from tatml._verification.calibration import SEED, find_edge
from tatml._verification.dependence import find_disjoint_pairs
from tatml._verification.rates import RankedPairs, exact_limits, most_errors

RATES = (0.1, 0.01, 0.001)
RULES = ("all", "proved", "approximate")  # "all": the order statistic of all pairs
N_POPULATION = 4_000_000


def promised_values(values, units, ranked):
    """Return the value below which each α is promised, for each rule and α; NaN if it is refused.

    This is what `calibrate` does, with the parts that all α share computed once.
    """
    alone = values[find_disjoint_pairs(units, np.random.RandomState(SEED))]
    found = []
    for rule in RULES:
        known = alone if rule == "proved" else values
        for rate in RATES:
            worth = ranked.worth(rate * len(values), 0.95) if rule == "approximate" else len(known)
            edge = find_edge(known, rate, 0.95, worth)
            found.append(np.nan if edge is None else edge)
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
    truth: np.ndarray  # (n_rates,): the true rates that the limits are for


def run_world(world, runs, seed, n_population=N_POPULATION):
    rng = np.random.default_rng(seed)
    truth = world.truth(world.people, rng, n_population)
    edges = [truth[int(rate * len(truth))] for rate in RATES]
    promised, limits, lowest = [], [], []
    for _ in range(runs):
        values, units = world.design(world.people, rng)
        ranked = RankedPairs(-values, units)
        promised.append(true_rates(truth, promised_values(values, units, ranked)))
        rates = [ranked.measure(int(np.sum(values < edge)), 0.95) for edge in edges]
        limits.append([(rate.value, rate.low, rate.high) for rate in rates])
        least = np.sort(values)[: int(RATES[0] * len(values)) + 1]
        lowest.append(true_rates(truth, least).astype(np.float32))
    shape = runs, len(RULES), len(RATES)
    return Outcome(
        len(values),
        np.reshape(promised, shape),
        np.array(limits),
        np.array(lowest),
        true_rates(truth, edges),
    )


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
        cells = [name if alpha == RATES[0] else "", f"{alpha:g}", f"{row['all'][0]:.3f}"]
        for rule in ("proved", "approximate"):
            above, refused, mean = row[rule]
            cells += [f"{above:.3f}", f"{refused:.2f}", "–" if np.isnan(mean) else f"{mean:.2f}"]
        oracle = row["oracle"]
        cells.append("–" if np.isnan(oracle) else f"{oracle:.2f}")
        cells += [f"{row['cover']:.3f}", f"{row['width']:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", default="", help="run the worlds whose name contains this")
    parser.add_argument("--skip", default="\n", help="and not those whose name contains this")
    options = parser.parse_args()
    print(describe_machine())
    both = [f"{kind}: above | refused | mean/α" for kind in ("proved", "approximate")]
    print(f"| world | α | order statistic | {' | '.join(both)} | oracle | cover | width |")
    print("|" + "---|" * 12)
    start = perf_counter()
    for seed, world in enumerate(WORLDS):
        if options.only in world.name and options.skip not in world.name:
            print_world(world.name, summarise(run_world(world, options.runs, seed)))
    print(f"{options.runs} runs per world, {perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
