"""The promises of `learn_metric`, checked with 60 digits, and the oracle that checks them."""

from dataclasses import replace
from math import inf, nan
from types import SimpleNamespace

import mpmath
import numpy as np
import oracle
import pytest
from helpers import SHAPES, random_case, random_point
from oracle import (
    Problem,
    exact_optimum,
    exact_value,
    judge,
    random_midpoint_problem,
    random_problem,
)

N_SEEDS, BLOCK = 30, 15  # `make fuzz` runs more


def problem_of(case, **options):
    return Problem(**vars(case) | options)


# The library


@pytest.mark.parametrize("first", range(0, N_SEEDS, BLOCK))
def test_a_result_keeps_its_promises(first):
    broken = {}
    for seed in range(first, first + BLOCK):
        problem = random_problem(seed)
        result = problem.learn()
        broken[seed] = judge(problem, result)
        if problem.regime == "moderate" and problem.solver == "newton" and not result.converged:
            broken[seed].append("not converged, in the moderate regime")
    assert {seed: words for seed, words in broken.items() if words} == {}


@pytest.mark.parametrize("first", range(0, N_SEEDS, BLOCK))
def test_a_result_with_a_midpoint_keeps_its_promises(first):
    broken = {}
    for seed in range(first, first + BLOCK):
        problem = random_midpoint_problem(seed)
        broken[seed] = judge(problem, problem.learn())
    assert {seed: words for seed, words in broken.items() if words} == {}


@pytest.mark.parametrize("seed", [3, 21])
def test_steps_that_overshoot_where_the_logistic_loss_is_flat_are_replaced(seed):
    """Without damped steps in their place, F grows to 1e30 in these moderate problems."""
    problem = random_midpoint_problem(seed)
    assert problem.loss == "logistic"
    assert problem.regime == "moderate"
    assert problem.learn().converged


def test_multipliers_of_the_certificate_are_those_of_the_scatter():
    """C is so large that a last digit of ζ = q − b − o decides about 6e-4 of the gap."""
    problem = random_midpoint_problem(378)
    assert judge(problem, problem.learn()) == []


def test_the_problems_with_midpoints_are_of_all_kinds():
    problems = [random_midpoint_problem(seed) for seed in range(100)]
    kinds = {(p.loss, p.center is not None) for p in problems}
    assert kinds == {("logistic", True), ("squared_hinge", True), ("logistic", False)}
    assert any(p.mu0 < 0 for p in problems)
    assert any(p.prior is not None for p in problems)


# The random problems


def test_a_seed_is_always_the_same_problem():
    one, other = random_problem(3), random_problem(3)
    assert one.C == other.C
    assert all(map(np.array_equal, one.arrays, other.arrays))


def test_the_problems_reach_every_corner():
    problems = list(map(random_problem, range(300)))
    corners = {
        "vectors": lambda p: all(array.shape[2] == 1 for array in p.arrays),
        "matrices": lambda p: any(array.shape[2] > 1 for array in p.arrays),
        "three blocks": lambda p: len(p.arrays) == 3,
        "small features": lambda p: max(np.abs(array).max() for array in p.arrays) < 0.01,
        "large features": lambda p: max(np.abs(array).max() for array in p.arrays) > 1e8,
        "small C": lambda p: p.C < 1e-10,
        "large C": lambda p: p.C > 1e10,
        "wide margins": lambda p: p.compared_margin > 10,
        "one pair": lambda p: len(p.pairs) == 1,
        "40 pairs": lambda p: len(p.pairs) == 40,
        "fixed threshold": lambda p: p.c0 == inf,
        "learnt threshold": lambda p: p.c0 < inf,
        "pairs of weight zero": lambda p: p.weights is not None and 0 in p.weights,
        "general prior": lambda p: p.prior is not None and np.any(np.triu(p.prior[0], 1)),
        "another margin": lambda p: p.margin != (0.5, 2.0),
        "a small tolerance": lambda p: p.tol == 1e-10,
        "dykstra": lambda p: p.solver == "dykstra",
        "all similar": lambda p: not p.alone and all(p.similar),
        "no similar": lambda p: not p.alone and not any(p.similar),
        "comparisons alone": lambda p: p.alone,
        "comparisons and pairs": lambda p: p.compared is not None and not p.alone,
        "equal sides": lambda p: p.compared is not None and 0 in p.compared_rows[1],
        "equal samples": lambda p: len(np.unique(p.arrays[0], axis=0)) < len(p.arrays[0]),
    }
    missed = [name for name, holds in corners.items() if sum(map(holds, problems)) < 3]
    assert missed == []
    assert sum(problem.regime == "moderate" for problem in problems) > 90


