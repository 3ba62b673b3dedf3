"""Refusals of samples, and of the labels and groups of samples."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pandas as pd
import scipy.sparse
from hostile import HUGE, HostileArray, HostileIterator
from refusals import (
    AFTER_FIT,
    BLOCKS,
    BY_LABELS,
    BY_SAMPLES,
    DATES,
    DURATIONS,
    INDEX,
    MATRICES,
    PAIRS,
    SIGNS,
    WITH_X,
    N,
    Type,
    Value,
    X,
    Y,
    as_objects,
    changed_block,
    dates_like,
    masked,
    of,
    together,
    with_entry,
)

from tatml import Blocks

DAYS = dates_like(X)
READ = f"{BY_SAMPLES} *.transform"
ALL = f"{READ} learn_metric"
TABULAR = "expected a table of finite real numbers, one row per sample, got "
ONES, ENTRY = np.ones(N), "expected finite, non-negative numbers, got "
NOT_FINITE = "expected finite numbers, got (nan|inf) in block "
RAGGED = [[1.0], [1.0, 2.0]] * 6
WITH_NA = pd.DataFrame(X).astype("Float64").mask(np.arange(N * 3).reshape(N, 3) == 22)
WITH_MASKED = as_objects(X, (3, 1), np.ma.masked)
DEPENDENT = np.c_[X, X[:, 0] - 2 * X[:, 1]]
RANK = "prior='covariance': the covariance of block 0 has rank 3, expected 4"
IDENTICAL = "expected pairs of samples that differ, got identical ones only"
SAME = np.ones((N, 3))
SAME_MATRICES = np.tile(MATRICES[:1], (N, 1, 1))
TURNED = np.swapaxes(MATRICES, 1, 2)

SAMPLES = {
    "a table": of(
        "X",
        READ,
        Value,
        TABULAR + "nan in sample 7, feature 1",
        with_entry(X, (7, 1), nan),
        WITH_NA,
    )
    + of("X", READ, Value, TABULAR + "inf in sample 7, feature 1", with_entry(X, (7, 1), inf))
    + of("X", READ, Value, TABULAR + r"ndarray .*\(Complex data not supported\)$", X + 1j)
    + of("X", READ, Value, TABULAR + r".*\(could not convert string", np.full((N, 3), "a"))
    + of("X", READ, Value, TABULAR + "list .*inhomogeneous", RAGGED)
    + of(
        "X",
        READ,
        Value,
        TABULAR + ".*infinity.*",
        with_entry(X.astype(np.longdouble), (2, 1), np.longdouble("1e400")),
    )
    + of("X", READ, Value, TABULAR + r".*too large", as_objects(X, (2, 1), HUGE))
    + of("X", READ, Value, TABULAR + r".*Expected 2D array, got [\w ]+\. Resh", 3.0, None, X[:, 0])
    + of("X", READ, Value, TABULAR + r"ndarray of shape \(0, 3\) \(Found array with 0", X[:0])
    + of("X", READ, Value, TABULAR + r"ndarray of shape \(12, 0\) \(Found array", X[:, :0])
    + of("X", READ, Value, TABULAR + r"HostileArray \(no array today", HostileArray()),
    "a table for learn_metric": of(
        "X",
        "learn_metric",
        Value,
        NOT_FINITE + "0, sample 7, entry",
        with_entry(X, (7, 1), nan),
        with_entry(X, (7, 1), inf),
    )
    + of("X", "learn_metric", Type, "expected real numbers, got .*complex128", X + 1j)
    + of("X", "learn_metric", Type, "expected real numbers, got .*<U1", np.full((N, 3), "a"))
    + of("X", "learn_metric", Type, "expected real numbers, got None", None)
    + of("X", "learn_metric", Value, "expected .*rows of equal length", RAGGED)
    + of("X", "learn_metric", Value, "int too large", as_objects(X, (2, 1), HUGE))
    + of("X", "learn_metric", Value, r"expected a 2-D array.*got .*shape \(12,\)", X[:, 0])
    + of("X", "learn_metric", Value, "expected at least one sample, got", X[:0])
    + of("X", "learn_metric", Value, "expected matrices of at least one row and", X[:, :0])
    + of("X", "learn_metric", Type, "expected a dense array, got csr", scipy.sparse.csr_array(X))
    + of("X", "learn_metric", Type, "expected an array, got HostileArray", HostileArray()),
    "matrices and blocks": of(
        "X", ALL, Value, NOT_FINITE + "0, sample 7, entry", with_entry(MATRICES, (7, 1, 1), nan)
    )
    + of(
        "X",
        ALL,
        Value,
        NOT_FINITE + "1, sample 7, entry",
        changed_block(1, with_entry(BLOCKS.arrays[1], (7, 1, 0), nan)),
        changed_block(1, with_entry(BLOCKS.arrays[1], (7, 1, 0), inf)),
    )
    + of("X", ALL, Value, r"expected a 2-D .*got ndarray of shape \(12, 1, 3", MATRICES[:, None])
    + of("X", ALL, Value, "expected at least one sample, got", MATRICES[:0]),
    "sizes of entries": of(
        "X",
        ALL,
        Value,
        r"expected entries of at most 1e\+60, .*got .*; rescale X",
        1e61 * X,
        1e160 * X,
        1e300 * X,
        changed_block(1, 1e61 * BLOCKS.arrays[1]),
    ),
    "kinds of samples": together(
        READ,
        Type,
        "Sparse data was passed for X, but dense data is required",
        {"X": scipy.sparse.csr_array(X)},
    )
    + of(
        "X",
        ALL,
        Type,
        "expected an array without masked entries",
        masked(X),
        masked(MATRICES),
        [masked(row) for row in X],
        WITH_MASKED,
        WITH_MASKED.tolist(),
        pd.DataFrame(WITH_MASKED),
    ),
    "dates and durations": of(
        "X",
        ALL,
        Type,
        DATES,
        DAYS,
        DAYS.astype("datetime64[ns]"),
        DAYS.astype(object),
        list(DAYS),
        dates_like(MATRICES),
        pd.DataFrame(DAYS),
        pd.DataFrame(X, columns=list("abc")).assign(b=DAYS[:, 0]),
        pd.DataFrame(DAYS.astype("datetime64[ns]")).apply(lambda column: column.dt.tz_localize(0)),
        as_objects(X, (2, 1), DAYS[0, 0]),
    )
    + of(
        "X",
        ALL,
        Type,
        DURATIONS,
        DAYS - DAYS[0],
        dates_like(MATRICES) - DAYS[0, 0],
        pd.DataFrame(DAYS - DAYS[0]),
        as_objects(X, (2, 1), DAYS[1, 1] - DAYS[0, 0]),
    )
    + of("X", WITH_X, Type, DATES, DAYS, pairs=INDEX)
    + together(
        "*.get_metric()",
        Type,
        f"u, v: {DATES}",
        {"u": DAYS[0]},
        {"v": list(DAYS[0])},
    ),
    "pairs as samples": together(
        BY_SAMPLES,
        Value,
        r"X: expected samples, got shape \(20, 2, 3\) with labels -1 and \+1, which are pairs: fit "
        r"TATMLPairs, or PairThreshold, .* give Blocks\(X\)",
        {"X": PAIRS, "y": SIGNS},
        {"X": PAIRS, "y": SIGNS.astype(float)},
        {"X": PAIRS.tolist(), "y": SIGNS.tolist()},
        {"X": PAIRS, "y": SIGNS.astype(object)},
    ),
    "index pairs as samples": together(
        BY_SAMPLES,
        Value,
        r"X: expected samples, or their indices of shape \(n_samples,\), got two columns of whole "
        r"numbers with labels -1 and \+1 and a preprocessor, .* fit TATMLPairs, .* Blocks\(X\)",
        {"X": INDEX, "y": SIGNS, "preprocessor": X},
        {"X": INDEX.tolist(), "y": SIGNS.tolist(), "preprocessor": Blocks(X)},
        {"X": INDEX.astype(float), "y": SIGNS.astype(float), "preprocessor": X.take},
        {"X": pd.DataFrame(INDEX, columns=["a", "b"]), "y": SIGNS, "preprocessor": X},
    ),
    "samples that hardly differ": of(
        "X",
        BY_SAMPLES,
        Value,
        "expected samples that differ by at least 1e-60, .*got at most .* in block 0; rescale X",
        1e-155 * X,
        1e-100 * X,
        1e-320 * X,
    )
    + of(
        "pairs",
        "TATMLPairs.fit",
        Value,
        "expected samples that differ by at least 1e-60, .*; rescale pairs",
        1e-155 * PAIRS,
        1e-100 * PAIRS,
    ),
    "identical samples": of(
        "X",
        "TATML*.fit GMML.fit",
        Value,
        "expected pairs of samples that differ",
        SAME,
        SAME_MATRICES,
    )
    + of("X", "TATML.fit", Value, IDENTICAL, SAME, prior="identity")
    + of("X", "TATML.fit", Value, IDENTICAL, SAME, prior=np.eye(3))
    + of("X", "TATMLCV.fit", Value, IDENTICAL, SAME, param_grid={"prior": ["identity"]})
    + of("X", "TATMLCV.fit", Value, IDENTICAL, SAME, param_grid={"prior": [np.eye(3)]})
    + of("X", "Maz.fit", Value, IDENTICAL, SAME, prior="identity")
    + of(
        "X",
        "ITML.fit",
        Value,
        "expected samples of different classes to differ",
        SAME,
        prior=np.eye(3),
    )
    + of("pairs", "TATMLPairs.fit", Value, IDENTICAL, SAME[INDEX], prior="identity")
    + of("pairs", "TATMLPairs.fit", Value, IDENTICAL, SAME[INDEX], prior=np.eye(3))
    + together("TATML.fit", Value, RANK, {"X": DEPENDENT, "prior": "covariance"})
    + together("TATMLPairs.fit", Value, RANK, {"pairs": DEPENDENT[INDEX], "prior": "covariance"}),
    "another shape than in fit": together(
        "*.transform", Value, r"X has 2 features, but \w+ is expecting 3 features", {"X": X[:, :2]}
    )
    + together(
        "*.transform",
        Value,
        r"X has \d features, but \w+ is expecting 6 features as input: .*3×2 as in fit, got",
        {"X": MATRICES[:, :2]},
        {"X": BLOCKS},
        kind="matrices",
    )
    + together(
        "*.transform",
        Value,
        r"X has 3 features, but \w+ is expecting 6 features",
        {"X": X},
        kind="matrices",
    )
    + of(
        "X",
        "*.transform",
        Value,
        "expected blocks .*3×2 as in fit, got 2×3",
        TURNED,
        kind="matrices",
    )
    + of(
        "X",
        "*.transform",
        Value,
        "expected blocks of shapes 3×2 as in fit, got 6×1",
        MATRICES.reshape(N, 6),
        kind="matrices",
    )
    + of(
        "X",
        "*.transform",
        Value,
        "expected blocks of shapes 3×2, 2×1 as in fit, got 2×1, 3×2",
        Blocks(*BLOCKS.arrays[::-1]),
        kind="blocks",
    )
    + of(
        "pairs", AFTER_FIT, Value, r"pairs has 2 features, but \w+ is expecting 3", PAIRS[:, :, :2]
    )
    + of(
        "pairs",
        AFTER_FIT,
        Value,
        "expected blocks of shapes 3×2 as in fit, got 2×3",
        TURNED[INDEX],
        kind="matrices",
    ),
    "two samples": together(
        "*.get_metric()",
        Value,
        "u, v: expected",
        {"u": nan * X[0]},
        {"v": 1e200 * X[0]},
        {"u": X[0, :2]},
    )
    + together(
        "*.get_metric()",
        Type,
        "u, v: expected",
        {"u": X[0] + 1j},
        {"v": "abc"},
        {"u": HostileArray()},
        {"u": masked(X[0])},
    )
    + together(
        "*.get_metric()",
        Value,
        "u, v: expected one matrix for each of 2 blocks, got 1",
        {"u": BLOCKS.arrays[:1]},
        kind="blocks",
    )
    + together(
        "*.get_metric()",
        Type,
        "u, v: expected one matrix for each of 2 blocks, got",
        {"u": 3.0},
        {"v": None},
        {"u": HostileIterator()},
        kind="blocks",
    ),
}

LABEL = "expected a label for each sample, got "
CLASSES = "expected classes that are integers, words or booleans, got "
ONE_LABEL = "expected one label for each sample, got .*y should be a 1d array"
ONE_FIT = BY_LABELS.replace("TATMLCV.fit", "")  # without folds
LABELS = {
    "y": together(
        "TATML.fit TATMLCV.fit Maz.fit ITML.fit GMML.fit",
        Value,
        r"\w+ requires y to be passed, but the target y is None",
        {"y": None},
    )
    + of("y", BY_LABELS, Value, "expected one value for each of the 12 samples, got 11", Y[:-1])
    + of("y", BY_LABELS, Value, "expected two classes or more, got 1 class only", np.ones(N))
    + of(
        "y",
        BY_LABELS,
        Value,
        LABEL + r".*nan.* for sample 1 \(Input y contains NaN",
        np.where(Y == 1, nan, Y),
    )
    + of("y", BY_LABELS, Value, LABEL + ".*inf.* for sample 1", np.where(Y == 1, inf, Y))
    + of("y", BY_LABELS, Value, LABEL + "None for sample 5", as_objects(Y, 5, None))
    + of("y", BY_LABELS, Value, LABEL, pd.Series(Y, dtype="Int64").mask(Y == 0))
    + of("y", BY_LABELS, Value, CLASSES + r"dtype float64 such as .*\(Unknown label type", X[:, 0])
    + of("y", BY_LABELS, Value, CLASSES + "objects such as 0", as_objects(Y, -1, "a"))
    + of("y", BY_LABELS, Value, CLASSES + r"dtype \|S1 such as [^(]*\(b'0'\)$", Y.astype("S1"))
    + of("y", BY_LABELS, Value, CLASSES + "objects such as b'0'$", Y.astype("S1").astype(object))
    + of("y", BY_LABELS, Value, ONE_LABEL, np.stack([Y, Y], axis=1), 3, {1, 2})
    + of("y", BY_LABELS, Value, "expected one label .*no array today", HostileArray())
    + of("y", BY_LABELS, Type, "expected a dense array", scipy.sparse.csr_array(Y[:, None]))
    + of("y", BY_LABELS, Type, "expected an array without masked entries", masked(Y)),
    "sample_weight": [
        *of(
            "sample_weight", BY_SAMPLES, Value, r"expected shape \(12,\), one for each s", ONES[1:]
        ),
        *of("sample_weight", BY_SAMPLES, Value, ENTRY + "-1.0 in row 4", with_entry(ONES, 4, -1.0)),
        *of("sample_weight", BY_SAMPLES, Value, ENTRY + "nan in row 4", with_entry(ONES, 4, nan)),
        *of("sample_weight", BY_SAMPLES, Value, ENTRY + "inf in row 4", with_entry(ONES, 4, inf)),
        *of("sample_weight", BY_SAMPLES, Value, "expected at least one positive weight", 0 * ONES),
        *of("sample_weight", BY_SAMPLES, Value, "expected the largest weight", 1e-150 * ONES),
        *of("sample_weight", BY_SAMPLES, Type, "expected real numbers, got dtype <U1", ["a"] * N),
        *of("sample_weight", BY_SAMPLES, Type, "expected an array without masked", masked(ONES)),
        *of("sample_weight", BY_LABELS, Value, ".*at least two classes, got them in one", Y == 0),
    ],
    "groups": of(
        "groups", BY_SAMPLES, Value, "expected one value for each of the 12 samples", Y[:-1]
    )
    + of("groups", BY_SAMPLES, Value, r"expected shape .*got shape \(12, 2\)", np.ones((N, 2)))
    + of("groups", BY_SAMPLES, Value, LABEL + ".*nan.* for sample 4", with_entry(Y * 1.0, 4, nan))
    + of("groups", BY_SAMPLES, Value, LABEL + "None for sample 4", as_objects(Y, 4, None))
    + of("groups", BY_SAMPLES, Type, "expected values of one type", as_objects(Y, 3, "a"))
    + of("groups", BY_SAMPLES, Type, "expected an array without masked entries", masked(Y))
    + together(
        ONE_FIT,
        Value,
        "y: expected labels that give similar pairs, .*the groups",
        {"groups": np.zeros(N)},
        {"groups": Y},
    )
    + together(
        "TATMLCV.fit",
        Value,
        "cv: expected a number of folds that all give similar and dissimilar pairs, got 2 for",
        {"groups": np.zeros(N)},
        {"y": Y[:3], "X": X[:3]},
        {"y": np.arange(4) % 2, "X": X[:4]},
    )
    + of(
        "y",
        ONE_FIT,
        Value,
        "expected labels that give similar pairs",
        Y[:3],
        X=X[:3],
    ),
}
TARGET = "expected numbers or ordered categories, got "
NO_NUMBER = r"expected finite numbers, got {} for sample 1 \(Input y contains {}\)"
UNORDERED = pd.Series(np.where(Y == 0, "low", "high"), dtype="category")
ORDERED = UNORDERED.cat.as_ordered()
BY_NUMBERS = "TATMLRegression.fit"
TARGETS = {
    "targets": together(
        BY_NUMBERS,
        Value,
        r"\w+ requires y to be passed, but the target y is None",
        {"y": None},
    )
    + of("y", BY_NUMBERS, Value, "expected one value for each of the 12 samples, got 11", Y[:-1])
    + of("y", BY_NUMBERS, Value, r"expected shape \(n_samples,\) or .*got shape", 3, X[:, :, None])
    + of("y", BY_NUMBERS, Value, "expected at least one target, got none", X[:, :0])
    + of("y", BY_NUMBERS, Value, TARGET + ".*; for classes, take TATML", Y.astype(str))
    + of("y", BY_NUMBERS, Value, TARGET + ".*; for classes", Y.astype(str).astype(object))
    + of("y", BY_NUMBERS, Value, TARGET + "categories without an order; for classes", UNORDERED)
    + of("y", BY_NUMBERS, Value, TARGET + "categories without", pd.DataFrame({"y": UNORDERED}))
    + of(
        "y",
        BY_NUMBERS,
        Value,
        "expected finite numbers, got nan for sample 2",
        ORDERED.mask(Y == 2),
    )
    + of("y", BY_NUMBERS, Value, NO_NUMBER.format("nan", "NaN"), np.where(Y == 1, nan, Y))
    + of("y", BY_NUMBERS, Value, NO_NUMBER.format("inf", "infinity"), np.where(Y == 1, inf, Y))
    + of(
        "y", BY_NUMBERS, Value, "expected targets that give dissimilar pairs, .*far=0.4", np.ones(N)
    )
    + of(
        "y",
        BY_NUMBERS,
        Value,
        "expected targets that give similar pairs, .*near=0.12",
        Y[:3],
        X=X[:3],
    )
    + of("y", BY_NUMBERS, Type, "expected real numbers, got None", as_objects(Y, 5, None))
    + of("y", BY_NUMBERS, Type, "expected real numbers, got an array of dtype complex", Y * 1j)
    + of(
        "y",
        BY_NUMBERS,
        Type,
        "expected real numbers, got an array of dtype datetime",
        dates_like(Y),
    )
    + of("y", BY_NUMBERS, Type, "expected an array.*no array today", HostileArray())
    + of("y", BY_NUMBERS, Type, "expected a dense array", scipy.sparse.csr_array(Y[:, None]))
    + of("y", BY_NUMBERS, Type, "expected an array without masked entries", masked(Y))
    + together(
        BY_NUMBERS,
        Value,
        "y: expected targets that give similar pairs outside the groups, ",
        {"groups": Y},
    )
    + together(
        BY_NUMBERS,
        Value,
        "y: expected targets that give similar pairs outside the groups, ",
        {"groups": np.zeros(N)},
    ),
}

TABLE = SAMPLES | LABELS | TARGETS
