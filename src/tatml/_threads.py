"""How many threads the BLAS may use."""

from __future__ import annotations

from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["SMALL"]

SMALL = 256  # matrices up to this size are faster with one BLAS thread than with several


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the loaded libraries: once is enough
