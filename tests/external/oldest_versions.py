"""Print pip constraints that pin what tatml needs to the oldest versions it allows.

They are read from pyproject.toml, so that `make test-oldest` tests what is declared there.
"""

import re
import sys
import tomllib
from pathlib import Path

# scikit-learn 1.6 parametrises its checks with a generator, of which pytest 9 warns.
TEST_TOOLS = ["pytest<9"]
PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def oldest(requirement):
    """numpy>=2.0 → numpy==2.0, which is 2.0.0 exactly."""
    match = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement)
    if match is None:
        sys.exit(f"pyproject.toml: expected a dependency name>=version, got {requirement}")
    return "{}=={}".format(*match.groups())


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    pins = [oldest(requirement) for requirement in project["dependencies"]]
    print("\n".join(pins + TEST_TOOLS))
