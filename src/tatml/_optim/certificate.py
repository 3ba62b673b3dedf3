"""The certificate of a returned point: a bound of F(L) − min F that includes rounding errors.

A solver finds a point (L, b0) and multipliers s. For any such values, docs/theory.md (Gap) states

    F − min F ≤ F − g(s) = Σ_m BD(W_m, W_m(s)) + (c0/2)(b0 − b0(s))² + Σ_k [φ + φ* − s ζ]_k

with non-negative terms. Every term is evaluated in floating point, and a bound of its rounding
error is added (docs/theory.md, (Round)). Near the solution these bounds are of second order, hence
small. F itself is known up to `primal_error`, and

    dual = primal − primal_error − gap ≤ min F

There are two ways to get the sums over pairs. `quick_certificate` uses those that the solver has
computed, with one bound of the rounding error for all pairs: this is cheap, and sufficient unless
the numbers are extreme. `full_certificate` computes the sums again, from the samples as given and
the factor that is returned, with one bound per pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan, sqrt
from typing import TYPE_CHECKING, NamedTuple

from scipy.optimize import minimize_scalar

from .._array import (
    Array,
    as_double,
    eye,
    inner,
    linalg_errors,
    namespace,
    on_gpu,
    smallest,
    total,
)
from .layout import slices
from .losses import PairLoss, zeta_at
from .sums import longest_row, n_roundings

if TYPE_CHECKING:
    from .problem import LogDetProblem, Point

HOUSEHOLDER = 20  # this times n² u bounds the relative error of the rows of a QR factorisation
CHUNK = 2**15  # pairs summed at a time: their arrays fit into a cache
GPU_CHUNK = 2**24  # pairs summed at a time on a GPU, where every chunk waits for the last one
SMALL_GRADIENT = 0.1  # norm of the whitened gradient up to which the norm bounds the excess
SCALED = 0.01  # share of F: for a larger gap, multiples of s are tried as dual points
INFLATE = 1 + 1e-9  # factor that covers the rounding of the bounds themselves


@dataclass(frozen=True)
class Certificate:
    """Proved bounds at a returned point, which include rounding errors."""

    primal: float
    """F as computed; `dual` accounts for its rounding error."""
    dual: float
    """A lower bound of min F."""
    gap: float
    """An upper bound of F − min F."""
    floor: float
    """The part of the gap that is due to rounding, which remains at an exact solution."""


class PairTotals(NamedTuple):
    """Sums over the pairs at (L, b0), and bounds of their rounding errors."""

    loss: float
    """Σ φ(ζ)."""
    loss_error: float
    force: float
    """γᵀs."""
    force_error: float
    slack: float
    """A bound of Σ φ(ζ) + φ*(s) − s ζ."""
    rounding: float
    """A bound of Σ φ(ζ) + φ*(s) − s ζ for s = φ'(ζ), where it consists of rounding only."""
    scatter_error: float
    """A bound of the Frobenius norm of the error of `scatter`."""
    scatter: list[Array]
    """LᵀS(s)L of each block."""


def unit_roundoff(array: Array) -> float:
    """Return the unit roundoff u of the dtype of an array."""
    return float(namespace(array).finfo(array.dtype).eps) / 2


def accumulated(n: float, u: float) -> float:
    """Return γ_n = n u/(1 − n u), which bounds the relative error of n successive roundings."""
    return n * u / (1 - n * u) if n * u < 0.5 else inf


def pair_totals(
    loss: PairLoss,
    b0: float,
    distances: Array,
    scatter: list[Array],
    *,
    reach: Array | None = None,
    moved: Array,
    terms: int,
    s: Array | None = None,
) -> PairTotals:
    """Sum over the pairs or comparisons, given their distances and scatter as computed.

    `moved`, a number or an array of one number per pair, bounds the rounding error of LᵀΔ_k/√M.
    `reach` is the magnitude of the numbers that distances and scatter are computed from (None: √D);
    `terms` is the number of successive roundings. The pairs are summed in chunks.
    """
    xp, u, parts = namespace(distances), unit_roundoff(distances), []  # theory (Round)
    added_up = accumulated(terms, u)
    for part in slices(distances.shape[0], GPU_CHUNK if on_gpu(distances) else CHUNK):
        phi, D = loss[part], distances[part]
        numbers = xp.sqrt(D) if reach is None else reach[part]
        shift = moved[part] if hasattr(moved, "shape") else moved
        error = added_up * numbers**2 + 2 * numbers * shift + shift**2
        zeta, pull = zeta_at(phi, D, b0), xp.abs(phi.gamma * b0)
        if phi.offset is not None:
            pull = pull + xp.abs(phi.offset)
        within = error + 4 * u * (xp.abs(zeta) + pull)
        slope = phi.slope(zeta)
        dual = slope if s is None else s[part]
        rounding = _sum_above(phi.gap_within(zeta, slope, within))
        slack = rounding if s is None else _sum_above(phi.gap_within(zeta, dual, within))
        value, force = total(phi.value(zeta)), phi.gamma * dual
        loss_error = inner(xp.abs(slope), within) + rounding + (added_up + phi.accuracy) * value
        force_error = added_up * total(xp.abs(force))
        scatter_error = inner(xp.abs(dual), error)
        sums = value, loss_error, total(force), force_error, slack, rounding, scatter_error
        parts.append(sums)  # in the order of the fields
    return PairTotals._make([*map(sum, zip(*parts, strict=True)), scatter])


