"""Shares of features in distances, and permutation importance: what must hold, tables, plots."""

import sys
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from estimators_helpers import KINDS, arrays_of, as_list, labelled, labelled_pairs
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from tatml import GMML, TATML, Blocks, Euclidean, TATMLPairs
from tatml.inspection import feature_shares, permutation_importance
from tatml.plotting import BlockShareDisplay, FeatureShareDisplay, PermutationImportanceDisplay

FEW = {"n_pairs_per_class": 40, "random_state": 0}


def fitted(kind="vectors", make=TATML, **options):
    X, y = labelled(kind)
    return make(**FEW | options).fit(X, y), X, *labelled_pairs(y)


def with_components(components, X):
    """Return a metric with given components; `fit` learns nothing."""
    metric = Euclidean().fit(X)
    metric.components_ = components
    return metric


def differences(X, pairs):
    return [array[pairs[:, 0]] - array[pairs[:, 1]] for array in arrays_of(X)]


# Shares


@pytest.mark.parametrize("kind", KINDS)
def test_shares_sum_to_one_and_are_the_parts_of_the_distances(kind):
    """The part of row f is Σ_j Δ_fj (WΔ)_fj, computed pair by pair."""
    metric, X, pairs, y = fitted(kind)
    shares = feature_shares(metric, pairs, y, X)
    for values, sign in ((shares.similar, 1), (shares.dissimilar, -1)):
        assert values.sum() == pytest.approx(1, abs=1e-14)
        chosen = pairs[y == sign]
        parts = [
            np.einsum("kfj,fg,kgj->f", delta, A.T @ A, delta)
            for delta, A in zip(differences(X, chosen), as_list(metric.components_), strict=True)
        ]
        total = np.sum(metric.pair_distance(chosen, X) ** 2)
        assert_allclose(values, np.concatenate(parts) / total, atol=1e-12)
    assert_allclose(shares.difference, shares.dissimilar - shares.similar)


def test_shares_of_a_diagonal_metric_are_known():
    """D = 4 Δ_0² + Δ_1²: of the pair (0, 0), (1, 2) both have one half, of (1, 1) 4/5 and 1/5."""
    X = np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 1.0]])
    metric = with_components(np.diag([2.0, 1.0]), X)
    shares = feature_shares(metric, [[0, 1], [0, 2]], [1, -1], X)
    assert_allclose(shares.similar, [0.5, 0.5])
    assert_allclose(shares.dissimilar, [0.8, 0.2])


def test_a_feature_that_subtracts_has_a_negative_share():
    """D = (Δ_0 − Δ_1)² with Δ = (3, 1): the parts are 3·2 and −1·2 of 4."""
    X = np.array([[0.0, 0.0], [3.0, 1.0], [1.0, 0.0]])
    metric = with_components(np.array([[1.0, -1.0], [0.0, 0.0]]), X)
    shares = feature_shares(metric, [[0, 1], [0, 2]], [1, -1], X)
    assert_allclose(shares.similar, [1.5, -0.5])
    assert_allclose(shares.dissimilar, [1.0, 0.0])


def test_shares_are_shapley_values():
    """The mean, over all orders, of what a feature adds when it is let differ."""
    metric, X, pairs, y = fitted(make=GMML)
    W, similar = metric.get_mahalanobis_matrix(), pairs[y == 1]
    delta = differences(X, similar)[0][:, :, 0]
    orders = list(permutations(range(4)))
    added = np.zeros(4)
    for order in orders:
        before, free = 0.0, np.zeros(4)
        for feature in order:
            free[feature] = 1
            now = np.einsum("kf,fg,kg->", delta * free, W, delta * free)
            added[feature] += now - before
            before = now
    expected = added / len(orders) / np.einsum("kf,fg,kg->", delta, W, delta)
    assert_allclose(feature_shares(metric, pairs, y, X).similar, expected, atol=1e-12)


