"""Search with a learnt metric and its learnt threshold, in scikit-learn, FAISS and hnswlib.

`transform` embeds the samples so that the Euclidean distance is the learnt distance. Any index for
Euclidean distances can then be used, with the learnt threshold as the radius within which two
samples are the same. tatml is not called during the search.

    python examples/search_at_scale.py      (FAISS and hnswlib are skipped if they are not
                                             installed: pip install faiss-cpu hnswlib)
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from tatml import TATML

Found = set[tuple[int, int]]


def embed(metric: TATML, X: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
    """Return the embedding in float32, centred, because float32 is most accurate near zero."""
    rows = metric.transform(X)
    centre = rows.mean(axis=0) if centre is None else centre
    return np.ascontiguousarray(rows - centre, dtype=np.float32)


def sklearn_pairs(rows: np.ndarray, radius: float) -> Found:
    """Return the pairs (i < j) within the radius by scikit-learn, for any dtype."""
    index = NearestNeighbors(radius=radius).fit(rows)
    near = index.radius_neighbors(rows, return_distance=False)
    return {(i, int(j)) for i, found in enumerate(near) for j in found if i < j}


def faiss_pairs(rows: np.ndarray, radius: float) -> Found:
    """Return the pairs (i < j) within the radius by an exact index of FAISS, for float32."""
    import faiss

    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(rows)
    # FAISS computes squared distances, so the radius is squared too.
    ends, _, found = index.range_search(rows, radius**2)
    first = np.repeat(np.arange(len(rows)), np.diff(ends.astype(np.int64)))
    return {(int(i), int(j)) for i, j in zip(first, found, strict=True) if i < j}


def hnswlib_pairs(rows: np.ndarray, radius: float, n_neighbors: int = 250, ef: int = 300) -> Found:
    """Return most of the pairs (i < j) within the radius by a graph index, for float32.

    hnswlib has no range search: it returns the nearest `n_neighbors`, of which those outside the
    radius are dropped. Pairs of a sample with more neighbours within the radius are missed.
    """
    import hnswlib

    index = hnswlib.Index(space="l2", dim=rows.shape[1])  # squared distances
    index.init_index(max_elements=len(rows), ef_construction=200, M=16, random_seed=0)
    index.add_items(rows, num_threads=1)
    index.set_ef(max(ef, n_neighbors))
    found, squared = index.knn_query(rows, k=n_neighbors)
    near = squared < radius**2
    return {(i, int(j)) for i, row in enumerate(found) for j in row[near[i]] if i < j}


def brute_force(metric: TATML, X: np.ndarray) -> tuple[Found, Found]:
    """Return the pairs that `predict_pairs` accepts, and those too near the threshold to compare.

    In float32 a distance has a relative error of about 1e-6, so that two libraries may disagree on
    pairs that are nearer to the threshold.
    """
    pairs = np.array(list(combinations(range(len(X)), 2)))
    same = pairs[metric.predict_pairs(pairs, X) > 0]
    distances = metric.pair_distance(pairs, X)
    close = pairs[np.abs(distances - metric.threshold_) < 1e-5 * metric.threshold_]
    return set(map(tuple, same.tolist())), set(map(tuple, close.tolist()))


def main() -> None:
    X, y = load_digits(return_X_y=True)
    metric = TATML(random_state=0).fit(X[::2], y[::2])
    X, y = X[1::2], y[1::2]  # digits that were not used to learn
    rows, radius = embed(metric, X), metric.threshold_
    expected, close = brute_force(metric, X)
    right = np.mean([y[i] == y[j] for i, j in expected])
    print(f"{len(X)} digits: {len(expected)} pairs below the threshold {radius:.3f}")
    print(f"of them of one class {right:.1%}; within 1e-5 of the threshold: {len(close)}")
    exact = sklearn_pairs(metric.transform(X), radius)
    print(f"scikit-learn, float64: the same set: {exact == expected}")
    ways = {"scikit-learn": sklearn_pairs, "FAISS flat": faiss_pairs, "hnswlib": hnswlib_pairs}
    for name, search in ways.items():
        try:
            found = search(rows, radius)
        except ImportError as error:
            print(f"{name}: skipped ({error})")
            continue
        recall = len(found & expected) / len(expected)
        wrong = len((found ^ expected) - close)
        print(f"{name}, float32: recall {recall:.4%}, {wrong} differ beyond rounding")


if __name__ == "__main__":
    main()
