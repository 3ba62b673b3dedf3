"""How fast this machine is, from a measurement of milliseconds at the first use.

Matrix products, gathers and decompositions are timed at the shapes that a problem uses: products of
small matrices run at a fraction of the rate of large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from .._array import Array, asarray, namespace, on_gpu, total, zeros
from .._threads import SMALL_MATRIX, _threadpools
from .sums import DEFAULT_LIMITS

GATHERED = 2**23  # bytes of the samples that rows are gathered from: more than a small cache
LARGEST_TIMED = 96  # rows of a matrix that is decomposed for a measurement
GPU_LARGEST = 1024  # the same on a GPU, where small matrices tell nothing about large ones
GPU_STREAM = 2**22  # numbers of an array whose operations are timed on a GPU
LARGEST_CHUNK = 2**26  # bytes of a chunk, which on a GPU may be larger
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

    def ones(*shape: int) -> Array:
        return zeros(shape, like) + 1

    itemsize = np.dtype(str(like.dtype).removeprefix("torch.")).itemsize
    size = itemsize * n * width
    chunk = max(16, min(DEFAULT_LIMITS.chunk_at(like), LARGEST_CHUNK) // size)
    samples = ones(max(64, min(4096, GATHERED // size)), width * n)
    rows = asarray(rng.integers(samples.shape[0], size=(2, chunk)), like)
    many, largest = (GPU_STREAM, GPU_LARGEST) if on_gpu(like) else (50_000, LARGEST_TIMED)
    flat, square, tiny, numbers = ones(chunk * width, n), ones(n, n), ones(8), ones(many)
    small = asarray(rng.normal(size=2 * [min(n, largest)]), like, like.dtype)
    seconds = partial(_seconds, on_device=on_gpu(like))
    product = seconds(lambda: flat @ square)
    gather = seconds(
        lambda: xp.take(samples, rows[0, :], axis=0) - xp.take(samples, rows[1, :], axis=0)
    )
    stream = seconds(lambda: numbers * numbers + numbers)
    decompose = seconds(lambda: _decomposed(small))
    call = seconds(lambda: [tiny + tiny for _ in range(BUNDLE)][-1])
    return Rates(
        flops=2 * chunk * width * n * n / product,
        gathered=chunk * size / gather,
        streamed=5 * numbers.shape[0] * itemsize / stream,
        decomposition=decompose * (n / small.shape[0]) ** GROWTH,
        call=call / BUNDLE,
    )


def _decomposed(matrix: Array) -> Array:
    """Return singular values, on a GPU eigenvalues: those are what a step computes there."""
    xp = namespace(matrix)
    return xp.linalg.eigh(matrix @ matrix.T)[0] if on_gpu(matrix) else xp.linalg.svd(matrix)[1]


def _seconds(function: Callable[[], Any], on_device: bool) -> float:
    """Return the seconds of the fastest of some runs.

    On a CPU they are those of the processor where these are less: then others used it too.
    """
    total(function())  # may load code; `total` waits for a GPU
    best = np.inf
    for _ in range(REPEATS):
        start, used_before = perf_counter(), process_time()
        total(function())
        elapsed, used = perf_counter() - start, process_time() - used_before
        best = min(best, elapsed if on_device or used == 0 else min(elapsed, used))
    return float(best)
