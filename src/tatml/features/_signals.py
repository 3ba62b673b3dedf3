"""Multichannel signals as samples: a covariance matrix for each frequency band."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy.signal
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.parallel import Parallel, delayed

from .._data.blocks import Blocks
from .._threads import SMALL, _threadpools
from .._validation import check_count, check_not_negative, check_positive
from ._inputs import MatrixTransformer, as_trials
from ._shrinkage import Shrinkage, add_diagonal, check_shrinkage, covariances

__all__ = ["FilterBankCovariance"]

Floats = NDArray[np.floating]
CHUNK_ENTRIES = 2**20  # of a signal filtered at a time: the filter needs some copies of it


class FilterBankCovariance(MatrixTransformer):
    """The covariance of the channels of each trial, in each of some frequency bands.

    A trial is filtered forwards and backwards with a Butterworth band-pass filter, which shifts no
    phase, and the covariance of its channels over time is taken. Each band is a block. Follow it
    with `LogEuclidean`. Nothing is learnt: `fit` checks the parameters and counts the channels, and
    `transform` works without it.

    Parameters
    ----------
    bands : sequence of (float, float), default=((4, 8), (8, 13), (13, 30))
        The lower and the upper edge of each band in hertz, between 0 and half of `sfreq`. At the
        edges, forwards and backwards together, half of the amplitude is left.
    sfreq : float, optional
        How many times a second the signals were sampled. MNE's Epochs know it; it must be given
        for an array.
    order : int, default=4
        The order N of the filter, `scipy.signal.butter(N, band, "bandpass")`; a higher one has
        steeper edges and needs longer trials.
    shrinkage : None, "ledoit_wolf", "oas" or float, default=None
        How to estimate the covariance C. None divides by n_times − 1. Otherwise C is divided by
        n_times and moved towards a multiple of the identity, (1 − s) C + s (tr C / n_channels) I,
        with s the number from 0 to 1, or estimated by one of two methods.
    diagonal : float, default=0.0
        What to add to the diagonal of C, in squared units of the signals.
    diagonal_relative : bool, default=False
        Whether `diagonal` is in units of tr C / n_channels, the mean variance of a channel.
    n_jobs : int, optional
        How many threads filter at a time; -1 is one for each processor.

    Attributes
    ----------
    n_features_in_ : int
        The number of channels seen in `fit`.

    Warns
    -----
    UserWarning
        If there are no more time points than channels, and neither shrinkage nor a diagonal: the
        covariances are then singular and have no logarithm.

    Notes
    -----
    The mean of each channel over the trial is subtracted. The estimates are those of pyRiemann:
    None is its "cov", 0.0 its "scm", "ledoit_wolf" its "lwf" and "oas" its "oas".

    A band of width B hertz in a trial of T seconds holds about 2BT independent numbers for each
    channel. With fewer of them than channels the covariance is close to singular, however many time
    points there are; then use shrinkage. The same goes for channels with a common average
    reference, which sum to zero.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.features import FilterBankCovariance
    >>> time = np.arange(256) / 128
    >>> X = np.stack([np.sin(2 * np.pi * 10 * time), np.sin(2 * np.pi * 20 * time)])[None]
    >>> blocks = FilterBankCovariance(bands=[(8, 13), (13, 30)], sfreq=128).fit_transform(X)
    >>> blocks
    Blocks(n_samples=1, blocks=[2×2, 2×2], dtype=float64)
    >>> blocks.arrays[0][0].round(1) + 0.0
    array([[0.5, 0. ],
           [0. , 0. ]])
    """

    def __init__(
        self,
        bands: Sequence[tuple[float, float]] = ((4, 8), (8, 13), (13, 30)),
        sfreq: float | None = None,
        *,
        order: int = 4,
        shrinkage: Shrinkage = None,
        diagonal: float = 0.0,
        diagonal_relative: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.bands = bands
        self.sfreq = sfreq
        self.order = order
        self.shrinkage = shrinkage
        self.diagonal = diagonal
        self.diagonal_relative = diagonal_relative
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: Any = None) -> FilterBankCovariance:
        """Check the parameters and the trials, and count the channels.

        Parameters
        ----------
        X : array-like of shape (n_trials, n_channels, n_times), or MNE's Epochs
            Signals; whatever has `get_data()` is asked for them.
        y : ignored

        Returns
        -------
        self
        """
        trials, sfreq = as_trials(X)
        self._make_filters(trials, sfreq)
        self.n_features_in_ = trials.shape[1]
        return self

    def transform(self, X: ArrayLike) -> Blocks | Floats:
        """Filter each trial, and take the covariances.

        Parameters
        ----------
        X : array-like of shape (n_trials, n_channels, n_times), or MNE's Epochs
            Signals; `n_times` need not be that of `fit`.

        Returns
        -------
        Blocks of n_channels × n_channels matrices, or array of shape \
