"""TATMLPairs: learns a metric and its threshold from similar and dissimilar pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from .._learning.cross_fit import merge_identical
from .._learning.learn import distinct_samples, learn_from_pairs
from .._learning.samples import KernelLike
from .._learning.task import LossName, Outliers, Prior
from .._messages import shown
from .._optim.custom_loss import CustomLoss
from .._optim.result import warn_unless_converged
from .._optim.solvers import SolverLike
from .._verification.targets import check_target
from .inputs import tuple_samples
from .metric import MetricEstimator, NoFitTransform
from .pair_judge import CLASSES, PairClassifierMixin, make_labelled_pairs
from .parameters import checked, inside

CALIBRATION_PARAMS = {"strategy", "min_rate", "beta", "max_rate", "same_rate", "confidence"}
CALIBRATION_PARAMS |= {"sample_weight"}


@dataclass(eq=False, repr=False)
class TATMLPairs(PairClassifierMixin, MetricEstimator):
    """Threshold Auto-Tuning Metric Learning from similar and dissimilar pairs.

    Learns a metric and its threshold from pairs of samples that are known to be similar (+1) or
    dissimilar (−1). The problem is convex and solved to a certificate, `result_.gap`. The fitted
    estimator classifies new pairs with `predict`, and embeds samples with `transform`. With
    ``midpoint=True`` it learns a score of pairs in place of the distance, and has no `transform`.

    Parameters
    ----------
    C : float or None, default=None
        Weight of the pairs relative to the prior. It multiplies the *mean* loss of the pairs, or
        the sum with ``reduction="sum"``; see `TATML`. None: 100; with a midpoint, 10, which suits
        samples of new classes: for those of the classes in the pairs, 100 is better.
    threshold : "auto", "joint" or float, default="auto"
        "joint" learns the threshold (b0) with the metric, as in the paper. "auto" multiplies it by
        the factor that suits held-out pairs best. The pairs of a fold are held out by sample: no
        sample of theirs is in a pair that the metric is learnt from. A number fixes the threshold,
        in the units of `pair_distance`; with a midpoint, in those of minus `pair_score`, see
        `TATML`.
    threshold_prior : float or None, default=None
        The value that the threshold is pulled to (μ0), in the units of `pair_distance`. None: the
        root mean squared distance of the pairs under the prior; with a midpoint, the threshold of
        the prior.
    threshold_strength : float, default=1.0
        The strength ρ of this pull, relative to the weight of the pairs: c0 = ρ c Σ w.
    c0 : float or None, default=None
        The strength of the pull as an absolute number. None: set by `threshold_strength`.
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d); see `TATML`.
    loss : {"auto", "squared_hinge", "logistic"} or CustomLoss, default="auto"
        The loss of a pair: "auto" is "squared_hinge" for distances and "logistic" with a midpoint;
        see `TATML`.
    midpoint : bool, default=False
        Whether to learn a score that depends on where a pair lies, and not only on how far apart
        its samples are; see `TATML`. The classes of the pairs are not known, so the prior is that
        of new classes.
    prior : str, or list of M arrays of shape (n_m, n_m), default="discriminant"
        The metric that the learnt one stays close to (W0); see `TATML`. For "within" and
        "discriminant", the differences of similar pairs give the scatter within classes; with a
        midpoint, those of dissimilar pairs give the total scatter.
    class_weight : dict, "balanced" or None, default="balanced"
        Weights of the classes −1 and 1. "balanced" gives both the same total weight: the learnt
        threshold balances false matches and false non-matches, however many pairs of each kind
        are given. None gives every pair the same weight.
    reduction : {"mean", "sum"}, default="mean"
        Whether C multiplies the mean or the sum of the losses of the pairs.
    kernel : str, KernelMap or None, default=None
        A kernel, in whose feature space the metric is learnt; see `TATML`. Not "precomputed".
    clip_outliers : bool, "auto" or "replace", default="auto"
        What to do with outliers in the samples; see `TATML`.
    n_components : int, sequence of M int, or None, default=None
        Number of rows of `components_` in each block; see `TATML`.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples of index pairs: an array or Blocks to index, or a function that
        takes an array of indicators and returns one of these. Needed for pairs of samples that
        consist of several matrices.
    solver, tol, warm_start, verbose
        See `TATML`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the random draws of the solver, unless it has a `random_state` of its own. No pairs
        are drawn.

    Attributes
    ----------
    classes_ : array([-1, 1])
        −1 for different, 1 for the same.
    pairs_ : int array of shape (n_pairs, 2)
        The pairs as row numbers of the samples, in the given order. With a preprocessor, row i is
        the i-th of the sorted distinct indicators.
    similar_ : bool array of shape (n_pairs,)
        Which of these pairs are similar.
    likelihood_ratio_ : array([a, b])
        After `calibrate_probability`: a pair at distance d, or with the score −d, has the
        log-likelihood ratio a − b d. With a midpoint and ``threshold="auto"`` already after `fit`,
        from held-out pairs, unless they are too few.
    likelihood_table_ : array of shape (2, n_knots)
        In place of `likelihood_ratio_` after `calibrate_probability` with another method than
        "logistic": increasing distances, and the log-likelihood ratios there.
    same_rate_ : float
        The assumed share of pairs that are the same, for probabilities; 0.5 after `fit`.
    factors_, sum_factors_ : lists of M arrays of shape (n, n)
        With a midpoint, the linear maps of the differences and of the sums; see `TATML`.
    midpoint_ : list of M arrays of shape (n, n')
        With a midpoint, the mean of the distinct samples of the pairs, and what learning adds to
        it; see `TATML`.
    components_, threshold_, threshold_factor_, threshold_shift_, b0_, result_, prior_
        See `TATML`.
    prior_units_, kernel_map_, cell_bounds_, block_shapes_, n_iter_, n_features_in_
        See `TATML`.

    See Also
    --------
    PairThreshold : Keeps a given distance and learns only the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import TATMLPairs
    >>> rng = np.random.default_rng(0)
    >>> same = rng.random(500) < 0.5
    >>> a = rng.normal(size=(500, 4))
    >>> b = rng.normal(size=(500, 4))  # only the first feature separates the two kinds
    >>> b[:, 0] = a[:, 0] + np.where(same, 0.1, 2.0) * rng.normal(size=500)
    >>> pairs, y = np.stack([a, b], axis=1), np.where(same, 1, -1)
    >>> verifier = TATMLPairs().fit(pairs[:400], y[:400])
    >>> bool(verifier.score(pairs[400:], y[400:]) > 0.9)
    True
    >>> bool(np.mean(verifier.predict(pairs[400:]) == y[400:]) > 0.8)
    True

    With a midpoint, `fit` finds probabilities as well:

    >>> judge = TATMLPairs(midpoint=True).fit(pairs[:400], y[:400])
    >>> judge.predict_proba(pairs[400:]).shape
    (100, 2)
    >>> bool(judge.score(pairs[400:], y[400:]) > 0.9)
    True
    """

    C: float | None = None
    _: KW_ONLY
    threshold: Literal["auto", "joint"] | float = "auto"
    threshold_prior: float | None = None
    threshold_strength: float = 1.0
    c0: float | None = None
    margin: tuple[float, float] = (0.5, 2.0)
    loss: LossName | CustomLoss = "auto"
    midpoint: bool = False
    prior: Prior = "discriminant"
    class_weight: dict[int, float] | Literal["balanced"] | None = "balanced"
    reduction: Literal["mean", "sum"] = "mean"
    kernel: KernelLike = None
    clip_outliers: Outliers = "auto"
    n_components: int | Sequence[int] | None = None
    preprocessor: Any = None
    solver: SolverLike = "newton"
    tol: float = 1e-6
    warm_start: bool = False
    random_state: Any = None
    verbose: bool = False

    def fit(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        calibration_params: dict[str, Any] | None = None,
    ) -> Self:
        """Learn the metric and the threshold.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n) or (n_pairs, 2, n, n')
            Pairs of vectors or matrices. With a preprocessor, pairs of indicators of shape
            (n_pairs, 2).
        y : array-like of shape (n_pairs,)
            +1 for the same, −1 for different.
        sample_weight : array-like of shape (n_pairs,), optional
            Weights of the pairs.
        calibration_params : dict, optional
            If given, `calibrate_threshold` is called with these parameters on the training pairs,
            and replaces the learnt threshold. Rates hold on the training pairs only
            (``confidence=None``): calling it on held-out pairs is better.

        Returns
        -------
        self
        """
        if calibration_params is not None:
            calibration_params = self._checked_calibration(calibration_params)
        with self._fitting():
            parameters = checked(self)
            settings = self._settings(parameters, pairs, samples_name="pairs", new_classes=True)
            blocks, index = tuple_samples(self, pairs, "pairs", reset=True)
            chosen = make_labelled_pairs(index, y, parameters.class_weight, sample_weight)
            self.classes_ = CLASSES.copy()
            rows, merged, n_counted = merge_identical(blocks, chosen)
            self._keep_facts(blocks[rows])  # a sample counts once, however many pairs it is in
            distinct, cells = distinct_samples(blocks, rows, n_counted, settings, merged)
            metric = learn_from_pairs(distinct, merged, n_counted, settings)
            self._publish(replace(metric, pairs=chosen, cells=cells))
            if calibration_params is not None:
                options = {"sample_weight": sample_weight, "confidence": None} | calibration_params
                self.calibrate_threshold(pairs, y, **options)
        warn_unless_converged(self.result_)
        return self

    def _checked_calibration(self, calibration_params: Any) -> dict[str, Any]:
        try:
            calibration_params = dict(calibration_params)
        except Exception as error:
            raise TypeError(
                f"calibration_params: expected a dict, got {shown(calibration_params)}"
            ) from error
        if not set(calibration_params) <= CALIBRATION_PARAMS:
            raise ValueError(
                f"calibration_params: expected some of {', '.join(sorted(CALIBRATION_PARAMS))}, "
                f"got {shown(calibration_params)}"
            )
        with inside("calibration_params"):
            check_target(**{"confidence": None} | calibration_params)
        if calibration_params.get("confidence") is not None:
            raise ValueError(
                "calibration_params: expected confidence=None, as training pairs cannot promise a "
                f"rate, got {shown(calibration_params['confidence'])}"
            )
        return calibration_params

    fit_transform = NoFitTransform("fit(pairs, y)")
