"""Links of the Markdown pages to files of the repository: to pages of the site, or to copies."""

import re

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
}
SEARCH = re.compile(r"\]\(((?:\.\./)*)search\.md(?=[)#])")  # Sphinx has a search.html of its own
LINK = re.compile(rf"\]\(((?:\.\./)+)({'|'.join(map(re.escape, PAGES))})(?=[)#])")
TABLE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+(?:results/[^)#]+|[A-Z]+)\.md)\)")
FOLDER = re.compile(r"\[([^\]]+)\]\((?:\.\./)+[a-z]+/?\)")


def to_site(text):
    """Point links to files of the root to the pages that include them; offer tables as copies."""
    text = LINK.sub(lambda link: f"]({link[1].removeprefix('../')}{PAGES[link[2]]}", text)
    text = TABLE.sub(r"{download}`\1 <\2>`", text)
    text = FOLDER.sub(r"\1", text)
    return SEARCH.sub(r"](\1nearest.md", text)


def rewrite(app, docname, source):
    """Rewrite the links of a page that Sphinx has just read."""
    source[0] = to_site(source[0])


def setup(app):
    """Register the extension."""
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
