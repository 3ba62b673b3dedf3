"""What goes wrong is said in one line that names the place, with the exit status people expect."""

import builtins
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import NAMES, TEST, TRAIN, WINE, run, wine_pairs, write_pairs, write_wine

import tatml
from tatml import TATML, io
from tatml._cli import commands

skops = pytest.importorskip("skops.io")

SMALL = "a,b,y\n1,2,0\n2,3,1\n3,4,0\n4,6,1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.csv").write_text(SMALL, encoding="utf-8")
    return tmp_path


def fitted():
    return TATML(n_pairs_per_class=40, random_state=0).fit(WINE.data[TRAIN], WINE.target[TRAIN])


def failure(capsys, *arguments, status=1):
    """The one line that a failing command prints."""
    capsys.readouterr()
    assert run(*arguments) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    return line


# Tables


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b,y\n1,2,0\n2,three,1\n", "line 3, column 'b': expected a finite number, got 'three'"),
        ("a,b,y\n1,,0\n2,3,1\n", "line 2, column 'b': expected a finite number, got an empty cell"),
        ("a,b,y\n1,2,0\n\n\n2,nan,1\n", "line 5, column 'b': expected a finite number, got 'nan'"),
        ("a,b,y\n-inf,2,0\n2,3,1\n", "line 2, column 'a': expected a finite number, got '-inf'"),
        ("a,b,y\n1,2,0\n2,3\n", "line 3: expected 3 cells as in the header, got 2"),
        ("a,b,y\n1,2,0\n2,3,1,4\n", "line 3: expected 3 cells as in the header, got 4"),
        ("a,b,y\n1,2,\n2,3,1\n", "line 2, column 'y': expected a label, got an empty cell"),
        ("a,a,y\n1,2,0\n2,3,1\n", "expected different column names, got 'a' twice"),
        ("1,2,0\n2,3,1\n", "expected a header with the names of the columns, got numbers"),
        ("a,b,y\n", "expected a header and one row or more, got 1 lines"),
        ("", "expected a header and one row or more, got 0 lines"),
        ("y\n1\n2\n", "expected columns of numbers besides 'y'"),
        ('a,b,y\n1,"2,0\n', "expected a table in UTF-8, got unexpected end of data"),
        ("a,b,kind\n1,2,0.5\n2,3,1.25\n", "expected classes in the column 'kind'"),
        ("a,b,y\n1,2,0\n2,3,0\n", "got 1 class only"),
        (",a,y\n0,2,0\n1,3,1\n", "expected a name for each column, got none for number 1"),
    ],
)
def test_wrong_tables(folder, capsys, text, expected):
    Path("data.csv").write_text(text, encoding="utf-8")
    line = failure(capsys, "fit", "data.csv", "--out", "model.skops")
    assert line.startswith("tatml fit: error: ")
    assert expected in line
    assert sorted(os.listdir(folder)) == ["data.csv", "small.csv"]


