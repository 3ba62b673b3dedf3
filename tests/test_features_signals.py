"""Covariances in frequency bands: agreement with pyRiemann, and properties of filters."""

import re
from functools import partial

import numpy as np
import pytest
import scipy.signal
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.covariance import shrunk_covariance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from tatml import Blocks
from tatml.features import FilterBankCovariance, LogEuclidean, Vectorize
from tatml.features._signals import map_trials

assert_allclose = partial(np.testing.assert_allclose, rtol=1e-10)  # the default is 1e-7

SFREQ = 128.0
BANDS = ((4, 8), (8, 13), (13, 30))


def noise(n_trials=6, n_channels=4, n_times=300, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(n_channels, n_channels))
    return mixing @ rng.normal(size=(n_trials, n_channels, n_times)) + 5.0


def bank(**options):
    return FilterBankCovariance(**{"bands": BANDS, "sfreq": SFREQ} | options)


def filtered(X, band, order=4):
    sections = scipy.signal.butter(order, band, "bandpass", output="sos", fs=SFREQ)
    return np.array(
        [[scipy.signal.sosfiltfilt(sections, channel) for channel in trial] for trial in X]
    )


def sine(frequency, n_times=1280, amplitude=1.0):
    return amplitude * np.sin(2 * np.pi * frequency * np.arange(n_times) / SFREQ)


# Agreement with others


