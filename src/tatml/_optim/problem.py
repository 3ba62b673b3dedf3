"""The convex problem behind every metric of this library, its dual and its certificate.

Primal, over W_m ≻ 0 (m = 1..M) and b0 (docs/theory.md, (P) and, for any loss, (Loss)):

    F(W, b0) = Σ_m [tr W_m − logdet W_m − n_m] + Σ_k φ_k(ζ_k) + (c0/2)(b0 − μ0)²
    ζ_k = D_k(W) − γ_k b0,   D_k(W) = (1/M) Σ_m ⟨A_{m,k}, W_m⟩

Dual, over s_k in the domain of φ*_k (docs/theory.md, (D) and (Conj)):

    g(s) = Σ_m logdet(I + S_m) − Σ_k φ*_k(s_k) − μ0 γᵀs − (γᵀs)²/(2 c0)
    S_m = (1/M) Σ_k s_k A_{m,k}

Certificate: g(s) ≤ min F ≤ F(W, b0) for all W, b0, s, so that gap = F − g ≥ 0 bounds F − min F.
Stopping rule: gap ≤ tol · max(1, |F|).

The prior is the identity here. A general prior W0 = C Cᵀ is the same problem for the features CᵀΦ,
and its solution is C W Cᵀ: `LogDetProblem.build` goes in, `returned` comes back out. c0 = ∞ fixes
the threshold: b0 = μ0, and the terms with c0 vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isinf, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from .._array import Array, as_double, asarray, eye, lower_triangular, namespace, placed
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .certificate import PairTotals, accumulated, unit_roundoff
from .losses import PairLoss, SquaredHinge
from .pair_sums import PairSums, lay_out
from .pair_term import PairTerm
from .point import Point
from .terms import Term, added

__all__ = ["LogDetProblem", "best_threshold", "pair_sums", "squared_hinge"]


@dataclass(frozen=True)
class LogDetProblem:
    """LogDet regularisation plus terms, with a learnt or a fixed threshold.

    It knows nothing of solvers, nor of where its terms are computed, and never changes; a solver's
    state is the solver's own.

    Parameters
    ----------
    terms : tuple of Term
        What is added to the prior's part; the pairs are one.
    c0, mu0 : float
        Strength (∞: the threshold is fixed) and centre of the threshold's own term.
    prior_factors : tuple of M arrays of shape (n_m, n_m)
        C_m with W0_m = C_m C_mᵀ; the terms are in the coordinates where the prior is the identity.
    prior : tuple of M arrays of shape (n_m, n_m), or None
        W0_m as it was given; None for the identity.
    """

    terms: tuple[Term, ...]
    c0: float
    mu0: float
    prior_factors: tuple[Array, ...] = field(repr=False)
    prior: tuple[Array, ...] | None = field(default=None, repr=False)

    @classmethod
    def build(
        cls,
        blocks: Blocks,
        pairs: Pairs,
        loss: PairLoss,
        *,
        c0: float = inf,
        mu0: float = 0.0,
        prior: Sequence[Array] | None = None,
        dtype: str = "float64",
    ) -> LogDetProblem:
        """Lay the features out for the sums and whiten them by the prior (None: the identity)."""
        sums = pair_sums(blocks, pairs, dtype)
        factors = tuple(eye(n, like=sums.features[0]) for n, _ in blocks.block_shapes)
        term = PairTerm(sums, loss.placed(factors[0]), given_loss=loss)
        problem = cls((term,), c0, mu0, factors)
        return problem if prior is None else problem.with_prior(prior)

    def with_prior(self, prior: Sequence[Array]) -> LogDetProblem:
        """The same problem for another prior, given that this one's is the identity."""
        like = self.prior_factors[0]
        factors = tuple(placed(self.xp.linalg.cholesky(W0), like) for W0 in prior)
        terms = tuple(term.whitened(factors) for term in self.terms)
        return replace(self, terms=terms, prior_factors=factors, prior=tuple(prior))

    def with_loss(self, loss: PairLoss, c0: float) -> LogDetProblem:
        """The same pairs with another loss and strength of the threshold's term."""
        return replace(self, terms=(self.pairs.with_loss(loss),), c0=c0)

    @property
    def pairs(self) -> PairTerm:
        """The pairs, of a problem whose only term they are and that has them in memory."""
        listed = self.terms[0].listed
        if listed is None or len(self.terms) > 1:
            raise TypeError("problem: expected pairs in memory as its only term")
        return listed

    @property
    def xp(self) -> Any:
        """The array namespace of the data."""
        return self.terms[0].xp

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""
        return self.terms[0].sizes

    @property
    def n_pairs(self) -> int:
        """K, over all terms."""
        return sum(term.n_pairs for term in self.terms)

    @property
    def largest_sample(self) -> int:
        """How many of the pairs a sample in memory may have."""
        return min(term.largest_sample for term in self.terms)

    @property
    def learns_threshold(self) -> bool:
        """Whether b0 is a variable."""
        return not isinf(self.c0)

    @property
    def quadratic(self) -> bool:
        """Whether φ*(θ s) = θ² φ*(s) for every term."""
        return all(term.quadratic for term in self.terms)

    @property
    def is_listed(self) -> bool:
        """Whether the pairs are the only term, and in memory: `pairs` then answers."""
        return len(self.terms) == 1 and self.terms[0].listed is not None

    def returned(self, L: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """C L in the user's coordinates, lower triangular, and L, made lower triangular too."""
        triangular = [lower_triangular(factor) for factor in L]
        if self.prior is None:
            return triangular, triangular
        factors = zip(self.prior_factors, triangular, strict=True)
        return [C @ factor for C, factor in factors], triangular

    def whitened(self, L: Sequence[Array]) -> list[Array]:
        """C⁻¹L: factors in this problem's coordinates, from those in the user's."""
        factors = zip(self.prior_factors, L, strict=True)
        return [self.xp.linalg.solve(C, placed(factor, C)) for C, factor in factors]

    @cached_property
    def prior_rounding(self) -> tuple[float, float]:
        """‖|C⁻¹||C|‖_F, and a bound of ‖Cᵀ W0⁻¹ C − I‖_F: C is W0's factor up to rounding."""
        if self.prior is None:
            return 1.0, 0.0
        xp, condition, error = self.xp, 1.0, 0.0  # theory (Round)
        for C in self._exact_prior_factors:
            size = float(xp.linalg.matrix_norm(xp.abs(xp.linalg.inv(C)) @ xp.abs(C)))
            condition = max(condition, size)
            error = max(error, accumulated(C.shape[0] + 2, unit_roundoff(C)) * size**2)
        return condition, error / (1 - error) if error < 1 else inf

    @property
    def _exact_prior_factors(self) -> list[Array]:
        """C in float64."""
        return [self.xp.linalg.cholesky(as_double(W0)) for W0 in self.prior or ()]

    def whitened_exactly(
        self, L: Sequence[Array], guess: Sequence[Array]
    ) -> tuple[list[Array], float, float]:
        """C⁻¹L in float64, a bound of its error, and that of C itself; `guess` may be it."""
        if self.prior is None:
            return list(L), 0.0, 0.0
        xp, found, square = self.xp, [], 0.0  # theory (Round)
        for C, factor, near in zip(self._exact_prior_factors, L, guess, strict=True):
            inverse = xp.linalg.inv(C)
            exact = near.dtype == C.dtype
            B = near if exact else _triangular_quotient(factor, C, inverse)
            rounding = accumulated(C.shape[0] + 2, unit_roundoff(C))
            residual = xp.abs(C @ B - factor) + rounding * (xp.abs(C) @ xp.abs(B) + xp.abs(factor))
            square += float(xp.linalg.matrix_norm(xp.abs(inverse) @ residual)) ** 2
            found.append(B)
        return found, 1.01 * sqrt(square), self.prior_rounding[1]

    def exact_totals(self, L: Sequence[Array], b0: float, s: Array | None) -> PairTotals:
        """Sums over the terms at factors in the user's coordinates, with their rounding errors."""
        return added([term.certify(L, b0, self.n_pairs, s) for term in self.terms])

    def sample(self, size: int, rng: Any) -> LogDetProblem:
        """The problem of about `size` random pairs, in memory, which stand for all."""
        share = size / self.n_pairs
        terms = tuple(term.sample(round(share * term.n_pairs), rng) for term in self.terms)
        like = terms[0].loss.gamma  # a sample may be on another device
        prior = None if self.prior is None else tuple(placed(W0, like) for W0 in self.prior)
        factors = tuple(placed(C, like) for C in self.prior_factors)
        return replace(self, terms=terms, prior_factors=factors, prior=prior)

    def identity(self) -> list[Array]:
        """Factors of W = W0."""
        return [eye(n, like=C) for n, C in zip(self.sizes, self.prior_factors, strict=True)]

    def at(self, L: Sequence[Array], b0: float) -> Point:
        """Look at W_m = L_m L_mᵀ and b0; nothing is computed before it is asked for."""
        return Point(self, tuple(L), float(b0))

    def primal(self, L: Sequence[Array], b0: float, zeta: Array) -> float:
        """F, given the ζ_k = D_k − γ_k b0 of the point."""
        return self.regulariser(L, b0) + float(self.xp.sum(self.pairs.loss.value(zeta)))

    def regulariser(self, L: Sequence[Array], b0: float) -> float:
        """The part of F that no pair enters."""
        xp, total = self.xp, 0.0  # theory (Loss)
        for factor in L:
            logdet = 2 * float(xp.linalg.slogdet(factor)[1])
            total += float(xp.sum(factor * factor)) - logdet - factor.shape[0]
        if self.learns_threshold:
            total += self.c0 / 2 * (b0 - self.mu0) * (b0 - self.mu0)
        return total

    def threshold_force(self, s: Array) -> float:
        """γᵀs."""
        return float(self.xp.sum(self.pairs.loss.gamma * s))

    def threshold_residual(self, b0: float, s: Array) -> float:
        """g_b/√c0 = (c0(b0 − μ0) − γᵀs)/√c0, and 0 for a fixed threshold."""
        return self.residual_of(b0, self.threshold_force(s)) if self.learns_threshold else 0.0

    def residual_of(self, b0: float, force: float) -> float:
        """The same, given γᵀs."""
        if not self.learns_threshold:
            return 0.0
        return sqrt(self.c0) * (b0 - self.mu0) - force / sqrt(self.c0)

    def dual(self, s: Array) -> float:
        """g(s) for s in the domain of φ*; −∞ where I + S(s) is not positive definite."""
        eigenvalues = [self.xp.linalg.eigvalsh(S) for S in self.pairs.sums.scatter(s)]
        return self.dual_along(eigenvalues, self.threshold_force(s), self._conjugate_of(s), 1.0)

    def _conjugate_of(self, s: Array) -> Callable[[float], float]:
        """Σ_k φ*_k(θ s_k) as a function of θ."""
        loss = self.pairs.loss
        return lambda theta: float(self.xp.sum(loss.conjugate(theta * s)))

    def dual_along(
        self,
        eigenvalues: Sequence[Array],
        force: float,
        conjugate: Callable[[float], float],
        theta: float,
    ) -> float:
        """g(θ s), given the eigenvalues of S(s), γᵀs, and Σ φ*(θ s) as a function of θ."""
        xp = self.xp  # theory (Conj) and (GapS)
        if any(float(xp.min(nu)) * theta <= -1 for nu in eigenvalues):
            return -inf
        logdet = sum(float(xp.sum(xp.log1p(theta * nu))) for nu in eigenvalues)
        force = theta * force
        return logdet - conjugate(theta) - self.mu0 * force - force * force / (2 * self.c0)

    def best_multiple(self, s: Array, eigenvalues: Sequence[Array]) -> tuple[float, float]:
        """θ in [0, 1] with the largest g(θ s), and that value; given the eigenvalues of S(s)."""
        return self.best_scale(eigenvalues, self.threshold_force(s), self._conjugate_of(s))

    def best_scale(
        self, eigenvalues: Sequence[Array], force: float, conjugate: Callable[[float], float]
    ) -> tuple[float, float]:
        """The same, given γᵀs, and Σ φ*(θ s) as a function of θ."""
        lowest = min(float(self.xp.min(nu)) for nu in eigenvalues)  # theory (GapS)
        end = 1.0 if lowest > -1 else -1 / lowest

        def minus_dual(theta: float) -> float:
            return -self.dual_along(eigenvalues, force, conjugate, float(theta))

        found = minimize_scalar(
            minus_dual, bounds=(0.0, end), method="bounded", options={"maxiter": 20}
        )
        candidates = [(-minus_dual(1.0), 1.0), (-float(found.fun), float(found.x)), (0.0, 0.0)]
        value, theta = max(candidates)  # g(0) = 0
        return theta, value

    def scaled_start(self, longest: float) -> tuple[float, float]:
        """t ≤ 1 for which the mean distance at W = t W0 is at most `longest`, and the best b0."""
        pairs = self.terms[0].for_start()
        distances = pairs.sums.distances()
        t = min(1.0, longest / max(float(pairs.xp.mean(distances)), 1.0))
        return t, best_threshold(t * distances, pairs.loss, self.c0, self.mu0)


def _triangular_quotient(L: Array, C: Array, inverse: Array) -> Array:
    """C⁻¹L of lower triangular factors, its diagonal to the last digits."""
    xp = namespace(L)
    diagonal = xp.linalg.diagonal(L) / xp.linalg.diagonal(C)
    return xp.tril(inverse @ L, k=-1) + eye(L.shape[0], like=L) * diagonal


def pair_sums(blocks: Blocks, pairs: Pairs, dtype: str = "float64") -> PairSums:
    """Lay the features out for sums over pairs."""
    xp, precision = blocks.xp, getattr(blocks.xp, dtype)
    # Few pairs are subtracted from each other as they were given, which is more accurate than the
    # difference of centred samples. Either way nothing is rounded to float32 before.
    many = len(pairs) > len(blocks)
    features = lay_out(blocks.arrays, centre=many, double=precision == xp.float64)
    first, second = (asarray(rows, like=features[0]) for rows in (pairs.first, pairs.second))
    sums = PairSums.from_samples(features, first, second)
    rounded = [xp.astype(block, precision, copy=False) for block in sums.features]
    return PairSums(rounded, sums.first, sums.second)


class SignedPairs(Protocol):
    """What a loss needs to know of pairs; `Pairs` are such, and so is a piece of a shard."""

    @property
    def similar(self) -> NDArray[np.bool_]:
        """Whether the two samples of a pair are alike."""

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """How much each pair counts; None stands for 1 each."""

    @property
    def sign(self) -> NDArray[np.float64]:
        """y_k."""

    def __len__(self) -> int: ...


def squared_hinge(pairs: SignedPairs, C: float, margin: tuple[float, float]) -> SquaredHinge:
    """TATML's loss of given pairs: c w_k, and γ by the kind of pair."""
    weights = np.ones(len(pairs)) if pairs.weights is None else pairs.weights
    with np.errstate(over="ignore"):  # an infinite weight makes F infinite, which is then named
        weight = C * weights
    return SquaredHinge(pairs.sign, weight, np.where(pairs.similar, margin[0], margin[1]))


def best_threshold(distances: Array, loss: PairLoss, c0: float, mu0: float) -> float:
    """The b0 with the least Σ_k φ_k(D_k − γ_k b0) + (c0/2)(b0 − μ0)², a root of increasing ψ."""
    if isinf(c0):  # theory (B0)
        return mu0
    xp, gamma, b0 = namespace(distances), loss.gamma, mu0
    low, high = -inf, inf
    for _ in range(100):
        zeta = distances - gamma * b0
        psi = c0 * (b0 - mu0) - float(xp.sum(gamma * loss.slope(zeta)))
        slope = c0 + float(xp.sum(gamma**2 * loss.curvature(zeta)))
        low, high = (b0, high) if psi < 0 else (low, b0)
        following = b0 - psi / slope
        if not low <= following <= high:
            following = (low + high) / 2
        if abs(following - b0) <= 4e-16 * abs(b0):
            break
        b0 = following
    return b0
