"""ComparisonLearner, the base of the estimators that learn a metric from compared distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .._data.pairs import Pairs, as_sample_weight, weights_of
from .._learn_metric import warn_unless_converged
from .._learning.comparisons import learn_from_comparisons
from .._learning.cross_fit import merge_identical
from .._learning.embedding import check_distances
from .._learning.kernel_space import KernelLike
from .._learning.learn import distinct_samples
from .._learning.task import Prior
from .._optim.result import Result
from .._optim.solvers import SolverLike
from .inputs import tuple_samples
from .metric import MetricEstimator
from .parameters import checked


class _NotForTuples:
    """A descriptor that hides `fit_transform`: fit takes tuples, and transform takes samples."""

    def __get__(self, instance: Any, owner: Any) -> NoReturn:
        raise AttributeError(
            f"fit_transform: {owner.__name__} is fitted on {owner._tuples_name} and transforms "
            "samples; call fit, then transform(X)"
        )


class ComparisonLearner(MetricEstimator):
    """Base class that learns a metric from comparisons of two distances each.

    A subclass sets the name of the tuples, and which of their samples form the two pairs: the first
    pair should be closer than the second.
    """

    _tuples_name: ClassVar[str]
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
        with self._fitting():
            parameters, name = checked(self), self._tuples_name
            settings = self._settings(
                parameters,
                tuples,
                margin=(0.5, 2.0),  # of pairs, which there are none of
                names=("C", "margin"),
                samples_name=name,
            )
            blocks, index = tuple_samples(self, tuples, name, reset=True)
            weights = None
            if sample_weight is not None:
                weights = as_sample_weight(sample_weight, len(index))
            sides = index[:, self._members].reshape(-1, 2)  # of one comparison after the other
            counts = np.ones(len(index)) if weights is None else weights
            given = Pairs(sides, np.ones(len(sides), dtype=bool), np.repeat(counts, 2))
            rows, merged, n_counted = merge_identical(blocks, given)
            self._keep_facts(blocks[rows])  # a sample counts once
            quadruplets = np.ascontiguousarray(merged.index).reshape(-1, 4)
            weights = weights_of(weights, quadruplets)
            if not weights.any():
                raise ValueError(
                    f"{name}: expected at least one of positive weight whose two pairs differ, got "
                    "none"
                )
            distinct = distinct_samples(blocks, rows, n_counted, settings)
            compared = quadruplets, weights, parameters.margin
            self._publish(learn_from_comparisons(distinct, n_counted, *compared, settings))
            self.comparisons_ = index
        warn_unless_converged(self.result_)

    def _decide(self, tuples: Any) -> NDArray[np.float64]:
        """Return the distance of the second pair minus that of the first, shape (n_tuples,)."""
        check_is_fitted(self)
        blocks, index = tuple_samples(self, tuples, self._tuples_name, reset=False)
        metric = self._metric
        with np.errstate(over="ignore"):
            mapped = metric.mapped(blocks)
            near, far = (
                metric.distances(mapped, index[:, members])
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
