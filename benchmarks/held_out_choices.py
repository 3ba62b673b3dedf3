"""What is chosen by held-out pairs, where scatters mislead: wide tables, wild cells, new classes.

    python benchmarks/held_out_choices.py wide
    python benchmarks/held_out_choices.py cells [--forms "plain,wild training cells,…"]
    python benchmarks/held_out_choices.py new-classes [--options "kernel='rbf'"]

Each prints the area under the ROC curve (AUC) of pairs of test samples, half of them of the same
class, the balanced accuracy at the learnt threshold, and processor seconds of a fit, by dataset;
then means, and differences from the first method with their standard error, wins and losses.

wide: tables with more columns than training samples; with and without principal components among
the units of the prior. cells: some cells are made 50 times as large, in the training half or in
both; `clip_outliers` as "auto", True, "replace" and False. new-classes: half of the classes are
learnt from (and again two thirds), the others are judged; also what the threshold loses to the best
possible one. The halves are those of study_data.py; the confirming half is opened as in study.py.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from time import process_time
from unittest import mock

import numpy as np
from common import describe_machine
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import StratifiedShuffleSplit
from study_data import HALVES, _aeon, as_table, load, load_some, open_half
from study_forms import FORMS, Split
from study_scores import halves, held_out_pairs

from tatml import TATML, datasets
from tatml._learning import cross_fit

SHARE, FACTOR = 0.05, 50.0  # of the wild cells
LARGEST_TEST = 1000
FEWEST_CLASSES = 4
# Name: (dataset, number of training samples; None for half of them).
WIDE = {
    "choosing": {
        "tissues": ("tissues", None),
        "motions": ("motions M=2", None),
        "motions, raw": ("raw motions", None),
        "signals": ("signals M=3", None),
        "virus, raw": ("raw virus", 300),
        "vowels, raw": ("raw vowels", 120),
        "vowels, few": ("vowels", 54),
        "digits, few": ("digits", 50),
        "power demand, few": ("power demand", 20),
        "breast cancer, few": ("breast cancer", 24),
    },
    "confirming": {
        "gun point": ("gun point", None),
        "arrow head": ("arrow head", None),
        "osu leaf": ("osu leaf", None),
        "mnist": ("mnist", 300),
        "mnist parity": ("mnist parity", 300),
        "ETH-80, few": ("ETH-80 by object M=2", 40),
    },
}


def read_table(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a dataset as a table with class numbers; None if it is not available."""
    raw = {"raw motions": "BasicMotions", "raw vowels": "JapaneseVowels_eq"}
    if name == "raw virus":
        try:
            data = datasets.load_virus()
        except (FileNotFoundError, ValueError):
            return None
        X, y = data.images.astype(float), data.target
    else:
        loaded = _aeon(raw[name]) if name in raw else load(name)
        if loaded is None:
            return None
        X, y = loaded[0] if name in raw else as_table(loaded[0]), loaded[1]
    return X.reshape(len(X), -1), np.unique(y, return_inverse=True)[1]


Scored = tuple[float, float, float, float]  # AUC, at the threshold, lost, seconds


def scored(model: TATML, X, y, X_new, y_new, seed: int = 0) -> Scored:
    """Return the scores of a model on new samples."""
    start = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = process_time() - start
    pairs, same = held_out_pairs(y_new, seed)
    found = -model.pair_score(pairs, X_new)
    wrong, right, _ = roc_curve(same, -found)
    at = (np.mean(found[same] < model.threshold_) + np.mean(found[~same] >= model.threshold_)) / 2
    return roc_auc_score(same, -found), at, np.max(1 - wrong + right) / 2 - at, seconds


def compare(
    methods: list[str], splits: Callable[[], Iterator], fit: Callable[..., Scored]
) -> list[Scored]:
    """Return the means of the scores of each method over the splits of a dataset."""
    rows = [[fit(method, *split) for method in methods] for split in splits()]
    return [tuple(np.mean([row[k] for row in rows], axis=0)) for k in range(len(methods))]


def report(title: str, methods: list[str], table: dict[str, list[Scored]]) -> None:
    """Print the scores by dataset, and the differences from the first method."""
    print(f"\n{title}: AUC / at the threshold / lost to the best one / seconds")
    for name, row in table.items():
        cells = (f"{a:.3f} / {b:.3f} / {c:.3f} / {t:.2f}" for a, b, c, t in row)
        print(f"{name:22}", *(f"{cell:>30}" for cell in cells), flush=True)
    values = np.array(list(table.values()))
    for k, method in enumerate(methods):
        more = values[:, k] - values[:, 0]
        error = more.std(axis=0, ddof=1) / np.sqrt(len(more)) if len(more) > 1 else np.zeros(4)
        wins = f"{np.sum(more[:, 0] > 1e-9)}:{np.sum(more[:, 0] < -1e-9)}"
        print(
            f"{method:28}",
            " / ".join(f"{mean:.4f}" for mean in values[:, k].mean(axis=0)),
            f"AUC {more[:, 0].mean():+.4f} ± {error[0]:.4f} ({wins}), at the threshold "
            f"{more[:, 1].mean():+.4f} ± {error[1]:.4f}",
        )


