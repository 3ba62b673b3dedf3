"""Texts of messages: shortened, on one line, and never an error of their own."""

from dataclasses import dataclass

import pytest

from tatml._messages import named_error, quoted, shown, shown_settings, suggestion


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")


def test_values_are_shown_on_one_line_with_200_characters():
    assert shown("a" * 198) == repr("a" * 198)  # 200 with its quotes
    assert shown("a" * 199) == "'" + "a" * 199 + "…"
    assert shown(Unprintable()) == "a value of type Unprintable"
    assert "\n" not in shown([[list(range(9))] * 9])


def test_eight_names_are_listed_and_the_others_counted():
    names = [f"n{i}" for i in range(10)]
    assert quoted([]) == "nothing"
    assert quoted(names[:8]) == ", ".join(map(repr, names[:8]))
    assert quoted(names[:9]) == quoted(names[:8]) + " and 1 more"
    assert quoted(names) == quoted(names[:8]) + " and 2 more"


def test_similar_names_are_suggested():
    assert suggestion("tatmlpair", ["TATMLPairs", "TATML"]) == "; did you mean 'TATMLPairs'?"
    assert suggestion("abcde", ["abcxy"]) == "; did you mean 'abcxy'?"  # a ratio of 0.6
    assert suggestion("abcde", ["abwxy"]) == ""  # 0.4
    assert suggestion("abcd", []) == ""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TypeError("wrong"), TypeError("X: wrong")),
        (KeyError(), ValueError("X: KeyError")),
        (ValueError("X has 3 features"), ValueError("X has 3 features")),
        (ValueError("Input X contains NaN"), ValueError("Input X contains NaN")),
        (ValueError("Xs are wrong"), ValueError("X: Xs are wrong")),
        (ValueError("no array passed for X"), ValueError("no array passed for X")),
    ],
)
def test_errors_of_others_name_the_parameter(error, expected):
    found = named_error("X", error)
    assert (type(found), str(found)) == (type(expected), str(expected))


@dataclass
class Settings:
    count: int = 1
    flag: bool = True
    word: str = "a"


def test_settings_show_what_differs_from_the_defaults():
    assert shown_settings(Settings()) == "Settings()"
    assert shown_settings(Settings(2, word="b")) == "Settings(count=2, word='b')"
    assert shown_settings(Settings(count=1.0)) == "Settings(count=1.0)"  # another type
