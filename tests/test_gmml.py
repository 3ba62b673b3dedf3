"""GMML: the closed form minimises its objective, and units do not matter."""

import numpy as np
import pytest
from estimators_helpers import (
    KINDS,
    all_pairs,
    arrays_of,
    as_list,
    assert_best_threshold,
    balanced_weights,
    labelled,
    neighbours_and_predictions,
    refused,
    squared_distances,
    times,
)
from helpers import random_spd, symmetric
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm, fractional_matrix_power
from sklearn.utils.estimator_checks import check_estimator

from tatml import GMML, Blocks

FEW = {"n_pairs_per_class": 40, "random_state": 0}
TINY = FEW | {"regularization": 1e-13}
PRIORS = ("auto", "diagonal", "scaled", "identity", "covariance", "within")


def matrices(gmml):
    """Return W_m of each block, from the components."""
    return [len(as_list(gmml.components_)) * A.T @ A for A in as_list(gmml.components_)]


def scatter(gmml, X, similar):
    """Return the mean of ΔΔᵀ over the pairs of one kind, for each block, by loops."""
    pairs = gmml.pairs_[gmml.similar_ == similar]
    return [
        sum((array[i] - array[j]) @ (array[i] - array[j]).T for i, j in pairs) / len(pairs)
        for array in arrays_of(X)
    ]


def parts(gmml, X):
    """Yield (W, S, D, W0) of each block."""
    prior = as_list(gmml.prior_)
    return zip(matrices(gmml), scatter(gmml, X, True), scatter(gmml, X, False), prior, strict=True)


def factor_between(A, B):
    """Return κ with A = κ B; fail if there is none."""
    kappa = np.sum(A * B) / np.sum(B * B)
    assert_allclose(A, kappa * B, atol=1e-7 * np.abs(A).max(), rtol=0)
    return kappa


# The closed form


@pytest.mark.parametrize("kind", KINDS)
def test_the_midpoint_solves_the_riccati_equation(kind):
    """W S W = κ D, the first-order condition of tr(WS) + κ tr(W⁻¹D).

    In coordinates x → Cᵀx with CCᵀ = W0, the prior is the identity: W S W = κ W0 D W0.
    """
    X, y = labelled(kind)
    for prior in PRIORS:
        for W, S, D, W0 in parts(GMML(prior=prior, **TINY).fit(X, y), X):
            assert factor_between(W @ S @ W, W0 @ D @ W0) > 0, prior
            if prior in ("identity", "scaled"):
                assert factor_between(W @ S @ W, D) > 0, prior


@pytest.mark.parametrize("kind", KINDS)
def test_the_midpoint_minimises_the_two_traces(kind):
    """Among all matrices of the same scale, tr(WS) + κ tr(W⁻¹D) is least at W."""
    X, y = labelled(kind)
    gmml, rng = GMML(prior="identity", **TINY).fit(X, y), np.random.default_rng(0)
    for W, S, D, _ in parts(gmml, X):
        kappa = factor_between(W @ S @ W, D)

        def traces(V, S=S, D=D, kappa=kappa):
            return np.trace(V @ S) + kappa * np.trace(np.linalg.solve(V, D))

        least, L = traces(W), np.linalg.cholesky(W)
        for size in (1e-3, 0.1, 1.0):
            for _ in range(5):
                move = expm(size * symmetric(rng.normal(size=W.shape)))
                assert traces(symmetric(L @ move @ L.T)) > least


@pytest.mark.parametrize("kind", ["vectors", "three blocks"])
def test_the_ends_are_the_two_scatters(kind):
    X, y = labelled(kind)
    for W, S, _, _ in parts(GMML(0, prior="identity", **TINY).fit(X, y), X):
        assert factor_between(W, np.linalg.inv(S)) > 0
    for W, _, D, _ in parts(GMML(1, prior="identity", **TINY).fit(X, y), X):
        assert factor_between(W, D) > 0


