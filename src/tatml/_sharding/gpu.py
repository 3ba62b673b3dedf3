"""Shards that are computed on a GPU: pairs stay on the host or on disk, and are sent in parts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._array import Array, placed, to_numpy
from .._messages import missing_extra, shown
from .._optim.pair_term import PairTerm
from .base import LossSetting, SerialExecutor, on_device


def array_on(name: str) -> Array:
    """Return an array on a device of PyTorch; it serves as `like` for other arrays."""
    if not isinstance(name, str):
        raise TypeError(f"device: expected the name of a device or None, got {shown(name)}")
    try:
        import torch
    except ImportError as error:
        raise missing_extra("device needs PyTorch", "torch") from error
    try:
        return torch.zeros(1, dtype=torch.float64, device=name)
    except (RuntimeError, AssertionError, TypeError) as error:  # no driver, GPU or such name
        raise ValueError(
            "device: expected one that PyTorch has here, such as 'cpu' or 'cuda', got "
            f"{shown(name)}"
        ) from error


@dataclass
class DeviceExecutor(SerialExecutor):
    """Loads one shard after the other on the host, and sends it to the device for the sums.

    Samples that all shards share are sent once.
    """

    _sent: tuple[Sequence[Array], list[Array]] | None = None

    def total(self, function: Callable, setting: LossSetting, *args: Any) -> Any:
        """Return the sum of the results, added in the order of the shards, as NumPy arrays."""
        return super().total(_OnDevice(self, function), setting, *self.sent(args))

    def sent(self, args: tuple) -> tuple:
        """Copy the arrays among the arguments to the device."""
        return _each(lambda arg: placed(arg, self.like) if hasattr(arg, "shape") else arg, args)

    def place(self, term: PairTerm) -> PairTerm:
        """Copy a term to the device; features that were sent last are not sent again."""
        features = term.sums.features
        if self._sent is None or any(
            a is not b for a, b in zip(features, self._sent[0], strict=True)
        ):
            self._sent = None  # frees the memory of what was sent before
            self._sent = features, [placed(block, self.like) for block in features]
        return on_device(term, self.like, self._sent[1])


@dataclass(frozen=True)
class OnWorkerDevice:
    """A function whose term is sent to the device of the worker that calls it; can be pickled.

    Samples that are sent stay there until the thread of the worker sends others.
    """

    device: str
    function: Callable

    def __call__(self, term: PairTerm, index: int, *args: Any) -> Any:
        executor = getattr(_OF_THREAD, "executor", None)
        if executor is None or executor[0] != self.device:
            executor = self.device, DeviceExecutor([], like=array_on(self.device))
            _OF_THREAD.executor = executor
        return _OnDevice(executor[1], self.function)(term, index, *executor[1].sent(args))


_OF_THREAD = threading.local()  # the device of each thread of a worker, and what was sent there


@dataclass(frozen=True)
class _OnDevice:
    """A function whose term is sent to the device, and whose results come back."""

    executor: DeviceExecutor
    function: Callable

    def __call__(self, term: PairTerm, index: int, *args: Any) -> Any:
        result = self.function(self.executor.place(term), index, *args)
        return _each(lambda part: to_numpy(part) if hasattr(part, "shape") else part, result)


def _each(function: Callable, value: Any) -> Any:
    """Apply a function to every entry of nested lists, tuples and named tuples."""
    if hasattr(value, "_fields"):
        return type(value)(*(_each(function, part) for part in value))
    if type(value) in (list, tuple):
        return type(value)(_each(function, part) for part in value)
    return function(value)
