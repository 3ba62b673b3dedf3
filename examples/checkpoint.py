"""A fit that is killed and resumed, with two arguments of learn_metric.

The fit runs in a process of its own. The process is killed in the middle of the fit. A second fit
resumes from the checkpoint, and needs only the steps that were left. Its result is that of a fit
that was not killed.

    python examples/checkpoint.py
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time

import numpy as np
from sklearn.datasets import load_digits

from tatml import Checkpoint, Result, learn_metric

TOL = 1e-14


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return digits, random pairs of them, and whether both are of the same class."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    pairs = rng.integers(len(X), size=(20_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return X / 16, pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def fit(path: str) -> Result:
    """Start from the file if there is one, and keep it up to date."""
    return learn_metric(
        *problem(),
        tol=TOL,
        callback=Checkpoint(path, every=0.0),  # every step; for long fits, keep the default
        init=Checkpoint.load(path),
    )


def killed_fit(path: str, n_steps: int) -> None:
    """Start a fit, and kill it when the file has `n_steps` steps."""
    process = multiprocessing.get_context("spawn").Process(target=fit, args=(path,))
    process.start()
    while process.is_alive():
        reached = Checkpoint.load(path)
        if reached is not None and reached.n_iter >= n_steps:
            process.kill()
        time.sleep(0.001)
    process.join()


def main() -> None:
    undisturbed = learn_metric(*problem(), tol=TOL)
    print(f"undisturbed: {undisturbed.n_iter} steps, gap {undisturbed.gap:.1e}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fit.npz")
        killed_fit(path, n_steps=undisturbed.n_iter // 2)
        left = Checkpoint.load(path)
        print(f"killed:      after {left.n_iter} steps, gap {left.gap:.1e}")
        resumed = fit(path)
    print(f"resumed:     {resumed.n_iter} steps, gap {resumed.gap:.1e}")
    difference = np.max(np.abs(resumed.W[0] - undisturbed.W[0])) / np.max(np.abs(undisturbed.W[0]))
    print(f"largest difference of W, relative: {difference:.1e}")


if __name__ == "__main__":
    main()
