"""TATMLRegression: pairs of near and of distant ranks, and the metric that is learnt from them."""

import numpy as np
import pandas as pd
import pytest
from benchmark_helpers import import_benchmark
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, xlogy
from scipy.stats import rankdata
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tatml import TATML, Blocks, SoftNeighborsRegressor, TATMLPairs, TATMLRegression
from tatml._data.sampling import draw_ranked_pairs, slice_ranks
from tatml._estimators.inputs import class_labels, target_ranks
from tatml._learning.cross_fit import hold_out_pairs
from tatml._learning.prepare import prior_from_samples
from tatml._learning.priors import KnownSamples, within_classes
from tatml.losses import CustomLoss

N = 80
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)) * [1.0, 5.0, 0.1, 1.0]
Z = X[:, 0] + 2 * X[:, 2] + 0.1 * RNG.normal(size=N)
FEW = {"n_pairs": 400, "random_state": 0}


def differences_by_hand(y, index):
    """Return the differences of ranks as shares, from counts of smaller and of equal targets."""
    y = np.asarray(y, dtype=float).reshape(len(y), -1)
    smaller, equal = (np.sum(which, axis=1) for which in (y < y[:, None], y == y[:, None]))
    ranks = smaller + (equal + 1) / 2
    squares = [((ranks[i] - ranks[j]) ** 2).sum() / y.shape[1] for i, j in index]
    return np.sqrt(squares) / len(y)


TARGETS = {
    "one": Z,
    "ties": np.round(Z),
    "two values": Z > 0,
    "integers": np.argsort(Z),
    "two": np.stack([Z, X[:, 1]], axis=1),
    "three with ties": np.round(np.stack([Z, X[:, 1], X[:, 3]], axis=1)),
}


@pytest.mark.parametrize("y", TARGETS.values(), ids=TARGETS)
def test_pairs_are_similar_by_the_ranks_of_their_targets(y):
    model = TATMLRegression(near=0.2, far=0.3, **FEW).fit(X, y)
    found = differences_by_hand(y, model.pairs_)
    assert np.all(found[model.similar_] < 0.2)
    assert np.all(found[~model.similar_] > 0.3)
    assert len(np.unique(np.sort(model.pairs_, axis=1), axis=0)) == len(model.pairs_)
    assert np.all(model.pairs_[:, 0] != model.pairs_[:, 1])


@pytest.mark.parametrize("y", TARGETS.values(), ids=TARGETS)
def test_all_pairs_of_both_kinds_are_drawn_if_so_many_are_wanted(y):
    model = TATMLRegression(near=0.2, far=0.3, n_pairs=2 * N**2, random_state=0).fit(X, y)
    every = np.stack(np.triu_indices(N, 1), axis=1)
    difference = differences_by_hand(y, every)
    for kind, expected in ((True, difference < 0.2), (False, difference > 0.3)):
        found = np.sort(model.pairs_[model.similar_ == kind], axis=1)
        assert set(map(tuple, found)) == set(map(tuple, every[expected]))
    weights = np.ones(len(model.pairs_)) if model.pair_weights_ is None else model.pair_weights_
    assert weights[model.similar_].sum() == pytest.approx(weights[~model.similar_].sum())


