"""report.html: the results as one page that needs no other file and no network."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..cells import cell_of, dataset_title, method_title
from ..files import write_text
from ..markdown.sensitivity import EXPLANATION
from ..store import Record, grouped, read_records
from . import tables
from .compared import compared_html
from .html import (
    Column,
    HtmlFigure,
    HtmlTable,
    Section,
    Value,
    collapsible,
    figure_grid,
    fill_page,
    item_list,
    join,
    paragraphs,
    subsection,
)
from .pictures import MANIFEST, read_pictures
from .plots import accuracy_figures, sensitivity_figures
from .results import Results, as_number, word_of
from .story import story_sections
from .summary import summary_lines
from .values import number_value, numeric

if TYPE_CHECKING:
    from markupsafe import Markup

TITLE = "TATML: the paper's experiments, reproduced"
STORY_TITLE = "tatml: a distance and its threshold, learnt from pairs"
STORY_LEAD = (
    "tatml learns from examples of same and different pairs how far apart two samples may be to "
    "count as the same. This page shows what that means on one data set, from the raw data to a "
    "decision with a guarantee."
)
EXPERIMENTS_LEAD = (
    "This page shows the experiments of the paper on Threshold Auto-Tuning Metric Learning, run "
    "again. First it says what was compared, then who won and lost, then all numbers."
)
NEXT = (
    "Your own table: tatml fit data.csv --out model.skops, then tatml evaluate and tatml predict "
    "(docs/cli.md).",
    "Your own arrays, in Python: TATML(random_state=0).fit(X, y), then transform, pair_distance, "
    "predict_pairs and threshold_ (docs/guide.md).",
    "Embeddings and pairs, with a guarantee for false matches: TATMLPairs and calibrate_threshold "
    "(docs/verification.md).",
    "Covariance matrices and EEG: docs/features_spd.md. Images: docs/features_images.md.",
    "The paper's data sets: tatml reproduce table1 --data DIR (docs/reproduction.md).",
    "All pages with pictures: make docs.",
)
KEPT_VERSIONS = 40  # versions shown per record, which has about ten; bounds the size of the page


def write_report(out: str | os.PathLike[str]) -> Path:
    """Write `report.html` beside the records of a run.

    The page contains the pictures that `draw_pictures` made in the folder.

    Parameters
    ----------
    out : path
        The folder with `results.jsonl`.

    Returns
    -------
    Path
        The page, one file without references to others.

    Examples
    --------
    >>> import tempfile
    >>> from tatml_paper.report.page import write_report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(folder).name
    'report.html'
    """
    folder = Path(out)
    page = make_page(Results(read_records(folder)), folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    write_text(path, page)
    return path


def make_page(results: Results, folder: Path) -> str:
    """Return the page as text."""
    story = story_sections(folder)
    sections = [
        *story,
        Section("compared", "What was compared", compared_html(results)),
        Section("results", "Cells won and lost", summary_html(results)),
        Section("table1", "Table 1", table1_html(results)),
        Section("plots", "Accuracy by cell", plots_html(results)),
        Section("by-object", "By object", table_html(tables.object_table(results))),
        Section("same-different", "Verification", table_html(tables.verification_table(results))),
        Section("sensitivity", "Sensitivity", sensitivity_html(results)),
        Section("learnt", "Learnt metrics", pictures_html(folder)),
        Section("all", "All runs", runs_html(results)),
        Section("made-by", "Versions, seeds, time", provenance_html(results)),
        Section("next", "What to do next", item_list(NEXT)),
    ]
    title = STORY_TITLE if story else TITLE
    return fill_page(title, lead_html(results, bool(story)), sections, footer_html(results))


def lead_html(results: Results, has_story: bool) -> Markup:
    """Return what the page shows, in two sentences."""
    if not results.records and not has_story:
        return paragraphs(["There are no results yet."])
    if not has_story:
        return paragraphs([EXPERIMENTS_LEAD])
    small = " Then come the paper's experiments, in small." if results.records else ""
    return paragraphs([STORY_LEAD + small])


def table_html(table: HtmlTable | None) -> Markup:
    """Return a table, or nothing if there is none."""
    return join([]) if table is None else table.html()


def summary_html(results: Results) -> Markup:
    """Return the cells won and lost, and what was not run."""
    if not results.records:
        return join([])
    first, *lines = summary_lines(results)
    return join([paragraphs([first]), item_list(lines)])


# The sections


def table1_html(results: Results) -> Markup:
    """Return the table as the paper has it, then as a list."""
    cells = [cell for cell in results.cells if not cell.by_object]
    if not cells:
        return join([])
    as_list = tables.comparison_table(results, cells).html()
    listed = collapsible("The same numbers as a list, to sort and filter", as_list)
    return join([tables.overview_table(results, cells).html(), listed])


def plots_html(results: Results) -> Markup:
    """Return plots of means with error bars."""
    return figure_grid(accuracy_figures(results, results.cells)) if results.cells else join([])


def sensitivity_html(results: Results) -> Markup:
    """Return the ranges of the study, curves over many decades, and all settings."""
    if not results.sensitivity:
        return join([])
    heading, *reasons = EXPLANATION.split("\n\n")
    return join(
        [
            item_list(describe_ranges(results)),
            figure_grid(sensitivity_figures(results.sensitivity)),
            table_html(tables.settings_table(results)),
            subsection(heading.removeprefix("## "), paragraphs(reasons)),
        ]
    )


def describe_ranges(results: Results) -> list[str]:
    """Return the ranges of accuracy and b0 in each part of the study, one line per method."""
    several = len({cell_of(record) for record in results.sensitivity}) > 1

    def name(record: Record) -> str:
        moves, study = record["setting"].get("moves"), record["setting"]["study"]
        values = f"values of {tables.SETTING_TITLES.get(moves, moves)}"
        place = f"{cell_of(record).title}: " if several else ""
        part = values if moves else tables.STUDIES[study]
        return f"{place}{method_title(record['method'])}, {part}"

    groups = grouped(results.sensitivity, name)
    return [f"{part}: {describe_span(group)}." for part, group in groups.items()]


def describe_span(records: list[Record]) -> str:
    """Return the smallest and the largest mean over the repeats."""
    settings = grouped(records, lambda r: str(r["setting"])).values()
    parts = []
    for key, form, unit in (("accuracy", ".2f", " %"), ("b0", ".3g", "")):
        means = [np.mean([as_number(r.get(key)) for r in group]) for group in settings]
        means = [value for value in means if np.isfinite(value)]
        if means:
            ends = [f"{end:{form}}{unit}" for end in (min(means), max(means))]
            span = f"from {' to '.join(ends)}" if len(set(ends)) > 1 else ends[0]
            parts.append(f"{key} {span}")
    return ", ".join(parts)


def pictures_html(folder: Path) -> Markup:
    """Return the pictures that were drawn, in the order of their list."""
    groups: dict[str, list[HtmlFigure]] = defaultdict(list)
    for picture in read_pictures(folder):
        groups[picture.title].append(picture.read((folder / MANIFEST).parent))
    return join(subsection(title, figure_grid(many)) for title, many in groups.items())


def runs_html(results: Results) -> Markup:
    """Return the runs that failed, and all runs in a part that is closed at first."""
    runs = tables.run_table(results)
    listed = collapsible(runs.title, runs.html()) if runs.rows else join([])
    return join([table_html(tables.failure_table(results)), listed])


def provenance_html(results: Results) -> Markup:
    """Return versions, seeds, and the time by method and data set."""
    if not results.records:
        return join([])
    return join(
        [
            versions_table(results).html(),
            paragraphs([seeds_line(results), time_line(results)]),
            tables.time_table(results, "method", "Method", method_title).html(),
            tables.time_table(results, "dataset", "Data", dataset_title).html(),
        ]
    )


def versions_table(results: Results) -> HtmlTable:
    """Return each version that was used, and by how many runs."""
    used = Counter(
        (str(name), str(version))
        for record in results.records
        for name, version in list(record["versions"].items())[:KEPT_VERSIONS]
    )
    rows = [
        [Value(name), Value(version), number_value(count, 0)]
        for (name, version), count in sorted(used.items())
    ]
    columns = [Column("Software"), Column("Version"), *numeric(["Runs"])]
    return HtmlTable("versions", "Versions", columns, rows, tools=False)


def seeds_line(results: Results) -> str:
    """Return the seeds in one line."""
    seeds = sorted({word_of(record, "seed") for record in results.records})
    shown = ", ".join(seeds[:12]) + (" …" if len(seeds) > 12 else "")
    return f"{len(seeds)} seeds, listed per run in All runs: {shown}."


def time_line(results: Results) -> str:
    """Return the total time and the largest share."""
    by_method = results.seconds_by("method")
    total = sum(by_method.values())
    largest, seconds = next(iter(by_method.items()))
    share = 100 * seconds / total if total else 0.0
    return (
        f"The fits took {total / 60:.1f} minutes of one core; {method_title(largest)} took "
        f"{share:.0f} % of them. Minutes depend on the machine, shares hardly do."
    )


def footer_html(results: Results) -> Markup:
    """Return when the results and the page were made, and from which commits."""
    dates = sorted(record["date"] for record in results.records)
    made = f"Results made from {dates[0]} to {dates[-1]}. " if dates else ""
    commits = {r["versions"].get("commit") for r in results.records} - {None}
    named = f"Commit {', '.join(sorted(map(str, commits)))}. " if commits else ""
    return paragraphs([f"{made}{named}Page written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."])