def test_shares_do_not_depend_on_units_order_or_direction_of_pairs():
    X, y = labelled()
    pairs, signs = labelled_pairs(y)
    metric = TATML(**FEW).fit(X, y)
    expected = feature_shares(metric, pairs, signs, X)
    units = np.array([1e-3, 1.0, 50.0, 7.0])
    other = with_components(metric.components_ / units, X)
    order = np.random.default_rng(0).permutation(len(pairs))
    for found in (
        feature_shares(other, pairs, signs, X * units),
        feature_shares(metric, pairs[order], signs[order], X),
        feature_shares(metric, pairs[:, ::-1], signs, X),
        feature_shares(metric, pairs, signs, X + 1e3),
        feature_shares(metric, X[pairs], signs),
    ):
        assert_allclose(found.similar, expected.similar, atol=1e-9)
        assert_allclose(found.dissimilar, expected.dissimilar, atol=1e-9)


def test_features_of_a_block_sum_to_the_share_of_the_block():
    metric, X, pairs, y = fitted("three blocks")
    features = feature_shares(metric, pairs, y, X)
    blocks = feature_shares(metric, pairs, y, X, by="blocks")
    ends = np.cumsum([n for n, _ in metric.block_shapes_])[:-1]
    assert_allclose([part.sum() for part in np.split(features.similar, ends)], blocks.similar)
    assert_allclose([part.sum() for part in np.split(features.dissimilar, ends)], blocks.dissimilar)
    pytest.importorskip("matplotlib").use("Agg")
    display = BlockShareDisplay.from_estimator(metric, pairs, y, X)
    assert_allclose(display.shares, [blocks.similar, blocks.dissimilar])


@pytest.mark.parametrize("sparse", [False, True])
def test_shares_of_wide_blocks_need_no_matrix(sparse):
    """With more than 1,000 rows and few samples there is no W; the formula uses pair_distance."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 1001)) * (rng.random((20, 1001)) < 0.1), np.arange(20) % 2
    X = csr_array(X) if sparse else X
    metric = TATML(**FEW).fit(X, y)
    assert not hasattr(metric, "components_")
    pairs, signs = labelled_pairs(y)
    shares = feature_shares(metric, pairs, signs, X)
    E = np.eye(1001)[:5]
    W = metric._component_list()[0].weigh(E[:, :, None])[:, :, 0] @ np.eye(1001)
    chosen = pairs[signs == 1]
    dense = X.toarray() if sparse else X
    delta = dense[chosen[:, 0]] - dense[chosen[:, 1]]
    total = np.sum(metric.pair_distance(chosen, X) ** 2)
    parts = np.sum(delta[:, :5] * (delta @ W.T), axis=0) / total
    assert_allclose(shares.similar[:5], parts, atol=1e-9)
    assert shares.similar.sum() == pytest.approx(1)
    embedded = metric._component_list()[0].of_rows(E)
    assert_allclose(W[:, :5], embedded @ embedded.T, atol=1e-9 * np.abs(W).max())


# Permutation importance


@pytest.mark.parametrize("kind", KINDS)
def test_the_importance_is_the_loss_of_auc_of_one_permutation(kind):
    """Restated by loops: row f of block m of each sample comes from another sample."""
    metric, X, pairs, y = fitted(kind)
    found = permutation_importance(metric, pairs, y, X, n_repeats=2, random_state=3)
    assert found.baseline == pytest.approx(roc_auc_score(y, metric.pair_score(pairs, X)))
    rng, row = np.random.RandomState(3), 0
    for m, array in enumerate(arrays_of(X)):
        for f in range(array.shape[1]):
            for repeat in range(2):
                arrays = [other.copy() for other in arrays_of(X)]
                arrays[m][:, f] = array[rng.permutation(len(array)), f]
                auc = roc_auc_score(y, metric.pair_score(pairs, Blocks(*arrays)))
                assert found.importances[row, repeat] == pytest.approx(found.baseline - auc)
            row += 1
    assert row == len(found.names) == len(found.mean) == len(found.std)
    assert np.ptp(found.mean) > 0


def test_a_feature_without_weight_has_no_share_and_no_importance():
    X, y = labelled()
    pairs, signs = labelled_pairs(y)
    metric = with_components(np.diag([1.0, 0.0, 2.0, 0.0]), X)
    shares = feature_shares(metric, pairs, signs, X)
    result = permutation_importance(metric, pairs, signs, X, random_state=0)
    for feature in (1, 3):
        assert shares.similar[feature] == shares.dissimilar[feature] == 0
        assert_array_equal(result.importances[feature], 0)
    assert result.mean[0] > 0


def test_importances_repeat_with_the_seed_and_do_not_depend_on_the_order_of_pairs():
    metric, X, pairs, y = fitted()
    call = {"X": X, "random_state": 5, "n_repeats": 3}
    first = permutation_importance(metric, pairs, y, **call)
    again = permutation_importance(metric, pairs[::-1, ::-1], y[::-1], **call)
    assert_allclose(first.importances, again.importances, atol=1e-12)
    other = permutation_importance(metric, pairs, y, X, n_repeats=3, random_state=6)
    assert np.any(other.importances != first.importances)


def test_rows_and_columns_of_symmetric_matrices_are_permuted_together():
    """All that tells the classes apart is the covariance of channels 1 and 2."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(scale=0.1, size=(60, 3, 3))
    X[:, 1, 2] += y
    X = X + np.swapaxes(X, 1, 2)
    pairs, signs = labelled_pairs(y)
    metric = with_components(np.eye(3), X)
    result = permutation_importance(metric, pairs, signs, X, random_state=0)
    assert result.mean[0] < 0.1
    assert result.mean[1] > 0.3
    assert result.mean[2] > 0.3


