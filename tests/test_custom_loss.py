"""Losses of the user's own: same results as the library's, known minima, and wrong ones refused."""

import pickle
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import SHAPES, dual_of, random_case
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import expit, xlogy
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from test_losses import least_by_bfgs

from tatml import TATML, TATMLCV, AllPairs, Compute, Newton, PairChunks, TATMLPairs, learn_metric
from tatml._optim.custom_loss import GRID, check_loss
from tatml._optim.losses import join_losses
from tatml._optim.problem import custom, logistic
from tatml._sharding.base import LossSetting
from tatml._sharding.chunks import sharded_term
from tatml.io import export, save_model
from tatml.losses import CustomLoss

X, Y = load_iris(return_X_y=True)


class Logistic(CustomLoss):
    """The logistic loss of the library."""

    def value(self, a):
        return np.logaddexp(0, a)

    def slope(self, a):
        return expit(a)

    def curvature(self, a):
        return expit(a) * expit(-a)

    def conjugate(self, slope):
        return xlogy(slope, slope) + xlogy(1 - slope, 1 - slope)


class Exponential(CustomLoss):
    """exp(a), as written down without a thought of large numbers."""

    def value(self, a):
        return np.exp(a)

    slope = curvature = value

    def conjugate(self, slope):
        return xlogy(slope, slope) - slope


@dataclass
class RoundedHinge(CustomLoss):
    """A hinge with a rounded corner; the loss is not hashable, and has a parameter `shape`."""

    width: float = 0.5
    shape: float = 2.0

    def value(self, a):
        u = np.maximum(1 + a, 0)
        return np.where(u < self.width, u**2 / (2 * self.width), u - self.width / 2)

    def slope(self, a):
        return np.clip((1 + a) / self.width, 0, 1)

    def curvature(self, a):
        return np.where((1 + a > 0) & (1 + a < self.width), 1 / self.width, 0.0)

    def conjugate(self, slope):
        outside = (slope < 0) | (slope > 1)
        return np.where(outside, np.inf, self.width * slope**2 / 2 - slope)


class Third(RoundedHinge):
    """A third of a hinge: rounding errors of its largest slope depend on the weight of the pair."""

    def value(self, a):
        return super().value(a) / 3

    def slope(self, a):
        return super().slope(a) / 3

    def curvature(self, a):
        return super().curvature(a) / 3

    def conjugate(self, slope):
        return np.where(slope > 1 / 3, np.inf, super().conjugate(np.minimum(3 * slope, 1)) / 3)


class LeastSquares(CustomLoss):
    """(1 + a)²/2: pairs far on the right side pay, too."""

    def value(self, a):
        return (1 + a) ** 2 / 2

    def slope(self, a):
        return 1 + a

    def curvature(self, a):
        return np.ones(a.shape, dtype=int)

    def conjugate(self, slope):
        return slope**2 / 2 - slope


class Changed(Logistic):
    """The logistic loss with other methods."""

    def __init__(self, **methods):
        vars(self).update(methods)

    def __repr__(self):
        return "Mine()"


LOSSES = [Logistic(), RoundedHinge(), RoundedHinge(1e-3), Exponential(), LeastSquares()]
of_each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def case_of_scores(**options):
    """Return a case with weights, some of them 0, for scores without margins."""
    return random_case(SHAPES["vectors"], n_pairs=40, **{"margin": (0.5, 2.0)} | options)


def assert_same(found, expected, rtol=1e-8):
    assert found.converged
    assert expected.converged
    for W, other in zip(found.W, expected.W, strict=True):
        assert_allclose(W, other, rtol=rtol, atol=rtol)
    assert_allclose(found.b0, expected.b0, rtol=rtol, atol=rtol)
    assert_allclose(found.primal, expected.primal, rtol=1e-8)
    assert abs(found.gap - expected.gap) <= 1e-8 * max(1, expected.primal)


