"""The records as the page needs them: current ones, failed ones, scores by cell, shares of time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from math import nan
from typing import Any

from ..cells import Cell, in_order, printed_numbers, scores_by_cell
from ..methods import METHODS
from ..standings import LEAST_TESTED
from ..store import Record, current_records, failed_records
from ..tasks import EXPERIMENTS


def as_number(value: Any) -> float:
    """Return a field of a record as a number, NaN if it is not one."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return nan


def word_of(record: Record, key: str) -> str:
    """Return a field of a record as text, empty if it is missing."""
    return str(record.get(key, ""))


class Results:
    """The records of a folder, grouped as the page shows them.

    Parameters
    ----------
    records : iterable of dict
        The records of results.jsonl.

    Attributes
    ----------
    table1, sensitivity, records : list of dict
        The current records of each experiment, and of both.
    failed : list of dict
        The last records of runs that have never succeeded.
    scores : dict of Cell to dict of str to Scores
        The accuracies by cell, method and repeat.
    methods, cells : list
        In the order of their declaration.
    """

    def __init__(self, records: Iterable[Record]):
        every = list(records)
        self.table1 = current_records(every, "table1")
        self.sensitivity = current_records(every, "sensitivity")
        self.records = [*self.table1, *self.sensitivity]
        self.failed = [record for name in EXPERIMENTS for record in failed_records(every, name)]
        self.scores = scores_by_cell(self.table1)
        self.cells = list(self.scores)
        self.methods = in_order({record["method"] for record in self.table1}, METHODS)

    @property
    def is_tested(self) -> bool:
        """Whether some method has repeats enough to test differences."""
        columns = self.scores.values()
        repeats = [len(own) for column in columns for own in column.values()]
        settings = Counter(f"{r['method']} {r['setting']}" for r in self.sensitivity)
        return max([*repeats, *settings.values()], default=0) >= LEAST_TESTED

    @property
    def printed_cells(self) -> list[Cell]:
        """The cells for which the paper prints numbers."""
        return [cell for cell in self.cells if printed_numbers(cell)]

    def seconds_by(self, key: str) -> Mapping[str, float]:
        """Return the seconds that the fits took, by the value of a field, largest first."""
        total: dict[str, float] = defaultdict(float)
        for record in self.records:
            total[record[key]] += record["seconds"]
        return dict(sorted(total.items(), key=lambda item: item[1], reverse=True))
