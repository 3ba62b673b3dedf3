"""From samples and pairs to a learnt metric: what TATML, Maz and TATMLPairs share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from math import inf, sqrt
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import StratifiedGroupKFold, check_cv

from .._checks import (
    check_choice,
    check_count,
    check_flag,
    check_margin,
    check_number_or,
    check_positive,
    check_prior,
    check_random,
    check_threshold,
    check_two,
)
from .._inputs import class_labels, group_labels
from .._messages import shown
from .._warnings import warn_user
from ..blocks import Blocks, read_array
from ..core import solve
from ..drawing import STRATEGIES, balanced, draw_pairs
from ..metric import (
    MetricMixin,
    check_components,
    components_of,
    embedded,
    one_or_list,
    row_distances,
)
from ..pairs import Pairs
from ..priors import IDENTICAL, PRIORS, make_prior, rows_of
from ..problem import LogDetProblem, squared_hinge
from ..solvers import SOLVERS, Result
from ..sums import PairSums
from ..thresholds import b0_of, learnt_b0, threshold_of

__all__ = [
    "LabelPairsMixin",
    "LogDetLearner",
    "ThresholdMixin",
    "best_b0",
    "check_fits_folds",
    "folds_of",
    "mean_scatter",
    "within_classes",
    "within_pairs",
]

SIZES = ("c0", "threshold", "threshold_prior", "threshold_strength")
Matrices = Sequence[NDArray[np.float64]]


class LabelPairsMixin:
    """Draws pairs from labels by the parameters of a label estimator."""

    def _draw(
        self, blocks: Blocks, y, groups, strategy: str | None = None
    ) -> tuple[Pairs, NDArray[np.intp]]:
        """The pairs, by the model's strategy if not by another, and the samples' class numbers."""
        _, labels = class_labels(self, y, len(blocks))
        check_choice("pairs", self.pairs, STRATEGIES)
        strategy = self.pairs if strategy is None else strategy
        n_pairs = self.n_pairs_per_class
        if n_pairs is not None:
            n_pairs = check_count("n_pairs_per_class", n_pairs, least=2)
        pairs = draw_pairs(
            strategy,
            blocks,
            labels,
            group_labels(groups, len(blocks)),
            n_pairs_per_class=n_pairs,
            n_neighbors=check_count("n_neighbors", self.n_neighbors),
            random_state=check_random(self.random_state),
            space=self._neighbor_space(blocks, labels) if strategy == "neighbors" else None,
        )
        return pairs, labels

    def _random_pairs(self, blocks: Blocks, y, groups) -> Pairs:
        """Pairs as they come, for what must not depend on how a metric was taught."""
        kind = "all" if self.pairs == "all" else "random"
        return balanced(self._draw(blocks, y, groups, kind)[0])

    def _check_words(self) -> None:
        super()._check_words()
        check_choice("pairs", self.pairs, STRATEGIES)

    def _neighbor_space(self, blocks: Blocks, labels: NDArray[np.intp]) -> NDArray | None:
        """Where neighbours are sought: in the metric of the prior, where there is one."""
        prior = getattr(self, "prior", "auto")
        if not isinstance(prior, str):
            return _embedded_by(check_prior(prior, blocks), blocks)
        check_choice("prior", prior, PRIORS)
        if prior == "auto":
            return None
        around_mean = [rows_of(array - array.mean(axis=0)) for array in blocks.arrays]
        scatter = [rows.T @ rows / len(blocks) for rows in around_mean]
        W0 = make_prior(prior, blocks, scatter, within_classes(blocks, labels))
        return _embedded_by(W0, blocks)

    def __sklearn_tags__(self):
        """Needs labels, and takes matrices too."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        return tags


def _embedded_by(W: Matrices, blocks: Blocks) -> NDArray[np.float64]:
    """The samples in the coordinates of given matrices."""
    L = [np.linalg.cholesky(matrix) for matrix in W]
    return embedded(components_of(L, blocks, None), blocks)


