"""TATMLTriplets: learns a metric from triplets."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metadata_routing import UNUSED

from .comparison_learner import ComparisonLearner


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
    clip_outliers : bool, default=True
        Whether to clip outliers in the samples; see `TATML`.
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
    components_, result_, prior_, block_shapes_, n_iter_, n_features_in_
        See `TATML`. ``result_.b0`` is None.
    threshold_ : float
        After `calibrate_threshold` or `set_threshold`: the distance below which pairs count as the
        same.
    calibration_, likelihood_ratio_, same_rate_
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

    _tuples_name = "triplets"
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
