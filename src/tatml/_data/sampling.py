"""The ways to draw pairs from labels: at random per class, nearest neighbours, all of them.

A pair never joins two samples of the same group, so that near-copies (views of one object, trials
of one session) do not teach the metric that what is alike lies at distance zero.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_chunked
from sklearn.utils.random import sample_without_replacement

from .blocks import Blocks
from .pairs import Pairs

__all__ = ["STRATEGIES", "Strategy", "balanced", "draw_pairs"]

Strategy = Literal["random", "neighbors", "all"]
STRATEGIES = get_args(Strategy)

Index = NDArray[np.intp]
AUTO_PER_CLASS, AUTO_LEAST = 500, 10
LEAST_TOTAL, MOST_TOTAL = 5_000, 50_000


def draw_pairs(
    strategy: Strategy,
    blocks: Blocks,
    labels: Index,
    groups: Index | None,
    *,
    n_pairs_per_class: int | None,
    n_neighbors: int,
    random_state: Any,
    space: NDArray[np.float64] | None = None,
) -> Pairs:
    """Draw pairs of samples whose classes are numbered from 0.

    Parameters
    ----------
    strategy : {"random", "neighbors", "all"}
        See `STRATEGIES`.
    blocks : Blocks
        The samples; only "neighbors" looks at them, where no `space` is given.
    labels, groups : integer arrays of shape (n_samples,)
        The class of each sample, and its group or None.
    n_pairs_per_class : int or None
        For "random": half of them similar, half dissimilar. None: 500, and more where there are
        few classes, 5,000 in all; at most 50,000 in all (but 10 a class).
    n_neighbors : int
        For "neighbors": how many of each kind a sample.
    random_state : RandomState or Generator
        For "random".
    space : array of shape (n_samples, n_features) or None
        For "neighbors": the embedding in which samples are near. None: the blocks, each vector
        divided feature by feature by its spread, each matrix as a whole.

    Returns
    -------
    Pairs
        Distinct pairs, the similar ones first.
    """
    if strategy == "random":
        similar, dissimilar = _random(labels, groups, n_pairs_per_class, random_state)
    elif strategy == "neighbors":
        space = _in_common_units(blocks) if space is None else space
        similar, dissimilar = _neighbors(space, labels, groups, n_neighbors)
    else:
        similar, dissimilar = _all(labels, groups)
    _check_both_kinds(similar, dissimilar, groups)
    index = np.asfortranarray(np.concatenate([similar, dissimilar]))
    return Pairs(index, np.arange(len(index)) < len(similar))


def balanced(pairs: Pairs) -> Pairs:
    """The same pairs, weighted so that similar and dissimilar ones count the same in all."""
    n_similar = int(pairs.similar.sum())
    n_dissimilar = len(pairs) - n_similar
    if n_similar == n_dissimilar:
        return pairs
    weights = np.where(pairs.similar, 0.5 / n_similar, 0.5 / n_dissimilar) * len(pairs)
    return Pairs(pairs.index, pairs.similar, weights)


def _random(
    labels: Index, groups: Index | None, n_pairs_per_class: int | None, random_state: Any
) -> tuple[Index, Index]:
    n_classes = int(labels.max()) + 1
    n_pairs = _automatic(n_classes) if n_pairs_per_class is None else n_pairs_per_class
    n_similar = (n_pairs + 1) // 2
    random_state = _as_random_state(random_state)
    numbers = np.arange(len(labels)) if groups is None else groups
    order = np.lexsort((numbers, labels))
    start = np.searchsorted(labels[order], np.arange(n_classes + 1))
    by_group = None if groups is None else _ByGroup(labels, groups)
    similar, dissimilar = [], []
    for first, end in pairwise(start):
        inside, n_dissimilar = order[first:end], n_pairs - n_similar
        similar.append(_pairs_inside(inside, numbers, n_similar, random_state))
        if by_group is None:
            drawn = _pairs_beside(order, first, end, n_dissimilar, random_state)
        else:
            drawn = by_group.pairs_across(inside, n_dissimilar, random_state)
        dissimilar.append(drawn)
    return np.concatenate(similar), _distinct(np.concatenate(dissimilar))


def _automatic(n_classes: int) -> int:
    """Pairs a class: 500, more where there are few classes and fewer where there are very many."""
    wanted = max(AUTO_PER_CLASS, -(-LEAST_TOTAL // n_classes))
    return min(wanted, max(AUTO_LEAST, MOST_TOTAL // n_classes))


def _pairs_inside(members: Index, groups: Index, n_wanted: int, random_state: Any) -> Index:
    """Distinct pairs of members, which are sorted by group: each with those of later groups."""
    end = np.searchsorted(groups[members], groups[members], side="right")
    row, place = _numbered(len(members) - end, n_wanted, random_state)
    return np.stack([members[row], members[end[row] + place]], axis=1)


def _pairs_beside(order: Index, first: int, end: int, n_wanted: int, random_state: Any) -> Index:
    """Distinct pairs of one of order[first:end] and one of the rest."""
    n_inside = end - first
    counts = np.full(n_inside, len(order) - n_inside)
    row, place = _numbered(counts, n_wanted, random_state)
    place += np.where(place >= first, n_inside, 0)
    return np.stack([order[first + row], order[place]], axis=1)


class _ByGroup:
    """All samples in the order of their groups: set up once, it serves every class.

    So a class costs what its own samples and pairs cost, however many others there are.
    """

    def __init__(self, labels: Index, groups: Index):
        self.order = np.lexsort((labels, groups))
        self.position = np.empty_like(self.order)
        self.position[self.order] = np.arange(len(groups))
        sorted_groups = groups[self.order]
        self.start = np.searchsorted(sorted_groups, groups, side="left")
        self.end = np.searchsorted(sorted_groups, groups, side="right")

    def pairs_across(self, inside: Index, n_wanted: int, random_state: Any) -> Index:
        """Distinct pairs of one of a class, sorted by group, and one of another class and group.

        The place of a partner counts neither the own group, which is one stretch of the order, nor
        the class, whose positions are scattered: both are skipped to find where it stands.
        """
        own = self.position[inside]
        start, end = self.start[inside], self.end[inside]
        before, until = np.searchsorted(own, start), np.searchsorted(own, end)
        stretch = (end - start) - (until - before)  # of the group, without the class
        counts = len(self.order) - len(inside) - stretch
        row, place = _numbered(counts, n_wanted, random_state)
        place += np.where(place >= (start - before)[row], stretch[row], 0)
        place += np.searchsorted(own - np.arange(len(own)), place, side="right")
        return np.stack([inside[row], self.order[place]], axis=1)


def _numbered(counts: Index, n_wanted: int, random_state: Any) -> tuple[Index, Index]:
    """Draw of all (row, place < counts[row]) some distinct ones, or all where they are few."""
    last = np.cumsum(counts)
    n_possible = int(last[-1])
    n_drawn = min(n_wanted, n_possible)
    code = sample_without_replacement(n_possible, n_drawn, random_state=random_state)
    row = np.searchsorted(last, code, side="right")
    return row, (code - (last - counts)[row]).astype(np.intp)


def _apart(pairs: Index, groups: Index | None) -> Index:
    return pairs if groups is None else pairs[groups[pairs[:, 0]] != groups[pairs[:, 1]]]


def _distinct(pairs: Index) -> Index:
    """Each unordered pair once, in the order of their first appearance."""
    _, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    return pairs[np.sort(first)]


def _neighbors(
    space: NDArray[np.float64], labels: Index, groups: Index | None, n_neighbors: int
) -> tuple[Index, Index]:
    """The nearest samples of the same and of other classes."""
    found: dict[bool, list[Index]] = {True: [], False: []}

    def nearest(distances: NDArray[np.float64], start: int) -> None:
        rows = np.arange(start, start + len(distances))
        allowed = rows[:, None] != np.arange(len(labels))
        if groups is not None:
            allowed &= groups[rows][:, None] != groups
        same = labels[rows][:, None] == labels
        for kind in (True, False):
            candidates = np.where(allowed & (same == kind), distances, np.inf)
            found[kind].append(_nearest_pairs(candidates, rows, n_neighbors))

    for _ in pairwise_distances_chunked(space, reduce_func=nearest):
        pass
    similar, dissimilar = (_distinct(np.concatenate(found[kind])) for kind in (True, False))
    return similar, dissimilar


def _nearest_pairs(candidates: NDArray[np.float64], rows: Index, n_neighbors: int) -> Index:
    n_nearest = min(n_neighbors, candidates.shape[1])
    column = np.argsort(candidates, axis=1, kind="stable")[:, :n_nearest]
    finite = np.isfinite(np.take_along_axis(candidates, column, axis=1))
    return np.stack([np.repeat(rows, n_nearest), column.ravel()], axis=1)[finite.ravel()]


def _in_common_units(blocks: Blocks) -> NDArray[np.float64]:
    """All entries side by side: vectors divided feature by feature, matrices as a whole."""
    columns = []
    for array, (_, width) in zip(blocks.arrays, blocks.block_shapes, strict=True):
        table = array.reshape(len(array), -1).astype(np.float64)
        table = np.where(np.ptp(table, axis=0) > 0, table - table.mean(axis=0), 0.0)
        variance = np.mean(table**2, axis=0)
        if width > 1:
            variance = np.full_like(variance, variance.sum())
        columns.append(table / np.sqrt(np.where(variance > 0, variance, 1.0)))
    return np.concatenate(columns, axis=1)


def _all(labels: Index, groups: Index | None) -> tuple[Index, Index]:
    pairs = _apart(np.stack(np.tril_indices(len(labels), -1), axis=1), groups)
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return pairs[same], pairs[~same]


def _check_both_kinds(similar: Index, dissimilar: Index, groups: Index | None) -> None:
    within = "" if groups is None else " outside the groups"
    for name, pairs, need in (
        ("similar", similar, "a class of two samples"),
        ("dissimilar", dissimilar, "two classes"),
    ):
        if len(pairs) == 0:
            raise ValueError(
                f"y: expected labels that give {name} pairs, which takes {need}{within}, got none"
            )


def _as_random_state(random_state: Any) -> Any:
    """What scikit-learn's sampling takes: a RandomState, drawn from a Generator if need be."""
    if hasattr(random_state, "randint"):
        return random_state
    return np.random.RandomState(random_state.integers(2**32))
