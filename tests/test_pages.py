"""The Python blocks of the pages outside of the tutorials run, with the names that they leave open.

Other tests run those of the README, the start page, the command, verification and deployment.
"""

import ast
import builtins

import numpy as np
import pytest
import sklearn
from docs_helpers import DOCS, code_of
from run_pages import blocks_of
from sklearn.datasets import load_digits, load_iris
from sklearn.utils.fixes import parse_version

from tatml import TATMLPairs

ELSEWHERE = {"cli.md", "deployment.md", "index.md", "verification.md"}
# What the reader has: the names of a page that none of its blocks defines.
OPEN = {
    "datasets.md": (),
    "features_images.md": ("images", "labels"),
    "features_spd.md": (),
    "guide.md": (
        *("verifier", "held_out", "y_held_out", "identity"),
        *("pairs", "y", "new_pairs", "other_pairs", "other_y"),
    ),
    "kernels.md": ("X", "y"),
    "reproduction.md": (),
    "scale.md": ("embeddings", "pairs", "similar", "X", "y", "images", "descriptor"),
    "search.md": ("X", "y", "new"),
    "solvers.md": (),
}


def text_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


def run(name, given, skip=()):
    """Run the blocks of a page in one namespace; leave out those with one of the given words."""
    names = dict(given)
    with sklearn.config_context():  # a page may set the configuration
        for block in blocks_of(text_of(name)):
            if not any(word in block for word in skip):
                exec(compile(block, name, "exec"), names)
    return names


def test_every_page_with_code_is_run_or_named_here():
    pages = {path.name for path in DOCS.glob("*.md") if blocks_of(path.read_text(encoding="utf-8"))}
    assert pages == ELSEWHERE | set(OPEN)


@pytest.mark.parametrize("name", OPEN)
def test_a_page_leaves_no_other_names_open(name):
    used, defined = set(), set(dir(builtins))
    for node in ast.walk(ast.parse(code_of(DOCS / name))):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef):
            defined |= {node.name, *(argument.arg for argument in node.args.args)}
        elif isinstance(node, ast.ClassDef):
            defined.add(node.name)
    assert used - defined - set(OPEN[name]) == set()


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="cross_val_score passes no groups to the transformers of a pipeline",
)
def test_features_of_matrices():
    names = run("features_spd.md", {})
    np.testing.assert_allclose(names["again"], names["test"], rtol=1e-8)
    assert len(names["scores"]) == 4  # one per subject
    assert names["scores"].mean() > 0.7
    assert names["search"].best_score_ > 0.7
    assert names["new"].shape == (50, 8, 8)


def test_features_of_images():
    images, labels = load_digits(return_X_y=True)
    given = {"images": images[:60].reshape(-1, 8, 8) / 16, "labels": labels[:60]}
    assert run("features_images.md", given)["model"].predict(given["images"]).shape == (60,)


def test_the_estimators():
    pytest.importorskip("matplotlib").use("agg")
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    identity = np.repeat(np.arange(900), 4)
    X = rng.normal(size=(900, 6))[identity] * 2 + 0.1 * rng.normal(size=(3600, 6))
    index = rng.integers(3600, size=(60_000, 2))
    similar = np.column_stack([4 * np.arange(900), 4 * np.arange(900) + 1])
    index = np.concatenate([index[identity[index[:, 0]] != identity[index[:, 1]]], similar])
    y = np.where(identity[index[:, 0]] == identity[index[:, 1]], 1, -1)
    verifier = TATMLPairs(preprocessor=X).fit(index[-2000:], y[-2000:])
    pairs = {"pairs": index, "new_pairs": index[:5], "other_pairs": index[-2000:]}
    labels = {"y": y, "other_y": y[-2000:], "identity": identity}
    held_out = {"held_out": index, "y_held_out": y}
    with pytest.warns(UserWarning, match="error_rates: fewer than"):
        names = run("guide.md", pairs | labels | held_out | {"verifier": verifier})
    assert names["rates"].false_match.high < 0.05
    assert names["rounded"].result_.converged
    square = {"conjugate": lambda self, slope: slope**2 / 2}
    wrong = type("RoundedHinge", (names["RoundedHinge"],), square)()
    with pytest.raises(ValueError, match="conjugate") as raised:
        TATMLPairs(loss=wrong, preprocessor=X).fit(index[:100], y[:100])
    assert f"`{raised.value}`" in text_of("guide.md")


def test_kernels_search_solvers_and_signals():
    X, y = load_iris(return_X_y=True)
    names = run("kernels.md", {"X": X, "y": y})
    assert names["metric"].kernel_map_.kernel == "rbf"
    pytest.importorskip("faiss")
    found = run("search.md", {"X": X, "y": y, "new": X[:3]}, skip=("hnswlib",))
    assert len(found["found"]) >= 3
    judge, queries = found["judge"], np.repeat(np.arange(3), np.diff(found["ends"].astype(int)))
    same = np.column_stack([queries, found["matches"]])
    np.testing.assert_allclose(found["scores"], judge.pair_score(same, X), rtol=1e-4, atol=1e-3)
    everything = np.stack(np.meshgrid(range(3), range(len(X))), -1).reshape(-1, 2)
    assert len(same) == np.sum(judge.predict_pairs(everything, X) > 0)
    run("solvers.md", {})
    assert run("datasets.md", {}, skip=("load_eth80",))["X"].n_blocks == 2


def test_all_pairs():
    X, y = load_iris(return_X_y=True)
    blocks = ("torch", "memmap", "dask")
    assert run("scale.md", {"X": X, "y": y}, skip=blocks)["result"].converged
