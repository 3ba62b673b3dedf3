"""What the report says, computed from the records: cells, means, comparisons, shares of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .._markdown.comparison import printed_number
from .._methods import METHODS
from .._settings import DATASETS, PRINTED, PROTOCOL
from .._standings import deviation, mean, on_same_halves, p_value
from .._store import Record, current_records, failed_records

__all__ = [
    "BASELINE",
    "FIXED_NAME",
    "Cell",
    "Results",
    "Score",
    "Standing",
    "as_number",
    "compare_with_method",
    "compare_with_printed",
]

LEVEL = PROTOCOL.significance
FIXED_NAME = next(name for name, method in METHODS.items() if method.kind == "fixed")
BASELINE = "euc"


class Cell(NamedTuple):
    """What methods are compared on."""

    dataset: str
    split: str
    features: str

    @property
    def title(self) -> str:
        """How a reader calls it."""
        return f"{dataset_title(self.dataset)}, {self.features}{' by object' * self.by_object}"

    @property
    def by_object(self) -> bool:
        """Whether no object is on both sides of the split."""
        return self.split == "objects"


def dataset_title(name: str) -> str:
    """The name that a reader knows, or what is given."""
    return DATASETS[name].title if name in DATASETS else name


def method_title(name: str) -> str:
    """The name that tables give a method, or what is given."""
    return METHODS[name].title if name in METHODS else name


def method_kind(name: str) -> str:
    """Whose it is: the paper's, the fixed configuration, beyond the paper, exploratory."""
    kinds = {"paper": "the paper's", "fixed": "fixed beforehand", "beyond": "beyond the paper"}
    kind = METHODS[name].kind if name in METHODS else ""
    return kinds.get(kind, kind)


def as_number(value: Any) -> float:
    """A number of a record, NaN where there is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return nan


@dataclass(frozen=True)
class Score:
    """The accuracies of one method in one cell, by repeat."""

    by_repeat: dict[int, float]

    @property
    def mean(self) -> float:
        """Their mean."""
        return mean(self.by_repeat)

    @property
    def deviation(self) -> float:
        """Their standard deviation, NaN for a single one."""
        return deviation(self.by_repeat)

    def against(self, other: Score) -> float:
        """The p value of the differences by repeat, NaN where there are too few."""
        return p_value(self.by_repeat, other.by_repeat)

    def on_same_halves(self, other: Score) -> tuple[Score, Score]:
        """Both, with the repeats that both have."""
        ours, theirs = on_same_halves(self.by_repeat, other.by_repeat)
        return Score(ours), Score(theirs)

    def against_number(self, printed: float) -> float:
        """The p value of a mean other than the printed number."""
        return p_value(self.by_repeat, printed)


class Results:
    """The records of a run, sorted out.

    Parameters
    ----------
    records : iterable of dict
        As read from results.jsonl.

    Attributes
    ----------
    table1, sensitivity : list of dict
        The records of either experiment that count, `records` both.
    failed : list of dict
        Of runs that never went well, the last record.
    scores : dict of Cell to dict of str to Score
        By cell and method.
    methods, cells : list
        In the order in which they are declared, whatever the order of the records.
    """

    def __init__(self, records: Iterable[Record]):
        every = list(records)
        self.table1 = current_records(every, "table1")
        self.sensitivity = current_records(every, "sensitivity")
        self.records = [*self.table1, *self.sensitivity]
        names = ("table1", "sensitivity")
        self.failed = [record for name in names for record in failed_records(every, name)]
        self.scores = _scores(self.table1)
        self.cells = list(self.scores)
        self.methods = in_order({text(r, "method") for r in self.table1}, METHODS)

    @property
    def printed_cells(self) -> list[Cell]:
        """The cells for which the paper prints numbers."""
        return [cell for cell in self.cells if numbers_of(cell)]

    def seconds_by(self, key: str) -> Mapping[str, float]:
        """The seconds that runs took, by the value of a key, the most first."""
        total: dict[str, float] = defaultdict(float)
        for record in self.records:
            seconds = as_number(record.get("seconds"))
            total[text(record, key)] += seconds if np.isfinite(seconds) else 0.0
        return dict(sorted(total.items(), key=lambda item: item[1], reverse=True))


def text(record: Record, key: str) -> str:
    """A word of a record."""
    return str(record.get(key, ""))


def cell_of(record: Record) -> Cell:
    """The cell that a record belongs to."""
    return Cell(
        text(record, "dataset"), text(record, "split") or "halves", text(record, "features")
    )


def score_of(records: Iterable[Record]) -> Score:
    """The accuracies of records of one method and cell; those that have one."""
    values = {r.get("repeat", 0): as_number(r.get("accuracy")) for r in records}
    return Score({repeat: value for repeat, value in values.items() if np.isfinite(value)})


def _scores(records: Sequence[Record]) -> dict[Cell, dict[str, Score]]:
    found: dict[Cell, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if np.isfinite(as_number(record.get("accuracy"))):
            found[cell_of(record)][text(record, "method")].append(record)
    declared = [(d.dataset, d.split, name) for d in DATASETS.values() for name, _ in d.features]
    return {
        cell: {method: score_of(found[cell][method]) for method in in_order(found[cell], METHODS)}
        for cell in in_order(found, declared)
    }


Name = TypeVar("Name", str, Cell)


def in_order(found: Iterable[Name], declared: Iterable[object]) -> list[Name]:
    """What was found, first what is declared and in its order, then the rest by its name."""
    places = {name: place for place, name in enumerate(declared)}
    return sorted(found, key=lambda name: (places.get(name, len(places)), name))


def numbers_of(cell: Cell) -> dict[str, float]:
    """The printed numbers of a cell by method; none for a split that the paper has not."""
    if cell.by_object:
        return {}
    methods = PRINTED.get(cell.dataset, ())
    found = {m: printed_number(cell.dataset, cell.features, m) for m in methods}
    return {method: printed for method, printed in found.items() if printed is not None}


class Standing(NamedTuple):
    """How the fixed configuration does in one cell against a bar."""

    cell: Cell
    ours: float
    bar: float
    holder: str

    @property
    def won(self) -> bool:
        """Above the bar in what is shown, not merely at it."""
        return round(self.ours, 2) > round(self.bar, 2)

    @property
    def level(self) -> bool:
        """At the bar in what is shown."""
        return round(self.ours, 2) == round(self.bar, 2)


def compare_with_printed(results: Results) -> list[Standing]:
    """The fixed configuration against the best printed number of each cell."""
    standings = []
    for cell in results.printed_cells:
        if FIXED_NAME in results.scores[cell]:
            bars = numbers_of(cell)
            holder = max(bars, key=bars.__getitem__)
            ours = results.scores[cell][FIXED_NAME].mean
            standings.append(Standing(cell, ours, bars[holder], holder))
    return standings


def compare_with_method(results: Results, method: str, cells: Sequence[Cell]) -> list[Standing]:
    """The fixed configuration against our own run of another method, on halves of both."""
    standings = []
    for cell in cells:
        scores = results.scores[cell]
        if FIXED_NAME in scores and method in scores:
            ours, theirs = scores[FIXED_NAME].on_same_halves(scores[method])
            if ours.by_repeat:
                standings.append(Standing(cell, ours.mean, theirs.mean, method))
    return standings
