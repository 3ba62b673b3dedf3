"""What `tatml reproduce` does: run the declared experiments, then write tables and the report."""

from __future__ import annotations

from argparse import Namespace

__all__ = ["reproduce"]


def reproduce(options: Namespace) -> None:
    """Run experiments, or go on with them, and end by naming what was written."""
    raise NotImplementedError
