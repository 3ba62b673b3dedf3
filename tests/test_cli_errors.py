"""Errors of the command are one line that names the place, with the expected exit status."""

import builtins
import csv
import json
import os
import sys
import time
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import NAMES, TEST, TRAIN, WINE, run, wine_pairs, write_pairs, write_wine

import tatml
from tatml import TATML, Dykstra, Euclidean, Newton, io
from tatml._cli import commands
from tatml._cli.commands import _check_comparable, _parse_setting
from tatml._cli.files import InputData, read_csv_table

skops = pytest.importorskip("skops.io")

SMALL = "a,b,y\n1,2,0\n2,3,1\n3,4,0\n4,6,1\n"
ROWS = np.arange(12.0).reshape(4, 3) ** 2
CLASSES = np.array([0, 1, 0, 1])
FIT = ["--out", "model.skops"]
POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes, links and permissions of POSIX")


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
    assert run(*arguments) == status, arguments
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    return line


# Tables


LONG = "1" * (csv.field_size_limit() + 1)
WRONG_TABLES = [
    ("a,b,y\n1,2,0\n2,three,1\n", ", line 3, column 'b': expected a finite number, got 'three'"),
    ("a,b,y\n1,,0\n2,3,1\n", ", line 2, column 'b': expected a finite number, got an empty cell"),
    ("a,b,y\n1,2,0\n\n\n2,nan,1\n", ", line 5, column 'b': expected a finite number, got 'nan'"),
    ("a,b,y\n-inf,2,0\n2,x,1\n", ", line 2, column 'a': expected a finite number, got '-inf'"),
    ("a,b,y\n1,2,0\n2,3\n", ", line 3: expected 3 cells as in the header, got 2"),
    ("a,b,y\n1,2,0\n2,3,1,4\n", ", line 3: expected 3 cells as in the header, got 4"),
    ("a,b,y\n1,2,\n2,3,1\n", ", line 2, column 'y': expected a label, got an empty cell"),
    ("a,b,y\n1,2,0\n2,3,NaN\n", ", line 3, column 'y': expected a label, got NaN"),
    ("\na,a,y\n1,2,0\n2,3,1\n", ", line 2, column 2: expected different column names, got 'a' tw"),
    ("a,b,y\n", ": expected a header and at least one row, got 1 lines with text"),
    ("", ": expected a header and at least one row, got 0 lines with text"),
    ("y\n1\n2\n", ": expected columns of numbers besides 'y'"),
    ('a,b,y\n1,"2,0\n', ", line 2: expected a closing quotation mark, got the end of the file"),
    ('a,b,y\n1,"2"3,0\n', ", line 2: expected comma-separated values, got text that is none"),
    ("a,b,kind\n1,2,0.5\n2,3,1.25\n", ": expected classes in the column 'kind', got 2 different"),
    ("a,b,y\n1,2,0\n2,3,0\n", ", column 'y': expected"),
    (",a,y\n0,2,0\n1,3,1\n", ": expected a name for each column, got none for column 1"),
    # Python reads these as numbers; people and other programs do not.
    ("a,b,y\n1,2,0\n2,1_000,1\n", ", line 3, column 'b': expected a finite number, got '1_000'"),
    ("a,b,y\n1,2,0\n2,٣,1\n", ", line 3, column 'b': expected a finite number, got '٣'"),
    (f"a,b,y\n1,2,0\n2,{LONG},1\n", f", line 3: expected cells of at most {len(LONG) - 1} charact"),
    # The first row of a file without a header is not lost.
    ("5.1,3.5,setosa\n4.9,3.0,setosa\n6.1,2.8,virginica\n", ", line 1, column 1: expected a head"),
    ("1,2,0\n2,3,1\n", ", line 1, column 1: expected a header with the names of the columns, got "),
    ("0,1,setosa\n4.9,3.0,setosa\n6.1,2.8,virginica\n", ", line 1, column 1: expected a header"),
    ("a.png,0.5,x\nb.png,0.7,y\n", ", line 1, column 2: expected a header with the names of the"),
    # NumPy cuts off the character, and the two classes would be one.
    ("a,b,y\n1,2,u\n2,3,u\0\n", ", line 3: expected text in UTF-8, got a NUL character"),
    ("a,b,y\n1,2,0\n2,3,inf\n", ", line 3, column 'y': expected a label, got inf, which is not fi"),
    ("a,b,y\n1,2,1e400\n2,3,1\n", ", line 2, column 'y': expected a label, got 1e400, which is n"),
]


