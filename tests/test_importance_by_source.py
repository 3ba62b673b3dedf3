"""Importance by group of features, such as the source columns of a table; reasons of the two."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from estimators_helpers import KINDS, arrays_of, labelled, labelled_pairs
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from tatml import TATML, Blocks, Euclidean
from tatml.features import TableEncoder
from tatml.inspection import compare_importance, feature_shares, permutation_importance
from tatml.plotting import FeatureShareDisplay, PermutationImportanceDisplay

FEW = {"n_pairs_per_class": 40, "random_state": 0}
BOTH = [feature_shares, permutation_importance]


def table(n_samples=240):
    """Return a frame with three numbers, three categories, a date and missing values; classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n_samples) % 3
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(3 + (y == 1), 0.5),
            "age": rng.normal(40 + 15 * (y == 2), 10),
            "weight": rng.normal(70, 12, n_samples),
            "town": [f"town {k}" for k in (8 * y + rng.integers(12, size=n_samples)) % 25],
            "colour": rng.choice(["red", "green", "blue"], size=n_samples),
            "contract": np.where(rng.random(n_samples) < 0.1 + 0.4 * y, "fixed", "open"),
            "since": np.datetime64("2020-01-01") + rng.integers(1500, size=n_samples),
        }
    )
    frame.loc[::7, ["age", "town"]] = None
    return frame, y


@pytest.fixture(scope="module")
def encoded():
    """Return an encoder, a metric of what it returns, the frame, pairs of its rows, and signs."""
    frame, y = table()
    encoder = TableEncoder()
    metric = TATML(**FEW).fit(encoder.fit_transform(frame, y), y)
    return encoder, metric, frame, *labelled_pairs(y)


def words_for(X, words="abc"):
    """Return a word per feature, in turn: one sequence per block, or a single one."""
    found = [[words[row % len(words)] for row in range(array.shape[1])] for array in arrays_of(X)]
    return found if isinstance(X, Blocks) else found[0]


# Sums, and permutations together


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_groups_are_sums_of_the_shares_of_their_features(kind):
    X, y = labelled(kind)
    metric, (pairs, signs) = TATML(**FEW).fit(X, y), labelled_pairs(y)
    by = words_for(X)
    groups = feature_shares(metric, pairs, signs, X, by=by)
    features = feature_shares(metric, pairs, signs, X)
    flat = np.concatenate(by) if isinstance(X, Blocks) else np.array(by)
    assert groups.by == "groups"
    assert groups.names == tuple(dict.fromkeys(flat))  # in the order of their first features
    for k, word in enumerate(groups.names):
        assert groups.similar[k] == pytest.approx(features.similar[flat == word].sum(), abs=1e-14)
        assert groups.dissimilar[k] == pytest.approx(features.dissimilar[flat == word].sum())


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_a_group_are_permuted_together(kind):
    """Restated by loops: all rows of a group come from the same other sample, in all blocks."""
    X, y = labelled(kind)
    metric, (pairs, signs) = TATML(**FEW).fit(X, y), labelled_pairs(y)
    by = words_for(X, "ab")
    found = permutation_importance(metric, pairs, signs, X, by=by, n_repeats=2, random_state=3)
    rng = np.random.RandomState(3)
    for k, word in enumerate("ab"):
        for repeat in range(2):
            order = rng.permutation(len(X))
            arrays = [array.copy() for array in arrays_of(X)]
            for array, words in zip(arrays, by if isinstance(X, Blocks) else [by], strict=True):
                for row in np.flatnonzero(np.array(words) == word):
                    array[:, row] = array[order, row]
            auc = roc_auc_score(signs, metric.pair_score(pairs, Blocks(*arrays)))
            assert found.importances[k, repeat] == pytest.approx(found.baseline - auc)
    assert np.ptp(found.mean) > 0


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}])
def test_one_group_per_feature_gives_the_numbers_of_the_features(options):
    X, y = labelled()
    metric, (pairs, signs) = TATML(**FEW | options).fit(X, y), labelled_pairs(y)
    call = {"X": X, "random_state": 1}
    one_by_one = permutation_importance(metric, pairs, signs, by=list("abcd"), **call)
    features = permutation_importance(metric, pairs, signs, **call)
    assert_array_equal(one_by_one.importances, features.importances)


