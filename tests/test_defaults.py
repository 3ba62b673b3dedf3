"""Defaults of public functions and classes are the documented ones."""

import importlib
import inspect
import re
from math import sqrt

import sklearn
from test_project import PUBLIC_OBJECTS

from tatml.io import ESTIMATORS

# Defaults that the docstrings do not state as "default=".
OTHERS = {
    "calibrate_threshold": {"strategy": "accuracy", "beta": 1.0},
    "PairDistanceDisplay.from_predictions": {"margin": (0.5, 2.0)},
    "PairDistanceDisplay.plot": {"bins": 40},
    "ErrorRateDisplay.plot": {"bins": 60},
    "ReliabilityDisplay.from_predictions": {"n_bins": 10, "confidence_level": 0.95},
    "Calibration": {"n_pairs": 0},
    "EmbeddingDisplay": {"plain_title": "Features"},
    "EmbeddingDisplay.from_estimator": {"scale": True, "max_samples": 5000, "random_state": 0},
    "FeatureShareDisplay.plot": {"max_features": 20},
    "MetricDisplay": {"entry": "entry"},
    "MetricDisplay.from_estimator": {"relative": True},
    "PermutationImportanceDisplay.plot": {"max_features": 20},
    "solve": {"tol": 1e-6, "verbose": False, "sizes": "C, c0, mu0, weights"},
    "take": {"scale": 1.0},
    "load_model": {"max_bytes": 2 * 2**30},
    "get_params": {"deep": True},
}


def public_callables():
    """Yield (name, callable, docstring) of all public functions, classes and their methods."""
    for full in PUBLIC_OBJECTS:
        module, _, name = full.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        if not callable(value) or name in ("Status", "Iterate"):
            continue
        yield name, value, inspect.getdoc(value)
        for method in sorted(vars(value) if inspect.isclass(value) else ()):
            found = getattr(value, method, None)
            if not method.startswith("_") and callable(found):
                yield f"{name}.{method}", found, inspect.getdoc(found)


def stated_defaults(text):
    """Return {parameter: default} as a docstring states them."""
    found = {}
    for line, value in re.findall(
        r"^(\w[\w, ]*) : .*?default=([^\n]*?[^B\s])$", text or "", re.MULTILINE
    ):
        names, default = line.split(", "), eval(value, {"sqrt": sqrt, "sklearn": sklearn})
        each = default if len(names) > 1 and isinstance(default, tuple) else [default] * len(names)
        found |= dict(zip(names, each, strict=True))
    return found


def defaults_of(value):
    """Return {parameter: default} of a signature, without None."""
    parameters = inspect.signature(value).parameters.values()
    given = {p.name: p.default for p in parameters if p.default is not p.empty}
    return {name: default for name, default in given.items() if default is not None}


def test_defaults_are_those_of_the_docstrings():
    """The parameters of estimators have a table of their own in test_inputs.py."""
    checked = 0
    for name, value, text in public_callables():
        if name in ESTIMATORS:
            continue
        stated = stated_defaults(text)
        others = OTHERS.get(name, OTHERS.get(name.rpartition(".")[2], {}))
        for parameter, default in defaults_of(value).items():
            if type(default).__module__.startswith("tatml") or callable(default) or name == "Model":
                continue
            expected = stated.get(parameter, others.get(parameter, "not stated"))
            assert default == expected, (name, parameter, default, expected)
            checked += 1
    assert checked > 100
