"""Names in messages: quoted, cut short, and the one that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["quoted", "suggestion"]

MOST_SHOWN = 8


def quoted(names: Iterable[str]) -> str:
    """Some names for a message, not too many.

    >>> quoted(["X", "y"])
    "'X', 'y'"
    """
    names = [repr(str(name)) for name in names]
    more = len(names) - MOST_SHOWN
    shown = ", ".join(names[:MOST_SHOWN]) or "nothing"
    return f"{shown} and {more} more" if more > 0 else shown


def suggestion(name: str, names: Iterable[str]) -> str:
    """The nearest of some names, as the end of a message; empty where none is near.

    >>> suggestion("TATLM", ["TATML", "ITML"])
    "; did you mean 'TATML'?"
    """
    by_lower = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
