"""The runs of an experiment: one task per record, made from the declared settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import product
from typing import Any, Literal, get_args

import numpy as np

from tatml import TATML, TATMLCV

from .methods import KERNEL_GRIDS, METHODS, QUICK_METHODS, Method
from .protocol import seed_of
from .samples import data_digest, digest_of
from .sensitivity import StudySetting, sensitivity_method, sensitivity_settings
from .settings import (
    DATASETS,
    PROTOCOL,
    QUICK_DATASETS,
    SENSITIVITY,
    Dataset,
    Protocol,
    features_of,
)

Experiment = Literal["table1", "sensitivity"]
EXPERIMENTS: tuple[Experiment, ...] = get_args(Experiment)
# The fields of PROTOCOL on which the results of a run depend.
CHANGES_NUMBERS = ("neighbours", "folds", "verification_pairs", "seed")
# Parameters that came after records were published, and without which nothing changes.
CHANGE_NOTHING = {
    "kernel": None, "kernels": None, "loss": "auto", "midpoint": False, "new_classes": False,
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """One run: a method on a feature type of a data set, in one repeat."""

    experiment: Experiment
    dataset: Dataset
    features: str
    method: str
    repeat: int
    setting: StudySetting = field(default_factory=dict, hash=False)

    def make_method(self) -> Method:
        """Return the method, with the setting of the task if it has one."""
        if self.experiment == "sensitivity":
            return sensitivity_method(self.method, self.setting)
        return METHODS[self.method]

    def seeds(self) -> dict[str, int]:
        """Return the seeds, which are the same for all methods: same halves, same pairs."""
        place = self.dataset.dataset, self.dataset.split, self.repeat
        return {use: seed_of(use, *place) for use in ("split", "fit", "score")}

    def identity(self, rules: Protocol = PROTOCOL) -> dict[str, Any]:
        """Return the fields that identify the task; `key` changes with everything declared."""
        protocol = {name: getattr(rules, name) for name in CHANGES_NUMBERS}
        digest = digest_of([_declared(self.make_method().build(0)), protocol])
        declared = {
            "experiment": self.experiment,
            "dataset": self.dataset.dataset,
            "split": self.dataset.split,
            "features": self.features,
            "method": self.method,
            "setting": self.setting,
            "repeat": self.repeat,
            "data_digest": data_digest(self.dataset),
            "digest": digest,
        }
        place = "/".join(_word(value) for value in declared.values())
        return {**declared, "seed": self.seeds()["split"], "key": place}


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _declared(value: Any) -> Any:
    """Return an estimator as its class and parameters, at any depth."""
    if type(value) is TATMLCV:
        return [type(value).__name__, _declared_search(value)]
    if hasattr(value, "get_params") and not isinstance(value, str):
        parameters = value.get_params(deep=False).items()
        counted = {name: _declared(part) for name, part in parameters if _counts(name, part)}
        return [type(value).__name__, counted]
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return [_declared(part) for part in value]
    return repr(value)


def _declared_search(search: TATMLCV) -> dict[str, Any]:
    """Return the parameters of a search in the form of version 0.1, so that records stay valid.

    They had no grid: the values to choose from had names of their own.
    """
    metric = TATML() if search.estimator is None else search.estimator
    grids: Any = search.param_grid
    grids = [grids] if hasattr(grids, "items") else grids
    first, *more = grids or [{}]
    given = metric.get_params(deep=False) | search.get_params(deep=False)
    if search.random_state is None:
        given["random_state"] = metric.random_state
    for name in ("C", "warm_start", "estimator", "param_grid"):
        del given[name]
    if more:  # no kernel with three priors, or else kernels
        known = repr(grids) == repr(KERNEL_GRIDS)
        given |= {"kernels": "auto" if known else repr(grids), "priors": None, "prior": None}
    else:
        given |= {"priors": first.get("prior"), **({"prior": None} if "prior" in first else {})}
    Cs, nine = first.get("C"), np.logspace(0, 4, 9).tolist()
    given |= {"Cs": 9 if Cs == nine else Cs, "pair_strategies": first.get("pairs")}
    given["threshold_strengths"] = first.get("threshold_strength")
    return {name: _declared(part) for name, part in sorted(given.items()) if _counts(name, part)}


def _counts(name: str, value: Any) -> bool:
    return not (name in CHANGE_NOTHING and value == CHANGE_NOTHING[name])


def make_tasks(
    names: Sequence[str],
    *,
    datasets: Sequence[str],
    methods: Sequence[str] | None,
    features: Sequence[str] | None,
    repeats: Sequence[int],
    quick: bool,
) -> list[Task]:
    """Return all tasks of the experiments, sorted by experiment and repeat."""
    declared = QUICK_DATASETS if quick else DATASETS
    tasks: list[Task] = []
    if "table1" in names:
        fast = [name for name, method in METHODS.items() if not method.slow]
        rows = methods or (QUICK_METHODS if quick else fast)
        tasks += _table_tasks([declared[name] for name in datasets], rows, features, repeats)
    if "sensitivity" in names:
        tasks += _sensitivity_tasks(
            declared[_sensitivity_dataset(datasets, quick)], methods, repeats, quick
        )
    return sorted(tasks, key=lambda task: (EXPERIMENTS.index(task.experiment), task.repeat))


def _table_tasks(
    datasets: Iterable[Dataset],
    rows: Sequence[str],
    features: Sequence[str] | None,
    repeats: Sequence[int],
) -> list[Task]:
    tasks = []
    for dataset, method, repeat in product(datasets, rows, repeats):
        for name in features_of(dataset):
            wanted = features is None or name in features
            if wanted and _makes_sense(dataset, name, METHODS[method]):
                tasks.append(Task("table1", dataset, name, method, repeat))
    return tasks


def _makes_sense(dataset: Dataset, features: str, method: Method) -> bool:
    """Return False for a method on vectors with a feature type that has the same vectors."""
    return method.form == "matrices" or dataset.pixel_features is not None or features == "vector"


def _sensitivity_dataset(datasets: Sequence[str], quick: bool) -> str:
    """Return the paper's data set, or the embedded one if only embedded ones are asked for."""
    real, embedded = SENSITIVITY.dataset, SENSITIVITY.embedded_dataset
    if real in datasets and not quick:
        return real
    needs_no_files = quick or all(DATASETS[name].embedded for name in datasets)
    return embedded if embedded in datasets or needs_no_files else real


def _sensitivity_tasks(
    dataset: Dataset, methods: Sequence[str] | None, repeats: Sequence[int], quick: bool
) -> list[Task]:
    return [
        Task("sensitivity", dataset, SENSITIVITY.features, method, repeat, setting)
        for method, setting in sensitivity_settings(quick)
        if methods is None or method in methods
        for repeat in repeats
    ]


def choose_names(
    name: str, given: Sequence[str] | str | None, known: Iterable[str], when: str = ""
) -> list[str] | None:
    """Check that names are known, and return each once; None if none are given.

    Examples
    --------
    >>> choose_names("methods", ["euc", "euc"], METHODS)
    ['euc']
    """
    if given is None:
        return None
    given = [given] if isinstance(given, str) else list(given)
    known = list(known)
    for one in given:
        if one not in known:
            near = get_close_matches(str(one).lower(), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{name}: expected some of {', '.join(known)}{when}, got {one!r}{hint}"
            )
    return list(dict.fromkeys(given)) or None
