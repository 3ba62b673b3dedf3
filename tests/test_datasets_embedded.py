"""Synthetic data has the documented properties."""

import re
from functools import cache

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from tatml.datasets import (
    load_digits_images,
    make_customers,
    make_filter_bank,
    make_spd_classes,
    make_textures,
)
from tatml.datasets._synthetic import _filtered_noise

SMALL = {
    make_textures: {"n_classes": 3, "n_per_class": 4, "size": 16},
    make_spd_classes: {"n_samples": 11, "n_classes": 3, "n_dim": 4},
    make_filter_bank: {"n_trials": 11, "n_classes": 3, "n_channels": 4, "n_times": 64},
}
SAMPLES = {make_textures: "images", make_spd_classes: "matrices", make_filter_bank: "signals"}
each_maker = pytest.mark.parametrize("make", SMALL)


# What holds for all


@each_maker
@pytest.mark.parametrize("kind", [int, np.random.RandomState, np.random.default_rng])
def test_a_seed_decides_everything(make, kind):
    one, two, other = (make(**SMALL[make], random_state=kind(seed)) for seed in (3, 3, 4))
    assert one.keys() == two.keys()
    for name in one:
        assert_array_equal(one[name], two[name])
    assert not np.array_equal(one[SAMPLES[make]], other[SAMPLES[make]])


# Shape, mean, standard deviation and the first entries of the defaults with seed 0.
OF_SEED_0 = {
    make_textures: ((320, 64, 64), 128.372052, 38.3336556, [133, 136, 120]),
    make_spd_classes: ((300, 6, 6), 0.301662496, 0.86447211, [1.39968864, 0.02143779, -0.35208248]),
    make_filter_bank: (
        (200, 8, 256),
        0.00903304559,
        1.25330574,
        [-0.57027381, -1.4823244, -0.21777729],
    ),
}


@each_maker
def test_a_seed_gives_the_data_of_earlier_versions(make):
    """Results on these data can be compared from version to version."""
    shape, mean, deviation, first = OF_SEED_0[make]
    found = make(random_state=0)[SAMPLES[make]]
    assert found.shape == shape
    assert_allclose([found.mean(), found.std()], [mean, deviation], rtol=1e-6)
    assert_allclose(found.ravel()[:3], first, rtol=1e-6)


@each_maker
def test_x_and_y_alone(make):
    X, y = make(**SMALL[make], random_state=0, return_X_y=True)
    data = make(**SMALL[make], random_state=0)
    assert_array_equal(X, data[SAMPLES[make]])
    assert_array_equal(y, data.target)
    assert data.DESCR.startswith("Synthetic")


@each_maker
def test_the_classes_are_balanced(make):
    data = make(**SMALL[make], random_state=0)
    counts = np.bincount(data.target)
    assert len(counts) == len(data.target_names) == 3
    assert counts.sum() == len(data[SAMPLES[make]])
    assert counts.max() - counts.min() <= 1


@each_maker
def test_the_strongest_of_everything_is_still_finite(make):
    names = {"noise", "nuisance", "separation", "effect"}
    strongest = {name: 5 for name in make.__code__.co_varnames if name in names}
    assert len(strongest) >= 2
    samples, _ = make(**SMALL[make], **strongest, random_state=0, return_X_y=True)
    assert np.all(np.isfinite(samples))
    if make is make_spd_classes:
        assert np.linalg.eigvalsh(samples).min() > 0


