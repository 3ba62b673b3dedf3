"""What the displays share: matplotlib, one axis, ticks and colours."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .._messages import missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

SIMILAR, DISSIMILAR, THRESHOLD = "#0072b2", "#d55e00", "#222222"  # safe for colour blindness


def pyplot() -> ModuleType:
    """Return matplotlib's module for figures."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise missing_extra("Drawing needs Matplotlib", "plot") from error
    return plt


def one_axis(ax: Axes | None, size: tuple[float, float] = (6.4, 4.0)) -> Axes:
    """Return the given axes, or those of a new figure."""
    return pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def set_ticks(axis: Axis, **parameters: Any) -> None:
    """Set parameters of the tick locator; the scale of the axis determines which there are."""
    set_parameters: Callable[..., None] = axis.get_major_locator().set_params
    set_parameters(**parameters)
