"""Control of the number of BLAS threads."""

from __future__ import annotations

from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["SMALL"]

SMALL = 256  # rows: matrices up to this size are faster with one BLAS thread than with several


@cache
def _threadpools() -> ThreadpoolController:
    """Return the thread pools of the loaded libraries; finding them is slow, so it is cached."""
    return ThreadpoolController()
