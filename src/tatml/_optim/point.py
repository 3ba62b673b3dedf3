"""The problem at one point (W, b0): values, derivatives and gap, each computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

from .._array import Array, eye, on_gpu, stacked, symmetrised, unstacked
from .certificate import (
    Certificate,
    excess_by_cholesky,
    excess_by_eigenvalues,
    quick_certificate,
)
from .pair_term import PairsAtPoint
from .terms import HessianProduct, Line, TermAtPoint, Totals

if TYPE_CHECKING:
    from .problem import LogDetProblem

LARGE = 64  # number of rows from which the gap is computed by Cholesky factorisation
# A gap below this times eps per row is computed from eigenvalues, which do not cancel.
ROUNDING = 5e7


@dataclass(frozen=True)
class Point:
    """The problem at one point (W, b0): values, derivatives and gap, each computed once.

    Matrices are in the coordinates that whiten W: V stands for L V Lᵀ, and the Hessian of the
    LogDet term is the identity.
    """

    problem: LogDetProblem
    L: tuple[Array, ...]
    b0: float

    @cached_property
    def term(self) -> TermAtPoint:
        """The term of the problem at this point."""
        return self.problem.term.at(self.L, self.b0)

    @property
    def pairs(self) -> PairsAtPoint:
        """The pairs in memory; raises TypeError where they are not."""
        listed = self.term.listed
        if listed is None:
            raise TypeError("point: expected pairs in memory")
        return listed

    @property
    def totals(self) -> Totals:
        """The sums over the pairs."""
        return self.term.totals

    @property
    def slope(self) -> Array | None:
        """s_k = φ'_k(ζ_k), shape (n_pairs,); None where the pairs are not in memory."""
        return self.pairs.slope if self.problem.is_listed else None

    @property
    def n_active(self) -> int:
        """The number of active pairs."""
        return self.totals.n_active

    @cached_property
    def primal(self) -> float:
        """F(W, b0)."""
        return self.problem.regulariser(self.stacks, self.b0) + self.totals.loss

    def conjugate(self, theta: float) -> float:
        """Compute Σ φ*(θ s) + θ oᵀs."""
        return self.term.conjugate(theta)

    @property
    def scatter(self) -> list[Array]:
        """LᵀS(s)L."""
        return self.totals.scatter

    @cached_property
    def stacks(self) -> list[Array]:
        """L, with blocks of one size as one stack: small matrices cost more to call than to use."""
        return stacked(self.L)

    @cached_property
    def gradient_stacks(self) -> list[Array]:
        """The whitened gradient LᵀPL − I, P = I + S(s), with blocks of one size as one stack."""
        xp, stacks = self.problem.xp, zip(self.stacks, stacked(self.scatter), strict=True)
        return [  # theory (N)
            xp.matrix_transpose(L) @ L + S - eye(L.shape[-1], like=L) for L, S in stacks
        ]

    @property
    def gradient(self) -> list[Array]:
        """The whitened gradient LᵀPL − I of each block."""
        return unstacked(self.gradient_stacks)

    @cached_property
    def threshold_slope(self) -> float:
        """g_b/√c0, the scaled derivative in b0; zero when the threshold is fixed."""
        return self.problem.threshold_residual(self.b0, self.totals.force)

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
        xp, nu = self.problem.xp, []  # theory (GapS)
        for L, S in zip(self.stacks, stacked(self.scatter), strict=True):
            transposed = xp.matrix_transpose(L)
            half = xp.matrix_transpose(xp.linalg.solve(transposed, S))
            nu.append(xp.linalg.eigvalsh(symmetrised(xp.linalg.solve(transposed, half))))
        return self.problem.dual_along(nu, self.totals.force, self.conjugate).best()[1]

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
