"""MetricMixin: the methods of metrics with `components_`, Euclidean after `transform`."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod, sqrt
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._array import Array, asarray, to_numpy
from .._data.arrays import as_real_array
from .._data.blocks import Blocks
from .._messages import shown
from .._validation import as_list, check_count, check_flag
from ..features._kernel_map import KernelMap, name_images
from .device_inputs import place_blocks, place_of_samples
from .embedding import (
    Center,
    Factor,
    check_distances,
    distances_of,
    embed_blocks,
    squared_distances,
)
from .inputs import index_pairs, pair_samples, samples_of
from .pair_judge import PairJudge
from .reduction import MetricPrior
from .scatters import around_mean, mean_square
from .seen_samples import center_of
from .span import SpanFactor, SpanResult, too_large


class LearntMetric:
    """The learnt distance as a function of two samples, returned by `get_metric`.

    It has its own copy of the components, so refitting the estimator does not change it. For many
    pairs `pair_distance` is much faster, and for nearest neighbours `transform` is.
    """

    def __init__(
        self,
        components: Sequence[Factor],
        shapes: Sequence[tuple[int, int]],
        kernel_map: KernelMap | None = None,
    ):
        self.components = [
            factor if isinstance(factor, SpanFactor) else np.array(factor, ndmin=2)
            for factor in components
        ]
        self.shapes = list(shapes)
        if kernel_map is None:  # users may have replaced `components_`, as metric-learn's tests do
            parts = zip(self.components, shapes, strict=True)
            self.shapes = [(factor.shape[1], width) for factor, (_, width) in parts]
        self.kernel_map = kernel_map

    def __call__(self, u: Any, v: Any, squared: bool = False) -> float:
        """Return the distance of two samples: vectors, matrices, or one matrix per block."""
        squared = check_flag("squared", squared)
        members = [self._sample(u), self._sample(v)]
        with np.errstate(all="ignore"):  # a total that is not finite is refused below
            total = sum(
                float(np.sum((component @ (a - b)) ** 2))
                for component, a, b in zip(self.components, *members, strict=True)
            )
        if not isfinite(total):
            raise ValueError(
                "u, v: expected finite numbers whose distance a float can hold, got samples at a "
                f"squared distance of {total}"
            )
        return total if squared else sqrt(total)

    def _sample(self, values: Any) -> list[NDArray[np.float64]]:
        parts = [values]
        if len(self.shapes) > 1:
            what = f"one matrix for each of {len(self.shapes)} blocks"
            parts = as_list("u, v", values, what)
            if len(parts) != len(self.shapes):
                raise ValueError(f"u, v: expected {what}, got {len(parts)}")
        sample = [_as_matrix(part, shape) for part, shape in zip(parts, self.shapes, strict=True)]
        if self.kernel_map is None:
            return sample
        mapped = self.kernel_map.map_blocks(Blocks(*(matrix[None] for matrix in sample)))
        return [array[0] for array in mapped.arrays]


def _as_matrix(values: Any, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return one sample of a block; it may be given flat, and a 1×1 sample as a number."""
    array = values
    # Neighbour searches call this often: do not convert what is an array already.
    if type(values) is not np.ndarray or values.dtype != np.float64:
        array = as_real_array(values, "u, v").astype(np.float64, copy=False)
    size = prod(shape)
    if array.shape not in {shape, (size,), (1, size)} and not array.size == size == 1:
        raise ValueError(f"u, v: expected a sample of shape {shape} as in fit, got {array.shape}")
    return array.reshape(shape)