def test_bytes_that_are_no_text(folder, capsys):
    Path("data.csv").write_bytes(b"a,b,y\n\xff\xfe,2,3\n")
    assert "expected a table in UTF-8" in failure(capsys, "fit", "data.csv", "--out", "m.skops")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--target", "b2"], "expected a column 'b2' (--target), got 'a', 'b', 'y'"),
        (["--groups", "A"], "expected a column 'A' (--groups)"),
        (["--groups", "A"], "did you mean 'a'?"),
        (["--drop", "c"], "expected a column 'c' (--drop)"),
        (["--set", "prior"], "--set: expected name=value, got 'prior'"),
        (["--set", "priro=scaled"], "got 'priro'; did you mean 'prior'?"),
        (["--set", "preprocessor=x"], "expected a parameter of TATML"),
        (["--set", "prior=scalde"], "prior: expected one of"),
        (["--set", "solver=newtn"], "solver: expected 'newton', 'dykstra', Newton"),
        (["--set", "solver=Newton(max_iter=0)"], "max_iter: expected at least 1, got 0"),
        (["--set", "solver=Newton(steps=3)"], "solver: expected a parameter of Newton (linear_s"),
        (["--set", "solver=Newton(max_iter=open('x'))"], "solver: expected 'newton', 'dykstra', N"),
        (["--C", "-1"], "C: expected a positive number, got -1.0"),
        (["--estimator", "GMML", "--C", "1"], "expected a parameter of GMML"),
        (["--estimator", "TATMLPairs"], "TATMLPairs learns from pairs: expected --pairs"),
        (["--pairs", "nowhere.csv"], "nowhere.csv: expected a file, got none of this name"),
    ],
)
def test_wrong_options(folder, capsys, options, expected):
    assert expected in failure(capsys, "fit", "small.csv", "--out", "model.skops", *options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("first,second,similar\n0,4,1\n", "line 2, column 'second': expected the number of a"),
        ("first,second,similar\n0,1,1\n-1,2,0\n", "line 3, column 'first'"),
        ("first,second,similar\n0,1.5,1\n", "from 0 to 3, got '1.5'"),
        ("first,second,similar\n0,1,maybe\n", "column 'similar': expected 1 or same"),
        ("first,secnd,similar\n0,1,1\n", "expected a column 'second'"),
        ("first,second\n0,1\n", "expected which pairs are similar"),
        ("first,second,similar\n0,1,1\n", "got 1 class only"),
    ],
)
def test_wrong_pairs(folder, capsys, text, expected):
    Path("pairs.csv").write_text(text, encoding="utf-8")
    line = failure(capsys, "fit", "small.csv", "--pairs", "pairs.csv", "--out", "model.skops")
    assert expected in line


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--groups", "session"], "expected an array 'session', got 'X', 'y'"),
        (["--target", "kind"], "expected an array 'kind', got 'X', 'y'"),
        (["--drop", "a"], "expected a table for --drop"),
    ],
)
def test_what_an_archive_does_not_have(folder, capsys, options, expected):
    np.savez("data.npz", X=ROWS, y=CLASSES)
    assert expected in failure(capsys, "fit", "data.npz", "--out", "model.skops", *options)


def test_a_sample_without_a_group_is_named(folder, capsys):
    Path("data.csv").write_text("a,g,y\n1,u,0\n2,,0\n3,v,1\n", encoding="utf-8")
    line = failure(capsys, "fit", "data.csv", "--groups", "g", "--out", "model.skops")
    assert "line 3, column 'g': expected a group, got an empty cell" in line


# Archives


ROWS = np.arange(12.0).reshape(4, 3) ** 2
CLASSES = np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"x": ROWS, "y": CLASSES}, "expected an array X (or X0, X1, … or pairs), got 'x', 'y'"),
        ({"X": ROWS}, "expected labels: an array y"),
        ({"X": ROWS, "y": CLASSES[:3]}, "y: expected shape (4,)"),
        ({"X": ROWS, "y": CLASSES, "groups": CLASSES[:2]}, "groups: expected shape (4,)"),
        ({"X": ROWS[0], "y": CLASSES}, "X: expected shape (n_samples, n)"),
        ({"X": np.where(ROWS == 4, np.nan, ROWS), "y": CLASSES}, "got nan at [0, 2]"),
        ({"X": ROWS.astype(str), "y": CLASSES}, "X: expected"),
        ({"X": ROWS, "X0": ROWS, "y": CLASSES}, "expected either X or X0"),
        ({"X0": ROWS, "X2": ROWS, "y": CLASSES}, "expected X0, X1, … without gaps"),
        ({"X0": ROWS, "X9": ROWS, "y": CLASSES}, "without gaps, got 'X0', 'X9'"),
        ({"X0": ROWS, "X1": ROWS[:3], "y": CLASSES}, "got {'X0': 4, 'X1': 3}"),
        ({"X": ROWS, "y": np.array([{}, 1, 2, 3], dtype=object)}, "expected arrays of numbers"),
        ({"pairs": ROWS.astype(int)[:, :2], "y": CLASSES}, "or index pairs (n_pairs, 2) together"),
        ({"X": ROWS, "pairs": [[0, 1], [2, 4]], "y": [1, -1]}, "from 0 to 3, got 4"),
        ({"X": ROWS, "pairs": [[0.0, 1.0]], "y": [1]}, "integers of shape (n_pairs, 2)"),
        ({"X": ROWS, "pairs": [[0, 1], [2, 3]], "y": [1, 2]}, "expected 1 for the same"),
        ({"X": ROWS, "pairs": [[0, 1], [2, 3]]}, "expected which pairs are similar"),
    ],
)
def test_wrong_archives(folder, capsys, arrays, expected):
    np.savez("data.npz", **arrays)
    line = failure(capsys, "fit", "data.npz", "--out", "model.skops")
    assert line.startswith("tatml fit: error: data.npz: ")
    assert expected in line


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nowhere.csv", "nowhere.csv: expected a file, got none of this name"),
        ("data.xlsx", "expected a file with the extension .npz or .csv, got the extension '.xlsx'"),
        ("data", "expected a file with the extension .npz or .csv, got none"),
        ("folder.csv", "folder.csv: expected a file, got a folder"),
        ("text.npz", "text.npz: expected an archive of arrays"),
    ],
)
def test_wrong_files(folder, capsys, name, expected):
    Path("folder.csv").mkdir()
    Path("text.npz").write_text("no archive", encoding="utf-8")
    assert expected in failure(capsys, "fit", name, "--out", "model.skops")


