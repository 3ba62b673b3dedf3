"""The certificate of a returned point: its bounds hold, and the result follows from L."""

from math import inf, sqrt

import gmpy2
import numpy as np
import oracle
import pytest
from helpers import SHAPES, random_case, random_factors, shapes_with, symmetric
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import tatml
from tatml import PAPER, TATML, AllPairs, Compute, Dykstra, Status, learn_metric
from tatml._array import lower_triangular
from tatml._optim.certificate import (
    CHUNK,
    PairTotals,
    _certificate,
    _gap_along,
    _objective,
    _slack_along,
    accumulated,
    excess_by_cholesky,
    excess_by_eigenvalues,
    excess_within,
    full_certificate,
    pair_totals,
    quick_certificate,
)
from tatml._optim.pair_term import PairTerm
from tatml._optim.problem import LARGE
from tatml._optim.sums import PairSums, row_errors
from tatml._sharding.all_pairs import tile_sums
from tatml.losses import BurgLoss, SquaredHinge

# The bounds of (Round)


def test_the_excess_is_that_of_the_eigenvalues():
    """(GapN): tr G − logdet(I + G) = Σ e − log(1 + e), ∞ outside of the domain."""
    for seed in range(10):
        for size in (1e-3, 0.3, 5.0):
            G = size * symmetric(np.random.default_rng(seed).normal(size=(5, 5)))
            e = np.linalg.eigvalsh(G)
            expected = np.sum(e - np.log1p(e)) if e[0] > -1 else inf
            assert_allclose(excess_by_cholesky(G), expected, rtol=1e-8, atol=1e-14)
            assert_allclose(excess_by_eigenvalues([e[:2], e[2:]]), expected, rtol=1e-12)
    assert excess_by_cholesky(np.full((2, 2), np.nan)) == inf
    assert excess_by_eigenvalues([np.array([np.nan])]) == inf


@pytest.mark.parametrize("shapes", [[(5, 1), (3, 2)], [(70, 1)]], ids=["small", "large"])
@pytest.mark.parametrize("size", [1e-9, 1e-5, 1e-3, 0.3])
def test_the_gap_is_as_accurate_by_cholesky_as_by_eigenvalues(shapes, size):
    """Large matrices use Cholesky factors unless the gap is so small that digits would be lost."""
    case = random_case(shapes, n_pairs=40, n_samples=30, C=2.0)
    result = case.learn(tol=1e-13)
    point = case.at([W * (1 + size) for W in result.W], result.b0)
    gap, large = point.gap, case.sizes[0] >= LARGE
    if size == 1e-3:
        assert ("eigenvalues" in vars(point)) != large  # they are slow to compute
    e = np.concatenate(point.eigenvalues)
    near = np.sum(e - np.log1p(e)) + point.threshold_slope**2 / 2
    assert near <= 0.01 * point.primal or size == 0.3
    if near <= 0.01 * point.primal:
        assert_allclose(gap, near, rtol=1e-6)
    else:
        assert 0 < gap <= near * (1 + 1e-9)


@pytest.mark.parametrize("error", [0.0, 1e-8, 1e-3, 0.2])
def test_no_error_within_the_bound_makes_the_excess_larger(error):
    rng = np.random.default_rng(0)
    for size in (1e-6, 0.05, 0.5, 3.0) * 10:
        blocks = [rng.normal(size=(n, n)) for n in (2, 4)]
        G = [size * (block @ block.T / len(block) - 0.3 * np.eye(len(block))) for block in blocks]
        bound = excess_within(G, error)
        E = [block + block.T for block in (rng.normal(size=g.shape) for g in G)]
        scale = error / sqrt(sum(np.sum(e * e) for e in E))
        moved = np.concatenate(
            [np.linalg.eigvalsh(g + scale * e) for g, e in zip(G, E, strict=True)]
        )
        value = np.sum(moved - np.log1p(moved)) if moved.min() > -1 else inf
        assert value <= bound * (1 + 1e-12)
        if error <= 1e-8:  # and the bound is not needlessly large
            assert bound <= 1.25 * value + 10 * error * size + error**2


