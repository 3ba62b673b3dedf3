"""Good calls of `learn_metric`, of every fit and of every method: what fuzzer and table change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from fuzz_mutations import HARMLESS

from tatml import (
    GMML,
    ITML,
    PAPER,
    TATML,
    TATMLCV,
    Blocks,
    Dykstra,
    Euclidean,
    Maz,
    Newton,
    PairThreshold,
    TATMLPairs,
)


@dataclass
class Case:
    """One call: of a function, or of a method of an estimator."""

    target: str
    function: Callable
    arguments: dict[str, Any]
    estimator: Any = None
    kinds: dict[str, Any] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    names: frozenset[str] = frozenset()

    @property
    def is_harmless(self) -> bool:
        """Whether only the form of the arguments was changed."""
        labels = [label.partition(": ")[2] for label in self.labels]
        return bool(labels) and set(labels) <= HARMLESS

    def call(self) -> Any:
        return self.function(**self.arguments)


N_SAMPLES = 12


SHAPES = {
    "vectors": [(3, 1)],
    "wide": [(15, 1)],
    "matrices": [(3, 2)],
    "blocks": [(3, 2), (2, 1)],
}


KINDS = tuple(SHAPES)


@cache
def samples(kind: str) -> Any:
    """Three classes that the first row tells apart."""
    rng = np.random.default_rng(0)
    y = np.arange(N_SAMPLES) % 3
    shapes = SHAPES[kind]
    arrays = [rng.normal(size=(N_SAMPLES, *shape)) for shape in shapes]
    for array in arrays:
        array[:, 0] += 3 * y[:, None]
    if kind in ("vectors", "wide"):
        return np.ascontiguousarray(arrays[0][:, :, 0])
    return arrays[0] if kind == "matrices" else Blocks(*arrays)


@cache
def classes() -> np.ndarray:
    return np.arange(N_SAMPLES) % 3


@cache
def index_pairs() -> tuple[np.ndarray, np.ndarray]:
    """Twenty index pairs of both kinds, and their labels ±1."""
    every = np.stack(np.triu_indices(N_SAMPLES, 1), axis=1)
    pairs = np.random.default_rng(1).permutation(every)[:20]
    y = classes()
    return pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


FEW = {"n_pairs_per_class": 6, "random_state": 0}


SOLVED = [
    {},
    {"prior": "identity"},
    {"prior": "auto"},
    {"n_components": 1},
    {"solver": Newton(max_iter=2)},
    {"solver": Dykstra(max_iter=20)},
    {"warm_start": True},
]


DRAWN = [{"pairs": "neighbors"}, {"pairs": "all"}, {"n_pairs_per_class": None}]


TUNED = [{"threshold": 0.8}, {"c0": 2.0}, {"reduction": "sum"}, {"threshold_prior": 1.0}]


QUICK_CV = {"Cs": [1.0, 100.0], "cv": 2, "k": 1}


QUICK_SEARCH = {"threshold": "search", "thresholds": (0.5, 1.0), "cv": 2, "k": 1}


LABEL_ESTIMATORS = {
    TATML: [*SOLVED, *DRAWN, *TUNED, dict(PAPER)],
    TATMLCV: [
        QUICK_CV,
        QUICK_CV | {"scoring": "auc", "solver": Newton(max_iter=5)},
        QUICK_CV | DRAWN[0],
    ],
    Maz: [*SOLVED, *DRAWN, {"reduction": "sum"}, QUICK_SEARCH],
    ITML: [*SOLVED, *DRAWN, {"bounds": (0.5, 2.0)}],
    GMML: [{}, *DRAWN, {"prior": "identity"}, {"n_components": 1}],
    Euclidean: [{}, *DRAWN, {"n_components": 1}],
}


PAIR_ESTIMATORS = {
    TATMLPairs: [*SOLVED, *TUNED, {"class_weight": None}],
    PairThreshold: [{}, {"metric": "cosine"}, {"class_weight": None}, {"threshold_prior": 1.0}],
}


@cache
def fitted(make: type, kind: str) -> Any:
    """An estimator fitted to good samples."""
    index, y = index_pairs()
    if make in LABEL_ESTIMATORS:
        options = QUICK_CV if make is TATMLCV else {}
        return make(**FEW | options).fit(samples(kind), classes())
    if kind == "blocks":
        return make(preprocessor=samples(kind)).fit(index, y)
    return make().fit(samples(kind)[index], y)


METHODS = (
    "transform",
    "pair_distance",
    "pair_score",
    "predict_pairs",
    "predict",
    "decision_function",
    "score",
    "set_threshold",
    "calibrate_threshold",
    "get_metric",
    "get_mahalanobis_matrix",
)


ON_PAIRS = ("pair_distance", "pair_score", "predict_pairs")
