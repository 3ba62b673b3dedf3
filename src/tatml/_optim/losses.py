"""Pair losses: one convex function of one number per pair.

Every problem of this library is, over W ≻ 0 and the threshold b0,

    F(W, b0) = Σ_m BD(W_m, W0_m) + Σ_k φ_k(ζ_k) + (c0/2)(b0 − μ0)²,   ζ_k = D_k(W) − γ_k b0

(docs/theory.md, (Loss)). A loss is the φ of all pairs at once: arrays of K numbers in, arrays of K
numbers out. A new loss is a class with the members of `PairLoss`; the problem and Newton ask
nothing else of it (Dykstra needs its exact projection as well).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from .._array import Array, namespace, placed

__all__ = ["BurgLoss", "PairLoss", "SquaredHinge"]


class PairLoss(Protocol):
    """Protocol of a pair loss φ ≥ 0: convex, C¹ and piecewise C², with minimum 0.

    Examples
    --------
    >>> from tatml.losses import PairLoss, SquaredHinge
    >>> members = [name for name in vars(PairLoss) if not name.startswith("_")]
    >>> all(hasattr(SquaredHinge, name) or name in SquaredHinge.__annotations__ for name in members)
    True
    """

    quadratic: ClassVar[bool]
    """Whether φ*_k(θ s) = θ² φ*_k(s)."""

    @property
    def sign(self) -> Array:
        """y_k, shape (n_pairs,): +1 for a similar pair, −1 for a dissimilar one."""

    @property
    def weight(self) -> Array:
        """How much each pair counts, shape (n_pairs,); 0 where it does not."""

    @property
    def gamma(self) -> Array:
        """γ_k, shape (n_pairs,): how the threshold enters ζ_k = D_k − γ_k b0 (0: not at all)."""

    def value(self, zeta: Array) -> Array:
        """φ_k(ζ_k), shape (n_pairs,)."""

    def slope(self, zeta: Array) -> Array:
        """φ'_k(ζ_k) = s_k, the dual variable."""

    def curvature(self, zeta: Array) -> Array:
        """φ''_k(ζ_k) ≥ 0; a pair is active where it is positive."""

    def conjugate(self, s: Array) -> Array:
        """φ*_k(s_k), for s in its domain."""

    def gap(self, zeta: Array, s: Array) -> Array:
        """φ(ζ) + φ*(s) − s ζ ≥ 0 for s in the domain of φ*, free of cancellation."""

    def gap_within(self, zeta: Array, s: Array, error: Array) -> Array:
        """The largest gap for any ζ' with |ζ' − ζ| ≤ error; NaN where φ(ζ') may be infinite.

        The error includes the rounding of ζ, and the loss adds what its own formula needs.
        """

    def increase(self, zeta: Array, change: Array) -> Array:
        """φ(ζ + change) − φ(ζ) − φ'(ζ) change ≥ 0, free of cancellation."""

    def take(self, pairs: Array, scale: float = 1.0) -> PairLoss:
        """The loss of the pairs with these indices, multiplied by `scale`."""

    def __getitem__(self, part: slice) -> PairLoss:
        """The loss of a run of pairs."""

    def placed(self, like: Array) -> PairLoss:
        """The same loss in the namespace, on the device and in the precision of an array."""


@dataclass(frozen=True)
class SquaredHinge:
    """TATML's loss, φ(ζ) = (c w/2) [y ζ]_+², for a learnt as for a fixed threshold.

    Parameters
    ----------
    sign : array of shape (n_pairs,)
        y_k: +1 for a similar pair, −1 for a dissimilar one.
    weight : array of shape (n_pairs,)
        c w_k ≥ 0.
    gamma : array of shape (n_pairs,)
        γ_k: the lower margin for similar pairs, the upper one for dissimilar pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.losses import SquaredHinge
    >>> loss = SquaredHinge(np.array([1.0, -1.0]), np.array([1.0, 1.0]), np.array([0.5, 2.0]))
    >>> loss.value(np.array([2.0, 2.0]))
    array([2., 0.])
    """

    sign: Array
    weight: Array
    gamma: Array

    quadratic: ClassVar[bool] = True

    def value(self, zeta: Array) -> Array:  # theory (P)
        return 0.5 * self.weight * _positive(self.sign * zeta) ** 2

    def slope(self, zeta: Array) -> Array:
        return self.weight * self.sign * _positive(self.sign * zeta)

    def curvature(self, zeta: Array) -> Array:
        return _where(self.sign * zeta > 0, self.weight)

    def conjugate(self, s: Array) -> Array:  # theory (D)
        return 0.5 * s**2 / _nonzero(self.weight)

    def gap(self, zeta: Array, s: Array) -> Array:  # theory (GapD)
        violation, alpha = self.sign * zeta, self.sign * s
        slack = alpha / _nonzero(self.weight) - _positive(violation)
        return 0.5 * self.weight * slack**2 + alpha * _positive(-violation)

    def gap_within(self, zeta: Array, s: Array, error: Array) -> Array:
        return _largest_gap(self, zeta, s, error)

    def increase(self, zeta: Array, change: Array) -> Array:  # theory (LS)
        xp = namespace(zeta)
        before, after = self.sign * zeta, self.sign * (zeta + change)
        stays_or_leaves = xp.where(after > 0, change**2, before * (before - 2 * after))
        square = xp.where(before > 0, stays_or_leaves, _positive(after) ** 2)
        return 0.5 * self.weight * square

    def take(self, pairs: Array, scale: float = 1.0) -> SquaredHinge:
        sign, weight, gamma = _take(pairs, self.sign, self.weight, self.gamma)
        return SquaredHinge(sign, scale * weight, gamma)

    def __getitem__(self, part: slice) -> SquaredHinge:
        return SquaredHinge(self.sign[part], self.weight[part], self.gamma[part])

    def placed(self, like: Array) -> SquaredHinge:
        return SquaredHinge(*(placed(values, like) for values in vars(self).values()))


