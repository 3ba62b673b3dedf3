"""Checks of what a user gave: each error names the parameter, what was expected and what came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRED_DISTANCES
from sklearn.utils import check_random_state

from ._array import Array, foreign_kind, namespace, place_of
from .blocks import Blocks, as_array_like
from .solvers import OPTIONS

LARGEST_ENTRY = 1e60
LEAST_CONDITION = 5  # of covariance matrices; logarithms that are positive definite stay below it


class WrongTypeError(TypeError, ValueError):
    """A value of a wrong type; caught as either, like scikit-learn's own error of parameters."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """One of some words."""
    if not isinstance(value, str) or value not in tuple(choices):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name}: expected one of {listed}, got {value!r}")


def check_options(solver: str, **given: str) -> dict[str, str]:
    """Those of the options that are the solver's own; another solver's must keep its default."""
    for owner, options in OPTIONS.items():
        for name, choices in options.items():
            check_choice(name, given[name], choices)
            if owner != solver and given[name] != choices[0]:
                raise ValueError(
                    f"{name}: belongs to solver={owner!r}, got {given[name]!r} with "
                    f"solver={solver!r}"
                )
    return {name: given[name] for name in OPTIONS[solver]}


def check_positive(name: str, value: Any, or_infinite: bool = False) -> float:
    """A number above zero."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name}: expected a number, got {value!r}")
    kind = "a positive number" + (" or numpy.inf" if or_infinite else "")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError(f"{name}: expected {kind}, got more than a float can hold") from error
    if not (number > 0 and (isfinite(number) or (or_infinite and number == inf))):
        raise ValueError(f"{name}: expected {kind}, got {value!r}")
    return number


def check_number_or(name: str, value: Any, word: str) -> float | None:
    """A positive number, or None for the word that stands for finding one."""
    if isinstance(value, str):
        if value != word:
            raise TypeError(f"{name}: expected a number or {word!r}, got {value!r}")
        return None
    return check_positive(name, value)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least 1, or another least one."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {value}")
    return int(value)


def check_finite(name: str, value: Any) -> float:
    """A finite number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise WrongTypeError(f"{name}: expected a number, got {value!r}")
    if not isfinite(value):
        raise ValueError(f"{name}: expected a finite number, got {value!r}")
    return float(value)


def check_not_negative(name: str, value: Any) -> float:
    """A finite number of at least zero."""
    if not check_finite(name, value) >= 0:
        raise ValueError(f"{name}: expected a finite number of at least 0, got {value!r}")
    return float(value)


