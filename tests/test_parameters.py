"""The table of parameters: complete, in agreement with the constructors, and strict."""

import copy
import inspect
import re
import sys
import warnings
from collections import Counter
from math import inf, nan, nextafter

import numpy as np
import pytest
from good_calls import ESTIMATORS
from refused_parameters import TABLE
from refused_tuples import TABLE as OF_TUPLES
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from tatml import (
    ITML,
    TATML,
    TATMLCV,
    Dykstra,
    Maz,
    Newton,
    PairThreshold,
    TATMLNeighbors,
    TATMLPairs,
)
from tatml import _validation as validation
from tatml._estimators import parameters
from tatml._estimators.parameters import (
    CHECKS,
    DIFFERENT,
    OF_TATML,
    checked,
    checks_of,
)
from tatml.features import KernelMap

# Parameters of which some values are refused only when the samples, pairs or labels are known.
NEED_DATA = {
    "class_weight",
    "classifier",
    "cv",
    "k",
    "kernel",
    "n_components",
    "preprocessor",
    "prior",
    "solver",
}
# The last two may overflow together with the data.
NEED_DATA |= {
    "estimator",
    "param_grid",
    "regularization",
    "threshold_strength",
}  # sizes that overflow


# The largest and smallest values of parameters that are accepted, and the next ones.
LIMITS = {
    "threshold": ([1e-100, 1e100, 1], [nextafter(1e-100, 0), nextafter(1e100, inf), 0.0]),
    "threshold_prior": ([None, 1e-100, 1e100], [nextafter(1e100, inf), 0.0]),
    "thresholds": ([[1.0], [1, 2]], [[], [0.0], "12", iter([1.0]), [1.0, None], [1e101]]),
    "bounds": ([None, (1.0, 1.0), (0.5, 2)], [(2.0, 1.0), (0.0, 1.0), (1.0,), (1, 2, 3), "12", 1]),
    "percentiles": ([(0, 100), (5, 5.1)], [(5, 5), (-1, 5), (5, 100.1), (nan, 5), (1, 2, 3)]),
    "n_pairs_per_class": ([None, 2], [1, 2.0]),
    "k": ([1, 10**6], [0, 1.5, True, None]),
    "n_components": ([None, 1, [1, 2]], [0, 2.0, [1.5], [0], "2", iter([1])]),
    "prior": (["auto", [[1.0]]], ["wishful", "best", None, 3, iter([1])]),
    "kernel": ([None], ["sigmoid", "", 3, ["rbf"], KernelMap(gamma=0.0)]),
    "solver": ([Newton(max_iter=3), Dykstra()], ["sgd", None, Newton]),
    "regularization": ([1e-300, 1e300], [0, inf, None]),
    "threshold_strength": ([1e-300, 1e300], [0, inf, None]),
    "class_weight": ([None, "balanced", {-1: 0, 1: 2.0}], [{0: 1}, {1: -1}, {1: inf}, "equal", []]),
    "cv": ([None, 2, [1], StratifiedKFold(2), "unused"], [1, 0, 10**400]),
}


def refused_rows():
    """Yield the bad values of constructor parameters in the tables of refusals."""
    for section in (*TABLE.values(), *OF_TUPLES.values()):
        for refusal in section:
            for target in refusal.targets:
                name, _, method = target.partition(".")
                if method == "fit" and refusal.given.keys() <= set(names_of(ESTIMATORS[name])):
                    yield target, refusal


