"""Some thousand fuzzed cases; and that the fuzzer sees what is wrong when something is."""

import os
import time
import warnings

import numpy as np
import pytest
from fuzz_cases import REFUSALS, choose, make_case
from fuzz_outcomes import Outcome, run_case, wrong_error, wrong_result
from fuzzing import BLOCK, Summary, main, run
from good_calls import ESTIMATORS, Case, index_pairs, samples
from hostile import PARAMETERS, parameter_value
from sklearn.base import BaseEstimator

import tatml
from tatml import TATML

BLOCKS = 4  # `make fuzz` runs more


@pytest.mark.parametrize("block", range(BLOCKS))
def test_fuzzed_calls_are_refused_by_name_or_give_sane_results(block):
    summary = run(range(block * BLOCK, (block + 1) * BLOCK))
    assert summary.n_failed == 0, summary.report()


def test_every_target_and_both_outcomes_occur():
    cases = [make_case(seed) for seed in range(600)]
    assert {case.target.partition(".")[0] for case in cases} == {"learn_metric", *ESTIMATORS}
    assert all(case.labels for case in cases)
    outcomes = {run_case(case).kind for case in cases[:200]}
    assert {"accepted", "refused"} <= outcomes


def test_a_seed_is_always_the_same_case():
    one, two = make_case(7), make_case(7)
    assert (one.target, one.labels) == (two.target, two.labels)


def test_every_value_and_every_refusal_of_the_table_can_be_drawn():
    rng = np.random.default_rng(0)
    drawn = {parameter_value(rng, "C")[0] for _ in range(3000)}
    assert set(PARAMETERS) <= drawn
    drawn = {id(choose(rng, REFUSALS)) for _ in range(12 * len(REFUSALS))}
    assert drawn == {id(refusal) for refusal in REFUSALS}


# The fuzzer sees what is wrong


def function_case(function, **arguments):
    names = frozenset(arguments)
    return Case(function.__name__, function, arguments, names=names)


def complaints(function, **arguments):
    """Return the complaints of the fuzzer about a function in place of the library's."""
    outcome = run_case(function_case(function, **arguments), seconds=0.2)
    assert outcome.kind == "failed"
    return "; ".join(outcome.complaints)


class Model(BaseEstimator):
    """An estimator that does in fit what a test tells it to."""

    def __init__(self, act=None, size=3.0):
        self.act = act
        self.size = size

    def fit(self, X):
        return self.act(self, X)


def fit_complaints(act):
    model = Model(act)
    names = frozenset({"X", "act", "size"})
    outcome = run_case(Case("Model.fit", model.fit, {"X": np.ones((3, 2))}, model, names=names))
    return "; ".join(outcome.complaints)


@pytest.mark.parametrize("kind", [KeyError, RuntimeError, OverflowError, np.linalg.LinAlgError])
def test_a_foreign_error_is_seen(kind):

    def learn(X, kind=kind):
        raise kind("X: no")

    assert f"raised {kind.__name__}" in complaints(learn, X=1)


def test_a_message_without_a_parameter_is_seen():
    for message in (
        "function value at x=0.0 is NaN",
        "iteration over a 0-d array",
        "n_splits=5 cannot be greater than the number of members in each class.",
        "Unknown label type: continuous",
        "mu0: expected a positive number",
        "Input X contains NaN",
        "X",
        "X: ",
        "x: expected",
    ):
        assert "names no parameter" in wrong_error(ValueError(message), ["X", "y"])[0]
    for message in ("X: expected", "X, y: expected", "y='a': no", "chunk 3: X: no"):
        assert wrong_error(ValueError(message), ["X", "y"]) == []


def test_a_leaked_warning_is_seen():
    def learn(X):
        warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
        raise ValueError("X: expected")

    assert "warned: RuntimeWarning: overflow" in complaints(learn, X=1)


def changes_errstate(X):
    np.seterr(all="ignore")
    raise ValueError("X: expected")


def changes_random(X):
    np.random.seed(0)  # noqa: NPY002
    raise ValueError("X: expected")


def changes_filters(X):
    warnings.simplefilter("ignore")
    raise ValueError("X: expected")


def changes_environment(X):
    os.environ["TATML_FUZZED"] = "1"
    raise ValueError("X: expected")