# The results


@pytest.mark.parametrize("linear_solver", ["dense", "woodbury", "cg"])
@pytest.mark.parametrize("midpoint", [False, True])
def test_a_logistic_loss_of_the_user_is_that_of_the_library(midpoint, linear_solver):
    case = case_of_scores()
    options = {
        "midpoint": midpoint,
        "weights": np.where(np.arange(40) % 7 == 0, 0.0, 1.0),
        "mu0": -0.3,
        "tol": 1e-10,
        "solver": Newton(linear_solver=linear_solver),
    }
    data = case.blocks, case.pairs, case.similar
    expected = learn_metric(*data, loss="logistic", **options)
    assert_same(learn_metric(*data, loss=Logistic(), **options), expected)


@pytest.mark.parametrize("options", [{}, {"midpoint": True}, {"pairs": "all", "C": 10.0}])
def test_estimators_take_it_too(options):
    options = {"tol": 1e-10, "random_state": 0, "n_pairs_per_class": 40} | options
    found, expected = (TATML(loss=loss, **options).fit(X, Y) for loss in (Logistic(), "logistic"))
    assert_same(found.result_, expected.result_)
    assert_allclose(found.threshold_, expected.threshold_, rtol=1e-8)
    index = np.random.default_rng(0).integers(150, size=(200, 2))
    pairs = index[index[:, 0] != index[:, 1]]
    signs = np.where(Y[pairs[:, 0]] == Y[pairs[:, 1]], 1, -1)
    weights = np.linspace(0, 1, len(pairs))
    given = {"tol": 1e-10, "midpoint": bool(options.get("midpoint")), "preprocessor": X}
    of_pairs = [
        TATMLPairs(loss=loss, **given).fit(pairs, signs, sample_weight=weights)
        for loss in (Logistic(), "logistic")
    ]
    assert_same(*(model.result_ for model in of_pairs))


@pytest.mark.parametrize("midpoint", [False, True])
def test_pairs_in_parts(midpoint):
    case = case_of_scores()
    options = {"loss": Logistic(), "tol": 1e-10, "midpoint": midpoint}
    data = case.arrays[0][:, :, 0], case.pairs, case.similar
    expected = learn_metric(*data, **options)
    parts = learn_metric(*data, compute=Compute(max_memory="100MB"), **options)
    assert_same(parts, expected, rtol=1e-6)
    if not midpoint:
        first, second = (data[0][case.pairs[:, side]] for side in (0, 1))
        chunks = PairChunks.from_arrays(first, second, case.similar)
        assert_same(learn_metric(chunks, **options), expected, rtol=1e-6)
    y = np.arange(len(data[0])) % 3
    every = np.stack(np.triu_indices(len(y), 1), axis=1)
    listed = learn_metric(data[0], every, y[every[:, 0]] == y[every[:, 1]], **options)
    assert_same(learn_metric(data[0], AllPairs(y), **options), listed, rtol=1e-6)


@pytest.mark.parametrize("c0", [0.7, np.inf])
@of_each_loss
def test_the_minimum_is_that_of_a_general_solver(loss, c0):
    case = case_of_scores(c0=c0, C=0.3)
    function = custom(SimpleNamespace(similar=np.array(case.similar), weights=None), 0.3, loss)
    problem = case.problem().with_loss(function, c0)
    found = Newton().solve(problem, tol=1e-9)
    assert found.converged
    assert 0 <= found.gap <= 1e-9 * max(1, found.primal)
    expected = least_by_bfgs(case, function, c0)
    assert found.dual <= expected * (1 + 1e-12)
    assert_allclose(found.primal, expected, rtol=2e-8)
    s = function.slope(case.distances(found.W) - found.b0)
    assert np.all(np.isfinite(function.conjugate(s)))
    assert_allclose(np.abs(s[found.active]), found.multipliers, rtol=1e-8, atol=1e-12)
    assert_allclose(dual_of(problem, s), found.primal, rtol=2e-8)


