"""Data without a download: synthetic matrices, signals and textures, and scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from .._array import Doubles
from .._svec import svec_size, unsvec
from .._validation import check_count, check_number, check_positive, check_random
from ..features._symmetric import map_eigenvalues

LARGEST_STRENGTH = 5.0  # larger ones make the exponentials of normal numbers inaccurate
SPD_DESCR = """Synthetic symmetric positive definite matrices.

The matrix logarithm of a sample is the centre of its class, plus a nuisance in a few directions
that all classes share, plus noise in all directions.
"""
SIGNALS_DESCR = """Synthetic signals of several channels.

In each band, each class has its own oscillation with a spatial pattern over the channels. All
classes share a background of mixed sources whose power falls with the frequency, and one more
oscillation per band whose strength varies from trial to trial. The gain varies as well.
"""
TEXTURES_DESCR = """Synthetic grey textures.

Filtered noise with one spectrum per class: two lobes at the orientation and frequency of the class
on a background that falls with the frequency. Orientation, scale, contrast, brightness and a
gradient of the light vary from image to image, and white noise is added.
"""


def check_counts(**counts: Any) -> tuple[int, ...]:
    """Return the values as integers of at least 1."""
    return tuple(check_count(name, value) for name, value in counts.items())


def check_enough(name: str, count: int, n_classes: int) -> None:
    """Raise unless each class can have a sample."""
    if count < n_classes:
        raise ValueError(f"{name}: expected at least n_classes = {n_classes}, got {count}")


def check_strengths(**strengths: Any) -> tuple[float, ...]:
    """Return the values as numbers from 0 to 5."""
    expected = f"a number from 0 to {LARGEST_STRENGTH:g}"
    return tuple(
        check_number(name, value, expected, lambda x: 0 <= x <= LARGEST_STRENGTH)
        for name, value in strengths.items()
    )


def make_class_names(kind: str, n_classes: int) -> NDArray[np.str_]:
    """Return a name per class: the kind and the index of the class."""
    return np.array([f"{kind} {c}" for c in range(n_classes)])


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
    check_enough("n_samples", n_samples, n_classes)
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
    matrices = map_eigenvalues(unsvec(logarithms, n_dim), np.exp, 0)
    if return_X_y:
        return matrices, target
    return Bunch(
        matrices=matrices,
        target=target,
        target_names=make_class_names("class", n_classes),
        log_centres=unsvec(centres, n_dim),
        nuisance_directions=unsvec(directions, n_dim),
        DESCR=SPD_DESCR,
    )


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
    n_times = check_count("n_times", n_times, least=4)
    check_enough("n_trials", n_trials, n_classes)
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


def load_digits_images(*, return_X_y: bool = False) -> Bunch | tuple[Doubles, NDArray[np.intp]]:
    """Load scikit-learn's handwritten digits as 1,797 grey images of 8×8 pixels.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return `(images, target)` instead of a Bunch.

    Returns
    -------
    data : Bunch
        images : array of float and of shape (1797, 8, 8)
            Pixels from 0 (paper) to 1 (ink), in steps of 1/16.
        target : array of int and of shape (1797,)
            The digit.
        target_names : array of str and of shape (10,)
            "0" to "9".
        DESCR : str
            scikit-learn's description.

    Examples
    --------
    >>> from tatml.datasets import load_digits_images
    >>> X, y = load_digits_images(return_X_y=True)
    >>> X.shape, float(X.max())
    ((1797, 8, 8), 1.0)
    """
    digits = load_digits()
    images, target = digits.images / 16, digits.target.astype(np.intp)
    if return_X_y:
        return images, target
    names = digits.target_names.astype(str)
    return Bunch(images=images, target=target, target_names=names, DESCR=digits.DESCR)


def make_textures(
    n_classes: int = 8,
    n_per_class: int = 40,
    size: int = 64,
    *,
    noise: float = 0.3,
    nuisance: float = 1.0,
    random_state: Any = None,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """Generate grey textures of several classes, which differ in orientation and frequency.

    A class depends only on its index, so that another `random_state` gives more images of the same
    classes.

    Parameters
    ----------
    n_classes : int, default=8
        The number of classes.
    n_per_class : int, default=40
        The number of images per class.
    size : int, default=64
        The side of an image in pixels, at least 8.
    noise : float, default=0.3
        The standard deviation of the white noise, relative to that of the texture; from 0 to 5.
    nuisance : float, default=1.0
        How much the images vary, from 0 to 5. The standard deviations for 1 are 8 degrees
        (orientation), 10 % (scale), 30 % (contrast) and 5 % of the range (brightness and gradient
        of the light).
    random_state : int, RandomState, Generator or None, default=None
        The source of random numbers; an integer gives the same images in every call.
    return_X_y : bool, default=False
        Return `(images, target)` instead of a Bunch.

    Returns
    -------
    data : Bunch
        images : array of uint8 and of shape (n_classes · n_per_class, size, size)
            The images, class by class.
        target : array of int and of shape (n_classes · n_per_class,)
            The class.
        target_names : array of str and of shape (n_classes,)
            "texture 0" and so on.
        DESCR : str
            A description.

    Examples
    --------
    >>> from tatml.datasets import make_textures
    >>> textures = make_textures(n_classes=3, n_per_class=5, size=32, random_state=0)
    >>> textures.images.shape, textures.images.dtype
    ((15, 32, 32), dtype('uint8'))
    """
    n_classes, n_per_class = check_counts(n_classes=n_classes, n_per_class=n_per_class)
    size = check_count("size", size, least=8)
    noise, nuisance = check_strengths(noise=noise, nuisance=nuisance)
    rng = check_random(random_state)
    images = np.concatenate(
        [_make_class(c, n_per_class, size, noise, nuisance, rng) for c in range(n_classes)]
    )
    target = np.repeat(np.arange(n_classes), n_per_class)
    if return_X_y:
        return images, target
    return Bunch(
        images=images,
        target=target,
        target_names=make_class_names("texture", n_classes),
        DESCR=TEXTURES_DESCR,
    )


def _make_class(
    c: int, n_images: int, size: int, noise: float, nuisance: float, rng: Any
) -> NDArray[np.uint8]:
    turn, scale, contrast, brightness, slope_x, slope_y = nuisance * rng.standard_normal(
        (6, n_images, 1, 1)
    )
    filters = _texture_filters(c, size, np.deg2rad(8) * turn, np.exp(0.1 * scale))
    texture = np.fft.irfft2(
        filters * np.fft.rfft2(rng.standard_normal((n_images, size, size))), s=(size, size)
    )
    texture /= texture.std(axis=(1, 2), keepdims=True)
    texture += noise * rng.standard_normal(texture.shape)
    place = np.linspace(-1, 1, size)
    light = 0.5 + 0.05 * (brightness + slope_x * place + slope_y * place[:, None])
    grey = light + 0.12 * np.exp(0.3 * contrast) * texture
    return np.round(255 * np.clip(grey, 0, 1)).astype(np.uint8)


def _texture_filters(c: int, size: int, turn: Doubles, scale: Doubles) -> Doubles:
    """Return the weight of each frequency in class c, rotated and scaled per image."""
    # multiples of these modulo 1 are evenly spread for any number of classes
    place = ((c + 0.5) * np.array([0.6180339887, 0.7548776662, 0.5698402910])) % 1
    angle, frequency = np.pi * place[0] + turn, (0.08 + 0.17 * place[1]) * scale
    width = 0.03 + 0.05 * place[2]
    fx, fy = np.fft.rfftfreq(size), np.fft.fftfreq(size)[:, None]
    along = np.cos(angle) * fx + np.sin(angle) * fy
    across = np.cos(angle) * fy - np.sin(angle) * fx
    lobes = sum(np.exp(-(((along + f) / width) ** 2) / 2) for f in (frequency, -frequency))
    background = 0.02 / (0.02 + np.hypot(fx, fy))
    return lobes * np.exp(-((across / (2 * width)) ** 2) / 2) + background
