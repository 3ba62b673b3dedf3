"""One projection of the stochastic Dykstra algorithm: its scalar equation and matrix update.

For a pair k, t moves the dual variable s_k and W_m⁻¹ by t A_{m,k}/M. The projection is the root of

    ξ_k(t) = D_k(t) = Σ_i λ_i/(M + t λ_i),   t > −M/λ_max            (docs/theory.md, (R))

with λ the eigenvalues of all Δᵀ W_m Δ, computed once: every value of t then costs O(Σ n_m). The
naive projection inverts M matrices for every t that it tries.

A block keeps W_m in the form that is cheapest for its shape. `load` takes the differences of a
chunk, `square` and then `eigenvalues` evaluate one pair, and `shift` updates W_m along it.
"""

from __future__ import annotations

from math import inf, sqrt
from operator import mul

import numpy as np
from scipy.linalg import blas, lapack

from .._array import Array, LinAlgError

ROOT_TOLERANCE = 1e-9  # relative size of the last Newton step; the error is about its square
MOST_STEPS = 100  # limit on the steps of a root search, which needs about ten


def closed_root(xi: float, h: float, distance: float) -> float:
    """Return the t with ξ + t h = D/(1 + t D), without cancellation; D = 0 gives −ξ/h."""
    linear = xi * distance + h  # theory (Root), q = 1
    root = sqrt((xi * distance - h) * (xi * distance - h) + 4 * h * distance * distance)
    if linear >= 0:
        return 2 * (distance - xi) / (linear + root)
    return (root - linear) / (2 * h * distance)


def lowest_root(xi: float, h: float, d: float) -> float:
    """Return u = d + root(1) > 0, without cancellation."""
    beta = xi - h * d  # theory (Root)
    root = sqrt(beta * beta + 4 * h)
    return 2 / (beta + root) if beta >= 0 else (root - beta) / (2 * h)


def monotone_root(xi: float, h: float, lam: list[float], M: int) -> tuple[float, int]:
    """Return the t with ξ + t h = Σ λ/(M + t λ), by Newton from below, and its evaluations.

    p(t) = ξ + t h − Σ λ/(M + t λ) is increasing and concave, so that Newton's method increases to
    the root from the larger of two lower bounds: root(1), and its step from t = 0. Both t and
    u = t + d_min are updated: t is accurate near 0, u near the end of the domain. For so few
    numbers plain Python is faster than arrays.
    """
    highest = max(lam)
    if not highest > 0:
        return -xi / h, 0
    d, distance = M / highest, sum(lam) / M
    from_zero = (distance - xi) / (h + sum([value * value for value in lam]) / M**2)
    t, u = closed_root(xi, h, 1 / d), lowest_root(xi, h, d)
    if from_zero > t:
        t, u = from_zero, d + from_zero
    # M + t λ = (M − d λ) + u λ, a sum of non-negative numbers
    terms = [(value, M - d * value) for value in lam]
    for evaluations in range(1, MOST_STEPS):  # noqa: B007
        inverse = [value / (rest + u * value) for value, rest in terms]  # theory (R): 1/(d_i + t)
        value = xi - distance + t * (h + sum(map(mul, lam, inverse)) / M)
        step = -value / (h + sum(map(mul, inverse, inverse)))
        t, u = t + step, u + step
        if step <= ROOT_TOLERANCE * u:  # or if rounding makes it negative
            break
    return t, evaluations


def searched_root(xi: float, h: float, blocks: list[InverseBlock], M: int) -> tuple[float, int]:
    """Return the root of `monotone_root` without eigenvalues: M inverses per trial."""
    distance = sum(block.current for block in blocks) / M
    end = (distance - xi) / h  # D decreases in t, so that the root is between 0 and this
    low, high = min(0.0, end), max(0.0, end)
    slope = h + sum(block.slope() for block in blocks) / M**2
    t = (distance - xi) / slope
    if not low < t < high:
        t = (low + high) / 2
    for evaluations in range(1, MOST_STEPS):  # noqa: B007
        seen = [block.evaluate(t / M) for block in blocks]
        value = xi + t * h - sum(trace for trace, _ in seen) / M  # theory (R)
        low, high = (t, high) if value < 0 else (low, t)
        following = t - value / (h + sum(square for _, square in seen) / M**2)
        if not low <= following <= high:
            following = (low + high) / 2
        t, step = following, following - t
        if abs(step) <= ROOT_TOLERANCE * abs(t):
            break
    return t, evaluations


