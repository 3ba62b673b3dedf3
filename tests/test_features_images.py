"""Covariance descriptors against loops over pixels, and what they must do under symmetries."""

import os
import pickle
import tracemalloc
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.ndimage
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf, oas, shrunk_covariance
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tatml import Blocks
from tatml.features import CovarianceDescriptor, _image_covariances
from tatml.features._resampling import Resampler, scaled_size

GREY = ("intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|", "magnitude", "orientation", "x", "y")
GABOR = ("gabor:0.25:0°", "gabor:0.25:45°", "gabor:0.25:90°", "gabor:0.25:135°")
COLOUR = ("intensity", "red", "green", "blue", *GREY[1:])
SHRINKAGES = (None, 0.2, "ledoit_wolf", "oas")


# The same by loops over the pixels: the formulas of the documentation, one pixel at a time


def keys(t):
    t = abs(t)
    if t <= 1:
        return 1.5 * t**3 - 2.5 * t**2 + 1
    return -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2 if t <= 2 else 0.0


def shrink_line(line, n_new):
    """One row or column of pixels on a coarser grid."""
    stretch = len(line) / n_new
    values = []
    for i in range(n_new):
        centre = (i + 0.5) * stretch - 0.5
        weights = [keys((j - centre) / stretch) for j in range(len(line))]
        values.append(np.dot(weights, line) / sum(weights))
    return values


def shrink_plane(plane, scale):
    n_rows, n_columns = (int(np.floor(size * scale + 0.5)) for size in plane.shape)
    rows = np.array([shrink_line(column, n_rows) for column in plane.T]).T
    return np.array([shrink_line(row, n_columns) for row in rows])


def gabor_plane(plane, frequency, degrees):
    sigma = 0.56 / frequency
    radius = int(np.ceil(3 * sigma))
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    envelope = np.exp(-(x**2 + y**2) / (2 * sigma**2))
    envelope /= envelope.sum()
    angle = np.deg2rad(degrees)
    wave = np.exp(2j * np.pi * frequency * (x * np.cos(angle) + y * np.sin(angle)))
    kernel = envelope * (wave - np.sum(envelope * wave))
    padded = np.pad(plane, radius, mode="edge")
    size = 2 * radius + 1
    return np.array(
        [
            [abs(np.sum(kernel * padded[i : i + size, j : j + size])) for j in range(n_columns)]
            for i, n_columns in enumerate([plane.shape[1]] * plane.shape[0])
        ]
    )


def pixel_features(planes, i, j, names):
    """The features of pixel (i, j) of one image of shape (channels, height, width)."""
    height, width = planes.shape[1:]

    def intensity(row, column):
        row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
        pixel = planes[:, row, column]
        return pixel[0] if len(pixel) == 1 else np.dot([0.299, 0.587, 0.114], pixel)

    here = intensity(i, j)
    ix = (intensity(i, j + 1) - intensity(i, j - 1)) / 2
    iy = (intensity(i + 1, j) - intensity(i - 1, j)) / 2
    known = {
        "intensity": here,
        "|Ix|": abs(ix),
        "|Iy|": abs(iy),
        "|Ixx|": abs(intensity(i, j + 1) - 2 * here + intensity(i, j - 1)),
        "|Iyy|": abs(intensity(i + 1, j) - 2 * here + intensity(i - 1, j)),
        "magnitude": np.hypot(ix, iy),
        "orientation": np.arctan2(abs(iy), abs(ix)),
        "x": j / (width - 1),
        "y": i / (height - 1),
    }
    known |= dict(zip(("red", "green", "blue"), planes[:, i, j], strict=False))
    return [known[name] for name in names]


def covariance_of(points, shrinkage):
    """Of points in rows."""
    mean = sum(points) / len(points)
    scatter = sum(np.outer(point - mean, point - mean) for point in points)
    if shrinkage is None:
        return scatter / (len(points) - 1)
    if shrinkage == "ledoit_wolf":
        return ledoit_wolf(points)[0]
    if shrinkage == "oas":
        return oas(points)[0]
    return shrunk_covariance(scatter / len(points), shrinkage)