@pytest.mark.parametrize(("prior", "t"), [("identity", 0.3), ("within", 0.9), ("within", 0.0)])
def test_the_metric_lies_on_the_geodesic(prior, t):
    """S⁻¹ #_t D = S^{-1/2} (S^{1/2} D S^{1/2})^t S^{-1/2}, with scipy's matrix powers."""
    X, y = labelled("two blocks")
    for W, S, D, W0 in parts(GMML(t, prior=prior, **TINY).fit(X, y), X):
        C = np.linalg.cholesky(W0)
        S, D = C.T @ S @ C, C.T @ D @ C
        root = fractional_matrix_power(S, 0.5)
        inverse = np.linalg.inv(root)
        point = inverse @ fractional_matrix_power(root @ D @ root, t) @ inverse
        assert factor_between(W, C @ point @ C.T) > 0


def test_between_two_points_of_the_geodesic_lies_their_mean():
    """Z = V # W solves Z V⁻¹ Z = W, for the points at t = 0.2, 0.4 and 0.6."""
    X, y = labelled()
    V, Z, W = (matrices(GMML(t, **TINY).fit(X, y))[0] for t in (0.2, 0.4, 0.6))
    assert factor_between(Z @ np.linalg.solve(V, Z), W) > 0


@pytest.mark.parametrize("prior", ["identity", "diagonal"])
def test_regularisation_adds_the_inverse_prior_to_both(prior):
    X, y = labelled("two blocks")
    for regularization in (1e-3, 0.1, 5.0):
        options = FEW | {"prior": prior, "regularization": regularization}
        for W, S, D, W0 in parts(GMML(**options).fit(X, y), X):
            size = np.sum(W0 * (S + D)) / 2
            ridge = regularization * size / len(W0) * np.linalg.inv(W0)
            assert factor_between(W @ (S + ridge) @ W, W0 @ (D + ridge) @ W0) > 0


def test_much_regularisation_gives_back_the_prior():
    X, y = labelled()
    gmml = GMML(regularization=1e9, prior="within", **FEW).fit(X, y)
    assert_allclose(matrices(gmml)[0], gmml.prior_, rtol=1e-6, atol=1e-6)


# Scale and units


@pytest.mark.parametrize(
    ("kind", "strategy", "prior"),
    [
        ("vectors", "random", "within"),
        ("matrices", "neighbors", "auto"),
        ("two blocks", "all", "identity"),
        ("three blocks", "all", "within"),
    ],
)
def test_the_mean_squared_distance_is_one_in_each_block(kind, strategy, prior):
    """Similar and dissimilar pairs have the same total weight, whatever their numbers."""
    X, y = labelled(kind)
    gmml = GMML(pairs=strategy, prior=prior, random_state=0).fit(X, y)
    weights = balanced_weights(gmml.similar_)
    for W, array in zip(matrices(gmml), arrays_of(X), strict=True):
        delta = array[gmml.pairs_[:, 0]] - array[gmml.pairs_[:, 1]]
        squared = np.einsum("kab,ac,kcb->k", delta, W, delta)
        assert_allclose(np.average(squared, weights=weights), 1, rtol=1e-9)
    squared = squared_distances(X, matrices(gmml), gmml.pairs_)
    assert_allclose(gmml.pair_distance(gmml.pairs_, X), np.sqrt(squared), rtol=1e-9)


UNITS = {
    "vectors, identity": ("vectors", "identity", 0.2, [1e3]),
    "features": ("vectors", "auto", 0.5, [np.array([1e-3, 7.0, 1e3, 0.3])]),
    "matrices": ("matrices", "auto", 0.2, [1e3]),
    "blocks": ("three blocks", "auto", 0.2, [1e-3, 1e3, 5.0]),
    "blocks, identity": ("three blocks", "identity", 0.5, [1e-3, 1e3, 5.0]),
}


@pytest.mark.parametrize("name", UNITS)
def test_units_change_neither_neighbours_nor_predictions(name):
    kind, prior, t, factors = UNITS[name]
    X, y = labelled(kind)
    model = GMML(t, prior=prior, random_state=0)
    plain = neighbours_and_predictions(model, X, y)
    scaled = neighbours_and_predictions(model, times(X, *factors), y)
    assert_array_equal(plain[0], scaled[0])
    assert_array_equal(plain[1], scaled[1])
    assert np.unique(plain[1]).tolist() == [-1, 1]


