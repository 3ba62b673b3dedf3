"""Progress bars of tqdm, an extra: silent where it is missing or stderr is not a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

DELAY = 3.0  # seconds before a bar appears

T = TypeVar("T")


class SilentBar:
    """The members of a progress bar that this library uses, without any output."""

    def update(self, n: int = 1) -> None:
        """Do nothing."""

    def set_postfix_str(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def progress_bar(n_items: float, text: str, unit: str = "it", delay: float = DELAY) -> Any:
    """Return a progress bar of tqdm, or a silent one."""
    try:
        from tqdm import tqdm
    except ImportError:
        return SilentBar()
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
    try:
        for item in items:
            yield item
            bar.update()
    finally:
        bar.close()