def in_float32(X):
    return X, Compute(dtype="float32")


def in_torch(X):
    return pytest.importorskip("torch").asarray(X), None


def in_strict(X):
    return pytest.importorskip("array_api_strict").asarray(X), None


@pytest.mark.parametrize("place", [in_float32, in_torch, in_strict])
def test_the_methods_get_numpy_arrays_of_float64_wherever_the_samples_are(place):
    seen = set()

    def spied(method):
        def spy(a):
            seen.add((type(a), a.dtype, a.ndim))
            return getattr(Logistic, method)(None, a)

        return spy

    methods = {name: spied(name) for name in ("value", "slope", "curvature", "conjugate")}
    case, loss = case_of_scores(), Changed(**methods)
    data = case.arrays[0][:, :, 0], case.pairs, case.similar
    expected = learn_metric(*data, loss="logistic")
    samples, compute = place(data[0])
    found = learn_metric(samples, *data[1:], loss=loss, compute=compute)
    assert found.converged
    assert found.dual <= expected.primal
    assert expected.dual <= found.primal
    assert_allclose(found.primal, expected.primal, rtol=1e-6)
    assert seen == {(np.ndarray, np.dtype(np.float64), 1)}


# The loss of all pairs


@of_each_loss
def test_the_loss_of_all_pairs_has_weights_signs_and_the_scaled_conjugate(loss):
    rng = np.random.default_rng(0)
    similar, weights, a = rng.random(30) < 0.5, rng.random(30), rng.normal(size=30)
    weights[:3] = 0
    sign, zeta = np.where(similar, 1, -1), np.where(similar, a, -a)
    found = custom(SimpleNamespace(similar=similar, weights=weights), 2.0, loss)
    s = found.slope(zeta)
    for k in range(30):
        one, w = a[k : k + 1], 2 * weights[k]
        assert_allclose(found.value(zeta)[k], w * loss.value(one)[0])
        assert_allclose(s[k], w * sign[k] * loss.slope(one)[0])
        assert_allclose(found.curvature(zeta)[k], w * loss.curvature(one)[0], atol=1e-9)

        def minus(z, k=k):
            return float(found.value(np.full(30, z))[k] - s[k] * z)

        most = -minimize_scalar(minus, bounds=(-20, 20), method="bounded").fun
        assert_allclose(found.conjugates(s)[k], most, atol=1e-5)
    part = found.take(np.array([4, 7]), 3.0)
    assert_allclose(part.value(zeta[[4, 7]]), 3 * found.value(zeta)[[4, 7]])
    assert part.function is loss


def test_its_gap_is_that_of_the_library_and_includes_its_accuracy():
    pairs = SimpleNamespace(similar=np.arange(9) % 2 == 0, weights=np.arange(9.0))
    zeta, error = np.linspace(-3, 3, 9), np.full(9, 1e-3)
    expected, found = logistic(pairs, 1.0), custom(pairs, 1.0, Logistic())
    s = expected.slope(np.roll(zeta, 1) * (pairs.similar * 2 - 1))
    bound = expected.gap_within(zeta, s, error)
    assert_allclose(found.gap_within(zeta, s, error), bound, rtol=1e-8, atol=1e-10)
    rough = custom(pairs, 1.0, Changed(accuracy=1e-3)).gap_within(zeta, s, error) - bound
    assert np.all(rough >= 1e-3 * pairs.weights)
    assert np.all(rough <= 1e-2 * pairs.weights)