def folds_of(cv: Any, labels: NDArray[np.intp], groups: NDArray[np.intp] | None) -> list:
    """Splits for a search; with groups, none of them is on both sides."""
    is_count = isinstance(cv, Integral) and not isinstance(cv, bool)
    if is_count:
        cv = check_count("cv", cv, least=2)
    if groups is not None and is_count:
        cv = StratifiedGroupKFold(cv)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            splitter = check_cv(cv, labels, classifier=True)
            folds = list(splitter.split(np.zeros(len(labels)), labels, groups))
    except Exception as error:  # of scikit-learn, or of a splitter of one's own
        raise ValueError(
            "cv: expected a number of folds, or a splitter, that these samples allow, got "
            f"{shown(cv)}: {error}"
        ) from error
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        warn_user(f"cv: {message}")
    if not folds:
        raise ValueError(f"cv: expected at least one fold, got {shown(cv)}")
    return [_checked_fold(k, fold, len(labels)) for k, fold in enumerate(folds)]


def _checked_fold(number: int, fold: Any, n_samples: int) -> tuple[NDArray, NDArray]:
    """The samples to learn from and those left out, as a splitter of one's own may give them."""
    train, test = check_two("cv", fold, "folds of two index arrays")
    return _fold_part(number, train, n_samples), _fold_part(number, test, n_samples)


def _fold_part(number: int, rows: Any, n_samples: int) -> NDArray[np.intp]:
    rows = read_array(rows, "cv")
    if rows.dtype.kind == "b" and rows.shape == (n_samples,):
        rows = np.flatnonzero(rows)
    within = rows.dtype.kind in "iu" and rows.shape == (rows.size,)
    if not within or rows.size == 0 or rows.min() < -n_samples or rows.max() >= n_samples:
        raise ValueError(
            f"cv: expected folds that are index arrays of some of {n_samples} samples, got "
            f"{shown(rows)} in fold {number}"
        )
    return rows


def check_fits_folds(name: str, k: Any, folds: Sequence[tuple[NDArray, NDArray]]) -> None:
    """As many samples as k neighbours in the training part of every fold."""
    fewest = min(len(train) for train, _ in folds)
    if check_count(name, k) > fewest:
        raise ValueError(
            f"{name}: expected at most the {fewest} training samples of the smallest fold, got {k}"
        )


class ThresholdMixin:
    """Learns the threshold alone, for distances that stay as they are, by TATML's criterion."""

    def _learn_from(self, blocks: Blocks, pairs: Pairs) -> None:
        """Keep the pairs that were drawn, and learn the threshold of their distances."""
        self.pairs_, self.similar_ = pairs.index, pairs.similar
        distances = row_distances(self._embedded(blocks), pairs.index)
        self._learn_threshold(distances, balanced(pairs))

    def _learn_threshold(self, distances: NDArray[np.float64], pairs: Pairs) -> None:
        self.b0_ = best_b0(self, distances, pairs)
        self.threshold_ = threshold_of(self.b0_, check_margin(self.margin))
        self.pair_weights_ = pairs.weights


def best_b0(
    model: Any, distances: NDArray[np.float64], pairs: Pairs, strength: float | None = None
) -> float:
    """The b0 of distances that stay as they are, by the threshold's parameters of a model.

    A strength ρ that is given is taken in the place of the model's.
    """
    margin, mu0 = check_margin(model.margin), None
    if strength is None:
        strength = check_positive("threshold_strength", model.threshold_strength)
    if model.threshold_prior is not None:
        mu0 = b0_of(check_threshold("threshold_prior", model.threshold_prior), margin)
    return learnt_b0(distances**2, pairs, margin, strength, mu0)