# The value


@pytest.mark.parametrize("c0", [0.3, inf])
@pytest.mark.parametrize(("name", "shapes"), SHAPES.items())
def test_the_value_is_that_of_the_loops(c0, name, shapes):
    case = random_case(shapes, weights=True, prior=True, c0=c0, C=7.0)
    W, b0 = random_point(case)
    value = exact_value(problem_of(case), [np.linalg.cholesky(matrix) for matrix in W], b0)
    assert float(value) == pytest.approx(case.primal(W, b0), rel=1e-12), name


@pytest.mark.parametrize("last", [0.0, nan, inf])
def test_the_value_is_infinite_where_there_is_no_metric(last):
    L = np.diag([1.0, last])
    assert exact_value(problem_of(random_case([(2, 1)])), [L], 1.0) == inf, last


def test_the_value_is_infinite_where_a_fixed_threshold_has_moved():
    assert exact_value(problem_of(random_case([(2, 1)], c0=inf)), [np.eye(2)], 1.001) == inf


# The optimum


def one_pair(size, C, similar):
    """A pair of vectors of 3 columns, and the least value of its problem in 60 digits.

    W = I + (w − 1) uuᵀ with u along the difference, of squared length d, and F is the least of
    w − log w − 1 + (c/2)(d w − γ μ0)², where c d² w² + (1 − c d γ μ0) w = 1.
    """
    X = np.array([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0]]) * size
    with mpmath.workdps(oracle.WORKING_DIGITS):
        c, d = mpmath.mpf(C), 9 * mpmath.mpf(size) ** 2
        threshold = mpmath.mpf(0.5 if similar else 2.0)
        a, b = c * d**2, 1 - c * d * threshold
        w = (-b + mpmath.sqrt(b**2 + 4 * a)) / (2 * a)
        value = w - mpmath.log(w) - 1 + c / 2 * (d * w - threshold) ** 2
    problem = Problem([X[:, :, None]], np.array([[0, 1]]), np.array([similar]), C=C, c0=inf)
    return problem, value


