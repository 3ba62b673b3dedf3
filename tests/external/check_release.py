"""Check what `make release` has built: names, version, size and contents of wheel and sdist."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGEST_WHEEL = 1_000_000  # bytes
DATA = re.compile(r"\.(jsonl|npz|npy|csv|png|jpe?g|ppm|mat|zip|gz)$")


def declared_version():
    text = (ROOT / "src" / "tatml" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def problems_of_wheel(wheel, version):
    """Yield what is wrong with a wheel, one sentence each."""
    if wheel.name != f"tatml-{version}-py3-none-any.whl":
        yield f"expected a pure wheel of version {version}, got {wheel.name}"
    if wheel.stat().st_size >= LARGEST_WHEEL:
        yield f"expected less than {LARGEST_WHEEL} bytes, got {wheel.stat().st_size}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for name in names:
        if not name.startswith(("tatml/", f"tatml-{version}.dist-info/")) or DATA.search(name):
            yield f"expected the package alone, got {name}"
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in (source / "tatml").rglob("*.*")}
    for name in sorted(files - set(names)):
        if not name.endswith(".pyc"):
            yield f"expected {name}, got none"


def problems_of_source(archive, version):
    """Yield what is wrong with a source distribution."""
    if archive.name != f"tatml-{version}.tar.gz":
        yield f"expected version {version}, got {archive.name}"
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    for name in ("LICENSE", "NOTICE.md", "CITATION.cff", "CHANGELOG.md", "tests/conftest.py"):
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
