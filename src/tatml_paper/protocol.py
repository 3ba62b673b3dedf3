"""One run: split in two halves, choose and fit in one of them, score on the other.

`choose_and_fit` receives the training half only, so that no choice can depend on the test half.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from hashlib import sha256
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier

from .fitting import chosen_parameters, embed_samples, fit_in_training_half, learner_of
from .methods import Method
from .pairs import Pairs, best_threshold, draw_pairs, equal_error_rate, row_distances
from .samples import DatasetSamples
from .settings import PROTOCOL


def seed_of(*parts: str | int) -> int:
    """Return a seed that depends on the declared seed and on the parts only.

    Examples
    --------
    >>> seed_of("virus", "halves", 0) == seed_of("virus", "halves", 0)
    True
    >>> seed_of("virus", "halves", 0) == seed_of("virus", "halves", 1)
    False
    """
    text = "/".join(map(str, (PROTOCOL.seed, *parts)))
    return int.from_bytes(sha256(text.encode()).digest()[:4]) >> 1


def split_in_halves(
    y: NDArray[np.intp], groups: NDArray[np.intp] | None, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return training and test rows: half of the samples, or of the groups, of each class.

    The rows are in random order, so that folds cut from the training half are random too.
    """
    if groups is None:
        splitter = StratifiedShuffleSplit(1, test_size=0.5, random_state=seed)
        return next(splitter.split(np.zeros(len(y)), y))
    rng = np.random.default_rng(seed)
    chosen: list[int] = []
    for label in np.unique(y):
        objects = rng.permutation(np.unique(groups[y == label]))
        chosen.extend(objects[: len(objects) // 2])
    order = rng.permutation(len(y))
    in_training = np.isin(groups, chosen)[order]
    return order[in_training], order[~in_training]


def held_out_pairs(y: NDArray[np.intp], groups: NDArray[np.intp] | None, seed: int) -> Pairs:
    """Draw pairs class by class, of which none joins two views of one object.

    Small classes have fewer similar pairs than are wanted; the weights compensate for it.
    """
    n_per_class = PROTOCOL.verification_pairs // len(np.unique(y))
    return draw_pairs(y, groups, n_pairs_per_class=n_per_class, seed=seed)


def choose_and_fit(method: Method, training: DatasetSamples, seed: int) -> Any:
    """Fit a method to the training half, with parameters that are chosen there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `converged` is in the record,
        warnings.filterwarnings("ignore", message="threshold_: ")  # and so are the error rates
        return fit_in_training_half(
            method.build(seed), training.X, training.y, training.groups, PROTOCOL.folds
        )


def score_test_half(
    method: Method, fitted: Any, training: DatasetSamples, test: DatasetSamples, seed: int
) -> dict[str, float | None]:
    """Return the accuracy in per cent on the test half, and the verification of its pairs."""
    if method.classifier:
        return {"accuracy": 100 * float(np.mean(fitted.predict(test.X) == test.y))}
    known, wanted = embed_samples(fitted, training.X), embed_samples(fitted, test.X)
    knn = KNeighborsClassifier(PROTOCOL.neighbours).fit(known, training.y)
    scores = {"accuracy": 100 * knn.score(wanted, test.y)}
    calibration = held_out_pairs(training.y, training.groups, seed)
    calibrated = best_threshold(row_distances(known, calibration.index), calibration)
    learnt = learner_of(fitted).threshold_ if method.own_threshold else None
    pairs = held_out_pairs(test.y, test.groups, seed + 1)
    distances = row_distances(wanted, pairs.index)

    def judged(threshold: float) -> float:
        return 100 * float(balanced_accuracy_score(pairs.similar, distances < threshold))

    return scores | {
        "auc": float(roc_auc_score(pairs.similar, -distances)),
        "eer": 100 * equal_error_rate(distances, pairs.similar),
        "balanced_learnt": None if learnt is None else judged(learnt),
        "balanced_calibrated": judged(calibrated),
        "threshold_calibrated": calibrated,
    }


def run_once(
    method: Method,
    samples: DatasetSamples,
    seeds: dict[str, int],
    clock: Callable[[], float] = perf_counter,
) -> dict[str, Any]:
    """Split, choose and fit, score; return the fields of the record of one run.

    Parameters
    ----------
    method : Method
        The method to fit.
    samples : DatasetSamples
        All samples of a data set as one feature type.
    seeds : dict of int
        "split", "fit" and "score".
    clock : callable
        A function that returns the time in seconds.
    """
    train, test = split_in_halves(samples.y, samples.groups, seeds["split"])
    training = samples.take(train)
    start = clock()
    fitted = choose_and_fit(method, training, seeds["fit"])
    seconds = clock() - start
    scores = score_test_half(method, fitted, training, samples.take(test), seeds["score"])
    return {
        **dict.fromkeys(("auc", "eer", "balanced_learnt", "balanced_calibrated")),
        **scores,
        **describe_fit(fitted, training),
        "seconds": seconds,
        "seconds_scoring": clock() - start - seconds,
        "n_train": len(train),
        "n_test": len(test),
    }


def describe_fit(fitted: Any, training: DatasetSamples) -> dict[str, Any]:
    """Return the chosen parameters, the threshold and the certificate; None if there is none."""
    learner = learner_of(fitted)
    result, pairs = getattr(learner, "result_", None), getattr(learner, "pairs_", None)
    described = {
        "params": chosen_parameters(fitted),
        "b0": _float_or_none(getattr(learner, "b0_", None)),
        "threshold": _float_or_none(getattr(learner, "threshold_", None)),
        "gap": _float_or_none(getattr(result, "gap", None)),
        "converged": None if result is None else bool(result.converged),
        "n_pairs": None if pairs is None else len(pairs),
    }
    if pairs is not None:
        distances = row_distances(embed_samples(fitted, training.X), pairs)
        described["median_squared"] = float(np.median(distances**2))
    return described


def _float_or_none(value: Any) -> float | None:
    return None if value is None else float(value)
