"""Numbers as text, in the same form in the Markdown tables and on the page."""

from __future__ import annotations

from math import isfinite, nan

DIGITS = 2  # decimals of an accuracy in per cent, as in the paper's Table 1
MINUS = "\N{MINUS SIGN}"


def format_number(value: float | None, digits: int = DIGITS, *, signed: bool = False) -> str:
    """Return a number with a minus sign instead of a hyphen, or a dash if it is not finite.

    Examples
    --------
    >>> format_number(-0.25), format_number(1.0, 1, signed=True), format_number(None)
    ('−0.25', '+1.0', '–')
    """
    if value is None or not isfinite(value):
        return "–"
    value = round(value, digits) + 0.0  # avoids "-0.00"
    return f"{value:{'+' if signed else ''}.{digits}f}".replace("-", MINUS)


def format_spread(mean: float, deviation: float = nan, digits: int = DIGITS) -> str:
    """Return "mean ± standard deviation", or the mean alone if there is no deviation.

    Examples
    --------
    >>> format_spread(90.0, 1.5), format_spread(90.0)
    ('90.00 ± 1.50', '90.00')
    """
    spread = f" ± {format_number(deviation, digits)}" if isfinite(deviation) else ""
    return format_number(mean, digits) + spread
