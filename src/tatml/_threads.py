"""Limits on the threads of the linear algebra libraries."""

from __future__ import annotations

from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["SMALL", "threadpools"]

SMALL = 256  # matrices up to this size are faster with one BLAS thread than with several


@cache
def threadpools() -> ThreadpoolController:
    """Return the loaded libraries; looking for them is slow, so it is done once."""
    return ThreadpoolController()
