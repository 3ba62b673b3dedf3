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
from typing import NoReturn, TypeAlias

from .. import __version__
from .._messages import quoted, shown, suggestion
from ..io import ESTIMATORS as SAVED
from .commands import evaluate, fit, predict, reproduce, transform
from .files import is_whole_number

# The estimators that the command fits: from labels or pairs, not from triplets or quadruplets.
ESTIMATORS = [name for name, make in SAVED.items() if not hasattr(make, "_tuple_size")]
EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError, AttributeError, MemoryError)
UNEXPECTED = " (unexpected: --traceback shows where it was raised)"
LARGEST_COUNT = 1_000_000  # the limit of options that count processes, neighbours or repeats
INTERRUPTED, OUTPUT_CLOSED = 130, 141  # 128 plus the number of the signal, as in shells

FIT_EXAMPLES = """\
data:
  NAME.csv   a header, then one sample per line: numbers and a column of classes, which is the
             column that --target names, or else y or target, or else the last one
  NAME.npz   X (n_samples, n), or matrices (n_samples, n, n'), or X0, X1, ... for several matrices
             per sample; with y and, optionally, groups; or pairs (n_pairs, 2, n), or index pairs
             (n_pairs, 2) into X, with similar (or y: 1 for similar, -1 for dissimilar pairs)
  --pairs    a CSV with the columns first, second (sample numbers from 0) and similar (1 or 0)

examples:
  tatml fit wine.csv --target cultivar --out wine.skops
  tatml fit wine.csv --out wine.skops --C 100 --set prior=within
  tatml fit scans.npz --estimator TATMLCV --set "param_grid={'C': [10, 100]}" --out scans.skops
  tatml fit faces.csv --pairs known.csv --out faces.skops
"""
EVALUATE_EXAMPLES = """\
examples:
  tatml evaluate wine.skops test.csv --train wine.csv
  tatml evaluate faces.skops faces.csv --pairs others.csv --out report.html
"""
PREDICT_EXAMPLES = """\
examples:
  tatml predict faces.skops faces.csv --pairs questions.csv --out answers.csv
  tatml predict wine.skops new.csv --train wine.csv --k 5 --out classes.csv
"""
TRANSFORM_EXAMPLES = """\
examples:
  tatml transform wine.skops wine.csv --out embedded.npz
  tatml transform wine.skops wine.csv | head
"""
REPRODUCE_EXAMPLES = """\
Every run is appended to OUT/results.jsonl. After an interrupt, the same command continues.
Without a folder of data, the data sets that need no download are used.

examples:
  tatml reproduce table1 --data ~/data
  tatml reproduce table1 --datasets eth80 virus --methods tatml euc --repeats 5 --jobs 2
  tatml reproduce all --quick
"""


Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


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
    options = _parser().parse_args(argv)
    options.command_line = shlex.join(["tatml", *argv])
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


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tatml",
        description="Metric learning that finds its own threshold.",
        epilog="tatml COMMAND --help explains a command and shows examples.",
    )
    parser.add_argument("--version", action="version", version=f"tatml {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_fit(commands)
    _add_evaluate(commands)
    _add_predict(commands)
    _add_transform(commands)
    _add_reproduce(commands)
    return parser


def _add_command(
    commands: Commands, run: Callable[[argparse.Namespace], None], text: str, epilog: str
) -> argparse.ArgumentParser:
    name = run.__name__
    parser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, name=name)
    parser.add_argument(
        "--traceback", action="store_true", help="show where an error was raised, for bug reports"
    )
    return parser


def _add_fit(commands: Commands) -> None:
    parser = _add_command(commands, fit, "learn a metric and its threshold", FIT_EXAMPLES)
    parser.add_argument("data", metavar="DATA", help="samples or pairs, .csv or .npz (see below)")
    parser.add_argument("--out", required=True, metavar="MODEL", help="file of the model, *.skops")
    parser.add_argument(
        "--estimator",
        type=_estimator,
        metavar="NAME",
        help=f"one of {', '.join(ESTIMATORS)} (default: TATML; TATMLPairs for pairs)",
    )
    parser.add_argument("--C", type=_number, help="weight of the pairs relative to the prior")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any parameter of the estimator, written as in Python; may be repeated",
    )
    parser.add_argument("--jobs", type=_count, metavar="N", help="number of processes, for TATMLCV")
    _add_columns(parser)
    _add_seed(parser)
    _add_json(parser)
    _add_force(parser)


