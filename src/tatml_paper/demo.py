"""The story of `make demo`: from raw data to a decision with a guarantee, on scikit-learn's digits.

`python -m tatml_paper.demo FOLDER` tells the story and keeps it for the page; with `--end` it tells
the results of the experiments, and what to do next.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from tatml import TATML, Euclidean, Result
from tatml.plotting import ConvergenceDisplay
from tatml.verification import error_rates

from .cells import method_title
from .extras import pyplot
from .format import format_number
from .pairs import Floats, Integers, draw_pairs
from .report.figures import Picture, draw_histograms, drawn_png, make_subplots
from .report.page import NEXT
from .report.results import Results
from .report.story import Chapter, write_story
from .standings import mean_score
from .store import read_records

MAX_RATE, CONFIDENCE = 0.05, 0.95
SIMILAR, DISSIMILAR, THRESHOLD = "#0072b2", "#d55e00", "#222222"  # as in `tatml.plotting`
N_SHOWN = 6  # pairs of each kind
# Ends of the axes of distances and of maps, in multiples of the threshold, for both distances.
END, MAP_END = 2.2, 1.7


def percent(share: float, digits: int = 1) -> str:
    """Return a share in per cent.

    Examples
    --------
    >>> percent(0.0314), percent(0.05, 0)
    ('3.1 %', '5 %')
    """
    return f"{100 * share:.{digits}f} %"


@dataclass(frozen=True)
class Part:
    """Some of the images, as rows of pixels, with their digits and labelled pairs of them."""

    images: Floats
    digits: Integers
    pairs: Integers
    labels: Integers


def make_part(images: Floats, digits: Integers, seed: int) -> Part:
    """Draw pairs, half of them of one digit, and label them +1 (same) or −1 (different)."""
    pairs = draw_pairs(digits, n_pairs_per_class=1000, seed=seed)
    return Part(images, digits, pairs.index, pairs.labels)


def split_digits() -> tuple[Part, Part, Part]:
    """Split the images into those to learn from, to calibrate with, and to test on."""
    images, digits = load_digits(return_X_y=True)
    train, rest, y_train, y_rest = train_test_split(
        images, digits, train_size=0.4, random_state=0, stratify=digits
    )
    tune, test, y_tune, y_test = train_test_split(
        rest, y_rest, train_size=0.5, random_state=0, stratify=y_rest
    )
    parts = ((train, y_train), (tune, y_tune), (test, y_test))
    train, tune, test = (make_part(*part, seed=seed) for seed, part in enumerate(parts))
    return train, tune, test


@dataclass(frozen=True)
class Scores:
    """How well a distance and its threshold do on test pairs, and its neighbours on test images."""

    auc: float
    missed: float
    passed: float
    neighbours: float

    @property
    def line(self) -> str:
        """The scores in a sentence."""
        return (
            f"At its threshold, {percent(self.missed)} of the pairs of one digit are judged "
            f"different, and {percent(self.passed)} of the pairs of two digits are judged the "
            f"same. The area under the ROC curve is {self.auc:.3f}. The 3 nearest neighbours name "
            f"the right digit for {percent(self.neighbours)} of the test images."
        )


def score(metric: TATML | Euclidean, train: Part, test: Part) -> Scores:
    """Score a fitted metric on the test part."""
    knn = KNeighborsClassifier(3).fit(metric.transform(train.images), train.digits)
    rates = error_rates(metric, test.pairs, test.labels, X=test.images)
    return Scores(
        float(roc_auc_score(test.labels, metric.pair_score(test.pairs, test.images))),
        rates.false_non_match.value,
        rates.false_match.value,
        float(knn.score(metric.transform(test.images), test.digits)),
    )


def tell(folder: Path) -> list[Chapter]:
    """Learn from the digits, draw the pictures, and return the chapters."""
    train, tune, test = parts = split_digits()
    plain = Euclidean(random_state=0).fit(train.images, train.digits)
    metric = TATML(random_state=0).fit(train.images, train.digits)
    folder.mkdir(parents=True, exist_ok=True)
    # The calibrated chapter comes last, because calibration replaces the threshold.
    return [
        tell_data(parts, folder),
        tell_plain(plain, score(plain, train, test), test, folder),
        tell_learnt(metric, score(metric, train, test), test, folder),
        tell_certificate(metric, folder),
        tell_guarantee(metric, tune, test, folder),
    ]


def tell_data(parts: Sequence[Part], folder: Path) -> Chapter:
    """Tell what the data and the question are."""
    sizes = [len(part.images) for part in parts]
    lines = [
        f"{sum(sizes):,} images of handwritten digits, 8 × 8 pixels each. The question: do two "
        "images show the same digit?",
        f"{sizes[0]} images are there to learn from, {sizes[1]} to calibrate with, and {sizes[2]} "
        "to test on. No image is in two parts. All numbers below are of the test images.",
    ]
    return Chapter("The data", lines, [draw_data(folder, parts[2])])


def tell_plain(plain: Euclidean, scores: Scores, test: Part, folder: Path) -> Chapter:
    """Tell how far the plain distance of the pixels gets."""
    lines = [
        "The plain distance sums the squared differences of the pixels. Every pixel counts the "
        "same, whether it tells digits apart or not. Its threshold is learnt from pairs of "
        "training images.",
        scores.line,
    ]
    pictures = draw_both(folder, plain, test, "plain distance")
    return Chapter("The plain distance", lines, pictures)


def tell_learnt(metric: TATML, scores: Scores, test: Part, folder: Path) -> Chapter:
    """Tell what was learnt, and what it changes."""
    lines = [
        "TATML learns which combinations of pixels tell digits apart, and the threshold between "
        f"same and different with them: {metric.threshold_:.3f} in units of the new distance. "
        "The axes are those of the plain distance: distances in multiples of the threshold.",
        scores.line,
        "For nearest neighbours the plain distance was good already, because they only compare "
        "distances around one image. A threshold has to be right for all images at once: there "
        "the learnt distance helps.",
    ]
    pictures = draw_both(folder, metric, test, "learnt distance")
    return Chapter("The learnt distance and its threshold", lines, pictures)


def tell_certificate(metric: TATML, folder: Path) -> Chapter:
    """Tell how far the solution can be from the best one."""
    result = metric.result_
    steps = f"{result.n_iter} Newton step{'s' if result.n_iter != 1 else ''}"
    lines = [
        f"Distance and threshold minimise one convex objective. After {steps} it is "
        f"{result.primal:.6f}. The dual problem proves that no distance and no threshold get below "
        f"{result.dual:.6f}.",
        f"The difference, {result.gap:.1e}, is the certificate: a bound on the distance from the "
        "optimum that anyone can check, rounding errors included.",
    ]
    return Chapter("The certificate", lines, [draw_certificate(folder, result)])


def tell_guarantee(metric: TATML, tune: Part, test: Part, folder: Path) -> Chapter:
    """Calibrate the threshold for a rate of false matches, and tell what that costs."""
    learnt = metric.threshold_
    metric.calibrate_threshold(
        tune.pairs,
        tune.labels,
        X=tune.images,
        strategy="false_match_rate",
        max_rate=MAX_RATE,
        confidence=CONFIDENCE,
    )
    promise = metric.calibration_
    rates = error_rates(metric, test.pairs, test.labels, X=test.images)
    passed, missed = rates.false_match, rates.false_non_match
    lines = [
        "The learnt threshold keeps both kinds of errors small and promises nothing about either. "
        "A door needs a promise: calibrate_threshold moves the threshold from "
        f"{learnt:.3f} to {metric.threshold_:.3f}, so that at most {percent(MAX_RATE, 0)} of all "
        "pairs of two digits pass, also of those never seen, with a confidence of "
        f"{percent(CONFIDENCE, 0)}. The promise rests on {promise.n_pairs:,} pairs of two "
        f"digits; it is {promise.method}, because pairs share images.",
        f"On the test images {percent(passed.value)} pass (95 % limits: {percent(passed.low)} to "
        f"{percent(passed.high)}). The price: {percent(missed.value)} of the pairs of one digit "
        "are rejected.",
    ]
    picture = draw_guarantee(folder, metric, test, learnt)
    return Chapter("Verification with a guarantee", lines, [picture])


# The pictures of the chapters


def draw_data(folder: Path, test: Part) -> Picture:
    """Draw some pairs of one digit and of two digits."""
    gap = np.full((8, 1), np.nan)
    with drawn_png(folder / "pairs.png", 1.7, 2, N_SHOWN, colours=32) as axes:
        for row, kind, title in zip(axes, (1, -1), ("same digit", "different digits"), strict=True):
            chosen = np.flatnonzero(test.labels == kind)[::600][:N_SHOWN]
            for ax, place in zip(row, chosen, strict=True):
                first, second = test.images[test.pairs[place]].reshape(2, 8, 8)
                ax.imshow(np.hstack([first, gap, second]), cmap="gray_r", vmin=0, vmax=16)
                ax.set(xticks=[], yticks=[])
            row[0].set_title(title, loc="left", fontsize=9)
    return Picture(
        "pairs.png",
        f"{N_SHOWN} pairs of images of one digit, and {N_SHOWN} of two digits.",
        "Pairs of test images.",
    )


def draw_both(folder: Path, metric: TATML | Euclidean, test: Part, title: str) -> list[Picture]:
    """Draw the distances of test pairs, and the test images in the plane."""
    return [draw(folder, metric, test, title) for draw in (draw_distances, draw_map)]


def draw_distances(folder: Path, metric: TATML | Euclidean, test: Part, title: str) -> Picture:
    """Draw the distances of test pairs in multiples of the threshold."""
    file, name = f"distances-{title.split()[0]}.png", title.capitalize()
    ratios = metric.pair_distance(test.pairs, test.images) / metric.threshold_
    with drawn_png(folder / file, 3.6) as axes:
        shown = draw_histograms(axes[0, 0], ratios, test.labels, end=END, threshold=1.0, name=name)
        axes[0, 0].set(xlabel="distance / threshold", ylim=(0, 2.6))
    missed, passed = map(percent, shown.error_rates)
    return Picture(
        file,
        f"Histograms of the {title} of test pairs: {missed} of the pairs of one digit lie above "
        f"the threshold, {passed} of those of two digits below.",
        f"The {title} of test pairs, divided by its threshold. The less the two histograms "
        "overlap, the better.",
    )


def draw_map(folder: Path, metric: TATML | Euclidean, test: Part, title: str) -> Picture:
    """Draw the test images in the plane in which their distances vary most."""
    file = f"map-{title.split()[0]}.png"
    embedded = metric.transform(test.images) / metric.threshold_
    points = PCA(2, svd_solver="full").fit_transform(embedded)
    with drawn_png(folder / file, 4.2) as axes:
        ax, colours = axes[0, 0], pyplot().get_cmap("tab10").colors
        for (x, y), digit in zip(points, test.digits, strict=True):
            ax.text(x, y, str(digit), color=colours[digit], fontsize=7, ha="center", va="center")
        ends = (-MAP_END, MAP_END)
        ax.set(xlim=ends, ylim=ends, aspect="equal", title=title.capitalize())
        ax.set(xlabel="first axis / threshold", ylabel="second axis / threshold")
    return Picture(
        file,
        f"The test images as points, each drawn as its digit, by the {title}.",
        f"Each test image as its digit, in the two directions in which the {title} varies most "
        "(principal components).",
    )


def draw_certificate(folder: Path, result: Result) -> Picture:
    """Draw how objective and lower bound meet."""
    with drawn_png(folder / "certificate.png", 4.4, 2, colours=32) as axes:
        spare, by_seconds = make_subplots(2.0, 1)  # the gap by seconds is not shown
        every = [*axes[:, 0], by_seconds[0, 0]]
        ConvergenceDisplay.from_result(result, axes=every, name="Objective")
        pyplot().close(spare)
    return Picture(
        "certificate.png",
        f"Objective and lower bound meet after {result.n_iter} steps; the gap is {result.gap:.1e}.",
        "The objective and its lower bound by iteration, and the gap between them.",
    )


def share_below(distances: Floats, thresholds: Floats) -> Floats:
    """Return the share of the distances that are below each threshold.

    Examples
    --------
    >>> share_below(np.array([3.0, 1.0]), np.array([0.5, 2.0, 4.0]))
    array([0. , 0.5, 1. ])
    """
    return np.searchsorted(np.sort(distances), thresholds) / len(distances)


def draw_guarantee(folder: Path, metric: TATML, test: Part, learnt: float) -> Picture:
    """Draw both error rates of test pairs by threshold, with both thresholds and the promise."""
    distances = metric.pair_distance(test.pairs, test.images)
    thresholds = np.linspace(0, 2 * learnt, 400)
    same, different = (share_below(distances[test.labels == kind], thresholds) for kind in (1, -1))
    found = error_rates(metric, test.pairs, test.labels, X=test.images).false_match
    with drawn_png(folder / "guarantee.png", 3.9) as axes:
        ax: Any = axes[0, 0]
        ax.plot(thresholds, 100 * (1 - same), color=SIMILAR, label="same, judged different")
        ax.plot(thresholds, 100 * different, color=DISSIMILAR, label="different, judged the same")
        ends = 100 * np.array([[found.value - found.low], [found.high - found.value]])
        style = {"fmt": "o", "color": DISSIMILAR, "capsize": 4}
        style["label"] = "on test pairs, 95 % limits"
        ax.errorbar(metric.threshold_, 100 * found.value, ends, **style)
        promised = f"promised: at most {percent(MAX_RATE, 0)}"
        ax.axhline(100 * MAX_RATE, color=DISSIMILAR, ls=":", label=promised)
        ax.axvline(learnt, color=THRESHOLD, ls="--", lw=1, label=f"learnt threshold {learnt:.3f}")
        name = f"calibrated threshold {metric.threshold_:.3f}"
        ax.axvline(metric.threshold_, color=THRESHOLD, lw=1.5, label=name)
        ax.set(xlabel="threshold", ylabel="wrong decisions, %", ylim=(0, 60))
        ax.set(xlim=(0.4 * learnt, 1.6 * learnt), title="Errors by threshold")
        ax.figure.legend(loc="outside lower center", fontsize=7, ncols=2, frameon=False)
    return Picture(
        "guarantee.png",
        f"Both error rates by threshold. At the calibrated threshold {percent(found.value)} of the "
        f"pairs of two digits pass, with limits {percent(found.low)} and {percent(found.high)}.",
        f"Both kinds of errors by threshold. The calibrated threshold keeps false matches below "
        f"{percent(MAX_RATE, 0)}.",
    )


def tell_end(out: Path) -> list[str]:
    """Return the results of the experiments by cell, and what to do next."""
    results = Results(read_records(out))
    lines = ["The experiments in small: accuracy of 3 nearest neighbours in per cent", ""]
    for cell in results.cells:
        means = {name: mean_score(own) for name, own in results.scores[cell].items()}
        best = sorted(means, key=means.__getitem__, reverse=True)
        shown = ", ".join(f"{method_title(name)} {format_number(means[name], 1)}" for name in best)
        lines.append(f"  {cell.title}: {shown}")
    lines += ["", "What to do next", ""]
    lines += [fill(line, 96, initial_indent="- ", subsequent_indent="  ") for line in NEXT]
    return [*lines, "", f"The page with the story, the pictures and all results: {out}/report.html"]


def main(arguments: Sequence[str]) -> None:
    """Tell the story, or with --end the results of the experiments."""
    out = Path(next((word for word in arguments if not word.startswith("-")), "build/demo"))
    if "--end" in arguments:
        print("", *tell_end(out), sep="\n")
        return
    chapters = tell(out / "story")
    write_story(out, chapters)
    for place, chapter in enumerate(chapters, start=1):
        print(f"{place}. {chapter.title}\n")
        print(*(fill(line, 96) for line in chapter.lines), sep="\n\n", end="\n\n")
    print("6. The experiments in small\n")


if __name__ == "__main__":
    main(sys.argv[1:])
