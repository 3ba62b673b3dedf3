"""Random problems, and their formulas written out with loops over the raw samples.

The methods of `Case` are the formulas of docs/theory.md, in the user's coordinates and with a
general prior. They share no code with tatml: tests compare the library with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle
from math import inf

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import datasets

import tatml
from tatml._data.blocks import Blocks
from tatml._data.pairs import as_pairs
from tatml._optim.layout import Features, Limits
from tatml._optim.pair_term import PairTerm
from tatml._optim.problem import LogDetProblem, squared_hinge
from tatml._optim.sums import PairSums

SHAPES = {
    "vectors": [(4, 1)],
    "low rank": [(5, 2)],
    "square": [(3, 3)],
    "wide": [(2, 4)],
    "two ragged": [(3, 2), (2, 4)],
    "three ragged": [(2, 1), (3, 3), (4, 2)],
}

SYSTEMS = ("dense", "woodbury", "cg")  # the ways to solve a Newton system


def shapes_with(values):
    """Parameters of a test or fixture: every shape, with the values in turn."""
    return [*zip(SHAPES.values(), cycle(values), strict=False)]


@dataclass(frozen=True)
class Case:
    """The arguments of `learn_metric`, and the formulas of its problem by explicit loops."""

    arrays: list[np.ndarray]
    pairs: np.ndarray
    similar: np.ndarray
    weights: np.ndarray | None = None
    C: float = 1.0
    c0: float = 1.0
    mu0: float = 1.0
    margin: tuple[float, float] = (0.5, 2.0)
    prior: list[np.ndarray] | None = None

    with_ = replace

    @property
    def blocks(self):
        return Blocks(*self.arrays)

    def options(self):
        names = ("weights", "C", "c0", "mu0", "margin", "prior")
        return {name: getattr(self, name) for name in names}

    def learn(self, **options):
        return tatml.learn_metric(
            self.blocks, self.pairs, self.similar, **{"tol": 1e-12} | self.options() | options
        )

    def problem(self):
        chosen = as_pairs(self.pairs, self.similar, len(self.blocks), self.weights)
        loss = squared_hinge(chosen, self.C, self.margin)
        return LogDetProblem.build(
            self.blocks, chosen, loss, c0=self.c0, mu0=self.mu0, prior=self.prior
        )

    def at(self, W, b0):
        """Return the library's view of the point (W, b0)."""
        problem = self.problem()
        return problem.at(factors_of(problem, W), b0)

    @property
    def eyes(self):
        return [np.eye(n) for n in self.sizes]

    @property
    def sizes(self):
        return [array.shape[1] for array in self.arrays]

    @property
    def y(self):
        return np.array([1.0 if similar else -1.0 for similar in self.similar])

    @property
    def gamma(self):
        return np.array([self.margin[0] if similar else self.margin[1] for similar in self.similar])

    @property
    def cw(self):
        return self.C * (np.ones(len(self.pairs)) if self.weights is None else self.weights)

    @property
    def W0(self):
        return self.eyes if self.prior is None else self.prior

    @cached_property
    def A(self):
        """A[m][k] = Δ Δᵀ."""
        return [
            [(array[i] - array[j]) @ (array[i] - array[j]).T for i, j in self.pairs]
            for array in self.arrays
        ]

    def distances(self, W):
        M = len(W)
        return np.array(
            [
                sum(np.trace(self.A[m][k] @ W[m]) for m in range(M)) / M
                for k in range(len(self.pairs))
            ]
        )

    def scatter(self, s):
        """S_m(s)."""
        return [
            sum(value * A for value, A in zip(s, block, strict=True)) / len(self.A)
            for block in self.A
        ]

    def violation(self, W, b0):
        """r_k."""
        return np.maximum(self.y * (self.distances(W) - self.gamma * b0), 0)

    def multipliers(self, W, b0):
        """s_k = c w_k y_k r_k."""
        return self.cw * self.y * self.violation(W, b0)

    def primal(self, W, b0):
        """F(W, b0), (P)."""
        pull = 0.0 if self.c0 == inf else self.c0 / 2 * (b0 - self.mu0) ** 2
        losses = self.cw / 2 * self.violation(W, b0) ** 2
        return sum(map(divergence, W, self.W0)) + losses.sum() + pull

    def dual(self, s):
        """g(s), (D)."""
        logdet = sum(
            np.linalg.slogdet(np.eye(len(S)) + W0 @ S)[1]
            for W0, S in zip(self.W0, self.scatter(s), strict=True)
        )
        force = self.gamma @ s
        return logdet - self.mu0 * force - (s**2 / (2 * self.cw)).sum() - force**2 / (2 * self.c0)

    def gradient(self, W, b0):
        """∇_W F and ∂F/∂b0 (0 for a fixed threshold)."""
        s = self.multipliers(W, b0)
        matrices = [
            np.linalg.inv(W0) - np.linalg.inv(matrix) + S
            for W0, matrix, S in zip(self.W0, W, self.scatter(s), strict=True)
        ]
        return matrices, 0.0 if self.c0 == inf else self.c0 * (b0 - self.mu0) - self.gamma @ s

    def primal_of(self, s):
        """W(s) and b0(s), (Map)."""
        W = [
            np.linalg.inv(np.linalg.inv(W0) + S)
            for W0, S in zip(self.W0, self.scatter(s), strict=True)
        ]
        return W, self.mu0 + self.gamma @ s / self.c0

    def kkt(self, W, b0, s):
        """Residuals of the optimality conditions: of W, whitened; of b0, over √c0; of s."""
        matrices = [
            matrix @ (np.linalg.inv(W0) + S) - np.eye(len(S))
            for matrix, W0, S in zip(W, self.W0, self.scatter(s), strict=True)
        ]
        metric = max(np.abs(np.linalg.eigvals(R)).max() for R in matrices)
        threshold = 0.0 if self.c0 == inf else self.c0 * (b0 - self.mu0) - self.gamma @ s
        pairs = np.abs(s - self.multipliers(W, b0)).max()
        return metric, abs(threshold) / np.sqrt(self.c0), pairs


