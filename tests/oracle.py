"""Judge what `learn_metric` returns with 60 digits.

`random_problem` draws hostile problems, `exact_optimum` encloses the least value of each between
a primal and a dual value, and `judge` lists the promises that a result breaks. No code of tatml
is used but the function that is judged. The formulas are those of docs/theory.md.

    python tests/oracle.py --seeds 0:2000
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, inf, isfinite, log2
from multiprocessing import Pool

import gmpy2
import mpmath
import numpy as np
from sklearn.exceptions import ConvergenceWarning

import tatml

DIGITS = 60  # of the value of F
WORKING_DIGITS = 110  # of the search for its least value, where W may span 40 orders
ROUNDING = 1e-50  # by which the bounds are widened, relative to max(1, |F|)
ACCURACY = 1e-32  # how close the bounds of the least value are, relative to max(1, |F|)
MODERATE_FEATURES = (1e-3, 1e3)
MODERATE_C = (1e-6, 1e6)
MODERATE_MU0 = (1e-2, 1e2)  # C μ0² is then at most 1e10, and multipliers keep half of their digits


# The problems


@dataclass(frozen=True)
class Problem:
    """The arguments of `learn_metric`, and whether it has to converge on them."""

    arrays: list[np.ndarray]
    pairs: np.ndarray
    similar: np.ndarray
    weights: np.ndarray | None = None
    C: float = 1.0
    c0: float = 1.0
    mu0: float = 1.0
    margin: tuple[float, float] = (0.5, 2.0)
    prior: list[np.ndarray] | None = None
    tol: float = 1e-6
    solver: str = "newton"
    max_iter: int | None = None
    regime: str = "moderate"
    compared: np.ndarray | None = None  # quadruplets; without pairs there is no threshold
    compared_weights: np.ndarray | None = None
    compared_margin: float = 1.0
    compared_C: float = 1.0  # noqa: N815
    center: list[np.ndarray] | None = None  # of a midpoint; W and the prior are then W and V
    loss: str = "squared_hinge"

    @property
    def features(self):
        """The arrays whose rows are combined, and the sign σ of x_i − σ x_j."""
        blocks = [(array, 1) for array in self.arrays]
        if self.center is None:
            return blocks
        shifted = zip(self.arrays, self.center, strict=True)
        return blocks + [(array - mean, -1) for array, mean in shifted]

    @property
    def gamma(self):
        """γ of similar and of dissimilar pairs."""
        return self.margin if self.plain else (1.0, 1.0)

    @property
    def offset(self):
        """o of similar and of dissimilar pairs."""
        return (-1, 1) if self.center is not None and self.loss == "squared_hinge" else (0, 0)

    @property
    def plain(self):
        """Whether margins multiply the threshold."""
        return self.center is None and self.loss == "squared_hinge"

    @property
    def alone(self):
        """Whether there are comparisons and no pairs."""
        return len(self.pairs) == 0

    @property
    def compared_rows(self):
        """Quadruplets, and their weights, which are 0 where both sides are the same pair."""
        if self.compared is None:
            return np.zeros((0, 4), dtype=int), np.zeros(0)
        rows, weights = self.compared, self.compared_weights
        sides = [{frozenset((a, b)), frozenset((c, d))} for a, b, c, d in rows.tolist()]
        same = [len(side) == 1 or all(len(pair) == 1 for pair in side) for side in sides]
        return rows, np.where(same, 0.0, 1.0 if weights is None else weights)

    @property
    def W0(self):
        return self.prior or [np.eye(array.shape[1]) for array, _ in self.features]

    def learn(self, **options):
        """Return the result of `learn_metric`, without its warning."""
        names = ["weights", "C", "c0", "mu0", "margin", "prior", "tol"]
        settings = {} if self.max_iter is None else {"max_iter": self.max_iter}
        solver = tatml.Newton(**settings)
        if self.solver == "dykstra":
            solver = tatml.Dykstra(random_state=0, **settings)
        settings = {name: getattr(self, name) for name in names} | {"solver": solver} | options
        data = [tatml.Blocks(*self.arrays), self.pairs, self.similar]
        if self.compared is not None:
            settings["comparisons"] = tatml.Comparisons(
                self.compared, self.compared_weights, self.compared_margin, self.compared_C
            )
        if not self.plain:
            settings |= {"loss": self.loss, "midpoint": self.center or False}
            del settings["margin"]
        if self.alone:
            data, settings = data[:1], settings | {"weights": None, "mu0": 1.0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return tatml.learn_metric(*data, **settings)


def random_problem(seed):
    """A problem that may have any scale, from features of 1e-3 to 1e9 and C of 1e-12 to 1e12."""
    rng = np.random.default_rng(seed)
    tame = rng.random() < 0.4  # so that the moderate regime has many of the problems
    solver = "dykstra" if rng.random() < 0.1 else "newton"
    low, high = MODERATE_FEATURES if tame else (1e-3, 1e9)
    shapes, n_samples = _random_shapes(rng), int(rng.integers(2, 13))
    labels = rng.integers(int(rng.integers(1, 4)), size=n_samples)
    if solver == "dykstra":
        low, high = 0.1, 10.0
    arrays, sizes = zip(
        *(_random_array(rng, n_samples, shape, labels, low, high) for shape in shapes), strict=True
    )
    n_pairs = int(rng.integers(1, 41)) if rng.random() < 0.5 else int(_log_uniform(rng, 1, 41))
    first = rng.integers(n_samples, size=n_pairs)
    second = (first + rng.integers(1, n_samples, size=n_pairs)) % n_samples
    square = _squared_distances(arrays, first, second)
    C = _log_uniform(rng, *(MODERATE_C if tame else (1e-12, 1e12)))
    if solver == "dykstra":
        C = _log_uniform(rng, 1e-4, 1)
    weights = rng.uniform(0, 3, size=n_pairs) if rng.random() < 0.25 else None
    if weights is not None:
        weights[1:][rng.random(n_pairs - 1) < 0.2] = 0.0
    similar = _random_similar(rng, square, labels[first] == labels[second])
    c0 = _random_c0(rng, C * n_pairs)
    mu0 = float(rng.choice([1.0, 1.0, 1.0, _log_uniform(rng, *MODERATE_MU0), _typical(square)]))
    problem = Problem(
        arrays=list(arrays),
        pairs=np.stack([first, second], axis=1),
        similar=similar,
        weights=weights,
        C=C,
        c0=c0,
        mu0=mu0,
        margin=(0.5, 2.0) if rng.random() < 0.7 else _random_margin(rng),
        prior=_random_prior(rng, shapes, square),
        tol=float(rng.choice([1e-6, 1e-8, 1e-10], p=[0.7, 0.15, 0.15])),
        solver=solver,
        max_iter=300 if solver == "dykstra" else None,
        regime=_regime(np.concatenate(sizes), C, mu0),
    )
    if solver == "dykstra":
        return problem
    return _with_random_comparisons(problem, np.concatenate(sizes), tame, seed)


def _with_random_comparisons(problem, sizes, tame, seed):
    """Add comparisons to some of the problems, and take the pairs of half of these away."""
    rng = np.random.default_rng([seed, 1])
    if rng.random() < 0.6:
        return problem
    n_rows, n_samples = int(_log_uniform(rng, 1, 31)), len(problem.arrays[0])
    rows = rng.integers(n_samples, size=(n_rows, 4))
    if rng.random() < 0.5:
        rows[:, 2] = rows[:, 0]  # triplets
    rows[0] = [0, 0, 0, 1]  # at least one row whose sides differ
    C = _log_uniform(rng, *(MODERATE_C if tame else (1e-12, 1e12)))
    margin = float(rng.choice([1.0, _log_uniform(rng, *MODERATE_MU0)]))
    added = {
        "compared": rows,
        "compared_weights": rng.uniform(0.1, 3, size=n_rows) if rng.random() < 0.3 else None,
        "compared_margin": margin,
        "compared_C": C,
    }
    regimes = [_regime(sizes, C, margin), problem.regime]
    if rng.random() < 0.5:
        none = {"pairs": problem.pairs[:0], "similar": problem.similar[:0], "weights": None}
        return replace(problem, **added, **none, c0=inf, mu0=0.0, regime=regimes[0])
    return replace(problem, **added, regime=max(regimes, key=lambda name: name != "moderate"))


def random_midpoint_problem(seed):
    """A problem with a midpoint, the logistic loss, or both.

    The loss is logistic in the moderate regime only: elsewhere, multipliers of exp(−10⁶) may
    decide, and the oracle finds no bounds of the optimum.
    """
    base = random_problem(seed)
    while base.solver == "dykstra" or base.compared is not None:
        seed += 1_000_003
        base = random_problem(seed)
    rng = np.random.default_rng([seed, 2])
    kinds = [("logistic", True), ("squared_hinge", True), ("logistic", False)]
    loss, has_midpoint = kinds[rng.choice(3, p=[0.5, 0.3, 0.2])]
    if base.regime != "moderate":
        loss, has_midpoint = "squared_hinge", True
    if not has_midpoint:
        return replace(base, loss=loss, margin=(1.0, 1.0))
    spread = [array.std() or 1.0 for array in base.arrays]
    center = [
        array.mean(axis=0) + size * rng.normal(size=array.shape[1:]) * rng.choice([0.0, 1.0])
        for array, size in zip(base.arrays, spread, strict=True)
    ]
    mu0 = float(rng.choice([base.mu0, -base.mu0, 0.0]))
    prior = None if base.prior is None else [*base.prior, *(0.5 * W0 for W0 in base.prior)]
    return replace(base, loss=loss, center=center, mu0=mu0, prior=prior, margin=(1.0, 1.0))


def _log_uniform(rng, low, high):
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _random_shapes(rng):
    n_blocks = int(rng.choice([1, 2, 3], p=[0.6, 0.25, 0.15]))
    if rng.random() < 0.6:
        return [(int(rng.integers(1, 13)), 1) for _ in range(n_blocks)]
    return [tuple(map(int, rng.integers(1, 6, size=2))) for _ in range(n_blocks)]


def _random_array(rng, n_samples, shape, labels, low, high):
    """Samples (n_samples, n, width), and the sizes of their columns, without and with the shift."""
    X = rng.normal(size=(n_samples, *shape))
    if rng.random() < 0.4:
        X = X * rng.choice([0.3, 0.01]) + rng.normal(size=(3, *shape))[labels]
    spread = np.full(shape[0], _log_uniform(rng, low, high))
    if rng.random() < 0.3:
        spread = np.array([_log_uniform(rng, low, high) for _ in range(shape[0])])
    shift = 0.0
    if rng.random() < 0.2:
        shift = _log_uniform(rng, 1, 1e6)
    X = (X + shift) * spread[:, None]
    if rng.random() < 0.2:  # duplicates, which make distances of exactly zero
        X = X[rng.integers(int(rng.integers(1, n_samples + 1)), size=n_samples)]
    return X, np.concatenate([spread, spread * max(1.0, shift)])


def _squared_distances(arrays, first, second):
    squares = (np.sum((array[first] - array[second]) ** 2, axis=(1, 2)) for array in arrays)
    return sum(squares) / len(arrays)


def _typical(square):
    return float(np.mean(square)) or 1.0


def _random_similar(rng, square, same_label):
    kind = rng.random()
    if kind < 0.4:
        return square <= np.median(square)
    if kind < 0.6:
        return same_label
    if kind < 0.9:
        return rng.random(len(square)) < 0.5
    return np.full(len(square), kind < 0.95)


def _random_c0(rng, data_term):
    kind = rng.random()
    if kind < 0.4:
        return inf
    return _log_uniform(rng, 1e-2, 1e2) if kind < 0.75 else _log_uniform(rng, 0.1, 10) * data_term


def _random_margin(rng):
    low = float(rng.uniform(0.05, 1.5))
    return low, low + float(rng.uniform(0.05, 3))


def _random_prior(rng, shapes, square):
    kind = rng.random()
    if kind < 0.6:
        return None
    scale = 1 / _typical(square) if kind < 0.9 else 1.0
    return [scale * (np.eye(n) if kind < 0.8 else _random_spd(rng, n)) for n, _ in shapes]


def _random_spd(rng, n):
    """Draw a matrix with a condition of up to 1e6, symmetric to the last bit."""
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = (Q * 10.0 ** rng.uniform(-3, 3, size=n)) @ Q.T
    return (matrix + matrix.T) / 2


def _regime(sizes, C, mu0):
    tame_features = MODERATE_FEATURES[0] <= min(sizes) and max(sizes) <= MODERATE_FEATURES[1]
    tame_C = MODERATE_C[0] <= C <= MODERATE_C[1]
    if tame_features and tame_C:
        return "moderate" if MODERATE_MU0[0] <= mu0 <= MODERATE_MU0[1] else "wild threshold"
    if tame_features:
        return "wild C"
    return "wild features" if tame_C else "both wild"


# The value at a point, with mpmath


def exact_value(problem, L, b0):
    """F at W = L Lᵀ and b0, every number taken as exact; infinite where L is not invertible."""
    b0 = problem.mu0 if b0 is None else b0
    if not all(isfinite(value) for block in L for value in np.ravel(block)) or not isfinite(b0):
        return mpmath.inf
    with mpmath.workdps(DIGITS):
        L, b0 = [_exact(block) for block in L], mpmath.mpf(b0)
        determinants = [mpmath.det(mpmath.matrix(block.tolist())) for block in L]
        if 0 in determinants:
            return mpmath.inf
        value = mpmath.mpf(0)
        for factor, determinant, W0 in zip(L, determinants, problem.W0, strict=True):
            C0 = _cholesky(_exact(W0))
            whitened = _forward(C0, factor)
            logdet = mpmath.log(abs(determinant) / mpmath.fprod(np.diag(C0)))
            value += mpmath.fsum(whitened.ravel(), squared=True) - 2 * logdet - len(factor)
        for k, (i, j) in enumerate(problem.pairs):
            kind = 0 if problem.similar[k] else 1
            y, gamma, offset = (1, -1)[kind], problem.gamma[kind], problem.offset[kind]
            violation = y * (_exact_distance(problem, L, i, j) - gamma * b0 - offset)
            weight = 1.0 if problem.weights is None else problem.weights[k]
            if problem.loss == "logistic":
                loss = max(violation, 0) + mpmath.log1p(mpmath.exp(-abs(violation)))
            else:
                loss = max(violation, 0) ** 2 / 2
            value += mpmath.mpf(problem.C) * weight * loss
        for (a, b, c, d), weight in zip(*problem.compared_rows, strict=True):
            excess = _exact_distance(problem, L, c, d) - _exact_distance(problem, L, a, b)
            violation = max(mpmath.mpf(problem.compared_margin) - excess, 0)
            value += mpmath.mpf(problem.compared_C) * weight / 2 * violation**2
        if problem.c0 < inf:
            return value + mpmath.mpf(problem.c0) / 2 * (b0 - problem.mu0) ** 2
        return value if b0 == problem.mu0 else mpmath.inf


def _exact_distance(problem, L, i, j):
    """D of samples i and j, or their score, given the exact factors L."""
    squares = []
    for factor, (array, sign) in zip(L, problem.features, strict=True):
        image = factor.T.dot(_exact(array[i]) - sign * _exact(array[j]))
        squares.append(sign * mpmath.fsum(image.ravel(), squared=True))
    return mpmath.fsum(squares) / len(problem.arrays)


def _exact(array):
    """The numbers of an array as those of mpmath."""
    return np.frompyfunc(mpmath.mpf, 1, 1)(np.asarray(array, dtype=object))


# The least value: arrays of numbers of 110 digits


def exact_optimum(problem, start=None):
    """Two numbers of mpmath, a dual and a primal value, between which min F is.

    `start` may be a result whose multipliers are near the optimal ones: then a few Newton steps
    for the dual problem suffice. Without, or where it misleads, an interior-point method goes all
    the way from the prior.
    """
    with _digits():
        dual = (_LogisticDual if problem.loss == "logistic" else _Dual)(problem)
        bounds = None
        if start is not None and start.active is not None:
            bounds = dual.polish(dual.multipliers_of(start))
        for distance in (2, 1e4, 1e8):  # the farther, the safer and the slower
            bounds = bounds or dual.solve(distance)
        if bounds is None:
            raise ArithmeticError("no certified optimum was found")
        lower, upper = (mpmath.mpf(str(value)) for value in bounds)
        rounding = ROUNDING * max(1, abs(upper))  # theirs, and that of `exact_value`
        return lower - rounding, upper + rounding


@contextmanager
def _digits():
    # Of the processor's flags, which NumPy looks at, gmpy2 leaves some set.
    with (
        mpmath.workdps(WORKING_DIGITS),
        np.errstate(all="ignore"),
        gmpy2.context(gmpy2.get_context(), precision=ceil(WORKING_DIGITS * log2(10))),
    ):
        yield


def _numbers(array):
    return np.frompyfunc(gmpy2.mpfr, 1, 1)(np.asarray(array, dtype=object))


class _NotPositiveDefiniteError(ArithmeticError):
    pass


def _cholesky(A):
    """The lower triangular factor of a matrix of numbers."""
    L = A * 0
    for j in range(len(A)):
        pivot = A[j, j] - L[j, :j].dot(L[j, :j])
        if not pivot > 0:
            raise _NotPositiveDefiniteError
        L[j, j] = pivot**0.5
        L[j + 1 :, j] = (A[j + 1 :, j] - L[j + 1 :, :j].dot(L[j, :j])) / L[j, j]
    return L


def _forward(L, B):
    """L⁻¹ B."""
    X = B * 0
    for i in range(len(L)):
        X[i] = (B[i] - L[i, :i].dot(X[:i])) / L[i, i]
    return X


def _solve(L, b):
    """(L Lᵀ)⁻¹ b."""
    return _forward(L[::-1, ::-1].T, _forward(L, b)[::-1])[::-1]


def _inverse(L):
    """(L Lᵀ)⁻¹."""
    half = _forward(L, _numbers(np.eye(len(L))))
    return half.T.dot(half)


def _logdet(L):
    return 2 * sum(gmpy2.log(value) for value in np.diag(L))


def _inner(A, B):
    return (A * B).sum()


def _symmetric(A):
    return (A + A.T) / 2


def _basis(X):
    """Orthonormal columns that span those of X, by Gram and Schmidt, the longest first."""
    columns, limit = [], (X * X).sum(axis=0).max() * gmpy2.mpfr(10) ** -140
    while len(columns) < len(X):
        squares = (X * X).sum(axis=0)
        longest = np.argmax(squares)
        if columns and not squares[longest] > limit:
            break
        if not squares[longest]:  # all are zero: any direction will do
            return _numbers(np.eye(len(X), 1))
        column = X[:, longest] / squares[longest] ** 0.5
        columns.append(column)
        X = X - np.outer(column, column.dot(X))
        X = X - np.outer(column, column.dot(X))
    return np.stack(columns, axis=1)


def _step_to_boundary(L, step):
    """About the largest a for which L Lᵀ + a·step is positive definite; double precision does."""
    scaled = _forward(L, _forward(L, step).T)
    lowest = np.linalg.eigvalsh(scaled.astype(float))[0]
    return inf if lowest >= 0 else -1 / lowest


def _step_within_bounds(hessian, slope, alpha):
    """Newton's step for multipliers that may move; those that it would make negative go to 0."""
    step, moving = alpha * 0, (alpha > 0) | (slope > 0)
    stopped = np.zeros(len(alpha), dtype=bool)
    while True:
        free, ended = np.flatnonzero(moving & ~stopped), np.flatnonzero(stopped)
        step[ended] = -alpha[ended]
        right = slope[free] - hessian[np.ix_(free, ended)].dot(step[ended])
        step[free] = _solve(_cholesky(hessian[np.ix_(free, free)]), right)
        negative = moving & ~stopped & (alpha + step < 0)
        if not negative.any():
            return step
        stopped |= negative


