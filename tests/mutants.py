"""Break the library on purpose, one small change at a time, and see whether a test fails.

    python tests/mutants.py --record             # once: which test runs which line (some minutes)
    python tests/mutants.py --count 150 --seed 0 # a random sample of changes, over all packages
    python tests/mutants.py --count 150 --processes 16 --stop-after 500  # on a larger machine
    python tests/mutants.py --again results.json # those of an earlier sample that no test killed

Each mutant changes one place of a copy of the source: a comparison, a sign, a constant, a
condition, a default, a statement. The tests that run its line, and tests that are newer than the
record, are run until one fails; a mutant that all of them pass has survived, and is printed. So is
one whose tests take too long: it may have made a loop endless, or the machine is busy; run it
again alone. It is up to the reader to say which survivors do not change behaviour at all (for
example ``<`` for ``<=`` where equality cannot happen).
Left out by rule, because no test could tell: annotations, texts of messages, ``__all__``,
``frozen`` of dataclasses, ``strict`` of zip (the lengths are equal by construction), ``copy`` of
astype, ``stacklevel`` of warnings, and None for False as the value of a function.
Tests that fail without a change are named when the record is made, and left out: they kill nothing.
Tests of packages that are not installed are skipped; what only they test survives.
Needs coverage, pytest-cov and pytest-xdist; not part of `make test`.

Random samples over all packages, before the tests that kill their survivors were written:

    November 2026, seed 14: 170 mutants, 8 equivalent, 152 of the other 162 killed (93.8 %)
    November 2026, seed 15: 160 mutants, 6 equivalent, 141 of the other 154 killed (91.6 %)
    November 2026, seed 100: 243 mutants, 12 equivalent, 212 of the other 231 killed (91.8 %)
    November 2026, seed 16: 170 mutants, 4 equivalent, 160 of the other 166 killed (96.4 %)
    November 2026, seed 30: 160 mutants, 4 equivalent, 143 of the other 156 killed (91.7 %)
    November 2026, seed 31: 160 mutants, 5 equivalent, 141 of the other 155 killed (91.0 %)
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import inspect
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from time import monotonic, sleep
from types import CodeType, FunctionType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
RECORD = ROOT / "build" / "mutants"
KILLED, SURVIVED, TIMED_OUT = "killed", "SURVIVED", "TIMED OUT"

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
        if isinstance(node, ast.Call):
            parts += [
                keyword.value
                for keyword in node.keywords
                if keyword.arg in ("frozen", "stacklevel")
                or (keyword.arg == "strict" and ast.unparse(node.func) == "zip")
                or (keyword.arg == "copy" and ast.unparse(node.func).endswith(".astype"))
            ]
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
        case ast.Return(value=None | ast.Constant(value=None | False)):
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


def mutants_again(rows):
    """Yield the mutants of earlier results that no test killed, at the nearest line with them."""
    for row in rows:
        if row["outcome"] != KILLED and (SOURCE / row["file"]).exists():
            same = [m for m in mutants_of(SOURCE / row["file"]) if m.change == row["change"]]
            if same:
                yield min(same, key=lambda mutant: abs(mutant.line - row["line"]))


# Which test runs which line


def record(n_processes):
    """Run all tests under coverage and keep, per line, the tests that run it."""
    RECORD.mkdir(parents=True, exist_ok=True)
    data = RECORD / "coverage"
    data.unlink(missing_ok=True)
    environment = {**os.environ, "COVERAGE_FILE": str(data), "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = search_path(SOURCE)
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(n_processes)]
    options = ["--cov=src", "--cov-context=test", "--cov-branch", "--cov-report=term"]
    report = f"--junitxml={RECORD / 'times.xml'}"
    command += [*options, report, "-p", "no:cacheprovider", "tests"]
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    seconds, other = seconds_by_test()
    if not seconds or not data.exists():
        raise SystemExit("no test has passed under coverage")
    failed = sorted(name for name, outcome in other.items() if outcome != "skipped")
    print(f"recorded {len(seconds)} tests; left out, because they fail: {failed or 'none'}")


def search_path(*folders):
    """Return the folders, then those of PYTHONPATH, as its value."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


def seconds_by_test():
    """Return {test: seconds} of those that passed in the recorded run, and {test: outcome}."""
    found, other = {}, {}
    for case in ElementTree.parse(RECORD / "times.xml").iter("testcase"):
        folder, _, module = case.get("classname").partition(".")
        if not module:  # a file that was skipped as a whole
            continue
        module, *classes = module.split(".")
        name = "::".join([f"{folder}/{module}.py", *classes, case.get("name")])
        found[name] = float(case.get("time"))
        for outcome in ("skipped", "failure", "error"):
            if case.find(outcome) is not None:
                other[name] = outcome
    return {name: time for name, time in found.items() if name not in other}, other