def test_pairs_need_an_estimator_of_pairs(folder, capsys):
    write_wine("wine.csv", TRAIN)
    write_pairs("pairs.csv", *wine_pairs(TRAIN))
    options = ["--pairs", "pairs.csv", "--target", "cultivar", "--out", "model.skops"]
    line = failure(capsys, "fit", "wine.csv", *options, "--estimator", "ITML")
    assert "ITML learns from labels, got pairs: use --estimator TATMLPairs" in line


# Models


def test_a_model_is_not_overwritten_unasked(folder, capsys):
    Path("model.skops").write_text("mine", encoding="utf-8")
    line = failure(capsys, "fit", "small.csv", "--out", "model.skops")
    assert line == "tatml fit: error: --out: model.skops exists; overwrite it with --force"
    assert Path("model.skops").read_text(encoding="utf-8") == "mine"
    assert run("fit", "small.csv", "--out", "model.skops", "--force") == 0
    assert io.load_model("model.skops").estimator.threshold_ > 0
    assert sorted(os.listdir(folder)) == ["model.skops", "small.csv"]


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        ("model.pkl", "expected a name that ends in .skops, got model.pkl"),
        ("nowhere/model.skops", "expected a folder nowhere for model.skops, got none"),
    ],
)
def test_wrong_names_of_models(folder, capsys, out, expected):
    assert expected in failure(capsys, "fit", "small.csv", "--out", out)


def test_what_is_no_model(folder, capsys):
    Path("model.skops").write_bytes(pickle.dumps(fitted()))
    line = failure(capsys, "evaluate", "model.skops", "small.csv")
    assert "expected a model saved by tatml, got another kind of file (pickles are not" in line
    with zipfile.ZipFile("model.skops", "w") as archive:
        archive.writestr("schema.json", "{}")
    assert "skops cannot read" in failure(capsys, "evaluate", "model.skops", "small.csv")
    skops.dump({"something": "else"}, "model.skops")
    assert "got dict" in failure(capsys, "evaluate", "model.skops", "small.csv")
    skops.dump({"format": "tatml model 2"}, "model.skops")
    assert "a newer tatml may be needed" in failure(capsys, "evaluate", "model.skops", "small.csv")
    skops.dump({"format": io.FORMAT, "metadata": {}, "estimator": [1]}, "model.skops")
    assert "got list" in failure(capsys, "evaluate", "model.skops", "small.csv")
    assert "got no such file" in failure(capsys, "evaluate", "none.skops", "small.csv")


def test_a_model_that_names_foreign_code_is_refused(folder, capsys):
    skops.dump({"format": io.FORMAT, "metadata": {}, "estimator": os.system}, "model.skops")
    line = failure(capsys, "predict", "model.skops", "small.csv")
    assert "got one that needs" in line
    assert "system" in line


def test_a_model_of_another_version_warns(folder, capsys, monkeypatch):
    monkeypatch.setattr(io, "__version__", "0.0.9")
    io.save_model(fitted(), "model.skops")
    monkeypatch.undo()
    os.chdir(folder)
    write_wine("test.csv", TEST)
    assert run("evaluate", "model.skops", "test.csv") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "tatml: warning: model.skops: saved by tatml 0.0.9, and this is tatml" in line


def test_an_estimator_saved_by_skops_itself_is_a_model(folder, capsys):
    skops.dump(fitted(), "model.skops")
    write_wine("test.csv", TEST)
    assert run("evaluate", "model.skops", "test.csv") == 0
    assert capsys.readouterr().err == ""


def test_only_fitted_estimators_of_this_package_are_saved(folder):
    with pytest.raises(TypeError, match="expected one of TATML"):
        io.save_model({}, "model.skops")
    with pytest.raises(ValueError, match="not fitted"):
        io.save_model(TATML(), "model.skops")


