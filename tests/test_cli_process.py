"""The command as a process of its own: exit statuses, pipes, signals, full disks, kills."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import TRAIN, WINE, Processes, write_wine

import tatml
from tatml import Euclidean
from tatml.io import load_model, save_model

pytest.importorskip("skops")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes and signals of POSIX")

SOURCE = Path(tatml.__file__).parents[1]
TIMES = 30


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Processes in a folder with a table, a model and data; the tests write files of their own."""
    folder = tmp_path_factory.mktemp("processes")
    before = os.getcwd()
    os.chdir(folder)
    write_wine("wine.csv", TRAIN)
    save_model(Euclidean().fit(WINE.data, WINE.target), "fitted.skops")
    np.savez("many.npz", X=np.tile(WINE.data, (TIMES, 1)))  # more than a pipe or a buffer holds
    started = Processes(folder)
    yield started
    started.close()
    os.chdir(before)


@pytest.fixture
def folder(processes):
    """A new folder inside that of the processes."""
    name = f"{random.getrandbits(64):x}"
    os.mkdir(name)
    return Path(name)


COMMANDS = {
    "fit": (["fit", "wine.csv", "--set", "n_pairs_per_class=20"], ".skops"),
    "transform to CSV": (["transform", "fitted.skops", "many.npz"], ".csv"),
    "transform to npz": (["transform", "fitted.skops", "many.npz"], ".npz"),
    "predict": (["predict", "fitted.skops", "many.npz", "--train", "wine.csv", "--k", "1"], ".csv"),
}


def is_complete(path):
    """Whether the output of a command is whole."""
    if path.suffix == ".skops":
        return load_model(path).estimator.threshold_ > 0
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return arrays["X"].shape == (178 * TIMES, 13)
    text = path.read_text(encoding="utf-8")
    return text.count("\n") == 178 * TIMES + 1 and text.endswith("\n")


def error_line():
    (line,) = Path("err.txt").read_text(encoding="utf-8").splitlines()
    return line


# Statuses


