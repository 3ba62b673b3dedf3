"""Arrays whose memory is reused."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray


class Workspace:
    """Named buffers that are reused for the next array of the same name.

    Allocating each large array anew would cost more than the arithmetic on it. Each thread needs
    its own workspace.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.float64]] = {}

    def empty(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an uninitialised array, which overwrites the previous one of this name."""
        size = prod(shape)
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size)
        return self._buffers[name][:size].reshape(shape)
