"""Multichannel signals as samples: one covariance matrix per frequency band."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.signal
from numpy.typing import ArrayLike
from sklearn.utils.parallel import Parallel, delayed

from .._array import Floats
from .._data.blocks import Blocks
from .._threads import SMALL_MATRIX, _threadpools
from .._validation import check_count, check_flag, check_not_negative, check_positive
from ._inputs import StatelessTransformer, as_trials, channel_names
from ._shrinkage import Shrinkage, add_diagonal, check_shrinkage, covariances

CHUNK_ENTRIES = 2**20  # entries of the signals per chunk: filtering makes several copies of them


@dataclass(eq=False, repr=False)
class FilterBankCovariance(StatelessTransformer):
    """Covariance of the channels of each trial, in several frequency bands.

    A Butterworth band-pass filter is applied forwards and backwards, which leaves the phase
    unchanged; then the covariance of the channels over time is computed. Each band is a block. Use
    it before `LogEuclidean`. Only the number of channels is learnt; `transform` works without
    `fit`.

    Parameters
    ----------
    bands : sequence of (float, float), default=((4, 8), (8, 13), (13, 30))
        The lower and the upper edge of each band in hertz, between 0 and `sfreq` / 2. At the
        edges, the two passes of the filter together halve the amplitude.
    sfreq : float, optional
        The sampling frequency in hertz. It is required for arrays; MNE's Epochs contain it.
    order : int, default=4
        The order N of the filter, `scipy.signal.butter(N, band, "bandpass")`; a higher order has
        steeper edges and needs longer trials.
    shrinkage : None, "ledoit_wolf", "oas" or float, default=None
        The estimator of the covariance C. None divides by n_times − 1. The others divide by
        n_times and return (1 − s) C + s (tr C / n_channels) I, where s is the given number from 0
        to 1, or estimated by one of the two methods.
    diagonal : float, default=0.0
        The number to add to the diagonal of C, in squared units of the signals.
    diagonal_relative : bool, default=False
        Whether `diagonal` is in units of tr C / n_channels, the mean variance of a channel.
    channel_names : sequence of str, optional
        The names of the channels, for tables and displays; MNE's Epochs contain them.
    n_jobs : int, optional
        The number of threads; -1 means one per processor.

    Attributes
    ----------
    n_features_in_ : int
        The number of channels seen in `fit`.
    row_names_ : tuple of str, or None
        The names of the channels, if they are known.

    Warns
    -----
    UserWarning
        If there are no more time points than channels, and neither shrinkage nor a diagonal. The
        covariances are then singular and have no logarithm.

    Notes
    -----
    The mean of each channel over the trial is subtracted. The estimates are those of pyRiemann:
    None is its "cov", 0.0 its "scm", "ledoit_wolf" its "lwf" and "oas" its "oas".

    A band of width B hertz in a trial of T seconds has about 2BT degrees of freedom per channel. If
    that is less than the number of channels, the covariance is close to singular, whatever the
    number of time points; then use shrinkage. Channels with a common average reference sum to zero,
    so that their covariance is singular too.

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
    >>> blocks.names
    ('8–13 Hz', '13–30 Hz')
    """

    bands: Sequence[tuple[float, float]] = ((4, 8), (8, 13), (13, 30))
    sfreq: float | None = None
    _: KW_ONLY
    order: int = 4
    shrinkage: Shrinkage = None
    diagonal: float = 0.0
    diagonal_relative: bool = False
    channel_names: Sequence[str] | None = None
    n_jobs: int | None = None

    def fit(self, X: ArrayLike, y: Any = None) -> FilterBankCovariance:
        """Check the parameters and the trials, and count the channels.

        Parameters
        ----------
        X : array-like of shape (n_trials, n_channels, n_times), or MNE's Epochs
            Signals. If X has a method `get_data`, it must return them.
        y : ignored

        Returns
        -------
        self
        """
        trials, sfreq = as_trials(X)
        self._make_filters(trials, sfreq)
        self.n_features_in_ = trials.shape[1]
        self.row_names_ = channel_names(X, self.channel_names, trials.shape[1])
        return self

    def transform(self, X: ArrayLike) -> Blocks | Floats:
        """Filter each trial, and compute the covariances.

        Parameters
        ----------
        X : array-like of shape (n_trials, n_channels, n_times), or MNE's Epochs
            Signals; `n_times` need not be that of `fit`.

        Returns
        -------
        Blocks of n_channels × n_channels matrices, or array of shape \
