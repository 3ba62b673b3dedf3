"""Elements of the page: tables, figures, lists. Jinja2 escapes all text that they are given."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Literal

from ..extras import missing_library

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

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

    @property
    def sort_key(self) -> str:
        """The number as the script of the page reads it, empty if there is none."""
        return f"{self.number:.10g}" if isfinite(self.number) else ""

    @property
    def marks(self) -> str:
        """The classes of the style sheet that show its marks."""
        return " ".join(mark for mark in ("best" if self.best else "", self.tone) if mark)


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

    def html(self) -> Markup:
        """Return the table with its title, room for its filters, and a box to scroll in."""
        rows = [list(zip(row, self.columns, strict=True)) for row in self.rows]
        return render("table", self, rows)


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

    def html(self) -> Markup:
        """Return the figure with its caption."""
        return render("figure", self)


@dataclass(frozen=True)
class Section:
    """A section of the page: a short word for links, a title, and HTML."""

    name: str
    title: str
    content: Markup


def data_uri(content: bytes, kind: str) -> str:
    """Return a picture of kind `image/png` or `image/svg+xml` as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def paragraphs(texts: Iterable[str]) -> Markup:
    """Return each text as a paragraph."""
    return render("paragraphs", list(texts))


def item_list(texts: Iterable[str]) -> Markup:
    """Return the texts as a list."""
    return render("item_list", list(texts))


def figure_grid(figures: Sequence[HtmlFigure]) -> Markup:
    """Return figures side by side, as many as stay readable; nothing if there are none."""
    return render("figure_grid", figures) if figures else join([])


def subsection(title: str, *parts: Markup) -> Markup:
    """Return parts below a heading of the second level."""
    return render("subsection", title, join(parts))


def collapsible(summary: str, *parts: Markup) -> Markup:
    """Return a long part that is closed until the reader opens it."""
    return render("collapsible", summary, join(parts))


def join(parts: Iterable[Markup]) -> Markup:
    """Return the parts that are not empty, one below the other."""
    from markupsafe import Markup

    return Markup("\n").join(part for part in parts if part)


def fill_page(title: str, lead: Markup, sections: Iterable[Section], footer: Markup) -> str:
    """Return the whole page; sections without content are left out."""
    from markupsafe import Markup

    script = read_asset("script.js").strip()
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    return (
        make_environment()
        .get_template("page.html")
        .render(
            title=title,
            style=Markup(read_asset("style.css").strip()),
            script=Markup(script),
            script_hash="sha256-" + base64.b64encode(digest).decode("ascii"),
            lead=lead,
            sections=[section for section in sections if section.content],
            footer=footer,
        )
    )


def render(element: str, *values: Any) -> Markup:
    """Return an element of `assets/elements.html` filled with values, which are escaped."""
    return getattr(make_environment().get_template("elements.html").module, element)(*values)


@cache
def make_environment() -> Environment:
    """Return the templates; raise ImportError with the remedy if Jinja2 is missing."""
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError as error:
        raise missing_library("Jinja2") from error
    return Environment(
        loader=FunctionLoader(read_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def read_asset(name: str) -> str:
    """Return the text of a file that ships with the package."""
    folder = resources.files("tatml_paper.report") / "assets"
    return (folder / name).read_text(encoding="utf-8")
