"""The squared hinge with its kink smoothed, for problems on which Newton's active set cycles.

At the solution a row with multiplier α = y s ≥ 0 and violation a = y ζ satisfies α (α/w − a) = 0.
Smoothing asks for α (α/w − a) = ν instead, whose positive solution is α = w (a + √(a² + 4ν/w))/2
(docs/theory.md, (Smooth)): a smooth function of a, with the squared hinge as its limit for ν → 0.
If c is large, many rows are near their kinks, and a Newton step of the hinge predicts badly which
of them will be active. The solution for ν changes slowly with ν, so that one step per ν can follow
it; the last of them know the active set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._array import Array, namespace
from .losses import SquaredHinge, _nonzero, _where

if TYPE_CHECKING:
    from .problem import LogDetProblem

NEGLIGIBLE = 1e-10  # share of w below which a curvature counts as 0, so that the row is not active
# The factor of ν after a step, by the least length of the step.
FACTORS = ((0.9, 0.2), (0.5, 0.3), (0.2, 0.6), (0.0, 1.0))


@dataclass(frozen=True)
class SmoothedHinge(SquaredHinge):
    """The squared hinge with smoothed slope and curvature; its value is that of the hinge.

    Only primal-dual steps, which need no value, are taken with it.
    """

    smoothing: float = 0.0

    @classmethod
    def of(cls, loss: SquaredHinge, smoothing: float) -> SmoothedHinge:
        """Smooth a hinge."""
        return cls(loss.sign, loss.weight, loss.gamma, loss.offset, smoothing)

    def _parts(self, zeta: Array) -> tuple[Array, Array, Array]:
        """Return q = 4ν/w, r = √(a² + q), and a + r without cancellation."""
        xp, a = namespace(zeta), self.sign * zeta
        q = 4 * self.smoothing / _nonzero(self.weight)
        r = xp.sqrt(a * a + q)
        return q, r, xp.where(a > 0, a + r, q / (r + xp.abs(a)))

    def slope(self, zeta: Array) -> Array:  # theory (Smooth)
        return 0.5 * self.sign * self.weight * self._parts(zeta)[2]

    def curvature(self, zeta: Array) -> Array:
        _, r, total = self._parts(zeta)
        share = 0.5 * total / r
        return _where(share > NEGLIGIBLE, self.weight * share)

    def take(self, pairs: Array, scale: float = 1.0) -> SmoothedHinge:
        return SmoothedHinge.of(super().take(pairs, scale), self.smoothing)

    def __getitem__(self, part: slice) -> SmoothedHinge:
        return SmoothedHinge.of(super().__getitem__(part), self.smoothing)

    def placed(self, like: Array) -> SmoothedHinge:
        return SmoothedHinge.of(super().placed(like), self.smoothing)


def first_smoothing(problem: LogDetProblem, loss: float) -> float:
    """Return the first ν, the mean of w a² over all rows, given the sum of their losses."""
    return 2 * loss / problem.n_pairs


def less_smoothing(smoothing: float, length: float) -> float:
    """Return the next ν after a step of this length: a short one has not reached its aim."""
    return smoothing * next(factor for least, factor in FACTORS if length >= least)
