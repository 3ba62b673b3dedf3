"""Shards on a dask cluster: each stays on a worker, W and b0 go out, small sums come back.

Every future here is the result of a task that dask can run again: a worker that dies costs its
shards, which others load, and not the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from .._messages import shown
from .._optim.terms import added
from .base import Piece, Setting, Shard

__all__ = ["DaskExecutor", "aligned_chunks"]

FAN_IN = 8  # results that one task adds up
RETRIES = 2  # of a task that failed
ATTEMPTS = 3  # of a round whose shards were lost


class DaskExecutor:
    """Calls a function for each shard, on the workers that hold them.

    Parameters
    ----------
    shards : sequence of shards
        Descriptions; some may be dask `Delayed` values of chunks.
    shared : object
        What all shards need: it is sent to every worker once.
    client : distributed.Client or None
        None: the one that was made last.
    """

    largest_sample = 50_000  # what it rehearses on, while the workers wait
    like = None

    def __init__(self, shards: Sequence[Any], shared: Any, client: Any = None):
        self.shards, self.shared = shards, shared
        self.client = _current_client() if client is None else _checked(client)
        self._pieces: list | None = None

    def gather(self, function: Callable, setting: Setting, *args: Any) -> list:
        """The results, in the order of the shards."""
        return self._attempt(self._gather, function, setting, args)

    def total(self, function: Callable, setting: Setting, *args: Any) -> Any:
        """Their sum, in an order that depends on the number of shards alone."""
        return self._attempt(self._total, function, setting, args)

    def _attempt(self, round_: Callable, *what: Any) -> Any:
        from distributed import KilledWorker

        for _ in range(ATTEMPTS - 1):
            try:
                return round_(*what)
            except (CancelledError, KilledWorker):
                self._pieces = None  # what was sent, not computed, was lost: send it again
        return round_(*what)

    def _gather(self, function: Callable, setting: Setting, args: tuple) -> list:
        futures = self._submit(function, setting, args)
        try:
            return self.client.gather(futures)
        except BaseException:
            self.client.cancel(futures)
            raise

    def _total(self, function: Callable, setting: Setting, args: tuple) -> Any:
        everything = level = self._submit(function, setting, args)
        while len(level) > 1:
            groups = [level[k : k + FAN_IN] for k in range(0, len(level), FAN_IN)]
            level = [self._task(_add_all, group) for group in groups]
            everything = everything + level
        try:
            return level[0].result()
        except BaseException:  # Ctrl-C too: leave nothing running
            self.client.cancel(everything)
            raise

    def _submit(self, function: Callable, setting: Setting, args: tuple) -> list:
        if self._pieces is None:
            self._pieces = self._load()
        message = self._task(_identity, (setting, args))  # once, not with every task
        return [
            self._task(_call, function, piece, index, message)
            for index, piece in enumerate(self._pieces)
        ]

    def _load(self) -> list:
        shared = None
        if self.shared is not None:
            shared = self.client.scatter(self.shared, broadcast=True, hash=False)
        chunks = [getattr(shard, "chunk", None) for shard in self.shards]
        delayed = [chunk for chunk in chunks if hasattr(chunk, "__dask_graph__")]
        values = iter(self.client.compute(delayed, retries=RETRIES))  # their graph goes out once
        return [
            self._task(_piece, shard.without_chunk(), shared, next(values))
            if hasattr(chunk, "__dask_graph__")
            else self._task(_load, shard, shared)
            for shard, chunk in zip(self.shards, chunks, strict=True)
        ]

    def _task(self, function: Callable, *args: Any) -> Any:
        return self.client.submit(function, *args, pure=False, retries=RETRIES)


def _checked(client: Any) -> Any:
    if not (hasattr(client, "submit") and hasattr(client, "scatter")):
        raise TypeError(f"client: expected a distributed.Client, got {shown(client)}")
    return client


def _current_client() -> Any:
    try:
        from distributed import get_client
    except ImportError as error:
        raise ImportError(
            'dask arrays and clusters need an extra: pip install "tatml[dask]"'
        ) from error
    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "client: expected a dask cluster for dask arrays, got none; make one with "
            "distributed.Client()"
        ) from error


def aligned_chunks(arrays: dict[str, Any], combine: Callable) -> list:
    """Delayed `combine(chunk of each array)`, chunk by chunk along the first axis."""
    import dask
    import dask.array

    # Arrays on disk have chunks too, of another kind: they are cut as those in memory are.
    on_cluster = {name: a for name, a in arrays.items() if hasattr(a, "__dask_graph__")}
    for name, array in on_cluster.items():
        if not hasattr(type(array), "chunks") or not array.shape:
            raise TypeError(
                f"{name}: expected a dask array with rows, got {type(array).__name__}; chunks that "
                "are Delayed go into PairChunks"
            )
    rows = {name: array.chunks[0] for name, array in on_cluster.items()}
    name, expected = next(iter(rows.items()))
    if any(size != size for size in expected):
        raise ValueError(f"{name}: expected known chunks, got unknown; call compute_chunk_sizes()")
    for other, chunks in rows.items():
        if chunks != expected:
            raise ValueError(
                f"{other}: expected the chunks of {name}, {_short(expected)}, got "
                f"{_short(chunks)}; call {other}.rechunk"
            )
    parts = []
    for other, array in arrays.items():
        if other not in rows:
            array = _divided(other, array, expected)
        parts.append(array.rechunk({k: -1 for k in range(1, len(array.shape))}).to_delayed())
    blocks = [part.ravel() for part in parts]
    return [dask.delayed(combine)(*chunk) for chunk in zip(*blocks, strict=True)]


def _divided(name: str, array: Any, chunks: tuple[int, ...]) -> Any:
    """An array in memory as a dask array with these chunks."""
    import dask.array

    array = np.asarray(array)
    if array.shape[:1] != (sum(chunks),):
        raise ValueError(f"{name}: expected {sum(chunks)} rows, got shape {array.shape}")
    return dask.array.from_array(array, chunks=(chunks, *array.shape[1:]))


def _short(chunks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, chunks[:4]))
    return f"({shown}, …)" if len(chunks) > 4 else f"({shown})"


# What runs on the workers


def _identity(value: Any) -> Any:
    return value


def _load(shard: Shard, shared: Any) -> Piece:
    return shard.load(shared)


def _piece(shard: Any, shared: Any, values: Any) -> Piece:
    return shard.piece(shared, values)


def _call(function: Callable, piece: Piece, index: int, message: tuple) -> Any:
    setting, args = message
    with np.errstate(all="ignore"):  # as in the solver: what comes of an overflow is looked at
        return function(piece.term(setting), index, *args)


def _add_all(results: Sequence[Any]) -> Any:
    return added(results)