def names_of(kind):
    return [name for name in inspect.signature(kind).parameters if name != "self"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_has_a_check_and_every_default_passes_it(name):
    kind = ESTIMATORS[name]
    assert list(checks_of(kind)) == names_of(kind)
    assert set(names_of(kind)) <= CHECKS.keys() | DIFFERENT.get(name, {}).keys()
    assert list(vars(checked(kind()))) == names_of(kind)


def test_no_check_is_without_a_parameter():
    used = {name for kind in ESTIMATORS.values() for name in names_of(kind)}
    assert CHECKS.keys() == used
    for name, table in DIFFERENT.items():
        kinds = [k for k in ESTIMATORS.values() if name in {base.__name__ for base in k.__mro__}]
        assert kinds, name
        assert all(table.keys() <= set(names_of(kind)) for kind in kinds)
    assert list(OF_TATML) == names_of(TATML)


def test_bad_values_are_refused_with_the_message_of_fit():
    complaints, n_refused, accepted = [], 0, set()
    for target, refusal in refused_rows():
        estimator = ESTIMATORS[target.partition(".")[0]](**refusal.given)
        try:
            checked(estimator)
        except (TypeError, ValueError) as error:
            n_refused += 1
            if not (isinstance(error, refusal.error) and re.match(refusal.words, str(error))):
                complaints.append(f"{target}: expected {refusal.words}, got {error}")
        else:
            accepted |= refusal.given.keys() & NEED_DATA or {f"{target}: {refusal.words}"}
    assert complaints == []
    assert accepted <= NEED_DATA
    assert n_refused > 900


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_a_parameter(name):
    accepted, refused = LIMITS[name]
    for value in accepted:
        assert CHECKS[name](name, value) == value
    for value in refused:
        with pytest.raises((TypeError, ValueError), match=f"^{name}: (\\w+: )?expected "):
            CHECKS[name](name, value)


def test_values_come_back_as_the_code_takes_them():
    found = checked(TATML(C=1, margin=[1, 2], solver="dykstra", kernel="rbf", n_components=[2, 3]))
    assert (found.C, type(found.C), found.margin) == (1.0, float, (1.0, 2.0))
    assert isinstance(found.solver, Dykstra)
    assert isinstance(found.kernel, KernelMap)
    assert (found.n_components, found.c0, found.threshold) == ([2, 3], None, "auto")
    assert checked(TATML(threshold=2, c0=np.inf, verbose=1)).threshold == 2.0
    assert checked(Maz(threshold="search")).threshold == "search"
    assert checked(TATMLPairs(class_weight={1: 2})).class_weight == {1: 2.0}
    assert checked(PairThreshold(metric=max)).metric is max


@pytest.mark.parametrize("kind", ESTIMATORS.values())
def test_the_estimator_does_not_change(kind):
    given = {"random_state": np.random.default_rng(0), "solver": Newton(max_iter=3)}
    estimator = kind(**{name: given[name] for name in given if name in names_of(kind)})
    before, state = dict(vars(estimator)), copy.deepcopy(given["random_state"])
    settings = checked(estimator)
    assert vars(estimator).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(estimator).items())
    if "random_state" in before:
        assert settings.random_state is given["random_state"]  # undrawn
        assert state.random() == copy.deepcopy(settings.random_state).random()


def test_subclasses_are_checked_like_their_base():
    class Mine(Maz):
        def __init__(self, C=1.0, *, threshold=1.0, mine=None):
            super().__init__(C, threshold=threshold)
            self.mine = mine

    assert checked(Mine(threshold="search", mine="any")).mine == "any"
    with pytest.raises(TypeError, match="threshold: expected a number or 'search', got 'auto'"):
        checked(Mine(threshold="auto"))


