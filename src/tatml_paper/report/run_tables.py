"""The tables of the page that list runs: all of them, failed ones, their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..cells import cell_of
from ..format import format_number
from ..store import Record
from .html import Column, HtmlTable, Value
from .results import Results, word_of
from .values import PLACE, compact, place_values, plain_value


def run_table(results: Results) -> HtmlTable:
    """Return every run with the parameters that it chose and the time that it took."""
    rows = [_run_row(record) for record in results.records]
    titles = ("Repeat", "Accuracy", "b0", "Threshold", "Duality gap", "Seconds", "Pairs", "Seed")
    return HtmlTable(
        "runs",
        f"All {len(rows)} runs",
        [
            *PLACE,
            *(Column(title, numeric=True) for title in titles),
            Column("Converged", choice=True),
            Column("Experiment", choice=True),
            Column("Parameters", code=True),
        ],
        rows,
    )


def _run_row(record: Record) -> list[Value]:
    words: dict[bool | None, str] = {True: "yes", False: "no"}
    converged = words.get(record.get("converged"), "–")
    chosen = {**record["setting"], **(record.get("params") or {})}
    return [
        *place_values(cell_of(record), word_of(record, "method")),
        plain_value(record.get("repeat"), ".0f"),
        plain_value(record.get("accuracy"), ".2f"),
        plain_value(record.get("b0"), ".4g"),
        plain_value(record.get("threshold"), ".4g"),
        plain_value(record.get("gap"), ".1e"),
        plain_value(record.get("seconds"), ".2f"),
        plain_value(record.get("n_pairs"), ".0f"),
        plain_value(record.get("seed"), ".0f"),
        Value(converged),
        Value(word_of(record, "experiment")),
        Value(compact(chosen)),
    ]


def failure_table(results: Results) -> HtmlTable | None:
    """Return the runs that failed with their errors."""
    if not results.failed:
        return None
    rows = [
        [
            *place_values(cell_of(record), word_of(record, "method")),
            plain_value(record.get("repeat"), ".0f"),
            Value(word_of(record, "error")),
        ]
        for record in results.failed
    ]
    columns = [*PLACE, Column("Repeat", numeric=True), Column("Error", code=True)]
    return HtmlTable("failures", f"{count_runs(rows)} that failed", columns, rows)


def count_runs(runs: Sequence[object]) -> str:
    """Return the number of runs in words.

    Examples
    --------
    >>> count_runs([1]), count_runs([1, 2])
    ('1 run', '2 runs')
    """
    return f"{len(runs)} run{'s' if len(runs) != 1 else ''}"


def time_table(
    results: Results, key: str, title: str, show: Callable[[str], str] = str
) -> HtmlTable:
    """Return the time by the value of a field; its shares hardly depend on the machine."""
    seconds = results.seconds_by(key)
    total = sum(seconds.values()) or 1.0
    runs = {name: sum(word_of(r, key) == name for r in results.records) for name in seconds}
    rows = [
        [
            Value(show(name)),
            Value(format_number(100 * spent / total, 1), 100 * spent / total),
            Value(format_number(spent, 1), spent),
            Value(str(runs[name]), runs[name]),
            Value(format_number(spent / runs[name], 2), spent / runs[name]),
        ]
        for name, spent in seconds.items()
    ]
    numeric = ("Share, %", "Seconds", "Runs", "Seconds per run")
    columns = [Column(title), *(Column(t, numeric=True) for t in numeric)]
    return HtmlTable(f"time-{key}", f"Time by {title.lower()}", columns, rows, tools=False)
