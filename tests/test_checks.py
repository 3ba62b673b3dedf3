"""Odd and wrong arguments of `learn_metric`: accepted where they have a meaning, else named."""

from fractions import Fraction
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from helpers import SHAPES, limited, random_case, solver_of
from numpy.testing import assert_allclose

from tatml import Dykstra, Newton

SOLVERS = ["newton", "dykstra"]
EYES = [np.eye(3), np.eye(2)]
UPPER = np.eye(3) + np.triu(np.ones((3, 3)), 1)


@pytest.fixture
def case():
    return random_case(SHAPES["two ragged"], C=5.0)


@pytest.fixture(params=SOLVERS)
def solver(request):
    return request.param


def masked(values):
    values = np.asarray(values)
    return np.ma.array(values, mask=np.arange(values.size).reshape(values.shape) == 3)


# Sources of random numbers


@pytest.mark.parametrize("order", ["permutation", "random", "cyclic"])
def test_dykstra_takes_a_generator(case, order):
    one, two = (
        case.learn(tol=1e-6, solver=Dykstra(order=order, random_state=np.random.default_rng(3)))
        for _ in range(2)
    )
    assert one.converged
    assert one.b0 == two.b0


def test_newton_takes_a_generator():
    case = random_case(SHAPES["two ragged"], C=5.0, n_pairs=200)
    problem, generators = limited(case.problem(), 2), map(np.random.default_rng, (3, 3, 4))
    runs = [
        Newton(linear_solver="dense", random_state=rng).solve(problem, tol=1e-12)
        for rng in generators
    ]
    assert runs[0].converged
    assert runs[0].history["gap"].tolist() == runs[1].history["gap"].tolist()
    assert runs[0].history["gap"][1] != runs[2].history["gap"][1]


@pytest.mark.parametrize("value", ["seed", 1.5, -1])
def test_what_is_no_source_of_random_numbers_is_named(case, solver, value):
    with pytest.raises(ValueError, match=f"random_state: expected None.*got {value!r}"):
        case.learn(solver=solver_of(solver, random_state=value))


# The start


BAD_STARTS = {
    "NaN in L": ([np.nan * np.eye(3), np.eye(2)], 1.0, ValueError, "init: block 0: .*finite"),
    "singular": ([np.eye(3), np.ones((2, 2))], 1.0, ValueError, "init: block 1: .*invertible"),
    "wrong shape": ([np.eye(2), np.eye(2)], 1.0, ValueError, "init: expected matrices of shapes"),
    "NaN b0": (EYES, np.nan, ValueError, "init: expected a finite b0, got nan"),
    "infinite b0": (EYES, inf, ValueError, "init: expected a finite b0, got inf"),
    "text b0": (EYES, "one", TypeError, "init: expected an earlier result"),
    "no L": (None, 1.0, TypeError, "init: expected a list of matrices, got None"),
    "text L": ("ab", 1.0, TypeError, "init: expected a list of matrices"),
}


@pytest.mark.parametrize("kind", BAD_STARTS)
def test_a_bad_start_is_named(case, solver, kind):
    L, b0, error, message = BAD_STARTS[kind]
    with pytest.raises(error, match=message):
        case.learn(solver=solver, init=SimpleNamespace(L=L, b0=b0))


# The prior


BAD_PRIORS = {
    "ragged": ([[[1, 0], [0]], np.eye(2)], ValueError, "prior: expected .*rows of equal length"),
    "complex": ([np.eye(3) + 0j, np.eye(2)], TypeError, "prior: expected real.*complex128"),
    "strings": ([np.full((3, 3), "a"), np.eye(2)], TypeError, "prior: expected real.*<U1"),
    "objects": ([np.full((3, 3), None), np.eye(2)], TypeError, "prior: expected real.*NoneType"),
    "asymmetric": ([UPPER, np.eye(2)], ValueError, "prior: block 0: expected a symmetric.*by 1$"),
    "sparse": ([scipy.sparse.eye_array(3), np.eye(2)], TypeError, "prior: expected a dense"),
    "masked": ([masked(np.eye(3)), np.eye(2)], TypeError, "prior: .*without masked entries"),
}


