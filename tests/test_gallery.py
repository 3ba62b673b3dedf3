"""Several enrolled samples, one probe against many, and the promised rate of false positives."""

import gc
import pickle
import weakref
from itertools import combinations

import numpy as np
import pytest
from benchmark_helpers import import_benchmark
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from tatml import TATML, Blocks, Euclidean, PairThreshold, TATMLPairs
from tatml._verification.identification import expected_rate, find_threshold
from tatml.io import save_model
from tatml.verification import Gallery

N_CLASSES, N_EACH, N_FEATURES = 30, 6, 5


def made(seed=0, n_classes=N_CLASSES):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), N_EACH)
    X = rng.normal(size=(n_classes, N_FEATURES))[y] + 0.5 * rng.normal(size=(len(y), N_FEATURES))
    return X, y


def signs_of(pairs, y):
    return np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


def fit(kind):
    """Return a fitted judge of pairs, and a function that brings samples into its form."""
    X, y = made()
    if kind == "blocks":
        return TATML(random_state=0).fit(as_two(X), y), as_two
    if kind in ("pairs", "cosine", "function"):
        pairs = np.random.default_rng(1).integers(len(X), size=(400, 2))
        judge = PairThreshold("cosine" if kind == "cosine" else manhattan)
        if kind == "pairs":
            judge = TATMLPairs(midpoint=True)
        return judge.set_params(preprocessor=X).fit(pairs, signs_of(pairs, y)), np.asarray
    options = {
        "distance": {},
        "kernel": {"kernel": "rbf"},
        "midpoint": {"midpoint": True, "new_classes": True},
        "recurring": {"midpoint": True},
    }[kind]
    return TATML(random_state=0, **options).fit(X, y), np.asarray


def as_two(X):
    return Blocks(X[:, :2], X[:, 2:])


def manhattan(u, v):
    return float(np.abs(u - v).sum())


KINDS = {
    "distance": "mean_embedding",
    "kernel": "mean_embedding",
    "blocks": "mean_embedding",
    "midpoint": "model",
    "recurring": "mean_embedding",
    "pairs": "model",
    "cosine": "mean_embedding",
    "function": "mean_score",
}


@pytest.fixture(scope="module", params=KINDS)
def judged(request):
    return request.param, *fit(request.param)


def pair_scores(judge, form, probes, known):
    pairs = np.stack(np.indices((len(probes), len(known))), axis=2).reshape(-1, 2)
    pairs[:, 1] += len(probes)
    both = form(np.concatenate([probes, known]))
    return judge.pair_score(pairs, both).reshape(len(probes), len(known))


def test_auto_is_the_first_rule_that_the_estimator_has(judged):
    kind, judge, _ = judged
    assert Gallery(judge).rule == KINDS[kind]


@pytest.mark.parametrize("rule", ["auto", "mean_embedding", "mean_score"])
def test_with_one_enrolled_sample_every_rule_is_the_score_of_the_pair(judged, rule):
    _, judge, form = judged
    X, y = made(seed=2)
    known = np.arange(len(y)) % N_EACH == 0
    gallery = Gallery(judge, rule=rule).enrol(form(X[known]), y[known])
    expected = pair_scores(judge, form, X[~known], X[known])
    assert_allclose(gallery.scores(form(X[~known])), expected, atol=1e-9)
    assert_allclose(gallery.scores(form(X[~known]), 3), expected[:, 3], atol=1e-9)


def several(judge, form, rule):
    """Return a gallery with 3 samples of each of 4 identities, its samples, and probes."""
    X, y = made(seed=2)
    rows = np.flatnonzero((np.arange(len(y)) % N_EACH < 3) & (y < 4))
    rows = np.random.default_rng(0).permutation(rows)
    probes = X[y >= 4][:20]
    return Gallery(judge, rule=rule).enrol(form(X[rows]), y[rows]), X, y, probes


