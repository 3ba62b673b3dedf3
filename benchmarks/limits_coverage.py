"""How often the limits of a report cover the true values, and how wide they are.

In each world, similar and dissimilar pairs of the same identities are drawn many times, and the
limits of the AUC, the equal error rate, the FNMR at given FMR and the detection costs are compared
with the true values. Columns, for each quantity:

- cover: share of runs in which the 95 % limits contain the true value;
- width: mean width relative to the limits of an oracle, which are of the same form (mid-p limits of
  a rate) and have the true variance of the estimate, that over the runs;
- below, above: shares of runs in which the true value is below or above the limits.

Other methods, for comparison (`--method`): "given" takes a chosen threshold as given; "vertex" and
"dbn" are the percentiles of 200 bootstrap samples of the identities, drawn with replacement or
each taken twice or left out, as the package cimat does.

The last column, errors, is the number of errors that the estimate is worth, by its true variance:
with few of them no method can know much, and limits that cover have to be wide.

The worlds of one kind of pairs are those of verification_worlds.py, each with similar pairs of new
samples of the same identities; the worlds of this file draw samples of identities and compare all
of them, or some. All of them were written down before a method was run on them.

    python benchmarks/limits_coverage.py [--runs 300] [--only WORD] [--jobs 16] [--method ours]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from time import perf_counter

import numpy as np
from common import describe_machine
from verification_worlds import WORLDS, People, genuine_population, population

from tatml._verification.operating import Costs, JudgedPairs
from tatml._verification.rates import mid_limits

N_POPULATION = 4_000_000
N_BOOTSTRAP = 200
LEVEL = 0.95
ENOUGH = 10  # errors: with fewer, see above, worlds are summarised apart
RATES = (0.1, 0.01, 0.001)
SAME_RATES = (0.5, 0.1, 0.01)  # of the detection costs


# Worlds with both kinds of pairs


class Remembering:
    """A population that remembers the identities that a design has drawn last."""

    def __init__(self, people):
        self.people = people
        self.drawn = None

    def __getattr__(self, name):
        return getattr(self.people, name)

    def draw(self, rng, n):
        self.drawn = self.people.draw(rng, n)
        return self.drawn


def with_similar(world, people, rng):
    """Draw a world of dissimilar pairs, and pairs of new samples of each of its identities."""
    people = Remembering(people)
    distances, units = world.design(people, rng)
    who = np.unique(units)
    n_each = 3 if len(who) <= 1000 else 2
    samples = [people.sample(rng, people.drawn, who) for _ in range(n_each)]
    pairs = [(i, j) for i in range(n_each) for j in range(i)]
    similar = np.concatenate([people.distance(samples[i], samples[j]) for i, j in pairs])
    own = np.tile(np.stack([who, who], axis=1), (len(pairs), 1))
    return (
        np.concatenate([similar, distances]),
        np.arange(len(similar) + len(distances)) < len(similar),
        np.concatenate([own, units]),
    )


@dataclass(frozen=True)
class Clan(People):
    """A population with clans: their members are near a point of their own."""

    share: float = 0.0  # of the identities that are in a clan
    n_clans: int = 1

    def draw(self, rng, n):
        x, scale = super().draw(rng, n)
        clan = np.where(rng.random(n) < self.share, rng.integers(self.n_clans, size=n), -1)
        centres = 1.5 * np.eye(self.n_features)[clan % self.n_features]
        return np.where(clan[:, None] >= 0, centres + 0.3 * x, x), scale


def compare_all(people, rng, n_each):
    """Compare all samples of identities, of which number i has n_each[i] samples."""
    owner = np.repeat(np.arange(len(n_each)), n_each)
    first, second = np.triu_indices(len(owner), 1)
    return compare_samples(people, rng, owner, first, second)


def compare_samples(people, rng, owner, first, second):
    drawn = people.draw(rng, int(owner.max()) + 1)
    x, scale = people.sample(rng, drawn, owner)
    distances = people.distance((x[first], scale[first]), (x[second], scale[second]))
    units = np.stack([owner[first], owner[second]], axis=1)
    return distances, units[:, 0] == units[:, 1], units


def all_samples(people, rng, n_units, n_each):
    return compare_all(people, rng, np.full(n_units, n_each))


def unequal(people, rng, n_units, most):
    """Compare all samples of identities with 2, 3, … or `most` samples."""
    return compare_all(people, rng, 2 + np.arange(n_units) % (most - 1))


def references(people, rng, n_probes, n_references, n_each):
    """Compare `n_each` probes of some of the identities with one reference of each identity."""
    owner = np.concatenate([np.arange(n_references), np.repeat(np.arange(n_probes), n_each)])
    probe, reference = np.indices((n_probes * n_each, n_references)).reshape(2, -1)
    return compare_samples(people, rng, owner, n_references + probe, reference)


def some_pairs(people, rng, n_units, n_each, n_pairs):
    """Compare all samples of each identity, and random samples of different identities."""
    owner = np.repeat(np.arange(n_units), n_each)
    own = np.stack(np.triu_indices(n_each, 1)) + n_each * np.arange(n_units)[:, None, None]
    other = rng.integers(len(owner), size=(2, 2 * n_pairs))
    other = other[:, owner[other[0]] != owner[other[1]]][:, :n_pairs]
    first, second = np.concatenate([own.transpose(1, 0, 2).reshape(2, -1), other], axis=1)
    return compare_samples(people, rng, owner, first, second)


def independent_pairs(people, rng, n_similar, n_dissimilar):
    """Compare samples of identities that are in one pair only."""
    own = np.repeat(np.arange(n_similar), 2)
    owner = np.concatenate([own, n_similar + np.arange(2 * n_dissimilar)])
    pairs = np.arange(len(owner)).reshape(-1, 2).T
    distances, similar, _ = compare_samples(people, rng, owner, *pairs)
    return distances, similar, None


@dataclass(frozen=True)
class World:
    """A population, and a design that draws both kinds of pairs."""

    name: str
    people: People
    design: Callable
    truth: Callable = population  # of the distances of dissimilar pairs


PLAIN, LAMBS, WOLVES = People(), People(lambs=0.1), People(spread=0.25)
HARD, EASY = People(noise=1.2), People(8, noise=0.2)
OWN = (
    World(
        "independent, 500 + 4,000",
        PLAIN,
        partial(independent_pairs, n_similar=500, n_dissimilar=4000),
    ),
    World("independent, 60 + 60", HARD, partial(independent_pairs, n_similar=60, n_dissimilar=60)),
    World(
        "independent, easy, 300 + 3,000",
        EASY,
        partial(independent_pairs, n_similar=300, n_dissimilar=3000),
    ),
    World("all samples, 40 × 4", PLAIN, partial(all_samples, n_units=40, n_each=4)),
    World("all samples, 120 × 3", PLAIN, partial(all_samples, n_units=120, n_each=3)),
    World("all samples, hard, 60 × 4", HARD, partial(all_samples, n_units=60, n_each=4)),
    World("all samples, easy, 100 × 3", EASY, partial(all_samples, n_units=100, n_each=3)),
    World(
        "all samples, ties, 60 × 4", People(step=0.25), partial(all_samples, n_units=60, n_each=4)
    ),
    World("few identities, 12 × 8", PLAIN, partial(all_samples, n_units=12, n_each=8)),
    World("few identities, 20 × 5, hard", HARD, partial(all_samples, n_units=20, n_each=5)),
    World("lambs, all samples, 100 × 3", LAMBS, partial(all_samples, n_units=100, n_each=3)),
    World("wolves, all samples, 80 × 4", WOLVES, partial(all_samples, n_units=80, n_each=4)),
    World(
        "wolves, 300 × 4, 10,000 pairs",
        WOLVES,
        partial(some_pairs, n_units=300, n_each=4, n_pairs=10_000),
    ),
    World(
        "clan 8 %, all samples, 100 × 3",
        Clan(share=0.08),
        partial(all_samples, n_units=100, n_each=3),
    ),
    World(
        "clan 5 %, all samples, 200 × 2",
        Clan(share=0.05),
        partial(all_samples, n_units=200, n_each=2),
    ),
    World(
        "three clans, 15 %, 150 × 3, 10,000 pairs",
        Clan(share=0.15, n_clans=3),
        partial(some_pairs, n_units=150, n_each=3, n_pairs=10_000),
    ),
    World(
        "heavy tails, all samples, 100 × 3",
        People(4, tail=3.0),
        partial(all_samples, n_units=100, n_each=3),
    ),
    World("2 to 12 samples, 66", PLAIN, partial(unequal, n_units=66, most=12)),
    World(
        "2 to 12 samples, goats, 66",
        People(spread=0.2, noise=0.8),
        partial(unequal, n_units=66, most=12),
    ),
    World(
        "40 × 2 probes, 150 references",
        PLAIN,
        partial(references, n_probes=40, n_references=150, n_each=2),
    ),
    World(
        "lambs, 80 probes, 80 references",
        LAMBS,
        partial(references, n_probes=80, n_references=80, n_each=1),
    ),
    World(
        "500 × 5, 40,000 pairs", PLAIN, partial(some_pairs, n_units=500, n_each=5, n_pairs=40_000)
    ),
)
GIVEN = tuple(
    World(world.name, world.people, partial(with_similar, world), world.truth)
    for world in WORLDS
    if world.truth is not genuine_population and hasattr(world.people, "draw")
)  # not the two worlds whose probes and references are of two kinds of people


# True values, and what each method finds


class Curve:
    """The error rates of two samples of distances at all thresholds; weights are of the pairs."""

    def __init__(self, dissimilar, similar, weights=(None, None)):
        self.thresholds = np.append(np.unique(np.concatenate([dissimilar, similar])), np.inf)
        self.fmr, found = (
            np.append(0.0, np.cumsum(self.count(values, weight)))[:-1]
            for values, weight in ((dissimilar, weights[0]), (similar, weights[1]))
        )
        self.fnmr = np.clip(1 - found, 0.0, 1.0).round(12)

    def count(self, values, weight):
        place = np.searchsorted(self.thresholds, values)
        share = np.bincount(place, weight, len(self.thresholds))
        return share / share.sum()

    def summarise(self, cuts):
        """Return every quantity; `cuts` are the given thresholds of the costs."""
        fmr, fnmr = self.fmr, self.fnmr
        after = int(np.argmax(fmr >= fnmr))
        gap = fnmr - fmr
        share = gap[after - 1] / (gap[after - 1] - gap[after])
        found = {
            "AUC": 1 - np.sum(np.diff(fmr) * (fnmr[1:] + fnmr[:-1])) / 2,
            "EER": fmr[after - 1] + share * (fmr[after] - fmr[after - 1]),
        }
        for rate in RATES:
            last = np.searchsorted(fmr, rate + 1e-12, side="right") - 1
            found[f"FNMR at {rate:g}"] = fnmr[last]
        for same_rate, cut in zip(SAME_RATES, cuts, strict=True):
            cost = Costs(same_rate).weigh(fmr, fnmr)
            found[f"cost {same_rate:g}"] = cost[np.searchsorted(self.thresholds, cut)]
            found[f"least cost {same_rate:g}"] = cost.min()
        return found


def find_truth(world, rng, n):
    """Return the thresholds at which costs are measured, and the true value of each quantity.

    The thresholds are those of the equal error rate, of a FMR of 0.1 and of a FMR of 0.01.
    """
    dissimilar = world.truth(world.people, rng, n)
    curve = Curve(dissimilar, -genuine_population(world.people, rng, n))
    equal = curve.thresholds[np.argmax(curve.fmr >= curve.fnmr)]
    cuts = [equal, *(dissimilar[int(rate * len(dissimilar))] for rate in (0.1, 0.01))]
    return cuts, curve.summarise(cuts)


def use_ours(distances, similar, units, cuts):
    """Return the limits of the library for each quantity."""
    return limit(distances, similar, units, cuts, is_given=False)


def use_given(distances, similar, units, cuts):
    """Return limits that take chosen thresholds as given, and pairs as they are for the AUC."""
    return limit(distances, similar, units, cuts, is_given=True)


def limit(distances, similar, units, cuts, *, is_given):
    judged = JudgedPairs(distances, similar, units, LEVEL)
    found = dict(zip(("AUC", "EER"), judged.limit_curve().values(), strict=True))
    points = {point.name: point for point in judged.measure_targets()}
    for rate in RATES:
        point = points.get(f"FMR {rate:g}")
        if point is not None:
            if is_given:
                point = judged.measure("", point.threshold)
            found[f"FNMR at {rate:g}"] = (point.false_non_match.low, point.false_non_match.high)
    for same_rate, cut in zip(SAME_RATES, cuts, strict=True):
        priced = JudgedPairs(distances, similar, units, LEVEL, Costs(same_rate))
        found[f"cost {same_rate:g}"] = priced.measure("", cut).cost_limits
        best = priced.measure_balanced()
        least = priced.measure("", best[1].threshold) if is_given else best[1]
        found[f"least cost {same_rate:g}"] = least.cost_limits
        if is_given:
            rates = best[0].false_match, best[0].false_non_match
            found["EER"] = tuple(np.mean([(r.low, r.high) for r in rates], axis=0))
    return found


def use_bootstrap(distances, similar, units, cuts, *, draw):
    """Return percentiles over bootstrap samples of the identities."""
    if units is None:
        units = np.stack([np.arange(len(distances))] * 2, axis=1)
    rng, n_units = np.random.default_rng(len(distances)), int(units.max()) + 1
    rows = []
    for _ in range(N_BOOTSTRAP):
        count = draw(rng, n_units)
        own = units[:, 0] == units[:, 1]
        weight = count[units[:, 0]] * np.where(own, 1, count[units[:, 1]])
        parts = weight[~similar], weight[similar]
        if parts[0].any() and parts[1].any():
            curve = Curve(distances[~similar], distances[similar], parts)
            rows.append(list(curve.summarise(cuts).values()))
    names = Curve(distances[~similar], distances[similar]).summarise(cuts)
    return dict(zip(names, np.quantile(rows, [0.025, 0.975], axis=0).T, strict=True))


METHODS = {
    "ours": use_ours,
    "given": use_given,
    "vertex": partial(
        use_bootstrap,
        draw=lambda rng, n: np.bincount(rng.integers(n, size=n), minlength=n).astype(float),
    ),
    "dbn": partial(use_bootstrap, draw=lambda rng, n: 2.0 * rng.integers(2, size=n)),
}


# Runs


def run_world(world, runs, seed, method="ours", n_population=N_POPULATION):
    """Return the true values, and for each quantity an array (n_runs, 3): value, low, high."""
    rng = np.random.default_rng(seed)
    cuts, truth = find_truth(world, rng, n_population)
    found = {}
    for _ in range(runs):
        distances, similar, units = world.design(world.people, rng)
        values = Curve(distances[~similar], distances[similar]).summarise(cuts)
        for name, limits in METHODS[method](distances, similar, units, cuts).items():
            found.setdefault(name, []).append((values[name], *limits))
    return truth, {name: np.array(rows) for name, rows in found.items()}


def largest(name):
    """Return the largest value of a quantity, which makes a rate of it."""
    same_rate = float(name.split()[-1]) if "cost" in name else 0.5
    return 1.0 / min(same_rate, 1 - same_rate) if "cost" in name else 1.0


def summarise(name, truth, rows):
    """Return the columns of the table for one quantity."""
    value, low, high = rows.T / largest(name)
    truth = truth / largest(name)
    worth = max(1.0, truth * (1 - truth) / max(value.var(), 1e-12))
    oracle = [np.subtract(*mid_limits(x * worth, worth, LEVEL)[::-1]) for x in value.clip(0, 1)]
    below, above = np.mean(truth < low - 1e-9), np.mean(truth > high + 1e-9)
    return {
        "truth": truth * largest(name),
        "cover": 1 - below - above,
        "width": np.mean(high - low) / np.mean(oracle),
        "below": below,
        "above": above,
        "errors": worth * min(truth, 1 - truth),
    }


def run_task(task):
    number, runs, method = task
    world = (*OWN, *GIVEN)[number]
    return world.name, *run_world(world, runs, number, method)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--only", default="", help="run the worlds whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--method", default="ours", choices=METHODS)
    options = parser.parse_args()
    print(describe_machine())
    print("| world | quantity | truth | cover | width | below | above | errors |")
    print("|" + "---|" * 8)
    start = perf_counter()
    tasks = [
        (number, options.runs, options.method)
        for number, world in enumerate((*OWN, *GIVEN))
        if options.only in world.name
    ]
    results = []
    with get_context("fork").Pool(options.jobs) as pool:
        for world, truth, found in pool.imap(run_task, tasks):
            rows = {name: summarise(name, truth[name], rows) for name, rows in found.items()}
            print_world(world, rows)
            results += [(world, name, row) for name, row in rows.items()]
    print_summary(results)
    print(f"{options.runs} runs per world, {perf_counter() - start:.0f} s")


def print_world(world, rows):
    for name, row in rows.items():
        cells = [f"{row['truth']:.4g}", f"{row['cover']:.3f}", f"{row['width']:.2f}"]
        cells += [f"{row['below']:.3f}", f"{row['above']:.3f}", f"{row['errors']:.3g}"]
        print("|", " | ".join([world, name, *cells]), "|", flush=True)
        world = ""


def print_summary(results):
    """Print the median and the worst cover and width of each quantity over the worlds."""
    print("\n| quantity | errors | worlds | cover: median | least | width: median | largest |")
    print("|" + "---|" * 7)
    for name in dict.fromkeys(name for _, name, _ in results):
        for word, is_part in (
            (f"at least {ENOUGH}", lambda row: row["errors"] >= ENOUGH),
            ("fewer", lambda row: row["errors"] < ENOUGH),
        ):
            part = [(world, row) for world, n, row in results if n == name and is_part(row)]
            if part:
                covers = [row["cover"] for _, row in part]
                widths = [row["width"] for _, row in part]
                cells = [name, word, str(len(part)), f"{np.median(covers):.3f}"]
                cells += [f"{min(covers):.3f} ({part[np.argmin(covers)][0]})"]
                cells += [f"{np.median(widths):.2f}"]
                cells += [f"{max(widths):.2f} ({part[np.argmax(widths)][0]})"]
                print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
