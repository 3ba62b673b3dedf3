"""Checks of what a user gave: each error names the parameter, what was expected and what came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import isclass
from math import inf, isfinite
from numbers import Integral, Real
from sys import maxsize
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRED_DISTANCES
from sklearn.utils import check_random_state

from ._array import Array, foreign_kind, namespace, place_of
from ._messages import shown
from .blocks import Blocks, as_array_like

LARGEST_ENTRY = 1e60
LARGEST_MARGIN = 1e50
LARGEST_PRIOR = {"float64": 1e150, "float32": 1e18}  # their squares are numbers
LARGEST_THRESHOLD = 1e100
LEAST_SPREAD = 1e-60  # of samples: the squares of their differences are still numbers
LARGEST_JOBS = 10_000
LEAST_CONDITION = 5  # of covariance matrices; logarithms that are positive definite stay below it


class WrongTypeError(TypeError, ValueError):
    """A value of a wrong type; caught as either, like scikit-learn's own error of parameters."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """One of some words."""
    if not isinstance(value, str) or value not in tuple(choices):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}: expected one of {listed}, got {shown(value)}")


def check_positive(name: str, value: Any, or_infinite: bool = False) -> float:
    """A number above zero."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name}: expected a number, got {shown(value)}")
    kind = "a positive number" + (" or numpy.inf" if or_infinite else "")
    number = _as_float(name, value, kind)
    if not (number > 0 and (isfinite(number) or (or_infinite and number == inf))):
        raise ValueError(f"{name}: expected {kind}, got {shown(value)}")
    return number


def _as_float(name: str, value: Any, kind: str) -> float:
    """A number of any type as a float: Python's integers and fractions may be too large."""
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{name}: expected {kind}, got more than a float can hold") from error
    except Exception as error:  # a type of one's own
        raise WrongTypeError(f"{name}: expected {kind}, got {shown(value)}") from error


def check_number_or(name: str, value: Any, word: str) -> float | None:
    """A positive number, or None for the word that stands for finding one."""
    if isinstance(value, str):
        if value != word:
            raise TypeError(f"{name}: expected a number or {word!r}, got {shown(value)}")
        return None
    return check_positive(name, value)


def check_threshold(name: str, value: Any) -> float:
    """A distance whose square is a positive number too."""
    number = check_positive(name, value)
    if not 1 / LARGEST_THRESHOLD <= number <= LARGEST_THRESHOLD:
        raise ValueError(
            f"{name}: expected a distance from {1 / LARGEST_THRESHOLD:g} to {LARGEST_THRESHOLD:g}, "
            f"whose square a float can hold, got {shown(value)}"
        )
    return number


def check_count(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least 1, or another least one."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name}: expected an integer, got {shown(value)}")
    try:
        number = int(value)
    except Exception as error:  # numpy.timedelta64 passes for an integer, and is none
        raise TypeError(f"{name}: expected an integer, got {shown(value)}") from error
    if number < least:
        raise ValueError(f"{name}: expected at least {least}, got {shown(value)}")
    if number > maxsize:
        raise ValueError(f"{name}: expected at most {maxsize}, got a larger number")
    return number


def check_finite(name: str, value: Any) -> float:
    """A finite number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise WrongTypeError(f"{name}: expected a number, got {shown(value)}")
    number = _as_float(name, value, "a finite number")
    if not isfinite(number):
        raise ValueError(f"{name}: expected a finite number, got {shown(value)}")
    return number


def check_not_negative(name: str, value: Any) -> float:
    """A finite number of at least zero."""
    if not check_finite(name, value) >= 0:
        raise ValueError(f"{name}: expected a finite number of at least 0, got {shown(value)}")
    return float(value)


def check_share(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    if check_not_negative(name, value) > 1:
        raise ValueError(f"{name}: expected a number from 0 to 1, got {shown(value)}")
    return float(value)


def as_list(name: str, values: Any, what: str) -> list[Any]:
    """The members of a sequence, which can be gone through again: no iterator, no word."""
    try:
        members = None if isinstance(values, str) or iter(values) is values else list(values)
    except Exception:  # whatever a value does when it is asked for its members
        members = None
    if members is None:
        raise TypeError(f"{name}: expected {what}, got {shown(values)}")
    return members


def check_two(name: str, values: Any, what: str) -> tuple[float, float]:
    """Two numbers."""
    members = as_list(name, values, what)
    if len(members) != 2:
        raise TypeError(f"{name}: expected {what}, got {shown(values)}")
    return members[0], members[1]


def check_bounds(bounds: Any) -> tuple[float, float]:
    """ITML's two bounds of squared distances, 0 < u ≤ l."""
    low, high = check_two("bounds", bounds, "two numbers (upper of similar, lower of dissimilar)")
    low, high = check_positive("bounds", low), check_positive("bounds", high)
    if low > high:
        raise ValueError(
            f"bounds: expected the first to be at most the second, got {shown(bounds)}"
        )
    return low, high