def test_the_mean_of_scores_is_that_of_the_pairs(judged):
    _, judge, form = judged
    gallery, X, y, probes = several(judge, form, "mean_score")
    for identity in gallery.identities:
        known = X[np.flatnonzero(y == identity)[:3]]
        expected = pair_scores(judge, form, probes, known).mean(axis=1)
        assert_allclose(gallery.scores(form(probes), identity), expected, atol=1e-9)


@pytest.mark.parametrize("kind", ["distance", "kernel", "blocks"])
def test_the_mean_of_embeddings_is_that_of_transform(kind):
    judge, form = fit(kind)
    gallery, X, y, probes = several(judge, form, "mean_embedding")
    for identity in gallery.identities:
        mean = judge.transform(form(X[np.flatnonzero(y == identity)[:3]])).mean(axis=0)
        expected = -np.linalg.norm(judge.transform(form(probes)) - mean, axis=1)
        assert_allclose(gallery.scores(form(probes), identity), expected)


@pytest.mark.parametrize("kind", ["cosine", "midpoint", "function"])
def test_without_transform_it_is_the_score_with_the_mean_sample(kind):
    judge, form = fit(kind)
    gallery, X, y, probes = several(judge, form, "mean_embedding")
    means = [X[np.flatnonzero(y == k)[:3]].mean(axis=0) for k in gallery.identities]
    expected = pair_scores(judge, form, probes, np.array(means))
    assert_allclose(gallery.scores(probes), expected, atol=1e-9)


@pytest.mark.parametrize("kind", ["midpoint", "pairs"])
def test_the_model_gives_enrolled_scores_in_the_order_of_enrolment(kind):
    judge, form = fit(kind)
    gallery, X, y, probes = several(judge, form, "model")
    rows = np.concatenate([np.flatnonzero(y == k)[:3] for k in range(4)])
    expected = judge.enrolled_scores(probes, X[rows], y[rows])
    assert sorted(gallery.identities) == [0, 1, 2, 3] != gallery.identities
    assert_allclose(gallery.scores(probes), expected[:, gallery.identities], atol=1e-9)


# One against one, and one against many


def small_gallery():
    judge = Euclidean().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    return Gallery(judge.set_threshold(1.0)).enrol([[0.0], [4.0], [6.0]], ["a", "b", "c"])


def test_identify_finds_the_best_above_the_threshold():
    found = small_gallery().identify([[0.5], [5.5], [9.0]], threshold=-1.0)
    assert found.identity.tolist() == ["a", "c", None]
    assert_allclose(found.score, [-0.5, -0.5, -3.0])
    everybody = small_gallery().identify([[0.5], [5.5], [9.0]], threshold=-np.inf)
    assert everybody.identity.tolist() == ["a", "c", "c"]


def test_verify_compares_with_the_threshold_of_the_estimator():
    gallery = small_gallery()
    assert gallery.verify([[0.5], [1.0], [4.0]], "a").tolist() == [True, False, False]
    assert gallery.verify([[0.5], [1.0], [4.0]], "a", threshold=-2).tolist() == [True, True, False]
    assert gallery.verify([[0.5], [4.0]], "b").tolist() == [False, True]


def test_scores_of_many_samples_are_computed_in_parts(monkeypatch):
    gallery = small_gallery()
    X = np.linspace(-1, 9, 57)[:, None]
    whole = gallery.identify(X, threshold=-1.0)
    monkeypatch.setattr("tatml.verification._gallery.CHUNK_NUMBERS", 30)
    parts = gallery.identify(X, threshold=-1.0)
    assert_array_equal(parts.identity, whole.identity)
    assert_array_equal(parts.score, whole.score)


# Who is removed is gone


