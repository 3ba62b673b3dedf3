"""TATMLTriplets and TATMLQuadruplets: learn a metric from compared distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from .._data.pairs import Pairs, as_sample_weight, weights_of
from .._learning.cross_fit import merge_identical
from .._learning.learn import distinct_samples, learn_from_comparisons
from .._learning.metric import check_distances
from .._learning.samples import KernelLike
from .._learning.task import Outliers, Prior
from .._optim.result import warn_unless_converged
from .._optim.solvers import SolverLike
from .inputs import tuple_samples
from .metric import MetricEstimator, NoFitTransform
from .parameters import checked


@dataclass(eq=False, repr=False)
class ComparisonLearner(MetricEstimator):
    """Base class that learns a metric from comparisons of two distances each.

    A subclass sets the name of the tuples, and which of their samples form the two pairs: the first
    pair should be closer than the second.
    """

    _tuples_name: ClassVar[str]
    _tuple_size: ClassVar[int]  # metric-learn's name
    _members: ClassVar[tuple[int, int, int, int]]  # a, b, c, d: (a, b) is closer than (c, d)
    _learns_threshold: ClassVar[bool] = False

    fit_transform = NoFitTransform("fit")

    C: float = 100.0
    _: KW_ONLY
    margin: float = 1.0
    prior: Prior = "discriminant"
    reduction: Literal["mean", "sum"] = "mean"
    kernel: KernelLike = None
    clip_outliers: Outliers = True
    n_components: int | Sequence[int] | None = None
    preprocessor: Any = None
    solver: SolverLike = "newton"
    tol: float = 1e-6
    warm_start: bool = False
    random_state: Any = None
    verbose: bool = False

    def _fit(self, tuples: Any, sample_weight: Any) -> None:
        """Learn the metric from tuples as they were given."""
        with self._fitting():
            parameters, name = checked(self), self._tuples_name
            settings = self._settings(
                parameters,
                tuples,
                margin=(0.5, 2.0),  # not used: there are no labelled pairs
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
            distinct, cells = distinct_samples(blocks, rows, n_counted, settings)
            compared = quadruplets, weights, parameters.margin
            metric = learn_from_comparisons(distinct, n_counted, *compared, settings)
            self._publish(replace(metric, cells=cells))
            self.comparisons_ = index
        warn_unless_converged(self.result_)

    def _decide(self, tuples: Any) -> NDArray[np.float64]:
        """Return the distance of the second pair minus that of the first, shape (n_tuples,)."""
        check_is_fitted(self)
        blocks, index = tuple_samples(self, tuples, self._tuples_name, reset=False)
        both = np.concatenate([index[:, self._members[:2]], index[:, self._members[2:]]])
        with np.errstate(over="ignore"):
            near, far = self._metric.distances(blocks, both).reshape(2, -1)
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


class TATMLTriplets(ComparisonLearner):
    """Metric learning from triplets: "a is more like b than like c".

    It learns a metric in which each a is closer to its b than to its c, by a
    margin. The problem is convex and solved to a certificate,
    `result_.gap` (docs/theory.md, (Cmp)). The fitted estimator predicts which of new triplets
    are in the right order, and embeds samples with `transform`. It has no threshold before
    `calibrate_threshold` or `set_threshold` is called.

    Parameters
    ----------
    C : float, default=100.0
        Weight of the triplets relative to the prior. It multiplies the *mean* loss, or the sum
        with ``reduction="sum"``.
    margin : float, default=1.0
        By how much the second squared distance should exceed the first, where 1 is the mean of all
        compared squared distances under the prior.
    prior : str, or list of M arrays of shape (n_m, n_m), default="discriminant"
        The metric that the learnt one stays close to (W0); see `TATML`. Named priors except
        "identity" are scaled so that the squared distances of the compared pairs have mean 1 in
        each block. For "within" and "discriminant", the differences of the closer pairs give the
        scatter within classes.
    reduction : {"mean", "sum"}, default="mean"
        Whether C multiplies the mean or the sum of the losses.
    kernel : str, KernelMap or None, default=None
        A kernel, in whose feature space the metric is learnt; see `TATML`. Not "precomputed".
    clip_outliers : bool, "auto" or "replace", default=True
        What to do with outliers in the samples; see `TATML`. Without held-out pairs,
        "auto" is True.
    n_components : int, sequence of M int, or None, default=None
        Number of rows of `components_` in each block; see `TATML`.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples of triplets of indices; see `TATMLPairs`.
    solver : {"newton"} or Newton, default="newton"
        The algorithm; Dykstra's takes no comparisons.
    tol, warm_start, verbose
        See `TATML`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the random draws of the solver, unless it has a `random_state` of its own.

    Attributes
    ----------
    comparisons_ : int array of shape (n_triplets, 3)
        The triplets as row numbers of the samples, in the given order. With a preprocessor, row
        i is the i-th of the sorted distinct indicators.
    components_, result_, prior_, cell_bounds_, block_shapes_, n_iter_, n_features_in_
        See `TATML`. ``result_.b0`` is None.
    threshold_ : float
        After `calibrate_threshold` or `set_threshold`: the distance below which pairs count as the
        same.
    calibration_, likelihood_ratio_, likelihood_table_, same_rate_
        See `TATMLPairs`.

    See Also
    --------
    TATMLQuadruplets : Learns from quadruplets, "a and b are more alike than c and d".
    TATMLPairs : Learns from pairs that are known to be similar or dissimilar, with a threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import TATMLTriplets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))  # only the first feature matters
    >>> triplets = rng.integers(200, size=(300, 3))
    >>> far = abs(X[triplets, 0] - X[triplets[:, :1], 0])
    >>> swap = far[:, 1] > far[:, 2]
    >>> triplets[swap] = triplets[swap][:, [0, 2, 1]]
    >>> learner = TATMLTriplets(preprocessor=X).fit(triplets[:200])
    >>> bool(learner.score(triplets[200:]) > 0.9)
    True
    >>> bool((learner.predict(triplets[200:]) == 1).mean() > 0.9)
    True
    """

    _tuples_name, _tuple_size = "triplets", 3
    _members = (0, 1, 0, 2)

    # Triplets take the place of X, so they are not metadata to be routed.
    __metadata_request__fit = {"triplets": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"triplets": UNUSED}  # noqa: RUF012
    __metadata_request__decision_function = {"triplets": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"triplets": UNUSED}  # noqa: RUF012

    def fit(
        self, triplets: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        triplets : array-like of shape (n_triplets, 3, n) or (n_triplets, 3, n, n')
            Triplets of vectors or matrices, (a, b, c) with a more like b than like c.
            With a preprocessor, triplets of indicators of shape (n_triplets, 3).
        y : None
            Ignored, for scikit-learn's conventions.
        sample_weight : array-like of shape (n_triplets,), optional
            Weights of the triplets.

        Returns
        -------
        self
        """
        self._fit(triplets, sample_weight)
        return self

    def decision_function(self, triplets: ArrayLike) -> NDArray:
        """Return the distance of a and c minus that of a and b, shape (n_triplets,)."""
        return self._decide(triplets)

    def predict(self, triplets: ArrayLike) -> NDArray:
        """Return +1 for each row in the right order, −1 for the others, shape (n_triplets,)."""
        return np.where(self._decide(triplets) > 0, 1, -1)

    def score(
        self, triplets: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of triplets in the right order."""
        return self._share_right(triplets, sample_weight)


class TATMLQuadruplets(ComparisonLearner):
    """Metric learning from quadruplets: "a and b are more alike than c and d".

    It learns a metric in which each a is closer to its b than its c is to its d,
    by a margin. The problem is convex and solved to a certificate,
    `result_.gap` (docs/theory.md, (Cmp)). The fitted estimator predicts which of new quadruplets
    are in the right order, and embeds samples with `transform`. It has no threshold before
    `calibrate_threshold` or `set_threshold` is called.

    Parameters
    ----------
    C : float, default=100.0
        Weight of the quadruplets relative to the prior. It multiplies the *mean* loss, or the sum
        with ``reduction="sum"``.
    margin : float, default=1.0
        By how much the second squared distance should exceed the first, where 1 is the mean of all
        compared squared distances under the prior.
    prior : str, or list of M arrays of shape (n_m, n_m), default="discriminant"
        The metric that the learnt one stays close to (W0); see `TATML`. Named priors except
        "identity" are scaled so that the squared distances of the compared pairs have mean 1 in
        each block. For "within" and "discriminant", the differences of the closer pairs give the
        scatter within classes.
    reduction : {"mean", "sum"}, default="mean"
        Whether C multiplies the mean or the sum of the losses.
    kernel : str, KernelMap or None, default=None
        A kernel, in whose feature space the metric is learnt; see `TATML`. Not "precomputed".
    clip_outliers : bool, "auto" or "replace", default=True
        What to do with outliers in the samples; see `TATML`. Without held-out pairs,
        "auto" is True.
    n_components : int, sequence of M int, or None, default=None
        Number of rows of `components_` in each block; see `TATML`.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples of quadruplets of indices; see `TATMLPairs`.
    solver : {"newton"} or Newton, default="newton"
        The algorithm; Dykstra's takes no comparisons.
    tol, warm_start, verbose
        See `TATML`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the random draws of the solver, unless it has a `random_state` of its own.

    Attributes
    ----------
    comparisons_ : int array of shape (n_quadruplets, 4)
        The quadruplets as row numbers of the samples, in the given order. With a preprocessor, row
        i is the i-th of the sorted distinct indicators.
    components_, result_, prior_, cell_bounds_, block_shapes_, n_iter_, n_features_in_
        See `TATML`. ``result_.b0`` is None.
    threshold_ : float
        After `calibrate_threshold` or `set_threshold`: the distance below which pairs count as the
        same.
    calibration_, likelihood_ratio_, likelihood_table_, same_rate_
        See `TATMLPairs`.

    See Also
    --------
    TATMLTriplets : Learns from triplets, "a is more like b than like c".
    TATMLPairs : Learns from pairs that are known to be similar or dissimilar, with a threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import TATMLQuadruplets
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))  # only the first feature matters
    >>> quadruplets = rng.integers(200, size=(300, 4))
    >>> first, second = abs(np.diff(X[quadruplets, 0].reshape(300, 2, 2)))[..., 0].T
    >>> swap = first > second
    >>> quadruplets[swap] = quadruplets[swap][:, [2, 3, 0, 1]]
    >>> learner = TATMLQuadruplets(preprocessor=X).fit(quadruplets[:200])
    >>> bool(learner.score(quadruplets[200:]) > 0.9)
    True
    >>> bool((learner.predict(quadruplets[200:]) == 1).mean() > 0.9)
    True
    """

    _tuples_name, _tuple_size = "quadruplets", 4
    _members = (0, 1, 2, 3)

    # Quadruplets take the place of X, so they are not metadata to be routed.
    __metadata_request__fit = {"quadruplets": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"quadruplets": UNUSED}  # noqa: RUF012
    __metadata_request__decision_function = {"quadruplets": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"quadruplets": UNUSED}  # noqa: RUF012

    def fit(
        self, quadruplets: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        quadruplets : array-like of shape (n_quadruplets, 4, n) or (n_quadruplets, 4, n, n')
            Quadruplets of vectors or matrices, (a, b, c, d) with a and b more alike than c and d.
            With a preprocessor, quadruplets of indicators of shape (n_quadruplets, 4).
        y : None
            Ignored, for scikit-learn's conventions.
        sample_weight : array-like of shape (n_quadruplets,), optional
            Weights of the quadruplets.

        Returns
        -------
        self
        """
        self._fit(quadruplets, sample_weight)
        return self

    def decision_function(self, quadruplets: ArrayLike) -> NDArray:
        """Return the distance of c and d minus that of a and b, shape (n_quadruplets,)."""
        return self._decide(quadruplets)

    def predict(self, quadruplets: ArrayLike) -> NDArray:
        """Return +1 for each row in the right order, −1 for the others, shape (n_quadruplets,)."""
        return np.where(self._decide(quadruplets) > 0, 1, -1)

    def score(
        self, quadruplets: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of quadruplets in the right order."""
        return self._share_right(quadruplets, sample_weight)
