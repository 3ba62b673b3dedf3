"""TATML: learns a metric and its threshold from labelled samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from .._data.blocks import Blocks
from .._data.sampling import Strategy
from .._learning.learn import learn_from_labels
from .._learning.samples import KernelLike
from .._learning.task import LossName, Outliers, Prior
from .._optim.custom_loss import CustomLoss
from .._optim.result import warn_unless_converged
from .._optim.solvers import SolverLike
from .metric import LabelEstimator
from .parameters import checked

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
        "threshold": "joint",
        "clip_outliers": False,
    }
)


@dataclass(eq=False, repr=False)
class TATML(LabelEstimator):
    """Threshold Auto-Tuning Metric Learning from labelled samples.

    Draws similar pairs (two samples of one class) and dissimilar pairs (samples of two classes),
    and learns one positive definite matrix per block together with the threshold that separates the
    two kinds. The problem is convex and solved to a certificate, `result_.gap`. `transform` then
    embeds samples so that their Euclidean distance is the learnt distance, for k-NN, clustering or
    search. `predict_pairs` predicts whether two samples are of the same class. With
    ``midpoint=True`` it learns a score of pairs in place of the distance, which predicts better.

    Parameters
    ----------
    C : float or None, default=None
        Weight of the pairs relative to the prior. It multiplies the *mean* loss, c = C/K for K
        pairs, so the number of pairs does not change the weight of the prior. With
        ``reduction="sum"`` it is the paper's c. None: 100; with a midpoint and new classes, 10.
    threshold : "auto", "joint" or float, default="auto"
        "joint" learns the threshold (b0) with the metric, as in the paper. "auto" multiplies it by
        the factor that suits held-out pairs best: the metric is learnt again on parts of the
        samples, and the factor is judged on pairs of the others. A number fixes the threshold, in
        the units of `pair_distance`, as in `Maz`. With a midpoint, thresholds are in units of minus
        `pair_score`, and "auto" is the score at which held-out pairs of both kinds are equally
        likely.
    threshold_prior : float or None, default=None
        The value that the threshold is pulled to (μ0), in the units of `pair_distance`. None: the
        root mean squared distance of the pairs under the prior, which is 1 for every named prior
        except "identity"; with a midpoint, the threshold of the prior.
    threshold_strength : float, default=1.0
        The strength ρ of this pull, relative to the weight of the pairs: c0 = ρ c K. Then neither C
        nor the number of pairs changes the balance between the pull and the pairs.
    c0 : float or None, default=None
        The strength of the pull as an absolute number, as in the paper. None: set by
        `threshold_strength`.
    margin : (float, float), default=(0.5, 2.0)
        (γ_s, γ_d). The loss of a similar pair is zero if its squared distance is below γ_s b0, that
        of a dissimilar pair if it is above γ_d b0. Only the squared hinge of distances has margins
        that can be chosen.
    loss : {"auto", "squared_hinge", "logistic"} or CustomLoss, default="auto"
        The loss of a pair. "squared_hinge": half the square of what a pair lacks to its margin.
        "logistic": the log loss of the probability 1/(1 + exp(D − b0)) that a pair at the squared
        distance D is similar. "auto": "squared_hinge" for distances, "logistic" with a midpoint.
        An object of a class derived from `tatml.losses.CustomLoss`: your own function of ±(D − b0).
    midpoint : bool, default=False
        Whether to learn a score that depends on where a pair lies, and not only on how far apart
        its samples are: a second matrix per block weighs the sum of both samples beside their
        difference. A distance calls any two samples that are close the same; the score knows where
        classes overlap. Take it to predict which pairs are the same, and a distance to find
        neighbours. See Notes for what there is then.
    new_classes : bool, default=False
        Whether the pairs to judge will be of classes that `fit` has not seen, such as persons. Then
        choices are judged on held-out classes (with fewer than four classes, and by default, on
        held-out samples of all classes), and the threshold is, the more the more classes there are;
        that of distances is also a bit smaller. With a midpoint, the prior is also another one, and
        probabilities are closer to 0.5 the fewer the classes are.
    prior : str, or list of M arrays of shape (n_m, n_m), default="discriminant"
        The metric that the learnt one stays close to (W0).

        - "discriminant": S⁻¹ − T⁻¹ + 0.05 S⁻¹, where S is the scatter within classes with
          Ledoit-Wolf shrinkage and T the scatter of all samples. It weights the axes of a linear
          discriminant analysis by how well they separate the classes. The units in which S is
          shrunk are chosen by held-out pairs; see `prior_units_`.
        - "within": S⁻¹, for classes with several modes.
        - "auto": "diagonal" for vectors and "scaled" for matrices.
        - "diagonal": divides each feature (row) by its own spread.
        - "scaled": a multiple of the identity.
        - "identity": the identity, as in the paper. Results depend on the units of X.
        - "covariance": the inverse covariance of the samples.
        - arrays: the matrices themselves (one array if M = 1); with a midpoint 2M, those of the
          differences first.

        With a midpoint, "discriminant" is probabilistic linear discriminant analysis (the
        two-covariance model), and no other word is possible. Without, every named prior except
        "identity" is scaled to the data: the mean squared distance of the pairs is 1 in each block.
        Then multiplying X by a number changes neither the learnt distances nor the threshold.
    pairs : {"random", "neighbors", "all"}, default="random"
        How pairs are drawn.

        - "random": at random for each class, as in the paper.
        - "neighbors": each sample with its nearest samples of the same class and of other classes,
          in the metric of the prior. These pairs are used only for the metric; the threshold is
          learnt from random pairs.
        - "all": all pairs. More than 2,000,000 pairs are summed in tiles without a list of them
          (only with the solver Newton and without `n_components`); then `pairs_`, `similar_` and
          `pair_weights_` are None.

        A class with one sample is used for dissimilar pairs only.
    n_pairs_per_class : int or None, default=None
        Number of pairs per class for "random". Half of them are similar; the other half have one
        sample in the class and one outside. Default: 500 per class, raised to 5,000 in total if
        needed, capped at 50,000 (but at least 10 per class). Classes with few samples give fewer.
    n_neighbors : int, default=3
        Number of neighbours of each kind per sample, for "neighbors".
    reduction : {"mean", "sum"}, default="mean"
        Whether C multiplies the mean or the sum of the losses of the pairs. "mean" gives similar
        and dissimilar pairs the same total weight: the learnt threshold balances false matches and
        false non-matches.
    kernel : str, KernelMap or None, default=None
        A kernel, in whose feature space the metric is learnt; None: in the space of the samples.
        "rbf", "laplacian", "polynomial", "linear" and "chi2" stand for a
        `tatml.features.KernelMap` with its default settings, and are learnt beside the features
        themselves, as one more block per block. "precomputed": X contains kernel values, of shape
        (n_samples, n_samples) in fit and (n_samples, n_training_samples) later.
    clip_outliers : bool, "auto" or "replace", default="auto"
        What to do with outliers in the samples. True: a column with entries below q05 − 3w or above
        q95 + 3w, where w = q95 − q05 is the distance of its 5 % and 95 % quantiles, is clipped at
        q05 − w/2 and q95 + w/2, in `fit` only. "replace": the median of the column replaces each
        cell below q10 − 3v or above q90 + 3v, where v = q90 − q10; in later samples, too, by the
        bounds of `fit`. False: nothing. "auto": True, unless the prior orders held-out pairs better
        with "replace" or with False, by at least 0.005 of AUC. Unless cells are replaced,
        `transform` and `pair_distance` take all samples as they are.
    n_components : int, sequence of M int, or None, default=None
        Number of rows of `components_` in each block: the leading principal axes of the embedded
        samples. None keeps all. A learnt threshold is then fitted to the reduced distances. With a
        midpoint it must be None.
    preprocessor : array, Blocks, callable or None, default=None
        Where to find the samples if X contains indices, or pairs are index pairs.
    solver : {"newton", "dykstra"}, Newton or Dykstra, default="newton"
        The algorithm. "newton" and "dykstra" stand for `Newton` and `Dykstra` with their default
        settings; pass an object for other settings, such as ``Newton(max_iter=50)``.
    tol : float, default=1e-6
        Stop when the duality gap is at most ``tol * max(1, |objective|)``.
    warm_start : bool, default=False
        Whether to start from the solution of the last fit. This makes a path over C cheap.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw of pairs, and the random draws of the solver unless it has a `random_state`
        of its own.
    verbose : bool, default=False
        Whether to print one line per iteration.

    Attributes
    ----------
    components_ : array of shape (n_components, n), or list of M such arrays
        The linear maps that `transform` applies, including the factor 1/√M. A block of more than
        1,000 rows with fewer samples has none, and neither `prior_`: `factors_` has the maps in
        factored form. Not with a midpoint.
    threshold_ : float
        `threshold_factor_` times √(b0 √(γ_s γ_d)): pairs with a smaller distance are predicted to
        be the same. In the units of `pair_distance`. With a midpoint a number of any sign: pairs
        are predicted to be the same if `pair_score` is above ``-threshold_``.
    threshold_factor_ : float
        The factor that suits held-out pairs best; 1 unless ``threshold="auto"``, or if the classes
        are too small to hold out pairs of both kinds. Not with a midpoint.
    threshold_shift_ : float
        With a midpoint, what held-out pairs add to `b0_`: `threshold_` is the sum of both.
    b0_ : float
        The threshold that was learnt with the metric, in the paper's squared units; with a midpoint
        in those of `threshold_`.
    factors_, sum_factors_ : lists of M arrays of shape (n, n)
        With a midpoint, the linear maps A and R of the differences and of the sums, including the
        factor 1/√M; those of a block with more rows than samples are in factored form.
    midpoint_ : list of M arrays of shape (n, n')
        With a midpoint, the centre μ, which is subtracted from samples: the mean of the class
        means, and what learning adds to it, unless a number is given for `threshold`,
        `threshold_prior` or `c0`.
    likelihood_ratio_ : array([a, b])
        A pair at distance d, or with the score −d, has the log-likelihood ratio a − b d. After
        `calibrate_probability`; with a midpoint and ``threshold="auto"`` already after `fit`, from
        held-out pairs, unless they are too few.
    likelihood_table_ : array of shape (2, n_knots)
        In place of `likelihood_ratio_` after `calibrate_probability` with another method than
        "logistic": increasing distances, and the log-likelihood ratios there.
    same_rate_ : float
        The assumed share of pairs that are the same, for `pair_probability`: 0.5 after `fit`.
    result_ : Result
        The matrices W, the certificate and the history of the solver.
    pairs_ : int array of shape (n_pairs, 2), or None
        The training pairs, as row numbers of X.
    similar_ : bool array of shape (n_pairs,), or None
        Which of these pairs are similar.
    pair_weights_ : array of shape (n_pairs,), or None
        Weights of these pairs; None if all are equal.
    prior_ : array of shape (n, n), or list of M arrays
        The prior W0; with a midpoint a list of 2M arrays, W0 of all blocks and then V0.
    prior_units_ : {"columns", "common", "affine", "components"}
        The units in which the scatter within classes was shrunk, for the priors "discriminant" and
        "within": the spread of each column within classes, one unit for all columns, or not shrunk
        at all; or, with more columns than samples, that of the principal components with 95 % of
        the variance of standardised columns, outside which the prior is nearly 0. The choice orders
        held-out pairs best.
    kernel_map_ : KernelMap or None
        The fitted map to the space of the kernel. Then `components_`, `prior_` and `result_` belong
        to the blocks that it returns.
    cell_bounds_ : list of M arrays of shape (3, n, n')
        Lower bounds, medians and upper bounds of the cells of a sample, if `clip_outliers` is
        "replace", or "auto" has chosen it, and a sample of `fit` has cells outside.
    block_shapes_ : tuple of M pairs
        The shape of a sample in each block.
    n_iter_ : int
        Number of Newton steps, or of Dykstra's epochs; at least 1.
    n_features_in_ : int
        Number of entries of a sample, over all blocks.
    block_names_in_, row_names_in_ : tuples
        The names of the blocks and of their rows, if `fit` saw Blocks with names.
    feature_names_in_ : array of str
        Names of the columns. Only if X has string column names.

    See Also
    --------
    TATMLPairs : Learns from pairs that are known to be similar or dissimilar.
    learn_metric : The underlying function, in the paper's notation.

    Notes
    -----
    With ``midpoint=True`` the score of samples x and x', both minus μ, is

        pair_score = ‖R (x + x')‖² − ‖A (x − x')‖²,

    summed over the blocks: minus q of docs/theory.md, (Mid). It is no distance: a sample and itself
    need not be the same. So `transform`, `pair_distance`, `get_metric`, `get_mahalanobis_matrix`
    and `components_` do not exist; all that judges pairs does, such as `predict_pairs`,
    `calibrate_threshold` and `pair_probability`. `search_vectors` is for search. The solver must be
    Newton, and `pairs` not "neighbors".

    Samples with equal features, label and group are one sample with their total weight. So a sample
    of weight 2 is the same as two copies of it: the prior, the metric and the threshold are equal
    if all pairs are used, and in expectation if pairs are drawn. No pair is drawn of two copies,
    and samples of weight 0 are left out. Samples on a GPU are compared only if there are weights,
    and rows of a kernel matrix never.

    ``TATML(**PAPER)`` is the paper's setting: c = 1 for the sum of the losses of the pairs,
    c0 = μ0 = 1, W0 = I, and 10 pairs per class. The paper chooses c from {0.01, 0.1, 1, 10} by
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

    Pairs of samples that were not in `fit`, judged by a score, and their probabilities:

    >>> judge = TATML(midpoint=True, random_state=0).fit(X[::2], y[::2])
    >>> new = [[1, 3], [1, 171]]
    >>> judge.predict_pairs(new, X)
    array([ 1, -1])
    >>> judge.pair_probability(new, X) > 0.5
    array([ True, False])
    >>> hasattr(judge, "transform")
    False
    """

    _most_listed_pairs = 2_000_000  # more pairs are summed in tiles, without a list of them

    C: float | None = None
    _: KW_ONLY
    threshold: Literal["auto", "joint"] | float = "auto"
    threshold_prior: float | None = None
    threshold_strength: float = 1.0
    c0: float | None = None
    margin: tuple[float, float] = (0.5, 2.0)
    loss: LossName | CustomLoss = "auto"
    midpoint: bool = False
    new_classes: bool = False
    prior: Prior = "discriminant"
    pairs: Strategy = "random"
    n_pairs_per_class: int | None = None
    n_neighbors: int = 3
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
        X: Blocks | ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric and the threshold.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            The samples: vectors, matrices, or tuples of matrices. A table with more columns than
            rows may be sparse.
        y : array-like of shape (n_samples,)
            Their class labels; at least two classes.
        groups : array-like of shape (n_samples,), optional
            Group labels. No pair is drawn from within a group.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; a pair has the product of both. Only their ratios matter, unless
            ``reduction="sum"``, and a weight of 2 is the same as a second copy of the sample.

        Returns
        -------
        self
        """
        with self._fitting():
            settings = self._settings(checked(self), X, most_listed_pairs=self._most_listed_pairs)
            self._publish(
                learn_from_labels(self._read_labelled(X, y, groups, sample_weight), settings)
            )
        warn_unless_converged(self.result_)
        return self