def test_a_removed_identity_is_gone_from_memory_and_from_files():
    judge, _ = fit("distance")
    judge.pairs_ = None
    rng = np.random.default_rng(5)
    X, names = rng.normal(size=(6, N_FEATURES)), ["ann", "zygmunt"] * 3
    samples = [row.tobytes() for row in X]
    gallery = Gallery(judge).enrol(X, names)
    gallery.calibrate(rng.normal(size=(100, N_FEATURES)), np.arange(100), max_fpir=0.2)
    gallery.identify(X)
    saved = pickle.dumps(gallery)
    assert b"zygmunt" in saved
    assert all(sample in saved for sample in samples)
    (held,) = gallery._enrolled["zygmunt"].arrays
    kept, dead = held[:], weakref.ref(held)
    assert_array_equal(np.squeeze(kept), X[1::2])
    gallery.remove("zygmunt")
    assert not kept.any()  # whoever still had a view of the buffer sees zeros
    del held, kept
    gc.collect()
    assert dead() is None
    saved = pickle.dumps(gallery)
    assert b"zygmunt" not in saved
    assert [sample in saved for sample in samples] == [True, False] * 3
    assert_array_equal(X[1], np.frombuffer(samples[1]))  # those of the user are not touched


@pytest.mark.parametrize("rows", [slice(None), slice(2, 3), slice(None, None, -1)])
def test_samples_are_copied_and_no_part_of_a_larger_buffer(rows):
    X = np.random.default_rng(0).normal(size=(4, N_FEATURES))[rows]
    gallery = Gallery(fit("distance")[0]).enrol(X, np.arange(len(X)))
    for identity in gallery.identities:
        for array in gallery._enrolled[identity].arrays:
            assert not np.shares_memory(array, X)
            owner = array if array.base is None else array.base
            assert owner.nbytes == array.nbytes
    before = gallery.scores(X)
    X[:] = 0.0
    assert_array_equal(gallery.scores(X + 0.0), gallery.scores(np.zeros_like(X)))
    assert before.shape == (len(X), len(X))


def test_a_gallery_is_pickled_and_not_saved_as_a_model(tmp_path):
    gallery = small_gallery()
    again = pickle.loads(pickle.dumps(gallery))
    assert_array_equal(again.scores([[0.5]]), gallery.scores([[0.5]]))
    with pytest.raises(TypeError, match="got Gallery, which holds samples: save its estimator"):
        save_model(gallery, tmp_path / "gallery.skops")


# The promised rate


def test_with_one_probe_per_identity_the_promise_is_that_of_the_binomial_law():
    best = np.random.default_rng(0).normal(size=400)
    for rate in (0.05, 0.1):
        k = int(np.flatnonzero(binom.cdf(np.arange(400), 400, rate) <= 0.05)[-1])
        for guarantee in ("approximate", "proved"):
            threshold, method, worth = find_threshold(best, np.arange(400), rate, 0.95, guarantee)
            assert (method, worth) == ("exact", 400)
            assert np.sum(best > threshold) == k
    assert np.sum(best > find_threshold(best, np.arange(400), 0.1, None)[0]) == 40


def test_probes_that_repeat_each_other_are_worth_one():
    best = np.random.default_rng(0).normal(size=100)
    once = find_threshold(best, np.arange(100), 0.1, 0.95)
    again = find_threshold(np.repeat(best, 5), np.repeat(np.arange(100), 5), 0.1, 0.95)
    assert again[1] == "approximate"
    assert again[2] < 110
    assert again[0] >= once[0]
    proved = find_threshold(np.repeat(best, 5), np.repeat(np.arange(100), 5), 0.1, 0.95, "proved")
    assert proved == (once[0], "proved", 100.0)


def calibrated(n_enrolled=40, seed=3, **options):
    judge, _ = fit("distance")
    rng = np.random.default_rng(seed)
    gallery = Gallery(judge).enrol(rng.normal(size=(n_enrolled, N_FEATURES)), range(n_enrolled))
    probes = rng.normal(size=(300, N_FEATURES))
    options = {"max_fpir": 0.1} | options
    return gallery.calibrate(probes, 1000 + np.arange(300), **options), probes


def test_the_calibration_tells_what_was_observed():
    gallery, probes = calibrated()
    found, scores = gallery.calibration_, gallery.scores(probes)
    assert np.sum(scores.max(axis=1) > gallery.threshold_) == found.n_errors
    assert sum(name is not None for name in gallery.identify(probes).identity) == found.n_errors
    above = np.sum(scores > gallery.threshold_, axis=1)
    assert_array_equal(found.match_counts, np.bincount(above))
    assert (found.method, found.n_enrolled, found.n_probes) == ("exact", 40, 300)
    assert calibrated(confidence=None)[0].calibration_.n_errors == 30


