"""The paper's methods beside the printed numbers, and the fixed configuration beside all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..cells import FIXED, Cell, Scores, method_title, printed_numbers, scores_by_cell
from ..format import format_number, format_spread
from ..settings import COMPETITORS, PRINTED, SCALES, Dataset
from ..standings import (
    Difference,
    Mark,
    Standing,
    compare,
    compare_with_method,
    compare_with_printed,
    deviation,
    mark_column,
    mean_score,
)
from ..store import Record
from .elements import make_table, mark_text

PRINTED_FEATURES = tuple(name for name, _ in SCALES)
CellScores = Mapping[Cell, Mapping[str, Scores]]


def printed_section(records: list[Record], datasets: Iterable[Dataset]) -> str:
    """Return our accuracy, the printed one and their difference for the paper's methods."""
    wanted = [d for d in datasets if d.dataset in PRINTED and d.split == "halves"]
    if not wanted:
        return ""
    head = (
        "## The paper's methods under its protocol\n\nOurs (printed; difference). The marks "
        "compare these four methods only: **bold** the highest, ° not significantly different from "
        "it, or too few repeats to say."
    )
    scores = scores_by_cell(records)
    tables = [_printed_table(dataset, scores) for dataset in wanted]
    return "\n\n".join([head, *tables, _not_reached(scores)])


def _printed_table(dataset: Dataset, scores: CellScores) -> str:
    name = dataset.dataset
    rows = {method: [method_title(method)] for method in PRINTED[name]}
    for features in PRINTED_FEATURES:
        cell = Cell(name, "halves", features)
        column = {m: own for m, own in scores.get(cell, {}).items() if m in rows}
        marks = mark_column(column)
        for method, row in rows.items():
            row.append(
                _beside(column.get(method), printed_numbers(cell)[method], marks.get(method))
            )
    return f"### {dataset.title}\n\n" + make_table(["", *PRINTED_FEATURES], rows.values())


def _beside(scores: Scores | None, printed: float, mark: Mark | None) -> str:
    if scores is None or mark is None:
        return f"– ({printed:.2f})"
    text = mark_text(format_spread(mean_score(scores), deviation(scores)), mark)
    return f"{text} ({printed:.2f}; {format_number(mean_score(scores) - printed, signed=True)})"


def _not_reached(scores: CellScores) -> str:
    """List the printed numbers that our runs stay below."""
    below = []
    for cell, column in scores.items():
        for method, printed in printed_numbers(cell).items():
            difference = compare(column.get(method, {}), printed)
            if difference is not None and difference.is_below:
                place = f"{method_title(method)} on {cell.dataset} {cell.features}"
                below.append(f"{place} ({difference.text})")
    if not below:
        return "All printed numbers that were run are reached."
    about = (
        "°: not significantly below, by the one-sample t-test against the printed number; fewer "
        "than three repeats are not tested"
    )
    return f"Printed numbers that are not reached ({about}): {'; '.join(below)}."


def comparison_section(records: list[Record]) -> str:
    """Return how the fixed configuration compares with printed numbers and with our own runs."""
    scores = scores_by_cell(records)
    if not any(FIXED in column for column in scores.values()):
        return ""
    parts = [
        f"## The fixed configuration, {method_title(FIXED).replace('*', chr(92) + '*')}",
        "One configuration for all cells, set before any test half of this table was scored.",
        _against_printed(compare_with_printed(scores)),
        _against_methods(scores),
    ]
    return "\n\n".join(part for part in parts if part)


def _against_printed(standings: list[Standing]) -> str:
    if not standings:
        return ""
    rows = []
    for cell, rival, difference in standings:
        place = [cell.dataset, cell.features, format_number(difference.ours)]
        printed = f"{difference.theirs:.2f} ({method_title(rival)})"
        verdict = "yes" if difference.is_above else "level" if difference.is_level else "**no**"
        rows.append([*place, printed, format_number(difference.gain, signed=True), verdict])
    above = sum(standing.difference.is_above for standing in standings)
    header = ["data", "features", "ours", "best printed", "difference", "above"]
    count = f"Above the best printed number in {above} of {len(rows)} cells."
    return f"{count}\n\n{make_table(header, rows)}"


def _against_methods(scores: CellScores) -> str:
    """Return the differences to each competitor, and in how many printed cells it is beaten."""
    cells = [cell for cell in scores if FIXED in scores[cell]]
    standings = {m: compare_with_method(scores, m, cells) for m in COMPETITORS}
    found = {m: {s.cell: s.difference for s in own} for m, own in standings.items() if own}
    if not found:
        return ""
    rows = []
    for cell in cells:
        differences = (by_cell.get(cell) for by_cell in found.values())
        gains = ["–" if difference is None else difference.text for difference in differences]
        rows.append([f"{cell.dataset}{' by object' * cell.by_object}", cell.features, *gains])
    header = ["data", "features", *(method_title(m) for m in found)]
    text = (
        "Its accuracy minus that of our own runs of other methods, in points, on the halves that "
        "both were run on (°: not significant; fewer than three repeats are not tested).\n\n"
    )
    return text + make_table(header, rows) + _tally(found)


def _tally(found: Mapping[str, Mapping[Cell, Difference]]) -> str:
    counted = []
    for method, by_cell in found.items():
        met = [difference for cell, difference in by_cell.items() if printed_numbers(cell)]
        if met:
            above = sum(difference.is_above for difference in met)
            counted.append(f"{method_title(method)} in {above} of {len(met)}")
    if not counted:
        return ""
    return f"\n\nOf the cells with printed numbers it is above {', '.join(counted)}."
