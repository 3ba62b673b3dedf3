"""The methods that benchmarks/embeddings.py compares with are what they are called."""

import numpy as np
import pytest
from benchmark_helpers import import_benchmark
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.metrics import roc_auc_score


@pytest.fixture(scope="module")
def study():
    return import_benchmark("embeddings")


def identities(n_identities=60, n_dims=4, seed=0):
    """Gaussian identities with Gaussian noise; every identity has 3 to 8 samples."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_identities), rng.integers(3, 9, n_identities))
    means = rng.normal(size=(n_identities, n_dims)) @ rng.normal(size=(n_dims, n_dims))
    return means[y] + rng.normal(size=(len(y), n_dims)), y


def test_plda_is_the_log_likelihood_ratio_of_two_gaussians(study):
    """The covariance of a same pair is [[B + W, B], [B, B + W]]; others have 0 in place of B."""
    X, y = identities()
    known = np.ones(len(y), dtype=bool)
    mean, between, within = study.scatter(X, y)
    assert np.linalg.eigvalsh(between)[0] > 0
    distance = study.fit_plda(X, y, known, (0.0, 4))["two-covariance PLDA"]
    pairs = np.stack([np.arange(50), np.arange(50)[::-1] + 20], axis=1)
    total = between + within
    same = multivariate_normal(np.tile(mean, 2), np.block([[total, between], [between, total]]))
    apart = multivariate_normal(np.tile(mean, 2), np.kron(np.eye(2), total))
    rows = X[pairs].reshape(50, 8)
    assert_allclose(1e4 - distance(pairs), same.logpdf(rows) - apart.logpdf(rows), atol=1e-8)


def test_scatter_finds_the_covariances(study):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20_000), rng.integers(2, 6, 20_000))
    between, within = np.diag([4.0, 1.0, 0.25]), np.diag([1.0, 2.0, 3.0])
    means = rng.multivariate_normal(np.zeros(3), between, 20_000)
    X = means[y] + rng.multivariate_normal(np.zeros(3), within, len(y))
    _, found_between, found_within = study.scatter(X, y)
    assert_allclose(found_between, between, atol=0.15)
    assert_allclose(found_within, within, atol=0.05)


def test_whitened_noise_is_white_and_lda_sorts_by_separation(study):
    X, y = identities(n_identities=200)
    known = np.ones(len(y), dtype=bool)
    pairs = np.stack(np.triu_indices(300, 1), axis=1)
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    whole = study.fit_lda(X, y, known, (0.0, 4))["LDA + cosine"]
    white = study.fit_wccn(X, y, known, 0.0)["within-class normalisation + cosine"]
    assert_allclose(whole(pairs), white(pairs), atol=1e-9)  # all axes: a rotation of white noise
    one = study.fit_lda(X, y, known, (0.0, 2))["LDA + cosine"]
    plain = study.fit_cosine(X, y, known, None)["cosine"]
    assert roc_auc_score(same, -one(pairs)) > 0.7
    assert roc_auc_score(same, -whole(pairs)) > roc_auc_score(same, -plain(pairs)) - 0.02


@pytest.mark.parametrize("world", ["structured", "isotropic", "heavy"])
def test_embeddings_are_unit_vectors_of_all_identities(study, world):
    X, y = study.make_embeddings(world, 8, seed=0)
    assert_allclose(np.linalg.norm(X, axis=1), 1)
    counts = np.bincount(y)
    assert (len(counts), counts.min(), counts.max()) == (2000, 5, 20)
    again = study.make_embeddings(world, 8, seed=0)[0]
    assert_allclose(X, again)


def test_parts_share_no_identity(study):
    ends = sorted(study.PARTS.values())
    assert ends[0][0] == 0
    assert ends[-1][1] == 2000
    assert [last for _, last in ends[:-1]] == [first for first, _ in ends[1:]]
    y = np.repeat(np.arange(2000), 3)
    for part, (first, last) in study.PARTS.items():
        pairs, similar = study.draw_pairs(y, part, 100, seed=0)
        assert np.all((y[pairs] >= first) & (y[pairs] < last))
        assert np.array_equal(similar, y[pairs[:, 0]] == y[pairs[:, 1]])
        assert similar.sum() == 3 * (last - first)


def test_the_best_setting_is_chosen_with_and_without_length_normalisation(study, monkeypatch):
    X, y = study.make_embeddings("heavy", 8, seed=0)
    methods = [(study.fit_plda, [(0.0, 2), (0.0, 8)], True), (study.fit_midpoint, [1e-8], False)]
    monkeypatch.setattr(study, "methods_of", lambda n_dims: methods)
    best = study.best_settings(X, y, seed=0)
    plda = "two-covariance PLDA"
    assert set(best) == {plda, plda + study.NORMALISED, "midpoint, prior alone"}
    assert best[plda][1] == best[plda + study.NORMALISED][1] == (0.0, 8)
    assert best[plda][0] != best[plda + study.NORMALISED][0]
    assert abs(best["midpoint, prior alone"][0] - best[plda][0]) < 0.003
    pairs = np.stack([np.arange(50), np.arange(50) + 1], axis=1)
    ratio, score = (best[name][2](pairs) for name in (plda, "midpoint, prior alone"))
    assert np.corrcoef(ratio, score)[0, 1] > 0.99  # both are smaller for the same


def test_means_are_compared_with_the_better_plda(study, capsys):
    rows = [
        {"two-covariance PLDA": a, "two-covariance PLDA, normalised": b, "other": c}
        for a, b, c in ((0.10, 0.07, 0.08), (0.12, 0.09, 0.10))
    ]
    study.print_means(128, {"heavy": rows})
    said = capsys.readouterr().out
    assert "| other | 9.00% ± 1.00 (1.125) |" in said
    assert "| two-covariance PLDA | 11.00% ± 1.00 (1.375) |" in said


def test_plda_with_several_enrolled_samples_is_the_ratio_of_two_gaussians(study):
    """The law of a probe given three samples, against that of the probe alone."""
    X, y = identities(n_identities=200)
    mean, between, within = study.scatter(X, y, 0.03)
    probes, enrolled = np.arange(10), np.array([20, 30, 40, 50, 60])
    scores = study.plda_score(X, y, np.ones(len(y), dtype=bool))(
        probes, enrolled, np.array([0, 0, 0, 1, 1])
    )
    for k, rows in enumerate([enrolled[:3], enrolled[3:]]):
        n = len(rows) + 1
        all_of_one = np.kron(np.ones((n, n)), between) + np.kron(np.eye(n), within)
        others = all_of_one[4:, 4:]
        joint = multivariate_normal(np.tile(mean, n), all_of_one)
        known = multivariate_normal(np.tile(mean, n - 1), others).logpdf(X[rows].ravel())
        alone = multivariate_normal(mean, between + within)
        for i in probes:
            expected = joint.logpdf(np.concatenate([X[i], X[rows].ravel()]))
            expected -= known + alone.logpdf(X[i])
            assert scores[i, k] == pytest.approx(expected, abs=1e-8)


def test_normalised_scores_do_not_depend_on_units(study):
    rng = np.random.default_rng(0)
    scores, of_enrolled, of_probes = (rng.normal(size=n) for n in ((7, 5), (5, 200), (7, 200)))
    found = study.as_norm(scores, of_enrolled, of_probes)
    again = study.as_norm(3 * scores + 1, 3 * of_enrolled + 1, 3 * of_probes + 1)
    assert_allclose(again, found, atol=1e-12)
    top = np.sort(of_enrolled[2])[-100:], np.sort(of_probes[4])[-100:]
    expected = np.mean([(scores[4, 2] - part.mean()) / part.std() for part in top])
    assert found[4, 2] == pytest.approx(expected)


def test_rules_for_several_samples_agree_for_one(study):
    X, y = study.make_embeddings("structured", 8, seed=0)
    known = y < 200
    rows = np.flatnonzero(y >= 1900)[:40]
    rules = study.rules_of(X, y, known)
    for name in ("cosine", "distance", "midpoint"):
        one = [
            score(rows[:20], rows[20:], np.arange(20))
            for words, score in rules.items()
            if words.startswith(name)
        ]
        assert len(one) == 2 + (name == "midpoint")
        for other in one[1:]:
            assert_allclose(other, one[0], atol=1e-9)
