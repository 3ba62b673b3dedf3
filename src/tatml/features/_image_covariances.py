"""From the pixels of images to covariance matrices, with little memory besides the images.

Images are processed in chunks, and large images in strips of rows, so that the features in memory
fit into the cache of a processor. Only sums over the pixels are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array import Floats, symmetrised
from ._inputs import ImageGroup
from ._pixels import COLOURS, FEATURES, Feature, Resampler, Strip, Workspace, scaled_size
from ._shrinkage import (
    Moments,
    Shrinkage,
    add_diagonal,
    centre,
    estimate,
    sum_products,
    sum_quartics,
)

SMALLEST_SIDE = 3  # smallest side of an image in pixels: a second difference needs three
TASKS_PER_THREAD = 4  # so that no thread waits long for another at the end
LONGEST_TASK = 1000  # images per task, which limits the sums held in memory


@dataclass(frozen=True)
class MemoryLimits:
    """Limits of what one thread processes at a time.

    Attributes
    ----------
    bytes_at_once : int
        Size of the features in memory. Larger values mean fewer calls, smaller ones fewer cache
        misses.
    fewest_rows : int
        Smallest height of a strip, so that computing the rows around it again costs little.
    """

    bytes_at_once: int
    fewest_rows: int = 8


ONE_THREAD = MemoryLimits(2_000_000)
SEVERAL_THREADS = MemoryLimits(4_000_000)  # larger, so that the threads wait less often


@dataclass(frozen=True)
class Recipe:
    """The validated parameters of a descriptor."""

    features: tuple[Feature, ...]
    scales: tuple[float, ...]
    regions: tuple[int, int]
    shrinkage: Shrinkage
    diagonal: float
    diagonal_relative: bool

    @property
    def n_features(self) -> int:
        """The size d of the matrices."""
        return len(self.features)

    @property
    def n_regions(self) -> int:
        """The number of regions per image."""
        return self.regions[0] * self.regions[1]

    @property
    def n_blocks(self) -> int:
        """The number of blocks: one per scale and region."""
        return len(self.scales) * self.n_regions


@dataclass(frozen=True)
class Level:
    """The images of a group at one scale.

    Attributes
    ----------
    scale : float
    height, width : int
        Size in pixels at this scale.
    row_edges, column_edges : sequences of int
        Where the regions begin and end.
    resampler : Resampler or None
        Resamples from the original size; None if the size does not change.
    """

    scale: float
    height: int
    width: int
    row_edges: Sequence[int]
    column_edges: Sequence[int]
    resampler: Resampler | None


@dataclass(frozen=True)
class Plan:
    """The steps that process the images of one group.

    In memory, the planes of the channels precede the other features, so that channels that are
    features need not be copied.

    Attributes
    ----------
    group : ImageGroup
    recipe : Recipe
    levels : sequence of Level
    features : sequence of Feature
        The features of the recipe in the order in memory.
    n_shared : int
        How many of the features are planes of channels: all planes or none.
    limits : MemoryLimits
    """

    group: ImageGroup
    recipe: Recipe
    levels: Sequence[Level]
    features: Sequence[Feature]
    n_shared: int
    limits: MemoryLimits

    @property
    def order(self) -> list[int]:
        """The position in memory of each feature of the recipe."""
        return [self.features.index(feature) for feature in self.recipe.features]

    @property
    def units(self) -> Floats:
        """The factor of each feature in memory, of shape (d,)."""
        return np.array([feature.unit(self.group.unit) for feature in self.features])

    @property
    def images_at_once(self) -> int:
        """The number of images per chunk; 0 if a single image exceeds the limit."""
        height, width, _ = self.group.shape
        return self.limits.bytes_at_once // (8 * len(self.features) * height * width)

    def rows_at_once(self, level: Level) -> int:
        """Return the number of rows per strip."""
        if self.images_at_once > 0:
            return level.height
        n_rows = self.limits.bytes_at_once // (8 * len(self.features) * level.width)
        return max(self.limits.fewest_rows, n_rows)


def make_plan(
    group: ImageGroup, recipe: Recipe, n_threads: int = 1, limits: MemoryLimits | None = None
) -> Plan:
    """Return the plan for a group; raise an error if its images are too small or lack colour."""
    asked = [feature.name for feature in recipe.features if feature.name in COLOURS]
    if asked and group.shape[-1] == 1:
        raise ValueError(
            f"features: expected images of 3 channels for {asked[0]!r}, got 1 channel in sample "
            f"{group.samples[0]}"
        )
    names = {feature.name for feature in recipe.features}
    planes = [FEATURES[name] for name in (COLOURS if group.shape[-1] == 3 else ("intensity",))]
    shared = planes if all(plane.name in names for plane in planes) else []
    others = [feature for feature in recipe.features if feature not in shared]
    levels = [_make_level(group, recipe, scale) for scale in recipe.scales]
    if limits is None:
        limits = ONE_THREAD if n_threads == 1 else SEVERAL_THREADS
    return Plan(group, recipe, levels, [*shared, *others], len(shared), limits)


def _make_level(group: ImageGroup, recipe: Recipe, scale: float) -> Level:
    shape = group.shape[:2]
    height, width = (scaled_size(size, scale) for size in shape)
    row_edges, column_edges = (
        [size * k // n for k in range(n + 1)]
        for size, n in zip((height, width), recipe.regions, strict=True)
    )
    resampler = None
    if (height, width) != shape and min(height, width) >= SMALLEST_SIDE:
        resampler = Resampler.between(shape, (height, width))
    level = Level(scale, height, width, row_edges, column_edges, resampler)
    _check_size(group, recipe, level)
    return level


def _check_size(group: ImageGroup, recipe: Recipe, level: Level) -> None:
    sample, (height, width) = group.samples[0], group.shape[:2]
    if min(level.height, level.width) < SMALLEST_SIDE:
        raise ValueError(
            f"X: expected images of at least {SMALLEST_SIDE}×{SMALLEST_SIDE} pixels at every "
            f"scale, got {level.height}×{level.width} at scale {level.scale:g} in sample "
            f"{sample}, whose size is {height}×{width}"
        )
    rows, columns = (
        min(stop - start for start, stop in pairwise(edges))
        for edges in (level.row_edges, level.column_edges)
    )
    if rows * columns <= recipe.n_features:
        raise ValueError(
            f"regions: expected more than {recipe.n_features} pixels per region, the number of "
            f"features, got {rows}×{columns} at scale {level.scale:g} in sample {sample}, whose "
            f"size is {height}×{width}"
        )


def compute_descriptors(
    plans: Sequence[Plan], n_threads: int = 1, verbose: bool = False
) -> list[Floats]:
    """Return the covariance matrices of all images, one array (n_images, d, d) per block.

    If `verbose`, the number of images done is printed after each task.
    """
    recipe, n_images = plans[0].recipe, sum(len(plan.group.samples) for plan in plans)
    d = recipe.n_features
    blocks: list[Floats] = [np.empty((n_images, d, d)) for _ in range(recipe.n_blocks)]
    spare: list[Workspace] = []  # at the end, one workspace per thread
    tasks = [
        (plan, images, blocks, spare) for plan in plans for images in _split_images(plan, n_threads)
    ]
    n_done = 0
    for (_, images, *_), _ in zip(
        tasks, _run_in_threads(_write_covariances, tasks, n_threads), strict=True
    ):
        n_done += len(images)
        if verbose:
            print(f"[CovarianceDescriptor] {n_done} of {n_images} images")
    return blocks


def _run_in_threads(function: Callable, tasks: Sequence[tuple], n_threads: int) -> Iterator[Any]:
    """Yield the result of the function for each task, in order."""
    if n_threads == 1:
        yield from (function(*task) for task in tasks)
        return
    pool = ThreadPoolExecutor(n_threads)
    try:
        yield from pool.map(lambda task: function(*task), tasks)
    finally:  # after an error, the remaining tasks are cancelled
        pool.shutdown(cancel_futures=True)


def _split_images(plan: Plan, n_threads: int) -> Iterator[range]:
    """Yield ranges of images for the threads, in whole multiples of a chunk."""
    n_images, step = len(plan.group.samples), max(1, plan.images_at_once)
    length = min(-(-n_images // (n_threads * TASKS_PER_THREAD)), LONGEST_TASK)
    length = step * -(-length // step)
    for start in range(0, n_images, length):
        yield range(start, min(start + length, n_images))


def _write_covariances(
    plan: Plan, images: range, out: list[Floats], spare: list[Workspace]
) -> None:
    """Write the covariances of some images of a group into the rows of their samples.

    The blocks are ordered by scale, then by the row, then by the column of the region. A spare
    workspace is used if there is one, and put back afterwards.
    """
    recipe, samples = plan.recipe, plan.group.samples[images.start : images.stop]
    workspace = spare.pop() if spare else Workspace()
    moments = _moments(plan, images, workspace)
    spare.append(workspace)
    _check_pixel_counts(plan, moments.count, samples)
    covariance = estimate(moments, recipe.shrinkage)[..., plan.order, :][..., plan.order]
    add_diagonal(covariance, recipe.diagonal, recipe.diagonal_relative)
    for block, matrices in zip(out, covariance, strict=True):
        block[samples] = matrices


def _moments(plan: Plan, images: range, workspace: Workspace) -> Moments:
    """Return the moments of the features in memory, per block and image."""
    d, shape = len(plan.features), (plan.recipe.n_blocks, len(images))
    sums, count = np.zeros((*shape, d, d + 1)), np.zeros(shape)
    for block, rows, points in _points(plan, images, workspace):
        sums[block, rows] += sum_products(points)
        count[block, rows] += points[:, -1].sum(axis=-1)
    moments = Moments.from_sums(sums, count)
    imprecise = np.any(moments.cancelled, axis=0)
    fourth = plan.recipe.shrinkage == "ledoit_wolf"
    scatter = plan.units[:, None] * plan.units * moments.scatter
    moments = replace(moments, scatter=scatter)
    if fourth or np.any(imprecise):
        return _centred_moments(plan, images, workspace, moments, imprecise | fourth)
    return moments


def _centred_moments(
    plan: Plan, images: range, workspace: Workspace, moments: Moments, again: NDArray[np.bool_]
) -> Moments:
    """Compute the moments of some images again, after subtracting the mean."""
    d, shape = len(plan.features), moments.count.shape
    sums, quartic = np.zeros((*shape, d, d + 1)), np.zeros(shape)
    for block, rows, points in _points(plan, images, workspace, again):
        centred = workspace.empty("centred", points.shape)  # the planes are still needed
        centred[...] = points
        centre(centred, moments.mean[block, rows])
        centred[:, :-1] *= plan.units[:, None]
        sums[block, rows] += sum_products(centred)
        quartic[block, rows] += sum_quartics(centred)
    scatter = np.where(again[:, None, None], symmetrised(sums[..., :-1]), moments.scatter)
    return Moments(moments.count, moments.mean, scatter, quartic)


def _points(
    plan: Plan, images: range, workspace: Workspace, wanted: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, slice, Floats]]:
    """Yield the block, the rows of the images and their pixels as extended points.

    The points have the shape (n_images, d + 1, n_points). Chunks without a wanted image are
    skipped.
    """
    step = max(1, plan.images_at_once)
    for start in images[::step]:
        stop = min(start + step, images.stop)
        rows = slice(start - images.start, stop - images.start)
        if wanted is None or np.any(wanted[rows]):
            chunk = _Chunk(plan, start, stop, workspace)
            for k, level in enumerate(plan.levels):
                for region, points in _cells(chunk, level):
                    yield k * plan.recipe.n_regions + region, rows, points


def _cells(chunk: _Chunk, level: Level) -> Iterator[tuple[int, Floats]]:
    """Yield the region and its points, strip by strip."""
    for top, values in chunk.strips(level):
        rows = [min(max(edge - top, 0), values.shape[2]) for edge in level.row_edges]
        cells = product(pairwise(rows), pairwise(level.column_edges))
        for region, ((upper, lower), (left, right)) in enumerate(cells):
            if upper < lower:
                cell = values[:, :, upper:lower, left:right]
                yield region, cell.reshape(*values.shape[:2], -1).swapaxes(0, 1)


class _Chunk:
    """Some images of a group, or one large image of which only strips are in memory."""

    def __init__(self, plan: Plan, start: int, stop: int, workspace: Workspace) -> None:
        self.plan, self.start, self.stop, self.workspace = plan, start, stop, workspace
        self._whole: Floats | None = None  # the planes, once they have been read

    def strips(self, level: Level) -> Iterator[tuple[int, Floats]]:
        """Yield the first row of each strip and its features (d + 1, n_images, n_rows, width).

        The last feature is 1 at each pixel; outside a mask, all features are 0.
        """
        step = self.plan.rows_at_once(level)
        reach = max(feature.reach for feature in self.plan.features)
        for top in range(0, level.height, step):
            bottom = min(top + step, level.height)
            first, last = max(0, top - reach), min(level.height, bottom + reach)
            values = self._features(level, first, last)
            if self.plan.group.masks is not None:
                out = self.workspace.empty("masked", values.shape)  # the planes are still needed
                values = np.multiply(values, self._masks(level, first, last), out=out)
            yield top, values[:, :, top - first : bottom - first]

    def _features(self, level: Level, top: int, bottom: int) -> Floats:
        n_planes, n_shared = self.plan.group.shape[-1], self.plan.n_shared
        n_values = n_planes - n_shared + len(self.plan.features) + 1
        shape = (n_values, self.stop - self.start, bottom - top, level.width)
        values = self.workspace.empty(f"values at scale {level.scale}", shape)
        planes = values[:n_planes]
        self._write_planes(level, top, bottom, planes)
        strip = Strip(planes, top, level.height, self.workspace)
        for feature, out in zip(self.plan.features[n_shared:], values[n_planes:-1], strict=True):
            feature.write(strip, out)
        values[-1] = 1.0
        return values[n_planes - n_shared :]

    def _write_planes(self, level: Level, top: int, bottom: int, out: Floats) -> None:
        if level.resampler is None:
            self._read(top, out)
            return
        first, last = level.resampler.rows_needed(top, bottom)
        planes = self._whole
        if planes is None:
            shape = (len(out), self.stop - self.start, last - first, self.plan.group.shape[1])
            planes = self._read(first, self.workspace.empty("planes", shape))
        level.resampler(planes, top, bottom, out, self.workspace)

    def _read(self, top: int, out: Floats) -> Floats:
        self.plan.group.read_planes(self.start, self.stop, top, out)
        if self.plan.images_at_once > 0:
            self._whole = out
        return out

    def _masks(self, level: Level, top: int, bottom: int) -> NDArray[np.bool_]:
        read = self.plan.group.read_masks
        if level.resampler is None:
            return read(self.start, self.stop, top, bottom)
        first, last = level.resampler.rows_needed(top, bottom)
        masks = read(self.start, self.stop, first, last).astype(float)
        out = np.empty((self.stop - self.start, bottom - top, level.width))
        return level.resampler(masks, top, bottom, out, self.workspace) > 0.5


def _check_pixel_counts(plan: Plan, count: Floats, samples: NDArray[np.intp]) -> None:
    """Raise an error if a mask leaves too few pixels in a region."""
    d = plan.recipe.n_features
    if np.min(count) > d:
        return
    image, block = np.argwhere((count <= d).T)[0]
    level = plan.levels[block // plan.recipe.n_regions]
    raise ValueError(
        f"masks: expected more than {d} pixels per region, the number of features, got "
        f"{count[block, image]:.0f} at scale {level.scale:g} in sample {samples[image]}"
    )
