"""The tables of the page: methods and settings compared, all runs, and their time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..cells import (
    BASELINE,
    FIXED,
    Cell,
    Scores,
    cell_of,
    method_title,
    printed_numbers,
)
from ..format import format_number
from ..markdown.sensitivity import STUDY_DIGITS
from ..settings import PRINTED_SENSITIVITY
from ..standings import Mark, compare, deviation, mark_column, mean_score
from ..store import Record, grouped
from .html import Column, HtmlTable, Value
from .results import Results, as_number, word_of
from .values import (
    PLACE,
    accuracy_value,
    compact,
    describe_marks,
    difference_value,
    method_value,
    number_value,
    numeric,
    place_values,
    plain_value,
    rows_of_fixed,
    with_mark,
)


def overview_table(results: Results, cells: Sequence[Cell]) -> HtmlTable:
    """Return methods by cells: our accuracy, and below it the printed one and the difference."""
    methods = [m for m in results.methods if any(m in results.scores[cell] for cell in cells)]
    marks = {cell: mark_column(results.scores[cell]) for cell in cells}

    def entry(cell: Cell, method: str) -> Value:
        if method not in results.scores[cell]:
            return Value("–")
        scores, printed = results.scores[cell][method], printed_numbers(cell).get(method)
        note = ""
        if printed is not None:
            gain = difference_value(compare(scores, printed)).text
            note = f"paper {format_number(printed)}, {gain}"
        return accuracy_value(scores, marks[cell][method], note)

    return HtmlTable(
        "overview",
        "Table 1: accuracy in per cent of 3 nearest neighbours, by method and cell",
        [Column("Method"), *numeric(cell.title for cell in cells)],
        [[method_value(method), *(entry(cell, method) for cell in cells)] for method in methods],
        f"Mean ± standard deviation over the repeats. {describe_marks(results)}"
        f"{_second_line(results, cells)} Shaded: the fixed configuration.",
        rows_of_fixed(methods),
    )


def _second_line(results: Results, cells: Sequence[Cell]) -> str:
    """Explain the printed numbers, if there are any."""
    if not any(printed_numbers(cell) for cell in cells):
        return ""
    test = "; ° if a one-sample t-test does not separate them" if results.is_tested else ""
    return (
        f" Second line: the paper's number if it prints one, and ours minus the paper's{test}. The "
        "paper writes M=2;(1,.5) for two scales, M=1;(1) and M=1;(.5) for one."
    )


def comparison_table(results: Results, cells: Sequence[Cell]) -> HtmlTable:
    """Return one row per cell and method: ours, the paper's, and the fixed configuration's lead."""
    rows: list[list[Value]] = []
    methods: list[str] = []
    for cell in cells:
        column = results.scores[cell]
        marks, printed = mark_column(column), printed_numbers(cell)
        for method, scores in column.items():
            methods.append(method)
            text = with_mark(format_number(mean_score(scores)), marks[method])
            paper = printed.get(method)
            lead = None if method == FIXED else compare(column.get(FIXED, {}), scores)
            rows.append(
                [
                    *place_values(cell, method),
                    Value(text, mean_score(scores), best=marks[method] is Mark.HIGHEST),
                    number_value(deviation(scores)),
                    number_value(len(scores), 0),
                    number_value(paper),
                    difference_value(None if paper is None else compare(scores, paper)),
                    difference_value(lead),
                ]
            )
    titles = ("Accuracy", "Standard deviation", "Repeats", "Paper", "Ours − paper")
    return HtmlTable(
        "comparison",
        "Table 1 as a list: ours beside the paper's",
        [*PLACE, *numeric([*titles, "Fixed configuration − this method"])],
        rows,
        f"{describe_marks(results)} The last column compares on the halves that both methods were "
        "run on.",
        rows_of_fixed(methods),
    )


def object_table(results: Results) -> HtmlTable | None:
    """Return the accuracies of splits by object, beside those of random halves."""
    rows: list[list[Value]] = []
    methods: list[str] = []
    for cell in (cell for cell in results.cells if cell.by_object):
        column = results.scores[cell]
        halves = results.scores.get(Cell(cell.dataset, "halves", cell.features), {})
        marks = mark_column(column)
        for method, scores in column.items():
            methods.append(method)
            lead = None if method == BASELINE else compare(scores, column.get(BASELINE, {}))
            seen = mean_score(halves.get(method, {}))
            rows.append(
                [
                    *place_values(cell, method)[:3],
                    accuracy_value(scores, marks[method]),
                    difference_value(lead),
                    number_value(seen),
                    number_value(mean_score(scores) - seen, signed=True),
                ]
            )
    if not rows:
        return None
    base = f"Difference from {method_title(BASELINE)}"
    titles = ("Accuracy", base, "Accuracy in random halves", "Difference from random halves")
    return HtmlTable(
        "objects",
        "By object: no object on both sides of the split",
        [*PLACE[:3], *numeric(titles)],
        rows,
        "In a random half, views of one object are on both sides; here they are not. "
        f"{describe_marks(results)}",
        rows_of_fixed(methods),
    )


# Fields of a record that describe the verification of pairs, and their factors to per cent.
CHECKS = {"auc": 100, "eer": 1, "balanced_learnt": 1, "balanced_calibrated": 1}


def verification_table(results: Results) -> HtmlTable | None:
    """Return how well distances rank pairs, and how good the learnt threshold is."""
    groups: dict[tuple[Cell, str], list[list[float]]] = {}
    for record in results.table1:
        values = [as_number(record.get(key)) * unit for key, unit in CHECKS.items()]
        if np.isfinite(values[0]):
            groups.setdefault((cell_of(record), word_of(record, "method")), []).append(values)
    if not groups:
        return None
    rows = []
    for (cell, method), repeats in groups.items():
        means = [float(number) for number in np.mean(repeats, axis=0)]
        lost = number_value(means[3] - means[2], signed=True)
        rows.append([*place_values(cell, method), *map(number_value, means), lost])
    titles = (
        "Area under the ROC curve",
        "Equal error rate",
        "Balanced accuracy, learnt threshold",
        "Balanced accuracy, calibrated threshold",
        "Accuracy lost by the learnt threshold",
    )
    return HtmlTable(
        "verification",
        "Verification: are two samples of the same class?",
        [*PLACE, *numeric(titles)],
        rows,
        "Pairs of test samples, all numbers in per cent. Balanced accuracy at the threshold that "
        "was learnt with the metric, and at one that was calibrated afterwards on training pairs. "
        "Methods that learn no threshold have the latter only.",
        rows_of_fixed([method for _, method in groups]),
    )


STUDIES = {
    "grid": "the paper's grid",
    "threshold": "the paper's thresholds",
    "decades": "one parameter at a time",
}
SETTING_TITLES = {"mu0": "μ0", "C": "c", "n_pairs": "pairs per class"}
Group = tuple[Cell, str, str, str]  # cell, method, study, and its setting as text
CENTRE = "c0 = 1.0, μ0 = 1.0"


def settings_table(results: Results) -> HtmlTable | None:
    """Return each setting of the sensitivity study beside the paper's c0 = μ0 = 1."""
    groups = grouped(results.sensitivity, _setting_group)
    if not groups:
        return None
    scores = {key: {r["repeat"]: r["accuracy"] for r in group} for key, group in groups.items()}
    marks = _mark_studies(scores)
    rows = []
    for key, group in groups.items():
        cell, method, study, text = key
        centre = scores.get((cell, "tatml", "grid", CENTRE), {})
        rows.append(
            [
                Value(text),
                Value(STUDIES[study]),
                *place_values(cell, method)[:3],
                accuracy_value(scores[key], marks.get(key, Mark.APART), digits=STUDY_DIGITS),
                difference_value(compare(scores[key], centre, STUDY_DIGITS)),
                *_threshold_values(group),
            ]
        )
    titles = ("Accuracy", "Difference from c0 = μ0 = 1", "b0", "b0 / median", "Balanced accuracy")
    columns = [Column("Setting"), Column("Study", choice=True), *PLACE[:3], *numeric(titles)]
    remark = (
        f"The paper prints {PRINTED_SENSITIVITY['grid']} for all twelve points of its grid. The "
        "accuracies of the paper's grid and of the paper's thresholds are marked, each as one "
        f"column. {describe_marks(results)} Median: of the squared distances of training pairs. "
        "Balanced accuracy: for same or different at the threshold, in per cent."
    )
    return HtmlTable("settings", "All settings of the study", columns, rows, remark)


