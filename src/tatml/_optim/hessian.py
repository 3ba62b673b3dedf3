"""The pairs' part of the Hessian, Σ_k h_k z_k z_kᵀ, as a matrix or as an operator.

z_k = (svec(Gᵀ A_{m,k} G)/M for each m, −γ_k/√c0), docs/theory.md (N). A direction is a list of M
symmetric matrices and one number, the threshold's part scaled by √c0.

Where there are few pairs, the rows svec(A_k)/M of all of them are kept (`SvecRows`): the distances
and the scatter at a point are then one product with them each. Others come chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Any

from .._array import Array, as_double, as_single, eye, fast_single, inner, namespace
from .._svec import svec, svec_congruence, svec_size, unsvec_all
from .layout import Evaluation, joined, product_operations, slices
from .sums import SMALLEST_CHUNK, Sums, largest_norms

Direction = tuple[list[Array], float]
PAIRS_PER_DIMENSION = 500  # pairs in a sampled Hessian: a step reduces the gap about 500-fold
FUSED_DIMENSION = 400  # up to this d, terms in shards compute the Hessian together with F
WORTH_SINGLE = 1e8  # multiplications of a product from which float32 is worth its overhead


def svec_chunks(sums: Sums, numbers_per_row: int) -> Iterator[tuple[slice, Array]]:
    """Yield (rows, svec(A_k)/M of these rows) in chunks sized for the given numbers per row."""
    links, pairs = sums.links, sums.pairs
    if links is None:
        for part in pairs.parts(numbers_per_row):
            yield part, pairs.svec_rows(part)
        return
    for part in pairs.parts(2 * numbers_per_row, sums.n_pairs):
        sides = [pairs.take(side[part]) for side in links]
        plus, minus = (side.svec_rows(slice(0, side.n_pairs)) for side in sides)
        yield part, plus - minus


def row_chunks(rows: Array, room: int) -> Iterator[tuple[slice, Array]]:
    """Yield (part, rows in this part), with chunks of `room` bytes."""
    for part in slices(rows.shape[0], max(SMALLEST_CHUNK, room // (8 * rows.shape[1]))):
        yield part, rows[part, :]


@dataclass(eq=False)
class SvecRows:
    """svec(A_k)/M of all rows of some sums, which are kept where they fit into memory."""

    sums: Sums

    @cached_property
    def kept(self) -> Array | None:
        """svec(A_k)/M of all rows, shape (n_pairs, Σ n_m(n_m+1)/2); None above the limits."""
        features, n_pairs = self.sums.features, self.sums.n_pairs
        width, limits = sum(map(svec_size, features.sizes)), features.limits
        if width > limits.svec_width or 8 * width * n_pairs > limits.svec_bytes:
            return None
        return joined([rows for _, rows in svec_chunks(self.sums, width)])

    @cached_property
    def _traces(self) -> Array:
        """Σ_m |tr A_{m,k}|/M of all rows that are kept, shape (n_pairs,)."""
        features, parts = self.sums.features, []
        for n, sign in zip(features.sizes, features.signs, strict=True):
            parts.append(sign * svec(eye(n, features.like)))
        return self.kept @ features.xp.concat(parts)

    def evaluate(
        self, L: Sequence[Array], slope: Callable[[slice, Array], Array]
    ) -> Evaluation | None:
        """Compute the distances, and LᵀS(s)L for s = slope(all rows, distances), at W = L Lᵀ.

        None where no rows are kept, for comparisons, and where too many digits would cancel: W has
        large and small eigenvalues, and the difference of a pair is along the small ones.
        """
        features = self.sums.features
        if self.sums.links is not None or self.kept is None:
            return None
        xp, sizes = features.xp, features.sizes
        W = [svec(factor @ factor.T) for factor in L]
        distances = unsigned = self.kept @ joined(W)
        if features.has_sums:
            pairs = zip(W, features.signs, strict=True)
            unsigned = self.kept @ joined([sign * block for block, sign in pairs])
        # tr A_k tr W/M bounds the sum of the absolute values of the terms of D_k.
        reach = self._traces * sum(inner(factor, factor) for factor in L)
        if not xp.all(reach <= largest_norms(features) * unsigned):
            return None
        s = slope(slice(0, self.sums.n_pairs), distances)
        S = unsvec_all(self.kept.T @ s, sizes)
        scatter = [factor.T @ block @ factor for factor, block in zip(L, S, strict=True)]
        more_terms = 2 * (sum(map(svec_size, sizes)) + 1)
        return Evaluation(distances, s, scatter, lambda: xp.sqrt(reach), more_terms)


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
        self.sums, self.curvature, self.xp = sums, curvature, sums.features.xp
        self.threshold = -gamma / sqrt(c0)  # the last entry of z_k
        self.learns_threshold = c0 < inf

    def gram(self, rows: Array | None = None) -> Array:
        """Assemble Σ_k h_k z_k z_kᵀ, shape (d, d), or (d − 1, d − 1) for a fixed threshold.

        `rows` are the svec(A_k)/M of these pairs where they are kept.
        """
        xp, total = self.xp, 0.0  # theory (N)
        root = xp.sqrt(self.curvature)[:, None]
        if rows is None:
            chunks = svec_chunks(self.sums, dimension(self.sums.features.sizes))
        else:
            chunks = row_chunks(rows, self.sums.features.room)
        for part, Z in chunks:
            if self.learns_threshold:
                Z = xp.concat([Z, self.threshold[part][:, None]], axis=1)
            Z = Z * root[part, :]
            total = total + Z.T @ Z
        return total

    def held(self) -> ActivePairs:
        """Hold all differences where a GPU has room for them, and return these pairs."""
        self.sums = self.sums.with_pairs(self.sums.pairs.held())
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

    def in_single(self, factors: Sequence[Array] | None = None) -> InSingle | None:
        """Return the operator in float32; None for few pairs, whose products take no time.

        With `factors`, it is that in the coordinates of further factors.
        """
        n_pairs = self.sums.n_pairs
        if product_operations(self.sums.features.shapes, n_pairs, n_pairs) < WORTH_SINGLE:
            return None
        return InSingle(self, factors)


class InSingle(ActivePairs):
    """The operator of active pairs in float32; directions are in float64."""

    def __init__(self, pairs: ActivePairs, factors: Sequence[Array] | None = None):
        sums = pairs.sums.with_pairs(pairs.sums.pairs.converted(as_single))
        if factors is not None:
            sums = sums.transformed([as_single(factor) for factor in factors])
        self.sums, self.xp, self.learns_threshold = sums, pairs.xp, pairs.learns_threshold
        self.curvature, self.threshold = as_single(pairs.curvature), as_single(pairs.threshold)

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Compute Σ_k h_k z_k z_kᵀ (V, b)."""
        with fast_single(V[0]):
            lifted, part = super().product([as_single(v) for v in V], b)
        return [as_double(S) for S in lifted], part


@dataclass(frozen=True)
class Turned:
    """An operator in the coordinates of further factors, without a copy of the features."""

    operator: Any
    factors: Sequence[Array]

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Compute Σ_k h_k z_k z_kᵀ (V, b)."""
        outer = [right @ v @ right.T for right, v in zip(self.factors, V, strict=True)]
        lifted, part = self.operator.product(outer, b)
        return [right.T @ S @ right for right, S in zip(self.factors, lifted, strict=True)], part

    def in_single(self) -> InSingle | None:
        """Return the operator in float32, of features that are multiplied by the factors."""
        return self.operator.in_single(self.factors)


def dimension(sizes: Sequence[int]) -> int:
    """Return d = Σ n_m(n_m+1)/2 + 1."""
    return sum(svec_size(n) for n in sizes) + 1


def by_svec(n: int, width: int) -> bool:
    """Return whether inner products of svec(A_k) are cheaper than those of the differences."""
    return width**2 * n >= svec_size(n)


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
