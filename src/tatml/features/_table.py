"""Tables with categories, dates and missing values, as tables of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from math import ceil
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import scipy.sparse
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler, TargetEncoder
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.fixes import parse_version
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .._array import Doubles
from .._messages import named_error, quoted, shown, suggestion
from .._validation import check_between, check_choice, check_count, check_flag, check_random
from ._columns import Column, Kind, frame_names, is_list, numbers_of, read_column

POOLED = "infrequent_sklearn"  # scikit-learn's name for all rare categories
N_FOLDS = 5  # of TargetEncoder
TAIL, FAR = 0.1, 3.0  # limits of numbers: the quantiles, and how far outside these they lie
MOST_CLASSES = 10  # TargetEncoder makes one column per class
MOST_FILLED = 0.3  # largest share of nonzeros in a sparse table
Encoded: TypeAlias = Any  # an array of float64, or a csr_array

# ---- What one column becomes: parts with `ends` of names, one per column that they make ----


class Part:
    """A few columns of the result, which come from one column of the table."""

    @property
    def ends(self) -> list[str]:
        """Return the ends of their names, which follow that of the column of the table."""
        raise NotImplementedError

    @property
    def n_filled(self) -> int:
        """Return how many entries of a row are not zero, at most."""
        return len(self.ends)

    def training_values(self, column: Column, y: Any) -> Encoded:
        """Return the columns for the samples of `fit`."""
        return self.transform(column)

    def transform(self, column: Column) -> Encoded:
        """Return the columns for any samples."""
        raise NotImplementedError


@dataclass(frozen=True)
class NumberPart(Part):
    """Numbers in units of their standard deviation, and their linear splines.

    One minus the first k B-splines of degree 1 is a ramp from 0 at knot k to 1 at knot k + 1. The
    ramps span the same functions, and their squared distances grow with the number of knots
    between two values, while all distances of B-splines that do not overlap are equal.
    """

    end: str  # "" or the part of a date, such as "_month"
    limits: tuple[float, float]  # numbers outside count as the limits
    imputer: SimpleImputer
    scaler: StandardScaler
    splines: SplineTransformer | None

    @property
    def ends(self) -> list[str]:
        """Return the ends of the names: none or a part of a date, and those of the splines."""
        n_splines = 0 if self.splines is None else self.splines.n_features_out_
        return [self.end, *(f"{self.end}_spline_{k + 1}" for k in range(n_splines))]

    def transform(self, column: Column) -> Encoded:
        """Return the scaled numbers and the splines, with medians where values are missing."""
        values = self.imputer.transform(numbers_of(column)[self.end][:, None])
        values = np.clip(values, *self.limits)
        scaled = self.scaler.transform(values)
        if self.splines is None:
            return scaled
        ramps = 1 - np.cumsum(self.splines.transform(values), axis=1)
        return np.concatenate([scaled, ramps], axis=1)


@dataclass(frozen=True)
class MissingPart(Part):
    """An indicator of missing values, which is 0 in training if too few samples have it.

    A metric would learn the weight of such an indicator from these few samples, and divide by its
    small variance. An indicator that does not vary has a small weight of its prior.
    """

    is_rare: bool

    @property
    def ends(self) -> list[str]:
        """Return the end of the name."""
        return ["_missing"]

    @property
    def n_filled(self) -> int:
        """Return 0: where the indicator is 1, those of the categories are 0."""
        return 0

    def training_values(self, column: Column, y: Any) -> Encoded:
        """Return zeros if too few values are missing, else the indicator."""
        marks = self.transform(column)
        return np.zeros_like(marks) if self.is_rare else marks

    def transform(self, column: Column) -> Encoded:
        """Return 1 where values are missing, else 0."""
        return column.missing[:, None].astype(np.float64)


@dataclass(frozen=True)
class OneHotPart(Part):
    """One indicator per category, and one for the rare and unseen ones.

    Rows without a known category have the most frequent one. Zeros would lie as far from the
    frequent categories as from the rare ones, whose weights in a metric are large.
    """

    encoder: OneHotEncoder
    most_frequent: int

    @property
    def ends(self) -> list[str]:
        """Return the ends of the names: _Paris, _infrequent."""
        return list(self.encoder.get_feature_names_out([""]))

    @property
    def n_filled(self) -> int:
        """Return 1: a row has one category."""
        return 1

    def transform(self, column: Column) -> Encoded:
        """Return a sparse table with one entry per row."""
        table = scipy.sparse.csr_array(self.encoder.transform(column.values[:, None]))
        is_known = ~column.missing & (table.sum(axis=1) > 0)
        places = np.full(len(is_known), self.most_frequent)
        places[is_known] = table[is_known].indices  # one entry per row
        rows, ones = np.arange(len(places)), np.ones(len(places))
        return scipy.sparse.csr_array((ones, (rows, places)), shape=table.shape)


@dataclass(frozen=True)
class TargetPart(Part):
    """The mean target of each category, in units of its standard deviation."""

    encoder: TargetEncoder
    scaler: StandardScaler

    @property
    def ends(self) -> list[str]:
        """Return the ends of the names: _target, or one per class, such as _target_red."""
        if self.encoder.target_type_ != "multiclass":
            return ["_target"]
        return [f"_target_{label}" for label in self.encoder.classes_]

    def training_values(self, column: Column, y: Any) -> Encoded:
        """Return the means of the other folds, so that no sample sees its own target."""
        return self.scaler.transform(self.encoder.fit_transform(_with_nan(column), y))

    def transform(self, column: Column) -> Encoded:
        """Return the means of all training samples; that of all categories for unseen ones."""
        return self.scaler.transform(self.encoder.transform(_with_nan(column)))


@dataclass(frozen=True)
class Source:
    """A column of the table that is encoded: its number, its kind, and its parts."""

    index: int
    kind: Kind
    parts: tuple[Any, ...]

    @property
    def ends(self) -> list[str]:
        """Return the ends of the names of all columns that it becomes."""
        return [end for part in self.parts for end in part.ends]


# ---- The transformer ----


@dataclass(eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a data frame with categories, dates and missing values into a table of numbers.

    It gives a linear metric what it needs to learn from such a table. Each column is encoded by
    what it contains in `fit`:

    - Numbers: in units of their standard deviation, and as linear splines, so that the metric can
      weigh each part of a skewed column differently: the k-th one increases from 0 to 1 between
      the k-th quantile and the next one, and is constant elsewhere. Durations are numbers of days.
      Numbers beyond those of `fit` count as the nearest of these, and so do those farther than 3w
      outside the 10 % and the 90 % quantile, whose distance is w: a mistyped number changes little.
      A missing value is the median.
    - Categories, text and booleans with at most `max_categories` different values: one indicator
      per value. Rare values share one indicator, ``…_infrequent``. A missing value is the most
      frequent one.
    - Those with more values: the mean target of each value, if y is given and has at most 10
      classes of at least 5 samples, or is continuous. Otherwise the `max_categories` − 1 most
      frequent values have indicators, and all others share one.
    - Dates: the date, the year, the month, the day of the week and the hour, as numbers.
    - All of them: an indicator of missing values, ``…_missing``.

    Columns that say nothing are left out: constant ones, those without any value, and text that
    differs in every row. `dropped_` has their names.

    Parameters
    ----------
    n_quantiles : int, default=5
        Number of quantiles of a column of numbers, from its minimum to its maximum. A value at
        which several of them lie, such as 0 in a column of many zeros, counts once, and the other
        quantiles are those of the other values. Columns with fewer than three different ones have
        no splines. 0: no splines.
    min_frequency : int or float, default=0.01
        Smallest number of training samples, or their share, of a category with an indicator of its
        own, and of missing values whose mark varies in training; see `mark_missing`.
    max_categories : int, default=30
        Largest number of different values of a column whose values all have indicators.
    mark_missing : {"all", "seen"}, default="all"
        Which columns have an indicator of missing values. "all": all that are kept, also those
        with fewer missing values in `fit` than `min_frequency`. "seen": only those with as many.
    sparse_output : "auto" or bool, default="auto"
        Whether `transform` returns a sparse table (CSR). "auto": if it has more columns than `fit`
        had samples, and at most 30 % of the entries are not zero. This is where the metrics
        of tatml take sparse tables, and save memory with them.
    random_state : int, RandomState or None, default=None
        Seeds the folds of the mean targets in `fit_transform`.

    Attributes
    ----------
    source_columns_ : array of str of shape (n_features_out,)
        The name of the column of the table that each column of the result comes from.
    kinds_ : dict of str to str
        What each column that is kept contains: "numbers", "categories" or "dates".
    dropped_ : dict of str to str
        The columns that are left out, with the reason.
    sparse_output_ : bool
        Whether `transform` returns a sparse table.
    sources_ : list of Source
        How each column that is kept is encoded.
    n_features_in_ : int
        The number of columns in `fit`.
    feature_names_in_ : array of str
        The names of the columns, if `fit` saw a data frame whose columns have strings as names.

    See Also
    --------
    sklearn.compose.ColumnTransformer : Encodes columns as its user says.

    Notes
    -----
    Data frames of pandas and polars are read by name: `transform` takes the columns in any order,
    and refuses missing columns, additional columns, and columns whose kind differs from that in
    `fit`. If its names are not all strings, the columns are called x0, x1, …, but still read by
    their names. Arrays are read by position, with columns x0, x1, …; those of dtype object are
    columns of numbers, categories or dates by what they contain. Numbers that stand for categories
    have to be strings or of a categorical type. Blank strings are missing values. A number whose
    magnitude exceeds 1e60 is refused, and one below 1e-60 counts as 0.

    A column with fewer missing values in `fit` than `min_frequency`, or none, has an indicator too,
    which is 0 for all samples in `fit_transform`, and 1 where values are missing in `transform`. A
    metric cannot learn its weight, which would rest on a few samples. `TATML` weighs it as a column
    of noise with a standard deviation of 1: two new samples are further apart if a value is missing
    in one of them, while the nearest training samples of a new one stay the same.

    Categories that `fit` has not seen count as infrequent; without an indicator for these, as the
    most frequent category, like missing values, but without the mark. Zeros would lie as far from
    the frequent categories as from the rare ones.

    ``fit_transform(X, y)`` differs from ``fit(X, y).transform(X)`` where few values are missing,
    and with mean targets, as those of scikit-learn's TargetEncoder do: each training sample is
    encoded by the targets of others. A pipeline does so; otherwise learn the metric from
    ``fit_transform(X, y)``.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml.features import TableEncoder
    >>> X = np.array(
    ...     [[31, "Paris"], [45, "Rome"], [None, "Paris"], [22, None], [58, "Rome"]], dtype=object
    ... )
    >>> encoder = TableEncoder(n_quantiles=3).fit(X)
    >>> for name, source in zip(encoder.get_feature_names_out(), encoder.source_columns_):
    ...     print(name, source)
    x0 x0
    x0_spline_1 x0
    x0_spline_2 x0
    x0_missing x0
    x1_Paris x1
    x1_Rome x1
    x1_missing x1
    >>> new = np.array([[40, "Oslo"]], dtype=object)  # an unseen category
    >>> encoder.transform(new).round(2)
    array([[0.1 , 0.78, 0.  , 0.  , 1.  , 0.  , 0.  ]])
    """

    n_quantiles: int = 5
    _: KW_ONLY
    min_frequency: int | float = 0.01
    max_categories: int = 30
    mark_missing: Literal["all", "seen"] = "all"
    sparse_output: Literal["auto"] | bool = "auto"
    random_state: Any = None

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn the quantiles, the categories and the mean targets.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns)
            The training samples.
        y : array-like of shape (n_samples,), optional
            Their targets, which only columns with many categories use.

        Returns
        -------
        self
        """
        self._fit(X, y)
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None) -> Encoded:
        """Fit, and return the encoded training samples.

        Mean targets are those of other samples.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns)
            The training samples.
        y : array-like of shape (n_samples,), optional
            Their targets.

        Returns
        -------
        array or csr_array of shape (n_samples, n_features_out)
        """
        columns, target = self._fit(X, y)
        parts = [
            part.training_values(columns[source.index], target)
            for source in self.sources_
            for part in source.parts
        ]
        return self._join(parts, len(columns[0].values))

    def transform(self, X: Any) -> Encoded:
        """Return samples as a table of numbers.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns)
            Samples with the columns of `fit`.

        Returns
        -------
        array or csr_array of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        names, series = self._read(X, reset=False)
        parts, n_samples = [], len(series[0])
        for source in self.sources_:
            column = read_column(names[source.index], series[source.index]).read_as(source.kind)
            parts += [part.transform(column) for part in source.parts]
        return self._join(parts, n_samples)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns: that of the source, and what the column is of it.

        For example age, age_spline_1, age_missing, city_Paris. A name that occurs twice gets a
        number.

        Parameters
        ----------
        input_features : array-like of str, optional
            The names of the columns of the table, if `fit` saw none.

        Returns
        -------
        array of str of shape (n_features_out,)
        """
        check_is_fitted(self)
        names = self._names_in(input_features)
        given = [f"{names[source.index]}{end}" for source in self.sources_ for end in source.ends]
        return np.array(_made_unique(given), dtype=object)

    # ---- Fitting ----

    def _fit(self, X: Any, y: Any) -> tuple[list[Column], Any]:
        """Set the fitted attributes; return the columns, and the target if it can be encoded."""
        self._check_settings()
        names, series = self._read(X, reset=True)
        n_samples = len(series[0])
        target = None
        if y is not None:
            check_consistent_length(X, y)
            try:
                target = _target_to_encode(y)
            except (TypeError, ValueError) as error:
                raise named_error("y", error) from error
        columns = [read_column(*each) for each in zip(names, series, strict=True)]
        self.sources_: list[Source] = []
        self.dropped_: dict[str, str] = {}
        for index, column in enumerate(columns):
            reason = _reason_to_drop(column, self.max_categories)
            parts = () if reason else tuple(self._fit_column(column, target))
            if parts:
                self.sources_.append(Source(index, column.kind, parts))
            else:
                self.dropped_[column.name] = reason or "its values hardly vary"
        if not self.sources_:
            raise ValueError(
                f"X: expected at least one column whose values differ, got {quoted(names)} with "
                f"n_samples = {n_samples}"
            )
        self.kinds_ = {names[source.index]: source.kind for source in self.sources_}
        found = [names[source.index] for source in self.sources_ for _ in source.ends]
        self.source_columns_ = np.array(found, dtype=object)
        self.sparse_output_ = self._is_sparse(n_samples)
        return columns, target

    def _check_settings(self) -> None:
        """Raise an error unless all parameters are valid."""
        if check_count("n_quantiles", self.n_quantiles, least=0) in (1, 2):
            raise ValueError(
                f"n_quantiles: expected 0 or at least 3, got {shown(self.n_quantiles)}"
            )
        if isinstance(self.min_frequency, float):
            check_between("min_frequency", self.min_frequency)
        else:
            check_count("min_frequency", self.min_frequency)
        check_count("max_categories", self.max_categories, least=2)
        check_choice("mark_missing", self.mark_missing, ("all", "seen"))
        if isinstance(self.sparse_output, str):
            check_choice("sparse_output", self.sparse_output, ("auto",))
        else:
            check_flag("sparse_output", self.sparse_output)
        check_random(self.random_state)

    def _fit_column(self, column: Column, target: Any) -> list[Part]:
        """Return the parts that a column becomes; none if its values hardly vary."""
        parts: list[Part] = [*self._fit_values(column, target)]
        least = self.min_frequency
        if isinstance(least, float):
            least = ceil(least * len(column.values))
        is_rare = bool(np.sum(column.missing) < least)
        if not is_rare or (parts and self.mark_missing == "all"):
            parts.append(MissingPart(is_rare))
        return parts

    def _fit_values(self, column: Column, target: Any) -> Iterable[Part]:
        """Yield the parts of the values that are not missing."""
        if column.kind != "categories":
            for end, values in numbers_of(column).items():
                if np.nanmin(values) < np.nanmax(values):
                    yield _fit_numbers(end, values[:, None], self.n_quantiles)
            return
        has_many = _n_categories(column) > self.max_categories
        if has_many and target is not None:
            encoder = _target_encoder(target, self.random_state)
            values = encoder.fit(_with_nan(column), target).transform(_with_nan(column))
            yield TargetPart(encoder, StandardScaler().fit(values))
            return
        limit = "max_categories" if has_many else "min_frequency"
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            feature_name_combiner=_category_name,
            **{limit: getattr(self, limit)},
        )
        indicators = encoder.fit_transform(column.values[~column.missing][:, None])
        part = OneHotPart(encoder, int(np.argmax(indicators.sum(axis=0))))
        if len(part.ends) > 1:
            yield part

    def _is_sparse(self, n_samples: int) -> bool:
        if not isinstance(self.sparse_output, str):
            return bool(self.sparse_output)
        n_columns = len(self.source_columns_)
        n_filled = sum(part.n_filled for source in self.sources_ for part in source.parts)
        return n_columns > n_samples and n_filled <= MOST_FILLED * n_columns

    # ---- Reading and writing ----

    def _read(self, X: Any, *, reset: bool) -> tuple[list[str], list[Any]]:
        """Return the names of the columns of X, and the columns in the order of `fit`."""
        names = frame_names(X)
        if names is None:
            X = validate_data(
                self,
                X,
                reset=reset,
                dtype=object if is_list(X) else None,
                ensure_all_finite=False,
                ensure_min_samples=2 if reset else 1,
            )
            if reset:
                self._labels = None
            return self._names_in(None), [*X.T]
        self._check_frame_size(X, least=2 if reset else 1)
        if reset:
            self._labels = names
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            self.n_features_in_ = len(names)
            if all(isinstance(name, str) for name in names):
                self.feature_names_in_ = np.array(names, dtype=object)
        elif self._labels is None:  # fit saw an array
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            _check_names(names, self._labels)
            names = self._labels
        return self._names_in(None), [X[name] for name in names]

    def _check_frame_size(self, X: Any, least: int) -> None:
        if X.shape[0] < least or X.shape[1] < 1:
            raise ValueError(
                f"X: expected at least {least} sample(s) and a column, got n_samples = {X.shape[0]}"
                f" with {X.shape[1]} columns"
            )

    def _names_in(self, given: Any) -> list[str]:
        """Return the names of the columns of `fit`, which the given ones have to agree with."""
        known = getattr(self, "feature_names_in_", None)
        names = [f"x{k}" for k in range(self.n_features_in_)] if known is None else list(known)
        if given is None:
            return names
        given = np.asarray(given, dtype=object).tolist()
        if len(given) != len(names):
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({len(names)}), got {len(given)}"
            )
        if known is not None and given != names:
            raise ValueError(
                f"input_features is not equal to feature_names_in_: expected {quoted(names)}, "
                f"got {quoted(given)}"
            )
        return [str(name) for name in given]

    def _join(self, parts: list[Encoded], n_samples: int) -> Encoded:
        """Return the columns of all parts as one table."""
        if self.sparse_output_:
            return scipy.sparse.csr_array(
                scipy.sparse.hstack([scipy.sparse.csr_array(part) for part in parts], format="csr")
            )
        table, start = np.empty((n_samples, len(self.source_columns_))), 0
        for part in parts:
            stop = start + part.shape[1]
            is_sparse = scipy.sparse.issparse(part)
            table[:, start:stop] = part.toarray() if is_sparse else part
            start = stop
        return table

    def __sklearn_tags__(self) -> Tags:
        """Return tags that say that categories and missing values are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags


