"""Milliseconds of processor time of a fit of each estimator, on wine and on digits.

Prints the fastest of all fits.

    python benchmarks/estimator_fits.py
    python benchmarks/against_commit.py --figures REV benchmarks/estimator_fits.py
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np
from common import describe_machine, draw_pairs
from sklearn.datasets import load_digits, load_wine

from tatml import GMML, ITML, TATML, TATMLNeighbors, TATMLPairs

LABELS = {
    "TATML": TATML(random_state=0),
    "TATML kernel": TATML(kernel="rbf", random_state=0),
    "TATMLNeighbors": TATMLNeighbors(random_state=0),
    "ITML": ITML(random_state=0, tol=1e-3),
    "GMML": GMML(random_state=0),
}


def fastest(model, given: tuple, n_fits: int) -> float:
    seconds = []
    for _ in range(n_fits):
        start = process_time()
        model.fit(*given)
        seconds.append(process_time() - start)
    return 1e3 * min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=3, help="number of fits of each estimator")
    parser.add_argument("--only", default="", help="estimators whose name starts so")
    options = parser.parse_args()
    print(describe_machine())
    for name, (X, y) in {
        "wine": load_wine(return_X_y=True),
        "digits": tuple(part[:600] for part in load_digits(return_X_y=True)),
    }.items():
        pairs, similar = draw_pairs(y, 2_000)
        fits = {word: (model, (X, y)) for word, model in LABELS.items()}
        signs = np.where(similar, 1, -1)
        fits["TATMLPairs"] = (TATMLPairs(preprocessor=X), (pairs, signs))
        for word, (model, given) in fits.items():
            if word.startswith(options.only):
                print(f"{word}, {name}: {fastest(model, given, options.fits):.3f} ms")


if __name__ == "__main__":
    main()
