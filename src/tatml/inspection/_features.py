"""What a metric needs of each feature: its share in distances, and its permutation importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import laplacian
from sklearn.metrics import roc_auc_score

from .._array import Doubles, Indices
from .._data.blocks import Blocks, check_block_names, make_frame
from .._data.sparse import SparseBlock
from .._estimators.inputs import check_has, pair_labels
from .._learning.metric import Metric
from .._learning.span import SpanFactor
from .._messages import shown
from .._validation import WrongTypeError, as_list, check_choice, check_count, check_random
from ..features._symmetric import is_symmetric

By = Literal["features", "blocks", "groups"]
Mask = NDArray[np.bool_]
NAME_WIDTH = 40  # longer names are cut in printed tables
PER_FEATURE = "one word per feature; for several blocks one list of words per block"


class Groups(NamedTuple):
    """The features that are measured together."""

    by: By
    names: tuple[str, ...]
    rows: list[Indices]  # for each block, the number of the group of each row

    def masks(self, *numbers: int) -> list[Mask]:
        """Return for each block which rows belong to the groups of these numbers."""
        return [np.isin(of_rows, numbers) for of_rows in self.rows]


def group_rows(estimator: Any, by: Any, names: Any) -> Groups:
    """Return groups of a row each, of a block each, or of the rows with the same word in `by`."""
    shapes = estimator.block_shapes_
    sizes = [n for n, _ in shapes]
    if not isinstance(by, str):
        return _given_groups(by, names, sizes)
    check_choice("by", by, ("features", "blocks"))
    blocks = vars(estimator).get("block_names_in_") or [f"block {m}" for m in range(len(sizes))]
    if by == "blocks":
        words = check_block_names(names, len(sizes)) or tuple(blocks)
        return Groups("blocks", words, [np.full(n, m) for m, n in enumerate(sizes)])
    rows = _known_rows(estimator) if names is None else _given_rows("names", names, sizes)
    found = [
        word if len(sizes) == 1 else f"{blocks[m]}: {word}"
        for m, words in enumerate(rows)
        for word in words
    ]
    return Groups("features", tuple(found), np.split(np.arange(len(found)), np.cumsum(sizes)[:-1]))


def _given_groups(by: Any, names: Any, sizes: Sequence[int]) -> Groups:
    """Return the groups of rows with the same word, in the order of their first rows."""
    rows = _given_rows("by", by, sizes, f"'features', 'blocks', or {PER_FEATURE}")
    if names is not None:
        raise ValueError(
            f"names: expected None with groups in by, whose words are the names, got {shown(names)}"
        )
    numbers: dict[str, int] = {}
    found = [np.array([numbers.setdefault(w, len(numbers)) for w in words]) for words in rows]
    return Groups("groups", tuple(numbers), found)


def _known_rows(estimator: Any) -> list[Sequence[str]]:
    """Return the names of rows that fit saw, and x0, x1, … for those without."""
    known = vars(estimator).get("row_names_in_", (None,) * len(estimator.block_shapes_))
    if hasattr(estimator, "feature_names_in_"):
        known = ([str(name) for name in estimator.feature_names_in_],)
    return [
        [f"x{row}" for row in range(n)] if words is None else words
        for words, (n, _) in zip(known, estimator.block_shapes_, strict=True)
    ]


def _given_rows(
    name: str, values: Any, sizes: Sequence[int], what: str = PER_FEATURE
) -> list[Sequence[str]]:
    """Return given words per block; for one block they may be one list."""
    listed = as_list(name, values, what)
    if len(sizes) == 1 and all(isinstance(word, str) for word in listed):
        listed = [listed]
    elif len(listed) != len(sizes) or any(words is None for words in listed):
        raise WrongTypeError(f"{name}: expected {what}, got {shown(values)}")
    return [
        check_block_names(words, n, f"{name}[{m}]", "one word per feature") or ()
        for m, (words, n) in enumerate(zip(listed, sizes, strict=True))
    ]


def format_table(
    title: str, names: Sequence[str], columns: dict[str, NDArray[np.float64]], sort_by: str
) -> str:
    """Return a table as lines of text, by decreasing values of a column."""
    words = [name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…" for name in names]
    width = max(len(word) for word in words)
    lines = [title, " " * width + "".join(f"  {head:>10}" for head in columns)]
    for row in np.argsort(-columns[sort_by], kind="stable"):
        cells = "".join(f"  {values[row]:>10.4f}" for values in columns.values())
        lines.append(f"{words[row]:<{width}}{cells}")
    return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class FeatureShares:
    """The result of `feature_shares`. Print it, use `to_frame`, or plot it.

    Attributes
    ----------
    names : tuple of str
        The names of the features, of the blocks, or of the groups.
    similar, dissimilar : arrays of shape (n_features,)
        The shares in the mean squared distance of similar and of dissimilar pairs. Each sums to 1.
    by : {"features", "blocks", "groups"}, default="features"
        What the rows are.

    See Also
    --------
    tatml.plotting.FeatureShareDisplay : Draws the shares.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.inspection import FeatureShares
    >>> print(FeatureShares(("height", "age"), np.array([0.4, 0.6]), np.array([0.9, 0.1])))
    share of the mean squared distance
               similar  dissimilar  difference
    height      0.4000      0.9000      0.5000
    age         0.6000      0.1000     -0.5000
    """

    names: tuple[str, ...]
    similar: Doubles
    dissimilar: Doubles
    by: By = "features"

    @property
    def difference(self) -> Doubles:
        """The share for dissimilar pairs minus that for similar pairs; it sums to 0."""
        return self.dissimilar - self.similar

    def to_frame(self) -> Any:
        """Return a data frame with one row per feature. It needs pandas."""
        return make_frame(self._columns(), self.names, self.by.removesuffix("s"))

    def _columns(self) -> dict[str, Doubles]:
        return {
            "similar": self.similar,
            "dissimilar": self.dissimilar,
            "difference": self.difference,
        }

    def __str__(self) -> str:
        title = "share of the mean squared distance"
        return format_table(title, self.names, self._columns(), "dissimilar")


def feature_shares(
    estimator: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    X: Any = None,
    *,
    by: str | Sequence[Any] = "features",
    names: Sequence[Any] | None = None,
) -> FeatureShares:
    """Compute the share of each feature in the distances of similar and of dissimilar pairs.

    The squared distance of a pair with difference Δ is Σ_f Δ_f (WΔ)_f. The part of feature f is
    Δ_f (WΔ)_f: its own term W_ff Δ_f², and half of each term that it has in common with another
    feature. The share of the feature is the sum of its parts over the similar (or the dissimilar)
    pairs, divided by the sum of their squared distances. So the shares sum to 1 exactly, they do
    not depend on the units of the features, and those of a block sum to the share of the block.

    A feature whose share is larger for dissimilar than for similar pairs separates them better than
    the distance as a whole does. A share can be negative: then the feature makes distances smaller,
    because it subtracts what other features have in common with it.

    Parameters
    ----------
    estimator : fitted metric without a kernel
        An estimator that learnt from samples or from pairs.
    pairs : array-like
        Pairs, as for `pair_distance`: best held-out ones.
    y : array-like of shape (n_pairs,)
        +1 for similar pairs, −1 for dissimilar pairs.
    X : Blocks or array-like, optional
        The samples that index pairs refer to.
    by : {"features", "blocks"} or sequence of str, default="features"
        Whether to return the share of each feature, which is a row of a block, of each block, or of
        each group of features. For groups, give one word per feature (for several blocks one
        sequence per block); features with the same word are one group, and their shares are added.
        After `TableEncoder`, its `source_columns_` give the share of each column of the table.
    names : sequence of str, optional
        The names of the features (for several blocks one sequence per block), or of the blocks. By
        default those that fit saw: the columns of a data frame, or the names of `Blocks`. Groups
        have their words.

    Returns
    -------
    FeatureShares

    Notes
    -----
    Δ_f (WΔ)_f is the Shapley value of feature f: the change of the squared distance when the
    feature is let differ between the two samples, averaged over all orders in which the features
    are let differ. For matrices as samples, a feature is a row with all its columns.

    After a kernel, the metric has no matrix for the features, and there are no shares; use
    `permutation_importance`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tatml import TATML
    >>> from tatml.inspection import feature_shares
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> metric = TATML(random_state=0).fit(X, y)
    >>> pairs = [(i, j) for i in range(0, 178, 5) for j in range(1, 178, 7)]
    >>> signs = [1 if y[i] == y[j] else -1 for i, j in pairs]
    >>> shares = feature_shares(metric, pairs, signs, X)
    >>> float(shares.dissimilar.sum().round(12)), shares.names[shares.dissimilar.argmax()]
    (1.0, 'flavanoids')
    """
    check_has(estimator, "transform", "pair_distance", "block_shapes_")
    if estimator.kernel_map_ is not None:
        raise ValueError(
            "estimator: expected a metric without a kernel, whose matrix belongs to the features, "
            f"got kernel={estimator.kernel_map_.kernel!r}; use permutation_importance"
        )
    groups = group_rows(estimator, by, names)
    blocks, index = estimator._pairs_of(pairs, X)
    similar = pair_labels(y, len(index))
    totals = []
    for kind in (similar, ~similar):
        of_rows = [
            _row_parts(A, array, index[kind])
            for A, array in zip(estimator._component_list(), blocks.arrays, strict=True)
        ]
        of_kind = np.bincount(np.concatenate(groups.rows), np.concatenate(of_rows))
        if not of_kind.sum() > 0:
            raise ValueError(
                "pairs: expected pairs of both kinds with a positive distance, got one kind whose "
                "distances are all zero"
            )
        totals.append(of_kind / of_kind.sum())
    return FeatureShares(groups.names, totals[0], totals[1], groups.by)


def _row_parts(A: Any, array: Any, index: Indices) -> Doubles:
    """Return Σ Δ_f (WΔ)_f over the pairs and the columns, for each row f of a block.

    It is the diagonal of W S with S = Σ ΔΔᵀ = Xᵀ L X, where L is the Laplacian of the graph of
    the pairs: no array has a row per pair.
    """
    rows = np.asarray(array, dtype=np.float64)
    rows = rows - rows.mean(axis=0)  # S stays the same, with less rounding
    edges = csr_array((np.ones(len(index)), tuple(index.T)), shape=(len(rows), len(rows)))
    L = laplacian(edges + edges.T)
    flat = (L @ rows.reshape(len(rows), -1)).reshape(rows.shape)
    is_span = isinstance(A, SpanFactor)
    weighted = A.weigh(rows) if is_span else np.matmul(A.T, np.matmul(A, rows))
    return np.einsum("irw,irw->r", weighted, flat)


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """The result of `permutation_importance`. Print it, use `to_frame`, or plot it.

    Attributes
    ----------
    names : tuple of str
        The names of the features, of the blocks, or of the groups.
    baseline : float
        The area under the ROC curve (AUC) of the pairs as they are.
    importances : array of shape (n_features, n_repeats)
        The baseline minus the AUC with the feature permuted.
    by : {"features", "blocks", "groups"}, default="features"
        What the rows are.

    See Also
    --------
    tatml.plotting.PermutationImportanceDisplay : Draws the importances.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.inspection import PermutationImportance
    >>> print(PermutationImportance(("age", "height"), 0.9, np.array([[0.0, 0.02], [0.3, 0.3]])))
    loss of the pair AUC, 0.9000, when a feature is permuted (2 repeats)
                  mean         std
    height      0.3000      0.0000
    age         0.0100      0.0100
    """

    names: tuple[str, ...]
    baseline: float
    importances: Doubles
    by: By = "features"

    @property
    def mean(self) -> Doubles:
        """The mean importance over the repeats, shape (n_features,)."""
        return self.importances.mean(axis=1)

    @property
    def std(self) -> Doubles:
        """The standard deviation of the importance over the repeats, shape (n_features,)."""
        return self.importances.std(axis=1)

    def to_frame(self) -> Any:
        """Return a data frame with one row per feature. It needs pandas."""
        return make_frame(self._columns(), self.names, self.by.removesuffix("s"))

    def _columns(self) -> dict[str, Doubles]:
        return {"mean": self.mean, "std": self.std}

    def __str__(self) -> str:
        title = (
            f"loss of the pair AUC, {self.baseline:.4f}, when a {self.by.removesuffix('s')} is "
            f"permuted ({self.importances.shape[1]} repeats)"
        )
        return format_table(title, self.names, self._columns(), "mean")


def permutation_importance(
    estimator: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    X: Any = None,
    *,
    by: str | Sequence[Any] = "features",
    n_repeats: int = 5,
    names: Sequence[Any] | None = None,
    random_state: Any = None,
) -> PermutationImportance:
    """Compute what the pair AUC loses when a feature is permuted among the samples.

    The pair AUC is the probability that a dissimilar pair is farther apart than a similar pair. A
    permuted feature has the same values, but they belong to other samples. The metric is not
    learnt again, so two features that say the same share their importance.

    Parameters
    ----------
    estimator : fitted metric
        An estimator that learnt from samples or from pairs, with a kernel or without.
    pairs : array-like
        Pairs, as for `pair_distance`. On the pairs that it was learnt from, a metric seems to need
        features that do not help with others: use held-out pairs.
    y : array-like of shape (n_pairs,)
        +1 for similar pairs, −1 for dissimilar pairs.
    X : Blocks or array-like, optional
        The samples that index pairs refer to.
    by : {"features", "blocks"} or sequence of str, default="features"
        Whether to permute each feature, which is a row of a block, each block, or each group of
        features. For groups, give one word per feature (for several blocks one sequence per block);
        features with the same word are permuted together. After `TableEncoder`, its
        `source_columns_` give the importance of each column of the table: the result is that of
        permuting this column before it is encoded.
    n_repeats : int, default=5
        Number of permutations per feature, block or group.
    names : sequence of str, optional
        The names of the features (for several blocks one sequence per block), or of the blocks. By
        default those that fit saw: the columns of a data frame, or the names of `Blocks`. Groups
        have their words.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the permutations.

    Returns
    -------
    PermutationImportance

    Notes
    -----
    For matrices, a row is permuted with all its columns. If all matrices of a block are symmetric,
    as covariance matrices are, the row and the column of the same number are permuted together.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tatml import TATML
    >>> from tatml.inspection import permutation_importance
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> metric = TATML(random_state=0).fit(X, y)
    >>> pairs = [(i, j) for i in range(0, 178, 5) for j in range(1, 178, 7)]
    >>> signs = [1 if y[i] == y[j] else -1 for i, j in pairs]
    >>> result = permutation_importance(metric, pairs, signs, X, random_state=0)
    >>> result.names[result.mean.argmax()]
    'flavanoids'
    """
    check_has(estimator, "transform", "pair_distance", "block_shapes_")
    rng = check_random(random_state)
    n_repeats = check_count("n_repeats", n_repeats)
    if estimator.kernel_map_ is not None and estimator.kernel_map_.kernel == "precomputed":
        raise ValueError(
            "estimator: expected a metric of features, got kernel='precomputed', which has none"
        )
    groups = group_rows(estimator, by, names)
    ranking = Ranking.of(estimator, pairs, y, X)
    baseline = ranking.auc(ranking.blocks)
    scores = [
        ranking.permuted_aucs(groups.masks(number), n_repeats, rng)
        for number in range(len(groups.names))
    ]
    return PermutationImportance(groups.names, baseline, baseline - np.stack(scores), groups.by)


class Ranking(NamedTuple):
    """Labelled pairs of samples, which a metric ranks by their distances."""

    metric: Metric
    blocks: Blocks
    pairs: Indices
    similar: Mask

    @classmethod
    def of(cls, estimator: Any, pairs: ArrayLike, y: ArrayLike, X: Any) -> Ranking:
        """Read the samples, the pairs and the labels."""
        blocks, index = estimator._pairs_of(pairs, X)
        return cls(estimator._metric, blocks, index, pair_labels(y, len(index)))

    def squares_of(self, chosen: list[Mask]) -> Doubles:
        """Return the squared distances in the chosen rows alone: others do not differ."""
        arrays = [
            _only_rows(array, rows) for array, rows in zip(self.blocks.arrays, chosen, strict=True)
        ]
        return self.metric.distances(Blocks(*arrays), self.pairs) ** 2

    def auc(self, blocks: Blocks) -> float:
        """Return the AUC of the pairs of other samples."""
        return float(roc_auc_score(self.similar, -self.metric.distances(blocks, self.pairs)))

    def permuted_aucs(self, chosen: list[Mask], n_repeats: int, rng: Any) -> Doubles:
        """Return the AUC with the chosen rows of each block permuted together, for each repeat.

        Of symmetric matrices, these are the rows and the columns of the same numbers.
        """
        scores = np.empty(n_repeats)
        for repeat in range(n_repeats):
            order = rng.permutation(len(self.blocks))
            arrays = [
                _with_rows_from(array, order, rows) if rows.any() else array
                for array, rows in zip(self.blocks.arrays, chosen, strict=True)
            ]
            scores[repeat] = self.auc(Blocks(*arrays))
        return scores


def _with_rows_from(array: Any, order: Indices, rows: Mask) -> Any:
    if isinstance(array, SparseBlock):
        return array.with_columns_from(order, rows)
    changed = array.copy()
    changed[:, rows] = array[:, rows][order]
    if np.all(is_symmetric(array)):
        changed[:, :, rows] = array[:, :, rows][order]
    return changed


def _only_rows(array: Any, rows: Mask) -> Any:
    if isinstance(array, SparseBlock):
        return SparseBlock(array.table.multiply(rows))
    return array * rows[:, None]
