"""Named priors: their definitions, scale and equivariance."""

from itertools import product

import numpy as np
import pytest
from estimators_helpers import JOINT
from helpers import SHAPES, random_spd
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf

from tatml import TATML, Blocks, TATMLPairs
from tatml._learning.priors import PRIORS, UNITS, WithinClasses, make_prior

SCALED = [kind for kind in PRIORS if kind != "identity"]
SHRUNK = ("within", "discriminant")
N_SAMPLES, N_CLASSES = 30, 3
LABELS = np.arange(N_SAMPLES) % N_CLASSES
PAIRS = np.array([(i, (i * 7 + step) % N_SAMPLES) for i in range(N_SAMPLES) for step in (4, 11)])
PAIRS = PAIRS[PAIRS[:, 0] != PAIRS[:, 1]]


@pytest.fixture(params=["vectors", "wide", "three ragged"])
def arrays(request):
    return random_arrays(SHAPES[request.param])


@pytest.fixture(params=["vectors", "three ragged"])
def few_arrays(request):
    return random_arrays(SHAPES[request.param])


def close(got, expected, kind, rtol=1e-7, atol=1e-11):
    """Compare matrices up to rounding errors, relative to the largest entry."""
    assert_allclose(got, expected, rtol=rtol, atol=atol * np.max(expected), err_msg=kind)


def random_arrays(shapes, seed=0):
    """Return correlated features with different units and means, and classes that differ."""
    rng = np.random.default_rng(seed)
    arrays = []
    for n, width in shapes:
        mixed = np.einsum("ij,kjl->kil", random_spd(rng, n), rng.normal(size=(N_SAMPLES, n, width)))
        centres = rng.normal(size=(N_CLASSES, n, width))[LABELS]
        units = 10.0 ** rng.uniform(-1, 1, size=(n, 1))
        arrays.append((mixed + centres + 5 * rng.normal(size=(n, width))) * units)
    return arrays


def pair_scatter(array):
    """Return the mean of ΔΔᵀ over the pairs."""
    differences = [array[i] - array[j] for i, j in PAIRS]
    return sum(difference @ difference.T for difference in differences) / len(PAIRS)


def deviations_of(array):
    """Return the columns of all samples minus the mean of their class, as rows."""
    return np.concatenate(
        [(array[i] - array[label == LABELS].mean(axis=0)).T for i, label in enumerate(LABELS)]
    )


def prior(kind, arrays, units="columns"):
    scatter = [pair_scatter(array) for array in arrays]
    within = WithinClasses([deviations_of(array) for array in arrays], units)
    return make_prior(kind, Blocks(*arrays), scatter, within)


def left_times(B, array):
    """Return B times every matrix."""
    return np.array([B @ matrix for matrix in array])


# Definitions


def covariance(array):
    mean = sum(array) / len(array)
    total = sum((matrix - mean) @ (matrix - mean).T for matrix in array)
    return total / (len(array) * array.shape[2])


def ledoit_wolf_by_hand(rows, width=1):
    """Shrunk towards a multiple of the identity, as their paper of 2004 defines it.

    The `width` rows of one sample are one observation.
    """
    n, samples = rows.shape[1], rows.reshape(-1, width, rows.shape[1])
    scatters = [sample.T @ sample / width for sample in samples]
    scatter = sum(scatters) / len(samples)
    target = np.trace(scatter) / n * np.eye(n)
    distance = np.sum((scatter - target) ** 2)
    noise = sum(np.sum((one - scatter) ** 2) for one in scatters) / len(samples) ** 2
    share = min(noise, distance) / distance if distance > 0 else 0.0
    return share * target + (1 - share) * scatter


def scatter_in_units(rows, unit, units, width=1):
    """Return the scatter within classes, shrunk after a division by the units."""
    scaled = rows / unit
    shrunk = scaled.T @ scaled / len(rows)
    if units != "affine":
        shrunk = ledoit_wolf_by_hand(scaled, width)
    return np.diag(unit) @ shrunk @ np.diag(unit)


