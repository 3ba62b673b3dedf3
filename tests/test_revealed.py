"""What files of models reveal of the training samples is what they say."""

import io as streams
import zipfile

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from tatml import (
    GMML,
    ITML,
    TATML,
    TATMLCV,
    Blocks,
    Euclidean,
    Maz,
    PairThreshold,
    TATMLNeighbors,
    TATMLPairs,
    TATMLQuadruplets,
    TATMLRegression,
    TATMLTriplets,
)
from tatml.features import KernelMap
from tatml.io import export, load_model, save_model

pytest.importorskip("skops.io")

FEW = {"n_pairs_per_class": 20, "random_state": 0}
N = 30
Y = np.arange(N) % 3
INDEX = np.stack(np.triu_indices(N, 1), axis=1)[::4]
SIGNS = np.where(Y[INDEX[:, 0]] == Y[INDEX[:, 1]], 1, -1)
TRIPLETS = np.array([[i, i + 3, i + 1] for i in range(N - 3)])
QUADRUPLETS = np.array([[i, i + 3, i + 1, i + 2] for i in range(N - 3)])
MEAN = "the mean of the training samples"
TELLS = "which tells training samples from others"


def table(n_features, seed=0):
    """Samples of three classes that differ in the first columns."""
    X = np.random.default_rng(seed).normal(size=(N, n_features))
    X[:, :3] += 4 * np.eye(3)[Y]
    return X


def saved(estimator, folder):
    """Save a model; return it loaded again, and all arrays in the file."""
    path = save_model(estimator, folder / "model.skops")
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        arrays = [np.load(streams.BytesIO(archive.read(name))) for name in names]
    return load_model(path), arrays


def exported(estimator, folder):
    with np.load(export(estimator, folder / "metric.npz"), allow_pickle=False) as file:
        return dict(file)


def samples_among(rows, X):
    """Return how many samples are among some rows, up to rounding."""
    apart = np.max(np.abs(rows[:, None] - X), axis=2)
    return int(np.sum(np.min(apart, axis=0) < 1e-9))


def fit(estimator, X):
    """Fit an estimator of any kind to the same samples."""
    if isinstance(estimator, TATMLPairs | PairThreshold):
        return estimator.set_params(preprocessor=X).fit(INDEX, SIGNS)
    if isinstance(estimator, TATMLTriplets | TATMLQuadruplets):
        tuples = TRIPLETS if isinstance(estimator, TATMLTriplets) else QUADRUPLETS
        return estimator.set_params(preprocessor=X).fit(tuples)
    return estimator.fit(X, Y)


NARROW = [
    TATML(**FEW),
    TATML(warm_start=True, **FEW),
    TATMLCV(TATML(**FEW), {"C": [1.0, 10.0]}, cv=2),
    Maz(**FEW),
    ITML(**FEW),
    GMML(**FEW),
    Euclidean(**FEW),
    TATMLNeighbors(random_state=0),
    TATMLRegression(random_state=0),
    TATMLPairs(),
    TATMLTriplets(),
    TATMLQuadruplets(),
]


@pytest.mark.parametrize("estimator", NARROW, ids=lambda estimator: type(estimator).__name__)
def test_narrow_models_hold_the_mean_and_no_sample(estimator, tmp_path):
    X = table(4)
    model, arrays = saved(fit(estimator, X), tmp_path)
    assert model.metadata["reveals"] == [MEAN]
    for array in [*arrays, *exported(model, tmp_path).values()]:
        assert array.dtype.kind != "f" or not np.isin(array, X).any()
        assert array.size < 4 * N
    center = model.estimator._center[0][:, 0]
    assert_array_equal(center, exported(model, tmp_path)["center_0"][:, 0])
    assert np.all((X.min(axis=0) < center) & (center < X.max(axis=0)))


def test_the_mean_is_that_of_the_samples(tmp_path):
    X = Blocks(table(6).reshape(N, 3, 2), table(3, seed=1))
    model, _ = saved(TATML(**FEW).fit(X, Y), tmp_path)
    for mean, array in zip(model.estimator._center, X.arrays, strict=True):
        assert_allclose(mean, array.mean(axis=0), rtol=1e-12)


