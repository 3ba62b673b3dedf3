"""The tables of the report, as data: from records to rows of values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._settings import PRINTED_SENSITIVITY
from .html import Column, Table, Tone, Value, number
from .results import (
    BASELINE,
    FIXED_NAME,
    LEVEL,
    Cell,
    Record,
    Results,
    Score,
    as_number,
    cell_of,
    dataset_title,
    method_kind,
    method_title,
    numbers_of,
    score_of,
    text,
)

__all__ = [
    "all_runs",
    "by_object",
    "comparison",
    "failures",
    "overview",
    "settings_table",
    "time_shares",
    "verification",
]

SPLITS = {"halves": "random halves", "objects": "by object"}
WHERE = (
    Column("Method", choice=True),
    Column("Data", choice=True),
    Column("Features", choice=True),
    Column("Split", choice=True),
)


def where(cell: Cell, method: str) -> list[Value]:
    """The first four values of a row."""
    split = SPLITS.get(cell.split, cell.split)
    words = (dataset_title(cell.dataset), cell.features, split)
    return [name_of(method), *(Value(word) for word in words)]


def name_of(method: str) -> Value:
    """A method's title, and below it whose it is."""
    return Value(method_title(method), note=method_kind(method))


def is_best(score: Score, scores: dict[str, Score]) -> bool:
    """Whether no other looks better: what is shown as equal is equally bold."""
    return round(score.mean, 2) == max(round(other.mean, 2) for other in scores.values())


def mark(p: float) -> str:
    """A star where the difference is significant."""
    return "*" if p < LEVEL else ""


def difference(ours: Score, printed: float) -> Value:
    """Ours less the printed number, with its sign and its star."""
    gain = ours.mean - printed
    star = mark(ours.against_number(printed))
    tone: Tone = "" if not star else "up" if gain > 0 else "down"
    return Value(number(gain, signed=True) + star, gain, tone=tone)


def overview(results: Results, cells: Sequence[Cell]) -> Table:
    """Methods by cells: our mean and deviation, below it the printed number and the difference."""
    methods = [m for m in results.methods if any(m in results.scores[cell] for cell in cells)]
    rows = [
        [name_of(method), *(_entry(results.scores[cell], method, cell) for cell in cells)]
        for method in methods
    ]
    columns = [Column("Method"), *(Column(cell.title, numeric=True) for cell in cells)]
    return Table(
        "overview",
        "Table 1: accuracy in per cent of 3 nearest neighbours, by method and cell",
        columns,
        rows,
        "Mean ± standard deviation over the repeats. Bold and underlined: the best of a column. "
        "Second line: the paper's number where it prints one, and ours less it; * where they "
        "differ by a one-sample t-test at 5 %. Shaded: the fixed configuration.",
        frozenset(place for place, method in enumerate(methods) if method == FIXED_NAME),
    )


def _entry(scores: dict[str, Score], method: str, cell: Cell) -> Value:
    if method not in scores:
        return Value("–")
    score, note = scores[method], ""
    paper = numbers_of(cell).get(method)
    if paper is not None:
        note = f"paper {number(paper)}, {difference(score, paper).text}"
    best = is_best(score, scores)
    return Value(with_deviation(score), score.mean, note, best)


def with_deviation(score: Score) -> str:
    """Mean ± standard deviation."""
    spread = f" ± {number(score.deviation)}" if np.isfinite(score.deviation) else ""
    return number(score.mean) + spread


def comparison(results: Results, cells: Sequence[Cell]) -> Table:
    """A row a cell and method: ours, the paper's, and the fixed configuration against it."""
    rows: list[list[Value]] = []
    marked: set[int] = set()
    for cell in cells:
        scores = results.scores[cell]
        for method, score in scores.items():
            if method == FIXED_NAME:
                marked.add(len(rows))
            paper = numbers_of(cell).get(method, np.nan)
            rows.append(
                [
                    *where(cell, method),
                    Value(number(score.mean), score.mean, best=is_best(score, scores)),
                    Value(number(score.deviation), score.deviation),
                    Value(str(len(score.by_repeat)), len(score.by_repeat)),
                    Value(number(paper), paper),
                    difference(score, paper) if np.isfinite(paper) else Value("–"),
                    _behind_fixed(scores, method),
                ]
            )
    numeric = ("Accuracy", "Deviation", "Repeats", "Paper", "Ours − paper", "Fixed − this")
    return Table(
        "comparison",
        "Table 1 as a list: ours beside the paper's",
        [*WHERE, *(Column(title, numeric=True) for title in numeric)],
        rows,
        "“Fixed − this”: by how much the fixed configuration is better on the same halves; "
        "* where the differences by repeat have a mean other than 0 (t-test at 5 %).",
        frozenset(marked),
    )


