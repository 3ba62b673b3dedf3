"""Newton's system where the pairs are in shards: the same two ways, with sums over the shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._array import Array, factor_posdef
from ..hessian import congruent
from ..points import Point
from ..shards import ShardedPoint
from .linear import (
    FIRST_PRODUCTS,
    ConjugateGradientSystem,
    DenseSystem,
    NewtonSystem,
    costs,
    newton_system,
)

__all__ = ["system_at"]

RECOMPUTED = 2.0  # a product over shards finds the active pairs anew


def system_at(
    point: Point,
    factors: Sequence[Array],
    linear_solver: str,
    rng: Any = None,
    products: int = FIRST_PRODUCTS,
) -> NewtonSystem:
    """`newton_system`, wherever the pairs are."""
    if not point.problem.in_shards:
        return newton_system(point, factors, linear_solver, rng, products)
    sampled = rng is not None
    name = _cheapest(point, sampled, products) if linear_solver == "auto" else linear_solver
    if name == "dense":
        return ShardedDenseSystem(point, factors, sampled)
    return ShardedConjugateGradientSystem(point, factors)


def _cheapest(point: ShardedPoint, sampled: bool, products: int) -> str:
    if point.has_whole_hessian or (sampled and point.has_hessian):
        return "dense"
    cost = costs(point.sums, point.n_active, sampled, products)
    return "dense" if cost["dense"] <= RECOMPUTED * cost["cg"] else "cg"


class ShardedDenseSystem(DenseSystem):
    """Cholesky in d dimensions."""

    def __init__(self, point: ShardedPoint, factors: Sequence[Array], sampled: bool):
        self.sums, self.xp = point.sums, point.problem.xp
        self.learns_threshold = point.problem.learns_threshold
        gram = congruent(point.hessian(sampled), factors)
        self._solve = factor_posdef(gram + np.eye(gram.shape[0]))


class ShardedConjugateGradientSystem(ConjugateGradientSystem):
    """Products alone."""

    def __init__(self, point: ShardedPoint, factors: Sequence[Array]):
        self._point, self._factors = point, factors

    def product(self, V: Sequence[Array], b: float):
        """Σ_k h_k z_k z_kᵀ (V, b), by way of the coordinates that whiten W."""
        R = self._factors
        lifted, part = self._point.hessian_product(
            [right @ v @ right.T for right, v in zip(R, V, strict=True)], b
        )
        return [right.T @ S @ right for right, S in zip(R, lifted, strict=True)], part
