"""Docstrings are plain text with code in backticks: escape what reStructuredText would misread.

Outside of code, ``|x|`` would be a substitution and ``threshold_`` a link.
"""

import re

CODE = re.compile(r"(``.*?``|`[^`]*`)")
NAMES = re.compile(r"^\s*\*{0,2}\w+(?:, \*{0,2}\w+)* : ")  # numpydoc escapes the names itself
TRAILING = re.compile(r"(?<![\w`\\])(\w+)_(?![\w`])")


def escape_line(line):
    """Escape bars and trailing underscores outside of code."""
    if line.lstrip().startswith((">>>", "...", ".. ")):
        return line
    names = NAMES.match(line)
    head, rest = (names[0], line[names.end() :]) if names else ("", line)
    parts = CODE.split(rest)
    for place in range(0, len(parts), 2):
        parts[place] = TRAILING.sub(r"\1\\_", parts[place].replace("|", r"\|"))
    return head + "".join(parts)


def escape(app, what, name, obj, options, lines):
    """Escape a docstring before numpydoc reads it."""
    lines[:] = [escape_line(line) for line in lines]


def setup(app):
    """Register the extension."""
    app.connect("autodoc-process-docstring", escape, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
