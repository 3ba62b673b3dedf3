"""The Nesterov-Todd scaling, by singular values and, on a GPU, without them."""

import numpy as np
import pytest
from helpers import random_spd, symmetric
from numpy.testing import assert_allclose

from tatml._optim import steps
from tatml._optim.steps import Scaling


def assert_is_scaling(scaling, L, P, gradient, atol):
    """Check (NT): T⁻¹ W T⁻ᵀ = Tᵀ P T = diag(λ), relative to λ, and the other fields."""
    T, lam, right = scaling.T, np.diag(scaling.lam), scaling.right
    n, inverse = len(L), np.linalg.inv(T)
    scale = np.sqrt(np.outer(scaling.lam, scaling.lam))
    assert_allclose(inverse @ L @ L.T @ inverse.T / scale, lam / scale, atol=atol)
    assert_allclose(T.T @ P @ T / scale, lam / scale, atol=atol)
    assert_allclose(T, L @ right, rtol=1e-12)
    assert_allclose(scaling.T_inverse_transposed @ T.T, np.eye(n), atol=atol)
    assert_allclose(scaling.target, right.T @ (gradient + np.eye(n)) @ right, rtol=1e-9)


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("spread", [1.0, 1e-7])
def test_both_become_the_same_diagonal(monkeypatch, gpu, spread):
    """By singular values and, as on a GPU, by eigenvalues where these are accurate."""
    monkeypatch.setattr(steps, "on_gpu", lambda array: gpu)
    rng, n = np.random.default_rng(0), 6
    stretch = np.diag(np.geomspace(1, spread, n))
    W, P = random_spd(rng, n), stretch @ random_spd(rng, n) @ stretch
    gradient = symmetric(rng.normal(size=(n, n)))
    L, Q = np.linalg.cholesky(W), np.linalg.cholesky(P)
    assert_is_scaling(Scaling.of(L, Q, gradient), L, P, gradient, atol=1e-7)


@pytest.mark.parametrize("spread", [1.0, 1e-7])
def test_a_gpu_uses_singular_values_where_squares_lose_digits(monkeypatch, spread):
    calls, svd = [], np.linalg.svd
    monkeypatch.setattr(steps, "on_gpu", lambda array: True)
    monkeypatch.setattr(np.linalg, "svd", lambda matrix: calls.append(matrix) or svd(matrix))
    L = np.eye(4)
    Scaling.of(L, np.diag(np.geomspace(1, spread, 4)), 0 * L)
    assert len(calls) == (spread < steps.SPREAD)


@pytest.mark.parametrize("tau", [1.0, 7.0])
def test_the_centre_needs_no_decomposition(tau):
    """P = τ W⁻¹: the scaling of the number τ is one of those of the matrix."""
    rng = np.random.default_rng(0)
    W, gradient = random_spd(rng, 5), symmetric(rng.normal(size=(5, 5)))
    L = np.linalg.cholesky(W)
    central = Scaling.of(L, tau, gradient)
    assert_allclose(central.lam, np.sqrt(tau), rtol=1e-12)
    assert_is_scaling(central, L, tau * np.linalg.inv(W), gradient, atol=1e-12)


@pytest.mark.parametrize("share", [0.98, 1.0])
def test_a_step_is_as_long_by_cholesky_as_by_eigenvalues(share):
    rng = np.random.default_rng(0)
    L, Q = (np.linalg.cholesky(random_spd(rng, 6)) for _ in range(2))
    scaling, whole = Scaling.of(L, Q, np.zeros((6, 6))), set()
    for seed in range(5):
        for size in (0.01, 1.0, 30.0):
            V = size * symmetric(np.random.default_rng(seed).normal(size=(6, 6)))
            expected = scaling.length([V], share, large=100)
            assert_allclose(scaling.length([V], share, large=1), expected, rtol=1e-12)
            other = scaling.length([-V], share)
            for large in (1, 100):
                assert scaling.length([V, -V], share, large) == min(expected, other)
            lowest = np.linalg.eigvalsh(np.diag(scaling.lam) + expected / share * V)[0]
            assert lowest > -1e-9
            assert expected == 1 or lowest < 1e-9
            whole.add(expected == 1)
    assert whole == {False, True}


def test_large_matrices_need_no_eigenvalues_for_a_whole_step(monkeypatch):
    calls, eigvalsh = [], np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda V: calls.append(V) or eigvalsh(V))
    for n, expected in ((steps.LARGE - 1, 1), (steps.LARGE, 0)):
        calls.clear()
        scaling = Scaling.of(np.eye(n), 1.0, np.zeros((n, n)))
        assert scaling.length([0.1 * np.eye(n)], 0.98) == 1
        assert len(calls) == expected


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("central", [False, True])
def test_blocks_of_one_size_are_scaled_together(monkeypatch, gpu, central):
    monkeypatch.setattr(steps, "on_gpu", lambda array: gpu)
    rng, n = np.random.default_rng(1), 4
    L, Q, gradient = (np.linalg.cholesky([random_spd(rng, n) for _ in range(3)]) for _ in range(3))
    gradient = gradient @ gradient.mT - np.eye(n)
    together = Scaling.of(L, 2.5 if central else Q, gradient)
    lengths = []
    for m in range(3):
        alone = Scaling.of(L[m], 2.5 if central else Q[m], gradient[m])
        for name, value in vars(alone).items():
            assert_allclose(getattr(together, name)[m], value, rtol=1e-12, atol=1e-13)
        lengths.append(alone.length([gradient[m], -gradient[m]], 0.9))
    for large in (1, 100):
        assert_allclose(together.length([gradient, -gradient], 0.9, large), min(lengths))
    assert min(lengths) < 1