def test_a_process_ends_with_the_status(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_wine("wine.csv", TRAIN, target="größe")
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tatml", "fit", "wine.csv", "--out", "model.skops"]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Saved to model.skops" in ended.stdout
    assert r"column 'gr\xf6\xdfe'" in ended.stdout  # a terminal without such letters


def test_an_error_is_one_line(processes):
    assert processes.run("fit", "nowhere.csv", "--out", "other.skops") == 1
    assert error_line() == "tatml fit: error: nowhere.csv: expected a file, got none of this name"
    assert Path("out.txt").read_text(encoding="utf-8") == ""


def test_a_reader_that_goes_away_is_no_error(processes, folder):
    os.mkfifo(folder / "pipe")
    settings = {"out": str(folder / "pipe"), "at_once": False}
    process = processes.start("transform", "fitted.skops", "many.npz", **settings)
    with open(folder / "pipe", encoding="utf-8") as reader:
        reader.readline()
    assert processes.wait(process) == 128 + signal.SIGPIPE
    assert Path("err.txt").read_text(encoding="utf-8") == ""


SLOW = """
import signal, time
from tatml._cli import commands
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells switch it off in the background
def slow(*_):
    print("ready", flush=True)
    time.sleep(60)
commands.read_data = slow
"""


def test_an_interrupted_process(processes):
    Path("out.txt").unlink(missing_ok=True)
    process = processes.start("fit", "wine.csv", "--out", "model.skops", before=SLOW)
    while not (Path("out.txt").exists() and Path("out.txt").read_text(encoding="utf-8")):
        time.sleep(0.01)
    os.kill(process, signal.SIGINT)
    assert processes.wait(process) == 130
    assert error_line() == "tatml: interrupted"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full of Linux")
def test_an_output_that_cannot_be_printed(processes, folder):
    settings = {"out": "/dev/full", "at_once": False}
    for arguments in (
        ["transform", "fitted.skops", "many.npz"],  # fails while it prints
        ["fit", "wine.csv", "--out", str(folder / "out.skops")],  # fails when it ends
    ):
        assert processes.run(*arguments, **settings) == 1
        assert error_line() == f"tatml {arguments[0]}: error: [Errno 28] No space left on device"


# Faults while a file is written


@pytest.mark.parametrize("name", COMMANDS)
def test_a_limit_of_the_file_size_leaves_the_old_file(processes, folder, name):
    arguments, extension = COMMANDS[name]
    out = folder / f"out{extension}"
    for limit in (0, 1000):
        assert processes.run(*arguments, "--out", out, limit=limit, err="/dev/null") == 1
        assert os.listdir(folder) == []
    out.write_text("old", encoding="utf-8")
    for before in ("", "import os; os.fsync = lambda _: os.write(os.open('/dev/full', 1), b'x')"):
        limit = None if before else 1000
        assert processes.run(*arguments, "--out", out, "--force", limit=limit, before=before) == 1
        problem = "No space left on device" if before else "File too large"
        assert error_line() == f"tatml {arguments[0]}: error: {out}: {problem}"
        assert out.read_text(encoding="utf-8") == "old"
        assert os.listdir(folder) == [out.name]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_process_leaves_the_old_or_the_new_file(processes, folder, name):
    """Killed at events and at times that are spread over the whole run."""
    arguments, extension = COMMANDS[name]
    out = folder / f"out{extension}"
    assert processes.run(*arguments, "--out", out) == 0
    start = time.perf_counter()
    assert processes.run(*arguments, "--out", out, "--force", events=0) == 0
    seconds = time.perf_counter() - start
    total = int(Path("events.txt").read_text(encoding="utf-8"))
    assert is_complete(out)
    old, generator = out.read_bytes(), random.Random(0)
    points = {*range(1, total, max(1, total // 4)), *range(total - 4, total + 1)}
    kills = [{"events": point} for point in sorted(points)]
    kills += [{"after": generator.uniform(0, 1.2 * seconds)} for _ in range(3)]
    statuses = []
    for kill in kills:
        delay = kill.pop("after", None)
        process = processes.start(*arguments, "--out", out, "--force", **kill)
        if delay is not None:
            time.sleep(delay)
            os.kill(process, signal.SIGKILL)
        statuses.append(processes.wait(process))
        assert is_complete(out), kill
        left = [file for file in os.listdir(folder) if file != out.name]
        assert all(file.startswith(".tatml-") and file.endswith(".part") for file in left)
    assert statuses.count(-signal.SIGKILL) > len(points) / 2
    assert processes.run(*arguments, "--out", out, "--force") == 0  # whatever was left
    assert is_complete(out)
    if extension == ".csv":
        assert out.read_bytes() == old


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_is_removed_meanwhile(processes, folder, name):
    arguments, extension = COMMANDS[name]
    out = folder / f"out{extension}"
    before = f"""
import shutil
from tatml._cli import commands
read = commands.read_data
def read_and_remove(*arguments):
    shutil.rmtree({str(folder)!r}, ignore_errors=True)
    return read(*arguments)
commands.read_data = read_and_remove
"""
    assert processes.run(*arguments, "--out", out, before=before) == 1
    assert error_line() == (
        f"tatml {arguments[0]}: error: {out}: expected an existing folder {folder}, got none"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_two_processes_write_the_same_file(processes, folder, name):
    arguments, extension = COMMANDS[name]
    both = {"out": "/dev/null", "err": "/dev/null"}
    out = folder / f"forced{extension}"
    started = [processes.start(*arguments, "--out", out, "--force", **both) for _ in range(2)]
    assert [processes.wait(process) for process in started] == [0, 0]
    assert is_complete(out)
    out = folder / f"new{extension}"
    started = [processes.start(*arguments, "--out", out, **both) for _ in range(2)]
    assert sorted(processes.wait(process) for process in started) == [0, 1]
    assert is_complete(out)
    assert len(os.listdir(folder)) == 2