def _setting_group(record: Record) -> Group:
    setting = record["setting"]
    shown = {
        SETTING_TITLES.get(name, name): value
        for name, value in setting.items()
        if name not in ("study", "moves")
    }
    return cell_of(record), record["method"], setting["study"], compact(shown)


def _mark_studies(scores: Mapping[Group, Scores]) -> dict[Group, Mark]:
    """Mark the accuracies of the paper's grid, and those of its thresholds."""
    marks: dict[Group, Mark] = {}
    columns: dict[tuple[Cell, str, str], dict[Group, Scores]] = {}
    for key, own in scores.items():
        if key[2] != "decades":
            columns.setdefault(key[:3], {})[key] = own
    for column in columns.values():
        marks |= mark_column(column, STUDY_DIGITS)
    return marks


def _threshold_values(records: Sequence[Record]) -> list[Value]:
    """Return the mean b0, its share of the median squared distance, and balanced accuracy."""
    b0, median, balanced = (
        np.array([as_number(record.get(key)) for record in records])
        for key in ("b0", "median_squared", "balanced_learnt")
    )
    means = [float(np.mean(values)) for values in (b0, b0 / median, balanced)]
    forms = (".4g", ".3g", ".2f")
    return [plain_value(value, form) for value, form in zip(means, forms, strict=True)]


