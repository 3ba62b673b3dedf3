"""One rule to mark accuracies as highest, level or significantly different.

`table1.md`, `sensitivity.md` and `report.html` all take their marks from here.

1. **Pairing.** All methods see the same random halves. Two methods are compared on the halves that
   both were run on, by the differences of their accuracies repeat by repeat.
2. **Significance.** Two methods differ significantly if the two-sided one-sample t-test of these
   differences against zero gives p < 5 %. A method and a printed number are compared by the
   one-sample t-test of the accuracies against that number. With fewer than three common halves
   there is no test: nothing is called significant, and nothing is marked as not significant.
3. **Highest (bold).** Only methods with the largest number of repeats in a column can lead it,
   because means over different halves are not comparable. The leader has the highest mean of
   these. Every one of them whose mean is shown with the same digits is bold too: a difference that
   cannot be seen in the table must not decide.
4. **Not significantly different (°).** All other methods of the column that rule 2 does not
   separate from the leader, those with too few repeats to test included. A column in which no
   method has three repeats has no °. A tested difference is marked with ° in the same way. With
   three repeats or more, what has no mark differs significantly.
5. **Above, level, below.** A mean is level with a number if both are shown with the same digits,
   and otherwise above or below it.

The marks follow the paper, which uses a one-sample t-test at 5 %. Random halves of one data set
overlap, and the p-values are not corrected for the number of methods. The marks therefore describe
these halves; they are no claim about new data sets.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import nan, sqrt
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import stats

from .cells import FIXED, Cell, Scores, best_printed, printed_numbers
from .format import DIGITS, format_number
from .settings import PROTOCOL

LEAST_TESTED = 3  # repeats: with two, a t-test has one degree of freedom and separates by accident


def mean_score(scores: Mapping[int, float]) -> float:
    """Return the mean over the repeats, NaN if there are none."""
    return float(np.mean(list(scores.values()))) if scores else nan


def deviation(scores: Mapping[int, float]) -> float:
    """Return the standard deviation over the repeats (n − 1), NaN for fewer than two."""
    return float(np.std(list(scores.values()), ddof=1)) if len(scores) > 1 else nan


def on_same_halves(first: Scores, second: Scores) -> tuple[Scores, Scores]:
    """Restrict two methods to the repeats that both were run on.

    Examples
    --------
    >>> on_same_halves({0: 90.0, 1: 80.0}, {1: 81.0, 2: 95.0})
    ({1: 80.0}, {1: 81.0})
    """
    both = sorted(first.keys() & second.keys())
    return {repeat: first[repeat] for repeat in both}, {repeat: second[repeat] for repeat in both}


def p_value(first: Scores, second: Scores | float) -> float:
    """Return p of the two-sided one-sample t-test of the differences by repeat against zero.

    Parameters
    ----------
    first, second : dict of int to float
        Scores by repeat; repeats that only one of them has are left out. The second may be one
        number, such as a printed mean.

    Returns
    -------
    float
        NaN for fewer than two repeats. If all differences are equal, 1 if they are zero, else 0.

    Examples
    --------
    >>> round(p_value({0: 3.0, 1: 5.0, 2: 4.0}, {0: 1.0, 1: 2.0, 2: 3.0}), 4)
    0.0742
    """
    if isinstance(second, float | int):
        differences = np.array(list(first.values())) - second
    else:
        ours, theirs = on_same_halves(first, second)
        differences = np.array([ours[repeat] - theirs[repeat] for repeat in ours])
    n = len(differences)
    if n < 2:
        return nan
    spread = float(differences.std(ddof=1))
    if spread <= 1e-12 * float(np.max(np.abs(differences), initial=1.0)):
        return 1.0 if abs(differences[0]) <= 1e-9 else 0.0
    statistic = abs(float(differences.mean())) / (spread / sqrt(n))
    return 2 * float(stats.t.sf(statistic, n - 1))


@dataclass(frozen=True)
class Difference:
    """The comparison of a method with another one, or with a printed number.

    Parameters
    ----------
    ours, theirs : float
        The two means, over the same halves.
    p : float
        The p-value of the test, NaN if there is none.
    digits : int
        The decimals with which the means are shown.
    is_tested : bool
        Whether there are repeats enough for the test to count.
    """

    ours: float
    theirs: float
    p: float
    digits: int = DIGITS
    is_tested: bool = True

    @property
    def gain(self) -> float:
        """Our mean minus theirs."""
        return self.ours - self.theirs

    @property
    def is_significant(self) -> bool:
        """Whether the test separates them."""
        return self.is_tested and self.p < PROTOCOL.significance

    @property
    def mark(self) -> str:
        """° if the test does not separate them, else nothing; nothing without a test."""
        return "°" if self.is_tested and not self.is_significant else ""

    @property
    def text(self) -> str:
        """The gain with its sign and its mark."""
        return f"{format_number(self.gain, signed=True)} {self.mark}".rstrip()

    @property
    def is_level(self) -> bool:
        """Whether both means are shown with the same digits."""
        return round(self.ours, self.digits) == round(self.theirs, self.digits)

    @property
    def is_above(self) -> bool:
        """Whether our mean is shown as the higher one."""
        return round(self.ours, self.digits) > round(self.theirs, self.digits)

    @property
    def is_below(self) -> bool:
        """Whether our mean is shown as the lower one."""
        return round(self.ours, self.digits) < round(self.theirs, self.digits)


def compare(first: Scores, second: Scores | float, digits: int = DIGITS) -> Difference | None:
    """Compare a method with another one or with a number; None if they share no halves."""
    if isinstance(second, float | int):
        ours, theirs = first, second
    else:
        ours, second = on_same_halves(first, second)
        theirs = mean_score(second)
    if not ours:
        return None
    tested = len(ours) >= LEAST_TESTED
    return Difference(mean_score(ours), theirs, p_value(ours, second), digits, tested)


class Mark(Enum):
    """The mark of an accuracy in its column."""

    HIGHEST = "bold"
    UNDECIDED = "°"
    APART = ""


Key = TypeVar("Key", bound=Hashable)


def mark_column(column: Mapping[Key, Scores], digits: int = DIGITS) -> dict[Key, Mark]:
    """Mark the highest accuracies of a column, and those not significantly different from them.

    Examples
    --------
    >>> scores = {"a": [90.0, 91.0, 92.0], "b": [80.0, 81.0, 82.0], "c": [89.0, 91.5, 91.0]}
    >>> column = {method: dict(enumerate(values)) for method, values in scores.items()}
    >>> [mark.name for mark in mark_column(column).values()]
    ['HIGHEST', 'APART', 'UNDECIDED']
    """
    most = max((len(scores) for scores in column.values()), default=0)
    able = {key: round(mean_score(s), digits) for key, s in column.items() if s and len(s) == most}
    if not able:
        return dict.fromkeys(column, Mark.APART)
    leader = max(able, key=lambda key: mean_score(column[key]))
    marks = {}
    for key, scores in column.items():
        if able.get(key) == able[leader]:
            marks[key] = Mark.HIGHEST
        else:
            apart = most < LEAST_TESTED or _separates(column[leader], scores)
            marks[key] = Mark.APART if apart else Mark.UNDECIDED
    return marks


def _separates(first: Scores, second: Scores) -> bool:
    difference = compare(first, second)
    return difference is not None and difference.is_significant


class Standing(NamedTuple):
    """The fixed configuration compared with a method or a printed number in one cell.

    `rival` is the method that it is compared with, or whose printed number is the highest.
    """

    cell: Cell
    rival: str
    difference: Difference


def compare_with_printed(scores: Mapping[Cell, Mapping[str, Scores]]) -> list[Standing]:
    """Compare the fixed configuration with the highest printed number of each cell."""
    standings = []
    for cell, column in scores.items():
        if printed_numbers(cell) and FIXED in column:
            rival, number = best_printed(cell)
            difference = compare(column[FIXED], number)
            if difference is not None:
                standings.append(Standing(cell, rival, difference))
    return standings


def compare_with_method(
    scores: Mapping[Cell, Mapping[str, Scores]], method: str, cells: Iterable[Cell]
) -> list[Standing]:
    """Compare the fixed configuration with our own run of a method, where both were run."""
    standings = []
    for cell in cells:
        difference = compare(scores[cell].get(FIXED, {}), scores[cell].get(method, {}))
        if difference is not None:
            standings.append(Standing(cell, method, difference))
    return standings