class _NotFormed:
    """A descriptor that says why an estimator has no square matrix, if its block is too large."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        result = None if instance is None else vars(instance).get("result_")
        if isinstance(result, SpanResult):
            raise AttributeError(too_large(self.name, max(n for n, _ in instance.block_shapes_)))
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}")


class MetricMixin(PairJudge, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Mixin of metrics with `components_`: the Euclidean distance after `transform`."""

    kernel_map_: KernelMap | None = None  # set by estimators with the parameter `kernel`
    _place: Any = None  # during a fit, an array on the device of the samples; None for the host
    # Attributes of an instance, which hide these.
    components_: Any = _NotFormed()
    prior_: Any = _NotFormed()

    def transform(self, X: Blocks | ArrayLike) -> NDArray:
        """Embed samples so that their Euclidean distance is the learnt distance.

        Parameters
        ----------
        X : Blocks, or array-like of shape (n_samples, n) or (n_samples, n, n')
            Samples of the same shape as in fit.

        Returns
        -------
        array of shape (n_samples, n_features_out)
            The product of `components_` and the matrix of each block, flattened, and concatenated
            over the blocks. For samples on a GPU it is computed there.
        """
        check_is_fitted(self)
        blocks = self._mapped(samples_of(self, X, reset=False))
        place = place_of_samples(self.preprocessor, X)
        rows = self._embed(self._samples_at(blocks, place))
        return rows if place is None else asarray(rows, place)

    def pair_distance(self, pairs: ArrayLike, X: Blocks | ArrayLike | None = None) -> NDArray:
        """Compute the learnt distance of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n) or (n_pairs, 2, n, n')
            Pairs of samples. With `X` or a preprocessor, index pairs of shape (n_pairs, 2).
        X : Blocks or array-like, optional
            The samples that index pairs refer to.

        Returns
        -------
        array of shape (n_pairs,)
            Distances, not squared: they satisfy the triangle inequality. For samples on a GPU they
            are computed there.
        """
        check_is_fitted(self)
        blocks, index = self._pairs_of(pairs, X)
        place = place_of_samples(self.preprocessor, pairs if X is None else X)
        with np.errstate(over="ignore"):
            samples = self._samples_at(self._mapped(blocks), place)
            distances = distances_of(
                self._component_list(), samples, index, center=self._inner_center()
            )
        distances = check_distances(distances, blocks, "pairs" if X is None else "X")
        return distances if place is None else asarray(distances, place)

    def _pairs_of(self, pairs: ArrayLike, X: Any) -> tuple[Blocks, NDArray[np.intp]]:
        if X is None:
            return pair_samples(self, pairs, reset=False)
        blocks = samples_of(self, X, reset=False)
        return blocks, index_pairs(pairs, len(blocks))

    def _block_distances(self, pairs: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        """Return the part of each block in the squared distances, shape (n_blocks, n_pairs)."""
        blocks, index = self._pairs_of(pairs, X)
        arrays = self._mapped(blocks).arrays
        center = self._inner_center() or [None] * len(arrays)
        parts = zip(self._component_list(), arrays, center, strict=True)
        return np.stack([squared_distances(A, array, index, mean) for A, array, mean in parts])

    def get_metric(self) -> LearntMetric:
        """Return the learnt distance as a function of two samples.

        With ``squared=True`` the function returns the squared distance. Refitting the estimator
        does not change it.
        """
        check_is_fitted(self)
        return LearntMetric(self._component_list(), self.block_shapes_, self.kernel_map_)

    def get_mahalanobis_matrix(self) -> NDArray | list[NDArray]:
        """Return components_ᵀ components_: an array for one block, a list for several."""
        check_is_fitted(self)
        matrices = []
        for A in self._component_list():
            if isinstance(A, SpanFactor) or isinstance(vars(self).get("result_"), SpanResult):
                raise ValueError(too_large("get_mahalanobis_matrix", A.shape[1]))
            matrices.append(A.T @ A)
        return one_or_list(matrices)

    def _component_list(self) -> Sequence[Factor]:
        factors: list[Factor] | None = vars(self).get("factors_")
        if factors is not None:
            return factors
        return [self.components_] if len(self._inner_shapes()) == 1 else list(self.components_)

    def _inner_shapes(self) -> tuple[tuple[int, int], ...]:
        """Return the shapes of the blocks that `components_` apply to."""
        if self.kernel_map_ is None:
            return self.block_shapes_
        return self.kernel_map_.block_shapes_out_

    def _block_names(self) -> list[str]:
        """Return a name for each inner block."""
        names, n_blocks = vars(self).get("block_names_in_"), len(self.block_shapes_)
        if self.kernel_map_ is None:
            return [f"block {m}" for m in range(n_blocks)] if names is None else list(names)
        n_images = self._n_images()
        return name_images(names or n_blocks, len(self._inner_shapes()) - n_images, n_images)

    def _row_names(self) -> list[tuple[str, ...] | None]:
        """Return the names of the rows of each inner block, None where they are not known."""
        n_kept = len(self._inner_shapes()) - self._n_images()
        names = vars(self).get("row_names_in_", (None,) * n_kept)
        columns = vars(self).get("feature_names_in_")
        if columns is not None:
            names = (tuple(str(name) for name in columns),)
        return [*names[:n_kept], *[None] * self._n_images()]

    def _n_images(self) -> int:
        """Return the number of inner blocks, at the end, that are kernel images."""
        return 0 if self.kernel_map_ is None else len(self.kernel_map_.maps_)

    def _mapped(self, blocks: Blocks) -> Blocks:
        """Return the samples that `components_` apply to: in the space of the kernel, if any."""
        return blocks if self.kernel_map_ is None else self.kernel_map_.map_blocks(blocks)

    def _samples_at(self, blocks: Blocks, place: Any) -> Blocks:
        """Copy samples to a device; those of wide blocks, whose spans are NumPy's, stay."""
        return blocks if "factors_" in vars(self) else place_blocks(blocks, place)

    def _inner_center(self) -> Center:
        """Return the mean of each inner block, None for images; nothing if they are not known."""
        center = center_of(self)
        n_kept = len(self._inner_shapes()) - self._n_images()
        return [*center[:n_kept], *[None] * self._n_images()] if center else []

    def _embed(self, blocks: Blocks) -> NDArray[np.float64]:
        return embed_blocks(self._component_list(), blocks)

    def _distances(self, blocks: Blocks, index: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the distances of index pairs, as a NumPy array."""
        samples = self._samples_at(blocks, self._place)
        center = self._inner_center()
        return to_numpy(distances_of(self._component_list(), samples, index, center=center))

    @property
    def _n_features_out(self) -> int:
        shapes = zip(self._component_list(), self._inner_shapes(), strict=True)
        return sum(len(A) * width for A, (_, width) in shapes)


def one_or_list(matrices: list[NDArray]) -> NDArray | list[NDArray]:
    """Return the only matrix of a list of one, and other lists as they are."""
    return matrices[0] if len(matrices) == 1 else matrices


def factors_of(
    L: Sequence[NDArray[np.float64]],
    prior: MetricPrior,
    blocks: Blocks,
    n_components: Any,
    as_many_as_possible: bool = False,
) -> list[Factor]:
    """Return A_m = L_mᵀ/√M of whole blocks, or its `n_components` leading principal axes.

    If samples span fewer dimensions than `n_components`, all of them are kept with
    `as_many_as_possible`; otherwise, axes outside the span are added to a matrix that is small
    enough, and refused for others.
    """
    counts = check_components(n_components, [n for n, _ in blocks.block_shapes])
    chosen: list[Factor] = []
    for m, (factor, count) in enumerate(zip(prior.factors(L), counts, strict=True)):
        if count is None:
            chosen.append(factor)
        elif not isinstance(factor, SpanFactor):
            chosen.append(_principal(factor, blocks.arrays[m], count))
        elif count <= len(factor.inner) or as_many_as_possible:
            axes = _principal(factor.inner.T, prior.samples.arrays[m], count)
            chosen.append(factor.span.as_rows(axes))
        elif prior.is_small:
            chosen.append(_principal(factor.matrix(), blocks.arrays[m], count))
        else:
            raise ValueError(
                f"n_components: expected at most the {len(factor.inner)} dimensions that the "
                f"samples of block {m} span, got {count}"
            )
    return chosen


def components_of(
    L: Sequence[NDArray[np.float64]], blocks: Blocks, n_components: Any
) -> list[NDArray[np.float64]]:
    """Return A_m = L_mᵀ/√M, or its `n_components` leading principal axes."""
    counts = check_components(n_components, [len(factor) for factor in L])
    components = []
    for lower, array, count in zip(L, blocks.arrays, counts, strict=True):
        factor = np.ascontiguousarray(lower.T) / np.sqrt(len(L))
        components.append(factor if count is None else _principal(factor, array, count))
    return components


def _principal(factor: NDArray, array: Array, count: int) -> NDArray:
    """Project the factor on the leading principal axes of the embedded samples."""
    rows = around_mean(array)
    axes = np.linalg.eigh(mean_square(rows @ asarray(factor.T, rows)))[1][:, ::-1][:, :count]
    return axes.T @ factor


def check_components(n_components: Any, sizes: Sequence[int]) -> list[int | None]:
    """Return the number of components of each block; None stands for all."""
    if n_components is None:
        return [None] * len(sizes)
    what = f"a number or one for each of {len(sizes)} blocks"
    if isinstance(n_components, Real):
        counts: list[Any] = [n_components] * len(sizes)
    else:
        counts = as_list("n_components", n_components, what)
    if len(counts) != len(sizes):
        raise ValueError(f"n_components: expected {what}, got {shown(n_components)}")
    for m, (count, size) in enumerate(zip(counts, sizes, strict=True)):
        if check_count("n_components", count) > size:
            raise ValueError(f"n_components: expected at most n = {size} in block {m}, got {count}")
    return counts
