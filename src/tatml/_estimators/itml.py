"""ITML: Information-Theoretic Metric Learning, solved to a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._array import Doubles, to_numpy
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sampling import Strategy
from .._learning.labelled import draw_some
from .._learning.learn import metric_of, solve
from .._learning.prepare import prepare
from .._learning.priors import within_classes
from .._learning.samples import KernelLike, map_samples, read_kernel
from .._learning.task import Prior, Task
from .._optim.losses import BurgLoss
from .._optim.result import warn_unless_converged
from .._optim.solvers import Dykstra, Newton, SolverLike
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

    def fit(self, X: Blocks | ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Learn the metric, and afterwards the threshold.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples.
        y : array-like of shape (n_samples,)
            Their class labels; at least two classes.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair is drawn from within a group.

        Returns
        -------
        self
        """
        with self._fitting():
            parameters = checked(self)
            settings = self._settings(parameters, X, names=("gamma", "bounds"))
            samples = self._read_labelled(X, y, groups)
            kernel = read_kernel(settings.kernel, samples.blocks)
            blocks, kernel_map, n_images = map_samples(kernel, samples.blocks, settings)
            samples = replace(samples, blocks=blocks)
            _check_projections(settings.solver, blocks)
            within = within_classes(blocks, samples.labels, n_images=n_images)
            pairs = draw_some(samples, settings, settings.pairs, within)
            ones = np.ones(len(pairs))
            weights = parameters.gamma * ones
            sign = np.where(pairs.similar, 1.0, -1.0)
            loss = BurgLoss(sign, weights, ones)
            task = Task(blocks, pairs, within)
            prepared = prepare(task, loss, settings)
            problem, prior = prepared.problem, prepared.prior
            squared = to_numpy(problem.pairs.sums.distances())
            _check_apart(squared, pairs)
            self.bounds_ = _find_bounds(squared, parameters.bounds, parameters.percentiles)
            loss = BurgLoss(sign, weights, np.where(pairs.similar, *self.bounds_))
            problem = problem.with_loss(loss.placed(problem.prior_factors[0]), problem.c0)
            found = solve(problem, prior, settings)
            metric = replace(metric_of(found, prior, task, settings), kernel_map=kernel_map)
            self._publish_with_threshold(metric, blocks, pairs, settings)
        warn_unless_converged(self.result_)
        return self


def _find_bounds(
    squared: Doubles, bounds: tuple[float, float] | None, percentiles: tuple[float, float]
) -> tuple[float, float]:
    """Return the given bounds, or percentiles of the squared distances under the prior."""
    if bounds is not None:
        return bounds
    low, high = np.percentile(squared, percentiles)
    if not low > 0:  # some pairs coincide, but a bound must be positive
        low = np.min(squared[squared > 0])
    return float(low), float(max(high, low))


def _check_projections(solver: Newton | Dykstra, blocks: Blocks) -> None:
    """Raise an error if the solver is Dykstra and the samples are not vectors in one block."""
    if not isinstance(solver, Newton) and [width for _, width in blocks.block_shapes] != [1]:
        shapes = ", ".join(f"{n}×{width}" for n, width in blocks.block_shapes)
        raise ValueError(
            "solver: expected 'newton', because ITML's projections need vectors in one block, got "
            f"solver={solver!r} and blocks of shapes {shapes}"
        )


def _check_apart(squared: NDArray[np.float64], pairs: Pairs) -> None:
    """Raise an error if a dissimilar pair has distance zero, where ITML's loss is infinite."""
    wrong = np.flatnonzero(~pairs.similar & (squared == 0))
    if len(wrong):
        i, j = pairs.index[wrong[0]]
        raise ValueError(
            "X: expected samples of different classes to differ, because ITML's loss is infinite "
            f"otherwise, got identical samples {i} and {j}"
        )