def test_whole_blocks_are_permuted():
    X, y = labelled("two blocks")
    pairs, signs = labelled_pairs(y)
    metric = Euclidean().fit(X)
    metric.components_ = [np.zeros((3, 3)), np.eye(4)]
    result = permutation_importance(metric, pairs, signs, X, by="blocks", random_state=0)
    assert result.names == ("block 0", "block 1")
    assert_array_equal(result.importances[0], 0)
    assert result.mean[1] == pytest.approx(result.baseline - 0.5, abs=0.1)  # only chance is left


def test_kernels_have_importances_but_no_shares():
    X, y = labelled()
    pairs, signs = labelled_pairs(y)
    metric = TATML(kernel="rbf", **FEW).fit(X, y)
    assert permutation_importance(metric, pairs, signs, X, random_state=0).mean.argmax() == 0
    with pytest.raises(
        ValueError, match=r"estimator: expected a metric without a kernel, .*'rbf'; use permut"
    ):
        feature_shares(metric, pairs, signs, X)
    with pytest.raises(ValueError, match=r"estimator: .* got kernel='rbf'"):
        FeatureShareDisplay.from_estimator(metric, pairs, signs, X)
    K = X @ X.T
    precomputed = TATML(kernel="precomputed", **FEW).fit(K, y)
    with pytest.raises(ValueError, match="estimator: expected a metric of features, got kernel='p"):
        permutation_importance(precomputed, pairs, signs, K)


# Names and tables


