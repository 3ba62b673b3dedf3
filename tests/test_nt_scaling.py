"""Nesterov-Todd scaling, and what spares a GPU its eigenvalues."""

import numpy as np
import pytest
from helpers import random_case, random_factors, random_matrices, random_spd, symmetric
from numpy.testing import assert_allclose

from tatml._optim import nt_scaling as scaling_module
from tatml._optim import point as points_module
from tatml._optim.nt_scaling import Scaling
from tatml._optim.pair_sums import PairSums
from tatml._optim.point import excess


def random_scaling(n, seed=0, Q=None):
    rng = np.random.default_rng([n, seed])
    W, P, gradient = random_spd(rng, n), random_spd(rng, n), symmetric(rng.normal(size=(n, n)))
    L = np.linalg.cholesky(W)
    Q = np.linalg.cholesky(P) if Q is None else Q
    return W, P, gradient, L, Scaling.of(L, Q, gradient)


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("spread", [1.0, 1e-7])
def test_both_become_the_same_diagonal(monkeypatch, gpu, spread):
    """(NT), by singular values and, as on a GPU, by eigenvalues where these are accurate."""
    monkeypatch.setattr(scaling_module, "on_gpu", lambda array: gpu)
    rng = np.random.default_rng(0)
    n = 6
    stretch = np.diag(np.geomspace(1, spread, n))
    W, P = random_spd(rng, n), stretch @ random_spd(rng, n) @ stretch
    gradient = symmetric(rng.normal(size=(n, n)))
    L, Q = np.linalg.cholesky(W), np.linalg.cholesky(P)
    scaling = Scaling.of(L, Q, gradient)
    T, lam = scaling.T, np.diag(scaling.lam)
    inverse = np.linalg.inv(T)
    scale = np.sqrt(np.outer(scaling.lam, scaling.lam))
    assert_allclose(inverse @ W @ inverse.T / scale, lam / scale, atol=1e-7)
    assert_allclose(T.T @ P @ T / scale, lam / scale, atol=1e-7)
    assert_allclose(T, L @ scaling.right, rtol=1e-12)
    assert_allclose(scaling.T_inverse_transposed @ T.T, np.eye(n), atol=1e-7)
    right = scaling.right
    assert_allclose(scaling.target, right.T @ (gradient + np.eye(n)) @ right, rtol=1e-9)


@pytest.mark.parametrize("tau", [1.0, 7.0])
def test_the_centre_needs_no_decomposition(tau):
    """P = τ W⁻¹: the scaling of the number τ is one of those of the matrix."""
    W, _, gradient, L, central = random_scaling(5, Q=tau)
    P, T = tau * np.linalg.inv(W), central.T
    inverse = np.linalg.inv(T)
    assert_allclose(central.lam, np.sqrt(tau), rtol=1e-12)
    assert_allclose(inverse @ W @ inverse.T, np.diag(central.lam), atol=1e-12)
    assert_allclose(T.T @ P @ T, np.diag(central.lam), atol=1e-12)
    assert_allclose(central.T_inverse_transposed @ T.T, np.eye(5), atol=1e-12)
    assert_allclose(T, L @ central.right, rtol=1e-12)
    right = central.right
    assert_allclose(central.target, right.T @ (gradient + np.eye(5)) @ right, rtol=1e-12)


@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("share", [0.98, 1.0])
def test_a_step_is_as_long_by_cholesky_as_by_eigenvalues(monkeypatch, size, share):
    *_, scaling = random_scaling(6)
    for seed in range(10):
        V = size * symmetric(np.random.default_rng(seed).normal(size=(6, 6)))
        monkeypatch.setattr(scaling_module, "LARGE", 100)
        expected = scaling.length(V, share)
        monkeypatch.setattr(scaling_module, "LARGE", 1)
        assert_allclose(scaling.length(V, share), expected, rtol=1e-12)
        lowest = np.linalg.eigvalsh(np.diag(scaling.lam) + expected / share * V)[0]
        assert lowest > -1e-9
        assert expected == 1 or lowest < 1e-9


@pytest.mark.parametrize("size", [1e-3, 0.3, 5.0])
def test_the_excess_is_that_of_the_eigenvalues(size):
    """(GapN): tr G − logdet(I + G) = Σ e − log(1 + e), ∞ outside of the domain."""
    for seed in range(10):
        G = size * symmetric(np.random.default_rng(seed).normal(size=(5, 5)))
        e = np.linalg.eigvalsh(G)
        expected = np.sum(e - np.log1p(e)) if e[0] > -1 else np.inf
        assert_allclose(excess(G), expected, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("size", [1e-9, 1e-4, 0.3])
def test_the_gap_is_the_same_by_cholesky_and_by_eigenvalues(monkeypatch, size):
    """Where the gap is so small that digits would be lost, the eigenvalues are asked again."""
    case = random_case([(5, 1), (3, 2)], n_pairs=40, C=2.0)
    result = case.learn(tol=1e-13)
    moved = [W * (1 + size) for W in result.W]
    expected = case.at(moved, result.b0).gap
    monkeypatch.setattr(points_module, "LARGE", 1)
    assert_allclose(case.at(moved, result.b0).gap, expected, rtol=1e-6)
    assert expected > 0


@pytest.mark.parametrize("chunk", [1, 2**20])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_product_is_one_pass_and_held_differences_change_nothing(monkeypatch, chunk, lazy):
    monkeypatch.setattr("tatml._optim.pair_sums.CHUNK_BYTES", chunk)
    monkeypatch.setattr("tatml._optim.pair_sums.EAGER_BYTES", 0 if lazy else 2**28)
    case = random_case([(3, 2), (2, 4)], n_pairs=50)
    sums = case.problem().pairs.sums.transformed(random_factors(case))
    rng, V = np.random.default_rng(0), random_matrices(case)
    weights, shift = rng.uniform(size=50), rng.normal(size=50)
    expected = weights * (sums.quadratic(V) + shift)
    monkeypatch.setattr("tatml._optim.pair_sums.GPU_CHUNK_BYTES", chunk)
    monkeypatch.setattr("tatml._optim.pair_sums.on_gpu", lambda array: True)
    monkeypatch.setattr("tatml._optim.pair_sums.free_bytes", lambda array: 2**30)
    held = sums.held()
    assert held is not sums
    assert held.first is None
    for each in (sums, held):
        q, S = each.product(V, weights, shift)
        assert_allclose(q, expected, rtol=1e-12)
        for got, matrix in zip(S, sums.scatter(expected), strict=True):
            assert_allclose(got, matrix, rtol=1e-10, atol=1e-12)
    monkeypatch.setattr("tatml._optim.pair_sums.free_bytes", lambda array: 1)
    assert sums.held() is sums
    assert isinstance(held, PairSums)
