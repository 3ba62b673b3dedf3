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

from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from tatml import TATML, Euclidean
from tatml.verification import error_rates

from . import demo_pictures
from .cells import method_title
from .demo_pictures import percent
from .format import format_number
from .pairs import Floats, Integers, draw_pairs
from .report.page import NEXT
from .report.results import Results
from .report.story import Chapter, write_story
from .standings import mean_score
from .store import read_records

MAX_RATE, CONFIDENCE = 0.05, 0.95


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
    return Chapter("The data", lines, [demo_pictures.draw_pairs(folder, parts[2])])


def tell_plain(plain: Euclidean, scores: Scores, test: Part, folder: Path) -> Chapter:
    """Tell how far the plain distance of the pixels gets."""
    lines = [
        "The plain distance sums the squared differences of the pixels. Every pixel counts the "
        "same, whether it tells digits apart or not. Its threshold is learnt from pairs of "
        "training images.",
        scores.line,
    ]
    pictures = [
        demo_pictures.draw_distances(folder, plain, test, "plain distance"),
        demo_pictures.draw_map(folder, plain, test, "plain distance"),
    ]
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
    pictures = [
        demo_pictures.draw_distances(folder, metric, test, "learnt distance"),
        demo_pictures.draw_map(folder, metric, test, "learnt distance"),
    ]
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
    return Chapter("The certificate", lines, [demo_pictures.draw_certificate(folder, result)])


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
    picture = demo_pictures.draw_guarantee(folder, metric, test, learnt, MAX_RATE)
    return Chapter("Verification with a guarantee", lines, [picture])


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
