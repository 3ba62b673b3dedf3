"""The predicted cost of a fit: how it grows, what it is made of, and when it is said."""

import logging
import sys
import types

import numpy as np
import pytest
from helpers import SHAPES, random_case

from tatml import Compute, Newton, learn_metric
from tatml._optim import machine, predicted_cost, solvers
from tatml._optim.machine import Rates, measure_rates
from tatml._optim.predicted_cost import (
    Fit,
    PredictedCost,
    Work,
    describe_long_fit,
    evaluation_work,
    is_worth_predicting,
    memory_of,
    predict_fit,
    product_work,
    svec_work,
)
from tatml.solvers import predict_cost

ROUND = Rates(flops=1e10, gathered=1e9, streamed=1e10, decomposition=1e-4, call=1e-6)


@pytest.fixture
def _round_rates(monkeypatch):
    """A machine whose rates are round numbers."""
    monkeypatch.setattr(predicted_cost, "measure_rates", lambda *shape: ROUND)


def test_work_takes_the_sum_of_its_parts():
    assert Work(2e10, 3e9, 5e9).seconds(ROUND) == 2 + 3 + 0.5


def test_the_operations_of_a_pass_are_those_of_its_products():
    """K pairs of n × n' matrices: LᵀX of the samples and a scatter, 2 n² n' operations each."""
    fit = Fit(((5, 3),), 100, 1_000)
    active = predicted_cost.ACTIVE_SHARE * 1_000
    assert evaluation_work(fit, 5, 3).flops == 2 * 5 * 5 * 3 * (100 + active)
    assert evaluation_work(fit, 5, 3).gathered == 8 * 5 * 3 * 1_000
    assert evaluation_work(fit, 5, 3).streamed == 8 * 5 * 3 * (2 * 1_000 + 3 * active)
    assert product_work(fit, 700, 5, 3).flops == 4 * 700 * 5 * 5 * 3  # two products (maths, 3)
    wide = Fit(((64, 1),), 100, 10_000)  # products over samples, which read both rows of a pair
    assert product_work(wide, 7_000, 64, 1).flops == 4 * 100 * 64 * 64
    read = predicted_cost.GATHERED_ROW * 8 * 64 * 2 * 7_000
    assert product_work(wide, 7_000, 64, 1).gathered == pytest.approx(read)
    assert svec_work(fit, 700, 5, 3).gathered == 8 * 700 * 5 * 3
    few = fit._replace(n_pairs=10)  # then the differences are transformed, not the samples
    assert evaluation_work(few, 5, 3).flops == 2 * 5 * 5 * 3 * (10 + 8)


@pytest.mark.usefixtures("_round_rates")
@pytest.mark.parametrize("shapes", [((9, 1),), ((9, 9), (9, 9)), ((128, 1),), ((64, 1), (9, 9))])
def test_more_of_anything_costs_more(shapes):
    fit = Fit(shapes, 10_000, 500_000)  # too many pairs for their svec to be kept
    wider = fit._replace(block_shapes=(*shapes, (9, 1)))
    for more in (fit._replace(n_pairs=700_000), fit._replace(n_samples=20_000), wider):
        assert predict_fit(more).seconds > predict_fit(fit).seconds
        assert memory_of(more) > memory_of(fit)
    assert memory_of(fit._replace(dtype="float32")) < memory_of(fit)


@pytest.mark.usefixtures("_round_rates")
def test_the_time_of_very_many_pairs_grows_in_proportion():
    fit = Fit(((128, 1),), 10_000, 10_000_000)
    ratio = predict_fit(fit._replace(n_pairs=20_000_000)).seconds / predict_fit(fit).seconds
    assert 1.9 < ratio < 2.1


def test_a_faster_machine_takes_less_time(monkeypatch):
    seconds = []
    for speed in (1, 10):
        rates = Rates(*(np.array(ROUND) * [speed, speed, speed, 1 / speed, 1 / speed]))
        monkeypatch.setattr(predicted_cost, "measure_rates", lambda *shape, r=rates: r)
        seconds.append(predict_fit(Fit(((128, 1),), 10_000, 100_000)).seconds)
    assert seconds[0] / seconds[1] == pytest.approx(10)


def test_the_memory_is_that_of_samples_vectors_matrices_and_chunks():
    """20 pairs of 60 features, of which 17 are active: a matrix of 17 rows and its factors."""
    assert predicted_cost.ACTIVE_SHARE == 0.8
    rows, row = 20, 8 * 60
    matrix = 8 * (3 * 17**2 + 2 * 17 * 60)
    expected = 4 * rows * row + predicted_cost.VECTORS * 8 * 20 + matrix + 6 * 20 * row
    assert memory_of(Fit(((60, 1),), 100, 20)) == expected