def test_the_excess_is_infinite_where_a_point_may_be_outside_the_cone():
    assert excess_within([np.diag([-1.0 + 1e-9, 0.0])], 1e-8) == inf
    assert excess_within([np.diag([np.nan, 0.0])], 0.0) == inf


@pytest.mark.parametrize("rest", [[], [0.5, 2.0]])
def test_the_excess_holds_the_rounding_of_the_eigenvalues(rest):
    """Near the boundary, 10 n u (1 + ‖G‖) more error makes the bound visibly larger."""
    e = np.array([-1 + 1e-10, *rest])
    error = 10 * len(e) * np.finfo(float).eps / 2 * (1 + np.linalg.norm(e))
    slopes, ratio = e / (1 + e), error / (1 + e[0])
    larger = error * np.linalg.norm(slopes) + ratio**2 / (2 * (1 - ratio))
    found = excess_within([np.diag(e)], 0.0) - np.sum(e - np.log1p(e))
    assert_allclose(found, larger, rtol=1e-3)


LOSSES = {
    "hinge": SquaredHinge(np.array([1.0, -1, 1, -1]), np.array([2.0, 3, 0, 1]), np.ones(4)),
    "burg": BurgLoss(np.array([1.0, -1, 1, -1]), np.array([2.0, 3, 0, 1]), np.full(4, 1.3)),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_no_distance_within_the_error_makes_a_pair_worse(kind):
    loss, rng = LOSSES[kind], np.random.default_rng(0)
    for error in (0.0, 1e-9, 0.1):
        for _ in range(30):
            zeta, other = rng.uniform(0.2, 3, size=4), rng.uniform(0.2, 3, size=4)
            s = loss.slope(other)
            bound = loss.gap_within(zeta, s, np.full(4, error))
            for share in (-1, -0.3, 0, 0.5, 1):
                gap = loss.gap(zeta + share * error, s)
                assert np.all(gap <= bound * (1 + 1e-12) + 1e-300), (error, share)


def test_a_distance_that_may_be_zero_has_no_bound_where_the_loss_is_infinite():
    loss = BurgLoss(np.array([-1.0]), np.ones(1), np.ones(1))
    zeta = np.array([1e-3])
    with np.errstate(invalid="ignore"):  # as in the solvers
        assert np.isnan(loss.gap_within(zeta, loss.slope(zeta), np.array([2e-3]))[0])


@pytest.mark.parametrize(("weight", "bound", "s"), [(1.0, 1e-8, 0.0), (1e-9, 0.5, 1.0)])
def test_the_bound_of_a_burg_loss_holds_the_rounding_of_d_over_b_and_of_s_d_over_w(
    weight, bound, s
):
    """Both terms are rounded, so that D = 2 counts as D ± 4 ε D (1 + D/b + |s| D/w)."""
    loss = BurgLoss(np.ones(1), np.array([weight]), np.array([bound]))
    zeta, s = np.array([2.0]), np.array([-s])
    error = 8 * np.finfo(float).eps * (1 + 2 / bound + 2 * abs(s) / weight)
    change = loss.gap_within(zeta, s, np.zeros(1)) - loss.gap(zeta, s)
    assert_allclose(change, np.abs(loss.slope(zeta) - s) * error, rtol=1e-3)


@pytest.mark.parametrize("held", ["samples", "differences"])
def test_the_rounding_error_of_a_difference_is_below_its_bound(held):
    """With exact numbers, for features of one large column that L cancels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2, 4)) * np.array([1e8, 1.0, 1e-3, 1e4])
    pairs = np.array([[0, 1], [2, 3], [4, 5], [0, 5]])
    L = rng.normal(size=(4, 4))
    sums = PairSums.of([X], *pairs.T)
    if held == "differences":
        sums = PairSums.of(sums.rows(slice(0, 4)))
    computed, bound = sums.transformed([L]).rows(slice(0, 4))[0], row_errors(sums, [L])
    exact = np.frompyfunc(gmpy2.mpfr, 1, 1)
    with oracle._digits():
        difference = exact(X[pairs[:, 0]]) - exact(X[pairs[:, 1]])
        error = exact(computed) - difference.dot(exact(L))
        moved = np.array([float((row * row).sum() ** 0.5) for row in error.reshape(4, -1)])
    assert np.all(moved <= bound)
    assert np.all(bound <= 1e3 * moved)


def test_distances_of_tiles_know_their_cancellation():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 1, 3)) + 1e6 * rng.integers(2, size=(8, 1, 1))
    sums = tile_sums([X], 8)
    distances, _, _, reach, _ = sums.evaluate(lambda part, d: d)
    reach, moved = reach(), row_errors(sums, [np.eye(3)])
    error = accumulated(20, 2.0**-53) * reach**2 + 2 * reach * moved + moved**2
    exact = np.sum(
        (X[sums.graph.first] - X[sums.graph.second]) ** 2, axis=(1, 2)
    )  # subtracted without error
    assert np.all(np.abs(distances - exact) <= error)
    assert np.all(error <= 1e-2 * distances)


def test_totals_add_up_to_those_of_the_pairs():
    case = random_case(SHAPES["two ragged"], n_pairs=30, weights=True)
    problem = case.problem()
    point = problem.at(random_factors(case), 0.7)
    totals = pair_totals(
        problem.pairs.loss,
        point.b0,
        point.pairs.evaluation.distances,
        point.term.totals.scatter,
        reach=np.sqrt(point.pairs.evaluation.distances),
        moved=1e-14,
        terms=50,
    )
    assert_allclose(totals.loss, point.term.totals.loss, rtol=1e-14)
    assert_allclose(totals.force, point.term.totals.force, rtol=1e-12)
    assert 0 < totals.slack < 1e-20
    assert 0 < totals.scatter_error < 1e-10
    assert 0 < totals.loss_error < 1e-10


def test_totals_are_summed_in_chunks_that_cover_every_pair_once():
    n_pairs, parts = 2 * CHUNK + 1, []

    class Recorded(SquaredHinge):
        def __getitem__(self, part):
            parts.append(part)
            return super().__getitem__(part)

    D = np.random.default_rng(0).uniform(0.5, 2, size=n_pairs)
    one = np.ones(n_pairs)
    loss = Recorded(one, one, one)
    totals = pair_totals(loss, 1.0, D, [], moved=1e-14 * one, terms=50)
    assert [part.start for part in parts] == [0, CHUNK, 2 * CHUNK]
    assert [part.stop for part in parts] == [CHUNK, 2 * CHUNK, n_pairs]
    assert_allclose(totals.loss, np.sum(np.maximum(D - 1, 0) ** 2) / 2, rtol=1e-12)


def test_the_error_of_the_scatter_is_below_its_bound():
    """With exact numbers, for multipliers of both signs whose parts nearly cancel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 1, 3)) * np.array([1e6, 1.0, 1e-3])
    pairs, L = np.array([[0, 1], [2, 3], [4, 5], [6, 7]]), rng.normal(size=(3, 3))
    loss = SquaredHinge(np.array([1.0, -1, 1, -1]), np.ones(4), np.ones(4))
    term = PairTerm(PairSums.of([X], *pairs.T), loss)
    s = loss.sign * rng.uniform(1, 2, size=4)
    totals = term.certify([L], 1.0, s)
    exact = np.frompyfunc(gmpy2.mpfr, 1, 1)
    with oracle._digits():
        images = (exact(X[pairs[:, 0], 0]) - exact(X[pairs[:, 1], 0])).dot(exact(L))
        error = exact(totals.scatter[0]) - (images.T * exact(s)).dot(images)
        moved = float((error * error).sum() ** 0.5)
    assert 0 < moved <= totals.scatter_error <= 1e3 * moved


