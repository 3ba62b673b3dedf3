"""Refusals of parameters: numbers, counts, words, flags, folds, priors and starts."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
from good_calls import QuarticLoss, classes
from hostile import ENDLESS, HUGE, HostileIterator, HostileNumber, HostileRepr
from refusals import (
    BOTH,
    BY_LABELS,
    BY_PAIRS,
    BY_SAMPLES,
    COMPARING,
    FIT,
    WITH_PRIOR,
    K,
    Refusal,
    Type,
    Value,
    X,
    masked,
    of,
    together,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from tatml import TATML, Comparisons, Compute, Dykstra, Maz, Newton
from tatml.features import KernelMap
from tatml.losses import LogisticLoss

SEARCH = {"threshold": "search"}
MARGINS = f"learn_metric {BY_SAMPLES.replace('TATMLNeighbors.fit', '')} {BY_PAIRS}"
SIZED = r"expected a distance from 1e-100 to 1e\+100, .*got 1e\+160"


NO_NUMBER = "expected a number.*, got .*(1|True|None|array|HostileRepr)"
POSITIVE = "expected a positive number.*, got (0|-1.0|nan|-?inf)$"
TOO_LARGE = "expected .*got more than a float can hold"


def not_positive(
    name: str, to: str = BOTH, *, none: bool = True, infinity: bool = True
) -> list[Refusal]:
    """Return refusals of what is no positive number; `none` and `infinity` if they are refused."""
    return [
        *of(name, to, Value, POSITIVE, 0, nan, *([inf] if infinity else [])),
        *of(name, to, Type, NO_NUMBER, "1", *([None] if none else [])),
        *of(name, to, Value, TOO_LARGE, HUGE),
    ]


SOLVED_AS = "TATML.fit TATMLPairs.fit TATMLRegression.fit"
ONES = np.ones(K)
LOGISTIC_OF_PAIRS = LogisticLoss(ONES, ONES, ONES)


def of_kernel(**given: Any) -> list[Refusal]:
    """Return the refusal of a kernel with one bad parameter, which the message names."""
    (name,) = given
    return together(FIT, Value, f"kernel: {name}: expected", {"kernel": KernelMap(**given)})


NUMBERS = {
    "C": not_positive("C", none=False)
    + of("C", "learn_metric Maz.fit", Type, NO_NUMBER, None)
    + of("C", BOTH, Value, POSITIVE, -1.0, -inf)
    + of("C", BOTH, Type, NO_NUMBER, True, 1j, np.ones(2), HostileRepr())
    + of("C", BOTH, Value, TOO_LARGE, Fraction(HUGE), ENDLESS)
    + of("C", BOTH, Type, "expected a positive number, got <", HostileNumber()),
    "gamma": not_positive("gamma"),
    "pair_C": not_positive("pair_C"),
    "regularization": not_positive("regularization"),
    "tol": not_positive("tol"),
    "mu0": not_positive("mu0"),
    "c0": not_positive("c0", none=False, infinity=False)
    + of("c0", BOTH, Value, POSITIVE, -1.0, -inf)
    + of("c0", "learn_metric", Type, "expected a number, got None", None),
    "threshold_strength": not_positive("threshold_strength"),
    "threshold_prior": not_positive("threshold_prior", none=False)
    + of("threshold_prior", FIT, Value, SIZED, 1e160),
    "threshold": not_positive("threshold", FIT)
    + of("threshold", "TATML*.fit", Type, "expected a number or 'auto' or 'joint', got", "search")
    + of("threshold", "Maz.fit", Type, "expected a number or 'search', got '", "auto", "joint")
    + of("threshold", FIT, Value, SIZED, 1e160),
    "set_threshold": of(
        "threshold",
        "*.set_threshold",
        Value,
        "expected a finite number.*got (-1|nan|inf)",
        -1,
        nan,
        inf,
    )
    + of("threshold", "*.set_threshold", Type, "expected a number, got", "1", None, True)
    + of("threshold", "*.set_threshold", Value, "expected .*got more than a float can hold", HUGE),
    "t": of("t", FIT, Value, "expected a number from 0 to 1, got", -0.1, 1.1, nan, inf)
    + of("t", FIT, Type, "expected a number, got (None|'0.5'|True)", None, "0.5", True),
    "near, far": of(
        "near", FIT, Value, "expected a number between 0 and 1.*, got", 0, 1.0, nan, inf
    )
    + of("far", FIT, Value, "expected a number between 0 and 1.*, got", 0, 1.0, nan, -0.1)
    + of("near", FIT, Type, "expected a number, got", None, "0.1", True)
    + of("far", FIT, Type, "expected a number, got", None, "0.1", True)
    + of("near", FIT, Value, "expected at most far=0.4, got 0.5", 0.5)
    + of("n_pairs", FIT, Value, "expected at least 2, got", 1, 0, -3)
    + of("n_pairs", FIT, Type, "expected an integer.*, got", None, 10.0, "10", True),
    "margin": of("margin", MARGINS, Value, "expected 0 < γ_s < γ_d, got", (2.0, 0.5), (1, 1))
    + of(
        "margin", MARGINS, Value, "expected a positive number, got (0|-1)", (0.0, 1.0), (-1.0, 1.0)
    )
    + of(
        "margin",
        MARGINS,
        Value,
        "expected a positive number, got (nan|inf)",
        (0.5, nan),
        (0.5, inf),
    )
    + of("margin", MARGINS, Type, "expected two numbers .*got", (1.0,), (1, 2, 3), 3.0, "12", None)
    + of("margin", MARGINS, Type, "expected two .*got a value of type HostileRepr", HostileRepr())
    + of("margin", MARGINS, Type, "expected a number, got True", (True, 2))
    + of("margin", MARGINS, Value, r"expected numbers from 1e-50 to 1e\+50, got", (1e-300, 1e300))
    + of("margin", COMPARING, Value, "expected a positive number, got (0|nan)", 0.0, nan)
    + of("margin", COMPARING, Value, r"expected a number from 1e-50 to 1e\+50, got", 1e60)
    + of("margin", COMPARING, Type, "expected a number, got", (0.5, 2.0), "1", None),
    "bounds": of("bounds", FIT, Value, "expected the first to be at most the second", (2.0, 1.0))
    + of("bounds", FIT, Value, "expected a positive number, got (0|-1)", (0.0, 1.0), (-1.0, 1.0))
    + of("bounds", FIT, Value, "expected a positive number, got (nan|inf)", (nan, 1), (1, inf))
    + of("bounds", FIT, Type, "expected two numbers .*got", 1.0, (1.0,))
    + of("bounds", FIT, Type, "expected", "ab"),
    "percentiles": of(
        "percentiles", FIT, Value, "expected 0 ≤ low < high ≤ 100, got", (50, 50), (5, 101)
    )
    + of("percentiles", FIT, Value, "expected a finite number of at least 0, got -1", (-1, 95))
    + of("percentiles", FIT, Value, "expected a finite number.*got nan", (5, nan))
    + of("percentiles", FIT, Type, "expected two numbers from 0 to 100, got", 5, (5,), None)
    + of("percentiles", FIT, Type, "expected", "ab"),
}


def not_a_count(name: str, to: str = FIT, least: int = 1, **others: Any) -> list[Refusal]:
    """Return refusals of what is no count."""
    return [
        *of(name, to, Value, f"expected at least {least}, got (0|-2)", 0, -2, **others),
        *of(name, to, Type, "expected an integer, got (1.5|True|'3')", 1.5, True, "3", **others),
        *of(
            name, to, Type, "expected an integer, got .*timedelta", np.timedelta64(1, "s"), **others
        ),
        *of(name, to, Value, "expected at most .*got a larger number", ENDLESS, **others),
    ]


def not_a_grid(name: str, to: str = FIT, **others: Any) -> list[Refusal]:
    """Return refusals of what is no sequence of positive numbers."""
    return [
        *of(name, to, Value, "expected at least one number, got none", [], **others),
        *of(name, to, Value, "expected a positive number, got -1.0", [1.0, -1.0], **others),
        *of(name, to, Type, "expected positive numbers, got", [1.0, "a"], (1.0, None), **others),
        *of(name, to, Type, "expected a sequence of positive", "abc", 0.5, iter([1.0]), **others),
    ]


def no_folds(to: str, **others: Any) -> list[Refusal]:
    """Return refusals of what gives no folds of the samples."""
    words = "expected a number of folds, or a splitter, that these samples allow, got"
    index = "expected folds that are index arrays of some of 12 samples, got .* in fold 0"
    return [
        *of("cv", to, Value, "expected at least 2, got 1", 1, **others),
        *of("cv", to, Value, f"{words} .*: n_splits=5 cannot be", StratifiedKFold(5), **others),
        *of("cv", to, Value, f"{words}", "three", np.array(3), [3, 4], [[1, 2, 3]], **others),
        *of("cv", to, Value, "expected at most", HUGE, **others),
        *of("cv", to, Value, "expected at least one fold, got", [], **others),
        *of("cv", to, Value, index, ["ab"], [(np.arange(6), np.arange(6, 99))], **others),
        *of("cv", to, Value, index, [(np.arange(6), [])], [(np.arange(6.0), [6, 7])], **others),
        *of("cv", to, Value, index, [(np.arange(6), [[6, 7]])], [([0, 6], [-13])], **others),
        *of("cv", to, Value, index, [([0, 6], [12])], **others),
    ]


COUNTS = {
    "n_pairs_per_class": not_a_count("n_pairs_per_class", least=2)
    + of("n_pairs_per_class", FIT, Value, "expected at least 2, got 1", 1),
    "n_impostors": not_a_count("n_impostors") + not_a_count("max_rounds"),
    "n_neighbors": not_a_count("n_neighbors") + not_a_count("n_neighbors", pairs="neighbors"),
    "k": not_a_count("k", "TATMLCV.fit")
    + not_a_count("k", "TATMLCV.fit", scoring="auc")
    + not_a_count("k", "Maz.fit", **SEARCH)
    + of("k", "TATMLCV.fit", Value, "expected at most the 6 training", 7, scoring="accuracy")
    + of("k", "Maz.fit", Value, "expected at most the 8 training samples", 9, **SEARCH),
    "n_components": of("n_components", FIT, Value, "expected at least 1, got 0", 0)
    + of("n_components", FIT, Value, "expected at most n = 3 in block 0, got 4", 4)
    + of("n_components", FIT, Value, "expected at most", ENDLESS)
    + of("n_components", FIT, Type, "expected an integer, got", 2.0, True, [1.5])
    + of("n_components", FIT, Value, "expected a number or one for each of 1 blocks, got", [1, 2])
    + of("n_components", FIT, Value, "expected a number or one for each of 1 blocks", np.array([]))
    + of("n_components", FIT, Type, "expected a number or one .*got", "2", np.array(2), iter([1]))
    + of("n_components", FIT, Type, "expected a number or one .*got", HostileIterator()),
    "n_jobs": of("n_jobs", FIT, Value, "expected None or a number other than 0, got", 0, 20_000)
    + of("n_jobs", FIT, Type, "expected an integer, got", "two", 1.5)
    + of("n_jobs", FIT, Value, "expected at (most|least)", HUGE, -HUGE),
    "thresholds": not_a_grid("thresholds", **SEARCH),
    "cv": no_folds("TATMLCV.fit") + no_folds("Maz.fit", **SEARCH),
}

FLAG = "expected True or False, got"
CLASSIFIER = "expected a fitted classifier"
KNOWING = LogisticRegression().fit(X, classes())
SINGLE = {"compute": Compute(dtype="float32")}
ONE_OF = "expected one of '.*got"
SOLVER = "expected 'newton', 'dykstra', Newton.*got"
PROJECTIONS = "expected 'newton', because ITML's projections need vectors in one block, got"
OUTLIERS = "expected True, False or one of 'auto', 'replace', got"
SOURCE = "expected None, an integer, a RandomState or a Generator, got"
WORDS = {
    "words": of("pairs", BY_LABELS, Value, ONE_OF, "some", None, 3, HostileRepr())
    + of("reduction", FIT, Value, ONE_OF, "median", None)
    + of("reduction", BY_LABELS, Value, ONE_OF, "median", pairs="all")
    + of("scoring", FIT, Value, ONE_OF, "precision", None)
    + of("prior", FIT, Value, ONE_OF, "wishful")
    + of("prior", "GMML.fit", Value, ONE_OF, None, 3, np.eye(3))
    + of("metric", FIT, Value, ONE_OF, "taxi", None, 3)
    + of("greater_is_same", FIT, Type, FLAG, "yes", None, 0.5)
    + of("greater_is_same", FIT, Value, "expected False with metric='euclidean', which is", True)
    + of("classifier", FIT, Type, CLASSIFIER, 3, "forest", LinearSVC(), LogisticRegression)
    + of("classifier", FIT, Value, CLASSIFIER, LogisticRegression())
    + of("classifier", FIT, Value, "expected None unless metric='posteriors', got", KNOWING)
    + of("classifier", FIT, Type, CLASSIFIER, None, metric="posteriors"),
    "searches": of("param_grid", FIT, Value, r"C: expected at least one value, got none", {"C": []})
    + of("param_grid", FIT, Value, "C: expected a positive number, got -1.0", {"C": [1.0, -1.0]})
    + of("param_grid", FIT, Value, "C: expected a positive number, got 0", [{}, {"C": range(2)}])
    + of("param_grid", FIT, Type, "C: expected a number, got", {"C": [1.0, "a"]}, {"C": (1, None)})
    + of("param_grid", FIT, Type, "C: expected a list of values, got", {"C": "abc"}, {"C": 0.5})
    + of("param_grid", FIT, Type, "C: expected a list of values, got", {"C": iter([1.0])})
    + of("param_grid", FIT, Type, "prior: expected a list", {"prior": HostileIterator()})
    + of("param_grid", FIT, Value, f"prior: {ONE_OF}", {"prior": ["wishful"]}, {"prior": ["best"]})
    + of("param_grid", FIT, Value, f"pairs: {ONE_OF}", {"pairs": ["some"]}, {"pairs": [None]})
    + of("param_grid", FIT, Value, f"kernel: {ONE_OF}", {"kernel": ["sigmoid"]})
    + of("param_grid", FIT, Type, "expected None, a dict of lists .*got", 3, "C", [], [{}, 3], {1})
    + of("param_grid", FIT, Value, "expected names of parameters .*'C'", {"Cs": [1]}, {"c": [1]})
    + of("param_grid", FIT, Value, "expected names of parameters .*got", {3: [1]}, {"k": [1]})
    + of("param_grid", FIT, Value, "expected names of parameters .*got", {"verbose": [True]})
    + of("param_grid", FIT, Value, "expected kernel='precomputed'", {"kernel": ["precomputed"]})
    + of("estimator", FIT, Type, "expected None or a TATML, got", 3, "TATML", TATML, Maz())
    + of("estimator", FIT, Value, "C: expected a positive number, got 0", TATML(C=0))
    + of("estimator", FIT, Type, "threshold: expected", TATML(threshold="search"))
    + together(
        "TATMLCV.fit",
        Value,
        "param_grid: expected no threshold_strength with a given c0 or threshold, got",
        {"param_grid": {"threshold_strength": [1.0]}, "estimator": TATML(c0=1.0)},
        {"param_grid": {"threshold_strength": [1.0], "threshold": [1.0]}},
    )
    + together(
        "TATMLCV.fit",
        Value,
        "n_components: expected at most n = 3 in block 0, got 4",
        {"estimator": TATML(n_components=4)},
        {"param_grid": [{"n_components": [4]}, {"n_components": [5]}]},
    )
    + together(
        "TATMLCV.fit",
        Value,
        r"prior: expected .*\(3, 3\)",
        {"param_grid": {"prior": [np.eye(2)]}},
    ),
    "kernel": of("kernel", FIT, Value, ONE_OF, "sigmoid", "")
    + of("kernel", FIT, Type, "expected None, the name of a kernel or a KernelMap, got", 3, ["rbf"])
    + [
        refusal
        for given in ({"gamma": 0.0}, {"n_landmarks": K}, {"degree": 0}, {"units": "metres"})
        for refusal in of_kernel(**given)
    ],
    "solver": of("solver", BOTH, Value, SOLVER, "sgd", None, 3, Newton, ["newton"], HostileRepr())
    + of(
        "solver",
        "ITML.fit",
        Value,
        PROJECTIONS,
        "dykstra",
        Dykstra(order="cyclic"),
        kind="matrices",
    )
    + of("solver", "ITML.fit", Value, PROJECTIONS, "dykstra", kind="blocks"),
    "flags": of("verbose", BOTH, Type, FLAG, "yes", None, np.array([1, 2]), 0.5, HostileRepr())
    + of("warm_start", FIT, Type, FLAG, "yes", None, np.array([1, 2]), 0.5)
    + of("clip_outliers", "TATML*.fit", Type, OUTLIERS, None, np.array([1, 2]), 0.5)
    + of("clip_outliers", "TATML*.fit", Value, "expected one of 'auto', 'replace', got", "yes")
    + of("squared", "*.get_metric()", Type, FLAG, "yes", None, 0.5),
    "random_state": of("random_state", FIT, Value, SOURCE, "seed", -1, 1.5, 2**32, HostileRepr())
    + of("random_state", FIT, Value, SOURCE, np.random.RandomState, np.random.Generator),
    "loss": of(
        "loss",
        "learn_metric",
        Value,
        "expected one of 'squared_hinge', 'logistic'",
        "hinge",
        np.eye(2),
        1,
        None,
        QuarticLoss,
        LOGISTIC_OF_PAIRS,
    )
    + together(
        "learn_metric",
        Value,
        r"margin: expected \(0.5, 2.0\) with loss='logistic'",
        {"loss": "logistic", "margin": (0.4, 2.0)},
    )
    + of(
        "loss",
        SOLVED_AS,
        Value,
        "expected one of 'auto', 'squared_hinge', 'logistic'",
        "hinge",
        np.eye(2),
        1,
        None,
        QuarticLoss,
        LOGISTIC_OF_PAIRS,
    )
    + of(
        "loss",
        f"learn_metric {SOLVED_AS}",
        Value,
        r"QuarticLoss\(wrong='slope'\): slope: expected the derivative of value, .*, got 0 at 30$",
        QuarticLoss("slope"),
    )
    + of(
        "loss",
        f"learn_metric {SOLVED_AS}",
        Value,
        r"QuarticLoss\(wrong='curvature'\): curvature: expected the derivative of slope, .*, got 0",
        QuarticLoss("curvature"),
    )
    + of(
        "loss",
        f"learn_metric {SOLVED_AS}",
        Value,
        r"QuarticLoss\(wrong='conjugate'\): conjugate: expected slope · a − value = .*, got 0 at",
        QuarticLoss("conjugate"),
    )
    + together(
        f"learn_metric {SOLVED_AS}",
        Value,
        r"margin: expected \(0.5, 2.0\) with loss=QuarticLoss\(.*\), which has no margins",
        {"loss": QuarticLoss(), "margin": (0.4, 2.0)},
    )
    + together(
        f"learn_metric {SOLVED_AS}",
        Value,
        r"solver: expected 'newton' or Newton\(…\) with loss=QuarticLoss\(.*\), got .*ykstra",
        {"loss": QuarticLoss(), "solver": "dykstra"},
    )
    + together(
        "learn_metric",
        Value,
        r"comparisons: expected None with loss=QuarticLoss\(.*\), got Comparisons",
        {"loss": QuarticLoss(), "comparisons": Comparisons([[0, 1, 2]])},
    )
    + together(
        SOLVED_AS,
        Value,
        r"margin: expected \(0.5, 2.0\) with loss='logistic'",
        {"loss": "logistic", "margin": (0.4, 2.0)},
    )
    + together(
        SOLVED_AS,
        Value,
        r"solver: expected 'newton' or Newton\(…\) with loss='logistic', got Dykstra",
        {"loss": "logistic", "solver": "dykstra"},
    ),
    "midpoint of estimators": of("midpoint", SOLVED_AS, Type, FLAG, "yes", None, np.eye(2), 0.5)
    + of("new_classes", "TATML.fit", Type, FLAG, "yes", None, 0.5)
    + together(
        SOLVED_AS,
        Value,
        r"margin: expected \(0.5, 2.0\) with midpoint=True",
        {"midpoint": True, "margin": (0.4, 2.0)},
    )
    + together(
        SOLVED_AS,
        Value,
        r"solver: expected 'newton' or Newton\(…\) with midpoint=True, got Dykstra",
        {"midpoint": True, "solver": "dykstra"},
    )
    + together(
        SOLVED_AS,
        Value,
        "n_components: expected None with midpoint=True",
        {"midpoint": True, "n_components": 1},
    )
    + together(
        SOLVED_AS,
        Value,
        "prior: expected 'discriminant' or a matrix of differences and one of sums per block",
        {"midpoint": True, "prior": "auto"},
    )
    + together(
        SOLVED_AS,
        Value,
        r"prior: expected matrices of shapes \[\(3, 3\), \(3, 3\)\], got \[\(3, 3\)\]",
        {"midpoint": True, "prior": np.eye(3)},
    )
    + together(
        "TATML.fit",
        Value,
        "pairs: expected 'random' or 'all' with midpoint=True",
        {"midpoint": True, "pairs": "neighbors"},
    )
    + together(
        SOLVED_AS,
        Value,
        "threshold: expected a finite number, got inf",
        {"midpoint": True, "threshold": np.inf},
    )
    + together(
        SOLVED_AS,
        Value,
        "threshold_prior: expected a finite number, got nan",
        {"midpoint": True, "threshold_prior": np.nan},
    ),
    "midpoint": of("midpoint", "learn_metric", Type, "block 0: expected real numbers", "mean")
    + of(
        "midpoint", "learn_metric", Value, "block 0: expected shape", np.zeros(2), np.zeros((3, 3))
    )
    + together(
        "learn_metric",
        Value,
        r"midpoint: expected True, False or 2 arrays, one per block, got",
        {"midpoint": np.zeros(3)},
        kind="blocks",
    ),
    "callback": of("callback", "learn_metric", Type, "expected a function or None, got 3", 3),
    "compute": together(
        "learn_metric",
        Value,
        "compute: expected dtype='float64' where pairs are read in parts, got",
        {"compute": Compute(dtype="float32", max_memory="50MB")},
    )
    + together(
        "learn_metric",
        Value,
        "solver: expected .* where pairs are read in parts, got",
        {"solver": "dykstra", "compute": Compute(max_memory="50MB")},
        {"solver": Newton(linear_solver="woodbury"), "compute": Compute(max_memory="50MB")},
    )
    + together(
        "learn_metric",
        Value,
        r"solver: expected 'newton' or Newton\(…\) for .* and dtype='float32', got",
        {"solver": "dykstra"} | SINGLE,
    )
    + of("compute", "learn_metric", Type, r"expected Compute\(…\) or.*got 'cuda'", "cuda"),
}


# Priors, starts, and sizes that overflow

UPPER = np.eye(3) + np.triu(np.ones((3, 3)), 1)
EYES = [np.eye(3), np.eye(2)]
CROSSED = np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]])  # with the eigenvalues −1, 1 and 3
INDEFINITE = "block 0: expected a positive definite matrix, got eigenvalues from (-1|0)"
DIAGONAL = "block 0: expected a diagonal from .* to .*, got 1e.200 to 1e.200"


def bad_start(error: type, words: str, L: Any, b0: Any = 1.0) -> list[Refusal]:
    """Return the refusal of a start by both solvers."""
    init = SimpleNamespace(L=L, b0=b0)
    given = ({"init": init, "solver": solver} for solver in ("newton", "dykstra"))
    return together("learn_metric", error, f"init: {words}", *given, kind="blocks")


MATRICES = {
    "prior": of("prior", WITH_PRIOR, Type, "expected a list of matrices, got", 3, HostileRepr())
    + of("prior", "learn_metric", Type, "expected a list of matrices, got 'eye'", "eye")
    + of("prior", WITH_PRIOR, Value, r"expected .*\[\(3, 3\)\], got \[\(4, 4\)\]", np.eye(4))
    + of("prior", WITH_PRIOR, Value, r"expected matrices .*got \[\(3, 3\), ", [np.eye(3)] * 2)
    + of("prior", WITH_PRIOR, Value, INDEFINITE, -np.eye(3), np.diag([1.0, 0, 1]))
    + of("prior", WITH_PRIOR, Value, INDEFINITE, CROSSED)
    + of("prior", WITH_PRIOR, Value, "block 0: expected a symmetric matrix, got .* by 1$", UPPER)
    + of("prior", WITH_PRIOR, Value, "block 0: expected finite numbers", np.full((3, 3), nan))
    + of("prior", WITH_PRIOR, Value, "expected", [[1, 0, 0], [0, 1], [0, 0, 1]])
    + of("prior", WITH_PRIOR, Type, "expected real .*complex128", np.eye(3) + 0j)
    + of("prior", WITH_PRIOR, Type, "expected real .*<U1", np.full((3, 3), "a"))
    + of("prior", WITH_PRIOR, Type, "expected real .*NoneType", np.full((3, 3), None))
    + of("prior", WITH_PRIOR, Value, DIAGONAL, 1e200 * np.eye(3), 1e-200 * np.eye(3))
    + of("prior", WITH_PRIOR, Type, "expected .*without masked entries", [masked(np.eye(3))])
    + of("prior", WITH_PRIOR, Type, "expected a dense", [scipy.sparse.eye_array(3)])
    + of("prior", "learn_metric", Value, "block 0: .*float32", 1e30 * np.eye(3), **SINGLE)
    + of("prior", "learn_metric", Value, "block 0: .*float32", 1e-30 * np.eye(3), **SINGLE),
    "prior of blocks": [
        refusal
        for words, prior in (
            ("block 1: expected .*from -2 to 1", [np.eye(3), np.diag([1.0, -2.0])]),
            ("block 1: expected a symmetric matrix.*0.5", [np.eye(3), [[1, 0.5], [0, 1]]]),
            (r"expected .*\[\(3, 3\), \(2, 2\)\], got \[\(2, 2\), \(3, 3\)\]", EYES[::-1]),
            (r"expected .*got \[\(3, 3\)\]", EYES[:1]),
            ("expected .*rows of equal length", [[[1, 0], [0]], np.eye(2)]),
        )
        for refusal in of("prior", WITH_PRIOR, Value, words, prior, kind="blocks")
    ],
    "init": bad_start(Value, "block 0: expected finite numbers", [nan * np.eye(3), np.eye(2)])
    + bad_start(Value, "block 1: expected an invertible L", [np.eye(3), np.ones((2, 2))])
    + bad_start(
        Value, r"expected matrices of shapes \[\(3, 3\), .*got \[\(2, 2", [np.eye(2), np.eye(2)]
    )
    + bad_start(Value, "expected a finite b0, got nan", EYES, nan)
    + bad_start(Value, "expected a finite b0, got inf", EYES, inf)
    + bad_start(Type, "expected an earlier result", EYES, "one")
    + bad_start(Type, "expected a list of matrices, got None", None)
    + bad_start(Type, "expected a list of matrices, got 'ab'", "ab")
    + of("init", "learn_metric", Type, "expected an earlier result.*got int", 3),
    "sizes": [
        refusal
        for solver in ("newton", "dykstra")
        for refusal in together(
            "learn_metric",
            Value,
            "C, c0, mu0, weights: expected sizes for which the objective",
            {"mu0": 1e300, "solver": solver},
            {"mu0": 1e200, "c0": inf, "solver": solver},
            {"C": 1e300, "X": 1e6 * X, "solver": solver},
            {"weights": np.full(K, 1e300), "X": 1e6 * X, "solver": solver},
            {"C": 1e200, "weights": np.full(K, 1e200), "solver": solver},
        )
    ]
    + together(
        "TATMLCV.fit",
        Value,
        "C, threshold_strength: expected sizes for which c0 is a positive number, got",
        {"param_grid": {"threshold_strength": [5e-324], "C": [1.0]}},
        {"param_grid": {"threshold_strength": [10.0], "C": [1e308]}},
    )
    + together(
        "GMML.fit",
        Value,
        "X, regularization: expected sizes for which the metric is finite, got regularization=",
        {"regularization": 1e308},
        {"regularization": 1e-300, "X": np.c_[X, X[:, 0]]},
    ),
    "class_weight": of("class_weight", BY_PAIRS, Value, "expected 'balanced'.*got", "unbalanced", 3)
    + of(
        "class_weight",
        BY_PAIRS,
        Value,
        "expected .*got",
        {0: 1, 1: 1},
        {1: HUGE, -1: 1},
        {1: "a", -1: 1},
    )
    + of(
        "class_weight",
        BY_PAIRS,
        Value,
        "expected finite, non-negative",
        {-1: -1.0, 1: 1.0},
        {-1: nan},
    )
    + of("class_weight", BY_PAIRS, Value, "expected .*one positive weight", {-1: 0, 1: 0})
    + of("class_weight", BY_PAIRS, Value, "expected weights that leave", {-1: 0, 1: 1})
    + of("class_weight", BY_PAIRS, Value, "expected the largest weight", {1: 1e200, -1: 1}),
}

TABLE = NUMBERS | COUNTS | WORDS | MATRICES
