"""The Markdown tables and the sensitivity study."""

import shutil
from pathlib import Path

import pytest
from report_helpers import make_record, sensitivity_records

from tatml import PAPER
from tatml_paper import METHODS, run, write_tables
from tatml_paper.cells import Cell, best_printed, printed_numbers
from tatml_paper.format import format_number, format_spread
from tatml_paper.markdown.elements import make_table
from tatml_paper.markdown.sensitivity import sensitivity_text
from tatml_paper.markdown.table1 import table1_text
from tatml_paper.sensitivity import sensitivity_method, sensitivity_settings
from tatml_paper.settings import PRINTED, SCALES
from tatml_paper.tasks import make_tasks

FEATURES = [name for name, _ in SCALES]


# Elements


def test_tables_are_aligned_and_escaped():
    lines = make_table(["a|b", "c"], [["x\ny", "1"], ["z", "2"]]).split("\n")
    assert lines == ["| a\\|b | c |", "|---|---:|", "| x y | 1 |", "| z | 2 |"]


def test_numbers_have_a_true_minus_and_a_dash_if_there_is_none():
    nan, infinity = float("nan"), float("inf")
    assert (format_number(1.005, 1), format_number(-1.5)) == ("1.0", "−1.50")
    assert (format_number(-0.5, signed=True), format_number(0.25, signed=True)) == (
        "−0.50",
        "+0.25",
    )
    assert format_number(-0.001, signed=True) == "+0.00"
    assert {format_number(value) for value in (None, nan, infinity)} == {"–"}
    assert (format_spread(90.0, 1.0), format_spread(90.0, nan)) == ("90.00 ± 1.00", "90.00")


# table1.md


def records_of(accuracies, dataset="virus", features="M=2;(1,.5)", split="halves", **more):
    """Records of made-up accuracies: {method: [one per repeat]}."""
    return [
        make_record(
            method,
            repeat,
            accuracy,
            dataset=dataset,
            features=features,
            split=split,
            **{
                "auc": 0.75,
                "eer": 30.0,
                "balanced_learnt": 70.0 if METHODS[method].own_threshold else None,
                "balanced_calibrated": 71.0,
                "seconds_scoring": 1.0,
                "date": "2026-01-02T03:04:05+00:00",
            }
            | more,
        )
        for method, values in accuracies.items()
        for repeat, accuracy in enumerate(values)
    ]


@pytest.fixture(scope="module")
def text():
    accuracies = {
        "tatml": [64.0, 65.0, 66.0, 65.0, 65.0],
        "euc": [60.0, 60.5, 61.0, 60.2, 60.3],
        "tatml_star": [67.0, 67.5, 68.0, 67.2, 67.3],
        "lda": [67.1, 67.3, 68.1, 67.0, 67.4],
        "tatml_vec": [66.0, 66.5, 67.0, 66.2, 66.3],
    }
    by_object = records_of(
        {"euc": [70.0, 71.0], "tatml_star": [80.0, 81.5]}, "eth80", split="objects"
    )
    failed = records_of({"nca": [None]}, error="ValueError: no")
    return table1_text([*records_of(accuracies), *by_object, *failed])


def line_of(text, start, after=""):
    lines = text[text.index(after) :].split("\n")
    return next(line for line in lines if line.startswith(start))


def test_ours_stand_beside_the_printed_numbers(text):
    section = "## The paper's methods under its protocol"
    assert "**65.00 ± 0.71** (64.93; +0.07)" in line_of(text, "| TATML |", section)
    assert "60.40 ± 0.38 (60.53; −0.13)" in line_of(text, "| Euc |", section)
    assert "– (66.80)" in line_of(text, "| Maz |", section)


def test_printed_numbers_that_are_not_reached_are_named(text):
    (line,) = [line for line in text.split("\n") if line.startswith("Printed numbers")]
    assert line.endswith("Euc on virus M=2;(1,.5) (−0.13 °).")
    assert "TATML on virus" not in line
    far = table1_text(records_of({"euc": [50.0, 50.1, 49.9]}))
    assert "Euc on virus M=2;(1,.5) (−10.53)." in far
    assert "are reached" in table1_text(records_of({"euc": [61.0, 61.1, 61.2]}))


