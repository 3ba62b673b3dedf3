"""Pairs drawn from labels: at random per class, nearest neighbours, or all of them; triplets.

Groups name samples that are near-copies of each other (views of one object, trials of one session).
A pair never joins two samples of the same group: it would teach the metric that similar samples are
at distance zero.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_chunked
from sklearn.utils.random import sample_without_replacement

from .._array import Indices
from .._validation import as_random_state
from .blocks import Blocks
from .pairs import Pairs

Strategy = Literal["random", "neighbors", "all"]
STRATEGIES = get_args(Strategy)

AUTO_PER_CLASS = 500  # pairs per class by default, before the limits on their total
AUTO_LEAST = 10  # the smallest default per class, however many classes there are
LEAST_TOTAL = 5_000  # the default is raised to this total where there are few classes
LEAST_THINNED = 1_000  # pairs that remain where some are left out to save time
MOST_TOTAL = 50_000  # the default is lowered to this total where there are many classes
TRIED_PER_PAIR = 50  # pairs whose ranks are compared, for each pair that is wanted
CHUNK_NUMBERS = 2**22  # distances in memory at a time: 32 MB of float64


def draw_pairs(
    strategy: Strategy,
    blocks: Blocks,
    labels: Indices,
    groups: Indices | None,
    *,
    n_pairs_per_class: int | None,
    n_neighbors: int,
    random_state: Any,
    space: NDArray[np.float64] | None = None,
) -> Pairs:
    """Draw pairs of samples by any of the strategies.

    Parameters
    ----------
    strategy : {"random", "neighbors", "all"}
        "random": see `draw_random_pairs`. "neighbors": for each sample, its nearest samples of the
        same class and of the other classes. "all": every pair that the groups allow.
    blocks : Blocks
        The samples, in which "neighbors" looks for neighbours if no `space` is given: each feature
        of a block of vectors is divided by its standard deviation, each block of matrices by its
        total one.
    labels, groups : integer arrays of shape (n_samples,)
        The class of each sample, from 0, and its group or None.
    n_pairs_per_class : int or None
        For "random".
    n_neighbors : int
        For "neighbors": the number of similar and of dissimilar neighbours per sample.
    random_state : RandomState or Generator
        For "random".
    space : array of shape (n_samples, n_features) or None
        For "neighbors": an embedding of the samples; distances are Euclidean in it.

    Returns
    -------
    Pairs
        Distinct pairs, the similar ones first.
    """
    if strategy == "random":
        return draw_random_pairs(
            labels, groups, n_pairs_per_class=n_pairs_per_class, random_state=random_state
        )
    if strategy == "neighbors":
        space = _in_common_units(blocks) if space is None else space
        return _as_pairs(*_neighbors(space, labels, groups, n_neighbors), groups)
    pairs = np.stack(np.tril_indices(len(labels), -1), axis=1)
    if groups is not None:
        pairs = pairs[groups[pairs[:, 0]] != groups[pairs[:, 1]]]
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return _as_pairs(pairs[same], pairs[~same], groups)


def draw_random_pairs(
    labels: Indices,
    groups: Indices | None = None,
    *,
    n_pairs_per_class: int | None = None,
    random_state: Any,
) -> Pairs:
    """Draw pairs at random: for each class as many similar as dissimilar ones.

    Parameters
    ----------
    labels, groups : integer arrays of shape (n_samples,)
        The class of each sample, from 0, and its group or None.
    n_pairs_per_class : int or None, default=None
        Pairs per class, half of them similar. Default: 500 per class, raised to 5,000 in total for
        few classes, lowered to 50,000 in total for many, and at least 10 per class.
    random_state : RandomState or Generator
        The source of random numbers.

    Returns
    -------
    Pairs
        Distinct pairs, the similar ones first. A class with fewer pairs gives all it has.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml._data.sampling import draw_random_pairs
    >>> labels, rng = np.repeat([0, 1], 50), np.random.RandomState(0)
    >>> pairs = draw_random_pairs(labels, n_pairs_per_class=10, random_state=rng)
    >>> len(pairs), int(pairs.similar.sum())
    (20, 10)
    """
    n_classes = int(labels.max()) + 1
    n_pairs = _automatic(n_classes) if n_pairs_per_class is None else n_pairs_per_class
    n_similar = (n_pairs + 1) // 2
    random_state = as_random_state(random_state)
    own_group = np.arange(len(labels)) if groups is None else groups
    order = np.lexsort((own_group, labels))
    start = np.searchsorted(labels[order], np.arange(n_classes + 1))
    by_group = None if groups is None else _ByGroup(labels, groups)
    similar, dissimilar = [], []
    for first, end in pairwise(start):
        inside, n_dissimilar = order[first:end], n_pairs - n_similar
        similar.append(_pairs_inside(inside, own_group, n_similar, random_state))
        if by_group is None:
            drawn = _pairs_beside(order, first, end, n_dissimilar, random_state)
        else:
            drawn = by_group.pairs_across(inside, n_dissimilar, random_state)
        dissimilar.append(drawn)
    return _as_pairs(np.concatenate(similar), _distinct(np.concatenate(dissimilar)), groups)


def draw_ranked_pairs(
    ranks: NDArray[np.float64],
    groups: Indices | None = None,
    *,
    total: float,
    near: float,
    far: float,
    n_pairs: int,
    random_state: Any,
) -> Pairs:
    """Draw pairs at random: half of similar rank, half of distant ranks.

    Parameters
    ----------
    ranks : array of shape (n_samples, n_targets)
        The ranks of the samples by each target, from 1. Two samples differ by the root mean square,
        over the targets, of the differences of their ranks, divided by `total`.
    groups : integer array of shape (n_samples,) or None
        The group of each sample.
    total : float
        The number of samples, or their total weight.
    near, far : float
        Pairs that differ by less than `near` are similar, those that differ by more than `far`
        dissimilar. The others are not drawn.
    n_pairs : int
        The number of pairs, if there are so many of both kinds.
    random_state : RandomState or Generator
        The source of random numbers.

    Returns
    -------
    Pairs
        Distinct pairs, the similar ones first.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml._data.sampling import draw_ranked_pairs
    >>> ranks, rng = np.arange(1.0, 101.0)[:, None], np.random.RandomState(0)
    >>> limits = {"total": 100, "near": 0.1, "far": 0.5}
    >>> pairs = draw_ranked_pairs(ranks, **limits, n_pairs=10, random_state=rng)
    >>> bool(np.all(np.abs(pairs.first - pairs.second)[pairs.similar] < 10))
    True
    """
    random_state, n_samples = as_random_state(random_state), len(ranks)
    n_possible = n_samples * (n_samples - 1) // 2
    n_tried = min(n_possible, TRIED_PER_PAIR * n_pairs)
    code = np.arange(n_tried)
    if n_tried < n_possible:
        code = np.unique(random_state.randint(n_possible, size=n_tried, dtype=np.int64))
    code = random_state.permutation(code)  # second (second − 1)/2 + first, with first < second
    second = ((1 + np.sqrt(1 + 8.0 * code)) / 2).astype(np.intp)
    first = (code - second * (second - 1) // 2).astype(np.intp)
    difference = np.sqrt(np.mean((ranks[first] - ranks[second]) ** 2, axis=1)) / total
    allowed = True if groups is None else groups[first] != groups[second]
    similar = np.flatnonzero(allowed & (difference < near))[: (n_pairs + 1) // 2]
    dissimilar = np.flatnonzero(allowed & (difference > far))[: n_pairs // 2]
    for kind, rows, limit in (
        ("similar", similar, f"less than near={near:g}"),
        ("dissimilar", dissimilar, f"more than far={far:g}"),
    ):
        if len(rows) == 0:
            within = "" if groups is None else " outside the groups"
            raise ValueError(
                f"y: expected targets that give {kind} pairs{within}, whose ranks differ by "
                f"{limit} of the number of samples, got none"
            )
    chosen = np.concatenate([similar, dissimilar])
    index = np.asfortranarray(np.stack([first[chosen], second[chosen]], axis=1))
    return Pairs(index, np.arange(len(index)) < len(similar))


def slice_ranks(ranks: NDArray[np.float64], total: float) -> Indices:
    """Return the number of the slice of each sample: nine equal ranges of its rank up to `total`.

    With several targets, the samples are divided by three ranges of each. Reversed ranks give the
    same slices.
    """
    centred = (ranks - (total + 1) / 2) / total  # from −1/2 to 1/2
    n_slices = 9 if ranks.shape[1] == 1 else 3
    cells = np.sign(centred) * np.floor(np.abs(centred) * n_slices + 0.5)
    return np.unique(cells, axis=0, return_inverse=True)[1].ravel()


def balanced(pairs: Pairs) -> Pairs:
    """Scale the weights of pairs so that both kinds have the same total weight."""
    given = np.ones(len(pairs)) if pairs.weights is None else pairs.weights
    of_similar, of_others = (float(given[kind].sum()) for kind in (pairs.similar, ~pairs.similar))
    if of_similar == of_others:
        return pairs
    factors = np.where(pairs.similar, 0.5 / of_similar, 0.5 / of_others) * (of_similar + of_others)
    return Pairs(pairs.index, pairs.similar, factors * given)


def _as_pairs(similar: Indices, dissimilar: Indices, groups: Indices | None) -> Pairs:
    """Join similar and dissimilar pairs; raise where there are none of a kind."""
    within = "" if groups is None else " outside the groups"
    for name, pairs, need in (
        ("similar", similar, "a class of two samples"),
        ("dissimilar", dissimilar, "two classes"),
    ):
        if len(pairs) == 0:
            raise ValueError(
                f"y: expected labels that give {name} pairs, which takes {need}{within}, got none"
            )
    index = np.asfortranarray(np.concatenate([similar, dissimilar]))
    return Pairs(index, np.arange(len(index)) < len(similar))


def thin_out(pairs: Pairs, max_step: int, min_pairs: int = LEAST_THINNED) -> Pairs:
    """Keep every n-th pair of either kind: n is at most `max_step`, and `min_pairs` remain."""
    step = max(1, min(max_step, len(pairs) // min_pairs))
    kinds = [np.flatnonzero(pairs.similar == kind)[::step] for kind in (True, False)]
    return pairs if step == 1 else pairs.take(np.concatenate(kinds))


def _automatic(n_classes: int) -> int:
    """Return the default number of pairs per class."""
    wanted = max(AUTO_PER_CLASS, -(-LEAST_TOTAL // n_classes))
    return min(wanted, max(AUTO_LEAST, MOST_TOTAL // n_classes))


def _pairs_inside(members: Indices, groups: Indices, n_wanted: int, random_state: Any) -> Indices:
    """Draw distinct pairs of members of one class, which are sorted by group.

    Each member is paired with members of later groups, so that no pair is drawn in both orders.
    """
    end = np.searchsorted(groups[members], groups[members], side="right")
    row, place = _draw_cells(len(members) - end, n_wanted, random_state)
    return np.stack([members[row], members[end[row] + place]], axis=1)


def _pairs_beside(
    order: Indices, first: int, end: int, n_wanted: int, random_state: Any
) -> Indices:
    """Draw distinct pairs of a sample in order[first:end] and a sample outside it."""
    n_inside = end - first
    counts = np.full(n_inside, len(order) - n_inside)
    row, place = _draw_cells(counts, n_wanted, random_state)
    place += np.where(place >= first, n_inside, 0)
    return np.stack([order[first + row], order[place]], axis=1)


class _ByGroup:
    """All samples sorted by group, for the dissimilar pairs of every class.

    It is set up once, so that the cost of a class does not grow with the number of other samples.
    """

    def __init__(self, labels: Indices, groups: Indices):
        self.order = np.lexsort((labels, groups))
        self.position = np.empty_like(self.order)
        self.position[self.order] = np.arange(len(groups))
        sorted_groups = groups[self.order]
        self.start = np.searchsorted(sorted_groups, groups, side="left")
        self.end = np.searchsorted(sorted_groups, groups, side="right")

    def pairs_across(self, inside: Indices, n_wanted: int, random_state: Any) -> Indices:
        """Draw distinct pairs of a sample of one class and one of another class and group.

        `inside` are the samples of the class, sorted by group. A partner is drawn by its place
        among the allowed partners. To find its position in `order`, the sample's own group, which
        is contiguous, and the samples of its class, which are not, have to be skipped.
        """
        own = self.position[inside]
        start, end = self.start[inside], self.end[inside]
        before, until = np.searchsorted(own, start), np.searchsorted(own, end)
        stretch = (end - start) - (until - before)  # size of the group without the class
        counts = len(self.order) - len(inside) - stretch
        row, place = _draw_cells(counts, n_wanted, random_state)
        place += np.where(place >= (start - before)[row], stretch[row], 0)
        place += np.searchsorted(own - np.arange(len(own)), place, side="right")
        return np.stack([inside[row], self.order[place]], axis=1)


def _draw_cells(counts: Indices, n_wanted: int, random_state: Any) -> tuple[Indices, Indices]:
    """Draw distinct (row, place) with place < counts[row]; all of them if fewer than wanted."""
    last = np.cumsum(counts)
    n_possible = int(last[-1])
    n_drawn = min(n_wanted, n_possible)
    code = sample_without_replacement(n_possible, n_drawn, random_state=random_state)
    row = np.searchsorted(last, code, side="right")
    return row, (code - (last - counts)[row]).astype(np.intp)


def _distinct(pairs: Indices) -> Indices:
    """Return each unordered pair once, in the order of first appearance."""
    _, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    return pairs[np.sort(first)]


def _neighbors(
    space: NDArray[np.float64], labels: Indices, groups: Indices | None, n_neighbors: int
) -> tuple[Indices, Indices]:
    """Pair each sample with its nearest samples, of its own class and of other classes."""
    found: dict[bool, list[Indices]] = {True: [], False: []}

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


def _nearest_pairs(candidates: NDArray[np.float64], rows: Indices, n_neighbors: int) -> Indices:
    n_nearest = min(n_neighbors, candidates.shape[1])
    column = np.argsort(candidates, axis=1, kind="stable")[:, :n_nearest]
    finite = np.isfinite(np.take_along_axis(candidates, column, axis=1))
    return np.stack([np.repeat(rows, n_nearest), column.ravel()], axis=1)[finite.ravel()]


def _in_common_units(blocks: Blocks) -> NDArray[np.float64]:
    """Return all entries as features of unit scale: vectors per feature, matrices as a whole."""
    columns = []
    for array, (_, width) in zip(blocks.arrays, blocks.block_shapes, strict=True):
        features = np.asarray(array).reshape(len(array), -1).astype(np.float64)
        features = np.where(np.ptp(features, axis=0) > 0, features - features.mean(axis=0), 0.0)
        variance = np.mean(features**2, axis=0)
        if width > 1:
            variance = np.full_like(variance, variance.sum())
        columns.append(features / np.sqrt(np.where(variance > 0, variance, 1.0)))
    return np.concatenate(columns, axis=1)


def neighbor_triplets(
    space: NDArray[np.float64], labels: NDArray[np.intp], n_targets: int, n_impostors: int
) -> NDArray[np.intp]:
    """Return (sample, target, impostor) for all targets and impostors of each sample.

    Targets are the nearest samples of the same class, impostors the nearest of other classes, both
    by the Euclidean distance of the rows of `space`. A class of one sample has no targets, and
    gives no triplets. The rows are sorted.
    """
    space = space - space.mean(axis=0)
    drawn = [np.empty((0, 3), dtype=np.intp)]
    for label in np.unique(labels):
        own, others = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        if len(own) < 2 or len(others) == 0:
            continue
        targets = own[nearest_rows(space[own], None, n_targets)]
        impostors = others[nearest_rows(space[others], space[own], n_impostors)]
        rows = np.empty((*targets.shape, impostors.shape[1], 3), dtype=np.intp)
        rows[..., 0] = own[:, None, None]
        rows[..., 1] = targets[:, :, None]
        rows[..., 2] = impostors[:, None, :]
        drawn.append(rows.reshape(-1, 3))
    triplets = np.concatenate(drawn)
    return triplets[np.lexsort(triplets.T[::-1])]


def nearest_rows(
    rows: NDArray[np.float64], queries: NDArray[np.float64] | None, count: int
) -> NDArray[np.intp]:
    """Return the nearest rows of each query; without queries, of each row but itself."""
    own, count = queries is None, min(count, len(rows) - (queries is None))
    queries = rows if queries is None else queries
    squares, found = np.einsum("ij,ij->i", rows, rows), []
    step = max(1, CHUNK_NUMBERS // len(rows))
    for start in range(0, len(queries), step):
        D = squares - 2 * queries[start : start + step] @ rows.T  # up to a number per query
        if own:
            D[np.arange(len(D)), start + np.arange(len(D))] = np.inf
        nearest = np.argpartition(D, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(D, nearest, axis=1), axis=1, kind="stable")
        found.append(np.take_along_axis(nearest, order, axis=1))
    return np.concatenate(found)


def count_violated(
    space: NDArray[np.float64], labels: NDArray[np.intp], triplets: NDArray[np.intp], margin: float
) -> int:
    """Count the violated triplets of the drawn targets with impostors that were not drawn.

    A triplet (a, b, c) is violated if D_ac < D_ab + margin, in squared distances. No triplet may
    occur twice.
    """
    pairs = np.unique(triplets[:, :2], axis=0)
    a, b, c = triplets.T
    near, far = (np.sum((space[a] - space[other]) ** 2, axis=1) for other in (b, c))
    n_drawn = int(np.sum(far < near + margin))
    space = space - space.mean(axis=0)
    squares = np.einsum("ij,ij->i", space, space)
    total, step = 0, max(1, CHUNK_NUMBERS // len(space))
    for start in range(0, len(pairs), step):
        a, b = pairs[start : start + step].T
        limit = np.sum((space[a] - space[b]) ** 2, axis=1) + margin
        D = squares[a][:, None] + squares - 2 * space[a] @ space.T
        total += int(np.sum((limit[:, None] > D) & (labels[a][:, None] != labels)))
    return max(0, total - n_drawn)
