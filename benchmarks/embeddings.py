"""Verification with embedding-like vectors: learnt metrics and usual methods of the field.

Each of 2,000 identities has a mean vector and 5 to 20 samples: the mean plus noise, divided by the
norm. The noise of each identity has its own size. In the world "structured" its spectrum decays
in directions of its own, as sessions and lighting do; in "isotropic" it has no direction, so that
there is little to learn; in "heavy" it is structured and has the tails of Student's t with 5
degrees of freedom. Identities are split: 1,000 to learn from, 200 to choose the setting of each
method by the AUC, 400 to calibrate thresholds and probabilities, 400 to test. Some methods are
tried once more on samples of the same length (`LengthNormalizer`).

Printed for every world and seed: AUC; equal error rate (EER); false non-match rate (FNMR) on the
test identities, at thresholds that promise a false match rate (FMR) of 1e-2 and 1e-3 with
confidence 0.95, and the FMR there; minimum and actual detection cost at a share of 1 % same pairs,
relative to the cost of refusing all pairs; seconds to learn with the chosen setting. Then the EER
and the FNMR at 1e-3 with several enrolled samples per identity, by several rules and after
`LengthNormalizer`, in parentheses with scores normalised by a cohort (AS-norm); with --enrolment
these alone. At the end: the FNMR at 1e-3, its mean over the
seeds with its standard error, and the ratio of this mean to that of the better PLDA.

    python benchmarks/embeddings.py [--dimensions 128 512] [--worlds structured isotropic heavy]
        [--seeds 0 1 2 3 4] [--jobs 1] [--json FILE] [--enrolment]
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy.linalg
from common import describe_machine
from joblib import Parallel, delayed
from scipy.special import logit
from sklearn.metrics import roc_auc_score, roc_curve

from tatml import TATML, PairThreshold, TATMLPairs
from tatml._learning.metric import row_distances
from tatml._verification.calibration import equal_error_rate
from tatml.features import LengthNormalizer
from tatml.verification import Gallery

N_IDENTITIES = 2000
PARTS = {
    "learn": (0, 1000),
    "choose": (1000, 1200),
    "calibrate": (1200, 1600),
    "test": (1600, 2000),
}
WORLDS = ("structured", "isotropic", "heavy")
NOISE = {"structured": 1.3, "isotropic": 1.5, "heavy": 1.1}  # of the mean identity, times its mean
SAME_RATE = 0.01
RATES = (1e-2, 1e-3)
NOTHING_LEARNT = 1e-8  # a C with which the metric is its prior
LARGE = 1e4  # more than all scores: a distance is positive
NORMALISED = ", normalised"
N_ENROLLED = (1, 2, 5)  # samples per identity
N_NEAREST = 100  # members of a cohort of 400
SIGNS = [1, -1] * 3  # any: scores need no threshold


# Data


def make_embeddings(world: str, n_dims: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return unit vectors (n_samples, n_dims) and their identities."""
    rng = np.random.default_rng([seed, n_dims, WORLDS.index(world)])
    y = np.repeat(np.arange(N_IDENTITIES), rng.integers(5, 21, N_IDENTITIES))
    order = np.arange(1, n_dims + 1.0)
    between = np.sqrt(order**-0.5 / np.sum(order**-0.5))
    within = np.sqrt(order**-0.7 / np.sum(order**-0.7))
    means = rng.normal(size=(N_IDENTITIES, n_dims)) * between
    noise = rng.normal(size=(len(y), n_dims))
    if world == "isotropic":
        noise /= np.sqrt(n_dims)
    else:
        noise = noise * within @ np.linalg.qr(rng.normal(size=(n_dims, n_dims)))[0]
    if world == "heavy":
        noise /= np.sqrt(rng.chisquare(5, size=(len(y), 1)) / 5)
    noise *= (n_dims / 128) ** 0.25  # more dimensions tell more: keep the task as hard
    size = NOISE[world] * np.exp(0.3 * rng.normal(size=N_IDENTITIES))
    X = means[y] + size[y, None] * noise
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def draw_pairs(y: np.ndarray, part: str, n_different: int, seed: int):
    """Return all pairs of the same identity, and random pairs of different ones, of one part."""
    rng = np.random.default_rng(seed)
    first, last = PARTS[part]
    rows = np.flatnonzero((y >= first) & (y < last))
    different = rng.choice(rows, (2 * n_different, 2))
    different = different[y[different[:, 0]] != y[different[:, 1]]][:n_different]
    same = []
    for identity in range(first, last):
        members = np.flatnonzero(y == identity)
        same.append(members[np.stack(np.triu_indices(len(members), 1), axis=1)])
    same = np.concatenate(same)
    return np.concatenate([same, different]), np.repeat([True, False], [len(same), n_different])


