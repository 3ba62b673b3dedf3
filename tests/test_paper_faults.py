"""Faults during a run: no disk, no folder, a second process, kill −9. Nothing is lost or torn."""

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_helpers import run as run_command
from kill_helpers import Runner, kill_and_resume, numbers, run_undisturbed
from report_helpers import make_record

from tatml_paper import read_records, reproduce, run, versions
from tatml_paper import runner as task_runner
from tatml_paper.files import replaced_whole
from tatml_paper.samples import read_features
from tatml_paper.settings import QUICK_DATASETS
from tatml_paper.store import Store

SHORT = ("reproduce", "table1", "--quick", "--datasets", "textures", "--methods", "euc")
SHORT = (*SHORT, "--repeats", "1", "--no-pictures")
N_RUNS = 3


class FullDisk:
    """A file that takes half of a line and then says that the disk is full."""

    def __init__(self, file):
        self.file, self.n_writes = file, 0

    def __getattr__(self, name):
        return getattr(self.file, name)

    def fileno(self):
        return self.file.fileno()

    def write(self, content):
        self.n_writes += 1
        if self.n_writes > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(content[: len(content) // 2])


def error_line(capsys):
    """Return the last line that the command prints; it prints no traceback."""
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    line = printed.err.splitlines()[-1]
    assert line.startswith("tatml reproduce: error: ")
    assert "unexpected" not in line
    return line


def test_a_full_disk_leaves_whole_records_and_the_same_command_goes_on(
    tmp_path, monkeypatch, capsys
):
    append = Store.append

    def append_one_then_none(store, record):
        if len(read_records(store.path)) == 1:
            store._file = FullDisk(store._file)
        append(store, record)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", append_one_then_none)
        assert run_command(*SHORT, "--out", tmp_path) == 1
    path = tmp_path / "results.jsonl"
    assert error_line(capsys) == f"tatml reproduce: error: {path}: No space left on device"
    assert path.read_bytes().endswith(b"}\n")
    kept = read_records(tmp_path)
    assert len(kept) == 1
    assert run_command(*SHORT, "--out", tmp_path) == 0
    stored = read_records(tmp_path)
    assert stored[:1] == kept
    assert len(stored) == len({r["key"] for r in stored}) == N_RUNS
    assert f"({N_RUNS - 1} made now, 1 found)" in capsys.readouterr().out


def test_a_store_goes_on_after_a_write_that_failed(tmp_path):
    first, second = make_record("euc", 0), make_record("euc", 1)
    with Store(tmp_path) as store:
        store.append(first)
        whole, store._file = store._file, FullDisk(store._file)
        with pytest.raises(OSError, match=r"No space left on device: .*results\.jsonl"):
            store.append(second)
        store._file = whole
        assert read_records(tmp_path) == [first]
        store.append(second)
    assert read_records(tmp_path) == [first, second]


def test_a_file_that_cannot_be_written_keeps_its_old_content(tmp_path, monkeypatch):
    path = tmp_path / "table1.md"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", fail)
    full = pytest.raises(OSError, match=r"No space left on device: .*table1\.md")
    with full, replaced_whole(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table1.md"]


def test_an_error_of_numpy_names_the_file(tmp_path):
    """NumPy's errors about a full disk have neither a number nor a file name."""
    path = tmp_path / "features.npz"
    named = pytest.raises(OSError, match=r"features\.npz: 8 requested and 0 written")
    with named, replaced_whole(path):
        raise OSError("8 requested and 0 written")
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_replaced_keeps_its_permissions_and_its_links(tmp_path):
    path, link = tmp_path / "table1.md", tmp_path / "link.md"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path.name)
    with replaced_whole(link) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link.md", "table1.md"]


@pytest.mark.parametrize(("target", "mode"), [(None, 0o644), (0o644, 0o600), (0o600, 0o600)])
def test_the_new_file_is_never_more_readable_than_the_file_that_it_replaces(tmp_path, target, mode):
    path = tmp_path / "table1.md"
    if target is not None:
        path.touch()
        path.chmod(target)
    before = os.umask(0o022)
    try:
        with replaced_whole(path):
            (part,) = tmp_path.glob(".tatml-*.part")
            assert part.stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == (mode if target is None else target)


@pytest.fixture(scope="module")
def runner():
    with Runner() as runner:
        yield runner


def test_a_limit_of_the_file_size_leaves_whole_records(tmp_path, runner):
    """The system cuts the write that crosses the limit: half of a line is on the disk."""
    undisturbed = run_undisturbed(tmp_path / "other", 1)
    shutil.copytree(tmp_path / "other" / "features", tmp_path / "limited" / "features")
    limit = int(2.5 * (tmp_path / "other" / "results.jsonl").stat().st_size / N_RUNS)
    runner.start(tmp_path / "limited", 1, limit)
    assert runner.wait() == 1
    assert (tmp_path / "limited" / "results.jsonl").read_bytes().endswith(b"}\n")
    kept = read_records(tmp_path / "limited")
    assert len(kept) == 2
    resumed = run_undisturbed(tmp_path / "limited", 1)
    assert resumed[:2] == kept
    assert numbers(resumed) == numbers(undisturbed)


def test_killed_over_the_whole_run_nothing_is_lost_doubled_or_torn(tmp_path, runner):
    assert kill_and_resume(runner, tmp_path / "killed", repeats=4, kills=4) == 4
    found = numbers(read_records(tmp_path / "killed"))
    assert found == numbers(run_undisturbed(tmp_path / "undisturbed", 4))


@pytest.mark.parametrize("when", ["runs", "report", "pictures"])
def test_a_folder_that_is_removed_is_an_error(tmp_path, monkeypatch, capsys, when):
    out = tmp_path / "out"
    options = SHORT

    def remove(original):
        def removing(*arguments, **options):
            shutil.rmtree(out)
            return original(*arguments, **options)

        return removing

    if when == "runs":
        monkeypatch.setattr(Store, "append", remove(Store.append))
    elif when == "report":
        monkeypatch.setattr(reproduce, "write_report", remove(reproduce.write_report))
    else:
        options = SHORT[:-1]
        monkeypatch.setattr(reproduce, "draw_pictures", remove(lambda *_, **__: []))
    assert run_command(*options, "--out", out) == 1
    line = error_line(capsys)
    assert line.startswith(f"tatml reproduce: error: {out / 'results.jsonl'}: expected")
    assert "removed" in line


def test_a_file_that_was_replaced_is_an_error(tmp_path):
    with Store(tmp_path) as store:
        store.append(make_record("euc", 0))
        store.path.rename(tmp_path / "elsewhere")
        store.path.touch()
        with pytest.raises(FileNotFoundError, match="removed or replaced"):
            store.append(make_record("euc", 1))


def test_a_second_process_is_kept_away(tmp_path, capsys):
    record = make_record("euc")
    with Store(tmp_path) as store:
        store.append(record)
        assert run_command(*SHORT, "--out", tmp_path) == 1
        assert "expected one process that writes to it, got a second one" in error_line(capsys)
        assert read_records(tmp_path) == [record]
    assert run_command(*SHORT, "--out", tmp_path) == 0  # free again
    assert len(read_records(tmp_path)) == 1 + N_RUNS


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04 half of an archive"])
def test_features_that_are_damaged_are_named(tmp_path, content):
    path = tmp_path / "textures.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"textures\.npz: expected the features .* remove it"):
        read_features(QUICK_DATASETS["textures"], "M=1;(1)", path)


def test_features_that_cannot_be_written_leave_no_file(tmp_path, monkeypatch):
    def fail(file, **_):
        file.write(b"half")
        raise OSError("100 requested and 4 written")  # as NumPy says that the disk is full

    monkeypatch.setattr("numpy.savez", fail)
    with pytest.raises(OSError, match=r"textures-.*\.npz: 100 requested and 4 written"):
        run(methods=["euc"], datasets=["textures"], out=tmp_path, quick=True, progress=False)
    assert QUICK_DATASETS["textures"].embedded
    assert os.listdir(tmp_path / "features") == []


def test_the_commit_is_known_in_a_checkout_only(tmp_path, monkeypatch):
    assert versions._git(tmp_path, "rev-parse", "--show-toplevel") is None
    monkeypatch.setattr(versions, "_git", lambda folder, *arguments: str(tmp_path))
    assert versions._commit() is None  # the package lies in another checkout
    root = Path(versions.__file__).resolve().parents[2]
    if "site-packages" in versions.__file__:
        pytest.skip("an installed wheel lies in no checkout")
    answers = {"rev-parse --show-toplevel": str(root), "rev-parse HEAD": "abc"}
    for changed, expected in (("", "abc"), (" M file", "abc-changed")):
        monkeypatch.setattr(
            versions,
            "_git",
            lambda folder, *arguments, changed=changed: answers.get(" ".join(arguments), changed),
        )
        assert versions._commit() == expected
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert versions._git(tmp_path, "status") is None


def test_workers_watch_their_parent_and_the_parent_itself_does_not(monkeypatch):
    started = []
    monkeypatch.setattr(
        task_runner,
        "Thread",
        lambda target, daemon: SimpleNamespace(start=lambda: started.append((target, daemon))),
    )
    monkeypatch.setattr(task_runner.os, "_exit", lambda status: started.append(status))
    task_runner._end_with.__wrapped__(os.getpid())
    assert started == []
    task_runner._end_with.__wrapped__(-1)  # a parent that is no longer there
    ((watch, daemon),) = started
    assert daemon is True
    watch()
    assert started[1:] == [1]
