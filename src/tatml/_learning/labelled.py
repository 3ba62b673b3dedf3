"""Labelled samples: folds of them, and the pairs that are drawn from their labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv

from .._array import Doubles, Indices, foreign_kind, to_numpy
from .._data.arrays import read_array
from .._data.blocks import Blocks
from .._data.copies import first_copies, order_of_content
from .._data.pairs import Pairs
from .._data.sampling import Strategy, balanced, draw_pairs
from .._messages import shown
from .._optim.solvers import Newton
from .._sharding.all_pairs import AllPairs
from .._validation import check_two, generator_of
from .._warnings import warn_user
from .metric import embed_blocks
from .prepare import prior_from_samples
from .priors import WithinClasses
from .samples import fetched
from .task import Settings

Fold = tuple[Indices, Indices]  # the rows of the training samples, and of the test samples
MOST_FOLDS = 5
LARGE_CLASS = 20  # samples; for classes of this size, three folds are enough
CLASS_FOLDS = 3  # at most; each has two classes at least


@dataclass(frozen=True)
class LabelledSamples:
    """Samples with their class numbers and, if any, their group numbers, weights and copies.

    A weight is that of all copies of a sample together, and `copies` is their number.
    """

    blocks: Blocks
    labels: Indices
    groups: Indices | None
    weights: Doubles | None = None
    copies: Indices | None = None

    def __getitem__(self, rows: Indices) -> LabelledSamples:
        others = (self.groups, self.weights, self.copies)
        taken: list[Any] = [None if of is None else of[rows] for of in others]
        return LabelledSamples(self.blocks[rows], self.labels[rows], *taken)

    def renumbered(self) -> LabelledSamples:
        """Return the samples with classes and groups numbered from 0 without gaps."""
        labels, groups = np.unique(self.labels, return_inverse=True)[1], self.groups
        if groups is not None:
            groups = np.unique(groups, return_inverse=True)[1]
        return replace(self, labels=labels, groups=groups)

    def weigh(self, pairs: Pairs) -> Pairs:
        """Return pairs with the products of the weights of their samples."""
        if self.weights is None:
            return pairs
        product = self.weights[pairs.first] * self.weights[pairs.second]
        return Pairs(pairs.index, pairs.similar, product)


def distinct(samples: LabelledSamples, needs_pairs: bool = True) -> tuple[LabelledSamples, Indices]:
    """Return the samples with copies merged, without those of weight 0, and their rows.

    Copies have the same class and group. So a sample of weight 2 is the same as two copies. Without
    weights and copies, the samples stay as they are. They also do, with `needs_pairs`, if merged
    ones would give no similar pairs.
    """
    rows, weights = np.arange(len(samples.labels)), samples.weights
    if weights is None and foreign_kind(samples.blocks.arrays[0]) is not None:
        return samples, rows  # which would have to be copied from their device
    if weights is not None:
        rows = np.flatnonzero(weights)
        samples, weights = samples[rows], weights[rows]
    codes = [of for of in (samples.labels, samples.groups) if of is not None]
    first = first_copies(samples.blocks, codes)
    kept = np.flatnonzero(first == np.arange(len(first)))
    if weights is None and len(kept) == len(first):
        return samples, rows
    units = kept if samples.groups is None else samples.groups[kept]
    if needs_pairs and not gives_pairs(samples.labels[kept], units):
        return samples.renumbered(), rows
    number = np.searchsorted(kept, first)
    copies, total = np.bincount(number, samples.copies), np.bincount(number, weights)
    merged = replace(samples[kept], copies=copies.astype(np.intp), weights=total.astype(float))
    order = order_of_content(merged.blocks, merged.labels)
    return merged[order].renumbered(), rows[kept[order]]


def counted(samples: LabelledSamples, cv: Any) -> tuple[LabelledSamples, Indices]:
    """Return the samples of positive weight, and their rows; all if `cv` gives folds of rows."""
    rows = np.arange(len(samples.labels))
    if samples.weights is None or not isinstance(cv, Integral) or samples.weights.all():
        return samples, rows
    rows = np.flatnonzero(samples.weights)
    return samples[rows].renumbered(), rows


def make_pair_folds(
    labels: Indices, groups: Indices | None, n_folds: int | None = None
) -> list[Fold]:
    """Return folds whose training and test samples both give similar and dissimilar pairs.

    Classes (with groups: the groups of a class) are spread over the folds by twos where they are
    small, so that a fold has two samples of a class, or none. There are at most half as many folds
    as samples in the median class, and none at all if the samples are too few. By default there are
    five, or three if the median class is large. The folds are the same whenever they are made.
    """
    units = np.arange(len(labels)) if groups is None else groups
    first = np.unique(units, return_index=True)[1]
    nested = bool(np.all(labels == labels[first][units]))  # each group is in one class
    counts = np.bincount(labels[first] if nested else labels)
    usual = int(np.median(counts[counts > 0]))
    if n_folds is None:
        n_folds = 3 if usual >= LARGE_CLASS else MOST_FOLDS
    n_folds = max(2, min(n_folds, usual // 2))
    if nested:
        number = _spread(labels[first], n_folds)[units]
        folds = [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(n_folds)]
    else:
        n_folds = min(n_folds, len(first), int(counts.max()))
        if n_folds < 2:
            return []
        splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=0)
        folds = _split(splitter, labels, units)
    return [fold for fold in folds if all(gives_pairs(labels[r], units[r]) for r in fold)]


def folds_of(samples: LabelledSamples, settings: Settings) -> list[Fold]:
    """Return folds of samples for pairs that are held out; folds of classes for new classes.

    Fewer than four classes make no folds of classes: then they are of samples.
    """
    labels, groups = samples.labels, samples.groups
    if settings.new_classes:
        folds = _class_folds(labels, groups)
        if folds:
            return folds
    return make_pair_folds(labels, groups)


def _class_folds(labels: Indices, groups: Indices | None) -> list[Fold]:
    """Return folds with the samples of some classes as the test samples.

    Training samples of a group that has test samples are left out.
    """
    present, number = np.unique(labels, return_inverse=True)
    n_folds = min(CLASS_FOLDS, len(present) // 2)
    if n_folds < 2:
        return []
    fold = np.random.RandomState(0).permutation(len(present))[number] % n_folds
    units, folds = np.arange(len(labels)) if groups is None else groups, []
    for k in range(n_folds):
        test = fold == k
        train = ~test & ~np.isin(units, units[test])
        folds.append((np.flatnonzero(train), np.flatnonzero(test)))
    return [fold for fold in folds if all(gives_pairs(labels[r], units[r]) for r in fold)]


def _spread(labels: Indices, n_folds: int) -> Indices:
    """Return a fold for each unit, given its class."""
    order = np.random.RandomState(0).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold, start = np.empty(len(labels), dtype=np.intp), 0
    ends = np.cumsum(np.bincount(labels))
    for members in np.split(order, ends[:-1]):
        step = 1 if len(members) >= 2 * n_folds else 2
        fold[members] = (start + np.arange(len(members)) // step) % n_folds
        start += len(members) // step
    return fold


def _split(splitter: Any, labels: Indices, groups: Indices | None) -> list[Fold]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes with fewer samples than folds
        return list(splitter.split(labels, labels, groups))


def gives_pairs(labels: Any, units: Indices) -> bool:
    """Return whether a class is in two units, and there is another class."""
    numbers = np.unique(labels, return_inverse=True)[1]
    size = int(units.max(initial=0)) + 1
    counts = np.bincount(np.unique(numbers * size + units) // size)
    return len(counts) > 1 and int(counts.max()) > 1


def make_folds(cv: Any, samples: LabelledSamples, *, pairs_in_tests: bool) -> list[Fold]:
    """Return the folds that `cv` asks for; no group is both in training and in test samples.

    A number of folds is lowered where training samples, or with `pairs_in_tests` also test samples,
    would not give both kinds of pairs.
    """
    labels, groups = samples.labels, samples.groups
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        return _make_some_folds(int(cv), samples, pairs_in_tests)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            splitter = check_cv(cv, labels, classifier=True)
            folds = list(splitter.split(np.zeros(len(labels)), labels, groups))
    except Exception as error:  # raised by scikit-learn or by the user's own splitter
        raise ValueError(
            "cv: expected a number of folds, or a splitter, that these samples allow, got "
            f"{shown(cv)}: {error}"
        ) from error
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        warn_user(f"cv: {message}")
    if not folds:
        raise ValueError(f"cv: expected at least one fold, got {shown(cv)}")
    return [_check_fold(k, fold, len(labels)) for k, fold in enumerate(folds)]


def _make_some_folds(count: int, samples: LabelledSamples, pairs_in_tests: bool) -> list[Fold]:
    """Return stratified folds; fewer where they would not give both kinds of pairs."""
    labels, groups = samples.labels, samples.groups
    units = np.arange(len(labels)) if groups is None else groups
    counts = np.bincount(labels)
    most = counts.min() if pairs_in_tests and groups is None else counts.max()
    if min(most, len(np.unique(units))) >= count:
        splitter = StratifiedKFold(count) if groups is None else StratifiedGroupKFold(count)
        folds = _split(splitter, labels, groups)
        judged = [rows for fold in folds for rows in (fold if pairs_in_tests else fold[:1])]
        if all(gives_pairs(labels[rows], units[rows]) for rows in judged):
            return folds
    folds = make_pair_folds(labels, groups, count)
    if not folds:
        raise ValueError(
            f"cv: expected a number of folds that all give similar and dissimilar pairs, got "
            f"{count} for {len(labels)} samples in {len(np.unique(labels))} classes"
        )
    return folds


def _check_fold(number: int, fold: Any, n_samples: int) -> Fold:
    """Return the rows of both parts of a fold; the user's own splitter may return anything."""
    parts = []
    for given in check_two("cv", fold, "folds of two index arrays"):
        rows = read_array(given, "cv")
        if rows.dtype.kind == "b" and rows.shape == (n_samples,):
            rows = np.flatnonzero(rows)
        within = rows.dtype.kind in "iu" and rows.shape == (rows.size,)
        if not within or rows.size == 0 or rows.min() < -n_samples or rows.max() >= n_samples:
            raise ValueError(
                f"cv: expected folds that are index arrays of some of {n_samples} samples, got "
                f"{shown(rows)} in fold {number}"
            )
        parts.append(rows)
    return parts[0], parts[1]