def test_groups_of_blocks_give_the_numbers_of_the_blocks():
    X, y = labelled("two blocks")
    metric, (pairs, signs) = TATML(**FEW).fit(X, y), labelled_pairs(y)
    by = [["first"] * 3, ["second"] * 4]
    shares = [feature_shares(metric, pairs, signs, X, by=each) for each in (by, "blocks")]
    assert_allclose(shares[0].dissimilar, shares[1].dissimilar, atol=1e-14)
    losses = [
        permutation_importance(metric, pairs, signs, X, by=each, random_state=0)
        for each in (by, "blocks")
    ]
    assert_array_equal(losses[0].importances, losses[1].importances)


def test_a_group_of_all_features_has_the_whole_share_and_all_importance():
    X, y = labelled("three blocks")
    metric, (pairs, signs) = TATML(**FEW).fit(X, y), labelled_pairs(y)
    by = words_for(X, ["all"])
    shares = feature_shares(metric, pairs, signs, X, by=by)
    assert (shares.similar, shares.dissimilar) == ([1], [1])
    found = permutation_importance(metric, pairs, signs, X, by=by, random_state=0)
    assert found.mean[0] == pytest.approx(found.baseline - 0.5, abs=0.1)  # only chance is left


def test_rows_and_columns_of_a_group_of_symmetric_matrices_are_permuted_together():
    """The group of all rows is the block; one row alone takes its column along."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3, 3)), np.arange(60) % 2
    X = X + np.swapaxes(X, 1, 2)
    metric, (pairs, signs) = Euclidean().fit(X, y), labelled_pairs(y)
    found = permutation_importance(
        metric, pairs, signs, X, by=list("aba"), n_repeats=1, random_state=0
    )
    order = np.random.RandomState(0).permutation(60)
    moved = X[order]
    moved[:, 1, 1] = X[:, 1, 1]  # rows and columns 0 and 2 are all entries but this one
    auc = roc_auc_score(signs, metric.pair_score(pairs, moved))
    assert found.importances[0, 0] == pytest.approx(found.baseline - auc)


# Source columns of a table


def test_a_permuted_source_column_is_a_permuted_column_of_the_frame(encoded):
    """The frame is permuted before it is encoded, with the same permutations."""
    encoder, metric, frame, pairs, signs = encoded
    found = permutation_importance(
        metric,
        pairs,
        signs,
        encoder.transform(frame),
        by=encoder.source_columns_,
        n_repeats=2,
        random_state=7,
    )
    assert found.names == tuple(encoder.kinds_) == tuple(frame.columns)
    rng = np.random.RandomState(7)
    for row, name in enumerate(found.names):
        for repeat in range(2):
            order = rng.permutation(len(frame))
            permuted = frame.assign(**{name: frame[name].to_numpy()[order]})
            score = metric.pair_score(pairs, encoder.transform(permuted))
            expected = found.baseline - roc_auc_score(signs, score)
            assert found.importances[row, repeat] == pytest.approx(expected, abs=1e-12)


def test_source_columns_of_a_kernel_are_permuted_before_the_kernel(encoded):
    encoder, _, frame, pairs, signs = encoded
    Z = encoder.transform(frame)
    metric = TATML(kernel="rbf", **FEW).fit(Z, np.arange(len(Z)) % 3)
    by = encoder.source_columns_
    found = permutation_importance(metric, pairs, signs, Z, by=by, n_repeats=1, random_state=7)
    order = np.random.RandomState(7).permutation(len(frame))
    permuted = encoder.transform(frame.assign(income=frame["income"].to_numpy()[order]))
    expected = found.baseline - roc_auc_score(signs, metric.pair_score(pairs, permuted))
    assert found.importances[0, 0] == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match=r"a kernel.*use permutation_importance"):
        feature_shares(metric, pairs, signs, Z, by=by)


def test_sparse_tables_have_the_importance_of_dense_ones():
    """Of a table that the encoder returns sparse."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    frame = pd.DataFrame({f"c{k}": rng.choice(list("abcdefgh"), size=40) for k in range(8)})
    frame["c0"] = np.where(y == 1, "p", "q")
    encoder = TableEncoder(min_frequency=1).fit(frame)
    assert encoder.sparse_output_
    metric = TATML(**FEW).fit(encoder.transform(frame), y)
    pairs, signs = labelled_pairs(y)
    by = encoder.source_columns_
    Z = csr_array(encoder.transform(frame))
    shares, losses = [], []
    for X in (Z, Z.toarray()):
        shares.append(feature_shares(metric, pairs, signs, X, by=by).dissimilar)
        losses.append(permutation_importance(metric, pairs, signs, X, by=by, random_state=0))
    assert_allclose(shares[0], shares[1], atol=1e-9)
    assert_allclose(losses[0].importances, losses[1].importances, atol=1e-9)
    assert losses[0].names[losses[0].mean.argmax()] == "c0"
    compared = [
        compare_importance(metric, pairs, signs, X, by=by, random_state=0) for X in (Z, Z.toarray())
    ]
    assert_allclose(compared[0].alone, compared[1].alone, atol=1e-9)


