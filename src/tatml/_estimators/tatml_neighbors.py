"""TATMLNeighbors: learns a metric for nearest neighbours, and its threshold, from labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .._array import Indices, asarray, to_numpy
from .._data.blocks import Blocks
from .._data.comparisons import check_comparison_margin, link_pairs
from .._data.pairs import Pairs
from .._data.sampling import Strategy, balanced, count_violated, neighbor_triplets
from .._learn_metric import warn_unless_converged
from .._messages import shown
from .._optim.losses import comparison_hinge, join_hinges
from .._optim.problem import LogDetProblem, squared_hinge
from .._optim.result import Result, Status, learnt_b0
from .._optim.solvers import Newton, SolverLike, as_solver
from .._threads import SMALL_MATRIX, _threadpools
from .._validation import (
    check_count,
    check_flag,
    check_number_or,
    check_positive,
    check_threshold,
)
from .cross_fitting import (
    FOLD_TOL,
    FittedPart,
    HeldOutPairs,
    fit_parts,
    hold_out_samples,
)
from .device_inputs import place_blocks
from .embedding import embed_blocks
from .folds import LabelledSamples, make_pair_folds
from .inputs import samples_of, unchanged_on_error
from .kernel_space import KernelLike, KernelMixin
from .label_mixins import LabelPairsMixin, Prior, factors_by, pair_weights, within_classes
from .logdet_learner import SolvingMixin, mean_scatter
from .metric import MetricMixin, check_components
from .neighbor_priors import choose_prior
from .outliers import clip_outliers
from .priors import WithinClasses
from .reduction import MetricPrior, mean_squares_of, prior_of, reduce_blocks
from .thresholds import b0_of, learn_b0, threshold_of

PAIR_MARGIN = (0.5, 2.0)  # γ_s and γ_d of the pairs that the threshold is learnt from
ROUND_TOL = 1e-3  # tolerance of the rounds before the last


class TATMLNeighbors(KernelMixin, SolvingMixin, LabelPairsMixin, MetricMixin, BaseEstimator):
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
    clip_outliers : bool, default=True
        Whether to clip outliers; see `TATML`.
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
    components_, threshold_, threshold_factor_, b0_, result_, prior_, block_shapes_, n_iter_
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

    pairs: Strategy = "random"  # of LabelPairsMixin: how the pairs of the threshold are drawn

    def __init__(
        self,
        C: float = 100.0,
        *,
        pair_C: float = 10.0,
        margin: float = 1.0,
        n_neighbors: int = 3,
        n_impostors: int = 3,
        max_rounds: int = 3,
        threshold: Literal["auto", "joint"] | float = "auto",
        prior: Prior | Literal["best"] = "best",
        n_pairs_per_class: int | None = None,
        kernel: KernelLike = None,
        clip_outliers: bool = True,
        n_components: int | Sequence[int] | None = None,
        preprocessor: Any = None,
        solver: SolverLike = "newton",
        tol: float = 1e-6,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.C = C
        self.pair_C = pair_C
        self.margin = margin
        self.n_neighbors = n_neighbors
        self.n_impostors = n_impostors
        self.max_rounds = max_rounds
        self.threshold = threshold
        self.prior = prior
        self.n_pairs_per_class = n_pairs_per_class
        self.kernel = kernel
        self.clip_outliers = clip_outliers
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.solver = solver
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Blocks | ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Learn the metric and the threshold.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples: vectors, matrices, or tuples of matrices.
        y : array-like of shape (n_samples,)
            Their class labels; at least two classes.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair for the threshold is drawn from within a group.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            self._check_parameters()
            blocks = samples_of(self, X, reset=True, min_samples=2, y=y)
            samples = self._labelled(blocks, y, groups)
            kernel = self._read_kernel(blocks)
            blocks = self._samples_to_learn(blocks)
            if self.clip_outliers and not self._has_kernel_values():
                blocks = clip_outliers(blocks, np.arange(len(blocks)), "X")
            given = replace(samples, blocks=blocks)
            samples = replace(samples, blocks=self._map_samples(kernel, blocks))
            check_components(self.n_components, [n for n, _ in samples.blocks.block_shapes])
            pairs = balanced(self._draw_pairs(samples))
            with _threads_for(samples.blocks):
                prior = self._choose_prior(samples)
                within = within_classes(samples.blocks, samples.labels, n_images=self._n_images())
                self._learn_from(samples.blocks, samples.labels, pairs, within, prior)
                parts: list[HeldOutPairs] = []
                if self.threshold == "auto":
                    folds = make_pair_folds(samples.labels, samples.groups)
                    parts = hold_out_samples(given, folds, kernel)
                fitted = self._cross_fit_threshold(parts, samples.labels, pairs, prior)
                if isinstance(self.threshold, str):
                    self._warn_if_one_sided(samples.blocks, pairs, fitted)
            self.pairs_, self.similar_ = pairs.index, pairs.similar
            self.pair_weights_ = pairs.weights
        warn_unless_converged(self.result_)
        return self

    def _check_parameters(self) -> None:
        for name in ("C", "pair_C"):
            check_positive(name, getattr(self, name))
        check_comparison_margin("margin", self.margin)
        for name in ("n_neighbors", "n_impostors", "max_rounds"):
            check_count(name, getattr(self, name))
        given = check_number_or("threshold", self.threshold, "auto", "joint")
        if given is not None:
            check_threshold("threshold", given)
        check_flag("clip_outliers", self.clip_outliers)
        if not isinstance(as_solver(self.solver), Newton):
            raise ValueError(
                f"solver: expected 'newton' or Newton(…) with comparisons, got {shown(self.solver)}"
            )

    def _choose_prior(self, samples: LabelledSamples) -> Prior:
        """Return the prior, or the one that "best" stands for."""
        if not (isinstance(self.prior, str) and self.prior == "best"):
            return self.prior
        count = int(self.n_neighbors)
        return choose_prior(samples.blocks, samples.labels, count, self._n_images())

    def _learn_from(
        self, blocks: Blocks, labels: Indices, pairs: Pairs, within: WithinClasses, prior: Prior
    ) -> None:
        """Learn the metric and the joint threshold, and set the fitted attributes."""
        metric_prior, mean_squared = _make_prior(blocks, pairs, within, prior)
        given = check_number_or("threshold", self.threshold, "auto", "joint")
        mu0 = b0_of(sqrt(mean_squared) if given is None else given, PAIR_MARGIN)
        self._learn_in_rounds(blocks, labels, pairs, metric_prior, mu0)

    def _cross_fit_threshold(
        self, parts: Sequence[HeldOutPairs], labels: Indices, pairs: Pairs, prior: Prior
    ) -> list[FittedPart]:
        """Multiply the threshold by the factor that is best for held-out pairs, if any.

        After an interrupt, the threshold stays. Returns what was learnt from the parts.
        """
        if self.result_.status is Status.INTERRUPTED:
            return []

        def fit(part: HeldOutPairs, known: Pairs) -> TATMLNeighbors:
            model = self._model_of_parts()
            model.block_shapes_ = part.known.block_shapes
            model._learn_from(part.known, labels[part.rows], known, part.within, prior)
            return model

        return self._multiply_threshold(fit_parts(parts, pairs, fit))

    def _model_of_parts(self) -> Self:
        """Return an estimator to fit to parts of the samples: with a large tolerance."""
        given = self.get_params(deep=False) | {
            "threshold": "joint",
            "kernel": None,
            "preprocessor": None,
            "solver": "newton",
            "tol": max(FOLD_TOL, check_positive("tol", self.tol)),
            "random_state": 0,
            "verbose": False,
        }
        model = type(self)(**given)
        model._keeps_spans, model._place, model.kernel_map_ = True, self._place, None
        return model

    def _learn_in_rounds(
        self,
        blocks: Blocks,
        labels: NDArray[np.intp],
        pairs: Pairs,
        prior: MetricPrior,
        mu0: float,
    ) -> None:
        """Draw comparisons and learn from them, until they stay the same.

        Metrics in which comparisons are drawn again need no accurate solution; the last one does.
        """
        space, self.n_rounds_ = to_numpy(embed_blocks(factors_by(prior), blocks)), 0
        self.comparisons_ = np.empty((0, 3), dtype=np.intp)
        counts, most = (int(self.n_neighbors), int(self.n_impostors)), int(self.max_rounds)
        least_tol = ROUND_TOL
        while self.n_rounds_ < most:
            triplets = neighbor_triplets(space, labels, *counts)
            repeated = np.array_equal(triplets, self.comparisons_)
            if repeated and least_tol == 0.0:
                break
            if repeated or self.n_rounds_ == most - 1:
                least_tol = 0.0
            problem = self._problem(pairs, triplets, prior, mu0)
            self._solve(problem, prior, blocks, ("C", "pair_C", "margin"), least_tol)
            self.n_rounds_ += 0 if repeated else 1
            self.comparisons_ = triplets
            space = self._embed_whole(prior, blocks)
            if self.result_.status is Status.INTERRUPTED:
                break
        self.n_missed_ = count_violated(space, labels, self.comparisons_, float(self.margin))
        self._set_threshold(blocks, pairs, mu0)

    def _embed_whole(self, prior: MetricPrior, blocks: Blocks) -> NDArray[np.float64]:
        """Embed the samples by the learnt metric, whatever `n_components` says."""
        inside = prior.start(self.result_)
        assert inside is not None  # the result is that of this prior
        return to_numpy(embed_blocks(prior.factors(inside.L), blocks))

    def _earlier_result(self) -> Result | None:
        """Return the solution of the round before, to start from."""
        return self.result_ if self.n_rounds_ else None

    def _problem(
        self, pairs: Pairs, triplets: NDArray[np.intp], prior: MetricPrior, mu0: float
    ) -> LogDetProblem:
        """Return the problem of the pairs and of the comparisons."""
        total, n_rows = float(np.sum(pair_weights(pairs))), len(triplets)
        losses = [
            squared_hinge(pairs, float(self.pair_C) / total, PAIR_MARGIN),
            comparison_hinge(np.ones(n_rows), float(self.C) / n_rows, float(self.margin)),
        ]
        linked = link_pairs(pairs.index, triplets[:, [0, 1, 0, 2]])
        fixed = not isinstance(self.threshold, str)
        c0 = inf if fixed else float(self.pair_C)  # theory (Rho), with ρ = 1
        samples = place_blocks(prior.samples, self._place)
        W0 = [asarray(matrix, samples.arrays[0]) for matrix in prior.matrices]
        return LogDetProblem.build(samples, linked, join_hinges(losses), c0=c0, mu0=mu0, prior=W0)

    def _set_threshold(self, blocks: Blocks, pairs: Pairs, mu0: float) -> None:
        """Set the threshold; with `n_components`, that of the reduced distances."""
        self.b0_, self.threshold_factor_ = learnt_b0(self.result_), 1.0
        if self.n_components is not None and isinstance(self.threshold, str):
            squared = self._distances(blocks, pairs.index) ** 2
            self.b0_ = learn_b0(squared, pairs, PAIR_MARGIN, 1.0, mu0)
        self.threshold_ = threshold_of(self.b0_, PAIR_MARGIN)


def _make_prior(
    blocks: Blocks, pairs: Pairs, within: WithinClasses, prior: Prior
) -> tuple[MetricPrior, float]:
    """Return W0, and the mean squared distance of the pairs under W0."""
    share = pair_weights(pairs) / np.sum(pair_weights(pairs))
    reduced = reduce_blocks(prior, blocks, within, mean_squares_of(blocks, pairs, share))
    plain = LogDetProblem.build(reduced.blocks, pairs, squared_hinge(pairs, 1.0, PAIR_MARGIN))
    scatter = mean_scatter(plain.pairs.sums, share)
    made = prior_of(prior, reduced, scatter)
    products = [np.sum(W0 * S) for W0, S in zip(made.matrices, scatter, strict=True)]
    return made, float(np.mean(products))


def _threads_for(blocks: Blocks) -> Any:
    """Return a context with one BLAS thread, as in the solvers, unless a block is large."""
    small = max(n for n, _ in blocks.block_shapes) <= SMALL_MATRIX
    return _threadpools().limit(limits=1 if small else None)