def direct(image, names, scales=(1.0,), regions=(1, 1), shrinkage=None, diagonal=1e-3, mask=None):
    """The matrices of one image of shape (height, width[, channels]), in the order of blocks."""
    matrices = []
    for scale in scales:
        planes, kept = scaled_image(image, mask, scale)
        height, width = kept.shape
        for row in range(regions[0]):
            for column in range(regions[1]):
                points = [
                    pixel_features(planes, i, j, names)
                    for i in range(row * height // regions[0], (row + 1) * height // regions[0])
                    for j in range(column * width // regions[1], (column + 1) * width // regions[1])
                    if kept[i, j]
                ]
                matrix = covariance_of(np.array(points), shrinkage)
                matrices.append(matrix + diagonal * np.eye(len(matrix)))
    return matrices


def scaled_image(image, mask, scale):
    planes = np.atleast_3d(image).transpose(2, 0, 1)
    mask = np.ones(planes.shape[1:], dtype=bool) if mask is None else mask
    if scale == 1:
        return planes, mask
    planes = np.array([shrink_plane(plane, scale) for plane in planes])
    return planes, shrink_plane(mask.astype(float), scale) > 0.5


# Images to describe


@cache
def draw_images(n_images=3, height=17, width=22, channels=None, seed=0):
    """Smooth images with some noise, in [0, 1]."""
    rng = np.random.default_rng([seed, n_images, height, width])
    noise = rng.random(
        (n_images, height, width) if channels is None else (n_images, height, width, channels)
    )
    smooth = scipy.ndimage.gaussian_filter(noise, (0, 2, 2, 0)[: noise.ndim])
    images = 0.2 * noise + 4 * (smooth - 0.5) + 0.4
    images.setflags(write=False)
    return images


def draw_masks(n_images=3, height=17, width=22, seed=0):
    rng = np.random.default_rng([1, seed, n_images, height, width])
    return scipy.ndimage.gaussian_filter(rng.random((n_images, height, width)), (0, 2, 2)) > 0.47


def as_arrays(result):
    return result.arrays if isinstance(result, Blocks) else (result,)


def assert_same_result(actual, expected, atol=1e-12):
    for one, other in zip(as_arrays(actual), as_arrays(expected), strict=True):
        assert_allclose(one, other, rtol=1e-11, atol=atol)


def assert_is_direct(result, images, masks=None, **options):
    masks = [None] * len(images) if masks is None else masks
    for sample, (image, mask) in enumerate(zip(images, masks, strict=True)):
        expected = direct(image, mask=mask, **options)
        for block, matrix in zip(as_arrays(result), expected, strict=True):
            assert_allclose(block[sample], matrix, rtol=1e-10, atol=1e-12)


@pytest.fixture
def small_strips(monkeypatch):
    """Several strips even in a small image, each read on its own."""
    monkeypatch.setattr(_image_covariances, "BYTES_AT_ONCE", 100)
    monkeypatch.setattr(_image_covariances, "FEWEST_ROWS", 3)
    monkeypatch.setattr(_image_covariances, "BYTES_TO_KEEP", 0)


# Agreement with the loops


@pytest.mark.parametrize("names", [GREY, COLOUR], ids=["grey", "colour"])
@pytest.mark.parametrize("shrinkage", SHRINKAGES)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_descriptors_are_those_of_a_loop_over_pixels(names, shrinkage, masked):
    channels = 3 if "red" in names else None
    images = draw_images(channels=channels)
    masks = draw_masks() if masked else None
    options = {"scales": (1.0, 0.5, 0.37), "shrinkage": shrinkage}
    result = CovarianceDescriptor(names, **options).fit(images).transform(images, masks)
    assert result.block_shapes == ((len(names), len(names)),) * 3
    assert_is_direct(result, images, masks, names=names, **options)


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("shrinkage", [None, "ledoit_wolf"])
@pytest.mark.parametrize("regions", [(2, 3), (3, 1), (1, 2)])
def test_regions_are_those_of_a_loop_over_pixels(regions, shrinkage, masked):
    images = draw_images(height=27, width=33)
    masks = draw_masks(height=27, width=33) if masked else None
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


def test_gabor_responses_are_those_of_a_direct_convolution():
    image = draw_images(n_images=1, height=12, width=15)[0]
    descriptor = CovarianceDescriptor(("gabor", "gabor:0.4:3"), scales=(1.0,))
    bank = [(0.25, 0), (0.25, 45), (0.25, 90), (0.25, 135), (0.4, 0), (0.4, 60), (0.4, 120)]
    expected = np.cov([gabor_plane(image, *kernel).ravel() for kernel in bank])
    actual = descriptor.transform(image[None])[0]
    assert_allclose(actual, expected + 1e-3 * np.eye(7), rtol=1e-10, atol=1e-14)
    assert descriptor.pixel_feature_names_ == tuple(f"gabor:{f:g}:{angle:g}°" for f, angle in bank)


@pytest.mark.usefixtures("small_strips")
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("shrinkage", SHRINKAGES)
def test_strips_are_those_of_a_loop_over_pixels(shrinkage, masked):
    images = draw_images(channels=3)
    masks = draw_masks() if masked else None
    options = {"scales": (1.0, 0.5), "regions": (2, 1), "shrinkage": shrinkage}
    result = CovarianceDescriptor(COLOUR, **options).transform(images, masks)
    assert_is_direct(result, images, masks, names=COLOUR, **options)


def test_strips_change_nothing(small_strips, monkeypatch):
    images = draw_images(n_images=4, height=40, width=30)
    descriptor = CovarianceDescriptor((*GREY, "gabor"), scales=(1.0, 0.6, 0.25))
    in_strips = descriptor.transform(images)
    monkeypatch.undo()
    assert_same_result(in_strips, descriptor.transform(images))


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


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
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


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(_image_covariances, "BYTES_AT_ONCE", 20_000)
    images, masks = draw_images(n_images=40), draw_masks(n_images=40)
    expected = CovarianceDescriptor().transform(images, masks)
    actual = CovarianceDescriptor(n_jobs=2).transform(images, masks)
    for one, other in zip(actual.arrays, expected.arrays, strict=True):
        assert_array_equal(one, other)


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


# Symmetries


ALL = (*COLOUR, *GABOR)


def all_features(**options):
    return CovarianceDescriptor((*COLOUR, "gabor"), diagonal=0.01, **options)


def apply(change, blocks):
    """The covariances of features that are changed linearly, with the diagonal left out."""
    eye = 0.01 * np.eye(len(ALL))
    return [change @ (block - eye) @ change.T + eye for block in blocks.arrays]


@pytest.mark.parametrize("height", [16, 17, 21])
def test_a_quarter_turn_exchanges_x_and_y(height):
    images = draw_images(height=height, channels=3)
    turned = np.rot90(images, axes=(1, 2))  # what was right is up: x becomes y, y becomes 1 − x
    change = np.eye(len(ALL))[:, :]
    swaps = {"|Ix|": "|Iy|", "|Ixx|": "|Iyy|", "x": "y", GABOR[0]: GABOR[2], GABOR[1]: GABOR[3]}
    for one, other in swaps.items():
        i, j = ALL.index(one), ALL.index(other)
        change[[i, j]] = change[[j, i]]
    change[ALL.index("y")] *= -1
    change[ALL.index("orientation")] *= -1  # π/2 − angle
    actual = all_features().transform(turned)
    for block, expected in zip(
        actual.arrays, apply(change, all_features().transform(images)), strict=True
    ):
        assert_allclose(block, expected, rtol=1e-9, atol=1e-12)
    assert np.max(np.abs(block - all_features().transform(images).arrays[1])) > 1e-3


@pytest.mark.parametrize(("axis", "coordinate"), [(1, "y"), (2, "x")])
def test_a_mirror_turns_one_coordinate_round(axis, coordinate):
    images = draw_images(height=21, channels=3)
    change = np.eye(len(ALL))
    change[ALL.index(coordinate), ALL.index(coordinate)] = -1
    swap = [ALL.index(GABOR[1]), ALL.index(GABOR[3])]
    change[swap] = change[swap[::-1]]
    actual = all_features().transform(np.flip(images, axis))
    for block, expected in zip(
        actual.arrays, apply(change, all_features().transform(images)), strict=True
    ):
        assert_allclose(block, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shrinkage", SHRINKAGES)
def test_a_constant_added_to_the_pixels_changes_nothing(shrinkage):
    images = draw_images(channels=3)
    descriptor = all_features(shrinkage=shrinkage)
    assert_same_result(descriptor.transform(images + 3.0), descriptor.transform(images), 1e-11)


def test_a_large_constant_costs_only_the_digits_of_the_pixels():
    images = np.round(draw_images() * 2**20) / 2**20
    descriptor = CovarianceDescriptor(scales=(1.0,))
    moved = descriptor.transform(images + 2.0**20)
    assert_allclose(moved, descriptor.transform(images), rtol=1e-12, atol=1e-14)


def test_a_factor_scales_what_is_measured_in_units_of_the_pixels():
    images = draw_images(channels=3)
    change = np.diag([1.0 if name in ("x", "y", "orientation") else 2.5 for name in ALL])
    expected = apply(change, all_features().transform(images))
    for block, matrix in zip(all_features().transform(2.5 * images).arrays, expected, strict=True):
        assert_allclose(block, matrix, rtol=1e-10, atol=1e-12)


def test_more_light_on_one_channel_moves_the_intensity_by_its_luma():
    images = np.zeros((1, 8, 9, 3))
    for channel, weight in enumerate((0.299, 0.587, 0.114)):
        images[...] = 0
        images[..., channel] = draw_images(1, 8, 9)
        descriptor = CovarianceDescriptor(("intensity", "color"), scales=(1.0,), diagonal=1e-9)
        matrix = descriptor.transform(images)[0] - 1e-9 * np.eye(4)
        variance = np.var(images[..., channel], ddof=1)
        assert_allclose(matrix[0, 0], weight**2 * variance)
        assert_allclose(matrix[0, channel + 1], weight * variance)


# Smaller scales: a proper low-pass


@pytest.mark.parametrize("size", [7, 8, 31, 64, 101])
@pytest.mark.parametrize("scale", [0.9, 0.5, 0.3, 0.1])
def test_a_smaller_scale_passes_constants(size, scale):
    n_new = max(1, scaled_size(size, scale))
    small = Resampler.between((size, size), (n_new, n_new))(np.full((2, size, size), 0.7), 0, n_new)
    assert small.shape == (2, n_new, n_new)
    assert_allclose(small, 0.7, rtol=1e-14)


def test_half_the_scale_kills_a_checkerboard():
    board = np.indices((40, 40)).sum(axis=0) % 2.0
    small = Resampler.between((40, 40), (20, 20))(board, 0, 20)
    assert_allclose(small[2:-2, 2:-2], 0.5, atol=1e-14)
    assert np.max(np.abs(small - 0.5)) < 0.2  # the border, where the kernel is cut
    inside = np.pad(np.ones((32, 32), dtype=bool), 4)
    descriptor = CovarianceDescriptor(("intensity",), diagonal=1e-9)
    full, half = descriptor.transform(board[None], inside[None]).arrays
    assert_allclose(full.item(), 0.25, rtol=1e-2)
    assert half.item() < 1.1e-9


def test_half_the_scale_keeps_what_is_slow_and_removes_what_is_fast():
    def response(frequency):
        """Of a wave along x, at the centres of the new pixels."""
        old, new = np.arange(200), 2 * np.arange(100) + 0.5
        wave = np.tile(np.cos(2 * np.pi * frequency * old), (6, 1))
        small = Resampler.between((6, 200), (3, 100))(wave, 0, 3)[1]
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
    actual = Resampler.between(old, new)(image.astype(float), 0, new[0])
    assert_allclose(actual, np.asarray(resized), atol=2e-6)


def test_some_rows_of_a_smaller_image_need_only_some_rows_of_the_image():
    image = np.random.default_rng(0).random((300, 40))
    resampler = Resampler.between((300, 40), (150, 20))
    top, bottom = resampler.rows_needed(60, 70)
    assert bottom - top < 100
    some = resampler(image[top:bottom], 60, 70)
    assert_allclose(some, resampler(image, 0, 150)[60:70], rtol=1e-13)


@pytest.mark.parametrize(
    ("size", "scale", "expected"), [(41, 0.5, 21), (40, 0.5, 20), (10, 0.33, 3)]
)
def test_sides_are_rounded_to_the_nearest_integer(size, scale, expected):
    assert scaled_size(size, scale) == expected


# scikit-learn


def test_parameters_survive_a_clone_and_a_pickle():
    options = {
        "features": ("color", "x"), "scales": (0.5,), "regions": (2, 1), "diagonal": 0.1,
        "diagonal_relative": True, "shrinkage": "oas", "pixel_range": (0, 2), "n_jobs": 2,
        "verbose": 0,
    }  # fmt: skip
    descriptor = CovarianceDescriptor(**options)
    assert descriptor.get_params() == options
    assert clone(descriptor).get_params() == options
    images = draw_images(channels=3)
    assert clone(descriptor).fit(images).get_params() == options
    again = pickle.loads(pickle.dumps(descriptor)).transform(images)
    assert_same_result(again, descriptor.fit_transform(images))


def flatten(X):
    return np.hstack([array.reshape(len(array), -1) for array in as_arrays(X)])


def two_textures():
    """Horizontal and vertical stripes with noise, and their labels."""
    rng = np.random.default_rng(0)
    stripes = np.tile(np.sin(np.arange(16)), (16, 1))
    y = np.arange(20) % 2
    images = np.where(y[:, None, None], stripes, stripes.T) + 0.3 * rng.normal(size=(20, 16, 16))
    return images, y


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 0.5)])
def test_a_pipeline_is_cross_validated(scales):
    images, y = two_textures()
    descriptor = CovarianceDescriptor(scales=scales)
    pipeline = make_pipeline(descriptor, FunctionTransformer(flatten), KNeighborsClassifier(3))
    assert cross_val_score(pipeline, images, y, cv=4).min() == 1.0
    assert cross_val_score(pipeline, list(images), y, cv=4).min() == 1.0