BAD = [
    (make_textures, {"n_classes": 0}, ValueError, "n_classes: expected at least 1, got 0"),
    (make_textures, {"n_per_class": 2.0}, TypeError, "n_per_class: expected an integer, got 2.0"),
    (make_textures, {"size": 7}, ValueError, "size: expected at least 8, got 7"),
    (make_textures, {"noise": -1}, ValueError, "noise: expected .* from 0 to 5, got -1"),
    (make_textures, {"noise": "much"}, TypeError, "noise: expected a number, got 'much'"),
    (make_textures, {"nuisance": 5.5}, ValueError, "nuisance: expected .* 0 to 5, got 5.5"),
    (make_textures, {"nuisance": np.nan}, ValueError, "nuisance: expected .* got nan"),
    (make_textures, {"random_state": "x"}, ValueError, "random_state: expected .* got 'x'"),
    (make_spd_classes, {"n_dim": True}, TypeError, "n_dim: expected an integer, got True"),
    (make_spd_classes, {"n_classes": 12}, ValueError, "n_samples: .* n_classes = 12, got 11"),
    (make_spd_classes, {"separation": np.inf}, ValueError, "separation: expected .* got inf"),
    (make_filter_bank, {"n_classes": 12}, ValueError, "n_trials: .* n_classes = 12, got 11"),
    (make_filter_bank, {"n_times": 3}, ValueError, "n_times: expected at least 4, got 3"),
    (make_filter_bank, {"sfreq": 0}, ValueError, "sfreq: expected a positive number, got 0"),
    (make_filter_bank, {"effect": None}, TypeError, "effect: expected a number, got None"),
    (make_filter_bank, {"bands": 3}, ValueError, "bands: expected pairs"),
    (make_filter_bank, {"bands": ()}, ValueError, "bands: expected pairs"),
    (make_filter_bank, {"bands": [(1, 2, 3)]}, ValueError, "bands: expected pairs"),
    (make_filter_bank, {"bands": [(1, "a")]}, TypeError, "bands: expected pairs .* of numbers"),
    (make_filter_bank, {"bands": [(1, 9), (9, 8)]}, ValueError, "bands: .*(9, 8) in band 1"),
    (make_filter_bank, {"bands": [(60, 65)]}, ValueError, "bands: .* ≤ sfreq / 2 = 64 Hz"),
    (
        make_filter_bank,
        {"bands": [(2.1, 3.9)]},
        ValueError,
        "bands: .* = 2 Hz in each band",
    ),
    (make_filter_bank, {"bands": [(np.nan, 9)]}, ValueError, "bands: .*(nan, 9) in band 0"),
]


@pytest.mark.parametrize(("make", "wrong", "error", "message"), BAD)
def test_wrong_arguments_are_named(make, wrong, error, message):
    pattern = ".*".join(map(re.escape, message.split(".*")))
    with pytest.raises(error, match=f"^{pattern}"):
        make(**(SMALL[make] | wrong))


# Digits


def test_digits_are_scikit_learns_between_0_and_1():
    data, original = load_digits_images(), load_digits()
    assert data.images.min() == 0
    assert data.images.max() == 1
    assert_array_equal(data.images.reshape(1797, 64) * 16, original.data)
    assert_array_equal(data.target, original.target)
    assert data.target_names.tolist() == list("0123456789")
    X, y = load_digits_images(return_X_y=True)
    assert_array_equal(X, data.images)
    assert_array_equal(y, data.target)


# Textures


@cache
def make_still_textures():
    """Return 60 images of each of 6 classes, without noise and nuisance."""
    return make_textures(6, 60, noise=0, nuisance=0, random_state=0).images


@pytest.mark.parametrize("c", range(6))
def test_a_texture_has_its_class_orientation_and_frequency(c):
    """The mean periodogram has its peak at the lobes of the class."""
    images = make_still_textures()[60 * c : 60 * (c + 1)].astype(float)
    power = np.mean(np.abs(np.fft.fft2(images - images.mean((1, 2), keepdims=True))) ** 2, axis=0)
    fx, fy = np.meshgrid(np.fft.fftfreq(64), np.fft.fftfreq(64))
    place = (c + 0.5) * (np.sqrt(5) - 1) / 2 % 1
    direction = np.array([np.cos(np.pi * place), np.sin(np.pi * place)])
    one_half = direction[0] * fx + direction[1] * fy > 0  # holds one lobe of the two
    weights = np.where(one_half & (np.hypot(fx, fy) > 0.05), power, 0) ** 2
    peak = np.array([np.sum(weights * fx), np.sum(weights * fy)]) / weights.sum()
    assert peak @ direction > 0.97 * np.linalg.norm(peak)
    assert_allclose(
        np.linalg.norm(peak), 0.08 + 0.17 * ((c + 0.5) * 0.7548776662 % 1), rtol=0, atol=0.03
    )


def test_a_class_of_textures_depends_on_its_number_only():
    few, many = (make_textures(n, 4, 16, random_state=0) for n in (2, 5))
    assert_array_equal(few.images, many.images[:8])
    assert_array_equal(many.target, np.repeat(np.arange(5), 4))
    assert many.images.dtype == np.uint8


