"""Shards, each with some of the pairs, and an executor, which calls a function for every shard.

A shard is loaded, computed on by the code for pairs in memory, and dropped. With a `Device`, the
pairs stay on the host or on disk, and are sent to a GPU in parts. `ShardedTerm` in `term.py` asks
an executor for sums over all shards: `SerialExecutor`, or `DaskExecutor` on a cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._array import Array, placed, to_numpy
from .._messages import missing_extra, shown
from .._optim.custom_loss import CustomLoss
from .._optim.layout import Limits
from .._optim.losses import PairLoss, comparison_hinge
from .._optim.pair_term import PairTerm
from .._optim.problem import LabelledPairs, additive_hinge, custom, logistic, squared_hinge
from .._optim.sums import Sums

LARGEST_SAMPLE = 10_000_000  # Most pairs of a sample in memory, where max_memory allows more.
SHARD_LIMITS = Limits(svec_bytes=0)  # max_memory does not provide for the svec(A_k) of all pairs.


class LossSetting(NamedTuple):
    """The parameters of the losses, which every shard needs."""

    C: float
    margin: tuple[float, float]
    comparisons: tuple[float, float] = (1.0, 1.0)
    """C and the margin of comparisons."""
    smoothing: float = 0.0
    """ν of the smoothed hinge; 0 for the hinge itself."""
    loss: str | CustomLoss = "squared_hinge"
    """"squared_hinge", "additive_hinge", "logistic" or the user's own."""

    def loss_of(self, pairs: LabelledPairs) -> PairLoss:
        """Return the loss of the given pairs."""
        if self.loss == "squared_hinge":
            return squared_hinge(pairs, self.C, self.margin)
        if not isinstance(self.loss, str):
            return custom(pairs, self.C, self.loss)
        return {"additive_hinge": additive_hinge, "logistic": logistic}[self.loss](pairs, self.C)

    def scaled(self, factor: float) -> LossSetting:
        """Return the setting of losses that are multiplied by a factor."""
        C, margin = self.comparisons
        return self._replace(C=factor * self.C, comparisons=(factor * C, margin))


@dataclass(frozen=True, eq=False)
class Piece:
    """The pairs or comparisons of one shard, in memory.

    Parameters
    ----------
    sums : Sums
        The sums over them, in the user's coordinates.
    similar : array of bool of shape (n_pairs,), or None
        Whether each pair is similar; None for comparisons.
    weights : array of shape (n_pairs,), or None
        The weight of each pair or comparison.
    """

    sums: Sums
    similar: Any
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return self.sums.n_pairs

    def __sizeof__(self) -> int:
        """Return the size in bytes, from which dask estimates the cost of moving a piece."""
        features, per_row = self.sums.features, 40 if self.sums.links is None else 80
        return per_row * len(self) + 8 * features.n_rows * features.numbers_per_row

    def take(self, rows: NDArray[np.intp]) -> Piece:
        """Return some of the pairs or comparisons."""
        similar, weights = (
            None if values is None else values[rows] for values in (self.similar, self.weights)
        )
        return Piece(self.sums.take(rows), similar, weights)

    def term(self, setting: LossSetting) -> PairTerm:
        """Return the term of the pairs or comparisons, in the user's coordinates."""
        loss: Any
        if self.similar is None:
            loss = comparison_hinge(self.weights, *setting.comparisons)
        else:
            loss = setting.loss_of(self)
        term = PairTerm(self.sums, loss)
        return term.smoothed(setting.smoothing) if setting.smoothing > 0 else term


