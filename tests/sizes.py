"""Count files, lines, classes and functions: the table of sizes in CONTRIBUTING.md.

    python tests/sizes.py          # prints the table
    python tests/sizes.py --write  # and writes it into CONTRIBUTING.md

Lines of code are those that are not blank, comments or docstrings. A private function is one whose
name starts with an underscore; it has one caller if its name is used once. A module has one
importer if one other module imports it, apart from the package that lists its public names.
"""

import argparse
import ast
import datetime
import io
import tokenize
from collections import Counter
from pathlib import Path

from import_graph import imports_of, read_modules

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
START, END = "<!-- sizes: start -->", "<!-- sizes: end -->"
SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
NO_CODE |= {tokenize.ENCODING, tokenize.ENDMARKER}
COLUMNS = (
    "files",
    "lines of code",
    "docstring lines",
    "classes",
    "functions",
    "private functions with one caller",
    "modules with one importer",
)


def lines_of(node):
    return range(node.lineno, node.end_lineno + 1)


def docstring_lines(nodes):
    """Return the numbers of the lines of all docstrings, given all nodes of a module."""
    found = set()
    for node in nodes:
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
    return found - docstring_lines(ast.walk(ast.parse(source)))


def private_functions(nodes):
    """Return the names of the functions and methods that start with one underscore."""
    names = (node.name for node in nodes if isinstance(node, FUNCTIONS))
    return [name for name in names if name.startswith("_") and not name.endswith("__")]


def uses(nodes):
    """Count how often each name is read, as a variable or as an attribute."""
    found = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    found.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    return found


def with_one_caller(files):
    """Return {path: the private functions that are used once}, given {path: all nodes}.

    A name that several files define is looked for in each file alone.
    """
    names = {path: private_functions(nodes) for path, nodes in files.items()}
    n_files = Counter(name for found in names.values() for name in set(found))
    own, everywhere = {path: uses(nodes) for path, nodes in files.items()}, Counter()
    for counts in own.values():
        everywhere.update(counts)
    return {
        path: [n for n in found if (everywhere if n_files[n] == 1 else own[path])[n] == 1]
        for path, found in names.items()
    }


def with_one_importer(trees, package):
    """Return the paths of the modules that one other module imports."""
    modules = read_modules(package)
    importers = Counter()
    for name, (path, is_package) in modules.items():
        for imported in imports_of(trees[path], name, is_package, modules):
            importers[imported] += not (is_package and imported.startswith(f"{name}."))
    return {path for name, (path, _) in modules.items() if importers[name] == 1}


def package_of(path, folder):
    """Return the name of the row of a file: its package in `tatml`, or its folder."""
    parts = path.relative_to(folder).parts
    return f"{parts[0]}/{parts[1]}" if parts[0] == "tatml" and len(parts) > 2 else parts[0]


def count(folder, packages=()):
    """Return {row: its numbers}, one row per package below the folder."""
    trees = {path: ast.parse(read(path)) for path in sorted(folder.rglob("*.py"))}
    files = {path: [*ast.walk(tree)] for path, tree in trees.items()}
    one_caller = with_one_caller(files)
    one_importer = set().union(*(with_one_importer(trees, package) for package in packages))
    rows = {}
    for path, nodes in files.items():
        kinds = Counter(map(type, nodes))
        numbers = (
            1,
            len(code_lines(read(path))),
            len(docstring_lines(nodes)),
            kinds[ast.ClassDef],
            sum(kinds[kind] for kind in FUNCTIONS),
            len(one_caller[path]),
            path in one_importer,
        )
        row = rows.setdefault(package_of(path, folder), [0] * len(numbers))
        row[:] = map(sum, zip(row, numbers, strict=True))
    return rows


def read(path):
    return path.read_text(encoding="utf-8")


def make_table(with_tests=True):
    """Return the table of the library by package, of the paper's package and of the tests."""
    source = count(ROOT / "src", ("tatml", "tatml_paper"))
    library = [row for name, row in source.items() if name.split("/")[0] == "tatml"]
    paper = source.pop("tatml_paper")
    source["tatml"] = source.pop("tatml")  # the modules beside the packages, last
    rows = {f"`{name}`": row for name, row in source.items()}
    rows["`tatml`, modules"] = rows.pop("`tatml`")
    rows["**`tatml`, all**"] = map(sum, zip(*library, strict=True))
    rows["`tatml_paper`"] = paper
    if with_tests:
        rows["`tests`"] = [*map(sum, zip(*count(ROOT / "tests").values(), strict=True))][:5]
    lines = [f"| | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, row in rows.items():
        cells = [f"{number:,}" for number in row]
        cells += ["–"] * (len(COLUMNS) - len(cells))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    table = make_table()
    print(table)
    if parser.parse_args().write:
        before, _, rest = read(PAGE).partition(START)
        after = rest.partition(END)[2]
        text = f"Sizes, as `python tests/sizes.py --write` wrote them on {datetime.date.today()}:"
        PAGE.write_text(f"{before}{START}\n{text}\n\n{table}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
