"""How a call ended, and complaints about it: errors, warnings, side effects and results."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from good_calls import Case, parameter_names
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

from tatml import Blocks, Euclidean, PairThreshold, Status
from tatml._learning.span import SpanFactor

SECONDS = 30  # time limit of a case


Judge = Callable[[dict[str, Any], Any], str | None]


# Messages of scikit-learn that its own tests of estimators require; all of them name X or y.
SKLEARN_MESSAGES = (
    r"X has \d+ features, but \w+ is expecting \d+ features as input",
    r"The feature names should match those that were passed during fit",
    r"\w+ requires y to be passed, but the target y is None",
    r"This \w+ instance is not fitted yet",
    r"Sparse data was passed for X, but dense data is required",
)


OWN_WARNINGS = (
    r"X: block \d+ holds symmetric positive definite",
    r"cv: ",
    r"groups: expected at least \d+ samples or groups in several",
    r"y: \d+ samples have \d+ different numbers",
    r"threshold_: [-+.\w]+ separates hardly any (training|held-out) pairs: ",
    r"pairs: \d+ rows, of which \d+ are distinct",
    r"pairs: expected similar pairs to have higher scores than dissimilar pairs, got the opposite",
    r"(X|pairs|triplets|quadruplets): samples [\d, ]+( and \d+ more)? are so far from all others",
    r"X (has feature names, but|does not have valid feature names, but) \w+ was fitted with",
)


def fingerprint(value: Any, depth: int = 0) -> Any:
    """Return a value that shows by comparison whether an object was changed."""
    if value is None or isinstance(value, float | int | str):
        return id(value)
    if isinstance(value, np.ma.MaskedArray):
        data = np.ma.getdata(value)
        return "masked", fingerprint(data, depth), np.ma.getmaskarray(value).tobytes()
    if isinstance(value, np.ndarray):
        entries = [id(entry) for entry in value.flat] if value.dtype.hasobject else value.tobytes()
        return type(value), value.dtype.str, value.shape, value.strides, entries
    if isinstance(value, Blocks):
        return "Blocks", [fingerprint(array) for array in value.arrays]
    if isinstance(value, pd.DataFrame | pd.Series):
        return "pandas", value.shape, str(value.dtypes), _text_of(value)
    if scipy.sparse.issparse(value):
        return "sparse", value.format, fingerprint(value.data)
    if isinstance(value, list | tuple) and depth < 4:
        return type(value), [fingerprint(entry, depth + 1) for entry in value]
    if isinstance(value, dict) and depth < 4:
        return "dict", [(id(key), fingerprint(entry, depth + 1)) for key, entry in value.items()]
    if isinstance(value, set | frozenset):
        return "set", len(value)
    return id(value)


def _text_of(frame: Any) -> str:
    try:
        return frame.to_csv()
    except Exception:  # columns of strange objects
        return ""


def global_state(with_random: bool) -> dict[str, Any]:
    state = {
        "np.geterr()": np.geterr(),
        "warnings.filters": list(warnings.filters),
        "os.environ": dict(os.environ._data),  # the bytes, which need no decoding
        "np.get_printoptions()": str(np.get_printoptions()),
    }
    if with_random:
        kind, keys, *rest = np.random.get_state()  # noqa: NPY002
        state["np.random"] = (kind, keys.tobytes(), rest)
    return state


def uses_global_random(case: Case) -> bool:
    """Whether NumPy's global generator was asked for: None means it, as in scikit-learn."""
    if case.estimator is not None and hasattr(case.estimator, "random_state"):
        return _is_global(case.estimator.random_state)
    return _is_global(case.arguments.get("random_state"))


def _is_global(value: Any) -> bool:
    return value is None or value is np.random or value is np.random.mtrand._rand


class Hang(BaseException):
    """A case that takes too long."""


@dataclass
class Outcome:
    """How a case ended: "refused", "accepted", or "failed" with complaints."""

    kind: str
    complaints: list[str]
    error: BaseException | None = None
    trace: str = ""
    seconds: float = 0.0


