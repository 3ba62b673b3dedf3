"""The command `tatml`: learn metrics from files, and reproduce the tables of the paper.

Exit status: 0 for success, 1 for an error (one line on the standard error), 2 for wrong arguments,
130 for an interrupt, 141 if the reader of the output has closed the pipe.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from inspect import getdoc
from math import isnan
from typing import Any, NoReturn, TypeAlias

from .. import __version__
from .._messages import quoted, shown, suggestion
from ..io import ESTIMATORS as SAVED
from .commands import evaluate, fit, predict, reproduce, transform
from .files import is_whole_number, parse_number

# The estimators that the command fits: from labels, numbers or pairs, not from tuples.
ESTIMATORS = [name for name, make in SAVED.items() if not hasattr(make, "_tuple_size")]
EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError, AttributeError, MemoryError)
UNEXPECTED = " (unexpected: --traceback shows where it was raised)"
LARGEST_COUNT = 1_000_000  # the limit of options that count processes, neighbours or repeats
INTERRUPTED, OUTPUT_CLOSED = 130, 141  # 128 plus the number of the signal, as in shells


class _Parser(argparse.ArgumentParser):
    """An argument parser with error messages of one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.

    Returns
    -------
    int
        The exit status. Wrong arguments and --help raise SystemExit, as in argparse.

    Examples
    --------
    >>> from tatml._cli.main import main
    >>> main(["evaluate", "nowhere.skops", "data.csv"])
    1
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    given = argparse.Namespace(command_line=shlex.join(["tatml", *argv]))
    options = _parser().parse_args(argv, given)
    if hasattr(sys.stdout, "reconfigure"):  # escape characters that the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            options.run(options)
        if sys.stdout is not None:  # it is None if it was closed before the start
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return OUTPUT_CLOSED
    except KeyboardInterrupt:
        again = "; the same command goes on where it stopped" if options.name == "reproduce" else ""
        print(f"tatml: interrupted{again}", file=sys.stderr)
        return INTERRUPTED
    except EXPECTED_ERRORS as error:
        return _failed(options, error)
    except Exception as error:
        return _failed(options, error, f"{type(error).__name__}: ", UNEXPECTED)
    return 0


def _failed(options: argparse.Namespace, error: Exception, kind: str = "", hint: str = "") -> int:
    """Print the error as one line and return the exit status."""
    if options.traceback:
        traceback.print_exc()
    text = str(error) or type(error).__name__
    file, problem = getattr(error, "filename", None), getattr(error, "strerror", None)
    if file and problem:
        text = f"{file}: {problem}"  # an error of the operating system
    print(f"tatml {options.name}: error: {kind}{_one_line(text)}{hint}", file=sys.stderr)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # the interpreter would try once more, fail, and end with status 120
        _discard_output()
    return 1


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"tatml: warning: {_one_line(str(message))}", file=sys.stderr)


def _one_line(text: str) -> str:
    """Return a text without line ends and without characters that control the terminal."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def _discard_output() -> None:
    """Send what is left of the output to the null device, so that the interpreter can flush it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# The arguments


Argument: TypeAlias = tuple[str, dict[str, Any]]  # the name, and what argparse needs to know of it


def _argument(name: str, text: str, **settings: Any) -> Argument:
    return name, {"help": text, **settings}


def _estimator(text: str) -> str:
    if text not in ESTIMATORS:
        raise argparse.ArgumentTypeError(
            f"expected one of {quoted(ESTIMATORS)}, got {text!r}{suggestion(text, ESTIMATORS)}"
        )
    return text


