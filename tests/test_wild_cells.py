"""Wild cells: their bounds by hand, what is replaced, and the choice by held-out pairs."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from test_export import kernel_scorer_of, scorer_of

from tatml import TATML, TATMLCV, Blocks, TATMLNeighbors, TATMLPairs, TATMLRegression, TATMLTriplets
from tatml._data.sparse import SparseBlock
from tatml._learning import cross_fit
from tatml._learning.outliers import clip_outliers, find_cell_bounds, replace_cells
from tatml.inspection import feature_shares
from tatml.io import export, load_model, save_model

X, Y = load_wine(return_X_y=True)
PAIRS = np.random.default_rng(0).integers(len(X), size=(200, 2))
PAIRS = PAIRS[PAIRS[:, 0] != PAIRS[:, 1]]
SAME = np.where(Y[PAIRS[:, 0]] == Y[PAIRS[:, 1]], 1, -1)


def made_wild(table, share=0.05, seed=0):
    """Return a copy in which some cells are 50 times as large."""
    wild = np.random.default_rng(seed).random(table.shape) < share
    return np.where(wild, 50 * table, table)


WILD = made_wild(X)


def replaced_by_hand(table, known=WILD):
    """Return the cells far outside the 10 % and 90 % quantiles replaced by the medians."""
    low, high = np.quantile(known, [0.1, 0.9], axis=0, method="nearest")
    far = 3 * (high - low)
    outside = (table < low - far) | (table > high + far)
    return np.where(outside, np.median(known, axis=0), table)


def bounds_of(table):
    return find_cell_bounds(Blocks(table), np.arange(len(table)))


# Bounds, and what is replaced


def test_bounds_lie_three_ranges_outside_the_quantiles():
    """Of 21 entries, 2 and 18 are the quantiles, 10 is the median."""
    column = np.arange(21.0)
    for wild, is_outside in ((66.0, False), (66.5, True), (-46.0, False), (-47.0, True)):
        given = column.copy()
        given[0 if wild < 0 else 20] = wild
        given = np.random.default_rng(0).permutation(given)[:, None]
        bounds = bounds_of(given)
        if not is_outside:
            assert bounds is None
            continue
        assert_array_equal(bounds[0][:, :, 0], [[-46.0], [10.0], [66.0]])
        found = replace_cells(Blocks(given), bounds).arrays[0][:, :, 0]
        assert_array_equal(found, np.where(given == wild, 10.0, given))


def test_a_column_of_mostly_equal_entries_has_the_quantiles_of_the_others():
    column = np.concatenate([np.zeros(80), np.arange(1.0, 20), [500.0]])  # others: 2 and 18
    found = bounds_of(column[:, None])
    assert_array_equal(found[0][:, :, 0], [[0.0 - 3 * 18], [0.0], [18.0 + 3 * 18]])


def test_few_sparse_and_clean_samples_have_no_bounds():
    assert bounds_of(X) is None
    assert bounds_of(WILD) is not None
    assert bounds_of(np.append(np.arange(8.0), 1e9)[:, None]) is None
    sparse = Blocks(SparseBlock(csr_array(WILD)))
    assert find_cell_bounds(sparse, np.arange(len(WILD))) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_cells_of_matrices_are_replaced_one_by_one(dtype):
    rng = np.random.default_rng(0)
    array = rng.normal(size=(60, 4, 3)) * 10.0 ** np.arange(12).reshape(4, 3)
    array[7, 2, 1] *= 1e3
    array = array.astype(dtype)
    blocks = Blocks(array, rng.normal(size=(60, 2)).astype(dtype))
    counted = np.arange(50)
    bounds = find_cell_bounds(blocks, counted)
    found = replace_cells(blocks, bounds)
    assert found.arrays[0].dtype == dtype
    assert found.arrays[1] is blocks.arrays[1]
    changed = found.arrays[0] != array
    assert np.argwhere(changed).tolist() == [[7, 2, 1]]
    assert found.arrays[0][7, 2, 1] == pytest.approx(np.median(array[:50, 2, 1]), rel=1e-6)
    assert find_cell_bounds(blocks, np.arange(8, 58)) is None  # the wild cell does not count


# Estimators

LABELLED = {
    "TATML": lambda **options: TATML(random_state=0, **options),
    "kernel": lambda **options: TATML(kernel="rbf", random_state=0, **options),
    "TATMLNeighbors": lambda **options: TATMLNeighbors(random_state=0, **options),
    "TATMLRegression": lambda **options: TATMLRegression(random_state=0, **options),
    "TATMLCV": lambda **options: TATMLCV(TATML(random_state=0, **options), {"C": [10.0]}, cv=2),
}


@pytest.mark.parametrize("name", LABELLED)
def test_samples_are_replaced_in_fit_and_later(name):
    """The metric is that of the replaced samples, and takes new samples replaced."""
    make, new = LABELLED[name], made_wild(X, seed=1)
    model = make(clip_outliers="replace").fit(WILD, Y)
    expected = make(clip_outliers=False).fit(replaced_by_hand(WILD), Y)
    assert_allclose(model.threshold_, expected.threshold_, rtol=1e-9)
    assert not hasattr(expected, "cell_bounds_")
    clean = replaced_by_hand(new)
    assert np.sum(clean != new) > 50
    rows = model.transform(new)
    assert_allclose(rows, expected.transform(clean), rtol=1e-6, atol=1e-9)
    assert_array_equal(rows, model.transform(clean))
    distances = model.pair_distance(PAIRS, new)
    assert_array_equal(distances, model.pair_distance(PAIRS, clean))
    assert_array_equal(distances, model.pair_distance(new[PAIRS]))
    assert_array_equal(model.predict_pairs(PAIRS, new), model.predict_pairs(PAIRS, clean))
    of_two = model.get_metric()
    i, j = PAIRS[3]
    assert of_two(new[i], new[j]) == pytest.approx(distances[3], rel=1e-9)
    with pytest.raises(AssertionError):  # unlike the samples as they are
        assert_allclose(expected.pair_distance(PAIRS, new), distances, rtol=0.1)
    if name != "kernel":
        assert_array_equal(
            feature_shares(model, PAIRS, SAME, new).similar,
            feature_shares(model, PAIRS, SAME, clean).similar,
        )


def test_scores_of_midpoints_take_replaced_samples():
    model = TATML(midpoint=True, new_classes=True, clip_outliers="replace", random_state=0)
    model.fit(WILD, Y)
    new = made_wild(X, seed=1)
    clean = replaced_by_hand(new)
    assert_array_equal(model.pair_score(PAIRS, new), model.pair_score(PAIRS, clean))
    for found, expected in zip(model.search_vectors(new), model.search_vectors(clean), strict=True):
        assert_array_equal(found, expected)
    groups = np.arange(20) % 4
    found = model.enrolled_scores(new[20:], new[:20], groups)
    assert_array_equal(found, model.enrolled_scores(clean[20:], clean[:20], groups))


def test_pairs_and_triplets_replace_the_cells_of_their_samples():
    used = np.unique(PAIRS)
    by_hand = replaced_by_hand(WILD, WILD[used])
    for make, tuples, arguments in (
        (TATMLPairs, PAIRS, (SAME,)),
        (TATMLTriplets, np.column_stack([PAIRS, PAIRS[::-1, 0]])[5:-5], ()),
    ):
        if make is TATMLTriplets:
            by_hand = replaced_by_hand(WILD, WILD[np.unique(tuples)])
        model = make(clip_outliers="replace", preprocessor=WILD).fit(tuples, *arguments)
        expected = make(clip_outliers=False, preprocessor=by_hand).fit(tuples, *arguments)
        assert_allclose(model.components_, expected.components_, rtol=1e-6, atol=1e-9)
        assert_array_equal(model.transform(WILD), model.transform(by_hand))


def test_another_fit_forgets_the_bounds():
    model = TATML(clip_outliers="replace", random_state=0).fit(WILD, Y)
    assert_array_equal(model.cell_bounds_[0][1, :, 0], np.median(WILD, axis=0))
    model.fit(X, Y)
    assert not hasattr(model, "cell_bounds_")
    assert_array_equal(model.components_, TATML(random_state=0).fit(X, Y).components_)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_files_hold_the_bounds(kernel, tmp_path):
    model = TATML(kernel=kernel, clip_outliers="replace", random_state=0).fit(WILD, Y)
    model.calibrate_probability(PAIRS, SAME, X=WILD)
    loaded = load_model(save_model(model, tmp_path / "wild.skops"))
    assert "the medians of the columns, and bounds of their cells" in loaded.metadata["reveals"]
    new = made_wild(X, seed=1)
    assert_array_equal(loaded.estimator.transform(new), model.transform(new))
    read = scorer_of if kernel is None else kernel_scorer_of
    scorer = read(export(model, tmp_path / "wild.npz"))
    assert str(scorer.arrays["format"]).endswith("metric 2")
    rows = scorer.embed(new)
    expected = model.transform(new)
    assert_allclose(rows - rows[0], expected - expected[0], rtol=1e-9, atol=1e-10)
    model.cell_bounds_[0][0] += 1e9
    with pytest.raises(ValueError, match="cell_bounds_: expected medians between the bounds"):
        save_model(model, tmp_path / "wrong.skops")


# The choice


def quality(model, table):
    """Return the AUC of held-out pairs, and the balanced accuracy at the threshold."""
    same = SAME > 0
    distances = model.pair_distance(PAIRS, table)
    below = distances < model.threshold_
    return roc_auc_score(same, -distances), (np.mean(below[same]) + np.mean(~below[~same])) / 2


@pytest.mark.parametrize("table", [WILD, made_wild(X, seed=3)], ids=["0", "3"])
def test_wild_cells_are_replaced_by_default_and_cost_little(table):
    before = quality(TATML(random_state=0).fit(X[::2], Y[::2]), X)
    model = TATML(random_state=0).fit(table[::2], Y[::2])
    after, in_both = quality(model, X), quality(model, table)
    assert hasattr(model, "cell_bounds_")
    assert before[0] - after[0] < 0.04
    assert before[1] - after[1] < 0.04
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clipped = TATML(clip_outliers=True, random_state=0).fit(table[::2], Y[::2])
    assert after[1] > quality(clipped, X)[1] + 0.03
    assert in_both[0] > quality(clipped, table)[0] + 0.2


def test_of_clean_samples_nothing_is_chosen():
    """The default is bit for bit that of clipping, and no part of the samples is looked at."""
    default, clipping = (
        TATML(random_state=0, clip_outliers=choice).fit(X, Y) for choice in ("auto", True)
    )
    assert_array_equal(default.components_, clipping.components_)
    assert default.threshold_ == clipping.threshold_


@pytest.mark.parametrize(
    ("areas", "chosen"),
    [
        ((0.900, 0.904, 0.904), 0),
        ((0.900, 0.906, 0.904), 1),
        ((0.900, 0.904, 0.906), 2),
        ((0.900, 0.906, 0.907), 2),
    ],
)
def test_other_choices_than_clipping_must_be_clearly_better(areas, chosen, monkeypatch):
    seen = []

    def area(settings, units, part):
        seen.append(part)
        return areas[[True, False, None].index(kind_of(part))]

    def kind_of(part):
        """True for clipped training samples, False for those as given, None for replaced ones."""
        known = part.known.arrays[0][:, :, 0]
        if np.array_equal(known, replaced_by_hand(WILD)[part.rows]):
            return None
        return not np.array_equal(known, WILD[part.rows])

    monkeypatch.setattr(cross_fit, "_area_of_prior", area)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = TATML(random_state=0, prior="auto").fit(WILD, Y)
        expected = TATML(
            random_state=0, prior="auto", clip_outliers=(True, False, "replace")[chosen]
        ).fit(WILD, Y)
    assert_array_equal(model.components_, expected.components_)
    assert hasattr(model, "cell_bounds_") == (chosen == 2)
    for part in seen:  # new samples are not clipped
        others = part.others.arrays[0][:, :, 0]
        in_table = replaced_by_hand(WILD) if kind_of(part) is None else WILD
        left = np.setdiff1d(np.arange(len(X)), part.rows)
        assert_array_equal(others, in_table[left])


def test_the_fit_says_that_cells_are_replaced(capsys):
    TATML(random_state=0, verbose=True).fit(WILD, Y)
    assert (
        "Wild cells are replaced by the median, in later samples, too." in capsys.readouterr().out
    )
    TATML(random_state=0, verbose=True).fit(X, Y)
    assert "Wild" not in capsys.readouterr().out


def test_neighbours_judge_by_the_first_prior_that_they_choose_from(monkeypatch):
    seen, area_of_prior = [], cross_fit._area_of_prior

    def area(settings, units, part):
        seen.append(settings.prior)
        return area_of_prior(settings, units, part)

    monkeypatch.setattr(cross_fit, "_area_of_prior", area)
    model = TATMLNeighbors(random_state=0).fit(WILD, Y)
    assert set(seen) == {"discriminant"}
    assert hasattr(model, "cell_bounds_")


def test_without_held_out_pairs_columns_are_clipped():
    """Two samples of each class are too few to hold some out."""
    rows = [0, 1, 2, 3, 60, 61, 62, 63, 130, 131, 132, 133]
    table, y = made_wild(X[rows], 0.1), np.repeat(np.arange(6), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert bounds_of(table) is not None
        model = TATML(random_state=0, prior="auto", threshold="joint").fit(table, y)
        inside = clip_outliers(Blocks(table), np.arange(12)).arrays[0][:, :, 0]
        expected = TATML(random_state=0, prior="auto", threshold="joint", clip_outliers=False)
        expected.fit(inside, y)
    assert_array_equal(model.components_, expected.components_)


def test_the_choice_does_not_depend_on_units_and_origins():
    rng = np.random.default_rng(0)
    scale, shift = 2.0 ** rng.integers(-5, 5, X.shape[1]), rng.integers(-9, 9, X.shape[1])
    moved = WILD * scale + shift
    model, other = (TATML(random_state=0).fit(table, Y) for table in (WILD, moved))
    assert hasattr(other, "cell_bounds_")
    expected = model.pair_distance(PAIRS, WILD)
    assert_allclose(other.pair_distance(PAIRS, moved), expected, rtol=1e-6)
    assert other.threshold_ == pytest.approx(model.threshold_, rel=1e-6)
