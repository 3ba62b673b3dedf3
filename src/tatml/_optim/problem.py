"""The convex problem that every metric of this library solves, its dual and its certificate.

Primal, over W_m ≻ 0 (m = 1..M) and b0 (docs/theory.md, (P) and, for any loss, (Loss)):

    F(W, b0) = Σ_m [tr W_m − logdet W_m − n_m] + Σ_k φ_k(ζ_k) + (c0/2)(b0 − μ0)²
    ζ_k = D_k(W) − γ_k b0 − o_k,   D_k(W) = (1/M) Σ_m ⟨A_{m,k}, W_m⟩

Dual, over s_k in the domain of φ*_k (docs/theory.md, (D) and (Conj)):

    g(s) = Σ_m logdet(I + S_m) − Σ_k φ*_k(s_k) − oᵀs − μ0 γᵀs − (γᵀs)²/(2 c0)
    S_m = (1/M) Σ_k s_k A_{m,k}

Certificate: g(s) ≤ min F ≤ F(W, b0) for all W, b0 and s, so gap = F − g ≥ 0 bounds F − min F.
Stopping rule: gap ≤ tol · max(1, |F|).

Here the prior is the identity. A general prior W0 = C Cᵀ gives the same problem for the features
CᵀΦ, and its solution is C W Cᵀ. `LogDetProblem.build` transforms the features; `returned`
transforms the solution back. With c0 = ∞ the threshold is fixed, b0 = μ0, and terms with c0 vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isinf, prod, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from .._array import (
    Array,
    as_double,
    asarray,
    eye,
    inner,
    lower_triangular,
    namespace,
    on_gpu,
    placed,
    smallest,
    stacked,
    symmetrised,
    total,
    unstacked,
)
from .._data.blocks import Blocks
from .._data.pairs import LinkedPairs, Pairs
from .certificate import (
    Certificate,
    accumulated,
    excess_by_cholesky,
    excess_by_eigenvalues,
    quick_certificate,
    unit_roundoff,
)
from .custom_loss import CustomLoss, ViolationLoss
from .layout import lay_out, signs_of
from .losses import LogisticLoss, PairLoss, SquaredHinge, scaled_weights, zeta_at
from .pair_term import PairsAtPoint, PairTerm
from .sums import ComparisonSums, Links, PairSums, Sums
from .terms import HessianProduct, Line, Term, TermAtPoint

LARGE = 64  # number of rows from which the gap is computed by Cholesky factorisation
# A gap below this times eps per row is computed from eigenvalues, which do not cancel.
ROUNDING = 5e7
ACCURACY = {"xtol": 1e-9, "rtol": 1e-9, "maxiter": 50, "disp": False}  # of θ, for brentq
INSIDE = 1 - 1e-12  # share of the way to the end of the dual's domain, where g is −∞

# Pairs of indices; `LinkedPairs` for rows that compare two pairs.
IndexPairs = Pairs | LinkedPairs


@dataclass(frozen=True)
class LogDetProblem:
    """LogDet regularisation plus a sum of losses, with a learnt or a fixed threshold.

    A problem is immutable. It depends neither on a solver nor on where its term is computed.

    Parameters
    ----------
    term : Term
        The sum of the losses of all pairs.
    c0, mu0 : float
        Strength and centre of the threshold's term; c0 = ∞ for a fixed threshold.
    prior_factors : tuple of M arrays of shape (n_m, n_m)
        C_m with W0_m = C_m C_mᵀ. The term is in the coordinates where the prior is the identity.
    prior : tuple of M arrays of shape (n_m, n_m), or None
        W0_m as it was given; None for the identity.
    has_threshold : bool
        Whether the term depends on b0; False for comparisons alone.
    """

    term: Term
    c0: float
    mu0: float
    prior_factors: tuple[Array, ...] = field(repr=False)
    prior: tuple[Array, ...] | None = field(default=None, repr=False)
    has_threshold: bool = True

    sizes: tuple[int, ...] = field(init=False, repr=False)
    """n_m of each block."""
    learns_threshold: bool = field(init=False, repr=False)
    """Whether b0 is a variable of the problem."""
    is_listed: bool = field(init=False, repr=False)
    """Whether the pairs are in memory, so that `pairs` exists."""

    def __post_init__(self) -> None:
        vars(self).update(
            sizes=tuple(C.shape[0] for C in self.prior_factors),
            learns_threshold=not isinf(self.c0),
            is_listed=isinstance(self.term, PairTerm),
        )

    @classmethod
    def of(
        cls, term: Term, c0: float = inf, mu0: float = 0.0, prior: Sequence[Array] | None = None
    ) -> LogDetProblem:
        """Return the problem of a term, wherever its pairs are; no prior is the identity."""
        factors = tuple(eye(n, like=term.like) for n, _ in term.block_shapes)
        problem = cls(term, c0, mu0, factors)
        return problem if prior is None else problem.with_prior(prior)

    @classmethod
    def build(
        cls,
        blocks: Blocks,
        pairs: IndexPairs,
        loss: PairLoss,
        *,
        c0: float = inf,
        mu0: float = 0.0,
        prior: Sequence[Array] | None = None,
        dtype: str = "float64",
        center: Sequence[Array] | None = None,
    ) -> LogDetProblem:
        """Build the problem of pairs in memory; `prior=None` stands for the identity.

        With a `center`, one array of shape (n_m, n'_m) per block, each block of differences has a
        block of sums of centred samples, and there are 2M priors (docs/theory.md, (Mid)).
        """
        return cls.of(pair_term(blocks, pairs, loss, dtype, center), c0, mu0, prior)

    def with_prior(self, prior: Sequence[Array]) -> LogDetProblem:
        """Return the problem with another prior, for a problem whose prior is the identity."""
        like = self.prior_factors[0]
        factors = tuple(placed(self.xp.linalg.cholesky(W0), like) for W0 in prior)
        term = self.term.whitened(factors)
        return replace(self, term=term, prior_factors=factors, prior=tuple(prior))

    def smoothed(self, smoothing: float) -> LogDetProblem:
        """Return the problem with smoothed losses, for a term of the squared hinge."""
        return replace(self, term=self.term.smoothed(smoothing))

    def without_threshold(self) -> LogDetProblem:
        """Return the problem as one that reports no threshold, for comparisons alone."""
        return replace(self, has_threshold=False)

    def with_loss(self, loss: PairLoss, c0: float) -> LogDetProblem:
        """Return the problem of the same pairs with another loss and another c0."""
        return replace(self, term=self.pairs.with_loss(loss), c0=c0)

    @property
    def pairs(self) -> PairTerm:
        """The term of pairs in memory; raises TypeError where they are not."""
        if not isinstance(self.term, PairTerm):
            raise TypeError("problem: expected pairs in memory")
        return self.term

    @property
    def xp(self) -> Any:
        """The array namespace of the data."""
        return namespace(self.prior_factors[0])

    def returned(self, L: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """Return C L, the factors in the user's coordinates, and L, both made lower triangular."""
        triangular = [lower_triangular(factor) for factor in L]
        if self.prior is None:
            return triangular, triangular
        blocks = zip(self.prior_factors, triangular, strict=True)
        return [C @ factor for C, factor in blocks], triangular

    def whitened(self, L: Sequence[Array]) -> list[Array]:
        """Return C⁻¹L, the factors in this problem's coordinates, of factors in the user's."""
        blocks = zip(self.prior_factors, L, strict=True)
        return [self.xp.linalg.solve(C, placed(factor, C)) for C, factor in blocks]

    @cached_property
    def prior_rounding(self) -> tuple[float, float]:
        """‖|C⁻¹||C|‖_F, and a bound of ‖Cᵀ W0⁻¹ C − I‖_F, the rounding error of the factor C."""
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
        """C_m in float64."""
        return [self.xp.linalg.cholesky(as_double(W0)) for W0 in self.prior or ()]

    def whitened_in_double(
        self, L: Sequence[Array], known: Sequence[Array]
    ) -> tuple[list[Array], float]:
        """Compute C⁻¹L in float64, and a bound of its error.

        `known` is C⁻¹L as the solver knows it; it is reused if it is float64 already.
        """
        if self.prior is None:
            return list(L), 0.0
        xp, found, square = self.xp, [], 0.0  # theory (Round)
        for C, factor, near in zip(self._exact_prior_factors, L, known, strict=True):
            inverse = xp.linalg.inv(C)
            exact = near.dtype == C.dtype
            B = near if exact else _triangular_quotient(factor, C, inverse)
            rounding = accumulated(C.shape[0] + 2, unit_roundoff(C))
            residual = xp.abs(C @ B - factor) + rounding * (xp.abs(C) @ xp.abs(B) + xp.abs(factor))
            square += float(xp.linalg.matrix_norm(xp.abs(inverse) @ residual)) ** 2
            found.append(B)
        return found, 1.01 * sqrt(square)

    def sample(self, size: int, rng: Any) -> LogDetProblem:
        """Return the problem of about `size` random pairs or fewer, scaled to represent all."""
        return self.with_term(self.term.sample(size, rng))

    def with_term(self, term: Term) -> LogDetProblem:
        """Return the problem with another term, and with its prior on the device of the term."""
        prior = None if self.prior is None else tuple(placed(W0, term.like) for W0 in self.prior)
        factors = tuple(placed(C, term.like) for C in self.prior_factors)
        return replace(self, term=term, prior_factors=factors, prior=prior)

    def placed(self, like: Array) -> LogDetProblem:
        """Copy a problem of pairs in memory to the namespace and device of `like`."""
        return self.with_term(self.pairs.placed(like))

    def identity(self) -> list[Array]:
        """Return the factors of W = W0."""
        return [eye(n, like=C) for n, C in zip(self.sizes, self.prior_factors, strict=True)]

    def at(self, L: Sequence[Array], b0: float) -> Point:
        """Return the view from W_m = L_m L_mᵀ and b0, which computes its members when used."""
        return Point(self, self.term.at(L, float(b0)), tuple(L), float(b0))

    def regulariser(self, stacks: Sequence[Array], b0: float) -> float:
        """Compute the part of F that does not depend on the pairs, given L or stacks of L."""
        value = 0.0  # theory (Loss)
        for L in stacks:
            logdet = 2 * total(self.xp.linalg.slogdet(L)[1])
            value += inner(L, L) - logdet - prod(L.shape[:-1])
        if self.learns_threshold:
            value += self.c0 / 2 * (b0 - self.mu0) * (b0 - self.mu0)
        return value

    def threshold_force(self, s: Array) -> float:
        """Compute γᵀs."""
        return inner(self.pairs.loss.gamma, s)

    def best_multiple(self, s: Array) -> tuple[float, float]:
        """Return θ in [0, 1] with the largest g(θ s), and this value."""
        loss = self.pairs.loss
        eigenvalues = [self.xp.linalg.eigvalsh(S) for S in self.pairs.sums.scatter(s)]
        shift = 0.0 if loss.offset is None else inner(loss.offset, s)

        def conjugate(theta: float) -> float:
            return total(loss.conjugates(theta * s)) + theta * shift

        return DualAlong(self, eigenvalues, self.threshold_force(s), conjugate).best()

    def scaled_start(self, longest: float) -> tuple[float, float]:
        """Return t ≤ 1 with a mean distance of at most `longest` at W = t W0, and the best b0."""
        pairs = self.term.for_start()
        distances, _, _, reach, _ = pairs.sums.evaluate()
        mean = float(namespace(distances).mean(distances if reach is None else reach() ** 2))
        t = min(1.0, longest / max(mean, 1.0))
        return t, best_threshold(t * distances, pairs.loss, self.c0, self.mu0)


@dataclass(frozen=True)
class DualAlong:
    """g(θ s) as a function of θ ≥ 0 (docs/theory.md, (Conj) and (GapS)): concave, and 0 at 0.

    Parameters
    ----------
    problem : LogDetProblem
        The problem whose dual is g.
    eigenvalues : sequence of arrays
        The eigenvalues of S(s).
    force : float
        γᵀs.
    conjugate : callable
        Σ φ*(θ s) + θ oᵀs as a function of θ.
    """

    problem: LogDetProblem
    eigenvalues: Sequence[Array]
    force: float
    conjugate: Callable[[float], float]

    def value(self, theta: float) -> float:
        """Compute g(θ s); −∞ where it is not defined."""
        xp = namespace(self.eigenvalues[0])  # theory (Conj)
        moved = [theta * nu for nu in self.eigenvalues]
        if any(smallest(nu) <= -1 for nu in moved):
            return -inf
        logdet = sum(total(xp.log1p(nu)) for nu in moved)
        c0, mu0, force = self.problem.c0, self.problem.mu0, theta * self.force
        return logdet - self.conjugate(theta) - mu0 * force - force * force / (2 * c0)

    def best(self) -> tuple[float, float]:
        """Return θ in [0, 1] with the largest g(θ s), and this value."""
        lowest = min(map(smallest, self.eigenvalues))  # theory (GapS)
        end = 1.0 if lowest > -1 else -INSIDE / lowest
        if self.problem.term.quadratic:
            inside = self._root(end)
        else:  # from values alone
            opposite, limits = lambda theta: -self.value(float(theta)), (0.0, end)
            found = minimize_scalar(
                opposite, bounds=limits, method="bounded", options={"maxiter": 20}
            )
            inside = float(found.x)
        value, theta = max((0.0, 0.0), *((self.value(theta), theta) for theta in {inside, 1.0}))
        return theta, value

    def _root(self, end: float) -> float:
        """Return the root of the slope between 0 and `end`, for a quadratic conjugate."""
        half, other = self.conjugate(1.0), self.conjugate(-1.0)
        linear = (half - other) / 2 + self.problem.mu0 * self.force
        twice = half + other + self.force * self.force / self.problem.c0

        # brentq leaves its function to the garbage collector: it must not hold the pairs, as
        # `self` does.
        eigenvalues = self.eigenvalues

        def slope(theta: float) -> float:
            logdet = sum(total(nu / (1 + theta * nu)) for nu in eigenvalues)
            return logdet - linear - twice * theta

        if not slope(0.0) > 0 > slope(end):  # the best θ is one of the two
            return end
        return float(brentq(slope, 0.0, end, **ACCURACY))


@dataclass(frozen=True)
class Point:
    """The problem at one point (W, b0): values, derivatives and gap, each computed once.

    Matrices are in the coordinates that whiten W: V stands for L V Lᵀ, and the Hessian of the
    LogDet term is the identity.
    """

    problem: LogDetProblem
    term: TermAtPoint
    L: tuple[Array, ...]
    b0: float

    @property
    def pairs(self) -> PairsAtPoint:
        """The pairs in memory; raises TypeError where they are not."""
        if not isinstance(self.term, PairsAtPoint):
            raise TypeError("point: expected pairs in memory")
        return self.term

    @property
    def slope(self) -> Array | None:
        """s_k = φ'_k(ζ_k), shape (n_pairs,); None where the pairs are not in memory."""
        return self.pairs.evaluation.s if self.problem.is_listed else None

    @property
    def n_active(self) -> int:
        """The number of active pairs."""
        return self.term.totals.n_active

    @cached_property
    def primal(self) -> float:
        """F(W, b0)."""
        return self.problem.regulariser(self.stacks, self.b0) + self.term.totals.loss

    @cached_property
    def stacks(self) -> list[Array]:
        """L, with blocks of one size as one stack: small matrices cost more to call than to use."""
        return stacked(self.L)

    @cached_property
    def gradient_stacks(self) -> list[Array]:
        """The whitened gradient LᵀPL − I, P = I + S(s), with blocks of one size as one stack."""
        xp, scatter = self.problem.xp, stacked(self.term.totals.scatter)
        return [  # theory (N)
            xp.matrix_transpose(L) @ L + S - eye(L.shape[-1], like=L)
            for L, S in zip(self.stacks, scatter, strict=True)
        ]

    @property
    def gradient(self) -> list[Array]:
        """The whitened gradient LᵀPL − I of each block."""
        return unstacked(self.gradient_stacks)

    @cached_property
    def threshold_slope(self) -> float:
        """g_b/√c0 = (c0(b0 − μ0) − γᵀs)/√c0, the scaled derivative in b0; 0 where b0 is fixed."""
        problem = self.problem
        if not problem.learns_threshold:
            return 0.0
        root = sqrt(problem.c0)
        return root * (self.b0 - problem.mu0) - self.term.totals.force / root

    @cached_property
    def eigenvalues(self) -> list[Array]:
        """Eigenvalues of the whitened gradient, one array per stack of blocks."""
        return [self.problem.xp.linalg.eigvalsh(G) for G in self.gradient_stacks]

    @cached_property
    def gap(self) -> float:
        """A bound of F(W, b0) − min F that does not cancel near the solution."""
        gap = (
            sum(map(excess_by_cholesky, self.gradient)) if max(self.problem.sizes) >= LARGE else 0.0
        )
        rounding = ROUNDING * self.problem.xp.finfo(self.L[0].dtype).eps
        if gap <= float(rounding) * sum(self.problem.sizes):  # small matrices, or a tiny gap
            gap = excess_by_eigenvalues(self.eigenvalues)
        gap += self.threshold_slope * self.threshold_slope / 2  # theory (GapN)
        if gap > 0.01 * self.primal:  # far from the solution, cancellation is harmless
            # Eigenvalues of large matrices are slow on a GPU: there, use g(0) = 0 instead.
            slow = on_gpu(self.L[0]) and max(self.problem.sizes) >= LARGE
            gap = min(gap, self.primal - (0.0 if slow else self._scaled_dual()))
        return max(gap, 0.0)

    def _scaled_dual(self) -> float:
        """Compute the maximum of g(θ s) over 0 ≤ θ ≤ 1; s may be outside the dual's domain."""
        xp, totals, nu = self.problem.xp, self.term.totals, []  # theory (GapS)
        for L, S in zip(self.stacks, stacked(totals.scatter), strict=True):
            transposed = xp.matrix_transpose(L)
            half = xp.matrix_transpose(xp.linalg.solve(transposed, S))
            nu.append(xp.linalg.eigvalsh(symmetrised(xp.linalg.solve(transposed, half))))
        return DualAlong(self.problem, nu, totals.force, self.term.conjugate).best()[1]

    def quick_certificate(self, triangular: Sequence[Array]) -> Certificate | None:
        """Return the quick certificate of this point, in the form in which it is returned.

        None unless the pairs are in memory and the computation is in float64.
        """
        precise = self.L[0].dtype == self.problem.xp.float64
        return quick_certificate(self, triangular) if precise and self.problem.is_listed else None

    def along(self, V: Sequence[Array], b: float) -> Line:
        """Return the losses along the direction V and b, the threshold's part scaled by √c0."""
        return self.term.along(V, b / sqrt(self.problem.c0))

    def hessian(self, factors: Sequence[Array], rng: Any = None) -> Array:
        """Assemble Σ h z zᵀ, in the coordinates of further factors (theory (N))."""
        return self.term.hessian(factors, self.problem.c0, rng)

    def products(self, factors: Sequence[Array]) -> HessianProduct:
        """Return Σ h z zᵀ as an operator, in the coordinates of further factors."""
        return self.term.products(factors, self.problem.c0)


def _triangular_quotient(L: Array, C: Array, inverse: Array) -> Array:
    """Compute C⁻¹L of lower triangular factors, with a diagonal that is accurate to rounding."""
    xp = namespace(L)
    diagonal = xp.linalg.diagonal(L) / xp.linalg.diagonal(C)
    return xp.tril(inverse @ L, k=-1) + eye(L.shape[0], like=L) * diagonal


def build_pair_sums(
    blocks: Blocks,
    pairs: IndexPairs,
    dtype: str = "float64",
    center: Sequence[Array] | None = None,
) -> Sums:
    """Arrange the features for sums over pairs, or over comparisons of pairs.

    With a `center`, there are as many blocks of sums as of differences.
    """
    xp, precision = blocks.xp, getattr(blocks.xp, dtype)
    # If there are few pairs, their differences are formed at once, which needs no centring.
    # In both cases features are rounded to float32 afterwards.
    many, double = len(pairs) > len(blocks), precision == xp.float64
    features = lay_out(blocks.arrays, centre=many, double=double, midpoint=center)
    signs = signs_of(blocks.n_blocks, center)
    first, second = (asarray(rows, like=features[0]) for rows in (pairs.first, pairs.second))
    sums = PairSums.of(features, first, second, signs=signs).compact()
    sums = sums.converted(lambda block: xp.astype(block, precision, copy=False))
    if pairs.links is None:
        return sums
    return ComparisonSums(sums, Links(*(asarray(rows, like=features[0]) for rows in pairs.links)))


def pair_term(
    blocks: Blocks,
    pairs: IndexPairs,
    loss: PairLoss,
    dtype: str = "float64",
    center: Sequence[Array] | None = None,
) -> PairTerm:
    """Return the term of pairs or comparisons in memory; with a `center`, of their sums too."""
    sums = build_pair_sums(blocks, pairs, dtype, center)
    return PairTerm(sums, loss.placed(sums.features.like), given_loss=loss)


class LabelledPairs(Protocol):
    """Protocol of pairs for which a loss can be made: `Pairs`, or a piece of a shard."""

    @property
    def similar(self) -> NDArray[np.bool_]:
        """Whether each pair is similar."""

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """The weights of the pairs; None for weights of 1."""


def squared_hinge(pairs: LabelledPairs, C: float, margin: tuple[float, float]) -> SquaredHinge:
    """Build TATML's loss of the given pairs, with weights c w_k and γ_k from the margins."""
    sign, gamma = np.where(pairs.similar, 1.0, -1.0), np.where(pairs.similar, *margin)
    return SquaredHinge(sign, scaled_weights(C, pairs.weights, len(sign)), gamma)


def additive_hinge(pairs: LabelledPairs, C: float) -> SquaredHinge:
    """Build the loss (c w/2) [1 + y ζ]_+² of the given pairs, for scores of any sign."""
    sign = np.where(pairs.similar, 1.0, -1.0)  # theory (Mid)
    weight = scaled_weights(C, pairs.weights, len(sign))
    return SquaredHinge(sign, weight, np.ones(len(sign)), -sign)


def logistic(pairs: LabelledPairs, C: float) -> LogisticLoss:
    """Build the logistic loss of the given pairs."""
    sign = np.where(pairs.similar, 1.0, -1.0)
    return LogisticLoss(sign, scaled_weights(C, pairs.weights, len(sign)), np.ones(len(sign)))


def custom(pairs: LabelledPairs, C: float, function: CustomLoss) -> ViolationLoss:
    """Build the loss of the given pairs from a function of the user's own."""
    sign = np.where(pairs.similar, 1.0, -1.0)
    weight = scaled_weights(C, pairs.weights, len(sign))
    return ViolationLoss(sign, weight, np.ones(len(sign)), function)


def best_threshold(distances: Array, loss: PairLoss, c0: float, mu0: float) -> float:
    """Minimise Σ_k φ_k(ζ_k) + (c0/2)(b0 − μ0)² over b0: find the root of increasing ψ."""
    if isinf(c0):  # theory (B0)
        return mu0
    gamma, b0 = loss.gamma, mu0
    low, high = -inf, inf
    for _ in range(100):
        zeta = zeta_at(loss, distances, b0)
        psi = c0 * (b0 - mu0) - inner(gamma, loss.slope(zeta))
        slope = c0 + inner(gamma**2, loss.curvature(zeta))
        low, high = (b0, high) if psi < 0 else (low, b0)
        following = b0 - psi / slope
        if not low <= following <= high:
            following = (low + high) / 2
        if abs(following - b0) <= 4e-16 * abs(b0):
            break
        b0 = following
    return b0