def test_some_pairs_are_certified_with_their_losses_in_float64():
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(8, 1, 3)).astype(np.float32), rng.integers(8, size=(30, 2))
    sign, gamma = np.tile([1.0, -1.0], 15), np.tile([0.3, 1.7], 15)
    loss = SquaredHinge(sign, rng.uniform(1, 2, size=30), gamma)
    term = PairTerm(PairSums.of([X], *pairs.T), loss.placed(X), given_loss=loss)
    some, s = np.arange(0, 30, 3), sign[::3] * rng.uniform(1, 2, size=10)
    assert term.take(some, 3.0).loss.gamma.dtype == np.float32
    force = term.take(some, 3.0).certify([np.eye(3)], 1.0, s).force
    assert_allclose(force, gamma[some] @ s, rtol=1e-14)
    rounded = term.with_loss(term.loss).take(some, 3.0).certify([np.eye(3)], 1.0, s).force
    assert_allclose(rounded, gamma.astype(np.float32)[some] @ s, rtol=1e-14)


def test_every_error_of_the_sums_is_part_of_the_gap():
    """At the solution the gap consists of errors: η²/2 of the scatter, and the others in full."""
    case = random_case(SHAPES["two ragged"], n_pairs=30)
    problem, result = case.problem(), case.learn()
    totals = problem.term.certify(result.L, result.b0, None)

    def gap(**changes):
        changed = totals._replace(**changes)
        return _certificate(problem, result.L, result.L, result.b0, changed, 0.0).gap

    assert gap() < 1e-12
    assert_allclose(gap(scatter_error=1e-3), 1e-6 / 2, rtol=0.01)
    assert_allclose(gap(force_error=1e-3), 1e-6 / 2, rtol=0.01)  # c0 = 1
    assert_allclose(gap(slack=1e-3), 1e-3, rtol=0.01)
    for name in ("loss", "loss_error"):  # what exceeds a float proves nothing
        without = totals._replace(**{name: inf})
        found = _certificate(problem, result.L, result.L, result.b0, without, 0.0)
        assert (found.dual, found.gap, found.floor) == (0.0, inf, inf)
        assert (found.primal == inf) == (name == "loss")
    known = totals._replace(loss=3.0, loss_error=1.0, slack=0.25)
    for quadratic, ends in ((True, (6.25, 0.25)), (False, (4.0, 0.25))):
        found = [_slack_along(known, theta, quadratic) for theta in (0.0, 1.0)]
        assert_allclose(found, ends)


