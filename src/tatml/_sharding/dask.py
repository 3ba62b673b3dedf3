"""Shards on a dask cluster: each stays on a worker, W and b0 go out, small sums come back.

Every future here is the result of a task that dask can run again. If a worker dies, other workers
load its shards again. If data were lost that dask cannot compute again, the round is repeated. If
that fails too, `ConnectionError` says what was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

import numpy as np

from .._messages import missing_extra, shown
from .base import LossSetting, Piece, Shard, added, call_on_worker_device, is_dask
from .term import draw_rows

FAN_IN = 8  # Number of results that one task adds up.
RETRIES = 2  # How often dask runs a failed task again.
ATTEMPTS = 3  # How often a round is tried if the cluster loses workers or the scheduler.
LARGEST_SAMPLE = 500_000  # Most pairs of a sample that a fit is rehearsed on.


class DaskExecutor:
    """Calls a function for each shard, on the workers that hold the shards.

    Parameters
    ----------
    shards : sequence of Shard
        Descriptions of the shards.
    shared : object
        What all shards need; it is sent to every worker once.
    client : distributed.Client or None
        None: the client that was made last.
    device : str or None
        A device of PyTorch, where each worker computes its sums; None: NumPy.
    sample_of : (DaskExecutor, float, int), or None
        With another executor, a share and a seed, a function is called for such a share of each
        shard of that executor. A fit is rehearsed so on the workers: in the client it would wait
        for one core.

    Notes
    -----
    A round that fails because the cluster lost workers or the scheduler is tried three times. Each
    time, it waits for a worker as long as dask waits for a connection (its configuration
    `distributed.comm.timeouts.connect`).
    """

    largest_sample = LARGEST_SAMPLE
    like = None

    def __init__(
        self,
        shards: Sequence[Shard],
        shared: Any,
        client: Any = None,
        device: str | None = None,
        sample_of: tuple[DaskExecutor, float, int] | None = None,
    ):
        self.shards, self.shared, self.device = shards, shared, device
        self.client = _client_of(client)
        self.sample_of = sample_of
        self._pieces: list | None = None
        self._had_workers = self._had_pieces = False

    def gather(self, function: Callable, setting: LossSetting, *args: Any) -> list:
        """Return the results, in the order of the shards."""
        return self._attempt(partial(self._submit, function, setting, args))

    def total(self, function: Callable, setting: LossSetting, *args: Any) -> Any:
        """Return the sum of the results; the order depends on the number of shards only."""
        if self.device is not None:
            function = partial(call_on_worker_device, self.device, function)
        return self._attempt(partial(self._submit, function, setting, args), adds=True)[0]

    def sampled(self, share: float, seed: int) -> DaskExecutor:
        """Return an executor for a share of each shard, on the same workers."""
        sample_of = self, share, seed
        return DaskExecutor(self.shards, self.shared, self.client, self.device, sample_of)

    def _attempt(self, submit: Callable[[], list], adds: bool = False) -> list:
        """Compute a round; if the cluster lost something, send the shards and compute it again."""
        left = ATTEMPTS
        while True:
            futures: list = []
            try:
                return self._compute(submit, adds, futures)
            except (Exception, asyncio.CancelledError) as error:
                if not self._is_loss(error, futures):
                    raise
                left -= 1
                if left == 0:
                    raise ConnectionError(self._describe_loss(error)) from error
                self._pieces = None
            finally:
                self._cancel_unfinished(futures)

    def _compute(self, submit: Callable[[], list], adds: bool, futures: list) -> list:
        """Return the results, or their sum alone; all futures are added to the list."""
        level = submit()
        futures += level
        while adds and len(level) > 1:
            groups = [level[k : k + FAN_IN] for k in range(0, len(level), FAN_IN)]
            level = [self._task(added, group) for group in groups]
            futures += level
        self._wait(level)
        return self.client.gather(level)

    def _wait(self, futures: list) -> None:
        """Wait for the futures; raise TimeoutError if all workers are gone for too long."""
        from distributed import wait

        patience = _connect_timeout()
        last_seen = monotonic()
        while True:
            with suppress(TimeoutError):
                wait(futures, timeout=patience / 4)
                return
            if self.client.nthreads():
                last_seen = monotonic()
            elif monotonic() - last_seen > patience:
                raise TimeoutError(f"no worker for {patience:g} seconds")

    def _is_loss(self, error: BaseException, futures: Sequence[Any]) -> bool:
        """Return whether an error came from the cluster, and not from a task."""
        kind = type(error)
        if issubclass(kind, _cluster_errors()):
            return True
        if any(future.status == "error" for future in futures):
            return False
        return issubclass(kind, OSError) or self.client.status != "running"

    def _describe_loss(self, error: BaseException) -> str:
        what = "workers"
        if self.client.status != "running":
            what = "the connection to the scheduler"
        else:
            with suppress(Exception):
                what = "workers" if self.client.nthreads() else "all workers"
        return (
            f"client: the dask cluster lost {what}, and {ATTEMPTS} attempts to compute the sums "
            f"over the shards failed (last error: {type(error).__name__}); restart the cluster and "
            "resume from a checkpoint: init=Checkpoint.load(path)"
        )

    def _cancel_unfinished(self, futures: Sequence[Any]) -> None:
        """Leave nothing running after an error or Ctrl-C."""
        unfinished = [future for future in futures if not future.done()]
        if unfinished:
            with suppress(Exception):  # the client may have been closed
                self.client.cancel(unfinished)

    def _submit(self, function: Callable, setting: LossSetting, args: tuple) -> list:
        pieces = self._held_pieces()
        message = self._task(_identity, (setting, args))  # sent once, not with every task
        return [
            self._task(_call, function, piece, index, message) for index, piece in enumerate(pieces)
        ]

    def _held_pieces(self, again: bool = False) -> list:
        """Return the pieces on the workers as futures; they are sent in the first round.

        With `again`, they are sent again.
        """
        if self._pieces is None or again:
            self._pieces = self._send() if self.sample_of is None else self._draw(*self.sample_of)
            self._had_pieces = True
        return self._pieces

    def _draw(self, whole: DaskExecutor, share: float, seed: int) -> list:
        """Draw samples on the workers; if they were lost, the shards are sent again too."""
        pieces = whole._held_pieces(again=self._had_pieces)
        return [
            self._task(_sample_piece, piece, index, share, seed)
            for index, piece in enumerate(pieces)
        ]

    def _send(self) -> list:
        """Send the shards to the workers, and return their pieces as futures."""
        if not self._had_workers:  # some clusters start workers when there is a task
            self._task(_identity, None).result()
            self._had_workers = True
        shared = None
        if self.shared is not None:
            shared = self.client.scatter(
                self.shared, broadcast=True, hash=False, timeout=_connect_timeout()
            )
        delayed = [shard.chunk for shard in self.shards if is_dask(shard.chunk)]
        values = iter(
            self.client.compute(delayed, retries=RETRIES)
        )  # one call sends the graph once
        return [
            self._task(Shard.piece, shard._replace(chunk=None), next(values), shared)
            if is_dask(shard.chunk)
            else self._task(Shard.load, shard, shared)
            for shard in self.shards
        ]

    def _task(self, function: Callable, *args: Any) -> Any:
        return self.client.submit(function, *args, pure=False, retries=RETRIES)


def _cluster_errors() -> tuple[type[BaseException], ...]:
    """Return the errors that dask raises where workers or the scheduler were lost."""
    from distributed import scheduler
    from distributed.comm import CommClosedError

    names = ("KilledWorker", "NoValidWorkerError")  # the second in newer versions only
    known = tuple(getattr(scheduler, name) for name in names if hasattr(scheduler, name))
    return (CancelledError, asyncio.CancelledError, CommClosedError, *known)


def _connect_timeout() -> float:
    """Return how many seconds dask waits for a connection."""
    import dask
    from dask.utils import parse_timedelta

    return parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))


def _client_of(client: Any) -> Any:
    """Return a client that was given; for None, the one that was made last."""
    if client is not None:
        if not (hasattr(client, "submit") and hasattr(client, "scatter")):
            raise TypeError(f"client: expected a distributed.Client, got {shown(client)}")
        return client
    try:
        from distributed import get_client
    except ImportError as error:
        raise missing_extra("dask arrays and clusters need distributed", "dask") from error
    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "client: expected a dask cluster for dask arrays, got none; make one with "
            "distributed.Client()"
        ) from error


def aligned_chunks(arrays: dict[str, Any], combine: Callable) -> list:
    """Return a Delayed `combine(chunk of each array)` for each chunk along the first axis.

    Arrays in memory or on disk are divided like the dask arrays.
    """
    import dask
    import dask.array

    # zarr arrays have chunks too; they are divided like arrays in memory.
    on_cluster = {name: a for name, a in arrays.items() if is_dask(a)}
    rows = {name: _row_chunks(name, array) for name, array in on_cluster.items()}
    name, expected = next(iter(rows.items()))
    for other, chunks in rows.items():
        if chunks != expected:
            raise ValueError(
                f"{other}: expected the chunks of {name}, got others: "
                f"{_difference(expected, chunks)}; call {other}.rechunk"
            )
    parts = []
    for other, array in arrays.items():
        if other not in rows:
            array = np.asarray(array)
            if array.shape[:1] != (sum(expected),):
                raise ValueError(f"{other}: expected {sum(expected)} rows, got shape {array.shape}")
            array = dask.array.from_array(array, chunks=(expected, *array.shape[1:]))
        parts.append(array.rechunk({k: -1 for k in range(1, len(array.shape))}).to_delayed())
    blocks = [part.ravel() for part in parts]
    return [dask.delayed(combine)(*chunk) for chunk in zip(*blocks, strict=True)]


def _row_chunks(name: str, array: Any) -> tuple[int, ...]:
    """Return the lengths of the chunks of a dask array along the first axis."""
    if not hasattr(type(array), "chunks") or not array.shape:
        raise TypeError(
            f"{name}: expected a dask array with rows, got {type(array).__name__}; chunks that "
            "are Delayed go into PairChunks"
        )
    if any(size != size for sizes in array.chunks for size in sizes):
        raise ValueError(f"{name}: expected known chunks, got unknown; call compute_chunk_sizes()")
    return array.chunks[0]


def _difference(expected: tuple[int, ...], chunks: tuple[int, ...]) -> str:
    """Describe the first place where two lists of chunk lengths differ."""
    for k, (size, other) in enumerate(zip(expected, chunks, strict=False)):
        if size != other:
            return f"chunk {k} has {other} rows instead of {size}"
    return f"there are {len(chunks)} chunks instead of {len(expected)}"


# Functions that run on the workers


def _identity(value: Any) -> Any:
    return value


def _sample_piece(piece: Piece, index: int, share: float, seed: int) -> Piece:
    return piece.take(draw_rows(len(piece), index, share, seed, least=1))


def _call(function: Callable, piece: Piece, index: int, message: tuple) -> Any:
    setting, args = message
    with np.errstate(all="ignore"):  # as in the solver, which rejects non-finite objectives
        return function(piece.term(setting), index, *args)
