"""The store of records, and runs that are stopped and resumed."""

import json
import os
import re
from pathlib import Path

import pytest
import sklearn
from cli_helpers import run as run_command
from report_helpers import make_record

from tatml_paper import METHODS, read_records, run
from tatml_paper.methods import Method
from tatml_paper.progress import expected_seconds
from tatml_paper.runner import _at_hand
from tatml_paper.samples import data_digest
from tatml_paper.sensitivity import sensitivity_settings
from tatml_paper.settings import DATASETS
from tatml_paper.store import Store, current_records, failed_records
from tatml_paper.tasks import Task

QUICK = {"datasets": ["textures"], "repeats": 2, "quick": True, "progress": False}
TIMES = {"seconds", "seconds_scoring", "date"}


def numbers(records):
    """The records without what depends on the clock."""
    return {r["key"]: {n: v for n, v in r.items() if n not in TIMES} for r in records}


def test_what_is_appended_is_read(tmp_path):
    first = make_record("tatml", 0, 1.5, text="μ0\n|", gap=float("nan"))
    second = make_record("itml", 0, 1.5, params={"bounds": (0.5, 2.0)})
    with Store(tmp_path) as store:
        store.append(first)
        store.append(second)
        assert len(read_records(tmp_path)) == 2  # on the disk before the store is closed
    found = read_records(tmp_path / "results.jsonl")
    assert found[0] == first | {"gap": None}
    assert found[1] == second | {"params": {"bounds": [0.5, 2.0]}}


def test_a_torn_line_is_cut_off(tmp_path):
    first, second = make_record("euc", 0), make_record("euc", 1)
    with Store(tmp_path) as store:
        store.append(first)
    path = tmp_path / "results.jsonl"
    whole = path.read_bytes()
    for torn in (b'{"key": "c", "acc', b"{", b'{"key": "c"}', b"\xff\xfe"):
        path.write_bytes(whole + torn)
        assert read_records(tmp_path) == [first]
        with Store(tmp_path):
            assert path.read_bytes() == whole
    path.write_bytes(whole + torn)
    with Store(tmp_path) as store:
        store.append(second)
    assert read_records(tmp_path) == [first, second]


def test_a_line_that_is_no_record_is_named(tmp_path):
    """Every field that the tables need, JSON that is none, text that is none."""
    good = json.dumps(make_record("euc"))
    study = {"study": "decades", "moves": "c0", "c0": 1.0}
    settings = [
        study | {"study": "other"},
        study | {"study": []},
        {"study": "grid", "c0": 1.0},
        study | {"c0": "high"},
    ]
    needed = "key experiment dataset split features method setting repeat data_digest digest"
    lines = {
        "a record in JSON": ["{", "[1", '{"accuracy": NaN}', "[" * 100_000],
        "got the field 'key' twice": ['{"key": "a", "key": "b"}'],
        "text in UTF-8": [good.replace("virus", "\\ud800")],
        "a record with fields": ["3", "[]", '"text"', "null"],
    }
    for name in (*needed.split(), "versions", "date", "seconds", "accuracy"):
        record = make_record("euc")
        del record[name]
        lines[f"a field '{name}', got none"] = [json.dumps(record)]
    lines["'accuracy', got None"] = [json.dumps(make_record("euc", accuracy=None))]
    lines["an integer in the field 'repeat'"] = [json.dumps(make_record("euc") | {"repeat": "a"})]
    for name in ("accuracy", "seconds", "repeat", "auc"):
        lines[f"in the field '{name}', got 1000"] = [
            json.dumps(make_record("euc") | {name: 10**400})
        ]
    for name in ("auc", "eer", "balanced_learnt", "balanced_calibrated", "params"):
        lines[f"in the field '{name}', got 'x'"] = [json.dumps(make_record("euc") | {name: "x"})]
    lines["versions: expected text or null in the field 'commit'"] = [
        json.dumps(make_record("euc", versions={"commit": 3}))
    ]
    lines["in the field 'versions', got 3"] = [json.dumps(make_record("euc", versions=3))]
    lines["setting"] = [
        json.dumps(make_record("tatml", experiment="sensitivity", setting=setting))
        for setting in settings
    ]
    path = tmp_path / "results.jsonl"
    for expected, wrong in lines.items():
        for line in wrong:
            path.write_text(f"{good}\n\n{line}\n{good}\n", encoding="utf-8")
            with pytest.raises(ValueError, match=re.escape(expected)) as refusal:
                read_records(tmp_path)
            assert str(refusal.value).startswith(f"{path}, line 3"), line[:80]
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="expected a file of records, got a folder"):
        read_records(tmp_path)
    path.rmdir()
    path.write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match="line 1: expected text in UTF-8, got invalid start byte"):
        read_records(tmp_path)


