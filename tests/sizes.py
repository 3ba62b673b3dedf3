"""Count files, lines, code and functions, for the table of sizes in CONTRIBUTING.md.

    python tests/sizes.py

Lines of code are those that are not blank, comments or docstrings. The lines of a function are
counted as tests/test_project.py counts them: without signature, docstring and comments.
"""

import ast
import io
import statistics
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
NO_CODE |= {tokenize.ENCODING, tokenize.ENDMARKER}


def lines_of(node):
    return range(node.lineno, node.end_lineno + 1)


def docstring_lines(tree):
    """Return the numbers of the lines of all docstrings."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, SCOPES) and ast.get_docstring(node, clean=False) is not None:
            found.update(lines_of(node.body[0]))
    return found


def code_lines(source):
    """Return the numbers of the lines of code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = set()
    for token in tokens:
        if token.type not in NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    return found - docstring_lines(ast.parse(source))


def function_sizes(source):
    """Return the name and the lines of code of each function, those inside it included."""
    code = code_lines(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = range(node.body[0].lineno, node.end_lineno + 1)
            yield node.name, len(code.intersection(body))


def sources_of(folder):
    """Return the text of each Python file of a folder."""
    return {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}


def total_lines(folder):
    """Return the number of lines of all Python files of a folder."""
    return sum(len(source.splitlines()) for source in sources_of(folder).values())


def sizes(folder):
    """Return the sizes of all Python files of a folder."""
    sources = sources_of(folder)
    n_lines = {path: len(source.splitlines()) for path, source in sources.items()}
    functions = [
        (size, f"{path.relative_to(folder)}: {name}")
        for path, source in sources.items()
        for name, size in function_sizes(source)
    ]
    of_functions = [size for size, _ in functions]
    return {
        "files": len(sources),
        "lines": total_lines(folder),
        "lines of code": sum(len(code_lines(source)) for source in sources.values()),
        "longest file": max(n_lines.values()),
        "functions": len(functions),
        "median lines of a function": int(statistics.median(of_functions)),
        "99th percentile": round(statistics.quantiles(of_functions, n=100)[-1]),
        "largest function": "{} ({})".format(*max(functions)),
    }


def main():
    for name in sys.argv[1:] or ("src", "tests"):
        print(name)
        for what, value in sizes(ROOT / name).items():
            print(f"  {what:28} {value:,}" if isinstance(value, int) else f"  {what:28} {value}")


if __name__ == "__main__":
    main()
