"""Kernels: a picture of what they separate, landmarks against accuracy, and 100,000 samples.

    python benchmarks/kernels.py banana [--plot docs/images/kernels.png]
    python benchmarks/kernels.py landmarks
    python benchmarks/kernels.py scale [--samples 100000] [--landmarks 1000] [--device cuda]

"banana": AUC of new pairs, linear and with a kernel, on sets whose classes are curved. "landmarks":
3-NN, AUC and seconds for 30, 100, 300 and all samples as landmarks. "scale": seconds and peak
memory of the map and of the fit, in memory and from disk, or of `learn_metric` on a GPU.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from common import describe_machine, draw_pairs
from sklearn.datasets import load_breast_cancer, load_digits, make_circles, make_moons
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from tatml import TATML, Compute, learn_metric
from tatml.features import KernelMap


def banana(n_samples, seed, kind="moons"):
    """Two curved classes in the first two of four columns; the others are noise."""
    make = make_moons if kind == "moons" else make_circles
    options = {} if kind == "moons" else {"factor": 0.5}
    X, y = make(n_samples, noise=0.12, random_state=seed, **options)
    noise = np.random.default_rng(seed).normal(size=(n_samples, 2)) * X.std()
    return np.hstack([X, noise]), y


def area(model, X, y, n_pairs=20_000):
    """Return AUC and balanced accuracy at the threshold, of random pairs."""
    pairs, similar = draw_pairs(y, n_pairs)
    distances = model.pair_distance(pairs, X)
    correct = balanced_accuracy_score(similar, distances < model.threshold_)
    return roc_auc_score(similar, -distances), correct


def run_banana(options):
    fitted = {}
    for kind in ("moons", "circles"):
        (X, y), (new, labels) = banana(400, 0, kind), banana(1000, 1, kind)
        for name, kernel in (("linear", None), ("kernel", "rbf")):
            model = TATML(kernel=kernel, random_state=0).fit(X, y)
            auc, correct = area(model, new, labels)
            print(f"{kind:8} {name:7} AUC {auc:.3f}   at the threshold {correct:.3f}")
            fitted[kind, name] = model, new, labels
    if options.plot:
        plot_banana(fitted, options.plot)


def plot_banana(fitted, path):
    """Draw the samples, and the first two axes of both learnt spaces."""
    import matplotlib.pyplot as plt
    from sklearn.decomposition import PCA

    figure, axes = plt.subplots(2, 3, figsize=(9.6, 6.2), layout="constrained")
    for row, kind in zip(axes, ("moons", "circles"), strict=True):
        _, X, y = fitted[kind, "linear"]
        views = [("two of the four columns", X[:, :2])]
        for name, title in (("linear", "linear metric"), ("kernel", 'kernel="rbf"')):
            model = fitted[kind, name][0]
            auc, _ = area(model, X, y)
            views.append((f"{title}: AUC {auc:.2f}", PCA(2).fit_transform(model.transform(X))))
        for ax, (title, points) in zip(row, views, strict=True):
            for label, colour in ((0, "#0072b2"), (1, "#d55e00")):
                ax.scatter(*points[y == label].T, s=6, color=colour, alpha=0.6)
            ax.set(title=title, xticks=[], yticks=[])
            ax.set_aspect("equal", adjustable="datalim")
        row[0].set_ylabel(kind)
    figure.savefig(path, dpi=110)


def run_landmarks(options):
    print(f"{'':14} {'landmarks':>9} {'3-NN':>6} {'AUC':>6} {'seconds':>8}")
    for name, load in (("digits", load_digits), ("breast cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(X))
        train, test = order[::2], order[1::2]
        for count in (0, 30, 100, min(300, len(train)), len(train)):
            kernel = KernelMap(n_landmarks=count) if count else None
            start = perf_counter()
            model = TATML(kernel=kernel, random_state=0).fit(X[train], y[train])
            seconds = perf_counter() - start
            knn = KNeighborsClassifier(3).fit(model.transform(X[train]), y[train])
            correct = knn.score(model.transform(X[test]), y[test])
            auc, _ = area(model, X[test], y[test])
            print(f"{name:14} {count or 'none':>9} {correct:6.3f} {auc:6.3f} {seconds:8.2f}")


def curved_classes(n_samples, n_features=20, n_classes=10, seed=0):
    """Classes that are shells of different radii around the same centre, and a direction each."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_samples)
    X = rng.normal(size=(n_samples, n_features))
    X *= (1 + 0.3 * y)[:, None] / np.linalg.norm(X, axis=1, keepdims=True)
    return X + 0.05 * rng.normal(size=X.shape), y


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_scale(options):
    X, y = curved_classes(options.samples)
    pairs, similar = draw_pairs(y, options.pairs)
    kernel = KernelMap(n_landmarks=options.landmarks, keep_features=False, random_state=0)
    start = perf_counter()
    kernel.fit(X)
    print(f"fit of the map: {perf_counter() - start:.1f} s")
    settings = {"C": 100.0 / len(pairs), "c0": 100.0, "mu0": 1.0, "tol": 1e-4}
    with tempfile.TemporaryDirectory() as folder:
        shape = (len(X), kernel.block_shapes_out_[0][0])
        stored = np.lib.format.open_memmap(Path(folder, "Z.npy"), "w+", np.float64, shape)
        start = perf_counter()
        for first in range(0, len(X), 10_000):
            part = slice(first, first + 10_000)
            stored[part] = kernel.transform(X[part])
        print(f"images of {shape[0]:,} samples, written to disk: {perf_counter() - start:.1f} s")
        prior = [np.eye(shape[1]) / np.mean(np.sum(stored[:1000] ** 2, axis=1)) / 2]
        if options.device:
            import torch

            Z = torch.asarray(np.array(stored), device=options.device)
            runs = [(options.device, Z, [torch.asarray(prior[0], device=options.device)], None)]
        else:
            runs = [("from disk", stored, prior, Compute(max_memory="500MB"))]
            runs += [("in memory", np.array(stored), prior, None)]
        for name, Z, W0, compute in runs:
            given = {} if compute is None else {"compute": compute}
            start = perf_counter()
            result = learn_metric(Z, pairs, similar, prior=W0, **settings, **given)
            print(
                f"fit {name}, {len(pairs):,} pairs: {perf_counter() - start:.1f} s, "
                f"{result.n_iter} steps, relative gap {result.gap / max(1, result.primal):.0e}, "
                f"peak {peak_megabytes():,.0f} MB"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["banana", "landmarks", "scale"])
    parser.add_argument("--plot")
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--device")
    options = parser.parse_args()
    print(describe_machine())
    {"banana": run_banana, "landmarks": run_landmarks, "scale": run_scale}[options.what](options)


if __name__ == "__main__":
    main()