def _add_evaluate(commands: Commands) -> None:
    text = "evaluate a model on data that it has not seen"
    parser = _add_command(commands, evaluate, text, EVALUATE_EXAMPLES)
    _add_model(parser)
    parser.add_argument(
        "--out", metavar="FILE", help="also write the report: .txt, .csv, .json or .html file"
    )
    _add_force(parser)
    _add_neighbours(parser)
    _add_columns(parser)
    _add_seed(parser)
    _add_json(parser)


def _add_predict(commands: Commands) -> None:
    text = "judge which pairs are similar, or classify samples"
    parser = _add_command(commands, predict, text, PREDICT_EXAMPLES)
    _add_model(parser)
    parser.add_argument("--out", metavar="FILE", help=".csv or .npz file (default: print CSV)")
    _add_neighbours(parser)
    _add_columns(parser)
    _add_force(parser)


def _add_transform(commands: Commands) -> None:
    text = "embed samples so that their Euclidean distance is the learnt distance"
    parser = _add_command(commands, transform, text, TRANSFORM_EXAMPLES)
    _add_model(parser)
    parser.add_argument("--out", metavar="FILE", help=".csv or .npz file (default: print CSV)")
    _add_columns(parser, pairs=False)
    _add_force(parser)


def _add_reproduce(commands: Commands) -> None:
    text = "run the experiments of the paper and write tables and a report"
    parser = _add_command(commands, reproduce, text, REPRODUCE_EXAMPLES)
    parser.add_argument(
        "what",
        choices=("table1", "sensitivity", "all"),
        help="the table, the sensitivity study, or both",
    )
    parser.add_argument(
        "--datasets",
        nargs="+",
        metavar="NAME",
        help="eth80, brodatz, virus, virus-gabor, eth80-objects (need --data), digits, textures",
    )
    parser.add_argument("--data", metavar="DIR", help="folder of the data (default: $TATML_DATA)")
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="tatml-results",
        help="folder of the results (default: tatml-results)",
    )
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="methods (default: all)")
    parser.add_argument("--features", nargs="+", metavar="NAME", help="features (default: all)")
    parser.add_argument(
        "--repeats",
        type=_count,
        metavar="N",
        help="number of random splits (default: 5; 2 with --quick)",
    )
    parser.add_argument(
        "--jobs", type=_count, default=1, metavar="N", help="number of processes (default: 1)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small version on embedded data: about 45 s"
    )
    parser.add_argument(
        "--no-pictures",
        action="store_true",
        help="write the tables and the plots of the report only",
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="file that tatml fit has saved")
    parser.add_argument("data", metavar="DATA", help="samples or pairs, .csv or .npz, as for fit")


def _add_neighbours(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--train", metavar="TRAIN", help="samples with classes, for nearest neighbours"
    )
    parser.add_argument("--k", type=_count, default=3, help="number of neighbours (default: 3)")


def _add_columns(parser: argparse.ArgumentParser, pairs: bool = True) -> None:
    if pairs:
        parser.add_argument(
            "--pairs", metavar="PAIRS", help="CSV file of index pairs into the samples of DATA"
        )
    parser.add_argument("--target", metavar="COLUMN", help="column of the classes")
    parser.add_argument(
        "--groups", metavar="COLUMN", help="column of groups; samples of one group form no pair"
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="column to leave out; may be repeated",
    )
    if not pairs:
        parser.set_defaults(pairs=None)


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--random-state", type=_seed, default=0, metavar="SEED", help="random seed (default: 0)"
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")


def _estimator(text: str) -> str:
    if text not in ESTIMATORS:
        raise argparse.ArgumentTypeError(
            f"expected one of {quoted(ESTIMATORS)}, got {text!r}{suggestion(text, ESTIMATORS)}"
        )
    return text


def _count(text: str) -> int:
    if not (is_whole_number(text) and 0 < float(text) <= LARGEST_COUNT):
        raise argparse.ArgumentTypeError(
            f"expected a whole number from 1 to {LARGEST_COUNT}, got {shown(text)}"
        )
    return int(text)


def _seed(text: str) -> int:
    if not (is_whole_number(text) and float(text) < 2**32):
        raise argparse.ArgumentTypeError(
            f"expected a whole number from 0 to {2**32 - 1}, got {shown(text)}"
        )
    return int(text)


def _number(text: str) -> float:
    try:
        if "_" in text or not text.isascii():
            raise ValueError
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a number, got {shown(text)}") from error
