"""Progress of the runs: one line that is rewritten on a terminal, else one line now and then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, TextIO

EVERY = 15.0  # seconds between two lines if the output is not a terminal


class Progress:
    """Progress reporter; silent if `stream` is None.

    Parameters
    ----------
    n_tasks, jobs : int
        The number of runs, and how many of them are executed at the same time.
    known : sequence of dict
        Records that show how long runs take.
    stream : text stream or None
        The stream to write to.
    """

    def __init__(self, n_tasks: int, jobs: int, known: Iterable[dict], stream: TextIO | None):
        self.n_tasks, self.jobs, self.stream = n_tasks, jobs, stream
        self.timed = [record for record in known if record.get("seconds") is not None]
        self.begun, self.last = monotonic(), -EVERY
        self.on_terminal = stream is not None and stream.isatty()

    def start(self, path: Path, found: Sequence[dict]) -> None:
        """Report what is run now, and which of the runs were found in the file of records."""
        dates = sorted({record["date"][:10] for record in found})
        span = " to ".join(sorted({dates[0], dates[-1]})) if dates else ""
        earlier = f"{len(found)} found there, made {span}, not run again" if found else "none found"
        self._line(f"{path}: {self.n_tasks - len(found)} of {self.n_tasks} runs now; {earlier}")

    def note(self, text: str) -> None:
        """Report what is being done."""
        self._say(text, force=True)

    def finished(self, record: dict, todo: Sequence[dict], done: Mapping[str, dict]) -> None:
        """Report that one more run is done."""
        if record.get("seconds") is not None:
            self.timed.append(record)
        left = [identity for identity in todo if identity["key"] not in done]
        seconds = expected_seconds(left, self.timed) / self.jobs
        n_done = self.n_tasks - len(left)
        what = f"{record['dataset']} {record['features']} {record['method']}"
        failed = " FAILED" if record.get("error") else ""
        about = f", about {_duration(seconds)} left" if left else ""
        self._say(f"{n_done}/{self.n_tasks}{about}  {what}{failed}", force=bool(failed))

    def end(self, done: Mapping[str, dict]) -> None:
        """Report how long it took, and what failed."""
        self._line(f"done in {_duration(monotonic() - self.begun)}")
        for record in done.values():
            if record.get("error"):
                place = "/".join(str(record[n]) for n in ("dataset", "features", "method"))
                self._line(f"failed: {place}, repeat {record['repeat']}: {record['error']}")

    def _say(self, text: str, force: bool = False) -> None:
        if self.stream is not None and self.on_terminal:
            self.stream.write(f"\r\x1b[2K{text}")
            self.stream.flush()
        elif force or monotonic() - self.last >= EVERY:
            self.last = monotonic()
            self._line(text)

    def _line(self, text: str) -> None:
        if self.stream is not None:
            self.stream.write(f"\r\x1b[2K{text}\n" if self.on_terminal else f"{text}\n")
            self.stream.flush()


def expected_seconds(left: Iterable[dict], timed: Iterable[dict]) -> float:
    """Estimate the seconds that runs will take from similar runs that were timed.

    Similar runs have the same method and features; if there are none, the same method and data set;
    then the same method; then all runs count.
    """
    known: dict[tuple, list[float]] = defaultdict(list)
    for record in timed:
        for kind in _kinds(record):
            known[kind].append(record["seconds"] + record.get("seconds_scoring", 0.0))
    total = 0.0
    for identity in left:
        times = next((known[kind] for kind in _kinds(identity) if kind in known), [0.0])
        total += sum(times) / len(times)
    return total


def _kinds(record: Mapping[str, Any]) -> list[tuple]:
    method = record["experiment"], record["method"]
    dataset = *method, record["dataset"]
    return [(*dataset, record["features"]), dataset, method, ()]


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
