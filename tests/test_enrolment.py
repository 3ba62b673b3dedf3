"""Search vectors and scores of several enrolled samples: docs/theory.md, (Search) and (Enrol)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal
from sklearn import config_context
from sklearn.metrics import roc_auc_score

from tatml import TATML, TATMLCV, Blocks, TATMLPairs
from tatml._array import to_numpy
from tatml._data.blocks import as_blocks
from tatml._learning import enrolment
from tatml._learning.enrolment import Identities

N_KNOWN, N_NEW = 90, 24


def model(**options):
    """A score that learning has moved away from its prior."""
    return TATML(midpoint=True, new_classes=True, C=300.0, random_state=0, **options)


def made(kind):
    """Return samples to learn from with their labels, and new samples of other classes."""
    rng = np.random.default_rng(0)
    y = np.arange(N_KNOWN) % 18
    if kind == "span" or kind == "sparse":
        X = rng.normal(size=(40, 150))[np.append(y, 18 + np.arange(N_NEW) // 3)]
        X += rng.normal(size=X.shape)
        X[rng.random(X.shape) < 0.7] = 0.0
        X = csr_array(X) if kind == "sparse" else X
        return X[:N_KNOWN], y, X[N_KNOWN:]
    X = rng.normal(size=(40, 4, 3))[np.append(y, 18 + np.arange(N_NEW) // 3)] + 5.0
    X += rng.normal(size=X.shape)
    if kind == "vectors":
        X = X.reshape(len(X), 12)
    if kind in ("blocks", "kernel"):
        X = Blocks(X[:, :, :2], X[:, 1:, 2])
    return X[:N_KNOWN], y, X[N_KNOWN:]


KINDS = ["vectors", "matrices", "blocks", "kernel", "span", "sparse"]


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    X, y, new = made(request.param)
    options = {"kernel": "rbf"} if request.param == "kernel" else {}
    if request.param == "vectors":
        options["loss"] = "squared_hinge"
    return model(**options).fit(X, y), new


def all_pairs(n, m):
    """Every one of n + m samples, of which the first n are compared with the others."""
    return np.stack([np.repeat(np.arange(n), m), np.tile(n + np.arange(m), n)], axis=1)


def test_inner_products_of_search_vectors_are_scores(fitted):
    metric, new = fitted
    queries, entries = metric.search_vectors(new)
    scores = metric.pair_score(all_pairs(10, N_NEW - 10), new).reshape(10, -1)
    assert_allclose(queries[:10] @ entries[10:].T, scores, atol=1e-10 * abs(scores).max())
    n_features = sum(map(np.prod, inner_shapes(metric)))
    assert queries.shape == entries.shape == (N_NEW, n_features + 2)


def inner_shapes(metric):
    found = metric.kernel_map_
    return metric.block_shapes_ if found is None else found.block_shapes_out_


def test_search_vectors_need_as_many_numbers_as_features():
    X, y, new = made("vectors")
    assert model().fit(X, y).search_vectors(new)[0].shape == (N_NEW, 12 + 2)


def test_far_from_the_origin_search_vectors_keep_their_digits():
    X, y, new = made("vectors")
    metric = model().fit(X + 1e5, y)
    queries, entries = metric.search_vectors(new + 1e5)
    scores = metric.pair_score(all_pairs(10, N_NEW - 10), new + 1e5).reshape(10, -1)
    assert_allclose(queries[:10] @ entries[10:].T, scores, atol=1e-8 * abs(scores).max())


def test_the_score_of_one_enrolled_sample_is_that_of_the_pair(fitted):
    metric, new = fitted
    scores = metric.pair_score(all_pairs(10, N_NEW - 10), new).reshape(10, -1)
    names = np.array([f"identity {number:02}" for number in range(N_NEW - 10)])[::-1]
    found = metric.enrolled_scores(new[:10], new[10:], names)
    assert_allclose(found[:, ::-1], scores, atol=1e-10 * abs(scores).max())


def test_scores_do_not_depend_on_chunks_order_or_other_identities(fitted, monkeypatch):
    metric, new = fitted
    groups = np.array([0, 1, 1, 2, 2, 2, 2, 0, 3, 3])
    whole = metric.enrolled_scores(new[10:], new[:10], groups)
    assert whole.shape == (N_NEW - 10, 4)
    some = np.flatnonzero(groups % 2)[::-1]
    part = metric.enrolled_scores(new[10:], new[some], groups[some])
    assert_allclose(part, whole[:, [1, 3]], rtol=1e-10)
    monkeypatch.setattr(enrolment, "CHUNK_NUMBERS", 1)  # one sample at a time
    assert_allclose(metric.enrolled_scores(new[10:], new[:10], groups), whole, rtol=1e-10)


# Against the two-covariance model


def random_spd(rng, n):
    A = rng.normal(size=(n, 2 * n))
    return A @ A.T / n


def matrices_of(S, B):
    """W and V of new classes."""
    first, second, third = (np.linalg.inv(S + k * B) for k in range(3))
    return [(first - second) / 4, (second - third) / 4]


def log_ratio(probe, enrolled, S, B):
    """Return the log-likelihood ratio of vectors by the covariance of all samples together."""
    n = len(enrolled)
    same = np.kron(np.eye(n + 1), S) + np.kron(np.ones((n + 1, n + 1)), B)
    k = len(S)
    apart = same.copy()
    apart[:k, k:] = apart[k:, :k] = 0.0
    both = np.concatenate([probe, *enrolled])
    same, apart = (multivariate_normal(np.zeros(len(both)), cov) for cov in (same, apart))
    return same.logpdf(both) - apart.logpdf(both)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("kind", ["vectors", "matrices", "blocks"])
def test_scores_are_the_log_likelihood_ratios_of_the_model(kind, n):
    """Columns are independent observations, and of M blocks it is the mean; see (Enrol)."""
    rng = np.random.default_rng(n)
    X, y, new = made(kind)
    blocks = as_blocks(X)
    models = [(random_spd(rng, k), random_spd(rng, k)) for k, _ in blocks.block_shapes]
    W, V = zip(*(matrices_of(*one) for one in models), strict=True)
    metric = model(prior=[*W, *V]).set_params(C=1e-12).fit(X, y)
    centred = [
        array - mean for array, mean in zip(as_blocks(new).arrays, metric.midpoint_, strict=True)
    ]

    def expected(probe, rows):
        columns = [
            (array[probe, :, j], array[rows][:, :, j], *one)
            for array, one in zip(centred, models, strict=True)
            for j in range(array.shape[2])
        ]
        of_zeros = [log_ratio(0 * x, 0 * known[:1], S, B) for x, known, S, B in columns]
        return (sum(log_ratio(*each) for each in columns) - sum(of_zeros)) / len(models)

    rows = [np.arange(10, 10 + n), np.arange(16, 16 + n)]
    found = metric.enrolled_scores(new[:4], new[np.concatenate(rows)], np.repeat([3, 8], n))
    assert_allclose(found, [[expected(k, some) for some in rows] for k in range(4)], rtol=1e-8)


@pytest.mark.parametrize("v", [0.5, 0.9, 0.499])
def test_where_no_model_fits_the_mean_of_the_scores_is_taken(v):
    rng = np.random.default_rng(0)
    y, x = rng.normal(size=5), rng.normal(size=3)
    sums = np.array([[x.sum()]]), np.array([[np.sum(x**2)]])
    found = Identities.of(*sums, np.array([3]), np.array([v]), 1).score(y[:, None])
    each = v * (y[:, None] + x) ** 2 - (1 - v) * (y[:, None] - x) ** 2
    assert_allclose(found[:, 0], each.mean(axis=1), rtol=1e-13)


def test_more_enrolled_samples_tell_more():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(300), 9)
    X = 0.8 * rng.normal(size=(300, 10))[y] + rng.normal(size=(len(y), 10))
    metric = model().fit(X[y < 150], y[y < 150])
    owner, number = y[y >= 150], np.arange(len(y))[y >= 150] % 9
    new, probes = X[y >= 150], X[y >= 150][number == 8]
    same = np.eye(150, dtype=bool).ravel()
    areas, shares = [], []
    for count in (1, 2, 4, 8):
        known = number < count
        scores = metric.enrolled_scores(probes, new[known], owner[known]).ravel()
        areas.append(roc_auc_score(same, scores))
        shares.append(np.mean((scores > -metric.threshold_)[~same]))
    pairs = np.stack([np.repeat(np.arange(len(new))[number == 8], len(new)),
                      np.tile(np.arange(len(new)), 150)], axis=1)  # fmt: skip
    each = metric.pair_score(pairs, new).reshape(150, 150, 9)[:, :, :8]
    assert min(np.diff(areas)) > 0.005
    assert areas[-1] > roc_auc_score(same, each.max(axis=2).ravel()) + 0.005  # the best of eight
    assert max(shares) <= shares[0]  # of false matches at the learnt threshold


# Where there is such a score


def test_there_are_scores_of_identities_with_midpoints_for_new_classes():
    X, y, new = made("vectors")
    groups = np.arange(N_NEW)
    metric = TATML(random_state=0).fit(X, y)
    assert not hasattr(metric, "enrolled_scores")
    with pytest.raises(AttributeError, match=r"enrolled_scores: TATML learns a distance"):
        metric.enrolled_scores(new, new, groups)
    metric = TATML(midpoint=True, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="enrolled_scores: expected a fit with new_classes=True"):
        metric.enrolled_scores(new, new, groups)
    pairs = np.stack([np.arange(N_KNOWN), (np.arange(N_KNOWN) + 18) % N_KNOWN], axis=1)
    pairs = np.concatenate([pairs, (pairs + np.array([0, 1])) % N_KNOWN])
    labels = np.repeat([1, -1], N_KNOWN)
    found = TATMLPairs(midpoint=True, preprocessor=X).fit(pairs, labels)
    assert found.enrolled_scores(new, new, groups).shape == (N_NEW, N_NEW)
    search = TATMLCV(model(), {"C": [1.0]}, cv=2, random_state=0).fit(X, y)
    expected = search.best_estimator_.enrolled_scores(new, new, groups)
    assert_array_equal(search.enrolled_scores(new, new, groups), expected)


def test_wrong_samples_and_groups_are_refused_by_name():
    X, y, new = made("vectors")
    metric = model().fit(X, y)
    groups = np.zeros(N_NEW)
    for arguments, message in (
        ((new, new * np.nan, groups), "enrolled: "),
        ((new * np.nan, new, groups), "X: "),
        ((new, None, groups), "enrolled: "),
        ((new, new, groups[1:]), f"groups: expected one value for each of the {N_NEW} samples"),
        ((new, new, None), "groups: "),
        ((new, new, groups * np.nan), "groups: "),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            metric.enrolled_scores(*arguments)


def test_scores_are_computed_where_the_samples_are(monkeypatch):
    xp = pytest.importorskip("array_api_strict")
    X, y, new = made("vectors")
    metric = model().fit(X, y)
    groups = np.arange(N_NEW) // 3
    monkeypatch.setattr("sklearn.utils._array_api._check_array_api_dispatch", lambda *args: None)
    with config_context(array_api_dispatch=True):
        placed = xp.asarray(new)
        found = [*metric.search_vectors(placed), metric.enrolled_scores(placed, placed, groups)]
    expected = [*metric.search_vectors(new), metric.enrolled_scores(new, new, groups)]
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, type(placed))
        assert_allclose(to_numpy(one), other, rtol=1e-10)