def test_the_command_names_a_damaged_line_and_runs_nothing(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    path.write_text('{"key": "a"}\n', encoding="utf-8")
    assert run_command("reproduce", "table1", "--quick", "--out", tmp_path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tatml reproduce: error: {path}, line 1: expected a field 'experiment'")
    assert os.listdir(tmp_path) == ["results.jsonl"]


def record(repeat=0, **changes):
    declared = {"experiment": "table1", "dataset": "virus", "split": "halves"}
    declared |= {"features": "M=1;(1)", "method": "euc", "setting": {}, "repeat": repeat}
    declared |= {"data_digest": "d", "digest": "m", "accuracy": 50.0} | changes
    return declared | {"key": json.dumps([v for n, v in declared.items() if n != "accuracy"])}


def test_records_of_an_older_declaration_are_left_out():
    old = [record(repeat, data_digest="old") for repeat in range(5)]
    assert current_records(old, "table1") == old
    new = [record(0), record(1, accuracy=51.0)]
    assert current_records([*old, *new], "table1") == new
    other_method = [record(0, digest="older"), record(0, method="maz"), record(0)]
    assert current_records(other_method, "table1") == other_method[1:]
    assert current_records([*new, record(2, error="failed")], "table1") == new
    assert current_records(new, "sensitivity") == []
    again = record(1, accuracy=52.0)
    assert current_records([*new, again], "table1") == [new[0], again]


def test_the_order_of_the_settings_makes_no_other_method():
    old = record(0, digest="older", setting={"C": 1, "tol": 0.1})
    new = record(1, setting={"tol": 0.1, "C": 1})
    assert current_records([old, new], "table1") == [new]


def test_a_failure_counts_until_the_run_succeeds():
    failed = record(0, error="no", digest="older")
    assert failed_records([failed], "table1") == [failed]
    assert failed_records([failed, record(1)], "table1") == [failed]
    assert failed_records([failed, record(0)], "table1") == []
    assert failed_records([failed], "sensitivity") == []


def test_the_same_numbers_for_one_job_and_for_two(tmp_path):
    one = run(methods=["tatml_mat"], out=tmp_path / "one", jobs=1, **QUICK)
    two = run(methods=["tatml_mat"], out=tmp_path / "two", jobs=2, **QUICK)
    assert numbers(one) == numbers(two)
    assert [r["key"] for r in one] == [r["key"] for r in two]
    assert len(one) == 3 * 2


def test_what_is_done_is_not_run_again(tmp_path, monkeypatch):
    first = run(methods=["euc"], out=tmp_path, **QUICK)
    size = (tmp_path / "results.jsonl").stat().st_size
    monkeypatch.setattr("tatml_paper.runner.run_once", None)
    assert run(methods=["euc"], out=tmp_path, **QUICK) == first
    assert (tmp_path / "results.jsonl").stat().st_size == size


def test_what_is_asked_for_again_is_shown_again(tmp_path, monkeypatch):
    options = QUICK | {"repeats": 1, "features": ["M=1;(1)"], "methods": ["euc"], "out": tmp_path}
    (first,) = run(**options)
    (second,) = run(**options | {"quick": False})  # declares more textures under the same name
    assert second["n_train"] > first["n_train"]
    assert current_records(read_records(tmp_path), "table1") == [second]
    monkeypatch.setattr("tatml_paper.runner.run_once", None)
    assert run(**options) == [first]
    assert current_records(read_records(tmp_path), "table1") == [first]
    assert len(read_records(tmp_path)) == 3


def test_nothing_to_run_is_an_error(tmp_path):
    with pytest.raises(
        ValueError, match=r"on textures, got methods None and features \['vector'\]"
    ):
        run(out=tmp_path, features=["vector"], **QUICK)
    assert not (tmp_path / "results.jsonl").exists()


def test_an_empty_variable_names_no_folder(monkeypatch):
    monkeypatch.setenv("TATML_DATA", "")
    assert _at_hand(DATASETS, None) == ["digits", "textures"]
    assert "eth80" in _at_hand(DATASETS, "folder")
    monkeypatch.setenv("TATML_DATA", "folder")
    assert "eth80" in _at_hand(DATASETS, None)


def test_a_failed_run_is_recorded_and_tried_again(tmp_path, monkeypatch, capsys):
    class Broken:
        def get_params(self, deep=False):
            return {}

        def fit(self, X, y):
            raise ValueError("it does not work")

    broken = Method("broken", "Broken", "beyond", lambda seed: Broken(), "broken")
    monkeypatch.setitem(METHODS, "broken", broken)
    options = QUICK | {"progress": True, "repeats": 1, "features": ["M=1;(1)"]}
    records = run(methods=["broken", "euc"], out=tmp_path, **options)
    assert [r.get("error") for r in records] == ["ValueError: it does not work", None]
    assert records[0]["accuracy"] is None
    assert "failed: textures" in capsys.readouterr().err
    run(methods=["broken"], out=tmp_path, **options)
    assert sum("error" in r for r in read_records(tmp_path)) == 2


def test_the_first_line_says_what_is_run_and_what_was_found(tmp_path, capsys):
    options = QUICK | {"progress": True, "methods": ["euc"], "out": tmp_path}
    run(**options | {"repeats": 1})
    path = tmp_path / "results.jsonl"
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f"{path}: 3 of 3 runs now; none found"
    run(**options)
    date = read_records(tmp_path)[0]["date"][:10]
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f"{path}: 3 of 6 runs now; 3 found there, made {date}, not run again"


def test_a_record_says_what_made_it(tmp_path):
    (only,) = run(
        methods=["tatml"], features=["M=1;(.5)"], out=tmp_path, **(QUICK | {"repeats": 1})
    )
    needed = {"experiment", "dataset", "features", "split", "method", "repeat", "accuracy"}
    needed |= {"params", "b0", "threshold", "gap", "converged", "seconds", "auc", "eer"}
    needed |= {"balanced_learnt", "balanced_calibrated", "n_train", "n_test", "n_pairs", "seed"}
    needed |= {"versions", "setting", "key", "digest", "data_digest", "date"}
    assert needed <= set(only)
    assert only["converged"] is True
    assert only["gap"] < 1e-4
    assert only["params"]["C"] in (0.01, 0.1, 1.0, 10.0)
    assert only["threshold"] == pytest.approx(only["b0"] ** 0.5)
    assert {"tatml", "numpy", "scipy", "scikit-learn", "python", "commit"} <= set(only["versions"])


def test_the_time_left_is_that_of_runs_alike():
    timed = [
        {"experiment": "table1", "dataset": d, "features": f, "method": m, "seconds": s}
        for d, f, m, s in (("virus", "a", "euc", 1.0), ("virus", "a", "nca", 9.0))
    ]
    left = [dict(timed[0]), dict(timed[1]), {**timed[1], "features": "b"}]
    left.append({**timed[0], "method": "lda"})  # nothing alike: the mean of all
    assert expected_seconds(left, timed) == pytest.approx(1 + 9 + 9 + 5)
    assert expected_seconds(left, []) == 0


# The records of these methods were made with the earlier defaults: docs/reproduction.md says so.
MADE_BEFORE = ("tatml_star", "tatml_mat", "tatml_vec")


def test_the_published_records_are_those_of_the_methods_as_they_are_declared():
    """Otherwise a run into their folder would do all of it again; as it will for MADE_BEFORE."""
    path = Path(__file__).parents[1] / "results" / "results.jsonl"
    places = {(dataset.dataset, dataset.split): dataset for dataset in DATASETS.values()}
    records = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        records[record["key"]] = record
    if record["versions"]["scikit-learn"] != sklearn.__version__:
        pytest.skip("the parameters of scikit-learn's own estimators may be others")
    seen = {}
    for record in records.values():
        dataset = places[record["dataset"], record["split"]]
        names = ("experiment", "features", "method", "setting")
        declared = json.dumps([dataset.name, *(record[name] for name in names)])
        if declared not in seen:
            given = {name: record[name] for name in names}
            seen[declared] = Task(dataset=dataset, repeat=0, **given).identity()["digest"]
        if record["method"] not in MADE_BEFORE:
            assert record["digest"] == seen[declared], record["key"]
        assert record["data_digest"] == data_digest(dataset), record["key"]
    assert len(records) > 1000
    studied = [r["setting"] for r in records.values() if r["experiment"] == "sensitivity"]
    published = {json.dumps(setting, sort_keys=True) for setting in studied}
    declared = {json.dumps(s, sort_keys=True) for _, s in sensitivity_settings()}
    assert published == declared
