"""The paper's experiments as declared data: run them, read their records, write their tables."""

from .markdown.write import write_tables
from .methods import METHODS
from .runner import run
from .settings import DATASETS
from .store import read_records

__all__ = ["DATASETS", "METHODS", "read_records", "run", "write_tables"]