# Displays


def test_displays_draw_the_source_columns(encoded):
    plt = pytest.importorskip("matplotlib")
    plt.use("Agg")
    encoder, metric, frame, pairs, signs = encoded
    Z, by = encoder.transform(frame), encoder.source_columns_
    for display, options in (
        (FeatureShareDisplay, {}),
        (PermutationImportanceDisplay, {"random_state": 0}),
    ):
        drawn = display.from_estimator(metric, pairs, signs, Z, by=by, **options)
        ticks = [tick.get_text() for tick in drawn.ax_.get_yticklabels()]
        assert sorted(ticks) == sorted(frame.columns)
        few = display.from_result(drawn.result, max_features=3)
        assert few.ax_.get_title().endswith("(3 of 7 groups)")
    assert FeatureShareDisplay.from_result(
        feature_shares(metric, pairs, signs, Z, by=by)
    ).ax_.get_title() == ("Share of each group")


def test_tables_of_groups_say_so(encoded):
    encoder, metric, frame, pairs, signs = encoded
    call = {"X": encoder.transform(frame), "by": pd.Series(encoder.source_columns_)}
    assert feature_shares(metric, pairs, signs, **call).to_frame().index.name == "group"
    found = permutation_importance(metric, pairs, signs, random_state=0, **call)
    assert "when a group is permuted (5 repeats)" in str(found)


# Refusals


@pytest.mark.parametrize("function", [*BOTH, compare_importance])
def test_groups_that_do_not_fit_the_features_are_refused(function):
    X, y = labelled()
    metric, (pairs, signs) = TATML(**FEW).fit(X, y), labelled_pairs(y)
    either = "by: expected 'features', 'blocks', or one word per feature; for several blocks"
    bad = [
        (["a", "b"], ValueError, r"by\[0\]: expected one word per feature, which is 4, got 2"),
        (["a", "b", "c", 1], TypeError, either),
        (None, TypeError, f"{either}.*got None"),
        (7, TypeError, f"{either}.*got 7"),
        ([], ValueError, "by"),
        ("groups", ValueError, "by: expected one of 'features', 'blocks', got 'groups'"),
        ([["a"] * 4, ["b"] * 4], ValueError, either),
    ]
    for by, error, message in bad:
        with pytest.raises(error, match=message):
            function(metric, pairs, signs, X, by=by)
    with pytest.raises(ValueError, match=r"names: expected None with groups in by.*got"):
        function(metric, pairs, signs, X, by=list("aabb"), names=list("wxyz"))
    X, y = labelled("two blocks")
    metric, (pairs, signs) = TATML(**FEW).fit(X, y), labelled_pairs(y)
    for by, error, message in [
        (["a"] * 7, ValueError, either),
        ([["a"] * 3], ValueError, either),
        ([["a"] * 3, None], TypeError, either),
        ([["a"] * 3, ["b"] * 3], ValueError, r"by\[1\]: expected .* which is 4, got 3"),
        ([["a"] * 3, [1, 2, 3, 4]], TypeError, r"by\[1\]: expected one word per feature, got 1"),
    ]:
        with pytest.raises(error, match=message):
            function(metric, pairs, signs, X, by=by)


