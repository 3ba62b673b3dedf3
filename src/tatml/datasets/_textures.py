"""Grey images without a download: synthetic textures, and scikit-learn's digits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from .._array import Doubles
from .._validation import check_random
from ._arguments import check_at_least, check_counts, check_strengths, make_class_names

DESCR = """Synthetic grey textures.

Filtered noise with one spectrum per class: two lobes at the orientation and frequency of the class
on a background that falls with the frequency. Orientation, scale, contrast, brightness and a
gradient of the light vary from image to image, and white noise is added.
"""


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
    size = check_at_least("size", size, 8)
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
        DESCR=DESCR,
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