def solver_of(name, **settings):
    """Return the solver of this name, with settings."""
    return {"newton": tatml.Newton, "dykstra": tatml.Dykstra}[name](**settings)


def factors_of(problem, W):
    """Return factors in the problem's coordinates, of matrices in the user's."""
    return problem.whitened([problem.xp.linalg.cholesky(matrix) for matrix in W])


def metric_of(problem, L):
    """Return W in the user's coordinates, of factors in the problem's."""
    return [factor @ factor.T for factor in problem.returned(L)[0]]


def dual_of(problem, s):
    """g(s), (Conj), of a problem with any loss, by loops; −∞ outside its domain."""
    pairs, logdet = problem.pairs, 0.0
    for rows in pairs.sums.rows(slice(0, len(s))):
        S = sum(value * row.T @ row for value, row in zip(s, rows, strict=True))
        e = 1 + np.linalg.eigvalsh(S) / pairs.sums.features.n_blocks
        logdet += np.log(e).sum() if e.min() > 0 else -inf
    force = pairs.loss.gamma @ s
    conjugate = pairs.loss.conjugate(s).sum()
    return logdet - conjugate - problem.mu0 * force - force**2 / (2 * problem.c0)


def limited(problem, pairs_per_dimension=None, **limits):
    """Return the problem with other memory limits, or another size of its sampled Hessian."""
    pairs, limits = problem.pairs, Limits(**limits)

    def with_limits(sums):
        if sums is None:
            return None
        features = sums.features
        return PairSums(Features(features.blocks, features.factors, limits), sums.graph)

    term = replace(
        pairs,
        sums=with_limits(pairs.sums),
        given=with_limits(pairs.given),
        pairs_per_dimension=pairs_per_dimension or pairs.pairs_per_dimension,
    )
    return replace(problem, term=term)


def divergence(W, V):
    """Compute BD(W, V)."""
    product = np.linalg.solve(V, W)
    return np.trace(product) - np.linalg.slogdet(product)[1] - len(W)


