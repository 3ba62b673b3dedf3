"""The methods of the studies: factories from a seed to an estimator.

Every method is at its best: tables are standardised for those that need it, matrices become vectors
for those that take none, and ITML's γ, GMML's t and LDA's shrinkage are chosen by cross-validation
in the training half, as TATMLCV chooses C. So are C, γ and the scaling of RBF-SVM, a classifier:
only its accuracy counts, in the place of that of 3-NN. metric-learn's LMNN runs in the environment
of metric-learn only (see study_lmnn.py), on standardised features and on features of one scale.
"""

from __future__ import annotations

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from study_data import as_table
from study_lmnn import LMNN, OneScale

import tatml
from tatml import GMML, ITML, TATML, TATMLCV, Euclidean
from tatml.features import KernelMap


class Vectors(TransformerMixin, BaseEstimator):
    """A transformer that turns samples into vectors."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return as_table(X)


def tuned(metric, grid):
    """Return the metric with the parameters that are best for 3-NN in cross-validation."""
    pipeline = Pipeline([("metric", metric), ("knn", KNeighborsClassifier(3))])
    grid = {f"metric__{name}": values for name, values in grid.items()}

    class Tuned(BaseEstimator):
        def fit(self, X, y):
            search = GridSearchCV(pipeline, grid, cv=5, error_score=0.0).fit(X, y)
            self.best_ = search.best_estimator_["metric"]
            return self

        def transform(self, X):
            return self.best_.transform(X)

    return Tuned()


def lda():
    steps = make_pipeline(Vectors(), StandardScaler(), LinearDiscriminantAnalysis(solver="eigen"))
    grid = {"lineardiscriminantanalysis__shrinkage": ["auto", 0.01, 0.1, 0.5]}
    return tuned(steps, grid)


WEIGHTS = [10.0, 100.0, 1000.0]
KERNELS = [
    {"prior": ["discriminant", "auto", "scaled"], "C": WEIGHTS},
    {"kernel": [KernelMap(gamma_factor=factor) for factor in (0.3, 1.0, 3.0)], "C": WEIGHTS},
]
METHODS = {
    "Euclidean": lambda seed: Euclidean(random_state=seed),
    "Euclidean, standardised": lambda seed: make_pipeline(
        Vectors(), StandardScaler(), Euclidean(random_state=seed)
    ),
    "NCA": lambda seed: make_pipeline(
        Vectors(), StandardScaler(), NeighborhoodComponentsAnalysis(random_state=seed)
    ),
    "LDA": lambda seed: lda(),
    "ITML": lambda seed: tuned(ITML(random_state=seed), {"gamma": [1e-3, 0.01, 0.1, 1.0, 10.0]}),
    "ITML vec": lambda seed: tuned(
        make_pipeline(Vectors(), ITML(random_state=seed)),
        {"itml__gamma": [1e-3, 0.01, 0.1, 1.0, 10.0]},
    ),
    "GMML": lambda seed: tuned(GMML(random_state=seed), {"t": [0.1, 0.3, 0.5, 0.7, 0.9]}),
    "GMML vec": lambda seed: tuned(
        make_pipeline(Vectors(), GMML(random_state=seed)), {"gmml__t": [0.1, 0.3, 0.5, 0.7, 0.9]}
    ),
    "LMNN": lambda seed: LMNN(random_state=seed),
    "LMNN, one scale": lambda seed: LMNN(scaling="one", random_state=seed),
    "LMNN, components": lambda seed: LMNN(scaling="components", random_state=seed),
    "RBF-SVM": lambda seed: GridSearchCV(
        make_pipeline(Vectors(), StandardScaler(), SVC()),
        {
            "svc__C": [1.0, 10.0, 100.0, 1000.0],
            "svc__gamma": ["scale", 1e-3, 0.01, 0.1],
            "standardscaler": [StandardScaler(), OneScale()],
        },
        cv=StratifiedKFold(5, shuffle=True, random_state=seed),
    ),
    "TATML kernel": lambda seed: TATML(kernel="rbf", random_state=seed),
    "TATMLCV kernel": lambda seed: TATMLCV(param_grid=KERNELS, random_state=seed),
    "TATML": lambda seed: TATML(random_state=seed),
    "TATML vec": lambda seed: make_pipeline(Vectors(), TATML(random_state=seed)),
    "TATMLCV": lambda seed: TATMLCV(random_state=seed),
    "TATMLCV vec": lambda seed: make_pipeline(
        Vectors(),
        TATMLCV(
            param_grid={
                "prior": ["discriminant", "within"],
                "pairs": ["random", "neighbors"],
                "C": WEIGHTS,
            },
            random_state=seed,
        ),
    ),
}


def make_method(text, seed):
    """Return the estimator of a named method, or of an expression like "TATML(prior='auto')"."""
    if text in METHODS:
        return METHODS[text](seed)
    names = {name: getattr(tatml, name) for name in tatml.__all__}
    model = eval(text, names | {"LMNN": LMNN})
    if not hasattr(model, "fit"):
        raise ValueError(f"method: expected a name or an expression of an estimator, got {text!r}")
    return model.set_params(random_state=seed) if "random_state" in model.get_params() else model