def test_masks_travel_through_a_pipeline():
    images, y = two_textures()
    masks = np.broadcast_to(np.indices((16, 16))[0] < 10, images.shape)
    cut = [image[:10] for image in images]
    with sklearn.config_context(enable_metadata_routing=True):
        descriptor = CovarianceDescriptor(("intensity", "|Ix|")).set_transform_request(masks=True)
        pipeline = make_pipeline(descriptor, FunctionTransformer(flatten), KNeighborsClassifier(1))
        pipeline.fit(images, y, masks=masks)
        fitted = pipeline[-1]._fit_X
    expected = descriptor.transform(images, masks)
    assert_allclose(fitted, flatten(expected))
    assert np.max(np.abs(fitted - flatten(descriptor.transform(images)))) > 1e-3
    full = CovarianceDescriptor(("intensity", "|Ix|"), scales=(1.0,))
    assert_same_result(full.transform(images, masks), full.transform(cut))


def test_features_and_blocks_have_names():
    descriptor = CovarianceDescriptor(("color", "|Ix|"), scales=(1, 0.25), regions=(1, 2))
    assert descriptor.pixel_feature_names_ == ("red", "green", "blue", "|Ix|")
    assert descriptor.block_names_ == (
        "scale 1, region (0, 0)", "scale 1, region (0, 1)",
        "scale 0.25, region (0, 0)", "scale 0.25, region (0, 1)",
    )  # fmt: skip


