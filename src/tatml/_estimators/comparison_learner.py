"""ComparisonLearner, the base of the estimators that learn a metric from compared distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._array import placed, sum_at
from .._data.blocks import Blocks
from .._data.comparisons import check_comparison_margin, link_pairs, weights_of
from .._data.pairs import Pairs, as_sample_weight
from .._learn_metric import warn_unless_converged
from .._optim.losses import comparison_hinge
from .._optim.problem import LogDetProblem
from .._optim.result import Result
from .._optim.solvers import Newton, SolverLike, as_solver
from .._validation import check_choice, check_flag, check_positive
from .cross_fitting import merge_identical
from .device_inputs import host_if_wide
from .embedding import check_distances
from .inputs import unchanged_on_error
from .kernel_space import KernelLike, KernelMixin
from .label_mixins import Prior, within_pairs
from .logdet_learner import SolvingMixin, mean_scatter
from .metric import MetricMixin, check_components
from .outliers import clip_outliers
from .reduction import MetricPrior, mean_squares_of, prior_of, reduce_blocks
from .seen_samples import keep_facts
from .tuple_inputs import tuple_samples


class _NotForTuples:
    """A descriptor that hides `fit_transform`: fit takes tuples, and transform takes samples."""

    def __get__(self, instance: Any, owner: Any) -> NoReturn:
        raise AttributeError(
            f"fit_transform: {owner.__name__} is fitted on {owner._tuples_name} and transforms "
            "samples; call fit, then transform(X)"
        )


class PreparedComparisons(NamedTuple):
    """The samples and comparisons of a fit, after all that precedes the problem."""

    blocks: Blocks
    """The distinct samples, without outliers and in the space of the kernel, if any; first those
    of comparisons that count."""
    quadruplets: NDArray[np.intp]
    """a, b, c, d of each comparison, as rows of `blocks`; shape (n_tuples, 4)."""
    weights: NDArray[np.float64]
    """The weight of each comparison; 0 where its two pairs are the same."""
    n_counted: int
    """The number of samples of comparisons that count."""


class ComparisonLearner(KernelMixin, SolvingMixin, MetricMixin, BaseEstimator):
    """Base class that learns a metric from comparisons of two distances each.

    A subclass sets the number of samples per tuple, their name, and which of them form the two
    pairs: the first pair should be closer than the second.
    """

    _tuples_name: ClassVar[str]
    _tuple_size: ClassVar[int]
    _members: ClassVar[tuple[int, int, int, int]]  # a, b, c, d: (a, b) is closer than (c, d)
    _learns_threshold: ClassVar[bool] = False

    fit_transform = _NotForTuples()

    def __init__(
        self,
        C: float = 100.0,
        *,
        margin: float = 1.0,
        prior: Prior = "discriminant",
        reduction: Literal["mean", "sum"] = "mean",
        kernel: KernelLike = None,
        clip_outliers: bool = True,
        n_components: int | Sequence[int] | None = None,
        preprocessor: Any = None,
        solver: SolverLike = "newton",
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.C = C
        self.margin = margin
        self.prior = prior
        self.reduction = reduction
        self.kernel = kernel
        self.clip_outliers = clip_outliers
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.solver = solver
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, tuples: Any, sample_weight: Any) -> None:
        """Learn the metric from tuples as they were given."""
        with unchanged_on_error(self):
            if hasattr(self, "threshold_"):  # of the metric of an earlier fit
                del self.threshold_
            self._check_parameters()
            prepared = self._prepared(tuples, sample_weight)
            check_components(self.n_components, [n for n, _ in prepared.blocks.block_shapes])
            problem, prior = self._problem(prepared)
            counted = prepared.blocks[: prepared.n_counted]
            self._solve(problem, prior, counted, ("C", "margin"))
        warn_unless_converged(self.result_)

    def _check_parameters(self) -> None:
        check_positive("C", self.C)
        check_comparison_margin("margin", self.margin)
        check_choice("reduction", self.reduction, ("mean", "sum"))
        check_flag("clip_outliers", self.clip_outliers)
        if not isinstance(as_solver(self.solver), Newton):
            raise ValueError(
                f"solver: expected 'newton' or Newton(…) with {self._tuples_name}, got "
                f"{self.solver!r}"
            )

    def _prepared(self, tuples: Any, sample_weight: Any) -> PreparedComparisons:
        """Read the tuples, merge equal samples, clip outliers, and map to the space of a kernel."""
        blocks, index = tuple_samples(self, tuples, self._tuples_name, self._tuple_size, reset=True)
        self.comparisons_ = index
        weights = None
        if sample_weight is not None:
            weights = as_sample_weight(sample_weight, len(index))
        sides = index[:, self._members].reshape(-1, 2)  # of one comparison after the other
        counts = np.ones(len(index)) if weights is None else weights
        given = Pairs(sides, np.ones(len(sides), dtype=bool), np.repeat(counts, 2))
        rows, merged, n_counted = merge_identical(blocks, given)
        keep_facts(self, blocks[rows])  # a sample counts once
        quadruplets = np.ascontiguousarray(merged.index).reshape(-1, 4)
        weights = weights_of(weights, quadruplets)
        if not weights.any():
            raise ValueError(
                f"{self._tuples_name}: expected at least one of positive weight whose two pairs "
                "differ, got none"
            )
        blocks = self._samples_to_learn(blocks)
        if self.clip_outliers:
            blocks = clip_outliers(blocks, rows[:n_counted], self._tuples_name)
        (distinct,) = host_if_wide(blocks[rows])
        kernel = self._read_kernel_of_tuples(distinct[:n_counted])
        mapped = self._map_samples(kernel, distinct, n_counted)
        return PreparedComparisons(mapped, quadruplets, weights, n_counted)

    def _problem(self, prepared: PreparedComparisons) -> tuple[LogDetProblem, MetricPrior]:
        """Return the problem and its prior W0, both in the units of the data."""
        blocks, index, weights, n_counted = prepared
        total = float(np.sum(weights))
        c = float(self.C) / total if self.reduction == "mean" else float(self.C)
        linked = link_pairs(None, index)
        loss = comparison_hinge(weights, c, float(self.margin))
        # The prior is scaled to the mean of all compared distances, each as often as it occurs.
        share = sum(sum_at(side, weights, len(linked)) for side in linked.links) / (2 * total)
        near = Pairs(index[:, :2], np.ones(len(index), dtype=bool), weights)
        within = within_pairs(blocks, near, self._n_images())
        squares = mean_squares_of(blocks, linked, share)
        reduced = reduce_blocks(self.prior, blocks, within, squares, blocks[:n_counted])
        plain = LogDetProblem.build(reduced.blocks, linked, loss)
        scatter = mean_scatter(plain.pairs.sums.pairs, share)
        prior = prior_of(self.prior, reduced, scatter, self._tuples_name)
        like = plain.prior_factors[0]
        problem = plain.with_prior([placed(W0, like) for W0 in prior.matrices])
        return problem.without_threshold(), prior

    def _decide(self, tuples: Any) -> NDArray[np.float64]:
        """Return the distance of the second pair minus that of the first, shape (n_tuples,)."""
        check_is_fitted(self)
        blocks, index = tuple_samples(
            self, tuples, self._tuples_name, self._tuple_size, reset=False
        )
        with np.errstate(over="ignore"):
            mapped = self._mapped(blocks)
            near, far = (
                self._distances(mapped, index[:, members])
                for members in (self._members[:2], self._members[2:])
            )
        check_distances(np.maximum(near, far), blocks, self._tuples_name)
        return far - near

    def _share_right(self, tuples: Any, sample_weight: ArrayLike | None) -> float:
        """Return the share of tuples whose first pair is the closer one."""
        right = self._decide(tuples) > 0
        if sample_weight is not None:
            sample_weight = as_sample_weight(sample_weight, len(right))
        return float(np.average(right, weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Return tags that allow tuples as samples and need no labels."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.two_d_array = self.preprocessor is not None
        tags.input_tags.three_d_array = True
        return tags

    result_: Result
