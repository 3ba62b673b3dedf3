"""The problem seen from one (W, b0): values, derivatives and certificate, each computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, sqrt
from typing import TYPE_CHECKING, Any

from .._array import Array, eye, linalg_errors, namespace, on_gpu, symmetrised
from .certificate import Certificate, quick_certificate
from .hessian import Direction
from .pair_term import PairsAtPoint
from .terms import HessianProduct, Line, TermAtPoint, Totals, added

if TYPE_CHECKING:
    from .problem import LogDetProblem

__all__ = ["KKT", "Lines", "Point", "Products", "excess"]

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
    def parts(self) -> tuple[TermAtPoint, ...]:
        """The terms of the problem, seen from here."""
        return tuple(term.at(self.L, self.b0) for term in self.problem.terms)

    @property
    def pairs(self) -> PairsAtPoint:
        """The pairs, of a problem whose only term they are and that has them in memory."""
        listed = self.parts[0].listed
        if listed is None or len(self.parts) > 1:
            raise TypeError("point: expected pairs in memory as the only term")
        return listed

    @cached_property
    def totals(self) -> Totals:
        """The sums over all terms."""
        return added([part.totals for part in self.parts])

    @property
    def slope(self) -> Array | None:
        """s_k = φ'_k(ζ_k), shape (n_pairs,), where the pairs are the only term and in memory."""
        return self.pairs.slope if self.problem.is_listed else None

    @property
    def n_active(self) -> int:
        """How many pairs are active."""
        return self.totals.n_active

    @cached_property
    def primal(self) -> float:
        """F(W, b0)."""
        return self.problem.regulariser(self.L, self.b0) + self.totals.loss

    def conjugate(self, theta: float) -> float:
        """Σ φ*(θ s)."""
        return sum(part.conjugate(theta) for part in self.parts)

    @property
    def scatter(self) -> list[Array]:
        """LᵀS(s)L."""
        return self.totals.scatter

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
        return self.problem.residual_of(self.b0, self.totals.force)

    @cached_property
    def eigenvalues(self) -> list[Array]:
        """Eigenvalues of the whitened gradient, ascending, one array per block."""
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
        return self.problem.best_scale(nu, self.totals.force, self.conjugate)[1]

    def quick_certificate(self, triangular: Sequence[Array]) -> Certificate | None:
        """The certificate of what this point is returned as; None where that is not quick.

        Single pairs have to be at hand, and float32 is too imprecise.
        """
        precise = self.L[0].dtype == self.problem.xp.float64
        return quick_certificate(self, triangular) if precise and self.problem.is_listed else None

    @property
    def dual(self) -> float:
        """The value of the dual point behind `gap`."""
        return self.primal - self.gap

    def along(self, V: Sequence[Array], b: float) -> Lines:
        """The losses along the direction V and, scaled by √c0, b."""
        change = b / sqrt(self.problem.c0)
        return Lines([part.along(V, change) for part in self.parts])

    def hessian(self, factors: Sequence[Array], rng: Any = None) -> Array:
        """Σ h z zᵀ over all terms, in the coordinates of further factors (theory (N))."""
        return added([part.hessian(factors, self.problem.c0, rng) for part in self.parts])

    def products(self, factors: Sequence[Array]) -> Products:
        """The same as an operator."""
        return Products([part.products(factors, self.problem.c0) for part in self.parts])

    def costs(self, sampled: bool, products: int) -> dict[str, float]:
        """What each way to solve Newton's system would cost here."""
        every = [part.costs(sampled, products) for part in self.parts]
        names = set.intersection(*(set(each) for each in every))
        if len(every) > 1:  # as many dimensions as there are active pairs: of one term alone
            names -= {"woodbury"}
        return {name: sum(each[name] for each in every) for name in every[0] if name in names}

    def kkt(self, s: Array | None = None) -> KKT:
        """Residuals of the optimality conditions with multipliers s (default: φ' at this point)."""
        xp = self.problem.xp
        slope = self.pairs.slope
        s = slope if s is None else s
        residual = self.residual(self.pairs.sums.scatter(s))
        metric = max(float(xp.max(xp.abs(xp.linalg.eigvalsh(R)))) for R in residual)
        threshold = abs(self.problem.threshold_residual(self.b0, s))
        return KKT(metric, threshold, float(xp.max(xp.abs(s - slope))))


@dataclass(frozen=True)
class Lines:
    """The losses of all terms along a direction."""

    parts: Sequence[Line]

    def slope(self, t: float) -> float:
        """Σ u (φ'(ζ + t u) − φ'(ζ))."""
        return sum(part.slope(t) for part in self.parts)

    def increase(self, t: float) -> float:
        """Σ φ(ζ + t u) − φ(ζ) − t u φ'(ζ)."""
        return sum(part.increase(t) for part in self.parts)


@dataclass(frozen=True)
class Products:
    """The Hessian of all terms as an operator."""

    parts: Sequence[HessianProduct]

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Σ h z zᵀ (V, b)."""
        return added([part.product(V, b) for part in self.parts])


def excess(G: Array) -> float:
    """tr G − logdet(I + G), ∞ where I + G is not positive definite: no eigenvalues are needed."""
    xp = namespace(G)
    try:
        factor = xp.linalg.cholesky(G + eye(G.shape[0], like=G))
    except linalg_errors():
        return inf
    value = float(xp.linalg.trace(G) - 2 * xp.sum(xp.log(xp.linalg.diagonal(factor))))
    return inf if isnan(value) else value