def test_names_come_from_tables_blocks_or_the_caller():
    X, y = labelled()
    pairs, signs = labelled_pairs(y)
    table = pd.DataFrame(X, columns=["height", "width", "age", "mass"])
    metric = TATML(**FEW).fit(table, y)
    for function in (feature_shares, permutation_importance):
        assert function(metric, pairs, signs, table).names == tuple(table.columns)
        given = function(metric, pairs, signs, table, names=list("abcd"))
        assert given.names == ("a", "b", "c", "d")
    blocks, y = labelled("two blocks")
    pairs, signs = labelled_pairs(y)
    rows = [["a", "b", "c"], ["d", "e", "f", "g"]]
    plain = TATML(**FEW).fit(blocks, y)
    numbered = feature_shares(plain, pairs, signs, blocks).names
    assert numbered[0] == "block 0: x0"
    assert numbered[-1] == "block 1: x3"
    named = Blocks(*blocks.arrays, names=["alpha", "beta"], row_names=[rows[0], None])
    metric = TATML(**FEW).fit(named, y)
    result = feature_shares(metric, pairs, signs, named)
    assert result.names[:4] == ("alpha: a", "alpha: b", "alpha: c", "beta: x0")
    assert feature_shares(metric, pairs, signs, named, by="blocks").names == ("alpha", "beta")
    given = feature_shares(metric, pairs, signs, named, names=rows)
    assert given.names[3:] == ("beta: d", "beta: e", "beta: f", "beta: g")
    given = permutation_importance(metric, pairs, signs, named, by="blocks", names=["x", "y"])
    assert given.names == ("x", "y")


def test_tables_have_a_row_per_feature_sorted_when_printed():
    metric, X, pairs, y = fitted()
    shares = feature_shares(metric, pairs, y, X, names=["first", "b", "c", "d" * 60])
    frame = shares.to_frame()
    assert frame.index.name == "feature"
    assert list(frame.columns) == ["similar", "dissimilar", "difference"]
    assert_array_equal(frame["dissimilar"], shares.dissimilar)
    lines = str(shares).splitlines()
    assert lines[2].startswith("first ")
    assert "d" * 39 + "…" in str(shares)
    assert {len(line) for line in lines[1:]} == {len(lines[1])}
    result = permutation_importance(metric, pairs, y, X, by="blocks", random_state=0)
    frame = result.to_frame()
    assert (frame.index.name, list(frame.columns)) == ("block", ["mean", "std"])
    assert str(result).startswith(f"loss of the pair AUC, {result.baseline:.4f}, when a block is")


def test_frames_need_pandas(monkeypatch):
    metric, X, pairs, y = fitted()
    shares = feature_shares(metric, pairs, y, X)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas"):
        shares.to_frame()


# Refusals


@pytest.mark.parametrize("function", [feature_shares, permutation_importance])
def test_wrong_arguments_are_refused(function):
    metric, X, pairs, y = fitted()
    bad = [
        ({"by": "rows"}, ValueError, "by: expected one of 'features', 'blocks', got 'rows'"),
        ({"names": ["a"]}, ValueError, r"names\[0\]: expected .* which is 4, got 1"),
        ({"names": "abcd"}, TypeError, "names: expected one word per feature"),
        ({"names": [1, 2, 3, 4]}, (TypeError, ValueError), "names: expected "),
        ({"names": [None]}, TypeError, "names: expected one word per feature.*got"),
        ({"names": ["a", "b"], "by": "blocks"}, ValueError, "names: expected one word per block"),
    ]
    if function is permutation_importance:
        bad += [
            ({"n_repeats": 0}, ValueError, "n_repeats: expected .* got 0"),
            ({"random_state": "x"}, (TypeError, ValueError), "random_state: expected "),
        ]
    for given, error, message in bad:
        with pytest.raises(error, match=message):
            function(metric, pairs, y, X, **given)
    with pytest.raises(ValueError, match="y: expected"):
        function(metric, pairs, np.ones(len(pairs)), X)
    with pytest.raises(ValueError, match="y: expected"):
        function(metric, pairs, y[1:], X)
    with pytest.raises(ValueError, match="X has 3 features, but TATML is expecting 4"):
        function(metric, pairs, y, X[:, :3])
    with pytest.raises(NotFittedError):
        function(TATML(), pairs, y, X)
    classifier = LogisticRegression().fit(X, labelled()[1])
    with pytest.raises(TypeError, match=r"estimator: .*got LogisticRegression without"):
        function(classifier, pairs, y, X)


def test_pairs_without_distance_have_no_shares():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [3.0, 4.0]])
    metric = with_components(np.eye(2), X)
    with pytest.raises(ValueError, match="pairs: expected pairs of both kinds with a positive"):
        feature_shares(metric, [[0, 1], [0, 2]], [1, -1], X)


