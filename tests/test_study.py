"""The study of the defaults: its halves are fixed and apart, its forms do what they say."""

import argparse
import csv
import sys
import types

import numpy as np
import pytest
from benchmark_helpers import import_benchmark
from numpy.testing import assert_allclose, assert_array_equal

from tatml import Blocks
from tatml._data.blocks import as_blocks

study, study_data, study_forms = map(import_benchmark, ("study", "study_data", "study_forms"))
study_lmnn = import_benchmark("study_lmnn")
ALL_FORMS = list(study_forms.FORMS)


@pytest.fixture
def split():
    """Three unequal classes in four columns of different units and places."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [60, 50, 30])
    X = rng.normal(size=(140, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 5.0, 1.0, -2.0]
    X[:, 0] += y
    train = rng.permutation(140) < 70
    return study_forms.Split(X[train], X[~train], y[train], y[~train])


def changed_cells(after, before):
    return after.X_train[:, :4] != before.X_train


def test_the_two_halves_are_disjoint_and_cover_every_dataset():
    chosen, confirmed = set(study_data.CHOOSING), set(study_data.CONFIRMING)
    matrices = {half: set(names) for half, names in study_data.MATRIX_SETS.items()}
    assert not (chosen | matrices["choosing"]) & (confirmed | matrices["confirming"])
    merged = set.union(*map(set, study_data.MERGED_SETS.values()))
    assert chosen | confirmed | merged | set.union(*matrices.values()) == set(study_data.SETS)
    for half, sets in study_data.MERGED.items():  # made from datasets of their own half
        assert {name for name, _ in sets} <= set(study_data.HALVES[half])
    assert len(chosen | confirmed) >= 24
    assert len(chosen) == len(study_data.CHOOSING)
    assert len(confirmed) == len(study_data.CONFIRMING)


@pytest.mark.parametrize(("half", "names"), study_data.HALVES.items())
def test_both_halves_have_sets_of_several_modes_and_matrices_of_their_own(half, names):
    assert len(set(names) & set(study_data.SEVERAL_MODES)) >= 2
    assert len(set(study_data.MATRIX_SETS[half]) - set(names)) >= 2


@pytest.mark.parametrize("name", ["digits parity", "many modes", "digit images"])
def test_datasets_that_need_no_package_load(name):
    X, y, groups = study_data.load_some(name)
    assert len(X) == len(y) <= study_data.LARGEST
    assert groups is None
    assert np.bincount(y).min() >= 4


def test_a_dataset_whose_files_are_missing_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setenv("TATML_DATA", str(tmp_path))
    for name in ("virus M=2", "brodatz M=2", "ETH-80 by object M=2"):
        assert study_data.load.__wrapped__(name) is None


def test_a_dataset_without_its_package_is_left_out(monkeypatch):
    monkeypatch.setattr(study_data, "find_spec", lambda name: None)
    monkeypatch.delenv("TATML_DATA", raising=False)
    for name in ("glass", "mnist", "mnist parity", "mnist images", "gun point", "virus M=2"):
        assert study_data.SETS[name]() is None


@pytest.mark.parametrize("form", ALL_FORMS)
def test_a_form_is_seeded_and_touches_only_what_it_says(split, form):
    before = [values.copy() for values in vars(split).values()]
    once, again = (study_forms.apply_form(form, split, seed=1) for _ in range(2))
    for values, copy in zip(vars(split).values(), before, strict=True):
        assert np.array_equal(values, copy)
    for name, values in vars(once).items():
        assert np.array_equal(values, getattr(again, name))
    assert len(once.X_train) == len(once.y_train)
    assert len(once.X_test) == len(once.y_test)
    assert once.X_train.shape[1] == once.X_test.shape[1]
    if form in study_forms.BOTH_HALVES:
        assert not np.array_equal(once.X_test, split.X_test)
        assert np.array_equal(once.y_train, split.y_train)
    elif form != "unbalanced":
        assert np.array_equal(once.X_test, split.X_test)
    if form != "unbalanced":
        assert np.array_equal(once.y_test, split.y_test)


def test_rotation_keeps_all_distances(split):
    after = study_forms.apply_form("rotated", split, seed=0)
    gaps = [np.linalg.norm(s.X_test - s.X_train[:1], axis=1) for s in (after, split)]
    assert np.allclose(*gaps)


def test_one_row_is_a_thousand_deviations_away_in_every_column(split):
    after = study_forms.apply_form("bad row", split, seed=0)
    changed = changed_cells(after, split)
    (row,) = np.flatnonzero(changed.any(axis=1))
    moved = (after.X_train - split.X_train)[row] / split.X_train.std(axis=0)
    assert np.allclose(np.abs(moved), 1000)


def test_about_two_percent_of_the_cells_are_wild():
    X, y = np.random.default_rng(0).normal(size=(500, 40)), np.zeros(500, int)
    split = study_forms.Split(X, X, y, y)
    moved = (study_forms.apply_form("wild cells", split, seed=0).X_train - X) / X.std(axis=0)
    assert 0.016 < np.mean(moved != 0) < 0.024
    assert 85 < moved[moved != 0].std() < 115


def test_columns_are_added_behind_the_others(split):
    n_columns = {"noise": 4 + 50, "duplicated": 4 + 2, "constant": 4 + 3}
    for form, expected in n_columns.items():
        after = study_forms.apply_form(form, split, seed=0)
        assert after.X_train.shape[1] == expected
        assert np.array_equal(after.X_train[:, :4], split.X_train)
        assert np.array_equal(after.X_test[:, :4], split.X_test)
    copies = study_forms.apply_form("duplicated", split, seed=0).X_test[:, 4:]
    assert all(any(np.array_equal(copy, x) for x in split.X_test.T) for copy in copies.T)
    assert not np.ptp(study_forms.apply_form("constant", split, seed=0).X_test[:, 4:], axis=0).any()


@pytest.mark.parametrize(
    ("form", "factor", "shift"),
    [
        ("scaled down", 1e-6, 0),
        ("scaled up", 1e6, 0),
        ("shifted", 1, 1e6),
    ],
)
def test_scales_and_shift(split, form, factor, shift):
    after = study_forms.apply_form(form, split, seed=0)
    assert np.array_equal(after.X_test, split.X_test * factor + shift)


def test_training_samples_are_left_out(split):
    counts = np.bincount(split.y_train)
    few = study_forms.apply_form("few", split, seed=0)
    assert np.array_equal(np.bincount(few.y_train), np.minimum(counts, 10))
    two = study_forms.apply_form("unbalanced", split, seed=0)
    large, small = np.argsort(-counts)[:2]
    kept = np.bincount(two.y_train, minlength=3)
    assert kept[large] == counts[large]
    assert kept[small] == max(2, round(counts[large] * 5 / 95))
    assert kept.sum() == kept[[large, small]].sum()
    assert np.array_equal(two.X_test, split.X_test[np.isin(split.y_test, (large, small))])


def test_a_fifth_of_the_labels_is_wrong(split):
    after = study_forms.apply_form("wrong labels", split, seed=0)
    assert np.sum(after.y_train != split.y_train) == round(len(split.y_train) / 5)
    assert set(after.y_train) <= set(split.y_train)


def test_matrices_keep_their_shapes():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    for X in (rng.normal(size=(40, 3, 5)), Blocks(rng.normal(size=(40, 3, 3)), np.ones((40, 2)))):
        split = study_forms.Split(X[:20], X[20:], y[:20], y[20:])
        for form in set(ALL_FORMS) - set(study_forms.TABLES_ONLY):
            after = study_forms.apply_form(form, split, seed=0)
            assert type(after.X_train) is type(X)
            assert as_blocks(after.X_train).block_shapes == as_blocks(X).block_shapes
    with pytest.raises(ValueError, match="keeps matrices, got 'rotated'"):
        study_forms.apply_form("rotated", split, seed=0)


def test_the_plain_form_restores_the_cells_of_every_block():
    rng = np.random.default_rng(0)
    X = Blocks(rng.normal(size=(6, 2, 3)), rng.normal(size=(6, 4, 4)))
    y = np.zeros(6, int)
    after = study_forms.apply_form("plain", study_forms.Split(X, X, y, y), seed=0)
    for array, expected in zip(after.X_train.arrays, X.arrays, strict=True):
        assert np.array_equal(array, expected)


def records_of(values, form="plain", method="TATML"):
    return [
        {
            "set": name,
            "form": form,
            "method": method,
            "scores": {score: repeats for score in study.SCORES},
            "error": None,
        }
        for name, repeats in values.items()
    ]


def test_datasets_are_the_units_of_the_standard_error():
    """Repeats are averaged first: three changes of .1, .2 and .3, whatever their repeats."""
    now = records_of({"a": [0.6, 0.8], "b": [0.7], "c": [0.8, 0.8, 0.8], "only now": [1.0]})
    then = records_of({"a": [0.6], "b": [0.5], "c": [0.4, 0.6]})
    key = ("plain", "TATML")
    scores, base = study.mean_scores(now)[key], study.mean_scores(then)[key]
    mean, error, wins, losses, n_sets = study.paired(scores, base, "AUC")
    assert mean == pytest.approx(0.2)
    assert error == pytest.approx(0.1 / np.sqrt(3))
    assert (wins, losses, n_sets) == (3, 0, 3)
    assert study.paired(scores, base, "lost")[2:4] == (0, 3)
    assert study.seconds_ratio(scores, base) == pytest.approx(1.4)


def test_an_earlier_run_is_compared_by_method_or_with_its_only_one():
    before = study.mean_scores(records_of({"a": [1.0]}))
    assert study.base_of("plain", "TATML(C=1)", before) == before["plain", "TATML"]
    assert study.base_of("rotated", "TATML", before) is None
    both = {**before, ("plain", "LDA"): {}}
    assert study.base_of("plain", "TATML", both) == before["plain", "TATML"]
    assert study.base_of("plain", "NCA", both) is None


def test_a_study_runs_and_reports_what_fails(capsys):
    methods = ["TATML", "TATML(C=-1)"]
    records = study.run_study(["iris"], ["plain", "few"], methods, repeats=1)
    study.report(records, before=records, sets=True)
    printed = capsys.readouterr()
    assert "failed on 1" in printed.out
    assert "C: expected" in printed.err
    good = [record["scores"] for record in records if record["error"] is None]
    assert len(good) == 2
    for scores in good:
        assert 0.9 < scores["3-NN"][0] <= 1
        assert scores["lost"][0] == pytest.approx(scores["best"][0] - scores["at threshold"][0])
        assert scores["lost"][0] >= 0


def test_the_confirming_half_needs_an_issue_and_is_logged(tmp_path, capsys):
    log = tmp_path / "confirmations.csv"
    parser = argparse.ArgumentParser()
    with pytest.raises(SystemExit):
        study_data.open_half("confirming", None, parser, ["TATML"], log)
    assert "expected --issue N" in capsys.readouterr().err
    study_data.open_half("choosing", None, parser, ["TATML"], log)
    assert not log.exists()
    study_data.open_half("confirming", 17, parser, ["TATML", "TATML(C=1, tol=1e-3)"], log)
    (row,) = read_rows(log)
    assert row[1] == "17"
    assert row[3] == "TATML; TATML(C=1, tol=1e-3)"


def test_the_log_of_confirmations_has_one_line_per_opening():
    header, *rows = read_rows(study_data.CONFIRMATIONS)
    assert header == ["date (UTC)", "issue", "commit", "methods"]
    assert all(len(row) == len(header) and row[1].isdigit() for row in rows)


def read_rows(path):
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines()))


class EndlessLMNN:
    """A stand-in for metric-learn's LMNN whose objective falls, rises and never converges."""

    def __init__(self, **options):
        self.options = options

    def fit(self, X, y):
        for step in range(10**9):
            self._loss_grad(X, np.full((1, X.shape[1]), float(step)))

    def _loss_grad(self, X, L):
        return None, abs(L[0, 0] - 3), 0


def test_lmnn_out_of_time_keeps_its_best_map(monkeypatch):
    module = types.SimpleNamespace(LMNN=EndlessLMNN)
    monkeypatch.setitem(sys.modules, "metric_learn", module)
    X, y = np.random.default_rng(0).normal(size=(10, 2)), np.repeat([0, 1], 5)
    model = study_lmnn.LMNN(scaling="one", max_seconds=0.2).fit(X, y)
    assert "OutOfTimeError" in model.model_.stopped_
    assert_array_equal(model.model_.components_, [[3.0, 3.0]])
    assert_allclose(model.transform(X), 3 * model.scaler_.transform(X).sum(axis=1, keepdims=True))
