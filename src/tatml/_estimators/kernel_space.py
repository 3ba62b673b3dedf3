"""The parameter `kernel`: estimators that learn from coordinates in the space of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from sklearn.base import clone

from .._array import Indices
from .._data.blocks import Blocks
from .._messages import shown
from .._validation import check_choice, check_random
from ..features._kernel_map import KERNELS, Kernel, KernelMap
from .cross_fitting import HeldOutPairs, choose_units, find_units
from .priors import Units

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


def read_kernel(kernel: Any, blocks: Blocks) -> KernelSettings | None:
    """Return the settings of a kernel after a check for given samples; None without a kernel."""
    template = as_kernel_map(kernel)
    if template is None:
        return None
    try:
        return KernelSettings(template, template.check_parameters(blocks))
    except (TypeError, ValueError) as error:
        if str(error).startswith("X: "):
            raise
        raise type(error)(f"kernel: {error}") from error


@contextmanager
def named_samples(name: str) -> Iterator[None]:
    """Replace the name X of samples in errors of a kernel map by their name in fit."""
    try:
        yield
    except ValueError as error:
        if name == "X" or not str(error).startswith("X: "):
            raise
        raise ValueError(f"{name}{str(error).removeprefix('X')}") from error


HoldOut = Callable[[KernelSettings | None], list[HeldOutPairs]]


def choose_space(
    settings: KernelSettings | None, prior: Any, hold_out: HoldOut
) -> tuple[KernelSettings | None, Units, list[HeldOutPairs]]:
    """Return the kernel with its units, the units of the prior, and the held-out pairs.

    The units are those whose prior orders the held-out pairs best; without held-out pairs, those
    of the rule "auto". `hold_out` makes the pairs, in the space of a kernel if it is given one.
    """
    if settings is None:
        parts = hold_out(None)
        return None, choose_units(prior, parts), parts
    chosen, best = None, -1.0
    for candidate in settings.candidates():
        parts = hold_out(candidate)
        if not parts:
            return settings, "columns", parts
        area, units = find_units(prior, parts)
        if area > best:
            chosen, best = (candidate, units, parts), area
    assert chosen is not None
    return chosen


class KernelMixin:
    """Mixin of estimators with the parameter `kernel`."""

    kernel: KernelLike
    prior: Any
    random_state: Any
    kernel_map_: KernelMap | None
    prior_units_: Units
    _samples_name = "X"  # the name of the samples in the signature of fit, for error messages

    def _read_kernel(self, blocks: Blocks) -> KernelSettings | None:
        return read_kernel(self.kernel, blocks)

    def _read_kernel_of_tuples(self, blocks: Blocks) -> KernelSettings | None:
        """Return the settings of the kernel, for estimators that are fitted to pairs or tuples."""
        if self._has_kernel_values():
            raise ValueError(
                "kernel: expected a kernel of the samples, as pairs come without a kernel matrix, "
                "got 'precomputed'"
            )
        with named_samples(self._samples_name):
            return self._read_kernel(blocks)

    def _choose_space(
        self, settings: KernelSettings | None, hold_out: HoldOut
    ) -> tuple[KernelSettings | None, list[HeldOutPairs]]:
        """Set `prior_units_`; return the kernel with its units, and the held-out pairs."""
        settings, self.prior_units_, parts = choose_space(settings, self.prior, hold_out)
        return settings, parts

    def _map_samples(
        self, settings: KernelSettings | None, blocks: Blocks, counted: int | None = None
    ) -> Blocks:
        """Set `kernel_map_`, and return the samples in the space that the metric is learnt in.

        Landmarks are chosen among the first `counted` samples.
        """
        self.kernel_map_ = None
        if settings is None:
            return blocks
        with named_samples(self._samples_name):
            self.kernel_map_ = settings.fit(blocks[:counted], seed=check_random(self.random_state))
        return self.kernel_map_.map_blocks(blocks)

    def _has_kernel_values(self) -> bool:
        """Return whether the samples are rows of a kernel matrix."""
        kernel = getattr(self.kernel, "kernel", self.kernel)
        return isinstance(kernel, str) and kernel == "precomputed"

    def __sklearn_tags__(self) -> Any:
        """Return tags that say whether the samples are rows of a kernel matrix."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of BaseEstimator
        tags.input_tags.pairwise = self._has_kernel_values()
        return tags
