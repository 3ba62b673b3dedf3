"""The site lists all public names, its links lead somewhere, it loads nothing from elsewhere."""

import re
from urllib.parse import unquote, urlsplit

import pytest
from docs_helpers import DOCS, ROOT, SITE, Page, built_pages, needs_site, read
from test_project import PUBLIC

FROM_ELSEWHERE = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\s\"')]+)")


def test_the_reference_lists_every_public_name_once():
    from api_reference import grouped_names

    listed = [f"{module}.{name}" for _, module, names in grouped_names() for name in names]
    modules = {name.removeprefix("tatml.") for name in PUBLIC} | {"__version__"}
    public = {
        f"{module}.{name}"
        for module, names in PUBLIC.items()
        for name in names.split()
        if name not in modules
    }
    also = {f"tatml.{name}" for name in ("Newton", "Dykstra", "Result", "Status")}
    assert also <= public  # these are listed as names of tatml.solvers
    assert len(listed) == len(set(listed))
    assert set(listed) == public - also


def test_every_page_says_when_its_script_ran():
    """A page with measured numbers names a script of the repository and a date for each of them."""
    undated = [
        f"{path.name}: {heading}"
        for path in sorted(DOCS.glob("*.md"))
        for heading, section in measured_sections(read(path))
        if not (MADE_BY.search(section) and DATE.search(section))
        and f"{path.name}: {heading}" not in NOT_MEASURED
    ]
    assert undated == []


NOT_MEASURED = {  # numbers of the paper, constants and names
    "errata.md: Errors that change the algorithm",
    "errata.md: Misstatements",
    "errata.md: Missing information",
    "features_images.md: The features",
    "reproduction.md: The protocol",
    "verification.md: The report",
}
SCRIPT = re.compile(r"\b(?:benchmarks|tests|docs|examples)/\w+\.py\b")
BENCHMARK = re.compile(r"\bbenchmarks/\w+\.py\b")
MADE_BY = re.compile(
    r"\b(?:benchmarks|tests|docs|examples)/[\w/]+\.py\b|tatml reproduce|tatml_paper\.run"
)
DATE = re.compile(r"\b2\d{3}-\d\d-\d\d\b")
MEASURED = re.compile(r"^\|.*(?<![\w.])(?:\d*\.\d+|\d+ ?%|\d+ ms|[\d.,]+ s)(?![\w.])", re.MULTILINE)


def measured_sections(text):
    """Yield heading and text of sections with a table of measured numbers or with a benchmark."""
    parts = re.split(
        r"^(##? .*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE
    )
    for heading, section in zip(parts[1::2], parts[2::2], strict=True):
        if len(MEASURED.findall(section)) >= 2 or BENCHMARK.search(section):
            yield heading.lstrip("# "), section


def test_pictures_are_made_by_scripts():
    """A section that shows a picture names a script that saves pictures."""
    made = {path.name: False for path in (DOCS / "images").iterdir()}
    for path in [*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for section in re.split(r"^## ", read(path), flags=re.MULTILINE):
            scripts = [ROOT / name for name in SCRIPT.findall(section)]
            for picture in re.findall(r"!\[[^\]]*\]\(\S*?images/([\w.]+)\)", section):
                made[picture] |= any("savefig" in read(script) for script in scripts)
    assert [name for name, known in made.items() if not known] == []


def test_the_version_is_that_of_the_package():
    assert "release = tatml.__version__" in read(DOCS / "conf.py")


def target_of(page, link):
    """Return the file of the site that a link leads to, and the anchor in it."""
    parts = urlsplit(link)
    path = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
    return path, unquote(parts.fragment)


@needs_site
def test_internal_links_lead_somewhere():
    pages = {path.resolve(): Page(path) for path in built_pages()}
    dead = []
    for page in pages.values():
        for link in page.links + page.loads:
            if urlsplit(link).scheme:
                continue
            path, anchor = target_of(page, link)
            known = pages[path].anchors if path in pages else {""}
            if not path.exists() or (anchor and path in pages and anchor not in known):
                dead.append(f"{page.path.relative_to(SITE)}: {link}")
    assert dead == []


@needs_site
def test_nothing_is_loaded_from_elsewhere():
    pages = [Page(path) for path in built_pages()]
    assert len(pages) > 100
    loads = [link for page in pages for link in page.loads if "//" in link]
    loads += [
        f"{path.name}: {link}"
        for kind in ("css", "html")
        for path in SITE.rglob(f"*.{kind}")
        for link in FROM_ELSEWHERE.findall(read(path))
    ]
    assert loads == []


@needs_site
def test_formulas_need_no_script():
    theory = read(SITE / "theory.html")
    assert theory.count("<math") > 900
    assert "mathjax" not in theory.lower().replace("mathjax_ignore", "")
    formulas = "".join(re.findall(r"<math.*?</math>", theory, re.DOTALL))
    assert "\\" not in formulas  # no command was left as it is
    assert "</math></span><wbr>" in theory  # long formulas may be broken


@pytest.mark.parametrize(
    "text", ["@import 'https://a.b/c.css'", "url(//a.b/c.woff)", 'url("http://a")']
)
def test_what_loads_from_elsewhere_is_found(text):
    assert FROM_ELSEWHERE.search(text)


def test_links_to_files_become_links_of_the_site():
    from site_links import to_site

    assert to_site("[a](../CHANGELOG.md)") == "[a](changelog.md)"
    assert to_site("[a](../../SECURITY.md#x)") == "[a](../security.md#x)"
    assert to_site("[a](search.md#float32) [b](../search.md)") == (
        "[a](nearest.md#float32) [b](../nearest.md)"
    )
    assert to_site("[t](../results/table1.md)") == "{download}`t <../results/table1.md>`"
    assert to_site("[n](../NOTICE.md)") == "{download}`n <../NOTICE.md>`"
    assert to_site("in [results](../results), [b](guide.md)") == "in results, [b](guide.md)"


def test_docstrings_are_read_as_plain_text():
    from plain_docstrings import escape_line

    assert escape_line("gap ≤ |primal| of `|x|` and result_, ``y_``") == (
        r"gap ≤ \|primal\| of `|x|` and result\_, ``y_``"
    )
    assert escape_line("    threshold_ : float, see b0_") == r"    threshold_ : float, see b0\_"
    assert escape_line(">>> model.threshold_ | 3") == ">>> model.threshold_ | 3"