def check_percentiles(percentiles: Any) -> tuple[float, float]:
    """Two percentiles in ascending order."""
    low, high = check_two("percentiles", percentiles, "two numbers from 0 to 100")
    check_not_negative("percentiles", low)
    if not low < check_not_negative("percentiles", high) <= 100:
        raise ValueError(f"percentiles: expected 0 ≤ low < high ≤ 100, got {shown(percentiles)}")
    return low, high


def check_grid(name: str, values: Any) -> list[float]:
    """Some positive numbers."""
    members = as_list(name, values, "a sequence of positive numbers")
    try:
        numbers = [check_positive(name, value) for value in members]
    except TypeError as error:
        raise TypeError(f"{name}: expected positive numbers, got {shown(values)}") from error
    if not numbers:
        raise ValueError(f"{name}: expected at least one number, got none")
    return numbers


def check_words(name: str, values: Any, choices: Iterable[str]) -> list[str]:
    """Some words, each one of those that there are."""
    words = as_list(name, values, "a sequence of words")
    if not words:
        raise TypeError(f"{name}: expected a sequence of words, got {shown(values)}")
    for word in words:
        check_choice(name, word, choices)
    return words


def check_rate(name: str, value: Any, needed: bool, strategy: str) -> None:
    """A number from 0 to 1 where the strategy needs it, None otherwise."""
    if value is None and not needed:
        return
    if not needed:
        raise ValueError(f"{name}: expected None with strategy={strategy!r}, got {shown(value)}")
    if not isinstance(value, Real) or isinstance(value, bool):
        raise WrongTypeError(
            f"{name}: expected a number from 0 to 1 with strategy={strategy!r}, got {shown(value)}"
        )
    if not 0 <= _as_float(name, value, "a number from 0 to 1") <= 1:
        raise ValueError(f"{name}: expected a number from 0 to 1, got {shown(value)}")


def check_flag(name: str, value: Any) -> bool:
    """True or False, also as NumPy's or as a number."""
    if not isinstance(value, Integral | np.bool_):
        raise TypeError(f"{name}: expected True or False, got {shown(value)}")
    return bool(value)


def check_jobs(name: str, value: Any) -> int | None:
    """How many jobs at a time, as joblib counts them: not 0, and negative from the cores down."""
    if value is None:
        return None
    count = check_count(name, value, least=-LARGEST_JOBS)
    if not 0 < abs(count) <= LARGEST_JOBS:
        raise ValueError(f"{name}: expected None or a number other than 0, got {shown(value)}")
    return count


