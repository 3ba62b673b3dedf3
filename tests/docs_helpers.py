"""The pages of the site: their code, and the built site."""

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

needs_site = pytest.mark.skipif(
    not (SITE / "index.html").exists() and os.environ.get("TATML_BROWSER") != "required",
    reason="needs the built site: make docs",
)


def read(path):
    return path.read_text(encoding="utf-8")


def code_of(page):
    """Return the Python blocks of a page, as one script."""
    blocks = re.findall(r"^```python\n(.*?)^```$", read(page), re.DOTALL | re.MULTILINE)
    return "\n".join(blocks)


def built_pages():
    return sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)


class Page(HTMLParser):
    """What a page of the built site loads, links to, and can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.path, self.loads, self.links, self.anchors = path, [], [], {""}
        self.feed(read(path))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors.update(value for name, value in attributes if name in ("id", "name") and value)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon", "search"):
            self.loads.append(given["href"])
        if tag in ("script", "img", "source", "iframe", "video", "audio", "object", "embed"):
            self.loads += [given[name] for name in ("src", "data", "srcset") if given.get(name)]