def _behind_fixed(scores: dict[str, Score], method: str) -> Value:
    if FIXED_NAME not in scores or method == FIXED_NAME:
        return Value("–")
    gain = _gain(scores[FIXED_NAME], scores[method])
    tone: Tone = "" if "*" not in gain.text else "up" if gain.number > 0 else "down"
    return replace(gain, tone=tone)


def by_object(results: Results) -> Table | None:
    """Splits by object: how much is left when test objects were never seen."""
    rows: list[list[Value]] = []
    marked: set[int] = set()
    for cell in (cell for cell in results.cells if cell.by_object):
        scores = results.scores[cell]
        halves = results.scores.get(cell._replace(split="halves"), {})
        for method, score in scores.items():
            if method == FIXED_NAME:
                marked.add(len(rows))
            seen = halves[method].mean if method in halves else np.nan
            base = scores[BASELINE].mean if BASELINE in scores else np.nan
            gain = score.mean - base
            best = is_best(score, scores)
            rows.append(
                [
                    *where(cell, method)[:3],
                    Value(with_deviation(score), score.mean, best=best),
                    Value(number(gain, signed=True), gain),
                    Value(number(seen), seen),
                    Value(number(score.mean - seen, signed=True), score.mean - seen),
                ]
            )
    if not rows:
        return None
    numeric = ("Accuracy", f"Above {method_title(BASELINE)}", "In random halves", "Loss")
    return Table(
        "objects",
        "By object: no object on both sides of the split",
        [*WHERE[:3], *(Column(title, numeric=True) for title in numeric)],
        rows,
        "In a random half, views of one object stand on both sides; here they do not.",
        frozenset(marked),
    )


CHECKS = {"auc": 100, "eer": 1, "balanced_learnt": 1, "balanced_calibrated": 1}  # to per cent


def verification(results: Results) -> Table | None:
    """Same or different: how well distances rank pairs, and how good the learnt threshold is."""
    groups: dict[tuple[Cell, str], list[list[float]]] = {}
    for record in results.table1:
        values = [as_number(record.get(key)) * unit for key, unit in CHECKS.items()]
        if np.isfinite(values[0]):
            groups.setdefault((cell_of(record), text(record, "method")), []).append(values)
    if not groups:
        return None
    means = {key: np.mean(values, axis=0) for key, values in groups.items()}
    rows = [[*where(*key), *_checks(key[0], mean, means)] for key, mean in means.items()]
    marked = frozenset(place for place, (_, method) in enumerate(means) if method == FIXED_NAME)
    titles = ("AUC", "Equal error", "Balanced, learnt", "Balanced, calibrated", "Cost of learnt")
    return Table(
        "verification",
        "Verification: are two samples of the same class?",
        [*WHERE, *(Column(title, numeric=True) for title in titles)],
        rows,
        "Pairs of test samples, in per cent. Balanced accuracy at the threshold that was learnt "
        "with the metric, and at one calibrated afterwards; last, what the learnt one costs.",
        marked,
    )


def _checks(cell: Cell, mean: np.ndarray, means: dict[tuple[Cell, str], np.ndarray]) -> list[Value]:
    rivals = np.array([other for (where_, _), other in means.items() if where_ == cell])
    values = []
    for place, key in enumerate(CHECKS):
        shown, column = float(mean[place]), np.round(rivals[:, place], 2)
        bars = column[np.isfinite(column)]
        bar = np.nan if len(bars) == 0 else bars.min() if key == "eer" else bars.max()
        values.append(Value(number(shown), shown, best=round(shown, 2) == bar))
    cost = float(mean[3] - mean[2])
    return [*values, Value(number(cost, signed=True), cost)]


STUDIES = {"grid": "the paper's grid", "threshold": "the paper's thresholds", "decades": "decades"}


def settings_table(results: Results) -> Table | None:
    """Each setting of the sensitivity study against the paper's c0 = μ0 = 1."""
    groups: dict[tuple[Cell, str, str, str], list[Record]] = {}
    for record in results.sensitivity:
        setting = dict(record.get("setting") or {})
        study = str(setting.pop("study", ""))
        setting.pop("moves", None)
        key = cell_of(record), text(record, "method"), study, compact(setting)
        groups.setdefault(key, []).append(record)
    scores = {key: score_of(group) for key, group in groups.items()}
    rows = []
    for (cell, method, study, shown), score in scores.items():
        centre = scores.get((cell, "tatml", "grid", "c0 = 1.0, mu0 = 1.0"))
        group = groups[cell, method, study, shown]
        rows.append(
            [
                Value(shown),
                Value(STUDIES.get(study, study)),
                *where(cell, method)[:3],
                Value(with_deviation(score), score.mean),
                Value("–") if centre is None else _gain(score, centre),
                *_thresholds(group),
            ]
        )
    numeric = ("Accuracy", "Less c0 = μ0 = 1", "b0", "b0 / median", "Balanced")
    columns = [Column("Setting"), Column("Study", choice=True), *WHERE[:3]]
    columns += [Column(title, numeric=True) for title in numeric]
    remark = (
        f"The paper prints {PRINTED_SENSITIVITY['grid']} for all twelve points of its grid. "
        "* where the differences by repeat have a mean other than 0 (t-test at 5 %). Median: of "
        "the squared distances of the training pairs. Balanced: accuracy for same or different, "
        "in per cent, at the threshold."
    )
    return Table("settings", "All settings of the study", columns, rows, remark) if rows else None


