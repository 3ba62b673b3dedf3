"""How often promised error rates are exceeded, and how often intervals cover the true rate.

In each world, pairs are drawn many times with known true rates. For α = 0.1, 0.01 and 0.001, the
threshold is calibrated to a rate of α at a confidence of 95 %, *proved* and *approximate*, and its
true rate is compared with α. At the threshold whose true rate is α, the 95 % interval of the
observed rate is compared with α. Columns:

- above: share of all runs in which the true rate is above α; a refusal is not above;
- refused: share of runs in which the rate cannot be promised;
- mean/α: mean true rate of the promised thresholds, relative to α;
- ideal: what the exact rule would give for independent pairs of the true effective number;
- cover: share of runs in which the interval contains the true rate;
- width: mean width relative to the exact interval of the true effective number, p(1 − p)/Var(p̂).

The first ten worlds were used to choose the method. The others, marked *, were written down before
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

from tatml._verification.calibration import calibrate
from tatml._verification.limits import exact_limits, most_errors
from tatml._verification.rates import RankedPairs
from tatml._verification.targets import check_target

RATES = (0.1, 0.01, 0.001)
GUARANTEES = ("proved", "approximate")
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


def population(people, rng):
    """Return the sorted distances of independent pairs of different identities."""
    parts = []
    for _ in range(N_POPULATION // N_AT_ONCE):
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


def family_population(people, rng):
    """Return the sorted distances of independent pairs of members of different families."""
    wider = People(people.n_features, noise=np.hypot(people.noise, 0.7))
    return population(wider, rng)


def genuine(people, rng, n_units, n_each):
    """All pairs of samples of each identity: large distances are the errors."""
    first, second = np.triu_indices(n_each, 1)
    who = np.repeat(np.arange(n_units), len(first))
    samples = who[:, None] * n_each + np.tile(np.stack([first, second], axis=1), (n_units, 1))
    distances, units = compare(people, rng, np.stack([who, who], axis=1), samples)
    return -distances, units


def genuine_population(people, rng):
    parts = []
    for _ in range(N_POPULATION // N_AT_ONCE):
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
POPULAR = np.arange(1, 151) ** -0.7
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
    World("* 30 probes × gallery of 300", PLAIN, partial(gallery, n_probes=30, n_gallery=300)),
    World(
        "* popular identities, 150",
        PLAIN,
        partial(random_pairs, n=10_000, n_samples=150, chance=POPULAR / POPULAR.sum()),
    ),
    World(
        "* wolves and goats, 100 × 10",
        People(spread=0.3),
        partial(identities, n=8000, n_units=100, n_each=10),
    ),
    World(
        "* 40 families × 8",
        PLAIN,
        partial(families, n=6000, n_families=40, n_each=8),
        family_population,
    ),
    World("* ties, 80 samples", People(step=0.25), partial(all_pairs, n_samples=80)),
    World("* chain of 6,001 samples", PLAIN, partial(chain, n=6000)),
    World("* a crowd, 120 samples", People(crowd=0.3), partial(all_pairs, n_samples=120)),
    World(
        "* false non-matches, 150 × 10",
        People(spread=0.25),
        partial(genuine, n_units=150, n_each=10),
        genuine_population,
    ),
)


# What is measured


def calibrated_rates(values, units, truth):
    """Return the true rate of the threshold for each guarantee and α; NaN if it is refused."""
    none_similar, found = np.zeros(len(values), dtype=bool), []
    for guarantee in GUARANTEES:
        for rate in RATES:
            target = check_target("false_match_rate", max_rate=rate, guarantee=guarantee)
            try:
                threshold, _ = calibrate(values, none_similar, target, units)
                found.append(np.searchsorted(truth, threshold) / len(truth))
            except ValueError:
                found.append(np.nan)
    return found


def intervals(values, units, edges):
    """Return the observed rate and its limits at each of the thresholds."""
    ranked = RankedPairs(-values, units)
    rates = [ranked.measure(int(np.sum(values < edge)), 0.95) for edge in edges]
    return [(rate.value, rate.low, rate.high) for rate in rates]


def run_world(world, runs, seed):
    rng = np.random.default_rng(seed)
    truth = world.truth(world.people, rng)
    edges = [truth[int(rate * len(truth))] for rate in RATES]
    rates, limits = [], []
    for _ in range(runs):
        values, units = world.design(world.people, rng)
        rates.append(calibrated_rates(values, units, truth))
        limits.append(intervals(values, units, edges))
    true_rates = [np.searchsorted(truth, edge) / len(truth) for edge in edges]
    return len(values), np.array(rates), np.array(limits), true_rates


def print_world(name, n_pairs, rates, limits, true_rates):
    for number, alpha in enumerate(RATES):
        cells = [name if number == 0 else "", f"{alpha:g}"]
        for kind in range(len(GUARANTEES)):
            found = rates[:, kind * len(RATES) + number]
            kept = found[~np.isnan(found)]
            cells += [f"{np.mean(found > alpha):.3f}", f"{np.mean(np.isnan(found)):.2f}"]
            cells.append(f"{kept.mean() / alpha:.2f}" if len(kept) else "–")
        value, low, high = limits[:, number].T
        truth = true_rates[number]
        worth = max(1.0, min(n_pairs, truth * (1 - truth) / max(value.var(), 1e-300)))
        exact = [np.subtract(*exact_limits(v * worth, worth, 0.95)[::-1]) for v in value]
        ideal = (most_errors(int(worth), alpha, 0.95) + 1) / worth / alpha
        cover = np.mean((low <= truth) & (truth <= high))
        cells += [f"{ideal:.2f}", f"{cover:.3f}", f"{np.mean(high - low) / np.mean(exact):.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", default="", help="run the worlds whose name contains this")
    parser.add_argument("--skip", default="\n", help="and not those whose name contains this")
    options = parser.parse_args()
    print(describe_machine())
    both = [f"{kind}: above | refused | mean/α" for kind in GUARANTEES]
    print(f"| world | α | {' | '.join(both)} | ideal | cover | width |")
    print("|" + "---|" * 11)
    start = perf_counter()
    for seed, world in enumerate(WORLDS):
        if options.only in world.name and options.skip not in world.name:
            print_world(world.name, *run_world(world, options.runs, seed))
    print(f"{options.runs} runs per world, {perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
