"""The worlds of verification_coverage.py: populations of identities, and designs of pairs.

The first 18 worlds were used to choose the design effect. Those marked *, and later those marked †,
were written down before it was run on them; it has not been changed since. Worlds like those marked
‡, with clans, were used to choose the reweighting of identities. Those marked § were written down
before the reweighting was run on them; one of them then lowered its least degrees of freedom from
8 to 4. Those marked ¶ were written down before that was run on them, and nothing changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

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


@dataclass(frozen=True)
class Resembling(People):
    """A population in which some couples of identities resemble each other, for their traits.

    The traits are further columns of the rows. The distance of two samples is multiplied by a
    function of the traits of both.
    """

    traits: Callable = None  # (rng, n) -> array of shape (n, n_traits)
    factor: Callable = None  # (traits, traits) -> array of shape (n,)
    of_samples: bool = False  # each sample has traits of its own, as blank scans do

    def draw(self, rng, n):
        x, scale = super().draw(rng, n)
        return np.hstack([x, self.traits(rng, n)]), scale

    def sample(self, rng, identities, who):
        x, scale = identities
        traits = self.traits(rng, len(who)) if self.of_samples else x[who, self.n_features :]
        seen, scale = super().sample(rng, (x[:, : self.n_features], scale), who)
        return np.hstack([seen, traits]), scale

    def distance(self, first, second):
        (x, scale_x), (z, scale_z) = first, second
        n = self.n_features
        plain = super().distance((x[:, :n], scale_x), (z[:, :n], scale_z))
        return plain * self.factor(x[:, n:], z[:, n:])


def in_clans(rng, n, shares, also=0.0):
    """Draw who is in which clan; with the chance `also`, members of one are in the next, too."""
    member = rng.random((n, len(shares))) < shares
    for number in range(1, len(shares)):
        member[:, number] |= member[:, number - 1] & (rng.random(n) < also)
    return member.astype(float)


def share_clan(first, second, factor=0.2):
    return np.where((first * second).any(axis=1), factor, 1.0)


def on_line(rng, n, share):
    """Draw the positions of a share of the identities on a line; NaN for the others."""
    return np.where(rng.random((n, 1)) < share, rng.random((n, 1)), np.nan)


def near_on_line(first, second, reach):
    return np.where(np.abs(first - second)[:, 0] < reach, 0.2, 1.0)


def blur(rng, n):
    return rng.exponential(size=(n, 1))


def grain(rng, n):
    return np.exp(1.2 * rng.normal(size=(n, 1)))


def both_blurred(first, second):
    return 1 / (1 + 0.3 * (first * second)[:, 0])


def clans(*shares, also=0.0, **options):
    traits = partial(in_clans, shares=shares, also=also)
    return Resembling(traits=traits, factor=share_clan, **options)


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


def uneven_stars(people, rng, n_probes, most):
    """Compare each probe with candidates of its own: most/n_probes, 2 most/n_probes, … or most."""
    n_each = most * np.arange(1, n_probes + 1) // n_probes
    first = np.repeat(np.arange(n_probes), n_each)
    return compare(people, rng, np.stack([first, n_probes + np.arange(len(first))], axis=1))


def all_samples(people, rng, n_units, n_each):
    """Compare all samples of different identities."""
    samples = np.stack(np.triu_indices(n_units * n_each, 1), axis=1)
    samples = samples[samples[:, 0] // n_each != samples[:, 1] // n_each]
    return compare(people, rng, samples // n_each, samples)


def sites(people, rng, n, n_sites, n_each):
    """Compare samples of one site at a time."""
    site = rng.integers(n_sites, size=n)
    return compare(people, rng, random_couples(rng, n, n_each) + n_each * site[:, None])


def ring(people, rng, n_samples, n_next):
    """Compare each sample with the next ones."""
    first, step = np.indices((n_samples, n_next)).reshape(2, -1)
    return compare(people, rng, np.stack([first, (first + 1 + step) % n_samples], axis=1))


def uneven_genuine(people, rng, n_units, most):
    """All pairs of samples of each identity, which has 2, 3, … or `most` samples."""
    parts = [genuine(people, rng, n_units // (most - 1), n_each) for n_each in range(2, most + 1)]
    units = [part[1] + number * n_units for number, part in enumerate(parts)]
    return np.concatenate([part[0] for part in parts]), np.concatenate(units)


def two_sides(people, rng, n_probes, n_references):
    """Compare every probe with every reference, which are of another population."""
    samples = [
        side.sample(rng, side.draw(rng, n), np.arange(n))
        for side, n in zip(people, (n_probes, n_references), strict=True)
    ]
    first, second = np.indices((n_probes, n_references)).reshape(2, -1)
    (x, scale_x), (z, scale_z) = samples
    distances = people[0].distance((x[first], scale_x[first]), (z[second], scale_z[second]))
    return distances, np.stack([first, n_probes + second], axis=1)


def two_sides_population(people, rng, n):
    parts, who = [], np.arange(N_AT_ONCE)
    for _ in range(n // N_AT_ONCE):
        first, second = (side.sample(rng, side.draw(rng, N_AT_ONCE), who) for side in people)
        parts.append(people[0].distance(first, second))
    return np.sort(np.concatenate(parts))


@dataclass(frozen=True)
class World:
    """A population and a design. Errors are small values; `truth` draws independent pairs.

    `is_rare`: the rates depend on a kind of identities of which a sample has four or fewer on
    average. No method can tell from samples that hold none.
    """

    name: str
    people: People
    design: Callable
    truth: Callable = population
    is_rare: bool = False

    @property
    def is_about_matches(self):
        return self.truth is not genuine_population


PLAIN, LAMBS = People(), People(lambs=0.1)
POPULAR, LESS_POPULAR = np.arange(1, 151) ** -0.7, np.arange(1, 201) ** -0.5
ONE_POPULAR = np.r_[22.0, np.ones(119)]
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
        "* lambs, 20 probes × gallery of 200",
        LAMBS,
        partial(gallery, n_probes=20, n_gallery=200),
        is_rare=True,
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
    World(
        "† lambs, 60 probes × gallery of 150", LAMBS, partial(gallery, n_probes=60, n_gallery=150)
    ),
    World(
        "† few lambs, 100 probes × 120",
        People(lambs=0.04),
        partial(stars, n_probes=100, n_each=120),
        is_rare=True,
    ),
    World(
        "† heavy tails, 45 probes × 8 to 400",
        People(5, tail=4.0),
        partial(uneven_stars, n_probes=45, most=400),
    ),
    World("† all samples, 36 × 4", People(8), partial(all_samples, n_units=36, n_each=4)),
    World(
        "† goats, three sites of 40",
        People(spread=0.15),
        partial(sites, n=9000, n_sites=3, n_each=40),
    ),
    World("† a crowd, ring of 400", People(crowd=0.1), partial(ring, n_samples=400, n_next=20)),
    World(
        "† false non-matches, 2 to 12 each",
        People(spread=0.2),
        partial(uneven_genuine, n_units=165, most=12),
        genuine_population,
    ),
    World(
        "† false non-matches, noise, 120 × 6",
        People(3, spread=0.1, noise=1.0),
        partial(genuine, n_units=120, n_each=6),
        genuine_population,
    ),
    World(
        "‡ clan of 8 %, 60 × 10", clans(0.08), partial(identities, n=8000, n_units=60, n_each=10)
    ),
    World(
        "‡ clan of 8 %, 100 × 10", clans(0.08), partial(identities, n=8000, n_units=100, n_each=10)
    ),
    World(
        "‡ clan of 8 %, 200 × 10", clans(0.08), partial(identities, n=8000, n_units=200, n_each=10)
    ),
    World(
        "‡ clan of 8 %, 400 × 10", clans(0.08), partial(identities, n=8000, n_units=400, n_each=10)
    ),
    World(
        "‡ clan of 5 %, 100 × 10", clans(0.05), partial(identities, n=8000, n_units=100, n_each=10)
    ),
    World(
        "‡ two clans of 5 %, 150 × 10",
        clans(0.05, 0.05),
        partial(identities, n=8000, n_units=150, n_each=10),
    ),
    World("§ clan of 5 %, all pairs of 60", clans(0.05), partial(all_pairs, n_samples=60)),
    World("§ clan of 8 %, all pairs of 150", clans(0.08), partial(all_pairs, n_samples=150)),
    World(
        "§ clan of 5 %, 400 × 4", clans(0.05), partial(identities, n=12_000, n_units=400, n_each=4)
    ),
    World("§ clan of 28 %, 45 × 5", clans(0.28), partial(identities, n=5000, n_units=45, n_each=5)),
    World("§ clan of 3 %, all pairs of 300", clans(0.03), partial(all_pairs, n_samples=300)),
    World(
        "§ three overlapping clans of 5 %, 150 × 5",
        clans(0.05, 0.05, 0.05, also=0.5),
        partial(identities, n=8000, n_units=150, n_each=5),
    ),
    World(
        "§ twenty clans of 2 %, 200 × 5",
        clans(*20 * (0.02,)),
        partial(identities, n=8000, n_units=200, n_each=5),
    ),
    World(
        "§ 15 % on a line, neighbours alike, 120 × 5",
        Resembling(traits=partial(on_line, share=0.15), factor=partial(near_on_line, reach=0.25)),
        partial(identities, n=8000, n_units=120, n_each=5),
    ),
    World(
        "§ blurred with blurred, 100 × 8",
        Resembling(traits=blur, factor=both_blurred),
        partial(identities, n=8000, n_units=100, n_each=8),
    ),
    World(
        "§ blank scans, 8 % of the samples, 100 × 5",
        clans(0.08, of_samples=True),
        partial(identities, n=8000, n_units=100, n_each=5),
    ),
    World(
        "§ clan of 8 %, popular identities, 150",
        clans(0.08),
        partial(random_pairs, n=8000, n_samples=150, chance=POPULAR / POPULAR.sum()),
    ),
    World(
        "§ clan of 8 %, one of 120 in a quarter of the pairs",
        clans(0.08),
        partial(random_pairs, n=8000, n_samples=120, chance=ONE_POPULAR / ONE_POPULAR.sum()),
    ),
    World(
        "§ heavy tails and a clan of 6 %, 120 × 5",
        clans(0.06, n_features=4, tail=2.0),
        partial(identities, n=8000, n_units=120, n_each=5),
    ),
    World(
        "§ 5 % of 80 probes like 20 % of 150 references",
        (clans(0.05), clans(0.2)),
        partial(two_sides, n_probes=80, n_references=150),
        two_sides_population,
    ),
    World(
        "§ clan of 8 % of 60 probes and of their candidates",
        clans(0.08),
        partial(stars, n_probes=60, n_each=150),
    ),
    World(
        "§ lambs and a clan of 8 %, 100 × 10",
        clans(0.08, lambs=0.1),
        partial(identities, n=8000, n_units=100, n_each=10),
    ),
    World(
        "§ false non-matches, 6 % vary three times as much, 100 × 6",
        Resembling(
            traits=partial(in_clans, shares=(0.06,)), factor=partial(share_clan, factor=3.0)
        ),
        partial(genuine, n_units=100, n_each=6),
        genuine_population,
    ),
    World(
        "§ rare lambs, 3 % of 100 × 10",
        People(lambs=0.03),
        partial(identities, n=8000, n_units=100, n_each=10),
        is_rare=True,
    ),
    World(
        "§ few lambs, 3 % of 120 probes × gallery of 100",
        People(lambs=0.03),
        partial(gallery, n_probes=120, n_gallery=100),
        is_rare=True,
    ),
    World(
        "¶ 10 % of 70 probes like 10 % of 200 references",
        (clans(0.1), clans(0.1)),
        partial(two_sides, n_probes=70, n_references=200),
        two_sides_population,
    ),
    World(
        "¶ clans of 4 and 7 %, all pairs of 120",
        clans(0.04, 0.07),
        partial(all_pairs, n_samples=120),
    ),
    World(
        "¶ clan of 7 %, popular identities, 200",
        clans(0.07),
        partial(random_pairs, n=9000, n_samples=200, chance=LESS_POPULAR / LESS_POPULAR.sum()),
    ),
    World(
        "¶ 30 % on a line, close neighbours alike, 200 × 4",
        Resembling(traits=partial(on_line, share=0.3), factor=partial(near_on_line, reach=0.06)),
        partial(identities, n=9000, n_units=200, n_each=4),
    ),
    World(
        "¶ three clans of 5 %, three sites of 60",
        clans(0.05, 0.05, 0.05),
        partial(sites, n=9000, n_sites=3, n_each=60),
    ),
    World(
        "¶ grainy with grainy, 150 × 6",
        Resembling(traits=grain, factor=both_blurred),
        partial(identities, n=9000, n_units=150, n_each=6),
    ),
    World(
        "¶ clan of 2.5 %, 700 × 3",
        clans(0.025),
        partial(identities, n=15_000, n_units=700, n_each=3),
    ),
    World(
        "¶ heavy tails, lambs and a clan of 7 %, 90 probes × gallery of 90",
        clans(0.07, n_features=5, tail=3.0, lambs=0.08),
        partial(gallery, n_probes=90, n_gallery=90),
    ),
)
