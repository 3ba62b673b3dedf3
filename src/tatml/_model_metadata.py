"""The metadata that are saved with a model."""

from __future__ import annotations

from numbers import Real
from typing import Any

from ._messages import shown

# The most levels of lists and dicts in the metadata.
MAX_DEPTH = 20


def check_metadata(metadata: dict[str, Any], estimator: Any) -> None:
    """Raise an error if the metadata are not plain, or do not fit the estimator."""
    for name, value in metadata.items():
        if type(name) is not str or not is_plain(value):
            raise TypeError(
                f"metadata: expected words, numbers and lists under words, got {shown(name)}: "
                f"{shown(value)}"
            )
    for name in ("version", "target", "groups"):
        value = metadata.get(name)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"metadata: {name}: expected a word, got {shown(value)}")
    names = metadata.get("feature_names")
    if names is None:
        return
    if type(names) is not list or not all(isinstance(name, str) for name in names):
        raise TypeError(f"metadata: feature_names: expected a list of words, got {shown(names)}")
    expected = getattr(estimator, "n_features_in_", len(names))
    if len(names) != expected:
        raise ValueError(
            f"metadata: feature_names: expected {expected} names, one per feature, got {len(names)}"
        )


def is_plain(value: Any, depth: int = 0) -> bool:
    if depth > MAX_DEPTH:  # a list may hold itself
        return False
    if type(value) in (list, tuple):
        return all(is_plain(member, depth + 1) for member in value)
    if type(value) is dict:
        names_are_words = all(isinstance(name, str) for name in value)
        return names_are_words and all(is_plain(part, depth + 1) for part in value.values())
    return value is None or isinstance(value, Real | str)
