"""sensitivity.md: accuracy and threshold over the settings, and why the paper saw no effect."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan

from .._settings import PRINTED_SENSITIVITY, PROTOCOL, SENSITIVITY
from .._standings import Scores, deviation, mean, p_value
from .._store import Record, current_records
from .elements import number, signed, spread, table

__all__ = ["sensitivity_text"]

LEVEL = PROTOCOL.significance

EXPLANATION = """## Why the paper saw no sensitivity

3-NN compares distances with each other, so it does not see a common factor of W. And a common
factor is nearly all that c0 and μ0 can change: the squared hinge gains from shrinking W and b0
together; only −logdet W and the pull (c0/2)(b0 − μ0)² resist. With c0 = 1 that pull is weak
against the pairs' term, whose weight is c times the number of pairs K. So b0 shrinks as cK grows,
until it is a fixed share of the typical squared distance, whatever c0 and μ0 are within the
paper's grid: see the column "b0 / median". Only over decades, where c0 reaches the size of cK,
does the threshold stay where μ0 says, and the dissimilar pairs begin to count. A fixed threshold
(Maz) is a pull of infinite strength: there the choice of b0 matters.

So accuracy is safe, and the threshold is not: it moves with c and with the number of pairs, and
with it what it is worth for same or different: see the column "balanced". The library's default
scales the pull with the data, c0 = ρ c K, so that neither turns the dial ρ."""


def sensitivity_text(records: Iterable[Record]) -> str:
    """All of sensitivity.md; empty where there are no records of it."""
    records = current_records(records, "sensitivity")
    if not records:
        return ""
    places: dict[str, list[Record]] = {}
    for record in records:
        places.setdefault(f"{record['dataset']}, {record['features']}", []).append(record)
    parts = [part for place, own in sorted(places.items()) for part in _place_parts(place, own)]
    return "\n\n".join(part for part in ["# Sensitivity", *parts, EXPLANATION] if part) + "\n"


def _place_parts(place: str, records: list[Record]) -> list[str]:
    """All of the study on one data set."""
    by_study = {
        name: [r for r in records if r["setting"]["study"] == name]
        for name in ("grid", "threshold", "decades")
    }
    return [
        f"On {place}. Accuracy of 3-NN in per cent, mean ± standard deviation over "
        f"{len({r['repeat'] for r in records})} repeats.",
        _grid(by_study["grid"]),
        _thresholds(by_study["threshold"]),
        _decades(by_study["decades"]),
    ]


def _by(records: Iterable[Record], *names: str) -> dict[tuple, list[Record]]:
    found: dict[tuple, list[Record]] = {}
    for r in records:
        found.setdefault(tuple(r["setting"][name] for name in names), []).append(r)
    return dict(sorted(found.items()))


def _scores(records: Iterable[Record], quantity: str = "accuracy") -> Scores:
    return {r["repeat"]: r[quantity] for r in records if r.get(quantity) is not None}


def _grid(records: list[Record]) -> str:
    """The paper's 3 × 4 settings of TATML."""
    if not records:
        return ""
    scores = {place: _scores(group) for place, group in _by(records, "c0", "mu0").items()}
    best = max(scores, key=lambda place: mean(scores[place]))

    def cell(c0: float, mu0: float) -> str:
        if (c0, mu0) not in scores:
            return "–"
        text = spread(mean(scores[c0, mu0]), deviation(scores[c0, mu0]), 3)
        lower = p_value(scores[best], scores[c0, mu0]) < LEVEL
        return f"**{text}**" if (c0, mu0) == best else text + " *" * lower

    columns = SENSITIVITY.mu0
    rows = [[f"c0 = {c0}", *(cell(c0, mu0) for mu0 in columns)] for c0 in SENSITIVITY.c0]
    means = [mean(s) for s in scores.values()]
    text = (
        "## TATML: the paper's grid of c0 and μ0\n\nc by cross-validation in each. **Bold**: the "
        "highest; \\*: significantly lower (two-sided one-sample t-test of the paired differences, "
        f"5 %). The paper: all twelve {PRINTED_SENSITIVITY['grid']}. Ours: from {min(means):.3f} "
        f"to {max(means):.3f}."
    )
    return text + "\n\n" + table(["", *(f"μ0 = {mu0}" for mu0 in columns)], rows)


def _thresholds(records: list[Record]) -> str:
    """The paper's four fixed thresholds, that is Maz."""
    if not records:
        return ""
    scores = {b0: _scores(group) for (b0,), group in _by(records, "b0").items()}
    best = max(scores, key=lambda b0: mean(scores[b0]))
    rows = []
    for b0, values in scores.items():
        p = p_value(scores[best], values)
        verdict = "highest" if b0 == best else _verdict(p)
        accuracy = spread(mean(values), deviation(values), 3)
        loss = signed(mean(values) - mean(scores[best]))
        rows.append([f"({b0 / 2:g}, {2 * b0:g})", accuracy, loss, verdict])
    text = (
        "## Maz: four fixed thresholds\n\nc by cross-validation in each. The paper: "
        f"{PRINTED_SENSITIVITY['threshold b0=1']} for (1/2, 2), and the other three significantly "
        "lower."
    )
    header = ["(b_ub, b_lb)", "accuracy", "difference", "significantly lower?"]
    return text + "\n\n" + table(header, rows)


def _verdict(p: float) -> str:
    if isnan(p):
        return "too few repeats to say"
    return f"{'lower' if p < LEVEL else 'no'} (p = {p:.3f})"


def _decades(records: list[Record]) -> str:
    if not records:
        return ""
    parts = [
        "## Many decades\n\nOne number moves at a time; the others are c0 = μ0 = b0 = c = 1 and 10 "
        "pairs a class. Balanced: balanced accuracy of test pairs at the threshold, in per cent."
    ]
    for (moves,), group in _by(records, "moves").items():
        for method in sorted({r["method"] for r in group}, reverse=True):
            own = [r for r in group if r["method"] == method]
            parts.append(_curve(method, moves, own))
    return "\n\n".join(parts)


TITLES = {"c0": "c0", "mu0": "μ0", "b0": "b0", "C": "c", "n_pairs": "pairs a class"}
NAMES = {"tatml": "TATML", "maz": "Maz"}


def _curve(method: str, moves: str, records: list[Record]) -> str:
    rows = []
    for (value,), group in _by(records, moves).items():
        accuracy, b0 = _scores(group), mean(_scores(group, "b0"))
        share = {r["repeat"]: r["b0"] / r["median_squared"] for r in group if r["median_squared"]}
        row = [f"{value:g}", spread(mean(accuracy), deviation(accuracy)), f"{b0:.3g}"]
        row += [number(mean(share), 3), number(mean(_scores(group, "auc")), 3)]
        rows.append([*row, number(mean(_scores(group, "balanced_learnt")), 1)])
    header = [TITLES[moves], "accuracy", "b0", "b0 / median", "AUC", "balanced"]
    return f"### {NAMES[method]}: {TITLES[moves]}\n\n" + table(header, rows)
