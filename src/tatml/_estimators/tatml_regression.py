"""TATMLRegression: learns a metric and its threshold from numbers as targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from .._array import Doubles, Indices
from .._data.arrays import group_labels
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sampling import balanced, draw_ranked_pairs, slice_ranks
from .._learning.cross_fit import merge_identical
from .._learning.labelled import LabelledSamples, counted, distinct, draw_of_copies
from .._learning.learn import distinct_samples, in_given_rows, learn_from_pairs
from .._learning.priors import KnownSamples
from .._learning.samples import KernelLike
from .._learning.task import LossName, Outliers, Prior
from .._optim.custom_loss import CustomLoss
from .._optim.result import warn_unless_converged
from .._optim.solvers import SolverLike
from .._validation import generator_of
from .inputs import target_ranks
from .metric import LabelEstimator
from .parameters import checked


@dataclass(eq=False, repr=False)
class TATMLRegression(LabelEstimator):
    """Threshold Auto-Tuning Metric Learning from numbers as targets.

    Two samples are similar if the ranks of their targets differ little, and dissimilar if they
    differ much. Pairs of both kinds are drawn at random; what is learnt from them is what
    `TATMLPairs` learns. `transform` then embeds samples for regression by nearest neighbours, such
    as by `SoftNeighborsRegressor`.

    Parameters
    ----------
    C : float, default=100.0
        Weight of the mean loss of the pairs relative to the prior.
    near : float, default=0.12
        Pairs are similar if their ranks differ by less than this share of the number of samples.
    far : float, default=0.4
        Pairs are dissimilar if their ranks differ by more than this share. Pairs between `near` and
        `far` are not used. A target of two values needs a share below 0.5.
    n_pairs : int, default=5000
        The number of pairs that are drawn; half of them are similar. There are fewer if the samples
        give fewer; then both kinds have the same total weight.
    threshold : "auto", "joint" or float, default="auto"
        "joint" learns the threshold (b0) with the metric. "auto" multiplies it by the factor that
        suits held-out pairs best. The pairs of a fold are held out by sample, or by group. A number
        fixes the threshold, in the units of `pair_distance`.
    threshold_prior : float or None, default=None
        The value that the threshold is pulled to (μ0), in the units of `pair_distance`. None: the
        root mean squared distance of the pairs under the prior.
    threshold_strength : float, default=1.0
        The strength ρ of this pull, relative to the weight of the pairs.
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d); see `TATML`.
    loss : {"auto", "squared_hinge", "logistic"} or CustomLoss, default="auto"
        The loss of a pair: "auto" is "squared_hinge"; see `TATML`.
    prior : str, or list of M arrays of shape (n_m, n_m), default="discriminant"
        The metric that the learnt one stays close to (W0); see `TATML`. For "within" and
        "discriminant", classes are nine slices of the samples, by the rank of the target.
    kernel : str, KernelMap or None, default=None
        A kernel, in whose feature space the metric is learnt; see `TATML`. Not "precomputed".
    clip_outliers : bool, "auto" or "replace", default="auto"
        What to do with outliers in the samples; see `TATML`. Outliers among the targets do not
        matter, because only their ranks do.
    n_components : int, sequence of M int, or None, default=None
        Number of rows of `components_` in each block; see `TATML`.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples of indicators; see `TATML`.
    solver, tol, verbose
        See `TATML`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw of pairs, and the random draws of the solver unless it has a `random_state`
        of its own.

    Attributes
    ----------
    threshold_ : float
        Pairs with a smaller distance are predicted to be similar: the ranks of their targets differ
        by less than a share of the training samples that is between `near` and `far`.
    pairs_ : int array of shape (n_pairs, 2)
        The training pairs, as row numbers of X; the similar ones first.
    similar_ : bool array of shape (n_pairs,)
        Which of these pairs are similar.
    pair_weights_ : array of shape (n_pairs,), or None
        Weights of these pairs; None if all are equal.
    components_, threshold_factor_, b0_, result_, prior_, prior_units_, kernel_map_
        See `TATML`.
    cell_bounds_, block_shapes_, n_iter_, n_features_in_
        See `TATML`.

    See Also
    --------
    SoftNeighborsRegressor : Means of the targets of the nearest neighbours.
    TATML : Learns from classes.

    Notes
    -----
    Only the ranks of the targets matter, so that a monotone transformation of a target changes
    nothing. Equal targets have the mean of their ranks. With several targets, two samples differ by
    the root mean square of the differences of their ranks, and the slices of the prior are the
    cells of three slices of each target. `TATMLPairs` learns the same metric from `pairs_` with the
    same prior.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from tatml import SoftNeighborsRegressor, TATMLRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(TATMLRegression(random_state=0), SoftNeighborsRegressor())
    >>> bool(model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.4)
    True
    """

    C: float = 100.0
    _: KW_ONLY
    near: float = 0.12
    far: float = 0.4
    n_pairs: int = 5000
    threshold: Literal["auto", "joint"] | float = "auto"
    threshold_prior: float | None = None
    threshold_strength: float = 1.0
    margin: tuple[float, float] = (0.5, 2.0)
    loss: LossName | CustomLoss = "auto"
    prior: Prior = "discriminant"
    kernel: KernelLike = None
    clip_outliers: Outliers = "auto"
    n_components: int | Sequence[int] | None = None
    preprocessor: Any = None
    solver: SolverLike = "newton"
    tol: float = 1e-6
    random_state: Any = None
    verbose: bool = False

    def fit(
        self,
        X: Blocks | ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric and the threshold.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples: vectors, matrices, or tuples of matrices.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets: numbers, or ordered categories of pandas.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair is drawn from within a group, and groups are held out as a whole.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; a pair has the product of both. Only their ratios matter, and a
            weight of 2 is the same as a second copy of the sample: see `TATML`.

        Returns
        -------
        self
        """
        with self._fitting():
            parameters = checked(self)
            names = ("C", "threshold", "threshold_prior", "threshold_strength")
            settings = self._settings(parameters, X, new_classes=True, names=names)
            blocks = self._read_samples(X, y, min_samples=2)
            weights = self._read_weights(sample_weight, len(blocks))
            ranks = target_ranks(self, y, len(blocks), weights)
            total = len(ranks) if weights is None else float(np.sum(weights))
            labels = np.unique(ranks, axis=0, return_inverse=True)[1].ravel()
            units = group_labels(groups, len(blocks))
            given = LabelledSamples(blocks, labels, units, weights)
            draw = partial(
                draw_ranked_pairs,
                total=total,
                near=parameters.near,
                far=parameters.far,
                n_pairs=parameters.n_pairs,
                random_state=generator_of(settings.random_state),
            )
            samples, rows, pairs = _draw_distinct(given, ranks, draw)
            ranks = ranks[rows]
            used, merged, n_counted = merge_identical(samples.blocks, pairs)
            known = KnownSamples(slice_ranks(ranks, total), samples.groups, samples.weights)[used]
            learnt, cells = distinct_samples(
                samples.blocks, used, n_counted, settings, merged, known
            )
            metric = learn_from_pairs(learnt, merged, n_counted, settings, known)
            self._publish(in_given_rows(replace(metric, pairs=pairs, cells=cells), rows))
        warn_unless_converged(self.result_)
        return self

    def __sklearn_tags__(self) -> Any:
        """Return tags that allow several targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _draw_distinct(
    given: LabelledSamples, ranks: Doubles, draw: Callable[..., Pairs]
) -> tuple[LabelledSamples, Indices, Pairs]:
    """Return the distinct samples, their rows, and pairs of them that `draw` makes of ranks.

    If distinct ones give no similar pairs, copies stay: then an error says what is wrong with them.
    """

    def drawn(of_label: Doubles, labels: Indices, groups: Indices | None) -> Pairs:
        return draw(of_label[labels], groups)

    for samples, rows in (distinct(given, False), counted(given, 0)):
        of_label = ranks[rows][np.unique(samples.labels, return_index=True)[1]]
        try:
            pairs = draw_of_copies(samples, partial(drawn, of_label))
            break
        except ValueError:
            if samples.copies is None:
                raise
    return samples, rows, balanced(pairs)
