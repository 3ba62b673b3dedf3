"""TATML: a metric and its threshold, learnt from labels."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from types import MappingProxyType
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sampling import STRATEGIES, Strategy, balanced
from .._learn_metric import warn_unless_converged
from .._optim.result import Result
from .._optim.solvers import SolverLike
from .._validation import check_choice, check_margin
from .tatml_all_pairs import has_very_many_pairs, learn_from_all_pairs
from .inputs import samples_of, unchanged_on_error
from .label_mixins import LabelPairsMixin, Prior, best_b0, within_classes
from .logdet_learner import LogDetLearner
from .metric import row_distances
from .thresholds import threshold_of

__all__ = ["PAPER", "TATML"]

PAPER = MappingProxyType(
    {
        "C": 1.0,
        "reduction": "sum",
        "c0": 1.0,
        "threshold_prior": 1.0,
        "margin": (0.5, 2.0),
        "prior": "identity",
        "pairs": "random",
        "n_pairs_per_class": 10,
    }
)


class TATML(LabelPairsMixin, LogDetLearner):
    """Threshold Auto-Tuning Metric Learning from labelled samples.

    Draws pairs of samples, similar ones from the same class and dissimilar ones from two, and
    learns one positive definite matrix per block together with the distance that separates the two
    kinds. The problem is convex and solved to a certificate, `result_.gap`. Then `transform` embeds
    samples so that their Euclidean distance is the learnt one (for k-NN, clustering, search), and
    `predict_pairs` says whether two samples are of one kind.

    Parameters
    ----------
    C : float, default=100.0
        Weight of the pairs against the prior. It weighs the *mean* loss of the pairs, c = C/K for K
        pairs, because the pairs are a draw: more of them should make the answer more precise, not
        the prior weaker. With ``reduction="sum"`` it is the paper's c itself.
    threshold : "auto" or float, default="auto"
        "auto" learns the threshold (b0) with the metric; a number fixes it, in the units of
        `pair_distance` (as Maz does).
    threshold_prior : float or None, default=None
        Where the threshold is pulled to (μ0), in the units of `pair_distance`. None: the root mean
        square of the pairs' distances under the prior, which is 1 for all but "identity" and given
        arrays.
    threshold_strength : float, default=1.0
        How strongly it is pulled there (ρ): c0 = ρ c K, so that neither the number of pairs nor C
        changes the balance between the pull and the pairs.
    c0 : float or None, default=None
        The strength as an absolute number instead, as in the paper.
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d): similar pairs should have a squared distance below γ_s b0, dissimilar ones above
        γ_d b0.
    prior : str, or list of M arrays of shape (n_m, n_m), default="discriminant"
        The metric to stay close to (W0).

        - "discriminant": S⁻¹ − T⁻¹ with S the (Ledoit-Wolf) shrunk scatter within classes and T
          that of all samples, and a little of S⁻¹: what linear discriminant analysis keeps, each
          axis by how well it parts the classes;
        - "within": S⁻¹ alone, where classes have several modes;
        - "auto": "diagonal" for vectors, "scaled" for matrices: the units alone;
        - "diagonal": each feature (row) divided by its own spread;
        - "scaled": a multiple of the identity;
        - "identity": the identity, as in the paper; then units matter;
        - "covariance": the inverse covariance of the samples;
        - arrays: given matrices (one array when M = 1), taken as they are.

        All words but "identity" are scaled so that the pairs' mean squared distance in each block
        is 1: multiplying X by a number changes nothing.
    pairs : {"random", "neighbors", "all"}, default="random"
        How pairs are drawn: at random per class as in the paper; the nearest samples of the same
        and of other classes, in the metric of the prior; or all. Neighbours teach the metric alone:
        the threshold is then learnt from random pairs. A class with one sample gives dissimilar
        pairs only. More than two million pairs are not listed but summed up in tiles (Newton, all
        components): `pairs_`, `similar_` and `pair_weights_` are then None.
    n_pairs_per_class : int or None, default=None
        For "random": half of them similar, half with one sample in the class and one outside. None:
        500, and more for few classes, 5,000 in all; at most 50,000 in all. There may be fewer where
        samples are few.
    n_neighbors : int, default=3
        For "neighbors": how many of each kind a sample.
    reduction : {"mean", "sum"}, default="mean"
        Whether C weighs the mean or the sum of the pairs' losses. For the mean, similar and
        dissimilar pairs are given the same total weight.
    n_components : int, sequence of M int, or None, default=None
        Rows of `components_` in each block: the principal axes of the embedded samples. None keeps
        all. A threshold that is learnt is then the best one for the reduced distance.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples when X is a list of indices, or pairs are index pairs.
    solver : {"newton", "dykstra"}, Newton or Dykstra, default="newton"
        The algorithm. The words stand for `Newton` and `Dykstra` with their defaults; an object
        has settings, such as ``Newton(max_iter=50)``. Its draws use `random_state` unless it has
        one of its own.
    tol : float, default=1e-6
        Stop when the duality gap is at most ``tol * max(1, |objective|)``.
    warm_start : bool, default=False
        Start from the last solution, which makes a path over C cheap.
    random_state : int, RandomState, Generator or None, default=None
        For the draw of pairs.
    verbose : bool, default=False
        Print one line per iteration.

    Attributes
    ----------
    components_ : array of shape (n_components, n), or list of M such arrays
        What `transform` applies; the factor 1/√M is inside.
    threshold_ : float
        √(b0 √(γ_s γ_d)): below it two samples are the same. In the units of `pair_distance`.
    b0_ : float
        The threshold in the paper's squared units.
    result_ : Result
        The matrices W, the certificate, the history.
    pairs_ : int array of shape (n_pairs, 2), or None
        The pairs that were used, as indices into X.
    similar_ : bool array of shape (n_pairs,), or None
        Which of them are similar.
    pair_weights_ : array of shape (n_pairs,), or None
        How much each of them counted; None: all the same.
    prior_ : array of shape (n, n), or list of M arrays
        W0.
    block_shapes_ : tuple of M pairs
        Shapes of a sample's matrices.
    n_iter_ : int
        Newton steps, or epochs, at least 1.
    n_features_in_ : int
        Numbers in one sample.
    feature_names_in_ : array of str
        Names of the columns, where X has them.

    See Also
    --------
    TATMLPairs : the same from pairs that are known to be similar or dissimilar.
    learn_metric : the function behind it, in the paper's units.

    Notes
    -----
    ``TATML(**PAPER)`` is the paper's setting exactly: c = 1 for the sum of the pairs' losses,
    c0 = μ0 = 1, W0 = I, 10 pairs a class. The paper chooses c from {0.01, 0.1, 1, 10} by
    cross-validation: ``TATML(**PAPER | {"C": 0.1})``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from tatml import TATML
    >>> X, y = load_wine(return_X_y=True)
    >>> knn = make_pipeline(TATML(random_state=0), KNeighborsClassifier(3))
    >>> bool(knn.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    >>> metric = knn[0]
    >>> metric.predict_pairs([[0, 2], [0, 170]], X)
    array([ 1, -1])
    """

    def __init__(
        self,
        C: float = 100.0,
        *,
        threshold: Literal["auto"] | float = "auto",
        threshold_prior: float | None = None,
        threshold_strength: float = 1.0,
        c0: float | None = None,
        margin: tuple[float, float] = (0.5, 2.0),
        prior: Prior = "discriminant",
        pairs: Strategy = "random",
        n_pairs_per_class: int | None = None,
        n_neighbors: int = 3,
        reduction: Literal["mean", "sum"] = "mean",
        n_components: int | Sequence[int] | None = None,
        preprocessor: Any = None,
        solver: SolverLike = "newton",
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.C = C
        self.threshold = threshold
        self.threshold_prior = threshold_prior
        self.threshold_strength = threshold_strength
        self.c0 = c0
        self.margin = margin
        self.prior = prior
        self.pairs = pairs
        self.n_pairs_per_class = n_pairs_per_class
        self.n_neighbors = n_neighbors
        self.reduction = reduction
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.solver = solver
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Blocks | ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Learn the metric and the threshold.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples: vectors, matrices, or tuples of matrices.
        y : array-like of shape (n_samples,)
            Their classes, two or more.
        groups : array-like of shape (n_samples,), optional
            No pair is made of two samples of the same group.
        """
        with unchanged_on_error(self):
            result = self._fit(X, y, groups, self._given_threshold())
        warn_unless_converged(result)
        return self

    def _fit(self, X: Any, y: Any, groups: Any, threshold: float | None) -> Result:
        blocks = samples_of(self, X, reset=True, min_samples=2, y=y)
        return self._fit_blocks(blocks, y, groups, threshold)

    def _fit_blocks(self, blocks: Blocks, y: Any, groups: Any, threshold: float | None) -> Result:
        self.block_shapes_ = blocks.block_shapes
        self._check_words()
        if has_very_many_pairs(self, len(blocks)):
            return learn_from_all_pairs(self, blocks, y, groups, threshold)
        pairs, labels = self._draw(blocks, y, groups, prior=self.prior)
        if self.reduction == "mean":
            pairs = balanced(pairs)
        result = self._learn(blocks, pairs, within_classes(blocks, labels), threshold)
        if self.pairs == "neighbors" and threshold is None and self.c0 != inf:
            self._learn_threshold_of(self._random_pairs(blocks, y, groups), blocks)
        return result

    def _check_words(self) -> None:
        super()._check_words()
        check_choice("pairs", self.pairs, STRATEGIES)

    def _learn_threshold_of(self, pairs: Pairs, blocks: Blocks) -> None:
        """Learn the threshold anew from other pairs, for the metric that is there."""
        margin, strength = check_margin(self.margin), self._relative_strength(pairs)
        distances = row_distances(self._embedded(blocks), pairs.index)
        self.b0_ = best_b0(distances, pairs, margin, self.threshold_prior, strength)
        self.threshold_ = threshold_of(self.b0_, margin)