@dataclass(frozen=True)
class BurgLoss:
    """ITML's loss without its slack, φ(D) = η (D/b − log(D/b) − 1) on the wrong side of b.

    Similar pairs pay where D > b, dissimilar ones where D < b (docs/theory.md, (Itml)).

    Parameters
    ----------
    sign : array of shape (n_pairs,)
        +1 for a similar pair, −1 for a dissimilar one.
    weight : array of shape (n_pairs,)
        η w_k ≥ 0, where η is the slack weight that ITML's paper calls γ.
    bound : array of shape (n_pairs,)
        b_k > 0 in squared units: the upper bound for similar, the lower for dissimilar pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.losses import BurgLoss
    >>> loss = BurgLoss(np.array([1.0, -1.0]), np.array([1.0, 1.0]), np.array([1.0, 4.0]))
    >>> loss.value(np.array([2.0, 8.0])).round(3)
    array([0.307, 0.   ])
    """

    sign: Array
    weight: Array
    bound: Array

    quadratic: ClassVar[bool] = False

    @property
    def gamma(self) -> Array:
        """Zero: the bounds are given, and no threshold enters."""
        return namespace(self.bound).zeros_like(self.bound)

    def _violated(self, distance: Array) -> Array:
        return self.sign * (distance - self.bound) > 0

    def _excess(self, distance: Array) -> Array:
        return _where(self._violated(distance), (distance - self.bound) / self.bound)

    def value(self, zeta: Array) -> Array:  # theory (Itml)
        return self.weight * _minus_log1p(self._excess(zeta))

    def slope(self, zeta: Array) -> Array:
        excess = self._excess(zeta)
        return self.weight * excess / (self.bound * (1 + excess))

    def curvature(self, zeta: Array) -> Array:
        return (
            _where(self._violated(zeta), self.weight) / (self.bound * (1 + self._excess(zeta))) ** 2
        )

    def conjugate(self, s: Array) -> Array:  # theory (Itml)
        return -self.weight * namespace(s).log1p(-s * self.bound / _nonzero(self.weight))

    def gap(self, zeta: Array, s: Array) -> Array:  # theory (Gap) and (Itml)
        xp, violated = namespace(zeta), self._violated(zeta)
        reached = xp.where(violated, zeta, self.bound)
        # D/ξ − 1 without cancellation where D is near b and s near 0
        excess = (reached - self.bound) / self.bound - s * reached / _nonzero(self.weight)
        return self.weight * _minus_log1p(excess) + s * (reached - zeta)

    def gap_within(self, zeta: Array, s: Array, error: Array) -> Array:
        xp = namespace(zeta)
        reached = xp.where(self._violated(zeta), zeta, self.bound)
        terms = reached / self.bound + xp.abs(s) * reached / _nonzero(self.weight)
        rounding = 4 * float(xp.finfo(zeta.dtype).eps) * reached * (1 + terms)
        return _largest_gap(self, zeta, s, error + rounding)

    def increase(self, zeta: Array, change: Array) -> Array:
        xp = namespace(zeta)
        both = self._violated(zeta) & self._violated(zeta + change)
        inside = self.weight * _minus_log1p(_where(both, change) / xp.where(both, zeta, self.bound))
        after = zeta + change
        left = self.weight * _minus_log1p(
            (self.bound - zeta) / xp.where(zeta > 0, zeta, self.bound)
        )
        left = left - self.slope(zeta) * (after - self.bound)
        across = xp.where(self._violated(zeta), left, self.value(after))
        return xp.where(both, inside, across)

    def take(self, pairs: Array, scale: float = 1.0) -> BurgLoss:
        sign, weight, bound = _take(pairs, self.sign, self.weight, self.bound)
        return BurgLoss(sign, scale * weight, bound)

    def __getitem__(self, part: slice) -> BurgLoss:
        return BurgLoss(self.sign[part], self.weight[part], self.bound[part])

    def placed(self, like: Array) -> BurgLoss:
        return BurgLoss(*(placed(values, like) for values in vars(self).values()))


def _where(condition: Array, values: Array) -> Array:
    xp = namespace(values)
    return xp.where(condition, values, xp.zeros_like(values))


def _nonzero(weight: Array) -> Array:
    """The weights, with 1 for 0: they divide what is zero there."""
    xp = namespace(weight)
    return xp.where(weight > 0, weight, xp.ones_like(weight))


def _positive(values: Array) -> Array:
    return _where(values > 0, values)


def _minus_log1p(x: Array) -> Array:
    """x − log(1 + x) ≥ 0, which cancels near zero: there its series is summed."""
    xp = namespace(x)
    near = xp.abs(x) < 1e-3
    small = _where(near, x)
    series = small * small * (0.5 - small * (1 / 3 - small * (0.25 - small * (0.2 - small / 6))))
    return xp.where(near, series, x - xp.log1p(x))


def _largest_gap(loss: PairLoss, zeta: Array, s: Array, error: Array) -> Array:
    """The gap is convex in ζ: the largest is at one end."""
    low, high = loss.gap(zeta - error, s), loss.gap(zeta + error, s)
    return namespace(zeta).maximum(low, high)  # NaN, outside the domain of φ, stays NaN


def _take(pairs: Array, *arrays: Array) -> list[Array]:
    return [namespace(array).take(array, pairs, axis=0) for array in arrays]
