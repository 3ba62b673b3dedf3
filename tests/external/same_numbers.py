"""Whether the results of an earlier commit are still the same, on a fixed list of problems.

    python tests/external/same_numbers.py REV [--only WORD]

Checks the earlier commit out into a temporary folder, solves every problem with the code of either,
and compares W, b0 and the gap (of estimators: components_ and threshold_), relative to max(1, |·|).
Prints the largest difference of each kind of problem. The exit status is 1 where a difference is
above 1e-10 (for float32: 1e-6), or where a problem was solved by one of the two only. With --only,
just the problems whose name begins with the word are solved; "paper" are the paper's settings.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine

import tatml

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = {"float32": 1e-6}
DEFAULT_TOLERANCE = 1e-10
TIGHT = 1e-12
COMPUTE = ("dtype", "max_memory", "client", "device")
NOT_OF_SOLVERS = (*COMPUTE, "C", "c0", "mu0", "margin", "prior", "tol", "weights", "init")

Problem = Callable[[], dict[str, Any]]  # solves it: names to numbers and arrays


# One way to call either commit


def learn(*data: Any, solver: str = "newton", **options: Any) -> dict[str, Any]:
    """Call learn_metric, by its old keyword arguments or with solver objects."""
    options = {"tol": TIGHT} | options
    if hasattr(tatml, "Newton"):
        own = {name: options.pop(name) for name in list(options) if name not in NOT_OF_SOLVERS}
        place = {name: options.pop(name) for name in COMPUTE if name in options}
        options["solver"] = {"newton": tatml.Newton, "dykstra": tatml.Dykstra}[solver](**own)
        options["compute"] = tatml.Compute(**place)
    else:
        options["solver"] = solver
    result = tatml.learn_metric(*data, **options)
    matrices = {f"W{m}": to_numpy(W) for m, W in enumerate(result.W)}
    return matrices | {"b0": result.b0, "gap": result.gap}


def itml_solver(order: str) -> Any:
    """Return ITML's projections, in the words of either commit."""
    if hasattr(tatml, "Dykstra"):
        return tatml.Dykstra(order=order)
    return {"cyclic": "cyclic", "permutation": "dykstra"}[order]


def fitted(name: str, data: str, *, from_pairs: bool = False, **options: Any) -> dict[str, Any]:
    """Fit an estimator to labelled samples, or to pairs of them."""
    X, y = labelled(data)
    if from_pairs:
        index = np.random.default_rng(0).integers(len(X), size=(2_000, 2))
        X, y = X[index], np.where(y[index[:, 0]] == y[index[:, 1]], 1, -1)
    make = searched if name == "TATMLCV" else getattr(tatml, name)
    model = make(**options).fit(X, y)
    parts = model.components_
    parts = parts if isinstance(parts, list) else [parts]
    if "n_components" in options:  # the sign of a principal axis is arbitrary
        parts = [part.T @ part for part in parts]
    return {f"components{m}": part for m, part in enumerate(parts)} | {
        "threshold": model.threshold_
    }


def searched(grid: dict[str, list[Any]], cv: int, **options: Any) -> Any:
    """Return a search over parameters of TATML; in version 0.1 it had these parameters itself."""
    if "param_grid" in tatml.TATMLCV().get_params():
        return tatml.TATMLCV(tatml.TATML(**options), grid, cv=cv)
    before = {"C": "Cs", "prior": "priors", "pairs": "pair_strategies", "kernel": "kernels"}
    return tatml.TATMLCV(cv=cv, **{before[name]: grid[name] for name in grid}, **options)


def to_numpy(array: Any) -> np.ndarray:
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array, dtype=np.float64)


# The data


def labelled(name: str) -> tuple[np.ndarray, np.ndarray]:
    return {"wine": load_wine, "digits": load_digits}[name](return_X_y=True)


