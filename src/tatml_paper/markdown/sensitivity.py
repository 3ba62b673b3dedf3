"""sensitivity.md: accuracy and threshold over the settings, and why the paper saw no effect."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan

from ..cells import Scores, method_title
from ..format import format_number, format_spread
from ..settings import PRINTED_SENSITIVITY, SENSITIVITY
from ..standings import Mark, deviation, mark_column, mean_score, p_value
from ..store import Record, current_records, grouped
from .elements import make_table, mark_text

STUDY_DIGITS = 3  # decimals of the accuracies, as in the paper's section on sensitivity

EXPLANATION = """## Why the paper saw no sensitivity

3-NN compares distances with each other, so it does not see a common factor of W. And a common
factor is nearly all that c0 and μ0 can change: the squared hinge gains from shrinking W and b0
together; only −logdet W and the pull (c0/2)(b0 − μ0)² resist. With c0 = 1 that pull is weak
against the pairs' term, whose weight is c times the number of pairs K. So b0 shrinks as cK grows,
until it is a fixed share of the typical squared distance, whatever c0 and μ0 are within the
paper's grid: see the column "b0 / median". Only over decades, where c0 reaches the size of cK,
does the threshold stay where μ0 says, and the dissimilar pairs begin to count. A fixed threshold
(Maz) is a pull of infinite strength: there the choice of b0 matters.

So the accuracy of 3-NN hardly depends on the choice, but the threshold does: it moves with c and
with the number of pairs, and so does the balanced accuracy of same or different, see the column
"balanced". The library's default scales the pull with the data, c0 = ρ c K, so that ρ means the
same for every c and K."""


def sensitivity_text(records: Iterable[Record]) -> str:
    """Return the text of sensitivity.md; empty if there are no records for it."""
    records = current_records(records, "sensitivity")
    if not records:
        return ""
    places = grouped(records, lambda r: f"{r['dataset']}, {r['features']}")
    parts = [part for place, own in sorted(places.items()) for part in _place_parts(place, own)]
    return "\n\n".join(part for part in ["# Sensitivity", *parts, EXPLANATION] if part) + "\n"


def _place_parts(place: str, records: list[Record]) -> list[str]:
    """Return the sections of the study on one data set."""
    by_study = grouped(records, lambda r: r["setting"]["study"])
    return [
        f"On {place}. Accuracy of 3-NN in per cent, mean ± standard deviation over "
        f"{len({r['repeat'] for r in records})} repeats.",
        _grid_tables(by_study.get("grid", [])),
        _thresholds(by_study.get("threshold", [])),
        _decade_tables(by_study.get("decades", [])),
    ]


def _by(records: Iterable[Record], *names: str) -> dict[tuple, list[Record]]:
    """Group records by the values of some settings, in increasing order."""
    found = grouped(records, lambda r: tuple(r["setting"][name] for name in names))
    return dict(sorted(found.items()))


def _scores(records: Iterable[Record], quantity: str = "accuracy") -> Scores:
    return {r["repeat"]: r[quantity] for r in records if r.get(quantity) is not None}


def _marked(scores: Scores, mark: Mark) -> str:
    return mark_text(format_spread(mean_score(scores), deviation(scores), STUDY_DIGITS), mark)


def _grid_tables(records: list[Record]) -> str:
    """Return the paper's 3 × 4 settings of TATML."""
    if not records:
        return ""
    scores = {place: _scores(group) for place, group in _by(records, "c0", "mu0").items()}
    marks = mark_column(scores, STUDY_DIGITS)
    rows = [
        [
            f"c0 = {c0}",
            *(
                _marked(scores[c0, mu0], marks[c0, mu0]) if (c0, mu0) in scores else "–"
                for mu0 in SENSITIVITY.mu0
            ),
        ]
        for c0 in SENSITIVITY.c0
    ]
    means = [mean_score(s) for s in scores.values()]
    text = (
        "## TATML: the paper's grid of c0 and μ0\n\nc by cross-validation in each. **Bold**: the "
        "highest, and all that are shown with the same digits; °: not significantly different from "
        "it, or too few repeats to say (two-sided one-sample t-test of the paired differences, "
        f"5 %). The paper: all twelve {PRINTED_SENSITIVITY['grid']}. Ours: from {min(means):.3f} "
        f"to {max(means):.3f}."
    )
    return text + "\n\n" + make_table(["", *(f"μ0 = {mu0}" for mu0 in SENSITIVITY.mu0)], rows)


def _thresholds(records: list[Record]) -> str:
    """Return the paper's four fixed thresholds, that is Maz."""
    if not records:
        return ""
    scores = {b0: _scores(group) for (b0,), group in _by(records, "b0").items()}
    marks = mark_column(scores, STUDY_DIGITS)
    best = max(scores, key=lambda b0: (marks[b0] is Mark.HIGHEST, mean_score(scores[b0])))
    rows = []
    for b0, values in scores.items():
        p = p_value(scores[best], values)
        tested = "too few repeats to say" if isnan(p) else f"{p:.3f}"
        loss = format_number(mean_score(values) - mean_score(scores[best]), signed=True)
        row = [f"({b0 / 2:g}, {2 * b0:g})", _marked(values, marks[b0]), loss]
        rows.append([*row, "" if marks[b0] is Mark.HIGHEST else tested])
    text = (
        "## Maz: four fixed thresholds\n\nc by cross-validation in each; marks as above. The "
        f"paper: {PRINTED_SENSITIVITY['threshold b0=1']} for (1/2, 2), and the other three "
        "significantly lower."
    )
    header = ["(b_ub, b_lb)", "accuracy", "difference from the highest", "p"]
    return text + "\n\n" + make_table(header, rows)


def _decade_tables(records: list[Record]) -> str:
    if not records:
        return ""
    parts = [
        "## Many decades\n\nOne number moves at a time; the others are c0 = μ0 = b0 = c = 1 and 10 "
        "pairs per class. Median: of the squared distances of the training pairs. Balanced: "
        "balanced accuracy of test pairs at the threshold, in per cent."
    ]
    for (moves,), moved in _by(records, "moves").items():
        by_method = grouped(moved, lambda r: r["method"])
        parts += [_curve(name, moves, by_method[name]) for name in sorted(by_method, reverse=True)]
    return "\n\n".join(parts)


TITLES = {"c0": "c0", "mu0": "μ0", "b0": "b0", "C": "c", "n_pairs": "pairs per class"}


def _curve(method: str, moves: str, records: list[Record]) -> str:
    rows = []
    for (value,), group in _by(records, moves).items():
        accuracy, b0 = _scores(group), mean_score(_scores(group, "b0"))
        share = {
            r["repeat"]: r["b0"] / r["median_squared"]
            for r in group
            if r.get("b0") is not None and r.get("median_squared")
        }
        row = [f"{value:g}", format_spread(mean_score(accuracy), deviation(accuracy))]
        row += ["–" if isnan(b0) else f"{b0:.3g}", format_number(mean_score(share), 3)]
        row.append(format_number(mean_score(_scores(group, "auc")), 3))
        rows.append([*row, format_number(mean_score(_scores(group, "balanced_learnt")), 1)])
    title = TITLES.get(moves, moves)
    header = [title, "accuracy", "b0", "b0 / median", "AUC", "balanced"]
    return f"### {method_title(method)}: {title}\n\n" + make_table(header, rows)
