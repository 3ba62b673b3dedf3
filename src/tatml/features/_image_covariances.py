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

from ._inputs import ImageGroup
from ._pixel_features import COLOURS, Feature, Strip
from ._resampling import Resampler, scaled_size
from ._shrinkage import (
    Moments,
    Shrinkage,
    add_diagonal,
    centre,
    estimate,
    sum_products,
    sum_quartics,
    symmetrised,
)
from ._workspace import Workspace

__all__ = ["Plan", "Recipe", "describe", "make_plan"]

Floats = NDArray[np.floating]

SMALLEST_SIDE = 3  # in pixels: what a second difference needs
BYTES_AT_ONCE = 4_000_000  # of features in work: few calls, and most of it in the cache
FEWEST_ROWS = 16  # of a strip, so that the rows around it cost little
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
    """What is to be done with the images of a group."""

    group: ImageGroup
    recipe: Recipe
    levels: Sequence[Level]

    @property
    def images_at_once(self) -> int:
        """How many images to take together."""
        height, width, _ = self.group.shape
        return max(1, BYTES_AT_ONCE // (8 * self.recipe.n_features * height * width))

    @property
    def units(self) -> Floats:
        """What the features have to be multiplied with, of shape (d,)."""
        return np.array([feature.unit(self.group.unit) for feature in self.recipe.features])


def make_plan(group: ImageGroup, recipe: Recipe) -> Plan:
    """The images of a group at every scale, or an error where they do not suffice."""
    _check_colours(group, recipe)
    levels = []
    for scale in recipe.scales:
        shape = group.shape[:2]
        height, width = (scaled_size(size, scale) for size in shape)
        edges = (
            [size * k // n for k in range(n + 1)]
            for size, n in zip((height, width), recipe.regions, strict=True)
        )
        resampler = None
        if (height, width) != shape and min(height, width) >= SMALLEST_SIDE:
            resampler = Resampler.between(shape, (height, width))
        level = Level(scale, height, width, *edges, resampler)
        _check_size(group, recipe, level)
        levels.append(level)
    return Plan(group, recipe, levels)


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
    covariance = estimate(moments, recipe.shrinkage)
    add_diagonal(covariance, recipe.diagonal, recipe.diagonal_relative)
    for block, matrices in zip(out, covariance, strict=True):
        block[samples] = matrices


def _moments(plan: Plan, images: range, workspace: Workspace) -> Moments:
    """The moments of the features, for each block and image."""
    d, shape = plan.recipe.n_features, (plan.recipe.n_blocks, len(images))
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
    d, shape = plan.recipe.n_features, moments.count.shape
    sums, quartic = np.zeros((*shape, d, d + 1)), np.zeros(shape)
    for block, rows, points in _points(plan, images, workspace, again):
        centre(points, moments.mean[block, rows])
        points[:, :-1] *= plan.units[:, None]
        sums[block, rows] += sum_products(points)
        quartic[block, rows] += sum_quartics(points)
    scatter = np.where(again[:, None, None], symmetrised(sums[..., :-1]), moments.scatter)
    return Moments(moments.count, moments.mean, scatter, quartic)


def _points(
    plan: Plan, images: range, workspace: Workspace, wanted: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, slice, Floats]]:
    """The pixels as extended points (n_images, d + 1, n_points), with the block and the images.

    Images are left out where no image that is taken together with them is wanted.
    """
    step = plan.images_at_once
    for start in images[::step]:
        stop = min(start + step, images.stop)
        rows = slice(start - images.start, stop - images.start)
        if wanted is None or np.any(wanted[rows]):
            pixels = _Pixels(plan.group, start, stop, workspace)
            for k, level in enumerate(plan.levels):
                for region, points in _cells(pixels, plan.recipe, level):
                    yield k * plan.recipe.n_regions + region, rows, points


def _cells(pixels: _Pixels, recipe: Recipe, level: Level) -> Iterator[tuple[int, Floats]]:
    """The points of each region, strip by strip."""
    for top, values in _strips(pixels, recipe, level):
        rows = [min(max(edge - top, 0), values.shape[2]) for edge in level.row_edges]
        cells = product(pairwise(rows), pairwise(level.column_edges))
        for region, ((upper, lower), (left, right)) in enumerate(cells):
            if upper < lower:
                cell = values[:, :, upper:lower, left:right]
                yield region, cell.reshape(*values.shape[:2], -1).swapaxes(0, 1)


class _Pixels:
    """The pixels of some images: read once where they are few, in strips where they are many."""

    def __init__(self, group: ImageGroup, start: int, stop: int, workspace: Workspace) -> None:
        self.group, self.start, self.stop = group, start, stop
        self.workspace = workspace
        height, width, n_channels = group.shape
        n_bytes = 8 * n_channels * (stop - start) * height * width
        self._all = self._read(0, height) if n_bytes <= BYTES_TO_KEEP else None

    def at(self, level: Level, top: int, bottom: int) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Rows at a scale: planes (n_channels, n_images, n_rows, width) and their masks."""
        if level.resampler is None:
            return self._rows(top, bottom)
        planes, masks = self._rows(*level.resampler.rows_needed(top, bottom))
        if masks is not None:
            masks = level.resampler(masks.astype(float), top, bottom, self.workspace) > 0.5
        return level.resampler(planes, top, bottom, self.workspace), masks

    def _rows(self, top: int, bottom: int) -> tuple[Floats, NDArray[np.bool_] | None]:
        if self._all is None:
            return self._read(top, bottom)
        planes, masks = self._all
        return planes[:, :, top:bottom], None if masks is None else masks[:, top:bottom]

    def _read(self, top: int, bottom: int) -> tuple[Floats, NDArray[np.bool_] | None]:
        where = self.start, self.stop, top, bottom
        masks = None if self.group.masks is None else self.group.read_masks(*where)
        return self.group.read_planes(*where, self.workspace), masks


def _strips(pixels: _Pixels, recipe: Recipe, level: Level) -> Iterator[tuple[int, Floats]]:
    """The features of some rows at a time: the first row, and (d + 1, n_images, n_rows, width).

    The last of the d + 1 is 1 at each pixel; outside a mask, all of them are 0.
    """
    d, n_images = recipe.n_features, pixels.stop - pixels.start
    step = max(FEWEST_ROWS, BYTES_AT_ONCE // (8 * d * n_images * level.width))
    reach = max(feature.reach for feature in recipe.features)
    for top in range(0, level.height, step):
        bottom = min(top + step, level.height)
        first, last = max(0, top - reach), min(level.height, bottom + reach)
        planes, masks = pixels.at(level, first, last)
        strip = Strip(planes, first, level.height, pixels.workspace)
        values = pixels.workspace.empty("values", (d + 1, *planes.shape[1:]))
        for feature, out in zip(recipe.features, values, strict=False):
            feature.write(strip, out)
        values[-1] = 1.0
        if masks is not None:
            values *= masks
        yield top, values[:, :, top - first : bottom - first]


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