def check_fits_folds(name: str, k: int, folds: Sequence[Fold]) -> None:
    """Raise an error unless every fold has at least k training samples."""
    fewest = min(len(train) for train, _ in folds)
    if k > fewest:
        raise ValueError(
            f"{name}: expected at most the {fewest} training samples of the smallest fold, got {k}"
        )


def draw(samples: LabelledSamples, settings: Settings, within: WithinClasses) -> Pairs | AllPairs:
    """Draw the pairs that a metric is learnt from; both kinds weigh the same with "mean".

    Neighbours are found in the metric of the prior; for "auto", in the units of the data.
    """
    if sums_in_tiles(settings, len(samples.blocks)):
        tiles = AllPairs(samples.labels, samples.groups, sample_weight=samples.weights)
        if settings.reduction == "sum":
            return tiles
        totals = np.array(_totals(tiles))
        return replace(tiles, weights=tuple(0.5 * totals.sum() / totals))
    pairs = draw_some(samples, settings, settings.pairs, within)
    return balanced(pairs) if settings.reduction == "mean" else pairs


def draw_random(
    samples: LabelledSamples, settings: Settings, strategy: Strategy | None = None
) -> Pairs:
    """Draw random pairs (or all), for results that must not depend on the parameter `pairs`."""
    if strategy is None:
        strategy = "all" if settings.pairs == "all" else "random"
    return balanced(draw_some(samples, settings, strategy))