class _Dual:
    """The dual problem over α ≥ 0, in coordinates in which the prior is the identity.

    With s = yα: P_m(α) = I + Σ_k s_k A_mk, W = P⁻¹, b0 = μ0 + γᵀs/c0 and ξ = γ b0 + o + s/c. A row
    is a pair, or a comparison: A_cd − A_ab, with y = −1, γ = 0 and the margin as offset o.
    """

    def __init__(self, problem):
        weights = np.ones(len(problem.pairs)) if problem.weights is None else problem.weights
        rows, row_weights = problem.compared_rows
        self.n_pairs = len(weights) + len(rows)
        self.kept = np.flatnonzero(np.concatenate([weights, row_weights]))  # of positive weight
        pairs, rows = np.flatnonzero(weights), rows[row_weights > 0]
        similar = problem.similar[pairs]
        ones, none = np.ones(len(rows)), np.zeros(len(rows))
        self.y = _numbers(np.concatenate([np.where(similar, 1, -1), -ones]))
        self.gamma = _numbers(np.concatenate([np.where(similar, *problem.gamma), none]))
        margin = gmpy2.mpfr(problem.compared_margin)
        offset = _numbers(np.where(similar, *problem.offset))
        self.offset = np.concatenate([offset, margin * _numbers(ones)])
        self.c = np.concatenate(
            [
                gmpy2.mpfr(problem.C) * _numbers(weights[pairs]),
                gmpy2.mpfr(problem.compared_C) * _numbers(row_weights[row_weights > 0]),
            ]
        )
        self.softness = gmpy2.mpfr(0) if problem.c0 == inf else 1 / gmpy2.mpfr(problem.c0)
        self.mu0 = gmpy2.mpfr(problem.mu0)
        self.typical = self.mu0 if len(pairs) else margin
        if problem.center is not None:
            self.typical = max(abs(self.mu0), gmpy2.mpfr(1))
        # The sides of all rows: the pairs, then c and d, then a and b of the comparisons.
        parts = (problem.pairs[pairs], rows[:, 2:], rows[:, :2])
        sides = np.concatenate([part.astype(np.intp) for part in parts])
        first, second = sides.T
        k, n = len(pairs), len(rows)
        R = np.zeros((k + n, k + 2 * n), dtype=int)
        R[np.arange(k + n), np.arange(k + n)] = 1
        R[k + np.arange(n), k + n + np.arange(n)] = -1
        self.R = _numbers(R) if n else None
        root = gmpy2.mpfr(len(problem.arrays)) ** 0.5
        self.U, self.A, signs = [], [], [sign for _, sign in problem.features]
        for (array, sign), W0 in zip(problem.features, problem.W0, strict=True):
            C0 = _cholesky(_numbers(W0))
            difference = (_numbers(array[first]) - sign * _numbers(array[second])) / root
            U = np.stack([C0.T.dot(one) for one in difference])
            Q = _basis(np.concatenate(U, axis=1))  # outside their span W is W0
            U = np.stack([Q.T.dot(one) for one in U])
            self.U.append(U)
            self.A.append(np.stack([sign * one.dot(one.T) for one in U]))
        self.side_A = [sign * A for A, sign in zip(self.A, signs, strict=True)]
        self.side_means = [A.sum(axis=0) / len(A) for A in self.side_A]
        if self.R is not None:
            self.A = [self.R.dot(A.reshape(len(A), -1)).reshape(-1, *A.shape[1:]) for A in self.A]

    # What α implies

    def P(self, alpha):
        return [
            _numbers(np.eye(A.shape[1])) + S for A, S in zip(self.A, self.S(alpha), strict=True)
        ]

    def S(self, alpha):
        s = self.y * alpha
        return [s.dot(A.reshape(len(A), -1)).reshape(A.shape[1:]) for A in self.A]

    def b0(self, alpha):
        return self.mu0 + self.gamma.dot(self.y * alpha) * self.softness

    def xi(self, alpha):
        return self.gamma * self.b0(alpha) + self.offset + self.y * alpha / self.c

    def distances(self, W):
        return sum(A.reshape(len(A), -1).dot(V.ravel()) for A, V in zip(self.A, W, strict=True))

    def value(self, alpha, factors):
        """g(α), where the factors are those of P(α)."""
        force = self.gamma.dot(self.y * alpha)
        quadratic = (alpha**2 / self.c).sum() / 2 + force**2 * self.softness / 2
        linear = self.mu0 * force + self.offset.dot(self.y * alpha)
        return sum(map(_logdet, factors)) - linear - quadratic

    def primal(self, W, logdet, b0):
        """F(W, b0)."""
        value = sum(np.trace(V) - len(V) for V in W) - logdet
        violation = self.y * (self.distances(W) - self.gamma * b0 - self.offset)
        value += sum(c / 2 * a**2 for c, a in zip(self.c, violation, strict=True) if a > 0)
        return value + ((b0 - self.mu0) ** 2 / (2 * self.softness) if self.softness else 0)

    def curvature(self, W, V):
        """⟨A_k, W A_l V⟩ for all pairs, of symmetric W and V."""
        total = 0
        for U, A, one, other in zip(self.U, self.A, W, V, strict=True):
            if U.shape[2] == 1:
                flat = U[:, :, 0]
                gram = flat.dot(one).dot(flat.T) * flat.dot(other).dot(flat.T)
                total = total + (gram if self.R is None else self.R.dot(gram).dot(self.R.T))
            else:
                rows = A.reshape(len(A), -1)
                products = np.stack([one.dot(B).dot(other) for B in A])
                total = total + rows.dot(products.reshape(len(A), -1).T)
        return total

    def hessian(self, W, V):
        """Compute the Hessian of −g, positive definite; W = V = P⁻¹."""
        B = self.curvature(W, V) + np.outer(self.gamma, self.gamma) * self.softness
        B = np.outer(self.y, self.y) * B
        B[np.diag_indices_from(B)] += 1 / self.c
        return B

    def multipliers_of(self, result):
        alpha = np.zeros(self.n_pairs)
        alpha[np.asarray(result.active)] = np.maximum(result.multipliers, 0)
        return _numbers(alpha[self.kept])

    # Newton's method for the multipliers that are not zero

    def polish(self, alpha, steps=14):
        """Bounds of the optimum from near it, or None."""
        try:
            factors = [_cholesky(P) for P in self.P(alpha)]
        except _NotPositiveDefiniteError:
            return None
        lower = self.value(alpha, factors)
        for _ in range(steps):
            W = [_inverse(L) for L in factors]
            upper = self.primal(W, -sum(map(_logdet, factors)), self.b0(alpha))
            if upper - lower <= ACCURACY * max(1, abs(upper)):
                return lower, upper
            slope = self.y * (self.distances(W) - self.xi(alpha))
            try:
                step = _step_within_bounds(self.hessian(W, W), slope, alpha)
            except _NotPositiveDefiniteError:
                return None
            moved = self.climb(alpha, step, lower)
            if moved is None:
                return None
            alpha, factors, lower = moved
        return None

    def climb(self, alpha, step, lower):
        """The projected step, halved until g rises."""
        for halvings in range(8):
            trial = np.maximum(alpha + step / 2**halvings, gmpy2.mpfr(0))
            try:
                factors = [_cholesky(P) for P in self.P(trial)]
            except _NotPositiveDefiniteError:
                continue
            value = self.value(trial, factors)
            if value > lower:
                return trial, factors, value
        return None

    # From nowhere near the optimum

    def solve(self, distance, steps=120):
        """Bounds of the optimum, or None."""
        point, wanted = self.start(distance), 0.1
        for _ in range(steps):
            lower, upper = self.bounds(point)
            accuracy = float((upper - lower) / max(1, abs(upper)))
            if accuracy <= ACCURACY:
                return lower, upper
            if accuracy <= wanted:
                bounds = self.polish(point.active_multipliers())
                if bounds is not None:
                    return bounds
                wanted = accuracy / 100
            try:
                point = point.next()
            except ArithmeticError:
                return None
        return None

    def bounds(self, point):
        upper = self.primal(point.W, sum(map(_logdet, point.roots)), self.b0(point.alpha))
        try:
            factors = [_cholesky(P) for P in self.P(point.alpha)]
        except _NotPositiveDefiniteError:
            return gmpy2.mpfr(-inf), upper
        return self.value(point.alpha, factors), upper

    def start(self, distance):
        """A point with W P = ζI and αv = ζ, and ζ so large that the residuals are small to it."""
        means = [A * A.shape[1] / self.typical for A in self.side_means]
        factors = [_cholesky(S if np.any(S) else S + 1) for S in means]  # zero: of size 1, see U
        W = [_inverse(L) for L in factors]  # every direction matters as much
        D = sum(A.reshape(len(A), -1).dot(V.ravel()) for A, V in zip(self.side_A, W, strict=True))
        if self.R is not None:  # the sum of both distances of a comparison
            D = abs(self.R).dot(D)
        alpha = self.c * (D + self.gamma * abs(self.mu0) + abs(self.offset))
        if self.softness:
            most = self.typical / (self.softness * len(D))
            alpha = np.array(
                [min(a, most / g) if g else a for a, g in zip(alpha, self.gamma, strict=True)]
            )
        sizes = [max(alpha * (D + abs(self.xi(alpha))))]
        sizes += [
            abs(_forward(L, _forward(L, P).T)).max()
            for L, P in zip(factors, self.P(alpha), strict=True)
        ]
        zeta = gmpy2.mpfr(distance) * max([gmpy2.mpfr(1), *sizes])
        P = [zeta * L.dot(L.T) for L in factors]
        return _InteriorPoint(self, alpha, zeta / alpha, W, P)