@pytest.mark.parametrize("factor", [0.9, 1.001])
def test_a_conjugate_that_is_wrong_beyond_the_check_has_no_certificate(factor):
    class Wrong(LeastSquares):
        def conjugate(self, slope):
            return np.where(slope < -30, factor, 1) * super().conjugate(slope)

    rng = np.random.default_rng(0)
    far, pairs = 30 * rng.normal(size=(30, 3)), np.arange(60).reshape(30, 2) % 29
    data, options = (far, pairs, rng.random(30) < 0.5), {"C": 1e-9}
    found = learn_metric(*data, loss=LeastSquares(), **options)
    assert found.converged
    with pytest.warns(ConvergenceWarning, match="Not converged: gap"):
        wrong = learn_metric(*data, loss=Wrong(), **options)
    assert wrong.gap == np.inf if factor < 1 else wrong.gap > 1e-5
    assert wrong.dual <= found.primal


def test_pairs_of_weight_0_do_not_count_where_the_loss_is_infinite():
    loss = custom(SimpleNamespace(similar=np.ones(2, bool), weights=np.arange(2.0)), 1, LOSSES[3])
    assert_array_equal(loss.value(np.array([1e4, 0])), [0, 1])


def test_rounded_slopes_stay_in_the_domain_of_the_conjugate():
    weights = np.random.default_rng(0).uniform(0.1, 3, size=10_000)
    pairs = SimpleNamespace(similar=weights > 1, weights=weights)
    for dtype in (np.float32, np.float64):
        loss = custom(pairs, 0.3, Third()).placed(np.zeros(1, dtype))
        s = loss.slope(np.where(pairs.similar, 5, -5).astype(dtype))
        assert s.dtype == dtype
        assert_allclose(loss.conjugate(s), -0.25 * 0.3 * weights, rtol=1e-6)


def test_pairs_on_a_flat_part_are_not_active():
    """Woodbury's formula divides by the curvature, which may be exp(−700)."""
    case = case_of_scores()
    loss = custom(SimpleNamespace(similar=case.y > 0, weights=None), 1.0, Logistic())
    far = loss.curvature(-30 * case.y)
    assert_array_equal(far, 0)
    assert np.all(loss.curvature(-20 * case.y) > 0)


def test_losses_of_parts_are_joined_and_are_not_quadratic():
    pairs = SimpleNamespace(similar=np.arange(9) % 2 == 0, weights=np.arange(9.0))
    whole, zeta = custom(pairs, 1.0, RoundedHinge()), np.linspace(-3, 3, 9)
    joined = join_losses([whole[:4], whole[4:]])
    assert_array_equal(joined.value(zeta), whole.value(zeta))
    case, margin = case_of_scores(), (0.5, 2.0)
    for loss, quadratic in (("squared_hinge", True), ("logistic", False), (Logistic(), False)):
        setting = LossSetting(1.0, margin, loss=loss)
        sharded = sharded_term(case.arrays[0], case.pairs, case.similar, None, setting)
        assert sharded.quadratic is quadratic


# The check at the start


def of_the_hinge(a):
    return np.maximum(a + 0.37, 0)


