"""Names of bands, channels, features and blocks travel from the extractors to the displays."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tatml import TATML, Blocks, TATMLPairs
from tatml._data.blocks import as_blocks
from tatml.features import (
    BlockScaler,
    BlockUnion,
    CovarianceDescriptor,
    FilterBankCovariance,
    KernelMap,
    LogEuclidean,
    SPDPower,
    TangentSpace,
    Unfold,
    Vectorize,
)
from tatml.io import load_model, save_model

BANDS = ("8–13 Hz", "13–30 Hz")
CHANNELS = ("C3", "Cz", "C4")
RNG = np.random.default_rng(0)
SIGNALS = RNG.normal(size=(24, 3, 200))
LABELS = np.arange(24) % 2
BANK = FilterBankCovariance([(8, 13), (13, 30)], sfreq=100, channel_names=CHANNELS)


class Epochs:
    """What FilterBankCovariance reads of MNE's Epochs."""

    ch_names = CHANNELS

    @property
    def info(self):
        return {"sfreq": 100.0}

    def get_data(self):
        return SIGNALS


def named():
    vectors, matrices = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 3, 4))
    return Blocks(vectors, matrices, names=["size", "shape"], row_names=[["h", "w"], None])


def names_of(blocks):
    return blocks.names, blocks.row_names


def test_blocks_keep_their_names_when_samples_are_chosen():
    X = named()
    expected = ("size", "shape"), (("h", "w"), None)
    assert names_of(X) == expected
    for part in (X[:3], X[[1, 5]], X[np.arange(12) < 4], as_blocks(X)):
        assert names_of(part) == expected
    for rows, _ in KFold(3).split(X):
        assert names_of(X[rows]) == expected
    assert names_of(Blocks(*X.arrays)) == (None, None)
    assert Blocks(*X.arrays, row_names=[None, None]).row_names is None


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"names": ["a"]}, ValueError, "names: expected one word per block, which is 2, got 1"),
        ({"names": "ab"}, TypeError, "names: expected one word per block, got 'ab'"),
        ({"names": ["a", 2]}, TypeError, "names: expected one word per block, got 2"),
        ({"row_names": [None]}, ValueError, "row_names: .* for each of 2 blocks, got 1"),
        ({"row_names": [["h"], None]}, ValueError, r"row_names\[0\]: .* which is 2, got 1"),
        ({"row_names": [["h", 1], None]}, TypeError, r"row_names\[0\]: expected .*, got 1"),
        ({"row_names": 5}, TypeError, "row_names: expected one list of words, .* got 5"),
    ],
)
def test_wrong_names_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        Blocks(*named().arrays, **given)


@pytest.mark.parametrize(
    "step",
    [LogEuclidean(), SPDPower(), TangentSpace(), TangentSpace("arithmetic"), BlockScaler()],
    ids=lambda step: type(step).__name__,
)
def test_transformers_of_matrices_keep_bands_and_channels(step):
    covariances = BANK.fit_transform(SIGNALS)
    expected = BANDS, (CHANNELS, CHANNELS)
    assert names_of(covariances) == expected
    result = clone(step).fit_transform(covariances)
    assert names_of(result) == expected
    back = clone(step).fit(covariances).inverse_transform(result)
    assert names_of(back) == expected


def test_epochs_know_their_channels():
    bank = FilterBankCovariance([(8, 13), (13, 30)])
    assert names_of(bank.transform(Epochs())) == (BANDS, (CHANNELS, CHANNELS))  # without fit
    bank.set_params(sfreq=100).fit(Epochs())
    assert bank.row_names_ == CHANNELS
    assert bank.transform(SIGNALS).row_names == (CHANNELS, CHANNELS)  # those of fit
    assert bank.set_params(channel_names=list("abc")).transform(Epochs()).row_names[0] == (*"abc",)
    without = FilterBankCovariance([(8, 13), (13, 30)], sfreq=100).fit(SIGNALS)
    assert without.row_names_ is None
    assert names_of(without.transform(SIGNALS)) == (BANDS, None)
    for wrong, error in ((["C3"], ValueError), ([1, 2, 3], TypeError), ("C3z", TypeError)):
        with pytest.raises(error, match=r"channel_names.*: expected"):
            clone(BANK).set_params(channel_names=wrong).fit(SIGNALS)


