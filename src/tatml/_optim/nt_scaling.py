"""The scaling of Nesterov and Todd: coordinates in which W and P are the same diagonal matrix.

Decompositions into eigenvalues are the slowest thing a GPU does with matrices of some hundred rows.
They are avoided where a Cholesky factorisation or nothing at all will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

from .._array import Array, eye, linalg_errors, namespace, on_gpu

__all__ = ["Scaling"]

LARGE = 64  # rows: from here on a Cholesky factorisation is tried before eigenvalues are found
SPREAD = 1e-5  # of λ: a smaller ratio than this would be lost in the squares


@dataclass(frozen=True)
class Scaling:
    """Nesterov-Todd scaling of one block: T⁻¹ W T⁻ᵀ = Tᵀ P T = diag(λ), with T = L right."""

    right: Array
    lam: Array
    T: Array
    T_inverse_transposed: Array
    target: Array
    """Tᵀ(I + S)T: what P should become."""

    @classmethod
    def of(cls, L: Array, Q: Array | float, gradient: Array) -> Scaling:
        """The scaling of W = L Lᵀ and P = Q Qᵀ, or of P = τ W⁻¹ where Q is the number τ."""
        xp = namespace(L)  # theory (NT)
        if isinstance(Q, float):
            one = eye(L.shape[0], like=L)
            lam, right = sqrt(Q) * xp.ones_like(L[0, :]), one / Q**0.25
            inverse = xp.linalg.inv(L).T * Q**0.25
            return cls(right, lam, L / Q**0.25, inverse, (gradient + one) / sqrt(Q))
        QU, lam, V = _decomposed(L, Q)
        right = V / xp.sqrt(lam)
        target = right.T @ gradient @ right + right.T @ right
        return cls(right, lam, L @ right, QU / xp.sqrt(lam), target)

    def diag(self, values: Array) -> Array:
        """The diagonal matrix of some values."""
        return eye(values.shape[0], like=values) * values

    def length(self, V: Array, share: float) -> float:
        """The largest a ≤ 1 with diag(λ) + (a/share) V ⪰ 0."""
        if V.shape[0] >= LARGE and self._inside(V / share):
            return 1.0
        return min(1.0, share * self.to_boundary(V))

    def _inside(self, V: Array) -> bool:
        """Whether diag(λ) + V ≻ 0."""
        xp = namespace(V)
        try:
            factor = xp.linalg.cholesky(self.diag(self.lam) + V)
        except linalg_errors():
            return False
        return bool(xp.all(xp.isfinite(xp.linalg.diagonal(factor))))

    def to_boundary(self, V: Array) -> float:
        """The largest a with diag(λ) + a V ⪰ 0."""
        xp = namespace(V)
        root = xp.sqrt(self.lam)
        lowest = float(xp.min(xp.linalg.eigvalsh(V / root / root[:, None])))
        return inf if lowest >= 0 else -1 / lowest


def _decomposed(L: Array, Q: Array) -> tuple[Array, Array, Array]:
    """Q U, λ and V of the singular value decomposition QᵀL = U diag(λ) Vᵀ."""
    xp, product = namespace(L), Q.T @ L
    if on_gpu(L):  # an order of magnitude faster there, and accurate where λ spreads little
        squares, V = xp.linalg.eigh(product.T @ product)
        if float(xp.min(squares)) > SPREAD**2 * float(xp.max(squares)):
            lam = xp.sqrt(squares)
            return Q @ (product @ V / lam), lam, V
    U, lam, Vt = xp.linalg.svd(product)
    return Q @ U, lam, Vt.T
