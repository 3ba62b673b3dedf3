"""The problem seen from one (W, b0): values, derivatives and certificate, each computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, sqrt
from typing import TYPE_CHECKING

from ._array import Array, eye, linalg_errors, namespace, on_gpu, symmetrised
from .certificate import Certificate, quick_certificate
from .sums import PairSums

if TYPE_CHECKING:
    from .problem import LogDetProblem

__all__ = ["KKT", "Along", "Point", "excess"]

LARGE = 64  # rows: from here on a Cholesky factorisation certifies, which is far faster
ROUNDING = 5e7  # rounding errors a row: a gap that is not larger is found from eigenvalues


@dataclass(frozen=True)
class KKT:
    """How far (W, b0, s) is from the optimality conditions; all are zero at the solution."""

    metric: float
    """Largest |eigenvalue| of LᵀPL − I, the whitened gradient, with P = I + S(s)."""
    threshold: float
    """|c0(b0 − μ0) − γᵀs| / √c0; zero when the threshold is fixed."""
    pairs: float
    """Largest |s_k − φ'_k(ζ_k)|."""


@dataclass(frozen=True)
class Point:
    """The problem seen from one (W, b0): values, derivatives, certificate, each computed once.

    Matrices are in the coordinates that whiten W: V stands for L V Lᵀ, and the Hessian of the
    LogDet term is the identity.
    """

    problem: LogDetProblem
    L: tuple[Array, ...]
    b0: float

    @cached_property
    def sums(self) -> PairSums:
        """The pair differences LᵀΔ."""
        return self.problem.sums.transformed(self.L)

    @cached_property
    def _pass(self) -> tuple[Array, list[Array]]:
        """Distances and LᵀS(s)L in one pass over the pairs."""

        def slope(part: slice, distances: Array) -> Array:
            loss = self.problem.loss[part]
            return loss.slope(distances - loss.gamma * self.b0)

        return self.sums.distances_and_scatter(slope)

    @property
    def distances(self) -> Array:
        """D_k, shape (n_pairs,)."""
        return self._pass[0]

    @cached_property
    def zeta(self) -> Array:
        """ζ_k = D_k − γ_k b0, shape (n_pairs,)."""
        return self.distances - self.problem.loss.gamma * self.b0

    @cached_property
    def slope(self) -> Array:
        """s_k = φ'_k(ζ_k), shape (n_pairs,)."""
        return self.problem.loss.slope(self.zeta)

    @cached_property
    def curvature(self) -> Array:
        """h_k = φ''_k(ζ_k), shape (n_pairs,)."""
        return self.problem.loss.curvature(self.zeta)

    @cached_property
    def active(self) -> Array:
        """Indices of the pairs with positive curvature."""
        return self.problem.xp.nonzero(self.curvature > 0)[0]

    @property
    def n_active(self) -> int:
        """How many pairs are active."""
        return self.active.shape[0]

    @cached_property
    def primal(self) -> float:
        """F(W, b0)."""
        return self.problem.regulariser(self.L, self.b0) + self.loss_value

    @cached_property
    def loss_value(self) -> float:
        """Σ_k φ_k(ζ_k)."""
        return float(self.problem.xp.sum(self.problem.loss.value(self.zeta)))

    @cached_property
    def force(self) -> float:
        """γᵀs."""
        return self.problem.threshold_force(self.slope)

    def conjugate(self, theta: float) -> float:
        """Σ_k φ*_k(θ s_k)."""
        if self.problem.loss.quadratic:
            return theta**2 * self._conjugate_sum
        return float(self.problem.xp.sum(self.problem.loss.conjugate(theta * self.slope)))

    @cached_property
    def _conjugate_sum(self) -> float:
        return float(self.problem.xp.sum(self.problem.loss.conjugate(self.slope)))

    @property
    def scatter(self) -> list[Array]:
        """LᵀS(s)L."""
        return self._pass[1]

    @cached_property
    def gradient(self) -> list[Array]:
        """The whitened gradient LᵀPL − I, P = I + S(s)."""
        return self.residual(self.scatter)  # theory (N)

    def residual(self, scatter: Sequence[Array]) -> list[Array]:
        """LᵀPL − I, given LᵀSL."""
        pairs = zip(self.L, scatter, strict=True)
        return [L.T @ L + S - eye(L.shape[0], like=L) for L, S in pairs]

    @cached_property
    def threshold_slope(self) -> float:
        """g_b/√c0, the scaled derivative in b0; zero when the threshold is fixed."""
        return self.problem.residual_of(self.b0, self.force)

    @cached_property
    def eigenvalues(self) -> list[Array]:
        """Eigenvalues of the whitened gradient, ascending, one array a block."""
        return [self.problem.xp.linalg.eigvalsh(G) for G in self.gradient]

    @cached_property
    def gap(self) -> float:
        """A certified bound of F(W, b0) − min F, free of cancellation near the solution."""
        gap = sum(map(excess, self.gradient)) if max(self.problem.sizes) >= LARGE else 0.0
        rounding = ROUNDING * self.problem.xp.finfo(self.L[0].dtype).eps
        if gap <= float(rounding) * sum(self.problem.sizes):  # small matrices, or a tiny gap
            gap = self._excess_of_eigenvalues()
        gap += self.threshold_slope * self.threshold_slope / 2  # theory (GapN)
        if gap > 0.01 * self.primal:  # far from the solution, where cancellation does no harm
            slow = on_gpu(self.L[0]) and max(self.problem.sizes) >= LARGE  # then g(0) = 0 will do
            gap = min(gap, self.primal - (0.0 if slow else self._scaled_dual()))
        return max(gap, 0.0)

    def _excess_of_eigenvalues(self) -> float:
        """Σ e − log(1 + e) over the eigenvalues of the whitened gradient; ∞ where one is ≤ −1."""
        xp = self.problem.xp
        if not all(float(xp.min(e)) > -1 for e in self.eigenvalues):
            return inf
        return sum(float(xp.sum(e - xp.log1p(e))) for e in self.eigenvalues)

    def _scaled_dual(self) -> float:
        """max over 0 ≤ θ ≤ 1 of g(θ s), for an s that may be outside the dual's domain."""
        xp, nu = self.problem.xp, []  # theory (GapS)
        for L, S in zip(self.L, self.scatter, strict=True):
            half = xp.linalg.solve(L.T, S)
            nu.append(xp.linalg.eigvalsh(symmetrised(xp.linalg.solve(L.T, half.T))))
        return self.problem.best_scale(nu, self.force, self.conjugate)[1]

    def quick_certificate(self, triangular: Sequence[Array]) -> Certificate | None:
        """The certificate of what this point is returned as; None where sums are too imprecise."""
        if self.problem.prior_factors[0].dtype != self.problem.xp.float64:
            return None
        return quick_certificate(self, triangular)

    @property
    def dual(self) -> float:
        """The value of the dual point behind `gap`."""
        return self.primal - self.gap

    def active_pairs(
        self, factors: Sequence[Array], some: Array | None = None, scale: float = 1.0
    ) -> tuple[PairSums, Array, Array, float]:
        """What `ActivePairs` is made of, in the coordinates of factors of this point's own.

        With `some`, indices into the active pairs, those alone, their h_k multiplied by `scale`.
        """
        xp = self.problem.xp
        active = self.active if some is None else xp.take(self.active, some, axis=0)
        sums = self.sums.take(active).transformed(factors)
        curvature = xp.take(self.curvature, active, axis=0)
        gamma = xp.take(self.problem.loss.gamma, active, axis=0)
        return sums, scale * curvature, gamma, self.problem.c0

    def along(self, V: Sequence[Array], b: float) -> Along:
        """The losses along the direction V and, scaled by √c0, b."""
        gamma = self.problem.loss.gamma
        return Along(self, self.sums.quadratic(V) - gamma * (b / sqrt(self.problem.c0)))

    def kkt(self, s: Array | None = None) -> KKT:
        """Residuals of the optimality conditions with multipliers s (default: φ' at this point)."""
        xp = self.problem.xp
        s = self.slope if s is None else s
        residual = self.residual(self.sums.scatter(s))
        metric = max(float(xp.max(xp.abs(xp.linalg.eigvalsh(R)))) for R in residual)
        threshold = abs(self.problem.threshold_residual(self.b0, s))
        return KKT(metric, threshold, float(xp.max(xp.abs(s - self.slope))))


@dataclass(frozen=True)
class Along:
    """The losses of ζ + t u as functions of t."""

    point: Point
    u: Array

    def slope(self, t: float) -> float:
        """Σ_k u_k (φ'_k(ζ_k + t u_k) − φ'_k(ζ_k))."""
        point, loss = self.point, self.point.problem.loss  # theory (LS)
        moved = loss.slope(point.zeta + t * self.u)
        return float(point.problem.xp.sum(self.u * (moved - point.slope)))

    def increase(self, t: float) -> float:
        """Σ_k φ_k(ζ_k + t u_k) − φ_k(ζ_k) − t u_k φ'_k(ζ_k)."""
        point, loss = self.point, self.point.problem.loss  # theory (LS)
        return float(point.problem.xp.sum(loss.increase(point.zeta, t * self.u)))


def excess(G: Array) -> float:
    """tr G − logdet(I + G), ∞ where I + G is not positive definite: no eigenvalues are needed."""
    xp = namespace(G)
    try:
        factor = xp.linalg.cholesky(G + eye(G.shape[0], like=G))
    except linalg_errors():
        return inf
    value = float(xp.linalg.trace(G) - 2 * xp.sum(xp.log(xp.linalg.diagonal(factor))))
    return inf if isnan(value) else value