def test_the_rounding_error_of_a_prior_is_bounded_or_infinite():
    """C = [[1, 0], [k, 1]] is exact, ‖|C⁻¹||C|‖² = 4k² + 2, and the bound needs γ₄(4k² + 2) < 1."""
    problem = random_case([(2, 1)], n_pairs=10).problem()
    for k in (1.0, 1e3, 1e7, 2.3e7, 2.5e7, 3e7):
        prior = [np.array([[1.0, k], [k, k * k + 1]])]
        condition, error = problem.with_prior(prior).prior_rounding
        assert_allclose(condition, sqrt(4 * k * k + 2), rtol=1e-12)
        share = accumulated(4, 2.0**-53) * (4 * k * k + 2)
        assert_allclose(error, share / (1 - share) if share < 1 else inf, rtol=1e-12)
    assert problem.prior_rounding == (1.0, 0.0)


def test_the_rounding_error_of_the_priors_of_two_blocks_enters_the_objective():
    """By 2 √(N M) times its bound, where it exceeds all other rounding errors."""
    case = random_case([(2, 1), (2, 1)], n_pairs=10)
    prior = 2 * [np.array([[1.0, 1e6], [1e6, 1e12 + 1]])]
    problem = case.problem().with_prior(prior)
    totals = problem.term.certify(case.eyes, 1.0, None)._replace(loss=0.0, loss_error=0.0)
    error = _objective(problem, case.eyes, 1.0, totals, 0.0, 2.0**-53)[1]
    assert_allclose(error, 2 * sqrt(4 * 2) * problem.prior_rounding[1], rtol=1e-6)


