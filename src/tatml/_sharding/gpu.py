"""Shards that are computed on a GPU: pairs stay on the host or on disk, and are sent in parts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .._array import Array, placed, to_numpy
from .._messages import missing_extra, shown
from .._optim.pair_term import PairTerm


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


class Device:
    """A device where terms are computed; `like` is an array on it.

    Samples that all shards share are sent once: what was sent last stays there.
    """

    def __init__(self, like: Array):
        self.like = like
        self._sent: tuple[Sequence[Array], list[Array]] | None = None

    def sent(self, args: tuple) -> tuple:
        """Copy the arrays among the arguments to the device."""
        return _each(lambda arg: placed(arg, self.like) if hasattr(arg, "shape") else arg, args)

    def place(self, term: PairTerm) -> PairTerm:
        """Copy a term to the device; features that were sent last are not sent again."""
        blocks = term.sums.features.blocks
        if self._sent is None or any(
            a is not b for a, b in zip(blocks, self._sent[0], strict=True)
        ):
            self._sent = None  # frees the memory of what was sent before
            self._sent = blocks, [placed(block, self.like) for block in blocks]
        return on_device(term, self.like, self._sent[1])

    def computing(self, function: Callable) -> Callable:
        """Return a function whose term is sent to the device, and whose results come back."""
        return partial(self._call, function)

    def _call(self, function: Callable, term: PairTerm, index: int, *args: Any) -> Any:
        result = function(self.place(term), index, *args)
        return _each(lambda part: to_numpy(part) if hasattr(part, "shape") else part, result)


_OF_THREAD = threading.local()  # the device of each thread of a worker, by its name


def call_on_worker_device(
    name: str, function: Callable, term: PairTerm, index: int, *args: Any
) -> Any:
    """Call a function on the device of this name of the worker that runs this."""
    devices = vars(_OF_THREAD)
    if name not in devices:
        devices.clear()
        devices[name] = Device(array_on(name))
    device = devices[name]
    return device.computing(function)(term, index, *device.sent(args))


def on_device(term: PairTerm, like: Array, blocks: Any = None) -> PairTerm:
    """Copy a term to the device of `like`; `blocks` are its features if they are there."""
    return replace(term, given=None, given_loss=None).placed(like, blocks)


def _each(function: Callable, value: Any) -> Any:
    """Apply a function to every entry of nested lists, tuples and named tuples."""
    if hasattr(value, "_fields"):
        return type(value)(*(_each(function, part) for part in value))
    if type(value) in (list, tuple):
        return type(value)(_each(function, part) for part in value)
    return function(value)
