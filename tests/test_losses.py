"""The pair losses agree with docs/theory.md: (P), (D), (LS) and (Itml)."""

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest
from helpers import SHAPES, random_case
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, xlogy

from tatml import Newton
from tatml._optim import losses
from tatml.losses import BurgLoss, LogisticLoss, PairLoss, SquaredHinge

N_PAIRS = 400


def random_loss(kind, seed=0):
    """Draw a loss of N_PAIRS pairs, and a ζ in the interior of its domain for each."""
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], size=N_PAIRS)
    weight = rng.uniform(0.1, 5, size=N_PAIRS)
    if kind == "hinge":
        return SquaredHinge(sign, weight, np.where(sign > 0, 0.5, 2.0)), rng.normal(size=N_PAIRS)
    if kind == "logistic":
        return LogisticLoss(sign, weight, np.ones(N_PAIRS)), 3 * rng.normal(size=N_PAIRS)
    bound = rng.uniform(0.5, 2, size=N_PAIRS)
    return BurgLoss(sign, weight, bound), bound * rng.uniform(0.3, 3, size=N_PAIRS)


def kink(loss):
    """Return the ζ at which φ' has its kink."""
    return loss.bound if isinstance(loss, BurgLoss) else np.zeros(N_PAIRS)


def elsewhere(loss, zeta):
    """Return another ζ of the domain for each pair."""
    unit = loss.bound if isinstance(loss, BurgLoss) else 1.0
    return np.roll(zeta / unit, 1) * unit


@pytest.fixture(params=["hinge", "logistic", "burg"])
def loss_and_zeta(request):
    return random_loss(request.param)


@pytest.fixture(params=["hinge", "burg"])
def one_sided(request):
    """Return a loss of violated pairs only, and a ζ for each pair."""
    return random_loss(request.param)


def paper_value(loss, zeta):
    """Compute φ as docs/theory.md defines it, pair by pair."""
    values = []
    for k, z in enumerate(zeta):
        y, w = loss.sign[k], loss.weight[k]
        if isinstance(loss, SquaredHinge):
            values.append(w / 2 * max(0.0, y * z) ** 2)
        elif isinstance(loss, LogisticLoss):
            values.append(w * np.logaddexp(0.0, y * z))
        else:
            b = loss.bound[k]
            wrong = z > b if y > 0 else z < b
            values.append(w * (z / b - np.log(z / b) - 1) if wrong else 0.0)
    return np.array(values)


def test_value_is_the_definition(loss_and_zeta):
    loss, zeta = loss_and_zeta
    values = loss.value(zeta)
    assert_allclose(values, paper_value(loss, zeta), rtol=1e-12, atol=1e-14)


def test_slope_is_the_derivative_of_value(loss_and_zeta):
    loss, zeta = loss_and_zeta
    h = 1e-6
    difference = (paper_value(loss, zeta + h) - paper_value(loss, zeta - h)) / (2 * h)
    assert_allclose(loss.slope(zeta), difference, rtol=1e-7, atol=1e-8)


def test_curvature_is_the_derivative_of_slope(loss_and_zeta):
    loss, zeta = loss_and_zeta
    h = 1e-6
    smooth = np.abs(zeta - kink(loss)) > 10 * h
    difference = (loss.slope(zeta + h) - loss.slope(zeta - h)) / (2 * h)
    assert_allclose(loss.curvature(zeta)[smooth], difference[smooth], rtol=1e-7, atol=1e-8)


def test_only_violated_pairs_have_value_slope_and_curvature(one_sided):
    loss, zeta = one_sided
    violated = loss.sign * (zeta - kink(loss)) > 0
    assert 0.2 < np.mean(violated) < 0.8
    for function in (loss.value, loss.slope, loss.curvature):
        assert_array_equal(function(zeta) != 0, violated)
    assert np.all(loss.sign * loss.slope(zeta) >= 0)
    assert_array_equal(loss.slope(kink(loss)), 0)


def test_fenchel_young_holds_with_equality_at_the_slope(loss_and_zeta):
    loss, zeta = loss_and_zeta
    s = loss.slope(zeta)
    assert_allclose(loss.value(zeta) + loss.conjugate(s), s * zeta, rtol=1e-10, atol=1e-12)


def test_fenchel_young_is_an_inequality_elsewhere(loss_and_zeta):
    loss, zeta = loss_and_zeta
    s = loss.slope(elsewhere(loss, zeta))
    rest = loss.value(zeta) + loss.conjugate(s) - s * zeta
    assert rest.min() > -1e-12
    assert rest.max() > 1e-2


