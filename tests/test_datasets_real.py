"""The real datasets, if the environment variable TATML_DATA is set to their folder."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GroupKFold

from tatml.datasets import load_brodatz, load_eth80, load_virus

REAL = os.environ.get("TATML_DATA")
needs_real = pytest.mark.skipif(not REAL, reason="TATML_DATA is not set")
SAMPLES = Path(REAL or ".") / "as-distributed"
needs_samples = pytest.mark.skipif(
    not (REAL and SAMPLES.is_dir()), reason="no as-distributed in TATML_DATA"
)


@needs_real
def test_real_virus():
    data = load_virus()
    assert data.images.shape == (1500, 41, 41)
    assert_array_equal(np.bincount(data.target), np.full(15, 100))
    assert data.duplicates.tolist() == [[117, 123], [157, 158], [162, 164], [598, 898]]
    if SAMPLES.is_dir():
        some = load_virus(SAMPLES, allow_incomplete=True)
        rows = some.target * 100 + (some.groups - 1) * 20 + some.numbers - 1
        assert len(rows)
        assert_array_equal(some.images, data.images[rows])


@needs_real
def test_real_brodatz():
    data = load_brodatz()
    assert data.images.shape == (112 * 64, 80, 80)
    if SAMPLES.is_dir():
        some = load_brodatz(SAMPLES, allow_incomplete=True)
        assert len(some.images)
        assert_array_equal(some.images, data.images[some.target * 64 + some.groups])


@pytest.fixture(scope="module")
def real_eth80():
    return load_eth80(masks=True)  # takes seconds


@needs_real
def test_real_eth80_splits_by_object(real_eth80):
    data = real_eth80
    assert data.images.shape == (3280, 128, 128, 3)
    assert_array_equal(np.bincount(data.groups), np.full(80, 41))
    for train, test in GroupKFold(5).split(data.images, groups=data.groups):
        assert not set(data.groups[train]) & set(data.groups[test])


@needs_samples
def test_real_eth80_crops_equal_the_compact_images(real_eth80):
    data, some = real_eth80, load_eth80(SAMPLES, masks=True, allow_incomplete=True)
    row_of = {
        key: row for row, key in enumerate(map(tuple, np.c_[data.groups, data.angles].tolist()))
    }
    rows = [row_of[key] for key in map(tuple, np.c_[some.groups, some.angles].tolist())]
    assert rows
    for name in ("images", "masks", "crop_box", "object_numbers"):
        assert_array_equal(some[name], data[name][rows])
