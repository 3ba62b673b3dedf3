"""Permutation importance: what the ranking of pairs loses without a feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score

from .._array import Doubles, Indices
from .._data.blocks import Blocks
from .._data.sparse import SparseBlock
from .._estimators.given_labels import pair_labels
from .._estimators.inputs import check_has
from .._validation import check_count, check_random
from ..features._symmetric import is_symmetric
from ._parts import By, Part, format_table, make_frame, name_parts


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """The result of `permutation_importance`. Print it, use `to_frame`, or plot it.

    Attributes
    ----------
    names : tuple of str
        The names of the features, or of the blocks.
    baseline : float
        The area under the ROC curve (AUC) of the pairs as they are.
    importances : array of shape (n_features, n_repeats)
        The baseline minus the AUC with the feature permuted.
    by : {"features", "blocks"}, default="features"
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
        columns = {"mean": self.mean, "std": self.std}
        return make_frame(columns, self.names, self.by.removesuffix("s"))

    def __str__(self) -> str:
        title = (
            f"loss of the pair AUC, {self.baseline:.4f}, when a {self.by.removesuffix('s')} is "
            f"permuted ({self.importances.shape[1]} repeats)"
        )
        order = np.argsort(-self.mean, kind="stable")
        return format_table(title, self.names, {"mean": self.mean, "std": self.std}, order)


def permutation_importance(
    estimator: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    X: Any = None,
    *,
    by: By = "features",
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
    by : {"features", "blocks"}, default="features"
        Whether to permute each feature, which is a row of a block, or each block.
    n_repeats : int, default=5
        Number of permutations per feature.
    names : sequence of str, optional
        The names of the features (for several blocks one sequence per block), or of the blocks. By
        default those that fit saw: the columns of a data frame, or the names of `Blocks`.
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
    parts = name_parts(estimator, by, names)
    blocks, index = estimator._pairs_of(pairs, X)
    if any(isinstance(array, SparseBlock) for array in blocks.arrays):
        raise TypeError("X: expected a dense table, whose columns can be permuted, got sparse one")
    similar = pair_labels(y, len(index))
    baseline = _auc(estimator, blocks, index, similar)
    symmetric = [np.all(is_symmetric(array)) for array in blocks.arrays]
    scores = np.empty((len(parts), n_repeats))
    for number, part in enumerate(parts):
        for repeat in range(n_repeats):
            order = rng.permutation(len(blocks))
            permuted = _permuted(blocks, part, order, bool(symmetric[part.block]))
            scores[number, repeat] = _auc(estimator, permuted, index, similar)
    return PermutationImportance(
        tuple(part.name for part in parts), baseline, baseline - scores, by
    )


def _auc(estimator: Any, blocks: Blocks, index: Indices, similar: Any) -> float:
    distances = estimator._distances(estimator._mapped(blocks), index)
    return float(roc_auc_score(similar, -distances))


def _permuted(blocks: Blocks, part: Part, order: Indices, symmetric: bool) -> Blocks:
    """Return the samples with one part of each taken from another sample.

    Of symmetric matrices, a part is a row and the column of the same number.
    """
    arrays = list(blocks.arrays)
    array = arrays[part.block]
    if part.row is None:
        arrays[part.block] = array[order]
        return Blocks(*arrays)
    changed = array.copy()
    changed[:, part.row] = array[order, part.row]
    if symmetric:
        changed[:, :, part.row] = array[order, :, part.row]
    arrays[part.block] = changed
    return Blocks(*arrays)
