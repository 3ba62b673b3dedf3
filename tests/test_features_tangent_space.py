"""The tangent space at a mean: theorems about means, agreement with pyRiemann, groups."""

import re
from functools import partial

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from spd_helpers import SIZES, stack, symmetric_stack

from tatml import TATML, Blocks, io
from tatml.features import LogEuclidean, TangentSpace, Vectorize
from tatml.features._spd import MEANS, _Gradient, compute_mean, geometric_mean, power

assert_allclose = partial(np.testing.assert_allclose, rtol=1e-10)  # the default is 1e-7


def turned(n, condition, seed):
    """Return a random matrix of a given condition number."""
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    matrix = Q * np.geomspace(1, condition, n) @ Q.T
    return (matrix + matrix.T) / 2


def ill_conditioned(n, n_samples, condition):
    return np.stack([turned(n, condition, seed) for seed in range(n_samples)])


def mean_of(X, kind="geometric", tol=1e-12, max_iter=200):
    return compute_mean(X, kind, tol=tol, max_iter=max_iter)


def distance(A, B):
    """Return the affine-invariant distance, by generalised eigenvalues."""
    return np.linalg.norm(np.log(scipy.linalg.eigh(A, B, eigvals_only=True)))


def closed_form(A, B):
    """Return A # B = A^½ (A^-½ B A^-½)^½ A^½, computed with 60 digits."""
    with mpmath.workdps(60):
        root, inverse = _digits_power(A, 0.5), _digits_power(A, -0.5)
        return root * _digits_power(inverse * mpmath.matrix(B.tolist()) * inverse, 0.5) * root


def distance_in_digits(M, G):
    """Return the affine-invariant distance of a matrix from one of 60 digits."""
    with mpmath.workdps(60):
        inverse = _digits_power(G, -0.5)
        values, _ = mpmath.eigsy(_symmetric(inverse * mpmath.matrix(M.tolist()) * inverse))
        return float(mpmath.sqrt(sum(mpmath.log(value) ** 2 for value in values)))


def _digits_power(A, exponent):
    A = A if isinstance(A, mpmath.matrix) else mpmath.matrix(A.tolist())
    values, vectors = mpmath.eigsy(_symmetric(A))
    return vectors * mpmath.diag([value**exponent for value in values]) * vectors.T


def _symmetric(A):
    return (A + A.T) / 2


# Means


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_the_logarithms_at_the_geometric_mean_add_up_to_zero(n, spread):
    logs = TangentSpace().fit_transform(stack(n, 20, spread=spread))
    assert_allclose(logs.mean(axis=0), 0, atol=1e-10)


@pytest.mark.parametrize("condition", [10.0, 1e4, 1e8])
@pytest.mark.parametrize("n", [2, 5])
def test_the_mean_of_two_matrices_is_known(n, condition):
    A, B = ill_conditioned(n, 2, condition)
    found = mean_of(np.stack([A, B]))
    assert found.n_iter == 0 or condition > 1e6  # the first point, except for rounding errors
    assert found.converged
    rounding = 1e-16 * condition  # the relative error of the smallest eigenvalues
    assert distance_in_digits(found.matrix, closed_form(A, B)) < 10 * n * rounding


@pytest.mark.parametrize("kind", MEANS)
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
def test_the_mean_of_equal_matrices_is_the_matrix(kind, condition):
    A = turned(6, condition, 0)
    for count in (1, 2, 7):
        found = mean_of(np.stack([A] * count), kind)
        assert found.converged
        assert found.n_iter <= 1
        assert distance(found.matrix, A) < 1e-15 * max(10, condition)
        logs = TangentSpace(kind).fit_transform(np.stack([A] * count))
        assert_allclose(logs, 0, atol=1e-14 * condition)


@pytest.mark.parametrize(
    ("n", "n_samples", "condition"), [(3, 40, 1e12), (5, 10, 1e8), (10, 3, 1e8), (10, 40, 1e8)]
)
def test_ill_conditioned_matrices_converge_to_the_accuracy_of_rounding(n, n_samples, condition):
    found = mean_of(ill_conditioned(n, n_samples, condition))
    assert found.converged
    assert found.error < 1e-17 * condition
    assert found.n_iter < 100


