"""Solver objects and `Compute`: their settings, and how estimators hold them."""

import copy
import pickle
from inspect import signature
from types import ModuleType

import numpy as np
import pytest
from estimators_helpers import labelled, search_over
from helpers import SHAPES, random_case
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import tatml
from tatml import ITML, TATML, TATMLCV, Compute, Dykstra, Maz, Newton, TATMLPairs, learn_metric
from tatml._optim.monitor import Monitor
from tatml._optim.solvers import as_solver
from tatml.io import load_model, save_model
from tatml.solvers import Solver

FEW = {"n_pairs_per_class": 20, "random_state": 0}
SETTINGS = [
    Newton(),
    Newton(linear_solver="cg", max_iter=7, random_state=3, on_interrupt="return"),
    Dykstra(),
    Dykstra(projection="naive", order="random", max_iter=7, random_state=3, on_interrupt="return"),
    Compute(),
    Compute(dtype="float32"),
    Compute(max_memory="1GB"),
]


# The objects


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_are_values(settings):
    """Equal where their fields are, and never changed."""
    for other in (copy.deepcopy(settings), clone(settings, safe=False), eval(repr(settings))):
        assert other == settings
        assert hash(other) == hash(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert sum(settings == other for other in SETTINGS) == 1
    with pytest.raises(AttributeError):
        settings.max_iter = 3


def test_what_is_shown_is_what_was_changed():
    assert repr(Newton()) == "Newton()"
    assert repr(Newton(max_iter=3, linear_solver="cg")) == "Newton(linear_solver='cg', max_iter=3)"
    assert repr(Compute(max_memory="1GB")) == "Compute(max_memory='1GB')"
    assert repr(TATML(solver=Newton(max_iter=9))) == "TATML(solver=Newton(max_iter=9))"


WRONG = {
    "linear_solver": (Newton, ["lu", None, 3, ["cg"]]),
    "lower_precision": (Newton, ["float32", None, 1.5]),
    "projection": (Dykstra, ["exact", None]),
    "order": (Dykstra, ["sorted", None]),
    "dtype": (Compute, ["half", None, np.float32]),
}
WRONG_FOR_BOTH = {
    "max_iter": [0, -1, 5.0, "3", None, True],
    "random_state": ["seed", 1.5, -1, np.random.RandomState],
    "on_interrupt": ["stop", None, True],
}


def test_a_wrong_setting_is_named():
    wrong = [(make, name, values) for name, (make, values) in WRONG.items()]
    for make in (Newton, Dykstra):
        wrong += [(make, name, values) for name, values in WRONG_FOR_BOTH.items()]
    for make, name, values in wrong:
        for value in values:
            with pytest.raises((TypeError, ValueError), match=rf"^{name}: expected .*got"):
                make(**{name: value})


def test_words_and_objects_are_solvers_and_nothing_else_is():
    assert as_solver("newton") == Newton()
    assert as_solver("dykstra") == Dykstra()
    given = Newton(max_iter=3)
    assert as_solver(given) is given
    for make, name, words in (
        (Newton, "linear_solver", "'auto', 'dense'"),
        (Dykstra, "projection", "'efficient'"),
        (Dykstra, "order", "'permutation'"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected one of {words}"):
            make(**{name: "sorted"})
    message = r"^solver: expected 'newton', 'dykstra', Newton\(…\) or Dykstra\(…\), got "
    for value in ("cyclic", None, 3, Newton, ["newton"], Solver, Compute()):
        with pytest.raises(ValueError, match=message):
            as_solver(value)


@pytest.mark.parametrize("name", ["newton", "dykstra"])
def test_the_modules_of_the_solvers_are_not_hidden(name):
    assert isinstance(getattr(tatml._optim, name), ModuleType)


def test_learn_metric_has_few_parameters():
    assert len(signature(learn_metric).parameters) <= 18


# Solving


@pytest.mark.parametrize("kind", [Newton, Dykstra])
def test_a_word_is_its_object(kind):
    case = random_case(SHAPES["vectors"], C=3.0, n_pairs=30)
    word = case.learn(solver=kind.__name__.lower(), tol=1e-6)
    found, direct = case.learn(solver=kind(), tol=1e-6), kind().solve(case.problem(), tol=1e-6)
    for result in (found, direct):  # Dykstra's order is drawn
        assert_allclose(result.W[0], word.W[0], rtol=1e-2, atol=1e-2)
    assert set(word.history) == set(found.history) == set(direct.history)


def test_compute_changes_where_and_not_what():
    case = random_case(SHAPES["two ragged"], C=3.0, n_pairs=60)
    expected = case.learn()
    assert case.learn(compute=Compute()).gap == expected.gap
    parts = case.learn(compute=Compute(max_memory="30MB"))
    assert parts.active is None
    assert_allclose(parts.b0, expected.b0, rtol=1e-9)
    single = case.learn(compute=Compute(dtype="float32"))
    assert single.L[0].dtype == np.float32


COMBINATIONS = {
    "float32 in parts": (
        {"compute": Compute("float32", "30MB")},
        "compute: expected dtype='float6",
    ),
    "Dykstra in parts": (
        {"compute": Compute(max_memory="30MB"), "solver": Dykstra(max_iter=3)},
        r"solver: expected 'newton' or Newton\(…\) where .* got Dykstra\(max_iter=3\)",
    ),
    "Woodbury in parts": (
        {"compute": Compute(max_memory="30MB"), "solver": Newton(linear_solver="woodbury")},
        "solver: expected linear_solver='auto', 'dense' or 'cg' where .*'woodbury'",
    ),
    "Dykstra in float32": (
        {"compute": Compute(dtype="float32"), "solver": "dykstra"},
        r"solver: expected 'newton' or Newton\(…\) for numpy arrays and dtype='float32'",
    ),
}


@pytest.mark.parametrize(("options", "message"), COMBINATIONS.values())
def test_a_wrong_combination_is_named(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        random_case(SHAPES["vectors"]).learn(**options)


# In estimators


def test_the_draws_of_a_solver_are_those_of_the_estimator_unless_it_has_its_own():
    X, y = labelled()
    options = {"n_pairs_per_class": 20, "tol": 1e-3}
    histories = [
        TATML(solver=Dykstra(random_state=own), random_state=seed, **options)
        .fit(X, y)
        .result_.history["gap"]
        .tolist()
        for own, seed in ((None, 0), (0, 0), (5, 0))
    ]
    assert histories[0] == histories[1] != histories[2]


def solver_of(model):
    return model.estimator.solver if isinstance(model, TATMLCV) else model.solver


@pytest.mark.parametrize(
    ("make", "solver"),
    [
        (TATML, Dykstra(max_iter=3)),
        (Maz, Newton(max_iter=100)),
        (ITML, Dykstra(max_iter=3)),
        (TATMLCV, Newton(max_iter=100)),
    ],
)
def test_estimators_take_solver_objects(make, solver, tmp_path):
    X, y = labelled()
    options = {"solver": solver, "tol": 0.5} | FEW
    of_search = make is TATMLCV
    model = search_over({"C": [1.0, 10.0]}, cv=2, **options) if of_search else make(**options)
    model = clone(model).fit(X, y)
    assert solver_of(model) == solver
    assert model.n_iter_ <= solver.max_iter
    assert solver_of(pickle.loads(pickle.dumps(model))) == solver
    pytest.importorskip("skops")
    loaded = load_model(save_model(model, tmp_path / "model.skops")).estimator
    assert solver_of(loaded) == solver
    assert_array_equal(loaded.transform(X), model.transform(X))


def test_pairs_take_solver_objects():
    X, y = labelled()
    pairs = np.stack([X[:-1], X[1:]], axis=1)
    signs = np.where(y[:-1] == y[1:], 1, -1)
    signs[:2] = 1, -1
    with pytest.warns(ConvergenceWarning, match="after 1 iterations"):
        model = TATMLPairs(solver=Newton(max_iter=1), tol=1e-12).fit(pairs, signs)
    assert model.n_iter_ == 1


def test_a_search_over_solvers():
    X, y = labelled()
    solvers = [Newton(linear_solver="dense"), Newton(linear_solver="cg")]
    search = GridSearchCV(TATML(**FEW), {"solver": solvers}, scoring=lambda *_: 1.0, cv=2)
    assert search.fit(X, y).best_params_["solver"] in solvers


def test_an_interrupted_fit_can_keep_the_best_point(monkeypatch):
    record, X, y = Monitor.record, *labelled()

    def interrupted(monitor, n_iter, point, **extra):
        record(monitor, n_iter, point, **extra)
        raise KeyboardInterrupt

    monkeypatch.setattr(Monitor, "record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        TATML(**FEW).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = TATML(solver=Newton(on_interrupt="return"), **FEW).fit(X, y)
    assert model.transform(X).shape == X.shape