def _sum_above(values: Array) -> float:
    """Sum non-negative numbers, rounded up; ∞ if one of them is NaN."""
    added_up = total(values)
    if isnan(added_up):
        return inf
    return added_up * (1 + accumulated(values.shape[0], unit_roundoff(values)))


def quick_certificate(point: Point, triangular: Sequence[Array]) -> Certificate:
    """Certify the returned form of a point, from the sums that the solver has computed.

    The returned factors are made triangular and multiplied by those of the prior. The rounding
    errors of these operations are added to those of the pairs and of the prior's term.
    """
    problem, pairs, found, L = point.problem, point.pairs, point.pairs.evaluation, point.L
    u, n = unit_roundoff(L[0]), max(problem.sizes)
    size = sqrt(sum(inner(factor, factor) for factor in L))
    condition, _ = problem.prior_rounding
    turned = HOUSEHOLDER * n * n * u
    relative = turned + accumulated(3 * n + 8, u) * condition
    totals = pair_totals(
        pairs.term.loss,
        point.b0,
        found.distances,
        found.scatter,
        reach=None if found.reach is None else found.reach(),
        moved=relative * size * longest_row(pairs.term.sums),
        terms=n_roundings(pairs.term.sums, problem.term.n_pairs) + found.more_terms,
    )
    moved = (turned + accumulated(n + 2, u) * condition) * size
    return _certificate(problem, L, triangular, point.b0, totals, moved)


def full_certificate(
    problem: LogDetProblem,
    L: Sequence[Array],
    triangular: Sequence[Array],
    b0: float,
    s: Array | None = None,
) -> Certificate:
    """Certify (L, b0) in the user's coordinates, from the samples, in float64.

    `triangular` is C⁻¹L as the solver knows it, with C the factors of the prior; `s` are
    multipliers (None: φ' at the point).
    """
    L = [as_double(factor) for factor in L]
    whitened, moved = problem.whitened_in_double(L, triangular)
    totals = problem.term.certify(L, b0, s)
    return _certificate(problem, whitened, whitened, b0, totals, moved)


def _certificate(
    problem: LogDetProblem,
    B: Sequence[Array],
    triangular: Sequence[Array],
    b0: float,
    totals: PairTotals,
    moved: float,
) -> Certificate:
    """Add up the terms; B are the whitened factors with error `moved`, rotated like the scatter."""
    u, (_, prior_error) = unit_roundoff(B[0]), problem.prior_rounding
    size = sqrt(sum(inner(factor, factor) for factor in B))
    error = 2 * size * moved + _square(moved) + prior_error * _square(size + moved)
    primal, primal_error = _objective(problem, triangular, b0, totals, error, u)
    if not (isfinite(primal) and isfinite(primal_error)):
        return Certificate(primal, 0.0, inf, inf)
    gap_at, floor = _gap_along(problem, B, b0, totals, error, u)
    gap = gap_at(1.0)
    if gap > SCALED * primal:
        found = minimize_scalar(
            gap_at, bounds=(0.0, 1.0), method="bounded", options={"maxiter": 30}
        )
        # g(0) = 0 is a lower bound for any point
        gap = min(gap, float(found.fun), primal + primal_error)
    gap = gap * INFLATE
    return Certificate(primal, max(primal - primal_error * INFLATE - gap, 0.0), gap, floor)


def _objective(
    problem: LogDetProblem,
    triangular: Sequence[Array],
    b0: float,
    totals: PairTotals,
    error: float,
    u: float,
) -> tuple[float, float]:
    """Compute F and a bound of its rounding error; `error` bounds that of LᵀW0⁻¹L (Frobenius)."""
    xp, size, logdet, spread = namespace(triangular[0]), 0.0, 0.0, 0.0
    for factor in triangular:
        logs = xp.log(xp.linalg.diagonal(factor))
        size += inner(factor, factor)
        logdet += 2 * total(logs)
        spread += 2 * total(xp.abs(logs))
    n, N = max(problem.sizes), sum(problem.sizes)
    pull = 0.0
    if problem.learns_threshold:
        pull = problem.c0 / 2 * (b0 - problem.mu0) * (b0 - problem.mu0)
    primal = size - logdet - N + totals.loss + pull
    _, prior_error = problem.prior_rounding
    rounding = accumulated(n * N + 8, u) * (size + spread + N)
    rounding += 8 * u * (abs(primal) + pull + totals.loss)
    rounding += sqrt(N) * error + 2 * sqrt(N * len(triangular)) * prior_error
    return primal, rounding + totals.loss_error


