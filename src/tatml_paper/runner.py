"""Runs tasks, several at the same time, and appends a record when each is done."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from numbers import Integral
from pathlib import Path
from threading import Thread
from time import sleep

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from .methods import METHODS
from .progress import Progress
from .protocol import run_once
from .samples import Folder, data_digest, extract_features, has_folder, read_features
from .settings import DATASETS, PROTOCOL, QUICK_DATASETS, Dataset, features_of
from .store import Record, Store, current_records, read_records
from .tasks import EXPERIMENTS, Task, choose_names, make_tasks
from .versions import collect_versions


def run(
    names: str | Sequence[str] = "table1",
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    data: Folder = None,
    out: str | os.PathLike[str] = "tatml-results",
    repeats: int | None = None,
    first_repeat: int = 0,
    jobs: int = 1,
    quick: bool = False,
    progress: bool = True,
) -> list[Record]:
    """Run experiments, and append a record of each run to `results.jsonl` in a folder.

    Runs that have a record there are not run again, so that an interrupted call can be continued.
    The same seeds give the same numbers, with any number of jobs.

    Parameters
    ----------
    names : str or sequence of str, default="table1"
        "table1", "sensitivity", or "all" of them.
    datasets : sequence of str, optional
        Names of `DATASETS`. None: all whose data are available. The sensitivity study uses "eth80",
        or "textures" if that is named and "eth80" is not, or if only embedded data sets are.
    methods : sequence of str, optional
        Names of `METHODS`. None: all but the slow ones.
    features : sequence of str, optional
        Feature types of the data sets, for example "M=2;(1,.5)". None: all.
    data : path, optional
        The folder of the real data sets; None: that of the environment variable TATML_DATA.
    out : path, default="tatml-results"
        The folder of the records; it is created if necessary.
    repeats : int, optional
        The number of random halves; None: 5 (2 if `quick`).
    first_repeat : int, default=0
        The number of the first random half. The published tables are of 0 to 4; a larger number
        gives halves that they have not seen.
    jobs : int, default=1
        The number of runs at the same time, each on one thread; −1: one per processor.
    quick : bool, default=False
        A small form on embedded data; "all" of it takes about 50 s on one core.
    progress : bool, default=True
        Report the progress on the standard error stream.

    Returns
    -------
    list of dict
        The records of all runs that were asked for, those found in the folder included, in the
        order of the tasks. The record of a run that failed has an "error" and no accuracy.

    Raises
    ------
    ValueError
        If a name is unknown, or a line of `results.jsonl` is not a record.
    OSError
        If records cannot be written: the disk is full, another process writes to the folder, or it
        was removed meanwhile.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from tatml_paper import run
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
    experiments = choose_names("names", EXPERIMENTS if names == "all" else names, EXPERIMENTS) or []
    datasets = choose_names("datasets", datasets, declared) or _at_hand(declared, data)
    known_features = dict.fromkeys(f for name in declared for f in features_of(declared[name]))
    if repeats is None:
        repeats = PROTOCOL.quick_repeats if quick else PROTOCOL.repeats
    tasks = make_tasks(
        experiments,
        datasets=datasets,
        methods=choose_names("methods", methods, METHODS),
        features=choose_names("features", features, known_features),
        repeats=_repeat_numbers(repeats, first_repeat),
        quick=quick,
    )
    if not tasks:
        raise ValueError(
            f"methods, features: expected some that {' and '.join(experiments)} can be run with on "
            f"{', '.join(datasets)}, got methods {methods} and features {features}"
        )
    return _run_tasks(tasks, data, Path(out), effective_n_jobs(jobs), progress)


def _repeat_numbers(repeats: int, first_repeat: int) -> range:
    for name, value, least in (("first_repeat", first_repeat, 0), ("repeats", repeats, 1)):
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name}: expected an integer of at least {least}, got {value!r}")
    return range(first_repeat, first_repeat + repeats)


def _at_hand(declared: Mapping[str, Dataset], data: Folder) -> list[str]:
    """Return the data sets that can be loaded: without a folder of data only embedded ones."""
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
        say.start(store.path, [done[i["key"]] for i in identities if i["key"] in done])
        paths = _extract_all([task for task, _ in todo], data, out / "features", jobs, say)
        environment = collect_versions()
        for number, result in _iterate_results(todo, paths, jobs):
            record = _record(todo[number][1], result, environment)
            store.append(record)
            done[record["key"]] = record
            say.finished(record, [identity for _, identity in todo], done)
        say.end(done)
        return [done[identity["key"]] for identity in identities]


def _bring_back(store: Store, known: list[Record], asked: list[Record]) -> None:
    """Append records again that later ones have replaced, because the last ones are shown.

    This happens after a quick form in the same folder, or if a setting was changed and then
    restored.
    """
    shown = {r["key"] for name in EXPERIMENTS for r in current_records(known, name)}
    for record in asked:
        if record["key"] not in shown:
            store.append(record)


def _extract_all(
    tasks: list[Task], data: Folder, cache: Path, jobs: int, say: Progress
) -> dict[str, Path]:
    """Return the files with the samples of all tasks, by the digest of the data set."""
    needed = {data_digest(task.dataset): task.dataset for task in tasks}
    paths = {}
    for digest, dataset in needed.items():
        say.note(f"extracting features of {dataset.dataset}")
        paths[digest] = extract_features(dataset, data, cache, jobs)
    return paths


def _iterate_results(
    todo: list[tuple[Task, Record]], paths: Mapping[str, Path], jobs: int
) -> Iterator[tuple[int, Record]]:
    """Yield the number and result of each task, in the order in which they are done."""
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
        with warnings.catch_warnings():  # joblib warns of the runs that are given up
            warnings.simplefilter("ignore")
            results.close()


@cache
def _end_with(parent: int) -> None:
    """In a worker process: end when the parent process has ended, even if it was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os._exit(1)

    if os.getpid() != parent:
        Thread(target=watch, daemon=True).start()


def _execute(number: int, task: Task, path: Path, parent: int) -> tuple[int, Record]:
    """Run one task; an exception is returned as a result."""
    _end_with(parent)
    with threadpool_limits(1):  # the same rounding, and the same numbers, on any machine's cores
        try:
            samples = read_features(task.dataset, task.features, path)
            return number, run_once(task.make_method(), samples, task.seeds())
        except Exception as error:
            text = "".join(traceback.format_exception(error, limit=-3))
            return number, {"error": f"{type(error).__name__}: {error}", "traceback": text}


def _record(identity: Record, result: Record, environment: Record) -> Record:
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return identity | {"accuracy": None} | result | {"versions": environment, "date": date}