@pytest.mark.parametrize("of_rank_1", [False, True])
def test_the_rounding_error_of_the_gradient_is_part_of_the_gap(of_rank_1):
    """S = I − BᵀB as computed, so that the gradient is near 0 and consists of rounding errors.

    Of rank 1, BᵀB is large and its norm is its trace; otherwise it is almost I.
    """
    n, rng = 8, np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    B = 1e4 * np.outer(Q[0], Q[1]) if of_rank_1 else Q
    S = np.eye(n) - B.T @ B
    with gmpy2.context(gmpy2.get_context(), precision=200):
        exact = [list(map(gmpy2.mpfr, row)) for row in B.tolist()]
        gram = np.array([[sum(r[i] * r[j] for r in exact) for j in range(n)] for i in range(n)])
        gradient = (gram + S - np.eye(n)).astype(float)
    zero = PairTotals(*7 * [0.0], [S])
    problem = random_case([(n, 1)]).problem()
    gap_at, _ = _gap_along(problem, [B], problem.mu0, zero, 0.0, 2.0**-53)
    least = np.sum(gradient**2) / 2  # in second order
    assert 0 < least < gap_at(1.0)
    assert gap_at(1.0) < 1e5 * least  # the bound allows for the worst roundings


def test_the_rounding_error_of_the_force_makes_the_gap_larger():
    """(|γᵀs|/√c0 + its error)²/2, for a force of 2 with an error of 0.5 and c0 = 1."""
    problem = random_case([(2, 1)]).problem()
    totals = PairTotals(0.0, 0.0, 2.0, 0.5, 0.0, 0.0, 0.0, [np.zeros((2, 2))])
    gap_at, _ = _gap_along(problem, [np.eye(2)], problem.mu0, totals, 0.0, 2.0**-53)
    assert_allclose(gap_at(1.0), 2.5**2 / 2, rtol=1e-6)


def test_successive_roundings_that_leave_no_digits_are_unbounded():
    assert_allclose(accumulated(4, 0.1), 0.4 / 0.6)
    assert accumulated(5, 0.1) == inf


# The two ways to a certificate


@pytest.mark.parametrize(("shapes", "c0"), shapes_with([0.3, inf]))
@pytest.mark.parametrize("prior", [False, True])
def test_both_ways_agree_on_ordinary_problems(shapes, c0, prior):
    case = random_case(shapes, n_pairs=30, C=3.0, c0=c0, prior=prior)
    problem, result = case.problem(), case.learn(tol=1e-4)
    point = problem.at(problem.whitened(result.L), result.b0)
    L, triangular = problem.returned(point.L)
    quick = quick_certificate(point, triangular)
    full = full_certificate(problem, L, triangular, point.b0)
    for certificate in (quick, full):
        assert_allclose(certificate.primal, case.primal(result.W, result.b0), rtol=1e-12)
        assert_allclose(certificate.gap, point.gap, rtol=0.05, atol=1e-20)
        assert certificate.dual <= certificate.primal - certificate.gap
        assert_allclose(certificate.dual, certificate.primal - certificate.gap, rtol=1e-10)
    assert full.floor <= quick.floor < 1e-15


def test_the_quick_certificate_knows_the_error_of_triangular_factors():
    """At least a relative error of 20 n² u in L, hence η of twice that, and η²/2 in the gap."""
    case = random_case([(40, 1)], n_pairs=30)
    problem, result = case.problem(), case.learn()
    point = problem.at(problem.whitened(result.L), result.b0)
    error = 2 * 20 * 40**2 * 2.0**-53 * np.sum(point.L[0] ** 2)
    assert quick_certificate(point, problem.returned(point.L)[1]).floor > error**2 / 2