def test_progress_is_told_when_asked_for(capfd):
    CovarianceDescriptor(verbose=10).transform(draw_images())
    output = capfd.readouterr()
    assert "Done" in output.out + output.err


# The diagonal, and images without variance


def test_the_diagonal_is_added_last():
    images = draw_images()
    plain = CovarianceDescriptor(diagonal=0, scales=(1.0,)).transform(images)
    absolute = CovarianceDescriptor(diagonal=0.5, scales=(1.0,)).transform(images)
    assert_allclose(absolute, plain + 0.5 * np.eye(5), rtol=1e-13)
    relative = CovarianceDescriptor(diagonal=0.5, diagonal_relative=True, scales=(1.0,))
    units = np.trace(plain, axis1=1, axis2=2) / 5
    expected = plain + 0.5 * units[:, None, None] * np.eye(5)
    assert_allclose(relative.transform(images), expected, rtol=1e-13)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 200.0])
@pytest.mark.parametrize("shrinkage", SHRINKAGES)
def test_a_constant_image_has_the_diagonal_alone(value, shrinkage):
    images = np.full((2, 9, 9), value)
    result = CovarianceDescriptor(shrinkage=shrinkage).transform(images)
    for block in result.arrays:
        assert_allclose(block, [1e-3 * np.eye(5)] * 2, atol=1e-20)


