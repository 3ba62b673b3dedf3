"""How fast this machine is, from a measurement of milliseconds at the first use.

Matrix products, gathers and decompositions are timed at the shapes that a problem uses: products of
small matrices run at a fraction of the rate of large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .._array import Array, asarray, namespace, total
from .._threads import SMALL_MATRIX, _threadpools
from .sums import DEFAULT_LIMITS

__all__ = ["Rates", "measure_rates"]

GATHERED = 2**23  # bytes of the samples that rows are gathered from: more than a small cache
LARGEST_TIMED = 96  # rows of a matrix that is decomposed for a measurement
GROWTH = 2.5  # exponent of the time of a decomposition: larger ones run at a higher rate
REPEATS = 5  # a rate is that of the fastest of so many runs
BUNDLE = 10  # calls whose time together is measured as a latency


class Rates(NamedTuple):
    """Rates of one machine, or of one GPU, for blocks of one shape."""

    flops: float
    """Floating-point operations per second of the products of one chunk of pairs."""
    gathered: float
    """Bytes per second of differences that are formed from rows of samples."""
    streamed: float
    """Bytes per second that operations on one number per pair read or write."""
    decomposition: float
    """Seconds of one singular value decomposition of an n × n matrix."""
    call: float
    """Seconds of one operation on a tiny array."""


@lru_cache(maxsize=128)
def measure_rates(n: int, width: int, dtype: str = "float64", device: str | None = None) -> Rates:
    """Measure the rates for blocks of n × width matrices; the result is kept.

    Examples
    --------
    >>> from tatml._optim.machine import measure_rates
    >>> rates = measure_rates(8, 1)
    >>> rates.flops > 1e6, rates is measure_rates(8, 1)
    (True, True)
    """
    with _threadpools().limit(limits=1 if n <= SMALL_MATRIX else None):
        return _measured(n, width, _array_on(device, dtype))


def _array_on(device: str | None, dtype: str) -> Array:
    """Return an array of one number on a device of PyTorch; None stands for NumPy."""
    if device is None:
        return np.zeros(1, dtype=dtype)
    torch = import_module("torch")
    return torch.zeros(1, dtype=getattr(torch, dtype), device=device)


def _measured(n: int, width: int, like: Array) -> Rates:
    """Time each kind of operation on the device of `like`."""
    xp, rng = namespace(like), np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return asarray(rng.standard_normal(shape, dtype=np.float32), like, like.dtype)

    itemsize = np.dtype(str(like.dtype).removeprefix("torch.")).itemsize
    size = itemsize * n * width
    chunk = max(16, DEFAULT_LIMITS.chunk_at(like) // size)
    samples = normal(max(64, min(4096, GATHERED // size)), width * n)
    rows = asarray(rng.integers(samples.shape[0], size=(2, chunk)), like)
    flat, square, tiny = normal(chunk * width, n), normal(n, n), normal(8)
    numbers, small = normal(50_000), normal(*(2 * [min(n, LARGEST_TIMED)]))
    product = _seconds(lambda: flat @ square)
    gather = _seconds(
        lambda: xp.take(samples, rows[0, :], axis=0) - xp.take(samples, rows[1, :], axis=0)
    )
    stream = _seconds(lambda: numbers * numbers + numbers)
    decompose = _seconds(lambda: xp.linalg.svd(small)[1])
    call = _seconds(lambda: [tiny + tiny for _ in range(BUNDLE)][-1])
    return Rates(
        flops=2 * chunk * width * n * n / product,
        gathered=chunk * size / gather,
        streamed=5 * numbers.shape[0] * itemsize / stream,
        decomposition=decompose * (n / small.shape[0]) ** GROWTH,
        call=call / BUNDLE,
    )


def _seconds(function: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of some runs."""
    total(function())  # may load code; `total` waits for a GPU
    best = np.inf
    for _ in range(REPEATS):
        start = perf_counter()
        total(function())
        best = min(best, perf_counter() - start)
    return float(best)
