"""The command with numbers as targets does what TATMLRegression does in Python."""

import csv
import json

import numpy as np
import pytest
from cli_helpers import run, write_table
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from sklearn.neighbors import KNeighborsRegressor

from tatml import TATMLRegression
from tatml._data.sampling import draw_ranked_pairs

pytest.importorskip("skops")

X, Y = load_diabetes(return_X_y=True)
X, Y = X[:, [1, 2, 3, 8]], Y.copy()
TRAIN, TEST = slice(0, 120), slice(120, 240)
FEW = {"n_pairs": 300, "near": 0.2}
FEW_ARGUMENTS = ["--set", "n_pairs=300", "--set", "near=0.2"]


def write(path, rows, words=False):
    targets = [f"about {y:g}" for y in Y[rows]] if words else Y[rows]
    cells = [[*x, y] for x, y in zip(X[rows].tolist(), targets, strict=True)]
    return write_table(path, ["sex", "bmi", "bp", "s5", "progression"], cells)


@pytest.fixture
def files(tmp_path):
    train, test = write(tmp_path / "train.csv", TRAIN), write(tmp_path / "test.csv", TEST)
    model = tmp_path / "model.skops"
    arguments = ["--estimator", "TATMLRegression", *FEW_ARGUMENTS]
    assert run("fit", train, "--out", model, *arguments) == 0
    return train, test, model


@pytest.fixture(scope="module")
def fitted():
    return TATMLRegression(random_state=0, **FEW).fit(X[TRAIN], Y[TRAIN])


def test_samples_are_embedded_as_in_python(files, fitted, tmp_path):
    out = tmp_path / "out.npz"
    assert run("transform", files[2], files[1], "--out", out) == 0
    with np.load(out) as arrays:
        assert_allclose(arrays["X"], fitted.transform(X[TEST]), rtol=1e-12, atol=1e-12)
        assert_array_equal(arrays["y"], Y[TEST])


def test_numbers_are_predicted_as_in_python(files, fitted, tmp_path):
    train, test, model = files
    out = tmp_path / "out.csv"
    assert run("predict", model, test, "--train", train, "--k", 5, "--out", out) == 0
    knn = KNeighborsRegressor(5).fit(fitted.transform(X[TRAIN]), Y[TRAIN])
    with open(out, newline="", encoding="utf-8") as file:
        found = [float(row["y"]) for row in csv.DictReader(file)]
    assert_allclose(found, knn.predict(fitted.transform(X[TEST])), rtol=1e-9)


def test_evaluate_measures_predictions_and_pairs_of_ranks(files, fitted, capsys):
    train, test, model = files
    capsys.readouterr()
    assert run("evaluate", model, test, "--train", train, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    knn = KNeighborsRegressor(3).fit(fitted.transform(X[TRAIN]), Y[TRAIN])
    assert facts["knn"]["r2"] == pytest.approx(
        r2_score(Y[TEST], knn.predict(fitted.transform(X[TEST])))
    )
    rule = {"near": 0.2, "far": 0.4, "n_pairs": 300, "random_state": np.random.RandomState(0)}
    pairs = draw_ranked_pairs(rankdata(Y[TEST])[:, None], total=120, **rule)
    distances = fitted.pair_distance(pairs.index, X[TEST])
    assert facts["pairs"]["auc"] == pytest.approx(roc_auc_score(pairs.similar, -distances))
    right = balanced_accuracy_score(pairs.similar, distances < fitted.threshold_)
    assert facts["pairs"]["balanced_accuracy"]["value"] == pytest.approx(right)
    assert run("evaluate", model, test, "--train", train) == 0
    printed = capsys.readouterr().out
    assert f"120 samples of {test}, {len(np.unique(Y[TEST]))} numbers (column 'prog" in printed
    assert f"3-NN R²              {facts['knn']['r2']:.4f}  120 samples, neighbours" in printed


@pytest.mark.parametrize("command", ["fit", "evaluate", "predict", "train"])
def test_words_are_no_numbers(files, tmp_path, capsys, command):
    train, test, model = files
    words = write(tmp_path / "words.csv", TRAIN, words=True)
    arguments = {
        "fit": ["fit", words, "--estimator", "TATMLRegression", "--out", tmp_path / "other.skops"],
        "evaluate": ["evaluate", model, words],
        "predict": ["predict", model, test, "--train", words],
        "train": ["evaluate", model, words, "--train", train],
    }[command]
    assert run(*arguments) == 1
    error = capsys.readouterr().err
    assert "words.csv, column 'progression': expected numbers" in error
    assert "for classes, take TATML" in error