def efficient_block(n: int, width: int) -> RankOneBlock | ThinBlock | WideBlock:
    """Return the block for differences of shape (n, width)."""
    if width == 1:
        return RankOneBlock(n)
    return ThinBlock(n, width) if width < n else WideBlock(n, width)


class _FactorBlock:
    """W = L Lᵀ, positive definite by construction, and U = LᵀΔ of the current pair."""

    def __init__(self, n: int):
        self.L = np.empty((n, n), order="F")

    def reset(self, L: Array) -> None:
        """Set W = L Lᵀ, L upper triangular."""
        self.L[...] = L

    def metric(self) -> Array:
        """Return W."""
        return self.L @ self.L.T

    def load(self, rows: Array) -> None:
        """Take the differences of a chunk, shape (n_part, n', n), which may be overwritten."""
        self.rows, self.flat_rows = rows, rows.reshape(rows.shape[0], -1)


class RankOneBlock(_FactorBlock):
    """Block of vectors: L ← L(I + z u uᵀ), in O(n²)."""

    def __init__(self, n: int):
        super().__init__(n)
        self.u, self.image, self.lam = np.empty(n), np.empty(n), 0.0

    def square(self, place: int) -> float:
        """Compute ⟨A, W⟩ = |u|² of one pair of the chunk, the current pair from now on."""
        u = self.u = blas.dgemv(1.0, self.L, self.flat_rows[place], 0.0, self.u, 0, 1, 0, 1, 1, 1)
        self.lam = blas.ddot(u, u)
        return self.lam

    def eigenvalues(self) -> list[float]:
        """Return λ of the current pair."""
        return [self.lam]

    def shift(self, delta: float) -> None:
        """Update W ← (W⁻¹ + δ A)⁻¹ for the current pair."""
        remaining = 1 + delta * self.lam
        if not remaining > 0:
            raise LinAlgError("W is no longer positive definite")
        root = sqrt(remaining)  # theory (Step), z λ = 1/root − 1
        self.image = blas.dgemv(1.0, self.L, self.u, 0.0, self.image, 0, 1, 0, 1, 0, 1)
        blas.dger(-delta / (root * (1 + root)), self.image, self.u, 1, 1, self.L, 1, 1, 1)


class ThinBlock(_FactorBlock):
    """Block with 1 < n' < n: L ← L(I + U Z Uᵀ), in O(n² n').

    With RᵀR = I + δ UᵀU, Z = −δ R⁻¹(I + Rᵀ)⁻¹ makes (I + U Z Uᵀ)(I + U Z Uᵀ)ᵀ the inverse of
    I + δ U Uᵀ. It needs a Cholesky factorisation, but no eigenvectors.
    """

    def __init__(self, n: int, width: int):
        super().__init__(n)
        self.U, self.image = np.empty((n, width), order="F"), np.empty((n, width), order="F")
        self.flat = self.U.reshape(-1, order="F")
        self.gram = np.empty((width, width), order="F")
        self.eye = np.eye(width)

    def square(self, place: int) -> float:
        """Compute ⟨A, W⟩ = |U|² of one pair of the chunk, the current pair from now on."""
        blas.dgemm(1.0, self.L, self.rows[place].T, 0.0, self.U, 1, 0, 1)
        return blas.ddot(self.flat, self.flat)

    def eigenvalues(self) -> list[float]:
        """Return λ of the current pair."""
        blas.dsyrk(1.0, self.U, 0.0, self.gram, 1, 0, 1)
        return lapack.dsyevd(self.gram, 0, 0, overwrite_a=1)[0].tolist()

    def shift(self, delta: float) -> None:
        """Update W ← (W⁻¹ + δ A)⁻¹ for the current pair."""
        self.gram[...] = self.eye  # theory (Step)
        blas.dsyrk(delta, self.U, 1.0, self.gram, 1, 0, 1)
        _factor_upper(self.gram)
        blas.dgemm(1.0, self.L, self.U, 0.0, self.image, 0, 0, 1)
        blas.dtrsm(1.0, self.gram, self.image, 1, 0, 0, 0, 1)
        self.gram += self.eye
        blas.dtrsm(1.0, self.gram, self.U, 1, 0, 0, 0, 1)
        blas.dgemm(-delta, self.image, self.U, 1.0, self.L, 0, 1, 1)


