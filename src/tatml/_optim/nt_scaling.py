"""The Nesterov-Todd scaling: coordinates in which W and P are the same diagonal matrix.

On a GPU, eigenvalue decompositions of matrices with some hundred rows are very slow. They are
avoided where a Cholesky factorisation is enough, or no factorisation is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

from .._array import Array, eye, linalg_errors, namespace, on_gpu

__all__ = ["Scaling"]

LARGE = 64  # number of rows from which a Cholesky factorisation is tried before eigenvalues
SPREAD = 1e-5  # smallest ratio of two λ that their squares resolve


@dataclass(frozen=True)
class Scaling:
    """Nesterov-Todd scaling of one block: T⁻¹ W T⁻ᵀ = Tᵀ P T = diag(λ), T = L · right."""

    right: Array
    lam: Array
    T: Array
    T_inverse_transposed: Array
    target: Array
    """Tᵀ(I + S)T, the value that P should have."""

    @classmethod
    def of(cls, L: Array, Q: Array | float, gradient: Array) -> Scaling:
        """Compute the scaling of W = L Lᵀ and P = Q Qᵀ, or of P = τ W⁻¹ if Q is a number τ."""
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
        """Return the diagonal matrix of the values."""
        return eye(values.shape[0], like=values) * values

    def length(self, V: Array, share: float, large: int = LARGE) -> float:
        """Return the largest a ≤ 1 with diag(λ) + (a/share) V ⪰ 0.

        From `large` rows on, a Cholesky factorisation is tried before eigenvalues.
        """
        if V.shape[0] >= large and self._inside(V / share):
            return 1.0
        return min(1.0, share * self.to_boundary(V))

    def _inside(self, V: Array) -> bool:
        """Return whether diag(λ) + V ≻ 0."""
        xp = namespace(V)
        try:
            factor = xp.linalg.cholesky(self.diag(self.lam) + V)
        except linalg_errors():
            return False
        return bool(xp.all(xp.isfinite(xp.linalg.diagonal(factor))))

    def to_boundary(self, V: Array) -> float:
        """Return the largest a with diag(λ) + a V ⪰ 0."""
        xp = namespace(V)
        root = xp.sqrt(self.lam)
        lowest = float(xp.min(xp.linalg.eigvalsh(V / root / root[:, None])))
        return inf if lowest >= 0 else -1 / lowest


def _decomposed(L: Array, Q: Array) -> tuple[Array, Array, Array]:
    """Compute Q U, λ and V of the singular value decomposition QᵀL = U diag(λ) Vᵀ."""
    xp, product = namespace(L), Q.T @ L
    if on_gpu(L):  # ten times as fast there, and accurate if the λ are of similar size
        squares, V = xp.linalg.eigh(product.T @ product)
        if float(xp.min(squares)) > SPREAD**2 * float(xp.max(squares)):
            lam = xp.sqrt(squares)
            return Q @ (product @ V / lam), lam, V
    U, lam, Vt = xp.linalg.svd(product)
    return Q @ U, lam, Vt.T
