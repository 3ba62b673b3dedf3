"""Synthetic SPD matrices and signals of several classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from .._array import Doubles, symmetrised
from .._svec import svec_size
from .._validation import check_positive, check_random
from ._arguments import check_at_least, check_counts, check_strengths, make_class_names

SPD_DESCR = """Synthetic symmetric positive definite matrices.

The matrix logarithm of a sample is the centre of its class, plus a nuisance in a few directions
that all classes share, plus noise in all directions.
"""
SIGNALS_DESCR = """Synthetic signals of several channels.

In each band, each class has its own oscillation with a spatial pattern over the channels. All
classes share a background of mixed sources whose power falls with the frequency, and one more
oscillation per band whose strength varies from trial to trial. The gain varies as well.
"""


def make_spd_classes(
    n_samples: int = 300,
    n_classes: int = 5,
    n_dim: int = 6,
    *,
    separation: float = 1.0,
    nuisance: float = 2.0,
    noise: float = 1.0,
    random_state: Any = None,
    return_X_y: bool = False,
) -> Bunch | tuple[Doubles, NDArray[np.intp]]:
    """Generate symmetric positive definite matrices of several classes with a shared nuisance.

    The matrix logarithm of a sample is `separation` · centre of its class + `nuisance` · a random
    combination of `n_dim` directions that all classes share + `noise` · a random symmetric
    matrix. Each of the three terms has expected squared Frobenius norm 1 before scaling. A metric
    that ignores the shared directions separates the classes better.

    Parameters
    ----------
    n_samples : int, default=300
        The number of matrices.
    n_classes : int, default=5
        The number of classes, at most `n_samples`; their sizes differ by at most one.
    n_dim : int, default=6
        The number of rows and columns.
    separation, nuisance, noise : float, default=1.0, 2.0, 1.0
        The scales in the sum above, from 0 to 5.
    random_state : int, RandomState, Generator or None, default=None
        The source of random numbers; an integer gives the same matrices in every call.
    return_X_y : bool, default=False
        Return `(matrices, target)` instead of a Bunch.

    Returns
    -------
    data : Bunch
        matrices : array of float and of shape (n_samples, n_dim, n_dim)
            The matrices.
        target : array of int and of shape (n_samples,)
            The class, in random order.
        target_names : array of str and of shape (n_classes,)
            "class 0" and so on.
        log_centres : array of float and of shape (n_classes, n_dim, n_dim)
            The centres of the classes, times `separation`.
        nuisance_directions : array of float and of shape (n_dim, n_dim, n_dim)
            Orthonormal symmetric matrices that span the nuisance.
        DESCR : str
            A description.

    Examples
    --------
    >>> from tatml.datasets import make_spd_classes
    >>> X, y = make_spd_classes(n_samples=20, n_dim=4, random_state=0, return_X_y=True)
    >>> X.shape, y.shape
    ((20, 4, 4), (20,))
    """
    n_samples, n_classes, n_dim = check_counts(
        n_samples=n_samples, n_classes=n_classes, n_dim=n_dim
    )
    check_at_least("n_samples", n_samples, n_classes, "n_classes = ")
    separation, nuisance, noise = check_strengths(
        separation=separation, nuisance=nuisance, noise=noise
    )
    rng = check_random(random_state)
    size = svec_size(n_dim)
    centres = separation * rng.standard_normal((n_classes, size)) / np.sqrt(size)
    directions = np.linalg.qr(rng.standard_normal((size, n_dim)))[0].T
    target = rng.permutation(np.arange(n_samples) % n_classes)
    logarithms = centres[target]
    logarithms += nuisance * rng.standard_normal((n_samples, n_dim)) @ directions / np.sqrt(n_dim)
    logarithms += noise * rng.standard_normal((n_samples, size)) / np.sqrt(size)
    matrices = _exponentials(_symmetric_matrices(logarithms, n_dim))
    if return_X_y:
        return matrices, target
    return Bunch(
        matrices=matrices,
        target=target,
        target_names=make_class_names("class", n_classes),
        log_centres=_symmetric_matrices(centres, n_dim),
        nuisance_directions=_symmetric_matrices(directions, n_dim),
        DESCR=SPD_DESCR,
    )


def _symmetric_matrices(vectors: Doubles, n_dim: int) -> Doubles:
    """Return symmetric matrices whose inner products are those of the vectors."""
    rows, columns = np.triu_indices(n_dim)
    entries = np.where(rows == columns, 1.0, np.sqrt(0.5)) * vectors
    matrices = np.empty((len(vectors), n_dim, n_dim))
    matrices[:, rows, columns] = matrices[:, columns, rows] = entries
    return matrices


def _exponentials(matrices: Doubles) -> Doubles:
    values, vectors = np.linalg.eigh(matrices)
    exponentials = (vectors * np.exp(values)[:, None, :]) @ vectors.swapaxes(1, 2)
    return symmetrised(exponentials)


def make_filter_bank(
    n_trials: int = 200,
    n_channels: int = 8,
    n_times: int = 256,
    sfreq: float = 128.0,
    *,
    n_classes: int = 4,
    bands: Sequence[tuple[float, float]] = ((8.0, 13.0), (18.0, 26.0)),
    effect: float = 0.35,
    nuisance: float = 1.0,
    random_state: Any = None,
    return_X_y: bool = False,
) -> Bunch | tuple[Doubles, NDArray[np.intp]]:
    """Generate signals of several channels, whose classes differ in certain frequency bands.

    In each band, each class has its own oscillation: one signal that occurs in all channels, with
    amplitudes that are the spatial pattern of the class. One covariance matrix per band, that is
    several blocks per sample, distinguishes the classes. In the same bands, all classes share other
    oscillations of varying strength, which a metric can learn to ignore.

    Parameters
    ----------
    n_trials : int, default=200
        The number of samples.
    n_channels : int, default=8
        The number of channels.
    n_times : int, default=256
        The number of time points.
    sfreq : float, default=128.0
        The sampling frequency in hertz.
    n_classes : int, default=4
        The number of classes, at most `n_trials`; their sizes differ by at most one.
    bands : sequence of (low, high), default=((8, 13), (18, 26))
        The bands in hertz in which the classes differ, at most `sfreq` / 2. Each must contain a
        multiple of `sfreq` / `n_times`.
    effect : float, default=0.35
        The amplitude of the oscillations of the classes, from 0 (no difference) to 5.
    nuisance : float, default=1.0
        The amplitude of the shared oscillations, and how much it and the gain vary from trial to
        trial; from 0 to 5.
    random_state : int, RandomState, Generator or None, default=None
        The source of random numbers; an integer gives the same signals in every call.
    return_X_y : bool, default=False
        Return `(signals, target)` instead of a Bunch.

    Returns
    -------
    data : Bunch
        signals : array of float and of shape (n_trials, n_channels, n_times)
            The signals.
        target : array of int and of shape (n_trials,)
            The class, in random order.
        target_names : array of str and of shape (n_classes,)
            "class 0" and so on.
        patterns : array of float and of shape (n_classes, n_bands, n_channels)
            The amplitudes of each oscillation in the channels, as a unit vector.
        bands : array of float and of shape (n_bands, 2)
            The bands.
        sfreq : float
            The sampling frequency in hertz.
        DESCR : str
            A description.

    Examples
    --------
    >>> from tatml.datasets import make_filter_bank
    >>> data = make_filter_bank(n_trials=12, n_channels=3, random_state=0)
    >>> data.signals.shape, data.patterns.shape
    ((12, 3, 256), (4, 2, 3))
    """
    n_trials, n_channels, n_classes = check_counts(
        n_trials=n_trials, n_channels=n_channels, n_classes=n_classes
    )
    n_times = check_at_least("n_times", n_times, 4)
    check_at_least("n_trials", n_trials, n_classes, "n_classes = ")
    sfreq = check_positive("sfreq", sfreq)
    frequencies = np.fft.rfftfreq(n_times, 1 / sfreq)
    edges, windows = _check_bands(bands, frequencies, sfreq / 2)
    effect, nuisance = check_strengths(effect=effect, nuisance=nuisance)
    rng = check_random(random_state)
    patterns = _unit_vectors(rng.standard_normal((n_classes, len(edges), n_channels)))
    shared = _unit_vectors(rng.standard_normal((len(edges), n_channels)))
    target = rng.permutation(np.arange(n_trials) % n_classes)
    signals = _make_background((n_trials, n_channels, n_times), frequencies, rng)
    _add_oscillations(signals, windows, effect * patterns[target], shared, nuisance, rng)
    signals *= np.exp(0.2 * nuisance * rng.standard_normal((n_trials, 1, 1)))
    if return_X_y:
        return signals, target
    return Bunch(
        signals=signals,
        target=target,
        target_names=make_class_names("class", n_classes),
        patterns=patterns,
        bands=edges,
        sfreq=sfreq,
        DESCR=SIGNALS_DESCR,
    )


def _make_background(
    shape: tuple[int, int, int], frequencies: NDArray[np.floating], rng: Any
) -> Doubles:
    """Return mixed sources whose power falls with the frequency."""
    n_channels = shape[1]
    mixing = np.eye(n_channels) + rng.standard_normal((n_channels, n_channels)) / n_channels
    return mixing @ _filtered_noise(1 / np.sqrt(1 + frequencies), shape, rng)


def _add_oscillations(
    signals: Doubles,
    windows: Sequence[NDArray[np.bool_]],
    own_patterns: Doubles,
    shared_patterns: Doubles,
    nuisance: float,
    rng: Any,
) -> None:
    """Add two oscillations per band to the signals: that of the class and the shared one."""
    n_trials, _, n_times = signals.shape
    for band, window in enumerate(windows):
        own, shared = _filtered_noise(window, (2, n_trials, 1, n_times), rng)
        strength = nuisance * np.exp(0.5 * nuisance * rng.standard_normal((n_trials, 1, 1)))
        signals += own_patterns[:, band, :, None] * own
        signals += strength * shared_patterns[band][:, None] * shared


def _filtered_noise(filters: NDArray, shape: tuple[int, ...], rng: Any) -> Doubles:
    """Return white noise with weighted frequencies, scaled to expected variance 1."""
    n_times = shape[-1]
    noise = np.fft.irfft(filters * np.fft.rfft(rng.standard_normal(shape)), n=n_times)
    power = filters.astype(float) ** 2
    # All frequencies but 0 and n_times / 2 count twice.
    mirrored = power[1 : (n_times + 1) // 2].sum()
    return noise / np.sqrt((power.sum() + mirrored) / n_times)


def _unit_vectors(vectors: Doubles) -> Doubles:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _check_bands(
    bands: Any, frequencies: NDArray[np.floating], highest: float
) -> tuple[Doubles, list[NDArray[np.bool_]]]:
    """Return the edges of the bands, and per band which frequencies lie in it."""
    windows = []
    try:
        edges = np.array(bands, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"bands: expected pairs (low, high) of numbers, got {bands!r}") from error
    if edges.shape[1:] != (2,) or not len(edges):
        raise ValueError(f"bands: expected pairs (low, high), got {bands!r}")
    for band, (low, high) in enumerate(edges.tolist()):
        if not 0 <= low < high <= highest:
            raise ValueError(
                f"bands: expected 0 ≤ low < high ≤ sfreq / 2 = {highest:g} Hz, "
                f"got ({low:g}, {high:g}) in band {band}"
            )
        windows.append((low <= frequencies) & (frequencies <= high))
        if not np.any(windows[band]):
            raise ValueError(
                f"bands: expected a multiple of sfreq / n_times = {frequencies[1]:g} Hz in each "
                f"band, got ({low:g}, {high:g}) in band {band}"
            )
    return edges, windows
