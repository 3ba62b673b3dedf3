"""Errors of covariance descriptors name the parameter, what was expected, and the sample."""

import numpy as np
import pytest
from images_helpers import transform_in_strips

from tatml.features import CovarianceDescriptor

IMAGES = np.random.default_rng(0).random((3, 8, 9))
MASK = np.ones((8, 9), dtype=bool)
PLACE = np.arange(72).reshape(8, 9)


def with_bad(value):
    images = IMAGES.copy()
    images[1, 2, 3] = value
    return images


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 8, 9)), r"at least one image, got ndarray of length 0"),
        ([], r"at least one image, got list of length 0"),
        (np.empty((2, 0, 9)), r"images with pixels, got 0×9 in each sample"),
        ([IMAGES[0], np.empty((4, 0))], r"images with pixels, got 4×0 in sample 1"),
        (IMAGES[0], r"images of shape \(n_images, .* of shape \(8, 9\); .* write X\[None\]"),
        (IMAGES[0, 0], r"images of shape \(n_images, .* of shape \(9,\)"),
        (IMAGES[None, None], r"images of shape \(n_images, .* of shape \(1, 1, 3, 8, 9\)"),
        ([IMAGES[0], IMAGES[0, 0]], r"images of shape \(height, .* got shape \(9,\) in sample 1"),
        (np.ones((2, 8, 9, 4)), r"1 channel .* got 4 in each sample; remove the alpha channel"),
        ([IMAGES[0], np.ones((8, 9, 2))], r"1 channel .* got 2 in sample 1"),
        (IMAGES[:, :, :2], r"images of at least 3×3 pixels .* got 8×2 at scale 1 in sample 0"),
        (
            [IMAGES[0], IMAGES[1, :4]],
            r"images of at least 3×3 .* got 2×5 at scale 0.5 in sample 1, whose size is 4×9",
        ),
        (with_bad(np.nan), r"finite .* got nan in sample 1, row 2, column 3, channel 0"),
        (with_bad(-np.inf), r"finite .* got -inf in sample 1, row 2, column 3"),
        (with_bad(1e70), r"finite numbers of at most 1e\+60, got 1e\+70 in sample 1, row 2"),
    ],
)
def test_images_that_are_refused(X, message):
    with pytest.raises(ValueError, match=r"^X: expected " + message):
        CovarianceDescriptor().transform(X)


def test_rows_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match=r"^X, sample 1: expected rows of equal length"):
        CovarianceDescriptor().transform([IMAGES[0], [[1.0, 2.0], [3.0]]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            np.ones((2, 8, 9), dtype=int),
            r"X: expected pixels .* int64 in sample 0; set pixel_range",
        ),
        (
            [IMAGES[0], MASK.astype(int)],
            r"X: expected pixels .* int64 in sample 1; set pixel_range",
        ),
        (IMAGES.astype(complex), r"X: expected real numbers, got ndarray of dtype complex128"),
        (np.full((2, 8, 9), "a"), r"X: expected real numbers, got ndarray of dtype <U1"),
        ([IMAGES[0], np.full((8, 9), "a")], r"X, sample 1: expected real numbers"),
        (None, r"X: expected real numbers, got NoneType"),
        (np.ma.masked_greater(IMAGES, 0.9), r"X: expected no masked array, got one; pass masks"),
    ],
)
def test_types_that_are_refused(X, message):
    with pytest.raises(TypeError, match="^" + message):
        CovarianceDescriptor().transform(X)


def test_a_bad_pixel_is_found_in_any_strip_list_or_thread():
    images = np.random.default_rng(0).random((9, 20, 10, 3))
    images[7, 15, 4, 2] = np.nan
    message = r"got nan in sample 7, row 15, column 4, channel 2"
    for descriptor, X, n_threads in (
        (CovarianceDescriptor(("red",)), images, 1),
        (CovarianceDescriptor(), images, 2),
        (CovarianceDescriptor(), list(images), 1),
    ):
        with pytest.raises(ValueError, match=message):
            transform_in_strips(descriptor, X, n_threads=n_threads)
        with pytest.raises(ValueError, match=message):
            descriptor.transform(X)


def test_pixels_must_be_numbers_in_their_range_too():
    with pytest.raises(ValueError, match=r"of at most 1e\+50, got 1e\+52 in sample 1"):
        CovarianceDescriptor(pixel_range=(0, 1e-10)).transform(with_bad(1e52))


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ([MASK] * 2, r"one per image, 3 in all, got 2"),
        ([MASK[:7]] * 3, r"booleans of shape \(8, 9\), .* got bool of shape \(7, 9\) in sample 0"),
        ([MASK, MASK, MASK[0]], r"booleans of shape .* got bool of shape \(9,\) in sample 2"),
        (np.ones((3, 8, 9), dtype=int), r"booleans of shape .* got int64 of shape \(8, 9\)"),
        ([MASK, MASK, PLACE < 5], r"more than 5 pixels .* got 5 at scale 1 in sample 2"),
        ([MASK, PLACE % 4 == 0, MASK], r"more than 5 .* got 0 at scale 0.5 in sample 1"),
        ([MASK, ~MASK, ~MASK], r"more than 5 pixels .* got 0 at scale 1 in sample 1"),
    ],
)
def test_masks_that_are_refused(masks, message):
    with pytest.raises(ValueError, match=r"^masks: expected " + message):
        CovarianceDescriptor().transform(IMAGES, masks)


