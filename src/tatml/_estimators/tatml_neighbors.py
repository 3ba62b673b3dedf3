"""TATMLNeighbors: learns a metric for nearest neighbours, and its threshold, from labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from .._data.blocks import Blocks
from .._learning.learn import PAIR_MARGIN, learn_from_neighbors
from .._learning.samples import KernelLike
from .._learning.task import Outliers, Prior
from .._optim.result import warn_unless_converged
from .._optim.solvers import SolverLike
from .metric import LabelEstimator
from .parameters import checked


@dataclass(eq=False, repr=False)
class TATMLNeighbors(LabelEstimator):
    """Metric learning for nearest neighbours, from labels.

    Each sample should be closer to its nearest samples of the same class (targets) than to its
    nearest samples of other classes (impostors), by a margin, as in LMNN. Both are found in the
    metric learnt so far: they are drawn, the convex problem of these comparisons is solved to a
    certificate, and they are drawn again, until they stay the same or `max_rounds` is reached.
    Random pairs in the same problem give the threshold (docs/theory.md, (Cmp) and (P)).

    Parameters
    ----------
    C : float, default=100.0
        Weight of the mean loss of the comparisons relative to the prior.
    pair_C : float, default=10.0
        Weight of the mean loss of the pairs relative to the prior.
    margin : float, default=1.0
        By how much the squared distance of an impostor should exceed that of a target, where 1 is
        the mean squared distance of the pairs under the prior.
    n_neighbors : int, default=3
        Targets per sample.
    n_impostors : int, default=3
        Impostors per sample.
    max_rounds : int, default=3
        How often comparisons are drawn at most.
    threshold : "auto", "joint" or float, default="auto"
        "joint" learns the threshold (b0) with the metric. "auto" multiplies it by the factor that
        suits held-out pairs best. A number fixes the threshold, in the units of `pair_distance`.
    prior : str, or list of M arrays of shape (n_m, n_m), default="best"
        The metric that the learnt one stays close to (W0), in which the first neighbours are
        found; see `TATML`. "best" is that of "discriminant", "auto" and "scaled" in which
        held-out samples have the most nearest neighbours of their class, found without a solver.
    n_pairs_per_class : int or None, default=None
        Number of pairs drawn per class for the threshold; see `TATML`.
    kernel : str, KernelMap or None, default=None
        A kernel, in whose feature space the metric is learnt; see `TATML`.
    clip_outliers : bool, "auto" or "replace", default="auto"
        What to do with outliers in the samples; see `TATML`.
    n_components : int, sequence of M int, or None, default=None
        Number of rows of `components_` in each block; see `TATML`.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples of indicators; see `TATML`.
    solver : {"newton"} or Newton, default="newton"
        The algorithm; Dykstra's takes no comparisons.
    tol, verbose
        See `TATML`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw of the pairs, and that of the solver unless it has its own.

    Attributes
    ----------
    comparisons_ : int array of shape (n_comparisons, 3)
        The comparisons of the last round: sample, target, impostor.
    n_rounds_ : int
        The number of rounds.
    n_missed_ : int
        Violated comparisons of the targets of the last round, in the learnt metric, whose
        impostors were not drawn.
    pairs_, similar_, pair_weights_
        The drawn pairs.
    components_, threshold_, threshold_factor_, b0_, result_, prior_, block_shapes_, n_iter_,
    cell_bounds_
        See `TATML`.
    n_features_in_
        See `TATML`.

    See Also
    --------
    TATML : Learns from pairs, for verification as well as for nearest neighbours.
    TATMLTriplets : Learns from given triplets.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from tatml import TATMLNeighbors
    >>> X, y = load_wine(return_X_y=True)
    >>> knn = make_pipeline(TATMLNeighbors(random_state=0), KNeighborsClassifier(3))
    >>> bool(knn.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    >>> knn[0].predict_pairs([[0, 2], [0, 170]], X)
    array([ 1, -1])
    """

    C: float = 100.0
    _: KW_ONLY
    pair_C: float = 10.0  # noqa: N815
    margin: float = 1.0
    n_neighbors: int = 3
    n_impostors: int = 3
    max_rounds: int = 3
    threshold: Literal["auto", "joint"] | float = "auto"
    prior: Prior | Literal["best"] = "best"
    n_pairs_per_class: int | None = None
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
        y : array-like of shape (n_samples,)
            Their class labels; at least two classes.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair for the threshold is drawn from within a group.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; a pair or comparison has the product of those of its samples.
            Only their ratios matter, and a weight of 2 is the same as a second copy of the sample:
            see `TATML`.

        Returns
        -------
        self
        """
        with self._fitting():
            parameters = checked(self)
            settings = self._settings(
                parameters, X, margin=PAIR_MARGIN, names=("C", "pair_C", "margin")
            )
            rounds = learn_from_neighbors(
                self._read_labelled(X, y, groups, sample_weight), settings, parameters
            )
            self._publish(rounds.metric)
            self.comparisons_ = rounds.triplets
            self.n_rounds_, self.n_missed_ = rounds.n_rounds, rounds.n_missed
        warn_unless_converged(self.result_)
        return self
