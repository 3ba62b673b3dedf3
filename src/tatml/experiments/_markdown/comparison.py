"""The paper's methods beside the printed numbers, and the fixed configuration beside all others."""

from __future__ import annotations

from collections.abc import Iterable

from .._methods import METHODS
from .._settings import COMPETITORS, PRINTED, PROTOCOL, SCALES, Dataset
from .._standings import Scores, as_cells, deviation, mean, not_worse, on_same_halves, p_value
from .._store import Record
from .elements import number, signed, spread, table

__all__ = ["comparison_section", "printed_section", "printed_number"]

FEATURES = tuple(name for name, _ in SCALES)
FIXED = next(name for name, method in METHODS.items() if method.kind == "fixed")
LEVEL = PROTOCOL.significance


def printed_number(dataset: str, features: str, method: str) -> float | None:
    """What Table 1 of the paper says, or None.

    Examples
    --------
    >>> printed_number("virus", "M=1;(1)", "euc")
    58.13
    """
    rows = PRINTED.get(dataset, {})
    if features not in FEATURES or method not in rows:
        return None
    return rows[method][FEATURES.index(features)]


def best_printed(dataset: str, features: str) -> tuple[str, float]:
    """The highest printed number of a cell, and whose it is."""
    index = FEATURES.index(features)
    method = max(PRINTED[dataset], key=lambda name: PRINTED[dataset][name][index])
    return method, PRINTED[dataset][method][index]


def printed_section(records: list[Record], datasets: Iterable[Dataset]) -> str:
    """Ours, the paper's and their difference for the paper's methods, marked as in the paper."""
    wanted = [d for d in datasets if d.dataset in PRINTED and d.split == "halves"]
    if not wanted:
        return ""
    head = (
        "## The paper's methods under its protocol\n\nOurs (printed; difference). Marks as the "
        "paper has them, among these four: **bold** the highest, ° not significantly different, or "
        "too few repeats to say."
    )
    tables = [_printed_table(dataset, records) for dataset in wanted]
    return "\n\n".join([head, *tables, _not_reached(as_cells(records))])


def _not_reached(cells: dict[tuple, Scores]) -> str:
    """Which printed numbers ours stay below, and of which of them the t-test says so."""
    below = []
    for (dataset, split, features, method), scores in cells.items():
        printed = printed_number(dataset, features, method)
        if split == "halves" and printed is not None and mean(scores) < printed:
            mark = "" if p_value(scores, printed) < LEVEL else " °"
            gap = signed(mean(scores) - printed)
            below.append(f"{METHODS[method].title} on {dataset} {features} ({gap}{mark})")
    if not below:
        return "All printed numbers that were run are reached."
    about = (
        "°: by no more than the repeats vary, one-sample t-test against the printed number, or too "
        "few repeats to say"
    )
    return f"Printed numbers that are not reached ({about}): {'; '.join(below)}."


def _printed_table(dataset: Dataset, records: list[Record]) -> str:
    name = dataset.dataset
    cells = as_cells(r for r in records if r["dataset"] == name and r["split"] == "halves")
    rows = {method: [METHODS[method].title] for method in PRINTED[name]}
    for features in FEATURES:
        column = {m: cells[key] for m in rows if (key := (name, "halves", features, m)) in cells}
        best, close = not_worse(column) if column else (None, set())
        for method, row in rows.items():
            mark = (method == best) - (method in close)
            printed = PRINTED[name][method][FEATURES.index(features)]
            row.append(_beside(column.get(method), printed, mark))
    return f"### {dataset.title}\n\n" + table(["", *FEATURES], rows.values())


def _beside(scores: Scores | None, printed: float, mark: int) -> str:
    if scores is None:
        return f"– ({printed:.2f})"
    text = spread(mean(scores), deviation(scores))
    text = {1: f"**{text}**", 0: text, -1: f"{text} °"}[mark]
    return f"{text} ({printed:.2f}; {signed(mean(scores) - printed)})"


def comparison_section(records: list[Record]) -> str:
    """Where the fixed configuration stands against printed numbers and against our own rows."""
    cells = as_cells(records)
    fixed = {key[:3]: scores for key, scores in cells.items() if key[3] == FIXED}
    if not fixed:
        return ""
    parts = [
        f"## The fixed configuration, {METHODS[FIXED].title.replace('*', chr(92) + '*')}",
        "One configuration for all cells, set before any test half of this table was scored.",
        _against_printed(fixed),
        _against_methods(fixed, cells),
    ]
    return "\n\n".join(part for part in parts if part)


def _against_printed(fixed: dict[tuple, Scores]) -> str:
    rows, above = [], 0
    for (dataset, split, features), scores in fixed.items():
        if dataset not in PRINTED or split != "halves" or features not in FEATURES:
            continue
        method, printed = best_printed(dataset, features)
        gain = mean(scores) - printed
        above += gain > 0
        place = [
            dataset,
            features,
            number(mean(scores)),
            f"{printed:.2f} ({METHODS[method].title})",
        ]
        rows.append([*place, signed(gain), "yes" if gain > 0 else "**no**"])
    if not rows:
        return ""
    header = ["data", "features", "ours", "best printed", "difference", "above"]
    return f"Above the best printed number in {above} of {len(rows)} cells.\n\n" + table(
        header, rows
    )


def _against_methods(fixed: dict[tuple, Scores], cells: dict[tuple, Scores]) -> str:
    """Differences to each competitor, and in how many of the paper's cells all are beaten."""
    present = [m for m in COMPETITORS if any(key[3] == m for key in cells)]
    rows, met, beaten = [], dict.fromkeys(present, 0), dict.fromkeys(present, 0)
    for place, scores in fixed.items():
        others = {m: cells[(*place, m)] for m in present if (*place, m) in cells}
        counts = place[0] in PRINTED and place[1] == "halves"
        row = [f"{place[0]}{' by object' * (place[1] == 'objects')}", place[2]]
        for method in present:
            if method not in others:
                row.append("–")
                continue
            ours, theirs = on_same_halves(scores, others[method])
            gain = mean(ours) - mean(theirs)
            met[method] += counts and bool(ours)
            beaten[method] += counts and gain > 0
            row.append(signed(gain) + " °" * (not p_value(scores, others[method]) < LEVEL))
        rows.append(row)
    header = ["data", "features", *(METHODS[m].title for m in present)]
    text = (
        "Its lead over our own competitors in points, on the halves that both were run on (°: not "
        "significant).\n\n"
    )
    counted = ", ".join(f"{METHODS[m].title} in {beaten[m]} of {met[m]}" for m in present if met[m])
    total = f"\n\nOf the cells with printed numbers it is above {counted}." if counted else ""
    return text + table(header, rows) + total
