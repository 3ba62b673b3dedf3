"""The pairs of a case in shards, arrays on disk, and comparisons of results."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from helpers import SHAPES, largest_difference, random_case
from numpy.testing import assert_allclose

from tatml._data.pairs import Pairs
from tatml._optim.problem import LogDetProblem, build_pair_sums
from tatml._sharding.base import LossSetting, Piece, SerialExecutor, Shard
from tatml._sharding.samples import COPIES, LEAST_PAIRS, VECTORS, WORKSPACE
from tatml._sharding.term import ShardedTerm

TIGHT = 1e-16  # W is as exact as the square root of the gap


def every_case(names=SHAPES):
    """(name, case) for shapes of samples, each with a learnt and a fixed threshold."""
    for name in names:
        for c0 in (0.3, inf):
            case = random_case(SHAPES[name], c0=c0, C=3.0, weights=True, prior=True)
            yield f"{name}, c0={c0}", case


def held_shards(case, cuts):
    """Shards whose pairs are in memory all the time."""
    whole = Pairs(np.asfortranarray(case.pairs), case.similar, case.weights)
    parts = np.split(np.arange(len(case.pairs)), cuts)
    return [Shard((case.blocks, whole.take(part)), held_piece) for part in parts]


def held_piece(values, shared):
    blocks, pairs = values
    return Piece(build_pair_sums(blocks, pairs), pairs.similar, pairs.weights)


def sharded(case, cuts=(5, 6)):
    """The problem of the case, with its pairs cut at these places."""
    executor = SerialExecutor(held_shards(case, cuts))
    setting = LossSetting(case.C, case.margin)
    term = ShardedTerm(executor, case.blocks.block_shapes, len(case.pairs), setting)
    problem = LogDetProblem.of(term, case.c0, case.mu0)
    return problem if case.prior is None else problem.with_prior(case.prior)


def least_memory(numbers):
    """The smallest max_memory for samples of so many numbers: chunks of 256 pairs."""
    return WORKSPACE + LEAST_PAIRS * (8 * COPIES * numbers + VECTORS)


def assert_same(found, expected, name=""):
    """Assert that a result in parts is the one in memory; both were solved to `TIGHT`."""
    assert found.gap < 1e-13 * max(1, found.primal), name
    assert largest_difference(found.W, expected.W) < 1e-8, name
    assert_allclose(found.b0, expected.b0, rtol=1e-8, err_msg=name)
    assert_allclose(found.primal, expected.primal, rtol=1e-10, err_msg=name)


class Sliceable:
    """An array that has a shape, a dtype and slices, and nothing else."""

    def __init__(self, array):
        self._array = np.asarray(array)
        self.shape, self.dtype = self._array.shape, self._array.dtype

    def __getitem__(self, key):
        if not isinstance(key, slice):
            raise TypeError(f"slices only, got {key!r}")
        return self._array[key]


def mapped(path, array):
    """Return a `numpy.memmap` of a new file."""
    array = np.asarray(array)
    stored = np.memmap(path, array.dtype, "w+", shape=array.shape)
    stored[:] = array
    stored.flush()
    return np.memmap(path, array.dtype, "r", shape=array.shape)


def zarr_array(path, array, chunk=None, **options):
    """Return a zarr array in a new folder, with chunks of so many rows."""
    zarr = pytest.importorskip("zarr")
    array = np.asarray(array)
    chunks = (chunk or len(array), *array.shape[1:])
    stored = zarr.create_array(
        str(path), shape=array.shape, chunks=chunks, dtype=array.dtype, **options
    )
    stored[:] = array
    return stored


STORES = {
    "memmap": mapped,
    "zarr": zarr_array,
    "sliceable": lambda path, array: Sliceable(array),
}
