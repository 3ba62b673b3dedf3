"""The pictures of a fit: drawn once, of the right samples, and taken into the report."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.neighbors import KNeighborsClassifier

from tatml.datasets import make_textures
from tatml_paper.protocol import held_out_pairs, split_in_halves
from tatml_paper.report import figures, pictures
from tatml_paper.report.figures import draw_histograms, save_png
from tatml_paper.report.pictures import (
    CASES,
    choose_queries,
    count_cases,
    draw_pictures,
    find_neighbours,
    majority_vote,
    read_pictures,
)
from tatml_paper.settings import DATASETS, QUICK_DATASETS, Dataset
from tatml_paper.tasks import Task

Image = pytest.importorskip("PIL.Image")

SMALL = Dataset(
    "textures",
    "Textures",
    "textures",
    "make_textures",
    options=(("n_classes", 3), ("n_per_class", 16), ("size", 24), ("random_state", 0)),
    embedded=True,
)


FIGURES = {}  # what was drawn, by the last word of the name of the file


def save_and_keep(path, figure, *options):
    """Save a picture as usual, and keep its figure."""
    FIGURES[path.stem.rpartition("-")[2]] = figure
    save_png(path, figure, *options)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    out = tmp_path_factory.mktemp("pictures")
    with pytest.MonkeyPatch.context() as patch:
        for module in (figures, pictures):
            patch.setattr(module, "save_png", save_and_keep)
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


def test_pictures_are_as_wide_as_a_phone_and_have_few_colours(drawn):
    """4.6 inches at 130 dots per inch; matrices are 5 inches wide, so that their names fit."""
    out, listed = drawn
    n_queries = 10
    sizes = {
        "distances": (4.6, 3.8, 128),
        "convergence": (4.6, 7.2, 32),
        "0": (5.0, 7.0, 128),
        "1": (5.0, 7.0, 128),
        "neighbours": (4.6, 0.65 * n_queries + 0.3, 256),
    }
    for picture in listed:
        kind = picture.file.rpartition("-")[2].removesuffix(".png")
        width, height, colours = sizes[kind]
        with Image.open(out / "pictures" / picture.file) as image:
            assert_allclose(image.size, [130 * width, 130 * height], atol=1)
            assert image.mode == "P"
            assert len(image.getcolors()) <= colours
            if kind != "neighbours":
                assert len(image.getcolors()) > colours / 2, kind
        assert FIGURES[kind].axes[0].xaxis.label.get_fontsize() == 9
    plt = pictures.pyplot()
    still_open = [plt.figure(number) for number in plt.get_fignums()]
    assert not any(figure in still_open for figure in FIGURES.values())


def first_halves():
    """Return the samples of the first halves, and the images, as the protocol makes them."""
    task = Task("table1", SMALL, "M=2;(1,.5)", "tatml_star", repeat=0)
    data = make_textures(**dict(SMALL.options))
    return data, split_in_halves(data.target, None, task.seeds()["split"])


def test_the_histograms_are_of_pairs_of_the_first_test_half(drawn):
    data, (_, test) = first_halves()
    pairs = held_out_pairs(data.target[test], None, seed=0)
    figure = FIGURES["distances"]
    (ax,) = figure.axes
    assert ax.get_legend() is None
    (legend,) = figure.legends
    assert {text.get_fontsize() for text in legend.get_texts()} == {7}
    assert legend._ncols == 2
    assert not legend.get_frame_on()
    assert ax.get_title().endswith(":\npairs of the test half")
    bins = [[bar.get_width() * bar.get_height() for bar in bars] for bars in ax.containers]
    for shares, n_pairs in zip(bins, (pairs.similar.sum(), (~pairs.similar).sum()), strict=True):
        counts = np.array(shares) * n_pairs  # whole numbers of pairs, all of them
        assert_allclose(counts, np.round(counts), atol=1e-6)
        assert_allclose(counts.sum(), n_pairs)
    rates = re.findall(r"\d+\.\d%", " ".join(text.get_text() for text in legend.get_texts()))
    words = drawn[1][0].alternative
    assert f"{rates[0]} of the similar pairs lie above it and {rates[1]} of the diss" in words


def test_a_few_large_distances_do_not_crush_a_histogram():
    rng = np.random.default_rng(0)
    distances = np.concatenate([rng.uniform(0.2, 1.0, 500), rng.uniform(1.0, 2.0, 500), [900.0]])
    labels = np.where(np.arange(1001) < 500, 1, -1)
    figure, axes = figures.make_subplots(3.0, 1)
    shown = draw_histograms(axes[0, 0], distances, labels, threshold=1.0)
    low, high = axes[0, 0].get_xlim()
    assert low == 0
    assert 2 < high < 2.2  # all pairs but one
    width = axes[0, 0].containers[0][0].get_width()
    assert width < (high - low) / 4  # 2,000 bins at most, of which 40 are shown where possible
    assert shown.error_rates == (0.0, 0.0)
    pictures.pyplot().close(figure)


def test_the_convergence_is_drawn_in_three_rows(drawn):
    assert len(FIGURES["convergence"].axes) == 3
    assert len({ax.get_position().x0 for ax in FIGURES["convergence"].axes}) <= 3
    tops = [ax.get_subplotspec().rowspan.start for ax in FIGURES["convergence"].axes]
    assert tops == [0, 1, 2]
    steps = len(FIGURES["convergence"].axes[0].lines[0].get_xdata()) - 1
    assert f": {steps} step{'s' if steps != 1 else ''} to a duality gap of" in drawn[1][1].caption


def test_matrices_are_named_after_method_and_block(drawn):
    out, listed = drawn
    names = [re.sub(r"^textures-[0-9a-f]+-", "", picture.file) for picture in listed]
    assert names[2:5] == ["tatml-0.png", "tatml-1.png", "tatml_star-0.png"]
    assert "the matrix that TATML, block 0 learnt" in listed[2].caption
    assert "the matrix that TATML, block 1 learnt" in listed[3].caption
    assert "the matrix that TATML* learnt" in listed[4].caption
    rows = [label.get_text() for label in FIGURES["1"].axes[0].get_yticklabels()]
    assert rows == list(SMALL.pixel_features)
    assert len(read_pictures(out)) == 6


def test_the_sheet_shows_queries_of_the_test_half_with_neighbours_of_the_training_half(drawn):
    """A tick marks neighbours of the query's class; the images tell which sample is shown."""
    data, (train, test) = first_halves()
    axes = np.reshape(FIGURES["neighbours"].axes, (10, 7))
    assert [axes[0, place].get_title() for place in range(7)] == [
        *("query", "", "plain distance", "", "", "learnt distance", "")
    ]
    assert {axes[0, place].title.get_fontsize() for place in (0, 2, 5)} == {8}

    def shown(ax):
        (image,) = ax.images
        assert image.get_clim() == (0, 255)
        assert image.get_interpolation() == "nearest"
        assert len(ax.get_xticks()) == len(ax.get_yticks()) == 0
        same = np.all(data.images == np.asarray(image.get_array()), axis=(1, 2))
        return np.flatnonzero(same)[0]

    for row in axes:
        query = shown(row[0])
        assert query in test
        assert not row[0].texts
        for ax in row[1:]:
            near = shown(ax)
            assert near in train
            (mark,) = ax.texts
            right = data.target[near] == data.target[query]
            assert mark.get_text() == ("✓" if right else "✗")
            assert mark.get_position() == (0.96, 0.94)
            assert mark.get_fontsize() == 9
            assert mark.get_color() == ("#00734d" if right else "#b3340a")
            assert mark.get_bbox_patch().get_boxstyle().pad == 0.07  # 0.6 / 9, rounded
            styles = {(line.get_linewidth(), line.get_linestyle()) for line in ax.spines.values()}
            assert styles == {(2, "-" if right else ":")}


def test_images_of_floats_are_shown_from_0_to_1():
    ax = pictures.pyplot().figure().add_subplot()
    pictures.show_image(ax, np.full((2, 2), 0.25))
    assert ax.images[0].get_clim() == (0, 1)
    pictures.pyplot().close("all")


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


def test_queries_are_spread_over_the_samples_of_a_case():
    right = np.zeros((2, 101), bool)  # one case only: wrong by both
    assert choose_queries(right, 5) == [0, 25, 50, 75, 100]
    assert choose_queries(right, 1) == [0]
    right[:, 50:] = True  # 50 are wrong by both, 51 right by both
    assert choose_queries(right, 5) == [0, 24, 49, 50, 100]


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
