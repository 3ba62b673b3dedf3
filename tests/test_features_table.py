"""TableEncoder: what each kind of column becomes, its names, and what is refused by name."""

import datetime
import pickle
import re
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from tatml import TATML
from tatml.features import TableEncoder

pandas = pytest.importorskip("pandas")


def messy_frame(n_samples=200, seed=0):
    """Return columns of all kinds, most with missing values, and classes that depend on some."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_samples)
    town = rng.integers(60, size=n_samples)
    seconds = rng.integers(10**8, size=n_samples)
    frame = pandas.DataFrame(
        {
            "age": rng.normal(40, 10, n_samples) + 5 * y,
            "income": np.exp(rng.normal(size=n_samples) * 2 + y),
            "city": rng.choice(["Paris", "Rome", "Oslo"], n_samples),
            "member": rng.random(n_samples) < 0.5,
            "town": [f"town {(3 * k + c) % 60}" for k, c in zip(town, y, strict=True)],
            "since": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(seconds, unit="s"),
            "visits": pandas.array(rng.integers(5, size=n_samples), dtype="Int64"),
            "constant": 7.0,
            "empty": np.nan,
            "nobody": None,
            "name": [f"person {k}" for k in range(n_samples)],
        }
    )
    for k, name in enumerate(["age", "city", "since", "visits"]):
        frame.loc[k :: 7 + k, name] = None
    return frame, y


def encoded(X, y=None, mark_missing="seen", **options):
    """Return the encoded table, and its columns by name."""
    encoder = TableEncoder(random_state=0, mark_missing=mark_missing, **options).fit(X, y)
    table = encoder.transform(X)
    names = encoder.get_feature_names_out()
    assert table.shape == (len(X), len(names))
    assert len({*names}) == len(names)
    return table, dict(zip(names, np.asarray(table).T, strict=True)), encoder


def objects(*values):
    return np.array([*values, None], dtype=object)[:-1, None]


# Rules of scikit-learn


def test_scikit_learns_rules_are_kept():
    results = check_estimator(TableEncoder(), on_skip=None, on_fail=None)
    assert len(results) > 30
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []


def test_copies_and_pickles_encode_alike():
    frame, y = messy_frame()
    encoder = TableEncoder(5, random_state=0).fit(frame, y)
    expected = encoder.transform(frame)
    assert_array_equal(pickle.loads(pickle.dumps(encoder)).transform(frame), expected)
    assert clone(encoder).get_params() == encoder.get_params()
    assert_array_equal(clone(encoder).fit(frame, y).transform(frame), expected)


# Numbers


def test_numbers_are_scaled_and_have_splines_that_span_all_piecewise_linear_functions():
    x = np.random.default_rng(0).lognormal(sigma=0.5, size=501)
    table, columns, encoder = encoded(pandas.DataFrame({"a": x}), n_quantiles=6)
    assert list(columns) == ["a", *(f"a_spline_{k}" for k in range(1, 6))]
    assert_allclose(columns["a"], (x - x.mean()) / x.std())
    knots = np.quantile(x, np.linspace(0, 1, 6))
    design = np.column_stack([np.ones(501), table[:, 1:]])
    for knot in knots[:-1]:  # hinges are a basis of these functions
        hinge = np.maximum(x - knot, 0)
        assert_allclose(design @ np.linalg.lstsq(design, hinge)[0], hinge, atol=1e-8 * x.max())
    for k in range(5):  # a ramp from one quantile to the next
        ramp = np.clip((x - knots[k]) / (knots[k + 1] - knots[k]), 0, 1)
        assert_allclose(columns[f"a_spline_{k + 1}"], ramp, atol=1e-12)
    outside = encoder.transform(pandas.DataFrame({"a": [x.min() - 1, x.max() + 1]}))
    ends = encoder.transform(pandas.DataFrame({"a": [x.min(), x.max()]}))
    assert_array_equal(outside, ends)


def test_new_rows_follow_the_linear_relations_of_the_training_rows():
    """A metric gives directions without variance any weight: no row may move in them."""
    frame, y = messy_frame()
    encoder = TableEncoder(random_state=0)
    table = encoder.fit_transform(frame, y)
    new = frame.sample(frac=1.0, random_state=0)
    for name in frame.columns:  # values beyond, unseen and missing ones
        numbers = encoder.kinds_.get(name) == "numbers" and frame[name].dtype.kind in "if"
        new[name] = new[name].sample(frac=1.0, random_state=1).to_numpy()
        if numbers:
            new[name] = 3 * new[name] - 5
    marks = np.char.endswith(encoder.get_feature_names_out().astype(str), "_missing")
    table, rows = table[:, ~marks], encoder.transform(new)[:, ~marks]
    mean = table.mean(axis=0)
    _, sizes, axes = np.linalg.svd(table - mean, full_matrices=False)
    fixed = axes[sizes < 1e-9 * sizes[0]]
    assert len(fixed) > 3
    assert np.max(np.abs((rows - mean) @ fixed.T)) < 1e-9 * np.max(np.abs(rows))


def test_wild_numbers_count_as_the_limits():
    """Of 0 to 100, the quantiles are 10 and 90: wild numbers are below -230 or above 330."""
    x = np.arange(101.0)
    for place, wild, limit in ((100, 5000.0, 330.0), (0, -5000.0, -230.0), (100, 300.0, 300.0)):
        table, _, encoder = encoded(np.where(x == place, wild, x)[:, None])
        expected, _, _ = encoded(np.where(x == place, limit, x)[:, None])
        assert_allclose(table, expected, rtol=1e-12, atol=1e-12)
        ends = np.clip(np.where(x == place, wild, x), -230.0, 330.0)
        new = encoder.transform([[1e9], [ends.max()], [-1e9], [ends.min()]])
        assert_array_equal(new[0], new[1])
        assert_array_equal(new[2], new[3])
    rare = np.where(x < 95, 0.0, x)[:, None]  # most are equal: there are no limits
    table, _, encoder = encoded(rare)
    assert_allclose(table[:, 0], (rare[:, 0] - rare.mean()) / rare.std())
    assert_array_equal(encoder.transform([[1e9], [-3.0]]), encoder.transform([[100.0], [0.0]]))


@pytest.mark.parametrize("change", [(1e-20, 0.0), (1e40, 0.0), (-1.0, 0.0), (1.0, 1e6)])
def test_units_and_shifts_of_numbers_do_not_matter(change):
    x = np.random.default_rng(0).normal(size=(301, 1))
    table, other = encoded(x)[0], encoded(change[0] * x + change[1])[0]
    if change[0] < 0:
        table = np.concatenate([-table[:, :1], 1 - table[:, :0:-1]], axis=1)
    assert_allclose(other, table, atol=1e-8)


def test_splines_of_few_values_are_steps():
    x = np.repeat([0.0, 1.0, 2.0], [80, 10, 10])[:, None]
    table, columns, _ = encoded(x)
    assert list(columns) == ["x0", "x0_spline_1", "x0_spline_2"]
    assert_array_equal(table[:, 1:], x >= [1, 2])
    assert list(encoded(x > 0.5)[1]) == ["x0_False", "x0_True"]
    for many in (10, 50, 90):  # two values need no splines
        assert list(encoded((np.arange(100) < many)[:, None] * 1.0)[1]) == ["x0"]
    assert list(encoded(x, n_quantiles=0)[1]) == ["x0"]


def test_a_value_with_several_quantiles_leaves_them_to_the_other_values():
    x = np.concatenate([np.zeros(80), np.arange(1.0, 32.0)])
    _, columns, _ = encoded(x[:, None])
    knots = [0, 1, 11, 21, 31]  # the value, and four quantiles of the others
    assert list(columns) == ["x0", *(f"x0_spline_{k}" for k in range(1, 5))]
    for k in range(4):
        ramp = np.clip((x - knots[k]) / (knots[k + 1] - knots[k]), 0, 1)
        assert_allclose(columns[f"x0_spline_{k + 1}"], ramp, atol=1e-12)


def test_missing_numbers_are_the_median_and_are_marked():
    x = np.array([1.0, 2.0, 3.0, 100.0, np.nan, np.nan])[:, None]
    table, columns, encoder = encoded(x)
    assert_array_equal(columns["x0_missing"], np.isnan(x[:, 0]))
    assert_allclose(table[4, :-1], encoder.transform([[2.5]])[0, :-1], atol=1e-12)


def test_values_missing_for_the_first_time_are_the_median_and_marked():
    frame, y = messy_frame()
    frame = frame.ffill().bfill()
    encoder = TableEncoder(random_state=0).fit(frame, y)
    known = encoder.transform(frame)
    is_mark = np.char.endswith(encoder.get_feature_names_out().astype(str), "_missing")
    assert list(encoder.source_columns_[is_mark]) == list(encoder.kinds_)
    assert not np.any(known[:, is_mark])
    for name in encoder.kinds_:
        lost = encoder.transform(frame.assign(**{name: None}))
        marked = is_mark & (encoder.source_columns_ == name)
        assert np.all(lost[:, marked] == 1)
        assert not np.any(lost[:, is_mark & ~marked])
    x = np.arange(9.0)[:, None]
    encoder = TableEncoder().fit(x)
    expected = [[*encoder.transform([[4.0]])[0, :-1], 1]]
    assert_array_equal(encoder.transform([[np.nan]]), expected)
    assert_array_equal(encoder.transform([[None]]), expected)
    assert_array_equal(encoded(x)[2].transform([[np.nan]])[0], expected[0][:-1])  # only seen ones


def test_few_missing_values_are_marked_in_new_samples_only():
    x = np.arange(100.0)[:, None]
    x[:3] = np.nan
    for least, varies in ((3, True), (4, False), (0.03, True), (0.031, False)):
        assert ("x0_missing" in encoded(x, min_frequency=least)[1]) == varies
        encoder = TableEncoder(min_frequency=least)
        assert np.sum(encoder.fit_transform(x)[:, -1]) == (3 if varies else 0)
        assert encoder.get_feature_names_out()[-1] == "x0_missing"
        assert_array_equal(encoder.transform(x)[:, -1], np.isnan(x[:, 0]))


def test_a_mark_that_does_not_vary_leaves_the_nearest_training_samples_and_parts_new_ones():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    x = rng.normal(size=(300, 4)) + y[:, None]
    encoder = TableEncoder()
    metric = TATML(random_state=0).fit(encoder.fit_transform(x), y)
    without = encoded(x)[2]
    plain = TATML(random_state=0).fit(without.transform(x), y)
    new = rng.normal(size=(50, 4))
    new[:, 0] = np.nan

    def squared_distances(encoder, metric, others):
        embedded = metric.transform(encoder.transform(new))
        return cdist(embedded, metric.transform(encoder.transform(others)), "sqeuclidean")

    more = squared_distances(encoder, metric, x) - squared_distances(without, plain, x)
    assert_allclose(more, np.full_like(more, more[0, 0]), rtol=1e-4)
    assert more[0, 0] > 0.001
    same = squared_distances(encoder, metric, new) - squared_distances(without, plain, new)
    assert_allclose(same, 0, atol=1e-6)


def test_a_constant_with_missing_values_is_its_indicator():
    x = np.array([7.0, 7.0, np.nan, 7.0])[:, None]
    assert list(encoded(x)[1]) == ["x0_missing"]


def test_durations_are_days():
    days = np.array([1, 5, 2, 9])
    expected = encoded(days[:, None].astype(float))[0]
    spans = days.astype("timedelta64[D]")
    assert_allclose(encoded(pandas.DataFrame({"a": spans}))[0], expected)
    assert_allclose(encoded(objects(*map(datetime.timedelta, days.tolist())))[0], expected)


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "int64[pyarrow]", "double[pyarrow]"])
def test_nullable_numbers_are_numbers(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    values = [3, None, 1, 4, 1, 5]
    expected = encoded(objects(*values))[0]
    table, _, encoder = encoded(pandas.DataFrame({"a": pandas.array(values, dtype=dtype)}))
    assert_array_equal(table, expected)
    assert encoder.kinds_ == {"a": "numbers"}
    floats = pandas.DataFrame({"a": np.array(values, dtype=float)})  # of another type than in fit
    assert_array_equal(encoder.transform(floats), expected)


@pytest.mark.parametrize("values", [[0.0, -0.0, 0.0], [0, 5e-324, 1e-310], [1e-70, -1e-70, 0]])
def test_zeros_with_signs_and_tiny_numbers_are_zeros(values):
    X = np.column_stack([np.arange(3.0), values])
    assert TableEncoder().fit(X).dropped_ == {"x1": "all values are equal"}


# Categories


def test_categories_have_indicators_and_missing_ones_are_the_most_frequent_one():
    X = objects("red", "blue", None, "red", float("nan"), pandas.NA)
    table, columns, _ = encoded(X)
    assert list(columns) == ["x0_blue", "x0_red", "x0_missing"]
    assert_array_equal(columns["x0_missing"], [0, 0, 1, 0, 1, 1])
    assert_array_equal(table[:, :2], [[0, 1], [1, 0], [0, 1], [0, 1], [0, 1], [0, 1]])


def test_rare_and_unseen_categories_share_an_indicator():
    X = objects(*["a"] * 50, *["b"] * 48, "c", "d")
    _, columns, encoder = encoded(X, min_frequency=2)
    assert list(columns) == ["x0_a", "x0_b", "x0_infrequent"]
    assert_array_equal(encoder.transform(objects("a", "d", "new")), np.eye(3)[[0, 2, 2]])
    _, _, encoder = encoded(X[:98], min_frequency=2)  # nothing is rare
    assert_array_equal(encoder.transform(objects("b", "new", None)), [[0, 1], [1, 0], [1, 0]])
    marked = TableEncoder().fit(X[:98])  # tells missing values from unseen ones
    new = marked.transform(objects("b", "new", None))
    assert_array_equal(new, [[0, 1, 0], [1, 0, 0], [1, 0, 1]])
    marked = TableEncoder(min_frequency=2).fit(X)
    assert_array_equal(marked.transform(objects("new", None)), [[0, 0, 1, 0], [1, 0, 0, 1]])


def test_unknown_categories_are_not_taken_for_rare_ones():
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 2
    x = np.where(rng.random(1000) < 0.02 + 0.02 * y, "rare", "frequent").astype(object)
    encoder = TableEncoder()
    table = encoder.fit_transform(np.column_stack([x, rng.normal(size=1000) + y]), y)
    metric = TATML(random_state=0).fit(table, y)
    new = objects("frequent", "rare", "unseen", None)
    embedded = metric.transform(encoder.transform(np.column_stack([new, [0.5] * 4])))
    frequent, rare, unseen, missing = np.sum((embedded - embedded[0]) ** 2, axis=1)
    assert frequent == 0
    assert unseen < 0.01 * rare
    assert unseen < missing < rare  # it is marked


def test_a_category_with_missing_values_is_its_indicator():
    assert list(encoded(objects("a", "a", None, "a"))[1]) == ["x0_missing"]


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True, False],
        pandas.Categorical([3, 1, 3, None]),
        pandas.Categorical(["u", "v", None, "v"]),
        pandas.array([True, None, False, True], dtype="boolean"),
        pandas.array(["u", None, "v", "v"], dtype="string"),
        pandas.cut(pandas.Series([1.0, 5.0, 2.0, np.nan]), 2),
    ],
    ids=lambda values: str(getattr(values, "dtype", "bool")),
)
def test_every_type_of_categories_is_read(values):
    series = pandas.Series(values)
    _, columns, encoder = encoded(pandas.DataFrame({"a": series}))
    assert encoder.kinds_ == {"a": "categories"}
    for value in series.dropna().unique():
        found = columns[f"a_{value}"]
        expected = (series == value)[series.notna()].astype(float)
        assert_array_equal(found[series.notna()], expected)
        most_frequent = series.mode()  # of equally frequent ones, the first
        assert_array_equal(found[series.isna()], float(value == most_frequent[0]))
    assert ("a_missing" in columns) == series.isna().any()


def test_many_categories_are_their_mean_targets():
    rng = np.random.default_rng(0)
    codes = rng.integers(50, size=2000)
    y = (rng.random(2000) < codes / 50).astype(int)
    X = objects(*(f"c{code}" for code in codes))
    _, columns, encoder = encoded(X, y)
    assert list(columns) == ["x0_target"]
    means = np.array([y[codes == code].mean() for code in range(50)])
    assert np.corrcoef(columns["x0_target"], means[codes])[0, 1] > 0.99
    assert_allclose(encoder.transform(objects("new"))[0], [0], atol=0.1)  # the mean of y
    number = encoded(X, y + rng.normal(size=2000))[1]
    assert list(number) == ["x0_target"]
    three = encoded(X, np.array(["u", "v", "w"])[y + (codes > 40)])[1]
    assert list(three) == ["x0_target_u", "x0_target_v", "x0_target_w"]


def test_training_samples_do_not_see_their_own_target():
    rng = np.random.default_rng(0)
    X, y = objects(*(f"c{k // 2}" for k in range(400))), rng.integers(2, size=400)
    encoder = TableEncoder(random_state=0)
    honest, seen = encoder.fit_transform(X, y)[:, 0], encoder.transform(X)[:, 0]
    assert np.corrcoef(seen, y)[0, 1] > 0.5
    assert np.corrcoef(honest, y)[0, 1] < 0.1
    assert_array_equal(clone(encoder).fit_transform(X, y)[:, 0], honest)  # by random_state


@pytest.mark.parametrize("y", [None, np.arange(400) // 20, np.arange(400) < 4])
def test_without_few_classes_the_most_frequent_of_many_categories_have_indicators(y):
    codes = np.minimum(np.random.default_rng(0).geometric(0.03, size=400), 60)
    table, columns, _ = encoded(objects(*(f"c{code}" for code in codes)), y, max_categories=10)
    assert len(columns) == 10
    assert "x0_infrequent" in columns
    frequent = np.argsort(-np.bincount(codes), kind="stable")[:5]
    assert {f"x0_c{code}" for code in frequent} <= {*columns}
    assert_array_equal(table.sum(axis=1), np.ones(400))


@pytest.mark.parametrize("blank", ["", "  ", "\t\n"])
def test_blank_strings_are_missing(blank):
    plain, new = objects("u", None, "v", "u"), objects("u", blank, "v", "u")
    assert_array_equal(encoded(new)[0], encoded(plain)[0])
    assert_array_equal(encoded(objects(1.5, 2, blank))[0], encoded(objects(1.5, 2, None))[0])
    assert TableEncoder().fit(np.c_[objects(1, 2), objects(blank, blank)]).dropped_ == {
        "x1": "all values are missing"
    }


def test_levels_without_values_and_their_order_do_not_matter():
    expected, names, _ = encoded(pandas.DataFrame({"a": ["lo", "hi", None, "lo"]}))
    for ordered in (False, True):
        levels = pandas.Categorical(["lo", "hi", None, "lo"], ["lo", "hi", "top"], ordered=ordered)
        table, columns, encoder = encoded(pandas.DataFrame({"a": levels}))
        assert list(columns) == list(names)
        assert_array_equal(table, expected)
        top = pandas.Categorical(["top"], ["top", "lo"])
        unseen = encoder.transform(pandas.DataFrame({"a": top}))
        assert_array_equal(unseen, [[0, 1, 0]])


# Dates


def test_dates_are_days_and_their_parts():
    hours = np.random.default_rng(0).integers(24 * 3000, size=300).astype("timedelta64[h]")
    dates = pandas.Series(np.datetime64("2001-02-03T04") + hours)
    _, columns, encoder = encoded(pandas.DataFrame({"a": dates}), n_quantiles=0)
    assert list(columns) == ["a", "a_year", "a_month", "a_weekday", "a_hour"]
    parts = [
        hours.astype(float),
        dates.dt.year,
        dates.dt.month,
        dates.dt.day_of_week,
        dates.dt.hour,
    ]
    for found, part in zip(columns.values(), parts, strict=True):
        assert_allclose(found, StandardScaler().fit_transform(np.asarray(part)[:, None])[:, 0])
    assert {*encoder.source_columns_} == {"a"}


def test_parts_of_dates_that_do_not_vary_are_left_out_and_missing_dates_are_marked():
    dates = [datetime.date(2020, 5, day) for day in range(1, 20)]
    _, columns, encoder = encoded(objects(None, *dates), n_quantiles=0)
    assert list(columns) == ["x0", "x0_weekday", "x0_missing"]
    assert_allclose(encoder.transform(objects(pandas.NaT))[0, 0], 0, atol=1e-12)


def test_a_time_zone_means_the_time_of_the_clock_there():
    local = pandas.Series(pandas.date_range("2020-01-01", periods=50, freq="31h"))
    expected = encoded(pandas.DataFrame({"a": local}))[0]
    zoned = local.dt.tz_localize("Europe/Paris")
    assert_array_equal(encoded(pandas.DataFrame({"a": zoned}))[0], expected)
    assert_array_equal(encoded(pandas.DataFrame({"a": zoned.astype(object)}))[0], expected)


# Columns that say nothing, names, order and forms


def test_columns_that_say_nothing_are_dropped_by_name():
    frame, y = messy_frame()
    encoder = TableEncoder().fit(frame, y)
    assert encoder.dropped_ == {
        "constant": "all values are equal",
        "empty": "all values are missing",
        "nobody": "all values are missing",
        "name": "no value occurs twice",
    }
    assert {*encoder.kinds_} == {*frame.columns} - {*encoder.dropped_} == {*encoder.source_columns_}
    other = frame.assign(constant="x", empty=3.0, name=np.nan)  # nobody reads these columns
    assert_array_equal(encoder.transform(other), encoder.transform(frame))
    hardly = objects(*["a"] * 99, "b")
    both = np.concatenate([hardly, objects(*range(100))], axis=1)
    dropped = TableEncoder(min_frequency=200).fit(both).dropped_
    assert dropped == {"x0": "its values hardly vary"}


def test_names_lead_back_to_the_source():
    frame, y = messy_frame()
    encoder = TableEncoder(3).fit(frame, y)
    names = encoder.get_feature_names_out()
    assert all(map(str.startswith, names, encoder.source_columns_))
    assert {"age", "age_spline_1", "age_missing", "city_Paris", "city_missing"} <= {*names}
    assert {"member_True", "town_target_2", "since_month", "visits_spline_1"} <= {*names}


def test_a_name_that_occurs_twice_gets_a_number():
    frame = pandas.DataFrame(
        {"a": [1.0, np.nan, 2.0], "a_missing": [1, 2, 3], "a_missing_2": [3, 2, 2]}
    )
    names = TableEncoder(0, mark_missing="seen").fit(frame).get_feature_names_out()
    assert list(names) == ["a", "a_missing", "a_missing_3", "a_missing_2"]


def test_frames_are_read_by_name():
    frame, y = messy_frame()
    encoder = TableEncoder().fit(frame, y)
    assert_array_equal(encoder.transform(frame[frame.columns[::-1]]), encoder.transform(frame))


@pytest.mark.parametrize(
    "names",
    [range(4), [("x", 1), ("x", 2), ("y", 1), ("y", 2)], ["a", 1, 2.5, None]],
    ids=["integers", "levels", "mixed"],
)
def test_names_that_are_no_strings_are_read_by_name_too(names):
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(20, 4)))
    frame.columns = pandas.MultiIndex.from_tuples(names) if names[0] == ("x", 1) else names
    encoder = TableEncoder().fit(frame)
    assert list(encoder.kinds_) == ["x0", "x1", "x2", "x3"]
    expected = encoder.transform(frame)
    assert_array_equal(encoder.transform(frame[frame.columns[::-1]]), expected)
    fewer = frame.iloc[:, 1:]
    with pytest.raises(ValueError, match="expected the columns of fit, got a data frame without"):
        encoder.transform(fewer)


def test_columns_are_read_by_position_if_fit_has_seen_an_array():
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(20, 3)))
    encoder = TableEncoder().fit(frame).fit(frame.to_numpy())
    other = frame.rename(columns={0: 2, 2: 0})
    assert_array_equal(encoder.transform(other), encoder.transform(frame.to_numpy()))


def test_rows_are_read_by_position():
    frame, y = messy_frame()
    expected = TableEncoder(random_state=0).fit(frame, y).transform(frame)
    frame.index = [0] * len(frame)
    encoder = TableEncoder(random_state=0).fit(frame, pandas.Series(y, index=frame.index))
    assert_array_equal(encoder.transform(frame), expected)
    assert_array_equal(encoder.transform(frame[5:6]), expected[5:6])


def test_missing_values_may_appear_anywhere():
    frame, y = messy_frame()
    encoder = TableEncoder().fit(frame, y)
    nothing = pandas.DataFrame({name: [None, None] for name in frame.columns})
    table = encoder.transform(nothing)
    assert np.all(np.isfinite(table))
    one_by_one = [encoder.transform(frame.assign(**{name: None})) for name in frame.columns]
    for name, found in zip(frame.columns, one_by_one, strict=True):
        own = encoder.source_columns_ == name
        assert_array_equal(found[:, own], np.repeat(table[:1, own], len(frame), axis=0))
        assert_array_equal(found[:, ~own], encoder.transform(frame)[:, ~own])


def test_arrays_of_numbers_lists_and_objects_are_the_same_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    expected = encoded(X)[0]
    assert_array_equal(encoded(X.tolist())[0], expected)
    assert_array_equal(encoded(X.astype(object))[0], expected)
    assert_array_equal(encoded(pandas.DataFrame(X))[0], expected)  # names are no strings
    decimals = np.array([[*map(Decimal, row)] for row in X.tolist()], dtype=object)
    assert_array_equal(encoded(decimals)[0], expected)
    assert_allclose(encoded(X.astype(np.float32))[0], expected, atol=1e-4)


def test_polars_and_pandas_agree():
    polars = pytest.importorskip("polars")
    frame, y = messy_frame()
    columns = {
        name: [None if pandas.isna(value) else value for value in frame[name].tolist()]
        for name in frame.columns
    }
    columns["since"] = [value and value.to_pydatetime() for value in columns["since"]]
    table = polars.DataFrame(columns, strict=False)
    ours = TableEncoder(random_state=0).fit(table, y)
    theirs = TableEncoder(random_state=0).fit(frame, y)
    assert ours.kinds_ == theirs.kinds_
    assert ours.dropped_ == theirs.dropped_
    assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
    assert_allclose(ours.transform(table), theirs.transform(frame), atol=1e-8)
    named = clone(ours).set_output(transform="polars").fit(table, y).transform(table)
    assert named.columns == list(ours.get_feature_names_out())


HOURS = [datetime.datetime(year, 5, 3, hour) for year, hour in ((2020, 7), (1950, 23), (2020, 8))]


@pytest.mark.parametrize(
    ("kind", "values", "dtypes"),
    [
        ("categories", ["u", "v", "u"], [("String",), ("Categorical",), ("Enum", "wvu")]),
        ("categories", [True, False, True], [("Boolean",)]),
        ("numbers", [1, 5, 2], [("Int8",), ("UInt64",), ("Float32",), ("Float64",)]),
        ("numbers", [Decimal("1.5"), Decimal("2.25"), Decimal(-3)], [("Decimal", 9, 2)]),
        ("numbers", [*map(datetime.timedelta, (1, 50, 7))], [("Duration", "ms")]),
        ("dates", [each.date() for each in HOURS], [("Date",)]),
        ("dates", HOURS, [("Datetime", "ms"), ("Datetime", "ns")]),
    ],
    ids=["strings", "booleans", "numbers", "decimals", "durations", "dates", "datetimes"],
)
def test_every_type_of_polars_is_read_as_objects_are(kind, values, dtypes):
    polars = pytest.importorskip("polars")
    for given in (values, [*values, None]):
        expected, names, _ = encoded(objects(*given))
        for dtype, *details in dtypes:
            series = polars.Series("x0", given).cast(getattr(polars, dtype)(*details))
            table, columns, encoder = encoded(series.to_frame())
            assert encoder.kinds_ == {"x0": kind}
            assert list(columns) == list(names)
            assert_allclose(table, expected, atol=1e-12)
            if kind == "dates":
                zoned = series.cast(polars.Datetime).dt.replace_time_zone("Asia/Tokyo")
                assert_allclose(encoder.transform(zoned.to_frame()), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([[1], [2, 3], None], "ndarray"),
        ([{"b": 1}, {"b": 2}, None], "dtype Struct"),
        (np.eye(3), "dtype Array"),
        ([datetime.time(1), datetime.time(2), None], "time"),
    ],
    ids=["lists", "structures", "arrays", "times"],
)
def test_what_is_no_column_of_polars_is_refused_by_name(values, found):
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=f"column 'a' of .*, got {found}"):
        TableEncoder().fit(polars.DataFrame({"b": [1, 2, 3], "a": polars.Series(values)}))


def test_data_frames_come_back_if_asked_for():
    frame, y = messy_frame()
    frame.index = frame.index + 1000
    encoder = TableEncoder(sparse_output=False).set_output(transform="pandas")
    found = encoder.fit(frame, y).transform(frame)
    assert list(found.columns) == list(encoder.get_feature_names_out())
    assert_array_equal(found.index, frame.index)


def test_wide_tables_of_indicators_are_sparse_and_a_metric_takes_them():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.integers(8, size=(60, 20)).astype(str).astype(object)
    X[:, 0] = y.astype(str)
    sparse = TableEncoder().fit(X, y)
    assert sparse.sparse_output_
    assert isinstance(sparse.transform(X), csr_array)
    dense = TableEncoder(sparse_output=False).fit_transform(X, y)
    assert_array_equal(sparse.transform(X).toarray(), dense)
    assert_array_equal(sparse.fit_transform(X, y).toarray(), dense)
    pairs = np.array([[0, 1], [0, 2], [5, 7]])
    found, expected = (
        TATML(clip_outliers=False, random_state=0).fit(table, y).pair_distance(pairs, table)
        for table in (sparse.transform(X), dense)
    )
    assert_allclose(found, expected, rtol=1e-4)
    assert not issparse(TableEncoder().fit_transform(np.tile(X, (9, 1))))  # more rows than columns
    assert not issparse(TableEncoder().fit_transform(rng.normal(size=(10, 5))))  # no zeros
    assert issparse(TableEncoder(sparse_output=True).fit_transform(rng.normal(size=(10, 5))))


def test_in_a_pipeline():
    frame, y = messy_frame(600)
    model = make_pipeline(
        TableEncoder(random_state=0), TATML(random_state=0), KNeighborsClassifier(15)
    )
    assert model.fit(frame[:400], y[:400]).score(frame[400:], y[400:]) > 0.6  # 1/3 by chance


# What is refused


def test_other_columns_are_refused_by_name():
    frame, y = messy_frame()
    encoder = TableEncoder().fit(frame, y)
    for other, message in (
        (frame.drop(columns="age"), "without 'age'"),
        (frame.assign(more=1), "with the additional 'more'"),
        (frame.rename(columns={"income": "incomes"}), "'incomes'; did you mean 'incomes'?"),
        (frame.assign(age="old"), "expected numbers in column 'age' as in fit, got categories"),
        (frame.assign(age=frame.since), "expected numbers in column 'age' as in fit, got dates"),
        (frame.assign(city=3), "expected categories in column 'city' as in fit, got numbers"),
        (
            frame.assign(age="3.5"),
            "expected numbers in column 'age' as in fit, got categories, such",
        ),
        (frame.assign(age=True), "'age' as in fit, got categories, such as 'True'"),
        (frame.assign(member=1.0), "categories in column 'member' as in fit, got numbers, such as"),
        (frame.assign(since="2020-01-01"), "expected dates in column 'since' as in fit, got categ"),
        (frame.rename(columns={"age": 0}), "without 'age' and with the additional '0'"),
        (frame.assign(age=np.inf), "at most 1e+60 or missing values, got inf in column 'age', row"),
        (frame[["age", *frame.columns]], "columns of different names, got 'age' repeatedly"),
        (frame[:0], "at least 1 sample(s) and a column, got n_samples = 0"),
    ):
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            encoder.transform(other)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (objects(1, "a"), r"column 'x0' .* all numbers, got int, str"),
        (objects([1], [2]), r"column 'x0' .* all numbers, got list"),
        (objects(1.5, True), r"column 'x0' .* all numbers, got bool, float"),
        (objects("a", datetime.date(2020, 1, 1)), r"column 'x0' .* all numbers, got date, str"),
        (objects(1j, 2), r"column 'x0' .* all numbers, got complex, int"),
        (objects({"a": 1}, {"a": 2}), r"column 'x0' .* all numbers, got dict"),
        (objects(10**400, 1), r"at most 1e\+60 or missing values, got inf in column 'x0', row 0"),
        (np.array([[1.0], [-1e61]]), "got -1e.61 in column 'x0', row 1"),
        (np.ones((5, 2)), "at least one column whose values differ, got 'x0', 'x1'"),
        (np.full((5, 1), np.nan), "at least one column whose values differ"),
        (csr_array(np.eye(3)), "Sparse data was passed for X"),
        (np.eye(3)[None], "dim 3"),
        (np.ma.masked_array(np.eye(3), np.eye(3) > 0), "masked"),
        (pandas.DataFrame(np.eye(2), columns=["a", "a"]), "different names, got 'a' repeatedly"),
        (pandas.DataFrame({"a": [1.0]}), "at least 2 sample"),
        (pandas.DataFrame({"a": [1.0]})[:0], "at least 2 sample"),
        (pandas.DataFrame(index=range(5)), "a column, got n_samples = 5 with 0 columns"),
        (pandas.DataFrame({"a": pandas.period_range("2020", periods=3, freq="D")}), "got Period"),
        (pandas.DataFrame({"a": np.array([1j, 2])}), "column 'a' .* dtype complex128"),
    ],
)
def test_what_is_no_table_is_refused(X, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TableEncoder().fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_quantiles": 2}, "n_quantiles: expected 0 or at least 3, got 2"),
        ({"n_quantiles": 4.0}, "n_quantiles: expected an integer, got 4.0"),
        ({"min_frequency": 1.0}, "min_frequency: expected a number between 0 and 1"),
        ({"min_frequency": 0}, "min_frequency: expected at least 1, got 0"),
        ({"max_categories": 1}, "max_categories: expected at least 2, got 1"),
        ({"mark_missing": "none"}, "mark_missing: expected one of 'all', 'seen', got 'none'"),
        ({"sparse_output": "csr"}, "sparse_output: expected one of 'auto', got 'csr'"),
        ({"sparse_output": None}, "sparse_output: expected True or False, got None"),
        ({"random_state": "seed"}, "random_state: expected None, an integer"),
    ],
)
def test_wrong_parameters_are_refused_by_name(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TableEncoder(**options).fit(np.eye(3))


def test_targets_of_another_length_are_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TableEncoder().fit(np.eye(3), [1, 2])


@pytest.mark.parametrize("y", [["u", 1, "v"], ["u", None, "v"]])
def test_targets_that_are_no_classes_are_refused_by_name(y):
    with pytest.raises(TypeError, match=r"^y: "):
        TableEncoder().fit(np.eye(3), np.array(y, dtype=object))