def _gap_along(
    problem: LogDetProblem,
    B: Sequence[Array],
    b0: float,
    totals: PairTotals,
    error: float,
    u: float,
) -> tuple[Callable[[float], float], float]:
    """Return the bound of F − g(θ s) as a function of θ ≤ 1, and its least value at θ = 1."""
    xp, n, N = namespace(B[0]), max(problem.sizes), sum(problem.sizes)
    grams = [factor.T @ factor - eye(factor.shape[0], like=factor) for factor in B]
    size = sum(inner(factor, factor) for factor in B)
    scatter = sum(float(xp.linalg.matrix_norm(S)) for S in totals.scatter)
    error += accumulated(n + 8, u) * (size + scatter + N) + totals.scatter_error
    root = sqrt(problem.c0)
    pull = root * (b0 - problem.mu0) if problem.learns_threshold else 0.0
    pull_error = 8 * u * (abs(pull) + abs(totals.force) / root) + totals.force_error / root

    def gap_at(theta: float) -> float:
        theta = float(theta)
        gradient = [gram + theta * S for gram, S in zip(grams, totals.scatter, strict=True)]
        threshold = abs(pull - theta * totals.force / root) + pull_error
        slack = _slack_along(totals, theta, problem.term.quadratic)
        return excess_within(gradient, error) + _square(threshold) / 2 + slack

    least = _square(error) / (2 * (1 - error)) if error < 1 else inf
    return gap_at, least + _square(pull_error) / 2 + totals.rounding


def _slack_along(totals: PairTotals, theta: float, quadratic: bool) -> float:
    """Bound Σ φ(ζ) + φ*(θ s) − θ s ζ, which is convex in θ and equal to Σ φ(ζ) at θ = 0."""
    loss = totals.loss + totals.loss_error  # theory (Round)
    if quadratic:  # its square root is a norm; s changes by (1 − θ) s
        return _square((1 - theta) * sqrt(loss) + sqrt(totals.slack))
    return (1 - theta) * loss + theta * totals.slack


def excess_by_cholesky(G: Array) -> float:
    """Compute tr G − logdet(I + G) without eigenvalues; ∞ if I + G is not positive definite."""
    xp = namespace(G)
    try:
        factor = xp.linalg.cholesky(G + eye(G.shape[0], like=G))
    except linalg_errors():
        return inf
    value = float(xp.linalg.trace(G)) - 2 * total(xp.log(xp.linalg.diagonal(factor)))
    return inf if isnan(value) else value


def excess_by_eigenvalues(eigenvalues: Sequence[Array]) -> float:
    """Compute Σ_m tr G − logdet(I + G) from the eigenvalues of each G; ∞ if one is ≤ −1."""
    xp = namespace(eigenvalues[0])
    if not all(smallest(e) > -1 for e in eigenvalues):
        return inf
    return sum(total(e - xp.log1p(e)) for e in eigenvalues)


def excess_within(gradient: Sequence[Array], error: float) -> float:
    """Bound Σ_m tr(G + E) − logdet(I + G + E) over all E with ‖E‖_F ≤ error.

    Near zero, the norm alone gives the bound. Elsewhere it is the value at G plus the largest
    change by E: ⟨E, I − (I + G)⁻¹⟩ in first order, and (ratio)²/(2(1 − ratio)) for the higher
    orders, with ratio = error/λ_min. It is ∞ where I + G + E may not be positive definite.
    """
    xp = namespace(gradient[0])  # theory (Round)
    norm = sqrt(sum(inner(G, G) for G in gradient))
    if norm + error < SMALL_GRADIENT:
        return _square(norm + error) / (2 * (1 - norm - error))
    if not isfinite(norm + error):
        return inf
    values = xp.concat([xp.linalg.eigvalsh(G) for G in gradient])
    error += 10 * values.shape[0] * unit_roundoff(values) * (1 + norm)
    lowest = 1 + smallest(values)
    if lowest <= error:
        return inf
    ratio, slopes = error / lowest, values / (1 + values)
    excess = excess_by_eigenvalues([values])
    return excess + error * sqrt(inner(slopes, slopes)) + _square(ratio) / (2 * (1 - ratio))


def _square(value: float) -> float:
    """Return value², which is ∞ where Python's power would raise OverflowError."""
    return value * value
