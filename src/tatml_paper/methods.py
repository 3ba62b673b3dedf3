"""The methods: one entry each, an estimator that chooses its own parameters in the training half.

The estimator that `build` returns is fitted to the training half only, its search included. The
search is a path of `TATMLCV` if there is one, and otherwise scikit-learn's `GridSearchCV` for 3-NN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tatml import GMML, ITML, PAPER, TATML, TATMLCV, Euclidean
from tatml.features import KernelMap, Vectorize

from .fitting import MatchedPCA, ThresholdSearch
from .settings import PAPER_THRESHOLDS, PAPER_WEIGHTS, PROTOCOL

MethodKind = Literal["paper", "fixed", "beyond", "exploratory"]
InputForm = Literal["matrices", "vectors"]

FOLDS, NEIGHBOURS = PROTOCOL.folds, PROTOCOL.neighbours
PAPER_PAIRS: dict[str, Any] = {
    name: PAPER[name] for name in ("prior", "pairs", "n_pairs_per_class")
}
KERNEL_GRIDS: list[dict[str, Any]] = [
    {"prior": ["discriminant", "auto", "scaled"], "C": [10.0, 100.0, 1000.0]},
    {
        "kernel": [KernelMap(gamma_factor=factor) for factor in (0.3, 1.0, 3.0)],
        "C": [10.0, 100.0, 1000.0],
    },
]
PAPER_WITHOUT_C: dict[str, Any] = {name: PAPER[name] for name in PAPER if name != "C"}


# ---------------------------------------------------------------------------------------------
# The one fixed configuration, "TATML*". It was set before any test half was scored, and is the same
# for all data sets and feature types.
def fixed_configuration(seed: int) -> Pipeline:
    """Return TATML on vectors, with C, the prior and the kind of pairs by cross-validation."""
    return make_pipeline(
        Vectorize(join=True),
        TATMLCV(
            param_grid={
                "prior": ["discriminant", "within"],
                "pairs": ["random", "neighbors"],
                "C": np.logspace(0, 4, 9).tolist(),
            },
            scoring="accuracy",
            cv=FOLDS,
            random_state=seed,
        ),
    )


def kernel_configuration(seed: int) -> Pipeline:
    """Return TATML on vectors, with C, the prior and the kernel by cross-validation.

    Set before any half was scored with a kernel.
    """
    search = TATMLCV(param_grid=KERNEL_GRIDS, scoring="accuracy", cv=FOLDS, random_state=seed)
    return make_pipeline(Vectorize(join=True), search)


# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Parameters
    ----------
    name, title : str
        The name in records and on the command line, and the title in tables.
    kind : {"paper", "fixed", "beyond", "exploratory"}
        A method of the paper; the fixed configuration; a competitor or variant beyond the paper; a
        row that was not fixed beforehand.
    build : callable
        A function from a seed to an unfitted estimator.
    about : str
        The construction, in one line.
    form : {"matrices", "vectors"}
        Whether the metric acts on the left of the matrices or on all their entries as one vector.
    own_threshold : bool
        Whether it learns a threshold for same or different.
    classifier : bool
        Whether it classifies by itself, without distances and 3-NN.
    slow : bool
        Whether it runs only if it is named.
    """

    name: str
    title: str
    kind: MethodKind
    build: Callable[[int], Any]
    about: str
    form: InputForm = "vectors"
    own_threshold: bool = False
    classifier: bool = False
    slow: bool = False


def _paper_tatml(seed: int, **changes: Any) -> TATMLCV:
    return TATMLCV(
        TATML(**PAPER_WITHOUT_C | changes),
        {"C": list(PAPER_WEIGHTS)},
        scoring="accuracy",
        k=NEIGHBOURS,
        cv=FOLDS,
        random_state=seed,
    )


def _maz(seed: int) -> ThresholdSearch:
    thresholds = tuple(b0**0.5 for b0 in PAPER_THRESHOLDS)
    return ThresholdSearch(_paper_tatml(seed, c0=None, threshold_prior=None), thresholds)


def _itml(seed: int) -> GridSearchCV:
    bounds = [(b0 / 2, 2 * b0) for b0 in PAPER_THRESHOLDS]
    metric = ITML(random_state=seed, **PAPER_PAIRS)
    return _tuned(MatchedPCA(), metric, gamma=PAPER_WEIGHTS, bounds=bounds)


def _searched(steps: list[tuple[str, Any]], name: str, grid: Mapping[str, Any]) -> GridSearchCV:
    """Return the steps with a search over a grid of the parameters of one of them."""
    grid = {f"{name}__{parameter}": list(values) for parameter, values in grid.items()}
    return GridSearchCV(Pipeline(steps), grid, cv=FOLDS, error_score="raise")


def _tuned(*steps: Any, **grid: Any) -> GridSearchCV:
    """Return the steps, of which the last is a metric, with a grid search for 3-NN."""
    named = [(type(step).__name__.lower(), step) for step in steps[:-1]]
    knn = ("knn", KNeighborsClassifier(NEIGHBOURS))
    return _searched([*named, ("metric", steps[-1]), knn], "metric", grid)


