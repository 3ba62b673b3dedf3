"""How often the promised false positive identification rate (FPIR) of a gallery is exceeded.

In each world N identities are enrolled, the threshold is calibrated with probes of other people to
an FPIR of α = 0.1 and 0.01 at a confidence of 95 %, and the true rate of this gallery is measured
with 30,000 further people. Then N more identities are enrolled. Columns, for each α:

- above: share of all runs in which the true rate is above α; a refusal is not above;
- refused: share of runs in which the rate cannot be promised;
- mean/α: mean true rate of the promised thresholds, relative to α;
- independent: above and mean/α if it is not considered that probes share identities;
- proved: above, refused and mean/α with one probe of each identity;
- 2N: mean true rate with 2N enrolled, mean of `expected_fpir` relative to it, and the share of runs
  in which the true rate is above its second number, 2α.

The populations are those of verification_worlds.py. The worlds were written down before the promise
was run on them, and it has not been changed since. The estimate was: a first look at six of them
made it count the probe at the threshold. The seeds do not depend on the number of processes.

    python benchmarks/gallery_coverage.py [--runs 300] [--only WORD] [--jobs 16]
"""

from __future__ import annotations

import argparse
import multiprocessing
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter

import numpy as np
from common import describe_machine
from verification_worlds import LAMBS, PLAIN, People, Resembling, blur, both_blurred, clans

from tatml._verification.identification import expected_rate, find_threshold

RATES = (0.1, 0.01)
CONFIDENCE = 0.95
N_POPULATION = 30_000


@dataclass(frozen=True)
class GalleryWorld:
    """Identities of a population: some are enrolled, others are probes."""

    name: str
    people: People
    n_enrolled: int
    n_probes: int  # identities
    n_each: int  # samples of each probe's identity; the most of them if they are uneven
    n_samples: int = 1  # per enrolled identity
    is_uneven: bool = False
    is_rare: bool = False  # the rate depends on a kind of which the probes hold four or fewer


BLURRED = Resembling(traits=blur, factor=both_blurred)
WORLDS = (
    GalleryWorld("100 enrolled, 600 probes × 1", PLAIN, 100, 600, 1),
    GalleryWorld("100 enrolled, 150 × 10", PLAIN, 100, 150, 10),
    GalleryWorld("400 enrolled, 300 × 4", PLAIN, 400, 300, 4),
    GalleryWorld("1 enrolled, 150 × 10", PLAIN, 1, 150, 10),
    GalleryWorld("lambs, 100 enrolled, 150 × 10", LAMBS, 100, 150, 10),
    GalleryWorld("lambs, 20 enrolled, 100 × 5", LAMBS, 20, 100, 5),
    GalleryWorld("heavy tails, 100 enrolled, 150 × 10", People(4, tail=2.0), 100, 150, 10),
    GalleryWorld("wolves and goats, 100 enrolled, 150 × 10", People(spread=0.3), 100, 150, 10),
    GalleryWorld("a crowd, 100 enrolled, 100 × 10", People(crowd=0.3), 100, 100, 10),
    GalleryWorld("clan of 8 %, 100 enrolled, 150 × 10", clans(0.08), 100, 150, 10),
    GalleryWorld("clan of 3 %, 200 enrolled, 400 × 4", clans(0.03), 200, 400, 4),
    GalleryWorld("twenty clans of 2 %, 100 enrolled, 200 × 5", clans(*20 * (0.02,)), 100, 200, 5),
    GalleryWorld(
        "blank scans, 8 % of the samples, 100 enrolled, 150 × 5",
        clans(0.08, of_samples=True),
        100,
        150,
        5,
    ),
    GalleryWorld("blurred with blurred, 100 enrolled, 150 × 8", BLURRED, 100, 150, 8),
    GalleryWorld("ties, 100 enrolled, 150 × 10", People(step=0.25), 100, 150, 10),
    GalleryWorld("50 enrolled with 3 samples, 150 × 10", PLAIN, 50, 150, 10, n_samples=3),
    GalleryWorld("noise, 50 enrolled with 5, 120 × 6", People(3, noise=1.0), 50, 120, 6, 5),
    GalleryWorld(
        "wolves and goats, 80 enrolled, 150 × 1 to 40",
        People(spread=0.2),
        80,
        150,
        40,
        is_uneven=True,
    ),
    GalleryWorld("100 enrolled, 40 × 25", PLAIN, 100, 40, 25),
    GalleryWorld(
        "rare lambs, 3 %, 100 enrolled, 100 × 10",
        People(lambs=0.03),
        100,
        100,
        10,
        is_rare=True,
    ),
)


