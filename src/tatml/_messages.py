"""Parts of error messages: values, names, suggestions, and errors of other libraries; the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

MOST_CHARACTERS = 200  # most characters of a value in a message
MOST_NAMES = 8  # most names in a list of a message


def shown(value: Any) -> str:
    """Return the repr of a value on one line, shortened; it never raises.

    Examples
    --------
    >>> shown(10**5000)
    'a value of type int'
    """
    try:
        text = re.sub(r"\n\s*", " ", repr(value))
    except Exception:  # The repr of an object may raise anything.
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def missing_extra(needed: str, extra: str) -> ImportError:
    """Return the error for a package that is not installed, with the command that installs it.

    Examples
    --------
    >>> print(missing_extra("Drawing needs Matplotlib", "plot"))
    Drawing needs Matplotlib: pip install ".[plot]" in the directory of the source code
    """
    return ImportError(f'{needed}: pip install ".[{extra}]" in the directory of the source code')


def shown_settings(settings: Any) -> str:
    """Return the repr of a dataclass with only the fields that differ from their defaults."""
    changed = [
        f"{field.name}={value!r}"
        for field in fields(settings)
        if (value := getattr(settings, field.name)) is not field.default
        and (type(value) is not type(field.default) or value != field.default)
    ]
    return f"{type(settings).__name__}({', '.join(changed)})"


def named_error(name: str, error: Exception) -> TypeError | ValueError:
    """Return an error of another library as a TypeError or ValueError that names the parameter.

    Examples
    --------
    >>> named_error("X", OverflowError("int too large to convert to float"))
    ValueError('X: int too large to convert to float')
    """
    kind = TypeError if issubclass(type(error), TypeError) else ValueError
    message = str(error) or type(error).__name__
    names_it = re.match(rf"(Input )?{re.escape(name)}\b|.*passed for {re.escape(name)}\b", message)
    return kind(message if names_it else f"{name}: {message}")


def quoted(names: Iterable[str]) -> str:
    """Return a list of names for a message, shortened.

    >>> quoted(["X", "y"])
    "'X', 'y'"
    """
    return listed([repr(str(name)) for name in names], MOST_NAMES) or "nothing"


def listed(words: Sequence[str], most: int) -> str:
    """Return the words in a row; of more than `most`, the number of the others.

    >>> listed(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return f"{', '.join(words[:most])}{more}"


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a question about the most similar name, to end a message; empty if none is similar.

    >>> suggestion("TATLM", ["TATML", "ITML"])
    "; did you mean 'TATML'?"
    """
    by_lower = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""


def tell_user(text: str) -> None:
    """Log a line that is shown by default, with the logger "tatml"; it is no warning to act on."""
    logging.getLogger("tatml").warning("%s", text)
