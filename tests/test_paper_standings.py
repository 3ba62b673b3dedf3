"""The rule for what is highest, level and significant, and that both kinds of output follow it."""

import re

import numpy as np
import pytest
from report_helpers import make_record, sensitivity_records, table_records
from scipy import stats

from tatml_paper import read_records
from tatml_paper.cells import Cell, scores_by_cell
from tatml_paper.markdown.sensitivity import sensitivity_text
from tatml_paper.markdown.table1 import table1_text
from tatml_paper.report.results import Results
from tatml_paper.report.tables import comparison_table, overview_table, settings_table
from tatml_paper.standings import (
    Mark,
    compare,
    compare_with_method,
    compare_with_printed,
    mark_column,
    p_value,
)

# The t-test


def test_the_t_test_is_that_of_the_paired_differences():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 5))
    ours = p_value(dict(enumerate(first)), dict(enumerate(second)))
    assert ours == pytest.approx(stats.ttest_rel(first, second).pvalue, rel=1e-12)
    assert ours == pytest.approx(stats.ttest_1samp(first - second, 0).pvalue, rel=1e-12)
    against = p_value(dict(enumerate(first)), 0.3)
    assert against == pytest.approx(stats.ttest_1samp(first, 0.3).pvalue, rel=1e-12)


def test_the_t_test_by_hand():
    # differences 1, 2, 3: mean 2, deviation 1, t = 2√3 with 2 degrees of freedom
    t = 2 * 3**0.5
    by_hand = 1 - t / (2 + t**2) ** 0.5  # two sides, in closed form for 2 degrees of freedom
    assert p_value({0: 1.0, 1: 2.0, 2: 3.0}, dict.fromkeys(range(3), 0.0)) == pytest.approx(by_hand)


def test_only_repeats_of_both_count():
    assert p_value({0: 1.0, 1: 2.0, 9: 50.0}, {0: 0.0, 1: 0.5, 7: 3.0}) == p_value(
        {0: 1.0, 1: 2.0}, {0: 0.0, 1: 0.5}
    )
    assert np.isnan(p_value({0: 1.0}, {0: 2.0}))
    assert np.isnan(p_value({0: 1.0}, 2.0))


def test_equal_differences_need_no_test():
    same = {0: 90.0, 1: 91.0}
    assert p_value(same, same) == 1.0
    assert p_value({0: 91.1, 1: 92.1}, {0: 90.1, 1: 91.1}) == 0.0


# Marks of a column


def column(**accuracies):
    return {name: dict(enumerate(values)) for name, values in accuracies.items()}


def marks_of(digits=2, **accuracies):
    marks = mark_column(column(**accuracies), digits)
    return {name: mark.name for name, mark in marks.items()}


def test_the_highest_is_marked_and_what_differs_significantly_is_not():
    marks = marks_of(
        low=[80.0, 80.2, 79.9, 80.1, 80.0],
        high=[90.0, 90.1, 90.3, 89.9, 90.0],
        close=[90.1, 89.9, 90.2, 89.8, 90.1],
    )
    assert marks == {"low": "APART", "high": "HIGHEST", "close": "UNDECIDED"}


def test_what_is_shown_with_the_same_digits_is_equally_high():
    """Even if the test would separate them: the table does not show the difference."""
    first, second = [90.001, 90.002, 90.003], [90.004, 90.005, 90.006]
    assert p_value(dict(enumerate(first)), dict(enumerate(second))) < 0.05
    assert set(marks_of(first=first, second=second).values()) == {"HIGHEST"}
    assert marks_of(3, first=first, second=second) == {"first": "APART", "second": "HIGHEST"}
    assert marks_of(a=[90.0], b=[90.0]) == {"a": "HIGHEST", "b": "HIGHEST"}


def test_columns_with_too_few_repeats_to_test_have_no_mark_but_the_highest():
    """With two repeats, equal differences would give p = 0: significant by accident."""
    assert marks_of(a=[90.0], b=[89.9]) == {"a": "HIGHEST", "b": "APART"}
    assert p_value({0: 90.0, 1: 91.0}, {0: 89.0, 1: 90.0}) == 0.0
    assert marks_of(a=[90.0, 91.0], b=[89.0, 92.0]) == {"a": "HIGHEST", "b": "HIGHEST"}
    assert marks_of(a=[90.0, 91.0], b=[88.0, 92.0]) == {"a": "HIGHEST", "b": "APART"}
    three = marks_of(a=[90.0, 91.0, 90.0], b=[88.0, 92.0, 90.0], c=[89.0, 90.0])
    assert three == {"a": "HIGHEST", "b": "UNDECIDED", "c": "UNDECIDED"}


