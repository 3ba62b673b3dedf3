"""Progress bars: with tqdm, without it, and what they count."""

import builtins
import sys
import types

import numpy as np
import pytest
from sklearn.datasets import load_iris

from tatml import TATML, TATMLCV
from tatml._progress import SilentBar, progress_bar, with_progress
from tatml.inspection import threshold_interval


@pytest.fixture
def bars(monkeypatch):
    """A stand-in for tqdm, and the bars that it made."""
    made = []

    class Bar(SilentBar):
        def __init__(self, **settings):
            self.settings, self.done, self.closed = settings, 0, False
            made.append(self)

        def update(self, n=1):
            self.done += n

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))
    return made


def test_without_tqdm_there_is_no_output(monkeypatch, capsys):
    found = builtins.__import__

    def without_tqdm(name, *args):
        if name.startswith("tqdm"):
            raise ImportError(name)
        return found(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_tqdm)
    assert isinstance(progress_bar(3, "steps"), SilentBar)
    assert list(with_progress(iter("abc"), 3, "letters")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_only_for_terminals_and_counts_every_item(bars):
    assert list(with_progress(iter("abc"), 3, "letters", "letter")) == ["a", "b", "c"]
    (bar,) = bars
    assert bar.settings["total"] == bar.done == 3
    assert (bar.settings["desc"], bar.settings["unit"]) == ("letters", "letter")
    assert bar.settings["disable"] is None  # tqdm: disabled unless stderr is a terminal
    assert bar.closed


def test_a_bar_is_closed_when_the_work_fails(bars):
    items = with_progress(iter("abc"), 3, "letters")
    next(items)
    items.close()
    assert bars[0].closed
    assert bars[0].done == 0


def test_the_search_counts_its_paths_and_a_bootstrap_its_fits(bars):
    X, y = load_iris(return_X_y=True)
    grid = {"C": [1.0, 10.0], "prior": ["within", "scaled"]}
    TATMLCV(param_grid=grid, cv=3, random_state=0).fit(X, y)
    metric = TATML(random_state=0).fit(X, y)
    threshold_interval(metric, X, y, n_resamples=4, random_state=0)
    assert [bar.done for bar in bars] == [2 * 3, 4]
    assert all(bar.closed for bar in bars)


def test_bars_change_no_numbers(bars):
    X, y = load_iris(return_X_y=True)
    metric = TATML(random_state=0).fit(X, y)
    shown = threshold_interval(metric, X, y, n_resamples=3, random_state=0).distribution
    sys.modules["tqdm"] = None
    silent = threshold_interval(metric, X, y, n_resamples=3, random_state=0).distribution
    np.testing.assert_array_equal(shown, silent)