# Why shares and importance disagree: made data with a known reason


def made(columns, n_samples=200, seed=0):
    """Return samples with columns that a function makes of the generator and the classes."""
    rng, y = np.random.default_rng(seed), np.arange(n_samples) % 2
    X = np.stack(columns(rng, y), axis=1)
    pairs = np.array(list(combinations(range(n_samples), 2)))[::3]
    return X, pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


def compared(X, pairs, signs, components=None, **options):
    metric = Euclidean().fit(X)
    metric.components_ = np.eye(X.shape[1]) if components is None else components
    return compare_importance(metric, pairs, signs, X, random_state=0, **options)


def test_the_comparison_holds_both_measures_and_the_distances_in_each_feature():
    X, y = labelled("two blocks")
    metric, (pairs, signs) = TATML(**FEW).fit(X, y), labelled_pairs(y)
    found = compare_importance(metric, pairs, signs, X, random_state=4, n_repeats=3)
    shares = feature_shares(metric, pairs, signs, X)
    losses = permutation_importance(metric, pairs, signs, X, random_state=4, n_repeats=3)
    assert_array_equal(found.shares.similar, shares.similar)
    assert_array_equal(found.importance.importances, losses.importances)
    W = metric.get_mahalanobis_matrix()
    for row, (m, f) in enumerate([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]):
        rows = X.arrays[m][:, f]
        squares = W[m][f, f] * np.sum((rows[pairs[:, 0]] - rows[pairs[:, 1]]) ** 2, axis=1)
        assert found.alone[row] == pytest.approx(roc_auc_score(signs, -squares))
    frame = found.to_frame()
    assert list(frame.columns) == ["similar", "dissimilar", "alone", "loss", "reason"]
    assert_array_equal(frame["loss"], losses.mean)
    assert frame.index.name == "feature"


def test_equal_columns_are_redundant_and_noise_tells_little():
    X, pairs, signs = made(
        lambda rng, y: [*[2 * y + rng.normal(size=len(y))] * 3, rng.normal(size=len(y))]
    )
    found = compared(X, pairs, signs, names=["a", "b", "c", "noise"])
    for k, others in enumerate((("b", "c"), ("a", "c"), ("a", "b"))):
        assert found.reasons[k].startswith("redundant: alone it has an AUC of 0.7")
        assert f"permuted together with {', '.join(others)}, and" in found.reasons[k]
    assert found.reasons[3].startswith("tells little: alone it has an AUC of 0.5")
    assert found.shares.similar[3] > 0.25
    text = str(found)
    assert f"\na: {found.reasons[0]}" in text
    assert f"\nnoise: {found.reasons[3]}" in text
    as_one = compared(X, pairs, signs, by=["size"] * 3 + ["noise"])
    assert not as_one.reasons[0].startswith("redundant")  # nothing else says the same
    assert as_one.importance.mean[0] > 2 * found.importance.mean[:3].sum()


def test_the_loss_in_a_reason_is_that_of_the_group_of_the_columns():
    """Within the spread of its repeats, which are other permutations."""
    X, pairs, signs = made(
        lambda rng, y: [*[2 * y + rng.normal(size=len(y))] * 3, rng.normal(size=len(y))]
    )
    reason = compared(X, pairs, signs, n_repeats=20).reasons[0]
    as_one = compared(X, pairs, signs, n_repeats=20, by=["size"] * 3 + ["noise"]).importance
    told = float(reason.partition("; ")[2].partition(" is lost")[0])
    assert told == pytest.approx(as_one.mean[0], abs=as_one.std[0])