def test_a_search_checks_its_estimator_and_its_grid():
    found = checked(TATMLCV(TATML(C=1), {"C": [1, 10], "kernel": [None, "rbf"]}))
    assert found.estimator.C == 1.0
    assert found.param_grid[0]["C"] == [1.0, 10.0]
    assert isinstance(found.param_grid[0]["kernel"][1], KernelMap)
    assert (checked(TATMLCV()).estimator, checked(TATMLCV()).param_grid) == (None, None)
    strengths = {"threshold_strength": [1.0, 2.0]}
    assert len(checked(TATMLCV(None, [strengths, {"pairs": ["all"]}])).param_grid) == 2
    assert checked(TATMLCV(TATML(c0=1.0), strengths | {"c0": [None]})).estimator.c0 == 1.0
    for estimator, grid, words in (
        (Maz(), None, "estimator: expected None or a TATML, got Maz"),
        (TATML, None, "estimator: expected None or a TATML, got <class"),
        (TATML(C=0), None, "estimator: C: expected a positive number, got 0"),
        (None, 3, "param_grid: expected None, a dict of lists .*got 3"),
        (None, [], "param_grid: expected None, a dict of lists .*got "),
        (None, [1], "param_grid: expected None, a dict of lists .*got "),
        (None, {"Cs": [1]}, "param_grid: expected names of parameters .*did you mean 'C'"),
        (None, {1: [1]}, "param_grid: expected names of parameters of TATML .*got 1$"),
        (None, {"C": 1.0}, "param_grid: C: expected a list of values, got 1.0"),
        (None, {"prior": "auto"}, "param_grid: prior: expected a list of values, got 'auto'"),
        (None, {"C": []}, "param_grid: C: expected at least one value, got none"),
        (None, {"C": [1, 0]}, "param_grid: C: expected a positive number, got 0"),
        (TATML(c0=1.0), strengths, "param_grid: expected no threshold_strength with a given c0"),
        (None, {"kernel": ["rbf", "precomputed"]}, "param_grid: expected kernel='precomputed' in"),
        (None, strengths | {"threshold": [1.0]}, "param_grid: expected no threshold_strength"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{words}"):
            checked(TATMLCV(estimator, grid))


# Each parameter is checked once


class CheckCounter:
    """Counts the checks of each value by its name, with `sys.setprofile`.

    A check that another check of the same name calls is part of that check.
    """

    FILES = (validation.__file__, parameters.__file__)

    def __init__(self):
        self.counts, self._open = Counter(), []

    def __call__(self, frame, event, _):
        code = frame.f_code
        is_check = code.co_name.lstrip("_").startswith("check_") and code.co_filename in self.FILES
        if not is_check or event not in ("call", "return"):
            return
        if event == "return":
            self._open.pop()
            return
        given = [frame.f_locals[name] for name in code.co_varnames[: code.co_argcount]]
        if code.co_varnames[0] != "name":  # that of the parameter is in the name of the check
            given.insert(0, code.co_name.removeprefix("check_"))
        name, value = given[:2]
        if name not in self._open:
            self.counts[name, repr(value)] += 1
        self._open.append(name)


def count_checks(call):
    counter = CheckCounter()
    sys.setprofile(counter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counter.counts


@pytest.mark.parametrize(
    "model",
    [
        TATML(random_state=0),
        TATML(kernel="rbf", n_components=[3, 3], random_state=0),
        TATML(pairs="neighbors", solver="dykstra", tol=1.0, random_state=0),
        TATMLCV(TATML(n_components=3, random_state=1), cv=2, random_state=0),
        TATMLNeighbors(n_components=3, random_state=0),
        Maz(threshold="search", cv=2, thresholds=[0.5, 1.0], random_state=0),
        ITML(random_state=0),
    ],
    ids=repr,
)
def test_a_fit_checks_each_parameter_once(model):
    X, y = load_wine(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        counts = count_checks(lambda: model.fit(X[::2], y[::2]))
    assert counts["max_iter", "200"] + counts["max_iter", "1000"] == 1
    assert {check: count for check, count in counts.items() if count > 1} == {}


def test_the_settings_of_a_solver_are_checked_where_it_is_made():
    X, y = load_wine(return_X_y=True)
    model = TATML(solver=Newton(max_iter=77), random_state=0)
    assert count_checks(lambda: Newton(max_iter=77))["max_iter", "77"] == 1
    assert count_checks(lambda: model.fit(X, y))["max_iter", "77"] == 0


def test_repeated_checks_are_counted():
    def check_twice():
        validation.check_margin((1.0, 2.0))
        validation.check_count("k", 3)
        validation.check_count("k", 3)

    counts = count_checks(check_twice)
    assert counts == {("margin", "(1.0, 2.0)"): 1, ("k", "3"): 2}