class LogDetLearner(MetricMixin, BaseEstimator):
    """Learns a metric, and its threshold, from index pairs."""

    _samples_name = "X"  # what fit calls the samples
    _weight_name = "C"  # what a user calls the weight of the pairs

    def _learn(
        self,
        blocks: Blocks,
        pairs: Pairs,
        within: Matrices,
        threshold: float | None,
        counted: Blocks | None = None,
    ) -> Result:
        """Solve the problem that the parameters describe, and set what fit sets.

        The threshold is learnt where it is None, and fixed otherwise. Where not all samples count,
        `counted` are those that do.
        """
        counted = blocks if counted is None else counted
        self._check_words()
        margin = check_margin(self.margin)
        check_components(self.n_components, [n for n, _ in blocks.block_shapes])
        problem, prior = self._problem(blocks, pairs, within, margin, threshold, counted)
        self._solve(problem, counted, self.solver)
        self.prior_ = one_or_list(prior)
        self.pairs_, self.similar_, self.pair_weights_ = pairs.index, pairs.similar, pairs.weights
        self.b0_ = self._final_b0(problem, blocks, pairs, margin)
        self.threshold_ = threshold_of(self.b0_, margin)
        return self.result_

    def _solve(self, problem: LogDetProblem, blocks: Blocks, solver: str, **options: str) -> None:
        """Set the result, and the components that follow from it."""
        self.result_ = solve(
            problem,
            solver=solver,
            tol=check_positive("tol", self.tol),
            max_iter=None if self.max_iter is None else check_count("max_iter", self.max_iter),
            init=self._start(problem),
            random_state=check_random(self.random_state),
            verbose=check_flag("verbose", self.verbose),
            sizes=self._sizes(),
            **options,
        )
        self.n_iter_ = max(1, self.result_.n_iter)
        self.components_ = one_or_list(components_of(self.result_.L, blocks, self.n_components))

    def _sizes(self) -> str:
        """The parameters of this estimator that can make the objective too large."""
        known = [name for name in SIZES if name in self._get_param_names()]
        return ", ".join([self._weight_name, *known])

    def _given_threshold(self) -> float | None:
        """None where it is learnt."""
        return check_number_or("threshold", self.threshold, "auto")

    def _check_words(self) -> None:
        check_choice("solver", self.solver, SOLVERS)
        check_choice("reduction", self.reduction, ("mean", "sum"))

    def _problem(
        self,
        blocks: Blocks,
        pairs: Pairs,
        within: Matrices,
        margin: tuple[float, float],
        threshold: float | None,
        counted: Blocks | None = None,
    ) -> tuple[LogDetProblem, list[NDArray[np.float64]]]:
        """(P) with the prior W0 and the threshold's own term in the units of the data."""
        weights = pair_weights(pairs)
        plain = LogDetProblem.build(blocks, pairs, squared_hinge(pairs, 1.0, margin))
        scatter = mean_scatter(plain.pairs.sums, weights / np.sum(weights))
        prior = self._prior(counted or blocks, scatter, within)
        c0, mu0 = self._threshold_term(prior, scatter, margin, threshold)
        problem = replace(plain.with_prior(prior), c0=c0, mu0=mu0)
        return self._weighted(problem, pairs, margin, check_positive("C", self.C)), prior

    def _threshold_term(
        self,
        prior: Matrices,
        scatter: Matrices,
        margin: tuple[float, float],
        threshold: float | None,
    ) -> tuple[float, float]:
        """c0 and μ0, before c0 is weighed."""
        if threshold is not None:
            return inf, b0_of(check_threshold("threshold", threshold), margin)
        products = zip(prior, scatter, strict=True)
        mean_distance = float(np.mean([np.sum(W0 * S) for W0, S in products]))
        return self._c0(), self._mu0(margin, mean_distance)

    def _weighted(
        self, problem: LogDetProblem, pairs: Pairs, margin: tuple[float, float], C: float
    ) -> LogDetProblem:
        """The same problem with the pairs' loss weighed by C, and the threshold's pull with it."""
        c, c0 = self._strengths(problem, float(np.sum(pair_weights(pairs))), C)
        return problem.with_loss(squared_hinge(pairs, c, margin), c0)

    def _strengths(self, problem: LogDetProblem, total: float, C: float) -> tuple[float, float]:
        """c and c0 for pairs of a total weight."""
        c = C / total if self.reduction == "mean" else C
        if problem.learns_threshold and self.c0 is None:
            c0 = self.threshold_strength * c * total  # theory (Rho)
            if not 0 < c0 < inf:
                raise ValueError(
                    f"{self._weight_name}, threshold_strength: expected sizes for which c0 is a "
                    f"positive number, got C={C:g} and threshold_strength="
                    f"{self.threshold_strength:g}"
                )
            return c, c0
        return c, problem.c0

    def _relative_strength(self, pairs: Pairs) -> float | None:
        """ρ = c0/(c Σw) of a given c0, for pairs that are no part of the problem."""
        if self.c0 is None:
            return None
        total = float(np.sum(pair_weights(pairs)))
        return self.c0 / (self.C if self.reduction == "mean" else self.C * total)

    def _prior(self, blocks: Blocks, scatter: Matrices, within: Matrices) -> list[NDArray]:
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, PRIORS)
            return make_prior(self.prior, blocks, scatter, within, self._samples_name)
        return check_prior(self.prior, blocks)

    def _c0(self) -> float:
        if self.c0 is not None:
            return check_positive("c0", self.c0, or_infinite=True)
        return check_positive("threshold_strength", self.threshold_strength)

    def _mu0(self, margin: tuple[float, float], mean_distance: float) -> float:
        if self.threshold_prior is not None:
            return b0_of(check_threshold("threshold_prior", self.threshold_prior), margin)
        if not mean_distance > 0:
            raise ValueError(f"{self._samples_name}: {IDENTICAL}")
        return b0_of(sqrt(mean_distance), margin)

    def _start(self, problem: LogDetProblem) -> Result | None:
        warm = check_flag("warm_start", self.warm_start)
        earlier = getattr(self, "result_", None) if warm else None
        if earlier is None or tuple(len(L) for L in earlier.L) != problem.sizes:
            return None
        return earlier

    def _final_b0(
        self, problem: LogDetProblem, blocks: Blocks, pairs: Pairs, margin: tuple[float, float]
    ) -> float:
        """The learnt b0; for a reduced embedding, whose distances are smaller, the best anew."""
        if self.n_components is None or not problem.learns_threshold:
            return self.result_.b0
        squared = row_distances(self._embedded(blocks), pairs.index) ** 2
        strength = problem.c0 / float(np.sum(problem.pairs.loss.weight))
        return learnt_b0(squared, pairs, margin, strength, problem.mu0)


