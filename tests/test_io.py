"""Models in files: complete, without training data, checked when loaded, and never code."""

import errno
import io as streams
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import TRAIN, WINE, wine_pairs
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.model_selection import GroupKFold, RepeatedKFold
from sklearn.preprocessing import StandardScaler

from tatml import (
    GMML,
    ITML,
    TATML,
    TATMLCV,
    Blocks,
    Dykstra,
    Euclidean,
    Maz,
    Newton,
    PairThreshold,
    Status,
    TATMLPairs,
    TATMLTriplets,
    io,
)
from tatml._data.atomic_files import written_atomically
from tatml._estimators.fitted_state import IN_FILES
from tatml._verification.targets import Calibration
from tatml.features import KernelMap
from tatml.io import check_metadata, is_plain, without_fits

skops = pytest.importorskip("skops.io")

X, Y = WINE.data[TRAIN], WINE.target[TRAIN]
FEW = {"n_pairs_per_class": 20, "random_state": 0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fitted(**changes):
    return TATML(**FEW | changes).fit(X, Y)


def search(grid=None, estimator=None, **changes):
    given = {"param_grid": grid or {"C": [1, 10]}, "cv": 2, "random_state": 0} | changes
    return TATMLCV(TATML(**FEW) if estimator is None else estimator, **given).fit(X, Y)


def with_state(model, **changes):
    """A model with other parameters or attributes, None for one that is missing."""
    state = {**vars(model), **changes}
    other = object.__new__(type(model))
    vars(other).update({name: value for name, value in state.items() if value is not MISSING})
    return other


MISSING = object()


# What is saved


def lookup(index):
    return X[index]


def distance(u, v):
    return float(np.abs(u - v).sum())


def all_kinds():
    index, similar = wine_pairs(TRAIN, count=60)
    labels = np.where(similar, 1, -1)
    blocks = Blocks(X[:, :12].reshape(-1, 4, 3), X[:, 12:])
    seeded = Newton(max_iter=100, random_state=np.random.default_rng(0))
    some = {"n_pairs_per_class": 20, "random_state": np.random.RandomState(0)}
    folds, grid = [(np.arange(0, 89, 2), np.arange(1, 89, 2))], {"C": [1, 10]}
    return [
        TATML(prior=np.eye(13), n_components=3, solver=seeded, **some).fit(X, Y),
        TATML(c0=np.inf, margin=[0.5, 2], **FEW).set_output(transform="pandas").fit(X, Y),
        TATML(**FEW).fit(blocks, Y),
        TATMLCV(TATML(**FEW), grid, cv=GroupKFold(2)).fit(X, Y, groups=np.arange(89)),
        search({"C": np.array([1, 10])}, TATML(prior=np.eye(13), preprocessor=X), cv=folds),
        search([grid | {"n_components": [3]}], TATML(kernel="rbf", **FEW)),
        Maz(threshold="search", cv=2, **FEW).fit(X, Y),
        ITML(solver=Dykstra(), tol=1e-3, **FEW).fit(X, Y),
        GMML(**FEW).fit(X, Y),
        Euclidean(**FEW).fit(X, Y),
        Euclidean().fit(X),
        TATMLPairs(preprocessor=X, class_weight={-1: 1, 1: 2.0}).fit(index, labels),
        TATMLPairs(preprocessor=lookup, C=10).fit(index, labels),
        TATMLPairs(preprocessor=blocks).fit(index, labels),
        PairThreshold(preprocessor=X).fit(index, labels),
        PairThreshold(metric="precomputed").fit(index[:, 0] / 89, labels),
    ]


def test_requests_of_metadata_are_not_saved(folder):
    with config_context(enable_metadata_routing=True):
        io.save_model(fitted().set_fit_request(groups=True), "model.skops")
    requests = io.load_model("model.skops").estimator.get_metadata_routing().fit.requests
    assert requests == {"groups": None, "sample_weight": None}


def test_every_kind_of_model_answers_the_same_after_loading(folder):
    pytest.importorskip("pandas")
    blocks = Blocks(X[:, :12].reshape(-1, 4, 3), X[:, 12:])
    for estimator in all_kinds():
        io.save_model(estimator, "model.skops", {"data": "wine", "sizes": [1, {"a": None}]})
        model = io.load_model("model.skops")
        loaded, data = model.estimator, X
        assert type(loaded) is type(estimator)
        assert model.metadata["sizes"] == [1, {"a": None}]
        if getattr(estimator, "block_shapes_", ((13, 1),)) != ((13, 1),):
            data = blocks
        if hasattr(estimator, "transform"):
            assert_array_equal(loaded.transform(data), estimator.transform(data))
        if hasattr(estimator, "threshold_"):
            assert loaded.threshold_ == estimator.threshold_
        if hasattr(estimator, "result_"):
            assert loaded.result_.status is Status.CONVERGED
            assert loaded.result_.gap == estimator.result_.gap
            assert_array_equal(loaded.result_.W[0], estimator.result_.W[0])


def test_a_model_holds_no_training_data(folder):
    """No array of the file is as long as the data, and none of their numbers is in it."""
    index, similar = wine_pairs(TRAIN, count=70)
    labels = np.where(similar, 1, -1)
    for estimator in (
        TATMLPairs(preprocessor=X).fit(index, labels),
        PairThreshold(preprocessor=X).fit(index, labels),
        fitted(preprocessor=X),
        ITML(preprocessor=X, **FEW).fit(X, Y),
    ):
        io.save_model(estimator, "model.skops")
        data = ("preprocessor", "pairs_", "similar_", "pair_weights_")
        held = {name for name in data if getattr(estimator, name, None) is not None}
        assert len(held) >= 2  # the estimator itself is as before
        with zipfile.ZipFile("model.skops") as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            arrays = [np.load(streams.BytesIO(archive.read(name))) for name in names]
        assert max((array.size for array in arrays), default=0) <= 13 * 13
        assert not any(np.isin(array, X[:, 12]).any() for array in arrays if array.dtype == float)
        model = io.load_model("model.skops")
        assert [getattr(model.estimator, name, None) for name in data] == [None] * 4
        assert {name for name in model.metadata["left_out"] if "result_" not in name} == held
        assert "threshold_" in model.metadata["holds"]
        assert "pairs_" not in model.metadata["holds"]
        if hasattr(estimator, "result_"):
            assert model.estimator.result_.active is None
            assert model.estimator.result_.multipliers is None
    pairs = X[index]
    assert_array_equal(model.estimator.pair_distance(pairs), estimator.pair_distance(pairs))


def test_a_model_without_a_centre_is_loaded(folder):
    """As those of versions before the mean of the samples was kept."""
    metric = fitted()
    skops.dump(with_state(metric, _center=MISSING), "model.skops")
    loaded = io.load_model("model.skops").estimator
    pairs = np.stack(np.triu_indices(20, 1), axis=1)
    np.testing.assert_allclose(
        loaded.pair_distance(pairs, X), metric.pair_distance(pairs, X), rtol=1e-9
    )


@pytest.mark.parametrize("solver", ["newton", Dykstra(max_iter=2000)])
def test_a_loaded_model_can_be_fitted_again(folder, solver):
    metric = fitted(warm_start=True, solver=solver, tol=1e-3)
    io.save_model(metric, "model.skops")
    again = io.load_model("model.skops").estimator.fit(X, Y)
    assert abs(again.threshold_ / metric.threshold_ - 1) < 1e-3


def test_the_representation_shows_no_arrays(folder):
    model = io.Model(fitted(prior=np.eye(13), preprocessor=X), {"version": "1.0", "command": "x"})
    threshold = f"{model.estimator.threshold_:.3g}"
    assert repr(model) == f"Model(TATML, n_features=13, threshold={threshold}, version='1.0')"
    io.save_model(model.estimator, "model.skops")
    text = repr(io.load_model("model.skops"))
    assert "holds=['n_features_in_', " in text
    assert "left_out=['preprocessor', " in text
    assert "array" not in text


def test_an_estimator_saved_by_skops_itself_is_a_model(folder):
    skops.dump(fitted(preprocessor=X), "model.skops")
    model = io.load_model("model.skops")
    assert model.metadata == {}
    assert_array_equal(model.estimator.preprocessor, X)


def test_what_is_not_saved(folder):
    index, similar = wine_pairs(TRAIN, count=30)
    labels = np.where(similar, 1, -1)
    good = fitted()
    for estimator, metadata, expected in (
        ({}, {}, "expected one of GMML, ITML, TATML"),
        (TATML(), {}, "not fitted"),
        (PairThreshold(metric=distance).fit(X[index], labels), {}, "functions are not saved"),
        (search(cv=RepeatedKFold(n_splits=2, n_repeats=1)), {}, "KFold"),
        (with_state(good, C=-1), {}, "C: expected a positive number"),
        (good, {"data": X}, "metadata: expected words, numbers and lists"),
        (good, {1: "one"}, "metadata: expected words, numbers and lists under words, got 1"),
        (good, {"feature_names": ["a"]}, "feature_names: expected 13 names, one per feature"),
    ):
        with pytest.raises((TypeError, ValueError), match=expected):
            io.save_model(estimator, "model.skops", metadata)
        assert os.listdir(folder) == []


# Hostile and damaged files


def refused(expected, **options):
    with pytest.raises(ValueError, match=expected) as caught:
        io.load_model("model.skops", **options)
    message = str(caught.value)
    assert message.startswith("model.skops: expected a")
    assert "\n" not in message
    return message


class Payload:
    """Pickled, it runs a command when it is loaded."""

    def __reduce__(self):
        return os.system, ("touch hacked",)


def test_loading_runs_no_code(folder):
    Path("model.skops").write_bytes(pickle.dumps(Payload()))
    refused("pickles are not read: they can run code")
    skops.dump({"format": io.FORMAT, "metadata": {}, "estimator": os.system}, "model.skops")
    refused(r"needs (posix|nt)\.system")
    skops.dump(StandardScaler().fit(X), "model.skops")  # a type that skops trusts, but no model
    refused(r"needs sklearn\.preprocessing\._data\.StandardScaler")
    call = {"__module__": "os", "__class__": "system", "__id__": 1}
    text = {"__module__": "builtins", "__class__": "str", "__loader__": "JsonNode"}
    arguments = {"__module__": "builtins", "__class__": "tuple", "__loader__": "TupleNode"}
    arguments["content"] = [{**text, "content": '"touch hacked"', "is_json": True, "__id__": 3}]
    for loader in (
        *("FunctionNode", "TypeNode", "ObjectNode", "DictNode", "ListNode", "NdArrayNode"),
        *("ConstructorFromReduceNode", "PartialNode", "MethodNode", "ReduceNode", "Unknown"),
    ):
        node = {**call, "__loader__": loader, "content": {**arguments, "__id__": 2}}
        write_schema({**node, "protocol": 2, "_skops_version": "0.11"})
        refused(r"needs os\.system")
    assert os.listdir(folder) == ["model.skops"]


def write_schema(schema, **files):
    with zipfile.ZipFile("model.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", json.dumps(schema))
        for name, content in files.items():
            archive.writestr(f"{name}.npy", content)


def test_what_is_no_model(folder):
    write_schema({})
    refused("skops cannot read")
    skops.dump({"something": "else"}, "model.skops")
    refused("got dict")
    skops.dump({"format": "tatml model 2"}, "model.skops")
    refused("a newer tatml may be needed")
    skops.dump({"format": io.FORMAT, "metadata": {}, "estimator": [1]}, "model.skops")
    refused("got list")
    io.save_model(fitted(), "model.skops")
    content = Path("model.skops").read_bytes()
    for size in (10, len(content) // 2, len(content) - 1):
        Path("model.skops").write_bytes(content[:size])
        refused("another kind of file|skops cannot read")
    damaged = bytearray(content)
    damaged[200] ^= 255
    Path("model.skops").write_bytes(damaged)
    refused("skops cannot read")
    with pytest.raises(FileNotFoundError, match="got no such file"):
        io.load_model("none.skops")
    with pytest.raises(IsADirectoryError, match="got a folder"):
        io.load_model(folder)


def test_models_that_unpack_to_too_much_are_refused_before(folder, monkeypatch):
    metric = fitted()
    io.save_model(metric, "model.skops")
    with zipfile.ZipFile("model.skops") as archive:
        total = sum(entry.file_size for entry in archive.infolist())
    assert io.load_model("model.skops", max_bytes=total).estimator.threshold_ == metric.threshold_
    loaded = []
    monkeypatch.setattr(skops, "load", lambda *_, **__: loaded.append(1))
    refused(f"unpacks to {total} bytes; the limit is max_bytes={total - 1}", max_bytes=total - 1)
    write_schema({}, bomb=bytes(10**7))  # ten megabytes of zeros in a file of ten kilobytes
    assert Path("model.skops").stat().st_size < 20_000
    refused("unpacks to 100", max_bytes=10**6)
    node = {"__module__": "numpy", "__class__": "ndarray", "__loader__": "NdArrayNode"}
    node |= {"type": "numpy", "file": "bomb.npy", "__id__": 1}
    many = {"__module__": "builtins", "__class__": "list", "__loader__": "ListNode", "__id__": 2}
    write_schema({**many, "content": 1000 * [node]}, bomb=bytes(10**6))  # one array, many times
    refused("unpacks to 1000000000 bytes", max_bytes=10**8)
    write_schema({"x": "0" * io.MAX_SCHEMA_BYTES})
    refused("has a description of 16777225 bytes")
    assert loaded == []
    with pytest.raises(ValueError, match="max_bytes: expected at least 1"):
        io.load_model("model.skops", max_bytes=0)


def test_settings_hold_no_samples_of_another_fit():
    kernel = KernelMap().fit(X)
    given = {
        "estimator": TATML(preprocessor=X, kernel=kernel),
        "grid": [{"kernel": (None, kernel)}],
    }
    found = without_fits(given)
    assert found["estimator"].preprocessor is None
    for held in (found["estimator"].kernel, found["grid"][0]["kernel"][1]):
        assert not hasattr(held, "maps_")
    assert given["estimator"].preprocessor is X  # what was given is as it was
    assert hasattr(kernel, "maps_")


def test_an_estimator_in_a_file_is_not_fitted_and_holds_no_function():
    check = IN_FILES["estimator"]
    check("estimator", TATML(solver=Newton(max_iter=3)))
    for wrong, words in (
        (fitted(), "estimator: expected an estimator that is not fitted"),
        (with_state(TATML(), C=MISSING), "estimator: expected an estimator that is not fitted"),
        (TATML(preprocessor=lookup), "preprocessor: expected"),
        (TATML(solver=with_state(Newton(), speed=1)), "solver: expected the fields of a Newton"),
        (TATML(solver=with_state(Newton(), max_iter=0)), "max_iter: expected at least 1, got 0"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            check("estimator", wrong)


def wrong_states():
    """Changes of a model, each of which alone must be refused, and the attribute to be named."""
    metric, eye = fitted(), np.eye(13)
    result = metric.result_

    def result_with(**changes):
        return {"result_": with_state(result, **changes)}

    def calibration_with(**changes):
        return {"calibration_": with_state(calibration, **changes)}

    calibration = Calibration("false_match_rate", "exact", 0.02, 0.95, 4, 500, 500.0)
    asymmetric = eye + np.eye(13, k=1)
    return metric, [
        ({"C": -1.0}, "C"),
        ({"C": "100"}, "C"),
        ({"C": MISSING}, "C"),
        ({"margin": (2.0, 0.5)}, "margin"),
        ({"threshold": "search for it"}, "threshold"),
        ({"threshold": "search"}, "threshold"),  # of Maz
        ({"threshold": 1e160}, "threshold"),
        ({"kernel": KernelMap(gamma=-1.0)}, "kernel: gamma"),
        ({"threshold_prior": -1.0}, "threshold_prior"),
        ({"c0": 0.0}, "c0"),
        ({"prior": "none"}, "prior"),
        ({"prior": np.eye(3)}, "prior"),
        ({"prior": -eye}, "prior: block 0"),
        ({"pairs": "some"}, "pairs"),
        ({"n_components": 20}, "n_components"),
        ({"n_components": 3}, "components_"),
        ({"n_components": [1.5]}, "n_components"),
        ({"reduction": 1}, "reduction"),
        ({"solver": with_state(Newton(), max_iter=0)}, "max_iter"),
        ({"solver": with_state(Newton(), speed=1)}, "solver"),
        ({"random_state": "seed"}, "random_state"),
        ({"warm_start": "yes"}, "warm_start"),
        ({"tol": 0.0}, "tol"),
        ({"preprocessor": np.array([[np.nan]])}, "preprocessor"),
        ({"preprocessor": "X"}, "preprocessor"),
        ({"transform": 1}, "transform"),
        ({"extra_": eye}, "extra_"),
        ({"components_": MISSING}, "components_"),
        ({"components_": np.eye(12)}, "components_"),
        ({"components_": np.full((13, 13), np.nan)}, "components_"),
        ({"components_": eye.tolist()}, "components_"),
        ({"components_": eye.astype(str)}, "components_"),
        ({"components_": [eye, eye]}, "components_"),
        ({"prior_": MISSING}, "prior_"),
        ({"prior_": np.eye(14)}, "prior_"),
        ({"prior_": np.full((13, 13), np.inf)}, "prior_"),
        ({"threshold_": np.nan}, "threshold_"),
        ({"threshold_": -1.0}, "threshold_"),
        ({"threshold_": "1"}, "threshold_"),
        ({"b0_": np.inf}, "b0_"),
        ({"threshold_factor_": 0.0}, "threshold_factor_"),
        ({"threshold_factor_": "1"}, "threshold_factor_"),
        ({"prior_units_": "rows"}, "prior_units_"),
        ({"prior_units_": None}, "prior_units_"),
        ({"clip_outliers": "yes"}, "clip_outliers"),
        ({"clip_outliers": None}, "clip_outliers"),
        ({"likelihood_ratio_": np.ones(2)}, "same_rate_"),
        ({"likelihood_ratio_": np.ones(3), "same_rate_": 0.5}, "likelihood_ratio_"),
        ({"likelihood_ratio_": [1.0, 1.0], "same_rate_": 0.5}, "likelihood_ratio_"),
        ({"kernel_map_": KernelMap()}, "kernel_map_"),
        ({"kernel_map_": {}}, "kernel_map_"),
        ({"n_features_in_": MISSING}, "n_features_in_"),
        ({"n_features_in_": 12}, "n_features_in_"),
        ({"n_features_in_": 13.0}, "n_features_in_"),
        ({"block_shapes_": MISSING}, "block_shapes_"),
        ({"block_shapes_": ((12, 1),)}, "n_features_in_"),
        ({"block_shapes_": ((13,),)}, "block_shapes_"),
        ({"block_shapes_": ((-13, -1),)}, "block_shapes_"),
        ({"block_names_in_": ["wine"]}, "block_names_in_"),
        ({"block_names_in_": ("red", "white")}, "block_names_in_"),
        ({"row_names_in_": (("a", "b"),)}, "row_names_in_[0]"),
        ({"feature_names_in_": 13 * ["a"]}, "feature_names_in_"),
        ({"feature_names_in_": np.array(["a"], dtype=object)}, "feature_names_in_"),
        ({"feature_names_in_": np.array(13 * [1], dtype=object)}, "feature_names_in_"),
        ({"_center": np.zeros((13, 1))}, "_center"),
        ({"_center": [np.zeros((12, 1))]}, "_center"),
        ({"_center": [np.zeros(13)]}, "_center"),
        ({"_center": [np.full((13, 1), np.nan)]}, "_center"),
        ({"_center": [np.zeros((13, 1), dtype=int)]}, "_center"),
        ({"_center": 2 * [np.zeros((13, 1))]}, "_center"),
        ({"n_iter_": 0}, "n_iter_"),
        ({"n_iter_": result.n_iter + 1}, "n_iter_"),
        ({"pairs_": eye}, "pairs_"),
        ({"similar_": np.zeros((2, 2), dtype=bool)}, "similar_"),
        ({"pair_weights_": np.array([np.nan])}, "pair_weights_"),
        ({"result_": {"L": [eye]}}, "result_"),
        (result_with(L=[np.eye(12)]), "result_.L"),
        (result_with(L=[asymmetric]), "result_.L"),
        (result_with(L=[-eye]), "result_.L"),
        (result_with(L=[np.diag(np.arange(13.0))]), "result_.L"),
        (result_with(L=eye[0]), "result_.L"),
        (result_with(b0=np.nan), "result_.b0"),
        (result_with(dual=np.nan), "result_.dual"),
        (result_with(active=eye), "result_.active"),
        (result_with(gap=-1.0), "result_.gap"),
        (result_with(primal="1"), "result_.primal"),
        (result_with(tol=None), "result_.tol"),
        (result_with(n_iter=-1), "result_.n_iter"),
        (result_with(history=[]), "result_.history"),
        (result_with(history={"gap": np.ones(3), "b0": np.ones(2)}), "result_.history"),
        (result_with(multipliers=np.array([np.inf])), "result_.multipliers"),
        (result_with(more=1), "result_"),
        ({"calibration_": result}, "calibration_"),
        ({"calibration_": {"strategy": "accuracy", "method": "exact"}}, "calibration_"),
        (calibration_with(more=1), "calibration_"),
        (calibration_with(n_pairs=MISSING), "calibration_"),
        (calibration_with(strategy="luck"), "calibration_.strategy"),
        (calibration_with(method="luck"), "calibration_.method"),
        (calibration_with(n_pairs=0), "calibration_.n_pairs"),
        (calibration_with(max_rate=2.0), "calibration_.max_rate"),
        (calibration_with(confidence="0.95"), "calibration_.confidence"),
        (calibration_with(n_errors=-1), "calibration_.n_errors"),
        (calibration_with(n_effective=-1.0), "calibration_.n_effective"),
        ({"_sklearn_output_config": {"transform": "posix"}}, "set_output"),
        ({"_sklearn_output_config": [1]}, "set_output"),
    ]


def test_every_parameter_and_attribute_is_checked(folder):
    metric, cases = wrong_states()
    for changes, name in cases:
        skops.dump(with_state(metric, **changes), "model.skops")
        message = refused("got one with a wrong value: TATML: ")
        assert f"TATML: {name}: expected" in message, (changes, message)
    for right in ({"n_iter": 0}, {"dual": -np.inf, "gap": np.inf}):  # solved at once; no bound
        result = with_state(metric.result_, **right)
        skops.dump(with_state(metric, result_=result, n_iter_=max(1, result.n_iter)), "model.skops")
        assert io.load_model("model.skops").estimator.result_.gap == result.gap
    calibrated = fitted()
    calibrated.calibration_ = Calibration("false_match_rate", "exact", 0.02, 0.95, 0, 500, 500.0)
    io.load_model(io.save_model(calibrated, "calibrated.skops"))  # no errors among its pairs
    result = with_state(metric.result_, status="converged")
    with pytest.raises(TypeError, match=r"result_\.status: expected a Status"):
        io.save_model(with_state(metric, result_=result), "model.skops")


def test_the_attributes_of_the_other_estimators_are_checked(folder):
    index, similar = wine_pairs(TRAIN, count=30)
    labels = np.where(similar, 1, -1)
    found = search()
    pairs = TATMLPairs(C=10).fit(X[index], labels)
    threshold = PairThreshold().fit(X[index], labels)
    maz, itml = Maz(**FEW).fit(X, Y), ITML(**FEW, tol=1e-3).fit(X, Y)
    triplets = TATMLTriplets().fit(X[[[0, 1, 40], [2, 3, 60], [41, 42, 5]]])
    results, scores = found.cv_results_, found.cv_results_["std_test_score"]
    inner = found.estimator
    for estimator, changes, name in (
        (found, {"param_grid": {"C": [0]}}, "param_grid"),
        (found, {"param_grid": {"D": [1]}}, "param_grid"),
        (found, {"param_grid": 0}, "param_grid"),
        (found, {"estimator": maz}, "estimator"),
        (found, {"estimator": fitted()}, "estimator"),
        (found, {"estimator": with_state(inner, C=0)}, "estimator: C"),
        (found, {"estimator": with_state(inner, n_components=3)}, "components_"),
        (found, {"estimator": with_state(inner, prior=np.eye(3))}, "prior"),
        (found, {"cv": 1}, "cv"),
        (found, {"cv": 2.5}, "cv"),
        (found, {"cv": "three"}, "cv"),
        (found, {"k": 0}, "k"),
        (found, {"n_jobs": 0}, "n_jobs"),
        (found, {"scoring": "best"}, "scoring"),
        (found, {"C_": 5.0}, "C_"),
        (found, {"best_score_": 0.123}, "best_score_"),
        (found, {"best_params_": results["params"][0] | {"C": found.C_, "k": 1}}, "best_params_"),
        (found, {"best_params_": {"C": "much"}}, "best_params_: C"),
        (found, {"best_params_": [1]}, "best_params_"),
        (found, {"best_index_": 1 - found.best_index_}, "best_index_"),
        (found, {"n_splits_": 1}, "n_splits_"),
        (found, {"n_splits_": 10**12}, "n_splits_"),
        (found, {"cv_results_": results | {"split3_test_score": scores}}, "n_splits_"),
        (found, {"cv_results_": {}}, "cv_results_"),
        (found, {"cv_results_": results | {"params": [1, 2]}}, "cv_results_['params']"),
        (found, {"cv_results_": results | {"param_C": np.ma.ones(2)}}, "cv_results_['param_C']"),
        (found, {"cv_results_": results | {"rank_test_score": np.ones(2)}}, "cv_results_['rank"),
        (found, {"cv_results_": results | {"more": scores}}, "cv_results_"),
        (found, {"cv_results_": results | {"mean_test_score": np.ones(3)}}, "cv_results_"),
        (found, {"cv_results_": MISSING}, "cv_results_"),
        (found, {"cv_results_": results | {"std_test_score": np.nan * scores}}, "cv_results_"),
        (pairs, {"classes_": [-1, 1]}, "classes_: expected"),
        (pairs, {"classes_": np.array([0, 1])}, "classes_"),
        (pairs, {"class_weight": {2: 1.0}}, "class_weight"),
        (pairs, {"class_weight": {1: -1.0}}, "class_weight"),
        (pairs, {"result_": MISSING}, "result_"),
        (threshold, {"metric": "posix"}, "metric"),
        (threshold, {"metric": 3}, "metric"),
        (threshold, {"threshold_": MISSING}, "threshold_"),
        (maz, {"threshold": "auto"}, "threshold"),
        (maz, {"search_scores_": {"a": 1.0}}, "search_scores_"),
        (maz, {"search_scores_": {}}, "search_scores_"),
        (maz, {"search_scores_": [0.5]}, "search_scores_"),
        (maz, {"search_scores_": {0.5: 2.0}}, "search_scores_"),
        (itml, {"bounds_": (2.0, 1.0)}, "bounds"),
        (itml, {"percentiles": (95, 5)}, "percentiles"),
        (itml, {"gamma": 0}, "gamma"),
        (triplets, {"comparisons_": np.arange(3)}, "comparisons_"),
        (triplets, {"components_": MISSING}, "components_"),
    ):
        skops.dump(with_state(estimator, **changes), "model.skops")
        message = refused(f"got one with a wrong value: {type(estimator).__name__}: ")
        assert f": {name}" in message, (changes, message)


def test_metadata_are_checked(folder):
    metric = fitted()
    for metadata in (
        {"feature_names": 5},
        {"feature_names": ["a"]},
        {"feature_names": [1] * 13},
        {"target": 1},
        {"groups": ["a"]},
        {"version": 1.0},
        {"data": X},
        {1: "one"},
    ):
        content = {"format": io.FORMAT, "metadata": metadata, "estimator": metric}
        skops.dump(content, "model.skops")
        refused("wrong value: TATML: metadata: ")
    endless = []
    endless.append(endless)
    for metadata in ({"data": endless}, [1], "text"):
        with pytest.raises(TypeError, match=r"^metadata: expected "):
            io.save_model(metric, "model.skops", metadata)


# Writing


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_new_files_have_the_permissions_of_the_umask(folder, umask, mode):
    before = os.umask(umask)
    try:
        io.save_model(Euclidean().fit(X), f"{mode}.skops")
    finally:
        os.umask(before)
    assert os.stat(f"{mode}.skops").st_mode & 0o777 == mode


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_replaced_file_keeps_its_permissions(folder):
    Path("model.skops").touch(0o600)
    io.save_model(Euclidean().fit(X), "model.skops")
    assert os.stat("model.skops").st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(
    ("target", "mode"), [(0o600, 0o600), (0o640, 0o600), (0o400, 0o600), (None, 0o644)]
)
def test_the_temporary_file_is_never_more_readable_than_the_file_that_it_replaces(
    folder, target, mode
):
    """Whoever opens the temporary file while it is written could read the model."""
    Path("model.skops").unlink(missing_ok=True)
    if target is not None:
        Path("model.skops").touch()
        os.chmod("model.skops", target)
    before = os.umask(0o022)
    try:
        with written_atomically("model.skops") as file:
            (temporary,) = folder.glob(".tatml-*.part")
            assert temporary.stat().st_mode & 0o777 == mode
            file.write(b"new")
    finally:
        os.umask(before)
    assert os.stat("model.skops").st_mode & 0o777 == (mode if target is None else target)
    assert Path("model.skops").read_bytes() == b"new"


def fails_with(number):
    def broken(*_, **__):
        raise OSError(number, os.strerror(number))

    return broken


@pytest.mark.parametrize("step", ["builtins.open", "os.fsync", "os.chmod", "os.replace"])
def test_a_failing_step_leaves_the_old_model(folder, monkeypatch, step):
    io.save_model(fitted(), "model.skops")
    before = Path("model.skops").read_bytes()
    with monkeypatch.context() as context:
        context.setattr(step, fails_with(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left") as caught:
            io.save_model(fitted(C=1.0), "model.skops")
    assert caught.value.filename == "model.skops"
    assert Path("model.skops").read_bytes() == before
    assert os.listdir(folder) == ["model.skops"]


def write_while(other):
    with written_atomically("out.csv", overwrite=False) as file:
        file.write(b"mine")
        other()


def test_a_file_created_meanwhile_is_kept(folder, monkeypatch):
    """Also where the file system has no hard links."""
    for link in (os.link, fails_with(errno.EPERM)):
        monkeypatch.setattr(os, "link", link)
        with pytest.raises(FileExistsError) as caught:
            write_while(lambda: Path("out.csv").write_text("theirs", encoding="utf-8"))
        assert caught.value.filename == "out.csv"
        assert Path("out.csv").read_text(encoding="utf-8") == "theirs"
        assert os.listdir(folder) == ["out.csv"]
        os.unlink("out.csv")
        write_while(lambda: None)
        assert os.listdir(folder) == ["out.csv"]
        os.unlink("out.csv")
    monkeypatch.setattr(os, "link", fails_with(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        write_while(lambda: None)
    assert os.listdir(folder) == []


def test_an_error_inside_leaves_nothing(folder):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_while(interrupt)
    assert os.listdir(folder) == []


def test_plain_values_are_words_numbers_and_lists_of_them_to_a_depth_of_twenty():
    plain = [None, 1, 2.5, True, "a", [], (1, "a"), {"a": [1, {"b": None}]}, np.float64(1)]
    others = [{1}, {1: "a"}, {"a": {1}}, {"a": 1, 2: "b"}, [b"a"], np.ones(2), {"a": {"b": {1}}}]
    assert all(is_plain(value) for value in plain)
    assert not any(is_plain(value) for value in others)
    for make in (lambda value: [value], lambda value: {"a": value}):
        value = 1
        for _ in range(20):
            value = make(value)
        assert is_plain(value)
        assert not is_plain(make(value))


def test_names_of_features_are_one_per_feature(folder):
    metric = Euclidean().fit([[0.0, 1.0], [1.0, 0.0], [3.0, 2.0]], [0, 0, 1])
    for names, error in ((["a", "b"], None), (["a"], ValueError), (["a", 1], TypeError)):
        model = io.Model(metric, {"feature_names": names})
        if error is None:
            check_metadata(model.metadata, model.estimator)
        else:
            with pytest.raises(error, match="metadata: feature_names: expected"):
                check_metadata(model.metadata, model.estimator)
    for name in ("version", "target", "groups"):
        check_metadata({name: "word"}, metric)
        with pytest.raises(TypeError, match=f"metadata: {name}: expected a word, got 3"):
            check_metadata({name: 3}, metric)