@pytest.mark.parametrize("kind", ["hinge", "logistic", "burg"])
def test_conjugate_is_the_supremum(kind):
    loss, zeta = random_loss(kind, seed=3)
    s = loss.slope(zeta)
    for k in range(20):
        one, low = loss.take(np.array([k])), 1e-9 if kind == "burg" else -10.0

        def minus(z, one=one, slope=s[k]):
            return float(one.value(np.array([z]))[0] - slope * z)

        found = minimize_scalar(minus, bounds=(low, 20.0), method="bounded")
        assert_allclose(loss.conjugate(s)[k], -found.fun, atol=1e-6)


def test_conjugate_is_zero_at_zero(loss_and_zeta):
    loss, zeta = loss_and_zeta
    assert_array_equal(loss.conjugate(0 * zeta), 0)


def test_a_quadratic_conjugate_goes_with_the_square(loss_and_zeta):
    loss, zeta = loss_and_zeta
    s = loss.slope(zeta)
    square = np.allclose(loss.conjugate(0.3 * s), 0.09 * loss.conjugate(s), rtol=1e-12)
    assert square == loss.quadratic


def test_increase_is_what_the_tangent_leaves(loss_and_zeta):
    loss, zeta = loss_and_zeta
    target = elsewhere(loss, zeta)
    change = target - zeta
    expected = paper_value(loss, target) - paper_value(loss, zeta) - loss.slope(zeta) * change
    increase = loss.increase(zeta, change)
    assert_allclose(increase, expected, rtol=1e-9, atol=1e-12)
    assert np.all(increase >= 0)
    before, after = (loss.sign * (z - kink(loss)) > 0 for z in (zeta, target))
    for case in (before & after, before & ~after, ~before & after, ~before & ~after):
        assert case.any()


def test_increase_of_a_tiny_change_keeps_its_digits(loss_and_zeta):
    loss, zeta = loss_and_zeta
    change = np.full(N_PAIRS, 1e-9)
    inside = np.abs(zeta - kink(loss)) > 1e-6
    expected = loss.curvature(zeta) * change**2 / 2
    assert_allclose(loss.increase(zeta, change)[inside], expected[inside], rtol=1e-6, atol=0)


def test_take_selects_and_scales(loss_and_zeta):
    loss, zeta = loss_and_zeta
    chosen = np.array([7, 3, 3, 200])
    part = loss.take(chosen, 2.5)
    s = loss.slope(zeta)[chosen]
    assert_allclose(part.value(zeta[chosen]), 2.5 * loss.value(zeta)[chosen], rtol=1e-14)
    assert_allclose(part.slope(zeta[chosen]), 2.5 * s, rtol=1e-14)
    assert_allclose(part.curvature(zeta[chosen]), 2.5 * loss.curvature(zeta)[chosen], rtol=1e-14)
    assert_allclose(part.conjugate(2.5 * s), 2.5 * loss.conjugate(loss.slope(zeta))[chosen])
    assert_array_equal(part.gamma, loss.gamma[chosen])


def test_a_slice_is_the_loss_of_a_run_of_pairs(loss_and_zeta):
    loss, zeta = loss_and_zeta
    run = slice(30, 90)
    for name in ("value", "slope", "curvature"):
        assert_array_equal(getattr(loss[run], name)(zeta[run]), getattr(loss, name)(zeta)[run])
    assert_array_equal(loss[run].gamma, loss.gamma[run])


@pytest.mark.parametrize("kind", ["hinge", "logistic", "burg"])
def test_a_pair_of_weight_zero_counts_for_nothing(kind):
    loss, zeta = random_loss(kind)
    nothing = loss.take(np.arange(N_PAIRS), 0.0)
    for function in (nothing.value, nothing.slope, nothing.curvature):
        assert_array_equal(function(zeta), 0)
    assert_array_equal(nothing.conjugate(0 * zeta), 0)
    assert_array_equal(nothing.increase(zeta, 0.1 * zeta), 0)


def test_burg_has_no_threshold():
    loss, _ = random_loss("burg")
    assert_array_equal(loss.gamma, np.zeros(N_PAIRS))


