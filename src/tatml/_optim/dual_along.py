"""The dual objective along a ray of multipliers, and its largest value there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from scipy.optimize import brentq, minimize_scalar

from .._array import Array, namespace, smallest, total

ACCURACY = {"xtol": 1e-9, "rtol": 1e-9, "maxiter": 50, "disp": False}  # of θ, for brentq
INSIDE = 1 - 1e-12  # share of the way to the end of the dual's domain, where g is −∞


@dataclass(frozen=True)
class DualAlong:
    """g(θ s) as a function of θ ≥ 0 (docs/theory.md, (Conj) and (GapS)): concave, and 0 at 0.

    Parameters
    ----------
    eigenvalues : sequence of arrays
        The eigenvalues of S(s).
    force : float
        γᵀs.
    conjugate : callable
        Σ φ*(θ s) + θ oᵀs as a function of θ.
    c0, mu0 : float
        Strength and centre of the threshold's term.
    quadratic : bool
        Whether φ*(θ s) = θ² φ*(s).
    """

    eigenvalues: Sequence[Array]
    force: float
    conjugate: Callable[[float], float]
    c0: float
    mu0: float
    quadratic: bool

    def value(self, theta: float) -> float:
        """Compute g(θ s); −∞ where it is not defined."""
        xp = namespace(self.eigenvalues[0])  # theory (Conj)
        moved = [theta * nu for nu in self.eigenvalues]
        if any(smallest(nu) <= -1 for nu in moved):
            return -inf
        logdet = sum(total(xp.log1p(nu)) for nu in moved)
        force = theta * self.force
        return logdet - self.conjugate(theta) - self.mu0 * force - force * force / (2 * self.c0)

    def best(self) -> tuple[float, float]:
        """Return θ in [0, 1] with the largest g(θ s), and this value."""
        lowest = min(map(smallest, self.eigenvalues))  # theory (GapS)
        end = 1.0 if lowest > -1 else -INSIDE / lowest
        inside = self._root(end) if self.quadratic else self._minimised(end)
        value, theta = max((0.0, 0.0), *((self.value(theta), theta) for theta in {inside, 1.0}))
        return theta, value

    def _root(self, end: float) -> float:
        """Return the root of the slope between 0 and `end`, for a quadratic conjugate."""
        half, other = self.conjugate(1.0), self.conjugate(-1.0)
        linear = (half - other) / 2 + self.mu0 * self.force
        twice = half + other + self.force * self.force / self.c0

        # brentq leaves its function to the garbage collector: it must not hold the pairs, as
        # `self` does.
        eigenvalues = self.eigenvalues

        def slope(theta: float) -> float:
            logdet = sum(total(nu / (1 + theta * nu)) for nu in eigenvalues)
            return logdet - linear - twice * theta

        if not slope(0.0) > 0 > slope(end):  # the best θ is one of the two
            return end
        return float(brentq(slope, 0.0, end, **ACCURACY))

    def _minimised(self, end: float) -> float:
        """Return a θ near the best one between 0 and `end`, from values alone."""
        found = minimize_scalar(
            lambda theta: -self.value(float(theta)),
            bounds=(0.0, end),
            method="bounded",
            options={"maxiter": 20},
        )
        return float(found.x)
