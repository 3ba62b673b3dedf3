"""Pair losses: a convex function of one number per pair.

Every problem of this library is, over W ≻ 0 and the threshold b0,

    F(W, b0) = Σ_m BD(W_m, W0_m) + Σ_k φ_k(ζ_k) + (c0/2)(b0 − μ0)²,   ζ_k = D_k(W) − γ_k b0 − o_k

(docs/theory.md, (Loss)), with an offset o_k that is 0 for pairs and the margin for comparisons. A
loss object holds the φ_k of all K pairs; its methods map arrays of K numbers to arrays of K
numbers. A new loss is a class with the members of `PairLoss`. The problem and Newton need nothing
else; Dykstra also needs the exact projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from .._array import Array, asarray, namespace, placed


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
    """Whether φ*_k(θ s) = θ² φ*_k(s) for all θ."""

    @property
    def sign(self) -> Array:
        """y_k, shape (n_pairs,): +1 for a similar pair, −1 for a dissimilar one."""

    @property
    def weight(self) -> Array:
        """The weights of the pairs, shape (n_pairs,); a pair of weight 0 is ignored."""

    @property
    def gamma(self) -> Array:
        """γ_k of ζ_k = D_k − γ_k b0, shape (n_pairs,); 0 for a loss without a threshold."""

    @property
    def offset(self) -> Array | None:
        """o_k of ζ_k = D_k − γ_k b0 − o_k, shape (n_pairs,); None stands for 0."""

    def value(self, zeta: Array) -> Array:
        """Compute φ_k(ζ_k), shape (n_pairs,)."""

    def slope(self, zeta: Array) -> Array:
        """Compute φ'_k(ζ_k) = s_k, the dual variable."""

    def curvature(self, zeta: Array) -> Array:
        """Compute φ''_k(ζ_k) ≥ 0; a pair is active where it is positive."""

    def conjugate(self, s: Array) -> Array:
        """Compute φ*_k(s_k) for s in the domain of φ*."""

    def gap(self, zeta: Array, s: Array) -> Array:
        """Compute φ(ζ) + φ*(s) − s ζ ≥ 0 without cancellation, for s in the domain of φ*."""

    def gap_within(self, zeta: Array, s: Array, error: Array) -> Array:
        """Compute the largest gap over all ζ' with |ζ' − ζ| ≤ error.

        The error includes the rounding of ζ; the loss adds the rounding of its own formula. The
        result is NaN where φ(ζ') may be infinite.
        """

    def increase(self, zeta: Array, change: Array) -> Array:
        """Compute φ(ζ + change) − φ(ζ) − φ'(ζ) change ≥ 0 without cancellation."""

    def take(self, pairs: Array, scale: float = 1.0) -> PairLoss:
        """Return the loss of the pairs with these indices, multiplied by `scale`."""

    def __getitem__(self, part: slice) -> PairLoss:
        """Return the loss of a slice of the pairs."""

    def placed(self, like: Array) -> PairLoss:
        """Convert the loss to the namespace, device and dtype of an array."""


