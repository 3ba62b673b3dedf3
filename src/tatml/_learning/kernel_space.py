"""The space of a kernel, in which a metric may be learnt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, cast

from sklearn.base import clone

from .._array import Indices
from .._data.blocks import Blocks
from .._messages import shown
from .._validation import check_choice, check_random
from ..features._kernel_map import KERNELS, Kernel, KernelMap
from .task import Settings

KernelLike = Kernel | KernelMap | None


def as_kernel_map(kernel: Any) -> KernelMap | None:
    """Return the kernel map that the parameter `kernel` stands for; None for None."""
    if kernel is None or isinstance(kernel, KernelMap):
        return kernel
    if not isinstance(kernel, str):
        raise TypeError(
            f"kernel: expected None, the name of a kernel or a KernelMap, got {shown(kernel)}"
        )
    check_choice("kernel", kernel, KERNELS)
    return KernelMap(cast(Kernel, kernel))


class Space(Protocol):
    """What maps samples to those that a metric is learnt from, such as the space of a kernel."""

    def fit(self, blocks: Blocks, rows: Indices | None = None) -> KernelMap:
        """Return the map fitted to samples, which are some rows of all samples."""


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
    with _named_samples(samples_name):
        try:
            return KernelSettings(template, template.check_parameters(blocks))
        except (TypeError, ValueError) as error:
            if str(error).startswith("X: "):
                raise
            raise type(error)(f"kernel: {error}") from error


@contextmanager
def _named_samples(name: str) -> Iterator[None]:
    """Replace the name X of samples in errors of a kernel map by their name in fit."""
    try:
        yield
    except ValueError as error:
        if name == "X" or not str(error).startswith("X: "):
            raise
        raise ValueError(f"{name}{str(error).removeprefix('X')}") from error


def map_samples(
    kernel: KernelSettings | None, blocks: Blocks, settings: Settings, counted: int | None = None
) -> tuple[Blocks, KernelMap | None]:
    """Return the samples in the space that the metric is learnt in, and the map to it.

    Landmarks are chosen among the first `counted` samples.
    """
    if kernel is None:
        return blocks, None
    with _named_samples(settings.samples_name):
        fitted = kernel.fit(blocks[:counted], seed=check_random(settings.random_state))
    return fitted.map_blocks(blocks), fitted
