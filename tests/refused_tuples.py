"""Refusals of comparisons, and of triplets and quadruplets with their weights."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import scipy.sparse
from good_calls import index_tuples
from refusals import (
    BLOCKS,
    BY_TUPLES,
    COMPARING,
    DATES,
    DURATIONS,
    Refusal,
    Type,
    Value,
    X,
    dates_like,
    masked,
    of,
    together,
    with_entry,
)

from tatml import Comparisons, Dykstra

MASKED = "expected an array without masked entries"
TRIPLETS = index_tuples(3)


def tuples(name: str, size: int, calls: str) -> list[Refusal]:
    """Return refusals of tuples of samples."""
    index = index_tuples(size)
    rows = X[index]
    shape = rf"expected at least one row of {size} samples, .*got shape "

    def bad(error: type, words: str, *values: Any) -> list[Refusal]:
        return of(name, calls, error, words, *values)

    return [
        *bad(Type, "expected a dense array .*got sparse", scipy.sparse.csr_array(X)),
        *bad(Type, "expected .*got Blocks; for .* give indices", BLOCKS),
        *bad(Value, rf"expected an array .*\(20, {size}\); indices need a preprocessor", index),
        *bad(Value, r"expected an array of shape .*got shape \((12,)?\)", X[:, 0], None),
        *bad(Value, shape, rows[:0], rows[:, :2], rows[..., :0]),
        *bad(Value, "expected .*in row 7, member 1", with_entry(rows, (7, 1, 0), nan)),
        *bad(Type, "expected real numbers", rows.astype(str)),
        *bad(Type, DATES, dates_like(rows)),
        *bad(Type, DURATIONS, dates_like(rows) - dates_like(rows).min()),
        *bad(Type, MASKED, masked(rows)),
        *bad(Value, r"expected entries of at most 1e\+60", 1e61 * rows),
    ]


def weights(to: str) -> list[Refusal]:
    """Return refusals of the weights of tuples."""
    ones, entry = np.ones(20), "expected finite, non-negative numbers, got "
    return [
        *of("sample_weight", to, Value, r"expected shape \(20,\), .*got shape \(3,\)", ones[:3]),
        *of("sample_weight", to, Value, entry + "-1.0 in row 4", with_entry(ones, 4, -1.0)),
        *of("sample_weight", to, Value, entry + "inf in row 4", with_entry(ones, 4, inf)),
        *of("sample_weight", to, Value, "expected at least one positive weight", 0 * ones),
        *of("sample_weight", to, Type, "expected real numbers, got dtype", ["a"] * 20),
    ]


SCORES = "TATMLTriplets.score TATMLQuadruplets.score"
AFTER = ("decision_function", "predict", "score")
CALLS = {
    name: " ".join(f"{name}.{method}" for method in ("fit", *AFTER))
    for name in ("TATMLTriplets", "TATMLQuadruplets")
}
LEARN = "learn_metric"

TABLE = {
    "triplets": tuples("triplets", 3, CALLS["TATMLTriplets"])
    + of(
        "triplets",
        "TATMLTriplets.fit",
        Value,
        "expected at least one of positive weight whose two pairs differ, got none",
        X[TRIPLETS[:, [0, 1, 1]]],
    ),
    "quadruplets": tuples("quadruplets", 4, CALLS["TATMLQuadruplets"]),
    "weights of tuples": weights(f"{BY_TUPLES} {SCORES}"),
    "solver of tuples": of(
        "solver", COMPARING, Value, "expected 'newton' or Newton.*got Dykstra", Dykstra()
    )
    + of("solver", COMPARING, Value, "expected 'newton' .* with .*got 'dykstra'", "dykstra"),
    "preprocessor of tuples": together(
        "TATMLTriplets.fit",
        Value,
        "preprocessor: expected indices from 0 to 11, got 1",
        {"preprocessor": X, "triplets": TRIPLETS + 12},
    )
    + together(
        "TATMLTriplets.fit",
        Value,
        "preprocessor: expected a function .*got IndexError: index",
        {"preprocessor": lambda rows: X[rows + 9], "triplets": TRIPLETS},
    )
    + together(
        "TATMLQuadruplets.fit",
        Type,
        "preprocessor: expected an array of samples.*got 5",
        {"preprocessor": 5, "quadruplets": index_tuples(4)},
    )
    + together(
        "TATMLTriplets.fit",
        Type,
        "triplets: expected indicators of one type",
        {"preprocessor": X, "triplets": np.array([[0, "a", None]], dtype=object)},
    ),
    "comparisons": of(
        "comparisons", LEARN, Type, r"expected Comparisons\(…\) or None, got", TRIPLETS, 3, "abc"
    )
    + together(
        LEARN,
        Value,
        "solver: expected 'newton' or Newton.* with comparisons, got Dykstra",
        {"comparisons": Comparisons(TRIPLETS), "solver": Dykstra()},
    )
    + [
        Refusal({"comparisons": bad}, LEARN, error, f"comparisons: {words}")
        for bad, error, words in (
            (Comparisons(TRIPLETS[:0]), Value, r"index: expected shape \(K, 3\) or \(K, 4\)"),
            (Comparisons(TRIPLETS[:, :2]), Value, r"index: .*got \(20, 2\)"),
            (Comparisons(TRIPLETS * 1.0), Type, "index: expected integer sample indices, got"),
            (
                Comparisons(with_entry(TRIPLETS, (3, 1), 12)),
                Value,
                "index: .*got index 12 in row",
            ),
            (
                Comparisons(with_entry(TRIPLETS, (3, 1), -1)),
                Value,
                "index: .*got index -1 in row 3",
            ),
            (Comparisons(masked(TRIPLETS)), Type, f"index: {MASKED}"),
            (Comparisons(TRIPLETS, np.ones(3)), Value, r"weights: expected shape \(20,\)"),
            (Comparisons(TRIPLETS, -np.ones(20)), Value, "weights: expected finite, non-neg"),
            (Comparisons(TRIPLETS, np.zeros(20)), Value, "expected a row of positive weight"),
            (Comparisons(TRIPLETS[:, [0, 1, 1]]), Value, "expected a row .*two pairs differ"),
        )
    ],
}
