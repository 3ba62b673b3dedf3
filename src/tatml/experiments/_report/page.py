"""report.html: the results of a run as one page that needs nothing else, not even a network."""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import numpy as np

from .._markdown.sensitivity import EXPLANATION
from .._settings import COMPETITORS
from .._store import read_records
from . import tables
from .html import (
    Column,
    Figure,
    Table,
    Value,
    bullets,
    embed,
    figures,
    fill_page,
    fold,
    number,
    paragraphs,
)
from .pictures import MANIFEST, read_pictures
from .plots import accuracy_figures, sensitivity_figures
from .results import (
    BASELINE,
    FIXED_NAME,
    LEVEL,
    Record,
    Results,
    Standing,
    as_number,
    cell_of,
    compare_with_method,
    compare_with_printed,
    dataset_title,
    method_title,
    numbers_of,
    text,
)

__all__ = ["write_report"]

TITLE = "TATML: the paper's experiments, reproduced"
KEPT_VERSIONS = 40  # of a dictionary that should hold some ten


def write_report(out: str | os.PathLike[str]) -> Path:
    """Write `report.html` beside the records of a run.

    The pictures that `tatml.experiments._report.pictures.draw_pictures` left there are taken in.

    Parameters
    ----------
    out : path
        The folder with `results.jsonl`.

    Returns
    -------
    Path
        The page: one file without any reference to another.

    Examples
    --------
    >>> import tempfile
    >>> from tatml.experiments._report import write_report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(folder).name
    'report.html'
    """
    folder = Path(out)
    page = make_page(Results(read_records(folder)), folder)
    folder.mkdir(parents=True, exist_ok=True)
    path, unfinished = folder / "report.html", folder / "report.html.part"
    unfinished.write_text(page, encoding="utf-8")
    os.replace(unfinished, path)  # who has the page open never reads half of it
    return path


def make_page(results: Results, folder: Path) -> str:
    """The page as text."""
    sections = {
        "table1": ("Table 1", table1_html(results)),
        "plots": ("Accuracy by cell", plots_html(results)),
        "by-object": ("By object", table_html(tables.by_object(results))),
        "same-different": ("Verification", table_html(tables.verification(results))),
        "sensitivity": ("Sensitivity", sensitivity_html(results)),
        "learnt": ("What was learnt", pictures_html(folder)),
        "all": ("All runs", runs_html(results)),
        "made-by": ("Versions, seeds, time", provenance_html(results)),
    }
    lead = f'<div class="lead">\n{summary_html(results)}\n</div>'
    return fill_page(TITLE, lead, sections, footer_html(results))


def table_html(table: Table | None) -> str:
    """A table, or nothing."""
    return "" if table is None else table.html()


# The summary


def summary_html(results: Results) -> str:
    """What came out, in a few sentences that also say what is missing."""
    if not results.records:
        return paragraphs(["There are no results yet."])
    printed = compare_with_printed(results)
    lines = [tally(printed, "the best printed number of any method")] if printed else []
    cells = results.printed_cells or [cell for cell in results.cells if not cell.by_object]
    for method in COMPETITORS:
        standings = compare_with_method(results, method, cells)
        if standings:
            lines.append(tally(standings, f"our own run of {method_title(method)}"))
    lines += [above_baseline(standing) for standing in object_standings(results)]
    lines += [line for line in [reached_line(results)] if line]
    lines.append(completeness(results, count_papers_cells(printed)))
    name = method_title(FIXED_NAME)
    first = f"{name} is the one configuration that was fixed before any test half here was scored."
    return paragraphs([first]) + bullets(lines)


def tally(standings: list[Standing], rival: str) -> str:
    """Cells won, level and lost, those that were not won by name."""
    line = f"Against {rival}: won {sum(s.won for s in standings)} of {len(standings)} cells"
    for word, group in (
        ("level in", [s for s in standings if s.level]),
        ("lost", [s for s in standings if not s.won and not s.level]),
    ):
        if group:
            named = (f"{s.cell.title} ({number(s.ours)} against {number(s.bar)})" for s in group)
            line += f"; {word} {len(group)}: {', '.join(named)}"
    return line + "."


