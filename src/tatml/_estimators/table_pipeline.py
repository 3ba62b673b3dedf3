"""make_table_pipeline: from a data frame to class probabilities."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

from .._learning.samples import KernelLike
from ..features import TableEncoder
from .soft_neighbors import SoftNeighborsClassifier
from .tatml import TATML


def make_table_pipeline(
    kernel: KernelLike = "rbf", *, random_state: Any = None, verbose: bool = False
) -> Pipeline:
    """Return a classifier for tables: `TableEncoder`, `TATML` and `SoftNeighborsClassifier`."""
    return make_pipeline(
        TableEncoder(random_state=random_state),
        TATML(kernel=kernel, random_state=random_state, verbose=verbose),
        SoftNeighborsClassifier(random_state=random_state),
        verbose=verbose,
    )
