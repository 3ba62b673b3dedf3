"""From the pixels of images to covariance matrices, with little memory beside the images.

The images are taken some at a time, and large ones in strips of rows, so that the features of the
pixels in work stay in a processor's cache. What is kept of them are sums over the pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from .._array import symmetrised
from ._inputs import ImageGroup
from ._pixel_features import COLOURS, FEATURES, Feature, Strip
from ._resampling import Resampler, scaled_size
from ._shrinkage import (
    Moments,
    Shrinkage,
    add_diagonal,
    centre,
    estimate,
    sum_products,
    sum_quartics,
)
from ._workspace import Workspace

__all__ = ["Plan", "Recipe", "describe", "make_plan"]

Floats = NDArray[np.floating]

SMALLEST_SIDE = 3  # in pixels: what a second difference needs
BYTES_AT_ONCE = 2_000_000  # of features in work: few calls, and most of it in the cache
BYTES_OF_MANY = 4_000_000  # the same for one of several threads, which then wait less often
FEWEST_ROWS = 8  # of a strip, so that the rows around it cost little
BYTES_TO_KEEP = 8_000_000  # of pixels that are read once for all scales


@dataclass(frozen=True)
class Recipe:
    """The parameters of a descriptor, checked."""

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
        """How many regions an image is cut into."""
        return self.regions[0] * self.regions[1]

    @property
    def n_blocks(self) -> int:
        """One for each scale and region."""
        return len(self.scales) * self.n_regions


@dataclass(frozen=True)
class Level:
    """The images of a group at one scale.

    Attributes
    ----------
    scale : float
    height, width : int
        In pixels at this scale.
    row_edges, column_edges : sequences of int
        Where the regions begin and end.
    resampler : Resampler or None
        From the size that the images came in; None where they keep it.
    """

    scale: float
    height: int
    width: int
    row_edges: Sequence[int]
    column_edges: Sequence[int]
    resampler: Resampler | None


@dataclass(frozen=True)
class Plan:
    """What is to be done with the images of a group.

    In memory, the planes of the channels lie in front of the other features, so that channels that
    are features need not be copied.

    Attributes
    ----------
    group : ImageGroup
    recipe : Recipe
    levels : sequence of Level
    features : sequence of Feature
        Those of the recipe in the order in memory.
    n_shared : int
        How many of them are the planes: all or none.
    bytes_at_once : int
        How many bytes of features to have in work.
    """

    group: ImageGroup
    recipe: Recipe
    levels: Sequence[Level]
    features: Sequence[Feature]
    n_shared: int
    bytes_at_once: int

    @property
    def order(self) -> list[int]:
        """Where the features of the recipe are in memory."""
        return [self.features.index(feature) for feature in self.recipe.features]

    @property
    def units(self) -> Floats:
        """What the features in memory have to be multiplied with, of shape (d,)."""
        return np.array([feature.unit(self.group.unit) for feature in self.features])

    @property
    def images_at_once(self) -> int:
        """How many images to take together; 0 if one is too large."""
        height, width, _ = self.group.shape
        return self.bytes_at_once // (8 * len(self.features) * height * width)

    def rows_at_once(self, level: Level) -> int:
        """How many rows of the images to take together."""
        if self.images_at_once > 0:
            return level.height
        return max(FEWEST_ROWS, self.bytes_at_once // (8 * len(self.features) * level.width))


def make_plan(group: ImageGroup, recipe: Recipe, n_threads: int = 1) -> Plan:
    """Prepare for the images of a group, or raise an error where they do not suffice."""
    _check_colours(group, recipe)
    names = {feature.name for feature in recipe.features}
    planes = [FEATURES[name] for name in (COLOURS if group.shape[-1] == 3 else ("intensity",))]
    shared = planes if all(plane.name in names for plane in planes) else []
    others = [feature for feature in recipe.features if feature not in shared]
    levels = [_make_level(group, recipe, scale) for scale in recipe.scales]
    bytes_at_once = BYTES_AT_ONCE if n_threads == 1 else BYTES_OF_MANY
    return Plan(group, recipe, levels, [*shared, *others], len(shared), bytes_at_once)


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


def describe(plan: Plan, images: range, out: list[Floats], spare: list[Workspace]) -> None:
    """Write the covariances of some images of a group into the blocks, in the rows of the samples.

    The blocks are ordered by scale, then by the row, then by the column of the region. A spare
    workspace is taken where there is one, and given back.
    """
    recipe, samples = plan.recipe, plan.group.samples[images.start : images.stop]
    workspace = spare.pop() if spare else Workspace()
    moments = _moments(plan, images, workspace)
    spare.append(workspace)
    _check_counts(plan, moments.count, samples)
    covariance = estimate(moments, recipe.shrinkage)[..., plan.order, :][..., plan.order]
    add_diagonal(covariance, recipe.diagonal, recipe.diagonal_relative)
    for block, matrices in zip(out, covariance, strict=True):
        block[samples] = matrices


def _moments(plan: Plan, images: range, workspace: Workspace) -> Moments:
    """The moments of the features in memory, for each block and image."""
    d, shape = len(plan.features), (plan.recipe.n_blocks, len(images))
    sums, count = np.zeros((*shape, d, d + 1)), np.zeros(shape)
    for block, rows, points in _points(plan, images, workspace):
        sums[block, rows] += sum_products(points)
        count[block, rows] += points[:, -1].sum(axis=-1)
    moments = Moments.from_sums(sums, count)
    again = np.any(moments.cancelled, axis=0)
    fourth = plan.recipe.shrinkage == "ledoit_wolf"
    scatter = plan.units[:, None] * plan.units * moments.scatter
    moments = replace(moments, scatter=scatter)
    if fourth or np.any(again):
        return _centred_moments(plan, images, workspace, moments, again | fourth)
    return moments


def _centred_moments(
    plan: Plan, images: range, workspace: Workspace, moments: Moments, again: NDArray[np.bool_]
) -> Moments:
    """A second look at some of the images, where the mean is subtracted first."""
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
    """The pixels as extended points (n_images, d + 1, n_points), with the block and the images.

    Images are left out where no image that is taken together with them is wanted.
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
    """The points of each region, strip by strip."""
    for top, values in chunk.strips(level):
        rows = [min(max(edge - top, 0), values.shape[2]) for edge in level.row_edges]
        cells = product(pairwise(rows), pairwise(level.column_edges))
        for region, ((upper, lower), (left, right)) in enumerate(cells):
            if upper < lower:
                cell = values[:, :, upper:lower, left:right]
                yield region, cell.reshape(*values.shape[:2], -1).swapaxes(0, 1)


