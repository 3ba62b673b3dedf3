"""The command on a user's files does what the estimators do in Python, to the last digits."""

import csv
import json

import numpy as np
import pytest
from cli_helpers import (
    NAMES,
    TEST,
    TRAIN,
    WINE,
    run,
    wine_pairs,
    write_pairs,
    write_table,
    write_wine,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

import tatml
from tatml import (
    GMML,
    ITML,
    TATML,
    TATMLCV,
    Blocks,
    Euclidean,
    Maz,
    Newton,
    PairThreshold,
    TATMLPairs,
)
from tatml._cli.commands import _searched_names
from tatml._cli.files import print_rows
from tatml._cli.main import _parser
from tatml._data.sampling import draw_random_pairs
from tatml._verification.calibration import equal_error_rate
from tatml.io import load_model, save_model
from tatml.verification import error_rates, report

pytest.importorskip("skops")

FEW = {"n_pairs_per_class": 40}
FEW_ARGUMENTS = ["--set", "n_pairs_per_class=40"]


@pytest.fixture
def train(tmp_path):
    return write_wine(tmp_path / "train.csv", TRAIN)


@pytest.fixture
def test(tmp_path):
    return write_wine(tmp_path / "test.csv", TEST)


@pytest.fixture
def model(tmp_path):
    return tmp_path / "model.skops"


def printed_json(capsys):
    return json.loads(capsys.readouterr().out)


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# The same as in Python


FITS = [
    ([], TATML(random_state=0, **FEW)),
    (["--C", 10, "--set", "prior=within"], TATML(C=10, prior="within", random_state=0, **FEW)),
    (["--set", "c0=inf", "--random-state", 3], TATML(c0=np.inf, random_state=3, **FEW)),
    (["--set", "margin=(0.4, 1.5)"], TATML(margin=(0.4, 1.5), random_state=0, **FEW)),
    (
        ["--estimator", "TATMLCV", "--set", "param_grid={'C': [1, 100]}", "--set", "cv=2"],
        TATMLCV(TATML(**FEW), {"C": [1, 100]}, cv=2, random_state=0),
    ),
    (["--estimator", "Maz"], Maz(random_state=0, **FEW)),
    (["--estimator", "ITML"], ITML(random_state=0, **FEW)),
    (
        ["--set", "solver=Newton(linear_solver='cg', max_iter=50)"],
        TATML(solver=Newton(linear_solver="cg", max_iter=50), random_state=0, **FEW),
    ),
    (["--estimator", "GMML", "--set", "t=0.3"], GMML(t=0.3, random_state=0, **FEW)),
    (["--estimator", "Euclidean"], Euclidean(random_state=0, **FEW)),
]


@pytest.mark.parametrize(("arguments", "estimator"), FITS)
def test_fit_is_the_estimator(train, model, arguments, estimator):
    few = [*FEW_ARGUMENTS]
    if isinstance(estimator, TATMLCV):
        few[-1] = f"estimator__{few[-1]}"
    assert run("fit", train, "--force", "--out", model, *few, *arguments) == 0
    estimator.fit(WINE.data[TRAIN], WINE.target[TRAIN])
    saved = load_model(model).estimator
    assert type(saved) is type(estimator)
    assert saved.threshold_ == estimator.threshold_, arguments
    assert_array_equal(saved.components_, estimator.components_, err_msg=arguments)


def test_scores_of_pairs_are_those_of_the_estimator(train, test, model, tmp_path, capsys):
    fit = ["fit", train, "--out", model, "--set", "midpoint=True", *FEW_ARGUMENTS, "--json"]
    assert run(*fit) == 0
    expected = TATML(midpoint=True, random_state=0, **FEW).fit(WINE.data[TRAIN], WINE.target[TRAIN])
    facts = printed_json(capsys)
    assert (facts["threshold"], facts["compared"]) == (expected.threshold_, "minus score")
    assert run("evaluate", model, test) == 0
    shown = capsys.readouterr().out
    assert "minus scores below it mean: same" in shown
    assert "--train" not in shown  # there are no neighbours
    index, similar = wine_pairs(TEST)
    pairs, answers = write_pairs(tmp_path / "pairs.csv", index, similar), tmp_path / "answers.csv"
    assert run("predict", model, test, "--pairs", pairs, "--out", answers) == 0
    rows, scores = read_csv(answers), expected.pair_score(index, WINE.data[TEST])
    assert_array_equal([float(row["score"]) for row in rows], scores)
    answered = np.array([row["similar"] == "same" for row in rows])
    assert_array_equal(answered, scores > -expected.threshold_)
    capsys.readouterr()
    assert run("evaluate", model, test, "--pairs", answers) == 0  # answers are pairs again


@pytest.mark.parametrize("arguments", [["evaluate", "--train"], ["predict", "--train"]])
def test_a_score_finds_no_neighbours(train, test, model, capsys, arguments):
    assert run("fit", train, "--out", model, "--set", "midpoint=True", *FEW_ARGUMENTS) == 0
    assert "--train" not in capsys.readouterr().out
    assert run(arguments[0], model, test, *arguments[1:], train) == 1
    error = capsys.readouterr().err
    assert "TATML, with a midpoint: evaluate without --train" in error
    assert error.count("\n") == 1


def test_classes_of_two_files_are_compared_as_numbers(model, tmp_path, capsys):
    """1 and 1.0 are the same class, whichever file has which."""
    train, test = tmp_path / "train.npz", tmp_path / "test.npz"
    np.savez(train, X=WINE.data[TRAIN], y=WINE.target[TRAIN])
    assert run("fit", train, "--out", model, *FEW_ARGUMENTS) == 0
    accuracies = []
    for y in (WINE.target[TEST], WINE.target[TEST].astype(float)):
        np.savez(test, X=WINE.data[TEST], y=y)
        capsys.readouterr()
        assert run("evaluate", model, test, "--train", train, "--json") == 0
        accuracies.append(printed_json(capsys)["knn"]["accuracy"])
    assert accuracies[0] == accuracies[1] > 0.9


def test_evaluate_is_the_estimator(train, test, model, capsys):
    assert run("fit", train, "--out", model, *FEW_ARGUMENTS) == 0
    capsys.readouterr()
    assert run("evaluate", model, test, "--train", train, "--k", 5, "--json") == 0
    facts = printed_json(capsys)
    estimator = TATML(random_state=0, **FEW).fit(WINE.data[TRAIN], WINE.target[TRAIN])
    knn = KNeighborsClassifier(5).fit(estimator.transform(WINE.data[TRAIN]), WINE.target[TRAIN])
    accuracy = knn.score(estimator.transform(WINE.data[TEST]), WINE.target[TEST])
    assert facts["threshold"] == estimator.threshold_
    assert_allclose(facts["knn"]["accuracy"], accuracy, rtol=1e-12)
    assert facts["knn"]["low"] < accuracy <= facts["knn"]["high"]
    assert facts["estimator"] == "TATML"


def test_pairs_of_a_table_are_those_of_python(train, model, tmp_path, capsys):
    index, similar = wine_pairs(TRAIN)
    known = write_pairs(tmp_path / "known.csv", index, similar)
    others = write_pairs(tmp_path / "others.csv", *wine_pairs(TRAIN, seed=2))
    columns = ["--target", "cultivar"]
    assert run("fit", train, "--pairs", known, "--out", model, *columns) == 0
    capsys.readouterr()
    assert run("evaluate", model, train, "--pairs", others, "--json") == 0
    facts = printed_json(capsys)["pairs"]
    X = WINE.data[TRAIN]
    verifier = TATMLPairs(preprocessor=X, random_state=0).fit(index, np.where(similar, 1, -1))
    index, similar = wine_pairs(TRAIN, seed=2)
    y = np.where(similar, 1, -1)
    with pytest.warns(UserWarning, match="error_rates: fewer than 30 errors"):
        expected = error_rates(verifier, index, y, X)
    assert (facts["n_pairs"], facts["n_similar"]) == (300, similar.sum())
    assert_allclose(facts["auc"], roc_auc_score(y, verifier.pair_score(index)), rtol=1e-12)
    balanced = balanced_accuracy_score(y, verifier.predict(index))
    assert_allclose(facts["balanced_accuracy"]["value"], balanced, rtol=1e-12)
    for name in ("balanced_accuracy", "false_match", "false_non_match"):
        for part in ("value", "low", "high"):
            assert_allclose(facts[name][part], getattr(expected[name], part), rtol=1e-12)


def test_pairs_in_arrays(model, tmp_path, capsys):
    index, similar = wine_pairs(TRAIN)
    pairs = WINE.data[TRAIN][index]
    y, matrices = np.where(similar, 1, -1), pairs[:, :, :12].reshape(-1, 2, 4, 3)
    for kind, given, labels in (
        (TATMLPairs, pairs, {"similar": similar}),
        (TATMLPairs, matrices, {"y": similar.astype(int)}),
        (PairThreshold, pairs, {"y": y}),
    ):
        np.savez(tmp_path / "pairs.npz", pairs=given, **labels)
        options = ["--estimator", kind.__name__, "--out", model, "--force"]
        assert run("fit", tmp_path / "pairs.npz", *options) == 0
        capsys.readouterr()
        assert run("evaluate", model, tmp_path / "pairs.npz", "--json") == 0
        facts = printed_json(capsys)
        estimator = kind().fit(given, y)
        assert_allclose(facts["threshold"], estimator.threshold_, rtol=1e-12)
        assert_allclose(facts["pairs"]["auc"], estimator.score(given, y), rtol=1e-12)


def test_matrices(model, tmp_path):
    squares, rest = WINE.data[:, :12].reshape(-1, 4, 3), WINE.data[:, 12:]
    for arrays, X in (
        ({"X": squares}, squares),
        ({"X0": squares, "X1": rest}, Blocks(squares, rest)),
    ):
        np.savez(tmp_path / "data.npz", y=WINE.target, **arrays)
        out = tmp_path / "Z.npz"
        options = ["--out", model, "--force"]
        assert run("fit", tmp_path / "data.npz", *options, *FEW_ARGUMENTS) == 0
        assert run("transform", model, tmp_path / "data.npz", "--out", out, "--force") == 0
        estimator = TATML(random_state=0, **FEW).fit(X, WINE.target)
        with np.load(out) as embedded:
            assert_allclose(embedded["X"], estimator.transform(X), rtol=1e-12, atol=1e-12)
            assert_array_equal(embedded["y"], WINE.target)
        assert run("fit", out, "--estimator", "Euclidean", *options) == 0


def test_index_pairs_into_blocks(model, tmp_path, capsys):
    index, similar = wine_pairs(range(178))
    X = Blocks(WINE.data[:, :12].reshape(-1, 4, 3), WINE.data[:, 12:])
    data = {"X0": X.arrays[0], "X1": X.arrays[1], "pairs": index, "similar": similar}
    np.savez(tmp_path / "data.npz", **data)
    assert run("fit", tmp_path / "data.npz", "--out", model) == 0
    capsys.readouterr()
    assert run("predict", model, tmp_path / "data.npz", "--out", tmp_path / "answers.npz") == 0
    verifier = TATMLPairs(preprocessor=X, random_state=0).fit(index, np.where(similar, 1, -1))
    with np.load(tmp_path / "answers.npz") as answers:
        assert_allclose(answers["distance"], verifier.pair_distance(index), rtol=1e-12)
        assert_array_equal(answers["similar"] == "same", verifier.predict(index) > 0)


def test_groups_make_no_pairs(model, tmp_path, capsys):
    groups = np.arange(len(TRAIN)) // 4
    rows = np.column_stack([WINE.data[TRAIN], groups, WINE.target[TRAIN]])
    data = write_table(tmp_path / "data.csv", [*NAMES, "session", "y"], rows.tolist())
    assert run("fit", data, "--groups", "session", "--out", model, *FEW_ARGUMENTS) == 0
    saved = load_model(model)
    words = groups.astype(float).astype(str)  # as in the table
    metric = TATML(random_state=0, **FEW).fit(WINE.data[TRAIN], WINE.target[TRAIN], groups=words)
    assert saved.estimator.threshold_ == metric.threshold_
    assert not np.any(groups[metric.pairs_[:, 0]] == groups[metric.pairs_[:, 1]])
    assert saved.metadata["feature_names"] == NAMES
    capsys.readouterr()
    assert run("evaluate", model, data, "--train", data) == 0
    assert "23 groups are in both" in capsys.readouterr().err


# Predictions and embeddings


def test_answers_are_pairs_again(train, model, tmp_path):
    index, similar = wine_pairs(TRAIN)
    known = write_pairs(tmp_path / "known.csv", index, similar)
    run("fit", train, "--pairs", known, "--out", model, "--target", "cultivar")
    questions = write_table(tmp_path / "questions.csv", ["first", "second"], index.tolist())
    answers = tmp_path / "answers.csv"
    assert run("predict", model, train, "--pairs", questions, "--out", answers) == 0
    rows = read_csv(answers)
    distances = load_model(model).estimator.pair_distance(index, WINE.data[TRAIN])
    assert_array_equal([float(row["distance"]) for row in rows], distances)
    assert_array_equal([[int(row["first"]), int(row["second"])] for row in rows], index)
    same = distances < load_model(model).estimator.threshold_
    assert [row["similar"] for row in rows] == ["same" if flag else "different" for flag in same]
    assert run("evaluate", model, train, "--pairs", answers, "--json") == 0


def test_classes_by_neighbours(train, test, model, capsys):
    run("fit", train, "--out", model, *FEW_ARGUMENTS)
    capsys.readouterr()
    assert run("predict", model, test, "--train", train) == 0
    lines = capsys.readouterr().out.splitlines()
    metric = TATML(random_state=0, **FEW).fit(WINE.data[TRAIN], WINE.target[TRAIN])
    knn = KNeighborsClassifier(3).fit(metric.transform(WINE.data[TRAIN]), WINE.target[TRAIN])
    predicted = WINE.target_names[knn.predict(metric.transform(WINE.data[TEST]))]
    assert lines == ["y", *predicted]


def test_columns_are_found_by_name(train, model, tmp_path, capsys):
    run("fit", train, "--out", model, *FEW_ARGUMENTS)
    order = [12, *range(12)]
    rows = [["note", *WINE.data[i, order].tolist()] for i in TEST]
    other = write_table(tmp_path / "other.csv", ["text", *(NAMES[i] for i in order)], rows)
    capsys.readouterr()
    assert run("transform", model, other) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    embedded = np.array([line.split(",") for line in lines], dtype=float)
    assert header.split(",") == [f"tatml{i}" for i in range(13)]
    expected = load_model(model).estimator.transform(WINE.data[TEST])
    assert_array_equal(embedded, expected)


def test_tables_with_semicolons_quotes_and_blank_lines(model, tmp_path):
    text = 'a;"b;c";kind\n1.5;2;x\n\n2.5;4;y\n1;3;x\n2;"4.5";y\n'  # as spreadsheets write them
    (tmp_path / "data.csv").write_bytes(b"\xef\xbb\xbf" + text.encode().replace(b"\n", b"\r\n"))
    assert run("fit", tmp_path / "data.csv", "--out", model) == 0
    saved = load_model(model)
    assert saved.metadata["feature_names"] == ["a", "b;c"]
    expected = TATML(random_state=0).fit([[1.5, 2], [2.5, 4], [1, 3], [2, 4.5]], [0, 1, 0, 1])
    assert_allclose(saved.estimator.threshold_, expected.threshold_, rtol=1e-12)


# What is printed and kept


def test_a_model_says_where_it_comes_from(train, model):
    run("fit", train, "--out", model, "--C", "10")
    metadata = load_model(model).metadata
    assert metadata["version"] == tatml.__version__
    assert metadata["command"] == f"tatml fit {train} --out {model} --C 10"
    assert (metadata["estimator"], metadata["target"]) == ("TATML", "cultivar")


def test_tables_are_aligned(train, test, model, capsys):
    run("fit", train, "--out", model)
    out = capsys.readouterr().out
    assert "3 classes (column 'cultivar')" in out
    assert f"Saved to {model}: n_features_in_, " in out
    assert "No samples and no pairs are saved, only the mean of the training samples. Next:" in out
    assert run("evaluate", model, test, "--train", train) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert len(lines) == 8
    places = [line.index("[") for line in lines if "[" in line]
    assert places == 6 * places[:1]
    numbers = [line[: places[0]].rstrip() for line in lines]
    assert {len(number) for number in numbers} == {places[0] - 2}  # flush right
    print_rows([("a", "1", "a longer note"), ("long", "22", "")])
    assert capsys.readouterr().out == "  a      1  a longer note\n  long  22\n"


def test_fit_says_what_the_file_holds_of_the_samples(train, tmp_path, capsys):
    def printed(*options):
        assert run("fit", train, "--out", tmp_path / "m.skops", "--force", *options) == 0
        return capsys.readouterr().out

    kept = "No samples and no pairs are saved"
    assert f"{kept}, only the mean of the training samples. Next: " in printed()
    out = printed("--set", "kernel=rbf")
    assert (
        "The file holds 89 of 89 training samples (landmarks of the kernel); the mean of the "
        "training samples; no pairs are saved. Next: "
    ) in out
    assert kept not in out
    wide = np.random.default_rng(0).normal(size=(20, 40))
    np.savez(tmp_path / "wide.npz", X=wide, y=np.arange(20) % 2)
    assert run("fit", tmp_path / "wide.npz", "--out", tmp_path / "w.skops", "--json") == 0
    (span, _) = printed_json(capsys)["reveals"]
    assert span.startswith("a matrix from which the span of the training samples in block 0 can ")
    assert span == load_model(tmp_path / "w.skops").metadata["reveals"][0]


def test_fit_prints_json(train, model, capsys):
    grid = "param_grid={'C': [1, 10, 100], 'prior': ['discriminant', 'auto']}"
    options = ["--set", grid, "--set", "estimator__n_pairs_per_class=20"]
    assert run("fit", train, "--out", model, "--estimator", "TATMLCV", *options, "--json") == 0
    facts = printed_json(capsys)
    assert "components_" in facts["holds"]
    assert facts["left_out"][:2] == ["pairs_", "similar_"]
    assert facts["converged"] is True
    assert facts["chosen"]["C"] == load_model(model).estimator.C_
    assert facts["searched"] == ["C", "prior"]
    assert _searched_names([{"C": 1.0, "prior": "scaled"}, {"C": 2.0, "prior": "scaled"}]) == ["C"]
    assert _searched_names([{"C": 1.0, "prior": "auto"}, {"C": 1.0}]) == ["prior"]  # two grids


def test_equal_error_rate_is_where_both_errors_are_equal():
    for seed in range(3):
        rng = np.random.RandomState(seed)
        labels = np.where(rng.rand(1500) < 0.3, 1, -1)
        scores = rng.normal(size=1500) + 1.2 * labels
        rate = equal_error_rate(-scores, labels > 0)
        cuts = np.sort(scores)
        missed = np.array([np.mean(scores[labels > 0] < cut) for cut in cuts])
        passed = np.array([np.mean(scores[labels < 0] >= cut) for cut in cuts])
        nearest = np.argmin(np.abs(missed - passed))
        assert_allclose(rate, (missed[nearest] + passed[nearest]) / 2, atol=2e-3)
    labels = np.array([1, 1, -1, -1])
    for separation, expected in [(1, 0.0), (-1, 1.0), (0, 0.5)]:
        assert equal_error_rate(-separation * labels.astype(float), labels > 0) == expected


# What tables hold


def fitted_table(model, path, names, labels, *options):
    """The model of the first four measurements of some wines, under the given names and labels."""
    cells = [
        [*row[:4], label] for row, label in zip(WINE.data[TRAIN].tolist(), labels, strict=True)
    ]
    data = write_table(path, [*names, "label"], cells)
    assert run("fit", data, "--out", model, *FEW_ARGUMENTS, *options) == 0
    return data, load_model(model)


def test_with_a_target_a_column_named_y_is_a_feature(model, tmp_path):
    labels = WINE.target[TRAIN]
    _, saved = fitted_table(
        model, tmp_path / "points.csv", ["x", "y", "z", "t"], labels, "--target", "label"
    )
    assert saved.metadata["feature_names"] == ["x", "y", "z", "t"]
    plain = TATML(**FEW, random_state=0).fit(WINE.data[TRAIN][:, :4], labels)
    assert saved.estimator.threshold_ == plain.threshold_


def test_codes_are_classes_of_their_own(model, tmp_path):
    out = tmp_path / "classes.csv"
    for words in (
        ["01", "1", "2"],
        [str(10**25 + i) for i in range(3)],
        ["1_000", "1000", "2.5"],  # words, because Python alone reads the first as a number
        ["٣", "3", "4.5"],
    ):
        labels = np.array(words)[WINE.target[TRAIN]]
        data, _ = fitted_table(model, tmp_path / "codes.csv", "abcd", labels, "--force")
        assert run("predict", model, data, "--train", data, "--k", 1, "--out", out, "--force") == 0
        assert_array_equal([row["y"] for row in read_csv(out)], labels)


def test_words_in_one_file_and_numbers_in_the_other(model, tmp_path, capsys):
    labels = np.array(["09", "10", "11"])[WINE.target[TRAIN]]
    data, _ = fitted_table(model, tmp_path / "train.csv", "abcd", labels)
    known = labels != "09"
    rows = [
        [*WINE.data[i, :4], label] for i, label in zip(TRAIN[known], labels[known], strict=True)
    ]
    some = write_table(tmp_path / "some.csv", [*"abcd", "label"], rows)
    capsys.readouterr()
    assert run("evaluate", model, some, "--train", data, "--k", 1, "--json") == 0
    assert printed_json(capsys)["knn"]["accuracy"] == 1.0


def test_the_delimiter_is_found_behind_quotes_and_empty_lines(model, tmp_path):
    lines = ['"size, cm, old";"b";"label"'] + [
        f"{row[0]};{row[1]};{label}"
        for row, label in zip(WINE.data[TRAIN], WINE.target[TRAIN], strict=True)
    ]
    data = tmp_path / "quoted.csv"
    for start in ("", "\n", "\ufeff"):
        data.write_text(start + "\r\n".join(lines), encoding="utf-8")
        assert run("fit", data, "--out", model, "--force", *FEW_ARGUMENTS) == 0
        assert load_model(model).metadata["feature_names"] == ["size, cm, old", "b"]


def rows_of(capsys):
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_given_prior_is_named(train, model, capsys):
    prior = np.diag(1 / WINE.data.var(axis=0)).tolist()
    grid = f"param_grid={{'C': [10], 'prior': [{prior}]}}"
    options = ["--set", grid, "--set", "cv=2", "--set", "estimator__solver=Newton(max_iter=99)"]
    assert run("fit", train, "--estimator", "TATMLCV", "--out", model, *options) == 0
    assert "prior as given" in rows_of(capsys)


def test_more_pairs_than_are_listed(train, model, capsys, monkeypatch):
    fit = TATML.fit

    def fit_without_a_list(self, *arguments, **options):
        """Fit without a list of the pairs, as for millions of pairs."""
        fit(self, *arguments, **options)
        self.pairs_ = self.similar_ = self.pair_weights_ = None
        return self

    monkeypatch.setattr(TATML, "fit", fit_without_a_list)
    options = [*FEW_ARGUMENTS, "--out", model, "--force"]
    assert run("fit", train, *options) == 0
    assert "number of pairs all" in rows_of(capsys)
    assert run("fit", train, *options, "--json") == 0
    assert printed_json(capsys)["n_pairs"] is None


def test_a_model_that_gives_frames_embeds_all_the_same(model, tmp_path):
    pytest.importorskip("pandas")
    X, y = WINE.data[TRAIN], WINE.target[TRAIN]
    metric = TATML(**FEW, random_state=0).set_output(transform="pandas").fit(X, y)
    save_model(metric, model)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    out = tmp_path / "embedded.csv"
    assert run("transform", model, tmp_path / "data.npz", "--out", out) == 0
    first = [float(row[metric.get_feature_names_out()[0]]) for row in read_csv(out)]
    assert_allclose(first, np.asarray(metric.transform(X))[:, 0], rtol=1e-12)


def test_an_extension_in_capitals_is_kept(train, model, tmp_path):
    assert run("fit", train, "--out", model, *FEW_ARGUMENTS) == 0
    for command in (["transform"], ["predict", "--train", train]):
        out = tmp_path / f"{command[0]}.NPZ"
        assert run(command[0], model, train, *command[1:], "--out", out) == 0
        with np.load(out) as saved:
            assert len(saved["y"]) == len(TRAIN)


# Options

COLUMNS = {"target": None, "groups": None, "drop": []}
DEFAULTS = {  # command line: what the commands are given besides what it names
    "fit a.csv --out m.skops": {
        **COLUMNS,
        "pairs": None,
        "estimator": None,
        "C": None,
        "set": [],
        "jobs": None,
        "random_state": 0,
        "json": False,
        "force": False,
    },
    "evaluate m.skops a.csv": {
        **COLUMNS,
        "pairs": None,
        "train": None,
        "k": 3,
        "random_state": 0,
        "json": False,
        "force": False,
    },
    "predict m.skops a.csv": {
        **COLUMNS,
        "pairs": None,
        "out": None,
        "train": None,
        "k": 3,
        "force": False,
    },
    "transform m.skops a.csv": {**COLUMNS, "out": None, "force": False},
    "reproduce all": {
        **dict.fromkeys(["datasets", "data", "methods", "features", "repeats"]),
        "out": "tatml-results",
        "jobs": 1,
        "quick": False,
        "no_pictures": False,
    },
}


@pytest.mark.parametrize(("line", "expected"), DEFAULTS.items())
def test_defaults_of_the_options(line, expected):
    found = vars(_parser().parse_args(line.split()))
    assert found["name"] == found["run"].__name__ == line.split()[0]
    assert found | expected == found, line
    named = {"name", "run", "traceback", "data", "model", "what", "out"}
    assert set(found) - named == set(expected) - named, line


def test_limits_of_counts_and_seeds(capsys):
    fit = ["fit", "a.csv", "--out", "m.skops"]
    for option, given, accepted in (
        ("--jobs", "1", True),
        ("--jobs", "1000000", True),
        ("--jobs", "1000001", False),
        ("--jobs", "0", False),
        ("--random-state", "0", True),
        ("--random-state", "4294967295", True),
        ("--random-state", "4294967296", False),
        ("--random-state", "-1", False),
        ("--C", "1e-3", True),
        ("--C", "1_0", False),
        ("--C", "٣", False),
    ):
        if accepted:
            found = vars(_parser().parse_args([*fit, option, given]))
            assert found[option[2:].replace("-", "_")] == float(given)
        else:
            with pytest.raises(SystemExit, match="2"):
                _parser().parse_args([*fit, f"{option}={given}"])
            assert capsys.readouterr().err.count("\n") == 1


# The report of evaluate


def test_evaluate_writes_the_report_that_it_prints(train, test, model, tmp_path, capsys):
    run("fit", train, "--out", model, *FEW_ARGUMENTS)
    capsys.readouterr()
    assert run("evaluate", model, test, "--out", tmp_path / "report.txt") == 0
    printed = capsys.readouterr().out
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    details = text[text.index("detection cost") :]
    assert details in printed
    assert f"Saved to {tmp_path / 'report.txt'}" in printed
    for name in ("report.csv", "report.json", "report.html"):
        assert run("evaluate", model, test, "--out", tmp_path / name) == 0
    with open(tmp_path / "report.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [row["name"] for row in rows]
    assert names[:3] == ["estimator", "equal error rate", "least detection cost"]
    facts = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [point["name"] for point in facts["report"]["points"]] == names
    assert float(rows[0]["FMR"]) == facts["pairs"]["false_match"]["value"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert all(f">{name}<" in page for name in names)


def test_the_report_is_that_of_python(train, test, model, capsys):
    run("fit", train, "--out", model, *FEW_ARGUMENTS)
    capsys.readouterr()
    run("evaluate", model, test, "--json")
    facts = printed_json(capsys)
    estimator = TATML(random_state=0, **FEW).fit(WINE.data[TRAIN], WINE.target[TRAIN])
    labels = WINE.target[TEST]
    drawn = draw_random_pairs(labels, random_state=np.random.RandomState(0))
    signs = np.where(drawn.similar, 1, -1)
    expected = report(estimator, drawn.index, signs, WINE.data[TEST]).to_dict()
    assert_allclose(facts["report"]["auc"], expected["auc"], rtol=1e-12)
    for found, point in zip(facts["report"]["points"], expected["points"], strict=True):
        assert found.pop("name") == point.pop("name")
        assert_allclose(list(found.values()), list(point.values()), rtol=1e-9)


def test_groups_are_the_unit_of_dependence(model, tmp_path, capsys):
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(30), 4)
    X = 2 * rng.normal(size=(30, 3))[owner] + rng.normal(size=(120, 3))
    index = np.stack(np.triu_indices(120, 1), axis=1)
    similar = owner[index[:, 0]] == owner[index[:, 1]]
    np.savez(tmp_path / "data.npz", X=X, groups=owner, pairs=index, similar=similar)
    assert run("fit", tmp_path / "data.npz", "--out", model) == 0
    capsys.readouterr()
    assert run("evaluate", model, tmp_path / "data.npz", "--json") == 0
    facts = printed_json(capsys)["report"]
    assert (facts["n_units"], facts["unit"]) == (30, "groups")


def test_a_report_is_not_overwritten_by_accident(train, test, model, tmp_path, capsys):
    run("fit", train, "--out", model, *FEW_ARGUMENTS)
    out = tmp_path / "report.txt"
    out.write_text("mine")
    assert run("evaluate", model, test, "--out", out) == 1
    assert "exists; overwrite it with --force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert run("evaluate", model, test, "--out", out, "--force") == 0
    assert out.read_text().startswith("TATML on ")
    assert run("evaluate", model, test, "--out", tmp_path / "report.pdf") == 1
    words = "--out: expected a name that ends in .txt or .csv or .json or .html, got"
    assert words in capsys.readouterr().err