def _vectors(*steps: Any, **grid: Any) -> GridSearchCV:
    return _tuned(Vectorize(join=True), *steps, **grid)


def _nca(seed: int) -> Pipeline:
    nca = NeighborhoodComponentsAnalysis(random_state=seed)
    return make_pipeline(Vectorize(join=True), StandardScaler(), nca)


def _lda(seed: int) -> GridSearchCV:
    lda = LinearDiscriminantAnalysis(solver="eigen")
    return _vectors(StandardScaler(), lda, shrinkage=["auto", 0.001, 0.01, 0.1, 0.5])


def _classifier(classifier: Any, **grid: Any) -> GridSearchCV:
    steps = [("vectorize", Vectorize(join=True)), ("scale", StandardScaler())]
    return _searched([*steps, ("classifier", classifier)], "classifier", grid)


def _logistic(seed: int) -> GridSearchCV:
    return _classifier(LogisticRegression(max_iter=1000), C=(0.01, 0.1, 1.0, 10.0, 100.0))


def _svm(seed: int) -> GridSearchCV:
    widths = (0.003, 0.01, 0.03, 0.1)
    return _classifier(SVC(random_state=seed), C=(1.0, 10.0, 100.0, 1000.0), gamma=widths)


_ENTRIES = (
    Method(
        "tatml",
        "TATML",
        "paper",
        _paper_tatml,
        "the paper's: c0 = μ0 = 1, W0 = I, 10 pairs per class, c by cross-validation",
        form="matrices",
        own_threshold=True,
    ),
    Method(
        "euc",
        "Euc",
        "paper",
        lambda seed: Euclidean(random_state=seed),
        "W = I",
        form="matrices",
    ),
    Method(
        "maz",
        "Maz",
        "paper",
        _maz,
        "b0 in {1/4, 1/2, 1, 2} and c by cross-validation",
        form="matrices",
        own_threshold=True,
    ),
    Method(
        "itml",
        "ITML",
        "paper",
        _itml,
        "PCA to matched degrees of freedom; bounds (b0/2, 2 b0) and γ by cross-validation",
    ),
    Method(
        "tatml_star",
        "TATML*",
        "fixed",
        fixed_configuration,
        "the one fixed configuration: C, prior and pairs by cross-validation, on vectors",
        own_threshold=True,
    ),
    Method(
        "tatml_kernel",
        "TATML, kernel",
        "fixed",
        lambda seed: make_pipeline(Vectorize(join=True), TATML(kernel="rbf", random_state=seed)),
        "the library's defaults on vectors and their RBF images, nothing searched",
        own_threshold=True,
    ),
    Method(
        "tatml_kernel_cv",
        "TATMLCV, kernel",
        "fixed",
        kernel_configuration,
        "C, prior, and no kernel or an RBF of three widths by cross-validation, on vectors",
        own_threshold=True,
        slow=True,
    ),
    Method(
        "itml_full",
        "ITML, full vector",
        "beyond",
        lambda seed: _vectors(
            ITML(random_state=seed, n_pairs_per_class=100),
            gamma=(1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0),
        ),
        "no PCA; bounds from percentiles of squared distances, γ by cross-validation",
    ),
    Method(
        "gmml",
        "GMML",
        "beyond",
        lambda seed: _vectors(GMML(random_state=seed), t=(0.01, 0.05, 0.1, 0.3, 0.5, 0.7)),
        "t by cross-validation",
    ),
    Method(
        "lda",
        "LDA + 3-NN",
        "beyond",
        _lda,
        "standardised, shrinkage by cross-validation",
    ),
    Method(
        "nca",
        "NCA",
        "beyond",
        _nca,
        "standardised",
        slow=True,
    ),
    Method(
        "lr",
        "Tangent space + logistic regression",
        "beyond",
        _logistic,
        "standardised, C by cross-validation; classifies by itself",
        classifier=True,
        slow=True,
    ),
    Method(
        "svm",
        "RBF-SVM",
        "beyond",
        _svm,
        "standardised, C and γ by cross-validation; classifies by itself",
        classifier=True,
        slow=True,
    ),
    Method(
        "tatml_mat",
        "TATML, defaults",
        "exploratory",
        lambda seed: TATML(random_state=seed),
        "the library's defaults, nothing searched",
        form="matrices",
        own_threshold=True,
    ),
    Method(
        "tatml_vec",
        "TATML, defaults, vectors",
        "exploratory",
        lambda seed: make_pipeline(Vectorize(join=True), TATML(random_state=seed)),
        "the library's defaults on the vectorised descriptors, nothing searched",
        own_threshold=True,
    ),
    Method(
        "tatml_paper_vec",
        "TATML, paper's setting, vectors",
        "exploratory",
        lambda seed: make_pipeline(Vectorize(join=True), _paper_tatml(seed)),
        "the paper's setting on the vectorised descriptors",
        own_threshold=True,
    ),
)
METHODS: Mapping[str, Method] = {method.name: method for method in _ENTRIES}
QUICK_METHODS = ("tatml", "euc", "maz", "tatml_star", "gmml", "lda")
