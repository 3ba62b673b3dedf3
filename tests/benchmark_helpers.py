"""The scripts in benchmarks/ as modules."""

import sys
from importlib import import_module
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def import_benchmark(name):
    """Import a script, which may import those beside it."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))
