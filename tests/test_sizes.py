"""The script that counts the sizes which CONTRIBUTING.md shows."""

import ast
import re

import pytest
from sizes import (
    END,
    PAGE,
    START,
    code_lines,
    count,
    make_table,
    read,
    with_one_caller,
    with_one_importer,
)

SOURCE = '''"""A module.

Of two lines.
"""

import os  # a comment


def first(
    a,
    b,
):
    """A function."""

    # a comment
    text = """not a
    docstring"""
    return os.fspath(text)


class Second:
    """A class."""

    def method(self): return 1
'''


@pytest.fixture(scope="module")
def table():
    return make_table(with_tests=False)


def test_docstrings_comments_and_blank_lines_are_not_code():
    assert sorted(code_lines(SOURCE)) == [6, 9, 10, 11, 12, 16, 17, 18, 21, 24]


def test_the_sizes_of_a_folder(tmp_path):
    for name in ("a/b/c.py", "a/d.py", "tatml/e.py", "tatml/f/g.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SOURCE, encoding="utf-8")
    one = [1, 10, 6, 1, 2, 0, 0]
    two = [2 * number for number in one]
    assert count(tmp_path) == {"a": two, "tatml": one, "tatml/f": one}


def test_functions_with_one_caller_are_found():
    trees = {
        "a": ast.parse(
            "def _once(): pass\ndef _twice(): pass\ndef _own(): pass\ndef other(): _own()"
        ),
        "b": ast.parse("_twice()\nx._twice()\n_once()\n_own()\nother()\ndef _own(): pass"),
    }
    files = {name: [*ast.walk(tree)] for name, tree in trees.items()}
    assert with_one_caller(files) == {"a": ["_once", "_own"], "b": ["_own"]}
    assert with_one_caller({"a": files["a"]}) == {"a": ["_own"]}


def test_a_module_with_one_importer_is_found_but_for_the_package_that_lists_it(monkeypatch):
    sources = {
        "p": ("from .listed import A\nfrom .shared import B", True),
        "p.listed": ("from .half import C\nfrom .shared import B", False),
        "p.other": ("from .shared import B", False),
        "p.half": ("", False),
        "p.shared": ("", False),
    }
    modules = {name: (name, is_package) for name, (_, is_package) in sources.items()}
    monkeypatch.setattr("sizes.read_modules", lambda package: modules)
    trees = {name: ast.parse(source) for name, (source, _) in sources.items()}
    assert with_one_importer(trees, "p") == {"p.half"}


def shown_on_the_page():
    return read(PAGE).partition(START)[2].partition(END)[0]


def test_the_table_of_the_page_has_the_form_that_the_script_writes(table):
    shown = shown_on_the_page()
    assert "`python tests/sizes.py --write`" in shown
    found = [line for line in shown.splitlines() if line.startswith("|")]
    assert found.pop().startswith("| `tests` |")
    without_numbers = [re.sub(r"\d[\d,]*", "0", line) for line in found]
    assert without_numbers == re.sub(r"\d[\d,]*", "0", table).splitlines()


def lines_of_code(table):
    (row,) = (line for line in table.splitlines() if line.startswith("| **`tatml`, all**"))
    return int(row.split("|")[3].replace(",", ""))


def test_the_lines_of_code_of_the_page_are_about_right(table):
    assert lines_of_code(shown_on_the_page()) == pytest.approx(lines_of_code(table), rel=0.05)