def test_the_error_bounds_the_distance_from_the_mean():
    X = stack(6, 15)
    exact = mean_of(X).matrix
    spread = np.sqrt(np.mean([distance(A, exact) ** 2 for A in X]))
    errors = []
    for max_iter in range(1, 6):
        found = mean_of(X, max_iter=max_iter)
        errors.append(found.error)
        assert 0.1 * found.error < distance(found.matrix, exact) / spread <= 1.001 * found.error
    assert errors[-1] < 1e-3 * errors[0]


@pytest.mark.parametrize("size", [0.05, 1.0, 4.0])
def test_the_tolerance_is_relative_to_the_spread(size):
    """The iteration stops at the first point whose error in units of the spread is small."""
    X = np.stack([scipy.linalg.expm(size * S) for S in symmetric_stack(3, 30) / 2])
    errors = [mean_of(X, tol=1e-14, max_iter=count).error for count in range(1, 31)]
    for tol in np.geomspace(1e-9, errors[0], 40):
        found = mean_of(X, tol=tol)
        assert found.error <= tol
        assert found.n_iter <= 1 or errors[found.n_iter - 2] > tol * (1 - 1e-9)
    assert mean_of(X, tol=1e-9).n_iter in range(2, 31)


def test_the_geometric_mean_minimises_the_squared_distances():
    X = stack(4, 9)

    def objective(M):
        return sum(distance(A, M) ** 2 for A in X)

    M = mean_of(X).matrix
    root = power(M, 0.5)
    for direction in symmetric_stack(4, 5):
        for size in (1e-3, -1e-3):
            moved = root @ scipy.linalg.expm(size * direction) @ root
            assert objective(moved) > objective(M)
    assert objective(M) < min(objective(mean_of(X, kind).matrix) for kind in MEANS[1:])


def test_means_that_commute_are_those_of_the_eigenvalues():
    values = np.random.default_rng(0).uniform(0.1, 9, size=(8, 5))
    X = np.stack([np.diag(row) for row in values])
    geometric = np.diag(np.exp(np.mean(np.log(values), axis=0)))
    assert_allclose(mean_of(X).matrix, geometric, atol=1e-12)
    assert_allclose(mean_of(X, "log-euclidean").matrix, geometric, atol=1e-12)
    assert_allclose(mean_of(X, "arithmetic").matrix, np.diag(values.mean(axis=0)), atol=1e-12)


def test_the_determinant_of_the_geometric_mean_is_the_geometric_mean():
    X = stack(7, 11)
    expected = np.mean(np.linalg.slogdet(X)[1])
    for kind in ("geometric", "log-euclidean"):
        assert_allclose(np.linalg.slogdet(mean_of(X, kind).matrix)[1], expected, atol=1e-11)


def test_the_mean_of_the_inverses_is_the_inverse():
    X = stack(5, 10, spread=1.0)
    for kind in ("geometric", "log-euclidean"):
        inverse = mean_of(np.linalg.inv(X), kind).matrix
        assert_allclose(inverse @ mean_of(X, kind).matrix, np.eye(5), atol=1e-9)


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 9))
def test_the_order_of_the_matrices_does_not_matter(seed, n, n_samples):
    X = stack(n, n_samples, seed, spread=1.0)
    order = np.random.default_rng(seed).permutation(n_samples)
    assert_allclose(mean_of(X[order]).matrix, mean_of(X).matrix, atol=1e-10)


def test_a_step_after_which_the_gradient_is_no_smaller_is_followed_by_the_shortest():
    """The curvature along the step is then not positive, and only its upper bound is known."""
    last = _Gradient(np.eye(2), np.sqrt(2), 1.0, 4.0, 10.0)
    for share, expected in ((0.5, 1.0), (1.0, 1 / 4), (2.0, 1 / 4)):
        here = _Gradient(share * np.eye(2), share * np.sqrt(2), 1.0, 4.0, 10.0)
        assert here.next_step(last, 1.0) == expected


# Invariances of the transformer


@given(st.integers(0, 1000), st.integers(1, 6))
def test_a_congruence_only_rotates(seed, n):
    X = stack(n, 8, seed, spread=1.0)
    A = np.random.default_rng(seed).normal(size=(n, n)) + 3 * np.eye(n)
    before, after = TangentSpace().fit(X), TangentSpace().fit(A @ X @ A.T)
    Q = power(after.means_[0][0], -0.5) @ A @ power(before.means_[0][0], 0.5)
    assert_allclose(Q @ Q.T, np.eye(n), atol=1e-8)
    rotated = Q @ before.transform(X) @ Q.T
    assert_allclose(after.transform(A @ X @ A.T), rotated, atol=1e-8)


