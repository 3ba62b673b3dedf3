"""Comparisons: steps over ten decades of C, a million triplets, and metric-learn's LMNN and SCML.

    python benchmarks/comparisons.py [--only decades,million] [--quick]
    PYTHONPATH=build/metric-learn/published/metric-learn-0.7.0 \\
        .venv-metric-learn/bin/python benchmarks/comparisons.py --only metric-learn

decades       nearest-neighbour triplets (3 targets, 5 impostors) of standardised wine, breast
              cancer and digits, C from 1e-5 to 1e5: Newton steps to a relative gap of 1e-8
million       10⁶ triplets of 64-dimensional vectors, in memory and with max_memory: seconds, passes
              over the pairs (with the rehearsal), and the peak memory of the process
metric-learn  LMNN and SCML against TATMLNeighbors and TATMLTriplets in one run: processor seconds
              of a fit, LMNN's own objective with its own targets, and 3-NN on the other half beside
              that of the Euclidean distance. `make test-metric-learn` sets up the environment
"""

from __future__ import annotations

import argparse
import resource
import warnings
from time import process_time

import numpy as np
from common import describe_machine, timed
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from study_lmnn import OneScale

from tatml import Comparisons, Compute, Newton, TATMLNeighbors, TATMLTriplets, learn_metric
from tatml._data.sampling import neighbor_triplets
from tatml._optim.sums import PairGraph, PairSums

SETS = ("wine", "breast_cancer", "digits")
ONE_SCALE = "digits of one scale"


def load(name):
    """Return standardised samples and labels; digits also with all pixels in one unit."""
    if name == ONE_SCALE:
        X, y = datasets.load_digits(return_X_y=True)
        return OneScale().fit_transform(X[:, X.std(axis=0) > 0]), y
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]), y


def show_decades(quick):
    """Print the steps for each C."""
    for name in SETS[:2] if quick else SETS:
        X, y = load(name)
        triplets = neighbor_triplets(X, y, 3, 5)
        steps, worst = [], 0.0
        for decade in range(-5, 6):
            comparisons = Comparisons(triplets, C=10.0**decade)
            result = learn_metric(X, comparisons=comparisons, tol=1e-8)
            steps.append(result.n_iter)
            worst = max(worst, result.gap / max(1.0, result.primal))
        print(
            f"{name}: {len(triplets):,} triplets; steps for C = 1e-5 … 1e5: {steps}; "
            f"largest relative gap {worst:.1e}",
            flush=True,
        )


class CountedPairs:
    """Counts the pairs whose samples sums read, as differences or in products, while active."""

    PRODUCTS = ("inner_products", "expanded_products", "scatter")  # one block here

    def __enter__(self):
        self.n_pairs, self._rows = 0, PairSums.rows
        self._products = {name: getattr(PairGraph, name) for name in self.PRODUCTS}

        def rows(sums, part):
            self.n_pairs += part.stop - part.start
            return self._rows(sums, part)

        def counted(function):
            def count(graph, *args):
                self.n_pairs += graph.first.shape[0]
                return function(graph, *args)

            return count

        PairSums.rows = rows
        for name, function in self._products.items():
            setattr(PairGraph, name, counted(function))
        return self

    def __exit__(self, *_):
        PairSums.rows = self._rows
        for name, function in self._products.items():
            setattr(PairGraph, name, function)