class _LogisticDual(_Dual):
    """The dual for the logistic loss: smooth for 0 < α < c, so that Newton's method solves it.

    Its variables are t = log(α/(c − α)), in which α may be as near to 0 or c as exp(t) can be.
    """

    def alpha(self, t):
        return np.array([c / (1 + gmpy2.exp(-x)) for c, x in zip(self.c, t, strict=True)])

    def value(self, t, factors):
        """g(α(t)), where the factors are those of P(α)."""
        alpha, rest = self.alpha(t), self.alpha(-t)
        force = self.gamma.dot(self.y * alpha)
        logs = (
            a * gmpy2.log1p(gmpy2.exp(-x)) + b * gmpy2.log1p(gmpy2.exp(x))
            for a, b, x in zip(alpha, rest, t, strict=True)
        )
        linear = self.mu0 * force + self.offset.dot(self.y * alpha)
        return sum(map(_logdet, factors)) - linear + sum(logs) - force**2 * self.softness / 2

    def primal(self, W, logdet, b0):
        value = sum(np.trace(V) - len(V) for V in W) - logdet
        violation = self.y * (self.distances(W) - self.gamma * b0 - self.offset)
        for c, a in zip(self.c, violation, strict=True):
            value += c * (max(a, 0) + gmpy2.log1p(gmpy2.exp(-abs(a))))
        return value + ((b0 - self.mu0) ** 2 / (2 * self.softness) if self.softness else 0)

    def multipliers_of(self, result):
        """Return t near the multipliers of a result."""
        share = np.clip((super().multipliers_of(result) / self.c).astype(float), 1e-15, 1 - 1e-15)
        return _numbers(np.log(share / (1 - share)))

    def polish(self, t, steps=200):
        """Bounds of the optimum by Newton's method from any t, or None."""
        factors = None
        while factors is None:
            try:
                factors = [_cholesky(P) for P in self.P(self.alpha(t))]
            except _NotPositiveDefiniteError:
                t = t - 1
        lower = self.value(t, factors)
        for _ in range(steps):
            W, alpha, rest = [_inverse(L) for L in factors], self.alpha(t), self.alpha(-t)
            b0 = self.b0(alpha)
            upper = self.primal(W, -sum(map(_logdet, factors)), b0)
            if upper - lower <= ACCURACY * max(1, abs(upper)):
                return lower, upper
            violation = self.y * (self.distances(W) - self.gamma * b0 - self.offset)
            # With D the derivatives of α(t), the step solves (D⁻¹ + B) D δ = slope.
            root = np.array(
                [(a * b / c) ** 0.5 for a, b, c in zip(alpha, rest, self.c, strict=True)]
            )
            B = self.curvature(W, W) + np.outer(self.gamma, self.gamma) * self.softness
            B = np.outer(self.y * root, self.y * root) * B
            B[np.diag_indices_from(B)] += 1
            moved = self.climb(t, _solve(_cholesky(B), root * (violation - t)) / root, lower)
            if moved is None:
                return None
            t, factors, lower = moved
        return None

    def climb(self, t, step, lower):
        """Newton's step, halved until g rises."""
        for halvings in range(80):
            trial = t + step / 2**halvings
            try:
                factors = [_cholesky(P) for P in self.P(self.alpha(trial))]
            except _NotPositiveDefiniteError:
                continue
            value = self.value(trial, factors)
            if value > lower:
                return trial, factors, value
        return None

    def solve(self, distance):
        """Bounds of the optimum from small multipliers, or None."""
        return self.polish(_numbers(np.full(len(self.c), -np.log(distance))))