# Methods: each takes samples, identities and a setting, and returns distances of pairs by name


def cosine_distance(rows: np.ndarray):
    """Return the function pairs → 1 − cosine."""
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return lambda pairs: 1 - np.einsum("ij,ij->i", rows[pairs[:, 0]], rows[pairs[:, 1]])


def scatter(X: np.ndarray, y: np.ndarray, shrinkage: float = 0.0):
    """Return the mean, the covariance of identities and the covariance within them.

    The covariance of the means of n samples contains 1/n of the noise, which is subtracted.
    """
    labels = np.unique(y, return_inverse=True)[1]
    counts = np.bincount(labels)
    means = np.stack([np.bincount(labels, column) for column in X.T], axis=1) / counts[:, None]
    centred = X - means[labels]
    within = centred.T @ centred / (len(X) - len(counts))
    sphere = np.trace(within) / len(within) * np.eye(len(within))
    within = (1 - shrinkage) * within + shrinkage * sphere
    between = np.cov(means.T) - within * np.mean(1 / counts)
    return means.mean(axis=0), between, within


def fit_cosine(X, y, known, _):
    return {"cosine": cosine_distance(X)}


def fit_lda(X, y, known, setting):
    shrinkage, n_dims = setting
    mean, between, within = scatter(X[known], y[known], shrinkage)
    axes = scipy.linalg.eigh(between, within)[1][:, ::-1][:, :n_dims]
    return {"LDA + cosine": cosine_distance((X - mean) @ axes)}


def fit_wccn(X, y, known, shrinkage):
    mean, _, within = scatter(X[known], y[known], shrinkage)
    rows = (X - mean) @ np.linalg.cholesky(np.linalg.inv(within))
    return {"within-class normalisation + cosine": cosine_distance(rows)}


def fit_plda(X, y, known, setting):
    """Score by the two-covariance model: x = identity + noise, both Gaussian.

    The axes make the noise white and the covariance of the identities diagonal, ψ. Then the
    log-likelihood ratio is a sum over the axes. The leading axes are kept.
    """
    shrinkage, n_dims = setting
    mean, between, within = scatter(X[known], y[known], shrinkage)
    values, axes = scipy.linalg.eigh(between, within)
    psi = np.maximum(values[::-1][:n_dims], 0)
    rows = (X - mean) @ axes[:, ::-1][:, :n_dims]
    total, determinant = psi + 1, (psi + 1) ** 2 - psi**2
    constant = np.sum(np.log(total) - np.log(determinant) / 2)
    squares = rows**2 @ (total / determinant - 1 / total)

    def distance(pairs):
        product = np.einsum("ij,j,ij->i", rows[pairs[:, 0]], psi / determinant, rows[pairs[:, 1]])
        ratio = constant + product - squares[pairs].sum(axis=1) / 2
        return LARGE - ratio

    return {"two-covariance PLDA": distance}


def fit_tatml(X, y, known, C):
    metric = TATML(C, random_state=0).fit(X[known], y[known])
    rows = metric.transform(X - X[known].mean(axis=0))
    return {
        "TATML": lambda pairs: row_distances(rows, pairs),
        "TATML + cosine": cosine_distance(rows),
    }


def fit_midpoint(X, y, known, C):
    metric = TATML(C, midpoint=True, new_classes=True, random_state=0).fit(X[known], y[known])
    name = "midpoint, prior alone" if C == NOTHING_LEARNT else "midpoint"
    return {name: lambda pairs: LARGE - metric.pair_score(pairs, X)}


def fit_tatml_pairs(X, y, known, setting):
    C, prior, midpoint = setting
    pairs, similar = draw_pairs(y, "learn", 25_000, seed=0)
    keep = np.random.default_rng(0).permutation(np.flatnonzero(similar))[:25_000]
    keep = np.concatenate([keep, np.flatnonzero(~similar)])
    model = TATMLPairs(C, prior=prior, midpoint=midpoint, preprocessor=X)
    model.fit(pairs[keep], np.where(similar[keep], 1, -1))
    name = "TATMLPairs, midpoint" if midpoint else "TATMLPairs"
    return {name: lambda pairs: midpoint * LARGE - model.pair_score(pairs)}


