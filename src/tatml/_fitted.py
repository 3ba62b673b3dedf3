"""What a fitted estimator must have before it can be drawn or inspected."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

__all__ = ["check_has"]


def check_has(estimator: Any, *names: str) -> None:
    """A fitted estimator with these attributes; the error names its class and what is missing."""
    check_is_fitted(estimator)
    missing = [name for name in names if not hasattr(estimator, name)]
    if missing:
        raise AttributeError(
            f"estimator: expected one with {', '.join(names)}, got {type(estimator).__name__} "
            f"without {', '.join(missing)}"
        )
