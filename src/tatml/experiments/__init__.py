"""The paper's experiments as declared data: run them, read their records, write their tables."""

from ._markdown.write import write_tables
from ._methods import METHODS
from ._runner import run
from ._settings import DATASETS
from ._store import read_records

__all__ = ["DATASETS", "METHODS", "read_records", "run", "write_tables"]
