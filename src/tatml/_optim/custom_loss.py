"""Losses of the user's own: functions of one violation, checked before they are used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array import Array, Doubles, namespace, placed, to_numpy
from .._messages import shown
from .._validation import check_choice, check_positive
from .losses import NEGLIGIBLE, PairLoss, _nonzero, _where

TAIL = np.array([5.0, 7.0, 10.0, 15.0, 20.0, 30.0])
GRID = np.concatenate([-TAIL[::-1], np.linspace(-4, 4, 33), TAIL])  # violations of the check
STEP = 1e-5  # smallest step of the difference quotients, relative to max(1, |a|)
INSIDE = 1 - 1e-15  # keeps rounded slopes at an end of the domain of the conjugate inside of it
LEAST_SLOPE = 1e-3  # smallest slope at the largest violation; the tolerances suit losses of order 1
CLOSE = 1e-4  # relative tolerance of a derivative


class CustomLoss(ABC):
    """Base class of your own losses: a convex function ψ of the violation of a pair.

    The violation a = y (D − b0), with y = +1 for similar and −1 for dissimilar pairs, is how far
    the squared distance D lies on the wrong side of the threshold; with a midpoint, D is the score
    q. A pair of weight w adds C w ψ(a) to the objective (docs/theory.md, (Custom)). Derive a class
    with the four methods below, and pass an object of it as `loss` to `learn_metric`, `TATML` or
    `TATMLPairs`.

    ψ has to be finite, convex and continuously differentiable, with infimum 0; its slope must not
    be negative for a ≥ 0, and be of the order of 1, because C is its weight. The methods get a
    NumPy array of float64 of shape (n,), one violation or slope per pair, and return an array of
    the same shape, whose entries depend on the same entry of the argument only. Before a metric is
    learnt, they are compared with each other at violations from −30 to 30 (about a millisecond); a
    method that does not agree is named in the error. The certificate compares value, slope and
    conjugate at the violations of the result, too: where they contradict each other, the gap is
    infinite.

    Attributes
    ----------
    accuracy : float, default=1e-13
        Bound of the rounding errors of `value` and of `conjugate`, relative to the sum of 1 and the
        magnitudes of value, conjugate and slope · a. The certificate adds it to the gap. Set it in
        your class if `conjugate` has fewer digits.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import TATML
    >>> from tatml.losses import CustomLoss
    >>> class SquaredHinge(CustomLoss):  # [a]_+²/2
    ...     def value(self, a):
    ...         return np.maximum(a, 0) ** 2 / 2
    ...
    ...     def slope(self, a):
    ...         return np.maximum(a, 0)
    ...
    ...     def curvature(self, a):
    ...         return np.where(a > 0, 1.0, 0.0)
    ...
    ...     def conjugate(self, slope):
    ...         return slope**2 / 2
    >>> X, y = np.array([[0.0], [0.1], [2.0], [2.1]]), [0, 0, 1, 1]
    >>> metric = TATML(loss=SquaredHinge(), threshold="joint").fit(X, y)
    >>> metric
    TATML(loss=SquaredHinge(), threshold='joint')
    >>> metric.result_.converged
    True
    """

    accuracy: float = 1e-13

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"

    @abstractmethod
    def value(self, a: Doubles) -> NDArray:
        """Compute ψ(a) ≥ 0."""

    @abstractmethod
    def slope(self, a: Doubles) -> NDArray:
        """Compute the derivative ψ'(a)."""

    @abstractmethod
    def curvature(self, a: Doubles) -> NDArray:
        """Compute the second derivative ψ''(a) ≥ 0; at a kink of the slope, that of one side."""

    @abstractmethod
    def conjugate(self, slope: Doubles) -> NDArray:
        """Compute ψ*(t) = t a − ψ(a) at the a with ψ'(a) = t, for slopes t and between 0 and them.

        What it returns for other t does not matter.
        """


@dataclass(frozen=True)
class ViolationLoss(PairLoss):
    """φ(ζ) = c w ψ(y ζ) for the ψ of a `CustomLoss`, which sees NumPy's float64 only."""

    sign: Array
    weight: Array
    gamma: Array
    function: CustomLoss

    @property
    def accuracy(self) -> float:  # type: ignore[override]
        """Bound of the relative rounding errors, as the user's class says."""
        return self.function.accuracy

    def _weighted(self, method: str, values: Array) -> Array:
        """Compute c w times a method of ψ; 0 for pairs of weight 0, where ψ may be infinite."""
        with np.errstate(all="ignore"):  # the solvers reject what is not finite
            found = getattr(self.function, method)(np.array(to_numpy(values), dtype=np.float64))
            each = self.weight * placed(np.asarray(found, dtype=np.float64), values)
        return _where(self.weight > 0, each)

    def value(self, zeta: Array) -> Array:  # theory (Custom)
        return self._weighted("value", self.sign * zeta)

    def slope(self, zeta: Array) -> Array:
        return self.sign * self._weighted("slope", self.sign * zeta)

    def curvature(self, zeta: Array) -> Array:
        found = self._weighted("curvature", self.sign * zeta)
        return _where(found > NEGLIGIBLE * self.weight, found)

    def conjugate(self, s: Array) -> Array:  # theory (Custom)
        inside = 1 - 4 * float(namespace(s).finfo(s.dtype).eps)  # see INSIDE
        return self._weighted("conjugate", inside * (self.sign * s / _nonzero(self.weight)))

    def gap(self, zeta: Array, s: Array) -> Array:
        """Compute φ(ζ) + φ*(s) − s ζ; NaN where it is negative, so that nothing is proved."""
        xp, terms = namespace(zeta), (self.value(zeta), self.conjugates(s), -s * zeta)
        rest, size = sum(terms), self.weight + sum(map(xp.abs, terms))
        least = -(self.accuracy + 4 * float(xp.finfo(zeta.dtype).eps)) * size
        nothing = xp.full_like(rest, xp.nan)
        return xp.where(rest < least, nothing, xp.maximum(rest, xp.zeros_like(rest)))

    def gap_within(self, zeta: Array, s: Array, error: Array) -> Array:
        return super().gap_within(zeta, s, error) + self.accuracy * self.weight