@pytest.mark.parametrize("kind", BAD_PRIORS)
def test_a_bad_prior_is_named(case, kind):
    prior, error, message = BAD_PRIORS[kind]
    with pytest.raises(error, match=message):
        case.learn(prior=prior)


@pytest.mark.parametrize(
    ("prior", "error"),
    [
        ([[1, 0, 0], [0, 1], [0, 0, 1]], ValueError),
        (np.eye(3) + 0j, TypeError),
        (np.full((3, 3), "a"), TypeError),
        (UPPER, ValueError),
    ],
    ids=["ragged", "complex", "strings", "asymmetric"],
)
def test_a_bad_prior_of_one_block_is_named(prior, error):
    with pytest.raises(error, match=r"^prior: "):
        random_case([(3, 1)]).learn(prior=prior)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_prior_in_any_units_is_the_rescaled_problem(solver):
    """W0 = diag(u²) is W0 = I for the features u x: W = diag(u) W' diag(u)."""
    case, units = random_case([(3, 1)], C=5.0, n_pairs=30), np.sqrt([1e-9, 1.0, 1e9])
    natural = case.with_(arrays=[case.arrays[0] / units[:, None]])
    expected = case.learn(tol=1e-8, solver=solver_of(solver, random_state=0))
    found = natural.with_(prior=np.diag(units**2)).learn(
        tol=1e-8, solver=solver_of(solver, random_state=0)
    )
    assert found.converged
    assert_allclose(found.primal, expected.primal, rtol=2e-8)
    assert_allclose(found.b0, expected.b0, rtol=1e-3)
    assert_allclose(found.W[0] / units / units[:, None], expected.W[0], atol=1e-3)


# Numbers, words and functions


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"C": 10**400}, ValueError, "C: expected a positive number, got more than a float"),
        ({"C": 1j}, TypeError, "C: expected a number, got 1j"),
        ({"solver": ["newton"]}, ValueError, r"solver: expected 'newton', .*got \['newton'\]"),
        ({"margin": "12"}, TypeError, r"margin: expected two numbers .*got '12'"),
        ({"margin": (True, 2)}, TypeError, "margin: expected a number, got True"),
        ({"margin": (0.5, inf)}, ValueError, "margin: expected a positive number, got inf"),
        ({"callback": 3}, TypeError, "callback: expected a function or None, got 3"),
    ],
    ids=["huge", "complex", "listed", "text margin", "bool margin", "infinite margin", "callback"],
)
def test_a_bad_argument_is_named(case, options, error, message):
    with pytest.raises(error, match=message):
        case.learn(**options)


@pytest.mark.parametrize("C", [Fraction(1, 2), np.float32(0.5), np.array(0.5)[()]])
def test_any_real_number_will_do(case, C):
    assert case.with_(C=C).learn().primal == case.with_(C=0.5).learn().primal


@pytest.mark.parametrize("name", ["pairs", "similar", "weights"])
def test_masked_entries_are_named(case, name):
    values = np.ones(len(case.pairs)) if name == "weights" else getattr(case, name)
    with pytest.raises(TypeError, match=f"{name}: expected an array without masked entries"):
        case.with_(**{name: masked(values)}).learn()


# Sizes that no objective can hold


def large(case):
    return [1e6 * array for array in case.arrays]


OVERFLOWING = {
    "mu0": lambda case: case.with_(mu0=1e300),
    "mu0 fixed": lambda case: case.with_(mu0=1e200, c0=inf),
    "C": lambda case: case.with_(C=1e300, arrays=large(case)),
    "weights": lambda case: case.with_(weights=np.full(14, 1e300), arrays=large(case)),
    "C times weights": lambda case: case.with_(C=1e200, weights=np.full(14, 1e200)),
}


@pytest.mark.parametrize("kind", OVERFLOWING)
def test_an_objective_that_overflows_is_refused(case, solver, kind):
    """A warning would be an error here too."""
    with pytest.raises(ValueError, match="C, c0, mu0, weights: expected sizes for which the obj"):
        OVERFLOWING[kind](case).learn(solver=solver)
