"""Pair losses: a convex function of one number per pair.

Every problem of this library is, over W ≻ 0 and the threshold b0,

    F(W, b0) = Σ_m BD(W_m, W0_m) + Σ_k φ_k(ζ_k) + (c0/2)(b0 − μ0)²,   ζ_k = D_k(W) − γ_k b0 − o_k

(docs/theory.md, (Loss)), with an offset o_k that is 0 for pairs and the margin for comparisons. A
loss object holds the φ_k of all K pairs; its methods map arrays of K numbers to arrays of K
numbers. A new loss is a dataclass derived from `PairLoss`, with four methods. The problem and
Newton need nothing else; Dykstra also needs the exact projection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._array import Array, Doubles, asarray, namespace, placed

CANCELLED = 1e-8  # share of the values below which their difference has lost half of its digits
NEGLIGIBLE = 1e-10  # share of w below which a curvature counts as 0, so that the row is not active


class PairLoss(ABC):
    """Base class of the pair losses φ ≥ 0: convex, C¹ and piecewise C², with infimum 0.

    A loss is a frozen dataclass that defines `value`, `slope`, `curvature` and `conjugate`. Its
    fields are arrays of shape (n_pairs,), with one number per pair, and anything else that is
    common to all pairs. Every φ_k has to be proportional to the field `weight`. This class computes
    what the solvers need besides; a loss overrides that where it knows a formula that is faster or
    does not cancel. `learn_metric` and the estimators build theirs from their parameters; what they
    take as `loss` is a `CustomLoss`, a function of one violation.

    Attributes
    ----------
    sign : array of shape (n_pairs,)
        y_k: +1 for a similar pair, −1 for a dissimilar one. Only losses of Dykstra need it.
    weight : array of shape (n_pairs,)
        The weights of the pairs; a pair of weight 0 is ignored, whatever `conjugate` returns.
    gamma : array of shape (n_pairs,)
        γ_k of ζ_k = D_k − γ_k b0 − o_k; zeros, for a loss without a threshold, if it is no field.
    offset : array of shape (n_pairs,) or None
        o_k; None stands for 0.
    quadratic : bool
        Whether φ is a squared hinge, so that φ*_k(θ s) = θ² φ*_k(s) for all θ.
    accuracy : float
        Bound of the relative rounding error of `value`, and of that of `conjugate` relative to
        φ + |φ*| + |s ζ|. The certificate adds it to the gap.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from tatml.losses import PairLoss
    >>> @dataclass(frozen=True)
    ... class Square(PairLoss):
    ...     weight: np.ndarray
    ...     gamma: np.ndarray
    ...
    ...     def value(self, zeta):
    ...         return self.weight * zeta**2 / 2
    ...
    ...     def slope(self, zeta):
    ...         return self.weight * zeta
    ...
    ...     def curvature(self, zeta):
    ...         return self.weight
    ...
    ...     def conjugate(self, s):
    ...         return s**2 / (2 * self.weight)
    >>> loss = Square(weight=np.array([1.0, 2.0]), gamma=np.ones(2))
    >>> loss.gap(np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    array([0., 1.])
    """

    sign: Array
    weight: Array
    gamma: Array
    offset: Array | None = None

    quadratic: ClassVar[bool] = False
    accuracy: ClassVar[float] = 1e-14

    def __post_init__(self) -> None:
        if not hasattr(self, "weight"):
            raise TypeError(f"{type(self).__name__}: expected a field `weight`, got none")
        if not hasattr(self, "gamma"):
            object.__setattr__(self, "gamma", namespace(self.weight).zeros_like(self.weight))

    @abstractmethod
    def value(self, zeta: Array) -> Array:
        """Compute φ_k(ζ_k), shape (n_pairs,)."""

    @abstractmethod
    def slope(self, zeta: Array) -> Array:
        """Compute φ'_k(ζ_k) = s_k, the dual variable."""

    @abstractmethod
    def curvature(self, zeta: Array) -> Array:
        """Compute φ''_k(ζ_k) ≥ 0; a pair is active where it is positive."""

    @abstractmethod
    def conjugate(self, s: Array) -> Array:
        """Compute φ*_k(s_k) for s in the domain of φ*."""

    def conjugates(self, s: Array) -> Array:
        """Compute φ*_k(s_k), and 0 for pairs of weight 0, whose formula may divide by 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return _where(self.weight != 0, self.conjugate(s))

    def gap(self, zeta: Array, s: Array) -> Array:
        """Compute φ(ζ) + φ*(s) − s ζ ≥ 0, for s in the domain of φ*."""
        xp, rest = namespace(zeta), self.value(zeta) + self.conjugates(s) - s * zeta
        return xp.where(rest < 0, xp.zeros_like(rest), rest)  # keeps NaN

    def gap_within(self, zeta: Array, s: Array, error: Array) -> Array:
        """Compute the largest gap over all ζ' with |ζ' − ζ| ≤ error.

        The error includes the rounding of ζ; the loss adds the rounding of its own formula. The
        result is NaN where φ(ζ') may be infinite.
        """
        xp = namespace(zeta)
        largest = xp.abs(zeta) + error
        values = xp.maximum(self.value(zeta - error), self.value(zeta + error))
        size = values + xp.abs(self.conjugates(s)) + xp.abs(s) * largest
        rounding = self.accuracy + 4 * float(xp.finfo(zeta.dtype).eps)
        return self._largest_gap(zeta, s, error) + rounding * size

    def _largest_gap(self, zeta: Array, s: Array, error: Array) -> Array:
        """Compute the largest gap within the error: convex in ζ, it is largest at an end."""
        low, high = self.gap(zeta - error, s), self.gap(zeta + error, s)
        return namespace(zeta).maximum(low, high)  # keeps NaN: ζ outside the domain of φ

    def increase(self, zeta: Array, change: Array) -> Array:
        """Compute φ(ζ + change) − φ(ζ) − φ'(ζ) change ≥ 0.

        Where the values cancel, it is the mean of the slopes at both ends, less that at ζ.
        """
        before, after, slope = self.value(zeta), self.value(zeta + change), self.slope(zeta)
        direct = after - before - slope * change
        by_slopes = change * (self.slope(zeta + change) - slope) / 2
        accurate = direct > CANCELLED * (before + after)
        return namespace(zeta).where(accurate, direct, by_slopes)

    def take(self, pairs: Array, scale: float = 1.0) -> Self:
        """Return the loss of the pairs with these indices, multiplied by `scale`."""
        some = self._with_each(
            lambda array: namespace(array).take(array, asarray(pairs, like=array), axis=0)
        )
        return replace(some, weight=scale * some.weight)  # type: ignore[type-var]

    def __getitem__(self, part: slice) -> Self:
        """Return the loss of a slice of the pairs."""
        if part == slice(0, self.weight.shape[0]):
            return self
        return self._with_each(lambda array: array[part])

    def placed(self, like: Array) -> Self:
        """Convert the loss to the namespace, device and dtype of an array."""
        return self._with_each(lambda array: placed(array, like))

    def _with_each(self, change: Callable[[Array], Array]) -> Self:
        """Return the loss with every array changed."""
        names = [field.name for field in fields(self) if field.init]  # type: ignore[arg-type]
        values = {name: getattr(self, name) for name in names}
        arrays = {
            name: value for name, value in values.items() if hasattr(value, "dtype") and value.shape
        }
        changed = {name: change(array) for name, array in arrays.items()}
        return replace(self, **changed)  # type: ignore[type-var]


@dataclass(frozen=True)
class SquaredHinge(PairLoss):
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
    accuracy: ClassVar[float] = 0.0  # its few roundings are among those of the sums

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
        return self._largest_gap(zeta, s, error)

    def increase(self, zeta: Array, change: Array) -> Array:  # theory (LS)
        xp = namespace(zeta)
        before, after = self.sign * zeta, self.sign * (zeta + change)
        stays_or_leaves = xp.where(after > 0, change**2, before * (before - 2 * after))
        square = xp.where(before > 0, stays_or_leaves, _positive_part(after) ** 2)
        return 0.5 * self.weight * square


@dataclass(frozen=True)
class SmoothedHinge(SquaredHinge):
    """The squared hinge with its kink smoothed, for problems on which Newton's active set cycles.

    At the solution a row with multiplier α = y s ≥ 0 and violation a = y ζ satisfies
    α (α/w − a) = 0. Smoothing asks for α (α/w − a) = ν instead, whose positive solution is
    α = w (a + √(a² + 4ν/w))/2 (docs/theory.md, (Smooth)): a smooth function of a, with the squared
    hinge as its limit for ν → 0. The value is that of the hinge: only primal-dual steps, which need
    no value, are taken with it.
    """

    smoothing: float = 0.0
    """ν."""

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


@dataclass(frozen=True)
class LogisticLoss(PairLoss):
    """The log loss φ(ζ) = c w log(1 + exp(y ζ)) of the probability 1/(1 + exp(ζ)) of "same".

    Parameters
    ----------
    sign : array of shape (n_pairs,)
        y_k: +1 for a similar pair, −1 for a dissimilar one.
    weight : array of shape (n_pairs,)
        c w_k ≥ 0.
    gamma : array of shape (n_pairs,)
        γ_k of ζ_k = D_k − γ_k b0 − o_k.
    offset : array of shape (n_pairs,) or None, default=None
        o_k.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.losses import LogisticLoss
    >>> loss = LogisticLoss(np.array([1.0, -1.0]), np.array([1.0, 1.0]), np.array([1.0, 1.0]))
    >>> loss.value(np.array([2.0, 2.0])).round(3)
    array([2.127, 0.127])
    """

    sign: Array
    weight: Array
    gamma: Array
    offset: Array | None = None

    def _odds(self, zeta: Array) -> tuple[Array, Array]:
        """Return a = y ζ, and exp(−|a|), which does not overflow."""
        a = self.sign * zeta
        return a, namespace(zeta).exp(-abs(a))

    def value(self, zeta: Array) -> Array:  # theory (Logistic)
        a, odds = self._odds(zeta)
        return self.weight * (_positive_part(a) + namespace(zeta).log1p(odds))

    def slope(self, zeta: Array) -> Array:
        a, odds = self._odds(zeta)
        xp = namespace(zeta)
        share = xp.where(a > 0, xp.ones_like(odds), odds) / (1 + odds)
        return self.weight * self.sign * share

    def curvature(self, zeta: Array) -> Array:
        _, odds = self._odds(zeta)
        share = odds / (1 + odds) ** 2
        return _where(share > NEGLIGIBLE, self.weight * share)

    def conjugate(self, s: Array) -> Array:  # theory (Logistic)
        xp, alpha = namespace(s), self.sign * s / _nonzero(self.weight)
        entropy = _times_log(alpha, alpha - 1) + _times_log(1 - alpha, -alpha)
        return self.weight * xp.where(alpha > 0, entropy, xp.zeros_like(alpha))

    def gap(self, zeta: Array, s: Array) -> Array:  # theory (Logistic)
        (a, odds), alpha = self._odds(zeta), self.sign * s / _nonzero(self.weight)
        xp, near, far = namespace(zeta), 1 / (1 + odds), odds / (1 + odds)
        p, q = xp.where(a > 0, near, far), xp.where(a > 0, far, near)
        log_p, log_q = (-_positive_part(b) - xp.log1p(odds) for b in (-a, a))
        return self.weight * (_divergence(alpha, p, log_p) + _divergence(1 - alpha, q, log_q))

    def increase(self, zeta: Array, change: Array) -> Array:
        # φ(−a) = φ(a) − a: the linear part does not matter, and a ≤ 0 cancels less.
        xp, (a, odds) = namespace(zeta), self._odds(zeta)
        turned = xp.where(a > 0, -self.sign, self.sign) * change
        share, after = odds / (1 + odds), turned - abs(a)
        direct = _positive_part(after) + xp.log1p(xp.exp(-abs(after))) - xp.log1p(odds)
        near = abs(turned) < 1e-3
        small = _where(near, turned)
        series = small * small * (0.5 + small * (1 / 6 + small * (1 / 24 + small / 120)))
        exact = share * series - _minus_log1p(share * (small + series))
        return self.weight * xp.where(near, exact, direct - share * turned)


@dataclass(frozen=True)
class BurgLoss(PairLoss):
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

    accuracy: ClassVar[float] = 1e-12  # of x − log(1 + x)

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
        return self._largest_gap(zeta, s, error + rounding)

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


def comparison_hinge(weights: Array, C: float, margin: float) -> SquaredHinge:
    """Return the loss of comparisons, (C w/2)[margin − ζ]_+², given the NumPy array of weights."""
    ones = np.ones(len(weights))  # theory (Cmp)
    return SquaredHinge(-ones, scaled_weights(C, weights, len(ones)), 0 * ones, margin * ones)


def scaled_weights(C: float, weights: Doubles | None, n: int) -> Doubles:
    """Compute C w of n rows, in NumPy arrays; None stands for weights of 1."""
    with np.errstate(over="ignore"):  # an infinite weight makes F infinite, which is reported
        return C * (np.ones(n) if weights is None else weights)


def join_losses(losses: Sequence[Any]) -> PairLoss:
    """Return the loss of the rows of several losses, one after the other, in NumPy arrays.

    They are squared hinges, or losses of one kind without offsets.
    """
    sign, weight, gamma = (
        np.concatenate([getattr(loss, name) for loss in losses])
        for name in ("sign", "weight", "gamma")
    )
    if not losses[0].quadratic:
        return replace(losses[0], sign=sign, weight=weight, gamma=gamma)
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


def _times_log(x: Array, minus_one: Array) -> Array:
    """Compute x log x for x in [0, 1], given x − 1 as well; 0 at x = 0."""
    xp, near = namespace(x), x > 0.5
    far = xp.log(xp.where(x > 0, x, xp.ones_like(x)))
    return x * xp.where(near, xp.log1p(_where(near, minus_one)), far)


def _divergence(alpha: Array, p: Array, log_p: Array) -> Array:
    """Compute α log(α/p) − α + p ≥ 0, without cancellation where α is near p."""
    xp, inside = namespace(p), alpha > 0
    share = xp.where(inside, alpha, xp.ones_like(alpha))
    change = (p - share) / share
    near = _minus_log1p(xp.where(change > -0.5, change, xp.zeros_like(change)))
    excess = xp.where(change > -0.5, near, change - log_p + xp.log(share))
    return xp.where(inside, share * excess, p)