def reached_line(results: Results) -> str:
    """Whether the paper's own method, run here, reaches what the paper prints for it."""
    pairs = [
        (cell, results.scores[cell]["tatml"], numbers_of(cell)["tatml"])
        for cell in results.printed_cells
        if "tatml" in results.scores[cell]
    ]
    if not pairs:
        return ""
    below = [
        f"{cell.title} ({number(score.mean)} against {number(printed)})"
        for cell, score, printed in pairs
        if score.mean < printed and score.against_number(printed) < LEVEL
    ]
    reached = sum(round(score.mean, 2) >= printed for _, score, printed in pairs)
    line = f"TATML as in the paper reaches its printed number in {reached} of {len(pairs)} cells"
    return line + (f"; it is significantly below in {', '.join(below)}." if below else ".")


def object_standings(results: Results) -> list[Standing]:
    """By object: the fixed configuration against the plain distance."""
    return compare_with_method(
        results, BASELINE, [cell for cell in results.cells if cell.by_object]
    )


def above_baseline(standing: Standing) -> str:
    """How far one is above the plain distance."""
    gain = number(standing.ours - standing.bar, signed=True)
    return (
        f"{standing.cell.title}: {number(standing.ours)}, {gain} points against "
        f"{method_title(BASELINE)} ({number(standing.bar)})."
    )


def count_papers_cells(standings: list[Standing]) -> int:
    """How many of the paper's cells they are: the same numbers with other features are one."""
    return len({tuple(numbers_of(standing.cell).values()) for standing in standings})


def completeness(results: Results, n_printed: int) -> str:
    """What was run, and what was not."""
    repeats = [len(s.by_repeat) for scores in results.scores.values() for s in scores.values()]
    span = f"{min(repeats)} to {max(repeats)}" if repeats else "0"
    if repeats and min(repeats) == max(repeats):
        span = str(repeats[0])
    line = f"{len(results.records)} runs, {span} repeats a cell and method"
    if n_printed < 9:
        line += f"; of the paper's nine cells {n_printed} were run"
    if results.failed:
        line += f"; {tables.count_runs(results.failed)} failed (see All runs)"
    return line + "."


# The sections


def table1_html(results: Results) -> str:
    """The table as the paper has it, then as a list."""
    cells = [cell for cell in results.cells if not cell.by_object]
    if not cells:
        return ""
    list_ = fold("The same as a list, to sort and filter", tables.comparison(results, cells).html())
    return tables.overview(results, cells).html() + list_


def plots_html(results: Results) -> str:
    """Means with error bars."""
    return figures(accuracy_figures(results, results.cells)) if results.cells else ""


def sensitivity_html(results: Results) -> str:
    """The paper's own study, then curves over the decades."""
    if not results.sensitivity:
        return ""
    many = sensitivity_figures(results.sensitivity)
    table = table_html(tables.settings_table(results))
    heading, *reasons = EXPLANATION.split("\n\n")
    return "\n".join(
        [
            bullets(ranges(results)),
            figures(many) if many else "",
            table,
            f"<h3>{escape(heading.removeprefix('## '))}</h3>",
            paragraphs(reasons),
        ]
    )


def ranges(results: Results) -> list[str]:
    """How far accuracy and b0 move in each part of the study, method by method."""
    groups: dict[str, list[Record]] = defaultdict(list)
    several = len({cell_of(record) for record in results.sensitivity}) > 1
    for record in results.sensitivity:
        setting = record.get("setting") or {}
        moves = setting.get("moves")
        part = f"values of {moves}" if moves else f"the paper's {setting.get('study')}"
        place = f"{cell_of(record).title}: " if several else ""
        groups[f"{place}{method_title(text(record, 'method'))}, {part}"].append(record)
    return [f"{name}: {spans(group)}." for name, group in groups.items()]