def tests_by_line(tests):
    """{file: {line: tests}} from the recorded run.

    What a fixture runs counts for all tests of the file: they may share what it makes.
    """
    from coverage import CoverageData

    by_file = defaultdict(set)
    for test in tests:
        by_file[test.partition("::")[0]].add(test)
    data = CoverageData(basename=str(RECORD / "coverage"))
    data.read()
    found = {}
    for file in data.measured_files():
        name = Path(file).relative_to(SOURCE).as_posix()
        found[name] = defaultdict(set)
        for line, contexts in data.contexts_by_lineno(file).items():
            for test, _, phase in (context.partition("|") for context in contexts if context):
                own = by_file[test.partition("::")[0]] if phase == "setup" else {test}
                found[name][line] |= own
    return found


def tests_for(mutant, recorded, seconds, most_seconds):
    """The tests to run for a mutant: the fastest of those that run its line.

    A line that runs at import only is tested by the tests that run another line of its file, or
    by all tests if there are none, and by tests that run no line at all, but read signatures or
    start processes. Tests of one file stay together: they share fixtures.
    """
    lines = recorded.get(mutant.path, {})
    tests = lines.get(mutant.line)
    if not tests:
        every = set().union(*(own for file in recorded.values() for own in file.values()))
        near = set().union(*lines.values()) or set(seconds)
        tests = near | (set(seconds) - every)
    by_time = sorted(tests & set(seconds), key=seconds.get)
    total = accumulate(map(seconds.get, by_time))
    by_file = defaultdict(list)
    for test, time in zip(by_time, total, strict=True):
        if time <= most_seconds:
            by_file[test.partition("::")[0]].append(test)
    files = sorted(by_file.values(), key=lambda own: sum(map(seconds.get, own)))
    return [test for own in files for test in own]


# Running them


def changed_functions(path, source):
    """[(function, its changed code)], or None if something changes that runs at import.

    The functions of the imported module get the code of the changed source, so that a forked
    process need neither import the library nor collect the tests again.
    """
    before = compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
    after = compile(source, str(path), "exec", dont_inherit=True)
    pairs, found = [(before, after)], {}
    for old, new in pairs:  # grows: module, classes, functions
        nested = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
        names = [[code.co_qualname for code in codes] for codes in nested]
        at_import = old.co_name == "<module>" or not old.co_flags & inspect.CO_OPTIMIZED
        if at_import and (names[0] != names[1] or own_parts(old) != own_parts(new)):
            return None
        if not at_import:
            found[old.co_qualname, old.co_firstlineno] = new
        if names[0] == names[1]:
            pairs += zip(*nested, strict=True)
    functions = [
        function
        for function in gc.get_objects()
        if isinstance(function, FunctionType) and function.__code__.co_filename == str(path)
    ]
    return [
        (function, found[place])
        for function in functions
        if (place := (function.__code__.co_qualname, function.__code__.co_firstlineno)) in found
    ]


def own_parts(code):
    """What a code object does by itself, without the code objects inside it."""
    constants = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, constants


def nearest_first(tests):
    """Split tests in those of the two files that have the most of them, and the others."""
    counts = Counter(test.partition("::")[0] for test in tests)
    near = {file for file, _ in counts.most_common(2)}
    return [
        [test for test in tests if (test.partition("::")[0] in near) == first]
        for first in (True, False)
    ]


class Server:
    """A plugin of pytest that runs, instead of all tests, those of each mutant in a fork."""

    def __init__(self, folder, work, known, timeout, end, report):
        self.folder, self.work, self.known = folder, work, known
        self.timeout, self.end, self.report = timeout, end, report

    def pytest_runtestloop(self, session):
        """Run the tests of mutants, until the queue that all workers share ends with None."""
        items = {item.nodeid: item for item in session.items}
        new = [test for test in items if test not in self.known]
        for mutant, recorded in iter(self.work.get, None):
            if monotonic() > self.end:
                continue
            tests = [test for test in (*new, *recorded) if test in items]
            target = self.folder / "src" / mutant.path
            original = target.read_text(encoding="utf-8")
            try:
                functions = changed_functions(target, mutant.source)
                target.write_text(mutant.source, encoding="utf-8")
                outcome = SURVIVED
                if functions is None:
                    for part in filter(None, nearest_first(tests)):
                        if outcome == SURVIVED:
                            outcome = run_in_fork(partial(self.import_anew, part), self.timeout)
                else:
                    chosen = [items[test] for test in tests]
                    run = partial(run_items, session, functions, chosen)
                    outcome = run_in_fork(run, self.timeout)
            finally:
                target.write_text(original, encoding="utf-8")
            self.report(mutant, len(tests), outcome)
        return True

    def import_anew(self, tests):
        """In a fork: forget the library and the tests, and start pytest again."""
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(self.folder)):
                del sys.modules[name]
        listed = self.folder / "tests.txt"
        listed.write_text("\n".join(tests), encoding="utf-8")
        return pytest.main(["-q", "-x", "-p", "no:cacheprovider", f"@{listed}"]) in (0, 5)


