"""The learnt space beside the plain one."""

import numpy as np
import pytest
from estimators_helpers import KINDS, arrays_of, labelled
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from tatml import GMML, TATML, Euclidean, TATMLPairs
from tatml.plotting import EmbeddingDisplay

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("closed_figures")

FEW = {"n_pairs_per_class": 40, "random_state": 0}


@pytest.mark.parametrize("kind", KINDS)
def test_both_spaces_are_principal_components(kind):
    X, y = labelled(kind)
    metric = TATML(**FEW).fit(X, y)
    display = EmbeddingDisplay.from_estimator(metric, X, y)
    expected = PCA(2).fit(metric.transform(X))
    assert_allclose(display.learnt, expected.transform(metric.transform(X)), atol=1e-9)
    assert_allclose(display.variances[1], expected.explained_variance_ratio_)
    rows = np.hstack([array.reshape(len(array), -1) for array in arrays_of(X)])
    plain = {
        "vectors": ("Features, standardised", StandardScaler().fit_transform(rows)),
        "matrices": ("Matrices, as given", rows),
    }
    title, table = plain.get(kind, ("Blocks of equal weight", None))
    assert display.axes_[0].get_title() == title
    if table is not None:
        assert_allclose(display.plain, PCA(2).fit_transform(table), atol=1e-9)
    raw = EmbeddingDisplay.from_estimator(metric, X, y, scale=False)
    assert_allclose(raw.plain, PCA(2).fit_transform(rows), atol=1e-9)
    assert raw.axes_[0].get_title() == "Features, as given"


def test_blocks_of_equal_weight_do_not_depend_on_their_units():
    X, y = labelled("two blocks")
    metric = Euclidean().fit(X)
    first = EmbeddingDisplay.from_estimator(metric, X, y)
    big = type(X)(1e4 * X.arrays[0], X.arrays[1])
    second = EmbeddingDisplay.from_estimator(Euclidean().fit(big), big, y)
    assert_allclose(pdist(first.plain), pdist(second.plain), rtol=1e-6)


def test_axes_are_equal_and_classes_have_names():
    X, y = load_wine(return_X_y=True)
    metric = TATML(**FEW).fit(X, y)
    words = ["Barolo", "Grignolino", "Barbera"]
    figure, axes = plt.subplots(1, 2)
    display = EmbeddingDisplay.from_estimator(
        metric, X, y, class_names=words, axes=axes, name="TATML"
    )
    assert display.figure_ is figure
    assert [ax.get_title() for ax in axes] == ["Features, standardised", "TATML"]
    figure.draw_without_rendering()
    for ax, rows, shares in zip(
        axes, (display.plain, display.learnt), display.variances, strict=True
    ):
        box = ax.get_window_extent()
        width, height = np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())
        assert width / box.width == pytest.approx(height / box.height)  # one unit
        drawn = np.concatenate([np.asarray(part.get_offsets()) for part in ax.collections])
        assert_allclose(np.sort(drawn, axis=0), np.sort(rows, axis=0))
        assert [len(part.get_offsets()) for part in ax.collections] == [59, 71, 48]
        assert ax.get_xlabel() == f"component 1 ({shares[0]:.0%} of the variance)"
        assert ax.get_ylabel() == f"component 2 ({shares[1]:.0%} of the variance)"
    legend = [text.get_text() for text in axes[1].get_legend().get_texts()]
    assert legend == words
    colours = {tuple(part.get_facecolor()[0]) for part in axes[1].collections}
    assert len(colours) == 3


def test_many_samples_are_thinned_and_many_classes_have_no_legend():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(40, size=300)
    metric = Euclidean().fit(X)
    display = EmbeddingDisplay.from_estimator(metric, X, y, max_samples=120)
    assert display.learnt.shape == display.plain.shape == (120, 2)
    again = EmbeddingDisplay.from_estimator(metric, X, y, max_samples=120)
    assert_array_equal(display.labels, again.labels)
    assert display.axes_[1].get_legend() is None
    whole = EmbeddingDisplay.from_estimator(metric, X)
    assert len(whole.learnt) == 300
    assert whole.axes_[1].get_legend() is None
    assert len(whole.axes_[0].collections) == 1


