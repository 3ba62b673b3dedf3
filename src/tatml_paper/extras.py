"""Packages that only the report and the demonstration need: found late, and named if missing."""

from __future__ import annotations

from types import ModuleType


def missing_library(name: str) -> ImportError:
    """Return the error for a library that is not installed, with the command that installs it.

    Examples
    --------
    >>> print(missing_library("Jinja2"))
    the report needs Jinja2: pip install ".[report]" in the directory of the source code
    """
    return ImportError(
        f'the report needs {name}: pip install ".[report]" in the directory of the source code'
    )


def pyplot() -> ModuleType:
    """Return Matplotlib's module for figures."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise missing_library("Matplotlib") from error
    return plt
