"""Check what `make release` has built: names, version, size and contents of wheel and sdist."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGES = ("tatml", "tatml_paper")
LARGEST_WHEEL = 1_000_000  # bytes
DATA = re.compile(r"\.(jsonl|npz|npy|csv|png|jpe?g|ppm|mat|zip|gz)$")


def declared_version():
    text = (ROOT / "src" / "tatml" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def package_files():
    """Return the names of all files of both packages, without what Python has compiled."""
    return [
        path.relative_to(SOURCE).as_posix()
        for package in PACKAGES
        for path in sorted((SOURCE / package).rglob("*.*"))
        if path.suffix != ".pyc"
    ]


def problems_of_wheel(wheel, version):
    """Yield what is wrong with a wheel, one sentence each."""
    if wheel.name != f"tatml-{version}-py3-none-any.whl":
        yield f"expected a pure wheel of version {version}, got {wheel.name}"
    if wheel.stat().st_size >= LARGEST_WHEEL:
        yield f"expected less than {LARGEST_WHEEL} bytes, got {wheel.stat().st_size}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for name in names:
        wanted = (*(f"{package}/" for package in PACKAGES), f"tatml-{version}.dist-info/")
        if not name.startswith(wanted) or DATA.search(name):
            yield f"expected the packages alone, got {name}"
    for name in package_files():
        if name not in names:
            yield f"expected {name}, got none"


def problems_of_source(archive, version):
    """Yield what is wrong with a source distribution."""
    if archive.name != f"tatml-{version}.tar.gz":
        yield f"expected version {version}, got {archive.name}"
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    wanted = ("LICENSE", "NOTICE.md", "CITATION.cff", "CHANGELOG.md", "tests/conftest.py")
    for name in (*wanted, *(f"src/{file}" for file in package_files())):
        if name not in names:
            yield f"expected {name}, got none"
    for name in names:
        if name.endswith(".jsonl") or name.startswith(("build/", ".venv")):
            yield f"expected no records and nothing made, got {name}"


if __name__ == "__main__":
    folder, version = Path(sys.argv[1]), declared_version()
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    found = [
        *(f"{wheel.name}: {line}" for line in problems_of_wheel(wheel, version)),
        *(f"{source.name}: {line}" for line in problems_of_source(source, version)),
    ]
    print(
        f"{wheel.name}: {wheel.stat().st_size} bytes; {source.name}: {source.stat().st_size} bytes"
    )
    sys.exit("\n".join(found) or None)