def test_a_write_that_fails_leaves_the_old_model(folder, monkeypatch):
    io.save_model(fitted(), "model.skops")
    before = Path("model.skops").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(skops, "dump", full)
    with pytest.raises(OSError, match="No space left"):
        io.save_model(fitted(), "model.skops")
    assert Path("model.skops").read_bytes() == before
    assert sorted(os.listdir(folder)) == ["model.skops", "small.csv"]


def test_without_skops_the_extra_is_named(folder, capsys, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("skops"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    line = failure(capsys, "fit", "small.csv", "--out", "model.skops")
    assert 'pip install "tatml[skops]"' in line


def test_data_that_do_not_fit_the_model(folder, capsys):
    write_wine("wine.csv", TRAIN)
    assert run("fit", "wine.csv", "--out", "model.skops") == 0
    line = failure(capsys, "transform", "model.skops", "small.csv")
    assert f"expected a column {NAMES[0]!r}" in line
    np.savez("data.npz", X=ROWS, y=CLASSES)
    assert "X has 3 features" in failure(capsys, "evaluate", "model.skops", "data.npz")
    line = failure(capsys, "predict", "model.skops", "wine.csv")
    assert "expected pairs (--pairs PAIRS, or an array pairs), or training data" in line
    np.savez("numbers.npz", X=WINE.data[TEST], y=WINE.target[TEST])
    line = failure(capsys, "evaluate", "model.skops", "numbers.npz", "--train", "wine.csv")
    assert "expected the classes of wine.csv, for example 'class_0', got others" in line
    line = failure(capsys, "evaluate", "model.skops", "wine.csv", "--train", "wine.csv", "--k", 90)
    assert "expected at most the 89 training samples" in line


def test_a_threshold_alone_embeds_nothing(folder, capsys):
    index, similar = wine_pairs(TRAIN)
    np.savez("pairs.npz", X=WINE.data[TRAIN], pairs=index, similar=similar)
    assert run("fit", "pairs.npz", "--estimator", "PairThreshold", "--out", "model.skops") == 0
    assert "embeds no samples" in failure(capsys, "transform", "model.skops", "pairs.npz")


# Exit statuses


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["fti"], "invalid choice: 'fti'"),
        (["fit"], "the following arguments are required: DATA, --out"),
        (["fit", "a.csv", "--out", "m.skops", "--estimator", "TATLM"], "did you mean 'TATML'?"),
        (["fit", "a.csv", "--out", "m.skops", "--C", "much"], "invalid float value: 'much'"),
        (["evaluate", "m.skops", "a.csv", "--k", "0"], "expected a whole number above 0, got '0'"),
        (["reproduce", "table2"], "invalid choice: 'table2'"),
    ],
)
def test_wrong_use(folder, capsys, arguments, expected):
    line = failure(capsys, *arguments, status=2)
    assert expected in line
    assert "--help" in line


def test_version_and_help(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"tatml {tatml.__version__}\n"
    assert run("--help") == 0
    listed = capsys.readouterr().out
    for command in ("fit", "evaluate", "predict", "transform", "reproduce"):
        assert command in listed
        assert run(command, "--help") == 0
        assert f"examples:\n  tatml {command} " in capsys.readouterr().out


def test_unconverged_fits_warn_in_one_line(folder, capsys):
    write_wine("wine.csv", TRAIN)
    options = ["--set", "solver=Newton(max_iter=1)", "--set", "tol=1e-12"]
    assert run("fit", "wine.csv", "--out", "model.skops", *options) == 0
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("tatml: warning: ")
    assert "not converged in 1 steps" in printed.out


def test_what_is_unexpected_says_so(folder, capsys, monkeypatch):
    def broken(*_):
        raise KeyError("inside")

    monkeypatch.setattr(commands, "read_data", broken)
    arguments = ["fit", "small.csv", "--out", "model.skops"]
    line = failure(capsys, *arguments)
    assert line.endswith("KeyError: 'inside' (unexpected: run it with --traceback to see where)")
    assert run(*arguments, "--traceback") == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_what_the_system_says_of_a_file(folder, capsys, monkeypatch):
    def forbidden(*_):
        raise PermissionError(13, "Permission denied", "small.csv")

    monkeypatch.setattr(commands, "read_data", forbidden)
    line = failure(capsys, "fit", "small.csv", "--out", "model.skops")
    assert line == "tatml fit: error: small.csv: Permission denied"


def test_interrupted(folder, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "read_data", interrupted)
    line = failure(capsys, "fit", "small.csv", "--out", "model.skops", status=130)
    assert line == "tatml: interrupted"