def test_a_congruence_changes_the_logarithm_at_the_identity():
    X, A = stack(4), np.diag([1.0, 2.0, 3.0, 4.0])
    norms = [np.linalg.norm(LogEuclidean().transform(Y), axis=(1, 2)) for Y in (X, A @ X @ A.T)]
    assert np.abs(norms[0] - norms[1]).max() > 0.1


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("unit", [1e-200, 1e-6, 1e9, 1e200])
def test_the_unit_does_not_matter(mean, unit):
    X = stack(4)
    plain = TangentSpace(mean).fit(X)
    scaled = TangentSpace(mean).fit(unit * X)
    assert_allclose(scaled.transform(unit * X), plain.transform(X), atol=1e-9)
    assert_allclose(scaled.means_[0] / unit, plain.means_[0], atol=1e-9)


def test_matrices_whose_sum_overflows_have_a_mean():
    X = 1e308 * np.stack([np.eye(2)] * 5)
    for mean in MEANS:
        assert_allclose(TangentSpace(mean).fit(X).means_[0][0], X[0], rtol=1e-12)


def test_distances_from_the_mean_are_the_affine_invariant_ones():
    X = stack(5)
    space = TangentSpace().fit(X)
    expected = [distance(A, space.means_[0][0]) for A in X]
    assert_allclose(np.linalg.norm(space.transform(X), axis=(1, 2)), expected)


def test_at_a_mean_that_is_the_identity_it_is_the_plain_logarithm():
    X = stack(3)
    balanced = np.concatenate([X, np.linalg.inv(X)])
    assert_allclose(
        TangentSpace().fit_transform(balanced), LogEuclidean().transform(balanced), atol=1e-9
    )


# Agreement with pyRiemann

METRICS = {
    "geometric": "riemann",
    "log-euclidean": {"mean": "logeuclid", "map": "riemann"},
    "arithmetic": {"mean": "euclid", "map": "riemann"},
}


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("n", [2, 5, 12])
def test_it_is_pyriemanns_tangent_space(mean, n):
    """pyRiemann's TangentSpace stops its mean at 1e-8; with a smaller tolerance it is ours."""
    pytest.importorskip("pyriemann.geometry")
    from pyriemann.geometry.mean import gmean
    from pyriemann.geometry.tangentspace import tangent_space, untangent_space
    from pyriemann.tangentspace import TangentSpace as PyRiemann

    X, new = stack(n, 30, spread=1.0), stack(n, 10, seed=1, spread=1.0)
    space = TangentSpace(mean).fit(X)
    ours = Vectorize().fit_transform(space.transform(new))
    theirs = PyRiemann(metric=METRICS[mean]).fit(X)
    rough = 1e-7 if mean == "geometric" else 1e-10
    assert_allclose(ours, theirs.transform(new), rtol=0, atol=rough)
    reference = theirs.reference_
    if mean == "geometric":
        reference = gmean(X, metric="riemann", tol=1e-13, maxiter=500)
    assert_allclose(ours, tangent_space(new, reference), rtol=0, atol=1e-10)
    back = space.inverse_transform(space.transform(new))
    assert_allclose(back, untangent_space(ours, reference), rtol=0, atol=1e-10)


# Forms, groups and inverse


@pytest.mark.parametrize("mean", MEANS)
def test_inverse_transform_undoes_transform(mean):
    X, new = stack(6, spread=1.0), stack(6, seed=1, spread=1.0)
    space = TangentSpace(mean).fit(X)
    assert_allclose(space.inverse_transform(space.transform(new)), new, atol=1e-10)
    S = symmetric_stack(6) / 6
    assert_allclose(space.transform(space.inverse_transform(S)), S, atol=1e-9)
    assert_allclose(space.inverse_transform(np.zeros((1, 6, 6)))[0], space.means_[0][0], atol=1e-12)


@pytest.mark.parametrize("mean", MEANS)
def test_each_block_has_its_own_mean(mean):
    arrays = [stack(3), stack(5), stack(1)]
    space = TangentSpace(mean)
    mapped = space.fit_transform(Blocks(*arrays))
    assert mapped.block_shapes == ((3, 3), (5, 5), (1, 1))
    for m, array in enumerate(arrays):
        alone = TangentSpace(mean).fit(array)
        assert_array_equal(mapped.arrays[m], alone.transform(array))
        assert_array_equal(space.means_[m], alone.means_[0])
    back = space.inverse_transform(mapped)
    for array, result in zip(arrays, back.arrays, strict=True):
        assert_allclose(result, array, atol=1e-9)


