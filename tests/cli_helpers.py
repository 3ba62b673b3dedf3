"""Files for the tests of the command, and the command itself."""

import csv

import numpy as np
from sklearn.datasets import load_wine

from tatml._cli.main import main

WINE = load_wine()
NAMES = [name.replace("/", "_") for name in WINE.feature_names]
ORDER = np.random.RandomState(0).permutation(len(WINE.data))
TRAIN, TEST = ORDER[:89], ORDER[89:]


def write_table(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def write_wine(path, rows, target="cultivar", words=True):
    """Some wines as a table whose last column is the class, in words or as numbers."""
    labels = WINE.target_names[WINE.target[rows]] if words else WINE.target[rows]
    cells = [
        [*values, label] for values, label in zip(WINE.data[rows].tolist(), labels, strict=True)
    ]
    return write_table(path, [*NAMES, target], cells)


def wine_pairs(rows, count=300, seed=1):
    """Index pairs into the rows, and whether they are of one class."""
    rng = np.random.RandomState(seed)
    index = np.array([rng.choice(len(rows), 2, replace=False) for _ in range(count)])
    labels = WINE.target[rows]
    return index, labels[index[:, 0]] == labels[index[:, 1]]


def write_pairs(path, index, similar):
    rows = [[*pair, int(flag)] for pair, flag in zip(index.tolist(), similar, strict=True)]
    return write_table(path, ["first", "second", "similar"], rows)


def run(*arguments):
    """The exit status, whether it is returned or raised."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as left:
        return left.code