def test_the_highest_is_bold_and_what_is_close_is_marked(text):
    section = "## All methods"
    assert "**67.40 ± 0.38**" in line_of(text, "| TATML\\* |", section)
    assert "67.38 ± 0.43 °" in line_of(text, "| LDA + 3-NN |", section)
    assert "60.40 ± 0.38 |" in line_of(text, "| Euc |", section)
    assert "(exploratory)" in line_of(text, "| TATML, defaults, vectors", section)


def test_the_fixed_configuration_is_compared_with_everybody(text):
    section = "## The fixed configuration"
    assert "Above the best printed number in 1 of 1 cells." in text
    assert line_of(text, "| virus", section).endswith("| 67.40 | 66.80 (Maz) | +0.60 | yes |")
    rivals = text[text.index("Its accuracy minus") :]
    assert "+7.00" in line_of(rivals, "| virus")
    assert "+0.02 °" in line_of(rivals, "| virus")
    assert "+10.25" in line_of(rivals, "| eth80 by object")
    assert "it is above Euc in 1 of 1, LDA + 3-NN in 1 of 1." in text


def test_a_lead_is_that_on_the_halves_of_both():
    accuracies = {"tatml_star": [70.0, 60.0, 50.0], "nca": [71.0]}
    other = records_of({"tatml_star": [70.0], "euc": [60.0]}, features="M=1;(1)")
    text = table1_text([*records_of(accuracies), *other])
    assert "| −1.00 |" in line_of(text, "| virus | M=2", "Its accuracy minus")  # not tested
    assert "it is above Euc in 1 of 1, NCA in 0 of 1." in text
    assert "1–3 repeats per cell and method" in text


def test_ties_are_level_and_missing_methods_are_dashes():
    """A tie counts as neither above nor below, whichever of the two is compared."""
    tied = records_of({"tatml_star": [66.7, 66.9], "euc": [66.7, 66.9]})
    other = records_of({"tatml_star": [70.0], "lda": [60.0]}, features="M=1;(1)")
    text = table1_text([*tied, *other])
    assert "Above the best printed number in 1 of 2 cells." in text
    assert line_of(text, "| virus | M=2", "## The fixed").endswith("66.80 (Maz) | +0.00 | level |")
    assert line_of(text, "| virus | M=2", "Its accuracy") == "| virus | M=2;(1,.5) | +0.00 | – |"
    assert line_of(text, "| virus | M=1", "Its accuracy") == "| virus | M=1;(1) | – | +10.00 |"
    assert "it is above Euc in 0 of 1, LDA + 3-NN in 1 of 1." in text
    alone = table1_text(records_of({"tatml_star": [70.0]}, dataset="textures"))
    assert "Its accuracy minus" not in alone
    assert "best printed" not in alone


def test_classifiers_alone_have_no_verification():
    only = records_of({"svm": [90.0, 91.0]}, auc=None, eer=None)
    text = table1_text(only)
    assert "### Virus" not in text[text.index("## Same or different?") :]


def test_verification_times_commit_and_failures_are_there(text):
    section = "## Same or different?"
    assert "0.750 / 30.0 / 70.0 / 71.0" in line_of(text, "| TATML |", section)
    assert "0.750 / 30.0 / – / 71.0" in line_of(text, "| Euc |", section)
    assert "ETH-80 by object" in text
    assert "took 1.4 minutes of one core" in text  # 29 runs of 3 s
    assert "commit abc123, 2026-01-02" in text
    assert "ValueError: no" in text[text.index("## Runs that failed") :]


def test_times_are_sums_of_fitting_and_scoring_by_method_and_place():
    """The slowest method is first; a method that was not run on some data has a dash there."""
    slow = records_of({"lda": [90.0, 91.0]}, seconds=60.0)  # and 1 s each to score
    quick = records_of({"euc": [80.0]}, "eth80", split="objects", seconds=2.0)
    for record in quick:
        del record["seconds_scoring"]
    text = table1_text([*quick, *slow])
    assert "took 2.1 minutes of one core" in text  # 124 s
    lines = text[text.index("## Time by method") :].split("\n")[4:8]
    assert lines == [
        "| seconds | eth80 by object | virus | all | share |",
        "|---|---:|---:|---:|---:|",
        "| LDA + 3-NN | – | 122.0 | 122.0 | 98 % |",
        "| Euc | 2.0 | – | 2.0 | 2 % |",
    ]


def test_without_records_there_is_no_table():
    assert table1_text([]) == ""
    assert sensitivity_text([]) == ""