def test_a_column_that_is_subtracted_cancels_with_the_other_one():
    """D = (Δ_0 − 0.8 Δ_1)² with x_0 = signal + noise and x_1 = noise: E Δ_0 Δ_1 = E Δ_1²."""

    def columns(rng, y):
        noise = 3 * rng.normal(size=len(y))
        return [2 * y + 0.3 * rng.normal(size=len(y)) + noise, noise, 0.01 * rng.normal(size=200)]

    X, pairs, signs = made(columns)
    found = compared(X, pairs, signs, np.array([[1, -0.8, 0], [0, 0, 1], [0, 0, 0]]))
    assert found.shares.dissimilar[1] < 0
    assert found.reasons[1].startswith(
        "cancels with x0: its own differences would have a share of "
    )
    far = signs < 0
    delta = X[pairs[far, 0]] - X[pairs[far, 1]]
    whole = np.mean((delta[:, 0] - 0.8 * delta[:, 1]) ** 2 + delta[:, 2] ** 2)
    own = 0.64 * np.mean(delta[:, 1] ** 2) / whole
    common = 0.8 * np.mean(delta[:, 0] * delta[:, 1]) / whole
    assert f"a share of {own:.3f}," in found.reasons[1]
    assert found.reasons[1].endswith(f"in common with x0 takes {common:.3f} away")
    assert own - common == pytest.approx(found.shares.dissimilar[1])
    assert found.reasons[0] == ""  # its share is larger than its importance, but both are large
    assert found.shares.dissimilar[0] > 1.5 * found.importance.mean[0] / 0.5 > 0.75


def test_independent_columns_are_replaceable():
    """Given the class they are independent, and four of them suffice."""
    X, pairs, signs = made(lambda rng, y: [*(4 * y + rng.normal(size=(5, len(y))))])
    found = compared(X, pairs, signs)
    for k in range(5):
        assert found.reasons[k].startswith("replaceable: alone it has an AUC of 0.9")
        rest = found.importance.baseline - found.importance.mean[k]
        assert found.reasons[k].endswith(f"with it permuted, {rest:.3f} is left")


def test_copies_are_replaceable_if_others_suffice_without_all_of_them():
    X, pairs, signs = made(
        lambda rng, y: [
            *[3 * y + rng.normal(size=len(y))] * 2,
            *(4 * y + rng.normal(size=(6, len(y)))),
        ]
    )
    found = compared(X, pairs, signs)
    for reason in found.reasons[:2]:
        assert reason.startswith("replaceable: ")
    without = np.stack([*[np.zeros(200)] * 2, *X.T[2:]], axis=1)
    assert compared(without, pairs, signs).importance.baseline > 0.98


def test_noise_with_a_share_of_similar_pairs_only_tells_little():
    X, pairs, signs = made(
        lambda rng, y: [*[4 * y + rng.normal(size=len(y))] * 3, rng.normal(size=len(y))]
    )
    found = compared(X, pairs, signs)
    assert found.shares.dissimilar[3] < 0.05 < 0.2 < found.shares.similar[3]
    assert found.reasons[3].startswith("tells little: ")


def test_a_column_without_noise_tells_much_for_its_share():
    X, pairs, signs = made(
        lambda rng, y: [2 * y + 0.3 * rng.normal(size=len(y)), *3 * rng.normal(size=(2, len(y)))]
    )
    found = compared(X, pairs, signs)
    assert found.shares.dissimilar[0] < 0.2
    assert found.reasons[0] == "tells much for its share: alone it has an AUC of 1.000"
    assert all(reason.startswith("tells little") for reason in found.reasons[1:])


def test_what_removes_more_noise_than_there_is_cancels_with_a_positive_share():
    """D = (Δ_0 − 1.1 Δ_1)² with x_0 = signal + noise and x_1 = noise, of mean 0 in each class."""

    def columns(rng, y):
        noise = 3 * rng.normal(size=len(y))
        noise -= np.array([noise[y == 0].mean(), noise[y == 1].mean()])[y]
        return [2 * y + 0.3 * rng.normal(size=len(y)) + noise, noise, 0.01 * rng.normal(size=200)]

    X, pairs, signs = made(columns)
    found = compared(X, pairs, signs, np.array([[1, -1.1, 0], [0, 0, 1], [0, 0, 0]]))
    assert found.shares.dissimilar[1] > 0.1
    assert found.reasons[1].startswith("cancels with x0: ")