(n_trials, n_channels, n_channels)
            A block for each band; for one band, the array alone.
        """
        trials, sfreq = as_trials(X)
        filters = self._make_filters(trials, sfreq)
        n_trials, n_channels, n_times = trials.shape
        if n_channels != getattr(self, "n_features_in_", n_channels):
            raise ValueError(
                f"X: expected {self.n_features_in_} channels as in fit, got {n_channels}"
            )
        self._warn_if_singular(n_channels, n_times)
        step = max(1, CHUNK_ENTRIES // (n_channels * n_times))
        results = [np.empty((n_trials, n_channels, n_channels), trials.dtype) for _ in filters]
        with _threadpools().limit(limits=1 if n_channels <= SMALL else None):
            Parallel(n_jobs=self.n_jobs, require="sharedmem")(
                delayed(self._describe)(trials[start : start + step], sections, result[start:])
                for sections, result in zip(filters, results, strict=True)
                for start in range(0, n_trials, step)
            )
        return results[0] if len(results) == 1 else Blocks(*results)

    def _describe(self, trials: Floats, sections: Floats, result: Floats) -> None:
        """Write the covariances of some trials in one band to the start of `result`."""
        padding = _padding(self.order)
        filtered = scipy.signal.sosfiltfilt(sections, trials, axis=-1, padlen=padding)
        matrices = covariances(filtered, self.shrinkage)
        result[: len(trials)] = add_diagonal(matrices, self.diagonal, self.diagonal_relative)

    def _make_filters(self, trials: Floats, known_sfreq: float | None) -> list[Floats]:
        """The second-order sections of each band, once all parameters are checked."""
        check_shrinkage(self.shrinkage)
        check_not_negative("diagonal", self.diagonal)
        order = check_count("order", self.order)
        sfreq = _choose_sfreq(self.sfreq, known_sfreq)
        bands = _check_bands(self.bands, sfreq)
        n_times = trials.shape[2]
        if n_times <= _padding(order):
            raise ValueError(
                f"X: expected more than {_padding(order)} time points for a filter of order "
                f"{order}, got {n_times}; take longer trials or a lower order"
            )
        return [
            scipy.signal.butter(order, band, "bandpass", output="sos", fs=sfreq) for band in bands
        ]

    def _warn_if_singular(self, n_channels: int, n_times: int) -> None:
        if n_times <= n_channels and not self.shrinkage and not self.diagonal:
            warnings.warn(
                f"X: {n_times} time points of {n_channels} channels give singular covariances, "
                "which have no logarithm; use shrinkage='ledoit_wolf', a diagonal, longer trials "
                "or fewer channels",
                stacklevel=3,
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def _padding(order: int) -> int:
    """How many time points are reflected at both ends: as many as SciPy takes for such a filter."""
    return 3 * (2 * order + 1)


def _choose_sfreq(given: Any, known: float | None) -> float:
    """The parameter, or what X says; they must not contradict each other."""
    if given is None and known is None:
        raise ValueError(
            "sfreq: expected the sampling frequency of X in hertz, got None; only MNE's Epochs "
            "know it themselves"
        )
    sfreq = check_positive("sfreq", known if given is None else given)
    if known is not None and not np.isclose(sfreq, known):
        raise ValueError(f"sfreq: expected {known:g}, which is what X says, got {sfreq:g}")
    return sfreq


def _check_bands(bands: Any, sfreq: float) -> list[tuple[float, float]]:
    try:
        pairs = [(low, high) for low, high in bands]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"bands: expected a sequence of pairs (low, high), got {bands!r}"
        ) from error
    if not pairs:
        raise ValueError("bands: expected at least one pair (low, high), got none")
    for low, high in pairs:
        if not all(isinstance(edge, Real) for edge in (low, high)):
            raise TypeError(f"bands: expected pairs of numbers, got ({low!r}, {high!r})")
        if not 0 < low < high < sfreq / 2:
            raise ValueError(
                f"bands: expected 0 < low < high < sfreq / 2 = {sfreq / 2:g}, got ({low}, {high})"
            )
    return pairs
