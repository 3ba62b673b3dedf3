"""Covariance descriptors compared with loops over pixels; lists, strips, threads, memory."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st
from images_helpers import (
    COLOUR,
    GREY,
    SHRINKAGES,
    SMALL_STRIPS,
    as_arrays,
    assert_is_direct,
    assert_same_result,
    direct,
    draw_images,
    draw_masks,
    gabor_plane,
    transform_in_strips,
)
from memory_helpers import peak_memory
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from tatml.features import CovarianceDescriptor
from tatml.features._images import MemoryLimits, _split_images, make_plan
from tatml.features._inputs import read_images

# Agreement with the loops


@pytest.mark.parametrize("names", [GREY, COLOUR])
@pytest.mark.parametrize("shrinkage", SHRINKAGES)
@pytest.mark.parametrize("masked", [False, True])
def test_descriptors_are_those_of_a_loop_over_pixels(names, shrinkage, masked):
    channels = 3 if "red" in names else None
    images = draw_images(channels=channels)
    masks = draw_masks() if masked else None
    options = {"scales": (1.0, 0.5, 0.37), "shrinkage": shrinkage}
    result = CovarianceDescriptor(names, **options).fit(images).transform(images, masks)
    assert result.block_shapes == ((len(names), len(names)),) * 3
    assert_is_direct(result, images, masks, names=names, **options)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shrinkage", [None, "ledoit_wolf"])
@pytest.mark.parametrize("regions", [(2, 3), (3, 1)])
def test_regions_are_those_of_a_loop_over_pixels(regions, shrinkage, masked):
    images = draw_images(n_images=2, height=25, width=26)
    masks = draw_masks(n_images=2, height=25, width=26) if masked else None
    names = ("intensity", "|Ix|", "|Iyy|", "y")
    options = {"scales": (1.0, 0.5), "regions": regions, "shrinkage": shrinkage}
    result = CovarianceDescriptor(names, **options).transform(images, masks)
    assert result.n_blocks == 2 * regions[0] * regions[1]
    assert_is_direct(result, images, masks, names=names, **options)


@pytest.mark.parametrize("name", [*GREY, "red", "green", "blue"])
def test_each_feature_alone_has_the_variance_of_a_loop(name):
    images = draw_images(n_images=2, channels=3)
    result = CovarianceDescriptor((name,), scales=(1.0,)).transform(images)
    assert result.shape == (2, 1, 1)
    assert_is_direct(result, images, names=(name,))


@pytest.mark.parametrize("names", [("|Ix|", "blue"), ("x", "blue", "red", "green", "|Iy|")])
def test_channels_in_any_number_and_order_are_those_of_a_loop(names):
    images = draw_images(n_images=2, channels=3)
    options = {"scales": (0.5, 1.0), "shrinkage": "oas"}
    result = CovarianceDescriptor(names, **options).transform(images)
    assert_is_direct(result, images, names=names, **options)


def test_gabor_responses_are_those_of_a_direct_convolution():
    image = draw_images(n_images=1, height=12, width=15)[0]
    descriptor = CovarianceDescriptor(("gabor", "gabor:0.4:3"), scales=(1.0,))
    bank = [(0.25, 0), (0.25, 45), (0.25, 90), (0.25, 135), (0.4, 0), (0.4, 60), (0.4, 120)]
    expected = np.cov([gabor_plane(image, *kernel).ravel() for kernel in bank])
    actual = descriptor.fit_transform(image[None])[0]
    assert_allclose(actual, expected + 1e-3 * np.eye(7), rtol=1e-10, atol=1e-14)
    assert descriptor.pixel_feature_names_ == tuple(f"gabor:{f:g}:{angle:g}°" for f, angle in bank)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shrinkage", SHRINKAGES)
def test_strips_are_those_of_a_loop_over_pixels(shrinkage, masked):
    images = draw_images(channels=3)
    masks = draw_masks() if masked else None
    options = {"scales": (1.0, 0.5), "regions": (2, 1), "shrinkage": shrinkage}
    result = transform_in_strips(CovarianceDescriptor(COLOUR, **options), images, masks)
    assert_is_direct(result, images, masks, names=COLOUR, **options)


@pytest.mark.parametrize("name", [*GREY, "color", "gabor"])
def test_strips_change_no_feature(name):
    images = draw_images(n_images=2, height=40, width=30, channels=3)
    descriptor = CovarianceDescriptor((name,), scales=(1.0, 0.6, 0.25))
    assert_same_result(transform_in_strips(descriptor, images), descriptor.transform(images))


def test_images_larger_than_the_default_limit_are_read_in_strips():
    image = draw_images(n_images=1, height=60, width=1100)
    whole = MemoryLimits(10**9)
    descriptor = CovarianceDescriptor(GREY, scales=(1.0, 0.5))
    group = read_images(image)[0]
    for n_threads, limit in ((1, 2_000_000), (2, 4_000_000)):
        plan = make_plan(group, descriptor._recipe(), n_threads)
        assert plan.limits.bytes_at_once == limit
        assert plan.images_at_once == 0
        assert plan.rows_at_once(plan.levels[0]) == limit // (8 * 9 * 1100)
    assert plan.rows_at_once(plan.levels[0]) < 60
    small, large = (make_plan(group, plan.recipe, 2, limits) for limits in (SMALL_STRIPS, whole))
    assert (small.images_at_once, small.rows_at_once(small.levels[0])) == (0, 3)
    assert large.images_at_once > 0
    assert large.rows_at_once(large.levels[0]) == 60
    assert_same_result(
        descriptor.transform(image), transform_in_strips(descriptor, image, limits=whole)
    )


@given(
    st.integers(3, 30),
    st.integers(3, 30),
    st.floats(0.2, 1.0),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(0, 2**32 - 1),
)
def test_any_size_scale_and_grid_is_that_of_a_loop(height, width, scale, regions, seed):
    names = ("intensity", "|Ixx|")
    sides = [int(np.floor(size * scale + 0.5)) for size in (height, width)]
    cells = [side // n for side, n in zip(sides, regions, strict=True)]
    if min(sides) < 3 or cells[0] * cells[1] <= 2:
        return
    image = np.random.default_rng(seed).random((height, width))
    descriptor = CovarianceDescriptor(names, scales=(scale,), regions=regions)
    assert_is_direct(
        descriptor.transform([image]), [image], names=names, scales=(scale,), regions=regions
    )


@pytest.mark.parametrize("shrinkage", SHRINKAGES)
def test_images_with_hardly_any_variance_lose_no_digits(shrinkage):
    """The slope of the ramp is ten thousand times its variation."""
    usual = draw_images(n_images=1)[0]
    ramp = 1e4 * np.add.outer(np.arange(17.0), np.arange(22.0)) + usual
    names = ("intensity", "|Ix|", "|Iy|", "|Ixx|")
    options = {"scales": (1.0, 0.5), "diagonal": 1e-9, "shrinkage": shrinkage}
    inner = np.pad(np.ones((9, 14), dtype=bool), 4)  # at the border, the slope is another
    masks = np.stack([np.ones_like(inner), inner])
    result = CovarianceDescriptor(names, **options).transform(np.stack([usual, ramp]), masks)
    assert_is_direct(result[:1], [usual], names=names, **options)
    expected_blocks = direct(ramp, names, mask=inner, **options)
    for block, expected in zip(result.arrays, expected_blocks, strict=True):
        size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert np.max(np.abs(block[1] - expected) / size) < 1e-9


def test_one_region_with_hardly_any_variance_is_enough_to_look_again():
    usual = draw_images(n_images=1, height=20, width=24)[0]
    ramp = usual + 1e4 * np.arange(20.0)[:, None] * (np.arange(24) < 12)
    inner = np.zeros((20, 24), dtype=bool)
    inner[1:-1, 1:10] = inner[1:-1, 14:-1] = True
    descriptor = CovarianceDescriptor(("|Iy|",), scales=(1.0,), regions=(1, 2), diagonal=1e-9)
    result = descriptor.transform(ramp[None], inner[None])
    options = {"regions": (1, 2), "diagonal": 1e-9, "mask": inner}
    for block, expected in zip(result.arrays, direct(ramp, ("|Iy|",), **options), strict=True):
        assert_allclose(block[0], expected, rtol=1e-9)


@pytest.mark.skipif("TATML_DATA" not in os.environ, reason="TATML_DATA names no folder")
def test_real_images_against_scipy():
    with np.load(Path(os.environ["TATML_DATA"]) / "virus.npz") as file:
        images = file["images"][::60]
    actual = CovarianceDescriptor(scales=(1.0,)).transform(images)
    for image, matrix in zip(images / 255, actual, strict=True):
        planes = [image]
        for axis in (1, 0):
            planes.append(scipy.ndimage.correlate1d(image, [-0.5, 0, 0.5], axis, mode="nearest"))
        for axis in (1, 0):
            planes.append(scipy.ndimage.correlate1d(image, [1, -2, 1], axis, mode="nearest"))
        expected = np.cov(np.abs(planes).reshape(5, -1)) + 1e-3 * np.eye(5)
        assert_allclose(matrix, expected, rtol=1e-10, atol=1e-14)


# One by one, together, in lists, in threads


@pytest.mark.parametrize("masked", [False, True])
def test_a_batch_is_each_image_alone(masked):
    images = draw_images(n_images=7, height=9, width=11)
    masks = draw_masks(n_images=7, height=9, width=11) if masked else None
    descriptor = CovarianceDescriptor(scales=(1.0, 0.8), shrinkage="oas")
    together = descriptor.transform(images, masks)
    for sample in range(7):
        mask = None if masks is None else masks[sample : sample + 1]
        assert_same_result(
            together[sample : sample + 1], descriptor.transform(images[[sample]], mask)
        )


def test_a_list_of_images_of_different_sizes_and_types_is_each_image_alone():
    sizes = [(9, 11), (20, 8), (9, 11), (8, 20), (9, 11)]
    images = [draw_images(1, *size, seed=seed)[0] for seed, size in enumerate(sizes)]
    images[2] = np.round(images[2].clip(0, 1) * 255).astype(np.uint8)
    masks = [draw_masks(1, *size, seed=seed)[0] for seed, size in enumerate(sizes)]
    descriptor = CovarianceDescriptor(scales=(1.0, 0.7))
    for chosen in (None, masks):
        together = descriptor.transform(images, chosen)
        for sample, image in enumerate(images):
            mask = None if chosen is None else masks[sample][None]
            assert_same_result(
                together[sample : sample + 1], descriptor.transform(image[None], mask)
            )


def test_a_list_an_object_array_and_an_array_of_images_are_the_same():
    images = draw_images(channels=3)
    objects = np.empty(len(images), dtype=object)
    objects[:] = list(images)
    descriptor, masks = CovarianceDescriptor(("color", "|Ix|")), draw_masks()
    expected = descriptor.transform(images, masks)
    assert_same_result(descriptor.transform(list(images), list(masks)), expected)
    assert_same_result(descriptor.transform(tuple(images), masks), expected)
    assert_same_result(descriptor.transform(objects, list(masks)), expected)


def test_threads_change_nothing():
    images, masks = draw_images(n_images=40), draw_masks(n_images=40)
    descriptor = CovarianceDescriptor()
    expected = descriptor.transform(images, masks)
    threaded = CovarianceDescriptor(n_jobs=2).transform(images, masks)
    chunked = transform_in_strips(
        descriptor, images, masks, n_threads=2, limits=MemoryLimits(50_000)
    )
    for result in (threaded, chunked):
        for one, other in zip(as_arrays(result), expected.arrays, strict=True):
            assert_array_equal(one, other)


def test_threads_get_whole_chunks_of_images():
    """Four tasks per thread, of at most a thousand images, rounded up to whole chunks."""
    cases = (40, 1, 1, 10), (40, 3, 1, 12), (41, 7, 2, 7), (2, 0, 4, 1), (9000, 300, 1, 1200)
    for n_images, at_once, n_threads, length in cases:
        group = SimpleNamespace(samples=range(n_images))
        plan = SimpleNamespace(group=group, images_at_once=at_once)
        tasks = [*_split_images(plan, n_threads)]
        assert [image for task in tasks for image in task] == [*range(n_images)]
        assert {len(task) for task in tasks[:-1]} == {length}


def test_one_channel_is_grey():
    images = draw_images()
    descriptor = CovarianceDescriptor()
    assert_same_result(descriptor.transform(images[..., None]), descriptor.transform(images))


def test_three_equal_channels_have_the_intensity_of_one():
    images = draw_images()
    coloured = np.stack([images] * 3, axis=-1)
    descriptor = CovarianceDescriptor((*GREY, "gabor"))
    assert_same_result(descriptor.transform(coloured), descriptor.transform(images))


# Types of pixels


def test_integers_are_scaled_and_floats_are_not():
    codes = np.random.default_rng(0).integers(256, size=(2, 9, 10, 3), dtype=np.uint8)
    descriptor = CovarianceDescriptor(COLOUR)
    expected = descriptor.transform(codes / 255)
    assert_same_result(descriptor.transform(codes), expected)
    assert_same_result(descriptor.transform(257 * codes.astype(np.uint16)), expected)
    in_range = clone(descriptor).set_params(pixel_range=(-10, 245))
    assert_same_result(in_range.transform(codes.astype(int) - 10), expected)
    plain = clone(descriptor).set_params(pixel_range=(0, 1)).transform(codes)
    assert_same_result(plain, descriptor.transform(codes.astype(float)), atol=1e-9)
    assert_same_result(plain, descriptor.transform(codes.astype(np.float32)), atol=1e-9)


def test_truth_values_are_zero_and_one():
    bits = np.random.default_rng(0).random((2, 9, 10)) < 0.5
    descriptor = CovarianceDescriptor()
    assert_same_result(descriptor.transform(bits), descriptor.transform(bits.astype(float)))


def test_the_images_are_not_changed():
    images = draw_images().copy()
    CovarianceDescriptor(pixel_range=(0.1, 0.7)).transform(images)
    assert_array_equal(images, draw_images())


# Memory


def peak_bytes(descriptor, images):
    return peak_memory(descriptor.transform, images)[0]


def test_memory_does_not_grow_with_the_number_of_images():
    images = np.random.default_rng(0).integers(256, size=(200, 40, 40, 3), dtype=np.uint8)
    features = 200 * 40 * 40 * 8 * 7
    descriptor = CovarianceDescriptor(("color", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|"))
    assert peak_bytes(descriptor, images) < features / 2


def test_memory_does_not_grow_with_the_height_of_an_image():
    image = np.random.default_rng(0).integers(256, size=(1, 12_000, 400), dtype=np.uint8)
    assert peak_bytes(CovarianceDescriptor(), image) < 0.1 * image.size * 8 * 5
