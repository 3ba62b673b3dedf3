"""LogDetLearner, the base class of TATML and TATMLPairs, and SolvingMixin, which ITML uses too.

The functions at the end, which prepare the problem, also serve GMML and fits to all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._array import Indices, asarray, placed, to_numpy
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sampling import thin_out
from .._optim.placement import host_result, place_problem, place_result
from .._optim.problem import LogDetProblem, squared_hinge
from .._optim.result import Result, Status, learnt_b0
from .._optim.solvers import Newton, SolverLike, as_solver, seeded
from .._optim.sums import Sums
from .._validation import (
    check_choice,
    check_flag,
    check_margin,
    check_number_or,
    check_positive,
    check_random,
    check_threshold,
)
from .cross_fitting import (
    FOLD_TOL,
    FittedPart,
    HeldOutPairs,
    find_threshold_factor,
    fit_parts,
    suits_new_pairs_alone,
)
from .device_inputs import host_if_wide, place_blocks
from .kernel_space import KernelMixin
from .label_mixins import Matrices, learn_b0_from_distances, pair_weights
from .metric import MetricMixin, check_components, factors_of, one_or_list
from .outliers import clip_outliers
from .priors import IDENTICAL, Units, WithinClasses
from .reduction import (
    MetricPrior,
    describe_axes,
    describe_spans,
    mean_squares_of,
    prior_of,
    reduce_blocks,
)
from .span import SpanFactor
from .thresholds import (
    b0_of,
    is_one_sided,
    learn_b0,
    some_of_each_kind,
    threshold_of,
    warn_if_one_sided,
)

PAIR_STEP = 10  # fits to parts of the samples take every tenth pair, or more,
PART_PAIRS = 300  # so that this many remain
SCALE_PARAMETERS = ("C", "c0", "threshold", "threshold_prior", "threshold_strength")


class SolvingMixin:
    """Mixin that solves a problem with the solver parameters of the estimator."""

    n_components: int | Sequence[int] | None
    solver: SolverLike
    tol: float
    warm_start: bool
    random_state: Any
    verbose: bool
    threshold_: float
    threshold_factor_: float
    _distances: Callable[[Blocks, Indices], NDArray[np.float64]]  # of MetricMixin
    _keeps_spans = False  # whether wide blocks keep the form of their span, which is faster
    _place: Any

    def _solve(
        self,
        problem: LogDetProblem,
        prior: MetricPrior,
        blocks: Blocks,
        sizes: Sequence[str],
        least_tol: float = 0.0,
    ) -> None:
        """Solve the problem; set `result_`, `n_iter_`, `prior_` and `components_`.

        `blocks` are the samples whose principal axes `n_components` selects. `sizes` are the names
        of the parameters that scale the objective: the error message for an objective that
        overflows names them. A `least_tol` above `tol` replaces it.
        """
        if check_flag("verbose", self.verbose):
            _print_lines(describe_spans(prior))
        solver = seeded(as_solver(self.solver), check_random(self.random_state))
        init = prior.start(self._earlier_result())
        place = self._place_to_solve() if problem.is_listed else None
        if place is not None:
            problem = place_problem(problem, place)
            init = None if init is None else place_result(init, place)
        found = solver.solve(
            problem,
            tol=max(least_tol, check_positive("tol", self.tol)),
            init=init,
            verbose=self.verbose,
            sizes=", ".join(sizes),
        )
        found = found if place is None else host_result(found)
        self.n_iter_, self.result_ = max(1, found.n_iter), found
        whole = prior.is_small and not self._keeps_spans
        if not self._keeps_spans:
            self.result_ = prior.full_result(found)
        self._set_components(found.L, prior, blocks, self.result_.L if whole else None)
        vars(self).pop("prior_", None)
        if whole:
            self.prior_ = one_or_list(prior.full())

    def _place_to_solve(self) -> Any:
        """Return an array on the device where the problem is solved; None for the host."""
        return self._place if isinstance(as_solver(self.solver), Newton) else None

    def _samples_to_learn(self, blocks: Blocks) -> Blocks:
        """Copy samples to the device where the problem is solved, unless a block is wide."""
        return host_if_wide(place_blocks(blocks, self._place_to_solve()))[0]

    def _earlier_result(self) -> Result | None:
        """Return the result to start from, if any."""
        warm = check_flag("warm_start", self.warm_start)
        return getattr(self, "result_", None) if warm else None

    def _set_components(
        self, L: Matrices, prior: MetricPrior, blocks: Blocks, whole: Matrices | None = None
    ) -> None:
        """Set `components_`, or `factors_` of wide blocks without their `whole` factors."""
        for name in ("components_", "factors_"):
            vars(self).pop(name, None)
        keeps = self._keeps_spans
        factors: list[Any] = factors_of(L, prior, blocks, self.n_components, keeps)
        if not keeps and self.verbose:
            _print_lines(describe_axes(prior, L, factors))
        for m, A in enumerate(factors):
            if whole is not None and isinstance(A, SpanFactor):
                factors[m] = np.ascontiguousarray(whole[m].T) / sqrt(len(L))
        if any(isinstance(A, SpanFactor) for A in factors):
            self.factors_ = factors
        else:
            self.components_ = one_or_list(factors)

    def _multiply_threshold(self, fitted: list[FittedPart]) -> list[FittedPart]:
        """Multiply the threshold by the factor that is best for the held-out pairs of the parts."""
        factor = find_threshold_factor(fitted)
        if factor is not None:
            self.threshold_factor_, self.threshold_ = factor, factor * self.threshold_
        return fitted

    def _warn_if_one_sided(
        self, blocks: Blocks, pairs: Pairs, fitted: Sequence[FittedPart] = ()
    ) -> None:
        """Warn if nearly all training pairs of both kinds are on one side of the threshold.

        That is no fault of a threshold which is right for new pairs, as what was `fitted` to parts
        of the samples may show.
        """
        some = some_of_each_kind(pairs)
        used, index = np.unique(some.index, return_inverse=True)
        distances = self._distances(blocks[used], index.reshape(-1, 2))
        if not is_one_sided(distances, some.similar, self.threshold_):
            return
        if not suits_new_pairs_alone(fitted):
            warn_if_one_sided(distances, some.similar, self.threshold_)


class LogDetLearner(KernelMixin, SolvingMixin, MetricMixin, BaseEstimator):
    """Base class that learns a metric and its threshold from index pairs: TATML's problem."""

    _samples_name = "X"  # the name of the samples in the signature of fit, for error messages
    # The names of the parameters that scale the objective, for error messages; the weight of the
    # pairs comes first. `make_inner_model` replaces them by the names of the outer estimator.
    _scale_parameters: tuple[str, ...] = SCALE_PARAMETERS

    pairs_: NDArray[np.intp] | None
    similar_: NDArray[np.bool_] | None
    pair_weights_: NDArray[np.float64] | None

    def _learn(
        self,
        blocks: Blocks,
        pairs: Pairs,
        within: WithinClasses,
        threshold: float | None,
        counted: Blocks | None = None,
    ) -> Result:
        """Solve the problem that the parameters describe, and set the fitted attributes.

        The threshold is learnt if it is None, and fixed otherwise. `counted` are the samples of
        pairs with a positive weight; None: all samples.
        """
        counted = blocks if counted is None else counted
        margin = check_margin(self.margin)
        check_components(self.n_components, [n for n, _ in blocks.block_shapes])
        problem, prior = self._build_problem(blocks, pairs, within, margin, threshold, counted)
        self._solve(problem, prior, counted, self._scale_parameters)
        self.pairs_, self.similar_, self.pair_weights_ = pairs.index, pairs.similar, pairs.weights
        self._set_b0(self._final_b0(problem, blocks, pairs, margin))
        return self.result_

    def _set_b0(self, b0: float) -> None:
        """Set b0 and the threshold that belongs to it."""
        self.b0_, self.threshold_factor_ = b0, 1.0
        self.threshold_ = threshold_of(b0, check_margin(self.margin))

    def _given_threshold(self) -> float | None:
        """Return the threshold that the parameters fix, None if it is to be learnt."""
        return check_number_or("threshold", self.threshold, "auto", "joint")

    def _cross_fits(self) -> bool:
        """Return whether the threshold is judged on held-out pairs."""
        return self._given_threshold() is None and self.threshold == "auto" and self._c0() < inf

    def _without_outliers(self, blocks: Blocks, counted: Indices) -> Blocks:
        if not check_flag("clip_outliers", self.clip_outliers) or self._has_kernel_values():
            return blocks
        return clip_outliers(blocks, counted, self._samples_name)

    def _cross_fit_threshold(
        self,
        parts: Sequence[HeldOutPairs],
        units: Units,
        pairs: Pairs,
        threshold_pairs: Pairs | None = None,
    ) -> list[FittedPart]:
        """Multiply the threshold by the factor that is best for held-out pairs, if there are some.

        The metric of each part is learnt from those of the pairs that lie in it, and its threshold
        from the `threshold_pairs`, if there are any. After an interrupt, the threshold stays.
        Returns what was learnt from the parts.
        """
        if self.result_.status is Status.INTERRUPTED:
            return []

        def fit(part: HeldOutPairs, known: Pairs) -> LogDetLearner:
            model = self._model_of_parts()
            model.block_shapes_ = part.known.block_shapes
            within = replace(part.within, units=units)
            model._learn(part.known, known, within, None)
            if threshold_pairs is not None:
                model._learn_threshold_of(part.select_known(threshold_pairs), part.known)
            return model

        return self._multiply_threshold(fit_parts(parts, pairs, fit, self._some_pairs))

    def _some_pairs(self, pairs: Pairs) -> Pairs:
        """Leave out pairs, to save time where many remain; with "sum", all of them count."""
        return thin_out(pairs, PAIR_STEP, PART_PAIRS) if self.reduction == "mean" else pairs

    def _learn_threshold_of(self, pairs: Pairs, blocks: Blocks) -> None:
        """Learn the threshold of the fitted metric again, from other pairs."""
        margin, strength = check_margin(self.margin), self._relative_strength(pairs)
        distances = self._distances(blocks, pairs.index)
        b0 = learn_b0_from_distances(distances, pairs, margin, self.threshold_prior, strength)
        self._set_b0(b0)

    def _model_of_parts(self) -> Self:
        """Return an estimator to fit to parts of the samples: with a large tolerance."""
        given = self.get_params(deep=False) | {
            "threshold": "joint",
            "kernel": None,
            "clip_outliers": False,
            "preprocessor": None,
            "solver": "newton",
            "tol": max(FOLD_TOL, check_positive("tol", self.tol)),
            "warm_start": False,
            "random_state": 0,
            "verbose": False,
        }
        model = type(self)(**given)
        model._scale_parameters, model._keeps_spans = self._scale_parameters, True
        model._place = self._place
        return model

    def _check_words(self) -> None:
        check_flag("clip_outliers", self.clip_outliers)
        as_solver(self.solver)
        check_choice("reduction", self.reduction, ("mean", "sum"))

    def _build_problem(
        self,
        blocks: Blocks,
        pairs: Pairs,
        within: WithinClasses,
        margin: tuple[float, float],
        threshold: float | None,
        counted: Blocks | None = None,
    ) -> tuple[LogDetProblem, MetricPrior]:
        """Return problem (P) and its prior W0, both in the units of the data.

        Wide blocks are reduced to the span of their samples.
        """
        share = pair_weights(pairs) / np.sum(pair_weights(pairs))
        squares, accurate = mean_squares_of(blocks, pairs, share), not self._keeps_spans
        reduced = reduce_blocks(self.prior, blocks, within, squares, counted, accurate)
        samples = place_blocks(reduced.blocks, self._place_to_solve())
        plain = LogDetProblem.build(samples, pairs, squared_hinge(pairs, 1.0, margin))
        like = plain.prior_factors[0]
        scatter = mean_scatter(plain.pairs.sums, share)
        prior = prior_of(self.prior, reduced, scatter, self._samples_name)
        c0, mu0 = self._threshold_term(prior.matrices, scatter, margin, threshold)
        problem = plain.with_prior([placed(W0, like) for W0 in prior.matrices])
        problem = replace(problem, c0=c0, mu0=mu0)
        return self._reweight(problem, pairs, margin, check_positive("C", self.C)), prior

    def _threshold_term(
        self,
        prior: Matrices,
        scatter: Matrices,
        margin: tuple[float, float],
        threshold: float | None,
    ) -> tuple[float, float]:
        """Return c0 and μ0; c0 is still relative to the weight of the pairs."""
        if threshold is not None:
            return inf, b0_of(check_threshold("threshold", threshold), margin)
        products = zip(prior, scatter, strict=True)
        mean_distance = float(np.mean([np.sum(W0 * S) for W0, S in products]))
        return self._c0(), self._mu0(margin, mean_distance)

    def _reweight(
        self, problem: LogDetProblem, pairs: Pairs, margin: tuple[float, float], C: float
    ) -> LogDetProblem:
        """Return the problem with the weights that C gives to the pairs and to the threshold."""
        c, c0 = self._strengths(problem, float(np.sum(pair_weights(pairs))), C)
        loss = squared_hinge(pairs, c, margin).placed(problem.prior_factors[0])
        return problem.with_loss(loss, c0)

    def _strengths(self, problem: LogDetProblem, total: float, C: float) -> tuple[float, float]:
        """Return c and c0 for pairs of the given total weight."""
        c = C / total if self.reduction == "mean" else C
        if problem.learns_threshold and self.c0 is None:
            c0 = self.threshold_strength * c * total  # theory (Rho)
            if not 0 < c0 < inf:
                raise ValueError(
                    f"{self._scale_parameters[0]}, threshold_strength: expected sizes for which "
                    f"c0 is a positive number, got C={C:g} and threshold_strength="
                    f"{self.threshold_strength:g}"
                )
            return c, c0
        return c, problem.c0

    def _relative_strength(self, pairs: Pairs) -> float:
        """Return ρ, or c0/(c Σw) if c0 is given, for pairs that are not part of the problem."""
        if self.c0 is None:
            return check_positive("threshold_strength", self.threshold_strength)
        total = float(np.sum(pair_weights(pairs)))
        return self.c0 / (self.C if self.reduction == "mean" else self.C * total)

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

    def _final_b0(
        self, problem: LogDetProblem, blocks: Blocks, pairs: Pairs, margin: tuple[float, float]
    ) -> float:
        """Return the learnt b0; with `n_components`, the best b0 for the reduced distances."""
        if self.n_components is None or not problem.learns_threshold:
            return learnt_b0(self.result_)
        squared = self._distances(blocks, pairs.index) ** 2
        strength = problem.c0 / float(problem.xp.sum(problem.pairs.loss.weight))
        return learn_b0(squared, pairs, margin, strength, problem.mu0)


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print(line, flush=True)


def mean_scatter(sums: Sums, share: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the weighted mean of ΔΔᵀ in each block; the weights `share` sum to 1."""
    n_blocks, like = sums.features.n_blocks, sums.features.like
    return [to_numpy(n_blocks * S) for S in sums.scatter(asarray(share, like))]
