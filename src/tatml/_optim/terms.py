"""What a solver asks of the data: the same few questions, wherever the data are.

The objective (docs/theory.md, (Loss)) is a prior plus *terms*. A term is a sum of convex losses of
numbers that are linear in W and b0; the pairs are one. A term answers

    at(L, b0)        totals there: Σφ, Σφ*, γᵀs, S and how many are active; then its part of the
                     Hessian, assembled or as a product, and the losses along a line
    certify(L, b0)   the totals with their rounding errors
    sample(size)     a term in memory that stands for this one

in memory (`pair_term.py`), or in shards, on disk, on a GPU, on a cluster or as tiles of all pairs
(`shards.py`). A new place to compute is one more class with these members.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .._array import Array
from .certificate import PairTotals
from .hessian import Direction

if TYPE_CHECKING:
    from .pair_term import PairsAtPoint, PairTerm

__all__ = ["HessianProduct", "Line", "Term", "TermAtPoint", "Totals", "add", "added"]


class Totals(NamedTuple):
    """Sums over a term at a point; s = φ'(ζ) there."""

    loss: float
    """Σ φ(ζ)."""
    force: float
    """γᵀs."""
    conjugate: float
    """Σ φ*(s)."""
    n_active: int
    """How many have a positive curvature."""
    scatter: list[Array]
    """LᵀS(s)L of each block."""


class Line(Protocol):
    """The losses of a term along a direction, as functions of the step length."""

    def slope(self, t: float) -> float:
        """Σ u (φ'(ζ + t u) − φ'(ζ))."""

    def increase(self, t: float) -> float:
        """Σ φ(ζ + t u) − φ(ζ) − t u φ'(ζ)."""


class HessianProduct(Protocol):
    """A term's part of the Hessian, as an operator."""

    def product(self, V: Sequence[Array], b: float) -> Direction:
        """Σ h z zᵀ (V, b)."""


class TermAtPoint(Protocol):
    """A term seen from one (W, b0). Matrices are in the coordinates that whiten W."""

    @property
    def totals(self) -> Totals:
        """The sums."""

    @property
    def listed(self) -> PairsAtPoint | None:
        """The same with one number per pair, where the pairs are in memory."""

    def conjugate(self, theta: float) -> float:
        """Σ φ*(θ s)."""

    def along(self, V: Sequence[Array], change: float) -> Line:
        """The losses along the direction V, b0 changing by `change`."""

    def hessian(self, factors: Sequence[Array], c0: float, rng: Any = None) -> Array:
        """Σ h z zᵀ in the coordinates of further factors; with an `rng`, perhaps of a sample."""

    def products(self, factors: Sequence[Array], c0: float) -> HessianProduct:
        """The same as an operator."""

    def costs(self, sampled: bool, products: int) -> dict[str, float]:
        """What each way to solve Newton's system would cost here."""


class Term(Protocol):
    """One of the sums that the objective consists of."""

    @property
    def xp(self) -> Any:
        """The array namespace."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_m of each block."""

    @property
    def n_pairs(self) -> int:
        """How many pairs it sums over."""

    @property
    def quadratic(self) -> bool:
        """Whether φ*(θ s) = θ² φ*(s)."""

    @property
    def largest_sample(self) -> int:
        """How many pairs a sample in memory may have."""

    @property
    def listed(self) -> PairTerm | None:
        """The term itself where its pairs are in memory, one by one."""

    def whitened(self, factors: Sequence[Array]) -> Term:
        """The same term for the features CᵀΦ, given that it is in the user's coordinates."""

    def at(self, L: Sequence[Array], b0: float) -> TermAtPoint:
        """Look at W = L Lᵀ and b0; nothing is computed before it is asked for."""

    def sample(self, size: int, rng: Any) -> PairTerm:
        """About `size` random pairs, in memory, which stand for all."""

    def for_start(self) -> PairTerm:
        """Pairs in memory that are enough to say where a solver should start."""

    def certify(
        self, L: Sequence[Array], b0: float, n_pairs: int, s: Array | None = None
    ) -> PairTotals:
        """The sums at factors in the user's coordinates, with their rounding errors."""


def add(a: Any, b: Any) -> Any:
    """The sum of two results: numbers, arrays, and lists or tuples of them, with names or not."""
    if a is None:
        return None
    if type(a) is list:
        return [add(one, other) for one, other in zip(a, b, strict=True)]
    if hasattr(a, "_fields"):
        return type(a)(*map(add, a, b))
    return tuple(map(add, a, b)) if type(a) is tuple else a + b


def added(results: Sequence[Any]) -> Any:
    """The sum of some results, in their order."""
    return reduce(add, results)
