"""Memory that is used again and again."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

__all__ = ["Workspace"]


class Workspace:
    """Arrays by name, whose memory is kept for the next array of the same name.

    Fresh memory for each large array would cost more than the arithmetic on it. Each thread needs
    a workspace of its own.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.float64]] = {}

    def empty(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """An array of any content, which overwrites the last one of this name."""
        size = prod(shape)
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size)
        return self._buffers[name][:size].reshape(shape)