@pytest.mark.parametrize("C", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("size", [2.0**-10, 0.25, 1.0, 2.0**30])
def test_the_optimum_of_one_pair_is_known(C, size):
    problem, value = one_pair(size, C, similar=size >= 1)
    lower, upper = exact_optimum(problem)
    assert upper - lower <= 1e-30 * max(1, abs(value)), size
    assert abs(value - upper) <= 1e-30 * max(1, abs(value)), size


@pytest.mark.parametrize("name", ["vectors", "wide", "two ragged"])
def test_the_optimum_of_a_problem_built_from_its_solution_is_known(name):
    case = random_case(SHAPES[name], c0=inf, mu0=0.9, prior=True)
    distances = case.distances(case.W0)
    case = replace(case, similar=distances > np.median(distances), margin=(0.5, 0.9))
    case = case.with_(mu0=float(np.median(distances)) / 0.7)
    s = case.y * 1e-3
    W, b0 = case.primal_of(s)
    slack = case.y * (case.distances(W) - case.gamma * b0)
    assert slack.min() > 0  # so that weights exist for which s is optimal
    case = case.with_(weights=np.abs(s) / slack)
    lower, upper = exact_optimum(problem_of(case))
    assert float(lower) == pytest.approx(case.primal(W, b0), rel=1e-12)
    assert float(upper) == pytest.approx(case.dual(s), rel=1e-12)


@pytest.mark.parametrize(("C", "c0"), [(0.1, 0.1), (0.1, inf), (1e3, 0.1), (1e3, inf)])
@pytest.mark.parametrize("name", ["vectors", "square", "two ragged"])
def test_the_optimum_is_that_of_the_library(C, c0, name):
    case = random_case(SHAPES[name], weights=True, prior=True, c0=c0, C=C)
    result = case.learn()
    assert result.converged, name
    assert float(exact_optimum(problem_of(case))[1]) == pytest.approx(result.primal, rel=1e-10)


@pytest.mark.parametrize("seed", range(80, 84))
def test_the_optimum_does_not_depend_on_the_start(seed):
    problem = random_problem(seed)
    (lower, upper), (other_lower, other_upper) = (
        exact_optimum(problem, start) for start in (None, problem.learn())
    )
    assert max(lower, other_lower) <= min(upper, other_upper)
    assert max(upper, other_upper) - min(lower, other_lower) <= 1e-31 * max(1, abs(upper))


def test_a_misleading_start_is_left():
    problem = random_problem(0)
    K = len(problem.pairs)
    for multipliers in (np.full(K, 1e300), np.full(K, nan), np.full(K, -1.0)):
        start = SimpleNamespace(active=np.arange(K), multipliers=multipliers)
        lower, upper = exact_optimum(problem, start)
        assert upper - lower <= 1e-30 * max(1, abs(upper))
        assert abs(upper - exact_optimum(problem)[1]) <= 1e-30 * max(1, abs(upper))


# The judge


def honest():
    """A problem, and a result that promises no more than is true."""
    problem = problem_of(random_case([(3, 2), (2, 1)], C=10.0))
    learnt = problem.learn(tol=1e-12)
    L = [np.linalg.cholesky(W) for W in learnt.W]
    value = float(exact_value(problem, L, learnt.b0))
    return problem, SimpleNamespace(
        L=L,
        W=[(block @ block.T + (block @ block.T).T) / 2 for block in L],
        b0=learnt.b0,
        primal=value,
        gap=1e-7,
        dual=value - 1e-7,
        converged=True,
        active=learnt.active,
        multipliers=learnt.multipliers,
        history={"primal": [value]},
    )


def test_an_honest_result_is_accepted():
    assert judge(*honest()) == []


LIES = [
    ("converged, but F", lambda r: {"L": [1.1 * block for block in r.L]}),
    ("F(L) − min F", lambda r: {"L": [1.1 * block for block in r.L], "converged": False}),
    ("converged with a gap", lambda r: {"gap": 0.1}),
    ("dual − min F", lambda r: {"dual": r.primal + 1e-9}),
    ("primal − F(L)", lambda r: {"primal": r.primal * (1 + 1e-8)}),
    ("L is not", lambda r: {"L": [block.T for block in r.L]}),
    ("L is not", lambda r: {"L": [-block for block in r.L]}),
    ("L is not", lambda r: {"L": [block * nan for block in r.L]}),
    ("W is not L Lᵀ", lambda r: {"W": [W * (1 + 1e-12) for W in r.W]}),
]


def test_a_broken_promise_is_found():
    problem, result = honest()
    for words, lie in LIES:
        broken = judge(problem, SimpleNamespace(**vars(result) | lie(result)))
        assert any(line.startswith(words) for line in broken), words


def test_a_result_that_has_not_converged_may_be_far_from_the_optimum():
    problem, result = honest()
    L = [1.1 * block for block in result.L]
    value = float(exact_value(problem, L, result.b0))
    changes = {"L": L, "W": [1.1**2 * W for W in result.W], "converged": False}
    far = vars(result) | changes | {"primal": value, "gap": value, "dual": 0.0}
    far |= {"history": {"primal": [value]}}
    assert judge(problem, SimpleNamespace(**far)) == []
    far |= {"history": {"primal": [value, value - 1e-3 * max(1, abs(value))]}}
    (broken,) = judge(problem, SimpleNamespace(**far))
    assert broken.startswith("not converged, and F(L) =")


# The command


def test_the_command_counts(capsys, tmp_path):
    file = tmp_path / "lines.json"
    assert oracle.main(["--seeds", "5:9", "--baseline", "--json", str(file)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[1].split()[:2] == ["all", "4"]
    assert file.read_text(encoding="utf-8").count('"optimum"') == 4
