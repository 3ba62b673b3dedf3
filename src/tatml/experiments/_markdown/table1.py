"""table1.md and sensitivity.md: what the records say, beside what the paper says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from math import isnan
from pathlib import Path

from .._methods import METHODS
from .._settings import DATASETS, Dataset, features_of
from .._standings import as_cells, deviation, mean, not_worse
from .._store import Record, current_records, failed_records, read_records
from .comparison import comparison_section, printed_section
from .elements import number, spread, table
from .sensitivity import sensitivity_text

__all__ = ["table_text", "write_tables"]

TEST = """Accuracy of 3-NN on the test half in per cent, mean ± standard deviation over the repeats.
**Bold**: the highest of the column; ° : not significantly different from it, or too few repeats to
say. The test is a
two-sided one-sample t-test, at 5 %, of the differences between the highest and the other method,
repeat by repeat (both see the same halves), against zero. The paper names a one-sample t-test at
5 % and no more: it could also have been one-sided, or of the accuracies themselves against the
highest mean as a constant."""


def write_tables(out: str | os.PathLike[str]) -> list[Path]:
    """Write `table1.md` and `sensitivity.md` from the records of a folder.

    Parameters
    ----------
    out : path
        The folder with `results.jsonl`.

    Returns
    -------
    list of Path
        The files that were written: those of which there are records.

    Examples
    --------
    >>> from tatml.experiments import write_tables
    >>> write_tables("no-such-folder")
    []
    """
    records = read_records(out)
    texts = {"table1.md": table_text(records), "sensitivity.md": sensitivity_text(records)}
    written = []
    for name, text in texts.items():
        if text:
            path = Path(out) / name
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def table_text(records: Iterable[Record]) -> str:
    """All of table1.md; empty where there are no records of it."""
    everything = list(records)
    records = current_records(everything, "table1")
    if not records:
        return ""
    present = [d for d in DATASETS.values() if any(_is_of(r, d) for r in records)]
    parts = [
        "# Table 1: ours beside the paper's",
        _provenance(records),
        printed_section(records, present),
        "## All methods",
        TEST,
        *(_accuracy_table(d, records) for d in present),
        _exploratory(records),
        comparison_section(records),
        "## Same or different?",
        VERIFICATION,
        *(_verification_table(d, records) for d in present),
        "## What the time went into",
        _timing(records),
        "## How each method is built",
        _methods(records),
        _failures(everything),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _is_of(record: Record, dataset: Dataset) -> bool:
    return (record["dataset"], record["split"]) == (dataset.dataset, dataset.split)


def _title(name: str) -> str:
    title = METHODS[name].title.replace("*", "\\*")
    return f"{title} (exploratory)" if METHODS[name].kind == "exploratory" else title


def _exploratory(records: list[Record]) -> str:
    if not any(METHODS[r["method"]].kind == "exploratory" for r in records):
        return ""
    return "Rows marked exploratory were not fixed beforehand: they are there to learn from."


def _provenance(records: list[Record]) -> str:
    made = {(r["versions"].get("commit") or "unknown", r["date"][:10]) for r in records}
    commits = "; ".join(f"commit {commit}, {date}" for commit, date in sorted(made))
    known = records[-1]["versions"]
    names = ("tatml", "python", "numpy", "scipy", "scikit-learn")
    versions = ", ".join(f"{name} {known.get(name)}" for name in names)
    counts = [len(scores) for scores in as_cells(records).values()] or [0]
    repeats = "–".join(str(count) for count in sorted({min(counts), max(counts)}))
    return (
        f"{len(records)} runs, {repeats} repeats a cell and method. Made by {commits}, with "
        f"{versions}."
    )


def _columns(dataset: Dataset, records: list[Record]) -> list[str]:
    present = {r["features"] for r in records if _is_of(r, dataset)}
    return [name for name in features_of(dataset) if name in present]


def _accuracy_table(dataset: Dataset, records: list[Record]) -> str:
    cells = as_cells(r for r in records if _is_of(r, dataset))
    columns = _columns(dataset, records)
    marks = {}
    for features in columns:
        column = {key[3]: scores for key, scores in cells.items() if key[2] == features}
        marks[features] = not_worse(column)

    def cell(features: str, method: str) -> str:
        scores = cells.get((dataset.dataset, dataset.split, features, method))
        if scores is None:
            return "–"
        text = spread(mean(scores), deviation(scores))
        best, close = marks[features]
        return f"**{text}**" if method == best else text + (" °" if method in close else "")

    return f"### {dataset.title}\n\n" + _method_table(dataset, records, columns, cell)


def _method_table(
    dataset: Dataset,
    records: list[Record],
    columns: list[str],
    cell: Callable[[str, str], str],
) -> str:
    present = {r["method"] for r in records if _is_of(r, dataset)}
    methods = [name for name in METHODS if name in present]
    rows = [[_title(name), *(cell(column, name) for column in columns)] for name in methods]
    return table(["", *columns], rows)


VERIFICATION = """Pairs of the test half, of one class and of two (by object: never two views of
one object). Area under the ROC curve / equal error rate in per cent / balanced accuracy in per cent
at the threshold that was learnt with the metric / at one calibrated afterwards for the best
accuracy on pairs of the training half. Methods that learn no threshold have the last only."""


def _verification_table(dataset: Dataset, records: list[Record]) -> str:
    quantities = ("auc", "eer", "balanced_learnt", "balanced_calibrated")
    own = [r for r in records if _is_of(r, dataset) and r.get("auc") is not None]
    if not own:
        return ""
    cells = {quantity: as_cells(own, quantity) for quantity in quantities}

    def cell(features: str, method: str) -> str:
        key = dataset.dataset, dataset.split, features, method
        values = [mean(cells[quantity].get(key, {})) for quantity in quantities]
        if all(isnan(value) for value in values):
            return "–"
        digits = (3, 1, 1, 1)
        return " / ".join(number(v, d) for v, d in zip(values, digits, strict=True))

    columns = _columns(dataset, own)
    return f"### {dataset.title}\n\n" + _method_table(dataset, own, columns, cell)


def _timing(records: list[Record]) -> str:
    totals: dict[str, dict[str, float]] = {}
    for r in records:
        place = f"{r['dataset']}{' by object' * (r['split'] == 'objects')}"
        row = totals.setdefault(r["method"], {})
        row[place] = row.get(place, 0.0) + r["seconds"] + r.get("seconds_scoring", 0.0)
    columns = list(dict.fromkeys(place for row in totals.values() for place in row))
    everything = sum(sum(row.values()) for row in totals.values())
    ordered = sorted(totals.items(), key=lambda item: -sum(item[1].values()))
    rows = []
    for name, row in ordered:
        total = sum(row.values())
        parts = [number(row.get(column), 1) for column in columns]
        rows.append([_title(name), *parts, number(total, 1), f"{100 * total / everything:.0f} %"])
    text = f"Searching, fitting and scoring took {everything / 60:.1f} minutes of one core.\n\n"
    return text + table(["seconds", *columns, "all", "share"], rows)


def _methods(records: list[Record]) -> str:
    present = {r["method"] for r in records}
    return "\n".join(
        f"- **{_title(name)}** (`{name}`): {method.about}."
        for name, method in METHODS.items()
        if name in present
    )


def _failures(records: list[Record]) -> str:
    failed = failed_records(records, "table1")
    if not failed:
        return ""
    lines = [f"- `{record['key']}`: {' '.join(record['error'].split())}" for record in failed]
    return "## Runs that failed\n\n" + "\n".join(lines)
