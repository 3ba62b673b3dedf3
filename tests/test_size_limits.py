"""Limits on what users give: the last value that is accepted, and the first that is refused."""

from math import inf, nextafter
from types import SimpleNamespace

import numpy as np
import pytest

from tatml import Blocks
from tatml._data.blocks import check_magnitude, check_spread
from tatml._data.pairs import as_sample_weight
from tatml._data.sampling import _automatic
from tatml._sharding.samples import (
    memory_for_shards,
    pairs_per_chunk,
    pairs_per_sample,
    samples_per_tile,
)
from tatml._verification.targets import check_target
from tatml.datasets._files import _is_of_type, _read_bytes
from tatml.datasets._synthetic import check_strengths, make_textures
from tatml.features import CovarianceDescriptor
from tatml.features._images import _gabor_bank

# A call with one number; numbers that are accepted; numbers that are refused.
LIMITS = {
    "entries": (
        lambda x: check_magnitude(Blocks([[x], [0.0]]), "x"),
        (1e60, -1e60, 0.0),
        (nextafter(1e60, inf), -1.1e60),
    ),
    "spread": (
        lambda x: check_spread(Blocks([[x], [0.0]]), "x"),
        (1e-60, 0.0, 1.0),
        (nextafter(1e-60, 0), 1e-300),
    ),
    "largest weight": (
        lambda x: as_sample_weight([x, 0.0], 2, "x"),
        (1e100, 1e-100, 1.0),
        (nextafter(1e100, inf), nextafter(1e-100, 0), 0.0),
    ),
    "beta": (
        lambda x: check_target("f_beta", beta=x),
        (1e100, -1e100, 0.0),
        (nextafter(1e100, inf), -1.1e100, inf),
    ),
    "strengths": (lambda x: check_strengths(noise=x), (0, 5), (-1e-9, nextafter(5, 6))),
    "least": (lambda x: make_textures(2, 1, x), (8, 9), (7, 0)),
    "Gabor frequencies": (
        lambda x: _gabor_bank(f"gabor:{x}:2"),
        (0.01, 0.5, 0.25),
        (0.0099, 0.5001, "x", "0.2:1"),
    ),
    "Gabor orientations": (lambda x: _gabor_bank(f"gabor:0.25:{x}"), (1, 3), (0, -1, 1.5, "")),
    "sides of images": (
        lambda x: CovarianceDescriptor(("intensity",), scales=(1.0,)).transform(
            np.eye(9)[None, :x]
        ),
        (3, 4),
        (2, 1),
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name):
    call, accepted, refused = LIMITS[name]
    for number in accepted:
        call(number)
    for number in refused:
        with pytest.raises((ValueError, TypeError), match="expected"):
            call(number)


def test_gabor_waves_are_spread_over_half_a_turn():
    assert len(_gabor_bank("gabor:0.25:3")) == 3
    assert len(set(_gabor_bank("gabor:0.25:3"))) == 3


def test_items_of_an_archive_have_256_bytes_at_most():
    assert _is_of_type(np.dtype("<U64"), "text")  # 4 bytes per letter
    assert not _is_of_type(np.dtype("<U65"), "text")
    assert _is_of_type(np.dtype("uint8"), "integer")
    assert not _is_of_type(np.dtype("float64"), "integer")
    assert _is_of_type(np.dtype("uint8"), "uint8")
    assert not _is_of_type(np.dtype("int8"), "uint8")


def test_files_have_16_mebibytes_at_most(tmp_path):
    path = tmp_path / "large"
    for size in (2**24, 2**24 + 1):
        with open(path, "wb") as file:
            file.truncate(size)
        if size == 2**24:
            assert len(_read_bytes(path)) == size
        else:
            with pytest.raises(ValueError, match="expected at most 16777216 bytes"):
                _read_bytes(path)


def test_default_numbers_of_pairs():
    """500 per class; 5,000 in total for few classes, 50,000 for many; 10 per class at least."""
    known = {1: 5000, 2: 2500, 3: 1667, 10: 500, 100: 500, 101: 495, 5000: 10, 10**6: 10}
    assert {n: _automatic(n) for n in known} == known


# Memory, in bytes

MIB = 2**20


def test_memory_for_shards_is_what_the_workspace_leaves():
    assert memory_for_shards(None) == 240 * MIB  # of 256 MiB
    assert memory_for_shards(100 * MIB) == 84 * MIB
    assert memory_for_shards(MIB) == -15 * MIB


def test_pairs_per_chunk():
    """9 copies of a difference, 300 bytes per pair; samples in memory need two copies or three."""
    stored = SimpleNamespace(in_memory=False, numbers=10, extra_workspace=0)
    assert pairs_per_chunk(stored, 256 * (720 + 300)) == 256
    assert pairs_per_chunk(stored, 1000 * (720 + 300) + 1019) == 1000
    with pytest.raises(ValueError, match="at least 17,038,336 bytes, got 17,038,335"):
        pairs_per_chunk(stored, 256 * (720 + 300) - 1)
    for counted, copies in ((False, 2), (True, 3)):
        held = SimpleNamespace(
            in_memory=True,
            counted=counted,
            n_bytes=5000,
            n_samples=50,
            numbers=10,
            extra_workspace=0,
        )
        assert pairs_per_chunk(held, 300 * 51 + copies * 5000) == 51
        few = 300 * 51 + copies * 5000 - 1  # no more pairs than samples: differences
        with pytest.raises(ValueError, match="max_memory: expected at least"):
            pairs_per_chunk(held, few)


def test_what_is_needed_for_something_else_counts_in_the_error():
    stored = SimpleNamespace(in_memory=False, numbers=10, extra_workspace=5000)
    assert pairs_per_chunk(stored, 256 * (720 + 300)) == 256
    with pytest.raises(ValueError, match="at least 17,043,336 bytes, got 17,043,335"):
        pairs_per_chunk(stored, 256 * (720 + 300) - 1)
    assert samples_per_tile(1, 400 * 100**2, extra=5000) == 100
    with pytest.raises(ValueError, match="at least 16,783,816 bytes, got 16,783,815"):
        samples_per_tile(1, 1599, extra=5000)


def test_pairs_per_sample_and_samples_per_tile():
    assert pairs_per_sample(10, 100 * (480 + 300)) == 100
    assert pairs_per_sample(10, 100 * (480 + 300) - 1) == 99
    assert pairs_per_sample(10, 1) == 1
    assert samples_per_tile(1, 400 * 100**2) == 100
    assert samples_per_tile(1, 400 * 100**2 - 1) == 99
    assert samples_per_tile(1000, 400 * 100**2) == 31  # 16 copies of 8,000 bytes each
    assert samples_per_tile(1, 10**12) == 512
    assert samples_per_tile(1, 1600) == 2
    assert samples_per_tile(1000, 2 * 128_000) == 2
    for numbers, memory in ((1, 1599), (1000, 2 * 128_000 - 1)):
        with pytest.raises(ValueError, match="max_memory: expected at least"):
            samples_per_tile(numbers, memory)