(n_trials, n_channels, n_channels)
            One block per band, with the names of bands and channels; an array, which has no names,
            if there is only one band.
        """
        trials, sfreq = as_trials(X)
        filters = self._make_filters(trials, sfreq)
        _, n_channels, n_times = trials.shape
        if n_channels != getattr(self, "n_features_in_", n_channels):
            raise ValueError(
                f"X: expected {self.n_features_in_} channels as in fit, got {n_channels}"
            )
        self._warn_if_singular(n_channels, n_times)
        results = map_trials(self._filtered_covariances, trials, filters, self.n_jobs)
        if len(results) == 1:
            return results[0]
        names = [f"{low:g}–{high:g} Hz" for low, high in self.bands]
        given = self.channel_names
        if given is None and not hasattr(X, "ch_names"):
            given = getattr(self, "row_names_", None)
        row_names = [channel_names(X, given, n_channels)] * len(results)
        return Blocks(*results, names=names, row_names=row_names)

    def _filtered_covariances(self, trials: Floats, sections: Floats) -> Floats:
        """Return the covariances of some trials in one band."""
        padding = _padding(self.order)
        filtered = scipy.signal.sosfiltfilt(sections, trials, axis=-1, padlen=padding)
        matrices = covariances(filtered, self.shrinkage)
        return add_diagonal(matrices, self.diagonal, self.diagonal_relative)

    def _make_filters(self, trials: Floats, known_sfreq: float | None) -> list[Floats]:
        """Check all parameters, and return the second-order sections of each band."""
        check_shrinkage(self.shrinkage)
        check_not_negative("diagonal", self.diagonal)
        check_flag("diagonal_relative", self.diagonal_relative)
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


def map_trials(
    function: Callable[[Floats, Floats], Floats],
    trials: Floats,
    filters: Sequence[Floats],
    n_jobs: int | None = None,
    chunk_entries: int = CHUNK_ENTRIES,
) -> list[Floats]:
    """Return the matrices that the function computes from the trials, one array per filter.

    The function takes trials and the sections of a filter; it is called on chunks in threads.
    """
    n_trials, n_channels, n_times = trials.shape
    step = max(1, chunk_entries // (n_channels * n_times))
    chunks = [trials[start : start + step] for start in range(0, n_trials, step)]
    with _threadpools().limit(limits=1 if n_channels <= SMALL_MATRIX else None):
        found = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(function)(chunk, sections) for sections in filters for chunk in chunks
        )
    return np.split(np.concatenate(found, dtype=trials.dtype), len(filters))


def _padding(order: int) -> int:
    """Return the number of time points that are reflected at both ends, as in SciPy."""
    return 3 * (2 * order + 1)


def _choose_sfreq(given: Any, known: float | None) -> float:
    """Return the parameter or the value of X; raise an error if they differ."""
    if given is None and known is None:
        raise ValueError(
            "sfreq: expected the sampling frequency of X in hertz, got None; only MNE's Epochs "
            "contain it"
        )
    sfreq = check_positive("sfreq", known if given is None else given)
    if known is not None and not np.isclose(sfreq, known):
        raise ValueError(f"sfreq: expected {known:g}, the sampling frequency of X, got {sfreq:g}")
    return sfreq


def _check_bands(bands: Any, sfreq: float) -> list[tuple[float, float]]:
    try:
        edges = [(low, high) for low, high in bands]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"bands: expected a sequence of pairs (low, high), got {bands!r}"
        ) from error
    if not edges:
        raise ValueError("bands: expected at least one pair (low, high), got none")
    for low, high in edges:
        if not all(isinstance(edge, Real) for edge in (low, high)):
            raise TypeError(f"bands: expected pairs of numbers, got ({low!r}, {high!r})")
        if not 0 < low < high < sfreq / 2:
            raise ValueError(
                f"bands: expected 0 < low < high < sfreq / 2 = {sfreq / 2:g}, got ({low}, {high})"
            )
    return edges
