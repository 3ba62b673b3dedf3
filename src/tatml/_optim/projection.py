"""One projection of the stochastic Dykstra algorithm: its scalar equation and its matrix update.

For a pair k, t moves the dual variable s_k and W_m⁻¹ by t A_{m,k}/M. The projection is the root of

    ξ_k(t) = D_k(t) = Σ_i λ_i/(M + t λ_i),   t > −M/λ_max            (docs/theory.md, (R))

with λ the eigenvalues of all Δᵀ W_m Δ, found once: every value of t then costs O(Σ n_m). The naive
projection inverts M matrices for every t that it tries.

A block keeps W_m in the form that is cheapest for its shape. It reads the differences of a chunk
(`load`), measures one pair (`square`, then `eigenvalues`) and moves along it (`shift`).
"""

from __future__ import annotations

from math import inf, sqrt
from operator import mul

import numpy as np
from scipy.linalg import blas, lapack

from .._array import Array, LinAlgError

__all__ = ["InverseBlock", "closed_root", "efficient_block", "monotone_root", "searched_root"]

ROOT_TOLERANCE = 1e-9  # of the last step; Newton squares it
MOST_STEPS = 100  # about ten are needed


def closed_root(xi: float, h: float, distance: float) -> float:
    """The t with ξ + t h = D/(1 + t D), without cancellation; D = 0 gives −ξ/h."""
    linear = xi * distance + h  # theory (Root), q = 1
    root = sqrt((xi * distance - h) * (xi * distance - h) + 4 * h * distance * distance)
    if linear >= 0:
        return 2 * (distance - xi) / (linear + root)
    return (root - linear) / (2 * h * distance)


def lowest_root(xi: float, h: float, d: float) -> float:
    """u = d + root(1) > 0, without cancellation."""
    beta = xi - h * d  # theory (Root)
    root = sqrt(beta * beta + 4 * h)
    return 2 / (beta + root) if beta >= 0 else (root - beta) / (2 * h)