def test_a_region_needs_one_pixel_more_than_there_are_features():
    descriptor = CovarianceDescriptor(scales=(1.0,))
    with pytest.raises(ValueError, match=r"^masks: expected more than 5 pixels .* got 5 at"):
        descriptor.transform(IMAGES[:1], [PLACE < 5])
    assert descriptor.transform(IMAGES[:1], [PLACE < 6]).shape == (1, 5, 5)
    columns = CovarianceDescriptor(scales=(1.0,), regions=(1, 9))
    with pytest.raises(ValueError, match=r"^regions: expected more than 5 pixels .* got 5×1 at"):
        columns.transform(IMAGES[:, :5])
    assert columns.transform(IMAGES[:, :6]).n_blocks == 9


def test_masks_must_be_arrays():
    with pytest.raises(TypeError, match=r"^masks: expected an array or a list of arrays, got str"):
        CovarianceDescriptor().transform(IMAGES, "all")


@pytest.mark.parametrize(
    ("parameter", "value", "error", "message"),
    [
        ("features", ("intensity", "Ix"), ValueError, r"names from 'intensity', .* got 'Ix'"),
        ("features", ("intensity", 3), ValueError, r"names from 'intensity', .* got 3"),
        ("features", "intensity", TypeError, r"a sequence of at least one name, got 'intensity'"),
        ("features", (), TypeError, r"a sequence of at least one name, got \(\)"),
        ("features", None, TypeError, r"a sequence of at least one name, got None"),
        ("features", ("x", "y", "x"), ValueError, r"different names, got 'x' twice"),
        ("features", ("color", "red"), ValueError, r"different names, got 'red' twice"),
        ("features", ("gabor:0.7:4",), ValueError, r"'gabor' or .* got 'gabor:0.7:4'"),
        ("features", ("gabor:0.2",), ValueError, r"'gabor' or .* got 'gabor:0.2'"),
        ("features", ("gabor:a:4",), ValueError, r"'gabor' or .* got 'gabor:a:4'"),
        ("features", ("gabor:0.2:0",), ValueError, r"'gabor' or .* at least one orientation"),
        ("features", ("color",), ValueError, r"images of 3 channels for 'red', got 1 .* sample 0"),
        ("scales", (1.0, 0.0), ValueError, r"numbers above 0 and up to 1, got 0.0"),
        ("scales", (1.5,), ValueError, r"numbers above 0 and up to 1, got 1.5"),
        ("scales", (np.nan,), ValueError, r"numbers above 0 and up to 1, got nan"),
        ("scales", (), TypeError, r"a sequence of numbers .* got \(\)"),
        ("scales", 0.5, TypeError, r"a sequence of numbers .* got 0.5"),
        ("scales", ("1",), TypeError, r"a number, got '1'"),
        ("regions", (2,), TypeError, r"two integers \(rows, columns\), got \(2,\)"),
        ("regions", 2, TypeError, r"two integers \(rows, columns\), got 2"),
        ("regions", (0, 1), ValueError, r"at least 1, got 0"),
        ("regions", (1.0, 1), TypeError, r"an integer, got 1.0"),
        ("regions", (4, 4), ValueError, r"more than 5 pixels .* got 2×2 at scale 1 in sample 0"),
        ("regions", (20, 1), ValueError, r"more than 5 pixels .* got 0×9 at scale 1"),
        ("diagonal", -1e-3, ValueError, r"a finite number of at least 0, got -0.001"),
        ("diagonal", np.nan, ValueError, r"a finite number of at least 0, got nan"),
        ("diagonal", "1", TypeError, r"a number, got '1'"),
        ("diagonal_relative", "yes", TypeError, r"True or False, got 'yes'"),
        ("shrinkage", 2.0, ValueError, r"a number from 0 to 1, got 2.0"),
        ("shrinkage", "lw", ValueError, r"one of 'ledoit_wolf', 'oas', got 'lw'"),
        ("pixel_range", (1, 1), ValueError, r"low < high, got \(1, 1\)"),
        ("pixel_range", (0, np.inf), ValueError, r"a finite number, got inf"),
        ("pixel_range", 255, TypeError, r"None or two numbers .* got 255"),
    ],
)
def test_parameters_that_are_refused(parameter, value, error, message):
    descriptor = CovarianceDescriptor(**{parameter: value})
    for method in (descriptor.fit, descriptor.transform, descriptor.fit_transform):
        with pytest.raises(error, match=rf"^{parameter}: expected {message}"):
            method(IMAGES)


@pytest.mark.parametrize(
    ("n_jobs", "error", "message"),
    [(0, ValueError, r"None or a number other than 0, got 0"),
     (1.5, TypeError, r"an integer, got 1.5")],
)  # fmt: skip
def test_numbers_of_threads_that_are_refused(n_jobs, error, message):
    with pytest.raises(error, match=rf"^n_jobs: expected {message}"):
        CovarianceDescriptor(n_jobs=n_jobs).transform(IMAGES)