@pytest.mark.parametrize("c0", [0.3, inf])
def test_far_from_the_solution_a_multiple_of_the_multipliers_certifies(c0):
    case = random_case(SHAPES["two ragged"], n_pairs=30, C=100.0, c0=c0)
    problem, optimum = case.problem(), case.learn().primal
    point = problem.at([0.3 * np.eye(n) for n in case.sizes], case.mu0)
    assert min(np.min(e) for e in point.eigenvalues) < -1  # s itself is no dual point
    certificate = quick_certificate(point, problem.returned(point.L)[1])
    assert 0 <= certificate.dual <= optimum
    assert certificate.primal - optimum <= certificate.gap <= point.primal * (1 + 1e-8)
    assert_allclose(certificate.gap, point.gap, rtol=0.01)


@pytest.mark.parametrize(("size", "seed"), [(1e8, 0), (1e8, 1), (1e9, 2), (1e9, 3)])
@pytest.mark.parametrize("way", ["memory", "shards", "all pairs"])
def test_large_features_are_certified_wherever_their_pairs_are(size, seed, way):
    rng = np.random.default_rng(seed)
    y = np.arange(8) % 2
    X = (rng.normal(size=(8, 5)) + y[:, None]) * size
    pairs = np.array([(i, j) for i in range(8) for j in range(i + 1, 8)])
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    problem = oracle.Problem([X[:, :, None]], pairs, similar, tol=1e-4)
    given = {
        "memory": (X, pairs, similar, {}),
        "shards": (X, pairs, similar, {"compute": Compute(max_memory="30MB")}),
        "all pairs": (X, AllPairs(y), None, {}),
    }
    *arguments, options = given[way]
    result = learn_metric(*arguments, tol=1e-4, **options)
    assert result.converged
    assert oracle.judge(problem, result) == []


def test_a_proof_out_of_reach_is_a_status():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 4)) * 1e13
    pairs, similar = [[0, 1], [2, 3], [4, 5], [6, 7]], [True, True, False, False]
    with pytest.warns(ConvergenceWarning, match="precision allows no further progress"):
        result = learn_metric(X, pairs, similar)
    assert result.status is Status.PRECISION
    assert not result.converged


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("prior", [False, True])
def test_the_certificate_of_float32_is_that_of_its_factor(dtype, prior):
    case = random_case(SHAPES["two ragged"], n_pairs=40, C=3.0, prior=prior)
    result = case.learn(tol=1e-5, compute=Compute(dtype=dtype))
    optimum = case.learn().primal
    assert result.converged
    value = case.primal([L.astype(float) @ L.T.astype(float) for L in result.L], result.b0)
    assert optimum - 1e-12 <= value <= optimum + result.gap
    assert result.dual <= optimum
    assert_allclose(result.primal, value, rtol=1e-6)  # the features are rounded


@pytest.mark.parametrize("seed", range(3))
def test_float32_certifies_the_problem_as_it_was_given(seed):
    """C and the margins are no float32 numbers; the certificate is for the unrounded ones."""
    rng = np.random.default_rng(seed)
    X, pairs = 1e-3 * rng.normal(size=(8, 3)), np.array([[0, 1], [2, 3], [4, 5], [6, 7]])
    given = {"C": 0.1, "c0": inf, "margin": (0.3, 1.7), "tol": 1e-5}
    problem = oracle.Problem([X[:, :, None]], pairs, np.zeros(4, dtype=bool), **given)
    result = problem.learn(compute=Compute(dtype="float32"))
    assert result.converged
    lower, upper = oracle.exact_optimum(problem)
    value = oracle.exact_value(problem, [L.astype(float) for L in result.L], result.b0)
    assert result.dual <= upper
    assert value - lower <= result.gap


@pytest.mark.parametrize("solver", ["newton", Dykstra(order="cyclic")], ids=str)
def test_itml_is_certified_with_its_own_rounding(solver):
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    model = tatml.ITML(
        prior=np.eye(4) / 4e8, solver=solver, tol=1e-5, random_state=0, n_pairs_per_class=20
    )
    result = model.fit(1e4 * (X + y[:, None]), y).result_
    best = model.set_params(solver="newton", tol=1e-12).fit(1e4 * (X + y[:, None]), y).result_
    assert result.converged
    assert best.dual - 1e-9 <= result.primal <= best.primal + result.gap
    assert result.dual <= best.primal


