"""The pictures of a fit: drawn once, of the right samples, and taken into the report."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from tatml.datasets import make_textures
from tatml.experiments._report import pictures
from tatml.experiments._report.pictures import (
    CASES,
    choose_queries,
    count_cases,
    draw_pictures,
    find_neighbours,
    majority_vote,
    read_pictures,
)
from tatml.experiments._settings import DATASETS, QUICK_DATASETS, Dataset

SMALL = Dataset(
    "textures",
    "Textures",
    "textures",
    "make_textures",
    options=(("n_classes", 3), ("n_per_class", 16), ("size", 24), ("random_state", 0)),
    embedded=True,
)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    out = tmp_path_factory.mktemp("pictures")
    return out, draw_pictures(out, [SMALL])


def test_each_kind_of_picture_is_drawn_and_listed(drawn):
    out, listed = drawn
    assert [picture.title for picture in listed] == [
        "Distances of pairs",
        "Convergence",
        *["Learnt matrices"] * 3,  # two blocks of the paper's, one vector of the fixed one
        "Queries and their nearest neighbours",
    ]
    assert read_pictures(out) == listed
    for picture in listed:
        content = (out / "pictures" / picture.file).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 400_000
    assert [picture.drawing for picture in listed] == [True] * 5 + [False]


def test_what_is_there_is_not_drawn_again(drawn, monkeypatch):
    out, listed = drawn
    monkeypatch.setattr(pictures, "fit_method", None)  # a call would fail
    assert draw_pictures(out, [SMALL]) == listed


def test_pictures_of_other_data_sets_stay_listed(drawn):
    out, listed = drawn
    assert draw_pictures(out, []) == []
    assert read_pictures(out) == listed


def test_what_was_drawn_is_listed_though_a_later_one_fails(drawn, tmp_path, monkeypatch):
    _, listed = drawn

    def draw(dataset, folder, data, cache):
        if dataset is not SMALL:
            raise RuntimeError("no")
        for picture in listed:
            (folder / picture.file).touch()
        return listed

    monkeypatch.setattr(pictures, "_pictures_of", draw)
    with pytest.raises(RuntimeError):
        draw_pictures(tmp_path, [SMALL, QUICK_DATASETS["digits"]])
    assert read_pictures(tmp_path) == listed


def test_a_picture_that_was_removed_is_not_listed(drawn, tmp_path):
    out, listed = drawn
    (tmp_path / "pictures").mkdir()
    listing = (out / pictures.MANIFEST).read_bytes()
    (tmp_path / pictures.MANIFEST).write_bytes(listing)
    (tmp_path / "pictures" / listed[0].file).touch()
    assert read_pictures(tmp_path) == [listed[0]]


def test_without_a_folder_of_data_the_real_ones_are_left_out(tmp_path, monkeypatch):
    monkeypatch.delenv("TATML_DATA", raising=False)
    real = [dataset for dataset in DATASETS.values() if not dataset.embedded]
    assert "eth80" in {dataset.name for dataset in real}
    assert draw_pictures(tmp_path, real) == []


def test_the_words_say_what_the_sheet_shows(drawn):
    sheet = drawn[1][-1]
    y = make_textures(**dict(SMALL.options)).target
    assert f"of {len(y) // 2} test samples" in sheet.caption
    assert all(words in sheet.alternative for words in CASES.values())


def test_the_vote_is_that_of_the_classifier():
    rng = np.random.default_rng(0)
    known, asked = rng.normal(size=(60, 2)), rng.normal(size=(200, 2))
    labels = rng.integers(4, size=60)
    expected = KNeighborsClassifier(3).fit(known, labels).predict(asked)
    np.testing.assert_array_equal(majority_vote(labels[find_neighbours(known, asked)]), expected)


def test_queries_show_every_case_that_there_is():
    right = np.array([[False] * 3 + [True] * 97, [True] + [False] * 4 + [True] * 95])
    chosen = choose_queries(right, 10)
    assert len(chosen) == len(set(chosen)) == 10
    cases = {tuple(column) for column in right[:, chosen].T.tolist()}
    assert cases == set(CASES)
    assert {0, 1, 2, 3, 4} <= set(chosen)  # rare cases are all there
    assert choose_queries(right, 10) == chosen


def test_queries_are_no_more_than_there_are():
    assert sorted(choose_queries(np.ones((2, 4), bool), 10)) == [0, 1, 2, 3]


def test_the_counts_of_the_cases_sum_to_the_samples():
    right = np.array([[False, False, True, True, True], [True, False, False, True, True]])
    assert count_cases(right) == (
        "of 5 test samples 1 wrong by the plain distance, right by the learnt one, "
        "1 right by the plain distance, wrong by the learnt one, 1 wrong by both, 2 right by both."
    )


def test_the_quick_form_draws_what_it_runs():
    assert all(dataset.embedded for dataset in QUICK_DATASETS.values())
    assert pictures.main_features(QUICK_DATASETS["digits"]) == "vector"
    assert pictures.main_features(QUICK_DATASETS["textures"]) == "M=2;(1,.5)"
