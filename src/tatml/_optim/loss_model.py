"""Steps that model the losses only, and keep the LogDet term exact.

As long as the active pairs stay the same, the losses are quadratic in W and b0, and only the LogDet
term is not. So a step minimises this model of the change of F at W = L (I + V) Lᵀ, b0 + β/√c0:

    tr(V) − log det(I + V) + ⟨G, V⟩ + g β + ½ β² + ½ uᵀ H u,   u = (svec V, β),

with G and g the gradient of F and H the Hessian of the losses (docs/theory.md, (Model)). That takes
several primal-dual steps, but no further pass over the pairs: where a pass takes long, it saves
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, sqrt
from typing import Any

import numpy as np

from .._array import Array, Doubles, eye, inner, linalg_errors, on_gpu, placed, to_numpy, total
from .._svec import svec, unsvec_all
from .hessian import congruent, dimension
from .problem import LogDetProblem, Point
from .steps import Pace, Reached, Step, central, primal_dual_step
from .terms import Totals

PAIRS_PER_DIMENSION = 100  # with fewer pairs, steps on the model cost more than passes over them
LARGEST_ON_GPU = 500  # most dimensions for points on a GPU: the model is minimised on the host
MOST_STEPS = 30  # limit on the steps on the model
ACCURACY = 1e-4  # size of the residual of the model, relative to √F


def is_worth_modelling(point: Point, linear_solver: str) -> bool:
    """Return whether a pass over the pairs costs more than several steps on a model of them."""
    problem, d = point.problem, dimension(point.problem.sizes)
    too_large = on_gpu(point.L[0]) and d > LARGEST_ON_GPU
    if problem.term.n_pairs < PAIRS_PER_DIMENSION * d or too_large:
        return False
    return problem.term.quadratic and point.n_active > 0 and linear_solver == "dense"


def model_step(point: Point, rng: Any) -> Reached | None:
    """Return the minimum of the model at a point; None unless F decreases there."""
    try:
        found = _minimise_model(_model_at(point, rng), sqrt(max(1.0, point.primal)))
    except linalg_errors():
        return None
    blocks = zip(point.L, found.L, strict=True)
    L = [factor @ placed(inside, factor) for factor, inside in blocks]
    reached = point.problem.at(L, found.b0)
    if not (isfinite(reached.primal) and reached.primal < point.primal):
        return None
    return reached, central(reached), Step("model", linear="dense")


def _model_at(point: Point, rng: Any) -> LogDetProblem:
    """Return the model as a problem whose prior is W, in the memory of the host."""
    problem = point.problem
    H = to_numpy(point.hessian(problem.identity(), rng))
    G = [to_numpy(block) for block in point.gradient]
    slope, c0 = point.threshold_slope, problem.c0
    term: Any = QuadraticTerm(G, slope, H, point.b0, c0)  # it has what primal-dual steps need
    return LogDetProblem(term, c0, point.b0, tuple(eye(len(block), block) for block in G))


def _minimise_model(model: LogDetProblem, scale: float) -> Point:
    """Return the minimum of the model, to `ACCURACY` times the scale √F of its problem."""
    point = model.at(model.identity(), model.mu0)
    Q, pace = central(point), Pace()
    for _ in range(MOST_STEPS):
        reached = primal_dual_step(point, Q, "dense", None, pace)
        if reached is None:
            return point
        point, Q, _ = reached
        square = sum(inner(G, G) for G in point.gradient) + point.threshold_slope**2
        if square <= (ACCURACY * scale) ** 2:
            return point
    return point


@dataclass(frozen=True)
class QuadraticTerm:
    """The quadratic model of the losses at a point, as a term of a problem.

    Parameters
    ----------
    gradient : list of M arrays of shape (n_m, n_m)
        G, the gradient of F in the coordinates that whiten W.
    slope : float
        The scaled derivative of F in b0.
    curvature : array of shape (d, d), or (d − 1, d − 1) for a fixed threshold
        H, the Hessian of the losses.
    b0, c0 : float
        The threshold at the point, and the strength of its term.
    """

    gradient: list[Doubles]
    slope: float
    curvature: Doubles
    b0: float
    c0: float

    def at(self, L: Sequence[Array], b0: float) -> QuadraticAtPoint:
        """Return the view from I + V = L Lᵀ and b0."""
        return QuadraticAtPoint(self, tuple(L), b0)


@dataclass(frozen=True)
class QuadraticAtPoint:
    """The quadratic model of the losses at one point."""

    term: QuadraticTerm
    L: tuple[Array, ...]
    b0: float

    @cached_property
    def totals(self) -> Totals:
        """The value and the derivatives of the model; all of it counts as active."""
        term, learns = self.term, self.term.c0 < np.inf
        V = [factor @ factor.T - np.eye(len(factor)) for factor in self.L]
        root = sqrt(term.c0) if learns else 0.0
        change = root * (self.b0 - term.b0) if learns else 0.0
        u = np.concatenate([*(svec(block) for block in V), [change] if learns else []])
        curved = term.curvature @ u  # H u
        slopes = zip(
            term.gradient, unsvec_all(curved, [len(block) for block in term.gradient]), strict=True
        )
        value = sum(total(G * block) for G, block in zip(term.gradient, V, strict=True))
        return Totals(
            loss=value + term.slope * change + inner(u, curved) / 2,
            force=-root * (term.slope + curved[-1]) if learns else 0.0,
            conjugate=0.0,
            shift=0.0,
            n_active=1,
            scatter=[
                factor.T @ (G + S) @ factor for factor, (G, S) in zip(self.L, slopes, strict=True)
            ],
        )

    def hessian(self, factors: Sequence[Array], c0: float, rng: Any = None) -> Array:
        """Return H in the coordinates of further factors."""
        inside = [factor @ right for factor, right in zip(self.L, factors, strict=True)]
        return congruent(self.term.curvature, inside)