@dataclass(frozen=True)
class SquaredHinge:
    """TATML's loss φ(ζ) = (c w/2) [y ζ]_+², for a learnt or a fixed threshold.

    Parameters
    ----------
    sign : array of shape (n_pairs,)
        y_k: +1 for a similar pair, −1 for a dissimilar one.
    weight : array of shape (n_pairs,)
        c w_k ≥ 0.
    gamma : array of shape (n_pairs,)
        γ_k: the lower margin for similar pairs, the upper one for dissimilar pairs.
    offset : array of shape (n_pairs,) or None, default=None
        o_k of ζ_k = D_k − γ_k b0 − o_k: the margin of a comparison, for which y_k = −1 and γ_k = 0.

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
    offset: Array | None = None

    quadratic: ClassVar[bool] = True

    def value(self, zeta: Array) -> Array:  # theory (P)
        return 0.5 * self.weight * _positive_part(self.sign * zeta) ** 2

    def slope(self, zeta: Array) -> Array:
        return self.weight * self.sign * _positive_part(self.sign * zeta)

    def curvature(self, zeta: Array) -> Array:
        return _where(self.sign * zeta > 0, self.weight)

    def conjugate(self, s: Array) -> Array:  # theory (D)
        return 0.5 * s**2 / _nonzero(self.weight)

    def gap(self, zeta: Array, s: Array) -> Array:  # theory (GapD)
        violation, alpha = self.sign * zeta, self.sign * s
        slack = alpha / _nonzero(self.weight) - _positive_part(violation)
        return 0.5 * self.weight * slack**2 + alpha * _positive_part(-violation)

    def gap_within(self, zeta: Array, s: Array, error: Array) -> Array:
        return _largest_gap(self, zeta, s, error)

    def increase(self, zeta: Array, change: Array) -> Array:  # theory (LS)
        xp = namespace(zeta)
        before, after = self.sign * zeta, self.sign * (zeta + change)
        stays_or_leaves = xp.where(after > 0, change**2, before * (before - 2 * after))
        square = xp.where(before > 0, stays_or_leaves, _positive_part(after) ** 2)
        return 0.5 * self.weight * square

    def take(self, pairs: Array, scale: float = 1.0) -> SquaredHinge:
        sign, weight, gamma = _take(pairs, self.sign, self.weight, self.gamma)
        offset = None if self.offset is None else _take(pairs, self.offset)[0]
        return SquaredHinge(sign, scale * weight, gamma, offset)

    def __getitem__(self, part: slice) -> SquaredHinge:
        offset = None if self.offset is None else self.offset[part]
        return SquaredHinge(self.sign[part], self.weight[part], self.gamma[part], offset)

    def placed(self, like: Array) -> SquaredHinge:
        given = (self.sign, self.weight, self.gamma, self.offset)
        return SquaredHinge(*(None if a is None else placed(a, like) for a in given))


@dataclass(frozen=True)
class BurgLoss:
    """ITML's loss with the slack minimised out: φ(D) = η (D/b − log(D/b) − 1) beyond the bound b.

    A similar pair has a loss where D > b, a dissimilar pair where D < b (docs/theory.md, (Itml)).

    Parameters
    ----------
    sign : array of shape (n_pairs,)
        +1 for a similar pair, −1 for a dissimilar one.
    weight : array of shape (n_pairs,)
        η w_k ≥ 0, where η is the slack weight that ITML's paper calls γ.
    bound : array of shape (n_pairs,)
        b_k > 0 in squared units: an upper bound if similar, a lower one if dissimilar.

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
    offset: ClassVar[None] = None

    @property
    def gamma(self) -> Array:
        """Zeros: the bounds are given, and there is no threshold."""
        return namespace(self.bound).zeros_like(self.bound)

    def _violated(self, distance: Array) -> Array:
        """Return which distances are beyond their bounds."""
        return self.sign * (distance - self.bound) > 0

    def _excess(self, distance: Array) -> Array:
        """Compute D/b − 1 of violated pairs, 0 of the others."""
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
        # D/ξ − 1, without cancellation where D is near b and s is near 0
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


def comparison_hinge(weights: Array, C: float, margin: float) -> SquaredHinge:
    """Return the loss of comparisons, (C w/2)[margin − ζ]_+², given the NumPy array of weights."""
    ones = np.ones(len(weights))  # theory (Cmp)
    with np.errstate(over="ignore"):  # an infinite weight makes F infinite, which is reported
        weight = C * weights
    return SquaredHinge(-ones, weight, 0 * ones, margin * ones)


def join_hinges(losses: Sequence[SquaredHinge]) -> SquaredHinge:
    """Return the loss of the rows of several losses, one after the other, in NumPy arrays."""
    sign, weight, gamma = (
        np.concatenate([getattr(loss, name) for loss in losses])
        for name in ("sign", "weight", "gamma")
    )
    if all(loss.offset is None for loss in losses):
        return SquaredHinge(sign, weight, gamma)
    offsets = [0 * loss.gamma if loss.offset is None else loss.offset for loss in losses]
    return SquaredHinge(sign, weight, gamma, np.concatenate(offsets))


def zeta_at(loss: PairLoss, distances: Array, b0: float) -> Array:
    """Compute ζ_k = D_k − γ_k b0 − o_k."""
    zeta = distances - loss.gamma * b0
    return zeta if loss.offset is None else zeta - loss.offset


def _where(condition: Array, values: Array) -> Array:
    """Return the values where the condition holds, and 0 elsewhere."""
    xp = namespace(values)
    return xp.where(condition, values, 0.0 if xp is np else xp.zeros_like(values))


def _nonzero(weight: Array) -> Array:
    """Replace weights of 0 by 1, for divisions of numbers that are 0 there."""
    xp = namespace(weight)
    return xp.where(weight > 0, weight, 1.0 if xp is np else xp.ones_like(weight))


def _positive_part(values: Array) -> Array:
    """Return max(value, 0) of each value."""
    return _where(values > 0, values)


def _minus_log1p(x: Array) -> Array:
    """Compute x − log(1 + x) ≥ 0, by its series near zero, where the difference cancels."""
    xp = namespace(x)
    near = xp.abs(x) < 1e-3
    small = _where(near, x)
    series = small * small * (0.5 - small * (1 / 3 - small * (0.25 - small * (0.2 - small / 6))))
    return xp.where(near, series, x - xp.log1p(x))


def _largest_gap(loss: PairLoss, zeta: Array, s: Array, error: Array) -> Array:
    """Compute the largest gap within the error: convex in ζ, it is largest at one of the ends."""
    low, high = loss.gap(zeta - error, s), loss.gap(zeta + error, s)
    return namespace(zeta).maximum(low, high)  # keeps NaN: ζ outside the domain of φ


def _take(pairs: Array, *arrays: Array) -> list[Array]:
    """Select the entries of the given pairs from each array, which may be in another place."""
    return [namespace(array).take(array, asarray(pairs, like=array), axis=0) for array in arrays]
