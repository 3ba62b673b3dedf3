"""Shards, each with some of the pairs, and executors, which call a function for every shard.

A shard is loaded, computed on by the code for pairs in memory, and dropped. `ShardedTerm` in
`term.py` asks an executor for sums over all shards; `per_shard.py` has the functions that are
called for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .._array import Array
from .._optim.pair_sums import PairSums
from .._optim.pair_term import PairTerm
from .._optim.problem import squared_hinge
from .._optim.terms import add

LARGEST_SAMPLE = 10_000_000  # Most pairs of a sample in memory, where max_memory allows more.


@dataclass(frozen=True, eq=False)
class Piece:
    """The pairs of one shard, in memory."""

    sums: PairSums
    similar: NDArray[np.bool_]
    weights: NDArray[np.float64] | None = None

    @property
    def sign(self) -> NDArray[np.float64]:
        """y_k of each pair."""
        return np.where(self.similar, 1.0, -1.0)

    def __len__(self) -> int:
        return self.sums.n_pairs

    def __sizeof__(self) -> int:
        """Return the size in bytes, from which dask estimates the cost of moving a piece."""
        vectors = 40 * self.sums.n_pairs
        return vectors + 8 * self.sums.features[0].shape[0] * self.sums.numbers_per_pair

    def take(self, rows: NDArray[np.intp]) -> Piece:
        """Return some of the pairs."""
        weights = None if self.weights is None else self.weights[rows]
        return Piece(self.sums.take(rows), self.similar[rows], weights)

    def term(self, setting: LossSetting) -> PairTerm:
        """Return the term of these pairs, in the user's coordinates."""
        return PairTerm(self.sums, squared_hinge(self, setting.C, setting.margin))


class LoadedPiece(Protocol):
    """What a shard becomes in memory: a `Piece` of pairs, or one of comparisons."""

    def __len__(self) -> int: ...

    def take(self, rows: NDArray[np.intp]) -> LoadedPiece:
        """Return some of the pairs or comparisons."""

    def term(self, setting: LossSetting) -> PairTerm:
        """Return the term of the pairs or comparisons, in the user's coordinates."""


class LossSetting(NamedTuple):
    """The parameters of the losses, which every shard needs."""

    C: float
    margin: tuple[float, float]
    comparisons: tuple[float, float] = (1.0, 1.0)
    """C and the margin of comparisons."""
    smoothing: float = 0.0
    """ν of the smoothed hinge; 0 for the hinge itself."""

    def scaled(self, factor: float) -> LossSetting:
        """Return the setting of losses that are multiplied by a factor."""
        C, margin = self.comparisons
        return self._replace(C=factor * self.C, comparisons=(factor * C, margin))


class Shard(Protocol):
    """A description of some of the pairs, wherever they are: small, and can be pickled."""

    def load(self, shared: Any) -> LoadedPiece:
        """Read the pairs into memory, given what all shards share (the samples)."""


class Executor(Protocol):
    """Calls `function(term of the shard, index of the shard, *args)` for every shard."""

    largest_sample: int
    """The largest number of pairs that a sample in memory may have."""
    like: Array | None
    """An array on the device where the sums are computed; None stands for NumPy."""

    def gather(self, function: Callable, setting: LossSetting, *args: Any) -> list:
        """Return the results, in the order of the shards."""

    def total(self, function: Callable, setting: LossSetting, *args: Any) -> Any:
        """Return the sum of the results, always added in the same order."""

    def sampled(self, share: float, seed: int) -> Executor | None:
        """Return an executor for a share of each shard; None if samples belong into memory."""


@dataclass
class SerialExecutor:
    """Loads one shard after the other in this process; one is in memory at a time."""

    shards: Sequence[Shard]
    shared: Any = None
    largest_sample: int = LARGEST_SAMPLE
    like: Array | None = None

    def sampled(self, share: float, seed: int) -> None:
        """Return None: a sample in memory needs no shard to be loaded again."""

    def _results(self, function: Callable, setting: LossSetting, args: tuple) -> Iterator:
        for index, shard in enumerate(self.shards):
            yield function(term_of(shard.load(self.shared), setting), index, *args)

    def gather(self, function: Callable, setting: LossSetting, *args: Any) -> list:
        """Return the results, in the order of the shards."""
        return list(self._results(function, setting, args))

    def total(self, function: Callable, setting: LossSetting, *args: Any) -> Any:
        """Return the sum of the results, added in the order of the shards."""
        total = None
        for result in self._results(function, setting, args):
            total = result if total is None else add(total, result)
        return total


def term_of(piece: LoadedPiece, setting: LossSetting) -> PairTerm:
    """Return the term of a piece, with smoothed losses if the setting asks for them."""
    term = piece.term(setting)
    return term.smoothed(setting.smoothing) if setting.smoothing > 0 else term


def on_device(term: PairTerm, like: Array, features: Any = None) -> PairTerm:
    """Copy a term to the device of `like`; `features` are its features if they are there."""
    return PairTerm(term.sums.placed(like, features), term.loss.placed(like))