def drawn(n_pairs: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Standardised wine, index pairs and whether they are similar."""
    X, y = labelled("wine")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    first = np.random.default_rng(1).integers(len(X), size=(n_pairs, 2))
    pairs = np.stack([first[:, 0], (first[:, 0] + 1 + first[:, 1] % (len(X) - 1)) % len(X)], axis=1)
    return X, pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def matrices(n_pairs: int = 120) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Two blocks of random matrices, index pairs and whether they are similar."""
    rng = np.random.default_rng(2)
    y = np.arange(40) % 3
    arrays = [rng.normal(size=(40, *shape)) + y[:, None, None] for shape in ((3, 2), (4, 1))]
    first = rng.integers(40, size=n_pairs)
    pairs = np.stack([first, (first + rng.integers(1, 40, size=n_pairs)) % 40], axis=1)
    return arrays, pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def weights(n_pairs: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(0, 2, size=n_pairs)


def prior(n: int) -> np.ndarray:
    root = np.random.default_rng(4).normal(size=(n, n)) / n
    return np.eye(n) + root @ root.T


# The problems: kind and name, and how to solve them


def in_memory() -> Iterator[tuple[str, Problem]]:
    X, pairs, similar = drawn()
    variants = {
        "plain": {"C": 0.1},
        "large C": {"C": 100.0},
        "prior": {"C": 0.1, "prior": prior(13)},
        "weights": {"C": 0.1, "weights": weights(300)},
        "fixed threshold": {"C": 0.1, "c0": np.inf, "mu0": 10.0},
        "margin": {"C": 0.1, "margin": (0.8, 1.2), "c0": 30.0, "mu0": 5.0},
    }
    for name, options in variants.items():
        for way in ("auto", "dense", "woodbury", "cg"):
            yield (
                f"newton {way}/{name}",
                lambda o=options, w=way: learn(X, pairs, similar, linear_solver=w, **o),
            )
        yield (
            f"float32/{name}",
            lambda o=options: learn(X, pairs, similar, dtype="float32", **o | {"tol": 1e-5}),
        )
    many = drawn(60_000)
    yield "newton rehearsed/wine", lambda: learn(*many, C=1e-3, c0=10.0, random_state=0)
    yield from in_blocks()


def in_blocks() -> Iterator[tuple[str, Problem]]:
    arrays, pairs, similar = matrices()
    for c0 in (1.0, np.inf):
        for way in ("auto", "dense", "woodbury", "cg"):
            yield (
                f"newton {way}/two blocks, c0 = {c0}",
                lambda c=c0, w=way: learn(blocks(arrays), pairs, similar, c0=c, linear_solver=w),
            )
        for projection in ("efficient", "naive"):
            for order in ("permutation", "random", "cyclic"):
                settings = {"projection": projection, "order": order, "random_state": 0}
                settings |= {"solver": "dykstra", "tol": 1e-5, "max_iter": 100, "C": 0.1}
                yield (
                    f"dykstra {projection}/{order}, c0 = {c0}",
                    lambda c=c0, s=settings: learn(blocks(arrays), pairs, similar, c0=c, **s),
                )


def dykstra_vectors() -> Iterator[tuple[str, Problem]]:
    X, pairs, similar = drawn(100)
    options = {"solver": "dykstra", "tol": 1e-4, "max_iter": 200, "random_state": 0, "C": 0.1}
    for order in ("permutation", "random", "cyclic"):
        yield (
            f"dykstra efficient/vectors, {order}",
            lambda o=order: learn(X, pairs, similar, order=o, **options),
        )
    yield (
        "dykstra efficient/warm start",
        lambda: learn(X, pairs, similar, init=first_result(X, pairs, similar), **options),
    )


def first_result(*data: Any) -> Any:
    return tatml.learn_metric(*data, C=0.05, tol=1e-3)


def in_parts() -> Iterator[tuple[str, Problem]]:
    X, pairs, similar = drawn(5_000)
    options = {"C": 0.01, "c0": 5.0, "weights": weights(5_000), "prior": prior(13)}
    for way in ("auto", "dense", "cg"):
        settings = options | {"linear_solver": way, "max_memory": 2**24 + 2**20}
        yield f"shards {way}/wine", lambda s=settings: learn(X, pairs, similar, **s)
    arrays, index, same = matrices()
    yield (
        "shards auto/two blocks",
        lambda: learn(blocks(arrays), index, same, max_memory=2**24 + 2**18),
    )
    yield "chunks/wine", lambda: learn(chunks(X, pairs, similar), C=0.01)
    for way in ("auto", "dense", "cg"):
        yield f"all pairs {way}/wine", lambda w=way: learn(*every(), C=1e-3, linear_solver=w)
    yield "all pairs auto/fixed", lambda: learn(*every(), C=1e-3, c0=np.inf, mu0=10.0)


def every() -> tuple[Any, Any]:
    return drawn()[0], tatml.AllPairs(labelled("wine")[1])


def blocks(arrays: list[np.ndarray]) -> Any:
    return tatml.Blocks(*arrays)


def chunks(X: np.ndarray, pairs: np.ndarray, similar: np.ndarray) -> Any:
    first, second = X[pairs[:, 0]], X[pairs[:, 1]]
    return tatml.PairChunks.from_arrays(first, second, similar, chunk_size=700)


def on_a_cluster() -> Iterator[tuple[str, Problem]]:
    try:
        import dask.array
        import distributed
    except ImportError:
        return
    X, pairs, similar = drawn(5_000)

    def solve(**options: Any) -> dict[str, Any]:
        settings = {"processes": False, "n_workers": 2, "threads_per_worker": 1}
        with (
            distributed.LocalCluster(dashboard_address=None, **settings) as cluster,
            distributed.Client(cluster) as client,
        ):
            if options.pop("arrays"):
                placed = (dask.array.from_array(a, chunks=900) for a in (pairs, similar))
                return learn(X, *placed, C=0.01, **options)
            return learn(X, pairs, similar, C=0.01, client=client, **options)

    for way in ("auto", "cg"):
        yield f"dask/client, {way}", lambda w=way: solve(arrays=False, linear_solver=w)
        yield f"dask/arrays, {way}", lambda w=way: solve(arrays=True, linear_solver=w)


def on_other_arrays() -> Iterator[tuple[str, Problem]]:
    X, pairs, similar = drawn()
    for name in ("array_api_strict", "torch"):
        try:
            xp = __import__(name)
        except ImportError:
            continue
        place = xp.asarray
        for way in ("auto", "dense", "woodbury", "cg"):
            yield (
                f"{name}/{way}",
                lambda p=place, w=way: learn(
                    p(X), pairs, similar, C=0.1, prior=p(prior(13)), linear_solver=w
                ),
            )
        yield (
            "float32/" + name,
            lambda p=place: learn(p(X), pairs, similar, C=0.1, dtype="float32", tol=1e-5),
        )


SEARCHED = {"prior": ["discriminant", "auto", "scaled"], "C": [10.0, 1000.0]}
MORE = {"kernel": [None, "rbf"], "prior": ["discriminant"], "pairs": ["random", "neighbors"]}


def estimators() -> Iterator[tuple[str, Problem]]:
    shared = {"random_state": 0}
    for data, few in (("wine", {}), ("digits", {"n_pairs_per_class": 100})):
        label = shared | few
        variants = {
            "TATML": ("TATML", label),
            "TATML neighbors": ("TATML", label | {"pairs": "neighbors", "prior": "within"}),
            "TATML reduced": ("TATML", label | {"n_components": 3}),
            "TATML c0": ("TATML", label | {"c0": 5.0, "reduction": "sum", "C": 0.01}),
            "TATML dykstra": ("TATML", label | {"solver": "dykstra", "tol": 1e-1}),
            "TATMLCV": ("TATMLCV", label | {"grid": SEARCHED, "cv": 3}),
            "TATMLCV pairs": ("TATMLCV", label | {"grid": SEARCHED | MORE, "cv": 3}),
            "Maz": ("Maz", label),
            "Maz search": ("Maz", label | {"threshold": "search"}),
            "ITML": ("ITML", label),
            "GMML": ("GMML", label),
            "Euclidean": ("Euclidean", label),
            "TATMLPairs": ("TATMLPairs", shared | {"from_pairs": True}),
        }
        for name, (kind, options) in variants.items():
            yield (
                f"estimators/{name} on {data}",
                lambda k=kind, d=data, o=options: fitted(k, d, **o),
            )
    yield "estimators/TATML in tiles", all_pairs_in_tiles
    for order in ("cyclic", "permutation"):
        yield (
            f"estimators/ITML {order}",
            lambda o=order: fitted(
                "ITML",
                "wine",
                n_pairs_per_class=20,
                random_state=0,
                tol=1e-1,
                gamma=0.1,
                solver=itml_solver(o),
            ),
        )


def paper() -> Iterator[tuple[str, Problem]]:
    """The paper's preset, and its row of Table 1: they must not follow changes of the defaults."""
    preset = dict(tatml.PAPER) | {"random_state": 0}
    for data in ("wine", "digits"):
        for C in (0.01, 1.0):
            options = preset | {"C": C}
            yield (
                f"paper/TATML(C={C}) on {data}",
                lambda d=data, o=options: fitted("TATML", d, **o),
            )
    yield "paper/TATML on two blocks", lambda: of_blocks(tatml.TATML(**preset))
    yield "paper/TATML of Table 1", lambda: of_blocks(row_of_table())
    yield "paper/TATML of Table 1, groups", lambda: of_blocks(row_of_table(), np.arange(40) // 2)
    yield "paper/TATML of Table 1 by object", lambda: by_object(row_of_table())
    yield "paper/Maz of Table 1 by object", lambda: by_object(row_of_table("_maz"))
    yield "paper/TATML of Table 1 on wine", lambda: scores_of(row_of_table().fit(*labelled("wine")))


def row_of_table(name: str = "_paper_tatml") -> Any:
    try:
        from tatml.experiments import _methods as methods  # where it was before 0.2
    except ImportError:
        from tatml_paper import methods
    return getattr(methods, name)(0)


def of_blocks(model: Any, groups: np.ndarray | None = None) -> dict[str, Any]:
    arrays, *_ = matrices()
    return scores_of(model.fit(blocks(arrays), np.arange(40) % 3, groups))


def by_object(model: Any) -> dict[str, Any]:
    """Five objects per class: a test part of five folds has one of each, and no similar pairs."""
    rng = np.random.default_rng(6)
    objects = np.repeat(np.arange(15), 4)
    X = rng.normal(size=(60, 3, 2)) + rng.normal(size=(15, 3, 2))[objects]
    model.fit(blocks([X]), objects // 5, objects)
    return scores_of(model.best_estimator_ if hasattr(model, "thresholds") else model)


def scores_of(model: Any) -> dict[str, Any]:
    parts = model.components_ if isinstance(model.components_, list) else [model.components_]
    found = {f"components{m}": part for m, part in enumerate(parts)}
    found |= {"threshold": model.threshold_, "b0": model.b0_}
    if hasattr(model, "cv_results_"):
        results = model.cv_results_
        of_splits = [name for name in results if name.startswith("split")]
        columns = np.column_stack([results[name] for name in of_splits])  # version 0.1: a table
        found["scores"] = columns
    return found


def all_pairs_in_tiles() -> dict[str, Any]:
    """Fit TATML to more than two million pairs, which it sums in tiles."""
    rng = np.random.default_rng(5)
    y = np.arange(2_010) % 3
    X = rng.normal(size=(len(y), 3)) + y[:, None]
    model = tatml.TATML(pairs="all", random_state=0).fit(X, y)
    assert model.pairs_ is None
    return {"components": model.components_, "threshold": model.threshold_}


KINDS = (in_memory, dykstra_vectors, in_parts, on_a_cluster, on_other_arrays, estimators, paper)


# Solving them all, and comparing


def solve_all(path: Path, only: str) -> None:
    """Write the results of the problems whose name begins with `only` to a file."""
    print(f"{Path(tatml.__file__).parent}:", flush=True)
    found: dict[str, Any] = {}
    warnings.simplefilter("ignore")
    for kind in KINDS:
        for name, solve in kind():
            if not name.startswith(only):
                continue
            try:
                values = solve()
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
                values = {"failed": np.nan}  # which equals nothing
            found |= {f"{name}|{key}": np.asarray(value) for key, value in values.items()}
    np.savez(path, allow_pickle=False, **found)


def solved(root: Path, path: Path, only: str) -> dict[str, np.ndarray]:
    """Solve the problems with the code below `root`, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--write", str(path), "--only", only]
    subprocess.run(command, env=environment, check=True, cwd=path.parent)
    with np.load(path) as file:
        return dict(file)


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Check an earlier commit out into a temporary folder."""
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder, "before")
        subprocess.run([*git, "worktree", "add", "-q", "--detach", before, revision], check=True)
        try:
            yield before
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", before], check=True)


def difference(before: np.ndarray, now: np.ndarray) -> float:
    """The largest difference, relative to max(1, |·|); NaN counts as infinite."""
    if before.shape != now.shape:
        return np.inf
    apart = np.abs(now - before) / max(1.0, float(np.max(np.abs(before), initial=0.0)))
    return float(np.max(np.nan_to_num(apart, nan=np.inf), initial=0.0))


def compare(before: dict[str, np.ndarray], now: dict[str, np.ndarray]) -> bool:
    """Print the largest difference of each kind; whether all of them are small enough."""
    rows: dict[str, list[tuple[float, str]]] = {}
    for name in before.keys() & now.keys():
        kind = name.partition("/")[0]
        rows.setdefault(kind, []).append((difference(before[name], now[name]), name))
    same = True
    print(f"{'kind':<24}{'problems':>10}{'difference':>12}  where")
    for kind, found in sorted(rows.items()):
        largest, where = max(found)
        problems = len({name.partition("|")[0] for _, name in found})
        same &= largest <= TOLERANCE.get(kind, DEFAULT_TOLERANCE)
        print(f"{kind:<24}{problems:>10}{largest:>12.1e}  {where if largest else ''}")
    missing = {name.partition("|")[0] for name in before.keys() ^ now.keys()}
    for name in sorted(missing):
        print(f"{name}: solved by one of the two only")
    return same and not missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", nargs="?", help="the commit to compare with")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="solve only problems with this beginning")
    options = parser.parse_args()
    if options.write is not None:
        solve_all(options.write, options.only)
        return 0
    if options.revision is None:
        parser.error("expected a revision")
    with tempfile.TemporaryDirectory() as folder, checked_out(options.revision) as root:
        before = solved(root, Path(folder, "before.npz"), options.only)
        now = solved(ROOT, Path(folder, "now.npz"), options.only)
    return 0 if compare(before, now) else 1


if __name__ == "__main__":
    sys.exit(main())
