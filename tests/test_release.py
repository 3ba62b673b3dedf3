"""What a release says about itself: version, dates, citation, licences, size."""

import datetime
import re
import sys
import tomllib
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import tatml

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
sys.path.insert(0, str(ROOT / "tests" / "external"))
import check_release  # noqa: E402

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
NOTICE = (ROOT / "NOTICE.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_package_citation_and_changelog_name_one_version_and_one_date():
    assert CITATION["version"] == tatml.__version__ == check_release.declared_version()
    dated = re.findall(r"^## \[(\d\S*)\] - (\d{4}-\d\d-\d\d)$", CHANGELOG, re.MULTILINE)
    assert dated[0] == (tatml.__version__, CITATION["date-released"].isoformat())
    assert CITATION["date-released"] <= datetime.date.today()


def test_the_citation_has_what_the_format_requires():
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["license"] == PROJECT["license"]
    for entry in (CITATION, *CITATION["references"]):
        assert entry["title"]
        assert entry["type"] in ("software", "article")
        for author in entry["authors"]:
            assert set(author) in ({"name"}, {"family-names", "given-names"})
    assert [reference["year"] for reference in CITATION["references"]] == [2018, 2019]
    assert CITATION["references"][1]["doi"] == "10.1587/transinf.2018EDP7145"


def test_the_declared_pythons_are_those_of_the_classifiers():
    prefix = "Programming Language :: Python :: 3."
    found = [c.removeprefix(prefix) for c in PROJECT["classifiers"] if c.startswith(prefix)]
    assert found == ["11", "12", "13", "14"]
    assert PROJECT["requires-python"] == ">=3.11"


# Installing


def texts_with_commands():
    """The pages, the examples and the modules, by their path."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    for path in sorted([*pages, *SOURCE.rglob("*.py")]):
        yield path, path.read_text(encoding="utf-8")


def test_nothing_installs_a_package_that_is_not_published():
    """Only docs/releasing.md has such a command: it says what changes when it is published."""
    wrong = re.compile(r"pip install ['\"]?tatml\b")
    found = [path.name for path, text in texts_with_commands() if wrong.search(text)]
    assert found == ["releasing.md"]


def test_the_extras_that_commands_and_messages_name_exist():
    named = set()
    for _, text in texts_with_commands():
        for found in re.findall(r"pip install ['\"]\.\[([a-z,]+)\]", text):
            named.update(found.split(","))
        named.update(re.findall(r'missing_extra\([^)]*"(\w+)"\)', text))
        named.update(re.findall(r"the extra `+(\w+)`", text))
    assert {"plot", "eeg", "report", "skops", "dask", "torch", "images"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


# Licences of embedded files


def embedded_files():
    """Files of the packages that are not Python; fonts and scripts anywhere else in the sources."""
    for name in check_release.package_files():
        if not name.endswith(".py"):
            yield name
    for path in sorted((ROOT / "docs").rglob("*.*")):
        place = path.relative_to(ROOT).as_posix()
        made = place.startswith(("docs/api/", "docs/gallery/", "docs/_generated/"))
        if path.suffix in (".js", ".otf", ".ttf", ".woff", ".woff2") and not made:
            yield place


def test_every_embedded_file_is_listed_with_its_licence():
    listed = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([^|]+) \|$", NOTICE, re.MULTILINE))
    found = [*embedded_files()]
    assert len(found) >= 5
    assert sorted(name for name in listed if "/" in name) == sorted(found)
    assert all("BSD" in licence for licence in listed.values())
    assert PROJECT["license-files"] == ["LICENSE", "NOTICE.md"]
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])


def test_the_package_embeds_no_font_no_data_and_no_foreign_script():
    style = (SOURCE / "tatml_paper/report/assets/style.css").read_text(encoding="utf-8")
    assert "@font-face" not in style
    for name in embedded_files():
        assert Path(name).suffix in (".typed", ".html", ".css", ".js"), name


# Wheel


def test_the_package_is_small():
    """The wheel holds these files, compressed: `make release` checks the wheel itself."""
    size = sum(
        len(zlib.compress((SOURCE / name).read_bytes())) for name in check_release.package_files()
    )
    assert size < 0.8 * check_release.LARGEST_WHEEL


def make_wheel(folder, leave_out="", **extra):
    """A file with the contents of a wheel, without building one."""
    wheel = folder / f"tatml-{tatml.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in check_release.package_files():
            if name != leave_out:
                archive.write(SOURCE / name, name)
        for name, content in extra.items():
            archive.writestr(name, content)
    return wheel


def test_the_check_accepts_the_package_and_finds_what_is_wrong(tmp_path):
    version = tatml.__version__
    assert [*check_release.problems_of_wheel(make_wheel(tmp_path), version)] == []
    wheel = make_wheel(tmp_path, "tatml_paper/report/assets/page.html")
    (problem,) = check_release.problems_of_wheel(wheel, version)
    assert problem == "expected tatml_paper/report/assets/page.html, got none"
    wheel = make_wheel(tmp_path, **{"tatml/results.jsonl": b"{}", "tests/conftest.py": b""})
    assert [*check_release.problems_of_wheel(wheel, version)] == [
        "expected the packages alone, got tatml/results.jsonl",
        "expected the packages alone, got tests/conftest.py",
    ]
    (problem,) = check_release.problems_of_wheel(make_wheel(tmp_path), "9.9")
    assert problem.startswith("expected a pure wheel of version 9.9")
    noise = np.random.default_rng(0).bytes(check_release.LARGEST_WHEEL)
    wheel = make_wheel(tmp_path, **{"tatml/large.py": noise})
    assert "bytes" in next(check_release.problems_of_wheel(wheel, version))


def test_the_commands_of_the_page_exist():
    page = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = re.findall(r"^make ([\w-]+)", page, re.MULTILINE)
    assert len(named) >= 4
    assert set(named) <= targets
