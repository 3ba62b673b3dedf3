"""A synthetic table with categories, dates and missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from .._validation import check_count, check_flag, check_random

DESCR = """Synthetic customers of a shop and the plan that they have chosen.

The columns are as tables often are: numbers with missing and mistyped values and in different
units, categories of which some are rare, text of many values, dates, an identifier, and a constant.
Age and income matter in curved ways, cities and employers by an effect of their own, and dates by
the season.
"""
PLANS = ("basic", "family", "plus")
N_CITIES, N_EMPLOYERS = 40, 250
DEVICES = ("laptop", "phone", "tablet")
MISSING = {"age": 0.08, "income": 0.05, "device": 0.04, "joined": 0.02}  # shares
MISTYPED = 0.005  # share of the incomes that are a hundred times as large


def make_customers(
    n_samples: int = 800, *, random_state: Any = None, return_X_y: bool = False
) -> Bunch | tuple[Any, NDArray[np.str_]]:
    """Generate a messy data frame of customers, and the plan that each of them has chosen.

    It needs pandas.

    Parameters
    ----------
    n_samples : int, default=800
        The number of customers.
    random_state : int, RandomState, Generator or None, default=None
        The source of random numbers; an integer gives the same customers in every call.
    return_X_y : bool, default=False
        Return `(data, target)` instead of a Bunch.

    Returns
    -------
    data : Bunch
        data : DataFrame of shape (n_samples, 9)
            customer, age, income, city, employer, device, newsletter, joined and country.
        target : array of str and of shape (n_samples,)
            The plan: "basic", "family" or "plus".
        DESCR : str
            A description.

    Examples
    --------
    >>> from tatml.datasets import make_customers
    >>> customers = make_customers(random_state=0)
    >>> customers.data.dtypes["joined"].kind, customers.data["age"].isna().any().item()
    ('M', True)
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("make_customers needs pandas: pip install pandas") from error
    n_samples, return_X_y = (
        check_count("n_samples", n_samples),
        check_flag("return_X_y", return_X_y),
    )
    rng = check_random(random_state)
    columns, target = _draw(n_samples, rng)
    for name, share in MISSING.items():
        missing = rng.uniform(size=n_samples) < share
        columns[name] = pd.Series(columns[name]).mask(missing)
    frame = pd.DataFrame(columns)
    return (frame, target) if return_X_y else Bunch(data=frame, target=target, DESCR=DESCR)


def _draw(n_samples: int, rng: Any) -> tuple[dict[str, Any], NDArray[np.str_]]:
    """Return complete columns, and the plan with the largest of three noisy scores."""
    age = np.round(18 + 62 * rng.beta(2, 3, size=n_samples))
    income = np.exp(rng.normal(10.3, 0.6, size=n_samples)) // 10 * 10
    city = _choose(N_CITIES, n_samples, rng)
    employer = _choose(N_EMPLOYERS, n_samples, rng)
    device = _choose(len(DEVICES), n_samples, rng)
    newsletter = rng.uniform(size=n_samples) < 0.4
    day = np.floor(rng.uniform(0, 4 * 365, size=n_samples))
    of_city, of_employer = (rng.normal(size=count) for count in (N_CITIES, N_EMPLOYERS))
    scores = np.stack(
        [
            1.5 * newsletter - 3 * np.log(income / 30000),
            8 * np.exp(-(((age - 42) / 9) ** 2)) + of_city[city] - 2.5,
            3 * np.log(income / 30000)
            + of_employer[employer]
            + 1.5 * np.cos(2 * np.pi * (day - 345) / 365)
            + 1.5 * (device == 0),
        ]
    )
    scores += 0.5 * rng.gumbel(size=scores.shape)
    income[rng.uniform(size=n_samples) < MISTYPED] *= 100
    columns = {
        "customer": [f"C{number:05d}" for number in rng.permutation(n_samples)],
        "age": age,
        "income": income,
        "city": [f"city {number}" for number in city],
        "employer": [f"employer {number}" for number in employer],
        "device": np.array(DEVICES)[device],
        "newsletter": newsletter,
        "joined": np.datetime64("2021-01-01", "s") + day.astype("timedelta64[D]"),
        "country": "here",
    }
    return columns, np.array(PLANS)[np.argmax(scores, axis=0)]


def _choose(count: int, n_samples: int, rng: Any) -> NDArray[np.intp]:
    """Return numbers below `count`, of which the first are the most frequent."""
    weights = 1 / (3.0 + np.arange(count))
    return rng.choice(count, size=n_samples, p=weights / weights.sum())