# The three questions


def study_wide(half: str, repeats: int) -> None:
    methods = ["without components", "TATML()", "kernel without", "kernel", "midpoint without"]
    methods += ["midpoint"]

    def fit(method: str, *split: np.ndarray) -> Scored:
        kernel = "rbf" if "kernel" in method else None
        model = TATML(kernel=kernel, midpoint="midpoint" in method, random_state=0)
        if "without" not in method:
            return scored(model, *split)
        with mock.patch.object(cross_fit, "is_wide", return_value=False):
            return scored(model, *split)

    table = {}
    for name, (dataset, n_train) in WIDE[half].items():
        read = read_table(dataset)
        if read is None:
            continue

        def splits(X: np.ndarray = read[0], y: np.ndarray = read[1], n_train=n_train) -> Iterator:
            n_test = 0.5 if n_train is None else min(LARGEST_TEST, len(y) - n_train)
            parts = StratifiedShuffleSplit(
                repeats, train_size=n_train or 0.5, test_size=n_test, random_state=0
            )
            for train, test in parts.split(X, y):
                yield X[train], y[train], X[test], y[test]

        table[name] = compare(methods, splits, fit)
    report("More columns than samples", methods, table)
    for k in (2, 4):
        pairs = {name: row[k : k + 2] for name, row in table.items()}
        report(methods[k + 1], methods[k : k + 2], pairs)


def wild(split: Split, rng: np.random.Generator, both: bool) -> Split:
    """Make some cells of the training half, or of both, 50 times as large."""

    def changed(X: np.ndarray) -> np.ndarray:
        return np.where(rng.random(X.shape) < SHARE, FACTOR * X, X)

    X_train = changed(split.X_train)
    X_test = changed(split.X_test) if both else split.X_test
    return Split(X_train, X_test, split.y_train, split.y_test)


CELLS = {
    "plain": FORMS["plain"],
    "wild training cells": lambda split, rng: wild(split, rng, both=False),
    "wild cells in both": lambda split, rng: wild(split, rng, both=True),
    "wild cells": FORMS["wild cells"],
    "bad row": FORMS["bad row"],
}


def study_cells(half: str, repeats: int, forms: list[str]) -> None:
    methods = ["True", "'auto'", "'replace'", "False"]

    def fit(method: str, *split: np.ndarray) -> Scored:
        return scored(TATML(clip_outliers=eval(method), random_state=0), *split)

    for form in forms:
        table = {}
        for name in HALVES[half]:
            loaded = load_some(name)
            if loaded is None:
                continue

            def splits(loaded=loaded, form=form) -> Iterator:
                X, y, groups = as_table(loaded[0]), *loaded[1:]
                for seed, (train, test) in enumerate(halves(X, y, groups, repeats)):
                    rng = np.random.default_rng(seed)
                    part = CELLS[form](Split(X[train], X[test], y[train], y[test]), rng)
                    yield part.X_train, part.y_train, part.X_test, part.y_test

            table[name] = compare(methods, splits, fit)
        report(f"clip_outliers, {form}", methods, table)


def study_new_classes(half: str, repeats: int, options: str) -> None:
    methods = [f"TATML({options})", f"TATML({options}, new_classes=True)"]
    methods += [f"TATML({options}, midpoint=True, new_classes=True)"]

    def fit(method: str, *split: np.ndarray) -> Scored:
        return scored(eval(method, {"TATML": TATML}).set_params(random_state=0), *split)

    table = {}
    for name in HALVES[half]:
        loaded = load_some(name)
        if loaded is None:
            continue
        X, y = as_table(loaded[0]), loaded[1]
        n_classes = int(y.max()) + 1
        for n_known in sorted({n_classes // 2, 2 * n_classes // 3}):
            if n_known < FEWEST_CLASSES or n_classes - n_known < 2:
                continue

            def splits(X=X, y=y, n_known=n_known, n_classes=n_classes) -> Iterator:
                for seed in range(repeats):
                    order = np.random.default_rng(seed).permutation(n_classes)
                    known = np.isin(y, order[:n_known])
                    yield X[known], y[known], X[~known], y[~known]

            table[f"{name}, {n_known}:{n_classes - n_known}"] = compare(methods, splits, fit)
    report("Classes never seen", methods, table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", choices=["wide", "cells", "new-classes"])
    parser.add_argument("--half", choices=list(HALVES), default="choosing")
    parser.add_argument("--issue", type=int, help="issue that opens the confirming half")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--forms", default=",".join(CELLS))
    parser.add_argument("--options", default="kernel='rbf'")
    given = parser.parse_args()
    print(describe_machine())
    open_half(given.half, given.issue, parser, [f"held_out_choices {given.question}"])
    if given.question == "wide":
        study_wide(given.half, given.repeats)
    elif given.question == "cells":
        study_cells(given.half, given.repeats, given.forms.split(","))
    else:
        study_new_classes(given.half, given.repeats, given.options)


if __name__ == "__main__":
    main()