def unit_by_hand(array, units):
    """Return the spread of each row within classes, or their root mean square."""
    spread = np.sqrt(np.mean(deviations_of(array) ** 2, axis=0))
    spread = np.maximum(spread, 0.1 * np.sqrt(np.diagonal(covariance(array))))
    return spread if units != "common" else np.full_like(spread, np.sqrt(np.mean(spread**2)))


def components_by_hand(kind, array):
    """Return the prior of the principal components of standardised rows, 0.01 of it outside."""
    unit = np.sqrt(np.diagonal(covariance(array)))
    scaled = left_times(np.diag(1 / unit), array)
    variances, axes = np.linalg.eigh(covariance(scaled))
    lost = np.cumsum(variances) / np.sum(variances)  # of the components up to each
    axes = axes[:, lost > 0.05]
    inside = shape_by_hand(kind, left_times(axes.T, scaled), "common")
    rest = np.eye(len(unit)) - axes @ axes.T
    W0 = axes @ inside @ axes.T + 0.01 * np.linalg.eigvalsh(inside)[0] * rest
    return W0 / unit / unit[:, None]


def shape_by_hand(kind, array, units="columns"):
    """Return W0 up to its scale."""
    S = pair_scatter(array)
    if kind == "auto":
        kind = "diagonal" if array.shape[2] == 1 else "scaled"
    if kind in ("identity", "scaled"):
        return np.eye(len(S))
    if kind == "diagonal":
        return np.diag([1 / S[i, i] for i in range(len(S))])
    if kind == "covariance":
        return np.linalg.inv(covariance(array))
    if units == "components":
        return components_by_hand(kind, array)
    unit, deviations = unit_by_hand(array, units), deviations_of(array)
    within = scatter_in_units(deviations, unit, units, array.shape[2])
    between = covariance(array) - deviations.T @ deviations / len(deviations)
    if kind == "within":
        return np.linalg.inv(raised(within, within + between, array))
    within += 1e-6 * np.diag(unit**2)
    total = within + between
    return 1.05 * np.linalg.inv(raised(within, total, array)) - np.linalg.inv(total)


def raised(within, total, array):
    """Return the scatter within classes, with its least share of the total along every axis."""
    values, vectors = np.linalg.eigh(total)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse_root = (vectors / np.sqrt(values)) @ vectors.T
    shares, axes = np.linalg.eigh(inverse_root @ within @ inverse_root)
    centred = array - array.mean(axis=0)
    least = []
    for axis in (inverse_root @ axes).T:
        q = [np.sum((axis @ matrix) ** 2) for matrix in centred]
        least.append(max(0.01, sum(value**2 for value in q) / sum(q) ** 2 / 3))
    return root @ (axes * np.maximum(shares, least)) @ axes.T @ root


def test_each_prior_has_its_definition_and_a_mean_squared_distance_of_one(arrays):
    named = [(kind, "columns") for kind in PRIORS]
    for kind, units in named + list(product(SHRUNK, ("common", "affine"))):
        for W0, array in zip(prior(kind, arrays, units), arrays, strict=True):
            expected = shape_by_hand(kind, array, units)
            if kind != "identity":
                expected = expected / np.trace(expected @ pair_scatter(array))
                delta = array[PAIRS[:, 0]] - array[PAIRS[:, 1]]
                squared = np.einsum("kab,ac,kcb->k", delta, W0, delta)
                assert_allclose(np.mean(squared), 1, rtol=1e-12, err_msg=kind)
            close(W0, expected, kind, atol=1e-12)
            assert_allclose(W0, W0.T, rtol=1e-12, err_msg=kind)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", SHRUNK)