# Solvable problems are solved


def stiff_case(n_pairs, C, scale, seed=0):
    """Return a case with a loss so stiff that φ'(ζ) at computed distances is rounding error."""
    case = random_case([(5, 1)], seed=seed, n_pairs=n_pairs, n_samples=12, C=C)
    square = float(np.mean(case.distances(case.eyes))) * scale**2
    return case.with_(arrays=[scale * array for array in case.arrays], mu0=square)


@pytest.mark.parametrize(("c0", "seed"), [(1.0, 0), (inf, 1), (1.0, 2), (inf, 3)])
def test_stiff_problems_are_solved_to_the_end(c0, seed):
    case = stiff_case(6, 1e3, 1e3, seed).with_(c0=c0)
    result = case.learn(tol=1e-8)
    assert result.converged
    problem = oracle.Problem(**vars(case) | {"tol": 1e-8})
    assert oracle.judge(problem, result) == []


@pytest.mark.parametrize("seed", range(6))
def test_large_features_with_a_small_threshold_are_solved(seed):
    """Features of 1e6 and C = 1, where a fit once stopped far from the solution."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(7, n, 1)) * size for n, size in ((5, 1e6), (2, 1.0), (6, 1e3))]
    pairs = np.array([rng.choice(7, 2, replace=False) for _ in range(20)])
    problem = oracle.Problem(arrays, pairs, rng.random(20) < 0.5)
    result = problem.learn()
    assert result.converged
    assert oracle.judge(problem, result) == []


# What is returned follows from L


@pytest.mark.parametrize("solver", ["newton", "dykstra"])
@pytest.mark.parametrize("prior", [False, True])
def test_the_factor_is_triangular_and_gives_the_matrix(solver, prior):
    result = random_case(SHAPES["two ragged"], prior=prior).learn(solver=solver, tol=1e-6)
    for L, W in zip(result.L, result.W, strict=True):
        assert_array_equal(L, np.tril(L))
        assert np.all(np.diag(L) > 0)
        assert_allclose(W, L @ L.T, rtol=1e-15, atol=1e-15 * np.max(W))
        assert_array_equal(W, W.T)


def test_a_factor_is_made_triangular_without_another_metric():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(5, 5)) * np.array([1e-8, 1, 1, 1e8, 1])[:, None]
    L = lower_triangular(factor)
    assert_array_equal(L, np.tril(L))
    assert np.all(np.diag(L) > 0)
    scale = 1 / np.linalg.norm(factor, axis=1)
    expected = scale[:, None] * (factor @ factor.T) * scale
    assert_allclose(scale[:, None] * (L @ L.T) * scale, expected, atol=1e-14)


@pytest.mark.parametrize("seeds", np.split(np.arange(20), 2), ids=["0-9", "10-19"])
def test_the_papers_setting_fits_large_features(seeds):
    """The computed W has no Cholesky factor: its eigenvalues range from 1e-18 to 1."""
    for seed in map(int, seeds):
        assert_large_features_fit(seed)


def assert_large_features_fit(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(6, 10)) * 1e9, np.arange(6) % 2
    model = TATML(**PAPER, random_state=seed, tol=1e-2)
    with np.errstate(all="raise"):
        model.fit(X, y)
    assert model.result_.converged
    assert_array_equal(model.components_, model.result_.L[0].T)
    distances = model.pair_distance(model.pairs_, X)
    assert np.all(np.isfinite(distances))
    assert np.all(distances > 0)
    L = model.result_.L[0]
    for (i, j), distance in zip(model.pairs_, distances, strict=True):
        assert_allclose(distance, np.linalg.norm(L.T @ (X[i] - X[j])), rtol=1e-6)