class _InteriorPoint:
    """α, v > 0 and W, P ≻ 0, on the way to αv = 0, W P = I, P = P(α) and v = y (ξ(α) − D(W)).

    The method is Mehrotra's, in the scaling of Helmberg, Kojima and Monteiro, which needs no
    eigenvalues; but W P goes to the identity and not to zero.
    """

    def __init__(self, dual, alpha, v, W, P):
        self.dual, self.alpha, self.v, self.W, self.P = dual, alpha, v, W, P
        self.roots, self.factors = [_cholesky(X) for X in W], [_cholesky(X) for X in P]

    def active_multipliers(self):
        return np.where(self.alpha > self.dual.c * self.v, self.alpha, gmpy2.mpfr(0))

    def next(self):
        """One step: predictor, and a corrector with the same matrix."""
        first = self.direction(0, 1, 0)
        sigma = (1 - min(gmpy2.mpfr(1), self.longest(first))) ** 3
        step = self.direction(*self.aims(sigma), corrected=first)
        if self.longest(step) < 0.1:  # too near a boundary: back to the middle first
            sigma = max(sigma, gmpy2.mpfr(0.5))
            step = self.direction(*self.aims(sigma))
        length = min(gmpy2.mpfr(1), gmpy2.mpfr(0.95) * self.longest(step))
        for _ in range(50):
            try:
                return self.moved(length, *step)
            except (
                _NotPositiveDefiniteError
            ):  # the way to the boundary is known in double precision
                length = length / 2
        raise ArithmeticError("the interior-point method is stuck")

    def aims(self, sigma):
        """Return the targets of αv and W P, and the share of the residuals to keep."""
        n, product = sum(map(len, self.W)), sum(map(_inner, self.W, self.P))
        mean = (self.alpha.dot(self.v) + max(0, product - n)) / (len(self.v) + n)
        return sigma * mean, max(gmpy2.mpfr(1), sigma * mean), sigma

    def direction(self, mu, tau, keep, corrected=None):
        """Towards αv = μ and W P = τI, with the residuals times `keep`."""
        inverses, system, residual, residuals = self.linearised
        blocks = range(len(self.W))
        aim = mu / self.alpha - self.v
        T = [
            tau * inverses[m]
            - self.W[m]
            - _symmetric(((1 - keep) * self.W[m]).dot(residuals[m]).dot(inverses[m]))
            for m in blocks
        ]
        if corrected is not None:
            d_alpha, d_v, d_W, d_P = corrected
            aim = aim - d_alpha * d_v / self.alpha
            T = [T[m] - _symmetric(d_W[m].dot(d_P[m]).dot(inverses[m])) for m in blocks]
        right = aim - (1 - keep) * residual + self.dual.y * self.dual.distances(T)
        d_alpha = _solve(system, right)
        S = self.dual.S(d_alpha)
        d_W = [T[m] - _symmetric(self.W[m].dot(S[m]).dot(inverses[m])) for m in blocks]
        d_P = [S[m] + (1 - keep) * residuals[m] for m in blocks]
        return d_alpha, aim - self.v / self.alpha * d_alpha, d_W, d_P

    @cached_property
    def linearised(self):
        """Return the part that all directions from this point share."""
        inverses = [_inverse(L) for L in self.factors]
        B = self.dual.hessian(self.W, inverses)
        B[np.diag_indices_from(B)] += self.v / self.alpha
        slack = self.dual.y * (self.dual.xi(self.alpha) - self.dual.distances(self.W))
        residuals = [X - P for X, P in zip(self.dual.P(self.alpha), self.P, strict=True)]
        return inverses, _cholesky(B), slack - self.v, residuals

    def longest(self, step):
        """Return about how many times the step reaches to the boundary."""
        d_alpha, d_v, d_W, d_P = step
        here, change = [*self.alpha, *self.v], [*d_alpha, *d_v]
        ratios = [-x / d for x, d in zip(here, change, strict=True) if d < 0]
        edges = map(_step_to_boundary, [*self.roots, *self.factors], [*d_W, *d_P])
        return min([*ratios, *map(gmpy2.mpfr, edges)])

    def moved(self, length, d_alpha, d_v, d_W, d_P):
        return _InteriorPoint(
            self.dual,
            self.alpha + length * d_alpha,
            self.v + length * d_v,
            [_symmetric(X + length * d) for X, d in zip(self.W, d_W, strict=True)],
            [_symmetric(X + length * d) for X, d in zip(self.P, d_P, strict=True)],
        )


