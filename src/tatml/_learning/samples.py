"""The samples that a metric is learnt from: their device, and their images in a kernel's space.

Samples are on the host, or on the device of an array of another package. Priors and thresholds
are computed, and problems are solved, on the device of the samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from sklearn.base import clone

from .._array import Array, Indices, asarray, foreign_kind, to_numpy
from .._data.blocks import Blocks
from .._data.sparse import SparseBlock
from .._validation import generator_of
from ..features._kernel_map import Kernel, KernelMap
from .priors import is_wide
from .task import Settings

KernelLike = Kernel | KernelMap | None


def fetched(values: Any) -> Any:
    """Return arrays of other packages, and Blocks or lists of them, as NumPy arrays."""
    if isinstance(values, list | tuple) and any(foreign_kind(part) for part in values):
        return [fetched(part) for part in values]
    if isinstance(values, Blocks):
        if foreign_kind(values.arrays[0]) is None:
            return values
        return values._with_arrays([to_numpy(array) for array in values.arrays])
    return values if foreign_kind(values) is None else to_numpy(values)


def place_blocks(blocks: Blocks, like: Array | None) -> Blocks:
    """Copy samples to the device of `like`; sparse samples, and those for None, stay."""
    if like is None or any(isinstance(array, SparseBlock) for array in blocks.arrays):
        return blocks
    return blocks._with_arrays([asarray(array, like) for array in blocks.arrays])


def host_if_wide(blocks: Blocks, *more: Blocks) -> list[Blocks]:
    """Return samples on the host if a block of the first is wide, because its span is NumPy's."""
    given = [blocks, *more]
    return [fetched(b) for b in given] if any(map(is_wide, blocks.arrays)) else given


@dataclass(frozen=True)
class KernelSettings:
    """A kernel map to be fitted to all samples and to parts of them.

    Parameters
    ----------
    template : KernelMap
        Its parameters.
    n_landmarks : int
        The number of landmarks; parts with fewer samples have fewer.
    units : {"columns", "common"} or None
        The units of the kernel; None: by the rule of "auto".
    """

    template: KernelMap
    n_landmarks: int
    units: Literal["columns", "common"] | None = None

    def candidates(self) -> list[KernelSettings]:
        """Return the settings with all units that may be chosen."""
        if self.template.units != "auto" or self.template.kernel == "precomputed":
            return [self]
        return [replace(self, units=units) for units in ("columns", "common")]

    def fit(self, blocks: Blocks, rows: Indices | None = None, seed: Any = 0) -> KernelMap:
        """Return the map fitted to samples; `rows` are their columns of a precomputed kernel."""
        return clone(self.template).fit_blocks(
            blocks,
            n_landmarks=self.n_landmarks,
            units=self.units,
            columns=rows,
            random_state=seed,
        )


def read_kernel(
    template: KernelMap | None, blocks: Blocks, samples_name: str = "X"
) -> KernelSettings | None:
    """Return the settings of a kernel after a check for given samples; None without a kernel."""
    if template is None:
        return None
    with named_samples(samples_name):
        try:
            return KernelSettings(template, template.count_landmarks(blocks))
        except (TypeError, ValueError) as error:
            if str(error).startswith("X: "):
                raise
            raise type(error)(f"kernel: {error}") from error


@contextmanager
def named_samples(name: str) -> Iterator[None]:
    """Replace the name X of samples in errors by the name of the argument that holds them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if name == "X" or not str(error).startswith("X: "):
            raise
        raise type(error)(f"{name}{str(error).removeprefix('X')}") from error


def map_samples(
    kernel: KernelSettings | None, blocks: Blocks, settings: Settings, counted: int | None = None
) -> tuple[Blocks, KernelMap | None, int]:
    """Return the samples in the space that the metric is learnt in, and the map to it.

    Landmarks are chosen among the first `counted` samples. The last value is the number of blocks,
    at the end, that are images of the kernel.
    """
    if kernel is None:
        return blocks, None, 0
    with named_samples(settings.samples_name):
        fitted = kernel.fit(blocks[:counted], seed=generator_of(settings.random_state))
    return fitted.map_blocks(blocks), fitted, len(fitted.maps_)
