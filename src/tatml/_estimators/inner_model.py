"""TATML inside another estimator: made from its parameters, and its fitted attributes copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator

from .tatml import TATML

__all__ = ["held_model", "take_fitted"]


def held_model(owner: BaseEstimator, size_names: Sequence[str], **changes: Any) -> TATML:
    """Make a TATML with the parameters that it shares with its owner, apart from the changes.

    Error messages name `size_names`, the owner's parameters that scale the objective; the weight
    of the pairs comes first. The samples are given as Blocks, so there is no preprocessor.
    """
    shared = set(TATML._get_param_names()) - {"preprocessor"}
    given = {name: value for name, value in owner.get_params(deep=False).items() if name in shared}
    model = TATML(**given | changes)
    model._size_names = tuple(size_names)
    return model


def take_fitted(owner: BaseEstimator, model: TATML) -> None:
    """Copy the fitted attributes of a held model to its owner."""
    for name, value in vars(model).items():
        if name.endswith("_"):
            setattr(owner, name, value)