# The judgement


def judge(problem, result):
    """The promises that a result breaks, in words; empty where it keeps them all."""
    lower, upper = exact_optimum(problem, result)
    value = exact_value(problem, _factors(result), result.b0)
    return broken_promises(problem, result, value, lower, upper)


def _factors(result):
    """The factors of W, and of V where there is a midpoint."""
    return [*result.L, *(getattr(result, "R", None) or [])]


def broken_promises(problem, result, value, lower, upper):
    """Return the promises that a result breaks, given F(L) and bounds of min F."""
    excess = value - upper
    goal = problem.tol * max(1.0, abs(result.primal))
    # The gap has bounds of the rounding errors in it, so F as computed is within it; where a
    # problem of moderate numbers converged, well within it.
    tame = result.converged and problem.regime == "moderate"
    slack = 1e-9 * max(1, abs(value)) + (0.01 if tame else 1) * result.gap
    lowest = min(result.history["primal"])
    known = abs(result.primal - value) <= 1e-6 * max(1, abs(value))  # else rounding decides
    checks = {
        "L is not finite, lower triangular, with a positive diagonal": _is_factor(result.L),
        "W is not L Lᵀ": all(map(_is_product, result.W, result.L)),
        f"the oracle errs: F(L) = {float(value)!r} is below the optimum": value >= lower,
        f"converged, but F(L) − min F = {float(excess):.3g} > {goal:.3g}": (
            not result.converged or excess <= goal
        ),
        f"converged with a gap of {result.gap:.3g} > {goal:.3g}": (
            not result.converged or result.gap <= goal
        ),
        f"dual − min F = {float(result.dual - upper):.3g} > 0": result.dual <= upper,
        f"F(L) − min F = {float(excess):.3g} > gap = {result.gap:.3g}": excess <= result.gap,
        f"primal − F(L) = {float(result.primal - value):.3g}": abs(result.primal - value) <= slack,
        # The history has F as computed, which may be wrong by 1e-5 where nothing converges.
        f"not converged, and F(L) = {float(value)!r} after {lowest!r} was seen": (
            result.converged or not known or value <= lowest + 1e-4 * max(1, abs(lowest))
        ),
    }
    return [words for words, holds in checks.items() if not holds]