def scores_of(people, samples, enrolled, n_samples):
    """Return minus the mean distance to the samples of each enrolled identity."""
    (x, scale), (z, scale_z) = samples, enrolled
    found = np.zeros((len(x), len(z) // n_samples))
    for k in range(len(z)):
        one = np.broadcast_to(z[k], x.shape), np.broadcast_to(scale_z[k], scale.shape)
        found[:, k // n_samples] -= people.distance((x, scale), one) / n_samples
    return found


@lru_cache(maxsize=1)
def draw_population(number, n_population):
    """Return one sample each of many people who are not enrolled."""
    world, rng = WORLDS[number], np.random.default_rng([number, 0])
    return world.people.sample(rng, world.people.draw(rng, n_population), np.arange(n_population))


def run(task):
    """Return the numbers of one run: (world, number of the run, size of the population)."""
    number, run_number, n_population = task
    world, rng = WORLDS[number], np.random.default_rng([number, 1 + run_number])
    people, n = world.people, world.n_enrolled
    who = np.repeat(np.arange(2 * n), world.n_samples)
    enrolled = people.sample(rng, people.draw(rng, 2 * n), who)
    counts = np.full(world.n_probes, world.n_each)
    if world.is_uneven:
        counts = rng.integers(1, world.n_each + 1, world.n_probes)
    owner = np.repeat(np.arange(world.n_probes), counts)
    probes = people.sample(rng, people.draw(rng, world.n_probes), owner)
    first = tuple(part[: n * world.n_samples] for part in enrolled)
    scores = scores_of(people, probes, first, world.n_samples)
    true = scores_of(people, draw_population(number, n_population), enrolled, world.n_samples)
    true, doubled = true[:, :n].max(axis=1), true.max(axis=1)
    best, found = scores.max(axis=1), []
    for rate in RATES:
        row = []
        for units, guarantee in (
            (owner, "approximate"),
            (np.arange(len(owner)), "approximate"),
            (owner, "proved"),
        ):
            try:
                edge = find_threshold(best, units, rate, CONFIDENCE, guarantee)[0]
            except ValueError:
                edge = np.nan
            row.append(np.nan if np.isnan(edge) else np.mean(true > edge))
            if len(row) == 1:
                matches = np.bincount(np.sum(scores > edge, axis=1))
                expected = expected_rate(matches, n, 2 * n) if edge == edge else np.nan
                at_double = np.nan if np.isnan(edge) else np.mean(doubled > edge)
        found.append([*row, at_double, expected])
    return found


def summarise(rates, alpha):
    """Return the cells of one world and one rate from an array (n_runs, 5) with NaN: refused."""

    def mean(values):
        return f"{np.nanmean(values):.2f}" if np.isfinite(values).any() else "–"

    promised, independent, proved, doubled, expected = rates.T
    cells = [f"{np.mean(promised > alpha):.3f}", f"{np.mean(np.isnan(promised)):.2f}"]
    cells += [mean(promised / alpha)]
    cells += [f"{np.mean(independent > alpha):.3f} ({mean(independent / alpha)})"]
    refused = np.mean(np.isnan(proved))
    cells += [f"{np.mean(proved > alpha):.3f}, {refused:.2f} ({mean(proved / alpha)})"]
    known = np.isfinite(doubled)
    if not known.any():
        return [*cells, "–"]
    ratio = np.mean(expected[known]) / np.mean(doubled[known])
    above = np.mean(doubled[known] > 2 * alpha)
    return [*cells, f"{np.mean(doubled[known]):.3f}, {ratio:.2f}, {above:.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300, help="of each world")
    parser.add_argument("--only", default="", help="run the worlds whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--population", type=int, default=N_POPULATION, help="people for a rate")
    options = parser.parse_args()
    print(describe_machine())
    start = perf_counter()
    names = ("above", "refused", "mean/α", "independent", "proved", "2N")
    print("\n| world | " + " | ".join(f"{name}, {rate}" for rate in RATES for name in names) + " |")
    print("|---" * (1 + 2 * len(names)) + "|")
    # Forked processes have this module already: nothing but numbers is sent.
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for number, world in enumerate(WORLDS):
            if options.only not in world.name:
                continue
            tasks = [(number, k, options.population) for k in range(options.runs)]
            found = np.array(list(pool.imap(run, tasks, chunksize=5)))
            cells = [text for k, rate in enumerate(RATES) for text in summarise(found[:, k], rate)]
            print(f"| {' | '.join([world.name + world.is_rare * ' (rare)', *cells])} |", flush=True)
    print(f"\n{perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
