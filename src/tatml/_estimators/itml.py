"""ITML: Information-Theoretic Metric Learning, solved to a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from .._data.blocks import Blocks
from .._data.sampling import Strategy
from .._learning.baselines import learn_from_bounds
from .._learning.samples import KernelLike
from .._learning.task import Prior
from .._optim.result import warn_unless_converged
from .._optim.solvers import SolverLike
from .metric import LabelEstimator
from .parameters import checked


@dataclass(eq=False, repr=False)
class ITML(LabelEstimator):
    """Information-Theoretic Metric Learning from labelled samples.

    Keeps the squared distances of similar pairs below an upper bound and those of dissimilar pairs
    above a lower bound, with slack, and stays close to the prior in the LogDet divergence (Davis et
    al., 2007). The problem is that of `TATML` with a different loss, the Burg divergence of the
    slack, and with given bounds instead of a learnt threshold. Newton's method therefore solves it
    to a certificate; ITML's original cyclic projections are available as well.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of the sum of the slack terms over the pairs. Large values enforce the bounds.
    bounds : (float, float) or None, default=None
        The upper bound for similar pairs and the lower bound for dissimilar pairs, for *squared*
        distances. None: set by `percentiles`.
    percentiles : (float, float), default=(5, 95)
        The bounds are these percentiles of the squared distances of the pairs under the prior.
    prior, pairs, n_pairs_per_class, n_neighbors, kernel, n_components, preprocessor
        See `TATML`.
    threshold_prior, threshold_strength, margin
        ITML itself has no threshold. `threshold_` is learnt afterwards by TATML's criterion for the
        learnt distances; see `Euclidean`.
    solver : {"newton", "dykstra"}, Newton or Dykstra, default="newton"
        See `TATML`. ``Dykstra(order="cyclic")`` is ITML's original algorithm, which projects on one
        pair after the other; "dykstra" visits the pairs in shuffled order. Both projections need
        samples that are vectors in one block.
    tol, warm_start, verbose
        See `TATML`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw of pairs, and the random draws of the solver unless it has a `random_state`
        of its own.

    Attributes
    ----------
    bounds_ : (float, float)
        The bounds that were used, for squared distances.
    components_, threshold_, b0_, result_, pairs_, similar_, prior_, kernel_map_
        See `TATML`.
    block_shapes_, n_iter_
        See `TATML`.

    References
    ----------
    J. V. Davis, B. Kulis, P. Jain, S. Sra, I. S. Dhillon. Information-theoretic metric learning.
    ICML 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tatml import ITML
    >>> X, y = load_wine(return_X_y=True)
    >>> itml = ITML(random_state=0).fit(X, y)
    >>> itml.result_.converged
    True
    >>> itml.transform(X).shape
    (178, 13)
    """

    gamma: float = 1.0
    _: KW_ONLY
    bounds: tuple[float, float] | None = None
    percentiles: tuple[float, float] = (5, 95)
    prior: Prior = "auto"
    pairs: Strategy = "random"
    n_pairs_per_class: int | None = None
    n_neighbors: int = 3
    kernel: KernelLike = None
    n_components: int | Sequence[int] | None = None
    preprocessor: Any = None
    threshold_prior: float | None = None
    threshold_strength: float = 1.0
    margin: tuple[float, float] = (0.5, 2.0)
    solver: SolverLike = "newton"
    tol: float = 1e-6
    warm_start: bool = False
    random_state: Any = None
    verbose: bool = False

    def fit(
        self,
        X: Blocks | ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric, and afterwards the threshold.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples.
        y : array-like of shape (n_samples,)
            Their class labels; at least two classes.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair is drawn from within a group.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; a pair has the product of both. A weight of 2 is the same as a
            second copy of the sample: see `TATML`.

        Returns
        -------
        self
        """
        with self._fitting():
            parameters = checked(self)
            settings = self._settings(parameters, X, names=("gamma", "bounds"))
            samples = self._read_labelled(X, y, groups, sample_weight)
            metric, self.bounds_ = learn_from_bounds(samples, settings, parameters)
            self._publish(metric)
        warn_unless_converged(self.result_)
        return self
