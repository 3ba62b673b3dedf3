"""Compare the processor time of a benchmark with that of an earlier commit, run alternately.

    python benchmarks/against_commit.py REV benchmarks/newton_steps.py [options of the benchmark]

The earlier commit is checked out into a temporary folder, and runs its own version of the
benchmark, because names may have changed; where it has none, it runs the present one. Each round
runs both once, so that a busy machine slows both down. Prints the ratio of each round, the median
ratio, and the smallest and largest ratio. With --figures, the ratios are not those of the whole
run but those of every line "name: 1.23 ms" that the benchmark prints.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def seconds(script: list[str], root: Path, figures: bool) -> dict[str, float]:
    """Run the script of a checkout with its own code; return the seconds, or those it prints."""
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"}
    path = root / script[0] if (root / script[0]).exists() else ROOT / script[0]
    start = processor_seconds()
    done = subprocess.run(
        [sys.executable, str(path), *script[1:]], env=environment, check=True, capture_output=True
    )
    if not figures:
        return {" ".join(script): processor_seconds() - start}
    printed = re.findall(r"^(.+): ([\d.]+) ms$", done.stdout.decode(), re.MULTILINE)
    return {name: float(value) / 1e3 for name, value in printed}


def processor_seconds() -> float:
    """Return the processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="the commit to compare with")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="the benchmark and its options")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--figures", action="store_true", help="compare the lines 'name: 1.2 ms'")
    options = parser.parse_args()
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder, "before")
        subprocess.run(
            [*git, "worktree", "add", "-q", "--detach", before, options.revision], check=True
        )
        try:
            ratios: dict[str, list[float]] = {}
            for _ in range(options.rounds):
                old = seconds(options.script, before, options.figures)
                new = seconds(options.script, ROOT, options.figures)
                for name in old.keys() & new.keys():
                    ratios.setdefault(name, []).append(new[name] / old[name])
                    print(
                        f"{name}: {old[name]:.4g} s before, {new[name]:.4g} s now: ratio "
                        f"{ratios[name][-1]:.3f}",
                        flush=True,
                    )
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", before], check=True)
    for name, found in ratios.items():
        print(
            f"{name}: median ratio {statistics.median(found):.3f} of {len(found)} rounds, "
            f"from {min(found):.3f} to {max(found):.3f}"
        )


if __name__ == "__main__":
    main()
