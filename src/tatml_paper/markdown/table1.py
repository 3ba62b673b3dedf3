"""table1.md: the accuracies of all methods, beside the paper's Table 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..cells import Cell, Scores, in_order, method_title, scores_by_cell
from ..format import format_number, format_spread
from ..methods import METHODS
from ..settings import DATASETS, Dataset, features_of
from ..standings import deviation, mark_column, mean_score
from ..store import Record, current_records, failed_records
from .comparison import comparison_section, printed_section
from .elements import make_table, mark_text

TEST = """Accuracy of 3-NN on the test half in per cent, mean ± standard deviation over the repeats.
**Bold**: the highest of the column, and all that are shown with the same digits; °: not
significantly different from it, or too few repeats to say; a column without three repeats has no °.
The test is a two-sided one-sample t-test, at 5 %, of the differences between the highest and the
other method, repeat by repeat (both see the same halves), against zero. The paper names a
one-sample t-test at 5 % and no more: it could also have been one-sided, or of the accuracies
themselves against the highest mean as a constant."""

VERIFICATION = """Pairs of the test half, of one class and of two (by object: never two views of
one object). Area under the ROC curve / equal error rate in per cent / balanced accuracy in per cent
at the threshold that was learnt with the metric / at one calibrated afterwards for the best
accuracy on pairs of the training half. Methods that learn no threshold have the last only."""


def table1_text(records: Iterable[Record]) -> str:
    """Return the text of table1.md; empty if there are no records for it."""
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
        *(_accuracy_table(dataset, records) for dataset in present),
        _exploratory(records),
        comparison_section(records),
        "## Same or different?",
        VERIFICATION,
        *(_verification_table(dataset, records) for dataset in present),
        "## Time by method and data set",
        _timing(records),
        "## How each method is built",
        _methods(records),
        _failures(everything),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _is_of(record: Record, dataset: Dataset) -> bool:
    return (record["dataset"], record["split"]) == (dataset.dataset, dataset.split)


def _is_exploratory(method: str) -> bool:
    return method in METHODS and METHODS[method].kind == "exploratory"


def _title(method: str) -> str:
    title = method_title(method).replace("*", "\\*")
    return f"{title} (exploratory)" if _is_exploratory(method) else title


def _exploratory(records: list[Record]) -> str:
    if not any(_is_exploratory(r["method"]) for r in records):
        return ""
    return "Rows marked exploratory were not fixed beforehand: they are there to learn from."


def _provenance(records: list[Record]) -> str:
    made = {(r["versions"].get("commit") or "unknown", r["date"][:10]) for r in records}
    commits = "; ".join(f"commit {commit}, {date}" for commit, date in sorted(made))
    known = records[-1]["versions"]
    names = ("tatml", "python", "numpy", "scipy", "scikit-learn")
    versions = ", ".join(f"{name} {known.get(name)}" for name in names)
    columns = scores_by_cell(records).values()
    counts = [len(scores) for column in columns for scores in column.values()] or [0]
    repeats = "–".join(str(count) for count in sorted({min(counts), max(counts)}))
    return (
        f"{len(records)} runs, {repeats} repeats per cell and method. Made by {commits}, with "
        f"{versions}."
    )


def _accuracy_table(dataset: Dataset, records: list[Record]) -> str:
    scores = scores_by_cell(r for r in records if _is_of(r, dataset))
    marks = {cell: mark_column(column) for cell, column in scores.items()}

    def show(cell: Cell, method: str) -> str:
        own = scores[cell].get(method)
        if own is None:
            return "–"
        return mark_text(format_spread(mean_score(own), deviation(own)), marks[cell][method])

    return _method_table(dataset, scores, show)


def _method_table(
    dataset: Dataset,
    scores: dict[Cell, dict[str, Scores]],
    show: Callable[[Cell, str], str],
) -> str:
    """Return a table with one row per method and one column per feature type of a data set."""
    present = {method for column in scores.values() for method in column}
    methods = in_order(present, METHODS)
    cells = [cell for cell in scores if cell.features in features_of(dataset)]
    rows = [[_title(name), *(show(cell, name) for cell in cells)] for name in methods]
    header = ["", *(cell.features for cell in cells)]
    return f"### {dataset.title}\n\n{make_table(header, rows)}"


def _verification_table(dataset: Dataset, records: list[Record]) -> str:
    digits = {"auc": 3, "eer": 1, "balanced_learnt": 1, "balanced_calibrated": 1}
    own = [r for r in records if _is_of(r, dataset) and r.get("auc") is not None]
    if not own:
        return ""
    scores = {quantity: scores_by_cell(own, quantity) for quantity in digits}

    def show(cell: Cell, method: str) -> str:
        if method not in scores["auc"][cell]:
            return "–"
        means = {q: mean_score(found.get(cell, {}).get(method, {})) for q, found in scores.items()}
        return " / ".join(format_number(value, digits[q]) for q, value in means.items())

    return _method_table(dataset, scores["auc"], show)


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
        parts = [format_number(row.get(column), 1) for column in columns]
        share = f"{100 * total / everything:.0f} %"
        rows.append([_title(name), *parts, format_number(total, 1), share])
    text = f"Searching, fitting and scoring took {everything / 60:.1f} minutes of one core.\n\n"
    return text + make_table(["seconds", *columns, "all", "share"], rows)


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
