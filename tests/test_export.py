"""Exported files: what they contain, and that the scorer of docs/deployment.md reads them."""

import re
from pathlib import Path

import numpy as np
import pytest
from good_calls import (
    ESTIMATORS,
    FEW,
    LABEL_ESTIMATORS,
    SHAPES,
    classes,
    fitted,
    index_pairs,
    samples,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from tatml import GMML, TATML, Blocks, Euclidean, PairThreshold, TATMLNeighbors, TATMLPairs
from tatml.features import KernelMap
from tatml.io import export, load_model, save_model

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "deployment.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
EXPORT, SCORER, COMPARE, KERNEL, MIDPOINT, SEARCH, RULES, CALIBRATE = CODE
INDEX, SIGNS = index_pairs()
METRICS = sorted(set(ESTIMATORS) - {"PairThreshold"})


def run(code, **names):
    """Run code of the page and return its variables."""
    exec(code, names)
    return names


def scorer_of(path):
    return run(SCORER)["Scorer"](path)


def kernel_scorer_of(path):
    return run(SCORER + KERNEL)["KernelScorer"](path)


def blocks_of(X):
    return X.arrays if isinstance(X, Blocks) else [X]


def assert_same_rows(rows, expected, **options):
    """Assert that rows are equal up to one row, that of the centre, subtracted from all."""
    assert_allclose(rows - rows[0], expected - expected[0], **options)


def moved(X, offset):
    return Blocks(*(array + offset for array in X.arrays)) if isinstance(X, Blocks) else X + offset


def read(path):
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def clusters(n_identities, n_each, seed=0):
    """Samples of identities, sorted by identity."""
    rng = np.random.default_rng(seed)
    identity = np.repeat(np.arange(n_identities), n_each)
    means = 2 * rng.normal(size=(n_identities, 6))
    return means[identity] + rng.normal(size=(len(identity), 6)), identity


# Scores


def test_the_scorer_refuses_kernels_that_it_does_not_know(tmp_path):
    X = np.abs(samples("vectors"))
    model = TATML(kernel="chi2", n_pairs_per_class=10, random_state=0).fit(X, classes())
    scorer = kernel_scorer_of(export(model, tmp_path / "metric.npz"))
    with pytest.raises(ValueError, match="kernel: expected one that this scorer knows, got chi2"):
        scorer.embed(X)


@pytest.mark.parametrize(
    "kernel",
    ["rbf", "linear", "laplacian", KernelMap("polynomial", n_landmarks=5, keep_features=False)],
    ids=str,
)
@pytest.mark.parametrize("kind", SHAPES)
def test_the_scorer_of_kernels_scores_as_the_estimator_does(kernel, tmp_path, kind):
    X = samples(kind)
    model = TATML(kernel=kernel, n_pairs_per_class=10, random_state=0).fit(X, classes())
    path = export(model, tmp_path / f"{kind}.npz")
    rows = kernel_scorer_of(path).embed(*blocks_of(X))
    assert_same_rows(rows, model.transform(X), rtol=1e-10, atol=1e-11, err_msg=kind)
    with pytest.raises(ValueError, match="the format 'tatml metric 1', got tatml kernel"):
        scorer_of(path)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("kind", SHAPES)
def test_the_scorer_scores_as_the_estimator_does(name, tmp_path, kind):
    model, X = fitted(ESTIMATORS[name], kind), samples(kind)
    scorer = scorer_of(export(model, tmp_path / f"{kind}.npz"))
    rows = scorer.embed(*blocks_of(X))
    assert_same_rows(rows, model.transform(X), rtol=1e-12, atol=1e-13, err_msg=kind)
    distances = np.linalg.norm(rows[INDEX[:, 0]] - rows[INDEX[:, 1]], axis=1)
    assert_allclose(distances, model.pair_distance(INDEX, X), rtol=1e-12, err_msg=kind)
    assert_array_equal(distances < scorer.threshold, model.predict_pairs(INDEX, X) > 0)
    probability = scorer.probability(distances)
    assert_allclose(probability, model.pair_probability(INDEX, X), rtol=1e-12, err_msg=kind)


@pytest.mark.parametrize("make", [TATML, GMML, Euclidean, TATMLNeighbors, TATMLPairs])
@pytest.mark.parametrize("kind", SHAPES)
def test_far_from_the_origin_the_scorer_scores_as_the_estimator_does(make, tmp_path, kind):
    """The differences of samples are exact, and so are distances that are computed from them."""
    X = moved(samples(kind), 1e8)
    model = make(**FEW) if make in LABEL_ESTIMATORS else make(preprocessor=X)
    model.fit(*(X, classes()) if make in LABEL_ESTIMATORS else (INDEX, SIGNS))
    model.calibrate_probability(INDEX, SIGNS, X=X)
    scorer = scorer_of(export(model, tmp_path / "metric.npz"))
    rows = scorer.embed(*blocks_of(X))
    distances = np.linalg.norm(rows[INDEX[:, 0]] - rows[INDEX[:, 1]], axis=1)
    exact = 0.0
    for m, array in enumerate(blocks_of(X)):
        A = scorer.arrays[f"components_{m}"]
        difference = (array[INDEX[:, 0]] - array[INDEX[:, 1]]).reshape(len(INDEX), A.shape[1], -1)
        exact = exact + np.sum((A @ difference) ** 2, axis=(1, 2))
    assert_allclose(distances, np.sqrt(exact), rtol=1e-12, err_msg=kind)
    assert_allclose(model.pair_distance(INDEX, X), np.sqrt(exact), rtol=1e-12, err_msg=kind)
    probability = scorer.probability(distances)
    assert_allclose(probability, model.pair_probability(INDEX, X), rtol=1e-12, err_msg=kind)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("kind", SHAPES)
def test_far_from_the_origin_the_scorer_of_kernels_scores_as_the_estimator_does(
    kernel, tmp_path, kind
):
    X = moved(samples(kind), 1e8)
    model = TATML(kernel=kernel, **FEW).fit(X, classes())
    rows = kernel_scorer_of(export(model, tmp_path / "metric.npz")).embed(*blocks_of(X))
    distances = np.linalg.norm(rows[INDEX[:, 0]] - rows[INDEX[:, 1]], axis=1)
    assert_allclose(distances, model.pair_distance(INDEX, X), rtol=1e-12, err_msg=kind)


def test_files_without_a_centre_are_read(tmp_path):
    """Those of versions that wrote none; a scorer that knows no centre reads the new files."""
    X = samples("blocks")
    arrays = read(export(fitted(TATML, "blocks"), tmp_path / "metric.npz"))
    without = {name: array for name, array in arrays.items() if "center" not in name}
    assert len(without) == len(arrays) - 2
    np.savez(tmp_path / "old.npz", **without)
    rows = scorer_of(tmp_path / "old.npz").embed(*X.arrays)
    assert_allclose(rows, fitted(TATML, "blocks").transform(X), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n_components", [1, [2, 1]])
def test_reduced_metrics_are_exported(n_components, tmp_path):
    kind = "vectors" if n_components == 1 else "blocks"
    X = samples(kind)
    model = Euclidean(n_components=n_components).fit(X, np.arange(12) % 3)
    arrays = read(export(model, tmp_path / "metric.npz"))
    widths = [1] if n_components == 1 else n_components
    assert [len(arrays[f"components_{m}"]) for m in range(len(widths))] == widths
    rows = scorer_of(tmp_path / "metric.npz").embed(*blocks_of(X))
    assert_same_rows(rows, model.transform(X), rtol=1e-12, atol=1e-13)


def test_images_agree(tmp_path):
    """All pairs of digits, near and far, in units of their own."""
    X, y = load_digits(return_X_y=True)
    model = TATML(random_state=0).fit(X[:400], y[:400])
    rows = scorer_of(export(model, tmp_path / "metric.npz")).embed(X[400:600])
    pairs = np.stack(np.triu_indices(200, 1), axis=1)
    distances = np.linalg.norm(rows[pairs[:, 0]] - rows[pairs[:, 1]], axis=1)
    assert_allclose(distances, model.pair_distance(pairs, X[400:600]), rtol=1e-12)


# The file


def test_the_file_contains_what_the_page_says_and_nothing_else(tmp_path):
    model = fitted(TATML, "blocks")
    arrays = read(export(model, tmp_path / "metric.npz"))
    types = {name: (array.shape, array.dtype.kind) for name, array in arrays.items()}
    assert types == {
        "format": ((), "U"),
        "block_shapes": ((2, 2), "i"),
        "components_0": ((3, 3), "f"),
        "components_1": ((2, 2), "f"),
        "center_0": ((3, 2), "f"),
        "center_1": ((2, 1), "f"),
        "threshold": ((), "f"),
        "likelihood_ratio": ((2,), "f"),
        "same_rate": ((), "f"),
    }
    table = PAGE[PAGE.index("## The file") : PAGE.index("## A scorer")]
    for name in types:
        assert f"`{name.replace('_1', '_0')}`" in table
    assert f'"{arrays["format"]}"' in table


def test_without_threshold_and_calibration_there_is_no_entry(tmp_path):
    path = export(Euclidean().fit(samples("vectors")), tmp_path / "metric.npz")
    assert sorted(read(path)) == ["block_shapes", "center_0", "components_0", "format"]
    assert scorer_of(path).threshold is None
    model = Euclidean().fit(samples("vectors")).set_threshold(1.5)
    assert scorer_of(export(model, path)).threshold == 1.5


def test_a_loaded_model_is_exported_as_the_estimator_is(tmp_path):
    pytest.importorskip("skops")
    model = fitted(TATML, "blocks")
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    first, second = (
        read(export(model, tmp_path / "a.npz")),
        read(export(loaded, tmp_path / "b.npz")),
    )
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_another_format_is_refused_by_the_scorer(tmp_path):
    arrays = read(export(fitted(TATML, "vectors"), tmp_path / "metric.npz"))
    np.savez(tmp_path / "newer.npz", **arrays | {"format": "tatml metric 3"})
    with pytest.raises(
        ValueError, match="expected the format 'tatml metric 1', got tatml metric 3"
    ):
        scorer_of(tmp_path / "newer.npz")


def test_a_failed_export_keeps_the_file(tmp_path):
    path = export(fitted(TATML, "vectors"), tmp_path / "metric.npz")
    before = path.read_bytes()
    broken = Euclidean().fit(samples("vectors"))
    broken.components_ = np.full((3, 3), np.nan)
    with pytest.raises(ValueError, match="components_: expected finite numbers, got NaN"):
        export(broken, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["metric.npz"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TATML(), NotFittedError, "This TATML instance is not fitted yet"),
        (
            lambda: PairThreshold("precomputed"),
            TypeError,
            "estimator: expected one with threshold_, got PairThreshold without threshold_; call",
        ),
        (
            lambda: PCA().fit(samples("vectors")),
            TypeError,
            "estimator: expected one with components_, .*got PCA without block_shapes_",
        ),
        (lambda: 3.0, TypeError, "estimator"),
    ],
)
def test_only_metrics_are_exported(make, error, message, tmp_path):
    path = tmp_path / "metric.npz"
    with pytest.raises(error, match=message):
        export(make(), path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("no/such/folder.npz", FileNotFoundError, "expected an existing folder"),
        (".", IsADirectoryError, "expected a file or an unused name, got a folder"),
    ],
)
def test_where_nothing_can_be_written_is_refused(name, error, message, tmp_path):
    with pytest.raises(error, match=message):
        export(fitted(TATML, "vectors"), tmp_path / name)