def run_items(session, functions, items):
    """In a fork: change the functions, run collected tests, and say whether all pass."""
    for function, code in functions:
        function.__code__ = code
    for item, after in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.testsfailed:
            return False
    return True


def run_in_fork(passes, timeout):
    """Whether `passes` is true in a forked process, is false or raises, or takes too long."""
    sys.stdout.flush()
    process = os.fork()
    if not process:
        os.setsid()  # so that a timeout ends the processes of the tests too
        with open(os.devnull, "r+") as nowhere:
            for stream in range(3):
                os.dup2(nowhere.fileno(), stream)
        try:
            os._exit(not passes())
        except BaseException:
            os._exit(2)
    end = monotonic() + timeout
    while monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return KILLED if status else SURVIVED
        sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return TIMED_OUT


def copy_project(folder):
    """Copy what the tests need."""
    for part in ("src", "tests", "docs", "examples", "benchmarks", "results"):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part)
    for file in [*ROOT.glob("*.*"), ROOT / "Makefile"]:
        if file.is_file():
            shutil.copy(file, folder)


def serve(folder, work, known, timeout, end, results):
    """In a worker: collect all tests of the copy in `folder` once, and run mutants."""
    paths = [str(folder / "src"), str(folder / "tests")]
    os.environ["PYTHONPATH"] = search_path(*paths)  # for the processes that tests start
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1", "CI": "1"}
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder.parent)
    sys.dont_write_bytecode = True
    original = {str(ROOT), str(ROOT / "src"), str(ROOT / "tests")}  # not the environment in it
    sys.path[:] = paths + [path for path in sys.path if path not in original]
    os.chdir(folder)

    def report(mutant, n_tests, outcome):
        place = f"{mutant.path}:{mutant.line}"
        print(f"{outcome:10}{place} {mutant.change} ({n_tests} tests)", flush=True)
        results.put((mutant, n_tests, outcome))

    options = ["-q", "-s", "--no-header", "--no-summary", "-p", "no:cacheprovider", "tests"]
    try:
        pytest.main(options, plugins=[Server(folder, work, known, timeout, end, report)])
    finally:
        results.put(None)  # the reader waits for it, whatever happened here


def run_mutants(mutants, n_processes, most_seconds, timeout, end):
    """Yield (mutant, number of tests, outcome), each worker with a copy of the project."""
    seconds, other = seconds_by_test()
    recorded = tests_by_line(seconds)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as place:
        work, results, workers = context.Queue(), context.Queue(), []
        for mutant in mutants:
            work.put((mutant, tests_for(mutant, recorded, seconds, most_seconds)))
        for job in range(n_processes):
            work.put(None)
            folder = Path(place, str(job))
            copy_project(folder)
            arguments = folder, work, {*seconds, *other}, timeout, end, results
            workers.append(context.Process(target=serve, args=arguments))
            workers[-1].start()
        for _ in workers:
            yield from iter(results.get, None)
        for worker in workers:
            worker.join()


def main():
    """Record, or draw and run mutants."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="record which test runs which line")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=150, help="of tests per mutant, the fastest first"
    )
    parser.add_argument("--timeout", type=float, default=600, help="seconds per mutant")
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds: start no mutant after them"
    )
    parser.add_argument("--package", default=".", help="a folder of src (default: all)")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--again", type=Path, help="results whose survivors are run, not a sample")
    options = parser.parse_args()
    if options.record:
        return record(options.processes)
    if options.again:
        mutants = [*mutants_again(json.loads(options.again.read_text(encoding="utf-8")))]
    else:
        mutants = [*draw_mutants(options.count, random.Random(options.seed), options.package)]
    rows, packages = [], defaultdict(Counter)
    settings = options.seconds, options.timeout, monotonic() + options.stop_after
    for m, n, outcome in run_mutants(mutants, options.processes, *settings):
        rows.append(
            {"file": m.path, "line": m.line, "change": m.change, "tests": n, "outcome": outcome}
        )
        if options.json:  # after each, in case that this process is ended
            options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        for package in (m.path.rpartition("/")[0], "all"):
            packages[package][outcome] += 1
    for package, counts in sorted(packages.items(), key=lambda item: item[0] == "all"):
        print(f"{package:24}" + ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    if len(rows) < len(mutants):
        print(f"{len(mutants) - len(rows)} of {len(mutants)} were not started")
    return None


if __name__ == "__main__":
    main()