def test_only_methods_with_the_most_repeats_can_lead():
    """One lucky half is not comparable with the mean of three."""
    marks = marks_of(lucky=[99.0], equal=[89.0], three=[88.0, 89.0, 90.0])
    assert marks == {"lucky": "UNDECIDED", "equal": "UNDECIDED", "three": "HIGHEST"}


def test_a_column_without_scores_has_no_highest():
    assert mark_column({}) == {}
    assert mark_column({"a": {}}) == {"a": Mark.APART}


# Differences


def test_above_level_and_below_are_decided_in_the_digits_shown():
    ours = {0: 51.1, 1: 51.3}
    for number, expected in (
        (51.204, "level"),
        (51.196, "level"),
        (51.19, "above"),
        (51.21, "below"),
    ):
        difference = compare(ours, number)
        found = {
            "above": difference.is_above,
            "level": difference.is_level,
            "below": difference.is_below,
        }
        assert [word for word, holds in found.items() if holds] == [expected], number
    assert compare(ours, 51.204, digits=3).is_below


def test_a_difference_is_that_of_the_common_halves():
    difference = compare({0: 90.0, 1: 80.0, 2: 70.0}, {0: 91.0, 7: 20.0})
    assert (difference.ours, difference.theirs, difference.gain) == (90.0, 91.0, -1.0)
    assert not difference.is_tested
    assert not difference.is_significant
    assert difference.mark == ""
    assert compare({0: 90.0}, {1: 80.0}) is None
    assert compare({}, 3.0) is None
    tens = {repeat: 80.0 + repeat for repeat in range(3)}
    certain = compare({repeat: value + 10 for repeat, value in tens.items()}, tens)
    assert (certain.is_significant, certain.mark, certain.text) == (True, "", "+10.00")
    few = compare({0: 90.0, 1: 91.0}, {0: 80.0, 1: 81.0})
    assert (few.p, few.is_significant, few.text) == (0.0, False, "+10.00")
    uncertain = compare({0: 90.0, 1: 92.0, 2: 91.0}, {0: 91.0, 1: 90.0, 2: 90.5})
    assert 0.05 < uncertain.p < 1
    assert (uncertain.is_significant, uncertain.text) == (False, "+0.50 °")
    assert not compare({0: 90.0, 1: 91.0}, 80.0).is_tested
    assert compare({0: 90.0, 1: 91.0, 2: 92.0}, 80.0).is_tested


def test_cells_without_the_method_or_without_common_halves_are_left_out():
    records = [make_record("tatml_star", 0, 90.0), make_record("euc", 0, 80.0)]
    records += [
        make_record("tatml_star", 0, 90.0, features="M=1;(.5)"),
        make_record("euc", 1, 80.0, features="M=1;(.5)"),
        make_record("euc", 0, 80.0, features="M=2;(1,.5)"),
        make_record("tatml_star", 0, 90.0, dataset="digits", features="vector"),
    ]
    scores = scores_by_cell(records)
    (standing,) = compare_with_method(scores, "euc", list(scores))
    assert standing.cell == Cell("virus", "halves", "M=1;(1)")
    assert (standing.rival, standing.difference.gain) == ("euc", 10.0)
    printed = {s.cell.features: s.rival for s in compare_with_printed(scores)}
    assert printed == {"M=1;(1)": "tatml", "M=1;(.5)": "maz"}


# The Markdown tables and the page show the same marks


def noisy_records():
    """All nine cells with noise; on Virus a tie, a method with one repeat and a missing one."""
    rng = np.random.default_rng(1)
    records = []
    for record in table_records():
        place = {name: record[name] for name in ("dataset", "features")}
        accuracy = round(record["accuracy"] + rng.normal(scale=0.8), 3)
        if (record["method"], place["features"], place["dataset"]) != ("maz", "M=1;(1)", "virus"):
            records.append(make_record(record["method"], record["repeat"], accuracy, **place))
        if (record["method"], place["dataset"]) == ("tatml_star", "virus"):
            records.append(make_record("gmml", record["repeat"], accuracy, **place))
    return [*records, make_record("nca", 0, 99.0, features="M=1;(1)")]


def markdown_marks(text):
    """{(data set, method, column): mark} of the tables under "All methods"."""
    section = text[text.index("## All methods") : text.index("## The fixed configuration")]
    marks = {}
    for part in section.split("\n### ")[1:]:
        title, *lines = part.split("\n")
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
        header = rows[0]
        for method, *cells in rows[2:]:
            for features, cell in zip(header, cells, strict=True):
                bold = "bold" if cell.startswith("**") else ""
                mark = bold or ("°" if cell.endswith(" °") else cell if cell == "–" else "")
                title_of_method = method.replace("\\", "").removesuffix(" (exploratory)")
                marks[title, title_of_method, features] = mark
    return marks