@pytest.mark.parametrize("n_samples", [2000, 2001])
def test_many_points_are_drawn_as_one_picture(n_samples):
    rows = np.random.default_rng(0).normal(size=(n_samples, 2))
    display = EmbeddingDisplay(rows, rows, None, np.full((2, 2), 0.5), "Features").plot()
    for ax in display.axes_:
        assert ax.collections[0].get_rasterized() == (n_samples > 2000)


def test_one_dimension_is_drawn_on_a_line():
    X, y = labelled()
    display = EmbeddingDisplay.from_estimator(TATML(n_components=1, **FEW).fit(X, y), X, y)
    assert_array_equal(display.learnt[:, 1], 0)
    assert_allclose(display.variances[1], [1, 0])


def test_kernels_and_sparse_tables_are_drawn():
    X, y = labelled()
    metric = TATML(kernel="rbf", **FEW).fit(X, y)
    display = EmbeddingDisplay.from_estimator(metric, X, y)
    assert_allclose(display.learnt, PCA(2).fit_transform(metric.transform(X)), atol=1e-9)
    K = X @ X.T
    kernel = EmbeddingDisplay.from_estimator(TATML(kernel="precomputed", **FEW).fit(K, y), K, y)
    assert kernel.axes_[0].get_title() == "Kernel"
    assert_allclose(pdist(kernel.plain), pdist(PCA(2).fit_transform(X)), rtol=1e-6)
    rng = np.random.default_rng(0)
    table = csr_array(rng.random((30, 60)) * (rng.random((30, 60)) < 0.3))
    metric = TATML(**FEW).fit(table, np.arange(30) % 2)
    sparse = EmbeddingDisplay.from_estimator(metric, table)
    scaled = StandardScaler(with_mean=False).fit_transform(table).toarray()
    assert_allclose(pdist(sparse.plain), pdist(PCA(2).fit_transform(scaled)), rtol=1e-6)


def test_pair_estimators_and_constant_samples_are_drawn():
    X, y = labelled()
    verifier = TATMLPairs(preprocessor=X).fit([[0, 1], [2, 3], [4, 5]], [1, -1, 1])
    assert EmbeddingDisplay.from_estimator(verifier, X).learnt.shape == (60, 2)
    constant = EmbeddingDisplay.from_estimator(GMML(**FEW).fit(X, y), np.ones((5, 4)))
    assert_array_equal(constant.variances[0], 0)
    assert np.ptp(constant.learnt) < 1e-12 * np.ptp(X)


def test_what_cannot_be_drawn_is_refused():
    X, y = labelled()
    metric = Euclidean().fit(X)
    for given, error, message in (
        ({"y": y[1:]}, ValueError, "y: expected one value for each of the 60 samples, got 59"),
        ({"y": y[:, None]}, ValueError, r"y: expected one label per sample, got shape \(60, 1\)"),
        ({"max_samples": 2}, ValueError, "max_samples: expected .* got 2"),
        ({"scale": "yes"}, TypeError, "scale: expected"),
        ({"random_state": "x"}, (TypeError, ValueError), "random_state: expected"),
        ({"y": y, "class_names": ["a"]}, ValueError, "class_names: expected .* 3, got 1"),
    ):
        with pytest.raises(error, match=message):
            EmbeddingDisplay.from_estimator(metric, X, **given)
    with pytest.raises(ValueError, match="X has 3 features"):
        EmbeddingDisplay.from_estimator(metric, X[:, :3], y)
    with pytest.raises(NotFittedError):
        EmbeddingDisplay.from_estimator(TATML(), X, y)
    classifier = LogisticRegression().fit(X, y)
    with pytest.raises(TypeError, match="got LogisticRegression without transform"):
        EmbeddingDisplay.from_estimator(classifier, X, y)