def largest_difference(a, b):
    """Return the largest difference of the entries of two lists of matrices."""
    return max(np.max(np.abs(V - W)) for V, W in zip(a, b, strict=True))


def random_spd(rng, n, spread=1.0):
    root = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.exp(spread * rng.uniform(-1, 1, size=n))
    return symmetric(root * values @ root.T)


def symmetric(matrix):
    return (matrix + matrix.T) / 2


def random_matrices(case, seed=0):
    """Return a symmetric matrix for each block."""
    rng = np.random.default_rng(seed)
    return [symmetric(rng.normal(size=(n, n))) for n in case.sizes]


def random_factors(case, seed=0):
    """Return an invertible matrix for each block."""
    rng = np.random.default_rng(seed)
    return [np.eye(n) + 0.3 * rng.normal(size=(n, n)) for n in case.sizes]


def random_case(shapes, seed=0, n_pairs=14, n_samples=8, weights=False, prior=False, **options):
    """Draw samples and pairs, the nearer half mostly similar; options are fields of `Case`."""
    rng = np.random.default_rng([seed, n_pairs, *np.ravel(shapes)])
    arrays = [rng.normal(size=(n_samples, n, width)) / np.sqrt(n * width) for n, width in shapes]
    first = rng.integers(n_samples, size=n_pairs)
    second = (first + rng.integers(1, n_samples, size=n_pairs)) % n_samples
    square = sum(np.sum((array[first] - array[second]) ** 2, axis=(1, 2)) for array in arrays)
    noisy = square * np.exp(0.4 * rng.normal(size=n_pairs))
    similar = noisy <= np.median(noisy)
    return Case(
        arrays,
        np.stack([first, second], axis=1),
        similar,
        weights=rng.uniform(0.2, 3, size=n_pairs) if weights else None,
        prior=[random_spd(rng, n) for n, _ in shapes] if prior else None,
        **options,
    )


def random_point(case, seed=0):
    """Draw W in the user's coordinates, and b0."""
    rng = np.random.default_rng(seed)
    W = [random_spd(rng, n) for n in case.sizes]
    return W, case.mu0 if case.c0 == inf else rng.uniform(0.2, 1.5)


def random_dual_point(case, seed=0):
    """Draw s in the domain of g."""
    s = case.y * np.random.default_rng(seed).uniform(0, 1, size=len(case.pairs)) * case.cw
    lowest = min(
        np.linalg.eigvals(W0 @ S).real.min() for W0, S in zip(case.W0, case.scatter(s), strict=True)
    )
    return s * min(1.0, 0.7 / max(-lowest, 1e-9))


def dataset_case(name, n_pairs, **options):
    """Standardise a data set of scikit-learn and draw pairs, half of them similar."""
    X, label = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rng = np.random.default_rng(0)
    draws = rng.integers(len(X), size=(20 * n_pairs, 2))
    draws = draws[draws[:, 0] != draws[:, 1]]
    same = label[draws[:, 0]] == label[draws[:, 1]]
    half = n_pairs // 2
    pairs = np.concatenate([draws[same][:half], draws[~same][: n_pairs - half]])
    return Case([X[:, :, None]], pairs, np.arange(n_pairs) < half, **options)


def assert_same_blocks(actual, expected_arrays):
    assert isinstance(actual, Blocks)
    assert actual.n_blocks == len(expected_arrays)
    for array, expected in zip(actual.arrays, expected_arrays, strict=True):
        assert_array_equal(array, expected, strict=True)
        assert array.flags.c_contiguous


def strict_problem(plain):
    """Convert every array of a problem to array-api-strict."""
    xp = pytest.importorskip("array_api_strict")
    sums = plain.pairs.sums.placed(xp.asarray([0.0]))
    loss = plain.pairs.loss.placed(sums.features.like)
    factors = tuple(xp.asarray(C) for C in plain.prior_factors)
    prior = None if plain.prior is None else tuple(xp.asarray(W0) for W0 in plain.prior)
    return LogDetProblem(PairTerm(sums, loss), plain.c0, plain.mu0, factors, prior)
