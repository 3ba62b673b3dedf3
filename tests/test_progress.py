"""Progress bars: with tqdm, without it, and what they count."""

import builtins
import logging
import sys
import types

import numpy as np
import pytest
from helpers import SHAPES, random_case
from sklearn.datasets import load_iris

from tatml import TATML, TATMLCV, Dykstra, Newton
from tatml._optim.monitor import Monitor
from tatml._optim.newton import Pace, solve_newton
from tatml._progress import progress_bar, with_progress
from tatml.inspection import threshold_interval


@pytest.fixture
def bars(monkeypatch):
    """A stand-in for tqdm, and the bars that it made."""
    made = []

    class Bar:
        def __init__(self, **settings):
            self.settings, self.done, self.closed = settings, 0, False
            made.append(self)

        def update(self, n=1):
            self.done += n

        def set_postfix_str(self, text):
            self.text = text

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
    assert progress_bar(3, "steps") is None
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


# The time of a long fit


def solve_long(verbose=False, long=0.0, tol=1e-8):
    """Solve a problem of several steps, with the seconds from which a fit counts as long."""
    problem = random_case(SHAPES["square"], n_pairs=40, C=5.0).problem()
    options = {"verbose": verbose, "usual_steps": Newton._USUAL_STEPS, "long": long}
    monitor = Monitor(problem, tol=tol, max_iter=50, **options)
    return solve_newton(problem, monitor, Pace()), monitor


def test_a_long_fit_says_once_how_long_it_will_take(caplog, capsys):
    with caplog.at_level(logging.WARNING, logger="tatml"):
        result, _ = solve_long()
    assert result.n_iter > 2
    (record,) = caplog.records
    assert record.name == "tatml"
    assert "The first step took" in record.message
    assert "about 4 steps" in record.message
    assert "\n" not in record.message
    assert capsys.readouterr().out == ""


def test_a_verbose_fit_prints_its_time_after_the_first_step(caplog, capsys):
    solve_long(verbose=True)
    out = capsys.readouterr().out.splitlines()
    (place,) = (n for n, line in enumerate(out) if line.startswith("The first step took"))
    assert out[place - 1].split()[0] == "1"
    assert not caplog.records


@pytest.mark.parametrize("options", [{"long": 60.0}, {"tol": 10.0}], ids=["short", "one step"])
def test_other_fits_say_nothing(options, caplog, capsys):
    """What ends at the first step, too, leaves nothing to be told."""
    solve_long(**options)
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_epochs_of_dykstra_say_nothing_about_the_rest():
    assert Dykstra._USUAL_STEPS is None
    problem = random_case(SHAPES["square"]).problem()
    assert Monitor(problem, tol=1e-6, max_iter=9).usual_steps is None


def test_a_long_fit_shows_its_steps(bars):
    result, monitor = solve_long()
    (bar,) = bars
    assert bar.settings["total"] == 4
    assert bar.settings["disable"] is None  # tqdm: silent unless stderr is a terminal
    assert bar.done == result.n_iter
    assert monitor.bar is bar