def show_million(quick):
    """Print what a million triplets take."""
    n_rows, n_samples = (100_000, 5_000) if quick else (1_000_000, 20_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 64))
    triplets = rng.integers(n_samples, size=(n_rows, 3))
    scale = np.linspace(2, 0.1, 64)  # the metric that orders the triplets
    for part in np.array_split(triplets, 100):  # views: little memory, and changed in place
        a, b, c = (X[part[:, k]] * scale for k in range(3))
        swap = np.sum((a - b) ** 2, axis=1) > np.sum((a - c) ** 2, axis=1)
        part[swap] = part[swap][:, [0, 2, 1]]
    comparisons = Comparisons(triplets, C=10.0 / n_rows, margin=10.0)
    n_pairs = len(np.unique(np.sort(triplets[:, [0, 1, 0, 2]].reshape(-1, 2), axis=1), axis=0))
    # The peak of a process never falls: the smaller one comes first.
    for name, compute in (("max_memory=256MB", Compute(max_memory="256MB")), ("in memory", None)):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        with CountedPairs() as counted:
            seconds, result = timed(
                learn_metric,
                X,
                comparisons=comparisons,
                compute=compute,
                repeats=1,
                solver=Newton(random_state=0),
            )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{n_rows:,} triplets ({n_pairs:,} pairs), {name}: {seconds:.1f} s, {result.n_iter} "
            f"steps, {counted.n_pairs / n_pairs:.0f} passes over the pairs, relative gap "
            f"{result.gap / result.primal:.1e}, peak {peak:.2f} GiB ({before:.2f} before)",
            flush=True,
        )


def lmnn_objective(X, y, W, targets, regularization=0.5):
    """Return metric-learn's LMNN objective: pull of the targets, push of all impostors."""
    L = np.linalg.cholesky(W + 1e-12 * np.eye(len(W)))
    Z = X @ L
    squares = np.sum(Z**2, axis=1)
    D = np.maximum(squares[:, None] + squares - 2 * Z @ Z.T, 0)
    pull = push = 0.0
    for i, own in enumerate(targets):
        others = D[i, y != y[i]]
        pull += D[i, own].sum()
        push += np.maximum(1 + D[i, own][:, None] - others, 0).sum()
    return (1 - regularization) * pull + regularization * push


def fits(metric_learn, train, y_train, triplets):
    """Return the fits to compare, by name."""
    return {
        "TATMLNeighbors": lambda: TATMLNeighbors(random_state=0).fit(train, y_train),
        "LMNN": lambda: metric_learn.LMNN(n_neighbors=3, random_state=0).fit(train, y_train),
        "TATMLTriplets": lambda: TATMLTriplets(preprocessor=train).fit(triplets),
        "SCML": lambda: metric_learn.SCML(preprocessor=train, random_state=0).fit(triplets),
    }


def show_metric_learn(quick):
    """Print LMNN and SCML against ours, as ratios of one run."""
    import metric_learn

    for name in SETS[:2] if quick else (*SETS, ONE_SCALE):
        X, y = load(name)
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=0.5, random_state=0, stratify=y
        )
        triplets = neighbor_triplets(train, y_train, 3, 10)
        targets = [np.unique(triplets[triplets[:, 0] == i, 1]) for i in range(len(train))]
        plain = KNeighborsClassifier(3).fit(train, y_train).score(test, y_test)
        print(f"{name} Euclidean: 3-NN {plain:.4f}")
        for label, fit in fits(metric_learn, train, y_train, triplets).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = process_time()
                model = fit()
                seconds = process_time() - start
            knn = KNeighborsClassifier(3).fit(model.transform(train), y_train)
            W = model.get_mahalanobis_matrix()
            # The objective depends on the scale of W, which no other method chooses for it.
            scales = 10 ** np.linspace(-4, 2, 25)
            value = min(lmnn_objective(train, y_train, t * W, targets) for t in scales)
            gap = getattr(model, "result_", None)
            proved = "not certified" if gap is None else f"certified gap {gap.gap:.1e}"
            print(
                f"{name} {label}: {seconds:.2f} s, LMNN's objective {value:.5g}, 3-NN "
                f"{knn.score(model.transform(test), y_test):.4f}, {proved}",
                flush=True,
            )


SECTIONS = {
    "decades": show_decades,
    "million": show_million,
    "metric-learn": show_metric_learn,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="decades,million")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    print(describe_machine())
    for name in options.only.split(","):
        SECTIONS[name](options.quick)


if __name__ == "__main__":
    main()