def test_fit_transform_is_fit_and_transform():
    X, groups = stack(4), np.arange(12) % 3
    for some in (None, groups):
        together = TangentSpace().fit_transform(X, groups=some)
        assert_array_equal(together, TangentSpace().fit(X, groups=some).transform(X, some))


def test_the_result_is_exactly_symmetric_and_the_input_unchanged():
    X = stack(9)
    before = X.copy()
    space = TangentSpace().fit(list(X))
    for result in (space.transform(X), space.inverse_transform(symmetric_stack(9)), *space.means_):
        assert_array_equal(result, np.swapaxes(result, 1, 2))
    assert_array_equal(X, before)


def test_each_group_is_a_fit_of_its_own():
    X, groups = stack(4, 15), np.array(["b", "a", "c"])[np.arange(15) % 3]
    space = TangentSpace().fit(X, groups=groups)
    logs = space.transform(X, groups=groups)
    assert_array_equal(space.groups_, ["a", "b", "c"])
    assert space.means_[0].shape == (3, 4, 4)
    for number, group in enumerate(space.groups_):
        alone = TangentSpace().fit(X[groups == group])
        assert_array_equal(logs[groups == group], alone.transform(X[groups == group]))
        assert_array_equal(space.means_[0][number], alone.means_[0][0])
        assert_allclose(logs[groups == group].mean(axis=0), 0, atol=1e-11)
    assert_allclose(space.inverse_transform(logs, groups), X, atol=1e-9)
    some = [7, 3, 11]  # in another order, and not all groups
    assert_allclose(space.inverse_transform(logs[some], groups[some]), X[some], atol=1e-9)


def test_what_differs_between_groups_is_removed_up_to_a_rotation():
    """The same trials, recorded through two mixtures: only a rotation between them is left."""
    X, A = stack(4, 20, spread=1.0), np.random.default_rng(0).normal(size=(4, 4)) + 3 * np.eye(4)
    both, groups = np.concatenate([X, A @ X @ A.T]), np.repeat([0, 1], 20)
    logs = TangentSpace().fit_transform(both, groups=groups)
    values = np.linalg.eigvalsh(logs)
    assert_allclose(values[:20], values[20:], atol=1e-9)
    inner = np.einsum("aij,bij->ab", logs, logs)
    assert_allclose(inner[:20, :20], inner[20:, 20:], atol=1e-9)


def test_a_group_seen_in_fit_keeps_its_mean_and_a_new_one_has_that_of_the_call():
    X, new = stack(4, 10), stack(4, 9, seed=1)
    space = TangentSpace().fit(X, groups=[1] * 5 + [2] * 5)
    logs = space.transform(new, groups=[2, 7, 7, 2, 7, 7, 7, 7, 7])
    of_two, of_seven = [0, 3], [1, 2, 4, 5, 6, 7, 8]
    assert_array_equal(logs[of_two], TangentSpace().fit(X[5:]).transform(new[of_two]))
    assert_array_equal(logs[of_seven], TangentSpace().fit_transform(new[of_seven]))
    assert_array_equal(space.groups_, [1, 2])
    alone = space.transform(new[[0]], groups=[2])  # of a known group, one sample will do
    assert_array_equal(alone[0], logs[0])


def test_after_a_fit_without_groups_every_group_is_new():
    X, new = stack(4, 10), stack(4, 6, seed=1)
    space = TangentSpace().fit(X)
    assert space.groups_ is None
    logs = space.transform(new, groups=[0, 0, 0, 1, 1, 1])
    assert_array_equal(logs[3:], TangentSpace().fit_transform(new[3:]))


def test_a_second_fit_forgets_the_groups():
    space = TangentSpace().fit(stack(4), groups=np.arange(12) % 2)
    X = stack(3)
    assert_array_equal(space.fit(X).transform(X), TangentSpace().fit_transform(X))
    assert space.groups_ is None


