"""Break the library on purpose, one small change at a time, and see whether a test fails.

    python tests/mutants.py --record             # once: which test runs which line (some minutes)
    python tests/mutants.py --count 150 --seed 0 # a random sample of changes, over all packages

Each mutant changes one place of a copy of the source: a comparison, a sign, a constant, a
condition, a default, a statement. The tests that run its line are run until one fails; a mutant
that all of them pass has survived, and is printed. It is up to the reader to say which survivors
do not change behaviour at all (for example ``<`` for ``<=`` where equality cannot happen).
Needs coverage and pytest-cov; not part of `make test`.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "tatml"
RECORD = ROOT / "build" / "mutants"
TIMEOUT = 300  # seconds: a mutant that makes a loop endless counts as killed

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Sub,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: a file, a line, what is done there, and the text of the file with it."""

    path: str
    line: int
    change: str
    source: str


# Making mutants


def nodes_left_out(tree):
    """Nodes whose change shows in no behaviour, or in the text of a message only."""
    inside = set()
    for node in ast.walk(tree):
        parts = [getattr(node, field, None) for field in ("annotation", "returns")]
        if isinstance(node, ast.JoinedStr):
            parts.append(node)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            parts.append(node)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            parts.append(node)
        for part in filter(None, parts):
            inside.update(map(id, ast.walk(part)))
    return inside


def change_of(node):
    """(what is done, the node to replace, what replaces it), or None."""
    new = copy.copy(node)
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            new.ops = [COMPARISONS[type(operator)]()]
            return "comparison", node, f"({ast.unparse(new)})"
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            new.op = OPERATORS[type(operator)]()
            return "operator", node, f"({ast.unparse(new)})"
        case ast.BoolOp(op=operator):
            new.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            return "and/or", node, f"({ast.unparse(new)})"
        case ast.UnaryOp(op=ast.USub()):
            return "sign", node, f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool(value)):
            return "flag", node, repr(not value)
        case ast.Constant(value=int(value) | float(value)):
            return "number", node, repr(value * 2 if value else 1)
        case ast.If() | ast.IfExp() | ast.While():
            return "negated", node.test, f"(not ({ast.unparse(node.test)}))"
        case ast.Return(value=None | ast.Constant(value=None)):
            return None
        case ast.Return():
            return "returns None", node, "return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            return "removed", node, "pass"
    return None


def mutants_of(path):
    """Yield all mutants of one file."""
    text = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    left_out = nodes_left_out(tree)
    for node in ast.walk(tree):
        if id(node) in left_out or (found := change_of(node)) is None:
            continue
        change, place, replacement = found
        first = starts[place.lineno - 1] + place.col_offset
        end = starts[place.end_lineno - 1] + place.end_col_offset
        source = (text.encode()[:first] + replacement.encode() + text.encode()[end:]).decode()
        before = " ".join(ast.unparse(place).split())
        name = path.relative_to(SOURCE).as_posix()
        yield Mutant(name, place.lineno, f"{change}: {before}"[:110], source)


def draw_mutants(count, rng, folder):
    """Draw a random sample; every mutant of every file has the same chance."""
    files = sorted((SOURCE / folder).rglob("*.py"))
    places = [(path, number) for path in files for number, _ in enumerate(mutants_of(path))]
    for path, number in rng.sample(places, min(count, len(places))):
        yield next(islice(mutants_of(path), number, None))


# Which test runs which line