def lobe_centres(images, angle):
    """Return the centre of the spectral lobe at the angle: its parts along and across."""
    power = np.abs(np.fft.fft2(images - images.mean((1, 2), keepdims=True))) ** 2
    fx, fy = np.meshgrid(np.fft.fftfreq(images.shape[1]), np.fft.fftfreq(images.shape[1]))
    along, across = np.cos(angle) * fx + np.sin(angle) * fy, np.cos(angle) * fy - np.sin(angle) * fx
    weights = np.where((along > 0) & (np.hypot(fx, fy) > 0.05), power, 0)
    return [np.sum(weights * f, axis=(1, 2)) / weights.sum((1, 2)) for f in (along, across)]


@pytest.fixture(scope="module")
def still_and_moved():
    """Return images of one class without and with nuisance."""
    return [
        make_textures(1, 300, noise=0, nuisance=nuisance, random_state=0).images / 255
        for nuisance in (0, 1)
    ]


def test_contrast_varies_with_the_nuisance(still_and_moved):
    still, moved = (np.log(images.std(axis=(1, 2))) for images in still_and_moved)
    assert_allclose(still, np.log(0.12), atol=0.01)
    # the slope of the light adds to the contrast of the faint ones, clipping takes from the strong
    assert_allclose(moved.std(), 0.3, atol=0.05)


def test_the_light_varies_with_the_nuisance(still_and_moved):
    place = np.linspace(-1, 1, 64)
    variances = []
    for images in still_and_moved:
        level = images.mean(axis=(1, 2))
        across, down = (np.polyfit(place, images.mean(axis=axis).T, 1)[0] for axis in (1, 2))
        variances.append(np.cov([level, across, down]))
    added = variances[1] - variances[0]
    assert_allclose(added, 0.05**2 * np.eye(3), atol=0.3 * 0.05**2)


def test_orientation_and_scale_vary_with_the_nuisance(still_and_moved):
    variances = []
    for images in still_and_moved:
        along, across = lobe_centres(images, np.pi * (np.sqrt(5) - 1) / 4)
        logarithm, angle = np.log(np.hypot(along, across)), np.arctan2(across, along)
        variances.append([logarithm.var(), angle.var()])
    added = np.subtract(*variances[::-1])
    assert_allclose(np.sqrt(added), [0.1, np.deg2rad(8)], rtol=0.35)


