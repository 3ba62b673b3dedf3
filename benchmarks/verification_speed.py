"""Processor time of calibrations and reports with many pairs, in ms and in sorts of the distances.

Pairs of 5,000 samples, five of each identity, of which about a fifth is similar. The groups are
numbers or words. Compare with another commit:

    python benchmarks/verification_speed.py [--pairs 1500000]
    python benchmarks/against_commit.py --rounds 3 --figures REV benchmarks/verification_speed.py
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from time import process_time

import numpy as np
from common import describe_machine

from tatml import PairThreshold, TATMLPairs
from tatml.verification import error_rates, report

N_SAMPLES, N_EACH = 5000, 5
RATES = (0.1, 0.01, 0.001)


def draw(n_pairs):
    """Return samples, their identities, index pairs and labels."""
    rng = np.random.default_rng(0)
    identity = np.arange(N_SAMPLES) // N_EACH
    X = rng.normal(size=(N_SAMPLES // N_EACH, 8))[identity]
    X += 0.6 * rng.normal(size=X.shape)
    index = rng.integers(N_SAMPLES, size=(n_pairs, 2))
    same = rng.random(n_pairs) < 0.2
    index[same, 1] = identity[index[same, 0]] * N_EACH + rng.integers(N_EACH, size=same.sum())
    index = index[index[:, 0] != index[:, 1]]
    return X, identity, index, np.where(identity[index[:, 0]] == identity[index[:, 1]], 1, -1)


def show(name, one_sort, function):
    start = process_time()
    try:
        function()
    except ValueError as error:
        if "max_rate: expected at least" not in str(error):  # a refusal takes its time, too
            raise
    spent = process_time() - start
    print(f"{name}: {1e3 * spent:.1f} ms", flush=True)
    print(f"    {spent / one_sort:.0f} sorts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_500_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, identity, index, y = draw(options.pairs)
    distances = np.linalg.norm(X[index[:, 0]] - X[index[:, 1]], axis=1)
    start = process_time()
    for _ in range(10):
        np.sort(distances)
    one_sort = (process_time() - start) / 10
    print(describe_machine())
    print(f"{len(y)} pairs, one sort of the distances takes {1e3 * one_sort:.1f} ms")
    judge = PairThreshold("precomputed").fit(distances[::100], y[::100])
    learnt = TATMLPairs(preprocessor=X).fit(index[::1000], y[::1000])
    numbers = identity[index]
    words = np.char.add("identity", numbers.astype(str))
    for kind in ("false_match_rate", "false_non_match_rate"):
        for rate in RATES:
            for guarantee in ("approximate", "proved"):
                target = {"strategy": kind, "max_rate": rate, "guarantee": guarantee}
                run = partial(judge.calibrate_threshold, distances, y, groups=numbers, **target)
                show(f"{guarantee}, {kind} {rate:g}", one_sort, run)
    target = {"strategy": "false_match_rate", "max_rate": 0.1}
    run = partial(judge.calibrate_threshold, distances, y, groups=words, **target)
    show("groups that are words", one_sort, run)
    run = partial(learnt.calibrate_threshold, index, y, groups=identity, **target)
    show("index pairs of a learnt metric", one_sort, run)
    run = partial(learnt.calibrate_threshold, X[index], y, **target)
    show("pairs as arrays", one_sort, run)
    show("error_rates", one_sort, partial(error_rates, judge, distances, y, groups=numbers))
    show("report", one_sort, partial(report, judge, distances, y, groups=numbers))


if __name__ == "__main__":
    main()
