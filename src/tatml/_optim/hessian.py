"""The pairs' part of the Hessian, Σ_k h_k z_k z_kᵀ: assembled, or applied to a direction.

z_k = (svec(Gᵀ A_{m,k} G)/M for each m, −γ_k/√c0), docs/theory.md (N). A direction is a list of M
symmetric matrices and one number, the threshold's part scaled by √c0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, sqrt

from .._array import Array, eye
from .._svec import svec_congruence, svec_size
from .pair_sums import PairSums, chunk_bytes

__all__ = [
    "PAIRS_PER_DIMENSION",
    "ActivePairs",
    "Direction",
    "by_svec",
    "congruent",
    "costs",
    "dimension",
    "kept_gram",
]

Direction = tuple[list[Array], float]

PAIRS_PER_DIMENSION = 500  # of a sample: each step then leaves about 1/500 of the gap
HELD_BYTES = 2**26  # of active differences, or their svec, that a Gram matrix may be made from
LARGEST_MATRIX = 6_000  # rows: above this no matrix is formed


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
        chunks = self.sums.chunks(numbers_per_pair=dimension(self.sums.sizes))  # theory (N)
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

    def held(self) -> ActivePairs:
        """The same with the differences at hand, where a GPU has room for them."""
        self.sums = self.sums.held()
        return self

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


def dimension(sizes: Sequence[int]) -> int:
    """d = Σ n_m(n_m+1)/2 + 1."""
    return sum(svec_size(n) for n in sizes) + 1


def kept_gram(pairs: ActivePairs, rows: Array) -> Array:
    """Σ_k h_k z_k z_kᵀ over all pairs, from svec(A_k)/M that are kept, chunk by chunk."""
    step = max(16, chunk_bytes(rows) // (8 * rows.shape[1]))
    starts = range(0, rows.shape[0], step)
    parts = [slice(start, min(start + step, rows.shape[0])) for start in starts]
    return pairs.gram_of((part, rows[part, :]) for part in parts)


def by_svec(n: int, width: int) -> bool:
    """Whether inner products of svec(A_k) are cheaper than those of U_k."""
    return width**2 * n >= svec_size(n)


def costs(
    sizes: Sequence[int], widths: Sequence[int], k: int, sampled: bool, products: int
) -> dict[str, float]:
    """What each way to solve Newton's system is expected to cost for k active pairs.

    Costs are in multiplications at the rate of the dense way; the factors were measured by
    benchmarks/linear_solvers.py. `products` is what conjugate gradients are expected to need.
    """
    shapes, d = list(zip(sizes, widths, strict=True)), dimension(sizes)
    assembled = min(k, PAIRS_PER_DIMENSION * d) if sampled else k
    entries = [svec_size(n) if by_svec(n, w) else w**2 * n for n, w in shapes]
    held = 8 * k * max(svec_size(n) if by_svec(n, w) else n * w for n, w in shapes)
    fits = k <= LARGEST_MATRIX and held <= HELD_BYTES
    product = sum(2 * k * n * width * (n + 48) for n, width in shapes) + 1.5e6
    return {
        "dense": assembled * d**2 + d**3 / 3 if d <= LARGEST_MATRIX else inf,
        "woodbury": 1.8 * (k**2 * sum(entries) + k**3 / 3) if fits else inf,
        "cg": products * product,
    }


def congruent(gram: Array, factors: Sequence[Array]) -> Array:
    """Σ_k h_k z_k z_kᵀ in the coordinates of further factors, from that in the present ones."""
    T, start = eye(gram.shape[0], like=gram), 0
    for G in factors:
        end = start + svec_size(G.shape[0])
        T[start:end, start:end] = svec_congruence(G)
        start = end
    return T @ gram @ T.T