@pytest.mark.parametrize("options", [{"diagonal": 0}, {"diagonal_relative": True}])
@pytest.mark.parametrize("value", [0.0, 0.3, 1e5])
def test_a_singular_covariance_is_an_error_where_the_diagonal_does_not_help(options, value):
    images = draw_images().copy()
    CovarianceDescriptor(**options).transform(images)
    images[1] = value
    with pytest.raises(ValueError, match=r"got a singular one in sample 1, scale 0.5, region"):
        CovarianceDescriptor(scales=(0.5,), **options).transform(images)
    with pytest.raises(
        ValueError, match=r"got a singular one in sample 1, scale 1, region \(0, 0\)"
    ):
        CovarianceDescriptor(**options).transform(images)


def test_features_that_depend_on_each_other_are_an_error_without_a_diagonal():
    images = draw_images(channels=3)
    with pytest.raises(ValueError, match=r"in sample 0, .* \(3 of 3 samples\).*positive diagonal"):
        CovarianceDescriptor(("color", "intensity"), diagonal=0).transform(images)


# Memory


def peak_bytes(descriptor, images):
    tracemalloc.start()
    try:
        descriptor.transform(images)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_images():
    images = np.random.default_rng(0).integers(256, size=(400, 40, 40, 3), dtype=np.uint8)
    features = 400 * 40 * 40 * 8 * 7
    descriptor = CovarianceDescriptor(("color", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|"))
    assert peak_bytes(descriptor, images) < features / 2


def test_memory_does_not_grow_with_the_height_of_an_image():
    image = np.random.default_rng(0).integers(256, size=(1, 12_000, 400), dtype=np.uint8)
    assert peak_bytes(CovarianceDescriptor(), image) < 0.1 * image.size * 8 * 5


# What is refused


IMAGES = np.random.default_rng(0).random((3, 8, 9))


def with_bad(value, index=(1, 2, 3)):
    images = IMAGES.copy()
    images[index] = value
    return images


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 8, 9)), r"X: expected at least one image, got ndarray of length 0"),
        ([], r"X: expected at least one image, got list of length 0"),
        (np.empty((2, 0, 9)), r"X: expected images with pixels, got 0×9 in each sample"),
        ([IMAGES[0], np.empty((4, 0))], r"X: .* got 4×0 in sample 1"),
        (IMAGES[0], r"X: expected images of shape \(n_images, .*got ndarray .*\(8, 9\); .*X\[None\]"),
        (IMAGES[0, 0], r"X: expected images of shape \(n_images, .* of shape \(9,\)"),
        (IMAGES[None, None], r"X: expected images of shape .* \(1, 1, 3, 8, 9\)"),
        ([IMAGES[0], IMAGES[0, 0]], r"X: expected .*, got shape \(9,\) in sample 1"),
        ([[[1.0, 2.0], [3.0]]], r"X, sample 0: expected rows of equal length"),
        (np.ones((2, 8, 9, 4)), r"X: expected 1 channel .*, got 4 in each sample; leave alpha out"),
        ([IMAGES[0], np.ones((8, 9, 2))], r"X: expected 1 channel .*, got 2 in sample 1"),
        (IMAGES[:, :, :2], r"X: expected images of at least 3×3 .* got 8×2 at scale 1 in sample 0"),
        ([IMAGES[0], IMAGES[1, :4]], r"got 2×5 at scale 0.5 in sample 1, which has 4×9"),
        (with_bad(np.nan), r"X: expected finite .* got nan in sample 1, row 2, column 3, channel 0"),
        (with_bad(-np.inf), r"X: expected finite .* got -inf in sample 1, row 2"),
        (with_bad(1e70), r"X: expected finite numbers of at most 1e\+60, got 1e\+70 in sample 1"),
    ],
)  # fmt: skip
def test_images_that_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        CovarianceDescriptor().transform(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            np.ones((2, 8, 9), dtype=int),
            r"X: expected pixels of type .* got int64 in sample 0; say",
        ),
        ([IMAGES[0], np.ones((8, 9), dtype=int)], r"got int64 in sample 1; say pixel_range="),
        (IMAGES.astype(complex), r"X: expected real numbers, got ndarray of dtype complex128"),
        (np.full((2, 8, 9), "a"), r"X: expected real numbers"),
        ([IMAGES[0], np.full((8, 9), "a")], r"X, sample 1: expected real numbers"),
        (None, r"X: expected real numbers, got NoneType"),
        (np.ma.masked_greater(IMAGES, 0.9), r"X: expected no masked array, got one; give masks="),
    ],
)
def test_types_that_are_refused(X, message):
    with pytest.raises(TypeError, match=message):
        CovarianceDescriptor().transform(X)