# The other code of the page


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    """From a fit to a rule for several samples per identity, as a reader would run it."""
    monkeypatch.chdir(tmp_path)
    X, y = clusters(20, 8)
    held_out, identity = clusters(20, 8, seed=1)
    every = np.stack(np.triu_indices(len(held_out), 1), axis=1)
    signs = np.where(identity[every[:, 0]] == identity[every[:, 1]], 1, -1)
    names = run(EXPORT + SCORER, X=X, y=y, pairs=every, signs=signs, held_out=held_out)
    metric = names["metric"]
    assert metric.same_rate_ == read("metric.npz")["same_rate"] == 0.01

    names |= {"first": held_out[every[:, 0]], "second": held_out[every[:, 1]]}
    names = run(COMPARE, **names)
    assert_array_equal(names["same"], metric.predict_pairs(every, held_out) > 0)
    assert_allclose(names["probability"], metric.pair_probability(every, held_out), rtol=1e-12)

    for row in range(0, 160, 7):
        names |= {"enrolled": held_out, "one_sample": held_out[row]}
        names = run(SEARCH, **names)
        with_all = np.stack([np.full(160, row), np.arange(160)], axis=1)
        assert_array_equal(
            names["found"], np.flatnonzero(metric.predict_pairs(with_all, held_out) > 0)
        )

    names = run(RULES, **names | {"identity": identity})
    assert len(names["nearest"]) == len(names["to_mean"]) == 20
    own = identity == identity[row]
    rows = metric.transform(held_out)
    apart = np.linalg.norm(rows - rows[row], axis=1)
    assert names["nearest"][identity[row]] == apart[own].min() == 0
    assert names["nearest"][3] == pytest.approx(apart[identity == 3].min())
    mean = rows[identity == 3].mean(axis=0)
    assert names["to_mean"][3] == pytest.approx(np.linalg.norm(rows[row] - mean))


def test_a_rule_for_several_samples_is_calibrated_on_its_own_distances():
    rng = np.random.default_rng(0)
    signs = np.repeat([1, -1], 300)
    distances = np.abs(rng.normal(np.where(signs > 0, 1, 3), 0.7))
    judge = run(CALIBRATE, rule_distances=distances, rule_signs=signs)["judge"]
    assert np.mean(distances[signs < 0] < judge.threshold_) <= 0.05
    assert judge.predict_proba(distances).shape == (600, 2)
