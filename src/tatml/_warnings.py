"""Warnings that point at the user's line, however deep in the library they arise."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn_user"]


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line outside this package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tatml."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
