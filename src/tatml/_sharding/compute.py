"""`Compute`: the place and the precision of the computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from .._messages import shown, shown_settings
from .._validation import check_choice

Precision = Literal["float64", "float32"]


@dataclass(frozen=True, repr=False)
class Compute:
    """Place and precision of the computation of `learn_metric`.

    With `max_memory`, `client` or `device` the pairs are read in parts (docs/scale.md), which needs
    float64 and the solver `Newton`.

    Parameters
    ----------
    dtype : {"float64", "float32"}, default="float64"
        The precision of the whole computation, whatever the dtype of X. In float32, a `tol` below
        1e-5 cannot be certified and is raised to 1e-5, which ``result.tol`` then shows.
    max_memory : int, str or None, default=None
        Bytes, or words like "500MB", that a fit may allocate. The pairs are read in parts that fit,
        once per step; the peak does not depend on their number. The matrices of the solver are part
        of it, 224 n² bytes for samples of n rows, and X if X is on disk. Less than a fit needs is
        refused.
    client : distributed.Client or None, default=None
        A dask cluster that computes the sums over pairs.
    device : str or None, default=None
        A device of PyTorch, such as "cuda", for pairs that do not fit there: they stay on the host
        or on disk, and are sent in parts of `max_memory`; ``W`` is a NumPy array. With `client`,
        each worker uses its own device of this name.

    Examples
    --------
    >>> from tatml import Compute, learn_metric
    >>> X, pairs = [[0.0], [0.1], [2.0]], [[0, 1], [1, 2]]
    >>> result = learn_metric(X, pairs, [True, False], compute=Compute(max_memory="50MB"))
    >>> result.converged
    True
    """

    dtype: Precision = "float64"
    max_memory: int | str | None = None
    client: Any = None
    device: str | None = None

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, get_args(Precision))

    def __repr__(self) -> str:
        return shown_settings(self)


def as_compute(value: Any) -> Compute:
    """Return the settings that were given; the defaults for None."""
    if value is None:
        return Compute()
    if not isinstance(value, Compute):
        raise TypeError(f"compute: expected Compute(…) or None, got {shown(value)}")
    return value
