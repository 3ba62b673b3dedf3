"""A story that opens the page: chapters with lines of text and pictures, kept beside the records.

`make demo` writes it before the experiments run; a page without a story starts with them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..files import write_text
from .figures import Picture
from .html import Section, figure_grid, join, paragraphs

STORY = Path("story") / "story.json"


@dataclass(frozen=True)
class Chapter:
    """A chapter: its title, its paragraphs and its pictures."""

    title: str
    lines: Sequence[str]
    pictures: Sequence[Picture] = ()


def write_story(out: str | os.PathLike[str], chapters: Sequence[Chapter]) -> Path:
    """Write the chapters to `story/story.json`, beside their pictures.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_story(folder, [Chapter("The data", ["Two classes."])])
    ...     read_story(folder)
    [Chapter(title='The data', lines=['Two classes.'], pictures=[])]
    """
    path = Path(out) / STORY
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(chapter) for chapter in chapters], indent=1, ensure_ascii=False)
    write_text(path, f"{text}\n")
    return path


def read_story(out: str | os.PathLike[str]) -> list[Chapter]:
    """Return the chapters of a folder; none if it has no story."""
    path = Path(out) / STORY
    if not path.exists():
        return []
    return [
        Chapter(entry["title"], entry["lines"], [Picture(**p) for p in entry["pictures"]])
        for entry in json.loads(path.read_text(encoding="utf-8"))
    ]


def story_sections(out: str | os.PathLike[str]) -> list[Section]:
    """Return one section of the page per chapter."""
    folder, sections = (Path(out) / STORY).parent, []
    for place, chapter in enumerate(read_story(out), start=1):
        figures = figure_grid([picture.read(folder) for picture in chapter.pictures])
        content = join([paragraphs(chapter.lines), figures])
        sections.append(Section(f"story-{place}", f"{place}. {chapter.title}", content))
    return sections
