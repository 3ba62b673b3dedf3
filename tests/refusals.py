"""The refusals: the bad value, the functions that get it, and the expected error.

A refusal is one bad value, or a few that are bad together, in a call that is good otherwise
(`good_calls`). It applies to every target that its patterns match and that has all the names. The
tables are `refused_parameters`, `refused_samples` and `refused_pairs`. The tests make each of
these calls; the fuzzer makes them with further changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from good_calls import TARGETS, arguments_of, classes, index_pairs, parameters_of, samples

from tatml import Blocks

Type, Value = TypeError, ValueError


@dataclass(frozen=True)
class Refusal:
    """Bad arguments or parameters, the targets that refuse them, and the error."""

    given: dict[str, Any]
    to: str  # patterns of targets
    error: type[Exception]
    words: str  # a regular expression that the message matches from its start
    kind: str = "vectors"  # of the samples of the good call

    @property
    def targets(self) -> list[str]:
        """The targets that the patterns match and that have all the names."""
        return [
            target
            for target in TARGETS
            if any(fnmatchcase(target, pattern) for pattern in self.to.split())
            and self.given.keys() <= arguments_of(target) | parameters_of(target)
        ]


FIT, BOTH = "*.fit", "learn_metric *.fit"
BY_LABELS = "TATML.fit TATMLCV.fit Maz.fit ITML.fit GMML.fit Euclidean.fit TATMLNeighbors.fit"
BY_SAMPLES = f"{BY_LABELS} TATMLRegression.fit"
BY_PAIRS = "TATMLPairs.fit PairThreshold.fit"
BY_TUPLES = "TATMLTriplets.fit TATMLQuadruplets.fit"
COMPARING = f"{BY_TUPLES} TATMLNeighbors.fit"
SOLVING = f"TATML.fit TATMLCV.fit Maz.fit ITML.fit TATMLPairs.fit TATMLRegression.fit {COMPARING}"
WITH_PRIOR = f"{SOLVING} learn_metric"
WITH_X = "*.pair_distance *.pair_score *.predict_pairs *.pair_probability *.pair_log_likelihood_*"
CALIBRATE = "*.calibrate_threshold *.calibrate_probability"
ON_PAIRS = f"{WITH_X} *.predict *.predict_proba *.decision_function *.score"
AFTER_FIT = f"{ON_PAIRS} {CALIBRATE}"

X, MATRICES, BLOCKS, Y = samples("vectors"), samples("matrices"), samples("blocks"), classes()
INDEX, SIGNS = index_pairs()
PAIRS, SIMILAR = X[INDEX], SIGNS > 0
N, K = len(X), len(INDEX)
DATES = r"expected real numbers, got .*(datetime|date|Timestamp).*; convert dates to numbers, "
DURATIONS = "expected real numbers, got .*timedelta.*; convert durations to numbers, such as days"


def masked(values: Any) -> np.ma.MaskedArray:
    """Return a masked array in which every fifth entry is hidden."""
    values = np.asarray(values)
    return np.ma.array(values, mask=np.arange(values.size).reshape(values.shape) % 5 == 0)


def dates_like(values: Any) -> np.ndarray:
    """Return days of 2020 in the shape of an array."""
    days = np.arange(np.size(values)) % 300
    return (np.datetime64("2020-01-01") + days).reshape(np.shape(values))


def with_entry(values: np.ndarray, row: Any, value: Any) -> np.ndarray:
    """Return a copy with one entry, or the entries of one row, changed."""
    changed = np.array(values)
    changed[row] = value
    return changed


def as_objects(values: np.ndarray, row: Any, value: Any) -> np.ndarray:
    """Return a copy of dtype object with one entry changed."""
    changed = values.astype(object)
    changed[row] = value
    return changed


def changed_block(m: int, array: Any) -> Blocks:
    """Return Blocks of which one array is replaced."""
    return Blocks(*(array if k == m else old for k, old in enumerate(BLOCKS.arrays)))


def of(
    name: str, to: str, error: type, words: str, *values: Any, kind: str = "vectors", **others: Any
) -> list[Refusal]:
    """Return one refusal for each bad value of a parameter, whose name begins the message."""
    words = f"{name}: {words}"
    return [Refusal({name: value} | others, to, error, words, kind) for value in values]


def together(
    to: str, error: type, words: str, *given: dict[str, Any], kind: str = "vectors"
) -> list[Refusal]:
    """Return one refusal for each dictionary of values that are bad together."""
    return [Refusal(one, to, error, words, kind) for one in given]