def _reason_to_drop(column: Column, max_categories: int) -> str | None:
    """Return why a column says nothing, or None."""
    if column.kind == "nothing":
        return "all values are missing"
    kept = column.values[~column.missing]
    if column.kind == "categories":
        n_categories = _n_categories(column)
        if n_categories == len(kept) > max_categories:
            return "no value occurs twice"
    else:
        n_categories = 1 + bool(np.any(kept != kept[0]))
    return "all values are equal" if n_categories == 1 and len(kept) == len(column.values) else None


def _n_categories(column: Column) -> int:
    return len({*column.values} - {None})


def _fit_numbers(end: str, values: Doubles, n_quantiles: int) -> NumberPart:
    """Return the part of a column of numbers that vary, of shape (n_samples, 1)."""
    imputer = SimpleImputer(strategy="median").fit(values)
    limits = _find_limits(values[~np.isnan(values)])
    values, splines = np.clip(values, *limits), None
    knots = _find_knots(values[~np.isnan(values)], n_quantiles)
    values = imputer.transform(values)
    if len(knots) > 2:  # the last spline is 1 minus the others
        splines = SplineTransformer(
            degree=1, knots=knots[:, None], extrapolation="constant", include_bias=False
        )
        splines.fit(values)
    return NumberPart(end, limits, imputer, StandardScaler().fit(values), splines)


