"""Time of `import tatml`, beside that of scikit-learn's own import.

Each import runs in a fresh process, by turns, and the shortest time counts: the first runs read
files that the others find in the cache of the operating system.

    python benchmarks/import_time.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator

IMPORTS = {
    "numpy": "import numpy",
    "scikit-learn: nearest neighbours and NCA": (
        "from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis"
    ),
    "tatml": "import tatml",
    "tatml_paper": "import tatml_paper",
}
TIMED = """
from time import perf_counter
start = perf_counter()
{statement}
print(perf_counter() - start)
"""


def seconds(statement: str) -> float:
    """Run an import in a process of its own and return the seconds it took."""
    code = TIMED.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def loaded(statement: str) -> Iterator[str]:
    """Yield the packages beside NumPy, SciPy and scikit-learn that an import loads."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"matplotlib", "pandas", "torch", "cupy", "dask", "distributed", "zarr", "skops", "PIL"}
    yield from sorted(heavy & {*done.stdout.split()})


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    runs = [{name: seconds(text) for name, text in IMPORTS.items()} for _ in range(rounds)]
    best = {name: min(run[name] for run in runs) for name in IMPORTS}
    reference = best["scikit-learn: nearest neighbours and NCA"]
    print(f"{'import':42}{'seconds':>9}{'ratio':>8}  optional packages loaded")
    for name, time in best.items():
        extras = ", ".join(loaded(IMPORTS[name])) or "none"
        print(f"{name:42}{time:9.2f}{time / reference:8.2f}  {extras}")


if __name__ == "__main__":
    main()