def record():
    """Run all tests under coverage and keep, per line, the tests that run it."""
    RECORD.mkdir(parents=True, exist_ok=True)
    data = RECORD / "coverage"
    data.unlink(missing_ok=True)
    environment = {**os.environ, "COVERAGE_FILE": str(data), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    options = ["--cov=tatml", "--cov-context=test", "--cov-branch", "--cov-report=term"]
    report = f"--junitxml={RECORD / 'times.xml'}"
    subprocess.run([*command, *options, report, "tests"], cwd=ROOT, env=environment, check=True)


def seconds_by_test():
    """Return {test: seconds} of the recorded run."""
    found = {}
    for case in ElementTree.parse(RECORD / "times.xml").iter("testcase"):
        folder, _, module = case.get("classname").partition(".")
        if not module:  # a file that was skipped as a whole
            continue
        module, *classes = module.split(".")
        name = "::".join([f"{folder}/{module}.py", *classes, case.get("name")])
        found[name] = float(case.get("time"))
    return found


def tests_by_line():
    """{file: {line: tests}} from the recorded run."""
    from coverage import CoverageData

    data = CoverageData(basename=str(RECORD / "coverage"))
    data.read()
    found = {}
    for file in data.measured_files():
        name = Path(file).relative_to(SOURCE).as_posix()
        lines = data.contexts_by_lineno(file)
        found[name] = {
            line: {context.partition("|")[0] for context in contexts if context}
            for line, contexts in lines.items()
        }
    return found


def tests_for(mutant, recorded, seconds, most_seconds):
    """The tests to run for a mutant, the fastest first: those that run its line, if any do.

    A line that runs at import only is tested by all tests, because any of them may read a
    constant: first those that run another line of its file.
    """
    lines = recorded.get(mutant.path, {})
    tests, near = lines.get(mutant.line) or set(seconds), set().union(*lines.values())
    chosen = sorted(tests & set(seconds), key=lambda test: (test not in near, seconds[test]))
    total = accumulate(map(seconds.get, chosen))
    return [test for test, time in zip(chosen, total, strict=True) if time <= most_seconds]


# Running them


def import_libraries():
    """Import what most tests need, but not tatml, so that a forked process does not have to."""
    for name in ("scipy.optimize", "sklearn.linear_model", "sklearn.utils.estimator_checks",
                 "pandas", "matplotlib.pyplot"):  # fmt: skip
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def run_tests(folder, listed):
    """Run tests in a forked process, on the copy of the project in `folder`."""
    paths = [str(folder / "src"), str(folder / "tests")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # for the processes that tests start
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    sys.path[:] = paths + [path for path in sys.path if not path.startswith(str(ROOT))]
    os.chdir(folder)
    os.setsid()  # so that a timeout ends the processes of the tests too
    with open(os.devnull, "r+") as nowhere:
        for stream in range(3):
            os.dup2(nowhere.fileno(), stream)
    os._exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", f"@{listed}"])))


def is_killed(mutant, tests, folder):
    """Whether a test fails with the changed file in place."""
    target = folder / "src" / "tatml" / mutant.path
    original = target.read_text(encoding="utf-8")
    target.write_text(mutant.source, encoding="utf-8")
    listed = folder / "tests.txt"
    listed.write_text("\n".join(tests), encoding="utf-8")
    process = multiprocessing.get_context("fork").Process(target=run_tests, args=(folder, listed))
    try:
        process.start()
        process.join(TIMEOUT)
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
        return process.exitcode not in (0, 5)
    finally:
        target.write_text(original, encoding="utf-8")


def run_mutants(mutants, n_jobs, most_seconds):
    """Yield (mutant, number of tests, killed), each worker with a copy of the project."""
    recorded, seconds = tests_by_line(), seconds_by_test()
    work = [(mutant, tests_for(mutant, recorded, seconds, most_seconds)) for mutant in mutants]
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place, str(job)) for job in range(n_jobs)]
        for folder in folders:
            for part in ("src", "tests", "docs", "examples", "benchmarks", "results"):
                if (ROOT / part).is_dir():
                    shutil.copytree(ROOT / part, folder / part)
            for file in ROOT.glob("*.*"):
                if file.is_file():
                    shutil.copy(file, folder)
            shutil.copy(ROOT / "Makefile", folder)
        shares = [work[job::n_jobs] for job in range(n_jobs)]

        def run_share(job):
            for mutant, tests in shares[job]:
                killed = bool(tests) and is_killed(mutant, tests, folders[job])
                mark = "killed  " if killed else "SURVIVED"
                print(
                    f"{mark} {mutant.path}:{mutant.line} {mutant.change} ({len(tests)} tests)",
                    flush=True,
                )
                yield mutant, len(tests), killed

        with ThreadPoolExecutor(n_jobs) as executor:
            for results in executor.map(lambda job: list(run_share(job)), range(n_jobs)):
                yield from results


def main():
    """Record, or draw and run mutants."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="record which test runs which line")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=150, help="of tests per mutant, the fastest first"
    )
    parser.add_argument("--package", default=".", help="a folder of src/tatml (default: all)")
    parser.add_argument("--json", type=Path, help="write the results here")
    options = parser.parse_args()
    if options.record:
        return record()
    mutants = draw_mutants(options.count, random.Random(options.seed), options.package)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import_libraries()
    results = list(run_mutants(mutants, options.jobs, options.seconds))
    killed = defaultdict(list)
    for mutant, _, dead in results:
        killed[mutant.path.partition("/")[0]].append(dead)
    for package, dead in sorted(killed.items()):
        print(f"{package:20}{sum(dead):5} of {len(dead)}")
    total = sum(dead for *_, dead in results)
    print(f"killed {total} of {len(results)}: {total / len(results):.1%}")
    if options.json:
        rows = [
            {"file": m.path, "line": m.line, "change": m.change, "tests": n, "killed": dead}
            for m, n, dead in results
        ]
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