def test_calibrations_hold_no_sample(tmp_path):
    X = table(4)
    metric = TATML(**FEW).fit(X, Y).calibrate_probability(INDEX, SIGNS, X=X)
    metric.calibrate_threshold(INDEX, SIGNS, X=X, strategy="accuracy")
    model, arrays = saved(metric, tmp_path)
    assert model.metadata["reveals"] == [MEAN]
    assert max(array.size for array in arrays) <= 16


def test_a_threshold_of_a_given_distance_holds_nothing(tmp_path):
    model, arrays = saved(fit(PairThreshold(), table(4)), tmp_path)
    assert model.metadata["reveals"] == []
    assert max((array.size for array in arrays), default=0) <= 2


@pytest.mark.parametrize("n_landmarks", [N, 10])
@pytest.mark.parametrize(
    "make", [TATML, TATMLNeighbors, TATMLRegression, TATMLPairs, TATMLTriplets]
)
def test_models_with_a_kernel_hold_landmarks(make, n_landmarks, tmp_path):
    X = table(4)
    estimator = fit(make(kernel=KernelMap(n_landmarks=n_landmarks), random_state=0), X)
    model, _ = saved(estimator, tmp_path)
    share = f"{n_landmarks} of {N} training samples (landmarks of the kernel)"
    assert model.metadata["reveals"] == [share, MEAN]
    (held,) = model.estimator.kernel_map_.maps_
    assert samples_among(held.landmarks * held.scale + held.center, X) == n_landmarks
    file = exported(model, tmp_path)
    rows = file["landmarks_0"] * file["scale_0"] + file["center_0"]
    assert samples_among(rows, X) == n_landmarks


def test_models_with_a_precomputed_kernel_hold_positions(tmp_path):
    X = table(4)
    K = X @ X.T
    model, arrays = saved(TATML(kernel="precomputed", **FEW).fit(K, Y), tmp_path)
    share = f"{N} of {N} training samples"
    assert model.metadata["reveals"] == [
        f"the positions of {share} in the kernel matrix (landmarks of the kernel)"
    ]
    assert not any(np.isin(array, K).any() for array in arrays if array.dtype.kind == "f")


def test_the_samples_of_a_kernel_that_was_given_fitted_are_not_saved(tmp_path):
    other, X = np.random.default_rng(5).normal(size=(17, 4)), table(4)
    kernel = KernelMap().fit(other)
    model = TATML(kernel=kernel, **FEW)
    for estimator in (model, TATMLCV(model, {"kernel": [None, kernel]}, cv=2)):
        _, arrays = saved(estimator.fit(X, Y), tmp_path)
        assert not any(array.shape == (17, 4) for array in arrays)
        assert hasattr(kernel, "maps_")  # the estimator is as it was
        assert model.kernel is kernel
    assert estimator.param_grid["kernel"][1] is kernel


def test_the_samples_of_the_estimator_of_a_search_are_not_saved(tmp_path):
    X = table(4)
    inner = TATML(preprocessor=X, **FEW)
    search = TATMLCV(inner.fit(X, Y), {"C": [1.0]}, cv=2)
    model, arrays = saved(search.fit(X, Y), tmp_path)
    assert vars(model.estimator.estimator) == vars(TATML(**FEW))
    assert not any(np.isin(array, X).any() for array in arrays if array.dtype.kind == "f")
    assert inner.preprocessor is X


def test_models_of_wide_sparse_tables_hold_the_samples(tmp_path):
    X = scipy.sparse.random(N, 1200, density=0.03, random_state=0, format="csr")
    X = scipy.sparse.csr_array(X + scipy.sparse.csr_array(np.eye(3)[Y] @ np.eye(3, 1200)))
    model, _ = saved(TATML(clip_outliers=False, **FEW).fit(X, Y), tmp_path)
    assert model.metadata["reveals"] == [f"{N} training samples (the span of block 0)"]
    held = model.estimator.factors_[0].span.rows.table.toarray()
    assert samples_among(held, X.toarray()) == N


def residuals(basis, X, mean):
    """Return the share of each sample's length outside the span of some orthonormal rows."""
    rows = X - mean
    return np.linalg.norm(rows - rows @ basis.T @ basis, axis=1) / np.linalg.norm(rows, axis=1)