def test_a_group_of_one_sample_comes_with_a_warning():
    X = stack(3, 5)
    words = r"group 'b' has one sample \(1 such groups\), which is its own mean"
    with pytest.warns(UserWarning, match=words):
        logs = TangentSpace().fit_transform(X, groups=["a", "a", "b", "a", "a"])
    assert_allclose(logs[2], 0, atol=1e-12)
    space = TangentSpace().fit(X)
    with pytest.warns(UserWarning, match=words):
        space.transform(X, groups=["a", "a", "b", "a", "a"])


def test_single_precision_stays_single_and_is_computed_in_double():
    X = stack(5, spread=1.0).astype(np.float32)
    space, double = TangentSpace().fit(X), TangentSpace().fit(X.astype(float))
    assert_array_equal(space.means_[0], double.means_[0])
    logs = space.transform(X)
    assert logs.dtype == np.float32
    assert_array_equal(logs, double.transform(X.astype(float)).astype(np.float32))
    assert space.inverse_transform(logs).dtype == np.float32
    assert_allclose(space.inverse_transform(logs), X, rtol=1e-4, atol=1e-4)


# What is refused


def message_of(call, *arguments, error=ValueError, **options):
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("method", ["fit", "transform", "fit_transform"])
@pytest.mark.parametrize("smallest", [-0.25, 0.0, 1e-18])
def test_a_matrix_that_is_not_positive_definite_is_named(method, smallest):
    good, bad = stack(2, 10), stack(3, 10)
    space = TangentSpace().fit(Blocks(good, bad))
    bad[[4, 7]] = np.diag([smallest, 1.0, 2.0])
    message = message_of(getattr(space, method), Blocks(good, bad))
    assert message.startswith(
        f"X: expected positive definite matrices, got eigenvalues from {smallest:.3g} to 2 in "
        "block 1, sample 4 (2 of 10 samples)"
    )


def test_the_sample_is_named_whatever_its_group():
    X = stack(3, 10)
    space = TangentSpace().fit(X, groups=np.arange(10) % 2)
    X[7] *= -1
    assert "sample 7 (1 of 10 samples)" in message_of(space.transform, X, np.arange(10) % 2)


@pytest.mark.parametrize("method", ["fit", "transform", "inverse_transform"])
def test_bad_samples_are_refused(method):
    call = getattr(TangentSpace().fit(stack(3)), method)
    asymmetric = stack(3)
    asymmetric[5, 0, 2] += np.abs(asymmetric[5]).max()
    assert "block 0, sample 5" in message_of(call, asymmetric)
    broken = stack(3)
    broken[7, 1, 1] = np.nan
    assert "nan in block 0, sample 7" in message_of(call, broken)
    assert "at least one sample" in message_of(call, np.empty((0, 3, 3)))
    assert "real numbers" in message_of(call, stack(3) + 0j, error=TypeError)
    fresh = TangentSpace().fit
    assert "square matrices" in message_of(fresh, np.ones((4, 3, 2)))
    assert "write X[None]" in message_of(fresh, np.eye(3))
    if method != "fit":
        assert "[3×3] as in fit, got [2×2]" in message_of(call, stack(2))
        assert "[3×3] as in fit, got [3×3, 3×3]" in message_of(call, Blocks(stack(3), stack(3)))


@pytest.mark.parametrize("method", ["fit", "transform", "inverse_transform"])
@pytest.mark.parametrize(
    ("groups", "error", "words"),
    [
        ([1] * 11, ValueError, "groups: expected one value for each of the 12 samples, got 11"),
        (np.ones((12, 1)), ValueError, "groups: expected shape (n_samples,), got shape (12, 1)"),
        ([None] * 12, ValueError, "groups: expected a label for each sample, got None"),
        (["a", 1] * 6, TypeError, "groups: expected values of one type"),
    ],
)
def test_bad_groups_are_refused(method, groups, error, words):
    X = stack(3)
    call = getattr(TangentSpace().fit(X, groups=np.arange(12) % 2), method)
    groups = np.array(groups, dtype=object) if error is TypeError else groups
    assert message_of(call, X, groups=groups, error=error).startswith(words)


