"""A short experiment in a process of its own, killed again and again and compared at the end."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tatml_paper import read_records, run

# Imports once, then forks for each line of its input, so that a run starts within milliseconds.
RUNNER = """
import os, resource, sys
from tatml_paper import run
for line in sys.stdin:
    folder, repeats, limit = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        if int(limit):
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
        options = {"repeats": int(repeats), "quick": True, "progress": False}
        try:
            run(methods=["euc"], datasets=["textures"], out=folder, **options)
        except BaseException:
            os._exit(1)
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
TIMES = {"seconds", "seconds_scoring", "date"}


def numbers(records):
    """The records by key, without what depends on the clock."""
    return {r["key"]: {n: v for n, v in r.items() if n not in TIMES} for r in records}


class Runner:
    """Runs the experiment in one process at a time; a context manager."""

    def __enter__(self):
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        command = [sys.executable, "-c", RUNNER]
        self.server = subprocess.Popen(command, text=True, env=environment, **pipes)
        return self

    def __exit__(self, *_):
        self.server.stdin.close()
        self.server.wait(60)
        self.server.stdout.close()

    def start(self, folder, repeats, limit=0):
        """Start a run; with a limit, no file may grow beyond so many bytes."""
        self.server.stdin.write(f"{folder}\t{repeats}\t{limit}\n")
        self.server.stdin.flush()
        self.pid = int(self.server.stdout.readline())

    def is_running(self):
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self):
        """Kill the run, and return whether that ended it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def wait(self):
        """The exit status of the run."""
        return int(self.server.stdout.readline())

    def wait_for_lines(self, path, wanted, deadline=120.0):
        """Wait until the file has this many whole lines, or the run has ended."""
        end = time.monotonic() + deadline
        while n_whole_lines(path) < wanted and self.is_running():
            assert time.monotonic() < end, f"no {wanted} records within {deadline} s"
            time.sleep(0.001)


def n_whole_lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_and_resume(runner, folder, repeats, kills, seed=0):
    """Kill the experiment at points spread over the whole run, then let it end.

    Point i is i / kills of all records, give or take one, and a random moment after that record;
    every fifth kill comes at a random moment of the start, before any new record. Raise
    AssertionError if a record is lost, doubled, changed or torn; return the number of kills before
    the last run was done.
    """
    rng = random.Random(seed)
    path, total, done = Path(folder) / "results.jsonl", 3 * repeats, 0
    survived = []
    for kill in range(kills):
        runner.start(folder, repeats)
        target = kill * (total - 2) // kills
        if kill % 5 == 4:
            time.sleep(rng.uniform(0.0, 0.1))
        else:
            runner.wait_for_lines(path, max(target + rng.choice([-1, 0, 1]), 0))
            time.sleep(rng.uniform(0.0, 0.02))
        was_running = runner.kill()
        found = read_records(folder)
        assert found[: len(survived)] == survived, "a record was lost or changed"
        assert len({r["key"] for r in found}) == len(found), "a record was doubled"
        survived = found
        done += was_running and len(found) < total
    runner.start(folder, repeats)
    assert runner.wait() == 0
    ended = read_records(folder)
    assert ended[: len(survived)] == survived, "a record was lost or changed"
    assert len(ended) == len({r["key"] for r in ended}) == total
    return done


def run_undisturbed(folder, repeats):
    """Run the experiment in this process, without a kill."""
    return run(
        methods=["euc"],
        datasets=["textures"],
        out=folder,
        repeats=repeats,
        quick=True,
        progress=False,
    )