def draw_some(
    samples: LabelledSamples,
    settings: Settings,
    strategy: Strategy,
    within: WithinClasses | None = None,
) -> Pairs:
    """Draw pairs by a strategy; without `within`, neighbours are found in the units of the data."""
    space, blocks = None, samples.blocks
    if strategy == "neighbors":
        prior, blocks = settings.prior, fetched(blocks)
        if within is not None and not (isinstance(prior, str) and prior == "auto"):
            factors = prior_from_samples(prior, samples.blocks, within).own_factors()
            space = to_numpy(embed_blocks(factors, samples.blocks))

    def drawn(labels: Indices, groups: Indices | None) -> Pairs:
        return draw_pairs(
            strategy,
            blocks,
            labels,
            groups,
            n_pairs_per_class=settings.n_pairs_per_class,
            n_neighbors=settings.n_neighbors,
            random_state=generator_of(settings.random_state),
            space=space,
        )

    return draw_of_copies(samples, drawn, strategy == "random")


def draw_of_copies(
    samples: LabelledSamples,
    draw: Callable[[Indices, Indices | None], Pairs],
    is_random: bool = True,
) -> Pairs:
    """Return weighted pairs of the samples that `draw` returns for their labels and groups.

    Random pairs are those of all copies of the samples, without pairs of two copies of one sample.
    Pairs of the same two samples become one, with the sum of the weights.
    """
    if not is_random or samples.copies is None:
        return samples.weigh(draw(samples.labels, samples.groups))
    assert samples.weights is not None
    number = np.repeat(np.arange(len(samples.labels)), samples.copies)
    groups = None if samples.groups is None else samples.groups[number]
    if groups is None and samples.copies.max() > 1:
        groups = number
    pairs = draw(samples.labels[number], groups)
    share = samples.weights / samples.copies
    weights = share[number[pairs.first]] * share[number[pairs.second]]
    both = np.column_stack([~pairs.similar, np.sort(number[pairs.index], axis=1)])
    unique, place = np.unique(both, axis=0, return_inverse=True)
    index = np.asfortranarray(unique[:, 1:])
    return Pairs(index, unique[:, 0] == 0, np.bincount(place.ravel(), weights).astype(float))


