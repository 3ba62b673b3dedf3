"""Estimators fit where their samples are: NumPy's results, on the device of the samples."""

import pickle

import numpy as np
import pytest
from estimators_helpers import KINDS, labelled
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from tatml import (
    ITML,
    TATML,
    TATMLCV,
    Blocks,
    Maz,
    Newton,
    TATMLNeighbors,
    TATMLPairs,
    TATMLQuadruplets,
    TATMLRegression,
    TATMLTriplets,
)
from tatml._array import to_numpy
from tatml._learning.priors import mean_square
from tatml._optim.layout import Limits
from tatml._optim.newton import solve_newton
from tatml._optim.sums import PairSums
from tatml.features import KernelMap

xp = pytest.importorskip("array_api_strict")

RNG = np.random.default_rng(0)
X, Y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
INDEX = RNG.integers(len(X), size=(300, 2))
INDEX = INDEX[INDEX[:, 0] != INDEX[:, 1]]
SAME = np.where(Y[INDEX[:, 0]] == Y[INDEX[:, 1]], 1, -1)
WITH_OUTLIERS = np.array(X)
WITH_OUTLIERS[3, 2], WITH_OUTLIERS[:150, 5] = 30.0, 0.25  # one is far off; most are equal
TUPLES = RNG.permuted(np.tile(np.arange(len(X)), (200, 1)), axis=1)


@pytest.fixture(autouse=True)
def dispatch(monkeypatch):
    monkeypatch.setattr("sklearn.utils._array_api._check_array_api_dispatch", lambda *args: None)
    with config_context(array_api_dispatch=True):
        yield


@pytest.fixture
def places(monkeypatch):
    """The kinds of the arrays of all problems that are solved."""
    found = []

    def spy(problem, *settings):
        found.append(type(problem.prior_factors[0]))
        return solve_newton(problem, *settings)

    monkeypatch.setattr("tatml._optim.solvers.solve_newton", spy)
    return found


STRICT = type(xp.asarray(0.0))
LEARNERS = {
    "TATML": (TATML(random_state=0), lambda place: (place(X), Y)),
    "few components": (TATML(random_state=0, n_components=3), lambda place: (place(X), Y)),
    "neighbours": (TATML(random_state=0, pairs="neighbors"), lambda place: (place(X), Y)),
    "kernel": (
        TATML(random_state=0, kernel=KernelMap(n_landmarks=20, random_state=0)),
        lambda place: (place(X), Y),
    ),
    "TATMLPairs": (TATMLPairs(), lambda place: (place(X[INDEX]), SAME)),
    "TATMLPairs of indices": (TATMLPairs(), None),
    "TATMLTriplets": (TATMLTriplets(), lambda place: (place(X[TUPLES[:, :3]]),)),
    "TATMLQuadruplets": (TATMLQuadruplets(), lambda place: (place(X[TUPLES[:, :4]]),)),
    "TATMLNeighbors": (TATMLNeighbors(random_state=0), lambda place: (place(X), Y)),
    "TATMLRegression": (TATMLRegression(random_state=0), lambda place: (place(X), Y)),
    "polynomial kernel": (
        TATML(random_state=0, kernel=KernelMap("polynomial", n_landmarks=20, random_state=0)),
        lambda place: (place(X), Y),
    ),
    "within": (TATML(random_state=0, prior="within"), lambda place: (place(X), Y)),
    "covariance": (TATML(random_state=0, prior="covariance"), lambda place: (place(X), Y)),
    "clipped": (
        TATML(clip_outliers=True, random_state=0),
        lambda place: (place(WITH_OUTLIERS), Y),
    ),
    "replaced": (
        TATML(clip_outliers="replace", random_state=0),
        lambda place: (place(WITH_OUTLIERS), Y),
    ),
    "neighbours in units": (
        TATML(random_state=0, pairs="neighbors", prior="auto"),
        lambda place: (place(X), Y),
    ),
    "search": (
        TATMLCV(random_state=0, param_grid={"C": [1.0, 100.0]}, cv=2),
        lambda place: (place(X), Y),
    ),
    "midpoint": (TATML(random_state=0, midpoint=True), lambda place: (place(X), Y)),
    "midpoint of new classes": (
        TATML(random_state=0, midpoint=True, new_classes=True, loss="squared_hinge"),
        lambda place: (place(X), Y),
    ),
    "midpoint and kernel": (
        TATML(random_state=0, midpoint=True, kernel=KernelMap(n_landmarks=20, random_state=0)),
        lambda place: (place(X), Y),
    ),
    "midpoint of pairs": (TATMLPairs(midpoint=True), lambda place: (place(X[INDEX]), SAME)),
    "ITML": (ITML(random_state=0), lambda place: (place(X), Y)),
    "Maz": (Maz(random_state=0, threshold=1.0), lambda place: (place(X), Y)),
}


PRIORS_ONLY = ("polynomial kernel", "within", "covariance", "clipped", "replaced")
ALL_ON_DEVICE = sorted(set(LEARNERS) - {"ITML", "Maz", "neighbours in units", "search"})


