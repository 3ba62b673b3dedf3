"""What to do when new labelled pairs arrive: refit, refit with warm start, or the old prior.

A TATMLPairs is fitted to 20,000 old pairs of 64 features; then new pairs arrive, from the same
world, or from a changed one whose noise has other directions. Compared on test pairs of the world
that the new pairs come from:

- the old model, unchanged;
- a refit from the start to old and new pairs;
- a refit with ``warm_start=True``, which starts from the old solution: the same optimum;
- a fit to the new pairs only, with ``prior=`` the old matrix and the old threshold as
  ``threshold_prior``;
- a fit to the new pairs only.

Printed: AUC and balanced accuracy at the learnt threshold, Newton steps and seconds (the fastest
of three fits).

    python benchmarks/new_pairs.py [--dimensions 64]
"""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from common import describe_machine
from sklearn.metrics import balanced_accuracy_score

from tatml import TATMLPairs

N_OLD, N_TEST = 20_000, 10_000
N_NEW = (200, 1000, 5000, 20_000)


def make_world(n_dims: int, seed: int):
    """Return a function (n_pairs, seed) → pairs and labels ±1, of means and noise."""
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(n_dims, n_dims)))[0]
    noise = basis * np.sqrt(np.arange(1, n_dims + 1) ** -1.0)

    def draw(n_pairs: int, seed: int):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.repeat([1, -1], n_pairs // 2))
        means = rng.normal(size=(n_pairs, 2, n_dims)) / np.sqrt(n_dims)
        means[y > 0, 1] = means[y > 0, 0]
        return means + 0.6 * rng.normal(size=(n_pairs, 2, n_dims)) @ noise.T, y

    return draw


def timed_fit(make, pairs, y, repeats: int = 3):
    """Return the fitted model and the seconds of the fastest fit."""
    best = np.inf
    for _ in range(repeats):
        model = make()
        start = perf_counter()
        model.fit(pairs, y)
        best = min(best, perf_counter() - start)
    return model, best


def warm_copy(old: TATMLPairs) -> TATMLPairs:
    """Return a model that will start from the solution of the old one."""
    model = TATMLPairs(warm_start=True)
    vars(model).update({name: value for name, value in vars(old).items() if name.endswith("_")})
    return model


def run(n_dims: int, changed: bool) -> None:
    """Print the table of new pairs from the same or from a changed world."""
    old_world, new_world = make_world(n_dims, 0), make_world(n_dims, 1 if changed else 0)
    old_pairs, old_y = old_world(N_OLD, 1)
    old, seconds = timed_fit(TATMLPairs, old_pairs, old_y)
    test, y_test = new_world(N_TEST, 2)
    print(f"\n### New pairs from {'a changed' if changed else 'the same'} world\n")
    print("| new pairs | method | AUC | balanced accuracy | steps | s |\n|---|---|---|---|---|---|")

    def row(count, name, model, steps, seconds):
        accuracy = balanced_accuracy_score(y_test, model.predict(test))
        numbers = f"{model.score(test, y_test):.4f} | {accuracy:.4f} | {steps} | {seconds:.2f}"
        print(f"| {count} | {name} | {numbers} |", flush=True)

    row(0, "the old model", old, old.n_iter_, seconds)
    matrix, threshold = old.get_mahalanobis_matrix(), old.threshold_
    for count in N_NEW:
        pairs, y = new_world(count, 3)
        both, both_y = np.concatenate([old_pairs, pairs]), np.concatenate([old_y, y])
        for name, make, data in (
            ("refit to all", TATMLPairs, (both, both_y)),
            ("refit to all, warm start", lambda: warm_copy(old), (both, both_y)),
            (
                "new pairs, old prior",
                lambda: TATMLPairs(prior=matrix, threshold_prior=threshold),
                (pairs, y),
            ),
            ("new pairs only", TATMLPairs, (pairs, y)),
        ):
            model, seconds = timed_fit(make, *data)
            row(count, name, model, model.n_iter_, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", type=int, default=64)
    n_dims = parser.parse_args().dimensions
    print(describe_machine())
    for changed in (False, True):
        run(n_dims, changed)
