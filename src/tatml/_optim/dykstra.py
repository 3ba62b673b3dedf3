"""Solver "dykstra": the stochastic Dykstra algorithm, exact coordinate ascent on the dual.

Maximises, over s_k = y_k α_k with α ≥ 0 (docs/theory.md, (D) and, for any loss, (Conj)),

    g(s) = Σ_m logdet(I + S_m(s)) − Σ_k φ*_k(s_k) − μ0 γᵀs − (γᵀs)²/(2 c0)

one pair at a time. The primal point is a function of s, docs/theory.md (Map):

    W_m = (I + S_m(s))⁻¹,   b0 = μ0 + γᵀs/c0,   ξ_k = γ_k b0 + s_k/(c w_k)

so that b0, the α and the W_m are the whole state. For a pair k, t moves the dual variable s_k and
W_m⁻¹ by t A_{m,k}/M. The projection is the root of

    ξ_k(t) = D_k(t) = Σ_i λ_i/(M + t λ_i),   t > −M/λ_max            (docs/theory.md, (R))

with λ the eigenvalues of all Δᵀ W_m Δ, computed once: every value of t then costs O(Σ n_m). The
naive projection inverts M matrices for every t that it tries. The step is clipped to keep α_k ≥ 0
(docs/theory.md, (Step)).

A block keeps W_m in the form that is cheapest for its shape. `load` takes the differences of a
chunk, `square` and then `eigenvalues` evaluate one pair, and `shift` updates W_m along it.

Certificate: gap = F(W(s), b0(s)) − g(s), a sum over pairs of non-negative terms (docs/theory.md,
(GapD)). Stopping rule: gap ≤ tol · max(1, |F|). An epoch is as many projections as there are pairs.
Between epochs W is recomputed from s, so that rounding errors do not accumulate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf, sqrt
from operator import mul
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import blas, lapack

from .._array import Array, LinAlgError, inverse_factor
from .losses import BurgLoss, SquaredHinge
from .monitor import FoundPoint, Monitor
from .problem import LogDetProblem
from .result import Result, Status

ROOT_TOLERANCE = 1e-9  # relative size of the last Newton step; the error is about its square
MOST_STEPS = 100  # limit on the steps of a root search, which needs about ten
CHUNK_BYTES = 2**20  # size of a chunk of differences, which fits into the cache
FEWEST_PROJECTIONS = 32  # least number between two certificates, each of which costs about as much
STALLED = 8 * np.finfo(float).eps  # a smaller relative change of α counts as no change
# Certificates in a row without a change of α before the solver stops. It is not 1, because an epoch
# of pairs drawn with replacement misses a given pair with probability 1/e.
QUIET = 20
ORDERS: dict[str, Callable[[int, Any], Array]] = {
    "permutation": lambda n, random_state: random_state.permutation(n),
    "random": lambda n, random_state: random_state.choice(n, size=n),
    "cyclic": lambda n, random_state: np.arange(n),
}


def closed_root(xi: float, h: float, distance: float) -> float:
    """Return the t with ξ + t h = D/(1 + t D), without cancellation; D = 0 gives −ξ/h."""
    linear = xi * distance + h  # theory (Root), q = 1
    root = sqrt((xi * distance - h) * (xi * distance - h) + 4 * h * distance * distance)
    if linear >= 0:
        return 2 * (distance - xi) / (linear + root)
    return (root - linear) / (2 * h * distance)


def lowest_root(xi: float, h: float, d: float) -> float:
    """Return u = d + root(1) > 0, without cancellation."""
    beta = xi - h * d  # theory (Root)
    root = sqrt(beta * beta + 4 * h)
    return 2 / (beta + root) if beta >= 0 else (root - beta) / (2 * h)


def monotone_root(xi: float, h: float, lam: list[float], M: int) -> tuple[float, int]:
    """Return the t with ξ + t h = Σ λ/(M + t λ), by Newton from below, and its evaluations.

    p(t) = ξ + t h − Σ λ/(M + t λ) is increasing and concave, so that Newton's method increases to
    the root from the larger of two lower bounds: root(1), and its step from t = 0. Both t and
    u = t + d_min are updated: t is accurate near 0, u near the end of the domain. For so few
    numbers plain Python is faster than arrays.
    """
    highest = max(lam)
    if not highest > 0:
        return -xi / h, 0
    d, distance = M / highest, sum(lam) / M
    from_zero = (distance - xi) / (h + sum([value * value for value in lam]) / M**2)
    t, u = closed_root(xi, h, 1 / d), lowest_root(xi, h, d)
    if from_zero > t:
        t, u = from_zero, d + from_zero
    # M + t λ = (M − d λ) + u λ, a sum of non-negative numbers
    terms = [(value, M - d * value) for value in lam]
    for evaluations in range(1, MOST_STEPS):  # noqa: B007
        inverse = [value / (rest + u * value) for value, rest in terms]  # theory (R): 1/(d_i + t)
        value = xi - distance + t * (h + sum(map(mul, lam, inverse)) / M)
        step = -value / (h + sum(map(mul, inverse, inverse)))
        t, u = t + step, u + step
        if step <= ROOT_TOLERANCE * u:  # or if rounding makes it negative
            break
    return t, evaluations


def searched_root(xi: float, h: float, blocks: list[InverseBlock], M: int) -> tuple[float, int]:
    """Return the root of `monotone_root` without eigenvalues: M inverses per trial."""
    distance = sum(block.current for block in blocks) / M
    end = (distance - xi) / h  # D decreases in t, so that the root is between 0 and this
    low, high = min(0.0, end), max(0.0, end)
    slope = h + sum(block.slope() for block in blocks) / M**2
    t = (distance - xi) / slope
    if not low < t < high:
        t = (low + high) / 2
    for evaluations in range(1, MOST_STEPS):  # noqa: B007
        seen = [block.evaluate(t / M) for block in blocks]
        value = xi + t * h - sum(trace for trace, _ in seen) / M  # theory (R)
        low, high = (t, high) if value < 0 else (low, t)
        following = t - value / (h + sum(square for _, square in seen) / M**2)
        if not low <= following <= high:
            following = (low + high) / 2
        t, step = following, following - t
        if abs(step) <= ROOT_TOLERANCE * abs(t):
            break
    return t, evaluations


def efficient_block(n: int, width: int) -> RankOneBlock | ThinBlock | WideBlock:
    """Return the block for differences of shape (n, width)."""
    if width == 1:
        return RankOneBlock(n)
    return ThinBlock(n, width) if width < n else WideBlock(n, width)


class _FactorBlock:
    """W = L Lᵀ, positive definite by construction, and U = LᵀΔ of the current pair."""

    def __init__(self, n: int):
        self.L = np.empty((n, n), order="F")

    def reset(self, L: Array) -> None:
        """Set W = L Lᵀ, L upper triangular."""
        self.L[...] = L

    def metric(self) -> Array:
        """Return W."""
        return self.L @ self.L.T

    def load(self, rows: Array) -> None:
        """Take the differences of a chunk, shape (n_part, n', n), which may be overwritten."""
        self.rows, self.flat_rows = rows, rows.reshape(rows.shape[0], -1)


class RankOneBlock(_FactorBlock):
    """Block of vectors: L ← L(I + z u uᵀ), in O(n²)."""

    def __init__(self, n: int):
        super().__init__(n)
        self.u, self.image, self.lam = np.empty(n), np.empty(n), 0.0

    def square(self, place: int) -> float:
        """Compute ⟨A, W⟩ = |u|² of one pair of the chunk, the current pair from now on."""
        u = self.u = blas.dgemv(1.0, self.L, self.flat_rows[place], 0.0, self.u, 0, 1, 0, 1, 1, 1)
        self.lam = blas.ddot(u, u)
        return self.lam

    def eigenvalues(self) -> list[float]:
        """Return λ of the current pair."""
        return [self.lam]

    def shift(self, delta: float) -> None:
        """Update W ← (W⁻¹ + δ A)⁻¹ for the current pair."""
        remaining = 1 + delta * self.lam
        if not remaining > 0:
            raise LinAlgError("W is no longer positive definite")
        root = sqrt(remaining)  # theory (Step), z λ = 1/root − 1
        self.image = blas.dgemv(1.0, self.L, self.u, 0.0, self.image, 0, 1, 0, 1, 0, 1)
        blas.dger(-delta / (root * (1 + root)), self.image, self.u, 1, 1, self.L, 1, 1, 1)


class _MatrixBlock(_FactorBlock):
    """Block of matrices: the eigenvalues of UᵀU or U Uᵀ, whichever is smaller."""

    TRANSPOSED: ClassVar[int]  # whether it is UᵀU
    U: Array

    def __init__(self, n: int, smaller: int):
        super().__init__(n)
        self.gram, self.eye = np.empty((smaller, smaller), order="F"), np.eye(smaller)

    def eigenvalues(self) -> list[float]:
        """Return λ of the current pair."""
        blas.dsyrk(1.0, self.U, 0.0, self.gram, self.TRANSPOSED, 0, 1)
        return lapack.dsyevd(self.gram, 0, 0, overwrite_a=1)[0].tolist()

    def _factorise(self, delta: float) -> None:
        """Compute R with RᵀR = I + δ UᵀU or I + δ U Uᵀ, in place of the Gram matrix."""
        self.gram[...] = self.eye  # theory (Step)
        blas.dsyrk(delta, self.U, 1.0, self.gram, self.TRANSPOSED, 0, 1)
        if lapack.dpotrf(self.gram, 0, 0, 1)[1] != 0:
            raise LinAlgError("W is no longer positive definite")


class ThinBlock(_MatrixBlock):
    """Block with 1 < n' < n: L ← L(I + U Z Uᵀ), in O(n² n').

    With RᵀR = I + δ UᵀU, Z = −δ R⁻¹(I + Rᵀ)⁻¹ makes (I + U Z Uᵀ)(I + U Z Uᵀ)ᵀ the inverse of
    I + δ U Uᵀ. It needs a Cholesky factorisation, but no eigenvectors.
    """

    TRANSPOSED = 1

    def __init__(self, n: int, width: int):
        super().__init__(n, width)
        self.U, self.image = np.empty((n, width), order="F"), np.empty((n, width), order="F")
        self.flat = self.U.reshape(-1, order="F")

    def square(self, place: int) -> float:
        """Compute ⟨A, W⟩ = |U|² of one pair of the chunk, the current pair from now on."""
        blas.dgemm(1.0, self.L, self.rows[place].T, 0.0, self.U, 1, 0, 1)
        return blas.ddot(self.flat, self.flat)

    def shift(self, delta: float) -> None:
        """Update W ← (W⁻¹ + δ A)⁻¹ for the current pair."""
        self._factorise(delta)
        blas.dgemm(1.0, self.L, self.U, 0.0, self.image, 0, 0, 1)
        blas.dtrsm(1.0, self.gram, self.image, 1, 0, 0, 0, 1)
        self.gram += self.eye
        blas.dtrsm(1.0, self.gram, self.U, 1, 0, 0, 0, 1)
        blas.dgemm(-delta, self.image, self.U, 1.0, self.L, 0, 1, 1)


class WideBlock(_MatrixBlock):
    """Block with n' ≥ n: L upper triangular, L ← L R⁻¹, RᵀR = I + δ U Uᵀ, in O(n² n')."""

    TRANSPOSED = 0

    def __init__(self, n: int, width: int):
        super().__init__(n, n)

    def square(self, place: int) -> float:
        """Compute ⟨A, W⟩ = |U|² of one pair of the chunk; U overwrites Δ."""
        self.U = self.rows[place].T
        blas.dtrmm(1.0, self.L, self.U, 0, 0, 1, 0, 1)
        flat = self.flat_rows[place]
        return blas.ddot(flat, flat)

    def shift(self, delta: float) -> None:
        """Update W ← (W⁻¹ + δ A)⁻¹ for the current pair."""
        self._factorise(delta)
        blas.dtrsm(1.0, self.gram, self.L, 1, 0, 0, 0, 1)


class InverseBlock:
    """Block of the naive projection: it keeps W⁻¹, and inverts for every value of t."""

    def __init__(self, n: int, width: int):
        self.A, self.product = np.empty((n, n), order="F"), np.empty((n, n), order="F")
        self.current = 0.0

    def reset(self, L: Array) -> None:
        """Set W = L Lᵀ."""
        inverse = np.linalg.inv(L)
        self.P, self.W = np.asfortranarray(inverse.T @ inverse), np.asfortranarray(L @ L.T)

    def metric(self) -> Array:
        """Return W."""
        return np.triu(self.W) + np.triu(self.W, 1).T

    def load(self, rows: Array) -> None:
        """Take the differences of a chunk, shape (n_part, n', n)."""
        self.rows = rows

    def square(self, place: int) -> float:
        """Compute ⟨A, W⟩ of one pair of the chunk, the current pair from now on."""
        difference = self.rows[place].T
        blas.dgemm(1.0, difference, difference, 0.0, self.A, 0, 1, 1)
        self.current = self._trace(self.W)
        return self.current

    def slope(self) -> float:
        """Compute tr (A W)², right after `square` or `evaluate`."""
        return float(np.vdot(self.product, self.product.T))

    def evaluate(self, t: float) -> tuple[float, float]:
        """Compute tr V and tr V² of V = A (W⁻¹ + t A)⁻¹; infinite outside the domain."""
        W = _inverse_upper(self.P + t * self.A)
        return (inf, 0.0) if W is None else (self._trace(W), self.slope())

    def shift(self, delta: float) -> None:
        """Update W ← (W⁻¹ + δ A)⁻¹ for the current pair."""
        self.P += delta * self.A  # theory (Step)
        W = _inverse_upper(self.P.copy(order="F"))
        if W is None:
            raise LinAlgError("W is no longer positive definite")
        self.W = W

    def _trace(self, W: Array) -> float:
        blas.dsymm(1.0, W, self.A, 0.0, self.product, 0, 0, 1)
        return float(self.product.trace())


def _inverse_upper(matrix: Array) -> Array | None:
    """Return the upper triangle of the inverse, in place; None unless positive definite."""
    factor, failed = lapack.dpotrf(matrix, 0, 0, 1)
    return None if failed else lapack.dpotri(factor, 0, 1)[0]


def solve_dykstra(
    problem: LogDetProblem,
    monitor: Monitor,
    *,
    start: tuple[Sequence[Array], float] | None = None,
    multipliers: Array | None = None,
    projection: str = "efficient",
    order: str = "permutation",
    random_state: Any = None,
) -> Result:
    """Maximise g until the monitor returns a status.

    The start is an s in the domain of g; W and b0 are those of (Map). It is the first of these with
    g(s) ≥ g(0): the `multipliers` α_k of an earlier result, one per pair; the best multiple of the
    slopes φ' at `start` (factors L and b0); zero.
    """
    state = _State(problem, projection, _first_multipliers(problem, start, multipliers))
    every = -(-max(*problem.sizes, FEWEST_PROJECTIONS) // problem.pairs.sums.n_pairs)
    epoch = -1
    while True:
        epoch += 1
        if epoch % every == 0 or epoch == monitor.max_iter:
            status = state.certify(monitor, epoch)
            if status is not None:
                return monitor.result(status)
        try:
            for pairs, differences in _visits(state, ORDERS[order], random_state):
                state.project(pairs, differences)
        except LinAlgError:
            return monitor.result(Status.PRECISION)


def _visits(
    state: _State, order: Callable, random_state: Any, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[list, list]]:
    """Yield the pairs of one epoch in their order, with their differences, chunk by chunk."""
    sums, countable = state.problem.pairs.sums, state.countable
    visited = countable[order(countable.shape[0], random_state)] if countable.size else countable
    size = max(1, chunk_bytes // (8 * sums.features.numbers_per_row))
    for first in range(0, visited.shape[0], size):
        chunk = visited[first : first + size]
        rows = sums.take(chunk).pairs.rows(slice(0, chunk.shape[0]))
        yield chunk.tolist(), [np.ascontiguousarray(block, dtype=float) for block in rows]


class _State:
    """α, b0 and W between two projections, as Python numbers and blocks, which are fastest."""

    def __init__(self, problem: LogDetProblem, projection: str, alpha: Array):
        self.problem, self.M = problem, problem.pairs.sums.features.n_blocks
        self.rule = _rule_of(problem, projection)
        self.sign = np.asarray(problem.pairs.loss.sign).tolist()
        self.pull = (problem.pairs.loss.gamma / problem.c0).tolist()
        self.countable = np.nonzero(problem.pairs.loss.weight > 0)[0]
        shapes = problem.pairs.sums.features.shapes
        kind = InverseBlock if projection == "naive" else efficient_block
        self.blocks = [kind(*shape) for shape in shapes]
        self.alpha = alpha.tolist()
        self.before: Array | None = None
        self.b0, self.moves, self.quiet = problem.mu0, 0, 0

    def project(self, pairs: list[int], differences: list[Array]) -> None:
        """Project onto each pair's constraint in turn."""
        alpha, sign, pull, blocks, M = self.alpha, self.sign, self.pull, self.blocks, self.M
        slack, root, b0 = self.rule.slack, self.rule.root, self.b0
        for block, rows in zip(blocks, differences, strict=True):
            block.load(rows)
        for place, k in enumerate(pairs):
            distance = 0.0
            for block in blocks:
                distance += block.square(place)
            distance /= M
            y, alpha_k = sign[k], alpha[k]
            xi = slack(k, y * alpha_k, b0)
            if alpha_k == 0 and y * (distance - xi) <= 0:
                continue  # t has the wrong sign, so that the clipped step is zero
            delta = max(y * root(k, xi, distance, blocks), -alpha_k)
            alpha[k] = alpha_k + delta  # theory (Step)
            b0 += delta * y * pull[k]
            for block in blocks:
                block.shift(delta * y / M)
            self.moves += 1
        self.b0 = b0

    def certify(self, monitor: Monitor, epoch: int) -> Status | None:
        """Recompute W from α, compute the gap, and record the point."""
        alpha = np.asarray(self.alpha)
        try:
            point = dual_point(self.problem, self.problem.pairs.loss.sign * alpha)
        except LinAlgError:
            return Status.PRECISION
        drift = 0.0 if self.before is None else self._drift_from(point)
        self.b0 = point.b0
        for block, L in zip(self.blocks, point.L, strict=True):
            block.reset(L)
        status = monitor.record(
            epoch,
            point,
            moves=self.moves,
            evaluations=self.rule.evaluations,
            drift=drift,
        )
        if self.before is not None:
            change = float(np.max(np.abs(alpha - self.before), initial=0.0))
            stalled = change <= STALLED * float(np.max(alpha, initial=0.0))
            self.quiet = self.quiet + 1 if stalled else 0
        self.before = alpha
        return Status.PRECISION if status is None and self.quiet >= QUIET else status

    def _drift_from(self, point: FoundPoint) -> float:
        """Return the largest difference of W and (I + S(s))⁻¹, relative to the latter."""
        drift = 0.0
        for block, L in zip(self.blocks, point.L, strict=True):
            W = L @ L.T
            drift = max(drift, float(np.max(np.abs(block.metric() - W)) / np.max(np.abs(W))))
        return drift


class _HingeRule:
    """The projection of TATML's loss: ξ_k = γ_k b0 + s_k/(c w_k)."""

    def __init__(self, problem: LogDetProblem, loss: SquaredHinge, projection: str):
        sums = problem.pairs.sums
        spread = 1 / np.where(loss.weight > 0, loss.weight, 1.0)
        self.gamma, self.spread = loss.gamma.tolist(), spread.tolist()
        self.h = (spread + loss.gamma**2 / problem.c0).tolist()  # theory (G)
        self.M, self.evaluations = sums.features.n_blocks, 0
        if projection == "naive":
            self.root = self._naive_root
        elif sums.features.widths == (1,) or sums.features.sizes == (1,):
            self.root = self._closed_root
        else:
            self.root = self._efficient_root

    def slack(self, k: int, s: float, b0: float) -> float:
        return self.gamma[k] * b0 + s * self.spread[k]  # theory (Map)

    def _closed_root(self, k: int, xi: float, distance: float, blocks: list) -> float:
        return closed_root(xi, self.h[k], distance)

    def _efficient_root(self, k: int, xi: float, distance: float, blocks: list) -> float:
        lam = []
        for block in blocks:
            lam += block.eigenvalues()
        t, evaluations = monotone_root(xi, self.h[k], lam, self.M)
        self.evaluations += evaluations
        return t

    def _naive_root(self, k: int, xi: float, distance: float, blocks: list) -> float:
        t, evaluations = searched_root(xi, self.h[k], blocks, self.M)
        self.evaluations += evaluations
        return t


class _BurgRule:
    """The projection of ITML's loss, for vectors: 1/ξ_k = 1/b_k − s_k/η_k, t in closed form."""

    def __init__(self, problem: LogDetProblem, loss: BurgLoss, projection: str):
        sums = problem.pairs.sums
        if projection != "efficient" or sums.features.widths != (1,):
            raise ValueError(
                "solver: expected projection='efficient' and vectors in one block for ITML's loss, "
                f"got {projection!r} and differences of widths {sums.features.widths}"
            )
        weight = np.where(loss.weight > 0, loss.weight, 1.0)
        self.inverse_bound = (1 / loss.bound).tolist()
        self.inverse_weight = (1 / weight).tolist()
        self.share = (weight / (weight + 1)).tolist()
        self.evaluations = 0

    def slack(self, k: int, s: float, b0: float) -> float:
        return 1 / (self.inverse_bound[k] - s * self.inverse_weight[k])  # theory (Itml)

    def root(self, k: int, xi: float, distance: float, blocks: list) -> float:
        return self.share[k] * (1 / xi - 1 / distance) if distance > 0 else 0.0


def _rule_of(problem: LogDetProblem, projection: str) -> _HingeRule | _BurgRule:
    """Return the projection of the loss of a problem."""
    loss = problem.pairs.loss
    if type(loss) is SquaredHinge:
        return _HingeRule(problem, loss, projection)
    if type(loss) is BurgLoss:
        return _BurgRule(problem, loss, projection)
    raise TypeError(
        "solver: 'dykstra' needs a loss with a known projection, SquaredHinge or BurgLoss, got "
        f"{type(loss).__name__}"
    )


def dual_point(problem: LogDetProblem, s: Array) -> FoundPoint:
    """Compute the factors of W(s), b0(s) and their gap; LinAlgError outside the domain of g."""
    active = np.nonzero(s)[0]  # theory (Map)
    scatter = problem.pairs.sums.take(active).scatter(s[active])
    L = [inverse_factor(np.eye(S.shape[0]) + S) for S in scatter]
    b0 = problem.mu0 + problem.threshold_force(s) / problem.c0
    zeta = problem.pairs.sums.transformed(L).distances() - problem.pairs.loss.gamma * b0
    return FoundPoint.of_dual(problem, L, b0, zeta, s)


def _first_multipliers(
    problem: LogDetProblem, start: tuple[Sequence[Array], float] | None, multipliers: Array | None
) -> Array:
    """Return the α of the start: see `solve_dykstra`; g(0) = 0."""
    candidates = []
    if multipliers is not None:
        candidates.append(
            np.where(problem.pairs.loss.weight > 0, problem.pairs.loss.sign * multipliers, 0.0)
        )
    if start is not None:
        slopes = problem.at(*start).pairs.evaluation.s
        candidates.append(problem.best_multiple(slopes)[0] * slopes)
    for s in candidates:
        if _dual_value(problem, s) >= 0:
            return np.abs(s)
    return np.zeros(problem.pairs.sums.n_pairs)


def _dual_value(problem: LogDetProblem, s: Array) -> float:
    """Compute g(s); −∞ or NaN outside its domain, or numerically on its boundary."""
    try:
        with np.errstate(invalid="ignore", divide="ignore"):
            point = dual_point(problem, s)
    except LinAlgError:
        return -np.inf
    return point.primal - point.gap
