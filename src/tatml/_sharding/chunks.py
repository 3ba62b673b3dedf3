"""From what a user gives to a problem in shards: pairs on disk, in chunks, on a cluster, all pairs.

This is an edge: the code here looks at types and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from .._array import to_numpy
from .._data.blocks import Blocks, as_blocks
from .._data.checks import check_magnitude, check_prior
from .._data.pairs import _to_array, as_index, as_similar, as_some_weights
from .._data.storage import is_stored, length_of, parse_bytes, sendable
from .._optim.pair_sums import PairSums, lay_out
from .._optim.pair_term import PairTerm
from .._optim.problem import LogDetProblem
from .._validation import check_count
from .all_pairs import AllPairs
from .base import Executor, Piece, SerialExecutor, Setting, Shard
from .gpu import DeviceExecutor, array_on
from .samples import SharedSamples, as_shared_samples
from .term import DifferenceShapes, ShardedTerm

__all__ = ["PairChunks", "in_parts", "sharded_problem", "sharded_term"]

DEFAULT_MEMORY = 2**28
WORKSPACE = 2**24  # bytes that the solver needs whatever the chunks are
LEAST_PAIRS = 256  # of a chunk
LEAST_SENT, MOST_SENT = 10_000, 200_000  # of one that goes to a worker
VECTORS = 300  # bytes a pair: indices, flags, and the vectors that a pass computes
COPIES = 9  # of the two samples of a pair while a chunk is laid out: what was measured
SAMPLE_COPIES = 6


class PairChunks:
    """Pairs in chunks, of which only one is in memory at a time.

    Give it to `learn_metric` in the place of X. The chunks are read again in every step of the
    solver, about a dozen times in all.

    Parameters
    ----------
    chunks : iterable of chunks
        A chunk is a tuple ``(X, pairs, similar)`` or ``(X, pairs, similar, weights)``, as
        `learn_metric` takes them, with pairs that are indices into the X of the chunk; or
        ``(differences, None, similar)``, with the two samples of each pair already subtracted; or
        a function without arguments that returns such a tuple; or a dask `Delayed` of one.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import learn_metric
    >>> from tatml._sharding.chunks import PairChunks
    >>> def read(seed):  # say, from a file
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
        """Pairs given as two aligned arrays: row k of the one belongs to row k of the other.

        Parameters
        ----------
        first, second : array of shape (n_pairs, n) or (n_pairs, n, n'), or tuple of M of them
            The two samples of each pair: in memory, on disk, or dask arrays with the same chunks.
        similar : array of bool of shape (n_pairs,)
            Whether they are alike.
        weights : array of shape (n_pairs,), optional
            How much each pair counts.
        chunk_size : int, default=10_000
            Pairs in a chunk; dask arrays keep their own chunks.
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
        combine, step = partial(_differences, len(first)), check_count("chunk_size", chunk_size)
        if any(_is_dask(array) for array in arrays.values()):
            from .dask import aligned_chunks

            chunks = aligned_chunks(arrays, combine)
        else:
            parts = _parts(list(arrays.values()), step, _common_length(arrays))
            chunks = [partial(_read, combine, part) for part in parts]
        _check_same_shapes(first, second)
        return cls(chunks)

    def __len__(self) -> int:
        return len(self.chunks)

    def __repr__(self) -> str:
        return f"PairChunks({len(self)} chunks)"


def _check_same_shapes(first: tuple, second: tuple) -> None:
    """A shape that merely can be broadcast is a mistake."""
    for m, (a, b) in enumerate(zip(first, second, strict=True)):
        if np.shape(a)[1:] != np.shape(b)[1:]:
            raise ValueError(
                f"second[{m}]: expected samples of the shape of those of first[{m}], "
                f"{np.shape(a)[1:]}, got {np.shape(b)[1:]}"
            )


def _differences(n_blocks: int, *arrays: Any) -> tuple:
    """(differences, None, similar[, weights]) from first…, second…, similar[, weights]."""
    first, second = (
        [np.asarray(a, dtype=np.float64) for a in arrays[start : start + n_blocks]]
        for start in (0, n_blocks)
    )
    blocks = Blocks(*(a - b for a, b in zip(first, second, strict=True)))
    return blocks, None, *arrays[2 * n_blocks :]


@dataclass(frozen=True)
class ChunkShard:
    """One chunk: a tuple or a function that returns one, and how errors should call it."""

    chunk: Any
    name: str = ""
    offset: int = 0

    def load(self, shared: SharedSamples | None) -> Piece:
        """Check the chunk, and lay it out for sums."""
        return self.piece(shared, self.chunk() if callable(self.chunk) else self.chunk)

    def without_chunk(self) -> ChunkShard:
        """What is left to send where the chunk itself is on the cluster already."""
        return replace(self, chunk=None)

    def piece(self, shared: SharedSamples | None, values: Any) -> Piece:
        """The same, given what the chunk holds."""
        try:
            return self._piece(shared, *_four(values))
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


def _four(values: Any) -> tuple:
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
    """Whether these arguments ask for a problem in shards."""
    if max_memory is not None or client is not None or device is not None:
        return True
    return any(isinstance(value, PairChunks | AllPairs) or is_stored(value) for value in values)


def sharded_term(
    X: Any,
    pairs: Any,
    similar: Any,
    weights: Any,
    setting: Setting,
    *,
    max_memory: int | str | None = None,
    client: Any = None,
    device: str | None = None,
) -> ShardedTerm:
    """Check the pairs in a first pass, and make a term of them."""
    memory = DEFAULT_MEMORY if max_memory is None else parse_bytes("max_memory", max_memory)
    memory -= WORKSPACE
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
        shared = as_shared_samples(X, read_in_parts=max_memory is not None, memory=memory)
        shards = _shards(shared, pairs, similar, weights, memory, on_cluster=client is not None)
    executor = _executor(shards, shared, client, device)
    shapes = describe(executor, setting)
    _set_largest_sample(executor, shapes, memory)
    return ShardedTerm(executor, shapes, setting)


def sharded_problem(term: ShardedTerm, c0: float, mu0: float, prior: Any = None) -> LogDetProblem:
    """The problem of pairs in shards; a prior is checked here."""
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
    n_pairs, step = _common_length(arrays), _pairs_at_a_time(shared, memory)
    if on_cluster:  # enough chunks for some workers, whatever their number
        step = min(step, max(LEAST_SENT, -(-n_pairs // 16)), MOST_SENT)
    parts = _parts(list(arrays.values()), step, n_pairs)
    return [
        ChunkShard(partial(_read, _indexed, part), offset=k * step) for k, part in enumerate(parts)
    ]


def _pairs_at_a_time(shared: SharedSamples, memory: int) -> int:
    """How many pairs a chunk may have."""
    if shared.in_memory:  # a pass multiplies them by a factor: one more copy
        step = (memory - (1 + shared.counted) * shared.n_bytes) // VECTORS
        if step > shared.n_samples:
            return step
    step = memory // (8 * COPIES * shared.numbers + VECTORS)
    if step < LEAST_PAIRS:
        least = WORKSPACE + LEAST_PAIRS * (8 * COPIES * shared.numbers + VECTORS)
        raise ValueError(
            f"max_memory: expected at least {least:,} bytes, got {memory + WORKSPACE:,}"
        )
    return step


def _parts(arrays: Sequence[Any], step: int, n_pairs: int) -> Iterator[list]:
    """For each chunk a list of (array, slice); of what is in memory, only the rows of the chunk."""
    arrays = [sendable(array) for array in arrays]
    for start in range(0, n_pairs, step):
        part = slice(start, min(start + step, n_pairs))
        yield [
            (array[part], slice(None)) if isinstance(array, np.ndarray) else (array, part)
            for array in arrays
        ]


def _read(combine: Callable, parts: Sequence[tuple[Any, slice]]) -> tuple:
    return combine(*(to_numpy(array[part]) for array, part in parts))


def _indexed(*arrays: Any) -> tuple:
    return None, *arrays


def _common_length(arrays: dict[str, Any]) -> int:
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


def describe(executor: Executor, setting: Setting) -> DifferenceShapes:
    """A first pass: every chunk is checked, and the pairs are counted."""
    found = executor.gather(_look_at, setting)
    shapess = [sizes for sizes, *_ in found]
    for k, sizes in enumerate(shapess):
        if sizes != shapess[0]:
            raise ValueError(
                f"chunk {k}: expected blocks of shapes {shapess[0]}, as in chunk 0, got {sizes}"
            )
    if not any(counts for *_, counts in found):
        raise ValueError("weights: expected at least one positive weight, got zeros only")
    sizes, widths = zip(*shapess[0], strict=True)
    return DifferenceShapes(sizes, widths, sum(n_pairs for _, n_pairs, _ in found))


def _look_at(term: PairTerm, index: int) -> tuple:
    shapes = tuple(zip(term.sizes, term.sums.widths, strict=True))
    return shapes, term.n_pairs, bool(np.any(term.loss.weight > 0))


def _set_largest_sample(executor: Executor, shapes: DifferenceShapes, memory: int) -> None:
    numbers = sum(n * width for n, width in shapes.block_shapes)
    fits = max(1, memory // (8 * SAMPLE_COPIES * numbers + VECTORS))
    executor.largest_sample = min(executor.largest_sample, fits)