REFUSED = {
    "slope: expected the derivative of value, 1, got 1.01 at 30": {
        "slope": lambda a: 1.01 * expit(a)
    },
    "slope: expected the derivative of value, (1|0.9999.*), got 1.01 at 30": {
        "slope": lambda a: 1.01 * expit(a),
        "accuracy": 1e-7,
    },
    "slope: expected the derivative of value, .*, got -1 at 30": {"slope": lambda a: -expit(a)},
    r"curvature: expected the derivative of slope, 0.25, got 0.5 at 0": {
        "curvature": lambda a: 2 * expit(a) * expit(-a)
    },
    r"conjugate: expected slope · a − value = -0\.66.*, got -0\.29.* at 0\.62": {
        "conjugate": lambda t: xlogy(t, t)
    },
    r"conjugate: expected slope · a − value = .*, got .*": {
        "conjugate": lambda t: Logistic().conjugate(t) + 1e-9
    },
    "conjugate: expected slope · a − value": {"slope": lambda a: expit(a) * (1 - 1e-5)},
    "conjugate: expected a finite number, got nan at 0$": {
        "conjugate": lambda t: t * np.log(t) + xlogy(1 - t, 1 - t)
    },
    "conjugate: expected 0, as the infimum of value has to be 0, got -1 at 0": {
        "value": lambda a: np.logaddexp(0, a) + 1,
        "conjugate": lambda t: Logistic().conjugate(t) - 1,
    },
    "value: expected a number ≥ 0, got -1 at -30": {"value": lambda a: np.logaddexp(0, a) - 1},
    "value: expected a finite number, got nan at 30": {
        "value": lambda a: np.where(a > 20, np.nan, np.logaddexp(0, a))
    },
    "value: expected a finite number, got inf at 5": {
        "value": lambda a: -np.log(np.maximum(4.5 - a, 0)) + 4
    },
    "curvature: expected a number ≥ 0, of a convex loss, got": {
        "value": lambda a: 1 + np.sin(a),
        "slope": np.cos,
        "curvature": lambda a: -np.sin(a),
    },
    "slope: expected a number ≥ 0 on the wrong side of the threshold, got -1 at 0": {
        "value": lambda a: np.exp(-a),
        "slope": lambda a: -np.exp(-a),
        "curvature": lambda a: np.exp(-a),
    },
    "slope: expected no jump, as it is 0 just below, got 1 at -0.37": {
        "value": of_the_hinge,
        "slope": lambda a: np.where(a > -0.37, 1.0, 0.0),
        "curvature": lambda a: 0 * a,
        "conjugate": lambda t: -0.37 * t,
    },
    "slope: expected at least 0.001, got 0 at 30": {
        name: np.zeros_like for name in ("value", "slope", "curvature", "conjugate")
    },
    r"curvature: expected real numbers of shape \(45,\), .*, got float64 of shape \(\)": {
        "curvature": lambda a: 1.0
    },
    r"slope: expected real numbers .*, got float64 of shape \(45, 1\)": {
        "slope": lambda a: expit(a)[:, None]
    },
    "value: expected real numbers .*, got complex128": {"value": lambda a: np.logaddexp(0, a) + 0j},
    "value: expected real numbers .*, got object": {"value": lambda a: np.full(len(a), None)},
    "accuracy: expected a positive number, got 0": {"accuracy": 0},
}


@pytest.mark.parametrize("words", REFUSED)
def test_methods_that_do_not_agree_are_named(words):
    loss = Changed(**REFUSED[words])
    with pytest.raises(ValueError, match=rf"^loss: Mine\(\): {words}"):
        TATML(loss=loss).fit(X, Y)
    with pytest.raises(ValueError, match=rf"^loss: Mine\(\): {words}"):
        learn_metric(X, [[0, 1], [0, 60]], [True, False], loss=loss)


@pytest.mark.parametrize("points", [0.1, 0.01])
def test_a_jump_between_the_violations_of_the_check_is_found(points):
    """Wherever it is, and however small."""
    for corner in np.random.default_rng(0).uniform(-29, 29, size=20):
        loss = Changed(
            value=lambda a, c=corner: np.logaddexp(0, a) + points * np.maximum(a - c, 0),
            slope=lambda a, c=corner: expit(a) + points * (a > c),
        )
        with pytest.raises(ValueError, match="slope: expected no jump") as raised:
            check_loss("loss", loss, ())
        assert_allclose(float(str(raised.value).split()[-1]), corner, rtol=1e-6)


@of_each_loss
def test_good_losses_pass(loss):
    assert check_loss("loss", loss, ()) is loss
    naive = Changed(
        value=lambda a: np.log(1 + np.exp(a)),
        slope=lambda a: np.exp(a) / (1 + np.exp(a)),
        curvature=lambda a: np.exp(a) / (1 + np.exp(a)) ** 2,
    )
    assert check_loss("loss", naive, ()) is naive


