"""The pairs' part of the Hessian, Σ_k h_k z_k z_kᵀ, as a matrix or as an operator.

z_k = (svec(Gᵀ A_{m,k} G)/M for each m, −γ_k/√c0), docs/theory.md (N). A direction is a list of M
symmetric matrices and one number, the threshold's part scaled by √c0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, sqrt

from .._array import Array, namespace
from .._svec import svec_congruence, svec_size
from .pair_sums import SMALLEST_CHUNK
from .sums import Limits, Sums

__all__ = [
    "PAIRS_PER_DIMENSION",
    "ActivePairs",
    "Direction",
    "by_svec",
    "congruent",
    "system_costs",
    "dimension",
    "kept_gram",
]

Direction = tuple[list[Array], float]

PAIRS_PER_DIMENSION = 500  # pairs in a sampled Hessian: a step reduces the gap about 500-fold
LARGEST_MATRIX = 6_000  # most rows of a matrix that is factorised


class ActivePairs:
    """The h_k and z_k of active pairs.

    Parameters
    ----------
    sums : Sums
        Sums over the differences GᵀΔ of the active pairs.
    curvature : array of shape (n_active,)
        h_k > 0.
    gamma : array of shape (n_active,)
        γ_k.
    c0 : float
        Strength of the threshold's term; ∞ for a fixed threshold.
    """

    def __init__(self, sums: Sums, curvature: Array, gamma: Array, c0: float):
        self.sums, self.curvature, self.xp = sums, curvature, sums.xp
        self.threshold = -gamma / sqrt(c0)  # the last entry of z_k
        self.learns_threshold = c0 < inf

    def gram(self) -> Array:
        """Assemble Σ_k h_k z_k z_kᵀ, shape (d, d), or (d − 1, d − 1) for a fixed threshold."""
        return self.gram_of(self.sums.svec_chunks(dimension(self.sums.sizes)))  # theory (N)

    def gram_of(self, chunks: Iterable[tuple[slice, Array]]) -> Array:
        """Assemble Σ_k h_k z_k z_kᵀ from chunks of the svec part of z_k."""
        xp, total = self.xp, 0.0
        root = xp.sqrt(self.curvature)[:, None]
        for part, Z in chunks:
            if self.learns_threshold:
                Z = xp.concat([Z, self.threshold[part][:, None]], axis=1)
            Z = Z * root[part, :]
            total = total + Z.T @ Z
        return total

    def held(self) -> ActivePairs:
        """Hold all differences where a GPU has room for them, and return these pairs."""
        self.sums = self.sums.held()
        return self

    def project(self, V: Sequence[Array], b: float) -> Array:
        """Compute Zᵀ(V, b), shape (n_active,)."""
        return self.sums.quadratic(V) + self.threshold * b

    def lift(self, q: Array) -> Direction:
        """Compute Z q."""
        return self.sums.scatter(q), float(self.xp.sum(self.threshold * q))

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Compute Σ_k h_k z_k z_kᵀ (V, b)."""
        q, lifted = self.sums.product(V, self.curvature, self.threshold * b)
        return lifted, float(self.xp.sum(self.threshold * q)) if self.learns_threshold else 0.0


def dimension(sizes: Sequence[int]) -> int:
    """Return d = Σ n_m(n_m+1)/2 + 1."""
    return sum(svec_size(n) for n in sizes) + 1


def kept_gram(pairs: ActivePairs, rows: Array) -> Array:
    """Assemble Σ_k h_k z_k z_kᵀ over all pairs from the kept svec(A_k)/M, chunk by chunk."""
    step = max(SMALLEST_CHUNK, pairs.sums.limits.chunk_at(rows) // (8 * rows.shape[1]))
    starts = range(0, rows.shape[0], step)
    parts = [slice(start, min(start + step, rows.shape[0])) for start in starts]
    return pairs.gram_of((part, rows[part, :]) for part in parts)


def by_svec(n: int, width: int) -> bool:
    """Return whether inner products of svec(A_k) are cheaper than those of the differences."""
    return width**2 * n >= svec_size(n)


def system_costs(
    sizes: Sequence[int],
    widths: Sequence[int],
    k: int,
    sampled: bool,
    products: int,
    *,
    gram_bytes: int = Limits.gram_bytes,
) -> dict[str, float]:
    """Estimate the cost of each way to solve the Newton system with k active pairs.

    The unit is one multiplication of the dense way; the factors of the other ways were measured by
    benchmarks/linear_solvers.py. `products` is the expected number of products of conjugate
    gradients.
    """
    shapes, d = list(zip(sizes, widths, strict=True)), dimension(sizes)
    assembled = min(k, PAIRS_PER_DIMENSION * d) if sampled else k
    entries = [svec_size(n) if by_svec(n, w) else w**2 * n for n, w in shapes]
    held = 8 * k * max(svec_size(n) if by_svec(n, w) else n * w for n, w in shapes)
    fits = k <= LARGEST_MATRIX and held <= gram_bytes
    product = sum(2 * k * n * width * (n + 48) for n, width in shapes) + 1.5e6
    return {
        "dense": assembled * d**2 + d**3 / 3 if d <= LARGEST_MATRIX else inf,
        "woodbury": 1.8 * (k**2 * sum(entries) + k**3 / 3) if fits else inf,
        "cg": products * product,
    }


def congruent(gram: Array, factors: Sequence[Array]) -> Array:
    """Transform Σ_k h_k z_k z_kᵀ to the coordinates of further factors."""
    congruences = [svec_congruence(G) for G in factors]
    return _transform_rows(_transform_rows(gram, congruences).T, congruences)


def _transform_rows(gram: Array, congruences: Sequence[Array]) -> Array:
    """Multiply the rows of each block by its matrix; the row of the threshold stays."""
    parts, start = [], 0
    for T in congruences:
        end = start + T.shape[0]
        parts.append(T @ gram[start:end, :])
        start = end
    return namespace(gram).concat([*parts, gram[start:, :]])
