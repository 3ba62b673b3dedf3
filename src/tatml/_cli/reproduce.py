"""What `tatml reproduce` does: run the declared experiments, then write tables and the report."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .._messages import suggestion
from ..datasets._folder import FOLDER_VARIABLE

if TYPE_CHECKING:
    from ..experiments._settings import Dataset

__all__ = ["reproduce"]


def reproduce(options: Namespace) -> None:
    """Run experiments, or go on with them, and end by naming what was written."""
    from .. import experiments  # here, because the other commands need nothing of it
    from ..experiments._report.page import write_report
    from ..experiments._settings import DATASETS, QUICK_DATASETS

    if find_spec("matplotlib") is None:  # said now, not after hours
        raise ImportError('the report needs matplotlib: pip install "tatml[plot]"')
    declared = QUICK_DATASETS if options.quick else DATASETS
    data = _data_folder(options.data)
    chosen = _checked_datasets(options.datasets, declared, data, options.quick)
    _check_names("--methods", options.methods, experiments.METHODS)
    records = experiments.run(
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
    tables = experiments.write_tables(options.out)
    report = write_report(options.out)  # before the pictures: nothing that they do can lose it
    problem = None
    if options.what != "sensitivity" and not options.no_pictures:
        drawn = [declared[name] for name in dict.fromkeys(chosen or declared)]
        problem = _pictures_problem(options.out, drawn, data)
        report = write_report(options.out)
    print(f"Records: {Path(options.out) / 'results.jsonl'}")
    for table in tables:
        print(f"Table:   {table}")
    print(f"Report:  {report}")
    failed = [record for record in records if record.get("error")]
    if failed:
        raise ValueError(f"{len(failed)} of {len(records)} runs failed; the report names them")
    if problem is not None:
        raise ValueError(
            f"the report is written, but not all pictures are drawn: {problem!r}; --no-pictures "
            "leaves them out"
        ) from problem


def _pictures_problem(out: str, datasets: list[Dataset], data: str | None) -> Exception | None:
    """Draw the pictures; what went wrong, or None."""
    from ..experiments._report.pictures import draw_pictures

    print("drawing pictures", file=sys.stderr)
    try:
        draw_pictures(out, datasets, data=data)
    except Exception as error:  # whatever it is, the tables and the report stand
        return error
    return None


def _data_folder(given: str | None) -> str | None:
    """The folder of the real data sets, None where none is named."""
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
    """The names that were given, if there are data for all of them."""
    _check_names("--datasets", given, declared, " (with --quick)" if quick else "")
    missing = [name for name in given or () if not declared[name].embedded and data is None]
    if missing:
        raise ValueError(
            f"--datasets: {missing[0]} expects the folder of the data: name it with --data or in "
            f"{FOLDER_VARIABLE}; docs/datasets.md says how to lay it out"
        )
    return given


def _check_names(
    option: str, given: Sequence[str] | None, known: Collection[str], when: str = ""
) -> None:
    for name in given or ():
        if name not in known:
            raise ValueError(
                f"{option}: expected some of {', '.join(known)}{when}, got {name!r}"
                f"{suggestion(name, known)}"
            )