def _is_factor(L):
    return all(
        np.all(np.isfinite(block)) and np.all(np.diag(block) > 0) and not np.any(np.triu(block, 1))
        for block in L
    )


def _is_product(W, L):
    limits = np.finfo(float)
    rounding = (len(L) + 2) * (limits.eps * (np.abs(L) @ np.abs(L).T) + limits.smallest_subnormal)
    return np.array_equal(W, W.T) and bool(np.all(np.abs(W - L @ L.T) <= rounding))


def factors_of_W(result):
    """The exact factors of the returned W, or infinite ones where it is not positive definite."""
    with mpmath.workdps(DIGITS):
        try:
            return [_cholesky(_exact(W)) for W in result.W]
        except _NotPositiveDefiniteError:
            return [np.full(W.shape, inf) for W in result.W]


# Many problems


def examine(seed, baseline=False, midpoint=False):
    """Return one line about a seed: the claims of the result, and the truth."""
    problem = (random_midpoint_problem if midpoint else random_problem)(seed)
    line = {"seed": seed, "regime": problem.regime, "solver": problem.solver, "tol": problem.tol}
    start = time.perf_counter()
    try:
        result = problem.learn()
    except Exception as error:
        name = type(error).__name__
        words = [f"{name}: {error}"]
        return line | {"status": name, "converged": False, "truly": False, "broken": words}
    learnt = time.perf_counter()
    lower, upper = exact_optimum(problem, result)
    value = exact_value(problem, factors_of_W(result) if baseline else _factors(result), result.b0)
    excess = value - upper
    within = bool(excess <= problem.tol * max(1.0, abs(result.primal)))
    return line | {
        "status": str(result.status),
        "converged": bool(result.converged),
        "truly": bool(result.converged) and within,
        "false": bool(result.converged) and not within,
        "within": within,
        "dual above": bool(result.dual > upper),
        "primal": float(result.primal),
        "dual": float(result.dual),
        "gap": float(result.gap),
        "value": float(value),
        "optimum": float(upper),
        "excess": float(excess),
        "learning": learnt - start,
        "judging": time.perf_counter() - learnt,
        "broken": [] if baseline else broken_promises(problem, result, value, lower, upper),
    }


