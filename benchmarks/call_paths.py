"""Count the functions and files that some calls go through.

Counts the distinct functions and files of tatml that a call on wine enters, and the largest depth
of the call stack. The calls are a fit to labels, a fit to pairs with a calibrated threshold,
`learn_metric`, and `learn_metric` on a dask cluster (the part of the client). Lambdas and
comprehensions are counted separately, because the version of Python determines whether a
comprehension is a function. Each call is the first one of a new process, so that cached functions
count as well.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

import numpy as np
from common import describe_machine, draw_pairs
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

import tatml

ROOT = Path(tatml.__file__).parent
Place = tuple[str, str]  # a file, and the function in it


class Recorder:
    """The functions of tatml that a call enters, recorded with `sys.setprofile`."""

    def __init__(self) -> None:
        self.entered: Counter[Place] = Counter()
        self.deepest: list[Place] = []
        self._stack: list[Place] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(f"{ROOT}/"):
            return
        if event == "return":
            self._stack.pop()
            return
        place = str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname
        self.entered[place] += 1
        self._stack.append(place)
        if len(self._stack) > len(self.deepest):
            self.deepest = list(self._stack)


def fit() -> None:
    tatml.TATML(random_state=0).fit(*load_wine(return_X_y=True))


def learn() -> None:
    X, y = load_wine(return_X_y=True)
    tatml.learn_metric(X, *draw_pairs(y, 500))


def fit_pairs() -> None:
    X, y = load_wine(return_X_y=True)
    index, similar = draw_pairs(y, 1000)
    signs = np.where(similar, 1, -1)
    model = tatml.TATMLPairs(preprocessor=X, random_state=0).fit(index[:500], signs[:500])
    model.calibrate_threshold(index[500:], signs[500:])


def learn_on_cluster() -> None:
    from distributed import Client, LocalCluster

    X, y = load_wine(return_X_y=True)
    pairs = draw_pairs(y, 500)
    options = {"n_workers": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        tatml.learn_metric(X, *pairs, compute=tatml.Compute(client=client))


CALLS: dict[str, Callable[[], None]] = {
    "TATML().fit(X, y)": fit,
    "TATMLPairs, calibrated": fit_pairs,
    "learn_metric": learn,
    "learn_metric on dask": learn_on_cluster,
}


def follow(name: str) -> Recorder:
    """Make one call, and record the functions that it enters."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    recorder = Recorder()
    sys.setprofile(recorder)
    try:
        CALLS[name]()
    finally:
        sys.setprofile(None)
    return recorder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="also print the functions per file")
    options = parser.parse_args()
    print(describe_machine())
    print(f"{'call on wine':<24}{'functions':>10}{'lambdas etc.':>14}{'files':>7}{'depth':>7}")
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        paths = dict(zip(CALLS, pool.map(follow, CALLS), strict=True))
    for name, path in paths.items():
        unnamed = sum(function.endswith(">") for _, function in path.entered)
        n_files = len({file for file, _ in path.entered})
        n_named = len(path.entered) - unnamed
        print(f"{name:<24}{n_named:>10}{unnamed:>14}{n_files:>7}{len(path.deepest):>7}")
    for name, path in paths.items():
        print(f"\n{name}: the deepest place")
        for file, function in path.deepest:
            print(f"  {file:<28}{function}")
        if options.list:
            print(f"\n{name}: calls by function")
            for (file, function), count in sorted(path.entered.items()):
                print(f"  {file:<28}{function:<48}{count:>8}")


if __name__ == "__main__":
    main()