def pair_weights(pairs: Pairs) -> NDArray[np.float64]:
    """w_k, 1 where none are given."""
    return np.ones(len(pairs)) if pairs.weights is None else pairs.weights


def mean_scatter(sums: PairSums, share: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The mean of ΔΔᵀ in each block, for shares of the pairs that sum to 1."""
    return [sums.n_blocks * S for S in sums.scatter(share)]


def within_classes(blocks: Blocks, labels: NDArray[np.intp]) -> list[NDArray[np.float64]]:
    """The samples minus the mean of their class, one array (n_rows, n_m) a block."""
    counts = np.bincount(labels).astype(float)
    deviations = []
    for array in blocks.arrays:
        sums = np.zeros((len(counts), *array.shape[1:]))
        np.add.at(sums, labels, array)
        deviations.append(rows_of(array - (sums / counts[:, None, None])[labels]))
    return deviations


def within_pairs(blocks: Blocks, pairs: Pairs) -> list[NDArray[np.float64]]:
    """The differences of similar pairs over √2, which vary as samples of a class do."""
    chosen = pairs.similar & (pair_weights(pairs) > 0)
    first, second = pairs.first[chosen], pairs.second[chosen]
    return [rows_of((array[first] - array[second]) / np.sqrt(2)) for array in blocks.arrays]
