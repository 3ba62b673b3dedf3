"""The Nesterov-Todd scaling: coordinates in which W and P are the same diagonal matrix.

On a GPU, eigenvalue decompositions of matrices with some hundred rows are very slow. They are
avoided where a Cholesky factorisation is enough, or no factorisation is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

from .._array import Array, eye, linalg_errors, namespace, on_gpu, smallest

LARGE = 64  # number of rows from which a Cholesky factorisation is tried before eigenvalues
SPREAD = 1e-5  # smallest ratio of two λ that their squares resolve


@dataclass(frozen=True)
class Scaling:
    """Nesterov-Todd scaling of one block: T⁻¹ W T⁻ᵀ = Tᵀ P T = diag(λ), T = L · right.

    Blocks of one size are scaled together: the matrices then have the shape (M, n, n).
    """

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
            one = eye(L.shape[-1], like=L)
            lam, right = sqrt(Q) * xp.ones_like(L[..., 0]), xp.zeros_like(L) + one / Q**0.25
            inverse = xp.matrix_transpose(xp.linalg.inv(L)) * Q**0.25
            return cls(right, lam, L / Q**0.25, inverse, (gradient + one) / sqrt(Q))
        QU, lam, V = _decomposed(L, Q)
        root = xp.sqrt(lam)[..., None, :]
        right = V / root
        transposed = xp.matrix_transpose(right)
        target = transposed @ gradient @ right + transposed @ right
        return cls(right, lam, L @ right, QU / root, target)

    @cached_property
    def value(self) -> Array:
        """diag(λ), the value of W and P."""
        return self.diag(self.lam)

    def diag(self, values: Array) -> Array:
        """Return the diagonal matrix of the values."""
        return eye(values.shape[-1], like=values) * values[..., None, :]

    def length(self, directions: Sequence[Array], share: float, large: int = LARGE) -> float:
        """Return the largest a ≤ 1 with diag(λ) + (a/share) V ⪰ 0 for every direction V.

        From `large` rows on, a Cholesky factorisation is tried before eigenvalues.
        """
        if self.lam.shape[-1] >= large:
            directions = [V for V in directions if not self._inside(V / share)]
        return min(1.0, share * self.to_boundary(directions)) if directions else 1.0

    def _inside(self, V: Array) -> bool:
        """Return whether diag(λ) + V ≻ 0."""
        xp = namespace(V)
        try:
            factor = xp.linalg.cholesky(self.value + V)
        except linalg_errors():
            return False
        return bool(xp.all(xp.isfinite(xp.linalg.diagonal(factor))))

    def to_boundary(self, directions: Sequence[Array]) -> float:
        """Return the largest a with diag(λ) + a V ⪰ 0 for every direction V."""
        xp = namespace(self.lam)
        root = xp.sqrt(self.lam)
        every = directions[0] if len(directions) == 1 else xp.stack(directions)
        scaled = every / (root[..., None, :] * root[..., None])
        lowest = smallest(xp.linalg.eigvalsh(scaled))
        return inf if lowest >= 0 else -1 / lowest


def _decomposed(L: Array, Q: Array) -> tuple[Array, Array, Array]:
    """Compute Q U, λ and V of the singular value decomposition QᵀL = U diag(λ) Vᵀ."""
    xp = namespace(L)
    product = xp.matrix_transpose(Q) @ L
    if on_gpu(L):  # ten times as fast there, and accurate if the λ are of similar size
        squares, V = xp.linalg.eigh(xp.matrix_transpose(product) @ product)
        if bool(xp.all(xp.min(squares, axis=-1) > SPREAD**2 * xp.max(squares, axis=-1))):
            lam = xp.sqrt(squares)
            return Q @ (product @ V / lam[..., None, :]), lam, V
    U, lam, Vt = xp.linalg.svd(product)
    return Q @ U, lam, xp.matrix_transpose(Vt)
