"""What a metric is learnt from, and how: plain data that every estimator makes of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._array import Doubles
from .._data.blocks import Blocks
from .._data.pairs import LinkedPairs, Pairs
from .._data.sampling import Strategy
from .._optim.custom_loss import CustomLoss
from .._optim.result import Result
from .._optim.solvers import Dykstra, Newton
from .._sharding.all_pairs import AllPairs
from ..features._kernel_map import KernelMap
from .priors import PriorName, WithinClasses, pair_weights

Outliers = bool | Literal["auto", "replace"]
LossName = Literal["auto", "squared_hinge", "logistic"]
Prior = PriorName | Sequence[ArrayLike] | ArrayLike
# C with midpoints for new classes: there are as many observations of the sums as classes.
WEIGHT_OF_NEW_CLASSES = 10.0
SCALE_PARAMETERS = ("C", "c0", "threshold", "threshold_prior", "threshold_strength")


@dataclass(frozen=True, eq=False)
class Task:
    """The samples and the pairs or comparisons that a metric is learnt from.

    Parameters
    ----------
    blocks : Blocks
        The samples: in the space of the kernel, if any, and on the device of the problem.
    rows : Pairs, LinkedPairs or AllPairs
        What the losses are of: one pair each, or a comparison of two pairs.
    within : WithinClasses
        The deviations from the class means, for priors.
    pair_share : array of shape (n_pairs,), optional
        The weights, with sum 1, of the pairs in the mean of ΔΔᵀ. Default: those of the rows.
    n_counted : int, optional
        The number of samples, the first ones, that count for the prior. Default: all.
    """

    blocks: Blocks
    rows: Pairs | LinkedPairs | AllPairs
    within: WithinClasses
    pair_share: Doubles | None = None
    n_counted: int | None = None

    @property
    def counted(self) -> Blocks:
        """The samples that count for the prior."""
        return self.blocks if self.n_counted is None else self.blocks[: self.n_counted]

    @property
    def share(self) -> Doubles | None:
        """The weights of the pairs in the mean of ΔΔᵀ, with sum 1; None for `AllPairs`."""
        if self.pair_share is not None or isinstance(self.rows, AllPairs):
            return self.pair_share
        assert isinstance(self.rows, Pairs)
        weights = pair_weights(self.rows)
        return weights / np.sum(weights)


@dataclass(frozen=True, eq=False)
class Settings:
    """How a metric is learnt: the checked parameters of an estimator, described at `TATML`.

    Fields besides the parameters of `TATML`:

    margin : (float, float)
        With other losses than the squared hinge of distances, the default: it has no meaning then.
    new_classes : bool
        True for pairs without labels.
    init : Result or None
        The result that the solver starts from.
    keeps_spans : bool
        Whether wide blocks keep the form of their span, which is faster than square matrices.
    place : array or None
        An array on the device where the problem is solved; None for the host.
    names : tuple of str
        The parameters that scale the objective, for error messages; the weight of the pairs first.
    samples_name : str
        The name of the samples in the signature of fit, for error messages.
    most_listed_pairs : int
        With ``pairs="all"``, more pairs are summed in tiles, without a list of them.
    """

    C: float = 100.0
    margin: tuple[float, float] = (0.5, 2.0)
    loss: LossName | CustomLoss = "auto"
    midpoint: bool = False
    new_classes: bool = False
    threshold: Literal["auto", "joint"] | float = "auto"
    threshold_prior: float | None = None
    threshold_strength: float = 1.0
    c0: float | None = None
    prior: Any = "discriminant"
    pairs: Strategy = "random"
    n_pairs_per_class: int | None = None
    n_neighbors: int = 3
    reduction: Literal["mean", "sum"] = "mean"
    kernel: KernelMap | None = None
    clip_outliers: Outliers = True
    n_components: int | Sequence[int] | None = None
    solver: Newton | Dykstra = Newton()  # noqa: RUF009  # immutable
    tol: float = 1e-6
    random_state: Any = None
    verbose: bool = False
    init: Result | None = None
    keeps_spans: bool = False
    place: Any = None
    names: tuple[str, ...] = SCALE_PARAMETERS
    samples_name: str = "X"
    most_listed_pairs: int = 2_000_000

    @classmethod
    def of(cls, parameters: SimpleNamespace, **others: Any) -> Settings:
        """Return the settings with these checked parameters, and others besides them."""
        known = {field.name for field in fields(cls)}
        given = {name: value for name, value in vars(parameters).items() if name in known} | others
        if given.get("C", 0) is None:
            few = given["midpoint"] and given["new_classes"]
            given["C"] = WEIGHT_OF_NEW_CLASSES if few else cls.C
        return cls(**given)

    @property
    def loss_of_pairs(self) -> str | CustomLoss:
        """The loss as `LossSetting` names it."""
        if self.loss == "auto":
            return "logistic" if self.midpoint else "squared_hinge"
        return "additive_hinge" if self.midpoint and self.loss == "squared_hinge" else self.loss

    @property
    def given_threshold(self) -> float | None:
        """The threshold that the parameters fix; None if it is to be learnt."""
        return None if isinstance(self.threshold, str) else self.threshold

    @property
    def learns_center(self) -> bool:
        """Whether a row of ones learns the centre of midpoints, which moves the threshold, too."""
        is_given = self.threshold_prior is not None or self.c0 is not None
        return self.midpoint and self.learns_threshold and not is_given

    @property
    def learns_threshold(self) -> bool:
        """Whether the threshold is a variable."""
        return isinstance(self.threshold, str) and self.c0 != inf

    @property
    def cross_fits(self) -> bool:
        """Whether the threshold is judged on held-out pairs."""
        return self.threshold == "auto" and self.learns_threshold

    @property
    def has_kernel_values(self) -> bool:
        """Whether the samples are rows of a kernel matrix."""
        return self.kernel is not None and self.kernel.kernel == "precomputed"
