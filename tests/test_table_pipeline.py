"""make_table_pipeline: messy frames in, probabilities out; the steps are those it names."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from tatml import TATML, SoftNeighborsClassifier, make_table_pipeline
from tatml.features import KernelMap, TableEncoder

pandas = pytest.importorskip("pandas")


def messy_frame(n=240, seed=0):
    """Return numbers, categories, a flag and dates, with gaps; two columns tell the class."""
    rng = np.random.default_rng(seed)
    size, colour = rng.lognormal(size=n), rng.choice(["red", "blue", "grey"], size=n)
    y = np.where(np.log(size) + 0.8 * (colour == "red") > 0.3, "buys", "leaves")
    days = np.datetime64("2024-01-01") + rng.integers(600, size=n).astype("timedelta64[D]")
    frame = pandas.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.05, np.nan, size),
            "colour": np.where(rng.random(n) < 0.05, None, colour),
            "flag": rng.random(n) < 0.5,
            "since": np.where(rng.random(n) < 0.05, np.datetime64("NaT"), days),
            "empty": np.nan,
        }
    )
    return frame, y


@pytest.fixture(scope="module")
def fitted():
    frame, y = messy_frame()
    return make_table_pipeline(random_state=0).fit(frame[:160], y[:160])


def test_a_messy_frame_is_learnt(fitted):
    frame, y = messy_frame()
    probabilities = fitted.predict_proba(frame[160:])
    assert_allclose(probabilities.sum(axis=1), 1)
    assert_array_equal(fitted.classes_, ["buys", "leaves"])
    assert fitted.score(frame[160:], y[160:]) > 0.8


def test_a_new_category_and_missing_values_everywhere_are_accepted(fitted):
    row = pandas.DataFrame(
        {"size": [np.nan], "colour": ["green"], "flag": [True], "since": [None], "empty": [3.0]}
    )
    assert np.isfinite(fitted.predict_proba(row.astype({"since": "datetime64[s]"}))).all()


@pytest.mark.parametrize("kernel", ["laplacian", "rbf", None, KernelMap("rbf", n_landmarks=20)])
def test_it_is_the_pipeline_built_by_hand(kernel):
    frame, y = messy_frame()
    is_word = isinstance(kernel, str)
    by_hand = make_pipeline(
        TableEncoder(random_state=3),
        TATML(
            kernel=KernelMap(kernel, n_landmarks=1 / 8) if is_word else kernel,
            loss="logistic",
            random_state=3,
        ),
        SoftNeighborsClassifier(random_state=3),
    )
    models = [make_table_pipeline(kernel, random_state=3), by_hand]
    first, second = (m.fit(frame[:120], y[:120]).predict_proba(frame[120:]) for m in models)
    assert_array_equal(first, second)
    assert [name for name, _ in models[0].steps] == [name for name, _ in by_hand.steps]


@pytest.mark.parametrize(("n", "expected"), [(80, 10), (2480, 300)])
def test_an_eighth_of_the_samples_are_landmarks(n, expected):
    frame, y = messy_frame(n)
    model = make_table_pipeline(random_state=0).fit(frame, y)
    assert len(model["tatml"].kernel_map_.landmark_rows_) == expected


def test_clones_parameters_and_cross_validation():
    frame, y = messy_frame(120)
    model = make_table_pipeline("rbf", random_state=0)
    assert model.get_params()["tatml__kernel"].kernel == "rbf"
    model.set_params(tableencoder__n_quantiles=0, tatml__C=10.0)
    copy = clone(model)
    assert copy.get_params()["tatml__C"] == 10.0
    scores = [cross_val_score(m, frame, y, cv=2) for m in (model, copy)]
    assert_array_equal(*scores)
    assert np.isfinite(scores[0]).all()


def test_a_pickle_predicts_the_same(fitted):
    frame, _ = messy_frame()
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))


def test_pairs_of_encoded_samples_are_judged(fitted):
    frame, y = messy_frame()
    rng = np.random.default_rng(0)
    pairs = rng.integers(160, 240, size=(500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    found = fitted[-2].predict_pairs(pairs, fitted[:-2].transform(frame))
    same = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    assert np.mean(found == same) > 0.6


def test_a_wide_sparse_table_is_encoded_densely_for_the_kernel():
    """A kernel takes no sparse samples; without one, the encoder may return them."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{k}" for k in range(18)], dtype=object)
    frame = pandas.DataFrame({f"c{k}": rng.choice(words, size=60) for k in range(12)})
    y = (frame["c0"] > "w4").to_numpy()
    for kernel, is_sparse in (("laplacian", False), (None, True)):
        model = make_table_pipeline(kernel, random_state=0)
        model.set_params(tableencoder__min_frequency=1)
        assert model.fit(frame, y)[0].sparse_output_ is is_sparse
        assert np.isfinite(model.predict_proba(frame)).all()


def test_progress_is_printed_only_if_asked_for(capsys):
    frame, y = messy_frame(80)
    make_table_pipeline(random_state=0).fit(frame, y)
    assert capsys.readouterr() == ("", "")
    model = make_table_pipeline(random_state=0, verbose=True).fit(frame, y)
    printed = "".join(capsys.readouterr())
    for step in model.named_steps:
        assert f"Processing {step}, total=" in printed
    assert "primal" in printed  # the table of the solver


@pytest.mark.parametrize("kernel", ["precomputed", "chi2", "sigmoid"])
def test_other_words_are_refused_by_name(kernel):
    with pytest.raises(ValueError, match=f"^kernel: expected one of .*, got '{kernel}'"):
        make_table_pipeline(kernel)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": 3}, "^kernel: expected None, the name of a kernel or a KernelMap, got 3"),
        ({"random_state": "now"}, "^random_state: expected "),
        ({"verbose": "yes"}, "verbose.*'yes'"),
    ],
)
def test_other_parameters_are_refused_by_fit(given, message):
    frame, y = messy_frame(40)
    with pytest.raises((TypeError, ValueError), match=message):
        make_table_pipeline(**given).fit(frame, y)