def by_message(cases):
    """Name the cases by their messages; some texts are longer than the system allows for names."""
    return [message for _, message in cases]


@pytest.mark.parametrize(("text", "expected"), WRONG_TABLES, ids=by_message(WRONG_TABLES))
def test_wrong_tables(folder, capsys, text, expected):
    Path("data.csv").write_text(text, encoding="utf-8")
    line = failure(capsys, "fit", "data.csv", *FIT)
    assert line.startswith(f"tatml fit: error: data.csv{expected}")
    assert sorted(os.listdir(folder)) == ["data.csv", "small.csv"]


def test_a_byte_that_is_no_text_is_named(folder, capsys):
    Path("data.csv").write_bytes(b"a,b,y\n1,2,3\n4,\xff\xfe,2,3\n")
    line = failure(capsys, "fit", "data.csv", *FIT)
    assert line.endswith(
        "data.csv, line 3: expected text in UTF-8, got the byte 0xff at character 3"
    )


def test_a_sample_without_a_group_is_named(folder, capsys):
    Path("data.csv").write_text("a,g,y\n1,u,0\n2,,0\n3,v,1\n", encoding="utf-8")
    line = failure(capsys, "fit", "data.csv", "--groups", "g", *FIT)
    assert "line 3, column 'g': expected a group, got an empty cell" in line


@pytest.mark.parametrize("names", ["0,1,label", "1,2,label"])
def test_column_numbers_as_pandas_writes_them_are_names(folder, names):
    rows = "\n".join(f"{x**2},{2 * x},{'ab'[x % 2]}" for x in range(6))
    Path("data.csv").write_text(f"{names}\n{rows}\n", encoding="utf-8")
    assert run("fit", "data.csv", "--force", *FIT) == 0
    assert io.load_model("model.skops").metadata["feature_names"] == names.split(",")[:2]


def test_a_table_of_many_columns_is_read_in_one_pass(folder):
    names = [*(f"c{k}" for k in range(100_000)), "c0"]
    Path("data.csv").write_text(f"{','.join(names)}\n{'1,' * 100_000}1\n", encoding="utf-8")
    start = time.perf_counter()
    with pytest.raises(ValueError, match="column 100001: expected different column names, got 'c0"):
        read_csv_table(Path("data.csv"))
    assert time.perf_counter() - start < 10  # 80 s if each name is searched for in all others


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("0 1 -2", np.array([0, 1, -2])),
        ("0 1.5 2", np.array([0, 1.5, 2])),
        ("007 1 2", np.array(["007", "1", "2"])),  # codes
        ("+1 1 2", np.array(["+1", "1", "2"])),
        ("a 1 2", np.array(["a", "1", "2"])),
    ],
)
def test_labels_are_whole_numbers_or_numbers_or_words(folder, cells, expected):
    Path("data.csv").write_text("\n".join(["y", *cells.split()]), encoding="utf-8")
    found = read_csv_table(Path("data.csv")).read_labels("y")
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


def test_a_column_that_is_left_out_is_no_target(folder, capsys):
    Path("data.csv").write_text("y,a,b\n1,2,u\n2,3,v\n3,5,u\n4,7,v\n", encoding="utf-8")
    assert run("fit", "data.csv", "--drop", "y", *FIT) == 0
    assert io.load_model("model.skops").metadata["target"] == "b"
    assert run("fit", "data.csv", "--groups", "y", "--force", *FIT) == 0
    assert io.load_model("model.skops").metadata["target"] == "b"