def test_decompositions_are_timed_on_small_matrices(monkeypatch):
    monkeypatch.setattr(machine, "_seconds", lambda call, **_: 1.0)
    like = np.zeros(1)
    small = machine.LARGEST_TIMED
    assert machine._measured(small // 2, 1, like).decomposition == 1.0
    assert machine._measured(2 * small, 1, like).decomposition == 2.0**machine.GROWTH


def test_rates_are_measured_once_and_positive():
    rates = measure_rates(7, 2)
    assert min(rates) > 0
    assert measure_rates(7, 2) is rates
    assert measure_rates(7, 2, "float32") is not rates


def test_the_prediction_is_near_the_time_of_a_fit():
    """A coarse bound, for busy machines; benchmarks/predicted_cost.py has the figures."""
    from time import process_time

    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(2_000, 24)), rng.integers(2_000, size=(20_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    similar = np.abs(X[pairs[:, 0], 0] - X[pairs[:, 1], 0]) < 1
    expected = predict_cost(24, len(X), len(pairs)).seconds
    start = process_time()
    learn_metric(X, pairs, similar, C=1e3 / len(pairs), c0=100.0)
    assert 0.1 < expected / (process_time() - start) < 10


@pytest.mark.usefixtures("_round_rates")
def test_a_long_fit_says_what_would_shorten_it():
    fit = Fit(((512, 1),), 20_000, 960_000)
    cost = predict_fit(fit)
    assert cost.seconds > predicted_cost.LONG
    line = describe_long_fit(fit, cost)
    for part in ("960,000 pairs", "512 rows", str(cost), "240,000 pairs", "256 rows", "a GPU"):
        assert part in line
    assert "\n" not in line
    assert "float32" not in line  # this machine is not faster in float32
    assert "a GPU" not in describe_long_fit(fit._replace(device="cuda"), cost)


def test_only_large_fits_are_worth_a_measurement():
    assert not is_worth_predicting(Fit(((9, 9), (9, 9)), 1_000, 10_000))
    assert is_worth_predicting(Fit(((512, 1),), 20_000, 100_000))


@pytest.fixture
def _long_fits(monkeypatch):
    monkeypatch.setattr(solvers, "is_worth_predicting", lambda fit: True)
    monkeypatch.setattr(solvers, "predict_fit", lambda fit: PredictedCost(600.0, 2**31))
    monkeypatch.setattr(predicted_cost, "measure_rates", lambda *shape: ROUND)


@pytest.mark.usefixtures("_long_fits")
def test_a_long_fit_says_so_once(caplog, capsys):
    case = random_case(SHAPES["square"])
    with caplog.at_level(logging.WARNING, logger="tatml"):
        result = learn_metric(case.blocks, case.pairs, case.similar)
        learn_metric(case.blocks, case.pairs, case.similar, init=result)  # starts near the end
    (record,) = caplog.records
    assert record.name == "tatml"
    assert "will take about 10 min and 2.0 GiB" in record.message
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("_long_fits")
def test_a_verbose_fit_prints_its_cost_instead(caplog, capsys):
    case = random_case(SHAPES["square"])
    learn_metric(case.blocks, case.pairs, case.similar, verbose=True)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "Expected: about 10 min and 2.0 GiB."
    assert out[1].startswith("This fit of")
    assert not caplog.records


def test_small_fits_are_silent_and_measure_nothing(monkeypatch, capsys, caplog):
    monkeypatch.setattr(predicted_cost, "measure_rates", lambda *shape: pytest.fail("measured"))
    case = random_case(SHAPES["square"])
    learn_metric(case.blocks, case.pairs, case.similar)
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


@pytest.mark.usefixtures("_long_fits")
def test_the_cost_of_pairs_in_parts_is_not_known(caplog):
    case = random_case(SHAPES["square"])
    compute = Compute(max_memory="50MB")
    learn_metric(case.blocks, case.pairs, case.similar, compute=compute)
    assert not caplog.records


@pytest.mark.usefixtures("_long_fits")
def test_a_long_fit_shows_its_steps(monkeypatch):
    bars = []

    class Bar:
        def __init__(self, **settings):
            self.settings, self.steps, self.closed, self.text = settings, 0, False, ""
            bars.append(self)

        def update(self, n=1):
            self.steps += n

        def set_postfix_str(self, text):
            self.text = text

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))
    case = random_case(SHAPES["square"])
    result = learn_metric(case.blocks, case.pairs, case.similar, solver=Newton(random_state=0))
    (bar,) = bars
    assert bar.steps == len(result.history["gap"])
    assert bar.text.startswith("gap ")
    assert bar.closed
    assert bar.settings["disable"] is None  # tqdm: silent unless stderr is a terminal
