"""What is refused: by whom, by which error, in which words, and that nothing changes."""

import re

import pytest
import refused_pairs
import refused_parameters
import refused_samples
from fuzz_outcomes import SKLEARN_MESSAGES, run_case
from good_calls import changed_call

TABLE = refused_parameters.TABLE | refused_samples.TABLE | refused_pairs.TABLE
# Messages that do not say "expected …, got …": of scikit-learn, or about a function of the user.
OTHER_WORDS = (
    *SKLEARN_MESSAGES,
    "metric: ",
    "X: int too large to convert to float",
    "solver: ITML's projections are for vectors in one block, got",
    "prior='covariance': the covariance of block 0 has rank 3, expected 4",
)


def wrong_refusals(refusal, again):
    """Make the calls of a refusal, and return what is wrong with how they ended."""
    for target in refusal.targets:
        outcome = run_case(changed_call(target, refusal.given, refusal.kind, again))
        message = f"{type(outcome.error).__name__}: {outcome.error}"
        for complaint in [*outcome.complaints, *wrong_words(refusal, outcome.error)]:
            yield f"{target} with {shown(refusal.given)}: {complaint}; got {message[:300]}"


def wrong_words(refusal, error):
    message = str(error)
    if not isinstance(error, refusal.error):
        yield f"expected {refusal.error.__name__}"
    if not re.match(refusal.words, message):
        yield f"expected the words {refusal.words!r}"
    if "\n" in message:
        yield "expected one line"
    if not re.search("expect.*got", message) and not re.match("|".join(OTHER_WORDS), message):
        yield "expected a message that says what was expected and what was given"


def shown(given):
    try:
        return repr(given)[:200]
    except Exception:
        return f"values of {', '.join(given)}"


@pytest.mark.parametrize("section", TABLE)
def test_what_is_refused_is_named_and_changes_nothing(section):
    """Every second fit is that of an estimator that was fitted before."""
    complaints = []
    for number, refusal in enumerate(TABLE[section]):
        assert refusal.targets, refusal
        complaints += wrong_refusals(refusal, again=number % 2 == 1)
    assert complaints == []
