"""Shares and permutation importance side by side, and why they disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score

from .._array import Doubles
from .._data.blocks import make_frame
from .._messages import listed
from .._validation import check_random
from ._features import (
    FeatureShares,
    Groups,
    PermutationImportance,
    Ranking,
    feature_shares,
    format_table,
    group_rows,
    permutation_importance,
)

LEAST = 0.05  # smallest share of the distances, or of the AUC above 1/2, that is explained
FACTOR = 1.5  # shares that differ by more than this factor disagree
LITTLE = 0.25  # share of the AUC above 1/2 that counts as little, for a feature alone
CHANCE = 0.02  # an AUC at most this much above 1/2 counts as chance
MORE = 1.5  # redundant features lose more than this factor if they are permuted together
SAME = 0.5  # least correlation of the squared distances in features that say the same
MOST_NAMES = 3  # in a sentence


@dataclass(frozen=True, eq=False)
class ImportanceComparison:
    """The result of `compare_importance`. Print it, or use `to_frame`.

    Attributes
    ----------
    shares : FeatureShares
        The shares in the mean squared distance.
    importance : PermutationImportance
        What the pair AUC loses by permutation.
    alone : array of shape (n_features,)
        The AUC of the pairs by the distance in each feature alone.
    reasons : tuple of str
        Why the share and the importance of a feature disagree; empty where they agree.

    See Also
    --------
    tatml.plotting.FeatureShareDisplay : Draws `shares`.
    tatml.plotting.PermutationImportanceDisplay : Draws `importance`.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.inspection import FeatureShares, ImportanceComparison, PermutationImportance
    >>> names = ("age", "noise")
    >>> shares = FeatureShares(names, np.array([0.5, 0.5]), np.array([0.8, 0.2]))
    >>> importance = PermutationImportance(names, 0.9, np.array([[0.4], [0.0]]))
    >>> reasons = ("", "tells little: alone it has an AUC of 0.500")
    >>> print(ImportanceComparison(shares, importance, np.array([0.9, 0.5]), reasons))
    share of the mean squared distance; AUC alone, and loss of the pair AUC, 0.9000, if permuted
              similar  dissimilar       alone        loss
    age        0.5000      0.8000      0.9000      0.4000
    noise      0.5000      0.2000      0.5000      0.0000
    noise: tells little: alone it has an AUC of 0.500
    """

    shares: FeatureShares
    importance: PermutationImportance
    alone: Doubles
    reasons: tuple[str, ...]

    def to_frame(self) -> Any:
        """Return a data frame with one row per feature. It needs pandas."""
        what = self.shares.by.removesuffix("s")
        return make_frame(self._columns() | {"reason": self.reasons}, self.shares.names, what)

    def _columns(self) -> dict[str, Doubles]:
        return {
            "similar": self.shares.similar,
            "dissimilar": self.shares.dissimilar,
            "alone": self.alone,
            "loss": self.importance.mean,
        }

    def __str__(self) -> str:
        title = (
            "share of the mean squared distance; AUC alone, and loss of the pair AUC, "
            f"{self.importance.baseline:.4f}, if permuted"
        )
        table = format_table(title, self.shares.names, self._columns(), "dissimilar")
        order = np.argsort(-self.shares.dissimilar, kind="stable")
        return "\n".join(
            [
                table,
                *(f"{self.shares.names[k]}: {self.reasons[k]}" for k in order if self.reasons[k]),
            ]
        )


def compare_importance(
    estimator: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    X: Any = None,
    *,
    by: str | Sequence[Any] = "features",
    n_repeats: int = 5,
    names: Sequence[Any] | None = None,
    random_state: Any = None,
) -> ImportanceComparison:
    """Compute the shares and the importance of each feature, and say why they disagree.

    `feature_shares` says where distances come from, and `permutation_importance` what their
    ranking needs. Divided by the excess of the AUC over 1/2, the importance is comparable to a
    share. The two disagree if the larger one exceeds 0.05 and one and a half times the other one.

    Reasons for a share that is larger than an importance of at most a quarter:

    - tells little: as noise does. The AUC of the distance in this feature alone exceeds 1/2 by at
      most a quarter of what the AUC of all features does.
    - redundant: other features say the same. Their distances and those in this feature are
      correlated among similar and among dissimilar pairs, and all of them permuted together lose
      more than one and a half times what they lose one by one.
    - replaceable: alone it ranks the pairs well, but so do the others if it is permuted.

    Reasons for an importance that is larger than the share, or for a negative share:

    - cancels with another one: at least half of its own part of the distances is subtracted for
      what it has in common with others, because the metric compares differences of both. This
      removes noise that is in both; of features that are almost the same, it may be all that is
      left, and permuting one of them tears them apart.
    - tells much for its share: alone it ranks the pairs well.
    - combined: alone it tells little, so it needs others.

    Parameters
    ----------
    estimator : fitted metric without a kernel
        An estimator that learnt from samples or from pairs.
    pairs : array-like
        Pairs, as for `pair_distance`: held-out ones, as for `permutation_importance`.
    y : array-like of shape (n_pairs,)
        +1 for similar pairs, −1 for dissimilar pairs.
    X : Blocks or array-like, optional
        The samples that index pairs refer to.
    by : {"features", "blocks"} or sequence of str, default="features"
        Whether to compare each feature, each block, or each group of features, as for
        `feature_shares`.
    n_repeats : int, default=5
        Number of permutations per feature, block or group.
    names : sequence of str, optional
        The names of the features or of the blocks, as for `feature_shares`.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the permutations.

    Returns
    -------
    ImportanceComparison

    Notes
    -----
    It needs memory for a number per feature and pair.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import Euclidean
    >>> from tatml.inspection import compare_importance
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(100) % 2
    >>> size, noise = 2 * y + rng.normal(size=100), rng.normal(size=100)
    >>> X = np.stack([size, size, size, noise], axis=1)  # the first three say the same
    >>> pairs = [(i, j) for i in range(100) for j in range(i)]
    >>> signs = [1 if y[i] == y[j] else -1 for i, j in pairs]
    >>> found = compare_importance(Euclidean().fit(X), pairs, signs, X, random_state=0)
    >>> for name, reason in zip(found.shares.names, found.reasons):
    ...     print(name, reason.partition(":")[0])
    x0 redundant
    x1 redundant
    x2 redundant
    x3 tells little
    """
    rng = check_random(random_state)
    shares = feature_shares(estimator, pairs, y, X, by=by, names=names)
    importance = permutation_importance(
        estimator, pairs, y, X, by=by, n_repeats=n_repeats, names=names, random_state=rng
    )
    ranking = Ranking.of(estimator, pairs, y, X)
    groups = group_rows(estimator, by, names)
    squares = np.stack([ranking.squares_of(groups.masks(k)) for k in range(len(groups.names))])
    alone = np.array([roc_auc_score(ranking.similar, -row) for row in squares])
    found = _Figures(ranking, groups, shares, importance, alone, squares, rng)
    reasons = tuple(found.reason(number) for number in range(len(groups.names)))
    return ImportanceComparison(shares, importance, alone, reasons)


class _Figures(NamedTuple):
    """What the reasons are made of."""

    ranking: Ranking
    groups: Groups
    shares: FeatureShares
    importance: PermutationImportance
    alone: Doubles
    squares: Doubles  # squared distances in each group alone, of shape (n_groups, n_pairs)
    rng: Any

    @property
    def gain(self) -> float:
        """How much the AUC exceeds 1/2."""
        return max(self.importance.baseline - 0.5, CHANCE)

    def reason(self, number: int) -> str:
        """Return why the share and the importance of a group disagree, or nothing."""
        near, far = self.shares.similar[number], self.shares.dissimilar[number]
        loss = self.importance.mean[number] / self.gain
        others = [other for other in range(len(self.groups.names)) if other != number]
        if loss <= LITTLE and max(near, far) > max(LEAST, FACTOR * loss):
            return self._of_large_share(number, others)
        if loss > max(LEAST, FACTOR * far) or far < -LEAST:
            return self._of_small_share(number, others)
        return ""

    def _tells(self, number: int) -> bool:
        """Return whether the distance in a group alone ranks the pairs better than chance."""
        return self.alone[number] - 0.5 > max(CHANCE, LITTLE * self.gain)

    def _of_large_share(self, number: int, others: list[int]) -> str:
        auc = f"alone it has an AUC of {self.alone[number]:.3f}"
        if not self._tells(number):
            return f"tells little: {auc}"
        baseline, losses = self.importance.baseline, self.importance.mean
        alike = [other for other in others if self._correlation(number, other) > SAME]
        n_repeats = self.importance.importances.shape[1]
        aucs = self.ranking.permuted_aucs(self.groups.masks(number, *alike), n_repeats, self.rng)
        loss = baseline - aucs.mean()
        in_total = np.maximum(losses[[number, *alike]], 0).sum()
        if alike and loss > max(LEAST * self.gain, MORE * in_total):
            names = listed([self.groups.names[other] for other in alike], MOST_NAMES)
            return (
                f"redundant: {auc}; {loss:.3f} is lost if it is permuted together with {names}, "
                f"and {in_total:.3f} in total if one by one"
            )
        return f"replaceable: {auc}; with it permuted, {baseline - losses[number]:.3f} is left"

    def _of_small_share(self, number: int, others: list[int]) -> str:
        far = ~self.ranking.similar
        whole = self.ranking.squares_of(self.groups.masks(number, *others))[far].mean()
        own = self.squares[number, far].mean() / whole
        if self.shares.dissimilar[number] < own / 2:
            common = [self._common(number, other)[far].mean() / whole for other in others]
            name = self.groups.names[others[np.argmin(common)]]
            return (
                f"cancels with {name}: its own differences would have a share of {own:.3f}, what "
                f"it has in common with {name} takes {-min(common):.3f} away"
            )
        auc = f"alone it has an AUC of {self.alone[number]:.3f}"
        if self._tells(number):
            return f"tells much for its share: {auc}"
        return f"combined: {auc}, so it needs others"

    def _correlation(self, number: int, other: int) -> float:
        """Return the correlation of the squared distances in two groups; NaN without variation.

        It is that around the means of similar and of dissimilar pairs: not what both say of these.
        """
        rows = self.squares[[number, other]]
        for kind in (self.ranking.similar, ~self.ranking.similar):
            rows[:, kind] -= rows[:, kind].mean(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.asarray(np.corrcoef(rows))[0, 1])

    def _common(self, number: int, other: int) -> Doubles:
        """Return half of the terms of the squared distances that two groups have in common."""
        both = self.ranking.squares_of(self.groups.masks(number, other))
        return (both - self.squares[number] - self.squares[other]) / 2