@pytest.mark.parametrize(("t", "regularization"), [(0.5, 1e-10), (0.8, 0.1)])
def test_with_the_covariance_as_prior_coordinates_do_not_matter(t, regularization):
    X, y = labelled()
    A = random_spd(np.random.default_rng(0), 4, spread=2.0) @ np.diag([1.0, -2.0, 30.0, 0.1])
    model = GMML(t, prior="covariance", **FEW | {"regularization": regularization})
    plain = model.fit(X, y).pair_distance(all_pairs(60), X)
    threshold = model.threshold_
    assert_allclose(model.fit(X @ A, y).pair_distance(all_pairs(60), X @ A), plain, rtol=1e-6)
    assert_allclose(model.threshold_, threshold, rtol=1e-6)


def test_the_scatter_of_similar_pairs_alone_needs_no_prior():
    """t = 0 is S⁻¹, which follows every change of coordinates by itself."""
    X, y = labelled()
    A = random_spd(np.random.default_rng(1), 4, spread=1.0)
    plain, turned = (
        GMML(0.0, prior="identity", **TINY).fit(Z, y).pair_distance(all_pairs(60), Z)
        for Z in (X, X @ A)
    )
    assert_allclose(turned, plain, rtol=1e-6)


# What it shares with TATML


@pytest.mark.parametrize("kind", ["vectors", "two blocks"])
def test_the_threshold_is_the_best_for_the_distances(kind):
    X, y = labelled(kind)
    options = {"margin": (0.6, 1.8), "threshold_strength": 0.4, "threshold_prior": 1.3}
    assert_best_threshold(GMML(pairs="neighbors", **options).fit(X, y), X)


def test_no_pair_joins_two_samples_of_a_group():
    X, y = labelled()
    groups = np.arange(60) // 6
    free, grouped = (
        GMML(n_pairs_per_class=60, random_state=0).fit(X, y, groups=given).pairs_
        for given in (None, groups)
    )
    assert np.any(groups[free[:, 0]] == groups[free[:, 1]])
    assert np.all(groups[grouped[:, 0]] != groups[grouped[:, 1]])


def test_fewer_samples_than_features_are_enough():
    rng = np.random.default_rng(0)
    y = np.arange(12) % 2
    X = rng.normal(size=(12, 40)) + 2 * y[:, None]
    X[:, 3] = 1.0  # constant
    for t in (0.0, 0.5, 1.0):
        gmml = GMML(t, random_state=0).fit(X, y)
        assert np.all(np.linalg.eigvalsh(matrices(gmml)[0]) > 0)
        similar = y[:, None] == y
        distances = gmml.pair_distance(all_pairs(12), X)
        kind = similar[tuple(all_pairs(12).T)]
        assert distances[kind].mean() < distances[~kind].mean()


def test_fewer_components_are_the_leading_ones():
    X, y = labelled("two blocks")
    full, reduced = GMML(**FEW).fit(X, y), GMML(**FEW, n_components=[2, 3]).fit(X, y)
    assert [A.shape for A in reduced.components_] == [(2, 3), (3, 4)]
    longest = full.pair_distance(all_pairs(60), X) * (1 + 1e-12)
    assert np.all(reduced.pair_distance(all_pairs(60), X) <= longest)


def test_the_checks_of_scikit_learn():
    results = check_estimator(GMML(), on_fail=None, on_skip=None)
    assert sum(result["status"] == "passed" for result in results) > 40
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_identical_samples_are_named():
    X, y = labelled("two blocks")
    constant = Blocks(X.arrays[0], np.ones((60, 2)))
    for prior in ("auto", "identity"):
        refused(GMML(prior=prior), np.ones((12, 2)), np.arange(12) % 2, "X: expected .* differ")
        refused(GMML(prior=prior), constant, y, "X: expected .* differ in block 1")