def test_the_noise_of_textures_is_white_and_as_strong_as_said():
    noisy, clean = (
        make_textures(1, 50, noise=noise, nuisance=0, random_state=0).images / 255
        for noise in (1, 0)
    )
    noise = noisy - clean
    assert_allclose(noise.std(), 0.12, rtol=0.03)
    for one, other in ((noise[:, 1:], noise[:, :-1]), (noise[..., 1:], noise[..., :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02


def log_covariances(images):
    """Return logarithms of 5×5 covariances of grey value and derivatives, as vectors."""
    grey = images / 255
    middle = grey[:, 1:-1, 1:-1]
    left, right, up, down = (
        grey[:, 1:-1, :-2],
        grey[:, 1:-1, 2:],
        grey[:, :-2, 1:-1],
        grey[:, 2:, 1:-1],
    )
    first = [np.abs(right - left) / 2, np.abs(down - up) / 2]
    second = [np.abs(right + left - 2 * middle), np.abs(down + up - 2 * middle)]
    features = np.stack([middle, *first, *second], axis=1).reshape(len(images), 5, -1)
    return log_vectors(np.array([np.cov(one) + 1e-3 * np.eye(5) for one in features]))


def log_vectors(matrices):
    """Return the logarithm of each matrix as a vector with the same norm."""
    values, vectors = np.linalg.eigh(matrices)
    logarithms = (vectors * np.log(values)[:, None]) @ vectors.swapaxes(1, 2)
    return logarithms.reshape(len(matrices), -1)


def band_log_covariances(data):
    spectra = np.fft.rfft(data.signals)
    frequencies = np.fft.rfftfreq(data.signals.shape[-1], 1 / data.sfreq)
    parts = []
    for low, high in data.bands:
        band = np.fft.irfft(spectra * ((frequencies >= low) & (frequencies <= high)))
        parts.append(log_vectors(band @ band.swapaxes(1, 2) / 256 + 1e-3 * np.eye(8)))
    return np.hstack(parts)


DESCRIPTORS = {
    make_textures: lambda data: log_covariances(data.images),
    make_spd_classes: lambda data: log_vectors(data.matrices),
    make_filter_bank: band_log_covariances,
}


@each_maker
def test_methods_can_be_told_apart(make):
    """3-NN has an accuracy of 55-85 %, and a higher one after LDA."""
    data = make(random_state=0)
    X = DESCRIPTORS[make](data)
    halves = StratifiedShuffleSplit(5, test_size=0.5, random_state=0)
    neighbours = KNeighborsClassifier(3)
    # the eigenvalue solver shrinks, and so does not mind that the vectors hold entries twice
    learnt = make_pipeline(LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.01), neighbours)
    plain_score, learnt_score = (
        cross_val_score(model, X, data.target, cv=halves).mean() for model in (neighbours, learnt)
    )
    assert 0.55 < plain_score < 0.85
    assert learnt_score > plain_score + 0.05


# SPD matrices


def test_the_logarithm_is_the_centre_without_noise_and_nuisance():
    data = make_spd_classes(20, 3, 4, nuisance=0, noise=0, random_state=0)
    for matrix, c in zip(data.matrices, data.target, strict=True):
        assert_allclose(scipy.linalg.logm(matrix), data.log_centres[c], atol=1e-10)


def test_the_nuisance_lies_in_the_shared_directions():
    data = make_spd_classes(2000, 3, 4, nuisance=1.5, noise=0, random_state=0)
    directions = data.nuisance_directions.reshape(4, 16)
    assert_allclose(directions @ directions.T, np.eye(4), atol=1e-12)
    logarithms = log_vectors(data.matrices) - data.log_centres.reshape(3, 16)[data.target]
    coefficients = logarithms @ directions.T
    assert_allclose(coefficients @ directions, logarithms, atol=1e-10)
    assert_allclose(np.cov(coefficients.T), np.eye(4) * 1.5**2 / 4, atol=0.06)


def test_noise_and_separation_have_the_norms_that_are_said():
    data = make_spd_classes(4000, 1000, 5, separation=3, nuisance=0, noise=2, random_state=0)
    noise = log_vectors(data.matrices) - data.log_centres.reshape(1000, 25)[data.target]
    assert_allclose(np.mean(np.sum(noise**2, axis=1)), 4, rtol=0.03)
    assert_allclose(np.mean(np.sum(data.log_centres**2, axis=(1, 2))), 9, rtol=0.05)
    diagonal, above = (noise.reshape(-1, 5, 5)[:, i, j].std() for i, j in ((0, 0), (0, 1)))
    assert_allclose(diagonal / above, np.sqrt(2), rtol=0.05)  # no direction is preferred


def test_matrices_are_symmetric_and_positive_definite():
    matrices = make_spd_classes(random_state=0).matrices
    assert matrices.shape == (300, 6, 6)
    assert_array_equal(matrices, matrices.swapaxes(1, 2))
    assert np.linalg.eigvalsh(matrices).min() > 0


# Signals


@pytest.mark.parametrize("n_times", [4, 5])
def test_noise_that_is_not_filtered_keeps_its_variance(n_times):
    filters = np.ones(n_times // 2 + 1)
    noise = _filtered_noise(filters, (3, n_times), np.random.default_rng(0))
    assert_allclose(noise, np.random.default_rng(0).standard_normal((3, n_times)))


@pytest.mark.parametrize("n_times", [255, 256])
def test_the_effect_is_one_rhythm_in_each_band_and_nothing_elsewhere(n_times):
    options = {"n_trials": 40, "n_times": n_times, "nuisance": 0, "random_state": 0}
    without, data = (make_filter_bank(effect=effect, **options) for effect in (0, 2))
    rhythms = data.signals - without.signals
    spectra = np.fft.rfft(rhythms)
    frequencies = np.fft.rfftfreq(n_times, 1 / data.sfreq)
    outside = np.ones(len(frequencies), dtype=bool)
    for band, (low, high) in enumerate(data.bands):
        inside = (frequencies >= low) & (frequencies <= high)
        outside &= ~inside
        part = np.fft.irfft(spectra * inside, n=n_times)
        patterns = data.patterns[data.target, band]
        source = np.einsum("ij,ijt->it", patterns, part)
        assert_allclose(part, patterns[:, :, None] * source[:, None], atol=1e-10)
        assert_allclose(np.mean(source**2), 4, rtol=0.15)
    assert np.abs(spectra[..., outside]).max() < 1e-9
    assert_allclose(np.linalg.norm(data.patterns, axis=-1), 1)


def test_the_background_falls_with_the_frequency_and_has_no_class():
    data = make_filter_bank(400, 3, effect=0, nuisance=0, random_state=0)
    power = np.mean(np.abs(np.fft.rfft(data.signals)) ** 2, axis=(0, 1))
    frequencies = np.fft.rfftfreq(256, 1 / 128)
    assert_allclose(power * (1 + frequencies) / (power[0] * 1), 1, rtol=0.4)
    means = [np.mean(data.signals[data.target == c] ** 2, axis=(0, 2)) for c in range(4)]
    assert_allclose(means, np.broadcast_to(np.mean(means, axis=0), (4, 3)), rtol=0.1)


def test_the_nuisance_is_the_same_rhythm_in_all_classes():
    """The leading directions of a band agree; without the varying gain there is one pattern."""
    data = make_filter_bank(400, 5, effect=0, nuisance=1, bands=[(8, 13)], random_state=0)
    frequencies = np.fft.rfftfreq(256, 1 / 128)
    band = np.fft.irfft(np.fft.rfft(data.signals) * ((frequencies >= 8) & (frequencies <= 13)))
    leading = []
    for c in range(4):
        own = band[data.target == c]
        covariance = np.mean(own @ own.swapaxes(1, 2), axis=0)
        leading.append(np.linalg.eigh(covariance)[1][:, -1])
    assert np.abs(np.array(leading) @ leading[0]).min() > 0.98
    strength = np.log(np.sum(band**2, axis=(1, 2)))
    assert strength.std() > 0.5


def test_signals_tell_their_bands_and_frequency():
    data = make_filter_bank(8, 2, 100, 50, bands=[(5, 10), (12, 25)], random_state=0)
    assert data.signals.shape == (8, 2, 100)
    assert data.bands.tolist() == [[5, 10], [12, 25]]
    assert data.sfreq == 50


def test_bands_reach_from_zero_to_half_the_sampling_frequency():
    data = make_filter_bank(n_trials=4, n_times=64, bands=[(0, 9), (60, 64)], random_state=0)
    assert_array_equal(data.bands, [[0, 9], [60, 64]])
    for wrong in ((-1e-9, 9), (60, 64.1), (9, 9)):
        with pytest.raises(ValueError, match="in band 0"):
            make_filter_bank(bands=[wrong])


# Customers


@pytest.mark.parametrize("kind", [int, np.random.RandomState, np.random.default_rng])
def test_customers_are_messy_and_decided_by_a_seed(kind):
    pandas = pytest.importorskip("pandas")
    one, two, other = (make_customers(300, random_state=kind(seed)) for seed in (3, 3, 4))
    pandas.testing.assert_frame_equal(one.data, two.data)
    assert_array_equal(one.target, two.target)
    assert not one.data.equals(other.data)
    frame, target = make_customers(300, random_state=kind(3), return_X_y=True)
    pandas.testing.assert_frame_equal(frame, one.data)
    assert frame["customer"].is_unique
    assert frame["country"].nunique() == 1
    assert set(frame.columns[frame.isna().any()]) == {"age", "income", "device", "joined"}
    assert min(np.unique(target, return_counts=True)[1]) > 30
    assert np.unique(target).tolist() == ["basic", "family", "plus"]


def test_customers_choose_plans_as_the_description_says():
    """Curved in age, by income, and by the season."""
    pytest.importorskip("pandas")
    data, plan = make_customers(20_000, random_state=0, return_X_y=True)
    family, plus = (plan == "family", plan == "plus")
    middle = data["age"].between(35, 49)
    assert family[middle].mean() > 2 * family[data["age"] < 25].mean()
    assert family[middle].mean() > 2 * family[data["age"] > 60].mean()
    high, low = (data["income"] > 40_000, data["income"] < 20_000)
    assert plus[high].mean() > 2 * plus[low].mean()
    month = data["joined"].dt.month
    assert plus[month == 12].mean() > 1.3 * plus[month == 6].mean()
    mistyped = data["income"] > 100 * 10_000
    assert 0.002 < mistyped.mean() < 0.008


def test_wrong_numbers_of_customers_are_refused():
    pytest.importorskip("pandas")
    for options, message in (
        ({"n_samples": 0}, "n_samples: expected at least 1, got 0"),
        ({"random_state": "x"}, "random_state: expected"),
        ({"return_X_y": "yes"}, "return_X_y: expected True or False, got 'yes'"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make_customers(**options)