@pytest.mark.parametrize("order", [1, 2, 4, 5])
def test_without_shrinkage_it_is_numpys_covariance_of_the_filtered_trial(order):
    X = noise()
    blocks = bank(order=order).fit_transform(X)
    assert blocks.block_shapes == ((4, 4),) * 3
    for band, array in zip(BANDS, blocks.arrays, strict=True):
        expected = [np.cov(trial) for trial in filtered(X, band, order)]
        assert_allclose(array, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_times", [30, 300])
@pytest.mark.parametrize(
    ("shrinkage", "estimator"),
    [(None, "cov"), (0.0, "scm"), ("ledoit_wolf", "lwf"), ("oas", "oas")],
)
def test_the_estimates_are_pyriemanns(shrinkage, estimator, n_times):
    pyriemann = pytest.importorskip("pyriemann.estimation")
    X = noise(n_times=n_times)
    blocks = bank(shrinkage=shrinkage).transform(X)
    for band, array in zip(BANDS, blocks.arrays, strict=True):
        expected = pyriemann.Covariances(estimator).fit_transform(filtered(X, band))
        assert_allclose(array, expected, rtol=1e-10, atol=1e-10)


def test_a_number_shrinks_as_scikit_learn_does():
    X = noise()
    plain = bank(shrinkage=0.0).transform(X)
    shrunk = bank(shrinkage=0.3).transform(X)
    for before, after in zip(plain.arrays, shrunk.arrays, strict=True):
        assert_allclose(after, shrunk_covariance(before, 0.3), rtol=1e-12, atol=1e-14)


def test_the_diagonal_is_added_in_squared_units_or_relative():
    X = noise()
    plain = bank(bands=[(8, 13)]).transform(X)
    assert_allclose(bank(bands=[(8, 13)], diagonal=0.5).transform(X), plain + 0.5 * np.eye(4))
    relative = bank(bands=[(8, 13)], diagonal=0.5, diagonal_relative=True)
    means = np.trace(plain, axis1=1, axis2=2) / 4
    assert_allclose(relative.transform(X), plain + 0.5 * means[:, None, None] * np.eye(4))
    assert_allclose(relative.transform(1e3 * X), 1e6 * relative.transform(X), rtol=1e-9)


# What a filter bank must do


@pytest.mark.parametrize(("frequency", "own"), [(6, 0), (10.2, 1), (20, 2)])
def test_a_sine_appears_in_its_band_and_in_no_other(frequency, own):
    X = np.stack([sine(frequency), sine(frequency, amplitude=3.0)])[None]
    for band, array in enumerate(bank().transform(X).arrays):
        if band == own:
            assert_allclose(array[0], 0.5 * np.outer([1, 3], [1, 3]), rtol=0.02)
        else:
            assert np.max(np.abs(array)) < 0.01


def test_a_sine_at_an_edge_keeps_half_of_its_amplitude():
    X = sine(8, n_times=12_800)[None, None]
    below, above, _ = bank().transform(X).arrays
    assert_allclose([below[0, 0, 0], above[0, 0, 0]], 0.5 * 0.25, rtol=0.02)


def test_no_phase_is_shifted():
    t = np.arange(2_000) - 1_000
    pulse = np.exp(-((t / 40) ** 2)) * np.cos(2 * np.pi * 10 * t / SFREQ)
    X = np.stack([pulse, np.gradient(pulse)])[None]  # even and odd about the middle
    covariance = bank(bands=[(8, 13)]).transform(X)[0]
    assert covariance[0, 0] > 0.01
    assert abs(covariance[0, 1]) < 1e-6 * np.sqrt(covariance[0, 0] * covariance[1, 1])


def test_a_trial_backwards_has_the_same_covariance():
    """The two directions differ only near the ends of a trial."""
    window = scipy.signal.windows.tukey(1_000, 0.6)
    X = (noise(n_times=1_000) - 5.0) * window
    for before, after in zip(
        bank().transform(X).arrays, bank().transform(X[:, :, ::-1]).arrays, strict=True
    ):
        assert_allclose(after, before, rtol=1e-3, atol=1e-4 * np.abs(before).max())


def test_constants_are_filtered_out():
    X = noise()
    for before, after in zip(
        bank().transform(X).arrays, bank().transform(X + 1e3).arrays, strict=True
    ):
        assert_allclose(after, before, rtol=1e-6, atol=1e-6)


def test_a_mixture_of_the_channels_is_a_congruence():
    X, A = noise(), np.random.default_rng(1).normal(size=(3, 4))
    for before, after in zip(
        bank().transform(X).arrays, bank().transform(A @ X).arrays, strict=True
    ):
        assert_allclose(after, A @ before @ A.T, rtol=1e-9, atol=1e-10)


# Forms, chunks and threads


def test_one_band_gives_an_array():
    X = noise()
    one = bank(bands=[(8, 13)]).fit_transform(X)
    assert one.shape == (6, 4, 4)
    assert_array_equal(one, bank().transform(X).arrays[1])


@pytest.mark.parametrize("shrinkage", [None, "ledoit_wolf", "oas", 0.2])
def test_chunks_and_threads_change_nothing(shrinkage):
    X, transformer = noise(), bank(shrinkage=shrinkage)
    together = transformer.transform(X)
    for entries, n_jobs in ((1, None), (4 * 300 * 4, 2)):
        apart = map_trials(
            transformer._filtered_covariances,
            X,
            transformer._make_filters(X, None),
            n_jobs=n_jobs,
            chunk_entries=entries,
        )
        for array, expected in zip(apart, together.arrays, strict=True):
            assert_allclose(array, expected, rtol=1e-12)
    in_threads = bank(shrinkage=shrinkage, n_jobs=2).transform(X)
    assert_array_equal(in_threads.arrays[2], together.arrays[2])


def test_a_trial_longer_than_a_chunk_is_filtered_alone():
    X = np.random.default_rng(0).normal(size=(2, 1, 2**20 + 1))
    filters = [np.ones((1, 6))]
    sizes = []
    map_trials(lambda trials, _: sizes.append(len(trials)) or trials[:, :, :1], X, filters)
    assert sizes == [1, 1]


def test_the_trials_are_not_changed():
    X = noise()
    before = X.copy()
    bank(shrinkage="oas", diagonal=1.0).transform(X)
    assert_array_equal(X, before)


def test_single_precision_stays_single():
    X = noise().astype(np.float32)
    blocks = bank().transform(X)
    assert blocks.dtype == np.float32
    assert_allclose(blocks.arrays[0], bank().transform(X.astype(float)).arrays[0], rtol=1e-5)


def test_trials_may_be_longer_than_in_fit():
    blocks = bank().fit(noise()).transform(noise(n_times=400))
    assert_array_equal(blocks.arrays[0], bank().transform(noise(n_times=400)).arrays[0])


class Epochs:
    """An object with the interface of MNE's Epochs."""

    def __init__(self, data, sfreq):
        self.data = data
        self.info = {"sfreq": sfreq}

    def get_data(self):
        return self.data


def test_epochs_are_asked_for_their_data_and_frequency():
    X = noise()
    expected = bank().transform(X)
    for sfreq in (None, SFREQ):
        blocks = FilterBankCovariance(sfreq=sfreq).fit_transform(Epochs(X, SFREQ))
        for array, other in zip(blocks.arrays, expected.arrays, strict=True):
            assert_array_equal(array, other)
    with pytest.raises(ValueError, match=r"sfreq: expected 128.* got 256"):
        FilterBankCovariance(sfreq=256).fit(Epochs(X, SFREQ))


# What is refused


@pytest.mark.parametrize("method", ["fit", "transform"])
@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"sfreq": None}, ValueError, "sfreq: expected the sampling frequency"),
        ({"sfreq": -1}, ValueError, "sfreq: expected a positive number"),
        ({"sfreq": "fast"}, TypeError, "sfreq: expected a number"),
        ({"bands": [(4, 8), (13, 64)]}, ValueError, "bands: .* sfreq / 2 = 64, got (13, 64)"),
        ({"bands": [(0, 8)]}, ValueError, "bands: expected 0 < low .* got (0, 8)"),
        ({"bands": [(8, 8)]}, ValueError, "bands: expected 0 < low .* got (8, 8)"),
        ({"bands": [(np.nan, 8)]}, ValueError, "bands: expected 0 < low"),
        ({"bands": []}, ValueError, "bands: expected at least one pair"),
        ({"bands": (8, 13)}, TypeError, "bands: expected a sequence of pairs"),
        ({"bands": [(8, None)]}, TypeError, "bands: expected pairs of numbers"),
        ({"order": 0}, ValueError, "order: expected at least 1"),
        ({"order": 2.0}, TypeError, "order: expected an integer"),
        ({"shrinkage": 1.5}, ValueError, "shrinkage: expected a number from 0 to 1"),
        ({"shrinkage": "lwf"}, ValueError, "shrinkage: expected one of"),
        ({"diagonal": -1.0}, ValueError, "diagonal: expected a finite number"),
        ({"diagonal": np.inf}, ValueError, "diagonal: expected a finite number"),
        ({"diagonal": "1"}, TypeError, "diagonal: expected a number"),
        ({"diagonal_relative": "yes"}, TypeError, "diagonal_relative: expected True or False"),
    ],
)
def test_parameters_that_are_none_are_refused(method, options, error, match):
    pattern = ".*".join(re.escape(part) for part in match.split(".*"))
    with pytest.raises(error, match=pattern):
        getattr(bank(**options), method)(noise())


