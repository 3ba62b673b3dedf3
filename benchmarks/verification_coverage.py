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

The first 18 worlds were used to choose the method. The others, marked *, were written down before
it was run on them, and run once.

    python benchmarks/verification_coverage.py [--runs 1000] [--only WORD] [--skip WORD]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
from common import describe_machine

from tatml._verification.calibration import SEED, find_edge
from tatml._verification.dependence import find_disjoint_pairs
from tatml._verification.limits import exact_limits, most_errors
from tatml._verification.rates import RankedPairs

RATES = (0.1, 0.01, 0.001)
RULES = ("all", "proved", "approximate")  # "all": the order statistic of all pairs
N_POPULATION = 4_000_000
N_AT_ONCE = 250_000


# Identities: a row of features, and a scale of all their distances


@dataclass(frozen=True)
class People:
    """A population of identities.

    A sample is the identity's row of features plus noise. The distance of two samples is
    Euclidean, times the scales of both identities.
    """

    n_features: int = 6
    tail: float = np.inf  # degrees of freedom of Student's t; infinite: normal
    lambs: float = 0.0  # share of identities with half the distance to all others
    spread: float = 0.0  # standard deviation of the logarithm of the scale
    crowd: float = 0.0  # share of identities that are close to each other
    step: float = 0.0  # distances are rounded down to multiples of this, 0: not rounded
    noise: float = 0.5

    def draw(self, rng, n):
        shape = n, self.n_features
        x = rng.normal(size=shape) if self.tail == np.inf else rng.standard_t(self.tail, shape)
        x = x * np.where(rng.random(n) < self.crowd, 0.5, 1.0)[:, None]
        scale = np.where(rng.random(n) < self.lambs, 0.5, 1.0)
        return x, scale * np.exp(self.spread * rng.normal(size=n))

    def sample(self, rng, identities, who):
        """Return one new sample for each entry of `who`."""
        x, scale = identities
        return x[who] + self.noise * rng.normal(size=(len(who), self.n_features)), scale[who]

    def distance(self, first, second):
        (x, scale_x), (z, scale_z) = first, second
        difference = x - z
        length = np.sqrt(np.einsum("ij,ij->i", difference, difference)) * scale_x * scale_z
        return np.floor(length / self.step) * self.step if self.step else length


