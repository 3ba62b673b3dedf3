"""The page for users of metric-learn: its code is the code that the benchmark runs."""

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

import tatml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from from_metric_learn import CODE, given_for  # noqa: E402


def test_the_page_shows_the_code_of_the_benchmark():
    page = (ROOT / "docs" / "metric_learn.md").read_text(encoding="utf-8")
    missing = [
        code
        for theirs, ours in CODE.values()
        if f"| `{theirs}` | `{ours}` |" not in page
        for code in [ours]
    ]
    assert missing == []


def test_fit_takes_the_arguments_that_the_page_names():
    page = (ROOT / "docs" / "metric_learn.md").read_text(encoding="utf-8")
    assert "`fit` of triplets and quadruplets, which have no labels, also `y=None`" in page
    for name in ("TATMLPairs", "PairThreshold", "TATMLTriplets", "TATMLQuadruplets"):
        parameters = inspect.signature(getattr(tatml, name).fit).parameters
        assert parameters["sample_weight"].default is None
        labels = inspect.Parameter.empty if "Pair" in name else None
        assert parameters["y"].default is labels


@pytest.mark.parametrize("name", CODE)
def test_our_code_runs(name):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4))
    X[:, 0] += 4 * y
    model = eval(CODE[name][1], {"tatml": tatml} | given_for(X, y, 0))
    assert model.transform(X).shape == (60, 4)
    pairs = np.array([(i, j) for i in range(60) for j in range(i)])
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    distances = model.pair_distance(pairs, X)
    assert distances[same].mean() < distances[~same].mean()
