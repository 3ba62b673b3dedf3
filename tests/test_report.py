"""The report: what it says, and that it is one well-formed page without any reference outside."""

import base64
import json
import re
import sys
import tomllib
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from report_helpers import (
    ATTACK,
    all_records,
    make_record,
    object_records,
    sensitivity_records,
    table_records,
    write_records,
)
from scipy import stats

from tatml_paper.methods import METHODS
from tatml_paper.report.compared import FEATURE_LINES, METHOD_LINES
from tatml_paper.report.html import (
    Column,
    HtmlFigure,
    HtmlTable,
    Section,
    Value,
    data_uri,
    fill_page,
    join,
    make_environment,
    paragraphs,
)
from tatml_paper.report.page import (
    describe_ranges,
    seeds_line,
    summary_html,
    time_line,
    versions_table,
    write_report,
)
from tatml_paper.report.pictures import MANIFEST
from tatml_paper.report.results import Results
from tatml_paper.report.story import Chapter, read_story, write_story
from tatml_paper.report.summary import compare_by_object, describe_completeness
from tatml_paper.report.tables import (
    comparison_table,
    failure_table,
    object_table,
    overview_table,
    run_table,
    settings_table,
    time_table,
    verification_table,
)
from tatml_paper.settings import FEATURE_TITLES

VOID = {"meta", "link", "img", "br", "input", "hr"}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