def test_changed_global_state_is_seen(monkeypatch):
    monkeypatch.setenv("TATML_FUZZED", "0")
    state = np.random.get_state()  # noqa: NPY002
    for function, what in (
        (changes_errstate, "np.geterr()"),
        (changes_random, "np.random"),
        (changes_filters, "warnings.filters"),
        (changes_environment, "os.environ"),
    ):
        case = function_case(function, X=1)
        case.arguments["random_state"] = 0
        case.function = lambda X, random_state, function=function: function(X)
        with np.errstate():
            assert f"changed {what}" in run_case(case).complaints
    np.random.set_state(state)  # noqa: NPY002


def test_a_changed_argument_is_seen():
    def learn(X):
        part = X[0] if isinstance(X[0], np.ndarray) else X
        part[1] = 7.0
        raise ValueError("X: expected")

    hidden = np.ma.array([1.0, 2.0], mask=[False, True])
    for value in (np.ones(3), [1.0, 2.0], [np.ones(2)], hidden):
        assert "changed the argument X" in complaints(learn, X=value)


def test_a_refused_change_of_form_is_seen():
    def learn(X):
        raise ValueError("X: expected a list")

    case = function_case(learn, X=np.ones(3))
    case.labels = ["X: Fortran order"]
    assert "only the form of the arguments changed" in run_case(case).complaints[0]
    case.labels = ["X: Fortran order", "X: 1-d"]
    assert run_case(case).kind == "refused"


def test_a_half_set_estimator_is_seen():
    def act(model, X):
        model.components_ = X
        raise ValueError("X: expected")

    assert "changed the attribute components_" in fit_complaints(act)


def test_a_changed_parameter_is_seen():
    def act(model, X):
        model.size = float(model.size) + 1
        raise ValueError("X: expected")

    assert "changed the parameter size" in fit_complaints(act)


def test_what_fit_did_not_set_is_seen():
    assert "fit did not set threshold_, b0_" in fit_complaints(lambda model, X: model)


def test_a_call_that_hangs_is_seen():
    def learn(X):
        time.sleep(5)

    assert "raised Hang" in complaints(learn, X=1)


def changed_result(**changes):
    X, (pairs, y) = samples("vectors"), index_pairs()
    result = tatml.learn_metric(X, pairs, y > 0)
    vars(result).update(changes)
    return wrong_result(result)


def test_a_wrong_result_is_seen():
    assert changed_result() == []
    assert "L[0] is not finite" in changed_result(L=[np.full((3, 3), np.nan)])
    assert "not lower triangular" in changed_result(L=[np.triu(np.ones((3, 3)))])[0]
    assert "gap = nan" in changed_result(gap=np.nan)[0]
    assert "status" in changed_result(gap=1e9)[0]


def test_a_judge_is_asked_about_results():
    X, (pairs, y) = samples("vectors"), index_pairs()
    case = function_case(tatml.learn_metric, X=X, pairs=pairs, similar=y > 0)
    asked = []

    def judge(arguments, result):
        asked.append(arguments["X"] is X)
        return f"b0 is {result.b0}"

    outcome = run_case(case, judge)
    assert asked == [True]
    assert outcome.complaints[0].startswith("judged: b0 is ")


def test_failures_are_reported_with_seed_and_mutations(monkeypatch, capsys):
    def broken(*_, **__):
        raise KeyError("broken")

    for seed in range(100, 160):
        make_case(seed)  # cases use results and estimators that were fitted before
    monkeypatch.setattr(TATML, "fit", broken)
    monkeypatch.setattr(tatml, "learn_metric", broken)
    assert main(["--cases", "60", "--seed", "100"]) == 1
    report = capsys.readouterr().out
    assert "raised KeyError" in report
    assert "mutations: " in report
    assert "seed 1" in report


def test_the_command_ends_well(capsys):
    assert main(["--cases", "20"]) == 0
    assert "0 of 20 cases failed" in capsys.readouterr().out


def test_summaries_are_joined():
    case = make_case(0)
    failed = Outcome("failed", ["raised KeyError"], seconds=2.0)
    one, other, both = Summary(), Summary(), Summary()
    for seed in range(4):
        (one if seed < 2 else other).add(seed, case, failed)
        both.add(seed, case, failed)
    one.join(other)
    assert vars(one) == vars(both)
    assert one.n_failed == 4