def test_removing_keeps_the_promise_and_enrolling_warns():
    gallery, probes = calibrated()
    before = gallery.identify(probes)
    gallery.remove(3)
    after = gallery.identify(probes)
    assert np.all(after.score <= before.score)
    words = r"0.1 for the 40 identities that were enrolled; 10 of the 49 now enrolled came later"
    more = np.random.default_rng(4).normal(size=(10, N_FEATURES))
    with pytest.warns(UserWarning, match=words) as caught:
        gallery.enrol(more, 100 + np.arange(10))
    assert "on average at most 0.12 if they are like the others" in str(caught[0].message)
    gallery.remove(100)
    with pytest.warns(UserWarning, match="10 of the 49 now enrolled came later"):
        gallery.enrol(more[:1], [3])
    gallery.calibrate(probes, 1000 + np.arange(300), max_fpir=0.1)
    assert gallery.calibration_.n_enrolled == 49
    with pytest.warns(UserWarning, match="for the 49 .*; 1 of the 50 now enrolled came later"):
        gallery.enrol(more[:1], [100])


def test_a_warning_says_that_probes_are_of_too_few_identities():
    gallery, _ = calibrated()
    rng = np.random.default_rng(8)
    owner = 1000 + np.repeat(np.arange(20), 100)
    X = 0.2 * rng.normal(size=(20, N_FEATURES))[owner - 1000] + rng.normal(size=(2000, N_FEATURES))
    with pytest.warns(UserWarning, match="at least 29 identities .* got about 20"):
        gallery.calibrate(X, owner, max_fpir=0.3)
    assert gallery.calibration_.vouched_share > 0.1


# More enrolled identities


def brute(matches, n):
    """The share of probes with a match, in the mean over all subsets of n identities."""
    subsets = combinations(range(matches.shape[1]), n)
    return np.mean([matches[:, list(subset)].any(axis=1).mean() for subset in subsets])


def test_the_expected_rate_is_the_mean_over_all_subsets():
    matches = np.random.default_rng(0).random((50, 6)) < 0.2
    counts = np.bincount(matches.sum(axis=1))
    counts[:2] += [1, -1]  # one probe more is counted as a match
    for n in range(1, 7):
        assert expected_rate(counts, 6, n) == pytest.approx(brute(matches, n))


def test_the_expected_rate_increases_by_less_than_in_proportion():
    gallery, _ = calibrated()
    sizes = [1, 5, 20, 40, 41, 80, 400, 10**6]
    found = np.array([gallery.expected_fpir(n) for n in sizes])
    assert np.all(np.diff(found[:, 0]) >= 0)
    assert np.all(np.diff(found[:, 0] / sizes) <= 1e-15)
    assert found[3, 0] == pytest.approx((gallery.calibration_.n_errors + 1) / 300)
    assert_allclose(found[:, 1], np.minimum(1, 0.1 * np.maximum(1, np.array(sizes) / 40)))


def test_the_promise_holds_in_a_small_run_of_the_benchmark():
    study = import_benchmark("gallery_coverage")
    (number,) = (k for k, world in enumerate(study.WORLDS) if world.name.startswith("lambs, 20"))
    found = np.array([study.run((number, k, 4000)) for k in range(100)])[:, 0]
    most = 0.05 + 3.1 * np.sqrt(0.05 * 0.95 / 100)
    assert np.mean(found[:, 0] > 0.1) <= most
    assert np.mean(found[:, 0]) > 0.04
    assert np.mean(found[:, 1] > 0.1) > 0.07  # if shared identities are not considered
    assert np.mean(found[:, 2] > 0.1) <= most
    assert np.mean(found[:, 4]) == pytest.approx(np.mean(found[:, 3]), rel=0.3)


# Refusals