def test_a_column_that_hardly_varies_within_classes_does_not_outweigh_all_others(kind, units):
    """Of the first kind of column S/T is 0.01, of the second 1/3: one sample differs."""
    array = random_arrays([(4, 1)])[0]
    for column, share in ((7.0 * (LABELS == 1), 0.01), (7.0 * (np.arange(N_SAMPLES) == 4), 1 / 3)):
        array[:, 3, 0] = column
        rows = deviations_of(array)
        if share > 0.1:  # as in pairs, of which no similar one moves the column
            rows[:, 3] = 0.0
        scatter = pair_scatter(array)
        W0 = make_prior(kind, Blocks(array), [scatter], WithinClasses([rows], units))[0]
        weight = W0[3, 3] * np.var(column) / np.trace(W0 @ covariance(array))
        assert weight < (0.99 if share < 0.1 else 0.6), share
        if share < 0.1:
            expected = shape_by_hand(kind, array, units)
            atol = 1e-9 if units != "components" else 1e-5  # 1e-6 is added in other units
            close(W0, expected / np.trace(expected @ scatter), kind, atol=atol)


def test_the_priors_differ():
    """Otherwise these tests could not tell one from another."""
    arrays = random_arrays([(4, 1)])
    kinds = [prior(kind, arrays)[0] for kind in PRIORS if kind != "auto"]
    kinds += [prior(kind, arrays, units)[0] for kind in SHRUNK for units in ("common", "affine")]
    for m, one in enumerate(kinds):
        for other in kinds[:m]:
            assert np.max(np.abs(one - other)) > 0.01 * np.max(np.abs(other))


# Shrinkage


def test_the_scatter_of_vectors_is_shrunk_as_by_scikit_learn():
    """Its definition for matrices counts samples: repeated columns change nothing."""
    (array,) = random_arrays([(5, 1)])
    deviations, unit = deviations_of(array), unit_by_hand(array, "columns")
    expected, share = ledoit_wolf(deviations / unit, assume_centered=True)
    assert 0.05 < share < 0.95
    inverse = np.linalg.inv(prior("within", [array])[0]) / unit / unit[:, None]
    close(inverse / np.trace(inverse), expected / np.trace(expected), "vectors")
    repeated = np.repeat(array, 7, axis=2)
    for kind, units in product(SHRUNK, UNITS):
        (W0,), (wide,) = prior(kind, [array], units), prior(kind, [repeated], units)
        close(7 * wide, W0, f"{kind} {units}", atol=1e-9)


def test_more_columns_of_noise_are_not_more_samples():
    """With three samples of 100 columns each, the shrinkage is that of three observations."""
    rng = np.random.default_rng(0)
    array = rng.normal(size=(N_SAMPLES, 20, 1)) + 0.01 * rng.normal(size=(N_SAMPLES, 20, 100))
    unit = unit_by_hand(array, "columns")
    scaled = deviations_of(array) / unit
    columns = ledoit_wolf_by_hand(scaled)
    samples = ledoit_wolf_by_hand(scaled, 100)
    off = ~np.eye(20, dtype=bool)
    assert np.abs(samples[off]).max() < 0.7 * np.abs(columns[off]).max()
    (W0,) = prior("within", [array])
    expected = np.linalg.inv(np.diag(unit) @ samples @ np.diag(unit))
    close(W0 / np.trace(W0), expected / np.trace(expected), "matrices")


# What the units of the scatter leave unchanged


def distances(W, arrays):
    """Return the squared distances of the pairs in each block."""
    deltas = [array[PAIRS[:, 0]] - array[PAIRS[:, 1]] for array in arrays]
    return [np.einsum("kab,ac,kcb->k", d, W0, d) for W0, d in zip(W, deltas, strict=True)]


