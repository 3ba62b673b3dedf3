"""Bad input is refused with the expected type and message, and changes nothing."""

import re
import warnings
from functools import partial

import numpy as np
import pytest
import refused_pairs
import refused_parameters
import refused_samples
import refused_tuples
from fuzz_outcomes import SKLEARN_MESSAGES, run_case
from good_calls import (
    ESTIMATORS,
    FEW,
    LABEL_ESTIMATORS,
    TARGETS,
    TUPLE_ESTIMATORS,
    arguments_of,
    changed_call,
    fitted,
    good_arguments,
    index_tuples,
    parameters_of,
    parts_of,
)
from hostile import ENDLESS
from refusals import INDEX, PAIRS, SIGNS, SIMILAR, X, Y
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tatml import (
    ITML,
    TATML,
    Blocks,
    Compute,
    Dykstra,
    Euclidean,
    Maz,
    Newton,
    PairThreshold,
    TATMLPairs,
    TATMLTriplets,
)
from tatml import learn_metric as learn
from tatml._estimators.inputs import TUPLE_SIZES, check_has
from tatml._estimators.pair_judge import PairJudge
from tatml.inspection import threshold_interval
from tatml.verification import error_rates

TABLES = (refused_parameters, refused_samples, refused_pairs, refused_tuples)
TABLE = {section: refusals for module in TABLES for section, refusals in module.TABLE.items()}
IGNORED = {
    (f"{make.__name__}.{method}", "y") for make in TUPLE_ESTIMATORS for method in ("fit", "score")
}
# Messages that do not say "expected …, got …": of scikit-learn, or about a function of the user.
OTHER_WORDS = (
    *SKLEARN_MESSAGES,
    "metric: ",
    "X: int too large to convert to float",
    "prior='covariance': the covariance of block 0 has rank 3, expected 4",
)


def wrong_refusals(refusal, again):
    """Make the calls of a refusal, and return what is wrong with how they ended."""
    for target in refusal.targets:
        outcome = run_case(changed_call(target, refusal.given, refusal.kind, again))
        message = f"{type(outcome.error).__name__}: {outcome.error}"
        for complaint in [*outcome.complaints, *wrong_words(refusal, outcome.error)]:
            yield f"{target} with {shown(refusal.given)}: {complaint}; got {message[:300]}"


def wrong_words(refusal, error):
    message = str(error)
    if not isinstance(error, refusal.error):
        yield f"expected {refusal.error.__name__}"
    if not re.match(refusal.words, message):
        yield f"expected the words {refusal.words!r}"
    if "\n" in message:
        yield "expected one line"
    if not re.search("expect.*got", message) and not re.match("|".join(OTHER_WORDS), message):
        yield "expected a message that says what was expected and what was given"


def shown(given):
    try:
        return repr(given)[:200]
    except Exception:
        return f"values of {', '.join(given)}"


@pytest.mark.parametrize("section", TABLE)
def test_what_is_refused_is_named_and_changes_nothing(section):
    """Every second fit is that of an estimator that was fitted before."""
    complaints = []
    for number, refusal in enumerate(TABLE[section]):
        assert refusal.targets, refusal
        complaints += wrong_refusals(refusal, again=number % 2 == 1)
    assert complaints == []


def test_every_parameter_and_argument_is_in_the_table():
    covered = {
        (target, name)
        for refusals in TABLE.values()
        for refusal in refusals
        for target in refusal.targets
        for name in refusal.given
    }
    expected = {
        (target, name)
        for target in TARGETS
        for name in arguments_of(target) | parameters_of(target)
        if not target.endswith("get_feature_names_out")
    }
    assert sorted(expected - covered - IGNORED) == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_calls_that_the_table_changes_are_good(target):
    if not target.endswith("get_feature_names_out"):
        outcome = run_case(changed_call(target, {}))
        assert (target, outcome.kind, outcome.complaints) == (target, "accepted", [])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_works_before_fit(name):
    called = [t for t in TARGETS if parts_of(t)[0] is ESTIMATORS[name]]
    for target in called:
        make, method = parts_of(target)
        if method not in ("fit", "get_metric()", "predict_proba"):  # predict_proba: not yet there
            model = make()
            with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
                getattr(model, method)(**good_arguments(target, "vectors"))
            assert vars(model) == vars(make())
    assert len(called) >= 9


# What a table of values cannot say


def refused(call, message, kinds=(TypeError, ValueError)):
    """Assert that the call raises an error with this message, and no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(kinds, match=f"^{message}"):
            call()


def message_of(call):
    """Return the message of a ValueError; "" if the call is accepted, converged or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            call()
        except ValueError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_target_is_checked_before_distances_are_computed(name, monkeypatch):
    def pair_distance(*_):
        raise AssertionError("distances were computed")

    fitted(ESTIMATORS[name], "vectors")  # its probabilities need distances
    monkeypatch.setattr(ESTIMATORS[name], "pair_distance", pair_distance)
    for section in ("calibrate_threshold", "promised rates", "calibrate_probability"):
        method = "probability" if section == "calibrate_probability" else "threshold"
        target = f"{name}.calibrate_{method}"
        rows = [refusal for refusal in TABLE[section] if target in refusal.targets]
        assert rows
        for refusal in rows:
            refused(changed_call(target, refusal.given).call, refusal.words, refusal.error)