# Lists of runs


# The numbers of a run: its title, the field of the record, and the format.
NUMBERS = (
    ("Repeat", "repeat", ".0f"),
    ("Accuracy", "accuracy", ".2f"),
    ("b0", "b0", ".4g"),
    ("Threshold", "threshold", ".4g"),
    ("Duality gap", "gap", ".1e"),
    ("Seconds", "seconds", ".2f"),
    ("Pairs", "n_pairs", ".0f"),
    ("Seed", "seed", ".0f"),
)
CONVERGED: Mapping[bool | None, str] = {True: "yes", False: "no"}


def run_table(results: Results) -> HtmlTable:
    """Return every run with the parameters that it chose and the time that it took."""
    rows = [
        [
            *place_values(cell_of(record), word_of(record, "method")),
            *(plain_value(record.get(key), form) for _, key, form in NUMBERS),
            Value(CONVERGED.get(record.get("converged"), "–")),
            Value(word_of(record, "experiment")),
            Value(compact({**record["setting"], **(record.get("params") or {})})),
        ]
        for record in results.records
    ]
    columns = [*PLACE, *numeric(title for title, _, _ in NUMBERS), Column("Converged", choice=True)]
    columns += [Column("Experiment", choice=True), Column("Parameters", code=True)]
    return HtmlTable("runs", f"All {len(rows)} runs", columns, rows)


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
    columns = [*PLACE, *numeric(["Repeat"]), Column("Error", code=True)]
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
            number_value(100 * spent / total, 1),
            number_value(spent, 1),
            number_value(runs[name], 0),
            number_value(spent / runs[name]),
        ]
        for name, spent in seconds.items()
    ]
    columns = [Column(title), *numeric(["Share, %", "Seconds", "Runs", "Seconds per run"])]
    return HtmlTable(f"time-{key}", f"Time by {title.lower()}", columns, rows, tools=False)