def monotone_root(xi: float, h: float, lam: list[float], M: int) -> tuple[float, int]:
    """The t with ξ + t h = Σ λ/(M + t λ), by Newton from below; and how often it was evaluated.

    p(t) = ξ + t h − Σ λ/(M + t λ) is increasing and concave, so Newton rises to the root from
    root(1) and from its own step at t = 0, whichever is higher. t and u = t + d_min move together:
    the one is exact near 0, the other near the end of the domain. A few numbers: plain Python is
    faster than arrays.
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
        if step <= ROOT_TOLERANCE * u:  # also where rounding makes it negative
            break
    return t, evaluations


def searched_root(xi: float, h: float, blocks: list[InverseBlock], M: int) -> tuple[float, int]:
    """The same t without eigenvalues: a bracketed Newton search, M inverses a trial."""
    distance = sum(block.current for block in blocks) / M
    end = (distance - xi) / h  # D falls with t, so the root lies between 0 and here
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
    """The block for differences of shape (n, width)."""
    if width == 1:
        return RankOneBlock(n)
    return ThinBlock(n, width) if width < n else WideBlock(n, width)


class _FactorBlock:
    """W = L Lᵀ, positive definite by construction; U = LᵀΔ of the pair at hand."""

    def __init__(self, n: int):
        self.L = np.empty((n, n), order="F")

    def reset(self, L: Array) -> None:
        """Start again from W = L Lᵀ, L upper triangular."""
        self.L[...] = L

    def metric(self) -> Array:
        """W."""
        return self.L @ self.L.T

    def load(self, rows: Array) -> None:
        """Take the differences of a chunk, shape (n_part, n', n); they may be overwritten."""
        self.rows, self.flat_rows = rows, rows.reshape(rows.shape[0], -1)


class RankOneBlock(_FactorBlock):
    """Vectors: L ← L(I + z u uᵀ), in O(n²)."""

    def __init__(self, n: int):
        super().__init__(n)
        self.u, self.image, self.lam = np.empty(n), np.empty(n), 0.0

    def square(self, place: int) -> float:
        """⟨A, W⟩ = |u|² of one pair of the chunk."""
        u = self.u = blas.dgemv(1.0, self.L, self.flat_rows[place], 0.0, self.u, 0, 1, 0, 1, 1, 1)
        self.lam = blas.ddot(u, u)
        return self.lam

    def eigenvalues(self) -> list[float]:
        """λ of that pair."""
        return [self.lam]

    def shift(self, delta: float) -> None:
        """W ← (W⁻¹ + δ A)⁻¹ for that pair."""
        remaining = 1 + delta * self.lam
        if not remaining > 0:
            raise LinAlgError("W is no longer positive definite")
        root = sqrt(remaining)  # theory (Step), z λ = 1/root − 1
        self.image = blas.dgemv(1.0, self.L, self.u, 0.0, self.image, 0, 1, 0, 1, 0, 1)
        blas.dger(-delta / (root * (1 + root)), self.image, self.u, 1, 1, self.L, 1, 1, 1)


class ThinBlock(_FactorBlock):
    """1 < n' < n: L ← L(I + U Z Uᵀ), in O(n² n').

    With RᵀR = I + δ UᵀU, Z = −δ R⁻¹(I + Rᵀ)⁻¹ makes (I + U Z Uᵀ)(I + U Z Uᵀ)ᵀ the inverse of
    I + δ U Uᵀ: what the eigenvectors would do, for the price of a Cholesky factor.
    """

    def __init__(self, n: int, width: int):
        super().__init__(n)
        self.U, self.image = np.empty((n, width), order="F"), np.empty((n, width), order="F")
        self.flat = self.U.reshape(-1, order="F")
        self.gram = np.empty((width, width), order="F")
        self.eye = np.eye(width)

    def square(self, place: int) -> float:
        """⟨A, W⟩ = |U|² of one pair of the chunk."""
        blas.dgemm(1.0, self.L, self.rows[place].T, 0.0, self.U, 1, 0, 1)
        return blas.ddot(self.flat, self.flat)

    def eigenvalues(self) -> list[float]:
        """λ of that pair."""
        blas.dsyrk(1.0, self.U, 0.0, self.gram, 1, 0, 1)
        return lapack.dsyevd(self.gram, 0, 0, overwrite_a=1)[0].tolist()

    def shift(self, delta: float) -> None:
        """W ← (W⁻¹ + δ A)⁻¹ for that pair."""
        self.gram[...] = self.eye  # theory (Step)
        blas.dsyrk(delta, self.U, 1.0, self.gram, 1, 0, 1)
        _factor_upper(self.gram)
        blas.dgemm(1.0, self.L, self.U, 0.0, self.image, 0, 0, 1)
        blas.dtrsm(1.0, self.gram, self.image, 1, 0, 0, 0, 1)
        self.gram += self.eye
        blas.dtrsm(1.0, self.gram, self.U, 1, 0, 0, 0, 1)
        blas.dgemm(-delta, self.image, self.U, 1.0, self.L, 0, 1, 1)


class WideBlock(_FactorBlock):
    """n' ≥ n: L upper triangular, L ← L R⁻¹ with RᵀR = I + δ U Uᵀ, in O(n² n')."""

    def __init__(self, n: int, width: int):
        super().__init__(n)
        self.gram = np.empty((n, n), order="F")
        self.eye = np.eye(n)

    def square(self, place: int) -> float:
        """⟨A, W⟩ = |U|² of one pair of the chunk, U in place of Δ."""
        self.U = self.rows[place].T
        blas.dtrmm(1.0, self.L, self.U, 0, 0, 1, 0, 1)
        flat = self.flat_rows[place]
        return blas.ddot(flat, flat)

    def eigenvalues(self) -> list[float]:
        """λ of that pair."""
        blas.dsyrk(1.0, self.U, 0.0, self.gram, 0, 0, 1)
        return lapack.dsyevd(self.gram, 0, 0, overwrite_a=1)[0].tolist()

    def shift(self, delta: float) -> None:
        """W ← (W⁻¹ + δ A)⁻¹ for that pair."""
        self.gram[...] = self.eye  # theory (Step)
        blas.dsyrk(delta, self.U, 1.0, self.gram, 0, 0, 1)
        _factor_upper(self.gram)
        blas.dtrsm(1.0, self.gram, self.L, 1, 0, 0, 0, 1)


class InverseBlock:
    """The naive projection's block: W⁻¹, and an inverse for every value of t."""

    def __init__(self, n: int, width: int):
        self.A, self.product = np.empty((n, n), order="F"), np.empty((n, n), order="F")
        self.current = 0.0

    def reset(self, L: Array) -> None:
        """Start again from W = L Lᵀ."""
        inverse = np.linalg.inv(L)
        self.P, self.W = np.asfortranarray(inverse.T @ inverse), np.asfortranarray(L @ L.T)

    def metric(self) -> Array:
        """W."""
        return np.triu(self.W) + np.triu(self.W, 1).T

    def load(self, rows: Array) -> None:
        """Take the differences of a chunk, shape (n_part, n', n)."""
        self.rows = rows

    def square(self, place: int) -> float:
        """⟨A, W⟩ of one pair of the chunk."""
        difference = self.rows[place].T
        blas.dgemm(1.0, difference, difference, 0.0, self.A, 0, 1, 1)
        self.current = self._trace(self.W)
        return self.current

    def slope(self) -> float:
        """tr of the square of A W, right after `square` or `evaluate`."""
        return float(np.vdot(self.product, self.product.T))

    def evaluate(self, t: float) -> tuple[float, float]:
        """tr and tr of the square of A (W⁻¹ + t A)⁻¹; infinite outside the domain."""
        W = _inverse_upper(self.P + t * self.A)
        return (inf, 0.0) if W is None else (self._trace(W), self.slope())

    def shift(self, delta: float) -> None:
        """W ← (W⁻¹ + δ A)⁻¹ for that pair."""
        self.P += delta * self.A  # theory (Step)
        W = _inverse_upper(self.P.copy(order="F"))
        if W is None:
            raise LinAlgError("W is no longer positive definite")
        self.W = W

    def _trace(self, W: Array) -> float:
        blas.dsymm(1.0, W, self.A, 0.0, self.product, 0, 0, 1)
        return float(self.product.trace())


def _factor_upper(matrix: Array) -> None:
    """R in place of RᵀR."""
    if lapack.dpotrf(matrix, 0, 0, 1)[1] != 0:
        raise LinAlgError("W is no longer positive definite")


def _inverse_upper(matrix: Array) -> Array | None:
    """The upper triangle of the inverse, in place; None unless positive definite."""
    factor, failed = lapack.dpotrf(matrix, 0, 0, 1)
    return None if failed else lapack.dpotri(factor, 0, 1)[0]