WRONG_OPTIONS = [
    (["--target", "b2"], "small.csv: expected a column 'b2' (--target), got 'a', 'b', 'y'"),
    (
        ["--groups", "A"],
        "small.csv: expected a column 'A' (--groups), got 'a', 'b', 'y'; did you m",
    ),
    (["--drop", "c"], "small.csv: expected a column 'c' (--drop)"),
    (["--set", "prior"], "--set: expected name=value, got 'prior'"),
    (["--set", "priro=scaled"], "got 'priro'; did you mean 'prior'?"),
    (["--set", "preprocessor=x"], "expected a parameter of TATML"),
    (["--set", "prior=scalde"], "error: prior: expected one of"),
    (["--set", "solver=newtn"], "solver: expected 'newton', 'dykstra', Newton"),
    (["--set", "solver=Newton(max_iter=0)"], "max_iter: expected at least 1, got 0"),
    (["--set", "solver=Newton(steps=3)"], "solver: expected a parameter of Newton (linear_s"),
    (["--set", "solver=Newton(max_iter=open('x'))"], "solver: expected 'newton', 'dykstra', N"),
    (["--set", "C={[]: 1}"], "C: expected a number, got '{[]: 1}'"),
    (["--set", "C=1if"], "C: expected a number, got '1if'"),
    (["--set", f"C={'-' * 100_000}1"], "C: expected a number, got '-----"),
    (["--set", f"C={'+'.join('1' * 20_000)}"], "C: expected a number, got '1+1+1"),
    (["--set", f"solver={'+'.join('1' * 20_000)}"], "solver: expected 'newton', 'dykstra', N"),
    (["--target", "\x9b31m\x1b[31m"], "expected a column '\\x9b31m\\x1b[31m' (--target)"),
    (["--C", "-1"], "C: expected a positive number, got -1.0"),
    (["--estimator", "GMML", "--C", "1"], "expected a parameter of GMML"),
    (["--estimator", "TATMLPairs"], "TATMLPairs learns from pairs: expected --pairs"),
    (["--pairs", "nowhere.csv"], "nowhere.csv: expected a file, got none of this name"),
]


@pytest.mark.parametrize(("options", "expected"), WRONG_OPTIONS, ids=by_message(WRONG_OPTIONS))
def test_wrong_options(folder, capsys, options, expected):
    assert expected in failure(capsys, "fit", "small.csv", *FIT, *options)


WRONG_PAIRS = [
    ("first,second,similar\n0,4,1\n", ", line 2, column 'second': expected the number of a sam"),
    ("first,second,similar\n0,1,1\n-1,2,0\n", ", line 3, column 'first': expected the number of"),
    ("first,second,similar\n0,1.5,1\n", ", line 2, column 'second': expected the number of a sam"),
    ("first,second,similar\n0,٣,1\n", ", line 2, column 'second': expected the number of a samp"),
    ("first,second,similar\n0,1,maybe\n", ", line 2, column 'similar': expected 1, same, 0, -1"),
    (f"first,second,similar\n{'9' * 5000},1,1\n", ", line 2, column 'first': expected the number "),
    ("first,secnd,similar\n0,1,1\n", ": expected a column 'second', got 'first', 'secnd', 'simil"),
    ("first,second\n0,1\n", ": expected the labels of the pairs"),
    ("first,second,similar\n0,1,1\n", ", column 'similar': expected similar"),
]


@pytest.mark.parametrize(("text", "expected"), WRONG_PAIRS, ids=by_message(WRONG_PAIRS))
def test_wrong_pairs(folder, capsys, text, expected):
    Path("pairs.csv").write_text(text, encoding="utf-8")
    line = failure(capsys, "fit", "small.csv", "--pairs", "pairs.csv", *FIT)
    assert line.startswith(f"tatml fit: error: pairs.csv{expected}")


def test_an_estimator_of_labels_refuses_pairs(folder, capsys):
    write_wine("wine.csv", TRAIN)
    write_pairs("pairs.csv", *wine_pairs(TRAIN))
    options = ["--pairs", "pairs.csv", "--target", "cultivar", *FIT]
    line = failure(capsys, "fit", "wine.csv", *options, "--estimator", "ITML")
    assert "ITML learns from labels, got pairs: use --estimator TATMLPairs" in line


# Archives


