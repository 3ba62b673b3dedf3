"""`tatml reproduce`: run the declared experiments, then write the tables and the report."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from .extras import missing_library
from .markdown.write import write_tables
from .methods import METHODS
from .report.page import write_report
from .report.pictures import draw_pictures
from .runner import run
from .samples import FOLDER_VARIABLE
from .settings import DATASETS, QUICK_DATASETS, Dataset
from .store import read_records
from .tasks import choose_names


def reproduce(options: Namespace) -> None:
    """Run experiments, or continue them, and print the names of the files that were written."""
    for module, name in (("matplotlib", "Matplotlib"), ("jinja2", "Jinja2")):
        if find_spec(module) is None:  # before the runs, which can take hours
            raise missing_library(name)
    declared = QUICK_DATASETS if options.quick else DATASETS
    data = _given_folder(options.data)
    chosen = _checked_datasets(options.datasets, declared, data, options.quick)
    choose_names("--methods", options.methods, METHODS)
    if os.path.lexists(options.out) and not os.path.isdir(options.out):
        raise NotADirectoryError(
            f"--out: expected a folder or an unused name, got {options.out}, which is no folder"
        )
    found = {record["key"] for record in read_records(options.out)}
    records = run(
        options.what,
        datasets=chosen,
        methods=options.methods,
        features=options.features,
        data=data,
        out=options.out,
        repeats=options.repeats,
        jobs=options.jobs,
        quick=options.quick,
    )
    drawn = [declared[name] for name in dict.fromkeys(chosen or declared)]
    if options.what == "sensitivity" or options.no_pictures:
        drawn = []
    tables, report, problem = _write_results(options.out, drawn, data)
    path = Path(options.out) / "results.jsonl"
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: expected the records, got no file; it was removed during the run"
        )
    made = sum(record["key"] not in found for record in records)
    print(f"Records: {path} ({made} made now, {len(records) - made} found)")
    for table in tables:
        print(f"Table:   {table}")
    print(f"Report:  {report}")
    _raise_problems(records, problem)


def _write_results(
    out: str, datasets: list[Dataset], data: str | None
) -> tuple[list[Path], Path, Exception | None]:
    """Write tables, report and pictures; return the paths, and the error of drawing or None."""
    tables, problem = write_tables(out), None
    report = write_report(out)  # before the pictures, so that their failure does not lose it
    if datasets:
        print("drawing pictures", file=sys.stderr)
        try:
            draw_pictures(out, datasets, data=data)
        except Exception as error:  # the tables and the report are complete without pictures
            problem = error
        report = write_report(out)
    return tables, report, problem


def _raise_problems(records: list[dict], problem: Exception | None) -> None:
    """Raise ValueError if runs failed or pictures are missing."""
    failed = [record for record in records if record.get("error")]
    if failed:
        raise ValueError(f"{len(failed)} of {len(records)} runs failed; the report names them")
    if problem is not None:
        raise ValueError(
            f"the report is written, but not all pictures are drawn: {problem!r}; --no-pictures "
            "leaves them out"
        ) from problem


def _given_folder(given: str | None) -> str | None:
    """Return the folder of the real data sets, None if none is named."""
    folder = given or os.environ.get(FOLDER_VARIABLE) or None
    if folder is None or os.path.isdir(os.path.expanduser(folder)):
        return folder
    source = "--data" if given else f"${FOLDER_VARIABLE}"
    raise FileNotFoundError(
        f"{source}: expected the folder of the data, got no folder {folder}; docs/datasets.md says "
        "how to lay them out, and --datasets digits textures needs none"
    )


def _checked_datasets(
    given: Sequence[str] | None, declared: Mapping[str, Dataset], data: str | None, quick: bool
) -> Sequence[str] | None:
    """Return the names that were given; raise if the data of one of them are missing."""
    given = choose_names("--datasets", given, declared, " (with --quick)" if quick else "")
    missing = [name for name in given or () if not declared[name].embedded and data is None]
    if missing:
        raise ValueError(
            f"--datasets: expected the folder of the data for {missing[0]}, got none; name it with "
            f"--data or in {FOLDER_VARIABLE}; docs/datasets.md says how to lay it out"
        )
    return given
