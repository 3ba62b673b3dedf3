"""The memory that a call allocates."""

import tracemalloc

__all__ = ["peak_memory"]


def peak_memory(function, *args, **options):
    """Call a function; return the bytes that it holds at most, and its result."""
    tracemalloc.start()
    try:
        result = function(*args, **options)
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()