def test_learn_metric_checks_all_arguments_before_it_solves(monkeypatch):
    def solve(*_, **__):
        raise AssertionError("solved a problem that should have been refused")

    monkeypatch.setattr("tatml.Newton.solve", solve)
    sections = (
        "C",
        "c0",
        "mu0",
        "tol",
        "margin",
        "a table for learn_metric",
        "index pairs",
        "init",
    )
    for refusal in (refusal for section in sections for refusal in TABLE[section]):
        if "learn_metric" in refusal.targets and refusal.given.get("solver") != "dykstra":
            case = changed_call("learn_metric", refusal.given, refusal.kind)
            refused(case.call, refusal.words, refusal.error)


def test_estimators_check_parameters_before_they_solve(monkeypatch):
    def solve(*_, **__):
        raise AssertionError("solved a problem that should have been refused")

    monkeypatch.setattr("tatml.Newton.solve", solve)
    found = {
        (target, *refusal.given): refusal  # one of each kind
        for refusal in (refusal for section in TABLE.values() for refusal in section)
        for target in refusal.targets
        if target.endswith(".fit") and "solver" in parameters_of(target)
    }
    assert len(found) > 150
    for (target, *_), refusal in found.items():
        case = changed_call(target, refusal.given, refusal.kind)
        refused(case.call, refusal.words, refusal.error)


def test_parameters_are_checked_when_pairs_are_not_listed():
    """TATML learns from more than two million pairs in tiles; the checks are the same."""
    many = np.linspace(0, 1, 2002)[:, None]
    wanted = ("C", "margin", "prior", "reduction", "solver", "threshold", "threshold_prior")
    wanted += ("threshold_strength", "c0")
    rows = [row for rows in TABLE.values() for row in rows if row.given.keys() <= {*wanted}]
    rows = [row for row in rows if "TATML.fit" in row.targets and len(row.given) == 1]
    seen = set()
    for row in rows:
        (name,) = row.given
        if name in seen:
            continue  # one value per parameter
        seen.add(name)
        model = TATML(pairs="all", **row.given)
        refused(lambda m=model: m.fit(many, np.arange(2002) % 2), f"{name}: ")
    assert seen == {*wanted}
    y = np.arange(2002) % 2
    words = "y: expected classes that give similar and dissimilar pairs, got no similar"
    refused(lambda: TATML(pairs="all").fit(many, y, groups=y), words)


@pytest.mark.parametrize("source", [np.random.RandomState, "seed", 1.5, -1])
@pytest.mark.parametrize("solver", ["newton", "dykstra"])
def test_settings_of_solvers_are_checked(solver, source):
    make = {"newton": Newton, "dykstra": Dykstra}[solver]
    call = partial(learn, X, INDEX, SIMILAR)
    refused(lambda: call(solver=make(random_state=source)), "random_state: expected None, an int")
    refused(lambda: make(max_iter=ENDLESS), "max_iter: expected at most")
    refused(lambda: call(compute=Compute(max_memory="9" * 400)), "max_memory: expected")


def test_a_distance_whose_square_overflows_is_refused():
    model = Euclidean().fit(X)
    model.components_ = 1e150 * np.eye(3)
    words = "expected samples whose squared distance a float can hold, got .*rescale"
    refused(lambda: model.pair_distance(1e10 * PAIRS), f"pairs: {words} pairs as in fit")
    refused(lambda: model.pair_distance(INDEX, 1e10 * X), f"X: {words} X as in fit")


def test_precomputed_distances_have_no_samples():
    judge = PairThreshold("precomputed").fit([0.1, 0.2, 0.9], [1, 1, -1])
    refused(lambda: judge.pair_distance(INDEX, X), "X: expected None with precomputed distances")
    refused(lambda: judge.predict(PAIRS), "pairs: expected precomputed distances of shape")


@pytest.mark.parametrize("mu0", [1e50, 1e100, 1e150])
def test_extreme_parameters_never_show_a_message_of_scipy(mu0):
    message = message_of(lambda: learn(X, INDEX, SIMILAR, mu0=mu0))
    assert message == "" or message.startswith("C, c0, mu0, weights: expected sizes for which ")