@pytest.mark.filterwarnings("ignore:threshold_: ")  # distances in many columns are alike
@pytest.mark.parametrize("make", [TATML, Maz, ITML, TATMLNeighbors, TATMLPairs, TATMLTriplets])
def test_wide_models_hold_a_basis_that_tells_training_samples_from_others(make, tmp_path):
    X, others = table(1100), table(1100, seed=1)
    given = {} if make in (Maz, ITML) else {"clip_outliers": False}
    model, _ = saved(fit(make(random_state=0, **given), X), tmp_path)
    first, mean = model.metadata["reveals"]
    assert mean == MEAN
    words = f"a basis of the span of the training samples in block 0 ({N} of 1100 dimensions), "
    assert first == words + TELLS
    span, center = model.estimator.factors_[0].span, model.estimator._center[0][:, 0]
    shares = [residuals(span.rows, (S - center) / span.unit, 0) for S in (X, others)]
    assert shares[0].max() < 1e-12
    assert shares[1].min() > 0.9


@pytest.mark.parametrize("make", [TATML, GMML])
def test_matrices_of_wide_blocks_reveal_the_span(make, tmp_path):
    """All eigenvalues outside the span are equal, and no other."""
    X, others = table(100), table(100, seed=1)
    model, _ = saved(make(prior="identity", **FEW).fit(X, Y), tmp_path)
    words = "a matrix from which the span of the training samples in block 0 can be computed "
    assert model.metadata["reveals"] == [f"{words}(at most {N} of 100 dimensions), {TELLS}", MEAN]
    A = exported(model, tmp_path)["components_0"]
    values, vectors = np.linalg.eigh(A.T @ A)
    inside = np.abs(values / np.median(values) - 1) > 1e-6
    assert inside.sum() < N
    center = model.estimator._center[0][:, 0]
    shares = [residuals(vectors[:, inside].T, S, center) for S in (X, others)]
    assert shares[0].max() < 1e-6
    assert shares[1].min() > 0.5


def test_components_of_wide_blocks_are_directions_in_the_span(tmp_path):
    X = table(1100)
    for make, prior in ((TATML, {"prior": "identity"}), (Euclidean, {})):
        model, _ = saved(make(n_components=3, **prior, **FEW).fit(X, Y), tmp_path)
        words = (
            f"3 directions in the span of the training samples in block 0, which has at most {N}"
        )
        assert model.metadata["reveals"] == [f"{words} of 1100 dimensions", MEAN]
        basis = np.linalg.qr((X - X.mean(axis=0)).T)[0].T
        assert residuals(basis, exported(model, tmp_path)["components_0"], 0).max() < 1e-9


@pytest.mark.filterwarnings("ignore:threshold_: ")  # distances in many columns are alike
def test_the_identity_reveals_no_span(tmp_path):
    model, _ = saved(Euclidean(**FEW).fit(table(100), Y), tmp_path)
    assert model.metadata["reveals"] == [MEAN]


@pytest.mark.filterwarnings("ignore:threshold_: ")  # distances in many columns are alike
def test_components_of_smaller_blocks_come_with_matrices_that_reveal_the_span(tmp_path):
    """The file holds the prior and the solution in full size, besides the components."""
    X, others = table(100), table(100, seed=1)
    model, _ = saved(TATML(n_components=3, prior="identity", **FEW).fit(X, Y), tmp_path)
    assert model.metadata["reveals"][0].startswith("a matrix from which the span of the training")
    L = model.estimator.result_.L[0]
    values, vectors = np.linalg.eigh(L @ L.T)
    inside = np.abs(values / np.median(values) - 1) > 1e-6
    center = model.estimator._center[0][:, 0]
    assert residuals(vectors[:, inside].T, X, center).max() < 1e-6
    assert residuals(vectors[:, inside].T, others, center).min() > 0.5


@pytest.mark.filterwarnings("ignore:threshold_: ")
def test_samples_that_repeat_count_once(tmp_path):
    X = np.repeat(table(100), 3, axis=0)
    model, _ = saved(TATML(**FEW).fit(X, np.repeat(Y, 3)), tmp_path)
    assert f"(at most {N} of 100 dimensions), {TELLS}" in model.metadata["reveals"][0]