def test_descriptors_name_scales_and_pixel_features():
    images = RNG.random((4, 16, 16))
    descriptor = CovarianceDescriptor(("intensity", "x", "y"), scales=(1.0, 0.5))
    blocks = descriptor.fit_transform(images)
    assert blocks.names == descriptor.block_names_
    assert blocks.row_names == (descriptor.pixel_feature_names_,) * 2


def test_vectors_name_their_entries():
    X = Blocks(
        np.stack([np.eye(2)] * 3),
        np.ones((3, 2)),
        names=["cov", "size"],
        row_names=[["a", "b"], ["h", "w"]],
    )
    vectors = Vectorize().fit_transform(X)
    assert names_of(vectors) == (("cov", "size"), (("a_a", "a_b", "b_b"), ("h", "w")))
    joined = Vectorize(join=True).fit(X)
    expected = ["cov_a_a", "cov_a_b", "cov_b_b", "size_h", "size_w"]
    assert_array_equal(joined.get_feature_names_out(), expected)
    assert names_of(joined.inverse_transform(joined.transform(X))) == names_of(X)
    whole = Vectorize(symmetric=False).fit_transform(X)
    assert whole.row_names[0] == ("a_0", "a_1", "b_0", "b_1")


def test_unfoldings_are_named_by_their_mode():
    assert Unfold((2, 0)).fit_transform(np.ones((2, 3, 4, 5))).names == ("mode 2", "mode 0")


def test_unions_name_blocks_after_transformers():
    one_band = FilterBankCovariance([(8, 13)], sfreq=100, channel_names=CHANNELS)
    table = pd.DataFrame(RNG.normal(size=(24, 2)), columns=["age", "height"])
    union = BlockUnion(
        [
            ("bank", BANK),
            ("alpha", make_pipeline(one_band, LogEuclidean())),
            ("unfolded", Unfold()),
        ]
    )
    for blocks in (union.fit_transform(SIGNALS), union.transform(SIGNALS)):
        assert blocks.names == (
            *(f"bank, {band}" for band in BANDS),
            "alpha",
            "unfolded, mode 0",
            "unfolded, mode 1",
        )
        assert blocks.row_names == (CHANNELS, CHANNELS, CHANNELS, None, None)
    tables = BlockUnion([("scaled", StandardScaler()), ("same", "passthrough")])
    assert tables.fit_transform(table).row_names == (("age", "height"), None)


def test_kernel_images_are_named_after_their_blocks():
    X = named()
    kept = KernelMap().fit_transform(X)
    assert kept.names == ("size", "shape", "kernel image of size", "kernel image of shape")
    assert kept.row_names == (("h", "w"), None, None, None)
    assert KernelMap(keep_features=False).fit_transform(X).row_names is None
    model = TATML(kernel="rbf", random_state=0).fit(X, np.arange(12) % 2)
    assert model._block_names() == list(kept.names)
    assert model._row_names() == list(kept.row_names)


