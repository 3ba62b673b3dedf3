"""Warnings that point at the line of the user's code."""

from __future__ import annotations

import sys
import warnings


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the location of the innermost caller outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tatml."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
