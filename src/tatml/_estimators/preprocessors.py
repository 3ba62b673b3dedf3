"""Preprocessors: arrays, Blocks or functions that give the samples of indicators.

Like `inputs`, this is an edge of the estimators: it inspects types and dimensions.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples

from .._data.arrays import read_array
from .._data.blocks import Blocks
from .._data.storage import warn_of_missing_chunks
from .._learning.places import fetched
from .._messages import shown
from .sparse_inputs import accepts_sparse, read_sparse_samples


def look_up(preprocessor: Any, indicators: NDArray, estimator: BaseEstimator) -> Any:
    """Return the samples that the preprocessor gives for the indicators."""
    if callable(preprocessor):
        samples = _called(preprocessor, indicators)
        found = _count_of(samples)
        if found != len(indicators):
            raise ValueError(
                f"preprocessor: expected {len(indicators)} samples, one for each indicator, got "
                f"{found}"
            )
        return samples
    samples = fetched(preprocessor)
    if accepts_sparse(estimator, preprocessor, reset=True):
        samples = read_sparse_samples(preprocessor)
    elif not isinstance(preprocessor, Blocks):
        warn_of_missing_chunks(preprocessor=preprocessor)
        samples = read_array(fetched(preprocessor), "preprocessor")
    if samples.ndim not in (2, 3):
        raise TypeError(
            "preprocessor: expected an array of samples, Blocks or a function, got "
            f"{shown(preprocessor)}"
        )
    if indicators.dtype.kind not in "iu":
        raise TypeError(
            "preprocessor: expected integer indicators, as an array is indexed, got dtype "
            f"{indicators.dtype}; give a function that finds the samples instead"
        )
    wrong = (indicators < 0) | (indicators >= len(samples))
    if wrong.any():
        raise ValueError(
            f"preprocessor: expected indices from 0 to {len(samples) - 1}, got "
            f"{indicators[wrong][0]}"
        )
    return samples[indicators]


def _called(preprocessor: Any, indicators: NDArray) -> Any:
    """Return what a function gives for the indicators; its errors name the preprocessor."""
    try:
        return preprocessor(indicators)
    except Exception as error:  # a function of the user may raise anything
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"preprocessor: expected a function that returns {len(indicators)} samples, one for "
            f"each indicator, got {type(error).__name__}: {error}"
        ) from error


def _count_of(samples: Any) -> int | str:
    """Return the number of samples; for an object without a length, its repr for a message."""
    try:
        return _num_samples(samples)
    except Exception:  # a preprocessor may return any object
        return shown(samples)