WRONG_ARCHIVES = [
    ({"x": ROWS, "y": CLASSES}, "expected an array X (or X0, X1, … or pairs), got 'x', 'y'"),
    ({"X": ROWS}, "expected labels: an array y"),
    ({"X": ROWS, "y": CLASSES[:3]}, "y: expected shape (4,)"),
    ({"X": ROWS, "y": CLASSES, "groups": CLASSES[:2]}, "groups: expected shape (4,)"),
    ({"X": ROWS[0], "y": CLASSES}, "X: expected shape (n_samples, n)"),
    (
        {"X": np.where(ROWS == 4, np.nan, ROWS), "y": CLASSES},
        "X: expected finite numbers, got nan in block 0, sample 0, entry (2, 0)",
    ),
    ({"X": ROWS.astype(str), "y": CLASSES}, "X: expected"),
    ({"X": ROWS, "X0": ROWS, "y": CLASSES}, "expected either X or X0"),
    ({"X0": ROWS, "X2": ROWS, "y": CLASSES}, "expected X0, X1, … without gaps"),
    ({"X0": ROWS, "X9": ROWS, "y": CLASSES}, "expected X0, X1, … without gaps, got 'X0', 'X9'"),
    ({"X0": ROWS, "X1": ROWS[:3], "y": CLASSES}, "expected the same number of samples in each b"),
    ({"X": ROWS, "y": np.array([{}, 1, 2, 3], dtype=object)}, "y: expected an array of numbers or"),
    ({"X": ROWS, "y": np.array([0, np.nan, 0, 1])}, "y: expected a label"),
    ({"pairs": ROWS.astype(int)[:, :2], "y": CLASSES}, "pairs: expected shape (n_pairs, 2, n) or "),
    ({"pairs": np.full((4, 2, 3), np.nan), "y": CLASSES}, "pairs: expected finite numbers"),
    (
        {"X": ROWS, "pairs": [[0, 1], [2, 4]], "y": [1, -1]},
        "pairs: expected 0 ≤ index < n_samples = 4, got index 4 in row 1",
    ),
    (
        {"X": ROWS, "pairs": [[0.0, 1.0]], "y": [1]},
        "pairs: expected integer sample indices, got dtype float64",
    ),
    ({"X": ROWS, "pairs": [[0, 1], [2, 3]], "y": [1, 2]}, "y: expected 1 for similar and -1 or 0"),
    ({"X": ROWS, "pairs": [[0, 1], [2, 3]]}, "expected the labels of the pairs"),
]


@pytest.mark.parametrize(("arrays", "expected"), WRONG_ARCHIVES, ids=by_message(WRONG_ARCHIVES))
def test_wrong_archives(folder, capsys, arrays, expected):
    np.savez("data.npz", **arrays)
    line = failure(capsys, "fit", "data.npz", *FIT)
    assert line.startswith(f"tatml fit: error: data.npz: {expected}")


def test_an_archive_of_pairs_takes_no_table_of_pairs(folder, capsys):
    Path("pairs.csv").write_text("first,second,similar\n0,1,1\n0,2,0\n", encoding="utf-8")
    np.savez("data.npz", pairs=np.ones((4, 2, 3)))
    line = failure(capsys, "fit", "data.npz", "--pairs", "pairs.csv", *FIT)
    assert line == "tatml fit: error: data.npz: expected an array X (or X0, X1, …), got 'pairs'"


def test_two_arrays_of_one_name_are_refused(folder, capsys):
    np.savez("data.npz", X=ROWS, y=CLASSES)
    with zipfile.ZipFile("data.npz", "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("y.npy", b"other labels")
    line = failure(capsys, "fit", "data.npz", *FIT)
    assert line.startswith("tatml fit: error: data.npz: y: expected an array of numbers or words")
    assert line.endswith("the archive has two arrays of this name")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--groups", "session"], "expected an array 'session', got 'X', 'y'"),
        (["--target", "kind"], "expected an array 'kind', got 'X', 'y'"),
        (["--drop", "a"], "expected a table for --drop"),
    ],
)
def test_options_that_name_no_array(folder, capsys, options, expected):
    np.savez("data.npz", X=ROWS, y=CLASSES)
    assert expected in failure(capsys, "fit", "data.npz", *FIT, *options)


WRONG_FILES = [
    ("nowhere.csv", "expected a file, got none of this name"),
    ("data.xlsx", "expected a file with the extension .npz or .csv, got the extension '.xlsx'"),
    ("data", "expected a file with the extension .npz or .csv, got none"),
    ("folder.csv", "expected a file, got a folder"),
    ("pipe.csv", "expected a file, got a device or a pipe"),
    ("text.npz", "expected an archive of arrays"),
    ("damaged.npz", "X: expected an array of numbers or words (numpy.savez), got one that can"),
]


@POSIX
@pytest.mark.parametrize(("name", "expected"), WRONG_FILES)
def test_wrong_files(folder, capsys, name, expected):
    Path("folder.csv").mkdir()
    os.mkfifo("pipe.csv")
    Path("text.npz").write_text("no archive", encoding="utf-8")
    np.savez("damaged.npz", X=ROWS, y=CLASSES)
    content = bytearray(Path("damaged.npz").read_bytes())
    content[content.index(ROWS.tobytes()[8:32])] ^= 1
    Path("damaged.npz").write_bytes(content)
    line = failure(capsys, "fit", name, *FIT)
    assert line.startswith(f"tatml fit: error: {name}: {expected}")


