"""Control of the number of BLAS threads."""

from __future__ import annotations

from functools import cache

from threadpoolctl import ThreadpoolController

SMALL_MATRIX = 256  # rows up to which one BLAS thread is faster than several


@cache
def _threadpools() -> ThreadpoolController:
    """Return the thread pools of the loaded libraries; finding them is slow, so it is cached."""
    return ThreadpoolController()