def test_a_bad_pixel_is_found_in_any_strip_and_thread(small_strips):
    images = np.random.default_rng(0).random((9, 20, 10, 3))
    images[7, 15, 4, 2] = np.nan
    message = r"got nan in sample 7, row 15, column 4, channel 2"
    with pytest.raises(ValueError, match=message):
        CovarianceDescriptor(("red",)).transform(images)
    with pytest.raises(ValueError, match=message):
        CovarianceDescriptor(n_jobs=2).transform(images)
    with pytest.raises(ValueError, match=message):
        CovarianceDescriptor().transform(list(images))


GOOD = np.ones((3, 8, 9), dtype=bool)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (GOOD[:2], r"masks: expected one for each of 3 images, got 2"),
        (GOOD[:, :7], r"masks: .* shape \(8, 9\), as the image has, got bool of shape \(7, 9\) in sample 0"),
        ([GOOD[0], GOOD[1], GOOD[2, 0]], r"masks: .* got bool of shape \(9,\) in sample 2"),
        (GOOD.astype(int), r"masks: expected booleans .* got int64"),
        (GOOD & (np.arange(72).reshape(8, 9) < 5), r"masks: expected more than 5 .* got 5 at scale 1 in sample 0"),
        (GOOD & (np.arange(72).reshape(8, 9) % 4 == 0), r"masks: .* got 0 at scale 0.5 in sample 0"),
        ([GOOD[0], ~GOOD[0], GOOD[0]], r"masks: .* got 0 at scale 1 in sample 1"),
    ],
)  # fmt: skip
def test_masks_that_are_refused(masks, message):
    with pytest.raises(ValueError, match=message):
        CovarianceDescriptor().transform(IMAGES, masks)


