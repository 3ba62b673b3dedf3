"""Run tests on the installed wheel: `make test-wheel`. Refuses to test the source tree."""

import sys
from pathlib import Path

import pytest

import tatml

ROOT = Path(__file__).resolve().parents[2]


def is_installed():
    """Whether tatml and its files come from site-packages, and src is not on the path."""
    package = Path(tatml.__file__).resolve()
    on_path = [Path(entry or ".").resolve() for entry in sys.path]
    return "site-packages" in package.parts and ROOT / "src" not in on_path


if __name__ == "__main__":
    if not is_installed():
        sys.exit(f"expected an installed wheel, got {tatml.__file__}")
    print(f"tatml {tatml.__version__} of {tatml.__file__}, Python {sys.version.split()[0]}")
    sys.path.insert(0, str(ROOT / "tests"))
    options = ["-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    sys.exit(pytest.main([*options, "--rootdir", str(ROOT), *sys.argv[1:]]))
