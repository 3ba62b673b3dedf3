"""The steps of solver "newton" and its progress, which decides how the next step is computed."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from .damped_newton import ACCURATE_DIMENSION, most_accurate
from .hessian import dimension
from .linear_systems import FIRST_PRODUCTS
from .point import Point
from .result import is_converged

CYCLING = 5  # steps without a smaller gap before the hinges are smoothed, once
ROUNDING_GAP = 1e-14  # a relative gap below this is mostly rounding error
FORCING = 0.03  # relative residual that conjugate gradients may leave
NEAR = 1e-3  # share of F: from a gap below this, each step should reduce it quickly
SLOW = 0.5  # if a step leaves more than this share of the gap, the next Hessian uses all pairs


@dataclass(frozen=True)
class Step:
    """The step that led to a point, for the history."""

    kind: str
    length: float = 1.0
    tau: float = 1.0
    linear: str = ""
    products: int = 0


@dataclass
class Pace:
    """The progress so far, which decides how the next step is computed."""

    best_gap: float = inf
    best_primal: float = inf
    stale: int = 0  # steps since the gap last improved, or since the last damped step
    slow: bool = False
    at_floor: bool = False
    rescues: int = 0
    smoothed: bool = False
    products: int = FIRST_PRODUCTS
    models: bool = True  # whether steps on a model of the losses have decreased F
    single: bool = False  # whether products of conjugate gradients may be in float32

    def update(self, point: Point, step: Step) -> None:
        """Update the progress with a new point."""
        self.slow = self.best_gap < NEAR * point.primal and point.gap > SLOW * self.best_gap
        self.stale = 0 if point.gap < self.best_gap or step.kind == "damped" else self.stale + 1
        if point.gap < self.best_gap:
            self.best_gap, self.best_primal = point.gap, point.primal
        self.products = max(self.products, step.products)
        self.models = self.models and self.stale < 2
        self.at_floor = self.stale > 1 and is_converged(
            self.best_gap, self.best_primal, ROUNDING_GAP
        )

    def system_for(self, point: Point, linear_solver: str) -> str:
        """Return the linear solver of the next step: for "auto", an accurate one if others fail."""
        small = dimension(point.problem.sizes) <= ACCURATE_DIMENSION
        if linear_solver == "auto" and self.stale > 2 and small:
            return most_accurate(point)
        return linear_solver

    @property
    def cycles(self) -> bool:
        """Whether the active set seems to cycle, far from the solution and for the first time."""
        far = self.best_gap > NEAR * self.best_primal
        return self.stale == CYCLING and far and not self.smoothed

    @property
    def forcing(self) -> float:
        """The residual that conjugate gradients may leave, smaller after steps without progress."""
        return FORCING * 0.1 ** min(self.stale, 6)
