"""The Newton system (I + Σ_k h_k z_k z_kᵀ) direction = rhs over the active pairs, three ways.

z_k = (svec(Gᵀ A_{m,k} G)/M for each m, −γ_k/√c0), docs/theory.md (N). A direction is a list of M
symmetric matrices and one number, the threshold's part scaled by √c0.

dense      in d = Σ n_m(n_m+1)/2 + 1 dimensions; from a sample of the active pairs where there are
           very many, for the gradient and the certificate stay exact whatever the system is, and
           from svec(A_k) kept by the problem where these are few
woodbury   in as many dimensions as there are active pairs, docs/theory.md (Gram)
cg         conjugate gradients: products alone, no z_k is ever formed
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from typing import Any

from .._array import Array, asarray, draw, eye, factor_posdef, namespace, zeros
from ..hessian import PAIRS_PER_DIMENSION, ActivePairs, Direction, congruent, dimension
from ..points import Point
from ..sums import PairSums, chunk_bytes, svec, svec_size, unsvec

__all__ = ["SYSTEMS", "Direction", "NewtonSystem", "newton_system"]

FIRST_PRODUCTS = 20  # of conjugate gradients, until the first step has shown how many
TILE = 2**20  # numbers in a tile of the Gram matrix
HELD_BYTES = 2**26  # of active differences, or their svec, that a Gram matrix may be made from
LARGEST_MATRIX = 6_000  # rows: above this no matrix is formed


class NewtonSystem(ActivePairs):
    """The operator I + Σ_k h_k z_k z_kᵀ; without active pairs, the identity."""

    name = "identity"
    n_products = 0

    def solve(self, V: list[Array], b: float, rtol: float) -> Direction:
        """The direction for one right-hand side; `rtol` matters to conjugate gradients alone."""
        return V, b


class DenseSystem(NewtonSystem):
    """Cholesky in d dimensions."""

    name = "dense"

    def __init__(self, *args):
        super().__init__(*args)
        self._solve = factor_posdef(self._assemble())

    def _assemble(self) -> Array:
        gram = self.gram()
        return gram + eye(gram.shape[0], like=gram)

    def solve(self, V, b, rtol):
        """Solve by the factorisation at hand."""
        xp, parts = self.xp, [svec(v) for v in V]
        if self.learns_threshold:
            parts.append(asarray([b], V[0], V[0].dtype))
        solution = self._solve(xp.concat(parts))
        matrices, start = [], 0
        for n in self.sums.sizes:
            matrices.append(unsvec(solution[start : start + svec_size(n)], n))
            start += svec_size(n)
        return matrices, float(solution[start]) if self.learns_threshold else 0.0


class KeptDenseSystem(DenseSystem):
    """The same from the svec(A_k) that the problem keeps: one Gram matrix, then G on both sides."""

    def __init__(self, point: Point, factors: Sequence[Array]):
        problem = point.problem
        self._rows = problem.svec_rows
        self._G = [L @ right for L, right in zip(point.L, factors, strict=True)]
        super().__init__(point.sums, point.curvature, problem.loss.gamma, problem.c0)

    def _assemble(self) -> Array:
        step = max(16, chunk_bytes(self._rows) // (8 * self._rows.shape[1]))
        starts = range(0, self._rows.shape[0], step)
        parts = [slice(start, min(start + step, self._rows.shape[0])) for start in starts]
        gram = self.gram_of((part, self._rows[part, :]) for part in parts)
        return congruent(gram, self._G) + eye(gram.shape[0], like=gram)


class WoodburySystem(NewtonSystem):
    """Cholesky in as many dimensions as there are active pairs."""

    name = "woodbury"

    def __init__(self, *args):
        super().__init__(*args)
        self._solve = factor_posdef(self._gram())

    def _gram(self) -> Array:
        gram = pair_gram(self.sums, self.threshold)
        return gram + eye(gram.shape[0], like=gram) / self.curvature

    def solve(self, V, b, rtol):
        """Solve by the factorisation at hand."""
        lifted, part = self.lift(self._solve(self.project(V, b)))
        return [v - w for v, w in zip(V, lifted, strict=True)], b - part


class ConjugateGradientSystem(NewtonSystem):
    """Products alone, until the residual has fallen to `rtol` of the right-hand side."""

    name = "cg"
    max_products = 500
    _before = None  # the last right-hand side, its solution and what that leaves

    def __init__(self, sums, *args):
        super().__init__(sums.held(), *args)

    def _product(self, V, b) -> Direction:
        self.n_products += 1
        lifted, part = self.product(V, b)
        return [v + w for v, w in zip(V, lifted, strict=True)], b + part

    def solve(self, V, b, rtol):
        """Iterate from the solution for the right-hand side before, or from zero if it is nearer.

        A corrector's right-hand side is near its predictor's: most of the work is then done.
        """
        solution, residual = ([0.0 * v for v in V], 0.0), (V, b)
        square = _inner(residual, residual)
        goal = rtol**2 * square
        if self._before is not None:
            rhs, known, left = self._before
            moved = _add(_add(residual, -1.0, rhs), 1.0, left)
            if _inner(moved, moved) < square:
                solution, residual, square = known, moved, _inner(moved, moved)
        direction = residual
        while square > goal and self.n_products < self.max_products:
            image = self._product(*direction)
            length = square / _inner(direction, image)
            solution = _add(solution, length, direction)
            residual = _add(residual, -length, image)
            square, before = _inner(residual, residual), square
            direction = _add(residual, square / before, direction)
        self._before = (V, b), solution, residual
        return solution


def pair_gram(sums: PairSums, threshold: Array) -> Array:
    """ZᵀZ of the pairs, given the last entry of each z_k."""
    total = threshold[:, None] * threshold[None, :]  # theory (Gram)
    for m, (n, width) in enumerate(zip(sums.sizes, sums.widths, strict=True)):
        block = sums.block(m)
        inner = _svec_gram(block) if by_svec(n, width) else _tiled_gram(block)
        total += inner / sums.n_blocks**2
    return total


def _svec_gram(block: PairSums) -> Array:
    """‖U_kᵀU_l‖_F² of all pairs k, l of one block, as inner products of svec(A_k)."""
    Z = block.xp.concat([block.svec_rows(rows) for _, rows in block.chunks()])
    return Z @ Z.T


def _tiled_gram(block: PairSums) -> Array:
    """The same from U, tile by tile: a tile holds n'² numbers for each of its pairs k, l."""
    xp, k, width = block.xp, block.n_pairs, block.widths[0]
    step = max(1, int(sqrt(TILE)) // width)
    parts = [slice(start, min(start + step, k)) for start in range(0, k, step)]
    flat = [xp.reshape(block.rows(part)[0], (-1, block.sizes[0])) for part in parts]
    total = zeros((k, k), like=flat[0])
    for i, rows in enumerate(parts):
        for j, columns in enumerate(parts[: i + 1]):
            inner = (flat[i] @ flat[j].T) ** 2
            shape = (rows.stop - rows.start, width, columns.stop - columns.start, width)
            tile = inner if width == 1 else xp.sum(xp.reshape(inner, shape), axis=(1, 3))
            total[rows, columns] = tile
            total[columns, rows] = tile.T
    return total


def _inner(a: Direction, b: Direction) -> float:
    pairs = zip(a[0], b[0], strict=True)
    return sum(float(namespace(u).sum(u * v)) for u, v in pairs) + a[1] * b[1]


def _add(a: Direction, scale: float, b: Direction) -> Direction:
    return [u + scale * v for u, v in zip(a[0], b[0], strict=True)], a[1] + scale * b[1]


SYSTEMS = {kind.name: kind for kind in (DenseSystem, WoodburySystem, ConjugateGradientSystem)}


def newton_system(
    point: Point,
    factors: Sequence[Array],
    linear_solver: str,
    rng: Any = None,
    products: int = FIRST_PRODUCTS,
) -> NewtonSystem:
    """The Newton system of a point, in the coordinates of the given factors of its own.

    With an `rng`, a dense system may be assembled from a sample of the active pairs.
    """
    some, scale, name = None, 1.0, linear_solver
    if linear_solver == "auto":
        name = cheapest(point.sums, point.n_active, rng is not None, products)
    enough = PAIRS_PER_DIMENSION * dimension(point.sums)
    if rng is not None and name == "dense" and 2 * enough < point.n_active:
        some = draw(rng, point.n_active, enough, like=point.active)
        scale = point.n_active / enough
    elif name == "dense" and point.n_active and point.problem.svec_rows is not None:
        return KeptDenseSystem(point, factors)
    kind = SYSTEMS[name] if point.n_active else NewtonSystem
    return kind(*point.active_pairs(factors, some, scale))


def by_svec(n: int, width: int) -> bool:
    """Whether inner products of svec(A_k) are cheaper than those of U_k."""
    return width**2 * n >= svec_size(n)


def cheapest(sums: PairSums, k: int, sampled: bool, products: int) -> str:
    """The way that is expected to be the fastest for k active pairs."""
    cost = costs(sums, k, sampled, products)
    return min(cost, key=cost.get)


def costs(sums: PairSums, k: int, sampled: bool, products: int) -> dict[str, float]:
    """What each way is expected to cost for k active pairs.

    Costs are in multiplications at the rate of the dense way; the factors were measured by
    benchmarks/linear_solvers.py. `products` is what conjugate gradients are expected to need.
    """
    shapes, d = list(zip(sums.sizes, sums.widths, strict=True)), dimension(sums)
    assembled = min(k, PAIRS_PER_DIMENSION * d) if sampled else k
    entries = [svec_size(n) if by_svec(n, w) else w**2 * n for n, w in shapes]
    held = 8 * k * max(svec_size(n) if by_svec(n, w) else n * w for n, w in shapes)
    fits = k <= LARGEST_MATRIX and held <= HELD_BYTES
    product = sum(2 * k * n * width * (n + 48) for n, width in shapes) + 1.5e6
    return {
        "dense": assembled * d**2 + d**3 / 3 if d <= LARGEST_MATRIX else inf,
        "woodbury": 1.8 * (k**2 * sum(entries) + k**3 / 3) if fits else inf,
        "cg": products * product,
    }