def check_loss(name: str, loss: Any, words: Sequence[str]) -> Any:
    """Return one of the words, or a loss whose methods agree with each other.

    Otherwise the error names the method. Wrong slopes and curvatures are found by difference
    quotients, a wrong conjugate by the equality of Fenchel and Young, (Custom).
    """
    if isinstance(loss, str):
        return check_choice(name, loss, words)
    if not isinstance(loss, CustomLoss):
        raise ValueError(
            f"{name}: expected one of {', '.join(map(repr, words))} or an object of a class "
            f"derived from tatml.losses.CustomLoss, got {shown(loss)}"
        )
    name = f"{name}: {shown(loss)}"
    accuracy = check_positive(f"{name}: accuracy", loss.accuracy)
    with np.errstate(all="ignore"):
        _Check(name, loss, accuracy).compare_methods(GRID)
    return loss


@dataclass(frozen=True)
class _Check:
    """The comparisons of the methods of a loss."""

    name: str
    loss: CustomLoss
    accuracy: float

    def compare_methods(self, a: Doubles) -> None:
        value, slope, curvature = (self._call(of, a) for of in ("value", "slope", "curvature"))
        least = -self.accuracy  # of a number that is not negative, but may be rounded
        self._expect("value", value >= least, a, value, "a number ≥ 0")
        self._expect_derivative("slope", "value", a)
        self._expect_continuous(a, slope)
        self._expect_derivative("curvature", "slope", a)
        convex = curvature >= least
        self._expect("curvature", convex, a, curvature, "a number ≥ 0, of a convex loss")
        rises = (a < 0) | (slope >= least)
        self._expect("slope", rises, a, slope, "a number ≥ 0 on the wrong side of the threshold")
        steep = (a < a[-1]) | (slope >= LEAST_SLOPE)
        self._expect("slope", steep, a, slope, f"at least {LEAST_SLOPE:g}")
        self._expect_conjugate(a, value, slope)

    def _call(self, method: str, at: Doubles) -> Doubles:
        """Return what a method computes, if it is a finite number for each argument."""
        found = np.asarray(getattr(self.loss, method)(at.copy()))
        if found.dtype.kind not in "fiub" or found.shape != at.shape:
            raise ValueError(
                f"{self.name}: {method}: expected real numbers of shape {at.shape}, one for each "
                f"entry of the argument, got {found.dtype} of shape {found.shape}"
            )
        self._expect(method, np.isfinite(found), at, found, "a finite number")
        return found.astype(np.float64)

    def _expect(
        self,
        method: str,
        holds: NDArray,
        at: Doubles,
        found: NDArray,
        expected: str,
        number: Doubles | float = 0.0,
    ) -> None:
        """Raise if the condition fails, for the worst argument; `{}` is the number there."""
        if not np.all(holds):
            k = np.argmax(np.where(holds, -1, np.abs(found - number)))
            words = expected.format(f"{np.broadcast_to(number, at.shape)[k]:.9g}")
            raise ValueError(
                f"{self.name}: {method}: expected {words}, got {found[k]:.9g} at {at[k]:.9g}"
            )

    def _expect_derivative(self, method: str, of: str, a: Doubles) -> None:
        """Raise where a derivative is not between the difference quotients on both sides."""
        step = max(STEP, sqrt(self.accuracy)) * np.maximum(1, np.abs(a))
        before, at, after = (self._call(of, a + side * step) for side in (-1, 0, 1))
        low, high = np.sort([(at - before) / step, (after - at) / step], axis=0)
        error = 4 * self.accuracy * (1 + np.abs(at)) / step + CLOSE * np.abs(low + high)
        found = self._call(method, a)
        between = (low - error <= found) & (found <= high + error)
        self._expect(method, between, a, found, f"the derivative of {of}, {{}}", (low + high) / 2)

    def _expect_continuous(self, a: Doubles, slope: Doubles) -> None:
        """Raise if the slope jumps: halve each interval, and keep the half that rises more."""
        low, high, at_low, at_high = a[:-1], a[1:], slope[:-1], slope[1:]
        for _ in range(40):
            middle = (low + high) / 2
            at = self._call("slope", middle)
            first = at - at_low > at_high - at
            low, high = np.where(first, low, middle), np.where(first, middle, high)
            at_low, at_high = np.where(first, at_low, at), np.where(first, at, at_high)
        smooth = at_high - at_low <= 1e-6 * (1 + np.abs(at_high))
        self._expect("slope", smooth, high, at_high, "no jump, as it is {} just below", at_low)

    def _expect_conjugate(self, a: Doubles, value: Doubles, slope: Doubles) -> None:
        """Raise unless the equality of Fenchel and Young holds, and inf ψ = −ψ*(0) is 0."""
        conjugate, product = self._call("conjugate", INSIDE * slope), slope * a
        wanted, size = product - value, value + np.abs(conjugate) + np.abs(product)
        equal = np.abs(conjugate - wanted) <= self.accuracy * (1 + size)
        self._expect("conjugate", equal, slope, conjugate, "slope · a − value = {}", wanted)
        none = np.zeros(1)
        least = self._call("conjugate", none)
        is_zero = np.abs(least) <= self.accuracy
        self._expect("conjugate", is_zero, none, least, "{}, as the infimum of value has to be 0")
