"""Values that several tables of the page share: places, accuracies, differences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..cells import FIXED, Cell, Scores, dataset_title, method_title
from ..format import DIGITS, format_number, format_spread
from ..methods import METHODS
from ..settings import FEATURE_TITLES
from ..standings import LEAST_TESTED, Difference, Mark, deviation, mean_score
from .html import Column, Tone, Value
from .results import Results, as_number

KINDS = {"paper": "the paper's", "fixed": "fixed beforehand", "beyond": "beyond the paper"}
SPLITS = {"halves": "random halves", "objects": "by object"}
PLACE = (
    Column("Method", choice=True),
    Column("Data", choice=True),
    Column("Features", choice=True),
    Column("Split", choice=True),
)


def numeric(titles: Iterable[str]) -> list[Column]:
    """Return columns of numbers."""
    return [Column(title, numeric=True) for title in titles]


def place_values(cell: Cell, method: str) -> list[Value]:
    """Return the first four values of a row."""
    features = FEATURE_TITLES.get(cell.features, cell.features)
    words = (dataset_title(cell.dataset), features, SPLITS.get(cell.split, cell.split))
    return [method_value(method), *(Value(word) for word in words)]


def method_value(method: str) -> Value:
    """Return the title of a method, with its kind in a second line."""
    kind = METHODS[method].kind if method in METHODS else ""
    return Value(method_title(method), note=KINDS.get(kind, kind))


def accuracy_value(scores: Scores, mark: Mark, note: str = "", digits: int = DIGITS) -> Value:
    """Return mean ± standard deviation with its mark."""
    text = format_spread(mean_score(scores), deviation(scores), digits)
    return Value(with_mark(text, mark), mean_score(scores), note, best=mark is Mark.HIGHEST)


def with_mark(text: str, mark: Mark) -> str:
    """Append ° to a text that is undecided; `Value.best` makes the highest bold."""
    return f"{text} °" if mark is Mark.UNDECIDED else text


def describe_marks(results: Results) -> str:
    """Say what the marks mean, or that there are too few repeats to test differences."""
    bold = (
        "Bold and underlined: the highest of a column, and all that are shown with the same digits."
    )
    if not results.is_tested:
        return (
            f"{bold} With fewer than {LEAST_TESTED} repeats no difference is tested, and none is "
            "marked."
        )
    return (
        f"{bold} °: not significantly different from it, or too few repeats to say (two-sided "
        "t-test of the differences by repeat, 5 %)."
    )


def difference_value(difference: Difference | None) -> Value:
    """Return a difference with its sign, its mark, and a colour if it is significant."""
    if difference is None:
        return Value("–")
    tone: Tone = "up" if difference.gain > 0 else "down"
    return Value(difference.text, difference.gain, tone=tone if difference.is_significant else "")


def rows_of_fixed(methods: Sequence[str]) -> frozenset[int]:
    """Return the places of the fixed configuration in a list of methods."""
    return frozenset(place for place, method in enumerate(methods) if method == FIXED)


def number_value(value: float | None, digits: int = DIGITS, *, signed: bool = False) -> Value:
    """Return a number with some decimals, or a dash if there is none."""
    return Value(format_number(value, digits, signed=signed), as_number(value))


def plain_value(value: Any, form: str) -> Value:
    """Return a number in a given format, or a dash if there is none."""
    amount = as_number(value)
    return Value(f"{amount:{form}}".replace("-", "−") if np.isfinite(amount) else "–", amount)


def compact(values: dict[str, Any]) -> str:
    """Return settings as one line."""
    return ", ".join(
        f"{key} = {value if isinstance(value, str) else json.dumps(value, default=str)}"
        for key, value in values.items()
    )
