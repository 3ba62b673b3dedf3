"""The steps of solver "newton" and its progress, which decides how the next step is computed."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from .hessian import dimension
from .linear_systems import ACCURATE_DIMENSION, FIRST_PRODUCTS, fastest_system, most_accurate
from .point import Point
from .result import is_converged

CYCLING = 5  # steps without a smaller gap before the hinges are smoothed, once
PATIENCE = 8  # steps without a smaller gap before a damped step is taken
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
    """The settings of the solver and its progress so far, which decide on the next step.

    Parameters
    ----------
    linear_solver : str, default="auto"
        How linear systems are solved, or "auto".
    random_state : RandomState, Generator or None, default=None
        Draws the samples of pairs; None if none may be drawn.
    single : bool, default=False
        Whether products of conjugate gradients may be in float32.
    """

    linear_solver: str = "auto"
    random_state: Any = None
    single: bool = False
    best_gap: float = inf
    best_primal: float = inf
    stale: int = 0  # steps since the gap last improved, or since the last damped step
    slow: bool = False
    n_damped: int = 0  # damped steps that were tried
    smoothed: bool = False
    products: int = FIRST_PRODUCTS
    models: bool = True  # whether steps on a model of the losses have decreased F

    def update(self, point: Point, step: Step) -> None:
        """Update the progress with a new point."""
        self.slow = self.best_gap < NEAR * point.primal and point.gap > SLOW * self.best_gap
        self.stale = 0 if point.gap < self.best_gap or step.kind == "damped" else self.stale + 1
        if point.gap < self.best_gap:
            self.best_gap, self.best_primal = point.gap, point.primal
        self.products = max(self.products, step.products)
        self.models = self.models and self.stale < 2

    def start_smoothing(self) -> None:
        """Note that the hinges are smoothed, which is done once."""
        self.smoothed = True

    def count_damped(self) -> None:
        """Count a damped step that is tried."""
        self.n_damped += 1

    def stop_modelling(self) -> None:
        """Take no more steps on a model of the losses."""
        self.models = False

    def judge_precision(self, is_enough: bool) -> None:
        """Compute products in float32 only as long as that is accurate enough."""
        self.single = self.single and is_enough

    @property
    def at_floor(self) -> bool:
        """Whether the gap is mostly rounding error and has stopped to decrease."""
        return self.stale > 1 and is_converged(self.best_gap, self.best_primal, ROUNDING_GAP)

    @property
    def cycles(self) -> bool:
        """Whether the active set seems to cycle, far from the solution and for the first time."""
        far = self.best_gap > NEAR * self.best_primal
        return self.stale == CYCLING and far and not self.smoothed

    @property
    def stalls(self) -> bool:
        """Whether primal-dual steps have not improved the gap for so long that others follow."""
        return self.stale >= PATIENCE

    @property
    def rng(self) -> Any:
        """The source of a sample of the active pairs for the next Hessian; None to use them all."""
        return None if self.slow or self.stale > 1 else self.random_state

    @property
    def forcing(self) -> float:
        """The residual that conjugate gradients may leave, smaller after steps without progress."""
        return FORCING * 0.1 ** min(self.stale, 6)

    def system_at(self, point: Point) -> str:
        """Return how to solve the next system; for "auto", accurately after failed steps."""
        if self.linear_solver != "auto":
            return self.linear_solver
        if self.stale > 2 and dimension(point.problem.sizes) <= ACCURATE_DIMENSION:
            return most_accurate(point)
        return fastest_system(point, self.rng is not None, self.products)