ROW = [[1.0]]
REFUSED = {
    "twice": (lambda g: g.enrol([[1.0], [2.0]], ["z", "a"]), "groups: .*not enrolled, got 'a'"),
    "unknown": (lambda g: g.verify(ROW, "z"), "identity: expected one of the 3 .*got 'z'"),
    "a list": (lambda g: g.scores(ROW, ["a"]), "identity: expected one of the 3 .*got "),
    "unknown, removed": (lambda g: g.remove("z"), "identity: expected one of the 3 .*got 'z'"),
    "NaN": (lambda g: g.enrol([[np.nan]], ["z"]), "X: expected .*finite"),
    "NaN in Blocks": (lambda g: g.enrol(Blocks([[np.nan]]), ["z"]), "expected finite numbers"),
    "columns": (lambda g: g.scores([[1.0, 2.0]]), "X has 2 features"),
    "no label": (lambda g: g.enrol(ROW, [None]), "groups: expected a label"),
    "labels": (lambda g: g.enrol(ROW, ["z", "y"]), "groups: expected one value for each of the 1"),
    "not calibrated": (lambda g: g.identify(ROW), "threshold: .*before the gallery is calibrated"),
    "nothing expected": (lambda g: g.expected_fpir(3), "n_enrolled: expected a calibrated"),
    "threshold": (lambda g: g.identify(ROW, np.nan), "threshold: expected"),
    "rate": (lambda g: g.calibrate(ROW, ["z"], max_fpir=1.5), "max_fpir: expected"),
    "confidence": (
        lambda g: g.calibrate(ROW, ["z"], max_fpir=0.1, confidence=2.0),
        "confidence: expected",
    ),
    "guarantee": (
        lambda g: g.calibrate(ROW, ["z"], max_fpir=0.1, guarantee="sure"),
        "guarantee: expected",
    ),
    "enrolled probe": (
        lambda g: g.calibrate([[1.0], [2.0]], ["a", "z"], max_fpir=0.1),
        "groups: expected probes of people who are not enrolled, got 'a'",
    ),
    "one identity": (
        lambda g: g.calibrate([[1.0]] * 50, [*range(20), *[99] * 30], max_fpir=0.1),
        "groups: expected no identity with more than 50% .*got one with 60%",
    ),
    "few probes": (
        lambda g: g.calibrate([[1.0]] * 20, range(20), max_fpir=0.1),
        "max_fpir: expected at least 29 independent probes .* got 20 probes of 20 identities",
    ),
    "proved": (
        lambda g: g.calibrate([[1.0]] * 40, [*range(20)] * 2, max_fpir=0.1, guarantee="proved"),
        "max_fpir: expected at least 29 .* got 40 probes of 20 identities, worth 20",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_and_changes_nothing(case):
    gallery = small_gallery()
    act, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        act(gallery)
    assert gallery.identities == ["a", "b", "c"]
    assert not hasattr(gallery, "threshold_")


def test_an_empty_gallery_is_refused():
    gallery = small_gallery()
    for identity in "abc":
        gallery.remove(identity)
    calls = [
        lambda: gallery.scores(ROW),
        lambda: gallery.identify(ROW, -1.0),
        lambda: gallery.calibrate(ROW, ["z"], max_fpir=0.1),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="got an empty gallery"):
            call()


def test_wrong_estimators_and_rules_are_refused():
    with pytest.raises(NotFittedError):
        Gallery(TATML())
    with pytest.raises(TypeError, match="estimator: expected one with pair_score, got"):
        Gallery(LinearRegression().fit(ROW, [1.0]))
    given = PairThreshold("precomputed").fit([0.1, 0.9], [1, -1])
    with pytest.raises(ValueError, match=r"estimator: .* fitted to samples, got PairThreshold"):
        Gallery(given)
    judge = small_gallery().estimator
    with pytest.raises(ValueError, match=r"rule: expected .* got 'model', which needs midpoint"):
        Gallery(judge, rule="model")
    with pytest.raises(ValueError, match="rule: expected"):
        Gallery(judge, rule="nearest")
