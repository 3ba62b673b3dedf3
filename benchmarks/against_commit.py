"""Compare the seconds of a benchmark with those of an earlier commit, run alternately.

    python benchmarks/against_commit.py REV benchmarks/newton_steps.py [options of the benchmark]

The earlier commit is checked out into a temporary folder, and runs its own version of the
benchmark, because names may have changed. Each round runs both once, so that a busy machine slows
both down. Prints the ratio of each round, the median ratio, and the smallest and largest ratio.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]


def seconds(script: list[str], root: Path) -> float:
    """Run the script of a checkout with its own code, and return the seconds."""
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(root / script[0]), *script[1:]]
    start = perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", help="the commit to compare with")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="the benchmark and its options")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder, "before")
        subprocess.run(
            [*git, "worktree", "add", "-q", "--detach", before, options.revision], check=True
        )
        try:
            ratios = []
            for _ in range(options.rounds):
                old = seconds(options.script, before)
                new = seconds(options.script, ROOT)
                ratios.append(new / old)
                print(f"{old:.2f} s before, {new:.2f} s now: ratio {ratios[-1]:.3f}", flush=True)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", before], check=True)
    print(
        f"{' '.join(options.script)}: median ratio {statistics.median(ratios):.3f} of "
        f"{len(ratios)} rounds, from {min(ratios):.3f} to {max(ratios):.3f}"
    )


if __name__ == "__main__":
    main()
