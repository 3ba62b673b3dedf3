"""Checks and names that the generators of synthetic data share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validation import check_count, check_not_negative

LARGEST_STRENGTH = 5.0  # larger ones make the exponentials of normal numbers inaccurate


def check_counts(**counts: Any) -> tuple[int, ...]:
    """Return the values as integers of at least 1."""
    return tuple(check_count(name, value) for name, value in counts.items())


def check_at_least(name: str, value: Any, least: int, meaning: str = "") -> int:
    """Return the value as an integer that is at least `least`."""
    count = check_count(name, value)
    if count < least:
        raise ValueError(f"{name}: expected at least {meaning}{least}, got {count}")
    return count


def check_strengths(**strengths: Any) -> tuple[float, ...]:
    """Return the values as numbers from 0 to 5."""
    numbers = {name: check_not_negative(name, value) for name, value in strengths.items()}
    for name, number in numbers.items():
        if number > LARGEST_STRENGTH:
            raise ValueError(
                f"{name}: expected a number from 0 to {LARGEST_STRENGTH:g}, got {number:g}"
            )
    return tuple(numbers.values())


def make_class_names(kind: str, n_classes: int) -> NDArray[np.str_]:
    """Return a name per class: the kind and the index of the class."""
    return np.array([f"{kind} {c}" for c in range(n_classes)])
