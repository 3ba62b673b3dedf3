"""The pairs' part of the Hessian, Σ_k h_k z_k z_kᵀ: assembled, or applied to a direction.

z_k = (svec(Gᵀ A_{m,k} G)/M for each m, −γ_k/√c0), docs/theory.md (N). A direction is a list of M
symmetric matrices and one number, the threshold's part scaled by √c0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, sqrt
from typing import Any

from ._array import Array, eye
from .sums import PairSums, svec_congruence, svec_size

__all__ = ["PAIRS_PER_DIMENSION", "ActivePairs", "Direction", "congruent", "dimension"]

Direction = tuple[list[Array], float]

PAIRS_PER_DIMENSION = 500  # of a sample: each step then leaves about 1/500 of the gap


class ActivePairs:
    """The h_k and z_k of some pairs.

    Parameters
    ----------
    sums : PairSums
        The active pairs' differences GᵀΔ.
    curvature : array of shape (n_active,)
        h_k > 0.
    gamma : array of shape (n_active,)
        γ_k.
    c0 : float
        ∞: a direction has no threshold part.
    """

    def __init__(self, sums: PairSums, curvature: Array, gamma: Array, c0: float):
        self.sums, self.curvature, self.xp = sums, curvature, sums.xp
        self.threshold = -gamma / sqrt(c0)  # the last entry of z_k
        self.learns_threshold = c0 < inf

    def gram(self) -> Array:
        """Σ_k h_k z_k z_kᵀ, shape (d, d), or (d − 1, d − 1) for a fixed threshold."""
        chunks = self.sums.chunks(numbers_per_pair=dimension(self.sums))  # theory (N)
        return self.gram_of((part, self.sums.svec_rows(rows)) for part, rows in chunks)

    def gram_of(self, chunks: Iterable[tuple[slice, Array]]) -> Array:
        """The same from the svec part of z_k, chunk by chunk."""
        xp, total = self.xp, 0.0
        root = xp.sqrt(self.curvature)[:, None]
        for part, Z in chunks:
            if self.learns_threshold:
                Z = xp.concat([Z, self.threshold[part][:, None]], axis=1)
            Z = Z * root[part, :]
            total = total + Z.T @ Z
        return total

    def project(self, V: Sequence[Array], b: float) -> Array:
        """Zᵀ(V, b), shape (n_active,)."""
        return self.sums.quadratic(V) + self.threshold * b

    def lift(self, q: Array) -> Direction:
        """Z q."""
        return self.sums.scatter(q), float(self.xp.sum(self.threshold * q))

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Σ_k h_k z_k z_kᵀ (V, b)."""
        q, lifted = self.sums.product(V, self.curvature, self.threshold * b)
        return lifted, float(self.xp.sum(self.threshold * q)) if self.learns_threshold else 0.0


def dimension(sized: Any) -> int:
    """d = Σ n_m(n_m+1)/2 + 1 of anything that has `sizes`."""
    return sum(svec_size(n) for n in sized.sizes) + 1


def congruent(gram: Array, factors: Sequence[Array]) -> Array:
    """Σ_k h_k z_k z_kᵀ in the coordinates of further factors, from that in the present ones."""
    T, start = eye(gram.shape[0], like=gram), 0
    for G in factors:
        end = start + svec_size(G.shape[0])
        T[start:end, start:end] = svec_congruence(G)
        start = end
    return T @ gram @ T.T