def test_columns_of_sparse_tables_are_permuted_as_those_of_dense_ones():
    rng = np.random.default_rng(0)
    X, y = csr_array(1 + rng.random((20, 50)) * (rng.random((20, 50)) < 0.5)), np.arange(20) % 2
    metric = TATML(**FEW).fit(X, y)
    pairs, signs = labelled_pairs(y)
    sparse, dense = (
        permutation_importance(metric, pairs, signs, table, n_repeats=2, random_state=0)
        for table in (X, X.toarray())
    )
    assert_allclose(sparse.importances, dense.importances, atol=1e-12)
    assert np.ptp(sparse.mean) > 0


def test_pair_estimators_are_explained_too():
    X, y = labelled()
    pairs, signs = labelled_pairs(y)
    verifier = TATMLPairs(preprocessor=X).fit(pairs, signs)
    assert feature_shares(verifier, pairs, signs).dissimilar.argmax() == 0
    result = permutation_importance(verifier, pairs, signs, random_state=0)
    assert result.mean.argmax() == 0


# Displays


@pytest.fixture
def plt():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def ticks(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]


def test_the_shares_are_drawn_with_names_largest_first(plt):
    metric, X, pairs, y = fitted()
    words = ["first", "second", "third", "fourth"]
    display = FeatureShareDisplay.from_estimator(metric, pairs, y, X, names=words)
    shares = feature_shares(metric, pairs, y, X)
    order = np.argsort(-shares.dissimilar)
    assert ticks(display.ax_) == [words[f] for f in order]
    similar, dissimilar = display.ax_.containers
    assert_allclose([bar.get_width() for bar in similar], shares.similar[order])
    assert_allclose([bar.get_width() for bar in dissimilar], shares.dissimilar[order])
    assert similar[0].get_y() < similar[1].get_y()
    assert display.ax_.yaxis_inverted()  # the first is at the top
    assert display.ax_.get_xlabel() == "share of the mean squared distance"
    assert display.ax_.get_title() == "Share of each feature"
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["similar pairs", "dissimilar pairs"]
    few = FeatureShareDisplay.from_result(shares, max_features=2)
    assert few.ax_.get_title() == "Share of each feature (2 of 4 features)"
    assert len(ticks(few.ax_)) == 2
    by_block = FeatureShareDisplay.from_estimator(metric, pairs, y, X, by="blocks", name="Blocks")
    assert (ticks(by_block.ax_), by_block.ax_.get_title()) == (["block 0"], "Blocks")


def test_the_importances_are_drawn_with_names_largest_first(plt):
    metric, X, pairs, y = fitted()
    words = ["first", "second", "third", "fourth"]
    given = {"n_repeats": 3, "random_state": 0}
    result = permutation_importance(metric, pairs, y, X, names=words, **given)
    ax = plt.figure().subplots()
    display = PermutationImportanceDisplay.from_estimator(
        metric, pairs, y, X, names=words, ax=ax, **given
    )
    assert display.ax_ is ax
    assert_array_equal(display.result.importances, result.importances)
    order = np.argsort(-result.mean)
    assert ticks(ax)[0] == "first"
    assert ticks(ax) == [words[f] for f in order]
    assert_allclose([bar.get_width() for bar in ax.containers[0]], result.mean[order])
    (marks,) = [line for line in ax.lines if line.get_label() == "each repeat"]
    assert_allclose(marks.get_xdata(), result.importances[order].ravel())
    assert_array_equal(marks.get_ydata(), np.repeat(np.arange(4), 3))
    assert f"{result.baseline:.3f}" in ax.get_xlabel()
    few = PermutationImportanceDisplay.from_result(result, max_features=3)
    assert few.ax_.get_title() == "Permutation importance (3 of 4 features)"
    with pytest.raises(ValueError, match=r"max_features: expected .* got 0"):
        PermutationImportanceDisplay.from_result(result, max_features=0)