# All pairs


def sums_in_tiles(settings: Settings, n_samples: int) -> bool:
    """Return whether to sum all pairs in tiles, because a list of them would be too long."""
    if settings.pairs != "all" or settings.n_components is not None:
        return False
    solver = settings.solver
    if not isinstance(solver, Newton) or solver.linear_solver == "woodbury":
        return False
    return n_samples * (n_samples - 1) // 2 > settings.most_listed_pairs


def weigh_all_pairs(pairs: AllPairs) -> float:
    """Return the total weight of the pairs, by those of the samples: their number without any."""
    return sum(_totals(pairs))


def _totals(pairs: AllPairs) -> tuple[float, float]:
    """Return the weight of the similar and of the dissimilar pairs, without pairs inside a group.

    It is that of the samples alone, or the number of pairs without weights of samples.
    """
    labels, weights = np.asarray(pairs.labels), pairs.sample_weight
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights)
    total, similar = (_total_inside(of, weights) for of in (np.zeros_like(labels), labels))
    if pairs.groups is not None:
        groups = np.asarray(pairs.groups)
        total -= _total_inside(groups, weights)
        similar -= _total_inside(np.stack([labels, groups]), weights)
    # There are two classes. If two samples of one class are in different groups, then every sample
    # of another class forms a dissimilar pair with at least one of them.
    if similar <= 0:
        raise ValueError(
            "y: expected classes that give similar and dissimilar pairs, got no similar pairs"
        )
    return similar, total - similar


def _total_inside(keys: NDArray[np.intp], weights: Doubles) -> float:
    """Return the total weight of the pairs of samples with equal keys."""
    number = np.unique(keys, axis=-1, return_inverse=True)[1].ravel()
    sums, squares = (np.bincount(number, of) for of in (weights, weights**2))
    return float(np.sum(sums**2 - squares)) / 2