def summary(lines):
    """A table of counts, by regime and by status."""
    columns = ("converged", "truly", "false", "within", "dual above")
    rows = [f"{'':34}{'problems':>10}" + "".join(f"{name:>12}" for name in columns)]
    keys = ("regime", "solver", "tol", "status")
    groups = [(lambda line, key=key: f"{key} {line[key]}") for key in keys]
    groups.append(lambda line: f"newton, {line['regime']}" if line["solver"] == "newton" else "")
    for name_of in [lambda line: "all", *groups]:
        for name in sorted({name_of(line) for line in lines} - {""}):
            chosen = [line for line in lines if name_of(line) == name]
            counts = (sum(line.get(column, False) for line in chosen) for column in columns)
            rows.append(f"{name:34}{len(chosen):10}" + "".join(f"{count:12}" for count in counts))
    ratios = [line["excess"] / line["gap"] for line in lines if line["converged"] and line["gap"]]
    rows.append(f"largest (F(L) − min F)/gap where converged: {max(ratios, default=0):.3g}")
    for name in ("learning", "judging"):
        rows.append(f"seconds of {name}: {sum(line.get(name, 0) for line in lines):.1f}")
    return "\n".join(rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", default="0:200", help="first:last+1 (default: 0:200)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--baseline", action="store_true", help="count only, and judge W, not L")
    parser.add_argument("--midpoint", action="store_true", help="midpoints and logistic losses")
    parser.add_argument("--json", help="a file for one line a seed")
    options = parser.parse_args(arguments)
    seeds = range(*map(int, options.seeds.split(":")))
    work = partial(examine, baseline=options.baseline, midpoint=options.midpoint)
    if options.processes == 1:
        lines = list(map(work, seeds))
    else:
        with Pool(options.processes) as pool:
            lines = list(pool.imap(work, seeds, chunksize=4))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({line["seed"]: line for line in lines}, file, indent=1)
    print(summary(lines))
    broken = [line for line in lines if line["broken"]]
    print(f"{len(broken)} seeds with broken promises", Counter(line["regime"] for line in broken))
    for line in broken:
        print(f"  {line['seed']} ({line['regime']}, {line['status']}): {'; '.join(line['broken'])}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
