"""The command as a process of its own: exit statuses, pipes, signals."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import TRAIN, WINE, write_wine

import tatml
from tatml import TATML
from tatml.io import save_model

pytest.importorskip("skops")

SOURCE = Path(tatml.__file__).parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def process(arguments):
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "ascii"}
    program = ["-c", arguments] if isinstance(arguments, str) else ["-m", "tatml", *arguments]
    command = [sys.executable, *program]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )


def test_a_process_ends_with_the_status(folder):
    write_wine("wine.csv", TRAIN, target="größe")
    good = process(["fit", "wine.csv", "--out", "model.skops"])
    bad = process(["fit", "nowhere.csv", "--out", "other.skops"])
    out, err = good.communicate(timeout=60)
    assert (good.returncode, err) == (0, "")
    assert "Saved to model.skops" in out
    assert r"column 'gr\xf6\xdfe'" in out  # a terminal without such letters
    out, err = bad.communicate(timeout=60)
    assert (bad.returncode, out) == (1, "")
    assert err.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="pipes and signals of POSIX")
def test_a_reader_that_goes_away_is_no_error(folder):
    save_model(TATML().fit(WINE.data, WINE.target), "model.skops")
    np.savez("many.npz", X=np.tile(WINE.data, (100, 1)))  # more than a pipe holds
    child = process(["transform", "model.skops", "many.npz"])
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == ""
    child.stderr.close()
    assert child.wait(timeout=60) == 128 + signal.SIGPIPE


SLOW = """
import sys, time
from tatml._cli import commands, main
def slow(*_):
    print("ready", flush=True)
    time.sleep(60)
commands.read_data = slow
sys.exit(main.main(["fit", "small.csv", "--out", "model.skops"]))
"""


@pytest.mark.skipif(os.name != "posix", reason="pipes and signals of POSIX")
def test_an_interrupted_process(folder):
    child = process(SLOW)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "tatml: interrupted\n")
