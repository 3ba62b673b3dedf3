"""Refusals of pairs, of their labels and weights, of preprocessors, and of calibrations."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import scipy.sparse
from hostile import HUGE, HostileIterator
from refusals import (
    AFTER_FIT,
    BLOCKS,
    BY_PAIRS,
    BY_SAMPLES,
    CALIBRATE,
    DATES,
    DURATIONS,
    INDEX,
    PAIRS,
    SIGNS,
    SIMILAR,
    WITH_X,
    K,
    N,
    Refusal,
    Type,
    Value,
    X,
    as_objects,
    dates_like,
    masked,
    of,
    together,
    with_entry,
)

CALLS = f"{BY_PAIRS} {AFTER_FIT}"
GIVEN_X = f"{WITH_X} {CALIBRATE}"
JUDGED = f"{BY_PAIRS} TATMLPairs.score PairThreshold.score {CALIBRATE}"
MASKED = "expected an array without masked entries"
ARRAY = "expected an array of shape "
NUMBERS = np.arange(N)
LARGEST = np.uint64(2**64 - 1)


def looked_up(error: type, words: str, preprocessor: Any, pairs: Any = INDEX) -> list[Refusal]:
    """Return the refusal of a preprocessor, or of the indicators that it is given."""
    given = {"preprocessor": preprocessor, "pairs": pairs, "y": SIGNS[: len(pairs)]}
    return together(BY_PAIRS, error, words, given)


def indicated(error: type, words: str, preprocessor: Any, X: Any = NUMBERS) -> list[Refusal]:
    """Return the refusal of a preprocessor by estimators of labelled samples."""
    given = {"preprocessor": preprocessor, "X": X}
    return together(BY_SAMPLES, error, f"preprocessor: expected {words}", given)


def indices(to: str) -> list[Refusal]:
    """Return refusals of index pairs into X."""
    entry, integers = "expected 0 ≤ index < n_samples = 12, got index ", "expected integer sample "
    shape = r"expected shape \(K, 2\)"
    return [
        *of("pairs", to, Value, entry + "12 in row 3", with_entry(INDEX, (3, 1), N), X=X),
        *of("pairs", to, Value, entry + "-1 in row 3", with_entry(INDEX, (3, 1), -1), X=X),
        *of(
            "pairs",
            to,
            Value,
            entry + "18446744073709551615 in row 3",
            with_entry(INDEX.astype(np.uint64), (3, 1), LARGEST),
            X=X,
        ),
        *of("pairs", to, Type, integers + "indices, got dtype float64", INDEX.astype(float), X=X),
        *of("pairs", to, Type, integers + "indices, got dtype bool", INDEX > 3, X=X),
        *of("pairs", to, Value, shape + r".*got shape \(2,\)", INDEX[0], X=X),
        *of("pairs", to, Value, shape + r".*got shape \(4, 3\)", np.ones((4, 3), int), X=X),
        *of("pairs", to, Value, shape + r".*got shape \(20, 2, 3\)", PAIRS, X=X),
        *of("pairs", to, Value, shape + ".*got no pairs", [], INDEX[:0], X=X),
        *of("pairs", to, Value, "expected an array with rows of equal length", [[0, 1], [2]], X=X),
        *of("pairs", to, Type, MASKED, masked(INDEX), X=X),
    ]


def weights(name: str, to: str) -> list[Refusal]:
    """Return refusals of the weights of pairs."""
    ones, entry = np.ones(K), "expected finite, non-negative numbers, got "
    return [
        *of(
            name,
            to,
            Value,
            r"expected shape \(20,\), one for each pair, got shape \(3,\)",
            ones[:3],
        ),
        *of(name, to, Value, entry + "-1.0 in row 4", with_entry(ones, 4, -1.0)),
        *of(name, to, Value, entry + "nan in row 4", with_entry(ones, 4, nan)),
        *of(name, to, Value, entry + "inf in row 4", with_entry(ones, 4, inf)),
        *of(name, to, Value, "expected at least one positive weight, got zeros", 0 * ones),
        *of(name, to, Type, "expected real numbers, got dtype <U1", ["a"] * K),
        *of(name, to, Type, "expected real numbers, got dtype complex", 1j * ones),
        *of(name, to, Type, MASKED, masked(ones)),
    ]


PAIRED = {
    "pairs": of(
        "pairs",
        CALLS,
        Type,
        "expected a dense array of shape .*got sparse",
        scipy.sparse.csr_array(X),
    )
    + of(
        "pairs", CALLS, Type, "expected .*got Blocks; for pairs of Blocks give index pairs", BLOCKS
    )
    + of(
        "pairs",
        CALLS,
        Value,
        ARRAY + r".*\(20, 2\); index pairs need a preprocessor, or X in a method",
        INDEX,
    )
    + of("pairs", CALLS, Value, ARRAY + r".*got shape \((12,)?\)", X[:, 0], None)
    + of("pairs", CALLS, Value, ARRAY + r".*got shape \(20, 2, 1, 1, 1\)", np.ones((K, 2, 1, 1, 1)))
    + of("pairs", CALLS, Value, r"expected .*two samples .*\(20, 3, 3\)", np.ones((K, 3, 3)))
    + of("pairs", CALLS, Value, "expected at least one pair, .*got shape", PAIRS[:0])
    + of("pairs", CALLS, Value, "expected .*at least one feature, got shape", PAIRS[:, :, :0])
    + of(
        "pairs",
        CALLS,
        Value,
        "expected .*got NaN or infinity in pair 7, member 1",
        with_entry(PAIRS, (7, 1, 0), nan),
    )
    + of("pairs", CALLS, Value, "expected", [[[1.0], [1.0, 2.0]]] * K)
    + of("pairs", CALLS, Type, "expected real numbers", PAIRS.astype(str))
    + of("pairs", CALLS, Type, DATES, dates_like(PAIRS), list(dates_like(PAIRS)))
    + of("pairs", CALLS, Type, DURATIONS, dates_like(PAIRS) - dates_like(PAIRS).min())
    + of("pairs", CALLS, Type, MASKED, masked(PAIRS))
    + of(
        "pairs",
        CALLS,
        Value,
        r"expected entries of at most 1e\+60, .*rescale pairs",
        1e61 * PAIRS,
        1e160 * PAIRS,
        1e300 * PAIRS,
    ),
    "index pairs": indices("learn_metric")
    + indices(GIVEN_X)
    + of(
        "pairs",
        "learn_metric",
        Value,
        "expected two different .*got 2 twice in row 3",
        with_entry(INDEX, 3, 2),
    )
    + together("learn_metric", Type, "pairs, similar: expected arrays, got None", {"pairs": None})
    + of(
        "X", GIVEN_X, Value, r"expected entries of at most 1e\+60", 1e61 * X, 1e300 * X, pairs=INDEX
    )
    + of("X", GIVEN_X, Type, MASKED, masked(X), pairs=INDEX)
    + of(
        "X",
        GIVEN_X,
        Value,
        "expected .*got nan in sample 7",
        with_entry(X, (7, 1), nan),
        pairs=INDEX,
    ),
    "preprocessor": looked_up(
        Value, "preprocessor: expected indices from 0 to 11, got 1", X, INDEX + N
    )
    + looked_up(Value, "preprocessor: expected indices from 0 to 11, got -", X, -1 - INDEX)
    + looked_up(Value, "preprocessor: expected indices from 0 to 11, got 1", BLOCKS, INDEX + N)
    + looked_up(Type, "preprocessor: expected integer indicators.*float64", X, INDEX.astype(float))
    + looked_up(Type, "preprocessor: expected integer .*give a function", X, INDEX.astype(str))
    + looked_up(Type, "preprocessor: expected an array of samples.*got 5", 5)
    + looked_up(Type, "preprocessor: expected an array of samples.*got 'samples'", "samples")
    + looked_up(Type, f"preprocessor: {DATES}", dates_like(X))
    + looked_up(Value, "preprocessor: expected finite", with_entry(X, (7, 1), nan))
    + looked_up(Type, "pairs: expected indicators of one type", X, as_objects(INDEX, (0, 0), "a"))
    + looked_up(Value, ".*of indicators for the preprocessor, or", X, INDEX[0])
    + looked_up(Value, r"pairs: .*two samples per pair.*\(4, 3\)", X, np.ones((4, 3), int))
    + looked_up(Value, "pairs: expected at least one pair", X, INDEX[:0]),
    "functions as preprocessor": looked_up(Value, "preprocessor: expected .*got 3", lambda _: X[:3])
    + looked_up(Value, "preprocessor: expected . samples.*got 12", lambda _: X, INDEX[:3])
    + looked_up(Value, "preprocessor: expected 12 samples.*got None", lambda _: None)
    + looked_up(Value, "preprocessor: expected 12 samples.*got 3.0", lambda _: 3.0)
    + looked_up(Value, "preprocessor: expected 12 samples.*got <object", lambda _: object())
    + looked_up(Value, "preprocessor: expected 12 samples.*got <", lambda _: HostileIterator())
    + looked_up(Value, "preprocessor: expected 12 samples.*got 1", lambda _: [[1.0]])
    + looked_up(Value, "preprocessor: expected a function .*got IndexError: i", lambda n: X[n + 9])
    + looked_up(Value, "preprocessor: expected a function .*got KeyError: 'a'", lambda _: {}["a"])
    + looked_up(Value, "preprocessor: .*got AttributeError: 'int", lambda _: (5).samples)
    + looked_up(Type, "preprocessor: .*one for each indicator, got TypeError: ", lambda: X)
    + looked_up(Type, "preprocessor: .*dense", lambda _: scipy.sparse.eye_array(12)),
    "distances": [
        refusal
        for value, error, words in (
            (with_entry(np.ones(K), 3, nan), Value, "expected finite .*, got nan for pair 3"),
            (with_entry(np.ones(K), 3, inf), Value, "expected finite .*, got inf for pair 3"),
            (np.ones(0), Value, r"precomputed distances of shape \(n_pairs,\), got shape \(0,\)"),
            (PAIRS, Value, r"precomputed distances of shape \(n_pairs,\), got shape \(20, 2, 3\)"),
            (["a"] * K, Type, "expected real numbers"),
            (dates_like(SIGNS), Type, DATES),
        )
        for refusal in of("pairs", BY_PAIRS, error, f".*{words}", value, metric="precomputed")
    ]
    + of(
        "metric",
        BY_PAIRS,
        Value,
        "expected finite distances .*for pair 0",
        lambda u, v: nan,
        lambda u, v: -1.0,
    )
    + of(
        "metric",
        BY_PAIRS,
        Value,
        "",
        lambda u, v: None,
        lambda u, v: "far",
        lambda u, v: np.ones(2),
    )
    + of("metric", BY_PAIRS, Value, "index 9 is out", lambda u, v: u[9])
    + of("metric", BY_PAIRS, Value, "'numpy.ndarray' object has no", lambda u, v: u.distance)
    + of("metric", BY_PAIRS, Value, "division by zero", lambda u, v: 1 / 0)
    + of("metric", BY_PAIRS, Value, "int too large", lambda u, v: HUGE)
    + of("metric", BY_PAIRS, Type, "", lambda u, v: 1j),
}

SIGN = r"expected \+1 for similar and -1 for dissimilar pairs, got labels "
LABELLED = {
    "preprocessor of samples": indicated(Value, "indices from 0 to 11, got 12", X, NUMBERS + 1)
    + indicated(Type, "integer indicators.*float64", X, NUMBERS * 1.0)
    + indicated(Type, "an array of samples, Blocks or a function, got 5", 5)
    + indicated(Value, "12 samples, one for each indicator, got 3", lambda _: X[:3])
    + indicated(Value, "a function .*got IndexError: index", lambda n: X[n + 9])
    + indicated(Type, "an array without masked entries", lambda _: masked(X)),
    "similar": of(
        "similar",
        "learn_metric",
        Value,
        r"expected shape \(20,\), .*got shape \(19,\)",
        SIMILAR[:-1],
    )
    + of(
        "similar", "learn_metric", Value, r"expected shape .*got shape \(20, 1\)", SIMILAR[:, None]
    )
    + of("similar", "learn_metric", Value, r"expected shape .*got shape \(\)", True)
    + of(
        "similar", "learn_metric", Type, "expected booleans.*int64; .*write similar = y > 0", SIGNS
    )
    + of("similar", "learn_metric", Type, "expected booleans.*got dtype float64", SIMILAR * 1.0)
    + of("similar", "learn_metric", Type, MASKED, masked(SIMILAR)),
    "labels of pairs": of(
        "y", JUDGED, Value, r"expected a label of \+1 or -1 for each pair.*None", None
    )
    + of("y", JUDGED, Value, "expected one value for each of the 20 pairs, got 19", SIGNS[:-1])
    + of(
        "y",
        JUDGED,
        Value,
        r"expected similar \(\+1\) and dissimilar .*got 1 class only, -?1",
        np.ones(K),
        -np.ones(K),
    )
    + of("y", JUDGED, Value, SIGN + r"\[False, True\]; from booleans write np.where", SIMILAR)
    + of("y", JUDGED, Value, SIGN + r"\[0, 1\]", SIMILAR * 1)
    + of("y", JUDGED, Value, SIGN + r"\[-1, 0, 1\]", with_entry(SIGNS, 2, 0))
    + of("y", JUDGED, Value, SIGN + r"\['a', 'b'\]", np.where(SIMILAR, "a", "b"))
    + of(
        "y",
        JUDGED,
        Value,
        r".*for sample 2 \(Input y contains NaN",
        with_entry(SIGNS * 1.0, 2, nan),
    )
    + of("y", JUDGED, Type, MASKED, masked(SIGNS)),
    "weights": weights("weights", "learn_metric")
    + weights("sample_weight", JUDGED)
    + of(
        "sample_weight",
        JUDGED,
        Value,
        "expected weights that leave similar and dissimilar",
        SIMILAR * 1.0,
        1.0 - SIMILAR,
    )
    + of(
        "sample_weight",
        JUDGED,
        Value,
        "expected the largest weight to be from",
        np.full(K, 1e-320),
        np.full(K, 1e-150),
        np.full(K, 1e150),
    ),
}

THRESHOLD = "*.calibrate_threshold"
PROBABILITY = "*.calibrate_probability *.set_same_rate"
CALIBRATED = {
    "calibrate_threshold": of(
        "strategy", THRESHOLD, Value, "expected one of 'accuracy', .*got 'luck'", "luck"
    )
    + of(
        "min_rate",
        THRESHOLD,
        Type,
        "expected a number from 0 to 1 with strategy=",
        None,
        strategy="max_tpr",
    )
    + of(
        "min_rate",
        THRESHOLD,
        Value,
        "expected a number from 0 to 1, got 1.1",
        1.1,
        strategy="max_tnr",
    )
    + of("min_rate", THRESHOLD, Value, "expected None with strategy='accuracy', got 0.5", 0.5)
    + of(
        "max_rate",
        THRESHOLD,
        Type,
        "expected a number .*got None",
        None,
        strategy="false_match_rate",
    )
    + of(
        "max_rate",
        THRESHOLD,
        Value,
        "expected a number from 0 to 1, got 2",
        2,
        strategy="false_match_rate",
    )
    + of("same_rate", THRESHOLD, Value, "expected None with strategy='accuracy', got 0.5", 0.5)
    + of(
        "same_rate",
        THRESHOLD,
        Value,
        "expected a number (from 0 to 1|between 0 and 1), got ",
        *(0, 1.0, 2, nan),
        strategy="precision",
        min_rate=0.9,
    )
    + of(
        "same_rate",
        THRESHOLD,
        Value,
        "expected a number with guarantee='proved' and strategy='precision', got None",
        None,
        strategy="precision",
        min_rate=0.9,
        guarantee="proved",
    )
    + of(
        "min_rate",
        THRESHOLD,
        Type,
        "expected a number from 0 to 1 with strategy='precision', got None",
        None,
        strategy="precision",
    )
    + of(
        "min_rate",
        THRESHOLD,
        Value,
        "expected a number between 0 and 1, got ",
        *(0, 1),
        strategy="precision",
    )
    + of(
        "min_rate",
        THRESHOLD,
        Value,
        "expected at least 296 independent dissimilar pairs to promise a precision of 0.99 with a "
        "same_rate of 0.5 with confidence 0.95, got 1[0-9]; confidence=None",
        0.99,
        strategy="precision",
        same_rate=0.5,
    )
    + of("beta", THRESHOLD, Value, "expected a number of at most .*, got nan", nan)
    + of("beta", THRESHOLD, Value, "expected a number of at most", 1e200, strategy="f_beta")
    + of(
        "beta", THRESHOLD, Value, "expected .*more than a float can hold", HUGE, strategy="f_beta"
    ),
    "calibrate_probability": of(
        "same_rate", PROBABILITY, Value, "expected a number between 0 and 1, got ", 0, 1.0, -0.1, 2
    )
    + of("same_rate", PROBABILITY, Value, "expected a number between 0 and 1, got ", nan, inf)
    + of("same_rate", PROBABILITY, Type, "expected a number, got ", "half", [0.5], 1j, True)
    + of("same_rate", "*.set_same_rate", Type, "expected a number, got None", None)
    + of("method", "*.calibrate_probability", Value, "expected one of 'logistic', .*", "platt")
    + of("groups", "*.calibrate_probability", Value, "expected None with method=", INDEX),
    "promised rates": of(
        "max_rate",
        THRESHOLD,
        Value,
        "expected a number between 0 and 1, got ",
        0,
        1.0,
        strategy="false_match_rate",
    )
    + of(
        "max_rate",
        THRESHOLD,
        Value,
        "expected at least 299 independent dissimilar pairs to promise a false match rate of 0.01 "
        "with confidence 0.95, got 1[0-9]; confidence=None sets the plain quantile",
        0.01,
        strategy="false_match_rate",
    )
    + of(
        "max_rate",
        THRESHOLD,
        Value,
        "expected at least 459 independent similar pairs to promise a false non-match rate of 0.01 "
        "with confidence 0.99, got",
        0.01,
        strategy="false_non_match_rate",
        confidence=0.99,
    )
    + of(
        "max_rate",
        THRESHOLD,
        Value,
        "expected at least 14 independent .*got 1[0-9] pairs of which [0-9]+ share no sample or "
        "group: it takes at least 28 samples or groups",
        0.2,
        strategy="false_match_rate",
        guarantee="proved",
        pairs=INDEX,
        X=X,
    )
    + of(
        "confidence",
        THRESHOLD,
        Value,
        "expected a number between 0 and 1, got",
        0,
        1,
        95,
        strategy="false_match_rate",
        max_rate=0.5,
    )
    + of(
        "confidence",
        THRESHOLD,
        Type,
        "expected a number, got",
        "high",
        True,
        strategy="false_match_rate",
        max_rate=0.5,
    )
    + of(
        "confidence",
        THRESHOLD,
        Value,
        "expected 'auto' or None with strategy='accuracy', got 0.9; only 'false_match_rate', ",
        0.9,
    )
    + of(
        "confidence",
        THRESHOLD,
        Value,
        "expected None with sample_weight, got 0.9",
        0.9,
        sample_weight=np.ones(K),
        strategy="false_match_rate",
        max_rate=0.5,
    )
    + together(
        THRESHOLD,
        Value,
        "confidence: expected None with sample_weight, got 0.95",
        {
            "sample_weight": np.ones(K),
            "strategy": "false_non_match_rate",
            "max_rate": 0.5,
        },
    )
    + of(
        "guarantee", THRESHOLD, Value, "expected one of 'approximate', 'proved', got 'sure'", "sure"
    )
    + of(
        "groups",
        THRESHOLD,
        Value,
        r"expected shape \(20, 2\), one group for each member of a pair, got shape \(",
        NUMBERS,
        np.zeros((K, 3)),
        np.zeros((K, 2, 1)),
    )
    + of(
        "groups",
        THRESHOLD,
        Value,
        r"expected shape \(12,\), one group for each sample, or shape \(20, 2\), one group for "
        r"each member of a pair, got shape \(",
        NUMBERS[:-1],
        np.zeros(K),
        np.zeros((N, 2)),
        pairs=INDEX,
        X=X,
    )
    + of(
        "groups",
        THRESHOLD,
        Value,
        "expected a label for each member, got .*nan.* for member 9",
        with_entry(np.zeros((K, 2)), (4, 1), nan),
    )
    + together(
        THRESHOLD,
        Value,
        r"y: expected similar \(\+1\) and dissimilar",
        {"y": np.ones(K), "strategy": "false_match_rate", "max_rate": 0.5},
    )
    + together(
        THRESHOLD,
        Value,
        "pairs: expected no sample or group in more than 50% of the dissimilar pairs to promise a "
        "rate, got one in 100%",
        {"groups": np.zeros((K, 2)), "strategy": "false_match_rate", "max_rate": 0.5},
    ),
    "calibration_params": of("calibration_params", BY_PAIRS, Type, "expected a dict, got", 3, "ab")
    + of("calibration_params", BY_PAIRS, Value, "expected some of beta, .*got", {"luck": 1}, {1: 2})
    + of(
        "calibration_params", BY_PAIRS, Value, "beta: expected .*more than a float", {"beta": HUGE}
    )
    + of("calibration_params", BY_PAIRS, Value, "strategy: expected one of", {"strategy": "luck"})
    + of("calibration_params", BY_PAIRS, Type, "min_rate: expected", {"strategy": "max_tpr"})
    + of(
        "calibration_params",
        BY_PAIRS,
        Value,
        "expected confidence=None, as training pairs cannot promise a rate, got 0.9",
        {"strategy": "false_match_rate", "max_rate": 0.5, "confidence": 0.9},
    ),
}

TABLE = PAIRED | LABELLED | CALIBRATED
