"""Symmetric matrices as vectors: inner products, congruences, and the cache of their layouts."""

import numpy as np
import pytest
from helpers import symmetric
from numpy.testing import assert_allclose

from tatml import _svec
from tatml._svec import svec, svec_congruence, svec_outer, svec_size, unsvec


@pytest.mark.parametrize("n", [1, 2, 5])
def test_svec_keeps_inner_products_and_can_be_inverted(n):
    rng = np.random.default_rng(n)
    A, B = (symmetric(rng.normal(size=(n, n))) for _ in range(2))
    assert svec(A).shape == (svec_size(n),) == (n * (n + 1) // 2,)
    assert_allclose(svec(A) @ svec(B), np.sum(A * B), rtol=1e-13)
    assert_allclose(unsvec(svec(A), n), A, rtol=1e-15)
    stacked = np.stack([A, B])
    assert_allclose(unsvec(svec(stacked), n), stacked, rtol=1e-15)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_congruence_of_svec_is_that_of_the_matrix(n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        G, V = rng.normal(size=(n, n)), symmetric(rng.normal(size=(n, n)))
        T = svec_congruence(G)
        assert T.shape == (svec_size(n), svec_size(n))
        assert_allclose(T @ svec(V), svec(G.T @ V @ G), rtol=1e-12, atol=1e-12)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    T = svec_congruence(Q)
    assert_allclose(T @ T.T, np.eye(svec_size(n)), atol=1e-13)


@pytest.mark.parametrize("width", [1, 3])
def test_svec_of_products_of_a_block(width):
    block = np.random.default_rng(0).normal(size=(6, width, 4))
    assert_allclose(svec_outer(block), svec(np.swapaxes(block, 1, 2) @ block), rtol=1e-12)


def test_the_cache_of_layouts_is_bounded():
    """Layouts are made once, and never more than a fixed number of them is kept."""
    _svec._LAYOUTS.clear()
    size, most = 0, 0
    for n in range(1, 2 * _svec.MOST_LAYOUTS):
        svec(np.eye(n))
        size, before = len(_svec._LAYOUTS), size
        assert size == (1 if before == _svec.MOST_LAYOUTS else before + 1)
        most = max(most, size)
    assert most == _svec.MOST_LAYOUTS == 64
    layouts = list(_svec._LAYOUTS.values())
    svec(np.eye(n))
    assert len(_svec._LAYOUTS) == size
    assert all(a is b for a, b in zip(_svec._LAYOUTS.values(), layouts, strict=True))
