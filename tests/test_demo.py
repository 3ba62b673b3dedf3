"""`make demo` tells a story whose numbers are those of the fit, and the page opens with it."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from report_helpers import make_record, write_records
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from tatml import TATML, Euclidean
from tatml.verification import error_rates
from tatml_paper import demo
from tatml_paper.report import figures
from tatml_paper.report.page import NEXT, write_report
from tatml_paper.report.story import STORY, read_story

Image = pytest.importorskip("PIL.Image")

FIGURES = {}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The folder of the demonstration; its figures are kept in FIGURES."""
    out = tmp_path_factory.mktemp("demo")
    save = figures.save_png

    def save_and_keep(path, figure, *options):
        FIGURES[path.stem] = figure
        save(path, figure, *options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "save_png", save_and_keep)
        demo.main([str(out)])
    return out


def text_of(chapter):
    return " ".join(chapter.lines)


def test_the_chapters_go_from_data_to_a_guarantee(told):
    assert [chapter.title for chapter in read_story(told)] == [
        "The data",
        "The plain distance",
        "The learnt distance and its threshold",
        "The certificate",
        "Verification with a guarantee",
    ]
    for chapter in read_story(told):
        assert chapter.pictures
        for picture in chapter.pictures:
            with Image.open((told / STORY).with_name(picture.file)) as image:
                assert image.format == "PNG"
                assert image.width == pytest.approx(4.6 * 130, abs=1)


def test_no_image_is_in_two_parts():
    parts = demo.split_digits()
    assert [len(part.images) for part in parts] == [718, 539, 540]
    rows = [tuple(row) for part in parts for row in part.images]
    assert sorted(rows) == sorted(tuple(row) for row in load_digits().data)
    for part in parts:
        same = part.digits[part.pairs[:, 0]] == part.digits[part.pairs[:, 1]]
        assert (same == (part.labels == 1)).all()
        assert 0.45 < np.mean(same) < 0.55


def test_the_numbers_are_those_of_the_fits(told):
    train, tune, test = demo.split_digits()
    metric = TATML(random_state=0).fit(train.images, train.digits)
    plain = Euclidean(random_state=0).fit(train.images, train.digits)
    chapters = [text_of(chapter) for chapter in read_story(told)]
    for told_of, fitted in ((chapters[1], plain), (chapters[2], metric)):
        rates = error_rates(fitted, test.pairs, test.labels, X=test.images)
        knn = KNeighborsClassifier(3).fit(fitted.transform(train.images), train.digits)
        right = knn.score(fitted.transform(test.images), test.digits)
        shares = (rates.false_non_match.value, rates.false_match.value, right)
        shown = re.findall(r"(\d+\.\d) %", told_of)
        assert shown == [f"{100 * share:.1f}" for share in shares]
    assert f"{metric.threshold_:.3f} in units" in chapters[2]
    assert f"below {metric.result_.dual:.6f}." in chapters[3]
    assert metric.result_.dual <= metric.result_.primal
    metric.calibrate_threshold(
        tune.pairs, tune.labels, X=tune.images, strategy="false_match_rate", max_rate=0.05
    )
    assert f"to {metric.threshold_:.3f}, so that at most 5 %" in chapters[4]
    assert f"it is {metric.calibration_.method}" in chapters[4]
    found = error_rates(metric, test.pairs, test.labels, X=test.images).false_match
    assert found.high < 0.05
    (ax,) = FIGURES["guarantee"].axes
    lines = {line.get_label(): line for line in ax.lines}
    assert_array_equal(lines["promised: at most 5 %"].get_ydata(), [5, 5])
    (bars,) = ax.containers
    assert_allclose(bars.lines[0].get_xydata(), [[metric.threshold_, 100 * found.value]])
    ends = bars.lines[2][0].get_segments()[0][:, 1]
    assert_allclose(ends, [100 * found.low, 100 * found.high])


def test_both_distances_are_drawn_on_equal_axes(told):
    for kind in ("distances", "map"):
        (plain,), (learnt,) = (FIGURES[f"{kind}-{name}"].axes for name in ("plain", "learnt"))
        assert plain.get_xlim() == learnt.get_xlim()
        assert plain.get_ylim() == learnt.get_ylim()
    for name in ("plain", "learnt"):
        (ax,) = FIGURES[f"map-{name}"].axes
        places = np.array([text.get_position() for text in ax.texts])
        assert np.abs(places).max() < ax.get_xlim()[1]  # no digit is cut off
        (ax,) = FIGURES[f"distances-{name}"].axes
        tops = [bar.get_height() for bars in ax.containers for bar in bars]
        assert 0.5 * ax.get_ylim()[1] < max(tops) < ax.get_ylim()[1]


def test_the_page_opens_with_the_story_and_ends_with_what_to_do_next(told):
    write_records(told, [make_record("tatml_star", r, 90.0 + r) for r in range(2)])
    text = write_report(told).read_text(encoding="utf-8")
    sections = re.findall(r'<section id="([\w-]+)"', text)
    assert sections[:6] == [*(f"story-{place}" for place in range(1, 6)), "compared"]
    assert sections[-1] == "next"
    assert text.index("Verification with a guarantee") < text.index("What was compared")
    assert text.count("data:image/png") == 7
    for chapter in read_story(told):
        assert chapter.lines[0].split(".")[0] in text


def test_the_end_names_cells_in_full_words_and_the_next_steps(told, capsys):
    records = [make_record(method, 0, 90.0) for method in ("tatml_star", "euc")]
    write_records(told, records)
    demo.main([str(told), "--end"])
    printed = capsys.readouterr().out
    assert "  Virus, one scale (100 %): Euc 90.0, TATML* 90.0" in printed
    words = " ".join(printed.split())
    assert all(" ".join(line.split()) in words for line in NEXT)
    assert printed.splitlines()[-1].endswith(f"{told}/report.html")


def test_a_story_is_json_that_keeps_its_letters(told):
    text = (told / STORY).read_text(encoding="utf-8")
    assert "8 × 8" in text
    assert len(json.loads(text)) == 5