def fitted(name, place):
    model, arguments = LEARNERS[name]
    model = pickle.loads(pickle.dumps(model))
    if arguments is None:
        return model.set_params(preprocessor=place(X)).fit(INDEX, SAME)
    return model.fit(*arguments(place))


def first_maps(model):
    """Return the map of the first block; with midpoints, that of its sums and its centre, too."""
    if hasattr(model, "sum_factors_"):
        return [model.factors_[0], model.sum_factors_[0], model.midpoint_[0]]
    several = isinstance(model.components_, list)
    return [model.components_[0] if several else model.components_]


def assert_same(found, expected, name):
    """Compare two fits; with a kernel, the map of the features themselves."""
    for A, B in zip(first_maps(found), first_maps(expected), strict=True):
        assert_allclose(A, B, atol=1e-8 * np.abs(B).max(), err_msg=name)
    if hasattr(expected, "threshold_"):
        assert_allclose(found.threshold_, expected.threshold_, rtol=1e-8, err_msg=name)


def test_a_fit_is_numpys(places):
    for name in LEARNERS:
        if name in PRIORS_ONLY:
            continue
        places.clear()
        found = fitted(name, lambda array: xp.asarray(array, device=xp.Device("device1")))
        assert STRICT in set(places), name
        places.clear()
        expected = fitted(name, np.asarray)
        assert set(places) == {np.ndarray}, name
        assert_same(found, expected, name)
        assert "_place" not in vars(found)
        assert all(type(value) is not STRICT for value in vars(found.result_).values())


def test_large_samples_whose_prior_is_applied_chunk_by_chunk(monkeypatch):
    """A problem that is copied to a device keeps the factors of its prior."""
    limits = Limits(eager_bytes=1000, svec_bytes=0)
    monkeypatch.setattr(PairSums.of.__func__, "__kwdefaults__", {"limits": limits})
    for name in ("TATML", "ITML", "TATMLNeighbors", "TATMLTriplets"):
        assert_same(fitted(name, xp.asarray), fitted(name, np.asarray), name)


def test_samples_that_are_wide_without_their_copies():
    """Of 30 rows of 8 features, 6 are distinct."""
    few, device = X[:6, :8], xp.Device("device1")
    first, second = np.triu_indices(6, 1)
    pairs, y = np.stack([first, second], axis=1), np.where((first + second) % 2 == 0, 1, -1)
    tuples = TUPLES[:, :4] % 6
    tuples = tuples[[len(set(row)) == 4 for row in tuples.tolist()]]
    for model, given in (
        (TATMLPairs(), (few[pairs], y)),
        (TATMLTriplets(), (few[tuples[:, :3]],)),
        (TATMLQuadruplets(), (few[tuples],)),
    ):
        found, expected = (
            pickle.loads(pickle.dumps(model)).fit(place(given[0]), *given[1:])
            for place in (lambda array: xp.asarray(array, device=device), np.asarray)
        )
        assert_same(found, expected, type(model).__name__)


def test_priors_are_computed_where_the_samples_are(monkeypatch):
    """On a second device, whose arrays NumPy refuses: units, scatters and kernel images, too."""
    device, kinds = xp.Device("device1"), []

    def spy(rows):
        kinds.append((type(rows), getattr(rows, "device", None)))
        return mean_square(rows)

    for module in ("priors", "prepare"):
        monkeypatch.setattr(f"tatml._learning.{module}.mean_square", spy)
    for name in ALL_ON_DEVICE:
        found, expected = (
            fitted(name, place) for place in (lambda a: xp.asarray(a, device=device), np.asarray)
        )
        on_device = [place for place in kinds if place == (STRICT, device)]
        assert len(on_device) == len(kinds) // 2 > 0, name
        assert_allclose(
            np.concatenate([np.ravel(part) for part in found.prior_]),
            np.concatenate([np.ravel(part) for part in expected.prior_]),
            rtol=1e-8,
            atol=1e-8 * max(float(np.max(np.abs(part))) for part in expected.prior_),
        )
        kinds.clear()