def test_the_printed_table_is_that_of_the_paper():
    best = {(d, f): best_printed(Cell(d, "halves", f))[1] for d in PRINTED for f in FEATURES}
    assert [best["eth80", f] for f in FEATURES] == [96.07, 95.36, 95.56]
    assert [best["brodatz", f] for f in FEATURES] == [86.42, 84.90, 79.05]
    assert [best["virus", f] for f in FEATURES] == [66.80, 61.73, 51.20]
    assert best_printed(Cell("virus", "halves", "M=2;(1,.5)"))[0] == "maz"
    cell = Cell("eth80", "halves", "M=1;(1)")
    assert printed_numbers(cell) == {"tatml": 95.27, "euc": 93.49, "maz": 95.36, "itml": 93.93}
    for other in (
        cell._replace(split="objects"),
        cell._replace(features="vector"),
        cell._replace(dataset="digits"),
    ):
        assert printed_numbers(other) == {}, other


# Sensitivity


def test_the_study_has_the_papers_grid_and_many_decades():
    points = sensitivity_settings()
    grid = [s for m, s in points if s["study"] == "grid"]
    assert {(s["c0"], s["mu0"]) for s in grid} == {
        (c0, mu0) for c0 in (0.25, 0.5, 1.0) for mu0 in (0.25, 0.5, 1.0, 2.0)
    }
    assert [s["b0"] for _, s in points if s["study"] == "threshold"] == [0.25, 0.5, 1.0, 2.0]
    for method, name in (("tatml", "c0"), ("tatml", "mu0"), ("tatml", "C"), ("maz", "C")):
        moved = [s[name] for m, s in points if m == method and s.get("moves") == name]
        assert max(moved) / min(moved) >= 1e6
    assert {m for m, s in points if s.get("moves") == "n_pairs"} == {"tatml", "maz"}
    quick = sensitivity_settings(True)
    assert {s["c0"] for _, s in quick if s.get("moves") == "c0"} == {0.01, 1.0, 100.0}
    assert {s["n_pairs"] for _, s in quick if s.get("moves") == "n_pairs"} == {10, 30}


def test_the_study_can_be_run_for_some_methods():
    options = {"datasets": ["textures"], "features": None, "repeats": [0, 1], "quick": True}
    every = make_tasks(["sensitivity"], methods=None, **options)
    only = make_tasks(["sensitivity"], methods=["maz"], **options)
    assert {task.method for task in only} == {"maz"}
    assert only == [task for task in every if task.method == "maz"] != []


def test_a_study_without_decades_is_written():
    records = [r for r in sensitivity_records() if r["setting"]["study"] == "grid"]
    assert "Many decades" not in sensitivity_text(records)
    assert "Many decades" in sensitivity_text(sensitivity_records())


@pytest.mark.parametrize(
    ("datasets", "quick", "expected"),
    [
        (["eth80", "textures"], False, "eth80"),
        (["virus"], False, "eth80"),
        (["digits", "textures"], False, "textures"),
        (["digits"], True, "textures"),
        (["digits"], False, "textures"),
        (["digits", "eth80-objects"], False, "eth80"),
    ],
)
def test_the_study_is_on_eth80_or_on_embedded_data(datasets, quick, expected):
    tasks = make_tasks(
        ["sensitivity"],
        datasets=datasets,
        methods=None,
        features=None,
        repeats=[0],
        quick=quick,
    )
    assert {task.dataset.name for task in tasks} == {expected}, (datasets, quick)


def test_settings_reach_the_estimators():
    tatml = sensitivity_method("tatml", {"study": "grid", "c0": 0.25, "mu0": 4.0}).build(0)
    assert (tatml.estimator.c0, tatml.estimator.threshold_prior) == (0.25, 2.0)
    assert tatml.param_grid == {"C": [0.01, 0.1, 1.0, 10.0]}
    moved = sensitivity_method("tatml", {"study": "decades", "moves": "C", "C": 100.0}).build(0)
    assert (moved.C, moved.c0, moved.threshold_prior) == (100.0, 1.0, 1.0)
    maz = sensitivity_method("maz", {"study": "threshold", "b0": 0.25}).build(0)
    assert (maz.threshold, maz.estimator.c0) == (0.5, None)
    many = sensitivity_method("maz", {"study": "decades", "moves": "n_pairs", "n_pairs": 30})
    assert many.build(0).n_pairs_per_class == 30
    assert many.build(0).prior == PAPER["prior"]


