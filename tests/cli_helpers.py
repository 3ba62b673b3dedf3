"""Files for the tests of the command, and the command itself, here or as a process."""

import csv
import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

import tatml
from tatml._cli.main import main

try:
    import resource
except ImportError:  # Windows
    resource = None

WINE = load_wine()
NAMES = [name.replace("/", "_") for name in WINE.feature_names]
ORDER = np.random.RandomState(0).permutation(len(WINE.data))
TRAIN, TEST = ORDER[:89], ORDER[89:]


def write_table(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def write_wine(path, rows, target="cultivar", words=True):
    """Some wines as a table whose last column is the class, in words or as numbers."""
    labels = WINE.target_names[WINE.target[rows]] if words else WINE.target[rows]
    cells = [
        [*values, label] for values, label in zip(WINE.data[rows].tolist(), labels, strict=True)
    ]
    return write_table(path, [*NAMES, target], cells)


def wine_pairs(rows, count=300, seed=1):
    """Index pairs into the rows, and whether they are of one class."""
    rng = np.random.RandomState(seed)
    index = np.array([rng.choice(len(rows), 2, replace=False) for _ in range(count)])
    labels = WINE.target[rows]
    return index, labels[index[:, 0]] == labels[index[:, 1]]


def write_pairs(path, index, similar):
    rows = [[*pair, int(flag)] for pair, flag in zip(index.tolist(), similar, strict=True)]
    return write_table(path, ["first", "second", "similar"], rows)


def run(*arguments):
    """Return the exit status of the command, whether it is returned or raised."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as left:
        return left.code


# The command as processes of their own


class Processes:
    """Runs the command in many processes that start quickly: forks of one that has imported it."""

    def __init__(self, folder):
        root = Path(tatml.__file__).parents[1]
        paths = os.pathsep.join([str(root), str(Path(__file__).parent)])
        limited = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", "import cli_helpers; cli_helpers.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | limited | {"PYTHONPATH": paths},
            cwd=folder,
            text=True,
        )

    def start(self, *arguments, **settings):
        """Start a process and return its number; `settings` are the options of `_run_child`."""
        return self._ask({"arguments": [str(a) for a in arguments], "settings": settings})

    def wait(self, process):
        """Return the exit status of a process; minus the signal that has killed it."""
        return self._ask({"wait": process})

    def run(self, *arguments, **settings):
        return self.wait(self.start(*arguments, **settings))

    def close(self):
        self.server.stdin.close()
        self.server.stdout.close()
        self.server.wait(timeout=60)

    def _ask(self, question):
        self.server.stdin.write(json.dumps(question) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())


def serve():
    """Start processes, and wait for them, as the lines of the standard input say."""
    import skops.io  # noqa: F401 - once, and not in each process

    tatml.TATML().fit(WINE.data, WINE.target).transform(WINE.data)  # loads what is loaded late
    gc.freeze()  # the collector leaves the pages that all processes share
    answers = os.fdopen(os.dup(1), "w")
    while line := sys.stdin.readline():
        question = json.loads(line)
        if "wait" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                _run_child(question["arguments"], **question["settings"])
        print(answer, file=answers, flush=True)


def _run_child(
    arguments, out="out.txt", err="err.txt", limit=None, before=None, events=None, at_once=True
):
    """Run the command with its output in files, and end the process.

    `limit` is the largest size of a file in bytes; `before` is code to run first; `events` is the
    number of audit events (files opened, renamed, …) after which the process kills itself; 0 writes
    their number to events.txt. With `at_once` the process ends without the work that the
    interpreter does at its end, which takes long.
    """
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
    if before is not None:
        exec(before, {})
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    seen = []

    def count(*_):
        seen.append(1)
        if len(seen) == events:
            os.kill(os.getpid(), signal.SIGKILL)

    if events is not None:
        sys.addaudithook(count)
    status = main(arguments)
    if events == 0:
        Path("events.txt").write_text(str(len(seen)), encoding="utf-8")
    if not at_once:
        sys.exit(status)
    sys.stdout.flush()
    os._exit(status)