def random_maps(arrays, units, rng):
    """Return maps of the rows that must not change distances in these units."""
    maps = []
    for n in (array.shape[1] for array in arrays):
        turned = np.linalg.qr(rng.normal(size=(n, n)))[0]
        scales = 10.0 ** rng.uniform(-2, 2, size=n)
        general = turned * np.linspace(0.5, 2, n)
        of_columns = dict.fromkeys(("columns", "components"), np.diag(scales))
        maps.append((of_columns | {"common": 3 * turned, "affine": general})[units])
    return maps


@pytest.mark.parametrize("units", UNITS)
def test_units_say_which_maps_of_the_samples_do_not_matter(units, arrays):
    """Scales of the columns; rotations; every invertible map."""
    rng = np.random.default_rng(4)
    for kind in SHRUNK:
        changes = {}
        for other in UNITS:
            maps = random_maps(arrays, other, rng)
            moved = [left_times(B, array) for B, array in zip(maps, arrays, strict=True)]
            before = distances(prior(kind, arrays, units), arrays)
            after = distances(prior(kind, moved, units), moved)
            parts = zip(before, after, strict=True)
            changes[other] = max(np.max(np.abs(b / a - 1)) for a, b in parts)
        if units != "affine":
            same = {units} if units == "common" else {"columns", "components"}
            assert all(changes[other] < 1e-8 for other in same), changes
            assert all(changes[other] > 1e-3 for other in set(UNITS) - same), changes
        else:  # "discriminant" adds 1e-6 to the scatter of each column, in units of its spread
            limit = 1e-8 if kind == "within" else 5e-3
            assert max(changes.values()) < limit, changes


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6 / 3, "rounding"])
def test_columns_that_do_not_vary_do_not_matter(value):
    rng = np.random.default_rng(0)
    arrays = random_arrays([(4, 1), (3, 2)])
    padded = []
    for array in arrays:
        shape = (N_SAMPLES, 2, array.shape[2])
        extra = 1e-15 * rng.normal(size=shape) if value == "rounding" else np.full(shape, value)
        padded.append(np.concatenate([extra[:, :1], array, extra[:, 1:]], axis=1))
    for kind, units in product(SHRUNK, UNITS):
        with_them, without = prior(kind, padded, units), prior(kind, arrays, units)
        for W0, expected in zip(with_them, without, strict=True):
            close(W0[1:-1, 1:-1], expected, f"{kind} {units}", rtol=1e-9)
            assert np.all(np.linalg.eigvalsh(W0) > 0)
        found = zip(distances(with_them, padded), distances(without, arrays), strict=True)
        for got, expected in found:
            assert_allclose(got, expected, rtol=1e-8)


# Equivariance


@pytest.mark.parametrize(("kind", "scale"), list(product(SCALED, (1e-8, 1e9))))
def test_the_unit_of_a_block_does_not_matter(arrays, kind, scale):
    plain, scaled = prior(kind, arrays), prior(kind, [scale * array for array in arrays])
    for W0, changed in zip(plain, scaled, strict=True):
        close(changed * scale**2, W0, f"{kind}, {scale}")


def test_the_unit_of_a_feature_does_not_matter(arrays):
    rng = np.random.default_rng(1)
    units = [10.0 ** rng.uniform(-3, 3, size=array.shape[1]) for array in arrays]
    changed = [left_times(np.diag(D), array) for D, array in zip(units, arrays, strict=True)]
    for kind in ("diagonal", "covariance", "within", "discriminant"):
        for W0, other, D in zip(prior(kind, arrays), prior(kind, changed), units, strict=True):
            close(other * np.outer(D, D), W0, kind)


def test_auto_undoes_the_unit_of_a_feature_of_vectors_only():
    arrays = random_arrays(SHAPES["three ragged"])
    units = [np.linspace(1, 10, array.shape[1]) for array in arrays]
    changed = [left_times(np.diag(D), array) for D, array in zip(units, arrays, strict=True)]
    for array, W0, other, D in zip(
        arrays, prior("auto", arrays), prior("auto", changed), units, strict=True
    ):
        undone = np.allclose(other * np.outer(D, D), W0, rtol=1e-9)
        assert undone == (array.shape[2] == 1)


