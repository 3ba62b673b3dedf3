"""Checks of parameters: each error names the parameter, what was expected and what was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import isclass
from math import inf, isfinite
from numbers import Integral, Real
from sys import maxsize
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRED_DISTANCES
from sklearn.utils import check_random_state

from ._messages import shown

LARGEST_MARGIN = 1e50  # products with margins neither overflow nor vanish
LARGEST_JOBS = 10_000  # a typing error starts no more processes than a machine can run


class WrongTypeError(TypeError, ValueError):
    """Error for a value of a wrong type, also caught as ValueError like that of scikit-learn."""


def check_choice(name: str, value: Any, choices: Iterable[str]) -> Any:
    """Return the value if it is one of the words in `choices`."""
    if not isinstance(value, str) or value not in tuple(choices):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}: expected one of {listed}, got {shown(value)}")
    return value


def check_number(
    name: str,
    value: Any,
    expected: str = "a finite number",
    valid: Callable[[float], bool] = isfinite,
) -> float:
    """Return a real number as a float if it is `valid`; `expected` says in words what that is."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise WrongTypeError(f"{name}: expected a number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError as error:  # of integers and fractions of Python
        raise ValueError(f"{name}: expected {expected}, got more than a float can hold") from error
    except Exception as error:  # raised by a number type of the user
        raise WrongTypeError(f"{name}: expected {expected}, got {shown(value)}") from error
    if not valid(number):
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return number


def check_finite(name: str, value: Any) -> float:
    """Return the value as a finite float."""
    return check_number(name, value)


def check_positive(name: str, value: Any, or_infinite: bool = False) -> float:
    """Return the value as a positive float, or infinity with `or_infinite`."""
    if or_infinite:
        return check_number(name, value, "a positive number or numpy.inf", lambda x: x > 0)
    return check_number(name, value, "a positive number", lambda x: 0 < x < inf)


def check_not_negative(name: str, value: Any) -> float:
    """Return the value as a finite float of at least 0."""
    return check_number(name, value, "a finite number of at least 0", lambda x: 0 <= x < inf)


def check_share(name: str, value: Any) -> float:
    """Return the value as a float from 0 to 1."""
    return check_number(name, value, "a number from 0 to 1", lambda x: 0 <= x <= 1)


def check_between(name: str, value: Any) -> float:
    """Return the value as a float between 0 and 1, neither of which is allowed."""
    return check_number(name, value, "a number between 0 and 1", lambda x: 0 < x < 1)


def check_number_or(name: str, value: Any, *words: str) -> float | None:
    """Return a positive number, or None if the value is one of the words."""
    if not isinstance(value, str):
        return check_positive(name, value)
    if value not in words:
        named = " or ".join(map(repr, words))
        raise TypeError(f"{name}: expected a number or {named}, got {shown(value)}")
    return None


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return an integer of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name}: expected an integer, got {shown(value)}")
    try:
        number = int(value)
    except Exception as error:  # numpy.timedelta64 is an Integral but has no value as int
        raise TypeError(f"{name}: expected an integer, got {shown(value)}") from error
    if number < least:
        raise ValueError(f"{name}: expected at least {least}, got {shown(value)}")
    if number > maxsize:
        raise ValueError(f"{name}: expected at most {maxsize}, got a larger number")
    return number


def as_list(name: str, values: Any, what: str) -> list[Any]:
    """Return the members of a sequence; `what` describes them. Refuse iterators and strings."""
    try:
        members = None if isinstance(values, str) or iter(values) is values else list(values)
    except Exception:  # iterating over an arbitrary object may raise anything
        members = None
    if members is None:
        raise TypeError(f"{name}: expected {what}, got {shown(values)}")
    return members


def check_two(name: str, values: Any, what: str) -> tuple[float, float]:
    """Return the two members of a sequence; `what` describes them."""
    members = as_list(name, values, what)
    if len(members) != 2:
        raise TypeError(f"{name}: expected {what}, got {shown(values)}")
    return members[0], members[1]


def check_margin(margin: Any) -> tuple[float, float]:
    """Return the margin, two numbers 0 < γ_s < γ_d."""
    numbers = check_two("margin", margin, "two numbers (γ_s, γ_d)")
    low, high = (check_positive("margin", number) for number in numbers)
    if not low < high:
        raise ValueError(f"margin: expected 0 < γ_s < γ_d, got {shown(margin)}")
    if low < 1 / LARGEST_MARGIN or high > LARGEST_MARGIN:
        raise ValueError(
            f"margin: expected numbers from {1 / LARGEST_MARGIN:g} to {LARGEST_MARGIN:g}, got "
            f"{shown(margin)}"
        )
    return low, high


def check_rate(name: str, value: Any, needed: bool, strategy: str) -> None:
    """Raise unless the rate is from 0 to 1 if the strategy needs it, and None otherwise."""
    if value is None and not needed:
        return
    if not needed:
        raise ValueError(f"{name}: expected None with strategy={strategy!r}, got {shown(value)}")
    if not isinstance(value, Real) or isinstance(value, bool):
        raise WrongTypeError(
            f"{name}: expected a number from 0 to 1 with strategy={strategy!r}, got {shown(value)}"
        )
    check_share(name, value)


def is_flag(value: Any) -> bool:
    """Return whether a value is a bool of Python or NumPy, or an integer."""
    return isinstance(value, Integral | np.bool_)


def check_flag(name: str, value: Any) -> bool:
    """Return a bool, from a bool of Python or NumPy or from an integer."""
    if not is_flag(value):
        raise TypeError(f"{name}: expected True or False, got {shown(value)}")
    return bool(value)


def check_jobs(name: str, value: Any) -> int | None:
    """Return n_jobs as joblib reads it: any integer but 0, where −1 means all cores; or None."""
    if value is None:
        return None
    count = check_count(name, value, least=-LARGEST_JOBS)
    if not 0 < abs(count) <= LARGEST_JOBS:
        raise ValueError(f"{name}: expected None or a number other than 0, got {shown(value)}")
    return count


def check_callable(name: str, value: Any) -> Any:
    """Return the value if it is callable or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name}: expected a function or None, got {shown(value)}")
    return value


def check_metric(name: str, value: Any) -> Any:
    """Return the value if it is a name that `PairThreshold` knows, or a function."""
    if callable(value):
        return value
    return check_choice(name, value, ["precomputed", "posteriors", *PAIRED_DISTANCES])


def generator_of(value: Any) -> Any:
    """Return the generator of a checked `random_state`; that of a seed starts from the seed."""
    is_source = hasattr(value, "permutation") and hasattr(value, "choice")
    return value if is_source and not isclass(value) else check_random_state(value)


def check_random(value: Any) -> Any:
    """Return a random number generator, from None, a seed, a RandomState or a Generator."""
    try:
        return generator_of(value)
    except Exception as error:  # a seed out of range, or an object of another type
        raise ValueError(
            "random_state: expected None, an integer, a RandomState or a Generator, got "
            f"{shown(value)}"
        ) from error


def as_random_state(source: Any) -> Any:
    """Return a source for scikit-learn, which takes no Generator: that one seeds a RandomState."""
    if hasattr(source, "randint"):
        return source
    return np.random.RandomState(source.integers(2**32))