def _find_limits(values: Doubles) -> tuple[float, float]:
    """Return the smallest and the largest number, or limits that only wild numbers exceed.

    Between them, the number is a linear function of its splines, which a metric may rely on.
    """
    low, high = np.quantile(values, (TAIL, 1 - TAIL), method="nearest")
    reach = FAR * (high - low) or np.inf  # most numbers may be equal
    return max(low - reach, values.min()), min(high + reach, values.max())


def _find_knots(values: Doubles, n_quantiles: int) -> Doubles:
    """Return different quantiles; a value at which several lie leaves these to the others."""
    grid = np.linspace(0, 1, n_quantiles)
    knots, counts = np.unique(np.quantile(values, grid, method="nearest"), return_counts=True)
    frequent = knots[counts > 1]
    others = values[~np.isin(values, frequent)]
    if len(frequent) and len(others):
        grid = np.linspace(0, 1, n_quantiles - len(frequent))
        more = np.quantile(others, grid, method="nearest")
        knots = np.unique(np.concatenate([frequent, more]))
    return knots


def _target_to_encode(y: Any) -> NDArray[Any] | None:
    """Return y if it is continuous, or has few classes with a sample in each fold; else None."""
    y = column_or_1d(y)
    kind = type_of_target(y)
    if kind in ("binary", "multiclass"):
        counts = np.unique(y, return_counts=True)[1]
        is_usable = 2 <= len(counts) <= MOST_CLASSES and np.min(counts) >= N_FOLDS
        return y if is_usable else None
    return y if kind == "continuous" else None


