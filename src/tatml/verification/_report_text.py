"""A report as text, as HTML and as rows of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from .._verification.operating import OperatingPoint
from .._verification.rates import FEW_ERRORS, ErrorRate

if TYPE_CHECKING:
    from ._report import Report

FEW_MARK = "*"
FEW_NOTE = f"{FEW_MARK} fewer than {FEW_ERRORS} errors: the rate is rough, use its limits"
STYLE = "text-align: right; padding: 2px 8px"


def point_rows(points: Iterable[OperatingPoint]) -> list[dict[str, Any]]:
    """Return one dict per operating point, with all numbers."""
    return [
        {
            "name": point.name,
            "threshold": point.threshold,
            "FMR": point.false_match.value,
            "FMR_low": point.false_match.low,
            "FMR_high": point.false_match.high,
            "FNMR": point.false_non_match.value,
            "FNMR_low": point.false_non_match.low,
            "FNMR_high": point.false_non_match.high,
            "TAR": point.true_accept_rate,
            "cost": point.cost,
            "false_matches": point.false_match.n_errors,
            "false_non_matches": point.false_non_match.n_errors,
        }
        for point in points
    ]


def format_text(report: Report) -> str:
    """Return the report as lines of text."""
    return "\n".join([_title(report), _summary(report)[0], format_details(report)])


def format_details(report: Report) -> str:
    """Return the costs, the scores of the probabilities and the tables as lines of text."""
    parts = [*_summary(report)[1:], "", *_text_table(*_point_cells(report))]
    if report.by:
        parts += ["", *_text_table(*_subgroup_cells(report))]
    return "\n".join([*parts, *_notes(report)])


def format_html(report: Report) -> str:
    """Return the report as HTML tables."""
    lines = "<br>".join(escape(line) for line in _summary(report))
    parts = [f"<p><b>{escape(_title(report))}</b><br>{lines}</p>"]
    parts.append(_html_table(*_point_cells(report)))
    if report.by:
        parts.append(_html_table(*_subgroup_cells(report)))
    parts += [f"<p>{escape(note)}</p>" for note in _notes(report)]
    return f"<div>{''.join(parts)}</div>"


def _title(report: Report) -> str:
    what = f"{report.n_similar} similar and {report.n_dissimilar} dissimilar pairs"
    units = "taken to be independent"
    if report.n_units is not None:
        units = f"of {report.n_units} {report.unit}"
    comma = "," if report.n_units is None else ""
    return f"{report.estimator} on {what}{comma} {units}"


def _summary(report: Report) -> list[str]:
    """Return the lines of numbers that belong to no threshold."""
    false_match, false_non_match = report.costs
    cost = f"detection cost: at least {report.least_cost:.4f}"
    if report.actual_cost is not None:
        cost += f", {report.actual_cost:.4f} at the threshold of the estimator"
    assumed = f"{report.same_rate:.3g} of the pairs are the same"
    lines = [
        f"AUC {report.auc:.4f}, equal error rate {report.equal_error_rate:.4f}",
        f"{cost} ({assumed}; a false match costs {false_match:g}, "
        f"a false non-match {false_non_match:g})",
    ]
    if report.brier is not None:
        lines.append(
            f"probabilities: Brier score {report.brier:.4f}, log loss {report.log_loss:.4f} "
            f"({assumed})"
        )
    return lines


Table = tuple[list[str], list[list[str]]]


def _point_cells(report: Report) -> Table:
    limits = f"{report.confidence_level:.0%} limits"
    header = ["operating point", "threshold", "FMR = FAR", limits, "FNMR", limits, "TAR", "cost"]
    rows = [
        [
            point.name,
            f"{point.threshold:.6g}",
            *_rate_cells(point.false_match),
            *_rate_cells(point.false_non_match),
            _number(point.true_accept_rate),
            f"{point.cost:.4f}",
        ]
        for point in report.points
    ]
    return header, rows


def _subgroup_cells(report: Report) -> Table:
    limits = f"{report.confidence_level:.0%} limits"
    header = ["subgroup", "dissimilar", "FMR = FAR", limits, "similar", "FNMR", limits]
    rows = []
    for name, rates in report.by.items():
        cells = [str(name)]
        for rate in rates:
            known = ["0", "", ""] if rate is None else [str(rate.n_pairs), *_rate_cells(rate)]
            cells += known
        rows.append(cells)
    return header, rows


def _rate_cells(rate: ErrorRate) -> list[str]:
    mark = FEW_MARK if rate.n_errors < FEW_ERRORS else ""
    return [_number(rate.value) + mark, f"[{_number(rate.low)}, {_number(rate.high)}]"]


def _number(value: float) -> str:
    """Return a rate with at least three digits.

    >>> _number(0.12345), _number(0.000012345), _number(0.0)
    ('0.1235', '1.23e-05', '0')
    """
    if value == 0:
        return "0"
    return f"{value:.4f}" if value >= 0.001 else f"{value:.2e}"


def _notes(report: Report) -> list[str]:
    rates = [rate for p in report.points for rate in (p.false_match, p.false_non_match)]
    rates += [rate for pair in report.by.values() for rate in pair if rate is not None]
    return [FEW_NOTE] if any(rate.n_errors < FEW_ERRORS for rate in rates) else []


def _text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose first column is on the left, the others on the right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        first, *others = (
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    return lines


def _html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        parts = [
            f'<{tag} style="{STYLE if number else "text-align: left"}">{escape(cell)}</{tag}>'
            for number, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(parts)}</tr>"

    return f"<table>{line(header, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"
