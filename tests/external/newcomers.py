"""Follow the three tutorials as a newcomer: a new environment, the commands of the page, its code.

python tests/external/newcomers.py build/newcomers

For each page a new virtual environment is made, the page's own `pip install` command is run in the
root of the source, and the Python blocks of the page are run in an empty folder. A page fails if a
block fails, or if there is no picture at the end. `make test-newcomers` calls this.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("tables", "covariances", "embeddings")
SAVE = """
import matplotlib.pyplot as _plt
for _number in _plt.get_fignums():
    _plt.figure(_number).savefig(f"picture_{_number}.png")
"""


def follow(name, folder):
    """Do what a page says; return the seconds for installing and for running its code."""
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    command = re.search(r"`pip install ([^`]*)`", page)[1]
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    place = folder / name
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place / "venv")], check=True)
    python = place / "venv" / "bin" / "python"
    started = time.perf_counter()
    options = ["--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [python, "-m", "pip", "install", *options, *shlex.split(command)], cwd=ROOT, check=True
    )
    installed = time.perf_counter()
    work = place / "work"
    work.mkdir(exist_ok=True)
    for old in work.glob("picture_*.png"):
        old.unlink()
    (work / "page.py").write_text("\n".join(blocks) + SAVE, encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    subprocess.run([python, "page.py"], cwd=work, env=kept | {"MPLBACKEND": "agg"}, check=True)
    if not list(work.glob("picture_*.png")):
        raise SystemExit(f"{name}: no picture")
    return installed - started, time.perf_counter() - installed


def main():
    folder = Path(sys.argv[1]).resolve()
    for name in PAGES:
        print(f"== {name}", flush=True)
        installing, running = follow(name, folder)
        print(f"== {name}: {installing:.0f} s to install, {running:.0f} s to run", flush=True)


if __name__ == "__main__":
    main()