def test_the_rules_of_the_guide_for_scaled_and_shifted_losses():
    given, scale, shift = RoundedHinge(), 1.7, 0.37
    scaled = Changed(
        value=lambda a: given.value(a / scale),
        slope=lambda a: given.slope(a / scale) / scale,
        curvature=lambda a: given.curvature(a / scale) / scale**2,
        conjugate=lambda t: given.conjugate(scale * t),
    )
    shifted = Changed(
        value=lambda a: given.value(a + shift),
        slope=lambda a: given.slope(a + shift),
        curvature=lambda a: given.curvature(a + shift),
        conjugate=lambda t: given.conjugate(t) - shift * t,
    )
    for loss in (scaled, shifted):
        assert check_loss("loss", loss, ()) is loss


def test_rounding_and_work_in_place_are_no_errors():
    class Rounded(RoundedHinge):
        def value(self, a):
            return super().value(a) - 1e-16

        def slope(self, a):
            return super().slope(a) * (1 + 3e-16)

        def curvature(self, a):
            return super().curvature(a) - 1e-16

    grid = GRID.copy()
    for loss in (Rounded(), Third(), Changed(value=lambda a: np.logaddexp(0, a, out=a))):
        assert check_loss("loss", loss, ()) is loss
    assert_array_equal(GRID, grid)


def test_a_conjugate_with_few_digits_needs_an_honest_accuracy():
    def rough(t):
        return Logistic().conjugate(t) + 1e-7 * np.sin(1e3 * t)

    with pytest.raises(ValueError, match="conjugate: expected slope"):
        check_loss("loss", Changed(conjugate=rough), ())
    loss = Changed(conjugate=rough, accuracy=1e-7)
    model, exact = (TATML(loss=each, random_state=0).fit(X, Y) for each in (loss, Logistic()))
    assert abs(model.result_.primal - exact.result_.primal) <= model.result_.gap
    assert model.result_.gap > exact.result_.gap + 1e-6


def test_the_check_calls_the_methods_a_few_times_with_short_arrays():
    sizes = []

    def spied(a):
        sizes.append(len(a))
        return expit(a)

    check_loss("loss", Changed(slope=spied), ())
    assert len(sizes) <= 50
    assert max(sizes) == len(GRID)


# Objects of the estimators


def test_it_is_a_parameter_like_others(tmp_path):
    model = TATML(loss=RoundedHinge(0.7), random_state=0)
    assert repr(model) == "TATML(loss=RoundedHinge(width=0.7, shape=2.0), random_state=0)"
    assert model.get_params()["loss"] is model.loss
    assert clone(model).loss == model.loss
    fitted = clone(model).fit(X, Y)
    assert fitted.loss == model.loss
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.transform(X), fitted.transform(X))
    assert_allclose(again.fit(X, Y).components_, fitted.components_, rtol=1e-12)
    grid = {"loss": ["logistic", RoundedHinge(), LeastSquares()], "C": [1.0, 10.0]}
    search = TATMLCV(param_grid=grid, cv=2, random_state=0).fit(X, Y)
    assert len(search.cv_results_["params"]) == 6
    assert search.best_params_["loss"] in grid["loss"]
    assert repr(Logistic()) == "Logistic()"
    with np.load(export(fitted, tmp_path / "metric.npz")) as arrays:
        assert_array_equal(arrays["components_0"], fitted.components_)


def test_models_are_not_saved_with_code(tmp_path):
    pytest.importorskip("skops")
    options = {"random_state": 0, "n_pairs_per_class": 20}
    model = TATML(loss=RoundedHinge(), **options).fit(X, Y)
    words = r"^loss: expected the name of a loss in a saved model, got RoundedHinge\(.*\); tatml.io"
    with pytest.raises(ValueError, match=words):
        save_model(model, tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []
    search = TATMLCV(clone(model), cv=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match=r"expected the name of a loss|needs .*RoundedHinge"):
        save_model(search, tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []
