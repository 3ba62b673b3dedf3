"""Kill −9 an experiment fifty times before its last run is done, and compare its records.

    PYTHONPATH=src:tests python tests/external/fifty_kills.py [KILLS]

The tests do the same with a few kills: `tests/test_paper_faults.py`.
"""

import sys
import tempfile
import time
from pathlib import Path

from kill_helpers import Runner, kill_and_resume, numbers, run_undisturbed

from tatml_paper import read_records


def main(kills=50):
    repeats = kills  # three runs each: about three new records between two kills
    with tempfile.TemporaryDirectory() as folder:
        killed, undisturbed = Path(folder) / "killed", Path(folder) / "undisturbed"
        start = time.monotonic()
        with Runner() as runner:
            before_the_end = kill_and_resume(runner, killed, repeats, kills)
        seconds = time.monotonic() - start
        found = numbers(read_records(killed))
        assert found == numbers(run_undisturbed(undisturbed, repeats)), "the numbers differ"
        assert before_the_end == kills, f"only {before_the_end} kills before the last run was done"
    print(
        f"{kills} kills before the last of {3 * repeats} runs was done, in {seconds:.0f} s: "
        "no record lost, doubled, changed or torn; the numbers are those of an undisturbed run"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
