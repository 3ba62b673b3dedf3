"""`Term`, the losses of the objective: the interface between the solvers and the data.

The objective (docs/theory.md, (Loss)) is a prior plus a *term*: a sum of convex losses of numbers
that are linear in W and b0, one per pair or comparison. A term provides

    at(L, b0)        its view from a point: the totals Σφ, Σφ*, γᵀs, S and the number of active
                     pairs; its part of the Hessian, as a matrix or as an operator; and the losses
                     along a line
    certify(L, b0)   the totals with bounds of their rounding errors
    sample(size)     a term of a random sample of the pairs

`pair_term.py` has the term of pairs in memory. The package `_sharding` has those of pairs on disk,
on a GPU, on a cluster, and of all pairs. To compute in another place, write a class with the
members of `Term`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .._array import Array
from .certificate import PairTotals
from .hessian import Direction

if TYPE_CHECKING:
    from .pair_term import PairTerm


class Totals(NamedTuple):
    """Sums over the pairs of a term at a point, with s = φ'(ζ)."""

    loss: float
    """Σ φ(ζ)."""
    force: float
    """γᵀs."""
    conjugate: float
    """Σ φ*(s)."""
    shift: float
    """oᵀs, with o the offsets of the losses."""
    n_active: int
    """The number of pairs with positive curvature."""
    scatter: list[Array]
    """LᵀS(s)L of each block."""


class Line(NamedTuple):
    """The losses of a term along a direction, as functions of the step length."""

    slope: Callable[[float], float]
    """Computes Σ u (φ'(ζ + t u) − φ'(ζ))."""
    increase: Callable[[float], float]
    """Computes Σ φ(ζ + t u) − φ(ζ) − t u φ'(ζ)."""


class HessianProduct(Protocol):
    """A term's part of the Hessian, as an operator."""

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Compute Σ h z zᵀ (V, b)."""

    def in_single(self) -> HessianProduct | None:
        """Return the operator with sums in float32; None where that is not worth it."""


class TermAtPoint(Protocol):
    """A term at one point (W, b0). Matrices are in the coordinates that whiten W."""

    @property
    def totals(self) -> Totals:
        """The sums over the pairs."""

    def conjugate(self, theta: float) -> float:
        """Compute Σ φ*(θ s) + θ oᵀs."""

    def along(self, V: Sequence[Array], change: float) -> Line:
        """Return the losses along the direction V while b0 changes by `change`."""

    def hessian(self, factors: Sequence[Array], c0: float, rng: Any = None) -> Array:
        """Assemble Σ h z zᵀ in the coordinates of further factors.

        With an `rng`, a sample of the pairs may be used.
        """

    def products(self, factors: Sequence[Array], c0: float) -> HessianProduct:
        """Return Σ h z zᵀ as an operator, in the coordinates of further factors."""


class Term(Protocol):
    """The sum of losses in the objective."""

    @property
    def block_shapes(self) -> tuple[tuple[int, int], ...]:
        """(n_m, n'_m) of each block."""

    @property
    def n_pairs(self) -> int:
        """The number of pairs."""

    @property
    def quadratic(self) -> bool:
        """Whether φ*(θ s) = θ² φ*(s) for all θ."""

    def whitened(self, factors: Sequence[Array]) -> Term:
        """Return the term of the features CᵀΦ, for a term in the user's coordinates."""

    @property
    def like(self) -> Array:
        """An array on the device, and in the precision, of the points where it is computed."""

    @property
    def compares(self) -> bool:
        """Whether it has comparisons with squared hinges, on which the active set may cycle."""

    def smoothed(self, smoothing: float) -> Term:
        """Return the term with smoothed losses, for a term whose loss is the squared hinge."""

    def at(self, L: Sequence[Array], b0: float) -> TermAtPoint:
        """Return the view from W = L Lᵀ and b0, which computes its members when they are used."""

    def sample(self, size: int, rng: Any) -> Term:
        """Draw about `size` pairs, or as many as fit, with losses scaled to represent all pairs."""

    def for_start(self) -> PairTerm:
        """Return pairs in memory, enough of them to choose the start of a solver."""

    def mean_scatter(self, share: Array | None) -> list[Array]:
        """Compute the mean of ΔΔᵀ in each block, as NumPy arrays in the user's coordinates.

        `share` has the weights of the pairs, with sum 1; None: in proportion to those of the
        losses, for pairs without comparisons.
        """

    def certify(self, L: Sequence[Array], b0: float, s: Array | None = None) -> PairTotals:
        """Compute the sums and their rounding errors, at factors in the user's coordinates."""