def test_covariance_undoes_every_linear_map(few_arrays):
    arrays = few_arrays
    rng = np.random.default_rng(2)
    maps = [rng.normal(size=(len(a[0]), len(a[0]))) + 2 * np.eye(len(a[0])) for a in arrays]
    moved = [
        left_times(B, array) + rng.normal(size=array.shape[1:])
        for B, array in zip(maps, arrays, strict=True)
    ]
    for W0, other, B in zip(
        prior("covariance", arrays), prior("covariance", moved), maps, strict=True
    ):
        assert_allclose(B.T @ other @ B, W0, rtol=1e-7, atol=1e-9 * np.max(W0))


def test_scaled_rotates_with_the_samples(few_arrays):
    arrays = few_arrays
    rng = np.random.default_rng(3)
    turns = [np.linalg.qr(rng.normal(size=(len(a[0]), len(a[0]))))[0] for a in arrays]
    turned = [left_times(Q, array) for Q, array in zip(turns, arrays, strict=True)]
    for W0, other, Q in zip(prior("scaled", arrays), prior("scaled", turned), turns, strict=True):
        assert_allclose(other, Q @ W0 @ Q.T, rtol=1e-9, atol=1e-12 * np.max(W0))


def test_the_origin_does_not_matter(arrays):
    moved = [array + 1000 * np.std(array) for array in arrays]
    for kind in PRIORS:
        for W0, other in zip(prior(kind, arrays), prior(kind, moved), strict=True):
            close(other, W0, kind, rtol=1e-6, atol=1e-9)


def test_single_precision_is_computed_in_double():
    arrays = [array.astype(np.float32) for array in random_arrays([(4, 1), (3, 2)])]
    doubles = [array.astype(float) for array in arrays]
    scatter = list(map(pair_scatter, doubles))
    within = WithinClasses(list(map(deviations_of, doubles)))
    for kind in PRIORS:
        singles = make_prior(kind, Blocks(*arrays), scatter, within)
        for W0, other in zip(prior(kind, doubles), singles, strict=True):
            assert other.dtype == np.float64
            close(other, W0, kind, rtol=1e-4, atol=1e-6)


# Singular matrices


def test_a_singular_covariance_is_refused_with_its_rank():
    array = random_arrays([(5, 1)])[0]
    array[:, 3] = array[:, 0] + 2 * array[:, 1]
    array[:, 4] = 1e6 * array[:, 2]
    message = r"prior='covariance': the covariance of block 1 has rank 3, expected 5.*prior='auto'"
    with pytest.raises(ValueError, match=message):
        prior("covariance", [random_arrays([(2, 3)])[0], array])


def test_more_features_than_samples_are_refused_with_the_rank():
    array = np.random.default_rng(0).normal(size=(N_SAMPLES, 40, 1))
    with pytest.raises(ValueError, match=f"has rank {N_SAMPLES - 1}, expected 40"):
        prior("covariance", [array])


def test_a_covariance_that_is_only_badly_scaled_is_inverted():
    """Below 1e-13 of the largest, a spread counts as rounding errors."""
    units = np.array([1e-6, 1.0, 1e5])
    array = random_arrays([(3, 1)])[0]
    array *= units[:, None] / array.std(axis=0)
    (W0,) = prior("covariance", [array])
    product = W0 @ covariance(array)
    assert_allclose(
        product / np.outer(1 / units, units) * 3 / np.trace(product), np.eye(3), atol=1e-6
    )


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6 / 3])
def test_a_constant_feature_has_no_covariance_but_every_other_prior(value):
    array = random_arrays([(4, 1)])[0]
    array[:, 2] = value
    with pytest.raises(ValueError, match="has rank 3, expected 4"):
        prior("covariance", [array])
    rest = np.delete(np.arange(4), 2)
    for kind in ("auto", "diagonal", "scaled"):
        (W0,) = prior(kind, [array])
        (without,) = prior(kind, [array[:, rest]])
        assert_allclose(W0[np.ix_(rest, rest)], without, rtol=1e-9)
        assert without.min() >= 0
        assert 0 < W0[2, 2] <= np.max(np.diag(without))


