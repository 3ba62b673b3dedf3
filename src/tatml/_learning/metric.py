"""`Metric`: a learnt distance or score with its threshold; embeddings, and distances of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from math import prod, sqrt
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from .._array import Array, Doubles, Indices, asarray, namespace, to_numpy
from .._data.blocks import Blocks
from .._data.pairs import Pairs
from .._data.sparse import SparseBlock
from .._optim.problem import best_threshold, squared_hinge
from .._optim.result import Result
from .._sharding.all_pairs import AllPairs
from .._warnings import warn_user
from ..features._kernel_map import KernelMap
from .prepare import MetricPrior, components_per_block
from .priors import Units, around_mean, mean_square
from .samples import place_blocks
from .span import Factor, SpanFactor, join_factors

Center = Sequence[NDArray[np.float64] | None]  # a mean per block, or nothing
CACHED_NUMBERS = 2**17  # numbers of samples that are centred at a time: 1 MB of float64
CHUNK_NUMBERS = 2**20  # numbers in a temporary array of differences: 8 MB of float64
ONE_SIDED = 0.95  # share of both kinds of pairs on one side of a threshold that is of no use
LEAST_CHECKED, MOST_CHECKED = 10, 1000  # pairs of each kind that a threshold is checked on
LEAST_ACCURACY = 0.6  # balanced accuracy of a threshold that is worth naming


@dataclass(frozen=True, eq=False)
class Metric:
    """A learnt distance with its threshold; with midpoints, a score in place of the distance.

    Parameters
    ----------
    factors : list of M arrays or SpanFactor
        The linear map of each block, after which the distance is Euclidean.
    sum_factors : list of M arrays or SpanFactor, or an empty sequence
        With midpoints, the linear map of each block of sums.
    kernel_map : KernelMap, optional
        The space that `factors` apply to.
    center : list of M arrays or None, or an empty sequence
        The means of the samples, which are subtracted before distances are computed: samples far
        from the origin lose digits otherwise. With midpoints, what is subtracted before samples are
        added.
    result : Result, optional
        What the solver returned, in the coordinates of the data.
    prior : list of M arrays, optional
        W0; None where it is too large.
    b0, threshold, threshold_factor : float, optional
        The threshold in squared units, in those of the distance, and the factor between the second
        and the threshold that belongs to b0. With midpoints, the first two are in units of q, and
        there is no factor.
    threshold_shift : float, optional
        With midpoints, what held-out pairs add to b0: the threshold is the sum of both.
    likelihood_ratio : array([a, s]), optional
        With midpoints: a − s q is the log-likelihood ratio of new pairs.
    pairs : Pairs or AllPairs, optional
        The pairs that the metric was learnt from; `AllPairs` if there is no list of them.
    units : {"columns", "common", "affine", "components"}
        The units in which the scatter of the prior was shrunk.
    cells : list of M arrays of shape (3, n, n'), optional
        Bounds and medians of cells: those outside are to be replaced before samples are given to
        the metric, see `replace_cells`.
    """

    factors: Sequence[Factor]
    _: KW_ONLY
    sum_factors: Sequence[Factor] = ()
    kernel_map: KernelMap | None = None
    center: Center = ()
    result: Result | None = None
    prior: list[Doubles] | None = None
    b0: float | None = None
    threshold: float | None = None
    threshold_factor: float | None = None
    threshold_shift: float | None = None
    likelihood_ratio: Doubles | None = None
    pairs: Pairs | AllPairs | None = None
    units: Units | None = None
    cells: list[Doubles] | None = None

    def mapped(self, samples: Blocks, place: Array | None = None) -> Blocks:
        """Return the samples in the space of the kernel, if any, on the device of `place`.

        The spans of wide blocks are NumPy's, so that their samples stay.
        """
        blocks = samples if self.kernel_map is None else self.kernel_map.map_blocks(samples)
        is_wide = any(isinstance(A, SpanFactor) for A in self.factors)
        return blocks if is_wide else place_blocks(blocks, place)

    def embed(self, samples: Blocks, place: Array | None = None) -> Array:
        """Return one row per sample, with the learnt distance as Euclidean distance."""
        return embed_blocks(self.factors, self.mapped(samples, place))

    @property
    def has_midpoint(self) -> bool:
        """Whether there is a score of differences and sums, and no distance."""
        return len(self.sum_factors) > 0

    def block_distances(self, samples: Blocks, index: Indices) -> Doubles:
        """Return the part of each block in the squared distances, or in q, (n_blocks, n_pairs)."""
        arrays = self.mapped(samples).arrays
        center = self.center or [None] * len(arrays)
        parts = list(zip(self.factors, arrays, center, strict=True))
        found = np.stack([squared_distances(A, array, index, mean) for A, array, mean in parts])
        for m, R in enumerate(self.sum_factors):
            found[m] -= squared_sums(R, *parts[m][1:], index)
        return found

    def dissimilarities(
        self, samples: Blocks, index: Indices, place: Array | None = None, many: bool = False
    ) -> Array:
        """Return what the threshold is compared with: distances of index pairs, or their q."""
        if not self.has_midpoint:
            return self.distances(samples, index, place, many)
        mapped = self.mapped(samples, place)
        if any(isinstance(array, SparseBlock) for array in mapped.arrays):
            return self.block_distances(samples, index).sum(axis=0)
        of_differences = row_squares(embed_blocks(self.factors, mapped, self.center), index)
        return of_differences - row_squares(
            embed_blocks(self.sum_factors, mapped, self.center), index, sign=-1
        )

    def search_rows(self, samples: Blocks, place: Array | None = None) -> tuple[Array, Array]:
        """Return rows u and v of the samples, with midpoints.

        The inner product of u of one sample and v of another is their −q.
        """
        mapped = self.mapped(samples, place)
        parts = zip(self.factors, self.sum_factors, strict=True)
        both = embed_blocks([join_factors(A, R) for A, R in parts], mapped, self.center)
        sums, xp = embed_blocks(self.sum_factors, mapped, self.center), namespace(both)
        own = (xp.linalg.vecdot(both, both) - 2 * xp.linalg.vecdot(sums, sums))[:, None]
        both, one = sqrt(2) * both, xp.ones_like(own)  # theory (Search)
        return xp.concat([both, -own, one], axis=1), xp.concat([both, one, -own], axis=1)

    def distances(
        self, samples: Blocks, index: Indices, place: Array | None = None, many: bool = False
    ) -> Array:
        """Return the distances of index pairs of samples, on the device where the samples are.

        Sparse samples stay sparse. With `many` pairs of few samples, wide embeddings are turned
        first instead of centred.
        """
        mapped = self.mapped(samples, place)
        if any(isinstance(array, SparseBlock) for array in mapped.arrays):
            parts = zip(self.factors, mapped.arrays, strict=True)
            return np.sqrt(sum(squared_distances(A, array, index) for A, array in parts))
        rows = embed_blocks(self.factors, mapped, () if many else self.center)
        if many and rows.shape[1] > 2 * rows.shape[0] and type(rows) is np.ndarray:
            # Turned rows need only as many columns as there are rows, and their distances stay.
            turned = (rows - rows.mean(axis=0)).T
            _, upper = scipy.linalg.qr(turned, mode="raw", overwrite_a=True, check_finite=False)
            rows = upper.T
        return row_distances(rows, index)

    def with_b0(self, b0: float, margin: tuple[float, float]) -> Metric:
        """Return the metric with another b0, and the threshold that belongs to it."""
        return replace(self, b0=b0, threshold=threshold_of(b0, margin), threshold_factor=1.0)

    def with_factor(self, factor: float) -> Metric:
        """Return the metric with a multiple of its threshold."""
        assert self.threshold is not None
        assert self.threshold_factor is not None
        of_both = factor * self.threshold_factor
        return replace(self, threshold_factor=of_both, threshold=factor * self.threshold)

    def with_likelihood_ratio(self, intercept: float, slope: float) -> Metric:
        """Return the metric with the log-likelihood ratio `intercept` − `slope` (q − threshold).

        It is zero at the new threshold.
        """
        assert self.threshold is not None
        shift = intercept / slope
        threshold = self.threshold + shift
        ratio = np.array([slope * threshold, slope])
        return replace(self, threshold=threshold, threshold_shift=shift, likelihood_ratio=ratio)


def means_of(blocks: Blocks, n_images: int = 0) -> Center:
    """Return the mean of each block, None for kernel images; nothing for sparse samples."""
    if any(isinstance(array, SparseBlock) for array in blocks.arrays):
        return ()
    n_kept = len(blocks.arrays) - n_images
    xp = blocks.xp
    means = [to_numpy(xp.mean(array, axis=0)) for array in blocks.arrays[:n_kept]]
    return [*(mean.astype(np.float64, copy=False) for mean in means), *[None] * n_images]


def factors_of(
    L: Sequence[Doubles],
    prior: MetricPrior,
    blocks: Blocks,
    n_components: Any,
    as_many_as_possible: bool = False,
    weights: Doubles | None = None,
) -> list[Factor]:
    """Return A_m = L_mᵀ/√M of whole blocks, or its `n_components` leading principal axes.

    If samples span fewer dimensions than `n_components`, all of them are kept with
    `as_many_as_possible`; otherwise, axes outside the span are added to a matrix that is small
    enough, and refused for others.
    """
    counts = components_per_block(n_components, blocks.block_shapes)
    chosen: list[Factor] = []
    for m, (factor, count) in enumerate(zip(prior.factors(L), counts, strict=True)):
        if count is None:
            chosen.append(factor)
        elif not isinstance(factor, SpanFactor):
            chosen.append(principal_axes(factor, blocks.arrays[m], count, weights))
        elif count <= len(factor.inner) or as_many_as_possible:
            axes = principal_axes(factor.inner.T, prior.samples.arrays[m], count, weights)
            chosen.append(factor.span.as_rows(axes))
        elif prior.is_small:
            chosen.append(principal_axes(factor.matrix(), blocks.arrays[m], count, weights))
        else:
            raise ValueError(
                f"n_components: expected at most the {len(factor.inner)} dimensions that the "
                f"samples of block {m} span, got {count}"
            )
    return chosen


def components_of(
    L: Sequence[Doubles], blocks: Blocks, n_components: Any, weights: Doubles | None = None
) -> list[Factor]:
    """Return A_m = L_mᵀ/√M, or its `n_components` leading principal axes."""
    prior = MetricPrior([], (None,) * len(L), blocks)
    return factors_of(L, prior, blocks, n_components, weights=weights)


def principal_axes(
    factor: NDArray, array: Array, count: int, weights: Doubles | None = None
) -> NDArray:
    """Project the factor on the leading principal axes of the embedded samples."""
    rows = around_mean(array, weights)
    axes = np.linalg.eigh(mean_square(rows @ asarray(factor.T, rows)))[1][:, ::-1][:, :count]
    return axes.T @ factor


def one_or_list(matrices: Sequence[Any]) -> Any:
    """Unwrap a list of one element."""
    return matrices[0] if len(matrices) == 1 else list(matrices)


def embed_blocks(
    components: Sequence[Factor], blocks: Blocks, center: Center = ()
) -> NDArray[np.float64]:
    """Return A_m Φ_m(x) of all blocks, flattened and concatenated, one row per sample.

    The means in `center`, one per block or None, are subtracted from the samples first.
    """
    parts = zip(components, blocks.arrays, center or [None] * len(components), strict=True)
    rows = [apply_factor(A, array, mean) for A, array, mean in parts]
    return namespace(rows[0]).concat(rows, axis=1)


def row_distances(
    rows: NDArray[np.float64], index: NDArray[np.intp], chunk_numbers: int = CHUNK_NUMBERS
) -> NDArray[np.float64]:
    """Return the Euclidean distances of pairs of rows, computed in chunks."""
    return namespace(rows).sqrt(row_squares(rows, index, chunk_numbers=chunk_numbers))


def row_squares(
    rows: Array, index: Indices, sign: int = 1, chunk_numbers: int = CHUNK_NUMBERS
) -> Array:
    """Return ‖x − y‖² of pairs of rows, or ‖x + y‖² for the sign −1, computed in chunks."""
    xp, squares = namespace(rows), [rows[:0, 0]]
    step = max(1, chunk_numbers // max(1, rows.shape[1]))
    for start in range(0, len(index), step):
        first, second = (asarray(side, rows) for side in index[start : start + step].T)
        one, other = xp.take(rows, first, axis=0), xp.take(rows, second, axis=0)
        combined = one - other if sign > 0 else one + other
        squares.append(xp.linalg.vecdot(combined, combined))
    return xp.concat(squares)


def check_distances(
    distances: NDArray[np.float64], blocks: Blocks, name: str
) -> NDArray[np.float64]:
    """Return the distances, and raise an error if one of them is not finite."""
    wrong = np.flatnonzero(~to_numpy(namespace(distances).isfinite(distances)))
    if len(wrong):
        largest = max(float(np.max(np.abs(array))) for array in blocks.arrays)
        raise ValueError(
            f"{name}: expected samples whose squared distance a float can hold, got entries of up "
            f"to {largest:g}, with {distances[wrong[0]]} as the distance of pair {wrong[0]}; "
            f"rescale {name} as in fit"
        )
    return distances


def apply_factor(
    A: Factor, array: NDArray, mean: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return A times every matrix of a block, minus a mean, flattened to one row per sample."""
    if mean is not None and isinstance(array, SparseBlock):
        return apply_factor(A, array) - apply_factor(A, np.reshape(mean, (1, -1, 1)))
    if mean is not None:
        step, mean = max(1, CACHED_NUMBERS // max(1, prod(mean.shape))), asarray(mean, array)
        if type(array) is not np.ndarray or len(array) <= step:
            return apply_factor(A, array - mean)
        rows = np.empty((len(array), len(A) * array.shape[2]))
        for part in gen_batches(len(array), step):  # chunks that fit into the cache
            rows[part] = apply_factor(A, array[part] - mean)
        return rows
    if isinstance(A, SpanFactor):
        return A.embed(array)
    if isinstance(array, SparseBlock):
        return array.table @ A.T
    (n_samples, _, width), xp, A = array.shape, namespace(array), asarray(A, array)
    if width == 1:
        return array[:, :, 0] @ A.T
    return xp.reshape(xp.matmul(A, array), (n_samples, prod((A.shape[0], width))))


def squared_distances(
    A: Factor, array: Any, index: NDArray[np.intp], mean: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the part of one block in the squared distances of pairs."""
    if isinstance(A, SpanFactor) and isinstance(array, SparseBlock) and A.span.whitening is None:
        return A.squared_distances(array, index)
    return row_squares(apply_factor(A, array, mean), index)


def squared_sums(A: Factor, array: Any, mean: Doubles | None, index: Indices) -> Doubles:
    """Return ‖A(x + y − 2 mean)‖² of one block and pairs of samples x and y."""
    assert mean is not None
    if isinstance(A, SpanFactor) and isinstance(array, SparseBlock):
        return A.squared_sums(array, index, mean)
    return row_squares(apply_factor(A, array, mean), index, sign=-1)


# Thresholds of given distances, by TATML's criterion


def threshold_of(b0: float, margin: tuple[float, float]) -> float:
    """Return the geometric mean of the margins √(γ_s b0) and √(γ_d b0)."""
    return sqrt(max(b0, 0.0) * sqrt(margin[0] * margin[1]))  # theory (T)


def b0_of(threshold: float, margin: tuple[float, float]) -> float:
    """Return the b0 that belongs to a threshold, the inverse of `threshold_of`."""
    return threshold * threshold / sqrt(margin[0] * margin[1])  # theory (T)


def learn_b0(
    squared: Doubles,
    pairs: Pairs,
    margin: tuple[float, float],
    strength: float,
    mu0: float | None = None,
) -> float:
    """Return the b0 that minimises TATML's criterion for fixed squared distances.

    The criterion is Σ_k w_k [y_k (D_k − γ_k b0)]_+² / Σ_k w_k + ρ (b0 − μ0)², where ρ is
    `strength`. The default of μ0 is the b0 of the root mean squared distance.
    """
    weights = np.ones(len(pairs)) if pairs.weights is None else pairs.weights
    unit = float(np.average(squared, weights=weights))  # makes the result independent of units
    if unit == 0:
        if mu0 is None:
            return 0.0
        unit = mu0
    share = Pairs(pairs.index, pairs.similar, weights / weights.sum())  # theory (B0)
    centre = b0_of(1.0, margin) if mu0 is None else mu0 / unit
    loss = squared_hinge(share, 1.0, margin)
    return unit * best_threshold(squared / unit, loss, strength, centre)


def some_of_each_kind(pairs: Pairs, most: int = MOST_CHECKED) -> Pairs:
    """Return at most `most` pairs of each kind, evenly spaced among those of positive weight."""
    counts = np.ones(len(pairs), dtype=bool) if pairs.weights is None else pairs.weights > 0
    rows = [np.flatnonzero(counts & (pairs.similar == kind)) for kind in (True, False)]
    return pairs.take(np.concatenate([some[:: -(-len(some) // most) or 1] for some in rows]))


def is_one_sided(distances: Doubles, similar: NDArray[np.bool_], threshold: float) -> bool:
    """Return whether nearly all pairs of both kinds are on one side of a threshold.

    Fewer than ten pairs of a kind do not count.
    """
    if min(np.sum(similar), np.sum(~similar)) < LEAST_CHECKED:
        return False
    below = _shares_below(distances, similar, threshold)
    return min(below) >= ONE_SIDED or max(below) <= 1 - ONE_SIDED


def warn_if_one_sided(distances: Doubles, similar: NDArray[np.bool_], threshold: float) -> None:
    """Warn if nearly all training pairs of both kinds are on one side of a threshold."""
    if not is_one_sided(distances, similar, threshold):
        return
    near, far = _shares_below(distances, similar, threshold)
    better, accuracy = _most_accurate(distances, similar)
    advice = (
        f"The threshold {better:.3g} has a balanced accuracy of {accuracy:.2f} on these pairs: "
        "call calibrate_threshold with held-out pairs, or set_threshold"
    )
    if accuracy < LEAST_ACCURACY:
        advice = f"No threshold has a balanced accuracy above {accuracy:.2f} on these pairs"
    warn_user(
        f"threshold_: {threshold:.3g} separates hardly any training pairs: {100 * near:.0f} % of "
        f"the similar and {100 * far:.0f} % of the dissimilar ones are closer. {advice}"
    )


def _shares_below(
    distances: Doubles, similar: NDArray[np.bool_], threshold: float
) -> tuple[float, float]:
    """Return which shares of the similar and of the dissimilar pairs are closer."""
    below = distances < threshold
    return float(np.mean(below[similar])), float(np.mean(below[~similar]))


def _most_accurate(distances: Doubles, similar: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the threshold with the largest balanced accuracy, and this accuracy."""
    near, far = (np.sort(distances[kind]) for kind in (similar, ~similar))
    ends = np.unique(distances)  # beyond all of them, the accuracy is that below the first
    correct = np.searchsorted(near, ends) / len(near) + 1 - np.searchsorted(far, ends) / len(far)
    best = int(np.argmax(correct))
    return float((ends[max(best - 1, 0)] + ends[best]) / 2), float(correct[best] / 2)
