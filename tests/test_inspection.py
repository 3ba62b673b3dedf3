"""Bootstrap intervals: their coverage, what is resampled, and errors."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest
from estimators_helpers import all_pairs, apart, labelled, labelled_pairs
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from tatml import GMML, ITML, TATML, Blocks, Euclidean, Maz, PairThreshold, TATMLPairs
from tatml._data.sampling import draw_pairs
from tatml._learning import learn
from tatml.inspection import threshold_interval

FEW = {"n_pairs_per_class": 40, "random_state": 0}
RATES = ("false_non_match", "false_match", "balanced_accuracy")


def width(interval):
    return interval.high - interval.low


def judge_at(threshold):
    """Return a judge of given distances."""
    return PairThreshold("precomputed").fit([0.5, 2.0], [1, -1]).set_threshold(threshold)


def drawn_distances(rng, n_pairs):
    """Draw distances of known distributions: |N(0, 1)| if similar, |N(2, 1)| if not."""
    y = np.where(np.arange(n_pairs) < n_pairs // 2, 1, -1)
    return np.abs(rng.normal(np.where(y > 0, 0.0, 2.0))), y


# Pairs that share samples


@pytest.fixture(scope="module")
def euclidean():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    return Euclidean(random_state=0).fit(rng.normal(size=(40, 2)) + 2 * y[:, None], y)


def draw_samples(rng, n_samples=30):
    y = np.arange(n_samples) % 2
    pairs = all_pairs(n_samples)
    labels = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    return rng.normal(size=(n_samples, 2)) + 2 * y[:, None], pairs, labels


class Recorder(np.random.RandomState):
    """Keeps its draws."""

    def __init__(self, seed):
        super().__init__(seed)
        self.draws = []

    def choice(self, *arguments, **options):
        self.draws.append(super().choice(*arguments, **options))
        return self.draws[-1]


def test_the_fit_of_a_resample_weights_pairs_by_the_product_of_the_counts(monkeypatch):
    X, pairs, labels = draw_samples(np.random.default_rng(0), 12)
    judge, rng, weights = PairThreshold(preprocessor=X).fit(pairs, labels), Recorder(0), []
    fit = PairThreshold.fit

    def spy(model, given, y, sample_weight):
        weights.append(sample_weight)
        return fit(model, given, y, sample_weight)

    monkeypatch.setattr(PairThreshold, "fit", spy)
    base = np.linspace(1, 2, len(pairs))
    options = {"n_resamples": 5, "random_state": rng, "sample_weight": base}
    threshold_interval(judge, pairs, labels, **options)
    assert len(weights) == len(rng.draws) == 5
    for weight, rows in zip(weights, rng.draws, strict=True):
        counts = [int(np.sum(rows == sample)) for sample in range(12)]
        expected = [counts[i] * counts[j] * w for (i, j), w in zip(pairs, base, strict=True)]
        assert_allclose(weight, expected)


# The threshold


def assert_is_interval(interval, estimator, n_resamples, level=0.95):
    assert interval.value == estimator.threshold_
    assert interval.distribution.shape == (n_resamples,)
    tail = 50 * (1 - level)
    expected = np.percentile(interval.distribution, [tail, 100 - tail])
    assert_allclose([interval.low, interval.high], expected)
    assert interval.low < interval.high
    assert 0.5 < np.median(interval.distribution) / estimator.threshold_ < 2


def assert_repeated_and_unchanged(estimator, X, y):
    """The same seed gives the same interval, and the estimator is not changed."""
    before = dict(vars(estimator))
    first, second = (
        threshold_interval(estimator, X, y, n_resamples=5, confidence_level=0.8, random_state=1)
        for _ in range(2)
    )
    assert_is_interval(first, estimator, 5, 0.8)
    assert_array_equal(first.distribution, second.distribution)
    assert len(np.unique(first.distribution)) == 5
    assert vars(estimator).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(estimator).items())


@pytest.mark.parametrize(
    ("make", "kind"),
    [(TATML, "two blocks"), (Euclidean, "vectors"), (GMML, "two blocks"), (ITML, "vectors")],
)
def test_label_estimators_are_not_changed(make, kind):
    X, y = labelled(kind)
    assert_repeated_and_unchanged(make(n_pairs_per_class=20, random_state=0).fit(X, y), X, y)


@pytest.mark.parametrize(
    ("make", "way"),
    [(TATMLPairs, "arrays"), (PairThreshold, "an array"), (TATMLPairs, "a function")],
)
def test_pair_estimators_are_not_changed(make, way):
    X, y = labelled()
    pairs, labels = labelled_pairs(y, 600)
    preprocessor = {"arrays": None, "an array": X, "a function": lambda rows: X[rows]}[way]
    given = apart(X[pairs]) if way == "arrays" else pairs
    estimator = make(preprocessor=preprocessor).fit(given, labels)
    assert_repeated_and_unchanged(estimator, given, labels.tolist())


def test_the_seed_determines_the_draws_of_the_estimator_too():
    X, y = labelled()
    estimator = Euclidean(n_pairs_per_class=20).fit(X, y)
    first, second = (
        threshold_interval(estimator, X, y, n_resamples=5, random_state=1) for _ in range(2)
    )
    assert_array_equal(first.distribution, second.distribution)


def test_samples_may_be_lists_tables_and_matrices():
    (X, y), (matrices, _) = labelled(), labelled("matrices")
    table = pd.DataFrame(X, columns=list("abcd"), index=range(100, 160))
    for given, labels in ((X.tolist(), y), (table, y), (matrices, labelled("matrices")[1])):
        estimator = Euclidean(**FEW).fit(given, labels.tolist())
        options = {"n_resamples": 5, "random_state": 0}
        interval = threshold_interval(estimator, given, labels.tolist(), **options)
        assert_is_interval(interval, estimator, 5)


def spied_draws(monkeypatch):
    """Return a list that collects the samples and the pairs of every draw."""
    drawn = []

    def spy(strategy, blocks, *arguments, **options):
        pairs = draw_pairs(strategy, blocks, *arguments, **options)
        drawn.append((blocks.arrays[0][:, :, 0], pairs.index))
        return pairs

    monkeypatch.setattr("tatml._learning.labelled.draw_pairs", spy)
    return drawn


def test_copies_of_a_sample_are_one_sample(monkeypatch):
    """Two distinct samples make one pair, which has the product of their counts as its weight."""
    X, y = labelled()
    estimator = Euclidean(pairs="all").fit(X, y)
    drawn = spied_draws(monkeypatch)
    threshold_interval(estimator, X, y, n_resamples=5, random_state=0)
    assert len(drawn) == 5
    for rows, index in drawn:
        assert len(np.unique(rows, axis=0)) == len(rows)
        assert 25 < len(rows) < 50  # 1 − 1/e of 60 is 38
        found = np.zeros((len(rows), len(rows)), dtype=int)
        np.add.at(found, tuple(np.sort(index, axis=1).T), 1)
        assert_array_equal(found, np.triu(np.ones_like(found), 1))


def test_a_resample_without_both_kinds_of_pairs_is_drawn_again():
    for sizes in ((57, 3), (2, 2, 2)):
        y = np.repeat(np.arange(len(sizes)), sizes)
        X = labelled()[0][: len(y)]
        estimator = Euclidean(**FEW).fit(X, y)
        interval = threshold_interval(estimator, X, y, n_resamples=40, random_state=0)
        assert_is_interval(interval, estimator, 40)
    distances, y = np.linspace(1, 2, 60), np.repeat([1, -1], 30)
    for rare in (1, -1):  # one of the pairs of this kind has a weight
        weights = {"sample_weight": np.where((y == rare) & (np.arange(60) % 30 > 0), 0.0, 1.0)}
        judge = PairThreshold("precomputed").fit(distances, y, **weights)
        options = {"n_resamples": 20, "random_state": 0, **weights}
        assert_is_interval(threshold_interval(judge, distances, y, **options), judge, 20)


def test_whole_groups_are_resampled(monkeypatch):
    X, y = labelled()
    groups = np.arange(60) // 4
    estimator = Euclidean(pairs="all").fit(X, y, groups=groups)
    drawn = spied_draws(monkeypatch)
    threshold_interval(estimator, X, y, groups=groups, n_resamples=5, random_state=0)
    assert len(drawn) == 5
    for rows, index in drawn:
        group = np.array([groups[np.flatnonzero((row == X).all(axis=1))[0]] for row in rows])
        assert set(np.bincount(group)) == {0, 4}
        assert np.all(group[index[:, 0]] != group[index[:, 1]])


def test_weights_of_pairs_count_in_every_resample():
    distances, y = drawn_distances(np.random.default_rng(0), 200)
    weights = np.where(np.arange(200) % 3 == 0, 0.0, 1.0)
    distances[weights == 0] = 50.0
    judge = PairThreshold("precomputed").fit(distances, y, sample_weight=weights)
    plain, weighed = (
        threshold_interval(
            judge, distances, y, n_resamples=20, random_state=0, sample_weight=given
        ).distribution
        for given in (None, weights)
    )
    assert np.all(np.abs(weighed / judge.threshold_ - 1) < 0.3)
    assert np.all(plain > 2 * judge.threshold_)


def test_the_interval_of_the_threshold_covers_the_best_one():
    """The best threshold is that of very many pairs."""
    rng = np.random.default_rng(5)
    best = PairThreshold("precomputed").fit(*drawn_distances(rng, 200_000)).threshold_
    covered, n_repeats = 0, 30
    for _ in range(n_repeats):
        distances, y = drawn_distances(rng, 150)
        judge = PairThreshold("precomputed").fit(distances, y)
        interval = threshold_interval(
            judge, distances, y, n_resamples=30, confidence_level=0.9, random_state=rng
        )
        covered += interval.low <= best <= interval.high
    assert 0.75 <= covered / n_repeats <= 0.99


def test_shared_samples_widen_the_interval_of_the_threshold():
    X, pairs, labels = draw_samples(np.random.default_rng(0))
    shared = PairThreshold(preprocessor=Blocks(X)).fit(pairs, labels)
    separate = PairThreshold().fit(X[pairs], labels)
    assert shared.threshold_ == separate.threshold_
    options = {"n_resamples": 50, "random_state": 0}
    wide = threshold_interval(shared, pairs, labels, **options)
    narrow = threshold_interval(separate, apart(X[pairs]), labels, **options)
    with pytest.warns(UserWarning, match="equal rows are taken as one sample"):
        by_row = threshold_interval(separate, X[pairs], labels, **options)
    assert width(wide) > 2 * width(narrow)
    assert width(by_row) > 2 * width(narrow)


# Errors


def test_an_estimator_without_a_threshold_is_refused():
    X, y = labelled()
    for estimator, kinds in (
        (TATML(), NotFittedError),
        (Euclidean().fit(X), ValueError),
    ):
        with pytest.raises(kinds, match=f"{type(estimator).__name__}.*(threshold|fitted)"):
            threshold_interval(estimator, X, y)


def test_a_threshold_that_was_not_learnt_has_no_interval():
    X, y = labelled()
    for estimator in (TATML(threshold=0.8, **FEW), Maz(**FEW), Euclidean(**FEW)):
        estimator.fit(X, y)
        if isinstance(estimator, Euclidean):
            estimator.calibrate_threshold(*labelled_pairs(y), X=X)
        with pytest.raises(ValueError, match=r"estimator: expected .* learnt"):
            threshold_interval(estimator, X, y)


WRONG = {
    "n_resamples": [0, 1, -3, 2.5, "ten", None, True],
    "confidence_level": [-0.1, 1.1, 95, np.nan, "high", None],
    "random_state": ["seed", -1, 1.5],
    "n_jobs": [0, 1.5, "all", True],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named_before_anything_is_fitted(name, monkeypatch):
    distances, y = drawn_distances(np.random.default_rng(0), 40)
    judge = PairThreshold("precomputed").fit(distances, y)
    monkeypatch.setattr(PairThreshold, "fit", None)
    for value in WRONG[name]:
        with pytest.raises((TypeError, ValueError), match=rf"\b{name}: expected"):
            threshold_interval(judge, distances, y, **{"n_resamples": 3} | {name: value})


class Impatient(np.random.RandomState):
    """Fails after 100 draws, where a loop would not end."""

    draws = 0

    def choice(self, *arguments, **options):
        self.draws += 1
        assert self.draws < 100
        return super().choice(*arguments, **options)


def test_pairs_of_one_kind_are_refused():
    distances, y = drawn_distances(np.random.default_rng(0), 40)
    judge = PairThreshold("precomputed").fit(distances, y)
    with pytest.raises(ValueError, match=r"y: expected similar \(\+1\) and dissimilar"):
        threshold_interval(judge, distances[:20], y[:20], random_state=Impatient(0))


def test_samples_of_one_class_are_refused():
    X, y = labelled()
    estimator = Euclidean(**FEW).fit(X, y)
    for labels in (np.zeros(60), np.arange(60)):  # no dissimilar pair, no similar one
        with pytest.raises(ValueError, match="y: expected"):
            threshold_interval(estimator, X, labels, random_state=Impatient(0))


class Recorded(TATML):
    """A TATML that notes the parameters of its fits."""

    fits = []  # noqa: RUF012

    def fit(self, X, y, groups=None):
        self.fits.append(self.get_params() | {"start": getattr(self, "result_", None)})
        return super().fit(X, y, groups)


def test_each_refit_starts_from_the_solution_of_all_samples_and_has_one_seed():
    X, y = labelled()
    metric = Recorded(n_pairs_per_class=10).fit(X, y)
    Recorded.fits.clear()
    threshold_interval(metric, X, y, n_resamples=3, random_state=0)
    assert [fit["warm_start"] for fit in Recorded.fits] == [True] * 3
    assert all(fit["start"] is metric.result_ for fit in Recorded.fits)
    (seed,) = {fit["random_state"] for fit in Recorded.fits}
    assert 0 <= seed < 2**31 - 1
    assert not metric.warm_start  # the estimator is not touched
    assert metric.random_state is None
    Recorded.fits.clear()
    threshold_interval(metric.set_params(random_state=7), X, y, n_resamples=2, random_state=0)
    assert {fit["random_state"] for fit in Recorded.fits} == {7}


@pytest.mark.parametrize("seed", [None, 3, np.random.RandomState(3)])
def test_the_interval_does_not_depend_on_the_number_of_jobs(seed):
    X, y = labelled()
    metric = TATML(n_pairs_per_class=10, random_state=seed).fit(X, y)
    with parallel_config(backend="threading"):
        found = [
            threshold_interval(metric, X, y, n_resamples=5, random_state=0, n_jobs=jobs)
            for jobs in (None, 2, 3)
        ]
    for other in found[1:]:
        assert_array_equal(other.distribution, found[0].distribution)
    assert len(set(found[0].distribution)) > 1


# Thresholds that held-out pairs set


@pytest.mark.parametrize("threshold", ["auto", "joint"])
def test_every_resample_takes_the_threshold_of_its_word(threshold, monkeypatch):
    """Its factor is found anew; no copy of a sample is both known and held out."""
    X, y = labelled()
    estimator = TATML(threshold=threshold, **FEW).fit(X, y)
    held_out, parts_of = [], learn.hold_out_samples

    def spy(*arguments):
        parts = parts_of(*arguments)
        held_out.append(parts)
        return parts

    monkeypatch.setattr(learn, "hold_out_samples", spy)
    models = spied_fits(monkeypatch, TATML)
    interval = threshold_interval(estimator, X, y, n_resamples=6, random_state=0)
    assert_is_interval(interval, estimator, 6)
    factors = [factor for _, factor in models]
    assert (len(set(factors)) > 1) == (threshold == "auto")
    for (b0, factor), found in zip(models, interval.distribution, strict=True):
        assert_allclose(found, factor * sqrt(b0))
    assert len(held_out) == 6
    for parts in held_out:
        assert len(parts) >= 2
        for part in parts:
            known, others = (
                {row.tobytes() for row in blocks.arrays[0]} for blocks in (part.known, part.others)
            )
            assert not known & others
            assert len(known) == len(part.known)  # copies are one sample


def spied_fits(monkeypatch, make):
    """Return a list that collects b0 and the factor of every fit."""
    fits, fit = [], make.fit

    def spy(model, *arguments, **options):
        fit(model, *arguments, **options)
        fits.append((model.b0_, model.threshold_factor_))
        return model

    monkeypatch.setattr(make, "fit", spy)
    return fits


@pytest.mark.parametrize("threshold", ["auto", "joint"])
def test_resamples_of_pairs_take_the_threshold_of_their_word(threshold, monkeypatch):
    X, y = labelled()
    pairs, labels = labelled_pairs(y, 900)
    estimator = TATMLPairs(threshold=threshold, preprocessor=X).fit(pairs, labels)
    fits = spied_fits(monkeypatch, TATMLPairs)
    interval = threshold_interval(estimator, pairs, labels, n_resamples=5, random_state=0)
    assert_is_interval(interval, estimator, 5)
    assert_allclose(interval.distribution, [factor * sqrt(b0) for b0, factor in fits])
    assert (len({factor for _, factor in fits}) > 1) == (threshold == "auto")


def test_a_factor_that_was_changed_is_no_learnt_threshold():
    X, y = labelled()
    estimator = TATML(**FEW).fit(X, y)
    estimator.threshold_factor_ *= 1.1
    with pytest.raises(ValueError, match=r"estimator: expected .* was learnt in fit"):
        threshold_interval(estimator, X, y)