def test_estimators_keep_names_and_forget_those_of_an_earlier_fit(tmp_path):
    pytest.importorskip("skops")
    X, y = named(), np.arange(12) % 2
    model = TATML(random_state=0).fit(X, y)
    assert (model.block_names_in_, model.row_names_in_) == names_of(X)
    assert model._row_names() == [("h", "w"), None]
    save_model(model, tmp_path / "model.tatml")
    loaded = load_model(tmp_path / "model.tatml").estimator
    assert (loaded.block_names_in_, loaded.row_names_in_) == names_of(X)
    model.fit(Blocks(*X.arrays), y)
    assert not hasattr(model, "block_names_in_")
    assert (model._block_names(), model._row_names()) == (["block 0", "block 1"], [None, None])
    table = pd.DataFrame(X.arrays[0][:, :, 0], columns=["h", "w"])
    assert TATML(random_state=0).fit(table, y)._row_names() == [("h", "w")]
    pairs = [[0, 2], [1, 3], [0, 1], [2, 3]]
    verifier = TATMLPairs(preprocessor=X).fit(pairs, [1, 1, -1, -1])
    assert (verifier.block_names_in_, verifier.row_names_in_) == names_of(X)


def test_names_change_no_number():
    X, y = named(), np.arange(12) % 2
    plain = TATML(random_state=0).fit(Blocks(*X.arrays), y)
    assert_array_equal(
        TATML(random_state=0).fit(X, y).transform(X), plain.transform(Blocks(*X.arrays))
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("block_names_in_", ("a",)),
        ("block_names_in_", ["a", "b"]),
        ("block_names_in_", ("a", 1)),
        ("row_names_in_", (("h", "w"),)),
        ("row_names_in_", (("h",), None)),
        ("row_names_in_", "hw"),
    ],
)
def test_models_with_wrong_names_are_not_saved(name, value, tmp_path):
    pytest.importorskip("skops")
    model = TATML(random_state=0).fit(named(), np.arange(12) % 2)
    setattr(model, name, value)
    with pytest.raises((TypeError, ValueError), match=rf"{name}.*: expected"):
        save_model(model, tmp_path / "model.tatml")


def test_displays_show_the_names_of_bands_channels_and_features():
    """From signals to the picture, through a pipeline."""
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot as plt

    from tatml.plotting import (
        BlockShareDisplay,
        FeatureShareDisplay,
        MetricDisplay,
        PermutationImportanceDisplay,
    )

    def ticks(axis):
        return [tick.get_text() for tick in axis.get_ticklabels()]

    model = make_pipeline(BANK, LogEuclidean(), TATML(random_state=0)).fit(SIGNALS, LABELS)
    X = model[:-1].transform(SIGNALS)
    pairs = [[0, 1], [0, 2], [1, 3], [2, 5]]
    signs = [-1, 1, 1, -1]
    matrices = MetricDisplay.from_estimator(model[-1])
    assert [ax.get_title() for ax in matrices.axes_[0]] == list(BANDS)
    for ax in matrices.axes_[0]:
        assert ticks(ax.xaxis) == ticks(ax.yaxis) == list(CHANNELS)
    blocks = BlockShareDisplay.from_estimator(model[-1], pairs, signs, X)
    assert ticks(blocks.ax_.yaxis) == list(BANDS)
    rows = {f"{band}: {channel}" for band in BANDS for channel in CHANNELS}
    for display in (FeatureShareDisplay, PermutationImportanceDisplay):
        assert set(ticks(display.from_estimator(model[-1], pairs, signs, X).ax_.yaxis)) == rows
    plain = MetricDisplay.from_estimator(TATML(random_state=0).fit(Blocks(*X.arrays), LABELS))
    assert [ax.get_title() for ax in plain.axes_[0]] == ["Block 0", "Block 1"]
    plt.close("all")


def test_joined_vectors_keep_names_as_columns_of_a_data_frame():
    model = make_pipeline(BANK, LogEuclidean(), Vectorize(join=True), TATML(random_state=0))
    model.set_output(transform="pandas").fit(SIGNALS, LABELS)
    names = model[-1]._row_names()[0]
    assert len(names) == 2 * 6
    assert names[:3] == ("8–13 Hz_C3_C3", "8–13 Hz_C3_Cz", "8–13 Hz_C3_C4")
    assert names[-1] == "13–30 Hz_C4_C4"