def spans(records: list[Record]) -> str:
    """From where to where the means over the repeats go."""
    settings: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        settings[str(record.get("setting"))].append(record)
    parts = []
    for key, form, unit in (("accuracy", ".2f", " %"), ("b0", ".3g", "")):
        means = [np.mean([as_number(r.get(key)) for r in group]) for group in settings.values()]
        means = [value for value in means if np.isfinite(value)]
        if means:
            ends = [f"{end:{form}}{unit}" for end in (min(means), max(means))]
            span = f"from {' to '.join(ends)}" if len(set(ends)) > 1 else ends[0]
            parts.append(f"{key} {span}")
    return ", ".join(parts)


def pictures_html(folder: Path) -> str:
    """The pictures that were drawn, in the order of their list."""
    groups: dict[str, list[Figure]] = defaultdict(list)
    for picture in read_pictures(folder):
        source = embed((folder / MANIFEST).with_name(picture.file).read_bytes(), "image/png")
        figure = Figure(source, picture.alternative, picture.caption, picture.drawing)
        groups[picture.title].append(figure)
    return "\n".join(f"<h3>{escape(t)}</h3>\n{figures(many)}" for t, many in groups.items())


def runs_html(results: Results) -> str:
    """Failures openly, all runs behind a click."""
    runs = tables.all_runs(results)
    listed = fold(runs.title, runs.html()) if runs.rows else ""
    return "\n".join(part for part in (table_html(tables.failures(results)), listed) if part)


def provenance_html(results: Results) -> str:
    """With what, from which seeds, and where the time went."""
    if not results.records:
        return ""
    return "\n".join(
        [
            versions_table(results).html(),
            paragraphs([seeds_line(results), time_line(results)]),
            tables.time_shares(results, "method", "Method", method_title).html(),
            tables.time_shares(results, "dataset", "Data", dataset_title).html(),
        ]
    )


def versions_table(results: Results) -> Table:
    """Each version that was used, and by how many runs."""
    used: dict[tuple[str, str], int] = defaultdict(int)
    for record in results.records:
        for name, version in list((record.get("versions") or {}).items())[:KEPT_VERSIONS]:
            used[str(name), str(version)] += 1
    rows = [
        [Value(name), Value(version), Value(str(count), count)]
        for (name, version), count in sorted(used.items())
    ]
    columns = [Column("What"), Column("Version"), Column("Runs", numeric=True)]
    return Table("versions", "Versions", columns, rows, tools=False)


def seeds_line(results: Results) -> str:
    """The seeds, in one line."""
    seeds = sorted({text(record, "seed") for record in results.records})
    shown = ", ".join(seeds[:12]) + (" …" if len(seeds) > 12 else "")
    return f"{len(seeds)} seeds, each in its run's row: {shown}."


def time_line(results: Results) -> str:
    """All of it, and what the largest share is."""
    by_method = results.seconds_by("method")
    total = sum(by_method.values())
    largest, seconds = next(iter(by_method.items()))
    share = 100 * seconds / total if total else 0.0
    return (
        f"The fits took {total / 60:.1f} minutes in all, one after the other; "
        f"{method_title(largest)} took {share:.0f} % of them. Shares hardly depend on the machine, "
        "minutes do."
    )


def footer_html(results: Results) -> str:
    """When the results and the page were made, and from which commits."""
    dates = sorted(text(record, "date") for record in results.records if record.get("date"))
    made = f"Results made from {dates[0]} to {dates[-1]}. " if dates else ""
    commits = {(r.get("versions") or {}).get("commit") for r in results.records} - {None}
    named = f"Commit {', '.join(sorted(map(str, commits)))}. " if commits else ""
    return paragraphs([f"{made}{named}Page written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."])