@pytest.mark.parametrize("kind", ["hinge", "logistic", "burg"])
def test_losses_work_on_strict_arrays(kind):
    xp = pytest.importorskip("array_api_strict")
    loss, zeta = random_loss(kind)
    strict = loss.placed(xp.asarray([0.0]))
    s, change = loss.slope(zeta), 0.3 * np.roll(np.abs(zeta), 1)
    for name, arguments in {
        "value": [zeta],
        "slope": [zeta],
        "curvature": [zeta],
        "conjugate": [s],
        "increase": [zeta, change],
    }.items():
        expected = getattr(loss, name)(*arguments)
        got = getattr(strict, name)(*map(xp.asarray, arguments))
        assert_allclose(np.asarray(got), expected, rtol=1e-12, atol=1e-14)
    part = strict.take(xp.asarray([5, 1]), 2.0)
    assert_allclose(np.asarray(part.weight), 2 * loss.weight[[5, 1]])


# The certificate of a pair


def random_domain_point(loss, seed):
    """Draw s in the interior of the domain of φ*."""
    rng = np.random.default_rng(seed)
    if isinstance(loss, SquaredHinge):
        return loss.sign * rng.exponential(size=N_PAIRS)
    if isinstance(loss, LogisticLoss):
        return loss.sign * loss.weight * rng.uniform(size=N_PAIRS)
    limit = np.where(loss.sign > 0, loss.weight / loss.bound, 3.0)
    return loss.sign * limit * rng.uniform(0, 0.99, size=N_PAIRS)


@pytest.mark.parametrize("seed", range(3))
def test_gap_is_what_fenchel_young_leaves(loss_and_zeta, seed):
    loss, zeta = loss_and_zeta
    s = np.where(np.arange(N_PAIRS) % 5 == 0, 0.0, random_domain_point(loss, seed))
    gap = loss.gap(zeta, s)
    expected = loss.value(zeta) + loss.conjugate(s) - s * zeta
    assert_allclose(gap, expected, rtol=1e-9, atol=1e-12)
    assert np.all(gap >= 0)
    assert np.mean(gap > 1e-3) > 0.5


def test_gap_vanishes_at_the_slope_to_the_last_digit(loss_and_zeta):
    loss, zeta = loss_and_zeta
    s = loss.slope(zeta)
    share = 1 - loss.sign * s / loss.weight if isinstance(loss, LogisticLoss) else 1.0
    assert np.all(loss.gap(zeta, s) <= 1e-29 / share + 1e-15 * (s == 0))


def test_gap_next_to_the_slope_keeps_its_digits(loss_and_zeta):
    """(s − φ')² / (2 φ'') for a small change of s: a difference of F and g would have none."""
    loss, zeta = loss_and_zeta
    violated = loss.sign * (zeta - kink(loss)) > 0.05
    s = loss.slope(zeta)
    nearby = s * (1 + 1e-6)
    expected = (nearby - s)[violated] ** 2 / (2 * loss.curvature(zeta)[violated])
    assert_allclose(loss.gap(zeta, nearby)[violated], expected, rtol=1e-3)


def exact_burg_increase(loss, zeta, change):
    """Compute φ(ζ + c) − φ(ζ) − φ'(ζ) c in long double, from log1p of exact small excesses."""
    sign, weight, bound, zeta, change = (
        np.asarray(array, dtype=np.longdouble)
        for array in (loss.sign, loss.weight, loss.bound, zeta, change)
    )

    def excess(distance):
        return np.where(sign * (distance - bound) > 0, (distance - bound) / bound, 0)

    def value(x):
        return weight * (x - np.log1p(x))

    before, after = excess(zeta), excess(zeta + change)
    slope = weight * before / (bound * (1 + before))
    return value(after) - value(before) - slope * change


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no longer double")
@pytest.mark.parametrize("unit", [2.0**-30, 2.0**-20, 2.0**-4])
def test_burg_increase_next_to_the_bound_keeps_its_digits(unit):
    """In all four cases of crossing; all sums of ζ, the change and the bound are exact."""
    rng = np.random.default_rng(0)
    sign, bound = rng.choice([-1.0, 1.0], size=N_PAIRS), rng.choice([0.5, 1.0, 2.0], size=N_PAIRS)
    loss = BurgLoss(sign, rng.uniform(0.1, 5, size=N_PAIRS), bound)
    before, after = (rng.integers(-6, 7, size=N_PAIRS) * unit for _ in range(2))
    zeta, change = bound * (1 + before), bound * (after - before)
    increase, expected = loss.increase(zeta, change), exact_burg_increase(loss, zeta, change)
    assert_allclose(increase, expected.astype(float), rtol=1e-14 / unit, atol=1e-15 * unit)
    assert np.all(increase >= 0)
    was, will = sign * before > 0, sign * after > 0
    for crossing in (was & will, was & ~will, ~was & will):
        assert np.all(increase[crossing & (before != after)] > 0)
    assert_array_equal(increase[~was & ~will], 0)