def page_marks(results):
    marks = {}
    table = overview_table(results, results.cells)
    for row in table.rows:
        for cell, value in zip(results.cells, row[1:], strict=True):
            mark = "bold" if value.best else "°" if value.text.endswith(" °") else ""
            mark = "–" if value.text == "–" else mark
            place = cell.title.partition(",")[0], row[0].text, cell.features
            marks[place] = mark
    return marks


@pytest.mark.parametrize("records", [noisy_records, lambda: read_records("results")])
def test_both_outputs_show_the_same_marks(records, request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    results = Results([r for r in records() if r["dataset"] in ("eth80", "brodatz", "virus")])
    results = Results([r for r in results.table1 if r["split"] == "halves"])
    text = table1_text(results.table1)
    by_page, by_markdown = page_marks(results), markdown_marks(text)
    # The page has one table for all data sets, so also rows that a data set has nothing for.
    assert by_markdown == {place: mark for place, mark in by_page.items() if place in by_markdown}
    assert {by_page[place] for place in by_page.keys() - by_markdown.keys()} <= {"–"}
    assert {"bold", "°", ""} <= set(by_page.values())
    leads = text[text.index("Its accuracy minus") :]
    below = dict(re.findall(r"(\w+ on \w+ \S+) \(−[\d.]+( °|)\)", text))
    table = comparison_table(results, results.cells)
    names = [c.title for c in table.columns]
    place, ahead = names.index("Ours − paper"), names.index("Fixed configuration − this method")
    rows = iter(table.rows)
    for cell in results.cells:
        for method in results.scores[cell]:
            row = next(rows)
            listed = below.get(f"{row[0].text} on {cell.dataset} {cell.features}")
            if listed is not None:
                assert row[place].text.endswith("°") == (listed == " °"), row
            if row[ahead].text != "–" and method in ("euc", "maz", "itml", "gmml", "nca"):
                line = f"| {cell.dataset} | {cell.features} |"
                line = next(one for one in leads.split("\n") if one.startswith(line))
                assert f"| {row[ahead].text} |" in line, row


def test_the_study_has_the_same_marks_in_both_outputs():
    records = sensitivity_records()
    for record in records:
        setting = record["setting"]
        if setting["study"] == "grid":
            shift = {0.5: 0.0004, 1.0: 0.0}[setting["c0"]]
            record["accuracy"] = 95.0 + record["repeat"] + shift
    low = [
        r | {"setting": {"study": "grid", "c0": 0.25, "mu0": 1.0}, "key": f"low {r['key']}"}
        for r in records[:4]
        if r["setting"] == {"study": "grid", "c0": 0.5, "mu0": 1.0}
    ]
    records += [r | {"accuracy": 90.0 + r["repeat"]} for r in low]
    text = sensitivity_text(records)
    assert "| c0 = 0.5 | – | – | **95.500 ± 0.707** | – |" in text
    assert "| c0 = 1.0 | – | – | **95.500 ± 0.707** | – |" in text
    assert "| c0 = 0.25 | – | – | 90.500 ± 0.707 | – |" in text
    table = settings_table(Results(records))
    place = [c.title for c in table.columns].index("Accuracy")
    shown = {row[0].text: row[place] for row in table.rows if row[1].text == "the paper's grid"}
    assert {name: (value.text, value.best) for name, value in shown.items()} == {
        "c0 = 0.25, μ0 = 1.0": ("90.500 ± 0.707", False),
        "c0 = 0.5, μ0 = 1.0": ("95.500 ± 0.707", True),
        "c0 = 1.0, μ0 = 1.0": ("95.500 ± 0.707", True),
    }


def test_differences_that_are_equal_up_to_rounding_have_no_spread():
    """A spread of 1e-12 of the differences, or of 1e-12, is rounding; 1e-9 is no difference."""
    for differences, expected in (
        ((1.0, 1.0 + 1.2e-12), 0.0),  # a standard deviation of 0.85e-12
        ((100.0, 100.0 + 1.2e-10), 0.0),
        ((1.5e-9, 1.5e-9), 0.0),
        ((0.9e-9, 0.9e-9), 1.0),
        ((-0.9e-9, -0.9e-9), 1.0),
        ((0.0, 1e-13), 1.0),
    ):
        assert p_value(dict(enumerate(differences)), 0.0) == expected, differences
    for differences in ((1.0, 1.0 + 2.2e-12), (100.0, 100.0 + 2.2e-10)):  # a spread of 1.6e-12
        assert 0 < p_value(dict(enumerate(differences)), 0.0) < 1e-9, differences