def test_a_negative_share_is_explained_without_importance_too():
    """Eight noises are halved by their copies, but the signal is much larger than they are."""

    def columns(rng, y):
        noise = rng.normal(size=(8, len(y)))
        return [*noise, *noise, 6 * y + 0.1 * rng.normal(size=len(y))]

    X, pairs, signs = made(columns)
    components = np.zeros((17, 17))
    components[:8, :16] = np.hstack([np.eye(8), -0.5 * np.eye(8)])
    components[16, 16] = 1
    found = compared(X, pairs, signs, components, by=["noise"] * 8 + ["copy"] * 8 + ["signal"])
    assert found.shares.dissimilar[1] < -0.05
    assert abs(found.importance.mean[1]) < 0.02
    assert found.reasons[0].startswith("tells little: ")
    assert found.reasons[1].startswith("cancels with noise: ")
    assert found.reasons[2] == ""


def test_copies_that_are_subtracted_from_each_other_cancel():
    """D = (3 Δ_0 − 2 Δ_1)² + Δ_2² with x_0 = x_1: the shares of the copies are 3 and −2."""
    X, pairs, signs = made(lambda rng, y: [*[3 * y + rng.normal(size=len(y))] * 2, 0.001 * y])
    found = compared(X, pairs, signs, np.array([[3, -2, 0], [0, 0, 1], [0, 0, 0]]))
    assert_allclose(found.shares.dissimilar[:2], [3, -2], rtol=1e-5)
    assert found.reasons[1].startswith("cancels with x0: its own differences would have a share of")
    assert "of 4.000, what it has in common with x0 takes 6.000 away" in found.reasons[1]


def test_columns_whose_noise_cancels_are_combined():
    """D = (Δ_0 + Δ_1)² with x_0 = signal + noise and x_1 = signal − noise."""

    def columns(rng, y):
        noise, signal = 1.1 * rng.normal(size=len(y)), y + 0.1 * rng.normal(size=len(y))
        return [signal + noise, signal - noise, 0.6 * rng.normal(size=len(y))]

    X, pairs, signs = made(columns)
    found = compared(X, pairs, signs, np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]]))
    assert found.importance.baseline > 0.95
    for reason in found.reasons[:2]:
        assert reason.startswith("combined: alone it has an AUC of ")


def test_where_both_agree_no_reason_is_given():
    X, pairs, signs = made(lambda rng, y: [3 * y + rng.normal(size=len(y)), 0 * y + 0.5])
    found = compared(X, pairs, signs)
    assert found.reasons == ("", "")
    assert found.alone[1] == 0.5
    assert len(str(found).splitlines()) == 4


def test_shares_of_independent_columns_of_one_kind_agree_with_their_importances():
    """Each of six has a sixth of the distances and, relative to the AUC above 1/2, of the loss."""
    X, pairs, signs = made(
        lambda rng, y: [*(y + rng.normal(size=(6, len(y))))], n_samples=400, seed=1
    )
    found = compared(X, pairs, signs)
    assert_allclose(found.shares.dissimilar, 1 / 6, atol=0.03)
    assert_allclose(found.importance.mean / (found.importance.baseline - 0.5), 1 / 6, atol=0.06)
    assert found.reasons == ("",) * 6


def test_pairs_that_the_metric_does_not_rank_have_no_informative_features():
    X, pairs, signs = made(lambda rng, y: [*rng.normal(size=(3, len(y)))])
    found = compared(X, pairs, signs)
    assert all(reason.startswith("tells little: ") for reason in found.reasons)


def test_kernels_are_compared_by_nothing():
    X, y = labelled()
    metric, (pairs, signs) = TATML(kernel="rbf", **FEW).fit(X, y), labelled_pairs(y)
    with pytest.raises(ValueError, match="estimator: expected a metric without a kernel"):
        compare_importance(metric, pairs, signs, X)


def test_steps_of_a_pipeline_are_given_one_by_one(encoded):
    _, _, frame, pairs, signs = encoded
    model = make_pipeline(TableEncoder(), TATML(**FEW)).fit(frame, np.arange(len(frame)) % 3)
    Z, by = model[:-1].transform(frame), model[0].source_columns_
    found = compare_importance(model[-1], pairs, signs, Z, by=by, random_state=0)
    assert found.to_frame().index.name == "group"
    assert found.shares.names == tuple(frame.columns)