def test_the_series_of_x_minus_log1p_has_the_digits_of_the_function():
    """Against 40 digits, on both sides of the change to the closed form."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        for x in (1e-8, -3e-5, 9.9e-4, -9.9e-4, 1.1e-3, -1.1e-3, 0.5):
            exact = float(mpmath.mpf(x) - mpmath.log1p(x))
            assert_allclose(losses._minus_log1p(np.array([x])), exact, rtol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_pair_at_its_bound_is_not_active(sign):
    losses = [
        BurgLoss(np.array([sign]), np.ones(1), np.array([1.5])),
        SquaredHinge(np.array([sign]), np.ones(1), np.zeros(1)),
    ]
    for loss, at in zip(losses, (1.5, 0.0), strict=True):
        zeta = np.array([at])
        assert loss.curvature(zeta) == loss.value(zeta) == loss.slope(zeta) == 0
        assert loss.curvature(zeta + sign * 1e-9) > 0


# A loss of four methods


@dataclass(frozen=True)
class Logistic(PairLoss):
    """φ(ζ) = w log(1 + exp(y ζ)), as a user would write it."""

    sign: np.ndarray
    weight: np.ndarray
    gamma: np.ndarray

    def value(self, zeta):
        return self.weight * np.logaddexp(0, self.sign * zeta)

    def slope(self, zeta):
        return self.weight * self.sign * expit(self.sign * zeta)

    def curvature(self, zeta):
        return self.weight * expit(zeta) * expit(-zeta)

    def conjugate(self, s):
        share = self.sign * s / np.where(self.weight > 0, self.weight, 1)
        return self.weight * (xlogy(share, share) + xlogy(1 - share, 1 - share))


def random_logistic(seed=0, n_pairs=N_PAIRS):
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], size=n_pairs)
    weight = np.where(rng.random(n_pairs) < 0.1, 0.0, rng.uniform(0.1, 5, size=n_pairs))
    return Logistic(sign, weight, np.where(sign > 0, 0.5, 2.0)), 3 * rng.normal(size=n_pairs)


def test_the_base_class_computes_gap_and_increase_from_four_methods():
    loss, zeta = random_logistic()
    other = np.roll(zeta, 1)
    s, change = loss.slope(other), other - zeta
    rest = loss.value(zeta) + loss.conjugate(s) - s * zeta
    assert_allclose(loss.gap(zeta, s), rest, atol=1e-12)
    expected = loss.value(other) - loss.value(zeta) - loss.slope(zeta) * change
    assert_allclose(loss.increase(zeta, change), expected, atol=1e-12)
    tiny = np.full(N_PAIRS, 1e-9)
    assert_allclose(loss.increase(zeta, tiny), loss.curvature(zeta) * 5e-19, rtol=0.01)
    assert np.all(loss.gap(zeta, loss.slope(zeta)) >= 0)


def test_the_base_class_agrees_with_the_formulas_of_each_loss(loss_and_zeta):
    loss, zeta = loss_and_zeta
    s, change = random_domain_point(loss, 5), elsewhere(loss, zeta) - zeta
    assert_allclose(PairLoss.gap(loss, zeta, s), loss.gap(zeta, s), atol=1e-11)
    assert_allclose(PairLoss.increase(loss, zeta, change), loss.increase(zeta, change), atol=1e-11)
    error = 0.1 * np.abs(zeta)
    own, general = (of.gap_within(loss, zeta, s, error) for of in (type(loss), PairLoss))
    assert_allclose(general, own, rtol=1e-9, atol=1e-10)
    assert np.all(general >= own * (1 - 1e-14))


def test_the_largest_gap_is_not_exceeded_within_the_error():
    mpmath = pytest.importorskip("mpmath")
    loss, zeta = random_logistic(n_pairs=30)
    s, error = loss.slope(zeta), np.tile([0.0, 1e-9, 0.5], 10)
    bound = loss.gap_within(zeta, s, error)
    assert np.all(bound <= 1e-10 + 5 * error)
    with mpmath.workdps(40):
        for k, share in itertools.product(range(30), (-1, -0.5, 0, 1)):
            y, w = mpmath.mpf(loss.sign[k]), mpmath.mpf(loss.weight[k])
            z, slope = mpmath.mpf(zeta[k]) + share * mpmath.mpf(error[k]), mpmath.mpf(s[k])
            if w > 0:
                a = y * slope / w
                conjugate = w * (a * mpmath.log(a) + (1 - a) * mpmath.log(1 - a))
                assert w * mpmath.log1p(mpmath.exp(y * z)) + conjugate - slope * z <= bound[k]


def test_numbers_of_all_pairs_are_kept_where_arrays_are_cut():
    hinge, zeta = random_loss("hinge")
    loss = losses.SmoothedHinge(hinge.sign, hinge.weight, hinge.gamma, None, np.float64(0.3))
    for part in (loss[10:20], loss.take(np.arange(10, 20)), loss[10:20].placed(zeta)):
        assert part.smoothing == 0.3
        assert part.offset is None
        assert_array_equal(part.slope(zeta[10:20]), loss.slope(zeta)[10:20])
    assert loss[0:N_PAIRS] is loss


@dataclass(frozen=True)
class Square(PairLoss):
    """The example of `PairLoss`, without a threshold: its conjugate divides by the weight."""

    weight: np.ndarray

    def value(self, zeta):
        return self.weight * zeta**2 / 2

    def slope(self, zeta):
        return self.weight * zeta

    def curvature(self, zeta):
        return self.weight

    def conjugate(self, s):
        return s**2 / (2 * self.weight)


def test_a_pair_of_weight_0_is_ignored_by_a_loss_that_divides_by_its_weight():
    case = random_case(SHAPES["vectors"], n_pairs=30, C=1.0)
    weight = np.where(np.arange(30) % 3 == 0, 0.0, 1.0)
    loss, zeta = Square(weight), np.linspace(-1, 1, 30)
    for gap in (loss.gap, lambda *given: loss.gap_within(*given, 0 * zeta)):
        assert_allclose(gap(zeta, loss.slope(zeta)), 0, atol=1e-13)
    problem = case.problem().with_loss(loss, np.inf)
    found = Newton().solve(problem, tol=1e-10)
    assert found.converged
    assert found.gap <= 1e-9 * found.primal
    assert_allclose(found.primal, least_by_bfgs(case, loss, np.inf), rtol=1e-8)
    s = np.zeros(30)
    s[found.active] = found.multipliers
    assert_allclose(problem.best_multiple(s)[1], found.primal, rtol=1e-8)


def test_a_loss_without_gamma_has_no_threshold_and_one_without_weight_is_refused():
    assert_array_equal(Square(np.ones(3)).gamma, np.zeros(3))
    assert_array_equal(Square(np.ones(3))[:2].gamma, np.zeros(2))

    @dataclass(frozen=True)
    class Unweighted(Square):
        weight: np.ndarray = field(init=False)

    with pytest.raises(TypeError, match=r"^Unweighted: expected a field `weight`, got none$"):
        Unweighted()


@pytest.mark.parametrize("c0", [0.7, np.inf])
def test_newton_solves_and_certifies_a_loss_of_four_methods(c0):
    case = random_case(SHAPES["vectors"], n_pairs=30, c0=c0)
    loss = Logistic(case.y, random_logistic(n_pairs=30)[0].weight, np.where(case.y > 0, 0.5, 2.0))
    problem = case.problem().with_loss(loss, c0)
    found = Newton().solve(problem, tol=1e-10)
    assert found.converged
    expected = least_by_bfgs(case, loss, c0)
    assert found.dual <= expected + 1e-12 * expected
    assert_allclose(found.primal, expected, rtol=1e-8)


def least_by_bfgs(case, loss, c0):
    """Minimise F over the matrix logarithm of W and b0, which are free, by BFGS."""
    X, n = case.arrays[0][:, :, 0], case.arrays[0].shape[1]
    differences, upper = X[case.pairs[:, 0]] - X[case.pairs[:, 1]], np.triu_indices(n)

    def objective(free):
        A = np.zeros((n, n))
        A[upper] = free[:-1]
        W, b0 = expm(A + A.T), free[-1] if c0 < np.inf else 1.0
        zeta = np.einsum("ki,ij,kj->k", differences, W, differences) - loss.gamma * b0
        pull = c0 / 2 * (b0 - 1) ** 2 if c0 < np.inf else 0.0
        return np.trace(W) - 2 * np.trace(A) - n + loss.value(zeta).sum() + pull

    start = np.append(np.zeros(len(upper[0])), 1.0)
    return minimize(objective, start, method="BFGS", options={"gtol": 1e-7}).fun