@pytest.mark.parametrize(
    "model",
    [
        TATML(C=1e308, reduction="sum", **FEW),
        Maz(C=1e308, reduction="sum", **FEW),
        ITML(1e308, bounds=(1e-9, 1e-8), prior="identity", **FEW),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_infinite_objective_names_the_estimators_own_parameters(model):
    message = message_of(lambda: model.fit(X * 1e50, Y))
    names, _, rest = message.partition(": ")
    assert set(names.split(", ")) <= set(model.get_params())
    assert rest.startswith("expected sizes for which ")


def test_what_is_shown_must_be_fitted_and_have_what_is_shown():
    metric, classifier = Euclidean().fit(X), LogisticRegression().fit(X, Y)
    check_has(metric, "components_", "pair_distance")
    for call, words in (
        (
            lambda: check_has(metric, "components_", "result_"),
            "components_, result_, got Euclidean ",
        ),
        (lambda: threshold_interval(classifier, X, Y), "margin, got LogisticRegression "),
        (lambda: error_rates(classifier, INDEX, SIGNS, X), ".*got LogisticRegression without "),
        (lambda: error_rates(metric, INDEX, SIGNS, X), ".*Euclidean without threshold_; call fit"),
        (
            lambda: check_has(make_pipeline(metric), "components_"),
            r"components_, got Pipeline without components_; of a pipeline, give pipeline\[-1\], ",
        ),
    ):
        refused(call, f"estimator: expected one with {words}", TypeError)
    refused(lambda: check_has(TATML(), "components_"), "This TATML", NotFittedError)
    refused(lambda: check_has(3.0, "components_"), ".*estimator", TypeError)


def identical_samples():
    """Yield samples that are all equal; the mean of 60 times 0.1 is not 0.1."""
    for value in (0.0, 0.1, 1.0, -7.3e10):
        for n_samples in (12, 60):
            yield np.full((n_samples, 3), value)
            yield np.full((n_samples, 3, 2), value)
            yield np.full((n_samples, 100), value)
            yield Blocks(np.full((n_samples, 3, 2), value), np.full((n_samples, 2), value))


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"Euclidean", "PairThreshold"}))
def test_identical_samples_are_refused_without_a_warning(name):
    """Euclidean and PairThreshold learn from identical samples that all distances are zero."""
    make = ESTIMATORS[name]
    kernels = [None, "rbf"] if "kernel" in make._get_param_names() else [None]
    for same in identical_samples():
        given = {"X": same, "y": np.arange(len(same)) % 3}
        if make not in LABEL_ESTIMATORS:
            given = {"pairs": INDEX, "y": SIGNS, "preprocessor": same}
        if make in TUPLE_ESTIMATORS:
            index = index_tuples(TUPLE_SIZES[make._tuples_name])
            given = {make._tuples_name: index, "preprocessor": same}
        for kernel in kernels:
            chosen = given if kernel is None else given | {"kernel": kernel}
            refused(changed_call(f"{name}.fit", chosen).call, r"(X|pairs|\w+ts): expected ")


# Errors of another kind


class Shell(PairJudge, BaseEstimator):
    """An estimator without a fit."""

    def pair_distance(self, pairs, X=None):
        raise NotImplementedError


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_any_error_in_a_fit_restores_the_estimator(error):
    shell = Shell()
    shell.kept_, shell.changed_, shell.removed_ = object(), object(), object()
    before = dict(vars(shell))

    def fail():
        with shell._fitting():
            shell.changed_ = shell.new_ = 1
            del shell.removed_
            raise error

    with pytest.raises(error):
        fail()
    assert vars(shell) == before


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_interrupted_fit_restores_the_estimator(name):
    def interrupted(_):
        raise KeyboardInterrupt

    make = ESTIMATORS[name]
    indicators = {"X": np.arange(12)} if make in LABEL_ESTIMATORS else {"pairs": INDEX}
    if make in TUPLE_ESTIMATORS:
        indicators = {make._tuples_name: index_tuples(TUPLE_SIZES[make._tuples_name])}
    case = changed_call(f"{name}.fit", {"preprocessor": interrupted, **indicators}, again=True)
    before = dict(vars(case.estimator))
    with pytest.raises(KeyboardInterrupt):
        case.call()
    assert vars(case.estimator).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(case.estimator).items())


@pytest.mark.parametrize("make", [Euclidean, TATMLTriplets])
def test_without_labels_there_is_no_threshold_and_the_advice_gives_one(make):
    metric = make().fit(X if make is Euclidean else X[index_tuples(3)])
    with pytest.raises(NotFittedError, match="no threshold_, because it was fitted") as refused:
        metric.predict_pairs(PAIRS)
    assert "call calibrate_threshold with labelled pairs" in str(refused.value)
    assert "fit it with labels" not in str(refused.value)  # triplets have none
    assert len(metric.calibrate_threshold(PAIRS, SIGNS).predict_pairs(PAIRS)) == len(PAIRS)


def test_pairs_have_no_fit_transform():
    with pytest.raises(AttributeError, match="fit_transform: TATMLPairs is fitted on pairs"):
        TATMLPairs().fit_transform(PAIRS, SIGNS)
