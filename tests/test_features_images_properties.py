"""Covariance descriptors under symmetries, in scikit-learn, and of constant images."""

import pickle

import numpy as np
import pytest
import sklearn
from images_helpers import (
    COLOUR,
    GABOR,
    SHRINKAGES,
    as_arrays,
    assert_same_result,
    draw_images,
)
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.validation import check_is_fitted

from tatml.features import CovarianceDescriptor

# Symmetries


ALL = (*COLOUR, *GABOR)


def all_features(**options):
    return CovarianceDescriptor((*COLOUR, "gabor"), diagonal=0.01, **options)


def apply(change, blocks):
    """Return the covariances of linearly transformed features, without changing the diagonal."""
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


def test_there_is_nothing_to_fit():
    descriptor = CovarianceDescriptor()
    check_is_fitted(descriptor)
    assert not get_tags(descriptor).requires_fit
    images = draw_images()
    unfitted = descriptor.transform(images)
    assert descriptor.fit(draw_images(height=30, channels=3)) is descriptor
    assert_same_result(descriptor.transform(images), unfitted)
    assert_same_result(CovarianceDescriptor().fit_transform(images), unfitted)


@pytest.mark.parametrize("features", [("intensity",), ("nonsense",)])
def test_a_notebook_can_show_it_whatever_its_parameters(features):
    assert "CovarianceDescriptor" in estimator_html_repr(CovarianceDescriptor(features))
    assert "CovarianceDescriptor" in repr(CovarianceDescriptor(features))


def flatten(X):
    return np.hstack([array.reshape(len(array), -1) for array in as_arrays(X)])


def two_textures():
    """Return horizontal and vertical stripes with noise, and their labels."""
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
    descriptor.fit(draw_images(height=30, width=30, channels=3))
    assert descriptor.pixel_feature_names_ == ("red", "green", "blue", "|Ix|")
    assert descriptor.block_names_ == (
        "scale 1, region (0, 0)", "scale 1, region (0, 1)",
        "scale 0.25, region (0, 0)", "scale 0.25, region (0, 1)",
    )  # fmt: skip


def test_progress_is_told_when_asked_for(capsys):
    CovarianceDescriptor().transform(draw_images())
    assert capsys.readouterr().out == ""
    CovarianceDescriptor(verbose=1).transform(draw_images())
    assert "3 of 3 images" in capsys.readouterr().out


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


def test_small_variances_are_not_singular_and_masks_may_be_an_object_array():
    images = np.random.default_rng(0).random((2, 12, 12))
    names = ("intensity", "|Ix|", "|Iy|")
    describe = CovarianceDescriptor(names, scales=(1.0,), diagonal=0.0).transform
    plain = describe(images)
    small = describe(1e-9 * images)
    assert_allclose(small, 1e-18 * plain, rtol=1e-9)
    masks = np.empty(2, dtype=object)
    masks[:] = [np.ones((12, 12), bool), np.tri(12, dtype=bool)]
    expected = describe(images, list(masks))
    found = describe(images, masks)
    assert_allclose(found, expected, rtol=0)


@pytest.mark.parametrize("options", [{"diagonal": 0}, {"diagonal_relative": True}])
@pytest.mark.parametrize("value", [0.0, 0.3, 1e5])
def test_a_singular_covariance_is_an_error_where_the_diagonal_does_not_help(options, value):
    images = draw_images().copy()
    CovarianceDescriptor(**options).transform(images)
    images[1] = value
    with pytest.raises(ValueError, match=r"got a singular one in sample 1, scale 0.5 \(1 of"):
        CovarianceDescriptor(scales=(0.5,), **options).transform(images)
    with pytest.raises(
        ValueError, match=r"got a singular one in sample 1, scale 1, region \(0, 0\)"
    ):
        CovarianceDescriptor(regions=(1, 2), **options).transform(images)


def test_features_that_depend_on_each_other_are_an_error_without_a_diagonal():
    images = draw_images(channels=3)
    with pytest.raises(ValueError, match=r"in sample 0, .* \(3 of 3 samples\).*positive diagonal"):
        CovarianceDescriptor(("color", "intensity"), diagonal=0).transform(images)
