"""Elements of the page: tables, figures, lists. They escape all text that they are given."""

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

__all__ = [
    "Column",
    "HtmlFigure",
    "HtmlTable",
    "Tone",
    "Value",
    "collapsible",
    "data_uri",
    "figure_grid",
    "fill_page",
    "item_list",
    "paragraphs",
]

Tone = Literal["", "up", "down"]


@dataclass(frozen=True)
class Value:
    """One entry of a table.

    Parameters
    ----------
    text : str
        The text that is shown.
    number : float
        The sort key in a numeric column; NaN goes last.
    note : str
        A second, smaller line.
    best : bool
        Whether it is bold and underlined.
    tone : {"", "up", "down"}
        A colour that repeats what the text says.
    """

    text: str
    number: float = nan
    note: str = ""
    best: bool = False
    tone: Tone = ""


@dataclass(frozen=True)
class Column:
    """A column: its title, and whether it has numbers, a filter, or text in a code font."""

    title: str
    numeric: bool = False
    choice: bool = False
    code: bool = False


@dataclass(frozen=True)
class HtmlTable:
    """A table that can be sorted and filtered.

    Parameters
    ----------
    name : str
        A short word, unique on the page.
    title, remark : str
        The title and a remark below it.
    columns : sequence of Column
        The first one contains the titles of the rows.
    rows : sequence of sequences of Value
        One value per column.
    marked : set of int
        The rows that are shaded, those of the fixed configuration.
    tools : bool
        Whether the table has filters and a search box; short tables need none.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    remark: str = ""
    marked: frozenset[int] = frozenset()
    tools: bool = True

    def html(self) -> str:
        """Return the table with its title, room for its filters, and a box to scroll in."""
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
class HtmlFigure:
    """A picture on the page.

    Parameters
    ----------
    source : str
        A data URI.
    alternative, caption : str
        The description for readers who do not see it, and the text below it.
    drawing : bool
        Whether it is drawn on white, so that a dark page may invert its colours.
    """

    source: str
    alternative: str
    caption: str
    drawing: bool = True

    def html(self) -> str:
        """Return the figure with its caption."""
        kind = ' class="drawing"' if self.drawing else ""
        return (
            f'<figure><img{kind} src="{escape(self.source)}" alt="{escape(self.alternative)}">\n'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


def data_uri(content: bytes, kind: str) -> str:
    """Return a picture of kind `image/png` or `image/svg+xml` as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def paragraphs(texts: Iterable[str]) -> str:
    """Return each text as a paragraph."""
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def item_list(texts: Iterable[str]) -> str:
    """Return the texts as a list."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def figure_grid(many: Iterable[HtmlFigure]) -> str:
    """Return figures side by side, as many as there is room for."""
    return '<div class="figures">\n' + "\n".join(figure.html() for figure in many) + "\n</div>"


def section(name: str, title: str, *parts: str) -> str:
    """Return a section with its heading, or nothing if it is empty."""
    inside = "\n".join(part for part in parts if part)
    if not inside:
        return ""
    heading = f'<h2 id="{name}-heading">{escape(title)}</h2>'
    return (
        f'<section id="{name}" aria-labelledby="{name}-heading">\n{heading}\n{inside}\n</section>'
    )


def collapsible(summary: str, *parts: str) -> str:
    """Return a long part that is closed until the reader opens it."""
    inside = "\n".join(parts)
    return f"<details>\n<summary>{escape(summary)}</summary>\n{inside}\n</details>"


def fill_page(title: str, lead: str, sections: dict[str, tuple[str, str]], footer: str) -> str:
    """Return the whole page: `sections` maps a name to (title, HTML); lead and footer are HTML."""
    kept = {name: pair for name, pair in sections.items() if pair[1]}
    links = "".join(f'<li><a href="#{name}">{escape(t)}</a></li>' for name, (t, _) in kept.items())
    script = read_asset("script.js").strip()
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    return Template(read_asset("template.html")).substitute(
        title=escape(title),
        style=read_asset("style.css").strip(),
        script=script,
        script_hash="sha256-" + base64.b64encode(digest).decode("ascii"),
        lead=lead,
        contents=f"<ul>{links}</ul>",
        body="\n".join(section(name, t, html) for name, (t, html) in kept.items()),
        footer=footer,
    )


def read_asset(name: str) -> str:
    """Return the text of a file that ships with the package."""
    folder = resources.files("tatml.experiments._report") / "assets"
    return (folder / name).read_text(encoding="utf-8")