class _Chunk:
    """Some images of a group, or one that is so large that only strips of it are in memory."""

    def __init__(self, plan: Plan, start: int, stop: int, workspace: Workspace) -> None:
        self.plan, self.start, self.stop, self.workspace = plan, start, stop, workspace
        self._whole: Floats | None = None  # the planes, once they have been read

    def strips(self, level: Level) -> Iterator[tuple[int, Floats]]:
        """The first row of a strip, and its features (d + 1, n_images, n_rows, width).

        The last of the d + 1 is 1 at each pixel; outside a mask, all of them are 0.
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


def _check_colours(group: ImageGroup, recipe: Recipe) -> None:
    asked = [feature.name for feature in recipe.features if feature.name in COLOURS]
    if asked and group.shape[-1] == 1:
        raise ValueError(
            f"features: expected images of 3 channels for {asked[0]!r}, got 1 channel in sample "
            f"{group.samples[0]}"
        )


def _check_size(group: ImageGroup, recipe: Recipe, level: Level) -> None:
    sample, (height, width) = group.samples[0], group.shape[:2]
    if min(level.height, level.width) < SMALLEST_SIDE:
        raise ValueError(
            f"X: expected images of at least {SMALLEST_SIDE}×{SMALLEST_SIDE} pixels at every "
            f"scale, got {level.height}×{level.width} at scale {level.scale:g} in sample "
            f"{sample}, which has {height}×{width}"
        )
    rows, columns = (
        min(stop - start for start, stop in pairwise(edges))
        for edges in (level.row_edges, level.column_edges)
    )
    if rows * columns <= recipe.n_features:
        raise ValueError(
            f"regions: expected more than {recipe.n_features} pixels in each, the number of "
            f"features, got {rows}×{columns} at scale {level.scale:g} in sample {sample}, which "
            f"has {height}×{width}"
        )


def _check_counts(plan: Plan, count: Floats, samples: NDArray[np.intp]) -> None:
    """With masks, the number of pixels is known only now."""
    d = plan.recipe.n_features
    if np.min(count) > d:
        return
    image, block = np.argwhere((count <= d).T)[0]
    level = plan.levels[block // plan.recipe.n_regions]
    raise ValueError(
        f"masks: expected more than {d} pixels in each region, the number of features, got "
        f"{count[block, image]:.0f} at scale {level.scale:g} in sample {samples[image]}"
    )
