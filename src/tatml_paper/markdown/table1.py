"""table1.md: the accuracies of all methods, beside the paper's Table 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..cells import FIXED, Cell, Scores, in_order, method_title, printed_numbers, scores_by_cell
from ..format import format_number, format_spread
from ..methods import METHODS
from ..settings import COMPETITORS, DATASETS, PRINTED, SCALES, Dataset, features_of
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
from ..store import Record, current_records, failed_records
from .elements import make_table, mark_text

PRINTED_FEATURES = tuple(name for name, _ in SCALES)
CellScores = Mapping[Cell, Mapping[str, Scores]]

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
        _printed_section(records, present),
        "## All methods",
        TEST,
        *(_accuracy_table(dataset, records) for dataset in present),
        _exploratory(records),
        _comparison_section(records),
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


# Our numbers beside the printed ones, and the fixed configuration beside all others


def _printed_section(records: list[Record], datasets: Iterable[Dataset]) -> str:
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


def _comparison_section(records: list[Record]) -> str:
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
