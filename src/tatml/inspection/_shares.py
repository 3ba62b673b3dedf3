"""The share of each feature in the distances of similar and of dissimilar pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from .._array import Doubles, Indices
from .._estimators.given_labels import pair_labels
from .._estimators.inputs import check_has
from .._estimators.span import SpanFactor
from ._parts import By, format_table, make_frame, name_parts


@dataclass(frozen=True, eq=False)
class FeatureShares:
    """The result of `feature_shares`. Print it, use `to_frame`, or plot it.

    Attributes
    ----------
    names : tuple of str
        The names of the features, or of the blocks.
    similar, dissimilar : arrays of shape (n_features,)
        The shares in the mean squared distance of similar and of dissimilar pairs. Each sums to 1.
    by : {"features", "blocks"}, default="features"
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
        order = np.argsort(-self.dissimilar, kind="stable")
        title = "share of the mean squared distance"
        return format_table(title, self.names, self._columns(), order)


def feature_shares(
    estimator: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    X: Any = None,
    *,
    by: By = "features",
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
    by : {"features", "blocks"}, default="features"
        Whether to return the share of each feature, which is a row of a block, or of each block.
    names : sequence of str, optional
        The names of the features (for several blocks one sequence per block), or of the blocks. By
        default those that fit saw: the columns of a data frame, or the names of `Blocks`.

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
    parts = name_parts(estimator, by, names)
    blocks, index = estimator._pairs_of(pairs, X)
    similar = pair_labels(y, len(index))
    totals = []
    for kind in (similar, ~similar):
        per_block = [
            _row_parts(A, array, index[kind])
            for A, array in zip(estimator._component_list(), blocks.arrays, strict=True)
        ]
        if by == "blocks":
            per_block = [rows.sum(keepdims=True) for rows in per_block]
        totals.append(_as_shares(np.concatenate(per_block)))
    return FeatureShares(tuple(part.name for part in parts), totals[0], totals[1], by)


def _as_shares(parts: Doubles) -> Doubles:
    total = parts.sum()
    if not total > 0:
        raise ValueError(
            "pairs: expected pairs of both kinds with a positive distance, got one kind whose "
            "distances are all zero"
        )
    return parts / total


def _row_parts(A: Any, array: Any, index: Indices) -> Doubles:
    """Return Σ Δ_f (WΔ)_f over the pairs and the columns, for each row f of a block.

    It is the diagonal of W S with S = Σ ΔΔᵀ = Xᵀ L X, where L is the Laplacian of the graph of
    the pairs: no array has a row per pair.
    """
    rows = np.asarray(array, dtype=np.float64)
    rows = rows - rows.mean(axis=0)  # S stays the same, with less rounding
    flat = (_laplacian(index, len(rows)) @ rows.reshape(len(rows), -1)).reshape(rows.shape)
    is_span = isinstance(A, SpanFactor)
    weighted = A.weigh(rows) if is_span else np.matmul(A.T, np.matmul(A, rows))
    return np.einsum("irw,irw->r", weighted, flat)


def _laplacian(index: Indices, n_samples: int) -> csr_array:
    """Return the Laplacian of the graph with an edge per pair."""
    first, second = index.T
    ones = np.ones(2 * len(index))
    places = np.r_[first, second], np.r_[second, first]
    degrees = np.bincount(index.ravel(), minlength=n_samples)
    diagonal = csr_array((degrees, (np.arange(n_samples),) * 2), shape=(n_samples,) * 2)
    return diagonal - csr_array((ones, places), shape=(n_samples,) * 2)