@pytest.fixture(scope="module")
def quick_study(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    records = run("sensitivity", out=out, quick=True, repeats=1, progress=False)
    (path,) = write_tables(out)
    return records, path.read_text(encoding="utf-8")


def test_a_fixed_threshold_stays_where_it_is_put(quick_study):
    records, _ = quick_study
    fixed = [r for r in records if r["method"] == "maz" and "b0" in r["setting"]]
    assert fixed
    for r in fixed:
        assert r["b0"] == pytest.approx(r["setting"]["b0"])


def test_a_strong_pull_holds_the_learnt_threshold_and_a_weak_one_does_not(quick_study):
    """maths of the threshold: b0 → μ0 as c0 → ∞, and with c0 small μ0 hardly matters."""
    records, _ = quick_study
    moved = {
        r["setting"]["c0"]: r["b0"]
        for r in records
        if r["setting"].get("moves") == "c0" and r["repeat"] == 0
    }
    distance_from_mu0 = [abs(moved[c0] - 1.0) for c0 in sorted(moved)]
    assert distance_from_mu0 == sorted(distance_from_mu0, reverse=True)
    grid = [r for r in records if r["setting"]["study"] == "grid" and r["repeat"] == 0]
    assert len({r["key"] for r in grid}) == 12


def test_the_ratio_of_the_threshold_to_the_median_is_that_of_the_records(quick_study):
    """Column "b0 / median" of a value of c0, recomputed from its only record."""
    records, text = quick_study
    (record,) = (
        r for r in records if r["setting"].get("moves") == "c0" and r["setting"]["c0"] == 1
    )
    row = line_of(text, "| 1 |", "### TATML: c0").split(" | ")
    assert row[3] == f"{record['b0'] / record['median_squared']:.3f}"
    without = [r | {"median_squared": None} for r in records]
    assert line_of(sensitivity_text(without), "| 1 |", "### TATML: c0").split(" | ")[3] == "–"


def test_two_data_sets_of_the_study_are_not_mixed(quick_study):
    records, alone = quick_study
    others = [
        r | {"dataset": "eth80", "accuracy": 1.0, "key": f"other {r['key']}"} for r in records
    ]
    text = sensitivity_text([*records, *others])
    first, second = text.index("On eth80"), text.index("On textures")
    own = alone[alone.index("On textures") :]
    assert first < second
    assert text[second:] == own
    assert "| 1 | 1.00 |" in text[first:second]
    assert "too few repeats to say" in own
    assert "nan" not in own


def test_the_study_is_written(quick_study):
    _, text = quick_study
    assert text.count("\n| c0 = ") == 3
    assert "| (0.5, 2) |" in text
    assert "### TATML: μ0" in text
    assert "### Maz: b0" in text
    assert "## Why the paper saw no sensitivity" in text


def test_the_published_tables_are_those_of_the_published_records(tmp_path):
    published = Path(__file__).resolve().parents[1] / "results"
    shutil.copy(published / "results.jsonl", tmp_path)
    for path in write_tables(tmp_path):
        text = (published / path.name).read_text(encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, path.name
    assert {path.name for path in tmp_path.glob("*.md")} == {"table1.md", "sensitivity.md"}


# The quick form, end to end


def test_the_quick_form_ends_with_tables(tmp_path):
    records = run(
        "table1", quick=True, repeats=1, methods=["euc", "tatml_vec"], out=tmp_path, jobs=1
    )
    assert not [r for r in records if r.get("error")]
    assert {r["dataset"] for r in records} == {"digits", "textures"}
    (path,) = write_tables(tmp_path)
    assert path.name == "table1.md"
    assert "### Digits" in path.read_text(encoding="utf-8")


def test_parts_of_the_study_without_records_are_left_out():
    decades = [r for r in sensitivity_records() if r["setting"]["study"] == "decades"]
    text = sensitivity_text(decades)
    assert "Many decades" in text
    assert "the paper's grid" not in text
    assert "four fixed thresholds" not in text


def test_data_without_printed_numbers_have_no_tally():
    text = table1_text(records_of({"tatml_star": [70.0], "euc": [60.0]}, dataset="textures"))
    assert "Its accuracy minus" in text
    assert "Of the cells with printed numbers" not in text