def check_callable(name: str, value: Any) -> Any:
    """A function, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name}: expected a function or None, got {shown(value)}")
    return value


def check_metric(metric: Any) -> None:
    """A distance of pairs of vectors: a name that scikit-learn knows, or a function."""
    if not callable(metric):
        check_choice("metric", metric, ["precomputed", *PAIRED_DISTANCES])


def check_random(value: Any) -> Any:
    """A source of random numbers, from None, a seed, a RandomState or a Generator."""
    is_source = hasattr(value, "permutation") and hasattr(value, "choice")
    if is_source and not isclass(value):
        return value
    try:
        return check_random_state(value)
    except Exception as error:  # of a seed that is out of range, or of a strange object
        raise ValueError(
            "random_state: expected None, an integer, a RandomState or a Generator, got "
            f"{shown(value)}"
        ) from error


def check_margin(margin: Any) -> tuple[float, float]:
    """Two numbers 0 < γ_s < γ_d."""
    low, high = check_two("margin", margin, "two numbers (γ_s, γ_d)")
    low, high = check_positive("margin", low), check_positive("margin", high)
    if not low < high:
        raise ValueError(f"margin: expected 0 < γ_s < γ_d, got {shown(margin)}")
    if low < 1 / LARGEST_MARGIN or high > LARGEST_MARGIN:
        raise ValueError(
            f"margin: expected numbers from {1 / LARGEST_MARGIN:g} to {LARGEST_MARGIN:g}, got "
            f"{shown(margin)}"
        )
    return low, high


def check_magnitude(blocks: Blocks, name: str) -> None:
    """Entries whose squares and fourth powers are still numbers."""
    xp = blocks.xp
    largest = max(float(xp.max(xp.abs(array))) for array in blocks.arrays)
    if largest > LARGEST_ENTRY:
        raise ValueError(
            f"{name}: expected entries of at most {LARGEST_ENTRY:g}, whose fourth powers are "
            f"numbers, got {largest:g}; rescale {name}"
        )


def check_spread(blocks: Blocks, name: str) -> None:
    """Samples whose differences have squares that are numbers, where they differ at all."""
    for m, array in enumerate(blocks.arrays):
        spread = float(np.max(np.ptp(array, axis=0)))
        if 0 < spread < LEAST_SPREAD:
            raise ValueError(
                f"{name}: expected samples that differ by at least {LEAST_SPREAD:g}, so that the "
                f"squares of differences are numbers, got at most {spread:g} in block {m}; rescale "
                f"{name}"
            )


def hint_at_raw_covariances(blocks: Blocks) -> str | None:
    """What to say where a block looks like covariance matrices whose logarithm was forgotten."""
    for m, (array, (n, width)) in enumerate(zip(blocks.arrays, blocks.block_shapes, strict=True)):
        if n != width or n == 1:
            continue
        some = array[:: max(1, len(array) // 100)]
        scale = np.max(np.abs(some))
        if scale == 0 or np.max(np.abs(some - np.swapaxes(some, 1, 2))) > 1e-6 * scale:
            continue
        values = np.linalg.eigvalsh(some)
        if np.min(values) > 0 and np.median(values[:, -1] / values[:, 0]) > LEAST_CONDITION:
            return (
                f"X: block {m} holds symmetric positive definite matrices, as covariances are. "
                "Their logarithm is usually what a linear metric needs: put "
                "tatml.features.LogEuclidean() before this estimator"
            )
    return None


def check_prior(
    prior: Any, blocks: Blocks, from_host: bool = False, dtype: str = "float64"
) -> list[Array]:
    """M positive definite matrices; for one block, the matrix itself will do.

    With `from_host`, of any kind: where X itself is brought into the memory of the host. `dtype` is
    the precision of the computation, which limits the sizes.
    """
    sizes = [n for n, _ in blocks.block_shapes]
    if blocks.n_blocks == 1 and _shape(prior) == (sizes[0], sizes[0]):
        prior = [prior]
    matrices = _as_square(prior, sizes, "prior", blocks.arrays[0], from_host)
    largest = LARGEST_PRIOR[dtype]
    for m, matrix in enumerate(matrices):
        _check_posdef(matrix, f"prior: block {m}")
        xp = namespace(matrix)
        diagonal = xp.linalg.diagonal(matrix)
        if float(xp.max(diagonal)) > largest or float(xp.min(diagonal)) < 1 / largest:
            raise ValueError(
                f"prior: block {m}: expected a diagonal from {1 / largest:g} to {largest:g} with "
                f"dtype={dtype!r}, got {float(xp.min(diagonal)):g} to {float(xp.max(diagonal)):g}"
            )
    return matrices


def check_init(init: Any, sizes: Sequence[int], like: Array) -> Any:
    """An earlier result with L and b0 that fit."""
    try:
        L, b0 = init.L, float(init.b0)
    except Exception as error:  # it may be any object
        raise TypeError(
            f"init: expected an earlier result, with L and b0, got {type(init).__name__}"
        ) from error
    if not isfinite(b0):
        raise ValueError(f"init: expected a finite b0, got {b0}")
    for m, factor in enumerate(_as_square(L, sizes, "init", like, from_host=True)):
        xp = namespace(factor)
        if not bool(xp.all(xp.isfinite(factor))):
            raise ValueError(f"init: block {m}: expected finite numbers, got NaN or infinity")
        if not isfinite(float(xp.linalg.slogdet(factor)[1])):
            raise ValueError(f"init: block {m}: expected an invertible L, got a singular one")
    return init


def _shape(values: Any) -> tuple[int, ...] | None:
    try:
        return tuple(values.shape) if hasattr(values, "shape") else np.shape(values)
    except Exception:  # parts of several shapes, on a GPU, or no array at all
        return None


def _as_square(
    matrices: Any, sizes: Sequence[int], name: str, like: Array, from_host: bool
) -> list[Array]:
    """One array of shape (n_m, n_m) per block."""
    matrices = as_list(name, matrices, "a list of matrices")
    arrays = [as_array_like(matrix, name, "X", like, from_host) for matrix in matrices]
    shapes, expected = [tuple(array.shape) for array in arrays], [(n, n) for n in sizes]
    if shapes != expected:
        raise ValueError(f"{name}: expected matrices of shapes {expected}, got {shapes}")
    return arrays


def _check_posdef(matrix: Array, name: str) -> None:
    xp = namespace(matrix)
    if not xp.all(xp.isfinite(matrix)):
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    difference = float(xp.max(xp.abs(matrix - matrix.T)))
    if difference > 1e-8 * float(xp.max(xp.abs(matrix))):
        raise ValueError(
            f"{name}: expected a symmetric matrix, got entries that differ by {difference:.3g}"
        )
    diagonal = xp.linalg.diagonal(matrix)
    scale = xp.sqrt(xp.where(diagonal > 0, diagonal, 1.0))  # so that units do not matter
    lowest = xp.min(xp.linalg.eigvalsh(matrix / scale / scale[:, None]))
    if xp.min(diagonal) <= 0 or lowest <= 1e-14:
        values = xp.linalg.eigvalsh(matrix)
        raise ValueError(
            f"{name}: expected a positive definite matrix, got eigenvalues from "
            f"{float(values[0]):.3g} to {float(values[-1]):.3g}"
        )


def check_index_kind(blocks: Blocks, **given: Any) -> None:
    """Pairs, labels and weights: of NumPy, plain lists, or of the kind of the samples."""
    like = blocks.arrays[0]
    for name, values in given.items():
        if foreign_kind(values) not in (None, foreign_kind(like)):
            raise TypeError(
                f"{name}: expected a NumPy array or one of the kind of X, {place_of(like)}, got "
                f"{place_of(values)}"
            )
