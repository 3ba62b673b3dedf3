"""The cells in which methods are compared: titles, scores by repeat, and the printed numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from .methods import METHODS
from .settings import DATASETS, FEATURE_TITLES, PRINTED, SCALES

FIXED = next(name for name, method in METHODS.items() if method.kind == "fixed")
BASELINE = "euc"

Scores = dict[int, float]
"""One quantity of one method in one cell, by repeat."""


class Cell(NamedTuple):
    """A data set, a kind of split and a feature type."""

    dataset: str
    split: str
    features: str

    @property
    def title(self) -> str:
        """The name of the cell in sentences and plots."""
        features = FEATURE_TITLES.get(self.features, self.features)
        return f"{dataset_title(self.dataset)}, {features}{', by object' * self.by_object}"

    @property
    def by_object(self) -> bool:
        """Whether no object is on both sides of the split."""
        return self.split == "objects"


def dataset_title(name: str) -> str:
    """Return the title of a declared data set; an unknown name is its own title."""
    return DATASETS[name].title if name in DATASETS else name


def method_title(name: str) -> str:
    """Return the title of a declared method; an unknown name is its own title."""
    return METHODS[name].title if name in METHODS else name


def cell_of(record: dict[str, Any]) -> Cell:
    """Return the cell that a record belongs to."""
    return Cell(record["dataset"], record["split"], record["features"])


Name = TypeVar("Name", str, Cell)


def in_order(found: Iterable[Name], declared: Iterable[object]) -> list[Name]:
    """Sort names in the order of their declaration; undeclared names follow alphabetically."""
    places = {name: place for place, name in enumerate(declared)}
    return sorted(found, key=lambda name: (places.get(name, len(places)), name))


def scores_by_cell(
    records: Iterable[dict[str, Any]], quantity: str = "accuracy"
) -> dict[Cell, dict[str, Scores]]:
    """Return the scores of each cell and method, in the order of the declarations.

    Records without the quantity are left out.
    """
    found: dict[Cell, dict[str, Scores]] = {}
    for record in records:
        if record.get(quantity) is not None:
            scores = found.setdefault(cell_of(record), {}).setdefault(record["method"], {})
            scores[record["repeat"]] = record[quantity]
    declared = [(d.dataset, d.split, name) for d in DATASETS.values() for name, _ in d.features]
    return {
        cell: {method: found[cell][method] for method in in_order(found[cell], METHODS)}
        for cell in in_order(found, declared)
    }


def printed_numbers(cell: Cell) -> dict[str, float]:
    """Return the numbers of the paper's Table 1 by method; none for cells that it does not have.

    Examples
    --------
    >>> printed_numbers(Cell("virus", "halves", "M=1;(1)"))["euc"]
    58.13
    """
    places = [name for name, _ in SCALES]
    if cell.by_object or cell.features not in places:
        return {}
    place = places.index(cell.features)
    return {method: row[place] for method, row in PRINTED.get(cell.dataset, {}).items()}


def best_printed(cell: Cell) -> tuple[str, float]:
    """Return the method with the highest printed number of a cell, and that number."""
    numbers = printed_numbers(cell)
    method = max(numbers, key=numbers.__getitem__)
    return method, numbers[method]
