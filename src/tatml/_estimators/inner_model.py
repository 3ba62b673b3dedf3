"""The TATML model that `Maz` and `TATMLCV` fit inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator

from .tatml import TATML


def make_inner_model(
    owner: BaseEstimator, scale_parameters: Sequence[str], **changes: Any
) -> TATML:
    """Return a TATML with the parameters that it shares with its owner, except for `changes`.

    `scale_parameters` are the owner's parameters that scale the objective, the weight of the pairs
    first: error messages name them. The preprocessor is not passed on, because the inner model is
    fitted to Blocks.
    """
    shared = set(TATML._get_param_names()) - {"preprocessor"}
    given = {name: value for name, value in owner.get_params(deep=False).items() if name in shared}
    model = TATML(**given | changes)
    model._scale_parameters, model._place = tuple(scale_parameters), owner._place
    return model


def copy_fitted(owner: BaseEstimator, model: TATML) -> None:
    """Copy the fitted attributes of the inner model to its owner."""
    for name in ("components_", "factors_", "prior_"):  # the inner model has some of these
        vars(owner).pop(name, None)
    for name, value in vars(model).items():
        if name.endswith("_"):
            setattr(owner, name, value)
