"""docs/cli.md shows what the command does: its sessions are run, and print what it shows."""

import re
import shlex
from pathlib import Path

import pytest
from cli_helpers import run

from tatml._cli.main import _parser

pytest.importorskip("skops")

DOCS = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
TEXT = DOCS.read_text(encoding="utf-8")
NUMBER = re.compile(r"\d[\d.e-]*")


def sessions():
    """Each command of the page, and the lines that it prints there."""
    for session in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL):
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield shlex.split(command)[1:], lines


def without_numbers(line):
    """Remove numbers, whose last digits depend on the machine, and times."""
    return re.sub(r" +", " ", NUMBER.sub("N", line))


def test_the_sessions_print_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files, in_python = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(files, {})
    commands = list(sessions())
    assert len(commands) == 9
    for arguments, lines in commands:
        run(*arguments)
        printed = "".join(capsys.readouterr())
        shown = [without_numbers(line) for line in lines]
        assert [without_numbers(line) for line in printed.splitlines()] == shown
    exec(in_python, {})


def test_the_commands_of_reproduce_are_understood():
    (block,) = re.findall(r"```\n(tatml reproduce.*?)```", TEXT, re.DOTALL)
    commands = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    assert [_parser().parse_args(command).what for command in commands] == [
        "table1",
        "sensitivity",
        "all",
    ]
