"""Downsampling of images is a low-pass filter for any scale and size."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tatml.features import CovarianceDescriptor
from tatml.features._images import Resampler, Workspace, scaled_size


def resample(image, shape):
    """Return the image or the stack of images resampled to another shape."""
    out = np.empty((*image.shape[:-2], *shape))
    return Resampler.between(image.shape[-2:], shape)(image, 0, shape[0], out, Workspace())


@pytest.mark.parametrize("size", [7, 8, 31, 64, 101])
@pytest.mark.parametrize("scale", [0.9, 0.5, 0.3, 0.1])
def test_a_smaller_scale_passes_constants(size, scale):
    n_new = max(1, scaled_size(size, scale))
    small = resample(np.full((2, size, size), 0.7), (n_new, n_new))
    assert_allclose(small, 0.7, rtol=1e-14)


def test_half_the_scale_kills_a_checkerboard():
    board = np.indices((40, 40)).sum(axis=0) % 2.0
    small = resample(board, (20, 20))
    assert_allclose(small[2:-2, 2:-2], 0.5, atol=1e-14)
    assert np.max(np.abs(small - 0.5)) < 0.2  # the border, where the kernel is cut
    inside = np.pad(np.ones((32, 32), dtype=bool), 4)
    descriptor = CovarianceDescriptor(("intensity",), diagonal=1e-9)
    full, half = descriptor.transform(board[None], inside[None]).arrays
    assert_allclose(full.item(), 0.25, rtol=1e-2)
    assert half.item() < 1.1e-9


def test_half_the_scale_keeps_what_is_slow_and_removes_what_is_fast():
    def response(frequency):
        """Return the resampled wave along x, and the wave at the centres of the new pixels."""
        old, new = np.arange(200), 2 * np.arange(100) + 0.5
        wave = np.tile(np.cos(2 * np.pi * frequency * old), (6, 1))
        small = resample(wave, (3, 100))[1]
        return small[10:-10], np.cos(2 * np.pi * frequency * new)[10:-10]

    small, expected = response(1 / 32)
    assert_allclose(small, expected, atol=0.01)
    for frequency in (0.4, 0.45, 0.5):
        assert np.max(np.abs(response(frequency)[0])) < 0.06


@pytest.mark.parametrize(
    ("old", "new"), [((41, 41), (21, 21)), ((128, 64), (64, 32)), ((50, 37), (11, 9))]
)
def test_smaller_images_are_those_of_pillow(old, new):
    image_module = pytest.importorskip("PIL.Image")
    image = np.random.default_rng(0).random(old).astype(np.float32)
    resized = image_module.fromarray(image).resize(new[::-1], image_module.Resampling.BICUBIC)
    actual = resample(image.astype(float), new)
    assert_allclose(actual, np.asarray(resized), atol=2e-6)


def test_some_rows_of_a_smaller_image_need_only_some_rows_of_the_image():
    image = np.random.default_rng(0).random((300, 40))
    resampler = Resampler.between((300, 40), (150, 20))
    top, bottom = resampler.rows_needed(60, 70)
    assert bottom - top < 100
    some = resampler(image[top:bottom], 60, 70, np.empty((10, 20)), Workspace())
    assert_allclose(some, resample(image, (150, 20))[60:70], rtol=1e-13)


@pytest.mark.parametrize(
    ("size", "scale", "expected"), [(41, 0.5, 21), (40, 0.5, 20), (10, 0.33, 3)]
)
def test_sides_are_rounded_to_the_nearest_integer(size, scale, expected):
    assert scaled_size(size, scale) == expected