def _gain(score: Score, centre: Score) -> Value:
    ours, theirs = score.on_same_halves(centre)
    gain = ours.mean - theirs.mean
    return Value(number(gain, signed=True) + mark(score.against(centre)), gain)


def _thresholds(records: Sequence[Record]) -> list[Value]:
    """Mean b0, its share of the median squared distance, balanced accuracy."""
    b0, median, balanced = (
        np.array([as_number(record.get(key)) for record in records])
        for key in ("b0", "median_squared", "balanced_learnt")
    )
    means = [float(np.mean(values)) for values in (b0, b0 / median, balanced)]
    forms = (".4g", ".3g", ".2f")
    return [_plain(value, form) for value, form in zip(means, forms, strict=True)]


def all_runs(results: Results) -> Table:
    """Every run with what it chose and what it took."""
    rows = [_run(record) for record in results.records]
    titles = ("Repeat", "Accuracy", "b0", "Threshold", "Gap", "Seconds", "Pairs", "Seed")
    return Table(
        "runs",
        f"All {len(rows)} runs",
        [
            *WHERE,
            *(Column(title, numeric=True) for title in titles),
            Column("Converged", choice=True),
            Column("Experiment", choice=True),
            Column("Chosen and set", code=True),
        ],
        rows,
    )


def _run(record: Record) -> list[Value]:
    words: dict[bool | None, str] = {True: "yes", False: "no"}
    converged = words.get(record.get("converged"), "–")
    chosen = {**(record.get("setting") or {}), **(record.get("params") or {})}
    return [
        *where(cell_of(record), text(record, "method")),
        _plain(record.get("repeat"), ".0f"),
        _plain(record.get("accuracy"), ".2f"),
        _plain(record.get("b0"), ".4g"),
        _plain(record.get("threshold"), ".4g"),
        _plain(record.get("gap"), ".1e"),
        _plain(record.get("seconds"), ".2f"),
        _plain(record.get("n_pairs"), ".0f"),
        _plain(record.get("seed"), ".0f"),
        Value(converged),
        Value(text(record, "experiment")),
        Value(compact(chosen)),
    ]


def _plain(value: Any, form: str) -> Value:
    amount = as_number(value)
    return Value(f"{amount:{form}}".replace("-", "−") if np.isfinite(amount) else "–", amount)


def compact(values: dict[str, Any]) -> str:
    """Settings in one line."""
    return ", ".join(
        f"{key} = {value if isinstance(value, str) else json.dumps(value, default=str)}"
        for key, value in values.items()
    )


def failures(results: Results) -> Table | None:
    """The runs that failed, and what they said."""
    if not results.failed:
        return None
    rows = [
        [
            *where(cell_of(record), text(record, "method")),
            _plain(record.get("repeat"), ".0f"),
            Value(text(record, "error")),
        ]
        for record in results.failed
    ]
    columns = [*WHERE, Column("Repeat", numeric=True), Column("Error", code=True)]
    return Table("failures", f"{count_runs(rows)} that failed", columns, rows)


def count_runs(runs: Sequence[object]) -> str:
    """A number of runs in words.

    Examples
    --------
    >>> count_runs([1]), count_runs([1, 2])
    ('1 run', '2 runs')
    """
    return f"{len(runs)} run{'s' if len(runs) != 1 else ''}"


def time_shares(results: Results, key: str, title: str, show: Callable[[str], str] = str) -> Table:
    """What the time went into: shares, which hardly depend on the machine."""
    seconds = results.seconds_by(key)
    total = sum(seconds.values()) or 1.0
    runs = {name: sum(text(r, key) == name for r in results.records) for name in seconds}
    rows = [
        [
            Value(show(name)),
            Value(number(100 * spent / total, 1), 100 * spent / total),
            Value(number(spent, 1), spent),
            Value(str(runs[name]), runs[name]),
            Value(number(spent / runs[name], 2), spent / runs[name]),
        ]
        for name, spent in seconds.items()
    ]
    numeric = ("Share, %", "Seconds", "Runs", "Seconds a run")
    columns = [Column(title), *(Column(t, numeric=True) for t in numeric)]
    return Table(f"time-{key}", f"Time by {title.lower()}", columns, rows, tools=False)
