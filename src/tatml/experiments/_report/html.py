"""Pieces of a page: tables, figures, lists. All text that comes in here is escaped here."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from math import isfinite, nan
from string import Template
from typing import Literal

__all__ = ["Column", "Figure", "Table", "Value", "embed", "fill_page", "number", "paragraphs"]

MINUS = "\N{MINUS SIGN}"
Tone = Literal["", "up", "down"]


@dataclass(frozen=True)
class Value:
    """One entry of a table.

    Parameters
    ----------
    text : str
        What is shown.
    number : float
        What it is sorted by in a numeric column; NaN goes last.
    note : str
        A second, smaller line.
    best : bool
        Whether it is set in bold and underlined.
    tone : {"", "up", "down"}
        A colour beside what the text says already.
    """

    text: str
    number: float = nan
    note: str = ""
    best: bool = False
    tone: Tone = ""


@dataclass(frozen=True)
class Column:
    """A column: its title, whether it holds numbers, whether rows can be chosen by it."""

    title: str
    numeric: bool = False
    choice: bool = False
    code: bool = False


@dataclass(frozen=True)
class Table:
    """A table that sorts and filters.

    Parameters
    ----------
    name : str
        Unique in the page: a short word.
    title, remark : str
        What stands above it.
    columns : sequence of Column
        The first one holds the titles of the rows.
    rows : sequence of sequences of Value
        One value a column.
    marked : set of int
        The rows set apart, those of the fixed configuration.
    tools : bool
        Whether rows can be chosen; a short table needs no search.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    remark: str = ""
    marked: frozenset[int] = frozenset()
    tools: bool = True

    def html(self) -> str:
        """The table with its title, its place for filters and the box that it scrolls in."""
        title = escape(self.title)
        remark = f"<small>{escape(self.remark)}</small>" if self.remark else ""
        head = "".join(_header(column) for column in self.columns)
        body = "\n".join(self._row(place, row) for place, row in enumerate(self.rows))
        tools = (
            f'<div class="tools" data-for="{self.name}" role="group" '
            f'aria-label="Choose rows of: {title}" hidden></div>\n'
        )
        return (
            f'<p class="title" id="{self.name}-title">{title}{remark}</p>\n'
            f"{tools if self.tools else ''}"
            f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{self.name}-title">\n'
            f'<table class="data" id="{self.name}"><caption>{title}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
        )

    def _row(self, place: int, row: Sequence[Value]) -> str:
        kind = ' class="ours"' if place in self.marked else ""
        cells = (
            _cell(value, column, first=position == 0)
            for position, (value, column) in enumerate(zip(row, self.columns, strict=True))
        )
        return f"<tr{kind}>{''.join(cells)}</tr>"


def _header(column: Column) -> str:
    kind = ' class="n"' if column.numeric else ""
    choice = " data-filter" if column.choice else ""
    title = escape(column.title)
    return (
        f'<th scope="col" aria-sort="none"{kind}{choice}>'
        f'<button type="button">{title}</button></th>'
    )


def _cell(value: Value, column: Column, *, first: bool) -> str:
    tag, scope = ("th", ' scope="row"') if first else ("td", "")
    kind = ' class="n"' if column.numeric else ' class="code"' if column.code else ""
    key = ""
    if column.numeric:
        key = f' data-value="{value.number:.10g}"' if isfinite(value.number) else ' data-value=""'
    elif value.note:
        key = f' data-value="{escape(value.text)}"'
    text = escape(value.text)
    marks = " ".join(mark for mark in ("best" if value.best else "", value.tone) if mark)
    if marks:
        text = f'<span class="{marks}">{text}</span>'
    if value.note:
        text += f"<small>{escape(value.note)}</small>"
    return f"<{tag}{scope}{kind}{key}>{text}</{tag}>"


@dataclass(frozen=True)
class Figure:
    """A picture in the page.

    Parameters
    ----------
    source : str
        A data URI.
    alternative, caption : str
        What it shows, for those who do not see it; what stands below it.
    drawing : bool
        Whether it is drawn on white, so that it may be turned over on a dark page.
    """

    source: str
    alternative: str
    caption: str
    drawing: bool = True

    def html(self) -> str:
        """The figure with its caption."""
        kind = ' class="drawing"' if self.drawing else ""
        return (
            f'<figure><img{kind} src="{escape(self.source)}" alt="{escape(self.alternative)}">\n'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


def embed(content: bytes, kind: str) -> str:
    """A data URI of a picture, kind `image/png` or `image/svg+xml`."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def number(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """A number with a true minus sign, or a dash where there is none.

    Examples
    --------
    >>> number(-0.25), number(1.0, 1, signed=True), number(float("nan"))
    ('−0.25', '+1.0', '–')
    """
    if not isfinite(value):
        return "–"
    value = round(value, digits) + 0.0  # no minus before a zero
    return f"{value:{'+' if signed else ''}.{digits}f}".replace("-", MINUS)


def paragraphs(texts: Iterable[str]) -> str:
    """Each text in a paragraph."""
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def bullets(texts: Iterable[str]) -> str:
    """The texts as a list."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def figures(many: Iterable[Figure]) -> str:
    """Figures side by side, as many as there is room for."""
    return '<div class="figures">\n' + "\n".join(figure.html() for figure in many) + "\n</div>"


def section(name: str, title: str, *parts: str) -> str:
    """A section with its heading; empty where there is nothing in it."""
    inside = "\n".join(part for part in parts if part)
    if not inside:
        return ""
    heading = f'<h2 id="{name}-heading">{escape(title)}</h2>'
    return (
        f'<section id="{name}" aria-labelledby="{name}-heading">\n{heading}\n{inside}\n</section>'
    )


def fold(summary: str, *parts: str) -> str:
    """Something long, closed at first."""
    inside = "\n".join(parts)
    return f"<details>\n<summary>{escape(summary)}</summary>\n{inside}\n</details>"


def fill_page(title: str, lead: str, sections: dict[str, tuple[str, str]], footer: str) -> str:
    """The whole page: sections maps a name to (title, HTML); lead and footer are HTML."""
    kept = {name: pair for name, pair in sections.items() if pair[1]}
    links = "".join(f'<li><a href="#{name}">{escape(t)}</a></li>' for name, (t, _) in kept.items())
    script = asset("script.js").strip()
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    return Template(asset("template.html")).substitute(
        title=escape(title),
        style=asset("style.css").strip(),
        script=script,
        script_hash="sha256-" + base64.b64encode(digest).decode("ascii"),
        lead=lead,
        contents=f"<ul>{links}</ul>",
        body="\n".join(section(name, t, html) for name, (t, html) in kept.items()),
        footer=footer,
    )


def asset(name: str) -> str:
    """The text of a file that ships with the package."""
    folder = resources.files("tatml.experiments._report") / "assets"
    return (folder / name).read_text(encoding="utf-8")
