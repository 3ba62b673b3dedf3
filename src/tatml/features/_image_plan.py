"""Plans for the covariance descriptors of images: parameters, scales, regions, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .._array import Floats
from ._inputs import ImageGroup
from ._pixel_features import COLOURS, FEATURES, Feature
from ._resampling import Resampler, scaled_size
from ._shrinkage import Shrinkage

SMALLEST_SIDE = 3  # smallest side of an image in pixels: a second difference needs three


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
    _check_colours(group, recipe)
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
