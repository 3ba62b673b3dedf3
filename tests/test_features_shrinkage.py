"""Covariances of a batch are those of NumPy and scikit-learn for each set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.covariance import ShrunkCovariance, ledoit_wolf, oas

from tatml.features._shrinkage import (
    Moments,
    add_diagonal,
    centre,
    check_shrinkage,
    covariances,
    sum_products,
    sum_quartics,
)

SHAPES = [(5, 3, 40), (2, 3, 6, 9), (4, 1, 7), (3, 8, 5), (6, 30)]


def alone(points, shrinkage):
    """Return the covariance of one set (d, n_points) by NumPy or scikit-learn."""
    rows = points.T
    if shrinkage is None:
        return np.atleast_2d(np.cov(points))
    if shrinkage == "ledoit_wolf":
        return ledoit_wolf(rows)[0]
    if shrinkage == "oas":
        return oas(rows)[0]
    return ShrunkCovariance(shrinkage=shrinkage).fit(rows).covariance_


def each_alone(samples, shrinkage):
    sets = samples.reshape(-1, *samples.shape[-2:])
    d = samples.shape[-2]
    matrices = [alone(points, shrinkage) for points in sets]
    return np.reshape(matrices, (*samples.shape[:-2], d, d))


def make_points(shape, seed=0):
    """Return correlated points with different spreads, away from the origin."""
    rng = np.random.default_rng([seed, *shape])
    mixing = rng.normal(size=(*shape[:-2], shape[-2], shape[-2]))
    return mixing @ rng.standard_t(5, size=shape) + rng.normal(size=shape[-2])[:, None]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shrinkage", [None, 0.0, 0.3, 1.0, "ledoit_wolf", "oas"])
def test_each_covariance_is_that_of_its_set_alone(shape, shrinkage):
    samples = make_points(shape)
    before = samples.copy()
    expected = each_alone(samples, shrinkage)
    assert_allclose(covariances(samples, shrinkage), expected, rtol=1e-12, atol=1e-12)
    assert_array_equal(samples, before)


@given(st.integers(2, 6), st.integers(3, 60), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_the_estimated_shrinkage_is_that_of_scikit_learn(d, n_points, unit, seed):
    samples = unit * make_points((2, d, n_points), seed)
    for shrinkage in ("ledoit_wolf", "oas"):
        expected = each_alone(samples, shrinkage)
        assert_allclose(covariances(samples, shrinkage), expected, rtol=1e-9, atol=1e-12 * unit**2)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_sums_leave_out_points_that_are_masked(offset):
    samples = make_points((4, 3, 50)) + offset
    mask = np.random.default_rng(1).random((4, 50)) < [[0.2], [0.5], [0.9], [2.0]]
    there = [points[:, kept] for points, kept in zip(samples, mask, strict=True)]
    extended = np.concatenate([samples, np.ones((4, 1, 50))], axis=1) * mask[:, None]
    sums = sum_products(extended)
    assert_allclose(sums[..., :-1], [points @ points.T for points in there], rtol=1e-12)
    assert_allclose(sums[..., -1], [points.sum(axis=1) for points in there], rtol=1e-12)
    means = np.array([points.mean(axis=1) for points in there])
    centre(extended, means)
    centred = [points - points.mean(axis=1, keepdims=True) for points in there]
    scatter = [points @ points.T for points in centred]
    assert_allclose(sum_products(extended)[..., :-1], scatter, rtol=1e-9, atol=1e-8)
    quartic = [np.sum(np.sum(points**2, axis=0) ** 2) for points in centred]
    assert_allclose(sum_quartics(extended), quartic, rtol=1e-7)


def test_sums_of_few_points_may_have_more_coordinates_than_a_block_has_points():
    extended = np.ones((2 * 1024 + 2, 3))
    extended[:-1] = np.random.default_rng(0).normal(size=(2 * 1024 + 1, 3))
    assert_allclose(sum_products(extended), extended[:-1] @ extended.T, rtol=1e-12, atol=1e-12)


def test_moments_out_of_sums_say_where_digits_were_lost():
    points = np.random.default_rng(0).normal(size=(3, 2, 400))
    points[1, 0] += 100
    extended = np.concatenate([points, np.ones((3, 1, 400))], axis=1)
    moments = Moments.from_sums(sum_products(extended), np.full(3, 400.0))
    centred = points - points.mean(axis=-1, keepdims=True)
    assert_allclose(moments.mean, points.mean(axis=-1), rtol=1e-12)
    assert_allclose(moments.scatter, centred @ centred.swapaxes(1, 2), rtol=1e-7, atol=1e-7)
    assert_array_equal(moments.cancelled, [False, True, False])


@pytest.mark.parametrize("ratio", [1.0, 10.0, 30.0, 100.0, 1e3, 1e6])
def test_a_large_mean_costs_no_digits(ratio):
    """The points are multiples of 2⁻²⁰, so that adding the offset is exact."""
    points = np.round(np.random.default_rng(0).normal(size=(2, 3, 5000)) * 2**20) / 2**20
    moved = points + np.round(ratio)
    assert_allclose(covariances(moved), covariances(points), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n_points", [511, 512, 2047, 2048, 2049, 2560, 2561, 5000])
def test_long_sets_are_summed_to_their_last_point(n_points):
    samples = make_points((2, 4, n_points))
    samples[..., -1] += 100
    assert_allclose(covariances(samples), each_alone(samples, None), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("d", [1, 2, 12, 13, 20])
def test_covariances_are_exactly_symmetric(d):
    covariance = covariances(make_points((3, d, 300)))
    assert_array_equal(covariance, covariance.swapaxes(1, 2))
    assert_allclose(covariance, each_alone(make_points((3, d, 300)), None), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("shrinkage", [None, 0.3, "ledoit_wolf", "oas"])
def test_a_translation_changes_nothing_even_when_it_is_large(shrinkage):
    samples = make_points((3, 4, 60))
    moved = samples + 1e6
    assert_allclose(covariances(moved, shrinkage), covariances(samples, shrinkage), rtol=1e-7)


@pytest.mark.parametrize("shrinkage", [None, 0.3, "ledoit_wolf", "oas"])
def test_points_that_are_all_the_same_have_no_covariance(shrinkage):
    assert_array_equal(covariances(np.full((2, 3, 9), 4.0), shrinkage), np.zeros((2, 3, 3)))


@pytest.mark.parametrize("shrinkage", ["ledoit_wolf", "oas"])
def test_a_multiple_of_the_identity_stays_whatever_rounding_does(shrinkage):
    signs = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]) * 0.1
    actual = covariances(signs[None].repeat(3, axis=0), shrinkage)
    assert_allclose(actual, np.tile(0.01 * np.eye(3), (3, 1, 1)), rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("shrinkage", [0.3, "ledoit_wolf", "oas"])
def test_shrinkage_keeps_the_trace(shrinkage):
    samples = make_points((5, 4, 20))
    shrunk, plain = covariances(samples, shrinkage), covariances(samples, 0.0)
    assert_allclose(np.trace(shrunk, axis1=1, axis2=2), np.trace(plain, axis1=1, axis2=2))
    assert np.all(np.abs(shrunk[:, 0, 1]) < np.abs(plain[:, 0, 1]))


def test_the_diagonal_is_added_as_it_is_or_in_units_of_the_mean_variance():
    plain = covariances(make_points((5, 4, 20)))
    expected = [matrix + 0.1 * np.eye(4) for matrix in plain]
    assert_allclose(add_diagonal(plain.copy(), 0.1), expected, rtol=1e-14)
    relative = [matrix + 0.1 * np.trace(matrix) / 4 * np.eye(4) for matrix in plain]
    assert_allclose(add_diagonal(plain.copy(), 0.1, relative=True), relative, rtol=1e-14)


@pytest.mark.parametrize("value", [None, "ledoit_wolf", "oas", 0, 1, 0.25, np.float64(0.5)])
def test_what_shrinkage_may_be(value):
    assert check_shrinkage(value) == value


@pytest.mark.parametrize(
    ("value", "error"),
    [(-0.1, ValueError), (1.1, ValueError), (np.nan, ValueError), ("lw", ValueError),
     (True, TypeError), ([0.1], TypeError)],
)  # fmt: skip
def test_what_shrinkage_may_not_be(value, error):
    with pytest.raises(error, match=r"^shrinkage: expected .*, got"):
        check_shrinkage(value)