def test_a_constant_feature_leaves_the_within_prior_definite():
    array = random_arrays([(4, 1)])[0]
    array[:, 2] = 0.1
    (W0,) = prior("within", [array])
    assert np.all(np.linalg.eigvalsh(W0) > 0)
    assert_allclose(np.sum(W0 * pair_scatter(array)), 1, rtol=1e-12)


def test_a_scatter_without_an_inverse_is_refused_with_its_rank():
    array = random_arrays([(3, 1)])[0]
    array[:, 2] = array[:, 1]  # their difference varies neither within classes nor in total
    with pytest.raises(ValueError, match="the within-class scatter of block 0 has rank 2"):
        prior("within", [array], "affine")


def test_only_the_identity_allows_a_constant_block():
    arrays = [random_arrays([(3, 1)])[0], np.full((N_SAMPLES, 2, 2), 0.1)]
    message = "X: expected pairs of samples that differ in block 1.*prior='identity'"
    for kind in SCALED:
        with pytest.raises(ValueError, match=message):
            prior(kind, arrays)
    assert [W0.tolist() for W0 in prior("identity", arrays)] == [
        np.eye(3).tolist(),
        np.eye(2).tolist(),
    ]


# In the estimators


def as_list(matrices, n_blocks):
    return [matrices] if n_blocks == 1 else matrices


def mean_squares(model, arrays, weights):
    """Return the mean squared distance of the pairs of a model under its prior, per block."""
    means = []
    for W0, array in zip(as_list(model.prior_, len(arrays)), arrays, strict=True):
        delta = array[model.pairs_[:, 0]] - array[model.pairs_[:, 1]]
        squared = np.einsum("kab,ac,kcb->k", delta, W0, delta)
        means.append(np.average(squared, weights=weights))
    return means


@pytest.mark.parametrize("kind", ["auto", "within", "discriminant"])
def test_label_estimators_scale_by_their_weighted_pairs(kind, few_arrays):
    arrays = few_arrays
    model = TATML(1.0, prior=kind, pairs="all", **JOINT).fit(Blocks(*arrays), LABELS)
    share = model.similar_.mean()
    assert share < 0.4
    weights = np.where(model.similar_, 1 / share, 1 / (1 - share))
    assert_allclose(mean_squares(model, arrays, weights), 1, rtol=1e-10)
    summed = clone(model).set_params(reduction="sum").fit(Blocks(*arrays), LABELS)
    assert_allclose(mean_squares(summed, arrays, None), 1, rtol=1e-10)


@pytest.mark.parametrize("kind", ["auto", "covariance", "discriminant"])
def test_pair_estimators_scale_by_the_weights_of_the_pairs(kind, few_arrays):
    arrays = few_arrays
    y = np.where(LABELS[PAIRS[:, 0]] == LABELS[PAIRS[:, 1]], 1, -1)
    y[:10] = 1
    weights = np.random.default_rng(0).uniform(0.1, 2, size=len(PAIRS))
    options = JOINT | {"prior": kind, "preprocessor": Blocks(*arrays)}
    plain = TATMLPairs(1.0, class_weight=None, **options).fit(PAIRS, y, weights)
    assert_allclose(mean_squares(plain, arrays, weights), 1, rtol=1e-10)
    even = TATMLPairs(1.0, **options).fit(PAIRS, y, weights)
    totals = {kind: weights[y == kind].sum() for kind in (-1, 1)}
    weights = weights / np.where(y == 1, totals[1], totals[-1])
    assert_allclose(mean_squares(even, arrays, weights), 1, rtol=1e-10)


