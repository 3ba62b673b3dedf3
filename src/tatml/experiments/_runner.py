"""Runs tasks, several at a time, and appends a record for each as soon as it is done."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Thread
from time import sleep

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from .._validation import check_count
from ._methods import METHODS
from ._progress import Progress
from ._protocol import run_once
from ._samples import Folder, data_digest, extract, has_folder, samples_of
from ._settings import DATASETS, PROTOCOL, QUICK_DATASETS, Dataset, features_of
from ._store import Record, Store, current_records, read_records
from ._tasks import EXPERIMENTS, Task, choose, make_tasks
from ._versions import versions

__all__ = ["run"]


def run(
    names: str | Sequence[str] = "table1",
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    data: Folder = None,
    out: str | os.PathLike[str] = "results",
    repeats: int | None = None,
    jobs: int = 1,
    quick: bool = False,
    progress: bool = True,
) -> list[Record]:
    """Run experiments, and append a record of each run to `results.jsonl` in a folder.

    What has a record there already is not run again, so that a run that was stopped goes on where
    it was. The same seeds give the same numbers, on any number of jobs.

    Parameters
    ----------
    names : str or sequence of str, default="table1"
        "table1", "sensitivity", or "all" of them.
    datasets : sequence of str, optional
        Names of `DATASETS`. None: all whose data are at hand. The sensitivity study is on "eth80";
        on "textures" where that is named and "eth80" is not, or only embedded ones are.
    methods : sequence of str, optional
        Names of `METHODS`. None: all but the slow ones.
    features : sequence of str, optional
        Feature types of the data sets, "M=2;(1,.5)" for one. None: all.
    data : path, optional
        The folder of the real data sets; None: that of the environment variable TATML_DATA.
    out : path, default="results"
        The folder of the records.
    repeats : int, optional
        How many random halves; None: 5 (2 if `quick`).
    jobs : int, default=1
        Runs at a time, each on one thread; −1: one for each processor.
    quick : bool, default=False
        A small form on embedded data that takes a minute.
    progress : bool, default=True
        Say on the standard error output how far it is.

    Returns
    -------
    list of dict
        The records of all that was asked for, those of earlier runs included, in the order of the
        tasks. Where a run failed, its record has an "error" and no accuracy.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from tatml.experiments import run
    >>> with TemporaryDirectory() as folder:
    ...     records = run(
    ...         datasets=["textures"],
    ...         methods=["euc"],
    ...         out=folder,
    ...         repeats=1,
    ...         quick=True,
    ...         progress=False,
    ...     )
    >>> len(records), records[0]["method"], records[0]["repeat"]
    (3, 'euc', 0)
    """
    declared = QUICK_DATASETS if quick else DATASETS
    experiments = choose("names", EXPERIMENTS if names == "all" else names, EXPERIMENTS) or []
    datasets = choose("datasets", datasets, declared) or _at_hand(declared, data)
    known_features = dict.fromkeys(f for name in declared for f in features_of(declared[name]))
    if repeats is None:
        repeats = PROTOCOL.quick_repeats if quick else PROTOCOL.repeats
    tasks = make_tasks(
        experiments,
        datasets=datasets,
        methods=choose("methods", methods, METHODS),
        features=choose("features", features, known_features),
        repeats=check_count("repeats", repeats),
        quick=quick,
    )
    if not tasks:
        raise ValueError(
            f"methods, features: expected some that {' and '.join(experiments)} can be run with on "
            f"{', '.join(datasets)}, got methods {methods} and features {features}"
        )
    return _run_tasks(tasks, data, Path(out), effective_n_jobs(jobs), progress)


def _at_hand(declared: Mapping[str, Dataset], data: Folder) -> list[str]:
    """Without a folder of data only the embedded ones."""
    everything = has_folder(data)
    return [name for name, dataset in declared.items() if dataset.embedded or everything]


def _run_tasks(
    tasks: list[Task], data: Folder, out: Path, jobs: int, progress: bool
) -> list[Record]:
    with Store(out) as store:
        known = read_records(store.path)
        done = {record["key"]: record for record in known if not record.get("error")}
        identities = [task.identity() for task in tasks]
        todo = [
            (task, identity)
            for task, identity in zip(tasks, identities, strict=True)
            if identity["key"] not in done
        ]
        _bring_back(store, known, [done[i["key"]] for i in identities if i["key"] in done])
        say = Progress(len(tasks), jobs, known, sys.stderr if progress else None)
        say.start(len(todo))
        paths = _extract_all([task for task, _ in todo], data, out / "features", jobs, say)
        environment = versions()
        for number, result in _results(todo, paths, jobs):
            record = _record(todo[number][1], result, environment)
            store.append(record)
            done[record["key"]] = record
            say.finished(record, [identity for _, identity in todo], done)
        say.end(done)
        return [done[identity["key"]] for identity in identities]


def _bring_back(store: Store, known: list[Record], asked: list[Record]) -> None:
    """Append records once more that others have taken the place of: the last ones are shown.

    So it is after a quick form in the same folder, or a setting that was changed and changed back.
    """
    shown = {r["key"] for name in EXPERIMENTS for r in current_records(known, name)}
    for record in asked:
        if record["key"] not in shown:
            store.append(record)


def _extract_all(
    tasks: list[Task], data: Folder, cache: Path, jobs: int, say: Progress
) -> dict[str, Path]:
    """The files with the samples of all tasks, by the digest of the data set."""
    needed = {data_digest(task.dataset): task.dataset for task in tasks}
    paths = {}
    for digest, dataset in needed.items():
        say.note(f"samples of {dataset.dataset}")
        paths[digest] = extract(dataset, data, cache, jobs)
    return paths


def _results(
    todo: list[tuple[Task, Record]], paths: Mapping[str, Path], jobs: int
) -> Iterator[tuple[int, Record]]:
    """What each task gave, in the order in which they are done; one task at a time to a process."""
    calls = (
        delayed(_execute)(number, task, paths[data_digest(task.dataset)], os.getpid())
        for number, (task, _) in enumerate(todo)
    )
    parallel = Parallel(jobs, backend="loky", return_as="generator_unordered", batch_size=1)
    results = parallel(calls)
    try:
        for result in results:  # noqa: UP028 - closed below, not by "yield from"
            yield result
    finally:
        with warnings.catch_warnings():  # that runs under way are given up is no news
            warnings.simplefilter("ignore")
            results.close()


@cache
def _end_with(parent: int) -> None:
    """In another process than the parent: end when the parent has ended, however it did."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os._exit(1)

    if os.getpid() != parent:
        Thread(target=watch, daemon=True).start()


def _execute(number: int, task: Task, path: Path, parent: int) -> tuple[int, Record]:
    """Run one task; a failure is a result as well."""
    _end_with(parent)
    with threadpool_limits(1):  # the same rounding, and the same numbers, on any machine's cores
        try:
            samples = samples_of(task.dataset, task.features, path)
            return number, run_once(task.make_method(), samples, task.seeds())
        except Exception as error:
            text = "".join(traceback.format_exception(error, limit=-3))
            return number, {"error": f"{type(error).__name__}: {error}", "traceback": text}


def _record(identity: Record, result: Record, environment: Record) -> Record:
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return identity | {"accuracy": None} | result | {"versions": environment, "date": date}
