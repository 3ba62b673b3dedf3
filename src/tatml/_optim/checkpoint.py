"""`Checkpoint`: the best point of a running fit in a file, from which the fit can be resumed."""

from __future__ import annotations

import os
from math import inf, isnan, nan
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from .._array import to_numpy
from .._data.atomic_files import written_atomically
from .._validation import check_not_negative
from .result import Iterate

NUMBERS = {
    "n_iter": int,
    "b0": float,
    "primal": float,
    "gap": float,
    "n_active": int,
    "seconds": float,
}


class Checkpoint:
    """A callback that keeps the best point of a running fit in a file.

    The file is replaced as a whole: even if the process is killed while writing, it holds a
    complete point. A fit that starts from it needs only the remaining steps. The problem is convex,
    so that the start affects how long a fit takes, but not its solution.

    Parameters
    ----------
    path : str or path
        The file, an npz archive. Its folder must exist.
    every : float, default=60.0
        The least number of seconds between two writes. The first point is always written, so that
        a folder that is not writable raises at once.

    Notes
    -----
    With these two arguments a fit starts, or resumes if the file exists:
    ``callback=Checkpoint(path), init=Checkpoint.load(path)``.

    Examples
    --------
    >>> import tempfile
    >>> from tatml import learn_metric
    >>> from tatml._optim.checkpoint import Checkpoint
    >>> X = [[0.0, 0.0], [0.1, 3.0], [2.0, 0.1], [2.1, 3.1]]
    >>> pairs, similar = [[0, 1], [2, 3], [0, 2], [1, 3]], [True, True, False, False]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/fit.npz"
    ...     for run in ("first", "again"):
    ...         callback, init = Checkpoint(path, every=0), Checkpoint.load(path)
    ...         result = learn_metric(X, pairs, similar, callback=callback, init=init)
    ...         print(run, result.converged, "steps to do:", result.n_iter > 0)
    first True steps to do: True
    again True steps to do: False
    """

    def __init__(self, path: str | os.PathLike[str], every: float = 60.0):
        self.path = Path(path)
        self.every = check_not_negative("every", every)
        self._best: Iterate | None = None
        self._written: Iterate | None = None
        self._time = -inf

    def __call__(self, iterate: Iterate) -> None:
        """Take a point, and write the best one if it is new and the interval has passed."""
        best = self._best
        if best is None or isnan(best.gap) or iterate.gap < best.gap:
            best = self._best = iterate
        if best is not self._written and monotonic() - self._time >= self.every:
            self.save(best)
            self._written, self._time = best, monotonic()

    def save(self, iterate: Iterate) -> None:
        """Write a point to the file, replacing it as a whole."""
        values: dict[str, Any] = {name: getattr(iterate, name) for name in NUMBERS}
        values["b0"] = nan if iterate.b0 is None else iterate.b0
        values |= {f"L{m}": to_numpy(factor) for m, factor in enumerate(iterate.L)}
        with written_atomically(self.path) as file:
            np.savez(file, **values)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Iterate | None:
        """Return the point in a file, for ``init=``; None, the default start, if there is none."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
                L = [stored[f"L{m}"] for m in range(sum(name[0] == "L" for name in stored))]
                numbers = {name: kind(stored[name]) for name, kind in NUMBERS.items()}
                numbers["b0"] = None if isnan(numbers["b0"]) else numbers["b0"]
                return Iterate(L=L, **numbers)
        except FileNotFoundError:
            return None
        except OSError:
            raise
        except Exception as error:  # damaged archives raise many kinds of errors
            raise ValueError(
                f"path: expected a file that Checkpoint has written, got {os.fspath(path)!r}"
            ) from error
