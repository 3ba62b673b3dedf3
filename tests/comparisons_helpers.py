"""Problems with comparisons, with the formulas of `Case` for the rows of pairs and comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np
from helpers import Case, random_case

import tatml
from tatml import Comparisons
from tatml._learn_metric import _term_in_memory
from tatml._optim.problem import LogDetProblem
from tatml._sharding.base import LossSetting


@dataclass(frozen=True)
class ComparedCase(Case):
    """`Case` with further rows: a comparison (a, b, c, d) has A = A_cd − A_ab, y = −1 and γ = 0.

    Without pairs (`pairs` of no rows) there is no threshold: c0 = ∞ and μ0 = 0.
    """

    compared: np.ndarray = field(default=None)
    compared_weights: np.ndarray | None = None
    compared_margin: float = 1.0
    compared_C: float = 1.0  # noqa: N815

    @property
    def alone(self):
        return len(self.pairs) == 0

    @property
    def comparisons(self):
        return Comparisons(
            self.compared, self.compared_weights, self.compared_margin, self.compared_C
        )

    @property
    def quadruplets(self):
        return self.compared[:, [0, 1, 0, 2]] if self.compared.shape[1] == 3 else self.compared

    def arguments(self):
        """The positional and other arguments of `learn_metric`."""
        given = {"prior": self.prior, "comparisons": self.comparisons, "tol": 1e-12}
        if self.alone:
            return (self.blocks,), given
        names = ("weights", "C", "c0", "mu0", "margin")
        return (self.blocks, self.pairs, self.similar), given | {n: getattr(self, n) for n in names}

    def learn(self, **options):
        data, given = self.arguments()
        return tatml.learn_metric(*data, **given | options)

    def problem(self):
        data = (None, None, None) if self.alone else (self.pairs, self.similar, self.weights)
        given = (self.blocks, *data), self.comparisons, False
        setting = LossSetting(self.C, self.margin, (self.compared_C, self.compared_margin))
        term, _ = _term_in_memory(*given, setting, "float64")
        return LogDetProblem.of(term, self.c0, self.mu0, self.prior)

    def _with_compared(self, pairs, compared):
        return np.concatenate([pairs, compared])

    @property
    def y(self):
        return self._with_compared(super().y, -np.ones(len(self.compared)))

    @property
    def gamma(self):
        return self._with_compared(super().gamma, np.zeros(len(self.compared)))

    @property
    def offset(self):
        margins = np.full(len(self.compared), self.compared_margin)
        return self._with_compared(np.zeros(len(self.pairs)), margins)

    @property
    def cw(self):
        weights = self.compared_weights
        weights = np.ones(len(self.compared)) if weights is None else weights
        return self._with_compared(super().cw, self.compared_C * weights)

    @cached_property
    def A(self):
        rows = [[], []]
        for sides, columns in zip(rows, ((0, 1), (2, 3)), strict=True):
            for array in self.arrays:
                differences = [
                    array[q[columns[0]]] - array[q[columns[1]]] for q in self.quadruplets
                ]
                sides.append([difference @ difference.T for difference in differences])
        own = [
            [(array[i] - array[j]) @ (array[i] - array[j]).T for i, j in self.pairs]
            for array in self.arrays
        ]
        return [
            pairs + [far - near for near, far in zip(*sides, strict=True)]
            for pairs, *sides in zip(own, *rows, strict=True)
        ]

    def distances(self, W):
        traces = [
            [np.trace(A @ matrix) for A in rows] for rows, matrix in zip(self.A, W, strict=True)
        ]
        return np.sum(traces, axis=0) / len(W)

    def violation(self, W, b0):
        zeta = self.distances(W) - self.gamma * b0 - self.offset
        return np.maximum(self.y * zeta, 0)

    def dual(self, s):
        return super().dual(s) - self.offset @ s


def compared_case(shapes, seed=0, n_comparisons=20, columns=4, alone=False, **options):
    """Draw a problem of comparisons, alone or with pairs."""
    settings = {"compared_margin": 0.3, "compared_C": 1.5}
    settings |= {name: options.pop(name) for name in list(options) if "compared" in name}
    case = random_case(shapes, seed, **options)
    n_samples = len(case.blocks)
    rng = np.random.default_rng([seed, n_comparisons, columns])
    rows = np.array(
        [rng.choice(n_samples, columns, replace=False) for _ in range(n_comparisons)]
    ).reshape(-1, columns)
    rows = _mostly_true(rows, case.arrays, rng)
    if case.weights is not None:
        settings["compared_weights"] = rng.uniform(0.2, 3, size=n_comparisons)
    fields = vars(case) | settings
    fields.pop("A", None)
    built = ComparedCase(**fields, compared=rows)
    return without_pairs(built) if alone else built


def _mostly_true(rows, arrays, rng):
    """Swap the sides of rows whose first distance is the larger one, but for every fourth row."""
    first, second = (rows[:, [0, 1]], rows[:, [-2, -1]] if rows.shape[1] == 4 else rows[:, [0, 2]])
    near, far = (
        sum(np.sum((array[pair[:, 0]] - array[pair[:, 1]]) ** 2, axis=(1, 2)) for array in arrays)
        for pair in (first, second)
    )
    wrong = (near > far) & (rng.random(len(rows)) < 0.75)
    swapped = rows[:, [2, 3, 0, 1] if rows.shape[1] == 4 else [0, 2, 1]]
    return np.where(wrong[:, None], swapped, rows)


def without_pairs(case):
    """Return the problem of the comparisons alone."""
    weights = None if case.weights is None else case.weights[:0]
    return replace(
        case, pairs=case.pairs[:0], similar=case.similar[:0], weights=weights, c0=inf, mu0=0.0
    )


def neighbour_triplets(X, y, n_targets=3, n_impostors=5):
    """Each sample with its nearest of the same class, and its nearest of other classes."""
    squares = np.sum(X**2, axis=1)
    D = squares[:, None] + squares - 2 * X @ X.T
    np.fill_diagonal(D, inf)
    same = y[:, None] == y
    near = np.argsort(np.where(same, D, inf), axis=1, kind="stable")[:, :n_targets]
    far = np.argsort(np.where(same, inf, D), axis=1, kind="stable")[:, :n_impostors]
    n = len(X)
    triplets = np.empty((n, n_targets, n_impostors, 3), dtype=int)
    triplets[..., 0] = np.arange(n)[:, None, None]
    triplets[..., 1] = near[:, :, None]
    triplets[..., 2] = far[:, None, :]
    return triplets.reshape(-1, 3)


__all__ = [
    "ComparedCase",
    "compared_case",
    "neighbour_triplets",
    "without_pairs",
]