def _whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return the reader of an option that takes a whole number in this range."""

    def read(text: str) -> int:
        if not (is_whole_number(text) and least <= float(text) <= most):
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} to {most}, got {shown(text)}"
            )
        return int(text)

    return read


def _number(text: str) -> float:
    number = parse_number(text)
    if isnan(number):
        raise argparse.ArgumentTypeError(f"expected a number, got {shown(text)}")
    return number


COUNT = _whole_number(1, LARGEST_COUNT)
MODEL = _argument("model", "file that tatml fit has saved", metavar="MODEL")
DATA = _argument("data", "samples or pairs, .csv or .npz, as for fit", metavar="DATA")
NEIGHBOURS = (
    _argument("--train", "samples with targets, for nearest neighbours", metavar="TRAIN"),
    _argument("--k", "number of neighbours (default: 3)", type=COUNT, default=3),
)
PAIRS = _argument("--pairs", "CSV file of index pairs into the samples of DATA", metavar="PAIRS")
GROUPS = "column of groups; samples of one group form no pair"
DROPPED = "column to leave out; may be repeated"
COLUMNS = (
    _argument("--target", "column of the classes, or of numbers as targets", metavar="COLUMN"),
    _argument("--groups", GROUPS, metavar="COLUMN"),
    _argument("--drop", DROPPED, action="append", default=[], metavar="COLUMN"),
)
SEED = _argument(
    "--random-state",
    "random seed (default: 0)",
    type=_whole_number(0, 2**32 - 1),
    default=0,
    metavar="SEED",
)
JSON = _argument("--json", "print the results as JSON", action="store_true")
FORCE = _argument("--force", "overwrite the file if it exists", action="store_true")
TRACEBACK = "show where an error was raised, for bug reports"

FIT = (
    _argument("data", "samples or pairs, .csv or .npz (see below)", metavar="DATA"),
    _argument("--out", "file of the model, *.skops", required=True, metavar="MODEL"),
    _argument(
        "--estimator",
        f"one of {', '.join(ESTIMATORS)} (default: TATML; TATMLPairs for pairs)",
        type=_estimator,
        metavar="NAME",
    ),
    _argument("--C", "weight of the pairs relative to the prior", type=_number),
    _argument(
        "--set",
        "any parameter of the estimator, written as in Python; may be repeated",
        action="append",
        default=[],
        metavar="NAME=VALUE",
    ),
    _argument("--jobs", "number of processes, for TATMLCV", type=COUNT, metavar="N"),
    *(PAIRS, *COLUMNS, SEED, JSON, FORCE),
)
REPORT = _argument(
    "--out", "also write the report: .txt, .csv, .json or .html file", metavar="FILE"
)
TABLE = _argument("--out", ".csv or .npz file (default: print CSV)", metavar="FILE")
REPRODUCE = (
    _argument(
        "what",
        "the table, the sensitivity study, or both",
        choices=("table1", "sensitivity", "all"),
    ),
    _argument(
        "--datasets",
        "eth80, brodatz, virus, virus-gabor, eth80-objects (need --data), digits, textures",
        nargs="+",
        metavar="NAME",
    ),
    _argument("--data", "folder of the data (default: $TATML_DATA)", metavar="DIR"),
    _argument(
        "--out",
        "folder of the results (default: tatml-results)",
        metavar="DIR",
        default="tatml-results",
    ),
    _argument("--methods", "methods (default: all)", nargs="+", metavar="NAME"),
    _argument("--features", "features (default: all)", nargs="+", metavar="NAME"),
    _argument(
        "--repeats",
        "number of random splits (default: 5; 2 with --quick)",
        type=COUNT,
        metavar="N",
    ),
    _argument("--jobs", "number of processes (default: 1)", type=COUNT, default=1, metavar="N"),
    _argument("--quick", "small version on embedded data: about 45 s", action="store_true"),
    _argument(
        "--no-pictures", "write the tables and the plots of the report only", action="store_true"
    ),
)

# Every command and its arguments; its docstring is its help.
COMMANDS: dict[Callable[[argparse.Namespace], None], tuple[Argument, ...]] = {
    fit: FIT,
    evaluate: (MODEL, DATA, REPORT, FORCE, *NEIGHBOURS, PAIRS, *COLUMNS, SEED, JSON),
    predict: (MODEL, DATA, TABLE, *NEIGHBOURS, PAIRS, *COLUMNS, FORCE),
    transform: (MODEL, DATA, TABLE, *COLUMNS, FORCE),
    reproduce: REPRODUCE,
}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tatml",
        description="Metric learning that finds its own threshold.",
        epilog="tatml COMMAND --help explains a command and shows examples.",
    )
    parser.add_argument("--version", action="version", version=f"tatml {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for run, arguments in COMMANDS.items():
        summary, _, epilog = (getdoc(run) or "").partition("\n\n")  # None with python -OO
        command = commands.add_parser(
            run.__name__,
            help=summary[:1].lower() + summary[1:-1],
            description=summary,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=run, name=run.__name__)
        command.add_argument("--traceback", action="store_true", help=TRACEBACK)
        for name, settings in arguments:
            command.add_argument(name, **settings)
    return parser
