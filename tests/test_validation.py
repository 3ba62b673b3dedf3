"""Checks of scalars: the largest and smallest values that are accepted, and the next ones."""

from fractions import Fraction
from math import inf, nan, nextafter
from sys import maxsize

import numpy as np
import pytest

from tatml import _validation as check

# Check of one value: values that are accepted, and values that are refused.
LIMITS = {
    "check_positive": ([5e-324, 1e308, 1, Fraction(1, 4), np.float32(2)], [0, -1.0, inf, nan]),
    "check_count": ([1, np.int64(7), maxsize], [0, -1, maxsize + 1, 1.0, True, "1"]),
    "check_finite": ([-1e308, 0, np.float64(2)], [inf, -inf, nan, True, 1j, 10**400]),
    "check_not_negative": ([0, 0.0, 1e308], [-5e-324, nan, inf]),
    "check_share": ([0, 1, 0.5], [nextafter(1, 2), -1e-9, nan]),
    "check_flag": ([True, False, 0, 1, np.True_], [None, "yes", 1.0]),
    "check_jobs": ([None, 1, -1, 10_000, -10_000], [0, 10_001, -10_001, 1.5, True]),
    "check_callable": ([None, len], [1, "len"]),
}


def test_limits_of_a_value():
    for name, (accepted, refused) in LIMITS.items():
        function = getattr(check, name)
        for value in accepted:
            assert function("x", value) == value, (name, value)
        for value in refused:
            with pytest.raises((TypeError, ValueError), match=r"^x: expected "):
                function("x", value)


def test_limits_of_a_margin():
    for value in ((0.5, 2), (1e-50, 1e50)):
        assert check.check_margin(value) == value
    for value in ((1, 1), (2, 1), (0.9e-50, 1), (1, 1.1e50), (0, 1), (1,), (1, 2, 3), "12", 1):
        with pytest.raises((TypeError, ValueError), match=r"^margin: expected "):
            check.check_margin(value)


def test_options_of_the_checks():
    assert check.check_positive("x", inf, or_infinite=True) == inf
    assert check.check_count("x", 0, least=0) == 0
    assert check.check_number_or("x", "auto", "auto") is None
    assert check.check_number_or("x", 2, "auto") == 2.0
    for wrong in (-inf, nan):
        with pytest.raises(ValueError, match=r"a positive number or numpy\.inf"):
            check.check_positive("x", wrong, or_infinite=True)
    with pytest.raises(TypeError, match="a number or 'auto'"):
        check.check_number_or("x", "none", "auto")


def test_rates_are_needed_or_none():
    for value in (0, 1, 0.5):
        check.check_rate("x", value, True, "max_tpr")
    check.check_rate("x", None, False, "accuracy")
    for value, needed in ((None, True), (1.1, True), (-0.1, True), (True, True), (0.5, False)):
        with pytest.raises((TypeError, ValueError), match=r"^x: expected"):
            check.check_rate("x", value, needed, "accuracy")


def test_random_numbers_come_from_seeds_and_generators():
    for source in (np.random.RandomState(0), np.random.default_rng(0)):
        assert check.check_random(source) is source
    assert check.check_random(3).randint(1000) == np.random.RandomState(3).randint(1000)
    for wrong in (-1, 2**32, "seed", np.random.RandomState):
        with pytest.raises(ValueError, match=r"^random_state: expected"):
            check.check_random(wrong)