@pytest.mark.parametrize("method", ["fit", "transform"])
def test_bad_input_is_refused(method):
    call = getattr(bank(), method)
    with pytest.raises(ValueError, match=r"\(n_trials, n_channels, n_times\).* write X\[None\]"):
        call(noise()[0])
    with pytest.raises(ValueError, match="at least one entry"):
        call(np.empty((0, 4, 300)))
    for value in (np.nan, np.inf):
        X = noise()
        X[3, 2, 7] = value
        with pytest.raises(ValueError, match=f"got {value} in trial 3, channel 2, time 7"):
            call(X)
    with pytest.raises(TypeError, match="real numbers"):
        call(noise() + 0j)


@pytest.mark.parametrize("order", [1, 3, 4])
def test_short_trials_are_refused_as_scipy_does(order):
    padding = 3 * (2 * order + 1)
    with pytest.raises(ValueError, match=f"more than {padding} time points.* got {padding}"):
        bank(order=order).fit(noise(n_times=padding))
    assert bank(order=order).transform(noise(n_times=padding + 1)).n_blocks == 3
    sections = scipy.signal.butter(order, (8, 13), "bandpass", output="sos", fs=SFREQ)
    with pytest.raises(ValueError, match=f"padlen, which is {padding}"):
        scipy.signal.sosfiltfilt(sections, np.ones(padding))


def test_too_few_time_points_for_the_channels_come_with_a_hint():
    X = noise(n_channels=40, n_times=40)
    with pytest.warns(UserWarning, match="40 time points of 40 channels.*shrinkage"):
        blocks = bank().transform(X)
    with pytest.raises(ValueError, match=r"positive definite.*block 0, sample 0"):
        LogEuclidean().transform(blocks)
    for options in ({"shrinkage": "ledoit_wolf"}, {"shrinkage": 0.1}, {"diagonal": 0.1}):
        assert LogEuclidean().transform(bank(**options).transform(X)).n_blocks == 3


def test_another_number_of_channels_than_in_fit_is_refused():
    with pytest.raises(ValueError, match="expected 4 channels as in fit, got 5"):
        bank().fit(noise()).transform(noise(n_channels=5))


# Life among other estimators


def test_clones_have_the_same_parameters():
    transformer = bank(order=3, shrinkage="oas", diagonal=0.1, n_jobs=2)
    assert clone(transformer.fit(noise())).get_params() == transformer.get_params()
    assert not hasattr(clone(transformer), "n_features_in_")


def test_pipelines_cross_validate_and_search():
    X, y = noise(n_trials=24), np.arange(24) % 2
    X[y == 1] += sine(10, n_times=300, amplitude=20.0)
    model = make_pipeline(
        bank(shrinkage="oas"), LogEuclidean(), Vectorize(join=True), LogisticRegression()
    )
    assert_array_equal(cross_val_score(model, X, y, cv=4), np.ones(4))
    grid = {"filterbankcovariance__bands": [((20, 30),), BANDS]}
    search = GridSearchCV(model, grid, cv=4).fit(X, y)
    assert search.best_params_ == {"filterbankcovariance__bands": BANDS}
    assert isinstance(search.best_estimator_[0].transform(X), Blocks)
