"""Build a problem in shards from pairs in memory, on disk or in chunks, or from all pairs.

This is an edge: the code here looks at types and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from .._array import to_numpy
from .._data.arrays import as_real_array, check_not_masked
from .._data.blocks import Blocks, as_blocks
from .._data.checks import check_magnitude, check_prior
from .._data.pairs import _to_array, as_index, as_similar, as_some_weights
from .._data.storage import (
    check_files,
    is_stored,
    length_of,
    sendable,
    warn_of_missing_chunks,
)
from .._optim.pair_sums import PairSums, lay_out
from .._optim.pair_term import PairTerm
from .._optim.problem import LogDetProblem
from .._validation import check_count
from .all_pairs import AllPairs
from .base import Executor, LossSetting, Piece, SerialExecutor, Shard
from .gpu import DeviceExecutor, array_on
from .memory import memory_for_shards, pairs_per_chunk, pairs_per_sample
from .samples import SharedSamples, as_shared_samples
from .term import DifferenceShapes, ShardedTerm

__all__ = ["PairChunks", "in_parts", "sharded_problem", "sharded_term"]

LEAST_SENT, MOST_SENT = 10_000, 200_000  # Limits of the pairs of a chunk that a worker holds.


class PairChunks:
    """Pairs in chunks, of which only one is in memory at a time.

    Give it to `learn_metric` as X. The chunks are read again in every step of the solver, about a
    dozen times in total.

    Parameters
    ----------
    chunks : iterable of chunks
        A chunk is a tuple ``(X, pairs, similar)`` or ``(X, pairs, similar, weights)``, as
        `learn_metric` takes them, with pairs that are indices into the X of the chunk; or a tuple
        ``(differences, None, similar)``, with the differences of the two samples of each pair; or a
        function without arguments that returns such a tuple; or a dask `Delayed` of such a tuple.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import PairChunks, learn_metric
    >>> def read(seed):  # in practice, from a file
    ...     rng = np.random.default_rng(seed)
    ...     similar = rng.random(100) < 0.5
    ...     return rng.normal(size=(100, 2)) * np.where(similar, 0.1, 2.0)[:, None], None, similar
    >>> from functools import partial
    >>> chunks = PairChunks(partial(read, seed) for seed in range(5))
    >>> learn_metric(chunks).converged
    True
    """

    def __init__(self, chunks: Iterable[Any]) -> None:
        self.chunks = list(chunks)
        if not self.chunks:
            raise ValueError("PairChunks: expected at least one chunk, got none")

    @classmethod
    def from_arrays(
        cls, first: Any, second: Any, similar: Any, weights: Any = None, *, chunk_size: int = 10_000
    ) -> Self:
        """Return the chunks of two aligned arrays: row k of both arrays is pair k.

        Parameters
        ----------
        first, second : array of shape (n_pairs, n) or (n_pairs, n, n'), or tuple of M of them
            The two samples of each pair: in memory, on disk, or dask arrays with the same chunks.
        similar : array of bool of shape (n_pairs,)
            Whether the two samples of a pair are alike.
        weights : array of shape (n_pairs,), optional
            How much each pair counts.
        chunk_size : int, default=10_000
            Pairs per chunk; dask arrays keep their own chunks.
        """
        first = first if isinstance(first, tuple) else (first,)
        second = second if isinstance(second, tuple) else (second,)
        if len(first) != len(second):
            raise ValueError(
                f"second: expected {len(first)} arrays, as many as first, got {len(second)}"
            )
        names = [f"first[{m}]" for m in range(len(first))]
        names += [f"second[{m}]" for m in range(len(first))]
        arrays = dict(zip(names, (*first, *second), strict=True)) | {"similar": similar}
        if weights is not None:
            arrays["weights"] = weights
        for name, array in arrays.items():
            check_not_masked(array, name)
        check_files(**arrays)
        warn_of_missing_chunks(**arrays)
        combine, step = partial(_differences, len(first)), check_count("chunk_size", chunk_size)
        if any(_is_dask(array) for array in arrays.values()):
            from .dask import aligned_chunks

            chunks = aligned_chunks(arrays, combine)
        else:
            parts = _parts(list(arrays.values()), step, _common_length(arrays))
            chunks = [partial(_read_chunk, combine, part) for part in parts]
        _check_same_shapes(first, second)
        return cls(chunks)

    def __len__(self) -> int:
        return len(self.chunks)

    def __repr__(self) -> str:
        return f"PairChunks({len(self)} chunks)"


def _check_same_shapes(first: tuple, second: tuple) -> None:
    """Raise ValueError if the shapes differ, also where NumPy could broadcast them."""
    for m, (a, b) in enumerate(zip(first, second, strict=True)):
        if np.shape(a)[1:] != np.shape(b)[1:]:
            raise ValueError(
                f"second[{m}]: expected samples of the shape of those of first[{m}], "
                f"{np.shape(a)[1:]}, got {np.shape(b)[1:]}"
            )


def _differences(n_blocks: int, *arrays: Any) -> tuple:
    """Return (differences, None, similar[, weights]) of first…, second…, similar[, weights]."""
    first, second = (
        [
            np.asarray(as_real_array(arrays[start + m], f"{name}[{m}]"), dtype=np.float64)
            for m in range(n_blocks)
        ]
        for name, start in (("first", 0), ("second", n_blocks))
    )
    blocks = Blocks(*(a - b for a, b in zip(first, second, strict=True)))
    return blocks, None, *arrays[2 * n_blocks :]


@dataclass(frozen=True)
class ChunkShard:
    """One chunk of pairs.

    Parameters
    ----------
    chunk : tuple, callable or Delayed
        A chunk of `PairChunks`, or one without X whose pairs refer to the shared samples.
    name : str
        The name of the chunk in errors; empty for a part of one array of pairs.
    offset : int
        The row of the array of pairs where the chunk begins.
    """

    chunk: Any
    name: str = ""
    offset: int = 0

    def load(self, shared: SharedSamples | None) -> Piece:
        """Read the chunk, check it, and prepare it for sums."""
        return self.piece(shared, self.chunk() if callable(self.chunk) else self.chunk)

    def without_chunk(self) -> ChunkShard:
        """Return the description alone, for a chunk that is already on the cluster."""
        return replace(self, chunk=None)

    def piece(self, shared: SharedSamples | None, values: Any) -> Piece:
        """Check the tuple of a chunk, and prepare it for sums."""
        try:
            return self._piece(shared, *_with_weights(values))
        except (TypeError, ValueError) as error:
            if not self.name:
                raise
            raise type(error)(f"{self.name}: {error}") from error

    def _piece(
        self, shared: SharedSamples | None, X: Any, pairs: Any, similar: Any, weights: Any
    ) -> Piece:
        if X is None and shared is not None:
            sums = shared.sums(as_index(pairs, shared.n_samples, offset=self.offset))
        else:
            blocks = as_blocks(X)
            check_magnitude(blocks, "X")
            sums = _sums_of(blocks, pairs)
        similar = as_similar(similar, sums.n_pairs)
        if weights is not None:
            weights = as_some_weights(weights, sums.n_pairs, offset=self.offset)
        return Piece(sums, similar, weights)


def _with_weights(values: Any) -> tuple:
    """Return (X, pairs, similar, weights), with None for weights that are not given."""
    if not isinstance(values, tuple | list) or len(values) not in (3, 4):
        raise TypeError(
            "expected a tuple (X, pairs, similar) or (X, pairs, similar, weights), got "
            f"{type(values).__name__}"
        )
    return (*values, None)[:4]


def _sums_of(blocks: Blocks, pairs: Any) -> PairSums:
    """Return the sums over index pairs into the blocks; None: the blocks are differences."""
    if pairs is None:
        return PairSums(lay_out(blocks.arrays, centre=False))
    first, second = (np.ascontiguousarray(column) for column in as_index(pairs, len(blocks)).T)
    return PairSums.from_samples(lay_out(blocks.arrays, centre=True), first, second)


def in_parts(*values: Any, max_memory: Any = None, client: Any = None, device: Any = None) -> bool:
    """Return whether these arguments ask for a problem in shards."""
    if max_memory is not None or client is not None or device is not None:
        return True
    return any(isinstance(value, PairChunks | AllPairs) or is_stored(value) for value in values)


def sharded_term(
    X: Any,
    pairs: Any,
    similar: Any,
    weights: Any,
    setting: LossSetting,
    *,
    max_memory: int | str | None = None,
    client: Any = None,
    device: str | None = None,
) -> ShardedTerm:
    """Divide the pairs into shards, check them in a first pass, and return their term."""
    memory = memory_for_shards(max_memory)
    if isinstance(X, PairChunks):
        _check_none("pairs, similar, weights", "PairChunks", pairs, similar, weights)
        shards: Sequence[Shard] = [
            ChunkShard(chunk, f"chunk {k}") for k, chunk in enumerate(X.chunks)
        ]
        shared = None
    else:
        if _is_dask(X):
            raise TypeError(
                "X: expected samples in memory or on disk, got a dask array; with index pairs take "
                "X.compute(), or give both samples of each pair: PairChunks.from_arrays(first, "
                "second, similar)"
            )
        given = {"pairs": pairs, "similar": similar, "weights": weights}
        for name, values in given.items():
            check_not_masked(values, name)
        warn_of_missing_chunks(X=X, **given)
        shared = as_shared_samples(X, read_in_parts=max_memory is not None, memory=memory)
        shards = _shards(shared, pairs, similar, weights, memory, on_cluster=client is not None)
    executor = _executor(shards, shared, client, device)
    shapes = _check_shards(executor, setting)
    numbers = sum(n * width for n, width in shapes.block_shapes)
    executor.largest_sample = min(executor.largest_sample, pairs_per_sample(numbers, memory))
    return ShardedTerm(executor, shapes, setting)


def sharded_problem(term: ShardedTerm, c0: float, mu0: float, prior: Any = None) -> LogDetProblem:
    """Return the problem of pairs in shards, for a prior that is checked here."""
    eyes = tuple(np.eye(n) for n in term.sizes)
    problem = LogDetProblem((term,), c0, mu0, eyes)
    if prior is None:
        return problem
    one_sample = Blocks(*(np.zeros((1, n, width)) for n, width in term.shapes.block_shapes))
    return problem.with_prior(check_prior(prior, one_sample, from_host=True))


def _check_none(names: str, kind: str, *values: Any) -> None:
    if any(value is not None for value in values):
        raise ValueError(f"{names}: expected None with {kind}, got values")


def _shards(
    shared: SharedSamples, pairs: Any, similar: Any, weights: Any, memory: int, *, on_cluster: bool
) -> Sequence[Shard]:
    """Divide pairs of shared samples into shards that fit into the memory."""
    if isinstance(pairs, AllPairs):
        _check_none("similar, weights", "AllPairs", similar, weights)
        return pairs.shards(shared.n_samples, shared.numbers, memory)
    if pairs is None or similar is None:
        raise TypeError("pairs, similar: expected arrays, got None")
    arrays = {"pairs": pairs, "similar": similar}
    if weights is not None:
        arrays["weights"] = weights
    if any(_is_dask(array) for array in arrays.values()):
        from .dask import aligned_chunks

        chunks = aligned_chunks(arrays, _indexed)
        return [ChunkShard(chunk, f"chunk {k}") for k, chunk in enumerate(chunks)]
    arrays = {
        name: array if hasattr(array, "shape") else _to_array(array, name)
        for name, array in arrays.items()
    }
    n_pairs, step = _common_length(arrays), pairs_per_chunk(shared, memory)
    if on_cluster:  # enough chunks for several workers, whose number may change
        step = min(step, max(LEAST_SENT, -(-n_pairs // 16)), MOST_SENT)
    parts = _parts(list(arrays.values()), step, n_pairs)
    return [
        ChunkShard(partial(_read_chunk, _indexed, part), offset=k * step)
        for k, part in enumerate(parts)
    ]


def _parts(arrays: Sequence[Any], step: int, n_pairs: int) -> Iterator[list]:
    """Yield a list of (array, slice) per chunk; of arrays in memory, only the rows of the chunk."""
    arrays = [sendable(array) for array in arrays]
    for start in range(0, n_pairs, step):
        part = slice(start, min(start + step, n_pairs))
        yield [
            (array[part], slice(None)) if isinstance(array, np.ndarray) else (array, part)
            for array in arrays
        ]


def _read_chunk(combine: Callable, parts: Sequence[tuple[Any, slice]]) -> tuple:
    """Read the parts of a chunk, and combine them to its tuple."""
    return combine(*(to_numpy(array[part]) for array, part in parts))


def _indexed(*arrays: Any) -> tuple:
    """Return a chunk without X: its pairs refer to the shared samples."""
    return None, *arrays


def _common_length(arrays: dict[str, Any]) -> int:
    """Return the number of rows of all arrays; raise ValueError if it differs."""
    lengths = {name: length_of(array, name) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"pairs: expected the same number of rows in each array, but {listed}")
    n_pairs = next(iter(lengths.values()))
    if n_pairs == 0:
        raise ValueError("pairs: expected at least one pair, got none")
    return n_pairs


def _is_dask(value: Any) -> bool:
    return hasattr(value, "__dask_graph__")


def _executor(
    shards: Sequence[Shard], shared: SharedSamples | None, client: Any, device: str | None
) -> Executor:
    if device is not None:
        if client is not None or any(_is_dask(getattr(shard, "chunk", None)) for shard in shards):
            raise ValueError(f"device: expected None with a dask cluster, got {device!r}")
        return DeviceExecutor(shards, shared, like=array_on(device))
    if client is None and not any(_is_dask(getattr(shard, "chunk", None)) for shard in shards):
        return SerialExecutor(shards, shared)
    from .dask import DaskExecutor

    return DaskExecutor(shards, shared, client)


def _check_shards(executor: Executor, setting: LossSetting) -> DifferenceShapes:
    """Load every shard once, which checks its values, and count the pairs."""
    found = executor.gather(_look_at, setting)
    block_shapes = [shapes for shapes, *_ in found]
    expected = block_shapes[0]
    for k, shapes in enumerate(block_shapes):
        if shapes != expected:
            raise ValueError(
                f"chunk {k}: expected blocks of shapes {expected}, as in chunk 0, got {shapes}"
            )
    if not any(counts for *_, counts in found):
        raise ValueError("weights: expected at least one positive weight, got zeros only")
    sizes, widths = zip(*expected, strict=True)
    return DifferenceShapes(sizes, widths, sum(n_pairs for _, n_pairs, _ in found))


def _look_at(term: PairTerm, index: int) -> tuple:
    """Return the block shapes of a shard, its number of pairs, and whether any has a weight."""
    shapes = tuple(zip(term.sizes, term.sums.widths, strict=True))
    return shapes, term.n_pairs, bool(np.any(term.loss.weight > 0))
