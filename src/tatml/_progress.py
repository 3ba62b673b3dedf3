"""Progress bars of tqdm, an extra: silent where it is missing or stderr is not a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

DELAY = 3.0  # seconds before a bar appears

T = TypeVar("T")


def progress_bar(n_items: float, text: str, unit: str = "it", delay: float = DELAY) -> Any:
    """Return a progress bar of tqdm; None where it is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    # disable=None: only on a terminal
    return tqdm(total=n_items, desc=text, unit=unit, delay=delay, leave=False, disable=None)


def with_progress(items: Iterable[T], n_items: int, text: str, unit: str = "it") -> Iterator[T]:
    """Yield the items, and count them in a progress bar.

    Examples
    --------
    >>> from tatml._progress import with_progress
    >>> list(with_progress([1, 2], 2, "numbers"))
    [1, 2]
    """
    bar = progress_bar(n_items, text, unit)
    if bar is None:
        yield from items
        return
    try:
        for item in items:
            yield item
            bar.update()
    finally:
        bar.close()