def test_masks_must_be_arrays():
    with pytest.raises(TypeError, match=r"masks: expected an array or a list of arrays, got str"):
        CovarianceDescriptor().transform(IMAGES, "all")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"features": ("intensity", "Ix")}, ValueError, r"features: expected names out of .*got 'Ix'"),
        ({"features": ("intensity", 3)}, ValueError, r"features: expected names out of .*got 3"),
        ({"features": "intensity"}, TypeError, r"features: expected a sequence .*got 'intensity'"),
        ({"features": ()}, TypeError, r"features: expected a sequence of at least one name"),
        ({"features": None}, TypeError, r"features: expected a sequence .*got None"),
        ({"features": ("x", "y", "x")}, ValueError, r"features: expected different names, got 'x' twice"),
        ({"features": ("gabor:0.7:4",)}, ValueError, r"features: expected 'gabor' or .*got 'gabor:0.7:4'"),
        ({"features": ("gabor:0.2",)}, ValueError, r"features: expected 'gabor' or .*got 'gabor:0.2'"),
        ({"features": ("gabor:0.2:0",)}, ValueError, r"features: .* at least one orientation, got"),
        ({"features": ("color",)}, ValueError, r"features: expected images of 3 channels for 'red', got 1 channel in sample 0"),
        ({"scales": (1.0, 0.0)}, ValueError, r"scales: expected numbers above 0 and up to 1, got 0.0"),
        ({"scales": (1.5,)}, ValueError, r"scales: expected .* got 1.5"),
        ({"scales": (np.nan,)}, ValueError, r"scales: expected .* got nan"),
        ({"scales": ()}, TypeError, r"scales: expected .* got \(\)"),
        ({"scales": 0.5}, TypeError, r"scales: expected .* got 0.5"),
        ({"scales": ("1",)}, TypeError, r"scales: expected .* got '1'"),
        ({"regions": (2,)}, ValueError, r"regions: expected two integers \(rows, columns\), got \(2,\)"),
        ({"regions": 2}, TypeError, r"regions: expected two integers .* got 2"),
        ({"regions": (0, 1)}, ValueError, r"regions: expected at least 1, got 0"),
        ({"regions": (4, 4)}, ValueError, r"regions: expected more than 5 pixels .* got 2×2 at scale 1 in sample 0"),
        ({"regions": (20, 1)}, ValueError, r"regions: expected more than 5 pixels .* got 0×9"),
        ({"diagonal": -1e-3}, ValueError, r"diagonal: expected a number of at least 0, got -0.001"),
        ({"diagonal": np.nan}, ValueError, r"diagonal: expected a number of at least 0, got nan"),
        ({"diagonal": "1"}, TypeError, r"diagonal: expected a number, got '1'"),
        ({"diagonal_relative": "yes"}, TypeError, r"diagonal_relative: expected True or False, got 'yes'"),
        ({"shrinkage": 2.0}, ValueError, r"shrinkage: expected a number from 0 to 1, got 2.0"),
        ({"pixel_range": (1, 1)}, ValueError, r"pixel_range: expected None or two numbers low < high"),
        ({"pixel_range": (0, np.inf)}, ValueError, r"pixel_range: expected None or two numbers"),
        ({"pixel_range": 255}, TypeError, r"pixel_range: expected None or two numbers .* got 255"),
        ({"n_jobs": 0}, ValueError, r"n_jobs: expected a positive or negative integer, got 0"),
        ({"n_jobs": 1.5}, TypeError, r"n_jobs: expected None or an integer, got 1.5"),
    ],
)  # fmt: skip
def test_parameters_that_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        CovarianceDescriptor(**options).fit_transform(IMAGES)
    if "n_jobs" not in options:
        with pytest.raises(error, match=message):
            CovarianceDescriptor(**options).fit(IMAGES)