@pytest.mark.parametrize("n_pairs", [2, 401])
def test_half_of_the_pairs_are_similar(n_pairs):
    model = TATMLRegression(n_pairs=n_pairs, random_state=0).fit(X, Z)
    assert (len(model.pairs_), model.similar_.sum()) == (n_pairs, (n_pairs + 1) // 2)


def test_pairs_of_many_samples_are_drawn_evenly():
    """Only some of the pairs are tried then. Each sample has the same chance, each pair one."""
    n = 3000
    ranks, rng = np.arange(1.0, n + 1)[:, None], np.random.RandomState(0)
    given = {"total": n, "near": 0.1, "far": 0.4, "n_pairs": 20_000, "random_state": rng}
    pairs = draw_ranked_pairs(ranks, **given)
    assert (len(pairs), pairs.similar.sum()) == (20_000, 10_000)
    assert np.all(pairs.first < pairs.second)
    assert np.all(pairs.second < n)
    keys = pairs.first * n + pairs.second
    assert len(np.unique(keys)) == len(keys)
    gap = (pairs.second - pairs.first)[pairs.similar] / n
    assert np.mean(gap) == pytest.approx((0.1**2 / 2 - 0.1**3 / 3) / (0.1 - 0.1**2 / 2), rel=0.03)
    assert np.mean(pairs.index[pairs.similar]) == pytest.approx((n - 1) / 2, rel=0.03)


@pytest.mark.parametrize(
    "options",
    [
        {"prior": "auto"},
        {"prior": np.diag([1.0, 0.1, 9.0, 1.0])},
        {"prior": "covariance", "kernel": "rbf"},
        {"prior": "covariance", "loss": "logistic", "C": 10.0},
    ],
)
def test_the_metric_is_that_of_the_pairs(options):
    """What TATMLPairs learns from the same pairs, exactly, if no slices are in the prior."""
    model = TATMLRegression(**FEW, **options).fit(X, Z)
    signs = np.where(model.similar_, 1, -1)
    expected = TATMLPairs(preprocessor=X, random_state=0, **{"C": 100.0} | options)
    expected.fit(model.pairs_, signs)
    assert_array_equal(model.result_.L[0], expected.result_.L[0])
    assert_array_equal(model.transform(X), expected.transform(X))
    assert model.threshold_ == expected.threshold_
    assert model.threshold_factor_ == expected.threshold_factor_ != 1.0
    assert model.result_.gap == expected.result_.gap
    assert_allclose(model.pair_distance(model.pairs_, X), expected.pair_distance(model.pairs_))
    assert_array_equal(
        model.predict_pairs(model.pairs_, X), expected.predict_pairs(expected.pairs_, X)
    )


@pytest.mark.parametrize("prior", ["discriminant", "within"])
def test_the_prior_is_that_of_nine_slices_as_classes(prior):
    """But for its scale, by which the pairs have a mean squared distance of 1."""
    place = np.argsort(np.argsort(Z))
    model = TATMLRegression(prior=prior, **FEW).fit(X, Z)
    slices = (2 * place + 1) * 9 // (2 * N)
    within = within_classes(Blocks(X), slices, model.prior_units_)
    expected = prior_from_samples(prior, Blocks(X), within).full()[0]
    assert_allclose(
        model.prior_ / np.trace(model.prior_), expected / np.trace(expected), rtol=1e-6, atol=1e-12
    )
    rows = X[model.pairs_[:, 0]] - X[model.pairs_[:, 1]]
    assert np.mean(np.einsum("ij,jk,ik->i", rows, model.prior_, rows)) == pytest.approx(1.0)


def test_slices_of_reversed_ranks_are_the_same():
    for n, step in ((5, 1), (15, 1), (27, 1), (30, 3), (80, 1)):
        ranks = rankdata(np.arange(n) // step)[:, None]
        for found in (ranks, np.c_[ranks, ranks[np.random.default_rng(0).permutation(n)]]):
            one, other = slice_ranks(found, n), slice_ranks(n + 1 - found, n)
            both = np.unique(np.c_[one, other], axis=0)
            assert len(np.unique(one)) == len(np.unique(other)) == len(both) <= 9


MONOTONE = {
    "exponential": np.exp,
    "cube": lambda y: y**3,
    "shift and scale": lambda y: 1e6 * y - 7.0,
    "ranks": lambda y: np.unique(y, return_inverse=True)[1],
    "decreasing": lambda y: -y,
    "outlier": lambda y: np.where(y == y.max(), 1e100, y),
    "list": lambda y: y.tolist(),
    "column": lambda y: y[:, None],
}


@pytest.mark.parametrize("change", MONOTONE.values(), ids=MONOTONE)
@pytest.mark.parametrize("y", [Z, np.round(Z)], ids=["distinct", "ties"])
def test_monotone_transformations_of_the_target_change_nothing(y, change):
    found, expected = (TATMLRegression(**FEW).fit(X, target) for target in (change(y), y))
    assert_array_equal(found.pairs_, expected.pairs_)
    assert_array_equal(found.components_, expected.components_)
    assert found.threshold_ == expected.threshold_


def test_each_of_several_targets_may_be_transformed_by_itself():
    y = TARGETS["two"]
    changed = np.stack([np.exp(y[:, 0]), -y[:, 1]], axis=1)
    found, expected = (TATMLRegression(**FEW).fit(X, target) for target in (changed, y))
    assert_array_equal(found.components_, expected.components_)
    twice = TATMLRegression(**FEW).fit(X, y[:, [0, 1, 0, 1]])
    assert_array_equal(twice.pairs_, expected.pairs_)
    swapped = TATMLRegression(**FEW).fit(X, y[:, ::-1])
    assert_array_equal(swapped.pairs_, expected.pairs_)
    alone = TATMLRegression(**FEW).fit(X, y[:, 0])
    assert not np.array_equal(alone.pairs_, expected.pairs_)


def test_ordered_categories_are_their_positions():
    words = np.array(["low", "middle", "high"])
    codes = np.digitize(Z, [-0.5, 0.5])
    y = pd.Series(pd.Categorical(words[codes], categories=words, ordered=True))
    expected = TATMLRegression(**FEW).fit(X, codes)
    frame = pd.DataFrame({"a": y, "b": y})
    for target in (y, pd.Categorical(y), frame[["a"]]):
        found = TATMLRegression(**FEW).fit(X, target)
        assert_array_equal(found.pairs_, expected.pairs_)
        assert_array_equal(found.components_, expected.components_)
    mixed = target_ranks(expected, pd.DataFrame({"a": y, "b": Z}), N)
    assert_array_equal(mixed, target_ranks(expected, np.stack([codes, Z], axis=1), N))


@pytest.mark.parametrize(
    ("scale", "options"), [([1e-3, 1e4, 7.0, 1.0], {}), ([1e3] * 4, {"kernel": "rbf"})]
)
def test_units_and_shifts_of_the_samples_change_nothing(scale, options):
    """With a kernel, one unit for all columns is among the units that held-out pairs choose."""
    shift = np.array([1.0, -50.0, 0.0, 3.0])
    plain = TATMLRegression(tol=1e-10, **FEW, **options).fit(X, Z)
    other = TATMLRegression(tol=1e-10, **FEW, **options).fit(X * scale + shift, Z)
    expected, every = plain.pair_distance(plain.pairs_, X), X * scale + shift
    assert_allclose(other.pair_distance(plain.pairs_, every), expected, rtol=1e-5)
    assert other.threshold_ == pytest.approx(plain.threshold_, rel=1e-5)


def test_a_seed_draws_the_same_pairs_and_another_seed_others():
    first, again, other = (
        TATMLRegression(n_pairs=100, random_state=k).fit(X, Z) for k in (1, 1, 2)
    )
    assert_array_equal(first.pairs_, again.pairs_)
    assert_array_equal(first.components_, again.components_)
    assert not np.array_equal(first.pairs_, other.pairs_)


def test_no_pair_is_drawn_from_within_a_group():
    """The other pairs are all drawn if so many are wanted."""
    groups = np.arange(N) // 4
    y = Z[groups * 4] + 1e-3 * Z  # the samples of a group are near each other
    model = TATMLRegression(n_pairs=2 * N**2, random_state=0)
    plain, found = model.fit(X, y).pairs_, model.fit(X, y, groups=groups.astype(str)).pairs_
    inside = groups[plain[:, 0]] == groups[plain[:, 1]]
    assert inside.sum() == N // 4 * 6
    assert set(map(tuple, found)) == set(map(tuple, plain[~inside]))


def test_groups_are_held_out_as_a_whole():
    groups = RNG.integers(15, size=N)
    pairs = draw_ranked_pairs(
        np.arange(1.0, N + 1)[:, None],
        groups,
        total=N,
        near=0.3,
        far=0.4,
        n_pairs=1000,
        random_state=np.random.RandomState(0),
    )
    blocks = Blocks(X)
    of_groups, of_samples = (
        hold_out_pairs(blocks, pairs, known=KnownSamples(np.arange(N) % 2, groups, None)),
        hold_out_pairs(blocks, pairs),
    )
    assert len(of_groups) > 1
    for part in of_groups:
        assert not shares_a_group(part, groups)
    assert any(shares_a_group(part, groups) for part in of_samples)


def shares_a_group(part, groups):
    """Return whether the known and the held-out samples have a group in common."""
    rows = [np.flatnonzero((row[:, 0] == X).all(axis=1))[0] for row in part.others.arrays[0]]
    return bool(set(groups[part.rows]) & set(groups[rows]))


def test_near_copies_in_a_group_are_held_out_together():
    """The groups change the threshold, and not the metric of the same pairs."""
    samples, y = load_diabetes(return_X_y=True)
    rng, train = np.random.default_rng(0), np.arange(0, 120)
    copies = np.repeat(train, 4)
    near = samples[copies] + 1e-4 * rng.normal(size=(len(copies), samples.shape[1]))
    model = TATMLRegression(prior="covariance", random_state=0)
    model.fit(near, y[copies], groups=copies)
    alone = TATMLPairs(prior="covariance", preprocessor=near).fit(
        model.pairs_, np.where(model.similar_, 1, -1)
    )
    assert_array_equal(model.components_, alone.components_)
    assert model.threshold_factor_ != alone.threshold_factor_


def test_the_threshold_tells_near_from_distant_ranks_of_new_samples():
    samples, y = make_friedman1(1200, noise=0.5, random_state=0)
    model = TATMLRegression(random_state=0).fit(samples[:600], y[:600])
    new = np.random.default_rng(0).integers(600, 1200, size=(4000, 2))
    difference = np.abs(np.subtract(*np.searchsorted(np.sort(y), y[new]).T)) / 1200
    same = model.predict_pairs(new, samples) == 1
    hits, alarms = same[difference < 0.12].mean(), same[difference > 0.4].mean()
    assert (hits + 1 - alarms) / 2 > 0.7
    assert model.result_.converged


def test_a_linear_target_is_found():
    """Only one direction matters: the distance nearly ignores all others."""
    rng = np.random.default_rng(1)
    samples, w = rng.normal(size=(400, 6)), rng.normal(size=6)
    model = TATMLRegression(random_state=0).fit(samples, samples @ w)
    W = model.get_mahalanobis_matrix()
    values, vectors = np.linalg.eigh(W)
    assert values[-1] > 10 * values[-2]
    assert abs(vectors[:, -1] @ w) / np.linalg.norm(w) > 0.99
    linear = LinearRegression().fit(samples, samples @ w).coef_
    assert abs(vectors[:, -1] @ linear) / np.linalg.norm(linear) > 0.99


def test_neighbours_predict_better_in_the_learnt_metric():
    samples, y = make_friedman1(600, n_features=20, noise=0.5, random_state=0)
    knn = KNeighborsRegressor(7, weights="distance")
    plain, found, soft = (
        cross_val_score(make_pipeline(*steps), samples, y, cv=3).mean()
        for steps in (
            (StandardScaler(), knn),
            (TATMLRegression(random_state=0), knn),
            (TATMLRegression(random_state=0), SoftNeighborsRegressor()),
        )
    )
    assert found > plain + 0.2
    assert soft > plain + 0.2


def test_matrices_and_several_blocks_are_samples():
    blocks = Blocks(X.reshape(N, 2, 2), X[:, :3])
    model = TATMLRegression(n_components=[1, 2], **FEW).fit(blocks, Z)
    assert [A.shape for A in model.components_] == [(1, 2), (2, 3)]
    assert model.transform(blocks).shape == (N, 4)
    found = TATMLRegression(preprocessor=X, **FEW).fit(np.arange(N)[::-1], Z[::-1])
    assert_array_equal(
        found.transform(X), TATMLRegression(**FEW).fit(X[::-1], Z[::-1]).transform(X)
    )


def test_estimators_of_classes_name_the_estimator_of_numbers():
    with pytest.raises(
        ValueError, match=r"^y: expected classes .*, take TATMLRegression \(Unknown"
    ):
        TATML().fit(X, Z)
    with pytest.warns(UserWarning, match="of a regression, take TATMLRegression, or divide"):
        class_labels(TATML(), np.arange(N), N)


def test_a_precomputed_kernel_is_refused():
    with pytest.raises(ValueError, match="kernel: expected a kernel of the samples"):
        TATMLRegression(kernel="precomputed").fit(X @ X.T, Z)


# The study


def test_the_study_judges_on_samples_that_are_not_learnt_from():
    study = import_benchmark("regression_study")
    choosing, confirming = map(set, study.HALVES.values())
    assert len(choosing | confirming) == len(choosing) + len(confirming) >= 20
    samples, y = make_friedman1(1000, random_state=0)
    linear, _ = study.scores(LinearRegression(), samples, samples @ np.arange(10.0), 2)
    assert linear == pytest.approx(1.0)
    nearest, _ = study.scores(KNeighborsRegressor(1), samples, RNG.normal(size=1000), 2)
    assert nearest < 0  # 1 on the training samples
    found = study.Slices().fit(samples, y).metric_
    labels = np.argsort(np.argsort(y)) // 100
    assert_array_equal(found.components_, TATML(random_state=0).fit(samples, labels).components_)


def test_the_comparisons_of_the_study_are_drawn_by_distance_and_rank():
    study, ranks = import_benchmark("regression_study"), rankdata(Z) / N
    model = study.Comparisons(near=0.3, far=0.2, gap=0.1, k=4, rounds=1).fit(X, Z)
    space = model.prior_.transform(X) / model.unit_
    triplets, weights = model.draw(space, ranks)
    a, b, c = triplets.T
    near, far = np.abs(ranks[a] - ranks[b]), np.abs(ranks[a] - ranks[c])
    assert np.all(far > np.maximum(0.2, near + 0.1))
    assert_allclose(weights, far - near)
    distances = np.linalg.norm(space - space[5], axis=1)
    targets = [row for row in np.argsort(distances) if 0 < abs(ranks[row] - ranks[5]) < 0.3][:4]
    assert set(b[a == 5]) == set(targets)

    def loss(Q):
        squared = [np.sum((Q[a] - Q[other]) ** 2, axis=1) for other in (b, c)]
        return weights @ np.maximum(0, 1 + squared[0] - squared[1]) ** 2

    assert loss(model.transform(X)) < 0.9 * loss(space)  # less than that of the prior


def test_the_confirming_half_of_the_study_needs_an_issue(capsys, monkeypatch):
    study = import_benchmark("regression_study")
    monkeypatch.setattr("sys.argv", ["regression_study.py", "--half", "confirming"])
    with pytest.raises(SystemExit):
        study.main()
    assert "--half confirming: expected --issue N" in capsys.readouterr().err


def test_a_loss_of_ones_own_is_taken():
    class Logistic(CustomLoss):
        def value(self, a):
            return np.logaddexp(0, a)

        def slope(self, a):
            return expit(a)

        def curvature(self, a):
            return expit(a) * expit(-a)

        def conjugate(self, slope):
            return xlogy(slope, slope) + xlogy(1 - slope, 1 - slope)

    X, y = load_diabetes(return_X_y=True)
    own, built_in = (
        TATMLRegression(loss=loss, random_state=0, tol=1e-9).fit(X, y)
        for loss in (Logistic(), "logistic")
    )
    assert_allclose(
        own.pair_distance(own.pairs_, X), built_in.pair_distance(own.pairs_, X), rtol=1e-6
    )
    assert own.b0_ == pytest.approx(built_in.b0_, rel=1e-6)