def test_embeddings_and_distances_are_where_the_samples_are():
    model = TATML(random_state=0).fit(X, Y)
    for samples in (xp.asarray(X), Blocks(xp.asarray(X))):
        embedded, distances = model.transform(samples), model.pair_distance(INDEX, samples)
        assert type(embedded) is type(distances) is STRICT
        assert_allclose(np.asarray(embedded), model.transform(X), rtol=1e-10)
        assert_allclose(np.asarray(distances), model.pair_distance(INDEX, X), rtol=1e-10)
    distances = model.pair_distance(xp.asarray(X[INDEX]))
    assert type(distances) is STRICT
    assert_allclose(np.asarray(distances), model.pair_distance(INDEX, X), rtol=1e-10)
    with config_context(array_api_dispatch=False):
        assert type(model.transform(xp.asarray(X))) is np.ndarray


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_scores_of_midpoints_are_where_the_samples_are(kernel):
    model = TATML(random_state=0, midpoint=True, kernel=kernel).fit(X, Y)
    expected = model.pair_score(INDEX, X)
    for samples in (xp.asarray(X), Blocks(xp.asarray(X))):
        score = model.pair_score(INDEX, samples)
        assert type(score) is STRICT
        assert_allclose(np.asarray(score), expected, rtol=1e-10, atol=1e-10)
    score = model.pair_score(xp.asarray(X[INDEX]))
    assert_allclose(np.asarray(score), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_matrices_and_blocks(places, kind):
    samples, y = labelled(kind)
    arrays = samples.arrays if isinstance(samples, Blocks) else (samples,)
    placed = Blocks(*(xp.asarray(array) for array in arrays))
    places.clear()
    found, expected = (TATML(random_state=0).fit(data, y) for data in (placed, samples))
    assert STRICT in places
    assert_allclose(found.threshold_, expected.threshold_, rtol=1e-8)
    embedded = np.asarray(found.transform(placed))
    assert_allclose(embedded, expected.transform(samples), rtol=1e-7)


def test_very_many_pairs_are_summed_on_the_host():
    model = TATML(random_state=0, pairs="all", threshold="joint")
    model._most_listed_pairs = 1_000
    few = xp.asarray(X[::2], device=xp.Device("device1"))
    found = pickle.loads(pickle.dumps(model)).fit(few, Y[::2])
    expected = model.fit(X[::2], Y[::2])
    assert found.pairs_ is expected.pairs_ is None
    assert_allclose(found.components_, expected.components_, rtol=1e-8)


@pytest.mark.parametrize("listed", [False, True])
def test_a_prior_on_the_device_of_the_samples_is_that_of_the_host(listed):
    prior = np.diag(1.0 / np.arange(1, X.shape[1] + 1))
    placed = xp.asarray(prior, device=xp.Device("device1"))
    samples = xp.asarray(X, device=xp.Device("device1"))
    found = TATML(random_state=0, prior=[placed] if listed else placed).fit(samples, Y)
    expected = TATML(random_state=0, prior=prior).fit(samples, Y)
    assert_allclose(found.prior_, prior)
    assert_allclose(found.components_, expected.components_, rtol=1e-8)


def test_names_are_kept():
    names = {"names": ["wines"], "row_names": [[f"column {k}" for k in range(X.shape[1])]]}
    found, expected = (
        TATML(random_state=0).fit(Blocks(place(X), **names), Y)
        for place in (xp.asarray, np.asarray)
    )
    assert found.block_names_in_ == expected.block_names_in_ == ("wines",)
    assert found.row_names_in_ == expected.row_names_in_
    assert found.row_names_in_[0][3] == "column 3"


def test_wide_samples_are_embedded_in_their_span(places):
    rng = np.random.default_rng(0)
    wide, y = rng.standard_normal((30, 2100)), np.arange(30) % 2
    found, expected = (TATML(random_state=0).fit(data, y) for data in (xp.asarray(wide), wide))
    assert STRICT in places
    pairs, placed = [[0, 1], [3, 7]], xp.asarray(wide)
    distances = found.pair_distance(pairs, placed)
    assert type(found.transform(placed)) is type(distances) is STRICT
    assert_allclose(np.asarray(distances), expected.pair_distance(pairs, wide), rtol=1e-6)


def test_a_warm_start_begins_on_the_device(places):
    model = TATML(random_state=0, warm_start=True, threshold="joint").fit(xp.asarray(X), Y)
    first = model.n_iter_
    model.fit(xp.asarray(X), Y)
    assert set(places) == {STRICT}
    assert model.n_iter_ < first


def test_dykstra_and_samples_on_the_host_are_solved_by_numpy(places):
    few, y = X[::4], Y[::4]
    found = TATML(solver="dykstra", random_state=0, tol=1e-3, threshold="joint").fit(
        xp.asarray(few), y
    )
    expected = TATML(solver=Newton(), random_state=0, threshold="joint").fit(few, y)
    assert_allclose(found.threshold_, expected.threshold_, rtol=0.05)
    assert STRICT not in places


def test_a_failed_fit_forgets_the_device():
    model = TATML(C=-1.0)
    with pytest.raises(ValueError, match="C"):
        model.fit(xp.asarray(X), Y)
    assert "_place" not in vars(model)


def test_near_pairs_are_computed_from_differences():
    """The other distances come from inner products of samples."""
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((50, 1, 20))
    samples[25:] = samples[:25] + 1e-6 * rng.standard_normal((25, 1, 20))
    twins = np.column_stack([range(25), range(25, 50)])
    pairs = np.vstack([rng.integers(50, size=(300, 2)), twins]).T.copy()
    limits = Limits(by_samples=True)
    sums = PairSums.of([xp.asarray(samples)], *map(xp.asarray, pairs), limits=limits)
    found = sums.evaluate(lambda part, d: d).distances
    exact = np.sum((samples[pairs[0]] - samples[pairs[1]]) ** 2, axis=(1, 2))
    assert_allclose(to_numpy(found), exact, rtol=1e-12)