def methods_of(n_dims: int) -> list:
    """Return methods with their settings, and whether they are tried on normalised samples too."""
    sizes = [size for size in (32, 64, 96, 128, 256, 384, 512) if size <= n_dims]
    shrinkages = [0.0, 0.03, 0.1, 0.3]
    of_pairs = [(1000.0, "auto"), (10_000.0, "auto"), (100.0, "discriminant")]
    return [
        (fit_cosine, [None], False),
        (fit_lda, [*product(shrinkages, sizes)], False),
        (fit_wccn, shrinkages, False),
        (fit_plda, [*product(shrinkages, sizes)], True),
        (fit_tatml, [10.0, 100.0, 1000.0], True),
        (fit_midpoint, [NOTHING_LEARNT], True),
        (fit_midpoint, [1.0, 10.0, 100.0], True),
        (fit_tatml_pairs, [(*setting, False) for setting in of_pairs], False),
        (fit_tatml_pairs, [(C, "discriminant", True) for C in (1.0, 10.0, 100.0)], False),
    ]


# Scores


def detection_costs(judge, distances, similar) -> tuple[float, float]:
    """Return the minimum and the actual cost of decisions, relative to refusing all pairs."""
    fmr, hits, _ = roc_curve(similar, -distances, drop_intermediate=False)
    odds = (1 - SAME_RATE) / SAME_RATE
    accepted = judge.pair_log_likelihood_ratio(distances) > -logit(SAME_RATE)
    actual = np.mean(~accepted[similar]) + odds * np.mean(accepted[~similar])
    return float(np.min(1 - hits + odds * fmr)), float(actual)


def score(distance, y: np.ndarray, seed: int) -> dict[str, float]:
    """Return the numbers of one method; NaN for a rate that cannot be promised."""
    pairs, similar = draw_pairs(y, "calibrate", 200_000, seed + 1)
    signs, known = np.where(similar, 1, -1), distance(pairs)
    with warnings.catch_warnings():  # the threshold of the fit is not used
        warnings.filterwarnings("ignore", message="threshold_: ")
        judge = PairThreshold("precomputed").fit(known, signs)
    judge.calibrate_probability(known, signs, same_rate=SAME_RATE)
    test, truth = draw_pairs(y, "test", 200_000, seed + 2)
    new = distance(test)
    found = {"AUC": roc_auc_score(truth, -new), "EER": equal_error_rate(new, truth)}
    for rate in RATES:
        found[f"FNMR {rate}"] = found[f"FMR {rate}"] = np.nan
        try:
            judge.calibrate_threshold(
                known, signs, strategy="false_match_rate", max_rate=rate, groups=y[pairs]
            )
        except ValueError:
            continue
        same = new < judge.threshold_
        found[f"FNMR {rate}"] = np.mean(~same[truth])
        found[f"FMR {rate}"] = np.mean(same[~truth])
    found["least cost"], found["cost"] = detection_costs(judge, new, truth)
    return {name: float(value) for name, value in found.items()}


def as_row(name: str, setting, numbers: dict, seconds: float) -> str:
    """Return one row of the table of a world."""
    text = "" if setting is None else str(setting).strip("()").replace("'", "")
    cells = [name, text, f"{numbers['AUC']:.4f}", f"{numbers['EER']:.2%}"]
    for rate in RATES:
        missed, matched = numbers[f"FNMR {rate}"], numbers[f"FMR {rate}"] / rate
        cells.append("refused" if np.isnan(missed) else f"{missed:.1%} ({matched:.2f})")
    cells.append(f"{numbers['least cost']:.3f}, {numbers['cost']:.3f}")
    return f"| {' | '.join([*cells, f'{seconds:.1f}'])} |"


def plda_score(X: np.ndarray, y: np.ndarray, known: np.ndarray):
    """Return the log-likelihood ratio of a sample and n samples of one identity, by the model.

    With ψ as in `fit_plda`, a sample of the identity is Gaussian with mean ψ Σz/(nψ + 1) and
    variance 1 + ψ/(nψ + 1) along each axis, and with 0 and 1 + ψ otherwise.
    """
    mean, between, within = scatter(X[known], y[known], 0.03)
    psi, axes = scipy.linalg.eigh(between, within)
    psi, rows = np.maximum(psi, 0), (X - mean) @ axes

    def score(probes, enrolled, owner):
        n, totals = np.bincount(owner), np.zeros((owner.max() + 1, len(psi)))
        np.add.at(totals, owner, rows[enrolled])
        share = psi / (np.outer(n, psi) + 1)
        parts = [
            np.sum((z - share * totals) ** 2 / (1 + share) + np.log(1 + share), axis=1)
            - np.sum(z**2 / (1 + psi) + np.log(1 + psi))
            for z in rows[probes]
        ]
        return -0.5 * np.array(parts)

    return score


