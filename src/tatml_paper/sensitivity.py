"""The sensitivity study: the paper's grid and thresholds, then many decades of each parameter.

A setting is a small dict. Its "study" is "grid" or "threshold", which are the paper's, with c by
cross-validation, or "decades", where the number that "moves" names takes many values and the others
keep the paper's, with c = 1. The rest are numbers of the theory: c0, mu0, b0, C, and n_pairs, the
number of pairs per class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from tatml import PAPER, TATML, TATMLCV

from .methods import METHODS, Method
from .settings import PAPER_WEIGHTS, PROTOCOL, SENSITIVITY

StudySetting = dict[str, Any]


def sensitivity_settings(quick: bool = False) -> list[tuple[str, StudySetting]]:
    """Return (method, setting) for all points of the study.

    Examples
    --------
    >>> points = sensitivity_settings()
    >>> sum(setting["study"] == "grid" for _, setting in points)
    12
    """
    return [*_paper_settings(), *_decade_settings(quick)]


def _paper_settings() -> Iterator[tuple[str, StudySetting]]:
    for c0, mu0 in product(SENSITIVITY.c0, SENSITIVITY.mu0):
        yield "tatml", {"study": "grid", "c0": c0, "mu0": mu0}
    for b0 in SENSITIVITY.b0:
        yield "maz", {"study": "threshold", "b0": b0}


def _decade_settings(quick: bool) -> Iterator[tuple[str, StudySetting]]:
    decades = SENSITIVITY.quick_decades if quick else SENSITIVITY.decades
    n_pairs = SENSITIVITY.quick_n_pairs if quick else SENSITIVITY.n_pairs
    moves = [
        ("tatml", "c0"),
        ("tatml", "mu0"),
        ("tatml", "C"),
        ("tatml", "n_pairs"),
        ("maz", "b0"),
        ("maz", "C"),
        ("maz", "n_pairs"),
    ]
    for method, name in moves:
        for value in n_pairs if name == "n_pairs" else decades:
            yield method, {"study": "decades", "moves": name, name: value}


def sensitivity_method(name: str, setting: StudySetting) -> Method:
    """Return TATML or Maz with a setting; everything else is as in the paper."""

    def build(seed: int) -> TATML | TATMLCV:
        options = _options(name, setting) | {"random_state": seed}
        if setting["study"] == "decades":
            return TATML(**options)
        grid = {"C": list(PAPER_WEIGHTS)}
        return TATMLCV(TATML(**options), grid, scoring="accuracy", cv=PROTOCOL.folds)

    return replace(METHODS[name], build=build)


def _options(name: str, setting: StudySetting) -> dict[str, Any]:
    options = dict(PAPER) | {"C": setting.get("C", PAPER["C"])}
    options["n_pairs_per_class"] = setting.get("n_pairs", PAPER["n_pairs_per_class"])
    if name == "maz":  # b0 is squared, and γ_s γ_d = 1: see theory (T)
        options |= {"threshold": setting.get("b0", 1.0) ** 0.5, "c0": None, "threshold_prior": None}
    else:
        options["c0"] = setting.get("c0", PAPER["c0"])
        options["threshold_prior"] = setting.get("mu0", 1.0) ** 0.5
    return options
