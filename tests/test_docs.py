"""Links, files, tests and modules that the pages name exist."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from tatml import TATML, TATMLPairs

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOLDERS = "benchmarks|docs|examples|results|src|tests"


def heading_anchors(path):
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in words}


def broken_links(page, text):
    """Yield the links to files or headings that do not exist."""
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http", "mailto")):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in heading_anchors(target)):
            yield link


def missing_files(text):
    """Yield the paths below the root that do not exist."""
    for path in re.findall(rf"\b(?:{FOLDERS})/[\w/.-]+\.\w+", text):
        if not (ROOT / path).exists():
            yield path


def missing_tests(text):
    """Yield the names of tests that no file of tests defines."""
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    known = {path.stem for path in sources}
    for source in sources.values():
        known.update(re.findall(r"def (test_\w+)", source))
    yield from set(re.findall(r"\btest_\w+\b(?!=)", text)) - known


def missing_names(text):
    """Yield the dotted names of the package that cannot be imported."""
    for name in set(re.findall(r"\btatml(?:\.[A-Za-z_]\w*)+", text)):
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            try:
                found = hasattr(importlib.import_module(module), attribute)
            except ModuleNotFoundError:
                found = False
            if not found:
                yield name


@pytest.mark.parametrize("name", ["verification.md"])
def test_the_code_of_a_page_runs(name):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    exec("\n".join(blocks), names)
    assert names["verifier"].calibration_.method == "approximate"
    assert names["rates"].false_match.high < 0.1


def test_what_a_page_names_exists():
    assert len(PAGES) > 30
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert [*broken_links(page, text)] == [], page.name
        assert [*missing_files(text)] == [], page.name
        assert [*missing_tests(text)] == [], page.name
        if page.name != "CHANGELOG.md":  # it names modules that were moved
            assert [*missing_names(text)] == [], page.name


def test_what_does_not_exist_is_found():
    page = ROOT / "docs" / "guide.md"
    text = "[a](nowhere.md) [b](guide.md#no-such-heading) [c](guide.md#units)"
    assert [*broken_links(page, text)] == ["nowhere.md", "guide.md#no-such-heading"]
    assert [*missing_files("see tests/nothing.py and tests/helpers.py")] == ["tests/nothing.py"]
    assert [*missing_tests("test" + "_nothing_of_this_name, test_docs")] == [
        "test" + "_nothing_of_this_name"
    ]
    assert [*missing_names("tatml.io, tatml.TATML, tatml.saving")] == ["tatml.saving"]


# Sentences that two places share


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def shares_exceeded():
    """How often approximate promises of 0.1 and 0.01 were exceeded, by the tables of the page.

    First where the identities were enough, then where the page or a warning says they were not.
    """
    enough, too_few = [], []
    page = read("docs/verification.md").partition("## Does it hold?")[2]
    for number, table in enumerate(re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)):
        rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
        if "approximate: above" not in rows[0]:
            continue
        column = rows[0].index("approximate: above")
        for row in rows[2:]:
            if row[1] in ("0.1", "0.01") and number == 0:
                enough.append(float(row[column]))
            elif not row[1].startswith("0.001"):
                too_few.append(float(row[column]))
    return enough, too_few


def test_the_docstring_of_the_promise_names_the_worst_worlds_of_the_page():
    enough, too_few = map(max, shares_exceeded())
    text = " ".join(TATML.calibrate_threshold.__doc__.split())
    assert f"in at most {100 * enough:.1f} % of all cases where the groups were enough" in text
    assert f"and in up to {100 * too_few:.1f} % where they were too few" in text
    assert "cannot promise" in text


def test_all_places_give_one_duration_for_the_small_reproduction():
    pages = [read("README.md"), read("docs/reproduction.md"), read("src/tatml/_cli/main.py")]
    found = [
        re.search(r'(?:quick|--quick",).*?: about ([\w ]+?)( on .*)?["\n]', text, re.DOTALL)
        for text in pages
    ]
    assert [match[1] for match in found] == ["45 s"] * 3


def test_an_old_model_as_prior_needs_new_pairs_of_both_kinds():
    assert "new pairs of both kinds, similar and dissimilar" in read("docs/guide.md")
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(40, 3)), np.arange(40) % 2
    X[:, 0] += 3 * labels
    pairs = np.column_stack(np.triu_indices(40, 1))
    y = np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], 1, -1)
    old = TATMLPairs(preprocessor=X).fit(pairs, y)
    update = TATMLPairs(
        preprocessor=X, prior=old.get_mahalanobis_matrix(), threshold_prior=old.threshold_
    )
    for kind in (1, -1):
        with pytest.raises(ValueError, match=r"similar .* and dissimilar .* pairs, got 1 class"):
            update.fit(pairs[y == kind], y[y == kind])
    few = slice(None, None, 20)
    alone = TATMLPairs(preprocessor=X).fit(pairs[few], y[few])
    assert update.fit(pairs[few], y[few]).score(pairs, y) > alone.score(pairs, y) + 0.02