def check_share(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    if check_not_negative(name, value) > 1:
        raise ValueError(f"{name}: expected a number from 0 to 1, got {value!r}")
    return float(value)


def check_two(name: str, values: Any, what: str) -> tuple[float, float]:
    """Two numbers."""
    try:
        low, high = values
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected {what}, got {values!r}") from error
    if isinstance(values, str):
        raise TypeError(f"{name}: expected {what}, got {values!r}")
    return low, high


def check_bounds(bounds: Any) -> tuple[float, float]:
    """ITML's two bounds of squared distances, 0 < u ≤ l."""
    low, high = check_two("bounds", bounds, "two numbers (upper of similar, lower of dissimilar)")
    low, high = check_positive("bounds", low), check_positive("bounds", high)
    if low > high:
        raise ValueError(f"bounds: expected the first to be at most the second, got {bounds!r}")
    return low, high


def check_percentiles(percentiles: Any) -> tuple[float, float]:
    """Two percentiles in ascending order."""
    low, high = check_two("percentiles", percentiles, "two numbers from 0 to 100")
    check_not_negative("percentiles", low)
    if not low < check_not_negative("percentiles", high) <= 100:
        raise ValueError(f"percentiles: expected 0 ≤ low < high ≤ 100, got {percentiles!r}")
    return low, high


def check_grid(name: str, values: Any) -> list[float]:
    """Some positive numbers."""
    if isinstance(values, str | Real):
        raise TypeError(f"{name}: expected a sequence of positive numbers, got {values!r}")
    try:
        numbers = [check_positive(name, value) for value in values]
    except TypeError as error:
        raise TypeError(f"{name}: expected positive numbers, got {values!r}") from error
    if not numbers:
        raise ValueError(f"{name}: expected at least one number, got none")
    return numbers


def check_words(name: str, values: Any, choices: Iterable[str]) -> None:
    """Some words, each one of those that there are."""
    if isinstance(values, str) or not hasattr(values, "__iter__") or not list(values):
        raise TypeError(f"{name}: expected a sequence of words, got {values!r}")
    for value in values:
        check_choice(name, value, choices)


def check_rate(name: str, value: Any, needed: bool, strategy: str) -> None:
    """A number from 0 to 1 where the strategy needs it, None otherwise."""
    if value is None and not needed:
        return
    if not needed:
        raise ValueError(f"{name}: expected None with strategy={strategy!r}, got {value!r}")
    if not isinstance(value, Real) or isinstance(value, bool):
        raise WrongTypeError(
            f"{name}: expected a number from 0 to 1 with strategy={strategy!r}, got {value!r}"
        )
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a number from 0 to 1, got {value!r}")


def check_callable(name: str, value: Any) -> Any:
    """A function, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name}: expected a function or None, got {value!r}")
    return value


def check_metric(metric: Any) -> None:
    """A distance of pairs of vectors: a name that scikit-learn knows, or a function."""
    if not callable(metric):
        check_choice("metric", metric, ["precomputed", *PAIRED_DISTANCES])


def check_random(value: Any) -> Any:
    """A source of random numbers, from None, a seed, a RandomState or a Generator."""
    if hasattr(value, "permutation") and hasattr(value, "choice"):
        return value
    try:
        return check_random_state(value)
    except ValueError as error:
        raise ValueError(
            f"random_state: expected None, an integer, a RandomState or a Generator, got {value!r}"
        ) from error


def check_margin(margin: Any) -> tuple[float, float]:
    """Two numbers 0 < γ_s < γ_d."""
    low, high = check_two("margin", margin, "two numbers (γ_s, γ_d)")
    low, high = check_positive("margin", low), check_positive("margin", high)
    if not low < high:
        raise ValueError(f"margin: expected 0 < γ_s < γ_d, got {margin!r}")
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


def check_prior(prior: Any, blocks: Blocks, from_host: bool = False) -> list[Array]:
    """M positive definite matrices; for one block, the matrix itself will do.

    With `from_host`, of any kind: where X itself is brought into the memory of the host.
    """
    sizes = [n for n, _ in blocks.block_shapes]
    if blocks.n_blocks == 1 and _shape(prior) == (sizes[0], sizes[0]):
        prior = [prior]
    matrices = _as_square(prior, sizes, "prior", blocks.arrays[0], from_host)
    for m, matrix in enumerate(matrices):
        _check_posdef(matrix, f"prior: block {m}")
    return matrices


def check_for_shards(solver: str, linear_solver: str, dtype: str) -> None:
    """Only Newton works on sums alone, and not in as many dimensions as there are active pairs."""
    if dtype != "float64":
        raise ValueError(f"dtype: expected 'float64' where pairs are read in parts, got {dtype!r}")
    if solver != "newton":
        raise ValueError(f"solver: expected 'newton' where pairs are read in parts, got {solver!r}")
    if linear_solver == "woodbury":
        raise ValueError(
            "linear_solver: expected 'auto', 'dense' or 'cg' where pairs are read in parts, got "
            "'woodbury'"
        )


def check_init(init: Any, sizes: Sequence[int], like: Array) -> Any:
    """An earlier result with L and b0 that fit."""
    try:
        L, b0 = init.L, float(init.b0)
    except (AttributeError, TypeError, ValueError) as error:
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
    except (TypeError, ValueError):  # parts of several shapes, or on a GPU
        return None


def _as_square(
    matrices: Any, sizes: Sequence[int], name: str, like: Array, from_host: bool
) -> list[Array]:
    """One array of shape (n_m, n_m) per block."""
    try:
        matrices = list(matrices)
    except TypeError as error:
        raise TypeError(f"{name}: expected a list of matrices, got {matrices!r}") from error
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


def check_solver_kind(solver: str, like: Array, dtype: str) -> None:
    """Dykstra runs on NumPy's float64 alone."""
    if solver != "newton" and (foreign_kind(like) is not None or dtype != "float64"):
        raise ValueError(
            f"solver: expected 'newton' for {place_of(like)} arrays and dtype={dtype!r}, got "
            f"{solver!r}, which runs on NumPy's float64"
        )
