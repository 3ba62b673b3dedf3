"""Draw the picture of docs/verification.md: the rate that can be promised, by identities.

python docs/plan_picture.py docs/images/plan.png
"""

import sys

import matplotlib.pyplot as plt

from tatml.plotting import PlanDisplay
from tatml.verification import plan


def main() -> None:
    """Draw the plan of a false match rate of 0.01."""
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    PlanDisplay.from_plan(plan(0.01), ax=ax)
    figure.savefig(sys.argv[1], dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