def rules_of(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> dict:
    """Return functions (probes, enrolled, owner) → scores with identities, by name."""
    metric = TATML(random_state=0).fit(X[known], y[known])
    midpoint = TATML(midpoint=True, new_classes=True, C=10.0, random_state=0)
    midpoint.fit(X[known], y[known])
    cosine = PairThreshold("cosine").fit(X[np.flatnonzero(known)[:12]].reshape(6, 2, -1), SIGNS)
    judges = {"cosine": cosine, "distance": metric, "midpoint": midpoint}
    rules = {"mean of scores": "mean_score", "mean of embeddings": "mean_embedding"}
    cases = [(*both, rules) for both in judges.items()]
    cases.append(("midpoint", midpoint, {"its model": "model"}))

    def score_by(judge, rule):
        return lambda probes, enrolled, owner: (
            Gallery(judge, rule=rule).enrol(X[enrolled], owner).scores(X[probes])
        )

    found = {
        f"{name}, {words}": score_by(judge, rule)
        for name, judge, its in cases
        for words, rule in its.items()
    }
    return {"PLDA, its model": plda_score(X, y, known), **found}


def as_norm(scores: np.ndarray, of_enrolled: np.ndarray, of_probes: np.ndarray) -> np.ndarray:
    """Return scores normalised by those of the nearest members of a cohort, on both sides."""

    def standardise(values, cohort):
        top = np.sort(cohort, axis=1)[:, -N_NEAREST:]
        return (values - top.mean(axis=1)[:, None]) / top.std(axis=1)[:, None]

    return (standardise(scores.T, of_enrolled).T + standardise(scores, of_probes)) / 2


def enrolment(X: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Return the errors on the test identities, with several enrolled samples each, by rule.

    One probe of each identity against all; the cohort are single samples of the identities that
    others calibrate with. The arrays have the axes: number of samples, kind of error, whether the
    scores are normalised by the cohort.
    """
    known, number = y < PARTS["learn"][1], np.arange(len(y)) - np.searchsorted(y, y)
    first, last = PARTS["calibrate"]
    cohort = np.flatnonzero((y >= first) & (y < last) & (number == 0))
    tested = (y >= PARTS["test"][0]) & (np.bincount(y)[y] > max(N_ENROLLED))
    probes = np.flatnonzero(tested & (number == max(N_ENROLLED)))
    X = LengthNormalizer().fit(X[known]).transform(X)
    same = np.eye(len(probes), dtype=bool).ravel()
    found = {}
    for name, score_with in rules_of(X, y, known).items():
        of_probes = score_with(probes, cohort, np.arange(len(cohort)))
        rows = []
        for count in N_ENROLLED:
            enrolled = np.flatnonzero(tested & (number < count))
            owner = np.repeat(np.arange(len(probes)), count)
            scores = score_with(probes, enrolled, owner)
            normalised = as_norm(scores, score_with(cohort, enrolled, owner).T, of_probes)
            rows.append([errors_of(values.ravel(), same) for values in (scores, normalised)])
        found[name] = np.swapaxes(rows, 1, 2)
    return found


def enrolment_table(found: list[dict[str, np.ndarray]]) -> list[str]:
    """Return the means over seeds as a table; in parentheses those of normalised scores."""
    header = [f"{word}, {count}" for count in N_ENROLLED for word in ("EER", "FNMR at 1e-3")]
    lines = ["", f"| enrolled | {' | '.join(header)} |", "|---" * (1 + len(header)) + "|"]
    for name in found[0]:
        means = np.mean([of_seed[name] for of_seed in found], axis=0).reshape(-1, 2)
        cells = [f"{plain:.2%} ({normalised:.2%})" for plain, normalised in means]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return lines


def errors_of(scores: np.ndarray, same: np.ndarray) -> tuple[float, float]:
    """Return the EER, and the FNMR at the threshold with the last FMR on the same pairs."""
    threshold = np.quantile(scores[~same], 1 - RATES[-1])
    return equal_error_rate(-scores, same), float(np.mean(scores[same] <= threshold))


# Worlds and seeds


def best_settings(X: np.ndarray, y: np.ndarray, seed: int) -> dict:
    """Return the best setting of each method by the AUC: by name (AUC, setting, distance, s)."""
    known = y < PARTS["learn"][1]
    chosen, similar = draw_pairs(y, "choose", 100_000, seed)
    normalised = LengthNormalizer().fit(X[known]).transform(X)
    best: dict = {}
    for fit, settings, normalises in methods_of(X.shape[1]):
        spaces = [(X, ""), (normalised, NORMALISED)] if normalises else [(X, "")]
        for (samples, suffix), setting in product(spaces, settings):
            start = perf_counter()
            distances = fit(samples, y, known, setting)
            seconds = perf_counter() - start
            for name, distance in distances.items():
                auc = roc_auc_score(similar, -distance(chosen))
                if name + suffix not in best or auc > best[name + suffix][0]:
                    best[name + suffix] = auc, setting, distance, seconds
    return best


def run(world: str, n_dims: int, seed: int) -> tuple[str, dict[str, float]]:
    """Return the table of one world, and the FNMR at 1e-3 by method."""
    X, y = make_embeddings(world, n_dims, seed)
    lines = [f"\n### {world}, {n_dims} dimensions, seed {seed}, {len(y)} samples\n"]
    lines.append(
        "| method | setting | AUC | EER | FNMR at FMR 1e-2 (FMR/1e-2) | at 1e-3 (FMR/1e-3) | "
        "detection cost: minimum, actual | s |\n|" + 8 * "---|"
    )
    missed = {}
    for name, (_, setting, distance, seconds) in best_settings(X, y, seed).items():
        numbers = score(distance, y, seed)
        lines.append(as_row(name, setting, numbers, seconds))
        missed[name] = numbers[f"FNMR {RATES[-1]}"]
    return "\n".join([*lines, *enrolment_table([enrolment(X, y)])]), missed


def run_enrolment(world: str, n_dims: int, seed: int) -> dict[str, np.ndarray]:
    return enrolment(*make_embeddings(world, n_dims, seed))


def print_means(n_dims: int, missed: dict[str, list[dict[str, float]]]) -> None:
    """Print the FNMR at 1e-3 of each method and world, and its ratio to that of PLDA."""
    print(f"\n### {n_dims} dimensions: FNMR at 1e-3, mean of the seeds ± standard error, ", end="")
    print("relative to the better PLDA\n\n| method | " + " | ".join(missed) + " |")
    print("|---" * (1 + len(missed)) + "|")
    for name in next(iter(missed.values()))[0]:
        cells = [name]
        for of_seeds in missed.values():
            values = np.array([found[name] for found in of_seeds])
            plda = min(
                np.mean([found["two-covariance PLDA" + suffix] for found in of_seeds])
                for suffix in ("", NORMALISED)
            )
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            cells.append(f"{values.mean():.2%} ± {100 * error:.2f} ({values.mean() / plda:.3f})")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=1, help="worlds and seeds at a time")
    parser.add_argument("--enrolment", action="store_true", help="several enrolled samples alone")
    parser.add_argument("--json", type=Path, help="a file for the FNMR at 1e-3")
    options = parser.parse_args()
    print(describe_machine())
    everything = {}
    for n_dims in options.dimensions:
        cases = [*product(options.worlds, options.seeds)]
        if options.enrolment:
            jobs = (delayed(run_enrolment)(world, n_dims, seed) for world, seed in cases)
            found = Parallel(n_jobs=options.jobs)(jobs)
            for number, world in enumerate(options.worlds):
                print(f"\n### {world}, {n_dims} dimensions, mean of {len(options.seeds)} seeds")
                of_world = found[number * len(options.seeds) :][: len(options.seeds)]
                print("\n".join(enrolment_table(of_world)), flush=True)
            continue
        jobs = (delayed(run)(world, n_dims, seed) for world, seed in cases)
        missed: dict = {world: [] for world in options.worlds}
        found = Parallel(n_jobs=options.jobs, return_as="generator")(jobs)
        for (world, _), (table, numbers) in zip(cases, found, strict=True):
            print(table, flush=True)
            missed[world].append(numbers)
            everything[str(n_dims)] = missed
            if options.json is not None:
                options.json.write_text(json.dumps(everything))
        print_means(n_dims, missed)