def test_groups_that_are_missing_or_unknown_are_refused():
    X = stack(3)
    space = TangentSpace().fit(X, groups=["a", "b"] * 6)
    for call in (space.transform, space.inverse_transform):
        assert message_of(call, X) == (
            "groups: expected the group of each sample as in fit, got None"
        )
    words = "groups: expected groups whose means are known from fit, got 'c'"
    assert message_of(space.inverse_transform, X, ["b", "c"] * 6) == words
    assert message_of(TangentSpace().fit(X).inverse_transform, X, ["c"] * 12) == words


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"mean": "riemann"}, ValueError, "mean: expected one of"),
        ({"mean": None}, ValueError, "mean: expected one of"),
        ({"tol": 0.0}, ValueError, "tol: expected a positive number"),
        ({"tol": "small"}, TypeError, "tol: expected a number"),
        ({"max_iter": 0}, ValueError, "max_iter: expected at least 1"),
        ({"max_iter": 1.5}, TypeError, "max_iter: expected an integer"),
    ],
)
def test_bad_parameters_are_refused(options, error, words):
    message = message_of(TangentSpace(**options).fit, stack(3), error=error)
    assert message.startswith(words)


@pytest.mark.parametrize("call", [TangentSpace().transform, TangentSpace().inverse_transform])
def test_transform_needs_a_fit(call):
    with pytest.raises(NotFittedError, match="This TangentSpace instance is not fitted yet"):
        call(stack(3))


def test_results_beyond_floats_are_refused():
    space = TangentSpace().fit(1e300 * stack(2))
    S = np.zeros((3, 2, 2))
    S[1] = 100 * np.eye(2)
    message = message_of(space.inverse_transform, S)
    assert "float64 can represent" in message
    assert "block 0, sample 1" in message


def test_a_mean_that_double_precision_cannot_compute_is_refused():
    """The second matrix is tiny and ill-conditioned in the directions of the first."""
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    X = np.stack([Q * [1e-10, 1.0] @ Q.T, Q * [1e-12, 1e-22] @ Q.T])
    X = (X + X.transpose(0, 2, 1)) / 2
    message = message_of(TangentSpace().fit, Blocks(stack(3, 2), X))
    assert "singular compared with the arithmetic mean in block 1" in message
    assert TangentSpace("log-euclidean").fit_transform(X).shape == (2, 2, 2)


def test_a_matrix_that_is_singular_compared_with_the_mean_is_named():
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    M, A = (Q * values @ Q.T for values in ([1e-10, 1.0], [1.0, 1e-10]))
    X = np.stack([M, M, M, A])
    X = (X + X.transpose(0, 2, 1)) / 2
    others = stack(3, 4)
    space = TangentSpace().fit(Blocks(others[:3], X[:3]))
    message = message_of(space.transform, Blocks(others, X))
    assert message.startswith("X: after whitening by the mean, expected positive definite matrices")
    assert "block 1, sample 3 (1 of 4 samples)" in message


def test_a_mean_that_does_not_converge_comes_with_a_warning():
    X = stack(5, 10)
    words = r"mean of block 1 may be off by \S+ times .* after 2 iterations, expected tol=1e-12"
    with pytest.warns(ConvergenceWarning, match=words) as caught:
        space = TangentSpace(max_iter=2).fit(Blocks(np.stack([np.eye(2)] * 10), X))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    fitted = TangentSpace(max_iter=2).fit(X[:2])
    with pytest.warns(ConvergenceWarning, match=r"\(2 such means\); increase") as caught:
        fitted.transform(X, groups=np.arange(10) % 2)
    assert len(caught) == 1
    assert space.n_iter_ == 2
    assert TangentSpace().fit(X).n_iter_ > 2
    assert TangentSpace("arithmetic").fit(X).n_iter_ == 0


# Life among other estimators


def test_clones_have_the_same_parameters():
    fitted = TangentSpace("arithmetic", tol=1e-6, max_iter=7).fit(stack(3))
    copy = clone(fitted)
    assert copy.get_params() == {"mean": "arithmetic", "tol": 1e-6, "max_iter": 7}
    assert repr(copy) == repr(fitted)
    assert vars(copy).keys() == copy.get_params().keys()


@pytest.mark.parametrize("blocks", [False, True])
def test_pipelines_cross_validate_and_search(blocks):
    X = stack(4, n_samples=40, spread=0.3)
    y = np.arange(40) % 2
    X[y == 1] *= 3.0
    samples = Blocks(X, stack(2, n_samples=40)) if blocks else X
    model = make_pipeline(TangentSpace(), Vectorize(join=True), LogisticRegression())
    assert_array_equal(cross_val_score(model, samples, y, cv=4), np.ones(4))
    grid = {"tangentspace__mean": [*MEANS]}
    search = GridSearchCV(model, grid, cv=4).fit(samples, y)
    assert search.best_score_ == 1.0
    model = make_pipeline(TangentSpace(), TATML(random_state=0), KNeighborsClassifier(3))
    assert_array_equal(cross_val_score(model, samples, y, cv=4), np.ones(4))