class Page(HTMLParser):
    """Collects tags with their attributes, and checks that what is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def attributes(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


SNAPSHOT = Path(__file__).with_name("report_snapshot.txt")


def words_of(page):
    """The text of the page, one line per element, without the time at which it was written."""
    lines = [" ".join(part.split()) for part in page.text]
    return re.sub(r"Page written [^U]*UTC", "", "\n".join(filter(None, lines)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("report"))


def make_folder(place):
    folder = write_records(place, all_records())
    (folder / MANIFEST).parent.mkdir()
    picture = {
        "file": "a.png",
        "dataset": "digits",
        "title": ATTACK,
        "alternative": f"shows {ATTACK}",
        "caption": "A pixel",
        "drawing": False,
    }
    (folder / MANIFEST).with_name("a.png").write_bytes(PIXEL)
    listed = [picture, {**picture, "file": "gone.png"}]
    (folder / MANIFEST).write_text(json.dumps(listed), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def text(folder):
    path = write_report(folder)
    assert path == folder / "report.html"
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


# The page


def test_nothing_is_fetched_from_elsewhere(text, page):
    assert "://" not in text
    assert not re.search(r"@import|url\s*\(|\bfetch\b|XMLHttpRequest|\bimport\b", text)
    links = [a[k] for _, a in page.tags for k in ("src", "href", "srcset", "action") if k in a]
    assert all(link.startswith(("data:", "#")) for link in links)


def test_the_size_is_bounded(text):
    assert len(text.encode()) < 5e6


def test_images_are_data_with_words_for_those_who_do_not_see_them(page):
    images = page.attributes("img")
    kinds = [re.match(r"data:(image/[a-z+]+);base64,", image["src"])[1] for image in images]
    # Nine cells, one by object, the hostile one; one curve; the picture that is there.
    assert kinds.count("image/svg+xml") == 12
    assert kinds.count("image/png") == 1
    assert all(len(image["alt"]) > 10 for image in images)


def test_data_uris_hold_what_was_drawn(page):
    sources = [image["src"].partition(",")[2] for image in page.attributes("img")]
    contents = [base64.b64decode(source, validate=True) for source in sources]
    assert sum(content == PIXEL for content in contents) == 1
    assert all(b"<svg" in content for content in contents if content != PIXEL)


def test_given_text_stays_text(text, page):
    assert ATTACK not in text
    assert "onerror" not in {name for _, attributes in page.tags for name in attributes}
    assert len(page.attributes("script")) == 1
    shown = "".join(page.text)
    assert shown.count(ATTACK) >= 4  # the method, its parameters, a version, an error, a title
    assert f"ValueError: {ATTACK}" in shown


def test_only_the_script_of_the_page_may_run(text, page):
    policy = next(a["content"] for a in page.attributes("meta") if "http-equiv" in a)
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_ids_are_unique_and_links_lead_somewhere(page):
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all(link["href"][1:] in ids for link in page.attributes("a"))
    labels = [a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a]
    assert labels
    assert set(labels) <= set(ids)


def test_a_phone_and_a_screen_reader_are_told_what_they_need(page):
    names = {a.get("name"): a.get("content") for a in page.attributes("meta")}
    assert "width=device-width" in names["viewport"]
    assert page.attributes("html")[0]["lang"] == "en"
    tables = len(page.attributes("table"))
    assert len(page.attributes("caption")) == tables >= 8
    headers = [a for a in page.attributes("th") if a["scope"] == "col"]
    assert all(a["aria-sort"] == "none" for a in headers)
    assert sum(a.get("class") == "scroll" for a in page.attributes("div")) == tables


def test_the_same_records_give_the_same_page(folder, text):
    def without_date(page):
        return re.sub(r"Page written [^.]+\.", "", page)

    again = write_report(folder).read_text(encoding="utf-8")
    assert without_date(again) == without_date(text)


def test_the_wheel_contains_all_files_that_are_not_python():
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["setuptools"]["package-data"].items()
    packed = {
        path
        for package, patterns in packages
        for pattern in patterns
        for path in (root / "src" / package).glob(pattern)
    }
    found = {path for package, _ in packages for path in (root / "src" / package).rglob("*.*")}
    assert {path for path in found if path.suffix not in (".py", ".pyc")} == packed


def test_the_words_of_the_page_are_those_of_the_snapshot(page):
    """A changed word, number or order shows here; `python tests/test_report.py` writes it anew."""
    assert words_of(page).splitlines() == SNAPSHOT.read_text(encoding="utf-8").splitlines()


def test_the_footer_says_when_results_and_page_were_made(page):
    words = " ".join(" ".join(page.text).split())
    assert re.search(r"Results made from \S+ to \S+\.", words)
    assert re.search(r"Page written \d{4}-\d\d-\d\d \d\d:\d\d UTC\.", words)


def test_a_folder_without_records_gives_a_page_that_says_so(tmp_path):
    page = Page(write_report(tmp_path / "new").read_text(encoding="utf-8"))
    assert "There are no results yet." in page.text
    assert page.attributes("table") == []


# What it says


def results_of(records):
    return Results(json.loads(json.dumps(records)))


def test_cells_won_and_lost_against_the_printed_numbers():
    star = {("virus", "M=2;(1,.5)"): -0.5, ("virus", "M=1;(.5)"): 0.0}
    said = summary_html(results_of(table_records(star)))
    assert "won 7 of 9 cells; level in 1: Virus, one scale (50 %) (51.20 against 51.20 °)" in said
    assert "lost 1: Virus, two scales (100 %, 50 %) (66.30 against 66.80 °)" in said


def test_competitors_are_compared_on_the_same_cells_only():
    records = [r for r in table_records() if r["method"] != "euc" or r["dataset"] == "virus"]
    assert "our own run of Euc: won 3 of 3 cells." in summary_html(results_of(records))


def test_methods_are_compared_on_the_same_halves_only():
    ours = [make_record("tatml_star", repeat, 90.0 - 10.0 * repeat) for repeat in range(3)]
    theirs = [make_record("nca", 0, 91.0), make_record("nca", 7, 20.0)]
    results = results_of([*ours, *theirs])
    behind = column(comparison_table(results, results.cells), LEAD)
    assert sorted(value.text for value in behind) == ["–", "−1.00"]
    assert "our own run of NCA: won 0 of 1 cells; lost 1: Virus, one scale (100 %) (90.00" in (
        summary_html(results)
    )


def test_other_features_of_a_data_set_are_no_more_cells_of_the_paper():
    records = [r for r in table_records() if r["dataset"] == "virus"]
    again = [
        make_record(
            r["method"], r["repeat"], r["accuracy"], features=r["features"], dataset="virus-gabor"
        )
        for r in records
    ]
    said = summary_html(results_of([*records, *again]))
    assert "3 of the paper&#39;s nine cells were run" in said


LEAD = "Fixed configuration − this method"


def column(table, title):
    place = [column.title for column in table.columns].index(title)
    return [row[place] for row in table.rows]


def test_the_list_holds_ours_the_papers_and_their_difference():
    accuracies = [58.0, 59.0, 59.5]
    records = [make_record("euc", r, a) for r, a in enumerate(accuracies)]
    records += [make_record("tatml_star", r, a + 3 + r / 10) for r, a in enumerate(accuracies)]
    results = results_of(records)
    table = comparison_table(results, results.cells)
    assert [value.text for value in column(table, "Method")] == ["Euc", "TATML*"]
    assert column(table, "Accuracy")[0].number == pytest.approx(np.mean(accuracies))
    assert column(table, "Standard deviation")[0].number == pytest.approx(
        np.std(accuracies, ddof=1)
    )
    assert column(table, "Paper")[0].number == 58.13
    assert column(table, "Ours − paper")[0].number == pytest.approx(np.mean(accuracies) - 58.13)
    assert stats.ttest_1samp(accuracies, 58.13).pvalue > 0.05
    assert column(table, "Ours − paper")[0].text.endswith(" °")
    assert column(table, "Ours − paper")[0].tone == ""
    assert column(table, LEAD)[0].tone == "up"
    assert column(table, LEAD)[0].text == "+3.10"
    assert [value.best for value in column(table, "Accuracy")] == [False, True]
    assert table.marked == {1}


def test_a_difference_to_the_paper_has_its_sign_and_a_colour_if_it_is_significant():
    results = results_of([make_record("euc", r, 50.0 + r / 10) for r in range(5)])
    (value,) = column(comparison_table(results, results.cells), "Ours − paper")
    assert value.text == "−7.93"
    assert value.tone == "down"


def test_a_story_is_written_to_a_new_folder_and_replaced(tmp_path):
    for title in ("The data", "The metric"):
        chapters = [Chapter(title, ["Two classes."])]
        write_story(tmp_path / "new" / "out", chapters)
        (found,) = read_story(tmp_path / "new" / "out")
        assert found.title == title


def test_missing_cells_are_dashes():
    records = [make_record("euc", 0, 90.0), make_record("maz", 0, 80.0, features="M=1;(.5)")]
    results = results_of(records)
    table = overview_table(results, results.cells)
    assert [column.numeric for column in table.columns] == [False, True, True]
    rows = {row[0].text: row[1:] for row in table.rows}
    assert [value.text for value in rows["Euc"]] == ["90.00", "–"]
    assert [value.best for value in rows["Euc"]] == [True, False]
    assert [value.text for value in rows["Maz"]] == ["–", "80.00"]


def test_by_object_says_what_is_left_and_the_gain():
    halves = {"dataset": "eth80", "features": "M=2;(1,.5)"}
    records = [*object_records(), make_record("euc", accuracy=95.0, **halves)]
    results = results_of(records)
    table = object_table(results)
    assert [value.text for value in column(table, "Difference from Euc")] == ["–", "+10.00"]
    assert column(table, "Difference from random halves")[0].number == -24.0
    assert [s.difference.gain for s in compare_by_object(results)] == [10.0]
    assert object_table(results_of(table_records())) is None


def test_verification_is_in_per_cent_and_says_what_the_learnt_threshold_loses():
    records = [make_record("euc", auc=0.8, eer=25.0), make_record("maz", auc=0.9, eer=10.0)]
    table = verification_table(results_of(records))
    assert [value.number for value in column(table, "Area under the ROC curve")] == [80.0, 90.0]
    assert [value.number for value in column(table, "Equal error rate")] == [25.0, 10.0]
    assert column(table, "Accuracy lost by the learnt threshold")[1].number == 1.0
    assert column(table, "Balanced accuracy, learnt threshold")[0].text == "–"


def test_settings_are_compared_with_the_papers_point():
    records = [record for n in (0, 1) for record in sensitivity_records(first_repeat=2 * n)]
    for record in records:
        if record["setting"].get("c0") == 0.01:
            record["accuracy"] -= 5.0
            record["median_squared"] = 2.0
    table = settings_table(results_of(records))
    assert [value.text for value in column(table, "Setting")][:3] == [
        "c0 = 0.5, μ0 = 1.0",
        "c0 = 1.0, μ0 = 1.0",
        "c0 = 0.01",
    ]
    gains = [value.text for value in column(table, "Difference from c0 = μ0 = 1")]
    assert gains == ["+0.00 °", "+0.00 °", "−5.00", *["+0.00 °"] * 4]
    assert column(table, "b0 / median")[2].number == 0.25
    assert column(table, "b0 / median")[0].text == "–"


def test_the_study_says_how_far_accuracy_and_threshold_move():
    records = sensitivity_records()
    for record in records:
        if record["setting"].get("c0") == 0.01:
            record["b0"] = 0.125
        if record["setting"].get("study") == "grid":
            record["b0"] = None
    said = describe_ranges(results_of(records))
    assert said == [
        "TATML, the paper's grid: accuracy 95.50 %.",
        "TATML, values of c0: accuracy 95.50 %, b0 from 0.125 to 0.5.",
    ]


def test_two_data_sets_of_the_study_are_not_mixed():
    records = sensitivity_records()
    others = [
        make_record(
            "tatml",
            r["repeat"],
            50.0,
            setting=r["setting"],
            experiment="sensitivity",
            dataset="textures",
            features=r["features"],
        )
        for r in records
    ]
    said = describe_ranges(results_of([*records, *others]))
    assert (
        said[0]
        == "ETH-80, two scales (100 %, 50 %): TATML, the paper's grid: accuracy 95.50 %, b0 0.5."
    )
    assert (
        "Textures, two scales (100 %, 50 %): TATML, the paper's grid: accuracy 50.00 %, b0 0.5."
        in said
    )


def test_methods_and_features_are_explained_before_cells_are_won_and_lost(text):
    """The reader knows what was played before the results are told."""
    assert set(METHOD_LINES) == set(METHODS)
    assert set(FEATURE_LINES) == set(FEATURE_TITLES)
    assert all(line.endswith(".") and len(line) < 130 for line in METHOD_LINES.values())
    sections = re.findall(r'<section id="([\w-]+)"', text)
    assert sections[:3] == ["compared", "results", "table1"]
    assert sections[-1] == "next"
    assert text.index(METHOD_LINES["euc"]) < text.index("won 9 of 9 cells")


def test_two_repeats_are_not_tested_and_nothing_is_marked(tmp_path):
    records = [
        make_record(m, r, 80.0 + r + 3 * (m == "maz")) for m in ("euc", "maz") for r in (0, 1)
    ]
    words = write_report(write_records(tmp_path, records)).read_text(encoding="utf-8")
    assert "With fewer than 3 repeats no difference is tested, and none is marked." in words
    assert "°" not in words
    assert 'class="up"' not in words
    more = [*records, *(make_record(m, 2, 80.0) for m in ("euc", "maz"))]
    words = write_report(write_records(tmp_path, more)).read_text(encoding="utf-8")
    assert "°: not significantly different from it" in words


def test_without_jinja2_the_remedy_is_named(monkeypatch):
    make_environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'Jinja2: pip install "\.\[report\]"'):
        make_environment()
    make_environment.cache_clear()


def test_the_summary_says_where_a_printed_number_is_not_reached():
    records = table_records()
    for record in records:
        if record["method"] == "tatml" and record["dataset"] == "virus":
            record["accuracy"] -= 10.0
    said = summary_html(results_of(records))
    assert "reaches its printed number in 6 of 9 cells; it is significantly below in Virus" in said
    assert "Virus, one scale (100 %) (51.73 against 61.73)" in said


def test_failures_are_listed_until_the_run_goes_well():
    failed = make_record("euc", error="ValueError: no", accuracy=None)
    table = failure_table(results_of([failed]))
    assert table.rows[0][-1].text == "ValueError: no"
    assert failure_table(results_of([failed, make_record("euc")])) is None
    anew = make_record("euc") | {"key": "declared anew", "digest": "other"}
    assert failure_table(results_of([failed, anew])) is None
    assert "1 run failed" in describe_completeness(results_of([failed, make_record("maz")]), 0)


def test_all_runs_show_what_was_chosen_and_the_latest_record_of_a_run():
    results = results_of([make_record(accuracy=1.0), make_record(accuracy=2.0)])
    table = run_table(results)
    assert [value.text for value in column(table, "Accuracy")] == ["2.00"]
    assert column(table, "Parameters")[0].text == "C = 10.0"
    assert column(table, "Duality gap")[0].text == "1.0e−09"


def test_the_study_can_be_filtered_by_its_parts():
    table = settings_table(results_of(sensitivity_records()))
    choices = [column.title for column in table.columns if column.choice]
    assert choices[0] == "Study"
    assert "Method" in choices


def test_shares_of_time_sum_to_one_hundred():
    records = [make_record("euc", seconds=1.0)]
    records += [make_record("maz", repeat, seconds=1.5) for repeat in range(2)]
    table = time_table(results_of(records), "method", "Method")
    assert [value.number for value in column(table, "Share, %")] == [75.0, 25.0]
    assert [value.number for value in column(table, "Seconds")] == [3.0, 1.0]
    assert [value.number for value in column(table, "Seconds per run")] == [1.5, 1.0]


def test_methods_and_cells_are_in_the_declared_order_whatever_the_records():
    records = table_records()
    forward, backward = results_of(records), results_of(records[::-1])
    assert forward.cells == backward.cells
    assert forward.methods == backward.methods == ["tatml", "euc", "maz", "itml", "tatml_star"]


# Pieces


def test_a_row_of_another_length_is_refused():
    table = HtmlTable("t", "T", [Column("a"), Column("b")], [[Value("1")]])
    with pytest.raises(ValueError, match="zip"):
        table.html()


def test_cells_are_numbers_code_or_text():
    columns = [Column("a"), Column("b", numeric=True), Column("c", code=True), Column("d")]
    row = [Value("r"), Value("1.5 s", 1.5), Value("x"), Value("t", note="more")]
    page = Page(HtmlTable("t", "T", columns, [row, row]).html())
    (_, *titles, row_title, _) = page.attributes("th")
    assert [title.get("class") for title in titles] == ["n", None, None]
    assert row_title == {"scope": "row"}
    cells = [{"class": "n", "data-value": "1.5"}, {"class": "code"}, {"data-value": "t"}]
    assert page.attributes("td") == 2 * cells


@pytest.mark.parametrize("hostile", [ATTACK, '"', "&amp;", "$style", "${title}"])
def test_elements_escape_what_they_are_given(hostile):
    table = HtmlTable("t", hostile, [Column(hostile)], [[Value(hostile, note=hostile)]], hostile)
    figure = HtmlFigure(data_uri(PIXEL, "image/png"), hostile, hostile)
    section = table.html() + figure.html()
    page = Page(fill_page(hostile, join([]), [Section("s", hostile, section)], join([])))
    assert page.attributes("img")[0]["alt"] == hostile
    assert "".join(page.text).count(hostile) == 11, hostile
    assert len(page.attributes("script")) == 1, hostile


def test_parts_without_content_are_left_out():
    nothing, text = join([]), paragraphs(["text"])
    page = Page(fill_page("T", text, [Section("s", "S", nothing), Section("t", "T", text)], text))
    assert [a["id"] for a in page.attributes("section")] == ["t"]
    assert settings_table(results_of([make_record("euc")])) is None


def test_what_was_run_is_counted():
    results = results_of([make_record("euc", repeat) for repeat in range(3)] + [make_record("maz")])
    said = "4 runs, 1 to 3 repeats per cell and method"
    assert describe_completeness(results, 9) == f"{said}."
    assert describe_completeness(results, 8) == f"{said}; 8 of the paper's nine cells were run."
    assert describe_completeness(results_of([]), 9) == "0 runs, 0 repeats per cell and method."


def test_seeds_and_times_are_summed_up_in_a_line():
    records = [make_record("euc", r, seed=100 + r, seconds=30.0) for r in range(13)]
    listed = ", ".join(str(100 + r) for r in range(12))
    assert seeds_line(results_of(records)) == (f"13 seeds, listed per run in All runs: {listed} ….")
    assert seeds_line(results_of(records[:12])).endswith(f": {listed}.")
    slow = make_record("nca", seconds=810.0)
    assert time_line(results_of([*records, slow])).startswith(
        "The fits took 20.0 minutes of one core; NCA took 68 % of them."
    )
    assert "took 0 % of them" in time_line(results_of([make_record(seconds=0.0)]))


def test_forty_versions_per_record_are_shown():
    versions = {f"package {i:02}": "1.0" for i in range(41)}
    records = [make_record("euc", r, versions=versions) for r in range(2)]
    table = versions_table(results_of(records))
    assert [row[0].text for row in table.rows] == sorted(versions)[:40]
    assert {row[2].text for row in table.rows} == {"2"}


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        written = write_report(make_folder(Path(place))).read_text(encoding="utf-8")
    SNAPSHOT.write_text(words_of(Page(written)) + "\n", encoding="utf-8")