@contextlib.contextmanager
def time_limit(seconds: float):
    """Stop what takes too long, where the platform can."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_):
        raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_case(case: Case, judge: Judge | None = None, seconds: float = SECONDS) -> Outcome:
    """Make the call, and return how it ended with all complaints about it."""
    with_random = not uses_global_random(case)
    before_arguments = {name: fingerprint(value) for name, value in case.arguments.items()}
    before_globals = global_state(with_random)
    before = None if case.estimator is None else _state_of(case.estimator)
    start, error, value = time.perf_counter(), None, None
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        before_globals["warnings.filters"] = list(warnings.filters)
        try:
            with time_limit(seconds):
                value = case.call()
        except (Exception, Hang) as raised:
            error = raised
        after_globals = global_state(with_random)
    outcome = Outcome("refused" if error is not None else "accepted", [], error)
    outcome.seconds = time.perf_counter() - start
    complaints = outcome.complaints
    complaints += [f"warned: {w.category.__name__}: {w.message}" for w in caught if _foreign(w)]
    for name, state in before_globals.items():
        if after_globals[name] != state:
            complaints.append(f"changed {name}")
    for name, state in before_arguments.items():
        if fingerprint(case.arguments[name]) != state:
            complaints.append(f"changed the argument {name}")
    if case.estimator is not None:
        complaints += _changes(case, before, error is not None)
    if error is not None:
        complaints += wrong_error(error, case.names)
        if case.is_harmless and not isinstance(error, NotFittedError):
            complaints.append(f"refused, although only the form of the arguments changed: {error}")
    else:
        complaints += _wrong_value(case, value, judge)
    if complaints:
        outcome.kind = "failed"
        outcome.trace = "" if error is None else "".join(traceback.format_exception(error))
    return outcome


def _foreign(warning: warnings.WarningMessage) -> bool:
    if issubclass(warning.category, ConvergenceWarning | DataConversionWarning):
        return False
    own = warning.category is UserWarning and re.match("|".join(OWN_WARNINGS), str(warning.message))
    return not own


def wrong_error(error: BaseException, names: Iterable[str]) -> list[str]:
    """Return the fault of an error: a wrong type, or none of these parameters named."""
    if isinstance(error, NotFittedError):
        return []
    message = str(error)
    if isinstance(error, ImportError) and message.startswith("device needs PyTorch"):
        return []  # an extra that is not installed
    if not isinstance(error, ValueError | TypeError):
        return [f"raised {type(error).__name__}: {message[:300]}"]
    if isinstance(error, np.linalg.LinAlgError | UnicodeError):  # ValueErrors by inheritance
        return [f"raised {type(error).__name__}: {message[:300]}"]
    name = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    named = rf"(chunk \d+: )?({name})(, ({name}))*(=[^:]{{1,60}})?: \S"
    if re.match(named, message) or re.match("|".join(SKLEARN_MESSAGES), message):
        return []
    return [f"raised {type(error).__name__} that names no parameter: {message[:300]}"]


def _state_of(estimator: Any) -> dict[str, Any]:
    state = dict(vars(estimator))
    return {
        "vars": state,
        "prints": {name: fingerprint(value) for name, value in state.items()},
        "params": {name: state[name] for name in parameter_names(type(estimator))},
    }


def _changes(case: Case, before: dict[str, Any], refused: bool) -> list[str]:
    """List changed parameters, and fitted attributes that the call should not change."""
    estimator, found = case.estimator, []
    after = vars(estimator)
    for name, value in before["params"].items():
        if after[name] is not value or fingerprint(value) != before["prints"][name]:
            found.append(f"changed the parameter {name}")
    if not refused and case.target.endswith(".fit"):
        return found
    may_change = set()
    if not refused and case.target.endswith(("set_threshold", "calibrate_threshold")):
        may_change = {"threshold_", "calibration_"}
    if not refused and case.target.endswith(("set_same_rate", "calibrate_probability")):
        may_change = {"likelihood_ratio_", "likelihood_table_", "same_rate_"}
    state = dict(vars(estimator))
    for name in sorted((state.keys() | before["vars"].keys()) - may_change):
        old, new = before["vars"].get(name, before), state.get(name, before)
        if old is not new or fingerprint(new) != before["prints"].get(name):
            found.append(f"changed the attribute {name} although the call should not")
    return found


def _wrong_value(case: Case, value: Any, judge: Judge | None) -> list[str]:
    """Return the faults of a returned value."""
    method = case.target.rpartition(".")[2]
    if case.target == "learn_metric":
        complaints = wrong_result(value)
        if judge is not None and not complaints:
            complaint = judge(case.arguments, value)
            complaints += [] if complaint is None else [f"judged: {complaint}"]
        return complaints
    if method == "fit":
        return _wrong_fit(case, value)
    if method in ("set_threshold", "calibrate_threshold"):
        return _wrong_threshold(value)
    if method in ("set_same_rate", "calibrate_probability"):
        return _wrong_calibration(value)
    if method == "get_metric":
        return []
    parts = [np.asarray(part) for part in (value if isinstance(value, list) else [value])]
    if not all(part.dtype.kind in "if" and np.all(np.isfinite(part)) for part in parts):
        return [f"returned {value!r:.200}, not finite numbers"]
    if method in ("pair_distance", "get_metric()") and np.min(parts[0], initial=0.0) < 0:
        return ["returned a negative distance"]
    if method in ("predict", "predict_pairs") and not set(np.unique(parts[0])) <= {-1, 1}:
        return ["predicted something else than -1 and 1"]
    if method in ("pair_probability", "predict_proba") and not np.all(abs(parts[0] - 0.5) <= 0.5):
        return ["returned a probability that is not from 0 to 1"]
    return []


def wrong_result(result: Any) -> list[str]:
    """Return the faults of a Result by itself."""
    complaints = []
    for m, L in enumerate(result.L):
        L = np.asarray(L, dtype=float)
        if not np.all(np.isfinite(L)):
            complaints.append(f"L[{m}] is not finite")
        elif np.any(np.triu(L, 1)) or not np.all(np.diag(L) > 0):
            complaints.append(f"L[{m}] is not lower triangular with a positive diagonal")
    if not (result.b0 is None or np.isfinite(result.b0)) or not np.isfinite(result.primal):
        complaints.append(f"b0 = {result.b0}, primal = {result.primal}")
    if not result.gap >= 0:
        complaints.append(f"gap = {result.gap}")
    goal = result.tol * max(1.0, abs(result.primal))
    if result.converged != (result.gap <= goal):
        complaints.append(f"converged = {result.converged} with gap {result.gap}, goal {goal}")
    if (result.status is Status.CONVERGED) != result.converged:
        complaints.append(f"status {result.status} with converged = {result.converged}")
    return complaints


def _wrong_threshold(estimator: Any) -> list[str]:
    threshold = estimator.threshold_
    signed = hasattr(estimator, "sum_factors_") or getattr(estimator, "any_sign_", False)
    if not (isinstance(threshold, float) and np.isfinite(threshold) and (signed or threshold >= 0)):
        return [f"threshold_ is {threshold!r}"]
    return []


def _wrong_calibration(estimator: Any) -> list[str]:
    rate, table = estimator.same_rate_, getattr(estimator, "likelihood_table_", None)
    if table is not None:
        steps = np.diff(table)
        good = np.isfinite(table).all() and (steps[0] > 0).all() and (steps[1] <= 0).all()
        return [] if good and 0 < rate < 1 else [f"calibrated to {table} at the rate {rate}"]
    a, b = estimator.likelihood_ratio_
    good = np.isfinite(a) and np.isfinite(b) and b >= 0 and 0 < rate < 1
    return [] if good else [f"calibrated to {a} - {b} d at the rate {rate}"]


def _wrong_fit(case: Case, estimator: Any) -> list[str]:
    """All attributes set, all numbers finite, and the samples of the fit can be embedded."""
    if estimator is not case.estimator:
        return ["fit returned something else than the estimator"]
    from_tuples = not getattr(estimator, "_learns_threshold", True)
    without_labels = from_tuples or (
        isinstance(estimator, Euclidean) and case.arguments.get("y") is None
    )
    expected = [] if without_labels else ["threshold_", "b0_"]
    has_midpoint = bool(getattr(estimator, "midpoint", False))
    if not isinstance(estimator, PairThreshold):
        expected += ["block_shapes_", "n_features_in_"]
        factors = ["factors_", "sum_factors_", "midpoint_"]
        expected += factors if has_midpoint else ["components_"]
    if hasattr(estimator, "solver"):
        expected += ["result_", "n_iter_", "prior_"]
        expected += ["comparisons_"] if from_tuples else ["pairs_", "similar_"]
    missing = [name for name in expected if not hasattr(estimator, name)]
    if missing:
        return [f"fit did not set {', '.join(missing)}"]
    complaints = [] if without_labels else _wrong_threshold(estimator)
    if from_tuples and hasattr(estimator, "threshold_"):
        complaints.append("a fit has kept the threshold of an earlier one")
    if hasattr(estimator, "likelihood_ratio_") and not has_midpoint:
        complaints.append("a fit has kept the probabilities of an earlier one")
    if hasattr(estimator, "result_"):
        complaints += wrong_result(estimator.result_)
    if hasattr(estimator, "likelihood_ratio_"):
        complaints += _wrong_calibration(estimator)
    for name in {"components_", "factors_", "sum_factors_"} & vars(estimator).keys():
        parts = vars(estimator)[name]
        parts = parts if isinstance(parts, list) else [parts]
        parts = [part.inner if isinstance(part, SpanFactor) else part for part in parts]
        if not all(np.all(np.isfinite(part)) for part in parts):
            complaints.append(f"{name} are not finite")
    return complaints + _wrong_embedding(case)


def _wrong_embedding(case: Case) -> list[str]:
    if "X" not in case.arguments or not hasattr(case.arguments["X"], "__len__"):
        return []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            name = "transform" if hasattr(case.estimator, "transform") else "search_vectors"
            rows = getattr(case.estimator, name)(case.arguments["X"])
        except Exception as error:
            return [f"transform of the samples of fit raised {type(error).__name__}: {error}"]
    if not np.all(np.isfinite(np.asarray(rows))):
        return ["transform of the samples of fit is not finite"]
    return [f"transform warned: {w.message}" for w in caught if _foreign(w)]