def test_within_takes_the_classes_of_labels_and_the_similar_pairs_of_pairs():
    (array,) = random_arrays([(4, 1)])
    X = array[:, :, 0]
    y = np.where(LABELS[PAIRS[:, 0]] == LABELS[PAIRS[:, 1]], 1, -1)
    y[:10] = 1
    rows = {
        "labels": deviations_of(array),
        "pairs": np.array([X[i] - X[j] for i, j in PAIRS[y == 1]]) / np.sqrt(2),
    }
    models = {
        "labels": TATML(1.0, prior="within", random_state=0, **JOINT).fit(X, LABELS),
        "pairs": TATMLPairs(1.0, prior="within", **JOINT).fit(X[PAIRS], y),
    }
    for kind, model in models.items():
        found = X if kind == "labels" else X[PAIRS].reshape(-1, 4)
        differences = found[model.pairs_[:, 0]] - found[model.pairs_[:, 1]]
        n_similar = model.similar_.sum()
        weights = np.where(model.similar_, 1 / n_similar, 1 / (len(differences) - n_similar))
        S = differences.T @ (differences * weights[:, None]) / weights.sum()
        unit = np.sqrt(np.mean(rows[kind] ** 2, axis=0))
        if model.prior_units_ == "common":
            unit[:] = np.sqrt(np.mean(unit**2))
        expected = np.linalg.inv(scatter_in_units(rows[kind], unit, model.prior_units_))
        expected /= np.sum(expected * S)
        assert_allclose(model.prior_, expected, rtol=1e-7, atol=1e-10 * np.max(expected))


@pytest.mark.parametrize("kind", ["auto", "within", "discriminant"])
def test_units_change_neither_threshold_nor_distance(kind, few_arrays):
    arrays = few_arrays
    index = PAIRS[:20]
    one, other = (
        TATML(100.0, prior=kind, random_state=0, tol=1e-10).fit(X, LABELS)
        for X in (Blocks(*arrays), Blocks(*(1e5 * array for array in arrays)))
    )
    assert_allclose(other.threshold_, one.threshold_, rtol=1e-6)
    assert_allclose(
        other.pair_distance(index, Blocks(*(1e5 * array for array in arrays))),
        one.pair_distance(index, Blocks(*arrays)),
        rtol=1e-6,
    )


def test_given_matrices_are_used_unchanged(few_arrays):
    arrays = few_arrays
    rng = np.random.default_rng(0)
    given = [random_spd(rng, array.shape[1]) for array in arrays]
    model = TATML(1.0, prior=given, random_state=0).fit(Blocks(*arrays), LABELS)
    for W0, expected in zip(as_list(model.prior_, len(arrays)), given, strict=True):
        assert_allclose(W0, expected, rtol=1e-14)
    alone = TATML(1.0, prior=given[0], random_state=0).fit(Blocks(arrays[0]), LABELS)
    assert_allclose(alone.prior_, given[0], rtol=1e-14)


def test_identical_samples_have_no_scale_even_under_a_given_prior():
    """The default of threshold_prior is their root mean squared distance, which is zero."""
    X, y, pairs = np.ones((12, 2)), np.arange(12) % 2, np.ones((6, 2, 2))
    message = "expected pairs of samples that differ, got identical ones only"
    for prior in (np.diag([2.0, 3.0]), "identity"):
        with pytest.raises(ValueError, match=f"^X: {message}"):
            TATML(prior=prior).fit(X, y)
        with pytest.raises(ValueError, match=f"^pairs: {message}"):
            TATMLPairs(prior=prior).fit(pairs, [1, -1] * 3)
    with pytest.warns(UserWarning, match="^threshold_: .* No threshold has a balanced"):
        given = TATML(prior=np.diag([2.0, 3.0]), threshold_prior=0.5).fit(X, y)
    assert 0 < given.threshold_ <= 0.5