# Models


def test_wrong_models(folder, capsys):
    """tests/test_io.py has all kinds of wrong models; the command prints what they raise."""
    skops.dump({"format": io.FORMAT, "metadata": {}, "estimator": os.system}, "model.skops")
    line = failure(capsys, "predict", "model.skops", "small.csv")
    assert line.startswith("tatml predict: error: model.skops: expected a model saved by tatml, ")
    assert "got no such file" in failure(capsys, "evaluate", "none.skops", "small.csv")
    io.save_model(Euclidean().fit([[0.0, 1.0], [1.0, 2.0]]), "distances.skops")
    line = failure(capsys, "evaluate", "distances.skops", "small.csv")
    assert line == "tatml evaluate: error: model: expected one with a threshold, got Euclidean()"
    schema = {"__class__": "\x1b[2J", "__module__": "os", "__loader__": "ObjectNode"}
    with zipfile.ZipFile("model.skops", "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
    line = failure(capsys, "predict", "model.skops", "small.csv")
    assert line.endswith("got one that needs os.\\x1b[2J (ObjectNode)")  # not sent to the terminal


def test_a_model_of_another_version_warns(folder, capsys):
    content = {"format": io.FORMAT, "metadata": {"version": "0.0.9"}, "estimator": fitted()}
    skops.dump(content, "model.skops")
    write_wine("test.csv", TEST)
    options = ["--target", "cultivar", "--out", "out.csv"]
    assert run("transform", "model.skops", "test.csv", *options) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "tatml: warning: model.skops: saved by tatml 0.0.9, and this is tatml" in line


def test_without_skops_the_extra_is_named(folder, capsys, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("skops"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    line = failure(capsys, "fit", "small.csv", *FIT)
    assert 'pip install ".[skops]"' in line


def test_data_that_do_not_fit_the_model(folder, capsys):
    write_wine("wine.csv", TRAIN)
    assert run("fit", "wine.csv", *FIT) == 0
    line = failure(capsys, "transform", "model.skops", "small.csv")
    assert f"small.csv: expected a column {NAMES[0]!r}" in line
    np.savez("data.npz", X=ROWS, y=CLASSES)
    for arguments in (
        ["evaluate", "model.skops", "data.npz"],
        ["evaluate", "model.skops", "data.npz", "--train", "data.npz"],
        ["transform", "model.skops", "data.npz"],
        ["predict", "model.skops", "wine.csv", "--train", "data.npz"],
    ):
        assert "error: data.npz: X has 3 features" in failure(capsys, *arguments)
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
    assert run("fit", "pairs.npz", "--estimator", "PairThreshold", *FIT) == 0
    assert "embeds no samples" in failure(capsys, "transform", "model.skops", "pairs.npz")


# Outputs


def test_nothing_is_overwritten_unasked(folder, capsys):
    write_wine("wine.csv", TRAIN)
    assert run("fit", "wine.csv", "--out", "fitted.skops") == 0
    for arguments, name in (
        (["fit", "wine.csv"], "out.skops"),
        (["transform", "fitted.skops", "wine.csv"], "out.csv"),
        (["transform", "fitted.skops", "wine.csv"], "out.npz"),
        (["predict", "fitted.skops", "wine.csv", "--train", "wine.csv"], "out.csv"),
    ):
        Path(name).write_text("mine", encoding="utf-8")
        line = failure(capsys, *arguments, "--out", name)
        command = arguments[0]
        assert line == f"tatml {command}: error: --out: {name} exists; overwrite it with --force"
        assert Path(name).read_text(encoding="utf-8") == "mine"
        assert run(*arguments, "--out", name, "--force") == 0
        assert Path(name).stat().st_size > 100
        Path(name).unlink()
    assert sorted(os.listdir(folder)) == ["fitted.skops", "small.csv", "wine.csv"]


WRONG_OUTPUTS = [
    ("model.pkl", "--out: expected a name that ends in .skops, got model.pkl"),
    ("nowhere/model.skops", "--out: nowhere/model.skops: expected an existing folder nowhere"),
    ("folder.skops", "--out: folder.skops: expected a file or an unused name, got a folder"),
    ("pipe.skops", "--out: pipe.skops: expected a file or an unused name, got a device or a p"),
    ("dangling.skops", "--out: dangling.skops: expected a file or an unused name, got a link "),
]


@POSIX
@pytest.mark.parametrize(("out", "expected"), WRONG_OUTPUTS)
def test_wrong_names_of_outputs(folder, capsys, out, expected):
    Path("folder.skops").mkdir()
    os.mkfifo("pipe.skops")
    os.symlink("missing.skops", "dangling.skops")
    line = failure(capsys, "fit", "small.csv", "--force", "--out", out)
    assert line.startswith(f"tatml fit: error: {expected}")
    assert os.readlink("dangling.skops") == "missing.skops"


@POSIX
def test_a_link_stays_and_its_target_changes(folder):
    os.mkdir("store")
    Path("store/model.skops").write_text("mine", encoding="utf-8")
    os.chmod("store/model.skops", 0o600)
    os.symlink(Path("store", "model.skops"), "link.skops")
    assert run("fit", "small.csv", "--out", "link.skops", "--force") == 0
    assert os.readlink("link.skops") == os.path.join("store", "model.skops")
    assert io.load_model("store/model.skops").estimator.threshold_ > 0
    assert os.listdir("store") == ["model.skops"]
    assert os.stat("store/model.skops").st_mode & 0o777 == 0o600  # as before


# Exit statuses


WRONG_USE = [
    ([], "the following arguments are required: COMMAND"),
    (["fti"], "invalid choice: 'fti'"),
    (["fit"], "the following arguments are required: DATA, --out"),
    (["fit", "a.csv", *FIT, "--estimator", "TATLM"], "did you mean 'TATML'?"),
    (["fit", "a.csv", *FIT, "--C", "much"], "argument --C: expected a number, got 'much'"),
    (["fit", "a.csv", *FIT, "--C", "1_0"], "argument --C: expected a number, got '1_0'"),
    (["fit", "a.csv", *FIT, "--jobs", "0"], "argument --jobs: expected a whole number from 1 to"),
    (["fit", "a.csv", *FIT, "--jobs", "-5"], "argument --jobs: expected a whole number from 1 to"),
    (["reproduce", "all", "--jobs", "0"], "argument --jobs: expected a whole number from 1 to"),
    (["reproduce", "all", "--jobs", "-5"], "argument --jobs: expected a whole number from 1 to"),
    (["fit", "a.csv", *FIT, "--random-state", "-1"], "expected a whole number from 0 to 42949"),
    (["evaluate", "m.skops", "a.csv", "--k", "0"], "expected a whole number from 1 to 1000000, g"),
    (["evaluate", "m.skops", "a.csv", "--k", "9" * 5000], "expected a whole number from 1 to 100"),
    (["evaluate", "m.skops", "a.csv", "--k", "٣"], "expected a whole number from 1 to 1000000, g"),
    (["reproduce", "table2"], "invalid choice: 'table2'"),
]


@pytest.mark.parametrize(("arguments", "expected"), WRONG_USE, ids=by_message(WRONG_USE))
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


def test_a_standard_output_that_is_closed(folder, capsys, monkeypatch):
    """As in `tatml fit … >&-`."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        statuses = [
            run("fit", "small.csv", *FIT),
            run("transform", "model.skops", "small.csv", "--out", "out.csv"),
            run("transform", "model.skops", "small.csv"),
        ]
    assert statuses == [0, 0, 1]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("--out: expected a file, got none, and the standard output is closed")


def test_unconverged_fits_warn_in_one_line(folder, capsys):
    write_wine("wine.csv", TRAIN)
    options = ["--set", "solver=Newton(max_iter=1)", "--set", "tol=1e-12"]
    assert run("fit", "wine.csv", *FIT, *options) == 0
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("tatml: warning: ")
    assert "not converged in 1 iterations" in printed.out


def test_errors_while_reading(folder, capsys, monkeypatch):
    """Unexpected errors are called so; those of the system name the file; interrupts end it."""
    arguments = ["fit", "small.csv", *FIT]

    def reading_raises(error):
        def broken(*_):
            raise error

        monkeypatch.setattr(commands, "read_data", broken)

    reading_raises(KeyError("inside"))
    line = failure(capsys, *arguments)
    assert line.endswith("KeyError: 'inside' (unexpected: --traceback shows where it was raised)")
    assert run(*arguments, "--traceback") == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    reading_raises(PermissionError(13, "Permission denied", "small.csv"))
    assert failure(capsys, *arguments) == "tatml fit: error: small.csv: Permission denied"
    reading_raises(KeyboardInterrupt())
    assert failure(capsys, *arguments, status=130) == "tatml: interrupted"


def test_neighbours_may_be_all_training_samples_and_unknown_classes_are_counted(folder, capsys):
    write_wine("wine.csv", TRAIN)
    assert run("fit", "wine.csv", *FIT) == 0
    capsys.readouterr()
    arguments = ["evaluate", "model.skops", "wine.csv", "--train", "wine.csv"]
    assert run(*arguments, "--k", len(WINE.target[TRAIN])) == 0
    assert capsys.readouterr().err == ""
    few = np.flatnonzero(WINE.target[TRAIN] != 2)
    write_wine("few.csv", np.asarray(TRAIN)[few])
    assert run("evaluate", "model.skops", "wine.csv", "--train", "few.csv") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["tatml: warning: wine.csv: 1 classes are not in few.csv: 'class_2', …"]


def test_groups_in_both_files_are_counted():
    known = InputData(Path("a.csv"), None, np.array([0, 1, 1]), np.array([1, 2, 3]))
    for groups, message in (([3, 2, 9], "2 groups are in both a"), ([4, 5, 6], None)):
        other = replace(known, path=Path("b.csv"), groups=np.array(groups))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _check_comparable(known, other)
        assert [str(w.message)[:22] for w in caught] == ([message] if message else [])
    _check_comparable(known, replace(known, groups=None))
    _check_comparable(replace(known, groups=None), known)


def test_a_report_without_training_data_names_the_option(folder, capsys):
    write_wine("wine.csv", TRAIN)
    assert run("fit", "wine.csv", *FIT) == 0
    capsys.readouterr()
    assert run("evaluate", "model.skops", "wine.csv") == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == "TATML (model.skops) on 89 samples of wine.csv, 3 classes (column 'cultivar')"
    )
    assert lines[-1].endswith("name the training data: --train TRAIN")
    assert run("evaluate", "model.skops", "wine.csv", "--train", "wine.csv") == 0
    assert "--train TRAIN" not in capsys.readouterr().out


def test_pairs_of_samples_have_numbers_and_no_samples(folder, capsys):
    index, similar = wine_pairs(TRAIN)
    rows = WINE.data[TRAIN][index]
    np.savez("pairs.npz", pairs=rows, similar=similar)
    assert run("fit", "pairs.npz", *FIT) == 0
    assert run("predict", "model.skops", "pairs.npz", "--out", "answers.csv") == 0
    lines = Path("answers.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "pair,distance,similar"
    assert [line.split(",")[0] for line in lines[1:4]] == ["0", "1", "2"]
    line = failure(capsys, "transform", "model.skops", "pairs.npz")
    assert "pairs.npz: expected samples, X, got pairs of samples only" in line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("1e3", 1e3),
        ("[1, None]", [1, None]),
        ("inf", float("inf")),
        (r"'\d'", r"\d"),  # Python's parser warns, the command not
        ("Newton(max_iter=7)", Newton(max_iter=7)),
        ("Dykstra(order='cyclic')", Dykstra(order="cyclic")),
    ],
)
def test_settings_are_written_as_in_python(text, value):
    assert _parse_setting(f"name = {text} ") == ("name", value)


WORDS = [
    "within",
    "x y",
    "1 +",
    "print(1)",
    "",
    "newton",
    "Newton",
    "Newton(5)",
    "Newton(max_iter=x)",
]


@pytest.mark.parametrize("word", WORDS)
def test_settings_that_are_not_python_are_words(word):
    assert _parse_setting(f"name={word}") == ("name", word)


@POSIX
@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_what_is_no_file_is_named(folder, capsys, ending):
    Path(f"folder.{ending}").mkdir()
    os.mkfifo(f"pipe.{ending}")
    for name, message in (
        ("folder", "expected a file, got a folder"),
        ("none", "expected a file, got none of this name"),
        ("pipe", "expected a file, got a device or a pipe"),
    ):
        line = failure(capsys, "fit", f"{name}.{ending}", *FIT)
        assert line == f"tatml fit: error: {name}.{ending}: {message}"
