"""`tatml reproduce` hands its options on, and names what was written."""

import inspect
import sys
from pathlib import Path

import pytest
from cli_helpers import run

from tatml_paper import reproduce
from tatml_paper import run as run_experiments
from tatml_paper.settings import QUICK_DATASETS


@pytest.fixture
def called(tmp_path, monkeypatch):
    """The experiments replaced by one that remembers what it was asked for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TATML_DATA", raising=False)
    calls = {"records": [{"key": "a", "accuracy": 90.0}]}

    def stand_in(what, **options):
        calls["run"] = {"what": what, **options}
        if "raises" in calls:
            raise calls["raises"]
        folder = Path(options["out"])
        folder.mkdir(exist_ok=True)
        (folder / "results.jsonl").touch()
        return calls["records"]

    def remember(name, result):
        def remembered(*arguments, **options):
            calls[name] = (*arguments, *options.values())
            calls.setdefault("order", []).append(name)
            if f"{name} raises" in calls:
                raise calls[f"{name} raises"]
            return result

        return remembered

    monkeypatch.setattr(reproduce, "run", stand_in)
    tables = [Path("results/table1.md")]
    monkeypatch.setattr(reproduce, "write_tables", remember("tables", tables))
    report = remember("report", Path("results/report.html"))
    monkeypatch.setattr(reproduce, "write_report", report)
    monkeypatch.setattr(reproduce, "draw_pictures", remember("pictures", []))
    return calls


def test_options_are_handed_on(called, capsys):
    options = ["--datasets", "digits", "textures", "--methods", "tatml", "euc", "--repeats", 3]
    more = ["--features", "matrix", "--jobs", 2, "--out", "there"]
    assert run("reproduce", "table1", *options, *more) == 0
    assert called["run"] == {
        "what": "table1",
        "datasets": ["digits", "textures"],
        "methods": ["tatml", "euc"],
        "features": ["matrix"],
        "data": None,
        "out": "there",
        "repeats": 3,
        "jobs": 2,
        "quick": False,
    }
    assert called["report"] == ("there",)
    assert called["tables"] == ("there",)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "Records: there/results.jsonl (1 made now, 0 found)",
        "Table:   results/table1.md",
        "Report:  results/report.html",
    ]


def test_defaults_leave_the_choice_to_the_experiments(called):
    assert run("reproduce", "all", "--quick") == 0
    given = called["run"]
    assert (given["datasets"], given["methods"], given["repeats"]) == (None, None, None)
    assert given["quick"] is True
    drawn = {dataset.name for dataset in called["pictures"][1]}
    assert drawn == set(QUICK_DATASETS)


def test_the_study_alone_draws_no_pictures(called):
    assert run("reproduce", "sensitivity") == 0
    assert "pictures" not in called


def test_the_report_is_there_before_the_pictures_and_with_them(called):
    assert run("reproduce", "table1", "--quick") == 0
    assert called["order"] == ["tables", "report", "pictures", "report"]


def test_pictures_can_be_left_out(called):
    assert run("reproduce", "table1", "--quick", "--no-pictures") == 0
    assert called["order"] == ["tables", "report"]


def test_pictures_that_fail_leave_the_report(called, capsys):
    called["pictures raises"] = RuntimeError("no font")
    assert run("reproduce", "table1", "--quick") == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == "Report:  results/report.html"
    assert "not all pictures are drawn: RuntimeError('no font')" in printed.err
    assert "unexpected" not in printed.err


def test_the_folder_of_the_data_is_an_option_or_a_variable(called, tmp_path, monkeypatch):
    monkeypatch.setenv("TATML_DATA", "nowhere")
    assert run("reproduce", "table1", "--datasets", "eth80", "--data", tmp_path) == 0
    assert called.pop("run")["data"] == str(tmp_path)
    monkeypatch.setenv("TATML_DATA", str(tmp_path))
    assert run("reproduce", "table1", "--datasets", "eth80") == 0
    assert called["run"]["data"] == str(tmp_path)


def test_the_default_folder_is_not_that_of_the_published_records(called):
    assert run("reproduce", "table1", "--quick") == 0
    assert called["run"]["out"] == "tatml-results"
    default = inspect.signature(run_experiments).parameters["out"].default
    assert default == "tatml-results"
    ignored = (Path(__file__).parents[1] / ".gitignore").read_text(encoding="utf-8")
    assert "tatml-results/" in ignored.split()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--data", "nowhere"], "--data: expected the folder of the data, got no folder nowhere"),
        (["--datasets", "eth80"], "expected the folder of the data for eth80, got none; name it"),
        (["--datasets", "eht80"], "got 'eht80'; did you mean 'eth80'?"),
        (["--quick", "--datasets", "eth80"], "(with --quick), got 'eth80'"),
        (["--out", __file__], "--out: expected a folder or an unused name, got "),
        (["--methods", "tamtl"], "got 'tamtl'; did you mean 'tatml'?"),
    ],
)
def test_what_is_wrong_is_said_before_the_runs(called, capsys, options, expected):
    assert run("reproduce", "table1", *options) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tatml reproduce: error: ")
    assert expected in line
    assert "run" not in called


def test_failed_runs_are_an_error_after_the_report(called, capsys):
    called["records"] = [{"key": "a", "accuracy": 90.0}, {"key": "b", "error": "ValueError: X"}]
    assert run("reproduce", "table1", "--quick") == 1
    printed = capsys.readouterr()
    assert "Report:  " in printed.out
    assert "1 of 2 runs failed" in printed.err


def test_interrupted_runs_can_go_on(called, capsys):
    called["raises"] = KeyboardInterrupt()
    assert run("reproduce", "table1", "--quick") == 130
    assert "the same command goes on where it stopped" in capsys.readouterr().err


def test_without_the_package_of_the_experiments_it_is_said(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tatml_paper", None)
    assert run("reproduce", "all", "--quick") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tatml reproduce: error: expected the package tatml_paper")


@pytest.mark.parametrize("missing", ["Matplotlib", "Jinja2"])
def test_without_what_the_report_needs_it_is_said_first(called, capsys, monkeypatch, missing):
    monkeypatch.setattr(
        "tatml_paper.reproduce.find_spec", lambda name: None if name == missing.lower() else name
    )
    assert run("reproduce", "table1", "--quick") == 1
    assert f'the report needs {missing}: pip install ".[report]"' in capsys.readouterr().err
    assert "run" not in called