class Shard(NamedTuple):
    """A description of some of the pairs, wherever they are: small, and can be pickled."""

    chunk: Any
    """The arrays of the pairs, as a tuple; or a function or a dask `Delayed` that returns it."""
    make: Callable[[Any, Any], Piece]
    """Checks the tuple and prepares it for sums, given what all shards share (the samples)."""
    name: str = ""
    """The name of the chunk in errors; empty for a part of one array of pairs."""

    def piece(self, values: Any, shared: Any) -> Piece:
        """Check the tuple of the chunk, and prepare it for sums."""
        try:
            return self.make(values, shared)
        except (TypeError, ValueError) as error:
            if not self.name:
                raise
            raise type(error)(f"{self.name}: {error}") from error

    def load(self, shared: Any) -> Piece:
        """Read the chunk, check it, and prepare it for sums."""
        return self.piece(self.chunk() if callable(self.chunk) else self.chunk, shared)


@dataclass
class SerialExecutor:
    """Loads one shard after the other in this process; one is in memory at a time.

    Parameters
    ----------
    shards : sequence of Shard
        The shards.
    shared : object
        What all shards share.
    device : Device or None
        Where the sums are computed; None: on the host.
    """

    shards: Sequence[Shard]
    shared: Any = None
    device: Device | None = None

    largest_sample = LARGEST_SAMPLE

    @property
    def like(self) -> Array | None:
        """An array on the device where the sums are computed; None stands for NumPy."""
        return None if self.device is None else self.device.like

    def sampled(self, share: float, seed: int) -> None:
        """Return None: a sample in memory needs no shard to be loaded again."""

    def _results(self, function: Callable, setting: LossSetting, args: tuple) -> Iterator:
        for index, shard in enumerate(self.shards):
            yield function(shard.load(self.shared).term(setting), index, *args)

    def gather(self, function: Callable, setting: LossSetting, *args: Any) -> list:
        """Return `function(term of the shard, index of the shard, *args)` of every shard."""
        return list(self._results(function, setting, args))

    def total(self, function: Callable, setting: LossSetting, *args: Any) -> Any:
        """Return the sum of the results, added in the order of the shards, as NumPy arrays."""
        if self.device is not None:
            function, args = partial(self.device.call, function), self.device.sent(args)
        return added(self._results(function, setting, args))


def add(a: Any, b: Any) -> Any:
    """Add two results: numbers, arrays, or lists, tuples and named tuples of them."""
    if a is None:
        return None
    if type(a) is list:
        return [add(one, other) for one, other in zip(a, b, strict=True)]
    if hasattr(a, "_fields"):
        return type(a)(*map(add, a, b))
    return tuple(map(add, a, b)) if type(a) is tuple else a + b


def added(results: Iterable[Any]) -> Any:
    """Add the results of shards in their order."""
    return reduce(add, results)


def is_dask(value: Any) -> bool:
    """Return whether a value is lazy on a dask cluster."""
    return hasattr(value, "__dask_graph__")


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
        return _each_array(partial(placed, like=self.like), args)

    def place(self, term: PairTerm) -> PairTerm:
        """Copy a term to the device; features that were sent last are not sent again."""
        blocks = term.sums.features.blocks
        if self._sent is None or any(
            a is not b for a, b in zip(blocks, self._sent[0], strict=True)
        ):
            self._sent = None  # frees the memory of what was sent before
            self._sent = blocks, [placed(block, self.like) for block in blocks]
        return on_device(term, self.like, self._sent[1])

    def call(self, function: Callable, term: PairTerm, index: int, *args: Any) -> Any:
        """Call a function with the term, which is sent to the device; the results come back."""
        result = function(self.place(term), index, *args)
        return _each_array(to_numpy, result)


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
    return device.call(function, term, index, *device.sent(args))


def on_device(term: PairTerm, like: Array, blocks: Any = None) -> PairTerm:
    """Copy a term to the device of `like`; `blocks` are its features if they are there."""
    return replace(term, given=None, given_loss=None).placed(like, blocks)


def _each_array(function: Callable, value: Any) -> Any:
    """Apply a function to every array in nested lists, tuples and named tuples."""
    if hasattr(value, "_fields"):
        return type(value)(*(_each_array(function, part) for part in value))
    if type(value) in (list, tuple):
        return type(value)(_each_array(function, part) for part in value)
    return function(value) if hasattr(value, "shape") else value
