"""The display of a plan: the rate that can be promised, by the number of identities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from .._array import Doubles
from .._messages import shown
from .._validation import check_count
from .._verification.targets import Target
from ..verification import Plan
from ._axes import SIMILAR, THRESHOLD, one_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 10.0  # the identities are from a tenth of those of the plan to ten times as many


@dataclass(eq=False, repr=False)
class PlanDisplay:
    """The least rate that can be promised, by the number of identities.

    Parameters
    ----------
    plan : Plan
        The plan, which is marked.
    n_identities : int array of shape (n_points,)
        Numbers of identities.
    rates : array of shape (n_points,)
        The least rate that each can promise with the power of the plan; NaN if there is none.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        The axes of the plot, and their figure.

    Examples
    --------
    >>> from tatml.plotting import PlanDisplay
    >>> from tatml.verification import plan
    >>> display = PlanDisplay.from_plan(plan(0.01), n_points=5)
    >>> display.n_identities[2], round(float(display.rates[2]), 3)
    (np.int64(384), 0.01)
    """

    plan: Plan
    n_identities: NDArray[np.intp]
    rates: Doubles

    @classmethod
    def from_plan(cls, plan: Plan, *, n_points: int = 25, **options: Any) -> Self:
        """Plot the plan and its neighbours.

        What the plan assumes, or its pilot, tells the rates of other numbers of identities.

        Parameters
        ----------
        plan : Plan
            The plan.
        n_points : int, default=25
            Number of points of the curve.
        **options
            Those of `plot`.

        Returns
        -------
        PlanDisplay
        """
        if type(plan) is not Plan:
            raise TypeError(f"plan: expected a Plan of tatml.verification, got {shown(plan)}")
        n_points = check_count("n_points", n_points, least=2)
        ends = max(3, plan.n_identities / WIDTH), plan.n_identities * WIDTH
        counts = np.unique(np.geomspace(*ends, n_points).round().astype(np.intp))
        rates = [plan.rate_for(int(n)) for n in counts]
        known = np.array([np.nan if rate is None else rate for rate in rates])
        return cls(plan, counts, known).plot(**options)

    def plot(self, ax: Axes | None = None, *, name: str | None = None) -> Self:
        """Plot on `ax`, or on a new figure."""
        ax, plan = one_axis(ax), self.plan
        samples = f"{plan.samples_per_identity} sample(s) each"
        ax.plot(self.n_identities, self.rates, "o-", color=SIMILAR, ms=3, label=samples)
        mark = f"{plan.n_identities} identities: {plan.max_rate:.3g}"
        ax.plot(plan.n_identities, plan.max_rate, "D", color=THRESHOLD, label=mark)
        ax.set(xscale="log", yscale="log", xlabel="identities")
        ax.set_ylabel(f"{Target(plan.strategy).words} that can be promised")
        ax.set_title(name or f"Promises with confidence {plan.confidence:g}")
        ax.grid(which="both", alpha=0.3)
        ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self
