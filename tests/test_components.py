"""Principal components as the space of a prior, where there are more columns than samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from tatml import TATML, Blocks, TATMLPairs
from tatml._learning import cross_fit
from tatml._learning.prepare import midpoint_prior_from_samples, prior_from_samples
from tatml._learning.priors import OUTSIDE_COMPONENTS, UNITS, within_classes

LABELS = np.arange(24) % 3
PAIRS = np.stack(np.triu_indices(24, 1), axis=1)


def wide_samples(n_columns=60, seed=0):
    """Return samples near a space of five dimensions, with columns in different units."""
    rng = np.random.default_rng(seed)
    inside = rng.normal(size=(24, 5)) + 2 * rng.normal(size=(3, 5))[LABELS]
    X = inside @ rng.normal(size=(5, n_columns)) + 0.3 * rng.normal(size=(24, n_columns))
    return X * 10.0 ** rng.uniform(-1, 1, n_columns) + 5


def components(X):
    return PCA(0.95, svd_solver="full").fit_transform(StandardScaler().fit_transform(X))


def q_of_prior(factors, rows):
    """Return the squared distances of all pairs after a linear map."""
    found = np.stack([A @ (rows[PAIRS[:, 0]] - rows[PAIRS[:, 1]]).T for A in factors])
    return np.sum(found**2, axis=(0, 1))


@pytest.mark.parametrize("kind", ["discriminant", "within"])
def test_distances_of_the_prior_are_those_of_the_components(kind):
    """Up to the scale, and to the little that lies outside: with less there, they agree better."""
    X = wide_samples()
    Z = components(X)
    assert Z.shape[1] < 15
    errors = []
    for outside in (OUTSIDE_COMPONENTS, OUTSIDE_COMPONENTS / 1000):
        cross = pytest.MonkeyPatch()
        cross.setattr("tatml._learning.priors.OUTSIDE_COMPONENTS", outside)
        distances = []
        for table, units in ((X, "components"), (Z, "common")):
            blocks = Blocks(table)
            within = within_classes(blocks, LABELS, units)
            factors = prior_from_samples(kind, blocks, within).own_factors()
            distances.append(q_of_prior(factors, table))
        cross.undo()
        ratio = distances[0] / distances[1]
        errors.append(np.max(np.abs(ratio / ratio.mean() - 1)))
    assert errors[0] < 0.2
    assert errors[1] < 1e-4


@pytest.mark.parametrize("new_classes", [False, True])
def test_midpoints_of_the_prior_are_those_of_the_components(new_classes, monkeypatch):
    monkeypatch.setattr("tatml._learning.priors.OUTSIDE_COMPONENTS", 1e-6)
    X, found = wide_samples(), []
    Z = components(X)
    for table, units in ((X, "components"), (Z, "common")):
        blocks = Blocks(table)
        within = within_classes(blocks, LABELS, units)
        prior = midpoint_prior_from_samples(blocks, within, new_classes)
        (A, R), centred = prior.own_factors(), table - table.mean(axis=0)
        sums = centred[PAIRS[:, 0]] + centred[PAIRS[:, 1]]
        score = np.sum((R @ sums.T) ** 2, axis=0) - q_of_prior([A], centred)
        found.append(prior.log_ratio + score)
    # The smaller matrix is 1e-6 of the least weight outside the components.
    assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-3 * np.std(found[1]))


def test_sparse_samples_have_the_prior_of_dense_ones():
    X = np.where(np.random.default_rng(0).random((24, 60)) < 0.5, 0.0, wide_samples())
    models = []
    for table in (X, csr_array(X)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cross_fit, "find_units", lambda *_: (1.0, "components"))
            models.append(TATML(random_state=0, clip_outliers=False).fit(table, LABELS))
    assert_allclose(
        models[1].pair_distance(PAIRS, csr_array(X)), models[0].pair_distance(PAIRS, X), rtol=1e-6
    )
    assert models[0].prior_units_ == "components"
    assert min(np.linalg.eigvalsh(models[0].get_mahalanobis_matrix())) > 0
    assert models[0].result_.converged


def tried(model, *arguments):
    """Return the units that a fit tries."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        area_of_prior = cross_fit._area_of_prior

        def area(settings, units, part):
            seen.append(units)
            return area_of_prior(settings, units, part)

        patch.setattr(cross_fit, "_area_of_prior", area)
        model.fit(*arguments)
    return set(seen)


def test_components_are_tried_where_columns_are_more_than_samples():
    X = wide_samples()
    assert tried(TATML(random_state=0), X, LABELS) == set(UNITS) - {"affine"}
    assert tried(TATML(random_state=0), X[:, :16], LABELS) == {"columns", "common"}
    blocks = Blocks(X[:, :3], X)
    assert tried(TATML(random_state=0), blocks, LABELS) == set(UNITS) - {"affine"}
    signs = np.where(LABELS[PAIRS[:, 0]] == LABELS[PAIRS[:, 1]], 1, -1)
    assert "components" in tried(TATMLPairs(preprocessor=X), PAIRS, signs)


@pytest.mark.parametrize("midpoint", [False, True])
def test_components_are_chosen_where_they_order_held_out_pairs_better(midpoint):
    """Five factors, two of which tell classes apart, are in all of 300 columns with much noise."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    factors = rng.normal(size=(400, 5)) * [4, 4, 4, 1, 1]
    factors[:, 3:] += 2.5 * rng.normal(size=(4, 2))[y]
    X = factors @ rng.normal(size=(5, 300)) + 2 * rng.normal(size=(400, 300))
    known, new = np.arange(80), np.arange(80, 400)
    model = TATML(midpoint=midpoint, random_state=0).fit(X[known], y[known])
    assert model.prior_units_ == "components"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_fit, "is_wide", lambda array: False)
        other = TATML(midpoint=midpoint, random_state=0).fit(X[known], y[known])
    assert other.prior_units_ != "components"
    pairs = rng.permutation(np.stack(np.triu_indices(len(new), 1), axis=1))[:5000]
    same = y[new][pairs[:, 0]] == y[new][pairs[:, 1]]
    areas = [roc_auc_score(same, m.pair_score(pairs, X[new])) for m in (model, other)]
    assert areas[0] > areas[1] + 0.01


@pytest.mark.parametrize(("area", "chosen"), [(0.904, "common"), (0.906, "components")])
def test_components_must_be_clearly_better(area, chosen, monkeypatch):
    areas = {"columns": 0.8, "common": 0.9, "components": area}
    monkeypatch.setattr(cross_fit, "_area_of_prior", lambda settings, units, part: areas[units])
    model = TATML(random_state=0).fit(wide_samples(), LABELS)
    assert model.prior_units_ == chosen


def test_units_and_origins_of_the_columns_do_not_matter():
    X = wide_samples()
    rng = np.random.default_rng(1)
    scale, shift = 2.0 ** rng.integers(-8, 8, 60), rng.integers(-50, 50, 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_fit, "find_units", lambda *_: (1.0, "components"))
        models = [TATML(random_state=0).fit(Z, LABELS) for Z in (X, X * scale + shift)]
    expected = models[0].pair_distance(PAIRS, X)
    found = models[1].pair_distance(PAIRS, X * scale + shift)
    assert_allclose(found, expected, rtol=1e-5)
    with_constants = np.column_stack([X, np.full((24, 3), 7.0)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_fit, "find_units", lambda *_: (1.0, "components"))
        padded = TATML(random_state=0).fit(with_constants, LABELS)
    assert_allclose(padded.pair_distance(PAIRS, with_constants), expected, rtol=1e-6)
    assert_array_equal(padded.pairs_, models[0].pairs_)
