"""Divide pairs and comparisons into shards, check them, and build the problem of the shards.

The pairs are in memory, on disk, in the chunks of the user (`PairChunks`), or all pairs.

This is an edge: the code here looks at types and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._array import Array, to_numpy
from .._data.arrays import as_real_array, check_given
from .._data.blocks import Blocks, as_blocks, as_center, check_magnitude, given_center
from .._data.pairs import (
    Comparisons,
    _to_array,
    as_index,
    as_quadruplets,
    as_similar,
    as_some_weights,
    link_pairs,
    weights_of,
)
from .._data.storage import is_stored, sendable
from .._optim.layout import lay_out, signs_of, slices
from .._optim.pair_term import PairTerm
from .._optim.sums import ComparisonSums, Links, PairSums
from .._validation import check_count
from .all_pairs import AllPairs
from .base import SHARD_LIMITS, Device, LossSetting, Piece, SerialExecutor, Shard, array_on, is_dask
from .compute import Compute
from .samples import (
    SharedSamples,
    as_shared_samples,
    memory_for_shards,
    pairs_per_chunk,
    pairs_per_sample,
)
from .term import ShardedTerm

if TYPE_CHECKING:
    from .dask import DaskExecutor

LEAST_SENT, MOST_SENT = 10_000, 200_000  # Limits of the pairs of a chunk that a worker holds.
PAIRS_PER_COMPARISON = 3  # Memory per comparison, in pairs.


def chunk_piece(values: Any, shared: Any = None, center: Sequence[Array] | None = None) -> Piece:
    """Check a chunk of `PairChunks`, and prepare it for sums."""
    if not isinstance(values, tuple | list) or len(values) not in (3, 4):
        raise TypeError(
            "expected a tuple (X, pairs, similar) or (X, pairs, similar, weights), got "
            f"{type(values).__name__}"
        )
    X, pairs, similar, weights = (*values, None)[:4]
    blocks = as_blocks(X)
    check_magnitude(blocks, "X")
    if pairs is None and center is not None:
        raise ValueError(
            "midpoint: expected chunks (X, pairs, similar), got differences, which do not tell the "
            "sums of the pairs"
        )
    if pairs is None:
        sums = PairSums.of(lay_out(blocks.arrays, centre=False), limits=SHARD_LIMITS)
    else:
        index = as_index(pairs, len(blocks))
        if center is not None:
            center = as_center([*center], blocks.block_shapes)
        features = lay_out(blocks.arrays, centre=True, midpoint=center)
        signs = signs_of(blocks.n_blocks, center)
        sums = PairSums.of(features, *index.T, limits=SHARD_LIMITS, signs=signs).compact()
    return _piece(sums, similar, weights)


def _piece(sums: PairSums, similar: Any, weights: Any, offset: int = 0) -> Piece:
    similar = as_similar(similar, sums.n_pairs)
    if weights is not None:
        weights = as_some_weights(weights, sums.n_pairs, offset=offset)
    return Piece(sums, similar, weights)


# Pairs and comparisons of shared samples. Of these, `offset` is the row of the arrays where a chunk
# begins.


def _pair_piece(offset: int, values: tuple, shared: SharedSamples) -> Piece:
    """Check the tuple (pairs, similar) or (pairs, similar, weights), and prepare it for sums."""
    pairs, similar, weights = (*values, None)[:3]
    sums = shared.sums(as_index(pairs, shared.n_samples, offset=offset))
    return _piece(sums, similar, weights, offset)


def comparison_shards(
    shared: SharedSamples, comparisons: Comparisons, memory: int, *, on_cluster: bool
) -> list[Shard]:
    """Divide comparisons of shared samples into shards that fit into the memory."""
    arrays = {"comparisons: index": comparisons.index, "comparisons: weights": comparisons.weights}
    check_given(**arrays)
    if comparisons.index is None:
        raise TypeError("comparisons: index: expected an array of indices, got None")
    step = max(1, pairs_per_chunk(shared, memory) // PAIRS_PER_COMPARISON)
    return _cut_shards(_comparison_piece, arrays, step, on_cluster=on_cluster)


def _comparison_piece(offset: int, values: tuple, shared: SharedSamples) -> Piece:
    """Check the tuple (index,) or (index, weights), and prepare it for sums."""
    index = as_quadruplets(values[0], shared.n_samples, offset=offset)
    weights = weights_of(values[1] if len(values) > 1 else None, index, offset)
    linked = link_pairs(None, index)
    pairs = shared.sums(np.stack([linked.first, linked.second]).T)
    return Piece(ComparisonSums(pairs, Links(*linked.links)), None, weights)


def _cut_shards(
    make: Callable, arrays: dict[str, Any], step: int, *, on_cluster: bool
) -> list[Shard]:
    """Divide aligned arrays into shards of `step` rows; dask arrays keep their chunks."""
    arrays = {
        name: array if hasattr(array, "shape") else _to_array(array, name)
        for name, array in arrays.items()
        if array is not None
    }
    if any(map(is_dask, arrays.values())):
        chunks = cut(arrays, step)
        return [Shard(chunk, partial(make, 0), f"chunk {k}") for k, chunk in enumerate(chunks)]
    if on_cluster:  # enough chunks for several workers, whose number may change
        step = min(step, max(LEAST_SENT, -(-common_length(arrays) // 16)), MOST_SENT)
    return [Shard(chunk, partial(make, k * step)) for k, chunk in enumerate(cut(arrays, step))]


def _as_tuple(*arrays: Any) -> tuple:
    return arrays


def cut(arrays: dict[str, Any], step: int, combine: Callable = _as_tuple) -> list:
    """Cut aligned arrays into chunks, functions that return `combine(part of each array)`.

    The parts have `step` rows. If there are dask arrays, a chunk is a Delayed, with the rows of
    their chunks. Of arrays in memory, a function holds only its rows.
    """
    if any(map(is_dask, arrays.values())):
        from .dask import aligned_chunks

        return aligned_chunks(arrays, combine)
    whole = [sendable(array) for array in arrays.values()]
    return [
        partial(
            _read,
            combine,
            [
                (array[part], slice(None)) if isinstance(array, np.ndarray) else (array, part)
                for array in whole
            ],
        )
        for part in slices(common_length(arrays), step)
    ]


def _read(combine: Callable, parts: Sequence[tuple[Any, slice]]) -> Any:
    """Read the parts of a chunk, and combine them."""
    return combine(*(to_numpy(array[part]) for array, part in parts))


def common_length(arrays: dict[str, Any]) -> int:
    """Return the number of rows of all arrays; raise ValueError if it differs."""
    lengths = {}
    for name, array in arrays.items():
        shape = getattr(array, "shape", None)
        if not shape or not isinstance(shape, tuple):
            raise TypeError(f"{name}: expected an array with a shape, got {type(array).__name__}")
        lengths[name] = int(shape[0])
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"pairs: expected the same number of rows in each array, but {listed}")
    n_pairs = next(iter(lengths.values()))
    if n_pairs == 0:
        name = "comparisons: index" if "comparisons: index" in arrays else "pairs"
        raise ValueError(f"{name}: expected at least one row, got none")
    return n_pairs


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
        check_given(**arrays)
        combine, step = partial(_differences, len(first)), check_count("chunk_size", chunk_size)
        chunks = cut(arrays, step, combine)
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


def in_parts(where: Compute, *values: Any) -> bool:
    """Return whether these arguments ask for a problem in shards."""
    if any(setting is not None for setting in (where.max_memory, where.client, where.device)):
        return True
    return any(isinstance(value, PairChunks | AllPairs) or is_stored(value) for value in values)


def sharded_term(
    X: Any,
    pairs: Any,
    similar: Any,
    weights: Any,
    setting: LossSetting,
    *,
    comparisons: Comparisons | None = None,
    where: Compute = Compute(),  # noqa: B008  # it is frozen
    midpoint: Any = False,
) -> ShardedTerm:
    """Divide the pairs into shards, check them in a first pass, and return their term.

    Comparisons make more shards of the same term.
    """
    memory = memory_for_shards(where.max_memory)
    if isinstance(X, PairChunks):
        _check_none("pairs, similar, weights", "PairChunks", pairs, similar, weights)
        _check_none("comparisons", "PairChunks", comparisons)
        center, shared = _center_of_chunks(midpoint), None
        shards = _shards_of_chunks(X, center)
    else:
        if is_dask(X):
            raise TypeError(
                "X: expected samples in memory or on disk, got a dask array; with index pairs take "
                "X.compute(), or give both samples of each pair: PairChunks.from_arrays(first, "
                "second, similar)"
            )
        given = {"pairs": pairs, "similar": similar, "weights": weights}
        check_given(X=X, **given)
        in_parts = where.max_memory is not None
        shared = as_shared_samples(X, read_in_parts=in_parts, memory=memory, midpoint=midpoint)
        center = shared.center
        if where.max_memory is not None:  # the default is no limit of the size of the metric
            memory -= shared.extra_workspace
        on_cluster, shards = where.client is not None, []
        if comparisons is None or any(values is not None for values in given.values()):
            shards += _pair_shards(shared, pairs, similar, weights, memory, on_cluster=on_cluster)
        if comparisons is not None:
            shards += comparison_shards(shared, comparisons, memory, on_cluster=on_cluster)
    executor = _executor(shards, shared, where)
    block_shapes, n_pairs = _check_shards(executor, setting)
    if center is not None:
        center = as_center([*center], block_shapes[: len(center)])
    numbers = sum(n * width for n, width in block_shapes)
    numbers *= 1 if comparisons is None else 2
    return ShardedTerm(
        executor,
        block_shapes,
        n_pairs,
        setting,
        compares=comparisons is not None or setting.loss == "additive_hinge",
        center=center,
        largest_sample=min(executor.largest_sample, pairs_per_sample(numbers, memory)),
    )


def _shards_of_chunks(X: PairChunks, center: Sequence[Array] | None) -> list[Shard]:
    """Return one shard per chunk of the user."""
    make = partial(chunk_piece, center=center)
    return [Shard(chunk, make, f"chunk {k}") for k, chunk in enumerate(X.chunks)]


def _center_of_chunks(midpoint: Any) -> Sequence[Array] | None:
    """Return the centre of the midpoints of `PairChunks`, which has to be given."""
    if not isinstance(midpoint, bool | np.bool_):
        return given_center(midpoint)
    if midpoint:
        raise ValueError(
            "midpoint: expected the centre, one array per block, with PairChunks, got True; its "
            "samples are not read for their mean"
        )
    return None


def _check_none(names: str, kind: str, *values: Any) -> None:
    if any(value is not None for value in values):
        raise ValueError(f"{names}: expected None with {kind}, got values")


def _pair_shards(
    shared: SharedSamples, pairs: Any, similar: Any, weights: Any, memory: int, *, on_cluster: bool
) -> Sequence[Shard]:
    """Divide pairs of shared samples into shards that fit into the memory."""
    if isinstance(pairs, AllPairs):
        _check_none("similar, weights", "AllPairs", similar, weights)
        extra = shared.extra_workspace
        return pairs.shards(shared.n_samples, shared.numbers, memory, extra)
    if pairs is None or similar is None:
        raise TypeError("pairs, similar: expected arrays, got None")
    arrays = {"pairs": pairs, "similar": similar, "weights": weights}
    step = pairs_per_chunk(shared, memory)
    return _cut_shards(_pair_piece, arrays, step, on_cluster=on_cluster)


def _executor(
    shards: Sequence[Shard], shared: SharedSamples | None, where: Compute
) -> SerialExecutor | DaskExecutor:
    if where.client is None and not any(is_dask(shard.chunk) for shard in shards):
        device = None if where.device is None else Device(array_on(where.device))
        return SerialExecutor(shards, shared, device)
    from .dask import DaskExecutor

    return DaskExecutor(shards, shared, where.client, where.device)


def _check_shards(
    executor: SerialExecutor | DaskExecutor, setting: LossSetting
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Load every shard once, which checks it; return the block shapes and the number of pairs."""
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
    return expected, sum(n_pairs for _, n_pairs, _ in found)


def _look_at(term: PairTerm, index: int) -> tuple:
    """Return the block shapes of a shard, its number of pairs, and whether any has a weight."""
    shapes = tuple(term.sums.features.shapes)
    return shapes, term.n_pairs, bool(np.any(term.loss.weight > 0))
