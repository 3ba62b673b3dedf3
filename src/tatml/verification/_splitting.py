"""Splits of pairs such that no sample, and no identity, is on both sides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupKFold, GroupShuffleSplit
from sklearn.utils import _safe_indexing

from .._estimators.inputs import check_one_per_pair, count_rows, read_split_units
from .._messages import shown
from .._validation import as_random_state, check_count, check_flag, check_random
from .._verification.dependence import link_units

Rows = NDArray[np.intp]

# Clusters of linked pairs stay whole if the largest has at most this share of all pairs.
LARGEST_CLUSTER = 0.1


class _PairSplitter(ABC, BaseEstimator):
    """Base of the splitters: pairs go where both of their units go, and nowhere if these differ."""

    n_splits: int
    verbose: bool

    def split(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[Rows, Rows]]:
        """Yield the row numbers of the training pairs and of the test pairs of each split.

        Parameters
        ----------
        X : array-like of shape (n_pairs, 2) or (n_pairs, 2, …)
            The pairs: index pairs (or other indicators, such as file names), or pairs of samples,
            which need `groups`.
        y : array-like of shape (n_pairs,), optional
            Labels of the pairs. If they are given and both kinds occur, both must occur on both
            sides of each split.
        groups : array-like of shape (n_pairs, 2) or (n_samples,), optional
            The unit that is kept together, for example the identity: one label per member of each
            pair, or one per sample for integer index pairs. scikit-learn's functions accept the
            first form only: write ``groups=identity[pairs]``.

        Yields
        ------
        train, test : int arrays
            Row numbers. Pairs with one member on each side are in neither.
        """
        units = read_split_units(X, groups)
        clusters = link_units(units)
        if np.bincount(clusters[:, 0]).max() <= LARGEST_CLUSTER * len(units):
            units = clusters  # no pair has its members on different sides, so none is dropped
        labels = None if y is None else np.asarray(check_one_per_pair("y", y, len(units)))
        members = np.repeat(np.arange(len(units)), 2)
        for number, (_, test) in enumerate(self._split_members(members, units.ravel())):
            n_test = np.bincount(members[test], minlength=len(units))
            sides = np.flatnonzero(n_test == 0), np.flatnonzero(n_test == 2)
            self._check_sides(sides, labels, len(units), number)
            yield sides

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None
    ) -> int:  # the signature of scikit-learn
        """Return the number of splits."""
        return check_count("n_splits", self.n_splits)

    @abstractmethod
    def _split_members(self, members: Rows, units: Rows) -> Iterator[tuple[Rows, Rows]]:
        """Yield the members of the training and of the test side of each split."""

    def _check_sides(
        self, sides: tuple[Rows, Rows], labels: NDArray | None, n_pairs: int, number: int
    ) -> None:
        """Raise an error if a side lacks pairs or a kind of them; with `verbose`, print sizes."""
        train, test = sides
        dropped = n_pairs - len(train) - len(test)
        if check_flag("verbose", self.verbose):
            print(
                f"split {number + 1}: {len(train)} training pairs, {len(test)} test pairs, "
                f"{dropped} dropped with one member on each side"
            )
        for side, rows in zip(("training", "test"), sides, strict=True):
            missing = []
            if labels is not None:
                missing = sorted({*labels.tolist()} - {*labels[rows].tolist()})
            if len(rows) == 0 or missing:
                what = f"no pair with label {shown(missing[0])}" if len(rows) else "no pair"
                raise ValueError(
                    f"{type(self).__name__}: expected pairs of every kind on both sides, got "
                    f"{what} on the {side} side of split {number + 1}; {dropped} of {n_pairs} "
                    "pairs have one member on each side: use fewer splits or more pairs per group"
                )


@dataclass(eq=False, repr=False)
class PairKFold(_PairSplitter):
    """K folds of pairs such that no sample and no group is in training and test pairs.

    The samples, or the groups, are divided into folds. The test pairs of a fold have both members
    in it, the training pairs have none. **Pairs with one member on each side are dropped**: with
    dissimilar pairs drawn at random, a share of 1/n_splits² is tested in each fold and
    (1 − 1/n_splits)² is trained on. Use few folds, or draw the pairs within folds. Nothing is
    dropped if pairs form many small clusters that share nothing: these stay whole.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=False
        Whether to divide the groups at random. Otherwise they are divided such that the folds
        have about the same number of members of pairs.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the shuffling.
    verbose : bool, default=False
        Whether to print for each fold how many pairs are on each side, and how many are dropped.

    See Also
    --------
    sklearn.model_selection.GroupKFold : Divides the groups.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.verification import PairKFold
    >>> identity = np.arange(12) // 3
    >>> pairs = np.array([[0, 1], [3, 4], [6, 7], [9, 10], [0, 3], [3, 6], [6, 9], [9, 0]])
    >>> for train, test in PairKFold(n_splits=2).split(pairs, groups=identity):
    ...     print(identity[pairs[train]].tolist(), identity[pairs[test]].tolist())
    [[0, 0], [2, 2]] [[1, 1], [3, 3]]
    [[1, 1], [3, 3]] [[0, 0], [2, 2]]
    """

    n_splits: int = 5
    _: KW_ONLY
    shuffle: bool = False
    random_state: Any = None
    verbose: bool = False

    def _split_members(self, members: Rows, units: Rows) -> Iterator[tuple[Rows, Rows]]:
        count = check_count("n_splits", self.n_splits, least=2)
        n_units = len(np.unique(units))
        if n_units < count:
            raise ValueError(
                f"n_splits: expected at most the number of samples or groups, {n_units}, got "
                f"{count}"
            )
        shuffle = check_flag("shuffle", self.shuffle)
        source = as_random_state(check_random(self.random_state)) if shuffle else None
        splitter = GroupKFold(count, shuffle=shuffle, random_state=source)
        return splitter.split(members, groups=units)


@dataclass(eq=False, repr=False)
class PairShuffleSplit(_PairSplitter):
    """Random splits of pairs such that no sample and no group is in training and test pairs.

    A random share of the samples, or of the groups, is put on the test side. Test pairs have both
    members there, training pairs have none. **Pairs with one member on each side are dropped**:
    with ``test_size=0.5`` and dissimilar pairs drawn at random, a quarter is tested and a quarter
    is trained on. Nothing is dropped if pairs form many small clusters that share nothing: these
    stay whole.

    Parameters
    ----------
    n_splits : int, default=10
        Number of splits.
    test_size : float or int, default=0.5
        The share, or the number, of the samples or groups on the test side.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draws.
    verbose : bool, default=False
        Whether to print for each split how many pairs are on each side, and how many are dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.verification import PairShuffleSplit
    >>> pairs = np.array([[i, j] for i in range(20) for j in range(i)])
    >>> splitter = PairShuffleSplit(n_splits=2, random_state=0)
    >>> [(len(train), len(test)) for train, test in splitter.split(pairs)]
    [(45, 45), (45, 45)]
    """

    n_splits: int = 10
    _: KW_ONLY
    test_size: float = 0.5
    random_state: Any = None
    verbose: bool = False

    def _split_members(self, members: Rows, units: Rows) -> Iterator[tuple[Rows, Rows]]:
        count = check_count("n_splits", self.n_splits)
        source = as_random_state(check_random(self.random_state))
        try:
            splitter = GroupShuffleSplit(count, test_size=self.test_size, random_state=source)
            return iter([*splitter.split(members, groups=units)])
        except Exception as error:  # scikit-learn's message is about its own parameters
            raise ValueError(
                "test_size: expected a share between 0 and 1, or a number, of the "
                f"{len(np.unique(units))} samples or groups, got {shown(self.test_size)}"
            ) from error


def train_test_split_pairs(
    pairs: ArrayLike,
    *arrays: Any,
    groups: ArrayLike | None = None,
    test_size: float = 0.5,
    random_state: Any = None,
) -> list[Any]:
    """Split pairs in two such that no sample and no group is on both sides.

    Pairs with one member on each side are dropped, so the two parts together are smaller than
    the whole: with ``test_size=0.5`` and dissimilar pairs drawn at random by one half.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2) or (n_pairs, 2, …)
        Index pairs, or pairs of samples, which need `groups`.
    *arrays : sequences of length n_pairs
        What is split in the same way: the labels, then anything else. Of the first array, the
        labels, every kind must occur on both sides.
    groups : array-like of shape (n_samples,) or (n_pairs, 2), optional
        The unit that is kept together, for example the identity: one label per sample for index
        pairs, or one per member of each pair.
    test_size : float or int, default=0.5
        The share, or the number, of the samples or groups on the test side.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draw.

    Returns
    -------
    list
        Training pairs, test pairs, then both parts of each array, as `train_test_split` of
        scikit-learn returns them.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.verification import train_test_split_pairs
    >>> identity = np.arange(40) // 4
    >>> pairs = np.array([[i, j] for i in range(40) for j in range(i)])
    >>> y = np.where(identity[pairs[:, 0]] == identity[pairs[:, 1]], 1, -1)
    >>> train, test, y_train, y_test = train_test_split_pairs(
    ...     pairs, y, groups=identity, random_state=0
    ... )
    >>> len(pairs), len(train), len(test)
    (780, 190, 190)
    >>> set(identity[train].ravel()) & set(identity[test].ravel())
    set()
    """
    splitter = PairShuffleSplit(1, test_size=test_size, random_state=random_state)
    for number, array in enumerate(arrays):
        name = "y" if number == 0 else f"arrays[{number}]"
        check_one_per_pair(name, array, count_rows(pairs))
    labels = arrays[0] if arrays else None
    ((train, test),) = splitter.split(pairs, labels, groups)
    return [_safe_indexing(part, rows) for part in (pairs, *arrays) for rows in (train, test)]