def test_data_frames_are_left_to_the_next_step():
    pytest.importorskip("pandas")
    X = stack(3)
    model = make_pipeline(TangentSpace(), Vectorize()).set_output(transform="pandas")
    frame = model.fit_transform(X)
    assert list(frame.columns)[:2] == ["x0_0", "x0_1"]
    assert_allclose(frame.to_numpy(), Vectorize().fit_transform(TangentSpace().fit_transform(X)))
    with config_context(transform_output="pandas"):
        assert isinstance(TangentSpace().fit_transform(X), np.ndarray)


def subjects(seed=0):
    """Return trials of four subjects, whose channels are mixed in another way each."""
    rng = np.random.default_rng(seed)
    X, y, groups = stack(3, 80, seed, spread=0.3), np.arange(80) % 2, np.repeat([*"abcd"], 20)
    X[y == 1] = np.diag([2.0, 1.0, 0.5]) @ X[y == 1] @ np.diag([2.0, 1.0, 0.5])
    for group in "abcd":
        gains = np.diag(np.exp(rng.normal(scale=2.0, size=3)))
        X[groups == group] = gains @ X[groups == group] @ gains
    return X, y, groups


def test_routed_groups_let_a_model_generalise_to_new_subjects():
    X, y, groups = subjects()
    with config_context(enable_metadata_routing=True):
        space = TangentSpace().set_fit_request(groups=True).set_transform_request(groups=True)
        model = make_pipeline(space, Vectorize(), LogisticRegression())
        per_subject = []  # older versions of cross_val_score do not pass groups on to `score`
        for train, test in LeaveOneGroupOut().split(X, y, groups):
            model.fit(X[train], y[train], groups=groups[train])
            per_subject.append(model.score(X[test], y[test], groups=groups[test]))
        refused = make_pipeline(TangentSpace(), Vectorize(), LogisticRegression())
        with pytest.raises((TypeError, ValueError), match="groups"):
            refused.fit(X, y, groups=groups)
    plain = make_pipeline(TangentSpace(), Vectorize(), LogisticRegression())
    together = cross_val_score(plain, X, y, cv=LeaveOneGroupOut(), groups=groups)
    assert np.mean(per_subject) > 0.95 > 0.8 > together.mean()


def test_a_pipeline_is_saved_with_skops(tmp_path):
    """`tatml.io` saves the metric of a pipeline, skops the whole of it, if it trusts our types."""
    skops = pytest.importorskip("skops.io")

    def saved(model):
        skops.dump(model, tmp_path / "model.skops")
        types = skops.get_untrusted_types(file=tmp_path / "model.skops")
        assert all(name.startswith("tatml.") for name in types)
        return skops.load(tmp_path / "model.skops", trusted=types)

    X, y, groups = subjects()
    blocks = Blocks(X, X[:, :2, :2])
    space = TangentSpace().fit(blocks, groups=groups)
    expected = space.transform(blocks, groups)
    for array, loaded in zip(
        expected.arrays, saved(space).transform(blocks, groups).arrays, strict=True
    ):
        assert_array_equal(loaded, array)
    model = make_pipeline(TangentSpace(), TATML(random_state=0)).fit(blocks, y)
    assert_array_equal(saved(model).transform(blocks), model.transform(blocks))
    metric = io.load_model(io.save_model(model[-1], tmp_path / "metric.skops")).estimator
    assert_array_equal(metric.transform(model[:-1].transform(blocks)), model.transform(blocks))


def test_threads_and_chunks_do_not_matter(monkeypatch):
    X = stack(16, 300, spread=0.5)
    alone = geometric_mean(X, tol=1e-12, max_iter=200).matrix
    monkeypatch.setattr("tatml.features._symmetric._blas_threads", lambda: 3)
    assert_allclose(geometric_mean(X, tol=1e-12, max_iter=200).matrix, alone, atol=1e-11)


def test_messages_name_every_word_for_a_mean():
    message = message_of(TangentSpace("median").fit, stack(2))
    assert all(re.search(rf"'{kind}'", message) for kind in MEANS)
