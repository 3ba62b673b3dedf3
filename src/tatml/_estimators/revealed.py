"""What a fitted model reveals of its training samples, for those who share its file.

`save_model`, `export` and the command `tatml fit` use this one description. SECURITY.md says more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._learning.span import Span, SpanFactor, SpanResult, SparseRows
from ..features._kernel_map import KernelMap
from .metric import N_SAMPLES, center_of

MEAN = "the mean of the training samples"
TELLS = "which tells training samples from others"


def reveals_samples(estimator: Any) -> bool:
    """Return whether a model holds samples, or tells training samples from others."""
    return any(part != MEAN for part in revealed_samples(estimator))


def revealed_samples(estimator: Any) -> list[str]:
    """Return what a fitted model holds of its training samples, besides matrices of statistics.

    An empty list stands for nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from tatml import TATML
    >>> X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    >>> revealed_samples(TATML(random_state=0).fit(X, y))
    ['the mean of the training samples']
    >>> revealed_samples(TATML(kernel="rbf", random_state=0).fit(X, y))[0]
    '30 of 30 training samples (landmarks of the kernel)'
    """
    state, found = vars(estimator), []
    kernel_map, n_samples = getattr(estimator, "kernel_map_", None), state.get(N_SAMPLES)
    if kernel_map is not None:
        found.append(_landmarks(kernel_map, n_samples))
    for m, factor in enumerate(state.get("factors_", ())):
        if isinstance(factor, SpanFactor):
            found.append(_span(factor.span, m))
    if "components_" in state:
        found += _wide_matrices(estimator, n_samples)
    return [*found, MEAN] if center_of(estimator) else found


def _landmarks(kernel_map: KernelMap, n_samples: int | None) -> str:
    count = len(kernel_map.maps_[0].landmarks)
    of_all = "" if n_samples is None else f"of {n_samples} "
    share = f"{count} {of_all}training samples"
    if kernel_map.kernel == "precomputed":
        return f"the positions of {share} in the kernel matrix (landmarks of the kernel)"
    return f"{share} (landmarks of the kernel)"


def _span(span: Span, m: int) -> str:
    """Return what the span of a wide block holds: its samples, or a basis."""
    if isinstance(span.rows, SparseRows) or span.mix is not None:
        return f"{len(span.rows)} training samples (the span of block {m})"
    return (
        f"a basis of the span of the training samples in block {m} ({len(span.rows)} of "
        f"{span.size} dimensions), {TELLS}"
    )


def _wide_matrices(estimator: Any, n_samples: int | None) -> list[str]:
    """Return which matrices reveal the span of samples that are fewer than the rows of a block."""
    if n_samples is None:
        return []
    found, result = [], vars(estimator).get("result_")
    # Whether the model holds its prior or its solution, besides some components.
    holds_square = "prior_" in vars(estimator) or type(result) not in (type(None), SpanResult)
    parts = zip(estimator._component_list(), estimator._inner_shapes(), strict=True)
    for m, (A, (n, width)) in enumerate(parts):
        most = n_samples * width
        if n <= most or np.count_nonzero(A) <= len(A):  # a diagonal matrix has no span
            continue
        if len(A) < n and not holds_square:
            found.append(
                f"{len(A)} directions in the span of the training samples in block {m}, which has "
                f"at most {most} of {n} dimensions"
            )
        else:
            found.append(
                f"a matrix from which the span of the training samples in block {m} can be "
                f"computed (at most {most} of {n} dimensions), {TELLS}"
            )
    return found
