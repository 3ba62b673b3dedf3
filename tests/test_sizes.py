"""The script that counts the sizes which CONTRIBUTING.md shows."""

from sizes import ROOT, code_lines, function_sizes, sizes, total_lines

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


def test_docstrings_comments_and_blank_lines_are_not_code():
    assert sorted(code_lines(SOURCE)) == [6, 9, 10, 11, 12, 16, 17, 18, 21, 24]


def test_a_function_counts_without_signature_and_docstring():
    assert dict(function_sizes(SOURCE)) == {"first": 3, "method": 1}


def test_the_sizes_of_a_folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(SOURCE, encoding="utf-8")
    found = sizes(tmp_path)
    assert (found["files"], found["lines"], found["lines of code"]) == (2, 48, 20)
    assert (found["functions"], found["largest function"]) == (4, "3 (b.py: first)")


def test_the_page_names_the_script_and_its_figures_have_the_right_size():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "`python tests/sizes.py`" in page
    row = next(line for line in page.splitlines() if line.startswith("| lines |"))
    shown = [int(cell.replace(",", "")) for cell in row.split("|")[2:4]]
    for folder, figure in zip(("src", "tests"), shown, strict=True):
        assert abs(figure / total_lines(ROOT / folder) - 1) < 0.05
