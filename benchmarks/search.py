"""Search for all samples below the learnt threshold: the time per query of four methods.

The first method passes `get_metric()` to scikit-learn, which calls it once per distance.
The others search the embedding of `transform`, which is Euclidean. Prints milliseconds per query,
the ratio to the callable, and the share of the samples below the threshold that are found.

    python benchmarks/search.py       (FAISS and hnswlib where installed: faiss-cpu, hnswlib)
"""

from __future__ import annotations

import numpy as np
from common import describe_machine, timed
from sklearn.neighbors import NearestNeighbors

from tatml import TATML

N_CLASSES, PER_CLASS, N_FEATURES = 400, 50, 64
N_QUERIES, N_SLOW, N_NEAREST = 1000, 4, 200


def samples(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return classes around random means; half of the features are noise."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(N_CLASSES, N_FEATURES)) * (np.arange(N_FEATURES) < 32)
    y = np.repeat(np.arange(N_CLASSES), PER_CLASS)
    return means[y] + 0.5 * rng.normal(size=(len(y), N_FEATURES)), y


def radius_search(index: NearestNeighbors, queries: np.ndarray) -> list[set[int]]:
    found = index.radius_neighbors(queries, return_distance=False)
    return [set(row.tolist()) for row in found]


def by_faiss(rows: np.ndarray, radius: float):
    """Return a function that maps queries to the samples found."""
    import faiss

    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(rows)

    def search(queries: np.ndarray) -> list[set[int]]:
        ends, _, found = index.range_search(queries, radius**2)
        return [set(part.tolist()) for part in np.split(found, ends[1:-1].astype(np.int64))]

    return search


def by_hnswlib(rows: np.ndarray, radius: float):
    import hnswlib

    index = hnswlib.Index(space="l2", dim=rows.shape[1])
    index.init_index(max_elements=len(rows), ef_construction=200, M=16, random_seed=0)
    index.add_items(rows)
    index.set_ef(N_NEAREST)

    def search(queries: np.ndarray) -> list[set[int]]:
        found, squared = index.knn_query(queries, k=N_NEAREST)
        near = squared < radius**2
        return [set(row[kept].tolist()) for row, kept in zip(found, near, strict=True)]

    return search


def show(name: str, build: float, query: float, slowest: float, recall: float) -> None:
    print(
        f"{name:<22} build {build:7.3f} s   {1e3 * query:9.3f} ms per query   "
        f"{slowest / query:7.0f} times as fast   recall {recall:.4f}",
        flush=True,
    )


def main() -> None:
    print(describe_machine())
    X, y = samples()
    metric = TATML(random_state=0).fit(X[::5], y[::5])
    radius = metric.threshold_
    rows = metric.transform(X)
    slow = NearestNeighbors(radius=radius, metric=metric.get_metric(), algorithm="brute").fit(X)
    seconds, by_callable = timed(radius_search, slow, X[:N_SLOW], repeats=1)
    slowest = seconds / N_SLOW
    brute = NearestNeighbors(radius=radius, algorithm="brute")
    build, _ = timed(brute.fit, rows)
    seconds, expected = timed(radius_search, brute, rows[:N_QUERIES])
    n_found = sum(map(len, expected))
    print(
        f"{len(X)} x {N_FEATURES}, {n_found / N_QUERIES:.0f} samples per query within {radius:.3f}"
    )
    show("callable", 0.0, slowest, slowest, float(by_callable == expected[:N_SLOW]))
    show("scikit-learn brute", build, seconds / N_QUERIES, slowest, 1.0)
    single = np.ascontiguousarray(rows - rows.mean(axis=0), dtype=np.float32)
    for name, make in (("FAISS flat", by_faiss), ("hnswlib", by_hnswlib)):
        try:
            build, search = timed(make, single, radius, repeats=1)
        except ImportError as error:
            print(f"{name}: skipped ({error})")
            continue
        seconds, found = timed(search, single[:N_QUERIES])
        hits = sum(len(a & b) for a, b in zip(found, expected, strict=True))
        show(name, build, seconds / N_QUERIES, slowest, hits / n_found)


if __name__ == "__main__":
    main()