class WideBlock(_FactorBlock):
    """Block with n' ≥ n: L upper triangular, L ← L R⁻¹, RᵀR = I + δ U Uᵀ, in O(n² n')."""

    def __init__(self, n: int, width: int):
        super().__init__(n)
        self.gram = np.empty((n, n), order="F")
        self.eye = np.eye(n)

    def square(self, place: int) -> float:
        """Compute ⟨A, W⟩ = |U|² of one pair of the chunk; U overwrites Δ."""
        self.U = self.rows[place].T
        blas.dtrmm(1.0, self.L, self.U, 0, 0, 1, 0, 1)
        flat = self.flat_rows[place]
        return blas.ddot(flat, flat)

    def eigenvalues(self) -> list[float]:
        """Return λ of the current pair."""
        blas.dsyrk(1.0, self.U, 0.0, self.gram, 0, 0, 1)
        return lapack.dsyevd(self.gram, 0, 0, overwrite_a=1)[0].tolist()

    def shift(self, delta: float) -> None:
        """Update W ← (W⁻¹ + δ A)⁻¹ for the current pair."""
        self.gram[...] = self.eye  # theory (Step)
        blas.dsyrk(delta, self.U, 1.0, self.gram, 0, 0, 1)
        _factor_upper(self.gram)
        blas.dtrsm(1.0, self.gram, self.L, 1, 0, 0, 0, 1)


class InverseBlock:
    """Block of the naive projection: it keeps W⁻¹, and inverts for every value of t."""

    def __init__(self, n: int, width: int):
        self.A, self.product = np.empty((n, n), order="F"), np.empty((n, n), order="F")
        self.current = 0.0

    def reset(self, L: Array) -> None:
        """Set W = L Lᵀ."""
        inverse = np.linalg.inv(L)
        self.P, self.W = np.asfortranarray(inverse.T @ inverse), np.asfortranarray(L @ L.T)

    def metric(self) -> Array:
        """Return W."""
        return np.triu(self.W) + np.triu(self.W, 1).T

    def load(self, rows: Array) -> None:
        """Take the differences of a chunk, shape (n_part, n', n)."""
        self.rows = rows

    def square(self, place: int) -> float:
        """Compute ⟨A, W⟩ of one pair of the chunk, the current pair from now on."""
        difference = self.rows[place].T
        blas.dgemm(1.0, difference, difference, 0.0, self.A, 0, 1, 1)
        self.current = self._trace(self.W)
        return self.current

    def slope(self) -> float:
        """Compute tr (A W)², right after `square` or `evaluate`."""
        return float(np.vdot(self.product, self.product.T))

    def evaluate(self, t: float) -> tuple[float, float]:
        """Compute tr V and tr V² of V = A (W⁻¹ + t A)⁻¹; infinite outside the domain."""
        W = _inverse_upper(self.P + t * self.A)
        return (inf, 0.0) if W is None else (self._trace(W), self.slope())

    def shift(self, delta: float) -> None:
        """Update W ← (W⁻¹ + δ A)⁻¹ for the current pair."""
        self.P += delta * self.A  # theory (Step)
        W = _inverse_upper(self.P.copy(order="F"))
        if W is None:
            raise LinAlgError("W is no longer positive definite")
        self.W = W

    def _trace(self, W: Array) -> float:
        blas.dsymm(1.0, W, self.A, 0.0, self.product, 0, 0, 1)
        return float(self.product.trace())


def _factor_upper(matrix: Array) -> None:
    """Overwrite RᵀR by R."""
    if lapack.dpotrf(matrix, 0, 0, 1)[1] != 0:
        raise LinAlgError("W is no longer positive definite")


def _inverse_upper(matrix: Array) -> Array | None:
    """Return the upper triangle of the inverse, in place; None unless positive definite."""
    factor, failed = lapack.dpotrf(matrix, 0, 0, 1)
    return None if failed else lapack.dpotri(factor, 0, 1)[0]