def population(people, rng, n):
    """Return the sorted distances of independent pairs of different identities."""
    parts = []
    for _ in range(n // N_AT_ONCE):
        first, second = (
            people.sample(rng, people.draw(rng, N_AT_ONCE), np.arange(N_AT_ONCE)) for _ in range(2)
        )
        parts.append(people.distance(first, second))
    return np.sort(np.concatenate(parts))


# Designs: which samples of which identities are compared


def compare(people, rng, units, samples=None):
    """Draw the distances of given pairs of identities; of given samples, if there are any."""
    n_units = int(units.max()) + 1
    if samples is None:  # one sample per identity
        samples, owner = units, np.arange(n_units)
    else:
        owner = np.zeros(int(samples.max()) + 1, dtype=int)
        owner[samples] = units
    x, scale = people.sample(rng, people.draw(rng, n_units), owner)
    first, second = ((x[s], scale[s]) for s in samples.T)
    return people.distance(first, second), units


def random_couples(rng, n, n_units, chance=None):
    """Draw couples of two different units."""
    units = rng.choice(n_units, size=(2 * n + 100, 2), p=chance)
    return units[units[:, 0] != units[:, 1]][:n]


def independent(people, rng, n):
    return compare(people, rng, np.arange(2 * n).reshape(n, 2))


def random_pairs(people, rng, n, n_samples, chance=None):
    return compare(people, rng, random_couples(rng, n, n_samples, chance))


def all_pairs(people, rng, n_samples):
    return compare(people, rng, np.stack(np.triu_indices(n_samples, 1), axis=1))


def identities(people, rng, n, n_units, n_each):
    units = random_couples(rng, n, n_units)
    return compare(people, rng, units, units * n_each + rng.integers(n_each, size=units.shape))


def stars(people, rng, n_probes, n_each):
    """Compare each probe with candidates of its own."""
    n = n_probes * n_each
    return compare(people, rng, np.stack([np.arange(n) // n_each, n_probes + np.arange(n)], axis=1))


def gallery(people, rng, n_probes, n_gallery):
    """Compare every probe with the whole gallery."""
    first, second = np.indices((n_probes, n_gallery)).reshape(2, -1)
    return compare(people, rng, np.stack([first, n_probes + second], axis=1))


def chain(people, rng, n):
    """Compare each sample with the next."""
    return compare(people, rng, np.stack([np.arange(n), np.arange(1, n + 1)], axis=1))


def families(people, rng, n, n_families, n_each):
    """Identities of one family are similar; the families are the groups."""
    units = random_couples(rng, n, n_families)
    member = units * n_each + rng.integers(n_each, size=units.shape)
    kin = 0.7 * rng.normal(size=(n_families * n_each, people.n_features))
    x, scale = people.draw(rng, n_families)
    owner = np.arange(n_families * n_each) // n_each
    x, scale = people.sample(rng, (x[owner] + kin, scale[owner]), np.arange(len(owner)))
    first, second = ((x[s], scale[s]) for s in member.T)
    return people.distance(first, second), units


def family_population(people, rng, n):
    """Return the sorted distances of independent pairs of members of different families."""
    wider = People(people.n_features, noise=np.hypot(people.noise, 0.7))
    return population(wider, rng, n)


def genuine(people, rng, n_units, n_each):
    """All pairs of samples of each identity: large distances are the errors."""
    first, second = np.triu_indices(n_each, 1)
    who = np.repeat(np.arange(n_units), len(first))
    samples = who[:, None] * n_each + np.tile(np.stack([first, second], axis=1), (n_units, 1))
    distances, units = compare(people, rng, np.stack([who, who], axis=1), samples)
    return -distances, units


def genuine_population(people, rng, n):
    parts = []
    for _ in range(n // N_AT_ONCE):
        drawn, who = people.draw(rng, N_AT_ONCE), np.arange(N_AT_ONCE)
        first, second = (people.sample(rng, drawn, who) for _ in range(2))
        parts.append(-people.distance(first, second))
    return np.sort(np.concatenate(parts))


@dataclass(frozen=True)
class World:
    """A population and a design. Errors are small values; `truth` draws independent pairs."""

    name: str
    people: People
    design: Callable
    truth: Callable = population


PLAIN, LAMBS = People(), People(lambs=0.1)
POPULAR, LESS_POPULAR = np.arange(1, 151) ** -0.7, np.arange(1, 201) ** -0.5
WORLDS = (
    World("independent, 4,000", PLAIN, partial(independent, n=4000)),
    World("60 samples, 1,000 pairs", PLAIN, partial(random_pairs, n=1000, n_samples=60)),
    World("50 × 20, 10,000 pairs", PLAIN, partial(identities, n=10_000, n_units=50, n_each=20)),
    World("10 probes × 1,000", PLAIN, partial(stars, n_probes=10, n_each=1000)),
    World("50 probes × 400", PLAIN, partial(stars, n_probes=50, n_each=400)),
    World("lambs, 200 × 5", LAMBS, partial(identities, n=10_000, n_units=200, n_each=5)),
    World("lambs, 50 × 20", LAMBS, partial(identities, n=10_000, n_units=50, n_each=20)),
    World("lambs, 50 probes × 400", LAMBS, partial(stars, n_probes=50, n_each=400)),
    World("heavy tails, 150 samples", People(4, tail=2.0), partial(all_pairs, n_samples=150)),
    World("lambs, 8,000 × 2", LAMBS, partial(identities, n=20_000, n_units=8000, n_each=2)),
    World("30 probes × gallery of 300", PLAIN, partial(gallery, n_probes=30, n_gallery=300)),
    World(
        "popular identities, 150",
        PLAIN,
        partial(random_pairs, n=10_000, n_samples=150, chance=POPULAR / POPULAR.sum()),
    ),
    World(
        "wolves and goats, 100 × 10",
        People(spread=0.3),
        partial(identities, n=8000, n_units=100, n_each=10),
    ),
    World(
        "40 families × 8",
        PLAIN,
        partial(families, n=6000, n_families=40, n_each=8),
        family_population,
    ),
    World("ties, 80 samples", People(step=0.25), partial(all_pairs, n_samples=80)),
    World("chain of 6,001 samples", PLAIN, partial(chain, n=6000)),
    World("a crowd, 120 samples", People(crowd=0.3), partial(all_pairs, n_samples=120)),
    World(
        "false non-matches, 150 × 10",
        People(spread=0.25),
        partial(genuine, n_units=150, n_each=10),
        genuine_population,
    ),
    World(
        "* lambs, 20 probes × gallery of 200", LAMBS, partial(gallery, n_probes=20, n_gallery=200)
    ),
    World(
        "* heavy tails, 25 probes × 300",
        People(4, tail=3.0),
        partial(stars, n_probes=25, n_each=300),
    ),
    World(
        "* popular wolves, 200",
        People(spread=0.2),
        partial(random_pairs, n=12_000, n_samples=200, chance=LESS_POPULAR / LESS_POPULAR.sum()),
    ),
    World(
        "* a crowd, 80 × 10",
        People(crowd=0.2),
        partial(identities, n=9000, n_units=80, n_each=10),
    ),
    World(
        "* 300 families × 3",
        PLAIN,
        partial(families, n=9000, n_families=300, n_each=3),
        family_population,
    ),
    World("* ties, 120 probes × 60", People(step=0.1), partial(stars, n_probes=120, n_each=60)),
    World(
        "* false non-matches, 60 × 8",
        People(spread=0.15),
        partial(genuine, n_units=60, n_each=8),
        genuine_population,
    ),
    World("* two features, 100 samples", People(2), partial(all_pairs, n_samples=100)),
)


# What is measured


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
