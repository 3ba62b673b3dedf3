"""Shards that are computed on a GPU: pairs stay on the host or on disk, and pass through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._array import Array, placed, to_numpy
from .._messages import shown
from .._optim.pair_term import PairTerm
from .base import SerialExecutor, Setting, on_device

__all__ = ["DeviceExecutor", "array_on"]


def array_on(name: str) -> Array:
    """An array on the device of this name, as PyTorch calls it; the others are made like it."""
    if not isinstance(name, str):
        raise TypeError(f"device: expected the name of a device or None, got {shown(name)}")
    try:
        import torch
    except ImportError as error:
        raise ImportError('device needs PyTorch: pip install "tatml[torch]"') from error
    try:
        return torch.zeros(1, dtype=torch.float64, device=name)
    except (RuntimeError, AssertionError, TypeError) as error:  # no driver, no GPU, no such name
        raise ValueError(
            "device: expected one that PyTorch has here, such as 'cpu' or 'cuda', got "
            f"{shown(name)}"
        ) from error


@dataclass
class DeviceExecutor(SerialExecutor):
    """One shard after the other: loaded on the host, sent to the device, summed up there.

    Samples that all shards share are sent once.
    """

    _sent: tuple[Sequence[Array], list[Array]] | None = None

    def total(self, function: Callable, setting: Setting, *args: Any) -> Any:
        """The sum over the shards, in their order, as NumPy arrays."""
        sent = _each(lambda arg: placed(arg, self.like) if hasattr(arg, "shape") else arg, args)
        return super().total(_OnDevice(self, function), setting, *sent)

    def place(self, term: PairTerm) -> PairTerm:
        """The same term with its arrays on the device."""
        features = term.sums.features
        if self._sent is None or any(
            a is not b for a, b in zip(features, self._sent[0], strict=True)
        ):
            self._sent = None  # what was sent before may go
            self._sent = features, [placed(block, self.like) for block in features]
        return on_device(term, self.like, self._sent[1])


@dataclass(frozen=True)
class _OnDevice:
    """A function of a term that is to be on the device; its results come back."""

    executor: DeviceExecutor
    function: Callable

    def __call__(self, term: PairTerm, index: int, *args: Any) -> Any:
        result = self.function(self.executor.place(term), index, *args)
        return _each(lambda part: to_numpy(part) if hasattr(part, "shape") else part, result)


def _each(function: Callable, value: Any) -> Any:
    """A function of every entry of nested lists and tuples, with names or not."""
    if hasattr(value, "_fields"):
        return type(value)(*(_each(function, part) for part in value))
    if type(value) in (list, tuple):
        return type(value)(_each(function, part) for part in value)
    return function(value)
