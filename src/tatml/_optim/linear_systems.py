"""Three ways to solve the Newton system (I + Σ_k h_k z_k z_kᵀ) direction = rhs over active pairs.

z_k = (svec(Gᵀ A_{m,k} G)/M for each m, −γ_k/√c0), docs/theory.md (N). A direction is a list of M
symmetric matrices and one number, the threshold's part scaled by √c0.

dense      a d × d matrix, d = Σ n_m(n_m+1)/2 + 1. It is assembled from a sample of the active pairs
           if there are very many: an inexact system changes neither the gradient nor the
           certificate. If there are few pairs, it is assembled from the svec(A_k) that are kept.
woodbury   a matrix with one row per active pair, docs/theory.md (Gram)
cg         conjugate gradients: only products with the operator, no z_k is formed
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, sqrt
from typing import Any

from .._array import Array, asarray, eye, factor_posdef, inner, namespace, zeros
from .._svec import svec, svec_size, unsvec_all
from .hessian import (
    FUSED_DIMENSION,
    PAIRS_PER_DIMENSION,
    ActivePairs,
    Direction,
    by_svec,
    dimension,
    svec_chunks,
)
from .layout import joined, product_operations
from .problem import Point
from .sums import PairSums, Sums
from .terms import HessianProduct

MOST_MISSES = 2  # solutions in float32 that are not accurate before float64 is used
FIRST_PRODUCTS = 20  # expected products of conjugate gradients, before the first step is known
GRAM = 2.0  # time of an operation for the Gram matrix of the pairs, in those for a dense Hessian
LARGEST_MATRIX = 6_000  # most rows of a matrix that is factorised
ACCURATE_DIMENSION = 1_000  # most rows of a matrix that is factorised for accuracy, not for speed


class NewtonSystem:
    """The operator I + Σ_k h_k z_k z_kᵀ; this base class has no active pairs, so it is I."""

    name = "identity"
    n_products = 0
    misses = 0

    def solve(self, V: list[Array], b: float, rtol: float, check: bool = True) -> Direction:
        """Solve for one right-hand side; only conjugate gradients use `rtol` and `check`."""
        return V, b


class DenseSystem(NewtonSystem):
    """Cholesky factorisation of the d × d matrix."""

    name = "dense"

    def __init__(self, hessian: Array, sizes: Sequence[int]):
        self.sizes = sizes
        self._solve = factor_posdef(hessian + eye(hessian.shape[0], like=hessian))
        self._learns_threshold = hessian.shape[0] > sum(map(svec_size, sizes))

    def solve(self, V: list[Array], b: float, rtol: float, check: bool = True) -> Direction:
        """Solve with the Cholesky factor."""
        parts = [svec(v) for v in V]
        if self._learns_threshold:
            parts.append(asarray([b], V[0], V[0].dtype))
        solution = self._solve(namespace(V[0]).concat(parts))
        return unsvec_all(solution, self.sizes), (
            float(solution[-1]) if self._learns_threshold else 0.0
        )


class WoodburySystem(NewtonSystem):
    """Cholesky factorisation of a matrix with one row per active pair."""

    name = "woodbury"

    def __init__(self, pairs: ActivePairs):
        self.pairs, self._svec_rows = pairs, _svec_rows(pairs.sums)
        if self._svec_rows is None:
            gram = pair_gram(pairs.sums, pairs.threshold)
        else:
            gram = self._svec_rows @ self._svec_rows.T
            gram += pairs.threshold[:, None] * pairs.threshold
        self._solve = factor_posdef(gram + eye(gram.shape[0], like=gram) / pairs.curvature)

    def solve(self, V: list[Array], b: float, rtol: float, check: bool = True) -> Direction:
        """Solve with the Cholesky factor."""
        rows, threshold = self._svec_rows, self.pairs.threshold
        if rows is not None:
            given = namespace(rows).concat([svec(v) for v in V])
            q = self._solve(rows @ given + threshold * b)
            return unsvec_all(given - rows.T @ q, self.pairs.sums.features.sizes), b - inner(
                threshold, q
            )
        lifted, part = self.pairs.lift(self._solve(self.pairs.project(V, b)))
        return [v - w for v, w in zip(V, lifted, strict=True)], b - part


class ConjugateGradientSystem(NewtonSystem):
    """Conjugate gradients, until the residual is at most `rtol` times the right-hand side."""

    name = "cg"
    max_products = 500

    def __init__(self, products: HessianProduct, single: HessianProduct | None = None):
        self.products, self.single = products, single
        self.misses = 0  # solutions in float32 whose residual in float64 was too large
        # The last right-hand side, its solution and its residual.
        self._before: tuple[Direction, Direction, Direction] | None = None

    def _product(self, products: HessianProduct, V: list[Array], b: float) -> Direction:
        """Multiply by the operator; its identity part is always in float64."""
        self.n_products += 1
        lifted, part = products.product(V, b)
        return [v + w for v, w in zip(V, lifted, strict=True)], b + part

    def solve(self, V: list[Array], b: float, rtol: float, check: bool = True) -> Direction:
        """Iterate from the previous solution, or from zero if its residual is smaller.

        The right-hand side of a corrector is near that of its predictor, so the previous solution
        is a good start. With `check`, a solution in float32 is accepted if its residual in float64
        is at most twice as large as asked for; else the iteration continues from it, and from the
        second time on in float64.
        """
        solution: Direction = ([0.0 * v for v in V], 0.0)
        residual: Direction = (V, b)
        square = _inner_product(residual, residual)
        goal = rtol**2 * square
        if self._before is not None:
            rhs, known, left = self._before
            moved = _add(_add(residual, -1.0, rhs), 1.0, left)
            if _inner_product(moved, moved) < square:
                solution, residual, square = known, moved, _inner_product(moved, moved)
        while square > goal and self.n_products < self.max_products:
            solution, residual = self._iterate(solution, residual, goal)
            if self.single is None or not check:
                break
            residual = _add((V, b), -1.0, self._product(self.products, *solution))
            square = _inner_product(residual, residual)
            if square <= 4 * goal:
                break
            self._miss(isfinite(square))
            if not isfinite(square):
                solution, residual = ([0.0 * v for v in V], 0.0), (V, b)
                square = _inner_product(residual, residual)
        self._before = (V, b), solution, residual
        return solution

    def _miss(self, finite: bool) -> None:
        """Count a solution in float32 that was not accurate; after two, use float64."""
        self.misses += 1 if finite else MOST_MISSES
        if self.misses >= MOST_MISSES:
            self.single = None

    def _iterate(
        self, solution: Direction, residual: Direction, goal: float
    ) -> tuple[Direction, Direction]:
        """Iterate until the square of the residual is at most `goal`, by the recursion."""
        products = self.single or self.products
        square, direction = _inner_product(residual, residual), residual
        while square > goal and self.n_products < self.max_products:
            image = self._product(products, *direction)
            length = square / _inner_product(direction, image)
            solution = _add(solution, length, direction)
            residual = _add(residual, -length, image)
            square, before = _inner_product(residual, residual), square
            direction = _add(residual, square / before, direction)
        return solution, residual


def _svec_rows(sums: Sums) -> Array | None:
    """Return svec(A_k)/M of all pairs, where their inner products are cheaper than others."""
    shapes = sums.features.shapes
    if sums.links is not None or not all(by_svec(n, width) for n, width in shapes):
        return None
    return joined([rows for _, rows in svec_chunks(sums, 0)])


def pair_gram(sums: Sums, threshold: Array) -> Array:
    """Assemble ZᵀZ of the pairs, given the last entry of each z_k."""
    total = threshold[:, None] * threshold[None, :]  # theory (Gram)
    for m, (n, width) in enumerate(sums.features.shapes):
        block = sums.pairs.block(m)
        if by_svec(n, width):
            Z = joined([rows for _, rows in svec_chunks(block, 0)])
            inner = Z @ Z.T
        else:
            inner = _tiled_gram(block)
        rows = inner if sums.links is None else sums.links.gram(inner)
        total += rows / sums.features.n_blocks**2
    return total


def _tiled_gram(block: PairSums) -> Array:
    """Assemble ‖U_kᵀU_l‖_F² of all pairs k, l of one block from U, tile by tile.

    A tile holds n'² numbers for each of its pairs k, l.
    """
    features, k = block.features, block.n_pairs
    xp, (n, width) = features.xp, features.shapes[0]
    step = max(1, int(sqrt(features.limits.tile_numbers)) // width)
    parts = [slice(start, min(start + step, k)) for start in range(0, k, step)]
    flat = [xp.reshape(block.rows(part)[0], (-1, n)) for part in parts]
    total = zeros((k, k), like=flat[0])
    for i, rows in enumerate(parts):
        for j, columns in enumerate(parts[: i + 1]):
            inner = (flat[i] @ flat[j].T) ** 2
            shape = (rows.stop - rows.start, width, columns.stop - columns.start, width)
            tile = inner if width == 1 else xp.sum(xp.reshape(inner, shape), axis=(1, 3))
            total[rows, columns] = tile
            total[columns, rows] = tile.T
    return total


def _inner_product(a: Direction, b: Direction) -> float:
    """Compute the inner product of two directions."""
    blocks = zip(a[0], b[0], strict=True)
    return sum(float(namespace(u).sum(u * v)) for u, v in blocks) + a[1] * b[1]


def _add(a: Direction, scale: float, b: Direction) -> Direction:
    """Compute a + scale · b."""
    return [u + scale * v for u, v in zip(a[0], b[0], strict=True)], a[1] + scale * b[1]


def newton_system(
    point: Point,
    factors: Sequence[Array],
    linear_solver: str,
    rng: Any = None,
    single: bool = False,
) -> NewtonSystem:
    """Return the Newton system of a point, in the coordinates of further factors.

    If `rng` is given, a dense system may be assembled from a sample of the active pairs. `single`
    allows products of conjugate gradients in float32.
    """
    if point.n_active == 0:
        return NewtonSystem()
    name = linear_solver
    if name == "auto":
        name = fastest_system(point, rng is not None, FIRST_PRODUCTS)
    if name == "dense":
        return DenseSystem(point.hessian(factors, rng), point.problem.sizes)
    if name == "woodbury":
        return WoodburySystem(point.pairs.active_pairs(factors, point.problem.c0))
    operator = point.products(factors)
    return ConjugateGradientSystem(operator, operator.in_single() if single else None)


def fastest_system(point: Point, sampled: bool, products: int) -> str:
    """Return the way to solve the Newton system of a point that takes the fewest operations.

    `sampled` tells whether a sample of the active pairs may be used, and `products` is the expected
    number of products of conjugate gradients.
    """
    problem, k = point.problem, point.n_active
    if problem.is_listed:
        sums = problem.pairs.sums
        shapes, graph = sums.features.shapes, sums.pairs.graph
        rows = k if graph is None else min(k, graph.n_samples)
        counts = system_operations(shapes, k, rows, sampled, products)
        if sums.links is not None:  # A row has two pairs, and an entry four products of pairs.
            counts["woodbury"] *= 4
        # A Gram matrix is made from the differences, or from their svec.
        held = max(svec_size(n) if by_svec(n, width) else n * width for n, width in shapes)
        if 8 * k * held > sums.features.limits.gram_bytes:
            del counts["woodbury"]
    elif dimension(problem.sizes) <= FUSED_DIMENSION:
        return "dense"
    else:  # Each product computes the distances again, to find the active pairs.
        shapes = problem.term.block_shapes
        counts = system_operations(shapes, k, k, sampled, 2 * products)
        del counts["woodbury"]
    return min(counts, key=lambda way: counts[way])


def system_operations(
    shapes: Sequence[tuple[int, int]], k: int, n_rows: int, sampled: bool, products: int
) -> dict[str, float]:
    """Count the multiplications of each way to solve the Newton system of k active pairs.

    `n_rows` is the number of rows in products of conjugate gradients: of pairs, or of samples.
    Matrices that are too large count as infinite.
    """
    d = dimension([n for n, _ in shapes])
    assembled = min(k, PAIRS_PER_DIMENSION * d) if sampled else k
    entries = sum(svec_size(n) if by_svec(n, width) else width**2 * n for n, width in shapes)
    return {
        "dense": assembled * d**2 + d**3 / 3 if d <= LARGEST_MATRIX else inf,
        "woodbury": GRAM * (k**2 * entries + k**3 / 3) if k <= LARGEST_MATRIX else inf,
        "cg": products * product_operations(shapes, k, n_rows),
    }


def most_accurate(point: Point) -> str:
    """Return the linear solver with the better conditioned matrix: for large c, the smaller one."""
    few, d = point.n_active, dimension(point.problem.sizes)
    if min(few, d) > ACCURATE_DIMENSION:
        return "auto"
    return "woodbury" if few < d and point.problem.is_listed else "dense"