def _target_encoder(target: NDArray[Any], random_state: Any) -> TargetEncoder:
    """Return scikit-learn's encoder, whose parameter for the seed was replaced in version 1.9."""
    if parse_version(sklearn.__version__) < parse_version("1.9"):
        return TargetEncoder(cv=N_FOLDS, random_state=random_state)
    folds = KFold if type_of_target(target) == "continuous" else StratifiedKFold
    return TargetEncoder(cv=folds(N_FOLDS, shuffle=True, random_state=random_state))


def _with_nan(column: Column) -> NDArray[np.object_]:
    """Return categories as a table of one column, with NaN for missing ones."""
    return np.where(column.missing, np.nan, column.values)[:, None]


def _category_name(feature: str, category: Any) -> str:
    """Return the name of an indicator, from that of its column."""
    return f"{feature}_infrequent" if category == POOLED else f"{feature}_{category}"


def _check_names(names: list[Any], expected: list[Any]) -> None:
    """Raise an error that lists the columns which are missing and those that `fit` has not seen."""
    missing = [name for name in expected if name not in {*names}]
    more = [name for name in names if name not in {*expected}]
    if missing or more:
        similar = suggestion(str(missing[0]), map(str, more)) if missing else ""
        raise ValueError(
            "X: expected the columns of fit, got a data frame "
            + " and ".join(
                [f"without {quoted(missing)}"] * bool(missing)
                + [f"with the additional {quoted(more)}"] * bool(more)
            )
            + similar
        )


def _made_unique(names: list[str]) -> list[str]:
    """Return names in which each that occurs again has a number at its end."""
    taken: set[str] = set(names)
    seen: set[str] = set()
    result = []
    for name in names:
        own, number = name, 1
        while own in seen or (number > 1 and own in taken):
            number += 1
            own = f"{name}_{number}"
        seen.add(own)
        result.append(own)
    return result
